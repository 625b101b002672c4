//! `watch` and `advise` of a service: several processes, and each page once.

use super::end::{End, tell_of_trace};
use super::listen::{Exporter, Told};
use super::screen::{epochs_in_all, size};
use super::show::{Names, ShowService, seconds};
use super::{json, service_json};
use crate::keeper::{KEEPER_LOST, Keeper};
use crate::stderr::eprint_line;
use crate::{Home, progress};
use anyhow::{Context, bail};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::time::{Duration, Instant, SystemTime};
use sweephand_program::wait_for;
use sweephand_results::{Table, grouped};
use sweephand_watch::{
    Hours, HoursError, MemberLook, Named, Options, Pages, ServiceChange, ServiceEpoch, ServiceWatching,
    TraceSender, Unopened,
};

/// Processes in the summary: those with the most pages in memory.
const PROCESSES: usize = 10;

/// Says what is not seen.
fn tell_of_missing(watching: &ServiceWatching) {
    if let Some(reason) = watching.files_missing() {
        eprint_line!("sweephand: note: files that are read and not mapped are not seen: {reason}");
    }
}

/// Says which processes are left out. Whether there are any.
fn tell_of_unopened(watching: &ServiceWatching) -> bool {
    let unopened = watching.unopened();
    let Some(Unopened { process, reason }) = unopened.first() else { return false };
    eprint_line!(
        "sweephand: note: processes that cannot be opened are left out: {} by now, the first is process \
         {process}: {reason}",
        grouped(unopened.len() as u64)
    );
    true
}

/// The option that names the service, as it was written.
pub(super) fn label(named: &Named) -> String {
    match named {
        Named::Tree(process) => format!("--tree {process}"),
        Named::Cgroup(path) => format!("--cgroup {}", path.display()),
        Named::Unit(name) => format!("--unit {name}"),
        Named::Container(id) => format!("--container {id}"),
    }
}

/// Watches until the service ends, the time is over, or a signal comes.
fn follow(
    watching: &mut ServiceWatching,
    duration: Option<Duration>,
    signals: &OwnedFd,
    trace: &mut Option<TraceSender<ChildStdin>>,
    show: &mut dyn ShowService,
    hours: &mut Option<Hours>,
) -> anyhow::Result<End> {
    let mut deadline = None;
    let mut names = Names::default();
    let mut has_told = false;
    loop {
        let next = watching.next_look();
        let until = deadline.map_or(next, |deadline: Instant| deadline.min(next));
        let left = until.saturating_duration_since(Instant::now());
        let [is_signal] = wait_for([signals], left);
        if !is_signal && Instant::now() < until {
            continue;
        }
        let change = watching.look(trace).context(KEEPER_LOST)??;
        has_told = has_told || tell_of_unopened(watching);
        match change {
            None => {
                deadline = duration.map(|duration| Instant::now() + duration);
                watching.members().for_each(|process| names.learn(process));
                show.begin(watching, &names)?;
            }
            Some(ServiceChange::Ended) => return Ok(End::Program),
            Some(ServiceChange::Epoch(epoch)) => {
                let new = epoch.look.came.iter().chain(&epoch.look.new_programs);
                new.for_each(|&process| names.learn(process));
                show.epoch(watching, &epoch, &names)?;
                if let Some(Err(error)) =
                    hours.as_mut().map(|hours| hours.epoch(watching.history(), SystemTime::now()))
                {
                    eprint_line!(
                        "sweephand: note: an hour is not kept yet: {:#}; the next write has it, too",
                        anyhow::Error::from(error)
                    );
                }
            }
        }
        if is_signal {
            return Ok(End::Signal);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(End::Time);
        }
    }
}

/// What `watch` is to do with a service, by its options.
pub(super) struct Orders<'a> {
    pub(super) how: Options,
    pub(super) duration: Option<Duration>,
    pub(super) output: &'a Option<PathBuf>,
    pub(super) no_contents: bool,
    pub(super) json: bool,
    /// Tells it besides.
    pub(super) exporter: Option<Exporter>,
    /// Keeps hours besides.
    pub(super) hours: Option<Hours>,
}

/// `sweephand watch` of a service.
pub(super) fn watch(named: &Named, mut orders: Orders, home: &Home, signals: &OwnedFd) -> anyhow::Result<()> {
    if orders.no_contents {
        bail!("--no-contents has no effect: the trace of a service does not say what pages contain");
    }
    let how = orders.how;
    let mut watching = begin_service(named, how)?;
    if orders.hours.is_some() {
        watching.keep_uses();
    }
    let (mut keeper, mut trace) = (None, None);
    if let Some(path) = &orders.output {
        let (started, pipe) = Keeper::start(home, path, &[])?;
        let sender = TraceSender::begin(pipe, &label(named), &[]).context(KEEPER_LOST)?;
        (keeper, trace) = (Some(started), Some(sender));
    }
    let mut rows = Rows::default();
    let mut lines = service_json::Lines { label: label(named), how };
    let show: &mut dyn ShowService = if orders.json { &mut lines } else { &mut rows };
    let mut told = Told { show, exporter: orders.exporter };
    let hours = &mut orders.hours;
    let followed = follow(&mut watching, orders.duration, signals, &mut trace, &mut told, hours);
    let kept = end_hours(hours, &watching);
    let words = match &followed {
        Ok(End::Program) => "the service ended",
        Ok(End::Time) => "the watch was over before the service",
        Ok(End::Signal) => "the watch was ended by a signal",
        Err(_) => "the watch could not go on",
    };
    if let Some(trace) = trace {
        // What it has got so far is written all the same, and `finish` says if it is not.
        let _ = trace.end(words, followed.is_ok());
    }
    keeper.map_or(Ok(()), Keeper::finish)?;
    followed?;
    kept?;
    if orders.json {
        json::end(watching.history(), words)?;
    } else {
        rows.summary(&watching, words)?;
    }
    if let Some(path) = &orders.output {
        tell_of_trace(path, watching.history());
    }
    Ok(())
}

/// The watch is over: keeps what there is of an hour.
fn end_hours(hours: &mut Option<Hours>, watching: &ServiceWatching) -> Result<(), HoursError> {
    hours.as_mut().map_or(Ok(()), |hours| hours.end(watching.history(), SystemTime::now()))
}

/// Begins to watch a service, and tells the user of what cannot be seen here.
pub(crate) fn begin_service(named: &Named, how: Options) -> anyhow::Result<ServiceWatching> {
    let watching = ServiceWatching::of(named, how)?;
    tell_of_missing(&watching);
    Ok(watching)
}

/// Watches a service for some time, for `advise`. `signals`: what ends it, as
/// [`Signals::into_pipe`] has it.
pub(crate) fn observe_service(
    watching: &mut ServiceWatching,
    named: &Named,
    duration: Duration,
    hours: &mut Option<Hours>,
    signals: &OwnedFd,
) -> anyhow::Result<()> {
    /// A line that says how far it is.
    struct Line(indicatif::ProgressBar);
    impl ShowService for Line {
        fn begin(&mut self, _: &ServiceWatching, _: &Names) -> io::Result<()> {
            Ok(())
        }
        fn epoch(&mut self, watching: &ServiceWatching, epoch: &ServiceEpoch, _: &Names) -> io::Result<()> {
            let pages = watching.history().known_pages();
            self.0.set_message(format!(
                "watching: {} epochs, {} processes, {} pages used",
                epoch.number,
                grouped(epoch.look.members.len() as u64),
                grouped(pages)
            ));
            self.0.tick();
            Ok(())
        }
    }
    let mut line = Line(progress::line());
    let end = follow(watching, Some(duration), signals, &mut None, &mut line, hours)?;
    end_hours(hours, watching)?;
    line.0.finish_and_clear();
    match end {
        End::Signal => bail!("{}: the watch was ended by a signal", label(named)),
        End::Program => eprint_line!("sweephand: note: the service ended before the time was over"),
        End::Time => {}
    }
    Ok(())
}

/// A line for each epoch, and a summary.
#[derive(Default)]
struct Rows {
    has_heading: bool,
    /// The processes in the last epoch that had any, with their names.
    members: Vec<(MemberLook, String)>,
    /// Pages that are charged to other cgroups, in the same epoch.
    elsewhere_pages: u64,
    /// The used pages of the epoch that had the most.
    most: Pages,
    /// Uses of files that are missing, in blocks.
    lost_file_blocks: u64,
}

impl ShowService for Rows {
    fn begin(&mut self, watching: &ServiceWatching, _: &Names) -> io::Result<()> {
        let place = watching.cgroup().map_or(String::new(), |path| format!(" in {}", path.display()));
        let processes = match watching.members().count() {
            1 => "1 process".to_string(),
            many => format!("{} processes", grouped(many as u64)),
        };
        eprint_line!("sweephand: {processes}{place}");
        Ok(())
    }

    fn epoch(&mut self, watching: &ServiceWatching, epoch: &ServiceEpoch, names: &Names) -> io::Result<()> {
        let (history, look) = (watching.history(), &epoch.look);
        if !look.members.is_empty() {
            self.elsewhere_pages = look.charged_elsewhere.map_or(0, Pages::all);
            let name = |of: &MemberLook| names.of(of.process).to_string();
            self.members = look.members.iter().map(|member| (*member, name(member))).collect();
        }
        if look.used.all() > self.most.all() {
            self.most = look.used;
        }
        self.lost_file_blocks += look.lost_file_blocks;
        let mut out = io::stdout().lock();
        let mut row = |cells: [&str; 11]| {
            let [first, rest @ ..] = cells;
            let rest: String = rest.iter().map(|cell| format!(" {cell:>9}")).collect();
            writeln!(out, "{first:>8}{rest}")
        };
        if !self.has_heading {
            row([
                "time",
                "processes",
                "resident",
                "anonymous",
                "shared",
                "file",
                "cached",
                "used",
                "1 min",
                "unknown",
                "cost",
            ])?;
            self.has_heading = true;
        }
        row([
            &seconds(epoch.time),
            &grouped(look.members.len() as u64),
            &size(look.resident.all()),
            &size(look.resident.anonymous),
            &size(look.resident.shared),
            &size(look.resident.file),
            &look.cached_pages.map_or("?".to_string(), size),
            &size(look.used.all()),
            &size(history.working_set(Duration::from_secs(60))),
            &size(look.unknown_pages),
            &seconds(epoch.cost),
        ])?;
        out.flush()
    }
}

impl Rows {
    /// What the memory is that was used in the epoch with the most.
    fn split(&self, out: &mut impl Write) -> io::Result<()> {
        if self.most.all() == 0 {
            return Ok(());
        }
        let mut table = Table::new(["in the epoch with the most", "used", "share"]);
        for (kind, pages) in [
            ("anonymous memory", self.most.anonymous),
            ("shared memory", self.most.shared),
            ("mapped files", self.most.file),
            ("cached files, read or written", self.most.cached),
        ] {
            let share = pages as f64 / self.most.all() as f64;
            table.row([kind.to_string(), size(pages), format!("{:.0} %", 100.0 * share)]);
        }
        writeln!(out, "{table}")?;
        if self.lost_file_blocks > 0 {
            eprint_line!(
                "sweephand: note: uses of files in {} blocks of 256 KiB are missing: there was no room \
                 to note them; a shorter --every helps",
                grouped(self.lost_file_blocks)
            );
        }
        Ok(())
    }

    /// What the whole watch comes to.
    fn summary(&mut self, watching: &ServiceWatching, words: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        epochs_in_all(&mut out, watching.history(), words)?;
        self.split(&mut out)?;
        if self.members.is_empty() {
            return Ok(());
        }
        if self.elsewhere_pages > 0 {
            writeln!(
                out,
                "{} of what is resident is charged to other cgroups\n",
                size(self.elsewhere_pages)
            )?;
        }
        self.members.sort_by_key(|(member, _)| std::cmp::Reverse(member.resident_pages));
        let mut table = Table::new(["pid", "program", "resident", "shared", "used"]);
        for (member, name) in self.members.iter().take(PROCESSES) {
            table.row([
                member.process.to_string(),
                name.clone(),
                size(member.resident_pages),
                size(member.shared_pages),
                size(member.accessed_pages),
            ]);
        }
        writeln!(
            out,
            "processes in the last epoch (what they share counts in each, and once above)\n\n{table}"
        )
    }
}
