//! Accessed bits of the calling process, for agents.

use super::layout::Layout;
use super::no_bits::NoBits;
use super::one_processor::OneProcessor;
use super::program::Program;
use super::scratch::ScratchMemory;
use super::walk::walk;
use std::io;
use std::os::fd::BorrowedFd;
use sweephand_pager_interface::accessed::{GROUP_PAGES, Query};
use sweephand_pager_interface::memory::PAGE_BYTES;

/// The program that tells a process which of its pages were used.
#[derive(Debug)]
pub struct AccessedBits {
    program: Program,
}

impl AccessedBits {
    /// Loads the program, and tries it on memory of this process.
    pub fn load() -> Result<Self, NoBits> {
        let layout = Layout::find()?;
        let bits = Self { program: Program::load(&walk(&layout)).map_err(NoBits::Program)? };
        // Twice, because the kernel itself may clear a bit meanwhile.
        bits.try_out().or_else(|_| bits.try_out())?;
        Ok(bits)
    }

    /// The program, for an agent.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.program.descriptor()
    }

    /// Which pages of a group the calling process has used.
    pub(super) fn query(&self, address: usize) -> io::Result<u64> {
        let mut query = Query { address: address as u64, accessed: 0 };
        self.program.run(&mut query)?;
        Ok(query.accessed)
    }

    /// Uses some pages of two groups, and compares.
    fn try_out(&self) -> Result<(), NoBits> {
        let _stay = OneProcessor::here();
        let memory = ScratchMemory::map(3 * GROUP_PAGES).map_err(NoBits::Program)?;
        let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
        let at = |page: usize| start + page * PAGE_BYTES as usize;
        (0..2 * GROUP_PAGES).for_each(|page| memory.write(at(page), page as u64));
        let look = || -> io::Result<[u64; 2]> { Ok([self.query(at(0))?, self.query(at(GROUP_PAGES + 5))?]) };
        let touched = look().map_err(NoBits::Program)?;
        memory.cool();
        let cold = look().map_err(NoBits::Program)?;
        let pattern = [0x8000_0000_dead_beef, 0x0123_4567_89ab_cdee];
        // Listed first: a processor that guesses a branch wrong uses a page that it should not.
        let is_used = |page: &usize| pattern[page / 64] >> (page % 64) & 1 != 0;
        let pages: Vec<usize> = (0..2 * GROUP_PAGES).filter(is_used).collect();
        pages.iter().for_each(|&page| memory.write(at(page), 1));
        let used = look().map_err(NoBits::Program)?;
        match (touched, cold, used == pattern) {
            ([u64::MAX, u64::MAX], [0, 0], true) => Ok(()),
            _ => Err(NoBits::Layout("accessed bits of pages that were used are not found")),
        }
    }
}
