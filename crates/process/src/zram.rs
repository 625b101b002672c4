//! Zram devices as swap areas of a run's own: the kernel keeps there, compressed, pages that it
//! takes from processes. The memory for that belongs to no cgroup, so the code that limits
//! processes subtracts it from their limit ([`Zram::share_of`]).
//!
//! A device cannot become larger while it is in use. So a run may have a second one, for pages that
//! become much smaller than expected.
//!
//! There is no `mem_limit`. Where that is hit before the device is full, the kernel's writes fail,
//! the pages stay in memory, and it tries them again instead of the next swap area.

use crate::swap_area::{Rank, mark, switch_off, switch_on};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// Where the kernel makes devices.
const CONTROL: &str = "/sys/class/zram-control";
/// The codec, if the kernel has it. Otherwise its default stays.
const CODEC: &str = "lz4";
/// Bytes that the kernel keeps for each page that a device may hold, in Linux 6.18.
const TABLE_BYTES: u64 = 16;
const SECTOR_BYTES: u64 = 512;
/// Steps in which the share of a limit follows the device.
const STEP_BYTES: u64 = 64 << 10;
/// The part of a limit that is left to processes at least, whatever the device takes.
const LEAST_LEFT_PART: u64 = 5;

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct ZramError {
    /// A file of the kernel's.
    path: PathBuf,
    /// What went wrong.
    reason: String,
}

/// What a device has done since [`Zram::begin_counting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZramCounts {
    /// Pages written to it.
    pub pages_written: u64,
    /// Pages read from it.
    pub pages_read: u64,
    /// Pages that it has kept whole because they do not become smaller.
    pub whole_pages: u64,
    /// Most memory that it took.
    pub peak_bytes: u64,
}

/// What a device holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZramContents {
    /// Bytes of pages, before compression, without those that are full of one number.
    pub held_bytes: u64,
    /// The same after compression.
    pub compressed_bytes: u64,
    /// The memory that it takes for that, with the gaps and the table of pages.
    pub taken_bytes: u64,
}

/// Zram devices of a run. The code that makes them also has to remove them.
#[derive(Debug)]
pub struct Zram {
    first: Device,
    second: Option<Device>,
    /// Pages written and read before they were swap areas.
    before: (u64, u64),
}

#[derive(Debug)]
struct Device {
    number: u32,
    /// Bytes that it may hold, before compression. Without that, it can hold nothing.
    size_bytes: OnceLock<u64>,
}

impl Zram {
    /// Makes a device, which holds nothing and takes no memory yet.
    ///
    /// # Errors
    /// The kernel has no zram, or this process may make no device.
    pub fn add() -> Result<Self, ZramError> {
        Ok(Self { first: Device::add()?, second: None, before: (0, 0) })
    }

    /// Makes a second one. Returns its number.
    ///
    /// # Errors
    /// This process may make no device any more.
    pub fn add_second(&mut self) -> Result<u32, ZramError> {
        Ok(self.second.insert(Device::add()?).number)
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        [&self.first].into_iter().chain(&self.second)
    }

    /// The first one's number among the machine's zram devices.
    pub fn number(&self) -> u32 {
        self.first.number
    }

    /// Whether one of them has this path.
    pub fn has_path(&self, path: &str) -> bool {
        self.devices().any(|device| device.path() == Path::new(path))
    }

    /// Bytes that they may hold, before compression.
    pub fn size_bytes(&self) -> u64 {
        self.devices().filter_map(|device| device.size_bytes.get()).sum()
    }

    /// Has the kernel use the first one as a swap area of this rank. It may hold this many bytes
    /// before compression, if it has not been said before.
    ///
    /// # Errors
    /// The kernel refuses the size, as it does where its memory is short, or the area.
    pub fn switch_on(&self, bytes: u64, rank: Rank) -> Result<(), ZramError> {
        self.first.switch_on(bytes, rank)
    }

    /// The same with the second one.
    ///
    /// # Errors
    /// There is none, or see [`Zram::switch_on`].
    pub fn switch_on_second(&self, bytes: u64, rank: Rank) -> Result<(), ZramError> {
        let none = || ZramError { path: CONTROL.into(), reason: "there is no second device".to_string() };
        self.second.as_ref().ok_or_else(none)?.switch_on(bytes, rank)
    }

    /// Has the kernel use them no more: their pages come back to memory.
    ///
    /// # Errors
    /// See [`switch_off`].
    pub fn switch_off(&self) -> io::Result<()> {
        self.switch_off_second()?;
        self.first.switch_off()
    }

    /// The same with the second one only.
    ///
    /// # Errors
    /// See [`switch_off`].
    pub fn switch_off_second(&self) -> io::Result<()> {
        self.second.as_ref().map_or(Ok(()), Device::switch_off)
    }

    /// What they hold now; nothing once they are removed.
    pub fn contents(&self) -> ZramContents {
        let memory = self.numbers("mm_stat");
        let field = |place: usize| memory.get(place).copied().unwrap_or_default();
        ZramContents {
            held_bytes: field(0) - (field(5) * PAGE_BYTES).min(field(0)),
            compressed_bytes: field(1),
            taken_bytes: memory.get(2).map_or(0, |bytes| bytes + self.table_bytes()),
        }
    }

    /// What has been written and read until now does not count.
    pub fn begin_counting(&mut self) {
        self.before = self.moved();
    }

    /// What they take of a limit: the memory that they take now, in steps. At least a fifth of the
    /// limit is left. Devices of at most three quarters of the limit never take that much.
    pub fn share_of(&self, limit_bytes: u64) -> u64 {
        let taken_bytes = self.contents().taken_bytes.next_multiple_of(STEP_BYTES);
        taken_bytes.min(limit_bytes - limit_bytes / LEAST_LEFT_PART)
    }

    /// Pages read from them since [`Zram::begin_counting`].
    pub fn pages_read(&self) -> u64 {
        self.moved().1.saturating_sub(self.before.1)
    }

    /// What they have done.
    pub fn counts(&self) -> ZramCounts {
        let (written, read) = self.moved();
        let memory = self.numbers("mm_stat");
        let field = |place: usize| memory.get(place).copied();
        ZramCounts {
            pages_written: written.saturating_sub(self.before.0),
            pages_read: read.saturating_sub(self.before.1),
            // Before Linux 5.8: those that it keeps now.
            whole_pages: field(8).or(field(7)).unwrap_or_default(),
            peak_bytes: field(4).map_or(0, |bytes| bytes + self.table_bytes()),
        }
    }

    fn table_bytes(&self) -> u64 {
        self.size_bytes() / PAGE_BYTES * TABLE_BYTES
    }

    /// Pages written and read since they were made.
    fn moved(&self) -> (u64, u64) {
        let numbers = self.numbers("stat");
        let pages =
            |place: usize| numbers.get(place).map_or(0, |sectors| sectors * SECTOR_BYTES / PAGE_BYTES);
        (pages(6), pages(2))
    }

    /// The numbers in one of their files, added up; none if that is gone.
    fn numbers(&self, name: &str) -> Vec<u64> {
        let mut sums = Vec::new();
        for device in self.devices().filter(|device| device.size_bytes.get().is_some()) {
            let text = fs::read_to_string(device.file(name)).unwrap_or_default();
            let numbers = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            for (place, number) in numbers.enumerate() {
                match sums.get_mut(place) {
                    Some(sum) => *sum += number,
                    None => sums.push(number),
                }
            }
        }
        sums
    }
}

impl Device {
    fn add() -> Result<Self, ZramError> {
        let hot_add = Path::new(CONTROL).join("hot_add");
        let error = |reason: String| ZramError { path: hot_add.clone(), reason };
        // A read of that file makes a device even where nothing could be written, nor be removed.
        let removable = File::options().write(true).open(Path::new(CONTROL).join("hot_remove"));
        let text = removable.and_then(|_| fs::read_to_string(&hot_add)).map_err(|refused| {
            error(match refused.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT) => {
                    "the kernel has no zram, or has not loaded it (modprobe zram)".to_string()
                }
                Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                    "no zram device can be made here".to_string()
                }
                _ => refused.to_string(),
            })
        })?;
        let number = text.trim().parse().map_err(|_| error(format!("answers {}", text.trim())))?;
        Ok(Self { number, size_bytes: OnceLock::new() })
    }

    /// Its file in `/dev`.
    fn path(&self) -> PathBuf {
        format!("/dev/zram{}", self.number).into()
    }

    fn file(&self, name: &str) -> PathBuf {
        format!("/sys/block/zram{}/{name}", self.number).into()
    }

    fn switch_on(&self, bytes: u64, rank: Rank) -> Result<(), ZramError> {
        let error = |path: PathBuf| move |refused: io::Error| ZramError { path, reason: refused.to_string() };
        if self.size_bytes.get().is_none() {
            // The default will do.
            let _ = fs::write(self.file("comp_algorithm"), CODEC);
            let path = self.file("disksize");
            fs::write(&path, bytes.to_string()).map_err(error(path))?;
            self.size_bytes.get_or_init(|| bytes);
        }
        let pages = self.size_bytes.get().unwrap_or(&bytes) / PAGE_BYTES;
        let marked = File::options().write(true).open(self.path()).and_then(|file| mark(&file, pages));
        marked.and_then(|()| switch_on(&self.path(), rank)).map_err(error(self.path()))
    }

    /// If it is on.
    fn switch_off(&self) -> io::Result<()> {
        switch_off(&self.path()).or_else(|refused| {
            match refused.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::INVAL) => Ok(()),
                _ => Err(refused),
            }
        })
    }
}
