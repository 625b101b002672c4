//! Memory in tiers at equal total memory: pages as they are, pages compressed, a disk.
//!
//! **The question.** A pool of compressed pages takes memory from the resident ones. Of M pages of
//! memory, R hold pages as they are, and what M - R hold compressed is more, but every use of it
//! costs a fault and a decompression. Whether that pays depends on the split, the program and the
//! costs, so all splits of the same M have to be compared. (P. R. Wilson, S. F. Kaplan,
//! Y. Smaragdakis, "The case for compressed caching in virtual memory systems", USENIX 1999.)
//!
//! ```text
//!      M pages of memory
//!   ┌───────────────────────┬───────────────┐
//!   │ R resident pages,     │ the pool,     │   write-backs,
//!   │ under a policy        │ zswap or zram │   pages that do not
//!   └───────────────────────┴───────────────┘   compress or fit        ┌──────┐
//!           │  ▲   evictions ──▶  │ ──────────────────────────────────▶ │ disk │
//!           ▼  └── faults ◀───────┴──────────────◀──────────────────────└──────┘
//!        program
//! ```
//!
//! **One pass of a policy serves every pool.** The policy sees R frames and nothing of what is
//! below them. So what it evicts and faults on depends on R alone, and one simulation with R frames
//! feeds the pools of all M ([`Tiers::run`]).
//!
//! **One pass serves every pool size.** If all pages in the pool take the same room, a pool has k
//! places, and:
//!
//! - *zswap* keeps what was evicted last. By induction, what a larger pool has besides was evicted
//!   before everything that the smaller one has: only what the smaller one wrote back. So the pools
//!   are the tops of one stack, as with LRU, and a page that leaves for a fault is a hole in it, as
//!   in [`LruStack`](crate::LruStack) when contents are dropped.
//! - *zram* keeps what came while it had a free place. Give each page the lowest free one of
//!   infinitely many places. A pool of k places has room just if one of the first k is free, so it
//!   has exactly the pages in those.
//!
//! [`every_pool`] does this. It is exact. It also holds if some pages have equal words or do not
//! compress: the former take no room, and the latter never enter a pool of zswap.
//!
//! If pages take different room, each pool is simulated by itself ([`pool`]). zram has no inclusion
//! then: a smaller pool may have turned away a large page, and have room for a small one that a
//! larger pool lacks. zswap still has, as long as the pool can hold every page: the argument above
//! needs no sizes. But how deep a page is then depends on what came and went above it.
//!
//! Under LRU with zswap, the resident pages and the pool are one LRU stack. So R pages and k places
//! miss, without unmapped pages, just what LRU misses in R + k pages.
//!
//! **A split may adapt.** Under LRU before zswap, [`balance`] weighs what pools of a few sizes
//! would have saved and cost lately, and [`adaptive`] moves memory to the size that pays best. This
//! is the paper's own scheme, with the differences that [`balance`] lists.
//!
//! **What the model has.** Pages that zsmalloc packs into its size classes ([`size_classes`]).
//! Exclusive loads: a page is in one place only. Write-back in the order of evictions, and the
//! accept threshold. Pages that do not compress: zswap sends them to the disk (up to Linux 6.17;
//! later kernels keep them, if they may be written back), zram keeps them whole. Pages whose words
//! are all equal: they take no room and are never written back. zram's `disksize`, and the kernel's
//! tables of both ([`limits`]). A pool of no pages is no pool: all that is evicted goes to the
//! disk.
//!
//! **What it does not have.**
//! - A fault takes its page out of the pool before another is evicted for it. A kernel keeps a few
//!   free frames for that.
//! - All evicted pages are compressed. A kernel drops a page that it has read from the disk, if it
//!   did not change since.
//! - A page compresses as well each time. It may have changed.
//! - The pool is compacted.
//! - In a fixed split, memory that the pool does not take is idle. A kernel leaves it to the
//!   program until the pool needs it, as the adaptive split does.
//! - zram is limited by the memory that it takes, so that the total is kept. The kernel does so
//!   only if `mem_limit` is set.
//! - Reading ahead, the shrinker that writes back before the limit is hit, and the second chance
//!   that later kernels give each page in zswap.

mod adaptive;
mod balance;
mod compressed_sizes;
mod counts;
mod every_pool;
mod kind;
mod limits;
mod observer;
mod pool;
mod simulation;
mod size_classes;
mod spec;

pub use balance::SplitCosts;
pub use compressed_sizes::{Codec, CompressedSizes, Compressibility, SizeSpread};
pub use counts::TierCounts;
pub use kind::TierKind;
pub use simulation::{Resident, Split, Tiers, TiersError};
pub use spec::{TierSpec, TierSpecError};
