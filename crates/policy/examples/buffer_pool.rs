//! The page buffer of a database on the policy core: `cargo run --release -p sweephand-policy
//! --example buffer_pool`.
//!
//! ```text
//!   hit     page table -> frame, pin += 1, reference bit = 1            three atomics, no lock
//!   fault   victim -> claim its frame -> write it back if dirty -> evict -> read -> insert     one at a time
//! ```
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

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Mutex, RwLock};

use sweephand_policy::policies::{Car, Clock, ClockPro, Fifo};
use sweephand_policy::registry::Registered;
use sweephand_policy::{Arguments, Mmu, NEVER, PageId, Policy, Reference, SplitMix64, VmModel};

const PAGE_BYTES: usize = 4096;
type Page = [u8; PAGE_BYTES];

/// Where pages are when they are not in the buffer.
trait Storage {
    fn read(&self, page: PageId, into: &mut Page) -> io::Result<()>;
    fn write(&self, page: PageId, from: &Page) -> io::Result<()>;
}

impl Storage for File {
    fn read(&self, page: PageId, into: &mut Page) -> io::Result<()> {
        self.read_exact_at(into, page.index() as u64 * PAGE_BYTES as u64)
    }
    fn write(&self, page: PageId, from: &Page) -> io::Result<()> {
        self.write_all_at(from, page.index() as u64 * PAGE_BYTES as u64)
    }
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
struct Pinned<'a>(&'a Frame);

impl Pinned<'_> {
    fn read(&self) -> impl Deref<Target = Page> + '_ {
        self.0.content.read().expect("no thread has panicked while it changed the page")
    }
    fn write(&self) -> impl DerefMut<Target = Page> + '_ {
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

struct BufferPool<P, S> {
    storage: S,
    frames: Box<[Frame]>,
    /// The frame of each page of the file.
    table: Box<[AtomicU32]>,
    faults: Mutex<Faults<P>>,
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
    fn frame_of(&self, page: PageId) -> Option<&Frame> {
        self.frames.get(self.table[page.index()].load(Acquire) as usize)
    }
}

impl<P: Policy<Model = VmModel>, S: Storage> BufferPool<P, S> {
    /// A buffer of `frames` frames for a file of `pages` pages, under a policy made for as many
    /// frames.
    fn new(policy: P, frames: u32, pages: usize, storage: S) -> Self {
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
            table: (0..pages).map(|_| AtomicU32::new(NONE)).collect(),
            faults: Mutex::new(Faults { policy, free: (0..frames).rev().collect(), count: 0 }),
        }
    }

    /// The page, in memory and pinned.
    fn page(&self, page: PageId) -> io::Result<Pinned<'_>> {
        match self.hit(page) {
            Some(pinned) => Ok(pinned),
            None => self.fault(page),
        }
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
    fn fault(&self, page: PageId) -> io::Result<Pinned<'_>> {
        let mut faults = self.faults.lock().expect("no thread has panicked in a fault");
        if let Some(pinned) = self.hit(page) {
            return Ok(pinned); // another thread has loaded it
        }
        faults.count += 1;
        faults.policy.fault(reference(page));
        let mut in_use = Vec::new();
        let loaded = self.take_frame(&mut faults, &mut in_use).and_then(|number| {
            let frame = &self.frames[number as usize];
            let content = &mut *frame.content.write().expect("only this thread has the frame");
            if let Err(error) = self.storage.read(page, content) {
                faults.free.push(number);
                return Err(error);
            }
            frame.page.store(page.0, Relaxed);
            let referenced = faults.policy.insert(reference(page), &mut Bits(self));
            frame.referenced.store(referenced, Relaxed);
            frame.release(1);
            self.table[page.index()].store(number, Release);
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
            let number = self.table[victim.index()].load(Relaxed);
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
        self.table[page.index()].store(NONE, Relaxed);
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
    fn flush(&self) -> io::Result<()> {
        for page in (0..self.table.len()).map(|page| PageId(page as u32)) {
            if let Some(frame) = self.frame_of(page).filter(|frame| frame.pin(page)) {
                self.write_back(Pinned(frame).0)?;
            }
        }
        Ok(())
    }
}

fn reference(page: PageId) -> Reference {
    Reference { page, page_number: u64::from(page.0), object: 0, next_use: NEVER }
}

fn policy<P: Registered>(frames: u32) -> P {
    let defaults = Arguments::parse(&P::INFO, "").expect("no arguments");
    P::configure(frames as usize, &defaults).expect("defaults are valid")
}

/// Four threads look records up through an index: 200 index pages, 20,000 record pages, 500 frames.
fn show<P: Registered + Policy<Model = VmModel> + Send>(storage: &File) -> io::Result<()> {
    const INDEX_PAGES: u64 = 200;
    const RECORD_PAGES: u64 = 20_000;
    const THREADS: u64 = 4;
    const LOOK_UPS: u64 = 25_000;
    let pages = (INDEX_PAGES + RECORD_PAGES) as usize;
    let pool = BufferPool::new(policy::<P>(500), 500, pages, storage.try_clone()?);
    std::thread::scope(|scope| {
        let look_up = |seed| {
            let mut random = SplitMix64::new(seed);
            for _ in 0..LOOK_UPS {
                let record = random.below(RECORD_PAGES);
                let entry = pool.page(PageId((record % INDEX_PAGES) as u32))?.read()[0];
                let page = pool.page(PageId((INDEX_PAGES + record) as u32))?;
                let mut content = page.write();
                content[0] = content[0].wrapping_add(entry + 1);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || look_up(seed))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
    .and_then(|()| pool.flush())?;
    let faults = pool.faults.lock().expect("no thread has panicked").count;
    let references = 2 * THREADS * LOOK_UPS;
    let hit_ratio = 1.0 - faults as f64 / references as f64;
    println!("{:10} {references} references, {faults} faults, hit ratio {hit_ratio:.3}", P::INFO.name);
    Ok(())
}

fn main() -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("sweephand-buffer-pool-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?; // the open file stays
    file.set_len(20_200 * PAGE_BYTES as u64)?;
    show::<Fifo>(&file)?;
    show::<Clock>(&file)?;
    show::<Car>(&file)?;
    show::<ClockPro>(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_policy::policies::{Lifo, Random, SeqClock};

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

    fn check_frames<P: Policy<Model = VmModel>>(pool: &BufferPool<P, &Disk>) {
        pool.faults.lock().unwrap().policy.check().unwrap();
        let mut resident = 0;
        for (page, frame) in pool.table.iter().enumerate() {
            if let Some(frame) = pool.frames.get(frame.load(SeqCst) as usize) {
                assert_eq!(frame.page.load(SeqCst) as usize, page);
                assert_eq!(frame.pins.load(SeqCst), 0, "page {page} is still pinned");
                resident += 1;
            }
        }
        assert!(resident <= pool.frames.len());
    }

    /// Each page holds a number for each thread and one for all. Every thread checks its own at
    /// each turn, and in the end the storage has every update.
    fn many_threads<P: Registered + Policy<Model = VmModel> + Send>() {
        const THREADS: usize = 4;
        const PAGES: usize = 120;
        const TURNS: usize = 15_000;
        let disk = Disk::new(PAGES);
        // Two pins a thread, so that there is always a victim.
        let frames = 2 * THREADS as u32 + 3;
        let pool = BufferPool::new(policy::<P>(frames), frames, PAGES, &disk);
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
        many_threads::<ClockPro>();
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
        let pool = BufferPool::new(policy::<Fifo>(3), 3, 10, &disk);
        let first = pool.page(PageId(0)).unwrap();
        first.write()[0] = 7;
        for page in 1..10 {
            assert_eq!(pool.page(PageId(page)).unwrap().read()[0], 0);
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
        let pool = BufferPool::new(policy::<Clock>(1), 1, 4, &disk);
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
        let pool = BufferPool::new(policy::<Clock>(1), 1, 3, &disk);
        drop(pool.page(PageId(0)).unwrap());
        assert_eq!(pool.page(PageId(2)).err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(pool.page(PageId(1)).unwrap().read()[0], 0);
        check_frames(&pool);
    }
}
