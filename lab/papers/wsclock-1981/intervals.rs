//! Intervals (IRIM) against every reference.

use crate::wsclock_1981_conventions::{POLICIES, SEEDS, THETA, describe, page_faults};
use crate::wsclock_1981_runs::{NAMES, OMEGA, configuration, gain, lengths, lines};
use crate::{Bar, Error, Lab, Limit, Measurement, Report};
use sweephand_machine::Configuration;
use sweephand_results::Table;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!("{}\nOmega {OMEGA}; theta {} thousand references.", describe(lab)?, THETA[1] / 1000),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    let mut table = Table::new([
        "policy",
        "utilization, every reference",
        "intervals",
        "error, %",
        "page faults, every reference",
        "intervals",
        "error, %",
    ]);
    let mut errors = Vec::new();
    for (number, name) in NAMES.iter().enumerate() {
        let short = configuration(number);
        let full = Configuration { irim: 0, ..short.clone() };
        for (policy, spec) in &POLICIES[1..] {
            let [full, short] = [&full, &short].map(|of| lines(lab, of, spec, &THETA[1..2], &SEEDS));
            let (full, short) = (full?.remove(0), short?.remove(0));
            let error = gain(format!("{name} {policy}"), &full, &short);
            let error = Measurement { decimals: 2, ..error };
            let [full_faults, short_faults] = [&full, &short].map(|line| line.mean(page_faults));
            table.row([
                format!("{name}, {policy}"),
                format!("{:.2}", full.utilization()),
                format!("{:.2}", short.utilization()),
                format!("{:+.2} ± {:.2}", error.value, error.noise),
                format!("{full_faults:.0}"),
                format!("{short_faults:.0}"),
                format!("{:+.2}", 100.0 * (short_faults / full_faults - 1.0)),
            ]);
            errors.push(error);
        }
    }
    report.tables.push(("Utilization in percent, and page faults.".into(), table));
    let (references, transitions) = lengths(OMEGA)?;
    report.claim("ws11", Bar::Paper).numbers(
        "intervals in place of references change utilization by less than 1 percent (in spirit: 3)",
        Limit::Between(-1.0, 1.0),
        Some(Limit::Between(-3.0, 3.0)),
        &errors,
    );
    report.claim("ws09", Bar::Ours).numbers(
        "they are about 600 times shorter: 500 to 700 times (in spirit: 300 or more)",
        Limit::Between(500.0, 700.0),
        Some(Limit::AtLeast(300.0)),
        &[Measurement::exact("", references as f64 / transitions as f64, 0)],
    );
    report.notes.push(
        "Single runs with other seeds differ by more than a percent, and intervals change the order of events as another seed does. \
         The interval of each error says what twelve seeds can tell."
            .into(),
    );
    Ok(report)
}
