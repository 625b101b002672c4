//! Numbers as people read them.

/// Bytes in the largest unit that keeps three digits: `9.5 MiB`.
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 {
            let decimals = if unit == "B" || value >= 100.0 { 0 } else { 1 };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A number with its digits in groups of three: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds to hundredths; if they are fewer than a tenth, with two digits that are not zero.
pub fn seconds(seconds: f64) -> String {
    let decimals = if seconds > 0.0 && seconds < 0.1 { 1 - seconds.log10().floor() as i32 } else { 2 };
    // Below a microsecond, all are alike.
    format!("{seconds:.*}", decimals.min(7) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_three_digits() {
        assert_eq!([0, 999, 1000, 9_961_472].map(bytes), ["0 B", "999 B", "1.0 KiB", "9.5 MiB"]);
        assert_eq!([200 << 20, 5 << 40].map(bytes), ["200 MiB", "5.0 TiB"]);
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn few_seconds_have_more_decimals() {
        let shown = [123.456, 1.0, 0.1, 0.0999, 0.0034, 0.000_021, 0.0].map(seconds);
        assert_eq!(shown, ["123.46", "1.00", "0.10", "0.100", "0.0034", "0.000021", "0.00"]);
    }
}
