//! A value of a row, and the numbers in text.

use super::description::{ROLES, Role};
use crate::Error;
use crate::lines;
use std::fmt;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// The row has none.
    Absent,
    Text(&'a [u8]),
    Number(u64),
    Real(f64),
    /// A floating-point number so large that several whole ones are the same.
    Rounded(f64),
}

impl Value<'_> {
    /// A float. Tables that know no absent whole numbers have NaN in their place.
    pub(super) fn single(number: f32) -> Self {
        Self::floating(number.into(), WHOLE_SINGLE)
    }

    /// A double.
    pub(super) fn double(number: f64) -> Self {
        Self::floating(number, WHOLE_DOUBLE)
    }

    fn floating(number: f64, whole_to: f64) -> Self {
        match number {
            number if number.is_nan() => Self::Absent,
            number if number.abs() > whole_to => Self::Rounded(number),
            number => Self::Real(number),
        }
    }
}

/// The values of a row, by [`Role`].
pub(crate) type Row<'a> = [Value<'a>; ROLES];

/// A row without a value.
pub(crate) const NO_ROW: Row<'_> = [Value::Absent; ROLES];

/// Keeps a row and its time.
pub(crate) type Keep<'a> = &'a mut dyn FnMut(f64, &Row<'_>) -> Result<(), Error>;

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Ok(()),
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
            Self::Number(number) => number.fmt(f),
            Self::Real(number) | Self::Rounded(number) => number.fmt(f),
        }
    }
}

/// 2^53: a double beyond it has lost what tells it from the next whole number.
const WHOLE_DOUBLE: f64 = 9_007_199_254_740_992.0;

/// 2^24: the same of a float.
const WHOLE_SINGLE: f64 = 16_777_216.0;

/// A number of no fraction.
pub(super) fn whole(number: f64) -> Option<u64> {
    ((0.0..=WHOLE_DOUBLE).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// A whole number: decimal, also with a fraction of zeros, or hexadecimal after 0x.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    // The usual one, quickly.
    if (1..=19).contains(&text.len()) {
        let mut number = 0u64;
        let mut digits = true;
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            digits &= digit < 10;
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        if digits {
            return Some(number);
        }
    }
    if let [b'0', b'x' | b'X', digits @ ..] = text {
        return lines::hexadecimal(digits);
    }
    let end = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (digits, fraction) = text.split_at(end);
    let nothing = fraction.iter().skip(1).all(|digit| *digit == b'0');
    if nothing { lines::decimal(digits) } else { None }
}

/// A hexadecimal number, with or without 0x.
pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
    lines::hexadecimal(digits)
}

/// Why a number with the letters of a hexadecimal one is refused: the rows with digits only would
/// be read as decimal.
pub(super) const HEXADECIMAL: &str = "hexadecimal digits without 0x: write :hex behind the column, as in \
    offset=2:hex, and all rows are read so (an exponent of an offset has a sign, as in 1e+6)";

pub(super) const NO_HEXADECIMAL: &str = "a binary number in a column that is said to be hexadecimal text";

pub(super) fn is_hexadecimal(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_hexdigit) && text.iter().any(u8::is_ascii_digit)
}

/// A whole number with an exponent, such as 1.5e+06. An offset like 1e6 is none: it may be
/// hexadecimal.
pub(super) fn exponent(text: &[u8], role: Role) -> Option<u64> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let is_sure = role != Role::Offset || text.iter().any(|byte| matches!(byte, b'.' | b'+'));
    if !is_sure || !text.iter().all(is_part) || !text.first()?.is_ascii_digit() {
        return None;
    }
    let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    if text.iter().any(|byte| matches!(byte, b'e' | b'E')) { whole(number) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_decimal_or_hexadecimal() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("4096.0", Some(4096)),
            ("4096.", Some(4096)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0x10", Some(16)),
            ("", None),
            ("4096.5", None),
            ("18446744073709551616", None),
            ("-1", None),
            ("1e3", None),
            ("0x", None),
            (".", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn exponents_of_offsets_have_a_sign_or_a_point() {
        for (text, size, offset) in [
            ("1e6", Some(1_000_000), None),
            ("1E+06", Some(1_000_000), Some(1_000_000)),
            ("1.5e3", Some(1500), Some(1500)),
            ("4.096e+03", Some(4096), Some(4096)),
            ("15e-1", None, None),
            ("1e20", None, None),
            ("1e", None, None),
            ("e6", None, None),
            ("-1e6", None, None),
            ("inf", None, None),
            ("1a6", None, None),
        ] {
            let found = [Role::Size, Role::Offset].map(|role| exponent(text.as_bytes(), role));
            assert_eq!(found, [size, offset], "{text:?}");
        }
    }
}
