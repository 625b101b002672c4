//! The disk of the backing store: slow, in any order, and as unreliable as it is told to be.

use super::memory::{Entry, FrameId, SimulatedMemory};
use super::model::Model;
use crate::kernel::PAGE_BYTES;
use crate::store::ring::{Completion, Direction};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use rustix::io::Errno;
use sweephand_policy::SplitMix64;

/// How a disk behaves. A chance of N means one in N; 0 means never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behaviour {
    /// Most nanoseconds that a request takes.
    pub(super) latency_ns: u64,
    pub(super) read_error: u64,
    pub(super) write_error: u64,
    /// A transfer ends before its end.
    pub(super) short: u64,
    /// Pages that fit on the disk.
    pub(super) capacity: usize,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    due_ns: u64,
    direction: Direction,
    file: usize,
    first: u64,
    frames: Vec<FrameId>,
    tag: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) behaviour: Behaviour,
    /// What is in each page of each file.
    files: Vec<BTreeMap<u64, u64>>,
    /// Space reserved, in pages.
    reserved: Vec<u64>,
    under_way: Vec<Transfer>,
    completed: VecDeque<(u64, Result<u32, Errno>)>,
    /// Contents that a read has failed to bring.
    pub(super) lost: Vec<u64>,
    /// Whether a write has failed, or there was no space.
    pub(super) has_failed: bool,
}

/// One request in 64 is cancelled before it begins, and one write in 64 meets a limit of file sizes
/// that the program has just set.
const ONE_STOPPED_IN: u64 = 64;

fn happens(random: &mut SplitMix64, one_in: u64) -> bool {
    one_in > 0 && random.below(one_in) == 0
}

impl Disk {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        Self { behaviour, ..Self::default() }
    }

    pub(super) fn new_file(&mut self) -> usize {
        self.files.push(BTreeMap::new());
        self.reserved.push(0);
        self.files.len() - 1
    }

    pub(super) fn reserve(&mut self, file: usize, end: u64) -> Result<(), Errno> {
        let others: u64 = self.reserved.iter().sum::<u64>() - self.reserved[file];
        if others + end > self.behaviour.capacity as u64 {
            self.has_failed = true;
            return Err(Errno::NOSPC);
        }
        self.reserved[file] = self.reserved[file].max(end);
        Ok(())
    }

    /// A request that begins now.
    #[expect(clippy::too_many_arguments, reason = "what a request consists of, and the world")]
    pub(super) fn begin(
        &mut self,
        memory: &mut SimulatedMemory,
        model: &mut Model,
        random: &mut SplitMix64,
        now_ns: u64,
        direction: Direction,
        (file, offset): (usize, u64),
        (address, length): (usize, usize),
        tag: u64,
    ) {
        let mut frames = Vec::new();
        for page in (address..address + length).step_by(PAGE_BYTES) {
            let Some(&Entry::Present { frame, .. }) = memory.spaces[0].table.get(&page) else {
                return model.fail("a transfer of memory that is missing");
            };
            memory.hold(frame);
            memory.frames[frame].pins += 1;
            frames.push(frame);
        }
        let due_ns = now_ns + 1 + random.below(self.behaviour.latency_ns.max(1));
        let first = offset / PAGE_BYTES as u64;
        self.under_way.push(Transfer { due_ns, direction, file, first, frames, tag });
    }

    /// When the next request ends.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.under_way.iter().map(|transfer| transfer.due_ns).min()
    }

    /// Ends requests whose time has come.
    pub(super) fn advance(&mut self, memory: &mut SimulatedMemory, random: &mut SplitMix64, now_ns: u64) {
        while let Some(index) = self.under_way.iter().position(|transfer| transfer.due_ns <= now_ns) {
            let Transfer { direction, file, first, frames, tag, .. } = self.under_way.swap_remove(index);
            let result = if happens(random, ONE_STOPPED_IN) {
                Err(Errno::CANCELED)
            } else if direction == Direction::Write && happens(random, ONE_STOPPED_IN) {
                Err(Errno::FBIG)
            } else {
                self.transfer(memory, random, direction, file, first, &frames)
            };
            for frame in frames {
                memory.frames[frame].pins -= 1;
                memory.let_go(frame);
            }
            self.completed.push_back((tag, result));
        }
    }

    /// Does a transfer, now.
    pub(super) fn transfer(
        &mut self,
        memory: &mut SimulatedMemory,
        random: &mut SplitMix64,
        direction: Direction,
        file: usize,
        first: u64,
        frames: &[FrameId],
    ) -> Result<u32, Errno> {
        let mut count = frames.len();
        if happens(random, self.behaviour.short) {
            count = random.below(count as u64) as usize;
        }
        let has_failed = match direction {
            Direction::Read => happens(random, self.behaviour.read_error),
            Direction::Write => happens(random, self.behaviour.write_error),
        };
        if has_failed || count < frames.len() {
            match direction {
                // The page cannot be had any more, whatever came of the others.
                Direction::Read => {
                    let numbers = first..first + frames.len() as u64;
                    self.lost.extend(numbers.filter_map(|number| self.files[file].get(&number)));
                }
                Direction::Write => self.has_failed = true,
            }
        }
        if has_failed {
            return Err(Errno::IO);
        }
        for (number, &frame) in (first..).zip(&frames[..count]) {
            match direction {
                // What was never written is what some other file had there.
                Direction::Read => {
                    memory.frames[frame].content = self.files[file].get(&number).copied().unwrap_or(u64::MAX);
                }
                Direction::Write => _ = self.files[file].insert(number, memory.frames[frame].content),
            }
        }
        Ok((count * PAGE_BYTES) as u32)
    }

    pub(super) fn has_completions(&self) -> bool {
        !self.completed.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn reap(&mut self) -> Option<Completion> {
        let (tag, result) = self.completed.pop_front()?;
        Some(Completion { tag, result })
    }
}
