//! Tables of words and numbers.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};
use serde::{Deserialize, Serialize};
use std::fmt;
use sweephand_trace::shown;

/// A table with a heading row. The first column is words, the others are numbers and stand to the
/// right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The headings.
    pub heading: Vec<String>,
    /// The rows, each as long as the heading.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(heading: impl IntoIterator<Item = T>) -> Self {
        Self { heading: heading.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as GitHub-flavoured Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule: Vec<String> = (0..self.heading.len())
            .map(|column| if column == 0 { "---" } else { "---:" }.to_string())
            .collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.heading) + &line(&rule) + &rows
    }
}

/// Drawn for a terminal: aligned columns, a line under the heading, and nothing that it would obey.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let cells = |row: &[String]| -> Vec<Cell> {
            let align = |column| if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
            row.iter()
                .enumerate()
                .map(|(column, text)| Cell::new(shown(text)).set_alignment(align(column)))
                .collect()
        };
        table.set_header(cells(&self.heading));
        for row in &self.rows {
            table.add_row(cells(row));
        }
        for line in table.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_drawn_and_written() {
        let mut table = Table::new(["policy", "10p"]);
        table.row(["opt", "7"]);
        table.row(["clock-pro", "1,000"]);
        assert_eq!(table.to_string(), " policy       10p\n opt            7\n clock-pro  1,000\n");
        assert_eq!(
            table.markdown(),
            "| policy | 10p |\n| --- | ---: |\n| opt | 7 |\n| clock-pro | 1,000 |\n"
        );
    }
}
