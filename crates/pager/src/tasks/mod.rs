//! Several programs under one limit and one policy, with load control.
//!
//! ```text
//!   this process                                                       each process of each task
//!   TaskFile ── jobs ──▶ supervisor: the loop
//!                          │    ▲
//!                          ▼    │
//!                        processes ── starts programs, signals ──────▶ program
//!                          │    ▲       link: reports, instructions ──▶ agent ◀─ faults
//!                          ▼    │                                        │
//!                        decisions                                       │
//!                          ├─ schedule: who is active (load control)     │
//!                          └─ frames: policy (TaskPolicy), who has what  │
//!                               └─ ledger: reference bits ◀───────── bits
//! ```
//!
//! The agent of each process does the paging, as for a single program. Frames, policy and load
//! control are here. To deactivate a task, the command leaves its next fault unanswered. Its agent
//! keeps giving up pages, which only the agent can do. `SIGSTOP` or a cgroup's freezer would stop
//! the agent together with the program. If a task does not fault because everything it uses is in
//! memory, its pages are unmapped, and then it does. Shells see no stopped jobs, signals stay the
//! program's own, and children are stopped like their parents.
//!
//! All of them are in one memory cgroup, as a single program is in its own.
//!
//! Start reading at `supervisor`, then `schedule` and `frames`, which need no sockets.

mod decisions;
mod file;
mod frames;
mod ledger;
mod link;
mod options;
mod processes;
mod schedule;
mod statistics;
mod supervisor;
mod watch;

pub use file::{
    Control, Deactivate, EXAMPLE, Feedback, Job, LoadControlOptions, TaskEntry, TaskFile, TaskFileError,
};
pub use options::TaskOptions;
pub use statistics::{TaskStatistics, TasksStatistics};
pub use supervisor::run_tasks;
pub use watch::TasksWatch;
