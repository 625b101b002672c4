//! By how often pages are used.

pub mod aging;
pub mod fbr;
pub mod gclock;
pub mod hyperbolic;
pub mod lrfu;
pub mod mq;
pub mod w_tinylfu;

pub use aging::Aging;
pub use fbr::Fbr;
pub use gclock::{GClock, GClockBits};
pub use hyperbolic::Hyperbolic;
pub use lrfu::Lrfu;
pub use mq::Mq;
pub use w_tinylfu::WTinyLfu;
