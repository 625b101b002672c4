//! What the director needs.

use crate::budget::Budget;
use crate::counts::Counts;
use crate::faults::Faults;
use crate::memory::Memory;
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use sweephand_pager_interface::spec::LiveSpec;
use sweephand_process::accessed::ProcessBits;
use sweephand_process::swap_area::Rank;

/// Who chooses the pages that go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choosers {
    /// The policy.
    Policy,
    /// The policy or the kernel: the faster of the two, as trials show.
    Both {
        /// What a read of a page takes where pages go, if it has been measured.
        read: Option<Duration>,
    },
}

/// What it takes to use a zram device only while it pays.
#[derive(Clone, Debug)]
pub struct ZramTrial {
    /// What a read of a page of the disk takes.
    pub read: Duration,
    /// A swap file that is not there yet.
    pub second_file: PathBuf,
    /// Makes it, and has the kernel use it as an area of a rank.
    pub create: fn(&Path, Rank) -> bool,
}

/// What the director directs, and how.
#[derive(Debug)]
pub struct Order {
    /// Reads the accessed bits of the program's processes: see [`check`](crate::check).
    pub bits: ProcessBits,
    /// Reports their page faults.
    pub faults: Faults,
    /// Their memory.
    pub budget: Budget,
    /// The policy, which has been checked.
    pub policy: LiveSpec,
    /// Most pages to read ahead at once.
    pub prefetch_pages: u32,
    /// Who chooses.
    pub choosers: Choosers,
    /// For a zram device of the budget that is used only while it pays.
    pub zram_trial: Option<ZramTrial>,
    /// The first process of the program.
    pub process: u32,
}

/// What the director has while it works.
pub(crate) struct Parts {
    pub(crate) memory: Memory,
    pub(crate) faults: Faults,
    pub(crate) budget: Budget,
    pub(crate) spec: LiveSpec,
    pub(crate) prefetch_pages: u32,
    pub(crate) choosers: Choosers,
    pub(crate) zram_trial: Option<ZramTrial>,
    /// The first process of the program.
    pub(crate) process: u32,
    /// Readable when it is time to end.
    pub(crate) stop: OwnedFd,
    pub(crate) counts: Arc<Mutex<Counts>>,
}
