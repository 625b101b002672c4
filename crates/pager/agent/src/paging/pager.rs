//! The agent's state, in parts by who changes them, and how much memory there is.
//!
//! | part | what it holds | who changes it |
//! |---|---|---|
//! | [`Memory`] | pages, managed ranges, objects | changes of the program; pages that come and go |
//! | [`Choice`] | the policy, arrivals, the sampler, the condemned | pages that come, `evict` |
//! | [`Disk`] | staging, the store, requests | `transfer` |
//! | [`Program`] | the kernel's messages, doorbells, a fork under way | what the agent hears |
//! | [`Anon`] | reference bits; which pages need not be written | itself |
//! | [`Account`] | memory that counts besides the program's pages | the clock |
//!
//! What happens to a page needs several parts. It is in functions that get all of them, in modules
//! above this one: `lifecycle`, `changes`, `transfer`, `evict`, `reclaim`, `faults`. Each uses
//! those before it in this list and none behind it, so what happens to a page goes one way.

use crate::choice::anon::Anon;
use crate::choice::bits::{Arrivals, Sampler};
use crate::choice::live::{self, LivePolicy};
use crate::choice::tenant::Tenant;
use crate::choice::{Choice, Chooser};
use crate::control::{Control, add};
use crate::division::{BATCHES, Division, FIXED_PAGES, Waiting, growth_bytes};
use crate::kernel::clock;
use crate::kernel::{self, PAGE_BYTES};
use crate::paging::window::Window;
use crate::process::failure::{abort, orphaned};
use crate::process::own;
use crate::process::rlimits::{self, Raised};
use crate::process::roots;
use crate::spec::LiveSpec;
use crate::state::account::{Account, Known};
use crate::state::memory::ProgramMemory;
use crate::state::pages::Pages;
use crate::state::program::Program;
use crate::store::backing::Store;
use crate::store::disk::Disk;
use crate::store::io::Io;
use crate::store::pool::Pool;
use crate::store::staging::Staging;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{self, MemfdFlags, OFlags, memfd_create};
use rustix::io::Errno;
use sweephand_pager_interface::readahead::ReadAhead;
use sweephand_pager_interface::readaround::ReadAround;
use sweephand_pager_interface::recording::Item;
use sweephand_policy::{ArgumentError, PageId};

/// While nothing is managed, the agent leaves one part in this many of all memory free for what
/// grows between two looks.
const NEARLY_FULL: usize = 16;

/// The agent's state. Only the agent's thread uses it.
pub(crate) struct Pager {
    /// What is shared with the command.
    pub(crate) control: &'static Control,
    /// What is known about the program's memory.
    pub(crate) memory: ProgramMemory,
    /// Which pages stay in memory.
    pub(crate) choice: Choice,
    /// Where the others are.
    pub(crate) disk: Disk,
    /// How the agent hears of the program.
    pub(crate) program: Program,
    /// What is known of the use of its pages.
    pub(crate) anon: Anon,
    /// Memory that counts besides the program's pages.
    pub(crate) account: Account,
    /// What is done with the program's pages: they are paged, recorded, or in frames that are lent.
    pub(crate) mode: &'static dyn Mode,
    /// The window, in the mode of a recording.
    pub(crate) window: Option<Window>,
}

/// What differs between programs that are paged, recorded, or in frames that the command lends:
/// first what the agent begins with, then what becomes of pages, then what the agent's loop and a
/// fork do besides. `mode` has a file for each of the three, and says side by side how they differ.
/// Where a mode does not say what it does, it does what is written here.
///
/// This is a trait, and not an enum, because the modes use the modules that ask them. The state of
/// a mode is in [`Pager`], so that a decision can have all of that.
pub(crate) trait Mode: Sync {
    // The beginning.

    /// Whether the command chooses the pages that go, and lends the frames.
    fn command_chooses(&self) -> bool {
        false
    }

    /// Whether pages go to the backing store, so that there has to be one.
    fn needs_store(&self) -> bool {
        true
    }

    /// Whether the program goes on if the command is gone by the time that the agent begins.
    fn may_lack_command(&self) -> bool {
        false
    }

    /// Whether the agent may have the C library map large allocations, so that they are objects.
    fn may_map_objects(&self) -> bool {
        true
    }

    // Frames.

    /// How many pages the program may have in memory.
    fn room(&self, pager: &Pager) -> usize;

    /// Pages that count but that the pager cannot page out: its own, and others that the kernel
    /// reports.
    fn apart_pages(&self, pager: &Pager) -> usize {
        pager.account.private().unwrap_or_else(|| pager.own_pages()) + pager.account.others()
    }

    /// How many pages the policy may have. The others have just come in or are about to be evicted.
    fn policy_pages(&self, pager: &Pager) -> usize {
        let others = pager.choice.arrivals.reserved() + pager.disk.staging.batch_pages();
        pager.choice.policy_frames.min(pager.room().saturating_sub(others))
    }

    /// Whether memory that is not managed yet is nearly full, if it has `anonymous` anonymous
    /// pages.
    fn is_nearly_full(&self, pager: &Pager, anonymous: usize) -> bool {
        let budget = pager.control.order.budget_pages();
        // The growth may come from files, which no hook reports.
        let soon = pager.disk.staging.pages() + budget / NEARLY_FULL;
        anonymous + pager.account.others() + soon > budget
    }

    /// These ranges are registered, the first that are managed. No page of them is known yet.
    fn begin_to_manage(&self, pager: &mut Pager, ranges: &[(usize, usize)]);

    /// Makes room for this many more pages.
    fn make_room(&self, pager: &mut Pager, pages: usize);

    /// At most `pages` pages are about to be found present. Returns for how many there is room, at
    /// least one. If there is not enough for all of them, the other pages make room in their turn.
    fn admit_present(&self, _: &mut Pager, _pages: usize) -> usize {
        usize::MAX
    }

    // Pages.

    /// Answers a thread that waits for the page at this address.
    fn on_fault(&self, pager: &mut Pager, address: usize, is_write: bool);

    /// A page is in memory. `is_asked`: a fault has asked for it, or it has been there before.
    fn on_arrival(&self, pager: &mut Pager, page: PageId, is_asked: bool);

    /// The program changes its memory. The pages are still known as they were.
    fn on_change(&self, _: &mut Pager, _change: Item) {}

    /// Whether the agent must hear of each touch and each drop by itself.
    fn hears_all(&self) -> bool {
        false
    }

    // The agent's loop.

    /// The agent is about to serve the program.
    fn begin(&self, _: &mut Pager) {}

    /// Follows what the command says, before faults are answered.
    fn before_faults(&self, _: &mut Pager) {}

    /// What there is to do when no thread waits for a page.
    fn between_faults(&self, pager: &mut Pager);

    /// Reports to the command. `at_once`: or else when there is much to report.
    fn report(&self, _: &mut Pager, _at_once: bool) {}

    /// Whether there is something to do that nobody will call the agent for.
    fn has_work(&self, _: &Pager) -> bool {
        false
    }

    /// What becomes readable when the command says something.
    fn orders<'a>(&self, _: &'a Pager) -> Option<BorrowedFd<'a>> {
        None
    }

    /// In which time there is something to do, if nothing happens until then.
    fn due_in_ns(&self, _: &Pager) -> Option<u64> {
        None
    }

    /// The command has ended. Returns if the program may go on without it.
    fn on_command_ended(&self, pager: &mut Pager) {
        if !pager.control.is_released() {
            orphaned();
        }
    }

    // Forks.

    /// The program is about to fork. Returns a file that the child needs, if it does.
    fn before_fork(&self, _: &mut Pager) -> Option<Result<OwnedFd, Errno>> {
        None
    }

    /// Nothing is under way any more, and no page is in limbo, because the program forks.
    fn at_rest(&self, _: &mut Pager) {}

    /// In a child: receives what [`before_fork`](Self::before_fork) was. The parent waits.
    fn receive(&self, _: &mut Pager, _socket: &OwnedFd) -> Result<(), Errno> {
        Ok(())
    }

    /// In a child, which has descriptors of its own now, and the pages that its parent had.
    fn in_child(&self, _: &mut Pager) {}
}

impl Pager {
    /// The state of an agent that manages nothing yet. The directories in which it opens files are
    /// open.
    pub(crate) fn new(
        control: &'static Control,
        supervisor: Option<OwnedFd>,
        mode: &'static dyn Mode,
    ) -> Self {
        let order = &control.order;
        let limit = order.limit_pages as usize;
        let lends = mode.command_chooses();
        let anon = Anon::open(control, supervisor.as_ref().filter(|_| !lends));
        // Until memory is paged: see `begin_to_page`.
        let waiting = if lends { Waiting::None } else { Waiting::All };
        let division = Division::of(limit, lends, waiting);
        let Division { batch_pages, most, fresh, .. } = division;
        // Where frames are lent, the command has the policy, which may be one for many tasks.
        let spec = (!lends).then(|| named_policy(control));
        let policy_frames = division.policy_frames(spec.as_ref().map_or(0, LiveSpec::bytes_a_page));
        let chooser = match &spec {
            Some(spec) => Chooser::Own(make_policy(spec, policy_frames)),
            None => Chooser::Lent(Tenant::connect(control, 0)),
        };
        let mut pages = Pages::new();
        pages.shared = chooser.lease().map(|tenant| tenant.shared);
        let staging = Staging::new(BATCHES, batch_pages).unwrap_or_else(|| own::no_room("staging"));
        let program = Program::open(order, supervisor);
        program.register_own(&staging);
        Self {
            control,
            memory: ProgramMemory { pages, ..ProgramMemory::default() },
            choice: Choice {
                chooser,
                policy_frames,
                sampler: Sampler::default(),
                arrivals: Arrivals::new(most, fresh),
                condemned: Vec::with_capacity(2 * batch_pages),
            },
            program,
            anon,
            disk: Disk {
                staging,
                store: Store::new(open_store(control, mode)),
                // Until memory is paged: see `begin_to_page`.
                pool: None,
                io: Io::new(order.use_ring != 0, order.read_delay_ns),
                ahead: ReadAhead::new((order.prefetch_pages as usize).min(batch_pages)),
                around: ReadAround::new(0),
                incoming: 0,
            },
            account: Account::open(),
            mode,
            window: None,
        }
    }

    /// The address of a page in limbo.
    pub(crate) fn limbo(&mut self, page: PageId) -> usize {
        self.disk.staging.limbo(page, &self.program.staging_uffd)
    }

    /// Pages of the pager itself.
    pub(crate) fn own_pages(&self) -> usize {
        let arrays = own::heap_pages() + own::emergency_pages();
        self.disk.staging.pages() + self.pool_pages() + arrays + FIXED_PAGES
    }

    /// Pages of compressed memory.
    fn pool_pages(&self) -> usize {
        self.disk.pool.as_ref().map_or(0, Pool::pages)
    }

    /// Pages of the pager's own that count and are not there now.
    pub(crate) fn missing_pages(&self) -> usize {
        let pool = self.disk.pool.as_ref().map_or(0, Pool::missing);
        self.disk.staging.pages() - self.disk.staging.frames() + pool
    }

    /// See [`Mode::apart_pages`].
    pub(crate) fn apart_pages(&self) -> usize {
        self.mode.apart_pages(self)
    }

    /// See [`Mode::room`].
    pub(crate) fn room(&self) -> usize {
        self.mode.room(self)
    }

    /// The same in bytes.
    pub(crate) fn room_bytes(&self) -> i64 {
        (self.room() * PAGE_BYTES) as i64
    }

    /// The program's pages in memory, and those on their way there.
    pub(crate) fn taken(&self) -> usize {
        self.memory.pages.resident() + self.disk.incoming
    }

    /// See [`Mode::policy_pages`].
    pub(crate) fn policy_pages(&self) -> usize {
        self.mode.policy_pages(self)
    }

    /// Learns where reference bits come from, before the first page is known. Only then the command
    /// loads the program that reads accessed bits, because most programs fit into their memory.
    pub(crate) fn begin_to_page(&mut self) {
        let order = &self.control.order;
        let waiting = self.anon.begin_to_page(self.control, &self.program);
        if waiting == Waiting::Unasked {
            let Division { batch_pages, most, .. } = Division::of(order.limit_pages as usize, false, waiting);
            self.choice.arrivals = Arrivals::of_unasked(most);
            // Windows learn from whether pages are used.
            self.disk.around = ReadAround::new((order.prefetch_pages as usize).min(batch_pages));
        }
        // Only now, because most programs fit into their memory.
        let pages = order.pool_pages as usize;
        let (at_first, memory) =
            (if order.pool_is_auto != 0 { 0 } else { pages }, order.limit_pages as usize);
        self.disk.pool = if pages > 0 { Pool::new(at_first, pages) } else { None };
        match &mut self.disk.pool {
            Some(pool) if order.pool_is_auto != 0 => pool.begin_to_adapt(memory),
            None if pages > 0 => add(&self.control.counters.pools_given_up, 1),
            _ => {}
        }
    }

    /// Makes the policy anew, before it has seen a page, for the frames that it can count on if
    /// this many pages are not the program's. Returns how many those are. They are at least
    /// `least`.
    pub(crate) fn renew_policy(&mut self, apart: usize, least: usize) -> usize {
        let budget = self.control.order.budget_pages();
        let spec = named_policy(self.control);
        let growth = budget * growth_bytes(spec.bytes_a_page()) / PAGE_BYTES;
        let (arriving, batch) = (self.choice.arrivals.reserved(), self.disk.staging.batch_pages());
        let frames = budget.saturating_sub(arriving + batch + growth + self.account.others() + apart);
        self.choice.policy_frames = frames.max(least);
        self.choice.chooser = Chooser::Own(make_policy(&spec, self.choice.policy_frames));
        frames
    }

    /// Reads what the process takes; see [`Account`]. Returns the number of its private pages if
    /// the kernel reports it.
    pub(crate) fn look(&mut self) -> Option<usize> {
        let missing = self.missing_pages();
        let known = match self.memory.managed {
            false => Known::default(),
            true => Known { private: Some(self.memory.pages.resident()), reserve: missing },
        };
        self.account.look(known, clock::coarse_ms())
    }
}

/// The policy that the order names.
fn named_policy(control: &Control) -> LiveSpec {
    or_abort(LiveSpec::parse(control.order.policy.as_str()))
}

/// Makes a policy with this many frames.
fn make_policy(spec: &LiveSpec, frames: usize) -> Box<dyn LivePolicy> {
    or_abort(live::make(spec, frames))
}

fn or_abort<T>(result: Result<T, ArgumentError>) -> T {
    result.unwrap_or_else(|error| abort(format_args!("{error}")))
}

/// Opens a new backing store file without a name. Its space is free again when the last process has
/// closed it.
pub(crate) fn open_store(control: &Control, mode: &dyn Mode) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let made = roots::store().ok_or(Errno::NOENT).and_then(|directory| {
        let rights = fs::Mode::RUSR | fs::Mode::WUSR;
        let open = || match mode.needs_store() {
            true => kernel::openat(directory, c".", flags | OFlags::DIRECT, rights),
            // Nothing is written to it. The directory is gone if the command was killed.
            false => kernel::openat(directory, c".", flags, rights)
                .or_else(|_| memfd_create(c"nothing", MemfdFlags::CLOEXEC)),
        };
        rlimits::without(Raised::Descriptors, open)
    });
    made.unwrap_or_else(|error| {
        let directory = control.order.directory.as_str();
        abort(format_args!(
            "{directory}: no backing store can be made there: {error}; name another place with --swap"
        ))
    })
}

/// Opens the directories in which the agent reads and makes files.
pub(crate) fn open_roots(control: &Control, mode: &dyn Mode) {
    let directory = control.order.directory.as_str();
    let path = CString::new(directory).unwrap_or_default();
    let begun = roots::begin(&path).or_else(|error| match mode.needs_store() {
        true => Err(error),
        // The directory is gone if the command was killed, and the agent writes nothing.
        false => roots::begin(c"/proc"),
    });
    if let Err(error) = begun {
        abort(format_args!("{directory}, or /proc: cannot be opened: {error}"));
    }
}
