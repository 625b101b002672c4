//! Memory that the command lends: the agent asks for frames and carries out the command's orders.
//!
//! While an agent waits for frames, or its task is suspended, it only carries out orders. A task is
//! suspended by leaving its faults unanswered, so its pages can still be taken.

use crate::changes::block_moves;
use crate::choose::insert;
use crate::evict::{evict, evict_batch, unmap};
use crate::failure::give_up;
use crate::kernel::{PAGE_BYTES, PollFd};
use crate::lease::{FIRST_FRAMES, Instruction, Report};
use crate::mailbox::MAILBOX;
use crate::pages::Flag;
use crate::rooms::Rooms;
use crate::staging::Phase;
use crate::tenant::Tenant;
use crate::transfer::reap;
use crate::wait::poll;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sweephand_policy::PageId;

/// Fewest frames asked for beside those that are needed at once.
const LEAST_SPARE: usize = 4;

fn tenant(rooms: &mut Rooms) -> &mut Tenant {
    rooms.choice.chooser.tenant().expect("memory is lent")
}

/// Frames that this process takes, with so many pages more.
fn frames_needed(rooms: &Rooms, pages: usize) -> usize {
    rooms.taken() + frames_apart(rooms) + pages
}

/// Frames that are not for managed pages.
fn frames_apart(rooms: &Rooms) -> usize {
    rooms.own_pages() + if rooms.memory.managed { 0 } else { FIRST_FRAMES }
}

/// What `make_room` is where memory is lent: asks for frames, and gives back those that are too
/// many. Returns without them only if [`must_manage`].
///
/// Ends when the command has answered. It answers every question, or ends the run.
pub(crate) fn borrow_room(rooms: &mut Rooms, pages: usize) {
    let batch = rooms.disk.staging.batch_pages();
    while !must_manage(rooms) {
        let (needed, apart) = (frames_needed(rooms, pages), frames_apart(rooms));
        let tenant = tenant(rooms);
        if !tenant.asked {
            let spare = (tenant.granted / 32).clamp(LEAST_SPARE, batch);
            if needed <= tenant.granted {
                let idle = tenant.granted - needed;
                // Between faults only: what is being taken under management is yet to be counted
                // page by page.
                if pages == 0 && idle > 2 * batch {
                    tenant.granted -= idle - spare;
                    tenant.push(Report::Give.word(idle - spare));
                    tenant.flush();
                }
                return;
            }
            tenant.asked = true;
            tenant.push(Report::Own.word(apart));
            tenant.push(Report::Ask.word(needed - tenant.granted + spare));
            tenant.flush();
        }
        wait_for_orders(rooms);
    }
}

/// Whether the command has ordered all pages to be unmapped, and they are not managed yet. Then
/// the caller, between faults, manages them and calls [`freeze`].
pub(crate) fn must_manage(rooms: &mut Rooms) -> bool {
    !rooms.memory.managed && rooms.choice.chooser.tenant().is_some_and(|tenant| tenant.freeze_is_due)
}

/// Carries out the orders that have come, and goes no further while the task is not active, unless
/// [`must_manage`]. Ends when the command lets the task go on.
pub(crate) fn obey(rooms: &mut Rooms) {
    if !rooms.is_lent() {
        return;
    }
    follow(rooms);
    while tenant(rooms).is_suspended && !must_manage(rooms) {
        wait_for_orders(rooms);
    }
}

/// Reports to the command. It needs the reports when it next looks for a victim, so they need not
/// be sent at once.
pub(crate) fn report(rooms: &mut Rooms, at_once: bool) {
    let reading = rooms.disk.staging.count(Phase::Reading);
    let Some(tenant) = rooms.choice.chooser.tenant() else { return };
    tenant.board.reading.store(reading as u32, Ordering::Relaxed);
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let time_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    tenant.board.agent_ns.store(time_ns, Ordering::Relaxed);
    if at_once || tenant.has_much_to_send() {
        tenant.flush();
    }
}

/// Waits until the command has ordered something. Reads and writes go on meanwhile.
fn wait_for_orders(rooms: &mut Rooms) {
    rooms.disk.io.submit();
    report(rooms, true);
    let Some(tenant) = rooms.choice.chooser.tenant() else { return };
    let ring = rooms.disk.io.descriptor().map(AsFd::as_fd);
    let count = 1 + usize::from(ring.is_some());
    let mut descriptors = [tenant.orders(), ring.unwrap_or(tenant.orders())]
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut descriptors[..count], None) {
        Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
        Err(error) => give_up(format_args!("the pager cannot wait for memory: {error}")),
    }
    follow(rooms);
    reap(rooms);
}

/// Follows the command's instructions so far. Ends with the last message that has come.
fn follow(rooms: &mut Rooms) {
    while let Some(message) = tenant(rooms).receive() {
        let mut watched = Vec::new();
        for &word in &message {
            let Some((instruction, operand)) = Instruction::parse(word) else {
                give_up(format_args!("sweephand run is of another version"))
            };
            let is_known = operand < rooms.memory.pages.ids();
            match instruction {
                Instruction::Grant => tenant(rooms).granted += operand as usize,
                Instruction::Evict if is_known => tenant(rooms).victims.push_back(PageId(operand)),
                Instruction::Give => give(rooms, operand as usize),
                Instruction::Watch if is_known => watched.push(PageId(operand)),
                // Ids are never taken back, so this cannot be.
                Instruction::Evict | Instruction::Watch => {}
                // The process that had to wait for it has.
                Instruction::Admitted => {}
                Instruction::Suspend => tenant(rooms).is_suspended = true,
                Instruction::Resume => tenant(rooms).is_suspended = false,
                Instruction::Freeze if rooms.memory.managed => freeze(rooms),
                Instruction::Freeze => tenant(rooms).freeze_is_due = true,
                Instruction::Answered => {
                    evict_named(rooms);
                    tenant(rooms).asked = false;
                }
                Instruction::Refuse => give_up(format_args!(
                    "the memory that the tasks share is too small: no page can be taken from them any more"
                )),
            }
        }
        evict_named(rooms);
        unmap_pages(rooms, watched);
        tenant(rooms).give_back(message);
    }
}

/// Evicts what the command has named. Ends: each eviction takes pages out of the list.
fn evict_named(rooms: &mut Rooms) {
    while let Some(page) = tenant(rooms).victims.pop_front() {
        tenant(rooms).push(Report::Evicted.word(page.index()));
        let is_here = rooms.memory.pages.state(page).is_evictable();
        if is_here && !rooms.memory.pages.mark(page, Flag::Condemned, true) {
            rooms.choice.condemned.push(page);
        }
        evict_batch(rooms);
    }
    while !rooms.choice.condemned.is_empty() {
        evict(rooms);
    }
}

/// Gives frames to others: those of the pages just evicted, or others that are idle.
fn give(rooms: &mut Rooms, frames: usize) {
    evict_named(rooms);
    let needed = frames_needed(rooms, 0);
    let tenant = tenant(rooms);
    let given = frames.min(tenant.granted.saturating_sub(needed));
    tenant.granted -= given;
    tenant.push(Report::Give.word(given));
    tenant.push(Report::Done.word(frames));
    tenant.flush();
}

/// Unmaps pages, so that their next touch is seen.
fn unmap_pages(rooms: &mut Rooms, mut pages: Vec<PageId>) {
    if pages.is_empty() {
        return;
    }
    block_moves(rooms);
    pages.sort_unstable();
    let mut rest = pages.as_slice();
    while let Some(&first) = rest.first() {
        let table = &rooms.memory.pages;
        let address = table.address(first);
        let follows = |index: &usize| {
            rest[*index].0 == first.0 + *index as u32
                && table.address(rest[*index]) == address + index * PAGE_BYTES
        };
        let end = (1..rest.len()).find(|index| !follows(index)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        unmap(rooms, run);
        rest = behind;
    }
    MAILBOX.allow_moves();
}

/// Unmaps all managed pages: a thread that goes on faults, and waits.
pub(crate) fn freeze(rooms: &mut Rooms) {
    tenant(rooms).freeze_is_due = false;
    let pages = &rooms.memory.pages;
    let mapped = (0..pages.ids()).map(PageId).filter(|&page| pages.is_resident(page));
    let mapped = mapped.collect();
    unmap_pages(rooms, mapped);
}

/// A process is about to be forked: the socket of its lease, if memory is lent.
pub(crate) fn announce_child(rooms: &mut Rooms) -> Option<Result<OwnedFd, Errno>> {
    rooms.choice.chooser.tenant().map(Tenant::announce)
}

/// In a child: a lease of its own, over as many frames as it has. Its parent waits for that: what
/// either writes to, the two do not share any more.
pub(crate) fn renew_lease(rooms: &mut Rooms, socket: OwnedFd) {
    let (granted, control) = (frames_needed(rooms, 0), rooms.control);
    let tenant = tenant(rooms);
    tenant.reconnect(control, granted, socket);
    rooms.memory.pages.board = Some(tenant.board);
}

/// In a child with a lease of its own: reports its pages to the command.
pub(crate) fn report_pages(rooms: &mut Rooms) {
    if !rooms.is_lent() {
        return;
    }
    for page in (0..rooms.memory.pages.ids()).map(PageId) {
        if rooms.memory.pages.state(page).is_evictable() {
            insert(rooms, page);
            rooms.memory.pages.mark(page, Flag::Referenced, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Chooser;
    use crate::faults;
    use crate::own;
    use crate::pages::State;
    use crate::stock::take_stock;
    use crate::testing::{at, rooms};
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    /// Rooms whose frames are lent by what is at the other end of a socket.
    fn lent() -> (Rooms, OwnedFd) {
        let (mut rooms, _) = rooms();
        let (ours, commands) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let tenant = Tenant::begin(rooms.control, 0, Ok(ours));
        rooms.memory.pages.board = Some(tenant.board);
        rooms.choice.chooser = Chooser::Lent(tenant);
        rooms.choice.arrivals = crate::bits::Arrivals::new(0, 0);
        (rooms, commands)
    }

    fn instruct(command: &OwnedFd, instructions: &[(Instruction, usize)]) {
        let words =
            instructions.iter().flat_map(|&(instruction, operand)| instruction.word(operand).to_ne_bytes());
        send(command, &words.collect::<Vec<u8>>(), SendFlags::empty()).unwrap();
    }

    #[test]
    fn frames_are_asked_for_and_taken_back() {
        let (mut rooms, command) = lent();
        let wanted = frames_needed(&rooms, 10);
        instruct(&command, &[(Instruction::Grant, wanted), (Instruction::Answered, 0)]);
        borrow_room(&mut rooms, 10);
        assert_eq!(rooms.choice.chooser.granted(), Some(wanted));
        for number in 0..10 {
            faults::answer(&mut rooms, at(number));
        }
        let page = rooms.memory.pages.find(at(3)).unwrap();
        instruct(&command, &[(Instruction::Evict, page.index()), (Instruction::Give, 1)]);
        obey(&mut rooms);
        assert_eq!(rooms.choice.chooser.granted(), Some(wanted - 1));
        assert!(matches!(rooms.memory.pages.state(page), State::Writing(_)));
    }

    #[test]
    fn pages_that_are_found_present_have_frames_by_then() {
        const PAGES: usize = 200;
        let (mut rooms, command) = lent();
        let start = own::map(PAGES * PAGE_BYTES).unwrap();
        // All but every fourth page are present.
        let present = (0..PAGES).filter(|page| page % 4 > 0);
        // SAFETY: this is a mapping of the test.
        present.clone().for_each(|page| unsafe { ((start + page * PAGE_BYTES) as *mut u8).write(1) });
        let granted = frames_needed(&rooms, PAGES + 64);
        instruct(&command, &[(Instruction::Grant, granted), (Instruction::Answered, 0)]);
        take_stock(&mut rooms, start, start + PAGES * PAGE_BYTES);
        assert_eq!(rooms.memory.pages.resident(), present.count());
        assert!(frames_needed(&rooms, 0) <= granted);
    }

    #[test]
    fn a_task_whose_memory_is_not_managed_manages_it_before_it_is_frozen() {
        let (mut rooms, command) = lent();
        rooms.memory.managed = false;
        instruct(&command, &[(Instruction::Freeze, 0), (Instruction::Suspend, 0)]);
        obey(&mut rooms);
        assert!(must_manage(&mut rooms));
        // It does not wait for frames either.
        borrow_room(&mut rooms, 1 << 20);
        rooms.memory.managed = true;
        freeze(&mut rooms);
        assert!(!must_manage(&mut rooms));
        instruct(&command, &[(Instruction::Resume, 0)]);
        obey(&mut rooms);
    }
}
