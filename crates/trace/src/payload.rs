//! The payload of a chunk: its raw bytes in zstd frames.
//!
//! Most chunks are one frame. Page ids that are drawn at random hardly compress in their low bytes,
//! but take zstd as long to decode as others. So in a chunk that zstd cannot halve, each column is
//! a frame of its own, and a column that zstd does not make smaller by a quarter is stored as it
//! is, in a frame of raw blocks. `lab/bench/throughput` says what this saves.

use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// Columns shorter than this do not repay a frame of their own.
const LEAST_COLUMN: usize = 1 << 12;
/// Most bytes of a block of a frame.
const BLOCK: usize = 1 << 17;

/// Appends `raw` to `out`, in one frame, or in several if that is quicker to read: says whether it
/// is several. `ends` are the ends of columns of it, ascending; the rest is a column too.
pub(crate) fn pack(
    compressor: &mut Compressor<'static>,
    raw: &[u8],
    ends: &[usize],
    out: &mut Vec<u8>,
) -> io::Result<bool> {
    let begin = out.len();
    compress(compressor, raw, out)?;
    if out.len() - begin <= raw.len() / 2 || raw.len() < LEAST_COLUMN {
        return Ok(false);
    }
    let whole = out.split_off(begin);
    let mut is_plain = false;
    let mut start = 0;
    for end in ends.iter().copied().chain([raw.len()]) {
        let column = &raw[start..end];
        start = end;
        let frame = out.len();
        compress(compressor, column, out)?;
        if column.len() >= LEAST_COLUMN && out.len() - frame > column.len() / 4 * 3 {
            out.truncate(frame);
            store(column, out);
            is_plain = true;
        }
    }
    if !is_plain {
        out.truncate(begin);
        out.extend_from_slice(&whole);
    }
    Ok(is_plain)
}

/// Appends a compressed frame.
fn compress(compressor: &mut Compressor<'static>, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let begin = out.len();
    out.resize(begin + compress_bound(raw.len()), 0);
    let length = compressor.compress_to_buffer(raw, &mut out[begin..])?;
    out.truncate(begin + length);
    Ok(())
}

/// Appends a frame of raw blocks (RFC 8878, sections 3.1.1.1 and 3.1.1.2).
fn store(raw: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&0xfd2f_b528_u32.to_le_bytes());
    // One segment, with its length in four bytes.
    out.push(0b1010_0000);
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    let blocks = raw.len().div_ceil(BLOCK);
    for (number, block) in raw.chunks(BLOCK).enumerate() {
        let is_last = u32::from(number + 1 == blocks);
        // Bits 1 and 2: the type of the block, 0 for raw.
        let head = (block.len() as u32) << 3 | is_last;
        out.extend_from_slice(&head.to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zstd::bulk::Decompressor;

    /// Bytes without a pattern.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_does_not_compress_is_stored_and_all_comes_back() {
        let mut compressor = Compressor::new(6).unwrap();
        let mut decompressor = Decompressor::new().unwrap();
        for (random, regular, is_several) in [
            (0, 0, false),
            (10, 10, false),
            (120_000, 100_000, true),
            (BLOCK, 1, true),
            (BLOCK + 1, 50_000, true),
            (3 * BLOCK - 1, 4_000, true),
            (60_000, 200_000, false),
        ] {
            let raw = [&[7; 5][..], &noise(random), &vec![3; regular], &[1]].concat();
            let mut out = vec![9];
            let ends = [5, 5 + random, 5 + random + regular];
            assert_eq!(
                pack(&mut compressor, &raw, &ends, &mut out).unwrap(),
                is_several,
                "{random} {regular}"
            );
            let back = decompressor.decompress(&out[1..], raw.len()).unwrap();
            assert!(back == raw, "{random} {regular}");
            // The regular column is small either way.
            assert!(out.len() < random + 600, "{} bytes for {random}", out.len());
        }
    }
}
