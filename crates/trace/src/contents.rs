//! What the pages of a program contain: of a sample of them, how many are zero, and how small the
//! others become when they are compressed.
//!
//! A recorder reads pages at moments that are spread over the run. It keeps these counts and how
//! long the codecs took, and no byte of a page. They are an optional part of a trace's metadata
//! ([`Metadata::contents`](crate::Metadata::contents)), which a program that does not know it
//! ignores. Counts that contradict each other are damage, and are refused.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a page: the recorders have no others.
pub const PAGE_BYTES: u64 = 4096;
/// Classes of compressed sizes, each as wide as the others.
pub const SIZE_CLASSES: usize = 16;
/// The width of a class: class `i` has the sizes above `i` times this, up to `i + 1` times this.
pub const CLASS_BYTES: u64 = PAGE_BYTES / SIZE_CLASSES as u64;
/// A page that no codec makes smaller than this is incompressible: three quarters of a page.
pub const COMPRESSIBLE_BYTES: u64 = PAGE_BYTES / 4 * 3;
/// The most rows by object. If there are more objects, the last row is [`OTHERS`].
pub const MOST_OBJECTS: usize = 64;
/// The row of the objects that have none of their own.
pub const OTHERS: &str = "others";
/// The age classes, in the order of [`Contents::ages`]: quarters of the sampled pages of a moment,
/// by their last use.
pub const AGES: [&str; 5] =
    ["newest quarter", "second quarter", "third quarter", "oldest quarter", "use not seen"];

/// How names begin that are paths and not those of files: memory that programs share. It goes to
/// swap.
const SHARED_MEMORY: [&str; 4] = ["/dev/shm/", "/dev/zero", "/memfd:", "/SYSV"];
/// More sampled pages than any recording has.
const MOST_PAGES: u64 = 1 << 32;
/// No codec takes longer for a page, in nanoseconds.
const MOST_CODEC_NS: u64 = 1_000_000_000;

/// Whether a mapping of this name is of a file. Its pages do not go to swap, except the few that
/// the program has changed: a kernel reads them from the file again.
pub fn is_of_file(name: &str) -> bool {
    name.starts_with('/') && !SHARED_MEMORY.iter().any(|shared| name.starts_with(shared))
}

/// What a page contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageContents {
    /// Zeros alone.
    Zero,
    /// One word of 8 bytes, again and again, which is not zero.
    SameFilled,
    /// Anything else, with the bytes that each codec makes of it. A page that becomes larger counts
    /// as a whole page.
    Other {
        /// LZ4's.
        lz4_bytes: u16,
        /// Zstandard's, at level -1.
        zstd_bytes: u16,
    },
}

/// Sizes that a codec makes of pages. Pages that are zero or same-filled are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecSizes {
    /// All sizes together.
    pub bytes: u64,
    /// How many pages there are in each class of sizes.
    pub by_size: [u64; SIZE_CLASSES],
}

impl CodecSizes {
    fn add(&mut self, bytes: u16) {
        let bytes = u64::from(bytes).clamp(1, PAGE_BYTES);
        self.bytes += bytes;
        self.by_size[((bytes - 1) / CLASS_BYTES) as usize] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.by_size.iter_mut().zip(&other.by_size).for_each(|(sum, pages)| *sum += pages);
    }

    /// Whether these can be the sizes of this many pages, of which there are not too many.
    fn are_of(&self, pages: u64) -> bool {
        let classes = || self.by_size.iter().zip(0..).map(|(pages, class)| (u128::from(*pages), class));
        let class_bytes = u128::from(CLASS_BYTES);
        let all: u128 = classes().map(|(pages, _)| pages).sum();
        let least: u128 = classes().map(|(pages, class)| pages * (class * class_bytes + 1)).sum();
        let most: u128 = classes().map(|(pages, class)| pages * (class + 1) * class_bytes).sum();
        all == u128::from(pages) && (least..=most).contains(&u128::from(self.bytes))
    }

    /// How many times smaller the pages become; `None` without pages.
    fn ratio(&self) -> Option<f64> {
        let pages: u64 = self.by_size.iter().sum();
        (pages > 0).then(|| (pages * PAGE_BYTES) as f64 / self.bytes as f64)
    }
}

/// How long a codec takes for a page, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecTime {
    /// To compress it.
    pub compress_ns: u64,
    /// To decompress it.
    pub decompress_ns: u64,
}

impl CodecTime {
    /// These, or what comes closest in the range that a trace may have.
    pub fn new(compress_ns: u128, decompress_ns: u128) -> Self {
        let in_range = |ns: u128| ns.clamp(1, MOST_CODEC_NS.into()) as u64;
        Self { compress_ns: in_range(compress_ns), decompress_ns: in_range(decompress_ns) }
    }
}

/// How long the codecs take for a page that is neither zero nor same-filled, in the recording
/// command, on the machine that recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecTimes {
    /// LZ4.
    pub lz4: CodecTime,
    /// Zstandard at level -1.
    pub zstd: CodecTime,
}

impl CodecTimes {
    /// The medians, each by itself; of two in the middle the larger. A page at which the thread was
    /// interrupted does not change them. `None`: there are no times.
    pub fn medians(all: &[Self]) -> Option<Self> {
        let median = |of: fn(&Self) -> u64| {
            let mut values: Vec<u64> = all.iter().map(of).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        Some(Self {
            lz4: CodecTime {
                compress_ns: median(|times| times.lz4.compress_ns)?,
                decompress_ns: median(|times| times.lz4.decompress_ns)?,
            },
            zstd: CodecTime {
                compress_ns: median(|times| times.zstd.compress_ns)?,
                decompress_ns: median(|times| times.zstd.decompress_ns)?,
            },
        })
    }

    /// Whether a codec could take these.
    pub fn is_sound(&self) -> bool {
        let Self { lz4, zstd } = self;
        let times = [lz4.compress_ns, lz4.decompress_ns, zstd.compress_ns, zstd.decompress_ns];
        times.iter().all(|ns| (1..=MOST_CODEC_NS).contains(ns))
    }
}

/// As `info` and the report say it.
impl fmt::Display for CodecTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        let Self { lz4, zstd } = self;
        write!(
            f,
            "LZ4 {:.1} us to compress a page, {:.1} us to decompress; zstd {:.1} us, {:.1} us",
            us(lz4.compress_ns),
            us(lz4.decompress_ns),
            us(zstd.compress_ns),
            us(zstd.decompress_ns)
        )
    }
}

/// Sampled pages, counted by what they contain. A page counts at each moment at which it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledPages {
    /// All of them.
    pub pages: u64,
    /// Those that are zero.
    pub zero: u64,
    /// Those that are same-filled, and not zero.
    pub same_filled: u64,
    /// Those that no codec makes smaller than [`COMPRESSIBLE_BYTES`].
    pub incompressible: u64,
    /// What LZ4 makes of the others: of all pages that are neither zero nor same-filled.
    pub lz4: CodecSizes,
    /// What Zstandard makes of the same pages at level -1.
    pub zstd: CodecSizes,
}

impl SampledPages {
    /// Adds a page.
    pub fn add(&mut self, contents: PageContents) {
        self.pages += 1;
        match contents {
            PageContents::Zero => self.zero += 1,
            PageContents::SameFilled => self.same_filled += 1,
            PageContents::Other { lz4_bytes, zstd_bytes } => {
                self.lz4.add(lz4_bytes);
                self.zstd.add(zstd_bytes);
                let least = u64::from(lz4_bytes.min(zstd_bytes));
                self.incompressible += u64::from(least > COMPRESSIBLE_BYTES);
            }
        }
    }

    /// Adds the pages of another count.
    pub fn merge(&mut self, other: &Self) {
        self.pages += other.pages;
        self.zero += other.zero;
        self.same_filled += other.same_filled;
        self.incompressible += other.incompressible;
        self.lz4.merge(&other.lz4);
        self.zstd.merge(&other.zstd);
    }

    /// How many times smaller LZ4 makes the pages that are neither zero nor same-filled. `None`:
    /// there are none.
    pub fn lz4_ratio(&self) -> Option<f64> {
        self.lz4.ratio()
    }

    /// The same of Zstandard at level -1.
    pub fn zstd_ratio(&self) -> Option<f64> {
        self.zstd.ratio()
    }

    /// Some of the pages as a share of all.
    pub fn share(&self, pages: u64) -> f64 {
        pages as f64 / self.pages.max(1) as f64
    }

    fn is_sound(&self) -> bool {
        let others =
            self.zero.checked_add(self.same_filled).and_then(|filled| self.pages.checked_sub(filled));
        self.pages <= MOST_PAGES
            && others.is_some_and(|others| {
                self.incompressible <= others && self.lz4.are_of(others) && self.zstd.are_of(others)
            })
    }
}

/// The pages of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectContents {
    /// What it is called: the file that is mapped, `[heap]`, `[stack]`, the place that made the
    /// object, or [`NO_OBJECT`](crate::objects::NO_OBJECT).
    pub name: String,
    /// Its pages.
    #[serde(flatten)]
    pub sampled: SampledPages,
}

/// What the pages of a program contain, as far as a sample says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Contents {
    /// Moments at which pages were read.
    pub moments: u64,
    /// Pages that were chosen and could not be read: the program had given them up just then, or
    /// the kernel refused.
    pub unread_pages: u64,
    /// By object, those with the most pages first.
    pub objects: Vec<ObjectContents>,
    /// By age: an entry for each of [`AGES`].
    pub ages: Vec<SampledPages>,
    /// How long the codecs took for the pages that could go to swap: the median over the moments of
    /// the median of each. `None`: there were no such pages, or the trace is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec_times: Option<CodecTimes>,
}

/// As it stands in a file.
#[derive(Deserialize)]
struct Unchecked {
    moments: u64,
    unread_pages: u64,
    objects: Vec<ObjectContents>,
    ages: Vec<SampledPages>,
    #[serde(default)]
    codec_times: Option<CodecTimes>,
}

impl TryFrom<Unchecked> for Contents {
    type Error = &'static str;
    fn try_from(unchecked: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { moments, unread_pages, objects, ages, codec_times } = unchecked;
        let contents = Self { moments, unread_pages, objects, ages, codec_times };
        if contents.objects.len() > MOST_OBJECTS || contents.ages.len() != AGES.len() {
            return Err("contents of more objects than there can be, or not of all ages");
        }
        let by_object = contents.objects.iter().map(|object| &object.sampled);
        if !by_object.clone().chain(&contents.ages).all(SampledPages::is_sound) {
            return Err("contents whose counts contradict each other");
        }
        if sum(by_object) != contents.sampled() {
            return Err("contents by object that are not those by age");
        }
        if codec_times.is_some_and(|times| !times.is_sound()) {
            return Err("codec times of 0, or of more than a second for a page");
        }
        if codec_times.is_some() && contents.sampled().lz4_ratio().is_none() {
            return Err("codec times, and no page that was compressed");
        }
        Ok(contents)
    }
}

fn sum<'a>(parts: impl Iterator<Item = &'a SampledPages>) -> SampledPages {
    parts.fold(SampledPages::default(), |mut sum, part| {
        sum.merge(part);
        sum
    })
}

impl Contents {
    /// All sampled pages.
    pub fn sampled(&self) -> SampledPages {
        sum(self.ages.iter())
    }

    /// The sampled pages that could go to swap: all but those of mapped files. A kernel reads these
    /// from their files again, except the few that the program has changed. Where the trace has
    /// more objects than rows, some may be among those of the last row.
    pub fn swappable(&self) -> SampledPages {
        sum(self.objects.iter().filter(|object| !is_of_file(&object.name)).map(|object| &object.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndTotals, Metadata, Trace, Writer};
    use serde_json::{Value, json};
    use std::io::Cursor;
    use sweephand_checks::trying;

    fn contents() -> Contents {
        let other = |lz4_bytes, zstd_bytes| PageContents::Other { lz4_bytes, zstd_bytes };
        let mut heap = SampledPages::default();
        [PageContents::Zero, PageContents::Zero, PageContents::SameFilled, other(1000, 600)]
            .into_iter()
            .for_each(|page| heap.add(page));
        let mut file = SampledPages::default();
        [other(4096, 4096), other(3072, 3073), other(4000, 4000)].into_iter().for_each(|page| file.add(page));
        let mut ages = vec![SampledPages::default(); AGES.len()];
        ages[0].merge(&heap);
        ages[3].merge(&file);
        let object = |name: &str, sampled| ObjectContents { name: name.to_owned(), sampled };
        let objects = vec![object("[heap]", heap), object("/usr/lib/a.so", file)];
        Contents { moments: 40, unread_pages: 2, objects, ages, codec_times: Some(codec_times()) }
    }

    fn codec_times() -> CodecTimes {
        CodecTimes { lz4: CodecTime::new(2_140, 600), zstd: CodecTime::new(5_000, 1_250) }
    }

    #[test]
    fn pages_are_counted_by_what_they_contain() {
        let [heap, file] = [0, 1].map(|object| contents().objects[object].sampled.clone());
        assert_eq!((heap.pages, heap.zero, heap.same_filled, heap.incompressible), (4, 2, 1, 0));
        assert_eq!((heap.lz4_ratio(), heap.share(heap.zero)), (Some(4.096), 0.5));
        // Of 3072 bytes is three quarters of a page, and not more.
        assert_eq!((file.pages, file.incompressible, file.lz4.by_size[11]), (3, 2, 1));
        assert_eq!(file.zstd.by_size, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2]);
        assert_eq!((SampledPages::default().zstd_ratio(), contents().sampled().pages), (None, 7));
    }

    #[test]
    fn pages_of_files_do_not_go_to_swap_and_those_of_shared_memory_do() {
        let mut contents = contents();
        assert_eq!(contents.swappable(), contents.objects[0].sampled);
        contents.objects[1].name = "/memfd:cache (deleted)".into();
        assert_eq!(contents.swappable(), contents.sampled());
    }

    #[test]
    fn contents_come_back_from_a_trace_and_older_traces_have_none() {
        let metadata = Metadata { contents: Some(contents()), ..Metadata::default() };
        let writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        assert_eq!(trace.header().metadata.contents, Some(contents()));
        let without_times = Contents { codec_times: None, ..contents() };
        let text = serde_json::to_string(&without_times).unwrap();
        assert!(!text.contains("codec_times"), "{text}");
        assert_eq!(serde_json::from_str::<Contents>(&text).unwrap(), without_times);
        let older: Metadata = serde_json::from_str("{}").unwrap();
        assert_eq!(older.contents, None);
        assert!(!serde_json::to_string(&older).unwrap().contains("contents"));
    }

    #[test]
    fn times_are_medians_which_an_interruption_does_not_change() {
        let of = |ns: u128| CodecTimes { lz4: CodecTime::new(ns, 2 * ns), zstd: CodecTime::new(3 * ns, 0) };
        let all = [3, 1, 9_000_000_000, 2, 5].map(of);
        let expected = CodecTimes { lz4: CodecTime::new(3, 6), zstd: CodecTime::new(9, 1) };
        assert_eq!((CodecTimes::medians(&all), CodecTimes::medians(&[])), (Some(expected), None));
        assert_eq!(all[2].lz4, CodecTime { compress_ns: MOST_CODEC_NS, decompress_ns: MOST_CODEC_NS });
        let told = "LZ4 2.1 us to compress a page, 0.6 us to decompress; zstd 5.0 us, 1.2 us";
        assert_eq!(codec_times().to_string(), told);
    }

    /// Every count of the section, changed alone, contradicts another.
    #[test]
    fn damaged_contents_are_refused() {
        let sound = serde_json::to_value(contents()).unwrap();
        let counts = [
            "/objects/0/pages",
            "/objects/0/zero",
            "/objects/0/same_filled",
            "/objects/1/incompressible",
            "/objects/0/lz4/bytes",
            "/objects/1/zstd/by_size/15",
            "/ages/0/pages",
            "/ages/1/zero",
            "/ages/3/lz4/by_size/11",
        ];
        for (count, value) in counts.iter().flat_map(|count| [0, 5, u64::MAX].map(|value| (count, value))) {
            let mut damaged = sound.clone();
            let place = damaged.pointer_mut(count).unwrap();
            if *place == json!(value) {
                continue;
            }
            *place = json!(value);
            let _input = trying(|| format!("{count} is {value}"));
            assert!(serde_json::from_value::<Contents>(damaged).is_err());
        }
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut damaged = sound.clone();
            change(&mut damaged);
            serde_json::from_value::<Contents>(damaged).is_err()
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|value| drop(value["ages"].as_array_mut().unwrap().pop())));
        assert!(refused(&|value| {
            let objects = value["objects"].as_array_mut().unwrap();
            let none = json!({"name": "x", "pages": 0, "zero": 0, "same_filled": 0, "incompressible": 0,
                "lz4": CodecSizes::default(), "zstd": CodecSizes::default()});
            objects.extend(std::iter::repeat_n(none, MOST_OBJECTS));
        }));
        assert!(refused(&|value| value["moments"] = json!(-1)));
        for time in ["/lz4/compress_ns", "/lz4/decompress_ns", "/zstd/compress_ns", "/zstd/decompress_ns"] {
            let changed =
                |to: Value| refused(&|value| *value["codec_times"].pointer_mut(time).unwrap() = to.clone());
            assert!(!changed(json!(MOST_CODEC_NS)), "{time}");
            for to in
                [json!(0), json!(MOST_CODEC_NS + 1), json!(u64::MAX), json!(-1), json!(0.5), json!(null)]
            {
                assert!(changed(to.clone()), "{time} is {to}");
            }
        }
        assert!(refused(&|value| drop(value["codec_times"].as_object_mut().unwrap().remove("zstd"))));
        let of_nothing = |value: &mut Value| {
            value["objects"] = json!([]);
            value["ages"] = json!(vec![SampledPages::default(); AGES.len()]);
        };
        assert!(refused(&of_nothing), "times of no pages");
        assert!(!refused(&|value| {
            of_nothing(value);
            value["codec_times"] = json!(null);
        }));
        assert!(refused(&|value| value["objects"][0]["lz4"]["by_size"] = json!([1])));
        // In a file, the error names it.
        let metadata =
            Metadata { contents: Some(Contents { ages: Vec::new(), ..contents() }), ..Metadata::default() };
        let writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let error = Trace::from_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains("the metadata cannot be read: contents of"), "{error}");
    }
}
