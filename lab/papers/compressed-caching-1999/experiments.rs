//! Wilson, Kaplan and Smaragdakis, USENIX 1999: what memory for compressed pages saves, in fixed
//! splits and in one that adapts.
//!
//! The paper's traces have the contents of pages. The project's have none, so the ratio is a
//! parameter. What compression and faults cost is today's. The disks go from the paper's to
//! today's. The claims are judged on one that is as slow for today's processor as the paper's disk
//! was for its processor.

use crate::verdict::mean;
use crate::{Bar, Error, Item, Lab, Limit, Measurement, Report};
use std::sync::Arc;
use sweephand_policy::registry::Spec;
use sweephand_results::Table;
use sweephand_sim::{
    Cell, Compressibility, MemorySize, Outcome, Split, SweepError, TierCounts, TierKind, Tiers,
};
use sweephand_time::{Device, TierCosts};
use sweephand_trace::Trace;

const FOLDER: &str = "compressed-caching-1999";

pub(crate) const ITEMS: &[Item] = &[Item {
    id: "compressed-caching/adaptive-split",
    folder: FOLDER,
    title: "Compressed caching: what an adaptive split saves, beside fixed ones",
    run: adaptive_split,
}];

/// Bundled programs, two of which are also the paper's: gnuplot, and cc1 for gcc.
const PROGRAMS: [&str; 7] = ["btree", "cc1", "gap", "gnuplot", "numpy", "perl", "sqlite3"];
/// Memory sizes, in percent of the program's pages.
const PERCENTS: [f64; 9] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0];
/// What is resident in fixed splits, in percent: all, and what the paper's four targets leave.
const RESIDENT_PERCENTS: [f64; 5] = [100.0, 90.0, 77.0, 63.0, 50.0];
const ALONE: usize = 0;
/// What pages come to, an assumption. The paper has ratios by program.
const RATIO: f64 = 2.0;
/// The paper's ratio for its gnuplot: over 4:1 on average.
const GNUPLOT_RATIO: f64 = 4.0;
/// Disks by the time of a read: the paper's, a volume of a cloud, [the one that judges](JUDGED),
/// and the data sheets of the built-in devices ssd and nvme.
const DISKS: [(&str, u64); 5] =
    [("5 ms", 5_000_000), ("500 µs", 500_000), ("300 µs", 300_000), ("100 µs", 100_000), ("53 µs", 53_000)];
/// A read of the paper's disk took 900,000 cycles of its Pentium Pro, 5 ms at 180 MHz. This disk
/// takes as many instructions of today's processor, at [`INSTRUCTIONS_PER_SECOND`].
const JUDGED: usize = 2;
/// Paging is of interest from a hundredth of the processor's time, which is "very little", to nine
/// times as much: the program spends 90 % of its time paging then.
const OF_INTEREST: [f64; 2] = [0.01, 9.0];
/// Processor time of a program, from its instructions.
const INSTRUCTIONS_PER_SECOND: f64 = 3e9;

/// A program in a memory of some size.
struct Measured {
    program: &'static str,
    percent: f64,
    native_seconds: f64,
    /// Counts of the fixed splits, as in [`RESIDENT_PERCENTS`], then of an adaptive one for each
    /// disk.
    counts: Vec<(Outcome, TierCounts)>,
}

impl Measured {
    /// Seconds of paging of a fixed split.
    fn fixed(&self, costs: &TierCosts, split: usize) -> f64 {
        let (outcome, counts) = &self.counts[split];
        costs.seconds(outcome, counts)
    }

    /// The split that pages for the shortest time, and that time.
    fn best(&self, costs: &TierCosts) -> (usize, f64) {
        let seconds = (0..RESIDENT_PERCENTS.len()).map(|split| (split, self.fixed(costs, split)));
        seconds.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are splits")
    }

    fn adaptive(&self, costs: &TierCosts, disk: usize) -> f64 {
        let (outcome, counts) = &self.counts[RESIDENT_PERCENTS.len() + disk];
        costs.seconds(outcome, counts)
    }

    /// Whether the program pages as much as is of interest, without compression.
    fn is_of_interest(&self, costs: &TierCosts) -> bool {
        let share = self.fixed(costs, ALONE) / self.native_seconds;
        (OF_INTEREST[0]..=OF_INTEREST[1]).contains(&share)
    }

    /// Paging time that the adaptive split saves, in percent.
    fn saved(&self, costs: &TierCosts, disk: usize) -> f64 {
        100.0 * (1.0 - self.adaptive(costs, disk) / self.fixed(costs, ALONE))
    }

    /// The same in whole percent. There is no "-0".
    fn saved_text(&self, costs: &TierCosts, disk: usize) -> String {
        format!("{:.0}", self.saved(costs, disk).round() + 0.0)
    }

    fn place(&self) -> String {
        format!("{} at {:.0} %", self.program, self.percent)
    }
}

/// What each step costs, by disk.
fn costs() -> Result<[TierCosts; DISKS.len()], Error> {
    let zram = Device::named("zram")?;
    let costs = TierCosts::of(&zram, &zram, 4096, None);
    Ok(DISKS.map(|(_, disk_read_ns)| TierCosts { disk_read_ns, ..costs }))
}

/// Programs at every size, with pages that compress to one part in `ratio`.
fn measure(lab: &Lab, programs: &[&'static str], ratio: f64) -> Result<Vec<Measured>, Error> {
    let sizes = Arc::new(Compressibility { ratio, ..Compressibility::default() });
    let tiers = Tiers { kind: TierKind::Zswap { accept_percent: 100 }, sizes };
    let costs = costs()?;
    let mut measured = Vec::new();
    for &program in programs {
        let trace = lab.bundled_trace(program)?;
        let cells = cells(&trace)?;
        let splits_of = |cell: &Cell| {
            let mut splits = Split::of(cell, &RESIDENT_PERCENTS);
            splits.extend(costs.iter().map(|costs| Split::adaptive(cell, costs.of_splits())));
            splits
        };
        let splits: Vec<_> = cells.iter().map(splits_of).collect();
        let counts = lab.tiers(&trace, &tiers, &splits.concat())?;
        let instructions = trace.header().totals.instructions.expect("recorded programs count them");
        for (counts, percent) in counts.chunks(splits[0].len()).zip(PERCENTS) {
            measured.push(Measured {
                program,
                percent,
                native_seconds: instructions as f64 / INSTRUCTIONS_PER_SECOND,
                counts: counts.to_vec(),
            });
        }
    }
    Ok(measured)
}

/// LRU at every memory size of a trace.
fn cells(trace: &Trace) -> Result<Vec<Cell>, Error> {
    let header = trace.header();
    let spec = Spec::parse("lru").expect("a policy");
    let mut cells = Vec::new();
    for percent in PERCENTS {
        let size = MemorySize::Percent(percent);
        let frames = size.frames(header.totals.distinct_pages, header.metadata.page_size);
        let frames = frames.map_err(SweepError::from)?[0];
        cells.push(Cell { spec: spec.clone(), frames });
    }
    Ok(cells)
}

fn method(costs: &TierCosts) -> String {
    format!(
        "LRU before zswap, pages at {RATIO:.0}:1 (an assumption) in zsmalloc's size classes, the kernel's tables counted, at equal \
         total memory. A fault and an eviction cost {:.1} µs, a page compressed and decompressed {:.1} µs (the built-in device \
         zram), a read what the disk is called by; writes cost nothing, as in the paper. Targets of the adaptive split: 10, 23, 37 \
         and 50 % of memory. Sizes are in percent of the program's pages. Paging is of interest where LRU alone pages for 1 to 900 \
         % of the processor time, at 3 billion instructions a second. The claims are judged with reads of {}: as many instructions \
         of this processor as 5 ms, the paper's disk, were cycles of its Pentium Pro of 180 MHz.",
        (costs.fault_ns + costs.evict_ns) as f64 / 1e3,
        (costs.compress_ns + costs.decompress_ns) as f64 / 1e3,
        DISKS[JUDGED].0,
    )
}

fn adaptive_split(lab: &Lab) -> Result<Report, Error> {
    let (measured, costs) = (measure(lab, &PROGRAMS, RATIO)?, costs()?);
    let gnuplot = measure(lab, &["gnuplot"], GNUPLOT_RATIO)?;
    let mut report = Report { method: method(&costs[0]), ..Report::default() };
    for (disk, ((name, _), costs)) in DISKS.iter().zip(&costs).enumerate() {
        let saved = |cell: &Measured| cell.saved_text(costs, disk);
        let line = format!("Reads of {name}: paging time saved by the adaptive split, in percent.");
        report.tables.push((line, table(&measured, costs, saved)));
        let against_best = |cell: &Measured| {
            let (split, seconds) = cell.best(costs);
            let percent = 100.0 * cell.adaptive(costs, disk) / seconds;
            format!("{percent:.0} ({:.0})", RESIDENT_PERCENTS[split])
        };
        let line = format!(
            "Reads of {name}: paging time with the adaptive split in percent of that with the best fixed one; \
             how much is resident there, in percent, is in brackets."
        );
        report.tables.push((line, table(&measured, costs, against_best)));
    }
    let line = format!(
        "gnuplot at {GNUPLOT_RATIO:.0}:1, reads of {}: paging time saved by the adaptive split, in percent.",
        DISKS[JUDGED].0
    );
    let saved = |cell: &Measured| cell.saved_text(&costs[JUDGED], JUDGED);
    report.tables.push((line, table(&gnuplot, &costs[JUDGED], saved)));
    judge_savings(&mut report, &measured, &costs);
    judge_gnuplot(&mut report, &gnuplot, &costs[JUDGED]);
    for (disk, costs) in costs.iter().enumerate() {
        check_against_fixed(&mut report, &measured, costs, disk);
    }
    Ok(report)
}

/// What is said of each program at each size, where that is of interest.
fn table(measured: &[Measured], costs: &TierCosts, say: impl Fn(&Measured) -> String) -> Table {
    let heading = PERCENTS.map(|percent| format!("{percent:.0} %"));
    let mut table = Table::new(["program".to_string()].into_iter().chain(heading));
    let cell = |cell: &Measured| if cell.is_of_interest(costs) { say(cell) } else { "-".into() };
    for of_program in measured.chunks(PERCENTS.len()) {
        let cells = of_program.iter().map(cell);
        table.row([of_program[0].program.to_string()].into_iter().chain(cells));
    }
    table
}

/// What the project expects of a split that adapts.
fn check_against_fixed(report: &mut Report, measured: &[Measured], costs: &TierCosts, disk: usize) {
    let (name, _) = DISKS[disk];
    let cells: Vec<_> = measured.iter().filter(|cell| cell.is_of_interest(costs)).collect();
    let against_best = |cell: &Measured| cell.adaptive(costs, disk) / cell.best(costs).1;
    let near = cells.iter().filter(|cell| against_best(cell) <= 1.1).count();
    report.check(
        format!(
            "reads of {name}: the adaptive split is within 10 % of the best fixed one in nine of ten cells"
        ),
        10 * near >= 9 * cells.len(),
        format!("{near} of {}; {}", cells.len(), worst(&cells, against_best, "of the best")),
    );
    let against_none = |cell: &Measured| cell.adaptive(costs, disk) / cell.fixed(costs, ALONE);
    let slower = cells.iter().filter(|cell| against_none(cell) > 1.05).count();
    report.check(
        format!("reads of {name}: it is never more than 5 % slower than LRU alone"),
        slower == 0,
        format!("{slower} of {} are; {}", cells.len(), worst(&cells, against_none, "of LRU alone")),
    );
}

/// The largest ratio and its place.
fn worst(cells: &[&Measured], ratio: impl Fn(&Measured) -> f64, of: &str) -> String {
    match cells.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))) {
        Some(cell) => format!("at worst {:.0} % {of}, {}", 100.0 * ratio(cell), cell.place()),
        None => "no cells".into(),
    }
}

/// The verdicts on what is saved.
fn judge_savings(report: &mut Report, measured: &[Measured], costs: &[TierCosts; DISKS.len()]) {
    let disk = &costs[JUDGED];
    let cells: Vec<&Measured> = measured.iter().filter(|cell| cell.is_of_interest(disk)).collect();
    let saved: Vec<f64> = cells.iter().map(|cell| cell.saved(disk, JUDGED)).collect();
    let often = saved.iter().filter(|saved| (20.0..=80.0).contains(*saved)).count();
    report.claim("cc01", Bar::Ours).exact(
        "often 20 to 80 % of paging time are saved: in half of the cells or more",
        2 * often >= saved.len(),
        format!("{often} of {} cells", saved.len()),
    );
    report.claim("cc02", Bar::Ours).numbers(
        "40 % on average, within 10 points (in spirit: 20 % or more)",
        Limit::Between(30.0, 50.0),
        Some(Limit::AtLeast(20.0)),
        &[Measurement::exact("", mean(&saved), 1)],
    );
    let over_40 = saved.iter().filter(|saved| **saved > 40.0).count();
    report.claim("cc12", Bar::Ours).exact(
        "over 40 % are common: in a third of the cells or more",
        3 * over_40 >= saved.len(),
        format!("{over_40} of {} cells", saved.len()),
    );
    let of_program = |program: &&str| {
        let own = cells.iter().zip(&saved).filter(|(cell, _)| cell.program == *program);
        own.map(|(_, saved)| *saved).collect::<Vec<_>>()
    };
    let by_program: Vec<_> = PROGRAMS.iter().map(|program| (*program, of_program(program))).collect();
    let by_program: Vec<_> = by_program.into_iter().filter(|(_, saved)| !saved.is_empty()).collect();
    let means = by_program.iter().map(|(program, saved)| format!("{program} {:.0} %", mean(saved)));
    report.claim("cc03", Bar::Ours).cases(
        "each program saves 10 % or more on average",
        by_program.iter().map(|(_, saved)| mean(saved) >= 10.0),
        means.collect::<Vec<_>>().join(", "),
    );
    let sizes = |saved: &[f64]| saved.iter().filter(|saved| **saved > 0.0).count();
    let counts =
        by_program.iter().map(|(program, saved)| format!("{program} {} of {}", sizes(saved), saved.len()));
    report.claim("cc04", Bar::Ours).cases(
        "each program saves time at nine of ten sizes or more",
        by_program.iter().map(|(_, saved)| 10 * sizes(saved) >= 9 * saved.len()),
        counts.collect::<Vec<_>>().join(", "),
    );
    let losses: Vec<_> = cells.iter().zip(&saved).filter(|(_, saved)| **saved < 0.0).collect();
    let worst = losses.iter().min_by(|a, b| a.1.total_cmp(b.1));
    report.claim("cc05", Bar::Ours).exact(
        "a loss in at most one of ten cells, and of at most 10 %",
        10 * losses.len() <= cells.len() && worst.is_none_or(|(_, saved)| **saved >= -10.0),
        match worst {
            Some((cell, saved)) => {
                format!("{} of {} cells, at worst {saved:.1} %, {}", losses.len(), cells.len(), cell.place())
            }
            None => format!("none of {} cells", cells.len()),
        },
    );
    judge_disks(report, measured, costs);
}

/// The paper's gnuplot goes round its data twice. A small memory learns that a pool would pay when
/// it is too late to fill it.
fn judge_gnuplot(report: &mut Report, gnuplot: &[Measured], disk: &TierCosts) {
    let cells: Vec<_> = gnuplot.iter().filter(|cell| cell.is_of_interest(disk)).collect();
    let saved: Vec<_> = cells.iter().map(|cell| cell.saved(disk, JUDGED)).collect();
    let smallest = saved.first().is_some_and(|saved| *saved < 5.0);
    let most = (0..saved.len()).max_by(|a, b| saved[*a].total_cmp(&saved[*b]));
    report.claim("cc07", Bar::Ours).exact(
        "less than 5 % in the smallest memory, and more than 80 % in a larger one",
        smallest && most.is_some_and(|most| saved[most] > 80.0),
        match most {
            Some(most) => format!(
                "{:.0} %, {}; {:.0} %, {}",
                saved[0],
                cells[0].place(),
                saved[most],
                cells[most].place()
            ),
            None => "no cells".into(),
        },
    );
}

/// The same cells on each disk, those of interest on the one to judge by.
fn judge_disks(report: &mut Report, measured: &[Measured], costs: &[TierCosts; DISKS.len()]) {
    let cells = || measured.iter().filter(|cell| cell.is_of_interest(&costs[JUDGED]));
    let by_disk: Vec<f64> =
        (0..DISKS.len()).map(|disk| mean(cells().map(|cell| cell.saved(&costs[disk], disk)))).collect();
    let shown = DISKS.iter().zip(&by_disk).map(|((name, _), saved)| format!("{name} {saved:.1} %"));
    report.claim("cc06", Bar::Ours).exact(
        "the slower the disk against compression, the more is saved on average, in the same cells",
        by_disk.windows(2).all(|pair| pair[0] >= pair[1]),
        shown.collect::<Vec<_>>().join(", "),
    );
}
