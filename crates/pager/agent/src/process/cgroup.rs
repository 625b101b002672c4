//! The memory cgroup into which the command has put the program.

use crate::control::Control;
use crate::process::own::filled;
use alloc::ffi::CString;
use alloc::format;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, pread, read, write};

/// Makes room in the cgroup for this process before its program begins. Each living process has a
/// share of the cgroup's limit. If all of them together had to manage with the share of one, the
/// kernel would kill a process. The command takes the room away again when a process ends.
///
/// A program that has given up root's rights cannot do this. The command does it a moment later.
pub(crate) fn widen(control: &Control) {
    let (path, each) = (control.order.cgroup_limit.as_str(), control.order.cgroup_process_bytes);
    if path.is_empty() || each == 0 {
        return;
    }
    let Some((directory, _)) = path.rsplit_once('/') else { return };
    let file = |path: &str, flags| {
        open(CString::new(path).ok()?.as_c_str(), flags | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    let Some(limit) = file(path, OFlags::RDWR) else { return };
    let Some(members) = file(&format!("{directory}/cgroup.procs"), OFlags::RDONLY) else { return };
    // The lock admits one process at a time, and the processes are counted while it is held. So no
    // process undoes what another has done.
    let _ = flock(&limit, FlockOperation::LockExclusive);
    let wanted = lines(&members) * each;
    let mut now = [0_u8; 32];
    let length = pread(&limit, &mut now, 0).unwrap_or_default();
    let now = core::str::from_utf8(&now[..length]).ok().and_then(|text| text.trim().parse::<u64>().ok());
    if now.is_some_and(|now| now < wanted) {
        let _ = write(&limit, format!("{wanted}").as_bytes());
    }
}

/// Counts the lines of a file, up to its end. Each line is a process.
fn lines(file: &OwnedFd) -> u64 {
    let mut text = filled(0_u8, 4096);
    let mut lines = 0;
    loop {
        match read(file, &mut *text) {
            Ok(0) => return lines,
            Ok(length) => lines += text[..length].iter().filter(|&&byte| byte == b'\n').count() as u64,
            Err(Errno::INTR) => {}
            Err(_) => return lines,
        }
    }
}
