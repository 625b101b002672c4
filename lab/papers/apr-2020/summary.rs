//! How many faults fewer APR takes than others.

use super::curves::{
    APR, CLOCK, CLOCK_PRO, Curves, FEW_FAULTS, OPT, PERCENTS, POLICIES, SEQ, mean_fewer, of_workload,
    one_decimal, traces,
};
use crate::verdict::mean;
use crate::{Bar, Error, Lab, Limit, Measurement, Place, Report, Scale};
use sweephand_results::Table;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
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
    table_of_means(&curves, &mut report);
    let line = "Percent fewer faults of APR than of CLOCK, by memory size.";
    report.tables.push((line.into(), table_by_size(&curves)));
    tables_of_worst(lab, &curves, &mut report)?;
    claims_on_means(&curves, &mut report);
    water_check(&curves, &mut report);
    Ok(report)
}

/// The means beside the thesis's.
fn table_of_means(curves: &[Curves], report: &mut Report) {
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
    for curve in curves {
        row(curve.workload, &|policy, other| curve.mean_fewer(policy, other));
    }
    row("mean", &|policy, other| mean_fewer(curves, policy, other));
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
}

/// By workload and memory size.
fn table_by_size(curves: &[Curves]) -> Table {
    let mut by_size = Table::new(
        std::iter::once("workload".to_string()).chain(PERCENTS.map(|percent| format!("{percent} %"))),
    );
    for curve in curves {
        let fewer = curve.fewer(APR, CLOCK);
        let at = |percent: u32| curve.sizes.iter().position(|(size, _)| *size == percent);
        let cell = |percent| at(percent).and_then(|at| fewer[at]).map_or("-".into(), one_decimal);
        by_size.row(std::iter::once(curve.workload.to_string()).chain(PERCENTS.map(cell)));
    }
    by_size
}

/// Where APR does worst against each of the others, over time.
fn tables_of_worst(lab: &Lab, curves: &[Curves], report: &mut Report) -> Result<(), Error> {
    // The worst against each, once where it is the same workload and size.
    let mut worst_against: Vec<(Worst, String)> = Vec::new();
    for other in [CLOCK, CLOCK_PRO, SEQ] {
        let worst = Worst::of(curves, other, FEW_FAULTS).expect("some size has many faults");
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
    Ok(())
}

fn claims_on_means(curves: &[Curves], report: &mut Report) {
    let means = [CLOCK, CLOCK_PRO, SEQ].map(|other| mean_fewer(curves, APR, other));
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
}

/// How near APR is to OPT on water_nsquared.
fn water_check(curves: &[Curves], report: &mut Report) {
    let water = of_workload(curves, "water_nsquared");
    let at = water.sizes.iter().position(|(percent, _)| *percent == 20).expect("large enough");
    let above = -water.fewer(APR, OPT)[at].unwrap_or(f64::INFINITY);
    report.check(
        "APR is within 20 % of OPT on water_nsquared at 20 % of its pages",
        above <= 20.0,
        format!("{above:+.1} %"),
    );
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
