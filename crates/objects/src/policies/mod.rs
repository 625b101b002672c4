//! Caches of objects that have sizes: requests for whole objects, a capacity in bytes.
//!
//! A page policy gives up one page for one page. Here a new object may need room that several old
//! ones have, and the question becomes which *bytes* are missed. Only some policies have a meaning
//! for that: those whose order does not depend on how many pages there are ([`OfPages`] takes them
//! as they are), and those that were made for it.
//!
//! ```text
//!   hit:   hit(object)
//!   miss:  miss(object, bytes), then evict_for(object, bytes) until there is room, then admit(object, bytes)
//! ```
//!
//! [`POLICIES`] lists them, [`of_name`] finds one, and a [`SizedCache`](crate::SizedCache) drives
//! it.
//!
//! ```
//! use sweephand_policy::PageId;
//! use sweephand_objects::policies::of_name;
//! use sweephand_objects::{Access, SizedCache};
//!
//! let mut cache = SizedCache::new(of_name("lru")?.make(100), 100);
//! assert_eq!(cache.request(PageId(0), 70), Access::Admitted);
//! assert_eq!(cache.request(PageId(1), 40), Access::Admitted); // object 0 had to go
//! assert_eq!(cache.request(PageId(1), 40), Access::Hit);
//! assert_eq!(cache.request(PageId(2), 101), Access::Passed); // it never fits
//! assert_eq!(cache.bytes(), 40);
//! # Ok::<(), sweephand_policy::ArgumentError>(())
//! ```

mod byte_lists;
mod clock;
mod gdsf;
mod of_pages;
mod s3_fifo;
mod sized_policy;
mod w_tinylfu;

pub use clock::SizedClock;
pub use gdsf::Gdsf;
pub use of_pages::OfPages;
pub use s3_fifo::SizedS3Fifo;
pub use sized_policy::SizedPolicy;
use sweephand_policy::near::hint;
use sweephand_policy::policies::{Fifo, Lru, Lru2, Sieve};
use sweephand_policy::{ArgumentError, registry};
pub use w_tinylfu::SizedWTinyLfu;

/// A policy in [`POLICIES`].
#[derive(Clone, Copy, Debug)]
pub struct SizedEntry {
    /// Its name; the same as that of the page policy, if there is one.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    make: fn(capacity_bytes: u64) -> Box<dyn SizedPolicy + Send>,
}

impl SizedEntry {
    /// The policy with an empty cache of `capacity_bytes` bytes.
    pub fn make(&self, capacity_bytes: u64) -> Box<dyn SizedPolicy + Send> {
        (self.make)(capacity_bytes)
    }
}

/// The policies that know sizes, in the order of listings.
pub const POLICIES: [SizedEntry; 8] = [
    SizedEntry {
        name: "fifo",
        summary: "the object that came first goes first",
        make: |_| Box::new(OfPages::<Fifo>::new()),
    },
    SizedEntry {
        name: "lru",
        summary: "the least recently used object goes first",
        make: |_| Box::new(OfPages::<Lru>::new()),
    },
    SizedEntry {
        name: "clock",
        summary: "FIFO with a second chance for objects used since the hand came by",
        make: |_| Box::<SizedClock>::default(),
    },
    SizedEntry {
        name: "sieve",
        summary: "FIFO whose hand takes out unused objects and leaves the others in place",
        make: |_| Box::new(OfPages::<Sieve>::new()),
    },
    SizedEntry {
        name: "lru-2",
        summary: "the object whose second last use is longest ago goes first",
        make: |_| Box::new(OfPages::<Lru2>::new()),
    },
    SizedEntry {
        name: "s3-fifo",
        summary: "a small FIFO queue in front of the main one, with ghosts; queues have bytes",
        make: |capacity_bytes| Box::new(SizedS3Fifo::new(capacity_bytes)),
    },
    SizedEntry {
        name: "gdsf",
        summary: "the object with the fewest uses a byte goes first, with aging",
        make: |_| Box::<Gdsf>::default(),
    },
    SizedEntry {
        name: "w-tinylfu",
        summary: "admits an object behind a small window only if it is used more often than the next to go",
        make: |capacity_bytes| Box::new(SizedWTinyLfu::new(capacity_bytes)),
    },
];

/// The policy of that name.
///
/// # Errors
/// There is none, or it has no meaning for objects of different sizes.
pub fn of_name(name: &str) -> Result<&'static SizedEntry, ArgumentError> {
    POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names = POLICIES.map(|entry| entry.name);
        let is_of_pages = registry::POLICIES.iter().any(|entry| entry.info.name == name);
        let reason = if is_of_pages {
            "it counts pages, and has no version for objects of different sizes".into()
        } else {
            format!("there is no such policy{}", hint(name, names))
        };
        ArgumentError { policy: name.to_string(), reason: format!("{reason}; known: {}", names.join(" ")) }
    })
}

#[cfg(test)]
mod tests;
