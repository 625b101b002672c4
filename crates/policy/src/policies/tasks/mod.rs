//! For many tasks in one memory. Any [`VmModel`](crate::VmModel) policy can serve them too
//! ([`Shared`]).

mod cleaning_clock;
pub mod global_clock;
pub mod pff;
mod shared;
pub mod vmin;
pub mod working_set;
pub mod wsclock;

pub use cleaning_clock::CleaningClock;
pub use global_clock::GlobalClock;
pub use pff::Pff;
pub use shared::Shared;
pub use vmin::Vmin;
pub use working_set::{WorkingSet, Ws};
pub use wsclock::WsClock;
