//! Eviction: condemned pages leave memory, a batch at a time, and others are unmapped to see
//! whether they are in use.
//!
//! The agent moves the victims to a batch of the staging area, which is written while the program
//! runs. A page that cannot be moved becomes pinned and leaves the policy until it is tried again.

use crate::changes::{block_moves, vanished};
use crate::choose::{arrive, came_in, withdraw};
use crate::control::add;
use crate::exact_bits::Queue;
use crate::failure::give_up;
use crate::kernel::{self, PAGE_BYTES};
use crate::mailbox::MAILBOX;
use crate::own::Retry;
use crate::pages::{Flag, State};
use crate::rooms::Rooms;
use crate::staging::{Phase, drop_pages, move_all_own};
use crate::transfer::{start_write, take_batch};

use alloc::vec::Vec;
use rustix::io::Errno;
use sweephand_policy::PageId;

/// The most pages to unmap for each evicted page, to see whether they are in use.
const SAMPLED_PER_EVICTION: usize = 4;
/// How many pages to evict at a time for each page of the window for which the program waits. This
/// many can be evicted while the window is read.
const EVICTED_PER_PAGE_READ: usize = 16;

/// Evicts condemned pages if there are enough of them for a write.
pub(crate) fn evict_batch(rooms: &mut Rooms) {
    let enough = EVICTED_PER_PAGE_READ * rooms.disk.ahead.latest_window();
    if rooms.choice.condemned.len() >= enough.min(rooms.disk.staging.batch_pages()) {
        evict(rooms);
    }
}

/// Evicts condemned pages, up to a batch. Returns how many.
pub(crate) fn evict(rooms: &mut Rooms) -> usize {
    let count = rooms.choice.condemned.len().min(rooms.disk.staging.batch_pages());
    let batch = take_batch(rooms, |rooms| rooms.disk.staging.take_empty());
    rooms.disk.staging.batches[batch].phase = Phase::Writing;
    block_moves(rooms);
    let mut victims = rooms.choice.take_condemned(&rooms.memory, count);
    spare_touched(rooms, &mut victims);
    // The pages go in address order, whatever the policy's order. So one call moves neighbours, and
    // one request reads them back.
    victims.sort_unstable_by_key(|&page| rooms.memory.pages.address(page));
    let (mut next, mut clean) = (0, 0);
    while next < victims.len() {
        let (taken, taken_clean) = take_out(rooms, &victims[next..], batch);
        next += taken;
        clean += taken_clean;
    }
    sample(rooms, SAMPLED_PER_EVICTION * count);
    clear_queued(rooms, Queue::Cleared, usize::MAX);
    MAILBOX.allow_moves();
    let to_write = rooms.disk.staging.batches[batch].pages.len();
    let evicted = to_write + clean;
    rooms.account.moved(evicted);
    // The counters change together and before the write, because the program may end at any time.
    add(&rooms.control.counters.evictions, evicted as u64);
    add(&rooms.control.counters.pages_written, to_write as u64);
    add(&rooms.control.counters.clean_evictions, clean as u64);
    match to_write {
        0 => rooms.disk.staging.batches[batch].phase = Phase::Free,
        _ => start_write(rooms, batch),
    }
    if evicted > 0 && rooms.memory.pages.pinned() > 0 {
        unpin(rooms, 1);
    }
    evicted
}

/// Takes those out of the victims that have been touched since the policy gave them up, as far as
/// that can be read. To the policy they come in anew, as they would have if they had been gone
/// already.
fn spare_touched(rooms: &mut Rooms, victims: &mut Vec<PageId>) {
    let Some(queues) = rooms.anon.queues() else { return };
    queues.look_again();
    let (anon, pagemap, pages) = (&mut rooms.anon, &rooms.program.pagemap, &rooms.memory.pages);
    let mut is_touched = |page: PageId| {
        pages.has(page, Flag::Condemned)
            && pages.is_resident(page)
            && !pages.has(page, Flag::Queued)
            && anon.is_touched(pagemap, pages.address(page))
    };
    let touched: Vec<PageId> = victims.extract_if(.., |page| is_touched(*page)).collect();
    for page in touched {
        add(&rooms.control.counters.rescues, 1);
        rooms.memory.pages.mark(page, Flag::Condemned, false);
        came_in(rooms, page, true);
    }
}

/// Takes the first victim and its neighbours out of memory. They go to the end of a batch, unless
/// the store has their contents. Returns how many victims are dealt with, at least one, and how
/// many of them need no write.
fn take_out(rooms: &mut Rooms, victims: &[PageId], batch: usize) -> (usize, usize) {
    let first = victims[0];
    let Some(from) = address_in_memory(rooms, first) else { return (1, 0) };
    let has_slot = |rooms: &Rooms, page| rooms.memory.pages.state(page).kept().is_some();
    let is_compared = has_slot(rooms, first);
    let mut run = 1;
    while run < victims.len()
        && has_slot(rooms, victims[run]) == is_compared
        && address_in_memory(rooms, victims[run]) == Some(from + run * PAGE_BYTES)
    {
        run += 1;
    }
    let staging = &rooms.disk.staging;
    let to = match is_compared {
        true => staging.scales(),
        false => staging.address(batch, staging.batches[batch].pages.len()),
    };
    let is_mapped = rooms.memory.pages.is_resident(first);
    let (mut unshared, mut retry) = (false, Retry::new());
    // Ends: AGAIN lasts only while a fork copies the pager's own areas, and every other error is
    // met once or for as long as `Retry` says.
    let moved = loop {
        // SAFETY: these are pages of the program, which gets them back when it touches them. They
        // go to a place where pages are missing.
        let progress = unsafe { rooms.program.staging_mover().take(to, from, run * PAGE_BYTES) };
        match progress.error {
            None => break progress.bytes / PAGE_BYTES,
            Some(Errno::AGAIN) => kernel::sched_yield(),
            // The frame is shared with a child or a parent. A copy of its own can be moved.
            Some(Errno::BUSY) if !unshared && is_mapped => {
                unshared = true;
                let _ = kernel::unshare(from);
            }
            Some(Errno::BUSY | Errno::INVAL) => {
                pin(rooms, first);
                return (1, 0);
            }
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
            Some(_) if is_mapped => {
                vanished(rooms, first);
                return (1, 0);
            }
            Some(error) => give_up(format_args!("a page in limbo cannot be evicted: {error}")),
        }
    };
    if is_compared {
        return (moved, compare(rooms, &victims[..moved], batch));
    }
    for &page in &victims[..moved] {
        let place = rooms.disk.staging.push(batch, page);
        rooms.memory.pages.set(page, State::Writing(place));
    }
    (moved, 0)
}

/// The address where a condemned page is, mapped or in limbo. (Its id may belong to another page by
/// now.)
fn address_in_memory(rooms: &mut Rooms, page: PageId) -> Option<usize> {
    match rooms.memory.pages.state(page) {
        _ if !rooms.memory.pages.has(page, Flag::Condemned) => None,
        State::Resident { .. } => Some(rooms.memory.pages.address(page)),
        State::Limbo { .. } => Some(rooms.limbo(page)),
        _ => None,
    }
}

/// Pages with slots have been moved to the scales. Those that have changed go on to the end of a
/// batch. Returns how many have not.
fn compare(rooms: &mut Rooms, victims: &[PageId], batch: usize) -> usize {
    let Rooms { memory, disk, anon, program, .. } = rooms;
    let scales = disk.staging.scales();
    let is_clean = |(index, &page)| anon.sums.is_clean(page, scales + index * PAGE_BYTES);
    let clean: Vec<bool> = victims.iter().enumerate().map(is_clean).collect();
    let (mut index, mut left_clean) = (0, 0);
    for part in clean.chunk_by(|one, other| one == other) {
        let from = scales + index * PAGE_BYTES;
        let end = disk.staging.batches[batch].pages.len();
        match part[0] {
            true => drop_pages(from, part.len()),
            false => {
                let to = disk.staging.address(batch, end);
                move_all_own(program.staging_mover(), to, from, part.len());
            }
        }
        for &page in &victims[index..index + part.len()] {
            match memory.pages.state(page).kept() {
                Some(slot) if part[0] => {
                    left_clean += 1;
                    memory.pages.set(page, State::Stored(slot));
                    continue;
                }
                Some(slot) => disk.store.free(slot),
                None => {}
            }
            let place = disk.staging.push(batch, page);
            memory.pages.set(page, State::Writing(place));
        }
        index += part.len();
    }
    left_clean
}

/// Leaves a page that cannot be moved where it is. It is tried again later.
fn pin(rooms: &mut Rooms, page: PageId) {
    withdraw(rooms, page);
    rooms.memory.pinned.push_back(page.0);
}

/// Gives up to this many pages that could not be moved back to the policy.
pub(crate) fn unpin(rooms: &mut Rooms, count: usize) {
    for _ in 0..count.min(rooms.memory.pinned.len()) {
        let Some(page) = rooms.memory.pinned.pop_front().map(PageId) else { break };
        if rooms.memory.pages.state(page) == State::Pinned {
            rooms.memory.pages.set(page, State::RESIDENT);
            arrive(rooms, page);
        }
    }
}

/// Unmaps pages whose reference bits are clear, to see whether they are in use. If the bits
/// can be read, there are none to unmap.
fn sample(rooms: &mut Rooms, count: usize) {
    if rooms.anon.bits(&rooms.program.pagemap).is_some() {
        return;
    }
    let mut run: Vec<PageId> = Vec::with_capacity(rooms.disk.staging.batch_pages());
    for _ in 0..count {
        let (choice, pages) = (&mut rooms.choice, &mut rooms.memory.pages);
        let Some(page) = choice.sampler.next(pages, &mut choice.arrivals) else { break };
        let follows = run.last().is_some_and(|last| {
            last.0 + 1 == page.0 && pages.address(*last) + PAGE_BYTES == pages.address(page)
        });
        if !follows {
            unmap(rooms, &run);
            run.clear();
        }
        run.push(page);
    }
    unmap(rooms, &run);
}

/// Unmaps neighbours to limbo. Pages that cannot be moved stay mapped and read as not referenced.
pub(crate) fn unmap(rooms: &mut Rooms, run: &[PageId]) {
    let mut next = 0;
    // Ends: the kernel asks for another try only while a fork copies the pager's own areas.
    while next < run.len() {
        let page = run[next];
        if !rooms.memory.pages.is_resident(page) {
            next += 1;
            continue;
        }
        // Segments of limbo need not be neighbours.
        let limbo = rooms.limbo(page);
        let mut length = 1;
        while next + length < run.len() && rooms.limbo(run[next + length]) == limbo + length * PAGE_BYTES {
            length += 1;
        }
        let from = rooms.memory.pages.address(page);
        // SAFETY: these are pages of the program, which gets them back when it touches them. They
        // go to places where pages are missing.
        let progress = unsafe { rooms.program.staging_mover().take(limbo, from, length * PAGE_BYTES) };
        match progress.error {
            None => {
                let moved = progress.bytes / PAGE_BYTES;
                for &page in &run[next..next + moved] {
                    let kept = rooms.memory.pages.state(page).kept();
                    rooms.memory.pages.set(page, State::Limbo { kept });
                }
                next += moved;
            }
            Some(Errno::AGAIN) => kernel::sched_yield(),
            // If the page has vanished, the agent finds out when the page is touched or evicted.
            Some(_) => next += 1,
        }
    }
}

/// Clears the bits of the first pages in a queue, at most `count`. What was seen of bits before is
/// over.
pub(crate) fn clear_queued(rooms: &mut Rooms, queue: Queue, count: usize) {
    let Some(queues) = rooms.anon.queues() else { return };
    queues.look_again();
    if count > 0 && queues.count(queue) > 0 {
        rooms.anon.clear_queued(&rooms.program, &mut rooms.memory.pages, queue, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;
    use crate::testing::{BATCH_PAGES, at, rooms};
    use crate::transfer::reap;

    #[test]
    fn a_page_that_cannot_be_moved_is_pinned_and_tried_again() {
        let (mut rooms, world) = rooms();
        (0..6).for_each(|number| faults::answer(&mut rooms, at(number)));
        world.borrow_mut().stuck.insert(at(0));
        assert!(crate::choose::condemn(&mut rooms));
        assert_eq!(evict(&mut rooms), 0);
        assert_eq!((rooms.memory.pages.state_at(at(0)), rooms.memory.pages.pinned()), (State::Pinned, 1));
        world.borrow_mut().stuck.clear();
        assert!(crate::choose::condemn(&mut rooms));
        assert_eq!(evict(&mut rooms), 1, "and one page that is pinned gets another chance");
        assert_eq!((rooms.memory.pages.state_at(at(0)), rooms.memory.pages.pinned()), (State::RESIDENT, 0));
    }

    #[test]
    fn a_victim_that_is_touched_or_gone_is_left_alone() {
        let (mut rooms, world) = rooms();
        (0..6).for_each(|number| faults::answer(&mut rooms, at(number)));
        (0..3).for_each(|_| assert!(crate::choose::condemn(&mut rooms)));
        let page = rooms.memory.pages.find(at(0)).unwrap();
        assert!(crate::choose::spare(&mut rooms, page));
        world.borrow_mut().mapped.remove(&at(1));
        assert_eq!(evict(&mut rooms), 1);
        assert_eq!(rooms.memory.pages.state_at(at(0)), State::RESIDENT);
        assert_eq!(rooms.memory.pages.state_at(at(1)), State::Absent, "it was missing");
        assert!(matches!(rooms.memory.pages.state_at(at(2)), State::Writing(_)));
    }

    #[test]
    fn a_batch_at_a_time_is_evicted_when_there_are_enough() {
        let (mut rooms, _) = rooms();
        (0..30).for_each(|number| faults::answer(&mut rooms, at(number)));
        (1..BATCH_PAGES).for_each(|_| assert!(crate::choose::condemn(&mut rooms)));
        evict_batch(&mut rooms);
        assert_eq!(rooms.choice.condemned.len(), BATCH_PAGES - 1);
        assert!(crate::choose::condemn(&mut rooms));
        evict_batch(&mut rooms);
        assert!(rooms.choice.condemned.is_empty());
        reap(&mut rooms);
        assert_eq!(rooms.memory.pages.resident(), 30 - BATCH_PAGES);
    }
}
