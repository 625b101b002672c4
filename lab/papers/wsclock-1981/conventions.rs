//! What the WSCLOCK items share: seeds, thetas and policies; how they are run; and the tables and
//! claims that several items have.
//!
//! Conventions: the paper's configurations A, B and C (Table 1) with folded programs (`runs.rs`),
//! 50 tasks in the same order in every run, intervals (IRIM) of omega 5000 unless stated otherwise,
//! means over seeds of service times and I/O. A difference is taken seed by seed; its 95 %
//! confidence interval goes into the verdict.

use crate::wsclock_1981_runs::{
    IO_INTERVAL_REFS, IO_LOAD, Line, NAMES, configuration, lines, travel, utilization,
};
use crate::{Bar, Error, Lab, Limit, Measurement, Report};
use sweephand_machine::{Configuration, Outcome};
use sweephand_results::Table;

pub(crate) const FOLDER: &str = "wsclock-1981";

/// What the paper compares: pure WS, the same with LT/RT, WSCLOCK with LT/RT.
pub(crate) const POLICIES: [(&str, &str); 3] =
    [("WS", "ws:lt-rt=off"), ("WS + LT/RT", "ws"), ("WSCLOCK + LT/RT", "wsclock")];
/// Where they stand there.
pub(crate) const PURE_WS: usize = 0;
pub(crate) const WS: usize = 1;
pub(crate) const WSCLOCK: usize = 2;

/// Seeds of everything.
pub(crate) const SEEDS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// Windows of the sweeps. Those of Table 2 are among them: 200, 600, 700 and 2000 thousand.
pub(crate) const THETAS: [u64; 8] =
    [50_000, 100_000, 200_000, 400_000, 600_000, 700_000, 1_000_000, 2_000_000];

/// Theta of the paper's peak of WSCLOCK, by configuration (Table 2): where parameters are compared.
pub(crate) const THETA: [u64; 3] = [200_000, 700_000, 2_000_000];

/// Runs an item, and puts the runs that it used beside its result.
pub(crate) fn with_cells(lab: &Lab, run: fn(&Lab) -> Result<Report, Error>) -> Result<Report, Error> {
    lab.take_cells();
    let mut report = run(lab)?;
    report.cells = lab.take_cells();
    Ok(report)
}

/// The sweep over theta of a configuration, by policy.
pub(crate) fn sweep(lab: &Lab, number: usize) -> Result<Vec<Vec<Line>>, Error> {
    let configuration = configuration(number);
    POLICIES.iter().map(|(_, policy)| lines(lab, &configuration, policy, &THETAS, &SEEDS)).collect()
}

/// The line of the highest utilization.
pub(crate) fn peak(lines: &[Line]) -> &Line {
    lines.iter().max_by(|a, b| a.utilization().total_cmp(&b.utilization())).expect("a theta")
}

/// The line of a theta.
pub(crate) fn at(lines: &[Line], theta: u64) -> &Line {
    lines.iter().find(|line| line.theta == theta).expect("it is among them")
}

/// The three configurations as they were run. Their programs are noted as inputs.
pub(crate) fn describe(lab: &Lab) -> Result<String, Error> {
    let programs = configuration(0).tasks.programs;
    programs.iter().try_for_each(|program| lab.uses_bundled(program.trace()))?;
    let of = |number: usize| {
        let configuration = configuration(number);
        let (least, most) = configuration.devices.access_refs;
        format!("{} {} frames, access {least} to {most} references", NAMES[number], configuration.frames)
    };
    Ok(format!(
        "Configurations, as in Table 1: {}. Tasks: 50 of the eight programs in traces/tasks, eight neighbouring pages folded \
         into one (33 to 100 pages a task), 254 million references in all. A task asks for I/O every {IO_INTERVAL_REFS} \
         references on average, and a request takes {} times that. Differences are taken seed by seed, with their 95 % confidence interval.",
        [0, 1, 2].map(of).join("; "),
        IO_LOAD
    ))
}

/// The method of items that vary something at one theta.
pub(crate) fn method(lab: &Lab) -> Result<String, Error> {
    let thetas = THETA.map(|theta| (theta / 1000).to_string()).join(", ");
    Ok(format!("{}\nTheta {thetas} thousand references on A, B and C, as in Table 2.", describe(lab)?))
}

pub(crate) fn page_faults(run: &Outcome) -> f64 {
    run.page_faults as f64
}

pub(crate) fn deactivations(run: &Outcome) -> f64 {
    run.deactivations as f64
}

pub(crate) fn mean_mpl(run: &Outcome) -> f64 {
    run.mean_mpl
}

/// The pointer travel of a line, in words; policies without a hand have none.
pub(crate) fn travel_text(line: &Line) -> String {
    match line.mean(travel) {
        travel if travel.is_nan() => "-".into(),
        travel => format!("{travel:.1}"),
    }
}

/// The claim on pointer travel, of a line of each configuration. `with` says what was changed.
pub(crate) fn travel_claim(report: &mut Report, with: &str, lines: &[Line]) {
    let travels = NAMES.iter().zip(lines).map(|(name, line)| Measurement::mean(*name, &line.each(travel), 1));
    report.claim("ws03", Bar::Ours).numbers(
        format!("with {with} WSCLOCK looks at 13 frames for each page replaced, within 1 (in spirit: within a factor of 2)"),
        Limit::Between(12.0, 14.0),
        Some(Limit::Between(6.5, 26.0)),
        &travels.collect::<Vec<_>>(),
    );
}

/// Runs a policy at the paper's theta on the three configurations, each after a change. The results
/// are by configuration.
pub(crate) fn compared(
    lab: &Lab,
    change: impl Fn(&mut Configuration),
    policy: &str,
) -> Result<Vec<Line>, Error> {
    (0..NAMES.len())
        .map(|number| {
            let mut configuration = configuration(number);
            change(&mut configuration);
            Ok(lines(lab, &configuration, policy, &[THETA[number]], &SEEDS)?.remove(0))
        })
        .collect()
}

/// A name, how the configuration is changed, and the policy.
pub(crate) type Alternative = (&'static str, fn(&mut Configuration), &'static str);

/// Runs alternatives: their names, and their lines by configuration.
pub(crate) fn compared_all(
    lab: &Lab,
    alternatives: &[Alternative],
) -> Result<Vec<(&'static str, Vec<Line>)>, Error> {
    let run = |(name, change, policy): &Alternative| Ok((*name, compared(lab, change, policy)?));
    alternatives.iter().map(run).collect()
}

/// By seed, the mean over configurations of what `b` is more than `a` in utilization, in points.
pub(crate) fn difference(of: impl Into<String>, a: &[Line], b: &[Line]) -> Measurement {
    let of_seed = |run: usize| {
        let points = a.iter().zip(b).map(|(a, b)| utilization(&b.runs[run]) - utilization(&a.runs[run]));
        points.sum::<f64>() / a.len() as f64
    };
    Measurement::mean(of, &(0..SEEDS.len()).map(of_seed).collect::<Vec<_>>(), 2)
}

/// The mean over configurations.
pub(crate) fn overall(lines: &[Line]) -> f64 {
    lines.iter().map(Line::utilization).sum::<f64>() / lines.len() as f64
}

/// A table of alternatives: utilization on each configuration and their mean, then other columns.
pub(crate) fn alternatives(of: &str, others: &[&str]) -> Table {
    Table::new([of, "A", "B", "C", "mean"].into_iter().chain(others.iter().copied()))
}

/// Adds the row of an alternative, with the other columns.
pub(crate) fn alternative(
    table: &mut Table,
    name: &str,
    lines: &[Line],
    others: impl IntoIterator<Item = String>,
) {
    let cells = lines.iter().map(Line::utilization).chain([overall(lines)]);
    let cells = cells.map(|percent| format!("{percent:.1}"));
    table.row(std::iter::once(name.to_string()).chain(cells).chain(others));
}

/// A measure of each line, in words.
pub(crate) fn by_configuration(lines: &[Line], of: impl Fn(&Outcome) -> f64, decimals: usize) -> Vec<String> {
    lines.iter().map(|line| format!("{:.decimals$}", line.mean(&of))).collect()
}
