//! The experiments of the papers behind Sweephand: published numbers beside measured ones.
//!
//! Each paper has a folder in `papers/` with its published numbers (CSV), its experiments (Rust)
//! and their latest results (Markdown). `sweephand-lab reproduce` runs [`all_items`]. It runs an
//! item of [`measured_items`] only if it is named.
#![forbid(unsafe_code)]

#[path = "../papers/apr-2020/experiments.rs"]
mod apr_2020;
#[path = "../papers/apr-2020/access_window.rs"]
mod apr_2020_access_window;
#[path = "../papers/clock-pro-2005/experiments.rs"]
mod clock_pro_2005;
#[path = "../papers/clock-pro-2005/live.rs"]
mod clock_pro_2005_live;
#[path = "../papers/clock-pro-2005/others.rs"]
mod clock_pro_2005_others;
#[path = "../papers/clock-pro-2005/programs.rs"]
mod clock_pro_2005_programs;
#[path = "../papers/clock-pro-2005/readings.rs"]
mod clock_pro_2005_readings;
mod html;
mod kept;
mod lab;
#[path = "../papers/linux-mm-advanced-page-replacement/experiments.rs"]
mod linux_mm;
#[path = "../papers/linux-mm-advanced-page-replacement/live.rs"]
mod linux_mm_live;
mod live;
mod published;
mod report;
mod reproduction;
mod verdict;
mod workload;
#[path = "../papers/wsclock-1981/experiments.rs"]
mod wsclock_1981;
#[path = "../papers/wsclock-1981/causes.rs"]
mod wsclock_1981_causes;
#[path = "../papers/wsclock-1981/runs.rs"]
mod wsclock_1981_runs;
#[path = "../papers/wsclock-1981/speed.rs"]
mod wsclock_1981_speed;

pub use html::html_page;
pub use lab::{Error, Input, Lab, checksum};
pub use published::Published;
pub use report::{
    Compared, Figure, NEAR_POINTS, NEAR_RATIO, Nearness, OFF_POINTS, OFF_RATIO, Place, Report, Scale,
};
pub use reproduction::{Machine, Origin, Program, Reproduction, State};
pub use verdict::{
    Bar, Check, Claim, Grade, Judging, Limit, Listed, Measurement, claims_page, listed_claims, verdicts_in,
};

/// A table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its name on the command line, `paper/item`.
    pub id: &'static str,
    /// The folder under `lab/papers/` that its results go to.
    pub folder: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Runs the experiment. The report gets its title from the item.
    pub run: fn(&Lab) -> Result<Report, Error>,
}

impl Item {
    /// Runs the experiment.
    pub fn measure(&self, lab: &Lab) -> Result<Report, Error> {
        Ok(Report { title: self.title.into(), ..(self.run)(lab)? })
    }

    /// Its name without the paper's: that of the file with its result.
    pub fn name(&self) -> &'static str {
        self.id.rsplit('/').next().expect("an id has parts")
    }
}

/// What each paper's folder says of it, by folder.
const READMES: &[(&str, &str)] = &[
    ("apr-2020", include_str!("../papers/apr-2020/README.md")),
    ("clock-pro-2005", include_str!("../papers/clock-pro-2005/README.md")),
    (
        "linux-mm-advanced-page-replacement",
        include_str!("../papers/linux-mm-advanced-page-replacement/README.md"),
    ),
    ("wsclock-1981", include_str!("../papers/wsclock-1981/README.md")),
];

/// A paper's name and its citation: the heading and the first paragraph of its README.
pub fn paper(folder: &str) -> Option<(&'static str, String)> {
    let (_, readme) = READMES.iter().find(|(known, _)| *known == folder)?;
    let mut paragraphs = readme.split("\n\n");
    let title = paragraphs.next()?.strip_prefix("# ")?;
    Some((title, paragraphs.next()?.replace('\n', " ")))
}

/// The papers with their items; a paper's follow each other.
const PAPERS: &[&[Item]] = &[
    clock_pro_2005::ITEMS,
    clock_pro_2005_programs::ITEMS,
    clock_pro_2005_others::ITEMS,
    clock_pro_2005_readings::ITEMS,
    wsclock_1981::ITEMS,
    wsclock_1981_causes::ITEMS,
    apr_2020::ITEMS,
    apr_2020_access_window::ITEMS,
    linux_mm::ITEMS,
];

/// Items that run programs live: measured on a machine. Their results are the machine's, and of the
/// day.
const MEASURED: &[&[Item]] = &[clock_pro_2005_live::ITEMS, wsclock_1981_speed::ITEMS, linux_mm_live::ITEMS];

/// Everything that comes out the same wherever it is run, paper by paper.
pub fn all_items() -> impl Iterator<Item = &'static Item> {
    PAPERS.iter().copied().flatten()
}

/// Everything that is measured on the machine that it is run on. It takes minutes, root's rights
/// and Debian's programs, so it is not among [`all_items`], nor what a paper's name stands for.
pub fn measured_items() -> impl Iterator<Item = &'static Item> {
    MEASURED.iter().copied().flatten()
}

/// Every item: [`all_items`], then [`measured_items`].
pub fn every_item() -> impl Iterator<Item = &'static Item> {
    all_items().chain(measured_items())
}

/// The items that `names` stand for: an item (`clock-pro/table-1`), what comes out the same
/// everywhere of a paper (`clock-pro`), or of all if there are no names.
pub fn items(names: &[String]) -> Result<Vec<&'static Item>, Error> {
    let mut items: Vec<&Item> = Vec::new();
    for name in names {
        let name = name.trim_end_matches('/');
        let of_paper = |item: &&Item| item.id == name || item.id.split('/').next() == Some(name);
        let measured = measured_items().filter(|item| item.id == name);
        let found: Vec<_> = all_items().filter(of_paper).chain(measured).collect();
        if found.is_empty() {
            let known: Vec<_> = every_item().map(|item| item.id).collect();
            return Err(Error::UnknownItem { name: name.to_string(), known: known.join(" ") });
        }
        items.extend(found);
    }
    Ok(if names.is_empty() { all_items().collect() } else { items })
}
