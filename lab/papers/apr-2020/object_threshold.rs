//! From which size on an allocation is an object of its own.

use super::curves::{Curves, TENS, WORKLOADS, list, one_decimal, traces};
use crate::lab::Change;
use crate::verdict::mean;
use crate::workload::of_large_objects;
use crate::{Error, Lab, Report};
use std::sync::Arc;
use sweephand_results::Table;

/// Least sizes of objects, above the thesis's 40 KiB: what the traces were recorded with. Without
/// objects all pages are of one.
const THRESHOLDS: [(&str, Change); 4] = [
    ("160 KiB", Change { name: "objects-160K", make: of_large_objects::<160> }),
    ("640 KiB", Change { name: "objects-640K", make: of_large_objects::<640> }),
    ("2.5 MiB", Change { name: "objects-2560K", make: of_large_objects::<2560> }),
    ("none", Change { name: "objects-none", make: of_large_objects::<{ u64::MAX }> }),
];

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
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
