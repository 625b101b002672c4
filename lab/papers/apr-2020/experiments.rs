//! The APR thesis, Seoul National University, 2020, chapter 4: page faults of scientific programs.
//!
//! Conventions: faults per million instructions, without those taken while a frame was still free.
//! Memory sizes are shares of a workload's pages. The smallest is at least eight times the window
//! of the workload's trace; below that, policies with reference bits see another string than the
//! program made. The thesis stops each curve where performance saturates: sizes at which CLOCK
//! takes less than a hundredth of its most faults do not count, unless stated otherwise. SEQ falls
//! back on CLOCK, as in the thesis.

use crate::kept::Counts;
use crate::lab::Change;
use crate::workload::{of_large_objects, string, twice};
use crate::{Bar, Error, Figure, Item, Lab, Limit, Measurement, Place, Published, Report, Scale};
use std::sync::Arc;
use sweephand_policy::SplitMix64;
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::Table;
use sweephand_sim::{MemorySize, RefaultDistances, SweepError};
use sweephand_trace::Trace;

const FOLDER: &str = "apr-2020";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "apr/table-1.1",
        folder: FOLDER,
        title: "APR 2020, Table 1.1: which policies handle which loops",
        run: table_1_1,
    },
    Item { id: "apr/table-4.1", folder: FOLDER, title: "APR 2020, Table 4.1: the workloads", run: table_4_1 },
    Item {
        id: "apr/figure-4.1",
        folder: FOLDER,
        title: "APR 2020, Figure 4.1: page faults against memory size",
        run: |lab| lab.with_simulations(figure_4_1),
    },
    Item {
        id: "apr/figure-4.2",
        folder: FOLDER,
        title: "APR 2020, Figure 4.2: refault distances",
        run: figure_4_2,
    },
    Item {
        id: "apr/figure-4.3",
        folder: FOLDER,
        title: "APR 2020, Figure 4.3: the decay factor",
        run: |lab| lab.with_simulations(figure_4_3),
    },
    Item {
        id: "apr/object-threshold",
        folder: FOLDER,
        title: "APR 2020: from which size on an allocation is an object of its own",
        run: |lab| lab.with_simulations(object_threshold),
    },
    Item {
        id: "apr/summary",
        folder: FOLDER,
        title: "APR 2020: how many faults fewer than others",
        run: summary,
    },
    Item {
        id: "apr/readings",
        folder: FOLDER,
        title: "APR 2020: what the thesis leaves open, one way and the other",
        run: |lab| lab.with_simulations(readings),
    },
    Item {
        id: "apr/worst-case",
        folder: FOLDER,
        title: "APR 2020: where APR is worse than CLOCK, and what a fault costs",
        run: |lab| lab.with_simulations(worst_case),
    },
    Item {
        id: "apr/clock-pro",
        folder: FOLDER,
        title: "APR 2020: CLOCK-Pro when every page is used again at once",
        run: |lab| lab.with_simulations(clock_pro),
    },
    Item {
        id: "apr/window",
        folder: FOLDER,
        title: "APR 2020: what the window of a reduced trace does to APR and CLOCK-Pro",
        run: window,
    },
];

/// The thesis's workloads. Traces are called the same.
const WORKLOADS: [&str; 12] = [
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

/// Further recordings, of smaller inputs: the worst case is looked for in them too.
const SMALLER: [&str; 2] = ["lu_cb_1024", "lu_ncb_1024"];

/// The policies compared.
const POLICIES: [(&str, &str); 5] =
    [("OPT", "opt"), ("CLOCK", "clock"), ("CLOCK-Pro", "clock-pro"), ("SEQ", "seq"), ("APR", "apr")];
/// Where they stand there.
const OPT: usize = 0;
const CLOCK: usize = 1;
const CLOCK_PRO: usize = 2;
const SEQ: usize = 3;
const APR: usize = 4;

/// Memory sizes in percent of a workload's pages.
const PERCENTS: [u32; 19] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95];
/// Those of the figures that compare readings.
const TENS: [u32; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// The least memory, in windows of its trace.
const WINDOWS: u64 = 8;

/// A workload's faults under some policies.
struct Curves {
    workload: &'static str,
    trace: Arc<Trace>,
    /// Memory in percent of the pages, and in pages.
    sizes: Vec<(u32, usize)>,
    /// By policy and by size.
    counts: Vec<Vec<Counts>>,
    /// Faults by policy and by size; those while a frame was free left out.
    faults: Vec<Vec<u64>>,
    /// The sizes at which CLOCK takes a hundredth of its most faults or more; all if CLOCK is not
    /// among the policies.
    unsaturated: Vec<bool>,
}

impl Curves {
    fn measure(
        lab: &Lab,
        workload: &'static str,
        percents: &[u32],
        policies: &[&str],
    ) -> Result<Self, Error> {
        Self::changed(lab, workload, percents, None, policies)
    }

    /// On a change of the workload's trace.
    fn changed(
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
    fn at(
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

    fn new(
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
    fn all(lab: &Lab) -> Result<Vec<Self>, Error> {
        let policies = POLICIES.map(|(_, policy)| policy);
        WORKLOADS.iter().map(|workload| Self::measure(lab, workload, &PERCENTS, &policies)).collect()
    }

    /// Faults per million instructions.
    fn rate(&self, faults: u64) -> f64 {
        let instructions = self.trace.header().totals.instructions.expect("recorded with instruction counts");
        faults as f64 * 1e6 / instructions as f64
    }

    /// Faults per million instructions of policies in columns, memory sizes in rows.
    fn table<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> Table {
        let mut table = Table::new(["memory", "pages"].into_iter().chain(columns));
        for (row, (percent, frames)) in self.sizes.iter().enumerate() {
            let rates = self.faults.iter().map(|by_size| rate_text(self.rate(by_size[row])));
            table.row([format!("{percent} %"), frames.to_string()].into_iter().chain(rates));
        }
        table
    }

    /// By how many percent fewer faults `policy` takes than `other`, by size; `None` where `other`
    /// takes none.
    fn fewer(&self, policy: usize, other: usize) -> Vec<Option<f64>> {
        let fewer = |(&faults, &of_other): (&u64, &u64)| {
            (of_other > 0).then(|| 100.0 * (1.0 - faults as f64 / of_other as f64))
        };
        self.faults[policy].iter().zip(&self.faults[other]).map(fewer).collect()
    }

    /// The mean of that over the sizes that count.
    fn mean_fewer(&self, policy: usize, other: usize) -> f64 {
        let fewer = self.fewer(policy, other).into_iter().zip(&self.unsaturated);
        mean(fewer.filter(|(_, counts)| **counts).filter_map(|(fewer, _)| fewer))
    }

    /// The same over all sizes.
    fn mean_fewer_of_all(&self, policy: usize, other: usize) -> f64 {
        mean(self.fewer(policy, other).into_iter().flatten())
    }

    /// How many faults fewer `policy` takes than `other` in all sizes together, in percent.
    fn fewer_in_all(&self, policy: usize, other: usize) -> f64 {
        let [faults, of_other] = [policy, other].map(|policy| self.faults[policy].iter().sum::<u64>() as f64);
        100.0 * (1.0 - faults / of_other)
    }

    /// The sizes that count, and those of them at which `policy` takes no more faults than any
    /// other but OPT.
    fn sizes_won(&self, policy: usize) -> (usize, usize) {
        let won = |size: &usize| {
            (CLOCK..POLICIES.len()).all(|other| self.faults[policy][*size] <= self.faults[other][*size])
        };
        let count = |size: &usize| self.unsaturated[*size];
        let sizes = || (0..self.sizes.len()).filter(count);
        (sizes().count(), sizes().filter(won).count())
    }

    /// The curves as a drawing.
    fn figure(&self) -> Figure {
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
fn sizes(trace: &Trace, percents: &[u32]) -> Vec<(u32, usize)> {
    let header = trace.header();
    let least = WINDOWS * header.metadata.window;
    let frames = |percent: u32| {
        let size = MemorySize::Percent(f64::from(percent));
        size.frames(header.totals.distinct_pages, header.metadata.page_size).expect("all of it at most")[0]
    };
    let sizes = percents.iter().map(|&percent| (percent, frames(percent)));
    sizes.filter(|(_, frames)| *frames as u64 >= least).collect()
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = values.into_iter().fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count)
}

/// Faults per million instructions, to three digits.
fn rate_text(rate: f64) -> String {
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
fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

/// The traces measured on.
fn traces(lab: &Lab) -> Result<String, Error> {
    let describe = |name: &&'static str| -> Result<String, Error> {
        Ok(format!("{name} {:016x}", lab.splash_trace(name)?.header().checksum))
    };
    let described = WORKLOADS.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("SPLASH-3, one thread; checksums of the traces: {}.", described.join(", ")))
}

fn table_4_1(lab: &Lab) -> Result<Report, Error> {
    let published = Published::read(include_str!("table-4.1.csv"));
    let mut report = Report {
        method: format!(
            "{}\nThe thesis recorded SPLASH-2x. Columns: published, ours. Memory is every page touched once.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let quantities = ["instructions", "references", "memory", "objects"];
    let mut table = Table::new(
        std::iter::once("workload").chain(quantities.iter().flat_map(|quantity| [*quantity, "ours"])),
    );
    let published_columns = quantities.map(|quantity| published.column(quantity));
    let (mut nearest, mut other_inputs) = (Vec::new(), Vec::new());
    for (row, workload) in published.words("workload").into_iter().enumerate() {
        let trace = lab.splash_trace(WORKLOADS[row])?;
        assert_eq!(WORKLOADS[row], workload, "rows are in the order of the workloads");
        let totals = &trace.header().totals;
        let bytes = totals.distinct_pages * trace.header().metadata.page_size;
        let ours = [
            totals.instructions.unwrap_or(0) as f64 / 1e6,
            totals.references as f64 / 1e6,
            bytes as f64 / 1e6,
            totals.objects as f64,
        ];
        let mut cells = vec![workload.to_string()];
        for (quantity, column) in published_columns.iter().enumerate() {
            cells.extend([number(column[row]), number(ours[quantity])]);
        }
        let ratio = ours[2] / published_columns[2][row];
        let name = format!("{workload} {ratio:.2}");
        if (0.8..=1.25).contains(&ratio) {
            nearest.push(name)
        } else {
            other_inputs.push(name)
        }
        table.row(cells);
    }
    let line = "Instructions and references in millions, memory in MB, objects of 40 KiB and more.";
    report.tables.push((line.into(), table));
    for quantity in 0..quantities.len() {
        report.beside((0, 2 * quantity + 1), (0, 2 * quantity + 2), Scale::Ratio);
    }
    report.check(
        "the recorded workloads are as large as the thesis's, within a quarter",
        other_inputs.is_empty(),
        format!(
            "memory as a multiple of the published: {}; others: {}",
            nearest.join(", "),
            if other_inputs.is_empty() { "none".into() } else { other_inputs.join(", ") }
        ),
    );
    Ok(report)
}

/// A number as the thesis prints them: whole, or with one decimal where it is small.
fn number(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn figure_4_1(lab: &Lab) -> Result<Report, Error> {
    let curves = Curves::all(lab)?;
    let mut report = Report {
        method: format!(
            "{}\nPage faults per million instructions, those taken while a frame was free left out. Memory in percent of the \
             pages touched. The thesis prints curves, no numbers: what can be checked is what it says of them. Means are \
             over the sizes at which CLOCK takes a hundredth of its most faults or more.",
            traces(lab)?
        ),
        ..Report::default()
    };
    for curve in &curves {
        report.tables.push((format!("{}.", curve.workload), curve.table(POLICIES.map(|(name, _)| name))));
        report.figures.push(curve.figure());
    }
    let of = |workload: &str| curves.iter().find(|curve| curve.workload == workload).expect("recorded");
    let fewer = |workload: &str, policy, other| of(workload).mean_fewer(policy, other);
    let each = |workloads: &[&'static str], policy, other| {
        list(workloads.iter().map(|workload| format!("{workload} {:+.1} %", -fewer(workload, policy, other))))
    };

    let by_seq = ["fft", "radix"];
    report.claim("apr07", Bar::Paper).cases(
        "SEQ takes fewer faults than APR on fft and radix, mean over sizes",
        by_seq.map(|workload| fewer(workload, SEQ, APR) > 0.0),
        format!("against APR {}", each(&by_seq, SEQ, APR)),
    );
    let consistent = ["lu_cb", "radiosity", "raytrace", "volrend", "water_nsquared"];
    let won = consistent.map(|workload| of(workload).sizes_won(APR));
    report.claim("apr08", Bar::Paper).cases(
        "APR takes no more faults than CLOCK, CLOCK-Pro and SEQ at any size on lu_cb, radiosity, raytrace, volrend, water_nsquared",
        won.map(|(sizes, won)| sizes == won),
        list(consistent.iter().zip(won).map(|(name, (sizes, won))| format!("{name} at {won} of {sizes} sizes"))),
    );
    let remarkable = ["cholesky", "ocean_ncp"];
    report.claim("apr09", Bar::Ours).cases(
        "APR is remarkably better than CLOCK on cholesky and ocean_ncp: by more than the thesis's mean of 22 %, mean over sizes",
        remarkable.map(|workload| fewer(workload, APR, CLOCK) > 22.0),
        each(&remarkable, APR, CLOCK),
    );
    let as_said = |workload: &str| {
        let fewer = fewer(workload, CLOCK_PRO, CLOCK);
        match workload {
            "ocean_cp" | "ocean_ncp" => fewer > 5.0,
            "volrend" => fewer < -5.0,
            _ => fewer.abs() <= 5.0,
        }
    };
    report.claim("apr10", Bar::Ours).cases(
        "CLOCK-Pro is better than CLOCK on ocean_cp and ocean_ncp (by more than 5 %), worse on volrend, and equal on the others \
         (within 5 %), mean over sizes",
        WORKLOADS.map(as_said),
        format!("against CLOCK {}", each(&WORKLOADS, CLOCK_PRO, CLOCK)),
    );
    let worse = ["cholesky", "ocean_cp", "radiosity"];
    report.claim("apr11", Bar::Paper).cases(
        "SEQ is worse than CLOCK on cholesky, ocean_cp and radiosity, mean over sizes",
        worse.map(|workload| fewer(workload, SEQ, CLOCK) < 0.0),
        format!("against CLOCK {}", each(&WORKLOADS, SEQ, CLOCK)),
    );
    let close = ["radiosity", "water_nsquared"];
    report.claim("apr12", Bar::Ours).cases(
        "APR is close to OPT on radiosity and water_nsquared: at most 20 % more faults, mean over sizes",
        close.map(|workload| fewer(workload, APR, OPT) >= -20.0),
        format!("against OPT {}", each(&WORKLOADS, APR, OPT)),
    );
    let improved = WORKLOADS.iter().filter(|workload| fewer(workload, APR, CLOCK) > 5.0).count();
    report.claim("apr13", Bar::Paper).exact(
        "APR improves nine of the twelve workloads markedly (ours: by more than 5 % against CLOCK, mean over sizes)",
        improved >= 9,
        format!("{improved}: against CLOCK {}", each(&WORKLOADS, APR, CLOCK)),
    );
    let saturated = |workload: &str| {
        let curve = of(workload);
        let last = curve.sizes.len() - 1;
        [CLOCK, APR].map(|policy| curve.rate(curve.faults[policy][last]))
    };
    let small = ["raytrace", "volrend", "water_nsquared"];
    report.claim("apr16", Bar::Ours).cases(
        "raytrace, volrend and water_nsquared need less memory than they have pages: at 95 % of them CLOCK and APR take less than a \
         fault in ten million instructions",
        small.map(|workload| saturated(workload).iter().all(|rate| *rate < 0.1)),
        list(small.iter().map(|workload| {
            let [clock, apr] = saturated(workload);
            format!("{workload}: CLOCK {} and APR {} in a million", rate_text(clock), rate_text(apr))
        })),
    );
    Ok(report)
}

fn figure_4_2(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nThe refault distance of an eviction is the number of references that the program makes until the page's fault; \
             pages that never come back are left out. Records of a reduced trace count as the references that lay between \
             them: those between two marks, a million instructions apart, are spread evenly over its records. Memory is the mean \
             of 10, 20, ... 90 % of the pages (those of at least eight windows).",
            traces(lab)?
        ),
        ..Report::default()
    };
    let policies = POLICIES.map(|(_, policy)| policy);
    let heading = || ["workload", "pages"].into_iter().chain(POLICIES.map(|(name, _)| name));
    let mut relative = Table::new(heading().chain(["CLOCK, millions"]));
    let mut with_end = Table::new(heading());
    let mut never = Table::new(heading());
    let mut ratios = Vec::new();
    for workload in WORKLOADS {
        let trace = lab.splash_trace(workload)?;
        let frames = mean(sizes(&trace, &TENS).into_iter().map(|(_, frames)| frames as f64)).round() as usize;
        let distances = lab.refault_distances(&trace, &policies, frames)?;
        let row = || [workload.to_string(), frames.to_string()].into_iter();
        let ratio = |mean: fn(&RefaultDistances) -> Option<f64>| {
            distances
                .iter()
                .map(|of| mean(of).unwrap_or(0.0) / mean(&distances[CLOCK]).unwrap_or(f64::NAN))
                .collect::<Vec<_>>()
        };
        let text = |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>();
        let means = ratio(RefaultDistances::mean);
        let of_clock = distances[CLOCK].mean().unwrap_or(f64::NAN) / 1e6;
        relative.row(row().chain(text(&means)).chain([format!("{of_clock:.1}")]));
        with_end.row(row().chain(text(&ratio(RefaultDistances::mean_with_end))));
        let percent = |of: &RefaultDistances| {
            100.0 * of.never_refaulted as f64 / (of.never_refaulted + of.refaults) as f64
        };
        never.row(row().chain(distances.iter().map(|of| format!("{:.1}", percent(of)))));
        ratios.push((workload, means));
    }
    report.tables.push((
        "Mean refault distance relative to CLOCK's, and CLOCK's in millions of references.".into(),
        relative,
    ));
    report.tables.push((
        "The same with the pages that never come back, counted as if they did at the end.".into(),
        with_end,
    ));
    report.tables.push(("Evictions of pages that never come back, in percent of all.".into(), never));
    let each =
        |policy: usize| list(ratios.iter().map(|(workload, of)| format!("{workload} {:.2}", of[policy])));
    let above = |(workload, of): &(&str, Vec<f64>)| *workload == "ocean_cp" || of[CLOCK_PRO] <= 1.05;
    report.claim("apr14", Bar::Ours).exact(
        "CLOCK-Pro's refault distances are not above CLOCK's (by more than 5 %) but on ocean_cp",
        ratios.iter().all(above)
            && ratios.iter().any(|(workload, of)| *workload == "ocean_cp" && of[CLOCK_PRO] > 1.05),
        each(CLOCK_PRO),
    );
    report.claim("apr14", Bar::Ours).exact(
        "APR's are larger than CLOCK's or equal (within 5 %)",
        ratios.iter().all(|(_, of)| of[APR] >= 0.95),
        each(APR),
    );
    Ok(report)
}

/// Decay factors of Figure 4.3. The default comes by its plain name, so that it is not simulated
/// again.
const DECAYS: [(&str, &str); 5] = [
    ("0.1", "apr:decay=0.1"),
    ("0.3", "apr:decay=0.3"),
    ("0.5", "apr:decay=0.5"),
    ("0.7", "apr"),
    ("0.9", "apr:decay=0.9"),
];

fn figure_4_3(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nPage faults of APR per million instructions as in Figure 4.1, by decay factor. The thesis draws water_nsquared, \
             lu_ncb and lu_cb.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let mut sensitive = Vec::new();
    for workload in WORKLOADS {
        let curves = Curves::measure(lab, workload, &TENS, &DECAYS.map(|(_, policy)| policy))?;
        let spread = |size: usize| {
            let of_size = || curves.faults.iter().map(|by_size| by_size[size]);
            let (least, most) = (of_size().min().expect("a policy"), of_size().max().expect("a policy"));
            // Of a few faults, one more is a large part.
            if most < FEW_FAULTS { 0.0 } else { 100.0 * (most as f64 / least.max(1) as f64 - 1.0) }
        };
        let spreads = (0..curves.sizes.len()).map(|size| (spread(size), curves.sizes[size].0));
        let widest = spreads.max_by(|a, b| a.0.total_cmp(&b.0)).expect("a size");
        sensitive.push((workload, widest));
        report.tables.push((format!("{workload}."), curves.table(DECAYS.map(|(name, _)| name))));
    }
    let others = sensitive.iter().filter(|(workload, _)| *workload != "lu_cb");
    let lu_cb = sensitive.iter().find(|(workload, _)| *workload == "lu_cb").expect("recorded").1;
    report.claim("apr15", Bar::Ours).exact(
        "the decay factor matters on lu_cb only: the most faults of any factor are more than 10 % above the least at some size there, \
         and nowhere else",
        lu_cb.0 > 10.0 && others.clone().all(|(_, (spread, _))| *spread <= 10.0),
        list(sensitive.iter().map(|(workload, (spread, percent))| format!("{workload} {spread:.1} % at {percent} % of its pages"))),
    );
    Ok(report)
}

/// Least sizes of objects, above the thesis's 40 KiB: what the traces were recorded with. Without
/// objects all pages are of one.
const THRESHOLDS: [(&str, Change); 4] = [
    ("160 KiB", Change { name: "objects-160K", make: of_large_objects::<160> }),
    ("640 KiB", Change { name: "objects-640K", make: of_large_objects::<640> }),
    ("2.5 MiB", Change { name: "objects-2560K", make: of_large_objects::<2560> }),
    ("none", Change { name: "objects-none", make: of_large_objects::<{ u64::MAX }> }),
];

fn object_threshold(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nAPR has a stack for each object, an allocation of 40 KiB or more. Here smaller objects are taken out of the traces \
             as well, up to all of them; what was allocated smaller than 40 KiB is in no trace, so smaller thresholds are not \
             here. By how many percent APR takes fewer page faults than CLOCK: mean over the sizes of Figure 4.3 at which CLOCK \
             takes a hundredth of its most faults or more, those while a frame was free left out.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let headings = THRESHOLDS.iter().map(|(name, _)| *name);
    let mut table = Table::new(["workload", "40 KiB"].into_iter().chain(headings));
    let mut by_threshold = vec![Vec::new(); 1 + THRESHOLDS.len()];
    for workload in WORKLOADS {
        let recorded = Curves::measure(lab, workload, &TENS, &["clock", "apr"])?;
        let mut fewer = vec![recorded.mean_fewer(1, 0)];
        for (_, change) in THRESHOLDS {
            // CLOCK knows no objects.
            let apr = Curves::changed(lab, workload, &TENS, Some(change), &["apr"])?;
            let counts = vec![recorded.counts[0].clone(), apr.counts[0].clone()];
            let both =
                Curves::new(workload, Arc::clone(&apr.trace), apr.sizes.clone(), &["clock", "apr"], counts);
            fewer.push(both.mean_fewer(1, 0));
        }
        by_threshold.iter_mut().zip(&fewer).for_each(|(of_threshold, fewer)| of_threshold.push(*fewer));
        table.row(std::iter::once(workload.to_string()).chain(fewer.iter().map(|fewer| one_decimal(*fewer))));
    }
    let means: Vec<f64> = by_threshold.into_iter().map(mean).collect();
    table.row(std::iter::once("mean".to_string()).chain(means.iter().map(|fewer| one_decimal(*fewer))));
    report
        .tables
        .push(("Percent fewer faults of APR than of CLOCK, by the least size of objects.".into(), table));
    let names = ["40 KiB"].into_iter().chain(THRESHOLDS.iter().map(|(name, _)| *name));
    let shown = list(names.zip(&means).map(|(name, mean)| format!("{name} {mean:.1} %")));
    report.check(
        "objects serve APR: without them it gains less on CLOCK, by a point or more of the mean",
        means[0] - means[THRESHOLDS.len()] >= 1.0,
        shown.clone(),
    );
    report.check(
        "the thesis's threshold of 40 KiB is as good as any larger one, within a point of the mean",
        means.iter().all(|mean| *mean <= means[0] + 1.0),
        shown,
    );
    Ok(report)
}

/// With fewer faults than this, differences of a few faults say nothing.
const FEW_FAULTS: u64 = 1000;

fn summary(lab: &Lab) -> Result<Report, Error> {
    let curves = Curves::all(lab)?;
    let mut report = Report {
        method: format!(
            "{}\nBy how many percent APR takes fewer page faults (those while a frame was free left out): mean over the sizes of \
             Figure 4.1 at which CLOCK takes a hundredth of its most faults or more (the thesis stops its curves where \
             performance saturates), then over the workloads. The thesis prints the means only and does not say in which order it \
             took them. Sizes at which the other policy takes no faults are left out.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let columns = [
        ("CLOCK", APR, CLOCK),
        ("CLOCK-Pro", APR, CLOCK_PRO),
        ("SEQ", APR, SEQ),
        ("CLOCK-Pro than CLOCK", CLOCK_PRO, CLOCK),
        ("SEQ than CLOCK", SEQ, CLOCK),
        ("OPT than CLOCK", OPT, CLOCK),
    ];
    let mut table = Table::new(std::iter::once("workload").chain(columns.map(|(heading, ..)| heading)));
    let mut row = |name: &str, of_column: &dyn Fn(usize, usize) -> f64| {
        let cells = columns.map(|(_, policy, other)| one_decimal(of_column(policy, other)));
        table.row(std::iter::once(name.to_string()).chain(cells));
    };
    let mean_over = |policy, other| mean(curves.iter().map(|curve| curve.mean_fewer(policy, other)));
    for curve in &curves {
        row(curve.workload, &|policy, other| curve.mean_fewer(policy, other));
    }
    row("mean", &|policy, other| mean_over(policy, other));
    row("mean, all sizes", &|policy, other| {
        mean(curves.iter().map(|curve| curve.mean_fewer_of_all(policy, other)))
    });
    row("mean, faults of all sizes added up", &|policy, other| {
        mean(curves.iter().map(|curve| curve.fewer_in_all(policy, other)))
    });
    let (mean_row, thesis_row) = (curves.len(), table.rows.len());
    table.row(["thesis, mean of twelve", "22.0", "22.1", "16.4", "", "", ""]);
    report.tables.push((
        "Percent fewer faults: of APR than of the first three, then of others than of CLOCK.".into(),
        table,
    ));
    for column in 1..=3 {
        let place = |row| Place { table: 0, row, column };
        report.beside_at(place(thesis_row), place(mean_row), Scale::Points);
    }

    let mut by_size = Table::new(
        std::iter::once("workload".to_string()).chain(PERCENTS.map(|percent| format!("{percent} %"))),
    );
    for curve in &curves {
        let fewer = curve.fewer(APR, CLOCK);
        let at = |percent: u32| curve.sizes.iter().position(|(size, _)| *size == percent);
        let cell = |percent| at(percent).and_then(|at| fewer[at]).map_or("-".into(), one_decimal);
        by_size.row(std::iter::once(curve.workload.to_string()).chain(PERCENTS.map(cell)));
    }
    report.tables.push(("Percent fewer faults of APR than of CLOCK, by memory size.".into(), by_size));
    // The worst against each, once where it is the same workload and size.
    let mut worst_against: Vec<(Worst, String)> = Vec::new();
    for other in [CLOCK, CLOCK_PRO, SEQ] {
        let worst = Worst::of(&curves, other, FEW_FAULTS).expect("some size has many faults");
        let against = format!("{} ({:+.1} %)", POLICIES[other].0, -worst.fewer);
        match worst_against.iter_mut().find(|(known, _)| known.place() == worst.place()) {
            Some((_, others)) => *others += &format!(" and {against}"),
            None => worst_against.push((worst, against)),
        }
    }
    for (worst, against) in &worst_against {
        let line =
            format!("APR at its worst against {against}: {}. Faults by tenth of the trace.", worst.place());
        report.tables.push((line, worst.over_time(lab)?));
    }

    let means = [CLOCK, CLOCK_PRO, SEQ].map(|other| mean_over(APR, other));
    for ((id, other, published), measured) in
        [("apr01", CLOCK, 22.0), ("apr02", CLOCK_PRO, 22.1), ("apr03", SEQ, 16.4)].into_iter().zip(means)
    {
        report.claim(id, Bar::Paper).numbers(
            format!(
                "APR takes {published:.1} % fewer faults than {} as in the thesis, or more (in spirit: half of it)",
                POLICIES[other].0
            ),
            Limit::AtLeast(published),
            Some(Limit::AtLeast(published / 2.0)),
            &[Measurement::exact("percent:", measured, 1)],
        );
    }
    report.check(
        "APR takes at least 13 % fewer faults than CLOCK",
        means[0] >= 13.0,
        format!("{:.1} %", means[0]),
    );
    let water = curves.iter().find(|curve| curve.workload == "water_nsquared").expect("recorded");
    let at = water.sizes.iter().position(|(percent, _)| *percent == 20).expect("large enough");
    let above = -water.fewer(APR, OPT)[at].unwrap_or(f64::INFINITY);
    report.check(
        "APR is within 20 % of OPT on water_nsquared at 20 % of its pages",
        above <= 20.0,
        format!("{above:+.1} %"),
    );
    Ok(report)
}

/// APR, and how else the thesis can be read.
const READINGS: [(&str, &str); 6] = [
    ("APR", "apr"),
    ("pages are named once", "apr:preset=once"),
    ("LIFO+ in charge at equal scores", "apr:ties=fallback"),
    ("whoever was, at equal scores", "apr:ties=last"),
    ("a ghost's fault judged before the replacement", "apr:judged=before"),
    ("a ghost is the choice of both", "apr:search=one-choice"),
];

/// What they are compared with: CLOCK in front, then two policies in two readings each.
const BESIDE: [(&str, &str); 5] = [
    ("CLOCK", "clock"),
    ("CLOCK-Pro", "clock-pro"),
    ("CLOCK-Pro-strict", "clock-pro-strict"),
    ("SEQ", "seq"),
    ("SEQ, deleting", "seq:inside=delete"),
];

fn readings(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nPercent fewer faults, those while a frame was free left out: mean over the sizes of Figure 4.3 at which CLOCK takes a \
             hundredth of its most faults or more, then over the workloads. CLOCK-Pro: m_c grows when a page was used during its test \
             (the paper's text); CLOCK-Pro-strict: it shrinks whenever a test ends. SEQ: a fault inside a sequence cuts it; deleting: it \
             ends the sequence.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let policies: Vec<&str> = BESIDE.iter().chain(&READINGS).map(|(_, policy)| *policy).collect();
    let curves = WORKLOADS
        .iter()
        .map(|workload| Curves::measure(lab, workload, &TENS, &policies))
        .collect::<Result<Vec<_>, _>>()?;
    let mean_over = |policy, other| mean(curves.iter().map(|curve| curve.mean_fewer(policy, other)));

    // The first two readings, each beside all.
    let pairs: Vec<(usize, usize)> = [0, 1]
        .into_iter()
        .flat_map(|reading| (0..BESIDE.len()).map(move |other| (BESIDE.len() + reading, other)))
        .collect();
    let headings = pairs.iter().map(|(policy, other)| match policy - BESIDE.len() {
        0 => format!("than {}", BESIDE[*other].0),
        _ => format!("named once: {}", BESIDE[*other].0),
    });
    let mut by_workload = Table::new(std::iter::once("workload".to_string()).chain(headings));
    for curve in &curves {
        let cells = pairs.iter().map(|(policy, other)| one_decimal(curve.mean_fewer(*policy, *other)));
        by_workload.row(std::iter::once(curve.workload.to_string()).chain(cells));
    }
    let means = pairs.iter().map(|(policy, other)| one_decimal(mean_over(*policy, *other)));
    by_workload.row(std::iter::once("mean".to_string()).chain(means));
    by_workload.row(["thesis", "22.0", "22.1", "", "16.4", "", "", "", "", "", ""]);
    report.tables.push((
        "Percent fewer faults of APR; then of APR if no policy names a page twice.".into(),
        by_workload,
    ));

    let heading = ["reading", "policy"].into_iter().chain(BESIDE.iter().map(|(name, _)| *name));
    let mut by_reading =
        Table::new(heading.chain(["at its worst against CLOCK", "cells above 12 %", "most looks a fault"]));
    for (reading, (name, policy)) in READINGS.iter().enumerate() {
        let at = BESIDE.len() + reading;
        let fewer = (0..BESIDE.len()).map(|other| one_decimal(mean_over(at, other)));
        let worst = WorstCells::of(&curves, at, 0);
        let cells = [name.to_string(), format!("`{policy}`")].into_iter().chain(fewer);
        by_reading.row(cells.chain([worst.text(), worst.above.to_string(), one_decimal(worst.looks)]));
    }
    by_reading.row(["thesis", "", "22.0", "22.1", "", "16.4", "", "", "", ""]);
    report.tables.push(("The means, by reading.".into(), by_reading));

    let mut others = Table::new(std::iter::once("workload").chain(BESIDE[1..].iter().map(|(name, _)| *name)));
    for curve in &curves {
        let cells = (1..BESIDE.len()).map(|other| one_decimal(curve.mean_fewer(other, 0)));
        others.row(std::iter::once(curve.workload.to_string()).chain(cells));
    }
    let means = (1..BESIDE.len()).map(|other| one_decimal(mean_over(other, 0)));
    others.row(std::iter::once("mean".to_string()).chain(means));
    report.tables.push(("Percent fewer faults than CLOCK.".into(), others));
    let gains = [0, 1].map(|reading| mean_over(BESIDE.len() + reading, 0));
    report.check(
        "APR gains more on CLOCK where the policy in charge may name a page again",
        gains[0] > gains[1],
        format!("{:.1} %; {:.1} % where no policy names a page twice", gains[0], gains[1]),
    );
    Ok(report)
}

/// A policy against another one over some workloads, where the other takes [`FEW_FAULTS`] or more.
struct WorstCells {
    cells: usize,
    /// How many of them are more than 12 % above.
    above: usize,
    /// By how many percent the faults are more at most, and where.
    more: f64,
    place: String,
    /// Most looks a fault.
    looks: f64,
}

impl WorstCells {
    fn of(curves: &[Curves], policy: usize, other: usize) -> Self {
        let mut worst =
            Self { cells: 0, above: 0, more: f64::NEG_INFINITY, place: String::new(), looks: 0.0 };
        for curve in curves {
            for (size, (percent, _)) in curve.sizes.iter().enumerate() {
                if curve.faults[other][size] < FEW_FAULTS {
                    continue;
                }
                let more =
                    100.0 * (curve.faults[policy][size] as f64 / curve.faults[other][size] as f64 - 1.0);
                let Counts { hand_steps, faults, .. } = curve.counts[policy][size];
                worst.cells += 1;
                worst.above += usize::from(more > 12.0);
                worst.looks = worst.looks.max(hand_steps as f64 / faults as f64);
                if more > worst.more {
                    (worst.more, worst.place) = (more, format!("{} at {percent} %", curve.workload));
                }
            }
        }
        worst
    }

    fn text(&self) -> String {
        if self.cells == 0 { "-".into() } else { format!("{:+.1} %, {}", self.more, self.place) }
    }
}

/// Where APR is worse than CLOCK, and where it is if no policy names a page twice.
fn worst_case(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nAlso lu with n = 1024. Sizes from 5 to 95 % of the pages in steps of 5, those of at least eight windows of the trace. \
             APR's faults against CLOCK's (those while a frame was free left out) where CLOCK takes {FEW_FAULTS} or more. \
             Looks: entries of CLOCK's list and of the stacks looked at, for each fault.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let policies = [POLICIES[CLOCK].1, POLICIES[APR].1, READINGS[1].1];
    let heading = ["workload", "sizes", "APR at its worst", "sizes above 12 %", "most looks a fault"];
    let once = ["named once, at its worst", "sizes above 12 %", "most looks a fault"];
    let mut table = Table::new(heading.into_iter().chain(once));
    let workloads = WORKLOADS.into_iter().chain(SMALLER);
    let curves = workloads
        .map(|workload| Curves::measure(lab, workload, &PERCENTS, &policies))
        .collect::<Result<Vec<_>, _>>()?;
    for curve in &curves {
        let [apr, once] = [1, 2].map(|policy| WorstCells::of(std::slice::from_ref(curve), policy, 0));
        let columns =
            [&apr, &once].map(|worst| [worst.text(), worst.above.to_string(), one_decimal(worst.looks)]);
        table.row([curve.workload.to_string(), apr.cells.to_string()].into_iter().chain(columns.concat()));
    }
    report.tables.push((
        "APR against CLOCK at its worst, and the sizes at which it takes more than 12 % more.".into(),
        table,
    ));
    let [apr, once] = [1, 2].map(|policy| WorstCells::of(&curves, policy, 0));
    for (what, worst) in
        [("APR is never more than 12 % worse than CLOCK", &apr), ("nor is it if pages are named once", &once)]
    {
        let text =
            format!("at worst {}; more than 12 % in {} of {} cells", worst.text(), worst.above, worst.cells);
        report.check(what, worst.more <= 12.0, text);
    }
    report.check(
        "a fault takes at most 20 looks",
        apr.looks <= 20.0,
        format!("at most {:.1}; if pages are named once {:.1}", apr.looks, once.looks),
    );
    Ok(report)
}

/// Programs on which CLOCK-Pro is tried under the thesis's own explanation: the smaller traces.
const TRIED: [&str; 8] =
    ["cholesky", "lu_cb", "water_nsquared", "fft", "raytrace", "ocean_cp", "water_spatial", "volrend"];

fn clock_pro(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nThe thesis finds CLOCK-Pro about equal to CLOCK, and says why (section 2.1): programs touch bytes, so a page that \
             comes in is used again at once and looks reused. *Twice*: every reference of the trace comes twice, so the bit of every \
             page is set when it has come in. *Settled*: the bit is cleared again when as many faults as 1 % of the frames have \
             passed (`settle=1%`). Percent fewer faults than CLOCK on the same references, mean over 10, 20, ... 90 % of the pages at \
             which CLOCK takes a hundredth of its most faults or more. *Strict*: CLOCK-Pro-strict, whose m_c shrinks whenever a test \
             ends, also of a page that was used. Programs with the smaller traces.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let readings = ["clock-pro", "clock-pro-strict"];
    let mut table = Table::new([
        "workload",
        "as recorded",
        "twice",
        "settled",
        "strict",
        "strict, twice",
        "strict, settled",
    ]);
    let change = Change { name: "twice", make: twice };
    let mut columns = vec![Vec::new(); 6];
    for workload in TRIED {
        let settled = readings.map(|policy| format!("{policy}:settle=1%"));
        let [grow, shrink] = [0, 1].map(|reading: usize| settled[reading].as_str());
        let policies = ["clock", readings[0], grow, readings[1], shrink];
        let recorded = Curves::measure(lab, workload, &TENS, &policies)?;
        let twice =
            Curves::changed(lab, workload, &TENS, Some(change), &["clock", readings[0], readings[1]])?;
        let of = |reading: usize| {
            [
                recorded.mean_fewer(1 + 2 * reading, 0),
                twice.mean_fewer(1 + reading, 0),
                recorded.mean_fewer(2 + 2 * reading, 0),
            ]
        };
        let fewer = [of(0), of(1)].concat();
        columns.iter_mut().zip(&fewer).for_each(|(column, fewer)| column.push(*fewer));
        table.row(std::iter::once(workload.to_string()).chain(fewer.into_iter().map(one_decimal)));
    }
    let means: Vec<f64> = columns.into_iter().map(mean).collect();
    table.row(std::iter::once("mean".to_string()).chain(means.iter().map(|mean| one_decimal(*mean))));
    report.tables.push(("Percent fewer faults of CLOCK-Pro than of CLOCK.".into(), table));
    report.claim("apr10", Bar::Ours).exact(
        "CLOCK-Pro equals CLOCK (within 5 % on average) where every page is used again at once, as the thesis says",
        means[1].abs() <= 5.0,
        format!("{:.1} % fewer faults; as recorded {:.1} %, settled {:.1} %", means[1], means[0], means[2]),
    );
    report.check(
        "it does as recorded, too",
        means[0].abs() <= 5.0,
        format!("{:.1} % fewer faults; CLOCK-Pro-strict {:.1} %", means[0], means[3]),
    );
    Ok(report)
}

/// Pages of the loops of Table 1.1, and how often they are gone through.
const LOOP_PAGES: u64 = 3_000;
const ROUNDS: u64 = 20;
/// Memory, in percent of the loop.
const LOOP_SIZES: [u64; 3] = [50, 70, 90];

/// Makes a reference string: page numbers, in order.
type Make = fn() -> Vec<u64>;

/// The loops of Table 1.1. Each is a string of page numbers.
const LOOPS: [(&str, Make); 4] = [
    ("sequential", || (0..ROUNDS * LOOP_PAGES).map(|step| step % LOOP_PAGES).collect()),
    ("non-sequential", || {
        let (mut order, mut random): (Vec<u64>, _) = ((0..LOOP_PAGES).collect(), SplitMix64::new(1));
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let pages = order.len();
        order.into_iter().cycle().take(pages * ROUNDS as usize).collect()
    }),
    ("mixed", || {
        // A small set that is used at random takes turns with the loop.
        let mut random = SplitMix64::new(1);
        let hot = LOOP_PAGES / 10;
        let turn = |step: u64| [step % LOOP_PAGES, LOOP_PAGES + random.below(hot)];
        (0..ROUNDS * LOOP_PAGES).flat_map(turn).collect()
    }),
    ("windowed", || {
        // Each step looks back at pages of the last 1 %.
        let mut random = SplitMix64::new(1);
        let back = LOOP_PAGES / 100;
        let turn = |step: u64| {
            let mut last = || (step.saturating_sub(1 + random.below(back))) % LOOP_PAGES;
            [step % LOOP_PAGES, last(), last()]
        };
        (0..ROUNDS * LOOP_PAGES).flat_map(turn).collect()
    }),
];

/// The policies of Table 1.1, with CLOCK, and what it says of how they handle loops.
const HANDLING: [(&str, &str, &str); 6] = [
    ("CLOCK", "clock", ""),
    ("EELRU", "eelru", "yes"),
    ("UBM", "ubm", "yes"),
    ("SEQ", "seq", "no"),
    ("CLOCK-Pro", "clock-pro", "partly"),
    ("APR", "apr", "yes"),
];

fn table_1_1(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "Loops over {LOOP_PAGES} pages, {ROUNDS} rounds, in 50, 70 and 90 % as many frames: in order (sequential), in one random order \
             (non-sequential), by turns with references to a set of {} other pages (mixed), and with each step looking back twice at the \
             last {} pages (windowed). How much of the way from CLOCK to OPT a policy goes, in percent of the faults, mean over the \
             sizes. A policy handles a loop if it goes half of the way or more, and partly if it goes a tenth or more. The thesis \
             names the three kinds of loop and gives each policy one word; the patterns and the bars are ours.",
            LOOP_PAGES / 10,
            LOOP_PAGES / 100
        ),
        seeds: vec![1],
        ..Report::default()
    };
    let frames = LOOP_SIZES.map(|percent| (LOOP_PAGES * percent / 100) as usize);
    let policies: Vec<&str> =
        std::iter::once("opt").chain(HANDLING.iter().map(|(_, policy, _)| *policy)).collect();
    // By policy, then by loop.
    let mut ways = vec![Vec::new(); HANDLING.len()];
    for (_, pages) in LOOPS {
        let outcomes = lab.outcomes(&string(pages().into_iter())?, &policies, &frames)?;
        let faults = |policy: usize, size: usize| outcomes[policy][size].refaults() as f64;
        for (policy, ways) in ways.iter_mut().enumerate() {
            let way = |size: usize| {
                100.0 * (faults(1, size) - faults(policy + 1, size)) / (faults(1, size) - faults(0, size))
            };
            ways.push(mean((0..frames.len()).map(way)));
        }
    }
    let grade = |way: f64| match way {
        way if way >= 50.0 => "yes",
        way if way >= 10.0 => "partly",
        _ => "no",
    };
    let mut table = Table::new(
        std::iter::once("policy").chain(LOOPS.map(|(name, _)| name)).chain(["handles them, thesis", "ours"]),
    );
    let mut as_said = Vec::new();
    let mut differs = Vec::new();
    for ((name, _, said), ways) in HANDLING.iter().zip(&ways) {
        // The thesis's loops are all but the sequential one.
        let grades: Vec<&str> = ways[1..].iter().map(|way| grade(*way)).collect();
        let ours = match grades.iter().filter(|grade| **grade == "yes").count() {
            3 => "yes",
            0 if grades.iter().all(|grade| *grade == "no") => "no",
            _ => "partly",
        };
        let cells = ways.iter().map(|way| format!("{way:.0}, {}", grade(*way)));
        table.row(std::iter::once((*name).to_string()).chain(cells).chain([(*said).into(), ours.into()]));
        if !said.is_empty() {
            as_said.push(ours == *said);
            if ours != *said {
                differs.push(format!("{name}: {said} there, {ours} here"));
            }
        }
    }
    report.tables.push(("How much of the way from CLOCK to OPT, and how that is called.".into(), table));
    let agree = as_said.iter().filter(|same| **same).count();
    report.claim("apr18", Bar::Ours).cases(
        "EELRU, UBM and APR handle non-sequential, mixed and windowed loops, CLOCK-Pro partly, SEQ does not",
        as_said.iter().copied(),
        format!("{agree} of {} as in the thesis; {}", as_said.len(), list(differs)),
    );
    Ok(report)
}

/// Where APR does worst against another policy.
struct Worst<'a> {
    curves: &'a Curves,
    /// Which of its sizes.
    size: usize,
    /// By how many percent APR takes fewer faults there.
    fewer: f64,
}

impl<'a> Worst<'a> {
    /// Of all workloads and the sizes at which the other takes at least `faults` faults.
    fn of(curves: &'a [Curves], other: usize, faults: u64) -> Option<Self> {
        let of_curves = |curves: &'a Curves| {
            let fewer = curves.fewer(APR, other).into_iter().enumerate();
            fewer.filter_map(move |(size, fewer)| {
                let counts = curves.faults[other][size] >= faults;
                fewer.filter(|_| counts).map(|fewer| Self { curves, size, fewer })
            })
        };
        curves.iter().flat_map(of_curves).min_by(|a, b| a.fewer.total_cmp(&b.fewer))
    }

    fn place(&self) -> String {
        format!("{} at {} % of its pages", self.curves.workload, self.curves.sizes[self.size].0)
    }

    /// The faults there by tenth of the trace, also those of LIFO+ alone.
    fn over_time(&self, lab: &Lab) -> Result<Table, Error> {
        let rows = POLICIES.into_iter().chain([("LIFO+ alone", "lifo-plus")]).collect::<Vec<_>>();
        let policies = rows.iter().map(|(_, policy)| *policy).collect::<Vec<_>>();
        let frames = self.curves.sizes[self.size].1;
        let faults = lab.faults_over_time(&self.curves.trace, &policies, frames, 10)?;
        let mut table =
            Table::new(std::iter::once("tenth".to_string()).chain((1..=10).map(|part| part.to_string())));
        for ((name, _), parts) in rows.iter().zip(faults) {
            table.row(std::iter::once((*name).to_string()).chain(parts.iter().map(u64::to_string)));
        }
        Ok(table)
    }
}

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
const WINDOW: u64 = 16;

fn window(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: "Page faults, those while a frame was free left out. `every run`: each run of references to a page is a record, \
                 a window of 1. `window 16`: the first and the last run of each page among 16 pages, as `sweephand import --window \
                 16` makes it of the same recording."
            .into(),
        ..Report::default()
    };
    let policies = [POLICIES[CLOCK], POLICIES[CLOCK_PRO], ("LIFO+", "lifo-plus"), POLICIES[APR]];
    let names = policies.map(|(_, policy)| policy);
    // By how much the window changes a policy's faults at most, in percent, and where.
    let mut most = policies.map(|_| (0.0_f64, String::new()));
    // The mean of what APR gains on CLOCK, by workload and version.
    let mut gains = Vec::new();
    for (workload, name) in [("cholesky", "cholesky-k1"), ("fft", "fft20-k1")] {
        let whole = lab.pgtr_trace(name)?;
        let versions =
            [("every run", Arc::clone(&whole)), ("window 16", Arc::new(lab.reduced(&whole, WINDOW)?))];
        let header = whole.header();
        let frames = |size: &MemorySize| size.frames(header.totals.distinct_pages, header.metadata.page_size);
        let frames = WINDOW_SIZES.iter().map(frames).collect::<Result<Vec<_>, _>>();
        let frames = frames.map_err(SweepError::from)?.concat();
        let measured = versions
            .iter()
            .map(|(version, trace)| Curves::at(lab, version, trace, &frames, &names))
            .collect::<Result<Vec<_>, _>>()?;
        for (policy, (name, _)) in policies.iter().enumerate() {
            let heading = measured.iter().map(|curves| curves.workload.to_string());
            let differences = measured[1..].iter().map(|curves| format!("{}, diff %", curves.workload));
            let mut table =
                Table::new(std::iter::once("pages".to_string()).chain(heading).chain(differences));
            for (size, frames) in frames.iter().enumerate() {
                let faults: Vec<_> = measured.iter().map(|curves| curves.faults[policy][size]).collect();
                let off: Vec<_> = faults[1..]
                    .iter()
                    .map(|other| 100.0 * (*other as f64 / faults[0] as f64 - 1.0))
                    .collect();
                if off[0].abs() > most[policy].0.abs() {
                    most[policy] = (off[0], format!("{workload} with {frames} pages"));
                }
                let cells =
                    faults.iter().map(u64::to_string).chain(off.iter().map(|off| format!("{off:+.2}")));
                table.row(std::iter::once(frames.to_string()).chain(cells));
            }
            report.tables.push((format!("{workload}, {name}."), table));
        }
        let of_version = |curves: &Curves| {
            (curves.workload, mean(curves.fewer(policies.len() - 1, 0).into_iter().flatten()))
        };
        gains.push((workload, measured.iter().map(of_version).collect::<Vec<_>>()));
        let kept =
            versions.iter().map(|(version, trace)| format!("{} ({version})", trace.header().totals.records));
        let kept = list(kept);
        report
            .notes
            .push(format!("{workload}: records {kept}; checksum with every run {:016x}.", header.checksum));
    }
    for ((name, _), (off, place)) in policies.iter().zip(&most) {
        let bound = if *name == "CLOCK" { 0.1 } else { 2.0 };
        report.check(
            format!("a window of 16 changes the faults of {name} by at most {bound} % from 128 pages up"),
            off.abs() <= bound,
            if *off == 0.0 { "not at all".to_string() } else { format!("at most {off:+.2} %, {place}") },
        );
    }
    let spread = |gains: &Vec<(&str, f64)>| {
        gains.iter().map(|(_, gain)| (gain - gains[0].1).abs()).fold(0.0, f64::max)
    };
    report.check(
        "the mean that APR gains on CLOCK over these sizes is the same with every window, within a point",
        gains.iter().all(|(_, gains)| spread(gains) <= 1.0),
        list(gains.iter().map(|(workload, gains)| {
            let gains = list(gains.iter().map(|(version, gain)| format!("{gain:.1} % ({version})")));
            format!("{workload} {gains}")
        })),
    );
    Ok(report)
}

fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}
