//! Whether a zram device before the swap file pays, while the program runs.
//!
//! A page that comes back from the device needs no read of the disk. What the device takes is taken
//! from the pages as they are, so other pages go there that would have stayed. Before a slow disk,
//! that mostly pays, so the program begins with the device.
//!
//! If pages hardly become smaller, the device holds no more of them than would fit in its memory,
//! and the budget cannot be kept: what goes there to make room takes as much room. So the swap area
//! is switched off: the kernel brings its pages back to memory, and others go to the disk for them.
//! A thread of its own does that, since it can take seconds. If paging then takes much of the time,
//! the device gets another chance, after a pause that is twice as long each time: what the program
//! has in memory may have changed.

use crate::trial::Progress;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use sweephand_process::zram::{Zram, ZramContents};

/// Pages hardly become smaller if they take this part of their size, without the gaps between them.
/// To switch the device off costs a program of 100 MiB a second or two. Measured: the pages of
/// numpy take 0.7 for a moment, those of sort and sqlite3 rows 0.6 for seconds, and the programs
/// are no faster if it is switched off then.
const HARDLY: f64 = 0.85;
/// Fewer bytes say little of that, or a smaller part of a small device.
const SAMPLE_BYTES: u64 = 4 << 20;
const SAMPLE_PART: u64 = 4;
/// Paging takes this part of the time if the program gets the device again. Measured on a disk of
/// 500 us: go map and java heap, which page for 42 and 36 % of the time without the device, are
/// faster with it; perl hash and sqlite3 rows, with 26 and 17 %, are not.
const PAGING: f64 = 0.33;
/// Over this time.
const PERIOD: Duration = Duration::from_millis(300);
/// To try it costs a second or two.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1024);

/// The device, and whether it is a swap area now.
#[derive(Debug)]
pub(crate) struct Compression {
    zram: Arc<Zram>,
    /// What a read of a page of the disk takes.
    read: Duration,
    is_on: bool,
    /// Switches it on or off. The result is whether it is on then.
    switch: Option<JoinHandle<bool>>,
    /// How often it has been switched.
    changes: u64,
    /// When the period began.
    start: Progress,
    /// When it was switched off, on the clock, and for how long it stays so at least.
    off: Duration,
    pause: Duration,
}

impl Compression {
    /// The device is on.
    pub(crate) fn new(zram: Arc<Zram>, read: Duration, now: Progress) -> Self {
        Self {
            zram,
            read,
            is_on: true,
            switch: None,
            changes: 0,
            start: now,
            off: now.clock,
            pause: FIRST_PAUSE,
        }
    }

    /// Decides whether the device is used from now on.
    pub(crate) fn look(&mut self, now: Progress) {
        if let Some(switch) = &self.switch {
            if !switch.is_finished() {
                return;
            }
            // If the kernel refuses, because memory is short for instance, it is tried again.
            self.is_on = self.switch.take().and_then(|switch| switch.join().ok()).unwrap_or(self.is_on);
            self.start = now;
        }
        let period = now.since(self.start);
        if period.clock < PERIOD {
            return;
        }
        self.start = now;
        let changes = match self.is_on {
            true => hardly_become_smaller(self.zram.contents(), self.zram.size_bytes()),
            false => now.clock >= self.off + self.pause && is_paging(period, self.read),
        };
        if changes {
            self.change(now);
        }
    }

    /// Switches the device on or off.
    fn change(&mut self, now: Progress) {
        let (zram, is_on) = (Arc::clone(&self.zram), self.is_on);
        let switch = move || {
            let done = if is_on { zram.switch_off() } else { zram.switch_on() };
            is_on == done.is_err()
        };
        self.switch = thread::Builder::new().name("zram".to_string()).spawn(switch).ok();
        self.changes += 1;
        if is_on {
            self.off = now.clock;
        } else {
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
    }

    /// Whether it is being switched on or off.
    pub(crate) fn is_changing(&self) -> bool {
        self.switch.is_some()
    }

    /// How often the device has been switched on or off.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }
}

/// Who removes the device afterwards needs it to stay as it is.
impl Drop for Compression {
    fn drop(&mut self) {
        if let Some(switch) = self.switch.take() {
            let _ = switch.join();
        }
    }
}

/// Whether the pages of a device of this size hardly become smaller.
fn hardly_become_smaller(contents: ZramContents, size_bytes: u64) -> bool {
    let ZramContents { held_bytes, compressed_bytes } = contents;
    held_bytes >= SAMPLE_BYTES.min(size_bytes / SAMPLE_PART)
        && compressed_bytes as f64 > HARDLY * held_bytes as f64
}

/// Whether paging to the disk takes much of a period. What a program waits for besides single reads
/// shows in the time that it does not compute. No more of that can be waiting for the disk than
/// all its pages would take one by one.
fn is_paging(period: Progress, read: Duration) -> bool {
    let reads = |pages: u64| pages as f64 * read.as_secs_f64();
    let idle = period.clock.saturating_sub(period.user).as_secs_f64();
    let waiting = reads(period.disk_waits()).max(reads(period.disk_refaults()).min(idle));
    waiting >= PAGING * period.clock.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Duration = Duration::from_micros(500);

    #[test]
    fn a_few_pages_do_not_say_how_well_all_compress() {
        let of = |held_bytes, compressed_bytes, size_bytes| {
            hardly_become_smaller(ZramContents { held_bytes, compressed_bytes }, size_bytes)
        };
        assert!(of(8 << 20, 8 << 20, 1 << 30) && !of(8 << 20, 6 << 20, 1 << 30));
        assert!(of(1 << 20, 1 << 20, 4 << 20) && !of(1 << 20, 1 << 20, 8 << 20));
        assert!(!of(0, 0, 0));
    }

    #[test]
    fn paging_is_what_a_program_waits_for() {
        let of = |user, waits, refaults, decompressed| {
            let (clock, user) = (Duration::from_secs(1), Duration::from_millis(user));
            is_paging(Progress { clock, user, waits, refaults, decompressed, rounds: 0 }, READ)
        };
        assert!(of(5000, 700, 700, 0) && !of(5000, 600, 5000, 0), "others compute meanwhile");
        assert!(of(100, 100, 5000, 0), "it computes for a tenth of the time, and reads much");
        assert!(!of(0, 100, 300, 0), "it waits for something else");
        assert!(!of(100, 5000, 5000, 5000), "they come from the device");
    }
}
