//! Table 4.1: the workloads.

use super::curves::{WORKLOADS, traces};
use crate::{Error, Lab, Published, Report, Scale};
use sweephand_results::Table;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let published = Published::read(include_str!("table-4.1.csv"));
    let mut report = Report {
        method: format!(
            "{}\nThe thesis recorded SPLASH-2x. Columns: published, ours. Memory is every page touched once.",
            traces(lab)?
        ),
        ..Report::default()
    };
    let quantities = ["instructions", "references", "memory", "objects"];
    let mut table = Table::new(
        std::iter::once("workload").chain(quantities.iter().flat_map(|quantity| [*quantity, "ours"])),
    );
    let published_columns = quantities.map(|quantity| published.column(quantity));
    let (mut nearest, mut other_inputs) = (Vec::new(), Vec::new());
    for (row, workload) in published.words("workload").into_iter().enumerate() {
        let trace = lab.splash_trace(WORKLOADS[row])?;
        assert_eq!(WORKLOADS[row], workload, "rows are in the order of the workloads");
        let totals = &trace.header().totals;
        let bytes = totals.distinct_pages * trace.header().metadata.page_size;
        let ours = [
            totals.instructions.unwrap_or(0) as f64 / 1e6,
            totals.references as f64 / 1e6,
            bytes as f64 / 1e6,
            totals.objects as f64,
        ];
        let mut cells = vec![workload.to_string()];
        for (quantity, column) in published_columns.iter().enumerate() {
            cells.extend([number(column[row]), number(ours[quantity])]);
        }
        let ratio = ours[2] / published_columns[2][row];
        let name = format!("{workload} {ratio:.2}");
        if (0.8..=1.25).contains(&ratio) {
            nearest.push(name)
        } else {
            other_inputs.push(name)
        }
        table.row(cells);
    }
    let line = "Instructions and references in millions, memory in MB, objects of 40 KiB and more.";
    report.tables.push((line.into(), table));
    for quantity in 0..quantities.len() {
        report.beside((0, 2 * quantity + 1), (0, 2 * quantity + 2), Scale::Ratio);
    }
    report.check(
        "the recorded workloads are as large as the thesis's, within a quarter",
        other_inputs.is_empty(),
        format!(
            "memory as a multiple of the published: {}; others: {}",
            nearest.join(", "),
            if other_inputs.is_empty() { "none".into() } else { other_inputs.join(", ") }
        ),
    );
    Ok(report)
}

/// A number as the thesis prints them: whole, or with one decimal where it is small.
fn number(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
