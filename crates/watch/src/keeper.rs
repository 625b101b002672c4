//! The process that writes the trace of a watch, or of a live recording.

use crate::look::UsedPage;
use crate::message::{Message, next};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use sweephand_output::{Output, OutputError, Room};
use sweephand_trace::{AllocKind, EndTotals, Epochs, Error, Metadata, Window, Writer};

/// What the process prints when the trace can be written.
pub const READY: &str = "ready";

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// It cannot be put there.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// It cannot be written.
    #[error(transparent)]
    Trace(#[from] Error),
    /// The watcher cannot be heard.
    #[error("the watcher cannot be heard")]
    Pipe(#[from] io::Error),
    /// There is no more room. The trace ends there.
    #[error("{}: the disk is full; the trace ends there", .0.display())]
    Full(PathBuf),
}

/// Bytes on the disk that are the trace's before they are needed: enough for what comes between two
/// looks, and for the end of the trace.
const ROOM_BYTES: u64 = 4 << 20;
/// Records and messages between two looks at whether there is room.
const ITEMS_A_LOOK: u64 = 1 << 16;
/// Stretches of epochs, whose windows the trace says. Where there are more, two become one.
const MOST_STRETCHES: usize = 512;

/// A trace that is being written.
struct Keeping<'a> {
    path: &'a Path,
    in_use: &'a [&'a Path],
    writer: Writer<Output>,
    room: Room,
    epochs: Epochs,
    began: Instant,
    windows: Vec<Window>,
    /// Time in epochs so far.
    elapsed_ns: u64,
    records: u64,
    /// Records that belong to the epoch that goes on.
    epoch_records: u64,
}

impl<'a> Keeping<'a> {
    fn begin(path: &'a Path, in_use: &'a [&'a Path]) -> Result<Self, KeepError> {
        let out = Output::create(path, in_use)?;
        let room = out.room()?;
        // If there is less, a short trace may still be written.
        let _ = room.ensure(ROOM_BYTES);
        let metadata = Metadata {
            source: "a running process".to_string(),
            producer: concat!("sweephand watch ", env!("CARGO_PKG_VERSION")).to_string(),
            complete: false,
            ended: "the watcher was killed".to_string(),
            ..Metadata::default()
        };
        Ok(Self {
            path,
            in_use,
            writer: Writer::new(out, metadata).map_err(|error| error.in_output(path))?,
            room,
            epochs: Epochs::default(),
            began: Instant::now(),
            windows: Vec::new(),
            elapsed_ns: 0,
            records: 0,
            epoch_records: 0,
        })
    }

    /// Takes in a message with its pages.
    fn take(&mut self, message: Message, pages: &[UsedPage]) -> Result<(), KeepError> {
        match message {
            Message::Begin { program, command } => {
                let metadata = self.writer.metadata_mut();
                (metadata.program, metadata.command) = (program, command);
            }
            Message::BeginRecording { program, command } => {
                self.room.release()?;
                *self = Self::begin(self.path, self.in_use)?;
                self.epochs.ordered = true;
                let metadata = self.writer.metadata_mut();
                (metadata.program, metadata.command) = (program, command);
                metadata.source = "a live recording".to_string();
                metadata.producer = concat!("sweephand record ", env!("CARGO_PKG_VERSION")).to_string();
                metadata.ended = "the recorder was killed".to_string();
                // What the kernel touches for the program faults like its own touches.
                metadata.system_calls = true;
            }
            message => self.write(message, pages).map_err(|error| error.in_output(self.path))?,
        }
        Ok(())
    }

    fn write(&mut self, message: Message, pages: &[UsedPage]) -> Result<(), Error> {
        match message {
            Message::Mapped { address, bytes } => self.writer.alloc(address, bytes, AllocKind::Mmap),
            Message::Unmapped { address } => self.writer.free(address),
            Message::Dropped { first_page, pages } => self.writer.unmap(first_page, pages),
            Message::Moved { from, to, pages } => self.writer.remap(from, to, pages),
            Message::Touched { .. } => self.touched(pages),
            Message::Epoch { ns, one_page_in, .. } => {
                self.epochs.one_page_in = self.epochs.one_page_in.max(one_page_in);
                self.touched(pages)?;
                self.epoch_ended(ns)
            }
            Message::EpochEnded { ns } => self.epoch_ended(ns),
            Message::Contents(contents) => {
                self.writer.metadata_mut().contents = Some(contents);
                Ok(())
            }
            Message::Note(words) => {
                self.writer.metadata_mut().notes.push(words);
                Ok(())
            }
            Message::End { words, complete } => {
                let metadata = self.writer.metadata_mut();
                (metadata.ended, metadata.complete) = (words, complete);
                Ok(())
            }
            Message::Begin { .. } | Message::BeginRecording { .. } => Ok(()),
        }
    }

    fn touched(&mut self, pages: &[UsedPage]) -> Result<(), Error> {
        for page in pages {
            self.writer.reference(page.number, page.dirty)?;
        }
        self.epoch_records += pages.len() as u64;
        Ok(())
    }

    fn epoch_ended(&mut self, ns: u64) -> Result<(), Error> {
        let pages = std::mem::take(&mut self.epoch_records);
        self.writer.mark(0, pages)?;
        self.epochs.epochs += 1;
        self.epochs.longest_ns = self.epochs.longest_ns.max(ns);
        self.epochs.largest_pages = self.epochs.largest_pages.max(pages);
        if self.epochs.ordered {
            if self.windows.len() == MOST_STRETCHES {
                self.windows = self.windows.chunks(2).map(joined).collect();
            }
            let (first_record, start_ns) = (self.records, self.elapsed_ns);
            self.windows.push(Window { first_record, start_ns, ns, epochs: 1, pages });
        }
        self.records += pages;
        self.elapsed_ns += ns;
        Ok(())
    }

    /// Gives the trace its name.
    fn finish(mut self) -> Result<(), KeepError> {
        let in_output = |error: Error| error.in_output(self.path);
        if self.epochs.ordered && self.epoch_records > 0 {
            // The end is the end of an epoch. It is heard of soon.
            let all_ns = self.began.elapsed().as_nanos() as u64;
            self.epoch_ended(all_ns.saturating_sub(self.elapsed_ns)).map_err(in_output)?;
        }
        let metadata = self.writer.metadata_mut();
        (metadata.epochs, metadata.windows) = (Some(self.epochs), self.windows);
        // No instruction was counted.
        let (mut out, _) = self.writer.finish(EndTotals::default()).map_err(in_output)?;
        out.flush().map_err(|error| OutputError::NotWritten(self.path.to_path_buf(), error))?;
        self.room.release()?;
        Ok(out.commit()?)
    }
}

/// Stretches that follow each other, as one.
fn joined(windows: &[Window]) -> Window {
    let mut all = windows[0];
    for window in &windows[1..] {
        (all.ns, all.epochs) = (all.ns + window.ns, all.epochs + window.epochs);
        all.pages = all.pages.max(window.pages);
    }
    all
}

/// Writes a trace of what a watcher tells, until it says that this is all or has gone, or until the
/// disk is full. `in_use`: files that the trace must not replace. `ready` is told when the file is
/// open.
pub fn keep(
    from: &mut impl BufRead,
    path: &Path,
    in_use: &[&Path],
    mut ready: impl Write,
) -> Result<(), KeepError> {
    let mut keeping = Keeping::begin(path, in_use)?;
    writeln!(ready, "{READY}")?;
    ready.flush()?;
    let (mut items, mut looked) = (0, 0);
    while let Some((message, pages)) = next(from)? {
        keeping.take(message, &pages)?;
        items += 1 + pages.len() as u64;
        if items >= looked + ITEMS_A_LOOK {
            looked = items;
            if keeping.room.ensure(ROOM_BYTES).is_err() {
                keeping.writer.metadata_mut().ended = "the disk was full".to_string();
                keeping.finish()?;
                return Err(KeepError::Full(path.to_path_buf()));
            }
        }
    }
    keeping.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceSender;
    use sweephand_checks::trying;
    use sweephand_trace::contents::{AGES, Contents, SampledPages};
    use sweephand_trace::{Chunk, Trace};

    fn contents(moments: u64) -> Contents {
        Contents { moments, ages: vec![SampledPages::default(); AGES.len()], ..Contents::default() }
    }

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sender =
            TraceSender::begin(&mut bytes, "prog", &["prog".to_string(), "x".to_string()]).unwrap();
        let page = |number| UsedPage { number, dirty: number % 2 == 0 };
        sender.mapped(0x10_0000, 0x40_0000).unwrap();
        sender.epoch(&[page(256), page(257), page(300)], 1, 1_000).unwrap();
        sender.dropped(&(256..258)).unwrap();
        sender.epoch(&[page(256), page(400)], 4, 2_000).unwrap();
        sender.note("a note").unwrap();
        sender.contents(contents(2)).unwrap();
        sender.contents(contents(3)).unwrap();
        sender.end("the time was over", true).unwrap();
        bytes
    }

    #[test]
    fn stretches_that_are_joined_keep_their_time_and_their_epochs() {
        let stretch =
            |first_record, start_ns, ns, epochs, pages| Window { first_record, start_ns, ns, epochs, pages };
        let stretches =
            [stretch(0, 0, 100, 3, 64), stretch(192, 100, 50, 2, 80), stretch(352, 150, 7, 1, 70)];
        assert_eq!(joined(&stretches), stretch(0, 0, 157, 6, 80));
    }

    #[test]
    fn a_trace_is_readable_wherever_the_stream_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.swt");
        let bytes = stream();
        for length in 0..=bytes.len() {
            let _input = trying(|| format!("{length} bytes"));
            keep(&mut &bytes[..length], &path, &[], io::sink()).unwrap();
            let trace = Trace::open(&path).unwrap();
            let metadata = &trace.header().metadata;
            let epochs = metadata.epochs.unwrap();
            let records = trace.header().totals.records;
            assert_eq!(records, [0, 3, 5][epochs.epochs as usize]);
            assert_eq!(metadata.complete, length == bytes.len(), "{length}");
            assert_eq!(metadata.ended == "the watcher was killed", length < bytes.len());
        }
        let trace = Trace::open(&path).unwrap();
        let (totals, metadata) = (&trace.header().totals, &trace.header().metadata);
        assert_eq!((totals.distinct_pages, totals.page_ids, totals.instructions), (4, 4, None));
        assert_eq!((metadata.program.as_str(), metadata.notes.len()), ("prog", 1));
        assert_eq!(metadata.contents, Some(contents(3)), "the last one counts");
        assert_eq!(
            metadata.epochs,
            Some(Epochs { epochs: 2, longest_ns: 2_000, largest_pages: 3, ordered: false, one_page_in: 4 })
        );
        let mut chunk = Chunk::new();
        trace.read_chunk(0, &mut chunk).unwrap();
        let references: Vec<_> = chunk.references.iter().map(|of| (of.page(), of.is_write())).collect();
        assert_eq!(references, [(0, true), (1, false), (2, true), (0, true), (3, true)]);
    }
}
