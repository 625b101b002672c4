//! What an experiment has to tell.

use std::fmt::Write;
use sweephand_report::Table;

/// The result of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What it shows.
    pub title: String,
    /// How it was measured: policies, parameters, conventions, traces.
    pub method: String,
    /// Tables with a line on each.
    pub tables: Vec<(String, Table)>,
    /// What the paper or we claim, and whether it holds here.
    pub claims: Vec<Claim>,
    /// What is to be said about the result.
    pub notes: Vec<String>,
}

/// A claim, with the number that decides it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// The number that says so.
    pub measured: String,
}

impl Report {
    /// Adds a claim.
    pub fn claim(&mut self, text: impl Into<String>, holds: bool, measured: impl Into<String>) {
        self.claims.push(Claim { text: text.into(), holds, measured: measured.into() });
    }

    /// Whether every claim holds.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        self.render(|title| format!("{title}\n{}\n", "=".repeat(title.chars().count())), Table::to_string)
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        self.render(|title| format!("# {title}\n"), Table::markdown)
    }

    fn render(&self, heading: impl Fn(&str) -> String, table: impl Fn(&Table) -> String) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text =
            format!("{}\n{}\nMeasured with Sweephand {version}.\n", heading(&self.title), self.method);
        let mut add = |part: &str| write!(text, "\n{part}\n").expect("a string");
        for (line, contents) in &self.tables {
            add(&format!("{line}\n\n{}", table(contents).trim_end()));
        }
        if !self.claims.is_empty() {
            let claims = self.claims.iter().map(|claim| {
                let verdict = if claim.holds { "yes" } else { "NO" };
                format!("- {verdict}: {} ({})", claim.text, claim.measured)
            });
            add(&claims.collect::<Vec<_>>().join("\n"));
        }
        self.notes.iter().for_each(|note| add(note));
        text
    }
}
