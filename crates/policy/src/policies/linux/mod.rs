//! What Linux does, reduced to one program's anonymous pages.

pub mod linux24;
pub mod mglru;

pub use linux24::Linux24;
pub use mglru::Mglru;
