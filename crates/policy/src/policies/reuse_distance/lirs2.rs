//! LIRS2: LIRS that judges a page by the sum of its last two reuse distances.
//!
//! Paper: C. Zhong, X. Zhao, S. Jiang, "LIRS2: an improved LIRS replacement algorithm", ACM SYSTOR
//! 2021.
//!
//! One reuse distance says little of a page whose distances vary. LIRS2 asks how long ago the
//! reference before the last was. Stack S therefore holds the two latest references to a page, its
//! *instances*. If a HIR page is referenced while the older of its two instances is still in S, the
//! page turns LIR, and the LIR page at the bottom of S turns HIR.
//!
//! ```text
//!                                      both instances in S
//!        +------------------------------------------------------------------+
//!        v                                                                  |
//!   LIR (in S, resident) --- is at the bottom of S when one joins ---> HIR resident (in Q, perhaps in S)
//!        ^                   its instances leave S                       |          ^
//!        | both instances in S                               front of Q  v          | one instance in S, or none
//!        +------------------------------------------------ HIR non-resident (in S) / unknown
//!   S is pruned so that an instance of a LIR page is at its bottom; a non-resident page without an
//!   instance is forgotten.
//! ```
//!
//! The rules are taken from a description of the paper. The paper also switches between LRU and
//! LIRS2 by what each would have missed. That part is left out, because the description does not
//! specify it. Choices: pages that fill memory turn LIR at their first reference, as in LIRS, and
//! have one instance until the second. A page of one instance stands in S where that is. HIR pages
//! have `hir` frames, at least `hir-min`, as in `lirs`. The size of S is not
//! bounded.
//!
//! Cost: hit and fault amortised O(1) list moves. 29 bytes a page seen. Page ids are below 2^31.

use super::lirs::{HIR, HIR_MIN, hir_frames};
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Status {
    #[default]
    Unknown,
    /// Resident, in S.
    Lir,
    /// Resident, in Q, perhaps in S.
    Hir,
    /// Not resident, in S.
    NonResident,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    status: Status,
    /// Which of the page's two instances is the newer one, if any is in S.
    newer: bool,
}

/// The one list in both [`Lists`].
const LIST: usize = 0;

/// An instance of a page, as the id by which S knows it.
fn instance(page: PageId, which: bool) -> PageId {
    PageId(2 * page.0 + u32::from(which))
}

/// The page of an instance.
fn page_of(instance: PageId) -> PageId {
    PageId(instance.0 / 2)
}

/// LIRS with the sum of two reuse distances.
#[derive(Debug)]
pub struct Lirs2 {
    frames: usize,
    /// Frames meant for resident HIR pages.
    hir_frames: usize,
    entries: PageMap<Entry>,
    /// Pages that are LIR.
    lir_pages: usize,
    /// S: [`instance`]s, bottom (least recent) in front.
    stack: Lists<1>,
    /// Q: resident HIR pages, the next to evict in front.
    queue: Lists<1>,
}

impl Registered for Lirs2 {
    const INFO: Info = Info {
        name: "lirs2",
        summary: "LIRS that goes by the sum of the last two reuse distances",
        paper: "Zhong, Zhao, Jiang, LIRS2, ACM SYSTOR 2021",
        parameters: &[HIR, HIR_MIN],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            hir_frames: hir_frames(frames, arguments)?,
            entries: PageMap::new(),
            lir_pages: 0,
            stack: Lists::new(),
            queue: Lists::new(),
        })
    }
}

impl Lirs2 {
    fn lir_frames(&self) -> usize {
        self.frames - self.hir_frames
    }

    fn is_in_stack(&self, page: PageId, which: bool) -> bool {
        self.stack.list_of(instance(page, which)).is_some()
    }

    fn has_instance(&self, page: PageId) -> bool {
        self.is_in_stack(page, false) || self.is_in_stack(page, true)
    }

    /// The only place where a page's status and the count of LIR pages change.
    fn set_status(&mut self, page: PageId, status: Status) {
        self.lir_pages -= usize::from(self.entries[page].status == Status::Lir);
        self.lir_pages += usize::from(status == Status::Lir);
        self.entries[page].status = status;
    }

    /// Pushes an instance on S; the older of two there leaves. Returns whether there were two.
    fn push_instance(&mut self, page: PageId) -> bool {
        let older = !self.entries[page].newer;
        let had_both = self.is_in_stack(page, older) && self.is_in_stack(page, !older);
        self.entries[page].newer = older;
        self.stack.move_to_back(LIST, instance(page, older));
        had_both
    }

    /// What every reference does to a resident page (one that is HIR has been taken out of Q
    /// before).
    fn touch(&mut self, page: PageId) {
        let had_both = self.push_instance(page);
        if self.entries[page].status != Status::Lir {
            if had_both {
                self.promote(page);
            } else {
                self.queue.push_back(LIST, page);
            }
        }
        self.prune();
    }

    /// A HIR page turns LIR; the LIR page at the bottom of S makes room for it if it has to.
    fn promote(&mut self, page: PageId) {
        self.set_status(page, Status::Lir);
        self.prune();
        if self.lir_pages > self.lir_frames()
            && let Some(bottom) = self.stack.front(LIST).map(page_of)
        {
            self.leave_stack(bottom);
            self.set_status(bottom, Status::Hir);
            self.queue.push_back(LIST, bottom);
        }
    }

    /// Takes all instances of a page out of S.
    fn leave_stack(&mut self, page: PageId) {
        self.stack.remove(instance(page, false));
        self.stack.remove(instance(page, true));
    }

    /// Removes instances of HIR pages from the bottom of S until one of a LIR page is there.
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.front(LIST)
            && self.entries[page_of(bottom)].status != Status::Lir
        {
            self.stack.remove(bottom);
            let page = page_of(bottom);
            if self.entries[page].status == Status::NonResident && !self.has_instance(page) {
                self.set_status(page, Status::Unknown);
            }
        }
    }
}

impl Policy for Lirs2 {
    type Model = ExactModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        // Q is never empty when memory is full; with frames to spare the bottom LIR page is next.
        self.queue.front(LIST).or_else(|| self.stack.front(LIST).filter(|_| self.lir_pages > 0).map(page_of))
    }

    fn evict(&mut self, page: PageId) {
        self.queue.remove(page);
        if self.entries[page].status == Status::Lir || !self.has_instance(page) {
            self.remove(page);
        } else {
            self.set_status(page, Status::NonResident);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        let free = self.frames - self.lir_pages - self.queue.len(LIST);
        self.entries.cover(page);
        self.set_status(page, if free > self.hir_frames { Status::Lir } else { Status::Hir });
        self.touch(page);
        false
    }

    fn hit(&mut self, reference: Reference) {
        if self.entries[reference.page].status == Status::Hir {
            self.queue.remove(reference.page);
        }
        self.touch(reference.page);
    }

    fn remove(&mut self, page: PageId) {
        if self.entries.get(page).status == Status::Unknown {
            return;
        }
        self.queue.remove(page);
        self.leave_stack(page);
        self.set_status(page, Status::Unknown);
        self.prune();
    }

    fn check(&self) -> Result<(), Violation> {
        self.stack.check()?;
        self.queue.check()?;
        let residents = self.lir_pages + self.queue.len(LIST);
        ensure!(residents <= self.frames, "{residents} pages resident");
        ensure!(self.lir_pages <= self.lir_frames(), "{} LIR pages", self.lir_pages);
        let bottom = self.stack.front(LIST).map(|bottom| self.entries[page_of(bottom)].status);
        ensure!(matches!(bottom, None | Some(Status::Lir)), "the bottom of S is {bottom:?}");
        let mut lir_pages = 0;
        for (page, entry) in self.entries.iter() {
            let (in_stack, in_queue) = (self.has_instance(page), self.queue.list_of(page).is_some());
            lir_pages += usize::from(entry.status == Status::Lir);
            let placed = match entry.status {
                Status::Unknown => !in_stack && !in_queue,
                Status::Lir | Status::NonResident => in_stack && !in_queue,
                Status::Hir => in_queue,
            };
            ensure!(placed, "page {page} is {:?}, in S: {in_stack}, in Q: {in_queue}", entry.status);
            ensure!(!in_stack || self.is_in_stack(page, entry.newer), "page {page} lost its newer instance");
        }
        ensure!(lir_pages == self.lir_pages, "{lir_pages} LIR pages, counted {}", self.lir_pages);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// S from bottom to top and Q: `L` LIR, `h` resident HIR, `n` non-resident HIR.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Lirs2>::new("lirs2:hir-min=1", 3);
        let states = machine.trace(&[1, 2, 3, 1, 3, 4, 3, 3, 2], |machine| {
            let lirs2 = machine.policy();
            let letter = |page| match lirs2.entries[page].status {
                Status::Unknown => '?',
                Status::Lir => 'L',
                Status::Hir => 'h',
                Status::NonResident => 'n',
            };
            let stack = lirs2.stack.iter(LIST).map(page_of).map(|page| format!("{page}{}", letter(page)));
            let queue = lirs2.queue.iter(LIST).map(|page| page.to_string());
            let [stack, queue] = [stack.collect::<Vec<_>>(), queue.collect()].map(|list| list.join(" "));
            format!("{stack} [{queue}]")
        });
        assert_eq!(
            states,
            [
                "1L []",
                "1L 2L []",
                "1L 2L 3h [3]",
                "1L 2L 3h 1L [3]",
                "1L 2L 3h 1L 3h [3]", // 3 had one instance: it stays HIR
                "1L 2L 3n 1L 3n 4h [4]",
                "2L 3L 4n 3L [1]", // 3 had two: it turns LIR, and 1 leaves S
                "2L 4n 3L 3L [1]", // the oldest of three leaves
                "2L 4n 3L 3L 2L [1]",
            ]
        );
    }
}
