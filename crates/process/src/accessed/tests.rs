//! Bits of pages that were used by a pattern that the test knows.

use super::no_bits::NoBits;
use super::one_processor::OneProcessor;
use super::own_bits::AccessedBits;
use super::process_bits::ProcessBits;
use super::scratch::ScratchMemory;
use rustix::mm::Advice;
use rustix::thread::sched_setaffinity;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, ptr};
use sweephand_checks::{Need, skip};
use sweephand_pager_interface::accessed::GROUP_PAGES;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// One test at a time: a fork copies the memory of all, and the kernel clears no bit of a page
/// that two processes have.
static ALONE: Mutex<()> = Mutex::new(());

/// `None` where that is not permitted.
fn bits() -> Option<(MutexGuard<'static, ()>, AccessedBits)> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    match AccessedBits::load() {
        Err(NoBits::Program(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            skip(Need::Root, error);
            None
        }
        bits => Some((alone, bits.unwrap())),
    }
}

/// Runs a function in a child process, which then ends.
fn fork(function: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child writes to memory, waits and ends, and does nothing else.
    match unsafe { libc::fork() } {
        0 => {
            function();
            // SAFETY: ends the child, without what a program does when it ends.
            unsafe { libc::_exit(0) }
        }
        child => {
            assert!(child > 0, "{}", io::Error::last_os_error());
            child
        }
    }
}

fn wait_for(child: libc::pid_t) {
    // SAFETY: waits for a child of this process.
    let ended = unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    assert_eq!(ended, child);
}

/// A million pages, used or not by a pattern that the test knows, while another thread changes
/// the address space, and children use other pages of their copies. The kernel may clear some
/// bits meanwhile for its own purposes: a machine with DAMON on loses some ten of this million.
/// The pages that are used are listed before, because a processor that guesses a branch wrong
/// sets the bit of a page that is not.
#[test]
fn bits_are_those_of_the_pages_that_were_used() {
    const GROUPS: usize = 64;
    const ROUNDS: u64 = 256;
    let Some((_alone, bits)) = bits() else { return };
    let stay = OneProcessor::here().unwrap();
    let memory = ScratchMemory::map((GROUPS + 1) * GROUP_PAGES).unwrap();
    let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
    let at = |page: usize| start + page * PAGE_BYTES as usize;
    (0..GROUPS * GROUP_PAGES).for_each(|page| memory.write(at(page), 0));
    let mut random = sweephand_policy::SplitMix64::new(7);
    let (mut unused, mut lost, mut looked_at) = (0, 0, 0);
    let has_ended = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let everywhere = stay.before;
        scope.spawn(move || {
            let _ = sched_setaffinity(None, &everywhere);
            while !has_ended.load(Relaxed) {
                let other = ScratchMemory::map(700).unwrap();
                (0..700).for_each(|page| other.write(other.start + page * PAGE_BYTES as usize, 1));
            }
        });
        for round in 0..ROUNDS {
            memory.cool();
            let pattern: Vec<u64> = (0..GROUPS).map(|_| random.below(u64::MAX)).collect();
            let is_used = |page: &usize| pattern[page / GROUP_PAGES] >> (page % GROUP_PAGES) & 1 != 0;
            let used: Vec<usize> = (0..GROUPS * GROUP_PAGES).filter(is_used).collect();
            used.iter().for_each(|&page| memory.write(at(page), 1));
            if round % 16 == 0 {
                wait_for(fork(|| (0..GROUPS * GROUP_PAGES).for_each(|page| memory.write(at(page), 2))));
            }
            for (group, &expected) in pattern.iter().enumerate() {
                let seen = bits.query(at(group * GROUP_PAGES + group)).unwrap();
                unused += (seen & !expected).count_ones();
                lost += (expected & !seen).count_ones();
                looked_at += GROUP_PAGES;
            }
        }
        has_ended.store(true, Relaxed);
    });
    assert_eq!((unused, looked_at), (0, 1 << 20), "{lost} lost");
    assert!(lost < 200, "{lost} lost");
}

/// A huge page has one bit. It is told for each page of it, and clearing it leaves the page as
/// it is.
#[test]
fn a_huge_page_is_used_as_a_whole() {
    const HUGE_PAGES: usize = 512;
    let Some((_alone, bits)) = bits() else { return };
    let kinds = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !kinds.contains("[always]") && !kinds.contains("[madvise]") {
        return skip(Need::Machine, format_args!("transparent huge pages: {kinds}"));
    }
    let _stay = OneProcessor::here().unwrap();
    let memory = ScratchMemory::map(4 * HUGE_PAGES).unwrap();
    memory.advise(Advice::LinuxHugepage);
    let start = memory.start.next_multiple_of(HUGE_PAGES * PAGE_BYTES as usize);
    let at = |page: usize| start + page * PAGE_BYTES as usize;
    let seen = || -> Vec<u64> {
        (0..3 * HUGE_PAGES).step_by(GROUP_PAGES).map(|page| bits.query(at(page)).unwrap()).collect()
    };
    (0..3 * HUGE_PAGES).for_each(|page| memory.write(at(page), 1));
    let groups = HUGE_PAGES / GROUP_PAGES;
    assert_eq!(seen(), [u64::MAX; 3 * HUGE_PAGES / GROUP_PAGES]);
    memory.cool();
    assert_eq!(seen(), [0; 3 * HUGE_PAGES / GROUP_PAGES]);
    memory.write(at(HUGE_PAGES + 77), 2);
    let used: Vec<u64> =
        (0..3 * groups).map(|group| if group / groups == 1 { u64::MAX } else { 0 }).collect();
    assert_eq!(seen(), used);
}

/// The kernel clears no bit of a page that two processes have, and does again when one has
/// ended.
#[test]
fn pages_shared_since_a_fork_count_as_used() {
    let Some((_alone, bits)) = bits() else { return };
    let _stay = OneProcessor::here().unwrap();
    let memory = ScratchMemory::map(2 * GROUP_PAGES).unwrap();
    let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
    let at = |page: usize| start + page * PAGE_BYTES as usize;
    (0..GROUP_PAGES).for_each(|page| memory.write(at(page), 1));
    let (here, there) = io::pipe().unwrap();
    let child = fork(|| {
        let mut byte = [0; 1];
        // SAFETY: reads a byte, or the end of the pipe when the parent has gone.
        unsafe {
            libc::close(there.as_raw_fd());
            libc::read(here.as_raw_fd(), byte.as_mut_ptr().cast(), 1)
        };
    });
    // Its own copies, of two pages.
    memory.write(at(3), 2);
    memory.write(at(17), 2);
    memory.cool();
    let shared = bits.query(start).unwrap();
    drop(there);
    wait_for(child);
    memory.cool();
    assert_eq!((shared, bits.query(start).unwrap()), (!(1 << 3 | 1 << 17), 0));
}

/// The command sees of another process, here itself, what that process would see.
#[test]
fn bits_of_a_process_are_those_that_it_sees_itself() {
    let (Some((_alone, bits)), Ok(of_process)) = (bits(), ProcessBits::load()) else { return };
    let memory = ScratchMemory::map(2 * GROUP_PAGES).unwrap();
    let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
    for page in [0, 3, 17, 63] {
        memory.write(start + page * PAGE_BYTES as usize, 1);
    }
    let seen = of_process.query(std::process::id(), start as u64).unwrap();
    assert_eq!(seen, 1 | 1 << 3 | 1 << 17 | 1 << 63);
    assert_eq!(seen, bits.query(start).unwrap());
    // There is no process with this number.
    assert!(of_process.query(i32::MAX as u32, start as u64).is_err());
}

#[test]
fn what_is_not_mapped_was_not_used_and_the_kernels_memory_is_not_told() {
    let Some((_alone, bits)) = bits() else { return };
    let memory = ScratchMemory::map(1).unwrap();
    let start = memory.start;
    drop(memory);
    let _ = bits.query(start).unwrap();
    assert_eq!(bits.query(0).unwrap(), 0);
    assert_eq!(bits.query(0xffff_8880_0000_0000_u64 as usize).unwrap(), 0);
}
