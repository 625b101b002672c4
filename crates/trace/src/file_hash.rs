//! The hash of a file's bytes: XXH3 with 64 bits, as `xxhsum -H3` prints it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Makes the hash of bytes that come piece by piece: that of a local file with them, wherever they
/// come from.
#[derive(Clone, Default)]
pub struct FileHasher(Xxh3);

impl FileHasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all of them: `xxh3:` and 16 hexadecimal digits.
    pub fn finish(&self) -> String {
        format!("xxh3:{:016x}", self.0.digest())
    }
}

/// The hash of a file.
pub fn file_hash(path: &Path) -> io::Result<String> {
    let mut hasher = FileHasher::default();
    read_pieces(path, |bytes| hasher.update(bytes))?;
    Ok(hasher.finish())
}

/// Reads a file from its beginning to its end.
pub fn read_pieces(path: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            length => take(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_common_tool_however_the_bytes_come() {
        // XXH3_64bits("abc"), by xxhsum.
        let expected = "xxh3:78af5f94892f3950";
        let mut hasher = FileHasher::default();
        ["a", "", "bc"].iter().for_each(|piece| hasher.update(piece.as_bytes()));
        assert_eq!(hasher.finish(), expected);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(file_hash(&path).unwrap(), expected);
        assert!(file_hash(&folder.path().join("none")).is_err());
    }
}
