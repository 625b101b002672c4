//! Memory that the command lends: the agent asks for frames and carries out the command's orders.
//! The command has the policy, which may be one for many tasks.
//!
//! While an agent waits for frames, or its task is suspended, it only carries out orders. A task is
//! suspended by leaving its faults unanswered, so its pages can still be taken.

use crate::choice::tenant::Tenant;
use crate::kernel::passing::receive_file;
use crate::kernel::{PAGE_BYTES, PollFd};
use crate::lease::{FIRST_FRAMES, Instruction, Report};
use crate::mailbox::MAILBOX;
use crate::paging::changes::block_moves;
use crate::paging::evict::{evict, evict_batch, unmap};
use crate::paging::faults;
use crate::paging::lifecycle::{insert, set_out};
use crate::paging::manage::manage_all;
use crate::paging::pager::{Mode, Pager};
use crate::paging::transfer::reap;
use crate::process::failure::abort;
use crate::process::wait::poll;
use crate::state::pages::Flag;
use crate::store::staging::Phase;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sweephand_policy::PageId;

/// Fewest frames asked for beside those that are needed at once.
const LEAST_SPARE: usize = 4;

/// Frames that are requested at once for pages that are found present.
const PRESENT_AT_ONCE: usize = 64;

/// The command lends the program's frames.
pub(crate) struct Lent;

impl Mode for Lent {
    fn command_chooses(&self) -> bool {
        true
    }

    fn room(&self, pager: &Pager) -> usize {
        lease(pager).granted().saturating_sub(pager.apart_pages())
    }

    /// Lent memory does not include the kernel's share.
    fn apart_pages(&self, pager: &Pager) -> usize {
        pager.own_pages()
    }

    /// The command counts.
    fn policy_pages(&self, _: &Pager) -> usize {
        usize::MAX
    }

    fn is_nearly_full(&self, _: &Pager, _anonymous: usize) -> bool {
        false
    }

    fn begin_to_manage(&self, _: &mut Pager, _ranges: &[(usize, usize)]) {}

    fn make_room(&self, pager: &mut Pager, pages: usize) {
        borrow_room(pager, pages);
    }

    /// There are frames for pages before they are counted, because to wait for frames may read
    /// changes.
    fn admit_present(&self, pager: &mut Pager, pages: usize) -> usize {
        let room = PRESENT_AT_ONCE.min(pages);
        borrow_room(pager, room);
        room
    }

    fn on_fault(&self, pager: &mut Pager, address: usize, _is_write: bool) {
        faults::answer(pager, address);
    }

    fn on_arrival(&self, pager: &mut Pager, page: PageId, is_asked: bool) {
        set_out(pager, page, is_asked);
    }

    fn before_faults(&self, pager: &mut Pager) {
        carry_out_orders(pager);
        // Once: from then on memory is managed.
        if must_manage(pager) {
            manage_all(pager);
            freeze(pager);
            carry_out_orders(pager);
        }
    }

    fn between_faults(&self, pager: &mut Pager) {
        borrow_room(pager, 0);
    }

    fn report(&self, pager: &mut Pager, at_once: bool) {
        report(pager, at_once);
    }

    fn has_work(&self, pager: &Pager) -> bool {
        must_manage(pager)
    }

    fn orders<'a>(&self, pager: &'a Pager) -> Option<BorrowedFd<'a>> {
        Some(lease(pager).orders())
    }

    /// The socket of the child's lease.
    fn before_fork(&self, pager: &mut Pager) -> Option<Result<OwnedFd, Errno>> {
        Some(tenant(pager).announce())
    }

    fn receive(&self, pager: &mut Pager, socket: &OwnedFd) -> Result<(), Errno> {
        renew_lease(pager, receive_file(socket)?);
        Ok(())
    }

    fn in_child(&self, pager: &mut Pager) {
        report_pages(pager);
    }
}

fn lease(pager: &Pager) -> &Tenant {
    pager.choice.chooser.lease().expect("memory is lent")
}

fn tenant(pager: &mut Pager) -> &mut Tenant {
    pager.choice.chooser.tenant().expect("memory is lent")
}

/// Frames that this process takes with this many pages more.
fn frames_needed(pager: &Pager, pages: usize) -> usize {
    pager.taken() + frames_apart(pager) + pages
}

/// Frames that are not for managed pages.
fn frames_apart(pager: &Pager) -> usize {
    pager.own_pages() + if pager.memory.managed { 0 } else { FIRST_FRAMES }
}

/// Makes room: asks for frames, and gives back those that are too many. Returns without them only
/// if [`must_manage`].
///
/// Ends when the command has answered. It answers every question, or ends the run.
fn borrow_room(pager: &mut Pager, pages: usize) {
    let batch = pager.disk.staging.batch_pages();
    while !must_manage(pager) {
        let (needed, apart) = (frames_needed(pager, pages), frames_apart(pager));
        let tenant = tenant(pager);
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
        wait_for_orders(pager);
    }
}

/// Whether the command has ordered all pages to be unmapped, and they are not managed yet. Then
/// the caller, between faults, manages them and calls [`freeze`].
fn must_manage(pager: &Pager) -> bool {
    !pager.memory.managed && lease(pager).freeze_is_due
}

/// Carries out the orders that have come, and goes no further while the task is not active, unless
/// [`must_manage`]. Ends when the command lets the task go on.
fn carry_out_orders(pager: &mut Pager) {
    receive_instructions(pager);
    while tenant(pager).is_suspended && !must_manage(pager) {
        wait_for_orders(pager);
    }
}

/// Reports to the command. It needs the reports when it next looks for a victim, so they need not
/// be sent at once.
fn report(pager: &mut Pager, at_once: bool) {
    let reading = pager.disk.staging.count(Phase::Reading);
    let tenant = tenant(pager);
    tenant.shared.reading.store(reading as u32, Ordering::Relaxed);
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let time_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    tenant.shared.agent_ns.store(time_ns, Ordering::Relaxed);
    if at_once || tenant.has_much_to_send() {
        tenant.flush();
    }
}

/// Waits until the command has ordered something. Reads and writes go on meanwhile.
fn wait_for_orders(pager: &mut Pager) {
    pager.disk.io.submit();
    report(pager, true);
    let tenant = lease(pager);
    let ring = pager.disk.io.descriptor().map(AsFd::as_fd);
    let count = 1 + usize::from(ring.is_some());
    let mut descriptors = [tenant.orders(), ring.unwrap_or(tenant.orders())]
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut descriptors[..count], None) {
        Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
        Err(error) => abort(format_args!("the pager cannot wait for memory: {error}")),
    }
    receive_instructions(pager);
    reap(pager);
}

/// Follows the command's instructions so far. Ends with the last message that has come.
fn receive_instructions(pager: &mut Pager) {
    while let Some(message) = tenant(pager).receive() {
        let mut watched = Vec::new();
        for &word in &message {
            let Some((instruction, operand)) = Instruction::parse(word) else {
                abort(format_args!("sweephand run is of another version"))
            };
            let is_known = operand < pager.memory.pages.ids();
            match instruction {
                Instruction::Grant => tenant(pager).granted += operand as usize,
                Instruction::Evict if is_known => tenant(pager).victims.push_back(PageId(operand)),
                Instruction::Give => give(pager, operand as usize),
                Instruction::Watch if is_known => watched.push(PageId(operand)),
                // Ids are never taken back, so this cannot be.
                Instruction::Evict | Instruction::Watch => {}
                // The process that had to wait for it has.
                Instruction::Admitted => {}
                Instruction::Suspend => tenant(pager).is_suspended = true,
                Instruction::Resume => tenant(pager).is_suspended = false,
                Instruction::Freeze if pager.memory.managed => freeze(pager),
                Instruction::Freeze => tenant(pager).freeze_is_due = true,
                Instruction::Answered => {
                    evict_named(pager);
                    tenant(pager).asked = false;
                }
                Instruction::Refuse => abort(format_args!(
                    "the memory that the tasks share is too small: no page can be taken from them any more"
                )),
            }
        }
        evict_named(pager);
        unmap_pages(pager, watched);
        tenant(pager).give_back(message);
    }
}

/// Evicts what the command has named. Ends: each eviction takes pages out of the list.
fn evict_named(pager: &mut Pager) {
    while let Some(page) = tenant(pager).victims.pop_front() {
        tenant(pager).push(Report::Evicted.word(page.index()));
        let is_here = pager.memory.pages.state(page).is_evictable();
        if is_here && !pager.memory.pages.mark(page, Flag::Condemned, true) {
            pager.choice.condemned.push(page);
        }
        evict_batch(pager);
    }
    while !pager.choice.condemned.is_empty() {
        evict(pager);
    }
}

/// Gives frames to others: those of the pages just evicted, or others that are idle.
fn give(pager: &mut Pager, frames: usize) {
    evict_named(pager);
    let needed = frames_needed(pager, 0);
    let tenant = tenant(pager);
    let given = frames.min(tenant.granted.saturating_sub(needed));
    tenant.granted -= given;
    tenant.push(Report::Give.word(given));
    tenant.push(Report::Done.word(frames));
    tenant.flush();
}

/// Unmaps pages, so that their next touch is seen.
fn unmap_pages(pager: &mut Pager, mut pages: Vec<PageId>) {
    if pages.is_empty() {
        return;
    }
    block_moves(pager);
    pages.sort_unstable();
    let mut rest = pages.as_slice();
    while let Some(&first) = rest.first() {
        let table = &pager.memory.pages;
        let address = table.address(first);
        let follows = |index: &usize| {
            rest[*index].0 == first.0 + *index as u32
                && table.address(rest[*index]) == address + index * PAGE_BYTES
        };
        let end = (1..rest.len()).find(|index| !follows(index)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        unmap(pager, run);
        rest = behind;
    }
    MAILBOX.allow_moves();
}

/// Unmaps all managed pages: a thread that goes on faults, and waits.
fn freeze(pager: &mut Pager) {
    tenant(pager).freeze_is_due = false;
    let pages = &pager.memory.pages;
    let mapped = (0..pages.ids()).map(PageId).filter(|&page| pages.is_resident(page));
    let mapped = mapped.collect();
    unmap_pages(pager, mapped);
}

/// In a child: a lease of its own, over as many frames as it has. Its parent waits for that: what
/// either writes to, the two do not share any more.
fn renew_lease(pager: &mut Pager, socket: OwnedFd) {
    let (granted, control) = (frames_needed(pager, 0), pager.control);
    let tenant = tenant(pager);
    tenant.reconnect(control, granted, socket);
    pager.memory.pages.shared = Some(tenant.shared);
}

/// In a child with a lease of its own: reports its pages to the command.
fn report_pages(pager: &mut Pager) {
    for page in (0..pager.memory.pages.ids()).map(PageId) {
        if pager.memory.pages.state(page).is_evictable() {
            insert(pager, page);
            pager.memory.pages.mark(page, Flag::Referenced, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Chooser;
    use crate::paging::stock::take_stock;
    use crate::process::own;
    use crate::state::pages::State;
    use crate::testing::{at, pager};
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    /// Pager whose frames are lent by what is at the other end of a socket.
    fn lent() -> (Pager, OwnedFd) {
        let (mut pager, _) = pager();
        let (ours, commands) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let tenant = Tenant::begin(pager.control, 0, Ok(ours));
        pager.memory.pages.shared = Some(tenant.shared);
        pager.choice.chooser = Chooser::Lent(tenant);
        pager.mode = &Lent;
        pager.choice.arrivals = crate::choice::bits::Arrivals::new(0, 0);
        (pager, commands)
    }

    fn instruct(command: &OwnedFd, instructions: &[(Instruction, usize)]) {
        let words =
            instructions.iter().flat_map(|&(instruction, operand)| instruction.word(operand).to_ne_bytes());
        send(command, &words.collect::<Vec<u8>>(), SendFlags::empty()).unwrap();
    }

    #[test]
    fn frames_are_asked_for_and_taken_back() {
        let (mut pager, command) = lent();
        let wanted = frames_needed(&pager, 10);
        instruct(&command, &[(Instruction::Grant, wanted), (Instruction::Answered, 0)]);
        borrow_room(&mut pager, 10);
        assert_eq!(lease(&pager).granted(), wanted);
        for number in 0..10 {
            faults::answer(&mut pager, at(number));
        }
        let page = pager.memory.pages.find(at(3)).unwrap();
        instruct(&command, &[(Instruction::Evict, page.index()), (Instruction::Give, 1)]);
        carry_out_orders(&mut pager);
        assert_eq!(lease(&pager).granted(), wanted - 1);
        assert!(matches!(pager.memory.pages.state(page), State::Writing(_)));
    }

    #[test]
    fn pages_that_are_found_present_have_frames_by_then() {
        const PAGES: usize = 200;
        let (mut pager, command) = lent();
        let start = own::map(PAGES * PAGE_BYTES).unwrap();
        // All but every fourth page are present.
        let present = (0..PAGES).filter(|page| page % 4 > 0);
        // SAFETY: this is a mapping of the test.
        present.clone().for_each(|page| unsafe { ((start + page * PAGE_BYTES) as *mut u8).write(1) });
        let granted = frames_needed(&pager, PAGES + 64);
        instruct(&command, &[(Instruction::Grant, granted), (Instruction::Answered, 0)]);
        take_stock(&mut pager, start, start + PAGES * PAGE_BYTES);
        assert_eq!(pager.memory.pages.resident(), present.count());
        assert!(frames_needed(&pager, 0) <= granted);
    }

    #[test]
    fn a_task_whose_memory_is_not_managed_manages_it_before_it_is_frozen() {
        let (mut pager, command) = lent();
        pager.memory.managed = false;
        instruct(&command, &[(Instruction::Freeze, 0), (Instruction::Suspend, 0)]);
        carry_out_orders(&mut pager);
        assert!(must_manage(&pager));
        // It does not wait for frames either.
        borrow_room(&mut pager, 1 << 20);
        pager.memory.managed = true;
        freeze(&mut pager);
        assert!(!must_manage(&pager));
        instruct(&command, &[(Instruction::Resume, 0)]);
        carry_out_orders(&mut pager);
    }
}
