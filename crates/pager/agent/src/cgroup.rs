//! The memory cgroup that the command has put the program into.

use crate::control::Control;
use alloc::format;
use core::sync::atomic::Ordering;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use sweephand_uffd::PAGE_BYTES;

/// Makes room in the cgroup for one process more, before its program begins: the limit is for each of them, and the kernel
/// would end one if all together had no more than one of them may have.
pub(crate) fn widen(control: &Control) {
    let path = control.order.cgroup_limit.as_str();
    if path.is_empty() {
        return;
    }
    let processes = || control.counters.agents.load(Ordering::Relaxed);
    if processes() == 1 {
        return;
    }
    // A program that has given up root's rights keeps the limit that there is.
    let Ok(file) = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else { return };
    // One at a time, and counted with the lock held: so the limit only ever grows.
    let _ = flock(&file, FlockOperation::LockExclusive);
    let limit_bytes =
        processes() * (control.order.limit_pages * PAGE_BYTES as u64 + control.order.cgroup_share_bytes);
    let _ = rustix::io::write(file, format!("{limit_bytes}").as_bytes());
}
