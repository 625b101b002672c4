//! The process that writes the trace of a watch.

use crate::message::{Message, next};
use std::io::{self, BufRead, Write};
use std::path::Path;
use sweephand_output::{Output, OutputError};
use sweephand_trace::{AllocKind, EndTotals, Epochs, Error, Metadata, Writer};

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
}

/// Writes a trace of what a watcher tells, until it says that this is all or has gone. `in_use`:
/// files that the trace must not replace. `ready` is told when the file is open.
pub fn keep(
    from: &mut impl BufRead,
    path: &Path,
    in_use: &[&Path],
    mut ready: impl Write,
) -> Result<(), KeepError> {
    let out = Output::create(path, in_use)?;
    writeln!(ready, "{READY}")?;
    ready.flush()?;
    let metadata = Metadata {
        source: "a running process".to_string(),
        producer: concat!("sweephand watch ", env!("CARGO_PKG_VERSION")).to_string(),
        complete: false,
        ended: "the watcher was killed".to_string(),
        ..Metadata::default()
    };
    let in_output = |error: Error| error.in_output(path);
    let mut writer = Writer::new(out, metadata).map_err(in_output)?;
    let mut epochs = Epochs { epochs: 0, longest_ns: 0, largest_pages: 0 };
    while let Some((message, pages)) = next(from)? {
        match message {
            Message::Begin { program, command } => {
                let metadata = writer.metadata_mut();
                (metadata.program, metadata.command) = (program, command);
            }
            Message::Mapped { address, bytes } => {
                writer.alloc(address, bytes, AllocKind::Mmap).map_err(in_output)?;
            }
            Message::Unmapped { address } => writer.free(address).map_err(in_output)?,
            Message::Dropped { first_page, pages } => writer.unmap(first_page, pages).map_err(in_output)?,
            Message::Epoch { ns, .. } => {
                for page in &pages {
                    writer.reference(page.number, page.dirty).map_err(in_output)?;
                }
                writer.mark(0, pages.len() as u64).map_err(in_output)?;
                epochs.epochs += 1;
                epochs.longest_ns = epochs.longest_ns.max(ns);
                epochs.largest_pages = epochs.largest_pages.max(pages.len() as u64);
            }
            Message::Note(words) => writer.metadata_mut().notes.push(words),
            Message::End { words, complete } => {
                let metadata = writer.metadata_mut();
                (metadata.ended, metadata.complete) = (words, complete);
            }
        }
    }
    writer.metadata_mut().epochs = Some(epochs);
    // No instruction was counted.
    let (out, _) = writer.finish(EndTotals::default()).map_err(in_output)?;
    Ok(out.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceSender;
    use sweephand_pager::watch::UsedPage;
    use sweephand_trace::{Chunk, Trace};

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sender =
            TraceSender::begin(&mut bytes, "prog", &["prog".to_string(), "x".to_string()]).unwrap();
        let page = |number| UsedPage { number, dirty: number % 2 == 0 };
        sender.mapped(0x10_0000, 0x40_0000).unwrap();
        sender.epoch(&[page(256), page(257), page(300)], 1_000).unwrap();
        sender.dropped(&(256..258)).unwrap();
        sender.epoch(&[page(256), page(400)], 2_000).unwrap();
        sender.note("a note").unwrap();
        sender.end("the time was over", true).unwrap();
        bytes
    }

    #[test]
    fn a_trace_is_readable_wherever_the_stream_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.swt");
        let bytes = stream();
        for length in 0..=bytes.len() {
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
        assert_eq!(metadata.epochs, Some(Epochs { epochs: 2, longest_ns: 2_000, largest_pages: 3 }));
        let mut chunk = Chunk::new();
        trace.read_chunk(0, &mut chunk).unwrap();
        let references: Vec<_> = chunk.references.iter().map(|of| (of.page(), of.is_write())).collect();
        assert_eq!(references, [(0, true), (1, false), (2, true), (0, true), (3, true)]);
    }
}
