//! Section 3.2 of the APR thesis: LIFO+ beside the policies that it is derived from, on the nested
//! loop that the thesis prints.
//!
//! The thesis illustrates the section by Figures 3.1 and 3.2, which have no numbers. What can be
//! tried is what the section says: pages that are still in use near the top of the stack, the
//! access window, are spared.

use crate::workload::string;
use crate::{Bar, Error, Figure, Item, Lab, Report};
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::Table;

pub(crate) const ITEMS: &[Item] = &[Item {
    id: "apr/access-window",
    folder: "apr-2020",
    title: "APR 2020, section 3.2 (Figures 3.1 and 3.2): LIFO+ and the access window",
    run: access_window,
}];

/// Molecules, a page each.
const MOLECULES: u64 = 400;
const PERCENT: [u64; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
const POLICIES: [(&str, &str); 6] = [
    ("OPT", "opt"),
    ("CLOCK", "clock"),
    ("LIFO", "lifo"),
    ("MRU", "mru"),
    ("LIFO+", "lifo-plus"),
    ("APR", "apr"),
];

/// The loop of water_nsquared: each molecule with half of the others.
fn molecules() -> impl Iterator<Item = u64> {
    (0..MOLECULES).flat_map(|first| {
        (first + 1..=first + MOLECULES / 2).flat_map(move |other| [first, other % MOLECULES])
    })
}

/// Every page three times, and after each the two before it again: a window that moves along.
fn window() -> impl Iterator<Item = u64> {
    (0..20)
        .flat_map(|_| (0..MOLECULES).flat_map(|page| [page, page.saturating_sub(1), page.saturating_sub(2)]))
}

fn access_window(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "Two loops over {MOLECULES} pages. The nested loop of water_nsquared: for each molecule, a page, all of the next half of them \
             in a circle. A window that moves along: a loop whose every step uses the two pages before it again, 20 rounds. Faults while \
             a frame was free are left out."
        ),
        ..Report::default()
    };
    let frames = PERCENT.map(|percent| (MOLECULES * percent / 100) as usize);
    let policies = POLICIES.map(|(_, policy)| policy);
    let mut by_loop = Vec::new();
    let loops: [(&str, Vec<u64>); 2] =
        [("The nested loop", molecules().collect()), ("A window that moves along", window().collect())];
    for (name, pages) in loops {
        let outcomes = lab.outcomes(&string(pages.into_iter())?, &policies, &frames)?;
        let faults = |policy: usize, size: usize| {
            let outcome = &outcomes[policy][size];
            outcome.faults - outcome.warmup_faults
        };
        let mut table = Table::new(std::iter::once("frames").chain(POLICIES.map(|(name, _)| name)));
        for (size, frames) in frames.iter().enumerate() {
            let cells = (0..POLICIES.len()).map(|policy| faults(policy, size).to_string());
            table.row(std::iter::once(frames.to_string()).chain(cells));
        }
        report.tables.push((format!("{name}: faults."), table));
        let lines = POLICIES.iter().enumerate().map(|(policy, (name, _))| ChartLine {
            name: (*name).into(),
            points: (frames.iter().enumerate())
                .map(|(size, &frames)| (frames as f64, faults(policy, size) as f64))
                .collect(),
            published: Vec::new(),
        });
        let chart = LineChart {
            name: format!("{name}: faults against memory size"),
            x: "frames".into(),
            y: "page faults".into(),
            logarithmic: false,
            lines: lines.collect(),
        };
        report.figures.push(Figure {
            file: format!("access-window-{}.svg", by_loop.len() + 1),
            name: chart.name.clone(),
            svg: plot_lines(&chart) + "\n",
        });
        let sums: Vec<u64> = (0..POLICIES.len())
            .map(|policy| (0..frames.len()).map(|size| faults(policy, size)).sum())
            .collect();
        by_loop.push((name, sums));
    }
    let shown = |sums: &[u64]| {
        let of = POLICIES.iter().zip(sums).map(|((name, _), faults)| format!("{name} {faults}"));
        of.collect::<Vec<_>>().join(", ")
    };
    for (name, sums) in &by_loop {
        report.claim("apr19", Bar::Ours).exact(
            format!("{name}: over all sizes LIFO+ takes fewer faults than LIFO, which gives pages of the window away"),
            sums[4] < sums[2],
            shown(sums),
        );
    }
    report.notes.push(
        "Why LIFO+ does not keep the moving window, as its rule reads: when memory fills, every page has been used, so its pointer goes \
         round once, clears all bits and takes a page of the window. From then on each step has three faults in a row, as LIFO has. A \
         page that is not used again between two faults is the next to go, so the window is lost again at every step. APR, which \
         weighs LIFO+ against CLOCK, comes nearer to OPT than either."
            .into(),
    );
    Ok(report)
}
