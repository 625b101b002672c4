//! Direct readings of the replacement policies: the slow, plain models that serve as oracles.
//!
//! Each file states one policy the way its rules are worded, with vectors and linear search. Nothing here shares
//! code with the fast implementations, so that agreement means something.
//!
//! Conventions: one page is loaded per fault, a page is evicted only when all frames are
//! occupied, and at least one frame is required. Nothing is filtered: a caller who wants the references equal
//! to their predecessor collapsed drops them before the call and counts them as hits.
//!
//! A `...Model` takes one reference at a time and prints its state; the function of the policy's name runs a model
//! over a whole reference string.

mod car;
mod clock;
mod clock_page_table;
mod clock_pro;
mod fifo;
mod lirs;
mod lru;
mod opt;

pub use car::{CarModel, car};
pub use clock::{ClockModel, clock};
pub use clock_page_table::{PageTableClockModel, clock_page_table};
pub use clock_pro::{ClockProModel, ClockProOptions, ReferencedNotInTest, Warm, clock_pro};
pub use fifo::fifo;
pub use lirs::{LirsModel, lirs};
pub use lru::lru;
pub use opt::{opt, opt_all_sizes};

/// One reference's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The page was not resident.
    pub fault: bool,
    /// The pages this reference evicted, in order: none or one for every policy here.
    pub victims: Vec<u32>,
}

impl Step {
    /// The page was resident.
    fn hit() -> Step {
        Step { fault: false, victims: Vec::new() }
    }

    /// The page was loaded, after `victim` had left if memory was full.
    fn fault(victim: Option<u32>) -> Step {
        Step { fault: true, victims: victim.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests;
