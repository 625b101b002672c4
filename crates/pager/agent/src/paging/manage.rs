//! Memory comes under management: all of it, when it may not fit any more, and then each new
//! range.

use crate::division::LEAST_FRAMES;
use crate::kernel::clock;
use crate::kernel::{self, PAGE_BYTES};
use crate::mailbox::MAILBOX;
use crate::paging::changes::{block_moves, catch_up};
use crate::paging::guards::look_for_guards;
use crate::paging::lifecycle::{arrive, withdraw};
use crate::paging::pager::Pager;
use crate::paging::reclaim::make_room;
use crate::paging::stock::{native, present, take_stock};
use crate::paging::transfer::map_from_limbo;
use crate::process::failure::abort;
use crate::process::own::Retry;
use crate::process::rlimits;
use crate::state::pages::{State, page_start};
use alloc::vec::Vec;
use rustix::io::Errno;

/// If private memory exceeds the known amount by this part of all memory (within the two bounds
/// below), the agent searches the mappings.
const STRAY_PART: usize = 64;
const LEAST_STRAY_PAGES: usize = 64;
const MOST_STRAY_PAGES: usize = 1024;

/// The program has more memory. `is_new`: what was there before is gone.
pub(crate) fn grown(pager: &mut Pager, start: usize, end: usize, is_new: bool) {
    if is_new {
        pager.memory.ceded.remove(start, end);
    }
    if !pager.memory.managed {
        count_or_manage(pager);
    } else {
        // Earlier changes at this address must be applied first.
        catch_up(pager);
        register_again(pager, start, end);
        let registered = register(pager, start, end);
        registered.into_iter().for_each(|(start, end)| take_stock(pager, start, end));
        make_room(pager, 0);
    }
}

/// The memory that the hooks have reported may not fit. Counts what there is, and manages all of it
/// if it does not fit.
fn count_or_manage(pager: &mut Pager) {
    let reported = MAILBOX.native_bytes();
    let bytes: usize = native(pager).iter().map(|&(start, end)| end - start).sum();
    MAILBOX.correct_native_bytes(bytes as i64 - reported);
    if bytes as i64 > pager.room_bytes() {
        manage_all(pager);
    }
}

/// When it is time, checks how much memory the process takes besides the managed memory. Also finds
/// memory that no hook has reported, because the program made system calls without the C library.
pub(crate) fn watch(pager: &mut Pager) {
    if !pager.account.is_due(clock::coarse_ms()) {
        return;
    }
    let Some(anonymous) = pager.look() else { return };
    let budget = pager.control.order.budget_pages();
    let stray = (budget / STRAY_PART).clamp(LEAST_STRAY_PAGES, MOST_STRAY_PAGES);
    if !pager.memory.managed {
        let reported = MAILBOX.native_bytes() as usize / PAGE_BYTES;
        // The memory that counts may have grown as well.
        MAILBOX.allow(pager.room_bytes());
        if pager.mode.is_nearly_full(pager, anonymous) {
            manage_all(pager);
        } else if anonymous > pager.account.searched.max(reported + pager.own_pages()) + stray {
            pager.account.searched = anonymous;
            count_or_manage(pager);
        }
        return;
    }
    let Some(private) = pager.account.private() else { return };
    if private > pager.account.searched.max(pager.own_pages()) + stray {
        // Pages that this finds are counted one by one from now on, and no longer here.
        pager.account.forget_private();
        manage_all(pager);
        pager.look();
    }
    pager.account.searched = pager.account.private().unwrap_or(private);
}

/// Starts to manage all memory of the program.
pub(crate) fn manage_all(pager: &mut Pager) {
    let is_first = !core::mem::replace(&mut pager.memory.managed, true);
    if is_first {
        rlimits::refuse_cores();
    }
    // A thread that moves a mapping from now on asks first. A thread that moves one now will be
    // done before the kernel reports any change.
    block_moves(pager);
    MAILBOX.allow(-1);
    MAILBOX.allow_moves();
    // The pager manages small pages, and huge pages would only be split. A kernel without huge
    // pages refuses this call, which does no harm.
    let _ = kernel::disable_transparent_huge_pages(true);
    catch_up(pager);
    let native = native(pager);
    // Registers all of the memory first. Then registered memory cannot grow unseen while the agent
    // waits for the command, and while pages are counted.
    let registered: Vec<(usize, usize)> =
        native.iter().flat_map(|&(start, end)| register(pager, start, end)).collect();
    if is_first {
        pager.mode.begin_to_manage(pager, &native);
    }
    registered.into_iter().for_each(|(start, end)| take_stock(pager, start, end));
    make_room(pager, 0);
}

/// The program is about to be paged in these ranges, and the policy has seen no page yet. It is now
/// known how many frames it will have.
pub(crate) fn begin_to_page(pager: &mut Pager, ranges: &[(usize, usize)]) {
    pager.begin_to_page();
    let present: usize = ranges.iter().map(|&(start, end)| present(pager, start, end)).sum();
    let anonymous = pager.look().unwrap_or_default();
    pager.account.forget_private();
    let missing = pager.missing_pages();
    pager.renew_policy(anonymous.saturating_sub(present) + missing, LEAST_FRAMES);
}

/// Registers a range, except for exempt pages, so that its missing pages come through the agent.
/// Returns the parts that were not registered before.
fn register(pager: &mut Pager, start: usize, end: usize) -> Vec<(usize, usize)> {
    let (mut from, end) = (start, end.next_multiple_of(PAGE_BYTES));
    let exempt: Vec<usize> = pager.memory.exempt.range(start..end).copied().collect();
    let mut registered = Vec::new();
    for page in exempt {
        register_part(pager, from, page, &mut registered);
        from = page + PAGE_BYTES;
    }
    register_part(pager, from, end, &mut registered);
    registered
}

/// Registers what counts as managed of memory that has grown. Another thread may have unmapped a
/// part of a range after the agent had read the list of mappings, and before it registered the
/// range. The kernel then registers what is left, and reports no change, so the agent takes the
/// hole for registered. What is registered stays so.
fn register_again(pager: &mut Pager, start: usize, end: usize) {
    for (start, end) in pager.memory.managed_parts(start, end) {
        // What has disappeared meanwhile will be reported.
        let _ = register_range(pager, start, end);
    }
}

/// Asks the kernel to register a range, which it may refuse for a moment.
fn register_range(pager: &mut Pager, start: usize, end: usize) -> Result<(), Errno> {
    let mut retry = Retry::new();
    loop {
        match pager.program.register(start, end - start) {
            Err(Errno::NOMEM) if retry.wait() => {}
            answer => return answer,
        }
    }
}

fn register_part(pager: &mut Pager, start: usize, end: usize, registered: &mut Vec<(usize, usize)>) {
    if start >= end {
        return;
    }
    for (start, end) in pager.memory.unmanaged(start, end) {
        match register_range(pager, start, end) {
            Ok(()) => pager.memory.regions.add(start, end),
            // The range is not anonymous, or it has disappeared. The agent does not manage it.
            Err(Errno::INVAL | Errno::NOENT | Errno::PERM | Errno::BUSY) => continue,
            Err(error) => abort(format_args!(
                "memory at {start:#x} cannot be managed: {error}{}",
                if error == Errno::NOMEM { "; raise the sysctl vm.max_map_count" } else { "" }
            )),
        }
        look_for_guards(pager, start, end);
        registered.push((start, end));
    }
}

/// Keeps the pages of a range in memory from now on. A page that was never touched may stay
/// missing.
pub(crate) fn keep_resident(pager: &mut Pager, start: usize, end: usize) {
    for address in (page_start(start)..end).step_by(PAGE_BYTES) {
        *pager.memory.kept.entry(address).or_default() += 1;
        let Some(page) = pager.memory.pages.find(address) else { continue };
        if pager.memory.pages.is_in_limbo(page) && !map_from_limbo(pager, page) {
            continue;
        }
        if pager.memory.pages.is_resident(page) {
            withdraw(pager, page);
        }
    }
}

/// Undoes [`keep_resident`]. A page may be paged out again when it has no reason left to stay.
pub(crate) fn release_resident(pager: &mut Pager, start: usize, end: usize) {
    for address in (page_start(start)..end).step_by(PAGE_BYTES) {
        match pager.memory.kept.get_mut(&address) {
            None => continue,
            Some(1) => _ = pager.memory.kept.remove(&address),
            Some(count) => {
                *count -= 1;
                continue;
            }
        }
        if let Some(page) = pager.memory.pages.find(address)
            && pager.memory.pages.state(page) == State::Pinned
        {
            pager.memory.pages.set(page, State::RESIDENT);
            arrive(pager, page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults;
    use crate::testing::{at, pager};

    #[test]
    fn a_page_that_must_stay_stays_until_its_last_reason_is_gone() {
        let (mut pager, world) = pager();
        faults::answer(&mut pager, at(0));
        keep_resident(&mut pager, at(0), at(0) + 8);
        keep_resident(&mut pager, at(0), at(2));
        assert_eq!(pager.memory.pages.state_at(at(0)), State::Pinned);
        // One that was missing is kept from its first touch on.
        faults::answer(&mut pager, at(1));
        assert_eq!(pager.memory.pages.state_at(at(1)), State::Pinned);
        (2..100).for_each(|number| faults::answer(&mut pager, at(number)));
        assert!([0, 1].iter().all(|&number| world.borrow().mapped.contains_key(&at(number))));
        release_resident(&mut pager, at(0), at(2));
        assert_eq!(pager.memory.pages.state_at(at(0)), State::Pinned, "it has another reason");
        assert_eq!(pager.memory.pages.state_at(at(1)), State::RESIDENT);
        release_resident(&mut pager, at(0), at(1));
        assert_eq!(pager.memory.pages.state_at(at(0)), State::RESIDENT);
        assert!(pager.memory.kept.is_empty());
    }

    /// It may lie where the kernel had nothing to register when the agent registered the range.
    #[test]
    fn memory_that_has_grown_is_registered_even_if_it_counts_as_managed() {
        let (mut pager, world) = pager();
        grown(&mut pager, at(3), at(5), true);
        grown(&mut pager, at(5), at(6), false);
        assert_eq!(world.borrow().registered, [(at(3), at(5)), (at(5), at(6))]);
    }
}
