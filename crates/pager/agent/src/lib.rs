//! The part of the live pager that runs inside the program.
//!
//! An agent thread keeps the program's anonymous memory within a limit. It evicts pages to a file
//! and brings them back when the program touches them. A policy of `sweephand-policy` chooses the
//! pages. `LD_PRELOAD` loads the agent into the program, because only a thread of the program can
//! move the program's pages. The agent's thread uses neither libc nor std. It never uses the
//! program's allocator, thread-local storage or descriptor table.
//!
//! Start reading at [`entry::agent`]. The agent's state is `paging::pager`, and `paging` is what
//! happens to a page. The state of each page is in [`state::pages`]. Why no page is lost when the
//! program changes its memory meanwhile is at the head of `paging::changes`.
//!
//! A folder uses folders that stand below it in this table, and never one that uses it. Nor do two
//! files of a folder use each other: the table at the head of its `mod.rs` goes downward too.
//!
//! | folder | what it is for |
//! |---|---|
//! | `entry` | how the program and the agent meet: start, hooks, forks, calls, the agent's loop |
//! | `paging` | what happens to a page: faults, eviction, transfers, changes, forks, recordings |
//! | `choice` | which pages stay: the policy, reference bits, frames that the command lends |
//! | `state` | what is known of the program: pages, ranges, objects, the kernel's messages |
//! | `store` | where pages are that are not in memory: staging, files, requests |
//! | `process` | the agent's place in the process: its memory, limits, rights, files, the end |
//! | `mailbox` | how the program's threads call the agent |
//! | `kernel` | the one way to the kernel; threads, time, the C library's functions |
//!
//! For tests, `simulation` has a kernel, a disk and a program, all from a seed, and `testing` has
//! an agent's state whose program is a map of pages.
//!
//! What the agent shares with the command (`accessed`, `control`, `lease`, `spec`, `division`) is
//! in the crate `sweephand-pager-interface`, with the windows that are read along streams and
//! around single faults (`readahead`, `readaround`): predictions of time follow the same rules.
#![cfg_attr(not(test), no_std)]
// A model needs little of all this: see `mailbox::atomic`.
#![cfg_attr(all(test, loom), allow(dead_code, unused_imports, unreachable_pub))]
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "agent"))]

extern crate alloc;

pub use sweephand_pager_interface::{accessed, control, division, lease, spec};

pub mod choice;
pub mod entry;
pub mod kernel;
pub mod mailbox;
pub mod paging;
pub mod process;
#[cfg(test)]
mod simulation;
pub mod state;
pub mod store;
#[cfg(test)]
mod testing;
