//! Policies that learn from their misses which of several rules to follow.

pub mod acme;
pub mod auto;
pub mod dip;
pub mod lecar;
pub mod rrip;

pub use acme::Acme;
pub use auto::Auto;
pub use dip::Dip;
pub use lecar::LeCar;
pub use rrip::Rrip;
