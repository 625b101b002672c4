//! R. W. Carr, J. L. Hennessy, "WSCLOCK: a simple and effective algorithm for virtual memory
//! management", 8th Symposium on Operating Systems Principles (SOSP), 1981.
//!
//! Conventions: the paper's configurations A, B and C (Table 1) with folded programs (`runs.rs`),
//! 50 tasks in the same order in every run, intervals (IRIM) of omega 5000 unless stated otherwise,
//! means over seeds of service times and I/O. A difference is taken seed by seed; its 95 %
//! confidence interval goes into the verdict.

use crate::wsclock_1981_runs::{
    IO_INTERVAL_REFS, IO_LOAD, Line, NAMES, OMEGA, busy, configuration, first_full, gain, lengths, lines,
    more, travel, utilization,
};
use crate::{Bar, Error, Figure, Item, Lab, Limit, Measurement, Published, Report, Scale};
use sweephand_machine::configuration::{Control, Deactivate, Discipline};
use sweephand_machine::{Configuration, Outcome};
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::Table;

pub(crate) const FOLDER: &str = "wsclock-1981";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "wsclock/table-2",
        folder: FOLDER,
        title: "WSCLOCK 1981, Table 2: peak performance of WS and WSCLOCK",
        run: |lab| with_cells(lab, table_2),
    },
    Item { id: "wsclock/figure-3", folder: FOLDER, title: FIGURES[0], run: |lab| figure(lab, 0) },
    Item { id: "wsclock/figure-4", folder: FOLDER, title: FIGURES[1], run: |lab| figure(lab, 1) },
    Item { id: "wsclock/figure-5", folder: FOLDER, title: FIGURES[2], run: |lab| figure(lab, 2) },
    Item {
        id: "wsclock/intervals",
        folder: FOLDER,
        title: "WSCLOCK 1981: intervals (IRIM) against every reference",
        run: |lab| with_cells(lab, intervals),
    },
    Item {
        id: "wsclock/deactivation",
        folder: FOLDER,
        title: "WSCLOCK 1981: which task to deactivate",
        run: |lab| with_cells(lab, deactivation),
    },
    Item {
        id: "wsclock/paging-queue",
        folder: FOLDER,
        title: "WSCLOCK 1981: which request to serve first",
        run: |lab| with_cells(lab, paging_queue),
    },
    Item {
        id: "wsclock/ltrt",
        folder: FOLDER,
        title: "WSCLOCK 1981: LT/RT control, tau and L, and K0",
        run: |lab| with_cells(lab, ltrt),
    },
    Item {
        id: "wsclock/alternatives",
        folder: FOLDER,
        title: "WSCLOCK 1981: global CLOCK, LT/RT alone, the 50 % rule, the list of cleaned pages",
        run: |lab| with_cells(lab, other_policies),
    },
];

const FIGURES: [&str; 3] = [
    "WSCLOCK 1981, Figure 3: utilization against theta, configuration A",
    "WSCLOCK 1981, Figure 4: utilization against theta, configuration B",
    "WSCLOCK 1981, Figure 5: utilization against theta, configuration C",
];

/// What the paper compares: pure WS, the same with LT/RT, WSCLOCK with LT/RT.
const POLICIES: [(&str, &str); 3] =
    [("WS", "ws:lt-rt=off"), ("WS + LT/RT", "ws"), ("WSCLOCK + LT/RT", "wsclock")];

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
fn sweep(lab: &Lab, number: usize) -> Result<Vec<Vec<Line>>, Error> {
    let configuration = configuration(number);
    POLICIES.iter().map(|(_, policy)| lines(lab, &configuration, policy, &THETAS, &SEEDS)).collect()
}

/// The line of the highest utilization.
pub(crate) fn peak(lines: &[Line]) -> &Line {
    lines.iter().max_by(|a, b| a.utilization().total_cmp(&b.utilization())).expect("a theta")
}

/// The line of a theta.
fn at(lines: &[Line], theta: u64) -> &Line {
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

pub(crate) fn page_faults(run: &Outcome) -> f64 {
    run.page_faults as f64
}

pub(crate) fn deactivations(run: &Outcome) -> f64 {
    run.deactivations as f64
}

pub(crate) fn mean_mpl(run: &Outcome) -> f64 {
    run.mean_mpl
}

/// A measure of a line, in words.
type Measure = fn(&Line) -> String;

fn table_2(lab: &Lab) -> Result<Report, Error> {
    let published = Published::read(include_str!("table-2.csv"));
    let sweeps = [0, 1, 2].map(|number| sweep(lab, number));
    let [a, b, c] = sweeps;
    let sweeps = [a?, b?, c?];
    let peaks: Vec<[&Line; 3]> =
        sweeps.iter().map(|sweep| [0, 1, 2].map(|policy: usize| peak(&sweep[policy]))).collect();

    let mut report = Report {
        method: format!(
            "{}\nEach policy at the theta of its highest utilization, of {} values. Both policies with LT/RT.",
            describe(lab)?,
            THETAS.len()
        ),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    let measures: [(&str, Measure); 7] = [
        ("theta, thousands of references", |line| (line.theta / 1000).to_string()),
        ("utilization", |line| format!("{:.3}", line.utilization() / 100.0)),
        ("mean MPL", |line| format!("{:.2}", line.mean(mean_mpl))),
        ("load control deactivations", |line| format!("{:.0}", line.mean(deactivations))),
        ("page faults", |line| format!("{:.0}", line.mean(page_faults))),
        ("pointer travel per replacement", |line| match line.mean(travel) {
            travel if travel.is_nan() => "-".into(),
            travel => format!("{travel:.1}"),
        }),
        ("WS scans", |line| format!("{:.0}", line.mean(|run| run.ws_scans as f64))),
    ];
    for (number, name) in NAMES.iter().enumerate() {
        let mut table = Table::new(["measure", "WS", "ours", "WSCLOCK", "ours"]);
        let columns = ["WS", "WSCLOCK"].map(|policy| published.column(&format!("{name}_{policy}")));
        for (row, (measure, of)) in measures.iter().enumerate() {
            let theirs = |policy: usize| match columns[policy][row] {
                number if number.is_nan() => "-".to_string(),
                number => number.to_string(),
            };
            let ours = |policy: usize| of(peaks[number][policy + 1]);
            table.row([measure.to_string(), theirs(0), ours(0), theirs(1), ours(1)]);
        }
        report.tables.push((format!("Configuration {name}."), table));
        report.beside((number, 1), (number, 2), Scale::Ratio);
        report.beside((number, 3), (number, 4), Scale::Ratio);
    }
    let mut table = Table::new([
        "configuration",
        "theta, thousands",
        "MPL, WS",
        "WSCLOCK",
        "faults, WS",
        "WSCLOCK",
        "deactivations, WS",
        "WSCLOCK",
        "devices busy, WS",
        "WSCLOCK",
    ]);
    for (number, name) in NAMES.iter().enumerate() {
        let [ws, wsclock] = [1, 2].map(|policy: usize| at(&sweeps[number][policy], THETA[number]));
        let pair = |of: &dyn Fn(&Line) -> String| [of(ws), of(wsclock)];
        let cells = [
            pair(&|line| format!("{:.2}", line.mean(mean_mpl))),
            pair(&|line| format!("{:.0}", line.mean(page_faults))),
            pair(&|line| format!("{:.0}", line.mean(deactivations))),
            pair(&|line| format!("{:.0} %", line.mean(|run| busy(run, 1)))),
        ];
        table.row([name.to_string(), (THETA[number] / 1000).to_string()].into_iter().chain(cells.concat()));
    }
    report.tables.push(("WS and WSCLOCK at one theta, near that of Table 2.".into(), table));

    let of = |number: usize| NAMES[number].to_string();
    let gains = [0, 1, 2].map(|number| gain(of(number), peaks[number][0], peaks[number][1]));
    report.claim("ws01", Bar::Paper).numbers(
        "LT/RT raises the peak utilization of pure WS by 5 to 20 percent (in spirit: raises it)",
        Limit::Between(5.0, 20.0),
        Some(Limit::AtLeast(0.0)),
        &gains,
    );
    let over = |other: usize| {
        let of_seed = |run: usize, number: usize| {
            let [a, b] = [0, 1].map(|policy: usize| peaks[number][policy].runs[run].utilization);
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
    report.claim("ws02", Bar::Paper).numbers(
        "at their peaks WS is 0 to 0.8 points of utilization above WSCLOCK (in spirit: within 2 points either way)",
        Limit::Between(0.0, 0.8),
        Some(Limit::Between(-2.0, 2.0)),
        &[0, 1, 2].map(|number| more(of(number), peaks[number][2], peaks[number][1], utilization, 2)),
    );
    let travels = |of: &dyn Fn(usize) -> Result<Line, Error>| {
        (0..NAMES.len())
            .map(|number| Ok(Measurement::mean(NAMES[number], &of(number)?.each(travel), 1)))
            .collect::<Result<Vec<_>, Error>>()
    };
    let fifo = travels(&|number| {
        let mut configuration = configuration(number);
        configuration.devices.queue = Discipline::Fifo;
        Ok(lines(lab, &configuration, "wsclock", &[peaks[number][2].theta], &SEEDS)?.remove(0))
    })?;
    let used = travels(&|number| Ok(peaks[number][2].clone()))?;
    let (bar, spirit) = (Limit::Between(12.0, 14.0), Limit::Between(6.5, 26.0));
    for (queue, found) in
        [("the queue of the paper (reads of running tasks first)", used), ("a queue in order of time", fifo)]
    {
        report.claim("ws03", Bar::Ours).numbers(
            format!("with {queue} WSCLOCK looks at 13 frames for each page replaced, within 1 (in spirit: within a factor of 2)"),
            bar,
            Some(spirit),
            &found,
        );
    }
    let mpls: Vec<Measurement> = (0..NAMES.len())
        .flat_map(|number| {
            [1, 2].map(|policy: usize| {
                let name = format!("{} {}", NAMES[number], ["", "WS", "WSCLOCK"][policy]);
                Measurement::mean(name, &peaks[number][policy].each(mean_mpl), 2)
            })
        })
        .collect();
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
            let [ws, wsclock] = [1, 2].map(|policy: usize| at(&sweeps[number][policy], THETA[number]));
            more(of(number), wsclock, ws, measure, 2)
        });
        report.claim("ws23", Bar::Paper).numbers(
            format!("at one theta WS has {what} than WSCLOCK"),
            Limit::AtLeast(0.0),
            None,
            &found,
        );
    }
    let theirs = [[200_000, 200_000], [600_000, 700_000], [2_000_000, 2_000_000]];
    let losses: Vec<Measurement> = (0..NAMES.len())
        .flat_map(|number| {
            let sweeps = &sweeps;
            [1, 2].map(|policy: usize| {
                let lines = &sweeps[number][policy];
                let name = format!("{} {}", NAMES[number], ["", "WS", "WSCLOCK"][policy]);
                more(name, at(lines, theirs[number][policy - 1]), peak(lines), utilization, 1)
            })
        })
        .collect();
    report.claim("ws25", Bar::Ours).numbers(
        "the paper's theta is best here too: our own best is at most 1 point of utilization above it (in spirit: 4 points)",
        Limit::AtMost(1.0),
        Some(Limit::AtMost(4.0)),
        &losses,
    );
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

/// Intervals against every reference.
fn intervals(lab: &Lab) -> Result<Report, Error> {
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

fn figure(lab: &Lab, number: usize) -> Result<Report, Error> {
    let sweep = sweep(lab, number)?;
    let name = NAMES[number];
    let mut report = Report {
        method: format!("{}\nThe paper prints curves; Table 2 has their peaks.", describe(lab)?),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    let mut table = Table::new(
        std::iter::once("theta, thousands of references").chain(POLICIES.iter().map(|(policy, _)| *policy)),
    );
    for (row, line) in sweep[0].iter().enumerate() {
        let cells = sweep.iter().map(|lines| {
            let found = Measurement::mean("", &lines[row].each(utilization), 1);
            format!("{:.1} ± {:.1}", found.value, found.noise)
        });
        table.row(std::iter::once((line.theta / 1000).to_string()).chain(cells));
    }
    report.tables.push((format!("Utilization in percent, configuration {name}."), table));

    let published = Published::read(include_str!("table-2.csv"));
    let lines = POLICIES.iter().zip(&sweep).map(|((policy, _), lines)| {
        let column = match *policy {
            "WS + LT/RT" => Some("WS"),
            "WSCLOCK + LT/RT" => Some("WSCLOCK"),
            _ => None,
        };
        let peak = column.map(|column| {
            let column = published.column(&format!("{name}_{column}"));
            (column[0], 100.0 * column[1])
        });
        ChartLine {
            name: policy.to_string(),
            points: lines.iter().map(|line| (line.theta as f64 / 1000.0, line.utilization())).collect(),
            published: peak.into_iter().collect(),
        }
    });
    let chart = LineChart {
        name: format!("Utilization against theta, configuration {name}"),
        x: "theta, thousands of references, logarithmic".into(),
        y: "utilization, %".into(),
        logarithmic: true,
        lines: lines.collect(),
    };
    report.figures.push(Figure {
        file: format!("figure-{}.svg", number + 3),
        name: chart.name.clone(),
        svg: plot_lines(&chart) + "\n",
    });

    let [ws, limited, wsclock] = [0, 1, 2].map(|policy: usize| peak(&sweep[policy]));
    let by_theta = |a: usize, b: usize| -> Vec<Measurement> {
        let pairs = sweep[a].iter().zip(&sweep[b]);
        pairs.map(|(a, b)| more(format!("{}:", b.theta / 1000), a, b, utilization, 1)).collect()
    };
    report.check(
        "LT/RT raises the utilization of pure WS at every theta",
        by_theta(0, 1).iter().all(|found| found.value > found.noise),
        "every interval lies above 0",
    );
    report.claim("ws22", Bar::Ours).numbers(
        if number == 0 {
            "the curve of WS + LT/RT lies above WSCLOCK's, by at most 2 points at each theta (in spirit: within 4 points either way)"
        } else {
            "the curves of WS + LT/RT and WSCLOCK coincide: within 1 point at each theta (in spirit: 4 points)"
        },
        if number == 0 { Limit::Between(0.0, 2.0) } else { Limit::Between(-1.0, 1.0) },
        Some(Limit::Between(-4.0, 4.0)),
        &by_theta(2, 1),
    );
    report.notes.push(format!(
        "Peaks: WS at theta {}, WS + LT/RT at {}, WSCLOCK at {} thousand references.",
        ws.theta / 1000,
        limited.theta / 1000,
        wsclock.theta / 1000
    ));
    Ok(report)
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

pub(crate) fn method(lab: &Lab) -> Result<String, Error> {
    let thetas = THETA.map(|theta| (theta / 1000).to_string()).join(", ");
    Ok(format!("{}\nTheta {thetas} thousand references on A, B and C, as in Table 2.", describe(lab)?))
}

/// A measure of each line, in words.
pub(crate) fn by_configuration(lines: &[Line], of: impl Fn(&Outcome) -> f64, decimals: usize) -> Vec<String> {
    lines.iter().map(|line| format!("{:.decimals$}", line.mean(&of))).collect()
}

fn deactivation(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    let mut losses = Vec::new();
    for (policy, spec) in POLICIES {
        let mut table = alternatives("deactivated", &["deactivations on A", "on B", "on C"]);
        let mut all = Vec::new();
        for (choice, name) in Deactivate::ALL {
            let found = compared(lab, |configuration| configuration.load_control.deactivate = choice, spec)?;
            alternative(&mut table, name, &found, by_configuration(&found, deactivations, 0));
            all.push((choice, name, found));
        }
        report.tables.push((format!("Utilization in percent, {policy}."), table));
        let (good, poor) = all.split_at(3);
        // The best of the poorer ones is the one to beat.
        let (_, best_poor, to_beat) =
            poor.iter().max_by(|a, b| overall(&a.2).total_cmp(&overall(&b.2))).expect("three");
        let found: Vec<_> = good.iter().map(|(_, name, lines)| difference(*name, to_beat, lines)).collect();
        report.claim("ws16", Bar::Paper).numbers(
            format!(
                "{policy}: smallest resident set, last activated and largest remaining slice are each better than the best of the \
                 others ({best_poor} here)"
            ),
            Limit::AtLeast(0.0),
            None,
            &found,
        );
        let (_, _, last) = all.iter().find(|(choice, ..)| *choice == Deactivate::Last).expect("it is one");
        let (_, _, best) = all.iter().max_by(|a, b| overall(&a.2).total_cmp(&overall(&b.2))).expect("six");
        losses.push(difference(policy, last, best));
    }
    report.claim("ws24", Bar::Ours).numbers(
        "one choice is best for all three policies: last activated is at most 0.5 points below the best of six (in spirit: 2 points)",
        Limit::AtMost(0.5),
        Some(Limit::AtMost(2.0)),
        &losses,
    );
    Ok(report)
}

fn paging_queue(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    let mut losses = Vec::new();
    for (policy, spec) in POLICIES {
        let mut table =
            alternatives("queue", &["travel on A", "on B", "on C", "devices busy on A, %", "on B", "on C"]);
        let mut all = Vec::new();
        for (discipline, name) in [
            (Discipline::Fifo, "in order of time"),
            (Discipline::ReadsFirst, "reads before writes"),
            (Discipline::RunFirst, "reads of running tasks, of loading tasks, writes"),
        ] {
            let found = compared(lab, |configuration| configuration.devices.queue = discipline, spec)?;
            let travels = found.iter().map(|line| match line.mean(travel) {
                travel if travel.is_nan() => "-".to_string(),
                travel => format!("{travel:.1}"),
            });
            let others = travels.chain(by_configuration(&found, |run| busy(run, 1), 0));
            alternative(&mut table, name, &found, others.collect::<Vec<_>>());
            all.push(found);
        }
        report.tables.push((format!("Utilization in percent, {policy}."), table));
        report.claim("ws17", Bar::Ours).numbers(
            format!("{policy}: reads before writes are clearly better than the order of time: by 1 point or more (in spirit: better)"),
            Limit::AtLeast(1.0),
            Some(Limit::AtLeast(0.0)),
            &[difference("points:", &all[0], &all[1])],
        );
        report.claim("ws17", Bar::Paper).numbers(
            format!("{policy}: reads of running tasks before those of loading tasks are better still"),
            Limit::AtLeast(0.0),
            None,
            &[difference("points:", &all[1], &all[2])],
        );
        let best = all.iter().max_by(|a, b| overall(a).total_cmp(&overall(b))).expect("three");
        losses.push(difference(policy, &all[2], best));
    }
    report.claim("ws24", Bar::Ours).numbers(
        "one queue is best for all three policies: reads of running tasks first is at most 0.5 points below the best",
        Limit::AtMost(0.5),
        None,
        &losses,
    );
    Ok(report)
}

fn ltrt(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };

    let taus = [0, 1_000, 5_000, 15_000, 30_000, 100_000];
    let mut table = alternatives("tau", &["mean MPL on A", "on B", "on C"]);
    let mut by_tau = Vec::new();
    for tau in taus {
        let found = compared(lab, |configuration| configuration.load_control.tau_refs = tau, "wsclock")?;
        alternative(&mut table, &tau.to_string(), &found, by_configuration(&found, mean_mpl, 2));
        by_tau.push(found);
    }
    report.tables.push(("Utilization in percent by tau (0: no task ever counts as loading).".into(), table));
    let to_chosen: Vec<_> =
        (0..3).map(|at| difference(format!("from {}:", taus[at]), &by_tau[at], &by_tau[3])).collect();
    report.claim("ws12", Bar::Ours).numbers(
        "tau = 15,000 is better than smaller ones (in spirit: at most 0.5 points worse)",
        Limit::AtLeast(0.0),
        Some(Limit::AtLeast(-0.5)),
        &to_chosen,
    );
    let beyond: Vec<_> =
        (4..6).map(|at| difference(format!("to {}:", taus[at]), &by_tau[3], &by_tau[at])).collect();
    report.claim("ws12", Bar::Ours).numbers(
        "utilization is flat from there to 100,000: within 1 point (in spirit: 3 points)",
        Limit::Between(-1.0, 1.0),
        Some(Limit::Between(-3.0, 3.0)),
        &beyond,
    );

    let limits = [1, 2, 3, 4, 8];
    for (devices, own_queues, slower, heading) in [
        (1, false, 1, "one paging device"),
        (2, false, 2, "two paging devices of half the speed, with one queue"),
        (2, true, 2, "two paging devices of half the speed, with a queue each"),
        (2, true, 1, "two paging devices of the full speed, with a queue each"),
    ] {
        let mut table = alternatives(
            "L",
            &[
                "mean MPL on A",
                "on B",
                "on C",
                "deactivations on A",
                "on B",
                "on C",
                "devices busy on A, %",
                "on B",
                "on C",
            ],
        );
        let others = |found: &[Line]| {
            [
                by_configuration(found, mean_mpl, 2),
                by_configuration(found, deactivations, 0),
                by_configuration(found, |run| busy(run, devices), 0),
            ]
            .concat()
        };
        let change = |limit: usize| {
            move |configuration: &mut Configuration| {
                configuration.load_control.loading_tasks = limit;
                configuration.devices.count = devices;
                configuration.devices.own_queues = own_queues;
                let (least, most) = configuration.devices.access_refs;
                configuration.devices.access_refs = (least * slower, most * slower);
            }
        };
        let mut by_limit = Vec::new();
        for limit in limits {
            let found = compared(lab, change(limit), "wsclock")?;
            alternative(&mut table, &limit.to_string(), &found, others(&found));
            by_limit.push(found);
        }
        let found = compared(lab, change(1), "wsclock:lt-rt=off")?;
        alternative(&mut table, "no limit", &found, others(&found));
        report.tables.push((format!("Utilization in percent by L, {heading}."), table));
        let over = |best: usize, other: usize| {
            difference(format!("over L = {}:", limits[other]), &by_limit[other], &by_limit[best])
        };
        if devices == 1 {
            report.claim("ws13", Bar::Paper).numbers(
                format!("with {heading} L = 1 is best (in spirit: at most 0.5 points below another)"),
                Limit::AtLeast(0.0),
                Some(Limit::AtLeast(-0.5)),
                &[1, 2, 3, 4].map(|other| over(0, other)),
            );
        } else {
            report.claim("ws14", Bar::Paper).numbers(
                format!("with {heading} L = 2 is better than L = 1"),
                Limit::AtLeast(0.0),
                None,
                &[over(1, 0)],
            );
            report.claim("ws14", Bar::Ours).numbers(
                format!(
                    "with {heading} L = 2 is much better than more: by 1 point or more (in spirit: better)"
                ),
                Limit::AtLeast(1.0),
                Some(Limit::AtLeast(0.0)),
                &[2, 3, 4].map(|other| over(1, other)),
            );
        }
    }

    let frames = [0, 5, 10, 20, 40];
    let mut table = alternatives("K0", &["deactivations on A", "on B", "on C"]);
    let mut by_k0 = Vec::new();
    for k0 in frames {
        let found = compared(lab, |configuration| configuration.load_control.k0_frames = k0, "wsclock")?;
        alternative(&mut table, &k0.to_string(), &found, by_configuration(&found, deactivations, 0));
        by_k0.push(found);
    }
    report.tables.push((
        "Utilization in percent by K0, the frames that activation has to leave unclaimed.".into(),
        table,
    ));
    let over = |other: usize| difference(format!("over {}:", frames[other]), &by_k0[other], &by_k0[0]);
    report.claim("ws15", Bar::Paper).numbers(
        "no free frames in reserve are best: K0 = 0 (in spirit: at most 0.5 points below another)",
        Limit::AtLeast(0.0),
        Some(Limit::AtLeast(-0.5)),
        &[1, 2, 3, 4].map(over),
    );
    Ok(report)
}

fn other_policies(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    let none = |configuration: &mut Configuration| configuration.load_control.control = Control::None;
    // Feedback that holds the devices' reads near half of what they can do.
    let half = |configuration: &mut Configuration| {
        configuration.load_control.feedback.low = 0.45;
        configuration.load_control.feedback.high = 0.55;
    };
    // Reads of WSCLOCK at its peaks are this share of what the devices can do.
    let higher = |configuration: &mut Configuration| {
        configuration.load_control.feedback.low = 0.55;
        configuration.load_control.feedback.high = 0.75;
    };
    let found = [
        ("WSCLOCK + LT/RT", compared(lab, |_| {}, "wsclock")?),
        ("WSCLOCK + LT/RT, list of cleaned pages", compared(lab, |_| {}, "wsclock:clean-list=on")?),
        ("WS + LT/RT", compared(lab, |_| {}, "ws")?),
        ("WS of use bits (practical) + LT/RT", compared(lab, |_| {}, "ws:lr=sampled")?),
        ("global CLOCK, feedback 35 to 65 % + LT/RT", compared(lab, |_| {}, "global-clock")?),
        ("global CLOCK, feedback 35 to 65 %", compared(lab, |_| {}, "global-clock:lt-rt=off")?),
        ("global CLOCK, 50 % rule (45 to 55 %)", compared(lab, half, "global-clock:lt-rt=off")?),
        ("global CLOCK, LT/RT alone", compared(lab, none, "global-clock")?),
        ("global CLOCK, feedback 55 to 75 % + LT/RT", compared(lab, higher, "global-clock")?),
    ];
    let mut table = alternatives(
        "policy and control",
        &["page faults on A", "on B", "on C", "mean MPL on A", "on B", "on C"],
    );
    for (name, lines) in &found {
        let others = [by_configuration(lines, page_faults, 0), by_configuration(lines, mean_mpl, 2)];
        alternative(&mut table, name, lines, others.concat());
    }
    report.tables.push(("Utilization in percent.".into(), table));
    let against = |name: &str| {
        let (_, other) = found.iter().find(|(of, _)| *of == name).expect("it was run");
        difference("WSCLOCK is above it by", other, &found[0].1)
    };
    report.claim("ws28", Bar::Ours).numbers(
        "the list of cleaned pages is not needed: it changes utilization by 1 point at most",
        Limit::Between(-1.0, 1.0),
        None,
        &[difference("with it", &found[0].1, &found[1].1)],
    );
    report.claim("ws26", Bar::Ours).numbers(
        "global CLOCK with LT/RT as its only control is viable, 0 to 5 points below WSCLOCK (in spirit: at most 10)",
        Limit::Between(0.0, 5.0),
        Some(Limit::Between(0.0, 10.0)),
        &[against("global CLOCK, LT/RT alone")],
    );
    for name in [
        "global CLOCK, feedback 35 to 65 %",
        "global CLOCK, feedback 55 to 75 % + LT/RT",
        "global CLOCK, 50 % rule (45 to 55 %)",
    ] {
        report.claim("ws29", Bar::Ours).numbers(
            format!("{name}: no better than WSCLOCK"),
            Limit::AtLeast(0.0),
            None,
            &[against(name)],
        );
    }
    let practical = &found[3].1;
    let faults = |lines: &[Line]| lines.iter().map(|line| line.mean(page_faults)).sum::<f64>();
    report.notes.push(format!(
        "What decides between WS and WSCLOCK: WS that knows last references from use bits alone, as WSCLOCK does, takes {:.0} faults on \
         the three configurations, pure WS {:.0} and WSCLOCK {:.0}.",
        faults(practical),
        faults(&found[2].1),
        faults(&found[0].1)
    ));
    Ok(report)
}
