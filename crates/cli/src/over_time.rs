//! `simulate --over-time`: what is missed in each window of a trace.

use anyhow::anyhow;
use std::path::Path;
use sweephand_objects::SizedOutcome;
use sweephand_output::Output;
use sweephand_sim::{Cell, Outcome, WindowStart, Windows};
use sweephand_trace::Trace;

/// Columns, of pages and of whole objects.
const OF_PAGES: [&str; 11] = [
    "trace",
    "policy",
    "memory_pages",
    "window",
    "start_references",
    "start_seconds",
    "references",
    "faults",
    "first_touch_faults",
    "evictions",
    "miss_ratio",
];
const OF_OBJECTS: [&str; 14] = [
    "trace",
    "policy",
    "memory_bytes",
    "window",
    "start_requests",
    "start_seconds",
    "requests",
    "misses",
    "miss_ratio",
    "requested_bytes",
    "missed_bytes",
    "byte_miss_ratio",
    "evictions",
    "expired",
];

/// A file of series that is still to be written.
pub(crate) struct OverTime {
    out: csv::Writer<Output>,
    windows: Windows,
}

impl OverTime {
    /// `in_use` is what the command reads, and writes besides.
    pub(crate) fn create(
        path: &Path,
        windows: Windows,
        whole_objects: bool,
        in_use: &[&Path],
    ) -> anyhow::Result<Self> {
        let mut out = csv::WriterBuilder::new()
            .terminator(csv::Terminator::Any(b'\n'))
            .from_writer(Output::create(path, in_use)?);
        if whole_objects {
            out.write_record(OF_OBJECTS)?
        } else {
            out.write_record(OF_PAGES)?
        }
        Ok(Self { out, windows })
    }

    /// The windows of a trace.
    pub(crate) fn windows(&self, trace: &Trace) -> anyhow::Result<Vec<WindowStart>> {
        Ok(self.windows.of(trace)?)
    }

    /// Writes the series of a cell. `at_starts` are its counts where windows begin.
    pub(crate) fn write(
        &mut self,
        (name, trace): (&str, &Trace),
        cell: &Cell,
        windows: &[WindowStart],
        at_starts: &[Outcome],
        end: &Outcome,
    ) -> anyhow::Result<()> {
        let all = trace.header().totals.references;
        for (index, window) in windows.iter().enumerate() {
            let next = windows.get(index + 1).map_or(all, |next| next.references);
            let references = next.saturating_sub(window.references);
            let counted = at_starts.get(index + 1).unwrap_or(end).since(&at_starts[index]);
            self.out.write_record([
                name,
                &cell.spec.to_string(),
                &cell.frames.to_string(),
                &window.number.to_string(),
                &window.references.to_string(),
                &seconds(window),
                &references.to_string(),
                &counted.faults.to_string(),
                &counted.first_touch_faults.to_string(),
                &counted.evictions.to_string(),
                &ratio(counted.faults, references),
            ])?;
        }
        Ok(())
    }

    /// The same of a cache of whole objects.
    pub(crate) fn write_objects(
        &mut self,
        (name, policy, bytes): (&str, &str, u64),
        windows: &[WindowStart],
        at_starts: &[SizedOutcome],
        end: &SizedOutcome,
    ) -> anyhow::Result<()> {
        for (index, window) in windows.iter().enumerate().take(at_starts.len()) {
            let counted = at_starts.get(index + 1).unwrap_or(end).since(&at_starts[index]);
            let count = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
            self.out.write_record([
                name,
                policy,
                &bytes.to_string(),
                &window.number.to_string(),
                &window.record.to_string(),
                &seconds(window),
                &counted.requests.to_string(),
                &counted.misses.to_string(),
                &ratio(counted.misses, counted.requests),
                &counted.requested_bytes.to_string(),
                &counted.missed_bytes.to_string(),
                &ratio(counted.missed_bytes, counted.requested_bytes),
                &count(counted.evictions),
                &count(counted.expired),
            ])?;
        }
        Ok(())
    }

    /// Everything has been written.
    pub(crate) fn commit(self) -> anyhow::Result<()> {
        let out = self.out.into_inner();
        Ok(out.map_err(|error| anyhow!("the series cannot be written: {}", error.error()))?.commit()?)
    }
}

fn seconds(window: &WindowStart) -> String {
    window.start_ms.map_or_else(String::new, |start| format!("{}.{:03}", start / 1000, start % 1000))
}

fn ratio(misses: u64, all: u64) -> String {
    if all == 0 { String::new() } else { format!("{:.6}", misses as f64 / all as f64) }
}
