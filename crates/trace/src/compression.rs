//! Compression that is taken off before a trace is looked at.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use lz4_flex::frame::FrameDecoder;

use crate::Error;
use crate::not_read::NotRead;
use crate::zip::{self, Zip};

/// The longest window, as a power of two: 1 GiB. zstd takes 128 MiB unless `--long` says otherwise,
/// and xz 64 MiB. Only data as long as the window makes all of it real memory.
const WINDOW: u32 = 30;

/// How much memory an xz file may ask for: the window, and a little.
const XZ_MEMORY: u64 = (1 << WINDOW) + (1 << 20);

/// A compression, known by its first bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compression {
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Lz4,
    /// The files of an archive, one behind the other.
    Zip,
}

impl Compression {
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            // The level, then the first byte of a block's mark or of the end's.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Some(Self::Bzip2),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            _ if head.starts_with(zip::MAGIC) => Some(Self::Zip),
            _ => None,
        }
    }

    pub(crate) fn open<'a>(self, reader: BufReader<impl Read + 'a>) -> Result<Box<dyn Read + 'a>, Error> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(reader)),
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)
                    .map_err(|error| Error::damaged(0, format!("xz: {error}")))?;
                Box::new(Explained(XzDecoder::new_stream(reader, stream)))
            }
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
                decoder.window_log_max(WINDOW)?;
                Box::new(Explained(decoder))
            }
            Self::Bzip2 => Box::new(MultiBzDecoder::new(reader)),
            Self::Lz4 => Box::new(Explained(Lz4(FrameDecoder::new(Watched { reader, ended: false })))),
            Self::Zip => Box::new(Zip::new(reader)),
        })
    }
}

/// A decompressor that tells damage from what it was not made for.
struct Explained<R>(R);

impl<R: Read> Read for Explained<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(explained)
    }
}

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

/// Frames of lz4, one after another. The decoder says "the end" of a frame, but also of a stream
/// that is cut off between two blocks: only the second has asked for more than there is.
struct Lz4<R: Read>(FrameDecoder<Watched<R>>);

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.0.read(buffer)?;
            let input = self.0.get_mut();
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if input.ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if input.reader.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}

/// Remembers whether more was asked for than there is.
struct Watched<R> {
    reader: R,
    ended: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.ended |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}
