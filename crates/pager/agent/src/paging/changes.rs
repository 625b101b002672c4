//! Changes of the program's address space, and why no page is lost or wrong because of them.
//!
//! # Order and races
//!
//! The agent is one thread. Everything that it knows changes between two of its steps, and never
//! during one. But the program's threads run all the time: they drop memory, unmap it, move it,
//! fork, and touch pages that are on their way. This is the argument why each page still has the
//! right contents. The code relies on it, and does not repeat it.
//!
//! ## What the kernel does
//!
//! | the program | order of events |
//! |---|---|
//! | `madvise(MADV_DONTNEED)` | message; *agent reads it*; contents are dropped; call returns |
//! | `munmap`, `mremap` | range is gone or elsewhere; message; *agent reads it*; call returns |
//! | `fork` | memory is copied; message; *agent reads it*; call returns |
//!
//! From the beginning of a change until its message has been read, the kernel refuses to put a page
//! into the program's memory (`EAGAIN`). It does not refuse to take pages out: they go to the
//! pager's own areas, whose userfaultfd has no changes but forks.
//!
//! ## Putting in: no change may be read and not applied
//!
//! Once a drop has been read, the kernel accepts pages again, but the contents may not have been
//! dropped yet. If the agent now put back a page that it still believes to be evicted, one of two
//! things would happen. If the drop comes later, the page is lost while the agent believes it to be
//! mapped. If the drop was before, old contents are there where the program expects zeros. So:
//!
//! 1. A function that puts contents in is called when all changes that were read are applied
//!    ([`has_changes`](crate::state::program::Program::has_changes) is false; debug builds check
//!    it). Reading messages and applying the changes among them are therefore one step,
//!    [`catch_up`]. It goes ahead of the faults that were read with them.
//! 2. If the kernel answers `EAGAIN`, the agent catches up and asks the page table again whether
//!    the page is still the same: this id at this address, in this state, at this place
//!    ([`Memory::is_still`](crate::state::memory::Memory::is_still)). If not, the program does not
//!    expect the contents any more, and the thread that waits is woken. It faults again, and is
//!    answered by what is true then.
//! 3. While the pages of new ranges are counted (`stock::take_stock`), no message is read. A drop
//!    in such a range waits for its message to be read, so the pages that are counted are forgotten
//!    when it is applied. If the message had been read before, the agent could count a page that is
//!    about to be dropped, page it out, and bring the old contents back. Lent frames are therefore
//!    requested before the look, not for each page that is found.
//! 4. A function that waits (for room, a batch or the store) may complete requests and apply
//!    changes meanwhile. Its caller asks the page table again: what was absent may have been moved
//!    there, and what was stored may have been dropped.
//!
//! One moment is left: a thread touches a page between the message of a drop and the drop. The
//! agent has applied the drop, so it puts zeros there, and then the kernel drops them. The agent
//! believes the page to be mapped. The next touch faults, `faults::check_presence` finds the page
//! missing, and zeros are right again. (At rest for a fork, a note says that the page has come.)
//!
//! ## Taking out
//!
//! A page that is taken out while it is being dropped or unmapped is forgotten when the change is
//! applied, wherever it is by then (see the table below). A page that is gone already cannot be
//! taken: the kernel says so, and [`vanished`] catches up.
//!
//! A move is different. After `mremap` has moved a mapping, and before its message has been read,
//! the new address has pages that the agent takes for those that were there before. So no mapping
//! may move while pages are taken out or unmapped: the hooks make their calls within
//! [`MAILBOX`]`.move_mapping`, and [`block_moves`] keeps them out and learns of all earlier moves.
//! What `mmap` with `MAP_FIXED` puts in place of other memory is there before the message as well,
//! and other threads may write to it. So it is kept out in the same way. (A place that was unmapped
//! and is mapped anew belongs to nobody until `mmap` returns. Its hook has the agent catch up.)
//! The place to which a mapping moves is reserved first, and the agent catches up before the move,
//! so that an older unmap of that place cannot be mistaken for a newer one. The agent does not wait
//! for ever for a thread that a fault or a signal handler has stopped just before it moves: that
//! thread may be waiting for the agent. It goes on after [`MOST_MOVE_CHECKS`] checks. A thread that
//! has been stopped for so long has most likely jumped out of the call.
//!
//! ## Lost races
//!
//! The page table alone says whose a page on its way is. What is under way looks there when it
//! ends, and leaves the page alone if the state or the place is another.
//!
//! | the page is | and meanwhile | then |
//! |---|---|---|
//! | `Writing` | is touched | it is copied back from its batch; the write's end frees the slot |
//! | `Writing` | is dropped | it is `Absent`; the write's end frees the slot |
//! | `Reading` | is touched | the thread is woken by the read's end |
//! | `Reading` | is dropped | its slot is freed at once; the read's end wakes threads and no more |
//! | either | is moved | the batch gets the page's new id ([`change_id`]) |
//! | `Pooled` | is moved, or dropped | its entry gets the new id, or is taken away |
//! | `Pooled` | is turned out while a thread waits for room | it is `Writing` or `Stored`: the thread gets it from there |
//! | `Reading` | is moved | threads that wait at the old address are woken, and fault again there |
//! | `Limbo`, condemned | is touched | it is mapped again, and comes to the policy anew |
//! | condemned | is dropped | it loses the flag with its state, and its entry counts no more |
//! | `Absent` | is touched by two threads | the second finds it present: it is woken |
//! | `Lost` | is touched by a thread that came before it was poisoned | it is poisoned, not filled |
//! | `Guarded` | the guard is removed unseen | the next fault looks, and fills it with zeros |
//! | `Stored` | a guard is installed unseen | putting it back says `EEXIST`: guards are looked up |
//!
//! ## Forks
//!
//! A child goes on with a copy of the agent's state, made at a moment that nothing reports. So the
//! state is at rest by then: nothing is under way, limbo is empty, no mapping moves, and from then
//! on only a list of messages and notes grows, in an order that the child can repeat
//! (`during_fork`). A change by another thread whose message was read before the copy is in the
//! child's list. One whose message was not read had not returned, and whether the child has its
//! effect is seen in the child's own memory. A fork that is not announced has no agent: its child
//! waits at its first missing page, and the program is ended.
//!
//! ## The agent's own memory
//!
//! The argument needs the agent's state to be safe from the program: the program may map what it
//! likes wherever it has unmapped memory (`MAP_FIXED`). So the pager's memory lies where the kernel
//! gives none by itself (`own`).

use crate::kernel::{self, Event, Message, PAGE_BYTES, Userfaultfd};
use crate::mailbox::MAILBOX;
use crate::paging::lifecycle::arrive;
use crate::paging::pager::Pager;
use crate::state::pages::{Flag, State};
use crate::store::staging::{drop_pages, move_own};
use alloc::vec::Vec;
use rustix::fd::{FromRawFd, OwnedFd};
use sweephand_pager_interface::recording::Item;
use sweephand_policy::PageId;

/// How often the agent checks whether a mapping is still being moved, before it goes on regardless.
const MOST_MOVE_CHECKS: usize = 1000;
/// After this many checks the agent sleeps between them, because the thread that moves the mapping
/// may be waiting for a processor.
const MOVE_CHECKS_AWAKE: usize = 100;
/// How long it sleeps.
const MOVE_PAUSE_NS: i64 = 1_000_000;
/// How far to look for empty memory before and behind a page that was dropped.
const EMPTY_PAGES: usize = 256;

/// Applies the changes among the messages, ahead of the faults. Afterwards the agent knows the
/// current address space.
pub(crate) fn catch_up(pager: &mut Pager) {
    pager.program.settle_all();
    apply_read(pager);
}

/// Applies the changes among the messages read so far, ahead of faults.
pub(crate) fn apply_read(pager: &mut Pager) {
    if pager.program.has_changes() {
        for change in pager.program.take_changes() {
            apply(pager, change);
        }
    }
}

/// Applies one change.
pub(crate) fn apply(pager: &mut Pager, message: Message) {
    if let Some(item) = recorded(&message) {
        pager.mode.on_change(pager, item);
    }
    match message.event() {
        Some(Event::Remove { start, end }) => {
            pager.memory.last_drops.add(start);
            drop_contents(pager, start, end);
        }
        Some(Event::Unmap { start, end }) => unmapped(pager, start, end),
        Some(Event::Remap { from, to, length }) => remapped(pager, from, to, length),
        Some(Event::Fork { descriptor }) => forked(pager, descriptor),
        Some(Event::Fault { .. }) | None => {}
    }
}

/// What a record says of a change.
fn recorded(message: &Message) -> Option<Item> {
    let number = |address: usize| (address / PAGE_BYTES) as u64;
    match message.event()? {
        Event::Remove { start, end } => {
            Some(Item::Dropped { page: number(start), pages: number(end - start) })
        }
        Event::Unmap { start, end } => {
            Some(Item::Unmapped { page: number(start), pages: number(end - start) })
        }
        Event::Remap { from, to, length } => {
            Some(Item::Moved { from: number(from), to: number(to), pages: number(length) })
        }
        Event::Fork { .. } | Event::Fault { .. } => None,
    }
}

/// Ranges of managed memory of which no page is anywhere, around what was last dropped.
pub(crate) fn empty_ranges(pager: &Pager) -> Vec<(usize, usize)> {
    if !pager.memory.managed || pager.mode.hears_all() {
        return Vec::new();
    }
    let is_empty = |&address: &usize| {
        pager.memory.regions.end_of(address).is_some()
            && pager.memory.pages.state_at(address) == State::Absent
    };
    let around = |&place: &usize| {
        let behind = (1..EMPTY_PAGES).map(|page| place + page * PAGE_BYTES).take_while(is_empty);
        let before =
            (1..EMPTY_PAGES).map_while(|page| place.checked_sub(page * PAGE_BYTES)).take_while(is_empty);
        let (start, last) = (before.last().unwrap_or(place), behind.last().unwrap_or(place));
        is_empty(&place).then_some((start, last + PAGE_BYTES))
    };
    pager.memory.last_drops.places().iter().filter_map(around).collect()
}

/// Forgets a page. The program no longer needs its contents.
pub(crate) fn forget(pager: &mut Pager, page: PageId) {
    let state = pager.memory.pages.state(page);
    match state {
        State::Absent | State::Guarded => return,
        State::Stored(slot) => pager.disk.store.free(slot),
        State::Pooled(entry) => pager.disk.forget_entry(entry),
        State::Reading(place) => {
            pager.disk.store.free(pager.disk.staging.slot_of(place));
            pager.disk.incoming -= 1;
        }
        State::Limbo { .. } => drop_pages(pager.limbo(page), 1),
        // The slot of a page that is being written is freed when the write ends.
        State::Writing(_) | State::Resident { .. } | State::Pinned | State::Lost => {}
    }
    if let Some(slot) = state.kept() {
        pager.disk.store.free(slot);
    }
    pager.choice.remove(page);
    pager.memory.pages.set(page, State::Absent);
}

/// The program drops the contents of a range. The range stays mapped, and guards stay as well.
pub(crate) fn drop_contents(pager: &mut Pager, start: usize, end: usize) {
    for page in pager.memory.known(start, end) {
        forget(pager, page);
    }
}

/// The program has unmapped a range.
pub(crate) fn unmapped(pager: &mut Pager, start: usize, end: usize) {
    drop_contents(pager, start, end);
    let memory = &mut pager.memory;
    memory.forget_guards(start, end);
    memory.pages.forget_chunks(start, end);
    memory.regions.remove(start, end);
    // All that there are would be looked at for each of many threads that end.
    while let Some((&page, _)) = memory.kept.range(start..end).next() {
        memory.kept.remove(&page);
    }
    while let Some(&page) = memory.exempt.range(start..end).next() {
        memory.exempt.remove(&page);
    }
    let ended = memory.objects.remove(start, end);
    pager.choice.end_objects(&ended);
}

/// The program has moved a range. To the policy, its pages are new at the new place.
fn remapped(pager: &mut Pager, from: usize, to: usize, length: usize) {
    let moved = pager.memory.managed_parts(from, from + length);
    drop_contents(pager, to, to + length);
    pager.memory.forget_guards(to, to + length);
    let ended = pager.memory.objects.relocate(from, to, length);
    pager.choice.end_objects(&ended);
    for (start, end) in moved {
        pager.memory.regions.remove(start, end);
        pager.memory.regions.add(start - from + to, end - from + to);
    }
    for old in pager.memory.known(from, from + length) {
        let address = pager.memory.pages.address(old) - from + to;
        change_id(pager, old, address);
    }
    pager.memory.pages.forget_chunks(from, from + length);
}

/// A page is at another address from now on, where it has another id. To the policy, it is new.
fn change_id(pager: &mut Pager, old: PageId, address: usize) {
    let new = pager.memory.pages.find_or_insert(address);
    let state = pager.memory.pages.state(old);
    let referenced = pager.memory.pages.has(old, Flag::Referenced);
    match state {
        State::Limbo { .. } => {
            let (from, to) = (pager.limbo(old), pager.limbo(new));
            move_own(pager.program.staging_mover(), to, from);
        }
        State::Writing(place) => pager.disk.staging.rename(place, new),
        State::Reading(place) => {
            pager.disk.staging.rename(place, new);
            // The read's end wakes those who wait at the new address.
            pager.program.wake(pager.memory.pages.address(old));
        }
        _ => {}
    }
    let entry = if let State::Pooled(entry) = state { Some(entry) } else { None };
    if let Some(pool) = &mut pager.disk.pool {
        pool.rename(entry, old, new);
    }
    if state.kept().is_some() || entry.is_some() {
        pager.anon.sums.renamed(old, new);
    }
    pager.choice.remove(old);
    pager.memory.pages.set(old, State::Absent);
    pager.memory.pages.set(new, state);
    match state {
        State::Resident { .. } | State::Limbo { .. } => {
            pager.memory.pages.mark(new, Flag::Referenced, referenced);
            arrive(pager, new);
        }
        State::Pinned => pager.memory.pinned.push_back(new.0),
        _ => {}
    }
}

/// Takes the descriptor of a child whose fork was not announced.
fn forked(pager: &mut Pager, descriptor: i32) {
    // SAFETY: the kernel has just put this descriptor into our table.
    let child = Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    if !pager.memory.managed {
        // No page is paged out, and no page of the child will be.
        return;
    }
    // The thread that forks waits until this message is read.
    pager.anon.hold_for_fork();
    pager.program.orphans.push(child);
}

/// A page that the agent believed to be mapped is missing: the program has dropped it or changed
/// its mapping. Or it is poisoned.
pub(crate) fn vanished(pager: &mut Pager, page: PageId) {
    let address = pager.memory.pages.address(page);
    catch_up(pager);
    if pager.memory.is_thought_mapped(page, address) {
        forget(pager, page);
    }
    pager.program.wake(address);
}

/// Keeps mappings from moving until [`MAILBOX`] lets go, and learns of all earlier moves. After
/// `MOST_MOVE_CHECKS` it goes on regardless: see above.
pub(crate) fn block_moves(pager: &mut Pager) {
    for check in 0..MOST_MOVE_CHECKS {
        if MAILBOX.try_block_moves() && !pager.program.has_changes() {
            return;
        }
        MAILBOX.allow_moves();
        catch_up(pager);
        match check < MOVE_CHECKS_AWAKE {
            true => kernel::sched_yield(),
            false => kernel::sleep(MOVE_PAUSE_NS),
        }
    }
    MAILBOX.forget_moves();
    catch_up(pager);
    MAILBOX.try_block_moves();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults;
    use crate::paging::transfer::reap;
    use crate::testing::{at, message, pager, pager_with_pool};
    use rustix::io::Errno;
    use sweephand_uffd::PAGE_BYTES;

    fn page(pager: &Pager, number: usize) -> State {
        pager.memory.pages.state_at(at(number))
    }

    /// Pager in which the first pages have been evicted and the last ones are there. Each page has
    /// its number for its contents.
    fn paged(count: usize) -> (Pager, alloc::rc::Rc<core::cell::RefCell<crate::testing::World>>) {
        let (mut pager, world) = pager();
        for number in 0..count {
            faults::answer(&mut pager, at(number));
            world.borrow_mut().mapped.insert(at(number), number as u8);
            reap(&mut pager);
        }
        assert!(matches!(page(&pager, 0), State::Stored(_)) && page(&pager, count - 1) == State::RESIDENT);
        (pager, world)
    }

    #[test]
    fn dropped_pages_are_zeros_again_wherever_they_were() {
        let (mut pager, world) = paged(80);
        let change = message(Event::Remove { start: at(0), end: at(80) }, 0);
        pager.program.messages.push_back(change);
        apply_read(&mut pager);
        world.borrow_mut().drop_contents(at(0), at(80));
        assert_eq!(pager.memory.pages.resident(), 0);
        assert!(pager.disk.store.current_is_empty());
        for number in [0, 79] {
            assert_eq!(page(&pager, number), State::Absent, "{number}");
            faults::answer(&mut pager, at(number));
            assert_eq!(world.borrow().mapped[&at(number)], 0, "{number}");
        }
    }

    #[test]
    fn a_page_that_is_dropped_while_it_is_read_does_not_come_back() {
        let (mut pager, world) = paged(80);
        faults::answer(&mut pager, at(0));
        assert!(matches!(page(&pager, 0), State::Reading(_)));
        assert_eq!(pager.disk.incoming, 1);
        apply(&mut pager, message(Event::Unmap { start: at(0), end: at(1) }, 0));
        assert_eq!(pager.disk.incoming, 0);
        reap(&mut pager);
        assert_eq!(page(&pager, 0), State::Absent);
        assert!(!world.borrow().mapped.contains_key(&at(0)));
        assert_eq!(pager.memory.regions.end_of(at(0)), None);
    }

    #[test]
    fn a_page_that_is_moved_while_it_is_read_arrives_at_its_new_place() {
        let (mut pager, world) = paged(80);
        faults::answer(&mut pager, at(3));
        let (from, to, length) = (at(2), at(102), 2 * PAGE_BYTES);
        apply(&mut pager, message(Event::Remap { from, to, length }, 0));
        assert!(matches!(page(&pager, 103), State::Reading(_)));
        reap(&mut pager);
        assert!(matches!(page(&pager, 103), State::Resident { kept: Some(_) }));
        assert_eq!(world.borrow().mapped.get(&at(103)), Some(&3));
        // One that was in the store is there under its new id.
        assert!(matches!(page(&pager, 102), State::Stored(_)));
        faults::answer(&mut pager, at(102));
        reap(&mut pager);
        assert_eq!(world.borrow().mapped.get(&at(102)), Some(&2));
        assert_eq!(page(&pager, 2), State::Absent);
    }

    #[test]
    fn a_page_in_compressed_memory_is_dropped_and_moved_like_others() {
        let (mut pager, world) = pager_with_pool(4);
        for number in 0..60 {
            faults::answer(&mut pager, at(number));
            world.borrow_mut().mapped.insert(at(number), number as u8);
        }
        assert!([0, 1, 2].iter().all(|&number| matches!(page(&pager, number), State::Pooled(_))));
        assert!(pager.disk.store.current_is_empty(), "there is room for all");
        let before = pager.disk.pool().used_bytes();
        apply(&mut pager, message(Event::Remap { from: at(0), to: at(100), length: PAGE_BYTES }, 0));
        apply(&mut pager, message(Event::Unmap { start: at(1), end: at(2) }, 0));
        assert!(matches!(page(&pager, 100), State::Pooled(_)));
        assert_eq!([0, 1].map(|number| page(&pager, number)), [State::Absent; 2]);
        assert!(pager.disk.pool().used_bytes() < before);
        // What was moved comes back at its new place, however often the kernel refuses it.
        world.borrow_mut().errors.extend([Errno::AGAIN; 3]);
        faults::answer(&mut pager, at(100));
        assert_eq!(world.borrow().mapped.get(&at(100)), Some(&0));
        apply(&mut pager, message(Event::Remove { start: at(0), end: at(101) }, 0));
        assert_eq!(pager.disk.pool().used_bytes(), 0);
    }

    #[test]
    fn what_was_at_the_place_of_a_move_is_gone() {
        let (mut pager, _) = paged(80);
        let (from, to, length) = (at(79), at(0), PAGE_BYTES);
        apply(&mut pager, message(Event::Remap { from, to, length }, 0));
        assert_eq!((page(&pager, 0), page(&pager, 79)), (State::RESIDENT, State::Absent));
        let resident = (0..80).filter(|&number| page(&pager, number) == State::RESIDENT).count();
        assert_eq!(pager.memory.pages.resident(), resident);
    }

    #[test]
    fn a_page_thought_to_be_mapped_that_is_missing_is_forgotten() {
        let (mut pager, world) = paged(80);
        world.borrow_mut().mapped.remove(&at(79));
        let id = pager.memory.pages.find(at(79)).unwrap();
        vanished(&mut pager, id);
        assert_eq!(page(&pager, 79), State::Absent);
        // One that is elsewhere by now is left alone.
        let id = pager.memory.pages.find(at(0)).unwrap();
        vanished(&mut pager, id);
        assert!(matches!(page(&pager, 0), State::Stored(_)));
    }
}
