//! A look finds the pages that a process has used, by a pattern that the test knows.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use sweephand_checks::{Need, skip, trying};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_policy::SplitMix64;
use sweephand_process::accessed::ScratchMemory;
use sweephand_watch::{Look, Observer, Seen, WatchError};

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
        let _input = trying(|| format!("round {round}"));
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
    let pages: Vec<u64> = (0..PLACES).map(|place| start as u64 + place * GIB + (place % 3) * 5000).collect();
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
