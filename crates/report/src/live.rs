//! The runs of `sweephand compare`, as a table, CSV or JSON.

use crate::machine_readable::{write_csv, write_json};
use crate::{Table, bytes, grouped};
use serde::Serialize;
use std::io::{self, Write};

/// One run of the program. The fields are the columns of the CSV, in this order; what is not known
/// is empty there.
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
    pub wall_ns: u64,
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub sys_ns: u64,
    /// Page faults.
    pub faults: u64,
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
    pub peak_resident_pages: u64,
    /// List entries that the policy's hands looked at.
    pub hand_steps: Option<u64>,
    /// The program's exit status.
    pub exit_status: i32,
    /// Times that the cgroup hit its limit.
    pub cgroup_failcnt: Option<u64>,
    /// The cgroup's limit.
    pub cgroup_limit_bytes: Option<u64>,
    /// Checksum (XXH3) of what the program printed.
    pub output: String,
}

impl LiveRun {
    /// The columns of the CSV, in order; empty where a value does not exist.
    fn columns(&self) -> [(&'static str, String); 18] {
        let known = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        [
            ("policy", self.policy.clone()),
            ("memory_limit_bytes", known(self.memory_limit_bytes)),
            ("round", self.round.to_string()),
            ("wall_ns", self.wall_ns.to_string()),
            ("user_ns", self.user_ns.to_string()),
            ("sys_ns", self.sys_ns.to_string()),
            ("faults", self.faults.to_string()),
            ("zero_fill_faults", known(self.zero_fill_faults)),
            ("refaults", known(self.refaults)),
            ("evictions", known(self.evictions)),
            ("pages_read", known(self.pages_read)),
            ("pages_written", known(self.pages_written)),
            ("peak_resident_pages", self.peak_resident_pages.to_string()),
            ("hand_steps", known(self.hand_steps)),
            ("exit_status", self.exit_status.to_string()),
            ("cgroup_failcnt", known(self.cgroup_failcnt)),
            ("cgroup_limit_bytes", known(self.cgroup_limit_bytes)),
            ("output", self.output.clone()),
        ]
    }
}

/// The results of a `compare` command.
#[derive(Clone, Debug, Serialize)]
pub struct LiveReport {
    /// Version, options, conventions.
    pub sweephand: serde_json::Map<String, serde_json::Value>,
    /// All rounds of each variant, at least one: native, then by memory size the kernel and the
    /// policies.
    pub runs: Vec<Vec<LiveRun>>,
}

/// How the comparison is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LiveFormat {
    /// For people: a line of medians for each variant.
    Table,
    /// The columns of [`LiveRun`].
    Csv,
    /// One object: `sweephand`, `runs`.
    Json,
}

impl LiveReport {
    /// Writes the comparison.
    pub fn write(&self, format: LiveFormat, mut out: impl Write) -> io::Result<()> {
        let runs = || self.runs.iter().flatten();
        match format {
            LiveFormat::Table => write!(out, "{}", self.table()),
            LiveFormat::Csv => write_csv(runs().map(LiveRun::columns), out),
            LiveFormat::Json => {
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
    /// memory.
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            "",
            "memory",
            "seconds",
            "least",
            "most",
            "faults",
            "refaults",
            "pages read",
            "written",
            "to kernel",
            "limit hits",
        ]);
        let mut kernel_ns = None;
        for rounds in &self.runs {
            let of = |count: &dyn Fn(&LiveRun) -> Option<u64>| {
                rounds.iter().map(count).collect::<Option<Vec<_>>>().unwrap_or_default()
            };
            let count = |count: &dyn Fn(&LiveRun) -> Option<u64>| {
                median(&of(count)).map_or_else(String::new, grouped)
            };
            let seconds =
                |ns: Option<u64>| ns.map_or_else(String::new, |ns| format!("{:.2}", ns as f64 / 1e9));
            let wall = of(&|run| Some(run.wall_ns));
            let policy = rounds.first().map(|run| run.policy.clone()).unwrap_or_default();
            if policy == "kernel" {
                kernel_ns = median(&wall);
            }
            let limit = rounds.first().and_then(|run| run.memory_limit_bytes);
            let to_kernel = median(&wall).zip(kernel_ns).map(|(ns, kernel)| ns as f64 / kernel as f64);
            table.row([
                policy,
                limit.map_or_else(|| "all".to_string(), bytes),
                seconds(median(&wall)),
                seconds(wall.iter().copied().min()),
                seconds(wall.iter().copied().max()),
                count(&|run| Some(run.faults)),
                count(&|run| run.refaults),
                count(&|run| run.pages_read),
                count(&|run| run.pages_written),
                to_kernel.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                of(&|run| run.cgroup_failcnt).into_iter().max().map_or_else(String::new, grouped),
            ]);
        }
        table
    }
}

/// The middle value; of two the lower.
fn median(values: &[u64]) -> Option<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_medians_and_the_time_beside_the_kernels() {
        let run = |policy: &str, memory_limit_bytes, wall_ns, faults, failcnt| LiveRun {
            policy: policy.to_string(),
            memory_limit_bytes,
            wall_ns,
            faults,
            cgroup_failcnt: failcnt,
            ..LiveRun::default()
        };
        let limit = Some(64 << 20);
        let comparison = LiveReport {
            sweephand: serde_json::Map::new(),
            runs: vec![
                vec![run("native", None, 1_000_000_000, 7, None)],
                [3_000_000_000, 9_000_000_000, 4_000_000_000]
                    .map(|ns| run("kernel", limit, ns, ns / 1_000_000, Some(5)))
                    .to_vec(),
                vec![run("clock", limit, 2_000_000_000, 12, Some(0))],
            ],
        };
        let rows = comparison.table().rows;
        let expected = [
            ["native", "all", "1.00", "1.00", "1.00", "7", "", "", "", "", ""],
            ["kernel", "64.0 MiB", "4.00", "3.00", "9.00", "4,000", "", "", "", "1.00", "5"],
            ["clock", "64.0 MiB", "2.00", "2.00", "2.00", "12", "", "", "", "0.50", "0"],
        ];
        assert_eq!(rows, expected);
        let mut csv = Vec::new();
        comparison.write(LiveFormat::Csv, &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert_eq!(csv.lines().count(), 6);
        assert!(csv.starts_with("policy,memory_limit_bytes,round,wall_ns,"), "{csv}");
        assert!(csv.contains("\nnative,,0,1000000000,0,0,7,,"), "{csv}");
    }
}
