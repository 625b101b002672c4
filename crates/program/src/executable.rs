//! What kind of executable a file is, from its first bytes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Whether a program runs with the rights of its file's owner or group. This can be told of files
/// that cannot be read, too.
pub fn is_setuid(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o6000 != 0)
}

/// The beginning of an executable file.
#[derive(Debug)]
pub struct Executable {
    file: File,
    head: Vec<u8>,
}

impl Executable {
    /// Reads it.
    pub fn read(path: &Path) -> io::Result<Self> {
        const HEAD_BYTES: u64 = 4096;
        let file = File::open(path)?;
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self { file, head })
    }

    /// What runs it if it is a script: `None` if it is none, or if the script does not say.
    pub fn interpreter(&self) -> Option<PathBuf> {
        let line = self.head.strip_prefix(b"#!")?;
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty());
        word.map(|word| PathBuf::from(OsStr::from_bytes(word)))
    }

    /// Whether it is ELF. What is neither that nor a script is for the kernel to refuse.
    pub fn is_elf(&self) -> bool {
        self.head.starts_with(b"\x7fELF")
    }

    /// Whether it is ELF for 64-bit x86. The fifth byte tells the word size, the nineteenth and
    /// twentieth the processor.
    pub fn is_x86_64(&self) -> bool {
        self.is_elf() && self.head.get(4) == Some(&2) && self.head.get(18..20) == Some(&[62, 0])
    }

    /// The dynamic linker that a 64-bit ELF file asks for, by a program header of type `PT_INTERP`.
    /// Empty if it is named beyond what was read.
    pub fn linker(&self) -> Option<&str> {
        const PT_INTERP: usize = 3;
        let (offset, bytes) = self.part(PT_INTERP)?;
        let name = offset.checked_add(bytes).and_then(|end| self.head.get(offset..end)).unwrap_or_default();
        Some(std::str::from_utf8(name).unwrap_or_default().trim_end_matches('\0'))
    }

    /// Whether a 64-bit ELF file names libraries that it needs, by entries of type `DT_NEEDED`;
    /// `None` if that cannot be told.
    pub fn needs_libraries(&self) -> Option<bool> {
        const PT_DYNAMIC: usize = 2;
        const DT_NEEDED: usize = 1;
        const ENTRY_BYTES: usize = 16;
        const MOST_BYTES: usize = 1 << 16;
        let (offset, length) = self.part(PT_DYNAMIC)?;
        let mut entries = vec![0; length.min(MOST_BYTES)];
        self.file.read_exact_at(&mut entries, offset as u64).ok()?;
        Some(entries.chunks_exact(ENTRY_BYTES).any(|entry| number(entry, 0, 8) == Some(DT_NEEDED)))
    }

    /// Where in the file the part is that a program header of this type stands for, and its length.
    fn part(&self, kind: usize) -> Option<(usize, usize)> {
        let head = &self.head;
        let (table, size, count) = (number(head, 0x20, 8)?, number(head, 0x36, 2)?, number(head, 0x38, 2)?);
        let mut headers = (0..count).filter_map(|index| table.checked_add(index * size));
        let header = headers.find(|&header| number(head, header, 4) == Some(kind))?;
        Some((number(head, header + 8, 8)?, number(head, header + 32, 8)?))
    }
}

/// A number of `length` bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate;

    #[test]
    fn scripts_and_elf_are_told_apart() {
        let shell = Executable::read(&locate(OsStr::new("sh")).unwrap()).unwrap();
        assert!(shell.is_x86_64() && shell.interpreter().is_none());
        assert!(shell.linker().unwrap().ends_with("/ld-linux-x86-64.so.2"));
        assert_eq!(shell.needs_libraries(), Some(true));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        let script = |text: &str| {
            fs::write(&path, text).unwrap();
            Executable::read(&path).unwrap()
        };
        assert_eq!(script("#! /bin/env -S python3\n").interpreter(), Some("/bin/env".into()));
        for text in ["#!\n", "", "\x7fELF"] {
            let other = script(text);
            assert!(
                other.interpreter().is_none() && !other.is_x86_64() && other.linker().is_none(),
                "{text:?}"
            );
        }
        assert!(!is_setuid(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(is_setuid(&path).unwrap());
    }
}
