//! A running process, watched from outside: which pages it has used since the last look.
//!
//! Nothing is loaded into the process, and it is not stopped. A look reads the bits that the
//! processor has set in the process's page table (`sweephand_process::accessed`), and clears the
//! accessed bits, so that the next look finds what was used between the two. That time is an
//! *epoch*.
//!
//! ```text
//!   every processor empties its list of new pages     their bits could not be cleared otherwise
//!   for each part of the page table                   holes are passed over: PAGEMAP_SCAN
//!       read     accessed, dirty, present             BPF, a table of 512 pages a call
//!       clear    pages that were used                 process_madvise(MADV_COLD)
//!       read     again: which bits are still set      used meanwhile, or cannot be cleared
//!   pages that are not there any more                 /proc/PID/pagemap: swapped out, or dropped?
//! ```
//!
//! **What can be missed.** Reading and clearing are two steps, some ten microseconds apart. A page
//! that the program uses between the two and not again in that epoch is missed in it. The kernel
//! clears accessed bits for its own purposes when it reclaims memory. While the program unmaps
//! memory, the walk may read a table that has just been freed: pages that are being unmapped may
//! then count as used, or not.
//!
//! **What is not known.** The kernel clears no bit of a page that other processes have mapped
//! (libraries, shared memory, pages since a fork), of locked memory and of huge pages of hugetlbfs.
//! Once such a page has been used, its bit says nothing: it counts in [`Look::unknown_pages`] and
//! not among the pages used. A huge page has one bit: if a part is used, all of it is.
//!
//! **What clearing does.** `MADV_COLD` also moves the page to the kernel's list of inactive pages.
//! If memory is short later, the kernel looks at these pages first, finds those that were used
//! since, and keeps them. A large folio of which only a part was used is split.
//!
//! **A sample.** Most of the cost is in the clearing, and in the program's next uses of the pages.
//! So the bits of all pages are read, and only those of a sample are cleared (`sample`).
//!
//! **Dirty bits** are not cleared, because nothing but the kernel can do that. A page's dirty bit
//! says that it was written to since it came into memory or, of a file's page, since it was last
//! written back.
//!
//! | file | what it holds |
//! |---|---|
//! | `walk` | the page table, from table to table |
//! | `observer` | the look: it reads the bits, and clears them |
//! | `price` | what a look costs |
//! | `mappings` | the mappings of the process, with the pages that were found in each |
//! | `sample` | which pages are looked at |
//! | `chosen` | some of the pages found, for what they contain |
//! | `mask` | the bits of a table's pages |
//! | `found` | what a look finds |
//! | `error` | why a process cannot be watched |

mod chosen;
mod error;
mod found;
mod mappings;
mod mask;
mod observer;
mod price;
mod sample;
mod walk;

pub use error::WatchError;
pub use found::{Look, Seen, UsedPage};
pub use mappings::Mapping;
pub(crate) use mask::{count, pages_of};
pub use observer::Observer;
pub use price::Price;
pub(crate) use sample::BLOCK_PAGES;
pub use sample::Sample;
pub(crate) use walk::TableWalk;
