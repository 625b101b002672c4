//! Whether a place can be changed by others than root and this user: what this process takes from
//! there, or has programs load from there, is trusted as much as it is itself.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Write permission for the group, and for all.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// In such a directory only the owner of an entry can remove or rename it.
const STICKY: u32 = 0o1000;

/// Why others can change a place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnershipError {
    /// It belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Others can write to it.
    #[error("{} can be written to by others", .0.display())]
    Shared(PathBuf),
    /// It cannot be looked at.
    #[error("{}: {}", .0.display(), .1)]
    Unseen(PathBuf, io::Error),
}

/// The directory's own name, links resolved, if only root and this user can put anything into it
/// or put another in its place, now or when something in it has been removed.
pub fn owned_directory(directory: &Path) -> Result<PathBuf, OwnershipError> {
    let path = resolved(directory)?;
    check(&path, false)?;
    check_above(&path)?;
    Ok(path)
}

/// The directory's own name, links resolved, if only root and this user can replace a file that
/// this process has made in it. Others may make their own there, as in `/tmp`.
pub fn sticky_directory(directory: &Path) -> Result<PathBuf, OwnershipError> {
    let path = resolved(directory)?;
    check(&path, true)?;
    check_above(&path)?;
    Ok(path)
}

/// Whether a file or directory is root's or this user's and others cannot write to it.
pub fn is_owned(metadata: &Metadata) -> bool {
    is_trusted(metadata.uid()) && !is_shared(metadata.mode(), metadata.uid(), metadata.gid())
}

/// Whether more than the owner can write to it. Where each user has a group of his own, which has
/// the user's number, that group's permissions are the user's.
fn is_shared(mode: u32, user: u32, group: u32) -> bool {
    mode & ALL_WRITE != 0 || mode & GROUP_WRITES != 0 && group != user
}

/// The user's directory for what is kept between runs, named `sweephand` and made if it is not
/// there.
pub fn cache_directory() -> io::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME").map(|home| home.join(".cache"));
    // The standard says to take no relative names.
    let base = variable("XDG_CACHE_HOME").filter(|base| base.is_absolute()).or(home).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "set HOME or XDG_CACHE_HOME to a directory of your own")
    })?;
    let directory = base.join(OsStr::new("sweephand"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: cannot be made: {error}", directory.display()))
    })?;
    Ok(directory)
}

fn resolved(path: &Path) -> Result<PathBuf, OwnershipError> {
    path.canonicalize().map_err(|error| OwnershipError::Unseen(path.to_path_buf(), error))
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

fn check(path: &Path, may_be_sticky: bool) -> Result<(), OwnershipError> {
    let metadata = fs::metadata(path).map_err(|error| OwnershipError::Unseen(path.to_path_buf(), error))?;
    if !is_trusted(metadata.uid()) {
        return Err(OwnershipError::Foreign(path.to_path_buf()));
    }
    let is_sticky = may_be_sticky && metadata.mode() & STICKY != 0;
    match is_owned(&metadata) || is_sticky {
        true => Ok(()),
        false => Err(OwnershipError::Shared(path.to_path_buf())),
    }
}

/// The directories on the way. What is ours in a sticky one stays where it is.
fn check_above(path: &Path) -> Result<(), OwnershipError> {
    path.ancestors().skip(1).try_for_each(|above| check(above, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_others_can_write_to_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        mode(&inner, 0o755);
        // Temporary directories are in a sticky one as a rule, which is no harm.
        let path = inner.canonicalize().unwrap();
        assert_eq!(owned_directory(&inner).unwrap(), path);
        let link = directory.path().join("link");
        symlink(&inner, &link).unwrap();
        assert_eq!(owned_directory(&link).unwrap(), path);
        mode(&inner, 0o757);
        for found in [owned_directory(&inner), sticky_directory(&inner)] {
            assert!(matches!(found, Err(OwnershipError::Shared(_))), "{found:?}");
        }
        assert!(is_shared(0o775, 1000, 100) && is_shared(0o757, 1000, 1000));
        assert!(!is_shared(0o775, 1000, 1000) && !is_shared(0o755, 1000, 100));
        // Ours cannot be replaced there; but when it has been removed any user can take its name.
        mode(&inner, 0o1777);
        assert!(owned_directory(&inner).is_err());
        assert_eq!(sticky_directory(&inner).unwrap(), path);
        // A user who can rename the directory can put another in its place.
        mode(&inner, 0o755);
        mode(directory.path(), 0o777);
        assert!(owned_directory(&inner).is_err() && sticky_directory(&inner).is_err());
        mode(directory.path(), 0o700);
        assert!(matches!(owned_directory(&directory.path().join("no")), Err(OwnershipError::Unseen(..))));
    }
}
