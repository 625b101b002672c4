//! What programs that are begun find in their environment. It says that they are paged, as long as
//! the run goes on and they can get at its files. Otherwise it says nothing.
//!
//! The dynamic linker prints a line for a library in `LD_PRELOAD` that it cannot open. So a process
//! that is left behind must not pass the name on, nor one that lives in another root directory or
//! as another user, where the run's files are out of reach. Two ways lead to a new program:
//!
//! * the C library's `execve`: the hook leaves the names out of the environment it passes on;
//! * a system call of the program's own (Go's runtime makes it so): it passes on what it found in
//!   its environment when it began. So these strings are replaced by copies in the agent's memory
//!   before the program begins. When the run has ended the agent overwrites the copies. Their
//!   length stays: programs have counted it, and some refuse a string with a null in it.

use crate::control::{Control, VARIABLE};
use crate::kernel::PAGE_BYTES;
use crate::kernel::thread::is_readable;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The dynamic linker's variable.
const PRELOAD: &str = "LD_PRELOAD";
/// What the dynamic linker takes for nothing between names.
const NOTHING: u8 = b':';

/// Bytes for copies of both variables. A longer `LD_PRELOAD` stays where it is.
const COPY_BYTES: usize = 4096;
/// Entries of an environment, and bytes of `LD_PRELOAD`, for which there is room on a thread's
/// stack: a process that is begun by `posix_spawn` has a small one.
const STACK_ENTRIES: usize = 512;
const STACK_BYTES: usize = 1024;

/// Copies of the program's strings, which the agent can write to at any time.
struct Copies {
    bytes: UnsafeCell<[u8; COPY_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: written before the program has threads, and by the agent alone from then on. Others read
// bytes that may change from one value to another, never a null: strings they stay.
unsafe impl Sync for Copies {}

static COPIES: Copies = Copies { bytes: UnsafeCell::new([0; COPY_BYTES]), used: AtomicUsize::new(0) };

/// The value of a variable, if this is its entry.
fn value<'a>(entry: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The entries of an environment.
///
/// # Safety
/// A list of strings that ends with null, which stays for as long as it is gone through.
unsafe fn entries<'a>(environment: *const *const c_char) -> impl Iterator<Item = &'a CStr> {
    let mut next = environment;
    core::iter::from_fn(move || {
        // SAFETY: as the caller promises.
        unsafe {
            let entry = *next.as_ref()?;
            next = next.add(1);
            (!entry.is_null()).then(|| CStr::from_ptr(entry))
        }
    })
}

/// Where the strings are that a process has begun with: arguments and environment, one behind the
/// other.
///
/// # Safety
/// As for [`entries`], of both lists.
pub(crate) unsafe fn strings(
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> Option<(usize, usize)> {
    // SAFETY: as the caller promises.
    let all = unsafe { entries(arguments).chain(entries(environment)) };
    all.fold(None, |extent, entry| {
        let start = entry.as_ptr() as usize;
        let end = start + entry.to_bytes_with_nul().len();
        let (least, most) = extent.unwrap_or((start, end));
        Some((least.min(start), most.max(end)))
    })
}

/// The value of a variable in an environment.
///
/// # Safety
/// As for [`entries`].
pub(crate) unsafe fn variable(environment: *const *const c_char, name: &str) -> Option<&'static CStr> {
    // SAFETY: as the caller promises.
    let value = unsafe { entries(environment) }.find_map(|entry| value(entry.to_bytes_with_nul(), name))?;
    CStr::from_bytes_with_nul(value).ok()
}

/// Has the program use copies of the two strings.
///
/// # Safety
/// The environment that the process began with, before it has threads.
pub(crate) unsafe fn adopt(environment: *const *const c_char) {
    let mut place = environment.cast_mut();
    // SAFETY: the list ends with null and is on the stack, which can be written to. The copies are
    // not shared yet.
    unsafe {
        while !place.is_null() && !(*place).is_null() {
            let entry = CStr::from_ptr(*place).to_bytes_with_nul();
            if value(entry, PRELOAD).or(value(entry, VARIABLE)).is_some() {
                let used = COPIES.used.load(Ordering::Relaxed);
                if let Some(copy) = (*COPIES.bytes.get()).get_mut(used..used + entry.len()) {
                    copy.copy_from_slice(entry);
                    *place = copy.as_ptr().cast();
                    COPIES.used.store(used + entry.len(), Ordering::Relaxed);
                }
            }
            place = place.add(1);
        }
    }
}

/// Takes the run's names out of the environment of a process that cannot take part in it. `control`
/// is the control file's.
///
/// # Safety
/// As for [`adopt`], which is not called then.
pub(crate) unsafe fn withdraw(environment: *const *const c_char, control: &CStr) {
    // SAFETY: as in `adopt`. Entries are only moved to places that have been read.
    unsafe {
        let text = &mut *COPIES.bytes.get();
        without_run(directory_of(control.to_bytes()), entries(environment), environment.cast_mut(), text);
    }
}

/// The directory of a file's name, with the stroke.
fn directory_of(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    &name[..end]
}

/// Whether a name is that of a file in the run's directory.
fn is_runs(name: &[u8], directory: &[u8]) -> bool {
    !directory.is_empty() && name.strip_prefix(directory).is_some_and(|rest| !rest.contains(&b'/'))
}

/// The run has ended: the copies say nothing of it any more.
pub(crate) fn forget_run(control: &Control) {
    let used = COPIES.used.load(Ordering::Relaxed);
    let copies = COPIES.bytes.get().cast::<u8>();
    // SAFETY: the agent is the only one to write; threads of the program see one byte or the other.
    let bytes = unsafe { slice::from_raw_parts(copies, used) };
    for name in [&control.order.library, &control.order.control].map(|text| text.as_str().as_bytes()) {
        let mut from = 0;
        while let Some(at) = find(&bytes[from..], name) {
            for byte in from + at..from + at + name.len() {
                // SAFETY: as above; within the copies.
                unsafe { copies.add(byte).write_volatile(NOTHING) };
            }
            from += at + name.len();
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    (!part.is_empty()).then(|| bytes.windows(part.len()).position(|window| window == part))?
}

/// Whether a program that this process begins can get at the run's files, and is to.
fn is_passed_on(control: &Control) -> bool {
    let Some(path) = control.order.control.as_c_str() else { return true };
    // As the user that this process is now, in the root directory that it has now.
    let seen = accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS);
    // An answer of another kind (a filter of system calls) says nothing of the file.
    !control.is_released() && !matches!(seen, Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS))
}

/// Whether there is a list of strings that can be read. Where there is none, or none that can be
/// read, the kernel says what it says of that.
fn is_list(environment: usize) -> bool {
    let mut place = environment;
    // Ends with the list, or with the memory that can be read.
    while is_readable(place, size_of::<usize>()) {
        // SAFETY: it can be read.
        let entry = unsafe { (place as *const usize).read_unaligned() };
        if entry == 0 {
            return true;
        }
        if !is_string(entry) {
            return false;
        }
        place += size_of::<usize>();
    }
    false
}

/// Whether a string can be read to its end.
fn is_string(start: usize) -> bool {
    const WORD: usize = size_of::<usize>();
    let mut at = start;
    // Ends with the string, or with the memory that can be read.
    loop {
        if (at == start || at.is_multiple_of(PAGE_BYTES)) && !is_readable(at & !(WORD - 1), WORD) {
            return false;
        }
        // SAFETY: it can be read.
        if unsafe { (at as *const u8).read() } == 0 {
            return true;
        }
        at += 1;
    }
}

/// Makes a call that begins a program with an environment: this one, or one without the run's
/// names.
///
/// It allocates nothing that would be lost when the call succeeds: the thread may share its memory
/// with a parent that goes on (`vfork`, `posix_spawn`).
///
/// # Safety
/// The strings do not change meanwhile.
pub(crate) unsafe fn pass_on<R>(
    control: Option<&Control>,
    environment: *const *const c_char,
    begin: impl FnOnce(*const *const c_char) -> R,
) -> R {
    let is_to_change = |control: &&Control| !is_passed_on(control) && is_list(environment as usize);
    let Some(control) = control.filter(is_to_change) else { return begin(environment) };
    // SAFETY: as the caller promises.
    let count = unsafe { entries(environment) }.count() + 1;
    let mut few = [ptr::null::<c_char>(); STACK_ENTRIES];
    let bytes = count * size_of::<*const c_char>();
    let mut large = None;
    let list = if count <= STACK_ENTRIES {
        few.as_mut_ptr()
    } else {
        // Lost if the memory is a parent's too, which an environment of that size seldom is.
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        match unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) } {
            Ok(start) => {
                large = Some(start);
                start.cast()
            }
            Err(_) => return begin(environment),
        }
    };
    let mut text = [0; STACK_BYTES];
    // SAFETY: the list has `count` places; entries are as the caller promises.
    unsafe {
        let directory = directory_of(control.order.control.as_str().as_bytes());
        without_run(directory, entries(environment), list, &mut text);
    }
    let result = begin(list.cast_const());
    if let Some(start) = large {
        // SAFETY: our own mapping, which no other code knows of.
        let _ = unsafe { munmap(start, bytes) };
    }
    result
}

/// Writes a list of the entries without the run's names. `text` is for what is left of
/// `LD_PRELOAD`.
///
/// # Safety
/// `list` has a place for each entry and one more.
unsafe fn without_run<'a>(
    directory: &[u8],
    entries: impl Iterator<Item = &'a CStr>,
    list: *mut *const c_char,
    text: &mut [u8],
) {
    let mut text = Some(text);
    let mut next = list;
    for entry in entries {
        let bytes = entry.to_bytes();
        if value(bytes, VARIABLE).is_some_and(|value| is_runs(value, directory)) {
            continue;
        }
        let mut kept = entry.as_ptr();
        if let Some(value) = value(bytes, PRELOAD) {
            let names = value.split(|byte| b": ".contains(byte)).filter(|name| !name.is_empty());
            let others = names.clone().filter(|name| !is_runs(name, directory));
            if others.clone().count() == names.count() {
                // SAFETY: one of the places.
                next = unsafe { put(next, kept) };
                continue;
            }
            if others.clone().next().is_none() {
                continue;
            }
            // Too long, or the second of its name: it stays as it is.
            if let Some(text) = text.take_if(|text| bytes.len() < text.len()) {
                let mut length = PRELOAD.len();
                text[..length].copy_from_slice(PRELOAD.as_bytes());
                let between = core::iter::once(b'=').chain(core::iter::repeat(NOTHING));
                for (mark, name) in between.zip(others) {
                    text[length] = mark;
                    text[length + 1..][..name.len()].copy_from_slice(name);
                    length += 1 + name.len();
                }
                text[length] = 0;
                kept = text.as_ptr().cast();
            }
        }
        // SAFETY: one of the places.
        next = unsafe { put(next, kept) };
    }
    // SAFETY: the last of the places at most.
    unsafe { put(next, ptr::null()) };
}

/// Writes an entry; the place behind it.
///
/// # Safety
/// There is a place.
unsafe fn put(place: *mut *const c_char, entry: *const c_char) -> *mut *const c_char {
    // SAFETY: as the caller promises.
    unsafe {
        place.write(entry);
        place.add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(entries: &[&CStr]) -> Vec<String> {
        let mut list = vec![ptr::null(); entries.len() + 1];
        let mut text = [0; STACK_BYTES];
        // SAFETY: a place for each and one more.
        unsafe { without_run(b"/run/it/", entries.iter().copied(), list.as_mut_ptr(), &mut text) };
        let strings = list.iter().take_while(|entry| !entry.is_null());
        // SAFETY: strings of `entries`, and `text`.
        strings.map(|&entry| unsafe { CStr::from_ptr(entry) }.to_str().unwrap().to_string()).collect()
    }

    #[test]
    fn the_runs_names_are_left_out_and_nothing_else() {
        assert_eq!(
            left(&[c"A=1", c"LD_PRELOAD=/run/it/preload.so", c"SWEEPHAND_PAGER=/run/it/control", c"B="]),
            ["A=1", "B="]
        );
        assert_eq!(
            left(&[c"LD_PRELOAD=/run/it/preload.so:libx.so /lib/y.so", c"SWEEPHAND_PAGER=mine"]),
            ["LD_PRELOAD=libx.so:/lib/y.so", "SWEEPHAND_PAGER=mine"]
        );
        // What only begins like it is another file.
        let others = [c"LD_PRELOAD=/run/it2/preload.so", c"XLD_PRELOAD=/run/it/preload.so"];
        assert_eq!(left(&others), others.map(|entry| entry.to_str().unwrap()));
        assert_eq!(left(&[]), [""; 0]);
    }
}
