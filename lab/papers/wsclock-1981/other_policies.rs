//! Other policies and other load controls beside the paper's.

use crate::wsclock_1981_conventions::{
    Alternative, SEEDS, alternative, alternatives, by_configuration, compared_all, difference, mean_mpl,
    method, page_faults,
};
use crate::{Bar, Error, Lab, Limit, Report};
use sweephand_machine::Configuration;
use sweephand_machine::configuration::Control;

const ALTERNATIVES: [Alternative; 9] = [
    ("WSCLOCK + LT/RT", |_| {}, "wsclock"),
    ("WSCLOCK + LT/RT, list of cleaned pages", |_| {}, "wsclock:clean-list=on"),
    ("WS + LT/RT", |_| {}, "ws"),
    ("WS of use bits (practical) + LT/RT", |_| {}, "ws:lr=sampled"),
    ("global CLOCK, feedback 35 to 65 % + LT/RT", |_| {}, "global-clock"),
    ("global CLOCK, feedback 35 to 65 %", |_| {}, "global-clock:lt-rt=off"),
    ("global CLOCK, 50 % rule (45 to 55 %)", half_busy, "global-clock:lt-rt=off"),
    ("global CLOCK, LT/RT alone", no_control, "global-clock"),
    ("global CLOCK, feedback 55 to 75 % + LT/RT", as_busy_as_wsclock, "global-clock"),
];

/// Those that are no better than WSCLOCK.
const NO_BETTER: [&str; 3] = [
    "global CLOCK, feedback 35 to 65 %",
    "global CLOCK, feedback 55 to 75 % + LT/RT",
    "global CLOCK, 50 % rule (45 to 55 %)",
];

fn no_control(configuration: &mut Configuration) {
    configuration.load_control.control = Control::None;
}

/// Feedback that holds the devices' reads near half of what they can do.
fn half_busy(configuration: &mut Configuration) {
    configuration.load_control.feedback.low = 0.45;
    configuration.load_control.feedback.high = 0.55;
}

/// Reads of WSCLOCK at its peaks are this share of what the devices can do.
fn as_busy_as_wsclock(configuration: &mut Configuration) {
    configuration.load_control.feedback.low = 0.55;
    configuration.load_control.feedback.high = 0.75;
}

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    let found = compared_all(lab, &ALTERNATIVES)?;
    let mut table = alternatives(
        "policy and control",
        &["page faults on A", "on B", "on C", "mean MPL on A", "on B", "on C"],
    );
    for (name, lines) in &found {
        let others = [by_configuration(lines, page_faults, 0), by_configuration(lines, mean_mpl, 2)];
        alternative(&mut table, name, lines, others.concat());
    }
    report.tables.push(("Utilization in percent.".into(), table));
    let of = |name: &str| &found.iter().find(|(of, _)| *of == name).expect("it was run").1;
    let wsclock = of("WSCLOCK + LT/RT");
    let against = |name: &str| difference("WSCLOCK is above it by", of(name), wsclock);
    report.claim("ws28", Bar::Ours).numbers(
        "the list of cleaned pages is not needed: it changes utilization by 1 point at most",
        Limit::Between(-1.0, 1.0),
        None,
        &[difference("with it", wsclock, of("WSCLOCK + LT/RT, list of cleaned pages"))],
    );
    report.claim("ws26", Bar::Ours).numbers(
        "global CLOCK with LT/RT as its only control is viable, 0 to 5 points below WSCLOCK (in spirit: at most 10)",
        Limit::Between(0.0, 5.0),
        Some(Limit::Between(0.0, 10.0)),
        &[against("global CLOCK, LT/RT alone")],
    );
    for name in NO_BETTER {
        report.claim("ws29", Bar::Ours).numbers(
            format!("{name}: no better than WSCLOCK"),
            Limit::AtLeast(0.0),
            None,
            &[against(name)],
        );
    }
    let faults = |name: &str| of(name).iter().map(|line| line.mean(page_faults)).sum::<f64>();
    report.notes.push(format!(
        "What decides between WS and WSCLOCK: WS that knows last references from use bits alone, as WSCLOCK does, takes {:.0} faults on \
         the three configurations, pure WS {:.0} and WSCLOCK {:.0}.",
        faults("WS of use bits (practical) + LT/RT"),
        faults("WS + LT/RT"),
        faults("WSCLOCK + LT/RT")
    ));
    Ok(report)
}
