//! The options of `sweephand record`.

use crate::keeper::share_of_program;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace to write [default: the program's name with .swt, in this directory]. With --children:
    /// the directory for the traces [default: the program's name with .traces]
    #[arg(short, long, value_name = "T")]
    pub(super) output: Option<PathBuf>,
    /// Record every process that the program starts, too, each into a trace of its own,
    /// PROGRAM-PID.swt. multiprogram.toml beside them has them as tasks in one memory
    #[arg(long)]
    pub(super) children: bool,
    /// Record at nearly full speed, without Valgrind: an agent in the program records the first
    /// touch of each page in each epoch. The window is as large as --overhead takes, and the trace
    /// says how large it was when. Needs userfaultfd (root, or CAP_SYS_PTRACE)
    #[arg(long)]
    pub(super) live: bool,
    /// With --live: the part of the program's time that recording may take, up to 10000%; none is
    /// no limit: then the window is always --window
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share_of_program)]
    pub(super) overhead: f64,
    /// With --live: keep processors from sleeping meanwhile, so that a fault costs less and the
    /// window can be smaller. Needs root, and a processor that is idle uses more power
    #[arg(long)]
    pub(super) awake: bool,
    /// Record allocations of this size and more as objects
    #[arg(long, default_value = "40KiB", value_name = "SIZE", conflicts_with = "live")]
    pub(super) min_object: String,
    /// Do not read pages now and then to see how well they compress. Only sizes are kept, and no
    /// contents (`info` shows them)
    #[arg(long)]
    pub(super) no_contents: bool,
    /// Record only anonymous memory, which is what a program is paged with under `run`: no pages of
    /// files, no shared memory
    #[arg(long, conflicts_with = "live")]
    pub(super) anonymous: bool,
    /// Keep only the first and last run of each page in every stretch of K distinct pages: the
    /// faults of LRU and OPT stay exact from K pages of memory up, those of other policies nearly
    /// so from about 8 K up. K is 256 at most. 1 keeps every run of references to one page, 0 every
    /// reference: what counts time in references needs that. With --live: the fewest pages of an
    /// epoch, from 8 up [default: 16, with --live 64]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(0..=256))]
    pub(super) window: Option<u16>,
    /// No progress, no summary
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// The program and its arguments. What is recorded is the program that the command becomes,
    /// through any number of launchers (env, a shell's exec, scripts that find the right version)
    #[arg(last = true, required = true, value_name = "PROGRAM ARG")]
    pub(super) command: Vec<OsString>,
}
