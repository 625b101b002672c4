//! The frames that the processes of a service have mapped, each once.

use super::page_flags::Flags;
use crate::look::{UsedPage, count, pages_of};
use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use sweephand_contents::hash;
use sweephand_process::accessed::{Mask, TABLE_PAGES};
use sweephand_process::space::ranges;

/// Frames of a block.
const BLOCK_FRAMES: u64 = TABLE_PAGES as u64;

/// Numbers of pages, by what they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// Anonymous memory.
    pub anonymous: u64,
    /// Shared memory, and files of tmpfs.
    pub shared: u64,
    /// Mapped files.
    pub file: u64,
    /// Huge pages of hugetlbfs, in small pages.
    pub hugetlb: u64,
    /// Of pages that were used: files that were read or written, and not used where they are
    /// mapped.
    pub cached: u64,
}

impl Pages {
    /// All of them.
    pub fn all(self) -> u64 {
        self.anonymous + self.shared + self.file + self.hugetlb + self.cached
    }
}

impl AddAssign for Pages {
    fn add_assign(&mut self, other: Self) {
        self.anonymous += other.anonymous;
        self.shared += other.shared;
        self.file += other.file;
        self.hugetlb += other.hugetlb;
        self.cached += other.cached;
    }
}

/// What a page table says of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    pub(super) frame: u64,
    /// The page's number in the process.
    pub(super) number: u64,
    /// It is a file's, or shared memory.
    pub(super) is_file: bool,
    pub(super) is_accessed: bool,
    pub(super) is_dirty: bool,
    /// The accessed bit is of this epoch alone.
    pub(super) is_of_epoch: bool,
}

/// What tells the page in a frame from another one that comes into the same frame later.
type Identity = u32;
/// Nothing is known of the frame.
const NO_PAGE: Identity = 0;
/// A page of a file or of shared memory.
const FILE_PAGE: Identity = 1;

fn identity(mapped: &Mapped) -> Identity {
    if mapped.is_file { FILE_PAGE } else { (hash(mapped.number) >> 32) as u32 | 2 }
}

/// Some frames in a row: 2 KiB and a bit for each MiB of them.
#[derive(Debug)]
struct Block {
    pages: [Identity; BLOCK_FRAMES as usize],
    /// Mapped by a process, as this look has found.
    mapped: Mask,
    used: Mask,
    dirty: Mask,
    /// Used, and maybe before this epoch.
    unknown: Mask,
    /// Frames with another page than in the look before.
    fresh: Mask,
    /// Those of them of which a look had reported the page before.
    replaced: Mask,
    /// Frames whose page some look has reported as used.
    reported: Mask,
    shared: Mask,
    file: Mask,
    hugetlb: Mask,
    /// Charged to a cgroup that is not the service's.
    elsewhere: Mask,
}

const NONE: Mask = [0; TABLE_PAGES / 64];

impl Default for Block {
    fn default() -> Self {
        Self {
            pages: [NO_PAGE; BLOCK_FRAMES as usize],
            mapped: NONE,
            used: NONE,
            dirty: NONE,
            unknown: NONE,
            fresh: NONE,
            replaced: NONE,
            reported: NONE,
            shared: NONE,
            file: NONE,
            hugetlb: NONE,
            elsewhere: NONE,
        }
    }
}

fn both(one: &Mask, other: &Mask) -> Mask {
    std::array::from_fn(|word| one[word] & other[word])
}

fn without(one: &Mask, other: &Mask) -> Mask {
    std::array::from_fn(|word| one[word] & !other[word])
}

fn set(mask: &mut Mask, index: usize) {
    mask[index / 64] |= 1 << (index % 64);
}

fn unset(mask: &mut Mask, index: usize) {
    mask[index / 64] &= !(1 << (index % 64));
}

fn has(mask: &Mask, index: usize) -> bool {
    mask[index / 64] >> (index % 64) & 1 != 0
}

impl Block {
    fn begin(&mut self) {
        for mask in [
            &mut self.mapped,
            &mut self.used,
            &mut self.dirty,
            &mut self.unknown,
            &mut self.fresh,
            &mut self.replaced,
        ] {
            *mask = NONE;
        }
    }

    /// A process has a frame mapped.
    fn add(&mut self, index: usize, mapped: &Mapped) {
        // What one process says of the page holds for all: after a fork it has the same address.
        if !has(&self.mapped, index) {
            set(&mut self.mapped, index);
            let identity = identity(mapped);
            if self.pages[index] != identity {
                set(&mut self.fresh, index);
                self.forget(index);
                self.pages[index] = identity;
            }
        }
        if mapped.is_dirty {
            set(&mut self.dirty, index);
        }
        if mapped.is_accessed {
            set(if mapped.is_of_epoch { &mut self.used } else { &mut self.unknown }, index);
        }
    }

    /// The page in a frame is gone.
    fn forget(&mut self, index: usize) {
        if has(&self.reported, index) {
            set(&mut self.replaced, index);
            unset(&mut self.reported, index);
        }
        self.pages[index] = NO_PAGE;
        for mask in [&mut self.shared, &mut self.file, &mut self.hugetlb, &mut self.elsewhere] {
            unset(mask, index);
        }
    }

    /// What the kernel says of a frame with a new page.
    fn classify(&mut self, index: usize, flags: Flags) {
        if flags.is_nobodys() {
            for mask in [&mut self.mapped, &mut self.used, &mut self.unknown, &mut self.dirty] {
                unset(mask, index);
            }
            self.forget(index);
            return;
        }
        if flags.is_elsewhere {
            set(&mut self.elsewhere, index);
        }
        if flags.is_hugetlb() {
            set(&mut self.hugetlb, index);
        } else if self.pages[index] == FILE_PAGE {
            set(if flags.is_swap_backed() { &mut self.shared } else { &mut self.file }, index);
        }
    }

    /// Whether a page of a file or of shared memory, which no process has mapped any more, is still
    /// in its frame.
    fn is_kept(&self, index: usize, flags: Flags) -> bool {
        self.pages[index] == FILE_PAGE
            && flags.is_in_use()
            && !flags.is_anonymous()
            && flags.is_swap_backed() == has(&self.shared, index)
    }

    /// Known frames that no process has mapped.
    fn unmapped(&self) -> Vec<usize> {
        let known = self.pages.iter().enumerate().filter(|(_, page)| **page != NO_PAGE);
        known.map(|(index, _)| index).filter(|&index| !has(&self.mapped, index)).collect()
    }

    /// The pages of a mask, by what they are.
    fn by_kind(&self, mask: &Mask) -> Pages {
        let of = |kind: &Mask| u64::from(count(&both(mask, kind)));
        let (shared, file, hugetlb) = (of(&self.shared), of(&self.file), of(&self.hugetlb));
        let anonymous = u64::from(count(mask)) - shared - file - hugetlb;
        Pages { anonymous, shared, file, hugetlb, cached: 0 }
    }
}

/// What the frames say in a look.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Pages that were used, by the frame or, of files, by the number of the page.
    pub(super) used: Vec<UsedPage>,
    pub(super) mapped: Pages,
    /// Those of them that are charged to a cgroup that is not the service's.
    pub(super) elsewhere: Pages,
    pub(super) used_pages: Pages,
    pub(super) unknown_pages: u64,
    pub(super) dirty_pages: u64,
    /// Frames that some look has reported by their own number and whose page is gone.
    pub(super) dropped: Vec<Range<u64>>,
}

/// The frames that are known, by the number of their block.
#[derive(Debug, Default)]
pub(super) struct Frames {
    blocks: BTreeMap<u64, Box<Block>>,
}

impl Frames {
    /// A look begins: no frame has been found yet.
    pub(super) fn begin(&mut self) {
        self.blocks.values_mut().for_each(|block| block.begin());
    }

    /// A process has a page in a frame.
    pub(super) fn add(&mut self, mapped: &Mapped) {
        let block = self.blocks.entry(mapped.frame / BLOCK_FRAMES).or_default();
        block.add((mapped.frame % BLOCK_FRAMES) as usize, mapped);
    }

    /// All processes have said what they have. `flags`: what the kernel says of frames, ascending.
    /// `file_pages`: the numbers of the pages of files and of shared memory in frames, as far as
    /// they are known.
    pub(super) fn finish(
        &mut self,
        flags: impl Fn(&[u64]) -> Vec<Flags>,
        file_pages: impl FnOnce(&[u64]) -> Vec<Option<u64>>,
    ) -> Found {
        let mut found = Found::default();
        let mut dropped = Vec::new();
        // Frames of files that were used.
        let mut of_files = Vec::new();
        for (&number, block) in &mut self.blocks {
            let first = number * BLOCK_FRAMES;
            let fresh: Vec<u64> = pages_of(number, &block.fresh).collect();
            for (frame, flags) in fresh.iter().zip(flags(&fresh)) {
                block.classify((frame - first) as usize, flags);
            }
            let unmapped = block.unmapped();
            let frames: Vec<u64> = unmapped.iter().map(|&index| first + index as u64).collect();
            for (index, flags) in unmapped.into_iter().zip(flags(&frames)) {
                if !block.is_kept(index, flags) {
                    block.forget(index);
                }
            }
            // The age of the bits of hugetlbfs is not known.
            let hugetlb = both(&block.used, &block.hugetlb);
            let used = without(&block.used, &hugetlb);
            let unknown: Mask = std::array::from_fn(|word| block.unknown[word] | hugetlb[word]);
            found.unknown_pages += u64::from(count(&without(&unknown, &used)));
            found.dirty_pages += u64::from(count(&block.dirty));
            found.mapped += block.by_kind(&block.mapped);
            found.elsewhere += block.by_kind(&both(&block.mapped, &block.elsewhere));
            found.used_pages += block.by_kind(&used);
            let kinds: Mask = std::array::from_fn(|word| block.shared[word] | block.file[word]);
            of_files.extend(pages_of(number, &both(&used, &kinds)));
            found.used.extend(
                pages_of(number, &used).map(|frame| UsedPage {
                    number: frame,
                    dirty: has(&block.dirty, (frame - first) as usize),
                }),
            );
            dropped.extend(pages_of(number, &block.replaced));
            block.reported.iter_mut().zip(used).for_each(|(reported, used)| *reported |= used);
        }
        found.dropped = ranges(dropped, 0);
        self.number_files(&mut found.used, &of_files, &file_pages(&of_files));
        self.blocks.retain(|_, block| block.pages.iter().any(|page| *page != NO_PAGE));
        found
    }

    /// Gives used pages of files, in these frames, their numbers, as far as they are known. The
    /// kernel may have put another page of a file into a frame since the last look.
    fn number_files(&mut self, used: &mut [UsedPage], frames: &[u64], numbers: &[Option<u64>]) {
        let mut used = used.iter_mut();
        for (frame, page) in frames.iter().zip(numbers) {
            let (Some(page), Some(used)) = (page, used.find(|page| page.number == *frame)) else { continue };
            used.number = *page;
            if let Some(block) = self.blocks.get_mut(&(frame / BLOCK_FRAMES)) {
                unset(&mut block.reported, (frame % BLOCK_FRAMES) as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn flags(bits: u64) -> Flags {
        Flags { bits, is_elsewhere: false }
    }

    const ANONYMOUS: Flags = flags(1 << 12 | 1 << 14 | 1 << 5);
    const SHARED: Flags = flags(1 << 14 | 1 << 5);
    const FILE: Flags = flags(1 << 5);
    const HUGETLB: Flags = flags(1 << 17);
    const ZERO: Flags = flags(1 << 24);

    fn used(frame: u64, number: u64) -> Mapped {
        Mapped { frame, number, is_file: false, is_accessed: true, is_dirty: false, is_of_epoch: true }
    }

    fn idle(frame: u64, number: u64) -> Mapped {
        Mapped { is_accessed: false, ..used(frame, number) }
    }

    fn of_file(mapped: Mapped) -> Mapped {
        Mapped { is_file: true, ..mapped }
    }

    fn look(frames: &mut Frames, all: &[Mapped], flags: impl Fn(u64) -> Flags) -> Found {
        frames.begin();
        all.iter().for_each(|mapped| frames.add(mapped));
        let flags = |frames: &[u64]| frames.iter().map(|&frame| flags(frame)).collect();
        frames.finish(flags, |frames| vec![None; frames.len()])
    }

    fn numbers(found: &Found) -> Vec<u64> {
        found.used.iter().map(|page| page.number).collect()
    }

    fn dropped(found: &Found) -> Vec<u64> {
        found.dropped.iter().cloned().flatten().collect()
    }

    #[test]
    fn a_frame_counts_once_however_many_processes_have_it() {
        let mut frames = Frames::default();
        // Three processes after a fork: one of them has used frame 600.
        let all = [idle(600, 7), used(600, 7), idle(600, 7), idle(5, 8), used(9, 9)];
        let found = look(&mut frames, &all, |_| ANONYMOUS);
        assert_eq!(numbers(&found), [9, 600]);
        assert_eq!(found.mapped, Pages { anonymous: 3, ..Pages::default() });
        assert_eq!((found.used_pages.anonymous, found.unknown_pages), (2, 0));
        assert!(found.dropped.is_empty());
    }

    #[test]
    fn frames_are_told_apart_by_what_they_hold() {
        let mut frames = Frames::default();
        let all =
            [of_file(used(1, 11)), of_file(used(2, 12)), used(3, 13), used(4, 14), of_file(used(5, 15))];
        let elsewhere = Flags { is_elsewhere: true, ..FILE };
        let flags = |frame| [elsewhere, SHARED, ANONYMOUS, ZERO, HUGETLB][frame as usize - 1];
        for _ in 0..2 {
            let found = look(&mut frames, &all, flags);
            assert_eq!(found.mapped, Pages { anonymous: 1, shared: 1, file: 1, hugetlb: 1, cached: 0 });
            assert_eq!(found.mapped.all(), 4);
            assert_eq!(found.elsewhere, Pages { file: 1, ..Pages::default() });
            assert_eq!((numbers(&found), found.unknown_pages), (vec![1, 2, 3], 1));
        }
    }

    #[test]
    fn bits_from_before_the_epoch_are_unknown_unless_another_process_has_used_the_page() {
        let mut frames = Frames::default();
        let old = |mapped| Mapped { is_of_epoch: false, ..mapped };
        let all = [old(used(1, 11)), old(used(2, 12)), used(2, 12), old(idle(3, 13))];
        let found = look(&mut frames, &all, |_| ANONYMOUS);
        assert_eq!((numbers(&found), found.unknown_pages, found.mapped.all()), (vec![2], 1, 3));
    }

    #[test]
    fn a_frame_that_gets_another_page_is_dropped_first() {
        let mut frames = Frames::default();
        assert!(
            look(&mut frames, &[used(1, 11), used(2, 12), idle(3, 13)], |_| ANONYMOUS).dropped.is_empty()
        );
        // Frame 1 is mapped elsewhere, 2 is gone, and 3 was never reported.
        let found = look(&mut frames, &[used(1, 99), used(3, 98)], |_| ANONYMOUS);
        assert_eq!(dropped(&found), [1, 2]);
        assert!(look(&mut frames, &[], |_| ANONYMOUS).used.is_empty());
        assert!(frames.blocks.is_empty());
    }

    /// Page 70 of a file comes into the frame of page 50, which stays what it is.
    #[test]
    fn a_page_of_a_file_is_known_by_its_number() {
        let mut frames = Frames::default();
        for page in [50, 70, 50] {
            frames.begin();
            frames.add(&of_file(used(1, 11)));
            frames.add(&used(2, 12));
            let flags = |frames: &[u64]| -> Vec<Flags> {
                frames.iter().map(|frame| [FILE, ANONYMOUS][*frame as usize - 1]).collect()
            };
            let found = frames.finish(flags, |frames| {
                assert!(frames.iter().all(|frame| *frame == 1));
                vec![Some(page); frames.len()]
            });
            assert_eq!((numbers(&found), dropped(&found)), (vec![page, 2], vec![]));
        }
        // It is not gone with its frame, as anonymous memory is.
        assert_eq!(dropped(&look(&mut frames, &[used(1, 12)], |_| ANONYMOUS)), [2]);
    }

    #[test]
    fn a_page_of_a_file_stays_known_while_nobody_has_it_mapped() {
        let mut frames = Frames::default();
        let all = [of_file(used(1, 11)), of_file(used(2, 12)), of_file(used(3, 13))];
        look(&mut frames, &all, |frame| if frame == 3 { SHARED } else { FILE });
        // Frame 2 is anonymous memory by now, and 3 a file's.
        let found = look(&mut frames, &[], |frame| if frame == 2 { ANONYMOUS } else { FILE });
        assert_eq!((dropped(&found), found.mapped.all()), (vec![2, 3], 0));
        let found = look(&mut frames, &[of_file(used(1, 50))], |_| FILE);
        assert_eq!((dropped(&found), found.mapped.file), (vec![], 1));
    }
}
