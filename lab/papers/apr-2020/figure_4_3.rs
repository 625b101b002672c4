//! Figure 4.3: the decay factor.

use super::curves::{Curves, FEW_FAULTS, TENS, WORKLOADS, list, traces};
use crate::{Bar, Error, Lab, Report};

/// Decay factors of Figure 4.3. The default comes by its plain name, so that it is not simulated
/// again.
const DECAYS: [(&str, &str); 5] = [
    ("0.1", "apr:decay=0.1"),
    ("0.3", "apr:decay=0.3"),
    ("0.5", "apr:decay=0.5"),
    ("0.7", "apr"),
    ("0.9", "apr:decay=0.9"),
];

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
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
