//! The life of a recording: what is checked before, what runs, what becomes of the streams.

use crate::children::Watch;
use crate::error::{RecordError, system};
use crate::streams::{self, Begin, Image, Received};
use crate::subject::find_program;
use crate::tool;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use sweephand_output::{Output, make_folder, named_by};
use sweephand_program::Signals;
use sweephand_trace::{BECAME_ANOTHER, Header, LargestChild, Metadata, Progress};

/// Objects are allocations of this size and more, unless another is asked for.
pub const DEFAULT_MIN_OBJECT_BYTES: u64 = 40 << 10;
/// The window, unless another is asked for.
pub const DEFAULT_WINDOW: u16 = 16;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program's name and its arguments. What is recorded is the program that the command
    /// becomes, through any number of `exec`s.
    pub command: Vec<OsString>,
    /// The trace to write or, with `children`, the directory for the traces. Without it: the
    /// program's name with an ending, in the working directory.
    pub output: Option<PathBuf>,
    /// Whether every process that the program starts is recorded, too.
    pub children: bool,
    /// The least allocation that is recorded as an object.
    pub min_object_bytes: u64,
    /// Whether only anonymous memory is recorded: no pages of files, no shared memory.
    pub anonymous: bool,
    /// The window that the references are reduced with; 0 keeps every reference.
    pub window: u16,
    /// Whether pages are sampled, and the trace says what they contained: counts, and no byte of
    /// them.
    pub contents: bool,
}

impl Options {
    /// Those of `sweephand record -- PROGRAM ARG...`.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            output: None,
            children: false,
            anonymous: false,
            min_object_bytes: DEFAULT_MIN_OBJECT_BYTES,
            window: DEFAULT_WINDOW,
            contents: true,
        }
    }
}

/// What a recording says while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The tool is not there yet and is built now.
    BuildsTool,
    /// How far all streams together are.
    Progress(Progress),
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub status: ExitStatus,
    /// The traces, in the order in which their programs began.
    pub traces: Vec<RecordedTrace>,
}

/// A trace that was written.
#[derive(Debug)]
pub struct RecordedTrace {
    /// Its file.
    pub path: PathBuf,
    /// What it says of itself.
    pub header: Header,
    /// The program's name; of another process than the first with its number.
    pub name: String,
    /// Whether it is of the first process.
    pub is_main: bool,
}

/// Runs a program under the recorder and writes the trace, or with `children` the traces. Signals
/// that are sent to this process meanwhile are passed on. What the program prints goes to `stdout`,
/// if that is given. `tell` is called from several threads.
pub fn record(
    options: &Options,
    stdout: Option<OwnedFd>,
    tell: Arc<dyn Fn(Event) + Send + Sync>,
) -> Result<Recorded, RecordError> {
    let name = options.command.first().cloned().unwrap_or_default();
    let program = find_program(&name)?;
    let tool = tool::directory(&|| tell(Event::BuildsTool))?;
    let place = Place::of(options, &program)?;
    let signals = Signals::catch().map_err(system("signals cannot be caught"))?;
    let (socket, mut child) = start(&tool, options, stdout)?;
    signals.pass_on(&child);
    let watch = (!options.children).then(|| Watch::start(child.id()));
    let progress = Arc::new(move |done| tell(Event::Progress(done)));
    let received = streams::receive(&socket, progress, options.contents, |begin| place.open(begin));
    if received.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(system("the recorder cannot be waited for"))?;
    let largest_child = watch.and_then(|watch| watch.finish(child.id()));
    let Received { images, lost } = received?;
    let main = child.id() as i32;
    if !images.iter().any(|image| image.begin.pid == main) {
        return Err(match status.signal() {
            Some(signal) => RecordError::EndedEarly { program, signal },
            None => RecordError::NotStarted(program),
        });
    }
    let (images, launchers) = last_of_each(images);
    let told = Told { options, main, status, largest_child, launchers, lost };
    let traces = images.into_iter().map(|image| told.write(image)).collect::<Result<Vec<_>, _>>()?;
    if options.children {
        write_configuration(&place.path, &program, options.window, &traces)?;
    }
    Ok(Recorded { status, traces })
}

/// Where the traces go.
struct Place<'a> {
    /// The trace or, with `children`, the directory for the traces.
    path: PathBuf,
    children: bool,
    /// Files that the command uses: no trace may replace them.
    in_use: Vec<&'a Path>,
}

impl<'a> Place<'a> {
    /// What cannot be written is found out here, before anything runs.
    fn of(options: &'a Options, program: &'a Path) -> Result<Self, RecordError> {
        let children = options.children;
        let ending = if children { ".traces" } else { ".swt" };
        let path = options.output.clone().unwrap_or_else(|| default_output(program, ending));
        let mut in_use = named_by(&options.command);
        in_use.push(program);
        if children {
            make_folder(&path)?;
        }
        let probe = if children { path.join("-.swt") } else { path.clone() };
        drop(Output::create(&probe, &in_use)?);
        Ok(Self { path, children, in_use })
    }

    /// The trace of a program, with its path.
    fn open(&self, begin: &Begin) -> Result<(PathBuf, Output), RecordError> {
        let path = if self.children { streams::name_of(begin, &self.path) } else { self.path.clone() };
        let out = Output::create(&path, &self.in_use)?;
        Ok((path, out))
    }
}

/// What is known when all has been recorded, and goes into the traces.
struct Told<'a> {
    options: &'a Options,
    /// The first process.
    main: i32,
    /// How it ended.
    status: ExitStatus,
    /// Its largest child, if children are not recorded.
    largest_child: Option<LargestChild>,
    /// Programs that processes were before they became the one that is recorded.
    launchers: Vec<Begin>,
    /// Programs that cannot be recorded, which processes were about to become.
    lost: HashMap<i32, PathBuf>,
}

impl Told<'_> {
    /// Completes the trace of a program, which takes its name then.
    fn write(&self, mut image: Image) -> Result<RecordedTrace, RecordError> {
        let is_main = image.begin.pid == self.main;
        let name = if is_main {
            image.begin.name()
        } else {
            format!("{} ({})", image.begin.name(), image.begin.pid)
        };
        let (begin, path) = (image.begin.clone(), image.path.clone());
        self.describe(&begin, image.metadata_mut());
        let (out, header) = image.finish()?;
        out.commit()?;
        Ok(RecordedTrace { path, header, name, is_main })
    }

    /// Says in a trace which program it is of, and how that was recorded and ended.
    fn describe(&self, begin: &Begin, metadata: &mut Metadata) {
        let is_main = begin.pid == self.main;
        metadata.program = begin.name();
        if is_main {
            let words = self.options.command.iter();
            metadata.command = words.map(|word| word.to_string_lossy().into_owned()).collect();
            metadata.largest_child = self.largest_child.clone();
        } else {
            let how = if begin.forked { "forked by" } else { "started by" };
            metadata.notes.push(format!("process {}, {how} process {}", begin.pid, begin.parent));
        }
        metadata.producer = concat!("sweephand record ", env!("CARGO_PKG_VERSION")).to_string();
        if self.options.anonymous {
            metadata.notes.push("only anonymous memory is recorded".to_string());
        }
        let status = is_main.then_some(self.status);
        let became = self.lost.get(&begin.pid).map(PathBuf::as_path);
        metadata.ended = how_it_ended(status, metadata.complete, became);
        let through: Vec<String> =
            self.launchers.iter().filter(|of| of.pid == begin.pid).map(Begin::name).collect();
        if !through.is_empty() {
            metadata.notes.push(format!(
                "the command became {} by exec, through {}",
                begin.program.display(),
                through.join(", ")
            ));
        }
    }
}

/// In this directory, named after the program.
fn default_output(program: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", program.file_name().unwrap_or_default().to_string_lossy()))
}

/// The processes as tasks in one memory, for `sweephand multiprogram`.
fn write_configuration(
    folder: &Path,
    program: &Path,
    window: u16,
    traces: &[RecordedTrace],
) -> Result<(), RecordError> {
    /// References of an interval, if the traces do not have every reference.
    const OMEGA: u64 = 5000;
    let tasks: Vec<_> = traces.iter().filter(|trace| trace.header.totals.written_pages > 0).collect();
    let pages: u64 = tasks.iter().map(|trace| trace.header.totals.distinct_pages).sum();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let names = tasks.iter().filter_map(|trace| trace.path.file_name());
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
    .map_err(|error| RecordError::NotWritten(path.clone(), error))?;
    Ok(file.commit()?)
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

/// How a program ended if not by itself and well. A recording that is not complete lacks its last
/// record: either the program was killed, or it is not the recorded one any more that goes on. Of a
/// child there is no status.
fn how_it_ended(status: Option<ExitStatus>, complete: bool, became: Option<&Path>) -> String {
    match (status.and_then(|status| status.signal()), complete, became) {
        (Some(signal), true, _) => format!("was ended by signal {signal}"),
        (None, true, _) => match status.and_then(|status| status.code()) {
            None | Some(0) => String::new(),
            Some(code) => format!("ended with exit status {code}"),
        },
        (_, false, Some(program)) => format!(
            "{BECAME_ANOTHER} by exec, {}, which cannot be recorded: setuid, not readable, or for another processor",
            program.display()
        ),
        (Some(signal), false, None) => format!("was killed by signal {signal}"),
        (None, false, None) if status.is_none() => "was killed".to_string(),
        (None, false, None) => {
            "ended without telling the recorder: Valgrind failed, and said so on standard error, or the \
             program became another by exec that did not start under Valgrind"
                .to_string()
        }
    }
}

/// Starts the program under the recorder, which speaks to us over the socket.
fn start(
    recorder: &Path,
    options: &Options,
    stdout: Option<OwnedFd>,
) -> Result<(OwnedFd, Child), RecordError> {
    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| system("no socket can be made")(error.into()))?;
    fcntl_setfd(&theirs, FdFlags::empty())
        .map_err(|error| system("the socket cannot be passed on")(error.into()))?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .env("VALGRIND_LIB", recorder)
        // Options that somebody keeps in a file for Valgrind's own tools are not for this one.
        .args(["-q", "--command-line-only=yes", "--vgdb=no", "--tool=sweephand", "--trace-children=yes"])
        .arg(format!("--control-fd={}", theirs.as_raw_fd()))
        .arg(format!("--children={}", if options.children { "yes" } else { "no" }))
        .arg(format!("--anonymous={}", if options.anonymous { "yes" } else { "no" }))
        .arg(format!("--window={}", options.window))
        .arg(format!("--min-object={}", options.min_object_bytes))
        .arg("--")
        // By the name it was given: it may look at that.
        .args(&options.command);
    if let Some(stdout) = stdout {
        valgrind.stdout(stdout);
    }
    let child = valgrind.spawn().map_err(system("valgrind cannot be started"))?;
    Ok((ours, child))
}
