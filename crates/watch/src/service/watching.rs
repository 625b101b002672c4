//! The watch of a service: looks at its processes once a period, and takes in what it finds.

use super::files::{FileLook, Files, known, lasting, put_to};
use super::frames::{Found, Frames, Pages};
use super::member::{Became, Member, MemberLook};
use super::page_flags::PageFlags;
use crate::look::{Price, UsedPage, WatchError};
use crate::{History, Options, ServiceState, TraceSender};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::accessed::{NoBits, TableBits};
use sweephand_process::charge::Charge;
use sweephand_process::family::started;
use sweephand_process::group::{Group, Mounts, Named};
use sweephand_process::shared_memory;
use sweephand_process::usage::processor_time;

/// The kernel tells the start of a process in steps of this.
const STEP: Duration = Duration::from_millis(10);

/// The longest first epoch, unless a longer one is asked for.
const LONGEST_TRIAL: Duration = Duration::from_secs(1);

/// A service that is being watched.
#[derive(Debug)]
pub struct ServiceWatching {
    named: Named,
    group: Group,
    bits: TableBits,
    page_flags: PageFlags,
    members: BTreeMap<u32, Member>,
    /// Those that the last look could not open.
    unopened: Vec<Unopened>,
    frames: Frames,
    /// Why there is nothing of them, if it is not the files.
    files: Result<Files, String>,
    options: Options,
    price: Price,
    /// The time from the last look to the next.
    period: Duration,
    history: History,
    charged: Charged,
    began: Instant,
    /// When the last look was, and the same from the start of the machine. `None`: no bits have
    /// been cleared yet.
    looked: Option<(Instant, Duration)>,
}

/// What the service was charged for at the last look with processes.
#[derive(Clone, Copy, Debug, Default)]
struct Charged {
    /// `None`: it has no memory cgroup.
    charge: Option<Charge>,
    /// Pages that the look has found, of those that are charged to the service.
    seen_pages: u64,
}

/// A process of the service that is left out, because it cannot be opened.
#[derive(Debug)]
pub struct Unopened {
    /// The process.
    pub process: u32,
    /// Why not.
    pub reason: io::Error,
}

/// What has changed since the look before.
#[derive(Debug)]
pub enum ServiceChange {
    /// An epoch is over.
    Epoch(Box<ServiceEpoch>),
    /// The service has ended: no process is left, and none can come.
    Ended,
}

/// An epoch of a service.
#[derive(Debug)]
pub struct ServiceEpoch {
    /// Its number, from 1.
    pub number: u64,
    /// When it ended, from the start of the watch.
    pub time: Duration,
    /// How long it was.
    pub length: Duration,
    /// What was found.
    pub look: ServiceLook,
    /// Pages used for the first time in the watch.
    pub first_used_pages: u64,
    /// Processor time of the look, and what the next uses of the pages, reads and writes of files
    /// take longer.
    pub cost: Duration,
}

/// What a look at a service has found.
#[derive(Debug, Default)]
pub struct ServiceLook {
    /// Pages that processes have mapped.
    pub resident: Pages,
    /// Those of them that are charged to a cgroup that is not the service's, as pages of files are
    /// that others have read first. `None`: the service has no memory cgroup.
    pub charged_elsewhere: Option<Pages>,
    /// Pages of shared memory that no process has mapped, and that stay for the next one to use.
    /// `None`: the kernel does not tell.
    pub unmapped_shared_pages: Option<u64>,
    /// What the service is charged for. `None`: it has no memory cgroup.
    pub charge: Option<Charge>,
    /// Cached pages of files that no process has mapped, as far as they are charged to the service.
    /// `None`: it has no memory cgroup.
    pub cached_pages: Option<u64>,
    /// Pages that were used since the look before.
    pub used: Pages,
    /// Uses of files that are missing, in blocks of 64 pages: there was no room to note them.
    pub lost_file_blocks: u64,
    /// Pages of which it is not known whether they were used in the epoch.
    pub unknown_pages: u64,
    /// Pages whose dirty bit is set.
    pub dirty_pages: u64,
    /// Pages that some look has reported and whose contents are gone.
    pub dropped_pages: u64,
    /// The processes, ascending.
    pub members: Vec<MemberLook>,
    /// Processes that have come since the look before.
    pub came: Vec<u32>,
    /// Processes that have become another program.
    pub new_programs: Vec<u32>,
    /// Processes that have gone.
    pub went: Vec<u32>,
}

impl ServiceWatching {
    /// Prepares to watch a service. Nothing is cleared yet.
    pub fn of(named: &Named, options: Options) -> Result<Self, WatchError> {
        if !rustix::process::geteuid().is_root() {
            return Err(WatchError::Root);
        }
        let group = Group::find(named, &Mounts::here())?;
        let bits = TableBits::load().map_err(|error: NoBits| WatchError::Bits(error.to_string()))?;
        let failed = |error| WatchError::System("/proc/kpageflags".to_string(), error);
        let page_flags = PageFlags::open().map_err(failed)?;
        let failed = |error| WatchError::System("memory to measure with".to_string(), error);
        let price = Price::measure(&bits).map_err(failed)?;
        let files = Files::begin().map_err(|error| error.to_string());
        allow_all_descriptors();
        Ok(Self {
            named: named.clone(),
            group,
            bits,
            page_flags,
            members: BTreeMap::new(),
            unopened: Vec::new(),
            frames: Frames::default(),
            files,
            options,
            price,
            period: options.every,
            history: History::default(),
            charged: Charged::default(),
            began: Instant::now(),
            looked: None,
        })
    }

    /// Why reads and writes of files are not seen, if they are not.
    pub fn files_missing(&self) -> Option<&str> {
        self.files.as_ref().err().map(String::as_str)
    }

    /// Has the history keep uses: see [`History::keep_uses`].
    pub fn keep_uses(&mut self) {
        self.history.keep_uses();
    }

    /// What is known of the service now, besides the pages that it used.
    pub fn state(&self) -> ServiceState {
        let cgroup = self.cgroup().map(Path::to_path_buf);
        let Charged { charge, seen_pages } = self.charged;
        let (named, sees_files) = (self.named.clone(), self.files.is_ok());
        ServiceState { named, cgroup, charge, seen_pages, sees_files }
    }

    /// What the epochs so far say. Pages are numbered by their frames, those of files beyond that.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Ends the watch and returns what its epochs have said.
    pub fn into_history(self) -> History {
        self.history
    }

    /// The processes, as the last look has found them; before the first one, none.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        self.members.keys().copied()
    }

    /// The processes that the last look has left out, because they could not be opened.
    pub fn unopened(&self) -> &[Unopened] {
        &self.unopened
    }

    /// The directory of its cgroup, if it is one.
    pub fn cgroup(&self) -> Option<&Path> {
        self.group.cgroup()
    }

    /// The time from the last look to the next: longer than was asked for if looks cost too much.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// When it is time for the next look: at once for the first.
    pub fn next_look(&self) -> Instant {
        self.looked.map_or(self.began, |(looked, _)| looked + self.period)
    }

    /// Looks. The first look only clears bits: `None`.
    pub fn look<W: Write>(
        &mut self,
        trace: &mut Option<TraceSender<W>>,
    ) -> io::Result<Result<Option<ServiceChange>, WatchError>> {
        let (now, before) = (Instant::now(), self.looked);
        let began = processor_time();
        let (look, found, files) = match self.look_at_members(before.map(|(_, since_boot)| since_boot)) {
            Err(error) => return Ok(Err(error)),
            Ok(found) => found,
        };
        if self.members.is_empty() && self.group.is_gone() {
            return Ok(Ok(Some(ServiceChange::Ended)));
        }
        if !look.members.is_empty() {
            let elsewhere = look.charged_elsewhere.map_or(0, Pages::all);
            let cached = look.cached_pages.filter(|_| self.files.is_ok()).unwrap_or_default();
            self.charged = Charged {
                charge: look.charge,
                seen_pages: look.resident.all().saturating_sub(elsewhere) + cached,
            };
        }
        let used = processor_time().saturating_sub(began);
        let Some((before, _)) = before else {
            // The first look finds all frames new, and says little of what the others cost.
            self.set_period(used, 0.0);
            self.period = self.period.min(self.options.every.max(LONGEST_TRIAL));
            return Ok(Ok(None));
        };
        found.dropped.iter().for_each(|pages| self.history.forget(pages.clone()));
        let is_known = |page: u64| self.history.last_use(page).is_some();
        let lasting: Vec<UsedPage> = lasting(&found.used, &files.gone, is_known).collect();
        let (time, length) = (now - self.began, now - before);
        if let Some(peak_bytes) = self.group.peak_bytes() {
            let elsewhere = look.charged_elsewhere.map_or(0, Pages::all);
            let shared = look.resident.shared + look.unmapped_shared_pages.unwrap_or_default();
            let cached = look.resident.file + look.cached_pages.unwrap_or_default();
            self.history.bound(peak_bytes / PAGE_BYTES + elsewhere, cached + shared);
        }
        let first_used_pages = self.history.add(&lasting, 1.0, time);
        files.gone.iter().for_each(|pages| self.history.forget(pages.clone()));
        if let Some(trace) = trace {
            found.dropped.iter().try_for_each(|pages| trace.dropped(pages))?;
            trace.epoch(&found.used, 1, length.as_nanos() as u64)?;
            files.gone.iter().try_for_each(|pages| trace.dropped(pages))?;
        }
        let touches: u64 = look.members.iter().map(|member| member.accessed_pages).sum();
        let later = Duration::from_nanos((touches as f64 * self.price.touch_ns) as u64);
        let cost = processor_time().saturating_sub(began) + later;
        // What reads take longer comes with the time, and not with the looks.
        self.set_period(cost, files.cost.div_duration_f64(length));
        let (number, cost) = (self.history.epochs(), cost + files.cost);
        let epoch = ServiceEpoch { number, time, length, look, first_used_pages, cost };
        Ok(Ok(Some(ServiceChange::Epoch(Box::new(epoch)))))
    }

    /// Chooses the time to the next look. A look costs `cost`, and `of_reads` of a processor's time
    /// are spent already.
    fn set_period(&mut self, cost: Duration, of_reads: f64) {
        /// This part of the budget is for looks, whatever reads take.
        const LEAST_LEFT: f64 = 0.25;
        let overhead = self.options.overhead;
        let left = (overhead - of_reads).max(LEAST_LEFT * overhead);
        self.period = self.options.every.max(cost.div_f64(left));
    }

    /// Reads and clears the bits of all processes. `before`: when the last look was.
    fn look_at_members(
        &mut self,
        before: Option<Duration>,
    ) -> Result<(ServiceLook, Found, FileLook), WatchError> {
        let now = since_boot();
        let reading =
            self.files.as_ref().map_or(Ok(BTreeSet::new()), Files::members).map_err(files_failed)?;
        let there = self.group.members()?;
        if let Ok(files) = &self.files {
            files.set_members(&reading, &there.iter().copied().collect()).map_err(files_failed)?;
        }
        let mut look = ServiceLook::default();
        self.open_members(&there, before, &mut look);
        if before.is_none() && self.members.is_empty() && !self.unopened.is_empty() {
            let Unopened { process, reason } = self.unopened.swap_remove(0);
            return Err(WatchError::System(format!("process {process}"), reason));
        }
        let gone: Vec<u32> = self.members().filter(|process| there.binary_search(process).is_err()).collect();
        gone.into_iter().for_each(|process| self.forget(process, &mut look));
        self.looked = Some((Instant::now(), now));
        self.page_flags.set_own(self.group.memory_cgroups());
        self.frames.begin();
        for member in self.members.values_mut() {
            look.members.extend(member.look(&self.bits, &mut self.frames));
        }
        let (page_flags, files) = (&self.page_flags, &mut self.files);
        let mut found = self.frames.finish(
            |frames| page_flags.of(frames),
            |frames| match files {
                Ok(files) => files.in_frames(frames),
                Err(_) => vec![None; frames.len()],
            },
        );
        let file_look = match files {
            Ok(files) => files.take().map_err(files_failed)?,
            Err(_) => FileLook::default(),
        };
        put_to(&mut found, &file_look);
        found.dropped.extend(known(&file_look.ended, |page| self.history.last_use(page).is_some()));
        look.lost_file_blocks = file_look.lost_blocks;
        (look.resident, look.used) = (found.mapped, found.used_pages);
        let shared = shared_memory::pages(self.members());
        look.unmapped_shared_pages = shared.map(|all| all.saturating_sub(found.mapped.shared));
        look.charged_elsewhere = self.page_flags.knows_owners().then_some(found.elsewhere);
        (look.unknown_pages, look.dirty_pages) = (found.unknown_pages, found.dirty_pages);
        look.dropped_pages = found.dropped.iter().map(|pages| pages.end - pages.start).sum();
        let mapped_files = found.mapped.file - found.elsewhere.file;
        look.charge = self.cgroup().and_then(Charge::of);
        let cached = look.charge.and_then(|charge| charge.file_bytes);
        look.cached_pages = cached.map(|bytes| (bytes / PAGE_BYTES).saturating_sub(mapped_files));
        Ok((look, found, file_look))
    }

    /// Opens the processes that have come. One that cannot be opened is left out.
    fn open_members(&mut self, there: &[u32], before: Option<Duration>, look: &mut ServiceLook) {
        let has_started = |process, before| started(process).is_some_and(|started| started + STEP >= before);
        let most = most_members();
        self.unopened.clear();
        for &process in there {
            if let Some(member) = self.members.get_mut(&process) {
                match member.refresh() {
                    Ok(Became::Itself) => {}
                    Ok(Became::NewProgram) => look.new_programs.push(process),
                    // Its number may have been given to another process.
                    Ok(Became::Ended) => self.forget(process, look),
                    Err(reason) => {
                        self.forget(process, look);
                        self.unopened.push(Unopened { process, reason });
                        continue;
                    }
                }
            }
            let has_room = self.members.len() < most;
            let Entry::Vacant(new) = self.members.entry(process) else { continue };
            let is_of_epoch = before.is_some_and(|before| has_started(process, before));
            let opened = if has_room { Member::open(process, is_of_epoch) } else { Err(Errno::MFILE.into()) };
            match opened {
                Ok(Some(member)) => {
                    new.insert(member);
                    look.came.push(process);
                }
                Ok(None) => {}
                Err(reason) => self.unopened.push(Unopened { process, reason }),
            }
        }
    }

    fn forget(&mut self, process: u32, look: &mut ServiceLook) {
        self.members.remove(&process);
        look.went.push(process);
    }
}

fn files_failed(error: io::Error) -> WatchError {
    WatchError::System("uses of files, which BPF programs note".to_string(), error)
}

/// The time from the start of the machine.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Descriptors that a process of the service takes.
const MEMBER_DESCRIPTORS: u64 = 3;

/// How many processes can be opened, so that descriptors are left for everything else.
fn most_members() -> usize {
    const OTHERS: u64 = 96;
    let descriptors = getrlimit(Resource::Nofile).current;
    descriptors.map_or(usize::MAX, |all| (all.saturating_sub(OTHERS) / MEMBER_DESCRIPTORS).max(1) as usize)
}

/// There may be hundreds of processes.
fn allow_all_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
