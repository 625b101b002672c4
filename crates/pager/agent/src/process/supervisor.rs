//! The command, as a process of the program sees it: there, gone, or in another namespace of
//! processes.

use crate::control::Control;
use crate::process::failure::abort;
use crate::process::roots::open_proc;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fstat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What becomes readable when the command ends; nothing if it has ended in good order. Nothing
/// either in another namespace of processes than the command's, where its number is that of no
/// process or of another: a program that begins there is not ended with it.
pub(crate) fn open(control: &Control) -> Option<OwnedFd> {
    if is_elsewhere(control) {
        return None;
    }
    let pid = Pid::from_raw(control.order.supervisor);
    let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // In this order: it says so before it ends.
    if control.is_released() {
        return None;
    }
    // A program under a recorder goes on unrecorded.
    if opened.is_none() && !control.order.is_recording() {
        abort(format_args!("sweephand run is gone"));
    }
    opened
}

/// Whether the command is in another namespace of processes than this process.
pub(crate) fn is_elsewhere(control: &Control) -> bool {
    let namespace = open_proc(c"self/ns/pid", OFlags::RDONLY).and_then(|file| fstat(&file));
    namespace.is_ok_and(|namespace| namespace.st_ino != control.order.pid_namespace)
}
