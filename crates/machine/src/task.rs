//! A task: a program being executed, and what the scheduler knows about it.

use crate::configuration::Configuration;
use crate::execute::Position;
use crate::program::Program;
use std::sync::Arc;
use sweephand_policy::{PageId, SplitMix64, VirtualTime};

/// What a task is about. Whether it is active is [`Memory`](crate::memory::Memory)'s to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Inactive: in the ready queue.
    Ready,
    /// Active: in the queue for the processor, or on it.
    Runnable,
    /// Active, and its read request is in the paging queue.
    Queued,
    /// Active, and its page is being read.
    Reading,
    /// Waits for I/O, active or not.
    Io,
    /// At its end.
    Finished,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) program: Arc<Program>,
    pub(crate) position: Position,
    pub(crate) state: State,
    /// Active, and neither tau of virtual time nor an I/O request since its activation.
    pub(crate) loading: bool,
    /// Its level in the ready queue; 0 is the highest.
    pub(crate) level: usize,
    /// Virtual time at its latest activation.
    pub(crate) activated_at: VirtualTime,
    /// Its activation by number, counted over all tasks.
    pub(crate) activation: u64,
    /// References left of its quantum.
    pub(crate) quantum_left: u64,
    /// What it claimed of memory when it was deactivated, in frames.
    pub(crate) claim: usize,
    /// Virtual time of its next I/O request.
    pub(crate) io_at: VirtualTime,
    /// Draws its I/O intervals and service times: the same for all policies.
    random: SplitMix64,
    /// Mean virtual time between I/O requests; 0 for none.
    io_interval: u64,
    /// The first of [`Program::drops`] that it has not come to.
    pub(crate) next_drop: usize,
}

impl Task {
    pub(crate) fn new(
        number: usize,
        program: Arc<Program>,
        first_page: u32,
        io_interval: u64,
        seed: u64,
        configuration: &Configuration,
    ) -> Self {
        let mut task = Self {
            position: Position { task: number, first_page, ..Position::default() },
            program,
            state: State::Ready,
            loading: false,
            level: 0,
            activated_at: 0,
            activation: 0,
            quantum_left: configuration.processor.quantum_refs,
            claim: 0,
            io_at: 0,
            random: SplitMix64::new(SplitMix64::new(seed ^ (number as u64 + 1)).next_u64()),
            io_interval,
            next_drop: 0,
        };
        task.draw_io(0);
        task
    }

    /// Draws when the next I/O request comes: exponential intervals.
    pub(crate) fn draw_io(&mut self, now: VirtualTime) {
        self.io_at = match self.io_interval {
            0 => VirtualTime::MAX,
            mean => {
                let interval = -libm::log(1.0 - self.random.unit()) * mean as f64;
                now + (interval.round() as u64).max(1)
            }
        };
    }

    /// Draws how long an I/O request takes.
    pub(crate) fn draw_service(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.random.below(most - least + 1)
    }

    /// The pages of its string as the machine numbers them.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + use<> {
        let first = self.position.first_page;
        (first..first + self.program.pages).map(PageId)
    }
}
