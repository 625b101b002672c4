//! What `run`, `run --tasks` and `compare` have in common: their options, and the live line.

use crate::progress;
use crate::stderr::eprint_line;
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use sweephand_pager::{MOST_PREFETCH_PAGES, PAGE_BYTES, Snapshot, Watched};
use sweephand_results::{bytes, grouped};
use sweephand_sim::{MemorySize, MemorySizeError};

/// Removes counts of an earlier run, which a reader could take for those of one that has failed.
pub(crate) fn forget_stats(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path.filter(|path| path.is_file()) else { return Ok(()) };
    // Not a link, but what it stands for, as that is what `Output` replaces.
    let path = &path.canonicalize().unwrap_or(path.to_path_buf());
    fs::remove_file(path).with_context(|| format!("{}: cannot be removed", path.display()))
}

/// The backing store may be named as a file in a directory. Who meant a directory that is not there
/// is told.
pub(crate) fn note_on_swap(swap: &Path) {
    let directory = swap.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Without the directory there is an error, which says enough.
    if !swap.exists() && directory.is_dir() {
        eprint_line!(
            "sweephand: note: --swap {}: there is no such directory; pages go to a file without a name in {}",
            swap.display(),
            directory.display()
        );
    }
}

/// Bytes of memory, as given at some place.
pub(crate) fn limit_bytes(place: &str, text: &str) -> anyhow::Result<u64> {
    match text.parse() {
        Ok(MemorySize::Bytes(bytes)) => Ok(bytes),
        Ok(MemorySize::Pages(pages)) => Ok(pages.saturating_mul(PAGE_BYTES)),
        Err(MemorySizeError { reason, .. }) if reason.ends_with("the most there is") => {
            bail!("{place} {text}: {reason}")
        }
        _ => bail!("{place} {text}: write bytes as in 64MiB or pages as in 16384p"),
    }
}

/// Most pages to read ahead.
pub(crate) fn prefetch_pages(prefetch: &str) -> anyhow::Result<u32> {
    match prefetch {
        "off" => Ok(0),
        number => match number.parse() {
            Ok(pages) if pages <= MOST_PREFETCH_PAGES => Ok(pages),
            _ => bail!("--prefetch {number}: write off, or up to {MOST_PREFETCH_PAGES} pages"),
        },
    }
}

/// Keeps a line up to date until a run has ended.
pub(crate) fn show(run: &dyn Watched) {
    const EVERY: Duration = Duration::from_millis(250);
    let line = progress::line();
    let (mut before, mut time) = (run.snapshot(), Instant::now());
    while !run.has_ended() {
        thread::sleep(EVERY);
        let now = run.snapshot();
        let seconds = time.elapsed().as_secs_f64();
        let rate = |count: fn(&Snapshot) -> u64| {
            (count(&now).saturating_sub(count(&before)) as f64 / seconds) as u64
        };
        let tasks = now.tasks.map(|(active, left)| format!("{active} of {left} tasks active, "));
        line.set_message(format!(
            "{}{} resident, {} faults/s, {}/s read, {}/s written{}",
            tasks.unwrap_or_default(),
            bytes(now.resident_pages.saturating_mul(PAGE_BYTES)),
            grouped(rate(|counts| counts.faults)),
            bytes(rate(|counts| counts.pages_read).saturating_mul(PAGE_BYTES)),
            bytes(rate(|counts| counts.pages_written).saturating_mul(PAGE_BYTES)),
            now.leader.as_deref().map(|leader| format!(", {leader} leads")).unwrap_or_default(),
        ));
        line.tick();
        (before, time) = (now, Instant::now());
    }
    line.finish_and_clear();
}
