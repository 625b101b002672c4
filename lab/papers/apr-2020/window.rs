//! What the window of a reduced trace does to APR and CLOCK-Pro.

use super::curves::{APR, CLOCK, CLOCK_PRO, Curves, POLICIES, list};
use crate::verdict::mean;
use crate::{Error, Lab, Report};
use std::sync::Arc;
use sweephand_results::Table;
use sweephand_sim::{MemorySize, SweepError};

/// Memory sizes of the window's test: eight windows and more.
const WINDOW_SIZES: [MemorySize; 7] = [
    MemorySize::Pages(128),
    MemorySize::Pages(256),
    MemorySize::Percent(10.0),
    MemorySize::Percent(30.0),
    MemorySize::Percent(50.0),
    MemorySize::Percent(70.0),
    MemorySize::Percent(90.0),
];
/// In pages.
const WINDOW: u64 = 16;

/// The recordings by their workloads.
const RECORDINGS: [(&str, &str); 2] = [("cholesky", "cholesky-k1"), ("fft", "fft20-k1")];

const TRIED: [(&str, &str); 4] =
    [POLICIES[CLOCK], POLICIES[CLOCK_PRO], ("LIFO+", "lifo-plus"), POLICIES[APR]];

/// A recording with every run of references, and reduced by a window.
struct Recording {
    workload: &'static str,
    versions: [Curves; 2],
}

impl Recording {
    fn measure(lab: &Lab, workload: &'static str, name: &'static str) -> Result<Self, Error> {
        let whole = lab.pgtr_trace(name)?;
        let reduced = Arc::new(lab.reduced(&whole, WINDOW)?);
        let header = whole.header();
        let frames = |size: &MemorySize| size.frames(header.totals.distinct_pages, header.metadata.page_size);
        let frames = WINDOW_SIZES.iter().map(frames).collect::<Result<Vec<_>, _>>();
        let frames = frames.map_err(SweepError::from)?.concat();
        let measure =
            |version, trace| Curves::at(lab, version, trace, &frames, &TRIED.map(|(_, policy)| policy));
        Ok(Self { workload, versions: [measure("every run", &whole)?, measure("window 16", &reduced)?] })
    }

    /// By how many percent the window changes a policy's faults, by size.
    fn differences(&self, policy: usize) -> Vec<f64> {
        let [whole, reduced] = self.versions.each_ref().map(|curves| &curves.faults[policy]);
        let pairs = whole.iter().zip(reduced);
        pairs.map(|(whole, reduced)| 100.0 * (*reduced as f64 / *whole as f64 - 1.0)).collect()
    }

    /// A policy's faults by memory size.
    fn table(&self, policy: usize) -> Table {
        let [whole, reduced] = &self.versions;
        let mut table = Table::new([
            "pages".to_string(),
            whole.workload.into(),
            reduced.workload.into(),
            format!("{}, diff %", reduced.workload),
        ]);
        for (size, off) in self.differences(policy).into_iter().enumerate() {
            table.row([
                whole.sizes[size].1.to_string(),
                whole.faults[policy][size].to_string(),
                reduced.faults[policy][size].to_string(),
                format!("{off:+.2}"),
            ]);
        }
        table
    }

    /// The mean of what APR gains on CLOCK, by version.
    fn gains(&self) -> [f64; 2] {
        let gain = |curves: &Curves| mean(curves.fewer(TRIED.len() - 1, 0).into_iter().flatten());
        self.versions.each_ref().map(gain)
    }

    /// Says something of each version.
    fn each_version(&self, say: impl Fn(usize, &Curves) -> String) -> String {
        let said = self.versions.iter().enumerate();
        list(said.map(|(version, curves)| format!("{} ({})", say(version, curves), curves.workload)))
    }

    fn note(&self) -> String {
        let records = self.each_version(|_, curves| curves.trace.header().totals.records.to_string());
        let checksum = self.versions[0].trace.header().checksum;
        format!("{}: records {records}; checksum with every run {checksum:016x}.", self.workload)
    }
}

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: "Page faults, those while a frame was free left out. `every run`: each run of references to a page is a record, \
                 a window of 1. `window 16`: the first and the last run of each page among 16 pages, as `sweephand import --window \
                 16` makes it of the same recording."
            .into(),
        ..Report::default()
    };
    let recordings = RECORDINGS
        .iter()
        .map(|(workload, name)| Recording::measure(lab, workload, name))
        .collect::<Result<Vec<_>, _>>()?;
    for recording in &recordings {
        for (policy, (name, _)) in TRIED.iter().enumerate() {
            let line = format!("{}, {name}.", recording.workload);
            report.tables.push((line, recording.table(policy)));
        }
        report.notes.push(recording.note());
    }
    for (policy, (name, _)) in TRIED.iter().enumerate() {
        let bound = if *name == "CLOCK" { 0.1 } else { 2.0 };
        let (off, place) = most_off(&recordings, policy);
        report.check(
            format!("a window of 16 changes the faults of {name} by at most {bound} % from 128 pages up"),
            off.abs() <= bound,
            if off == 0.0 { "not at all".to_string() } else { format!("at most {off:+.2} %, {place}") },
        );
    }
    report.check(
        "the mean that APR gains on CLOCK over these sizes is the same with every window, within a point",
        recordings.iter().map(Recording::gains).all(|[whole, reduced]| (reduced - whole).abs() <= 1.0),
        list(recordings.iter().map(|recording| {
            let gains = recording.gains();
            let gains = recording.each_version(|version, _| format!("{:.1} %", gains[version]));
            format!("{} {gains}", recording.workload)
        })),
    );
    Ok(report)
}

/// By how much the window changes a policy's faults at most, in percent, and where.
fn most_off(recordings: &[Recording], policy: usize) -> (f64, String) {
    let mut most = (0.0_f64, String::new());
    for recording in recordings {
        let sizes = &recording.versions[0].sizes;
        for (off, (_, frames)) in recording.differences(policy).into_iter().zip(sizes) {
            if off.abs() > most.0.abs() {
                most = (off, format!("{} with {frames} pages", recording.workload));
            }
        }
    }
    most
}
