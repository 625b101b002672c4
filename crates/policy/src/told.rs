//! For tests of what stands around a policy: a policy that notes what it is told.

use crate::{ColdAllocation, Leader, Mmu, NEVER, PageId, Policy, Reference, Violation, VmModel};
use std::sync::{Arc, Mutex};

/// Notes every call. What it answers differs from what a policy answers that does nothing.
pub(crate) struct Told {
    calls: Arc<Mutex<Vec<String>>>,
}

const COLD: ColdAllocation = ColdAllocation { resident_cold_pages: 3, target_pages: 5 };
const LEADER: Leader = Leader { expert: 1, changes: 7, experts: 2, recent_misses: [4; Leader::MOST_EXPERTS] };

impl Told {
    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Policy for Told {
    type Model = VmModel;

    fn fault(&mut self, reference: Reference) {
        self.note(format!("fault {}", reference.page));
    }
    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let is_referenced = mmu.test_and_clear_referenced(PageId(4));
        self.note(format!("victim {is_referenced}"));
        Some(PageId(4))
    }
    fn evict(&mut self, page: PageId) {
        self.note(format!("evict {page}"));
    }
    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        let is_referenced = mmu.test_and_clear_referenced(reference.page);
        self.note(format!("insert {} {is_referenced}", reference.page));
        true
    }
    fn remove(&mut self, page: PageId) {
        self.note(format!("remove {page}"));
    }
    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        let is_referenced = mmu.test_and_clear_referenced(page);
        self.note(format!("assign {page} {object} {is_referenced}"));
    }
    fn renumber(&mut self, page: PageId, page_number: u64) {
        self.note(format!("renumber {page} {page_number}"));
    }
    fn free_object(&mut self, object: u32) {
        self.note(format!("free_object {object}"));
    }
    fn hand_steps(&self) -> u64 {
        11
    }
    fn cold_allocation(&self) -> Option<ColdAllocation> {
        Some(COLD)
    }
    fn leader(&self) -> Option<Leader> {
        Some(LEADER)
    }
    fn check(&self) -> Result<(), Violation> {
        Err(Violation("told".into()))
    }
}

/// Pages 4 and above are referenced.
struct Bits;

impl Mmu for Bits {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        page.0 >= 4
    }
}

/// Calls everything once on a policy that stands around a [`Told`]: all has to arrive there as it
/// was said, and every answer has to come back.
pub(crate) fn expect_all_passed_on<P: Policy<Model = VmModel>>(around: impl FnOnce(Told) -> P) {
    let calls = Arc::default();
    let mut policy = around(Told { calls: Arc::clone(&calls) });
    let reference = |page| Reference { page: PageId(page), page_number: 90, object: 0, next_use: NEVER };
    policy.fault(reference(2));
    assert_eq!(policy.victim(&mut Bits), Some(PageId(4)));
    policy.evict(PageId(4));
    assert!(policy.insert(reference(2), &mut Bits));
    policy.remove(PageId(3));
    policy.assign(PageId(5), 8, &mut Bits);
    policy.renumber(PageId(5), 70);
    policy.free_object(9);
    let told = [
        "fault 2",
        "victim true",
        "evict 4",
        "insert 2 false",
        "remove 3",
        "assign 5 8 true",
        "renumber 5 70",
        "free_object 9",
    ];
    assert_eq!(*calls.lock().unwrap(), told);
    assert_eq!(policy.hand_steps(), 11);
    assert_eq!(policy.cold_allocation(), Some(COLD));
    assert_eq!(policy.leader(), Some(LEADER));
    assert_eq!(policy.check(), Err(Violation("told".into())));
}
