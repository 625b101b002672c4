//! By the distance between two uses of a page, past or, for OPT, to come.

pub mod clock_pro;
pub mod clock_pro_fixed;
pub mod clock_pro_plus;
pub mod clock_pro_strict;
pub mod dlirs;
pub mod lirs;
pub mod lirs2;
pub mod lru_2;
pub mod opt;

pub use clock_pro::ClockPro;
pub use clock_pro_fixed::ClockProFixed;
pub use clock_pro_plus::ClockProPlus;
pub use clock_pro_strict::ClockProStrict;
pub use dlirs::DLirs;
pub use lirs::Lirs;
pub use lirs2::Lirs2;
pub use lru_2::Lru2;
pub use opt::Opt;
