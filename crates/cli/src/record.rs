//! `sweephand record`: run a program under the recorder and keep the pages it touches.
//!
//! The recorder is a Valgrind tool whose sources are inside this command; it is built into the
//! user's cache directory on first use. It sends its stream through a pipe, and what is read there
//! goes straight into the trace.

use crate::output::Output;
use crate::progress;
use anyhow::{Context, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
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
use sweephand_trace::{Error, Format, ImportOptions, Metadata, Writer, import};

/// Objects are allocations of this size and more, unless another is asked for.
const MIN_OBJECT: &str = "40KiB";
/// The window, unless another is asked for.
const WINDOW: u16 = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace to write [default: the program's name with .swt, in this directory]
    #[arg(short, long, value_name = "T")]
    output: Option<PathBuf>,
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
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

/// Records a program as `sweephand record -- PROGRAM ARG...` does; returns the trace, and the
/// program's status.
pub(crate) fn program(command: Vec<OsString>) -> anyhow::Result<(PathBuf, ExitCode)> {
    let path = default_output(&find_program(&command[0])?);
    let args = Args {
        output: Some(path.clone()),
        min_object: MIN_OBJECT.to_string(),
        window: WINDOW,
        quiet: false,
        command,
    };
    Ok((path, run(args)?))
}

/// In this directory, named after the program.
fn default_output(program: &Path) -> PathBuf {
    PathBuf::from(format!("{}.swt", program.file_name().unwrap_or_default().to_string_lossy()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Ok(MemorySize::Bytes(min_object)) = args.min_object.parse() else {
        bail!("--min-object {}: write bytes as in 40KiB, at least 1B", args.min_object);
    };
    let program = find_program(&args.command[0])?;
    if let (Some(interpreter), false) = (interpreter(&program), args.quiet) {
        eprintln!("sweephand: note: {} is a script: what is recorded is {interpreter}", program.display());
    }
    let recorder = recorder(args.quiet)?;
    let path = args.output.unwrap_or_else(|| default_output(&program));
    let mut writer = Writer::new(Output::create(&path)?, Metadata::default())?;

    // Handlers rather than ignoring: an ignored signal would stay ignored in the program. One that
    // is ignored already (nohup, a shell's background) is left so, for the program too.
    let ignored = ignored_signals();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let signals = SignalsInfo::<WithOrigin>::new(signals)?;
    let (stream, mut child) = start(&recorder, &args.command, args.window, min_object)?;
    pass_signals_on(signals, &child);
    let bar = if args.quiet { indicatif::ProgressBar::hidden() } else { progress::line() };
    let options = ImportOptions {
        name: PathBuf::from("the recorder's stream"),
        format: Some(Format::Pgtr),
        window: 0,
        tolerate_missing_end: true,
    };
    let imported = import(stream, &mut writer, &options, &mut |done| {
        bar.set_message(format!(
            "recording: {} instructions, {} records, {} read",
            grouped(done.instructions),
            grouped(done.records),
            bytes(done.bytes)
        ));
        bar.tick();
    });
    bar.finish_and_clear();
    if imported.is_err() {
        // Nobody reads its stream any more: what it goes on doing is not recorded.
        let _ = child.kill();
    }
    let status = child.wait().context("the recorder cannot be waited for")?;
    let end = match imported {
        Ok(end) => end,
        // It said why on standard error.
        Err(Error::Truncated { offset: 0, .. }) => match status.signal() {
            Some(signal) => bail!("{}: was ended by signal {signal} before it began", program.display()),
            None => bail!("{}: did not start under Valgrind", program.display()),
        },
        Err(error) => return Err(error.in_output(&path).into()),
    };
    let metadata = writer.metadata_mut();
    metadata.program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    metadata.command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    metadata.producer = concat!("sweephand record ", env!("CARGO_PKG_VERSION")).to_string();
    metadata.ended = how_it_ended(status, metadata.complete);
    let (out, header) = writer.finish(end).map_err(|error| error.in_output(&path))?;
    out.commit()?;
    if !header.metadata.complete {
        eprintln!(
            "sweephand: note: the recording ends before the program does: it {}",
            header.metadata.ended
        );
    }
    if !args.quiet {
        let totals = &header.totals;
        eprintln!(
            "sweephand: {}: {} references to {} pages in {} instructions; {} records, {}",
            path.display(),
            grouped(totals.references),
            grouped(totals.distinct_pages),
            grouped(totals.instructions.unwrap_or_default()),
            grouped(totals.records),
            bytes(fs::metadata(&path).map_or(0, |file| file.len()))
        );
    }
    Ok(exit_code(status))
}

/// The program's own status; 128 + the number of the signal that ended it, as a shell says it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// How a program ended if not by itself. A recording that is not complete lacks its last record:
/// either the program was killed, or it is not the recorded one any more that goes on.
fn how_it_ended(status: ExitStatus, complete: bool) -> String {
    match (status.signal(), complete) {
        (Some(signal), true) => format!("was ended by signal {signal}"),
        (Some(signal), false) => format!("was killed by signal {signal}"),
        (None, true) => String::new(),
        (None, false) => "became another program by exec; record that one itself".to_string(),
    }
}

/// The file that a command name stands for, if the recorder can run it.
fn find_program(name: &OsStr) -> anyhow::Result<PathBuf> {
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

/// What runs a script.
fn interpreter(program: &Path) -> Option<String> {
    let head = head(program).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    String::from_utf8_lossy(line).split_whitespace().next().map(str::to_string)
}

/// Starts the program under the recorder; what is recorded comes from the pipe.
fn start(
    recorder: &Path,
    command: &[OsString],
    window: u16,
    min_object: u64,
) -> anyhow::Result<(File, Child)> {
    /// So that the recorder need not wait for us at every turn.
    const PIPE_BYTES: usize = 1 << 20;
    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::pipe::{PipeFlags, pipe_with};
    let (read, write): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC).context("no pipe can be made")?;
    fcntl_setfd(&write, FdFlags::empty()).context("the pipe cannot be passed on")?;
    // Users without the right to so large a pipe do with a small one.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE_BYTES);
    let child = Command::new("valgrind")
        .env("VALGRIND_LIB", recorder)
        // Options that somebody keeps in a file for Valgrind's own tools are not for this one.
        .args(["-q", "--command-line-only=yes", "--tool=sweephand"])
        .arg(format!("--out-fd={}", write.as_raw_fd()))
        .arg(format!("--window={window}"))
        .arg(format!("--min-object={min_object}"))
        .arg("--")
        // By the name it was given: it may look at that.
        .args(command)
        .spawn()
        .context("valgrind cannot be started")?;
    Ok((File::from(read), child))
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

/// The signals that this process ignores: bit n - 1 for signal n.
pub(crate) fn ignored_signals() -> u64 {
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
        eprintln!("sweephand: building the recorder, once");
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
