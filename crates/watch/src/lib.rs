//! Watches which pages a running program uses, from outside, in epochs.
//!
//! ```text
//!   Watching   looks once a period (`look`), and keeps the cost below the budget
//!      ├──▶ History   working sets, and bounds on the faults in less memory ──▶ LiveAdvice
//!      │       └──▶ Estimates   faults of other policies, by part of the watch
//!      │               └──▶ Needs   the least memory for a slowdown on a device ──▶ Limits
//!      └──▶ trace     messages through a pipe ──▶ keep(), in a process of its own ──▶ FILE.swt
//! ```
//!
//! [`ServiceWatching`] does the same for several processes, and counts each page once.
//!
//! The process that writes the trace is another one, so that a watcher that is killed leaves a
//! complete file: the writer finds the end of the pipe, and finishes the trace.
#![forbid(unsafe_code)]

mod advice;
mod curve;
mod estimates;
mod history;
mod hours;
mod keeper;
mod limits;
mod live;
mod look;
mod message;
mod needs;
mod objects;
mod pace;
mod service;
mod uses;
mod watching;

pub use advice::LiveAdvice;
pub use curve::{FaultCost, FaultCurve};
pub use estimates::{Estimates, Part, PolicyEstimate};
pub use history::{Bounds, EnoughPages, History};
pub use hours::{Hour, Hours, HoursError};
pub use keeper::{KeepError, READY, keep};
pub use limits::{Limits, ServiceState};
pub use live::LiveTrace;
pub use look::{Look, Mapping, Observer, Price, Sample, Seen, UsedPage, WatchError};
pub use message::TraceSender;
pub use needs::{Needs, PartNeed, SLOWDOWN};
pub use pace::Pace;
pub use service::{MemberLook, Pages, ServiceChange, ServiceEpoch, ServiceLook, ServiceWatching, Unopened};
pub use sweephand_process::group::Named;
pub use watching::{Change, Epoch, Options, Watching};
