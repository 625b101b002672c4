//! Functions that the preload library has under the names of the C library's: the program finds ours
//! first. So it is with `syscall` and `prctl`, by which programs ask the kernel for what it has no
//! other function for. What [`hooks`](crate::hooks) replaces must be seen when the C library itself
//! calls it; these are only called by programs.
//!
//! ```text
//!   program ---- syscall(number, ...) ----> is the number one of SEEN?
//!                                             no: the system call, as the C library makes it
//!                                             yes: `system_call`, below
//! ```

use crate::hooks::{self, call};
use crate::thread;
use linux_raw_sys::general as raw;

/// Of `prctl`.
const PR_SET_SECCOMP: u32 = 22;
/// Numbers of system calls that there may be.
const NUMBERS: usize = 512;

/// The system calls that [`system_call`] is to see, a bit each.
pub static SEEN: [u64; NUMBERS / 64] = seen();

const fn seen() -> [u64; NUMBERS / 64] {
    let numbers = [raw::__NR_prctl, raw::__NR_seccomp];
    let mut bits = [0; NUMBERS / 64];
    let mut index = 0;
    while index < numbers.len() {
        bits[numbers[index] as usize / 64] |= 1 << (numbers[index] % 64);
        index += 1;
    }
    bits
}

/// A system call of the program's that is one of [`SEEN`]. The result is as the C library's `syscall`
/// has it.
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
    let restricts = match number as u32 {
        raw::__NR_prctl => first as u32 == PR_SET_SECCOMP,
        raw::__NR_seccomp => true,
        _ => false,
    };
    if restricts {
        thread::is_filtered_now();
    }
    // SAFETY: as the caller promises.
    hooks::c_result(unsafe { call(number as u32, [first, second, third, fourth, fifth, sixth]) })
}

/// The result of a system call as C has it: -1 and `errno` for an error.
pub extern "C" fn c_result(result: isize) -> isize {
    hooks::c_result(result)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_a_bit() {
        let is_seen = |number: u32| SEEN[number as usize / 64] >> (number % 64) & 1 != 0;
        assert!(is_seen(raw::__NR_prctl) && is_seen(raw::__NR_seccomp));
        assert!(!is_seen(raw::__NR_read) && !is_seen(raw::__NR_futex));
    }
}
