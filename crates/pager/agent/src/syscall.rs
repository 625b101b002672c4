//! System calls without the C library: any call, and the three that the filter of the memfd backend
//! lets pass for the pager alone (see `memfd/filter.rs`).

pub(crate) use crate::kernel::call;
use core::ffi::c_void;
use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The fifth argument of the pager's own calls. The kernel ignores it, and the filter knows it.
pub(crate) const PASS: u32 = 0x7377_6864;

/// An error as a system call returns it.
pub(crate) fn refused(error: Errno) -> isize {
    -(error.raw_os_error() as isize)
}

/// Calls `madvise` for the pager itself or on behalf of the program. Returns the system call's
/// result.
///
/// # Safety
/// The same as for the system call.
pub(crate) unsafe fn advise(start: usize, length: usize, advice: u32) -> isize {
    // SAFETY: as the caller promises.
    unsafe { call(raw::__NR_madvise, [start, length, advice as usize, 0, PASS as usize, 0]) }
}

/// Opens a directory, or a file without a name in it, for direct I/O by the pager itself.
pub(crate) fn open_direct(directory: BorrowedFd<'_>, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = (flags | OFlags::DIRECT).bits() as usize;
    let arguments = [
        directory.as_raw_fd() as usize,
        c".".as_ptr() as usize,
        flags,
        mode.bits() as usize,
        PASS as usize,
        0,
    ];
    // SAFETY: the path ends with a zero.
    let result = unsafe { call(raw::__NR_openat, arguments) };
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result as i32));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Makes an io_uring for the pager itself.
///
/// # Safety
/// The same as for the system call.
pub(crate) unsafe fn ring_setup(entries: u32, params: *mut c_void) -> Result<OwnedFd, Errno> {
    let arguments = [entries as usize, params as usize, 0, 0, PASS as usize, 0];
    // SAFETY: as the caller promises.
    let result = unsafe { call(raw::__NR_io_uring_setup, arguments) };
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result as i32));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn errors_are_negative_numbers() {
        assert_eq!(refused(Errno::INVAL), -22);
        // SAFETY: the kernel refuses an address that is not the start of a page.
        assert_eq!(unsafe { advise(1, 1, raw::MADV_DONTNEED) }, refused(Errno::INVAL));
    }
}
