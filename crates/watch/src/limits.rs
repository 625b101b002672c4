//! Limits to set for a service: what its pages need in the part of the watch that needs most, and
//! what its cgroup is charged for besides.
//!
//! ```text
//!   memory.high   pages needed in the peak + kernel memory + pages that the watch does not see
//!   memory.max    that + room: the difference between the peak and the median part, at least 1/16
//! ```
//!
//! So the service stays within its slowdown in each part of the watch, and a peak that is higher by
//! as much as this one was is slowed down and not killed.

use crate::Needs;
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use sweephand_advice::{docker_limit, kubernetes_limits};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::charge::Charge;
use sweephand_process::group::Named;
use sweephand_results::bytes;

/// There is room for at least one part in this many.
const LEAST_ROOM: u64 = 16;
const MIB: u64 = 1 << 20;

/// What is known of a service besides the pages that it used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceState {
    /// What the user calls it.
    pub named: Named,
    /// Its cgroup, if it is one.
    pub cgroup: Option<PathBuf>,
    /// What the cgroup was charged for at the last look.
    pub charge: Option<Charge>,
    /// Pages that the watch has seen then, of those that are charged to the cgroup.
    pub seen_pages: u64,
    /// It sees uses of cached files, and all of these are among the pages seen.
    pub sees_files: bool,
}

/// Limits for a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// What it is.
    pub state: ServiceState,
    /// What the pages of the peak need, in bytes.
    pub pages_bytes: u64,
    /// Kernel memory that is charged to the cgroup, in bytes.
    pub kernel_bytes: u64,
    /// Pages that are charged to the cgroup and that the watch does not see, in bytes. If it does
    /// not see cached files: without those that were not used for some time.
    pub unseen_bytes: u64,
    /// The limit above which the kernel reclaims, in bytes: a whole number of MiB.
    pub high_bytes: u64,
    /// The limit above which it kills, in bytes: a whole number of MiB.
    pub max_bytes: u64,
}

impl Limits {
    /// Those for the needs of a service.
    pub fn of(needs: &Needs, state: ServiceState) -> Self {
        let charge = state.charge.unwrap_or_default();
        let pages = charge.all_bytes.saturating_sub(charge.kernel_bytes + state.seen_pages * PAGE_BYTES);
        let inactive_bytes = if state.sees_files { 0 } else { charge.inactive_file_bytes };
        let unseen_bytes = pages.saturating_sub(inactive_bytes);
        let (peak, median) = (needs.peak().memory_pages, needs.median_pages());
        let pages_bytes = peak * PAGE_BYTES;
        let high_bytes = (pages_bytes + charge.kernel_bytes + unseen_bytes).next_multiple_of(MIB);
        let room = ((peak - median) * PAGE_BYTES).max(high_bytes / LEAST_ROOM);
        let max_bytes = (high_bytes + room).next_multiple_of(MIB);
        Self { state, pages_bytes, kernel_bytes: charge.kernel_bytes, unseen_bytes, high_bytes, max_bytes }
    }

    /// The lines that set them, by what sets them.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let (high, max) = (self.high_bytes / MIB, self.max_bytes / MIB);
        let mut lines = Vec::new();
        if let Some(cgroup) = &self.state.cgroup {
            let echo = |bytes: u64, file: &str| format!("echo {bytes} > {}", cgroup.join(file).display());
            // Version 1 has one limit.
            if self.state.charge.is_some_and(|charge| charge.is_v1) {
                lines.push(("cgroup", echo(self.max_bytes, "memory.limit_in_bytes")));
            } else {
                lines.push(("high", echo(self.high_bytes, "memory.high")));
                lines.push(("max", echo(self.max_bytes, "memory.max")));
            }
        }
        let unit = unit(&self.state).unwrap_or_else(|| "UNIT".to_string());
        lines.push(("systemd", format!("systemctl set-property {unit} MemoryHigh={high}M MemoryMax={max}M")));
        let container = match &self.state.named {
            Named::Container(name) if !name.contains('/') => name.as_str(),
            _ => "CONTAINER",
        };
        lines.push(("docker", docker_limit("update", max, container)));
        lines.push(("kubernetes", kubernetes_limits(Some(high), max)));
        lines
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let charge = self.state.charge;
        let limits: serde_json::Map<_, _> =
            self.lines().into_iter().map(|(name, line)| (name.to_string(), line.into())).collect();
        json!({
            "pages_bytes": self.pages_bytes,
            "kernel_bytes": self.kernel_bytes,
            "unseen_bytes": self.unseen_bytes,
            "high_bytes": self.high_bytes,
            "max_bytes": self.max_bytes,
            "charged_bytes": charge.map(|charge| charge.all_bytes),
            "limit_bytes": charge.and_then(|charge| charge.limit_bytes),
            "saved_bytes": charge.map(|charge| difference(charge.all_bytes, self.high_bytes)),
            "saved_of_limit_bytes":
                charge.and_then(|charge| charge.limit_bytes).map(|limit| difference(limit, self.max_bytes)),
            "limits": limits,
        })
    }
}

/// The first number without the second.
fn difference(from: u64, without: u64) -> i64 {
    i128::from(from).saturating_sub(i128::from(without)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The systemd unit, if a name says it.
fn unit(state: &ServiceState) -> Option<String> {
    let is_unit = |name: &str| {
        Path::new(name)
            .extension()
            .is_some_and(|kind| kind == "service" || kind == "scope" || kind == "slice")
    };
    let name = match &state.named {
        Named::Unit(name) if is_unit(name) => name.clone(),
        Named::Unit(name) => format!("{name}.service"),
        _ => state.cgroup.as_ref()?.file_name()?.to_str().filter(|name| is_unit(name))?.to_string(),
    };
    Some(name)
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages_bytes, kernel_bytes, unseen_bytes, high_bytes, max_bytes, state } = self;
        write!(f, "Limits for it: {} for the pages of the peak", bytes(*pages_bytes))?;
        if state.charge.is_some() {
            write!(f, ", {} of kernel memory, {} not seen", bytes(*kernel_bytes), bytes(*unseen_bytes))?;
        }
        writeln!(
            f,
            ": {} (high). With room for a peak that is higher by as much: {} (max).",
            bytes(*high_bytes),
            bytes(*max_bytes)
        )?;
        let beside = |now: u64, then: u64| match difference(now, then) {
            saved @ 0.. => format!("{} less", bytes(saved as u64)),
            more => format!("{} more", bytes(more.unsigned_abs())),
        };
        if let Some(charge) = state.charge {
            let now = charge.all_bytes;
            write!(f, "It is charged for {} now: high is {}.", bytes(now), beside(now, *high_bytes))?;
            if let Some(limit) = charge.limit_bytes {
                write!(f, " Its limit is {}: max is {}.", bytes(limit), beside(limit, *max_bytes))?;
            }
            writeln!(f)?;
        } else {
            writeln!(f, "It is not known what is charged for it: kernel memory comes on top.")?;
        }
        self.lines().iter().try_for_each(|(name, line)| writeln!(f, "  {name:<11} {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::UsedPage;
    use crate::{FaultCost, FaultCurve, History, Hour};
    use std::time::Duration;
    use sweephand_checks::trying;

    const MINUTES_A_DAY: u64 = 24 * 60;
    /// Pages that the service uses, in ordinary hours and in the hour from 13:00.
    const ORDINARY: u64 = 2_000;
    const BUSY: u64 = 20_000;

    /// A day of a service, in epochs of a minute by a clock that is not the machine's: it goes
    /// through its pages in four minutes.
    fn day() -> History {
        let mut history = History::default();
        history.keep_uses();
        for minute in 0..MINUTES_A_DAY {
            let pages = if minute / 60 == 13 { BUSY } else { ORDINARY };
            let first = minute % 4 * pages / 4;
            let used = (first..first + pages / 4).map(|number| UsedPage { number, dirty: false });
            history.add(&used.collect::<Vec<_>>(), 1.0, Duration::from_secs(60 * (minute + 1)));
        }
        history
    }

    /// A fault costs a hundredth of a second, so that 5 % are 5 faults a second. The busy hour has
    /// 83 uses of pages a second.
    fn needs(history: &History) -> Needs {
        let curve = FaultCurve::of(history).unwrap().unwrap();
        Needs::of(history, &curve, &FaultCost::constant("slow", 0.01), 1.05)
    }

    fn state(named: Named, cgroup: Option<&str>, charge: Option<Charge>) -> ServiceState {
        ServiceState {
            named,
            cgroup: cgroup.map(PathBuf::from),
            charge,
            seen_pages: 3_000,
            sees_files: false,
        }
    }

    #[test]
    fn advice_on_a_day_names_its_peak() {
        let needs = needs(&day());
        let peak = needs.peak();
        let hours = [peak.part.start, peak.part.end].map(|time| time.as_secs() / 3600);
        assert_eq!((needs.parts.len(), hours), (24, [13, 14]));
        assert!((BUSY * 9 / 10..=BUSY).contains(&peak.memory_pages), "{}", peak.memory_pages);
        // 8 pages a second come back in ordinary hours, so that most of them have to stay.
        assert!((ORDINARY / 4..=ORDINARY).contains(&needs.median_pages()), "{}", needs.median_pages());
        assert!(needs.memory_pages < peak.memory_pages, "on average, the peak is forgotten: {needs:?}");
        let words = needs.to_string();
        assert!(words.contains("in the peak, from 13:00 h to 14:00 h of the watch."), "{words}");
        assert!(!words.contains("short"), "a day is long enough: {words}");
        let charge = Charge {
            is_v1: false,
            all_bytes: 200 * MIB,
            kernel_bytes: 10 * MIB,
            inactive_file_bytes: 50 * MIB,
            limit_bytes: Some(400 * MIB),
            ..Charge::default()
        };
        let limits = Limits::of(&needs, state(Named::Unit("web".into()), Some("/cgroup/web"), Some(charge)));
        let expected = peak.memory_pages * PAGE_BYTES + limits.kernel_bytes + limits.unseen_bytes;
        assert_eq!(limits.unseen_bytes, 200 * MIB - 10 * MIB - 3_000 * PAGE_BYTES - 50 * MIB);
        assert_eq!(limits.high_bytes, expected.next_multiple_of(MIB));
        let seeing = ServiceState { sees_files: true, ..limits.state.clone() };
        assert_eq!(Limits::of(&needs, seeing).unseen_bytes, limits.unseen_bytes + 50 * MIB);
        let room = limits.max_bytes - limits.high_bytes;
        let spread = (peak.memory_pages - needs.median_pages()) * PAGE_BYTES;
        assert!((spread..spread + MIB).contains(&room), "{room}");
        let (high, max) = (limits.high_bytes / MIB, limits.max_bytes / MIB);
        let lines: Vec<String> = limits.lines().into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                format!("echo {} > /cgroup/web/memory.high", limits.high_bytes),
                format!("echo {} > /cgroup/web/memory.max", limits.max_bytes),
                format!("systemctl set-property web.service MemoryHigh={high}M MemoryMax={max}M"),
                format!("docker update --memory {max}m --memory-swap -1 CONTAINER"),
                format!("resources: {{ requests: {{ memory: {high}Mi }}, limits: {{ memory: {max}Mi }} }}"),
            ]
        );
        let words = limits.to_string();
        let more = bytes(limits.high_bytes - 200 * MIB);
        assert!(words.contains(&format!("It is charged for 200 MiB now: high is {more} more. ")), "{words}");
        let less = bytes(400 * MIB - limits.max_bytes);
        assert!(words.contains(&format!("Its limit is 400 MiB: max is {less} less.\n")), "{words}");
    }

    /// Each hour was kept by another watch.
    #[test]
    fn hours_that_were_kept_count_as_parts() {
        let hour = |index: u64, faults: u64| Hour {
            start_unix_s: 86_400 * 100 + 3600 * index,
            watched_ns: 3_600_000_000_000,
            largest_epoch_pages: 10,
            memory_pages: vec![100, 200, 300],
            faults: vec![20_000, faults, 0],
        };
        // 5 faults a second are 18,000 in an hour.
        let hours: Vec<Hour> =
            (0..24).map(|index| hour(index, if index == 9 { 18_001 } else { 18_000 })).collect();
        let mut history = History::default();
        history.keep_uses();
        history.add(&[UsedPage { number: 1, dirty: false }], 1.0, Duration::from_secs(30));
        let needs = needs(&history).by_hours(&hours);
        assert_eq!((needs.median_pages(), needs.peak().memory_pages), (200, 300));
        let words = needs.to_string();
        assert!(words.contains("in the median of 24 hours, 1.2 MiB in the peak, from 9:00 h to 10:00 h of the watch. The peak began at 9:00 UTC."), "{words}");
        assert!(!words.contains("short"), "{words}");
        // Two hours, with two days between them.
        let few = Needs { parts: Vec::new(), ..needs }.by_hours(&[hour(0, 0), hour(49, 0)]);
        assert!(few.shortness().unwrap().starts_with("The watch was shorter than a day"));
    }

    #[test]
    fn a_short_watch_says_so() {
        let mut history = History::default();
        history.keep_uses();
        let pages = [UsedPage { number: 1, dirty: false }];
        history.add(&pages, 1.0, Duration::from_secs(30));
        let short = needs(&history);
        assert!(
            short
                .to_string()
                .ends_with("The watch was short (30 s). Another load may need more: --for 24h sees a day.")
        );
        history.add(&pages, 1.0, Duration::from_secs(7200));
        assert!(needs(&history).to_string().contains("The watch was shorter than a day"));
    }

    #[test]
    fn lines_name_what_is_known_of_the_service() {
        let mut history = History::default();
        history.keep_uses();
        history.add(&[UsedPage { number: 1, dirty: false }], 1.0, Duration::from_secs(30));
        let needs = needs(&history);
        let v1 = Some(Charge { is_v1: true, ..Charge::default() });
        let container = Named::Container("box".into());
        let pod = Named::Container("pod/box".into());
        let scope = "/sys/fs/cgroup/memory/a.scope";
        let cases = [
            (state(Named::Tree(7), None, None), "systemctl set-property UNIT ", "CONTAINER"),
            (
                state(Named::Cgroup(scope.into()), Some(scope), v1),
                "systemctl set-property a.scope ",
                "CONTAINER",
            ),
            (
                state(Named::Unit("a.slice".into()), Some("/c/a.slice"), v1),
                "systemctl set-property a.slice ",
                "CONTAINER",
            ),
            (state(container, Some("/c/docker/0123"), v1), "systemctl set-property UNIT ", "box"),
            (state(pod, Some("/c/docker/0123"), v1), "systemctl set-property UNIT ", "CONTAINER"),
        ];
        for (state, systemd, docker) in cases {
            let _input = trying(|| format!("{state:?}"));
            let (cgroup, has_charge) = (state.cgroup.clone(), state.charge.is_some());
            let limits = Limits::of(&needs, state.clone());
            let lines = limits.lines();
            let of = |name: &str| lines.iter().find(|(of, _)| *of == name).map(|(_, line)| line.as_str());
            assert!(of("systemd").unwrap().starts_with(systemd), "{lines:?}");
            assert!(of("docker").unwrap().ends_with(&format!(" -1 {docker}")), "{lines:?}");
            let v1 = cgroup
                .map(|path| format!("echo {} > {}/memory.limit_in_bytes", limits.max_bytes, path.display()));
            assert_eq!(of("cgroup"), v1.as_deref(), "{lines:?}");
            assert_eq!(limits.to_string().contains("It is not known what is charged"), !has_charge);
        }
    }
}
