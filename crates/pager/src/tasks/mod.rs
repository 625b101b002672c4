//! Several programs under one limit and one policy, with load control.
//!
//! ```text
//!   this process                                                      each process of each task
//!   TaskFile ── jobs ──▶ Supervisor ── starts, holds, releases ─────▶ program
//!                          │  ▲                                          │ faults
//!       policy (TaskPolicy)┘  └── link: faults, victims, frames ─────▶ agent ◀─┘
//!                ledger: bits on boards, virtual times ◀──────────────── board
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
//! Start reading at `supervisor`.

mod file;
mod ledger;
mod link;
mod load_control;
mod statistics;
mod supervisor;
mod watch;

pub use file::{
    Control, Deactivate, EXAMPLE, Feedback, Job, LoadControlOptions, TaskEntry, TaskFile, TaskFileError,
};
pub use statistics::{TaskStatistics, TasksStatistics};
pub use supervisor::{TaskOptions, run_tasks};
pub use watch::TasksWatch;
