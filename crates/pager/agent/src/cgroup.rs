//! The memory cgroup that the command has put the program into.

use crate::agent::filled;
use crate::control::Control;
use alloc::ffi::CString;
use alloc::format;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, pread, read, write};

/// Makes room in the cgroup for this process, before its program begins: the limit is for each of those that are alive, and
/// the kernel would end one if all together had no more than one of them may have. The command takes room away again.
///
/// A program that has given up root's rights cannot; the command sees to it a moment later.
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
    // One at a time, and counted with the lock held: so nobody undoes what another has done.
    let _ = flock(&limit, FlockOperation::LockExclusive);
    let wanted = lines(&members) * each;
    let mut now = [0_u8; 32];
    let length = pread(&limit, &mut now, 0).unwrap_or_default();
    let now = core::str::from_utf8(&now[..length]).ok().and_then(|text| text.trim().parse::<u64>().ok());
    if now.is_some_and(|now| now < wanted) {
        let _ = write(&limit, format!("{wanted}").as_bytes());
    }
}

/// The lines of a file: processes.
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
