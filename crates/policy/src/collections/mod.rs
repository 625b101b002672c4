//! The few containers that all policies use.
//!
//! All of them address pages by dense id and keep their links in arrays. So a list costs 8 bytes a
//! page and allocates nothing per operation.

mod bit_tree;
mod frame_table;
mod lazy_queue;
mod lfu_list;
mod lists;
mod page_map;
mod ranked_list;
mod ring;
mod segmented_stack;
mod sorted_pages;
mod stacks;

pub use bit_tree::BitTree;
pub use frame_table::FrameTable;
pub use lazy_queue::LazyQueue;
pub use lfu_list::LfuList;
pub use lists::Lists;
pub use page_map::PageMap;
pub use ranked_list::RankedList;
pub use ring::Ring;
pub use segmented_stack::SegmentedStack;
pub use sorted_pages::SortedPages;
pub use stacks::{Node, Stacks};
