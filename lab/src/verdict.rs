//! Verdicts on the claims of the papers.
//!
//! A verdict names its claim (an id of `claims.csv`), says whose bar decides, and has a grade that
//! comes out of measurements with their noise. [`Report::claim`](crate::Report::claim) begins one,
//! and a method of [`Judging`] ends it; there is no other way to make one. What the project checks
//! for itself is a [`Check`], and is counted apart.

use crate::Published;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A claim as `claims.csv` has it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its id, such as `ws03`.
    pub id: String,
    /// The paper that makes it.
    pub source: String,
    /// What it says, in our words.
    pub text: String,
    /// Why no item has a verdict on it; empty if one has.
    pub no_verdict: String,
}

/// Every claim that is known, in the order of the list.
pub fn listed_claims() -> &'static [Listed] {
    static LISTED: LazyLock<Vec<Listed>> = LazyLock::new(|| {
        let list = Published::read(include_str!("../papers/claims.csv"));
        let column = |name| list.words(name);
        let (ids, sources, reasons) = (column("id"), column("source"), column("no_verdict"));
        let parts = ["subject", "quantity", "value", "unit", "condition"].map(column);
        (0..ids.len())
            .map(|row| {
                let words = parts.iter().map(|part| part[row]).filter(|part| !part.is_empty());
                Listed {
                    id: ids[row].into(),
                    source: sources[row].into(),
                    text: words.collect::<Vec<_>>().join(", "),
                    no_verdict: reasons[row].into(),
                }
            })
            .collect()
    });
    &LISTED
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// It meets the bar, all of it.
    Reproduced,
    /// It misses the bar and meets a wider one, which the verdict states; or more than half of its
    /// cases meet the bar, of three or more.
    InSpirit,
    /// It meets neither.
    Contradicted,
    /// There is nothing to measure here, or the difference is inside its noise.
    Untestable,
}

impl Grade {
    /// Every grade, the best first.
    pub const ALL: [Self; 4] = [Self::Reproduced, Self::InSpirit, Self::Contradicted, Self::Untestable];

    /// The grade in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::InSpirit => "in spirit",
            Self::Contradicted => "contradicted",
            Self::Untestable => "untestable here",
        }
    }
}

/// Whose the number is that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// The paper states it.
    Paper,
    /// The paper uses words, such as "clearly better", and the number is ours.
    Ours,
}

impl Bar {
    /// The bar in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Paper => "the paper's bar",
            Self::Ours => "our bar",
        }
    }
}

/// A verdict on a claim, or on a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    id: String,
    bar: Bar,
    grade: Grade,
    text: String,
    measured: String,
}

impl Claim {
    /// The id of the claim in `claims.csv`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose bar decides.
    pub fn bar(&self) -> Bar {
        self.bar
    }

    /// The grade.
    pub fn grade(&self) -> Grade {
        self.grade
    }

    /// What is claimed, with the bar.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The measurement that decides.
    pub fn measured(&self) -> &str {
        &self.measured
    }

    /// The verdict as a line of a result.
    pub fn line(&self) -> String {
        let Self { id, bar, grade, text, measured } = self;
        format!("- {} [{id}, {}]: {text} ({measured})", grade.words(), bar.words())
    }
}

/// Something that the project checks for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What is checked.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// The number that says so.
    pub measured: String,
}

impl Check {
    /// The check as a line of a result.
    pub fn line(&self) -> String {
        let Self { text, holds, measured } = self;
        format!("- {} [our check]: {text} ({measured})", if *holds { "holds" } else { "FAILS" })
    }
}

/// Where a number has to lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Here or above.
    AtLeast(f64),
    /// Here or below.
    AtMost(f64),
    /// From the first to the second.
    Between(f64, f64),
}

impl Limit {
    /// Whether every value from `low` to `high` lies there (`Some(true)`), none (`Some(false)`), or
    /// some.
    fn has(self, low: f64, high: f64) -> Option<bool> {
        let (from, to) = match self {
            Self::AtLeast(from) => (from, f64::INFINITY),
            Self::AtMost(to) => (f64::NEG_INFINITY, to),
            Self::Between(from, to) => (from, to),
        };
        if from <= low && high <= to {
            Some(true)
        } else if high < from || to < low {
            Some(false)
        } else {
            None
        }
    }
}

/// A measured number with its noise.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// What was measured.
    pub of: String,
    /// The number.
    pub value: f64,
    /// Half the width of its 95 % confidence interval; 0 if measuring again gives the same.
    pub noise: f64,
    /// Decimals to print.
    pub decimals: usize,
}

impl Measurement {
    /// A number that comes out the same every time.
    pub fn exact(of: impl Into<String>, value: f64, decimals: usize) -> Self {
        Self { of: of.into(), value, noise: 0.0, decimals }
    }

    /// The mean of samples, with the interval of Student's t distribution.
    pub fn mean(of: impl Into<String>, samples: &[f64], decimals: usize) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let noise = student_t(samples.len().saturating_sub(1)) * (variance / count).sqrt();
        Self { of: of.into(), value: mean, noise, decimals }
    }

    fn words(&self) -> String {
        let Self { of, value, noise, decimals } = self;
        let gap = if of.is_empty() { "" } else { " " };
        match *noise {
            0.0 => format!("{of}{gap}{value:.decimals$}"),
            noise => format!("{of}{gap}{value:.decimals$} ± {noise:.decimals$}"),
        }
    }
}

/// The mean of at least one value; NaN if there is none.
pub(crate) fn mean(values: impl IntoIterator<Item: Borrow<f64>>) -> f64 {
    let (mut count, mut sum) = (0_u32, 0.0);
    for value in values {
        count += 1;
        sum += value.borrow();
    }
    sum / f64::from(count)
}

/// The 97.5 % point of Student's t distribution.
fn student_t(degrees: usize) -> f64 {
    const POINTS: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131,
    ];
    match degrees {
        0 => f64::NAN,
        degrees => POINTS.get(degrees - 1).copied().unwrap_or(2.12),
    }
}

/// A verdict that has been begun. One of its methods ends it.
#[must_use = "the verdict is not in the report before a method ends it"]
pub struct Judging<'a> {
    claims: &'a mut Vec<Claim>,
    id: &'static str,
    bar: Bar,
}

impl<'a> Judging<'a> {
    /// Begins a verdict, which goes to `claims`. Panics if `claims.csv` has no such id: that is a
    /// mistake of the experiment.
    pub(crate) fn new(claims: &'a mut Vec<Claim>, id: &'static str, bar: Bar) -> Self {
        assert!(listed_claims().iter().any(|listed| listed.id == id), "claims.csv has no '{id}'");
        Self { claims, id, bar }
    }

    /// By numbers and where they have to lie. `spirit` is the wider bar, if there is one; the text
    /// states both. A number that is not finite leaves the claim untestable, and so does one whose
    /// interval reaches across the bar. One that lies beyond the bar contradicts it, unless the
    /// wider one is met.
    pub fn numbers(
        self,
        text: impl Into<String>,
        bar: Limit,
        spirit: Option<Limit>,
        measurements: &[Measurement],
    ) {
        let measured = measurements.iter().map(Measurement::words).collect::<Vec<_>>().join(", ");
        let against = |limit: Limit| {
            let mut met = Some(true);
            for Measurement { value, noise, .. } in measurements {
                match limit.has(value - noise, value + noise) {
                    Some(false) => return Some(false),
                    None => met = None,
                    Some(true) => {}
                }
            }
            met
        };
        let none = measurements.is_empty();
        let finite = measurements.iter().all(|found| found.value.is_finite() && found.noise.is_finite());
        if none || !finite {
            let why = if none { "nothing was measured".into() } else { format!("{measured}: no number") };
            return self.end(Grade::Untestable, text, why);
        }
        match (against(bar), spirit.and_then(against)) {
            (Some(true), _) => self.end(Grade::Reproduced, text, measured),
            (_, Some(true)) => self.end(Grade::InSpirit, text, measured),
            (None, _) => self.end(Grade::Untestable, text, format!("{measured}; inside the noise")),
            (Some(false), _) => self.end(Grade::Contradicted, text, measured),
        }
    }

    /// By something that comes out the same every time, such as the faults of a policy on a trace.
    pub fn exact(self, text: impl Into<String>, holds: bool, measured: impl Into<String>) {
        self.cases(text, [holds], measured);
    }

    /// By cases that each meet the bar or not. Without a case the claim is untestable; nothing
    /// holds because there is nothing.
    pub fn cases(
        self,
        text: impl Into<String>,
        cases: impl IntoIterator<Item = bool>,
        measured: impl Into<String>,
    ) {
        let cases: Vec<bool> = cases.into_iter().collect();
        let met = cases.iter().filter(|met| **met).count();
        let grade = match cases.len() {
            0 => return self.untestable(text, "nothing was measured"),
            all if met == all => Grade::Reproduced,
            all if all >= 3 && 2 * met > all => Grade::InSpirit,
            _ => Grade::Contradicted,
        };
        let measured = measured.into();
        let measured = match grade {
            Grade::InSpirit => format!("{met} of {} cases: {measured}", cases.len()),
            _ => measured,
        };
        self.end(grade, text, measured);
    }

    /// Nothing here can decide.
    pub fn untestable(self, text: impl Into<String>, why: impl Into<String>) {
        self.end(Grade::Untestable, text, why);
    }

    fn end(self, grade: Grade, text: impl Into<String>, measured: impl Into<String>) {
        let Self { claims, id, bar } = self;
        claims.push(Claim { id: id.into(), bar, grade, text: text.into(), measured: measured.into() });
    }
}

/// The verdicts of a result in Markdown: id and grade, in their order.
pub fn verdicts_in(markdown: &str) -> impl Iterator<Item = (&str, Grade)> {
    markdown.lines().filter_map(|line| {
        let (grade, rest) = line.strip_prefix("- ")?.split_once(" [")?;
        let grade = Grade::ALL.into_iter().find(|known| known.words() == grade)?;
        Some((rest.split_once(", ")?.0, grade))
    })
}

/// A claim's grade over all of its verdicts: that of all that decide, if they agree; else in spirit
/// if more of them hold than are contradicted, and contradicted if not. Untestable if none decides.
fn overall(grades: impl IntoIterator<Item = Grade>) -> Option<Grade> {
    let grades: Vec<Grade> = grades.into_iter().collect();
    let count = |grade| grades.iter().filter(|other| **other == grade).count();
    let (reproduced, in_spirit) = (count(Grade::Reproduced), count(Grade::InSpirit));
    let contradicted = count(Grade::Contradicted);
    match (reproduced, in_spirit, contradicted) {
        (0, 0, 0) => grades.first().copied(),
        (1.., 0, 0) => Some(Grade::Reproduced),
        _ if reproduced + in_spirit > contradicted => Some(Grade::InSpirit),
        _ => Some(Grade::Contradicted),
    }
}

/// The claims of each paper by grade, in Markdown: a table, then each claim in a line. `results`
/// are the results in Markdown.
pub fn claims_page<'a>(results: impl IntoIterator<Item = &'a str>) -> String {
    let mut by_id: BTreeMap<&str, Vec<Grade>> = BTreeMap::new();
    let mut checks = [0; 2];
    for result in results {
        for (id, grade) in verdicts_in(result) {
            by_id.entry(id).or_default().push(grade);
        }
        checks[0] += result.matches("\n- holds [our check]").count();
        checks[1] += result.matches("\n- FAILS [our check]").count();
    }
    let mut papers: Vec<&str> = Vec::new();
    for listed in listed_claims() {
        if !papers.contains(&&listed.source[..]) {
            papers.push(&listed.source);
        }
    }
    let grade_of = |listed: &Listed| overall(by_id.get(&listed.id[..]).cloned().unwrap_or_default());
    let mut page = String::from(
        "| paper | claims | reproduced | in spirit | contradicted | untestable here | no verdict |\n|---|---|---|---|---|---|---|\n",
    );
    for paper in &papers {
        let of_paper = || listed_claims().iter().filter(|listed| listed.source == *paper);
        let count = |grade| of_paper().filter(|listed| grade_of(listed) == grade).count().to_string();
        let mut cells = vec![paper.to_string(), of_paper().count().to_string()];
        cells.extend(Grade::ALL.map(|grade| count(Some(grade))));
        cells.push(count(None));
        page += &format!("| {} |\n", cells.join(" | "));
    }
    page += &format!("\nThe project's own checks: {} hold, {} fail.\n", checks[0], checks[1]);
    page += "\n| claim | what it says | grade |\n|---|---|---|\n";
    for listed in listed_claims() {
        let grade = match grade_of(listed) {
            Some(grade) => {
                let parts = &by_id[&listed.id[..]];
                match parts.len() {
                    1 => grade.words().to_string(),
                    _ => {
                        let count = |grade: &Grade| parts.iter().filter(|part| *part == grade).count();
                        let parts = Grade::ALL.iter().filter(|grade| count(grade) > 0);
                        let parts = parts.map(|grade| format!("{} {}", count(grade), grade.words()));
                        format!("{}: {}", grade.words(), parts.collect::<Vec<_>>().join(", "))
                    }
                }
            }
            None => format!("no verdict: {}", listed.no_verdict),
        };
        page += &format!("| {} | {} | {grade} |\n", listed.id, listed.text);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;

    fn grade(judge: impl FnOnce(Judging)) -> Grade {
        let mut report = Report::default();
        judge(report.claim("ws01", Bar::Paper));
        report.claims[0].grade()
    }

    fn noisy(value: f64, noise: f64) -> Measurement {
        Measurement { noise, ..Measurement::exact("", value, 1) }
    }

    #[test]
    fn a_number_is_judged_with_its_noise() {
        let numbers = |spirit, values: &[Measurement]| {
            grade(|judging| judging.numbers("", Limit::Between(5.0, 20.0), spirit, values))
        };
        assert_eq!(numbers(None, &[noisy(10.0, 1.0)]), Grade::Reproduced);
        assert_eq!(numbers(None, &[noisy(4.0, 0.5)]), Grade::Contradicted);
        assert_eq!(numbers(None, &[noisy(4.8, 0.5)]), Grade::Untestable, "inside the noise");
        assert_eq!(numbers(None, &[noisy(10.0, 1.0), noisy(30.0, 1.0)]), Grade::Contradicted);
        let wider = Some(Limit::AtLeast(0.0));
        assert_eq!(numbers(wider, &[noisy(26.0, 1.0)]), Grade::InSpirit);
        assert_eq!(
            numbers(wider, &[noisy(0.2, 0.5)]),
            Grade::Contradicted,
            "surely below 5, and perhaps not above 0"
        );
        assert_eq!(numbers(wider, &[noisy(-2.0, 0.5)]), Grade::Contradicted);
    }

    #[test]
    fn claims_without_numbers_are_untestable() {
        let numbers = |values: &[Measurement]| {
            grade(|judging| judging.numbers("", Limit::AtMost(1.1), Some(Limit::AtMost(2.0)), values))
        };
        assert_eq!(numbers(&[]), Grade::Untestable);
        assert_eq!(numbers(&[noisy(f64::NAN, 0.0)]), Grade::Untestable, "0/0");
        assert_eq!(numbers(&[Measurement::mean("one run", &[1.0], 1)]), Grade::Untestable, "no interval");
        assert_eq!(grade(|judging| judging.cases("", [], "")), Grade::Untestable);
    }

    #[test]
    fn cases_are_counted() {
        let cases = |met: &[bool]| grade(|judging| judging.cases("", met.iter().copied(), ""));
        assert_eq!(cases(&[true, true]), Grade::Reproduced);
        assert_eq!(cases(&[true, false]), Grade::Contradicted, "two are too few for most");
        assert_eq!(cases(&[true, true, false]), Grade::InSpirit);
        assert_eq!(cases(&[true, false, false, true]), Grade::Contradicted);
    }

    #[test]
    fn a_claim_in_parts_has_one_grade() {
        use Grade::*;
        assert_eq!(overall([]), None);
        assert_eq!(overall([Reproduced, Untestable]), Some(Reproduced));
        assert_eq!(overall([Untestable]), Some(Untestable));
        assert_eq!(overall([Reproduced, InSpirit]), Some(InSpirit));
        assert_eq!(overall([Reproduced, Contradicted]), Some(Contradicted));
        assert_eq!(overall([Reproduced, InSpirit, Contradicted]), Some(InSpirit));
        assert_eq!(overall([Contradicted, Untestable]), Some(Contradicted));
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut report = Report::default();
        report.claim("ws02", Bar::Ours).exact("it holds", true, "1, 2 [3]");
        report.claim("ws03", Bar::Paper).untestable("it cannot be seen", "no data");
        report.check("we hold", true, "4");
        let markdown = report.markdown();
        let read: Vec<_> = verdicts_in(&markdown).collect();
        assert_eq!(read, [("ws02", Grade::Reproduced), ("ws03", Grade::Untestable)]);
        assert!(markdown.contains("\n- holds [our check]: we hold (4)\n"), "{markdown}");
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        let found = Measurement::mean("", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1);
        assert_eq!(found.value, 3.5);
        assert!((found.noise - 2.571 * (3.5_f64 / 6.0).sqrt()).abs() < 1e-12, "{}", found.noise);
    }

    #[test]
    fn every_claim_has_its_own_id() {
        let mut ids: Vec<&str> = listed_claims().iter().map(|listed| &listed.id[..]).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.len() == count && count >= 72, "{count}");
    }
}
