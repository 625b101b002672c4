//! The director, as a run has it: its errors and its counts as those of a run.

use crate::PAGE_BYTES;
use crate::error::RunError;
use crate::statistics::Statistics;
use sweephand_director::{Counts, Direction, NoDirection, Order};
use sweephand_pager_interface::spec::LiveSpec;
use sweephand_process::accessed::ProcessBits;

/// Whether the kernel can be directed here, by this policy. Returns what reads accessed bits.
pub(super) fn check(policy: &LiveSpec) -> Result<ProcessBits, RunError> {
    if !rustix::process::geteuid().is_root() {
        return Err(RunError::Root);
    }
    sweephand_director::check(policy).map_err(refused)
}

/// Starts the director.
pub(super) fn direct(order: Order) -> Result<Direction, RunError> {
    Direction::start(order)
        .map_err(|refused| RunError::System { what: refused.what.to_string(), error: refused.error })
}

/// Page faults are not reported.
pub(super) fn no_events(error: std::io::Error) -> RunError {
    refused(NoDirection::Events(error))
}

fn refused(error: NoDirection) -> RunError {
    RunError::NoDirection(error.to_string())
}

/// Adds what the director has counted.
pub(super) fn add(statistics: &mut Statistics, policy: &str, counts: Counts) {
    statistics.policy = policy.to_string();
    statistics.backend = Some("swap".to_string());
    statistics.reference_bits = Some("hardware".to_string());
    statistics.zero_fill_faults = Some(counts.first_touches);
    statistics.refaults = Some(counts.refaults);
    statistics.evictions = Some(counts.evictions);
    statistics.overruled_pages = Some(counts.overruled);
    if statistics.pool_limit_bytes.is_some() {
        statistics.pool_changes = Some(counts.compression_changes);
    }
    statistics.directed_ns = Some(counts.directed.as_nanos() as u64);
    statistics.unasked_pages = Some(counts.asked_ahead);
    statistics.unused_pages = Some(counts.unused_ahead);
    statistics.objects = Some(counts.objects);
    statistics.peak_pager_pages = Some(counts.peak_own_bytes.div_ceil(PAGE_BYTES as usize) as u64);
    statistics.hand_steps = Some(counts.hand_steps);
    if let Some(leader) = counts.leader {
        statistics.set_leader(policy, leader.expert, leader.changes);
    }
    if counts.peak_resident > 0 {
        statistics.peak_resident_pages = counts.peak_resident as u64;
    }
}
