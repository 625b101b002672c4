//! Where pages are that are not in memory, and how they get there and back.
//!
//! | file | what it holds |
//! |---|---|
//! | `disk` | what there is of all this: staging, the store, compressed memory, requests, read-ahead |
//! | `pool` | compressed memory |
//! | `split` | how much of the memory that gets |
//! | `io` | reads and writes of the store while the program runs |
//! | `ring` | an io_uring |
//! | `staging` | pages on their way |
//! | `backing` | which slot of which file has which page |
//! | `sums` | which pages still have the contents that the store has |

pub mod backing;
pub(crate) mod disk;
pub mod io;
pub(crate) mod pool;
pub mod ring;
pub(crate) mod split;
pub mod staging;
pub(crate) mod sums;
