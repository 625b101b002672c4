//! What the maps hold, as the programs write it and this process reads it.

/// Pages of a [`Block`].
pub const BLOCK_PAGES: u64 = 64;

/// What tells a file from all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(C)]
pub struct FileId {
    /// The device, as the kernel numbers it.
    pub device: u32,
    /// Tells it from a file that had the same inode before.
    pub generation: u32,
    /// Its inode.
    pub inode: u64,
}

/// [`BLOCK_PAGES`] pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(C)]
pub struct Block {
    /// The file.
    pub file: FileId,
    /// The number of its first page, divided by [`BLOCK_PAGES`].
    pub number: u64,
}

/// Uses of the pages of a block: a bit for each, the first page's lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Uses {
    /// It was read or written.
    pub used: u64,
    /// It was written.
    pub written: u64,
}

/// Pages of a file that are no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ended {
    /// The first of them. The others are all that come after it.
    pub from: u64,
    /// 1: the file is gone, and does not come back.
    pub is_final: u64,
}

/// What the programs count, since they run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Count {
    /// Calls of members.
    pub(super) inside: u64,
    /// Calls of other processes.
    pub(super) outside: u64,
    /// Blocks for which there was no room.
    pub(super) lost_blocks: u64,
    /// The last read that a processor has noted: what `turn` says, the file, the first page and the
    /// last.
    pub(super) noted: [u64; 4],
}
