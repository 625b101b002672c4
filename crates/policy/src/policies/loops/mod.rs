//! Loops and objects: policies that find loops and scans larger than memory, by depth in the LRU
//! stack, by addresses, or by the object that a page belongs to.

pub mod apr;
pub mod ee_clock;
pub mod eelru;
mod fading;
pub mod lifo_plus;
pub mod seq;
mod stacks;
pub mod ubm;

pub use apr::Apr;
pub use ee_clock::EeClock;
pub use eelru::Eelru;
pub use lifo_plus::LifoPlus;
pub use seq::{SeqClock, SeqLru};
pub use ubm::Ubm;
