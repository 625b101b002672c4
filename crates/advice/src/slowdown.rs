//! The least memory in which a program is not slowed down by more than a factor, and the limits to
//! set for it.
//!
//! Two things may page. Under `sweephand run` it is the policy that the study advises, if that
//! could run live, or else CLOCK. Under a limit of systemd, Docker, Kubernetes or Slurm it is the
//! kernel, for which CLOCK stands in.

use crate::CurveStudy;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use sweephand_pager_interface::memory::{PAGE_BYTES, kernel_share, memory_for};
use sweephand_policy::registry::Spec;
use sweephand_results::{bytes, seconds};
use sweephand_sim::{Cell, Sweep, SweepError};
use sweephand_time::{Paging, TimeModel};
use sweephand_trace::Interrupt;

/// Sizes simulated between one that is too slow and one that is not.
const REFINED_SIZES: u64 = 7;

/// What stands in for the kernel's replacement: CLOCK.
pub fn kernel_policy() -> Spec {
    Spec::parse("clock").expect("a policy of ours")
}

/// The command that gives a container of Docker a limit, `run` or `update`. Its swap has none.
pub fn docker_limit(command: &str, limit_mib: u64, what: &str) -> String {
    format!("docker {command} --memory {limit_mib}m --memory-swap -1 {what}")
}

/// The line of a container in Kubernetes: what it asks for, if that is not its limit, and its
/// limit.
pub fn kubernetes_limits(request_mib: Option<u64>, limit_mib: u64) -> String {
    let request = request_mib.map(|mib| format!("requests: {{ memory: {mib}Mi }}, ")).unwrap_or_default();
    format!("resources: {{ {request}limits: {{ memory: {limit_mib}Mi }} }}")
}

/// The least memory for a slowdown, under one kind of paging.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LeastMemory {
    /// The policy that was simulated.
    pub policy: String,
    /// Frames that the program's pages need.
    pub memory_pages: u64,
    /// The limit to set, in bytes: what pages needs memory too.
    pub limit_bytes: u64,
    /// Predicted seconds there.
    pub predicted_seconds: f64,
}

/// The least memory for a slowdown.
#[derive(Clone, PartialEq, Debug)]
pub struct Slowdown {
    /// How many times as long as with all memory the program may take.
    pub factor: f64,
    /// The device.
    pub device: String,
    /// Seconds with all memory.
    pub native_seconds: f64,
    /// Whether these come from a count of instructions alone.
    pub is_assumed: bool,
    /// Under `sweephand run`.
    pub run: LeastMemory,
    /// Under the kernel.
    pub kernel: LeastMemory,
    /// All pages of the program, of the trace's size.
    whole_pages: u64,
}

impl Slowdown {
    /// The least memory in which the program takes at most `factor` times as long, on the device of
    /// `model`, which is that of its trace. `study` says at which sizes to look.
    ///
    /// # Errors
    /// See [`Sweep::run`].
    pub fn of(
        study: &CurveStudy,
        model: &TimeModel,
        factor: f64,
        interrupt: &Interrupt,
    ) -> Result<Self, SweepError> {
        let advised = &study.specs[study.conclusion.policy];
        let clock = kernel_policy();
        let live = if advised.entry().runs_live { advised } else { &clock };
        let least = |spec: &Spec, paging: Paging| -> Result<LeastMemory, SweepError> {
            let model = model.with(model.device().clone(), paging);
            let seconds = |frames: &[u64]| -> Result<Vec<f64>, SweepError> {
                let cells = frames.iter().map(|frames| Cell { spec: spec.clone(), frames: *frames as usize });
                let sweep =
                    Sweep { cells: cells.collect(), interrupt: interrupt.clone(), ..Sweep::default() };
                Ok(model.predict(&sweep, &|_| {})?.iter().map(|time| time.seconds).collect())
            };
            let most = factor * model.native_seconds();
            let (memory_pages, predicted_seconds) = least(&study.curves.memory_pages, most, &seconds)?;
            let frames = (memory_pages * study.curves.page_bytes).div_ceil(PAGE_BYTES);
            let limit_bytes = match paging {
                Paging::Run => memory_for(frames, spec.entry().bytes_a_page),
                Paging::Kernel => frames * PAGE_BYTES + kernel_share(frames * PAGE_BYTES),
            };
            let limit_bytes = limit_bytes.next_multiple_of(1 << 20);
            Ok(LeastMemory { policy: spec.to_string(), memory_pages, limit_bytes, predicted_seconds })
        };
        Ok(Self {
            factor,
            device: model.device().name.clone(),
            native_seconds: model.native_seconds(),
            is_assumed: model.is_assumed(),
            run: least(live, Paging::Run)?,
            kernel: least(&clock, Paging::Kernel)?,
            whole_pages: study.curves.distinct_pages,
        })
    }

    /// The lines that set the limit, by what sets it.
    pub fn limits(&self, command: &[String]) -> Vec<(&'static str, String)> {
        let [run, kernel] = [&self.run, &self.kernel].map(|least| least.limit_bytes >> 20);
        let words: String = command.iter().map(|word| format!(" {}", crate::advice::quoted(word))).collect();
        let program = if words.is_empty() { " PROGRAM".to_string() } else { words };
        vec![
            ("run", format!("sweephand run --memory {run}MiB --policy {} --{program}", self.run.policy)),
            ("systemd", format!("systemd-run --scope -p MemoryMax={kernel}M{program}")),
            ("docker", docker_limit("run", kernel, "IMAGE")),
            ("kubernetes", kubernetes_limits(None, kernel)),
            ("slurm", format!("#SBATCH --mem={kernel}M")),
        ]
    }

    /// The same for programs.
    pub fn to_json(&self, command: &[String]) -> Value {
        let limits: serde_json::Map<_, _> =
            self.limits(command).into_iter().map(|(name, line)| (name.to_string(), line.into())).collect();
        json!({
            "slowdown": self.factor,
            "device": self.device,
            "native_seconds": self.native_seconds,
            "native_is_assumed": self.is_assumed,
            "run": self.run,
            "kernel": self.kernel,
            "limits": limits,
        })
    }
}

/// What it comes to, in a sentence each.
impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { factor, device, native_seconds, run, kernel, whole_pages, .. } = self;
        let part = |least: &LeastMemory| {
            let share = 100.0 * least.memory_pages as f64 / (*whole_pages).max(1) as f64;
            let seconds = seconds(least.predicted_seconds);
            format!("{} ({share:.0}% of its pages fit; {seconds} s)", bytes(least.limit_bytes))
        };
        write!(
            f,
            "Within {factor} times its {} s with all memory, on {device}: {} under sweephand run with {}, {} under \
             the kernel.",
            seconds(*native_seconds),
            part(run),
            run.policy,
            part(kernel)
        )
    }
}

/// The least of some ascending sizes from which on the time is at most `most`, and some sizes
/// between it and the one below, with the time there. The largest size is taken if no other will
/// do.
fn least<E>(
    sizes: &[u64],
    most: f64,
    seconds: &impl Fn(&[u64]) -> Result<Vec<f64>, E>,
) -> Result<(u64, f64), E> {
    let times = seconds(sizes)?;
    let first = times.iter().rposition(|time| *time > most).map_or(0, |slow| slow + 1);
    let Some((size, time)) = sizes.get(first).zip(times.get(first)) else {
        let last = sizes.len() - 1;
        return Ok((sizes[last], times[last]));
    };
    let Some(slow) = first.checked_sub(1).map(|below| sizes[below]) else { return Ok((*size, *time)) };
    let steps = (size - slow).min(REFINED_SIZES + 1);
    let between: Vec<u64> = (1..steps).map(|step| slow + (size - slow) * step / steps).collect();
    let mut found = (*size, *time);
    for at in between.iter().copied().zip(seconds(&between)?).rev().take_while(|(_, time)| *time <= most) {
        found = at;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds fall from 10 at no memory to 1 at 900, with a bump at 500.
    #[test]
    fn the_least_memory_is_that_from_which_on_it_is_fast_enough() {
        let time = |size: &u64| if *size == 500 { 9.0 } else { 10.0 - (*size as f64 / 100.0) };
        let seconds = |sizes: &[u64]| Ok::<_, ()>(sizes.iter().map(time).collect::<Vec<_>>());
        let sizes = [100, 300, 500, 700, 900];
        // Fast enough at 300 as well, but not at 500.
        assert_eq!(least(&sizes, 8.0, &seconds), Ok((525, 4.75)));
        assert_eq!(least(&sizes, 4.0, &seconds), Ok((600, 4.0)));
        assert_eq!(least(&sizes, 20.0, &seconds), Ok((100, 9.0)), "even the smallest");
        assert_eq!(least(&sizes, 0.5, &seconds), Ok((900, 1.0)), "none");
    }

    #[test]
    fn limits_are_lines_to_paste() {
        let least = |policy: &str, limit_mib: u64| LeastMemory {
            policy: policy.into(),
            memory_pages: 1000,
            limit_bytes: limit_mib << 20,
            predicted_seconds: 1.1,
        };
        let slowdown = Slowdown {
            factor: 1.2,
            device: "ssd".into(),
            native_seconds: 1.0,
            is_assumed: false,
            run: least("clock-pro", 12),
            kernel: least("clock", 9),
            whole_pages: 2000,
        };
        let lines: Vec<_> =
            slowdown.limits(&["sort".into(), "a b".into()]).into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "sweephand run --memory 12MiB --policy clock-pro -- sort 'a b'",
                "systemd-run --scope -p MemoryMax=9M sort 'a b'",
                "docker run --memory 9m --memory-swap -1 IMAGE",
                "resources: { limits: { memory: 9Mi } }",
                "#SBATCH --mem=9M",
            ]
        );
        assert_eq!(
            slowdown.to_string(),
            "Within 1.2 times its 1.00 s with all memory, on ssd: 12.0 MiB (50% of its pages fit; 1.10 s) under \
             sweephand run with clock-pro, 9.0 MiB (50% of its pages fit; 1.10 s) under the kernel."
        );
    }
}
