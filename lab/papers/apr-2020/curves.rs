//! Faults of the thesis's workloads under some policies, and what several experiments take from
//! them.
//!
//! Conventions: faults per million instructions, without those taken while a frame was still free.
//! Memory sizes are shares of a workload's pages. The smallest is at least eight times the window
//! of the workload's trace; below that, policies with reference bits see another string than the
//! program made. The thesis stops each curve where performance saturates: sizes at which CLOCK
//! takes less than a hundredth of its most faults do not count, unless stated otherwise. SEQ falls
//! back on CLOCK, as in the thesis.

use crate::kept::Counts;
use crate::lab::Change;
use crate::verdict::mean;
use crate::{Error, Figure, Lab};
use std::sync::Arc;
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::Table;
use sweephand_sim::MemorySize;
use sweephand_trace::Trace;

/// The thesis's workloads. Traces are called the same.
pub(super) const WORKLOADS: [&str; 12] = [
    "cholesky",
    "fft",
    "lu_cb",
    "lu_ncb",
    "ocean_cp",
    "ocean_ncp",
    "radiosity",
    "radix",
    "raytrace",
    "volrend",
    "water_nsquared",
    "water_spatial",
];

/// The policies compared.
pub(super) const POLICIES: [(&str, &str); 5] =
    [("OPT", "opt"), ("CLOCK", "clock"), ("CLOCK-Pro", "clock-pro"), ("SEQ", "seq"), ("APR", "apr")];
/// Where they stand there.
pub(super) const OPT: usize = 0;
pub(super) const CLOCK: usize = 1;
pub(super) const CLOCK_PRO: usize = 2;
pub(super) const SEQ: usize = 3;
pub(super) const APR: usize = 4;

/// Memory sizes in percent of a workload's pages.
pub(super) const PERCENTS: [u32; 19] =
    [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95];
/// Those of the figures that compare readings.
pub(super) const TENS: [u32; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// The least memory, in windows of its trace.
const WINDOWS: u64 = 8;
/// With fewer faults than this, differences of a few faults say nothing.
pub(super) const FEW_FAULTS: u64 = 1000;

/// A workload's faults under some policies.
pub(super) struct Curves {
    pub(super) workload: &'static str,
    pub(super) trace: Arc<Trace>,
    /// Memory in percent of the pages, and in pages.
    pub(super) sizes: Vec<(u32, usize)>,
    /// By policy and by size.
    pub(super) counts: Vec<Vec<Counts>>,
    /// Faults by policy and by size; those while a frame was free left out.
    pub(super) faults: Vec<Vec<u64>>,
    /// The sizes at which CLOCK takes a hundredth of its most faults or more; all if CLOCK is not
    /// among the policies.
    unsaturated: Vec<bool>,
}

impl Curves {
    pub(super) fn measure(
        lab: &Lab,
        workload: &'static str,
        percents: &[u32],
        policies: &[&str],
    ) -> Result<Self, Error> {
        Self::changed(lab, workload, percents, None, policies)
    }

    /// On a change of the workload's trace.
    pub(super) fn changed(
        lab: &Lab,
        workload: &'static str,
        percents: &[u32],
        change: Option<Change>,
        policies: &[&str],
    ) -> Result<Self, Error> {
        let trace = Arc::new(lab.splash_trace(workload)?);
        let sizes = sizes(&trace, percents);
        let frames: Vec<_> = sizes.iter().map(|(_, frames)| *frames).collect();
        let counts = lab.simulations(workload, &trace, change, policies, &frames)?;
        Ok(Self::new(workload, trace, sizes, policies, counts))
    }

    /// At other sizes than those of the figures, on a trace of another kind.
    pub(super) fn at(
        lab: &Lab,
        workload: &'static str,
        trace: &Arc<Trace>,
        frames: &[usize],
        policies: &[&str],
    ) -> Result<Self, Error> {
        let counts = lab.simulations(workload, trace, None, policies, frames)?;
        let share = |frames: usize| 100 * frames as u64 / trace.header().totals.distinct_pages;
        let sizes = frames.iter().map(|&frames| (share(frames) as u32, frames)).collect();
        Ok(Self::new(workload, Arc::clone(trace), sizes, policies, counts))
    }

    pub(super) fn new(
        workload: &'static str,
        trace: Arc<Trace>,
        sizes: Vec<(u32, usize)>,
        policies: &[&str],
        counts: Vec<Vec<Counts>>,
    ) -> Self {
        let faults: Vec<Vec<u64>> =
            counts.iter().map(|by_size| by_size.iter().map(Counts::when_full).collect()).collect();
        let clock = policies.iter().position(|policy| *policy == POLICIES[CLOCK].1);
        let unsaturated = match clock.map(|clock| &faults[clock]) {
            None => vec![true; sizes.len()],
            Some(of_clock) => {
                let most = of_clock.iter().copied().max().unwrap_or(0);
                of_clock.iter().map(|faults| *faults > 0 && 100 * faults >= most).collect()
            }
        };
        Self { workload, trace, sizes, counts, faults, unsaturated }
    }

    /// Every workload under the policies compared.
    pub(super) fn all(lab: &Lab) -> Result<Vec<Self>, Error> {
        let policies = POLICIES.map(|(_, policy)| policy);
        WORKLOADS.iter().map(|workload| Self::measure(lab, workload, &PERCENTS, &policies)).collect()
    }

    /// Faults per million instructions.
    pub(super) fn rate(&self, faults: u64) -> f64 {
        let instructions = self.trace.header().totals.instructions.expect("recorded with instruction counts");
        faults as f64 * 1e6 / instructions as f64
    }

    /// Faults per million instructions of policies in columns, memory sizes in rows.
    pub(super) fn table<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> Table {
        let mut table = Table::new(["memory", "pages"].into_iter().chain(columns));
        for (row, (percent, frames)) in self.sizes.iter().enumerate() {
            let rates = self.faults.iter().map(|by_size| rate_text(self.rate(by_size[row])));
            table.row([format!("{percent} %"), frames.to_string()].into_iter().chain(rates));
        }
        table
    }

    /// By how many percent fewer faults `policy` takes than `other`, by size; `None` where `other`
    /// takes none.
    pub(super) fn fewer(&self, policy: usize, other: usize) -> Vec<Option<f64>> {
        let fewer = |(&faults, &of_other): (&u64, &u64)| {
            (of_other > 0).then(|| 100.0 * (1.0 - faults as f64 / of_other as f64))
        };
        self.faults[policy].iter().zip(&self.faults[other]).map(fewer).collect()
    }

    /// The mean of that over the sizes that count.
    pub(super) fn mean_fewer(&self, policy: usize, other: usize) -> f64 {
        let fewer = self.fewer(policy, other).into_iter().zip(&self.unsaturated);
        mean(fewer.filter(|(_, counts)| **counts).filter_map(|(fewer, _)| fewer))
    }

    /// The same over all sizes.
    pub(super) fn mean_fewer_of_all(&self, policy: usize, other: usize) -> f64 {
        mean(self.fewer(policy, other).into_iter().flatten())
    }

    /// How many faults fewer `policy` takes than `other` in all sizes together, in percent.
    pub(super) fn fewer_in_all(&self, policy: usize, other: usize) -> f64 {
        let [faults, of_other] = [policy, other].map(|policy| self.faults[policy].iter().sum::<u64>() as f64);
        100.0 * (1.0 - faults / of_other)
    }

    /// The sizes that count, and those of them at which `policy` takes no more faults than any
    /// other but OPT.
    pub(super) fn sizes_won(&self, policy: usize) -> (usize, usize) {
        let won = |size: &usize| {
            (CLOCK..POLICIES.len()).all(|other| self.faults[policy][*size] <= self.faults[other][*size])
        };
        let count = |size: &usize| self.unsaturated[*size];
        let sizes = || (0..self.sizes.len()).filter(count);
        (sizes().count(), sizes().filter(won).count())
    }

    /// The curves as a drawing.
    pub(super) fn figure(&self) -> Figure {
        let name = format!("Page faults of {} against memory size", self.workload);
        let lines = POLICIES.iter().zip(&self.faults).map(|((policy, _), faults)| {
            let points = self.sizes.iter().zip(faults);
            ChartLine {
                name: (*policy).into(),
                points: points.map(|((at, _), &faults)| (f64::from(*at), self.rate(faults))).collect(),
                published: Vec::new(),
            }
        });
        let chart = LineChart {
            name: name.clone(),
            x: format!("{}: memory in percent of its pages", self.workload),
            y: "faults per million instructions".into(),
            logarithmic: false,
            lines: lines.collect(),
        };
        Figure { file: format!("figure-4.1-{}.svg", self.workload), name, svg: plot_lines(&chart) + "\n" }
    }
}

/// The memory sizes of a workload: percent and pages.
pub(super) fn sizes(trace: &Trace, percents: &[u32]) -> Vec<(u32, usize)> {
    let header = trace.header();
    let least = WINDOWS * header.metadata.window;
    let frames = |percent: u32| {
        let size = MemorySize::Percent(f64::from(percent));
        size.frames(header.totals.distinct_pages, header.metadata.page_size).expect("all of it at most")[0]
    };
    let sizes = percents.iter().map(|&percent| (percent, frames(percent)));
    sizes.filter(|(_, frames)| *frames as u64 >= least).collect()
}

/// The mean over workloads of [`Curves::mean_fewer`].
pub(super) fn mean_fewer(curves: &[Curves], policy: usize, other: usize) -> f64 {
    mean(curves.iter().map(|curve| curve.mean_fewer(policy, other)))
}

/// The curves of a workload.
pub(super) fn of_workload<'a>(curves: &'a [Curves], workload: &str) -> &'a Curves {
    curves.iter().find(|curve| curve.workload == workload).expect("recorded")
}

/// Faults per million instructions, to three digits.
pub(super) fn rate_text(rate: f64) -> String {
    match rate {
        rate if rate >= 99.95 => format!("{rate:.0}"),
        rate if rate >= 9.995 => format!("{rate:.1}"),
        rate if rate >= 0.9995 => format!("{rate:.2}"),
        rate if rate >= 0.0005 => format!("{rate:.3}"),
        rate if rate > 0.0 => format!("{rate:.5}"),
        _ => "0".into(),
    }
}

/// A list as in "a 1, b 2".
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

/// The traces measured on.
pub(super) fn traces(lab: &Lab) -> Result<String, Error> {
    let describe = |name: &&'static str| -> Result<String, Error> {
        Ok(format!("{name} {:016x}", lab.splash_trace(name)?.header().checksum))
    };
    let described = WORKLOADS.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("SPLASH-3, one thread; checksums of the traces: {}.", described.join(", ")))
}

pub(super) fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}
