//! What the differences from the WSCLOCK paper come from: its machine and its programs, varied.
//!
//! `conventions.rs` has the conventions and what is shared.

use crate::wsclock_1981_conventions::{
    Alternative, FOLDER, SEEDS, THETA, THETAS, alternative, alternatives, by_configuration, compared_all,
    deactivations, describe, difference, mean_mpl, method, page_faults, peak, travel_claim, travel_text,
    with_cells,
};
use crate::wsclock_1981_runs::{
    FOLD, IO_INTERVAL_REFS, IO_LOAD, Line, NAMES, busy, configuration, gain, lines, lines_folded, set_io,
    travel,
};
use crate::{Bar, Error, Item, Lab, Limit, Measurement, Published, Report};
use std::ops::RangeInclusive;
use sweephand_machine::Configuration;
use sweephand_machine::configuration::{Discipline, ProgramFile};
use sweephand_results::Table;

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "wsclock/model",
        folder: FOLDER,
        title: "WSCLOCK 1981: without reclaim, writes coupled to reads, a ready queue of levels, measured I/O",
        run: |lab| with_cells(lab, model),
    },
    Item {
        id: "wsclock/folding",
        folder: FOLDER,
        title: "WSCLOCK 1981: programs of other sizes, and what the differences from Table 2 come from",
        run: |lab| with_cells(lab, folding),
    },
    Item {
        id: "wsclock/io",
        folder: FOLDER,
        title: "WSCLOCK 1981: how often tasks ask for I/O",
        run: |lab| with_cells(lab, io),
    },
];

/// A time slice that is over several times before a program ends.
const SHORT_SLICE_REFS: u64 = 500_000;

/// The models that are compared. A claim names them by their places.
const MODELS: [Alternative; 12] = [
    ("WS + LT/RT", |_| {}, "ws"),
    ("WS + LT/RT without reclaim", |configuration| configuration.load_control.no_reclaim = true, "ws"),
    ("WSCLOCK + LT/RT", |_| {}, "wsclock"),
    (
        "WSCLOCK + LT/RT, writes coupled to reads",
        |configuration| configuration.devices.coupled_writes = true,
        "wsclock",
    ),
    ("WSCLOCK + LT/RT, slices of 500,000", set_slices::<1>, "wsclock"),
    ("the same with a ready queue of three levels", set_slices::<3>, "wsclock"),
    ("WS + LT/RT, slices of 500,000", set_slices::<1>, "ws"),
    ("the same with a ready queue of three levels", set_slices::<3>, "ws"),
    ("WSCLOCK + LT/RT, I/O in proportion to the measured", set_own_io::<true>, "wsclock"),
    ("WS + LT/RT, I/O in proportion to the measured", set_own_io::<true>, "ws"),
    ("WSCLOCK + LT/RT, I/O as measured", set_own_io::<false>, "wsclock"),
    ("WS + LT/RT, I/O as measured", set_own_io::<false>, "ws"),
];
/// Where the one with coupled writes stands there.
const COUPLED: usize = 3;

fn set_slices<const LEVELS: usize>(configuration: &mut Configuration) {
    configuration.processor.slice_refs = SHORT_SLICE_REFS;
    configuration.processor.ready_levels = LEVELS;
}

/// The I/O requests of the recorded programs, as they were counted.
fn counted_requests() -> Vec<f64> {
    Published::read(include_str!("io.csv")).column("requests")
}

/// Gives each program the I/O requests that were counted; or requests in proportion to these, with
/// the mean of the other items. Every program has about 5,100,000 references.
fn set_own_io<const IN_PROPORTION: bool>(configuration: &mut Configuration) {
    let requests = counted_requests();
    let references = 5_100_000.0;
    let all = references * requests.len() as f64 / IO_INTERVAL_REFS as f64;
    let factor = if IN_PROPORTION { all / requests.iter().sum::<f64>() } else { 1.0 };
    let programs = std::mem::take(&mut configuration.tasks.programs);
    let with_io = programs.iter().zip(&requests).map(|(program, count)| ProgramFile::WithIo {
        trace: program.trace().to_owned(),
        io_interval_refs: (references / (count * factor)).round() as u64,
    });
    configuration.tasks.programs = with_io.collect();
    configuration.name += if IN_PROPORTION { " with I/O in proportion" } else { " with I/O as measured" };
}

fn model(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nI/O requests as measured: calls of the recorded programs that read, write or open files, counted by `io.sh` ({} in about \
             five million references each).",
            method(lab)?,
            counted_requests().iter().map(|count| format!("{count:.0}")).collect::<Vec<_>>().join(", ")
        ),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    let rows = compared_all(lab, &MODELS)?;
    let mut table = alternatives(
        "model",
        &["page faults on A", "on B", "on C", "mean MPL on A", "on B", "on C", "travel on A", "on B", "on C"],
    );
    for (name, lines) in &rows {
        let others = [by_configuration(lines, page_faults, 0), by_configuration(lines, mean_mpl, 2)].concat();
        alternative(&mut table, name, lines, others.into_iter().chain(lines.iter().map(travel_text)));
    }
    report.tables.push(("Utilization in percent.".into(), table));
    model_claims(&rows, &mut report);
    report.notes.push(
        "Without reclaim a page that has left its working set, or whose task is not active, is gone at once; a dirty one when it has been \
         written, unless it was used again before. Coupled, a request takes two transfers where the frame that it gets was dirty. With \
         levels a task goes one down with each slice that it uses up, and a ready task of a higher level comes first; the paper names \
         such a queue and does not describe it."
            .into(),
    );
    Ok(report)
}

fn model_claims(rows: &[(&str, Vec<Line>)], report: &mut Report) {
    let gained = |of: &str, from: usize, to: usize| difference(of, &rows[from].1, &rows[to].1);
    report.claim("ws27", Bar::Ours).numbers(
        "a model of WS without reclaim underestimates its utilization: by 1 point or more (in spirit: at all)",
        Limit::AtLeast(1.0),
        Some(Limit::AtLeast(0.0)),
        &[gained("points:", 1, 0)],
    );
    report.claim("ws30", Bar::Ours).numbers(
        "writing dirty pages ahead is better than writing them with the read that needs their frame (in spirit: no worse, within 1 point)",
        Limit::AtLeast(0.0),
        Some(Limit::AtLeast(-1.0)),
        &[gained("points:", 3, 2)],
    );
    report.claim("ws02", Bar::Ours).numbers(
        "with slices, with levels, and with I/O of each program's own WS stays 0 to 2 points above WSCLOCK (in spirit: within 4 points)",
        Limit::Between(0.0, 2.0),
        Some(Limit::Between(-4.0, 4.0)),
        &[
            gained("slices:", 4, 6),
            gained("three levels:", 5, 7),
            gained("I/O in proportion:", 8, 9),
            gained("I/O as measured:", 10, 11),
        ],
    );
    travel_claim(report, "writes coupled to reads", &rows[COUPLED].1);
}

/// Pages taken for one, and the I/O load that makes WSCLOCK's utilization peak near 60 %, if any
/// does.
const FOLDS: [(u64, f64); 4] = [(4, 3.3), (6, 5.3), (FOLD, IO_LOAD), (12, 13.0)];

/// Seeds of what is varied most.
const FEWER_SEEDS: &[u64] = SEEDS.split_at(6).0;

fn folding(lab: &Lab) -> Result<Report, Error> {
    let folds = FOLDS.map(|(fold, load)| format!("{fold} pages, {load} times")).join("; ");
    let mut report = Report {
        method: format!(
            "{}\nHere other numbers of pages are taken for one, and I/O takes a multiple of the time between two requests: {folds}.\nWSCLOCK + \
             LT/RT at the theta of its highest utilization, of {} values.",
            describe(lab)?,
            THETAS.len()
        ),
        seeds: FEWER_SEEDS.to_vec(),
        ..Report::default()
    };
    let ratios = tables_of_folds(lab, &mut report)?;
    fold_claim(&ratios, &mut report);
    let (fold, load) = FOLDS[0];
    let changes = format!("{fold} pages for one and a queue in order of time, at the paper's theta,");
    travel_claim(&mut report, &changes, &in_order_of_time(lab, fold, load)?);
    report.tables.push((
        format!("The paper's number of active tasks, forced: {FOLD} pages for one, the paper's theta."),
        table_of_forced(lab)?,
    ));
    Ok(report)
}

/// What a fold's active tasks and page faults on a configuration are to the paper's.
struct Ratios {
    fold: u64,
    mpl: f64,
    faults: f64,
}

impl Ratios {
    /// Within a quarter.
    const NEAR: RangeInclusive<f64> = 0.75..=1.25;

    fn is_near_in_mpl(&self) -> bool {
        Self::NEAR.contains(&self.mpl)
    }

    fn is_near_in_faults(&self) -> bool {
        Self::NEAR.contains(&self.faults)
    }

    fn is_near(&self) -> bool {
        self.is_near_in_mpl() && self.is_near_in_faults()
    }
}

/// The tables of the configurations, with the paper's numbers below ours.
fn tables_of_folds(lab: &Lab, report: &mut Report) -> Result<Vec<Ratios>, Error> {
    let headings = [
        "pages for one",
        "theta, thousands",
        "utilization %",
        "mean MPL",
        "page faults",
        "deactivations",
        "travel per replacement",
        "devices busy %",
    ];
    let published = Published::read(include_str!("table-2.csv"));
    let mut ratios = Vec::new();
    for (number, name) in NAMES.iter().enumerate() {
        let theirs = published.column(&format!("{name}_WSCLOCK"));
        let mut table = Table::new(headings);
        for (fold, load) in FOLDS {
            let mut configuration = configuration(number);
            set_io(&mut configuration, IO_INTERVAL_REFS, load);
            let lines = lines_folded(lab, fold, &configuration, "wsclock", &THETAS, FEWER_SEEDS)?;
            let best = peak(&lines);
            let (mpl, faults) = (best.mean(mean_mpl), best.mean(page_faults));
            table.row([
                fold.to_string(),
                (best.theta / 1000).to_string(),
                format!("{:.1}", best.utilization()),
                format!("{mpl:.2}"),
                format!("{faults:.0}"),
                format!("{:.0}", best.mean(deactivations)),
                format!("{:.1}", best.mean(travel)),
                format!("{:.0}", best.mean(|run| busy(run, 1))),
            ]);
            ratios.push(Ratios { fold, mpl: mpl / theirs[2], faults: faults / theirs[4] });
        }
        table.row([
            "the paper".to_string(),
            format!("{:.0}", theirs[0]),
            format!("{:.1}", 100.0 * theirs[1]),
            format!("{:.2}", theirs[2]),
            format!("{:.0}", theirs[4]),
            format!("{:.0}", theirs[3]),
            format!("{:.1}", theirs[5]),
            "-".into(),
        ]);
        report.tables.push((format!("Configuration {name}."), table));
    }
    Ok(ratios)
}

fn fold_claim(ratios: &[Ratios], report: &mut Report) {
    let of = |fold: u64| ratios.iter().filter(move |ratios| ratios.fold == fold);
    let shown = |is_met: fn(&Ratios) -> bool| {
        let all =
            FOLDS.map(|(fold, _)| format!("{fold}: {}", of(fold).filter(|found| is_met(found)).count()));
        all.join(", ")
    };
    report.claim("ws18", Bar::Ours).exact(
        "with one of the folds both the active tasks and the page faults are the paper's on all configurations, within a quarter",
        FOLDS.iter().any(|(fold, _)| of(*fold).all(Ratios::is_near)),
        format!(
            "configurations of three with the paper's MPL: {}; with its faults: {}; with both: {}",
            shown(Ratios::is_near_in_mpl),
            shown(Ratios::is_near_in_faults),
            shown(Ratios::is_near)
        ),
    );
}

/// WSCLOCK at the paper's theta, with a queue of the devices in order of time, by configuration.
fn in_order_of_time(lab: &Lab, fold: u64, load: f64) -> Result<Vec<Line>, Error> {
    (0..NAMES.len())
        .map(|number| {
            let mut configuration = configuration(number);
            set_io(&mut configuration, IO_INTERVAL_REFS, load);
            configuration.devices.queue = Discipline::Fifo;
            let theta = [THETA[number]];
            Ok(lines_folded(lab, fold, &configuration, "wsclock", &theta, FEWER_SEEDS)?.remove(0))
        })
        .collect()
}

/// The paper's number of active tasks, one more, and no limit.
const MOST_ACTIVE: [usize; 3] = [5, 6, 0];

fn table_of_forced(lab: &Lab) -> Result<Table, Error> {
    let mut table = Table::new([
        "configuration",
        "most active",
        "utilization %",
        "page faults",
        "travel per replacement",
    ]);
    for (number, name) in NAMES.iter().enumerate() {
        for most in MOST_ACTIVE {
            let mut configuration = configuration(number);
            configuration.load_control.most_active = most;
            let line = lines(lab, &configuration, "wsclock", &[THETA[number]], FEWER_SEEDS)?.remove(0);
            table.row([
                name.to_string(),
                if most == 0 { "no limit".to_string() } else { most.to_string() },
                format!("{:.1}", line.utilization()),
                format!("{:.0}", line.mean(page_faults)),
                format!("{:.1}", line.mean(travel)),
            ]);
        }
    }
    Ok(table)
}

/// Mean times between I/O requests, from one that cuts short nearly all loading phases to one that
/// cuts short few.
const IO_INTERVALS: [u64; 6] = [4_000, 15_000, 30_000, IO_INTERVAL_REFS, 120_000, 240_000];

/// The intervals that follow from what is known of 1981, and from the recorded programs.
const PLAUSIBLE: RangeInclusive<u64> = 30_000..=120_000;

/// How many percent of loading phases end by an I/O request before tau: its times are exponential.
fn cut_short(tau: u64, interval: u64) -> f64 {
    100.0 * (1.0 - (-(tau as f64) / interval as f64).exp())
}

fn io(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nHere tasks ask for I/O more often or more rarely, and what a request takes changes in proportion: the load stays the \
             same. Each policy at the theta of its highest utilization, of {} values. LT/RT's gain is that of WS.",
            describe(lab)?,
            THETAS.len()
        ),
        seeds: FEWER_SEEDS.to_vec(),
        ..Report::default()
    };
    let mut gains = Vec::new();
    for (number, name) in NAMES.iter().enumerate() {
        let (table, plausible) = table_of_intervals(lab, number)?;
        report
            .tables
            .push((format!("Configuration {name}: WSCLOCK + LT/RT, and LT/RT's gain for WS."), table));
        gains.extend(plausible);
    }
    report.claim("ws01", Bar::Ours).numbers(
        format!(
            "with I/O every {} to {} thousand references LT/RT raises the peak utilization of pure WS by 5 to 20 percent (in spirit: \
             raises it)",
            PLAUSIBLE.start() / 1000,
            PLAUSIBLE.end() / 1000
        ),
        Limit::Between(5.0, 20.0),
        Some(Limit::AtLeast(0.0)),
        &gains,
    );
    report.notes.push(
        "A request ends the loading phase. If tasks ask every 4,000 references, nearly every phase ends long before tau, and LT/RT limits \
         little. The paper does not say how often its programs ask. Three sources agree on the order: Amdahl's rule (one bit of I/O for \
         each instruction) at 2 to 2.5 million instructions and 4 million references a second, a page a request, gives 52,000 to 66,000 \
         references; his other rule, 50,000 instructions for each request, gives 80,000 to 100,000; the recorded programs ask every \
         93,000 (`io.csv`)."
            .into(),
    );
    Ok(report)
}

/// The table of a configuration, and LT/RT's gains with plausible intervals.
fn table_of_intervals(lab: &Lab, number: usize) -> Result<(Table, Vec<Measurement>), Error> {
    let name = NAMES[number];
    let mut table = Table::new([
        "I/O every (references)",
        "loading ended by I/O, %",
        "LT/RT's gain, %",
        "theta, thousands",
        "utilization %",
        "mean MPL",
        "deactivations",
        "page faults",
        "travel per replacement",
    ]);
    let mut gains = Vec::new();
    for interval in IO_INTERVALS {
        let mut configuration = configuration(number);
        set_io(&mut configuration, interval, IO_LOAD);
        let of = |policy| lines(lab, &configuration, policy, &THETAS, FEWER_SEEDS);
        let (plain, limited, wsclock) = (of("ws:lt-rt=off")?, of("ws")?, of("wsclock")?);
        let gained = gain(format!("{name} {}:", interval / 1000), peak(&plain), peak(&limited));
        let best = peak(&wsclock);
        table.row([
            interval.to_string(),
            format!("{:.0}", cut_short(configuration.load_control.tau_refs, interval)),
            format!("{:.1} ± {:.1}", gained.value, gained.noise),
            (best.theta / 1000).to_string(),
            format!("{:.1}", best.utilization()),
            format!("{:.2}", best.mean(mean_mpl)),
            format!("{:.0}", best.mean(deactivations)),
            format!("{:.0}", best.mean(page_faults)),
            format!("{:.1}", best.mean(travel)),
        ]);
        if PLAUSIBLE.contains(&interval) {
            gains.push(gained);
        }
    }
    let theirs = Published::read(include_str!("table-2.csv")).column(&format!("{name}_WSCLOCK"));
    table.row([
        "the paper".to_string(),
        "-".into(),
        "5 to 20".into(),
        format!("{:.0}", theirs[0]),
        format!("{:.1}", 100.0 * theirs[1]),
        format!("{:.2}", theirs[2]),
        format!("{:.0}", theirs[3]),
        format!("{:.0}", theirs[4]),
        format!("{:.1}", theirs[5]),
    ]);
    Ok((table, gains))
}
