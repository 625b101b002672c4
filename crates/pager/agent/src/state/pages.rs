//! The page table of managed memory. It leads from an address to a page id, and keeps the state of
//! each page.
//!
//! Ids are dense, because policies keep arrays by id. The table assigns ids in chunks of 64 pages
//! (256 KiB of addresses), when it first meets a page of the chunk. So address space that is
//! reserved but not used costs nothing. Within a chunk, ids are in address order. The table takes 5
//! bytes a page and 8 bytes a chunk.
//!
//! ```text
//!            fault: zeros                sampler: unmap, keep the frame
//!   Absent ---------------> Resident <----------------------------------> Limbo
//!     ^                      |    ^             fault: rescue              |
//!     | dropped              |    | read                                   |
//!     | by the               v    |                                        |
//!   any state             Writing ---> Stored ---> Reading                 |
//!                            ^  written     fault, prefetch                |
//!                            +---------------------------------------------+
//!                                        evict
//!   Pooled: evicted to compressed memory instead; a fault makes it Resident, and when it is turned
//!           out it becomes Writing, or Stored if the store has its contents
//!   Guarded: the program has installed a guard; nothing is put there
//!   Lost: could not be read back; poisoned
//!   Pinned: in memory and cannot be moved now (under DMA, locked, not both readable and writable)
//! ```
//!
//! [`Pages::set`] is the one function that changes a page's state.

use crate::kernel::PAGE_BYTES;
use crate::lease::{self, SharedState};
use crate::store::backing::Slot;
use crate::store::pool::Entry;
use crate::store::staging::Staged;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use sweephand_policy::PageId;

/// Pages of a chunk.
const CHUNK_PAGES: usize = 64;
const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE_BYTES;
/// Bits of a user space address.
const ADDRESS_BITS: u32 = 47;
/// The directory has two levels. One leaf has the chunks of 4 GiB of addresses.
const LEAF_BITS: u32 = 32;
const LEAF_CHUNKS: usize = (1 << LEAF_BITS) / CHUNK_BYTES;
/// No chunk. Others are stored plus one.
const NO_CHUNK: u32 = 0;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Never touched, or dropped. It reads as zeros.
    Absent,
    /// Mapped where the program expects it.
    Resident {
        /// A slot of the store that may still have the contents: `sums` tells whether they
        /// have been written to since.
        kept: Option<Slot>,
    },
    /// In memory, but unmapped. The next touch shows that it is in use.
    Limbo {
        /// As for a resident page.
        kept: Option<Slot>,
    },
    /// Evicted. The contents are here until the store has them.
    Writing(Staged),
    /// In the store, in this slot.
    Stored(Slot),
    /// Compressed in memory, in this entry of the pool.
    Pooled(Entry),
    /// On its way back from the store: the contents arrive here.
    Reading(Staged),
    /// Mapped, but not the policy's, because it cannot be moved.
    Pinned,
    /// There is a guard. A thread that touches the page gets a SIGSEGV.
    Guarded,
    /// The contents could not be read back: the page is poisoned, and a thread that touches it gets
    /// a SIGBUS.
    Lost,
}

impl State {
    /// Mapped, with no slot in the store.
    pub const RESIDENT: Self = Self::Resident { kept: None };

    /// Whether the program's page has a frame in this state.
    fn takes_frame(self) -> bool {
        matches!(self, Self::Resident { .. } | Self::Limbo { .. } | Self::Pinned)
    }

    /// Whether the page has a frame that the policy may take away.
    pub fn is_evictable(self) -> bool {
        matches!(self, Self::Resident { .. } | Self::Limbo { .. })
    }

    /// The slot of the store that a page in memory keeps, if any.
    pub fn kept(self) -> Option<Slot> {
        match self {
            Self::Resident { kept } | Self::Limbo { kept } => kept,
            _ => None,
        }
    }

    /// The same state of a page that keeps no slot.
    pub fn without_slot(self) -> Self {
        match self {
            Self::Resident { .. } => Self::RESIDENT,
            Self::Limbo { .. } => Self::Limbo { kept: None },
            _ => self,
        }
    }

    /// The state as a number of three bits and a word.
    fn pack(self) -> (u8, u32) {
        let optional = |slot: Option<Slot>| slot.map_or(0, |slot| slot + 1);
        match self {
            Self::Absent => (ABSENT, 0),
            Self::Resident { kept } => (RESIDENT, optional(kept)),
            Self::Limbo { kept } => (LIMBO, optional(kept)),
            Self::Writing(staged) => (WRITING, staged.0),
            Self::Stored(slot) => (STORED, slot),
            Self::Reading(staged) => (READING, staged.0),
            Self::Pinned => (PINNED, 0),
            Self::Guarded => (OTHER, 0),
            Self::Lost => (OTHER, 1),
            Self::Pooled(entry) => (OTHER, 2 + entry),
        }
    }

    /// The opposite of [`State::pack`].
    fn unpack(number: u8, word: u32) -> Self {
        match number & STATE_BITS {
            ABSENT => Self::Absent,
            RESIDENT => Self::Resident { kept: word.checked_sub(1) },
            LIMBO => Self::Limbo { kept: word.checked_sub(1) },
            WRITING => Self::Writing(Staged(word)),
            STORED => Self::Stored(word),
            READING => Self::Reading(Staged(word)),
            PINNED => Self::Pinned,
            _ if word == 0 => Self::Guarded,
            _ if word == 1 => Self::Lost,
            _ => Self::Pooled(word - 2),
        }
    }
}

const ABSENT: u8 = 0;
const RESIDENT: u8 = 1;
const LIMBO: u8 = 2;
const WRITING: u8 = 3;
const STORED: u8 = 4;
const READING: u8 = 5;
const PINNED: u8 = 6;
const OTHER: u8 = 7;
const STATE_BITS: u8 = 0x07;
const REFERENCED: u8 = 0x08;
const QUEUED: u8 = 0x10;
const ARRIVING: u8 = 0x20;
const TRIGGER: u8 = 0x40;
const CONDEMNED: u8 = 0x80;

/// A property of a page besides its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Flag {
    /// The page has been referenced since the policy last looked.
    Referenced = REFERENCED,
    /// In the sampler's queue: waits to be unmapped. Or, if bits can be read, in a queue of pages
    /// whose bits wait to be cleared: its bit reads as clear.
    Queued = QUEUED,
    /// Has come in recently and does not belong to the policy yet.
    Arriving = ARRIVING,
    /// The page of a window read ahead that will be used first. When it is touched, the next window
    /// is read.
    Trigger = TRIGGER,
    /// The policy has given the page up, and it is not evicted yet.
    Condemned = CONDEMNED,
}

/// The page table.
#[derive(Debug)]
pub struct Pages {
    /// For the upper bits of an address: which leaf, plus one.
    directory: Vec<u16>,
    /// For the lower bits: which chunk, plus one.
    leaves: Vec<Box<[u32]>>,
    /// Address of each chunk's first page.
    chunk_address: Vec<usize>,
    /// Chunks whose addresses have been unmapped.
    free_chunks: Vec<u32>,
    /// State and flags by id.
    status: Vec<u8>,
    /// By id: what belongs to the state, as [`State::pack`] packs it.
    words: Vec<u32>,
    /// Pages in the states `Resident`, `Limbo` or `Pinned`: the program's pages that have a frame.
    resident: usize,
    /// Pages in the state `Pinned`.
    pinned: usize,
    /// Pages with the flag `Arriving` or `Condemned`, or both.
    unowned: usize,
    /// Where the command sees reference bits, if the command has the policy.
    pub(crate) shared: Option<&'static SharedState>,
}

/// The start of the page that contains an address.
pub fn page_start(address: usize) -> usize {
    address & !(PAGE_BYTES - 1)
}

impl Default for Pages {
    fn default() -> Self {
        Self::new()
    }
}

impl Pages {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            directory: vec![0; 1 << (ADDRESS_BITS - LEAF_BITS)],
            leaves: Vec::new(),
            chunk_address: Vec::new(),
            free_chunks: Vec::new(),
            status: Vec::new(),
            words: Vec::new(),
            resident: 0,
            pinned: 0,
            unowned: 0,
            shared: None,
        }
    }

    fn leaf(&self, address: usize) -> Option<usize> {
        usize::from(*self.directory.get(address >> LEAF_BITS)?).checked_sub(1)
    }

    fn chunk(&self, address: usize) -> Option<u32> {
        let leaf = self.leaf(address)?;
        let chunk = self.leaves[leaf][address / CHUNK_BYTES % LEAF_CHUNKS];
        (chunk != NO_CHUNK).then(|| chunk - 1)
    }

    /// The id of the page at an address, if the table has met its chunk.
    pub fn find(&self, address: usize) -> Option<PageId> {
        let chunk = self.chunk(address)? as usize;
        Some(PageId((chunk * CHUNK_PAGES + address / PAGE_BYTES % CHUNK_PAGES) as u32))
    }

    /// The id of the page at an address. Assigns one if needed.
    pub fn find_or_insert(&mut self, address: usize) -> PageId {
        if let Some(page) = self.find(address) {
            return page;
        }
        let start = address & !(CHUNK_BYTES - 1);
        let chunk = self.free_chunks.pop().unwrap_or_else(|| {
            let chunk = self.chunk_address.len() as u32;
            self.chunk_address.push(0);
            // The arrays grow by a sixteenth at a time, because allocated memory counts as used.
            let ids = self.status.len() + CHUNK_PAGES;
            if ids > self.status.capacity() {
                self.status.reserve_exact(CHUNK_PAGES + ids / 16);
                self.words.reserve_exact(CHUNK_PAGES + ids / 16);
            }
            self.status.resize(ids, 0);
            self.words.resize(ids, 0);
            chunk
        });
        self.chunk_address[chunk as usize] = start;
        let leaf = self.leaf(address).unwrap_or_else(|| {
            self.leaves.push(vec![NO_CHUNK; LEAF_CHUNKS].into_boxed_slice());
            self.directory[address >> LEAF_BITS] = self.leaves.len() as u16;
            self.leaves.len() - 1
        });
        self.leaves[leaf][address / CHUNK_BYTES % LEAF_CHUNKS] = chunk + 1;
        self.find(address).expect("its chunk is there now")
    }

    /// The address of a page.
    pub fn address(&self, page: PageId) -> usize {
        self.chunk_address[page.index() / CHUNK_PAGES] + page.index() % CHUNK_PAGES * PAGE_BYTES
    }

    /// Where a page is.
    pub fn state(&self, page: PageId) -> State {
        State::unpack(self.status[page.index()], self.words[page.index()])
    }

    /// The state of the page at an address, whether the table has met it or not.
    pub fn state_at(&self, address: usize) -> State {
        self.find(address).map_or(State::Absent, |page| self.state(page))
    }

    /// Whether a page is mapped and may be evicted.
    pub fn is_resident(&self, page: PageId) -> bool {
        self.status[page.index()] & STATE_BITS == RESIDENT
    }

    /// Whether a page is in limbo.
    pub fn is_in_limbo(&self, page: PageId) -> bool {
        self.status[page.index()] & STATE_BITS == LIMBO
    }

    /// Whether the page at an address is in the store.
    pub fn is_stored_at(&self, address: usize) -> bool {
        matches!(self.state_at(address), State::Stored(_))
    }

    /// Moves a page to another state. A page that stays in memory keeps its flags. A page that
    /// leaves loses them.
    pub fn set(&mut self, page: PageId, state: State) {
        let old = self.state(page);
        self.resident = self.resident + usize::from(state.takes_frame()) - usize::from(old.takes_frame());
        self.pinned = self.pinned + usize::from(state == State::Pinned) - usize::from(old == State::Pinned);
        let status = self.status[page.index()];
        let flags = if state.takes_frame() && old.takes_frame() { status & !STATE_BITS } else { 0 };
        let (number, word) = state.pack();
        self.set_status(page, flags | number);
        if let Some(shared) = self.shared.filter(|_| flags == 0) {
            shared.clear(page.index(), u8::MAX);
        }
        self.words[page.index()] = word;
    }

    fn set_status(&mut self, page: PageId, status: u8) {
        let is_unowned = |status: u8| status & (ARRIVING | CONDEMNED) != 0;
        let old = core::mem::replace(&mut self.status[page.index()], status);
        self.unowned = self.unowned + usize::from(is_unowned(status)) - usize::from(is_unowned(old));
    }

    /// Whether a flag is set.
    pub fn has(&self, page: PageId, flag: Flag) -> bool {
        self.status[page.index()] & flag as u8 != 0
    }

    /// Sets or clears a flag. Returns its old value.
    pub fn mark(&mut self, page: PageId, flag: Flag, on: bool) -> bool {
        let status = self.status[page.index()];
        self.set_status(page, status & !(flag as u8) | if on { flag as u8 } else { 0 });
        if let Some(shared) = self.shared.filter(|_| flag == Flag::Referenced && on) {
            // The command may have cleared the bit there.
            shared.set(page.index(), lease::REFERENCED);
        }
        status & flag as u8 != 0
    }

    /// Whether a page is mapped with a clear reference bit, and the pager does not yet check
    /// whether it is in use.
    pub fn is_unwatched(&self, page: PageId) -> bool {
        let flags = self.status[page.index()] & (REFERENCED | QUEUED | ARRIVING | CONDEMNED);
        self.is_resident(page) && flags == 0
    }

    /// The program's pages that have a frame, mapped or in limbo.
    pub fn resident(&self) -> usize {
        self.resident
    }

    /// Pages that have a frame and belong to the policy.
    pub fn owned(&self) -> usize {
        self.resident - self.pinned - self.unowned
    }

    /// Pages that cannot be moved.
    pub fn pinned(&self) -> usize {
        self.pinned
    }

    /// All ids that were ever assigned are below this.
    pub fn ids(&self) -> u32 {
        self.status.len() as u32
    }

    /// Visits the ids in a range of addresses, in address order. The visitor gets the table as
    /// well.
    pub fn for_each_in(&mut self, start: usize, end: usize, mut visit: impl FnMut(&mut Self, PageId)) {
        let mut address = start;
        while address < end {
            let leaf_end = ((address >> LEAF_BITS) + 1) << LEAF_BITS;
            if self.leaf(address).is_none() {
                address = leaf_end;
                continue;
            }
            let chunk_end = (address & !(CHUNK_BYTES - 1)) + CHUNK_BYTES;
            if self.chunk(address).is_some() {
                while address < chunk_end.min(end) {
                    let page = self.find(address).expect("its chunk has been met");
                    visit(self, page);
                    address += PAGE_BYTES;
                }
            }
            address = chunk_end;
        }
    }

    /// Frees the ids of the chunks that a range touches, except for chunks with a page that is not
    /// absent.
    pub fn forget_chunks(&mut self, start: usize, end: usize) {
        let mut address = start & !(CHUNK_BYTES - 1);
        while address < end {
            let Some(leaf) = self.leaf(address) else {
                address = ((address >> LEAF_BITS) + 1) << LEAF_BITS;
                continue;
            };
            let entry = &mut self.leaves[leaf][address / CHUNK_BYTES % LEAF_CHUNKS];
            if let Some(chunk) = entry.checked_sub(1) {
                let ids = chunk as usize * CHUNK_PAGES..(chunk as usize + 1) * CHUNK_PAGES;
                if self.status[ids].iter().all(|status| status & STATE_BITS == ABSENT) {
                    *entry = NO_CHUNK;
                    self.free_chunks.push(chunk);
                }
            }
            address += CHUNK_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_and_lead_back_to_addresses() {
        let mut pages = Pages::new();
        let addresses = [0x7fff_ffff_f000, 0x5555_0000_0000, 0x5555_0000_1000, 0x1_0000_0000, 0xffff_f000];
        for address in addresses {
            let page = pages.find_or_insert(address);
            assert_eq!(pages.address(page), address);
            assert_eq!(pages.find(address), Some(page), "{address:#x}");
        }
        assert_eq!(pages.ids() as usize, 4 * CHUNK_PAGES);
        assert_eq!(pages.find(0x5556_0000_0000), None);
        assert_eq!(pages.state_at(0x5556_0000_0000), State::Absent);
    }

    #[test]
    fn resident_counts_follow_states() {
        let mut pages = Pages::new();
        let page = pages.find_or_insert(0x10_0000);
        let steps = [
            (State::Resident { kept: Some(0) }, 1, 0),
            (State::Limbo { kept: Some(u32::MAX - 1) }, 1, 0),
            (State::Pinned, 1, 1),
            (State::RESIDENT, 1, 0),
            (State::Writing(Staged(7)), 0, 0),
            (State::Stored(0), 0, 0),
            (State::Reading(Staged(0)), 0, 0),
            (State::Resident { kept: Some(7) }, 1, 0),
            (State::Limbo { kept: None }, 1, 0),
            (State::Pooled(0), 0, 0),
            (State::Lost, 0, 0),
            (State::Pooled(u32::MAX - 2), 0, 0),
            (State::Guarded, 0, 0),
            (State::Absent, 0, 0),
        ];
        for (state, resident, pinned) in steps {
            pages.set(page, state);
            assert_eq!((pages.state(page), pages.resident(), pages.pinned()), (state, resident, pinned));
        }
    }

    #[test]
    fn flags_leave_with_the_page() {
        let mut pages = Pages::new();
        let page = pages.find_or_insert(0x10_0000);
        pages.set(page, State::RESIDENT);
        assert!(!pages.mark(page, Flag::Referenced, true));
        pages.set(page, State::Limbo { kept: None });
        assert!(pages.has(page, Flag::Referenced));
        pages.set(page, State::Writing(Staged(3)));
        assert!(!pages.has(page, Flag::Referenced));
    }

    #[test]
    fn chunks_of_unmapped_addresses_are_used_again() {
        let mut pages = Pages::new();
        let old = pages.find_or_insert(0x7f00_0004_0000);
        let kept = pages.find_or_insert(0x7f00_0000_0000);
        let mut met = 0;
        pages.for_each_in(0x7f00_0001_0000, 0x7f00_0008_0000, |_, _| met += 1);
        assert_eq!(met, 2 * CHUNK_PAGES - 16);
        // A page outside of the range is not absent, in a chunk that the range touches.
        pages.set(kept, State::Stored(5));
        pages.forget_chunks(0x7f00_0001_0000, 0x7f00_0007_0000);
        assert_eq!(pages.find(0x7f00_0004_0000), None);
        assert_eq!(pages.find(0x7f00_0000_0000), Some(kept));
        assert_eq!(pages.find_or_insert(0x1_0000_0000).0 / CHUNK_PAGES as u32, old.0 / CHUNK_PAGES as u32);
    }
}
