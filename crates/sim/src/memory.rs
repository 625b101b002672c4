//! Memory sizes as users write them.

use std::fmt;
use std::str::FromStr;

/// A memory size: `300p` pages, `64MiB` bytes, `25%` of the distinct pages of a trace, or `all`
/// sizes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MemorySize {
    /// This many pages.
    Pages(u64),
    /// This many bytes.
    Bytes(u64),
    /// A share of the trace's distinct pages, in percent.
    Percent(f64),
    /// Every size from one page to all distinct pages of the trace.
    All,
}

/// A memory size that cannot be read, or that is less than one page.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("memory size '{text}': {reason}")]
pub struct MemorySizeError {
    /// The size as typed.
    pub text: String,
    /// What is wrong, and what would be right.
    pub reason: &'static str,
}

/// In small letters: any will do. `64M` is what other tools call 64 MiB.
const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("b", 1),
];
/// Frames are numbered with 32 bits.
const MOST_PAGES: u64 = u32::MAX as u64;
const MOST_BYTES: u64 = 16 << 40;
const MOST_PERCENT: f64 = 100_000.0;

impl FromStr for MemorySize {
    type Err = MemorySizeError;

    fn from_str(text: &str) -> Result<Self, MemorySizeError> {
        let error = |reason| MemorySizeError { text: text.to_string(), reason };
        let small = text.trim().to_ascii_lowercase();
        let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let size = if small == "all" {
            MemorySize::All
        } else if let Some(percent) = small.strip_suffix('%') {
            MemorySize::Percent(number(percent).ok_or(error("write a share as in 25%"))?)
        } else if let Some(pages) = small.strip_suffix('p') {
            MemorySize::Pages(pages.trim().parse().map_err(|_| error("write whole pages as in 300p"))?)
        } else if let Some((digits, unit)) =
            UNITS.iter().find_map(|(name, unit)| Some((small.strip_suffix(name)?, *unit as f64)))
        {
            let bytes = number(digits).ok_or(error("write bytes as in 64MiB"))? * unit;
            // Fractions of a byte do not count; a negative size becomes 0 and is refused below.
            MemorySize::Bytes(bytes as u64)
        } else {
            return Err(error("give it a unit: 300p for pages, 64MiB for bytes, 25% of the trace's pages"));
        };
        match size {
            MemorySize::Percent(percent) if percent <= 0.0 => Err(error("must be more than 0")),
            MemorySize::Pages(0) | MemorySize::Bytes(0) => Err(error("must be more than 0")),
            MemorySize::Pages(pages) if pages > MOST_PAGES => Err(error("4294967295p is the most there is")),
            MemorySize::Bytes(bytes) if bytes > MOST_BYTES => Err(error("16TiB is the most there is")),
            MemorySize::Percent(percent) if percent > MOST_PERCENT => {
                Err(error("100000% is the most there is"))
            }
            size => Ok(size),
        }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Pages(pages) => write!(f, "{pages}p"),
            MemorySize::Bytes(bytes) => write!(f, "{bytes}B"),
            MemorySize::Percent(percent) => write!(f, "{percent}%"),
            MemorySize::All => f.write_str("all"),
        }
    }
}

impl MemorySize {
    /// Reads a comma list.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, MemorySizeError> {
        text.split(',').map(|item| item.trim().parse()).collect()
    }

    /// The sizes in pages, for a trace with that many distinct pages of that many bytes: one size,
    /// or all of them. Shares are rounded to the nearest page, bytes down to whole pages; a size is
    /// at least one page.
    /// More pages than ids can number are an error.
    pub fn frames(self, distinct_pages: u64, page_bytes: u64) -> Result<Vec<usize>, MemorySizeError> {
        let frames = match self {
            MemorySize::All => return Ok((1..=distinct_pages.max(1) as usize).collect()),
            MemorySize::Pages(pages) => pages,
            MemorySize::Bytes(bytes) => bytes / page_bytes,
            MemorySize::Percent(percent) => (percent * distinct_pages as f64 / 100.0).round() as u64,
        };
        if frames > u64::from(u32::MAX) {
            let reason = "comes to more than 4294967295 pages, the most that there can be";
            return Err(MemorySizeError { text: self.to_string(), reason });
        }
        Ok(vec![frames.max(1) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_to_pages() {
        let frames = |text: &str| text.parse::<MemorySize>().unwrap().frames(1223, 4096).unwrap();
        assert_eq!(frames("300p"), [300]);
        assert_eq!(frames("1MiB"), [256]);
        assert_eq!(frames("1.5MiB"), [384]);
        assert_eq!(frames("1MB"), [244]);
        // As it is written elsewhere.
        for text in ["64M", "64MiB", "64mib", " 64m"] {
            assert_eq!(text.parse(), Ok(MemorySize::Bytes(64 << 20)), "{text}");
        }
        assert_eq!("2tb".parse(), Ok(MemorySize::Bytes(2_000_000_000_000)));
        assert_eq!(frames("300P"), [300]);
        assert_eq!(frames("25%"), [306]);
        assert_eq!(frames("0.01%"), [1]);
        assert_eq!(frames("100B"), [1]);
        assert_eq!("all".parse::<MemorySize>().unwrap().frames(3, 4096).unwrap(), [1, 2, 3]);
        assert_eq!(frames("4294967295p"), [u32::MAX as usize]);
    }

    #[test]
    fn no_size_is_cut_to_what_there_can_be() {
        for text in ["4294967296p", "16TiB", "1e300%"] {
            // As it is read, or for the trace that it is a share of.
            let frames = text.parse().and_then(|size: MemorySize| size.frames(1223, 4096));
            let error = frames.unwrap_err().to_string();
            assert!(
                error.contains("is the most there is") || error.ends_with("the most that there can be"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_says_what_can() {
        let error = |text: &str| text.parse::<MemorySize>().unwrap_err().to_string();
        assert_eq!(
            error("300"),
            "memory size '300': give it a unit: 300p for pages, 64MiB for bytes, 25% of the trace's pages"
        );
        assert_eq!(error("0p"), "memory size '0p': must be more than 0");
        assert_eq!(error("-5%"), "memory size '-5%': must be more than 0");
        assert_eq!(error("1.5p"), "memory size '1.5p': write whole pages as in 300p");
        assert_eq!(error("xMiB"), "memory size 'xMiB': write bytes as in 64MiB");
        assert_eq!(error("NaN%"), "memory size 'NaN%': write a share as in 25%");
        // Nothing is cut down in silence.
        assert_eq!(error("9999999999999p"), "memory size '9999999999999p': 4294967295p is the most there is");
        assert_eq!(error("17TiB"), "memory size '17TiB': 16TiB is the most there is");
        assert_eq!(error("1e9%"), "memory size '1e9%': 100000% is the most there is");
    }
}
