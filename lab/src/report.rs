//! The result of an experiment.

use crate::verdict::{Bar, Check, Claim, Grade, Judging};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use sweephand_results::Table;

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What it shows.
    pub title: String,
    /// How it was measured: policies, parameters, conventions, traces.
    pub method: String,
    /// Seeds of everything that the experiment draws at random. Policies have their own, as
    /// parameters with defaults.
    pub seeds: Vec<u64>,
    /// Tables with a line on each.
    pub tables: Vec<(String, Table)>,
    /// Published numbers in the tables, and the measured ones that stand for them.
    pub compared: Vec<Compared>,
    /// Verdicts on claims of the paper.
    pub claims: Vec<Claim>,
    /// What the project checks for itself.
    pub checks: Vec<Check>,
    /// What to say about the result.
    pub notes: Vec<String>,
    /// Curves, with the published points among them.
    pub figures: Vec<Figure>,
    /// Runs that the result is made of, as CSV (`ITEM.cells.csv`); empty if none are kept.
    #[serde(skip)]
    pub cells: String,
}

/// A figure of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// The file that it goes to, beside the result.
    pub file: String,
    /// What it shows.
    pub name: String,
    /// The drawing.
    pub svg: String,
}

/// A cell of a report's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Which table.
    pub table: usize,
    /// Which row, that of the headings not counted.
    pub row: usize,
    /// Which column.
    pub column: usize,
}

/// A published number and the measured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Where the published number stands.
    pub published: Place,
    /// Where the measured one stands.
    pub measured: Place,
    /// How their difference is judged.
    pub scale: Scale,
}

/// How a difference is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// As it is: of numbers in percent, in points.
    Points,
    /// By the ratio of the two.
    Ratio,
}

/// How near a measured number is to the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Equal, at the decimals printed.
    Equal,
    /// Within [`NEAR_POINTS`] or [`NEAR_RATIO`].
    Near,
    /// Within [`OFF_POINTS`] or [`OFF_RATIO`].
    Off,
    /// Further away than that.
    Far,
}

/// Points up to which a number is near.
pub const NEAR_POINTS: f64 = 2.0;
/// Points up to which a number is off, and no more than that.
pub const OFF_POINTS: f64 = 10.0;
/// Ratio up to which a number is near.
pub const NEAR_RATIO: f64 = 1.1;
/// Ratio up to which a number is off, and no more than that.
pub const OFF_RATIO: f64 = 2.0;

impl Scale {
    /// Judges a measured number, and says how far it is from the published one: `-0.5`, `+12 %`,
    /// `× 3.4`.
    pub fn judge(self, published: f64, measured: f64) -> (Nearness, String) {
        if published == measured {
            return (Nearness::Equal, String::new());
        }
        let (distance, near, off, words) = match self {
            Self::Points => {
                let points = measured - published;
                (points.abs(), NEAR_POINTS, OFF_POINTS, format!("{points:+.1}"))
            }
            Self::Ratio => {
                let ratio = measured / published;
                if !(ratio.is_finite() && ratio > 0.0) {
                    return (Nearness::Far, format!("{:+}", rounded(measured - published)));
                }
                let distance = ratio.max(1.0 / ratio);
                let words = match ratio {
                    // Less than one percent has a decimal.
                    _ if distance < 1.01 => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
                    _ if distance < OFF_RATIO => format!("{:+.0} %", 100.0 * (ratio - 1.0)),
                    ratio if ratio < 1.0 => format!("÷ {distance:.1}"),
                    _ => format!("× {distance:.1}"),
                };
                (distance, NEAR_RATIO, OFF_RATIO, words)
            }
        };
        // Differences of decimals are not exact.
        const ROUNDING: f64 = 1e-9;
        let nearness = match distance - ROUNDING {
            distance if distance <= near => Nearness::Near,
            distance if distance <= off => Nearness::Off,
            _ => Nearness::Far,
        };
        (nearness, words)
    }
}

/// To two decimals.
fn rounded(number: f64) -> f64 {
    (100.0 * number).round() / 100.0
}

/// The number in a cell, if there is nothing else: `1,234`, `+0.5`, but not `-` or `12 %`.
fn number(cell: &str) -> Option<f64> {
    cell.replace(',', "").parse().ok().filter(|number: &f64| number.is_finite())
}

impl Report {
    /// Says that a column of a table has what was measured for the published numbers in another
    /// column, of the same table or of another one. Rows without two numbers are left out. Each is
    /// a table and a column; the tables must be there.
    pub fn beside(&mut self, published: (usize, usize), measured: (usize, usize), scale: Scale) {
        let place = |(table, column), row| Place { table, row, column };
        for row in 0..self.tables[published.0].1.rows.len() {
            self.beside_at(place(published, row), place(measured, row), scale);
        }
    }

    /// The same of two cells; nothing if they do not both hold a number.
    pub fn beside_at(&mut self, published: Place, measured: Place, scale: Scale) {
        if self.number(published).is_some() && self.number(measured).is_some() {
            self.compared.push(Compared { published, measured, scale });
        }
    }

    /// The number at a place, if there is one.
    pub fn number(&self, Place { table, row, column }: Place) -> Option<f64> {
        number(self.tables.get(table)?.1.rows.get(row)?.get(column)?)
    }

    /// How near the measured number of a comparison is, in a word and in figures.
    pub fn judge(&self, compared: &Compared) -> Option<(Nearness, String)> {
        let Compared { published, measured, scale } = *compared;
        Some(scale.judge(self.number(published)?, self.number(measured)?))
    }

    /// Begins a verdict on a claim of the paper. Panics if `claims.csv` has no such id: that is a
    /// mistake of the experiment.
    pub fn claim(&mut self, id: &'static str, bar: Bar) -> Judging<'_> {
        Judging::new(&mut self.claims, id, bar)
    }

    /// Adds a check of the project's own.
    pub fn check(&mut self, text: impl Into<String>, holds: bool, measured: impl Into<String>) {
        self.checks.push(Check { text: text.into(), holds, measured: measured.into() });
    }

    /// Whether no claim is contradicted, and every check holds.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.grade() != Grade::Contradicted)
            && self.checks.iter().all(|check| check.holds)
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        self.render(|title| format!("{title}\n{}\n", "=".repeat(title.chars().count())), Table::to_string)
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = self.render(|title| format!("# {title}\n"), Table::markdown);
        for Figure { file, name, .. } in &self.figures {
            write!(text, "\n![{name}]({file})\n").expect("a string");
        }
        text
    }

    /// The files that go beside the result of an item of this name: file names and contents.
    pub fn files(&self, name: &str) -> Vec<(String, &str)> {
        let figures = self.figures.iter().map(|figure| (figure.file.clone(), &figure.svg[..]));
        let cells = (format!("{name}.cells.csv"), &self.cells[..]);
        figures.chain([cells].into_iter().filter(|(_, cells)| !cells.is_empty())).collect()
    }

    fn render(&self, heading: impl Fn(&str) -> String, table: impl Fn(&Table) -> String) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let seeds = self.seeds_in_words().map_or(String::new(), |seeds| format!(", {seeds}"));
        let mut text =
            format!("{}\n{}\nMeasured with Sweephand {version}{seeds}.\n", heading(&self.title), self.method);
        let mut add = |part: &str| write!(text, "\n{part}\n").expect("a string");
        for (line, contents) in &self.tables {
            add(&format!("{line}\n\n{}", table(contents).trim_end()));
        }
        let lines = self.claims.iter().map(Claim::line).chain(self.checks.iter().map(Check::line));
        let lines: Vec<_> = lines.collect();
        if !lines.is_empty() {
            add(&lines.join("\n"));
        }
        self.notes.iter().for_each(|note| add(note));
        text
    }

    /// `seed 1`, `seeds 1 and 2`, `seeds 1 to 6`, `seeds 3, 5, 8`; `None` if there are none but
    /// those of policies.
    pub fn seeds_in_words(&self) -> Option<String> {
        Some(match &self.seeds[..] {
            [] => return None,
            [seed] => format!("seed {seed}"),
            [one, other] => format!("seeds {one} and {other}"),
            [first, .., last] if (*first..=*last).eq(self.seeds.iter().copied()) => {
                format!("seeds {first} to {last}")
            }
            seeds => {
                format!("seeds {}", seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_judged_by_points_or_by_ratio() {
        let points = |theirs, ours| Scale::Points.judge(theirs, ours);
        assert_eq!(points(26.4, 26.4), (Nearness::Equal, String::new()));
        assert_eq!(points(23.9, 23.4), (Nearness::Near, "-0.5".into()));
        assert_eq!(points(50.0, 52.0), (Nearness::Near, "+2.0".into()));
        assert_eq!(points(18.6, 10.2), (Nearness::Off, "-8.4".into()));
        assert_eq!(points(22.0, 8.0), (Nearness::Far, "-14.0".into()));
        let ratio = |theirs, ours| Scale::Ratio.judge(theirs, ours);
        assert_eq!(ratio(0.0, 0.0), (Nearness::Equal, String::new()));
        assert_eq!(ratio(100.0, 110.0), (Nearness::Near, "+10 %".into()));
        assert_eq!(ratio(0.572, 0.658), (Nearness::Off, "+15 %".into()));
        assert_eq!(ratio(12.6, 220.5), (Nearness::Far, "× 17.5".into()));
        assert_eq!(ratio(12.4, 2.3), (Nearness::Far, "÷ 5.4".into()));
        assert_eq!(ratio(0.0, 0.5), (Nearness::Far, "+0.5".into()));
        assert_eq!(ratio(11.0, 0.0), (Nearness::Far, "-11".into()));
    }

    #[test]
    fn only_cells_with_numbers_are_compared() {
        let mut report = Report::default();
        let mut table = Table::new(["row", "published", "ours"]);
        table.row(["a", "1,000", "999"]);
        table.row(["b", "-", "3"]);
        table.row(["c", "2", ""]);
        table.row(["d", "50 %", "50 %"]);
        report.tables.push(("Numbers.".into(), table));
        report.beside((0, 1), (0, 2), Scale::Ratio);
        let place = |column| Place { table: 0, row: 0, column };
        let only = Compared { published: place(1), measured: place(2), scale: Scale::Ratio };
        assert_eq!(report.compared, [only]);
        assert_eq!(report.judge(&only), Some((Nearness::Near, "-0.1 %".into())));
    }

    #[test]
    fn seeds_are_told_in_words() {
        let words = |seeds: &[u64]| Report { seeds: seeds.to_vec(), ..Report::default() }.seeds_in_words();
        assert_eq!(words(&[]), None);
        assert_eq!(words(&[7]).unwrap(), "seed 7");
        assert_eq!(words(&[1, 2]).unwrap(), "seeds 1 and 2");
        assert_eq!(words(&[4, 5, 6]).unwrap(), "seeds 4 to 6");
        assert_eq!(words(&[3, 5, 8]).unwrap(), "seeds 3, 5, 8");
    }
}
