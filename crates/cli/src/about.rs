//! What the command knows of itself.

use std::path::PathBuf;

/// The version, in a release build with the commit.
pub(crate) const VERSION: &str = env!("SWEEPHAND_VERSION");

/// What works on other processors, too.
pub(crate) const ON_EVERY_PROCESSOR: &str = "import, simulate, sweep, report, and advise on a trace";

/// Where the command is at home: its program, or the package that carries it.
#[derive(Clone, Debug)]
pub struct Home {
    /// The file that starts the command, for what has to start it again.
    pub command: PathBuf,
}

impl Home {
    /// That of a program of its own: this one.
    pub fn of_this_program() -> Self {
        Self { command: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")) }
    }
}
