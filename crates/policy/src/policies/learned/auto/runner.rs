//! A policy that runs as an expert.
//!
//! The usual experts are called directly, so that the compiler puts them into the way of a fault.
//! Through an object, a [`Reference`] is written to memory and read back at every call, and
//! the processor waits there for all stores before it.

use crate::plugin;
use crate::policies::{Clock, Clock2QPlus, ClockProStrict, EeClock, LifoPlus};
use crate::settled::Settled;
use crate::{Mmu, PageId, Policy, Reference, Violation};
use alloc::boxed::Box;
use core::any::Any;

/// A policy of the VM model.
pub(super) enum Runner {
    ClockProStrict(Settled<ClockProStrict>),
    LifoPlus(Settled<LifoPlus>),
    Clock(Settled<Clock>),
    Clock2QPlus(Settled<Clock2QPlus>),
    EeClock(Box<Settled<EeClock>>),
    /// Any other.
    Object(Box<dyn plugin::PolicyObject>),
}

/// Does the same with whichever policy it is.
macro_rules! with_policy {
    ($runner:expr, $policy:ident => $work:expr) => {
        match $runner {
            Runner::ClockProStrict($policy) => $work,
            Runner::LifoPlus($policy) => $work,
            Runner::Clock($policy) => $work,
            Runner::Clock2QPlus($policy) => $work,
            Runner::EeClock($policy) => $work,
            Runner::Object($policy) => $work,
        }
    };
}

impl Runner {
    pub(super) fn new<P: Policy + Send + 'static>(policy: P) -> Self {
        fn is<P: 'static>(policy: &mut dyn Any) -> Option<P> {
            policy.downcast_mut::<Option<P>>().and_then(Option::take)
        }
        let mut policy = Some(policy);
        let any: &mut dyn Any = &mut policy;
        let known = is(any).map(Self::ClockProStrict);
        let known = known.or_else(|| is(any).map(Self::LifoPlus));
        let known = known.or_else(|| is(any).map(Self::Clock));
        let known = known.or_else(|| is(any).map(Self::Clock2QPlus));
        let known = known.or_else(|| is(any).map(|policy| Self::EeClock(Box::new(policy))));
        known.unwrap_or_else(|| Self::Object(Box::new(policy.expect("it is of another type"))))
    }

    #[inline(always)]
    pub(super) fn fault(&mut self, reference: Reference) {
        with_policy!(self, policy => policy.fault(reference));
    }

    #[inline(always)]
    pub(super) fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        with_policy!(self, policy => policy.victim(mmu))
    }

    #[inline(always)]
    pub(super) fn evict(&mut self, page: PageId) {
        with_policy!(self, policy => policy.evict(page));
    }

    #[inline(always)]
    pub(super) fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        with_policy!(self, policy => policy.insert(reference, mmu))
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, page: PageId) {
        match self {
            Runner::ClockProStrict(policy) => policy.prefetch(page),
            Runner::LifoPlus(policy) => policy.prefetch(page),
            Runner::EeClock(policy) => policy.prefetch(page),
            // The others have nothing to fetch that a page leads to.
            _ => {}
        }
    }

    pub(super) fn remove(&mut self, page: PageId) {
        with_policy!(self, policy => policy.remove(page));
    }

    pub(super) fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        with_policy!(self, policy => policy.assign(page, object, mmu));
    }

    pub(super) fn free_object(&mut self, object: u32) {
        with_policy!(self, policy => policy.free_object(object));
    }

    pub(super) fn hand_steps(&self) -> u64 {
        with_policy!(self, policy => policy.hand_steps())
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        with_policy!(self, policy => policy.check())
    }
}
