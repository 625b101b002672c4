//! The machine: events, the processor, and the paging devices, over real time.
//!
//! ```text
//!                    may a task be activated?                     fault
//!   ready queue ────────────────────────────▶ queue for the ───────────────▶ paging queue ──▶ paging devices
//!        ▲                 LoadControl         processor, in   ◀─────────────────────────────── page read
//!        │                                     turns           ──── I/O ────▶ ... ────▶ back
//!        └── slice over, or overcommitment: deactivated ──────────┘
//! ```
//!
//! After every event, load control activates the tasks that it may, and idle devices take requests
//! from the queue. Only then does a read request get a frame: a free one if there is one, otherwise
//! one that the policy gives up. Real time is in references: in each unit of time the processor
//! executes one, or is idle. Events at the same time happen in the order in which they were caused.
//! Only the seeds are random.

use crate::calendar::{Calendar, Event};
use crate::configuration::Configuration;
use crate::execute::Stop;
use crate::load_control::{Load, LoadController};
use crate::memory::{AWAITED, CLEANING, DIRTY, MachineMemory, RESIDENT};
use crate::outcome::{Measures, Outcome, Sample};
use crate::paging::{Devices, Request};
use crate::program::Program;
use crate::task::{State, Task};
use std::collections::VecDeque;
use std::sync::Arc;
use sweephand_policy::load_control::Candidate;
use sweephand_policy::task_registry::Made;
use sweephand_policy::{ExactMmu, PageId, Reclaim, SplitMix64, TaskMmu};
use sweephand_trace::Interrupt;

/// Streams of random numbers are kept apart, so that one more draw from one does not change the
/// others.
const SERVICE_STREAM: u64 = 0x5345_5256_4943_4501;
const CHOICE_STREAM: u64 = 0x4348_4f49_4345_0001;
const IO_STREAM: u64 = 0x494f_494e_5445_5201;

/// A task to be run: its program, and its mean interval between I/O requests (0 for none).
#[derive(Clone, Debug)]
pub struct Job {
    /// What it executes.
    pub program: Arc<Program>,
    /// Virtual time in references; 0 for none.
    pub io_interval_refs: u64,
}

/// A run of tasks under one policy.
pub struct Machine<'a> {
    configuration: &'a Configuration,
    policy: Made<MachineMemory>,
    memory: MachineMemory,
    tasks: Vec<Task>,
    load_control: LoadController,
    load: Load,
    queues: TaskQueues,
    devices: Devices,
    /// Replaced pages that whoever takes their frames has to write first.
    to_write: u64,
    /// The policy said to wait, and nothing has happened since that could change its mind.
    waits: bool,
    /// A task has given way since the last event.
    gave_way: bool,
    calendar: Calendar,
    choice: SplitMix64,
    measures: Measures,
}

/// Where the tasks wait that do not wait for a page or for I/O.
#[derive(Debug, Default)]
struct TaskQueues {
    /// Inactive tasks, the next to be activated in front.
    ready: VecDeque<usize>,
    /// Tasks from this one on wait outside.
    next_outside: usize,
    /// Active tasks that do not wait, the next to run in front.
    runnable: VecDeque<usize>,
    /// How many are at their end.
    finished: usize,
}

impl<'a> Machine<'a> {
    /// A machine before its first reference, with all jobs ready. `limits_loading` says whether the
    /// number of loading tasks is limited (LT/RT).
    pub fn new(
        configuration: &'a Configuration,
        policy: Made<MachineMemory>,
        jobs: &[Job],
        seed: u64,
        limits_loading: bool,
    ) -> Self {
        let mut memory = MachineMemory::new(configuration.frames);
        let is_exact = policy.is_exact();
        memory.coupled_writes = configuration.devices.coupled_writes;
        memory.left = (is_exact && configuration.load_control.no_reclaim).then(Vec::new);
        let tasks: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(number, Job { program, io_interval_refs })| {
                let first_page = memory.add_task(program.pages, is_exact);
                let program = program.clone();
                Task::new(number, program, first_page, *io_interval_refs, seed ^ IO_STREAM, configuration)
            })
            .collect();
        let at_once = match configuration.tasks.at_once {
            0 => tasks.len(),
            limit => limit.min(tasks.len()),
        };
        Self {
            load_control: LoadController::new(
                configuration,
                policy.load_control(),
                limits_loading,
                tasks.len(),
            ),
            load: Load::default(),
            queues: TaskQueues {
                ready: (0..at_once).collect(),
                next_outside: at_once,
                ..TaskQueues::default()
            },
            devices: Devices::new(configuration, seed ^ SERVICE_STREAM),
            to_write: 0,
            waits: false,
            gave_way: false,
            calendar: Calendar::default(),
            choice: SplitMix64::new(seed ^ CHOICE_STREAM),
            measures: Measures::default(),
            configuration,
            policy,
            memory,
            tasks,
        }
    }

    /// Has the machine described every `sample_refs` units of time.
    pub fn sample_every(&mut self, sample_refs: u64) {
        self.measures.sample_refs = sample_refs;
    }

    /// Runs until every task is at its end.
    pub fn run(mut self) -> (Outcome, Vec<Sample>) {
        while self.step() {}
        (self.outcome(), self.measures.samples)
    }

    /// The same; `None` if it is interrupted.
    pub(crate) fn run_unless(mut self, interrupt: &Interrupt) -> Option<(Outcome, Vec<Sample>)> {
        while self.step() {
            if interrupt.is_raised() {
                return None;
            }
        }
        Some((self.outcome(), self.measures.samples))
    }

    /// Goes on to the next event or the end of the next burst, whichever comes first. Returns
    /// whether there is more to come.
    pub(crate) fn step(&mut self) -> bool {
        self.sample();
        while let Some(event) = self.calendar.due() {
            self.event(event);
        }
        self.schedule();
        if self.queues.finished == self.tasks.len() {
            return false;
        }
        match (self.queues.runnable.pop_front(), self.calendar.next_time()) {
            (Some(task), _) => self.burst(task),
            (None, Some(time)) => {
                self.calendar.now = time.min(self.load_control.next_look().max(self.calendar.now))
            }
            (None, None) => {
                let Self { calendar: Calendar { now, .. }, load, devices, .. } = self;
                unreachable!("at {now} no task can run and nothing is going to happen: {load:?}, {devices:?}")
            }
        }
        true
    }

    /// The measures so far.
    pub(crate) fn outcome(&mut self) -> Outcome {
        self.count_active_time();
        let elapsed = self.calendar.now;
        let share = |of: u64| if elapsed == 0 { 0.0 } else { of as f64 / elapsed as f64 };
        Outcome {
            elapsed_refs: elapsed,
            utilization: share(self.measures.counts.references),
            mean_mpl: share(self.measures.active_time),
            hand_steps: self.policy.hand_steps(),
            ws_scans: self.policy.working_set_scans(),
            ..self.measures.counts
        }
    }

    // The processor.

    /// Has a task execute until something stops it: the end of its turn, slice, string or loading
    /// phase, an event, a fault, I/O.
    fn burst(&mut self, number: usize) {
        let (configuration, theta) = (self.configuration, self.policy.theta());
        let task = &mut self.tasks[number];
        let start = self.memory.virtual_time[number];
        let slice_end = task.activated_at.saturating_add(configuration.processor.slice_refs);
        let loaded = if task.loading {
            task.activated_at.saturating_add(configuration.load_control.tau_refs)
        } else {
            u64::MAX
        };
        let dropped = task.program.drops.get(task.next_drop).map_or(u64::MAX, |next| next.time);
        let now = self.calendar.now;
        let undisturbed = self.calendar.next_time().map_or(u64::MAX, |time| time - now);
        let undisturbed = undisturbed.min(self.load_control.next_look() - now);
        // What has been reached already is dealt with below; no burst but one that faults is empty.
        let limit = [slice_end, loaded, task.io_at, dropped, task.program.references]
            .into_iter()
            .fold(start + task.quantum_left.min(undisturbed), u64::min)
            .max(start);
        // Without reclaim a page is gone as soon as it leaves its working set.
        let limit = match &self.memory.left {
            Some(_) => task.position.until_one_leaves(&task.program, &self.memory, limit, theta),
            None => limit,
        };
        let mut stop = Stop::Limit;
        if limit > start {
            if let Some((page, _)) = task.position.repeats {
                self.memory.flags[page.index()] &= !AWAITED;
                self.waits = false;
            }
            let (position, program, memory) = (&mut task.position, &task.program, &mut self.memory);
            stop = if self.policy.is_exact() {
                position.execute::<true>(program, memory, limit, theta)
            } else {
                position.execute::<false>(program, memory, limit, theta)
            };
        }
        let now = self.memory.virtual_time[number];
        let executed = now - start;
        self.calendar.now += executed;
        self.measures.counts.references += executed;
        task.quantum_left -= executed;
        self.load_control.executed(number, now);
        if task.loading && now - task.activated_at >= configuration.load_control.tau_refs {
            self.end_loading(number);
        }
        self.give_up_pages(number, now);
        for page in self.memory.left.as_mut().map(std::mem::take).unwrap_or_default() {
            self.take_away(page);
        }

        let task = &mut self.tasks[number];
        if let Stop::Fault(page) = stop {
            self.fault(number, page);
        } else if now >= task.program.references {
            self.finish(number);
        } else if now >= task.io_at {
            self.request_io(number, now);
        } else if now >= slice_end {
            self.measures.counts.slice_ends += 1;
            task.level = (task.level + 1).min(configuration.processor.ready_levels - 1);
            self.deactivate(number);
        } else if task.quantum_left == 0 {
            task.quantum_left = configuration.processor.quantum_refs;
            self.queues.runnable.push_back(number);
        } else {
            self.queues.runnable.push_front(number);
        }
    }

    /// Contents that the program gives up at this virtual time: their frames are free at once.
    fn give_up_pages(&mut self, number: usize, now: u64) {
        let program = self.tasks[number].program.clone();
        while let Some(drop) = program.drops.get(self.tasks[number].next_drop).filter(|drop| drop.time <= now)
        {
            self.tasks[number].next_drop += 1;
            let first_page = self.tasks[number].position.first_page;
            drop.pages.clone().for_each(|page| self.discard(PageId(first_page + page)));
        }
    }

    /// Without reclaim: a page outside its working set, or of an inactive task, is gone. A dirty
    /// one is written before, unless it comes into use again meanwhile.
    fn take_away(&mut self, page: PageId) {
        let owner = TaskMmu::owner(&self.memory, page);
        let (now, active) = (self.memory.virtual_time[owner.index()], self.memory.active[owner.index()]);
        let is_outside = now - ExactMmu::last_reference(&self.memory, page) >= self.policy.theta() || !active;
        if !self.memory.is(page, RESIDENT) || self.memory.is(page, CLEANING | AWAITED) || !is_outside {
            return;
        }
        if TaskMmu::is_dirty(&self.memory, page) {
            self.memory.start_cleaning(page);
            self.queue_writes();
        } else {
            self.policy.remove(page);
            self.evict_from_memory(page);
            self.memory_changed();
        }
    }

    /// Puts the pages that wait to be cleaned into the paging queues.
    fn queue_writes(&mut self) {
        for page in std::mem::take(&mut self.memory.to_clean) {
            self.devices.push(page, Request::Write { page });
        }
    }

    fn discard(&mut self, page: PageId) {
        if self.memory.is(page, CLEANING) {
            self.devices.withdraw_write(page);
        }
        if self.memory.discard(page) {
            self.policy.remove(page);
            self.memory_changed();
        }
    }

    fn fault(&mut self, number: usize, page: PageId) {
        self.measures.counts.page_faults += 1;
        self.policy.fault(page, &mut self.memory);
        self.memory_changed();
        let task = &mut self.tasks[number];
        task.state = State::Queued;
        self.load.waiting += 1;
        task.quantum_left = self.configuration.processor.quantum_refs;
        let request = Request::Read { page, task: number, loading: task.loading };
        self.devices.push(page, request);
    }

    fn request_io(&mut self, number: usize, now: u64) {
        self.measures.counts.io_requests += 1;
        self.end_loading(number);
        let task = &mut self.tasks[number];
        task.state = State::Io;
        task.quantum_left = self.configuration.processor.quantum_refs;
        task.draw_io(now);
        let service = task.draw_service(self.configuration.io.service_refs);
        self.calendar.cause(service, Event::IoDone { task: number });
    }

    fn finish(&mut self, number: usize) {
        self.leave_active(number, State::Finished);
        self.queues.finished += 1;
        for page in self.tasks[number].pages() {
            self.discard(page);
        }
        if self.queues.next_outside < self.tasks.len() {
            self.make_ready(self.queues.next_outside);
            self.queues.next_outside += 1;
        }
    }

    // Events.

    fn event(&mut self, event: Event) {
        self.gave_way = false;
        match event {
            Event::IoDone { task } => {
                if self.memory.active[task] {
                    self.tasks[task].state = State::Runnable;
                    self.queues.runnable.push_back(task);
                } else {
                    self.tasks[task].state = State::Ready;
                }
            }
            Event::Transferred { device } => match self.devices.finish(device) {
                Request::Read { page, task, .. } => self.loaded(page, task),
                Request::Write { page } => {
                    self.memory.flags[page.index()] &= !CLEANING;
                    self.policy.cleaned(page);
                    self.memory_changed();
                    if self.memory.left.is_some() {
                        self.take_away(page);
                    }
                }
                Request::Void => {}
            },
        }
    }

    fn loaded(&mut self, page: PageId, number: usize) {
        self.memory.load(page);
        let referenced = self.policy.insert(page, &mut self.memory);
        self.memory.flags[page.index()] |= AWAITED;
        self.memory_changed();
        let task = &mut self.tasks[number];
        task.position.repeats = Some((page, referenced));
        task.state = State::Runnable;
        self.load.waiting -= 1;
        self.queues.runnable.push_back(number);
    }

    /// Something has happened to pages: claims have to be computed again, and a policy that said to
    /// wait has to be asked again.
    fn memory_changed(&mut self) {
        self.load_control.memory_changed();
        self.waits = false;
    }

    // Load control.

    fn schedule(&mut self) {
        if self.calendar.now >= self.load_control.next_look()
            && self.load_control.look(
                self.measures.counts.page_reads,
                self.load.active,
                !self.queues.ready.is_empty(),
            )
        {
            self.give_way(None);
        }
        while let Some(&first) = self.queues.ready.front() {
            let claim = self.tasks[first].claim;
            // One that has just given way would do so again.
            let admitted = !self.gave_way || self.load.active == 0;
            if !admitted || !self.load_control.admits(claim, self.load, &*self.policy, &self.memory) {
                break;
            }
            self.queues.ready.pop_front();
            self.activate(first);
        }
        // What one queue has done can be work for another: a page to clean, a frame.
        while self.dispatch_all() && self.devices.queues() > 1 {}
    }

    fn activate(&mut self, number: usize) {
        self.count_active_time();
        self.measures.counts.activations += 1;
        self.memory.active[number] = true;
        self.load.active += 1;
        let task = &mut self.tasks[number];
        task.activated_at = self.memory.virtual_time[number];
        task.activation = self.measures.counts.activations;
        task.quantum_left = self.configuration.processor.quantum_refs;
        if self.configuration.load_control.tau_refs > 0 {
            task.loading = true;
            self.load.loading += 1;
            self.measures.counts.most_loading =
                self.measures.counts.most_loading.max(self.load.loading as u64);
        }
        if task.state == State::Ready {
            task.state = State::Runnable;
            self.queues.runnable.push_back(number);
        }
        self.memory_changed();
    }

    fn end_loading(&mut self, number: usize) {
        self.load.loading -= usize::from(std::mem::take(&mut self.tasks[number].loading));
    }

    /// Takes a task out of multiprogramming: to the end of the ready queue, with a new time slice
    /// when it comes back. A read that it waits for is withdrawn: it will make the reference again.
    fn deactivate(&mut self, number: usize) {
        let waits = usize::from(self.tasks[number].state == State::Queued);
        self.tasks[number].claim = self.load_control.claim(number, &*self.policy, &self.memory) + waits;
        let io = self.tasks[number].state == State::Io;
        self.leave_active(number, if io { State::Io } else { State::Ready });
        self.make_ready(number);
        if self.memory.left.is_some() {
            self.tasks[number].pages().for_each(|page| self.take_away(page));
        }
    }

    /// Puts a task behind the others of its level.
    fn make_ready(&mut self, number: usize) {
        let level = self.tasks[number].level;
        let lower = self.queues.ready.iter().position(|other| self.tasks[*other].level > level);
        self.queues.ready.insert(lower.unwrap_or(self.queues.ready.len()), number);
    }

    fn leave_active(&mut self, number: usize, state: State) {
        self.count_active_time();
        debug_assert_ne!(self.tasks[number].state, State::Reading, "a page is on its way to the task");
        self.end_loading(number);
        self.memory.active[number] = false;
        self.load.active -= 1;
        self.devices.withdraw_read(number);
        self.queues.runnable.retain(|other| *other != number);
        let task = &mut self.tasks[number];
        self.load.waiting -= usize::from(task.state == State::Queued);
        task.state = state;
        if let Some((page, _)) = task.position.repeats.take() {
            self.memory.flags[page.index()] &= !AWAITED;
        }
        self.memory_changed();
    }

    /// Deactivates an active task because of overcommitment, or too much paging; `faulting` is the
    /// task whose fault showed it. At least one task stays active, and those whose pages are on
    /// their way do. Returns whether there was one to deactivate.
    fn give_way(&mut self, faulting: Option<usize>) -> bool {
        if self.load.active < 2 {
            return false;
        }
        let Self { memory, tasks, choice, .. } = self;
        let can = |number: &usize| memory.active[*number] && tasks[*number].state != State::Reading;
        let slice_refs = self.configuration.processor.slice_refs;
        let candidates = (0..tasks.len()).filter(can).map(|number| Candidate {
            task: number,
            resident_pages: memory.resident[number],
            slice_left: slice_refs.saturating_sub(memory.virtual_time[number] - tasks[number].activated_at),
            is_faulting: Some(number) == faulting,
            activation: tasks[number].activation,
        });
        let chosen = self.configuration.load_control.deactivate.choose(candidates, choice);
        if let Some(number) = chosen {
            self.measures.counts.deactivations += 1;
            self.gave_way = true;
            self.deactivate(number);
        }
        chosen.is_some()
    }

    // The paging devices.

    /// Gives idle devices what they can do. Returns whether anything came of it.
    fn dispatch_all(&mut self) -> bool {
        let mut came = false;
        for queue in 0..self.devices.queues() {
            while self.devices.is_idle(queue) && self.dispatch(queue) {
                came = true;
            }
        }
        came
    }

    /// Gives an idle device of a queue its next request. Returns whether anything came of it.
    fn dispatch(&mut self, queue: usize) -> bool {
        match self.devices.first(queue) {
            None | Some(Request::Void) => false,
            Some(Request::Write { .. }) => self.start_write(queue),
            Some(Request::Read { page, task, .. }) => {
                if self.memory.free_frames == 0 && !self.make_room(task) {
                    // Pages being cleaned will make room: rather write them now than wait. With a
                    // queue each they may be another device's.
                    let mut queues = std::iter::once(queue).chain(0..self.devices.queues());
                    return queues.any(|queue| self.devices.is_idle(queue) && self.start_write(queue));
                }
                // Making room can have deactivated the very task.
                if self.memory.free_frames > 0 && self.tasks[task].state == State::Queued {
                    let request = self.devices.pop(queue);
                    debug_assert!(matches!(request, Request::Read { page: first, .. } if first == page));
                    self.memory.free_frames -= 1;
                    self.tasks[task].state = State::Reading;
                    self.measures.counts.page_reads += 1;
                    self.start(request, queue);
                }
                true
            }
        }
    }

    /// Has a page replaced, or a task deactivated so that this becomes possible. Returns false if
    /// there is nothing to do but wait.
    fn make_room(&mut self, faulting: usize) -> bool {
        if self.waits {
            return false;
        }
        self.load_control.memory_changed();
        let mut answer = self.policy.reclaim(&mut self.memory);
        let overcommitted = answer == Reclaim::Overcommitted;
        let mut forced = false;
        if overcommitted && self.load.active == 1 {
            forced = true;
            answer = self.policy.reclaim_anyway(&mut self.memory);
        }
        self.queue_writes();
        match answer {
            Reclaim::Evict(victim) => {
                self.measures.counts.replacements += 1;
                self.measures.counts.forced_replacements += u64::from(forced);
                self.evict(victim);
                true
            }
            Reclaim::Overcommitted if self.give_way(Some(faulting)) => true,
            // The pages of all others are on their way, or it is all being cleaned.
            Reclaim::Overcommitted | Reclaim::Wait => {
                self.waits = true;
                false
            }
        }
    }

    fn evict(&mut self, victim: PageId) {
        debug_assert!(
            !self.memory.is(victim, CLEANING | AWAITED) && !TaskMmu::is_dirty(&self.memory, victim),
            "victim {victim} is busy or dirty"
        );
        debug_assert!(self.memory.is(victim, RESIDENT));
        self.policy.evict(victim);
        self.evict_from_memory(victim);
    }

    fn evict_from_memory(&mut self, victim: PageId) {
        self.to_write += u64::from(self.memory.is(victim, DIRTY));
        let owner = TaskMmu::owner(&self.memory, victim).index();
        if self.memory.evict(victim) {
            let task = &mut self.tasks[owner];
            task.position.lost(victim, self.memory.virtual_time[owner], &task.program);
        }
    }

    /// Starts the first write in a queue, if there is one.
    fn start_write(&mut self, queue: usize) -> bool {
        let Some(page) = self.devices.pop_write(queue) else { return false };
        self.memory.begin_write(page);
        self.measures.counts.page_writes += 1;
        self.start(Request::Write { page }, queue);
        true
    }

    fn start(&mut self, request: Request, queue: usize) {
        let mut service = self.devices.draw_service();
        if self.to_write > 0 && matches!(request, Request::Read { .. }) {
            self.to_write -= 1;
            self.measures.counts.page_writes += 1;
            service += self.devices.draw_service();
        }
        self.measures.counts.device_busy_refs += service;
        let device = self.devices.begin(request, queue);
        self.calendar.cause(service, Event::Transferred { device });
    }

    // Measures.

    fn count_active_time(&mut self) {
        self.measures.count_active_time(self.load.active, self.calendar.now);
    }

    /// Describes the machine at the times that have been passed since the last step.
    fn sample(&mut self) {
        while let Some(time_refs) = self.measures.sample_due(self.calendar.now) {
            let waits = |task: &&Task| matches!(task.state, State::Queued | State::Reading | State::Io);
            let active = self.tasks.iter().zip(&self.memory.active).filter(|(_, active)| **active);
            self.measures.samples.push(Sample {
                time_refs,
                active_tasks: self.load.active,
                loading_tasks: self.load.loading,
                blocked_tasks: active.filter(|(task, _)| waits(task)).count(),
                free_frames: self.memory.free_frames,
                paging_queue: self.devices.waiting(),
                ready_tasks: self.queues.ready.len(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ReferenceString;
    use proptest::prelude::*;
    use std::io::Cursor;
    use sweephand_policy::task_registry::TaskSpec;
    use sweephand_policy::{Claim, TaskId};
    use sweephand_trace::{EndTotals, Metadata, Trace, Writer};

    fn configuration(frames: usize, quantum: u64) -> Configuration {
        let text = format!(
            "name = 'test'\nframes = {frames}\n[devices]\naccess_refs = [5, 20]\n[processor]\nquantum_refs = {quantum}\nslice_refs \
             = 300\n[io]\ninterval_refs = 150\nservice_refs = [5, 20]\n[load_control]\ntau_refs = 20\n[tasks]\nprograms = ['x']\n"
        );
        Configuration::parse(&text).unwrap()
    }

    /// Phases of some locality, so that there are working sets.
    fn string(pages: u64, references: usize, seed: u64) -> Vec<(u32, bool)> {
        let mut random = SplitMix64::new(seed);
        let mut first = 0;
        (0..references)
            .map(|time| {
                if time % 100 == 0 {
                    first = random.below(pages);
                }
                let page = (first + random.below(4) + random.below(20) / 19 * random.below(pages)) % pages;
                (page as u32, random.below(3) == 0)
            })
            .collect()
    }

    fn job(string: Vec<(u32, bool)>, io_interval_refs: u64) -> Job {
        Job { program: Arc::new(Program::from_references("string", string)), io_interval_refs }
    }

    /// Pages among the last `theta` references of a task.
    fn working_set(task: &Task, now: u64, theta: u64) -> usize {
        let ReferenceString::Full(references) = &task.program.string else {
            panic!("every reference is there")
        };
        let window = &references[now.saturating_sub(theta) as usize..now as usize];
        window.iter().map(|reference| reference.page()).collect::<std::collections::BTreeSet<_>>().len()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// The paper's claim: after theta of virtual time since its activation a task's working set
        /// is its resident working set, if last references are known exactly.
        #[test]
        fn resident_working_sets_are_working_sets_after_theta(seed in any::<u64>(), theta in 5_u64..60, frames in 24_usize..40) {
            let configuration = configuration(frames, 1);
            let jobs = [1, 2, 3, 4].map(|of| job(string(12 + of, 600, seed ^ of), 150));
            let spec = TaskSpec::parse("wsclock").unwrap().with_theta(Some(theta));
            let policy = spec.make_exact(frames).unwrap();
            let mut machine = Machine::new(&configuration, policy, &jobs, seed, true);
            let mut compared = 0;
            while machine.step() {
                machine.policy.sample(&mut machine.memory);
                let mut claims = [Claim::NONE; 4];
                machine.policy.claims(&machine.memory, &mut claims);
                for (number, task) in machine.tasks.iter().enumerate() {
                    let now = machine.memory.virtual_time[number];
                    let settled = task.state == State::Runnable && task.position.repeats.is_none();
                    if settled && now - task.activated_at >= theta {
                        prop_assert_eq!(claims[number].frames, working_set(task, now, theta), "task {} at {}", number, now);
                        compared += 1;
                    }
                }
            }
            prop_assert_eq!(machine.measures.counts.forced_replacements, 0);
            prop_assert!(compared > 300);
        }

        /// The window that is moved along counts what a look at the last theta references counts.
        #[test]
        fn exact_working_sets_are_counted_exactly(seed in any::<u64>(), theta in 1_u64..80, quantum in 1_u64..30) {
            let configuration = configuration(20, quantum);
            let jobs = [1, 2, 3].map(|of| job(string(10, 500, seed ^ of), 100));
            let spec = TaskSpec::parse("ws").unwrap().with_theta(Some(theta));
            let policy = spec.make_exact(20).unwrap();
            let mut machine = Machine::new(&configuration, policy, &jobs, seed, true);
            while machine.step() {
                let running = |(_, task): &(usize, &Task)| task.state != State::Finished;
                for (number, task) in machine.tasks.iter().enumerate().filter(running) {
                    let now = machine.memory.virtual_time[number];
                    let counted = machine.memory.working_set_pages(TaskId(number as u32));
                    prop_assert_eq!(counted, working_set(task, now, theta), "task {} at {}", number, now);
                }
            }
        }
    }

    /// What must hold at every step under every policy.
    fn audit(configuration: &Configuration, jobs: &[Job], name: &str) {
        let policy = TaskSpec::parse(name).unwrap().make_exact(configuration.frames).unwrap();
        let mut machine = Machine::new(configuration, policy, jobs, 9, true);
        loop {
            let before = machine.memory.flags.clone();
            let more = machine.step();
            machine.policy.check().unwrap_or_else(|violation| panic!("{name}: {violation}"));
            let reading = machine.devices.working().filter(|request| matches!(request, Request::Read { .. }));
            let resident: usize = machine.memory.resident.iter().sum();
            assert_eq!(
                resident + reading.count() + machine.memory.free_frames,
                configuration.frames,
                "{name}"
            );
            assert!(
                machine.load.loading <= configuration.loading_limit(),
                "{name}: too many tasks are loading"
            );
            for task in machine.tasks.iter().filter(|task| task.state != State::Finished) {
                for page in task.pages() {
                    // A dirty page leaves only after its write has begun, which takes a step of
                    // its own.
                    let lost = before[page.index()] & RESIDENT != 0 && !machine.memory.is(page, RESIDENT);
                    let coupled = configuration.devices.coupled_writes;
                    assert!(
                        !lost || coupled || before[page.index()] & DIRTY == 0,
                        "{name}: page {page} is lost"
                    );
                    // What is written to a page while it is being cleaned is not in that write.
                    let cleaned = before[page.index()] & CLEANING != 0 && !machine.memory.is(page, CLEANING);
                    assert!(
                        !cleaned || before[page.index()] & DIRTY == 0 || machine.memory.is(page, DIRTY),
                        "{name}: a write to page {page} is forgotten"
                    );
                }
            }
            if !more {
                break;
            }
        }
        assert_eq!(
            machine.memory.free_frames, configuration.frames,
            "{name}: every task has given its frames back"
        );
    }

    #[test]
    fn variants_of_the_model_account_for_frames_too() {
        let jobs: Vec<_> = (0..6).map(|of| job(string(14, 700, of), 150)).collect();
        for frames in [3, 17, 30] {
            let mut coupled = configuration(frames, 7);
            coupled.devices.coupled_writes = true;
            let mut no_reclaim = configuration(frames, 7);
            no_reclaim.load_control.no_reclaim = true;
            let mut levels = configuration(frames, 7);
            levels.processor.ready_levels = 3;
            for name in ["ws:theta=40", "wsclock:theta=40", "global-clock"] {
                for configuration in [&coupled, &no_reclaim, &levels] {
                    audit(configuration, &jobs, name);
                }
            }
        }
    }

    fn outcome(configuration: &Configuration, jobs: &[Job], name: &str) -> Outcome {
        let policy = TaskSpec::parse(name).unwrap().make_exact(configuration.frames).unwrap();
        Machine::new(configuration, policy, jobs, 1, false).run().0
    }

    /// One task writes six pages in turn, three times, in three frames.
    #[test]
    fn a_coupled_write_makes_its_read_twice_as_long() {
        let job = job((0..18).map(|time| (time % 6, true)).collect(), 0);
        let mut configuration = configuration(3, 50);
        configuration.devices.access_refs = (10, 10);
        configuration.devices.coupled_writes = true;
        let coupled = outcome(&configuration, &[job], "fifo");
        assert_eq!((coupled.page_reads, coupled.page_writes), (18, 15), "all but the first three replace");
        assert_eq!(coupled.elapsed_refs, 18 + 18 * 10 + 15 * 10);
    }

    /// A page comes back after more than theta: with reclaim it is still there.
    #[test]
    fn without_reclaim_a_page_outside_the_working_set_is_read_again() {
        let string: Vec<_> = (0..400).map(|time| (u32::from(time % 100 > 0), false)).collect();
        let mut configuration = configuration(10, 10);
        configuration.processor.slice_refs = 1000;
        let faults = |configuration: &Configuration| {
            outcome(configuration, &[job(string.clone(), 0)], "ws:theta=20").page_faults
        };
        assert_eq!(faults(&configuration), 2);
        configuration.load_control.no_reclaim = true;
        assert_eq!(faults(&configuration), 2 + 3, "page 0 three times more");
    }

    /// A page is gone when it leaves its working set, and not at the end of a burst: it may be
    /// referenced again in between.
    #[test]
    fn without_reclaim_the_length_of_a_turn_makes_no_difference_to_a_lone_task() {
        // A dirty page stays until it has been written. So only the last reference writes.
        let last = 19_999;
        let string: Vec<_> =
            (0..).zip(string(40, 20_000, 5)).map(|(at, (page, _))| (page, at == last)).collect();
        let trace = trace(&string, usize::MAX);
        for omega in [0, 5] {
            let program = Arc::new(Program::from_trace(&trace, "string", omega).unwrap());
            for theta in [1, 7, 40, 200, 3_000] {
                let faults = [1, 7, 1_000].map(|quantum| {
                    let mut configuration = configuration(50, quantum);
                    configuration.processor.slice_refs = 100_000;
                    configuration.load_control.no_reclaim = true;
                    let job = Job { program: program.clone(), io_interval_refs: 0 };
                    outcome(&configuration, &[job], &format!("ws:theta={theta}")).page_faults
                });
                assert_eq!(faults, [faults[0]; 3], "omega {omega}, theta {theta}");
                if omega == 0 {
                    assert_eq!(faults[0], without_reclaim(&string, theta), "theta {theta}");
                }
            }
        }
    }

    /// References to pages outside the working set. A dirty page outside is still there while it is
    /// written; nothing is written here.
    fn without_reclaim(string: &[(u32, bool)], theta: u64) -> u64 {
        let mut last = std::collections::HashMap::new();
        let outside = (0..).zip(string).filter(|(time, (page, _))| {
            last.insert(*page, time + 1).is_none_or(|before| time - before >= theta)
        });
        outside.count() as u64
    }

    #[test]
    fn a_task_that_used_up_its_slice_goes_behind_those_that_did_not() {
        let jobs = [1, 2, 3].map(|of| job(string(8, 900, of), 0));
        let ready = |levels: usize| {
            let mut configuration = configuration(10, 50);
            configuration.load_control.most_active = 1;
            configuration.processor.ready_levels = levels;
            let policy = TaskSpec::parse("fifo").unwrap().make_exact(10).unwrap();
            let mut machine = Machine::new(&configuration, policy, &jobs, 1, false);
            machine.tasks[1].level = levels - 1;
            while machine.measures.counts.slice_ends == 0 {
                machine.step();
            }
            machine.make_ready(2);
            machine.queues.ready.iter().copied().collect::<Vec<_>>()
        };
        // Task 0 is at its slice's end. Task 2 is put in once more.
        let (one, two) = (ready(1), ready(2));
        assert_eq!(one.last(), Some(&2), "{one:?}");
        assert_ne!(two.last(), Some(&2), "{two:?}");
    }

    #[test]
    fn frames_are_accounted_for_and_no_dirty_page_is_lost() {
        let jobs: Vec<_> = (0..6).map(|of| job(string(14, 700, of), 150)).collect();
        for name in [
            "ws:theta=40",
            "ws:theta=40,lr=sampled",
            "wsclock:theta=40",
            "wsclock:theta=40,clean-list=on",
            "pff:threshold=9",
            "global-clock",
            "clock-pro",
            "car",
            "fifo",
        ] {
            for (frames, devices, own_queues) in
                [(3, 1, false), (17, 1, false), (30, 2, false), (3, 2, true), (30, 2, true)]
            {
                let mut configuration = configuration(frames, 7);
                configuration.devices.count = devices;
                configuration.devices.own_queues = own_queues;
                audit(&configuration, &jobs, name);
            }
        }
    }

    /// A trace of the string, in which all contents are given up once in between.
    fn trace(string: &[(u32, bool)], drop_at: usize) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        for (time, &(page, write)) in string.iter().enumerate() {
            if time == drop_at {
                sweephand_trace::Sink::unmap(&mut writer, 0, 1000).unwrap();
            }
            writer.reference(page.into(), write).unwrap();
        }
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    #[test]
    fn intervals_do_as_the_references_they_stand_for() {
        let string = string(60, 60_000, 3);
        for drop_at in [usize::MAX, 20_000] {
            let trace = trace(&string, drop_at);
            let programs =
                [0, 40].map(|omega| Arc::new(Program::from_trace(&trace, "string", omega).unwrap()));
            for name in ["ws:theta=2000", "wsclock:theta=2000", "global-clock", "clock-pro"] {
                // With memory for all, to the unit of time; in less, nearly.
                for (frames, tasks, error) in [(500, 1, 0.0), (100, 6, 0.03)] {
                    let [full, intervals] = programs.each_ref().map(|program| {
                        let mut configuration = configuration(frames, 50);
                        configuration.processor.slice_refs = 100_000;
                        let job = Job { program: program.clone(), io_interval_refs: 0 };
                        let spec = TaskSpec::parse(name).unwrap();
                        let workload = crate::Workload {
                            configuration,
                            jobs: vec![job; tasks],
                            interrupt: Interrupt::default(),
                        };
                        let runs = [1, 2, 3, 4].map(|seed| {
                            workload.run(&crate::Cell { policy: spec.clone(), seed }, 0).unwrap().0
                        });
                        runs.iter().map(|run| run.elapsed_refs as f64).sum::<f64>()
                    });
                    let off = (intervals - full).abs() / full;
                    assert!(
                        off <= error,
                        "{name}, {frames} frames, dropped at {drop_at}: {full} and {intervals}, {off:.4} off"
                    );
                }
            }
        }
    }
}
