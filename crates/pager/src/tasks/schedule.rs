//! Which tasks are active, and since when. No sockets, no processes: clocks and memory come from
//! outside.
//!
//! ```text
//!   delayed ──▶ ready ──▶ active ──▶ done        a process of an active task gets the frames that it asks for
//!                 ▲          │
//!                 └──────────┘ slice over, or memory overcommitted
//! ```
//!
//! The rules of load control are those of `sweephand multiprogram`
//! ([`sweephand_policy::load_control`]), with clocks instead of references:
//!
//! - Claims include frames that are asked for, and pages used since the hand passed them.
//! - A task is loading until it has had tau of processor time. (In the paper an I/O request of its
//!   own ends that too; the command does not see such requests.)
//! - The load of the paging device is the share of looks that found pages being read.
//! - In the simulation, a task that was just deactivated is not activated before something has
//!   happened. Here something always happens, so a pause takes the place of that rule.

use super::file::LoadControlOptions;
use super::statistics::{TaskStatistics, TasksStatistics};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use sweephand_pager_interface::lease::Instruction;
use sweephand_policy::load_control::{Candidate, Claims, Limits, Load, LoadController};
use sweephand_policy::{LoadControl, SplitMix64, VirtualTime};

/// How often to look at the clocks while a question or a task waits, or load control may deactivate
/// a task.
pub(super) const TICK: Duration = Duration::from_millis(5);
/// Virtual time, in microseconds, for which an inactive task may go on before its pages are
/// unmapped.
const GRACE_US: VirtualTime = 2_000;
/// A task is idle if it has had no processor time for this long and waits for no page: it sleeps,
/// or was stopped.
const IDLE_AFTER: Duration = Duration::from_millis(500);

/// What the schedule asks of memory.
pub(super) trait Memory {
    /// The task's virtual time, in microseconds.
    fn virtual_time(&self, task: usize) -> VirtualTime;
    /// Pages of the task that the policy has.
    fn resident_pages(&self, task: usize) -> usize;
    /// Whether a process of the task waits for frames, or for a page to be read.
    fn waits_for_page(&self, task: usize) -> bool;
    /// Whether a page of any task is being read.
    fn is_reading(&self) -> bool;
    /// The frames that a task claims, with those that it asks for.
    fn claim(&mut self, task: usize) -> usize;
    /// The frames that the active tasks claim, with those that they ask for; and the frames that
    /// there are for pages.
    fn claimed(&mut self) -> (usize, usize);
    /// Says whether a task takes part in multiprogramming. Pages of other tasks are replaceable.
    fn set_active(&mut self, task: usize, is_active: bool);
    /// Instructs all agents of a task.
    fn instruct(&mut self, task: usize, instruction: Instruction);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Its delay has not passed yet.
    Delayed,
    /// In the ready queue: not started, or deactivated.
    Ready,
    Active,
    Done,
}

#[derive(Debug)]
struct Task {
    delay: Duration,
    state: State,
    /// The memory that the task claimed when it was deactivated.
    claim: usize,
    /// Number of the latest activation, counted over all tasks, and its time.
    activation: u64,
    activated_us: VirtualTime,
    activated_at: Instant,
    /// When it was first activated. Its program is started then.
    begun_at: Option<Instant>,
    is_loading: bool,
    /// The task's virtual time when it was deactivated, and whether its pages have been unmapped
    /// since.
    deactivated_us: VirtualTime,
    is_frozen: bool,
    /// The task's virtual time at the latest look, and when it was last seen to advance.
    time_us: VirtualTime,
    ran_at: Instant,
    is_idle: bool,
    statistics: TaskStatistics,
}

/// What to do with a task that has left the ready queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// It is active for the first time: start its program.
    Start(usize),
    /// The run ends: it is not started.
    Drop(usize),
}

/// The tasks, and load control.
#[derive(Debug)]
pub(super) struct Schedule {
    options: LoadControlOptions,
    rules: LoadController,
    tasks: Vec<Task>,
    /// Inactive tasks. The first is the next to be activated.
    ready: VecDeque<usize>,
    /// Whether the run is ending. Then no task starts and none is held.
    is_stopping: bool,
    now: Instant,
    started: Instant,
    /// When a task was last deactivated by load control.
    gave_way: Option<Instant>,
    latest_claims: Instant,
    latest_tick: Instant,
    /// Looks at the paging device.
    period: Period,
    active: usize,
    loading: usize,
    random: SplitMix64,
    counts: Counts,
}

/// A period of feedback.
#[derive(Debug)]
struct Period {
    began: Instant,
    /// Looks taken in it, and those that found pages being read.
    looks: u32,
    busy: u32,
}

impl Period {
    fn new(began: Instant) -> Self {
        Self { began, looks: 0, busy: 0 }
    }
}

/// What is counted over the run.
#[derive(Debug)]
struct Counts {
    activations: u64,
    deactivations: u64,
    most_active: usize,
    most_loading: usize,
    /// Time summed over active tasks, up to `counted_until`.
    active_ns: u128,
    counted_until: Instant,
}

impl Schedule {
    /// Tasks by name and delay.
    pub(super) fn new(
        tasks: impl Iterator<Item = (String, Duration)>,
        options: &LoadControlOptions,
        of_policy: LoadControl,
        limits_loading: bool,
        now: Instant,
    ) -> Self {
        let limits = Limits {
            control: options.control,
            most_loading: limits_loading.then_some(options.loading_tasks),
            most_active: options.most_active,
            spare_frames: options.spare_pages,
            low: options.feedback.low,
            high: options.feedback.high,
        };
        let task = |(name, delay)| Task {
            delay,
            state: State::Delayed,
            claim: 0,
            activation: 0,
            activated_us: 0,
            activated_at: now,
            begun_at: None,
            is_loading: false,
            deactivated_us: 0,
            is_frozen: false,
            time_us: 0,
            ran_at: now,
            is_idle: false,
            statistics: TaskStatistics { name, ..Default::default() },
        };
        Self {
            options: options.clone(),
            rules: LoadController::new(limits, of_policy),
            tasks: tasks.map(task).collect(),
            ready: VecDeque::new(),
            is_stopping: false,
            now,
            started: now,
            gave_way: None,
            latest_claims: now,
            latest_tick: now,
            period: Period::new(now),
            active: 0,
            loading: 0,
            random: SplitMix64::new(1),
            counts: Counts {
                activations: 0,
                deactivations: 0,
                most_active: 0,
                most_loading: 0,
                active_ns: 0,
                counted_until: now,
            },
        }
    }

    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The run is ending.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Whether claims decide, for which used pages have to be counted.
    pub(super) fn needs_claims(&self) -> bool {
        self.rules.needs_claims()
    }

    /// Whether the clocks have to be looked at often.
    pub(super) fn is_busy(&self) -> bool {
        !self.ready.is_empty() || self.rules.gives_way() && self.active > 1
    }

    /// Whether a task's processes get the frames that they ask for. Processes that outlive their
    /// task do.
    pub(super) fn is_served(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Active | State::Done)
    }

    pub(super) fn is_loading(&self, task: usize) -> bool {
        self.tasks[task].is_loading
    }

    /// Active tasks, and those that have not ended.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.active, self.tasks.iter().filter(|task| task.state != State::Done).count())
    }

    // Clocks.

    /// Does what follows from the time and from the tasks' virtual times.
    pub(super) fn look_at_clocks(&mut self, memory: &mut impl Memory) {
        for task in 0..self.tasks.len() {
            let time = memory.virtual_time(task);
            let of = &mut self.tasks[task];
            if time > of.time_us || memory.waits_for_page(task) {
                of.ran_at = self.now;
            }
            of.time_us = time;
            let is_idle = self.now - of.ran_at > IDLE_AFTER;
            self.set_idle(task, is_idle, memory);
        }
        let (tau_us, slice_us) = (self.options.tau_ms * 1000, self.options.slice_ms * 1000);
        for task in 0..self.tasks.len() {
            let waited = self.now - self.started;
            let of = &mut self.tasks[task];
            match of.state {
                State::Delayed if self.is_stopping || waited >= of.delay => {
                    of.state = State::Ready;
                    of.statistics.ready_ns = waited.as_nanos() as u64;
                    self.ready.push_back(task);
                }
                State::Active => {
                    let used_us = of.time_us - of.activated_us;
                    if of.is_loading && used_us >= tau_us {
                        of.is_loading = false;
                        self.loading -= 1;
                    }
                    if slice_us > 0 && used_us >= slice_us && !self.ready.is_empty() && !self.is_stopping {
                        of.statistics.slice_ends += 1;
                        self.deactivate(task, memory);
                    }
                }
                // The task still runs, because it has not faulted. Without its pages it will.
                State::Ready
                    if of.begun_at.is_some()
                        && !of.is_frozen
                        && of.time_us - of.deactivated_us > GRACE_US =>
                {
                    of.is_frozen = true;
                    memory.instruct(task, Instruction::Freeze);
                }
                _ => {}
            }
        }
        if self.now - self.latest_tick >= TICK {
            self.latest_tick = self.now;
            if self.rules.needs_feedback() {
                self.look_at_device(memory);
            }
        }
    }

    /// Feedback: a look at the paging device, and at the end of a period what follows.
    fn look_at_device(&mut self, memory: &mut impl Memory) {
        self.period.looks += 1;
        self.period.busy += u32::from(memory.is_reading());
        if self.now - self.period.began < Duration::from_millis(self.options.feedback.period_ms) {
            return;
        }
        let device_load = f64::from(self.period.busy) / f64::from(self.period.looks);
        self.period = Period::new(self.now);
        if self.rules.adjust(device_load, self.active, !self.ready.is_empty()) {
            self.give_way(None, memory);
        }
    }

    /// Marks a task as idle or not. An idle task stays active. But while it sleeps, its pages are
    /// replaceable and load control does not count it: others would wait for a clock that stands
    /// still. It is not loading any more, like a task that does I/O in the paper.
    fn set_idle(&mut self, task: usize, is_idle: bool, memory: &mut impl Memory) {
        let of = &mut self.tasks[task];
        if of.state != State::Active || of.is_idle == is_idle {
            return;
        }
        of.is_idle = is_idle;
        self.loading -= usize::from(std::mem::take(&mut of.is_loading));
        memory.set_active(task, !is_idle);
    }

    /// Active tasks that are not idle.
    fn lively(&self) -> impl Iterator<Item = usize> {
        (0..self.tasks.len())
            .filter(|&task| self.tasks[task].state == State::Active && !self.tasks[task].is_idle)
    }

    // Load control.

    /// Activates the first ready tasks that load control admits, up to one for which there is
    /// something to do.
    pub(super) fn next(&mut self, memory: &mut impl Memory) -> Option<Next> {
        while let Some(&first) = self.ready.front() {
            let has_begun = self.tasks[first].begun_at.is_some();
            if self.is_stopping && !has_begun {
                self.ready.pop_front();
                return Some(Next::Drop(first));
            }
            if !self.is_stopping && !self.admits(first, memory) {
                return None;
            }
            self.ready.pop_front();
            self.activate(first, memory);
            if !has_begun {
                return Some(Next::Start(first));
            }
        }
        None
    }

    fn admits(&mut self, task: usize, memory: &mut impl Memory) -> bool {
        let load = Load { active: self.lively().count(), loading: self.loading };
        let rest = Duration::from_millis(self.options.rest_ms);
        if load.active > 0 && self.gave_way.is_some_and(|since| self.now - since < rest) {
            return false;
        }
        let Self { rules, tasks, now, latest_claims, .. } = self;
        rules.admits(load, || {
            // Computing claims looks at every frame. So it is not done at every report.
            if *now - *latest_claims < TICK {
                return None;
            }
            *latest_claims = *now;
            let (active, frames) = memory.claimed();
            Some(Claims { next: tasks[task].claim, active, frames })
        })
    }

    fn activate(&mut self, task: usize, memory: &mut impl Memory) {
        self.count_active_time();
        self.active += 1;
        self.counts.most_active = self.counts.most_active.max(self.active);
        self.counts.activations += 1;
        memory.set_active(task, true);
        let of = &mut self.tasks[task];
        of.state = State::Active;
        of.activation = self.counts.activations;
        of.activated_us = of.time_us;
        of.activated_at = self.now;
        of.ran_at = self.now;
        of.is_idle = false;
        of.statistics.activations += 1;
        of.is_frozen = false;
        if self.options.tau_ms > 0 {
            of.is_loading = true;
            self.loading += 1;
            self.counts.most_loading = self.counts.most_loading.max(self.loading);
        }
        if of.begun_at.is_some() {
            memory.instruct(task, Instruction::Resume);
        } else {
            of.begun_at = Some(self.now);
            let until_now = (self.now - self.started).as_nanos() as u64;
            of.statistics.waited_ns = until_now.saturating_sub(of.statistics.ready_ns);
        }
    }

    /// Takes a task out of multiprogramming and puts it at the end of the ready queue. Its
    /// questions wait until it is active again.
    fn deactivate(&mut self, task: usize, memory: &mut impl Memory) {
        let claim = memory.claim(task);
        self.leave_active(task, State::Ready, memory);
        let of = &mut self.tasks[task];
        of.claim = claim;
        of.deactivated_us = of.time_us;
        self.ready.push_back(task);
        memory.instruct(task, Instruction::Suspend);
    }

    fn leave_active(&mut self, task: usize, state: State, memory: &mut impl Memory) {
        self.count_active_time();
        let of = &mut self.tasks[task];
        self.loading -= usize::from(std::mem::take(&mut of.is_loading));
        of.statistics.active_ns += (self.now - of.activated_at).as_nanos() as u64;
        of.state = state;
        self.active -= 1;
        memory.set_active(task, false);
    }

    /// Whether a task can be deactivated because memory is overcommitted. At least one task stays
    /// active.
    pub(super) fn can_give_way(&self) -> bool {
        self.rules.gives_way() && !self.is_stopping && self.lively().nth(1).is_some()
    }

    /// Deactivates an active task because of overcommitment or too much paging, if there is one
    /// that can be. `faulting` is the task whose question showed it.
    pub(super) fn give_way(&mut self, faulting: Option<usize>, memory: &mut impl Memory) {
        if !self.can_give_way() {
            return;
        }
        let slice_us = self.options.slice_ms * 1000;
        let candidates = self.lively().map(|task| {
            let of = &self.tasks[task];
            Candidate {
                task,
                resident_pages: memory.resident_pages(task),
                slice_left: slice_us.saturating_sub(of.time_us - of.activated_us),
                is_faulting: Some(task) == faulting,
                activation: of.activation,
            }
        });
        let candidates: Vec<Candidate> = candidates.collect();
        let chosen = self.options.deactivate.choose(candidates.into_iter(), &mut self.random);
        let Some(chosen) = chosen else { return };
        self.tasks[chosen].statistics.deactivations += 1;
        self.counts.deactivations += 1;
        self.gave_way = Some(self.now);
        self.deactivate(chosen, memory);
    }

    /// A task's first process has ended, or the task is not started.
    pub(super) fn end(&mut self, task: usize, memory: &mut impl Memory) {
        match self.tasks[task].state {
            State::Active => self.leave_active(task, State::Done, memory),
            _ => self.tasks[task].state = State::Done,
        }
        self.ready.retain(|&other| other != task);
        let of = &mut self.tasks[task];
        of.statistics.wall_ns = of.begun_at.map_or(0, |since| (self.now - since).as_nanos() as u64);
        // Processes that the task leaves behind are served, whatever its state was.
        memory.instruct(task, Instruction::Resume);
    }

    // Counts.

    fn count_active_time(&mut self) {
        self.counts.active_ns += self.active as u128 * (self.now - self.counts.counted_until).as_nanos();
        self.counts.counted_until = self.now;
    }

    /// What was counted.
    pub(super) fn finish(mut self) -> TasksStatistics {
        self.count_active_time();
        let wall_ns = (self.now - self.started).as_nanos().max(1) as u64;
        TasksStatistics {
            wall_ns,
            mean_active_tasks: self.counts.active_ns as f64 / wall_ns as f64,
            most_active_tasks: self.counts.most_active as u64,
            most_loading_tasks: self.counts.most_loading as u64,
            deactivations: self.counts.deactivations,
            tasks: self.tasks.into_iter().map(|task| task.statistics).collect(),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::{Control, Deactivate};
    use super::*;

    /// Memory as a test says it is.
    #[derive(Default)]
    struct Paper {
        time_us: [VirtualTime; 4],
        resident: [usize; 4],
        waits: [bool; 4],
        claims: [usize; 4],
        active: [bool; 4],
        is_reading: bool,
        instructions: Vec<(usize, Instruction)>,
    }

    impl Memory for Paper {
        fn virtual_time(&self, task: usize) -> VirtualTime {
            self.time_us[task]
        }
        fn resident_pages(&self, task: usize) -> usize {
            self.resident[task]
        }
        fn waits_for_page(&self, task: usize) -> bool {
            self.waits[task]
        }
        fn is_reading(&self) -> bool {
            self.is_reading
        }
        fn claim(&mut self, task: usize) -> usize {
            self.claims[task]
        }
        fn claimed(&mut self) -> (usize, usize) {
            let active = self.claims.iter().zip(self.active).filter(|(_, active)| *active);
            (active.map(|(claim, _)| claim).sum(), 100)
        }
        fn set_active(&mut self, task: usize, is_active: bool) {
            self.active[task] = is_active;
        }
        fn instruct(&mut self, task: usize, instruction: Instruction) {
            self.instructions.push((task, instruction));
        }
    }

    /// A schedule, its memory, and a clock that the test moves.
    struct Bench {
        schedule: Schedule,
        memory: Paper,
        now: Instant,
    }

    impl Bench {
        fn new(tasks: u64, of_policy: LoadControl, options: LoadControlOptions) -> Self {
            let now = Instant::now();
            let tasks = (0..tasks).map(|task| (format!("t{task}"), Duration::from_millis(10 * task)));
            let schedule = Schedule::new(tasks, &options, of_policy, options.lt_rt, now);
            Self { schedule, memory: Paper::default(), now }
        }

        /// Lets time pass, in which the active tasks run. Returns what to do then.
        fn pass(&mut self, ms: u64) -> Vec<Next> {
            self.now += Duration::from_millis(ms);
            for task in 0..4 {
                self.memory.time_us[task] += if self.memory.active[task] { 1000 * ms } else { 0 };
            }
            self.look()
        }

        fn look(&mut self) -> Vec<Next> {
            self.schedule.set_now(self.now);
            self.schedule.look_at_clocks(&mut self.memory);
            std::iter::from_fn(|| self.schedule.next(&mut self.memory)).collect()
        }
    }

    fn options() -> LoadControlOptions {
        LoadControlOptions { tau_ms: 20, rest_ms: 100, ..Default::default() }
    }

    #[test]
    fn tasks_start_after_their_delays_and_one_loads_at_a_time() {
        let mut bench = Bench::new(3, LoadControl::Claims, options());
        assert_eq!(bench.pass(0), [Next::Start(0)], "one has to be active");
        assert_eq!(bench.pass(10), [], "task 1 is ready, but 0 is loading");
        assert_eq!(bench.pass(10), [Next::Start(1)], "0 has had tau");
        assert_eq!(bench.pass(20), [Next::Start(2)]);
        assert_eq!(bench.schedule.counts(), (3, 3));
        bench.schedule.end(1, &mut bench.memory);
        assert_eq!(bench.schedule.counts(), (2, 2));
        let statistics = bench.schedule.finish();
        assert_eq!((statistics.most_active_tasks, statistics.most_loading_tasks), (3, 1));
        let waited: Vec<_> = statistics.tasks.iter().map(|task| task.waited_ns / 1_000_000).collect();
        assert_eq!(waited, [0, 10, 20]);
        assert_eq!(statistics.tasks[1].active_ns, 20_000_000);
    }

    #[test]
    fn a_task_waits_until_its_claim_fits() {
        let mut bench = Bench::new(2, LoadControl::Claims, LoadControlOptions { tau_ms: 0, ..options() });
        bench.memory.claims = [70, 40, 0, 0];
        assert_eq!(bench.pass(20), [Next::Start(0), Next::Start(1)], "not started, it claims nothing");
        bench.schedule.give_way(Some(0), &mut bench.memory);
        assert_eq!(bench.memory.instructions, [(1, Instruction::Suspend)], "the one activated last");
        assert!(bench.schedule.is_served(0) && !bench.schedule.is_served(1));
        assert_eq!(bench.pass(200), []);
        assert!(!bench.memory.active[1], "70 and 40 are more than 100");
        bench.memory.claims[0] = 60;
        bench.pass(200);
        assert!(bench.memory.active[1]);
        assert_eq!(bench.memory.instructions[1..], [(1, Instruction::Resume)]);
    }

    #[test]
    fn a_task_that_gave_way_rests_and_is_frozen_if_it_goes_on() {
        let mut bench = Bench::new(2, LoadControl::Claims, LoadControlOptions { tau_ms: 0, ..options() });
        bench.pass(20);
        bench.schedule.give_way(None, &mut bench.memory);
        bench.memory.time_us[1] += GRACE_US + 1;
        bench.pass(50);
        assert_eq!(bench.memory.instructions, [(1, Instruction::Suspend), (1, Instruction::Freeze)]);
        assert!(!bench.memory.active[1], "it rests");
        bench.pass(50);
        assert!(bench.memory.active[1]);
    }

    #[test]
    fn the_last_active_task_stays_and_without_control_all_do() {
        let mut bench = Bench::new(1, LoadControl::Claims, options());
        bench.pass(0);
        assert!(!bench.schedule.can_give_way());
        bench.schedule.give_way(None, &mut bench.memory);
        assert!(bench.memory.active[0]);
        let none = LoadControlOptions { control: Control::None, lt_rt: false, ..options() };
        let mut bench = Bench::new(3, LoadControl::Claims, none);
        assert_eq!(bench.pass(30).len(), 3);
        assert!(!bench.schedule.can_give_way());
    }

    #[test]
    fn a_slice_ends_if_others_wait() {
        let slices = LoadControlOptions { slice_ms: 30, most_active: 1, ..options() };
        let mut bench = Bench::new(2, LoadControl::Claims, slices);
        bench.pass(0);
        assert_eq!(bench.pass(10), [], "task 1 is ready");
        assert_eq!(bench.pass(20), [Next::Start(1)]);
        assert_eq!(bench.memory.active[..2], [false, true]);
        bench.schedule.end(1, &mut bench.memory);
        bench.pass(30);
        bench.pass(60);
        assert_eq!(bench.memory.active[..2], [true, false], "task 0 alone keeps its turn");
    }

    #[test]
    fn an_idle_task_does_not_count() {
        let mut bench = Bench::new(2, LoadControl::Claims, LoadControlOptions { tau_ms: 0, ..options() });
        bench.memory.claims = [90, 0, 0, 0];
        bench.pass(20);
        // Task 1 sleeps, and 0 waits for a page: only 1 is idle.
        bench.memory.waits[0] = true;
        bench.now += Duration::from_millis(600);
        bench.look();
        assert_eq!(bench.memory.active[..2], [true, false]);
        assert_eq!(bench.schedule.counts().0, 2, "it stays active");
        assert!(!bench.schedule.can_give_way());
        bench.memory.time_us[1] += 1;
        bench.look();
        assert!(bench.memory.active[1], "it has run again");
    }

    #[test]
    fn feedback_follows_the_device() {
        let mut options = LoadControlOptions { lt_rt: false, ..options() };
        options.feedback.period_ms = 100;
        let mut bench = Bench::new(2, LoadControl::Feedback, options);
        bench.pass(0);
        assert_eq!(bench.pass(20), [], "one at first");
        let started: Vec<Next> = (0..20).flat_map(|_| bench.pass(5)).collect();
        assert_eq!(started, [Next::Start(1)], "an idle device: one more");
        bench.memory.is_reading = true;
        (0..40).for_each(|_| drop(bench.pass(5)));
        assert_eq!(bench.schedule.counts().0, 1, "a busy one: one gives way");
    }

    #[test]
    fn a_run_that_ends_starts_nothing_and_holds_nothing() {
        let mut bench = Bench::new(3, LoadControl::Claims, LoadControlOptions { tau_ms: 0, ..options() });
        assert_eq!(bench.pass(10), [Next::Start(0), Next::Start(1)]);
        bench.schedule.give_way(None, &mut bench.memory);
        bench.schedule.stop();
        assert_eq!(bench.pass(0), [Next::Drop(2)]);
        assert_eq!(bench.memory.active[..2], [true, true]);
        assert!(!bench.schedule.can_give_way());
    }

    #[test]
    fn the_choice_of_the_task_to_deactivate_is_the_files() {
        for (deactivate, expected) in
            [(Deactivate::Largest, 0), (Deactivate::Smallest, 1), (Deactivate::Last, 2)]
        {
            let options = LoadControlOptions { tau_ms: 0, deactivate, ..options() };
            let mut bench = Bench::new(3, LoadControl::Claims, options);
            bench.pass(30);
            bench.pass(10);
            bench.memory.resident = [9, 1, 5, 0];
            bench.schedule.give_way(None, &mut bench.memory);
            assert_eq!(bench.memory.instructions, [(expected, Instruction::Suspend)]);
        }
    }
}
