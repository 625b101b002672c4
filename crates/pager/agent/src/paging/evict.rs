//! Eviction: condemned pages leave memory, a batch at a time, and others are unmapped to see
//! whether they are in use.
//!
//! The agent moves the victims to a batch of the staging area, which is written while the program
//! runs. A page that cannot be moved becomes pinned and leaves the policy until it is tried again.
//! A page that the pool gets, compressed, is not written; those that the pool turns out for it are.

use crate::choice::exact_bits::Queue;
use crate::control::add;
use crate::kernel::{self, PAGE_BYTES};
use crate::mailbox::MAILBOX;
use crate::paging::changes::{block_moves, vanished};
use crate::paging::lifecycle::{arrive, came_in, condemn_some, withdraw};
use crate::paging::pager::Pager;
use crate::paging::transfer::{start_write, take_batch};
use crate::process::failure::abort;
use crate::process::own::Retry;
use crate::state::pages::{Flag, State};
use crate::store::backing::Slot;
use crate::store::pool::Entry;
use crate::store::staging::{Phase, copy_own, drop_pages, move_all_own};

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

/// A batch of evicted pages on its way to the store, and what has become of the others.
struct Eviction {
    batch: usize,
    /// How many pages turned out of the pool have a place in the batch besides those that are
    /// evicted.
    places: usize,
    /// Evicted pages that the store has already, those that the pool has now, and those that it has
    /// refused because they do not compress, or because it is full.
    clean: usize,
    pooled: usize,
    refused: usize,
    full: usize,
    /// Pages that the pool has turned out: to the batch, and those that the store has already.
    written_back: usize,
    turned_out_clean: usize,
}

impl Eviction {
    /// An empty batch, in which `victims` pages may need a place.
    fn begin(pager: &mut Pager, victims: usize) -> Self {
        let batch = take_batch(pager, |pager| pager.disk.staging.take_empty());
        pager.disk.staging.batches[batch].phase = Phase::Writing;
        let places = pager.disk.staging.batch_pages() - victims;
        Self { batch, places, clean: 0, pooled: 0, refused: 0, full: 0, written_back: 0, turned_out_clean: 0 }
    }

    /// Starts the write. Returns how many pages have been evicted.
    fn end(self, pager: &mut Pager) -> usize {
        let to_write = pager.disk.staging.batches[self.batch].pages.len();
        let evicted = to_write - self.written_back + self.clean + self.pooled;
        pager.account.moved(evicted);
        // The counters change together and before the write, because the program may end at any
        // time.
        let counters = &pager.control.counters;
        for (counter, pages) in [
            (&counters.evictions, evicted),
            (&counters.pages_written, to_write),
            (&counters.clean_evictions, self.clean),
            (&counters.pool_puts, self.pooled),
            (&counters.pool_refused, self.refused),
            (&counters.pool_full, self.full),
            (&counters.pool_written_back, self.written_back),
            (&counters.pool_turned_out_clean, self.turned_out_clean),
        ] {
            add(counter, pages as u64);
        }
        match to_write {
            0 => pager.disk.staging.batches[self.batch].phase = Phase::Free,
            _ => start_write(pager, self.batch),
        }
        evicted
    }
}

/// Evicts condemned pages, up to a batch. Returns how many.
pub(crate) fn evict(pager: &mut Pager) -> usize {
    // What the pool turns out goes to the same batch.
    let share = if pager.disk.has_pool() { 2 } else { 1 };
    let count = pager.choice.condemned.len().min(pager.disk.staging.batch_pages() / share);
    let mut eviction = Eviction::begin(pager, count);
    block_moves(pager);
    let mut victims = pager.choice.take_condemned(&pager.memory, count);
    spare_touched(pager, &mut victims);
    // The pages go in address order, whatever the policy's order. So one call moves neighbours, and
    // one request reads them back.
    victims.sort_unstable_by_key(|&page| pager.memory.pages.address(page));
    let mut next = 0;
    while next < victims.len() {
        next += take_out(pager, &victims[next..], &mut eviction);
    }
    sample(pager, SAMPLED_PER_EVICTION * count);
    clear_queued(pager, Queue::Cleared, usize::MAX);
    MAILBOX.allow_moves();
    let evicted = eviction.end(pager);
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
/// the store has their contents or the pool gets them. Returns how many victims are dealt with, at
/// least one.
fn take_out(pager: &mut Pager, victims: &[PageId], eviction: &mut Eviction) -> usize {
    let first = victims[0];
    let Some(from) = address_in_memory(pager, first) else { return 1 };
    let is_weighed =
        |pager: &Pager, page| pager.memory.pages.state(page).kept().is_some() || is_for_pool(pager, page);
    let first_is_weighed = is_weighed(pager, first);
    let mut run = 1;
    while run < victims.len()
        && is_weighed(pager, victims[run]) == first_is_weighed
        && address_in_memory(pager, victims[run]) == Some(from + run * PAGE_BYTES)
    {
        run += 1;
    }
    let staging = &pager.disk.staging;
    let batch = eviction.batch;
    let to = match first_is_weighed {
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
                return 1;
            }
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(Errno::NOMEM) => abort(format_args!("the system has run out of memory")),
            Some(_) if is_mapped => {
                vanished(pager, first);
                return 1;
            }
            Some(error) => abort(format_args!("a page in limbo cannot be evicted: {error}")),
        }
    };
    if first_is_weighed {
        weigh(pager, &victims[..moved], eviction);
        return moved;
    }
    for (index, &page) in victims[..moved].iter().enumerate() {
        let place = pager.disk.staging.push(batch, page);
        pager.memory.pages.set(page, State::Writing(place));
        note(pager, page, to + index * PAGE_BYTES);
    }
    moved
}

/// A page has been moved to `contents`, on its way out.
fn note(pager: &mut Pager, page: PageId, contents: usize) {
    let scratch = pager.disk.staging.scratch();
    if let Some(pool) = &mut pager.disk.pool {
        pool.was_evicted(page, contents, scratch);
    }
}

/// Whether a page goes to compressed memory if it is worth it there.
fn is_for_pool(pager: &Pager, page: PageId) -> bool {
    pager.disk.pool.as_ref().is_some_and(|pool| pool.pages() > 0 && !pool.is_foreseen(page))
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

/// Pages with slots, and those that may go to the pool, have been moved to the scales. Those that
/// have to be written go on to the end of the batch.
fn weigh(pager: &mut Pager, victims: &[PageId], eviction: &mut Eviction) {
    let scales = pager.disk.staging.scales();
    let mut goes_on = Vec::with_capacity(victims.len());
    for (index, &page) in victims.iter().enumerate() {
        note(pager, page, scales + index * PAGE_BYTES);
        goes_on.push(!is_settled(pager, page, scales + index * PAGE_BYTES, eviction));
    }
    let Pager { memory, disk, program, .. } = pager;
    let (batch, mut index) = (eviction.batch, 0);
    for part in goes_on.chunk_by(|one, other| one == other) {
        let from = scales + index * PAGE_BYTES;
        if part[0] {
            let to = disk.staging.address(batch, disk.staging.batches[batch].pages.len());
            move_all_own(program.staging_mover(), to, from, part.len());
            for &page in &victims[index..index + part.len()] {
                let place = disk.staging.push(batch, page);
                memory.pages.set(page, State::Writing(place));
            }
        } else {
            drop_pages(from, part.len());
        }
        index += part.len();
    }
}

/// A page has been moved to `contents`. Leaves it to the pool if it is worth it there, or to the
/// store if that has its contents. Returns false if it has to be written.
fn is_settled(pager: &mut Pager, page: PageId, contents: usize, eviction: &mut Eviction) -> bool {
    let state = pager.memory.pages.state(page);
    let slot = state.kept().filter(|_| pager.anon.sums.is_clean(page, contents));
    if let Some(changed) = state.kept().filter(|_| slot.is_none()) {
        pager.disk.store.free(changed);
        pager.memory.pages.set(page, state.without_slot());
    }
    let written_before = eviction.written_back;
    let place = match is_for_pool(pager, page).then(|| pool(pager, page, contents, slot, eviction)) {
        Some(Some(entry)) => {
            eviction.pooled += 1;
            State::Pooled(entry)
        }
        _ => match slot {
            Some(slot) => {
                eviction.clean += 1;
                State::Stored(slot)
            }
            None => return false,
        },
    };
    // Its own place is free.
    eviction.places = eviction.places + 1 - (eviction.written_back - written_before);
    pager.memory.pages.set(page, place);
    true
}

/// Puts a page into the pool, whose oldest pages make room for it. `slot`: the store has its
/// contents there. Returns nothing if the page is not worth it, or if there is no room in the batch
/// for those that would have to go.
fn pool(
    pager: &mut Pager,
    page: PageId,
    contents: usize,
    slot: Option<Slot>,
    eviction: &mut Eviction,
) -> Option<Entry> {
    let Some(bytes) = pager.disk.pool().compress(contents) else {
        eviction.refused += 1;
        return None;
    };
    // The page itself needs no place in the batch.
    let Some(count) = pager.disk.pool().to_turn_out(bytes, eviction.places + 1) else {
        eviction.full += 1;
        return None;
    };
    (0..count).for_each(|_| turn_out(pager, eviction));
    Some(pager.disk.pool().put(page, bytes, slot))
}

/// Turns the oldest page out of the pool, to the end of a batch unless the store has its contents.
fn turn_out(pager: &mut Pager, eviction: &mut Eviction) {
    let Pager { memory, disk, program, .. } = pager;
    let Some(entry) = disk.pool().oldest() else { return };
    let (page, slot) = (disk.pool().page(entry), disk.pool().slot(entry));
    debug_assert_eq!(memory.pages.state(page), State::Pooled(entry));
    let state = match slot {
        Some(slot) => {
            eviction.turned_out_clean += 1;
            State::Stored(slot)
        }
        None => {
            let (batch, scratch) = (eviction.batch, disk.staging.scratch());
            let to = disk.staging.address(batch, disk.staging.batches[batch].pages.len());
            disk.pool().decompress(entry, scratch);
            copy_own(&program.staging_uffd, to, scratch);
            eviction.written_back += 1;
            State::Writing(disk.staging.push(batch, page))
        }
    };
    memory.pages.set(page, state);
    disk.pool().remove(entry);
}

/// Lowers the memory of the pool by this many pages, as far as it has them. What does not fit any
/// more is turned out. Returns by how many.
///
/// Ends: each turn turns pages out, and none is put in meanwhile.
pub(crate) fn lower_pool(pager: &mut Pager, pages: usize) -> usize {
    let Some(pool) = pager.disk.pool.as_mut().filter(|pool| pages > 0 && pool.pages() > 0) else { return 0 };
    let before = pool.pages();
    pool.lower(pages);
    let lowered = before - pool.pages();
    while pager.disk.pool().is_too_full() {
        let mut eviction = Eviction::begin(pager, 0);
        while pager.disk.pool().is_too_full() && eviction.written_back < eviction.places {
            turn_out(pager, &mut eviction);
        }
        eviction.end(pager);
    }
    let Pager { memory, disk, .. } = pager;
    disk.pool().vacate(|page, entry| memory.pages.set(page, State::Pooled(entry)));
    lowered
}

/// Raises the memory of the pool by this many pages, if there is room for them: at most a batch of
/// pages is evicted for that.
pub(crate) fn raise_pool(pager: &mut Pager, pages: usize) {
    let has_room = |pager: &Pager| pager.taken() + pages <= pager.room();
    if !has_room(pager) {
        condemn_some(pager, pages);
        evict(pager);
    }
    if has_room(pager) {
        pager.disk.pool().raise(pages);
        // The account knows the pager's own memory since its last look.
        pager.look();
    }
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
    use crate::testing::{BATCH_PAGES, at, pager, pager_with_pool};

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

    fn evict_first(pager: &mut Pager, pages: usize) {
        crate::paging::lifecycle::condemn_some(pager, pages);
        assert_eq!(pager.choice.condemned.len(), pages);
        while !pager.choice.condemned.is_empty() {
            evict(pager);
        }
        reap(pager);
    }

    fn states(pager: &Pager, first: usize, is: fn(&State) -> bool) -> usize {
        (first..first + 20).filter(|&number| is(&pager.memory.pages.state_at(at(number)))).count()
    }

    #[test]
    fn a_full_pool_turns_its_oldest_pages_out_to_the_disk() {
        let (mut pager, world) = pager_with_pool(1);
        for number in 0..36 {
            faults::answer(&mut pager, at(number));
            world.borrow_mut().mapped.insert(at(number), number as u8);
        }
        evict_first(&mut pager, 32);
        let is_pooled = |state: &State| matches!(state, State::Pooled(_));
        let is_stored = |state: &State| matches!(state, State::Stored(_));
        assert_eq!((states(&pager, 0, is_pooled), states(&pager, 12, is_pooled)), (20, 20));
        evict_first(&mut pager, 4);
        assert_eq!((states(&pager, 0, is_stored), states(&pager, 4, is_pooled)), (4, 20));
        let count =
            |counter: &core::sync::atomic::AtomicU64| counter.load(core::sync::atomic::Ordering::Relaxed);
        let counters = &pager.control.counters;
        let counts = [
            &counters.evictions,
            &counters.pages_written,
            &counters.pool_puts,
            &counters.pool_written_back,
            &counters.pool_full,
        ];
        assert_eq!(counts.map(count), [36, 4, 36, 4, 0]);
        for number in [0, 20] {
            faults::answer(&mut pager, at(number));
            reap(&mut pager);
            assert_eq!(world.borrow().mapped.get(&at(number)), Some(&(number as u8)));
        }
        assert_eq!([&counters.pages_read, &counters.pool_hits].map(count), [1, 1]);
    }

    #[test]
    fn pages_along_a_stream_go_to_the_disk() {
        let (mut pager, _) = pager_with_pool(1);
        for number in 0..20 {
            faults::answer(&mut pager, at(number));
            pager.disk.ahead.set_latest_window(if number < 10 { 128 } else { 1 });
            let page = pager.memory.pages.find(at(number)).unwrap();
            pager.disk.page_comes(page);
        }
        evict_first(&mut pager, 20);
        let is_stored = |state: &State| matches!(state, State::Stored(_));
        assert_eq!((states(&pager, 0, is_stored), states(&pager, 10, is_stored)), (10, 0));
    }

    #[test]
    fn a_pool_that_becomes_smaller_keeps_the_newest_pages() {
        let (mut pager, world) = pager_with_pool(2);
        for number in 0..36 {
            faults::answer(&mut pager, at(number));
            world.borrow_mut().mapped.insert(at(number), number as u8);
        }
        evict_first(&mut pager, 36);
        assert_eq!(pager.disk.pool().used_bytes(), 36 * 128);
        let before = pager.own_pages();
        lower_pool(&mut pager, 1);
        reap(&mut pager);
        assert_eq!((pager.own_pages(), pager.disk.pool().used_bytes()), (before - 1, 32 * 128));
        let is_stored = |state: &State| matches!(state, State::Stored(_));
        assert_eq!((states(&pager, 0, is_stored), states(&pager, 4, is_stored)), (4, 0));
        for number in [0, 35] {
            faults::answer(&mut pager, at(number));
            reap(&mut pager);
            assert_eq!(world.borrow().mapped.get(&at(number)), Some(&(number as u8)));
        }
        lower_pool(&mut pager, 1);
        reap(&mut pager);
        assert_eq!(pager.disk.pool().used_bytes(), 0);
        evict_first(&mut pager, 2);
        assert_eq!(pager.disk.pool().used_bytes(), 0, "nothing fits");
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
