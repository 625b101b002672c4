//! What the recorder sends, turned into traces while it comes: a stream for each program that a
//! process becomes.
//!
//! `recorder/follow.c` is the other end: it says over a socket that a stream begins, and gives the
//! pipe to read it from.

use crate::contents::Sampled;
use crate::error::{RecordError, system};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use sweephand_output::Output;
use sweephand_trace::{EndTotals, Error, Format, Header, ImportOptions, Metadata, Progress, Writer, import};

/// A program that a process became, or began with.
#[derive(Clone, Debug)]
pub(crate) struct Begin {
    /// The process.
    pub(crate) pid: i32,
    /// Its parent.
    pub(crate) parent: i32,
    /// Whether it goes on with its parent's program. Otherwise it has begun one.
    pub(crate) forked: bool,
    /// The program's file, as it was named.
    pub(crate) program: PathBuf,
}

impl Begin {
    /// The program's name without its folder.
    pub(crate) fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A program with its trace, which has no name in the file system yet.
pub(crate) struct Image {
    pub(crate) begin: Begin,
    /// Where the trace goes.
    pub(crate) path: PathBuf,
    writer: Writer<Output>,
    end: EndTotals,
}

impl Image {
    /// What the trace says of itself.
    pub(crate) fn metadata_mut(&mut self) -> &mut Metadata {
        self.writer.metadata_mut()
    }

    /// Writes the rest of the trace. It takes its name when the output is committed.
    pub(crate) fn finish(self) -> Result<(Output, Header), RecordError> {
        Ok(self.writer.finish(self.end).map_err(|error| error.in_output(&self.path))?)
    }
}

/// Everything that was recorded.
pub(crate) struct Received {
    /// The programs in the order in which they began.
    pub(crate) images: Vec<Image>,
    /// Programs that cannot be recorded, which processes were about to become.
    pub(crate) lost: HashMap<i32, PathBuf>,
}

/// Takes what comes over the socket until every recorded process is gone. `contents`: pages are
/// sampled. `open` says where the trace of a program goes.
pub(crate) fn receive(
    socket: &OwnedFd,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
    contents: bool,
    mut open: impl FnMut(&Begin) -> Result<(PathBuf, Output), RecordError>,
) -> Result<Received, RecordError> {
    let meter = Meter { progress, sum: Arc::default() };
    let mut lost = HashMap::new();
    let mut streams: Vec<(Begin, PathBuf, JoinHandle<_>)> = Vec::new();
    while let Some((message, stream)) = next_message(socket)? {
        match (message, stream) {
            (Message::Lost(pid, program), _) => drop(lost.insert(pid, program)),
            (Message::Begin(begin), Some(stream)) => {
                let (path, out) = open(&begin)?;
                let (meter, pid) = (meter.clone(), begin.pid);
                let thread = thread::spawn(move || trace_of(stream, out, pid, contents, meter));
                streams.push((begin, path, thread));
            }
            (Message::Begin(_), None) => {
                let words = "the recorder has sent a stream that cannot be taken: too many files are open";
                return Err(RecordError::Protocol(words.to_string()));
            }
        }
    }
    let mut images = Vec::new();
    for (begin, path, thread) in streams {
        match thread.join().expect("it does not panic") {
            Ok((writer, end)) => images.push(Image { begin, path, writer, end }),
            // It was killed before anything was sent.
            Err(Error::Truncated { offset: 0, .. }) => {}
            Err(error) => return Err(error.in_output(&path).into()),
        }
    }
    Ok(Received { images, lost })
}

enum Message {
    Begin(Begin),
    Lost(i32, PathBuf),
}

/// The next message with the stream that comes with it; `None` when no sender is left.
fn next_message(socket: &OwnedFd) -> Result<Option<(Message, Option<OwnedFd>)>, RecordError> {
    const LONGEST: usize = 1 << 13;
    let mut words = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut parts = [IoSliceMut::new(&mut words)];
        match recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => {
                let not_heard =
                    |error: rustix::io::Errno| system("the recorder cannot be heard")(error.into());
                break received.map_err(not_heard)?.bytes;
            }
        }
    };
    if length == 0 {
        return Ok(None);
    }
    let stream = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let text = String::from_utf8_lossy(&words[..length]).into_owned();
    let message = parse(&text).ok_or_else(|| {
        RecordError::Protocol(format!("the recorder cannot be heard: '{text}' is no message"))
    })?;
    Ok(Some((message, stream)))
}

fn parse(text: &str) -> Option<Message> {
    let (kind, rest) = text.split_once(' ')?;
    let (pid, rest) = rest.split_once(' ')?;
    let pid = pid.parse().ok()?;
    match kind {
        "begin" => {
            let mut words = rest.splitn(3, ' ');
            let (parent, how, program) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
            Some(Message::Begin(Begin { pid, parent, forked: how == "fork", program: program.into() }))
        }
        "lost" => Some(Message::Lost(pid, rest.into())),
        _ => None,
    }
}

/// Reads a stream to its end.
fn trace_of(
    stream: OwnedFd,
    out: Output,
    pid: i32,
    contents: bool,
    meter: Meter,
) -> Result<(Writer<Output>, EndTotals), Error> {
    /// So that the recorder need not wait for us at every turn.
    const PIPE_BYTES: usize = 1 << 20;
    // Users without the right to so large a pipe do with a small one.
    let _ = rustix::pipe::fcntl_setpipe_size(&stream, PIPE_BYTES);
    let options = ImportOptions {
        name: PathBuf::from("the recorder's stream"),
        format: Some(Format::Pgtr),
        tolerate_missing_end: true,
        ..ImportOptions::default()
    };
    let process = contents.then_some(pid.cast_unsigned());
    let mut sampled = Sampled::of(Writer::new(out, Metadata::default())?, process);
    let mut before = Progress::default();
    let imported = import(File::from(stream), &mut sampled, &options, &mut |done| {
        meter.add(&before, &done);
        before = done;
    });
    match imported {
        Ok(end) => Ok((sampled.finish(), end)),
        Err(error) => {
            // Nobody reads its stream any more: what it goes on doing is not recorded.
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
            Err(error)
        }
    }
}

/// How far all streams together are.
#[derive(Clone)]
struct Meter {
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
    sum: Arc<Mutex<Progress>>,
}

impl Meter {
    fn add(&self, before: &Progress, now: &Progress) {
        let mut sum = self.sum.lock().expect("no thread panics while it holds the lock");
        sum.bytes += now.bytes - before.bytes;
        sum.records += now.records - before.records;
        sum.instructions += now.instructions - before.instructions;
        (self.progress)(*sum);
    }
}

/// The name of a trace among those of other processes.
pub(crate) fn name_of(begin: &Begin, folder: &Path) -> PathBuf {
    folder.join(format!("{}-{}.swt", begin.name(), begin.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        let Some(Message::Begin(begin)) = parse("begin 12 3 fork /usr/bin/a b") else { panic!("it begins") };
        assert_eq!((begin.pid, begin.parent, begin.forked, begin.name()), (12, 3, true, "a b".to_string()));
        assert_eq!(name_of(&begin, Path::new("x.traces")), Path::new("x.traces/a b-12.swt"));
        assert!(
            matches!(parse("lost 12 /usr/bin/su"), Some(Message::Lost(12, path)) if path.ends_with("su"))
        );
        assert!(["", "begin 12", "begin x 3 fork a", "ends 1 2"].iter().all(|text| parse(text).is_none()));
    }
}
