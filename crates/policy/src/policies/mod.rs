//! The policies, in families, one file each. Each file begins with what the policy is, its paper,
//! its differences from the paper, and its cost.
//!
//! | family | goes by |
//! |---|---|
//! | [`recency`] | the order in which pages came in or were last used |
//! | [`frequency`] | how often pages are used |
//! | [`reuse_distance`] | the distance between two uses |
//! | [`loops`] | loops and scans larger than memory, objects |
//! | [`learned`] | which of several rules misses less |
//! | [`linux`] | what Linux does |
//! | [`tasks`] | many tasks in one memory |

pub mod frequency;
pub mod learned;
pub mod linux;
pub mod loops;
pub mod recency;
pub mod reuse_distance;
pub mod tasks;

pub use frequency::{Aging, Fbr, GClock, GClockBits, Hyperbolic, Lrfu, Mq, WTinyLfu};
pub use learned::{Acme, Auto, Cacheus, Dip, LeCar, Lhd, Rrip};
pub use linux::{Linux24, Mglru};
pub use loops::{Apr, EeClock, Eelru, LifoPlus, SeqClock, SeqLru, Ubm};
pub use recency::{
    Arc, Car, Clock, Clock2QPlus, ClockPageTable, Fifo, Lifo, Lru, Mru, Random, S3Fifo, S4Fifo, Sieve, TwoQ,
};
pub use reuse_distance::{
    ClockPro, ClockProFixed, ClockProPlus, ClockProStrict, DLirs, Lirs, Lirs2, Lru2, Opt,
};
pub use tasks::{CleaningClock, GlobalClock, Pff, Shared, Vmin, WorkingSet, Ws, WsClock};
