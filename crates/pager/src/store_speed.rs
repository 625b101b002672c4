//! How long a read of a page takes where pages go, measured before a program starts.
//!
//! A file without a name is written at once, so that reads find no holes, and single pages of it
//! are read at random, one after another, by direct I/O. The file is small, because a hard disk is
//! measured too, and the program waits meanwhile: for a write and some reads. The kernel frees the
//! file when it is closed, however that happens.
//!
//! The result is the lower quartile. What else the disk does makes a read longer and never shorter,
//! and other programs may be done with the disk when this one needs it.
//!
//! A disk that answers from a cache of its own looks as fast as that cache. It is more likely to do
//! so for pages that were just written than for those of a long run.

use crate::PAGE_BYTES;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use sweephand_policy::SplitMix64;

/// Pages of the file. Their transfer takes a hard disk less time than its seek.
const PAGES: usize = 64;
/// Reads at most.
const READS: usize = 16;
/// No further read begins when they have taken this long.
const MOST_TIME: Duration = Duration::from_millis(20);

/// A page at an address that direct I/O takes.
#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES as usize]);

/// Measures a read of a page in a directory.
///
/// # Errors
/// The directory has no direct I/O or no files without a name, or its disk is full or fails.
pub(crate) fn measure(directory: &Path) -> io::Result<Duration> {
    // The kernel ends a process that makes a larger file.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| most < PAGES as u64 * PAGE_BYTES) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT | OFlags::CLOEXEC;
    let mut file = File::from(open(directory, flags, Mode::RUSR | Mode::WUSR)?);
    let mut random = SplitMix64::new(7);
    let pages = random_pages(&mut random);
    let slices: Vec<IoSlice<'_>> = pages.iter().map(|page| IoSlice::new(&page.0)).collect();
    if file.write_vectored(&slices)? < PAGES * PAGE_BYTES as usize {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut page = Page([0; PAGE_BYTES as usize]);
    typical(|| {
        let place = random.below(PAGES as u64) * PAGE_BYTES;
        let start = Instant::now();
        file.read_exact_at(&mut page.0, place)?;
        Ok(start.elapsed())
    })
}

/// Pages that a disk cannot compress.
fn random_pages(random: &mut SplitMix64) -> Vec<Page> {
    let mut pages = vec![Page([0; PAGE_BYTES as usize]); PAGES];
    for word in pages.iter_mut().flat_map(|page| page.0.chunks_exact_mut(8)) {
        word.copy_from_slice(&random.next_u64().to_ne_bytes());
    }
    pages
}

/// The lower quartile of what reads take.
fn typical(mut read: impl FnMut() -> io::Result<Duration>) -> io::Result<Duration> {
    let (mut times, mut all) = (Vec::with_capacity(READS), Duration::ZERO);
    while times.len() < READS && all < MOST_TIME {
        let time = read()?;
        times.push(time);
        all += time;
    }
    times.sort_unstable();
    Ok(times[times.len() / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What reads come to that take these times, the last one again and again; and their number.
    fn played(micros: &[u64]) -> (u128, usize) {
        let mut reads = 0;
        let typical = typical(|| {
            reads += 1;
            Ok(Duration::from_micros(*micros.get(reads - 1).unwrap_or(micros.last().unwrap())))
        });
        (typical.unwrap().as_micros(), reads)
    }

    #[test]
    fn a_hard_disk_is_read_a_few_times_only() {
        assert_eq!(played(&[8_000]), (8_000, 3));
        assert_eq!(played(&[500]), (500, READS));
        assert_eq!(played(&[90_000]), (90_000, 1));
    }

    /// The first read wakes the processor, and others wait for other programs.
    #[test]
    fn reads_that_had_to_wait_do_not_count() {
        let mut micros =
            [[110, 40, 300, 41], [42, 900, 90, 43], [400, 40, 95, 120], [91, 92, 93, 94]].concat();
        assert_eq!(played(&micros), (43, READS));
        micros.reverse();
        assert_eq!(played(&micros), (43, READS));
    }

    #[test]
    fn a_failing_read_is_an_error() {
        assert!(typical(|| Err(io::ErrorKind::Other.into())).is_err());
    }

    #[test]
    fn a_disk_is_measured_and_nothing_is_left() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let start = Instant::now();
        let time = match measure(folder.path()) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                return sweephand_checks::skip(sweephand_checks::Need::Machine, "direct I/O in /var/tmp");
            }
            time => time.unwrap(),
        };
        assert!(!time.is_zero() && time < start.elapsed());
        // Sixteen reads are within the bound, and a busy disk may make each step wait for seconds.
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_disk_is_an_error() {
        for place in ["/no/such", "/proc", "/dev/null"] {
            assert!(measure(Path::new(place)).is_err(), "{place}");
        }
    }
}
