//! The pager's own memory. It is apart from the program's memory, is never paged, and is counted.
//!
//! The agent shares the program's address space. Memory that the agent touches must never be
//! missing. So the agent does not use the program's allocator, and this file lists the pager's
//! mappings to exclude them from paging. Each array of 64 KiB or more is a mapping, which grows by
//! `mremap` without a copy. Smaller allocations come from an arena.
//!
//! All of it lies in an area of addresses that the kernel gives to no program by itself: above the
//! break, below the area where the kernel places mappings. The reason is that a program may unmap a
//! range and then map another at the same place with `MAP_FIXED`. If the kernel had put a mapping
//! of the pager's into that gap in between, it would be lost.

use crate::kernel::{self, PAGE_BYTES};
use crate::process::failure::abort;
use alloc::vec;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use linux_raw_sys::general::{__NR_madvise, MADV_DONTNEED, MADV_NOHUGEPAGE, MADV_POPULATE_WRITE};
use rustix::mm::MremapFlags;
use rustix::time::{ClockId, clock_gettime};
use sweephand_policy::SplitMix64;
use talc::{OomHandler, Span, Talc};

/// Allocations of this size or more are mappings of their own.
const LARGE_BYTES: usize = 64 << 10;
/// Bytes by which the arena grows.
const ARENA_STEP_BYTES: usize = 256 << 10;
/// The most mappings at a time. Each array has one, and so does each 256 MiB of the program's
/// memory.
const MOST_MAPPINGS: usize = 1024;

/// A mapping: its first address, 0 in a free entry, and its length.
struct Mapping {
    start: AtomicUsize,
    length: AtomicUsize,
}

// One thread at a time writes and reads this list.
static MAPPINGS: [Mapping; MOST_MAPPINGS] =
    [const { Mapping { start: AtomicUsize::new(0), length: AtomicUsize::new(0) } }; MOST_MAPPINGS];
/// Pages of arrays and of the arena. All of them count as used.
static HEAP_PAGES: AtomicUsize = AtomicUsize::new(0);

/// How long to ask the kernel again for memory that it has refused.
///
/// When a cgroup has reached its limit, the kernel refuses some requests at once. The command, or
/// an eviction, makes room a moment later.
#[derive(Debug)]
pub struct Retry {
    left: u32,
}

impl Retry {
    /// Fifteen seconds. The command waits less than that before it lets the kernel kill a process.
    pub const fn new() -> Self {
        Self { left: 1500 }
    }

    /// Waits for a moment, or gives back some of the emergency reserve. Returns whether to try
    /// again.
    pub fn wait(&mut self) -> bool {
        if release_emergency_pages() {
            return true;
        }
        kernel::sleep(10_000_000);
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

/// Pages of the emergency reserve, which the pager holds only to give them back.
///
/// In a full cgroup the program's threads wait for memory, and whatever is freed is theirs as soon
/// as they wake. The pager, whose system calls are refused instead, could ask for seconds and get
/// nothing, though only it can make room. What it has just freed itself is still there when it asks
/// again.
const EMERGENCY_PAGES: usize = 32;
/// Pages that are given back before each new try.
const EMERGENCY_STEP_PAGES: usize = 8;
/// Where the emergency reserve is; 0 before there is any.
static EMERGENCY_START: AtomicUsize = AtomicUsize::new(0);
static EMERGENCY_LEFT: AtomicUsize = AtomicUsize::new(0);

/// The pages of the emergency reserve that the pager holds.
pub fn emergency_pages() -> usize {
    EMERGENCY_LEFT.load(Ordering::Relaxed)
}

/// Takes the emergency reserve again, as far as some was given back. The kernel refuses it rather
/// than wait, so this is for when there may be room.
pub(crate) fn take_emergency_pages() {
    if is_simulated() || emergency_pages() == EMERGENCY_PAGES {
        return;
    }
    if EMERGENCY_START.load(Ordering::Relaxed) == 0 {
        let Some(start) = map(EMERGENCY_PAGES * PAGE_BYTES) else { return };
        EMERGENCY_START.store(start, Ordering::Relaxed);
    }
    if advise_emergency_pages(0, EMERGENCY_PAGES, MADV_POPULATE_WRITE) {
        EMERGENCY_LEFT.store(EMERGENCY_PAGES, Ordering::Relaxed);
    }
}

/// Gives back a part of the emergency reserve. Returns whether there was any.
fn release_emergency_pages() -> bool {
    if is_simulated() {
        return false;
    }
    let less = |left: usize| left.checked_sub(EMERGENCY_STEP_PAGES);
    let Ok(before) = EMERGENCY_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) else {
        return false;
    };
    advise_emergency_pages(before - EMERGENCY_STEP_PAGES, EMERGENCY_STEP_PAGES, MADV_DONTNEED)
}

/// Whether the kernel is a simulated one, of which there may be several beside the real one.
fn is_simulated() -> bool {
    #[cfg(test)]
    let is_on = crate::simulation::is_on();
    #[cfg(not(test))]
    let is_on = false;
    is_on
}

/// Returns whether the kernel has done what was asked.
fn advise_emergency_pages(first: usize, pages: usize, advice: u32) -> bool {
    let start = EMERGENCY_START.load(Ordering::Relaxed) + first * PAGE_BYTES;
    // SAFETY: the range is the emergency reserve, whose contents no code uses.
    unsafe { kernel::call(__NR_madvise, [start, pages * PAGE_BYTES, advice as usize, 0, 0, 0]) == 0 }
}

/// Ends the run, because there is no address space for something of the pager's.
pub(crate) fn no_room(what: &str) -> ! {
    abort(format_args!("no address space for the pager's {what}; raise ulimit -v"))
}

/// A vector of this many equal values. It is shorter than `vec!` where the type is known.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    vec![value; count]
}

/// The pages that the pager's arrays take.
pub fn heap_pages() -> usize {
    HEAP_PAGES.load(Ordering::Relaxed)
}

/// The pager's own mappings, as start and end.
pub fn mappings() -> impl Iterator<Item = (usize, usize)> {
    MAPPINGS.iter().filter_map(|mapping| {
        let start = mapping.start.load(Ordering::Relaxed);
        (start != 0).then(|| (start, start + mapping.length.load(Ordering::Relaxed)))
    })
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Changes the place and length of a mapping in the list. An address of 0 is a free entry.
fn note(old_start: usize, start: usize, length: usize) {
    match MAPPINGS.iter().find(|mapping| mapping.start.load(Ordering::Relaxed) == old_start) {
        Some(mapping) => {
            mapping.start.store(start, Ordering::Relaxed);
            mapping.length.store(length, Ordering::Relaxed);
        }
        None => abort(format_args!("the pager has run out of places for its own mappings")),
    }
}

/// Tests have many threads, and the list is for one.
#[cfg(test)]
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Maps zeros for the pager itself. They are not in `heap_pages`.
pub fn map(bytes: usize) -> Option<usize> {
    #[cfg(test)]
    let _one = ONE_AT_A_TIME.lock();
    let bytes = whole_pages(bytes);
    // A second: a limit of the address space, too, is told by the kernel as a lack of memory.
    let mut retry = Retry { left: 100 };
    let start = loop {
        match take_reserved(bytes).or_else(|| map_new(bytes)) {
            Some(start) => break start,
            None if retry.wait() => {}
            None => return None,
        }
    };
    // A huge page would be memory that is not counted. Kernels without huge pages refuse the
    // advice, which does no harm.
    // SAFETY: this is advice on our own mapping.
    let _ = unsafe { kernel::call(__NR_madvise, [start, bytes, MADV_NOHUGEPAGE as usize, 0, 0, 0]) };
    note(0, start, bytes);
    Some(start)
}

/// Maps bytes for the pager itself that it keeps to the end. They take memory as they are touched,
/// and are not in `heap_pages`.
pub(crate) fn map_bytes(bytes: usize) -> Option<&'static mut [u8]> {
    #[cfg(test)]
    if is_simulated() {
        return crate::simulation::kernel::map_bytes(bytes);
    }
    let start = map(bytes)?;
    // SAFETY: this is a new mapping, and its address is nowhere else.
    Some(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, bytes) })
}

/// Gives back the memory of a part of such bytes, in whole pages. They are zeros from now on.
pub(crate) fn give_back(bytes: &mut [u8]) {
    // The kernel that is simulated does not know them.
    if is_simulated() {
        return bytes.fill(0);
    }
    let arguments = [bytes.as_mut_ptr() as usize, bytes.len(), MADV_DONTNEED as usize, 0, 0, 0];
    // SAFETY: the bytes are the caller's, who does not need what is in them.
    let _ = unsafe { kernel::call(__NR_madvise, arguments) };
}

/// The pager's area begins here, or up to `AREA_RANDOM_PAGES` further on, at random as other
/// mappings do. With 32 random bits of a page number, the most that Linux takes, the break is below
/// this address, and the kernel's area for mappings is above 0x6e00_0000_0000.
const AREA_START: usize = 0x6600_0000_0000;
const AREA_RANDOM_PAGES: u64 = 1 << 28;
/// Shared mappings, which are not in the list, have a part of their own, which is never used up.
const SHARED_START: usize = 0x6d00_0000_0000;
/// The part for shared mappings, start and end.
pub(crate) const SHARED: (usize, usize) = (SHARED_START, 0x6e00_0000_0000);
static AREA: AtomicUsize = AtomicUsize::new(0);
static NEXT_SHARED: AtomicUsize = AtomicUsize::new(SHARED_START);

/// The first address in the pager's area with `bytes` free bytes behind it.
fn free_place(bytes: usize) -> usize {
    let mut place = AREA.load(Ordering::Relaxed);
    if place == 0 {
        let random = clock_gettime(ClockId::Monotonic).tv_nsec as u64 ^ (&raw const AREA) as u64;
        place = AREA_START + SplitMix64::new(random).below(AREA_RANDOM_PAGES) as usize * PAGE_BYTES;
        AREA.store(place, Ordering::Relaxed);
    }
    while let Some((_, end)) = mappings().find(|&(start, end)| start < place + bytes && place < end) {
        place = end;
    }
    place
}

/// An address in the pager's area for a shared mapping, as a hint for `mmap`.
pub(crate) fn shared_place(bytes: usize) -> *mut c_void {
    NEXT_SHARED.fetch_add(whole_pages(bytes), Ordering::Relaxed) as *mut c_void
}

/// Maps zeros in the pager's area.
fn map_new(bytes: usize) -> Option<usize> {
    kernel::map_own(free_place(bytes), bytes).ok()
}

/// Moves a mapping of the pager's to a place where it can be of another length.
fn map_again(start: usize, old: usize, new: usize) -> Option<usize> {
    // The kernel takes no hint here, so the place is made first.
    if let Some(place) = map_new(new) {
        // SAFETY: this is our own mapping, whose owner gets the new address, and replaces one that
        // no code uses.
        let moved = unsafe {
            rustix::mm::mremap_fixed(
                start as *mut c_void,
                old,
                new,
                MremapFlags::MAYMOVE,
                place as *mut c_void,
            )
        };
        if moved.is_ok() {
            return Some(place);
        }
        // SAFETY: no code uses it.
        let _ = unsafe { rustix::mm::munmap(place as *mut c_void, new) };
    }
    // A limit of the address space leaves no room for both.
    // SAFETY: as above.
    let moved = unsafe { rustix::mm::mremap(start as *mut c_void, old, new, MremapFlags::MAYMOVE) };
    moved.ok().map(|moved| moved as usize)
}

/// The reserved range: its first address, 0 if there is none, and its length. It is in the list of
/// mappings.
static RESERVED: Mapping = Mapping { start: AtomicUsize::new(0), length: AtomicUsize::new(0) };

/// Reserves at least this many bytes of address space for later mappings. From now on they count
/// against the process's limit, so the kernel does not refuse them later.
pub fn reserve(bytes: usize) {
    let (start, length) = (RESERVED.start.load(Ordering::Relaxed), RESERVED.length.load(Ordering::Relaxed));
    if length >= bytes {
        return;
    }
    let Some(new) = map_new(whole_pages(bytes)) else { return };
    if start != 0 {
        // SAFETY: the reserved range contains nothing.
        let _ = unsafe { rustix::mm::munmap(start as *mut c_void, length) };
    }
    note(start, new, whole_pages(bytes));
    RESERVED.start.store(new, Ordering::Relaxed);
    RESERVED.length.store(whole_pages(bytes), Ordering::Relaxed);
}

/// Takes a mapping from the end of the reserved range, if there is enough.
fn take_reserved(bytes: usize) -> Option<usize> {
    let (start, length) = (RESERVED.start.load(Ordering::Relaxed), RESERVED.length.load(Ordering::Relaxed));
    let left = length.checked_sub(bytes).filter(|&left| left > 0)?;
    note(start, start, left);
    RESERVED.length.store(left, Ordering::Relaxed);
    Some(start + left)
}

fn unmap(start: usize, bytes: usize) {
    #[cfg(test)]
    let _one = ONE_AT_A_TIME.lock();
    // SAFETY: this is our own mapping, and its owner has given it up.
    let _ = unsafe { rustix::mm::munmap(start as *mut c_void, whole_pages(bytes)) };
    note(start, 0, 0);
}

/// Gives the arena more memory.
struct More;

impl OomHandler for More {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let bytes = whole_pages(layout.size() + layout.align() + 1024).max(ARENA_STEP_BYTES);
        let start = map(bytes).ok_or(())?;
        HEAP_PAGES.fetch_add(bytes / PAGE_BYTES, Ordering::Relaxed);
        // SAFETY: no other code uses this mapping.
        unsafe { talc.claim(Span::from_base_size(start as *mut u8, bytes)) }.map(drop)
    }
}

/// The allocator of the preload library.
pub struct Arena {
    small: UnsafeCell<Talc<More>>,
}

// SAFETY: the agent has one thread. The thread that starts the agent allocates before, and not
// afterwards.
unsafe impl Sync for Arena {}

impl Arena {
    /// An empty arena.
    pub const fn new() -> Self {
        Self { small: UnsafeCell::new(Talc::new(More)) }
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: a block is part of the arena or a mapping of its own. Its size decides which, and
// `realloc` keeps to that.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_BYTES {
            let Some(start) = map(layout.size()) else { return ptr::null_mut() };
            HEAP_PAGES.fetch_add(whole_pages(layout.size()) / PAGE_BYTES, Ordering::Relaxed);
            return start as *mut u8;
        }
        // SAFETY: one thread uses this at a time.
        let small = unsafe { &mut *self.small.get() };
        // SAFETY: the caller's layout has a size.
        unsafe { small.malloc(layout) }.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= LARGE_BYTES {
            HEAP_PAGES.fetch_sub(whole_pages(layout.size()) / PAGE_BYTES, Ordering::Relaxed);
            unmap(block as usize, layout.size());
        } else if let Some(block) = NonNull::new(block) {
            // SAFETY: one thread uses this at a time, and the block came from here with this
            // layout.
            unsafe { (*self.small.get()).free(block, layout) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises for `alloc`.
        let block = unsafe { self.alloc(layout) };
        // Mappings are zeros already, and take no memory until touched.
        if !block.is_null() && layout.size() < LARGE_BYTES {
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if layout.size() >= LARGE_BYTES && new_bytes >= LARGE_BYTES {
            let (old, new) = (whole_pages(layout.size()), whole_pages(new_bytes));
            if old == new {
                return block;
            }
            let Some(moved) = map_again(block as usize, old, new) else {
                // SAFETY: as the caller promises.
                return unsafe { self.copy_to_new(block, layout, new_bytes) };
            };
            note(block as usize, moved, new);
            HEAP_PAGES.fetch_add(new / PAGE_BYTES, Ordering::Relaxed);
            HEAP_PAGES.fetch_sub(old / PAGE_BYTES, Ordering::Relaxed);
            return moved as *mut u8;
        }
        // SAFETY: as the caller promises.
        unsafe { self.copy_to_new(block, layout, new_bytes) }
    }
}

impl Arena {
    /// Does what `realloc` must do when a block cannot grow in place.
    ///
    /// # Safety
    /// The same as for `realloc`.
    unsafe fn copy_to_new(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: this is the new size with the alignment of a valid layout, as the caller
        // promises.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        // SAFETY: `new_bytes` is not 0.
        let new = unsafe { self.alloc(new_layout) };
        if !new.is_null() {
            // SAFETY: both blocks have at least the smaller size, and they do not overlap.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(new_bytes)) };
            // SAFETY: the caller gives the old block up.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

/// The memory into which the preload library was loaded.
pub fn library() -> Option<(usize, usize)> {
    let (start, end) = (LIBRARY_START.load(Ordering::Relaxed), LIBRARY_END.load(Ordering::Relaxed));
    (start != 0).then_some((start, end))
}

static LIBRARY_START: AtomicUsize = AtomicUsize::new(0);
static LIBRARY_END: AtomicUsize = AtomicUsize::new(0);

/// For simulations: forgets mappings from an address on. They were never real.
#[cfg(test)]
pub(crate) fn forget_from(address: usize) {
    for mapping in MAPPINGS.iter().filter(|mapping| mapping.start.load(Ordering::Relaxed) >= address) {
        mapping.start.store(0, Ordering::Relaxed);
    }
}

/// Notes where the preload library was loaded.
pub fn set_library(start: usize, end: usize) {
    LIBRARY_START.store(start & !(PAGE_BYTES - 1), Ordering::Relaxed);
    LIBRARY_END.store(whole_pages(end), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::general::__NR_mincore;

    #[test]
    fn a_mapping_is_listed_and_lies_where_the_kernel_gives_none() {
        let start = map(3 * PAGE_BYTES).unwrap();
        assert!(mappings().any(|range| range == (start, start + 3 * PAGE_BYTES)));
        assert!((AREA_START..SHARED_START).contains(&start));
        let other = map(PAGE_BYTES).unwrap();
        assert!(!(start..start + 3 * PAGE_BYTES).contains(&other));
        unmap(start, 3 * PAGE_BYTES);
        assert!(!mappings().any(|(first, _)| first == start));
    }

    #[test]
    fn the_emergency_reserve_is_given_back_bit_by_bit_before_the_pager_waits() {
        take_emergency_pages();
        let is_there = |page: usize| {
            let mut here = [0_u8];
            let at = EMERGENCY_START.load(Ordering::Relaxed) + page * PAGE_BYTES;
            let arguments = [at, PAGE_BYTES, here.as_mut_ptr() as usize, 0, 0, 0];
            // SAFETY: this asks for one page of a mapping of ours, and has room for the answer.
            assert_eq!(unsafe { kernel::call(__NR_mincore, arguments) }, 0);
            here[0] & 1 == 1
        };
        assert!((0..EMERGENCY_PAGES).all(is_there));
        assert!(release_emergency_pages());
        assert_eq!((0..EMERGENCY_PAGES).filter(|&page| is_there(page)).count(), 24);
        // It is given back before any waiting, and does not count as a try.
        let mut retry = Retry { left: 2 };
        let tries = [retry.wait(), retry.wait(), retry.wait(), retry.wait(), retry.wait()];
        assert_eq!(tries, [true, true, true, true, false]);
        assert!(!(0..EMERGENCY_PAGES).any(is_there));
        take_emergency_pages();
        assert_eq!((emergency_pages(), is_there(31)), (EMERGENCY_PAGES, true));
    }
}
