//! Where a run keeps what its program's processes open by name: the agent's library, the control
//! files, the socket of tasks.
//!
//! ```text
//!   BASE/sweephand-PID-RANDOM/    0711
//!       preload.so                0444   read by every process that has its name: there is nothing secret in it
//!       control-N                 0600   for root, or the user whose run it is
//!       lender                    0600   likewise
//! ```
//!
//! A process may keep the names longer than the run lasts, and hands them to what it starts. So
//! only root and the user may be able to put anything under these names, now and later: BASE and
//! every directory above it are theirs. `/tmp` will not do: after the run's directory has been
//! removed, any user could make another of that name. (A name in `/proc` will not do either. The
//! kernel gives a process's number to another process soon after its end, maybe another user's.)

use crate::error::{RunError, system};
use rustix::fs::StatVfsMountFlags;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use sweephand_program::ownership::{self, OwnershipError};

/// What fits a socket's name, less that of the socket and of the run's directory.
const MOST_BASE_BYTES: usize = 64;

/// A run's directory. At first it is only a name that no other run has. The directory is made once
/// the process that removes it runs.
#[derive(Clone, Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Chooses a name.
    pub(crate) fn choose() -> Result<Self, RunError> {
        let (mut refused, mut far) = (Vec::new(), None);
        for base in bases() {
            match base.and_then(|base| usable(&base)) {
                Ok((base, true)) => return Self::in_base(&base),
                // A file that programs map and write to had better not be on another machine.
                Ok((base, false)) => far = far.or(Some(base)),
                Err(reason) => refused.push(reason),
            }
        }
        match far {
            Some(base) => Self::in_base(&base),
            None => Err(RunError::NoDirectory(refused.join("; "))),
        }
    }

    fn in_base(base: &Path) -> Result<Self, RunError> {
        let mut random = [0_u8; 8];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut random))
            .map_err(system("/dev/urandom".to_string()))?;
        let name = format!("sweephand-{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        Ok(Self { path: base.join(name) })
    }

    /// Makes the directory.
    pub(crate) fn make(&self) -> Result<(), RunError> {
        let made = DirBuilder::new().mode(0o700).create(&self.path);
        // Whatever the mask for new files is.
        made.and_then(|()| fs::set_permissions(&self.path, Permissions::from_mode(0o711)))
            .map_err(system(format!("{}: cannot be made", self.path.display())))
    }

    /// Its name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file in it, complete before it has these permissions.
    pub(crate) fn file(&self, name: &str, contents: &[u8], mode: u32) -> Result<(File, PathBuf), RunError> {
        let path = self.path.join(name);
        let made = || -> io::Result<File> {
            let mut options = File::options();
            let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(contents)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            Ok(file)
        };
        let file = made().map_err(system(format!("{}: cannot be made", path.display())))?;
        Ok((file, path))
    }
}

/// Places to look at, the best first. What is in a user's runtime directory goes when the user logs
/// out, and a run may go on.
fn bases() -> Vec<Result<PathBuf, String>> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = ownership::cache_directory().map_err(|error| error.to_string());
    let of_system: &[&str] = if rustix::process::geteuid().is_root() { &["/run", "/var/lib"] } else { &[] };
    let of_system = of_system.iter().map(|path| Ok(PathBuf::from(path)));
    of_system.chain([cache]).chain(runtime.map(Ok)).collect()
}

/// The place by its own name, and whether it is on this machine; or what is wrong with it.
fn usable(base: &Path) -> Result<(PathBuf, bool), String> {
    let path = ownership::owned_directory(base).map_err(|error| error.to_string())?;
    let failed = |reason: &str| Err(format!("{} {reason}", path.display()));
    if path.as_os_str().len() > MOST_BASE_BYTES || path.to_str().is_none_or(|path| path.contains([':', ' ']))
    {
        // The dynamic linker takes both characters for the end of a name.
        return failed("is too long a name, or has a colon or a space in it");
    }
    let unseen = |error: rustix::io::Errno| OwnershipError::Unseen(path.clone(), error.into()).to_string();
    let system = rustix::fs::statvfs(&path).map_err(unseen)?;
    if system.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return failed("is mounted noexec");
    }
    if system.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return failed("is read-only");
    }
    if rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).is_err() {
        return failed("cannot be written to");
    }
    Ok((path.clone(), !is_far(rustix::fs::statfs(&path).map_err(unseen)?.f_type as u64)))
}

/// Whether a file system of this kind is another machine's, or a process's.
fn is_far(kind: u64) -> bool {
    // NFS, SMB in three ages, 9p, FUSE, Ceph, Lustre, GPFS, AFS: statfs(2), or their sources.
    const FAR: [u64; 10] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x0102_1997,
        0x6573_5546,
        0x00c3_6400,
        0x0bd0_0bd0,
        0x4750_4653,
        0x5346_414f,
    ];
    FAR.contains(&(kind & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_s_directory_is_nobody_elses() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let [one, other] = [(); 2].map(|()| RunDirectory::in_base(&base).unwrap());
        assert_ne!(one.path(), other.path());
        one.make().unwrap();
        assert!(one.make().is_err(), "it takes no directory that is there");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(one.path()), 0o711);
        let (_, path) = one.file("preload.so", b"text", 0o444).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o444, b"text".to_vec()));
        assert!(one.file("preload.so", b"", 0o444).is_err(), "nor a file");
    }

    #[test]
    fn places_that_will_not_do_are_told_apart() {
        for (base, reason) in [("/tmp", "written to by others"), ("/no/such", "No such file")] {
            let said = usable(Path::new(base)).unwrap_err();
            assert!(said.contains(base) && said.contains(reason), "{base}: {said}");
        }
    }
}
