//! The runs of `sweephand compare`, as a table, CSV or JSON.

use crate::columns::{Column, Field, named};
use crate::machine_readable::{write_csv, write_json};
use crate::{Table, TextFormat, bytes, grouped};
use serde::Serialize;
use std::io::{self, Write};

/// One run of the program. The fields are the columns of the CSV, in this order; what is not known
/// is empty there. Of a run that did not come to its own end little is known.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveRun {
    /// The policy, as it was named; `kernel` for the kernel's own replacement, `native` for all
    /// memory.
    pub policy: String,
    /// Memory, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Which time it was run, from 0.
    pub round: u32,
    /// From start to end.
    pub wall_ns: Option<u64>,
    /// Processor time in user mode.
    pub user_ns: Option<u64>,
    /// Processor time in the kernel.
    pub sys_ns: Option<u64>,
    /// Page faults.
    pub faults: Option<u64>,
    /// Those on pages never touched before.
    pub zero_fill_faults: Option<u64>,
    /// Those on pages that had been evicted.
    pub refaults: Option<u64>,
    /// Pages evicted.
    pub evictions: Option<u64>,
    /// Pages read from the disk.
    pub pages_read: Option<u64>,
    /// Pages written to the disk.
    pub pages_written: Option<u64>,
    /// Most pages resident.
    pub peak_resident_pages: Option<u64>,
    /// List entries that the policy's hands looked at.
    pub hand_steps: Option<u64>,
    /// The program's exit status.
    pub exit_status: Option<u32>,
    /// Times that the cgroup hit its limit.
    pub cgroup_failcnt: Option<u64>,
    /// The cgroup's limit.
    pub cgroup_limit_bytes: Option<u64>,
    /// Checksum (XXH3) of what the program printed.
    pub output: Option<String>,
    /// What went wrong, if something did: such a run is in no median.
    pub failure: Option<String>,
}

impl LiveRun {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 19] = [
        ("policy", Field::Text(|row| &row.policy)),
        ("memory_limit_bytes", Field::OptionalCount(|row| row.memory_limit_bytes)),
        ("round", Field::Count(|row| row.round.into())),
        ("wall_ns", Field::OptionalCount(|row| row.wall_ns)),
        ("user_ns", Field::OptionalCount(|row| row.user_ns)),
        ("sys_ns", Field::OptionalCount(|row| row.sys_ns)),
        ("faults", Field::OptionalCount(|row| row.faults)),
        ("zero_fill_faults", Field::OptionalCount(|row| row.zero_fill_faults)),
        ("refaults", Field::OptionalCount(|row| row.refaults)),
        ("evictions", Field::OptionalCount(|row| row.evictions)),
        ("pages_read", Field::OptionalCount(|row| row.pages_read)),
        ("pages_written", Field::OptionalCount(|row| row.pages_written)),
        ("peak_resident_pages", Field::OptionalCount(|row| row.peak_resident_pages)),
        ("hand_steps", Field::OptionalCount(|row| row.hand_steps)),
        ("exit_status", Field::OptionalCount(|row| row.exit_status.map(u64::from))),
        ("cgroup_failcnt", Field::OptionalCount(|row| row.cgroup_failcnt)),
        ("cgroup_limit_bytes", Field::OptionalCount(|row| row.cgroup_limit_bytes)),
        ("output", Field::OptionalText(|row| row.output.as_deref())),
        ("failure", Field::OptionalText(|row| row.failure.as_deref())),
    ];
}

/// The results of a `compare` command.
#[derive(Clone, Debug, Serialize)]
pub struct LiveReport {
    /// Version, options, conventions.
    pub sweephand: serde_json::Map<String, serde_json::Value>,
    /// All rounds of each variant: native, then by memory size the kernel and the policies.
    pub runs: Vec<Vec<LiveRun>>,
}

impl LiveReport {
    /// Writes the comparison.
    pub fn write(&self, format: TextFormat, mut out: impl Write) -> io::Result<()> {
        let runs = || self.runs.iter().flatten();
        match format {
            TextFormat::Table => write!(out, "{}", self.table()),
            TextFormat::Csv => write_csv(runs().map(|run| named(&LiveRun::COLUMNS, run)), out),
            TextFormat::Json => {
                #[derive(Serialize)]
                struct Flat<'a> {
                    sweephand: &'a serde_json::Map<String, serde_json::Value>,
                    runs: Vec<&'a LiveRun>,
                }
                write_json(&Flat { sweephand: &self.sweephand, runs: runs().collect() }, out)
            }
        }
    }

    /// A line of medians for each variant, the time also as a share of the kernel's with the same
    /// memory. Where runs failed, a last column says how many. Faults are left out: natively and
    /// under the kernel they are counted in another way than under a policy.
    pub fn table(&self) -> Table {
        let some_failed = self.runs.iter().flatten().any(|run| run.failure.is_some());
        let mut headings = vec![
            "",
            "memory",
            "seconds",
            "least",
            "most",
            "refaults",
            "pages read",
            "written",
            "to kernel",
            "limit hits",
        ];
        headings.extend(some_failed.then_some("failed"));
        let mut table = Table::new(headings);
        let mut kernel_ns = None;
        for all_rounds in self.runs.iter().filter(|rounds| !rounds.is_empty()) {
            let rounds: Vec<&LiveRun> = all_rounds.iter().filter(|run| run.failure.is_none()).collect();
            let of = |count: &dyn Fn(&LiveRun) -> Option<u64>| {
                rounds.iter().map(|run| count(run)).collect::<Option<Vec<_>>>().unwrap_or_default()
            };
            let count = |count: &dyn Fn(&LiveRun) -> Option<u64>| {
                median(&of(count)).map_or_else(String::new, grouped)
            };
            let seconds =
                |ns: Option<u64>| ns.map_or_else(String::new, |ns| format!("{:.2}", ns as f64 / 1e9));
            let wall = of(&|run| run.wall_ns);
            let policy = all_rounds[0].policy.clone();
            if policy == "kernel" {
                kernel_ns = median(&wall);
            }
            let limit = all_rounds[0].memory_limit_bytes;
            let to_kernel = median(&wall).zip(kernel_ns).map(|(ns, kernel)| ns as f64 / kernel as f64);
            let mut row = vec![
                policy,
                limit.map_or_else(|| "all".to_string(), bytes),
                seconds(median(&wall)),
                seconds(wall.iter().copied().min()),
                seconds(wall.iter().copied().max()),
                count(&|run| run.refaults),
                count(&|run| run.pages_read),
                count(&|run| run.pages_written),
                to_kernel.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                of(&|run| run.cgroup_failcnt).into_iter().max().map_or_else(String::new, grouped),
            ];
            let failed = all_rounds.len() - rounds.len();
            row.extend(some_failed.then(|| match failed {
                0 => String::new(),
                failed => format!("{failed} of {}", all_rounds.len()),
            }));
            table.row(row);
        }
        table
    }
}

/// The middle value; of two the lower. `None` of none.
pub fn median(values: &[u64]) -> Option<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run without a limit, three by the kernel, and one under CLOCK.
    fn comparison() -> LiveReport {
        let run = |policy: &str, memory_limit_bytes, wall_ns, refaults, failcnt| LiveRun {
            policy: policy.to_string(),
            memory_limit_bytes,
            wall_ns: Some(wall_ns),
            refaults,
            cgroup_failcnt: failcnt,
            ..LiveRun::default()
        };
        let limit = Some(64 << 20);
        LiveReport {
            sweephand: serde_json::Map::new(),
            runs: vec![
                vec![run("native", None, 1_000_000_000, None, None)],
                [3_000_000_000, 9_000_000_000, 4_000_000_000]
                    .map(|ns| run("kernel", limit, ns, Some(ns / 1_000_000), Some(5)))
                    .to_vec(),
                vec![run("clock", limit, 2_000_000_000, Some(12), Some(0))],
            ],
        }
    }

    #[test]
    fn a_line_has_medians_and_the_time_beside_the_kernels() {
        let rows = comparison().table().rows;
        let expected = [
            ["native", "all", "1.00", "1.00", "1.00", "", "", "", "", ""],
            ["kernel", "64.0 MiB", "4.00", "3.00", "9.00", "4,000", "", "", "1.00", "5"],
            ["clock", "64.0 MiB", "2.00", "2.00", "2.00", "12", "", "", "0.50", "0"],
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_run_that_failed_is_in_no_median_and_is_counted() {
        let mut failed = comparison();
        failed.runs[1][1].failure = Some("was ended by signal 11".into());
        failed.runs[2][0].failure = Some("exit status 1".into());
        let rows = failed.table().rows;
        assert_eq!(rows[0][10], "");
        assert_eq!(
            rows[1][..],
            ["kernel", "64.0 MiB", "3.00", "3.00", "4.00", "3,000", "", "", "1.00", "5", "1 of 3"]
        );
        assert_eq!(rows[2][..], ["clock", "64.0 MiB", "", "", "", "", "", "", "", "", "1 of 1"]);
    }

    #[test]
    fn csv_has_a_line_for_each_run() {
        let mut csv = Vec::new();
        comparison().write(TextFormat::Csv, &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert_eq!(csv.lines().count(), 6);
        assert!(csv.starts_with("policy,memory_limit_bytes,round,wall_ns,"), "{csv}");
        assert!(csv.contains("\nnative,,0,1000000000,,,,,"), "{csv}");
    }

    #[test]
    fn columns_are_named_as_the_json_fields() {
        let json = serde_json::to_value(LiveRun::default()).unwrap();
        let columns = LiveRun::COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), columns);
    }
}
