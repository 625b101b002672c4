//! Compression that is taken off before a trace is looked at.
//!
//! Compressed files may stand one behind the other (`cat a.gz b.gz`). Each is a file of its own:
//! its last line ends with it. But some compressors cut one file into blocks and compress each
//! alone (bgzip, pbzip2, pzstd, pixz), so that lines go on in the next. Blocks are told by their
//! marks (bgzip's extra field, skippable frames), or by their length: a multiple of 256 or of 1000
//! bytes, and at least 4096. A gzip file that has a name is never a block.

use std::io::{self, BufRead, ErrorKind, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use lz4_flex::frame::FrameDecoder;

use crate::buffered::Buffered;
use crate::not_read::NotRead;
use crate::source::Archive;
use crate::tar::only_zeros;

/// The longest window, as a power of two: 1 GiB. zstd takes 128 MiB unless `--long` says otherwise,
/// and xz 64 MiB. Only data as long as the window makes all of it real memory.
const WINDOW: u32 = 30;

/// How much memory an xz file may ask for: the window, and a little.
const XZ_MEMORY: u64 = (1 << WINDOW) + (1 << 20);

/// The shortest block of a file that is compressed in blocks.
const LEAST_BLOCK: u64 = 4096;

/// Bytes that tell a compression.
const MARK: usize = 6;

/// A compression, known by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Lz4,
    /// A frame that decompressors of zstd and lz4 skip.
    Skippable,
}

impl Compression {
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Skippable),
            // The level, then the first byte of a block's mark or of the end's.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Some(Self::Bzip2),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// Compressed files one behind the other.
pub(crate) struct Frames<'a> {
    state: State<'a>,
    /// Bytes of the frame so far, decompressed.
    length: u64,
    /// A skippable frame stood before this one.
    after_mark: bool,
}

enum State<'a> {
    /// A frame comes, if anything does.
    Between(Buffered<'a>),
    Gzip(Box<GzDecoder<Buffered<'a>>>),
    Xz(Box<XzDecoder<Buffered<'a>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Buffered<'a>>>),
    Bzip2(Box<BzDecoder<Buffered<'a>>>),
    Lz4(Box<FrameDecoder<Watched<'a>>>),
    /// Nothing more comes, or an error was given.
    Ended,
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// Tells damage from what a decompressor was not made for.
fn explained(error: io::Error) -> io::Error {
    use liblzma::stream::Error as Xz;
    use lz4_flex::frame::Error as Lz4;
    let Some(reason) = error.get_ref() else { return error };
    match (reason.downcast_ref::<Xz>(), reason.downcast_ref::<Lz4>()) {
        (Some(Xz::MemLimit), _) => {
            return NotRead::new("compressed by xz with a window of more than 1 GiB", "xz -dc FILE").into();
        }
        (Some(Xz::Options), _) => {
            return NotRead::new("compressed by xz with a filter of its own", "xz -dc FILE").into();
        }
        (Some(Xz::Mem), _) => return ErrorKind::OutOfMemory.into(),
        (_, Some(Lz4::DictionaryNotSupported)) => {
            return NotRead::new("compressed by lz4 with a dictionary", "lz4 -dc -D DICTIONARY FILE").into();
        }
        _ => {}
    }
    // zstd has only its words.
    let words = reason.to_string();
    if words.contains("too much memory") {
        NotRead::new("compressed by zstd with a window of more than 1 GiB", "zstd -dc --long=31 FILE").into()
    } else if words.contains("Dictionary mismatch") {
        NotRead::new("compressed by zstd with a dictionary", "zstd -dc -D DICTIONARY FILE").into()
    } else if words.contains("not enough memory") {
        ErrorKind::OutOfMemory.into()
    } else {
        error
    }
}

impl<'a> Frames<'a> {
    /// Files of which nothing has been read.
    pub(crate) fn new(reader: Buffered<'a>) -> Self {
        Self { state: State::Between(reader), length: 0, after_mark: false }
    }

    /// Goes to the frame that comes next; false if none does. Zeros may fill up the end.
    fn open(&mut self) -> io::Result<bool> {
        let State::Between(mut reader) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(false);
        };
        self.length = 0;
        self.after_mark = false;
        loop {
            let compression = Compression::of(reader.peek(MARK)?);
            self.state = match compression {
                Some(Compression::Gzip) => State::Gzip(Box::new(GzDecoder::new(reader))),
                Some(Compression::Xz) => {
                    let stream = Stream::new_stream_decoder(XZ_MEMORY, 0).map_err(io::Error::other)?;
                    State::Xz(Box::new(XzDecoder::new_stream(reader, stream)))
                }
                Some(Compression::Zstd) => {
                    let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
                    decoder.window_log_max(WINDOW)?;
                    State::Zstd(Box::new(decoder.single_frame()))
                }
                Some(Compression::Bzip2) => State::Bzip2(Box::new(BzDecoder::new(reader))),
                Some(Compression::Lz4) => {
                    State::Lz4(Box::new(FrameDecoder::new(Watched { reader, ended: false })))
                }
                Some(Compression::Skippable) => {
                    skip_frame(&mut reader)?;
                    self.after_mark = true;
                    continue;
                }
                None if only_zeros(&mut reader)? => return Ok(false),
                None => return Err(wrong("something else stands behind the compressed data")),
            };
            return Ok(true);
        }
    }

    /// The frame has ended. Goes behind it; true if what comes next goes on with the same file.
    fn close(&mut self) -> io::Result<bool> {
        let length = self.length;
        let mut is_block = self.after_mark
            || (length >= LEAST_BLOCK && (length.is_multiple_of(256) || length.is_multiple_of(1000)));
        let mut reader = match std::mem::replace(&mut self.state, State::Ended) {
            State::Gzip(decoder) => {
                let header = decoder.header();
                let extra = header.and_then(|header| header.extra()).unwrap_or_default();
                is_block |= extra.starts_with(b"BC") && length > 0;
                is_block &= header.and_then(|header| header.filename()).is_none();
                decoder.into_inner()
            }
            State::Xz(decoder) => decoder.into_inner(),
            State::Zstd(decoder) => decoder.finish(),
            State::Bzip2(decoder) => decoder.into_inner(),
            State::Lz4(decoder) => {
                let input = decoder.into_inner();
                // The decoder says "the end" of a frame, but also of a stream that is cut off
                // between two blocks: only the second has asked for more than there is.
                if input.ended {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                input.reader
            }
            State::Between(reader) => reader,
            State::Ended => return Ok(false),
        };
        let comes_next = Compression::of(reader.peek(MARK)?);
        self.state = State::Between(reader);
        Ok(is_block || comes_next == Some(Compression::Skippable))
    }
}

/// Reads over a skippable frame.
fn skip_frame(reader: &mut Buffered<'_>) -> io::Result<()> {
    let mut header = [0; 8];
    reader.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]).into();
    if io::copy(&mut reader.take(length), &mut io::sink())? < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

impl Archive for Frames<'_> {
    fn next_file(&mut self) -> io::Result<Option<Option<String>>> {
        let mut rest = [0; 1 << 12];
        while Archive::read(self, &mut rest)? > 0 {}
        Ok(self.open()?.then_some(None))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let read = match &mut self.state {
                State::Between(_) | State::Ended => return Ok(0),
                State::Gzip(decoder) => decoder.read(buffer),
                State::Xz(decoder) => decoder.read(buffer),
                State::Zstd(decoder) => decoder.read(buffer),
                State::Bzip2(decoder) => decoder.read(buffer),
                State::Lz4(decoder) => decoder.read(buffer),
            }
            .map_err(explained)?;
            self.length += read as u64;
            if read > 0 {
                return Ok(read);
            }
            if !self.close()? || !self.open()? {
                return Ok(0);
            }
        }
    }
}

/// Remembers whether more was asked for than there is.
struct Watched<'a> {
    reader: Buffered<'a>,
    ended: bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.ended |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

impl BufRead for Watched<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }
}
