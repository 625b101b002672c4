//! Rooms for unit tests. The backend is a map of pages, the userfaultfds hear nothing, and the
//! store is a file in memory whose requests are done one by one.

use crate::account::{Account, Known};
use crate::backend::{Backend, Contents, Taken, Work};
use crate::bits::{Arrivals, Sampler};
use crate::choice::{Choice, Chooser};
use crate::control::Control;
use crate::disk::Disk;
use crate::io::Io;
use crate::kernel::{Event, Message, PAGE_BYTES, Progress, Userfaultfd};
use crate::live;
use crate::memory::Memory;
use crate::pages::{Flag, State};
use crate::program::Program;
use crate::rooms::Rooms;
use crate::spec::LiveSpec;
use crate::staging::{Phase, Staging};
use crate::store::Store;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use linux_raw_sys::general as raw;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::Errno;
use sweephand_pager_interface::readahead::ReadAhead;
use sweephand_pager_interface::readaround::ReadAround;
use sweephand_policy::PageId;

/// The address of the first page. No test touches it.
pub(crate) const START: usize = 0x10_0000_0000;
/// Pages of a batch, and how many batches there are.
pub(crate) const BATCH_PAGES: usize = 8;
const BATCHES: usize = 4;

/// The address of a page.
pub(crate) fn at(number: usize) -> usize {
    START + number * PAGE_BYTES
}

/// What the program has in memory, and what the kernel does next.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// The first byte of each page that is mapped, by address.
    pub(crate) mapped: BTreeMap<usize, u8>,
    /// Errors with which the next attempts to put pages in end.
    pub(crate) errors: VecDeque<Errno>,
    /// Pages that cannot be moved, by address.
    pub(crate) stuck: BTreeSet<usize>,
}

struct Fake(Rc<RefCell<World>>);

fn done(bytes: usize) -> Progress {
    Progress { bytes, error: None }
}

impl Backend for Fake {
    unsafe fn put_in(
        &self,
        _: &Userfaultfd,
        to: usize,
        from: usize,
        length: usize,
        _: Contents,
        _: bool,
    ) -> Progress {
        let mut world = self.0.borrow_mut();
        if let Some(error) = world.errors.pop_front() {
            return Progress { bytes: 0, error: Some(error) };
        }
        for offset in (0..length).step_by(PAGE_BYTES) {
            if world.mapped.contains_key(&(to + offset)) {
                let error = (offset == 0).then_some(Errno::EXIST);
                return Progress { bytes: offset, error };
            }
            // SAFETY: as the caller promises.
            world.mapped.insert(to + offset, unsafe { *((from + offset) as *const u8) });
        }
        done(length)
    }

    unsafe fn map_again(&self, program: &Program, to: usize, limbo: usize, length: usize) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.put_in(&program.uffd, to, limbo, length, Contents::New, true) }
    }

    fn most_mapped_again(&self) -> usize {
        1
    }

    fn take_batch(&self, staging: &mut Staging, _: &Userfaultfd, _: usize) -> Option<usize> {
        staging.batches.iter().position(|batch| batch.phase == Phase::Free)
    }

    fn take_out(&mut self, work: &mut Work, victims: &[PageId], batch: usize) -> Taken {
        let (page, mut world) = (victims[0], self.0.borrow_mut());
        let address = work.pages.address(page);
        if !work.pages.has(page, Flag::Condemned) {
            return Taken::LEFT_ALONE;
        }
        if world.stuck.contains(&address) {
            return Taken::Stuck;
        }
        let Some(byte) = world.mapped.remove(&address) else { return Taken::Missing };
        let place = work.staging.push(batch, page);
        let (batch, index) = work.staging.batch_of(place);
        // SAFETY: the staging area is the pager's own memory.
        unsafe { (work.staging.address(batch, index) as *mut u8).write(byte) };
        work.pages.set(page, State::Writing(place));
        Taken::Done { victims: 1, clean: 0 }
    }

    fn written(&self, _: &Staging, _: usize, _: usize) {}

    fn has_guards(&self) -> bool {
        false
    }

    fn known(&self, _: usize, _: usize) -> Known {
        Known::default()
    }

    fn dropped(&self, start: usize, length: usize) {
        self.0.borrow_mut().mapped.retain(|address, _| !(start..start + length).contains(address));
    }
}

/// A block in which only the limit and the policy are set.
fn control(limit_pages: usize) -> &'static mut Control {
    // SAFETY: the block is numbers, texts and atomic numbers, for all of which zeros are a value.
    let control = Box::leak(unsafe { Box::<Control>::new_zeroed().assume_init() });
    control.order.limit_pages = limit_pages as u64;
    control
}

/// How many pages the program can have. (It keeps an eighth of all memory in any case.)
pub(crate) const ROOM: usize = 48;

/// Rooms with a policy of FIFO, and what the program has.
pub(crate) fn rooms() -> (Rooms, Rc<RefCell<World>>) {
    let world = Rc::new(RefCell::new(World::default()));
    let policy = live::make(&LiveSpec::parse("fifo").unwrap(), ROOM).unwrap();
    let mut staging = Staging::new(BATCHES, BATCH_PAGES).unwrap();
    staging.batches.iter_mut().for_each(|batch| batch.filled = BATCH_PAGES);
    let mut rooms = Rooms {
        control: control(0),
        memory: Memory { managed: true, ..Memory::default() },
        choice: Choice {
            chooser: Chooser::Own(policy),
            policy_frames: ROOM,
            sampler: Sampler::default(),
            arrivals: Arrivals::new(2, 0),
            condemned: Vec::new(),
        },
        disk: Disk {
            staging,
            store: Store::new(memfd_create(c"store", MemfdFlags::CLOEXEC).unwrap()),
            io: Io::new(false, 0),
            ahead: ReadAhead::new(0),
            around: ReadAround::new(0),
            incoming: 0,
        },
        program: Program::deaf(|| open(c"/dev/null", OFlags::RDWR, Mode::empty()).unwrap().into()),
        backend: Box::new(Fake(world.clone())),
        account: Account::open(),
        window: None,
    };
    rooms.memory.regions.add(START, at(1 << 20));
    rooms.control = control(ROOM + rooms.apart_pages());
    assert_eq!(rooms.room(), ROOM);
    (rooms, world)
}

/// A message of the kernel's, of thread `thread`.
pub(crate) fn message(event: Event, thread: u32) -> Message {
    // SAFETY: plain data, for which zeros are a value.
    let mut message: raw::uffd_msg = unsafe { core::mem::zeroed() };
    let (kind, words) = match event {
        Event::Fault { address } => (raw::UFFD_EVENT_PAGEFAULT, [0, address as u64, u64::from(thread)]),
        Event::Fork { descriptor } => (raw::UFFD_EVENT_FORK, [descriptor as u64, 0, 0]),
        Event::Remap { from, to, length } => (raw::UFFD_EVENT_REMAP, [from as u64, to as u64, length as u64]),
        Event::Remove { start, end } => (raw::UFFD_EVENT_REMOVE, [start as u64, end as u64, 0]),
        Event::Unmap { start, end } => (raw::UFFD_EVENT_UNMAP, [start as u64, end as u64, 0]),
    };
    message.event = kind as u8;
    // SAFETY: the arguments of an event are 24 bytes, and a message has nothing but the event.
    unsafe {
        (&raw mut message.arg).cast::<[u64; 3]>().write_unaligned(words);
        core::mem::transmute::<raw::uffd_msg, Message>(message)
    }
}
