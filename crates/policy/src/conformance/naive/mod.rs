//! Direct readings of the replacement policies: the slow, plain models that serve as oracles.
//!
//! Each file states one policy the way its rules are worded, with vectors and linear search.
//! Nothing here shares code with the fast implementations, so that agreement means something.
//!
//! Conventions: one page is loaded per fault, a page is evicted only when all frames are occupied,
//! and at least one frame is required. Nothing is filtered: a caller who wants the references equal
//! to their predecessor collapsed drops them before the call and counts them as hits.
//!
//! A `...Model` takes one reference at a time and prints its state; the function of the policy's
//! name runs a model over a whole reference string.

mod acme;
mod aging;
mod apr;
mod arc;
mod car;
mod clock;
mod clock_page_table;
mod clock_pro;
mod dip;
mod eelru;
mod fbr;
mod fifo;
mod gclock;
mod lecar;
mod lifo;
mod lifo_plus;
mod linux24;
mod lirs;
mod lrfu;
mod lru;
mod lru_2;
mod mglru;
mod mq;
mod mru;
mod opt;
mod random;
mod rrip;
mod s3_fifo;
mod seq;
mod sieve;
mod two_q;
mod ubm;
mod w_tinylfu;

pub use acme::acme;
pub use aging::{AgingOptions, aging};
pub use apr::{AprOptions, apr};
pub use arc::{ArcModel, arc};
pub use car::{CarModel, car};
pub use clock::{ClockModel, clock};
pub use clock_page_table::{PageTableClockModel, clock_page_table};
pub use clock_pro::{ClockProModel, ClockProOptions, ReferencedNotInTest, Warm, clock_pro};
pub use dip::{DipVariant, dip};
pub use eelru::{EelruOptions, eelru};
pub use fbr::{FbrOptions, fbr};
pub use fifo::fifo;
pub use gclock::gclock;
pub use lecar::lecar;
pub use lifo::lifo;
pub use lifo_plus::lifo_plus;
pub use linux24::linux24;
pub use lirs::{LirsModel, lirs};
pub use lrfu::lrfu;
pub use lru::lru;
pub use lru_2::{LruKOptions, lru_k};
pub use mglru::mglru;
pub use mq::{MqOptions, mq};
pub use mru::mru;
pub use opt::{opt, opt_all_sizes};
pub use random::random;
pub use rrip::{RripVariant, rrip};
pub use s3_fifo::s3_fifo;
pub use seq::{SeqOptions, seq};
pub use sieve::sieve;
pub use two_q::two_q;
pub use ubm::{UbmOptions, ubm};
pub use w_tinylfu::{WTinyLfuOptions, w_tinylfu};

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
