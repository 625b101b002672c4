//! Directs the kernel's paging of a program: a policy chooses the pages that go.
//!
//! The kernel pages: it takes pages from the program, writes them to a swap file, and brings them
//! back. A thread of the command, the director, chooses: it makes the kernel page out what the
//! policy gives up, before the cgroup's limit is reached, and makes it read ahead. Nothing is
//! loaded into the program, so any program can be run: static, written in Go, setuid, a tree of
//! processes. If the director falls behind, the kernel goes on by itself.
//!
//! ```text
//!   faults      page faults of all processes (performance events)  --> a page has come
//!   memory      accessed bits (BPF), cleared by MADV_COLD          <-> the policy's question
//!   director    the policy's victims, in batches                   --> MADV_PAGEOUT
//!   streams     runs of faults                                     --> MADV_WILLNEED
//!   history     faults in the order of an earlier time             --> MADV_WILLNEED
//!   budget      what the cgroup has left                           --> the policy's frames
//! ```
//!
//! The advice goes by `process_madvise(2)`. A page that is paged out leaves the program at once and
//! stays in the kernel's swap cache until it has been written; then the kernel takes it back when
//! memory is asked for. That is what the budget keeps a little room for.
//!
//! **Who is faster.** The kernel's own choice is often as good as the policy's, and cheaper. With
//! [`Choosers::Both`], the director leaves the choice to the kernel until a trial shows that the
//! policy is faster (`trial`). Meanwhile it reads ahead, as long as that pays (`stage`), and has
//! the kernel take memory back before the program needs it (`budget`).
//!
//! **Whose pages.** All processes of a program that is started under the director are in one
//! cgroup, have one limit, and their pages compete under one policy. Pages that processes share
//! after a fork are left to the kernel, until one process has them alone. So are pages of files and
//! of shared memory.
//!
//! **A running process** is limited by the same director, without a cgroup: see
//! [`Budget::of_family`].
//!
//! **When memory is short.** The kernel kills a process if it finds nothing to take back, even if
//! most of the memory is just being written. Under cgroups of version 1, processes wait instead,
//! and the director pages out more. What cannot wait fails: a fork may be refused. If the command
//! is stopped meanwhile, they wait until it continues.
//!
//! **What can be missed.** The director learns of a page a moment after it has come. It sees no
//! unmapping and no move; it finds the page missing when it looks. A page that is unmapped and used
//! anew between two looks counts as having come back. The kernel may take pages on its own, when
//! the director is late: these are counted ([`Counts::overruled`]).
//!
//! | file | what it holds |
//! |---|---|
//! | `direction` | starts the director's thread, and ends it |
//! | `director` | the thread: it asks the policy, and advises the kernel |
//! | `parts` | what the director needs |
//! | `stage` | whether the kernel is alone, the director is beside it, or the policy chooses |
//! | `turns` | whose turn it is to choose, and whether the zram device is used |
//! | `budget` | the limit, and how many frames the policy has |
//! | `compression` | whether a zram device pays |
//! | `write_back` | moves idle pages from a zram device to the disk |
//! | `refault_distance` | how far pages are out of memory when they come back |
//! | `swap_areas` | which swap areas are the zram devices |
//! | `trial` | who is faster: the kernel or the policy |
//! | `rounds` | how often the program has been through its memory |
//! | `memory` | the pages of all processes, their accessed bits, and advice about them |
//! | `streams` | what to read ahead: runs of faults |
//! | `history` | what to read ahead: faults in the order of an earlier time |
//! | `pages` | which page has which id, and where it is |
//! | `faults` | the page faults of all processes |
//! | `policy` | the policy, made for a number of frames |
//! | `counts` | what the director counts |

mod budget;
mod compression;
mod counts;
mod direction;
mod director;
mod faults;
mod history;
mod memory;
mod pages;
mod parts;
mod policy;
mod refault_distance;
mod rounds;
mod stage;
mod streams;
mod swap_areas;
mod trial;
mod turns;
mod write_back;

pub use budget::Budget;
pub use counts::Counts;
pub use direction::{Direction, NoDirection, StartError, check};
pub use faults::Faults;
pub use parts::{Choosers, Order, ZramTrial};
