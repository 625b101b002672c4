//! Reference strings from a rule and a seed.
//!
//! A [`Generator`] is an iterator of (page number, write). The same pattern, seed and number of
//! references give the same string on every machine. Randomness is SplitMix64, and `below(n)` is
//! the high 64 bits of a draw times n. Everything else is integers, or floating-point arithmetic
//! that IEEE 754 and the `libm` crate define exactly. Write flags come from a random stream of
//! their own, so asking for writes does not change the pages.
//!
//! A [`NamedPattern`] makes a [`Synthesis`] from text: the name of a pattern and values of its
//! parameters.

mod patterns;

use std::fmt;
use std::io::{Seek, Write};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::{EndTotals, Error, Header, Metadata, Writer};

pub use patterns::{Kind, NamedPattern, PATTERNS, Parameter};

/// A rule for the next page.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Pages 0 to `pages` - 1, over and over. One round of it is a scan.
    Loop {
        /// Pages in a round.
        pages: u64,
    },
    /// Every page equally likely.
    Uniform {
        /// Pages to choose from.
        pages: u64,
    },
    /// Page k - 1 with probability proportional to k to the power of -`exponent`.
    Zipf {
        /// Pages to choose from.
        pages: u64,
        /// 0 is uniform; the larger, the more goes to few pages.
        exponent: f64,
    },
    /// Look-ups through an index: a random leaf page of the index, a random record page, and so on
    /// by turns. The leaves are the first pages. (O'Neil, O'Neil and Weikum, *The LRU-K page
    /// replacement algorithm*, SIGMOD 1993.)
    IndexedDatabase {
        /// Leaf pages of the index.
        leaves: u64,
        /// Pages of records.
        records: u64,
    },
    /// Half the references Zipf, half a loop over other pages.
    Mixed {
        /// Pages of the Zipf half, which come first.
        zipf_pages: u64,
        /// Its exponent.
        exponent: f64,
        /// Pages of the loop.
        loop_pages: u64,
        /// Take turns, Zipf first, instead of tossing a coin each time.
        alternate: bool,
    },
}

impl Pattern {
    /// The indexed database of the paper: 100 leaves, 10,000 pages of records.
    pub const INDEXED_DATABASE: Self = Self::IndexedDatabase { leaves: 100, records: 10_000 };

    /// The mixture that throughput is measured with: Zipf 1.0 over a million pages, a loop over
    /// 200,000.
    pub const MIXED: Self =
        Self::Mixed { zipf_pages: 1_000_000, exponent: 1.0, loop_pages: 200_000, alternate: false };
}

/// Why a pattern cannot be generated, or that there is none of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

/// A trace to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthesis {
    /// What it is called, and the command that would make it.
    pub metadata: Metadata,
    /// The rule.
    pub pattern: Pattern,
    /// How many references.
    pub references: u64,
    /// The seed of the randomness.
    pub seed: u64,
    /// Share of the references that write, 0 to 1.
    pub writes: f64,
}

/// Why a trace cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SynthesisError {
    /// It is not well defined.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] Error),
    /// It was given up.
    #[error("was interrupted")]
    Interrupted,
}

/// The zstd level: random references compress no better at a higher one, and loops well at any.
const LEVEL: i32 = 1;
/// References between two reports of progress.
const STEP: u64 = 1 << 20;

impl Synthesis {
    /// Makes it. `progress` is called now and then with the number of references made, and says
    /// whether to go on.
    pub fn write<W: Write + Seek>(
        self,
        out: W,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(W, Header), SynthesisError> {
        if self.references == 0 {
            return Err(Invalid("0 references: there must be at least one".into()).into());
        }
        let mut generator = Generator::new(&self.pattern, self.seed, self.writes)?;
        let mut writer = Writer::with_level(out, self.metadata, LEVEL)?;
        let mut left = self.references;
        while left > 0 {
            let now = left.min(STEP);
            for (page, write) in generator.by_ref().take(now as usize) {
                writer.reference(page, write)?;
            }
            left -= now;
            if !progress(self.references - left) {
                return Err(SynthesisError::Interrupted);
            }
        }
        Ok(writer.finish(EndTotals::default())?)
    }
}

/// Most pages a Zipf distribution can have: its table takes 12 bytes or more a page.
const MAX_ZIPF_PAGES: u64 = 1 << 28;

/// Keeps the stream of write flags apart from the stream of pages.
const WRITE_STREAM: u64 = 0x5752_4954_4553_0001;

/// An endless reference string; take as many as are needed.
pub struct Generator {
    rule: Rule,
    pages: SplitMix64,
    writes: SplitMix64,
    /// A draw below this is a write.
    threshold: u64,
    always_write: bool,
}

enum Rule {
    Loop(Loop),
    Uniform { pages: u64 },
    Zipf(Zipf),
    IndexedDatabase { leaves: u64, records: u64, leaf: bool },
    Mixed { zipf: Zipf, scan: Loop, offset: u64, alternate: bool, zipf_next: bool },
}

impl Generator {
    /// The string of `pattern` and `seed`, in which a share of `writes` (0 to 1) of the references
    /// write.
    pub fn new(pattern: &Pattern, seed: u64, writes: f64) -> Result<Self, Invalid> {
        if !(0.0..=1.0).contains(&writes) {
            return Err(Invalid(format!("a share of writes of {writes}: it lies between 0 and 1")));
        }
        Ok(Self {
            rule: Rule::new(pattern)?,
            pages: SplitMix64::seed_from_u64(seed),
            writes: SplitMix64::seed_from_u64(seed ^ WRITE_STREAM),
            threshold: scaled(writes),
            always_write: writes == 1.0,
        })
    }

    fn page(&mut self) -> u64 {
        let random = &mut self.pages;
        match &mut self.rule {
            Rule::Loop(scan) => scan.next(),
            Rule::Uniform { pages } => below(random, *pages),
            Rule::Zipf(zipf) => zipf.draw(random),
            Rule::IndexedDatabase { leaves, records, leaf } => {
                *leaf = !*leaf;
                if *leaf { below(random, *leaves) } else { *leaves + below(random, *records) }
            }
            Rule::Mixed { zipf, scan, offset, alternate, zipf_next } => {
                *zipf_next = if *alternate { !*zipf_next } else { random.next_u64() >> 63 == 0 };
                if *zipf_next { zipf.draw(random) } else { *offset + scan.next() }
            }
        }
    }
}

impl Iterator for Generator {
    type Item = (u64, bool);

    #[inline]
    fn next(&mut self) -> Option<(u64, bool)> {
        let page = self.page();
        let write = self.always_write || (self.threshold > 0 && self.writes.next_u64() < self.threshold);
        Some((page, write))
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator").finish_non_exhaustive()
    }
}

impl Rule {
    fn new(pattern: &Pattern) -> Result<Self, Invalid> {
        Ok(match *pattern {
            Pattern::Loop { pages } => Self::Loop(Loop::new(pages)?),
            Pattern::Uniform { pages } => Self::Uniform { pages: some(pages, "pages")? },
            Pattern::Zipf { pages, exponent } => Self::Zipf(Zipf::new(pages, exponent)?),
            Pattern::IndexedDatabase { leaves, records } => {
                let (leaves, records) = (some(leaves, "leaves")?, some(records, "records")?);
                leaves.checked_add(records).ok_or_else(|| Invalid("too many pages".to_owned()))?;
                Self::IndexedDatabase { leaves, records, leaf: false }
            }
            Pattern::Mixed { zipf_pages, exponent, loop_pages, alternate } => Self::Mixed {
                zipf: Zipf::new(zipf_pages, exponent)?,
                scan: Loop::new(loop_pages)?,
                offset: zipf_pages,
                alternate,
                zipf_next: false,
            },
        })
    }
}

fn some(pages: u64, what: &str) -> Result<u64, Invalid> {
    match pages {
        0 => Err(Invalid(format!("0 {what}: there must be at least one"))),
        _ if pages > crate::MAX_PAGES.into() => {
            Err(Invalid(format!("{pages} {what}: a trace holds at most {}", crate::MAX_PAGES)))
        }
        _ => Ok(pages),
    }
}

/// A number below `n`, every one equally likely.
#[inline]
fn below(random: &mut SplitMix64, n: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(n)) >> 64) as u64
}

/// `share` of 2^64.
fn scaled(share: f64) -> u64 {
    // The conversion saturates.
    (share * 18_446_744_073_709_551_616.0) as u64
}

struct Loop {
    pages: u64,
    next: u64,
}

impl Loop {
    fn new(pages: u64) -> Result<Self, Invalid> {
        Ok(Self { pages: some(pages, "pages")?, next: 0 })
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let page = self.next;
        self.next = if page + 1 == self.pages { 0 } else { page + 1 };
        page
    }
}

/// Zipf's distribution by inversion: the page is the number of cumulative weights a draw is not
/// below. A guide table (Chen and Asau, 1974) says where to begin, so a draw costs two or three
/// look-ups.
struct Zipf {
    /// Cumulative weights as shares of 2^64; the last is not looked at.
    cumulative: Vec<u64>,
    /// For each value of the draw's high bits, the first page whose cumulative weight is above
    /// them.
    guide: Vec<u32>,
    shift: u32,
}

impl Zipf {
    fn new(pages: u64, exponent: f64) -> Result<Self, Invalid> {
        let pages = some(pages, "pages")?;
        if pages > MAX_ZIPF_PAGES {
            return Err(Invalid(format!("{pages} pages: a Zipf distribution has at most {MAX_ZIPF_PAGES}")));
        }
        if !(0.0..=100.0).contains(&exponent) {
            return Err(Invalid(format!("an exponent of {exponent}: it lies between 0 and 100")));
        }
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=pages)
            .map(|rank| {
                sum += 1.0 / if exponent == 1.0 { rank as f64 } else { libm::pow(rank as f64, exponent) };
                sum
            })
            .collect();
        let cumulative: Vec<u64> = sums.iter().map(|partial| scaled(partial / sum)).collect();
        let bits = pages.next_power_of_two().trailing_zeros().max(1);
        let shift = 64 - bits;
        let mut page = 0;
        let guide = (0..1u64 << bits)
            .map(|bucket| {
                while page + 1 < pages && cumulative[page as usize] <= bucket << shift {
                    page += 1;
                }
                page as u32
            })
            .collect();
        Ok(Self { cumulative, guide, shift })
    }

    #[inline]
    fn draw(&self, random: &mut SplitMix64) -> u64 {
        let draw = random.next_u64();
        let bucket = (draw >> self.shift) as usize;
        let first = self.guide[bucket] as usize;
        let last = self.guide.get(bucket + 1).map_or(self.cumulative.len() - 1, |last| *last as usize);
        (first + self.cumulative[first..last].partition_point(|weight| *weight <= draw)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pattern: &Pattern, seed: u64, n: usize) -> Vec<u64> {
        Generator::new(pattern, seed, 0.0).unwrap().map(|(page, _)| page).take(n).collect()
    }

    #[test]
    fn splitmix64_is_the_published_one() {
        let mut random = SplitMix64::seed_from_u64(1_234_567);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn a_loop_loops() {
        assert_eq!(pages(&Pattern::Loop { pages: 3 }, 0, 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(pages(&Pattern::Loop { pages: 1 }, 0, 2), [0, 0]);
    }

    #[test]
    fn zipf_draws_are_the_inverse_of_the_cumulative_weights() {
        for (n, exponent) in [(1, 1.0), (2, 1.0), (7, 0.0), (1000, 0.8), (1000, 1.0), (5000, 3.0)] {
            let zipf = Zipf::new(n, exponent).unwrap();
            let mut random = SplitMix64::seed_from_u64(5);
            for _ in 0..20_000 {
                let draw = random.clone().next_u64();
                let naive =
                    zipf.cumulative[..n as usize - 1].iter().filter(|weight| **weight <= draw).count();
                assert_eq!(
                    zipf.draw(&mut random),
                    naive as u64,
                    "{n} pages, exponent {exponent}, draw {draw}"
                );
            }
        }
    }

    #[test]
    fn zipf_frequencies_fall_as_they_should() {
        let n = 1_000_000;
        let mut counts = [0u32; 100];
        for page in pages(&Pattern::Zipf { pages: 100, exponent: 1.0 }, 9, n) {
            counts[page as usize] += 1;
        }
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for (page, count) in counts.iter().enumerate() {
            let expected = n as f64 / harmonic / (page + 1) as f64;
            assert!((f64::from(*count) - expected).abs() < 5.0 * expected.sqrt(), "page {page}: {count}");
        }
    }

    /// The numbers of the prototype: 20,000 look-ups, 101 frames, the second half, hits on leaves.
    #[test]
    fn the_indexed_database_gives_lru_and_fifo_their_published_share_of_leaves() {
        let string = pages(&Pattern::INDEXED_DATABASE, 1, 40_000);
        for (moves_on_hit, expected) in [(true, 43.8), (false, 38.6)] {
            let mut queue: Vec<u64> = Vec::new();
            let mut hits = 0;
            for (i, &page) in string.iter().enumerate() {
                let place = queue.iter().position(|other| *other == page);
                hits += u32::from(place.is_some() && page < 100 && i >= 20_000);
                match place {
                    Some(place) if moves_on_hit => {
                        queue.remove(place);
                        queue.push(page);
                    }
                    Some(_) => {}
                    None => {
                        if queue.len() == 101 {
                            queue.remove(0);
                        }
                        queue.push(page);
                    }
                }
            }
            let share = f64::from(hits) / 100.0;
            assert!((share - expected).abs() < 0.05, "{share} instead of {expected}");
        }
    }

    #[test]
    fn a_mixture_is_half_and_half() {
        let mixed = |alternate| Pattern::Mixed { zipf_pages: 10, exponent: 1.0, loop_pages: 3, alternate };
        let string = pages(&mixed(true), 3, 8);
        assert!(string.iter().step_by(2).all(|page| *page < 10));
        assert_eq!(string.iter().skip(1).step_by(2).copied().collect::<Vec<_>>(), [10, 11, 12, 10]);
        let string = pages(&mixed(false), 3, 10_000);
        let looped: Vec<u64> = string.into_iter().filter(|page| *page >= 10).collect();
        assert!((4_800..5_200).contains(&looped.len()));
        assert!(looped.iter().zip([10, 11, 12].iter().cycle()).all(|(page, expected)| page == expected));
    }

    #[test]
    fn writes_take_their_share_and_leave_the_pages_alone() {
        let pattern = Pattern::Uniform { pages: 50 };
        for (share, least, most) in [(0.0, 0, 0), (0.25, 2_300, 2_700), (1.0, 10_000, 10_000)] {
            let string: Vec<_> = Generator::new(&pattern, 4, share).unwrap().take(10_000).collect();
            let writes = string.iter().filter(|(_, write)| *write).count();
            assert!((least..=most).contains(&writes), "{writes} of share {share}");
            assert!(string.iter().map(|(page, _)| *page).eq(pages(&pattern, 4, 10_000)));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (pattern, writes) in [
            (Pattern::Loop { pages: 0 }, 0.0),
            (Pattern::Uniform { pages: 1 << 40 }, 0.0),
            (Pattern::Zipf { pages: 10, exponent: f64::NAN }, 0.0),
            (Pattern::Zipf { pages: 10, exponent: -1.0 }, 0.0),
            (Pattern::IndexedDatabase { leaves: 1, records: 0 }, 0.0),
            (Pattern::Loop { pages: 1 }, 1.5),
            (Pattern::Loop { pages: 1 }, f64::NAN),
        ] {
            assert!(Generator::new(&pattern, 0, writes).is_err(), "{pattern:?} {writes}");
        }
    }
}
