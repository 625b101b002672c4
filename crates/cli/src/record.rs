//! `sweephand record`: run a program under the recorder and keep the pages it touches.
//!
//! The recorder is a Valgrind tool whose sources are inside this command; it is built into the
//! user's cache directory on first use. It sends streams through pipes, and what is read there goes
//! straight into traces (`recording`).

use crate::children::Watch;
use crate::output::{Output, make_folder};
use crate::progress;
use crate::recording::{self, Begin, Image, Recorded};
use crate::run::named_by;
use crate::talk::say;
use anyhow::{Context, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use sweephand_pager::ownership;
use sweephand_report::{bytes, grouped};
use sweephand_sim::MemorySize;
use sweephand_trace::{BECAME_ANOTHER, Header};

/// Objects are allocations of this size and more, unless another is asked for.
const MIN_OBJECT: &str = "40KiB";
/// The window, unless another is asked for.
const WINDOW: u16 = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace to write [default: the program's name with .swt, in this directory]. With --children:
    /// the directory for the traces [default: the program's name with .traces]
    #[arg(short, long, value_name = "T")]
    output: Option<PathBuf>,
    /// Record every process that the program starts, too, each into a trace of its own,
    /// PROGRAM-PID.swt. multiprogram.toml beside them has them as tasks in one memory
    #[arg(long)]
    children: bool,
    /// Record allocations of this size and more as objects
    #[arg(long, default_value = MIN_OBJECT, value_name = "SIZE")]
    min_object: String,
    /// Keep only the first and last run of each page in every stretch of K distinct pages: the
    /// faults of LRU and OPT stay exact from K pages of memory up, those of other policies nearly
    /// so from about 8 K up; 1 keeps every run of references to one page, 0 every reference: what
    /// counts time in references needs that
    #[arg(long, default_value_t = WINDOW, value_name = "K", value_parser = clap::value_parser!(u16).range(0..=256))]
    window: u16,
    /// No progress, no summary
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments. What is recorded is the program that the command becomes,
    /// through any number of launchers (env, a shell's exec, scripts that find the right version)
    #[arg(last = true, required = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

/// Records a program as `sweephand record -- PROGRAM ARG...` does; returns the trace, and the
/// program's status. What the program prints goes to `stdout`, if that is given.
pub(crate) fn program(
    command: Vec<OsString>,
    stdout: Option<OwnedFd>,
) -> anyhow::Result<(PathBuf, ExitCode)> {
    let path = default_output(&find_program(&command[0])?, ".swt");
    let args = Args {
        output: Some(path.clone()),
        children: false,
        min_object: MIN_OBJECT.to_string(),
        window: WINDOW,
        quiet: false,
        command,
    };
    Ok((path, record(args, stdout)?))
}

/// In this directory, named after the program.
fn default_output(program: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", program.file_name().unwrap_or_default().to_string_lossy()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    record(args, None)
}

fn record(args: Args, stdout: Option<OwnedFd>) -> anyhow::Result<ExitCode> {
    let Ok(MemorySize::Bytes(min_object)) = args.min_object.parse() else {
        bail!("--min-object {}: write bytes as in 40KiB, at least 1B", args.min_object);
    };
    let program = find_program(&args.command[0])?;
    let recorder = recorder(args.quiet)?;
    let ending = if args.children { ".traces" } else { ".swt" };
    let place = args.output.clone().unwrap_or_else(|| default_output(&program, ending));
    let mut in_use = named_by(&args.command);
    in_use.push(&program);
    if args.children {
        make_folder(&place)?;
    }
    // What cannot be written is found out before anything runs.
    let open = |path: PathBuf| Output::create(&path, &in_use).map(|out| (path, out));
    drop(open(if args.children { place.join("-.swt") } else { place.clone() })?);

    let signals = signals()?;
    let (socket, mut child) = start(&recorder, &args, min_object, stdout)?;
    pass_signals_on(signals, &child);
    let watch = (!args.children).then(|| Watch::start(child.id()));
    let bar = if args.quiet { indicatif::ProgressBar::hidden() } else { progress::line() };
    let recorded = recording::receive(&socket, &bar, |begin| {
        open(if args.children { recording::name_of(begin, &place) } else { place.clone() })
    });
    bar.finish_and_clear();
    if recorded.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().context("the recorder cannot be waited for")?;
    let largest_child = watch.and_then(|watch| watch.finish(child.id()));
    let Recorded { images, lost } = recorded?;
    let main = child.id() as i32;
    if !images.iter().any(|image| image.begin.pid == main) {
        // The recorder said why on standard error.
        match status.signal() {
            Some(signal) => bail!("{}: was ended by signal {signal} before it began", program.display()),
            None => bail!("{}: did not start under Valgrind", program.display()),
        }
    }
    let (images, launchers) = last_of_each(images);
    let mut summaries = Vec::new();
    for mut image in images {
        let is_main = image.begin.pid == main;
        let name = if is_main {
            image.begin.name()
        } else {
            format!("{} ({})", image.begin.name(), image.begin.pid)
        };
        let (begin, path) = (image.begin.clone(), image.path.clone());
        let through: Vec<String> =
            launchers.iter().filter(|of| of.pid == begin.pid).map(Begin::name).collect();
        let metadata = image.metadata_mut();
        metadata.program = begin.name();
        if is_main {
            metadata.command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            metadata.largest_child = largest_child.clone();
        } else {
            let how = if begin.forked { "forked by" } else { "started by" };
            metadata.notes.push(format!("process {}, {how} process {}", begin.pid, begin.parent));
        }
        metadata.producer = concat!("sweephand record ", env!("CARGO_PKG_VERSION")).to_string();
        let status = is_main.then_some(status);
        metadata.ended = how_it_ended(status, metadata.complete, lost.get(&begin.pid).map(PathBuf::as_path));
        if !through.is_empty() {
            metadata.notes.push(format!(
                "the command became {} by exec, through {}",
                begin.program.display(),
                through.join(", ")
            ));
        }
        let (out, header) = image.finish()?;
        out.commit()?;
        if !header.metadata.complete {
            say!(
                "sweephand: note: {name}: the recording ends before the program does: it {}",
                header.metadata.ended
            );
        } else if let Some(launcher) = sweephand_report::launcher(&header) {
            say!("sweephand: {launcher}");
        }
        if let (false, true, Some(note)) = (args.quiet, is_main, header.metadata.notes.last()) {
            say!("sweephand: note: {note}");
        }
        summaries.push((path, header));
    }
    if args.children {
        write_configuration(&place, &program, args.window, &summaries)?;
    }
    if !args.quiet {
        summarise(summaries);
    }
    Ok(exit_code(status))
}

/// The processes as tasks in one memory, for `sweephand multiprogram`.
fn write_configuration(
    folder: &Path,
    program: &Path,
    window: u16,
    traces: &[(PathBuf, Header)],
) -> anyhow::Result<()> {
    /// Of every reference or, where the trace does not have each, of intervals of so many.
    const OMEGA: u64 = 5000;
    let tasks: Vec<&(PathBuf, Header)> =
        traces.iter().filter(|(_, header)| header.totals.written_pages > 0).collect();
    let pages: u64 = tasks.iter().map(|(_, header)| header.totals.distinct_pages).sum();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let names = tasks.iter().filter_map(|(path, _)| path.file_name());
    let names: String = names.map(|name| format!("    {:?},\n", name.to_string_lossy())).collect();
    let path = folder.join("multiprogram.toml");
    let mut file = Output::create(&path, &[])?;
    write!(
        file,
        "# The processes that sweephand record --children has seen, as tasks in one memory: a third of what they\n\
         # touch in all. sweephand multiprogram takes this file; docs/configurations.md has the other entries.\n\
         name = {name:?}\nframes = {}\nirim = {}\n\n[tasks]\ncount = {}\nprograms = [\n{names}]\n",
        (pages / 3).max(1),
        if window == 0 { 0 } else { OMEGA },
        tasks.len(),
    )
    .with_context(|| format!("{}: cannot be written", path.display()))?;
    file.commit()
}

/// The program that each process became in the end, and those that it was before: launchers.
fn last_of_each(images: Vec<Image>) -> (Vec<Image>, Vec<Begin>) {
    let mut last: Vec<Image> = Vec::new();
    let mut launchers = Vec::new();
    for image in images {
        match last.iter_mut().find(|known| known.begin.pid == image.begin.pid) {
            Some(known) => {
                let before = std::mem::replace(known, image);
                // What a child is between fork and exec is its parent still.
                launchers.extend(Some(before.begin).filter(|begin| !begin.forked));
            }
            None => last.push(image),
        }
    }
    (last, launchers)
}

/// A line for each trace, those with the most pages first.
fn summarise(mut traces: Vec<(PathBuf, Header)>) {
    /// More lines are not read.
    const MOST_LINES: usize = 20;
    traces.sort_by_key(|(_, header)| std::cmp::Reverse(header.totals.distinct_pages));
    for (path, header) in traces.iter().take(MOST_LINES) {
        let totals = &header.totals;
        say!(
            "sweephand: {}: {} references to {} pages in {} instructions; {} records, {}",
            path.display(),
            grouped(totals.references),
            grouped(totals.distinct_pages),
            grouped(totals.instructions.unwrap_or_default()),
            grouped(totals.records),
            bytes(fs::metadata(path).map_or(0, |file| file.len()))
        );
    }
    if traces.len() > MOST_LINES {
        say!("sweephand: and {} smaller ones", traces.len() - MOST_LINES);
    }
}

/// The program's own status; 128 + the number of the signal that ended it, as a shell says it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// How a program ended if not by itself. A recording that is not complete lacks its last record:
/// either the program was killed, or it is not the recorded one any more that goes on. Of a child
/// there is no status.
fn how_it_ended(status: Option<ExitStatus>, complete: bool, became: Option<&Path>) -> String {
    match (status.and_then(|status| status.signal()), complete, became) {
        (Some(signal), true, _) => format!("was ended by signal {signal}"),
        (None, true, _) => String::new(),
        (_, false, Some(program)) => format!(
            "{BECAME_ANOTHER} by exec, {}, which cannot be recorded: setuid, not readable, or for another processor",
            program.display()
        ),
        (Some(signal), false, None) => format!("was killed by signal {signal}"),
        (None, false, None) if status.is_none() => "was killed".to_string(),
        (None, false, None) => format!("{BECAME_ANOTHER} by exec, which did not start under Valgrind"),
    }
}

/// The file that a command name stands for, if the recorder can run it.
pub(crate) fn find_program(name: &OsStr) -> anyhow::Result<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let named = PathBuf::from(name);
    let found = if name.as_bytes().contains(&b'/') {
        if named.exists() && !is_program(&named) {
            bail!("{}: is not an executable file", named.display());
        }
        Some(named.clone()).filter(|path| path.exists())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(is_program)
    };
    let program = found.ok_or_else(|| anyhow!("{}: there is no such program", named.display()))?;
    let mode = fs::metadata(&program).map_or(0, |file| file.permissions().mode());
    if mode & 0o6000 != 0 {
        bail!(
            "{}: is setuid or setgid and cannot be recorded; record a copy without that",
            program.display()
        );
    }
    let head = head(&program)
        .with_context(|| format!("{}: cannot be read, and so not be recorded", program.display()))?;
    // Of an ELF file the fifth byte tells the word size, the nineteenth and twentieth the
    // processor.
    if head.starts_with(b"\x7fELF") && (head.get(4) != Some(&2) || head.get(18..20) != Some(&[62, 0])) {
        bail!("{}: only programs for 64-bit x86 can be recorded", program.display());
    }
    Ok(program)
}

/// A file's first bytes.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(256).read_to_end(&mut head)?;
    Ok(head)
}

/// Starts the program under the recorder, which speaks to us over the socket.
fn start(
    recorder: &Path,
    args: &Args,
    min_object: u64,
    stdout: Option<OwnedFd>,
) -> anyhow::Result<(OwnedFd, Child)> {
    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .context("no socket can be made")?;
    fcntl_setfd(&theirs, FdFlags::empty()).context("the socket cannot be passed on")?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .env("VALGRIND_LIB", recorder)
        // Options that somebody keeps in a file for Valgrind's own tools are not for this one.
        .args(["-q", "--command-line-only=yes", "--vgdb=no", "--tool=sweephand", "--trace-children=yes"])
        .arg(format!("--control-fd={}", theirs.as_raw_fd()))
        .arg(format!("--children={}", if args.children { "yes" } else { "no" }))
        .arg(format!("--window={}", args.window))
        .arg(format!("--min-object={min_object}"))
        .arg("--")
        // By the name it was given: it may look at that.
        .args(&args.command);
    if let Some(stdout) = stdout {
        valgrind.stdout(stdout);
    }
    let child = valgrind.spawn().context("valgrind cannot be started")?;
    Ok((ours, child))
}

/// A signal that some process sent to us is meant for the program. The terminal sends its own to
/// both by itself.
pub(crate) fn pass_signals_on(mut signals: SignalsInfo<WithOrigin>, child: &Child) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    // Not by its number: when the program has ended that may be another process's.
    let Ok(program) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return };
    thread::spawn(move || {
        for origin in signals.forever().filter(|origin| origin.process.is_some()) {
            let signal = match origin.signal {
                SIGINT => Signal::INT,
                SIGHUP => Signal::HUP,
                _ => Signal::TERM,
            };
            let _ = pidfd_send_signal(&program, signal);
        }
    });
}

/// The signals that ask for an end. They are handled rather than ignored, since an ignored signal
/// would stay ignored in the program. One that is ignored already (nohup, a shell's background) is
/// left so, for the program too.
pub(crate) fn signals() -> io::Result<SignalsInfo<WithOrigin>> {
    let ignored = ignored_signals();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    SignalsInfo::new(signals)
}

/// The signals that this process ignores: bit n - 1 for signal n.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

const MISSING: &str =
    "recording needs Valgrind with its headers and a C compiler: apt-get install valgrind gcc libc6-dev";

/// The directory with the recorder, built if it is not there for these sources and this Valgrind.
fn recorder(quiet: bool) -> anyhow::Result<PathBuf> {
    let version = Command::new("valgrind").arg("--version").output();
    let Ok(version) = version else { bail!(MISSING) };
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&version.stdout);
    sweephand_recorder::SOURCES.iter().for_each(|(_, text)| hash.update(text.as_bytes()));
    // What is there will be run. So nobody else may have put it there.
    let cache = ownership::owned_directory(&ownership::cache_directory()?)
        .context("the recorder is kept there; set XDG_CACHE_HOME to a directory of your own")?;
    let built = cache.join(format!("recorder-{:016x}", hash.digest()));
    if let Ok(metadata) = built.metadata() {
        if metadata.is_dir() && ownership::is_owned(&metadata) {
            return Ok(built);
        }
        bail!("{}: can be written to by others; remove it", built.display());
    }
    if !quiet {
        say!("sweephand: building the recorder, once");
    }
    let workshop =
        tempfile::tempdir_in(&cache).with_context(|| format!("{}: cannot be written", cache.display()))?;
    let (sources, result) = (workshop.path().join("sources"), workshop.path().join("result"));
    fs::create_dir(&sources)?;
    for (name, text) in sweephand_recorder::SOURCES {
        fs::write(sources.join(name), text)?;
    }
    let mut build = Command::new("sh");
    build.arg(sources.join("build.sh")).args([&sources, &result]);
    // Whatever the mask for new files is.
    // SAFETY: between fork and exec it makes one system call.
    unsafe {
        build.pre_exec(|| {
            rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
            Ok(())
        });
    }
    let build = build.output()?;
    if !build.status.success() {
        let said = String::from_utf8_lossy(&build.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").to_string();
        bail!("{MISSING} (building the recorder said: {})", first.rsplit('/').next().unwrap_or(&first));
    }
    // Another command may have been quicker: its result is the same.
    match fs::rename(&result, &built) {
        Err(error) if !built.is_dir() => {
            Err(error).with_context(|| format!("{}: cannot be made", built.display()))
        }
        _ => Ok(built),
    }
}
