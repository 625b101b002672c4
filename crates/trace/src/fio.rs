//! fio: the log of requests that fio writes (`--write_iolog`) and replays (`--read_iolog`).
//!
//! ```text
//! fio version 3 iolog
//! 21 /dev/sda add
//! 102 /dev/sda open
//! 106 /dev/sda write 57344 8192
//! 190 /dev/sda close
//! ```
//!
//! A line of version 3 has a time, a file, an action and, where the action reads, writes or trims,
//! the first byte and the number of bytes. Version 2 has no times. Every page that a request covers
//! is one reference, and a trim drops the contents of the whole pages in it. Each file has pages of
//! its own, of 4 KiB. Other actions (add, open, close, wait, and all kinds of sync) touch no page.
//! Times are not kept. A line with the version may come again, where logs stand one behind the
//! other. (fio 3.42, *Trace file format* in `HOWTO`, and `io_ddir.h`.)

use crate::accesses::{Accesses, Disks};
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused, decimal};
use crate::{Error, Sink};

/// How a log begins, before the number of its version.
const MARK: &[u8] = b"fio version ";

struct Fio<'a, S> {
    accesses: Accesses<'a, S>,
    /// Its lines begin with a time. Unknown before the first line.
    has_times: Option<bool>,
    files: Disks,
}

/// Whether a stream begins like this.
pub(crate) fn is(head: &[u8]) -> bool {
    head.starts_with(MARK)
}

/// Reads a stream into `sink`.
pub(crate) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut fio = Fio { accesses: Accesses::new(sink), has_times: None, files: Disks::default() };
    lines::read(stream, &mut fio, progress)?;
    let page_size = fio.accesses.page_size();
    let end = fio.accesses.finish("an iolog of fio")?;
    Ok(Imported { end, page_size, source: "fio", ..Imported::default() })
}

impl<S: Sink> Lines for Fio<'_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        if self.has_times.is_none() || line.starts_with(MARK) {
            self.has_times = Some(match line.trim_ascii() {
                b"fio version 2 iolog" => false,
                b"fio version 3 iolog" => true,
                _ => return Err("neither version 2 nor version 3 of fio's iologs".into()),
            });
            return Ok(());
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut word = || words.next().ok_or("an iolog's line has a file and an action");
        if self.has_times == Some(true) {
            decimal(word()?).ok_or("not a time in the first column")?;
        }
        let (file, action) = (word()?, word()?);
        let is_request = match action {
            b"read" | b"write" | b"trim" => true,
            b"add" | b"open" | b"close" | b"wait" => false,
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => false,
            _ => return Err("not an action of an iolog".into()),
        };
        if !is_request {
            return Ok(());
        }
        let numbers = (words.next().and_then(decimal), words.next().and_then(decimal));
        let (Some(offset), Some(bytes)) = numbers else {
            return Err("not an offset and a number of bytes".into());
        };
        let number = self.files.number(file);
        match action {
            b"trim" => self.accesses.discard(number, offset, bytes),
            _ => self.accesses.request(number, offset, bytes, action == b"write"),
        }
    }

    fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }
}
