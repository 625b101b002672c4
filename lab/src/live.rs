//! Tools for experiments that run programs on this machine: the command itself, programs with their
//! inputs, and the description of the machine.
//!
//! Their results are measurements. They depend on the machine and on what else it does. So they run
//! only when they are named in full, and no test compares them.

use crate::lab::Counts;
use crate::workload::{EachReference, MemoryWriter, in_memory};
use crate::{Error, Lab, Machine};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use sweephand_results::bytes;
use sweephand_trace::{EndTotals, Trace};

/// A count, if it is known.
pub(crate) fn number(counts: &Counts, name: &str) -> Option<f64> {
    counts.get(name)?.parse().ok()
}

/// A program with its input.
pub(crate) struct Program {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What it does, for the method.
    pub(crate) what: &'static str,
    /// The Debian package that it is in, or the one that it is made with.
    pub(crate) package: &'static str,
    /// The executable itself: what a script would start cannot be recorded. Without a full path it
    /// is made with the inputs.
    pub(crate) executable: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// Makes its inputs in a directory.
    pub(crate) prepare: fn(&Path) -> std::io::Result<()>,
}

impl Program {
    fn command(&self) -> Vec<OsString> {
        std::iter::once(self.executable).chain(self.arguments.iter().copied()).map(OsString::from).collect()
    }
}

pub(crate) const GNUPLOT: Program = Program {
    name: "gnuplot",
    what: "draws a data file of 16 MB as PostScript",
    package: "gnuplot-nox",
    executable: "/usr/bin/gnuplot",
    arguments: &[
        "-e",
        // Not printed: it would have the time of day in it.
        "set terminal postscript; set output \"curves.ps\"; plot \"points.dat\" using 1:2 with lines, \"points.dat\" using 1:3 with lines",
    ],
    prepare: points,
};

pub(crate) const GZIP: Program = Program {
    name: "gzip",
    what: "compresses that file",
    package: "gzip",
    executable: "/usr/bin/gzip",
    arguments: &["-c", "points.dat"],
    prepare: points,
};

/// `/usr/bin/gap` is a script that starts this.
const GAP_PATH: &str = "/usr/lib/x86_64-linux-gnu/gap/gap";

pub(crate) const GAP: Program = Program {
    name: "gap",
    what: "conjugacy classes of a permutation group, four times, from a saved workspace",
    package: "gap-core",
    executable: GAP_PATH,
    arguments: &[
        "-l",
        "/usr/lib/gap;/usr/share/gap",
        "-A",
        "-q",
        "-L",
        "workspace",
        "--nointeract",
        "groups.g",
    ],
    prepare: groups,
};

pub(crate) const NUMPY: Program = Program {
    name: "numpy",
    what: "six sweeps of relaxation over a grid of 1400 x 1400",
    package: "python3-numpy",
    executable: "/usr/bin/python3",
    arguments: &["relax.py"],
    prepare: |directory| {
        fs::write(
            directory.join("relax.py"),
            "import numpy\n\
             n = 1400\n\
             grid = numpy.zeros((n, n))\n\
             grid[0, :] = 1.0\n\
             old = numpy.empty_like(grid)\n\
             for sweep in range(6):\n    \
                 old[:] = grid\n    \
                 grid[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])\n\
             print(float(grid.sum()))\n",
        )
    },
};

pub(crate) const SORT: Program = Program {
    name: "sort",
    what: "sorts 400,000 lines by a number, in one thread, with 40 MB of buffers",
    package: "coreutils",
    executable: "/usr/bin/sort",
    arguments: &["-S", "40M", "--parallel=1", "-k2,2n", "-k1,1", "lines"],
    prepare: |directory| {
        let mut file = BufWriter::new(fs::File::create(directory.join("lines"))?);
        for noise in noise().take(400_000) {
            writeln!(file, "{noise:016x} {}", noise % 977)?;
        }
        file.flush()
    },
};

/// Numbers that look random, always the same (xorshift64).
fn noise() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(88_172_645_463_325_252_u64), |&state| {
        let state = state ^ state << 13;
        let state = state ^ state >> 7;
        Some(state ^ state << 17)
    })
}

/// A data file of about 16 MB, as in the paper: three columns, noisy curves.
fn points(directory: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(directory.join("points.dat"))?);
    let mut noise = noise().map(|noise| (noise >> 11) as f64 / (1_u64 << 53) as f64);
    let mut next = || noise.next().unwrap_or_default();
    for index in 0..480_000 {
        let at = f64::from(index);
        let (sine, cosine) = ((at / 5000.0).sin() + next() / 10.0, (at / 3000.0).cos() * next());
        writeln!(file, "{:.6} {sine:.8} {cosine:.8}", at / 1000.0)?;
    }
    file.flush()
}

fn groups(directory: &Path) -> std::io::Result<()> {
    let save = directory.join("save.g");
    fs::write(&save, "SaveWorkspace(\"workspace\");\nQUIT;\n")?;
    let saved = Command::new(GAP_PATH)
        .args(["-l", "/usr/lib/gap;/usr/share/gap", "-A", "-q", "--nointeract", "save.g"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    if !saved.success() {
        return Err(std::io::Error::other("gap does not save a workspace"));
    }
    fs::write(
        directory.join("groups.g"),
        "for time in [1..4] do Print(Length(ConjugacyClasses(SylowSubgroup(SymmetricGroup(16), 2))), \"\\n\"); od;\nQUIT;\n",
    )
}

/// A program where its inputs are, and the command to run it with.
pub(crate) struct Workshop<'a> {
    sweephand: &'a Path,
    program: &'a Program,
    directory: tempfile::TempDir,
}

impl<'a> Workshop<'a> {
    /// Makes the inputs.
    pub(crate) fn new(lab: &'a Lab, program: &'a Program) -> Result<Self, Error> {
        let sweephand = lab.sweephand()?;
        let needed = if program.executable.starts_with('/') { program.executable } else { "/usr/bin/gcc" };
        if !Path::new(needed).exists() {
            return Err(Error::NoProgram { program: program.name, package: program.package });
        }
        let failed = |error: std::io::Error| Error::Live {
            what: format!("the input of {}", program.name),
            said: error.to_string(),
        };
        // Where live runs page to by default: on a disk. It stays behind if the command is killed.
        let directory =
            tempfile::Builder::new().prefix("sweephand-").tempdir_in("/var/tmp").map_err(failed)?;
        (program.prepare)(directory.path()).map_err(failed)?;
        Ok(Self { sweephand, program, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.sweephand);
        command.args(arguments).arg("--").args(self.program.command());
        command.current_dir(self.directory.path()).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    fn failed(&self, said: &[u8]) -> Error {
        Error::Live {
            what: self.program.name.to_string(),
            said: String::from_utf8_lossy(said).trim().trim_start_matches("sweephand: ").to_string(),
        }
    }

    fn finish(&self, command: &mut Command) -> Result<(), Error> {
        let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| self.failed(error.to_string().as_bytes()))?;
        if output.status.success() { Ok(()) } else { Err(self.failed(&output.stderr)) }
    }

    /// Runs the program with all memory, under the kernel and under policies, by turns:
    /// `sweephand compare`. One row a run.
    pub(crate) fn compare(
        &self,
        memory: &[String],
        policies: &str,
        rounds: &str,
        prefetch: &str,
    ) -> Result<Vec<Counts>, Error> {
        let memory = memory.join(",");
        let results = self.path("results.csv");
        let options = ["compare", "--memory", &memory, "--policy", policies, "--rounds", rounds];
        let more = ["--prefetch", prefetch, "--format", "csv", "-o", "results.csv"];
        self.finish(&mut self.start(&[&options[..], &more].concat()))?;
        let unreadable = |error: csv::Error| self.failed(error.to_string().as_bytes());
        let mut reader = csv::Reader::from_path(results).map_err(unreadable)?;
        let headings = reader.headers().map_err(unreadable)?.clone();
        let rows = reader.records().map(|row| {
            let row = row.map_err(unreadable)?;
            let known = headings.iter().zip(row.iter()).filter(|(_, value)| !value.is_empty());
            Ok(known.map(|(name, value)| (name.to_string(), value.to_string())).collect())
        });
        rows.collect()
    }

    /// Runs the program under a policy, with further options: its statistics.
    pub(crate) fn run(&self, memory: &str, policy: &str, more: &[&str]) -> Result<Counts, Error> {
        let options = ["run", "--memory", memory, "--policy", policy, "--stats", "s.json"];
        self.counted(&[&options[..], more].concat())
    }

    /// Runs the program under the kernel's own replacement: its statistics.
    pub(crate) fn run_kernel(&self, memory: &str) -> Result<Counts, Error> {
        self.counted(&["run", "--memory", memory, "--kernel", "--stats", "s.json"])
    }

    /// What the program wrote into its file `seconds`: the time of the part that counts.
    pub(crate) fn seconds(&self) -> Result<f64, Error> {
        let text = fs::read_to_string(self.path("seconds")).unwrap_or_default();
        text.trim().parse().map_err(|_| self.failed(b"it has not written its time"))
    }

    fn counted(&self, arguments: &[&str]) -> Result<Counts, Error> {
        self.finish(&mut self.start(arguments))?;
        let unreadable = |error: String| self.failed(error.as_bytes());
        let text = fs::read_to_string(self.path("s.json")).map_err(|error| unreadable(error.to_string()))?;
        let values: HashMap<String, serde_json::Value> =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        let known = values.into_iter().filter(|(_, value)| !value.is_null());
        Ok(known.map(|(name, value)| (name, value.to_string())).collect())
    }

    /// Records the program; returns the trace, and the part of it that a pager manages: references
    /// to anonymous memory.
    pub(crate) fn record(&self) -> Result<(Trace, Trace), Error> {
        let options = ["record", "--quiet", "-o", "program.swt"];
        let mut command = self.start(&options);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| self.failed(error.to_string().as_bytes()))?;
        // The recorded program runs at the addresses that the trace tells of; what is mapped there
        // from files is looked at while it runs.
        let mut files = Vec::new();
        let status = loop {
            match child.try_wait().map_err(|error| self.failed(error.to_string().as_bytes()))? {
                Some(status) => break status,
                None => file_pages(child.id(), &mut files),
            }
            sleep(Duration::from_millis(20));
        };
        if !status.success() {
            return Err(self.failed(b"it cannot be recorded; try: sweephand record"));
        }
        let trace = Trace::open(&self.path("program.swt"))?;
        let managed = without(&trace, &files)?;
        Ok((trace, managed))
    }
}

/// Adds the page numbers that the children of a process have mapped from files, if they are not
/// there yet.
fn file_pages(parent: u32, files: &mut Vec<Range<u64>>) {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    for child in children.split_whitespace() {
        let maps = fs::read_to_string(format!("/proc/{child}/maps")).unwrap_or_default();
        for line in maps.lines() {
            // start-end permissions offset device inode path
            let mut words = line.split_whitespace();
            let (range, path) = (words.next().unwrap_or_default(), words.nth(4).unwrap_or_default());
            let hexadecimal = |text: &str| u64::from_str_radix(text, 16).map(|address| address >> 12);
            let Some((Ok(start), Ok(end))) =
                range.split_once('-').map(|(start, end)| (hexadecimal(start), hexadecimal(end)))
            else {
                continue;
            };
            if path.starts_with('/') && !files.contains(&(start..end)) {
                files.push(start..end);
            }
        }
    }
}

/// A trace without the references to these pages.
fn without(trace: &Trace, pages: &[Range<u64>]) -> Result<Trace, Error> {
    let instructions = trace.header().totals.instructions;
    in_memory(|writer| {
        let reference = |writer: &mut MemoryWriter, page_number, write| match pages
            .iter()
            .any(|range| range.contains(&page_number))
        {
            true => Ok(()),
            false => writer.reference(page_number, write),
        };
        trace.replay(&mut EachReference { writer, reference }, &mut |_| {})?;
        Ok(EndTotals { instructions, ..EndTotals::default() })
    })
}

/// The machine and the day, in a line.
pub(crate) fn machine() -> String {
    let Machine { processor, processors, memory_bytes, system } = Machine::this();
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let date = date.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    format!(
        "Measured on {}: {processor}, {processors} processors, {}, {system}.",
        date.unwrap_or_else(|_| "an unknown day".to_string()),
        bytes(memory_bytes)
    )
}
