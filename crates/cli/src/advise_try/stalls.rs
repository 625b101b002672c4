//! How much of its time a service waits for memory: by the best source that this machine has.
//!
//! | source | what it counts |
//! |---|---|
//! | `memory.pressure` of the cgroup (version 2) | time in which some thread of it waited for memory |
//! | delay accounting (`kernel.task_delayacct`) | each thread's waits for disks, beside its processor time |
//! | `/proc/pressure/memory` | time in which some thread of the whole machine waited for memory |
//!
//! What the kernel does to lower a limit is in the last one only: this command waits for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Delay accounting counts in these.
const TICK: Duration = Duration::from_millis(10);
/// The most that a share of waits is taken for: the service does something, after all.
const MOST_SHARE: f64 = 0.999;

/// Where waits are read.
#[derive(Debug)]
pub(super) enum Stalls {
    /// A file of pressure information: of the cgroup, or of the machine.
    Pressure { file: PathBuf, is_of_cgroup: bool },
    /// Delay accounting: waits and processor time of each thread, and of all so far.
    Delays { threads: BTreeMap<(u32, u32), [u64; 2]>, all: [u64; 2] },
}

/// Counts at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waited {
    waits: Duration,
    /// The time beside which they stand, if it is not that on the clock.
    busy: Option<Duration>,
}

impl Stalls {
    /// The best source for a cgroup. `None`: there is none.
    pub(super) fn of(cgroup: &Path) -> Option<Self> {
        let is_there = |file: &Path| some_total(&fs::read_to_string(file).ok()?);
        let (of_cgroup, of_machine) =
            (cgroup.join("memory.pressure"), PathBuf::from("/proc/pressure/memory"));
        if is_there(&of_cgroup).is_some() {
            return Some(Self::Pressure { file: of_cgroup, is_of_cgroup: true });
        }
        if fs::read_to_string("/proc/sys/kernel/task_delayacct").is_ok_and(|on| on.trim() == "1") {
            return Some(Self::Delays { threads: BTreeMap::new(), all: [0; 2] });
        }
        is_there(&of_machine)?;
        Some(Self::Pressure { file: of_machine, is_of_cgroup: false })
    }

    /// Whether what this command waits for is in the numbers.
    pub(super) fn is_of_machine(&self) -> bool {
        matches!(self, Self::Pressure { is_of_cgroup: false, .. })
    }

    /// What the numbers are, for people.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Pressure { is_of_cgroup: true, .. } => {
                "the time in which some thread of the service waited for memory (memory.pressure)"
            }
            Self::Pressure { is_of_cgroup: false, .. } => {
                "the time in which some thread of the whole machine waited for memory (/proc/pressure/memory)"
            }
            Self::Delays { .. } => {
                "waits for disks beside processor time, over all threads (delay accounting)"
            }
        }
    }

    /// The same, for programs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pressure { is_of_cgroup: true, .. } => "cgroup-pressure",
            Self::Pressure { is_of_cgroup: false, .. } => "machine-pressure",
            Self::Delays { .. } => "delays",
        }
    }

    /// The counts now, of these processes.
    pub(super) fn read(&mut self, processes: &[u32]) -> Waited {
        match self {
            Self::Pressure { file, .. } => {
                let total = fs::read_to_string(file).ok().and_then(|text| some_total(&text));
                Waited { waits: total.unwrap_or_default(), busy: None }
            }
            Self::Delays { threads, all } => {
                let mut now = BTreeMap::new();
                for &process in processes {
                    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
                    for task in tasks.flatten() {
                        let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
                        let stat = fs::read_to_string(task.path().join("stat")).ok();
                        if let (Some(thread), Some(ticks)) =
                            (thread, stat.as_deref().and_then(waits_and_work))
                        {
                            now.insert((process, thread), ticks);
                        }
                    }
                }
                for (thread, ticks) in &now {
                    // What a thread did before it was first seen does not count.
                    let before = threads.get(thread).unwrap_or(ticks);
                    all.iter_mut().zip(ticks.iter().zip(before)).for_each(|(all, (now, before))| {
                        *all += now.saturating_sub(*before);
                    });
                }
                *threads = now;
                let [waits, work] = all.map(|ticks| TICK * ticks as u32);
                Waited { waits, busy: Some(work) }
            }
        }
    }
}

impl Waited {
    /// The share of the time since `before` that was waits. `time`: how long ago that is.
    pub(super) fn share_since(self, before: Self, time: Duration) -> f64 {
        let waits = self.waits.saturating_sub(before.waits).as_secs_f64();
        let all = match (self.busy, before.busy) {
            (Some(busy), Some(earlier)) => waits + busy.saturating_sub(earlier).as_secs_f64(),
            _ => time.as_secs_f64(),
        };
        if all > 0.0 { (waits / all).min(1.0) } else { 0.0 }
    }
}

/// What a share of waits makes of the time that work takes: 1 without any.
pub(super) fn cost_of_share(share: f64) -> f64 {
    1.0 / (1.0 - share.min(MOST_SHARE))
}

/// The total of the line `some` of a file of pressure information.
fn some_total(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
    total.trim().parse().ok().map(Duration::from_micros)
}

/// A thread's waits for disks, and its processor time, in ticks, as `/proc/PID/task/TID/stat` has
/// them.
fn waits_and_work(stat: &str) -> Option<[u64; 2]> {
    // Behind the name, which is in brackets, the state is field 3 of proc_pid_stat(5).
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.trim().parse::<u64>().ok();
    Some([field(42)?, field(14)? + field(15)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_the_total_of_some() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.07 total=345212368\nfull avg10=0.00 total=141463526\n";
        assert_eq!(some_total(text), Some(Duration::from_micros(345_212_368)));
        assert_eq!(some_total(""), None);
        let at = |ms| Waited { waits: Duration::from_millis(ms), busy: None };
        assert_eq!(at(350).share_since(at(100), Duration::from_secs(1)), 0.25);
        assert_eq!(at(100).share_since(at(350), Duration::ZERO), 0.0);
    }

    #[test]
    fn delays_stand_beside_processor_time() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 30 20 5 6 20 0 1 0 99 1 1 1 1 1 1 1 1 0 0 0 0 1 0 0 17 1 0 0 25 0 0";
        assert_eq!(waits_and_work(stat), Some([25, 50]));
        assert_eq!(waits_and_work("7 (a) S 1"), None);
        let at = |waits, busy| Waited { waits: TICK * waits, busy: Some(TICK * busy) };
        assert_eq!(at(25, 175).share_since(at(0, 100), Duration::from_secs(9)), 0.25);
    }

    #[test]
    fn threads_that_are_there_are_read() {
        let mut stalls = Stalls::Delays { threads: BTreeMap::new(), all: [0; 2] };
        let own = [std::process::id()];
        let first = stalls.read(&own);
        assert_eq!(first.busy, Some(Duration::ZERO));
        // Reading takes processor time itself.
        let looks = (0..1_000_000).find(|_| stalls.read(&own).busy > Some(TICK));
        assert!(looks.is_some());
    }

    #[test]
    fn half_of_the_time_waiting_is_twice_the_time() {
        assert_eq!((cost_of_share(0.0), cost_of_share(0.5)), (1.0, 2.0));
        assert!(cost_of_share(1.0).is_finite());
    }
}
