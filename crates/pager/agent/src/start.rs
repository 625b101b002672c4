//! The beginning: from the dynamic linker's call of the preload library to an agent that serves the program.

use crate::agent::Agent;
use crate::control::{CONTROL_BYTES, Control, MAGIC, VARIABLE, add};
use crate::failure::{give_up, set_control};
use crate::gate::GATE;
use crate::mailbox::{Call, MAILBOX};
use crate::rlimits::{self, Raised};
use crate::{fork, hooks, memfd, own, thread};
use alloc::boxed::Box;
use core::arch::asm;
use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use linux_raw_sys::general as raw;
use rustix::event::Timespec;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sweephand_uffd::PAGE_BYTES;

/// The agent's stack.
const STACK_BYTES: usize = 256 << 10;

static AGENT: AtomicPtr<Agent> = AtomicPtr::new(ptr::null_mut());

/// Begins to page the program that this library has been loaded into, if its environment says so. `library` is where the
/// library is in memory.
///
/// # Safety
/// To be called once, before the program has threads, with the environment of the process. (That is not looked at if
/// the C library is not GNU's.)
pub unsafe fn begin(environment: *const *const c_char, library: (usize, usize)) {
    // Others pass no environment to a library, and their functions may be too short to be replaced. The command tells of it.
    if !hooks::is_gnu_library() {
        return;
    }
    own::set_library(library.0, library.1);
    // SAFETY: a list of strings that ends with null, as the caller promises.
    let Some(path) = (unsafe { variable(environment, VARIABLE) }) else { return };
    let Some(control) = map_control(path) else {
        refuse(b"sweephand: the pager's control file cannot be mapped\n")
    };
    set_control(control);
    add(&control.counters.begun, 1);
    rlimits::begin();
    if control.order.is_memfd() {
        GATE.put_in_use();
    }
    if let Err(name) = hooks::install().and_then(|()| fork::install()) {
        let name = name.to_str().unwrap_or_default();
        give_up(format_args!(
            "{name}: the C library has no such function (GNU's has them all from 2.34 on), or it cannot be replaced"
        ));
    }
    if !start_thread(first_main, control as *const Control as usize) {
        give_up(format_args!("the pager cannot have a thread"));
    }
    wait_for_agent();
    rlimits::settle();
    if MAILBOX.wants_objects() {
        hooks::map_objects();
    }
    // What the kernel and the C library keep for this thread.
    let descriptor: usize;
    // SAFETY: on x86-64 the first word of a thread's descriptor is its own address.
    unsafe { asm!("mov {}, fs:0", out(reg) descriptor, options(nostack, readonly)) };
    MAILBOX.call(Call::Stack, descriptor & !(PAGE_BYTES - 1), 0);
    if control.order.is_memfd() {
        memfd::refuse_unseen();
    }
}

/// Ends the process before its program has begun. There is nowhere else to leave a word.
fn refuse(words: &[u8]) -> ! {
    // SAFETY: the program's standard error; nothing is closed here.
    let _ = rustix::io::write(unsafe { BorrowedFd::borrow_raw(2) }, words);
    // SAFETY: exit_group(2) does not return.
    unsafe {
        asm!("syscall", in("rax") u64::from(raw::__NR_exit_group), in("rdi") 2_u64, options(noreturn));
    }
}

/// # Safety
/// As for [`begin`].
unsafe fn variable(environment: *const *const c_char, name: &str) -> Option<&'static CStr> {
    let mut entry = environment;
    // SAFETY: the list ends with null, and holds strings.
    unsafe {
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry);
            let value = text.to_bytes_with_nul().strip_prefix(name.as_bytes());
            if let Some(value) = value.and_then(|rest| rest.strip_prefix(b"=")) {
                return CStr::from_bytes_with_nul(value).ok();
            }
            entry = entry.add(1);
        }
    }
    None
}

fn map_control(path: &CStr) -> Option<&'static Control> {
    let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping; the command keeps the file as long as this block.
    let block =
        unsafe { mmap(ptr::null_mut(), CONTROL_BYTES, protection, MapFlags::SHARED, &file, 0) }.ok()?;
    // SAFETY: the command wrote the block before the program began, and it stays mapped.
    let control = unsafe { &*block.cast::<Control>() };
    (control.order.magic == MAGIC).then_some(control)
}

/// Starts the agent's thread.
pub(crate) fn start_thread(main: extern "C" fn(usize) -> !, argument: usize) -> bool {
    let Some(stack) = own::map(STACK_BYTES) else { return false };
    // SAFETY: a stack of its own.
    unsafe { thread::start(stack + STACK_BYTES, main, argument) }
}

/// Waits for an agent that has just been started. If it cannot begin, the process is ended.
pub(crate) fn wait_for_agent() {
    let mut turns = 0;
    while !MAILBOX.is_open() {
        turns += 1;
        if turns < 1000 {
            rustix::thread::sched_yield();
        } else {
            // The memory to begin with may have to be waited for.
            let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        }
    }
}

extern "C" fn first_main(control: usize) -> ! {
    // The program's descriptors are not the agent's: kept here, a pipe would never end.
    close_range(0, u32::MAX);
    // SAFETY: the block that `begin` has mapped.
    let control = unsafe { &*(control as *const Control) };
    let make = || Agent::new(control, open_supervisor(control));
    let agent = Box::leak(Box::new(rlimits::without(Raised::Descriptors, make)));
    AGENT.store(agent, Ordering::Release);
    agent.run()
}

/// The state of this process's agent.
///
/// # Safety
/// For the thread that is to be the agent, while there is no other.
pub(crate) unsafe fn agent() -> &'static mut Agent {
    // SAFETY: it was leaked by `first_main`, in this process or the one that it was forked from.
    unsafe { &mut *AGENT.load(Ordering::Acquire) }
}

/// What becomes readable when the command ends.
pub(crate) fn open_supervisor(control: &Control) -> OwnedFd {
    let pid = Pid::from_raw(control.order.supervisor);
    let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    opened.unwrap_or_else(|| give_up(format_args!("sweephand run is gone")))
}

/// Closes a range of descriptors, both ends included, in the calling thread's table.
fn close_range(first: u32, last: u32) {
    if first > last {
        return;
    }
    // SAFETY: close_range(2) with no flags; the caller's table holds nothing that anyone relies on.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") u64::from(raw::__NR_close_range) => _,
            in("rdi") u64::from(first),
            in("rsi") u64::from(last),
            in("rdx") 0_u64,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
}

/// Closes all descriptors of the calling thread's table but one.
pub(crate) fn close_all_but(keep: BorrowedFd<'_>) {
    let keep = keep.as_raw_fd() as u32;
    if keep > 0 {
        close_range(0, keep - 1);
    }
    close_range(keep + 1, u32::MAX);
}
