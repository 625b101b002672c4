//! The agent's end: it says why it cannot continue and kills the program.
//!
//! Without its pager, a program would read zeros where its data was. So the agent kills the process
//! by a signal that it cannot catch, and the command prints the reason on standard error.

use crate::control::Control;
use crate::kernel::kill_own_process;
use crate::kernel::syscall::call;
use crate::kernel::thread::{EVERY_SIGNAL, set_signal_mask};
use crate::process::roots::open_proc;
use core::arch::asm;
use core::fmt::Arguments;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use linux_raw_sys::general::__NR_exit_group;
use rustix::fs::OFlags;
use rustix::io::write;
use rustix::process::{Pid, Signal, kill_process};

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());

/// Where to leave last words from now on.
pub fn set_control(control: &'static Control) {
    CONTROL.store((control as *const Control).cast_mut(), Ordering::Release);
}

/// The command is gone. So this writes the message to the program's standard error and ends the
/// process.
pub fn orphaned() -> ! {
    const WORDS: &str = "sweephand run is gone, and its program was ended with it";
    // SAFETY: as in `abort`.
    if let Some(control) = unsafe { CONTROL.load(Ordering::Acquire).as_ref() } {
        // Once for each program, whatever processes it has.
        control.fail(|text| {
            let _ = text.write_str(WORDS);
            // The program's descriptor, which is not in our table.
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            if let Ok(errors) = open_proc(c"self/fd/2", flags) {
                for part in ["sweephand: ", WORDS, "\n"] {
                    let _ = write(&errors, part.as_bytes());
                }
            }
        });
    }
    abort(format_args!("{WORDS}"))
}

/// The block, if there is one.
pub(crate) fn control() -> Option<&'static Control> {
    // SAFETY: null or a block that stays mapped.
    unsafe { CONTROL.load(Ordering::Acquire).as_ref() }
}

/// Leaves a message that the command prints at its end. The process continues as far as it can.
pub(crate) fn leave_message(words: Arguments<'_>) {
    if let Some(control) = control() {
        control.fail(|text| {
            let _ = text.write_fmt(words);
        });
    }
}

/// Leaves last words and ends the process, at once and with all its threads.
pub fn abort(words: Arguments<'_>) -> ! {
    leave_message(words);
    end_process()
}

/// The exit status of a process that could not be killed, as a shell has it for one that was.
const STATUS: usize = 128 + 9;

/// Processes that share this one's memory and end with it; 0 in a free entry.
static OTHERS: [AtomicI32; 32] = [const { AtomicI32::new(0) }; 32];

/// Another process shares the memory: see `outlive`. (If there are more than there is place for,
/// the one that is over first most likely makes place.)
pub(crate) fn end_with(process: i32) {
    let free = |entry: &&AtomicI32| entry.load(Ordering::Relaxed) == 0;
    let entry = OTHERS.iter().find(free).unwrap_or(&OTHERS[1]);
    entry.store(process, Ordering::Relaxed);
}

/// No other process shares the memory.
pub(crate) fn end_alone() {
    OTHERS.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
}

/// Ends the process, and those that share its memory. A signal that cannot be caught is clearest to
/// others. But the first process of a pid namespace cannot send one to itself, and a system-call
/// filter may refuse the signal, and the exit as well. Then only an invalid instruction is left.
/// This thread blocks the signal that it causes, so the kernel ends the process, whatever handler
/// the program has for that signal. The loop has no second turn.
pub(crate) fn end_process() -> ! {
    for process in OTHERS.iter().filter_map(|entry| Pid::from_raw(entry.load(Ordering::Relaxed))) {
        let _ = kill_process(process, Signal::KILL);
    }
    kill_own_process();
    set_signal_mask(EVERY_SIGNAL);
    loop {
        // SAFETY: neither returns, unless the system call is refused.
        unsafe {
            call(__NR_exit_group, [STATUS, 0, 0, 0, 0, 0]);
            asm!("ud2");
        }
    }
}
