//! A recording: what the agent does if it is to record what the program touches, and to page
//! nothing.
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
use crate::paging::manage::manage_all;
use crate::paging::pager::Pager;
use crate::paging::window::Window;
use crate::process::environment::forget_run;
use crate::process::supervisor::is_elsewhere;
use crate::state::pages::{State, page_start};
use alloc::vec::Vec;
use rustix::process::{Pid, getppid};
use sweephand_policy::PageId;

/// Begins, if the command wants this process recorded and it can be. The command may have been
/// killed just now.
pub(crate) fn begin(pager: &mut Pager) {
    let order = &pager.control.order;
    if !order.is_recording() {
        return;
    }
    if pager.program.supervisor.is_none() && !is_elsewhere(pager.control) {
        return forget_run(pager.control);
    }
    // The command starts the program itself, and other programs are started by that.
    let is_first = getppid().map_or(0, Pid::as_raw_pid) == order.supervisor;
    if is_first || order.recording.children != 0 {
        pager.window = Window::open(pager.control).ok();
    }
}

/// In a child, which has the state of its parent: begins anew, or leaves the child alone.
pub(crate) fn begin_in_child(pager: &mut Pager) {
    // The mapping of the parent's file is the child's as well, and is given up.
    let Some(of_parent) = pager.window.take() else { return };
    drop(of_parent);
    if pager.control.order.recording.children != 0 {
        pager.window = Window::open(pager.control).ok();
    }
}

/// Manages all memory once the program can be answered, and ends when it is over.
pub(crate) fn begin_or_end(pager: &mut Pager) {
    match &pager.window {
        Some(window) if !window.is_heard() => end(pager),
        Some(_) if !pager.memory.managed => manage_all(pager),
        // A child that is not to be recorded.
        None if pager.memory.managed && pager.control.order.is_recording() => end(pager),
        _ => {}
    }
}

/// Answers a fault, and records it.
pub(crate) fn answer(pager: &mut Pager, address: usize, is_write: bool) {
    if pager.window.is_none() {
        return faults::answer(pager, address);
    }
    end_epoch_if_due(pager);
    let began = now_ns();
    let start = page_start(address);
    let before = pager.memory.pages.state_at(start);
    let known = pager.window.as_ref().map_or(0, Window::entries);
    faults::answer(pager, address);
    let Some(page) = pager.memory.pages.find(start) else { return };
    let is_new = matches!(before, State::Absent | State::Guarded);
    let is_mapped = matches!(pager.memory.pages.state(page), State::Resident { .. } | State::Pinned);
    let Some(window) = &mut pager.window else { return };
    if is_mapped && (is_new || matches!(before, State::Limbo { .. })) {
        if pager.memory.pages.is_resident(page) {
            window.add(&mut pager.memory.pages, page);
        }
        window.touched((start / PAGE_BYTES) as u64, is_write);
        if is_new {
            window.new_pages();
        }
        // New pages behind it, which the program is about to fill.
        for other in window.entries_from(known) {
            if is_new && other != page {
                window.touched((pager.memory.pages.address(other) / PAGE_BYTES) as u64, is_write);
            }
        }
        // To bring new pages takes the kernel long, and the program had to wait for that anyway.
        if !is_new {
            window.answered(now_ns() - began);
        }
    }
}

/// Ends the epoch if it is time: unmaps all pages.
pub(crate) fn end_epoch_if_due(pager: &mut Pager) {
    if !pager.memory.managed || !pager.window.as_ref().is_some_and(Window::is_due) {
        return;
    }
    let began = now_ns();
    block_moves(pager);
    let Some(window) = &mut pager.window else { return MAILBOX.allow_moves() };
    let pages = window.end_epoch(&mut pager.memory.pages);
    for run in pages.chunk_by(|before, next| before.0 + 1 == next.0) {
        // Ids that follow each other may be of chunks that do not.
        let address = |page: &PageId| pager.memory.pages.address(*page);
        let neighbours = run.chunk_by(|before, next| address(before) + PAGE_BYTES == address(next));
        let neighbours: Vec<Vec<PageId>> = neighbours.map(<[PageId]>::to_vec).collect();
        neighbours.iter().for_each(|run| unmap(pager, run));
    }
    MAILBOX.allow_moves();
    let Some(window) = &mut pager.window else { return };
    for &page in &pages {
        if pager.memory.pages.is_resident(page) {
            window.is_stuck(&mut pager.memory.pages, page);
        }
    }
    window.charge(now_ns() - began);
}

/// Ends the recording. The program has its memory for itself again.
pub(crate) fn end(pager: &mut Pager) {
    pager.window = None;
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
