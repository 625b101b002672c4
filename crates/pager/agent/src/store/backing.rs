//! The backing store: which slot of which file holds which page's contents.
//!
//! Slots are handed out in runs (`slots.rs` of crates/pager/interface says how), so that a batch of
//! evicted pages is one write or a few. A slot is free again as soon as its page has been read
//! back. If the page is evicted again, it is written to the current end of the log.
//!
//! A fork freezes the file. Parent and child both read what they had there, and each writes to a
//! new file of its own. The kernel frees a file's space when the last process has closed it. No
//! file has a name.

use alloc::vec::Vec;
use rustix::fd::OwnedFd;
use sweephand_pager_interface::slots::Slots;

/// Bits of a slot's number within its file; the file's number is above.
const SLOT_BITS: u32 = 28;
/// Files that a process may read from: its own, and those from before each fork.
pub const MOST_FILES: usize = 16;
/// Most slots that space is asked for in advance; asking takes as long as several writes do.
const RESERVED_SLOTS: usize = 4096;

/// A page's worth of a file, with the number of the file.
pub type Slot = u32;

/// Where a slot is.
pub fn location(slot: Slot) -> (usize, u64) {
    ((slot >> SLOT_BITS) as usize, u64::from(slot & ((1 << SLOT_BITS) - 1)))
}

/// A file of slots.
#[derive(Debug)]
pub struct StoreFile {
    /// The file, open for direct I/O.
    pub file: OwnedFd,
    slots: Slots,
    /// Slots that there is space for on the disk.
    reserved: usize,
}

impl StoreFile {
    fn new(file: OwnedFd) -> Self {
        Self { file, slots: Slots::default(), reserved: 0 }
    }

    /// What it needs to have space for all of its slots, and an eighth more.
    fn growth(&self, file: usize) -> Option<Growth> {
        let least = self.slots.count();
        let wished = least + (least / 8).min(RESERVED_SLOTS);
        (least > self.reserved).then_some(Growth { file, from: self.reserved, least, wished })
    }
}

/// Space that a file needs before the slots that have been handed out are written to. In slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// Its number.
    pub file: usize,
    /// What it has.
    pub from: usize,
    /// What it must have.
    pub least: usize,
    /// What it should have, so as not to ask again soon.
    pub wished: usize,
}

/// The files.
#[derive(Debug, Default)]
pub struct Store {
    files: [Option<StoreFile>; MOST_FILES],
    /// The file written to.
    current: usize,
}

impl Store {
    /// A store that writes to a new, empty file.
    pub fn new(file: OwnedFd) -> Self {
        let mut store = Self::default();
        store.files[0] = Some(StoreFile::new(file));
        store
    }

    fn writing(&mut self) -> &mut StoreFile {
        self.files[self.current].as_mut().expect("the current file is open")
    }

    /// The file with a number.
    pub fn file(&self, number: usize) -> &OwnedFd {
        &self.files[number].as_ref().expect("slots of a file keep it open").file
    }

    /// The files that are open, by number.
    pub fn files(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        self.files.iter().enumerate().filter_map(|(n, file)| Some((n, &file.as_ref()?.file)))
    }

    /// The number of the file written to.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Puts another descriptor in place of a file's; returns the old one.
    pub fn replace_descriptor(&mut self, number: usize, file: OwnedFd) -> OwnedFd {
        let entry = self.files[number].as_mut().expect("only files that are open are replaced");
        core::mem::replace(&mut entry.file, file)
    }

    /// Whether the file written to holds anything.
    pub fn current_is_empty(&self) -> bool {
        self.files[self.current].as_ref().is_none_or(|file| file.slots.in_use() == 0)
    }

    /// Writes to `file` from now on; what the others hold stays readable. Gives it back if no
    /// number is free for it.
    pub fn begin_file(&mut self, file: OwnedFd) -> Result<(), OwnedFd> {
        let Some(free) = self.files.iter().position(Option::is_none) else { return Err(file) };
        self.files[free] = Some(StoreFile::new(file));
        self.current = free;
        Ok(())
    }

    /// The file, other than the one written to, that holds the fewest pages.
    pub fn emptiest(&self) -> Option<usize> {
        let others = self.files.iter().enumerate().filter(|(number, _)| *number != self.current);
        let held = |file: &Option<StoreFile>| file.as_ref().map(|file| file.slots.in_use());
        others.filter_map(|(number, file)| Some((held(file)?, number))).min().map(|(_, number)| number)
    }

    /// There is space now for this many slots of a file.
    pub fn grown(&mut self, number: usize, slots: usize) {
        if let Some(file) = &mut self.files[number] {
            file.reserved = slots;
        }
    }

    /// Hands out slots, neighbours where possible. Returns what the file must grow by first, if it
    /// must.
    pub fn allocate(&mut self, pages: usize, slots: &mut Vec<Slot>) -> Option<Growth> {
        let current = self.current;
        let number = (current as u32) << SLOT_BITS;
        let file = self.writing();
        file.slots.allocate(pages, |slot| slots.push(number | slot as u32));
        assert!(file.slots.count() < 1 << SLOT_BITS, "a backing store of 1 TiB is the most there can be");
        file.growth(current)
    }

    /// Takes a slot back.
    pub fn free(&mut self, slot: Slot) {
        let (number, slot) = location(slot);
        let file = self.files[number].as_mut().expect("slots of a file keep it open");
        file.slots.free(slot as usize);
        if file.slots.in_use() == 0 && number != self.current {
            self.files[number] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use sweephand_policy::SplitMix64;

    fn null() -> OwnedFd {
        rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).unwrap()
    }

    #[test]
    fn no_slot_is_handed_out_twice_and_the_file_stays_bounded() {
        for seed in 0..10 {
            let mut random = SplitMix64::new(seed);
            let mut store = Store::new(null());
            let (mut live, mut all) = (Vec::new(), BTreeSet::new());
            let mut most = 0;
            for _ in 0..3000 {
                let mut slots = Vec::new();
                let grown = store.allocate(1 + random.below(64) as usize, &mut slots);
                for slot in slots {
                    assert!(all.insert(slot), "seed {seed}: slot {slot} twice");
                    live.push(slot);
                }
                most = most.max(live.len());
                if let Some(Growth { file, least, wished, .. }) = grown {
                    assert!(least <= 4 * most + 64, "seed {seed}: {least} slots for {most} pages");
                    assert!(wished <= least + least / 8, "seed {seed}: {wished} slots for {least}");
                    store.grown(file, wished);
                }
                while live.len() > 1000 {
                    let slot = live.swap_remove(random.below(live.len() as u64) as usize);
                    all.remove(&slot);
                    store.free(slot);
                }
            }
        }
    }

    #[test]
    fn space_is_asked_for_once_for_many_slots() {
        let mut store = Store::new(null());
        let mut slots = Vec::new();
        let growth = Growth { file: 0, from: 0, least: 800, wished: 900 };
        assert_eq!(store.allocate(800, &mut slots), Some(growth));
        store.grown(0, 900);
        assert_eq!(store.allocate(100, &mut slots), None);
        let growth = store.allocate(1, &mut slots).unwrap();
        assert_eq!((growth.from, growth.least), (900, 901));
    }

    #[test]
    fn fresh_log_hands_out_consecutive_slots() {
        let mut store = Store::new(null());
        let mut slots = Vec::new();
        store.allocate(100, &mut slots);
        store.allocate(28, &mut slots);
        assert_eq!(slots, (0..128).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_from_before_a_fork_is_closed_with_its_last_page() {
        let mut store = Store::new(null());
        let mut slots = Vec::new();
        store.allocate(2, &mut slots);
        store.begin_file(null()).unwrap();
        store.free(slots[0]);
        assert_eq!((store.files().count(), store.emptiest()), (2, Some(0)));
        store.free(slots[1]);
        assert_eq!((store.files().count(), store.emptiest()), (1, None));
        let mut new = Vec::new();
        store.allocate(1, &mut new);
        assert_eq!(location(new[0]), (1, 0));
    }
}
