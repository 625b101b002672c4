//! The policy, behind one door: the agent is compiled once, the policies each for themselves.

use crate::bits::Bits;
use alloc::boxed::Box;
use sweephand_policy::registry::{Registered, Spec, Visitor};
use sweephand_policy::{ArgumentError, Model, PageId, Policy, Reference};

/// What the agent asks of a policy; see [`Policy`].
pub trait LivePolicy {
    /// See [`Policy::fault`].
    fn fault(&mut self, reference: Reference);
    /// See [`Policy::victim`].
    fn victim(&mut self, bits: &mut Bits) -> Option<PageId>;
    /// See [`Policy::evict`].
    fn evict(&mut self, page: PageId);
    /// See [`Policy::insert`].
    fn insert(&mut self, reference: Reference, bits: &mut Bits) -> bool;
    /// See [`Policy::remove`].
    fn remove(&mut self, page: PageId);
    /// See [`Policy::hand_steps`].
    fn hand_steps(&self) -> u64;
}

impl<P: Policy> LivePolicy for P {
    fn fault(&mut self, reference: Reference) {
        Policy::fault(self, reference);
    }
    fn victim(&mut self, bits: &mut Bits) -> Option<PageId> {
        Policy::victim(self, bits)
    }
    fn evict(&mut self, page: PageId) {
        Policy::evict(self, page);
    }
    fn insert(&mut self, reference: Reference, bits: &mut Bits) -> bool {
        Policy::insert(self, reference, bits)
    }
    fn remove(&mut self, page: PageId) {
        Policy::remove(self, page);
    }
    fn hand_steps(&self) -> u64 {
        Policy::hand_steps(self)
    }
}

/// Makes the policy that a spec names, for so many frames; `None` if it has to see every reference or the future.
pub fn make(spec: &Spec, frames: usize) -> Result<Option<Box<dyn LivePolicy>>, ArgumentError> {
    struct Make<'a>(&'a Spec, usize);
    impl Visitor for Make<'_> {
        type Output = Result<Option<Box<dyn LivePolicy>>, ArgumentError>;
        fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
            if P::Model::SEES_HITS {
                return Ok(None);
            }
            Ok(Some(Box::new(P::configure(self.1, self.0.arguments())?)))
        }
    }
    spec.visit(Make(spec, frames))
}
