//! Demand paging in its simplest form, with every rule checked.

use crate::interface::ensure;
use crate::registered::Registered;
use crate::registry::Spec;
use crate::{Arguments, Mmu, Model, NEVER, PageId, Reference, Violation};
use alloc::{boxed::Box, collections::BTreeMap, collections::BTreeSet, vec::Vec};
use core::ops::Range;

/// What one reference did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The page was not resident.
    pub fault: bool,
    /// The page evicted for it.
    pub victim: Option<u32>,
}

/// A memory of `frames` frames under a policy.
#[derive(Debug)]
pub struct Machine<P> {
    policy: P,
    frames: usize,
    memory: ResidentPages,
    /// The object of each page, unless it has passed to another.
    object_of: ObjectOf,
    /// The objects of pages that have passed to others.
    assigned: BTreeMap<PageId, u32>,
    /// Pages referenced so far.
    seen: BTreeSet<PageId>,
    /// Faults after which the bit of a page that has come in is cleared once more; 0: never.
    settle: u64,
    /// Faults so far.
    faults: u64,
    /// The fault with which each page came in last.
    came_in: BTreeMap<PageId, u64>,
}

struct ObjectOf(Box<dyn Fn(u32) -> u32>);

impl core::fmt::Debug for ObjectOf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ObjectOf")
    }
}

/// The resident pages with their reference bits.
#[derive(Debug, Default)]
struct ResidentPages {
    resident: BTreeMap<PageId, bool>,
    /// Pages that the policy asked about though they are not resident.
    stray: BTreeSet<PageId>,
}

impl Mmu for ResidentPages {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        match self.resident.get_mut(&page) {
            Some(bit) => core::mem::take(bit),
            None => {
                self.stray.insert(page);
                false
            }
        }
    }
}

impl<P: Registered> Machine<P> {
    /// A machine for a policy given as on the command line. Panics if that does not parse or names
    /// another type.
    pub fn new(spec: &str, frames: usize) -> Self {
        let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.name(), P::INFO.name, "the spec is for another policy");
        Self::with_arguments(spec.arguments(), frames)
    }

    /// A machine for a policy with arguments that have been checked.
    pub fn with_arguments(arguments: &Arguments, frames: usize) -> Self {
        let policy = P::configure(frames, arguments).unwrap_or_else(|error| panic!("{error}"));
        Self {
            policy,
            frames,
            memory: ResidentPages::default(),
            object_of: ObjectOf(Box::new(|_| 0)),
            assigned: BTreeMap::new(),
            seen: BTreeSet::new(),
            settle: 0,
            faults: 0,
            came_in: BTreeMap::new(),
        }
    }

    /// Clears the bit of each page once more, `settle` faults after the page came in. This is the
    /// naive model of [`Settled`](crate::Settled): the memory does it, and the policy knows nothing
    /// of it.
    pub fn with_settling(self, settle: u64) -> Self {
        Self { settle, ..self }
    }

    /// Divides the pages into objects; without this all belong to object 0.
    pub fn with_objects(self, object_of: impl Fn(u32) -> u32 + 'static) -> Self {
        Self { object_of: ObjectOf(Box::new(object_of)), ..self }
    }

    /// Runs a whole string, with the next use of each page for offline policies.
    pub fn run(&mut self, references: &[u32]) -> Result<Vec<Step>, Violation> {
        let next_uses = next_uses(references);
        references
            .iter()
            .zip(next_uses)
            .map(|(&page, next_use)| self.reference(PageId(page), next_use))
            .collect()
    }

    /// One reference. Panics on a broken rule.
    pub fn access(&mut self, page: u32) -> Step {
        self.try_access(page).unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// One reference.
    pub fn try_access(&mut self, page: u32) -> Result<Step, Violation> {
        self.reference(PageId(page), NEVER)
    }

    /// References pages in turn and describes the machine after each, for examples that show state.
    pub fn trace(&mut self, references: &[u32], describe: impl Fn(&Self) -> String) -> Vec<String> {
        let step = |&page| {
            self.access(page);
            describe(self)
        };
        references.iter().map(step).collect()
    }

    /// The policy, to look at its state.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The reference bit of a page (clear if it is not resident).
    pub fn is_referenced(&self, page: PageId) -> bool {
        self.memory.resident.get(&page).copied().unwrap_or_default()
    }

    /// Drops a page's contents, resident or not.
    pub fn unmap(&mut self, page: u32) -> Result<(), Violation> {
        self.memory.resident.remove(&PageId(page));
        self.policy.remove(PageId(page));
        self.check()
    }

    /// The object that a page belongs to now.
    pub fn object(&self, page: u32) -> u32 {
        self.assigned.get(&PageId(page)).copied().unwrap_or_else(|| (self.object_of.0)(page))
    }

    /// Allocates an object over pages that may have contents.
    pub fn allocate(&mut self, object: u32, pages: Range<u32>) -> Result<(), Violation> {
        for page in pages.map(PageId) {
            self.assign(page, object);
        }
        self.check()
    }

    /// Frees an object: its pages are the default object's from now on. Those that it has by the
    /// division of [`Machine::with_objects`] and that have not been seen are as if they came under
    /// the next object of its number.
    pub fn free_object(&mut self, object: u32) -> Result<(), Violation> {
        let allocated: BTreeSet<PageId> = self.assigned.keys().copied().collect();
        for &page in allocated.union(&self.seen.clone()) {
            if self.object(page.0) == object {
                self.assign(page, 0);
            }
        }
        if P::NEEDS_OBJECTS {
            self.policy.free_object(object);
        }
        self.check()
    }

    fn assign(&mut self, page: PageId, object: u32) {
        self.assigned.insert(page, object);
        if P::NEEDS_OBJECTS {
            self.policy.assign(page, object, &mut self.memory);
        }
    }

    /// Evicts up to `count` pages before anyone needs their frames, as a pager does in the
    /// background.
    pub fn evict_ahead(&mut self, count: usize) -> Result<(), Violation> {
        for _ in 0..count.min(self.memory.resident.len()) {
            self.evict_one()?;
        }
        Ok(())
    }

    /// Asks for a victim that is then referenced before it could be unmapped.
    pub fn lose_race(&mut self) -> Result<(), Violation> {
        if let Some(page) = self.propose()?
            && !<P::Model as Model>::SEES_HITS
        {
            self.memory.resident.insert(page, true);
        }
        self.check()
    }

    fn reference(&mut self, page: PageId, next_use: u32) -> Result<Step, Violation> {
        self.seen.insert(page);
        let object = self.object(page.0);
        let reference = Reference { page, page_number: u64::from(page.0), object, next_use };
        if let Some(bit) = self.memory.resident.get_mut(&page) {
            *bit = true;
            if <P::Model as Model>::SEES_HITS {
                self.policy.hit(reference);
            }
            self.check()?;
            return Ok(Step { fault: false, victim: None });
        }
        self.faults += 1;
        for (page, bit) in &mut self.memory.resident {
            *bit &= self.settle == 0 || self.came_in[page] + self.settle != self.faults;
        }
        self.came_in.insert(page, self.faults);
        self.policy.fault(reference);
        let full = self.memory.resident.len() == self.frames;
        let victim = if full { Some(self.evict_one()?.0) } else { None };
        self.memory.resident.insert(page, false);
        let bit = self.policy.insert(reference, &mut self.memory);
        self.memory.resident.insert(page, bit);
        self.check()?;
        Ok(Step { fault: true, victim })
    }

    fn propose(&mut self) -> Result<Option<PageId>, Violation> {
        let victim = self.policy.victim(&mut self.memory);
        ensure!(victim.is_some() || self.memory.resident.is_empty(), "no victim among resident pages");
        if let Some(page) = victim {
            ensure!(self.memory.resident.contains_key(&page), "victim {page} is not resident");
        }
        Ok(victim)
    }

    /// Evicts the page that the policy proposes.
    pub(super) fn evict_one(&mut self) -> Result<PageId, Violation> {
        let victim = self.propose()?;
        let Some(page) = victim else {
            return Err(Violation("no victim in an empty memory".into()));
        };
        self.memory.resident.remove(&page);
        self.policy.evict(page);
        self.check()?;
        Ok(page)
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.memory.stray.is_empty(), "asked for bits of non-resident pages {:?}", self.memory.stray);
        ensure!(self.memory.resident.len() <= self.frames, "more pages resident than frames");
        self.policy.check()
    }
}

/// For each reference the time of the first reference to its page after the present run of
/// references to it.
fn next_uses(references: &[u32]) -> Vec<u32> {
    let mut next_uses = alloc::vec![NEVER; references.len()];
    let mut used_at = BTreeMap::new();
    for (time, page) in references.iter().enumerate().rev() {
        next_uses[time] = if references.get(time + 1) == Some(page) {
            next_uses[time + 1]
        } else {
            used_at.get(page).copied().unwrap_or(NEVER)
        };
        used_at.insert(*page, time as u32);
    }
    next_uses
}
