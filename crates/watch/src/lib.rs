//! Watches which pages a running program uses, from outside, in epochs.
//!
//! ```text
//!   Watching   looks once a period (`look`), and keeps the cost below the budget
//!      ├──▶ History   working sets, and bounds on the faults in less memory ──▶ LiveAdvice
//!      └──▶ trace     messages through a pipe ──▶ keep(), in a process of its own ──▶ FILE.swt
//! ```
//!
//! [`ServiceWatching`] does the same for several processes, and counts each page once.
//!
//! The process that writes the trace is another one, so that a watcher that is killed leaves a
//! complete file: the writer finds the end of the pipe, and finishes the trace.
#![forbid(unsafe_code)]

mod advice;
mod history;
mod keeper;
mod live;
mod look;
mod message;
mod objects;
mod pace;
mod service;
mod watching;

pub use advice::LiveAdvice;
pub use history::{Bounds, EnoughPages, History};
pub use keeper::{KeepError, READY, keep};
pub use live::LiveTrace;
pub use look::{Look, Mapping, Observer, Price, Sample, Seen, UsedPage, WatchError};
pub use message::TraceSender;
pub use pace::Pace;
pub use service::{MemberLook, Pages, ServiceChange, ServiceEpoch, ServiceLook, ServiceWatching};
pub use sweephand_process::group::Named;
pub use watching::{Change, Epoch, Options, Watching};
