//! The program's C library, as the agent finds it: its functions by name, and its `errno`.

use core::arch::global_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

// These belong to the program's C library and dynamic linker. The names are weak, because a program
// that does not use the library must still be able to start.
global_asm!(
    ".weak dlsym",
    ".weak __errno_location",
    ".globl sweephand_find_symbol",
    ".hidden sweephand_find_symbol",
    "sweephand_find_symbol:",
    "mov rax, qword ptr [rip + dlsym@GOTPCREL]",
    "ret",
    ".globl sweephand_find_errno",
    ".hidden sweephand_find_errno",
    "sweephand_find_errno:",
    "mov rax, qword ptr [rip + __errno_location@GOTPCREL]",
    "ret",
    // Of the sanitizers.
    ".weak __asan_init",
    ".weak __tsan_init",
    ".weak __msan_init",
    ".weak __hwasan_init",
    ".globl sweephand_find_sanitizers",
    ".hidden sweephand_find_sanitizers",
    "sweephand_find_sanitizers:",
    "mov rax, qword ptr [rip + __asan_init@GOTPCREL]",
    "or rax, qword ptr [rip + __tsan_init@GOTPCREL]",
    "or rax, qword ptr [rip + __msan_init@GOTPCREL]",
    "or rax, qword ptr [rip + __hwasan_init@GOTPCREL]",
    "ret",
);

type FindSymbol = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type FindErrno = unsafe extern "C" fn() -> *mut c_int;

unsafe extern "C" {
    fn sweephand_find_symbol() -> Option<FindSymbol>;
    fn sweephand_find_errno() -> Option<FindErrno>;
    fn sweephand_find_sanitizers() -> usize;
}

/// Asks for the first library after the calling one that has the symbol.
const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;

/// Finds a symbol of the libraries after this one.
pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: this calls the dynamic linker's function with a string.
    let address = unsafe { sweephand_find_symbol()?(RTLD_NEXT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// A function of the libraries after this one. It is looked up when it is first needed.
pub(crate) struct Function {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Function {
    pub(crate) const fn named(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The address of the function.
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        let known = self.address.load(Ordering::Acquire);
        if !known.is_null() {
            return Some(known);
        }
        let found = symbol(self.name)?;
        self.address.store(found, Ordering::Release);
        Some(found)
    }
}

/// Whether the C library is GNU's.
pub(crate) fn is_gnu_library() -> bool {
    symbol(c"gnu_get_libc_version").is_some()
}

/// Whether the program was built with a sanitizer, which checks each access to memory. A sanitizer
/// keeps shadow memory for all addresses, many times larger than the program's memory, and manages
/// it itself.
///
/// No lookup by name: one that fails allocates its message, and there are programs whose own
/// allocator cannot serve that before their `main` (those made by GNU Common Lisp, like maxima).
pub(crate) fn is_sanitized() -> bool {
    // SAFETY: this only reads addresses that the dynamic linker has put in.
    unsafe { sweephand_find_sanitizers() != 0 }
}

/// The C library's `errno` of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: this is the C library's function of that name, and the variable belongs to the
    // calling thread.
    unsafe { sweephand_find_errno().map_or(0, |location| *location()) }
}

/// Returns the result as C does: -1 for an error, which is in `errno`.
pub(crate) fn c_result(result: isize) -> isize {
    if !(-4095..0).contains(&result) {
        return result;
    }
    // SAFETY: this is the C library's function of that name, and the variable belongs to the
    // calling thread.
    unsafe {
        if let Some(location) = sweephand_find_errno() {
            *location() = -result as c_int;
        }
    }
    -1
}
