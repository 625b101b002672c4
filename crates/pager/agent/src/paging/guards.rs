//! Guards: pages that end a thread that touches them with a SIGSEGV, though they are mapped
//! (`MADV_GUARD_INSTALL`). C libraries put them at the ends of stacks.
//!
//! Installing a guard drops the page's contents, and the page reads as zeros when the guard is
//! removed. The kernel sends userfaultfd no event for either call, and `UFFDIO_COPY` overwrites a
//! guard. So the agent makes these calls for the program. It then knows which pages it must not
//! fill and which contents it may forget. Such a page is in [`State::Guarded`].
//!
//! The agent does not see guards that a program installs by bare system calls. So it asks the
//! kernel for guards before it fills pages that no thread waits for. (A page that a thread waits
//! for has no guard, or the thread would not wait.) One case is left: if a program installs and
//! removes a guard and the agent fills nothing there in between, the page's old contents come back.
//!
//! The same goes for poisoned pages. A thread that touches one gets a SIGBUS, and `UFFDIO_COPY`
//! overwrites the poison. The agent poisons pages that it cannot read back ([`State::Lost`]), and
//! forgets them with memory that the program pages itself for a while (`ceded`). The program, or
//! the kernel after an error of a swap device, may have poisoned others. The kernel lists poisoned
//! pages and guards as swapped out, so zeros are filled ahead up to the next such page only. An
//! agent that may not ask the kernel fills nothing ahead once it has lost a page.
//!
//! The kernel lists guards as guards from Linux 6.15 on. Linux 6.13 and 6.14 have guards and do not
//! list them so: there the agent refuses the call, as older kernels do.

use crate::kernel::syscall::{advise, refused};
use crate::kernel::{GUARD, PAGE_BYTES, SWAPPED};
use crate::paging::changes::{catch_up, drop_contents};
use crate::paging::pager::Pager;
use crate::process::pagemap::NOTHING;
use crate::state::pages::State;
use crate::state::regions::Regions;
use alloc::vec::Vec;
use linux_raw_sys::general::{MADV_GUARD_INSTALL, MADV_GUARD_REMOVE};
use rustix::io::Errno;
use sweephand_policy::PageId;

/// Whether an advice of `madvise` is about guards.
pub(crate) fn is_about_guards(advice: u32) -> bool {
    matches!(advice, MADV_GUARD_INSTALL | MADV_GUARD_REMOVE)
}

/// `madvise` about guards, for the program. With any other advice it only looks which guards there
/// are. The answer is that of the system call.
pub(crate) fn guard(pager: &mut Pager, start: usize, length: usize, advice: u32) -> isize {
    let end = start.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE_BYTES));
    let end = end.filter(|&end| pager.memory.managed && end > start);
    let is_refused = start.is_multiple_of(PAGE_BYTES)
        && pager.program.pagemap.of(GUARD, start, start + PAGE_BYTES, &mut [NOTHING]) == Err(Errno::INVAL);
    if is_refused {
        return refused(Errno::INVAL);
    }
    if pager.memory.managed {
        // Changes at this address that came before must be known before what comes after.
        catch_up(pager);
    }
    if let Some(end) = end.filter(|_| advice == MADV_GUARD_REMOVE) {
        // Where there is one that has not been seen, nothing is left of what was there.
        look_for_guards(pager, start, end);
    }
    let result = match is_about_guards(advice) {
        // SAFETY: what the program asks for.
        true => unsafe { advise(start, length, advice) },
        false => 0,
    };
    if let Some(end) = end {
        // Some of it may have been done where not all could be.
        let guarded = guards_in(pager, start, end).unwrap_or_else(|| {
            let mut guarded = Regions::new();
            if result == 0 && advice == MADV_GUARD_INSTALL {
                guarded.add(start, end);
            }
            guarded
        });
        note_guards(pager, start, end, &guarded);
    }
    result
}

/// The guards in a range, where the kernel lists them.
fn guards_in(pager: &Pager, start: usize, end: usize) -> Option<Regions> {
    let mut guarded = Regions::new();
    let mut from = start;
    while from < end {
        let mut found = [NOTHING; 32];
        let (count, to) = pager.program.pagemap.of(GUARD, from, end, &mut found).ok()?;
        found[..count].iter().for_each(|run| guarded.add(run.start as usize, run.end as usize));
        from = to.max(from + PAGE_BYTES);
    }
    Some(guarded)
}

/// Takes note of the guards in a range, and of those that are there no more.
pub(crate) fn look_for_guards(pager: &mut Pager, start: usize, end: usize) {
    if let Some(guarded) = guards_in(pager, start, end) {
        note_guards(pager, start, end, &guarded);
    }
}

/// Pages of a range are about to be put back, for which no thread need wait. Takes note of guards
/// that the program has installed there unseen.
pub(crate) fn look_for_new_guards(pager: &mut Pager, start: usize, end: usize) {
    if let Some(guarded) = guards_in(pager, start, end).filter(|guarded| guarded.iter().next().is_some()) {
        note_guards(pager, start, end, &guarded);
    }
}

fn note_guards(pager: &mut Pager, start: usize, end: usize, guarded: &Regions) {
    for (start, end) in guarded.gaps(start, end) {
        pager.memory.forget_guards(start, end);
    }
    for (start, end) in guarded.iter().collect::<Vec<_>>() {
        // Memory that is left to the kernel goes unreported, and guards with it.
        for (start, end) in pager.memory.managed_parts(start, end) {
            drop_contents(pager, start, end);
            for address in (start..end).step_by(PAGE_BYTES) {
                let page = pager.memory.pages.find_or_insert(address);
                pager.memory.pages.set(page, State::Guarded);
            }
        }
    }
}

/// `count` pages are about to be filled from an address on. Returns how many of them come before
/// the next guard or poisoned page. The first page is neither.
pub(crate) fn before_next_marker(pager: &mut Pager, address: usize, count: usize) -> usize {
    let (start, end) = (address + PAGE_BYTES, address + count * PAGE_BYTES);
    let mut found = [NOTHING];
    if count < 2 {
        return count;
    }
    match pager.program.pagemap.of(SWAPPED, start, end, &mut found) {
        Ok((0, _)) => count,
        Ok(_) => {
            look_for_guards(pager, start, end);
            (found[0].start as usize - address) / PAGE_BYTES
        }
        Err(_) if pager.memory.has_lost => 1,
        Err(_) => count,
    }
}

/// A thread waits for a page where a guard is thought to be. If it has been removed, the page is
/// absent. Returns whether it has.
pub(crate) fn is_unguarded(pager: &mut Pager, page: PageId) -> bool {
    let address = pager.memory.pages.address(page);
    let found = pager.program.pagemap.of(GUARD, address, address + PAGE_BYTES, &mut [NOTHING]);
    let is_there = matches!(found, Ok((1.., _)));
    if !is_there {
        pager.memory.pages.set(page, State::Absent);
    }
    !is_there
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults;
    use crate::process::own;
    use crate::testing::{at, pager};

    #[test]
    fn a_guard_drops_what_was_there_and_leaves_nothing_behind() {
        let (mut pager, _) = pager();
        (0..4).for_each(|number| faults::answer(&mut pager, at(number)));
        let mut guarded = Regions::new();
        guarded.add(at(1), at(3));
        note_guards(&mut pager, at(0), at(4), &guarded);
        let state = |pager: &Pager, number| pager.memory.pages.state_at(at(number));
        assert_eq!(
            [0, 1, 2, 3].map(|number| state(&pager, number) == State::Guarded),
            [false, true, true, false]
        );
        // Guards that are there no more leave absent pages.
        note_guards(&mut pager, at(0), at(4), &Regions::new());
        assert_eq!([1, 2].map(|number| state(&pager, number)), [State::Absent; 2]);
        // Memory that is not managed has no guards that are known.
        pager.memory.regions.remove(at(2), at(4));
        note_guards(&mut pager, at(0), at(4), &guarded);
        assert_eq!([1, 2].map(|number| state(&pager, number)), [State::Guarded, State::Absent]);
    }

    /// The agent need not know of the poison: here it is the program's own.
    #[test]
    fn no_page_is_filled_ahead_beyond_a_poisoned_one_or_a_guard() {
        const PAGES: usize = 6;
        let Ok(uffd) = sweephand_uffd::Userfaultfd::open(0) else {
            return sweephand_checks::skip(sweephand_checks::Need::Userfaultfd, "userfaultfd");
        };
        let start = own::map(PAGES * PAGE_BYTES).unwrap();
        uffd.register(start, PAGES * PAGE_BYTES).unwrap();
        let (mut pager, _) = pager();
        assert_eq!(before_next_marker(&mut pager, start, PAGES), PAGES);
        // SAFETY: this is a mapping of the test.
        let guarded = unsafe { advise(start + 4 * PAGE_BYTES, PAGE_BYTES, MADV_GUARD_INSTALL) };
        let before_guard = if guarded == 0 { 4 } else { PAGES };
        assert_eq!(before_next_marker(&mut pager, start, PAGES), before_guard);
        uffd.poison(start + 2 * PAGE_BYTES, PAGE_BYTES).unwrap();
        assert_eq!(before_next_marker(&mut pager, start, PAGES), 2);
        assert_eq!(before_next_marker(&mut pager, start, 2), 2);
    }

    #[test]
    fn advice_about_guards_is_known() {
        assert!(is_about_guards(MADV_GUARD_INSTALL) && is_about_guards(MADV_GUARD_REMOVE));
        assert!(!is_about_guards(linux_raw_sys::general::MADV_DONTNEED));
    }
}
