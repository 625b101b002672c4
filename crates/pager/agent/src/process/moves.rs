//! Moving pages, and finding out how many the kernel has moved.
//!
//! `UFFDIO_MOVE` moves a range in steps of many pages and says how many bytes it has moved. Since
//! Linux 6.18 that number can be too small. If a page's entry changes while a step begins (for
//! instance because the processor sets its accessed bit), the kernel tries that step again, but it
//! does not forget the error. It moves the pages of the step, does not count them, and tries the
//! step once more. Then it stops with `EEXIST`, because the pages are there already.
//!
//! ```text
//!   move A B C D E F    step 1: A B C moved, counted
//!                       step 2: D is touched: EAGAIN, again: D E F moved, not counted
//!                       step 2 again: EEXIST           the kernel says: 3 pages
//! ```
//!
//! An agent that believes this takes D, E and F for mapped, while they are in its staging area.
//! The program would find zeros. So whenever a call stops early, the agent looks in the pagemap. It
//! looks at the place that is its own: the other may be changed by the program meanwhile.

use crate::kernel::{Progress, Userfaultfd};
use crate::process::failure::abort;
use crate::process::pagemap::{NOTHING, Pagemap};

/// What it takes to move pages: the userfaultfd of their destination, and the pagemap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover<'a> {
    pub(crate) uffd: &'a Userfaultfd,
    pub(crate) pagemap: &'a Pagemap,
}

impl Mover<'_> {
    /// Moves pages to a place of the pager's own where pages are missing, and counts all that have
    /// moved: those that are there.
    ///
    /// # Safety
    /// As for [`Userfaultfd::move_pages`].
    pub(crate) unsafe fn take(self, to: usize, from: usize, length: usize) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.move_pages(to, from, length, |rest| self.first(to + length - rest, rest).missing) }
    }

    /// Moves pages away from a place of the pager's own where pages are present, and counts all
    /// that have moved: those that are not there any more. (The program may have moved or dropped
    /// them again already.)
    ///
    /// # Safety
    /// As for [`Userfaultfd::move_pages`].
    pub(crate) unsafe fn give(self, to: usize, from: usize, length: usize) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.move_pages(to, from, length, |rest| self.first(from + length - rest, rest).present) }
    }

    /// `uncounted` says how many bytes of the rest have moved too.
    unsafe fn move_pages(
        self,
        to: usize,
        from: usize,
        length: usize,
        uncounted: impl Fn(usize) -> usize,
    ) -> Progress {
        // SAFETY: as the caller promises.
        let progress = unsafe { self.uffd.move_pages(to, from, length) };
        let done = progress.bytes;
        if done == length {
            return progress;
        }
        let uncounted = uncounted(length - done);
        if uncounted == 0 {
            return progress;
        }
        // The kernel wakes only those who wait for pages that it counts.
        let _ = self.uffd.wake(to + done, uncounted);
        Progress { bytes: done + uncounted, error: None }
    }

    /// Where the first page of a range is present, and the first missing: bytes from the start.
    fn first(self, start: usize, length: usize) -> First {
        let mut found = [NOTHING];
        match self.pagemap.present(start, start + length, &mut found) {
            Ok((0, _)) => First { present: length, missing: 0 },
            Ok(_) if found[0].start == start as u64 => {
                First { present: 0, missing: found[0].end as usize - start }
            }
            Ok(_) => First { present: found[0].start as usize - start, missing: 0 },
            Err(error) => abort(format_args!("the pagemap cannot be read: {error}")),
        }
    }
}

/// See [`Mover::first`].
struct First {
    present: usize,
    missing: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{MOVE, PAGE_BYTES};
    use crate::process::own;
    use rustix::io::Errno;
    use rustix::mm::{Advice, madvise};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    const ROUNDS: usize = 10_000;
    /// Bytes to move by a call.
    const STEP: usize = 8 * PAGE_BYTES;

    /// Pages go to and fro while another thread clears accessed bits that this one has just set.
    /// Linux 6.18 tries some hundred of these steps again.
    #[test]
    fn pages_that_the_kernel_does_not_count_are_counted() {
        const PAGES: usize = 64;
        const BYTES: usize = PAGES * PAGE_BYTES;
        let Ok(uffd) = Userfaultfd::open(MOVE) else {
            return sweephand_checks::skip(sweephand_checks::Need::Userfaultfd, "userfaultfd that moves");
        };
        let areas = [own::map(BYTES).unwrap(), own::map(BYTES).unwrap()];
        // SAFETY: these are mappings of the test, and words in them.
        let word = |page: usize| unsafe { &*(page as *const AtomicUsize) };
        (0..BYTES).step_by(PAGE_BYTES).for_each(|page| word(areas[0] + page).store(page, Relaxed));
        areas.iter().for_each(|&area| uffd.register(area, BYTES).unwrap());
        let (pagemap, has_ended) = (Pagemap::open(), &AtomicBool::new(false));
        let mover = Mover { uffd: &uffd, pagemap: &pagemap };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Different lengths, so that the two threads do not fall into step.
                let mut lengths = (0..PAGES).map(|number| number * 29 % PAGES + 1).cycle();
                while let (false, Some(pages)) = (has_ended.load(Relaxed), lengths.next()) {
                    // SAFETY: this leaves the contents as they are.
                    unsafe { madvise(areas[0] as *mut _, pages * PAGE_BYTES, Advice::LinuxCold) }.unwrap();
                }
            });
            let wrong = (0..ROUNDS).find_map(|round| {
                let (from, to) = (areas[round % 2], areas[1 - round % 2]);
                let mut done = 0;
                while done < BYTES {
                    word(from + done).load(Relaxed);
                    let most = (BYTES - done).min(STEP);
                    // SAFETY: these are mappings of the test.
                    let progress = unsafe {
                        match round % 4 < 2 {
                            true => mover.take(to + done, from + done, most),
                            false => mover.give(to + done, from + done, most),
                        }
                    };
                    match progress.error {
                        None | Some(Errno::AGAIN) => done += progress.bytes,
                        error => return Some((round, done, error)),
                    }
                }
                (0..BYTES)
                    .step_by(PAGE_BYTES)
                    .find(|&page| word(to + page).load(Relaxed) != page)
                    .map(|page| (round, page, None))
            });
            has_ended.store(true, Relaxed);
            assert_eq!(wrong, None, "round, byte, error");
        });
    }
}
