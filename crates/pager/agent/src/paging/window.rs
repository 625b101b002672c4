//! The window of a recording: the pages that are mapped, and the budget that says how large it may
//! become.
//!
//! Time is cut into epochs. At the start of an epoch all pages are unmapped, with their frames kept
//! in limbo. The first touch of a page in an epoch faults. It becomes a record, and the page stays
//! mapped until the end of the epoch. So of each page in an epoch there is its first touch, in
//! order. A touch that is not recorded has fewer other pages between it and the record before than
//! the epoch has, which is the window.
//!
//! An epoch ends when it has the fewest pages that a window may have and can be paid for. A page
//! that is unmapped costs a fault if it is touched again. So the epoch must have lasted so long
//! that a fault for each of its pages is a small enough part of that time. The window grows while
//! the budget is not held, and the program never waits for faults that it has no budget for. Where
//! all pages of the program are mapped, the epoch ends by time alone.
//!
//! What a fault costs is measured before the program starts, on little memory. The agent measures
//! how long its answers take in the program, and adds what they take longer.
//!
//! The first touch of a new page takes a fault as well, which no window avoids. These faults are
//! paid for, too, but an epoch becomes at most twice as long by them: a program that does little
//! but allocate memory would otherwise have one epoch only. If the program fills new memory in
//! order, one fault brings some pages (`NEW_PAGES_A_FAULT` of the command), and they are recorded
//! together, touched or not. Without a budget each new page takes a fault of its own.

use crate::control::{Control, RecordingOrder, add};
use crate::kernel;
use crate::kernel::clock::now_ns;
use crate::process::own::shared_place;
use crate::process::rlimits::{self, Raised};
use crate::process::roots;
use crate::state::pages::{Flag, Pages};
use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, getpid};
use sweephand_pager_interface::recording::{
    FILE_BYTES, Item, MAGIC, PROCESS, READ, RING_START, RING_WORDS, UNLIMITED, WRITTEN,
};
use sweephand_policy::PageId;

/// Programs that a process may become by `exec`, each with a file of its own.
const MOST_FILES: usize = 10_000;
/// How long to wait for the command to read, before looking again.
const PAUSE_NS: i64 = 500_000;
/// How long the command may read nothing before it is taken to be gone.
const MOST_PAUSES: usize = 20_000;
/// The mean moves by one part in this many of the difference to a new answer.
const ANSWERS_OF_MEAN: i64 = 64;
/// An answer counts for at most this many times the mean. If one takes longer, another program had
/// the processor.
const MOST_MEANS: u64 = 8;
/// How often pages are tried again that could not be unmapped.
const TRIED_AGAIN_NS: u64 = 1_000_000_000;

/// The file for the records of this process, mapped.
#[derive(Debug)]
struct Ring {
    start: usize,
    /// Words written.
    written: u64,
}

impl Ring {
    /// Makes the file in the run's directory.
    fn make() -> Result<Self, Errno> {
        let directory = roots::store().ok_or(Errno::NOENT)?;
        let process = getpid();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |number: usize| {
            let name =
                CString::new(format!("records-{}-{number}", process.as_raw_nonzero())).unwrap_or_default();
            rlimits::without(Raised::Descriptors, || {
                kernel::openat(directory, name.as_c_str(), flags, Mode::RUSR | Mode::WUSR)
            })
        };
        let mut opened = Err(Errno::EXIST);
        // Ends: only `MOST_FILES` names are tried.
        for number in 0..MOST_FILES {
            opened = open(number);
            if !matches!(opened, Err(Errno::EXIST)) {
                break;
            }
        }
        Self::over(&opened?, process)
    }

    /// Maps an empty file.
    fn over(file: &OwnedFd, process: Pid) -> Result<Self, Errno> {
        rlimits::at_any_file_size(|| ftruncate(file, FILE_BYTES as u64))?;
        let place = shared_place(FILE_BYTES);
        // SAFETY: a new mapping of a file that only the command knows besides.
        let start = unsafe {
            mmap(place, FILE_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
        };
        let ring = Self { start: start as usize, written: 0 };
        ring.word(PROCESS).store(process.as_raw_nonzero().get() as u64, Ordering::Relaxed);
        // The command takes the file for ready now.
        ring.word(0).store(MAGIC, Ordering::Release);
        Ok(ring)
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        let address = self.start + number * size_of::<u64>();
        // SAFETY: within the mapping, which stays while the ring does. The command changes words
        // of its own by system calls.
        unsafe { &*(address as *const AtomicU64) }
    }

    /// Puts words in. Returns false if nobody takes them any more.
    ///
    /// Ends: it waits so long at most.
    fn put(&mut self, words: &[u64], control: &Control) -> bool {
        let end = self.written + words.len() as u64;
        let mut pauses = 0;
        while end - self.word(READ).load(Ordering::Acquire).min(end) > RING_WORDS as u64 {
            pauses += 1;
            if control.recording_is_over() || control.is_released() || pauses > MOST_PAUSES {
                return false;
            }
            kernel::sleep(PAUSE_NS);
        }
        for (number, &word) in (self.written..).zip(words) {
            let place = RING_START / size_of::<u64>() + (number % RING_WORDS as u64) as usize;
            self.word(place).store(word, Ordering::Relaxed);
        }
        self.written = end;
        self.word(WRITTEN).store(end, Ordering::Release);
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { munmap(self.start as *mut _, FILE_BYTES) };
    }
}

/// The window of this process.
pub(crate) struct Window {
    order: RecordingOrder,
    control: &'static Control,
    ring: Ring,
    /// Whether the command still takes records.
    is_heard: bool,
    /// Pages that may be mapped. An entry counts while the page has the flag `Queued`.
    mapped: Vec<PageId>,
    /// Pages that could not be unmapped, and when they are tried again.
    stuck: (Vec<PageId>, u64),
    /// By id: whether the command knows where the frame of the page is kept.
    kept: Vec<bool>,
    /// Whether pages are mapped that are not in the list: a fork has mapped all.
    is_sweep_due: bool,
    /// Records of this epoch.
    records: u32,
    /// Faults of this epoch that brought new pages.
    new_page_faults: u64,
    began_ns: u64,
    /// From this time on, time counts for the pages of this epoch.
    counts_from_ns: u64,
    /// Pages that are mapped and not in the list.
    swept_pages: usize,
    /// How long an answer takes: a mean that follows what is measured, in nanoseconds.
    answer_ns: u64,
}

impl Window {
    /// Begins to record this process.
    pub(crate) fn open(control: &'static Control) -> Result<Self, Errno> {
        Ok(Self::with(Ring::make()?, control, control.order.recording))
    }

    fn with(ring: Ring, control: &'static Control, order: RecordingOrder) -> Self {
        Self {
            order,
            control,
            ring,
            is_heard: true,
            mapped: Vec::new(),
            stuck: (Vec::new(), 0),
            kept: Vec::new(),
            is_sweep_due: true,
            records: 0,
            new_page_faults: 0,
            began_ns: now_ns(),
            counts_from_ns: now_ns(),
            swept_pages: 0,
            answer_ns: order.answer_ns.into(),
        }
    }

    /// A window of at least `least_pages` pages, without a budget, whose records nobody reads.
    #[cfg(test)]
    pub(crate) fn unread(control: &'static Control, least_pages: u32) -> Self {
        let file = rustix::fs::memfd_create(c"records", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let order =
            RecordingOrder { least_pages, overhead_millionths: UNLIMITED, ..RecordingOrder::default() };
        Self::with(Ring::over(&file, getpid()).unwrap(), control, order)
    }

    /// The records so far.
    #[cfg(test)]
    pub(crate) fn records(&self) -> Vec<Item> {
        let word = |number| self.ring.word(RING_START / size_of::<u64>() + number).load(Ordering::Relaxed);
        let words: Vec<u64> = (0..self.ring.written as usize).map(word).collect();
        let (mut items, mut rest) = (Vec::new(), words.as_slice());
        while let Some((item, length)) = Item::decode(rest) {
            items.push(item);
            rest = &rest[length..];
        }
        items
    }

    /// Tells the command something.
    pub(crate) fn put(&mut self, item: Item) {
        let (words, length) = item.encode();
        self.is_heard = self.is_heard && self.ring.put(&words[..length], self.control);
    }

    /// Whether the command still takes records.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard && !self.control.recording_is_over()
    }

    /// A page is mapped.
    pub(crate) fn add(&mut self, pages: &mut Pages, page: PageId) {
        if !pages.mark(page, Flag::Queued, true) {
            self.mapped.push(page);
        }
    }

    /// A page was touched, for the first time in this epoch.
    pub(crate) fn touched(&mut self, page_number: u64, write: bool) {
        self.put(Item::Touched { page: page_number, write });
        self.records += 1;
    }

    /// Tells the command where the frame of a page is while the page is not mapped, unless it has
    /// been told.
    pub(crate) fn kept(&mut self, page: PageId, is_new: bool, page_number: u64, at: u64) {
        if self.kept.len() <= page.index() {
            self.kept.resize(page.index() + 1, false);
        }
        if !core::mem::replace(&mut self.kept[page.index()], true) || is_new {
            self.put(Item::Kept { page: page_number, at });
        }
    }

    /// A fault on a known page was answered, in `ns` nanoseconds.
    pub(crate) fn answered(&mut self, ns: u64) {
        let ns = ns.min(MOST_MEANS * self.answer_ns.max(1));
        let change = ns.cast_signed() - self.answer_ns.cast_signed();
        self.answer_ns = self.answer_ns.saturating_add_signed(change / ANSWERS_OF_MEAN);
        add(&self.control.counters.answers, 1);
        add(&self.control.counters.answers_ns, ns);
    }

    /// What a fault costs the program.
    fn fault_ns(&self) -> u64 {
        let RecordingOrder { fault_ns, answer_ns, .. } = self.order;
        u64::from(fault_ns) + self.answer_ns.saturating_sub(answer_ns.into())
    }

    /// A fault has brought new pages.
    pub(crate) fn new_pages(&mut self) {
        self.new_page_faults += 1;
    }

    /// How many pages are in the list of those that may be mapped.
    pub(crate) fn entries(&self) -> usize {
        self.mapped.len()
    }

    /// The pages that came into that list after its first `first`.
    pub(crate) fn entries_from(&self, first: usize) -> Vec<PageId> {
        self.mapped.get(first..).unwrap_or_default().to_vec()
    }

    /// Unmapping pages took `ns` nanoseconds.
    pub(crate) fn charge(&mut self, ns: u64) {
        self.counts_from_ns = now_ns() + self.with_its_share(ns);
    }

    /// The time in which `ns` nanoseconds may be spent, these included.
    fn with_its_share(&self, ns: u64) -> u64 {
        if self.order.overhead_millionths == UNLIMITED {
            return 0;
        }
        ns + ns * 1_000_000 / u64::from(self.order.overhead_millionths.max(1))
    }

    /// When the budget has room for the faults that the end of the epoch would cause, and for those
    /// that brought new pages in it.
    fn due_ns(&self) -> u64 {
        let pages = (self.mapped.len() + self.swept_pages) as u64;
        let faults = pages + self.new_page_faults.min(pages);
        self.counts_from_ns + self.with_its_share(faults * self.fault_ns())
    }

    fn is_full(&self) -> bool {
        self.records >= self.order.least_pages || self.is_sweep_due && self.records > 0
    }

    /// Whether the epoch should end now.
    pub(crate) fn is_due(&self) -> bool {
        self.is_full() && now_ns() >= self.due_ns()
    }

    /// In which time the epoch ends if nothing is touched until then.
    pub(crate) fn due_in_ns(&self) -> Option<u64> {
        self.is_full().then(|| self.due_ns().saturating_sub(now_ns()).max(1))
    }

    /// All pages have been mapped, whether they were touched or not: this many.
    pub(crate) fn sweep(&mut self, pages: usize) {
        (self.is_sweep_due, self.swept_pages) = (true, pages);
    }

    /// The epoch is over. Returns the pages to unmap, in the order of their ids.
    pub(crate) fn end_epoch(&mut self, pages: &mut Pages) -> Vec<PageId> {
        let now = now_ns();
        self.put(Item::EpochEnded { ns: now - self.began_ns });
        (self.began_ns, self.records, self.swept_pages, self.new_page_faults) = (now, 0, 0, 0);
        let mut all = core::mem::take(&mut self.mapped);
        if now >= self.stuck.1 {
            all.append(&mut self.stuck.0);
            self.stuck.1 = now + TRIED_AGAIN_NS;
        }
        if core::mem::take(&mut self.is_sweep_due) {
            all = (0..pages.ids()).map(PageId).collect();
        }
        all.retain(|&page| {
            pages.mark(page, Flag::Queued, false);
            pages.is_resident(page)
        });
        all.sort_unstable_by_key(|page| page.0);
        all.dedup();
        all
    }

    /// A page could not be unmapped.
    pub(crate) fn is_stuck(&mut self, pages: &mut Pages, page: PageId) {
        pages.mark(page, Flag::Queued, true);
        self.stuck.0.push(page);
    }
}
