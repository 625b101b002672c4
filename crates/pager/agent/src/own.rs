//! The pager's own memory: apart from the program's, never paged, counted.
//!
//! The agent runs beside the program in one address space. What it touches must never be missing, so it keeps off the
//! program's allocator, and the list of its mappings here keeps them out of management. Arrays of 64 KiB and more are
//! mappings by themselves, which grow by `mremap`, without a copy; the rest comes from an arena.

use crate::failure::give_up;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use rustix::event::Timespec;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use sweephand_uffd::PAGE_BYTES;
use talc::{OomHandler, Span, Talc};

/// Allocations of this size and more are mappings of their own.
const LARGE_BYTES: usize = 64 << 10;
/// How much the arena grows by.
const ARENA_STEP_BYTES: usize = 256 << 10;
/// Most mappings at a time. Each array has one, and each 256 MiB of the program's.
const MOST_MAPPINGS: usize = 1024;

/// A mapping: its first address, 0 if there is none in this place, and its length.
struct Mapping {
    start: AtomicUsize,
    length: AtomicUsize,
}

// Written by one thread at a time, and read by the same.
static MAPPINGS: [Mapping; MOST_MAPPINGS] =
    [const { Mapping { start: AtomicUsize::new(0), length: AtomicUsize::new(0) } }; MOST_MAPPINGS];
/// Pages of arrays and of the arena: they are counted as used, all of them.
static HEAP_PAGES: AtomicUsize = AtomicUsize::new(0);

/// How long the kernel is asked again for memory that it has just refused.
///
/// Where a cgroup's limit has been reached, it refuses some things at once; the command, or an eviction, makes room a
/// moment later.
#[derive(Debug)]
pub struct Patience {
    left: u32,
}

impl Patience {
    /// Fifteen seconds: longer than the command waits before it lets the kernel end a process.
    pub const fn new() -> Self {
        Self { left: 1500 }
    }

    /// Waits for a moment. Returns whether it is worth another try.
    pub fn wait(&mut self) -> bool {
        let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
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

/// Notes that a mapping is at another place now; 0 for none.
fn note(old_start: usize, start: usize, length: usize) {
    match MAPPINGS.iter().find(|mapping| mapping.start.load(Ordering::Relaxed) == old_start) {
        Some(mapping) => {
            mapping.start.store(start, Ordering::Relaxed);
            mapping.length.store(length, Ordering::Relaxed);
        }
        None => give_up(format_args!("the pager has run out of places for its own mappings")),
    }
}

/// Maps zeros for the pager itself. They are not counted; see `heap_pages`.
pub fn map(bytes: usize) -> Option<usize> {
    let bytes = whole_pages(bytes);
    let mut patience = Patience { left: 100 };
    let start = loop {
        match take_reserved(bytes).or_else(|| map_new(bytes)) {
            Some(start) => break start,
            None if patience.wait() => {}
            None => return None,
        }
    };
    // A huge page would be memory that nobody counted. Kernels without them refuse, and need no telling.
    // SAFETY: advice on our own mapping.
    let _ = unsafe { rustix::mm::madvise(start as *mut c_void, bytes, Advice::LinuxNoHugepage) };
    note(0, start, bytes);
    Some(start)
}

/// Maps zeros somewhere.
fn map_new(bytes: usize) -> Option<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that is free.
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, flags) };
    start.ok().map(|start| start as usize)
}

/// What is reserved: its first address, 0 for nothing, and its length. It is in the list of mappings.
static RESERVED: Mapping = Mapping { start: AtomicUsize::new(0), length: AtomicUsize::new(0) };

/// Reserves so many bytes of addresses at least, for mappings to come: of what the kernel counts they are
/// a part from now on, and will not be refused.
pub fn reserve(bytes: usize) {
    let (start, length) = (RESERVED.start.load(Ordering::Relaxed), RESERVED.length.load(Ordering::Relaxed));
    if length >= bytes {
        return;
    }
    let Some(new) = map_new(whole_pages(bytes)) else { return };
    if start != 0 {
        // SAFETY: nothing is there.
        let _ = unsafe { rustix::mm::munmap(start as *mut c_void, length) };
    }
    note(start, new, whole_pages(bytes));
    RESERVED.start.store(new, Ordering::Relaxed);
    RESERVED.length.store(whole_pages(bytes), Ordering::Relaxed);
}

/// Takes a mapping from the end of what is reserved, if there is enough.
fn take_reserved(bytes: usize) -> Option<usize> {
    let (start, length) = (RESERVED.start.load(Ordering::Relaxed), RESERVED.length.load(Ordering::Relaxed));
    let left = length.checked_sub(bytes).filter(|&left| left > 0)?;
    note(start, start, left);
    RESERVED.length.store(left, Ordering::Relaxed);
    Some(start + left)
}

fn unmap(start: usize, bytes: usize) {
    // SAFETY: our own mapping, which its owner has given up.
    let _ = unsafe { rustix::mm::munmap(start as *mut c_void, whole_pages(bytes)) };
    note(start, 0, 0);
}

/// The arena asks for more here.
struct More;

impl OomHandler for More {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let bytes = whole_pages(layout.size() + layout.align() + 1024).max(ARENA_STEP_BYTES);
        let start = map(bytes).ok_or(())?;
        HEAP_PAGES.fetch_add(bytes / PAGE_BYTES, Ordering::Relaxed);
        // SAFETY: a mapping that nobody else uses.
        unsafe { talc.claim(Span::from_base_size(start as *mut u8, bytes)) }.map(drop)
    }
}

/// The allocator of the preload library.
pub struct Arena {
    small: UnsafeCell<Talc<More>>,
}

// SAFETY: the agent has one thread. Before it starts, the thread that starts it allocates, and not after.
unsafe impl Sync for Arena {}

impl Arena {
    /// An empty one.
    pub const fn new() -> Self {
        Self { small: UnsafeCell::new(Talc::new(More)) }
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: blocks are the arena's or mappings by themselves, told apart by their size; `realloc` keeps to that.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_BYTES {
            let Some(start) = map(layout.size()) else { return ptr::null_mut() };
            HEAP_PAGES.fetch_add(whole_pages(layout.size()) / PAGE_BYTES, Ordering::Relaxed);
            return start as *mut u8;
        }
        // SAFETY: one thread at a time.
        let small = unsafe { &mut *self.small.get() };
        // SAFETY: the caller's layout has a size.
        unsafe { small.malloc(layout) }.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= LARGE_BYTES {
            HEAP_PAGES.fetch_sub(whole_pages(layout.size()) / PAGE_BYTES, Ordering::Relaxed);
            unmap(block as usize, layout.size());
        } else if let Some(block) = NonNull::new(block) {
            // SAFETY: one thread at a time; the block came from here with this layout.
            unsafe { (*self.small.get()).free(block, layout) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises for `alloc`.
        let block = unsafe { self.alloc(layout) };
        // Mappings are zeros already, and stay unused until touched.
        if !block.is_null() && layout.size() < LARGE_BYTES {
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if layout.size() >= LARGE_BYTES && new_bytes >= LARGE_BYTES {
            let (old, new) = (whole_pages(layout.size()), whole_pages(new_bytes));
            // SAFETY: our own mapping; its owner gets the new address.
            let moved = unsafe { rustix::mm::mremap(block.cast(), old, new, MremapFlags::MAYMOVE) };
            let Ok(moved) = moved else {
                // SAFETY: as the caller promises.
                return unsafe { self.copy_to_new(block, layout, new_bytes) };
            };
            note(block as usize, moved as usize, new);
            HEAP_PAGES.fetch_add(new / PAGE_BYTES, Ordering::Relaxed);
            HEAP_PAGES.fetch_sub(old / PAGE_BYTES, Ordering::Relaxed);
            return moved.cast();
        }
        // SAFETY: as the caller promises.
        unsafe { self.copy_to_new(block, layout, new_bytes) }
    }
}

impl Arena {
    /// What `realloc` does where a block cannot grow by itself.
    ///
    /// # Safety
    /// As for `realloc`.
    unsafe fn copy_to_new(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: the new size with the alignment of a valid layout, as the caller promises.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        // SAFETY: `new_bytes` is not 0.
        let new = unsafe { self.alloc(new_layout) };
        if !new.is_null() {
            // SAFETY: both blocks have the smaller size at least, and are not the same.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(new_bytes)) };
            // SAFETY: the caller gives the old block up.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

/// The memory that the preload library itself is loaded to.
pub fn library() -> Option<(usize, usize)> {
    let (start, end) = (LIBRARY_START.load(Ordering::Relaxed), LIBRARY_END.load(Ordering::Relaxed));
    (start != 0).then_some((start, end))
}

static LIBRARY_START: AtomicUsize = AtomicUsize::new(0);
static LIBRARY_END: AtomicUsize = AtomicUsize::new(0);

/// Notes where the preload library has been loaded to.
pub fn set_library(start: usize, end: usize) {
    LIBRARY_START.store(start & !(PAGE_BYTES - 1), Ordering::Relaxed);
    LIBRARY_END.store(whole_pages(end), Ordering::Relaxed);
}
