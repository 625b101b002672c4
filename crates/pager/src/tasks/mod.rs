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
//! The agent of each process does the paging, as for a single program; frames, policy and load control are here. A task
//! is deactivated by leaving its next fault unanswered: its agent goes on giving up pages, which neither `SIGSTOP` nor a cgroup's
//! freezer would let it do (both stop the agent with the program), and which only it can do. A task that does not fault by
//! itself, since all it uses is in memory, has its pages unmapped: then it does. Shells see no stopped jobs, signals stay the
//! program's own, and children are held as their parents are.
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
