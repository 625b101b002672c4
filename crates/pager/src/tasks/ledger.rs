//! The ledger of all tasks' pages, which answers the policy's questions.
//!
//! Every process has its own ids for its pages. Here they become ids that are dense over all
//! processes, given out and taken back in chunks. The agents set reference bits in the state that
//! they share.
//!
//! **Dirty pages.** An evicted page goes to its agent's staging area at once and is written from
//! there while its frame is in use again. So the policies' usual wait for a page to be cleaned does
//! not occur, and no page reads as dirty. If the staging area is full, the agent is late with its
//! eviction, and the command waits for that.
//!
//! **Busy pages.** A page that a thread has just waited for is busy until its task has had time to
//! use it.
//!
//! **Silent agents.** If an agent does not answer (its program was stopped from outside), its pages
//! are hidden from the policy, and other tasks have to do without them.

use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use sweephand_pager_interface::lease::{MOST_PAGES, REFERENCED, SHARED_BYTES, SharedState};
use sweephand_policy::{Mmu, PageId, TaskId, TaskMmu, VirtualTime};

/// Pages of a chunk, as agents give ids out.
const CHUNK_PAGES: usize = 64;
/// A page that was waited for is busy until its task has had this much time, in microseconds ...
const USE_US: VirtualTime = 50;
/// ... or for this long, if the task is not given any.
const USE_AT_MOST: Duration = Duration::from_millis(20);
/// Pages that were waited for and may still be busy, of one process.
const MOST_AWAITED: usize = 16;
/// Pages with a clear bit that have just come in and are left mapped, for the access that they were
/// brought in for.
const FRESH: usize = 128;

/// The state that an agent shares, mapped here.
#[derive(Debug)]
pub(crate) struct MappedState(NonNull<SharedState>);

// SAFETY: a shared state is made of atomics, and the mapping is the value's own.
unsafe impl Send for MappedState {}

impl MappedState {
    /// Maps the file that an agent has sent: one in memory that no process can make shorter, so
    /// that looking at it never ends in a signal.
    pub(crate) fn map(file: impl AsFd) -> io::Result<Self> {
        const TMPFS: u64 = 0x0102_1994;
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        // In this order: what is sealed is no shorter than it is found to be.
        let is_shared_state = seals.contains(SealFlags::SHRINK)
            && rustix::fs::fstatfs(&file)?.f_type as u64 == TMPFS
            && rustix::fs::fstat(&file)?.st_size == SHARED_BYTES as i64;
        if !is_shared_state {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), SHARED_BYTES, protection, MapFlags::SHARED, &file, 0)
        }?;
        NonNull::new(start.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn state(&self) -> &SharedState {
        // SAFETY: mapped until this is dropped; any bytes are a shared state.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for MappedState {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), SHARED_BYTES) };
    }
}

/// A process, by the number of its link.
#[derive(Debug)]
struct Process {
    task: usize,
    shared: MappedState,
    /// By the agent's chunks: the chunk here, plus 1; 0 if none of its pages was reported.
    chunks: Vec<u32>,
    /// Pages that are faulted on and not in yet, first of a run.
    expected: VecDeque<u32>,
    /// Page of the latest fault.
    latest_fault: u32,
    /// Pages that were waited for: since which virtual and real time.
    awaited: VecDeque<(PageId, VirtualTime, Instant)>,
    /// The agent's ids of pages whose bits were found clear or cleared: their next touch has to be
    /// seen.
    to_watch: Vec<u32>,
    /// Those that came in with a clear bit, the oldest in front.
    fresh: VecDeque<u32>,
    /// Pages that the policy had when the agent fell silent, by the agent's ids.
    aside: Vec<u32>,
    resident: usize,
}

/// What the policy may know of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    virtual_time: VirtualTime,
    is_active: bool,
}

/// The pages of all processes.
#[derive(Debug)]
pub(crate) struct Ledger {
    processes: Vec<Option<Process>>,
    tasks: Vec<Standing>,
    /// By chunk: whose it is, and which of its own.
    owners: Vec<(u32, u32)>,
    free_chunks: Vec<u32>,
    /// By page: whether the policy has it.
    resident: Vec<bool>,
    resident_pages: usize,
    now: Instant,
}

const NO_OWNER: (u32, u32) = (u32::MAX, 0);

impl Ledger {
    pub(crate) fn new(tasks: usize) -> Self {
        Self {
            processes: Vec::new(),
            tasks: vec![Standing::default(); tasks],
            owners: Vec::new(),
            free_chunks: Vec::new(),
            resident: Vec::new(),
            resident_pages: 0,
            now: Instant::now(),
        }
    }

    /// Takes in a process.
    pub(crate) fn admit(&mut self, number: usize, task: usize, shared: MappedState) {
        self.processes.resize_with(self.processes.len().max(number + 1), || None);
        self.processes[number] = Some(Process {
            task,
            shared,
            chunks: Vec::new(),
            expected: VecDeque::new(),
            latest_fault: u32::MAX - 1,
            awaited: VecDeque::new(),
            to_watch: Vec::new(),
            fresh: VecDeque::new(),
            aside: Vec::new(),
            resident: 0,
        });
    }

    /// Forgets a process. Returns all pages that its ids stood for, which may be others' from now
    /// on.
    pub(crate) fn dismiss(&mut self, number: usize) -> Vec<PageId> {
        let Some(process) = self.processes[number].take() else { return Vec::new() };
        let mut pages = Vec::new();
        for chunk in process.chunks.into_iter().filter(|&chunk| chunk != 0).map(|chunk| chunk - 1) {
            self.owners[chunk as usize] = NO_OWNER;
            self.free_chunks.push(chunk);
            let first = chunk * CHUNK_PAGES as u32;
            for page in (first..first + CHUNK_PAGES as u32).map(PageId) {
                self.resident_pages -= usize::from(std::mem::take(&mut self.resident[page.index()]));
                pages.push(page);
            }
        }
        pages
    }

    fn process(&mut self, number: usize) -> &mut Process {
        self.processes[number].as_mut().expect("a process that has a link is known")
    }

    /// The page that a process knows by this id.
    pub(crate) fn page(&mut self, number: usize, id: u32) -> PageId {
        let index = id as usize / CHUNK_PAGES;
        let process = self.processes[number].as_mut().expect("a process that has a link is known");
        if process.chunks.len() <= index {
            process.chunks.resize(index + 1, 0);
        }
        if process.chunks[index] == 0 {
            let chunk = self.free_chunks.pop().unwrap_or_else(|| {
                self.owners.push(NO_OWNER);
                self.resident.resize(self.owners.len() * CHUNK_PAGES, false);
                self.owners.len() as u32 - 1
            });
            self.owners[chunk as usize] = (number as u32, index as u32);
            process.chunks[index] = chunk + 1;
        }
        PageId((process.chunks[index] - 1) * CHUNK_PAGES as u32 + id % CHUNK_PAGES as u32)
    }

    /// Whether a process can have a page of this id.
    pub(crate) fn is_page(id: u32) -> bool {
        (id as usize) < MOST_PAGES
    }

    /// Whose page it is: the process and its own id.
    pub(crate) fn whose(&self, page: PageId) -> (usize, u32) {
        let (process, chunk) = self.owners[page.index() / CHUNK_PAGES];
        (process as usize, chunk * CHUNK_PAGES as u32 + page.0 % CHUNK_PAGES as u32)
    }

    /// A page of a process is needed.
    pub(crate) fn faulted(&mut self, number: usize, id: u32) {
        let process = self.process(number);
        // A thread waits for the first of a run; the others are read ahead.
        if id != process.latest_fault.wrapping_add(1) {
            process.expected.push_back(id);
            if process.expected.len() > MOST_AWAITED {
                process.expected.pop_front();
            }
        }
        process.latest_fault = id;
    }

    /// A page of a process has come in, with this reference bit for a start.
    pub(crate) fn enter(&mut self, number: usize, id: u32, page: PageId, referenced: bool) {
        let (now, task) = (self.now, self.process(number).task);
        let virtual_time = self.tasks[task].virtual_time;
        self.resident[page.index()] = true;
        self.resident_pages += 1;
        let process = self.process(number);
        process.resident += 1;
        if !referenced {
            process.shared.state().clear(id as usize, REFERENCED);
            process.fresh.push_back(id);
        }
        if let Some(at) = process.expected.iter().position(|&expected| expected == id) {
            process.expected.remove(at);
            process.awaited.push_back((page, virtual_time, now));
            if process.awaited.len() > MOST_AWAITED {
                process.awaited.pop_front();
            }
        }
        while process.fresh.len() > FRESH {
            let Some(oldest) = process.fresh.pop_front() else { break };
            process.to_watch.push(oldest);
        }
    }

    /// A page is not the policy's any more. Returns whether it was.
    pub(crate) fn leave(&mut self, page: PageId) -> bool {
        let was = std::mem::take(&mut self.resident[page.index()]);
        self.resident_pages -= usize::from(was);
        let (number, _) = self.whose(page);
        if was && let Some(process) = self.processes.get_mut(number).and_then(Option::as_mut) {
            process.resident -= 1;
        }
        was
    }

    /// Whether the policy has a page.
    pub(crate) fn has(&self, page: PageId) -> bool {
        self.resident[page.index()]
    }

    /// Pages that the policy has.
    pub(crate) fn resident_pages(&self) -> usize {
        self.resident_pages
    }

    /// Of a task's processes.
    pub(crate) fn resident_pages_of(&self, task: usize) -> usize {
        self.processes
            .iter()
            .flatten()
            .filter(|process| process.task == task)
            .map(|process| process.resident)
            .sum()
    }

    /// Pages of each task that have been used since their bits were cleared.
    pub(crate) fn used_pages(&self) -> Vec<usize> {
        let mut used = vec![0; self.tasks.len()];
        for process in self.processes.iter().flatten() {
            let shared = process.shared.state();
            for (index, &chunk) in process.chunks.iter().enumerate().filter(|(_, chunk)| **chunk != 0) {
                let first = (chunk as usize - 1) * CHUNK_PAGES;
                let resident = self.resident[first..first + CHUNK_PAGES].iter().enumerate();
                let is_used = |&(page, resident): &(usize, &bool)| {
                    *resident && shared.get(index * CHUNK_PAGES + page) & REFERENCED != 0
                };
                used[process.task] += resident.filter(is_used).count();
            }
        }
        used
    }

    /// Pages of a process whose next touch has to be seen, by its own ids.
    pub(crate) fn take_to_watch(&mut self, number: usize) -> Vec<u32> {
        std::mem::take(&mut self.process(number).to_watch)
    }

    pub(crate) fn shared(&self, number: usize) -> Option<&SharedState> {
        Some(self.processes[number].as_ref()?.shared.state())
    }

    /// The agent does not answer. Returns the pages that the policy has to forget until it does.
    pub(crate) fn set_aside(&mut self, number: usize) -> Vec<PageId> {
        let chunks = self.process(number).chunks.clone();
        let pages = chunks.into_iter().filter(|&chunk| chunk != 0).flat_map(|chunk| {
            let first = (chunk - 1) * CHUNK_PAGES as u32;
            (first..first + CHUNK_PAGES as u32).map(PageId)
        });
        let pages: Vec<PageId> = pages.filter(|&page| self.leave(page)).collect();
        let ids = pages.iter().map(|&page| self.whose(page).1).collect();
        self.process(number).aside = ids;
        pages
    }

    /// The agent has answered: the pages that the policy gets back, by the agent's ids.
    pub(crate) fn take_aside(&mut self, number: usize) -> Vec<u32> {
        std::mem::take(&mut self.process(number).aside)
    }

    pub(crate) fn set_active(&mut self, task: usize, is_active: bool) {
        self.tasks[task].is_active = is_active;
    }

    /// Takes a task's time from its clocks. It does not go back.
    pub(crate) fn set_virtual_time(&mut self, task: usize, time: VirtualTime) {
        let standing = &mut self.tasks[task];
        standing.virtual_time = standing.virtual_time.max(time);
    }

    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }
}

impl Mmu for Ledger {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        let (number, id) = self.whose(page);
        let Some(process) = self.processes.get_mut(number).and_then(Option::as_mut) else { return false };
        let shared = process.shared.state();
        let referenced = shared.clear(id as usize, REFERENCED) & REFERENCED != 0;
        if referenced {
            process.to_watch.push(id);
        }
        referenced
    }
}

impl TaskMmu for Ledger {
    fn owner(&self, page: PageId) -> TaskId {
        let (number, _) = self.whose(page);
        let process = self.processes.get(number).and_then(Option::as_ref);
        TaskId(process.map_or(0, |process| process.task as u32))
    }

    fn virtual_time(&self, task: TaskId) -> VirtualTime {
        self.tasks[task.index()].virtual_time
    }

    fn is_active(&self, task: TaskId) -> bool {
        self.tasks[task.index()].is_active
    }

    fn is_dirty(&self, _: PageId) -> bool {
        false
    }

    fn is_busy(&self, page: PageId) -> bool {
        let (number, _) = self.whose(page);
        let Some(process) = self.processes.get(number).and_then(Option::as_ref) else { return false };
        let time = self.tasks[process.task].virtual_time;
        let waits = |&(awaited, since, real): &(PageId, VirtualTime, Instant)| {
            awaited == page && time < since + USE_US && self.now.duration_since(real) < USE_AT_MOST
        };
        process.awaited.iter().any(waits)
    }

    fn start_cleaning(&mut self, _: PageId) {
        unreachable!("no page reads as dirty")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    use std::os::fd::OwnedFd;

    /// A file as agents send it.
    fn file(bytes: usize, flags: MemfdFlags, seals: SealFlags) -> OwnedFd {
        let file = memfd_create("shared", flags | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes as u64).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    const SEALS: SealFlags = SealFlags::SHRINK;

    /// A shared state that nobody shares.
    pub(in super::super) fn shared() -> MappedState {
        MappedState::map(file(SHARED_BYTES, MemfdFlags::CLOEXEC, SEALS)).unwrap()
    }

    #[test]
    fn a_file_that_can_be_made_shorter_is_refused() {
        let flags = MemfdFlags::CLOEXEC;
        for (bytes, seals) in [
            (SHARED_BYTES, SealFlags::empty()),
            (SHARED_BYTES, SealFlags::GROW | SealFlags::SEAL),
            (SHARED_BYTES - 1, SEALS),
            (4096, SEALS),
        ] {
            assert!(MappedState::map(file(bytes, flags, seals)).is_err(), "{bytes} {seals:?}");
        }
        // Nor is one of huge pages, which there may be none of, or one on a disk.
        if let Ok(huge) = memfd_create("huge", flags | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB) {
            let _ = ftruncate(&huge, SHARED_BYTES.next_multiple_of(2 << 20) as u64);
            fcntl_add_seals(&huge, SEALS).unwrap();
            assert!(MappedState::map(huge).is_err());
        }
        assert!(MappedState::map(tempfile::tempfile().unwrap()).is_err());
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::new(2);
        ledger.admit(0, 0, shared());
        ledger.admit(1, 1, shared());
        ledger
    }

    #[test]
    fn ids_are_dense_over_processes_and_lead_back() {
        let mut ledger = ledger();
        let pages = [(0, 5), (1, 5), (0, 700), (1, 701), (0, 6)].map(|(process, id)| {
            let page = ledger.page(process, id);
            assert_eq!((ledger.whose(page), ledger.page(process, id)), ((process, id), page));
            page.0
        });
        assert_eq!(pages, [5, 64 + 5, 2 * 64 + 60, 3 * 64 + 61, 6]);
        assert_eq!(ledger.owner(PageId(69)), TaskId(1));
    }

    #[test]
    fn pages_of_a_process_that_is_gone_are_others() {
        let mut ledger = ledger();
        let page = ledger.page(0, 3);
        ledger.enter(0, 3, page, true);
        let other = ledger.page(1, 3);
        ledger.enter(1, 3, other, true);
        assert_eq!(ledger.dismiss(0).len(), 64);
        assert_eq!((ledger.resident_pages(), ledger.has(page), ledger.resident_pages_of(1)), (1, false, 1));
        assert_eq!(ledger.page(1, 64).0 / 64, page.0 / 64, "its chunk is given out again");
    }

    #[test]
    fn bits_are_those_of_the_agent_and_cleared_ones_are_watched() {
        let mut ledger = ledger();
        let page = ledger.page(1, 9);
        ledger.enter(1, 9, page, true);
        ledger.shared(1).unwrap().set(9, REFERENCED);
        assert_eq!(ledger.used_pages(), [0, 1]);
        assert!(ledger.test_and_clear_referenced(page));
        assert!(!ledger.test_and_clear_referenced(page));
        assert_eq!(ledger.used_pages(), [0, 0]);
        assert_eq!((ledger.take_to_watch(1), ledger.take_to_watch(1)), (vec![9], vec![]));
    }

    #[test]
    fn a_page_that_comes_in_unreferenced_is_watched_after_a_while() {
        let mut ledger = ledger();
        for id in 0..=FRESH as u32 {
            ledger.shared(0).unwrap().set(id as usize, REFERENCED);
            let page = ledger.page(0, id);
            ledger.enter(0, id, page, false);
            assert!(!ledger.test_and_clear_referenced(page));
        }
        assert_eq!(ledger.take_to_watch(0), [0]);
    }

    #[test]
    fn a_page_that_was_waited_for_is_busy_until_its_task_has_gone_on() {
        let mut ledger = ledger();
        ledger.set_virtual_time(0, 1000);
        for id in [7, 8] {
            ledger.faulted(0, id);
        }
        let [waited, ahead] = [7, 8].map(|id| {
            let page = ledger.page(0, id);
            ledger.enter(0, id, page, true);
            page
        });
        assert_eq!((ledger.is_busy(waited), ledger.is_busy(ahead)), (true, false));
        ledger.set_virtual_time(0, 1000 + USE_US);
        assert!(!ledger.is_busy(waited));
        assert_eq!(ledger.set_aside(0), [waited, ahead], "its agent is silent");
        assert_eq!((ledger.resident_pages(), ledger.take_aside(0)), (0, vec![7, 8]));
    }
}
