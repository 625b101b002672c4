//! All reproduced items as one HTML file: published numbers beside measured ones, claims, and where
//! each result comes from. The file is complete: it has no script and loads nothing.

use crate::{Grade, Nearness, Origin, Report, Reproduction, State, every_item, paper};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use sweephand_report::html_style;
use sweephand_results::{bytes, grouped};

const TEMPLATE: &str = include_str!("html/reproductions.html");
const STYLE: &str = include_str!("html/style.css");

/// How near a measured number is: its class in the style sheet, its sign, and what it means.
const NEARNESS: [(Nearness, &str, &str, &str); 4] = [
    (Nearness::Equal, "equal", "=", "equal, at the decimals that are published"),
    (Nearness::Near, "near", "≈", "near: within 2 points, or 10 %"),
    (Nearness::Off, "off", "≠", "off: within 10 points, or a factor of 2"),
    (Nearness::Far, "far", "!", "far: further than that"),
];

fn class(nearness: Nearness) -> &'static (Nearness, &'static str, &'static str, &'static str) {
    NEARNESS.iter().find(|(known, ..)| *known == nearness).expect("all are listed")
}

/// The class of a grade in the style sheet.
fn grade_class(grade: Grade) -> &'static str {
    match grade {
        Grade::Reproduced | Grade::InSpirit => "yes",
        Grade::Contradicted => "no",
        Grade::Untestable => "open",
    }
}

/// A paper, as the template takes it.
#[derive(Serialize)]
struct Paper {
    anchor: &'static str,
    name: &'static str,
    citation: String,
    items: Vec<Shown>,
    tally: Tally,
}

/// An item.
#[derive(Serialize)]
struct Shown {
    anchor: String,
    id: String,
    title: String,
    state: State,
    reason: Option<String>,
    tally: Tally,
    method: Vec<Words>,
    /// Tables with published numbers, or else the first; and the others.
    tables: [Vec<ShownTable>; 2],
    claims: Vec<ShownClaim>,
    notes: Vec<Note>,
    /// Drawings.
    figures: Vec<String>,
    origin: Option<String>,
}

/// Words, some of them code.
type Words = Vec<(bool, String)>;

#[derive(Serialize)]
struct Note {
    /// Drawn with letters, to be shown as it is.
    drawing: bool,
    words: Words,
}

#[derive(Serialize)]
struct ShownClaim {
    /// Of the style sheet.
    class: &'static str,
    /// The grade of a claim, or whether a check holds.
    verdict: &'static str,
    /// The claim's id and whose bar decides.
    origin: String,
    text: Words,
    measured: Words,
}

#[derive(Serialize)]
struct ShownTable {
    line: Words,
    heading: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Default, Serialize)]
struct Cell {
    text: String,
    /// Whether it is a published number.
    published: bool,
    class: Option<&'static str>,
    sign: &'static str,
    difference: String,
    /// For those who do not see the colour.
    meaning: &'static str,
}

/// How many there are of each.
#[derive(Default, Serialize)]
struct Tally {
    items: usize,
    measured: usize,
    impossible: usize,
    waiting: usize,
    /// Claims by grade, in the order of [`Grade::ALL`].
    grades: [usize; 4],
    /// The project's own checks that hold, and that fail.
    checks: [usize; 2],
    /// By nearness, in the order of [`NEARNESS`].
    cells: [usize; 4],
}

impl Tally {
    /// Of one item.
    fn of(state: State, report: &Report) -> Self {
        let mut tally = Self { items: 1, ..Self::default() };
        match state {
            State::Measured => tally.measured = 1,
            State::Impossible => tally.impossible = 1,
            State::Waiting => tally.waiting = 1,
        }
        for (nearness, _) in report.compared.iter().filter_map(|compared| report.judge(compared)) {
            tally.cells[nearness as usize] += 1;
        }
        tally.grades =
            Grade::ALL.map(|grade| report.claims.iter().filter(|claim| claim.grade() == grade).count());
        tally.checks =
            [true, false].map(|holds| report.checks.iter().filter(|check| check.holds == holds).count());
        tally
    }

    fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.measured += other.measured;
        self.impossible += other.impossible;
        self.waiting += other.waiting;
        self.grades.iter_mut().zip(other.grades).for_each(|(sum, claims)| *sum += claims);
        self.checks.iter_mut().zip(other.checks).for_each(|(sum, checks)| *sum += checks);
        self.cells.iter_mut().zip(other.cells).for_each(|(sum, cells)| *sum += cells);
    }
}

/// The page with every item of every paper. `found` is what became of them, by
/// [`Reproduction::item`]; the others wait.
pub fn html_page(found: &[Reproduction], version: &str) -> String {
    let by_item: HashMap<&str, &Reproduction> =
        found.iter().map(|found| (found.item.as_str(), found)).collect();
    let mut papers: Vec<Paper> = Vec::new();
    for item in every_item() {
        let known = papers.iter().position(|paper| paper.anchor == item.folder);
        let index = known.unwrap_or_else(|| {
            let (name, citation) = paper(item.folder).unwrap_or((item.folder, String::new()));
            let (items, tally) = (Vec::new(), Tally::default());
            papers.push(Paper { anchor: item.folder, name, citation, items, tally });
            papers.len() - 1
        });
        let paper = &mut papers[index];
        let shown =
            by_item.get(item.id).map_or_else(|| show(&Reproduction::waiting(item)), |found| show(found));
        paper.tally.add(&shown.tally);
        paper.items.push(shown);
    }
    let mut tally = Tally::default();
    papers.iter().for_each(|paper| tally.add(&paper.tally));
    let legend: Vec<_> = NEARNESS.iter().map(|(_, class, sign, meaning)| (class, sign, meaning)).collect();
    let mut environment = Environment::new();
    environment.add_template("reproductions.html", TEMPLATE).expect("the template is part of this crate");
    let template = environment.get_template("reproductions.html").expect("added above");
    let html = template.render(context! {
        style => html_style() + STYLE,
        papers => Value::from(Serde(papers)),
        tally => Value::from(Serde(tally)),
        legend => Value::from(Serde(legend)),
        grades => Grade::ALL.map(Grade::words),
        facts => facts(found),
        version,
    });
    html.expect("the template accepts these values")
}

/// When, with what and on what the results were measured: a line each for every program and
/// machine.
fn facts(found: &[Reproduction]) -> Vec<String> {
    let origins: Vec<_> = found.iter().filter_map(|found| found.origin.as_ref()).collect();
    let mut dates: Vec<&str> = origins.iter().map(|origin| &origin.date[..]).collect();
    dates.sort_unstable();
    let mut facts = Vec::new();
    if let (Some(first), Some(last)) = (dates.first(), dates.last()) {
        let seconds: f64 = origins.iter().map(|origin| origin.seconds).sum();
        let when = if first == last { format!("on {first}") } else { format!("from {first} to {last}") };
        let took = match seconds {
            seconds if seconds < 120.0 => format!("{seconds:.0} seconds"),
            seconds => format!("{} minutes", grouped((seconds / 60.0).round() as u64)),
        };
        facts.push(format!("Measured {when} UTC, in {took} of work."));
    }
    let mut add = |fact: String| {
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    };
    for origin in &origins {
        let program = &origin.program;
        add(format!("Sweephand {}, executable {}.", program.version, program.checksum));
    }
    for origin in &origins {
        let machine = &origin.machine;
        let memory = bytes(machine.memory_bytes);
        add(format!(
            "{} processors ({}), {memory}, {}.",
            machine.processors, machine.processor, machine.system
        ));
    }
    facts
}

fn show(found: &Reproduction) -> Shown {
    let nothing = Report::default();
    let report = found.report.as_ref().unwrap_or(&nothing);
    let origin = found.origin.as_ref().filter(|_| found.report.is_some());
    Shown {
        anchor: found.item.replace('/', "-"),
        id: found.item.clone(),
        title: found.title.clone(),
        state: found.state,
        reason: found.reason.clone(),
        tally: Tally::of(found.state, report),
        method: report.method.lines().map(words).collect(),
        tables: show_tables(report),
        claims: show_claims(report),
        notes: show_notes(report),
        figures: report.figures.iter().map(|figure| figure.svg.clone()).collect(),
        origin: origin.map(|origin| origin_in_words(origin, report)),
    }
}

/// The cells of a report that hold a published number or are judged by one, without their texts.
/// They are by table, row and column.
fn judged_cells(report: &Report) -> HashMap<(usize, usize, usize), Cell> {
    let mut cells: HashMap<_, Cell> = HashMap::new();
    for compared in &report.compared {
        let (published, measured) = (compared.published, compared.measured);
        cells.entry((published.table, published.row, published.column)).or_default().published = true;
        let Some((nearness, difference)) = report.judge(compared) else { continue };
        let (_, class, sign, meaning) = class(nearness);
        let cell = cells.entry((measured.table, measured.row, measured.column)).or_default();
        *cell = Cell { class: Some(class), sign, difference, meaning, ..Cell::default() };
    }
    cells
}

/// Tables with published numbers, or else the first; and the others.
fn show_tables(report: &Report) -> [Vec<ShownTable>; 2] {
    let mut cells = judged_cells(report);
    let compared = report.compared.iter();
    let published: HashSet<usize> =
        compared.flat_map(|compared| [compared.published.table, compared.measured.table]).collect();
    let mut shown = [Vec::new(), Vec::new()];
    for (index, (line, table)) in report.tables.iter().enumerate() {
        let rows = table.rows.iter().enumerate().map(|(row, texts)| {
            let cells = texts.iter().enumerate().map(|(column, text)| Cell {
                text: text.clone(),
                ..cells.remove(&(index, row, column)).unwrap_or_default()
            });
            cells.collect()
        });
        let shown_table =
            ShownTable { line: words(line), heading: table.heading.clone(), rows: rows.collect() };
        let in_front = published.contains(&index) || published.is_empty() && index == 0;
        shown[usize::from(!in_front)].push(shown_table);
    }
    shown
}

/// Claims, then checks.
fn show_claims(report: &Report) -> Vec<ShownClaim> {
    let claims = report.claims.iter().map(|claim| ShownClaim {
        class: grade_class(claim.grade()),
        verdict: claim.grade().words(),
        origin: format!("{}, {}", claim.id(), claim.bar().words()),
        text: words(claim.text()),
        measured: words(claim.measured()),
    });
    let checks = report.checks.iter().map(|check| ShownClaim {
        class: if check.holds { "yes" } else { "no" },
        verdict: if check.holds { "holds" } else { "FAILS" },
        origin: "our check".into(),
        text: words(&check.text),
        measured: words(&check.measured),
    });
    claims.chain(checks).collect()
}

/// A note holds paragraphs; one that is set off is drawn with letters.
fn show_notes(report: &Report) -> Vec<Note> {
    let paragraphs = report.notes.iter().flat_map(|note| note.split("\n\n"));
    paragraphs.map(|note| Note { drawing: note.starts_with("    "), words: words(note.trim_end()) }).collect()
}

/// When a report was measured, how long that took, and from what.
fn origin_in_words(origin: &Origin, report: &Report) -> String {
    let inputs = origin.inputs.iter().map(|input| {
        let folder = if input.bundled { "traces/" } else { "" };
        format!("{folder}{} ({})", input.file, input.checksum)
    });
    let inputs: Vec<_> = inputs.collect();
    let inputs = match inputs.is_empty() {
        true => "no file".to_string(),
        false => inputs.join(", "),
    };
    let seeds =
        report.seeds_in_words().unwrap_or("no seed but those of policies, which have their defaults".into());
    format!("{} UTC, {:.1} s; from {inputs}; {seeds}.", origin.date, origin.seconds)
}

/// Takes a text apart: what stands between two back quotes is code.
fn words(text: &str) -> Words {
    let parts = text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part.to_string()));
    parts.filter(|(_, part)| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_says_what_the_limits_are() {
        use crate::report::{NEAR_POINTS, NEAR_RATIO, OFF_POINTS, OFF_RATIO};
        let percent = 100.0 * (NEAR_RATIO - 1.0);
        assert!(NEARNESS[1].3.ends_with(&format!("within {NEAR_POINTS} points, or {percent:.0} %")));
        assert!(NEARNESS[2].3.ends_with(&format!("within {OFF_POINTS} points, or a factor of {OFF_RATIO}")));
        for (index, (nearness, ..)) in NEARNESS.iter().enumerate() {
            assert_eq!(*nearness as usize, index, "the order of tallies");
        }
    }

    #[test]
    fn every_paper_has_a_name_and_a_citation() {
        for item in every_item() {
            let (name, citation) = paper(item.folder).unwrap_or_else(|| panic!("{}", item.folder));
            assert!(!name.is_empty() && citation.len() > 40, "{}: {name}, {citation}", item.folder);
        }
    }

    /// Relative luminance and contrast as WCAG 2 has them.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour: &str| {
            let part = |at: usize| {
                let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap() as f64 / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn words_stand_out_from_every_colour() {
        let style = html_style() + STYLE;
        // Variables are given once for light and once for dark, in this order.
        let values = |name: &str| -> Vec<&str> {
            let variable = format!("--{name}:#");
            let starts = style.match_indices(&variable[..]).map(|(at, found)| at + found.len() - 1);
            starts.map(|at| &style[at..at + 7]).collect()
        };
        let [texts, muted] = [values("text"), values("muted")];
        for (_, class, ..) in NEARNESS {
            let grounds = values(class);
            assert_eq!([grounds.len(), texts.len(), muted.len()], [2; 3], "{class}");
            for scheme in 0..2 {
                let ratio = contrast(grounds[scheme], texts[scheme]);
                assert!(ratio >= 7.0, "{class}: {ratio:.1} ({} on {})", texts[scheme], grounds[scheme]);
                let ratio = contrast(grounds[scheme], values("ground")[scheme]);
                assert!(ratio >= 1.1, "{class} is told from the ground: {ratio:.2}");
            }
        }
        for verdict in ["yes", "no"] {
            let (colours, grounds) = (values(verdict), values("ground"));
            assert_eq!([colours.len(), grounds.len()], [2; 2], "{verdict}");
            for (colour, ground) in colours.into_iter().zip(grounds) {
                let ratio = contrast(colour, ground);
                assert!(ratio >= 4.5, "{verdict}: {ratio:.1} ({colour} on {ground})");
            }
        }
    }
}
