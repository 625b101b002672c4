//! Pages on their way through the choice: they come in, get to the policy, and are condemned.

use crate::control::add;
use crate::exact_bits::Queue;
use crate::kernel::PAGE_BYTES;
use crate::pages::{Flag, State};
use crate::rooms::Rooms;
use sweephand_policy::PageId;

/// Notes that a page is now in memory. The page that has been longest on its way to the policy gets
/// there.
pub(crate) fn arrive(rooms: &mut Rooms, page: PageId) {
    if rooms.memory.is_kept(page) {
        free_slot(rooms, page);
    }
    if rooms.control.order.is_recording() {
        return set_out(rooms, page);
    }
    match rooms.choice.arrivals.is_for_unasked() && !rooms.memory.is_kept(page) {
        true => insert(rooms, page),
        false => set_out(rooms, page),
    }
}

/// A page sets out for the policy, and the one that has been longest on its way gets there.
fn set_out(rooms: &mut Rooms, page: PageId) {
    // No policy chooses pages of a program that is recorded.
    if rooms.control.order.is_recording() {
        if rooms.memory.is_kept(page) {
            rooms.memory.pages.set(page, State::Pinned);
        } else if let Some(window) = &mut rooms.window {
            window.add(&mut rooms.memory.pages, page);
        }
        return;
    }
    rooms.choice.arrive(&mut rooms.memory, page);
    let most = rooms.choice.arrivals.most();
    while let Some(page) = rooms.choice.leave(&mut rooms.memory, most) {
        get_there(rooms, page);
    }
}

/// A page has been long enough on its way to the policy. If no fault had asked for it and it was
/// not used, the policy never hears of it, and it is the next to go.
fn get_there(rooms: &mut Rooms, page: PageId) {
    if !rooms.choice.arrivals.is_for_unasked() {
        return insert(rooms, page);
    }
    let address = rooms.memory.pages.address(page);
    let is_used = rooms.memory.pages.mark(page, Flag::Referenced, false)
        || rooms.memory.pages.is_resident(page) && rooms.anon.is_touched(&rooms.program.pagemap, address);
    rooms.disk.around.was_used(address / PAGE_BYTES, is_used);
    if is_used {
        // Its use stands for the fault that it would have been.
        forget_access(rooms, page);
        insert(rooms, page);
    } else {
        add(&rooms.control.counters.unused_pages, 1);
        rooms.choice.give_up(&mut rooms.memory, page);
    }
}

/// Notes that a page is now in memory at a place where none was. `awaited`: a thread waits for it.
pub(crate) fn came_in(rooms: &mut Rooms, page: PageId, awaited: bool) {
    if let Some(queues) = rooms.anon.queues() {
        queues.look_again_at(rooms.memory.pages.address(page));
    }
    if awaited {
        forget_access(rooms, page);
    }
    rooms.account.moved(1);
    match awaited {
        true => arrive(rooms, page),
        false => {
            add(&rooms.control.counters.unasked_pages, 1);
            set_out(rooms, page);
        }
    }
}

/// The access that has brought a page in is not to count as a use, if bits can be read.
fn forget_access(rooms: &mut Rooms, page: PageId) {
    if let Some(queues) = rooms.anon.queues() {
        queues.add(&mut rooms.memory.pages, page, Queue::Awaited);
    }
}

/// A page that the policy has given up turns out to be in use. To the policy it comes in anew.
/// Returns whether it had been given up.
pub(crate) fn spare(rooms: &mut Rooms, page: PageId) -> bool {
    let is_condemned = rooms.memory.pages.mark(page, Flag::Condemned, false);
    if is_condemned {
        arrive(rooms, page);
    }
    is_condemned
}

/// A page must stay where it is for now: it leaves the policy, or its way there.
pub(crate) fn withdraw(rooms: &mut Rooms, page: PageId) {
    rooms.choice.remove(page);
    rooms.memory.pages.mark(page, Flag::Condemned, false);
    rooms.memory.pages.mark(page, Flag::Arriving, false);
    free_slot(rooms, page);
    rooms.memory.pages.set(page, State::Pinned);
}

/// A page in memory that is about to stay there has no use for its slot.
fn free_slot(rooms: &mut Rooms, page: PageId) {
    let state = rooms.memory.pages.state(page);
    if let Some(slot) = state.kept() {
        rooms.disk.store.free(slot);
        rooms.memory.pages.set(page, state.without_slot());
    }
}

/// Hands a page to the policy: first the fault, then the eviction that it needs, then the page. The
/// caller has just made the page count as the policy's.
pub(crate) fn insert(rooms: &mut Rooms, page: PageId) {
    rooms.choice.fault(&rooms.memory, page);
    let most = rooms.policy_pages();
    while rooms.memory.pages.owned() > most && condemn(rooms) {}
    let exact = rooms.anon.bits(&rooms.program.pagemap);
    rooms.choice.insert(&mut rooms.memory, page, exact);
}

/// Lets the policy choose a page to evict. Returns false if it has none.
pub(crate) fn condemn(rooms: &mut Rooms) -> bool {
    let exact = rooms.anon.bits(&rooms.program.pagemap);
    let Some(page) = rooms.choice.condemn(&mut rooms.memory, exact) else { return false };
    // Until the page goes it is watched for a touch.
    if let Some(queues) = rooms.anon.queues() {
        queues.watch(&mut rooms.memory.pages, page);
    }
    true
}

/// Condemns pages until there are this many. If the policy has none to give, pages that are on
/// their way to the policy go to it. Ends when there are none of either.
pub(crate) fn condemn_some(rooms: &mut Rooms, count: usize) {
    rooms.choice.forget_spared(&rooms.memory);
    while rooms.choice.condemned.len() < count {
        if !condemn(rooms) {
            match rooms.choice.leave(&mut rooms.memory, 0) {
                Some(page) => get_there(rooms, page),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::State;
    use crate::testing::{at, rooms};

    #[test]
    fn the_policy_never_owns_more_pages_than_it_may() {
        let (mut rooms, _) = rooms();
        for number in 0..60 {
            let page = rooms.memory.pages.meet(at(number));
            rooms.memory.pages.set(page, State::RESIDENT);
            came_in(&mut rooms, page, true);
            // The page that has just been inserted comes on top.
            assert!(rooms.memory.pages.owned() <= rooms.policy_pages() + 1);
        }
        assert!(!rooms.choice.condemned.is_empty());
    }

    #[test]
    fn pages_on_their_way_to_the_policy_go_to_it_when_it_has_no_others() {
        let (mut rooms, _) = rooms();
        for number in 0..2 {
            let page = rooms.memory.pages.meet(at(number));
            rooms.memory.pages.set(page, State::RESIDENT);
            arrive(&mut rooms, page);
        }
        assert!(!condemn(&mut rooms));
        condemn_some(&mut rooms, 5);
        assert_eq!(rooms.choice.condemned.len(), 2);
    }

    #[test]
    fn a_page_that_is_withdrawn_is_nothing_to_the_policy() {
        let (mut rooms, _) = rooms();
        let page = rooms.memory.pages.meet(at(0));
        rooms.memory.pages.set(page, State::RESIDENT);
        arrive(&mut rooms, page);
        withdraw(&mut rooms, page);
        assert_eq!((rooms.memory.pages.owned(), rooms.memory.pages.pinned()), (0, 1));
        condemn_some(&mut rooms, 1);
        assert!(rooms.choice.condemned.is_empty());
    }
}
