//! What the thesis leaves open, one way and the other.

use super::curves::{Curves, TENS, WORKLOADS, mean_fewer, one_decimal, traces};
use super::worst_case::{NAMED_ONCE, WorstCells};
use crate::{Error, Lab, Report};
use sweephand_results::Table;

/// APR, and how else the thesis can be read.
const READINGS: [(&str, &str); 6] = [
    ("APR", "apr"),
    ("pages are named once", NAMED_ONCE),
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

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
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
    let mean_over = |policy, other| mean_fewer(&curves, policy, other);

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
