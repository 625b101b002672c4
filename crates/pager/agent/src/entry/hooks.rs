//! How the agent learns of new memory: these functions replace the C library's.
//!
//! The kernel reports memory that disappears, but not new memory. A preloaded `mmap` would miss the
//! calls that the library makes itself, for example in `malloc`. So a jump to our function
//! overwrites the first bytes of the library's function, which catches every caller. Our functions
//! make the same system call and report to the agent. They run on the program's threads. (`_Fork`
//! is only [`Wrapped`], because it does more than its system call.)
//!
//! If a program makes such system calls itself, the agent finds out later (`watch` in
//! `paging::manage`).

use crate::control::add;
use crate::entry::hidden;
use crate::entry::locks;
use crate::kernel::PAGE_BYTES;
use crate::kernel::symbols::{c_result, symbol};
use crate::kernel::syscall::{advise, call, refused};
use crate::kernel::thread;
use crate::mailbox::{Call, MAILBOX};
use crate::paging::guards::is_about_guards;
use crate::process::environment;
use crate::process::failure;
use crate::process::rlimits;
use crate::process::roots::open_proc;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use linux_raw_sys::general as raw;
use rustix::fs::OFlags;
use rustix::io::{Errno, pwrite};
use rustix::mm::{MprotectFlags, mprotect};
use sweephand_pager_interface::recording::LEAST_OBJECT_BYTES;

/// The C library's variable for the program break.
static BREAK: AtomicPtr<usize> = AtomicPtr::new(ptr::null_mut());

/// Bytes of `jmp [rip]` and the address after it.
const JUMP_BYTES: usize = 14;

/// Makes the C library's `malloc` map each object, and keep doing so whatever the program frees.
/// Libraries without `mallopt` map allocations above some size by themselves.
pub(crate) fn map_objects() {
    const M_MMAP_THRESHOLD: c_int = -3;
    if let Some(mallopt) = symbol(c"mallopt") {
        // SAFETY: this is the C library's function of that name, with this type.
        unsafe {
            let mallopt: extern "C" fn(c_int, c_int) -> c_int = core::mem::transmute(mallopt);
            // The size includes a chunk's header.
            mallopt(M_MMAP_THRESHOLD, LEAST_OBJECT_BYTES as c_int);
        }
    }
}

/// Replaces the C library's functions. Returns the name of one that is missing or cannot be
/// overwritten.
pub(crate) fn install() -> Result<(), &'static CStr> {
    // Only GNU's library has this variable.
    BREAK.store(symbol(c"__curbrk").map_or(ptr::null_mut(), <*mut c_void>::cast), Ordering::Relaxed);
    let hooks: [(&CStr, *const c_void); 13] = [
        (c"mmap", hook_mmap as *const c_void),
        (c"mmap64", hook_mmap as *const c_void),
        (c"mremap", hook_mremap as *const c_void),
        (c"mprotect", hook_mprotect as *const c_void),
        (c"madvise", hook_madvise as *const c_void),
        (c"process_madvise", hook_process_madvise as *const c_void),
        (c"brk", hook_brk as *const c_void),
        (c"mlockall", locks::hook_mlockall as *const c_void),
        (c"munlockall", locks::hook_munlockall as *const c_void),
        (c"getdents64", hidden::hook_getdents64 as *const c_void),
        (c"execve", hook_execve as *const c_void),
        (c"execveat", hook_execveat as *const c_void),
        (c"fexecve", hook_fexecve as *const c_void),
    ];
    for (name, hook) in hooks {
        match symbol(name) {
            Some(function) => overwrite(function as usize, &jump(hook as usize)).map_err(|_| name)?,
            // Older libraries have no `process_madvise`. Some have no `mmap64`.
            None if name == c"mmap64" || name == c"process_madvise" => {}
            None => return Err(name),
        }
    }
    Ok(())
}

/// A function of the C library with our hook in front of it.
pub(crate) struct Wrapped {
    at: AtomicUsize,
    hook: AtomicUsize,
    /// The function's original first bytes.
    code: [AtomicU8; JUMP_BYTES],
}

impl Wrapped {
    pub(crate) const fn new() -> Self {
        Self {
            at: AtomicUsize::new(0),
            hook: AtomicUsize::new(0),
            code: [const { AtomicU8::new(0) }; JUMP_BYTES],
        }
    }

    /// Puts `hook` in front of a function. Returns the function's name if it is missing or cannot
    /// be overwritten.
    pub(crate) fn install(&self, name: &'static CStr, hook: *const c_void) -> Result<(), &'static CStr> {
        let at = symbol(name).ok_or(name)? as usize;
        // SAFETY: these are the function's first bytes. All such functions are longer.
        let code = unsafe { *(at as *const [u8; JUMP_BYTES]) };
        self.code.iter().zip(code).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
        self.hook.store(hook as usize, Ordering::Relaxed);
        self.at.store(at, Ordering::Release);
        overwrite(at, &jump(hook as usize)).map_err(|_| name)
    }

    /// Calls the function itself. Its original first bytes are back in place meanwhile, so the hook
    /// misses another thread that calls the function then.
    ///
    /// # Safety
    /// The function must have this type. Only one call may run at a time.
    pub(crate) unsafe fn call(&self) -> c_int {
        let at = self.at.load(Ordering::Acquire);
        let put = |code: [u8; JUMP_BYTES]| {
            overwrite(at, &code).unwrap_or_else(|error| {
                failure::abort(format_args!("the C library's code cannot be written to: {error}"))
            });
        };
        put(core::array::from_fn(|byte| self.code[byte].load(Ordering::Relaxed)));
        // SAFETY: as the caller promises.
        let function: extern "C" fn() -> c_int = unsafe { core::mem::transmute(at) };
        let result = function();
        put(jump(self.hook.load(Ordering::Relaxed)));
        result
    }
}

/// The machine code of a jump.
fn jump(to: usize) -> [u8; JUMP_BYTES] {
    let mut code = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    code[6..].copy_from_slice(&to.to_ne_bytes());
    code
}

/// Overwrites code of the C library at `at`. No other thread may be running it.
fn overwrite(at: usize, code: &[u8]) -> Result<(), Errno> {
    let start = at & !(PAGE_BYTES - 1);
    let length = (at + code.len()).next_multiple_of(PAGE_BYTES) - start;
    let page = start as *mut c_void;
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    // SAFETY: the function is at least this long (all of them are more than 30 bytes). The library
    // is mapped privately, so this process may change it. The page stays executable, because the
    // code of `mprotect` may be on the same page.
    unsafe {
        if let Err(error) = mprotect(page, length, writable) {
            // With PR_SET_MDWE, memory cannot be both writable and executable. Writing through
            // /proc still works, as it does for debuggers.
            let memory = open_proc(c"self/mem", OFlags::RDWR).map_err(|_| error)?;
            let written = pwrite(&memory, code, at as u64).map_err(|_| error)?;
            return if written == code.len() { Ok(()) } else { Err(error) };
        }
        ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len());
        mprotect(page, length, MprotectFlags::READ | MprotectFlags::EXEC)
    }
}

/// Bytes of a function that are searched for calls. Bytes after its end do no harm.
const LOOKED_THROUGH: usize = 2048;

/// Makes `function` call `hook` where it calls `called`. Returns the number of such places.
///
/// # Safety
/// `function` and `called` must be functions of the C library, and `hook` must have the same type
/// as `called`.
pub(crate) unsafe fn redirect_calls(function: usize, called: usize, hook: usize) -> Result<usize, Errno> {
    const CALL: u8 = 0xe8;
    // SAFETY: more code of the library follows the function, and no thread writes to it meanwhile.
    let code = unsafe { core::slice::from_raw_parts(function as *const u8, LOOKED_THROUGH) };
    let mut places = [0_usize; 8];
    let mut count = 0;
    for (offset, bytes) in code.windows(5).enumerate() {
        let behind = function + offset + 5;
        let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        if bytes[0] == CALL && behind.wrapping_add_signed(distance as isize) == called {
            *places.get_mut(count).ok_or(Errno::NOSPC)? = behind;
            count += 1;
        }
    }
    for &behind in &places[..count] {
        let distance = i32::try_from(hook as isize - behind as isize).map_err(|_| Errno::RANGE)?;
        overwrite(behind - 4, &distance.to_le_bytes())?;
    }
    Ok(count)
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Makes a system call of the program that changes its address space.
///
/// # Safety
/// The same as for the system call.
unsafe fn change(number: u32, arguments: [usize; 6]) -> isize {
    MAILBOX.may_have_divided();
    // SAFETY: as the caller promises.
    unsafe { call(number, arguments) }
}

pub(crate) extern "C" fn hook_mmap(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: usize,
) -> isize {
    let bits = flags as u32;
    let private = bits & raw::MAP_TYPE == raw::MAP_PRIVATE;
    let anonymous = private && bits & raw::MAP_ANONYMOUS != 0 && bits & raw::MAP_HUGETLB == 0;
    // Pages that the kernel fills before the agent knows of them would not be counted. The flag is
    // only advice.
    let flags = if anonymous { bits & !raw::MAP_POPULATE } else { bits };
    let arguments = [address, length, protection as usize, flags as usize, file as usize, offset];
    // SAFETY: this is the program's own call.
    let make = || unsafe { change(raw::__NR_mmap, arguments) };
    // A mapping that replaces another is there before its unmap is reported, as with a move.
    let result = match bits & raw::MAP_FIXED != 0 {
        true => MAILBOX.move_mapping(make),
        false => make(),
    };
    if anonymous && result > 0 {
        let length = whole_pages(length);
        if bits & raw::MAP_STACK != 0 {
            // The thread's descriptor is in the last page.
            MAILBOX.call(Call::Stack, result as usize + length - PAGE_BYTES, 0);
        }
        if protection as u32 & raw::PROT_WRITE != 0 {
            MAILBOX.object(Call::Object, result as usize, length);
            MAILBOX.grown(result as usize, length, true);
        }
    }
    if result > 0 && locks::lock_new(result as usize, whole_pages(length), protection as u32).is_err() {
        // SAFETY: the program does not learn of this mapping.
        let _ = unsafe { change(raw::__NR_munmap, [result as usize, length, 0, 0, 0, 0]) };
        return c_result(refused(Errno::AGAIN));
    }
    c_result(result)
}

pub(crate) extern "C" fn hook_mremap(
    old: usize,
    old_length: usize,
    length: usize,
    flags: c_int,
    new: usize,
) -> isize {
    let bits = flags as u32;
    let may_move = bits & raw::MREMAP_MAYMOVE != 0 && old_length > 0;
    let simply = MAILBOX.move_mapping(|| {
        // SAFETY: this is the program's own call. (The fifth argument counts only with MREMAP_FIXED
        // or MREMAP_DONTUNMAP.)
        let make = || unsafe { remap(old, old_length, length, bits, new) };
        (!(may_move && MAILBOX.is_managed())).then(make)
    });
    // SAFETY: this is the program's own call.
    let result = simply.unwrap_or_else(|| unsafe {
        match bits & raw::MREMAP_FIXED {
            0 => remap_to_free_place(old, old_length, length, bits),
            _ => remap_to(new, old, old_length, length, bits),
        }
    });
    if result > 0 {
        let [old_length, length] = [old_length, length].map(|bytes| bytes.next_multiple_of(PAGE_BYTES));
        if length > old_length {
            MAILBOX.object(Call::Resized, result as usize, length);
            MAILBOX.grown(result as usize + old_length, length - old_length, false);
        }
    }
    c_result(result)
}

/// # Safety
/// The same as for `mremap`.
unsafe fn remap(old: usize, old_length: usize, length: usize, flags: u32, new: usize) -> isize {
    MAILBOX.may_have_divided();
    // SAFETY: as the caller promises.
    unsafe { call(raw::__NR_mremap, [old, old_length, length, flags as usize, new, 0]) }
}

/// Moves managed memory by `mremap` to a place that was reserved for it.
///
/// Another thread may just have unmapped memory at that place, or moved it away. The kernel reports
/// both a moment later and in any order, so the agent could mistake the new mapping for the old
/// one. Therefore the agent first reads all reports that are pending for the place.
///
/// # Safety
/// The same as for `mremap`.
unsafe fn remap_to(place: usize, old: usize, old_length: usize, length: usize, flags: u32) -> isize {
    MAILBOX.call(Call::CatchUp, 0, 0);
    // SAFETY: as the caller promises.
    MAILBOX.move_mapping(|| unsafe { remap(old, old_length, length, flags, place) })
}

/// Moves managed memory by `mremap` to any free place. Instead of letting the kernel choose the
/// place, this function reserves one for [`remap_to`].
///
/// # Safety
/// The same as for `mremap`.
unsafe fn remap_to_free_place(old: usize, old_length: usize, length: usize, flags: u32) -> isize {
    if flags & raw::MREMAP_DONTUNMAP == 0 {
        // The mapping stays where it is if it can.
        // SAFETY: as the caller promises.
        let result = unsafe { remap(old, old_length, length, flags & !raw::MREMAP_MAYMOVE, 0) };
        if result != -(Errno::NOMEM.raw_os_error() as isize) {
            return result;
        }
    }
    let reserved = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE;
    // SAFETY: this makes a new mapping at any free place.
    let place = unsafe {
        call(raw::__NR_mmap, [0, length, raw::PROT_NONE as usize, reserved as usize, usize::MAX, 0])
    };
    if place < 0 {
        return place;
    }
    // SAFETY: as the caller promises. The new place is ours.
    let result = unsafe { remap_to(place as usize, old, old_length, length, flags | raw::MREMAP_FIXED) };
    if result < 0 {
        // SAFETY: no other code knows of this place.
        unsafe { call(raw::__NR_munmap, [place as usize, length, 0, 0, 0, 0]) };
    }
    result
}

pub(crate) extern "C" fn hook_mprotect(address: usize, length: usize, protection: c_int) -> isize {
    // SAFETY: this is the program's own call.
    let result = unsafe { change(raw::__NR_mprotect, [address, length, protection as usize, 0, 0, 0]) };
    if result == 0 && protection as u32 & raw::PROT_WRITE != 0 {
        MAILBOX.grown(address, length.next_multiple_of(PAGE_BYTES), false);
    }
    c_result(result)
}

pub(crate) extern "C" fn hook_madvise(address: usize, length: usize, advice: c_int) -> isize {
    let advice = advice as u32;
    let taken_over = match advice {
        advice if is_about_guards(advice) => MAILBOX.ask(Call::Guard, [address, length, advice as usize]),
        raw::MADV_DONTNEED => drop_nothing(address, length),
        raw::MADV_FREE => {
            // SAFETY: this is the program's own call.
            Some(drop_nothing(address, length).unwrap_or_else(|| unsafe { free(address, length) }))
        }
        _ => None,
    };
    // SAFETY: this is the program's own call.
    let make = || unsafe { advise(address, length, advice) };
    let result = taken_over.unwrap_or_else(make);
    if result == 0 {
        let call = match advice {
            raw::MADV_DONTFORK | raw::MADV_WIPEONFORK => Some(Call::NotInherited),
            raw::MADV_DOFORK | raw::MADV_KEEPONFORK => Some(Call::Inherited),
            _ => None,
        };
        if let Some(call) = call {
            MAILBOX.call(call, address, length.next_multiple_of(PAGE_BYTES));
        }
    }
    c_result(result)
}

/// `madvise` with `MADV_FREE`, which has the kernel free pages later, unless the program writes to
/// them. The agent could not tell whether they are still there. The kernel may free them at once,
/// so this does too. But first the kernel says whether it would free them at all: not those of a
/// file, nor locked ones.
///
/// # Safety
/// The same as for the system call.
unsafe fn free(address: usize, length: usize) -> isize {
    // SAFETY: as the caller promises.
    let result = unsafe { advise(address, length, raw::MADV_FREE) };
    // Where part of the range is not mapped, the rest is freed.
    if result == 0 || result == refused(Errno::NOMEM) {
        // SAFETY: as the caller promises.
        unsafe { advise(address, length, raw::MADV_DONTNEED) };
    }
    result
}

/// Drops the contents of memory that has none, if the agent has published that it has none: see
/// `empty`. The call that is made in its place does nothing either, and the kernel refuses it for
/// the same ranges (or more of them; then the program's own call says why).
fn drop_nothing(address: usize, length: usize) -> Option<isize> {
    let end = address.checked_add(length)?.checked_next_multiple_of(PAGE_BYTES)?;
    // A program that allows itself few system calls gets none that it has not made.
    if !MAILBOX.empty().contains(address, end) || thread::is_restricted() {
        return None;
    }
    // SAFETY: this advice changes no contents.
    let result = unsafe { advise(address, length, raw::MADV_COLD) };
    (result == 0).then_some(0)
}

/// One of the ranges for `process_madvise`.
#[repr(C)]
struct Range {
    start: usize,
    length: usize,
}

/// After the call, the agent checks the guards of the ranges.
extern "C" fn hook_process_madvise(
    process: c_int,
    ranges: *const Range,
    count: usize,
    advice: c_int,
    flags: u32,
) -> isize {
    let arguments = [process as usize, ranges as usize, count, advice as usize, flags as usize, 0];
    // SAFETY: this is the program's own call.
    let result = unsafe { call(raw::__NR_process_madvise, arguments) };
    if result > 0 && is_about_guards(advice as u32) {
        for index in 0..count {
            // SAFETY: the kernel has just read these ranges.
            let Range { start, length } = unsafe { ranges.add(index).read() };
            MAILBOX.ask(Call::Guard, [start, length, 0]);
        }
    }
    c_result(result)
}

/// The C library's other functions (`execvp`, `posix_spawn`, `system`) call this one.
extern "C" fn hook_execve(path: usize, arguments: usize, environment: usize) -> c_int {
    execve(path, arguments, environment) as c_int
}

extern "C" fn hook_execveat(
    directory: c_int,
    path: usize,
    arguments: usize,
    environment: usize,
    flags: c_int,
) -> c_int {
    execveat([directory as usize, path, arguments, environment, flags as usize]) as c_int
}

extern "C" fn hook_fexecve(file: c_int, arguments: usize, environment: usize) -> c_int {
    if file < 0 || arguments == 0 || environment == 0 {
        return c_result(refused(Errno::INVAL)) as c_int;
    }
    let path = c"".as_ptr() as usize;
    execveat([file as usize, path, arguments, environment, raw::AT_EMPTY_PATH as usize]) as c_int
}

/// The program's `execve`.
pub(crate) fn execve(path: usize, arguments: usize, environment: usize) -> isize {
    become_program(environment, |environment| {
        // SAFETY: this is the program's own call, with its environment or a part of it.
        let make = || unsafe { call(raw::__NR_execve, [path, arguments, environment, 0, 0, 0]) };
        // `execvp` tries many places for a program's name. So the limits are lowered to the
        // program's own only if the file exists: not every process can raise a limit again.
        // SAFETY: this looks for a file of the name that the program gives.
        let exists = unsafe {
            call(raw::__NR_faccessat, [raw::AT_FDCWD as isize as usize, path, raw::X_OK as usize, 0, 0, 0])
        };
        if exists == 0 { rlimits::as_the_program_has_them(make) } else { make() }
    })
}

/// The program's `execveat`: directory, path, arguments, environment, flags.
pub(crate) fn execveat([directory, path, arguments, environment, flags]: [usize; 5]) -> isize {
    become_program(environment, |environment| {
        // SAFETY: as above.
        let make =
            || unsafe { call(raw::__NR_execveat, [directory, path, arguments, environment, flags, 0]) };
        rlimits::as_the_program_has_them(make)
    })
}

/// Counts the program that begins, so that the command can report programs that began without a
/// pager. The new program's environment names the run only if the program can take part in it.
fn become_program(environment: usize, begin: impl FnOnce(usize) -> isize) -> isize {
    let control = failure::control();
    let execs = control.map(|control| &control.counters.execs);
    if let Some(execs) = execs {
        add(execs, 1);
    }
    let entries = environment as *const *const c_char;
    // SAFETY: this is the program's own environment, as its call requires.
    let result = unsafe { environment::pass_on(control, entries, |entries| begin(entries as usize)) };
    // The call has returned, so it has failed.
    if let Some(execs) = execs {
        execs.fetch_sub(1, Ordering::Relaxed);
    }
    c_result(result)
}

extern "C" fn hook_brk(wanted: usize) -> c_int {
    // SAFETY: this is the program's own call. Asking for 0 returns the current break.
    let (old, now) = unsafe {
        (call(raw::__NR_brk, [0; 6]) as usize, change(raw::__NR_brk, [wanted, 0, 0, 0, 0, 0]) as usize)
    };
    let variable = BREAK.load(Ordering::Relaxed);
    if !variable.is_null() {
        // SAFETY: this is the C library's variable, which its own `brk` sets in the same way.
        unsafe { variable.write(now) };
    }
    if now < wanted {
        return c_result(-(Errno::NOMEM.raw_os_error() as isize)) as c_int;
    }
    let (from, to) = (old.next_multiple_of(PAGE_BYTES), now.next_multiple_of(PAGE_BYTES));
    if to > from {
        MAILBOX.grown(from, to - from, false);
        // The kernel would not give back what it has given: the limit of locked memory is left to
        // it.
        let _ = locks::lock_new(from, to - from, raw::PROT_READ | raw::PROT_WRITE);
    }
    0
}
