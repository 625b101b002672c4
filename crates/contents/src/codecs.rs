//! What one page contains, and how long it takes to find out.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use std::fmt;
use std::io;
use std::time::Instant;
use sweephand_trace::contents::{CodecTime, CodecTimes, PAGE_BYTES, PageContents};
use zstd::bulk::{Compressor, Decompressor};

/// The fast level that compressed swap uses.
const ZSTD_LEVEL: i32 = -1;

/// The bytes of a page.
pub(crate) type Page = [u8; PAGE_BYTES as usize];

/// The codecs, with the memory that they need.
pub struct Codecs {
    lz4: CompressTable,
    zstd: Compressor<'static>,
    unzstd: Decompressor<'static>,
    /// What a codec makes of a page.
    compressed: Vec<u8>,
    /// What it makes of that.
    decompressed: Box<Page>,
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codecs").finish_non_exhaustive()
    }
}

impl Codecs {
    /// Fails if there is no memory.
    pub fn new() -> io::Result<Self> {
        let page = PAGE_BYTES as usize;
        let most = get_maximum_output_size(page).max(zstd::compress_bound(page));
        Ok(Self {
            lz4: CompressTable::small(),
            zstd: Compressor::new(ZSTD_LEVEL)?,
            unzstd: Decompressor::new()?,
            compressed: vec![0; most],
            decompressed: Box::new([0; PAGE_BYTES as usize]),
        })
    }

    /// What a page contains, and how long the codecs took for it, unless it is zero or same-filled.
    pub fn look_at(&mut self, page: &[u8; PAGE_BYTES as usize]) -> (PageContents, Option<CodecTimes>) {
        let (words, _) = page.as_chunks::<{ size_of::<u64>() }>();
        if words.iter().all(|word| *word == words[0]) {
            let filled = if words[0] == [0; 8] { PageContents::Zero } else { PageContents::SameFilled };
            return (filled, None);
        }
        let Self { lz4, zstd, unzstd, compressed, decompressed } = self;
        // A buffer that holds the worst case is never too small.
        let (lz4_bytes, lz4) = timed(
            compressed,
            |compressed| compress_into_with_table(page, compressed, lz4).ok(),
            |compressed| decompress_into(compressed, &mut decompressed[..]).ok(),
        );
        let (zstd_bytes, zstd) = timed(
            compressed,
            |compressed| zstd.compress_to_buffer(page, compressed).ok(),
            |compressed| unzstd.decompress_to_buffer(compressed, &mut decompressed[..]).ok(),
        );
        (PageContents::Other { lz4_bytes, zstd_bytes }, Some(CodecTimes { lz4, zstd }))
    }

    /// How long the codecs take for some pages: the median. `None`: all are zero or same-filled.
    pub fn times_of<'a>(
        &mut self,
        pages: impl Iterator<Item = &'a [u8; PAGE_BYTES as usize]>,
    ) -> Option<CodecTimes> {
        CodecTimes::medians(&pages.filter_map(|page| self.look_at(page).1).collect::<Vec<_>>())
    }
}

/// Compresses a page into a buffer, and decompresses it. Returns the bytes that it comes to, a page
/// at most, and how long each took.
fn timed(
    compressed: &mut [u8],
    compress: impl FnOnce(&mut [u8]) -> Option<usize>,
    decompress: impl FnOnce(&[u8]) -> Option<usize>,
) -> (u16, CodecTime) {
    let began = Instant::now();
    let bytes = compress(compressed).unwrap_or(PAGE_BYTES as usize);
    let compress_ns = began.elapsed().as_nanos();
    let began = Instant::now();
    let restored = decompress(&compressed[..bytes]);
    let decompress_ns = began.elapsed().as_nanos();
    debug_assert_eq!(restored, Some(PAGE_BYTES as usize));
    (bytes.min(PAGE_BYTES as usize) as u16, CodecTime::new(compress_ns, decompress_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;
    use sweephand_trace::contents::{COMPRESSIBLE_BYTES, SampledPages};

    fn sizes(page: &Page) -> (u64, u64) {
        match Codecs::new().unwrap().look_at(page).0 {
            PageContents::Other { lz4_bytes, zstd_bytes } => (lz4_bytes.into(), zstd_bytes.into()),
            filled => panic!("{filled:?}"),
        }
    }

    fn page(byte: impl Fn(usize) -> u8) -> Page {
        std::array::from_fn(byte)
    }

    #[test]
    fn zero_and_same_filled_pages_are_told_apart_from_all_others() {
        let mut codecs = Codecs::new().unwrap();
        let mut zero = page(|_| 0);
        assert_eq!(codecs.look_at(&zero), (PageContents::Zero, None));
        assert_eq!(codecs.look_at(&page(|place| (place % 8) as u8)), (PageContents::SameFilled, None));
        assert_eq!(codecs.look_at(&page(|_| 0xff)), (PageContents::SameFilled, None));
        // A word of 16 bytes is none.
        assert!(matches!(
            codecs.look_at(&page(|place| (place % 16) as u8)),
            (PageContents::Other { .. }, Some(_))
        ));
        zero[4095] = 1;
        let (lz4, zstd) = sizes(&zero);
        assert!(lz4 < 100 && zstd < 100, "{lz4} {zstd}");
    }

    #[test]
    fn text_compresses_and_random_bytes_do_not() {
        let source = include_bytes!("codecs.rs");
        let (lz4, zstd) = sizes(&page(|place| source[place % source.len()]));
        assert!((1000..COMPRESSIBLE_BYTES).contains(&lz4), "{lz4}");
        assert!(zstd < lz4, "{zstd} {lz4}");
        let random = page(|place| hash(place as u64) as u8);
        assert_eq!(sizes(&random), (PAGE_BYTES, PAGE_BYTES));
        let mut sampled = SampledPages::default();
        sampled.add(Codecs::new().unwrap().look_at(&random).0);
        assert_eq!((sampled.incompressible, sampled.lz4_ratio()), (1, Some(1.0)));
    }

    /// What is kept from one page to the next are tables, which change no size.
    #[test]
    fn a_page_has_one_size_whatever_came_before() {
        let mut codecs = Codecs::new().unwrap();
        let text = page(|place| b"the quick brown fox "[place % 20] ^ (place / 700) as u8);
        let first = codecs.look_at(&text).0;
        codecs.look_at(&page(|place| hash(place as u64) as u8));
        assert_eq!(codecs.look_at(&text).0, first);
    }

    /// Decompressed, a page is what it was: the time is that of the whole work.
    #[test]
    fn times_are_those_of_a_page_that_comes_back() {
        let text = page(|place| b"the quick brown fox "[place % 20] ^ (place / 700) as u8);
        let random = page(|place| hash(place as u64) as u8);
        let mut codecs = Codecs::new().unwrap();
        for page in [&text, &random] {
            let times = codecs.look_at(page).1.unwrap();
            assert_eq!(*codecs.decompressed, *page);
            for CodecTime { compress_ns, decompress_ns } in [times.lz4, times.zstd] {
                // A page is not compressed in less than 10 ns; a second would be a machine at rest.
                assert!((10..1_000_000_000).contains(&compress_ns), "{times:?}");
                assert!((10..1_000_000_000).contains(&decompress_ns), "{times:?}");
            }
        }
        let pages = [[0; PAGE_BYTES as usize], text, random];
        assert!(codecs.times_of(pages.iter()).is_some());
        assert_eq!(codecs.times_of(pages[..1].iter()), None);
    }
}
