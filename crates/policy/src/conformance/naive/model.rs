//! What every model is given, and what it answers.

use crate::Arguments;
use crate::arguments::Rounding;
use alloc::vec::Vec;

/// What a model is given besides the reference string: the policy's arguments, which its spec has
/// checked, and the memory size.
pub(crate) struct Given<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) frames: usize,
}

impl Given<'_> {
    pub(super) fn name(&self) -> &'static str {
        self.arguments.info().name
    }

    pub(super) fn on(&self, name: &str) -> bool {
        self.arguments.switch(name).unwrap_or_default()
    }

    pub(super) fn whole(&self, name: &str) -> u64 {
        self.arguments.whole(name, 0..=u64::MAX).expect("checked by the spec")
    }

    pub(super) fn factor(&self, name: &str) -> f64 {
        self.arguments.factor(name).expect("checked by the spec")
    }

    pub(super) fn pages(&self, name: &str, rounding: Rounding) -> usize {
        self.arguments.pages(name, self.frames, rounding).expect("checked by the spec")
    }
}

/// Runs a model over a string.
pub(crate) type Model = fn(&Given<'_>, &[u32]) -> Vec<Step>;

/// One reference's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The page was not resident.
    pub fault: bool,
    /// The pages this reference evicted, in order: none or one for every policy here.
    pub victims: Vec<u32>,
}

impl Step {
    /// The page was resident.
    pub(super) fn hit() -> Step {
        Step { fault: false, victims: Vec::new() }
    }

    /// The page was loaded, after `victim` had left if memory was full.
    pub(super) fn fault(victim: Option<u32>) -> Step {
        Step { fault: true, victims: victim.into_iter().collect() }
    }
}
