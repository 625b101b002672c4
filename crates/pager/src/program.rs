//! Checks, before a program starts, whether it can run with the agent preloaded.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a program cannot be run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is not there.
    #[error("{}: there is no such program", .0.display())]
    Missing(PathBuf),
    /// It is there, but cannot be run by anyone.
    #[error("{}: is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// What it is made of cannot be read.
    #[error("{}: cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, std::io::Error),
    /// The dynamic linker preloads nothing into such programs.
    #[error("{}: is setuid or setgid and cannot be paged; run a copy without that", .0.display())]
    Setuid(PathBuf),
    /// There is no dynamic linker to preload the agent.
    #[error("{}: is statically linked and cannot be paged; link it dynamically", .0.display())]
    Static(PathBuf),
    /// The agent takes the place of functions of GNU's C library.
    #[error("{}: is made for another C library than GNU's ({}) and cannot be paged", .0.display(), .1)]
    OtherLibrary(PathBuf, String),
    /// There are no functions whose place the agent could take.
    #[error("{}: is linked without the C library and cannot be paged (of Go, build it with CGO_ENABLED=1)", .0.display())]
    NoLibrary(PathBuf),
    /// The agent is for another processor.
    #[error("{}: only programs for 64-bit x86 can be paged", .0.display())]
    Foreign(PathBuf),
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

/// The file that a command's name stands for.
pub(crate) fn locate(name: &OsStr) -> Result<PathBuf, ProgramError> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let named = PathBuf::from(name);
    if name.as_bytes().contains(&b'/') {
        return match named {
            named if is_program(&named) => Ok(named),
            named if named.exists() => Err(ProgramError::NotExecutable(named)),
            named => Err(ProgramError::Missing(named)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    candidates.find(is_program).ok_or(ProgramError::Missing(named))
}

/// Returns the interpreter of a script.
fn check(path: &Path) -> Result<Option<PathBuf>, ProgramError> {
    let unreadable = |error| ProgramError::Unreadable(path.to_path_buf(), error);
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head)).map_err(unreadable)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty());
        return Ok(word.map(|word| PathBuf::from(OsStr::from_bytes(word))));
    }
    // What is neither a script nor ELF is for the kernel to refuse.
    if !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    if mode & 0o6000 != 0 {
        return Err(ProgramError::Setuid(path.to_path_buf()));
    }
    // Of an ELF file the fifth byte tells the word size, the nineteenth and twentieth the
    // processor.
    if head.get(4) != Some(&2) || head.get(18..20) != Some(&[62, 0]) {
        return Err(ProgramError::Foreign(path.to_path_buf()));
    }
    match linker(&head) {
        None => return Err(ProgramError::Static(path.to_path_buf())),
        // Named beyond what was read: the agent itself will see.
        Some("") => return Ok(None),
        Some(linker) if linker.ends_with("/ld-linux-x86-64.so.2") => {}
        Some(linker) => return Err(ProgramError::OtherLibrary(path.to_path_buf(), linker.to_string())),
    }
    match needs_libraries(path, &head) {
        Some(false) => Err(ProgramError::NoLibrary(path.to_path_buf())),
        // What cannot be told the agent itself will see.
        Some(true) | None => Ok(None),
    }
}

/// A number of so many bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte)))
}

/// Where in a 64-bit ELF file the part is that a program header of this type stands for, and its
/// length.
fn part(head: &[u8], kind: usize) -> Option<(usize, usize)> {
    let (table, size, count) = (number(head, 0x20, 8)?, number(head, 0x36, 2)?, number(head, 0x38, 2)?);
    let mut headers = (0..count).filter_map(|index| table.checked_add(index * size));
    let header = headers.find(|&header| number(head, header, 4) == Some(kind))?;
    Some((number(head, header + 8, 8)?, number(head, header + 32, 8)?))
}

/// Whether an ELF file names libraries that it needs, by entries of type `DT_NEEDED`; `None` if
/// that cannot be told.
fn needs_libraries(path: &Path, head: &[u8]) -> Option<bool> {
    const PT_DYNAMIC: usize = 2;
    const DT_NEEDED: usize = 1;
    const ENTRY_BYTES: usize = 16;
    const MOST_BYTES: usize = 1 << 16;
    let (offset, length) = part(head, PT_DYNAMIC)?;
    let mut entries = vec![0; length.min(MOST_BYTES)];
    File::open(path).ok()?.read_exact_at(&mut entries, offset as u64).ok()?;
    Some(entries.chunks_exact(ENTRY_BYTES).any(|entry| number(entry, 0, 8) == Some(DT_NEEDED)))
}

/// The dynamic linker that a 64-bit ELF file asks for, by a program header of type `PT_INTERP`.
fn linker(head: &[u8]) -> Option<&str> {
    const PT_INTERP: usize = 3;
    let (offset, bytes) = part(head, PT_INTERP)?;
    let name = offset.checked_add(bytes).and_then(|end| head.get(offset..end)).unwrap_or_default();
    Some(std::str::from_utf8(name).unwrap_or_default().trim_end_matches('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_told_apart() {
        let message = |name: &str| find(OsStr::new(name)).unwrap_err().to_string();
        assert_eq!(message("no-such-program"), "no-such-program: there is no such program");
        assert_eq!(message("/no/such/program"), "/no/such/program: there is no such program");
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
        assert!(message(copy.to_str().unwrap()).ends_with("cannot be paged; run a copy without that"));
        // As another C library's compiler would write it: the same but for the linker's name.
        let mut program = fs::read(find(OsStr::new("true")).unwrap()).unwrap();
        let name = program.windows(11).position(|bytes| bytes == b"ld-linux-x8").unwrap();
        program[name..name + 20].copy_from_slice(b"ld-musl-x86_64.so.1\0");
        fs::write(&copy, program).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let said = message(copy.to_str().unwrap());
        assert!(said.ends_with("than GNU's (/lib64/ld-musl-x86_64.so.1) and cannot be paged"), "{said}");
    }
}
