//! How many threads or processes work at a time.

use std::num::NonZero;
use std::thread::available_parallelism;

/// The environment variable that tells rayon how many threads to use.
const RAYON_VARIABLE: &str = "RAYON_NUM_THREADS";

/// The number of threads or processes for some work: as many as `asked`, by default one a
/// processor. There are never more than this process may use processors, nor more than there are
/// pieces of work, because all of them compute. (A million threads would stop the machine.)
pub fn bounded_threads(asked: Option<usize>, work: usize) -> usize {
    let processors = available_parallelism().map_or(1, NonZero::get);
    asked.unwrap_or(processors).min(processors).min(work).max(1)
}

/// The number of threads that `RAYON_NUM_THREADS` asks for. `None` if it asks for no number, or
/// for 0, which is rayon's word for the default.
pub fn rayon_threads() -> Option<usize> {
    std::env::var(RAYON_VARIABLE).ok()?.parse().ok().filter(|&threads| threads > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_bounded_by_processors_and_work() {
        let processors = available_parallelism().map_or(1, NonZero::get);
        for asked in [None, Some(1), Some(processors), Some(1_000_000), Some(usize::MAX)] {
            for work in [0, 1, 3, usize::MAX] {
                let threads = bounded_threads(asked, work);
                assert!((1..=processors).contains(&threads), "{asked:?}, {work}: {threads}");
                assert!(
                    threads <= work.max(1) && threads <= asked.unwrap_or(usize::MAX),
                    "{asked:?} threads for {work}"
                );
            }
        }
        assert_eq!(bounded_threads(None, usize::MAX), processors);
        assert_eq!(bounded_threads(Some(usize::MAX), usize::MAX), processors);
    }
}
