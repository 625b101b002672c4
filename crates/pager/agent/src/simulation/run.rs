//! A run of a seed: the world that the seed makes, and what came of it.

use super::disk::{Behaviour as DiskBehaviour, Disk};
use super::kernel::OWN;
use super::memory::{Area, SimulatedMemory, Space, TaskId};
use super::model::Model;
use super::program::{ACTIONS, Character};
use super::schedule::{MOST_TASKS, Schedule, Until, begin};
use super::{Aborted, Agents, BOTTOM, Behaviour, Child, IS_ON, WORLD, World, program, with};
use crate::control::{Control, MAGIC, Order, Text};
use crate::entry::agent::Agent;
use crate::entry::fork;
use crate::kernel::PAGE_BYTES;
use crate::mailbox::MAILBOX;
use crate::process::failure;
use crate::process::{own, roots};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use linux_raw_sys::general as raw;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};
use sweephand_pager_interface::spec;
use sweephand_policy::SplitMix64;

/// Turns after which a run must have ended.
const MOST_TURNS: u64 = 20_000_000;
/// Simulated time in which some thread of the program must have got on.
const MOST_QUIET_NS: u64 = 120_000_000_000;
/// Bytes of a thread's stack.
const STACK_BYTES: usize = 256 << 10;

/// How a run has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The program has ended, and all that it found was right.
    Right,
    /// The pager has given up for a good reason: the disk was full, or has failed.
    GivenUp(String),
    /// Something is wrong.
    Wrong(String),
}

/// Counts of an [`Outcome`].
const COUNTS: usize = 11;

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) end: End,
    /// Stands for all that has happened.
    pub(super) hash: u64,
    /// What has happened, if that was asked for.
    pub(super) story: Vec<String>,
    /// What the seed has made.
    pub(super) setting: String,
    /// Turns that threads have had.
    pub(super) turns: u64,
    /// Faults, evictions and rescues that the pager has counted, and processes with reference bits
    /// of the processor, of the kernel's protection and in software; pages that came back from
    /// compressed memory, that were turned out of it, and that do not compress; and by how many
    /// pages it had to become smaller, and how often it did because that paid, or became larger.
    pub(super) counts: [u64; COUNTS],
}

/// A mailbox and a list of the pager's mappings exist once in a process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a seed makes.
struct Setting {
    order: Order,
    behaviour: Behaviour,
    disk: DiskBehaviour,
    character: Character,
    native: Vec<(usize, usize)>,
    switches: u64,
    words: String,
}

/// When a program comes to have shared memory, at the latest.
const LATEST_SHARED_NS: u64 = 20_000_000;
/// Pages that the account of a process that is simulated has beside the pager's own.
const KERNELS_PAGES: usize = 192 + 2 * 7;

impl Setting {
    fn of(seed: u64) -> Self {
        let random = &mut SplitMix64::new(seed);
        let policies: Vec<&str> = spec::names().collect();
        let policy = policies[random.below(policies.len() as u64) as usize];
        let prefetch = *one_of(random, &[0, 1, 4, 8, 32]);
        // Drawn apart: what else a seed makes does not depend on them.
        let accessed_bits = SplitMix64::new(seed ^ 0xacce).below(2) as u32;
        let no_program = SplitMix64::new(seed ^ 0xd00f).below(8) == 0;
        let may_track = SplitMix64::new(seed ^ 0x2a77).below(2) as u32;
        let no_tracking = SplitMix64::new(seed ^ 0x01d).below(4) == 0;
        let pool_part = *one_of(&mut SplitMix64::new(seed ^ 0x9001), &[0, 0, 8, 2, 1]);
        let shared = SplitMix64::new(seed ^ 0x54a2).next_u64();
        let no_room_for_pool = SplitMix64::new(seed ^ 0x100).below(16) == 0;
        let auto = SplitMix64::new(seed ^ 0xa070).below(8);
        let (pool_is_auto, pool_by_chance) = (u32::from(auto < 4), auto < 3);
        let use_ring = u32::from(random.below(4) > 0);
        // Room for the program: from a few batches to a comfortable size.
        let room = *one_of(random, &[24, 40, 64, 100, 160]);
        let own = 64 + 32;
        // Compressed memory comes on top, as much as the room or a part of it.
        let pool_pages = usize::checked_div(room, pool_part).unwrap_or_default();
        // Shared memory takes from the room, so that compressed memory may have to give way.
        let shared_pages = if pool_pages > 0 && shared & 1 == 1 { (shared >> 32) as usize % room } else { 0 };
        let shared = ((shared >> 8) % LATEST_SHARED_NS, shared_pages);
        let limit_pages = (KERNELS_PAGES + own + room + pool_pages) as u64;
        let behaviour = Behaviour {
            no_program,
            no_tracking,
            shared,
            no_room_for_pool,
            pool_by_chance,
            ..Behaviour::any(random)
        };
        let disk = DiskBehaviour::any(random);
        let threads = 1 + random.below(4) as usize;
        let chances = any_chances(random);
        let shared_pages = 16 + random.below(room as u64 * 2) as usize;
        let shared = BOTTOM + 64 * PAGE_BYTES;
        let character = Character {
            threads,
            actions: 20 + random.below(120) as usize,
            most_pages: 24 + random.below(room as u64) as usize,
            most_unmovable: room / (4 * threads),
            shared: (shared, shared_pages),
            chances,
        };
        let native = alloc::vec![(shared, shared + shared_pages * PAGE_BYTES)];
        let switches = *one_of(random, &[1, 2, 4, 12]);
        let order = Order {
            magic: MAGIC,
            limit_pages,
            prefetch_pages: prefetch,
            use_ring,
            accessed_bits,
            may_track,
            pool_pages: pool_pages as u32,
            pool_is_auto,
            policy: Text::new(policy).expect("it is short"),
            directory: Text::new("/simulated").expect("it is short"),
            file_bytes: u64::MAX,
            ..Order::default()
        };
        let words = format!(
            "policy {policy}, accessed bits {accessed_bits}, tracking {may_track}, prefetch {prefetch}, ring {use_ring}, room for {room} pages, pool of {pool_pages}, auto {pool_is_auto}, {behaviour:?}, {disk:?}, \
             {character:?}, one switch in {switches}"
        );
        Self { order, behaviour, disk, character, native, switches, words }
    }
}

fn one_of<'a, T>(random: &mut SplitMix64, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

impl Behaviour {
    /// A kernel that has a program for accessed bits, and tracks writes.
    fn any(random: &mut SplitMix64) -> Self {
        let rarely = |random: &mut SplitMix64, one_in: u64| match random.below(3) {
            0 => one_in,
            _ => 0,
        };
        Self {
            partial: *one_of(random, &[0, 4, 30]),
            no_memory: rarely(random, 200),
            busy_locks: *one_of(random, &[0, 5, 50]),
            uncounted: *one_of(random, &[0, 5, 50]),
            no_reservation: rarely(random, 3),
            late: *one_of(random, &[0, 4, 20]),
            no_program: false,
            no_tracking: false,
            shared: (0, 0),
            no_room_for_pool: false,
            pool_by_chance: false,
            guards_are_overwritten: random.below(2) == 0,
            processors: 1 + random.below(2) as usize,
        }
    }
}

impl DiskBehaviour {
    /// One disk in eight is bad.
    fn any(random: &mut SplitMix64) -> Self {
        let is_bad = random.below(8) == 0;
        let latency_ns = *one_of(random, &[5_000, 100_000, 2_000_000]);
        let mut bad = || if is_bad && random.below(2) == 0 { 300 } else { 0 };
        let (read_error, write_error, short) = (bad(), bad(), bad());
        let is_small = is_bad && random.below(2) == 0;
        let capacity = if is_small { 100 + random.below(400) as usize } else { 100_000 };
        Self { latency_ns, read_error, write_error, short, capacity }
    }
}

/// How often a program does each of its actions.
fn any_chances(random: &mut SplitMix64) -> [u64; ACTIONS] {
    let mut chances = [0; ACTIONS];
    let base = [30, 30, 8, 6, 8, 8, 4, 4, 2, 3, 1, 12, 2];
    for (chance, base) in chances.iter_mut().zip(base) {
        // Each program has things that it does much, and things that it never does.
        *chance = base * one_of(random, &[0, 1, 1, 3]);
    }
    chances[0] += 5;
    chances[1] += 5;
    // Half of all programs fork, or all or none of them if that is asked for.
    let (forks, often) = (random.below(2) == 0, 1 + 2 * random.below(3));
    let asked = std::env::var_os("SWEEPHAND_FORKS").map(|asked| asked != *"0");
    chances[base.len()] = if asked.unwrap_or(forks) { often } else { 0 };
    chances
}

fn control(order: Order) -> &'static Control {
    struct Block(*mut Control);
    // SAFETY: one simulation runs at a time.
    unsafe impl Send for Block {}
    // SAFETY: as above.
    unsafe impl Sync for Block {}
    static BLOCK: OnceLock<Block> = OnceLock::new();
    let block = BLOCK.get_or_init(|| Block(Box::into_raw(Box::new(Control::new(order)))));
    // SAFETY: nothing of the run before is left.
    unsafe {
        block.0.write(Control::new(order));
        &*block.0
    }
}

/// Runs a seed.
pub(super) fn run(seed: u64, with_story: bool) -> Outcome {
    let _only = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Setting { order, behaviour, disk, character, native, switches, words } = Setting::of(seed);
    static ROOTS: OnceLock<()> = OnceLock::new();
    ROOTS.get_or_init(|| roots::begin(c"/tmp").expect("/proc and /tmp are there"));
    let control = control(order);
    failure::set_control(control);
    MAILBOX.begin_anew();
    fork::begin_anew();
    own::forget_from(OWN);
    let mut space = Space::default();
    for (start, end) in native {
        let protection = raw::PROT_READ | raw::PROT_WRITE;
        space.map(start, Area { end, protection, is_locked: false, context: None, is_tracked: false });
    }
    let mut schedule = Schedule::new(switches);
    (0..=character.threads).for_each(|task| _ = schedule.add(0, task == 0));
    let mut random = SplitMix64::new(seed ^ 0x5eed);
    let seeds: Vec<u64> = (0..character.threads).map(|_| random.next_u64()).collect();
    WORLD.set(Some(World {
        random,
        now_ns: 0,
        behaviour,
        memory: SimulatedMemory::new(space),
        model: Model::default(),
        disk: Disk::new(disk),
        schedule,
        objects: BTreeMap::new(),
        held: Vec::new(),
        agents: Agents::default(),
        unreturned: Vec::new(),
        changed: VecDeque::new(),
        child: Child { model: None, is_fork_told: true, socket: -1, newborn: Vec::new() },
        hash: 0,
        story: with_story.then(Vec::new),
    }));
    IS_ON.set(true);
    let (result, turns) = Threads::start(control, character, &seeds).run(seed, character);
    let end = with(|world| verdict(control, world, result));
    IS_ON.set(false);
    let World { hash, story, .. } = WORLD.take().expect("it was there");
    let counters = &control.counters;
    let counts: [_; COUNTS] = [
        &counters.faults,
        &counters.evictions,
        &counters.rescues,
        &counters.hardware_bits,
        &counters.tracked_bits,
        &counters.software_bits,
        &counters.pool_hits,
        &counters.pool_written_back,
        &counters.pool_refused,
        &counters.pool_lowered_pages,
        &counters.pool_changes,
    ];
    let counts = counts.map(|counter| counter.load(Ordering::Relaxed));
    let hash = counts.iter().fold(hash, |hash, count| hash.rotate_left(7) ^ count);
    Outcome { end, hash, story: story.unwrap_or_default(), setting: words, turns, counts }
}

fn verdict(control: &Control, world: &World, result: Result<(), String>) -> End {
    if let Some(failure) = &world.model.failure {
        return End::Wrong(failure.clone());
    }
    let words = control.failure().map(|words| words.as_str().to_string());
    match (result, words) {
        (Ok(()), _) => End::Right,
        (Err(_), Some(words))
            if (world.disk.has_failed || !world.disk.lost.is_empty()) && words.contains("backing store") =>
        {
            End::GivenUp(words)
        }
        (Err(error), words) => End::Wrong(format!("{error}: {}", words.unwrap_or_default())),
    }
}

/// The coroutines of a run. The first is the agent.
struct Threads {
    coroutines: Vec<Coroutine<(), (), ()>>,
}

impl Threads {
    fn start(control: &'static Control, character: Character, seeds: &[u64]) -> Self {
        let mut coroutines = Vec::with_capacity(MOST_TASKS);
        coroutines.push(thread(0, Box::new(move || Agent::make(control, None).run())));
        for (number, &seed) in seeds.iter().enumerate() {
            coroutines.push(thread(number + 1, Box::new(move || program::run(seed, character))));
        }
        Self { coroutines }
    }

    /// Runs the threads until the program has ended, or something is wrong.
    fn run(mut self, seed: u64, character: Character) -> (Result<(), String>, u64) {
        let (mut turns, mut got_on_ns) = (0, 0);
        let result = loop {
            turns += 1;
            let Some(task) = next() else { break Err(stuck("no thread can go on")) };
            with(|world| world.schedule.set_current(task));
            let resumed = catch_unwind(AssertUnwindSafe(|| self.coroutines[task].resume(())));
            match resumed {
                Err(payload) if payload.is::<Aborted>() => break Err("the pager has given up".to_string()),
                Err(payload) => break Err(words_of(&*payload)),
                Ok(CoroutineResult::Return(())) => with(|world| world.schedule.end(task)),
                Ok(CoroutineResult::Yield(())) => {}
            }
            let (is_over, is_wrong, now_ns) =
                with(|world| (world.schedule.is_over(), world.model.failure.is_some(), world.now_ns));
            for (task, socket) in with(|world| core::mem::take(&mut world.child.newborn)) {
                assert_eq!(task, self.coroutines.len());
                self.coroutines.push(thread(task, Box::new(move || program::child(seed, character, socket))));
            }
            if task > 0 {
                got_on_ns = now_ns;
            }
            if is_wrong || is_over {
                break Ok(());
            }
            if turns > MOST_TURNS || now_ns > got_on_ns + MOST_QUIET_NS {
                break Err(stuck("the program does not get on"));
            }
        };
        // Hooks are C functions, which cannot be unwound. So what such threads have is leaked.
        let mut agent = self.coroutines.swap_remove(0);
        for mut coroutine in self.coroutines {
            if coroutine.started() && !coroutine.done() {
                // SAFETY: nothing on its stack is used any more.
                unsafe { coroutine.force_reset() };
            }
        }
        if !agent.done() {
            agent.force_unwind();
        }
        (result, turns)
    }
}

/// A thread that is about to begin.
fn thread(task: TaskId, main: Box<dyn FnOnce()>) -> Coroutine<(), (), ()> {
    let stack = DefaultStack::new(STACK_BYTES).expect("there is room for a stack");
    Coroutine::with_stack(stack, move |yielder, ()| {
        begin(task, yielder);
        main();
    })
}

/// What each thread waits for.
fn stuck(what: &str) -> String {
    with(|world| {
        let waiting: Vec<&Until> = world.schedule.tasks.iter().map(|task| &task.until).collect();
        format!("{what}: {waiting:?}")
    })
}

fn words_of(payload: &(dyn core::any::Any + Send)) -> String {
    let words = payload.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_string()
}

/// The thread whose turn it is. Time passes if none can run.
fn next() -> Option<TaskId> {
    loop {
        let chosen = with(|world| {
            let now_ns = world.now_ns;
            world.disk.advance(&mut world.memory, &mut world.random, now_ns);
            let (mut can_run, mut yielding) = (Vec::with_capacity(MOST_TASKS), Vec::new());
            for (task, entry) in world.schedule.tasks.iter().enumerate() {
                match &entry.until {
                    Until::Ready => can_run.push(task),
                    Until::Others => yielding.push(task),
                    Until::Time(time) if *time <= now_ns => can_run.push(task),
                    Until::Readable(fds, until)
                        if until.is_some_and(|until| until <= now_ns)
                            || fds.iter().any(|&fd| world.is_readable(fd)) =>
                    {
                        can_run.push(task);
                    }
                    Until::Completion if world.disk.has_completions() || !world.disk.is_busy() => {
                        can_run.push(task);
                    }
                    _ => {}
                }
            }
            // A thread that yields has its turn when all others have to wait, and now and then.
            if can_run.is_empty() || world.random.below(4) == 0 {
                can_run.append(&mut yielding);
            }
            if can_run.is_empty() {
                return None;
            }
            let World { schedule, random, .. } = world;
            Some(schedule.choose(random, &can_run))
        });
        if chosen.is_some() {
            return chosen;
        }
        let is_later = with(|world| {
            let times = world.schedule.tasks.iter().filter_map(|task| match task.until {
                Until::Time(time) => Some(time),
                Until::Readable(_, until) => until,
                _ => None,
            });
            let Some(time) = times.chain(world.disk.next_due_ns()).min() else { return false };
            world.now_ns = world.now_ns.max(time);
            true
        });
        if !is_later {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn number(name: &str) -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text}: not a number")))
    }

    /// Prints what a seed that has failed needs to be looked at.
    fn fails(seed: u64, outcome: &Outcome) -> ! {
        panic!(
            "seed {seed}: {:?}\n{}\nrun it again with its story: SWEEPHAND_SEED={seed} cargo test --release -p \
             sweephand-agent --lib simulation -- --nocapture",
            outcome.end, outcome.setting
        )
    }

    /// Runs seeds from one on, as many or as long as is asked for.
    #[test]
    fn programs_find_what_they_have_written() {
        if let Some(seed) = number("SWEEPHAND_SEED") {
            let outcome = run(seed, true);
            outcome.story.iter().for_each(|line| println!("{line}"));
            println!("{}\n{:?} after {} turns", outcome.setting, outcome.end, outcome.turns);
            return assert!(!matches!(outcome.end, End::Wrong(_)));
        }
        let first = number("SWEEPHAND_FIRST_SEED").unwrap_or(0);
        let seeds = number("SWEEPHAND_SEEDS");
        let time = number("SWEEPHAND_SECONDS").map(Duration::from_secs);
        let most = seeds.unwrap_or(if time.is_some() { u64::MAX } else { SEEDS_IN_CI });
        let begun = Instant::now();
        let (mut given_up, mut turns, mut counts) = (0, 0, [0; COUNTS]);
        let mut count = 0;
        for seed in (first..).take(most as usize) {
            if time.is_some_and(|time| begun.elapsed() > time) {
                break;
            }
            let outcome = run(seed, false);
            match outcome.end {
                End::Right => {}
                End::GivenUp(_) => given_up += 1,
                End::Wrong(_) => fails(seed, &outcome),
            }
            count += 1;
            turns += outcome.turns;
            (0..COUNTS).for_each(|index| counts[index] += outcome.counts[index]);
            if count % 100_000 == 0 {
                println!("{count} seeds in {:.0} s", begun.elapsed().as_secs_f64());
            }
        }
        let [
            faults,
            evictions,
            rescues,
            hardware,
            tracked,
            software,
            hits,
            turned_out,
            refused,
            lowered,
            changes,
        ] = counts;
        println!(
            "{count} seeds from {first} on in {:.1} s: {turns} turns, {faults} faults, {evictions} evictions, \
             {rescues} rescues; bits of the processor {hardware}, of the kernel {tracked}, in software \
             {software}; compressed: {hits} came back, {turned_out} were turned out, {refused} do not compress, \
             {lowered} pages less, {changes} changes; {given_up} ended because the disk had failed",
            begun.elapsed().as_secs_f64()
        );
        // What is not exercised shows nothing.
        assert!(count < 100 || [faults, evictions, rescues].iter().all(|&of| of > count), "{counts:?}");
        assert!(
            count < 100 || [hits, turned_out, refused, lowered].iter().all(|&of| of > count / 4),
            "{counts:?}"
        );
        // Few programs have these: one has a source of bits, and the pool changes in some, often.
        assert!(
            count < 100 || [hardware, tracked, software, changes].iter().all(|&of| of > count / 16),
            "{counts:?}"
        );
    }

    const SEEDS_IN_CI: u64 = 3000;

    #[test]
    fn the_same_seed_is_the_same_run() {
        for seed in 0..20 {
            let [one, other] = [run(seed, false), run(seed, false)];
            assert_eq!((one.hash, one.turns, one.end), (other.hash, other.turns, other.end), "seed {seed}");
        }
        assert_ne!(run(1, false).hash, run(2, false).hash);
    }
}
