//! A drmemtrace trace, as DynamoRIO's view tool prints it (`drrun -t drmemtrace -tool view -indir
//! DIR 2> FILE`).
//!
//! ```text
//! Output format:
//! <--record#-> <--instr#->: <---tid---> <record details>
//! ------------------------------------------------------------
//!            5           0:     2765542 <marker: page size 4096>
//!            9           1:     2765542 ifetch       4 byte(s) @ 0x0000000000404a7e 48 8b 5c 24          mov ...
//!           10           1:     2765542 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e
//!           11           1:     2765542 write        8 byte(s) @ 0x00007fdf64e2ad80 by PC 0x0000000000404a7e
//! View tool results:
//!               1 : total instructions
//! ```
//!
//! Anything that is not the tool's is an error. Records of several programs say so (`W0.T17`,
//! `W1.T18`). (DynamoRIO 11, `clients/drcachesim/tools/view.cpp`.)

use crate::accesses::Accesses;
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused};
use crate::{Error, Sink};

struct View<'a, S> {
    accesses: Accesses<'a, S>,
    /// The program (`W0`) of the records so far, where they say.
    workload: Option<u64>,
}

/// Whether a stream begins like this.
pub(super) fn is(head: &[u8]) -> bool {
    head.starts_with(b"Output format:") || head.starts_with(b"<--record#")
}

/// Reads a stream into `sink`.
pub(super) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut view = View { accesses: Accesses::new(sink), workload: None };
    lines::read(stream, &mut view, progress)?;
    let page_size = view.accesses.page_size();
    let end = view.accesses.finish("a view of a drmemtrace trace")?;
    Ok(Imported { end, page_size, instruction_fetches: true, source: "drmemtrace", ..Imported::default() })
}

impl<S: Sink> Lines for View<'_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let line = line.trim_ascii();
        if is_frame(line) {
            return Ok(());
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let number =
            |word: Option<&[u8]>| word.and_then(lines::decimal).ok_or("not a record of the view tool");
        number(words.next())?;
        number(words.next().and_then(|word| word.strip_suffix(b":")))?;
        let mut operation = words.next().ok_or("a record without details")?;
        if let Some(workload) = thread(operation) {
            let first = *self.workload.get_or_insert(workload);
            if first != workload {
                return Err("another program: import one at a time".into());
            }
            operation = words.next().ok_or("a record without details")?;
        }
        let write = match operation {
            b"ifetch" => {
                self.accesses.instruction()?;
                false
            }
            b"read" => false,
            b"write" => true,
            b"iflush" | b"dflush" | b"non-fetched" => return Ok(()),
            marker if marker.starts_with(b"<") => return self.marker(line),
            prefetch if prefetch.starts_with(b"pref") => return Ok(()),
            // More bytes of the instruction before than fit its line.
            _ if is_code(operation) && words.all(is_code) => return Ok(()),
            _ => return Err("not a record of the view tool".into()),
        };
        let length = words.next().and_then(lines::decimal).filter(|length| *length < 1 << 16);
        let unit = (words.next(), words.next());
        let address = words.next().and_then(|word| word.strip_prefix(b"0x")).and_then(lines::hexadecimal);
        match (length, unit, address) {
            (Some(length), (Some(b"byte(s)"), Some(b"@")), Some(address)) => {
                self.accesses.access(address, length, write)
            }
            _ => Err("not a number of bytes and an address".into()),
        }
    }

    fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }
}

impl<S: Sink> View<'_, S> {
    /// A record that is no access, such as one with the size of a page.
    fn marker(&mut self, line: &[u8]) -> Result<(), Refused> {
        let text = String::from_utf8_lossy(line);
        if let Some((_, size)) = text.split_once("<marker: page size ") {
            let size =
                size.strip_suffix('>').and_then(|size| size.parse().ok()).ok_or("not the size of a page")?;
            self.accesses.set_page_size(size)?;
        }
        Ok(())
    }
}

/// What stands around the records and between them.
fn is_frame(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte == b'-')
        || line == b"<...>"
        || is(line)
        || line == b"View tool results:"
        || line.ends_with(b": total instructions")
        || line.ends_with(b": total disassembled instructions")
}

/// The program of a thread (`1234`, `T1234`, `W0.T1234`): 0 if it does not say.
fn thread(word: &[u8]) -> Option<u64> {
    let (workload, thread) = match word.strip_prefix(b"W") {
        Some(rest) => {
            let dot = rest.iter().position(|byte| *byte == b'.')?;
            (lines::decimal(&rest[..dot])?, &rest[dot + 1..])
        }
        None => (0, word),
    };
    // A byte of code (`48`) could be a thread by its looks; but a record has a thread before it.
    lines::decimal(thread.strip_prefix(b"T").unwrap_or(thread)).map(|_| workload)
}

/// A byte of code, in hexadecimal.
fn is_code(word: &[u8]) -> bool {
    word.len() == 2 && word.iter().all(u8::is_ascii_hexdigit)
}
