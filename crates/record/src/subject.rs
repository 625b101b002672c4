//! The programs that can be recorded.

use crate::error::RecordError;
use std::ffi::OsStr;
use std::path::PathBuf;
use sweephand_program::{Executable, is_setuid, locate};

/// The file that a command name stands for, if the recorder can run it.
pub fn find_program(name: &OsStr) -> Result<PathBuf, RecordError> {
    let program = locate(name)?;
    if is_setuid(&program).unwrap_or(false) {
        return Err(RecordError::Setuid(program));
    }
    match Executable::read(&program) {
        Err(error) => Err(RecordError::Unreadable(program, error)),
        Ok(read) if read.is_elf() && !read.is_x86_64() => Err(RecordError::Foreign(program)),
        Ok(_) => Ok(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_cannot_be_recorded_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut program = fs::read(find_program(OsStr::new("true")).unwrap()).unwrap();
        let message = || find_program(path.as_os_str()).unwrap_err().to_string();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(&path, &program).unwrap();
        mode(0o644);
        assert!(message().ends_with(": is not an executable file"), "{}", message());
        mode(0o4755);
        assert!(message().ends_with("cannot be recorded; record a copy without that"), "{}", message());
        program[18] = 183;
        fs::write(&path, &program).unwrap();
        mode(0o755);
        assert!(message().ends_with(": only programs for 64-bit x86 can be recorded"), "{}", message());
        // A script is for what runs it.
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert_eq!(find_program(path.as_os_str()).unwrap(), path);
    }
}
