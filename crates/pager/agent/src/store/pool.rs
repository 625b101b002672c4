//! Compressed memory: evicted pages that stay in memory, compressed, and are not on the disk.
//!
//! A page is in the pool or in memory, never in both. It goes in when it is evicted, and out when
//! the program touches it. So the order in which pages went in is that of their last use, and the
//! oldest entry is the one to turn out when the pool is full (LRU).
//!
//! The address space for the largest pool is mapped at once. The memory that the pool may take now
//! is a part of the program's limit, whether it is full or not. It consists of chunks. An entry is
//! a list of chunks, so no memory is lost between entries, and nothing has to be moved to make
//! room. Besides its bytes, an entry has the page's id, its neighbours by age, and the slot of the
//! store that has the same contents, if any. All of that is in the chunks.
//!
//! ```text
//!   first chunk    next | 0        | page | newer | older | slot | length | bytes
//!   other chunks   next | previous | bytes
//!   free chunks    next | FREE     | previous
//! ```
//!
//! Because each chunk names those before and behind it, the pool becomes smaller by as many chunks
//! as that takes: those at its end move to free places, and no other chunk is looked at.
//!
//! **Which pages.** A page that has come in along a stream is expected to be needed along one, and
//! the disk gives it back in time: see [`foresees`]. It goes to the disk. So does a page that does
//! not compress to three quarters. All others go to the pool.
//!
//! **Its size** is as it was asked for, or as large as pays: see `split`.

use crate::kernel::clock::{now_ns, program_us};
use crate::kernel::{self, Codec, MOST_COMPRESSED_BYTES, PAGE_BYTES};
use crate::process::failure::abort;
use crate::process::own;
use crate::store::backing::Slot;
use crate::store::split::{Moment, Split};
use alloc::vec;
use alloc::vec::Vec;
use sweephand_pager_interface::readahead::foresees;
use sweephand_policy::PageId;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 128;
/// Bytes of a number in a chunk.
const WORD: usize = size_of::<u32>();
/// The numbers of a chunk, by their places. All but the first two are those of an entry's first
/// chunk. Chunks and slots are stored plus one, and 0 is none.
const NEXT: usize = 0;
const PREVIOUS: usize = 1;
const PAGE: usize = 2;
const NEWER: usize = 3;
const OLDER: usize = 4;
const SLOT: usize = 5;
const LENGTH: usize = 6;
/// In a free chunk: what is in the place of `PREVIOUS`, and the place of the free chunk before it.
const FREE: u32 = u32::MAX;
const PREVIOUS_FREE: usize = 2;
/// Bytes before an entry's own, in its first chunk and in the others.
const FIRST_HEAD: usize = 7 * WORD;
const HEAD: usize = 2 * WORD;
/// Chunks of a page of memory.
const CHUNKS_A_PAGE: usize = PAGE_BYTES / CHUNK_BYTES;
/// Most bytes of a page that are worth the memory.
const MOST_BYTES: usize = PAGE_BYTES * 3 / 4;

/// An entry: the number of its first chunk.
pub(crate) type Entry = u32;

/// How many chunks this many bytes of a page take.
fn chunks_for(bytes: usize) -> usize {
    1 + bytes.saturating_sub(CHUNK_BYTES - FIRST_HEAD).div_ceil(CHUNK_BYTES - HEAD)
}

/// Now, and what the program has computed until now.
pub(crate) fn moment() -> Moment {
    Moment { clock_ns: now_ns(), computed_ns: program_us() * 1000 }
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool {
    area: &'static mut [u8],
    /// Chunks that may be used.
    chunks: usize,
    /// Chunks from here on have never been used, and take no memory.
    met: usize,
    /// The first of the chunks that were used and are free, plus one.
    free: u32,
    /// Chunks of entries.
    used: usize,
    newest: u32,
    oldest: u32,
    codec: Codec,
    /// What the codec has made of the latest page.
    compressed: Vec<u8>,
    /// By page id, a bit: the page has last come in along a stream.
    foreseen: Vec<u64>,
    /// What says how large the pool should be, if it is as large as pays.
    pub(crate) split: Option<Split>,
    /// What the pool's size is doing.
    pub(crate) course: Course,
}

/// What the size of a pool is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// It stays.
    Level,
    /// The pool becomes larger.
    Upward,
    /// The pool becomes smaller.
    Downward,
}

impl Pool {
    /// An empty pool that may take this many pages of memory, and `most` later. `None`: there is no
    /// address space.
    pub(crate) fn new(pages: usize, most: usize) -> Option<Self> {
        let area = own::map_bytes(most * PAGE_BYTES)?;
        Some(Self {
            area,
            chunks: pages * CHUNKS_A_PAGE,
            met: 0,
            free: 0,
            used: 0,
            newest: 0,
            oldest: 0,
            codec: Codec::default(),
            compressed: vec![0; MOST_COMPRESSED_BYTES],
            foreseen: Vec::new(),
            split: None,
            course: Course::Level,
        })
    }

    /// From now on, it becomes as large as pays in this many pages of memory.
    pub(crate) fn begin_to_adapt(&mut self, memory_pages: usize) {
        self.split = Some(Split::new(memory_pages, moment()));
    }

    fn word(&self, chunk: u32, place: usize) -> u32 {
        let at = chunk as usize * CHUNK_BYTES + place * WORD;
        u32::from_le_bytes(self.area[at..at + WORD].try_into().expect("it has this length"))
    }

    fn set_word(&mut self, chunk: u32, place: usize, word: u32) {
        let at = chunk as usize * CHUNK_BYTES + place * WORD;
        self.area[at..at + WORD].copy_from_slice(&word.to_le_bytes());
    }

    /// Memory of the pool, in pages: what it may take.
    pub(crate) fn pages(&self) -> usize {
        self.chunks / CHUNKS_A_PAGE
    }

    /// The most pages of memory that it may ever take.
    pub(crate) fn most_pages(&self) -> usize {
        self.area.len() / PAGE_BYTES
    }

    /// Pages of it that were never touched, so that they take no memory yet.
    pub(crate) fn missing(&self) -> usize {
        self.pages().saturating_sub((self.met * CHUNK_BYTES).div_ceil(PAGE_BYTES))
    }

    /// Bytes that entries take.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used * CHUNK_BYTES
    }

    // What a page's next eviction depends on.

    /// A page comes in, because of a fault whose window had this many pages. If it comes back,
    /// [`Self::came_back`] says so before.
    pub(crate) fn came_in(&mut self, page: PageId, window: usize) {
        self.set_foreseen(page, foresees(window));
        if let Some(split) = &mut self.split {
            split.forget(page);
        }
    }

    /// A page that was evicted comes back. `is_awaited`: a thread waits for it.
    pub(crate) fn came_back(&mut self, page: PageId, is_awaited: bool) {
        let is_single = !self.is_foreseen(page);
        if let Some(split) = &mut self.split {
            split.came_back(page, is_single, is_awaited);
        }
    }

    /// A page has been evicted, and is at `contents`. Some of them are compressed to see what comes
    /// of it, and how long it takes. `scratch` is a page for that.
    pub(crate) fn was_evicted(&mut self, page: PageId, contents: usize, scratch: usize) {
        let is_single = !self.is_foreseen(page);
        if self.split.as_mut().is_some_and(|split| split.evicted(page, is_single)) {
            self.sample(contents, scratch);
        }
    }

    fn sample(&mut self, contents: usize, scratch: usize) {
        let began = now_ns();
        let bytes = self.compress(contents);
        let compressed = now_ns();
        // SAFETY: the scratch page is the pager's own, and nothing else uses it now.
        let is_right =
            bytes.is_none_or(|bytes| unsafe { kernel::decompress_page(&self.compressed[..bytes], scratch) });
        debug_assert!(is_right, "what was just compressed cannot be decompressed");
        let ended = now_ns();
        let Some(split) = &mut self.split else { return };
        split.compressed(bytes.map(|bytes| chunks_for(bytes) as f64 / CHUNKS_A_PAGE as f64));
        split.compression_took(compressed - began);
        if bytes.is_some() {
            split.decompression_took(ended - compressed);
        }
    }

    fn set_foreseen(&mut self, page: PageId, is_foreseen: bool) {
        let index = page.index() / u64::BITS as usize;
        if index >= self.foreseen.len() {
            // As the arrays of `pages` grow, because allocated memory counts as used.
            let length = index + 1;
            if length > self.foreseen.capacity() {
                self.foreseen.reserve_exact(length + length / 16 - self.foreseen.len());
            }
            self.foreseen.resize(length, 0);
        }
        let bit = 1 << (page.index() % u64::BITS as usize);
        self.foreseen[index] = self.foreseen[index] & !bit | if is_foreseen { bit } else { 0 };
    }

    /// Whether a page has last come in along a stream.
    pub(crate) fn is_foreseen(&self, page: PageId) -> bool {
        let word = self.foreseen.get(page.index() / u64::BITS as usize).copied().unwrap_or_default();
        word >> (page.index() % u64::BITS as usize) & 1 == 1
    }

    // Entries.

    /// Compresses a page of the pager's own memory. Returns how many bytes that makes, if it is
    /// worth them. They are the next to be put in.
    pub(crate) fn compress(&mut self, contents: usize) -> Option<usize> {
        // SAFETY: this is a page of the pager's own memory, and it is there.
        let bytes = unsafe { kernel::compress_page(contents, &mut self.codec, &mut self.compressed) };
        bytes.filter(|&bytes| bytes <= MOST_BYTES)
    }

    /// How many of the oldest entries have to go before there is room for this many bytes. `None`
    /// if more than `most` of them would have to be written first.
    pub(crate) fn to_turn_out(&self, bytes: usize, most: usize) -> Option<usize> {
        let mut needed = self.used + chunks_for(bytes);
        let (mut count, mut written, mut entry) = (0, 0, self.oldest);
        while needed > self.chunks {
            let oldest = entry.checked_sub(1)?;
            written += usize::from(self.slot(oldest).is_none());
            if written > most {
                return None;
            }
            needed -= chunks_for(self.word(oldest, LENGTH) as usize);
            count += 1;
            entry = self.word(oldest, NEWER);
        }
        Some(count)
    }

    fn take_chunk(&mut self) -> u32 {
        self.used += 1;
        match self.free.checked_sub(1) {
            Some(chunk) => {
                self.unlink_free(chunk);
                chunk
            }
            None => {
                assert!(self.met < self.chunks, "room was made before");
                self.met += 1;
                self.met as u32 - 1
            }
        }
    }

    /// A chunk is free from now on. One beyond the pool's end is not used again.
    fn free_chunk(&mut self, chunk: u32) {
        self.used -= 1;
        self.set_word(chunk, PREVIOUS, FREE);
        if (chunk as usize) < self.chunks {
            self.set_word(chunk, NEXT, self.free);
            self.set_word(chunk, PREVIOUS_FREE, 0);
            if let Some(next) = self.free.checked_sub(1) {
                self.set_word(next, PREVIOUS_FREE, chunk + 1);
            }
            self.free = chunk + 1;
        }
    }

    /// Takes a chunk out of the list of those that are free.
    fn unlink_free(&mut self, chunk: u32) {
        let (next, previous) = (self.word(chunk, NEXT), self.word(chunk, PREVIOUS_FREE));
        match previous.checked_sub(1) {
            Some(previous) => self.set_word(previous, NEXT, next),
            None => self.free = next,
        }
        if let Some(next) = next.checked_sub(1) {
            self.set_word(next, PREVIOUS_FREE, previous);
        }
    }

    /// Puts in the first `bytes` bytes of what was compressed last, for which there is room. `slot`
    /// is the page's slot of the store if that has the same contents.
    pub(crate) fn put(&mut self, page: PageId, bytes: usize, slot: Option<Slot>) -> Entry {
        let entry = self.take_chunk();
        let words = [0, 0, page.0, 0, self.newest, slot.map_or(0, |slot| slot + 1), bytes as u32];
        for (place, word) in words.into_iter().enumerate() {
            self.set_word(entry, place, word);
        }
        match self.newest.checked_sub(1) {
            Some(newest) => self.set_word(newest, NEWER, entry + 1),
            None => self.oldest = entry + 1,
        }
        self.newest = entry + 1;
        let (mut chunk, mut head, mut done) = (entry, FIRST_HEAD, 0);
        loop {
            let length = (bytes - done).min(CHUNK_BYTES - head);
            let at = chunk as usize * CHUNK_BYTES + head;
            self.area[at..at + length].copy_from_slice(&self.compressed[done..done + length]);
            done += length;
            if done == bytes {
                return entry;
            }
            let next = self.take_chunk();
            self.set_word(next, NEXT, 0);
            self.set_word(next, PREVIOUS, chunk + 1);
            self.set_word(chunk, NEXT, next + 1);
            (chunk, head) = (next, HEAD);
        }
    }

    /// Decompresses an entry to a page of the pager's own memory.
    pub(crate) fn decompress(&self, entry: Entry, to: usize) {
        let mut compressed = [0; MOST_BYTES];
        let bytes = self.word(entry, LENGTH) as usize;
        let (mut chunk, mut head, mut done) = (entry, FIRST_HEAD, 0);
        while done < bytes {
            let length = (bytes - done).min(CHUNK_BYTES - head);
            let at = chunk as usize * CHUNK_BYTES + head;
            compressed[done..done + length].copy_from_slice(&self.area[at..at + length]);
            done += length;
            (chunk, head) = (self.word(chunk, NEXT).saturating_sub(1), HEAD);
        }
        // SAFETY: this is a page of the pager's own, which nothing else uses now.
        if !unsafe { kernel::decompress_page(&compressed[..bytes], to) } {
            abort(format_args!("the pager's compressed memory is damaged"));
        }
    }

    /// The page of an entry.
    pub(crate) fn page(&self, entry: Entry) -> PageId {
        PageId(self.word(entry, PAGE))
    }

    /// The slot of the store that has the same contents, if any.
    pub(crate) fn slot(&self, entry: Entry) -> Option<Slot> {
        self.word(entry, SLOT).checked_sub(1)
    }

    /// The store does not have the same contents any more.
    pub(crate) fn forget_slot(&mut self, entry: Entry) {
        self.set_word(entry, SLOT, 0);
    }

    /// The entry that went in first.
    pub(crate) fn oldest(&self) -> Option<Entry> {
        self.oldest.checked_sub(1)
    }

    /// A page is known by another id from now on; so is its entry, if it has one.
    pub(crate) fn rename(&mut self, entry: Option<Entry>, old: PageId, new: PageId) {
        self.set_foreseen(new, self.is_foreseen(old));
        if let Some(split) = &mut self.split {
            split.rename(old, new);
        }
        if let Some(entry) = entry {
            self.set_word(entry, PAGE, new.0);
        }
    }

    /// Takes an entry away.
    pub(crate) fn remove(&mut self, entry: Entry) {
        self.relink(entry, None);
        let mut chunk = Some(entry);
        while let Some(this) = chunk {
            chunk = self.word(this, NEXT).checked_sub(1);
            self.free_chunk(this);
        }
    }

    /// The neighbours of an entry by age get another in its place, or each other.
    fn relink(&mut self, entry: Entry, other: Option<Entry>) {
        let (newer, older) = (self.word(entry, NEWER), self.word(entry, OLDER));
        let between = |neighbour| other.map_or(neighbour, |other| other + 1);
        match newer.checked_sub(1) {
            Some(newer) => self.set_word(newer, OLDER, between(older)),
            None => self.newest = between(older),
        }
        match older.checked_sub(1) {
            Some(older) => self.set_word(older, NEWER, between(newer)),
            None => self.oldest = between(newer),
        }
    }

    // Another size.

    /// The pool may take this many more pages of memory, or as many as there can be.
    pub(crate) fn raise(&mut self, pages: usize) {
        self.chunks += pages.min(self.most_pages() - self.pages()) * CHUNKS_A_PAGE;
    }

    /// Lowers the memory that the pool may take by this many pages. It may have more than that
    /// until entries have been turned out and [`Self::vacate`] has been called.
    pub(crate) fn lower(&mut self, pages: usize) {
        self.chunks = self.chunks.saturating_sub(pages * CHUNKS_A_PAGE);
        for chunk in self.chunks..self.met {
            if self.word(chunk as u32, PREVIOUS) == FREE {
                self.unlink_free(chunk as u32);
            }
        }
    }

    /// Whether entries take more than the pool may have.
    pub(crate) fn is_too_full(&self) -> bool {
        self.used > self.chunks
    }

    /// Moves what is beyond the pool's end to the memory that it may have, and gives the rest back.
    /// `moved` is told of each entry that has another number from now on, with its page.
    pub(crate) fn vacate(&mut self, mut moved: impl FnMut(PageId, Entry)) {
        for chunk in (self.chunks..self.met).map(|chunk| chunk as u32) {
            if self.word(chunk, PREVIOUS) == FREE {
                continue;
            }
            let to = self.take_chunk();
            let from = chunk as usize * CHUNK_BYTES;
            self.area.copy_within(from..from + CHUNK_BYTES, to as usize * CHUNK_BYTES);
            match self.word(to, PREVIOUS).checked_sub(1) {
                Some(previous) => self.set_word(previous, NEXT, to + 1),
                None => {
                    self.relink(to, Some(to));
                    moved(self.page(to), to);
                }
            }
            if let Some(next) = self.word(to, NEXT).checked_sub(1) {
                self.set_word(next, PREVIOUS, to + 1);
            }
            self.free_chunk(chunk);
        }
        let kept = self.chunks * CHUNK_BYTES;
        let end = (self.met * CHUNK_BYTES).next_multiple_of(PAGE_BYTES);
        if end > kept {
            own::give_back(&mut self.area[kept..end]);
        }
        self.met = self.met.min(self.chunks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use sweephand_policy::SplitMix64;

    /// A page of the test whose first `random` bytes do not compress.
    fn fill(contents: usize, seed: u64, random: usize) {
        let mut numbers = SplitMix64::new(seed);
        // SAFETY: this is a mapping of the test.
        let bytes = unsafe { core::slice::from_raw_parts_mut(contents as *mut u8, PAGE_BYTES) };
        bytes.fill(seed as u8);
        bytes[..random].fill_with(|| numbers.next_u64() as u8);
    }

    fn sum(contents: usize) -> u64 {
        // SAFETY: this is a mapping of the test.
        let bytes = unsafe { core::slice::from_raw_parts(contents as *const u8, PAGE_BYTES) };
        bytes
            .iter()
            .fold(0, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn a_page_that_does_not_compress_to_three_quarters_is_not_worth_it() {
        let mut pool = Pool::new(4, 4).unwrap();
        let contents = own::map(PAGE_BYTES).unwrap();
        let mut bytes_of = |random| {
            fill(contents, 1, random);
            pool.compress(contents)
        };
        assert!(bytes_of(0).is_some_and(|bytes| bytes < 64));
        assert!(bytes_of(2900).is_some_and(|bytes| (2900..=MOST_BYTES).contains(&bytes)));
        assert_eq!(bytes_of(3100), None);
        assert_eq!(bytes_of(PAGE_BYTES), None);
    }

    #[test]
    fn an_entry_of_any_length_takes_the_chunks_that_it_is_said_to_take() {
        let mut pool = Pool::new(4, 4).unwrap();
        let contents = own::map(PAGE_BYTES).unwrap();
        for random in (0..2900).step_by(7) {
            fill(contents, random as u64, random);
            let bytes = pool.compress(contents).unwrap();
            let entry = pool.put(PageId(3), bytes, None);
            assert_eq!(pool.used_bytes(), chunks_for(bytes) * CHUNK_BYTES, "{bytes} bytes");
            let before = sum(contents);
            fill(contents, 99, 0);
            pool.decompress(entry, contents);
            assert_eq!(sum(contents), before, "{bytes} bytes");
            pool.remove(entry);
            assert_eq!((pool.used_bytes(), pool.oldest()), (0, None), "{bytes} bytes");
        }
    }

    /// What is in the pool, oldest first: page, entry, slot, and a sum of the contents.
    type Model = VecDeque<(PageId, Entry, Option<Slot>, u64)>;

    fn check(pool: &Pool, model: &Model, scratch: usize) {
        let mut next = pool.oldest;
        for &(page, entry, slot, contents) in model {
            assert_eq!(next, entry + 1);
            assert_eq!((pool.page(entry), pool.slot(entry)), (page, slot));
            pool.decompress(entry, scratch);
            assert_eq!(sum(scratch), contents, "page {page:?}");
            next = pool.word(entry, NEWER);
        }
        assert_eq!(next, 0);
        assert!(pool.used <= pool.met && pool.missing() <= pool.pages());
        let (mut free, mut count, mut previous) = (pool.free, 0, 0);
        while let Some(chunk) = free.checked_sub(1) {
            assert_eq!((pool.word(chunk, PREVIOUS), pool.word(chunk, PREVIOUS_FREE)), (FREE, previous));
            (free, previous, count) = (pool.word(chunk, NEXT), free, count + 1);
        }
        assert_eq!(count, pool.met - pool.used, "every chunk is used, free or unmet");
    }

    #[test]
    fn a_pool_gives_back_what_was_put_in_and_turns_out_the_oldest() {
        for seed in 0..8 {
            let mut random = SplitMix64::new(seed);
            let mut pool = Pool::new(16, 24).unwrap();
            let [contents, scratch] = [own::map(PAGE_BYTES).unwrap(), own::map(PAGE_BYTES).unwrap()];
            let (mut model, mut turned_out, mut moved) = (Model::new(), 0, 0);
            for step in 0..1500_u32 {
                match random.below(8) {
                    0 if !model.is_empty() => {
                        let index = random.below(model.len() as u64) as usize;
                        pool.remove(model.remove(index).unwrap().1);
                    }
                    1 if !model.is_empty() => {
                        let index = random.below(model.len() as u64) as usize;
                        let (old, entry, ..) = model[index];
                        model[index].0 = PageId(100_000 + step);
                        model[index].2 = None;
                        pool.rename(Some(entry), old, model[index].0);
                        pool.forget_slot(entry);
                    }
                    2 if step % 2 == 0 => pool.raise(1 + random.below(3) as usize),
                    2 => {
                        pool.lower(pool.pages().saturating_sub(4).min(1 + random.below(4) as usize));
                        while pool.is_too_full() {
                            pool.remove(model.pop_front().unwrap().1);
                        }
                        pool.vacate(|page, entry| {
                            moved += 1;
                            model.iter_mut().find(|known| known.0 == page).unwrap().1 = entry;
                        });
                        let end = pool.chunks as u32;
                        assert!(model.iter().all(|known| known.1 < end) && pool.met <= pool.chunks);
                    }
                    _ => {
                        fill(contents, u64::from(step), random.below(2900) as usize);
                        let bytes = pool.compress(contents).unwrap();
                        for _ in 0..pool.to_turn_out(bytes, usize::MAX).unwrap() {
                            pool.remove(model.pop_front().unwrap().1);
                            turned_out += 1;
                        }
                        let slot = (step % 3 == 0).then_some(step);
                        let entry = pool.put(PageId(step), bytes, slot);
                        model.push_back((PageId(step), entry, slot, sum(contents)));
                    }
                }
                check(&pool, &model, scratch);
            }
            assert!(turned_out > 100 && moved > 100, "seed {seed}: {turned_out}, {moved}");
        }
    }

    #[test]
    fn entries_that_the_store_has_are_turned_out_without_a_write() {
        let mut pool = Pool::new(1, 1).unwrap();
        let contents = own::map(PAGE_BYTES).unwrap();
        fill(contents, 1, 1300);
        let bytes = pool.compress(contents).unwrap();
        assert_eq!(pool.to_turn_out(bytes, 0), Some(0));
        pool.put(PageId(0), bytes, Some(7));
        pool.put(PageId(1), bytes, None);
        assert_eq!(pool.to_turn_out(bytes, 0), Some(1), "the first needs no write");
        let first = pool.oldest().unwrap();
        pool.forget_slot(first);
        assert_eq!((pool.to_turn_out(bytes, 0), pool.to_turn_out(bytes, 1)), (None, Some(1)));
        pool.lower(1);
        assert_eq!(pool.to_turn_out(bytes, 9), None, "there is no room for any");
    }

    #[test]
    fn a_page_is_foreseen_if_its_window_was_one_that_is_read_in_advance() {
        use sweephand_pager_interface::readahead::TRIGGERED_PAGES;
        let mut pool = Pool::new(1, 1).unwrap();
        assert!(!pool.is_foreseen(PageId(500)));
        pool.came_in(PageId(500), TRIGGERED_PAGES);
        pool.came_in(PageId(501), TRIGGERED_PAGES - 1);
        assert!(pool.is_foreseen(PageId(500)) && !pool.is_foreseen(PageId(501)));
        pool.rename(None, PageId(500), PageId(9));
        assert!(pool.is_foreseen(PageId(9)));
        pool.came_in(PageId(500), 1);
        assert!(!pool.is_foreseen(PageId(500)));
    }
}
