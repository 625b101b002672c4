//! The start: from the dynamic linker's call of the preload library to an agent that serves the
//! program.

use crate::control::{CONTROL_BYTES, Control, MAGIC, ORDER_BYTES, VARIABLE, add};
use crate::entry::agent::Agent;
use crate::entry::agent_thread::{self, start_thread, wait_for_agent};
use crate::entry::{fork, hooks};
use crate::kernel::symbols::{is_gnu_library, is_sanitized};
use crate::kernel::{OpenError, PAGE_BYTES, Userfaultfd};
use crate::mailbox::{Call, MAILBOX};
use crate::paging::mode;
use crate::process::environment::{adopt, strings, variable, withdraw};
use crate::process::failure::{abort, set_control};
use crate::process::rlimits::{self, Raised};
use crate::process::{own, supervisor};
use crate::state::program::FEATURES;
use core::arch::asm;
use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::Ordering;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{PidfdFlags, geteuid, getpid, pidfd_open};

/// The most bytes of arguments and environment that are kept in memory.
const MOST_STRING_BYTES: usize = 1 << 20;

/// Begins to page the program that this library has been loaded into, if its environment says so.
/// `library` is where the library is in memory.
///
/// # Safety
/// To be called once, before the program has threads, with the arguments and the environment of the
/// process. (They are not looked at if the C library is not GNU's.)
pub unsafe fn begin(
    arguments: *const *const c_char,
    environment: *const *const c_char,
    library: (usize, usize),
) {
    // Others pass no environment to a library, and their functions may be too short to be replaced.
    // The command reports it.
    if !is_gnu_library() {
        return;
    }
    own::set_library(library.0, library.1);
    // SAFETY: a list of strings that ends with null, as the caller promises.
    let Some(path) = (unsafe { variable(environment, VARIABLE) }) else { return };
    let Some(control) = map_control(path) else {
        // SAFETY: the process's own environment, as the caller promises.
        unsafe { withdraw(environment, path) };
        return;
    };
    let is_first = control.counters.begun.load(Ordering::Relaxed) == 0;
    // What the program starts goes on as it can. The command reports it.
    if !is_first && (is_sanitized() || !may_serve()) {
        // SAFETY: nothing refers to the block.
        unsafe { unmap_control(control) };
        return;
    }
    set_control(control);
    if is_sanitized() {
        abort(format_args!("is made with a sanitizer, whose own memory cannot be paged; build it without"));
    }
    // SAFETY: the process's own strings, as the caller promises.
    let strings = unsafe { strings(arguments, environment) };
    // SAFETY: the process's own environment, as the caller promises.
    unsafe { adopt(environment) };
    add(&control.counters.begun, 1);
    rlimits::begin(control.order.file_bytes);
    if let Err(name) = hooks::install().and_then(|()| fork::install()) {
        let name = name.to_str().unwrap_or_default();
        abort(format_args!(
            "{name}: the C library has no such function (GNU's has them all from 2.34 on), or it cannot be replaced"
        ));
    }
    if !start_thread(first_main, control as *const Control as usize) {
        abort(format_args!("the pager cannot have a thread"));
    }
    wait_for_agent();
    rlimits::settle();
    if MAILBOX.wants_objects() && mode::of(&control.order).may_map_objects() {
        hooks::map_objects();
    }
    // What the kernel and the C library keep for this thread.
    let descriptor: usize;
    // SAFETY: on x86-64 the first word of a thread's descriptor is its own address.
    unsafe { asm!("mov {}, fs:0", out(reg) descriptor, options(nostack, readonly)) };
    MAILBOX.call(Call::Stack, descriptor & !(PAGE_BYTES - 1), 0);
    strings.into_iter().for_each(keep_strings);
}

/// Keeps arguments and environment in memory: `/proc/PID/cmdline` and `environ` do not wait for a
/// page.
fn keep_strings((start, end): (usize, usize)) {
    if end - start <= MOST_STRING_BYTES {
        MAILBOX.call(Call::KeepResident, start, end - start);
    }
}

/// Maps the command's block, if it can be trusted and the run goes on. A process that has outlived
/// its run finds no block. One that has become another user may not open it. Such processes are not
/// paged, and the command reports it.
fn map_control(path: &CStr) -> Option<&'static Control> {
    let open = |access| open(path, access | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
    // What only the command writes is opened for reading: it cannot be made writable later.
    let (order, counts) = (open(OFlags::RDONLY).ok()?, open(OFlags::RDWR).ok()?);
    let ours = [&order, &counts].map(|file| fstat(file).ok().filter(is_ours));
    let [Some(one), Some(other)] = ours else { return None };
    if (one.st_dev, one.st_ino) != (other.st_dev, other.st_ino) {
        return None;
    }
    let read = ProtFlags::READ;
    // SAFETY: new mappings, the second in place of a part of the first. The file is the command's,
    // which wrote all of it and never makes it shorter.
    let block = unsafe {
        let block = mmap(ptr::null_mut(), CONTROL_BYTES, read, MapFlags::SHARED, &order, 0).ok()?;
        let (place, flags) = (block.add(ORDER_BYTES), MapFlags::SHARED | MapFlags::FIXED);
        let length = CONTROL_BYTES - ORDER_BYTES;
        mmap(place, length, read | ProtFlags::WRITE, flags, &counts, ORDER_BYTES as u64).ok()?;
        block
    };
    // SAFETY: the command wrote the block before the program began, and it stays mapped.
    let control = unsafe { &*block.cast::<Control>() };
    (control.order.magic == MAGIC && !control.is_released()).then_some(control)
}

/// Unmaps the command's block again: by it the command knows who has an agent.
///
/// # Safety
/// Nothing may refer to the block any more.
unsafe fn unmap_control(control: *const Control) {
    // SAFETY: as `map_control` has mapped it, and as the caller promises.
    let _ = unsafe { munmap(control.cast_mut().cast(), CONTROL_BYTES) };
}

/// Whether an agent may do here what it cannot do without. Who has started this program may have
/// given up rights, or restricted the system calls of what it starts.
fn may_serve() -> bool {
    let is_allowed = |error| matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM);
    let hears = match Userfaultfd::open(FEATURES) {
        Err(OpenError::NotPermitted | OpenError::NotSupported) => false,
        Err(OpenError::Other(error)) => is_allowed(error),
        Ok(_) => true,
    };
    let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    hears
        && pidfd_open(getpid(), PidfdFlags::empty()).map_or_else(is_allowed, |_| true)
        && open(c"/proc", path, Mode::empty()).map_or_else(is_allowed, |_| true)
}

/// Whether a file can be the command's: of a size that can be mapped, and root's or this user's,
/// with no access for others.
fn is_ours(file: &Stat) -> bool {
    let user = geteuid().as_raw();
    FileType::from_raw_mode(file.st_mode).is_file()
        && (file.st_uid == 0 || file.st_uid == user)
        && file.st_mode & 0o077 == 0
        && file.st_size == CONTROL_BYTES as i64
}

extern "C" fn first_main(control: usize) -> ! {
    // The program's descriptors are not the agent's: kept here, a pipe would never end.
    agent_thread::close_all();
    // SAFETY: the block that `begin` has mapped.
    let control = unsafe { &*(control as *const Control) };
    let may_lack_command = mode::of(&control.order).may_lack_command();
    let make = || Agent::new(control, supervisor::open(control, may_lack_command));
    agent_thread::keep(rlimits::without(Raised::Descriptors, make)).run()
}
