//! Figures 3 to 5: utilization against theta on each configuration.

use crate::wsclock_1981_conventions::{POLICIES, PURE_WS, SEEDS, WS, WSCLOCK, describe, peak, sweep};
use crate::wsclock_1981_runs::{Line, NAMES, more, utilization};
use crate::{Bar, Error, Figure, Lab, Limit, Measurement, Published, Report};
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::Table;

/// By configuration.
pub(super) const TITLES: [&str; 3] = [
    "WSCLOCK 1981, Figure 3: utilization against theta, configuration A",
    "WSCLOCK 1981, Figure 4: utilization against theta, configuration B",
    "WSCLOCK 1981, Figure 5: utilization against theta, configuration C",
];

/// The figure of a configuration.
pub(super) fn run(lab: &Lab, number: usize) -> Result<Report, Error> {
    let sweep = sweep(lab, number)?;
    let mut report = Report {
        method: format!("{}\nThe paper prints curves; Table 2 has their peaks.", describe(lab)?),
        seeds: SEEDS.to_vec(),
        ..Report::default()
    };
    let line = format!("Utilization in percent, configuration {}.", NAMES[number]);
    report.tables.push((line, table(&sweep)));
    report.figures.push(drawing(number, &sweep));
    claims(number, &sweep, &mut report);
    let [ws, limited, wsclock] = [PURE_WS, WS, WSCLOCK].map(|policy| peak(&sweep[policy]));
    report.notes.push(format!(
        "Peaks: WS at theta {}, WS + LT/RT at {}, WSCLOCK at {} thousand references.",
        ws.theta / 1000,
        limited.theta / 1000,
        wsclock.theta / 1000
    ));
    Ok(report)
}

/// Utilization by theta and policy.
fn table(sweep: &[Vec<Line>]) -> Table {
    let policies = POLICIES.iter().map(|(policy, _)| *policy);
    let mut table = Table::new(std::iter::once("theta, thousands of references").chain(policies));
    for (row, line) in sweep[0].iter().enumerate() {
        let cells = sweep.iter().map(|lines| {
            let found = Measurement::mean("", &lines[row].each(utilization), 1);
            format!("{:.1} ± {:.1}", found.value, found.noise)
        });
        table.row(std::iter::once((line.theta / 1000).to_string()).chain(cells));
    }
    table
}

/// The curves, with the peaks of Table 2.
fn drawing(number: usize, sweep: &[Vec<Line>]) -> Figure {
    let name = NAMES[number];
    let published = Published::read(include_str!("table-2.csv"));
    let lines = POLICIES.iter().zip(sweep).map(|((policy, _), lines)| {
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
    Figure {
        file: format!("figure-{}.svg", number + 3),
        name: chart.name.clone(),
        svg: plot_lines(&chart) + "\n",
    }
}

fn claims(number: usize, sweep: &[Vec<Line>], report: &mut Report) {
    let by_theta = |a: usize, b: usize| -> Vec<Measurement> {
        let pairs = sweep[a].iter().zip(&sweep[b]);
        pairs.map(|(a, b)| more(format!("{}:", b.theta / 1000), a, b, utilization, 1)).collect()
    };
    report.check(
        "LT/RT raises the utilization of pure WS at every theta",
        by_theta(PURE_WS, WS).iter().all(|found| found.value > found.noise),
        "every interval lies above 0",
    );
    let (text, bar) = if number == 0 {
        (
            "the curve of WS + LT/RT lies above WSCLOCK's, by at most 2 points at each theta (in spirit: within 4 points either way)",
            Limit::Between(0.0, 2.0),
        )
    } else {
        (
            "the curves of WS + LT/RT and WSCLOCK coincide: within 1 point at each theta (in spirit: 4 points)",
            Limit::Between(-1.0, 1.0),
        )
    };
    report.claim("ws22", Bar::Ours).numbers(
        text,
        bar,
        Some(Limit::Between(-4.0, 4.0)),
        &by_theta(WSCLOCK, WS),
    );
}
