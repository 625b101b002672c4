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
/// Bytes by which arrays and page tables may still grow for each page of memory, once all memory is
/// managed. This allows for as many pages outside of memory as in it.
pub const GROWTH_BYTES: usize = 40;
/// The least memory that a program can run in.
pub const LEAST_PAGES: u64 = 1024;
/// The fewest frames for which a policy is made.
pub const LEAST_FRAMES: usize = 64;

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
    /// Pages of a batch: what moves to or from the store at once, at most.
    pub batch_pages: usize,
    /// Most pages that are neither staged nor the policy's yet.
    pub most: usize,
    /// The part of these pages that the program may not have used yet.
    pub fresh: usize,
    /// What is left for the policy.
    pub policy_frames: usize,
}

impl Division {
    /// The division of `limit_pages` pages. With `lends`, several programs share the memory.
    pub fn of(limit_pages: usize, lends: bool, waiting: Waiting) -> Self {
        // If several programs share the memory, each has to manage with less.
        let (least, most, share) = if lends { (8, 64, 1024) } else { (8, 128, 512) };
        let batch_pages = (limit_pages / share).clamp(least, most);
        let watched = (FRESH_BATCHES + 1) * batch_pages;
        let (most, fresh, reserved) = match waiting {
            Waiting::None => (0, 0, 0),
            Waiting::Unasked => (watched.max(limit_pages / UNASKED_SHARE), 0, 0),
            Waiting::All => (watched, FRESH_BATCHES * batch_pages, watched),
        };
        let others = (BATCHES + 1) * batch_pages + reserved + FIXED_PAGES;
        // The agent makes the policy anew when it starts to manage all memory. It then knows how
        // many frames are left for the policy.
        let arrays = limit_pages * GROWTH_BYTES / PAGE_BYTES;
        Self { batch_pages, most, fresh, policy_frames: limit_pages.saturating_sub(others + arrays) }
    }
}

/// Frames that the policy of a single program has if the program and the pager together have this
/// many pages.
pub fn policy_frames(limit_pages: u64) -> u64 {
    Division::of(limit_pages as usize, false, Waiting::All).policy_frames as u64
}
