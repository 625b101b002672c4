//! Page reference traces: our own format, and the formats that can be converted to it.
//!
//! - [`Trace::open`] opens a trace of any format and gives chunks of references to dense page ids.
//! - [`Writer`] takes page numbers and writes a trace. [`import()`] feeds it from other formats.
//! - [`export`] writes traces in formats of others.
//! - [`columns`] describes logs of requests (CSV, JSON lines, binary structs) so that they can be
//!   imported.
//! - [`generate`] makes reference strings. [`reduce`] makes them shorter.
//! - [`sample`] keeps only the references to pages with a small hash.
//! - [`irim`] keeps only the moments at which the use of a page changes.
//! - [`contents`] says what the pages of a program contained, as its recorder sampled it.
//! - [`mod@merge`] merges a stream of accesses into a program's references.
//!
//! [`format`](mod@format) describes our format.
//!
//! ```
//! use std::io::Cursor;
//! use sweephand_trace::{Chunk, EndTotals, Metadata, Trace, Writer};
//!
//! let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default())?;
//! for page in [7, 8, 7] {
//!     writer.reference(page, false)?;
//! }
//! let (file, header) = writer.finish(EndTotals::default())?;
//! assert_eq!((header.totals.records, header.totals.distinct_pages), (3, 2));
//!
//! let trace = Trace::from_bytes(file.into_inner())?;
//! let mut chunk = Chunk::new();
//! trace.read_chunk(0, &mut chunk)?;
//! assert_eq!(chunk.references.iter().map(|r| r.page()).collect::<Vec<_>>(), [0, 1, 0]);
//! assert_eq!(chunk.new_pages, [7, 8]);
//! # Ok::<(), sweephand_trace::Error>(())
//! ```

mod accesses;
pub mod blkparse;
mod buffered;
mod bytes;
pub mod champsim;
mod chosen;
mod chunk;
mod codec;
pub mod columns;
mod compression;
mod content;
pub mod contents;
mod disks;
pub mod drmemtrace;
mod error;
pub mod export;
mod file_hash;
pub mod fio;
pub mod format;
mod fuzz;
pub mod generate;
mod header;
pub mod import;
mod imported;
mod intake;
mod interrupt;
pub mod irim;
pub mod lackey;
mod lines;
mod look;
mod members;
pub mod merge;
pub mod msr;
pub mod not_read;
pub mod objects;
mod open;
pub mod oracle_general;
mod pages;
mod payload;
pub mod pgtr;
pub mod picture;
pub mod places;
mod reader;
mod record;
pub mod reduce;
mod replay;
pub mod sample;
pub mod several;
mod shown;
pub mod small;
mod source;
pub mod spc;
mod tar;
pub mod tenants;
pub mod text;
mod varint;
mod virtual_time;
mod writer;
mod zip;

pub use chosen::Chosen;
pub use chunk::Chunk;
pub use error::Error;
pub use file_hash::{FileHasher, file_hash, read_pieces};
#[doc(hidden)]
pub use fuzz::{fuzz_input, fuzz_inputs, fuzz_reader};
pub use header::{BECAME_ANOTHER, Epochs, Header, LargestChild, Metadata, Times, Totals, Window};
pub use import::{Format, ImportOptions, import, import_trace};
pub use imported::Progress;
pub use intake::BadRows;
pub use interrupt::Interrupt;
pub use irim::{Irim, PageState, Transition};
pub use look::Look;
pub use reader::Trace;
pub use record::{AllocKind, Event, MAX_PAGES, PackedReference};
pub use sample::{PageSample, Repeats, SampleWriter, written_pages};
pub use shown::{in_shell, shown};
pub use virtual_time::VirtualTime;
pub use writer::{EndTotals, Sink, TraceSink, Writer};

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
