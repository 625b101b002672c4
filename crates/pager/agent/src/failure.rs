//! The end: the agent says why it cannot go on, and takes the program with it.
//!
//! A program whose pager is gone would read zeros where its data was. So the process is killed, by a signal that it
//! cannot catch, and the command tells the reason on standard error.

use crate::control::Control;
use core::fmt::Arguments;
use core::sync::atomic::{AtomicPtr, Ordering};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::write;
use rustix::process::{Signal, getpid, kill_process};

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());

/// Where to leave last words from now on.
pub fn set_control(control: &'static Control) {
    CONTROL.store((control as *const Control).cast_mut(), Ordering::Release);
}

/// The command is gone. There is nobody left to tell it, so this says it where the program's errors go, and ends the process.
pub fn orphaned() -> ! {
    const WORDS: &str = "sweephand run is gone, and its program was ended with it";
    // SAFETY: as in `give_up`.
    if let Some(control) = unsafe { CONTROL.load(Ordering::Acquire).as_ref() } {
        // Once for each program, whatever processes it has.
        control.fail(|text| {
            let _ = text.write_str(WORDS);
            // The program's descriptor, which is not in our table.
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            if let Ok(errors) = open(c"/proc/self/fd/2", flags, Mode::empty()) {
                for part in ["sweephand: ", WORDS, "\n"] {
                    let _ = write(&errors, part.as_bytes());
                }
            }
        });
    }
    give_up(format_args!("{WORDS}"))
}

/// The block, if there is one.
pub(crate) fn control() -> Option<&'static Control> {
    // SAFETY: null or a block that stays mapped.
    unsafe { CONTROL.load(Ordering::Acquire).as_ref() }
}

/// Leaves words for the command to end with; the process goes on, as far as it can.
pub(crate) fn tell(words: Arguments<'_>) {
    if let Some(control) = control() {
        control.fail(|text| {
            let _ = text.write_fmt(words);
        });
    }
}

/// Leaves last words and ends the process, at once and with all its threads.
pub fn give_up(words: Arguments<'_>) -> ! {
    tell(words);
    loop {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
