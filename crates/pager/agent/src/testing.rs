//! Pager for unit tests. The program's memory is a map of pages, the userfaultfds hear nothing, and
//! the store is a file in memory whose requests are done one by one.

use crate::choice::anon::Anon;
use crate::choice::bits::{Arrivals, Sampler};
use crate::choice::live;
use crate::choice::{Choice, Chooser};
use crate::control::Control;
use crate::kernel::{Event, Message, PAGE_BYTES, Progress, Userfaultfd};
use crate::paging::mode::Paging;
use crate::paging::pager::Pager;
use crate::spec::LiveSpec;
use crate::state::account::Account;
use crate::state::memory::ProgramMemory;
use crate::state::program::Program;
use crate::store::backing::Store;
use crate::store::disk::Disk;
use crate::store::io::Io;
use crate::store::pool::Pool;
use crate::store::staging::{Staging, drop_pages};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem::MaybeUninit;
use linux_raw_sys::general as raw;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::Errno;
use sweephand_pager_interface::readahead::ReadAhead;
use sweephand_pager_interface::readaround::ReadAround;

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
    /// Ranges that have been registered.
    pub(crate) registered: Vec<(usize, usize)>,
}

/// Whether a page is the program's, and not the pager's own, which is where it seems to be.
fn is_programs(address: usize) -> bool {
    (START..at(1 << 21)).contains(&address)
}

impl World {
    /// Copies or moves pages, as `UFFDIO_COPY` and `UFFDIO_MOVE` do.
    pub(crate) fn put(&mut self, to: usize, from: usize, length: usize, moves: bool) -> Progress {
        if let Some(error) = is_programs(to).then(|| self.errors.pop_front()).flatten() {
            return Progress { bytes: 0, error: Some(error) };
        }
        for offset in (0..length).step_by(PAGE_BYTES) {
            if let Err(error) = self.put_page(to + offset, from + offset, moves) {
                return Progress { bytes: offset, error: (offset == 0).then_some(error) };
            }
        }
        Progress { bytes: length, error: None }
    }

    fn put_page(&mut self, to: usize, from: usize, moves: bool) -> Result<(), Errno> {
        if self.mapped.contains_key(&to) {
            return Err(Errno::EXIST);
        }
        if self.stuck.contains(&from) {
            return Err(Errno::BUSY);
        }
        let byte = match is_programs(from) {
            true => self.mapped.remove(&from).ok_or(Errno::NOENT)?,
            // SAFETY: the pager's own memory.
            false => unsafe { *(from as *const u8) },
        };
        if moves && !is_programs(from) {
            drop_pages(from, 1);
        }
        match is_programs(to) {
            true => _ = self.mapped.insert(to, byte),
            // SAFETY: the pager's own memory.
            false => unsafe { (to as *mut u8).write(byte) },
        }
        Ok(())
    }

    /// The kernel drops what is in a range.
    pub(crate) fn drop_contents(&mut self, start: usize, end: usize) {
        self.mapped.retain(|address, _| !(start..end).contains(address));
    }
}

/// A block in which only the limit and the policy are set.
fn control(limit_pages: usize) -> &'static mut Control {
    // SAFETY: the block is numbers, texts and atomic numbers, for all of which zeros are a value.
    let control = Box::leak(unsafe { Box::new(MaybeUninit::<Control>::zeroed()).assume_init() });
    control.order.limit_pages = limit_pages as u64;
    control
}

/// How many pages the program can have. (It keeps an eighth of all memory in any case.)
pub(crate) const ROOM: usize = 48;

/// Pager with a policy of FIFO, and what the program has.
pub(crate) fn pager() -> (Pager, Rc<RefCell<World>>) {
    let world = Rc::new(RefCell::new(World::default()));
    let policy = live::make(&LiveSpec::parse("fifo").unwrap(), ROOM).unwrap();
    let mut staging = Staging::new(BATCHES, BATCH_PAGES).unwrap();
    staging.batches.iter_mut().for_each(|batch| batch.filled = BATCH_PAGES);
    let mut pager = Pager {
        control: control(0),
        memory: ProgramMemory { managed: true, ..ProgramMemory::default() },
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
            pool: None,
            io: Io::new(false, 0),
            ahead: ReadAhead::new(0),
            around: ReadAround::new(0),
            incoming: 0,
        },
        program: Program::deaf(|| {
            let nothing = open(c"/dev/null", OFlags::RDWR, Mode::empty()).unwrap();
            Userfaultfd::of(&world, nothing)
        }),
        anon: Anon::default(),
        account: Account::open(),
        mode: &Paging,
        window: None,
    };
    pager.memory.regions.add(START, at(1 << 20));
    pager.control = control(ROOM + pager.apart_pages());
    assert_eq!(pager.room(), ROOM);
    (pager, world)
}

/// The same with as many pages of compressed memory besides. In these tests a page takes a chunk of
/// it: there are 32 to a page.
pub(crate) fn pager_with_pool(pages: usize) -> (Pager, Rc<RefCell<World>>) {
    let (mut pager, world) = pager();
    pager.disk.pool = Pool::new(pages, pages);
    pager.control = control(ROOM + pager.apart_pages());
    assert_eq!(pager.room(), ROOM);
    (pager, world)
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
