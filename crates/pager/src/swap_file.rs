//! Swap areas for the kernel: a file on the disk that the pager would use, and before it, if some
//! memory is for compressed pages, a zram device.

use crate::cleanup::Cleanup;
use crate::error::{RunError, system};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use sweephand_process::swap_area::{Area, Rank, areas, mark, switch_on};
use sweephand_process::zram::Zram;

/// Least space worth to begin with.
const LEAST_BYTES: u64 = 64 << 20;

/// The name of a run's swap file in a directory; several runs may have one at a time.
pub(crate) fn name(directory: &Path, cgroup: &Path) -> PathBuf {
    let run = cgroup.file_name().unwrap_or_default().to_string_lossy();
    directory.join(format!("{run}.swap"))
}

/// The end of the name of a run's second swap file.
const SECOND: &str = ".second.swap";

/// The name of a second swap file of the run that has this one.
pub(crate) fn name_of_second(swap: &Path) -> PathBuf {
    swap.with_extension(&SECOND[1..])
}

/// The priority of a run's swap file, if no other run has one: higher than what the machine's own
/// swap areas have by themselves.
const FIRST_PRIORITY: i32 = 100;

/// The swap files of other runs, with their priorities, in the kernel's list of swap areas.
fn of_other_runs(areas: Vec<Area>) -> Vec<(String, i32)> {
    let is_a_runs = |area: &Area| {
        let name = area.path.rsplit('/').next().unwrap_or_default();
        name.starts_with("sweephand-") && name.ends_with(".swap") && !name.ends_with(SECOND)
    };
    areas.into_iter().filter(is_a_runs).map(|area| (area.path, area.priority)).collect()
}

/// Says that another run has a swap file, in a line, and chooses the priority for the next one.
///
/// The kernel has no swap area for a cgroup. The pages of all processes go to the area with the
/// highest priority. The newest run has that, so its pages are in its own file. Those that an
/// earlier run gives up from now on are there too.
pub(crate) fn rank_beside_others() -> Rank {
    let others = of_other_runs(areas());
    let Some(highest) = others.iter().map(|&(_, priority)| priority).max() else {
        return Rank::File(FIRST_PRIORITY);
    };
    // If standard error cannot be written, the line is lost.
    let _ = writeln!(
        io::stderr(),
        "sweephand: note: another run has a swap file, too ({}). The kernel has no swap area for a cgroup: \
         pages of either run may go to the other's file, and a run that ends may have to wait until they have been read \
         back",
        others[0].0
    );
    Rank::File(highest.saturating_add(1).max(FIRST_PRIORITY))
}

/// Makes a swap file and has the kernel use it. It is as large as the machine's memory, or half of
/// what is free on the disk if that is less. If another run takes that space meanwhile, it is half
/// of what is left then.
pub(crate) fn create(path: &Path, rank: Rank) -> Result<(), RunError> {
    let directory = path.parent().unwrap_or(path);
    let refused = |reason: &str| RunError::Swap { path: directory.to_path_buf(), reason: reason.to_string() };
    let unusable = || {
        refused("its file system cannot hold a swap file (ext4 and XFS can; btrfs, overlay and tmpfs cannot)")
    };
    let failed = |error: Errno| match error {
        Errno::OPNOTSUPP | Errno::INVAL => unusable(),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => refused("there is no space for a swap file"),
        error => RunError::System { what: format!("{}: no swap file", path.display()), error: error.into() },
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let bytes = loop {
        let disk = rustix::fs::statvfs(directory).map_err(failed)?;
        let bytes = machine_bytes().min(disk.f_bavail * disk.f_frsize / 2);
        if bytes < LEAST_BYTES {
            return Err(failed(Errno::NOSPC));
        }
        // Who makes a larger file is ended by a signal.
        let most =
            getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX) / crate::PAGE_BYTES * crate::PAGE_BYTES;
        if most < LEAST_BYTES {
            return Err(refused("the limit on the size of files (ulimit -f) allows no swap file"));
        }
        let bytes = bytes.min(most);
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => break bytes,
            // What it took before there was no more goes back.
            Err(Errno::NOSPC) => rustix::fs::ftruncate(&file, 0).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
    };
    let file = File::from(file);
    mark(&file, bytes / crate::PAGE_BYTES).map_err(system(format!("{}: no swap file", path.display())))?;
    switch_on(path, rank).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => unusable(),
        _ => system(format!("{}: the kernel does not take it as a swap file", path.display()))(error),
    })
}

/// Makes the second swap file of a run, and has the kernel use it as an area of this rank. `false`:
/// there is none, because there is no space, for instance, or because another run has a swap file:
/// that run's pages would go to this one.
pub(crate) fn create_second(path: &Path, rank: Rank) -> bool {
    // The list writes a space in a directory's name in another way.
    let own = path.with_extension("").with_extension("swap");
    let is_own = |area: &str| area.rsplit('/').next() == own.file_name().and_then(|name| name.to_str());
    let is_alone = of_other_runs(areas()).iter().all(|(area, _)| is_own(area));
    let is_made = is_alone && create(path, rank).is_ok();
    if is_alone && !is_made {
        // Nothing uses it.
        let _ = std::fs::remove_file(path);
    }
    is_made
}

/// What a zram device may hold for each byte of memory that it should take.
const EXPANSION: u64 = 2;

/// Makes a zram device that should take this many bytes of a memory, and has the kernel use it
/// before any swap file. `cleanup` removes it, whether this succeeds or fails. `may_grow`: there is
/// a second one, which is not used yet.
///
/// It may hold three quarters of the memory at most, before compression. So even if no page becomes
/// smaller, a quarter is left for pages as they are.
pub(crate) fn create_zram(
    cleanup: &mut Cleanup,
    bytes: u64,
    limit_bytes: u64,
    may_grow: bool,
) -> Result<Zram, RunError> {
    let mut zram = Zram::add()?;
    let untold = || system("sweephand-tidy: cannot be told of a zram device".into());
    cleanup.also_remove(zram.number()).map_err(untold())?;
    // Without a second one, the first will do.
    if may_grow && let Ok(number) = zram.add_second() {
        cleanup.also_remove(number).map_err(untold())?;
    }
    let pages = (bytes * EXPANSION).min(limit_bytes / 4 * 3).div_ceil(crate::PAGE_BYTES);
    zram.switch_on(pages * crate::PAGE_BYTES, Rank::Zram)?;
    zram.begin_counting();
    Ok(zram)
}

fn machine_bytes() -> u64 {
    // SAFETY: plain data, which sysinfo fills in.
    let info = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&raw mut info);
        info
    };
    info.totalram * u64::from(info.mem_unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_process::swap_area::parse;

    #[test]
    fn swap_files_of_other_runs_are_told_from_other_areas() {
        let areas = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                     /dev/sda2                               partition\t8388604\t\t0\t\t-2\n\
                     /var/tmp/sweephand-12-0.swap            file\t\t1024\t\t7\t\t101\n\
                     /var/tmp/sweephand-of-mine              file\t\t1024\t\t7\t\t5\n";
        assert_eq!(of_other_runs(parse(areas)), [("/var/tmp/sweephand-12-0.swap".to_string(), 101)]);
        assert!(of_other_runs(parse("")).is_empty());
    }
}
