//! The system's allocator. If the system has no more memory, the command ends with a line and
//! status 2, as after any other error, and not with an abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The system's allocator, which does not return without memory.
pub(crate) struct OneLine;

/// The memory, unless there is none.
fn had(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() { out_of_memory(bytes) } else { memory }
}

#[cold]
fn out_of_memory(bytes: usize) -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    if IS_ENDING.swap(true, Ordering::Relaxed) {
        // Another thread ends the process, or this one wanted memory for that.
        std::thread::sleep(Duration::from_secs(1));
        std::process::abort();
    }
    // Neither the line nor the exit takes memory. Outputs have no name yet, so none is left behind.
    let _ = writeln!(
        io::stderr(),
        "sweephand: out of memory: {bytes} bytes more cannot be had; raise the limit (ulimit -v, a container's), \
         or ask for less at once: fewer policies or sizes, or a part of the trace"
    );
    std::process::exit(2)
}

// SAFETY: the system's allocator does all the work; where it returns null, nothing is returned.
unsafe impl GlobalAlloc for OneLine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        had(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        had(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        had(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
