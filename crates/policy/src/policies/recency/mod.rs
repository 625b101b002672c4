//! By the order in which pages came in or were last used. RANDOM ignores that order.

pub mod arc;
pub mod car;
pub mod clock;
pub mod clock2q_plus;
pub mod clock_page_table;
pub mod fifo;
pub mod lifo;
pub mod lru;
pub mod mru;
pub mod random;
pub mod s3_fifo;
pub mod s4_fifo;
pub mod sieve;
pub mod two_q;

pub use arc::Arc;
pub use car::Car;
pub use clock::Clock;
pub use clock_page_table::ClockPageTable;
pub use clock2q_plus::Clock2QPlus;
pub use fifo::Fifo;
pub use lifo::Lifo;
pub use lru::Lru;
pub use mru::Mru;
pub use random::Random;
pub use s3_fifo::S3Fifo;
pub use s4_fifo::S4Fifo;
pub use sieve::Sieve;
pub use two_q::TwoQ;
