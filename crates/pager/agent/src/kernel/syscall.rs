//! System calls without the C library.

pub(crate) use crate::kernel::call;
use core::ffi::c_void;
use linux_raw_sys::general as raw;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

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
    unsafe { call(raw::__NR_madvise, [start, length, advice as usize, 0, 0, 0]) }
}

/// Makes an io_uring for the pager itself.
///
/// # Safety
/// The same as for the system call.
pub(crate) unsafe fn ring_setup(entries: u32, params: *mut c_void) -> Result<OwnedFd, Errno> {
    let arguments = [entries as usize, params as usize, 0, 0, 0, 0];
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
