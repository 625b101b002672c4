//! Table 2: the peak performance of WS and WSCLOCK, and what the paper says of it.

use crate::wsclock_1981_conventions::{
    PURE_WS, SEEDS, THETA, THETAS, WS, WSCLOCK, at, deactivations, describe, mean_mpl, page_faults, peak,
    sweep, travel_claim, travel_text,
};
use crate::wsclock_1981_runs::{
    IO_LOAD, Line, NAMES, busy, configuration, first_full, gain, lines, more, utilization,
};
use crate::{Bar, Error, Lab, Limit, Measurement, Published, Report, Scale};
use sweephand_machine::Outcome;
use sweephand_machine::configuration::Discipline;
use sweephand_results::Table;

/// A measure of a line, in words.
type Measure = fn(&Line) -> String;

/// The rows of the paper's table.
const MEASURES: [(&str, Measure); 7] = [
    ("theta, thousands of references", |line| (line.theta / 1000).to_string()),
    ("utilization", |line| format!("{:.3}", line.utilization() / 100.0)),
    ("mean MPL", |line| format!("{:.2}", line.mean(mean_mpl))),
    ("load control deactivations", |line| format!("{:.0}", line.mean(deactivations))),
    ("page faults", |line| format!("{:.0}", line.mean(page_faults))),
    ("pointer travel per replacement", travel_text),
    ("WS scans", |line| format!("{:.0}", line.mean(|run| run.ws_scans as f64))),
];

/// What is compared at one theta.
const AT_ONE_THETA: [(&str, Measure); 4] = [
    ("MPL", |line| format!("{:.2}", line.mean(mean_mpl))),
    ("faults", |line| format!("{:.0}", line.mean(page_faults))),
    ("deactivations", |line| format!("{:.0}", line.mean(deactivations))),
    ("devices busy", |line| format!("{:.0} %", line.mean(|run| busy(run, 1)))),
];

/// The columns of the paper's table: both policies have LT/RT.
const COLUMNS: [(&str, usize); 2] = [("WS", WS), ("WSCLOCK", WSCLOCK)];

/// The thetas of the paper's table, by configuration and column.
const PUBLISHED_THETA: [[u64; 2]; 3] = [[200_000, 200_000], [600_000, 700_000], [2_000_000, 2_000_000]];

/// The sweeps over theta, by configuration and policy.
struct Sweeps(Vec<Vec<Vec<Line>>>);

impl Sweeps {
    fn run(lab: &Lab) -> Result<Self, Error> {
        Ok(Self((0..NAMES.len()).map(|number| sweep(lab, number)).collect::<Result<_, _>>()?))
    }

    /// A policy at the theta of its highest utilization.
    fn peak(&self, number: usize, policy: usize) -> &Line {
        peak(&self.0[number][policy])
    }

    /// WS and WSCLOCK at one theta.
    fn at_one_theta(&self, number: usize) -> [&Line; 2] {
        [WS, WSCLOCK].map(|policy| at(&self.0[number][policy], THETA[number]))
    }
}

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let sweeps = Sweeps::run(lab)?;
    let mut report = Report {
        method: format!(
            "{}\nEach policy at the theta of its highest utilization, of {} values. Both policies with LT/RT.",
            describe(lab)?,
            THETAS.len()
        ),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    tables_of_peaks(&sweeps, &mut report);
    let line = "WS and WSCLOCK at one theta, near that of Table 2.";
    report.tables.push((line.into(), table_at_one_theta(&sweeps)));
    utilization_claims(&sweeps, &mut report);
    travel_claims(lab, &sweeps, &mut report)?;
    activity_claims(&sweeps, &mut report);
    theta_claim(&sweeps, &mut report);
    transient_claim(&mut report)?;
    report.notes.extend([
        "Pointer travel. Reads go first, so writes wait while any task waits for a page. The hand meets dirty pages again and again \
         until a circuit has found nothing clean. With a queue in order of time the writes take their turn, and the hand travels \
         less than half as far."
            .to_string(),
        format!(
            "Multiprogramming. I/O takes {IO_LOAD} times the time between two requests, which the paper does not say. At 66 to 70 % \
             utilization that keeps about five tasks in I/O, so that nine to ten are active where the paper has five."
        ),
    ]);
    Ok(report)
}

/// The paper's table of each configuration, with ours beside it.
fn tables_of_peaks(sweeps: &Sweeps, report: &mut Report) {
    let published = Published::read(include_str!("table-2.csv"));
    for (number, name) in NAMES.iter().enumerate() {
        let mut table = Table::new(["measure", "WS", "ours", "WSCLOCK", "ours"]);
        let columns = COLUMNS.map(|(policy, _)| published.column(&format!("{name}_{policy}")));
        for (row, (measure, of)) in MEASURES.iter().enumerate() {
            let theirs = |column: usize| match columns[column][row] {
                number if number.is_nan() => "-".to_string(),
                number => number.to_string(),
            };
            let ours = |column: usize| of(sweeps.peak(number, COLUMNS[column].1));
            table.row([measure.to_string(), theirs(0), ours(0), theirs(1), ours(1)]);
        }
        report.tables.push((format!("Configuration {name}."), table));
        report.beside((number, 1), (number, 2), Scale::Ratio);
        report.beside((number, 3), (number, 4), Scale::Ratio);
    }
}

fn table_at_one_theta(sweeps: &Sweeps) -> Table {
    let headings = AT_ONE_THETA.iter().flat_map(|(what, _)| [format!("{what}, WS"), "WSCLOCK".into()]);
    let mut table =
        Table::new(["configuration".to_string(), "theta, thousands".into()].into_iter().chain(headings));
    for (number, name) in NAMES.iter().enumerate() {
        let lines = sweeps.at_one_theta(number);
        let cells = AT_ONE_THETA.into_iter().flat_map(|(_, of)| lines.map(of));
        table.row([name.to_string(), (THETA[number] / 1000).to_string()].into_iter().chain(cells));
    }
    table
}

/// What LT/RT gains, and how far apart WS and WSCLOCK are.
fn utilization_claims(sweeps: &Sweeps, report: &mut Report) {
    let gains =
        [0, 1, 2].map(|number| gain(NAMES[number], sweeps.peak(number, PURE_WS), sweeps.peak(number, WS)));
    report.claim("ws01", Bar::Paper).numbers(
        "LT/RT raises the peak utilization of pure WS by 5 to 20 percent (in spirit: raises it)",
        Limit::Between(5.0, 20.0),
        Some(Limit::AtLeast(0.0)),
        &gains,
    );
    let over = |other: usize| {
        let of_seed = |run: usize, number: usize| {
            let [a, b] = [PURE_WS, WS].map(|policy| sweeps.peak(number, policy).runs[run].utilization);
            100.0 * (b - a) / a
        };
        let differences: Vec<f64> =
            (0..SEEDS.len()).map(|run| of_seed(run, 2) - of_seed(run, other)).collect();
        Measurement::mean(format!("over {}", NAMES[other]), &differences, 1)
    };
    report.claim("ws01", Bar::Paper).numbers(
        "its gain is largest on C",
        Limit::AtLeast(0.0),
        None,
        &[over(0), over(1)],
    );
    let above = |number: usize| {
        more(NAMES[number], sweeps.peak(number, WSCLOCK), sweeps.peak(number, WS), utilization, 2)
    };
    report.claim("ws02", Bar::Paper).numbers(
        "at their peaks WS is 0 to 0.8 points of utilization above WSCLOCK (in spirit: within 2 points either way)",
        Limit::Between(0.0, 0.8),
        Some(Limit::Between(-2.0, 2.0)),
        &[0, 1, 2].map(above),
    );
}

/// How far the hand of WSCLOCK travels, with two queues of the paging devices.
fn travel_claims(lab: &Lab, sweeps: &Sweeps, report: &mut Report) -> Result<(), Error> {
    let used: Vec<Line> = (0..NAMES.len()).map(|number| sweeps.peak(number, WSCLOCK).clone()).collect();
    let fifo = used.iter().enumerate().map(|(number, peak)| {
        let mut configuration = configuration(number);
        configuration.devices.queue = Discipline::Fifo;
        Ok(lines(lab, &configuration, "wsclock", &[peak.theta], &SEEDS)?.remove(0))
    });
    let fifo = fifo.collect::<Result<Vec<_>, Error>>()?;
    travel_claim(report, "the queue of the paper (reads of running tasks first)", &used);
    travel_claim(report, "a queue in order of time", &fifo);
    Ok(())
}

/// A measurement of each configuration and column, which have the name that `of` is given.
fn by_column(of: impl Fn(String, usize, usize) -> Measurement) -> Vec<Measurement> {
    let of =
        |number: usize, column: usize| of(format!("{} {}", NAMES[number], COLUMNS[column].0), number, column);
    (0..NAMES.len()).flat_map(|number| [0, 1].map(|column| of(number, column))).collect()
}

/// How many tasks are active, and what WS has more of than WSCLOCK.
fn activity_claims(sweeps: &Sweeps, report: &mut Report) {
    let mpls = by_column(|name, number, column| {
        Measurement::mean(name, &sweeps.peak(number, COLUMNS[column].1).each(mean_mpl), 2)
    });
    report.claim("ws18", Bar::Ours).numbers(
        "about five tasks are active at the peak: 4 to 6 (in spirit: 2.5 to 10)",
        Limit::Between(4.0, 6.0),
        Some(Limit::Between(2.5, 10.0)),
        &mpls,
    );
    for (what, measure) in [
        ("a higher multiprogramming level", mean_mpl as fn(&Outcome) -> f64),
        ("more page faults", page_faults),
        ("more deactivations", deactivations),
    ] {
        let found = [0, 1, 2].map(|number| {
            let [ws, wsclock] = sweeps.at_one_theta(number);
            more(NAMES[number], wsclock, ws, measure, 2)
        });
        report.claim("ws23", Bar::Paper).numbers(
            format!("at one theta WS has {what} than WSCLOCK"),
            Limit::AtLeast(0.0),
            None,
            &found,
        );
    }
}

/// What the paper's theta loses to our own best.
fn theta_claim(sweeps: &Sweeps, report: &mut Report) {
    let losses = by_column(|name, number, column| {
        let lines = &sweeps.0[number][COLUMNS[column].1];
        more(name, at(lines, PUBLISHED_THETA[number][column]), peak(lines), utilization, 1)
    });
    report.claim("ws25", Bar::Ours).numbers(
        "the paper's theta is best here too: our own best is at most 1 point of utilization above it (in spirit: 4 points)",
        Limit::AtMost(1.0),
        Some(Limit::AtMost(4.0)),
        &losses,
    );
}

/// When memory is first full.
fn transient_claim(report: &mut Report) -> Result<(), Error> {
    let full = (0..NAMES.len()).map(|number| {
        let time = first_full(&configuration(number), "wsclock", SEEDS[0])?;
        Ok(Measurement::exact(NAMES[number], time / 1e6, 1))
    });
    report.claim("ws08", Bar::Paper).numbers(
        "the transient at the start is shorter than 20 million references: memory is full by then (in spirit: within 30)",
        Limit::AtMost(20.0),
        Some(Limit::AtMost(30.0)),
        &full.collect::<Result<Vec<_>, Error>>()?,
    );
    Ok(())
}
