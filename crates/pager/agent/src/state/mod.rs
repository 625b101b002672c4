//! What the agent knows of the program: its memory, and what it is heard to do.
//!
//! Nothing here chooses a page or moves one.
//!
//! | file | what it holds |
//! |---|---|
//! | `program` | the kernel's messages, doorbells, a fork under way |
//! | `account` | memory that counts besides the program's pages |
//! | `memory` | what is known of the program's memory: the parts below, and what must stay |
//! | `pages` | the page table |
//! | `regions` | ranges of addresses |
//! | `objects` | large allocations |

pub(crate) mod account;
pub(crate) mod memory;
pub mod objects;
pub mod pages;
pub(crate) mod program;
pub mod regions;
