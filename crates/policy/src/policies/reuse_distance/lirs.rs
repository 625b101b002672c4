//! LIRS: judges a page by the distance between its last two references instead of the age of the
//! last one.
//!
//! Paper: S. Jiang, X. Zhang, "LIRS: an efficient low inter-reference recency set replacement
//! policy to improve buffer cache performance", ACM SIGMETRICS 2002.
//!
//! Most of memory holds LIR pages (low reuse distance). A few frames hold resident HIR pages, which
//! queue for eviction. If a HIR page is referenced again while it is still in the stack S, its
//! reuse distance is smaller than the oldest LIR page's recency, and the two change places.
//!
//! Choices where the paper is silent: in tiny memories, HIR pages have `hir` frames (1 % of memory,
//! rounded down), at least `hir-min` (2) and at most all but one. `stack-limit` bounds S as a
//! multiple of memory; the HIR entry nearest the bottom is dropped. By default S is unlimited,
//! because the published numbers need that.
//!
//! `dlirs` is this policy with another [`Sizing`].
//!
//! Cost: hit and fault amortised O(1). 9 bytes a page seen, 10 to 22 more for a page in S, and as
//! many for a page in Q.
//!
//! ```text
//!                                      referenced while in S
//!        +------------------------------------------------------------------+
//!        v                                                                  |
//!   LIR (in S, resident) --- is at the bottom of S when one joins ---> HIR resident (in Q, perhaps in S)
//!        ^                                                               |          ^
//!        | referenced while in S                             front of Q  v          | referenced, not in S
//!        +------------------------------------------------ HIR non-resident (in S) / unknown
//!   S is pruned so that a LIR page is at its bottom; non-resident pages pruned are forgotten.
//! ```

use crate::arguments::{Parameter, Rounding};
use crate::collections::{PageMap, RecencyOrder};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::vec::Vec;
use core::fmt;

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

/// How the frames meant for resident HIR pages change. By default they do not.
pub trait Sizing: Default + fmt::Debug {
    /// A LIR page has turned HIR.
    fn demoted(&mut self, _page: PageId) {}

    /// A resident HIR page is referenced. Returns the change in frames.
    fn hit_in_queue(&mut self, _page: PageId) -> isize {
        0
    }

    /// A page in S that is not resident is faulted on, and moves to the top of S. Returns the
    /// change in frames.
    fn faulted_in_stack(&mut self, _page: PageId) -> isize {
        0
    }

    /// A page has been evicted. It stays in S, above all pages for which this was said before.
    fn evicted(&mut self, _page: PageId) {}

    /// A page to forget because too many that are not resident are known.
    fn too_many(&self, _frames: usize) -> Option<PageId> {
        None
    }

    /// A page is no longer resident in Q, or no longer in S without being resident.
    fn gone(&mut self, _page: PageId) {}

    /// Checks what is kept, given the pages that are resident in Q and not in S, and those that are
    /// in S and not resident.
    fn check(&self, _only_queued: &[PageId], _non_resident: &[PageId]) -> Result<(), Violation> {
        Ok(())
    }
}

/// The frames of HIR pages stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Constant;

impl Sizing for Constant {}

/// Low inter-reference recency set.
#[derive(Debug)]
pub struct Lirs<S = Constant> {
    frames: usize,
    /// Frames meant for resident HIR pages.
    hir_frames: usize,
    /// What changes them.
    sizing: S,
    status: PageMap<Status>,
    /// Pages that are LIR.
    lir_pages: usize,
    /// S: recency order, bottom the oldest.
    stack: RecencyOrder,
    /// Q: resident HIR pages, the next to evict the oldest.
    queue: RecencyOrder,
    /// Bound on S, if any.
    bound: Option<StackBound>,
}

#[derive(Debug)]
struct StackBound {
    entries: usize,
    /// The HIR pages in S, in the order of S.
    hir: RecencyOrder,
}

pub(super) const HIR: Parameter =
    Parameter { name: "hir", default: "1%", meaning: "frames for resident HIR pages" };
pub(super) const HIR_MIN: Parameter =
    Parameter { name: "hir-min", default: "2", meaning: "lower bound of that, in pages" };

/// The frames for resident HIR pages, from [`HIR`] and [`HIR_MIN`].
pub(super) fn hir_frames(frames: usize, arguments: &Arguments) -> Result<usize, ArgumentError> {
    let hir = arguments.pages(HIR.name, frames, Rounding::Down)?;
    let least = arguments.pages(HIR_MIN.name, frames, Rounding::Nearest)?;
    Ok(hir.max(least).clamp(1, frames.saturating_sub(1).max(1)))
}

impl Registered for Lirs {
    const INFO: Info = Info {
        name: "lirs",
        summary: "keeps pages of low reuse distance; the few others queue for eviction",
        paper: "Jiang, Zhang, LIRS, ACM SIGMETRICS 2002",
        parameters: &[
            HIR,
            HIR_MIN,
            Parameter {
                name: "stack-limit",
                default: "unlimited",
                meaning: "most entries in stack S, as a multiple of memory",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let bound = match arguments.value("stack-limit") {
            "unlimited" => None,
            text => {
                let limit = arguments.factor("stack-limit")?;
                if limit < 1.0 {
                    return Err(arguments.bad(
                        "stack-limit",
                        text,
                        "'unlimited' or a multiple of memory of at least 1",
                    ));
                }
                Some(StackBound { entries: (limit * frames as f64) as usize, hir: RecencyOrder::new() })
            }
        };
        Ok(Self { bound, ..Self::new(frames, hir_frames(frames, arguments)?) })
    }
}

impl<S: Sizing> Lirs<S> {
    /// An empty memory, `hir_frames` of it meant for resident HIR pages.
    pub(super) fn new(frames: usize, hir_frames: usize) -> Self {
        Self {
            frames,
            hir_frames,
            sizing: S::default(),
            status: PageMap::new(),
            lir_pages: 0,
            stack: RecencyOrder::new(),
            queue: RecencyOrder::new(),
            bound: None,
        }
    }

    #[cfg(test)]
    pub(super) fn sizing(&self) -> &S {
        &self.sizing
    }

    #[cfg(test)]
    pub(super) fn hir_frames(&self) -> usize {
        self.hir_frames
    }

    fn lir_frames(&self) -> usize {
        self.frames - self.hir_frames
    }

    /// The only place where a page's status and the count of LIR pages change.
    #[inline]
    fn set_status(&mut self, page: PageId, status: Status) {
        self.lir_pages -= usize::from(self.status[page] == Status::Lir);
        self.lir_pages += usize::from(status == Status::Lir);
        self.status[page] = status;
    }

    /// What every reference does to a resident page (one that is HIR has been taken out of Q
    /// before).
    #[inline]
    fn touch(&mut self, page: PageId) {
        let was_in_stack = self.stack.contains(page);
        self.push_on_stack(page);
        if self.status[page] == Status::Lir {
            self.prune();
        } else if was_in_stack {
            self.promote(page);
        } else {
            self.queue.touch(page);
        }
    }

    /// A HIR page turns LIR; the LIR page at the bottom of S makes room for it if it has to.
    fn promote(&mut self, page: PageId) {
        self.set_status(page, Status::Lir);
        if let Some(bound) = &mut self.bound {
            bound.hir.remove(page);
        }
        self.prune();
        self.demote();
    }

    /// LIR pages at the bottom of S turn HIR while there are too many.
    fn demote(&mut self) {
        while self.lir_pages > self.lir_frames()
            && let Some(bottom) = self.stack.oldest()
        {
            self.stack.remove(bottom);
            self.set_status(bottom, Status::Hir);
            self.queue.touch(bottom);
            self.sizing.demoted(bottom);
            self.prune();
        }
    }

    /// Changes the frames meant for resident HIR pages, within 1 and all but one.
    fn resize_hir(&mut self, change: isize) {
        let most = self.frames.saturating_sub(1).max(1);
        self.hir_frames = self.hir_frames.saturating_add_signed(change).clamp(1, most);
        self.demote();
    }

    #[inline]
    fn push_on_stack(&mut self, page: PageId) {
        self.stack.touch(page);
        if self.bound.is_some() {
            self.enforce_bound(page);
        }
    }

    #[cold]
    fn enforce_bound(&mut self, page: PageId) {
        let Some(bound) = &mut self.bound else { return };
        if self.status[page] != Status::Lir {
            bound.hir.touch(page);
        }
        if self.stack.len() > bound.entries
            && let Some(lowest) = bound.hir.oldest()
        {
            self.leave_stack(lowest);
        }
    }

    /// Takes a HIR page out of S; a non-resident one is forgotten by that.
    fn leave_stack(&mut self, page: PageId) {
        self.stack.remove(page);
        self.status.prefetch(self.stack.soon_oldest());
        if let Some(bound) = &mut self.bound {
            bound.hir.remove(page);
        }
        if self.status[page] == Status::NonResident {
            self.sizing.gone(page);
            self.set_status(page, Status::Unknown);
        }
    }

    /// Removes HIR pages from the bottom of S until a LIR page is there.
    #[inline]
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.oldest()
            && self.status[bottom] != Status::Lir
        {
            self.leave_stack(bottom);
        }
    }
}

impl<S: Sizing> Policy for Lirs<S> {
    type Model = ExactModel;

    #[inline]
    fn fault(&mut self, reference: Reference) {
        let page = reference.page;
        if self.status.get(page) == Status::NonResident {
            let change = self.sizing.faulted_in_stack(page);
            if change != 0 {
                // To the top first: S may be pruned below.
                self.stack.touch(page);
                self.resize_hir(change);
            }
        }
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        // Q is never empty when memory is full; with frames to spare the bottom LIR page is next.
        self.queue.oldest().or_else(|| self.stack.oldest().filter(|_| self.lir_pages > 0))
    }

    fn evict(&mut self, page: PageId) {
        self.queue.remove(page);
        if self.status[page] == Status::Lir || !self.stack.contains(page) {
            self.remove(page);
        } else {
            self.sizing.gone(page);
            self.set_status(page, Status::NonResident);
            self.sizing.evicted(page);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        let free = self.frames - self.lir_pages - self.queue.len();
        self.status.cover(page);
        self.sizing.gone(page);
        if free > self.hir_frames {
            self.set_status(page, Status::Lir);
            if let Some(bound) = &mut self.bound {
                bound.hir.remove(page);
            }
        } else {
            self.set_status(page, Status::Hir);
        }
        self.touch(page);
        while let Some(lowest) = self.sizing.too_many(self.frames) {
            self.leave_stack(lowest);
        }
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        if self.status[reference.page] == Status::Hir {
            self.queue.remove(reference.page);
            let change = self.sizing.hit_in_queue(reference.page);
            if change != 0 {
                self.resize_hir(change);
            }
        }
        self.touch(reference.page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.status.prefetch(page);
        self.stack.prefetch(page);
        self.queue.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        if self.status.get(page) == Status::Unknown {
            return;
        }
        self.queue.remove(page);
        self.sizing.gone(page);
        self.leave_stack(page);
        self.set_status(page, Status::Unknown);
        self.prune();
    }

    fn check(&self) -> Result<(), Violation> {
        self.stack.check()?;
        self.queue.check()?;
        let residents = self.lir_pages + self.queue.len();
        ensure!(residents <= self.frames, "{residents} pages resident");
        ensure!(self.lir_pages <= self.lir_frames(), "{} LIR pages", self.lir_pages);
        let bottom = self.stack.oldest().map(|bottom| self.status[bottom]);
        ensure!(self.lir_pages == 0 || bottom == Some(Status::Lir), "the bottom of S is {bottom:?}");
        let mut lir_pages = 0;
        let mut hir_in_stack = 0;
        let (mut only_queued, mut non_resident) = (Vec::new(), Vec::new());
        for (page, status) in self.status.iter() {
            let (in_stack, in_queue) = (self.stack.contains(page), self.queue.contains(page));
            lir_pages += usize::from(status == Status::Lir);
            hir_in_stack += usize::from(in_stack && status != Status::Lir);
            let placed = match status {
                Status::Unknown => !in_stack && !in_queue,
                Status::Lir | Status::NonResident => in_stack && !in_queue,
                Status::Hir => in_queue,
            };
            match status {
                Status::Hir if !in_stack => only_queued.push(page),
                Status::NonResident => non_resident.push(page),
                _ => {}
            }
            ensure!(placed, "page {page} is {status:?}, in S: {in_stack}, in Q: {in_queue}");
        }
        self.sizing.check(&only_queued, &non_resident)?;
        ensure!(lir_pages == self.lir_pages, "{lir_pages} LIR pages, counted {}", self.lir_pages);
        if let Some(bound) = &self.bound {
            bound.hir.check()?;
            ensure!(
                bound.hir.len() == hir_in_stack,
                "{} of {hir_in_stack} HIR pages in S known",
                bound.hir.len()
            );
            let entries = self.stack.len();
            ensure!(entries <= bound.entries.max(self.lir_pages + 1), "S has {entries} entries");
        }
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
        let mut machine = Machine::<Lirs>::new("lirs:hir-min=1", 3);
        let states = [1, 2, 3, 1, 4, 2, 5, 1, 6, 3, 2, 4].map(|page| {
            machine.access(page);
            let lirs = machine.policy();
            let letter = |page| match lirs.status[page] {
                Status::Unknown => '?',
                Status::Lir => 'L',
                Status::Hir => 'h',
                Status::NonResident => 'n',
            };
            let stack: Vec<_> = lirs.stack.iter().map(|page| format!("{page}{}", letter(page))).collect();
            let queue: Vec<_> = lirs.queue.iter().map(|page| page.to_string()).collect();
            format!("{} [{}]", stack.join(" "), queue.join(" "))
        });
        assert_eq!(
            states,
            [
                "1L []",
                "1L 2L []",
                "1L 2L 3h [3]",
                "2L 3h 1L [3]",
                "2L 3n 1L 4h [4]",
                "1L 4h 2L [4]",
                "1L 4n 2L 5h [5]",
                "2L 5h 1L [5]",
                "2L 5n 1L 6h [6]",
                "2L 5n 1L 6n 3h [3]",
                "1L 6n 3h 2L [3]",
                "1L 6n 3n 2L 4h [4]",
            ]
        );
    }
}
