//! Answers faults, moves pages and finds them again, in the test's own memory.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::thread;
use sweephand_checks::{Need, skip};
use sweephand_uffd::{
    EVENT_REMOVE, Event, MOVE, Message, OpenError, PAGE_BYTES, Region, Userfaultfd, scan_present,
};

fn map(pages: usize) -> usize {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let area =
        unsafe { mmap_anonymous(std::ptr::null_mut(), pages * PAGE_BYTES, protection, MapFlags::PRIVATE) };
    area.unwrap() as usize
}

/// Where it is not allowed there is nothing to test; that much is said.
fn open_or_say(features: u64) -> Option<Userfaultfd> {
    match Userfaultfd::open(features) {
        Ok(uffd) => Some(uffd),
        Err(OpenError::NotPermitted | OpenError::NotSupported) => {
            skip(Need::Userfaultfd, "userfaultfd with these features");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

fn next_event(uffd: &Userfaultfd) -> Event {
    let mut buffer = [Message::EMPTY; 4];
    loop {
        if uffd.read(&mut buffer).unwrap() > 0 {
            return buffer[0].event().unwrap();
        }
        thread::yield_now();
    }
}

fn byte(address: usize) -> u8 {
    // SAFETY: within an area that `map` made.
    unsafe { std::ptr::read_volatile(address as *const u8) }
}

fn fill(address: usize, value: u8) {
    // SAFETY: within an area that `map` made.
    unsafe { std::ptr::write_bytes(address as *mut u8, value, PAGE_BYTES) };
}

#[test]
fn a_fault_is_told_and_answered_by_a_copy() {
    let Some(uffd) = open_or_say(0) else { return };
    let (area, source) = (map(4), map(1));
    fill(source, 42);
    uffd.register(area, 4 * PAGE_BYTES).unwrap();
    let reader = thread::spawn(move || byte(area + 2 * PAGE_BYTES + 100));
    let Event::Fault { address } = next_event(&uffd) else { panic!("no fault") };
    assert_eq!(address & !(PAGE_BYTES - 1), area + 2 * PAGE_BYTES);
    // SAFETY: areas of this test.
    let progress = unsafe { uffd.copy(area + 2 * PAGE_BYTES, source, PAGE_BYTES) };
    assert_eq!((progress.bytes, progress.error), (PAGE_BYTES, None));
    assert_eq!(reader.join().unwrap(), 42);
    // SAFETY: as above.
    let again = unsafe { uffd.copy(area + 2 * PAGE_BYTES, source, PAGE_BYTES) };
    assert_eq!(again.error, Some(Errno::EXIST));
    assert!(!uffd.is_changing());
}

#[test]
fn pages_move_and_leave_nothing_behind() {
    let Some(uffd) = open_or_say(MOVE) else { return };
    let (area, elsewhere) = (map(8), map(8));
    uffd.register(elsewhere, 8 * PAGE_BYTES).unwrap();
    (0..8).for_each(|page| fill(area + page * PAGE_BYTES, page as u8 + 1));
    // SAFETY: areas of this test.
    let progress = unsafe { uffd.move_pages(elsewhere, area + 2 * PAGE_BYTES, 3 * PAGE_BYTES) };
    assert_eq!((progress.bytes, progress.error), (3 * PAGE_BYTES, None));
    assert!((0..3).all(|page| byte(elsewhere + page * PAGE_BYTES) == page as u8 + 3));
    let pagemap = open(c"/proc/self/pagemap", OFlags::RDONLY, Mode::empty()).unwrap();
    let mut found = [Region { start: 0, end: 0, categories: 0 }; 4];
    let (count, to) = scan_present(&pagemap, area, area + 8 * PAGE_BYTES, &mut found).unwrap();
    let found: Vec<_> = found[..count].iter().map(|run| (run.start as usize, run.end as usize)).collect();
    let (first, second) = (area + 2 * PAGE_BYTES, area + 5 * PAGE_BYTES);
    assert_eq!((found, to), (vec![(area, first), (second, area + 8 * PAGE_BYTES)], area + 8 * PAGE_BYTES));
    // From where nothing is, nothing moves.
    // SAFETY: as above.
    let nothing = unsafe { uffd.move_pages(elsewhere + 4 * PAGE_BYTES, first, PAGE_BYTES) };
    assert_eq!(nothing.error, Some(Errno::NOENT));
}

#[test]
fn contents_dropped_are_told_before_they_are() {
    let Some(uffd) = open_or_say(EVENT_REMOVE) else { return };
    let area = map(4);
    fill(area, 9);
    uffd.register(area, 4 * PAGE_BYTES).unwrap();
    let dropper = thread::spawn(move || {
        // SAFETY: an area of this test.
        unsafe { madvise(area as *mut _, 2 * PAGE_BYTES, Advice::LinuxDontNeed) }
    });
    while !uffd.is_changing() {
        thread::yield_now();
    }
    assert_eq!(byte(area), 9, "dropped before it was told");
    assert_eq!(next_event(&uffd), Event::Remove { start: area, end: area + 2 * PAGE_BYTES });
    dropper.join().unwrap().unwrap();
    while uffd.is_changing() {
        thread::yield_now();
    }
}
