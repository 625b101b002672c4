//! The rows of `sweephand simulate`, as a table, CSV, JSON or Parquet.

use crate::columns::{Column, Field, named};
use crate::machine_readable::{header, json, write_csv, write_json};
use crate::{Format, Table, bytes, grouped, seconds};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use sweephand_sim::{CountingStart, Estimate, Estimates, MeasuredError, Outcome, PagingTime};
use sweephand_trace::Trace;

/// One policy with one memory size on one trace. The fields are the columns of the CSV, in this
/// order. The two on samples are there only if pages were sampled, and all counts but the first three
/// are estimates then. The last three are there only if time was predicted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SimulationRow {
    /// The trace, as it was named.
    pub trace: String,
    /// The policy, as it was named.
    pub policy: String,
    /// Memory in page frames.
    pub memory_pages: u64,
    /// References that the program made (not the records kept of them).
    pub references: u64,
    /// Page addresses touched.
    pub distinct_pages: u64,
    /// References to pages that were not resident.
    pub faults: u64,
    /// Faults on the first reference to a page, or the first after its mapping was dropped.
    pub first_touch_faults: u64,
    /// Faults taken while a frame was free.
    pub warmup_faults: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// 1 - faults / references, to six decimals; `None` without references.
    pub hit_ratio: Option<f64>,
    /// Faults for every million instructions, to six decimals; `None` where instructions are not
    /// known.
    pub faults_per_million_instructions: Option<f64>,
    /// Entries that the policy's hands looked at.
    pub hand_steps: u64,
    /// Pages that were simulated, where a sample of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_pages: Option<u64>,
    /// Standard error of `hit_ratio`, to six decimals, where pages were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio_error: Option<f64>,
    /// Seconds that the program would take, to six decimals, where they were predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_seconds: Option<f64>,
    /// Pages that would be read from the device, where time was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_pages_read: Option<u64>,
    /// Pages that would be written to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_pages_written: Option<u64>,
}

impl SimulationRow {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 12] = [
        ("trace", Field::Text(|row| &row.trace)),
        ("policy", Field::Text(|row| &row.policy)),
        ("memory_pages", Field::Count(|row| row.memory_pages)),
        ("references", Field::Count(|row| row.references)),
        ("distinct_pages", Field::Count(|row| row.distinct_pages)),
        ("faults", Field::Count(|row| row.faults)),
        ("first_touch_faults", Field::Count(|row| row.first_touch_faults)),
        ("warmup_faults", Field::Count(|row| row.warmup_faults)),
        ("evictions", Field::Count(|row| row.evictions)),
        ("hit_ratio", Field::OptionalRatio(|row| row.hit_ratio)),
        ("faults_per_million_instructions", Field::OptionalRatio(|row| row.faults_per_million_instructions)),
        ("hand_steps", Field::Count(|row| row.hand_steps)),
    ];

    /// Those behind them where pages were sampled.
    pub const SAMPLE_COLUMNS: [Column<Self>; 2] = [
        ("sampled_pages", Field::OptionalCount(|row| row.sampled_pages)),
        ("hit_ratio_error", Field::OptionalRatio(|row| row.hit_ratio_error)),
    ];

    /// Those behind them where time was predicted.
    pub const TIME_COLUMNS: [Column<Self>; 3] = [
        ("predicted_seconds", Field::OptionalRatio(|row| row.predicted_seconds)),
        ("predicted_pages_read", Field::OptionalCount(|row| row.predicted_pages_read)),
        ("predicted_pages_written", Field::OptionalCount(|row| row.predicted_pages_written)),
    ];

    /// The same row with a prediction of its time.
    #[must_use]
    pub fn predicted(self, seconds: f64, paging: &PagingTime) -> Self {
        Self {
            predicted_seconds: Some(six_decimals(seconds)),
            predicted_pages_read: Some(paging.pages_read),
            predicted_pages_written: Some(paging.pages_written),
            ..self
        }
    }
}

/// What the rows on one trace have in common.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedTrace {
    /// The trace, as it was named.
    pub trace: String,
    /// Its checksum, in hexadecimal: the identity of its contents.
    pub checksum: String,
    /// References kept in it.
    pub records: u64,
    /// References that the program made.
    pub references: u64,
    /// Page addresses touched.
    pub distinct_pages: u64,
    /// Bytes a page.
    pub page_bytes: u64,
    /// Instructions, where known.
    pub instructions: Option<u64>,
    /// The window that it was reduced with (1: repeated references collapsed, 0: not reduced).
    pub window: u64,
    /// Of a trace of epochs, the memory in pages below which it does not hold all faults.
    #[serde(skip)]
    pub known_from_pages: u64,
    /// The sample that was simulated, if not all of it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SimulatedSample>,
    /// What came before counting began, if that was not at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<SimulatedWarmup>,
}

/// The part of a trace that filled memory before anything was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SimulatedWarmup {
    /// References kept in it.
    pub records: u64,
    /// References that the program made in it.
    pub references: u64,
    /// Instructions in it, where known.
    pub instructions: Option<u64>,
}

/// The sample of a trace's pages that was simulated.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedSample {
    /// Pages in it.
    pub pages: u64,
    /// Pages of the trace as far as they have contents of their own: those that the sample was
    /// taken from.
    pub of_pages: u64,
    /// References kept to them.
    pub records: u64,
}

impl SimulatedTrace {
    /// What a trace says of itself, under the name that it was opened by.
    pub fn of(trace: &Trace) -> Self {
        let header = trace.header();
        Self {
            trace: trace.name().display().to_string(),
            checksum: format!("{:016x}", header.checksum),
            records: header.totals.records,
            references: header.totals.references,
            distinct_pages: header.totals.distinct_pages,
            page_bytes: header.metadata.page_size,
            instructions: header.totals.instructions,
            window: header.metadata.window,
            known_from_pages: header.metadata.epochs.map_or(0, |_| header.metadata.exact_pages()),
            sample: None,
            warmup: None,
        }
    }

    /// Notes where counting began.
    pub fn warmed_up(&mut self, start: &CountingStart) {
        let CountingStart { records, references, instructions } = *start;
        self.warmup = Some(SimulatedWarmup { records, references, instructions });
    }

    /// Whether memory was so small that the trace lacks some of the faults.
    fn is_unknown(&self, row: &SimulationRow) -> bool {
        row.memory_pages < self.known_from_pages
    }

    /// References that were counted.
    fn counted_references(&self) -> u64 {
        self.references.saturating_sub(self.warmup.map_or(0, |warmup| warmup.references))
    }

    /// Instructions that were counted, where known.
    fn counted_instructions(&self) -> Option<u64> {
        let before = self.warmup.map_or(Some(0), |warmup| warmup.instructions)?;
        Some(self.instructions?.saturating_sub(before))
    }

    /// Notes which sample was simulated.
    pub fn sampled(&mut self, estimates: &Estimates) {
        self.sample = Some(SimulatedSample {
            pages: estimates.sampled_pages.into(),
            of_pages: estimates.pages.into(),
            records: estimates.sampled_records,
        });
    }

    /// The row of an estimate from the sample that was [noted](Self::sampled).
    pub fn estimated_row(&self, policy: impl ToString, frames: usize, estimate: &Estimate) -> SimulationRow {
        SimulationRow {
            sampled_pages: self.sample.map(|sample| sample.pages),
            hit_ratio_error: Some(six_decimals(estimate.hit_ratio_error)),
            ..self.row(policy, frames, &estimate.outcome)
        }
    }

    /// The row of an outcome: that of the part that was counted.
    pub fn row(&self, policy: impl ToString, frames: usize, outcome: &Outcome) -> SimulationRow {
        let share = |of: u64| (of > 0).then(|| outcome.faults as f64 / of as f64);
        SimulationRow {
            trace: self.trace.clone(),
            policy: policy.to_string(),
            memory_pages: frames as u64,
            references: self.counted_references(),
            distinct_pages: self.distinct_pages,
            faults: outcome.faults,
            first_touch_faults: outcome.first_touch_faults,
            warmup_faults: outcome.warmup_faults,
            evictions: outcome.evictions,
            hit_ratio: share(self.counted_references()).map(|share| six_decimals(1.0 - share)),
            faults_per_million_instructions: self
                .counted_instructions()
                .and_then(share)
                .map(|faults| six_decimals(1e6 * faults)),
            hand_steps: outcome.hand_steps,
            sampled_pages: None,
            hit_ratio_error: None,
            predicted_seconds: None,
            predicted_pages_read: None,
            predicted_pages_written: None,
        }
    }
}

fn six_decimals(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// The results of a `simulate` command.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// Version, options, conventions.
    pub sweephand: Map<String, Value>,
    /// The traces, in order.
    pub traces: Vec<SimulatedTrace>,
    /// The results: by trace, policy and memory size, in that order.
    pub rows: Vec<SimulationRow>,
}

/// What the cells of a table show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// All faults.
    Faults,
    /// Hits of all references, in percent.
    HitRatio,
    /// Faults for every million instructions.
    FaultsPerMillionInstructions,
    /// Faults that need a disk read: all but first touches.
    Refaults,
    /// Predicted seconds.
    Time,
}

impl SimulationReport {
    /// What the results depend on besides the traces: version, options, conventions.
    pub fn header(options: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
        let mut conventions = json!({
            "references": "what the program made; for a reduced trace more than the records simulated",
            "faults": "all references to pages that are not resident, first touches among them",
            "first_touch_faults": "the first reference to a page, or the first after its mapping was dropped",
            "warmup_faults": "faults taken while a frame was free",
            "initial_reference_bit": "clear, unless a policy's parameters say otherwise",
            "percentages_of_memory": "of the trace's distinct pages, to the nearest page, at least one",
        });
        let options: Vec<_> = options.into_iter().collect();
        if options.iter().any(|(name, _)| *name == "device") {
            conventions["predicted_seconds"] = json!(
                "processor time with all memory, and the waits of one thread for paging to the device; \
                 memory is what the policy has, the pager's own not included"
            );
        }
        if options.iter().any(|(name, _)| *name == "warmup") {
            conventions["warmup"] = json!(
                "references before it fill memory, and no column counts them or their faults; a page \
                 that is touched in it has had its first touch; distinct_pages are those of the whole \
                 trace; warmup_faults are, as ever, faults taken while a frame was free, here behind \
                 the warm-up"
            );
        }
        if options.iter().any(|(name, _)| *name == "sample") {
            conventions["sample"] = json!(
                "counts are those of the sampled pages in a memory smaller in proportion, divided by \
                 the share of pages sampled; hits are the references less the faults; \
                 hit_ratio_error is a standard error"
            );
        }
        header(options, conventions)
    }

    /// What the rows depend on, as JSON: the report without them.
    pub fn origin(&self) -> String {
        json(&json!({ "sweephand": self.sweephand, "traces": self.traces }))
    }

    /// Writes the report.
    pub fn write(&self, format: Format<Measure>, out: impl Write + Send) -> io::Result<()> {
        match format {
            Format::Table(measure) => self.write_tables(measure, out),
            Format::Csv => {
                let columns = self.columns();
                write_csv(self.rows.iter().map(|row| named(&columns, row)), out)
            }
            Format::Json => write_json(self, out),
            #[cfg(feature = "parquet")]
            Format::Parquet => crate::parquet::write(&self.columns(), &self.rows, out),
        }
    }

    /// The columns of its rows, in order.
    pub fn columns(&self) -> Vec<Column<SimulationRow>> {
        let mut columns = SimulationRow::COLUMNS.to_vec();
        if self.is_sampled() {
            columns.extend(SimulationRow::SAMPLE_COLUMNS);
        }
        if self.rows.iter().any(|row| row.predicted_seconds.is_some()) {
            columns.extend(SimulationRow::TIME_COLUMNS);
        }
        columns
    }

    /// Whether any of its traces was sampled.
    pub fn is_sampled(&self) -> bool {
        self.traces.iter().any(|trace| trace.sample.is_some())
    }

    fn write_tables(&self, measure: Measure, mut out: impl Write) -> io::Result<()> {
        for (index, trace) in self.traces.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let rows: Vec<_> = self.rows.iter().filter(|row| row.trace == trace.trace).collect();
            writeln!(
                out,
                "{}: {} references to {} pages ({}){}",
                trace.trace,
                grouped(trace.references),
                grouped(trace.distinct_pages),
                bytes(trace.distinct_pages * trace.page_bytes),
                trace
                    .instructions
                    .map_or(String::new(), |count| format!(", {} instructions", grouped(count)))
            )?;
            if let Some(sample) = &trace.sample {
                writeln!(
                    out,
                    "an estimate, from {} of its {} pages ({:.3}%) and {} references to them",
                    grouped(sample.pages),
                    grouped(sample.of_pages),
                    100.0 * sample.pages as f64 / sample.of_pages as f64,
                    grouped(sample.records)
                )?;
            }
            if let Some(warmup) = &trace.warmup {
                writeln!(
                    out,
                    "counted from reference {} on; those before it fill memory",
                    grouped(warmup.references + 1)
                )?;
            }
            writeln!(out, "{}:\n", measure.heading())?;
            write!(out, "{}", self.table(trace, &rows, measure))?;
            if rows.iter().any(|row| trace.is_unknown(row)) {
                writeln!(
                    out,
                    "\n?: in less than {} pages, faults are missing from the recording. Shorter epochs tell more:\n\
                     `record --live --overhead none`, or an input that takes longer.",
                    grouped(trace.known_from_pages)
                )?;
            }
            if let (Measure::Faults, Some(row)) = (measure, rows.first()) {
                writeln!(
                    out,
                    "\n{} of the faults in each cell are first touches (of a page, or of one unmapped since): no disk read.",
                    grouped(row.first_touch_faults)
                )?;
            }
            if let Some(sample) = &trace.sample {
                write_errors(sample, &rows, &mut out)?;
            }
        }
        Ok(())
    }

    /// Policies down, memory sizes across.
    fn table(&self, trace: &SimulatedTrace, rows: &[&SimulationRow], measure: Measure) -> Table {
        let mut sizes: Vec<u64> = Vec::new();
        let mut policies: Vec<&str> = Vec::new();
        for row in rows {
            if !sizes.contains(&row.memory_pages) {
                sizes.push(row.memory_pages);
            }
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        let across = |first: &str, cell: &dyn Fn(u64) -> String| -> Vec<String> {
            std::iter::once(first.to_string()).chain(sizes.iter().map(|&size| cell(size))).collect()
        };
        let mut table = Table::new(across("memory", &|size| bytes(size * trace.page_bytes)));
        table.row(across("  pages", &grouped));
        let share = |size: u64| format!("{:.0}%", 100.0 * size as f64 / trace.distinct_pages.max(1) as f64);
        table.row(across("  of the program's", &share));
        let decimals = hit_ratio_decimals(rows);
        for policy in policies {
            let cell = |size| {
                let row = rows.iter().find(|row| row.policy == policy && row.memory_pages == size);
                row.map_or(String::new(), |row| match trace.is_unknown(row) {
                    true => "?".into(),
                    false => measure.of(row, decimals),
                })
            };
            table.row(across(policy, &cell));
        }
        table
    }
}

/// How far estimates may be off: what the sample tells of itself, and what was measured against
/// full runs.
fn write_errors(sample: &SimulatedSample, rows: &[&SimulationRow], out: &mut impl Write) -> io::Result<()> {
    let points = |share: f64| format!("{:.2}", 100.0 * share);
    let mut policies: Vec<&str> = Vec::new();
    for row in rows {
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
    }
    let columns =
        ["off by, in points of hit ratio", "std. error", "largest", "measured", "largest", "of the faults"];
    let mut table = Table::new(columns);
    let mut least = None;
    for policy in policies {
        let errors = rows.iter().filter(|row| row.policy == policy).filter_map(|row| row.hit_ratio_error);
        let (sum, most, count) =
            errors.fold((0.0, 0.0, 0), |(sum, most, count), error| (sum + error, error.max(most), count + 1));
        let own = [policy.to_string(), points(sum / f64::from(count.max(1))), points(most)];
        let measured = MeasuredError::of(policy.split(':').next().unwrap_or(policy), sample.pages);
        least = least.or(measured.map(|error| error.sampled_pages));
        let measured = match measured {
            Some(error) => {
                [points(error.mean), points(error.largest), format!("{:.1}%", 100.0 * error.mean_of_faults)]
            }
            None => ["-", "-", "-"].map(String::from),
        };
        table.row(own.into_iter().chain(measured));
    }
    write!(out, "\n{table}")?;
    writeln!(out, "std. error: as far as this sample tells, mean over the sizes.")?;
    if let Some(least) = least {
        writeln!(
            out,
            "measured: mean over full runs of other traces, where samples had {} pages (lab/bench/sampling).",
            grouped(least)
        )?;
    }
    Ok(())
}

impl Measure {
    fn heading(self) -> &'static str {
        match self {
            Measure::Faults => "page faults under each policy, by memory size",
            Measure::HitRatio => "hit ratio in percent under each policy, by memory size",
            Measure::FaultsPerMillionInstructions => "page faults per million instructions, by memory size",
            Measure::Refaults => "page faults but first touches under each policy, by memory size",
            Measure::Time => "predicted seconds under each policy, by memory size",
        }
    }

    fn of(self, row: &SimulationRow, hit_ratio_decimals: usize) -> String {
        match self {
            Measure::Faults => grouped(row.faults),
            Measure::Refaults => grouped(row.faults - row.first_touch_faults),
            Measure::HitRatio => match miss_percent(row) {
                Some(misses) => format!("{:.hit_ratio_decimals$}", 100.0 - misses),
                None => "-".into(),
            },
            Measure::FaultsPerMillionInstructions => {
                row.faults_per_million_instructions.map_or("-".into(), |faults| format!("{faults:.3}"))
            }
            Measure::Time => row.predicted_seconds.map_or("-".into(), seconds),
        }
    }
}

/// Faults a hundred references.
fn miss_percent(row: &SimulationRow) -> Option<f64> {
    row.hit_ratio.map(|_| 100.0 * row.faults as f64 / row.references as f64)
}

/// Decimals of hit ratios in percent: enough to leave two digits below 100 to the cell with the
/// fewest faults, and at least two.
fn hit_ratio_decimals(rows: &[&SimulationRow]) -> usize {
    const LEAST: usize = 2;
    const MOST: usize = 9;
    let misses = rows.iter().filter_map(|row| miss_percent(row)).filter(|misses| *misses > 0.0);
    let fewest = misses.fold(100.0, f64::min);
    ((1.0 - fewest.log10()).ceil() as usize).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> SimulatedTrace {
        SimulatedTrace {
            trace: "t".into(),
            checksum: String::new(),
            records: 90,
            references: 100,
            distinct_pages: 40,
            page_bytes: 4096,
            instructions: Some(1_000_000),
            window: 1,
            known_from_pages: 0,
            sample: None,
            warmup: None,
        }
    }

    fn outcome(faults: u64) -> Outcome {
        Outcome {
            faults,
            first_touch_faults: 41,
            warmup_faults: 10,
            evictions: 50,
            hand_steps: 7,
            ..Outcome::default()
        }
    }

    fn report(trace: SimulatedTrace, rows: Vec<SimulationRow>) -> SimulationReport {
        SimulationReport { sweephand: SimulationReport::header([]), traces: vec![trace], rows }
    }

    fn written(report: &SimulationReport, format: Format<Measure>) -> String {
        let mut out = Vec::new();
        report.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The cells of the last row of a table that begins with a word.
    fn cells<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
        let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.rfind(|row| row.first() == Some(&word)).unwrap_or_default()
    }

    /// 60 faults in 80 references and 800,000 instructions.
    #[test]
    fn a_warmup_counts_neither_as_references_nor_as_instructions() {
        let mut trace = trace();
        trace.warmed_up(&CountingStart { records: 15, references: 20, instructions: Some(200_000) });
        let row = trace.row("lru", 10, &outcome(60));
        assert_eq!((row.references, row.hit_ratio), (80, Some(0.25)));
        assert_eq!(row.faults_per_million_instructions, Some(75.0));
        let text = written(&report(trace.clone(), vec![row]), Format::Table(Measure::Faults));
        assert!(text.contains("\ncounted from reference 21 on; those before it fill memory\n"), "{text}");
        // Instructions are not known before counting begins, so there is no rate of faults.
        trace.warmed_up(&CountingStart { records: 15, references: 20, instructions: None });
        assert_eq!(trace.row("lru", 10, &outcome(60)).faults_per_million_instructions, None);
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        let mut trace = trace();
        (trace.references, trace.instructions) = (0, Some(0));
        let row = trace.row("lru", 10, &outcome(0));
        assert_eq!((row.hit_ratio, row.faults_per_million_instructions), (None, None));
        assert_eq!(Measure::HitRatio.of(&row, 2), "-");
        assert_eq!(Measure::FaultsPerMillionInstructions.of(&row, 2), "-");
        assert_eq!(Measure::Time.of(&row, 2), "-");
    }

    #[test]
    fn cells_show_what_their_measure_says() {
        let mut trace = trace();
        trace.references = 3000;
        let row = trace.row("lru", 10, &outcome(1060)).predicted(12.3456, &PagingTime::default());
        let shown = [
            Measure::Faults,
            Measure::Refaults,
            Measure::HitRatio,
            Measure::FaultsPerMillionInstructions,
            Measure::Time,
        ]
        .map(|measure| measure.of(&row, 3));
        assert_eq!(shown, ["1,060", "1,019", "64.667", "1060.000", "12.35"]);
    }

    /// Two digits below 100 percent: a fault in 1,000 references is 99.90 percent of hits, one in
    /// a million 99.99990.
    #[test]
    fn hit_ratios_have_two_digits_for_the_cell_with_the_fewest_faults() {
        let mut trace = trace();
        trace.references = 1_000_000;
        let decimals = |faults: &[u64]| {
            let rows: Vec<_> = faults.iter().map(|faults| trace.row("lru", 10, &outcome(*faults))).collect();
            hit_ratio_decimals(&rows.iter().collect::<Vec<_>>())
        };
        assert_eq!(
            [900_000, 1000, 990, 100, 99, 1].map(|faults| decimals(&[900_000, faults])),
            [2, 2, 3, 3, 4, 5]
        );
        assert_eq!(decimals(&[1000, 0]), 2, "a cell without faults needs no digits");
        trace.references = u64::MAX;
        let row = trace.row("lru", 10, &outcome(1));
        assert_eq!(hit_ratio_decimals(&[&row]), 9, "at most");
    }

    #[test]
    fn a_table_has_policies_down_and_memory_across() {
        let mut trace = trace();
        trace.known_from_pages = 20;
        let rows = vec![
            trace.row("lru", 10, &outcome(60)),
            trace.row("lru", 20, &outcome(50)),
            trace.row("clock", 20, &outcome(51)),
            SimulationRow { trace: "other".into(), ..trace.row("opt", 30, &outcome(5)) },
        ];
        let report = report(trace, rows);
        assert_eq!(
            written(&report, Format::Table(Measure::Faults)),
            "t: 100 references to 40 pages (160 KiB), 1,000,000 instructions\n\
             page faults under each policy, by memory size:\n\n \
             memory              40.0 KiB  80.0 KiB\n   \
             pages                   10        20\n   \
             of the program's       25%       50%\n \
             lru                        ?        50\n \
             clock                               51\n\n\
             ?: in less than 20 pages, faults are missing from the recording. Shorter epochs tell more:\n\
             `record --live --overhead none`, or an input that takes longer.\n\n\
             41 of the faults in each cell are first touches (of a page, or of one unmapped since): no disk \
             read.\n"
        );
        let text = written(&report, Format::Table(Measure::HitRatio));
        assert!(!text.contains("first touches"), "{text}");
    }

    /// A quarter of the pages, and errors of 0.01 and 0.03: 0.02 on average.
    #[test]
    fn an_estimate_comes_with_its_errors() {
        let mut trace = trace();
        trace.sampled(&Estimates { sampled_pages: 256, pages: 1024, sampled_records: 25, cells: Vec::new() });
        let estimate = |error| Estimate { outcome: outcome(60), hit_ratio_error: error };
        let rows = vec![
            trace.estimated_row("unknown", 10, &estimate(0.01)),
            trace.estimated_row("unknown", 20, &estimate(0.029_999_9)),
        ];
        assert_eq!((rows[1].sampled_pages, rows[1].hit_ratio_error), (Some(256), Some(0.03)));
        let report = report(trace, rows);
        let csv = written(&report, Format::Csv);
        assert!(csv.lines().nth(1).unwrap().ends_with(",7,256,0.010000"), "{csv}");
        let text = written(&report, Format::Table(Measure::Faults));
        assert!(
            text.contains("\nan estimate, from 256 of its 1,024 pages (25.000%) and 25 references to them\n"),
            "{text}"
        );
        assert_eq!(cells(&text, "unknown"), ["unknown", "2.00", "3.00", "-", "-", "-"]);
        assert!(text.ends_with("std. error: as far as this sample tells, mean over the sizes.\n"), "{text}");
    }

    /// The row of OPT with 256 pages in `measured_errors.csv` of sweephand-sim.
    #[test]
    fn measured_errors_stand_beside_an_estimate() {
        let mut trace = trace();
        trace.sampled(&Estimates { sampled_pages: 300, pages: 1024, sampled_records: 25, cells: Vec::new() });
        let measured = MeasuredError::of("opt", 300).unwrap();
        let estimate = Estimate { outcome: outcome(60), hit_ratio_error: 0.01 };
        let row = trace.estimated_row("opt:any=1", 10, &estimate);
        let mut out = Vec::new();
        write_errors(&trace.sample.unwrap(), &[&row], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let percent = |share: f64| format!("{:.2}", 100.0 * share);
        let of_faults = format!("{:.1}%", 100.0 * measured.mean_of_faults);
        let expected =
            ["opt:any=1", "1.00", "1.00", &percent(measured.mean), &percent(measured.largest), &of_faults];
        assert_eq!(cells(&text, "opt:any=1"), expected);
        assert!(text.ends_with("where samples had 256 pages (lab/bench/sampling).\n"), "{text}");
    }

    #[test]
    fn a_header_explains_what_there_is() {
        let explained = |name| {
            let header = SimulationReport::header([(name, json!("x"))]);
            let conventions = header["conventions"].as_object().unwrap().keys().skip(6).cloned();
            conventions.collect::<Vec<_>>()
        };
        assert_eq!(explained("device"), ["predicted_seconds"]);
        assert_eq!(explained("warmup"), ["warmup"]);
        assert_eq!(explained("sample"), ["sample"]);
        assert_eq!(explained("policies"), Vec::<String>::new());
    }

    #[test]
    fn every_column_has_the_number_of_its_name() {
        let paging = PagingTime { pages_read: 19, pages_written: 23, ..PagingTime::default() };
        let row = trace().row("lru", 10, &outcome(60)).predicted(1.5, &paging);
        assert_eq!(
            written(&report(trace(), vec![row]), Format::Csv),
            "trace,policy,memory_pages,references,distinct_pages,faults,first_touch_faults,warmup_faults,\
             evictions,hit_ratio,faults_per_million_instructions,hand_steps,predicted_seconds,\
             predicted_pages_read,predicted_pages_written\n\
             t,lru,10,100,40,60,41,10,50,0.400000,60.000000,7,1.500000,19,23\n"
        );
    }
}
