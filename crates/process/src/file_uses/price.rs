//! What a read of a file takes longer while its use is noted, measured on the file of this program.

use super::map::Map;
use crate::usage::processor_time;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// Reads of a measurement.
const READS: u32 = 2000;
/// Measurements, of which the least counts: the others were disturbed.
const TIMES: usize = 5;

/// What a call takes longer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Price {
    inside_ns: f64,
    outside_ns: f64,
}

impl Price {
    /// What these calls of members, and of other processes, have taken longer.
    pub(super) fn of(self, inside: u64, outside: u64) -> Duration {
        Duration::from_nanos((inside as f64 * self.inside_ns + outside as f64 * self.outside_ns) as u64)
    }
}

/// A measurement that has begun.
pub(super) struct Meter {
    file: File,
    /// A read, in nanoseconds, without the programs.
    before_ns: f64,
}

impl Meter {
    /// Measures without the programs.
    pub(super) fn begin() -> io::Result<Self> {
        let file = File::open("/proc/self/exe")?;
        let before_ns = read_ns(&file)?;
        Ok(Self { file, before_ns })
    }

    /// The inode of the file.
    pub(super) fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Measures with them, as a member and as another process, which this one is in the end.
    pub(super) fn end(self, members: &Map<u32, u32>) -> io::Result<Price> {
        let more = |with_ns: f64| (with_ns - self.before_ns).max(0.0);
        let outside_ns = more(read_ns(&self.file)?);
        let own = std::process::id();
        members.set(&own, &own)?;
        let inside = read_ns(&self.file);
        members.remove(&own);
        Ok(Price { inside_ns: more(inside?), outside_ns })
    }
}

/// What a read of a byte takes, in the first two pages.
fn read_ns(file: &File) -> io::Result<f64> {
    let mut best = Duration::MAX;
    for _ in 0..TIMES {
        let began = processor_time();
        for read in 0..READS {
            // Another page than the last one, which costs more than the same.
            file.read_exact_at(&mut [0], u64::from(read % 2) * PAGE_BYTES)?;
        }
        best = best.min(processor_time() - began);
    }
    Ok(best.as_nanos() as f64 / f64::from(READS))
}
