//! Functions that the preload library exports under names of the C library's, so that the program
//! finds ours first: `syscall` and `prctl`. Programs use these to ask the kernel for what no other
//! function offers. `hooks` replaces functions that the C library itself calls; only programs call
//! these.
//!
//! ```text
//!   program ---- syscall(number, ...) ----> is the number one of SEEN?
//!                                             no: the system call, as the C library makes it
//!                                             yes: `system_call`, below
//! ```

use crate::entry::fork;
use crate::entry::hidden;
use crate::entry::hooks;
use crate::entry::locks;
use crate::entry::self_mem;
use crate::kernel::symbols::{self, Function};
use crate::kernel::syscall::call;
use crate::kernel::thread;
use crate::mailbox::{ARGUMENTS, Call, MAILBOX};
use crate::paging::ceded;
use crate::process::rlimits::prlimit;
use core::ffi::c_int;
use linux_raw_sys::general as raw;

/// Bytes of the first version of what `clone3` is asked, and the word of it that is the stack.
const CLONE3_BYTES: usize = 64;
const CLONE3_STACK: usize = 5;
static PTHREAD_MUTEX_INIT: Function = Function::named(c"pthread_mutex_init");
static PTHREAD_MUTEX_DESTROY: Function = Function::named(c"pthread_mutex_destroy");
static PTHREAD_CREATE: Function = Function::named(c"pthread_create");
static PTHREAD_ATTR_GETSTACK: Function = Function::named(c"pthread_attr_getstack");

/// Of `prctl`.
const PR_SET_SECCOMP: u32 = 22;
/// Of `seccomp`.
const SECCOMP_SET_MODE_STRICT: u32 = 0;
const SECCOMP_SET_MODE_FILTER: u32 = 1;
/// Numbers of system calls that there may be.
const NUMBERS: usize = 512;

/// The system calls that [`system_call`] sees, a bit each.
pub static SEEN: [u64; NUMBERS / 64] = seen();

const fn seen() -> [u64; NUMBERS / 64] {
    let numbers = [
        raw::__NR_mmap,
        raw::__NR_mprotect,
        raw::__NR_mremap,
        raw::__NR_madvise,
        raw::__NR_mlockall,
        raw::__NR_munlockall,
        raw::__NR_clone,
        raw::__NR_clone3,
        raw::__NR_fork,
        raw::__NR_execve,
        raw::__NR_execveat,
        raw::__NR_prctl,
        raw::__NR_prlimit64,
        raw::__NR_getrlimit,
        raw::__NR_setrlimit,
        raw::__NR_seccomp,
        raw::__NR_ioctl,
        raw::__NR_getdents64,
        raw::__NR_pread64,
        raw::__NR_pwrite64,
        raw::__NR_preadv,
        raw::__NR_pwritev,
        raw::__NR_read,
        raw::__NR_write,
        raw::__NR_readv,
        raw::__NR_writev,
    ];
    let mut bits = [0; NUMBERS / 64];
    let mut index = 0;
    while index < numbers.len() {
        bits[numbers[index] as usize / 64] |= 1 << (numbers[index] % 64);
        index += 1;
    }
    bits
}

/// A system call of the program's that is one of [`SEEN`]. The result is as the C library's
/// `syscall` has it.
///
/// # Safety
/// As the system call asks for.
pub unsafe extern "C" fn system_call(
    number: usize,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> isize {
    let arguments = [first, second, third, fourth, fifth, sixth];
    // SAFETY: as the caller promises.
    let plain = || unsafe { call(number as u32, arguments) };
    let result = match number as u32 {
        raw::__NR_mmap => {
            return hooks::hook_mmap(first, second, third as i32, fourth as i32, fifth as i32, sixth);
        }
        // SAFETY: as the caller promises.
        raw::__NR_getdents64 => unsafe { hidden::list(first, second, third) },
        // SAFETY: as the caller promises.
        raw::__NR_ioctl => unsafe { ceded::ioctl(first, second, third) },
        number if self_mem::is_transfer(number) => {
            self_mem::finish(number, [first, second, third, fourth], plain())
        }
        raw::__NR_mlockall => locks::lock_all(first as u32),
        raw::__NR_munlockall => locks::unlock_all(),
        raw::__NR_mprotect => return hooks::hook_mprotect(first, second, third as i32),
        raw::__NR_mremap => return hooks::hook_mremap(first, second, third, fourth as i32, fifth),
        raw::__NR_madvise => return hooks::hook_madvise(first, second, third as i32),
        raw::__NR_execve => return hooks::execve(first, second, third),
        raw::__NR_execveat => return hooks::execveat([first, second, third, fourth, fifth]),
        raw::__NR_fork => fork::forking(plain),
        // With a stack of its own a child goes on elsewhere.
        raw::__NR_clone if has_memory_of_its_own(first) && second == 0 => fork::forking(plain),
        // Where nothing can be read, the kernel says so.
        raw::__NR_clone3 if second >= CLONE3_BYTES && thread::is_readable(first, CLONE3_BYTES) => {
            // SAFETY: `is_readable` says that these bytes can be read.
            let words = unsafe { (first as *const [usize; CLONE3_BYTES / 8]).read_unaligned() };
            match has_memory_of_its_own(words[0]) && words[CLONE3_STACK] == 0 {
                true => fork::forking(plain),
                false => plain(),
            }
        }
        // SAFETY: as the caller promises.
        raw::__NR_prlimit64 => unsafe { prlimit(first as u32, second as u32, third, fourth) },
        // These two need a place; `prlimit64` does not.
        // SAFETY: as the caller promises.
        raw::__NR_getrlimit if second != 0 => unsafe { prlimit(0, first as u32, 0, second) },
        // SAFETY: as the caller promises.
        raw::__NR_setrlimit if second != 0 => unsafe { prlimit(0, first as u32, second, 0) },
        raw::__NR_prctl if first as u32 == PR_SET_SECCOMP => thread::restricting(plain),
        raw::__NR_seccomp => match first as u32 {
            SECCOMP_SET_MODE_STRICT => thread::restricting(plain),
            SECCOMP_SET_MODE_FILTER => thread::restricting(|| {
                let flags = second & !for_all_threads(second);
                // SAFETY: as the caller promises.
                unsafe { call(number as u32, [first, flags, third, fourth, fifth, sixth]) }
            }),
            // Questions about filters, and what there is not.
            _ => plain(),
        },
        _ => plain(),
    };
    symbols::c_result(result)
}

fn has_memory_of_its_own(clone_flags: usize) -> bool {
    clone_flags as u32 & raw::CLONE_VM == 0
}

/// A filter for all threads would be one for the agent, which does not manage with what the program
/// does. Returns the flags that say so, if the calling thread is all that there is beside the
/// agent.
///
/// The kernel refuses a filter for all threads with a listener, unless threads that cannot have it
/// are an error of its own. Without the flags it would not.
fn for_all_threads(flags: usize) -> usize {
    const THREADS: usize = 1 << 0;
    const LISTENER: usize = 1 << 3;
    const THREADS_WITH_ERROR: usize = 1 << 4;
    let is_refused = flags & LISTENER != 0 && flags & THREADS_WITH_ERROR == 0;
    match flags & THREADS {
        0 => 0,
        _ if is_refused => 0,
        _ if MAILBOX.ask(Call::Threads, [0; ARGUMENTS]) == Some(1) => THREADS | THREADS_WITH_ERROR,
        _ => 0,
    }
}

/// The result of a system call as C has it: -1 and `errno` for an error.
pub extern "C" fn c_result(result: isize) -> isize {
    symbols::c_result(result)
}

/// `ioctl`, if it is about a userfaultfd.
///
/// # Safety
/// As the system call asks for.
pub unsafe extern "C" fn ioctl(file: usize, request: usize, argument: usize) -> isize {
    // SAFETY: as the caller promises.
    symbols::c_result(unsafe { ceded::ioctl(file, request, argument) })
}

/// A function of the C library's that transfers a file has returned `result`. If it has failed, the
/// pager may be able to go on with it: see `self_mem`.
///
/// # Safety
/// As the function asks for.
pub unsafe extern "C" fn after_transfer(
    file: usize,
    start: usize,
    count: usize,
    place: usize,
    number: u32,
    result: isize,
) -> isize {
    let failure = if result == -1 { -(symbols::errno() as isize) } else { result };
    match self_mem::finish(number, [file, start, count, place], failure) {
        // It has changed nothing, `errno` either.
        same if same == failure => result,
        bytes => bytes,
    }
}

/// The address of a function of the C library's, by its name.
///
/// # Safety
/// The name must be a string that ends with a zero.
pub unsafe extern "C" fn find(name: *const core::ffi::c_char) -> usize {
    // SAFETY: as the caller promises.
    symbols::symbol(unsafe { core::ffi::CStr::from_ptr(name) }).map_or(0, |function| function as usize)
}

/// `prctl`.
///
/// # Safety
/// As the system call asks for.
pub unsafe extern "C" fn prctl(
    option: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { system_call(raw::__NR_prctl as usize, option, second, third, fourth, fifth, 0) }
}

/// `pthread_mutex_init`. When the owner of a robust mutex ends, the kernel looks for the mutex in
/// memory, and does not wait for a page: so it must not be missing.
///
/// # Safety
/// As the function asks for.
pub unsafe fn mutex_init(mutex: usize, attributes: usize) -> isize {
    let Some(init) = PTHREAD_MUTEX_INIT.find() else { return NO_SYSTEM_CALL };
    // SAFETY: the C library's function of that name.
    let result = unsafe {
        let init: extern "C" fn(usize, usize) -> c_int = core::mem::transmute(init);
        init(mutex, attributes)
    };
    // SAFETY: the mutex has just been made.
    if result == 0 && unsafe { is_robust(mutex) } {
        MAILBOX.call(Call::KeepResident, mutex, MUTEX_BYTES);
    }
    result as isize
}

/// `pthread_mutex_destroy`.
///
/// # Safety
/// As the function asks for.
pub unsafe fn mutex_destroy(mutex: usize) -> isize {
    let Some(destroy) = PTHREAD_MUTEX_DESTROY.find() else { return NO_SYSTEM_CALL };
    // SAFETY: the program's mutex.
    let was_robust = unsafe { is_robust(mutex) };
    // SAFETY: the C library's function of that name.
    let result = unsafe {
        let destroy: extern "C" fn(usize) -> c_int = core::mem::transmute(destroy);
        destroy(mutex)
    };
    if result == 0 && was_robust {
        MAILBOX.call(Call::ReleaseResident, mutex, MUTEX_BYTES);
    }
    result as isize
}

const MUTEX_BYTES: usize = 40;
const NO_SYSTEM_CALL: isize = 38;

/// The kind is part of what programs are compiled with, so it is where it always has been.
///
/// # Safety
/// There must be a mutex.
unsafe fn is_robust(mutex: usize) -> bool {
    const KIND: usize = 16;
    const ROBUST: u32 = 16;
    // SAFETY: as the caller promises.
    unsafe { *((mutex + KIND) as *const u32) & ROBUST != 0 }
}

/// `pthread_create`. What the kernel writes to when a thread is gone is at the end of its stack; if
/// the program has chosen that, it is memory like any other.
///
/// # Safety
/// As the function asks for.
pub unsafe fn thread_create(thread: usize, attributes: usize, main: usize, argument: usize) -> isize {
    let (Some(create), Some(stack)) = (PTHREAD_CREATE.find(), PTHREAD_ATTR_GETSTACK.find()) else {
        return NO_SYSTEM_CALL;
    };
    if attributes != 0 {
        let (mut start, mut bytes) = (0_usize, 0_usize);
        // SAFETY: the C library's function of that name.
        unsafe {
            let stack: extern "C" fn(usize, *mut usize, *mut usize) -> c_int = core::mem::transmute(stack);
            stack(attributes, &mut start, &mut bytes);
        }
        // If the library makes the stack, its end is 0.
        let end = start.wrapping_add(bytes);
        if end > DESCRIPTOR_BYTES {
            MAILBOX.call(Call::KeepResident, end - DESCRIPTOR_BYTES, DESCRIPTOR_BYTES);
        }
    }
    // SAFETY: the C library's function of that name.
    unsafe {
        let create: extern "C" fn(usize, usize, usize, usize) -> c_int = core::mem::transmute(create);
        create(thread, attributes, main, argument) as isize
    }
}

/// More than what the C library keeps of a thread at the end of its stack.
const DESCRIPTOR_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seen_has_bits_for_intercepted_calls_and_no_others() {
        let is_seen = |number: u32| SEEN[number as usize / 64] >> (number % 64) & 1 != 0;
        assert!(is_seen(raw::__NR_prctl) && is_seen(raw::__NR_seccomp));
        assert!(!is_seen(raw::__NR_openat) && !is_seen(raw::__NR_futex));
    }
}
