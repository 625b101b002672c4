//! DynamoRIO's drmemtrace, in two forms: [the records](records) that it stores, and [what its view
//! tool prints](view) of them. The first bytes tell them apart.
//!
//! In both, fetches of instructions are references too (reads). An access across the end of a page
//! touches both pages. Instructions are counted; a marker gives the page size (4 KiB without one).
//! Prefetches and flushes of caches touch no page: they do not fault. Threads share their memory,
//! in the order of the file. The records of several programs in one file would not, and are
//! refused. Allocations and unmaps the file does not tell.

pub mod records;
pub mod view;

use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::{Error, Sink};

/// Whether a stream begins like this.
pub(crate) fn is(head: &[u8]) -> bool {
    records::is(head) || view::is(head)
}

/// Reads a stream into `sink`.
pub(crate) fn read(
    mut stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    stream.fill_to(records::RECORD)?;
    if records::is(stream.buffered()) {
        let bad_rows = stream.intake.borrow().bad_rows;
        bad_rows.check("this format has no rows that can be skipped")?;
        records::read(stream, sink, progress)
    } else {
        view::read(stream, sink, progress)
    }
}
