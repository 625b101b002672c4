//! Direct readings of the replacement policies: the slow, plain models that serve as oracles.
//!
//! Each file states one policy the way its rules are worded, with vectors and linear search.
//! Nothing here shares code with the fast implementations, so that agreement means something. (The
//! experts of `auto` are policies that have models of their own.)
//!
//! Conventions: one page is loaded per fault, a page is evicted only when all frames are occupied,
//! and at least one frame is required. Nothing is filtered: a caller who wants the references equal
//! to their predecessor collapsed drops them before the call and counts them as hits.
//!
//! A `...Model` takes one reference at a time and prints its state; the function of the policy's
//! name runs a model over a whole reference string.

mod acme;
mod aging;
mod apr;
mod arc;
mod auto;
mod cacheus;
mod car;
mod clock;
mod clock2q_plus;
mod clock_page_table;
mod clock_pro;
mod dip;
mod dlirs;
mod ee_clock;
mod eelru;
mod fbr;
mod fifo;
mod gclock;
mod hyperbolic;
mod lecar;
mod lhd;
mod lifo;
mod lifo_plus;
mod linux24;
mod lirs;
mod lirs2;
mod lrfu;
mod lru;
mod lru_2;
mod mglru;
mod model;
mod mq;
mod mru;
mod opt;
mod random;
mod rrip;
mod s3_fifo;
mod s4_fifo;
mod seq;
mod sieve;
mod two_q;
mod ubm;
mod w_tinylfu;

pub use acme::acme;
pub use aging::{AgingOptions, aging};
pub use apr::{AprOptions, apr};
pub use arc::{ArcModel, arc};
pub use auto::auto;
pub use cacheus::cacheus;
pub use car::{CarModel, car};
pub use clock::{ClockModel, clock};
pub use clock_page_table::{PageTableClockModel, clock_page_table};
pub use clock_pro::{ClockProModel, ClockProOptions, ReferencedNotInTest, TestEnd, Warm, clock_pro};
pub use clock2q_plus::clock2q_plus;
pub use dip::{DipVariant, dip};
pub use dlirs::dlirs;
pub use ee_clock::ee_clock;
pub use eelru::{EelruOptions, eelru};
pub use fbr::{FbrOptions, fbr};
pub use fifo::fifo;
pub use gclock::gclock;
pub use hyperbolic::hyperbolic;
pub use lecar::lecar;
pub use lhd::{LhdOptions, lhd};
pub use lifo::lifo;
pub use lifo_plus::lifo_plus;
pub use linux24::linux24;
pub use lirs::{LirsModel, lirs};
pub use lirs2::lirs2;
pub use lrfu::lrfu;
pub use lru::lru;
pub use lru_2::{LruKOptions, lru_k};
pub use mglru::mglru;
pub use model::Step;
pub(super) use model::{Given, Model};
pub use mq::{MqOptions, mq};
pub use mru::mru;
pub use opt::{opt, opt_all_sizes};
pub use random::random;
pub use rrip::{RripVariant, rrip};
pub use s3_fifo::s3_fifo;
pub use s4_fifo::{S4FifoOptions, s4_fifo};
pub use seq::{SeqOptions, seq};
pub use sieve::sieve;
pub use two_q::two_q;
pub use ubm::{UbmOptions, ubm};
pub use w_tinylfu::{WTinyLfuOptions, w_tinylfu};

/// The model of each policy, by the policy's name.
pub(super) const MODELS: &[(&str, Model)] = &[
    ("fifo", |given, references| fifo(references, given.frames)),
    ("lifo", |given, references| lifo(references, given.frames)),
    ("lifo-plus", |given, references| lifo_plus(references, given.frames, |_| 0)),
    ("apr", apr::model),
    ("mru", |given, references| mru(references, given.frames)),
    ("random", |given, references| random(references, given.frames, given.whole("seed"))),
    ("lru", |given, references| lru(references, given.frames)),
    ("opt", |given, references| opt(references, given.frames)),
    ("clock", clock::model),
    ("gclock", |given, references| {
        gclock(references, given.frames, given.whole("init"), given.whole("increment"), given.whole("max"))
    }),
    ("lru-2", lru_2::model),
    ("s3-fifo", s3_fifo::model),
    ("clock2q-plus", clock2q_plus::model),
    ("hyperbolic", hyperbolic::model),
    ("linux24", linux24::model),
    ("mq", mq::model),
    ("lrfu", |given, references| lrfu(references, given.frames, given.factor("lambda"), given.on("retain"))),
    ("aging", aging::model),
    ("rrip", rrip::model),
    ("dip", dip::model),
    ("mglru", mglru::model),
    ("w-tinylfu", w_tinylfu::model),
    ("fbr", fbr::model),
    ("lecar", lecar::model),
    ("eelru", eelru::model),
    ("ee-clock", ee_clock::model),
    ("ubm", ubm::model),
    ("acme", |given, references| acme(references, given.frames, given.factor("beta"), given.factor("alpha"))),
    ("auto", auto::model),
    ("sieve", |given, references| sieve(references, given.frames)),
    ("seq", seq::model),
    ("seq-lru", seq::model),
    ("2q", two_q::model),
    ("arc", |given, references| arc(references, given.frames)),
    ("clock-page-table", |given, references| clock_page_table(references, given.frames)),
    ("car", |given, references| car(references, given.frames, given.on("integer-ratio"))),
    ("lirs", lirs::model),
    ("dlirs", dlirs::model),
    ("lirs2", lirs2::model),
    ("cacheus", cacheus::model),
    ("s4-fifo", s4_fifo::model),
    ("lhd", lhd::model),
    ("clock-pro", clock_pro::model),
    ("clock-pro-fixed", clock_pro::model),
    ("clock-pro-plus", clock_pro::model),
    ("clock-pro-strict", clock_pro::model),
];

#[cfg(test)]
mod tests;
