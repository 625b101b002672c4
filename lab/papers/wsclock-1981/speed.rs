//! How fast intervals (IRIM) are simulated, on this machine.

use crate::live::machine;
use crate::wsclock_1981_conventions::FOLDER;
use crate::wsclock_1981_runs::{Timed, timed};
use crate::{Bar, Error, Item, Lab, Limit, Measurement, Report};
use sweephand_results::Table;

pub(crate) const ITEMS: &[Item] = &[Item {
    id: "wsclock/irim-speed",
    folder: FOLDER,
    title: "WSCLOCK 1981: the speed of simulating intervals (IRIM), of the paper's computer and of this one",
    run: irim_speed,
}];

/// References a second of the paper's processor.
const PAPER_REFS_PER_SECOND: f64 = 4e6;
const ROUNDS: usize = 5;

fn irim_speed(lab: &Lab) -> Result<Report, Error> {
    lab.sweephand()?;
    let mut report = Report {
        method: format!(
            "{}\nConfiguration B with folded programs, theta 700,000, one run after another by turns, {ROUNDS} rounds, one thread. Real time is \
             that of the paper's processor, 4 million references a second. Reading the programs is not counted.",
            machine()
        ),
        ..Report::default()
    };
    let mut table = Table::new(["policy", "string", "million references a second", "times real time"]);
    let mut ratios = Vec::new();
    let mut speeds = Vec::new();
    for policy in ["ws", "wsclock"] {
        let mut of_policy = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (intervals, speeds) in [false, true].into_iter().zip(&mut of_policy) {
                let Timed { references, seconds } = timed(policy, intervals)?;
                speeds.push(references as f64 / seconds);
            }
        }
        for (string, speeds) in ["every reference", "intervals"].iter().zip(&of_policy) {
            let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
            table.row([
                policy.to_string(),
                string.to_string(),
                format!("{:.0}", mean / 1e6),
                format!("{:.0}", mean / PAPER_REFS_PER_SECOND),
            ]);
        }
        let [full, intervals] = of_policy;
        let gained: Vec<f64> = full.iter().zip(&intervals).map(|(full, short)| short / full).collect();
        ratios.push(Measurement::mean(policy, &gained, 0));
        let times: Vec<f64> = intervals.iter().map(|speed| speed / PAPER_REFS_PER_SECOND).collect();
        speeds.push(Measurement::mean(policy, &times, 0));
    }
    report.tables.push(("Means over the rounds.".into(), table));
    report.claim("ws09", Bar::Paper).numbers(
        "intervals are simulated 10 times faster than real time, or more",
        Limit::AtLeast(10.0),
        None,
        &speeds,
    );
    report.claim("ws10", Bar::Ours).numbers(
        "intervals are simulated 100 to 400 times as fast as every reference: the paper's 10 times faster and 10 to 40 times slower than \
         real time (in spirit: 10 times or more)",
        Limit::Between(100.0, 400.0),
        Some(Limit::AtLeast(10.0)),
        &ratios,
    );
    Ok(report)
}
