//! Figure 4.1: page faults against memory size.

use super::curves::{
    APR, CLOCK, CLOCK_PRO, Curves, OPT, POLICIES, SEQ, WORKLOADS, list, of_workload, rate_text, traces,
};
use crate::{Bar, Error, Lab, Report};

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
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
    claims_on_some(&curves, &mut report);
    claim_on_most(&curves, &mut report);
    claim_on_saturation(&curves, &mut report);
    Ok(report)
}

/// The faults of a policy against another's on some workloads, as in "fft +1.0 %".
fn each(curves: &[Curves], workloads: &[&str], policy: usize, other: usize) -> String {
    list(workloads.iter().map(|workload| {
        format!("{workload} {:+.1} %", -of_workload(curves, workload).mean_fewer(policy, other))
    }))
}

/// What the thesis says of single workloads.
fn claims_on_some(curves: &[Curves], report: &mut Report) {
    let fewer = |workload: &str, policy, other| of_workload(curves, workload).mean_fewer(policy, other);
    let by_seq = ["fft", "radix"];
    report.claim("apr07", Bar::Paper).cases(
        "SEQ takes fewer faults than APR on fft and radix, mean over sizes",
        by_seq.map(|workload| fewer(workload, SEQ, APR) > 0.0),
        format!("against APR {}", each(curves, &by_seq, SEQ, APR)),
    );
    let consistent = ["lu_cb", "radiosity", "raytrace", "volrend", "water_nsquared"];
    let won = consistent.map(|workload| of_workload(curves, workload).sizes_won(APR));
    report.claim("apr08", Bar::Paper).cases(
        "APR takes no more faults than CLOCK, CLOCK-Pro and SEQ at any size on lu_cb, radiosity, raytrace, volrend, water_nsquared",
        won.map(|(sizes, won)| sizes == won),
        list(consistent.iter().zip(won).map(|(name, (sizes, won))| format!("{name} at {won} of {sizes} sizes"))),
    );
    let remarkable = ["cholesky", "ocean_ncp"];
    report.claim("apr09", Bar::Ours).cases(
        "APR is remarkably better than CLOCK on cholesky and ocean_ncp: by more than the thesis's mean of 22 %, mean over sizes",
        remarkable.map(|workload| fewer(workload, APR, CLOCK) > 22.0),
        each(curves, &remarkable, APR, CLOCK),
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
        format!("against CLOCK {}", each(curves, &WORKLOADS, CLOCK_PRO, CLOCK)),
    );
    let worse = ["cholesky", "ocean_cp", "radiosity"];
    report.claim("apr11", Bar::Paper).cases(
        "SEQ is worse than CLOCK on cholesky, ocean_cp and radiosity, mean over sizes",
        worse.map(|workload| fewer(workload, SEQ, CLOCK) < 0.0),
        format!("against CLOCK {}", each(curves, &WORKLOADS, SEQ, CLOCK)),
    );
    let close = ["radiosity", "water_nsquared"];
    report.claim("apr12", Bar::Ours).cases(
        "APR is close to OPT on radiosity and water_nsquared: at most 20 % more faults, mean over sizes",
        close.map(|workload| fewer(workload, APR, OPT) >= -20.0),
        format!("against OPT {}", each(curves, &WORKLOADS, APR, OPT)),
    );
}

/// What the thesis says of all of them.
fn claim_on_most(curves: &[Curves], report: &mut Report) {
    let markedly = |curve: &&Curves| curve.mean_fewer(APR, CLOCK) > 5.0;
    let improved = curves.iter().filter(markedly).count();
    report.claim("apr13", Bar::Paper).exact(
        "APR improves nine of the twelve workloads markedly (ours: by more than 5 % against CLOCK, mean over sizes)",
        improved >= 9,
        format!("{improved}: against CLOCK {}", each(curves, &WORKLOADS, APR, CLOCK)),
    );
}

/// Which workloads need less memory than they have pages.
fn claim_on_saturation(curves: &[Curves], report: &mut Report) {
    let saturated = |workload: &str| {
        let curve = of_workload(curves, workload);
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
}
