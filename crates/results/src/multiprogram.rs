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
