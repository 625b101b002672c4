//! CLOCK-Pro 2005, section 5.1.2 and 5.3: the programs whose page faults the paper counts, and what
//! they are measured with.
//!
//! Conventions: faults per million instructions of the program. The first touch of a page does not
//! count, because every policy takes it. The programs are ours, because those of the paper are not
//! available: kernels that compute what some of the paper's do (`../programs/`, `../record.sh`),
//! programs of Debian, and SPLASH-3.

use crate::kept::Counts;
use crate::workload::firsts_of_bursts;
use crate::{Error, Lab};
use sweephand_trace::Trace;

/// A program whose trace comes with the project, or with SPLASH-3.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    Bundled(&'static str),
    Splash(&'static str),
}

use Program::{Bundled, Splash};

pub(crate) const GNUPLOT: Program = Bundled("gnuplot");
pub(crate) const PERL: Program = Bundled("perl");
pub(crate) const SOR: Program = Bundled("clock-pro/sor");
pub(crate) const SWIM: Program = Bundled("clock-pro/swim");
pub(crate) const TRYGTSL: Program = Bundled("clock-pro/trygtsl");
pub(crate) const APPLU: Program = Bundled("clock-pro/applu");
/// An interpreter, as m88ksim is one.
pub(crate) const M88K: Program = Bundled("clock-pro/m88k");
/// The encoder of ijpeg.
pub(crate) const CJPEG: Program = Bundled("clock-pro/cjpeg");
/// A model checker, as murphi is one.
pub(crate) const SPIN: Program = Bundled("clock-pro/spin");
pub(crate) const CC1: Program = Bundled("cc1");
pub(crate) const NUMPY: Program = Bundled("numpy");
pub(crate) const FFT: Program = Splash("fft");
pub(crate) const LU: Program = Splash("lu_cb");

impl Program {
    pub(crate) fn name(self) -> &'static str {
        let (Bundled(name) | Splash(name)) = self;
        name.rsplit('/').next().expect("a name has parts")
    }

    pub(crate) fn trace(self, lab: &Lab) -> Result<Trace, Error> {
        match self {
            Bundled(name) => lab.bundled_trace(name),
            Splash(name) => lab.splash_trace(name),
        }
    }
}

/// Instructions of a recorded program.
pub(crate) fn instructions(trace: &Trace) -> f64 {
    trace.header().totals.instructions.expect("recorded programs have their instructions") as f64
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Locality {
    Strong,
    Moderate,
    Weak,
}

use Locality::{Moderate, Strong, Weak};

impl Locality {
    pub(crate) const ALL: [Self; 3] = [Strong, Moderate, Weak];

    /// By the mean distance of far reuses, in percent of the pages.
    pub(crate) fn of(distance_percent: f64) -> Self {
        match distance_percent {
            distance if distance < 30.0 => Strong,
            distance if distance < 60.0 => Moderate,
            _ => Weak,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Strong => "strong",
            Moderate => "moderate",
            Weak => "weak",
        }
    }
}

/// A program of the paper, and ours that stands for it.
pub(crate) struct Counterpart {
    pub(crate) theirs: &'static str,
    pub(crate) ours: Program,
    /// As the paper groups them.
    pub(crate) locality: Locality,
}

const fn counterpart(theirs: &'static str, ours: Program, locality: Locality) -> Counterpart {
    Counterpart { theirs, ours, locality }
}

pub(crate) const COUNTERPARTS: [Counterpart; 9] = [
    counterpart("m88ksim", M88K, Strong),
    counterpart("murphi", SPIN, Strong),
    counterpart("perl", PERL, Moderate),
    counterpart("swim", SWIM, Moderate),
    counterpart("applu", APPLU, Weak),
    counterpart("gnuplot", GNUPLOT, Weak),
    counterpart("ijpeg", CJPEG, Weak),
    counterpart("sor", SOR, Weak),
    counterpart("trygtsl", TRYGTSL, Weak),
];

/// The programs that stand for those of a locality in the paper.
pub(crate) fn counterparts_of(locality: Locality) -> impl Iterator<Item = Program> {
    COUNTERPARTS.iter().filter(move |pair| pair.locality == locality).map(|pair| pair.ours)
}

/// Memory sizes of Figure 4 in percent of a program's pages.
pub(crate) const SIZES: [u64; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];

/// The frames that a size in percent is.
pub(crate) fn frames_at(pages: u64, percent: u64) -> u64 {
    (pages * percent + 50) / 100
}

/// The policies of Figure 4, and where each is.
pub(crate) const POLICIES: [(&str, &str); 7] = [
    ("OPT", "opt"),
    ("CLOCK-Pro", "clock-pro"),
    ("CAR", "car"),
    ("CLOCK", "clock"),
    ("SEQ", "seq:inside=delete"),
    ("EELRU", "eelru"),
    ("LRU", "lru"),
];
pub(crate) const OPT: usize = 0;
pub(crate) const CLOCK_PRO: usize = 1;
pub(crate) const CAR: usize = 2;
pub(crate) const CLOCK: usize = 3;
pub(crate) const SEQ: usize = 4;
pub(crate) const EELRU: usize = 5;
pub(crate) const LRU: usize = 6;

/// Faults but first touches.
pub(crate) fn but_first(by_size: &[Counts], first_touches: u64) -> Vec<u64> {
    by_size.iter().map(|counts| counts.faults - first_touches).collect()
}

/// References to pages among this many percent of the pages used last belong to one burst.
pub(crate) const BURST_PERCENT: u64 = 2;

/// A trace with only the first reference of each burst.
pub(crate) fn without_bursts(trace: &Trace) -> Result<Trace, Error> {
    let pages = trace.header().totals.distinct_pages;
    firsts_of_bursts(trace, (pages * BURST_PERCENT / 100) as usize)
}
