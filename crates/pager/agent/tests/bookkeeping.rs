//! How much memory the pager needs for each page that it manages: the page table and the policy's
//! own arrays.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sweephand_agent::choice::bits::{Bits, Sampler};
use sweephand_agent::choice::live::make;
use sweephand_agent::spec::{LiveSpec, names};
use sweephand_agent::state::pages::{Flag, Pages, State};
use sweephand_policy::{NEVER, PageId, Reference, SplitMix64};

/// Counts what is allocated.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the page table itself, a page.
const TABLE_BYTES: usize = 8;
const FRAMES: usize = 1 << 12;
const PAGES: usize = 2 * FRAMES;
/// The page table's top levels, which are there whatever a program has.
const DIRECTORY_BYTES: usize = (2 << 15) + (64 << 10);

/// Bytes a page after twice as many pages as there are frames have been gone through in order and
/// at random.
fn bytes_a_page(policy: &str) -> f64 {
    let start = BYTES.load(Relaxed);
    let (mut pages, mut sampler) = (Pages::new(), Sampler::default());
    let mut policy = make(&LiveSpec::parse(policy).unwrap(), FRAMES).unwrap();
    let (mut random, mut resident, mut most) = (SplitMix64::new(1), 0, 0);
    for step in 0..4 * PAGES {
        let number = if step < 2 * PAGES { step % PAGES } else { random.below(PAGES as u64) as usize };
        let page: PageId = pages.find_or_insert(0x7000_0000_0000 + number * 0x1000);
        if pages.is_resident(page) {
            pages.mark(page, Flag::Referenced, true);
            continue;
        }
        let reference =
            Reference { page, page_number: 0x7_0000_0000 + number as u64, object: 0, next_use: NEVER };
        policy.fault(reference);
        if resident == FRAMES {
            let mut bits = Bits { pages: &mut pages, sampler: &mut sampler, exact: None, choosing: true };
            let victim = policy.victim(&mut bits).unwrap();
            policy.evict(victim);
            pages.set(victim, State::Stored(0));
            resident -= 1;
        }
        pages.set(page, State::RESIDENT);
        let mut bits = Bits { pages: &mut pages, sampler: &mut sampler, exact: None, choosing: false };
        if policy.insert(reference, &mut bits) {
            pages.mark(page, Flag::Referenced, true);
        }
        resident += 1;
        most = most.max(BYTES.load(Relaxed) - start);
    }
    (most - DIRECTORY_BYTES) as f64 / PAGES as f64
}

/// The pager sets memory aside by what each policy says it keeps, so that must be true. Most
/// policies stay within 32 bytes, the page table included. SEQ knows where each resident page is,
/// and its sequences (up to four a frame where no fault continues another). `auto` runs four
/// policies.
#[test]
fn bookkeeping_takes_what_the_policy_says_and_at_most_64_bytes_a_page() {
    let mut exceeded = false;
    for policy in names() {
        let bytes = bytes_a_page(policy);
        let said = (TABLE_BYTES + LiveSpec::parse(policy).unwrap().bytes_a_page()) as f64;
        println!("{policy}: {bytes:.1} bytes a page, {said} said");
        exceeded |= bytes > said || bytes > 64.0;
    }
    assert!(!exceeded, "more than that: see above");
}
