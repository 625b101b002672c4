//! The policies, one file each. A file opens with what the policy is, its paper, where it differs from it, and
//! its cost.

pub mod car;
pub mod clock;
pub mod clock_page_table;
pub mod clock_pro;
pub mod clock_pro_fixed;
pub mod fifo;
pub mod lirs;
pub mod lru;
pub mod opt;

pub use car::Car;
pub use clock::Clock;
pub use clock_page_table::ClockPageTable;
pub use clock_pro::ClockPro;
pub use clock_pro_fixed::ClockProFixed;
pub use fifo::Fifo;
pub use lirs::Lirs;
pub use lru::Lru;
pub use opt::Opt;
