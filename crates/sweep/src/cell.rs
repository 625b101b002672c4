//! One cell, with everything that its result depends on.

use crate::Hash;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use sweephand_policy::registry::Spec;
use xxhash_rust::xxh3::xxh3_128;

/// The version of Sweephand.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a policy's counts depend on besides the cell, as part of its key: the revisions of the
/// simulation and of the policy. A new version of Sweephand that counts the same keeps results.
pub fn revision(spec: &Spec) -> String {
    format!("{}.{}", sweephand_sim::REVISION, spec.entry().revision)
}

/// A sample of a trace's pages to estimate from, as `simulate --sample` takes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Its size, as on the command line.
    pub size: String,
    /// Its seed.
    pub seed: u64,
}

/// A trace, and what has to be in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFile {
    /// What it is called in results.
    pub name: String,
    /// The path, or the URL.
    pub location: String,
    /// The hash of the file.
    pub hash: Hash,
}

/// A policy with one memory size on one trace. As JSON it is what executors hand to workers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The trace.
    pub trace: TraceFile,
    /// The policy, as on the command line.
    pub policy: String,
    /// The memory size, as on the command line.
    pub memory: String,
    /// The sample, unless all pages are simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The warm-up as on the command line, unless counting begins with the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<String>,
    /// The [revision] of simulation and policy.
    pub revision: String,
    /// The version of Sweephand that planned it.
    pub version: String,
}

/// The key of a cell: a hash of everything that its row says or depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CellKey(u128);

impl Cell {
    /// Its key. The trace's name and contents are part of it; the trace's location and the version
    /// of Sweephand are not.
    pub fn key(&self) -> CellKey {
        #[derive(Serialize)]
        struct Identity<'a> {
            name: &'a str,
            hash: &'a Hash,
            policy: &'a str,
            memory: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            sample: &'a Option<Sample>,
            #[serde(skip_serializing_if = "Option::is_none")]
            warmup: &'a Option<String>,
            revision: &'a str,
        }
        let Self { trace, policy, memory, sample, warmup, revision, version: _ } = self;
        let (name, hash) = (&trace.name, &trace.hash);
        let identity = Identity { name, hash, policy, memory, sample, warmup, revision };
        CellKey(xxh3_128(&serde_json::to_vec(&identity).expect("words only")))
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for CellKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
        key.map(Self).ok_or_else(|| format!("'{text}' is no key of a cell"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_for_each_place_and_version_and_another_for_anything_else() {
        let cell = Cell {
            trace: TraceFile {
                name: "a.swt".into(),
                location: "/x/a.swt".into(),
                hash: "xxh3:0123456789abcdef".parse().unwrap(),
            },
            policy: "clock:init=1".into(),
            memory: "25%".into(),
            sample: None,
            warmup: None,
            revision: "1.1".into(),
            version: "0.2.0".into(),
        };
        // Written down: keys of datasets that exist must not change.
        assert_eq!(cell.key().to_string(), "615b7c26e2696584f619c2bbe40be21d");
        assert_eq!(cell.key().to_string().parse(), Ok(cell.key()));
        let mut elsewhere = cell.clone();
        elsewhere.trace.location = "s3://b/a.swt".into();
        elsewhere.version = "0.3.0".into();
        assert_eq!(elsewhere.key(), cell.key());
        let changes: [fn(&mut Cell); 7] = [
            |cell| cell.trace.name.push('x'),
            |cell| cell.trace.hash = "xxh3:1123456789abcdef".parse().unwrap(),
            |cell| cell.policy.push('x'),
            |cell| cell.memory.push('x'),
            |cell| cell.sample = Some(Sample { size: "1%".into(), seed: 1 }),
            |cell| cell.warmup = Some("20%".into()),
            |cell| cell.revision = "1.2".into(),
        ];
        for change in changes {
            let mut other = cell.clone();
            change(&mut other);
            assert_ne!(other.key(), cell.key(), "{other:?}");
        }
        let sampled = |size: &str, seed| {
            Cell { sample: Some(Sample { size: size.into(), seed }), ..cell.clone() }.key()
        };
        let keys = [sampled("1%", 1), sampled("2%", 1), sampled("1%", 2)];
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    }
}
