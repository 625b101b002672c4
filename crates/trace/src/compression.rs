//! Compression that is taken off before a trace is looked at.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use lz4_flex::frame::FrameDecoder;

use crate::Error;
use crate::zip::{self, Zip};

/// How much memory an xz file may ask for (its largest preset asks for 65 MiB).
const XZ_MEMORY: u64 = 256 << 20;

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
                Box::new(XzDecoder::new_stream(reader, stream))
            }
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(reader)),
            Self::Lz4 => Box::new(Lz4(FrameDecoder::new(Watched { reader, ended: false }))),
            Self::Zip => Box::new(Zip::new(reader)),
        })
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
