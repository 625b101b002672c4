//! The part of the live pager that runs inside the program.
//!
//! An agent thread holds the program's anonymous memory to a limit: it evicts pages to a file, and brings them back when
//! they are touched, under a policy of `sweephand-policy`. It is loaded into the program by `LD_PRELOAD`, since only a
//! thread of the program itself can move its pages. It never touches the program's memory, allocator, thread-local
//! storage or descriptors: no libc, no std.
//!
//! Start reading at [`agent`]. The way of a page is `faults`, `reclaim`, `store`, and back; what is known of it is in
//! [`pages`].
//!
//! | file | what it holds |
//! |---|---|
//! | `start` | from the dynamic linker's call to a running agent |
//! | `hooks` | the C library's functions that give memory, replaced |
//! | `interpose` | functions that take the place of the C library's for the program alone |
//! | `environment` | what programs that are begun are told, and when they are not |
//! | `mailbox` | how the program's threads call the agent |
//! | `agent` | the agent's state and its loop |
//! | `changes` | memory that comes, goes and moves |
//! | `faults` | zero-fill, refault, rescue, read-ahead |
//! | `reclaim` | room for pages to come: victims, writes, pinned pages |
//! | `bits` | reference bits in software |
//! | `live`, `clock` | the policy; processor time, for one that wants it |
//! | `fork` | a child gets an agent of its own |
//! | `rest` | what the agent does while its memory is being copied by a fork |
//! | `objects` | large allocations, for policies that tell them apart |
//! | `memfd` | the other backend: shared memory, exact bits |
//! | `gate` | how the agent keeps the program's threads off changes while it makes one |
//! | `guards` | pages that nobody may touch (`MADV_GUARD_INSTALL`) |
//! | `tenant`, `lease` | several programs, one limit: frames lent by the command, which has the policy |
//! | `pages`, `regions`, `staging`, `store`, `io`, `readahead` | what they say |
//! | `roots` | where the agent opens files, whatever the program does to its own root and rights |
//! | `credentials`, `rlimits` | the agent has the program's rights, and the program its own limits |
//! | `wait` | waiting for descriptors |
//! | `pagemap` | which pages are there |
//! | `last` | a process whose threads have all gone but the agent |
//! | `account` | what counts beside the program's pages: files written to, page tables |
//! | `own`, `maps`, `thread`, `failure`, `control`, `cgroup` | memory of its own, the kernel's view, threads, the end, the command |
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
