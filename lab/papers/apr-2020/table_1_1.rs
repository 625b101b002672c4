//! Table 1.1: which policies handle which loops.

use super::curves::list;
use crate::verdict::mean;
use crate::workload::string;
use crate::{Bar, Error, Lab, Report};
use sweephand_policy::SplitMix64;
use sweephand_results::Table;

/// Pages of the loops of Table 1.1, and how often they are gone through.
const LOOP_PAGES: u64 = 3_000;
const ROUNDS: u64 = 20;
/// Memory, in percent of the loop.
const LOOP_SIZES: [u64; 3] = [50, 70, 90];

/// Makes a reference string: page numbers, in order.
type Make = fn() -> Vec<u64>;

/// The loops of Table 1.1. Each is a string of page numbers.
const LOOPS: [(&str, Make); 4] = [
    ("sequential", || (0..ROUNDS * LOOP_PAGES).map(|step| step % LOOP_PAGES).collect()),
    ("non-sequential", || {
        let (mut order, mut random): (Vec<u64>, _) = ((0..LOOP_PAGES).collect(), SplitMix64::new(1));
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let pages = order.len();
        order.into_iter().cycle().take(pages * ROUNDS as usize).collect()
    }),
    ("mixed", || {
        // A small set that is used at random takes turns with the loop.
        let mut random = SplitMix64::new(1);
        let hot = LOOP_PAGES / 10;
        let turn = |step: u64| [step % LOOP_PAGES, LOOP_PAGES + random.below(hot)];
        (0..ROUNDS * LOOP_PAGES).flat_map(turn).collect()
    }),
    ("windowed", || {
        // Each step looks back at pages of the last 1 %.
        let mut random = SplitMix64::new(1);
        let back = LOOP_PAGES / 100;
        let turn = |step: u64| {
            let mut last = || (step.saturating_sub(1 + random.below(back))) % LOOP_PAGES;
            [step % LOOP_PAGES, last(), last()]
        };
        (0..ROUNDS * LOOP_PAGES).flat_map(turn).collect()
    }),
];

/// The policies of Table 1.1, with CLOCK, and what it says of how they handle loops.
const HANDLING: [(&str, &str, &str); 6] = [
    ("CLOCK", "clock", ""),
    ("EELRU", "eelru", "yes"),
    ("UBM", "ubm", "yes"),
    ("SEQ", "seq", "no"),
    ("CLOCK-Pro", "clock-pro", "partly"),
    ("APR", "apr", "yes"),
];

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "Loops over {LOOP_PAGES} pages, {ROUNDS} rounds, in 50, 70 and 90 % as many frames: in order (sequential), in one random order \
             (non-sequential), by turns with references to a set of {} other pages (mixed), and with each step looking back twice at the \
             last {} pages (windowed). How much of the way from CLOCK to OPT a policy goes, in percent of the faults, mean over the \
             sizes. A policy handles a loop if it goes half of the way or more, and partly if it goes a tenth or more. The thesis \
             names the three kinds of loop and gives each policy one word; the patterns and the bars are ours.",
            LOOP_PAGES / 10,
            LOOP_PAGES / 100
        ),
        seeds: vec![1],
        ..Report::default()
    };
    let frames = LOOP_SIZES.map(|percent| (LOOP_PAGES * percent / 100) as usize);
    let policies: Vec<&str> =
        std::iter::once("opt").chain(HANDLING.iter().map(|(_, policy, _)| *policy)).collect();
    // By policy, then by loop.
    let mut ways = vec![Vec::new(); HANDLING.len()];
    for (_, pages) in LOOPS {
        let outcomes = lab.outcomes(&string(pages().into_iter())?, &policies, &frames)?;
        let faults = |policy: usize, size: usize| outcomes[policy][size].refaults() as f64;
        for (policy, ways) in ways.iter_mut().enumerate() {
            let way = |size: usize| {
                100.0 * (faults(1, size) - faults(policy + 1, size)) / (faults(1, size) - faults(0, size))
            };
            ways.push(mean((0..frames.len()).map(way)));
        }
    }
    let grade = |way: f64| match way {
        way if way >= 50.0 => "yes",
        way if way >= 10.0 => "partly",
        _ => "no",
    };
    let mut table = Table::new(
        std::iter::once("policy").chain(LOOPS.map(|(name, _)| name)).chain(["handles them, thesis", "ours"]),
    );
    let mut as_said = Vec::new();
    let mut differs = Vec::new();
    for ((name, _, said), ways) in HANDLING.iter().zip(&ways) {
        // The thesis's loops are all but the sequential one.
        let grades: Vec<&str> = ways[1..].iter().map(|way| grade(*way)).collect();
        let ours = match grades.iter().filter(|grade| **grade == "yes").count() {
            3 => "yes",
            0 if grades.iter().all(|grade| *grade == "no") => "no",
            _ => "partly",
        };
        let cells = ways.iter().map(|way| format!("{way:.0}, {}", grade(*way)));
        table.row(std::iter::once((*name).to_string()).chain(cells).chain([(*said).into(), ours.into()]));
        if !said.is_empty() {
            as_said.push(ours == *said);
            if ours != *said {
                differs.push(format!("{name}: {said} there, {ours} here"));
            }
        }
    }
    report.tables.push(("How much of the way from CLOCK to OPT, and how that is called.".into(), table));
    let agree = as_said.iter().filter(|same| **same).count();
    report.claim("apr18", Bar::Ours).cases(
        "EELRU, UBM and APR handle non-sequential, mixed and windowed loops, CLOCK-Pro partly, SEQ does not",
        as_said.iter().copied(),
        format!("{agree} of {} as in the thesis; {}", as_said.len(), list(differs)),
    );
    Ok(report)
}
