//! The inner loops of the simulation: a task executes its reference string.
//!
//! Between two events a task runs through its string until a limit or a fault. In the VM model a
//! hit is one OR on the page's flags. Policies with exact knowledge
//! ([`ExactMmu`](sweephand_policy::ExactMmu)) also need the page's last reference, and the rear end
//! of the window follows a window behind.

use crate::memory::{DIRTY, IN_USE, IN_WRITING, MachineMemory, REFERENCED, RESIDENT};
use crate::program::{Program, ReferenceString};
use std::collections::VecDeque;
use sweephand_policy::{PageId, VirtualTime};
use sweephand_trace::PackedReference;
use sweephand_trace::irim::{PageState, Transition};

/// Where a task is in its string, besides its virtual time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Position {
    /// The task's number.
    pub(crate) task: usize,
    /// Its first page: page ids of its string count from here.
    pub(crate) first_page: u32,
    /// The page of the reference that it has to repeat, with the use bit that the policy wants it
    /// to leave.
    pub(crate) repeats: Option<(PageId, bool)>,
    /// Intervals: the next transition.
    pub(crate) next_transition: usize,
    /// Intervals: pages in use that have lost their frames, with the virtual times at which that
    /// will be noticed, the earliest in front.
    pub(crate) missing: VecDeque<(VirtualTime, PageId)>,
}

/// Why a task stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// It has come to the limit.
    Limit,
    /// Its next reference is to a page that is not resident.
    Fault(PageId),
}

impl Position {
    /// Executes until virtual time `limit` or a fault. `EXACT` keeps last references, and counts
    /// working sets of window `theta`.
    pub(crate) fn execute<const EXACT: bool>(
        &mut self,
        program: &Program,
        memory: &mut MachineMemory,
        limit: VirtualTime,
        theta: VirtualTime,
    ) -> Stop {
        let stop = match &program.string {
            ReferenceString::Full(references) => self.run::<EXACT>(references, memory, limit),
            ReferenceString::Intervals { transitions, .. } => {
                memory.touch_again(self.task);
                self.run_intervals::<EXACT>(transitions, memory, limit)
            }
        };
        if EXACT {
            self.move_window(program, memory, theta);
        }
        stop
    }

    /// A page in use has lost its frame. It is referenced again within omega: half of that is what
    /// is expected.
    pub(crate) fn lost(&mut self, page: PageId, now: VirtualTime, program: &Program) {
        if let ReferenceString::Intervals { omega, .. } = program.string {
            self.missing.push_back((now + (omega / 2).max(1), page));
        }
    }

    fn run<const EXACT: bool>(
        &mut self,
        references: &[PackedReference],
        memory: &mut MachineMemory,
        limit: VirtualTime,
    ) -> Stop {
        // The repeated reference is a burst of its own: the bit that it leaves is the policy's
        // choice.
        if let Some((page, referenced)) = self.repeats.take() {
            let now = memory.virtual_time[self.task];
            let stop = self.hits::<EXACT>(references, memory, now + 1);
            debug_assert_eq!(stop, Stop::Limit, "the page that was waited for is not there");
            if !referenced {
                memory.flags[page.index()] &= !REFERENCED;
            }
        }
        self.hits::<EXACT>(references, memory, limit)
    }

    /// The inner loop.
    #[inline]
    fn hits<const EXACT: bool>(
        &self,
        references: &[PackedReference],
        memory: &mut MachineMemory,
        limit: VirtualTime,
    ) -> Stop {
        let start = memory.virtual_time[self.task];
        let first_page = self.first_page as usize;
        let flags = &mut memory.flags[first_page..];
        let window = &mut memory.windows[self.task];
        let last_references = if EXACT { &mut memory.last_reference[first_page..] } else { &mut [] };
        let burst = &references[start as usize..limit as usize];
        for (done, reference) in burst.iter().enumerate() {
            let page = reference.page() as usize;
            let flags = &mut flags[page];
            if *flags & RESIDENT == 0 {
                memory.virtual_time[self.task] = start + done as u64;
                return Stop::Fault(PageId((first_page + page) as u32));
            }
            *flags |= REFERENCED | (u8::from(reference.is_write()) * DIRTY);
            if EXACT {
                let last_reference = &mut last_references[page];
                window.pages += usize::from(*last_reference <= window.rear);
                *last_reference = start + done as u64 + 1;
            }
        }
        memory.virtual_time[self.task] = limit;
        Stop::Limit
    }

    fn run_intervals<const EXACT: bool>(
        &mut self,
        transitions: &[Transition],
        memory: &mut MachineMemory,
        limit: VirtualTime,
    ) -> Stop {
        let start = memory.virtual_time[self.task];
        let mut now = start;
        let repeats = self.repeats.take();
        let stop = loop {
            let next = transitions.get(self.next_transition);
            let noticed = self.missing.front().map_or(VirtualTime::MAX, |(time, _)| *time);
            now = now.max(limit.min(noticed).min(next.map_or(VirtualTime::MAX, |next| next.time)));
            if noticed <= now && now < limit {
                let (_, page) = self.missing.pop_front().expect("it is noticed");
                if memory.flags[page.index()] & (RESIDENT | IN_USE) == IN_USE {
                    break Stop::Fault(page);
                }
                continue;
            }
            let Some(next) = next.filter(|next| next.time <= now) else { break Stop::Limit };
            let page = PageId(self.first_page + next.page);
            let flags = memory.flags[page.index()];
            // The end of a state belongs to the reference before the limit, its beginning to the
            // one behind it.
            let ends = flags & IN_USE != 0 && next.state < state(flags);
            if now >= limit && (!ends || flags & RESIDENT == 0) {
                break Stop::Limit;
            }
            if next.state == PageState::Idle && !ends {
                // It was given up while it was missing.
                self.next_transition += 1;
                continue;
            }
            if flags & RESIDENT == 0 {
                break Stop::Fault(page);
            }
            self.next_transition += 1;
            // What a page that is repeated and used only once leaves behind is the policy's choice.
            let once = repeats == Some((page, false)) && next.time <= start + 1;
            Self::change::<EXACT>(page, next, once, self.task, memory);
        };
        memory.virtual_time[self.task] = now;
        stop
    }

    /// A resident page changes its state.
    fn change<const EXACT: bool>(
        page: PageId,
        to: &Transition,
        once: bool,
        task: usize,
        memory: &mut MachineMemory,
    ) {
        let flags = &mut memory.flags[page.index()];
        let was_in_use = *flags & IN_USE != 0;
        if EXACT && !was_in_use && to.state != PageState::Idle {
            let window = &mut memory.windows[task];
            window.pages += usize::from(memory.last_reference[page.index()] <= window.rear);
        }
        match to.state {
            PageState::Idle => {
                *flags &= !(IN_USE | IN_WRITING);
                *flags |= if once { 0 } else { REFERENCED };
                if EXACT {
                    memory.last_reference[page.index()] = to.time;
                }
            }
            PageState::Clean if was_in_use => *flags &= !IN_WRITING,
            PageState::Clean => *flags |= IN_USE | if once { 0 } else { REFERENCED },
            PageState::Dirty => *flags |= IN_USE | IN_WRITING | DIRTY | if once { 0 } else { REFERENCED },
        }
        if once && to.state != PageState::Idle {
            // Still in use when the task executes next, it has been referenced more than once.
            memory.cleared[task].push(page);
        }
    }

    /// `limit`, or the virtual time before it at which a page may leave the working set: it does
    /// unless it is referenced until then.
    pub(crate) fn until_one_leaves(
        &self,
        program: &Program,
        memory: &MachineMemory,
        limit: VirtualTime,
        theta: VirtualTime,
    ) -> VirtualTime {
        let now = memory.virtual_time[self.task];
        // A page that is referenced from now on stays at least until then.
        let limit = limit.min(now.saturating_add(theta));
        let Some(rear) = limit.checked_sub(theta) else { return limit };
        let window = &memory.windows[self.task];
        let last_references = &memory.last_reference[self.first_page as usize..];
        let leaves = match &program.string {
            ReferenceString::Full(references) => {
                let passed = references.get(window.rear as usize..rear as usize).unwrap_or_default();
                let mut times = (window.rear + 1..).zip(passed);
                times
                    .find(|(time, reference)| last_references[reference.page() as usize] == *time)
                    .map(|(time, _)| time)
            }
            ReferenceString::Intervals { transitions, .. } => {
                let mut passed =
                    transitions[window.next_transition..].iter().take_while(|next| next.time <= rear);
                passed.find(|next| self.falls_idle(next, memory)).map(|next| next.time)
            }
        };
        leaves.map_or(limit, |time| time + theta)
    }

    /// Intervals: whether a transition was its page's last and left it idle.
    fn falls_idle(&self, transition: &Transition, memory: &MachineMemory) -> bool {
        let page = (self.first_page + transition.page) as usize;
        transition.state == PageState::Idle
            && memory.flags[page] & IN_USE == 0
            && memory.last_reference[page] == transition.time
    }

    /// Lets the rear end of the window follow: pages whose last reference it passes have left the
    /// working set.
    fn move_window(&self, program: &Program, memory: &mut MachineMemory, theta: VirtualTime) {
        let window = &mut memory.windows[self.task];
        let rear = memory.virtual_time[self.task].saturating_sub(theta);
        let first_page = self.first_page as usize;
        match &program.string {
            ReferenceString::Full(references) => {
                let last_references = &memory.last_reference[first_page..];
                let passed = &references[window.rear as usize..rear as usize];
                for (time, reference) in (window.rear + 1..).zip(passed) {
                    let left = last_references[reference.page() as usize] == time;
                    window.pages -= usize::from(left);
                    if let Some(pages) = memory.left.as_mut().filter(|_| left) {
                        pages.push(PageId(self.first_page + reference.page()));
                    }
                }
            }
            ReferenceString::Intervals { transitions, .. } => {
                let passed = &transitions[window.next_transition..];
                for passed in passed.iter().take_while(|next| next.time <= rear) {
                    let left = self.falls_idle(passed, memory);
                    let window = &mut memory.windows[self.task];
                    window.pages -= usize::from(left);
                    if let Some(pages) = memory.left.as_mut().filter(|_| left) {
                        pages.push(PageId(self.first_page + passed.page));
                    }
                    window.next_transition += 1;
                }
            }
        }
        memory.windows[self.task].rear = rear;
    }
}

/// The state of a page by its flags.
fn state(flags: u8) -> PageState {
    match (flags & IN_USE != 0, flags & IN_WRITING != 0) {
        (false, _) => PageState::Idle,
        (true, false) => PageState::Clean,
        (true, true) => PageState::Dirty,
    }
}
