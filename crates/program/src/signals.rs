//! Signals that are meant for a program that this process runs, and the program's status.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

/// The signals that ask for an end, from now on handled here.
///
/// They are handled rather than ignored, since an ignored signal would stay ignored in a program.
/// One that is ignored already (nohup, a shell's background) is left so, for the program too.
#[derive(Debug)]
pub struct Signals(SignalsInfo<WithOrigin>);

/// A signal that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Its number.
    pub number: i32,
    /// Whether some process has sent it. The terminal sends its own to this process and to its
    /// programs alike; those need not be passed on.
    pub is_sent: bool,
}

impl Signals {
    /// Begins to handle them.
    pub fn catch() -> io::Result<Self> {
        Self::of(&[SIGINT, SIGTERM, SIGHUP])
    }

    /// The same with the terminal's stop (Ctrl-Z): for a command that must not stand still halfway.
    pub fn catch_with_stop() -> io::Result<Self> {
        Self::of(&[SIGINT, SIGTERM, SIGHUP, SIGTSTP])
    }

    fn of(signals: &[i32]) -> io::Result<Self> {
        let ignored = ignored_signals();
        let handled = signals.iter().filter(|&signal| ignored >> (signal - 1) & 1 == 0);
        SignalsInfo::new(handled).map(Self)
    }

    /// Calls `handle` with each signal, in a thread of its own, as long as it wants more.
    pub fn for_each(mut self, mut handle: impl FnMut(Received) -> bool + Send + 'static) {
        thread::spawn(move || {
            for origin in self.0.forever() {
                if !handle(Received { number: origin.signal, is_sent: origin.process.is_some() }) {
                    break;
                }
            }
        });
    }

    /// Passes signals on to a program, if some process has sent them.
    pub fn pass_on(self, child: &Child) {
        // Not by its number: when the program has ended that may be another process's.
        let Ok(program) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return };
        self.for_each(move |received| {
            let signal = match received.number {
                SIGINT => Signal::INT,
                SIGHUP => Signal::HUP,
                _ => Signal::TERM,
            };
            if received.is_sent {
                let _ = pidfd_send_signal(&program, signal);
            }
            true
        });
    }

    /// A descriptor to read the numbers of signals from that some process has sent: a byte each.
    /// For a signal of the terminal there is a 0.
    pub fn into_pipe(self) -> io::Result<OwnedFd> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut write = File::from(write);
        self.for_each(move |received| {
            let number = if received.is_sent { received.number as u8 } else { 0 };
            write.write_all(&[number]).is_ok()
        });
        Ok(read)
    }
}

/// Waits until one of some descriptors can be read, for this long at most. Returns which can: a
/// process ([`pidfd_open`]) that has ended, or a pipe ([`Signals::into_pipe`]) that a signal has
/// come to. It may return sooner.
pub fn wait_for<const N: usize>(descriptors: [&OwnedFd; N], time: Duration) -> [bool; N] {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let mut polled = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    let _ = poll(&mut polled, Some(&timeout));
    polled.map(|descriptor| !descriptor.revents().is_empty())
}

/// The signals that this process ignores: bit n - 1 for signal n.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// A program's own status; 128 + the number of the signal that ended it, as a shell says it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_there_is_something_to_read() {
        let [(quiet, _quiet), (read, write)] = [(); 2].map(|()| pipe_with(PipeFlags::CLOEXEC).unwrap());
        assert_eq!(wait_for([&quiet, &read], Duration::ZERO), [false, false]);
        File::from(write).write_all(&[0]).unwrap();
        assert_eq!(wait_for([&quiet, &read], Duration::from_secs(600)), [false, true]);
    }

    #[test]
    fn a_status_is_as_a_shell_says_it() {
        let ended = |wait_status| exit_code(ExitStatus::from_raw(wait_status));
        assert_eq!([ended(0), ended(3 << 8), ended(9)], [0, 3, 137].map(ExitCode::from));
    }
}
