//! What a watch before the trial predicts.

use std::time::Duration;
use sweephand_pager::PAGE_BYTES;
use sweephand_sim::SweepError;
use sweephand_watch::{Bounds, History, LiveAdvice, ServiceWatching};

/// The prediction. The watch counts pages of processes; a limit also has to hold what the kernel
/// keeps for them.
pub(super) struct Predicted {
    history: History,
    advice: LiveAdvice,
    kernel_bytes: u64,
    /// How long the watch was.
    pub(super) watched: Duration,
}

impl Predicted {
    /// `kernel_bytes`: page tables and the like. `None`: no page was used in the watch.
    pub(super) fn of(watching: ServiceWatching, kernel_bytes: u64) -> Result<Option<Self>, SweepError> {
        let Some(advice) = LiveAdvice::of_service(&watching, None, &[])? else { return Ok(None) };
        let watched = Duration::from_nanos(advice.watched_ns);
        Ok(Some(Self { history: watching.into_history(), advice, kernel_bytes, watched }))
    }

    /// Faults in the whole watch under this limit.
    pub(super) fn faults(&self, limit_bytes: u64) -> Bounds {
        self.history.faults(limit_bytes.saturating_sub(self.kernel_bytes) / PAGE_BYTES)
    }

    /// Whether the watch knows of any memory that is not enough.
    pub(super) fn has_lower_bound(&self) -> bool {
        self.advice.enough_at_least_pages > 1
    }

    /// Less than the first is not enough, more than the second is not needed.
    pub(super) fn enough(&self) -> (u64, u64) {
        let limit = |pages: u64| pages * PAGE_BYTES + self.kernel_bytes;
        (limit(self.advice.enough_at_least_pages), limit(self.advice.enough_at_most_pages))
    }
}
