//! How to run a program.

use crate::PAGE_BYTES;
use crate::run_scope::CgroupLimit;
use std::path::PathBuf;
use std::time::Duration;
use sweephand_pager_interface::division::most_pool_pages;
use sweephand_pager_interface::spec::LiveSpec;

/// How pages are taken from a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// [`Backend::Anon`] or [`Backend::Swap`]: see [`crate::start()`].
    #[default]
    Auto,
    /// An agent inside the program moves pages of its private memory.
    Anon,
    /// The kernel swaps, and a thread of this process chooses the pages.
    Swap,
}

impl Backend {
    /// All backends, by name.
    pub const ALL: [(&str, Self); 3] = [("auto", Self::Auto), ("anon", Self::Anon), ("swap", Self::Swap)];
}

/// Where the reference bits of the `anon` backend come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceBits {
    /// From the processor if the command may read its accessed bits, or else from the kernel's
    /// read-write protection, or else software. The command finds out when the first process begins
    /// to page.
    Auto,
    /// From the processor, or there is no run.
    Hardware,
    /// From the kernel's read-write protection, or there is no run.
    Rwp,
    /// Pages are unmapped to see whether they are in use.
    Software,
}

impl ReferenceBits {
    /// All sources, by name.
    pub const ALL: [(&str, Self); 4] = [
        ("auto", Self::Auto),
        ("hardware", Self::Hardware),
        ("rwp", Self::Rwp),
        ("software", Self::Software),
    ];
}

/// How much of the memory evicted pages have, compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolSize {
    /// None.
    #[default]
    Off,
    /// As much as pays. That changes with what the program does.
    Auto,
    /// The same where the kernel pages to a slow disk and a zram device can be made. None
    /// otherwise.
    AutoIfSlow,
    /// This many bytes.
    Bytes(u64),
}

impl PoolSize {
    /// Whether it follows what pays.
    pub fn is_auto(self) -> bool {
        matches!(self, Self::Auto | Self::AutoIfSlow)
    }

    /// The bytes that a zram device should take, of memory of this size: 0 for none. If it is used
    /// as long as that pays, it is as large as a device can be (`swap_file::create_zram`).
    pub fn device_bytes(self, limit_bytes: u64) -> u64 {
        match self {
            Self::Off => 0,
            Self::Auto | Self::AutoIfSlow => {
                let most_pages = most_pool_pages(limit_bytes / PAGE_BYTES, 0);
                (limit_bytes / 8 * 3).min(most_pages * PAGE_BYTES)
            }
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// How to run a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// Anonymous memory of each process of the program, the pager's own included. If the kernel
    /// pages: of all its processes together.
    pub limit_bytes: u64,
    /// Which pages go.
    pub policy: LiveSpec,
    /// A directory for the backing store, or a file's name in one.
    pub swap: PathBuf,
    /// Most pages to read ahead at once; 0 for none.
    pub prefetch_pages: u32,
    /// Whether to use io_uring where there is one.
    pub use_ring: bool,
    /// What each read of the backing store takes in addition, one after another, as of a slower
    /// disk. With it there is no io_uring.
    pub read_delay: Duration,
    /// The part of the memory in which evicted pages are kept compressed. An agent has it for each
    /// process. The kernel has a zram device of about that size for all of them.
    pub pool: PoolSize,
    /// How pages are taken from the program.
    pub backend: Backend,
    /// No policy is named. So the kernel chooses the pages that go, unless the policy proves
    /// faster, which trials by turns show. It is for [`Backend::Swap`] and [`Backend::Auto`].
    pub by_turns: bool,
    /// How to learn which pages are in use.
    pub reference_bits: ReferenceBits,
    /// The limit of the cgroup around the program.
    pub cgroup_limit: CgroupLimit,
}
