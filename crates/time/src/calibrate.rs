//! Measures the device that a directory is on.
//!
//! A file without a name is made in the directory, so nothing is left behind however the
//! measurement ends. It is filled first, so that reads do not find holes. Then it is read and
//! written at random places, by direct I/O, one request or several at a time. Last, single pages
//! are read while another thread writes, as in paging, where for each page that comes another goes.
//! Half of each page is random and half is zeros, so that a device that compresses has something to
//! do. For such a device, the same pages are compressed here as well, and timed: what a program's
//! pages take is compared with that.

use crate::device::{Device, Figures, Measurement};
use crate::swap::disk_of;
use rustix::fs::{Mode, OFlags, fstatvfs, open};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use sweephand_contents::Codecs;
use sweephand_policy::SplitMix64;
use sweephand_trace::contents::CodecTimes;

const PAGE_BYTES: usize = 4096;
/// The file is this large, or half of the free space if that is less.
const FILE_BYTES: u64 = 256 << 20;
/// There are no figures from a smaller one.
const LEAST_FILE_BYTES: u64 = 8 << 20;
/// Bytes of a write while the file is filled.
const FILL_BYTES: usize = 1 << 20;
/// Bytes of a request, and requests at a time.
const PATTERNS: [(usize, usize); 7] = [
    (PAGE_BYTES, 1),
    (PAGE_BYTES, 4),
    (PAGE_BYTES, 16),
    (128 << 10, 1),
    (128 << 10, 4),
    (512 << 10, 1),
    (512 << 10, 4),
];

/// Bytes of a write beside which pages are read: a batch of the pager's in 32 MiB.
const BESIDE_BYTES: usize = 64 << 10;

/// Why a device cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file system has no direct I/O or no files without a name.
    #[error("{}: its file system has no direct I/O or no files without a name; name a directory on a disk", .0.display())]
    NotDirect(PathBuf),
    /// There is too little room.
    #[error("{}: only {free_mib} MiB are free; a measurement takes {least_mib} MiB or more", directory.display())]
    Full {
        /// The directory.
        directory: PathBuf,
        /// Free space, in MiB.
        free_mib: u64,
        /// What it takes, in MiB.
        least_mib: u64,
    },
    /// Something else.
    #[error("{}", .0.display())]
    Io(PathBuf, #[source] io::Error),
}

/// Measures the device that `directory` is on, for `time` in all, and half as much to make the file
/// ready on a slow disk. `progress` is called with the share done. `stop` ends it: then there is an
/// error of the kind `Interrupted`.
///
/// # Errors
/// The directory cannot be written to, has too little room, or is on no disk.
pub fn calibrate(
    directory: &Path,
    time: Duration,
    progress: &dyn Fn(f64),
    stop: &AtomicBool,
) -> Result<Device, CalibrationError> {
    let failed = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::ISDIR) => {
            CalibrationError::NotDirect(directory.to_path_buf())
        }
        _ => CalibrationError::Io(directory.to_path_buf(), error),
    };
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = open(directory, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed(error.into()))?;
    let space = fstatvfs(&file).map_err(|error| failed(error.into()))?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let full = || CalibrationError::Full {
        directory: directory.to_path_buf(),
        free_mib: free_bytes >> 20,
        least_mib: (2 * LEAST_FILE_BYTES) >> 20,
    };
    let length = FILE_BYTES.min(free_bytes / 2) & !(FILL_BYTES as u64 - 1);
    if length < LEAST_FILE_BYTES {
        return Err(full());
    }
    let file = File::from(file);
    let filled = fill(&file, length, time / 2, stop).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => full(),
        _ => failed(error),
    })?;
    let compressor = compressor(&file);
    let codec_times = compressor.is_some().then(codec_times).transpose().map_err(failed)?.flatten();
    let steps = 2 * PATTERNS.len() + 1;
    let each = time / steps as u32;
    let mut measurements = Vec::new();
    for write in [false, true] {
        for (bytes, depth) in PATTERNS {
            progress(measurements.len() as f64 / steps as f64);
            let pattern = Pattern { file: &file, length: filled, write, bytes, depth };
            measurements.push(pattern.measure(each, stop).map_err(failed)?);
        }
    }
    progress(measurements.len() as f64 / steps as f64);
    let beside = beside_writes(&file, filled, each, stop).map_err(failed)?;
    let read_beside_writes_us = Some((10.0 * beside.latency_us).round().max(1.0) / 10.0);
    progress(1.0);
    let megabytes = filled >> 20;
    Ok(Device {
        name: "measured".to_string(),
        source: format!("sweephand devices {}, a file of {megabytes} MiB, direct I/O", directory.display()),
        synchronous: compressor.is_some(),
        rotational: is_rotational(&file),
        disk: disk_of(&file),
        read_beside_writes_us,
        compressor,
        read: figures(measurements.iter().filter(|measurement| !measurement.write)),
        write: figures(measurements.iter().filter(|measurement| measurement.write)),
        codec_times,
        measurements: measurements.into_iter().chain([beside]).collect(),
    })
}

/// Fills a file up to `length`. On a slow disk, which takes longer than `time`, a smaller file has
/// to do. Returns its length.
fn fill(file: &File, length: u64, time: Duration, stop: &AtomicBool) -> io::Result<u64> {
    let mut buffer = Buffer::new(FILL_BYTES);
    let begin = Instant::now();
    let mut filled = 0;
    while filled < length && (filled < LEAST_FILE_BYTES || begin.elapsed() < time) {
        match file.write_all_at(buffer.bytes(), filled) {
            Ok(()) => filled += FILL_BYTES as u64,
            // Others have taken the rest.
            Err(error) if error.kind() == io::ErrorKind::StorageFull && filled >= LEAST_FILE_BYTES => break,
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(filled)
}

/// How long the codecs take for the pages that are written, each once.
fn codec_times() -> io::Result<Option<CodecTimes>> {
    let mut codecs = Codecs::new()?;
    let mut buffer = Buffer::new(FILL_BYTES);
    Ok(codecs.times_of(buffer.bytes().as_chunks().0.iter()))
}

/// What the kernel says of the block device that holds a file, at a path below that of the device.
/// `None`: there is no single device, or it says nothing of that.
fn said_of_device(file: &File, path: &str) -> Option<String> {
    let status = rustix::fs::fstat(file).ok()?;
    let (major, minor) = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    // A partition has the queue of its disk.
    let of = |disk: &str| std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{disk}{path}"));
    of("").or_else(|_| of("../")).ok()
}

/// Whether the kernel takes the block device that holds a file for a disk that turns.
fn is_rotational(file: &File) -> bool {
    said_of_device(file, "queue/rotational").is_some_and(|text| text.trim() == "1")
}

/// The compressor of the zram that holds a file; `None` on another device.
fn compressor(file: &File) -> Option<String> {
    chosen(&said_of_device(file, "comp_algorithm")?)
}

/// What is in brackets in a list of choices.
fn chosen(choices: &str) -> Option<String> {
    choices.split_whitespace().find_map(|word| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned()))
}

/// Reads single pages, one at a time, while another thread writes without a pause.
fn beside_writes(file: &File, length: u64, time: Duration, stop: &AtomicBool) -> io::Result<Measurement> {
    let of = |write, bytes| Pattern { file, length, write, bytes, depth: 1 };
    // It ends with the reads.
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| of(true, BESIDE_BYTES).measure(Duration::MAX, &ended));
        let read = of(false, PAGE_BYTES).measure(time, stop);
        ended.store(true, Ordering::Relaxed);
        match writer.join().expect("it does not panic") {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(Measurement { beside_writes: true, ..read? }),
        }
    })
}

/// What measurements in one direction come to.
fn figures<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Figures {
    let all: Vec<_> = measurements.collect();
    let alone = |bytes: usize| {
        let found = all.iter().find(|measurement| (measurement.bytes, measurement.depth) == (bytes, 1));
        found.expect("among the patterns").latency_us
    };
    let most = |of: &dyn Fn(&Measurement) -> Option<f64>| {
        all.iter().filter_map(|measurement| of(measurement)).fold(0.0, f64::max)
    };
    let bytes_per_second =
        most(&|measurement| Some(measurement.bytes as f64 * measurement.operations_per_second));
    let large = PATTERNS.iter().map(|(bytes, _)| *bytes).max().expect("not empty");
    let beyond_us = alone(large) - alone(PAGE_BYTES);
    let stream = (large - PAGE_BYTES) as f64 / (beyond_us / 1e6);
    let round = |number: f64| number.round().max(1.0);
    Figures {
        latency_us: (10.0 * alone(PAGE_BYTES)).round().max(1.0) / 10.0,
        operations_per_second: round(most(&|measurement| {
            (measurement.bytes == PAGE_BYTES).then_some(measurement.operations_per_second)
        })),
        bytes_per_second: round(bytes_per_second),
        // Where a large request takes no longer than a small one, its transfer takes no time by
        // itself.
        stream_bytes_per_second: round(if beyond_us > 0.0 { stream } else { bytes_per_second }),
    }
}

/// Requests of one kind, to a file that is filled.
struct Pattern<'a> {
    file: &'a File,
    length: u64,
    write: bool,
    bytes: usize,
    depth: usize,
}

impl Pattern<'_> {
    fn measure(&self, time: Duration, stop: &AtomicBool) -> io::Result<Measurement> {
        let (operations, busy_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let begin = Instant::now();
        thread::scope(|scope| {
            let run = |seed: usize| -> io::Result<()> {
                let mut random = SplitMix64::new(seed as u64);
                let mut buffer = Buffer::new(self.bytes);
                // At least one, however short the time is.
                loop {
                    let place = random.below(self.length / self.bytes as u64) * self.bytes as u64;
                    let start = Instant::now();
                    if self.write {
                        self.file.write_all_at(buffer.bytes(), place)?;
                    } else {
                        self.file.read_exact_at(buffer.bytes_mut(), place)?;
                    }
                    busy_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    operations.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    if begin.elapsed() >= time {
                        return Ok(());
                    }
                }
            };
            let threads: Vec<_> = (0..self.depth).map(|seed| scope.spawn(move || run(seed))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })?;
        let seconds = begin.elapsed().as_secs_f64();
        let operations = operations.into_inner() as f64;
        Ok(Measurement {
            write: self.write,
            bytes: self.bytes,
            depth: self.depth,
            beside_writes: false,
            latency_us: busy_ns.into_inner() as f64 / operations / 1e3,
            operations_per_second: operations / seconds,
        })
    }
}

/// Bytes at an address that direct I/O takes: half of each page random, half zeros.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    fn new(length: usize) -> Self {
        let memory = vec![0; length + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        let mut buffer = Self { memory, start, length };
        let mut random = SplitMix64::new(7);
        for page in buffer.bytes_mut().chunks_exact_mut(PAGE_BYTES) {
            for word in page[..PAGE_BYTES / 2].chunks_exact_mut(8) {
                word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
            }
        }
        buffer
    }

    fn bytes(&mut self) -> &[u8] {
        self.bytes_mut()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(bytes: usize, depth: usize, latency_us: f64) -> Measurement {
        let operations_per_second = depth as f64 * 1e6 / latency_us;
        Measurement { write: false, bytes, depth, beside_writes: false, latency_us, operations_per_second }
    }

    /// 100 us for a page and 1 us for each KiB beyond it; at depth 4 twice as much gets done.
    #[test]
    fn device_figures_follow_from_the_measurements() {
        let latency = |bytes: usize| 100.0 + (bytes - PAGE_BYTES) as f64 / 1024.0;
        let all = PATTERNS.map(|(bytes, depth)| {
            measured(bytes, depth, latency(bytes) * if depth == 1 { 1.0 } else { depth as f64 / 2.0 })
        });
        let figures = figures(all.iter());
        assert_eq!(figures.latency_us, 100.0);
        assert_eq!(figures.operations_per_second, 20_000.0);
        assert_eq!(figures.stream_bytes_per_second, 1_024_000_000.0);
        let large = 2.0 * 524_288.0 * 1e6 / latency(512 << 10);
        assert!((figures.bytes_per_second - large).abs() < 1.0);
    }

    #[test]
    fn a_transfer_takes_no_time_where_all_requests_take_the_same() {
        let all = PATTERNS.map(|(bytes, depth)| measured(bytes, depth, 100.0));
        let figures = figures(all.iter());
        assert_eq!(figures.bytes_per_second, 524_288.0 * 4e4);
        assert_eq!(figures.stream_bytes_per_second, figures.bytes_per_second);
    }

    #[test]
    fn a_disk_is_measured_and_nothing_is_left() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let stop = AtomicBool::new(false);
        let device = match calibrate(folder.path(), Duration::from_millis(280), &|_| {}, &stop) {
            Err(CalibrationError::NotDirect(_)) => {
                return sweephand_checks::skip(sweephand_checks::Need::Machine, "direct I/O in /var/tmp");
            }
            device => device.unwrap(),
        };
        assert_eq!(device.measurements.len(), 2 * PATTERNS.len() + 1);
        let is_timed = device.codec_times.is_some();
        assert_eq!((device.synchronous, is_timed), (device.compressor.is_some(), device.synchronous));
        assert!(device.read_beside_writes_us.unwrap() > 0.0);
        let (last, others) = device.measurements.split_last().unwrap();
        assert!(last.beside_writes && others.iter().all(|other| !other.beside_writes));
        assert!(device.measurements.iter().all(|measurement| measurement.operations_per_second > 0.0));
        assert!(device.read.latency_us > 0.0 && device.write.bytes_per_second > 1.0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        stop.store(true, Ordering::Relaxed);
        let stopped = calibrate(folder.path(), Duration::from_secs(60), &|_| {}, &stop).unwrap_err();
        assert!(
            matches!(stopped, CalibrationError::Io(_, error) if error.kind() == io::ErrorKind::Interrupted)
        );
    }

    #[test]
    fn pages_that_are_written_are_timed_and_the_compressor_is_the_one_in_brackets() {
        assert_eq!(chosen("lzo-rle [zstd] lz4 \n"), Some("zstd".into()));
        assert_eq!(chosen("lzo-rle"), None);
        assert!(codec_times().unwrap().unwrap().is_sound());
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let stop = AtomicBool::new(false);
        let missing = calibrate(Path::new("/no/such"), Duration::ZERO, &|_| {}, &stop);
        assert!(missing.unwrap_err().to_string().starts_with("/no/such"));
        let proc = calibrate(Path::new("/proc"), Duration::ZERO, &|_| {}, &stop);
        assert!(matches!(proc, Err(CalibrationError::NotDirect(_) | CalibrationError::Io(..))));
    }
}
