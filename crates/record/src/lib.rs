//! Recording: runs a program under the recorder, and writes the traces of the pages that it
//! touches.
//!
//! The recorder is a Valgrind tool. Its sources are data of `sweephand-recorder`; [`record`] builds
//! it into the user's cache directory on first use (`tool`). It sends streams through pipes, and
//! what is read there goes straight into traces (`streams`). Children that are not recorded are
//! watched in `/proc` (`children`). What the pages of a recorded
//! program contain is read from outside, too, while its stream is read (`contents`).
//!
//! ```text
//!   record() ── valgrind --tool=sweephand ─▶ program
//!      ▲ socket: a stream begins, a program is lost  │ exec, fork
//!      └──── a pipe for each stream ─────────────────┘
//!      └──▶ a trace for each, which takes its name when it is complete
//! ```
#![deny(unsafe_op_in_unsafe_fn)]

mod children;
mod contents;
mod error;
mod recording;
mod streams;
mod subject;
mod tool;

pub use error::RecordError;
pub use recording::{
    DEFAULT_MIN_OBJECT_BYTES, DEFAULT_WINDOW, Event, Options, Recorded, RecordedTrace, record,
};
pub use subject::find_program;
