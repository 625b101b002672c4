//! The memory cgroup that the command has put the program into.

use crate::control::Control;
use alloc::format;
use core::sync::atomic::Ordering;
use rustix::fs::{Mode, OFlags, open};
use sweephand_uffd::PAGE_BYTES;

/// Makes room in the cgroup for one process more, before its program begins: the limit is for each of them, and the kernel
/// would end one if all together had no more than one of them may have.
pub(crate) fn widen(control: &Control) {
    let path = control.order.cgroup_limit.as_str();
    if path.is_empty() {
        return;
    }
    let processes = || control.counters.agents.load(Ordering::Relaxed);
    let mut known = 1;
    // Again if another process has come meanwhile, whose larger limit this may have replaced.
    while processes() > known {
        known = processes();
        let limit_bytes =
            known * (control.order.limit_pages * PAGE_BYTES as u64 + control.order.cgroup_share_bytes);
        // A program that has given up root's rights keeps the limit that there is.
        let Ok(file) = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else { return };
        let _ = rustix::io::write(file, format!("{limit_bytes}").as_bytes());
    }
}
