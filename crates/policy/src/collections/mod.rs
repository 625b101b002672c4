//! The few containers that all policies use.
//!
//! All of them address pages by dense id and keep their links in arrays. So a list costs 8 bytes a
//! page and allocates nothing per operation.

mod arrival_queue;
mod bit_tree;
mod due_queue;
mod frame_clock;
mod frame_table;
mod links;
mod lists;
mod page_map;
mod probation;
mod recency_order;
mod ring;
mod rising_queue;

pub use arrival_queue::ArrivalQueue;
pub use bit_tree::BitTree;
pub use due_queue::{Due, DueQueue};
pub use frame_clock::FrameClock;
pub use frame_table::FrameTable;
pub use links::{Links, Neighbours, Packed, Wide};
pub use lists::Lists;
pub use page_map::PageMap;
pub use probation::{GHOSTS, MAIN, Probation, SMALL};
pub use recency_order::RecencyOrder;
pub use ring::Ring;
pub use rising_queue::{RisingKey, RisingQueue};
