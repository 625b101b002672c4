//! Figure 4.2: refault distances.

use super::curves::{APR, CLOCK, CLOCK_PRO, POLICIES, TENS, WORKLOADS, list, sizes, traces};
use crate::verdict::mean;
use crate::{Bar, Error, Lab, Report};
use sweephand_results::Table;
use sweephand_sim::RefaultDistances;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
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
