//! Processor time, and time.

use crate::kernel::syscall::call;
use linux_raw_sys::general as raw;

/// A clock of the kernel's, in microseconds.
fn microseconds(clock: u32) -> u64 {
    let mut time = [0_i64; 2];
    // SAFETY: clock_gettime(2) writes a struct of two words.
    unsafe { call(raw::__NR_clock_gettime, [clock as usize, &raw mut time as usize, 0, 0, 0, 0]) };
    time[0] as u64 * 1_000_000 + time[1] as u64 / 1000
}

/// Processor time that the process has used, without that of the calling thread: the agent's.
pub(crate) fn program_us() -> u64 {
    microseconds(raw::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(microseconds(raw::CLOCK_THREAD_CPUTIME_ID))
}

/// Time, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    #[cfg(test)]
    if crate::simulation::is_on() {
        return microseconds(raw::CLOCK_MONOTONIC) * 1000;
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Time, in milliseconds: as exact as the kernel's ticks.
pub(crate) fn coarse_ms() -> u64 {
    microseconds(raw::CLOCK_MONOTONIC_COARSE) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn time_goes_on_and_processor_time_with_work() {
        let (before, used) = (coarse_ms(), program_us());
        while coarse_ms() < before + 20 {
            core::hint::spin_loop();
        }
        assert!(program_us() >= used, "other threads may have worked meanwhile");
    }
}
