//! Read-around: how many neighbours of a page to read with it, when faults follow no order.
//!
//! Each part of the address space has a window: the aligned block around a fault of which all pages
//! in the store are read. A window grows while what is read is used, and shrinks while it is not.
//! A window of one page teaches nothing. So there, and as long as a window is small, faults
//! themselves are the evidence: a fault near one of the latest would have been spared by a larger
//! window. The latest are few, as part of memory. Sooner or later a program faults near every page
//! that it uses, and a page that is read long before it is used takes the place of another.
//!
//! ```text
//!   fault near an earlier one, page read around and used   -->  balance up   --> window doubles
//!   fault far from all, page read around and never used    -->  balance down --> window halves
//! ```
//!
//! The kernel does likewise for each mapping (`mm/swap_state.c`, `swap_vma_readahead`).

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// Pages of a part of the address space that has one window: 2 MiB.
const PART_PAGES: usize = 512;
/// Parts that are known at a time. A part takes the place of another with the same remainder.
const PARTS: usize = 512;
/// Pages of a block in which faults are near each other.
const NEAR_PAGES: usize = 8;
/// Blocks of the latest faults that are known at a time.
const BLOCKS: usize = 1024;
/// A fault is one of the latest until this part of memory, in pages, has faulted since.
const LATEST_PART: usize = 64;
/// The largest window, in pages.
const MOST_PAGES: usize = 32;
/// What a page that is used adds to the balance, and one that is not takes away. So a window pays
/// as long as half of it is used. To read eight pages takes less than one and a half times as long
/// as to read one, so a third would pay by itself; but each page that is read in vain also drives
/// another out.
const USED: i8 = 1;
const UNUSED: i8 = -1;
/// The balance at which a window changes.
const ENOUGH: i8 = 12;

/// A part of the address space.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Which part it is.
    number: u32,
    /// The window is 2 to the power of this.
    power: u8,
    balance: i8,
}

/// A block in which a page has faulted.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    number: u32,
    /// Which fault it was, counted modulo 2^32. The first is 1.
    fault: u32,
}

/// The windows. Without tables if no window may be larger than a page.
#[derive(Debug)]
pub struct ReadAround {
    parts: Box<[Part]>,
    /// The latest fault in each block. A block takes the place of another with the same remainder.
    blocks: Box<[Block]>,
    /// Faults so far.
    faults: u32,
    /// The largest window is 2 to the power of this.
    most_power: u8,
}

impl ReadAround {
    /// Windows of at most `most` pages.
    pub fn new(most: usize) -> Self {
        let most_power = most.clamp(1, MOST_PAGES).ilog2() as u8;
        let table = |entries| if most_power > 0 { entries } else { 0 };
        Self {
            parts: vec![Part::default(); table(PARTS)].into_boxed_slice(),
            blocks: vec![Block::default(); table(BLOCKS)].into_boxed_slice(),
            faults: 0,
            most_power,
        }
    }

    fn part(&mut self, page_number: usize) -> &mut Part {
        let number = page_number / PART_PAGES;
        let part = &mut self.parts[number % PARTS];
        if part.number != number as u32 {
            *part = Part { number: number as u32, ..Part::default() };
        }
        part
    }

    fn learn(&mut self, page_number: usize, by: i8) {
        let most_power = self.most_power;
        let part = self.part(page_number);
        part.balance += by;
        if part.balance >= ENOUGH {
            part.power = (part.power + 1).min(most_power);
            part.balance = 0;
        } else if part.balance <= -ENOUGH {
            part.power = part.power.saturating_sub(1);
            part.balance = 0;
        }
    }

    /// Notes a fault in this block. Returns whether one of the latest was there too.
    fn is_near(&mut self, block: usize, memory_pages: usize) -> bool {
        self.faults = self.faults.wrapping_add(1);
        let this = Block { number: block as u32, fault: self.faults };
        let last = core::mem::replace(&mut self.blocks[block % BLOCKS], this);
        let since = this.fault.wrapping_sub(last.fault) as usize;
        last.number == this.number && last.fault != 0 && since <= (memory_pages / LATEST_PART).max(1)
    }

    /// A fault on a page of the store, by page number: which pages to read, itself included.
    /// `memory_pages`: how many pages fit in memory.
    pub fn fault(&mut self, page_number: usize, memory_pages: usize) -> Range<usize> {
        if self.most_power == 0 {
            return page_number..page_number + 1;
        }
        let is_near = self.is_near(page_number / NEAR_PAGES, memory_pages);
        if 1 << self.part(page_number).power < NEAR_PAGES {
            self.learn(page_number, if is_near { USED } else { UNUSED });
        }
        let pages = 1 << self.part(page_number).power;
        let first = page_number & !(pages - 1);
        first..first + pages
    }

    /// A page that no fault had asked for was used, or left without having been used. Where the
    /// window is one page, it was read or filled ahead of a stream, which teaches nothing.
    pub fn was_used(&mut self, page_number: usize, used: bool) {
        if self.most_power > 0 && self.part(page_number).power > 0 {
            self.learn(page_number, if used { USED } else { UNUSED });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_policy::SplitMix64;

    const MEMORY_PAGES: usize = 1 << 14;

    #[test]
    fn a_window_grows_where_neighbours_are_used_and_shrinks_where_they_are_not() {
        let mut around = ReadAround::new(128);
        // Every second page of a part, in an order that is no stream.
        let faults = |around: &mut ReadAround| {
            let mut largest = 0;
            for step in 0..PART_PAGES {
                let page = 7 * PART_PAGES + step * 77 % PART_PAGES;
                let window = around.fault(page, MEMORY_PAGES);
                assert!(
                    window.contains(&page) && window.start.is_multiple_of(window.len()),
                    "page {page}: {window:?}"
                );
                largest = window.len().max(largest);
                window.filter(|&other| other != page).for_each(|other| around.was_used(other, true));
            }
            largest
        };
        assert_eq!(faults(&mut around), MOST_PAGES);
        assert_eq!(
            around.fault(9 * PART_PAGES, MEMORY_PAGES).len(),
            1,
            "another part has a window of its own"
        );
        for _ in 0..8 * ENOUGH {
            around.was_used(7 * PART_PAGES, false);
        }
        assert!(around.fault(7 * PART_PAGES, MEMORY_PAGES).len() < NEAR_PAGES);
    }

    /// However small the program is: each block has a fault again and again.
    #[test]
    fn faults_all_over_the_place_read_one_page() {
        for program_pages in [1 << 10, 1 << 13, 1 << 16, 1 << 22] {
            let (mut around, mut random) = (ReadAround::new(128), SplitMix64::new(3));
            let mut fault = || around.fault(random.below(program_pages) as usize, program_pages as usize / 2);
            let pages: usize = (0..20_000).map(|_| fault().len()).sum();
            assert!(pages < 20_400, "{program_pages} pages: {pages} are read");
        }
    }

    /// A program that fills its memory in order has used all of what was filled ahead.
    #[test]
    fn what_a_stream_brought_opens_no_window() {
        let mut around = ReadAround::new(128);
        (0..PART_PAGES).for_each(|page| around.was_used(page, true));
        assert_eq!(around.fault(100, MEMORY_PAGES).len(), 1);
    }

    #[test]
    fn switched_off_it_opens_no_windows() {
        let mut around = ReadAround::new(0);
        around.was_used(3, true);
        assert!((0..100).all(|page| around.fault(page * 3, MEMORY_PAGES) == (page * 3..page * 3 + 1)));
    }
}
