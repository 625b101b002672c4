//! `sweephand advise --try`: lowers the limit of a running service's memory step by step, and
//! measures what that does, as Meta's Senpai does to find how much memory a service needs.
//!
//! | module | what it holds |
//! |---|---|
//! | `metric` | the service's own figure: a command that prints a number |
//! | `stalls` | how much of its time the service waits for memory |
//! | `trial` | the decisions: the next limit, what is too slow, when it is over |
//! | `subject` | the service: its limit is set, and rounds are measured |
//! | `predicted` | what a watch before the trial predicts |
//! | `show` | the findings as text and as JSON |
//!
//! The limit itself, and the process that puts it back if this one is killed, is in
//! `sweephand_process::limit`.

mod metric;
mod predicted;
mod show;
mod stalls;
mod subject;
mod trial;

use crate::stderr::eprint_line;
use crate::{progress, watch};
use anyhow::{Context, anyhow, bail};
use metric::{IDLE, Metric, MetricIs};
use predicted::Predicted;
use show::{Ended, Findings, Row};
use stalls::Stalls;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use subject::{Halt, Subject};
use sweephand_process::group::{Group, Mounts};
use sweephand_process::limit::{LimitError, Makeup, ServiceLimit, free_swap_bytes};
use sweephand_program::Signals;
use sweephand_results::bytes;
use sweephand_watch::{Named, Options, SLOWDOWN, ServiceWatching, WatchError};
use trial::{Order, Rules, Trial};

/// The part of the time that the service is watched.
const WATCHED_PART: f64 = 0.3;
/// What may wait beside the slowdown that is asked for, before the limit is raised at once: this
/// many times that, and within these bounds.
const STALLS: f64 = 6.0;
const LEAST_STALLS: f64 = 0.15;
const MOST_STALLS: f64 = 0.5;
/// The part of the free swap that a trial may fill.
const SWAP_PART: f64 = 0.9;
/// The limit stays this much above what cannot leave memory.
const FLOOR: f64 = 1.1;
const FLOOR_BYTES: u64 = 2 << 20;

const SIGNALLED: &str = "the trial was ended by a signal; the limit is as it was";

/// The options of a trial.
#[derive(clap::Args)]
pub(crate) struct TryArgs {
    /// Prove the advice on the running service: lower the limit of its cgroup step by step, measure
    /// the slowdown, stop at --slowdown [default: 1.05], and put the limit back. --for is the time
    /// of all of it, with the watch before it
    #[arg(long = "try", id = "trial", conflicts_with_all = ["pid", "tree", "device", "keep"])]
    pub(crate) is_wanted: bool,
    /// The service's own figure: a command for sh that prints a number in its last line. Without
    /// it, the slowdown is estimated from the time that the service waits for memory
    #[arg(long, value_name = "COMMAND")]
    metric: Option<String>,
    /// What this number is
    #[arg(long, value_enum, default_value = "latency")]
    metric_is: MetricIs,
    /// The longest that the command may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = watch::time)]
    metric_timeout: Duration,
}

/// What a trial is about.
pub(crate) struct Orders<'a> {
    pub(crate) service: Named,
    pub(crate) args: &'a TryArgs,
    pub(crate) how: Options,
    pub(crate) slowdown: Option<f64>,
    /// The time of all of it.
    pub(crate) duration: Duration,
}

/// What a trial has found, and whether it came to its end.
pub(crate) struct Report {
    findings: Findings,
    /// Why it did not.
    pub(crate) error: Option<anyhow::Error>,
}

impl Report {
    pub(crate) fn to_text(&self) -> String {
        self.findings.to_string()
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.findings.to_json()
    }
}

/// Tries how little memory a service can do with.
pub(crate) fn run(orders: &Orders) -> anyhow::Result<Report> {
    let began = Instant::now();
    // Stopped, it would leave the limit lower for as long.
    let signals = Signals::catch_with_stop().context("signals cannot be caught")?.into_pipe()?;
    let (group, limit) = find(&orders.service)?;
    let path = limit.path().to_path_buf();
    let makeup = limit.makeup()?;
    tell_of_limit_above(&limit, &makeup);
    floor_of(&limit, &makeup)?;
    let TryArgs { metric, metric_is, metric_timeout, .. } = orders.args;
    let metric = metric.clone().map(|command| Metric { command, is: *metric_is, timeout: *metric_timeout });
    let metric_time = metric.as_ref().map(|metric| time_of(metric, &signals)).transpose()?;
    let stalls = Stalls::of(&path);
    match (&metric, &stalls) {
        (None, None) => bail!(
            "this kernel does not say how long the service waits for memory: give --metric, or boot with psi=1"
        ),
        (None, Some(stalls)) => eprint_line!(
            "sweephand: the slowdown is estimated from {}; --metric would measure it",
            stalls.words()
        ),
        _ => {}
    }
    let watching = watch_before(orders, &signals)?;
    // If the service has ended meanwhile, the first measurement finds that.
    let makeup = limit.makeup().unwrap_or(makeup);
    let predicted =
        watching.map(|watching| Predicted::of(watching, makeup.kernel_bytes)).transpose()?.flatten();
    let start_bytes = makeup.usage_bytes.min(limit.original_bytes().unwrap_or(u64::MAX));
    let rules = Rules {
        slowdown: orders.slowdown.unwrap_or(SLOWDOWN),
        start_bytes,
        floor_bytes: floor_of(&limit, &makeup)?,
        predicted_bytes: predicted.as_ref().map(|predicted| predicted.enough().1),
        round: orders.how.every.max(metric_time.unwrap_or_default()) + subject::LOOK,
        deadline: orders.duration,
    };
    let mut subject = Subject {
        limit,
        group,
        stalls,
        metric,
        signals,
        deadline: began + orders.duration,
        every: orders.how.every,
        most_stalled: (STALLS * (rules.slowdown - 1.0)).clamp(LEAST_STALLS, MOST_STALLS),
        usually_stalled: 0.0,
        usual_faults: 0.0,
    };
    let mut findings = Findings {
        cgroup: path.display().to_string(),
        cgroup_version: subject.limit.cgroup_version(),
        slowdown: rules.slowdown,
        metric: subject.metric.as_ref().map(|metric| metric.is.name()),
        stalls: subject.stalls.as_ref().map(Stalls::name),
        limit_bytes: subject.limit.original_bytes(),
        start_bytes,
        floor_bytes: rules.floor_bytes,
        predicted,
        spread: 0.0,
        smallest_slowdown: 1.0,
        rows: Vec::new(),
        ended: Ended::Early("error"),
    };
    let error = follow(&mut subject, rules, began, &mut findings);
    let restored = subject.limit.restore();
    Ok(Report { findings, error: concluded(error, restored) })
}

/// The service and its limit.
fn find(service: &Named) -> anyhow::Result<(Group, ServiceLimit)> {
    let mut group = Group::find(service, &Mounts::here())?;
    let limit = ServiceLimit::of(group.cgroup().ok_or_else(|| anyhow!("--try needs a cgroup"))?)?;
    // If it had to wait for memory itself, nobody would raise the limit.
    if group.members()?.contains(&std::process::id()) {
        bail!("{}: this command is in this cgroup itself; start it from outside", limit.path().display());
    }
    Ok((group, limit))
}

/// Carries the trial's orders out until it is over. Returns why it ended early.
fn follow(subject: &mut Subject, rules: Rules, began: Instant, findings: &mut Findings) -> Option<Halt> {
    let line = progress::line();
    let (mut trial, mut order) = Trial::begin(rules, began.elapsed());
    loop {
        let limit_bytes = match order {
            Order::Reference { .. } => None,
            Order::At { bytes, .. } => Some(bytes),
            Order::End(verdict) => {
                findings.ended = Ended::By(verdict);
                break;
            }
        };
        let place = limit_bytes.map_or_else(|| "as at the start".to_string(), bytes);
        line.set_message(format!("trying: {} measurements, now {place}", findings.rows.len()));
        line.tick();
        let (outcome, measured) = match subject.measure(order, &trial) {
            Ok(found) => found,
            Err(halt) => {
                // At once, whatever is said later.
                let _ = subject.limit.restore();
                findings.ended = Ended::Early(match halt {
                    Halt::Signal => "signal",
                    Halt::Ended => "service-ended",
                    Halt::Error(_) => "error",
                });
                line.finish_and_clear();
                return Some(halt);
            }
        };
        let step = limit_bytes.map(|_| (trial.slowdown_of(&outcome), trial.judge(&outcome)));
        findings.rows.push(Row { limit_bytes, step, measured });
        order = trial.next(outcome, began.elapsed());
        (findings.spread, findings.smallest_slowdown) = (trial.spread(), trial.smallest_slowdown());
    }
    line.finish_and_clear();
    if findings.smallest_slowdown > rules.slowdown {
        eprint_line!(
            "sweephand: note: at the start, the {} varies by {:.1}%: with the rounds that there was time for, a slowdown \
             of {:.2} can be told from that, and not one of {}; give it more time (--for), or a steadier --metric",
            findings.metric.unwrap_or("waiting"),
            100.0 * findings.spread,
            findings.smallest_slowdown,
            rules.slowdown
        );
    }
    None
}

/// The error that the command ends with.
fn concluded(halt: Option<Halt>, restored: Result<(), LimitError>) -> Option<anyhow::Error> {
    let restored = match restored {
        Err(LimitError::Gone(_)) => Ok(()),
        restored => restored,
    };
    match (halt, restored) {
        (Some(Halt::Signal), Ok(())) => Some(anyhow!(SIGNALLED)),
        (Some(Halt::Error(error)), Ok(())) => Some(error),
        // It is why the trial has ended, or nobody would read what to do now.
        (Some(Halt::Error(error)), Err(of_limit)) => match error.to_string() == of_limit.to_string() {
            true => Some(error),
            false => Some(anyhow!("{error:#}; {:#}", anyhow::Error::from(of_limit))),
        },
        (Some(Halt::Ended), Ok(())) => {
            eprint_line!("sweephand: note: the service ended before the trial was over");
            None
        }
        (None, Ok(())) => None,
        (_, Err(of_limit)) => Some(of_limit.into()),
    }
}

/// How long the metric's command takes. It has to print a number, of a service that is at work.
fn time_of(metric: &Metric, signals: &OwnedFd) -> anyhow::Result<Duration> {
    const LOOK: Duration = Duration::from_millis(10);
    let (began, mut run) = (Instant::now(), metric.start()?);
    loop {
        match metric.value(&mut run)? {
            Some(0.0) => bail!(IDLE),
            Some(_) => return Ok(began.elapsed()),
            None if subject::pause(signals, LOOK).is_err() => bail!(SIGNALLED),
            None => {}
        }
    }
}

/// Watches the service. `None`: it cannot be watched here.
fn watch_before(orders: &Orders, signals: &OwnedFd) -> anyhow::Result<Option<ServiceWatching>> {
    let time = orders.duration.mul_f64(WATCHED_PART);
    let watch = || -> anyhow::Result<ServiceWatching> {
        let mut watching = watch::begin_service(&orders.service, orders.how)?;
        watch::observe_service(&mut watching, &orders.service, time, &mut None, signals)?;
        Ok(watching)
    };
    match watch() {
        Ok(watching) => Ok(Some(watching)),
        Err(error) if matches!(error.downcast_ref(), Some(WatchError::Bits(_))) => {
            eprint_line!("sweephand: note: there is no prediction: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn tell_of_limit_above(limit: &ServiceLimit, makeup: &Makeup) {
    let most = limit.original_bytes().unwrap_or(u64::MAX).min(2 * makeup.usage_bytes);
    if let Some((file, above)) = limit.lowest_above().filter(|(_, above)| *above < most) {
        eprint_line!(
            "sweephand: note: {}: {} is for this cgroup and those beside it: what they do is in the figures",
            file.display(),
            bytes(above)
        );
    }
}

/// The least limit that leaves room for what cannot leave memory. It fails where nearly all memory
/// would have to go to a swap that is not there.
fn floor_of(limit: &ServiceLimit, makeup: &Makeup) -> anyhow::Result<u64> {
    let swap_bytes = free_swap_bytes().min(limit.most_swap_bytes());
    if swap_bytes == 0 && makeup.swappable_bytes > makeup.usage_bytes / 2 {
        bail!(
            "{}: {} of {} are anonymous or shared memory, for which there is no swap: in less memory the kernel would \
             end processes; add swap (or zram) before --try",
            limit.path().display(),
            bytes(makeup.swappable_bytes),
            bytes(makeup.usage_bytes)
        );
    }
    Ok(floor_bytes(makeup, swap_bytes))
}

fn floor_bytes(makeup: &Makeup, swap_bytes: u64) -> u64 {
    let may_go = makeup.swappable_bytes.saturating_sub(makeup.unevictable_bytes);
    let swappable = may_go.min((SWAP_PART * swap_bytes as f64) as u64);
    let stays = makeup.usage_bytes.saturating_sub(makeup.file_bytes + swappable);
    (FLOOR * stays as f64) as u64 + FLOOR_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_put_back_is_told_whatever_ended_the_trial() {
        let is_left = || {
            Err(LimitError::NotRestored {
                path: "/a/memory.high".into(),
                original: "max".to_string(),
                source: std::io::Error::other("no reason"),
            })
        };
        let advice = "/a/memory.high: it is not as it was: write max to it: no reason";
        for (halt, before) in [
            (None, ""),
            (Some(Halt::Signal), ""),
            (Some(Halt::Ended), ""),
            (Some(Halt::Error(anyhow!("--metric: it failed"))), "--metric: it failed; "),
        ] {
            let said = concluded(halt, is_left()).unwrap();
            assert_eq!(format!("{said:#}"), format!("{before}{advice}"));
        }
        let changed = || LimitError::Changed { path: "/a".into(), now: "5".to_string() };
        let said = concluded(Some(Halt::from(changed())), Err(changed())).unwrap();
        assert_eq!(format!("{said:#}"), changed().to_string());
        assert!(concluded(Some(Halt::Ended), Err(LimitError::Gone("/a".into()))).is_none());
    }

    #[test]
    fn a_metric_of_a_service_without_work_and_a_signal_end_the_first_run() {
        let (signals, write) = rustix::pipe::pipe().unwrap();
        let metric = |command: &str| Metric {
            command: command.to_string(),
            is: MetricIs::Throughput,
            timeout: Duration::from_secs(60),
        };
        assert_eq!(time_of(&metric("echo 0"), &signals).unwrap_err().to_string(), IDLE);
        assert!(time_of(&metric("echo 7"), &signals).is_ok());
        rustix::io::write(&write, &[0]).unwrap();
        let began = Instant::now();
        assert_eq!(time_of(&metric("sleep 60"), &signals).unwrap_err().to_string(), SIGNALLED);
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_cannot_leave_memory_stays_in_the_limit() {
        const MIB: u64 = 1 << 20;
        let makeup = Makeup {
            usage_bytes: 100 * MIB,
            swappable_bytes: 70 * MIB,
            file_bytes: 20 * MIB,
            kernel_bytes: 10 * MIB,
            unevictable_bytes: 0,
        };
        assert_eq!(floor_bytes(&makeup, u64::MAX), 13 * MIB);
        assert_eq!(floor_bytes(&makeup, 0), 90 * MIB);
        // Half of the anonymous memory finds room.
        assert_eq!(floor_bytes(&makeup, 50 * MIB), 40 * MIB + MIB / 2);
        let locked = Makeup { unevictable_bytes: 40 * MIB, ..makeup };
        assert_eq!(floor_bytes(&locked, u64::MAX), 57 * MIB);
    }
}
