//! What a trial has come to, as text and as JSON. `docs/schema/advise-try.json` has what the JSON
//! holds.

use super::predicted::Predicted;
use super::subject::Measured;
use super::trial::{Alarm, End, Judgement, Verdict};
use serde_json::{Value, json};
use std::fmt;
use sweephand_results::{Table, bytes};
use sweephand_watch::Bounds;

/// A measurement.
#[derive(Debug)]
pub(super) struct Row {
    /// The limit. `None`: it was as at the start.
    pub(super) limit_bytes: Option<u64>,
    /// What it was compared with the reference then, and how it was judged. `None`: it is the
    /// reference.
    pub(super) step: Option<(f64, Judgement)>,
    pub(super) measured: Measured,
}

/// How a trial ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Ended {
    /// By itself.
    By(Verdict),
    /// Before that: why.
    Early(&'static str),
}

/// Everything that a trial has found.
pub(super) struct Findings {
    pub(super) cgroup: String,
    pub(super) cgroup_version: u32,
    /// The slowdown that was asked for.
    pub(super) slowdown: f64,
    /// Latency or throughput. `None`: the slowdown is estimated from stalls.
    pub(super) metric: Option<&'static str>,
    /// Where stalls were read.
    pub(super) stalls: Option<&'static str>,
    /// The limit before the trial. `None`: there was none.
    pub(super) limit_bytes: Option<u64>,
    pub(super) start_bytes: u64,
    pub(super) floor_bytes: u64,
    pub(super) predicted: Option<Predicted>,
    pub(super) spread: f64,
    pub(super) smallest_slowdown: f64,
    pub(super) rows: Vec<Row>,
    pub(super) ended: Ended,
}

impl Judgement {
    fn words(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::TooSlow => "too slow",
            Self::Raised(Alarm::Slow | Alarm::Cliff) => "raised: far too slow",
            Self::Raised(Alarm::Pressure) => "raised: pressure",
            Self::Raised(Alarm::OutOfMemory) => "raised: out of memory",
            Self::Raised(Alarm::Refused) => "raised: cannot be reclaimed",
            Self::Raised(Alarm::Time) => "raised: the time is over",
        }
    }
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::TooSlow => "too-slow",
            Self::Floor => "floor",
            Self::Time => "time",
        }
    }
}

fn rate(number: f64) -> String {
    if number >= 10.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// A number with four digits that count.
fn figure(value: f64) -> String {
    let digits = if value > 0.0 { value.log10().floor() as i32 + 1 } else { 1 };
    format!("{value:.*}", (4 - digits).clamp(0, 9) as usize)
}

impl Findings {
    /// Bounds on the faults a second that are predicted for a row.
    fn predicted_rates(&self, row: &Row) -> Option<(f64, Option<f64>)> {
        let predicted = self.predicted.as_ref()?;
        let Bounds { at_least, at_most } = predicted.faults(row.limit_bytes.unwrap_or(self.start_bytes));
        let rate = |faults: u64| faults as f64 / predicted.watched.as_secs_f64();
        Some((rate(at_least), at_most.map(rate)))
    }

    fn table(&self) -> Table {
        let mut heading = vec!["memory", "predicted faults/s", "major faults/s", "refaults/s", "waiting"];
        heading.extend(self.metric);
        heading.extend(["slowdown", "which is"]);
        let mut table = Table::new(heading);
        for row in &self.rows {
            let Row { limit_bytes, step, measured } = row;
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
            let predicted = self.predicted_rates(row).map(|(least, most)| {
                let most = most.map_or("?".to_string(), rate);
                if rate(least) == most { most } else { format!("{} to {most}", rate(least)) }
            });
            let mut cells = vec![
                limit_bytes.map_or_else(|| format!("{} at the start", bytes(self.start_bytes)), bytes),
                or_none(predicted),
                rate(measured.major_faults_per_second),
                or_none(measured.refaults_per_second.map(rate)),
                or_none(measured.stalled.map(|share| format!("{:.1}%", 100.0 * share))),
            ];
            if self.metric.is_some() {
                cells.push(or_none(measured.value().map(figure)));
            }
            cells.push(or_none(
                step.filter(|(slowdown, _)| slowdown.is_finite())
                    .map(|(slowdown, _)| format!("{slowdown:.3}")),
            ));
            cells.push(step.map_or("", |(_, judgement)| judgement.words()).to_string());
            table.row(cells);
        }
        table
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let finite = |number: f64| number.is_finite().then_some(number);
        let steps: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let predicted = self.predicted_rates(row);
                json!({
                    "limit_bytes": row.limit_bytes,
                    "usage_bytes": row.measured.usage_bytes,
                    "predicted_faults_per_second":
                        predicted.map(|(least, most)| json!({ "at_least": least, "at_most": most })),
                    "major_faults_per_second": row.measured.major_faults_per_second,
                    "refaults_per_second": row.measured.refaults_per_second,
                    "waiting": row.measured.stalled,
                    "metric": row.measured.value(),
                    "slowdown": row.step.and_then(|(slowdown, _)| finite(slowdown)),
                    "judgement": row.step.map(|(_, judgement)| judgement.words()),
                })
            })
            .collect();
        let (least, is_confirmed, end) = match self.ended {
            Ended::By(verdict) => (verdict.least_bytes, verdict.is_confirmed, verdict.end.name()),
            Ended::Early(why) => (None, false, why),
        };
        json!({
            "cgroup": self.cgroup,
            "cgroup_version": self.cgroup_version,
            "asked_slowdown": self.slowdown,
            "metric": self.metric,
            "waiting_is": self.stalls,
            "limit_before_bytes": self.limit_bytes,
            "start_bytes": self.start_bytes,
            "floor_bytes": self.floor_bytes,
            "predicted": self.predicted.as_ref().map(|predicted| {
                let (at_least, at_most) = predicted.enough();
                json!({ "at_least_bytes": at_least, "at_most_bytes": at_most })
            }),
            "spread": self.spread,
            "smallest_slowdown": self.smallest_slowdown,
            "steps": steps,
            "least_bytes": least,
            "is_confirmed": is_confirmed,
            "end": end,
        })
    }
}

/// The table, and what it comes to.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.rows.is_empty() {
            writeln!(f, "{}", self.table())?;
        }
        let verdict = match self.ended {
            Ended::By(verdict) => verdict,
            Ended::Early(why) => {
                return writeln!(f, "There is no least memory: the trial ended early ({why}).");
            }
        };
        let (start, slowdown) = (bytes(self.start_bytes), self.slowdown);
        match (verdict.least_bytes, verdict.end) {
            (Some(least), end) => {
                write!(f, "{} kept within a slowdown of {slowdown}", bytes(least))?;
                f.write_str(match end {
                    End::TooSlow => "; less did not",
                    End::Floor => "; less was not tried, because it would not be safe",
                    End::Time => "; the time was over before less was tried (--for)",
                })?;
                f.write_str(match verdict.is_confirmed {
                    true => ". Measured again between two measurements at the start",
                    false => ". It was not measured again: the time was over, or the service varies too much",
                })?;
            }
            (None, End::TooSlow) => {
                write!(f, "No limit below {start} that was tried kept within a slowdown of {slowdown}")?;
            }
            (None, End::Floor) => {
                write!(f, "Nothing below {start} was tried, because it would not be safe")?;
            }
            (None, End::Time) => {
                write!(f, "The time was over before a limit below {start} was found to be enough (--for)")?;
            }
        }
        let Some(predicted) = &self.predicted else { return writeln!(f, ".") };
        let (at_least, at_most) = predicted.enough();
        match predicted.has_lower_bound() {
            true => writeln!(f, ". Predicted: {} to {}.", bytes(at_least), bytes(at_most)),
            false => writeln!(f, ". Predicted: at most {}.", bytes(at_most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    #[test]
    fn each_end_without_a_least_memory_has_its_words() {
        for (end, said) in [
            (End::TooSlow, "No limit below 64.0 MiB that was tried kept within a slowdown of 1.05.\n"),
            (End::Floor, "Nothing below 64.0 MiB was tried, because it would not be safe.\n"),
            (End::Time, "The time was over before a limit below 64.0 MiB was found to be enough (--for).\n"),
        ] {
            let _input = trying(|| format!("{end:?}"));
            let verdict = Verdict { least_bytes: None, is_confirmed: false, end };
            let findings = Findings {
                cgroup: "/a".to_string(),
                cgroup_version: 2,
                slowdown: 1.05,
                metric: None,
                stalls: None,
                limit_bytes: None,
                start_bytes: 64 << 20,
                floor_bytes: 1 << 20,
                predicted: None,
                spread: 0.0,
                smallest_slowdown: 1.0,
                rows: Vec::new(),
                ended: Ended::By(verdict),
            };
            assert_eq!(findings.to_string(), said);
        }
    }
}
