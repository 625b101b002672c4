//! Eviction: condemned pages leave memory, a batch at a time, and others are unmapped to see
//! whether they are in use.
//!
//! The agent moves the victims to a batch of the staging area, which is written while the program
//! runs. A page that cannot be moved becomes pinned and leaves the policy until it is tried again.

use crate::choice::exact_bits::Queue;
use crate::control::add;
use crate::kernel::{self, PAGE_BYTES};
use crate::mailbox::MAILBOX;
use crate::paging::changes::{block_moves, vanished};
use crate::paging::lifecycle::{arrive, came_in, withdraw};
use crate::paging::pager::Pager;
use crate::paging::transfer::{start_write, take_batch};
use crate::process::failure::abort;
use crate::process::own::Retry;
use crate::state::pages::{Flag, State};
use crate::store::staging::{Phase, drop_pages, move_all_own};

use alloc::vec::Vec;
use rustix::io::Errno;
use sweephand_policy::PageId;

/// The most pages to unmap for each evicted page, to see whether they are in use.
const SAMPLED_PER_EVICTION: usize = 4;
/// How many pages to evict at a time for each page of the window for which the program waits. This
/// many can be evicted while the window is read.
const EVICTED_PER_PAGE_READ: usize = 16;

/// Evicts condemned pages if there are enough of them for a write.
pub(crate) fn evict_batch(pager: &mut Pager) {
    let enough = EVICTED_PER_PAGE_READ * pager.disk.ahead.latest_window();
    if pager.choice.condemned.len() >= enough.min(pager.disk.staging.batch_pages()) {
        evict(pager);
    }
}

/// Evicts condemned pages, up to a batch. Returns how many.
pub(crate) fn evict(pager: &mut Pager) -> usize {
    let count = pager.choice.condemned.len().min(pager.disk.staging.batch_pages());
    let batch = take_batch(pager, |pager| pager.disk.staging.take_empty());
    pager.disk.staging.batches[batch].phase = Phase::Writing;
    block_moves(pager);
    let mut victims = pager.choice.take_condemned(&pager.memory, count);
    spare_touched(pager, &mut victims);
    // The pages go in address order, whatever the policy's order. So one call moves neighbours, and
    // one request reads them back.
    victims.sort_unstable_by_key(|&page| pager.memory.pages.address(page));
    let (mut next, mut clean) = (0, 0);
    while next < victims.len() {
        let (taken, taken_clean) = take_out(pager, &victims[next..], batch);
        next += taken;
        clean += taken_clean;
    }
    sample(pager, SAMPLED_PER_EVICTION * count);
    clear_queued(pager, Queue::Cleared, usize::MAX);
    MAILBOX.allow_moves();
    let to_write = pager.disk.staging.batches[batch].pages.len();
    let evicted = to_write + clean;
    pager.account.moved(evicted);
    // The counters change together and before the write, because the program may end at any time.
    add(&pager.control.counters.evictions, evicted as u64);
    add(&pager.control.counters.pages_written, to_write as u64);
    add(&pager.control.counters.clean_evictions, clean as u64);
    match to_write {
        0 => pager.disk.staging.batches[batch].phase = Phase::Free,
        _ => start_write(pager, batch),
    }
    if evicted > 0 && pager.memory.pages.pinned() > 0 {
        unpin(pager, 1);
    }
    evicted
}

/// Takes those out of the victims that have been touched since the policy gave them up, as far as
/// that can be read. To the policy they come in anew, as they would have if they had been gone
/// already.
fn spare_touched(pager: &mut Pager, victims: &mut Vec<PageId>) {
    let Some(queues) = pager.anon.queues() else { return };
    queues.look_again();
    let (anon, pagemap, pages) = (&mut pager.anon, &pager.program.pagemap, &pager.memory.pages);
    let mut is_touched = |page: PageId| {
        pages.has(page, Flag::Condemned)
            && pages.is_resident(page)
            && !pages.has(page, Flag::Queued)
            && anon.is_touched(pagemap, pages.address(page))
    };
    let touched: Vec<PageId> = victims.extract_if(.., |page| is_touched(*page)).collect();
    for page in touched {
        add(&pager.control.counters.rescues, 1);
        pager.memory.pages.mark(page, Flag::Condemned, false);
        came_in(pager, page, true);
    }
}

/// Takes the first victim and its neighbours out of memory. They go to the end of a batch, unless
/// the store has their contents. Returns how many victims are dealt with, at least one, and how
/// many of them need no write.
fn take_out(pager: &mut Pager, victims: &[PageId], batch: usize) -> (usize, usize) {
    let first = victims[0];
    let Some(from) = address_in_memory(pager, first) else { return (1, 0) };
    let has_slot = |pager: &Pager, page| pager.memory.pages.state(page).kept().is_some();
    let is_compared = has_slot(pager, first);
    let mut run = 1;
    while run < victims.len()
        && has_slot(pager, victims[run]) == is_compared
        && address_in_memory(pager, victims[run]) == Some(from + run * PAGE_BYTES)
    {
        run += 1;
    }
    let staging = &pager.disk.staging;
    let to = match is_compared {
        true => staging.scales(),
        false => staging.address(batch, staging.batches[batch].pages.len()),
    };
    let is_mapped = pager.memory.pages.is_resident(first);
    let (mut unshared, mut retry) = (false, Retry::new());
    // Ends: AGAIN lasts only while a fork copies the pager's own areas, and every other error is
    // met once or for as long as `Retry` says.
    let moved = loop {
        // SAFETY: these are pages of the program, which gets them back when it touches them. They
        // go to a place where pages are missing.
        let progress = unsafe { pager.program.staging_mover().take(to, from, run * PAGE_BYTES) };
        match progress.error {
            None => break progress.bytes / PAGE_BYTES,
            Some(Errno::AGAIN) => kernel::sched_yield(),
            // The frame is shared with a child or a parent. A copy of its own can be moved.
            Some(Errno::BUSY) if !unshared && is_mapped => {
                unshared = true;
                let _ = kernel::unshare(from);
            }
            Some(Errno::BUSY | Errno::INVAL) => {
                pin(pager, first);
                return (1, 0);
            }
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(Errno::NOMEM) => abort(format_args!("the system has run out of memory")),
            Some(_) if is_mapped => {
                vanished(pager, first);
                return (1, 0);
            }
            Some(error) => abort(format_args!("a page in limbo cannot be evicted: {error}")),
        }
    };
    if is_compared {
        return (moved, compare(pager, &victims[..moved], batch));
    }
    for &page in &victims[..moved] {
        let place = pager.disk.staging.push(batch, page);
        pager.memory.pages.set(page, State::Writing(place));
    }
    (moved, 0)
}

/// The address where a condemned page is, mapped or in limbo. (Its id may belong to another page by
/// now.)
fn address_in_memory(pager: &mut Pager, page: PageId) -> Option<usize> {
    match pager.memory.pages.state(page) {
        _ if !pager.memory.pages.has(page, Flag::Condemned) => None,
        State::Resident { .. } => Some(pager.memory.pages.address(page)),
        State::Limbo { .. } => Some(pager.limbo(page)),
        _ => None,
    }
}

/// Pages with slots have been moved to the scales. Those that have changed go on to the end of a
/// batch. Returns how many have not.
fn compare(pager: &mut Pager, victims: &[PageId], batch: usize) -> usize {
    let Pager { memory, disk, anon, program, .. } = pager;
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
fn pin(pager: &mut Pager, page: PageId) {
    withdraw(pager, page);
    pager.memory.pinned.push_back(page.0);
}

/// Gives up to this many pages that could not be moved back to the policy.
pub(crate) fn unpin(pager: &mut Pager, count: usize) {
    for _ in 0..count.min(pager.memory.pinned.len()) {
        let Some(page) = pager.memory.pinned.pop_front().map(PageId) else { break };
        if pager.memory.pages.state(page) == State::Pinned {
            pager.memory.pages.set(page, State::RESIDENT);
            arrive(pager, page);
        }
    }
}

/// Unmaps pages whose reference bits are clear, to see whether they are in use. If the bits
/// can be read, there are none to unmap.
fn sample(pager: &mut Pager, count: usize) {
    if pager.anon.bits(&pager.program.pagemap).is_some() {
        return;
    }
    let mut run: Vec<PageId> = Vec::with_capacity(pager.disk.staging.batch_pages());
    for _ in 0..count {
        let (choice, pages) = (&mut pager.choice, &mut pager.memory.pages);
        let Some(page) = choice.sampler.next(pages, &mut choice.arrivals) else { break };
        let follows = run.last().is_some_and(|last| {
            last.0 + 1 == page.0 && pages.address(*last) + PAGE_BYTES == pages.address(page)
        });
        if !follows {
            unmap(pager, &run);
            run.clear();
        }
        run.push(page);
    }
    unmap(pager, &run);
}

/// Unmaps neighbours to limbo. Pages that cannot be moved stay mapped and read as not referenced.
pub(crate) fn unmap(pager: &mut Pager, run: &[PageId]) {
    let mut next = 0;
    // Ends: the kernel asks for another try only while a fork copies the pager's own areas.
    while next < run.len() {
        let page = run[next];
        if !pager.memory.pages.is_resident(page) {
            next += 1;
            continue;
        }
        // Segments of limbo need not be neighbours.
        let limbo = pager.limbo(page);
        let mut length = 1;
        while next + length < run.len() && pager.limbo(run[next + length]) == limbo + length * PAGE_BYTES {
            length += 1;
        }
        let from = pager.memory.pages.address(page);
        // SAFETY: these are pages of the program, which gets them back when it touches them. They
        // go to places where pages are missing.
        let progress = unsafe { pager.program.staging_mover().take(limbo, from, length * PAGE_BYTES) };
        match progress.error {
            None => {
                let moved = progress.bytes / PAGE_BYTES;
                for &page in &run[next..next + moved] {
                    let kept = pager.memory.pages.state(page).kept();
                    pager.memory.pages.set(page, State::Limbo { kept });
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
pub(crate) fn clear_queued(pager: &mut Pager, queue: Queue, count: usize) {
    let Some(queues) = pager.anon.queues() else { return };
    queues.look_again();
    if count > 0 && queues.count(queue) > 0 {
        pager.anon.clear_queued(&pager.program, &mut pager.memory.pages, queue, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults;
    use crate::paging::transfer::reap;
    use crate::testing::{BATCH_PAGES, at, pager};

    #[test]
    fn a_page_that_cannot_be_moved_is_pinned_and_tried_again() {
        let (mut pager, world) = pager();
        (0..6).for_each(|number| faults::answer(&mut pager, at(number)));
        world.borrow_mut().stuck.insert(at(0));
        assert!(crate::paging::lifecycle::condemn(&mut pager));
        assert_eq!(evict(&mut pager), 0);
        assert_eq!((pager.memory.pages.state_at(at(0)), pager.memory.pages.pinned()), (State::Pinned, 1));
        world.borrow_mut().stuck.clear();
        assert!(crate::paging::lifecycle::condemn(&mut pager));
        assert_eq!(evict(&mut pager), 1, "and one page that is pinned gets another chance");
        assert_eq!((pager.memory.pages.state_at(at(0)), pager.memory.pages.pinned()), (State::RESIDENT, 0));
    }

    #[test]
    fn a_victim_that_is_touched_or_gone_is_left_alone() {
        let (mut pager, world) = pager();
        (0..6).for_each(|number| faults::answer(&mut pager, at(number)));
        (0..3).for_each(|_| assert!(crate::paging::lifecycle::condemn(&mut pager)));
        let page = pager.memory.pages.find(at(0)).unwrap();
        assert!(crate::paging::lifecycle::spare(&mut pager, page));
        world.borrow_mut().mapped.remove(&at(1));
        assert_eq!(evict(&mut pager), 1);
        assert_eq!(pager.memory.pages.state_at(at(0)), State::RESIDENT);
        assert_eq!(pager.memory.pages.state_at(at(1)), State::Absent, "it was missing");
        assert!(matches!(pager.memory.pages.state_at(at(2)), State::Writing(_)));
    }

    #[test]
    fn a_batch_at_a_time_is_evicted_when_there_are_enough() {
        let (mut pager, _) = pager();
        (0..30).for_each(|number| faults::answer(&mut pager, at(number)));
        (1..BATCH_PAGES).for_each(|_| assert!(crate::paging::lifecycle::condemn(&mut pager)));
        evict_batch(&mut pager);
        assert_eq!(pager.choice.condemned.len(), BATCH_PAGES - 1);
        assert!(crate::paging::lifecycle::condemn(&mut pager));
        evict_batch(&mut pager);
        assert!(pager.choice.condemned.is_empty());
        reap(&mut pager);
        assert_eq!(pager.memory.pages.resident(), 30 - BATCH_PAGES);
    }
}
