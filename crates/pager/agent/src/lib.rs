//! The part of the live pager that runs inside the program.
//!
//! An agent thread keeps the program's anonymous memory within a limit. It evicts pages to a file
//! and brings them back when the program touches them. A policy of `sweephand-policy` chooses the
//! pages. `LD_PRELOAD` loads the agent into the program, because only a thread of the program can
//! move the program's pages. The agent's thread uses neither libc nor std. It never uses the
//! program's allocator, thread-local storage or descriptor table.
//!
//! Start reading at [`agent`]. A page passes through `faults`, `reclaim` and `store`, and back. The
//! state of each page is in [`pages`].
//!
//! | file | what it holds |
//! |---|---|
//! | `start` | the way from the dynamic linker's call to a running agent |
//! | `hooks` | replacements of the C library's functions that give memory |
//! | `interpose` | functions that take the place of the C library's for the program alone |
//! | `environment` | the environment that programs get which the program starts |
//! | `mailbox` | how the program's threads call the agent |
//! | `agent` | the agent's state and its loop |
//! | `changes` | memory that appears, disappears and moves |
//! | `faults` | zero-fill, refault, rescue, read-ahead |
//! | `reclaim` | making room for pages: victims, writes, pinned pages |
//! | `bits` | reference bits in software |
//! | `live`, `clock` | the policy; processor time, for a policy that needs it |
//! | `fork` | how a child gets an agent of its own |
//! | `rest` | what the agent does while a fork copies its memory |
//! | `objects` | large allocations, for policies that tell them apart |
//! | `memfd` | the other backend: shared memory, exact bits |
//! | `gate` | how the agent keeps the program's threads from changing memory while it changes it |
//! | `guards` | pages that no thread may touch (`MADV_GUARD_INSTALL`) |
//! | `tenant`, `lease` | several programs with one limit: the command has the policy and lends frames |
//! | `pages`, `regions` | the page table; the managed ranges |
//! | `staging`, `store`, `io`, `readahead` | pages on their way, files, transfers, how far to read ahead |
//! | `roots` | where the agent opens files, whatever the program does to its own root and rights |
//! | `credentials`, `rlimits` | how the agent gets the program's rights, and the program keeps its limits |
//! | `wait` | waiting for descriptors |
//! | `pagemap` | which pages are present |
//! | `last` | the end of a process in which only the agent's thread is left |
//! | `account` | what counts besides the program's pages: files written to, page tables |
//! | `own`, `maps`, `thread` | the pager's own memory, the kernel's list of mappings, threads |
//! | `failure`, `control`, `cgroup` | the end with a message; what is shared with the command; the cgroup |
#![cfg_attr(not(test), no_std)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

extern crate alloc;

mod account;
pub mod agent;
pub mod bits;
mod cgroup;
mod changes;
mod clock;
pub mod control;
pub mod credentials;
mod environment;
pub mod failure;
mod faults;
pub mod fork;
pub mod gate;
mod guards;
mod hooks;
pub mod interpose;
pub mod io;
mod last;
pub mod lease;
pub mod live;
pub mod mailbox;
pub mod maps;
pub mod memfd;
pub mod objects;
pub mod own;
mod pagemap;
pub mod pages;
pub mod readahead;
mod reclaim;
pub mod regions;
mod rest;
pub mod rlimits;
mod roots;
pub mod staging;
pub mod start;
pub mod store;
mod tenant;
mod thread;
mod wait;
