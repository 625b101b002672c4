//! What has members, and what holds files: what a stream reads from, and what archives and
//! compression are.

use std::io::{self, Read};

use crate::Error;

/// Bytes in members.
pub(crate) trait Source {
    /// Reads bytes of the member; 0 are its end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Goes to the next member, if there is one, whatever is left of this one.
    fn next(&mut self) -> Result<bool, Error>;

    /// It is one plain file, and nothing has been taken off.
    #[cfg(feature = "parquet")]
    fn is_plain(&self) -> bool {
        false
    }

    /// The member begins a file of an archive, rather than going on where lines are counted on.
    fn is_file(&self) -> bool;
}

/// One member.
pub(crate) struct Plain<R>(pub(crate) R);

impl<R: Read> Source for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn next(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    #[cfg(feature = "parquet")]
    fn is_plain(&self) -> bool {
        true
    }

    fn is_file(&self) -> bool {
        false
    }
}

/// What holds files that are read one after the other.
pub(crate) trait Archive {
    /// Goes to the next file, whatever is left of this one. Its name, which files that are only
    /// compressed do not have.
    fn next_file(&mut self) -> io::Result<Option<Option<String>>>;

    /// Reads bytes of the file; 0 are its end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}
