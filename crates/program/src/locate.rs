//! The file that a command's name stands for.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Why a name stands for no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// It is not there.
    #[error("{}: there is no such program", .0.display())]
    Missing(PathBuf),
    /// It is there, but cannot be run by anyone.
    #[error("{}: is not an executable file", .0.display())]
    NotExecutable(PathBuf),
}

/// The file that a command's name stands for: as named if there is a slash in the name, otherwise
/// in a directory of `PATH`.
pub fn locate(name: &OsStr) -> Result<PathBuf, LocateError> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let named = PathBuf::from(name);
    if name.as_bytes().contains(&b'/') {
        return match named {
            named if is_program(&named) => Ok(named),
            named if named.exists() => Err(LocateError::NotExecutable(named)),
            named => Err(LocateError::Missing(named)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    candidates.find(is_program).ok_or(LocateError::Missing(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_a_path_is_taken_as_it_is() {
        let message = |name: &str| locate(OsStr::new(name)).unwrap_err().to_string();
        assert_eq!(message("no-such-program"), "no-such-program: there is no such program");
        assert_eq!(message("/no/such/program"), "/no/such/program: there is no such program");
        assert_eq!(message("/etc/passwd"), "/etc/passwd: is not an executable file");
        let shell = locate(OsStr::new("sh")).unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        assert_eq!(locate(shell.as_os_str()).unwrap(), shell);
    }
}
