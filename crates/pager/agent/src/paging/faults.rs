//! Faults: what the agent does for a thread that waits for a page.

use crate::choice::exact_bits::Queue;
use crate::control::add;
use crate::kernel::PAGE_BYTES;
use crate::paging::changes::{catch_up, vanished};
use crate::paging::evict::clear_queued;
use crate::paging::guards::{before_next_marker, is_unguarded};
use crate::paging::lifecycle::{arrive, came_in, spare};
use crate::paging::pager::Pager;
use crate::paging::reclaim::make_room;
use crate::paging::transfer::{self, Need, map_from_limbo, may_read};
use crate::process::failure::abort;
use crate::process::own::Retry;
use crate::state::pages::{Flag, State, page_start};
use alloc::vec::Vec;
use rustix::io::Errno;
use sweephand_pager_interface::readahead::{Course, Run, foresees};
use sweephand_policy::PageId;

/// Answers a thread that waits for the page at this address.
pub(crate) fn answer(pager: &mut Pager, address: usize) {
    // The accesses that earlier faults were for have been made. Their bits are cleared before the
    // thread goes on, or a touch behind this fault would be lost: while the page is read, or first
    // if it is not.
    let made = pager.anon.queues().map_or(0, |queues| queues.count(Queue::Awaited));
    let is_read = pager.memory.pages.is_stored_at(page_start(address));
    let (before, after) = if is_read { (0, made) } else { (made, 0) };
    clear_queued(pager, Queue::Awaited, before);
    bring(pager, page_start(address));
    clear_queued(pager, Queue::Awaited, after);
}

/// Brings a page that a thread waits for.
fn bring(pager: &mut Pager, address: usize) {
    let page = pager.memory.pages.find_or_insert(address);
    if pager.memory.pages.state(page) == State::Guarded && !is_unguarded(pager, page) {
        return pager.program.wake(address);
    }
    let counters = &pager.control.counters;
    match pager.memory.pages.state(page) {
        State::Absent | State::Guarded => {
            add(&counters.faults, 1);
            add(&counters.zero_fill_faults, 1);
            zero_fill(pager, address);
        }
        State::Stored(_) => {
            add(&counters.faults, 1);
            add(&counters.refaults, 1);
            refault(pager, address);
        }
        State::Pooled(_) => {
            add(&counters.faults, 1);
            add(&counters.refaults, 1);
            take_back(pager, page, address);
        }
        State::Writing(_) => {
            add(&counters.faults, 1);
            add(&counters.refaults, 1);
            add(&counters.refaults_in_flight, 1);
            take_back(pager, page, address);
        }
        State::Limbo { .. } => {
            add(&counters.rescues, 1);
            rescue(pager, page, address);
        }
        // The thread is woken when the read is done.
        State::Reading(place) => {
            add(&counters.faults, 1);
            transfer::is_needed(pager, place);
            if pager.memory.pages.mark(page, Flag::Trigger, false) {
                let run = pager.disk.ahead.fault(address / PAGE_BYTES);
                read_on(pager, address, run);
            }
        }
        State::Resident { .. } | State::Pinned => check_presence(pager, page, address),
        State::Lost => refuse(pager, page, address),
    }
}

/// A thread has come to a page whose contents are lost before the page was poisoned. It gets a
/// SIGBUS when it tries again. (If zeros were put there, they would be there in place of the
/// poison.)
///
/// Ends: AGAIN lasts as long as the program changes its address space.
fn refuse(pager: &mut Pager, page: PageId, address: usize) {
    while pager.memory.is_still(page, address, State::Lost)
        && pager.program.uffd.poison(address, PAGE_BYTES) == Err(Errno::AGAIN)
    {
        catch_up(pager);
    }
    pager.program.wake(address);
}

/// Answers a fault on a page that the agent believes to be mapped. Mostly another thread's fault
/// has brought it in meanwhile. But the program may have dropped it in the moment before that was
/// reported: then it reads as zeros.
///
/// Ends: AGAIN lasts as long as the program changes its address space, and NOMEM is tried again as
/// `Retry` says.
fn check_presence(pager: &mut Pager, page: PageId, address: usize) {
    let mut retry = Retry::new();
    loop {
        // SAFETY: this copies zeros to a page that the program has dropped. If the page is present,
        // it does nothing.
        let progress = unsafe { pager.program.uffd.copy(address, pager.disk.staging.zeros(), PAGE_BYTES) };
        match progress.error {
            Some(Errno::AGAIN) => {
                catch_up(pager);
                if !pager.memory.is_thought_mapped(page, address) {
                    return pager.program.wake(address);
                }
            }
            None | Some(Errno::EXIST) => return pager.program.wake(address),
            // The kernel asks for memory before it looks whether the page is there.
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(Errno::NOMEM) => abort(format_args!("the system has run out of memory")),
            Some(_) => return vanished(pager, page),
        }
    }
}

/// Most pages of a window, however far the program goes through its memory in order.
fn most_at_once(pager: &Pager, window: usize) -> usize {
    window.min(pager.room() / 8).max(1)
}

/// Fills a page that was never touched with zeros. Also fills the pages behind it if the program
/// goes through its memory in order, upward.
fn zero_fill(pager: &mut Pager, address: usize) {
    let run = pager.disk.ahead.fault(address / PAGE_BYTES);
    let end = pager.memory.regions.end_of(address).unwrap_or(address + PAGE_BYTES);
    let window = if run.course == Course::Upward { run.window } else { 1 };
    let most = most_at_once(pager, window.min((end - address) / PAGE_BYTES));
    let count = absent(pager, address, most);
    pager.disk.ahead.expect(run, run.course.after(address / PAGE_BYTES, count));
    make_room(pager, count);
    // While this made room, something may have been moved there.
    match absent(pager, address, count) {
        0 => pager.program.wake(address),
        count => {
            let count = before_next_marker(pager, address, count);
            let has_grown = pager.memory.regions.end_of(address).is_none();
            fill(pager, address, count, has_grown);
        }
    }
}

/// How many pages are absent from an address on: `most` at most.
fn absent(pager: &Pager, address: usize, most: usize) -> usize {
    let is_absent =
        |&count: &usize| pager.memory.pages.state_at(address + count * PAGE_BYTES) == State::Absent;
    (0..most).take_while(is_absent).count()
}

/// Puts zeros at an address and behind it, where `count` pages are absent. `has_grown`: the range
/// may not be managed yet.
///
/// Ends: each turn deals with a page, finds fewer pages to fill, or waits as `Retry` says. AGAIN
/// lasts as long as the program changes its address space.
fn fill(pager: &mut Pager, address: usize, mut count: usize, has_grown: bool) {
    let (mut done, mut retry) = (0, Retry::new());
    while done < count {
        let at = address + done * PAGE_BYTES;
        let (zeros, length) = (pager.disk.staging.zeros(), (count - done) * PAGE_BYTES);
        // SAFETY: this copies zeros to pages that are missing where the program expects zeros.
        let progress = unsafe { pager.anon.put_in(&pager.program.uffd, at, zeros, length, done == 0) };
        let filled = match progress.error {
            None => progress.bytes / PAGE_BYTES,
            Some(Errno::AGAIN) => {
                catch_up(pager);
                // Something may have been moved there.
                count = done + absent(pager, at, count - done);
                if count == done {
                    pager.program.wake(at);
                }
                continue;
            }
            // It is not new: the program is about to drop it. (The kernel reports a drop a moment
            // before it happens. If it were paged out now, it would come back with old contents.)
            Some(Errno::EXIST) => {
                pager.program.wake(at);
                done += 1;
                continue;
            }
            Some(Errno::NOMEM) if retry.wait() => continue,
            Some(Errno::NOMEM) => abort(format_args!("the system has run out of memory")),
            // This page and those behind it have been unmapped meanwhile.
            Some(_) => return pager.program.wake(at),
        };
        // A registered range has grown by itself: a stack, or a mapping that was enlarged.
        // (Otherwise the copy would have failed, because the fault was older than a change.)
        if has_grown {
            pager.memory.regions.add(at, at + filled * PAGE_BYTES);
        }
        for index in done..done + filled {
            let page = pager.memory.pages.find_or_insert(address + index * PAGE_BYTES);
            pager.memory.pages.set(page, State::RESIDENT);
            pager.disk.page_comes(page);
            came_in(pager, page, index == 0);
        }
        done += filled;
    }
}

/// A thread has touched a page in limbo. The agent maps the page again and sets its reference bit.
/// If the program goes through its memory in order, upward, it does the same for the following
/// pages that are in limbo too.
fn rescue(pager: &mut Pager, page: PageId, address: usize) {
    let triggered = pager.memory.pages.mark(page, Flag::Trigger, false);
    let run = pager.disk.ahead.fault(address / PAGE_BYTES);
    let is_alone = pager.mode.hears_all() || run.course == Course::Downward;
    let most = if is_alone { 1 } else { run.window };
    let rescued = rescue_run(pager, page, most);
    for page in (page.0..page.0 + rescued as u32).map(PageId) {
        pager.memory.pages.mark(page, Flag::Referenced, true);
        spare(pager, page);
    }
    pager.disk.ahead.expect(run, run.course.after(address / PAGE_BYTES, rescued.max(1)));
    if triggered {
        read_on(pager, address, run);
    }
}

/// Maps a page in limbo again, with up to a window of its neighbours there. Returns how many.
fn rescue_run(pager: &mut Pager, page: PageId, window: usize) -> usize {
    let address = pager.memory.pages.address(page);
    let limbo = pager.limbo(page);
    let mut count = 1;
    while count < window {
        let next = PageId(page.0 + count as u32);
        let pages = &pager.memory.pages;
        if pages.find(address + count * PAGE_BYTES) != Some(next)
            || !pages.is_in_limbo(next)
            || pages.has(next, Flag::Trigger)
            || pager.limbo(next) != limbo + count * PAGE_BYTES
        {
            break;
        }
        count += 1;
    }
    debug_assert!(!pager.program.has_changes());
    // SAFETY: this moves the pages' own contents to where they belong.
    let progress = unsafe { pager.program.mover().give(address, limbo, count * PAGE_BYTES) };
    if progress.error.is_some() {
        // Try a single page and handle each error.
        return usize::from(map_from_limbo(pager, page));
    }
    let mapped = progress.bytes / PAGE_BYTES;
    for page in (page.0..page.0 + mapped as u32).map(PageId) {
        let kept = pager.memory.pages.state(page).kept();
        pager.memory.pages.set(page, State::Resident { kept });
    }
    mapped
}

/// A thread has touched a page that is on its way to the store, or compressed. The page comes back
/// from the staging area, or from the pool.
fn take_back(pager: &mut Pager, page: PageId, address: usize) {
    let run = pager.disk.ahead.fault(address / PAGE_BYTES);
    make_room(pager, 1);
    // Making room may have waited for the store, and may have turned the page out of the pool.
    match pager.memory.pages.state_at(address) {
        _ if pager.memory.pages.find(address) != Some(page) => pager.program.wake(address),
        State::Pooled(entry) => {
            if transfer::take_from_pool(pager, page, entry) {
                add(&pager.control.counters.pool_hits, 1);
                pager.disk.page_comes_back(page, true);
                pager.disk.page_comes(page);
                came_in(pager, page, true);
            }
            if foresees(run.window) {
                read_on(pager, address, run);
            }
        }
        State::Writing(place) => {
            if transfer::take_back(pager, page, place) {
                pager.disk.page_comes_back(page, false);
                arrive(pager, page);
            }
        }
        State::Stored(_) => refault(pager, address),
        _ => pager.program.wake(address),
    }
}

/// A thread has touched a page in the store.
fn refault(pager: &mut Pager, address: usize) {
    let run = pager.disk.ahead.fault(address / PAGE_BYTES);
    let Some(next) = read(pager, address, run, Need::Now) else {
        // The page's state has changed while the agent made room.
        debug_assert!(!pager.memory.pages.is_stored_at(address));
        return pager.program.wake(address);
    };
    if foresees(run.window) {
        read_behind(pager, next, run);
    } else {
        pager.disk.ahead.expect(run, next);
        if run.window == 1 {
            read_around(pager, address);
        }
    }
}

/// Starts to read neighbours of a page that is being read.
fn read_around(pager: &mut Pager, address: usize) {
    let window = pager.disk.around.fault(address / PAGE_BYTES, pager.room());
    let most = most_at_once(pager, window.len().min(pager.disk.staging.batch_pages()));
    pager.disk.ahead.set_latest_window(most);
    let neighbours = window.map(|page_number| page_number * PAGE_BYTES);
    let stored = neighbours.filter(|&address| pager.memory.pages.is_stored_at(address));
    let stored: Vec<usize> = stored.take(most).collect();
    if !stored.is_empty() && may_read(pager, Need::Around) {
        make_room(pager, stored.len());
        transfer::start_read(pager, &stored, address, Need::Around);
    }
}

/// The program has reached the first page of a window that was read ahead. Now the next window is
/// read.
fn read_on(pager: &mut Pager, address: usize, run: Run) {
    read_behind(pager, run.course.after(address / PAGE_BYTES, 1), run);
}

/// Reads the window of a run that begins at this page or behind it, before a thread comes there.
fn read_behind(pager: &mut Pager, page_number: usize, run: Run) {
    let is_out = |&number: &usize| {
        let state = pager.memory.pages.state_at(number * PAGE_BYTES);
        matches!(state, State::Stored(_) | State::Pooled(_) | State::Absent)
    };
    let first = run.course.from(page_number, 2 * pager.disk.staging.batch_pages()).find(is_out);
    let first = first.unwrap_or(page_number);
    read(pager, first * PAGE_BYTES, run, Need::Soon);
    // There the first page is a trigger, or the run ends.
    pager.disk.ahead.expect(run, first);
}

/// Starts to read pages of the store along a run, from an address on, at most a window of them.
/// Passes over pages in memory. Returns the number of the page behind the last one; `None` if
/// nothing is read.
fn read(pager: &mut Pager, address: usize, run: Run, need: Need) -> Option<usize> {
    let most = most_at_once(pager, run.window.min(pager.disk.staging.batch_pages()));
    if !pager.memory.pages.is_stored_at(address) || !may_read(pager, need) {
        return None;
    }
    make_room(pager, most);
    let along = run.span(address / PAGE_BYTES).map(|number| number * PAGE_BYTES);
    let pages = &pager.memory.pages;
    let known = along.take_while(|&address| pages.state_at(address) != State::Absent);
    let mut addresses: Vec<usize> = known.filter(|&address| pages.is_stored_at(address)).take(most).collect();
    let last = *addresses.last()?;
    // Neighbours lie in the store, and are put in, in the order of their addresses.
    addresses.sort_unstable();
    let count = transfer::start_read(pager, &addresses, address, need);
    (count > 0).then(|| run.course.after(last / PAGE_BYTES, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::transfer::reap;
    use crate::store::pool::Pool;
    use crate::testing::{BATCH_PAGES, ROOM, at, pager, pager_with_pool};
    use alloc::vec::Vec;
    use core::sync::atomic::Ordering;
    use sweephand_pager_interface::readaround::ReadAround;
    use sweephand_policy::SplitMix64;

    /// Every page always has the contents that the program has written to it, and the program never
    /// has more pages than there is room.
    #[test]
    fn contents_survive_any_order_of_faults_drops_and_errors() {
        const PAGES: usize = 3 * ROOM;
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            // Every second time there is compressed memory for a third of what is paged out.
            let (mut pager, world) = if seed % 2 == 0 { pager() } else { pager_with_pool(1) };
            let mut expected = [0_u8; PAGES];
            // The most since the seed began: tests beside this one take the emergency reserve and
            // give it back.
            let mut room = 0;
            for _ in 0..2000 {
                room = room.max(pager.room());
                let number = random.below(PAGES as u64) as usize;
                match random.below(20) {
                    0 => {
                        crate::paging::changes::drop_contents(&mut pager, at(number), at(number + 1));
                        world.borrow_mut().drop_contents(at(number), at(number + 1));
                        expected[number] = 0;
                        continue;
                    }
                    1 => world.borrow_mut().errors.push_back(Errno::AGAIN),
                    2 => reap(&mut pager),
                    _ => {}
                }
                // The thread faults until the page is there.
                let mut tries = 0;
                while !world.borrow().mapped.contains_key(&at(number)) {
                    answer(&mut pager, at(number));
                    if tries > 0 {
                        reap(&mut pager);
                    }
                    tries += 1;
                    assert!(tries < 10, "seed {seed}: page {number} does not come");
                }
                assert_eq!(world.borrow().mapped[&at(number)], expected[number], "seed {seed}: {number}");
                expected[number] = random.below(256) as u8;
                world.borrow_mut().mapped.insert(at(number), expected[number]);
                assert!(pager.memory.pages.resident() <= room.max(pager.room()), "seed {seed}");
            }
            reap(&mut pager);
            assert_eq!(pager.memory.pages.resident(), world.borrow().mapped.len(), "seed {seed}");
            crate::paging::changes::drop_contents(&mut pager, at(0), at(PAGES));
            assert!(pager.disk.store.current_is_empty(), "seed {seed}: a slot is lost");
            let pooled = pager.disk.pool.as_ref().map_or(0, Pool::used_bytes);
            assert_eq!(pooled, 0, "seed {seed}: an entry is left");
            let counters = &pager.control.counters;
            let moved = [&counters.pool_hits, &counters.pool_written_back];
            let moved = moved.map(|counter| counter.load(Ordering::Relaxed));
            assert!(moved.iter().all(|&pages| (pages > 100) == (seed % 2 == 1)), "seed {seed}: {moved:?}");
        }
    }

    #[test]
    fn faults_are_counted_by_kind() {
        let (mut pager, world) = pager();
        (0..100).for_each(|number| answer(&mut pager, at(number)));
        reap(&mut pager);
        let counters = &pager.control.counters;
        let read = |counter: &core::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(
            [&counters.faults, &counters.zero_fill_faults, &counters.refaults].map(read),
            [100, 100, 0]
        );
        answer(&mut pager, at(0));
        assert_eq!(read(&counters.refaults), 1);
        // The second thread that comes to the page waits for the same read.
        answer(&mut pager, at(0));
        assert_eq!([&counters.faults, &counters.refaults, &counters.pages_read].map(read), [102, 1, 1]);
        reap(&mut pager);
        let mapped: Vec<usize> = world.borrow().mapped.keys().copied().collect();
        assert!(mapped.contains(&at(0)));
        assert_eq!(read(&counters.evictions), 100 + 1 - mapped.len() as u64);
    }

    /// Faults near each other, in an order that is no stream, make the window around them grow.
    #[test]
    fn pages_that_are_read_around_a_fault_find_room() {
        const PAGES: usize = 3 * ROOM;
        let (mut pager, world) = pager();
        pager.disk.around = ReadAround::new(BATCH_PAGES);
        // The most since the test began, as above.
        let (mut most_read, mut room) = (0, 0);
        for step in 0..20 * PAGES {
            let number = (step / 8 * 8 + step * 3 % 8) % PAGES;
            if world.borrow().mapped.contains_key(&at(number)) {
                continue;
            }
            room = room.max(pager.room());
            answer(&mut pager, at(number));
            most_read = most_read.max(pager.disk.incoming);
            assert!(pager.taken() <= room, "{} pages in room for {room}", pager.taken());
            reap(&mut pager);
        }
        assert!(most_read > 1, "nothing is read around a fault");
    }

    #[test]
    fn a_page_that_is_present_though_thought_to_be_absent_is_not_taken_for_new() {
        let (mut pager, world) = pager();
        world.borrow_mut().mapped.insert(at(0), 9);
        answer(&mut pager, at(0));
        assert_eq!(pager.memory.pages.state_at(at(0)), State::Absent);
        assert_eq!(world.borrow().mapped[&at(0)], 9);
    }

    #[test]
    fn a_range_that_has_grown_by_itself_is_managed() {
        let (mut pager, _) = pager();
        let beyond = at(1 << 20);
        assert_eq!(pager.memory.regions.end_of(beyond), None);
        answer(&mut pager, beyond);
        assert_eq!(pager.memory.regions.end_of(beyond), Some(beyond + PAGE_BYTES));
    }
}
