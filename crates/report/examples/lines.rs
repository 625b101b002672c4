//! Draws columns of a CSV as lines: y against x on a logarithmic axis, a line for each value of a
//! third column. Benchmarks draw their results with it.
//!
//!     cargo run -p sweephand-report --example lines -- IN.csv LINE X Y OUT.svg [COLUMN=VALUE]...
//!
//! LINE, X and Y are names of columns. Only rows with the given values are taken, and of them those
//! that have a Y.

use std::collections::BTreeMap;
use std::{env, fs, process};
use sweephand_report::{ChartLine, LineChart, plot_lines};

fn main() {
    if let Err(error) = draw(&env::args().skip(1).collect::<Vec<_>>()) {
        eprintln!("lines: {error}");
        process::exit(2);
    }
}

fn draw(arguments: &[String]) -> Result<(), String> {
    let [input, line, x, y, output, filters @ ..] = arguments else {
        return Err("wants IN.csv LINE X Y OUT.svg [COLUMN=VALUE]...".into());
    };
    let text = fs::read_to_string(input).map_err(|error| format!("{input}: {error}"))?;
    let mut rows = text.lines().map(cells);
    let names = rows.next().ok_or_else(|| format!("{input}: is empty"))?;
    let column = |name: &str| {
        names.iter().position(|other| other == name).ok_or_else(|| format!("{input}: no column '{name}'"))
    };
    let filters: Vec<(usize, &str)> = filters
        .iter()
        .map(|filter| {
            let (name, value) = filter.split_once('=').ok_or(format!("'{filter}' is not COLUMN=VALUE"))?;
            Ok((column(name)?, value))
        })
        .collect::<Result<_, String>>()?;
    let (line, x_column, y_column) = (column(line)?, column(x)?, column(y)?);
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows.filter(|row| filters.iter().all(|&(column, value)| row[column] == value)) {
        let number = |column: usize| {
            row[column].parse::<f64>().map_err(|_| format!("{input}: '{}' is not a number", row[column]))
        };
        if !row[y_column].is_empty() {
            lines.entry(row[line].clone()).or_default().push((number(x_column)?, number(y_column)?));
        }
    }
    let lines = lines.into_iter().map(|(name, mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        ChartLine { name, points, published: Vec::new() }
    });
    let title = format!("{y} against {x}").replace('_', " ");
    let (x, y) = (x.replace('_', " "), y.replace('_', " "));
    let chart = LineChart { name: title, x, y, logarithmic: true, lines: lines.collect() };
    fs::write(output, plot_lines(&chart) + "\n").map_err(|error| format!("{output}: {error}"))
}

/// The cells of a line of CSV; quotes may hold commas.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().expect("there is a cell").push(other),
        }
    }
    cells
}
