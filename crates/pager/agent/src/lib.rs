//! The part of the live pager that runs inside the program.
//!
//! An agent thread keeps the program's anonymous memory within a limit. It evicts pages to a file
//! and brings them back when the program touches them. A policy of `sweephand-policy` chooses the
//! pages. `LD_PRELOAD` loads the agent into the program, because only a thread of the program can
//! move the program's pages. The agent's thread uses neither libc nor std. It never uses the
//! program's allocator, thread-local storage or descriptor table.
//!
//! Start reading at [`agent`]. The agent's state is in `state`. A page passes through `faults`,
//! `reclaim`, `evict` and `transfer`, and comes back through `transfer` and `lifecycle`. The
//! state of each page is in [`pages`]. Why no page is lost when the program changes its memory
//! meanwhile is at the head of `changes`.
//!
//! A module uses modules that stand below it in this table, and never one that uses it.
//!
//! | file | what it holds |
//! |---|---|
//! | `start` | the way from the dynamic linker's call to a running agent |
//! | `interpose`, `hooks` | functions in place of the C library's: for the program, for all |
//! | `fork` | how a program's thread forks; `agent_thread`: the agent's thread |
//! | `agent` | the loop; `polls`: whether to look for work before sleeping |
//! | `calls` | what the program's threads ask for |
//! | `hidden`, `self_mem` | what the program sees of itself in `/proc` |
//! | `outlive` | processes that share the program's memory |
//! | `recording` | a recording: what is touched outside the window, and the end of its epochs |
//! | `child`, `during_fork`, `handover` | how a fork copies the state, and a child goes on with it |
//! | `manage` | memory comes under management |
//! | `ceded` | memory that the program pages itself |
//! | `faults` | zero-fill, refault, rescue, read-ahead |
//! | `stock` | what there is in memory: mappings, present pages |
//! | `reclaim`, `borrow` | making room for pages: by the policy, or from the command |
//! | `evict` | victims leave memory; pages are unmapped to see whether they are in use |
//! | `transfer` | reads, writes, completion, retry, poison |
//! | `locks` | memory that the program locks all at once |
//! | `guards` | pages that no thread may touch (`MADV_GUARD_INSTALL`) |
//! | `changes` | memory that disappears and moves; the argument for order and races |
//! | `lifecycle` | pages come in, get to the policy, and are condemned |
//! | `state` | the agent's state: `memory`, `choice`, `disk`, `program` |
//! | `anon` | private memory: reference bits, and which pages need not be written |
//! | `window` | the window of a recording; the file for its records |
//! | `sums` | which pages still have the contents that the store has |
//! | `tenant` | the lease of frames that the command lends |
//! | `bit_source`, `accessed_bits` | where reference bits come from; how the agent gets the program that reads the processor's |
//! | `live`, `bits`, `exact_bits` | the policy; reference bits in software, and exact ones |
//! | `pages`, `regions`, `objects` | the page table; managed ranges; large allocations |
//! | `staging`, `store`, `io`, `ring` | pages on their way, files, requests |
//! | `account`, `cgroup` | what counts besides the program's pages; the cgroup |
//! | `simulation` | for tests: a kernel, a disk and a program, all from a seed |
//! | `mailbox` | how the program's threads call the agent |
//! | `empty` | memory that can be dropped without the agent |
//! | `credentials`, `rlimits`, `environment` | the program's rights, limits and environment |
//! | `last_thread`, `failure` | the end of a process; the end with a message |
//! | `supervisor` | the command, as a process that begins sees it |
//! | `moves` | how many pages the kernel has moved |
//! | `pagemap`, `maps`, `roots` | what the kernel lists, and where the agent opens files |
//! | `atomic` | the mailbox's atomics: the processor's, or in models those of `loom` |
//! | `own`, `thread`, `wait`, `clock` | the pager's own memory, threads, waiting, time |
//! | `symbols`, `syscall`, `kernel` | the C library's functions; the one door to the kernel |
//! | `passing` | files that pass through sockets |
//!
//! What the agent shares with the command (`accessed`, `control`, `lease`, `spec`, `division`) is
//! in the crate `sweephand-pager-interface`, with the windows that are read along streams and
//! around single faults (`readahead`, `readaround`): predictions of time follow the same rules.
#![cfg_attr(not(test), no_std)]
// A model needs little of all this: see `atomic`.
#![cfg_attr(all(test, loom), allow(dead_code, unused_imports, unreachable_pub))]
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "agent"))]

extern crate alloc;

pub use sweephand_pager_interface::{accessed, control, division, lease, spec};

mod accessed_bits;
mod account;
pub mod agent;
mod agent_thread;
mod anon;
mod atomic;
mod bit_source;
pub mod bits;
mod borrow;
mod calls;
pub mod ceded;
mod cgroup;
mod changes;
mod child;
mod choice;
mod clock;
pub mod credentials;
mod disk;
mod during_fork;
mod empty;
mod environment;
mod evict;
pub mod exact_bits;
pub mod failure;
mod faults;
pub mod fork;
mod guards;
mod handover;
mod hidden;
mod hooks;
pub mod interpose;
pub mod io;
pub mod kernel;
mod last_thread;
mod lifecycle;
pub mod live;
mod locks;
pub mod mailbox;
mod manage;
pub mod maps;
mod memory;
mod moves;
pub mod objects;
mod outlive;
pub mod own;
mod pagemap;
pub mod pages;
mod passing;
mod polls;
mod program;
mod reclaim;
mod recording;
pub mod regions;
pub mod ring;
pub mod rlimits;
mod roots;
mod self_mem;
#[cfg(test)]
mod simulation;
pub mod staging;
pub mod start;
mod state;
mod stock;
pub mod store;
mod sums;
mod supervisor;
mod symbols;
mod syscall;
mod tenant;
#[cfg(test)]
mod testing;
mod thread;
mod transfer;
mod wait;
mod window;
