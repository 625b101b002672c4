//! A swap file for the kernel, on the disk that the pager would use.

use crate::error::{RunError, system};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Least space worth to begin with.
const LEAST_BYTES: u64 = 64 << 20;

/// A name for a swap file in a directory; several may be in use at a time.
pub(crate) fn name(directory: &Path, cgroup: &Path) -> PathBuf {
    let run = cgroup.file_name().unwrap_or_default().to_string_lossy();
    directory.join(format!("{run}.swap"))
}

/// Makes a swap file and has the kernel use it. It is as large as the machine's memory, or half of
/// what is free on the disk if that is less. If another run takes that space meanwhile, it is half
/// of what is left then.
pub(crate) fn create(path: &Path) -> Result<(), RunError> {
    let directory = path.parent().unwrap_or(path);
    let refused = |reason: &str| RunError::Swap { path: directory.to_path_buf(), reason: reason.to_string() };
    let unusable = || {
        refused("its file system cannot hold a swap file (ext4 and XFS can; btrfs, overlay and tmpfs cannot)")
    };
    let failed = |error: Errno| match error {
        Errno::OPNOTSUPP | Errno::INVAL => unusable(),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => refused("there is no space for a swap file"),
        error => RunError::System { what: format!("{}: no swap file", path.display()), error: error.into() },
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let bytes = loop {
        let disk = rustix::fs::statvfs(directory).map_err(failed)?;
        let bytes = machine_bytes().min(disk.f_bavail * disk.f_frsize / 2);
        if bytes < LEAST_BYTES {
            return Err(failed(Errno::NOSPC));
        }
        // Who makes a larger file is ended by a signal.
        let most =
            getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX) / crate::PAGE_BYTES * crate::PAGE_BYTES;
        if most < LEAST_BYTES {
            return Err(refused("the limit on the size of files (ulimit -f) allows no swap file"));
        }
        let bytes = bytes.min(most);
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => break bytes,
            // What it took before there was no more goes back.
            Err(Errno::NOSPC) => rustix::fs::ftruncate(&file, 0).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
    };
    let file = File::from(file);
    let written = file.write_all_at(&header(bytes / crate::PAGE_BYTES), 0).and_then(|()| file.sync_all());
    written.map_err(system(format!("{}: no swap file", path.display())))?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| unusable())?;
    // SAFETY: a path that ends with null.
    if unsafe { libc::swapon(name.as_ptr(), 0) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EINVAL) => unusable(),
        _ => system(format!("{}: the kernel does not take it as a swap file", path.display()))(error),
    })
}

fn machine_bytes() -> u64 {
    // SAFETY: plain data, which sysinfo fills in.
    let info = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&raw mut info);
        info
    };
    info.totalram * u64::from(info.mem_unit)
}

/// The first page of a swap area: version, last page, and the mark at its end (see mkswap(8)).
fn header(pages: u64) -> [u8; crate::PAGE_BYTES as usize] {
    let mut page = [0; crate::PAGE_BYTES as usize];
    let last = u32::try_from(pages - 1).unwrap_or(u32::MAX);
    // Behind 1024 bytes for a boot loader.
    page[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
    page[1028..1032].copy_from_slice(&last.to_ne_bytes());
    let mark = b"SWAPSPACE2";
    let at = page.len() - mark.len();
    page[at..].copy_from_slice(mark);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `mkswap` writes it, without the label and the identifier, which are not needed.
    #[test]
    fn the_header_is_a_swap_areas() {
        let page = header(16_384);
        assert_eq!(page.len(), 4096);
        assert_eq!(page[1024..1032], [1, 0, 0, 0, 0xff, 0x3f, 0, 0]);
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page.iter().filter(|&&byte| byte != 0).count(), 3 + 10);
    }
}
