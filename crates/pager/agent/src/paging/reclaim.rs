//! Reclaim: makes room for pages. The policy chooses the victims. (If the command lends the frames,
//! it does: see `mode::lent`.)

use crate::kernel::clock;
use crate::kernel::{self, PAGE_BYTES};
use crate::paging::evict::{evict, unpin};
use crate::paging::lifecycle::condemn_some;
use crate::paging::pager::Pager;
use crate::paging::transfer::reap_one;
use crate::process::failure::abort;

/// How often to look for a victim in vain before giving up, with a pause before each try. Together
/// this takes at least a second, or as long as the least number of tries takes.
const MOST_VAIN_TRIES: usize = 100;
const LEAST_VAIN_TRIES: usize = 8;
const PAUSE_NS: i64 = 10_000_000;
const MOST_VAIN_MS: u64 = 1000;

/// Makes room for this many more pages, as the mode does it.
pub(crate) fn make_room(pager: &mut Pager, pages: usize) {
    pager.mode.make_room(pager, pages);
}

/// Makes room for this many more pages by evicting those that the policy chooses.
///
/// Ends: each turn evicts pages, pins pages (so that there are fewer candidates), completes a
/// request, or counts a try.
pub(crate) fn reclaim(pager: &mut Pager, pages: usize) {
    let (mut vain_tries, mut vain_since_ms) = (0, 0);
    loop {
        let room = pager.room();
        let wanted = (pager.taken() + pages).saturating_sub(room);
        if wanted == 0 {
            return;
        }
        // In vain, all pages are tried again, and many at a time.
        let batch = pager.disk.staging.batch_pages();
        condemn_some(pager, if vain_tries > 0 { batch } else { wanted.min(batch) });
        let is_choice_left = !pager.choice.condemned.is_empty();
        // Pages that turn out to be gone make room too.
        if evict(pager) > 0 || pager.taken() + pages < room + wanted {
            vain_tries = 0;
        } else if is_choice_left {
            // The pages that could not be moved are pinned now. Or pages were touched.
            continue;
        } else if pager.disk.incoming > 0 {
            reap_one(pager);
        } else if vain_tries < LEAST_VAIN_TRIES
            || vain_tries < MOST_VAIN_TRIES && clock::coarse_ms() < vain_since_ms + MOST_VAIN_MS
        {
            // None of the pages left could be moved. A device may have finished with some of them.
            if vain_tries == 0 {
                vain_since_ms = clock::coarse_ms();
            }
            vain_tries += 1;
            kernel::sleep(PAUSE_NS);
            unpin(pager, usize::MAX);
        } else {
            no_more_room(pager);
        }
    }
}

/// Ends the run, because nothing more can be evicted and there is still no room.
fn no_more_room(pager: &Pager) -> ! {
    let mib = |pages: usize| (pages * PAGE_BYTES).div_ceil(1 << 20);
    let others = pager.apart_pages().saturating_sub(pager.account.others()).saturating_sub(pager.own_pages());
    abort(format_args!(
        "the limit is too small: {} MiB of the program's memory cannot be paged out (locked, in use by a device, or not \
         both readable and writable), {} MiB are private pages of files, {} MiB shared memory, {} MiB page tables and the \
         like, {} MiB the pager's own; give it more with --memory",
        mib(pager.memory.pages.pinned()),
        mib(others),
        mib(pager.account.shared()),
        mib(pager.account.of_kernel()),
        mib(pager.own_pages()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults;
    use crate::testing::{at, pager};

    #[test]
    fn as_much_room_is_made_as_is_asked_for() {
        let (mut pager, _) = pager();
        (0..pager.room()).for_each(|number| faults::answer(&mut pager, at(number)));
        for pages in [1, 3, 8] {
            make_room(&mut pager, pages);
            assert!(pager.taken() + pages <= pager.room(), "{pages} pages");
        }
        let resident = pager.memory.pages.resident();
        make_room(&mut pager, 0);
        assert_eq!(pager.memory.pages.resident(), resident, "none is taken that need not be");
    }

    #[test]
    fn pages_that_cannot_be_moved_make_others_go() {
        let (mut pager, world) = pager();
        (0..pager.room()).for_each(|number| faults::answer(&mut pager, at(number)));
        world.borrow_mut().stuck.extend((0..5).map(at));
        make_room(&mut pager, 4);
        assert!(pager.taken() + 4 <= pager.room());
        assert!((0..5).all(|number| world.borrow().mapped.contains_key(&at(number))));
    }
}
