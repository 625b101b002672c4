//! The way to the kernel: every call by which the agent, or a thread of the program on its behalf,
//! learns of memory or time, changes memory, transfers pages or waits.
//!
//! ```text
//!   agent, hooks ----> kernel ----> real: the system calls themselves
//!                        |
//!                        +--------> simulation, for tests, on threads that are simulated
//! ```
//!
//! Transfers of the store by io_uring are in `store::ring`. Whatever reaches the kernel elsewhere
//! (files of `/proc`, sockets, limits, rights) goes through [`call`] or does not bear on the
//! program's memory.
//!
//! | file | what it holds |
//! |---|---|
//! | `real` | the system calls themselves |
//! | `switch` | in tests: the simulated kernel, or the real one |
//! | `modelled` | in models of the mailbox: threads and pages of a model |
//! | `thread` | threads without the C library |
//! | `clock` | processor time, and time |
//! | `syscall` | system calls without the C library |
//! | `symbols` | the C library's functions by name |
//! | `passing` | files that pass through sockets |

pub(crate) mod clock;
pub(crate) mod passing;
pub(crate) mod symbols;
pub(crate) mod syscall;
pub(crate) mod thread;

#[cfg(loom)]
#[cfg(test)]
mod modelled;
// In tests, some of it stands behind `switch` alone.
#[cfg_attr(test, expect(unreachable_pub))]
mod real;
#[cfg(test)]
mod switch;

#[cfg(not(test))]
pub use real::*;
#[cfg(test)]
pub use sweephand_uffd::PRESENT;
pub use sweephand_uffd::{
    ACCESSED, EVENT_FORK, EVENT_REMAP, EVENT_REMOVE, EVENT_UNMAP, Event, GUARD, MOVE, Message, OpenError,
    PAGE_BYTES, Progress, Region, SWAPPED, THREAD, TRACKED,
};
#[cfg(test)]
pub use switch::*;
// In models of the mailbox, these take the place of those of `switch`.
#[cfg(loom)]
#[cfg(test)]
pub use modelled::{BELLS, call, make_bells, put_bell, ring_bell, sched_yield, touch, wait_for_bells};
