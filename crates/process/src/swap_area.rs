//! Switches swap areas on and off: see `swapon(2)`.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The flag for a priority.
const SWAP_FLAG_PREFER: i32 = 0x8000;
/// The highest priority that there is.
pub const MOST_PRIORITY: i32 = 0x7fff;

/// Has the kernel use a swap area: a file or a device with the header of one.
///
/// # Errors
/// It is no swap area, it is on already, or this process may not do that.
pub fn switch_on(path: &Path, priority: i32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a path that ends with null.
    done(unsafe { libc::swapon(path.as_ptr(), SWAP_FLAG_PREFER | priority) })
}

/// Has the kernel bring back all pages of a swap area, and use it no more. That takes long if there
/// are many. No page goes there meanwhile.
///
/// # Errors
/// It is not on, this process may not do that, or memory is short. Then the kernel goes on using
/// it.
pub fn switch_off(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a path that ends with null.
    done(unsafe { libc::swapoff(path.as_ptr()) })
}

fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
