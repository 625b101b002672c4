//! Tar archives: their ordinary files. Headers are read by the crate `tar`, which cannot read an
//! archive of which a part is already elsewhere; so the blocks are walked here.

use std::io::{self, BufRead, ErrorKind, Read};

use tar::{EntryType, Header, PaxExtensions};

use crate::buffered::Buffered;
use crate::source::Archive;

/// Bytes of a header. Contents are filled up to a multiple of this.
const BLOCK: usize = 512;

/// Names and other values about a file are not longer.
const MOST_VALUES: u64 = 1 << 20;

pub(crate) struct Tar<'a> {
    reader: Buffered<'a>,
    /// Bytes of the file that are to come, and the filling behind them.
    left: u64,
    filling: u64,
    ended: bool,
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("tar: {reason}"))
}

impl<'a> Tar<'a> {
    /// Whether a stream begins with a header, whose checksum is right.
    pub(crate) fn is(head: &[u8]) -> bool {
        head.first_chunk::<BLOCK>().is_some_and(|block| block[0] != 0 && is_header(block))
    }

    /// An archive of which nothing has been read.
    pub(crate) fn new(reader: Buffered<'a>) -> Self {
        Self { reader, left: 0, filling: 0, ended: false }
    }

    /// The contents of a header's file, if they are values about the next file.
    fn values(&mut self) -> io::Result<Vec<u8>> {
        if self.left > MOST_VALUES {
            return Err(wrong("a name of more than a mebibyte"));
        }
        let mut values = vec![0; self.left as usize];
        self.reader.read_exact(&mut values)?;
        self.left = 0;
        Ok(values)
    }
}

/// Whether the checksum of a header is right: the sum of its bytes, with spaces for the checksum.
fn is_header(block: &[u8; BLOCK]) -> bool {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let expected = sum(&block[..148]) + 8 * u32::from(b' ') + sum(&block[156..]);
    Header::from_byte_slice(block).cksum().is_ok_and(|checksum| checksum == expected)
}

impl Archive for Tar<'_> {
    fn next_file(&mut self) -> io::Result<Option<Option<String>>> {
        let (mut long_name, mut long_size) = (None, None);
        while !self.ended {
            let rest = self.left + self.filling;
            if io::copy(&mut (&mut self.reader).take(rest), &mut io::sink())? < rest {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            (self.left, self.filling) = (0, 0);
            let mut block = [0; BLOCK];
            self.reader.read_exact(&mut block)?;
            if block == [0; BLOCK] {
                // The end, and whatever fills the tape.
                self.ended = true;
                return if only_zeros(&mut self.reader)? {
                    Ok(None)
                } else {
                    Err(wrong("something stands behind the archive (`tar -i` reads such archives)"))
                };
            }
            if !is_header(&block) {
                return Err(wrong("a header is damaged"));
            }
            let header = Header::from_byte_slice(&block);
            let kind = header.entry_type();
            let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous);
            let size = if is_file { long_size.take() } else { None };
            self.left = size.map_or_else(|| header.entry_size(), Ok)?;
            self.filling = (BLOCK as u64 - self.left % BLOCK as u64) % BLOCK as u64;
            match kind {
                EntryType::GNULongName => {
                    let mut name = self.values()?;
                    name.retain(|byte| *byte != 0);
                    long_name = Some(name);
                }
                EntryType::XHeader => {
                    let values = self.values()?;
                    for value in PaxExtensions::new(&values).filter_map(Result::ok) {
                        match value.key_bytes() {
                            b"path" => long_name = Some(value.value_bytes().to_vec()),
                            b"size" => long_size = value.value().ok().and_then(|size| size.parse().ok()),
                            key if key.starts_with(b"GNU.sparse") => {
                                return Err(wrong("a sparse file: unpack the archive"));
                            }
                            _ => {}
                        }
                    }
                }
                EntryType::GNUSparse => return Err(wrong("a sparse file: unpack the archive")),
                _ if is_file => {
                    let name = long_name.take().unwrap_or_else(|| header.path_bytes().into_owned());
                    // Old archives end the names of folders like this.
                    if !name.ends_with(b"/") {
                        return Ok(Some(Some(String::from_utf8_lossy(&name).into_owned())));
                    }
                }
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                // A folder, a link, a device: a name without contents.
                _ => (long_name, long_size) = (None, None),
            }
        }
        Ok(None)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.reader.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Skips zeros; false if something else comes.
pub(crate) fn only_zeros(reader: &mut Buffered<'_>) -> io::Result<bool> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(true);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let is_all = zeros == bytes.len();
        reader.consume(zeros);
        if !is_all {
            return Ok(false);
        }
    }
}
