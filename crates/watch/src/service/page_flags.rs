//! What the kernel says of frames, in `/proc/kpageflags` and `/proc/kpagecgroup`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Frames between two of interest that are read along rather than with another call.
const GAP_FRAMES: u64 = 64;

/// The flags of a frame; Documentation/admin-guide/mm/pagemap.rst of the kernel has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flags {
    pub(super) bits: u64,
    /// The page is charged to a cgroup that is not the service's.
    pub(super) is_elsewhere: bool,
}

impl Flags {
    fn has(self, bit: u32) -> bool {
        self.bits >> bit & 1 != 0
    }

    /// It is anonymous memory.
    pub(super) fn is_anonymous(self) -> bool {
        self.has(12)
    }

    /// If it is not anonymous: shared memory, or a file of tmpfs.
    pub(super) fn is_swap_backed(self) -> bool {
        self.has(14)
    }

    /// It is a page of hugetlbfs.
    pub(super) fn is_hugetlb(self) -> bool {
        self.has(17)
    }

    /// It is nobody's memory: no memory at all, or the page of zeros that all processes share.
    pub(super) fn is_nobodys(self) -> bool {
        self.has(20) || self.has(24)
    }

    /// It is in a list of pages by age, as pages of files and shared memory are.
    pub(super) fn is_in_use(self) -> bool {
        self.has(5)
    }
}

/// Where the kernel tells them.
#[derive(Debug)]
pub(super) struct PageFlags {
    flags: File,
    /// The inode of the memory cgroup that each frame is charged to.
    owners: File,
    /// Those of the service's cgroups. Empty: it has none.
    own: BTreeSet<u64>,
}

impl PageFlags {
    /// Opens that.
    pub(super) fn open() -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{name}"));
        Ok(Self { flags: open("kpageflags")?, owners: open("kpagecgroup")?, own: BTreeSet::new() })
    }

    /// From now on, these are the service's memory cgroups, by inode.
    pub(super) fn set_own(&mut self, own: BTreeSet<u64>) {
        self.own = own;
    }

    /// Whether it is known to which cgroup pages are charged.
    pub(super) fn knows_owners(&self) -> bool {
        !self.own.is_empty()
    }

    /// The flags of frames, ascending. Nothing is known of a frame that cannot be read.
    pub(super) fn of(&self, frames: &[u64]) -> Vec<Flags> {
        let flags = words(&self.flags, frames).into_iter();
        if !self.knows_owners() {
            return flags.map(|bits| Flags { bits, is_elsewhere: false }).collect();
        }
        let is_elsewhere = |owner: &u64| !self.own.contains(owner);
        let owners = words(&self.owners, frames);
        let both = flags.zip(&owners);
        both.map(|(bits, owner)| Flags { bits, is_elsewhere: is_elsewhere(owner) }).collect()
    }
}

/// The words of frames, ascending, in a file with a word for each frame. 0: it cannot be read.
fn words(file: &File, frames: &[u64]) -> Vec<u64> {
    let mut all = Vec::with_capacity(frames.len());
    let mut bytes = Vec::new();
    for run in frames.chunk_by(|a, b| b - a <= GAP_FRAMES) {
        let (first, last) = (run[0], run[run.len() - 1]);
        bytes.clear();
        bytes.resize(8 * (last - first + 1) as usize, 0);
        let _ = file.read_exact_at(&mut bytes, 8 * first);
        let words = bytes.as_chunks().0;
        all.extend(run.iter().map(|frame| u64::from_ne_bytes(words[(frame - first) as usize])));
    }
    all
}
