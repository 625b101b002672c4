//! `sweephand run`: runs a program in less memory than it wants, under a policy or under the
//! kernel's own replacement.
//!
//! The program's streams, exit status and signals stay its own. On a terminal the command writes
//! two lines to standard error (`run_summary`), elsewhere only if it is asked to or something is
//! wrong.

use crate::awake::Awake;
use crate::live::{forget_stats, limit_bytes, note_on_swap, prefetch_pages, show};
use crate::run_summary;
use crate::stderr::eprint_line;
use crate::watch::time;
use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ,
};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use sweephand_output::{Output, named_by};
use sweephand_pager::{
    Backend, CgroupLimit, KernelMemory, KernelRun, LiveSpec, MOST_PREFETCH_PAGES, Options, PAGE_BYTES,
    PoolSize, ReferenceBits, Running,
};
use sweephand_program::{Signals, exit_code};
use sweephand_sim::MemorySize;

/// The policy of a run that names none.
const DEFAULT_POLICY: &str = "clock-pro-strict";

/// As much compressed memory as pays.
const AUTO: &str = "auto";
/// No compressed memory.
const OFF: &str = "off";

/// Signals that end a program with a core dump.
const CORE_SIGNALS: [i32; 10] =
    [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory for each process of the program: bytes (64MiB or 64M; 64MB is 64,000,000) or pages of
    /// 4 KiB (16384p). On top come 4 MiB and a 64th, for page tables and the like; all that counts
    /// in a process, the pager's own included, stays within the sum. Cached files do not count, nor
    /// the other processes of the program, each of which may have as much. Of tasks, under
    /// --kernel, with --backend swap and if root names no policy: for all of their processes
    /// together
    #[arg(short, long, value_name = "SIZE", required_unless_present_any = ["tasks", "print_tasks"])]
    pub(crate) memory: Option<String>,
    /// Which pages go; see `sweephand policies` [default: clock-pro-strict; if root runs the
    /// command, only where the kernel's own choice is not faster; of tasks: what their file says]
    #[arg(short, long)]
    pub(crate) policy: Option<String>,
    /// Run the programs of a TOML file together, under one limit and one policy, with load control
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["command", "kernel"])]
    pub(crate) tasks: Option<PathBuf>,
    /// Limit the memory of a running process and of all that it has started, until it ends or this
    /// command does: the kernel pages it, directed by the policy, as with --backend swap. --memory
    /// is for its anonymous memory. Needs root. A number alone means this, too
    #[arg(long, conflicts_with_all = ["command", "tasks", "kernel", "io", "backend", "reference_bits", "cgroup_limit"])]
    pub(crate) pid: Option<u32>,
    /// With --tasks: which tasks may be active, instead of the file's choice. `policy`: by working
    /// sets, or by feedback if the policy has none; `none`: all at once; `serial`: one after
    /// another
    #[arg(long, value_enum, requires = "tasks", value_name = "RULE")]
    pub(crate) load_control: Option<Rule>,
    /// Print an example of a file for --tasks, with every key and its default
    #[arg(long, exclusive = true)]
    print_tasks: bool,
    /// Run under the kernel's own replacement instead: in a memory cgroup, with a swap file at
    /// --swap. Needs root
    #[arg(long, conflicts_with_all = ["policy", "prefetch", "io"])]
    kernel: bool,
    /// Where to page to: a directory on a disk, or a file's name in one. The file never appears
    /// under that name, and its space is free again when the program has ended, however it ends
    #[arg(long, value_name = "FILE", default_value = "/var/tmp")]
    pub(crate) swap: PathBuf,
    /// Write the counts to a JSON file. Without the right to make a memory cgroup, cgroup_failcnt
    /// is null in it, and cgroup_missing says why
    #[arg(long, value_name = "FILE.json")]
    pub(crate) stats: Option<PathBuf>,
    /// Show a live line on standard error, if that is a terminal
    #[arg(long)]
    pub(crate) progress: bool,
    /// Do not say on a terminal how much memory there is and what paging came to
    #[arg(short, long, conflicts_with_all = ["tasks", "pid"])]
    quiet: bool,
    /// Most pages to read ahead of a program that goes through its memory in order, or off
    #[arg(long, value_name = "off|N", default_value_t = MOST_PREFETCH_PAGES.to_string())]
    prefetch: String,
    /// How to read and write the backing store: through io_uring if the kernel has it, or by single
    /// system calls
    #[arg(long, value_enum, default_value = "auto")]
    io: InputOutput,
    /// Have each read of the backing store take longer by this, one after another, as a slower disk
    /// would: 8ms is a disk of 2005. It does without io_uring, and needs a pager in the program
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["kernel", "tasks", "pid"])]
    read_delay: Option<Duration>,
    /// Keep evicted pages in a part of --memory, compressed, before they go to the disk: bytes,
    /// pages, or a percentage of --memory. An agent writes them to the disk when the part is full.
    /// Pages that are read ahead go to the disk, and so do those that do not compress to three
    /// quarters. With auto, the part is as large as pays, which may be none, and changes with the
    /// program. Where the kernel pages (--kernel, --backend swap), it gets a zram device that may
    /// hold twice SIZE before compression, and what does not fit goes to the disk. With auto, it
    /// uses the device as long as that pays; --kernel takes no auto, because nobody measures there
    /// [default: off; if no policy is named and the kernel pages to a slow disk, auto]
    #[arg(long, value_name = "off|auto|SIZE", conflicts_with_all = ["tasks", "pid"])]
    compress: Option<String>,
    /// Keep the machine's processors from sleeping during the run, also under --kernel. Faults are
    /// then answered sooner, above all on virtual machines, if read-ahead does not help. Takes
    /// power, and processor time of the host. Needs root
    #[arg(long)]
    awake: bool,
    /// How pages are taken from the program. anon: by an agent inside the program, which needs the
    /// GNU C library, linked dynamically. swap: by the kernel, directed from outside; any program
    /// and all that it starts, under one limit. auto: swap if no policy is named and root runs the
    /// command, anon otherwise, and swap again for a program that can have no agent. Under swap
    /// without a --policy, the kernel chooses the pages as long as clock-pro-strict is not faster;
    /// trials during the run show that. --io sync, --read-delay, --reference-bits and
    /// --cgroup-limit mean anon
    #[arg(long, default_value = "auto", value_parser = one_of(&Backend::ALL))]
    backend: Backend,
    /// How the pager learns which pages are in use. hardware reads the processor's accessed bits,
    /// which takes root and a kernel with BPF and BTF. rwp has the kernel protect pages against
    /// reading and writing, and tell which were touched; Linux 7.3 can. software unmaps pages and
    /// waits for a touch. auto is the first of these that can be had; --stats says which it was
    #[arg(long, default_value = "auto", value_name = "HOW", value_parser = one_of(&ReferenceBits::ALL))]
    reference_bits: ReferenceBits,
    /// The limit of the memory cgroup around the program, for all its processes together: bytes,
    /// pages, or none for no cgroup. Programs such as Java and Node read it to size their heaps. It
    /// must be enough for all that --memory promises, or the kernel ends the program [default: as
    /// much as the processes that are alive may need]
    #[arg(long, value_name = "SIZE|none", conflicts_with_all = ["kernel", "tasks"])]
    cgroup_limit: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["tasks", "pid", "print_tasks"], value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InputOutput {
    Auto,
    Sync,
}

/// Which tasks may be active.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rule {
    Policy,
    Feedback,
    None,
    Serial,
}

impl Args {
    /// Refuses options that mean nothing with the backend.
    pub(crate) fn check_backend(&self) -> anyhow::Result<()> {
        if self.kernel && self.compress.as_deref() == Some(AUTO) {
            bail!("--kernel does not go with --compress auto: nobody measures what pays there; write a size");
        }
        if self.backend != Backend::Swap {
            return Ok(());
        }
        let refused = [
            (self.tasks.is_some(), "--tasks: each task has a pager in it"),
            (self.kernel, "--kernel: there the kernel chooses by itself"),
            (self.io == InputOutput::Sync, "--io: the kernel reads and writes its swap file"),
            (self.read_delay.is_some(), "--read-delay: the kernel reads its swap file"),
            (
                self.reference_bits == ReferenceBits::Software,
                "--reference-bits software: nobody unmaps pages there",
            ),
            (self.reference_bits == ReferenceBits::Rwp, "--reference-bits rwp: nobody protects pages there"),
            (self.cgroup_limit.is_some(), "--cgroup-limit: the limit is that of --memory"),
        ];
        match refused.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => bail!("--backend swap does not go with {option}"),
            None => Ok(()),
        }
    }

    /// The backend. Who sets what only an agent has wants an agent.
    fn backend(&self) -> Backend {
        let is_of_agents = self.io == InputOutput::Sync
            || self.read_delay.is_some()
            || self.reference_bits != ReferenceBits::Auto
            || self.cgroup_limit.is_some();
        if self.backend == Backend::Auto && is_of_agents { Backend::Anon } else { self.backend }
    }

    /// How to run a program, or to limit a process.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let limit_bytes = limit_bytes("--memory", self.memory.as_deref().unwrap_or_default())?;
        Ok(Options {
            limit_bytes,
            policy: LiveSpec::parse(self.policy.as_deref().unwrap_or(DEFAULT_POLICY))?,
            swap: self.swap.clone(),
            prefetch_pages: self.prefetch_pages()?,
            use_ring: self.use_ring(),
            read_delay: self.read_delay.unwrap_or_default(),
            pool: self.pool(limit_bytes)?,
            backend: self.backend(),
            // Whoever names a policy wants to see that one.
            by_turns: self.policy.is_none(),
            reference_bits: self.reference_bits,
            cgroup_limit: cgroup_limit(self.cgroup_limit.as_deref())?,
        })
    }

    /// What compressed pages have.
    fn pool(&self, limit_bytes: u64) -> anyhow::Result<PoolSize> {
        match &self.compress {
            Some(size) => pool_size(size, limit_bytes),
            None if self.kernel || self.policy.is_some() => Ok(PoolSize::Off),
            None => Ok(PoolSize::AutoIfSlow),
        }
    }

    /// Whether it is the programs of a file that are run.
    pub(crate) fn is_of_tasks(&self) -> bool {
        self.tasks.is_some()
    }

    /// Keeps processors from sleeping, if that is asked for.
    pub(crate) fn awake(&self) -> anyhow::Result<Option<Awake>> {
        self.awake.then(Awake::hold).transpose()
    }

    /// Most pages to read ahead.
    pub(crate) fn prefetch_pages(&self) -> anyhow::Result<u32> {
        prefetch_pages(&self.prefetch)
    }

    /// Whether to use io_uring where there is one.
    pub(crate) fn use_ring(&self) -> bool {
        self.io == InputOutput::Auto
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.print_tasks {
        io::stdout().write_all(sweephand_pager::tasks::EXAMPLE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    args.check_backend()?;
    let _awake = args.awake()?;
    if args.load_control.is_some() {
        bail!("--load-control: is for the programs of --tasks FILE.toml");
    }
    note_on_swap(&args.swap);
    let options = args.options()?;
    let stats =
        args.stats.as_deref().map(|path| Output::create(path, &named_by(&args.command))).transpose()?;
    forget_stats(args.stats.as_deref())?;
    let signals = Signals::catch()?;
    let (tells, by_turns) = (run_summary::is_wanted(args.quiet), options.by_turns && !args.kernel);
    if tells {
        run_summary::begin(&options);
    }
    let run: Box<dyn Running> = if args.kernel {
        let Options { limit_bytes, swap, pool, .. } = options;
        let memory = KernelMemory::Limited { limit_bytes, swap, pool };
        Box::new(KernelRun::start(&args.command, &memory, |_| {})?)
    } else {
        let (run, no_agent) = sweephand_pager::start(&args.command, &options, |_| {})?;
        if let Some(nature) = no_agent {
            eprint_line!(
                "sweephand: note: {}: {nature}: the kernel pages it, directed by the policy{} (--backend swap); --memory \
                 is for all of its processes together",
                args.command[0].display(),
                if options.by_turns { " where that is faster" } else { "" },
            );
        }
        run
    };
    signals.pass_on(run.child());
    if args.progress {
        show(&*run);
    }
    let ended = run.wait()?;
    if let Some(mut output) = stats {
        serde_json::to_writer_pretty(&mut output, &ended.statistics)?;
        writeln!(output)?;
        output.commit()?;
    }
    if tells {
        run_summary::end(&ended.statistics, by_turns);
    }
    let unpaged = match ended.statistics.unpaged_programs.unwrap_or_default() {
        0 => None,
        1 => Some("a program".to_string()),
        count => Some(format!("{count} programs")),
    };
    if let Some(unpaged) = unpaged {
        eprint_line!(
            "sweephand: warning: {}: {unpaged} that it started ran without a limit: statically linked, of another C \
             library than GNU's, setuid, begun by another user, in another root directory or under a filter of system \
             calls, or without LD_PRELOAD in the environment",
            args.command[0].display()
        );
    }
    // What fits its memory is complete in a core.
    if ended.statistics.peak_memory_pages.unwrap_or_default() > 0 {
        tell_of_core(args.command[0].as_ref(), ended.status);
    }
    Ok(exit_code(ended.status))
}

/// Says what has become of the core dump of a program that was paged. Memory that is paged out
/// would be zeros there, so the program's agent has the kernel write none.
fn tell_of_core(program: &Path, status: ExitStatus) {
    let is_core_signal = status.signal().is_some_and(|signal| CORE_SIGNALS.contains(&signal));
    // A program that takes cores through a pipe takes them whatever the limit.
    let is_piped = || fs::read("/proc/sys/kernel/core_pattern").is_ok_and(|text| text.starts_with(b"|"));
    if status.core_dumped() {
        eprint_line!(
            "sweephand: warning: {}: the core dump has zeros where memory was paged out; do not trust its data: run it \
             in more memory, or in a debugger",
            program.display()
        );
    } else if is_core_signal && (getrlimit(Resource::Core).current != Some(0) || is_piped()) {
        eprint_line!(
            "sweephand: {}: no core dump was written, since memory that was paged out would be zeros in it: run it in \
             more memory, or in a debugger",
            program.display()
        );
    }
}

/// Reads one of these names.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|(name, _)| *name)).map(|name| {
        let named = all.iter().find(|(known, _)| *known == name);
        named.expect("it is one of the names").1
    })
}

/// What compressed pages have, of all bytes of memory.
fn pool_size(text: &str, limit_bytes: u64) -> anyhow::Result<PoolSize> {
    let bytes = match text.parse() {
        _ if text == OFF => return Ok(PoolSize::Off),
        _ if text == AUTO => return Ok(PoolSize::Auto),
        Ok(MemorySize::Percent(percent)) => (limit_bytes as f64 * percent / 100.0) as u64,
        Ok(MemorySize::Bytes(bytes)) => bytes,
        Ok(MemorySize::Pages(pages)) => pages.saturating_mul(PAGE_BYTES),
        _ => bail!(
            "--compress {text}: write off, auto, bytes as in 64MiB, pages as in 16384p, or a percentage of --memory \
             as in 25%"
        ),
    };
    Ok(PoolSize::Bytes(bytes))
}

/// The limit of a cgroup around a program.
fn cgroup_limit(text: Option<&str>) -> anyhow::Result<CgroupLimit> {
    Ok(match text {
        None => CgroupLimit::Fitting,
        Some("none") => CgroupLimit::Unlimited,
        Some(size) => CgroupLimit::Bytes(limit_bytes("--cgroup-limit", size)?),
    })
}

#[cfg(test)]
mod tests {
    use super::{PoolSize, pool_size};

    #[test]
    fn compressed_memory_is_a_size_or_a_part_of_all_or_what_pays() {
        let of = |text| pool_size(text, 64 << 20).unwrap();
        assert_eq!([of("off"), of("auto")], [PoolSize::Off, PoolSize::Auto]);
        let sizes = ["25%", "12.5%", "3MiB", "10p"].map(of);
        assert_eq!(sizes, [16 << 20, 8 << 20, 3 << 20, 40960].map(PoolSize::Bytes));
        for text in ["automatic", "all", "much", "0", "-1", ""] {
            let refusal = pool_size(text, 64 << 20).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("--compress {text}: write off, auto, ")), "{refusal}");
        }
    }
}
