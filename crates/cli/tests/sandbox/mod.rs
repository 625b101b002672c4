//! What the tests of the command share: a directory to run it in, and what it prints there.
// Not every test uses all of it.
#![allow(dead_code, unused_imports)]

#[path = "../children/mod.rs"]
mod children;

pub(crate) use children::{Running, spawn};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command.
pub(crate) fn sweephand() -> Command {
    children::command(env!("CARGO_BIN_EXE_sweephand"))
}

/// A directory of a test's own, which the command runs in.
pub(crate) struct Sandbox {
    pub(crate) directory: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// The command with these arguments, between spaces.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = sweephand();
        command.args(arguments.split_whitespace()).current_dir(self.directory.path());
        command.env_remove("SWEEPHAND_TRACES").env("XDG_CACHE_HOME", shared_cache());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().expect("sweephand")
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn stdout(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The one line of a command that fails with status 2 and prints nothing else.
    pub(crate) fn error(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {message}");
        assert_eq!(text(&output.stdout), "", "{arguments}");
        assert_eq!(message.lines().count(), 1, "{arguments}: {message}");
        message.trim_end().strip_prefix("sweephand: ").unwrap().to_string()
    }

    /// The names of what is in it.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// One recorder for all tests: building it takes longer than using it.
fn shared_cache() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
