//! What is done with a program's pages: the modes of an agent, and how they differ.
//!
//! | | a program that is paged | one that is recorded | one in frames that the command lends |
//! |---|---|---|---|
//! | the policy | the agent's | | the command's |
//! | the backing store | a file | none | a file |
//! | room | its limit, less what else counts | endless | the frames lent, less the agent's own |
//! | make room | evict what the policy names | | ask for frames, evict what the command names |
//! | managed | when it may not fit any more | from the start | when it may not fit, or is frozen |
//! | on a fault | bring the page | bring the page alone, record it | bring the page |
//! | on an arrival | the page is the policy's | the page is in the window | the command hears of it |
//! | on a change | | record it | |
//! | between faults | make room to read ahead | end the epoch if it is due | give frames back |
//! | the command says | | that the recording is over | who goes, who waits |
//! | the command ends | the program ends | the program goes on | the program ends |
//! | a child | pages as its parent did | is recorded, or left alone | has a lease of its own |
//!
//! Recordings have a second mode, `Unrecorded`, in which the agent leaves all memory to the kernel.
//! A program is in it before its recording begins and after it has ended. A child enters it if
//! the command does not want children recorded.
//!
//! [`Mode`] is the list of all such decisions, and what is the same in all modes asks it. The modes
//! themselves are above the rest of `paging`: they are made of it.
//!
//! | file | what it holds |
//! |---|---|
//! | `paging` | the policy of the process chooses, within a limit of its own |
//! | `recording` | nothing is paged, and what is touched outside the window is recorded; before and after, all memory is the kernel's |
//! | `lent` | the command has the policy, and the frames |

mod lent;
mod paging;
mod recording;

use crate::control::Order;
use crate::paging::mode::lent::Lent;
pub(crate) use crate::paging::mode::paging::Paging;
use crate::paging::mode::recording::Unrecorded;
use crate::paging::pager::Mode;

/// The mode in which an agent begins.
pub(crate) fn of(order: &Order) -> &'static dyn Mode {
    let lends = !order.lender.as_str().is_empty();
    match (order.is_recording(), lends) {
        (true, _) => &Unrecorded,
        (false, true) => &Lent,
        (false, false) => &Paging,
    }
}
