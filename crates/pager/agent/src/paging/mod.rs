//! What happens to a page: the agent's state as a whole, and all that changes more than one part of
//! it.
//!
//! A page passes through `faults`, `reclaim`, `evict` and `transfer`, and comes back through
//! `transfer` and `lifecycle`. Why no page is lost when the program changes its memory meanwhile is
//! at the head of `changes`.
//!
//! | file | what it holds |
//! |---|---|
//! | `mode` | what differs between programs that are paged, recorded, or in lent frames |
//! | `child` | how the agent of a child goes on with the copied state |
//! | `ceded` | memory that the program pages itself |
//! | `manage` | memory comes under management |
//! | `stock` | what there is in memory: mappings, present pages |
//! | `during_fork` | the state at rest while a fork copies it |
//! | `handover` | what a parent's agent gives to a child's |
//! | `faults` | zero-fill, refault, rescue, read-ahead |
//! | `reclaim` | making room for pages |
//! | `resize` | compressed memory becomes as large as pays |
//! | `evict` | victims leave memory; pages are unmapped to see whether they are in use |
//! | `transfer` | reads, writes, completion, retry, poison |
//! | `guards` | pages that no thread may touch: guards (`MADV_GUARD_INSTALL`) and poisoned ones |
//! | `changes` | memory that disappears and moves; the argument for order and races |
//! | `lifecycle` | pages come in, get to the policy, and are condemned |
//! | `pager` | the agent's state, and the decisions that differ between modes |
//! | `window` | the window of a recording; the file for its records |

pub mod ceded;
pub(crate) mod changes;
pub(crate) mod child;
pub(crate) mod during_fork;
pub(crate) mod evict;
mod faults;
pub(crate) mod guards;
mod handover;
mod lifecycle;
pub(crate) mod manage;
pub(crate) mod mode;
pub(crate) mod pager;
pub(crate) mod reclaim;
pub(crate) mod resize;
mod stock;
pub(crate) mod transfer;
pub(crate) mod window;
