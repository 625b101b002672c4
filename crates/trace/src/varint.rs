//! LEB128 variable-length integers and the zig-zag code.
//!
//! Seven bits a byte, low group first; the high bit says that more follow. Zig-zag maps small
//! signed numbers to small unsigned ones: 0, -1, 1, -2, ... to 0, 1, 2, 3, ...

/// Longest encoding of a `u64`.
pub(crate) const MAX_LENGTH: usize = 10;

/// Why a varint could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The bytes end inside it.
    Truncated,
    /// It does not fit 64 bits.
    Overflow,
    /// It could be shorter (found only by [`get_shortest`]).
    Overlong,
}

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint at `*at` and moves `*at` behind it.
#[inline]
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Result<u64, Bad> {
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(u64::from(byte))
        }
        _ => get_long(bytes, at),
    }
}

fn get_long(bytes: &[u8], at: &mut usize) -> Result<u64, Bad> {
    let mut value = 0;
    for (i, &byte) in bytes[*at..].iter().take(MAX_LENGTH).enumerate() {
        if i == MAX_LENGTH - 1 && byte > 1 {
            return Err(Bad::Overflow);
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *at += i + 1;
            return Ok(value);
        }
    }
    Err(Bad::Truncated)
}

/// Like [`get`], and refuses an encoding that is longer than it need be.
#[inline]
pub(crate) fn get_shortest(bytes: &[u8], at: &mut usize) -> Result<u64, Bad> {
    let start = *at;
    let value = get(bytes, at)?;
    if *at - start > 1 && bytes[*at - 1] == 0 { Err(Bad::Overlong) } else { Ok(value) }
}

/// Zig-zag code of a difference.
#[inline]
pub(crate) const fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The difference with this zig-zag code.
#[inline]
pub(crate) const fn unzigzag(code: u64) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    #[test]
    fn boundaries_round_trip_in_the_shortest_form() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let _input = trying(|| format!("{value:#x}"));
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                let mut at = 0;
                assert_eq!(get_shortest(&bytes, &mut at), Ok(value));
                assert_eq!(at, bytes.len());
                for end in 0..bytes.len() {
                    assert_eq!(get(&bytes[..end], &mut 0), Err(Bad::Truncated));
                }
                assert_eq!(zigzag(unzigzag(value)), value);
            }
        }
    }

    #[test]
    fn too_long_and_too_large_are_told_apart() {
        assert_eq!(get(&[0x81, 0x00], &mut 0), Ok(1));
        assert_eq!(get_shortest(&[0x81, 0x00], &mut 0), Err(Bad::Overlong));
        let mut largest = vec![0xff; 9];
        largest.push(1);
        assert_eq!(get_shortest(&largest, &mut 0), Ok(u64::MAX));
        largest[9] = 2;
        assert_eq!(get(&largest, &mut 0), Err(Bad::Overflow));
        assert_eq!(get(&[0x80; 11], &mut 0), Err(Bad::Overflow));
    }
}
