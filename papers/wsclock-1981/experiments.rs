//! R. W. Carr, J. L. Hennessy, "WSCLOCK: a simple and effective algorithm for virtual memory
//! management", 8th Symposium on Operating Systems Principles (SOSP), 1981.
//!
//! Conventions: the built-in configurations A, B and C (`sweephand multiprogram --print A`), 50
//! tasks in the same order in every run, intervals (IRIM) of omega 5000 unless stated otherwise,
//! means over seeds of service times and I/O.

use crate::{Bar, Error, Item, Lab, Published, Report, Scale};
use std::sync::Mutex;
use sweephand_machine::configuration::{Deactivate, Discipline};
use sweephand_machine::{Cell, Configuration, Job, Outcome, Workload};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_results::Table;
use sweephand_trace::Interrupt;

const FOLDER: &str = "wsclock-1981";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "wsclock/table-2",
        folder: FOLDER,
        title: "WSCLOCK 1981, Table 2: peak performance of WS and WSCLOCK",
        run: table_2,
    },
    Item { id: "wsclock/figure-3", folder: FOLDER, title: FIGURES[0], run: |lab| figure(lab, 0) },
    Item { id: "wsclock/figure-4", folder: FOLDER, title: FIGURES[1], run: |lab| figure(lab, 1) },
    Item { id: "wsclock/figure-5", folder: FOLDER, title: FIGURES[2], run: |lab| figure(lab, 2) },
    Item {
        id: "wsclock/deactivation",
        folder: FOLDER,
        title: "WSCLOCK 1981: which task to deactivate",
        run: deactivation,
    },
    Item {
        id: "wsclock/paging-queue",
        folder: FOLDER,
        title: "WSCLOCK 1981: which request to serve first",
        run: paging_queue,
    },
    Item {
        id: "wsclock/ltrt",
        folder: FOLDER,
        title: "WSCLOCK 1981: LT/RT control, tau and L, and K0",
        run: ltrt,
    },
];

const FIGURES: [&str; 3] = [
    "WSCLOCK 1981, Figure 3: utilization against theta, configuration A",
    "WSCLOCK 1981, Figure 4: utilization against theta, configuration B",
    "WSCLOCK 1981, Figure 5: utilization against theta, configuration C",
];

/// The configurations.
const NAMES: [&str; 3] = ["A", "B", "C"];

/// What the figures compare: pure WS, the same with LT/RT, WSCLOCK with LT/RT.
const POLICIES: [(&str, &str); 3] =
    [("WS", "ws:lt-rt=off"), ("WS + LT/RT", "ws"), ("WSCLOCK + LT/RT", "wsclock")];

/// Seeds of a sweep over theta.
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];

/// Seeds of the comparison of intervals with references: more, as single runs spread by more than
/// the error.
const MANY_SEEDS: [u64; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// A theta near the peak of WSCLOCK for each configuration, at which parameters are compared.
const NEAR_PEAK: [u64; 3] = [500_000, 700_000, 100_000];

/// The runs of one line of a table.
#[derive(Clone, Debug)]
struct Line {
    theta: u64,
    runs: Vec<Outcome>,
}

/// A measure of a line, in words.
type Measure = fn(&Line) -> String;

impl Line {
    fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len() as f64
    }

    fn utilization(&self) -> f64 {
        self.mean(|run| run.utilization)
    }

    /// How far the mean of the utilization is from being known: the square of its standard error.
    fn variance_of_mean(&self) -> f64 {
        let (mean, count) = (self.utilization(), self.runs.len() as f64);
        self.runs.iter().map(|run| (run.utilization - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
    }

    /// Pages looked at for each page replaced.
    fn travel(&self) -> f64 {
        self.mean(|run| run.pointer_travel().unwrap_or(f64::NAN))
    }
}

/// The workload of a configuration, after a change to it. Its intervals are made once.
fn workload(configuration: usize, change: impl FnOnce(&mut Configuration)) -> Result<Workload, Error> {
    static INTERVALS: Mutex<Option<Vec<Job>>> = Mutex::new(None);
    let mut configuration = Configuration::built_in(NAMES[configuration]).expect("it is built in");
    let omega = configuration.irim;
    change(&mut configuration);
    if configuration.irim != omega {
        return Ok(Workload::open(configuration)?);
    }
    // The programs, their order and their I/O are the same in all three.
    let mut made = INTERVALS.lock().expect("no thread panics while it holds the lock");
    let jobs = match &*made {
        Some(jobs) => jobs.clone(),
        None => made.insert(Workload::open(configuration.clone())?.jobs).clone(),
    };
    Ok(Workload { configuration, jobs, interrupt: Interrupt::default() })
}

/// Runs a policy with every theta and seed. The results are by theta.
fn lines(workload: &Workload, policy: &str, thetas: &[u64], seeds: &[u64]) -> Result<Vec<Line>, Error> {
    let policy = TaskSpec::parse(policy).map_err(sweephand_machine::MachineError::from)?;
    let cell = |theta, seed| Cell { policy: policy.with_theta(Some(theta)), seed };
    let cells: Vec<_> =
        thetas.iter().flat_map(|&theta| seeds.iter().map(move |&seed| (theta, seed))).collect();
    let cells: Vec<_> = cells.into_iter().map(|(theta, seed)| cell(theta, seed)).collect();
    let results = workload.run_all(&cells, 0, &|| {})?;
    let runs = results.chunks(seeds.len()).map(|runs| runs.iter().map(|(outcome, _)| *outcome).collect());
    Ok(thetas.iter().zip(runs).map(|(&theta, runs)| Line { theta, runs }).collect())
}

/// One line: a policy at one theta.
fn line(workload: &Workload, policy: &str, theta: u64, seeds: &[u64]) -> Result<Line, Error> {
    Ok(lines(workload, policy, &[theta], seeds)?.remove(0))
}

/// The sweep over theta of a configuration, by policy; made once, for the table and its figure.
fn sweep(configuration: usize) -> Result<Vec<Vec<Line>>, Error> {
    static MADE: Mutex<[Option<Vec<Vec<Line>>>; 3]> = Mutex::new([None, None, None]);
    let mut made = MADE.lock().expect("no thread panics while it holds the lock");
    if let Some(sweep) = &made[configuration] {
        return Ok(sweep.clone());
    }
    let workload = workload(configuration, |_| {})?;
    let thetas = &workload.configuration.theta;
    let by_policy = POLICIES.iter().map(|(_, policy)| lines(&workload, policy, thetas, &SEEDS));
    let sweep: Vec<_> = by_policy.collect::<Result<_, _>>()?;
    made[configuration] = Some(sweep.clone());
    Ok(sweep)
}

/// The line of the highest utilization.
fn peak(lines: &[Line]) -> &Line {
    lines.iter().max_by(|a, b| a.utilization().total_cmp(&b.utilization())).expect("a theta")
}

/// The three configurations as they were run. Their programs are noted as inputs.
fn describe(lab: &Lab) -> Result<String, Error> {
    let programs = Configuration::built_in(NAMES[0]).expect("it is built in").tasks.programs;
    programs.iter().try_for_each(|program| lab.uses_bundled(program.trace()))?;
    let of = |name: &&str| {
        let configuration = Configuration::built_in(name).expect("it is built in");
        let (least, most) = configuration.devices.access_refs;
        format!("{name} {} frames, access {least} to {most} references", configuration.frames)
    };
    Ok(format!(
        "Configurations: {}. Tasks: 50 of the eight programs in traces/tasks, 254 million references in all.",
        NAMES.iter().map(of).collect::<Vec<_>>().join("; ")
    ))
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// Gain of `b` over `a` in percent of `a`.
fn gain(a: f64, b: f64) -> f64 {
    100.0 * (b - a) / a
}

/// Values in words: `1.2, 3.4 and 5.6`.
fn listed(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<_> = values.into_iter().collect();
    match values.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => values.concat(),
    }
}

fn table_2(lab: &Lab) -> Result<Report, Error> {
    let published = Published::read(include_str!("table-2.csv"));
    let sweeps = [0, 1, 2].map(sweep);
    let [a, b, c] = sweeps;
    let sweeps = [a?, b?, c?];
    let peaks: Vec<[&Line; 3]> =
        sweeps.iter().map(|sweep| [0, 1, 2].map(|policy: usize| peak(&sweep[policy]))).collect();

    let mut report = Report {
        method: format!(
            "{}\nMeans over seeds {SEEDS:?}; each policy at the theta of its highest utilization. Both policies with LT/RT.",
            describe(lab)?
        ),
        // Those of the sweeps are among them.
        seeds: MANY_SEEDS.to_vec(),
        ..Report::default()
    };
    let measures: [(&str, Measure); 7] = [
        ("theta, thousands of references", |line| (line.theta / 1000).to_string()),
        ("utilization", |line| format!("{:.3}", line.utilization())),
        ("mean MPL", |line| format!("{:.2}", line.mean(|run| run.mean_mpl))),
        ("load control deactivations", |line| format!("{:.0}", line.mean(|run| run.deactivations as f64))),
        ("page faults", |line| format!("{:.0}", line.mean(|run| run.page_faults as f64))),
        ("pointer travel per replacement", |line| match line.travel() {
            travel if travel.is_nan() => "-".into(),
            travel => format!("{travel:.1}"),
        }),
        ("WS scans", |line| format!("{:.0}", line.mean(|run| run.ws_scans as f64))),
    ];
    for (configuration, name) in NAMES.iter().enumerate() {
        let mut table = Table::new(["measure", "WS", "ours", "WSCLOCK", "ours"]);
        let columns = ["WS", "WSCLOCK"].map(|policy| published.column(&format!("{name}_{policy}")));
        for (row, (measure, of)) in measures.iter().enumerate() {
            let theirs = |policy: usize| match columns[policy][row] {
                number if number.is_nan() => "-".to_string(),
                number => number.to_string(),
            };
            let ours = |policy: usize| of(peaks[configuration][policy + 1]);
            table.row([measure.to_string(), theirs(0), ours(0), theirs(1), ours(1)]);
        }
        report.tables.push((format!("Configuration {name}."), table));
        report.beside((configuration, 1), (configuration, 2), Scale::Ratio);
        report.beside((configuration, 3), (configuration, 4), Scale::Ratio);
    }

    let gains = peaks
        .iter()
        .map(|[ws, limited, _]| gain(ws.utilization(), limited.utilization()))
        .collect::<Vec<_>>();
    report.claim("ws01", Bar::Paper).exact(
        "LT/RT raises the peak utilization of pure WS by 5 to 20 percent",
        gains.iter().all(|gain| (5.0..=20.0).contains(gain)),
        format!("{} percent on A, B and C", listed(gains.iter().map(|gain| format!("{gain:.1}")))),
    );
    report.claim("ws01", Bar::Paper).exact(
        "its gain is largest on C",
        gains[2] > gains[0].max(gains[1]),
        format!("{:.1} percent against {:.1} and {:.1}", gains[2], gains[0], gains[1]),
    );
    let differences: Vec<_> =
        peaks.iter().map(|[_, ws, wsclock]| 100.0 * (ws.utilization() - wsclock.utilization())).collect();
    report.claim("ws02", Bar::Paper).exact(
        "at their peaks WS is 0 to 0.8 points of utilization above WSCLOCK",
        differences.iter().all(|difference| (-0.05..=0.85).contains(difference)),
        format!(
            "{} points on A, B and C",
            listed(differences.iter().map(|difference| format!("{difference:+.1}")))
        ),
    );
    let travels: Vec<_> = peaks.iter().map(|[_, _, wsclock]| wsclock.travel()).collect();
    report.claim("ws03", Bar::Ours).exact(
        "WSCLOCK looks at about 13 frames for each page replaced, nearly constant over configurations",
        travels.iter().all(|travel| (10.0..=16.0).contains(travel)),
        listed(travels.iter().map(|travel| format!("{travel:.1}"))),
    );
    let mpls: Vec<_> =
        peaks.iter().flat_map(|of| of[1..].iter()).map(|line| line.mean(|run| run.mean_mpl)).collect();
    report.claim("ws18", Bar::Ours).exact(
        "about five tasks are active",
        mpls.iter().all(|mpl| (4.0..=6.0).contains(mpl)),
        format!("{} (WS and WSCLOCK, by configuration)", listed(mpls.iter().map(|mpl| format!("{mpl:.2}")))),
    );
    let utilizations: Vec<_> =
        peaks.iter().flat_map(|of| of[1..].iter()).map(|line| line.utilization()).collect();
    report.check(
        "utilization is about 60 percent",
        utilizations.iter().all(|utilization| (0.55..=0.65).contains(utilization)),
        format!("{} percent", listed(utilizations.iter().map(|&utilization| percent(utilization)))),
    );
    let workload = workload(0, |configuration| configuration.irim = 0)?;
    let references = workload.references();
    report.claim("ws07", Bar::Paper).exact(
        "50 tasks of eight programs are more than 270 million references, about 5 million each",
        references > 270_000_000,
        format!("{:.1} million, {:.2} each", references as f64 / 1e6, references as f64 / 50e6),
    );
    start_up(&mut report, &peaks)?;
    intervals(&mut report)?;
    report.notes.extend([
        "Pointer travel. Where the devices are busy nearly all the time and reads go first, a dirty page is written only when a whole \
         circuit has found nothing clean: one circuit for each page written is most of the travel. With a queue in order of \
         time (`wsclock/paging-queue` has that column) writes take their turn, the hand meets pages that are clean, and it travels an order of \
         magnitude less. Whether it is 13 or 300 is decided by the spare capacity of the devices, not by the algorithm."
            .to_string(),
        "Page faults. Today's programs touch 155 to 617 pages in five million references; 3,940 faults of 50 tasks leave the paper's at most 79. \
         So two thirds and more of our faults are first touches, where in the paper (A) most were pages that had been lost."
            .to_string(),
        "LT/RT. Without it more than twenty tasks are active on C, all of them waiting for one slow device; the slower the device and the larger \
         memory, the more there is to gain."
            .to_string(),
        "The start. To fill C's memory takes its device 23 million references at least, in the paper's measures as in ours (350 frames of 65,000, \
         1,050 of 21,667), so the paper's transient must have been something else than that."
            .to_string(),
        "Deactivations on C. Memory is large enough there for what LT/RT lets in; nothing is overcommitted.".to_string(),
    ]);
    Ok(report)
}

/// How long memory takes to fill: the transient at the start.
fn start_up(report: &mut Report, peaks: &[[&Line; 3]]) -> Result<(), Error> {
    let mut full = Vec::new();
    for (configuration, of) in peaks.iter().enumerate() {
        let workload = workload(configuration, |_| {})?;
        let policy = TaskSpec::parse("wsclock").map_err(sweephand_machine::MachineError::from)?;
        let cell = Cell { policy: policy.with_theta(Some(of[2].theta)), seed: SEEDS[0] };
        let (_, samples) = workload.run(&cell, 100_000)?;
        let first = samples.iter().find(|sample| sample.free_frames == 0);
        full.push(first.map_or(f64::INFINITY, |sample| sample.time_refs as f64 / 1e6));
    }
    report.claim("ws08", Bar::Paper).exact(
        "the transient at the start is shorter than 20 million references",
        full.iter().all(|&time| time < 20.0),
        format!(
            "memory is first full after {} million",
            listed(full.iter().map(|time| format!("{time:.1}")))
        ),
    );
    Ok(())
}

/// Theta of the comparison of intervals with references.
const INTERVALS_THETA: u64 = 500_000;

/// Intervals against every reference.
fn intervals(report: &mut Report) -> Result<(), Error> {
    let mut table = Table::new([
        "policy",
        "utilization, every reference",
        "intervals",
        "error, %",
        "standard error, %",
        "page faults, every reference",
        "intervals",
        "error, %",
    ]);
    let mut errors = Vec::new();
    for (configuration, name) in NAMES.iter().enumerate() {
        let by_reference = workload(configuration, |configuration| configuration.irim = 0)?;
        let by_intervals = workload(configuration, |_| {})?;
        for (policy, spec) in &POLICIES[1..] {
            let [full, short] = [&by_reference, &by_intervals]
                .map(|workload| line(workload, spec, INTERVALS_THETA, &MANY_SEEDS));
            let (full, short) = (full?, short?);
            let faults = |line: &Line| line.mean(|run| run.page_faults as f64);
            let error = gain(full.utilization(), short.utilization());
            let spread = (full.variance_of_mean() + short.variance_of_mean()).sqrt() / full.utilization();
            errors.push(error.abs());
            table.row([
                format!("{name}, {policy}"),
                format!("{:.4}", full.utilization()),
                format!("{:.4}", short.utilization()),
                format!("{error:+.2}"),
                format!("{:.2}", 100.0 * spread),
                format!("{:.0}", faults(&full)),
                format!("{:.0}", faults(&short)),
                format!("{:+.2}", gain(faults(&full), faults(&short))),
            ]);
        }
    }
    let heading = format!(
        "Intervals (IRIM, omega 5000) against every reference: theta {INTERVALS_THETA}, means over seeds 1 to {}.",
        MANY_SEEDS.len()
    );
    report.tables.push((heading, table));
    let largest = errors.iter().copied().fold(0.0, f64::max);
    report.claim("ws11", Bar::Paper).exact(
        "intervals in place of references change utilization by less than 1 percent",
        largest < 1.0,
        format!("by at most {largest:.2} percent"),
    );
    Ok(())
}

fn figure(lab: &Lab, configuration: usize) -> Result<Report, Error> {
    let sweep = sweep(configuration)?;
    let name = NAMES[configuration];
    let mut report = Report {
        method: format!(
            "{}\nMeans over seeds {SEEDS:?}. The paper prints curves, no numbers.",
            describe(lab)?
        ),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    let mut table = Table::new(
        std::iter::once("theta, thousands of references").chain(POLICIES.iter().map(|(policy, _)| *policy)),
    );
    for (row, line) in sweep[0].iter().enumerate() {
        let cells = sweep.iter().map(|lines| percent(lines[row].utilization()));
        table.row(std::iter::once((line.theta / 1000).to_string()).chain(cells));
    }
    report.tables.push((format!("Utilization in percent, configuration {name}."), table));
    let [ws, limited, wsclock] = [0, 1, 2].map(|policy: usize| peak(&sweep[policy]));
    let raised = gain(ws.utilization(), limited.utilization());
    report.claim("ws01", Bar::Paper).exact(
        "LT/RT raises the peak of pure WS by 5 to 20 percent",
        (5.0..=20.0).contains(&raised),
        format!("{} to {}: {raised:.1} percent", percent(ws.utilization()), percent(limited.utilization())),
    );
    let everywhere =
        sweep[0].iter().zip(&sweep[1]).all(|(ws, limited)| ws.utilization() < limited.utilization());
    let least =
        sweep[0].iter().zip(&sweep[1]).map(|(ws, limited)| gain(ws.utilization(), limited.utilization()));
    report.check(
        "it helps at every theta",
        everywhere,
        format!("by at least {:.1} percent", least.fold(f64::INFINITY, f64::min)),
    );
    let difference = 100.0 * (limited.utilization() - wsclock.utilization());
    report.claim("ws02", Bar::Paper).exact(
        "at their peaks WS is 0 to 0.8 points above WSCLOCK",
        (-0.05..=0.85).contains(&difference),
        format!(
            "{} against {}: {difference:+.1}",
            percent(limited.utilization()),
            percent(wsclock.utilization())
        ),
    );
    report.notes.push(format!(
        "Peaks: WS at theta {}, WS + LT/RT at {}, WSCLOCK at {} thousand references.",
        ws.theta / 1000,
        limited.theta / 1000,
        wsclock.theta / 1000
    ));
    let lowest = sweep.iter().flatten().map(Line::utilization).fold(f64::INFINITY, f64::min);
    let highest = sweep.iter().flatten().map(Line::utilization).fold(0.0, f64::max);
    let drawn = POLICIES.iter().zip(&sweep).map(|((policy, _), lines)| {
        let bar = |line: &Line| {
            let height = (line.utilization() - lowest) / (highest - lowest);
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][(8.0 * height).min(7.0) as usize]
        };
        format!("    {} {policy}", lines.iter().map(bar).collect::<String>())
    });
    report.notes.push(drawn.collect::<Vec<_>>().join("\n"));
    Ok(report)
}

/// Runs WSCLOCK near its peak on the three configurations, each after a change. The results are by
/// configuration.
fn compared(change: impl Fn(&mut Configuration), policy: &str) -> Result<Vec<Line>, Error> {
    (0..NAMES.len())
        .map(|configuration| {
            let workload = workload(configuration, &change)?;
            line(&workload, policy, NEAR_PEAK[configuration], &SEEDS)
        })
        .collect()
}

/// The mean over configurations.
fn overall(lines: &[Line]) -> f64 {
    lines.iter().map(Line::utilization).sum::<f64>() / lines.len() as f64
}

/// Paging devices at work, on average over time.
fn busy(run: &Outcome) -> f64 {
    run.device_busy_refs as f64 / run.elapsed_refs as f64
}

/// A table of alternatives: utilization on each configuration and their mean, then other columns.
fn alternatives(of: &str, others: &[&str]) -> Table {
    Table::new([of, "A", "B", "C", "mean"].into_iter().chain(others.iter().copied()))
}

fn alternative(table: &mut Table, name: &str, lines: &[Line], others: impl IntoIterator<Item = String>) {
    let cells = lines.iter().map(|line| percent(line.utilization())).chain([percent(overall(lines))]);
    table.row(std::iter::once(name.to_string()).chain(cells).chain(others));
}

fn method(lab: &Lab, policy: &str) -> Result<String, Error> {
    let thetas = NEAR_PEAK.map(|theta| (theta / 1000).to_string()).join(", ");
    Ok(format!(
        "{}\n{policy}, theta {thetas} thousand references on A, B and C; means over seeds {SEEDS:?}.",
        describe(lab)?
    ))
}

fn deactivation(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: method(lab, "WSCLOCK with LT/RT, and pure WS without, which overcommits memory more often")?,
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    for (policy, spec) in [("WSCLOCK + LT/RT", "wsclock"), ("WS", "ws:lt-rt=off")] {
        let mut table = alternatives("deactivated", &["deactivations on A", "on B", "on C"]);
        let mut means = Vec::new();
        for (choice, name) in Deactivate::ALL {
            let lines = compared(|configuration| configuration.load_control.deactivate = choice, spec)?;
            let deactivations =
                lines.iter().map(|line| format!("{:.0}", line.mean(|run| run.deactivations as f64)));
            alternative(&mut table, name, &lines, deactivations);
            means.push(overall(&lines));
        }
        report.tables.push((format!("Utilization in percent, {policy}."), table));
        let (good, poor) = means.split_at(3);
        let least_good = good.iter().copied().fold(f64::INFINITY, f64::min);
        let most_poor = poor.iter().copied().fold(0.0, f64::max);
        report.claim("ws16", Bar::Paper).exact(
            format!("{policy}: smallest resident set, last activated and largest remaining slice are all better than the three others"),
            least_good > most_poor,
            format!("the least of the good ones {}, the best of the others {} percent", percent(least_good), percent(most_poor)),
        );
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        report.claim("ws16", Bar::Ours).exact(
            format!("{policy}: those three are better on average"),
            mean(good) > mean(poor),
            format!("{} against {} percent", percent(mean(good)), percent(mean(poor))),
        );
    }
    Ok(report)
}

fn paging_queue(lab: &Lab) -> Result<Report, Error> {
    let mut report =
        Report { method: method(lab, "WSCLOCK with LT/RT")?, seeds: SEEDS.to_vec(), ..Report::default() };
    let mut table =
        alternatives("queue", &["pointer travel on A", "on B", "on C", "devices busy on A", "on B", "on C"]);
    let mut means = Vec::new();
    for (discipline, name) in [
        (Discipline::Fifo, "in order of time"),
        (Discipline::ReadsFirst, "reads before writes"),
        (Discipline::RunFirst, "reads of running tasks, of loading tasks, writes"),
    ] {
        let lines = compared(|configuration| configuration.devices.queue = discipline, "wsclock")?;
        let travel = lines.iter().map(|line| format!("{:.1}", line.travel()));
        let busy = lines.iter().map(|line| percent(line.mean(busy)));
        alternative(&mut table, name, &lines, travel.chain(busy).collect::<Vec<_>>());
        means.push(overall(&lines));
    }
    report.tables.push(("Utilization in percent.".into(), table));
    let [fifo, reads_first, run_first] = [means[0], means[1], means[2]];
    let against = |a: f64, b: f64| format!("{} against {} percent", percent(a), percent(b));
    report.claim("ws17", Bar::Ours).exact(
        "reads before writes are clearly better than the order of time",
        gain(fifo, reads_first) > 1.0,
        against(reads_first, fifo),
    );
    report.claim("ws17", Bar::Paper).exact(
        "reads of running tasks before those of loading tasks are slightly better still",
        run_first > reads_first,
        against(run_first, reads_first),
    );
    report.notes.push(
        "The devices work nearly all the time, and a write that is put off is still to be done: reads first only change which of the two \
         waits, and make the hand travel whole circuits (a page is written when nothing clean is left). What counts is whose read goes \
         first: a running task goes on for long with one page, a loading task faults again at once."
            .to_string(),
    );
    Ok(report)
}

fn ltrt(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab, "WSCLOCK")?, seeds: SEEDS.to_vec(), ..Report::default() };

    let taus = [0, 1_000, 2_500, 5_000, 10_000, 15_000, 30_000, 60_000, 100_000];
    let mut table = alternatives("tau", &["mean MPL on A", "on B", "on C"]);
    let mut by_tau = Vec::new();
    for tau in taus {
        let lines = compared(|configuration| configuration.load_control.tau_refs = tau, "wsclock")?;
        let mpl = lines.iter().map(|line| format!("{:.2}", line.mean(|run| run.mean_mpl)));
        alternative(&mut table, &tau.to_string(), &lines, mpl);
        by_tau.push(overall(&lines));
    }
    report.tables.push(("Utilization in percent by tau (0: no task ever counts as loading).".into(), table));
    let (upto, beyond) = (&by_tau[..6], &by_tau[5..]);
    report.claim("ws12", Bar::Ours).exact(
        "utilization improves with tau from 0 to 15,000",
        upto.windows(2).all(|pair| pair[1] > pair[0] - 0.005) && upto[5] > upto[0],
        format!("{} percent", listed(upto.iter().map(|&mean| percent(mean)))),
    );
    let spread = beyond.iter().copied().fold(0.0, f64::max) - beyond.iter().copied().fold(1.0, f64::min);
    report.claim("ws12", Bar::Ours).exact(
        "it is flat from there to 100,000: within two points",
        spread < 0.02,
        format!("{} percent", listed(beyond.iter().map(|&mean| percent(mean)))),
    );

    let limits = [1, 2, 3, 4, 8];
    for devices in [1, 2] {
        let of_each = [
            "mean MPL on A",
            "on B",
            "on C",
            "deactivations on A",
            "on B",
            "on C",
            "devices busy on A",
            "on B",
            "on C",
        ];
        let mut table = alternatives("L", &of_each);
        let others = |lines: &[Line]| {
            let of = |measure: &dyn Fn(&Line) -> String| lines.iter().map(measure).collect::<Vec<_>>();
            let mpl = of(&|line| format!("{:.2}", line.mean(|run| run.mean_mpl)));
            let deactivations = of(&|line| format!("{:.0}", line.mean(|run| run.deactivations as f64)));
            let busy = of(&|line| percent(line.mean(busy) / devices as f64));
            [mpl, deactivations, busy].concat()
        };
        let mut by_limit = Vec::new();
        let change = |limit: usize| {
            move |configuration: &mut Configuration| {
                configuration.load_control.loading_tasks = limit;
                configuration.devices.count = devices;
                // Two devices of half the speed, each with its share of the load.
                let (least, most) = configuration.devices.access_refs;
                configuration.devices.access_refs = (least * devices as u64, most * devices as u64);
            }
        };
        for limit in limits {
            let lines = compared(change(limit), "wsclock")?;
            alternative(&mut table, &limit.to_string(), &lines, others(&lines));
            by_limit.push(overall(&lines));
        }
        let lines = compared(change(1), "wsclock:lt-rt=off")?;
        alternative(&mut table, "no limit", &lines, others(&lines));
        let plural = if devices == 1 { "one paging device" } else { "two paging devices, each half as fast" };
        report.tables.push((format!("Utilization in percent by L, {plural}."), table));
        let best = (0..limits.len()).max_by(|&a, &b| by_limit[a].total_cmp(&by_limit[b])).expect("a limit");
        let found = format!(
            "{} percent for L = 1, 2, 3, 4 and 8",
            listed(by_limit.iter().map(|&mean| percent(mean)))
        );
        if devices == 1 {
            report.claim("ws13", Bar::Paper).exact("with one paging device L = 1 is best", best == 0, found);
        } else {
            report.claim("ws14", Bar::Paper).exact("with two paging devices L = 2 is best", best == 1, found);
        }
    }

    let mut table = alternatives("K0", &["deactivations on A", "on B", "on C"]);
    let mut by_k0 = Vec::new();
    for k0 in [0, 15, 30, 60, 120] {
        let lines = compared(|configuration| configuration.load_control.k0_frames = k0, "wsclock")?;
        let deactivations =
            lines.iter().map(|line| format!("{:.0}", line.mean(|run| run.deactivations as f64)));
        alternative(&mut table, &k0.to_string(), &lines, deactivations);
        by_k0.push(overall(&lines));
    }
    report.tables.push((
        "Utilization in percent by K0, the frames that activation has to leave unclaimed.".into(),
        table,
    ));
    report.claim("ws15", Bar::Paper).exact(
        "no free frames in reserve are best: K0 = 0",
        by_k0[1..].iter().all(|&mean| mean <= by_k0[0]),
        format!(
            "{} percent for 0, 15, 30, 60 and 120 frames",
            listed(by_k0.iter().map(|&mean| percent(mean)))
        ),
    );
    Ok(report)
}
