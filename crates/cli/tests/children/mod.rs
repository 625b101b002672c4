//! Processes that tests start. They begin with the signals as a terminal gives them, however the
//! tests themselves were begun (`nohup`, a shell's background, a supervisor), and end with the test
//! that started them, also when that fails.
// Not every test uses all of it.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output};

/// Ignored signals stay ignored in whatever a process begins, and a shell cannot even trap them.
/// These are the ones that tests send, or that end processes.
const SIGNALS: [libc::c_int; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGPIPE, libc::SIGCHLD];

/// A command that begins with every signal at its default.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // SAFETY: between fork and exec it makes a few system calls and nothing else.
    unsafe { command.pre_exec(|| SIGNALS.into_iter().try_for_each(|signal| set(signal, libc::SIG_DFL))) };
    command
}

/// Has a command begin with a signal ignored, as `nohup` does.
pub(crate) fn ignoring(command: &mut Command, signal: libc::c_int) -> &mut Command {
    // SAFETY: as above.
    unsafe { command.pre_exec(move || set(signal, libc::SIG_IGN)) }
}

fn set(signal: libc::c_int, to: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: no handler of ours is involved.
    match unsafe { libc::signal(signal, to) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A process that has been started. If it is not waited for, it is ended with all that it has
/// started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    /// Processes that may outlive it, with the times when they began.
    family: Vec<(u32, u64)>,
}

pub(crate) fn spawn(command: &mut Command) -> Running {
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Running { child: Some(child), family: Vec::new() }
}

impl Running {
    /// The processes that it has started so far. They are ended with the test, too.
    pub(crate) fn family(&mut self) -> Vec<u32> {
        let family = program_of(self.id());
        self.family.extend(family.iter().filter_map(|&pid| Some((pid, began(pid)?))));
        family
    }

    /// Its streams, read to their ends, and its status.
    pub(crate) fn output(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.child.as_ref().unwrap()
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(Some(_)))) {
            self.family();
            // First the one that would start others. What removes a run's cgroup ends by itself.
            let _ = self.kill();
            let _ = self.wait();
        }
        for &(pid, since) in &self.family {
            if began(pid) == Some(since) {
                // SAFETY: a process that this test has started, which is still there.
                unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
            }
        }
    }
}

/// When a process began: whoever gets its number later began later.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields are behind the name, which is in brackets; this is the twenty-second of all.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// The children of a process, and theirs.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let deeper = |&child: &u32| descendants(child);
    let children = children(pid);
    let deeper: Vec<u32> = children.iter().flat_map(deeper).collect();
    [children, deeper].concat()
}

/// The processes of the program that a command runs: its descendants, but for what removes the
/// cgroup at the end.
pub(crate) fn program_of(command: u32) -> Vec<u32> {
    let is_tidy = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).any(|word| word == b"sweephand-tidy")
    };
    let first = children(command).into_iter().filter(|child| !is_tidy(child));
    first.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

/// Of all its threads.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}
