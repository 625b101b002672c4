//! The frames: whose they are, who asks for more, and whose pages go. No sockets: reports come in,
//! instructions are left in each process's account.
//!
//! A frame is free, lent to a process, or owed: its process has the instruction to give it back.
//! These are the policy's answers and what follows from them:
//!
//! - `Evict`: the page's agent gets an instruction. If that agent asked for frames, it keeps this
//!   frame as the answer. Otherwise it owes the frame.
//! - `Wait`: pages for which tasks waited have not been used yet, or an agent is silent. The
//!   supervisor asks again at the next report and every few milliseconds.
//! - `Overcommitted`: the schedule deactivates a task, and its pages become replaceable. If only
//!   one task is active, or load control deactivates none, the policy replaces a page regardless.
//!
//! A question is answered only with all the frames that were asked for. So no process keeps frames
//! that are too few to go on.

use super::ledger::{Ledger, MappedState};
use super::schedule::Memory;
use super::statistics::TasksStatistics;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sweephand_pager_interface::lease::{Instruction, MOST_OPERAND, Report};
use sweephand_policy::task_registry::Made;
use sweephand_policy::{Claim, PageId, Reclaim, TaskId, TaskMmu, VirtualTime};

/// Frames to take back at a time when more are lent than there are. This happens when a child has
/// come with its parent's pages.
const OVERDRAFT_STEP: i64 = 256;
/// If no report has come for this long, a question without an answer will never get one.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Longer than an agent takes for an instruction, if it is not stopped.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// What is kept of a process, by the number of its link.
#[derive(Debug)]
struct Account {
    task: usize,
    /// Frames lent.
    granted: usize,
    /// Of these, those that hold no pages of the policy's.
    apart: usize,
    /// Frames asked for, while the question has no answer.
    asked: Option<usize>,
    /// Frames that the agent has been instructed to give and has not reported as done.
    owed: usize,
    /// Since when it owes some and has not reported.
    owes_since: Option<Instant>,
    /// It has owed for long: its pages have been taken from the policy.
    is_aside: bool,
    /// Processor time of the process when it called, and at the latest look, in nanoseconds.
    first_ns: u64,
    used_ns: u64,
    /// Instructions to be sent, and how many frames they say to give.
    instructions: Vec<u32>,
    giving: usize,
}

impl Account {
    fn instruct(&mut self, instruction: Instruction, operand: usize) {
        self.instructions.push(instruction.word(operand));
    }

    /// Tells the agent to page out this page. Its frame comes back, or is part of an answer.
    fn instruct_eviction(&mut self, id: u32, gives: bool) {
        self.instruct(Instruction::Evict, id as usize);
        if gives {
            self.giving += 1;
            self.owed += 1;
        }
    }

    /// Whether the agent has not answered for long: its program has been stopped, for instance.
    fn is_silent(&self, now: Instant) -> bool {
        self.owes_since.is_some_and(|since| now.duration_since(since) > SILENT_AFTER)
    }
}

/// The outcome of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Answered,
    /// Frames are on their way, or the policy says to wait.
    Later,
    /// A task has to be deactivated first.
    Overcommitted,
}

/// The frames, the policy, and what each process has.
pub(super) struct Frames {
    policy: Made<Ledger>,
    ledger: Ledger,
    accounts: Vec<Option<Account>>,
    /// All frames, and those that are not lent. The second is negative while a child's pages count
    /// twice.
    frames: usize,
    free: i64,
    /// Frames for which the policy was made.
    policy_frames: usize,
    /// Whether pages used since the hand passed are claimed as well.
    claims_used_pages: bool,
    /// Processes with questions, the oldest first.
    questions: VecDeque<usize>,
    claims: Vec<Claim>,
    /// Memory stays overcommitted until the virtual time of an active task reaches its entry here.
    overcommitted_until: Option<Vec<VirtualTime>>,
    /// By task: virtual time of its processes that have ended.
    past_ns: Vec<u64>,
    now: Instant,
    latest_report: Instant,
    counts: Counts,
}

/// What is counted over the run: see [`TasksStatistics`].
#[derive(Default)]
struct Counts {
    replacements: u64,
    forced_replacements: u64,
    peak_lent_pages: u64,
}

impl Frames {
    pub(super) fn new(
        policy: Made<Ledger>,
        policy_frames: usize,
        frames: usize,
        tasks: usize,
        claims_used_pages: bool,
        now: Instant,
    ) -> Self {
        Self {
            policy,
            ledger: Ledger::new(tasks),
            accounts: Vec::new(),
            frames,
            free: frames as i64,
            policy_frames,
            claims_used_pages,
            questions: VecDeque::new(),
            claims: vec![Claim::NONE; tasks],
            overcommitted_until: None,
            past_ns: vec![0; tasks],
            now,
            latest_report: now,
            counts: Counts::default(),
        }
    }

    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.ledger.set_now(now);
    }

    /// Frames lent: more than there are while a child's pages count twice.
    pub(super) fn lent(&self) -> u64 {
        (self.frames as i64 - self.free).max(0) as u64
    }

    pub(super) fn resident_pages(&self) -> usize {
        self.ledger.resident_pages()
    }

    // Processes.

    /// Takes in a process that has `granted` frames already, and gives it a number. `None` if it
    /// cannot have them: a child has what its parent has, which is no more than all frames together
    /// with what is lent twice.
    pub(super) fn admit(
        &mut self,
        task: usize,
        granted: usize,
        first_ns: u64,
        shared: MappedState,
    ) -> Option<usize> {
        let most = (self.frames as i64 + self.frames as i64 - self.free).max(0) as usize;
        if task >= self.past_ns.len() || granted > most {
            return None;
        }
        let number = self.accounts.iter().position(Option::is_none).unwrap_or_else(|| {
            self.accounts.push(None);
            self.accounts.len() - 1
        });
        self.ledger.admit(number, task, shared);
        self.free -= granted as i64;
        let account = self.accounts[number].insert(Account {
            task,
            granted,
            apart: 0,
            asked: None,
            owed: 0,
            owes_since: None,
            is_aside: false,
            first_ns,
            used_ns: 0,
            instructions: Vec::new(),
            giving: 0,
        });
        account.instruct(Instruction::Admitted, 0);
        Some(number)
    }

    /// Has a process wait with its faults until its task is active.
    pub(super) fn suspend(&mut self, number: usize) {
        if let Some(account) = &mut self.accounts[number] {
            account.instruct(Instruction::Suspend, 0);
        }
    }

    /// Handles the end of an agent: its process has ended, or runs another program.
    pub(super) fn dismiss(&mut self, number: usize) {
        let Some(account) = self.accounts[number].take() else { return };
        self.free += account.granted as i64;
        self.questions.retain(|&other| other != number);
        let agent_ns = self.ledger.shared(number).map_or(0, |shared| shared.agent_ns.load(Relaxed));
        self.past_ns[account.task] +=
            account.used_ns.saturating_sub(account.first_ns.saturating_add(agent_ns));
        for page in self.ledger.dismiss(number) {
            self.policy.remove(page);
        }
        self.overcommitted_until = None;
        self.latest_report = self.now;
    }

    /// Updates the tasks' virtual times by the processor times of the processes, by number.
    pub(super) fn look_at_clocks(&mut self, processor_ns: impl Iterator<Item = (usize, Option<u64>)>) {
        let mut times = self.past_ns.clone();
        let mut silent = Vec::new();
        for (number, used_ns) in processor_ns {
            let Some(account) = &mut self.accounts[number] else { continue };
            account.used_ns = used_ns.unwrap_or(0).max(account.used_ns);
            let agent_ns = self.ledger.shared(number).map_or(0, |shared| shared.agent_ns.load(Relaxed));
            times[account.task] += account.used_ns.saturating_sub(account.first_ns.saturating_add(agent_ns));
            if account.owed > 0 && account.is_silent(self.now) && !account.is_aside {
                account.is_aside = true;
                silent.push(number);
            }
        }
        // The other tasks go on without these pages until the agent answers.
        for number in silent {
            for page in self.ledger.set_aside(number) {
                self.policy.remove(page);
            }
        }
        for (task, time) in times.into_iter().enumerate() {
            self.ledger.set_virtual_time(task, time / 1000);
        }
    }

    /// Takes a process's reports.
    pub(super) fn hear(&mut self, number: usize, reports: &[(Report, u32)]) {
        let Some(account) = &mut self.accounts[number] else { return };
        if account.owes_since.is_some() && !reports.is_empty() {
            account.owes_since = Some(self.now);
            if std::mem::take(&mut account.is_aside) {
                self.ledger.take_aside(number).into_iter().for_each(|id| self.insert(number, id));
            }
        }
        for &(report, operand) in reports {
            self.latest_report = self.now;
            self.take_report(number, report, operand);
        }
    }

    fn take_report(&mut self, number: usize, report: Report, operand: u32) {
        let Some(account) = &mut self.accounts[number] else { return };
        let amount = operand as usize;
        match report {
            Report::Give => {
                let given = amount.min(account.granted);
                account.granted -= given;
                self.free += given as i64;
            }
            Report::Done => {
                account.owed = account.owed.saturating_sub(amount);
                if account.owed == 0 {
                    account.owes_since = None;
                }
            }
            Report::Own => account.apart = amount,
            Report::Ask if amount > self.frames => account.instruct(Instruction::Refuse, 0),
            Report::Ask => {
                if account.asked.replace(amount).is_none() {
                    self.questions.push_back(number);
                }
            }
            // The child's socket came with this report.
            Report::Fork => {}
            _ if !Ledger::is_page(operand) => {}
            Report::Fault => {
                let page = self.ledger.page(number, operand);
                // No thread waits for a page that is present.
                if !self.ledger.has(page) {
                    self.policy.fault(page, &mut self.ledger);
                    self.ledger.faulted(number, operand);
                }
            }
            Report::Insert => self.insert(number, operand),
            Report::Remove => {
                let page = self.ledger.page(number, operand);
                self.policy.remove(page);
                self.ledger.leave(page);
            }
            // The policy learned of the eviction when it named the page. But the page may have come
            // in again meanwhile.
            Report::Evicted => {
                let page = self.ledger.page(number, operand);
                if self.ledger.leave(page) {
                    self.policy.remove(page);
                }
            }
        }
    }

    fn insert(&mut self, number: usize, id: u32) {
        let page = self.ledger.page(number, id);
        if self.ledger.has(page) {
            return;
        }
        // A child brings pages for which no room was made.
        while self.ledger.resident_pages() >= self.policy_frames {
            match self.policy.reclaim_anyway(&mut self.ledger) {
                Reclaim::Evict(victim) => {
                    self.evict(victim, None);
                }
                Reclaim::Wait | Reclaim::Overcommitted => {
                    if let Some(account) = &mut self.accounts[number] {
                        account.instruct_eviction(id, true);
                    }
                    return;
                }
            }
        }
        let referenced = self.policy.insert(page, &mut self.ledger);
        self.ledger.enter(number, id, page, referenced);
    }

    /// The words for a process, since the latest call.
    pub(super) fn take_instructions(&mut self, number: usize) -> Vec<u32> {
        let Some(account) = &mut self.accounts[number] else { return Vec::new() };
        for id in self.ledger.take_to_watch(number) {
            account.instruct(Instruction::Watch, id as usize);
        }
        if account.giving > 0 {
            let giving = std::mem::take(&mut account.giving);
            account.instruct(Instruction::Give, giving);
            account.owes_since.get_or_insert(self.now);
        }
        std::mem::take(&mut account.instructions)
    }

    // Questions.

    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// A question, by its place: the process that asked, and the process's task.
    pub(super) fn question(&self, place: usize) -> Option<(usize, usize)> {
        let number = *self.questions.get(place)?;
        Some((number, self.accounts[number].as_ref()?.task))
    }

    /// Answers the question at a place, or instructs agents to do what is needed to answer it.
    pub(super) fn answer(&mut self, place: usize, can_give_way: bool) -> Outcome {
        let Some((number, _)) = self.question(place) else { return Outcome::Later };
        loop {
            let Some(account) = &mut self.accounts[number] else { return Outcome::Later };
            let wanted = account.asked.unwrap_or(0);
            if self.free >= wanted as i64 {
                account.instruct(Instruction::Grant, wanted.min(MOST_OPERAND));
                account.instruct(Instruction::Answered, 0);
                account.granted += wanted;
                account.asked = None;
                self.free -= wanted as i64;
                self.counts.peak_lent_pages = self.counts.peak_lent_pages.max(self.lent());
                self.questions.remove(place);
                return Outcome::Answered;
            }
            let answering = self.accounts.iter().flatten().filter(|account| !account.is_silent(self.now));
            let owed: usize = answering.map(|account| account.owed).sum();
            let coming = self.free + owed as i64;
            if coming >= wanted as i64 || coming < 0 && owed as i64 >= OVERDRAFT_STEP {
                return Outcome::Later;
            }
            match self.reclaim(can_give_way) {
                Reclaim::Evict(page) => {
                    // Frames that are lent twice have to be covered first.
                    let asker = Some(number).filter(|_| coming >= 0);
                    if self.evict(page, asker)
                        && let Some(account) = &mut self.accounts[number]
                    {
                        account.asked = Some(wanted - 1);
                    }
                }
                Reclaim::Wait => return Outcome::Later,
                Reclaim::Overcommitted => return Outcome::Overcommitted,
            }
        }
    }

    /// Refuses a question that will never get an answer: there has been no report for long, and no
    /// process owes a frame.
    pub(super) fn refuse_if_stuck(&mut self, number: usize) {
        let owes = self.accounts.iter().flatten().any(|account| account.owed > 0);
        if owes || self.now - self.latest_report < STUCK_AFTER {
            return;
        }
        if let Some(account) = &mut self.accounts[number] {
            account.instruct(Instruction::Refuse, 0);
            self.latest_report = self.now;
        }
    }

    /// Has a page's agent evict it. If the agent itself asked for frames, it keeps the frame.
    /// Returns whether it does.
    fn evict(&mut self, page: PageId, asker: Option<usize>) -> bool {
        let (number, id) = self.ledger.whose(page);
        self.policy.evict(page);
        self.ledger.leave(page);
        self.counts.replacements += 1;
        let keeps = asker == Some(number);
        if let Some(account) = &mut self.accounts[number] {
            account.instruct_eviction(id, !keeps);
        }
        keeps
    }

    /// Asks the policy for a victim. Answers `Overcommitted` only if there is a task to deactivate.
    fn reclaim(&mut self, can_give_way: bool) -> Reclaim {
        let mut answer = Reclaim::Overcommitted;
        if can_give_way || !self.is_still_overcommitted() {
            self.overcommitted_until = None;
            answer = self.policy.reclaim(&mut self.ledger);
        }
        if answer == Reclaim::Overcommitted && !can_give_way {
            if self.overcommitted_until.is_none() {
                self.look_at_claims();
                self.overcommitted_until = Some(self.claims.iter().map(|claim| claim.until).collect());
            }
            answer = self.policy.reclaim_anyway(&mut self.ledger);
            self.counts.forced_replacements += u64::from(matches!(answer, Reclaim::Evict(_)));
        }
        answer
    }

    /// Whether no page can have left a working set since memory was found to be overcommitted. Each
    /// task's claim stays the same until its virtual time reaches the time in the claim.
    fn is_still_overcommitted(&self) -> bool {
        let Some(until) = &self.overcommitted_until else { return false };
        self.active().all(|task| self.virtual_time(task) < until[task])
    }

    /// Tasks that take part in multiprogramming and are not idle.
    fn active(&self) -> impl Iterator<Item = usize> {
        (0..self.claims.len()).filter(|&task| self.ledger.is_active(TaskId(task as u32)))
    }

    // Claims.

    fn look_at_claims(&mut self) {
        self.claims.fill(Claim::NONE);
        self.policy.claims(&self.ledger, &mut self.claims);
        // The hand moves only when there are faults. A task that has all of its pages takes none,
        // and would seem to need nothing as soon as theta has passed on its clock. So the pages
        // that it has used since the hand passed are claimed as well.
        if self.claims_used_pages {
            for (claim, used) in self.claims.iter_mut().zip(self.ledger.used_pages()) {
                claim.frames = claim.frames.max(used);
            }
        }
    }

    /// Frames that processes ask for, of the tasks that are meant.
    fn asked(&self, is_meant: impl Fn(usize) -> bool) -> usize {
        let accounts = self.accounts.iter().flatten().filter(|account| is_meant(account.task));
        accounts.filter_map(|account| account.asked).sum()
    }

    /// Adds what was counted.
    pub(super) fn count_into(&self, statistics: &mut TasksStatistics) {
        statistics.replacements = self.counts.replacements;
        statistics.forced_replacements = self.counts.forced_replacements;
        statistics.peak_lent_pages = self.counts.peak_lent_pages;
        statistics.hand_steps = self.policy.hand_steps();
        for (number, task) in statistics.tasks.iter_mut().enumerate() {
            task.virtual_ns = self.virtual_time(number) * 1000;
        }
    }
}

impl Memory for Frames {
    fn virtual_time(&self, task: usize) -> VirtualTime {
        self.ledger.virtual_time(TaskId(task as u32))
    }

    fn resident_pages(&self, task: usize) -> usize {
        self.ledger.resident_pages_of(task)
    }

    fn waits_for_page(&self, task: usize) -> bool {
        let mut accounts = self.accounts.iter().enumerate();
        accounts.any(|(number, account)| {
            account.as_ref().is_some_and(|account| {
                account.task == task && (account.asked.is_some() || self.is_reading_for(number))
            })
        })
    }

    fn is_reading(&self) -> bool {
        (0..self.accounts.len()).any(|number| self.is_reading_for(number))
    }

    fn claim(&mut self, task: usize) -> usize {
        self.look_at_claims();
        self.claims[task].frames + self.asked(|other| other == task)
    }

    fn claimed(&mut self) -> (usize, usize) {
        self.look_at_claims();
        let claimed: usize = self.active().map(|task| self.claims[task].frames).sum();
        let asked = self.asked(|task| self.ledger.is_active(TaskId(task as u32)));
        let apart: usize = self.accounts.iter().flatten().map(|account| account.apart).sum();
        (claimed + asked, self.frames.saturating_sub(apart).min(self.policy_frames))
    }

    fn set_active(&mut self, task: usize, is_active: bool) {
        self.ledger.set_active(task, is_active);
        self.overcommitted_until = None;
    }

    fn instruct(&mut self, task: usize, instruction: Instruction) {
        for account in self.accounts.iter_mut().flatten().filter(|account| account.task == task) {
            account.instruct(instruction, 0);
        }
    }
}

impl Frames {
    #[cfg(test)]
    pub(super) fn shared_for_tests(&self, number: usize) -> &sweephand_pager_interface::lease::SharedState {
        self.ledger.shared(number).unwrap()
    }

    fn is_reading_for(&self, number: usize) -> bool {
        self.ledger.shared(number).is_some_and(|shared| shared.reading.load(Relaxed) > 0)
    }
}
