//! What `run` says on a terminal: the memory that there is, and what paging came to.

use crate::stderr::eprint_line;
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use sweephand_pager::{Options, PAGE_BYTES, Statistics, kernel_share};
use sweephand_results::{bytes, grouped};

/// Whether anybody reads it.
pub(crate) fn is_wanted(quiet: bool) -> bool {
    !quiet && stderr().is_terminal()
}

/// At the start: what `--memory` comes to with what the kernel needs for it. The sum is what a
/// limit of a cgroup, such as systemd's `MemoryMax`, would have to be.
pub(crate) fn begin(options: &Options) {
    let share = kernel_share(options.limit_bytes);
    eprint_line!(
        "sweephand: {} of memory, and {} for page tables and the like: {} in all",
        bytes(options.limit_bytes),
        bytes(share),
        bytes(options.limit_bytes.saturating_add(share))
    );
}

/// At the end. `by_turns`: the kernel or the policy chose the pages, whichever was faster.
pub(crate) fn end(statistics: &Statistics, by_turns: bool) {
    eprint_line!("sweephand: {}", sentence(statistics, by_turns));
}

fn sentence(statistics: &Statistics, by_turns: bool) -> String {
    let wall = Duration::from_nanos(statistics.wall_ns).as_secs_f64();
    let (read, written) =
        (statistics.pages_read.unwrap_or_default(), statistics.pages_written.unwrap_or_default());
    let pooled = statistics.pool_puts.unwrap_or_default();
    if read + written + pooled + statistics.evictions.unwrap_or_default() == 0 {
        let peak = statistics.peak_resident_pages.saturating_mul(PAGE_BYTES);
        let pool = of_pool(statistics);
        return format!("nothing was paged out: {} at most, {wall:.1} s{pool}", bytes(peak));
    }
    let chosen = match statistics.directed_ns {
        Some(directed) if by_turns => {
            let share = 100.0 * (1.0 - directed as f64 / statistics.wall_ns.max(1) as f64);
            format!("; the kernel chose the pages for {:.0} % of the time", share.clamp(0.0, 100.0))
        }
        _ => String::new(),
    };
    let limit = statistics.memory_limit_bytes.map(|limit| format!("{}: ", bytes(limit)));
    format!(
        "{}{} pages read, {} written, {wall:.1} s{chosen}{}",
        limit.unwrap_or_default(),
        grouped(read),
        grouped(written),
        of_pool(statistics)
    )
}

/// What compressed memory came to, as a part of a sentence.
fn of_pool(statistics: &Statistics) -> String {
    let hits = match statistics.pool_hits {
        Some(hits) => format!("; {} pages came back from compressed memory", grouped(hits)),
        None => String::new(),
    };
    match statistics.pools_given_up.unwrap_or_default() {
        0 => hits,
        count => {
            let processes = if count == 1 { "a process".to_string() } else { format!("{count} processes") };
            format!("{hits}; {processes} had no address space for it: raise ulimit -v")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sentence;
    use sweephand_pager::Statistics;

    fn statistics() -> Statistics {
        let mut statistics = Statistics::default();
        statistics.wall_ns = 8_700_000_000;
        statistics.memory_limit_bytes = Some(12 << 20);
        statistics.pages_read = Some(9128);
        statistics.pages_written = Some(7295);
        statistics
    }

    #[test]
    fn pages_that_stayed_in_compressed_memory_were_paged_out() {
        let mut run = statistics();
        (run.pages_read, run.pages_written, run.pool_puts) = (Some(0), Some(0), Some(9));
        assert!(sentence(&run, false).starts_with("12.0 MiB: 0 pages read, 0 written"));
    }

    #[test]
    fn a_run_is_one_sentence() {
        let mut run = statistics();
        assert_eq!(sentence(&run, false), "12.0 MiB: 9,128 pages read, 7,295 written, 8.7 s");
        run.directed_ns = Some(2_610_000_000);
        assert_eq!(sentence(&run, false), "12.0 MiB: 9,128 pages read, 7,295 written, 8.7 s");
        assert_eq!(
            sentence(&run, true),
            "12.0 MiB: 9,128 pages read, 7,295 written, 8.7 s; the kernel chose the pages for 70 % of the time"
        );
    }

    #[test]
    fn compressed_memory_is_told_of_and_that_there_was_none() {
        let mut run = statistics();
        (run.pool_hits, run.pools_given_up) = (Some(1234), Some(0));
        let counts = "12.0 MiB: 9,128 pages read, 7,295 written, 8.7 s";
        let hits = format!("{counts}; 1,234 pages came back from compressed memory");
        assert_eq!(sentence(&run, false), hits);
        run.pools_given_up = Some(2);
        let none = format!("{hits}; 2 processes had no address space for it: raise ulimit -v");
        assert_eq!(sentence(&run, false), none);
    }

    #[test]
    fn a_program_that_fits_is_told_of() {
        let mut run = statistics();
        (run.pages_read, run.pages_written) = (Some(0), None);
        run.peak_resident_pages = 2560;
        assert_eq!(sentence(&run, true), "nothing was paged out: 10.0 MiB at most, 8.7 s");
    }
}
