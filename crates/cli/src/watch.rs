//! `sweephand watch`: which pages a running program uses, from outside.

mod end;
mod json;
mod listen;
mod screen;
mod service;
mod service_json;
mod show;

use crate::keeper::{KEEPER_LOST, Keeper, share};
use crate::processes::{command_of, name_of};
use crate::stderr::eprint_line;
use crate::watched::Watched;
use crate::{Home, progress, report};
use anyhow::{Context, bail};
use end::{End, tell_of_trace};
use listen::{Exporter, Told};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use show::{Show, seconds};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode};
use std::time::{Duration, Instant};
use sweephand_output::named_by;
use sweephand_program::{Signals, exit_code, wait_for};
use sweephand_results::grouped;
use sweephand_time::{Device, measured_swap};
use sweephand_watch::{Change, Epoch, FaultCost, Hours, Named, Options, TraceSender, Watching};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    watched: Watched,
    #[command(flatten)]
    how: How,
    /// Stop after this time. The program goes on [default: when it ends, or at an interrupt]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Trace to write: each page once for each epoch in which it was used
    #[arg(short, long, value_name = "FILE.swt")]
    output: Option<PathBuf>,
    /// Do not read pages now and then to see how well they compress. Only sizes are kept in the
    /// trace, and no contents (`info` shows them)
    #[arg(long)]
    no_contents: bool,
    /// Print a line of JSON for each epoch, and for whatever else happens
    #[arg(long)]
    json: bool,
    /// Also tell the last epoch and the curve to Prometheus: over HTTP, at /metrics. The address is
    /// one that only this machine reaches
    #[arg(long, value_name = "127.0.0.1:PORT", value_parser = listen::loopback)]
    listen: Option<SocketAddr>,
    /// For --listen: what pages would go to (see `advise`). It says the least memory for a slowdown
    /// of 1.05 then [default: the disk that this machine swaps to, if it was measured]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// A program and its arguments, to be started and watched. What it prints on standard output
    /// goes to standard error
    #[arg(
        last = true,
        value_name = "PROGRAM ARG",
        required_unless_present = "watched",
        conflicts_with = "watched"
    )]
    command: Vec<OsString>,
}

impl Args {
    /// Answers from now on, if that is wanted.
    fn exporter(&self) -> anyhow::Result<Option<Exporter>> {
        let Some(address) = self.listen else { return Ok(None) };
        let target = match (self.watched.service(), self.watched.pid, self.command.first()) {
            (Some(named), ..) => service::label(&named),
            (_, Some(pid), _) => format!("--pid {pid}"),
            (.., program) => program.map_or(String::new(), |program| program.to_string_lossy().into_owned()),
        };
        let named = self.device.as_deref().map(Device::named).transpose().context("--device")?;
        let cost = named.or_else(measured_swap).as_ref().map(FaultCost::of);
        let (exporter, address) = Exporter::start(address, target, cost)?;
        eprint_line!("sweephand: http://{address}/metrics");
        Ok(Some(exporter))
    }
}

/// How to watch: options that `watch` and `advise` share.
#[derive(clap::Args)]
pub(crate) struct How {
    /// The length of an epoch: how often to look which pages were used
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    every: Duration,
    /// Part of a processor's time that watching may cost, with what the program's next uses of the
    /// pages take longer. Where it would cost more, it looks at a sample of the pages, and if that
    /// does not help, epochs are longer [default: 2%, with epochs of 10 s and more 0.5%; 5% if
    /// `advise` asks about a service]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    overhead: Option<f64>,
    /// For a service: keep what each hour needs in this folder, at most four weeks of them. A later
    /// watch with the same folder goes on, and `advise` takes all hours into account
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl How {
    pub(crate) fn options(&self) -> Options {
        const LONG: Duration = Duration::from_secs(10);
        let usual = if self.every < LONG { 0.02 } else { 0.005 };
        Options { every: self.every, overhead: self.overhead.unwrap_or(usual) }
    }

    /// The same for a watch of a service that answers one question, and may cost more for that
    /// time: there is no sample, so a smaller budget would make epochs too long to say much.
    pub(crate) fn options_for_advice(&self) -> Options {
        const USUAL: f64 = 0.05;
        Options { overhead: self.overhead.unwrap_or(USUAL), ..self.options() }
    }

    /// The hours of a service, if the user wants to keep them.
    pub(crate) fn hours(&self, service: Option<&Named>) -> anyhow::Result<Option<Hours>> {
        match (&self.keep, service) {
            (None, _) => Ok(None),
            (Some(_), None) => bail!("--keep needs --tree, --cgroup, --unit or --container"),
            (Some(folder), Some(named)) => Ok(Some(Hours::open(folder, &service::label(named))?)),
        }
    }
}

/// A time such as `500ms`, `1s` or `2m`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let parse = |&(unit, seconds): &(&str, f64)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        (number > 0.0 && number < 1e6).then(|| Duration::from_secs_f64(number * seconds))
    };
    UNITS.iter().find_map(parse).ok_or_else(|| "write a time as in 500ms, 1s or 2m".to_string())
}

/// Watches until the program ends, the time is over, or a signal comes.
fn follow(
    watching: &mut Watching,
    pid: u32,
    duration: Option<Duration>,
    signals: &OwnedFd,
    trace: &mut Option<TraceSender<ChildStdin>>,
    show: &mut dyn Show,
) -> anyhow::Result<End> {
    let process = pidfd_open(pid_of(pid)?, PidfdFlags::empty());
    // A process that has just ended.
    let Ok(process) = process else { return Ok(End::Program) };
    let deadline = duration.map(|duration| Instant::now() + duration);
    loop {
        let next = watching.next_look();
        let is_last = deadline.is_some_and(|deadline| deadline <= next);
        // The rest of the time is an epoch, too.
        let until = deadline.map_or(next, |deadline| deadline.min(next));
        let left = until.saturating_duration_since(Instant::now());
        let [is_signal, is_ended] = wait_for([signals, &process], left);
        if is_ended {
            return Ok(End::Program);
        }
        if !is_signal && Instant::now() < until {
            continue;
        }
        match watching.look(trace).context(KEEPER_LOST)?? {
            None => {}
            Some(Change::Ended) => return Ok(End::Program),
            Some(Change::NewProgram) => show.new_program(watching, &name_of(pid))?,
            Some(Change::Epoch(epoch)) => {
                show.epoch(watching, &epoch)?;
                for &child in &epoch.new_children {
                    let name = name_of(child);
                    show.child(watching, child, &name)?;
                    if let Some(trace) = trace {
                        trace.note(&format!("it started process {child} ({name})")).context(KEEPER_LOST)?;
                    }
                }
            }
        }
        if is_signal {
            return Ok(End::Signal);
        }
        if is_last && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(End::Time);
        }
    }
}

fn pid_of(pid: u32) -> anyhow::Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("process {pid}: there is none"))
}

/// Prepares to watch, and says what it will cost.
fn begin(pid: u32, how: &How) -> anyhow::Result<Watching> {
    let watching = Watching::of(pid, how.options())?;
    let (price, pages) = (watching.price(), watching.resident_pages());
    let most = price.most(pages);
    let pace = watching.pace();
    let mut sparing = String::new();
    if pace.sample().one_page_in() > 1 {
        sparing += &format!("; so it looks at one page in {} at first", pace.sample().one_page_in());
    }
    if pace.is_stretched() {
        sparing += &format!("; so it looks every {} at first", seconds(pace.period()));
    }
    eprint_line!(
        "sweephand: {pid} ({}): {} pages x {:.0} ns to read, and for those that are used {:.0} ns to clear and {:.0} ns at the next \
         use: a look costs up to {}, {:.1}% of a processor at one every {}{sparing}",
        name_of(pid),
        grouped(pages),
        price.read_ns,
        price.clear_ns,
        price.touch_ns,
        seconds(most),
        100.0 * most.as_secs_f64() / how.every.as_secs_f64(),
        seconds(how.every),
    );
    Ok(watching)
}

/// Starts a program to be watched.
fn start(command: &[OsString]) -> anyhow::Result<Child> {
    let program = sweephand_program::locate(&command[0])?;
    let mut started = Command::new(&program);
    started.arg0(&command[0]).args(&command[1..]);
    if let Some(stdout) = report::stdout_beside(None)? {
        started.stdout(stdout);
    }
    started.spawn().with_context(|| format!("{}: cannot be started", program.display()))
}

pub(crate) use service::{begin_service, observe_service};

pub(crate) fn run(args: Args, home: &Home) -> anyhow::Result<ExitCode> {
    // Before the program starts: a signal that comes then is for both.
    let signals = Signals::catch().context("signals cannot be caught")?.into_pipe()?;
    let named = args.watched.service();
    let (exporter, hours) = (args.exporter()?, args.how.hours(named.as_ref())?);
    let mut child = if args.command.is_empty() { None } else { Some(start(&args.command)?) };
    if let Some(named) = named {
        let Args { duration, ref output, no_contents, json, .. } = args;
        let orders =
            service::Orders { how: args.how.options(), duration, output, no_contents, json, exporter, hours };
        return service::watch(&named, orders, home, &signals).map(|()| ExitCode::SUCCESS);
    }
    let pid = args.watched.pid.or(child.as_ref().map(Child::id)).unwrap_or_default();
    let result = watch(&args, home, pid, &signals, exporter, child.is_some());
    let Some(child) = &mut child else { return result.map(|_| ExitCode::SUCCESS) };
    // The program goes on to its end, whatever became of the watch.
    if let Ok(End::Signal) = result {
        let mut number = [0; 1];
        // 0 is a signal of the terminal, which the program has got itself.
        if rustix::io::read(&signals, &mut number) == Ok(1)
            && let Some(signal) = Signal::from_named_raw(number[0].into())
        {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }
    let status = child.wait().context("the program cannot be waited for")?;
    result.map(|_| exit_code(status))
}

fn watch(
    args: &Args,
    home: &Home,
    pid: u32,
    signals: &OwnedFd,
    exporter: Option<Exporter>,
    is_ours: bool,
) -> anyhow::Result<End> {
    let mut watching = begin(pid, &args.how)?;
    let (mut keeper, mut trace) = (None, None);
    if let Some(path) = &args.output {
        let command: Vec<String> = match is_ours {
            true => args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            false => command_of(pid),
        };
        let (started, pipe) = Keeper::start(home, path, &named_by(&args.command))?;
        let sender = TraceSender::begin(pipe, &name_of(pid), &command).context(KEEPER_LOST)?;
        (keeper, trace) = (Some(started), Some(sender));
        if !args.no_contents {
            watching.sample_contents();
        }
    }
    let show: Box<dyn Show> = if args.json {
        Box::new(json::Lines::begin(&watching, pid, &name_of(pid), &args.how.options())?)
    } else if io::stderr().is_terminal() {
        Box::new(screen::Screen::new(pid))
    } else {
        Box::new(screen::Rows::default())
    };
    let mut told = Told { show, exporter };
    let followed = follow(&mut watching, pid, args.duration, signals, &mut trace, &mut told);
    drop(told);
    let words = match &followed {
        Ok(End::Program) => "the program ended",
        Ok(End::Time) => "the watch was over before the program",
        Ok(End::Signal) => "the watch was ended by a signal",
        Err(_) => "the watch could not go on",
    };
    if let Some(trace) = trace {
        // What it has got so far is written all the same, and `finish` says if it is not.
        let _ = trace.end(words, followed.is_ok());
    }
    let kept = keeper.map_or(Ok(()), Keeper::finish);
    // If the process that writes has ended, it has said why.
    kept?;
    let end = followed?;
    if args.json {
        json::end(watching.history(), words)?;
    } else {
        screen::summary(&watching, words)?;
    }
    if let Some(path) = &args.output {
        tell_of_trace(path, watching.history());
    }
    Ok(end)
}

/// Watches a process for some time, for `advise --pid`.
pub(crate) fn observe(pid: u32, how: &How, duration: Duration) -> anyhow::Result<Watching> {
    /// A line that says how far it is.
    struct Line(indicatif::ProgressBar);
    impl Show for Line {
        fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()> {
            let pages = watching.history().known_pages();
            self.0.set_message(format!("watching: {} epochs, {} pages used", epoch.number, grouped(pages)));
            self.0.tick();
            Ok(())
        }
        fn new_program(&mut self, _: &Watching, name: &str) -> io::Result<()> {
            eprint_line!("sweephand: note: the process became another program: {name}");
            Ok(())
        }
        fn child(&mut self, _: &Watching, pid: u32, name: &str) -> io::Result<()> {
            eprint_line!("sweephand: note: it started process {pid} ({name}), which is not watched");
            Ok(())
        }
    }
    let signals = Signals::catch().context("signals cannot be caught")?.into_pipe()?;
    let mut watching = begin(pid, how)?;
    watching.keep_uses();
    let mut line = Line(progress::line());
    let end = follow(&mut watching, pid, Some(duration), &signals, &mut None, &mut line)?;
    line.0.finish_and_clear();
    match end {
        End::Signal => bail!("process {pid}: the watch was ended by a signal"),
        End::Program => eprint_line!("sweephand: note: the process ended before the time was over"),
        End::Time => {}
    }
    Ok(watching)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_read() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        assert!(["", "1", "0s", "-1s", "s", "1e9s", "nans"].iter().all(|text| time(text).is_err()));
        assert_eq!((share("2%"), share("0.5%")), (Ok(0.02), Ok(0.005)));
        assert!(["", "2", "0%", "101%", "x%"].iter().all(|text| share(text).is_err()));
    }
}
