//! The interface between a policy and its driver.

use alloc::string::String;
use core::fmt;

/// A page, by dense number: ids count up from 0 so that all state can live in arrays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct PageId(pub u32);

impl PageId {
    /// The id as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`Reference::next_use`] of a page that is not used again.
pub const NEVER: u32 = u32::MAX;

/// One reference, as a policy sees it at a fault and, outside the VM model, at a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The page referenced.
    pub page: PageId,
    /// The page's number in its address space (address / page size), where
    /// [`Policy::NEEDS_PAGE_NUMBERS`] asks for it; the page id otherwise.
    pub page_number: u64,
    /// The object (large allocation, file) that the page belongs to, where
    /// [`Policy::NEEDS_OBJECTS`] asks for it; 0, the default object, otherwise.
    pub object: u32,
    /// Virtual time (in references) of the first reference to the page after the present run of
    /// references to it, or [`NEVER`]. Only an [`OfflineModel`] policy sees it; others see
    /// [`NEVER`].
    pub next_use: u32,
}

/// The memory-management unit, as a policy sees it: only what a kernel could read.
pub trait Mmu {
    /// Returns the reference bit of a resident page and clears it.
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool;

    /// A hint: the bit of a page will be asked for soon, or the page will go. It changes nothing.
    #[inline]
    fn prefetch(&self, page: PageId) {
        let _ = page;
    }
}

/// What a policy needs to see of the reference string. Only [`VmModel`], [`ExactModel`] and
/// [`OfflineModel`] implement it.
pub trait Model: sealed::Sealed {
    /// Whether the driver calls [`Policy::hit`].
    const SEES_HITS: bool;
    /// Whether the driver fills in [`Reference::next_use`].
    const SEES_FUTURE: bool;
    /// One word for listings.
    const NAME: &'static str;
}

/// Faults and reference bits only: a hit costs nothing but the bit that hardware sets. Can run
/// live.
#[derive(Clone, Copy, Debug)]
pub enum VmModel {}
/// Every reference, as in a simulator or a buffer pool that is called on each access.
#[derive(Clone, Copy, Debug)]
pub enum ExactModel {}
/// Every reference and the next use of its page: simulation of a recorded string only.
#[derive(Clone, Copy, Debug)]
pub enum OfflineModel {}

impl Model for VmModel {
    const SEES_HITS: bool = false;
    const SEES_FUTURE: bool = false;
    const NAME: &'static str = "vm";
}
impl Model for ExactModel {
    const SEES_HITS: bool = true;
    const SEES_FUTURE: bool = false;
    const NAME: &'static str = "exact";
}
impl Model for OfflineModel {
    const SEES_HITS: bool = true;
    const SEES_FUTURE: bool = true;
    const NAME: &'static str = "offline";
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::VmModel {}
    impl Sealed for super::ExactModel {}
    impl Sealed for super::OfflineModel {}
}

/// A page replacement policy over a fixed number of frames.
///
/// The driver keeps the resident set and the reference bits and calls, for a reference to page x:
/// - x resident: sets x's reference bit; calls [`hit`](Policy::hit) if [`Model::SEES_HITS`];
/// - x not resident: [`fault`](Policy::fault); while no frame is free, [`victim`](Policy::victim),
///   unmaps that page and confirms with [`evict`](Policy::evict); then [`insert`](Policy::insert).
///   A driver may evict ahead of need, in batches.
///
/// State is kept in arrays by page id that grow when a page is first inserted; nothing is allocated
/// at a hit.
pub trait Policy {
    /// What the policy needs to see. A live pager takes any `P: Policy<Model = VmModel>`.
    type Model: Model;

    /// Whether [`Reference::page_number`] matters to this policy.
    const NEEDS_PAGE_NUMBERS: bool = false;

    /// Whether [`Reference::object`] matters to this policy.
    const NEEDS_OBJECTS: bool = false;

    /// Page ids matter to this policy modulo this number, for example if every n-th page is a
    /// sample. 1 if the policy does not look at the values of ids.
    const IDS_MATTER_MODULO: u32 = 1;

    /// Why this policy's faults cannot be estimated from a sample of the pages in a proportionally
    /// smaller memory; `None` if they can. They can if the policy uses only the order of pages and
    /// shares of memory, and reads parameters that count pages or references with
    /// [`Arguments::pages`](crate::Arguments::pages) and similar methods. They cannot if
    /// neighbours, objects or single frames decide.
    const NOT_SAMPLED: Option<&'static str> = None;

    /// A reference to a page that is not resident, before room is made for it. Called once for each
    /// fault. ([`victim`](Policy::victim) may be called several times, or not at all if a frame is
    /// free.)
    #[inline]
    fn fault(&mut self, reference: Reference) {
        let _ = reference;
    }

    /// Proposes the resident page to evict next, or `None` if no page is resident.
    ///
    /// Hands move and reference bits are cleared, but the driver need not take the proposal: if the
    /// page was referenced meanwhile, or cannot be unmapped, the driver asks again.
    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId>;

    /// Confirms that `page`, the latest proposal of [`victim`](Policy::victim), has been evicted.
    fn evict(&mut self, page: PageId);

    /// Takes in a page that has been loaded. Returns its initial reference bit: whether the page
    /// counts as referenced once the access that faulted is done. Until then its bit reads clear.
    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool;

    /// A reference to a resident page. Never called under [`VmModel`].
    #[inline]
    fn hit(&mut self, reference: Reference) {
        let _ = reference;
    }

    /// A hint: a reference to `page` is near, so what it will look at may be fetched into the
    /// processor's cache. Drivers that know the next references call it a few of them ahead, and
    /// others never. It changes nothing.
    #[inline]
    fn prefetch(&self, page: PageId) {
        let _ = page;
    }

    /// Forgets a page, resident or remembered or unknown: its contents are gone (unmapped, freed).
    /// A later insert of the same id is a new page.
    fn remove(&mut self, page: PageId);

    /// A page, resident, remembered or unknown, belongs to `object` from now on (or still does).
    /// Never called unless [`Policy::NEEDS_OBJECTS`].
    ///
    /// Pages may stay resident while objects come and go: pages of a freed object keep their frames
    /// and belong to the default object, and a new object may begin with resident pages. At a fault
    /// [`Reference::object`] says the same.
    #[inline]
    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        let _ = (page, object, mmu);
    }

    /// A page, resident, remembered or unknown, has another page number from now on, because its
    /// contents have been moved (mremap). Called before the [`assign`](Policy::assign) that says
    /// which object the page belongs to now. Never called unless [`Policy::NEEDS_PAGE_NUMBERS`].
    #[inline]
    fn renumber(&mut self, page: PageId, page_number: u64) {
        let _ = (page, page_number);
    }

    /// An object is gone, after its pages have been [assigned](Policy::assign) to others. A new
    /// object may get its number. Never called unless [`Policy::NEEDS_OBJECTS`].
    #[inline]
    fn free_object(&mut self, object: u32) {
        let _ = object;
    }

    /// List entries examined by all hands since the start (0 for policies without hands). What
    /// counts as examined is defined in each policy's file.
    fn hand_steps(&self) -> u64 {
        0
    }

    /// The split of memory between hot and cold pages, for policies that have one.
    fn cold_allocation(&self) -> Option<ColdAllocation> {
        None
    }

    /// Which of several policies this one follows, for policies that follow one.
    fn leader(&self) -> Option<Leader> {
        None
    }

    /// Checks every invariant of the policy's state. Meant for tests: linear in the size of the
    /// state.
    fn check(&self) -> Result<(), Violation>;
}

/// How many frames hold cold pages, and how many the policy aims at (CLOCK-Pro, Figure 3 of its
/// paper).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColdAllocation {
    /// Resident cold pages.
    pub resident_cold_pages: usize,
    /// The cold allocation m_c that the policy aims at, in pages.
    pub target_pages: usize,
}

/// Which of several policies, its experts, a policy follows, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The expert that leads, by its place among the experts, from 0.
    pub expert: usize,
    /// How often another expert has taken the lead.
    pub changes: u64,
    /// Number of experts.
    pub experts: usize,
    /// Recent misses of each expert, rounded; 0 beyond the last expert. An older miss counts less.
    pub recent_misses: [u64; Leader::MOST_EXPERTS],
}

impl Leader {
    /// Most experts of a policy.
    pub const MOST_EXPERTS: usize = 7;

    /// The recent misses of the experts there are.
    pub fn recent_misses(&self) -> &[u64] {
        &self.recent_misses[..self.experts]
    }
}

/// A broken invariant, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for Violation {}

/// Returns a [`Violation`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Violation(alloc::format!($($message)+)));
        }
    };
}
pub(crate) use ensure;
