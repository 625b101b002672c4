//! Page policies for objects of different sizes.

use super::SizedPolicy;
use sweephand_policy::collections::PageMap;
use sweephand_policy::registry::Registered;
use sweephand_policy::{Arguments, Mmu, Model, NEVER, PageId, Policy, Reference};

/// A page policy whose order of eviction does not depend on the number of frames. Objects take the
/// place of pages.
///
/// It has the parameters' defaults. Memory that it counts in frames has no limit here, such as the
/// history of LRU-2.
#[derive(Debug)]
pub struct OfPages<P> {
    policy: P,
    bits: Bits,
}

#[derive(Debug, Default)]
struct Bits(PageMap<bool>);

impl Mmu for Bits {
    fn test_and_clear_referenced(&mut self, object: PageId) -> bool {
        std::mem::take(&mut self.0[object])
    }
}

impl<P: Registered> OfPages<P> {
    pub(super) fn new() -> Self {
        let defaults = Arguments::parse(&P::INFO, "").expect("nothing is given");
        let policy = P::configure(usize::MAX, &defaults).expect("defaults are right");
        Self { policy, bits: Bits::default() }
    }
}

fn reference(object: PageId) -> Reference {
    Reference { page: object, page_number: u64::from(object.0), object: 0, next_use: NEVER }
}

impl<P: Policy> SizedPolicy for OfPages<P> {
    fn hit(&mut self, object: PageId) {
        if P::Model::SEES_HITS {
            self.policy.hit(reference(object));
        } else {
            self.bits.0[object] = true;
        }
    }

    fn miss(&mut self, object: PageId, _: u64) {
        self.policy.fault(reference(object));
    }

    fn evict_for(&mut self, _: PageId, _: u64) -> Option<PageId> {
        let victim = self.policy.victim(&mut self.bits)?;
        self.policy.evict(victim);
        Some(victim)
    }

    fn admit(&mut self, object: PageId, _: u64) {
        let is_referenced = self.policy.insert(reference(object), &mut self.bits);
        self.bits.0.set(object, is_referenced);
    }

    fn remove(&mut self, object: PageId) {
        self.policy.remove(object);
    }
}
