//! A policy in a crate of its own: CLOCK that gives a page evicted not long ago a set reference bit
//! when it comes back.
//!
//! A page that comes back has shown that it is used again. CLOCK forgets that when it evicts the
//! page. This policy remembers as many evicted pages as there are frames, and forgets the oldest
//! first. A page that comes back is spared for one more turn of the hand. Like CLOCK, it needs only
//! faults and reference bits.
//!
//! Cost: hit nothing; fault amortised O(1).

use std::collections::{HashSet, VecDeque};
use sweephand_policy::collections::FrameClock;
use sweephand_policy::registry::Registered;
use sweephand_policy::{
    ArgumentError, Arguments, Info, Mmu, PageId, Parameter, Policy, Reference, Violation, VmModel,
};

/// CLOCK that remembers what it evicted.
#[derive(Debug)]
pub struct Comeback {
    clock: FrameClock,
    /// Evicted pages that are remembered.
    ghosts: HashSet<PageId>,
    /// The same in the order of their eviction, with some that have come back or are gone since.
    evicted: VecDeque<PageId>,
    /// Evictions remembered at most.
    most: usize,
}

impl Registered for Comeback {
    const INFO: Info = Info {
        name: "comeback",
        summary: "CLOCK that spares pages which come back",
        paper: "none: the example of a policy outside of Sweephand",
        parameters: &[Parameter {
            name: "memory",
            default: "1",
            meaning: "evictions remembered, as a multiple of the frames",
        }],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let most = (arguments.factor("memory")? * frames as f64) as usize;
        Ok(Self { clock: FrameClock::new(frames), ghosts: HashSet::new(), evicted: VecDeque::new(), most })
    }
}

impl Policy for Comeback {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        // One turn clears every bit; should some be set meanwhile, the page where the second turn
        // ends goes.
        self.clock.find(2 * self.clock.used(), |page, _| mmu.test_and_clear_referenced(page))
    }

    fn evict(&mut self, page: PageId) {
        self.clock.evict(page);
        self.ghosts.insert(page);
        self.evicted.push_back(page);
        while self.evicted.len() > self.most {
            let oldest = self.evicted.pop_front().expect("there are more than that");
            self.ghosts.remove(&oldest);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.clock.insert(reference.page);
        self.forget(reference.page)
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
        self.forget(page);
    }

    fn hand_steps(&self) -> u64 {
        self.clock.steps()
    }

    fn check(&self) -> Result<(), Violation> {
        self.clock.check()?;
        match self.evicted.len() == self.ghosts.len() && self.ghosts.len() <= self.most {
            true => Ok(()),
            false => {
                Err(Violation(format!("{} ghosts, {} evictions", self.ghosts.len(), self.evicted.len())))
            }
        }
    }
}

impl Comeback {
    /// Whether the page was remembered. Linear in the memory where it was.
    fn forget(&mut self, page: PageId) -> bool {
        let remembered = self.ghosts.remove(&page);
        if remembered {
            self.evicted.retain(|evicted| *evicted != page);
        }
        remembered
    }
}
