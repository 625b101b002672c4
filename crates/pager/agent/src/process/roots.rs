//! The directories in which the agent opens files: `/proc`, and that of the backing store.
//!
//! Both are opened when the pager starts, and a child gets its parent's. The program may change its
//! root directory, its mounts and its rights later; the agent can still reach what it needs.

use crate::kernel::openat;
use crate::process::rlimits::{self, Raised};
use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Numbers in the agent's own table of descriptors; -1: not opened yet.
static PROC: AtomicI32 = AtomicI32::new(-1);
static STORE: AtomicI32 = AtomicI32::new(-1);

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens both.
pub(crate) fn begin(store: &CStr) -> Result<(), Errno> {
    keep(open(c"/proc", DIRECTORY, Mode::empty())?, open(store, DIRECTORY, Mode::empty())?);
    Ok(())
}

/// Keeps these from now on. (Those from before are numbers of another table, or there are none.)
pub(crate) fn keep(proc: OwnedFd, store: OwnedFd) {
    PROC.store(proc.into_raw_fd(), Ordering::Relaxed);
    STORE.store(store.into_raw_fd(), Ordering::Relaxed);
}

/// `/proc`.
pub(crate) fn proc() -> Option<BorrowedFd<'static>> {
    borrow(&PROC)
}

/// The directory of the backing store.
pub(crate) fn store() -> Option<BorrowedFd<'static>> {
    borrow(&STORE)
}

fn borrow(number: &AtomicI32) -> Option<BorrowedFd<'static>> {
    let number = number.load(Ordering::Relaxed);
    // SAFETY: `keep` has given the descriptor up for as long as there is an agent.
    (number.as_raw_fd() >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Opens a file of `/proc`.
pub(crate) fn open_proc(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let open = || match proc() {
        Some(proc) => openat(proc, path, flags, Mode::empty()),
        None => openat(open(c"/proc", DIRECTORY, Mode::empty())?, path, flags, Mode::empty()),
    };
    match open() {
        Err(Errno::MFILE) => rlimits::without(Raised::Descriptors, open),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn files_of_proc_are_found_without_a_root() {
        assert!(open_proc(c"self/maps", OFlags::RDONLY).is_ok());
        assert_eq!(open_proc(c"self/none", OFlags::RDONLY).unwrap_err(), Errno::NOENT);
    }
}
