//! Pages on their way through the choice: they come in, get to the policy, and are condemned.

use crate::choice::exact_bits::Queue;
use crate::control::add;
use crate::kernel::PAGE_BYTES;
use crate::paging::pager::Pager;
use crate::state::pages::{Flag, State};
use sweephand_policy::PageId;

/// Notes that a page is now in memory.
pub(crate) fn arrive(pager: &mut Pager, page: PageId) {
    if pager.memory.is_kept(page) {
        free_slot(pager, page);
    }
    pager.mode.on_arrival(pager, page, true);
}

/// A page sets out for the policy, and the one that has been longest on its way gets there. One
/// that a fault has asked for gets there at once if its reference bit can be read.
pub(crate) fn set_out(pager: &mut Pager, page: PageId, is_asked: bool) {
    if is_asked && pager.choice.arrivals.is_for_unasked() && !pager.memory.is_kept(page) {
        return insert(pager, page);
    }
    pager.choice.arrive(&mut pager.memory, page);
    let most = pager.choice.arrivals.most();
    while let Some(page) = pager.choice.leave(&mut pager.memory, most) {
        get_there(pager, page);
    }
}

/// A page has been long enough on its way to the policy. If no fault had asked for it and it was
/// not used, the policy never hears of it, and it is the next to go.
fn get_there(pager: &mut Pager, page: PageId) {
    if !pager.choice.arrivals.is_for_unasked() {
        return insert(pager, page);
    }
    let address = pager.memory.pages.address(page);
    let is_used = pager.memory.pages.mark(page, Flag::Referenced, false)
        || pager.memory.pages.is_resident(page) && pager.anon.is_touched(&pager.program.pagemap, address);
    pager.disk.around.was_used(address / PAGE_BYTES, is_used);
    if is_used {
        // Its use stands for the fault that it would have been.
        forget_access(pager, page);
        insert(pager, page);
    } else {
        add(&pager.control.counters.unused_pages, 1);
        pager.choice.mark_condemned(&mut pager.memory, page);
    }
}

/// Notes that a page is now in memory at a place where none was. `awaited`: a thread waits for it.
pub(crate) fn came_in(pager: &mut Pager, page: PageId, awaited: bool) {
    if let Some(queues) = pager.anon.queues() {
        queues.look_again_at(pager.memory.pages.address(page));
    }
    if awaited {
        forget_access(pager, page);
    }
    pager.account.moved(1);
    match awaited {
        true => arrive(pager, page),
        false => {
            add(&pager.control.counters.unasked_pages, 1);
            pager.mode.on_arrival(pager, page, false);
        }
    }
}

/// The access that has brought a page in does not count as a use, if bits can be read.
fn forget_access(pager: &mut Pager, page: PageId) {
    if let Some(queues) = pager.anon.queues() {
        queues.add(&mut pager.memory.pages, page, Queue::Awaited);
    }
}

/// A page that the policy has given up turns out to be in use. To the policy it comes in anew.
/// Returns whether it had been given up.
pub(crate) fn spare(pager: &mut Pager, page: PageId) -> bool {
    let is_condemned = pager.memory.pages.mark(page, Flag::Condemned, false);
    if is_condemned {
        arrive(pager, page);
    }
    is_condemned
}

/// A page must stay where it is for now: it leaves the policy, or its way there.
pub(crate) fn withdraw(pager: &mut Pager, page: PageId) {
    pager.choice.remove(page);
    pager.memory.pages.mark(page, Flag::Condemned, false);
    pager.memory.pages.mark(page, Flag::Arriving, false);
    free_slot(pager, page);
    pager.memory.pages.set(page, State::Pinned);
}

/// A page in memory that is about to stay there has no use for its slot.
fn free_slot(pager: &mut Pager, page: PageId) {
    let state = pager.memory.pages.state(page);
    if let Some(slot) = state.kept() {
        pager.disk.store.free(slot);
        pager.memory.pages.set(page, state.without_slot());
    }
}

/// Hands a page to the policy: first the fault, then the eviction that it needs, then the page. The
/// caller has just made the page count as the policy's.
pub(crate) fn insert(pager: &mut Pager, page: PageId) {
    pager.choice.fault(&pager.memory, page);
    let most = pager.policy_pages();
    while pager.memory.pages.owned() > most && condemn(pager) {}
    let exact = pager.anon.bits(&pager.program.pagemap);
    pager.choice.insert(&mut pager.memory, page, exact);
}

/// Lets the policy choose a page to evict. Returns false if it has none.
pub(crate) fn condemn(pager: &mut Pager) -> bool {
    let exact = pager.anon.bits(&pager.program.pagemap);
    let Some(page) = pager.choice.condemn(&mut pager.memory, exact) else { return false };
    // Until the page goes it is watched for a touch.
    if let Some(queues) = pager.anon.queues() {
        queues.watch(&mut pager.memory.pages, page);
    }
    true
}

/// Condemns pages until there are this many. If the policy has none to give, pages that are on
/// their way to the policy go to it. Ends when there are none of either.
pub(crate) fn condemn_some(pager: &mut Pager, count: usize) {
    pager.choice.forget_spared(&pager.memory);
    while pager.choice.condemned.len() < count {
        if !condemn(pager) {
            match pager.choice.leave(&mut pager.memory, 0) {
                Some(page) => get_there(pager, page),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::pages::State;
    use crate::testing::{at, pager};

    #[test]
    fn the_policy_never_owns_more_pages_than_it_may() {
        let (mut pager, _) = pager();
        for number in 0..60 {
            let page = pager.memory.pages.find_or_insert(at(number));
            pager.memory.pages.set(page, State::RESIDENT);
            came_in(&mut pager, page, true);
            // The page that has just been inserted comes on top.
            assert!(pager.memory.pages.owned() <= pager.policy_pages() + 1, "{number}");
        }
        assert!(!pager.choice.condemned.is_empty());
    }

    #[test]
    fn pages_on_their_way_to_the_policy_go_to_it_when_it_has_no_others() {
        let (mut pager, _) = pager();
        for number in 0..2 {
            let page = pager.memory.pages.find_or_insert(at(number));
            pager.memory.pages.set(page, State::RESIDENT);
            arrive(&mut pager, page);
        }
        assert!(!condemn(&mut pager));
        condemn_some(&mut pager, 5);
        assert_eq!(pager.choice.condemned.len(), 2);
    }

    #[test]
    fn a_page_that_is_withdrawn_is_nothing_to_the_policy() {
        let (mut pager, _) = pager();
        let page = pager.memory.pages.find_or_insert(at(0));
        pager.memory.pages.set(page, State::RESIDENT);
        arrive(&mut pager, page);
        withdraw(&mut pager, page);
        assert_eq!((pager.memory.pages.owned(), pager.memory.pages.pinned()), (0, 1));
        condemn_some(&mut pager, 1);
        assert!(pager.choice.condemned.is_empty());
    }
}
