//! The wiki's two benchmarks as programs that run on this machine: miniDB at its full size, and
//! walks of an anonymous mapping. Under the kernel's own replacement, and under the pager.

use crate::live::{Program, Workshop, machine, number};
use crate::{Bar, Error, Item, Lab, Limit, Measurement, Report};
use std::path::Path;
use std::process::Command;
use sweephand_results::{Table, grouped};

const FOLDER: &str = "linux-mm-advanced-page-replacement";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "linux-mm/minidb",
        folder: FOLDER,
        title: "linux-mm: miniDB at full size, live",
        run: |lab| minidb(lab, &ALONE),
    },
    Item {
        id: "linux-mm/minidb-stream",
        folder: FOLDER,
        title: "linux-mm: miniDB at full size beside a stream, live",
        run: |lab| minidb(lab, &BESIDE_A_STREAM),
    },
    Item {
        id: "linux-mm/scans-live",
        folder: FOLDER,
        title: "linux-mm: walks of an anonymous mapping, live",
        run: scans_live,
    },
];

/// Compiles a C program where it will run.
fn compile(directory: &Path, name: &str, source: &str) -> std::io::Result<()> {
    let file = directory.join(name).with_extension("c");
    std::fs::write(&file, source)?;
    std::fs::write(directory.join("memory.h"), include_str!("programs/memory.h"))?;
    let arguments = ["-O2", "-pthread", "-o", name];
    let compiled = Command::new("gcc").args(arguments).arg(&file).current_dir(directory).status()?;
    if compiled.success() {
        Ok(())
    } else {
        Err(std::io::Error::other(format!("gcc does not compile {name}")))
    }
}

const fn minidb_program(arguments: &'static [&'static str]) -> Program {
    Program {
        name: "minidb",
        what: "random look-ups in 70 MB of index and 700 MB of records",
        package: "gcc",
        executable: "./minidb",
        arguments,
        prepare: |directory| compile(directory, "minidb", include_str!("programs/minidb.c")),
    }
}

const fn scan_program(arguments: &'static [&'static str]) -> Program {
    Program {
        name: "scan",
        what: "walks a mapping beside a hot set",
        package: "gcc",
        executable: "./scan",
        arguments,
        prepare: |directory| compile(directory, "scan", include_str!("programs/scan.c")),
    }
}

/// The wiki's memory.
const MEMORY: &str = "96MiB";

struct Minidb {
    what: &'static str,
    queries: f64,
    free: Program,
    locked: Program,
    /// `None` is the kernel.
    under: &'static [Option<&'static str>],
}

const ALONE: Minidb = Minidb {
    what: "Alone.",
    queries: 400_000.0,
    free: minidb_program(&["70", "700", "400000"]),
    locked: minidb_program(&["70", "700", "400000", "lock"]),
    under: &[None, Some("clock-pro-strict")],
};

const BESIDE_A_STREAM: Minidb = Minidb {
    what: "Another thread writes 250 MB of other memory once, from the first look-up to the last, as the wiki's concurrent rsync \
           did with files.",
    queries: 300_000.0,
    free: minidb_program(&["70", "700", "300000", "250"]),
    locked: minidb_program(&["70", "700", "300000", "lock", "250"]),
    under: &[None, Some("clock"), Some("linux24"), Some("clock-pro-strict")],
};

fn minidb(lab: &Lab, setting: &Minidb) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\nminiDB: {}, {} look-ups, in {MEMORY}, all of it anonymous memory that has been written to. {} The kernel pages to a swap \
             file, the pager to a file on the same disk. The time is that of the look-ups, without filling. One run each.",
            machine(),
            setting.free.what,
            grouped(setting.queries as u64),
            setting.what
        ),
        ..Report::default()
    };
    let mut table = Table::new(["under", "seconds", "microseconds a look-up", "pages read a look-up"]);
    let mut run = |name: String, program: &Program, under: Option<&str>| -> Result<f64, Error> {
        let workshop = Workshop::new(lab, program)?;
        let counts = match under {
            Some(policy) => workshop.run(MEMORY, policy, &[])?,
            None => workshop.run_kernel(MEMORY)?,
        };
        let seconds = workshop.seconds()?;
        let reads = ["pages_read", "major_faults"].iter().find_map(|count| number(&counts, count));
        table.row([
            name,
            format!("{seconds:.1}"),
            format!("{:.1}", 1e6 * seconds / setting.queries),
            reads.map_or_else(String::new, |reads| format!("{:.2}", reads / setting.queries)),
        ]);
        Ok(seconds)
    };
    let mut seconds = Vec::new();
    for under in setting.under {
        let name = under.unwrap_or("the kernel").to_string();
        seconds.push((name.clone(), run(name, &setting.free, *under)?));
    }
    let locked = run("the kernel, index locked in memory".into(), &setting.locked, None)?;
    report.tables.push(("Look-ups.".into(), table));
    let gain = |(name, seconds): &(String, f64)| {
        Measurement::exact(format!("{name}:"), 100.0 * (1.0 - locked / seconds), 1)
    };
    report.claim("lx09", Bar::Ours).numbers(
        "locking the index gains about 3 % of the kernel's run time: 1 to 5 (in spirit: at most 10)",
        Limit::Between(1.0, 5.0),
        Some(Limit::AtMost(10.0)),
        &[gain(&seconds[0])],
    );
    let pager: Vec<String> =
        seconds[1..].iter().map(|(name, seconds)| format!("{name} {seconds:.1} s")).collect();
    report.check(
        "a policy of the pager takes less time than the kernel",
        seconds[1..].iter().any(|(_, pager)| *pager < seconds[0].1),
        format!(
            "the kernel {:.1} s; {}; the kernel with the index locked {locked:.1} s",
            seconds[0].1,
            pager.join(", ")
        ),
    );
    Ok(report)
}

/// In 64 MiB: a mapping a quarter larger, walked twelve times, and one of sixteen times the memory
/// walked once beside a hot set of half the memory.
const SCAN_MEMORY: &str = "64MiB";
const CYCLIC: Program = scan_program(&["20480", "12", "1"]);
const ONCE: Program = scan_program(&["262144", "1", "8192"]);
const SCAN_POLICIES: [Option<&str>; 6] =
    [None, Some("clock"), Some("lifo"), Some("clock-pro-strict"), Some("seq"), Some("apr")];

fn scans_live(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: format!(
            "{}\n`traces/scan.c` in {SCAN_MEMORY}: 20,480 pages (80 MiB) walked 12 times, and 262,144 pages (1 GiB) walked once, each page beside a \
             random one of a hot set (1 page, and 8,192). Read-ahead is off under the pager; the kernel reads ahead as it does. One run each.",
            machine()
        ),
        ..Report::default()
    };
    let mut times = Vec::new();
    for (what, program) in [("Walked in a cycle.", &CYCLIC), ("Walked once beside a hot set.", &ONCE)] {
        let workshop = Workshop::new(lab, program)?;
        let mut table = Table::new(["under", "seconds", "pages read"]);
        let mut of_program = Vec::new();
        for under in SCAN_POLICIES {
            let counts = match under {
                Some(policy) => workshop.run(SCAN_MEMORY, policy, &["--prefetch", "off"])?,
                None => workshop.run_kernel(SCAN_MEMORY)?,
            };
            let seconds = number(&counts, "wall_ns").unwrap_or(f64::NAN) / 1e9;
            let reads = ["pages_read", "major_faults"].iter().find_map(|count| number(&counts, count));
            table.row([
                under.unwrap_or("the kernel").to_string(),
                format!("{seconds:.2}"),
                reads.map_or_else(String::new, |reads| grouped(reads as u64)),
            ]);
            of_program.push((under.unwrap_or("the kernel"), seconds, reads.unwrap_or(f64::NAN)));
        }
        report.tables.push((what.into(), table));
        times.push(of_program);
    }
    let of = |program: usize, name: &str| {
        let (_, seconds, reads) = times[program].iter().find(|(of, ..)| *of == name).expect("it ran");
        (*seconds, *reads)
    };
    report.check(
        "a cycle a quarter larger than memory: CLOCK reads the whole mapping in every later round, within 5 %",
        (0.95..=1.05).contains(&(of(0, "clock").1 / (11.0 * 20_480.0))),
        format!("{} of {} pages", grouped(of(0, "clock").1 as u64), grouped(11 * 20_480)),
    );
    for policy in ["lifo", "clock-pro-strict", "seq", "apr"] {
        report.check(
            format!("the cycle: {policy} reads half as much as CLOCK or less"),
            of(0, policy).1 <= 0.5 * of(0, "clock").1,
            format!(
                "{} pages, {:.1} s; the kernel {:.1} s",
                grouped(of(0, policy).1 as u64),
                of(0, policy).0,
                of(0, "the kernel").0
            ),
        );
    }
    report.check(
        "the walk once: CLOCK-Pro reads fewer pages of the hot set again than CLOCK",
        of(1, "clock-pro-strict").1 < of(1, "clock").1,
        format!(
            "{} and {} pages",
            grouped(of(1, "clock-pro-strict").1 as u64),
            grouped(of(1, "clock").1 as u64)
        ),
    );
    Ok(report)
}
