//! Samples what the pages of a running process contain.
//!
//! ```text
//!   a recorder ──▶ pages in use, by hash (`uses`) ──┐
//!                  moments of the run (`schedule`) ─┤
//!                                                   ▼
//!   /proc/PID/mem ──▶ a page ──▶ LZ4, Zstandard (`codecs`) ──▶ counts (`sampler`)
//! ```
//!
//! **No page is brought in that is not there.** Only pages that are in memory or in swap are read.
//! `/proc/PID/mem` does not wait for a userfaultfd: a page that is missing there is an error. Such
//! a read sets no accessed bit.
//!
//! **Fair and repeatable.** Which pages are read at a moment depends on a hash of their numbers and
//! of the moment alone. Each page in memory is as likely as any other.
#![forbid(unsafe_code)]

mod codecs;
mod hash;
mod memory;
mod sampler;
mod schedule;
mod uses;

pub use codecs::Codecs;
pub use hash::hash;
pub use sampler::Sampler;
pub use uses::{Candidate, LastUses};
