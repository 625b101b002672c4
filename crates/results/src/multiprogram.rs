//! The rows of `sweephand multiprogram`, as a table, CSV, JSON or Parquet.

use crate::columns::{Column, Field, named};
use crate::machine_readable::{header, json, write_csv, write_json};
use crate::{Format, Table, grouped};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use sweephand_machine::{Configuration, Outcome};

/// One policy with one theta on one configuration: means over the seeds. The first nine fields are
/// the columns of the CSV, in this order.
#[derive(Clone, Debug, Serialize)]
pub struct MultiprogramRow {
    /// The configuration's name.
    pub configuration: String,
    /// The policy, as it was named.
    pub policy: String,
    /// Window of the working set in references; `None` for policies without one.
    pub theta_refs: Option<u64>,
    /// References executed by time elapsed, to six decimals.
    pub utilization: f64,
    /// Active tasks on average over time, to six decimals.
    pub mean_mpl: f64,
    /// Tasks deactivated by load control.
    pub deactivations: u64,
    /// Read requests.
    pub page_faults: u64,
    /// Pages that the hand looked at for each page replaced, to six decimals; `None` without a
    /// hand.
    pub pointer_travel_per_replacement: Option<f64>,
    /// Scans for pages that have left working sets.
    pub ws_scans: u64,
    /// Every measure of each run, by seed.
    pub runs: Vec<Outcome>,
}

impl MultiprogramRow {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 9] = [
        ("configuration", Field::Text(|row| &row.configuration)),
        ("policy", Field::Text(|row| &row.policy)),
        ("theta_refs", Field::OptionalCount(|row| row.theta_refs)),
        ("utilization", Field::Ratio(|row| row.utilization)),
        ("mean_mpl", Field::Ratio(|row| row.mean_mpl)),
        ("deactivations", Field::Count(|row| row.deactivations)),
        ("page_faults", Field::Count(|row| row.page_faults)),
        ("pointer_travel_per_replacement", Field::OptionalRatio(|row| row.pointer_travel_per_replacement)),
        ("ws_scans", Field::Count(|row| row.ws_scans)),
    ];

    /// The row of the runs of one cell, one for each seed, at least one.
    pub fn new(
        configuration: &str,
        policy: impl ToString,
        theta_refs: Option<u64>,
        runs: Vec<Outcome>,
    ) -> Self {
        let mean = |of: &dyn Fn(&Outcome) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let six_decimals = |number: f64| (number * 1e6).round() / 1e6;
        let whole = |of: &dyn Fn(&Outcome) -> u64| mean(&|run| of(run) as f64).round() as u64;
        let has_travel = runs.iter().all(|run| run.pointer_travel().is_some());
        let travel = has_travel.then(|| mean(&|run| run.pointer_travel().unwrap_or_default()));
        Self {
            configuration: configuration.to_string(),
            policy: policy.to_string(),
            theta_refs,
            utilization: six_decimals(mean(&|run| run.utilization)),
            mean_mpl: six_decimals(mean(&|run| run.mean_mpl)),
            deactivations: whole(&|run| run.deactivations),
            page_faults: whole(&|run| run.page_faults),
            pointer_travel_per_replacement: travel.map(six_decimals),
            ws_scans: whole(&|run| run.ws_scans),
            runs,
        }
    }
}

/// The results of a `multiprogram` command.
#[derive(Clone, Debug, Serialize)]
pub struct MultiprogramReport {
    /// Version, options, conventions.
    pub sweephand: Map<String, Value>,
    /// The configurations, in order, with every parameter.
    pub configurations: Vec<Configuration>,
    /// The results: by configuration, policy and theta, in that order.
    pub rows: Vec<MultiprogramRow>,
}

impl MultiprogramReport {
    /// What the results depend on besides the configurations: version, options, conventions.
    pub fn header(options: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
        let conventions = json!({
            "time": "real and virtual time in references; the processor executes one in each unit of time",
            "utilization": "references executed by time elapsed, from empty memory to the end of the last task",
            "deactivations": "by load control; ends of time slices do not count",
            "page_faults": "requests to read; a page referenced again before its frame was taken is none",
            "pointer_travel_per_replacement": "pages looked at by the hand for each page replaced",
            "seeds": "a row is the mean over them; runs has each",
        });
        header(options, conventions)
    }

    /// What the rows depend on, as JSON: the report without them.
    pub fn origin(&self) -> String {
        json(&json!({ "sweephand": self.sweephand, "configurations": self.configurations }))
    }

    /// Writes the report.
    pub fn write(&self, format: Format, out: impl Write + Send) -> io::Result<()> {
        match format {
            Format::Table(()) => self.write_tables(out),
            Format::Csv => write_csv(self.rows.iter().map(|row| named(&MultiprogramRow::COLUMNS, row)), out),
            Format::Json => write_json(self, out),
            #[cfg(feature = "parquet")]
            Format::Parquet => crate::parquet::write(&MultiprogramRow::COLUMNS, &self.rows, out),
        }
    }

    fn write_tables(&self, mut out: impl Write) -> io::Result<()> {
        for (index, configuration) in self.configurations.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let (least, most) = configuration.devices.access_refs;
            let devices = match configuration.devices.count {
                1 => "1 paging device".to_string(),
                count => format!("{count} paging devices"),
            };
            let rows: Vec<_> =
                self.rows.iter().filter(|row| row.configuration == configuration.name).collect();
            writeln!(
                out,
                "Configuration {}: {} frames, {devices} of {} to {} references, {} tasks{}\n",
                configuration.name,
                grouped(configuration.frames as u64),
                grouped(least),
                grouped(most),
                configuration.tasks.count,
                rows.first().and_then(|row| row.runs.first()).map_or(String::new(), |run| {
                    format!(" of {} references in all", grouped(run.references))
                })
            )?;
            write!(out, "{}", Self::table(&rows))?;
        }
        writeln!(
            out,
            "\n*: the policy's best. travel: frames that the hand of a clock passes for one replacement. WS scans: scans \
             for pages\nthat have left working sets. theta: the window of the working set, in references."
        )?;
        Ok(())
    }

    /// A line for each policy and theta; the best of each policy is marked.
    fn table(rows: &[&MultiprogramRow]) -> Table {
        let mut table = Table::new([
            "policy",
            "theta",
            "utilization",
            "mean MPL",
            "deactivations",
            "page faults",
            "pages written",
            "travel",
            "WS scans",
        ]);
        for row in rows {
            let of_policy =
                rows.iter().filter(|other| other.policy == row.policy && other.theta_refs != row.theta_refs);
            let is_peak = row.theta_refs.is_some()
                && of_policy.clone().next().is_some()
                && of_policy.clone().all(|other| other.utilization <= row.utilization);
            let written: u64 = row.runs.iter().map(|run| run.page_writes).sum();
            table.row([
                row.policy.clone(),
                row.theta_refs.map_or("-".into(), grouped),
                format!("{:.1}%{}", 100.0 * row.utilization, if is_peak { "*" } else { " " }),
                format!("{:.2}", row.mean_mpl),
                grouped(row.deactivations),
                grouped(row.page_faults),
                grouped((written as f64 / row.runs.len() as f64).round() as u64),
                row.pointer_travel_per_replacement.map_or("-".into(), |travel| format!("{travel:.1}")),
                grouped(row.ws_scans),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(utilization: f64, page_faults: u64, replacements: u64) -> Outcome {
        Outcome {
            utilization,
            mean_mpl: 2.0 * utilization,
            deactivations: page_faults / 10,
            page_faults,
            page_writes: page_faults / 2,
            replacements,
            hand_steps: Some(30),
            ws_scans: page_faults + 1,
            references: 12_000,
            ..Outcome::default()
        }
    }

    fn row(policy: &str, theta_refs: Option<u64>, runs: Vec<Outcome>) -> MultiprogramRow {
        MultiprogramRow::new("small", policy, theta_refs, runs)
    }

    #[test]
    fn row_is_the_mean_of_its_runs() {
        let row = row("clock", None, vec![run(0.5, 100, 10), run(0.25, 201, 20), run(0.25, 200, 15)]);
        // 1 / 3, and two of three whole counts are rounded up.
        assert_eq!((row.utilization, row.mean_mpl), (0.333333, 0.666667));
        assert_eq!((row.page_faults, row.deactivations, row.ws_scans), (167, 17, 168));
        // 30 / 10, 30 / 20 and 30 / 15 steps for a replacement.
        assert_eq!(row.pointer_travel_per_replacement, Some(2.166667));
        let report = report(vec![row]);
        let mut csv = Vec::new();
        report.write(Format::Csv, &mut csv).unwrap();
        assert_eq!(
            String::from_utf8(csv).unwrap(),
            "configuration,policy,theta_refs,utilization,mean_mpl,deactivations,page_faults,\
             pointer_travel_per_replacement,ws_scans\n\
             small,clock,,0.333333,0.666667,17,167,2.166667,168\n"
        );
    }

    #[test]
    fn row_without_a_replacement_in_every_run_has_no_travel() {
        let row = row("clock", None, vec![run(0.5, 100, 10), run(0.5, 100, 0)]);
        assert_eq!(row.pointer_travel_per_replacement, None);
    }

    #[test]
    fn table_marks_the_best_theta_of_each_policy() {
        let rows = [
            row("ws", Some(100), vec![run(0.5, 100, 10)]),
            row("ws", Some(200), vec![run(0.625, 100, 10), run(0.625, 103, 10)]),
            row("ws", Some(300), vec![run(0.25, 100, 10)]),
            row("wsclock", Some(100), vec![run(0.875, 100, 10)]),
            row("clock", None, vec![run(0.75, 2000, 0)]),
        ];
        let table = MultiprogramReport::table(&rows.iter().collect::<Vec<_>>());
        assert_eq!(
            table.rows,
            [
                ["ws", "100", "50.0% ", "1.00", "10", "100", "50", "3.0", "101"],
                // 50 and 51 pages written: 50.5 on average.
                ["ws", "200", "62.5%*", "1.25", "10", "102", "51", "3.0", "103"],
                ["ws", "300", "25.0% ", "0.50", "10", "100", "50", "3.0", "101"],
                // The only theta is not the best of several, nor is a policy without one.
                ["wsclock", "100", "87.5% ", "1.75", "10", "100", "50", "3.0", "101"],
                ["clock", "-", "75.0% ", "1.50", "200", "2,000", "1,000", "-", "2,001"],
            ]
        );
    }

    fn report(rows: Vec<MultiprogramRow>) -> MultiprogramReport {
        let configuration = |text: &str| Configuration::parse(text).unwrap();
        MultiprogramReport {
            sweephand: MultiprogramReport::header([]),
            configurations: vec![
                configuration("name = 'small'\nframes = 1000\n[tasks]\nprograms = ['x']\ncount = 3\n"),
                configuration(
                    "name = 'large'\nframes = 2000\n[devices]\ncount = 2\naccess_refs = [1000, 3000]\n\
                     [tasks]\nprograms = ['x']\ncount = 4\n",
                ),
            ],
            rows,
        }
    }

    #[test]
    fn each_configuration_has_a_table_of_its_own_rows() {
        let mut report = report(vec![row("clock", None, vec![run(0.5, 100, 10)])]);
        report.configurations[0].devices.access_refs = (10, 20);
        let mut text = Vec::new();
        report.write(Format::Table(()), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (small, large) = text.split_once("\n\nConfiguration").expect("two of them");
        assert!(
            small.starts_with(
                "Configuration small: 1,000 frames, 1 paging device of 10 to 20 references, 3 tasks of 12,000 \
                 references in all\n\n"
            ),
            "{text}"
        );
        assert!(small.contains("\n clock"), "{text}");
        assert!(
            large.starts_with(
                " large: 2,000 frames, 2 paging devices of 1,000 to 3,000 references, 4 tasks\n\n"
            ),
            "{text}"
        );
        assert!(!large.contains("\n clock"), "{text}");
        assert!(large.contains("\n*: the policy's best."), "{text}");
    }
}
