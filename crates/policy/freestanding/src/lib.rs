//! The policy core without an operating system: a static library that a kernel could link.
//!
//! That it compiles is the proof. Rust allows one panic handler per linked program, and std has
//! one. If the core or a dependency used std, the compiler would report error E0152, "found
//! duplicate lang item `panic_impl`". The same holds for the allocator, which here hands out a few
//! pages and never takes them back.
//!
//! `.ci/run` builds the library and calls it from `main.c`.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};
use sweephand_policy::registry::{POLICIES, Registered, Spec, Visitor};
use sweephand_policy::{Mmu, NEVER, PageId, Reference};

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

const HEAP_BYTES: usize = 1 << 24;

/// Hands out memory from the front of an array.
struct Bump {
    heap: core::cell::UnsafeCell<[u8; HEAP_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: the array is reached only through the ranges that `alloc` hands out, each once.
unsafe impl Sync for Bump {}

// SAFETY: ranges are inside the array, aligned, and do not overlap, as `used` only grows.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.heap.get().cast::<u8>();
        let place = |used: usize| {
            let start = (base as usize + used).next_multiple_of(layout.align()) - base as usize;
            start.checked_add(layout.size()).filter(|end| *end <= HEAP_BYTES).map(|end| (start, end))
        };
        let grow = |used| place(used).map(|(_, end)| end);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow) {
            Ok(used) => place(used).map_or(core::ptr::null_mut(), |(start, _)| base.wrapping_add(start)),
            Err(_) => core::ptr::null_mut(),
        }
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Bump = Bump { heap: core::cell::UnsafeCell::new([0; HEAP_BYTES]), used: AtomicUsize::new(0) };

/// Reference bits that are never set.
struct NoBits;

impl Mmu for NoBits {
    fn test_and_clear_referenced(&mut self, _: PageId) -> bool {
        false
    }
}

/// A scan of more pages than frames, so that all of a policy's code is linked.
struct Scan<'a>(&'a Spec);

impl Visitor for Scan<'_> {
    type Output = u32;
    fn visit<P: Registered + Send + 'static>(self) -> u32 {
        let Ok(mut policy) = P::configure(4, self.0.arguments()) else { return 0 };
        let mut victims = 0;
        for id in 0..8 {
            let page = PageId(id);
            let reference = Reference { page, page_number: u64::from(id), object: 0, next_use: NEVER };
            policy.fault(reference);
            if id >= 4
                && let Some(victim) = policy.victim(&mut NoBits)
            {
                policy.evict(victim);
                victims += 1;
            }
            policy.insert(reference, &mut NoBits);
            policy.hit(reference);
        }
        policy.remove(PageId(7));
        if policy.check().is_ok() { victims } else { 0 }
    }
}

/// Runs every policy; returns how many did not evict four pages out of eight, or kept no order.
#[unsafe(no_mangle)]
pub extern "C" fn sweephand_failures() -> i32 {
    let evicts_four = |name: &str| Spec::parse(name).is_ok_and(|spec| spec.visit(Scan(&spec)) == 4);
    POLICIES.iter().filter(|entry| !evicts_four(entry.info.name)).count() as i32
}
