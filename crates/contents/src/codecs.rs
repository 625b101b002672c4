//! What one page contains.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::fmt;
use std::io;
use sweephand_trace::contents::{PAGE_BYTES, PageContents};
use zstd::bulk::Compressor;

/// The fast level that compressed swap uses.
const ZSTD_LEVEL: i32 = -1;

/// The bytes of a page.
pub(crate) type Page = [u8; PAGE_BYTES as usize];

/// The codecs, with the memory that they need.
pub struct Codecs {
    lz4: CompressTable,
    zstd: Compressor<'static>,
    /// What a codec makes of a page.
    compressed: Vec<u8>,
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
            compressed: vec![0; most],
        })
    }

    /// What a page contains.
    pub fn look_at(&mut self, page: &[u8; PAGE_BYTES as usize]) -> PageContents {
        let (words, _) = page.as_chunks::<{ size_of::<u64>() }>();
        if words.iter().all(|word| *word == words[0]) {
            return if words[0] == [0; 8] { PageContents::Zero } else { PageContents::SameFilled };
        }
        // A buffer that holds the worst case is never too small.
        let lz4 = compress_into_with_table(page, &mut self.compressed, &mut self.lz4);
        let lz4_bytes = lz4.map_or(PAGE_BYTES as usize, |bytes| bytes.min(PAGE_BYTES as usize));
        let zstd = self.zstd.compress_to_buffer(page, &mut self.compressed[..]);
        let zstd_bytes = zstd.map_or(PAGE_BYTES as usize, |bytes| bytes.min(PAGE_BYTES as usize));
        PageContents::Other { lz4_bytes: lz4_bytes as u16, zstd_bytes: zstd_bytes as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;
    use sweephand_trace::contents::{COMPRESSIBLE_BYTES, SampledPages};

    fn sizes(page: &Page) -> (u64, u64) {
        match Codecs::new().unwrap().look_at(page) {
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
        assert_eq!(codecs.look_at(&zero), PageContents::Zero);
        assert_eq!(codecs.look_at(&page(|place| (place % 8) as u8)), PageContents::SameFilled);
        assert_eq!(codecs.look_at(&page(|_| 0xff)), PageContents::SameFilled);
        // A word of 16 bytes is none.
        assert!(matches!(codecs.look_at(&page(|place| (place % 16) as u8)), PageContents::Other { .. }));
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
        sampled.add(Codecs::new().unwrap().look_at(&random));
        assert_eq!((sampled.incompressible, sampled.lz4_ratio()), (1, Some(1.0)));
    }

    /// What is kept from one page to the next are tables, which change no size.
    #[test]
    fn a_page_has_one_size_whatever_came_before() {
        let mut codecs = Codecs::new().unwrap();
        let text = page(|place| b"the quick brown fox "[place % 20] ^ (place / 700) as u8);
        let first = codecs.look_at(&text);
        codecs.look_at(&page(|place| hash(place as u64) as u8));
        assert_eq!(codecs.look_at(&text), first);
    }
}
