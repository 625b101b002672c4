//! Whether a program keeps to a budget of memory: `sweephand advise --budget`, for builds that a
//! program may fail.

use crate::curve_study::CurveStudy;
use crate::faults_in_code::FaultsInCode;
use serde_json::{Value, json};
use std::fmt::Write;
use sweephand_results::{Table, bytes, grouped};

/// A budget of memory, and the study of a program that should keep to it.
#[derive(Clone, Copy, Debug)]
pub struct Budget<'a> {
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// The study.
    pub study: &'a CurveStudy,
}

impl Budget<'_> {
    /// The memory that is enough for the program, in bytes: see [`Enough`](crate::Enough).
    pub fn needed_bytes(&self) -> u64 {
        self.study.conclusion.enough.memory_pages * self.study.curves.page_bytes
    }

    /// Whether the program keeps to it.
    pub fn is_kept(&self) -> bool {
        self.needed_bytes() <= self.budget_bytes
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "budget_bytes": self.budget_bytes,
            "needed_bytes": self.needed_bytes(),
            "is_kept": self.is_kept(),
        })
    }

    /// The verdict and the reasons in Markdown, with up to `most` lines of code.
    pub fn to_markdown(&self, in_code: Option<&FaultsInCode>, most: usize) -> String {
        let Self { budget_bytes, study } = *self;
        let (curves, conclusion) = (&study.curves, &study.conclusion);
        let (needed, budget) = (bytes(self.needed_bytes()), bytes(budget_bytes));
        let verdict = match self.is_kept() {
            true => format!("needs {needed} of its {budget}"),
            false => format!("needs {needed}, more than its budget of {budget}"),
        };
        let mut text = format!(
            "### {}: {verdict}\n\n{} {}\n\n",
            study.name,
            conclusion.sentences(curves).enough,
            conclusion.sentences(curves).policy
        );
        let policy = &curves.curves[conclusion.policy];
        let mut table = Table::new(["memory".to_string(), format!("faults under {}", policy.policy)]);
        for (pages, faults) in curves.memory_pages.iter().zip(&policy.faults) {
            table.row([bytes(pages * curves.page_bytes), grouped(*faults)]);
        }
        text += &table.markdown();
        let lines = in_code.map(|in_code| (in_code, in_code.objects.code.lines()));
        if let Some((in_code, lines)) = lines.filter(|(_, lines)| !lines.is_empty()) {
            let size = curves.memory_pages[in_code.objects.size] * curves.page_bytes;
            let under = &curves.curves[in_code.objects.policies[0]].policy;
            let mut table =
                Table::new(["line".to_string(), format!("faults in {} under {under}", bytes(size))]);
            for line in lines.iter().take(most) {
                table.row([format!("`{}`", line.code), grouped(line.faults[0])]);
            }
            let _ = write!(text, "\n{}", table.markdown());
        }
        text
    }
}
