//! A buffer pool on the policy core.
//!
//! ```text
//!   hit     page table -> frame, pin += 1, reference bit = 1            three atomics, no lock
//!   fault   victim -> claim its frame -> write it back if dirty -> evict -> read -> insert     one at a time
//! ```
//!
//! A policy of the VM model needs no more at a hit than the bit, so a hit takes no lock. A policy
//! that sees every hit (LRU, S3-FIFO here) is told of it under the lock that faults take.
//!
//! Users pin a frame while they use it. A fault claims a frame for a moment to reuse it. One atomic
//! number says which of the two holds, so a frame is never both pinned and claimed. These things
//! can go wrong:
//! - The victim is pinned, or was referenced after its bit was read. The pool asks the policy
//!   again. If the policy insists on a pinned page, the pool sets that page aside and later gives
//!   it back as if it had just been loaded.
//! - The victim cannot be written back. It stays in memory, dirty and managed by the policy, and
//!   the caller gets the error.
//! - The new page cannot be read. Its frame becomes free, and the caller gets the error.
//! - Every page was pinned when the pool looked at it. The caller gets an error; waiting could take
//!   for ever.
//!
//! Faults run one at a time, including their input and output. To overlap them, add a state
//! "loading" to frames and wait on it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, OnceLock, RwLock};

use sweephand_policy::{Mmu, Model, NEVER, PageId, Policy, Reference};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// What is in a page.
pub type Page = [u8; PAGE_BYTES];

/// Where pages are when they are not in the buffer.
pub trait Storage {
    /// Reads a page.
    fn read(&self, page: PageId, into: &mut Page) -> io::Result<()>;
    /// Writes a page.
    fn write(&self, page: PageId, from: &Page) -> io::Result<()>;
}

/// In [`Frame::pins`]: the fault that reuses the frame has it to itself.
const CLAIMED: u32 = u32::MAX;
/// No page, or no frame.
const NONE: u32 = u32::MAX;

struct Frame {
    /// How many use the frame, or `CLAIMED`, as it is while it holds no page.
    pins: AtomicU32,
    /// The page in the frame. Changes only while the frame is claimed.
    page: AtomicU32,
    referenced: AtomicBool,
    /// Whether the content differs from the storage. Set under the lock on the content.
    dirty: AtomicBool,
    content: RwLock<Page>,
}

impl Frame {
    /// Pins the frame if it holds `page`.
    fn pin(&self, page: PageId) -> bool {
        let add_one = |pins| (pins != CLAIMED).then(|| pins + 1);
        let pinned = self.pins.fetch_update(Acquire, Relaxed, add_one).is_ok();
        if pinned && self.page.load(Relaxed) != page.0 {
            self.unpin(); // reused since the page table was read
            return false;
        }
        pinned
    }
    fn unpin(&self) {
        self.pins.fetch_sub(1, Release);
    }
    fn claim(&self) -> bool {
        self.pins.compare_exchange(0, CLAIMED, Acquire, Relaxed).is_ok()
    }
    /// Ends a claim.
    fn release(&self, pins: u32) {
        self.pins.store(pins, Release);
    }
}

/// A page in use: it stays in its frame until this is dropped.
pub struct Pinned<'a>(&'a Frame);

impl Pinned<'_> {
    /// What is in it.
    pub fn read(&self) -> impl Deref<Target = Page> + '_ {
        self.0.content.read().expect("no thread has panicked while it changed the page")
    }
    /// What is in it, to be changed.
    pub fn write(&self) -> impl DerefMut<Target = Page> + '_ {
        let content = self.0.content.write().expect("no thread has panicked while it changed the page");
        self.0.dirty.store(true, Relaxed);
        content
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

/// Pages in a leaf of the page table.
const LEAF: usize = 1 << 12;

/// Pages that the page table has room for: 256 GiB of them.
pub const MAX_PAGES: usize = 1 << 26;

/// The frame of each page. It grows by leaves, which stay where they are, so that a look-up takes
/// no lock.
struct Table {
    leaves: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

impl Table {
    fn new() -> Self {
        Self { leaves: (0..MAX_PAGES / LEAF).map(|_| OnceLock::new()).collect() }
    }
    fn get(&self, page: PageId) -> u32 {
        let leaf = self.leaves[page.index() / LEAF].get();
        leaf.map_or(NONE, |leaf| leaf[page.index() % LEAF].load(Acquire))
    }
    fn set(&self, page: PageId, frame: u32) {
        let empty = || (0..LEAF).map(|_| AtomicU32::new(NONE)).collect();
        let leaf = self.leaves[page.index() / LEAF].get_or_init(empty);
        leaf[page.index() % LEAF].store(frame, Release);
    }
}

/// What a page that is not in the buffer is filled with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    FromStorage,
    /// The user overwrites all of it.
    Zeros,
}

/// A buffer of frames under a policy.
pub struct BufferPool<P, S> {
    storage: S,
    frames: Box<[Frame]>,
    table: Table,
    faults: Mutex<Faults<P>>,
    /// Hits take the lock although the policy is not told of them: to measure what that costs.
    lock_hits: bool,
}

/// What faults change, one at a time.
struct Faults<P> {
    policy: P,
    free: Vec<u32>,
    count: u64,
}

/// The reference bits, as the policy sees them.
struct Bits<'a, P, S>(&'a BufferPool<P, S>);

impl<P, S> Mmu for Bits<'_, P, S> {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        self.0.frame_of(page).is_some_and(|frame| frame.referenced.swap(false, Relaxed))
    }
}

impl<P, S> BufferPool<P, S> {
    /// The storage.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    fn frame_of(&self, page: PageId) -> Option<&Frame> {
        self.frames.get(self.table.get(page) as usize)
    }
}

impl<P: Policy, S: Storage> BufferPool<P, S> {
    /// A buffer of `frames` frames under a policy made for as many.
    ///
    /// # Panics
    /// The policy needs the future.
    pub fn new(policy: P, frames: u32, storage: S) -> Self {
        assert!(!P::Model::SEES_FUTURE, "no buffer pool knows the future");
        let frame = |_| Frame {
            pins: AtomicU32::new(CLAIMED),
            page: AtomicU32::new(NONE),
            referenced: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            content: RwLock::new([0; PAGE_BYTES]),
        };
        Self {
            storage,
            frames: (0..frames).map(frame).collect(),
            table: Table::new(),
            faults: Mutex::new(Faults { policy, free: (0..frames).rev().collect(), count: 0 }),
            lock_hits: P::Model::SEES_HITS,
        }
    }

    /// Hits take the lock of faults, whatever the policy: to measure what that costs.
    #[must_use]
    pub fn with_locked_hits(self) -> Self {
        Self { lock_hits: true, ..self }
    }

    /// Faults so far.
    pub fn faults(&self) -> u64 {
        self.lock().count
    }

    /// The page, in memory and pinned.
    pub fn page(&self, page: PageId) -> io::Result<Pinned<'_>> {
        self.pinned(page, Fill::FromStorage)
    }

    /// The page, in memory and pinned, of which the caller overwrites every byte: it is not read.
    pub fn page_to_overwrite(&self, page: PageId) -> io::Result<Pinned<'_>> {
        self.pinned(page, Fill::Zeros)
    }

    fn lock(&self) -> MutexGuard<'_, Faults<P>> {
        self.faults.lock().expect("no thread has panicked in a fault")
    }

    fn pinned(&self, page: PageId, fill: Fill) -> io::Result<Pinned<'_>> {
        if page.index() >= MAX_PAGES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "more pages than the page table has room for",
            ));
        }
        let Some(pinned) = self.hit(page) else { return self.fault(page, fill) };
        if self.lock_hits {
            let mut faults = self.lock();
            if P::Model::SEES_HITS {
                // It is pinned, so it is still resident.
                faults.policy.hit(reference(page));
            }
        }
        Ok(pinned)
    }

    fn hit(&self, page: PageId) -> Option<Pinned<'_>> {
        let frame = self.frame_of(page).filter(|frame| frame.pin(page))?;
        // Looking first keeps the line shared among processors that use the same page.
        if !frame.referenced.load(Relaxed) {
            frame.referenced.store(true, Relaxed);
        }
        Some(Pinned(frame))
    }

    #[cold]
    fn fault(&self, page: PageId, fill: Fill) -> io::Result<Pinned<'_>> {
        let mut faults = self.lock();
        if let Some(pinned) = self.hit(page) {
            if P::Model::SEES_HITS {
                faults.policy.hit(reference(page));
            }
            return Ok(pinned); // another thread has loaded it
        }
        faults.count += 1;
        faults.policy.fault(reference(page));
        let mut in_use = Vec::new();
        let loaded = self.take_frame(&mut faults, &mut in_use).and_then(|number| {
            let frame = &self.frames[number as usize];
            let content = &mut *frame.content.write().expect("only this thread has the frame");
            match fill {
                Fill::Zeros => {
                    content.fill(0);
                    frame.dirty.store(true, Relaxed);
                }
                Fill::FromStorage => {
                    if let Err(error) = self.storage.read(page, content) {
                        faults.free.push(number);
                        return Err(error);
                    }
                }
            }
            frame.page.store(page.0, Relaxed);
            let referenced = faults.policy.insert(reference(page), &mut Bits(self));
            frame.referenced.store(referenced, Relaxed);
            frame.release(1);
            self.table.set(page, number);
            Ok(Pinned(frame))
        });
        for page in in_use {
            faults.policy.fault(reference(page));
            faults.policy.insert(reference(page), &mut Bits(self));
        }
        loaded
    }

    /// A frame that is claimed and holds no page: a free one, or that of the policy's victim. Pages
    /// that the policy insisted on although they are pinned go to `in_use`: the policy takes them
    /// for evicted, and has to be given them back.
    fn take_frame(&self, faults: &mut Faults<P>, in_use: &mut Vec<PageId>) -> io::Result<u32> {
        if let Some(number) = faults.free.pop() {
            return Ok(number);
        }
        let mut refused = Vec::new();
        // A page is named twice at most: the second time it is evicted or set aside.
        while let Some(victim) = faults.policy.victim(&mut Bits(self)) {
            let number = self.table.get(victim);
            let frame = &self.frames[number as usize];
            let insists = refused.contains(&victim);
            if frame.claim() {
                if insists || !frame.referenced.load(Relaxed) {
                    return self.evict(faults, victim, number);
                }
                frame.release(0);
            } else if insists {
                faults.policy.evict(victim);
                in_use.push(victim);
            }
            // A policy that looks at bits finds this one set and moves on, if it has another page
            // to name.
            frame.referenced.store(true, Relaxed);
            refused.push(victim);
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "every page of the buffer was pinned when it was looked at",
        ))
    }

    /// Takes a page out of its frame, which is claimed, unless it cannot be written back.
    fn evict(&self, faults: &mut Faults<P>, page: PageId, number: u32) -> io::Result<u32> {
        let frame = &self.frames[number as usize];
        if let Err(error) = self.write_back(frame) {
            frame.release(0);
            return Err(error);
        }
        self.table.set(page, NONE);
        frame.page.store(NONE, Relaxed);
        faults.policy.evict(page);
        Ok(number)
    }

    /// Writes a frame that is pinned or claimed to the storage, if it is dirty. If that fails it
    /// stays dirty.
    fn write_back(&self, frame: &Frame) -> io::Result<()> {
        let content = frame.content.read().expect("no thread has panicked while it changed the page");
        if frame.dirty.load(Relaxed) {
            self.storage.write(PageId(frame.page.load(Relaxed)), &content)?;
            frame.dirty.store(false, Relaxed);
        }
        Ok(())
    }

    /// Writes every dirty page to the storage. Not to be called with a page locked for writing.
    pub fn flush(&self) -> io::Result<()> {
        for frame in &self.frames {
            let page = PageId(frame.page.load(Relaxed));
            if page.0 != NONE && frame.dirty.load(Relaxed) && frame.pin(page) {
                self.write_back(Pinned(frame).0)?;
            }
        }
        Ok(())
    }

    /// Forgets the pages from `first` on, dirty or not: the storage does not have them any more.
    /// Waits for those that are pinned.
    pub fn discard_from(&self, first: PageId) {
        let mut faults = self.lock();
        for (number, frame) in self.frames.iter().enumerate() {
            let page = PageId(frame.page.load(Relaxed));
            if page.0 == NONE || page < first {
                continue;
            }
            while !frame.claim() {
                std::thread::yield_now();
            }
            self.table.set(page, NONE);
            frame.page.store(NONE, Relaxed);
            frame.dirty.store(false, Relaxed);
            faults.policy.remove(page);
            faults.free.push(number as u32);
        }
    }
}

fn reference(page: PageId) -> Reference {
    Reference { page, page_number: u64::from(page.0), object: 0, next_use: NEVER }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_policy::policies::{
        Car, Clock, ClockProStrict, Fifo, Lifo, Lru, Random, S3Fifo, SeqClock, Sieve,
    };
    use sweephand_policy::registry::Registered;
    use sweephand_policy::{Arguments, SplitMix64};

    fn policy<P: Registered>(frames: u32) -> P {
        let defaults = Arguments::parse(&P::INFO, "").expect("no arguments");
        P::configure(frames as usize, &defaults).expect("defaults are valid")
    }

    /// Pages in memory; writing can be made to fail.
    struct Disk {
        pages: Vec<Mutex<Page>>,
        is_full: AtomicBool,
    }

    impl Disk {
        fn new(pages: usize) -> Self {
            let pages = (0..pages).map(|_| Mutex::new([0; PAGE_BYTES])).collect();
            Self { pages, is_full: AtomicBool::new(false) }
        }
    }

    impl Storage for &Disk {
        fn read(&self, page: PageId, into: &mut Page) -> io::Result<()> {
            let pages = self.pages.get(page.index()).ok_or(io::ErrorKind::UnexpectedEof)?;
            into.copy_from_slice(&*pages.lock().unwrap());
            Ok(())
        }
        fn write(&self, page: PageId, from: &Page) -> io::Result<()> {
            if self.is_full.load(SeqCst) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.pages[page.index()].lock().unwrap().copy_from_slice(from);
            Ok(())
        }
    }

    fn number(page: &Page, index: usize) -> u64 {
        u64::from_le_bytes(page[8 * index..][..8].try_into().unwrap())
    }
    fn add_one(page: &mut Page, index: usize) {
        let sum = number(page, index) + 1;
        page[8 * index..][..8].copy_from_slice(&sum.to_le_bytes());
    }

    fn check_frames<P: Policy>(pool: &BufferPool<P, &Disk>) {
        pool.faults.lock().unwrap().policy.check().unwrap();
        let mut resident = 0;
        for page in 0..1000 {
            if let Some(frame) = pool.frame_of(PageId(page)) {
                assert_eq!(frame.page.load(SeqCst), page);
                assert_eq!(frame.pins.load(SeqCst), 0, "page {page} is still pinned");
                resident += 1;
            }
        }
        assert!(resident <= pool.frames.len());
    }

    /// Each page holds a number for each thread and one for all. Every thread checks its own at
    /// each turn, and in the end the storage has every update.
    fn many_threads<P: Registered + Send>() {
        const THREADS: usize = 4;
        const PAGES: usize = 120;
        const TURNS: usize = 15_000;
        let disk = Disk::new(PAGES);
        // Two pins a thread, so that there is always a victim.
        let frames = 2 * THREADS as u32 + 3;
        let pool = BufferPool::new(policy::<P>(frames), frames, &disk);
        // Pins can move from page to page ahead of a fault that looks for one without: seldom, or
        // there is a fault.
        let busy = AtomicU32::new(0);
        let pin = |page: usize| loop {
            match pool.page(PageId(page as u32)) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    assert!(busy.fetch_add(1, SeqCst) < 10, "pages that are not pinned are not found");
                    std::thread::yield_now();
                }
                other => break other.unwrap(),
            }
        };
        let work = |thread: usize| {
            let mut random = SplitMix64::new(thread as u64);
            let mut expected = [0; PAGES];
            for turn in 0..TURNS {
                // Skewed, so that hits, faults and pinned victims all happen.
                let mut any = || (random.below(PAGES as u64) * random.below(PAGES as u64)) as usize / PAGES;
                let (page, other) = (any(), any());
                let pinned = pin(page);
                assert_eq!(number(&pinned.read(), thread), expected[page], "page {page}, turn {turn}");
                let also_pinned = pin(other);
                assert_eq!(number(&also_pinned.read(), thread), expected[other], "page {other}");
                if turn % 3 > 0 {
                    let mut content = pinned.write();
                    add_one(&mut content, thread);
                    add_one(&mut content, THREADS);
                    expected[page] += 1;
                }
            }
            expected
        };
        let expected: Vec<[u64; PAGES]> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        check_frames(&pool);
        let faults = pool.faults.lock().unwrap().count;
        assert!(faults > TURNS as u64 / 10, "{faults} faults put little to the test");
        pool.flush().unwrap();
        for page in 0..PAGES {
            let content = disk.pages[page].lock().unwrap();
            for (thread, expected) in expected.iter().enumerate() {
                assert_eq!(number(&content, thread), expected[page], "page {page} of thread {thread}");
            }
            let all: u64 = expected.iter().map(|expected| expected[page]).sum();
            assert_eq!(number(&content, THREADS), all, "page {page}, all threads");
        }
    }

    #[test]
    fn no_update_is_lost_under_clock() {
        many_threads::<Clock>();
    }
    #[test]
    fn no_update_is_lost_under_clock_pro() {
        many_threads::<ClockProStrict>();
    }
    #[test]
    fn no_update_is_lost_under_sieve() {
        many_threads::<Sieve>();
    }
    /// These are told of every hit.
    #[test]
    fn no_update_is_lost_under_policies_that_see_hits() {
        many_threads::<S3Fifo>();
        many_threads::<Lru>();
    }
    #[test]
    fn no_update_is_lost_under_car() {
        many_threads::<Car>();
    }
    #[test]
    fn no_update_is_lost_under_seq() {
        many_threads::<SeqClock>();
    }
    /// These never look at a reference bit, and name a page again however often it is refused.
    #[test]
    fn no_update_is_lost_under_policies_without_bits() {
        many_threads::<Fifo>();
        many_threads::<Lifo>();
        many_threads::<Random>();
    }

    #[test]
    fn pinned_pages_stay() {
        let disk = Disk::new(10);
        let pool = BufferPool::new(policy::<Fifo>(3), 3, &disk);
        let first = pool.page(PageId(0)).unwrap();
        first.write()[0] = 7;
        for page in 1..10 {
            assert_eq!(pool.page(PageId(page)).unwrap().read()[0], 0, "page {page}");
        }
        assert!(pool.frame_of(PageId(0)).is_some() && first.read()[0] == 7);
        let second = pool.page(PageId(8)).unwrap();
        let third = pool.page(PageId(9)).unwrap();
        let error = pool.page(PageId(1)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop((first, second, third));
        assert_eq!(pool.page(PageId(1)).unwrap().read()[0], 0);
        check_frames(&pool);
    }

    #[test]
    fn a_page_that_cannot_be_written_back_is_kept() {
        let disk = Disk::new(4);
        let pool = BufferPool::new(policy::<Clock>(1), 1, &disk);
        pool.page(PageId(0)).unwrap().write()[0] = 7;
        disk.is_full.store(true, SeqCst);
        let error = pool.page(PageId(1)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(pool.page(PageId(0)).unwrap().read()[0], 7);
        assert!(pool.flush().is_err());
        disk.is_full.store(false, SeqCst);
        assert_eq!(pool.page(PageId(1)).unwrap().read()[0], 0);
        assert_eq!(disk.pages[0].lock().unwrap()[0], 7);
        check_frames(&pool);
    }

    #[test]
    fn a_page_that_cannot_be_read_leaves_a_free_frame() {
        let disk = Disk::new(2);
        let pool = BufferPool::new(policy::<Clock>(1), 1, &disk);
        drop(pool.page(PageId(0)).unwrap());
        assert_eq!(pool.page(PageId(2)).err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(pool.page(PageId(1)).unwrap().read()[0], 0);
        check_frames(&pool);
    }
}
