//! Which thread of the simulation runs next.
//!
//! Each thread is a coroutine: exactly one runs at a time, and gives way only in a call of the
//! kernel. Whose turn it is, is a matter of the seed alone.

use super::memory::TaskId;
use super::with;
use alloc::vec::Vec;
use core::cell::Cell;
use corosensei::Yielder;
use sweephand_policy::SplitMix64;

/// What a thread waits for.
#[derive(Clone, Debug)]
pub(super) enum Until {
    /// Its turn.
    Ready,
    /// Its turn, preferably after others have had theirs.
    Others,
    /// Somebody makes it ready.
    Woken,
    /// A time.
    Time(u64),
    /// One of some descriptors is readable, or a time.
    Readable(Vec<i32>, Option<u64>),
    /// A transfer has ended.
    Completion,
    /// Nothing: it has ended.
    Over,
}

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) until: Until,
    pub(super) space: usize,
    /// How often it gets a turn, in proportion to others.
    weight: u64,
    /// Its run ends when the others of its kind have ended.
    pub(super) is_agent: bool,
}

/// The threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    pub(super) tasks: Vec<Task>,
    current: TaskId,
    /// Turns until the weights change.
    turns_left: u32,
    /// One call of the kernel in this many lets others run.
    pub(super) switches: u64,
}

impl Schedule {
    pub(super) fn new(switches: u64) -> Self {
        Self { switches, ..Self::default() }
    }

    pub(super) fn add(&mut self, space: usize, is_agent: bool) -> TaskId {
        self.tasks.push(Task { until: Until::Ready, space, weight: 1, is_agent });
        self.tasks.len() - 1
    }

    pub(super) fn current(&self) -> TaskId {
        self.current
    }

    pub(super) fn set_current(&mut self, task: TaskId) {
        self.current = task;
    }

    pub(super) fn task(&self) -> &Task {
        &self.tasks[self.current]
    }

    /// Makes a thread ready that waits to be woken.
    pub(super) fn ready(&mut self, task: TaskId) {
        if matches!(self.tasks[task].until, Until::Woken) {
            self.tasks[task].until = Until::Ready;
        }
    }

    pub(super) fn end(&mut self, task: TaskId) {
        self.tasks[task].until = Until::Over;
    }

    pub(super) fn is_over(&self) -> bool {
        self.tasks.iter().all(|task| task.is_agent || matches!(task.until, Until::Over))
    }

    /// Chooses among threads that can run.
    pub(super) fn choose(&mut self, random: &mut SplitMix64, can_run: &[TaskId]) -> TaskId {
        if self.turns_left == 0 {
            // Some threads are much slower than others for a while.
            self.turns_left = 20 + random.below(400) as u32;
            for task in &mut self.tasks {
                task.weight = [1, 8, 64][random.below(3) as usize];
            }
        }
        self.turns_left -= 1;
        let total: u64 = can_run.iter().map(|&task| self.tasks[task].weight).sum();
        let mut left = random.below(total);
        for &task in can_run {
            match left.checked_sub(self.tasks[task].weight) {
                None => return task,
                Some(rest) => left = rest,
            }
        }
        can_run[0]
    }
}

std::thread_local! {
    /// The way back from each coroutine of this thread.
    static YIELDERS: Cell<[*const Yielder<(), ()>; MOST_TASKS]> = const { Cell::new([core::ptr::null(); MOST_TASKS]) };
}

/// By how many times a thread is late less often where it has not just let go of a lock.
const SELDOM_LATE: u64 = 25;

/// Most threads of a simulation.
pub(super) const MOST_TASKS: usize = 16;

/// A coroutine has begun.
pub(super) fn begin(task: TaskId, yielder: &Yielder<(), ()>) {
    let mut yielders = YIELDERS.get();
    yielders[task] = yielder;
    YIELDERS.set(yielders);
}

fn give_way() {
    let task = with(|world| world.schedule.current());
    let yielder = YIELDERS.get()[task];
    // SAFETY: this is the running coroutine's own, which lives on its stack.
    unsafe { (*yielder).suspend(()) };
}

/// The running thread may be interrupted here: for a turn of others, or for long.
pub(super) fn step() {
    let (gives_way, until) = with(|world| {
        world.now_ns += 200;
        let switches = world.schedule.switches;
        let late = world.behaviour.late * SELDOM_LATE;
        let until = if late > 0 && world.random.below(late) == 0 { Some(world.later()) } else { None };
        (world.random.below(switches) == 0, until)
    });
    match until {
        Some(until) => block(Until::Time(until)),
        None if gives_way => give_way(),
        None => {}
    }
}

/// The running thread waits.
pub(super) fn block(until: Until) {
    with(|world| {
        world.now_ns += 200;
        let task = world.schedule.current();
        world.schedule.tasks[task].until = until;
    });
    give_way();
    with(|world| {
        let task = world.schedule.current();
        world.schedule.tasks[task].until = Until::Ready;
    });
}
