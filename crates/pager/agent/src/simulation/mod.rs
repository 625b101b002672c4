//! A deterministic simulation of the pager.
//!
//! The agent's own code, and the hooks' own code, run against a kernel, a disk and a program that
//! are simulated. A seed decides everything: what the program does, how its threads and the agent
//! interleave, where the kernel answers with an error, how slow the disk is. The same seed is the
//! same run, to the last step. A plain model says what each page must hold at each read.
//!
//! ```text
//!   program: threads that read, write, map, move, drop, guard    agent: Agent::run, as it is
//!        |  hooks, as they are                                      |
//!        v                                                          v
//!   kernel: address spaces, userfaultfds, frames  <---------  crate::kernel, crate::store::ring
//!        |                                                          |
//!        v                                                          v
//!   model: what each page must hold                           disk: slow, unordered, failing
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `schedule` | threads as coroutines, and whose turn it is |
//! | `memory` | address spaces, frames, userfaultfds |
//! | `kernel` | system calls, which let other threads run where the kernel holds no lock |
//! | `disk` | the backing store |
//! | `model` | what the program must find |
//! | `program` | what the program's threads do |
//! | `ring` | io_uring, real or simulated |
//! | `run` | a run of a seed |
//!
//! What is simulated is what Linux 6.18 does, or may do, as its sources have it. Of a fork that is
//! the parent's side, and the child until its agent would go on with the copied state. Programs
//! that share memory are not simulated.

mod disk;
pub(crate) mod kernel;
mod memory;
mod model;
mod program;
pub(crate) mod ring;
mod run;
mod schedule;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use disk::Disk;
use memory::{ContextId, FrameId, SimulatedMemory, TaskId};
use model::Model;
use rustix::fd::OwnedFd;
use schedule::Schedule;
use sweephand_policy::SplitMix64;

/// The program's memory begins here.
const BOTTOM: usize = 0x7e00_0000_0000;

/// What a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Object {
    Context(ContextId),
    File(usize),
    Ring,
    Pagemap,
}

/// How the kernel answers. A chance of N means one in N; 0 means never.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    /// A copy or move stops after some of its pages.
    partial: u64,
    /// There is no memory for a copy or move.
    no_memory: u64,
    /// A move finds a lock taken.
    busy_locks: u64,
    /// A move does not count the last pages that it has moved: see `moves`.
    uncounted: u64,
    /// The file system cannot reserve space.
    no_reservation: u64,
    /// A thread that has let go of the lock of its address space goes on much later. (Elsewhere,
    /// too, but more seldom.)
    late: u64,
    /// The command cannot load the program that reads accessed bits.
    no_program: bool,
    /// The kernel cannot protect pages against reading.
    no_tracking: bool,
    /// A copy puts a page in place of a guard. (Some kernels refuse that.)
    guards_are_overwritten: bool,
    /// At some time, in nanoseconds, the program comes to have this many pages of shared memory.
    /// There are none if the number is 0.
    shared: (u64, usize),
    /// There is no address space for compressed memory.
    no_room_for_pool: bool,
    /// Compressed memory that would be as large as pays is as large as chance will have it.
    pool_by_chance: bool,
    /// Processors that the agent may use.
    processors: usize,
}

/// A pipe that holds a frame, and what was in it when the program last wrote to it.
#[derive(Clone, Copy, Debug)]
struct Held {
    frame: FrameId,
    content: u64,
}

/// A child of the program, and what is known of the next.
struct Child {
    /// What the child must find, if there is one.
    model: Option<Model>,
    /// Whether the fork that made it has been told.
    is_fork_told: bool,
    /// The child's end of the sockets made last.
    socket: i32,
    /// Children that are about to begin.
    newborn: Vec<(TaskId, OwnedFd)>,
}

/// What the agent has from the kernel and uses by itself.
#[derive(Default)]
struct Agents {
    /// The file that says how much shared memory there is, until there is some.
    status: Option<OwnedFd>,
    /// What it has mapped to read and write it.
    bytes: Vec<Vec<u8>>,
    /// How large its compressed memory is to become.
    pool_pages: usize,
}

/// Everything outside of the agent.
struct World {
    random: SplitMix64,
    now_ns: u64,
    behaviour: Behaviour,
    memory: SimulatedMemory,
    model: Model,
    disk: Disk,
    schedule: Schedule,
    objects: BTreeMap<i32, Object>,
    held: Vec<Held>,
    /// Mappings whose `mmap` has not returned, as drops of the model: thread and number.
    unreturned: Vec<(TaskId, u64)>,
    /// Ranges that threads have set about to change, the last ones: start and pages.
    changed: VecDeque<(usize, usize)>,
    child: Child,
    agents: Agents,
    /// Stands for all that has happened.
    hash: u64,
    /// What has happened, in words.
    story: Option<Vec<String>>,
}

impl World {
    /// The address space of the running thread.
    fn space(&self) -> usize {
        self.schedule.task().space
    }

    /// When a thread goes on that is late.
    fn later(&mut self) -> u64 {
        let longest_ns = [2_000, 20_000, 200_000][self.random.below(3) as usize];
        self.now_ns + self.random.below(longest_ns)
    }

    /// The program, or a device on its behalf, writes to a frame. What holds it has that, too.
    fn put(&mut self, frame: FrameId, content: u64) {
        self.memory.frames[frame].content = content;
        for held in self.held.iter_mut().filter(|held| held.frame == frame) {
            held.content = content;
        }
    }

    /// Something has happened.
    fn note(&mut self, what: &'static str, first: usize, second: usize) {
        let numbers = [what.len() as u64 ^ u64::from(what.as_bytes()[0]), first as u64, second as u64];
        let thread = self.schedule.current() as u64;
        for number in numbers.into_iter().chain([thread, self.now_ns]) {
            self.hash = (self.hash.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    /// The same in words, if a reader has asked for them.
    fn log(&mut self, words: impl FnOnce() -> String) {
        let (now_us, thread) = (self.now_ns / 1000, self.schedule.current());
        if let Some(story) = &mut self.story {
            let who = if thread == 0 { "agent".into() } else { alloc::format!("thread {thread}") };
            story.push(alloc::format!("{now_us:>8} us  {who:<9} {}", words()));
        }
    }
}

std::thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The pager has given up. The words are in its control block.
struct Aborted;

/// Ends a simulation in which the pager has given up.
pub(crate) fn abort() {
    std::panic::resume_unwind(alloc::boxed::Box::new(Aborted));
}

/// Whether the calling thread is simulated.
pub(crate) fn is_on() -> bool {
    IS_ON.get()
}

/// How large compressed memory should be, where the agent says `wanted`. Its own decisions depend
/// on more evictions than a run has.
pub(crate) fn pool_pages(wanted: usize, most: usize) -> usize {
    if !is_on() {
        return wanted;
    }
    with(|world| {
        if !world.behaviour.pool_by_chance {
            return wanted;
        }
        if world.random.below(16) == 0 {
            world.agents.pool_pages = match world.random.below(4) {
                0 => 0,
                _ => world.random.below(most as u64 + 1) as usize,
            };
        }
        world.agents.pool_pages
    })
}

fn with<R>(work: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| work(world.as_mut().expect("a simulation is running")))
}
