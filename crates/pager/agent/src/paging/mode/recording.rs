//! A recording: the agent records what the program touches, and pages nothing.
//!
//! All memory is managed from the start. The room is larger than any program, so nothing is
//! evicted. What is unmapped goes to limbo, and comes back at its next touch: the rescue that is
//! there for reference bits in software. See `window` for when pages are unmapped, and why the
//! records are what they are.
//!
//! **The end.** If the command is gone, or takes no records any more, all pages are mapped again
//! and the program's memory is the kernel's alone. The program goes on as if there had been no
//! recording.

use crate::kernel::PAGE_BYTES;
use crate::kernel::clock::now_ns;
use crate::mailbox::MAILBOX;
use crate::paging::changes::{block_moves, catch_up};
use crate::paging::during_fork::empty_limbo;
use crate::paging::evict::unmap;
use crate::paging::faults;
use crate::paging::manage::{begin_to_page, manage_all};
use crate::paging::pager::{Mode, Pager};
use crate::paging::window::Window;
use crate::process::environment::forget_run;
use crate::process::supervisor::is_elsewhere;
use crate::state::pages::{Pages, State, page_start};
use alloc::vec::Vec;
use rustix::process::{Pid, getppid};
use sweephand_pager_interface::recording::Item;
use sweephand_policy::PageId;

/// More pages than any program has.
const ANY_ROOM: usize = 1 << 36;

/// The program is recorded: there is a window.
pub(crate) struct Recording;

/// The command records programs, and this one not yet, not any more, or not at all. Its memory is
/// the kernel's.
pub(crate) struct Unrecorded;

impl Mode for Recording {
    fn needs_store(&self) -> bool {
        false
    }

    fn room(&self, _: &Pager) -> usize {
        ANY_ROOM
    }

    fn begin_to_manage(&self, pager: &mut Pager, ranges: &[(usize, usize)]) {
        begin_to_page(pager, ranges);
    }

    /// There is room.
    fn make_room(&self, _: &mut Pager, _pages: usize) {}

    fn on_fault(&self, pager: &mut Pager, address: usize, is_write: bool) {
        answer(pager, address, is_write);
    }

    /// No policy chooses pages of a program that is recorded.
    fn on_arrival(&self, pager: &mut Pager, page: PageId, _is_asked: bool) {
        if pager.memory.is_kept(page) {
            return pager.memory.pages.set(page, State::Pinned);
        }
        let (window, table) = parts(pager);
        window.add(table, page);
    }

    fn on_change(&self, pager: &mut Pager, change: Item) {
        let (window, _) = parts(pager);
        window.put(change);
    }

    fn hears_all(&self) -> bool {
        true
    }

    /// Manages all memory once the program can be answered, and ends when it is over.
    fn before_faults(&self, pager: &mut Pager) {
        let (window, _) = parts(pager);
        if !window.is_heard() {
            end(pager);
        } else if !pager.memory.managed {
            manage_all(pager);
        }
    }

    fn between_faults(&self, pager: &mut Pager) {
        end_epoch_if_due(pager);
    }

    fn due_in_ns(&self, pager: &Pager) -> Option<u64> {
        pager.window.as_ref().and_then(Window::due_in_ns)
    }

    fn on_command_ended(&self, pager: &mut Pager) {
        end(pager);
    }

    /// All pages are mapped.
    fn at_rest(&self, pager: &mut Pager) {
        let (window, table) = parts(pager);
        window.sweep(table.resident());
    }

    /// Begins anew, or leaves the child alone.
    fn in_child(&self, pager: &mut Pager) {
        // The mapping of the parent's file is the child's as well, and is given up.
        enter(pager, None);
        if pager.control.order.recording.children != 0 {
            let window = Window::open(pager.control).ok();
            enter(pager, window);
        }
    }
}

impl Mode for Unrecorded {
    fn needs_store(&self) -> bool {
        false
    }

    /// The program goes on unrecorded.
    fn may_lack_command(&self) -> bool {
        true
    }

    /// What is mapped would change what is recorded.
    fn may_map_objects(&self) -> bool {
        false
    }

    fn room(&self, _: &Pager) -> usize {
        ANY_ROOM
    }

    fn begin_to_manage(&self, pager: &mut Pager, ranges: &[(usize, usize)]) {
        begin_to_page(pager, ranges);
    }

    fn make_room(&self, _: &mut Pager, _pages: usize) {}

    fn on_fault(&self, pager: &mut Pager, address: usize, _is_write: bool) {
        faults::answer(pager, address);
    }

    fn on_arrival(&self, pager: &mut Pager, page: PageId, _is_asked: bool) {
        if pager.memory.is_kept(page) {
            pager.memory.pages.set(page, State::Pinned);
        }
    }

    fn hears_all(&self) -> bool {
        true
    }

    /// Begins to record, if the command wants this process recorded and it can be. The command may
    /// have been killed just now.
    fn begin(&self, pager: &mut Pager) {
        let order = &pager.control.order;
        if pager.program.supervisor.is_none() && !is_elsewhere(pager.control) {
            return forget_run(pager.control);
        }
        // The command starts the program itself, and other programs are started by that.
        let is_first = getppid().map_or(0, Pid::as_raw_pid) == order.supervisor;
        if (is_first || order.recording.children != 0)
            && let Ok(window) = Window::open(pager.control)
        {
            enter(pager, Some(window));
            MAILBOX.want_objects();
        }
    }

    /// A child that no recorder follows has what its parent had.
    fn before_faults(&self, pager: &mut Pager) {
        end(pager);
    }

    fn between_faults(&self, _: &mut Pager) {}

    fn on_command_ended(&self, pager: &mut Pager) {
        end(pager);
    }
}

/// Goes on with this window, or without.
fn enter(pager: &mut Pager, window: Option<Window>) {
    pager.mode = if window.is_some() { &Recording } else { &Unrecorded };
    pager.window = window;
}

/// The window, and the page table, in which it marks pages.
fn parts(pager: &mut Pager) -> (&mut Window, &mut Pages) {
    (pager.window.as_mut().expect("the program is recorded"), &mut pager.memory.pages)
}

/// Answers a fault, and records it.
fn answer(pager: &mut Pager, address: usize, is_write: bool) {
    end_epoch_if_due(pager);
    let began = now_ns();
    let start = page_start(address);
    let before = pager.memory.pages.state_at(start);
    let (window, _) = parts(pager);
    let known = window.entries();
    faults::answer(pager, address);
    let (window, table) = parts(pager);
    let Some(page) = table.find(start) else { return };
    let is_new = matches!(before, State::Absent | State::Guarded);
    let is_mapped = matches!(table.state(page), State::Resident { .. } | State::Pinned);
    if is_mapped && (is_new || matches!(before, State::Limbo { .. })) {
        if table.is_resident(page) {
            window.add(table, page);
        }
        let come = window.entries_from(known);
        touched(pager, page, is_new, is_write);
        if !is_new {
            // To bring new pages takes the kernel long, and the program had to wait for it anyway.
            return parts(pager).0.answered(now_ns() - began);
        }
        parts(pager).0.new_pages();
        // New pages behind it, which the program is about to fill.
        come.into_iter()
            .filter(|other| *other != page)
            .for_each(|other| touched(pager, other, true, is_write));
    }
}

/// Records a touch, and where the frame of the page will be when the page is unmapped.
fn touched(pager: &mut Pager, page: PageId, is_new: bool, is_write: bool) {
    let kept_at = (pager.limbo(page) / PAGE_BYTES) as u64;
    let (window, table) = parts(pager);
    let number = (table.address(page) / PAGE_BYTES) as u64;
    window.touched(number, is_write);
    window.kept(page, is_new, number, kept_at);
}

/// Ends the epoch if it is time: unmaps all pages.
fn end_epoch_if_due(pager: &mut Pager) {
    if !pager.memory.managed || !parts(pager).0.is_due() {
        return;
    }
    let began = now_ns();
    block_moves(pager);
    let (window, table) = parts(pager);
    let pages = window.end_epoch(table);
    for run in pages.chunk_by(|before, next| before.0 + 1 == next.0) {
        // Ids that follow each other may be of chunks that do not.
        let address = |page: &PageId| pager.memory.pages.address(*page);
        let neighbours = run.chunk_by(|before, next| address(before) + PAGE_BYTES == address(next));
        let neighbours: Vec<Vec<PageId>> = neighbours.map(<[PageId]>::to_vec).collect();
        neighbours.iter().for_each(|run| unmap(pager, run));
    }
    MAILBOX.allow_moves();
    let (window, table) = parts(pager);
    for &page in &pages {
        if table.is_resident(page) {
            window.is_stuck(table, page);
        }
    }
    window.charge(now_ns() - began);
}

/// Ends the recording. The program has its memory for itself again.
fn end(pager: &mut Pager) {
    enter(pager, None);
    if !pager.memory.managed {
        return;
    }
    catch_up(pager);
    empty_limbo(pager);
    block_moves(pager);
    let regions: Vec<(usize, usize)> = pager.memory.regions.iter().collect();
    for (start, end) in regions {
        // What is unmapped just now needs nothing.
        let _ = pager.program.uffd.unregister(start, end - start);
        pager.memory.regions.remove(start, end);
    }
    pager.memory.managed = false;
    MAILBOX.allow_moves();
    MAILBOX.allow(pager.room_bytes());
    // Threads that wait for pages that were missing find them by themselves.
    while let Some(message) = pager.program.messages.pop_front() {
        if let Some(crate::kernel::Event::Fault { address }) = message.event() {
            pager.program.wake(page_start(address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ROOM, World, at, pager};
    use alloc::rc::Rc;
    use core::cell::RefCell;

    /// A pager that records, with a window of at least `least_pages` pages.
    fn recorded(least_pages: u32) -> (Pager, Rc<RefCell<World>>) {
        let (mut pager, world) = pager();
        let window = Window::unread(pager.control, least_pages);
        enter(&mut pager, Some(window));
        (pager, world)
    }

    fn fault(pager: &mut Pager, number: usize, is_write: bool) {
        pager.mode.on_fault(pager, at(number), is_write);
    }

    fn touched(number: usize, write: bool) -> Item {
        Item::Touched { page: (at(number) / PAGE_BYTES) as u64, write }
    }

    /// The records, with epochs that took no time, and without the places where frames are kept.
    fn records(pager: &mut Pager) -> Vec<Item> {
        let records = parts(pager).0.records().into_iter();
        records
            .filter(|item| !matches!(item, Item::Kept { .. }))
            .map(|item| match item {
                Item::EpochEnded { .. } => Item::EpochEnded { ns: 0 },
                other => other,
            })
            .collect()
    }

    #[test]
    fn the_first_touch_of_each_page_in_an_epoch_is_recorded() {
        let (mut pager, world) = recorded(2);
        fault(&mut pager, 0, true);
        // The first epoch ends early, because any page may have been mapped.
        pager.mode.between_faults(&mut pager);
        assert!(matches!(pager.memory.pages.state_at(at(0)), State::Limbo { .. }));
        fault(&mut pager, 1, false);
        pager.mode.between_faults(&mut pager);
        assert_eq!(pager.memory.pages.state_at(at(1)), State::RESIDENT, "the window has fewer pages");
        fault(&mut pager, 0, false);
        assert_eq!(pager.memory.pages.state_at(at(0)), State::RESIDENT);
        pager.mode.between_faults(&mut pager);
        assert!(!world.borrow().mapped.contains_key(&at(0)));
        let ended = Item::EpochEnded { ns: 0 };
        let expected = [touched(0, true), ended, touched(1, false), touched(0, false), ended];
        assert_eq!(records(&mut pager), expected);
    }

    #[test]
    fn the_command_is_told_once_where_a_frame_is_kept() {
        let (mut pager, world) = recorded(1);
        let kept = |pager: &mut Pager| {
            let kept = |item| if let Item::Kept { page, at } = item { Some((page, at)) } else { None };
            parts(pager).0.records().into_iter().filter_map(kept).collect::<Vec<_>>()
        };
        for _ in 0..3 {
            fault(&mut pager, 0, true);
            pager.mode.between_faults(&mut pager);
        }
        let page = pager.memory.pages.find(at(0)).unwrap();
        let limbo = pager.limbo(page);
        let told = ((at(0) / PAGE_BYTES) as u64, (limbo / PAGE_BYTES) as u64);
        assert_eq!(kept(&mut pager), [told]);
        assert!(!world.borrow().mapped.contains_key(&at(0)), "the frame is in limbo");
        // With new contents it is another page.
        pager.memory.pages.set(page, State::Absent);
        fault(&mut pager, 0, true);
        assert_eq!(kept(&mut pager), [told, told]);
    }

    #[test]
    fn there_is_room_for_all_pages_and_none_is_the_policys() {
        let (mut pager, _) = recorded(1 << 20);
        let most = 10 * ROOM;
        (0..most).for_each(|number| fault(&mut pager, number, true));
        assert_eq!(pager.memory.pages.resident(), most);
        assert_eq!(pager.choice.leave(&mut pager.memory, 0), None);
        assert_eq!(pager.choice.condemn(&mut pager.memory, None), None);
    }

    #[test]
    fn a_page_that_must_stay_is_recorded_once_and_stays() {
        let (mut pager, _) = recorded(1);
        pager.memory.kept.insert(at(0), 1);
        fault(&mut pager, 0, true);
        pager.mode.between_faults(&mut pager);
        assert_eq!(pager.memory.pages.state_at(at(0)), State::Pinned);
    }

    #[test]
    fn without_a_window_pages_come_in_unrecorded() {
        let (mut pager, _) = recorded(1);
        enter(&mut pager, None);
        fault(&mut pager, 0, true);
        pager.mode.between_faults(&mut pager);
        assert_eq!(pager.memory.pages.state_at(at(0)), State::RESIDENT);
        assert!(pager.room() > 1 << 30 && pager.window.is_none());
    }
}
