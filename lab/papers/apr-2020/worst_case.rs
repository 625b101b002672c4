//! Where APR is worse than CLOCK, where it is if no policy names a page twice, and what a fault
//! costs.

use super::curves::{APR, CLOCK, Curves, FEW_FAULTS, PERCENTS, POLICIES, WORKLOADS, one_decimal, traces};
use crate::kept::Counts;
use crate::{Error, Lab, Report};
use sweephand_results::Table;

/// Further recordings, of smaller inputs: the worst case is looked for in them too.
const SMALLER: [&str; 2] = ["lu_cb_1024", "lu_ncb_1024"];

/// APR if no policy names a page twice.
pub(super) const NAMED_ONCE: &str = "apr:preset=once";

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nAlso lu with n = 1024. Sizes from 5 to 95 % of the pages in steps of 5, those of at least eight windows of the trace. \
             APR's faults against CLOCK's (those while a frame was free left out) where CLOCK takes {FEW_FAULTS} or more. \
             Looks: entries of CLOCK's list and of the stacks looked at, for each fault.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let policies = [POLICIES[CLOCK].1, POLICIES[APR].1, NAMED_ONCE];
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

/// A policy against another one over some workloads, where the other takes [`FEW_FAULTS`] or more.
pub(super) struct WorstCells {
    cells: usize,
    /// How many of them are more than 12 % above.
    pub(super) above: usize,
    /// By how many percent the faults are more at most, and where.
    more: f64,
    place: String,
    /// Most looks a fault.
    pub(super) looks: f64,
}

impl WorstCells {
    pub(super) fn of(curves: &[Curves], policy: usize, other: usize) -> Self {
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

    pub(super) fn text(&self) -> String {
        if self.cells == 0 { "-".into() } else { format!("{:+.1} %, {}", self.more, self.place) }
    }
}
