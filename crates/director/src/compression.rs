//! Whether a zram device before the swap file pays, while the program runs.
//!
//! A page that comes back from the device needs no read of the disk. What the device takes is taken
//! from the pages as they are, so other pages go there that would have stayed. Before a slow disk,
//! that mostly pays, so the program begins with the device. It does not pay
//!
//! - if pages hardly become smaller. Then the device holds no more of them than would fit in its
//!   memory, and the budget cannot be kept: what goes there to make room takes as much room. So
//!   the swap area is switched off: the kernel brings its pages back to memory, and others go to
//!   the disk for them.
//! - if nearly all pages that come back would not have left with that memory. Their refault
//!   distances tell (`refault_distance`). Each of them costs the time to bring it from the device,
//!   and each of the others saves a read of the disk. So the kernel gets a second swap file, which
//!   it uses before the device, and what is not in use goes there (`write_back`). The device gives
//!   the rest back as the program wants it.
//!
//! If paging then takes much of the time, the device gets another chance, after a pause that is
//! twice as long each time: what the program has in memory may have changed.
//!
//! If pages become much smaller and half of the device is full, there is a second one. A thread of
//! its own makes all these changes, since they can take seconds.

use crate::parts::ZramTrial;
use crate::refault_distance::{Distances, RefaultDistances};
use crate::trial::Progress;
use crate::write_back::Idle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::swap_area::Rank;
use sweephand_process::zram::{Zram, ZramContents};

/// Pages hardly become smaller if they take this part of their size, without the gaps between them.
/// To switch the device off costs a program of 100 MiB a second or two. Measured: the pages of
/// numpy take 0.7 for a moment, those of sort and sqlite3 rows 0.6 for seconds, and the programs
/// are no faster if it is switched off then.
const HARDLY: f64 = 0.85;
/// They become much smaller if they take this part. Then a second device pays.
const MUCH: f64 = 0.4;
/// Fewer bytes say little of that, or a smaller part of a small device.
const SAMPLE_BYTES: u64 = 4 << 20;
const SAMPLE_PART: u64 = 4;
/// The time to read a page from the device, and to write another one there for it.
const DECOMPRESSION: Duration = Duration::from_micros(25);
/// The device gets no more pages when the program has lost this much time by it, without what is
/// tolerated. The change costs about as much.
const MOST_LOST_SECONDS: f64 = 0.3;
/// This part of the time may be lost: what is moved to the disk by mistake costs much more, and an
/// estimate is not so exact. Measured: sqlite3 rows seems to lose all of the time on a disk of
/// 120 us, and is faster after a change. On a disk of 500 us, it seems to lose 0.37, and perl hash
/// in 60 % of its memory 0.33; that takes 80 s instead of 63 if the device drains and comes back.
const TOLERATED: f64 = 0.4;
/// No more than this is remembered of what it has saved before.
const MOST_SAVED_SECONDS: f64 = 0.5;
/// A period in which fewer pages of the sample come back says nothing.
const LEAST_SAMPLE: u64 = 32;
/// Paging takes this part of the time if the program gets the device again. Measured on a disk of
/// 500 us: go map and java heap, which page for 42 and 36 % of the time without the device, are
/// faster with it; perl hash and sqlite3 rows, with 26 and 17 %, are not.
const PAGING: f64 = 0.33;
/// Over this time.
const PERIOD: Duration = Duration::from_millis(300);
/// To try it costs a second or two.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Pages that were moved to the disk come back one by one, so it costs more then.
const DRAINED_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(1024);

/// What the kernel uses the device for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Pages go there before they go to the disk.
    First,
    /// The same, and there is a second device.
    Large,
    /// It has some pages, and gets no more.
    Drains,
    /// It is switched off.
    Off,
}

/// The device, and what it is used for now.
#[derive(Debug)]
pub(crate) struct Compression {
    zram: Arc<Zram>,
    trial: ZramTrial,
    current: Use,
    /// Changes that. The result is the use then.
    switch: Option<JoinHandle<Use>>,
    /// What could be moved to the disk, if time is being lost.
    idle: Option<Idle>,
    limit_bytes: u64,
    /// Whether the second swap file is there.
    has_second_file: bool,
    /// Whether the second device has not been used.
    can_grow: bool,
    /// How often the use has changed.
    changes: u64,
    /// When the period began.
    start: Progress,
    /// Of a sample of pages that have come back since.
    distances: RefaultDistances,
    /// Time lost by the device, in seconds, less what it has saved and what is tolerated.
    lost_seconds: f64,
    /// When the device lost its use, on the clock, and for how long that stays so at least.
    lost_at: Duration,
    pause: Duration,
    /// Whether the run ends, so that a change has to.
    is_ending: Arc<AtomicBool>,
}

impl Compression {
    /// The device is in use.
    pub(crate) fn new(zram: Arc<Zram>, trial: ZramTrial, limit_bytes: u64, now: Progress) -> Self {
        Self {
            zram,
            trial,
            current: Use::First,
            switch: None,
            idle: None,
            limit_bytes,
            has_second_file: false,
            can_grow: true,
            changes: 0,
            start: now,
            distances: RefaultDistances::new(),
            lost_seconds: 0.0,
            lost_at: now.clock,
            pause: FIRST_PAUSE,
            is_ending: Arc::default(),
        }
    }

    /// Decides what the device is used for from now on. `processes` are those of the program.
    pub(crate) fn look(&mut self, now: Progress, processes: impl Fn() -> Vec<u32>) {
        if let Some(switch) = &self.switch {
            if !switch.is_finished() {
                return;
            }
            self.current = self.switch.take().and_then(|switch| switch.join().ok()).unwrap_or(self.current);
            self.has_second_file |= self.current == Use::Drains;
            self.start = now;
            if !self.is_in_use() {
                self.distances = RefaultDistances::new();
                self.lost_seconds = 0.0;
            }
        }
        let contents = self.zram.contents();
        if self.is_in_use() && now.refaults > self.start.refaults {
            self.distances.look(&processes, contents.taken_bytes / PAGE_BYTES, &self.zram);
        }
        if let Some(next) = self.other_size(contents) {
            return self.change(next, now);
        }
        let period = now.since(self.start);
        if period.clock < PERIOD {
            return;
        }
        let lost = lost_seconds(period, self.distances.take(), self.trial.read);
        let lost = lost - TOLERATED * period.clock.as_secs_f64();
        self.lost_seconds = (self.lost_seconds + lost).max(-MOST_SAVED_SECONDS);
        self.start = now;
        self.look_for_idle(&processes);
        if let Some(next) = self.next(now, period, contents) {
            self.change(next, now);
        }
    }

    /// If time is being lost, looks which pages are not in use.
    fn look_for_idle(&mut self, processes: impl Fn() -> Vec<u32>) {
        if !self.is_in_use() || self.lost_seconds <= 0.0 {
            self.idle = None;
        } else if let Some(idle) = self.idle.as_mut().filter(|idle| !idle.is_stale()) {
            idle.look();
        } else {
            self.idle = Some(Idle::find(&processes(), &self.zram));
        }
    }

    /// Whether pages go to the device before they go to the disk.
    fn is_in_use(&self) -> bool {
        matches!(self.current, Use::First | Use::Large)
    }

    /// The use after this period, if that is another.
    fn next(&self, now: Progress, period: Progress, contents: ZramContents) -> Option<Use> {
        if !self.is_in_use() {
            let is_wanted = now.clock >= self.lost_at + self.pause && is_paging(period, self.trial.read);
            return is_wanted.then_some(Use::First);
        }
        if hardly_become_smaller(contents, self.zram.size_bytes()) {
            return Some(Use::Off);
        }
        if self.lost_seconds >= MOST_LOST_SECONDS {
            // The device comes before a second file, so only switching it off stops new pages.
            return Some(if self.has_second_file { Use::Off } else { Use::Drains });
        }
        None
    }

    /// Whether there should be a second device, or no more. A page that has once been on the disk
    /// mostly goes there again, so the second one has to come before the first is full.
    fn other_size(&self, contents: ZramContents) -> Option<Use> {
        match self.current {
            Use::Large => (contents.taken_bytes > self.limit_bytes / 5 * 3).then_some(Use::First),
            Use::First if self.can_grow => {
                let size_bytes = self.zram.size_bytes();
                let is_half_full = contents.held_bytes >= size_bytes / 2;
                let grows = is_half_full && second_bytes(contents, size_bytes, self.limit_bytes) > 0;
                grows.then_some(Use::Large)
            }
            _ => None,
        }
    }

    /// Begins to change the use.
    fn change(&mut self, next: Use, now: Progress) {
        let change = Change {
            zram: Arc::clone(&self.zram),
            trial: self.trial.clone(),
            limit_bytes: self.limit_bytes,
            rank: if self.has_second_file { Rank::Top } else { Rank::Zram },
            idle: self.idle.take(),
            is_ending: Arc::clone(&self.is_ending),
        };
        let current = self.current;
        let switch = move || change.bring_about(current, next);
        self.switch = thread::Builder::new().name("zram".to_string()).spawn(switch).ok();
        self.can_grow &= next != Use::Large;
        self.changes += 1;
        match (current, next) {
            (_, Use::Drains | Use::Off) => {
                self.lost_at = now.clock;
                if next == Use::Drains {
                    self.pause = self.pause.max(DRAINED_PAUSE);
                }
            }
            (Use::Drains | Use::Off, _) => self.pause = (2 * self.pause).min(LONGEST_PAUSE),
            _ => {}
        }
    }

    /// Whether its use is being changed.
    pub(crate) fn is_changing(&self) -> bool {
        self.switch.is_some()
    }

    /// How often its use has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }
}

/// What it takes to use the device for something else.
struct Change {
    zram: Arc<Zram>,
    trial: ZramTrial,
    limit_bytes: u64,
    /// Of the device, if it is switched on.
    rank: Rank,
    idle: Option<Idle>,
    is_ending: Arc<AtomicBool>,
}

impl Change {
    /// Returns what the device is used for then. If the kernel refuses, because memory is short for
    /// instance, it is tried again.
    fn bring_about(mut self, current: Use, next: Use) -> Use {
        let zram = Arc::clone(&self.zram);
        match (current, next) {
            (_, Use::Large) => {
                let bytes = second_bytes(zram.contents(), zram.size_bytes(), self.limit_bytes);
                if zram.switch_on_second(bytes, self.rank).is_ok() { Use::Large } else { current }
            }
            (Use::Large, Use::First) => match zram.switch_off_second() {
                Ok(()) => Use::First,
                Err(_) => current,
            },
            (_, Use::First) => {
                if current == Use::Drains && zram.switch_off().is_err() {
                    return current;
                }
                if zram.switch_on(0, self.rank).is_ok() { Use::First } else { Use::Off }
            }
            (_, Use::Drains) if self.drain() => Use::Drains,
            // If there is no second file, because there is no space for instance.
            (_, Use::Drains | Use::Off) => match zram.switch_off() {
                Ok(()) => Use::Off,
                Err(_) => current,
            },
        }
    }

    /// Has pages go to a second swap file, those first that are not in use.
    fn drain(&mut self) -> bool {
        let idle = self.idle.take().map(|idle| idle.settled(&self.is_ending));
        let is_made =
            !self.is_ending.load(Relaxed) && (self.trial.create)(&self.trial.second_file, Rank::BeforeZram);
        if is_made && let Some(idle) = idle {
            idle.write_back(&self.is_ending);
        }
        is_made
    }
}

/// Who removes the device afterwards needs it to stay as it is.
impl Drop for Compression {
    fn drop(&mut self) {
        self.is_ending.store(true, Relaxed);
        if let Some(switch) = self.switch.take() {
            let _ = switch.join();
        }
    }
}

/// Whether the pages of a device of this size hardly become smaller.
fn hardly_become_smaller(contents: ZramContents, size_bytes: u64) -> bool {
    let ZramContents { held_bytes, compressed_bytes, .. } = contents;
    held_bytes >= SAMPLE_BYTES.min(size_bytes / SAMPLE_PART)
        && compressed_bytes as f64 > HARDLY * held_bytes as f64
}

/// How much a second device may hold before compression, if all pages become as small as those of
/// the first: both take half of the limit then, and hold twice the limit at most. 0: there is none,
/// because pages do not become much smaller.
fn second_bytes(contents: ZramContents, first_bytes: u64, limit_bytes: u64) -> u64 {
    let ratio = contents.compressed_bytes as f64 / contents.held_bytes.max(1) as f64;
    let both = (limit_bytes as f64 / 2.0 / ratio.max(0.01)) as u64;
    let second = both.min(2 * limit_bytes).saturating_sub(first_bytes);
    if ratio <= MUCH && second >= limit_bytes / 8 { second / PAGE_BYTES * PAGE_BYTES } else { 0 }
}

/// The seconds of a period that the program would not have needed without the device, if the pages
/// that came back are like the sample of them. A page that is near would not have left. One that is
/// far and was in the device would have been read from the disk. Neighbours may be read together,
/// so this says too little. That is the safe side: what was moved to the disk by mistake comes back
/// one by one.
fn lost_seconds(period: Progress, sample: Distances, read: Duration) -> f64 {
    if sample.all < LEAST_SAMPLE {
        return 0.0;
    }
    let (read, decompression) = (read.as_secs_f64(), DECOMPRESSION.as_secs_f64());
    // What is read ahead from the disk does not wait for it.
    let wait = read * period.disk_waits() as f64 / period.disk_refaults().max(1) as f64;
    let lost = sample.near_in_device as f64 * decompression + sample.near_on_disk as f64 * wait;
    let saved = sample.far_in_device as f64 * (read - decompression);
    (lost - saved) * period.refaults as f64 / sample.all as f64
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
            hardly_become_smaller(ZramContents { held_bytes, compressed_bytes, taken_bytes: 0 }, size_bytes)
        };
        assert!(of(8 << 20, 8 << 20, 1 << 30) && !of(8 << 20, 6 << 20, 1 << 30));
        assert!(of(1 << 20, 1 << 20, 4 << 20) && !of(1 << 20, 1 << 20, 8 << 20));
        assert!(!of(0, 0, 0));
    }

    #[test]
    fn what_is_lost_depends_on_the_disk_and_on_which_pages_come_back() {
        let of = |near_in_device, near_on_disk, far_in_device, read| {
            let period = Progress { refaults: 9000, decompressed: 8000, waits: 8500, ..Progress::default() };
            let all = near_in_device + near_on_disk + far_in_device;
            lost_seconds(period, Distances { all, near_in_device, near_on_disk, far_in_device }, read)
        };
        let is_about = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // 39 in 40 cost 25 us. The other saves a read.
        assert!(is_about(of(39, 0, 1, READ), 9000.0 / 40.0 * (39.0 * 25e-6 - 475e-6)));
        assert!(of(8, 0, 1, READ) == 0.0, "a small sample says nothing");
        assert!(of(36, 0, 4, READ) < 0.0 && of(36, 0, 4, READ / 5) > 0.0, "a fast disk");
        // Half of those on the disk are read ahead.
        assert!(is_about(of(0, 40, 0, READ), 9000.0 * 250e-6));
    }

    #[test]
    fn a_second_device_is_for_pages_that_become_much_smaller() {
        const MIB: u64 = 1 << 20;
        let of = |compressed_bytes| {
            let contents = ZramContents { held_bytes: 48 * MIB, compressed_bytes, taken_bytes: 0 };
            second_bytes(contents, 48 * MIB, 64 * MIB) / MIB
        };
        // 0.4: 80 MiB take half of the limit. Hardly anything: twice the limit.
        assert_eq!((of(19 * MIB), of(MIB), of(20 * MIB)), (32, 80, 0));
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
