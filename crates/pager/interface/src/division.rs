//! How the memory of a process is divided between the pager and the program. The command asks for
//! this too, before it starts a program.

use sweephand_uffd::PAGE_BYTES;

/// Batches of the staging area.
pub const BATCHES: usize = 8;
/// Batches of pages that have come in so recently that the program may not have used them yet. Two
/// batches are two read-ahead windows.
const FRESH_BATCHES: usize = 2;
/// At most one page in this many is one that was read ahead and not used yet.
const UNASKED_SHARE: usize = 16;
/// Pages that the agent uses besides its arrays and its staging area: its stack and its doorbells.
pub const FIXED_PAGES: usize = 32;
/// The least memory that a program can run in.
pub const LEAST_PAGES: u64 = 1024;
/// The fewest frames for which a policy is made.
pub const LEAST_FRAMES: usize = 64;

/// Bytes by which arrays and page tables may still grow for each page of memory, once all memory is
/// managed: for as many pages outside of memory as in it. The agent's table takes 8 bytes for each,
/// the policy `policy_bytes`, and the kernel's table 8 for each page outside.
pub const fn growth_bytes(policy_bytes: usize) -> usize {
    2 * (8 + policy_bytes) + 8
}

/// Most pages that move to or from the store at once, in this many pages of memory. With `lends`,
/// several programs share the memory, and each has to manage with less.
pub fn batch_pages(limit_pages: usize, lends: bool) -> usize {
    let (most, share) = if lends { (64, 1024) } else { (128, 512) };
    (limit_pages / share).clamp(8, most)
}

/// Which pages wait after they have come in, before the policy gets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// None: the backend's bits are exact from the start, or the command's policy makes them wait.
    None,
    /// Those that no fault has asked for, until they are used. Their bits can be read.
    Unasked,
    /// All, to be watched: their bits are kept in software.
    All,
}

/// How the memory of a process is divided between the pager and the program.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Pages of a batch: see [`batch_pages`].
    pub batch_pages: usize,
    /// Most pages that are neither staged nor the policy's yet.
    pub most: usize,
    /// The part of these pages that the program may not have used yet.
    pub fresh: usize,
    limit_pages: usize,
    /// Pages that are never the policy's.
    others: usize,
}

impl Division {
    /// The division of `limit_pages` pages. With `lends`, several programs share the memory.
    pub fn of(limit_pages: usize, lends: bool, waiting: Waiting) -> Self {
        let batch_pages = batch_pages(limit_pages, lends);
        let watched = (FRESH_BATCHES + 1) * batch_pages;
        let (most, fresh, reserved) = match waiting {
            Waiting::None => (0, 0, 0),
            Waiting::Unasked => (watched.max(limit_pages / UNASKED_SHARE), 0, 0),
            Waiting::All => (watched, FRESH_BATCHES * batch_pages, watched),
        };
        let others = (BATCHES + 1) * batch_pages + reserved + FIXED_PAGES;
        Self { batch_pages, most, fresh, limit_pages, others }
    }

    /// What is left for a policy that keeps `policy_bytes` for each page. The agent makes the
    /// policy anew when it starts to manage all memory. It then knows how many frames are left.
    pub fn policy_frames(&self, policy_bytes: usize) -> usize {
        let arrays = self.limit_pages * growth_bytes(policy_bytes) / PAGE_BYTES;
        self.limit_pages.saturating_sub(self.others + arrays)
    }
}

/// Most pages of memory for compressed pages in this many pages of memory: three quarters, as long
/// as the policy, which keeps `policy_bytes` for each page, has the frames that it cannot do
/// without.
pub fn most_pool_pages(limit_pages: u64, policy_bytes: usize) -> u64 {
    let frames = policy_frames(limit_pages, policy_bytes);
    (limit_pages / 4 * 3).min(frames.saturating_sub(LEAST_FRAMES as u64))
}

/// The same where compressed pages have as much as pays. With more than half for them, a program
/// waits for compression.
pub fn most_auto_pool_pages(limit_pages: u64) -> u64 {
    limit_pages / 2
}

/// Frames that the policy of a single program has if the program and the pager together have this
/// many pages. The policy keeps `policy_bytes` for each page.
pub fn policy_frames(limit_pages: u64, policy_bytes: usize) -> u64 {
    Division::of(limit_pages as usize, false, Waiting::All).policy_frames(policy_bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_memory_leaves_a_quarter_and_the_least_frames() {
        assert_eq!(most_pool_pages(1 << 20, 21), 3 << 18);
        for limit_pages in [LEAST_PAGES, 2000, 5000] {
            let most = most_pool_pages(limit_pages, 21);
            assert!(most > 0 && most <= limit_pages / 4 * 3);
            assert!(policy_frames(limit_pages, 21) >= most + LEAST_FRAMES as u64);
        }
        assert_eq!(most_pool_pages(1, 21), 0);
    }
}
