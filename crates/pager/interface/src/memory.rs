//! How much memory a live run has to be given.

use crate::division::{LEAST_PAGES, policy_frames};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// The least memory that a program can run in, in bytes.
pub const LEAST_BYTES: u64 = LEAST_PAGES * PAGE_BYTES;

/// The least `--memory`, in bytes, in which a policy has this many frames. The pager itself takes
/// the rest. The policy keeps `policy_bytes` for each page
/// ([`Entry::bytes_a_page`](sweephand_policy::registry::Entry::bytes_a_page)).
pub fn memory_for(frames: u64, policy_bytes: usize) -> u64 {
    let enough = |pages: &u64| policy_frames(*pages, policy_bytes) >= frames;
    let (mut short, mut pages) = (0, LEAST_PAGES);
    while !enough(&pages) {
        (short, pages) = (pages, 2 * pages);
    }
    while pages - short > 1 {
        let between = short + (pages - short) / 2;
        if enough(&between) { pages = between } else { short = between }
    }
    pages.max(LEAST_PAGES) * PAGE_BYTES
}

/// What a cgroup gets besides a program's own memory and the pager's, in bytes. It covers:
///
/// - page tables: one page for 512 pages, twice, because the pager has a place for each page too,
///   and for several times the memory;
/// - stacks, descriptors and rings in the kernel;
/// - what the kernel charges in advance (64 pages for each processor).
pub fn kernel_share(limit_bytes: u64) -> u64 {
    (4 << 20) + limit_bytes / 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_for_some_frames_has_them_and_the_pagers_own() {
        for (frames, policy_bytes) in [(1, 10), (500, 10), (3000, 53), (16_000, 0), (1 << 20, 53)] {
            let bytes = memory_for(frames, policy_bytes);
            let has = |bytes: u64| policy_frames(bytes / PAGE_BYTES, policy_bytes);
            assert!(bytes >= LEAST_BYTES && has(bytes) >= frames, "{frames}: {bytes}");
            assert!(
                bytes == LEAST_BYTES || has(bytes - PAGE_BYTES) < frames,
                "{frames}: no more than it takes"
            );
        }
    }
}
