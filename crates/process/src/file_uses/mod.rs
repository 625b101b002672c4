//! Uses of cached files by system calls: which pages of which files some processes have read and
//! written.
//!
//! The processor sets accessed bits for pages that are mapped. A page of a file that is read with
//! `read` is copied by the kernel, and no bit is set in the tables of the process. So BPF programs
//! run at tracepoints of the kernel that know which pages are used:
//!
//! ```text
//!   mm_filemap_get_pages        reads: read, pread, io_uring, sendfile, splice, exec
//!   ext4_write_begin,           writes to ext4
//!   ext4_da_write_begin
//!   iomap_iter                  writes to XFS, GFS2, block devices
//!   writeback_dirty_folio       writes to other file systems, where they make a page dirty
//! ```
//!
//! The first knows the file and the bytes of a read, of every file system that reads through the
//! page cache, and with an overlay in front of it. `folio_mark_accessed`, by which the kernel
//! itself learns of uses, says less: writes do not come there, small reads of one folio come there
//! once, and of a folio with hundreds of pages it does not say which one was read. A program at the
//! return of `filemap_read` would need no tracepoint, but not every kernel lets its functions be
//! traced.
//!
//! **Counting in the kernel.** The programs set a bit for each page, in a map with a word for each
//! 64 pages of a file. So a million reads of the same pages are no more to take out than one, and
//! no event can be lost between the kernel and this process. There is no order within an epoch. If
//! the map is full, further blocks are lost: they are counted. What cannot be made less is the time
//! that a call takes longer, some hundred nanoseconds. It is measured and counted.
//!
//! **Whose uses count.** The programs look up the process in a map of members. The children of
//! members become members when they are started (`sched_process_fork`).
//!
//! **What is the same page.** Device, inode, the inode's generation, and the page's number in the
//! file. So a page that the kernel evicts and reads again is the same page. Pages that are mapped
//! have frames, and [`FilePages`] finds the same four for a frame. That is the inode that holds the
//! pages, also where `/proc/PID/maps` shows that of an overlay. On btrfs, a file cannot be told
//! from the same file in a snapshot.
//!
//! **When pages end.** A file that is truncated, or deleted and then closed by all, has no pages
//! any more. When one of its pages leaves the cache for this reason, and not to make room, a
//! program notes the file (`mm_filemap_delete_from_page_cache`), if pages of it have been used.
//!
//! **What can be missed.** Pages that are read ahead and that nobody uses are not used. Direct I/O
//! does not use the cache. Reads and writes of tmpfs come to none of these places. Where writes are
//! seen at `writeback_dirty_folio` alone (btrfs, f2fs, NFS, FUSE), a page that is written again
//! before it has been written back is not seen again, and of a large folio only the first page is.
//! What a file system keeps about files, in the cache of its block device, is not seen. Nor are
//! reads that the kernel's own threads do for a process, as a server of NFS does. A use in the
//! moment in which the pages are taken out of the map may be missing.
//!
//! | file | what it holds |
//! |---|---|
//! | `program` | the programs that note uses, and ends |
//! | `price` | what a read takes longer |
//! | `map` | maps of BPF |
//! | `pages` | the pages of files that are in frames |
//! | `entries` | what the maps hold |

mod entries;
mod map;
mod pages;
mod price;
mod program;
#[cfg(test)]
mod tests;

pub use entries::{BLOCK_PAGES, Block, Ended, FileId, Uses};
pub use pages::{FilePage, FilePages};

use crate::accessed::NoBits;
use crate::accessed::types::Types;
use entries::Count;
use map::{Counts, Map};
use price::{Meter, Price};
use program::{LastPage, Maps};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// Processes that can be members.
const MOST_MEMBERS: u32 = 1 << 16;
/// Blocks that can be used between two calls of [`FileUses::take`]: 64 GiB of files in order, or a
/// GiB of single pages. Each takes some 100 bytes.
const MOST_BLOCKS: u32 = 1 << 18;
/// Files whose end is noted: those that were used last. The map takes some 5 MiB.
const MOST_FILES: u32 = 1 << 16;

/// What has been used since the call before.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// The blocks of which pages were used, ascending.
    pub blocks: Vec<(Block, Uses)>,
    /// Files that have ended, in whole or in part. Pages of them may have been used before that,
    /// and after it.
    pub ended: Vec<(FileId, Ended)>,
    /// Uses of blocks for which there was no room.
    pub lost_blocks: u64,
    /// What the calls of all processes have taken longer.
    pub cost: Duration,
}

/// Notes the uses of cached files by some processes, until it is dropped.
#[derive(Debug)]
pub struct FileUses {
    maps: Maps,
    price: Price,
    /// What has been counted up to the last call of [`FileUses::take`].
    counted: Count,
    /// How often the uses have been taken out.
    turn: u64,
    /// The programs run until these are closed.
    attached: Vec<OwnedFd>,
}

impl FileUses {
    /// Loads the programs and has them run. No process is a member yet.
    ///
    /// # Errors
    ///
    /// The kernel does not permit it, or has no such places.
    pub fn begin() -> Result<Self, NoBits> {
        let types = Types::open()?;
        let make = || -> io::Result<Maps> {
            Ok(Maps {
                members: Map::hash(MOST_MEMBERS)?,
                uses: Map::hash(MOST_BLOCKS)?,
                turn: Map::single()?,
                files: Map::recent(MOST_FILES)?,
                ended: Map::hash(MOST_FILES)?,
                counts: Counts::make()?,
            })
        };
        let maps = make().map_err(NoBits::Program)?;
        let meter = Meter::begin().map_err(NoBits::Program)?;
        let btf = types.btf()?;
        let mut attached = program::attach(&btf, &maps, LastPage::Told)?;
        let inode = meter.inode().map_err(NoBits::Program)?;
        let price = meter.end(&maps.members).map_err(NoBits::Program)?;
        let mut uses = Self { maps, price, counted: Count::default(), turn: 0, attached: Vec::new() };
        // The first two pages were read. Other threads may have read other files, and an overlay
        // may have an inode of its own.
        let taken = uses.take().map_err(NoBits::Program)?;
        let first_blocks = || taken.blocks.iter().filter(|(block, _)| block.number == 0);
        let own = first_blocks().find(|(block, _)| block.file.inode == inode).or(first_blocks().next());
        match own.map(|(_, uses)| uses.used) {
            Some(0b11) => {}
            Some(0b111) => {
                attached = program::attach(&btf, &uses.maps, LastPage::NextTold)?;
            }
            _ => {
                return Err(NoBits::Layout(
                    "a read of this program's file is not noted: it is on tmpfs, or this is a PID namespace",
                ));
            }
        }
        uses.attached = attached;
        Ok(uses)
    }

    /// The processes whose uses count now.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn members(&self) -> io::Result<BTreeSet<u32>> {
        Ok(self.maps.members.all()?.into_iter().map(|(process, _)| process).collect())
    }

    /// From now on, the uses of these processes count, and of those that they start. `before`: what
    /// [`Self::members`] has said before it was found out which ones they are; those of them that
    /// are none any more do not count.
    ///
    /// # Errors
    ///
    /// There are too many, or the kernel refuses it.
    pub fn set_members(&self, before: &BTreeSet<u32>, now: &BTreeSet<u32>) -> io::Result<()> {
        before.difference(now).for_each(|process| self.maps.members.remove(process));
        now.difference(before).try_for_each(|process| self.maps.members.set(process, process))
    }

    /// The end of a file is told from now on, also if its pages are only mapped. If there are too
    /// many files, those are left out that have not been used for long.
    pub fn know(&self, file: FileId) {
        let _ = self.maps.files.set(&file, &0);
    }

    /// What has been used since the call before.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn take(&mut self) -> io::Result<Taken> {
        // A file that ends from now on is told next time, and what was used before it now.
        let ended = self.maps.ended.take()?;
        let mut blocks = self.maps.uses.take()?;
        self.turn += 1;
        self.maps.turn.set(&0, &self.turn)?;
        blocks.sort_unstable_by_key(|(block, _)| *block);
        for (file, _) in ended.iter().filter(|(_, ended)| ended.is_final != 0) {
            self.maps.files.remove(file);
        }
        let all = self.maps.counts.all()?;
        let sum = |of: fn(&Count) -> u64| all.iter().map(of).sum::<u64>();
        let (inside, outside) = (sum(|count| count.inside), sum(|count| count.outside));
        let now = Count { inside, outside, lost_blocks: sum(|count| count.lost_blocks), noted: [0; 4] };
        let before = std::mem::replace(&mut self.counted, now);
        Ok(Taken {
            blocks,
            ended,
            lost_blocks: now.lost_blocks - before.lost_blocks,
            cost: self.price.of(now.inside - before.inside, now.outside - before.outside),
        })
    }
}
