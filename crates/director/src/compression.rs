//! Whether a zram device before the swap file pays, while the program runs.
//!
//! A page that comes back from the device needs no read of the disk. What the device takes is taken
//! from the pages as they are, so other pages go there that would have stayed. With two pages that
//! compress to half, memory holds one page more. With pages that hardly compress, it holds few more,
//! and all that go to the device and come back cost processor time.
//!
//! The program begins with the device. If its pages compress badly, and paging takes much of the
//! time all the same, the swap area is switched off: the kernel brings its pages back to memory, and
//! others go to the disk for them. A thread of its own does that, since it can take seconds. If
//! paging then takes much of the time again, the device gets another chance, after a pause that is
//! twice as long each time: what the program has in memory may have changed.

use crate::trial::Progress;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use sweephand_process::zram::{Zram, ZramContents};

/// Pages compress badly if they take this part of their size, without the gaps between them.
/// Measured: those of python, perl and mawk take 0.2 to 0.5, and the device pays; those of sqlite3
/// rows take 0.61, and the program takes twice as long with it.
const BADLY: f64 = 0.55;
/// Fewer bytes say little of that.
const SAMPLE_BYTES: u64 = 4 << 20;
/// What a fault takes whose page comes from the device, with the page that goes there for it.
const EXCHANGE: Duration = Duration::from_micros(25);
/// Paging takes this part of the time if something has to change. Measured on a disk of 500 us: go
/// map and java heap, which page for 42 and 36 % of the time without the device, are faster with it;
/// perl hash and sqlite3 rows, with 26 and 17 %, are not.
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
        let stretch = now.since(self.start);
        if stretch.clock < PERIOD {
            return;
        }
        self.start = now;
        let may_change = match self.is_on {
            true => compress_badly(self.zram.contents()),
            false => now.clock >= self.off + self.pause,
        };
        if may_change && is_paging(stretch, self.read) {
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

/// Whether the pages that a device holds compress badly.
fn compress_badly(contents: ZramContents) -> bool {
    let ZramContents { held_bytes, compressed_bytes } = contents;
    held_bytes >= SAMPLE_BYTES && compressed_bytes as f64 > BADLY * held_bytes as f64
}

/// Whether paging takes much of a period. What a program waits for besides single reads shows in
/// the time that it does not compute, of which no more can be waiting for the disk than all its
/// pages would take one by one.
fn is_paging(period: Progress, read: Duration) -> bool {
    let reads = |pages: u64| pages as f64 * read.as_secs_f64();
    let idle = period.clock.saturating_sub(period.user).as_secs_f64();
    let disk = reads(period.disk_waits()).max(reads(period.disk_refaults()).min(idle));
    let device = period.decompressed as f64 * EXCHANGE.as_secs_f64();
    disk + device >= PAGING * period.clock.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Duration = Duration::from_micros(500);

    #[test]
    fn pages_that_compress_badly_are_told_from_others() {
        let of = |held_bytes, compressed_bytes| compress_badly(ZramContents { held_bytes, compressed_bytes });
        assert!(!of(8 << 20, 3 << 20) && of(8 << 20, 6 << 20));
        assert!(!of(1 << 20, 1 << 20), "it is too early to say");
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
        assert!(of(600, 15_000, 15_000, 15_000) && !of(100, 5000, 5000, 5000), "the device is fast");
    }
}
