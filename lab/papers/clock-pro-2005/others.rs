//! What the CLOCK-Pro paper says of other algorithms, and of its own parameter: each sentence
//! tried.
//!
//! Hit ratios as in `experiments.rs`: repeated references collapsed. Loops are generated.

use crate::verdict::mean;
use crate::workload::string;
use crate::{Bar, Error, Item, Lab, Limit, Measurement, Published, Report};
use sweephand_policy::SplitMix64;
use sweephand_results::Table;
use sweephand_sim::Outcome;

const FOLDER: &str = "clock-pro-2005";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "clock-pro/others",
        folder: FOLDER,
        title: "CLOCK-Pro 2005: what it says of ARC, 2Q, GCLOCK, aging and SEQ, and of a larger m_c",
        run: others,
    },
    Item {
        id: "clock-pro/quiet-period",
        folder: FOLDER,
        title: "CLOCK-Pro 2005, section 5.1.3: a program that is quiet while a stream goes through memory",
        run: quiet_period,
    },
];

/// The classic workloads and where their memories are neither tiny nor enough.
fn workloads() -> [(&'static str, Vec<usize>); 4] {
    let sizes = |csv| Published::read(csv).column("blocks").iter().map(|blocks| *blocks as usize).collect();
    [
        ("cpp", sizes(include_str!("table-1.csv"))),
        ("sprite", sizes(include_str!("table-2.csv"))),
        ("gli", vec![200, 500, 1000, 1500, 2000, 2500]),
        ("multi2", vec![200, 600, 1000, 1400, 1800, 2200, 2600, 3000]),
    ]
}

fn others(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: "Workloads and sizes as in Tables 1 and 2 and Figure 2. Points are points of the hit ratio."
            .into(),
        ..Report::default()
    };
    larger_cold_allocation(lab, &mut report)?;
    sensitivity_of_2q(lab, &mut report)?;
    counters(lab, &mut report)?;
    loops(lab, &mut report)?;
    Ok(report)
}

const COLD: [(&str, &str); 6] = [
    ("1 %", "clock-pro-fixed:cold=1%"),
    ("10 %", "clock-pro-fixed:cold=10%"),
    ("30 %", "clock-pro-fixed:cold=30%"),
    ("50 %", "clock-pro-fixed:cold=50%"),
    ("80 %", "clock-pro-fixed:cold=80%"),
    ("100 %", "clock-pro-fixed:cold=100%"),
];

/// The paper: the larger m_c, the more CLOCK-Pro is like CLOCK.
fn larger_cold_allocation(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let mut table = Table::new(std::iter::once("workload").chain(COLD.map(|(share, _)| share)));
    let mut nearer = Vec::new();
    for (workload, sizes) in workloads() {
        let trace = lab.classic_trace(workload)?;
        let measured = lab.hit_ratios(&trace, &COLD.map(|(_, policy)| policy), &sizes)?;
        let clock = lab.hit_ratios(&trace, &["clock"], &sizes)?.remove(0);
        let off: Vec<f64> = measured
            .iter()
            .map(|ours| mean(ours.iter().zip(&clock).map(|(ours, clock)| (ours - clock).abs())))
            .collect();
        table.row(std::iter::once(workload.to_string()).chain(off.iter().map(|off| format!("{off:.1}"))));
        nearer.push((workload, off));
    }
    report.tables.push((
        "Points between CLOCK-Pro with a fixed cold allocation (m_c) and CLOCK, mean over the sizes.".into(),
        table,
    ));
    let shown = nearer.iter().map(|(of, off)| format!("{of} {:.1} to {:.1}", off[0], off[COLD.len() - 1]));
    report.claim("cp30", Bar::Ours).cases(
        "with all of memory for cold pages CLOCK-Pro is nearer to CLOCK than with 1 %, on each workload",
        nearer.iter().map(|(_, off)| off[COLD.len() - 1] < off[0]),
        shown.collect::<Vec<_>>().join(", "),
    );
    report.claim("cp30", Bar::Ours).cases(
        "each step of m_c brings it nearer, or leaves it (within 0.2 points)",
        nearer.iter().flat_map(|(_, off)| off.windows(2).map(|pair| pair[1] <= pair[0] + 0.2)),
        "steps of the table",
    );
    Ok(())
}

/// The paper: 2Q's parameters have to be tuned; LIRS's hardly.
fn sensitivity_of_2q(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let settings = ["5%", "10%", "25%", "50%"]
        .into_iter()
        .flat_map(|queue| ["25%", "50%", "100%"].map(|out| format!("2q:in={queue},out={out}")));
    let settings: Vec<String> = settings.collect();
    let policies: Vec<&str> = settings.iter().map(String::as_str).collect();
    let lirs = ["lirs", "lirs:hir=5%", "lirs:hir=10%", "lirs:hir=20%", "lirs:hir=30%"];
    let mut table = Table::new(["workload", "2Q, most", "2Q, mean", "LIRS, most", "LIRS, mean"]);
    let mut spreads = Vec::new();
    for (workload, sizes) in workloads() {
        let trace = lab.classic_trace(workload)?;
        let spread = |policies: &[&str]| -> Result<(f64, f64), Error> {
            let measured = lab.hit_ratios(&trace, policies, &sizes)?;
            let by_size: Vec<f64> = (0..sizes.len())
                .map(|size| {
                    let of = || measured.iter().map(|by_size| by_size[size]);
                    of().fold(0.0, f64::max) - of().fold(100.0, f64::min)
                })
                .collect();
            Ok((by_size.iter().copied().fold(0.0, f64::max), mean(by_size)))
        };
        let (two_q, lirs) = (spread(&policies)?, spread(&lirs)?);
        let cells = [two_q.0, two_q.1, lirs.0, lirs.1].map(|points| format!("{points:.1}"));
        table.row(std::iter::once(workload.to_string()).chain(cells));
        spreads.push((workload, two_q.1, lirs.1));
    }
    report.tables.push((
        "Points between the best and the worst setting at a size: 2Q with 5 to 50 % of memory for its first queue and 25 to 100 % for \
         what it remembers; LIRS with 1 to 30 % cold."
            .into(),
        table,
    ));
    let shown = spreads.iter().map(|(of, two_q, lirs)| format!("{of} {two_q:.1} and {lirs:.1}"));
    report.claim("cp31", Bar::Ours).cases(
        "2Q is sensitive to its parameters: its settings differ by 2 points or more on average, and by more than those of LIRS",
        spreads.iter().map(|(_, two_q, lirs)| *two_q >= 2.0 && two_q > lirs),
        shown.collect::<Vec<_>>().join(", "),
    );
    Ok(())
}

/// The paper: counters or ages in place of a bit do not help where locality is weak.
fn counters(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let policies = ["clock", "gclock", "aging", "clock-pro", "opt"];
    let mut table = Table::new(["workload", "GCLOCK", "aging", "CLOCK-Pro"]);
    let mut way = Vec::new();
    for (workload, sizes) in workloads() {
        let trace = lab.classic_trace(workload)?;
        let measured = lab.hit_ratios(&trace, &policies, &sizes)?;
        let sums: Vec<f64> = measured.iter().map(|by_size| by_size.iter().sum()).collect();
        let share = |policy: usize| 100.0 * (sums[policy] - sums[0]) / (sums[4] - sums[0]);
        let shares = [1, 2, 3].map(share);
        table.row(std::iter::once(workload.to_string()).chain(shares.map(|share| format!("{share:.0}"))));
        way.push((workload, shares));
    }
    report
        .tables
        .push(("The way from CLOCK to OPT that a policy goes, in percent, over all sizes.".into(), table));
    for (policy, name) in ["GCLOCK", "aging"].into_iter().enumerate() {
        let loops = way.iter().filter(|(workload, _)| ["gli", "multi2"].contains(workload));
        let shown = loops
            .clone()
            .map(|(of, shares)| format!("{of} {:.0} %, CLOCK-Pro {:.0} %", shares[policy], shares[2]));
        report.claim("cp33", Bar::Ours).cases(
            format!("{name} does not handle loops: it goes less than a quarter of CLOCK-Pro's way from CLOCK to OPT on gli and multi2"),
            loops.clone().map(|(_, shares)| shares[policy] < 0.25 * shares[2]),
            shown.collect::<Vec<_>>().join(", "),
        );
    }
    Ok(())
}

const FRAMES: usize = 1000;
const ROUNDS: u64 = 20;
const SEED: u64 = 1;

/// Hits of a loop, in percent of the references after its first round.
fn hits(outcome: &Outcome, pages: u64) -> f64 {
    let after = (ROUNDS - 1) * pages;
    100.0 * (1.0 - (outcome.faults - pages) as f64 / after as f64)
}

fn loops(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let policies = ["clock", "lru", "arc", "car", "seq", "lirs", "clock-pro", "opt"];
    // SEQ forgets a sequence with a fault inside, as in Figure 4.
    let specs = policies.map(|policy| if policy == "seq" { "seq:inside=delete" } else { policy });
    let mut order: Vec<u64> = (0..FRAMES as u64 * 2).collect();
    let mut random = SplitMix64::new(SEED);
    let mut table = Table::new(std::iter::once("loop").chain(policies));
    let mut by_loop = Vec::new();
    for (pages, linked) in [(1001, false), (1010, false), (1050, false), (1200, false), (1200, true)] {
        if linked {
            for at in (1..pages as usize).rev() {
                order.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        let order = &order;
        let trace = string((0..ROUNDS).flat_map(|_| (0..pages).map(move |at| order[at as usize])))?;
        let outcomes = lab.outcomes(&trace, &specs, &[FRAMES])?;
        let shares: Vec<f64> = outcomes.iter().map(|by_size| hits(&by_size[0], pages)).collect();
        let name = format!("{pages} pages{}", if linked { " of a linked list" } else { "" });
        table.row(std::iter::once(name).chain(shares.iter().map(|share| format!("{share:.1}"))));
        by_loop.push(shares);
    }
    report.tables.push((
        format!(
            "A loop of {ROUNDS} rounds in {FRAMES} frames: hits in percent after the first round. The linked list has its pages in random \
             order, the same in each round; the others in the order of their addresses."
        ),
        table,
    ));
    let at = |name: &str| policies.iter().position(|policy| *policy == name).expect("it ran");
    let just_beyond = |name: &str| by_loop[..3].iter().map(|shares| shares[at(name)]).fold(0.0, f64::max);
    report.claim("cp32", Bar::Paper).numbers(
        "loops just beyond memory (by 1, 10 and 50 pages of 1,000): ARC, like LRU, has no hits",
        Limit::AtMost(0.0),
        Some(Limit::AtMost(1.0)),
        &["arc", "lru"].map(|name| Measurement::exact(name, just_beyond(name), 1)),
    );
    let [in_order, linked] = [&by_loop[3], &by_loop[4]];
    report.claim("cp34", Bar::Ours).exact(
        "SEQ handles a loop in the order of addresses and not that of a linked list: hits of half of OPT's or more, and of a tenth or fewer",
        in_order[at("seq")] >= 0.5 * in_order[at("opt")] && linked[at("seq")] <= 0.1 * linked[at("opt")],
        format!("SEQ {:.1} and {:.1} %, OPT {:.1} %", in_order[at("seq")], linked[at("seq")], linked[at("opt")]),
    );
    report.claim("cp34", Bar::Ours).exact(
        "CLOCK-Pro handles both alike (within 1 point)",
        (in_order[at("clock-pro")] - linked[at("clock-pro")]).abs() <= 1.0 && linked[at("clock-pro")] > 0.0,
        format!("{:.1} and {:.1} %", in_order[at("clock-pro")], linked[at("clock-pro")]),
    );
    Ok(())
}

/// A program with a hot set of half the memory; how much of a stream goes by while it is quiet.
const HOT: u64 = 500;
const QUIET: [u64; 4] = [500, 1000, 2000, 4000];
/// References of the program before, between and after its quiet periods.
const BUSY: u64 = 20_000;
const PERIODS: u64 = 10;

fn quiet_period(lab: &Lab) -> Result<Report, Error> {
    let policies = ["clock", "linux24", "car", "lirs", "clock-pro", "opt"];
    let mut report = Report {
        method: format!(
            "A program uses {HOT} pages at random in {FRAMES} frames, {BUSY} references at a time. Between these it is quiet, {PERIODS} times, \
             while a stream of pages that are used once goes through memory. Faults of the program after its first {BUSY} references, \
             for each quiet period."
        ),
        seeds: vec![SEED],
        ..Report::default()
    };
    let mut table = Table::new(std::iter::once("pages that go by").chain(policies));
    let mut flushed = Vec::new();
    for quiet in QUIET {
        let mut random = SplitMix64::new(SEED);
        let mut references: Vec<u64> = Vec::new();
        let mut next = HOT;
        for period in 0..=PERIODS {
            references.extend((0..BUSY).map(|_| random.below(HOT)));
            if period < PERIODS {
                references.extend(next..next + quiet);
                next += quiet;
            }
        }
        let trace = string(references.into_iter())?;
        let outcomes = lab.outcomes(&trace, &policies, &[FRAMES])?;
        let stream = PERIODS * quiet;
        // Each page of the stream is a fault, and so is the first touch of each of the program's.
        let faults: Vec<f64> = outcomes
            .iter()
            .map(|by_size| (by_size[0].faults - stream - HOT) as f64 / PERIODS as f64)
            .collect();
        table.row(
            std::iter::once(quiet.to_string()).chain(faults.iter().map(|faults| format!("{faults:.1}"))),
        );
        flushed.push(faults);
    }
    report.tables.push((format!("Pages of the program's {HOT} that were gone."), table));
    let at = |name: &str| policies.iter().position(|policy| *policy == name).expect("it ran");
    let most = flushed.last().expect("there is one");
    report.claim("cp35", Bar::Ours).exact(
        "a stream of four times the memory flushes a quiet program's pages under CLOCK: nine of ten or more",
        most[at("clock")] >= 0.9 * HOT as f64,
        format!("{:.1} of {HOT}", most[at("clock")]),
    );
    report.claim("cp35", Bar::Ours).exact(
        "under CLOCK-Pro it keeps nine of ten or more",
        most[at("clock-pro")] <= 0.1 * HOT as f64,
        format!("{:.1} of {HOT} gone", most[at("clock-pro")]),
    );
    Ok(report)
}
