//! The calls of the program's threads: new memory, objects, advice, forks, limits.

use crate::control::add;
use crate::entry::locks;
use crate::kernel::PAGE_BYTES;
use crate::mailbox::{ARGUMENTS, Call, MAILBOX};
use crate::paging::ceded::{bring_back, cede, resume};
use crate::paging::changes::catch_up;
use crate::paging::during_fork::{before_fork, wait_for_fork};
use crate::paging::guards::guard;
use crate::paging::manage::{grown, keep_resident, release_resident};
use crate::paging::pager::Pager;
use crate::process::credentials;
use crate::process::last_thread::program_threads;
use crate::process::outlive;
use crate::process::own;
use crate::store::staging::SEGMENT_BYTES;
use sweephand_pager_interface::recording::Item;

/// Bits of a user space address.
const ADDRESS_BITS: u32 = 47;
/// Most bytes that the pager's and the policy's tables take for a page. Arrays double when they
/// grow.
const TABLE_BYTES: usize = 96;
/// Bytes for stacks and for what else children need.
const SPARE_BYTES: usize = 16 << 20;
/// Bytes that the pager has but does not list as its own: rings, blocks shared with the command.
const UNLISTED_BYTES: usize = 2 << 20;

/// Answers the threads of the program that have made calls. Ends: each turn answers one of at most
/// as many calls as there are slots. Only a fork adds calls, and while it is under way no other
/// fork is announced.
pub(crate) fn answer_all(pager: &mut Pager) {
    pager.program.clear_bells();
    // A child whose fork was not announced has no agent and makes no calls.
    let (rung, _) = pager.program.read_bells();
    let mut slots = rung | MAILBOX.take_posted();
    while slots != 0 {
        let slot = slots.trailing_zeros() as usize;
        slots &= slots - 1;
        if let Some((call, arguments)) = MAILBOX.call_of(slot) {
            let answer = answer(pager, call, arguments);
            MAILBOX.answer(slot, answer);
        }
        // The threads that wait there go on, even if the call was answered before.
        pager.program.put_bell(slot, pager.disk.staging.zeros());
        // Calls that arrive during a fork are answered now.
        slots |= wait_for_fork(pager);
    }
}

/// Answers one call.
fn answer(pager: &mut Pager, call: Call, arguments: [usize; ARGUMENTS]) -> isize {
    let [first, second, third] = arguments;
    match call {
        Call::Grown => grown(pager, first, first + second, third != 0),
        Call::Stack => _ = pager.memory.exempt.insert(first),
        Call::NotInherited => pager.memory.not_inherited.add(first, first + second),
        Call::Inherited => pager.memory.not_inherited.remove(first, first + second),
        call @ (Call::Object | Call::Resized) => object(pager, call, first, first + second),
        Call::BeforeFork => before_fork(pager, first, second),
        Call::Credentials => credentials::take_on_rights(),
        Call::Reserve => return reserve(first) as isize,
        Call::KeepResident => keep_resident(pager, first, first + second),
        Call::ReleaseResident => release_resident(pager, first, first + second),
        Call::Threads => return program_threads().map_or(-1, |count| count as isize),
        Call::Mappings => return locks::list(first),
        Call::Guard => return guard(pager, first, second, third as u32),
        Call::Cede => cede(pager, first, first + second),
        Call::Outlive => outlive::ask(),
        Call::Sharer => pager.program.sharers.add(first as i32),
        Call::BringBack => bring_back(pager, first, first + second),
        Call::Resume => resume(pager, first, first + second),
        Call::CatchUp if pager.memory.managed => catch_up(pager),
        Call::CatchUp => {}
        // `wait_for_fork` has waited for this call.
        Call::AfterFork => {}
    }
    0
}

/// The program has an object at `start`, a new one or one with another end.
fn object(pager: &mut Pager, call: Call, start: usize, end: usize) {
    // Earlier changes at this address must be applied first.
    if pager.memory.managed {
        catch_up(pager);
    }
    let ended = match call {
        Call::Object => pager.memory.objects.add(start, end),
        _ => pager.memory.objects.extend(start, end),
    };
    add(&pager.control.counters.objects, u64::from(call == Call::Object));
    let pages = (end - start).div_ceil(PAGE_BYTES) as u64;
    pager.mode.on_change(pager, Item::Mapped { page: (start / PAGE_BYTES) as u64, pages });
    // Pages that are here already were mapped in place of others. They belong to this object now.
    for page in pager.memory.known(start, end) {
        let object = pager.memory.objects.at(start);
        let exact = pager.anon.bits(&pager.program.pagemap);
        pager.choice.assign(&mut pager.memory, page, object, exact);
    }
    pager.choice.end_objects(&ended);
}

/// Reserves address space for what the pager will need to manage this many bytes of the program.
/// Returns how many bytes the pager has then.
fn reserve(bytes: usize) -> usize {
    // Each page needs a place in limbo, in whole segments, and entries in the tables.
    let bytes = bytes.min(1 << ADDRESS_BITS);
    own::reserve(bytes + 2 * SEGMENT_BYTES + bytes / PAGE_BYTES * TABLE_BYTES + SPARE_BYTES);
    let library = own::library().map_or(0, |(start, end)| end - start);
    own::mappings().map(|(start, end)| end - start).sum::<usize>() + library + UNLISTED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, pager};

    #[test]
    fn ranges_that_children_do_not_inherit_are_remembered() {
        let (mut pager, _) = pager();
        answer(&mut pager, Call::NotInherited, [at(0), 4 * PAGE_BYTES, 0]);
        answer(&mut pager, Call::Inherited, [at(1), PAGE_BYTES, 0]);
        let left: alloc::vec::Vec<_> = pager.memory.not_inherited.iter().collect();
        assert_eq!(left, [(at(0), at(1)), (at(2), at(4))]);
    }

    #[test]
    fn objects_are_counted_and_end() {
        let (mut pager, _) = pager();
        answer(&mut pager, Call::Object, [at(0), 16 * PAGE_BYTES, 0]);
        answer(&mut pager, Call::Resized, [at(0), 32 * PAGE_BYTES, 0]);
        assert_eq!(pager.memory.objects.at(at(20)), 1);
        assert_eq!(pager.control.counters.objects.load(core::sync::atomic::Ordering::Relaxed), 1);
        crate::paging::changes::unmapped(&mut pager, at(0), at(64));
        assert_eq!(pager.memory.objects.at(at(20)), 0);
    }

    #[test]
    fn the_page_of_a_threads_descriptor_is_exempt() {
        let (mut pager, _) = pager();
        answer(&mut pager, Call::Stack, [at(9), 0, 0]);
        assert!(pager.memory.exempt.contains(&at(9)));
        crate::paging::changes::unmapped(&mut pager, at(0), at(10));
        assert!(pager.memory.exempt.is_empty());
    }
}
