//! Hashes of trace files, which make sure that the simulated trace is the planned one.

use crate::Error;
use crate::error::InFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use sweephand_trace::{FileHasher, file_hash, read_pieces};

/// How a file is hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// xxh3 with 64 bits, as `xxhsum -H3` prints it: fast, against accidents.
    Xxh3,
    /// SHA-256, as `sha256sum` prints it.
    Sha256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Sha256 => "sha256",
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::Xxh3 => 16,
            Self::Sha256 => 64,
        }
    }
}

/// Makes the hash of bytes that come piece by piece: that of a local file with them, wherever they
/// come from.
#[derive(Default)]
pub struct Hasher(FileHasher);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all of them.
    pub fn finish(&self) -> Hash {
        Hash(self.0.finish())
    }
}

/// The hash of a file's bytes: `xxh3:` with 16 or `sha256:` with 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(String);

impl Hash {
    /// Hashes a file.
    pub fn of(path: &Path, algorithm: Algorithm) -> Result<Self, Error> {
        match algorithm {
            Algorithm::Xxh3 => Ok(Self(file_hash(path).in_file(path)?)),
            Algorithm::Sha256 => {
                let mut hasher = Sha256::new();
                read_pieces(path, |bytes| hasher.update(bytes)).in_file(path)?;
                let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                Ok(Self(format!("{}:{digest}", algorithm.name())))
            }
        }
    }

    /// How it was made.
    pub fn algorithm(&self) -> Algorithm {
        if self.0.starts_with("xxh3:") { Algorithm::Xxh3 } else { Algorithm::Sha256 }
    }

    /// Checks that the file at `path` has this hash. `name` is what the error calls it.
    pub fn check(&self, path: &Path, name: &str) -> Result<(), Error> {
        let found = Self::of(path, self.algorithm())?;
        if found == *self {
            return Ok(());
        }
        Err(Error::WrongTrace(format!(
            "{name}: is not the file that was planned with: {self} was expected, {found} found; start the sweep again if the file is \
             meant to have changed, or put the right one there"
        )))
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let is_hash = text.split_once(':').is_some_and(|(name, digits)| {
            [Algorithm::Xxh3, Algorithm::Sha256].into_iter().any(|of| {
                of.name() == name
                    && digits.len() == of.digits()
                    && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            })
        });
        if is_hash {
            Ok(Self(text))
        } else {
            Err(format!(
                "hash '{text}': write xxh3: and 16 hexadecimal digits (xxhsum -H3), or sha256: and 64 (sha256sum)"
            ))
        }
    }
}

impl TryFrom<String> for Hash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_common_tools() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-2, appendix B.1; and XXH3_64bits("abc"), by xxhsum.
        let sha256 = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let xxh3 = "xxh3:78af5f94892f3950";
        assert_eq!(Hash::of(&path, Algorithm::Sha256).unwrap().to_string(), sha256);
        assert_eq!(Hash::of(&path, Algorithm::Xxh3).unwrap().to_string(), xxh3);
        let mut hasher = Hasher::default();
        ["a", "", "bc"].iter().for_each(|piece| hasher.update(piece.as_bytes()));
        assert_eq!(hasher.finish().to_string(), xxh3);
        for hash in [sha256, xxh3] {
            hash.to_uppercase().parse::<Hash>().unwrap().check(&path, "abc").unwrap();
        }
        std::fs::write(&path, "abd").unwrap();
        let error = xxh3.parse::<Hash>().unwrap().check(&path, "s3://b/abc").unwrap_err().to_string();
        assert!(error.starts_with("s3://b/abc: is not the file that was planned with: xxh3:78af"), "{error}");
    }

    #[test]
    fn what_is_no_hash_is_told_how_they_are_written() {
        for text in
            ["", "xxh3:", "xxh3:12", "md5:0123456789abcdef", "xxh3:0123456789abcdeg", "0123456789abcdef"]
        {
            let error = text.parse::<Hash>().unwrap_err();
            assert!(error.contains("write xxh3: and 16 hexadecimal digits"), "{error}");
        }
    }
}
