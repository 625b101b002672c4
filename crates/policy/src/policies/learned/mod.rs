//! Policies that learn from their misses which of several rules to follow.

pub mod acme;
pub mod auto;
pub mod cacheus;
pub mod dip;
pub mod lecar;
pub mod lhd;
pub mod rrip;

pub use acme::Acme;
pub use auto::Auto;
pub use cacheus::Cacheus;
pub use dip::Dip;
pub use lecar::LeCar;
pub use lhd::Lhd;
pub use rrip::Rrip;
