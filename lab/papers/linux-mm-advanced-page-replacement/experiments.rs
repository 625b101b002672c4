//! The linux-mm wiki's notes on advanced page replacement: the workloads that LRU handles badly.
//!
//! In the first, each page of an index is used a hundred times as often as a page of records, and
//! yet LRU keeps as many pages of records (after E. J. O'Neil, P. E. O'Neil, G. Weikum, "The LRU-K
//! page replacement algorithm for database disk buffering", SIGMOD 1993). In the second, a mapping
//! that is walked once, or over and over, pushes out pages that are in constant use.

use crate::workload::{Object, generated, objects, page_numbers};
use crate::{Bar, Error, Figure, Item, Lab, Published, Report, Scale};
use sweephand_policy::PageId;
use sweephand_policy::registry::POLICIES;
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::Table;
use sweephand_sim::ClassCounts;
use sweephand_trace::Trace;
use sweephand_trace::generate::Pattern;

const FOLDER: &str = "linux-mm-advanced-page-replacement";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "linux-mm/indexed-database",
        folder: FOLDER,
        title: "linux-mm: the indexed database, generated",
        run: indexed_database,
    },
    Item {
        id: "linux-mm/recorded-lookups",
        folder: FOLDER,
        title: "linux-mm: the indexed database, look-ups of sqlite as they were recorded",
        run: recorded_lookups,
    },
    Item {
        id: "linux-mm/scans",
        folder: FOLDER,
        title: "linux-mm: sequential and cyclic scans beside a hot set, generated",
        run: scans,
    },
    Item {
        id: "linux-mm/recorded-scans",
        folder: FOLDER,
        title: "linux-mm: scans of an anonymous mapping beside a hot set, as they were recorded",
        run: recorded_scans,
    },
];

/// The seed of generated strings.
const SEED: u64 = 1;
/// Another one, to see how far apart two of them are.
const OTHER_SEED: u64 = 2;

/// Every policy, by its name.
fn every_policy() -> Vec<&'static str> {
    POLICIES.iter().map(|entry| entry.info.name).collect()
}

fn one_decimal(number: f64) -> String {
    format!("{number:.1}")
}

/// Leaf hit ratios in percent, second half of 20,000 look-ups, of a prototype that shares no code
/// with this project.
const PROTOTYPE: [(&str, f64); 14] = [
    ("opt", 98.0),
    ("lrfu", 98.9),
    ("sieve", 98.2),
    ("w-tinylfu", 96.5),
    ("clock-pro", 95.8),
    ("car", 95.7),
    ("arc", 94.0),
    ("lru-2", 91.2),
    ("lirs", 90.2),
    ("s3-fifo", 89.9),
    ("2q", 77.5),
    ("clock", 48.1),
    ("lru", 43.8),
    ("fifo", 38.6),
];

/// What the wiki's database does: references, buffer, leaves.
const LOOKUPS: u64 = 20_000;
const BUFFER_PAGES: usize = 101;
const LEAF_PAGES: u64 = 100;

/// miniDB at a tenth of its size: pages of 4 KiB, look-ups.
const MINIDB: Minidb = Minidb { leaves: 1_792, records: 17_920, frames: 2_457, lookups: 120_000 };

struct Minidb {
    leaves: u64,
    records: u64,
    frames: usize,
    lookups: u64,
}

/// The classes of an indexed database.
const LEAF: usize = 0;
const RECORD: usize = 1;
/// Added to the class of what comes before the part that counts.
const EARLIER: usize = 2;

/// By policy: the counts of leaves and of records in the second half of `lookups`.
fn look_ups(
    lab: &Lab,
    trace: &Trace,
    leaves: u64,
    lookups: u64,
    frames: usize,
) -> Result<Vec<[ClassCounts; 2]>, Error> {
    look_ups_under(lab, &every_policy(), trace, leaves, lookups, frames)
}

/// The same under some policies.
fn look_ups_under(
    lab: &Lab,
    policies: &[&str],
    trace: &Trace,
    leaves: u64,
    lookups: u64,
    frames: usize,
) -> Result<Vec<[ClassCounts; 2]>, Error> {
    let is_leaf: Vec<bool> = page_numbers(trace)?.iter().map(|number| *number < leaves).collect();
    // A look-up is a reference to a leaf and one to a record.
    let class_of = |record: u64, page: PageId| {
        let earlier = if record < lookups { EARLIER } else { 0 };
        earlier + if is_leaf[page.index()] { LEAF } else { RECORD }
    };
    let results = lab.by_class(trace, policies, &[frames], 2 * EARLIER, class_of)?;
    Ok(results
        .into_iter()
        .map(|mut by_size| {
            let classes = by_size.remove(0);
            // A page that the second half never touched is resident all the same.
            [LEAF, RECORD].map(|class| ClassCounts {
                resident_pages: classes[class].resident_pages + classes[EARLIER + class].resident_pages,
                ..classes[class]
            })
        })
        .collect())
}

/// A number of the wiki.
fn published(quantity: &str) -> f64 {
    let wiki = Published::read(include_str!("wiki.csv"));
    let row = wiki.words("quantity").iter().position(|other| *other == quantity);
    wiki.column("value")[row.expect("a quantity of the wiki")]
}

/// What the wiki calls the leaves that LRU keeps.
const LEAVES_OF_LRU: &str = "leaf pages that LRU keeps";

/// The policies that the wiki proposes.
const PROPOSED: [&str; 6] = ["lru-2", "2q", "lirs", "arc", "car", "clock-pro"];

fn indexed_database(lab: &Lab) -> Result<Report, Error> {
    let trace = generated(&Pattern::INDEXED_DATABASE, SEED, 2 * LOOKUPS as usize)?;
    let results = look_ups(lab, &trace, LEAF_PAGES, LOOKUPS, BUFFER_PAGES)?;
    let mut report = Report {
        method: format!(
            "{LOOKUPS} look-ups, each a random one of {LEAF_PAGES} leaf pages and a random one of 10,000 pages of \
             records, in {BUFFER_PAGES} frames; the root is left out, as in the paper. `sweephand generate \
             indexed-database --seed 1`, checksum {:016x}.\n\
             Hit ratios are those of the second half. The prototype's numbers are of a program that shares no code \
             with this one, on the same string.",
            trace.header().checksum
        ),
        seeds: vec![SEED],
        ..Report::default()
    };
    database_table(&results, &mut report);
    database_claims(&results, &mut report);
    minidb(lab, &mut report)?;
    report.figures.push(leaves_figure(lab, &trace)?);
    Ok(report)
}

/// The hit ratios beside the prototype's.
fn database_table(results: &[[ClassCounts; 2]], report: &mut Report) {
    let prototype =
        |policy: &str| PROTOTYPE.iter().find(|(name, _)| *name == policy).map(|(_, percent)| *percent);
    let mut table = Table::new([
        "policy",
        "leaf hits %",
        "prototype",
        "diff",
        "record hits %",
        "all hits %",
        "leaves at the end",
    ]);
    let (mut most_off, mut worst) = (0.0_f64, "");
    for (policy, [leaf, record]) in every_policy().into_iter().zip(results) {
        let (theirs, difference) = match prototype(policy) {
            Some(theirs) => {
                let difference = leaf.hit_percent() - theirs;
                if difference.abs() > most_off {
                    (most_off, worst) = (difference.abs(), policy);
                }
                (one_decimal(theirs), format!("{difference:+.2}"))
            }
            None => (String::new(), String::new()),
        };
        let all = (leaf.hit_percent() + record.hit_percent()) / 2.0;
        table.row([
            policy.to_string(),
            one_decimal(leaf.hit_percent()),
            theirs,
            difference,
            one_decimal(record.hit_percent()),
            one_decimal(all),
            leaf.resident_pages.to_string(),
        ]);
    }
    report.tables.push(("The paper's database.".into(), table));
    report.beside((0, 2), (0, 1), Scale::Points);
    report.check(
        "the leaf hit ratios are within 0.5 points of the prototype's",
        most_off <= 0.5,
        format!("at most {most_off:.2} off, {worst}; {} policies", PROTOTYPE.len()),
    );
}

/// How many leaves LRU keeps, and the policies that the wiki proposes.
fn database_claims(results: &[[ClassCounts; 2]], report: &mut Report) {
    let [lru_leaf, _] = &results[at("lru")];
    let leaves = published(LEAVES_OF_LRU);
    report.claim("lx06", Bar::Ours).exact(
        format!("LRU keeps about {leaves:.0} leaves in {BUFFER_PAGES} frames (within 10)"),
        (lru_leaf.hit_percent() - leaves).abs() <= 10.0,
        format!(
            "{:.1} on average, which its hit ratio tells as leaves are equally likely; {} at the end",
            lru_leaf.hit_percent(),
            lru_leaf.resident_pages
        ),
    );
    let far_better: Vec<_> = PROPOSED
        .into_iter()
        .filter(|policy| results[at(policy)][LEAF].hit_percent() > 1.5 * lru_leaf.hit_percent())
        .collect();
    report.check(
        "the policies that the wiki proposes (lru-2 2q lirs arc car clock-pro) hit leaves half as often again as LRU",
        far_better.len() == PROPOSED.len(),
        far_better.join(" "),
    );
    let expected = lru_expectation();
    report.notes.push(format!(
        "Why {:.0} and not 50: the first approximation takes a leaf to be used before every second record. What LRU \
         holds are the pages of its last T references; a leaf is among them with probability 1 - (1 - 0.005)^T, a \
         record page with 1 - (1 - 0.00005)^T, and the {BUFFER_PAGES} frames are full at T = {:.0}: {:.1} leaves.",
        lru_leaf.hit_percent(),
        expected.references,
        expected.leaves
    ));
}

/// Buffers of the figure; the wiki's is among them.
const BUFFERS: [usize; 8] = [26, 51, 76, BUFFER_PAGES, 151, 201, 301, 401];

/// Leaves that policies keep, against the buffer, with what the wiki says of LRU.
fn leaves_figure(lab: &Lab, trace: &Trace) -> Result<Figure, Error> {
    let theirs = (BUFFER_PAGES as f64, published(LEAVES_OF_LRU));
    let policies = DRAWN.map(|(_, policy)| policy);
    let by_buffer = BUFFERS
        .iter()
        .map(|buffer| look_ups_under(lab, &policies, trace, LEAF_PAGES, LOOKUPS, *buffer))
        .collect::<Result<Vec<_>, Error>>()?;
    let lines = DRAWN.iter().enumerate().map(|(policy, (name, _))| ChartLine {
        name: (*name).into(),
        points: BUFFERS
            .iter()
            .zip(&by_buffer)
            .map(|(buffer, counts)| (*buffer as f64, counts[policy][LEAF].hit_percent()))
            .collect(),
        published: if *name == "LRU" { vec![theirs] } else { Vec::new() },
    });
    let name = "Leaves of the generated database that are in memory, against its buffer".to_string();
    let chart = LineChart {
        name: name.clone(),
        x: "frames".into(),
        y: "leaves of 100, on average".into(),
        logarithmic: false,
        lines: lines.collect(),
    };
    Ok(Figure { file: "indexed-database.svg".into(), name, svg: plot_lines(&chart) + "\n" })
}

/// What LRU holds when the frames are full, and how many references back that reaches.
struct Expectation {
    references: f64,
    leaves: f64,
}

fn lru_expectation() -> Expectation {
    let held =
        |pages: f64, probability: f64, references: f64| pages * (1.0 - (1.0 - probability).powf(references));
    let leaves = |references: f64| held(LEAF_PAGES as f64, 0.005, references);
    let all = |references: f64| leaves(references) + held(10_000.0, 0.000_05, references);
    // Ends: every reference brings a page or more nearer to the frames' number.
    let references =
        (1..).map(f64::from).find(|references| all(*references) >= BUFFER_PAGES as f64).expect("it grows");
    Expectation { references, leaves: leaves(references) }
}

/// miniDB: what its queries would cost under each policy, beside what locking the index gained.
fn minidb(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let Minidb { leaves, records, frames, lookups } = MINIDB;
    let pattern = Pattern::IndexedDatabase { leaves, records };
    let trace = generated(&pattern, SEED, 2 * lookups as usize)?;
    let results = look_ups(lab, &trace, leaves, lookups, frames)?;
    // With the index locked every look-up takes a record, from what is left of memory.
    let locked = 1.0 - (frames as f64 - leaves as f64) / records as f64;
    let half = lookups as f64 / 2.0;
    let mut table =
        Table::new(["policy", "index faults a query", "record faults a query", "gain of locking %"]);
    let gain = |[leaf, record]: &[ClassCounts; 2]| {
        let faults = (leaf.faults + record.faults) as f64 / half;
        100.0 * (1.0 - locked / faults)
    };
    for (policy, result) in every_policy().into_iter().zip(&results) {
        let [leaf, record] = result;
        table.row([
            policy.to_string(),
            format!("{:.3}", leaf.faults as f64 / half),
            format!("{:.3}", record.faults as f64 / half),
            one_decimal(gain(result)),
        ]);
    }
    let (unlocked_s, locked_s) = (published("miniDB, run time"), published("miniDB, index locked in memory"));
    report.tables.push((
        format!(
            "miniDB at a tenth of its size: {leaves} pages of index, {records} of records, {frames} frames, {lookups} \
             queries (second half). With the index locked a query takes {locked:.3} faults; the gain is in faults."
        ),
        table,
    ));
    let measured = 100.0 * (1.0 - locked_s / unlocked_s);
    let of = |policy: &str| gain(&results[at(policy)]);
    report.claim("lx09", Bar::Ours).exact(
        format!(
            "the {measured:.1} % of the run time that locking the index gained on Linux 2.6.13 is nearer to two lists \
             (linux24) than to LRU or CLOCK"
        ),
        (of("linux24") - measured).abs() < (of("lru") - measured).abs().min((of("clock") - measured).abs()),
        format!(
            "in faults: linux24 {:.1} %, lru {:.1} %, clock {:.1} %; clock-pro {:.1} %",
            of("linux24"),
            of("lru"),
            of("clock"),
            of("clock-pro")
        ),
    );
    report.notes.push(
        "The wiki's run times cannot be had from faults alone: they hold the processor's time, the seeks of a real \
         disk and a kernel of another version, whose second list is fed by a page's second use. A negative gain means \
         that the policy does better than locking: OPT would rather have records than some of the index."
            .into(),
    );
    Ok(())
}

/// Where a policy is among all.
fn at(policy: &str) -> usize {
    POLICIES.iter().position(|entry| entry.info.name == policy).expect("a policy")
}

/// The recorded look-ups: their number, and the memories that they are simulated in.
const RECORDED_LOOKUPS: u64 = 8_000;
const RECORDED_FRAMES: [usize; 3] = [160, 200, 300];
/// The one of them that faults are shown by class for.
const SHOWN: usize = 1;
/// LRU-2 with references of a few look-ups taken for one: a look-up makes about 250 records.
const LRU_2_CORRELATED: &str = "lru-2:crp=2000";

/// The policies that are drawn.
const DRAWN: [(&str, &str); 6] = [
    ("OPT", "opt"),
    ("LRU", "lru"),
    ("CLOCK", "clock"),
    ("CLOCK-Pro", "clock-pro"),
    ("2Q", "2q"),
    ("APR", "apr"),
];

/// What pages of the recorded look-ups are.
const CLASSES: [&str; 4] = ["index leaf", "internal", "record", "program"];

/// The recorded look-ups under every policy and [`LRU_2_CORRELATED`].
struct RecordedLookups {
    trace: Trace,
    /// Of each page by its id, where its class stands in [`CLASSES`].
    class_of_page: Vec<usize>,
    policies: Vec<&'static str>,
    /// By policy, by size and by class; those of the second half come first.
    counts: Vec<Vec<Vec<ClassCounts>>>,
}

impl RecordedLookups {
    /// The look-ups of the second half, which count.
    const COUNTED: f64 = RECORDED_LOOKUPS as f64 / 2.0;

    fn simulate(lab: &Lab) -> Result<Self, Error> {
        let trace = lab.bundled_trace("btree")?;
        // The mapped file is the largest object.
        let file = objects(&trace)?.into_iter().max_by_key(|object| object.pages).expect("a mapped file");
        let half = (file.from_record + file.to_record) / 2;
        let class_of_page = classes_of_pages(lab, &trace, &file)?;
        let earlier = CLASSES.len();
        let class_of = |record: u64, page: PageId| {
            class_of_page[page.index()] + if (half..file.to_record).contains(&record) { 0 } else { earlier }
        };
        let policies: Vec<_> = every_policy().into_iter().chain([LRU_2_CORRELATED]).collect();
        let counts = lab.by_class(&trace, &policies, &RECORDED_FRAMES, 2 * earlier, class_of)?;
        Ok(Self { trace, class_of_page, policies, counts })
    }

    fn pages_of(&self, class: usize) -> usize {
        self.class_of_page.iter().filter(|of_page| **of_page == class).count()
    }

    /// In percent of the look-ups.
    fn leaf_hits(&self, policy: usize, size: usize) -> f64 {
        (100.0 * (1.0 - self.counts[policy][size][LEAF].faults as f64 / Self::COUNTED)).max(0.0)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            (std::iter::once("policy".to_string()))
                .chain(RECORDED_FRAMES.map(|frames| format!("leaf hits %, {frames} frames")))
                .chain(CLASSES.map(|class| format!("{class} faults"))),
        );
        for (policy, name) in self.policies.iter().enumerate() {
            let hits = (0..RECORDED_FRAMES.len()).map(|size| one_decimal(self.leaf_hits(policy, size)));
            let counts = &self.counts[policy][SHOWN][..CLASSES.len()];
            let faults = counts.iter().map(|class| format!("{:.3}", class.faults as f64 / Self::COUNTED));
            table.row(std::iter::once(name.to_string()).chain(hits).chain(faults));
        }
        table
    }

    fn figure(&self) -> Figure {
        let lines = DRAWN.map(|(name, policy)| ChartLine {
            name: name.into(),
            points: (RECORDED_FRAMES.iter().enumerate())
                .map(|(size, &frames)| (frames as f64, self.leaf_hits(at(policy), size)))
                .collect(),
            published: Vec::new(),
        });
        let name = "Leaf hits of sqlite's look-ups against memory size".to_string();
        let chart = LineChart {
            name: name.clone(),
            x: "frames".into(),
            y: "leaf hits in percent of the look-ups".into(),
            logarithmic: false,
            lines: lines.into(),
        };
        Figure { file: "recorded-lookups.svg".into(), name, svg: plot_lines(&chart) + "\n" }
    }
}

/// Of each page by its id, where its class stands in [`CLASSES`].
fn classes_of_pages(lab: &Lab, trace: &Trace, file: &Object) -> Result<Vec<usize>, Error> {
    let layout = Published::read(&lab.bundled_text("btree.csv")?);
    // sqlite counts its pages from 1.
    let mut of_file = vec![2; file.pages as usize + 1];
    let (trees, types, pages) = (layout.words("tree"), layout.words("type"), layout.column("page"));
    for ((tree, kind), page) in trees.into_iter().zip(types).zip(pages) {
        of_file[page as usize] = if (tree, kind) == ("by_key", "leaf") { 0 } else { 1 };
    }
    let class = |number: &u64| {
        if file.contains(*number) { of_file[(number - file.first_page) as usize + 1] } else { 3 }
    };
    Ok(page_numbers(trace)?.iter().map(class).collect())
}

fn recorded_lookups(lab: &Lab) -> Result<Report, Error> {
    let look_ups = RecordedLookups::simulate(lab)?;
    let mut report = Report {
        method: format!(
            "sqlite, {RECORDED_LOOKUPS} random look-ups through an index, the database file mapped (`traces/record.sh \
             btree`): {} index leaves, {} internal pages and {} pages of records were touched, and {} pages of the \
             program itself; checksum {:016x}.\n\
             The second half of the look-ups counts. A look-up goes through one index leaf and one page of records; \
             leaf hits are the look-ups less the faults on leaves, in percent of the look-ups, 0 where there are more \
             faults.",
            look_ups.pages_of(0),
            look_ups.pages_of(1),
            look_ups.pages_of(2),
            look_ups.pages_of(3),
            look_ups.trace.header().checksum
        ),
        ..Report::default()
    };
    let shown = RECORDED_FRAMES[SHOWN];
    let line = format!("Leaf hits, and faults a look-up in {shown} frames by what was touched.");
    report.tables.push((line, look_ups.table()));
    report.figures.push(look_ups.figure());
    recorded_checks(&look_ups, &mut report);
    report.notes.push(
        "In the generated string a look-up touches a page once. A program touches it several times in a row, with its \
         own pages between: so does sqlite, which compares keys, then fetches the record. Policies for which the \
         second reference is what tells a page worth keeping (LRU-2, LIRS, ARC, CAR, CLOCK-Pro) take every record for \
         one; those that do not look at the first references of a page (2Q's first queue, LRU-2's correlated \
         reference period, the frequencies of W-TinyLFU) do not. The LRU-K paper of 1993 has this period for that \
         reason."
            .into(),
    );
    Ok(report)
}

fn recorded_checks(look_ups: &RecordedLookups, report: &mut Report) {
    let shown = RECORDED_FRAMES[SHOWN];
    let hits = |policy: &str| look_ups.leaf_hits(at(policy), SHOWN);
    let lru = hits("lru");
    report.check(
        format!("LRU gives leaves away for records: in {shown} frames, twice what is used all the time, it misses a \
                 leaf at every third look-up"),
        lru < 67.0,
        format!("{lru:.1} % leaf hits"),
    );
    let better: Vec<_> = PROPOSED.into_iter().filter(|policy| hits(policy) > lru + 5.0).collect();
    report.check(
        "the policies that the wiki proposes (lru-2 2q lirs arc car clock-pro) keep more leaves than LRU (by 5 \
         points)",
        better.len() == PROPOSED.len(),
        format!(
            "{}; {}",
            if better.is_empty() { "none does".into() } else { format!("{} do", better.join(" ")) },
            PROPOSED.map(|policy| format!("{policy} {:.1}", hits(policy))).join(", ")
        ),
    );
    let correlated = look_ups.leaf_hits(look_ups.policies.len() - 1, SHOWN);
    report.check(
        "what keeps them from it are correlated references: LRU-2 that takes references of a few look-ups for one \
         (`lru-2:crp=2000`) keeps nearly all leaves",
        correlated > 90.0,
        format!("{correlated:.1} % leaf hits against {:.1} %", hits("lru-2")),
    );
}

/// Frames, hot pages, and pages of the scans: the recorded programs have the same.
const SCAN_FRAMES: usize = 1_000;
const HOT_PAGES: u64 = 500;
const ONCE_PAGES: u64 = 20_000;
const CYCLE_PAGES: u64 = 1_200;
const CYCLES: u64 = 20;

/// The classes of a scan.
const HOT: usize = 0;
const WALKED: usize = 1;

/// What a scan did to each policy: hits in percent of the second half.
struct Scanned {
    hot: Vec<f64>,
    walked: Vec<f64>,
}

/// Simulates the records from `start` on as a scan; its second half counts. `class_of_page` is by
/// page id; pages of neither class have a third.
fn scanned(lab: &Lab, trace: &Trace, start: u64, class_of_page: &[usize]) -> Result<Scanned, Error> {
    let half = (start + trace.header().totals.records) / 2;
    let earlier = 3;
    let class_of =
        |record: u64, page: PageId| class_of_page[page.index()] + if record < half { earlier } else { 0 };
    let results = lab.by_class(trace, &every_policy(), &[SCAN_FRAMES], 2 * earlier, class_of)?;
    let hits = |class: usize| results.iter().map(|by_size| by_size[0][class].hit_percent()).collect();
    Ok(Scanned { hot: hits(HOT), walked: hits(WALKED) })
}

/// A walk beside a hot set, as `scan.c` does it, by turns; here the page of the hot set comes
/// first.
fn walk(lab: &Lab, pages: u64, loops: u64, seed: u64) -> Result<Scanned, Error> {
    let pattern = Pattern::Mixed { zipf_pages: HOT_PAGES, exponent: 0.0, loop_pages: pages, alternate: true };
    let trace = generated(&pattern, seed, 2 * (pages * loops) as usize)?;
    let class = |number: &u64| if *number < HOT_PAGES { HOT } else { WALKED };
    let class_of_page: Vec<usize> = page_numbers(&trace)?.iter().map(class).collect();
    scanned(lab, &trace, 0, &class_of_page)
}

/// Hits a round in the second half of a walk over and over, with nothing beside it.
fn cycle(lab: &Lab, pages: u64) -> Result<Vec<f64>, Error> {
    let trace = generated(&Pattern::Loop { pages }, SEED, (pages * CYCLES) as usize)?;
    let class_of_page = vec![WALKED; pages as usize];
    let scanned = scanned(lab, &trace, 0, &class_of_page)?;
    Ok(scanned.walked.iter().map(|percent| percent / 100.0 * pages as f64).collect())
}

fn scans(lab: &Lab) -> Result<Report, Error> {
    let frames = SCAN_FRAMES as u64;
    let mut report = Report {
        method: format!(
            "{SCAN_FRAMES} frames. Alone: a walk over M + 1 and over 2 M pages, {CYCLES} times. Beside a hot set: \
             after each page of the walk one of {HOT_PAGES} hot pages, all equally likely; {ONCE_PAGES} pages walked \
             once, and {CYCLE_PAGES} pages walked {CYCLES} times.\n\
             The second half of each counts."
        ),
        seeds: vec![SEED],
        ..Report::default()
    };
    let alone = [cycle(lab, frames + 1)?, cycle(lab, 2 * frames)?];
    let once = walk(lab, ONCE_PAGES, 1, SEED)?;
    let cyclic = walk(lab, CYCLE_PAGES, CYCLES, SEED)?;
    let mut table = Table::new([
        "policy",
        "M + 1: hits a round",
        "2 M: hits a round",
        "once: hot hits %",
        "cyclic: hot hits %",
        "cyclic: walk hits %",
    ]);
    for (policy, name) in every_policy().into_iter().enumerate() {
        table.row([
            name.to_string(),
            one_decimal(alone[0][policy]),
            one_decimal(alone[1][policy]),
            one_decimal(once.hot[policy]),
            one_decimal(cyclic.hot[policy]),
            one_decimal(cyclic.walked[policy]),
        ]);
    }
    report.tables.push(("Scans, alone and beside a hot set.".into(), table));
    report.check(
        "LRU and CLOCK have no hits on a cycle of M + 1 pages",
        ["lru", "clock"].map(at).iter().all(|&policy| alone[0][policy] == 0.0),
        format!("{:.1} and {:.1} a round", alone[0][at("lru")], alone[0][at("clock")]),
    );
    report.check(
        "LIFO and MRU have about M - 1 hits a round there, as has OPT (within 1)",
        ["lifo", "mru", "opt"]
            .map(at)
            .iter()
            .all(|&policy| (alone[0][policy] - (frames - 1) as f64).abs() <= 1.0),
        ["lifo", "mru", "opt"].map(|policy| format!("{policy} {:.1}", alone[0][at(policy)])).join(", "),
    );
    hot_set_claims(&mut report, &once, &cyclic);
    Ok(report)
}

/// Policies whose papers promise that a scan does not push out what is used.
const SCAN_RESISTANT: [&str; 6] = ["2q", "lirs", "arc", "car", "clock-pro", "lru-2"];

fn hot_set_claims(report: &mut Report, once: &Scanned, cyclic: &Scanned) {
    let all =
        |hot: &[f64]| SCAN_RESISTANT.map(|policy| format!("{policy} {:.1}", hot[at(policy)])).join(", ");
    let least = |hot: &[f64]| SCAN_RESISTANT.map(|policy| hot[at(policy)]).into_iter().fold(100.0, f64::min);
    report.check(
        "a scan that uses pages once takes more than a tenth of the hot set from LRU and CLOCK",
        once.hot[at("lru")] < 90.0 && once.hot[at("clock")] < 90.0,
        format!("lru {:.1} %, clock {:.1} %", once.hot[at("lru")], once.hot[at("clock")]),
    );
    report.check(
        "it leaves 95 % of it to the policies made to resist scans (2q lirs arc car clock-pro lru-2)",
        least(&once.hot) >= 95.0,
        all(&once.hot),
    );
    let in_all = |policy: usize| (cyclic.hot[policy] + cyclic.walked[policy]) / 2.0;
    let best_of_two = in_all(at("lru")).max(in_all(at("clock")));
    report.check(
        "beside a cycle these policies hit more often than LRU and CLOCK, hot set and walk together",
        SCAN_RESISTANT.iter().all(|policy| in_all(at(policy)) > best_of_two),
        format!(
            "{}; lru {:.1}, clock {:.1} %",
            SCAN_RESISTANT.map(|policy| format!("{policy} {:.1}", in_all(at(policy)))).join(", "),
            in_all(at("lru")),
            in_all(at("clock"))
        ),
    );
}

/// A recorded walk by `scan.c`.
fn recorded_walk(lab: &Lab, name: &'static str) -> Result<(Scanned, u64), Error> {
    let trace = lab.bundled_trace(name)?;
    // `scan.c` allocates the hot set first and the mapping that it walks second.
    let [hot, walked] = objects(&trace)?[..] else {
        panic!("{name}: a hot set and a mapping that is walked")
    };
    let class = |number: &u64| match number {
        number if hot.contains(*number) => HOT,
        number if walked.contains(*number) => WALKED,
        _ => 2,
    };
    let class_of_page: Vec<usize> = page_numbers(&trace)?.iter().map(class).collect();
    Ok((scanned(lab, &trace, walked.from_record, &class_of_page)?, trace.header().checksum))
}

fn recorded_scans(lab: &Lab) -> Result<Report, Error> {
    let (once, once_checksum) = recorded_walk(lab, "scan-once")?;
    let (cyclic, cyclic_checksum) = recorded_walk(lab, "scan-cyclic")?;
    let generated = [walk(lab, ONCE_PAGES, 1, SEED)?, walk(lab, CYCLE_PAGES, CYCLES, SEED)?];
    let other_seed = [walk(lab, ONCE_PAGES, 1, OTHER_SEED)?, walk(lab, CYCLE_PAGES, CYCLES, OTHER_SEED)?];
    let mut report = Report {
        method: format!(
            "{SCAN_FRAMES} frames. `traces/scan.c` walks an anonymous mapping of {ONCE_PAGES} pages once, and one of \
             {CYCLE_PAGES} pages {CYCLES} times; after each page it touches one of {HOT_PAGES} hot ones \
             (`traces/record.sh scan`; checksums {once_checksum:016x} and {cyclic_checksum:016x}).\n\
             Hits in percent of page references, second half of the walk; beside them those of the generated scans of \
             the same kind."
        ),
        seeds: vec![SEED, OTHER_SEED],
        ..Report::default()
    };
    let mut table = Table::new([
        "policy",
        "once: hot hits %",
        "generated",
        "cyclic: hot hits %",
        "generated",
        "cyclic: walk hits %",
        "generated",
    ]);
    let recorded = [once, cyclic];
    // Once: the hot set; cyclic: the hot set and the walk.
    let columns = |[once, cyclic]: &[Scanned; 2], policy: usize| {
        [once.hot[policy], cyclic.hot[policy], cyclic.walked[policy]]
    };
    let apart = |one: &[Scanned; 2], other: &[Scanned; 2], policy: usize| {
        let pairs = columns(one, policy).into_iter().zip(columns(other, policy));
        pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
    };
    let (mut most_apart, mut who, mut strangers) = (0.0_f64, "", Vec::new());
    for (policy, name) in every_policy().into_iter().enumerate() {
        let pairs = columns(&recorded, policy).into_iter().zip(columns(&generated, policy));
        let numbers = pairs.flat_map(|(recorded, generated)| [recorded, generated]);
        table.row(std::iter::once(name.to_string()).chain(numbers.map(one_decimal)));
        let by_seed = apart(&generated, &other_seed, policy);
        if by_seed > most_apart {
            (most_apart, who) = (by_seed, name);
        }
        let off = apart(&recorded, &generated, policy);
        if off > 3.0 {
            strangers.push(format!("{name} {off:.1} apart (two seeds {by_seed:.1})"));
        }
    }
    report.tables.push(("Recorded beside generated.".into(), table));
    let [once, cyclic] = &recorded;
    hot_set_claims(&mut report, once, cyclic);
    report.check(
        "the recorded scans come out like the generated ones (within 3 points, every policy)",
        strangers.is_empty(),
        if strangers.is_empty() { "every policy".into() } else { strangers.join(", ") },
    );
    report.notes.push(format!(
        "Two generated scans that differ in their seed are up to {most_apart:.1} points apart ({who}). The program \
         differs from them by its start: some eighty pages that it never uses again. Policies that keep what came \
         first (lifo, mru, lifo-plus, seq) keep those, and so have fewer frames for the rest; with as many more \
         frames LIFO takes as many faults as on the generated scan. W-TinyLFU has counted those pages up to 15 times: \
         a generated scan behind 15,000 references to 78 pages shifts it most of the way to the recorded one."
    ));
    Ok(report)
}
