//! Memory of this process on which programs are tried and costs are measured.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::{io, ptr};
use sweephand_pager_interface::memory::PAGE_BYTES;

/// Memory of this process to try things on.
#[derive(Debug)]
pub struct ScratchMemory {
    /// Its address.
    pub start: usize,
    bytes: usize,
}

impl ScratchMemory {
    /// Maps a number of small pages.
    pub fn map(pages: usize) -> io::Result<Self> {
        let bytes = pages * PAGE_BYTES as usize;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        let memory = Self { start: start as usize, bytes };
        memory.advise(Advice::LinuxNoHugepage);
        Ok(memory)
    }

    pub(super) fn advise(&self, advice: Advice) {
        // SAFETY: this changes how the kernel keeps the pages, and not what is in them.
        let _ = unsafe { madvise(self.start as *mut c_void, self.bytes, advice) };
    }

    /// Clears the accessed bits of some pages.
    pub fn cool_pages(&self, address: usize, pages: usize) {
        let bytes = pages * PAGE_BYTES as usize;
        assert!(address >= self.start && address + bytes <= self.start + self.bytes);
        // SAFETY: as above.
        let _ = unsafe { madvise(address as *mut c_void, bytes, Advice::LinuxCold) };
    }

    /// Clears all accessed bits, if the thread has been on
    /// [`OneProcessor`](super::OneProcessor) since it mapped this.
    pub fn cool(&self) {
        self.advise(Advice::LinuxCold);
    }

    /// Adds 1 to each of some words.
    pub fn increment(&self, address: usize, words: usize) {
        assert!(address >= self.start && address + 8 * words <= self.start + self.bytes);
        // SAFETY: within the mapping, which nothing else refers to, and aligned to pages.
        let words = unsafe { std::slice::from_raw_parts_mut(address as *mut u64, words) };
        words.iter_mut().for_each(|word| *word = word.wrapping_add(1));
    }

    /// Writes a word.
    pub fn write(&self, address: usize, word: u64) {
        assert!((self.start..self.start + self.bytes).contains(&address));
        // SAFETY: within the mapping.
        unsafe { (address as *mut u64).write_volatile(word) };
    }
}

impl Drop for ScratchMemory {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        let _ = unsafe { munmap(self.start as *mut c_void, self.bytes) };
    }
}
