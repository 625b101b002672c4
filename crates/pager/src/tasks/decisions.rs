//! What follows from reports and clocks: the schedule and the frames together. No sockets: a test
//! reports as an agent does, and reads the instructions.
//!
//! ```text
//!   reports ──▶ frames: the policy, who has what ──▶ schedule: who may be active ──▶ questions answered ──▶ instructions
//!                  ▲                                        │ set_active, instruct
//!                  └────────────────────────────────────────┘
//! ```

use super::frames::{Frames, Outcome};
use super::ledger::MappedState;
use super::schedule::{Next, Schedule};
use super::statistics::TasksStatistics;
use std::time::Instant;

/// The schedule, and the frames.
pub(super) struct Decisions {
    pub(super) schedule: Schedule,
    pub(super) frames: Frames,
}

impl Decisions {
    pub(super) fn set_now(&mut self, now: Instant) {
        self.schedule.set_now(now);
        self.frames.set_now(now);
    }

    /// Whether the clocks have to be looked at often.
    pub(super) fn is_busy(&self) -> bool {
        self.frames.has_questions() || self.schedule.is_busy()
    }

    /// Takes in a process of a task, and gives it a number; see [`Frames::admit`].
    pub(super) fn admit(
        &mut self,
        task: usize,
        granted: usize,
        first_ns: u64,
        shared: MappedState,
    ) -> Option<usize> {
        let number = self.frames.admit(task, granted, first_ns, shared)?;
        if !self.schedule.is_served(task) {
            self.frames.suspend(number);
        }
        Some(number)
    }

    /// Does what follows from the processor times of the processes, by number.
    pub(super) fn look_at_clocks(&mut self, processor_ns: impl Iterator<Item = (usize, Option<u64>)>) {
        self.frames.look_at_clocks(processor_ns);
        self.schedule.look_at_clocks(&mut self.frames);
    }

    /// Activates tasks, up to one for which there is something to do.
    pub(super) fn next(&mut self) -> Option<Next> {
        self.schedule.next(&mut self.frames)
    }

    /// A task's first process has ended, or the task is not started.
    pub(super) fn end(&mut self, task: usize) {
        self.schedule.end(task, &mut self.frames);
    }

    /// Answers the questions that can be answered. Those of running tasks come before those of
    /// loading tasks, like reads in the paper's paging queue.
    pub(super) fn answer_questions(&mut self) {
        for loading in [false, true] {
            let mut place = 0;
            while let Some((number, task)) = self.frames.question(place) {
                if !self.schedule.is_served(task) || self.schedule.is_loading(task) != loading {
                    place += 1;
                    continue;
                }
                match self.frames.answer(place, self.schedule.can_give_way()) {
                    Outcome::Answered => {}
                    // Then the question is asked again, unless it was its own task.
                    Outcome::Overcommitted => self.schedule.give_way(Some(task), &mut self.frames),
                    Outcome::Later => return self.frames.refuse_if_stuck(number),
                }
            }
        }
    }

    /// What was counted.
    pub(super) fn finish(self) -> TasksStatistics {
        let mut statistics = self.schedule.finish();
        self.frames.count_into(&mut statistics);
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::LoadControlOptions;
    use super::super::ledger::tests::shared;
    use super::super::schedule::Memory;
    use super::*;
    use std::time::Duration;
    use sweephand_pager_interface::lease::{Instruction, REFERENCED, Report};
    use sweephand_policy::task_registry::TaskSpec;

    /// Tasks with a process each, in a number of frames, and a clock that the test moves.
    struct Run {
        decisions: Decisions,
        processes: usize,
        now: Instant,
    }

    impl Run {
        /// All tasks are active, as far as the policy does not mind.
        fn new(policy: &str, tasks: usize, frames: usize) -> Self {
            let options = LoadControlOptions { tau_ms: 0, rest_ms: 0, lt_rt: false, ..Default::default() };
            let now = Instant::now();
            let policy = TaskSpec::parse(policy).unwrap().make(frames).unwrap().unwrap();
            let named = (0..tasks).map(|task| (format!("t{task}"), Duration::ZERO));
            let schedule = Schedule::new(named, &options, policy.load_control(), false, now);
            let frames = Frames::new(policy, frames, frames, tasks, schedule.needs_claims(), now);
            let mut run = Self { decisions: Decisions { schedule, frames }, processes: 0, now };
            for _ in 0..tasks {
                run.pass(10, 0);
            }
            for task in 0..tasks {
                assert_eq!(run.decisions.admit(task, 0, 0, shared()), Some(task), "task {task}");
                assert_eq!(run.instructions(task)[0], (Instruction::Admitted, 0), "task {task}");
            }
            run.processes = tasks;
            run
        }

        /// Time passes: `ms`. Each process uses `used_ms` of processor time meanwhile.
        fn pass(&mut self, ms: u64, used_ms: u64) {
            self.now += Duration::from_millis(ms);
            self.decisions.set_now(self.now);
            let used_ns = Some(used_ms * 1_000_000);
            self.decisions.look_at_clocks((0..self.processes).map(|number| (number, used_ns)));
            while self.decisions.next().is_some() {}
        }

        fn report(&mut self, number: usize, reports: &[(Report, u32)]) {
            self.decisions.frames.hear(number, reports);
            self.decisions.answer_questions();
        }

        fn instructions(&mut self, number: usize) -> Vec<(Instruction, u32)> {
            let words = self.decisions.frames.take_instructions(number);
            words.into_iter().map(|word| Instruction::parse(word).unwrap()).collect()
        }

        /// A process gets a frame for each of these pages, and reports that they have come in.
        fn load(&mut self, number: usize, pages: std::ops::Range<u32>) {
            for page in pages {
                self.report(number, &[(Report::Fault, page), (Report::Ask, 1)]);
                let answer = self.instructions(number);
                assert!(answer.contains(&(Instruction::Answered, 0)), "page {page}: {answer:?}");
                self.report(number, &[(Report::Insert, page)]);
            }
        }
    }

    #[test]
    fn free_frames_are_lent_and_given_back() {
        let mut run = Run::new("clock", 1, 8);
        run.report(0, &[(Report::Ask, 3)]);
        assert_eq!(run.instructions(0), [(Instruction::Grant, 3), (Instruction::Answered, 0)]);
        assert_eq!(run.decisions.frames.lent(), 3);
        run.report(0, &[(Report::Give, 2), (Report::Give, 5)]);
        assert_eq!(run.decisions.frames.lent(), 0, "no more than it has");
        run.report(0, &[(Report::Ask, 9)]);
        assert_eq!(run.instructions(0), [(Instruction::Refuse, 0)], "there are only 8");
    }

    #[test]
    fn an_asker_keeps_the_frame_of_its_own_page() {
        let mut run = Run::new("fifo", 1, 4);
        run.load(0, 0..4);
        run.pass(100, 1);
        run.report(0, &[(Report::Fault, 9), (Report::Ask, 1)]);
        assert_eq!(
            run.instructions(0),
            [(Instruction::Evict, 0), (Instruction::Grant, 0), (Instruction::Answered, 0)]
        );
        assert_eq!((run.decisions.frames.lent(), run.decisions.frames.resident_pages()), (4, 3));
    }

    #[test]
    fn a_question_waits_for_a_frame_that_another_process_owes() {
        let mut run = Run::new("fifo", 2, 4);
        run.load(0, 0..4);
        // Feedback lets one task in at first; the second one is let in by hand.
        run.decisions.schedule.end(1, &mut run.decisions.frames);
        run.instructions(1);
        run.pass(100, 1);
        run.report(1, &[(Report::Fault, 0), (Report::Ask, 1)]);
        assert_eq!(run.instructions(1), [], "not yet");
        assert_eq!(run.instructions(0), [(Instruction::Evict, 0), (Instruction::Give, 1)]);
        run.report(0, &[(Report::Evicted, 0), (Report::Give, 1), (Report::Done, 1)]);
        assert_eq!(run.instructions(1), [(Instruction::Grant, 1), (Instruction::Answered, 0)]);
    }

    #[test]
    fn overcommitted_memory_suspends_the_task_activated_last() {
        let mut run = Run::new("wsclock:theta=1000000", 2, 8);
        assert_eq!(run.decisions.schedule.counts(), (2, 2));
        run.load(0, 0..4);
        run.load(1, 0..4);
        run.pass(100, 1);
        run.report(0, &[(Report::Fault, 7), (Report::Ask, 1)]);
        let suspended = run.instructions(1);
        assert_eq!(suspended[0], (Instruction::Suspend, 0), "all pages are in working sets");
        assert!(suspended.iter().any(|(instruction, _)| *instruction == Instruction::Evict), "{suspended:?}");
        assert!(!run.decisions.schedule.is_served(1));
        run.report(1, &[(Report::Fault, 9), (Report::Ask, 1)]);
        assert_eq!(run.instructions(1), [], "its question waits");
    }

    #[test]
    fn a_task_alone_loses_pages_of_its_working_set() {
        let mut run = Run::new("wsclock:theta=1000000", 1, 4);
        run.load(0, 0..4);
        run.pass(100, 1);
        run.load(0, 4..5);
        let statistics = run.decisions.finish();
        assert_eq!((statistics.replacements, statistics.forced_replacements), (1, 1));
    }

    #[test]
    fn the_pages_of_a_silent_agent_are_set_aside_until_it_answers() {
        let mut run = Run::new("fifo", 2, 4);
        run.load(0, 0..4);
        run.decisions.schedule.end(1, &mut run.decisions.frames);
        run.pass(100, 1);
        run.report(1, &[(Report::Ask, 1)]);
        assert_eq!(run.instructions(0), [(Instruction::Evict, 0), (Instruction::Give, 1)]);
        run.pass(1500, 1);
        assert_eq!(run.decisions.frames.resident_pages(), 0);
        run.report(0, &[(Report::Evicted, 0), (Report::Give, 1), (Report::Done, 1)]);
        assert_eq!(run.decisions.frames.resident_pages(), 3);
    }

    #[test]
    fn a_process_that_ends_gives_all_back_and_its_time_stays() {
        let mut run = Run::new("clock", 1, 4);
        run.load(0, 0..4);
        run.pass(10, 7);
        run.decisions.frames.dismiss(0);
        assert_eq!((run.decisions.frames.lent(), run.decisions.frames.resident_pages()), (0, 0));
        run.pass(10, 0);
        assert_eq!(run.decisions.frames.virtual_time(0), 7000);
    }

    #[test]
    fn used_pages_are_claimed_whatever_the_clocks_say() {
        let mut run = Run::new("wsclock:theta=1000", 1, 8);
        run.load(0, 0..4);
        run.pass(100, 50);
        assert_eq!(run.decisions.frames.claim(0), 0, "theta has passed");
        run.decisions.frames.shared_for_tests(0).set(2, REFERENCED);
        assert_eq!(run.decisions.frames.claim(0), 1);
    }

    #[test]
    fn what_a_child_cannot_have_is_not_believed() {
        let mut run = Run::new("clock", 1, 8);
        assert_eq!(run.decisions.admit(0, 9, 0, shared()), None);
        assert_eq!(run.decisions.admit(1, 0, 0, shared()), None, "there is no such task");
        assert_eq!(run.decisions.admit(0, 8, 0, shared()), Some(1));
        assert_eq!(run.decisions.frames.lent(), 8);
    }
}
