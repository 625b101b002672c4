//! The device that the machine swaps to, if its figures are known.

use crate::{Device, MEASURED};
use rustix::fs::{Stat, fstat, major, minor, stat};
use std::fs::{self, File};

/// The device that was measured (`sweephand devices DIR`), if the machine swaps to the same disk:
/// to that with the highest priority. `None`: it has no swap, swaps to another disk, or nothing was
/// measured.
pub fn measured_swap() -> Option<Device> {
    let device = Device::named(MEASURED).ok()?;
    let swaps = fs::read_to_string("/proc/swaps").ok()?;
    let disk = disk_with(&stat(first_area(&swaps)?).ok()?)?;
    (device.disk.as_deref() == Some(&disk)).then_some(device)
}

/// The disk that holds a file, as the kernel calls it.
pub(crate) fn disk_of(file: &File) -> Option<String> {
    disk_with(&fstat(file).ok()?)
}

/// The disk that holds a file, or that is one.
fn disk_with(status: &Stat) -> Option<String> {
    const BLOCK_DEVICE: u32 = 0o060_000;
    const KIND: u32 = 0o170_000;
    let number = if status.st_mode & KIND == BLOCK_DEVICE { status.st_rdev } else { status.st_dev };
    let folder = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let folder = fs::canonicalize(folder).ok()?;
    let disk = if folder.join("partition").exists() { folder.parent()? } else { &folder };
    Some(disk.file_name()?.to_str()?.to_string())
}

/// The area with the highest priority in a text like `/proc/swaps`.
fn first_area(swaps: &str) -> Option<&str> {
    let area = |line| {
        let mut words = str::split_whitespace(line);
        let path = words.next()?;
        Some((path, words.nth(3)?.parse::<i64>().ok()?))
    };
    let first = |a: (_, i64), b: (_, i64)| if b.1 > a.1 { b } else { a };
    swaps.lines().skip(1).filter_map(area).reduce(first).map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_with_the_highest_priority_is_swapped_to() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert_eq!(first_area(heading), None);
        let areas =
            "/dev/sda2   partition\t8388604\t0\t-2\n/dev/zram0 partition\t100\t0\t100\n/swap file 4 0 100\n";
        assert_eq!(first_area(&format!("{heading}{areas}")), Some("/dev/zram0"));
    }

    #[test]
    fn a_file_of_no_disk_has_none() {
        assert_eq!(disk_of(&File::open("/proc/self/stat").unwrap()), None);
    }
}
