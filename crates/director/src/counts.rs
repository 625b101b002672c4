//! What the director counts.

use std::time::Duration;
use sweephand_policy::Leader;

/// What the director has counted: a field for each figure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Pages that came for the first time, as far as the director knows.
    pub first_touches: u64,
    /// Pages that came back.
    pub refaults: u64,
    /// Pages that the policy gave up and the kernel paged out.
    pub evictions: u64,
    /// Pages that the kernel paged out by itself although the policy kept them.
    pub overruled: u64,
    /// Pages that the kernel was asked to read ahead.
    pub asked_ahead: u64,
    /// Those of them that were not used.
    pub unused_ahead: u64,
    /// Pages that the policy has in memory.
    pub resident: usize,
    /// Most pages that it had in memory.
    pub peak_resident: usize,
    /// Most memory that the director itself has taken, about.
    pub peak_own_bytes: usize,
    /// Mappings that the policy has seen as objects.
    pub objects: u64,
    /// Pages that the policy's hands have looked at.
    pub hand_steps: u64,
    /// Which of several policies the policy follows, if it does that.
    pub leader: Option<Leader>,
    /// How often the use of a zram device has changed.
    pub compression_changes: u64,
    /// How long the policy has chosen.
    pub directed: Duration,
    /// Processor time of the director in user mode.
    pub user: Duration,
    /// Its processor time in the kernel.
    pub system: Duration,
}
