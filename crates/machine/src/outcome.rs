//! The measurements of a run.

use serde::Serialize;

/// The measures of one run. The fields are columns of the results. Times are real time in
/// references.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Outcome {
    /// References executed.
    pub references: u64,
    /// Time from the start to the end of the last task.
    pub elapsed_refs: u64,
    /// References executed by time elapsed.
    pub utilization: f64,
    /// Active tasks, on average over time.
    pub mean_mpl: f64,
    /// Tasks that load control deactivated; ends of time slices do not count.
    pub deactivations: u64,
    /// Read requests: references to pages outside memory. (A request that was withdrawn with its
    /// task's deactivation and made again counts twice.)
    pub page_faults: u64,
    /// Pages read.
    pub page_reads: u64,
    /// Pages written.
    pub page_writes: u64,
    /// Pages replaced.
    pub replacements: u64,
    /// Pages replaced although in use: a lone task needed more than memory.
    pub forced_replacements: u64,
    /// Pages that the hand looked at; `None` for policies without one.
    pub hand_steps: Option<u64>,
    /// Scans for pages that have left working sets.
    pub ws_scans: u64,
    /// Tasks activated, the same one again and again.
    pub activations: u64,
    /// Time slices that came to their end.
    pub slice_ends: u64,
    /// I/O requests.
    pub io_requests: u64,
    /// Most tasks loading at one time.
    pub most_loading: u64,
    /// Time that paging devices worked, summed over them.
    pub device_busy_refs: u64,
}

impl Outcome {
    /// Pages that the hand looked at for each page replaced; `None` without a hand or a
    /// replacement.
    pub fn pointer_travel(&self) -> Option<f64> {
        self.hand_steps.filter(|_| self.replacements > 0).map(|steps| steps as f64 / self.replacements as f64)
    }
}

/// The machine at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Sample {
    /// Real time in references.
    pub time_refs: u64,
    /// Active tasks.
    pub active_tasks: usize,
    /// Active tasks that are loading.
    pub loading_tasks: usize,
    /// Active tasks that wait for a page or for I/O.
    pub blocked_tasks: usize,
    /// Frames that hold nothing.
    pub free_frames: usize,
    /// Requests in the paging queue, those in service not among them.
    pub paging_queue: usize,
    /// Tasks in the ready queue.
    pub ready_tasks: usize,
}

/// What is counted while the machine runs.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    /// The counts; shares and means are computed from them at the end.
    pub(crate) counts: Outcome,
    /// Active tasks summed over time, up to `counted_until`.
    pub(crate) active_time: u64,
    counted_until: u64,
    pub(crate) samples: Vec<Sample>,
    /// Real time between samples; 0 for none.
    pub(crate) sample_refs: u64,
}

impl Measures {
    /// As many tasks were active as now, since this was last counted.
    pub(crate) fn count_active_time(&mut self, active: usize, now: u64) {
        self.active_time += active as u64 * (now - self.counted_until);
        self.counted_until = now;
    }

    /// The time of the next sample, if it has come.
    pub(crate) fn sample_due(&self, now: u64) -> Option<u64> {
        let time = self.samples.len() as u64 * self.sample_refs;
        (self.sample_refs > 0 && time <= now).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_travel_is_steps_for_each_replacement() {
        let travel = |hand_steps, replacements| {
            Outcome { hand_steps, replacements, ..Outcome::default() }.pointer_travel()
        };
        assert_eq!(travel(Some(30), 12), Some(2.5));
        assert_eq!([travel(Some(30), 0), travel(None, 12)], [None, None]);
    }

    /// Two tasks for 10 units of time, and three for the next 5.
    #[test]
    fn active_time_adds_up_tasks_over_time() {
        let mut measures = Measures::default();
        measures.count_active_time(2, 10);
        measures.count_active_time(3, 15);
        assert_eq!(measures.active_time, 35);
    }

    #[test]
    fn samples_are_due_at_multiples_of_their_interval() {
        let sample = Sample {
            time_refs: 0,
            active_tasks: 0,
            loading_tasks: 0,
            blocked_tasks: 0,
            free_frames: 0,
            paging_queue: 0,
            ready_tasks: 0,
        };
        let measures = Measures { samples: vec![sample; 3], sample_refs: 7, ..Measures::default() };
        assert_eq!([20, 21, 50].map(|now| measures.sample_due(now)), [None, Some(21), Some(21)]);
        assert_eq!(Measures::default().sample_due(0), None, "nobody has asked for any");
    }
}
