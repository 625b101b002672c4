//! The director: a thread that learns of faults, asks the policy, and advises the kernel.
//!
//! It works in turns. A turn takes what has happened, in the order in which it matters least if it
//! is late: new pages go to the policy, pages are read ahead, pages that the policy gives up are
//! paged out, and at last accessed bits are cleared.
//!
//! It may leave the choice of pages to the kernel for a while (`stage`, `turns`). Then it reads
//! ahead, as long as that pays, has the kernel take memory back ahead of need, and looks how far
//! the program comes. When the policy has its turn again, it begins anew.
//!
//! Events say what comes into memory; they do not say what the program unmaps, nor what the kernel
//! takes by itself. Both show when a page is about to be paged out, in its entry of the page table.
//! Now and then the director compares all entries with what it knows (`survey`), which also finds
//! pages whose events were lost.

use crate::counts::Counts;
use crate::faults::{Event, wait};
use crate::history::{History, Window};
use crate::pages::{BLOCK, SpaceId, State};
use crate::parts::Parts;
use crate::policy::{Made, make};
use crate::rounds::Rounds;
use crate::stage::{Change, Stages};
use crate::streams::Streams;
use crate::turns::Turns;
use rustc_hash::FxHashMap;
use rustix::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_policy::plugin::PolicyObject;
use sweephand_policy::{ArgumentError, NEVER, PageId, Reference};
use sweephand_process::space::{Advice, Entry};
use sweephand_process::usage;
use sweephand_uffd::{PRESENT, SWAPPED};

/// How the director stands beside other threads while the policy chooses, and while the kernel
/// does, see `nice(2)`. On a busy machine, programs would take pages faster than it finds victims.
/// Read-ahead can wait.
const PRIORITY_DIRECTING: i32 = -15;
const PRIORITY_BESIDE: i32 = 0;
/// How often the director looks whether the program still fits.
const FIT_PERIOD: Duration = Duration::from_millis(1);
/// The longest turn while something happens.
const BUSY_PERIOD: Duration = Duration::from_millis(4);
/// How often the frames are counted anew.
const COUNT_PERIOD: Duration = Duration::from_millis(10);
/// How often all entries are looked at, and which part of the time that may take at most.
const SURVEY_PERIOD: Duration = Duration::from_secs(1);
const SURVEY_PART: u32 = 50;
/// If more than one page in this many is missing, all entries are looked at.
const MISSING_PART: usize = 256;
/// Pages that are paged out at a time, as part of the frames.
const BATCH_PART: usize = 64;
const LEAST_BATCH: usize = 8;
const MOST_BATCH: usize = 64;
/// Times that the kernel is asked to page a page out before the policy gets it back.
const MOST_TRIES: u8 = 4;
/// Pages that leave at once when processes wait for memory, as part of the frames.
const RELIEF_PART: usize = 32;
/// If processes have waited for this long, what they need cannot be had.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// The object of pages that are in none.
const NO_OBJECT: u32 = 0;
/// Faults that are remembered for each page of the limit.
const HISTORY_DEPTH: usize = 3;
/// A page that was read ahead counts as unused once this many others have been read ahead since, as
/// part of the limit.
const AHEAD_PART: usize = 16;
/// Bytes that a policy takes for a page, about.
const POLICY_BYTES: usize = 16;

/// The director.
struct Director {
    parts: Parts,
    choice: Choice,
    objects: Objects,
    streams: Streams,
    history: History,
    rounds: Rounds,
    /// Whether the policy chooses, and whether the faults are looked at.
    stages: Stages,
    turns: Turns,
    counts: Counts,
    /// Pages that the policy has given up, with the times that the kernel has been asked.
    leaving: Vec<(PageId, u8)>,
    /// Pages read ahead that have not been used, about.
    ahead: usize,
    counted: Instant,
    surveys: Surveys,
    /// Since when processes wait for memory.
    short_since: Option<Instant>,
}

/// The policy's choice of the pages that go.
struct Choice {
    policy: Box<dyn PolicyObject>,
    /// Frames that the policy was made for, and those that it may fill now.
    policy_frames: usize,
    frames: usize,
    /// What the policy's hands have looked at in earlier turns.
    earlier_steps: u64,
}

/// The program's mappings as objects.
struct Objects {
    /// Whether the policy goes by objects.
    are_needed: bool,
    /// Their numbers, by the mapping's first page.
    numbers: FxHashMap<(SpaceId, u64), u32>,
}

/// Looks at all entries.
struct Surveys {
    /// When the latest was, and how long it took.
    latest: Instant,
    took: Duration,
    /// Whether pages may be missing, or be there, of which the director does not know.
    is_due: bool,
}

/// Directs the kernel's paging until it is told to stop.
pub(crate) fn direct(parts: Parts) {
    let short = parts.budget.have_processes_wait();
    loop {
        if parts.budget.is_nearly_full() {
            break;
        }
        wait([parts.stop.as_fd()].into_iter(), FIT_PERIOD);
        if is_told_to_stop(&parts.stop) {
            return;
        }
    }
    // A policy that cannot be made was refused before the program started.
    let Ok(mut director) = Director::new(parts) else { return };
    let mut events = Vec::new();
    let mut period = BUSY_PERIOD;
    while !is_told_to_stop(&director.parts.stop) {
        director.change_turns();
        let others = [Some(&director.parts.stop), short.as_ref()].into_iter().flatten().map(OwnedFd::as_fd);
        director.parts.faults.wait(others, period);
        director.parts.faults.drain(|event| events.push(event));
        let is_quiet = events.is_empty();
        period = match is_quiet && director.short_since.is_none() {
            true => (2 * period).min(director.turns.longest_period()),
            false => BUSY_PERIOD,
        };
        director.turn(&mut events, is_quiet);
        let is_news = short.as_ref().is_some_and(|short| rustix::io::read(short, &mut [0; 8]).is_ok());
        if is_news || director.short_since.is_some() {
            director.take_over();
            director.relieve();
        }
    }
    director.let_go();
    director.stop_watching();
    director.publish();
}

/// Only root may raise the priority. Without that, the limit of a program that was started here
/// still holds.
fn set_priority(priority: i32) {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), priority);
}

fn is_told_to_stop(stop: &OwnedFd) -> bool {
    rustix::io::read(stop, &mut [0; 8]).is_ok()
}

/// Makes the policy for what all processes have mapped now. Returns its frames, too.
fn make_for_all(parts: &Parts, own_bytes: usize) -> (Result<Made, ArgumentError>, usize) {
    let mapped = parts.budget.look(0, own_bytes).map_or(1, |look| look.mapped);
    let frames = parts.budget.look(mapped, own_bytes).map_or(mapped, |look| look.frames);
    let Some(made) = make(&parts.spec, frames) else { unreachable!("it was made before") };
    (made, frames)
}

impl Director {
    /// One that leaves the choice to the kernel.
    fn new(parts: Parts) -> Result<Self, ArgumentError> {
        let (made, frames) = make_for_all(&parts, parts.faults.bytes());
        let Made { policy, needs_objects } = made?;
        let streams = Streams::new(parts.prefetch_pages);
        let history = History::new(HISTORY_DEPTH * parts.budget.limit_pages(), parts.prefetch_pages);
        let rounds = Rounds::new(parts.budget.limit_pages());
        let now = Instant::now();
        let stages = Stages::new(parts.budget.limit_pages(), now);
        let turns = Turns::new(&parts);
        Ok(Self {
            parts,
            choice: Choice { policy, policy_frames: frames, frames, earlier_steps: 0 },
            objects: Objects { are_needed: needs_objects, numbers: FxHashMap::default() },
            streams,
            history,
            rounds,
            stages,
            turns,
            counts: Counts::default(),
            leaving: Vec::new(),
            ahead: 0,
            counted: now,
            surveys: Surveys { latest: now, took: Duration::ZERO, is_due: false },
            short_since: None,
        })
    }

    /// Lets whoever's turn it is choose. If processes wait for memory, the kernel has given up, and
    /// the policy chooses.
    fn change_turns(&mut self) {
        if self.turns.is_policys(&self.parts.budget, self.rounds.done()) || self.short_since.is_some() {
            self.take_over();
        } else {
            self.let_go();
        }
    }

    /// The policy chooses from now on. It begins anew: which pages were used while the kernel chose
    /// is not known.
    fn take_over(&mut self) {
        if self.stages.directs() {
            return;
        }
        if !self.stages.watches() {
            self.watch();
        }
        set_priority(PRIORITY_DIRECTING);
        // The first turn's policy is there already.
        let is_first = !self.stages.has_directed();
        // A policy that cannot be made has been refused before.
        if !is_first && let (Ok(made), frames) = make_for_all(&self.parts, self.own_bytes()) {
            (self.choice.policy, self.choice.policy_frames, self.choice.frames) =
                (made.policy, frames, frames);
        }
        self.streams = Streams::new(self.parts.prefetch_pages);
        self.rounds.begin();
        let first_touches = self.counts.first_touches;
        self.stages.begin_directing();
        self.survey(PRESENT | SWAPPED);
        if !is_first {
            // Most of these have been counted in an earlier turn.
            self.counts.first_touches = first_touches;
        }
    }

    /// Faults are looked at from now on.
    fn watch(&mut self) {
        self.turns.begin_to_watch();
        // Without events, the surveys find what comes.
        let _ = self.parts.faults.begin();
        let _ = self.parts.memory.space_of(self.parts.process);
    }

    /// The program is the kernel's alone from now on.
    fn stop_watching(&mut self) {
        self.parts.faults.end();
        self.parts.faults.drain(|_| {});
        self.parts.memory.forget_all();
        self.history.forget_all();
        self.rounds.begin();
        self.streams = Streams::new(self.parts.prefetch_pages);
    }

    /// The kernel chooses from now on.
    fn let_go(&mut self) {
        if !self.stages.let_go(self.history.returns()) {
            return;
        }
        set_priority(PRIORITY_BESIDE);
        self.choice.earlier_steps += self.choice.policy.hand_steps();
        self.publish();
        self.parts.memory.let_go();
        for space in self.parts.memory.spaces() {
            for id in self.parts.memory.pages.of_space(space) {
                if !self.history.has(id) {
                    self.forget(id);
                }
            }
        }
        self.objects.numbers.clear();
        self.leaving.clear();
        self.rounds.begin();
        (self.ahead, self.counts.resident, self.surveys.is_due) = (0, 0, false);
        self.stages.sample_anew(self.history.returns(), Instant::now());
    }

    /// What is in memory before the first event is remembered as if it had come in the order of the
    /// addresses.
    fn recall(&mut self) {
        self.for_each_entry(PRESENT | SWAPPED, |director, space, number, entry| {
            if !entry.is_ours() && !entry.is_swapped() {
                return true;
            }
            let id = director.parts.memory.pages.find_or_insert(space, number);
            director.history.recall(id)
        });
    }

    fn turn(&mut self, events: &mut Vec<Event>, is_quiet: bool) {
        self.take_in(events);
        let lost = self.history.take_lost();
        if !self.stages.directs() {
            self.turn_beside_the_kernel(lost);
            return;
        }
        self.count_frames();
        self.page_out();
        self.parts.memory.end_turn(is_quiet);
        let now = Instant::now();
        let since = now - self.surveys.latest;
        if self.surveys.is_due && since > (SURVEY_PERIOD / 32).max(self.surveys.took * (SURVEY_PART / 4))
            || since > SURVEY_PERIOD.max(self.surveys.took * SURVEY_PART)
        {
            self.survey(PRESENT);
        }
    }

    /// What there is to do while the kernel chooses. `lost`: pages that the history has lost.
    fn turn_beside_the_kernel(&mut self, lost: Vec<PageId>) {
        for id in lost {
            let page = self.parts.memory.pages[id];
            if self.parts.memory.pages.find(page.space, page.number()) == Some(id) {
                self.forget(id);
            }
        }
        if std::mem::take(&mut self.surveys.is_due) {
            self.forget_gone_spaces();
        }
        let (refaults, needs_round) = (self.turns.refaults(), self.turns.need_a_round());
        match self.stages.look(refaults, self.history.returns(), needs_round, Instant::now()) {
            Some(Change::Begins) => {
                self.watch();
                self.recall();
                self.stages.sample_anew(self.history.returns(), Instant::now());
            }
            Some(Change::Ends) => self.stop_watching(),
            None => {}
        }
        if self.stages.watches() {
            self.parts.budget.make_room();
        }
        if self.counted.elapsed() >= COUNT_PERIOD {
            self.counted = Instant::now();
            self.parts.budget.set_own_bytes(self.own_bytes());
            self.publish();
        }
    }

    /// New pages go to the policy.
    fn take_in(&mut self, events: &mut Vec<Event>) {
        let own = std::process::id();
        let mut touched: Vec<(SpaceId, u64)> = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            match event {
                Event::Fault { process, address } if process != own => {
                    if let Some(space) = self.parts.memory.space_of(process) {
                        touched.push((space, address / PAGE_BYTES));
                    }
                }
                Event::NewMemory { process } => {
                    let space = self.parts.memory.known_space(process);
                    space.into_iter().for_each(|space| self.forget_space(space, &mut touched));
                }
                Event::ThreadEnded { process, thread } => {
                    if let Some(space) = self.parts.memory.known_space(process)
                        && !self.parts.memory.go_on_without(space, thread)
                    {
                        self.forget_space(space, &mut touched);
                    }
                }
                Event::Lost => self.surveys.is_due = true,
                Event::Fault { .. } => {}
            }
        }
        let mut sorted = touched.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut entries = FxHashMap::default();
        for of_space in sorted.chunk_by(|a, b| a.0 == b.0) {
            let numbers: Vec<u64> = of_space.iter().map(|&(_, number)| number).collect();
            let found = self.parts.memory.space(of_space[0].0).map(|space| space.entries(&numbers));
            entries.extend(of_space.iter().copied().zip(found.unwrap_or_default()));
        }
        for place in touched {
            // What is a file's or is shared with another process is not the director's concern, and
            // what has left again is not the policy's.
            let (space, number) = place;
            let entry: Entry = entries.get(&place).copied().unwrap_or_default();
            let has_come_back = if self.stages.directs() {
                if !entry.is_ours() {
                    continue;
                }
                matches!(self.arrive(space, number), State::Out | State::Ahead)
            } else {
                if !entry.is_ours() && !entry.is_swapped() {
                    continue;
                }
                self.parts.memory.pages.find(space, number).is_some()
            };
            self.rounds.fault(space, number);
            let id = self.parts.memory.pages.find_or_insert(space, number);
            if has_come_back {
                self.follow_run(space, number);
            }
            self.foresee(id);
        }
    }

    /// A page came back. If it belongs to a run, has the kernel read on.
    fn follow_run(&mut self, space: SpaceId, number: u64) {
        let Some(window) = self.streams.fault(space, number) else { return };
        let pages = &self.parts.memory.pages;
        let ids = window.filter_map(|number| pages.find(space, number));
        self.read_ahead(Window::found_otherwise(ids.collect()));
    }

    /// A page was touched. Has the kernel read what followed it before.
    fn foresee(&mut self, id: PageId) {
        if let Some(window) = self.history.fault(id) {
            self.read_ahead(window);
        }
    }

    /// A page is in memory. Returns where it was. Only faults are a run: a survey finds pages in
    /// the order of their addresses, whatever the program's order.
    fn arrive(&mut self, space: SpaceId, number: u64) -> State {
        let id = self.parts.memory.pages.find_or_insert(space, number);
        let was = self.parts.memory.pages[id].state;
        match was {
            State::Resident => return was,
            State::Unknown => self.counts.first_touches += 1,
            State::Leaving => self.leaving.retain(|&(other, _)| other != id),
            state @ (State::Out | State::Ahead) => {
                self.ahead = self.ahead.saturating_sub(usize::from(state == State::Ahead));
                self.counts.refaults += 1;
            }
        }
        let object = self.object_of(space, number);
        let reference = Reference { page: id, page_number: number, object, next_use: NEVER };
        self.choice.policy.fault(reference);
        while self.counts.resident >= self.choice.policy_frames && self.give_up_one() {}
        let referenced = self.choice.policy.insert(reference, &mut self.parts.memory);
        self.parts.memory.has_come(id, referenced);
        self.counts.resident += 1;
        self.counts.peak_resident = self.counts.peak_resident.max(self.counts.resident);
        was
    }

    /// The object of a page: its mapping.
    fn object_of(&mut self, space: SpaceId, number: u64) -> u32 {
        if !self.objects.are_needed {
            return NO_OBJECT;
        }
        let mapping = self.parts.memory.space(space).map_or(0, |space| space.mapping(number));
        if mapping == 0 {
            return NO_OBJECT;
        }
        let next = self.objects.numbers.len() as u32 + 1;
        let object = *self.objects.numbers.entry((space, mapping)).or_insert(next);
        self.counts.objects = self.objects.numbers.len() as u64;
        object
    }

    /// Has the kernel read those pages of a window that are in the swap file.
    fn read_ahead(&mut self, mut window: Window) {
        let ids = &mut window.pages;
        ids.retain(|&id| !self.history.is_ahead(id));
        let state = if self.stages.directs() {
            let pages = &mut self.parts.memory.pages;
            ids.retain(|&id| pages[id].state == State::Out);
            ids.truncate((self.parts.budget.way_pages() / 2).saturating_sub(self.ahead));
            ids.iter().for_each(|&id| pages[id].state = State::Ahead);
            self.ahead += ids.len();
            State::Ahead
        } else {
            self.keep_swapped(&mut window.pages);
            State::Unknown
        };
        self.counts.asked_ahead += window.pages.len() as u64;
        self.history.asked(&window, self.parts.budget.limit_pages() / AHEAD_PART);
        self.parts.memory.advise(window.pages, state, Advice::WillNeed);
    }

    /// Keeps those of some pages that are in the swap file.
    fn keep_swapped(&mut self, ids: &mut Vec<PageId>) {
        let mut kept = Vec::with_capacity(ids.len());
        for (space, numbers) in self.parts.memory.by_space(ids) {
            let entries = self.parts.memory.space(space).map(|space| space.entries(&numbers));
            for (number, entry) in numbers.into_iter().zip(entries.unwrap_or_default()) {
                kept.extend(self.parts.memory.pages.find(space, number).filter(|_| entry.is_swapped()));
            }
        }
        *ids = kept;
    }

    /// The policy gives up a page. `false`: it has none.
    fn give_up_one(&mut self) -> bool {
        let Some(id) = self.choice.policy.victim(&mut self.parts.memory) else { return false };
        self.choice.policy.evict(id);
        self.parts.memory.pages[id].state = State::Leaving;
        self.leaving.push((id, 0));
        self.counts.resident -= 1;
        true
    }

    /// Counts the frames anew, when it is time.
    fn count_frames(&mut self) {
        let now = Instant::now();
        if now - self.counted < COUNT_PERIOD {
            return;
        }
        self.counted = now;
        let own_bytes = self.own_bytes();
        self.parts.budget.set_own_bytes(own_bytes);
        // Pages that are about to leave still take memory.
        let resident = self.counts.resident + self.leaving.len();
        if let Some(look) = self.parts.budget.look(resident, own_bytes) {
            self.choice.frames = look.frames.min(self.choice.policy_frames);
            // What is not mapped any more was unmapped by the program, or taken by the kernel. In
            // either case it is time to look.
            let missing = resident.saturating_sub(look.mapped);
            let is_more = missing > resident / MISSING_PART;
            self.parts.budget.adapt(if is_more { missing as u64 } else { 0 });
            self.surveys.is_due |= is_more;
        }
        self.publish();
    }

    /// Bytes that the director takes, about.
    fn own_bytes(&self) -> usize {
        let has_policy = self.stages.directs() || self.stages.has_directed();
        let policy_bytes = if has_policy { POLICY_BYTES * self.choice.policy_frames } else { 0 };
        let followed = self.history.bytes() + self.rounds.bytes();
        self.parts.memory.bytes() + followed + self.parts.faults.bytes() + policy_bytes
    }

    /// Shows what has been counted.
    fn publish(&mut self) {
        let steps = if self.stages.directs() { self.choice.policy.hand_steps() } else { 0 };
        self.counts.hand_steps = self.choice.earlier_steps + steps;
        self.counts.leader = self.choice.policy.leader();
        self.counts.peak_own_bytes = self.counts.peak_own_bytes.max(self.own_bytes());
        let (own, of_limit) = (usage::of_this_thread(), self.parts.budget.processor_times());
        (self.counts.user, self.counts.system) = (own.0 + of_limit.0, own.1 + of_limit.1);
        let mut shown = self.counts;
        shown.unused_ahead = self.history.unused();
        shown.directed = self.stages.directed();
        shown.compression_changes = self.turns.compression_changes();
        *self.parts.counts.lock().unwrap_or_else(|error| error.into_inner()) = shown;
    }

    /// Processes may wait for memory: more pages leave, until there is enough, or none is left.
    fn relieve(&mut self) {
        if !self.parts.budget.is_short() {
            self.short_since = None;
            return;
        }
        let since = *self.short_since.get_or_insert_with(Instant::now);
        let fewer =
            self.counts.resident.saturating_sub((self.choice.policy_frames / RELIEF_PART).max(LEAST_BATCH));
        while self.counts.resident > fewer && self.give_up_one() {}
        self.page_out();
        if self.parts.budget.have_processes_try() && since.elapsed() > STUCK_AFTER {
            self.parts.budget.have_processes_end();
        }
    }

    /// Pages that the policy gives up leave memory.
    fn page_out(&mut self) {
        let batch = (self.choice.frames / BATCH_PART).clamp(LEAST_BATCH, MOST_BATCH);
        if self.counts.resident > self.choice.frames {
            while self.counts.resident + batch > self.choice.frames && self.give_up_one() {}
        }
        if self.leaving.is_empty() {
            return;
        }
        let mut tries: FxHashMap<PageId, u8> = self.leaving.drain(..).collect();
        let mut ids: Vec<PageId> = tries.keys().copied().collect();
        let went_before = self.look_at(&mut ids);
        self.counts.overruled += went_before;
        self.parts.memory.advise(ids.clone(), State::Leaving, Advice::PageOut);
        self.counts.evictions += self.look_at(&mut ids);
        for id in ids {
            let times = tries.remove(&id).unwrap_or_default() + 1;
            if times < MOST_TRIES {
                self.leaving.push((id, times));
            } else {
                let page = self.parts.memory.pages[id];
                self.arrive(page.space, page.number());
            }
        }
    }

    /// Looks at the entries of pages that are leaving, keeps those that are still there to be paged
    /// out, and returns how many are in the swap file.
    fn look_at(&mut self, ids: &mut Vec<PageId>) -> u64 {
        let mut swapped = 0;
        for (space, numbers) in self.parts.memory.by_space(ids) {
            let Some(found) = self.parts.memory.space(space).map(|space| space.entries(&numbers)) else {
                continue;
            };
            for (number, entry) in numbers.into_iter().zip(found) {
                let Some(id) = self.parts.memory.pages.find(space, number) else { continue };
                if entry.is_swapped() {
                    self.parts.memory.pages[id].state = State::Out;
                    swapped += 1;
                } else if !entry.is_ours() {
                    // It was unmapped, or it is shared with a child now.
                    self.forget(id);
                }
            }
        }
        let pages = &self.parts.memory.pages;
        ids.retain(|&id| pages[id].state == State::Leaving);
        swapped
    }

    /// A page is not the policy's concern any more.
    fn forget(&mut self, id: PageId) {
        match self.parts.memory.pages[id].state {
            State::Resident => self.counts.resident -= 1,
            State::Leaving => self.leaving.retain(|&(other, _)| other != id),
            State::Ahead => self.ahead = self.ahead.saturating_sub(1),
            State::Unknown | State::Out => {}
        }
        if self.stages.directs() {
            self.choice.policy.remove(id);
        }
        self.history.forget(id);
        self.parts.memory.pages.forget(id);
    }

    /// A process has other memory now, or none.
    fn forget_space(&mut self, space: SpaceId, touched: &mut Vec<(SpaceId, u64)>) {
        touched.retain(|&(other, _)| other != space);
        // What it shared with its parent is the parent's alone now.
        self.surveys.is_due = true;
        for id in self.parts.memory.pages.of_space(space) {
            self.forget(id);
        }
        self.parts.memory.forget_space(space);
        self.objects.numbers.retain(|&(other, _), _| other != space);
    }

    /// Compares what is known with what is there. `categories`: what makes a block worth a look
    /// that has no known pages.
    fn survey(&mut self, categories: u64) {
        let began = Instant::now();
        self.forget_gone_spaces();
        self.for_each_entry(categories, |director, space, number, entry| {
            director.compare(space, number, entry);
            true
        });
        self.surveys.is_due = false;
        self.surveys.latest = Instant::now();
        self.surveys.took = self.surveys.latest - began;
    }

    /// Forgets the memory of processes whose end was not heard of.
    fn forget_gone_spaces(&mut self) {
        for id in self.parts.memory.spaces() {
            if self.parts.memory.space(id).is_some_and(|space| space.is_gone()) {
                self.forget_space(id, &mut Vec::new());
            }
        }
    }

    /// Looks at all entries, block by block, until `look` returns `false`: the program goes on
    /// meanwhile, and each block's entries are as new as can be.
    fn for_each_entry(
        &mut self,
        categories: u64,
        mut look: impl FnMut(&mut Self, SpaceId, u64, Entry) -> bool,
    ) {
        // Also those without events: a setuid program that another process became, for instance.
        for process in self.parts.budget.processes() {
            let _ = self.parts.memory.space_of(process);
        }
        for space in self.parts.memory.spaces() {
            let Some(there) = self.parts.memory.space(space) else { continue };
            let mut blocks = there.blocks(BLOCK, categories);
            blocks.extend(self.parts.memory.pages.blocks_of(space));
            for block in blocks {
                let numbers: Vec<u64> = (block * BLOCK as u64..(block + 1) * BLOCK as u64).collect();
                let entries = self.parts.memory.space(space).map(|space| space.entries(&numbers));
                for (number, entry) in numbers.into_iter().zip(entries.unwrap_or_default()) {
                    if !look(self, space, number, entry) {
                        return;
                    }
                }
            }
        }
    }

    /// Compares a page with its entry.
    fn compare(&mut self, space: SpaceId, number: u64, entry: Entry) {
        let pages = &self.parts.memory.pages;
        let found = pages.find(space, number);
        let Some(id) = found.filter(|&id| pages[id].state != State::Unknown) else {
            if entry.is_ours() {
                self.arrive(space, number);
            } else if entry.is_swapped() {
                // The kernel took it while it had the choice.
                let id = self.parts.memory.pages.find_or_insert(space, number);
                self.parts.memory.pages[id].state = State::Out;
            } else if let Some(id) = found {
                self.forget(id);
            }
            return;
        };
        let state = self.parts.memory.pages[id].state;
        match state {
            // Its event was lost, or is still to be read.
            State::Out | State::Ahead if entry.is_ours() => {
                self.arrive(space, number);
            }
            // Nobody has touched it since it was chosen: `page_out` sees to it.
            State::Leaving | State::Resident if entry.is_ours() => {}
            State::Out | State::Leaving if entry.is_swapped() => {}
            // Read ahead for nothing, unless it is used just now.
            State::Ahead if entry.is_swapped() => {
                self.parts.memory.pages[id].state = State::Out;
                self.ahead = self.ahead.saturating_sub(1);
                self.history.is_gone(id);
            }
            // The policy keeps no page that is not there.
            State::Resident if entry.is_swapped() => {
                self.choice.policy.remove(id);
                self.counts.resident -= 1;
                self.counts.overruled += 1;
                self.parts.memory.pages[id].state = State::Out;
            }
            // It was unmapped, or is shared with another process.
            State::Out | State::Ahead | State::Leaving | State::Resident => self.forget(id),
            State::Unknown => {}
        }
    }
}
