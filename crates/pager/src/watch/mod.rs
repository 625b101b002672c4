//! A running process, watched from outside: which pages it has used since the last look.
//!
//! Nothing is loaded into the process, and it is not stopped. A look reads the bits that the
//! processor has set in the process's page table (`accessed`), and clears the accessed bits, so
//! that the next look finds what was used between the two. That time is an *epoch*.
//!
//! ```text
//!   every processor empties its list of new pages     their bits could not be cleared otherwise
//!   for each part of the page table                   holes are passed over: PAGEMAP_SCAN
//!       read     accessed, dirty, present             BPF, a table of 512 pages a call
//!       clear    pages that were used                 process_madvise(MADV_COLD)
//!       read     again: which bits are still set      used meanwhile, or cannot be cleared
//!   pages that are not there any more                 /proc/PID/pagemap: swapped out, or dropped?
//! ```
//!
//! **What can be missed.** Reading and clearing are two steps, some ten microseconds apart. A page
//! that the program uses between the two and not again in that epoch is missed in it. The kernel
//! clears accessed bits for its own purposes when it reclaims memory. While the program unmaps
//! memory, the walk may read a table that has just been freed: pages that are being unmapped may
//! then count as used, or not.
//!
//! **What is not known.** The kernel clears no bit of a page that other processes have mapped
//! (libraries, shared memory, pages since a fork), of locked memory and of huge pages of hugetlbfs.
//! Once such a page has been used, its bit says nothing: it counts in [`Look::unknown_pages`] and
//! not among the pages used. A huge page has one bit: if a part is used, all of it is.
//!
//! **What clearing does.** `MADV_COLD` also moves the page to the kernel's list of inactive pages.
//! If memory is short later, the kernel looks at these pages first, finds those that were used
//! since, and keeps them. A large folio of which only a part was used is split.
//!
//! **A sample.** Most of the cost is in the clearing, and in the program's next uses of the pages.
//! So the bits of all pages are read, and only those of a sample are cleared (`sample`).
//!
//! **Dirty bits** are not cleared, because nothing but the kernel can do that. A page's dirty bit
//! says that it was written to since it came into memory or, of a file's page, since it was last
//! written back.

mod mappings;
mod price;
mod sample;

pub use mappings::Mapping;
pub use price::Price;
pub use sample::{BLOCK_PAGES, Sample};

use crate::PAGE_BYTES;
use mappings::Mappings;
use sample::Spread;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use std::{fs, io};
use sweephand_process::accessed::{Found, Mask, NoBits, OneProcessor, TABLE_PAGES, Table, TableBits};
use sweephand_process::family;
use sweephand_process::space::{Advice, Entry, Space, ranges};
use sweephand_process::usage::processor_time;

/// The end of the addresses that processes have; see `space`.
const END: u64 = 1 << 47;
/// So many tables may be unreadable in a look, because they are freed just then.
const MOST_FAILURES: u32 = 64;
/// After so many answers in a row that nothing is mapped, the kernel is asked where the next page
/// is. One such answer can stand for 2 MiB only, and a hole can have terabytes.
const STEPS_IN_A_HOLE: u32 = 2;
/// Used pages between two clearings.
const PAGES_A_CLEARING: u32 = 4096;
/// Pages between two used ones, so many at most, have their bits cleared along: a range costs as
/// much as some hundred pages, as the kernel interrupts other processors for each. A page between
/// that is first used in just that turn is missed.
const CLEARED_ALONG: u64 = BLOCK_PAGES;

/// Why a process cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Only root may.
    #[error("root is missing: accessed bits of other processes are for root alone")]
    Root,
    /// The kernel does not let BPF programs read page tables, or has no description of its types.
    #[error("BPF is missing: {0}")]
    Bits(String),
    /// There is no such process, or it has no memory of its own.
    #[error("process {0}: there is none, or it has no memory: a thread of the kernel, or a zombie")]
    NoProcess(u32),
    /// The system refuses something.
    #[error("{0}: {1}")]
    System(String, #[source] io::Error),
}

/// A process that is being watched.
#[derive(Debug)]
pub struct Observer {
    process: u32,
    bits: TableBits,
    space: Space,
    /// What is known of pages, by table.
    tables: BTreeMap<u64, Known>,
    mappings: Mappings,
    looks: u64,
    sample: Sample,
    /// When the last look was, and the processor time of the process until then.
    before: Option<(Instant, Duration)>,
}

/// What is known of the pages of a table.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The look that found the table last.
    look: u64,
    /// Pages in memory, as that look has found, and as the one before has.
    present: Mask,
    before: Mask,
    dirty: Mask,
    /// Pages that some look has reported as used.
    reported: Mask,
    /// Pages whose bits could not be cleared.
    unknown: Mask,
    /// Pages in memory that are in the sample, as the look has found.
    sampled: Mask,
}

/// What a look has found.
#[derive(Debug)]
pub enum Seen {
    /// The pages used since the look before.
    Look(Look),
    /// The process has become another program. The next look begins anew.
    NewProgram,
    /// The process has ended.
    Ended,
}

/// The pages used in an epoch.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Pages of the sample that were used since the look before, ascending. In the first look:
    /// since their bits were last cleared, whenever that was.
    pub pages: Vec<UsedPage>,
    /// One page in so many is in the sample.
    pub one_page_in: u64,
    /// Pages in memory.
    pub resident_pages: u64,
    /// Those of them that are in the sample.
    pub sampled_pages: u64,
    /// The standard error of [`used_pages`](Self::used_pages). 0: all pages were looked at.
    pub used_pages_error: f64,
    /// Those of them whose dirty bit is set.
    pub dirty_pages: u64,
    /// Pages that became dirty since the look before: written to for the first time since they
    /// came into memory.
    pub newly_dirty_pages: u64,
    /// Pages of the sample of which it is not known whether they were used.
    pub unknown_pages: u64,
    /// Pages that some look has reported and whose contents are gone.
    pub dropped: Vec<Range<u64>>,
    /// Calls of the program that reads the page table.
    pub calls: u64,
    /// Processor time of this look.
    pub processor_time: Duration,
    /// Pages whose bits were cleared.
    pub cleared_pages: u64,
    /// In so many ranges.
    pub cleared_ranges: u64,
    /// Processors that have run the process since the look before, on average.
    pub running: f64,
}

impl Look {
    /// How many pages there are for each page of the sample.
    pub fn weight(&self) -> f64 {
        match self.one_page_in {
            1 => 1.0,
            _ if self.sampled_pages == 0 => self.one_page_in as f64,
            _ => self.resident_pages as f64 / self.sampled_pages as f64,
        }
    }

    /// So many pages of the sample stand for how many of the process.
    pub fn of_all(&self, sampled: u64) -> u64 {
        (sampled as f64 * self.weight()).round() as u64
    }

    /// Pages used since the look before: an estimate, if not all were looked at.
    pub fn used_pages(&self) -> u64 {
        self.of_all(self.pages.len() as u64)
    }
}

/// A page that was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedPage {
    /// Its number: address / page size.
    pub number: u64,
    /// Whether its dirty bit is set.
    pub dirty: bool,
}

impl Observer {
    /// Prepares to watch a process. Nothing is cleared yet.
    pub fn of(process: u32) -> Result<Self, WatchError> {
        if !rustix::process::geteuid().is_root() {
            return Err(WatchError::Root);
        }
        let missing = |error: NoBits| WatchError::Bits(error.to_string());
        let bits = TableBits::load().map_err(missing)?;
        let space = Space::open(process).map_err(|_| WatchError::NoProcess(process))?;
        let mappings = Mappings::new(process);
        let tables = BTreeMap::new();
        Ok(Self { process, bits, space, tables, mappings, looks: 0, sample: Sample::ALL, before: None })
    }

    /// The pages that are looked at.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// From the next look on, these pages are looked at. Of pages that come into the sample, the
    /// next look says whether they were used at any time.
    pub fn set_sample(&mut self, sample: Sample) {
        self.sample = sample;
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// What a look costs for each page, measured on memory of this process.
    pub fn price(&self) -> Result<Price, WatchError> {
        let failed = |error| WatchError::System("memory to measure with".to_string(), error);
        Price::measure(&self.bits).map_err(failed)
    }

    /// Pages in memory, from the kernel's own count.
    pub fn resident_pages(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process)).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default()
    }

    /// The mappings, as far as they are known: a process with very many is not asked for them at
    /// every look.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings.all
    }

    /// The processes that the process has started and that are there.
    pub fn children(&self) -> Vec<u32> {
        family::children(self.process)
    }

    /// Looks: reads the bits, and clears them.
    pub fn look(&mut self) -> Result<Seen, WatchError> {
        let began = processor_time();
        self.looks += 1;
        let _ = OneProcessor::empty_all_lists();
        let mut look = Look { one_page_in: self.sample.one_page_in(), ..Look::default() };
        if let Err(error) = self.walk(&mut look) {
            return self.instead(error);
        }
        if self.space.is_gone() {
            return self.instead(io::ErrorKind::NotFound.into());
        }
        self.mappings.refresh();
        self.find_dropped(&mut look);
        let tables = self
            .tables
            .iter()
            .map(|(&table, known)| (table, [&known.present, &known.unknown, &known.sampled]));
        self.mappings.count(tables, &look.pages);
        look.running = self.running();
        look.processor_time = processor_time().saturating_sub(began);
        Ok(Seen::Look(look))
    }

    /// The processors that have run the process since the look before, on average. 1 where that is
    /// not known.
    fn running(&mut self) -> f64 {
        let now = self.space.processor_time().map(|time| (Instant::now(), time));
        let before = std::mem::replace(&mut self.before, now);
        let (Some((now, time)), Some((then, before))) = (now, before) else { return 1.0 };
        time.saturating_sub(before).as_secs_f64() / (now - then).as_secs_f64().max(1e-9)
    }

    /// What has become of the process if its memory cannot be looked at.
    fn instead(&mut self, error: io::Error) -> Result<Seen, WatchError> {
        let was_gone = self.space.is_gone();
        let Ok(space) = Space::open(self.process) else { return Ok(Seen::Ended) };
        let is_other_thread = space.thread != self.space.thread;
        self.space = space;
        if !was_gone && !is_other_thread {
            return Err(WatchError::System(format!("process {}: its page table", self.process), error));
        }
        if was_gone {
            self.tables.clear();
            self.mappings = Mappings::new(self.process);
            return Ok(Seen::NewProgram);
        }
        // The thread through which its memory was seen has ended.
        self.look()
    }

    /// Reads and clears the bits of all pages.
    fn walk(&mut self, look: &mut Look) -> io::Result<()> {
        let mut address = 0;
        let mut used: Vec<(u64, Mask)> = Vec::new();
        let (mut used_pages, mut failures, mut steps) = (0, 0, 0);
        let mut spread = Spread::default();
        while address < END {
            look.calls += 1;
            match self.bits.find(self.space.thread, address) {
                // Part of the page table has just been freed; or there is none any more.
                Err(error) if failures == MOST_FAILURES => return Err(error),
                Err(_) => {
                    failures += 1;
                    address += TABLE_PAGES as u64 * PAGE_BYTES;
                }
                Ok(Found::NothingUpTo(next)) => {
                    (address, steps) = (next, steps + 1);
                    if steps == STEPS_IN_A_HOLE {
                        address = self.behind_hole(next);
                        steps = 0;
                    }
                }
                Ok(Found::Table(table)) => {
                    steps = 0;
                    let number = address / PAGE_BYTES / TABLE_PAGES as u64;
                    if let Some(accessed) = self.take(number, &table, look, &mut spread) {
                        used.push((number, accessed));
                        used_pages += count(&accessed);
                    }
                    address += TABLE_PAGES as u64 * PAGE_BYTES;
                }
            }
            if used_pages >= PAGES_A_CLEARING {
                self.clear(&used, look);
                used.clear();
                used_pages = 0;
            }
        }
        self.clear(&used, look);
        look.used_pages_error = spread.error(look.one_page_in);
        Ok(())
    }

    /// The address of the next page in memory. Where the kernel does not tell, the walk goes on as
    /// it did.
    fn behind_hole(&self, from: u64) -> u64 {
        self.space.first_present(from).map_or(from, |found| found.unwrap_or(END))
    }

    /// Takes what a table says. Returns the pages whose bits are to be cleared.
    fn take(&mut self, number: u64, table: &Table, look: &mut Look, spread: &mut Spread) -> Option<Mask> {
        let (looks, in_sample) = (self.looks, self.sample.words(number, table));
        let known = self.tables.entry(number).or_default();
        known.look = looks;
        look.resident_pages += u64::from(count(&table.present));
        look.dirty_pages += u64::from(count(&table.dirty));
        let first = number * TABLE_PAGES as u64;
        let mut to_clear = Mask::default();
        known.sampled = Mask::default();
        for word in 0..table.accessed.len() {
            look.newly_dirty_pages += u64::from((table.dirty[word] & !known.dirty[word]).count_ones());
            if !in_sample[word] {
                // If the page comes into the sample later, nothing is known of it.
                known.reported[word] = 0;
                continue;
            }
            let (present, accessed) = (table.present[word], table.accessed[word]);
            (known.sampled[word], to_clear[word]) = (present, accessed);
            look.unknown_pages += u64::from((accessed & known.unknown[word]).count_ones());
            look.sampled_pages += u64::from(present.count_ones());
            let used = accessed & !known.unknown[word];
            spread.add(present.count_ones(), used.count_ones());
            known.reported[word] |= used;
            look.pages.extend(bits(used).map(|bit| UsedPage {
                number: first + (64 * word) as u64 + bit,
                dirty: table.dirty[word] >> bit & 1 != 0,
            }));
        }
        (known.dirty, known.present) = (table.dirty, table.present);
        (to_clear != Mask::default()).then_some(to_clear)
    }

    /// Clears the bits of pages, and finds those whose bits cannot be cleared.
    fn clear(&mut self, used: &[(u64, Mask)], look: &mut Look) {
        let numbers = used.iter().flat_map(|(table, mask)| pages_of(*table, mask));
        let ranges = ranges(numbers, CLEARED_ALONG);
        look.cleared_ranges += ranges.len() as u64;
        let refused = self.space.advise(&ranges, Advice::Cold);
        for (number, mask) in used {
            look.cleared_pages += u64::from(count(mask));
            let address = number * TABLE_PAGES as u64 * PAGE_BYTES;
            let Ok(Found::Table(after)) = self.bits.find(self.space.thread, address) else { continue };
            let mut still = after.accessed;
            still.iter_mut().zip(mask).for_each(|(still, mask)| *still &= mask);
            let pages: Vec<u64> = pages_of(*number, &still).collect();
            let mut unknown = Mask::default();
            if !pages.is_empty() {
                for (page, entry) in pages.iter().zip(self.space.entries(&pages)) {
                    let is_refused = || {
                        let after = refused.partition_point(|range| range.start <= *page);
                        refused[..after].last().is_some_and(|range| range.contains(page))
                    };
                    // Of the others, the program has used the page just now.
                    if !entry.is_exclusive() || is_refused() {
                        let bit = (page % TABLE_PAGES as u64) as usize;
                        unknown[bit / 64] |= 1 << (bit % 64);
                    }
                }
            }
            if let Some(known) = self.tables.get_mut(number) {
                known.unknown = unknown;
            }
        }
    }

    /// Finds reported pages whose contents are gone, and notes which pages are present.
    fn find_dropped(&mut self, look: &mut Look) {
        let mut gone = Vec::new();
        for (&number, known) in &mut self.tables {
            if known.look != self.looks {
                known.present = Mask::default();
                known.sampled = Mask::default();
                known.dirty = Mask::default();
            }
            let missing = |word: usize| known.reported[word] & known.before[word] & !known.present[word];
            gone.extend(pages_of(number, &std::array::from_fn(missing)));
            known.before = known.present;
        }
        let entries = self.space.entries(&gone);
        let is_dropped = |&(page, entry): &(u64, Entry)| {
            // The contents of a file's page are in the file.
            let is_kept = |mapping: &Mapping| mapping.is_file();
            !entry.is_present() && !entry.is_swapped() && !self.mappings.at(page).is_some_and(is_kept)
        };
        let dropped = gone.into_iter().zip(entries).filter(is_dropped).map(|(page, _)| page);
        look.dropped = ranges(dropped, 0);
        for page in look.dropped.iter().cloned().flatten() {
            if let Some(known) = self.tables.get_mut(&(page / TABLE_PAGES as u64)) {
                let bit = (page % TABLE_PAGES as u64) as usize;
                known.reported[bit / 64] &= !(1 << (bit % 64));
            }
        }
        let looks = self.looks;
        self.tables.retain(|_, known| known.look == looks || known.reported != Mask::default());
    }
}

/// The pages of a table that have a bit, by number.
fn pages_of(table: u64, mask: &Mask) -> impl Iterator<Item = u64> {
    let first = table * TABLE_PAGES as u64;
    mask.iter()
        .enumerate()
        .flat_map(move |(word, &mask)| bits(mask).map(move |bit| first + 64 * word as u64 + bit))
}

/// The places of the bits of a word, ascending.
fn bits(mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(bit)
    })
}

fn count(mask: &Mask) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsRawFd, OwnedFd};
    use sweephand_checks::{Need, skip};
    use sweephand_policy::SplitMix64;
    use sweephand_process::accessed::ScratchMemory;

    /// Pages of the child's memory.
    const PAGES: usize = 1 << 16;
    /// In a large part of it there is a page here and there only.
    const SPARSE: usize = 1 << 13;

    /// A child process that uses pages by a pattern when it is told to.
    struct Child {
        pid: libc::pid_t,
        orders: File,
        answers: File,
        /// The number of the first of its pages.
        first: u64,
    }

    impl Child {
        fn start() -> Self {
            let (orders_here, orders) = pipe();
            let (answers, answers_here) = pipe();
            // SAFETY: the child maps memory, reads and writes, and ends, and does nothing else.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // It ends with this process.
                drop((orders, answers));
                serve(orders_here, answers_here);
            }
            assert!(pid > 0, "{}", io::Error::last_os_error());
            let (orders, mut answers) = (File::from(orders), File::from(answers));
            let mut word = [0; 8];
            answers.read_exact(&mut word).unwrap();
            Self { pid, orders, answers, first: u64::from_ne_bytes(word) / PAGE_BYTES }
        }

        /// Has it use the pages of a pattern, and returns them.
        fn touch(&mut self, seed: u64) -> Vec<u64> {
            self.orders.write_all(&seed.to_ne_bytes()).unwrap();
            self.answers.read_exact(&mut [0; 8]).unwrap();
            let pages = pattern(seed);
            (0..PAGES).filter(|&page| pages[page]).map(|page| self.first + page as u64).collect()
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: a child of this process, which has not been waited for.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            }
        }
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        let (read, write) = io::pipe().unwrap();
        (read.into(), write.into())
    }

    /// Half of the pages, and fewer at the end.
    fn pattern(seed: u64) -> Vec<bool> {
        let mut random = SplitMix64::new(seed);
        (0..PAGES).map(|page| random.below(if page < PAGES - SPARSE { 2 } else { 200 }) == 0).collect()
    }

    fn serve(orders: OwnedFd, answers: OwnedFd) -> ! {
        let read = |word: &mut [u8; 8]| {
            // SAFETY: reads into an array of this size.
            (unsafe { libc::read(orders.as_raw_fd(), word.as_mut_ptr().cast(), 8) }) == 8
        };
        let write = |word: usize| {
            // SAFETY: writes from a word of this size.
            unsafe { libc::write(answers.as_raw_fd(), (&raw const word).cast(), 8) };
        };
        if let Ok(memory) = ScratchMemory::map(PAGES) {
            let at = |page: usize| memory.start + page * PAGE_BYTES as usize;
            (0..PAGES).for_each(|page| memory.write(at(page), 1));
            write(memory.start);
            let mut word = [0; 8];
            while read(&mut word) {
                // Listed first: a processor that guesses a branch wrong uses a page that it should
                // not.
                let pattern = pattern(u64::from_ne_bytes(word));
                let used: Vec<usize> = (0..PAGES).filter(|&page| pattern[page]).collect();
                used.iter().for_each(|&page| memory.write(at(page), 2));
                write(0);
            }
        }
        // SAFETY: ends the child, without what a program does when it ends.
        unsafe { libc::_exit(0) }
    }

    /// `None` where it is not permitted.
    fn observe(process: u32) -> Option<Observer> {
        match Observer::of(process) {
            Err(error @ (WatchError::Root | WatchError::Bits(_))) => {
                let need = if matches!(error, WatchError::Root) { Need::Root } else { Need::Bpf };
                skip(need, error);
                None
            }
            observer => Some(observer.unwrap()),
        }
    }

    fn look(observer: &mut Observer) -> Look {
        match observer.look().unwrap() {
            Seen::Look(look) => look,
            other => panic!("{other:?}"),
        }
    }

    /// A million pages, used or not by a pattern that the test knows: none is missed, and none is
    /// told that was not used.
    #[test]
    fn pages_are_those_that_a_process_has_used() {
        let mut child = Child::start();
        let Some(mut observer) = observe(child.pid as u32) else { return };
        look(&mut observer);
        let range = child.first..child.first + PAGES as u64;
        let (mut looked_at, mut unused, mut lost) = (0, Vec::new(), Vec::new());
        for round in 0..16 {
            let expected = child.touch(round);
            let look = look(&mut observer);
            let seen = look.pages.iter().map(|page| page.number).filter(|number| range.contains(number));
            let seen: std::collections::BTreeSet<u64> = seen.collect();
            let expected = expected.into_iter().collect();
            unused.extend(seen.difference(&expected).map(|&page| (round, page)));
            lost.extend(expected.difference(&seen).map(|&page| (round, page)));
            looked_at += PAGES;
            assert!(look.resident_pages >= PAGES as u64);
            assert!(look.pages.iter().filter(|page| range.contains(&page.number)).all(|page| page.dirty));
            let mapping = observer.mappings().iter().find(|mapping| mapping.pages.contains(&child.first));
            let mapping = mapping.unwrap();
            assert!(mapping.resident_pages >= PAGES as u64 && mapping.used_pages >= seen.len() as u64);
        }
        assert_eq!((looked_at, unused), (1 << 20, Vec::new()), "{lost:?} lost");
        assert!(lost.len() < 200, "{lost:?}");
    }

    /// What another process has mapped cannot be cleared, and says nothing.
    #[test]
    fn shared_pages_are_unknown() {
        let child = Child::start();
        let Some(mut observer) = observe(child.pid as u32) else { return };
        // The child shares its code, its stacks and the test's heap with this process.
        look(&mut observer);
        let second = look(&mut observer);
        assert!(second.unknown_pages > 0);
        assert!(second.pages.len() < 100, "{:?}", second.pages.len());
    }

    /// A page here and there in 64 GiB: the tables between are there and empty. Whoever went
    /// through them in steps of 2 MiB would take 32,768.
    #[test]
    fn a_walk_passes_over_holes() {
        const GIB: u64 = 1 << 30;
        const PLACES: u64 = 64;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let (length, protection) = ((PLACES * GIB) as usize, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let pages: Vec<u64> =
            (0..PLACES).map(|place| start as u64 + place * GIB + (place % 3) * 5000).collect();
        // SAFETY: within the mapping.
        pages.iter().for_each(|&page| unsafe { std::ptr::write_volatile(page as *mut u8, 1) });
        let Some(mut observer) = observe(std::process::id()) else { return };
        let look = look(&mut observer);
        let seen: std::collections::BTreeSet<u64> = look.pages.iter().map(|page| page.number).collect();
        // SAFETY: nothing refers to it any more.
        unsafe { libc::munmap(start, length) };
        assert!(pages.iter().all(|page| seen.contains(&(page / PAGE_BYTES))));
        // Tables of other tests are in it, too.
        let steps = length as u64 >> 21;
        assert!((PLACES..steps / 4).contains(&look.calls), "{}", look.calls);
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let child = Child::start();
        let Some(mut observer) = observe(child.pid as u32) else { return };
        look(&mut observer);
        drop(child);
        assert!(matches!(observer.look().unwrap(), Seen::Ended));
    }

    #[test]
    fn words_and_ranges_of_bits_are_taken_apart() {
        assert_eq!(bits(1 | 1 << 17 | 1 << 63).collect::<Vec<_>>(), [0, 17, 63]);
        let mut mask = Mask::default();
        (mask[0], mask[7]) = (2, 1 << 63);
        assert_eq!(pages_of(3, &mask).collect::<Vec<_>>(), [3 * 512 + 1, 3 * 512 + 511]);
    }
}
