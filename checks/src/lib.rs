//! Tests that lack something: root, a kernel feature, a program, the traces of others.
//!
//! A test that cannot check what it is for calls [`skip`]. `cargo full` counts these tests and says
//! at its end what they lacked. Where nothing may be missing, `SWEEPHAND_REQUIRE` makes them fail:
//! `all`, or a comma list of the [names](Need::name) of what must be there.
//!
//! A test that tries many inputs calls [`trying`] with each, so that a failure names its input.

use std::env;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// The variable that names what must be there.
pub const REQUIRE: &str = "SWEEPHAND_REQUIRE";
/// The variable that has the tests run [at length](at_length).
pub const AT_LENGTH: &str = "SWEEPHAND_AT_LENGTH";
/// The variable that names the file in which skipped tests are counted: a line each, with tabs
/// between need, test and reason.
pub const SKIPS: &str = "SWEEPHAND_SKIPS";

/// What a test needs and a machine may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To be root.
    Root,
    /// userfaultfd with the features that the pager needs.
    Userfaultfd,
    /// BPF with BTF, for the processor's accessed bits.
    Bpf,
    /// A memory cgroup, and a file system that holds a swap file.
    Swap,
    /// zram devices that can be added.
    Zram,
    /// The traces of others: `SWEEPHAND_TRACES`.
    Traces,
    /// A program of the packages in `.ci/packages`.
    Program,
    /// Go or Java, which no package of that list brings.
    Language,
    /// A setting, or a feature of the kernel or the processor, that few machines have.
    Machine,
}

impl Need {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Root,
        Self::Userfaultfd,
        Self::Bpf,
        Self::Swap,
        Self::Zram,
        Self::Traces,
        Self::Program,
        Self::Language,
        Self::Machine,
    ];

    /// Its name in `SWEEPHAND_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Userfaultfd => "userfaultfd",
            Self::Bpf => "bpf",
            Self::Swap => "swap",
            Self::Zram => "zram",
            Self::Traces => "traces",
            Self::Program => "program",
            Self::Language => "language",
            Self::Machine => "machine",
        }
    }
}

/// Whether a need is in a list of names.
fn is_required(need: Need, list: &str) -> bool {
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let is_known = name == "all" || Need::ALL.iter().any(|known| known.name() == name);
        assert!(is_known, "{REQUIRE}: there is no {name}: write all, or {:?}", Need::ALL.map(Need::name));
        if name == "all" || name == need.name() {
            return true;
        }
    }
    false
}

/// Counts the test of this thread as one that lacks something. The test returns then, or checks the
/// rest.
///
/// # Panics
/// If `SWEEPHAND_REQUIRE` says that what is missing must be there.
pub fn skip(need: Need, why: impl Display) {
    let list = env::var(REQUIRE).unwrap_or_default();
    assert!(!is_required(need, &list), "{REQUIRE}={list}: {} is missing: {why}", need.name());
    println!("SKIPPED, {} is missing: {why}", need.name());
    count(need.name(), why);
}

/// Whether tests that try many cases try all of them, for minutes to hours. They do with
/// `SWEEPHAND_AT_LENGTH=1`, as `.ci/nightly` sets it. Otherwise they take a sample that is the same
/// in every run.
pub fn at_length() -> bool {
    env::var_os(AT_LENGTH).is_some_and(|value| value != *"0" && !value.is_empty())
}

/// Whether a program is there that knows `--version`. If not, the test counts as skipped.
pub fn has_program(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok();
    if !is_there {
        skip(Need::Program, name);
    }
    is_there
}

/// The folder with the traces of others, from `SWEEPHAND_TRACES`. If it is not named, the test
/// counts as skipped.
pub fn traces() -> Option<PathBuf> {
    let folder = env::var_os("SWEEPHAND_TRACES").map(PathBuf::from);
    if folder.is_none() {
        skip(Need::Traces, "SWEEPHAND_TRACES does not name their folder");
    }
    folder
}

/// Names what a test tries at the moment. If the test fails while the answer lives, it prints these
/// words behind its message: the input, and the command that repeats it if there is one.
///
/// A loop over inputs names each of them once, and no assertion in it needs to.
pub fn trying<F: Fn() -> String>(input: F) -> Trying<F> {
    Trying(input)
}

/// The answer of [`trying`].
#[must_use = "the input is named only as long as this lives"]
#[derive(Debug)]
pub struct Trying<F: Fn() -> String>(F);

impl<F: Fn() -> String> Drop for Trying<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("It failed with this input: {}", (self.0)());
        }
    }
}

/// The text of a file.
///
/// # Panics
/// If it cannot be read. The message names it.
pub fn read_text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The paths of what is in a folder, in the order of their names.
///
/// # Panics
/// If it cannot be read. The message names it.
pub fn entries(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let folder = folder.as_ref();
    let list =
        || -> io::Result<Vec<PathBuf>> { fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect() };
    let mut entries = list().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.sort();
    entries
}

/// What stands for a need in the file of [`repeated`] tests.
pub const REPEATED: &str = "repeated";

/// Counts the test of this thread as one that tries again, for a cause outside of what it tests.
/// Whoever calls this says how often at most.
pub fn repeated(cause: impl Display) {
    println!("REPEATED: {cause}");
    count(REPEATED, cause);
}

/// Adds a line on the test of this thread to the file that counts tests, if there is one.
fn count(what: &str, why: impl Display) {
    let Some(path) = env::var_os(SKIPS) else { return };
    let thread = thread::current();
    let test = thread.name().unwrap_or("?");
    let why = why.to_string().replace(['\n', '\t'], " ");
    let line = format!("{what}\t{test}\t{why}\n");
    // One write, so that lines of several processes stay whole.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_what_must_be_there() {
        assert!(is_required(Need::Root, "all") && is_required(Need::Root, "swap, root"));
        assert!(!is_required(Need::Root, "") && !is_required(Need::Root, "swap,traces"));
    }

    #[test]
    #[should_panic(expected = "there is no rot")]
    fn a_name_that_does_not_exist_is_refused() {
        is_required(Need::Root, "rot");
    }
}
