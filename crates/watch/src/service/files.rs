//! Pages of files: whether a page is mapped or read, it has one number.
//!
//! A page of a file is known by the file and its place in it (`sweephand_process::file_uses`), and
//! gets a number beyond those of all frames. It keeps the number while it is not in memory, so its
//! next use is a use of the same page.

use super::frames::Found;
use crate::history::FIRST_KEPT;
use crate::look::UsedPage;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::Duration;
use sweephand_process::accessed::NoBits;
use sweephand_process::file_uses::{BLOCK_PAGES, Block, FileId, FilePage, FilePages, FileUses, Taken};
use sweephand_process::space::ranges;

/// Numbers of file pages begin here.
const FIRST: u64 = FIRST_KEPT;
/// Blocks that have numbers: 256 GiB of files in order. In the history of a watch, the pages of a
/// block take 256 bytes.
const MOST_BLOCKS: usize = 1 << 20;

/// What the members have done with files in an epoch.
#[derive(Debug, Default)]
pub(super) struct FileLook {
    /// Pages that were read or written, ascending.
    pub(super) used: Vec<UsedPage>,
    /// Pages that have ended in this epoch, before or after they were used in it.
    pub(super) ended: Vec<Range<u64>>,
    /// Those of them that cannot have been used afterwards, and pages whose numbers are given to
    /// others next.
    pub(super) gone: Vec<Range<u64>>,
    /// Uses of blocks for which the kernel had no room.
    pub(super) lost_blocks: u64,
    /// What reads and writes have taken longer.
    pub(super) cost: Duration,
}

/// The numbers of the pages of files.
#[derive(Debug)]
struct Numbers {
    /// The number of the first page of each block, and the epoch in which it was used last.
    blocks: BTreeMap<Block, (u64, u64)>,
    /// No more of them than this.
    most_blocks: usize,
    epoch: u64,
    /// Where blocks were whose pages are gone.
    free: Vec<u64>,
    next: u64,
    /// The block that was asked for last, because the next page is mostly in the same.
    last: (Block, u64),
}

impl Default for Numbers {
    fn default() -> Self {
        let none = Block { file: FileId::default(), number: u64::MAX };
        Self {
            blocks: BTreeMap::new(),
            most_blocks: MOST_BLOCKS,
            epoch: 0,
            free: Vec::new(),
            next: FIRST,
            last: (none, 0),
        }
    }
}

impl Numbers {
    /// Whether no page of a file has a number.
    fn is_new(&self, file: FileId) -> bool {
        self.of_file(file, 0).next().is_none()
    }

    /// The blocks of a file from one on, with their numbers.
    fn of_file(&self, file: FileId, first: u64) -> impl Iterator<Item = (Block, u64)> {
        let all = Block { file, number: first }..=Block { file, number: u64::MAX };
        self.blocks.range(all).map(|(block, (number, _))| (*block, *number))
    }

    /// The number of the first page of a block.
    fn of_block(&mut self, block: Block) -> u64 {
        if self.last.0 != block {
            let (number, used) = self.blocks.entry(block).or_insert_with(|| {
                let number = self.free.pop().unwrap_or_else(|| {
                    self.next += BLOCK_PAGES;
                    self.next - BLOCK_PAGES
                });
                (number, self.epoch)
            });
            *used = self.epoch;
            self.last = (block, *number);
        }
        self.last.1
    }

    /// The numbers of the pages of a file from one on.
    fn from(&self, file: FileId, page: u64) -> Vec<Range<u64>> {
        let blocks = self.of_file(file, page / BLOCK_PAGES);
        let part = |(block, number): (Block, u64)| {
            let before = page.saturating_sub(block.number * BLOCK_PAGES);
            number + before..number + BLOCK_PAGES
        };
        blocks.map(part).collect()
    }

    /// The numbers of a file may be given to others.
    fn free(&mut self, file: FileId) {
        let gone: Vec<(Block, u64)> = self.of_file(file, 0).collect();
        for (block, number) in gone {
            self.blocks.remove(&block);
            self.free.push(number);
        }
        self.last = Self::default().last;
    }

    /// If there are too many blocks, those go that have not been used for longest, with room for
    /// some others. Returns the numbers of their pages.
    fn thin(&mut self) -> Vec<Range<u64>> {
        if self.blocks.len() <= self.most_blocks {
            return Vec::new();
        }
        let mut by_use: Vec<(u64, Block)> =
            self.blocks.iter().map(|(block, (_, used))| (*used, *block)).collect();
        let surplus = by_use.len() - self.most_blocks * 7 / 8;
        by_use.select_nth_unstable(surplus - 1);
        let gone = by_use[..surplus].iter().filter_map(|(_, block)| self.blocks.remove(block));
        let gone: Vec<u64> = gone.map(|(number, _)| number).collect();
        self.free.extend(&gone);
        gone.into_iter().map(|number| number..number + BLOCK_PAGES).collect()
    }

    /// What was done with files, in numbers.
    fn take(&mut self, taken: &Taken) -> FileLook {
        let mut look = FileLook { lost_blocks: taken.lost_blocks, cost: taken.cost, ..FileLook::default() };
        for (block, uses) in &taken.blocks {
            let first = self.of_block(*block);
            let used = (0..BLOCK_PAGES).filter(|bit| uses.used >> bit & 1 != 0);
            look.used.extend(
                used.map(|bit| UsedPage { number: first + bit, dirty: uses.written >> bit & 1 != 0 }),
            );
        }
        look.used.sort_unstable_by_key(|page| page.number);
        for (file, ended) in &taken.ended {
            let pages = self.from(*file, ended.from);
            if ended.is_final != 0 {
                look.gone.extend(pages.iter().cloned());
                self.free(*file);
            }
            look.ended.extend(pages);
        }
        look.gone.extend(self.thin());
        self.epoch += 1;
        self.last = Self::default().last;
        look
    }
}

/// The files of a service.
#[derive(Debug)]
pub(super) struct Files {
    uses: FileUses,
    pages: FilePages,
    numbers: Numbers,
}

impl Files {
    /// Has the kernel note uses from now on. No process counts yet.
    pub(super) fn begin() -> Result<Self, NoBits> {
        Ok(Self { pages: FilePages::load()?, uses: FileUses::begin()?, numbers: Numbers::default() })
    }

    /// The processes whose uses count now.
    pub(super) fn members(&self) -> io::Result<BTreeSet<u32>> {
        self.uses.members()
    }

    /// See [`FileUses::set_members`].
    pub(super) fn set_members(&self, before: &BTreeSet<u32>, now: &BTreeSet<u32>) -> io::Result<()> {
        self.uses.set_members(before, now)
    }

    /// The numbers of the pages of files that are in frames. `None`: it is not known which page it
    /// is.
    pub(super) fn in_frames(&mut self, frames: &[u64]) -> Vec<Option<u64>> {
        let found = self.pages.of(frames).unwrap_or_else(|_| vec![None; frames.len()]);
        let number = |page: Option<FilePage>| {
            let FilePage { file, number } = page?;
            let block = Block { file, number: number / BLOCK_PAGES };
            if self.numbers.last.0 != block && self.numbers.is_new(file) {
                self.uses.know(file);
            }
            Some(self.numbers.of_block(block) + number % BLOCK_PAGES)
        };
        found.into_iter().map(number).collect()
    }

    /// What was done with files since the call before.
    pub(super) fn take(&mut self) -> io::Result<FileLook> {
        Ok(self.numbers.take(&self.uses.take()?))
    }
}

/// Puts the pages that were read or written to those that were used where they are mapped. Each
/// counts once.
pub(super) fn put_to(found: &mut Found, files: &FileLook) {
    let order = |used: &mut Vec<UsedPage>| {
        used.sort_unstable_by_key(|page| page.number);
        used.dedup_by(|again, page| {
            page.dirty |= again.dirty && again.number == page.number;
            again.number == page.number
        });
        used.len() as u64
    };
    let mapped = order(&mut found.used);
    found.used.extend_from_slice(&files.used);
    found.used_pages.cached = order(&mut found.used) - mapped;
}

/// Of the pages that were used in an epoch, those that memory is of use for. Files that are written
/// and removed in the same epoch are not.
pub(super) fn lasting(
    used: &[UsedPage],
    gone: &[Range<u64>],
    is_known: impl Fn(u64) -> bool,
) -> impl Iterator<Item = UsedPage> {
    let starts: BTreeMap<u64, u64> = gone.iter().map(|pages| (pages.start, pages.end)).collect();
    used.iter().copied().filter(move |page| {
        let before = starts.range(..=page.number).next_back();
        is_known(page.number) || before.is_none_or(|(_, end)| page.number >= *end)
    })
}

/// Those of some pages that are known, as ranges.
pub(super) fn known(pages: &[Range<u64>], is_known: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let mut pages: Vec<u64> = pages.iter().cloned().flatten().filter(|page| is_known(*page)).collect();
    pages.sort_unstable();
    ranges(pages, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_process::file_uses::{Ended, Uses};

    const A: FileId = FileId { device: 1, generation: 0, inode: 5 };
    const B: FileId = FileId { device: 1, generation: 0, inode: 6 };

    fn taken(blocks: &[(FileId, u64, u64, u64)], ended: &[(FileId, u64, u64)]) -> Taken {
        let block = |&(file, number, used, written)| (Block { file, number }, Uses { used, written });
        let ended = ended.iter().map(|&(file, from, is_final)| (file, Ended { from, is_final }));
        Taken { blocks: blocks.iter().map(block).collect(), ended: ended.collect(), ..Taken::default() }
    }

    fn numbers(used: &[UsedPage]) -> Vec<u64> {
        used.iter().map(|page| page.number - FIRST).collect()
    }

    #[test]
    fn pages_that_come_and_go_in_an_epoch_are_not_lasting() {
        let used: Vec<UsedPage> = (0..10).map(|number| UsedPage { number, dirty: false }).collect();
        let numbers = |gone: &[Range<u64>]| -> Vec<u64> {
            lasting(&used, gone, |page| page == 3).map(|page| page.number).collect()
        };
        assert_eq!(numbers(&[]), (0..10).collect::<Vec<_>>());
        assert_eq!(numbers(&[7..9, 2..5]), [0, 1, 3, 5, 6, 9]);
    }

    #[test]
    fn a_page_of_a_file_keeps_its_number() {
        let mut all = Numbers::default();
        let look = all.take(&taken(&[(A, 0, 0b101, 0b100), (A, 9, 1, 0), (B, 0, 1 << 63, 0)], &[]));
        assert_eq!(numbers(&look.used), [0, 2, 64, 191]);
        assert_eq!(look.used.iter().filter(|page| page.dirty).count(), 1);
        assert_eq!(numbers(&all.take(&taken(&[(B, 0, 2, 0), (A, 9, 2, 0)], &[])).used), [65, 129]);
        assert_eq!((all.is_new(B), all.is_new(FileId { inode: 7, ..B })), (false, true));
    }

    #[test]
    fn pages_of_files_end() {
        let mut all = Numbers::default();
        all.take(&taken(&[(A, 0, 1, 0), (A, 1, 1, 0), (B, 0, 1, 0)], &[]));
        let look = all.take(&taken(&[(A, 0, 1, 0)], &[(A, 70, 0)]));
        let ended = FIRST + 70..FIRST + 128;
        assert_eq!((look.ended.as_slice(), look.gone.len()), (std::slice::from_ref(&ended), 0));
        let look = all.take(&taken(&[(A, 2, 1, 0)], &[(A, 0, 1)]));
        let whole: Vec<Range<u64>> = [0, 64, 192].map(|first| FIRST + first..FIRST + first + 64).into();
        assert_eq!((&look.ended, &look.gone), (&whole, &whole));
        // Its numbers go to others.
        let look = all.take(&taken(&[(A, 0, 1, 0), (B, 0, 1, 0), (B, 1, 1, 0)], &[]));
        assert_eq!(numbers(&look.used), [64, 128, 192]);
    }

    /// In four epochs, three blocks each; the first is used again in the third.
    #[test]
    fn blocks_that_were_not_used_for_longest_go() {
        let mut all = Numbers { most_blocks: 8, ..Numbers::default() };
        let mut gone = Vec::new();
        for epoch in 0..4 {
            let again = (epoch == 2).then_some((A, 0, 1, 0));
            let blocks: Vec<_> = (0..3).map(|block| (A, 3 * epoch + block, 1, 0)).chain(again).collect();
            gone.push(all.take(&taken(&blocks, &[])).gone);
        }
        let firsts = |gone: &[Range<u64>]| -> BTreeSet<u64> {
            gone.iter().map(|pages| (pages.start - FIRST) / BLOCK_PAGES).collect()
        };
        assert_eq!((gone[0].len(), gone[1].len(), all.blocks.len()), (0, 0, 7));
        assert_eq!(firsts(&gone[2]), BTreeSet::from([1, 2]));
        assert_eq!(firsts(&gone[3]), BTreeSet::from([3, 4, 5]));
        assert!(all.blocks.contains_key(&Block { file: A, number: 0 }));
    }

    #[test]
    fn a_page_that_is_mapped_and_read_counts_once() {
        let page = |number, dirty| UsedPage { number, dirty };
        let mut found = Found { used: vec![page(FIRST + 3, false), page(7, false)], ..Found::default() };
        let used = vec![page(FIRST + 1, false), page(FIRST + 3, true)];
        put_to(&mut found, &FileLook { used, ..FileLook::default() });
        assert_eq!(found.used, [page(7, false), page(FIRST + 1, false), page(FIRST + 3, true)]);
        assert_eq!(found.used_pages.cached, 1);
        let some = [8..12, 4..6];
        assert_eq!(known(&some, |page| page != 9), [4..6, 8..9, 10..12]);
    }
}
