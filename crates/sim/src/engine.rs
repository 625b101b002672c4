//! One simulation: one policy with one memory size.
//!
//! The page table is one byte a page. In the VM model a hit is one `or` on that byte, and the
//! policy is called only at faults. Each [`Engine`] is compiled for its policy. The rest of the
//! program sees a [`Simulation`], with one call a chunk.

use crate::Outcome;
use crate::live_objects::LiveObjects;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use sweephand_policy::plugin::Plugin;
use sweephand_policy::registry::{Registered, Spec, Visitor};
use sweephand_policy::{ArgumentError, Mmu, Model, NEVER, PageId, Policy, Reference, prefetch};
use sweephand_trace::{Chunk, Event, PackedReference};

/// A simulation that takes a trace chunk by chunk.
pub trait Simulation: Send {
    /// Simulates the references of `chunk` in `range`, with the events among them; the events
    /// behind the last reference of the chunk belong to the range that ends there. `next_uses` are
    /// those of the whole chunk; they may be empty unless [`Simulation::needs_future`].
    fn advance(&mut self, chunk: &Chunk, range: Range<usize>, next_uses: &[u32]);

    /// The counts so far.
    fn outcome(&self) -> Outcome;

    /// Whether a page is in memory now.
    fn is_resident(&self, page: PageId) -> bool;

    /// Whether `advance` must be given the next uses.
    fn needs_future(&self) -> bool;
}

/// Watches what a simulation does to pages. Times are numbers of records of the trace. Each method
/// does nothing unless it is written out. An engine is compiled for nobody, which costs nothing,
/// and for a boxed observer, so that each policy is compiled twice however many kinds there are.
pub trait Observer {
    /// Whether [`Observer::written`] is called. Looking for writes takes time at every reference.
    /// The answer stays the same during a simulation.
    #[inline]
    fn sees_writes(&self) -> bool {
        false
    }

    /// A reference that writes to its page, after the fault that it may have taken.
    #[inline]
    fn written(&mut self, page: PageId) {
        let _ = page;
    }

    /// A reference to a page that is not resident, before room is made for it.
    #[inline]
    fn fault(&mut self, page: PageId, record: u64) {
        let _ = (page, record);
    }

    /// A page lost its frame to the fault of `record`.
    #[inline]
    fn evicted(&mut self, page: PageId, record: u64) {
        let _ = (page, record);
    }

    /// The contents of a page are gone, resident or not.
    #[inline]
    fn dropped(&mut self, page: PageId) {
        let _ = page;
    }

    /// Adds what was seen to the counts.
    fn report(&self, outcome: &mut Outcome) {
        let _ = outcome;
    }
}

/// Nobody watches.
impl Observer for () {}

impl Observer for Box<dyn Observer + Send> {
    fn sees_writes(&self) -> bool {
        (**self).sees_writes()
    }

    fn written(&mut self, page: PageId) {
        (**self).written(page);
    }

    fn fault(&mut self, page: PageId, record: u64) {
        (**self).fault(page, record);
    }

    fn evicted(&mut self, page: PageId, record: u64) {
        (**self).evicted(page, record);
    }

    fn dropped(&mut self, page: PageId) {
        (**self).dropped(page);
    }

    fn report(&self, outcome: &mut Outcome) {
        (**self).report(outcome);
    }
}

/// Page table flags. A page that was never touched, or whose contents were dropped, has none.
const TOUCHED: u8 = 1;
const RESIDENT: u8 = 2;
const REFERENCED: u8 = 4;

/// The references between one and that for which the state of its page is fetched meanwhile.
/// `lab/bench/throughput` has the times for other distances.
const AHEAD: usize = 24;
/// With at most this many pages, all state is near the processor anyway.
const NEAR_PAGES: usize = 1 << 17;

/// The resident set and its reference bits.
#[derive(Debug, Default)]
struct PageTable {
    flags: Vec<u8>,
}

impl Mmu for PageTable {
    #[inline]
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        let flags = &mut self.flags[page.index()];
        let referenced = *flags & REFERENCED != 0;
        *flags &= !REFERENCED;
        referenced
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        if let Some(flags) = self.flags.get(page.index()) {
            prefetch(flags);
        }
    }
}

/// Demand paging under one policy, watched by an observer.
#[derive(Debug)]
pub struct Engine<P, O = ()> {
    policy: P,
    frames: usize,
    /// Occupied frames.
    resident: usize,
    table: PageTable,
    /// By page id; empty unless the policy needs page numbers or objects.
    page_numbers: Vec<u64>,
    /// Empty unless the policy needs objects.
    objects: LiveObjects,
    /// The pages that have contents, by page number; from the first event on that asks for them.
    by_number: Option<BTreeMap<u64, PageId>>,
    /// Whether a reference that repeats the one before it is hidden from the policy.
    collapse: bool,
    /// The page referenced last, while it counts as repeated.
    last: u32,
    counts: Outcome,
    observer: O,
}

/// No page.
const NONE: u32 = u32::MAX;

impl<P: Policy, O: Observer> Engine<P, O> {
    /// An engine with `frames` free frames. With `collapse`, a reference to the page of the
    /// reference before it counts as a hit that the policy is not shown. `page_bytes` says which
    /// pages an object covers.
    pub fn new(policy: P, frames: usize, collapse: bool, page_bytes: u64, observer: O) -> Self {
        Self {
            policy,
            frames,
            resident: 0,
            table: PageTable::default(),
            page_numbers: Vec::new(),
            objects: LiveObjects::new(page_bytes),
            by_number: None,
            collapse,
            last: NONE,
            counts: Outcome::default(),
            observer,
        }
    }

    /// The references between two events.
    fn run<const COLLAPSE: bool>(&mut self, references: &[PackedReference], next_uses: &[u32]) {
        let sees_writes = self.observer.sees_writes();
        let first_record = self.counts.records;
        self.counts.records += references.len() as u64;
        let looks_ahead = self.table.flags.len() > NEAR_PAGES;
        for (time, reference) in references.iter().enumerate() {
            if looks_ahead && let Some(ahead) = references.get(time + AHEAD) {
                let page = PageId(ahead.page());
                self.table.prefetch(page);
                self.policy.prefetch(page);
            }
            let page = reference.page();
            if COLLAPSE {
                if page == self.last {
                    if sees_writes && reference.is_write() {
                        self.observer.written(PageId(page));
                    }
                    continue;
                }
                self.last = page;
            }
            let flags = &mut self.table.flags[page as usize];
            let next_use = if P::Model::SEES_FUTURE { next_uses[time] } else { NEVER };
            if *flags & RESIDENT == 0 {
                self.fault(PageId(page), next_use, first_record + time as u64);
            } else if P::Model::SEES_HITS {
                // No policy that sees hits reads reference bits.
                let reference = self.shown(PageId(page), next_use);
                self.policy.hit(reference);
            } else {
                *flags |= REFERENCED;
            }
            if sees_writes && reference.is_write() {
                self.observer.written(PageId(page));
            }
        }
    }

    /// A reference as the policy is shown it: look-ups are made only for policies that need them.
    #[inline]
    fn shown(&self, page: PageId, next_use: u32) -> Reference {
        let looked_up = P::NEEDS_PAGE_NUMBERS || P::NEEDS_OBJECTS;
        let page_number = if looked_up { self.page_numbers[page.index()] } else { u64::from(page.0) };
        let object = if P::NEEDS_OBJECTS { self.objects.of(page_number) } else { 0 };
        Reference { page, page_number, object, next_use }
    }

    // Always in line, with what it calls: a tenth of the time of a trace that faults at every other
    // reference.
    #[inline(always)]
    fn fault(&mut self, page: PageId, next_use: u32, record: u64) {
        self.counts.faults += 1;
        self.observer.fault(page, record);
        let reference = self.shown(page, next_use);
        self.policy.fault(reference);
        if self.resident == self.frames {
            self.evict(record);
        } else {
            self.counts.warmup_faults += 1;
            self.resident += 1;
        }
        let flags = &mut self.table.flags[page.index()];
        self.counts.first_touch_faults += u64::from(*flags & TOUCHED == 0);
        if P::NEEDS_OBJECTS
            && *flags & TOUCHED == 0
            && let Some(by_number) = &mut self.by_number
        {
            by_number.insert(reference.page_number, page);
        }
        *flags = TOUCHED | RESIDENT;
        if self.policy.insert(reference, &mut self.table) {
            self.table.flags[page.index()] |= REFERENCED;
        }
    }

    #[inline(always)]
    fn evict(&mut self, record: u64) {
        let victim = self.policy.victim(&mut self.table).expect("memory is full, so there is a victim");
        let flags = &mut self.table.flags[victim.index()];
        assert!(*flags & RESIDENT != 0, "victim {victim} is not resident");
        *flags = TOUCHED;
        self.policy.evict(victim);
        self.counts.evictions += 1;
        self.observer.evicted(victim, record);
    }

    #[cold]
    fn event(&mut self, event: &Event) {
        match event {
            Event::Drop { pages } => {
                for page in pages.clone() {
                    self.drop_contents(PageId(page));
                }
            }
            Event::Move { page, to } => self.move_page(PageId(*page), *to),
            Event::Alloc { address, length, .. } if P::NEEDS_OBJECTS => {
                self.free(*address);
                let pages = self.objects.alloc(*address, *length);
                self.assign(pages);
            }
            Event::Free { address } if P::NEEDS_OBJECTS => self.free(*address),
            Event::Alloc { .. } | Event::Free { .. } | Event::Mark { .. } | Event::Map { .. } => {}
        }
    }

    /// The pages that have contents, by page number. Few traces have objects whose pages must be
    /// found, so they are sorted when that is asked for the first time.
    fn by_number(&mut self) -> &mut BTreeMap<u64, PageId> {
        self.by_number.get_or_insert_with(|| {
            let pages = self.table.flags.iter().zip(&self.page_numbers).zip(0..);
            let touched = pages.filter(|((flags, _), _)| **flags & TOUCHED != 0);
            touched.map(|((_, &number), page)| (number, PageId(page))).collect()
        })
    }

    /// Tells the policy which objects the pages with these numbers belong to.
    fn assign(&mut self, numbers: RangeInclusive<u64>) {
        self.by_number();
        for (&number, &page) in self.by_number.iter().flat_map(|pages| pages.range(numbers.clone())) {
            self.policy.assign(page, self.objects.of(number), &mut self.table);
        }
    }

    /// An object's pages go to others, mostly to the default object; then it ends.
    fn free(&mut self, address: u64) {
        if let Some((object, numbers)) = self.objects.free(address) {
            self.assign(numbers);
            self.policy.free_object(object);
        }
    }

    fn move_page(&mut self, page: PageId, to: u64) {
        if P::NEEDS_OBJECTS {
            self.by_number();
        }
        let Some(number) = self.page_numbers.get_mut(page.index()) else { return };
        let from = std::mem::replace(number, to);
        if P::NEEDS_PAGE_NUMBERS {
            self.policy.renumber(page, to);
        }
        if P::NEEDS_OBJECTS && self.by_number().get(&from) == Some(&page) {
            self.by_number().remove(&from);
            self.by_number().insert(to, page);
            self.assign(to..=to);
        }
    }

    fn drop_contents(&mut self, page: PageId) {
        let Some(flags) = self.table.flags.get_mut(page.index()) else { return };
        let flags = std::mem::take(flags);
        if flags & TOUCHED != 0
            && let Some(by_number) = &mut self.by_number
        {
            by_number.remove(&self.page_numbers[page.index()]);
        }
        if flags & RESIDENT != 0 {
            self.resident -= 1;
        }
        if flags & TOUCHED != 0 {
            self.policy.remove(page);
            self.observer.dropped(page);
        }
        if self.last == page.0 {
            self.last = NONE;
        }
    }
}

impl<P: Policy + Send, O: Observer + Send> Simulation for Engine<P, O> {
    fn advance(&mut self, chunk: &Chunk, range: Range<usize>, next_uses: &[u32]) {
        let pages = chunk.pages as usize;
        if self.table.flags.len() < pages {
            self.table.flags.resize(pages, 0);
        }
        if (P::NEEDS_PAGE_NUMBERS || P::NEEDS_OBJECTS) && self.page_numbers.len() < pages {
            self.page_numbers.extend_from_slice(&chunk.new_pages);
        }
        for_each_segment(chunk, range, |segment, event| {
            let next_uses = if P::Model::SEES_FUTURE { &next_uses[segment.clone()] } else { &[] };
            let references = &chunk.references[segment];
            if self.collapse {
                self.run::<true>(references, next_uses);
            } else {
                self.run::<false>(references, next_uses);
            }
            if let Some(event) = event {
                self.event(event);
            }
        });
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = Outcome {
            hand_steps: self.policy.hand_steps(),
            cold_allocation: self.policy.cold_allocation(),
            leader: self.policy.leader(),
            ..self.counts
        };
        self.observer.report(&mut outcome);
        outcome
    }

    fn is_resident(&self, page: PageId) -> bool {
        self.table.flags.get(page.index()).is_some_and(|flags| flags & RESIDENT != 0)
    }

    fn needs_future(&self) -> bool {
        P::Model::SEES_FUTURE
    }
}

/// A simulation of a policy from elsewhere, which may have to get ready for a chunk.
struct OfPlugin {
    plugin: Arc<dyn Plugin>,
    simulation: Box<dyn Simulation>,
}

impl Simulation for OfPlugin {
    fn advance(&mut self, chunk: &Chunk, range: Range<usize>, next_uses: &[u32]) {
        self.plugin.during(&mut || self.simulation.advance(chunk, range.clone(), next_uses));
    }

    fn outcome(&self) -> Outcome {
        self.simulation.outcome()
    }

    fn is_resident(&self, page: PageId) -> bool {
        self.simulation.is_resident(page)
    }

    fn needs_future(&self) -> bool {
        self.simulation.needs_future()
    }
}

/// Cuts a range of a chunk at its events: each segment comes with the event that follows it, the
/// last with none.
pub(crate) fn for_each_segment(
    chunk: &Chunk,
    range: Range<usize>,
    mut visit: impl FnMut(Range<usize>, Option<&Event>),
) {
    let is_last = range.end == chunk.references.len();
    let first = chunk.events.partition_point(|(position, _)| (*position as usize) < range.start);
    let mut start = range.start;
    for (position, event) in &chunk.events[first..] {
        let position = *position as usize;
        if position > range.end || (position == range.end && !is_last) {
            break;
        }
        visit(start..position, Some(event));
        start = position;
    }
    visit(start..range.end, None);
}

/// A simulation of the policy that a spec names, of pages of `page_bytes`. `collapse` holds unless
/// the spec says otherwise.
pub fn simulation(
    spec: &Spec,
    frames: usize,
    collapse: bool,
    page_bytes: u64,
) -> Result<Box<dyn Simulation>, ArgumentError> {
    watched(spec, frames, collapse, page_bytes, ())
}

/// The same, watched by an observer.
pub fn observed(
    spec: &Spec,
    frames: usize,
    collapse: bool,
    page_bytes: u64,
    observer: Box<dyn Observer + Send>,
) -> Result<Box<dyn Simulation>, ArgumentError> {
    watched(spec, frames, collapse, page_bytes, observer)
}

fn watched<O: Observer + Send + 'static>(
    spec: &Spec,
    frames: usize,
    collapse: bool,
    page_bytes: u64,
    observer: O,
) -> Result<Box<dyn Simulation>, ArgumentError> {
    struct Build<'a, O>(&'a Spec, usize, bool, u64, O);
    impl<O: Observer + Send + 'static> Visitor for Build<'_, O> {
        type Output = Result<Box<dyn Simulation>, ArgumentError>;
        fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
            let Build(spec, frames, collapse, page_bytes, observer) = self;
            let policy = P::configure(frames, spec.arguments())?;
            Ok(Box::new(Engine::new(policy, frames, collapse, page_bytes, observer)))
        }
    }
    let collapse = spec.arguments().collapse()?.unwrap_or(collapse);
    let simulation = spec.visit(Build(spec, frames, collapse, page_bytes, observer))?;
    Ok(match spec.plugin() {
        None => simulation,
        Some(plugin) => Box::new(OfPlugin { plugin: Arc::clone(plugin), simulation }),
    })
}
