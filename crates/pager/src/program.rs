//! Checks, before a program starts, whether it can run with the agent preloaded.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use sweephand_program::{Executable, LocateError, is_setuid, locate};

const SETUID: &str = "is setuid or setgid";
const STATIC: &str = "is statically linked";
const OTHER: &str = "is made for another C library than GNU's";
const NO_LIBRARY: &str = "is linked without the C library";
const FOREIGN: &str = "is not a program for 64-bit x86";

/// Why a program cannot be run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is none of that name.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// What it is made of cannot be read.
    #[error("{}: cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, std::io::Error),
    /// The dynamic linker preloads nothing into such programs.
    #[error("{}: {SETUID} and can have no agent; use --backend swap, or a copy without that", .0.display())]
    Setuid(PathBuf),
    /// There is no dynamic linker to preload the agent.
    #[error("{}: {STATIC} and can have no agent; use --backend swap, or link it dynamically", .0.display())]
    Static(PathBuf),
    /// The agent takes the place of functions of GNU's C library.
    #[error("{}: {OTHER} ({}) and can have no agent; use --backend swap", .0.display(), .1)]
    OtherLibrary(PathBuf, String),
    /// There are no functions whose place the agent could take.
    #[error(
        "{}: {NO_LIBRARY} and can have no agent; use --backend swap (or build Go with CGO_ENABLED=1)", .0.display()
    )]
    NoLibrary(PathBuf),
    /// The agent is for another processor.
    #[error("{}: {FOREIGN} and can have no agent; use --backend swap", .0.display())]
    Foreign(PathBuf),
}

impl ProgramError {
    /// What keeps the agent out of a program that can run without it, as the predicate of a
    /// sentence.
    pub fn nature(&self) -> Option<&'static str> {
        match self {
            Self::Setuid(_) => Some(SETUID),
            Self::Static(_) => Some(STATIC),
            Self::OtherLibrary(..) => Some(OTHER),
            Self::NoLibrary(_) => Some(NO_LIBRARY),
            Self::Foreign(_) => Some(FOREIGN),
            Self::Locate(_) | Self::Unreadable(..) => None,
        }
    }
}

/// The file that a command's name stands for, if it can be run with the agent. Of a script, that
/// goes for what runs it.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, ProgramError> {
    let program = locate(name)?;
    let mut file = program.clone();
    // A script's interpreter may be a script, but not for ever.
    for _ in 0..4 {
        match check(&file)? {
            Some(interpreter) => file = locate(interpreter.as_os_str())?,
            None => break,
        }
    }
    Ok(program)
}

/// Returns the interpreter of a script.
fn check(path: &Path) -> Result<Option<PathBuf>, ProgramError> {
    let unreadable = |error| ProgramError::Unreadable(path.to_path_buf(), error);
    let is_setuid = is_setuid(path).map_err(unreadable)?;
    let program = Executable::read(path).map_err(unreadable)?;
    // What is neither a script nor ELF is for the kernel to refuse.
    if !program.is_elf() {
        return Ok(program.interpreter());
    }
    let path = path.to_path_buf();
    if is_setuid {
        return Err(ProgramError::Setuid(path));
    }
    if !program.is_x86_64() {
        return Err(ProgramError::Foreign(path));
    }
    match program.linker() {
        None => return Err(ProgramError::Static(path)),
        // Named beyond what was read: the agent itself will see.
        Some("") => return Ok(None),
        Some(linker) if linker.ends_with("/ld-linux-x86-64.so.2") => {}
        Some(linker) => return Err(ProgramError::OtherLibrary(path, linker.to_string())),
    }
    match program.needs_libraries() {
        Some(false) => Err(ProgramError::NoLibrary(path)),
        // If this cannot be known from the file, the agent finds out.
        Some(true) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_cannot_be_run_is_told_apart() {
        let message = |name: &str| find(OsStr::new(name)).unwrap_err().to_string();
        assert_eq!(message("/etc/passwd"), "/etc/passwd: is not an executable file");
        assert!(find(OsStr::new("sh")).is_ok());
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        fs::write(&script, "#! /no/such/interpreter -x\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(message(script.to_str().unwrap()), "/no/such/interpreter: there is no such program");
        let copy = directory.path().join("setuid");
        fs::copy(find(OsStr::new("true")).unwrap(), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(message(copy.to_str().unwrap()).ends_with("use --backend swap, or a copy without that"));
        // As another C library's compiler would write it: the same but for the linker's name.
        let mut program = fs::read(find(OsStr::new("true")).unwrap()).unwrap();
        let name = program.windows(11).position(|bytes| bytes == b"ld-linux-x8").unwrap();
        program[name..name + 20].copy_from_slice(b"ld-musl-x86_64.so.1\0");
        fs::write(&copy, program).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let said = message(copy.to_str().unwrap());
        assert!(
            said.ends_with(
                "than GNU's (/lib64/ld-musl-x86_64.so.1) and can have no agent; use --backend swap"
            ),
            "{said}"
        );
    }
}
