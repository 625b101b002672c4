//! Programs that Sweephand starts: which file a command's name stands for, what kind of executable
//! that is, and how signals reach it. The recorder and the pager share this.
//!
//! - [`locate`] finds the file. [`Executable`] reads from its first bytes whether it is a script or
//!   ELF, for which processor, and with which dynamic linker.
//! - [`Signals`] catches the signals that ask for an end and passes them on to a program.
//!   [`exit_code`] is the program's status as a shell gives it.
//! - [`ownership`] tells whether others could have put something in a place that this process
//!   trusts.
//!
//! ```
//! use std::ffi::OsStr;
//! use sweephand_program::{Executable, locate};
//!
//! let shell = locate(OsStr::new("sh"))?;
//! assert!(Executable::read(&shell)?.is_elf());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod executable;
mod locate;
pub mod ownership;
mod signals;

pub use executable::{Executable, is_setuid};
pub use locate::{LocateError, locate};
pub use signals::{Received, Signals, exit_code, wait_for};

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
