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
use crate::control::Control;
use crate::division::{BATCHES, Division, FIXED_PAGES, Waiting, growth_bytes};
use crate::kernel::clock;
use crate::kernel::{self, PAGE_BYTES};
use crate::paging::window::Window;
use crate::process::failure::abort;
use crate::process::own;
use crate::process::rlimits::{self, Raised};
use crate::process::roots;
use crate::spec::LiveSpec;
use crate::state::account::{Account, Known};
use crate::state::memory::Memory;
use crate::state::pages::Pages;
use crate::state::program::Program;
use crate::store::backing::Store;
use crate::store::disk::Disk;
use crate::store::io::Io;
use crate::store::staging::Staging;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use sweephand_pager_interface::readahead::ReadAhead;
use sweephand_pager_interface::readaround::ReadAround;
use sweephand_policy::{ArgumentError, PageId};

/// The program keeps at least one part in this many of the memory, whatever else takes memory.
const LEAST_ROOM: usize = 8;

/// More pages than any program has.
const ANY_ROOM: usize = 1 << 36;

/// The agent's state. Only the agent's thread uses it.
pub(crate) struct Pager {
    /// What is shared with the command.
    pub(crate) control: &'static Control,
    /// What is known about the program's memory.
    pub(crate) memory: Memory,
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
    /// The window, if the program is recorded. Nothing is paged then.
    pub(crate) window: Option<Window>,
}

impl Pager {
    /// The state of an agent that manages nothing yet. The directories in which it opens files are
    /// open.
    pub(crate) fn new(control: &'static Control, supervisor: Option<OwnedFd>) -> Self {
        let order = &control.order;
        let limit = order.limit_pages as usize;
        let lends = !order.lender.as_str().is_empty();
        let anon = Anon::open(control, supervisor.as_ref().filter(|_| !lends));
        // Until memory is paged: see `begin_to_page`.
        let waiting = if lends { Waiting::None } else { Waiting::All };
        let division = Division::of(limit, lends, waiting);
        let Division { batch_pages, most, fresh, .. } = division;
        // Where frames are lent, the command has the policy, which may be one for many tasks.
        let spec = (!lends).then(|| named_policy(control));
        let policy_frames = division.policy_frames(spec.as_ref().map_or(0, LiveSpec::bytes_a_page));
        let mut chooser = match &spec {
            Some(spec) => Chooser::Own(make_policy(spec, policy_frames)),
            None => Chooser::Lent(Tenant::connect(control, 0)),
        };
        let mut pages = Pages::new();
        pages.board = chooser.tenant().map(|tenant| tenant.board);
        let staging = Staging::new(BATCHES, batch_pages).unwrap_or_else(|| own::no_room("staging"));
        let program = Program::open(order, supervisor);
        program.register_own(&staging);
        Self {
            control,
            memory: Memory { pages, ..Memory::default() },
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
                store: Store::new(open_store(control)),
                io: Io::new(order.use_ring != 0, order.read_delay_ns),
                ahead: ReadAhead::new((order.prefetch_pages as usize).min(batch_pages)),
                around: ReadAround::new(0),
                incoming: 0,
            },
            account: Account::open(),
            window: None,
        }
    }

    /// Whether the command lends this process its frames.
    pub(crate) fn is_lent(&self) -> bool {
        self.choice.chooser.granted().is_some()
    }

    /// The address of a page in limbo.
    pub(crate) fn limbo(&mut self, page: PageId) -> usize {
        self.disk.staging.limbo(page, &self.program.staging_uffd)
    }

    /// Pages of the pager itself.
    pub(crate) fn own_pages(&self) -> usize {
        let arrays = own::heap_pages() + own::ballast_pages();
        self.disk.staging.pages() + arrays + FIXED_PAGES
    }

    /// Pages that count but that the pager cannot page out: its own, and others that the kernel
    /// reports.
    pub(crate) fn apart_pages(&self) -> usize {
        let own = self.own_pages();
        match self.is_lent() {
            // Lent memory does not include the kernel's share.
            true => own,
            false => self.account.private().unwrap_or(own) + self.account.others(),
        }
    }

    /// How many pages the program may have in memory. The program keeps a minimum, whatever else
    /// there is. If that exceeds the limit, the cgroup enforces it.
    pub(crate) fn room(&self) -> usize {
        match self.choice.chooser.granted() {
            _ if self.control.order.is_recording() => ANY_ROOM,
            Some(granted) => granted.saturating_sub(self.apart_pages()),
            None => {
                let budget = self.control.order.budget_pages();
                budget.saturating_sub(self.apart_pages()).max(budget / LEAST_ROOM)
            }
        }
    }

    /// The same in bytes.
    pub(crate) fn room_bytes(&self) -> i64 {
        (self.room() * PAGE_BYTES) as i64
    }

    /// The program's pages in memory, and those on their way there.
    pub(crate) fn taken(&self) -> usize {
        self.memory.pages.resident() + self.disk.incoming
    }

    /// How many pages the policy may have. The others have just come in or are about to be evicted.
    pub(crate) fn policy_pages(&self) -> usize {
        if self.is_lent() {
            return usize::MAX;
        }
        let others = self.choice.arrivals.reserved() + self.disk.staging.batch_pages();
        self.choice.policy_frames.min(self.room().saturating_sub(others))
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
        let missing = self.disk.staging.pages() - self.disk.staging.frames();
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
pub(crate) fn open_store(control: &Control) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let made = roots::store().ok_or(Errno::NOENT).and_then(|directory| {
        let mode = Mode::RUSR | Mode::WUSR;
        let open = || match control.order.is_recording() {
            false => kernel::openat(directory, c".", flags | OFlags::DIRECT, mode),
            // Nothing is written to it. The directory is gone if the command was killed.
            true => kernel::openat(directory, c".", flags, mode)
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
pub(crate) fn open_roots(control: &Control) {
    let directory = control.order.directory.as_str();
    let path = CString::new(directory).unwrap_or_default();
    let begun = roots::begin(&path).or_else(|error| match control.order.is_recording() {
        false => Err(error),
        // The directory is gone if the command was killed, and nothing is to be written.
        true => roots::begin(c"/proc"),
    });
    if let Err(error) = begun {
        abort(format_args!("{directory}, or /proc: cannot be opened: {error}"));
    }
}
