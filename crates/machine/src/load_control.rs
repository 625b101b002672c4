//! Load control on the machine's clocks. The rules are in [`sweephand_policy::load_control`].
//!
//! A task is loading until it has executed tau references or has made an I/O request. A task that
//! waits for a page claims that page too; otherwise a task that was just deactivated would fit
//! again at once. The load of the paging devices is the share of the reads that they can do in a
//! period.

use crate::configuration::Configuration;
use crate::memory::MachineMemory;
use sweephand_policy::load_control::{self as rules, Claims, Limits};
use sweephand_policy::{Claim, LoadControl, TaskPolicy, VirtualTime};

#[derive(Debug)]
pub(crate) struct LoadController {
    rules: rules::LoadController,
    frames: usize,
    /// By task, as of the latest look.
    claims: Vec<Claim>,
    /// Whether `claims` still hold.
    claims_hold: bool,
    /// Reads that the paging devices can do in a period.
    capacity: f64,
    period_refs: u64,
    /// When feedback looks next, in real time.
    next_look: u64,
    /// Reads before the latest look.
    reads: u64,
}

/// What there is of active tasks.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Load {
    pub(crate) active: usize,
    pub(crate) loading: usize,
    /// Those that wait for a page to be read: it is not in any claim yet, and will be.
    pub(crate) waiting: usize,
}

impl LoadController {
    pub(crate) fn new(
        configuration: &Configuration,
        of_policy: LoadControl,
        limits_loading: bool,
        tasks: usize,
    ) -> Self {
        let parameters = &configuration.load_control;
        let limits = Limits {
            control: parameters.control,
            most_loading: limits_loading.then(|| configuration.loading_limit()),
            most_active: parameters.most_active,
            spare_frames: parameters.k0_frames,
            low: parameters.feedback.low,
            high: parameters.feedback.high,
        };
        let rules = rules::LoadController::new(limits, of_policy);
        let period_refs = parameters.feedback.period_refs;
        let (least, most) = configuration.devices.access_refs;
        Self {
            frames: configuration.frames,
            claims: vec![Claim::NONE; tasks],
            claims_hold: false,
            capacity: configuration.devices.count as f64 * period_refs as f64 / ((least + most) as f64 / 2.0),
            next_look: if rules.needs_feedback() { period_refs } else { u64::MAX },
            period_refs,
            reads: 0,
            rules,
        }
    }

    /// Whether the task `next` can be activated, by what it claims.
    pub(crate) fn admits(
        &mut self,
        next: usize,
        load: Load,
        policy: &dyn TaskPolicy<MachineMemory>,
        memory: &MachineMemory,
    ) -> bool {
        let Self { rules, claims, claims_hold, frames, .. } = self;
        rules.admits(rules::Load { active: load.active, loading: load.loading }, || {
            look_at_claims(claims, claims_hold, policy, memory);
            let active = claims.iter().zip(&memory.active).filter(|(_, active)| **active);
            let claimed: usize = active.map(|(claim, _)| claim.frames).sum();
            Some(Claims { next, active: claimed + load.waiting, frames: *frames })
        })
    }

    /// What a task claims now, in frames.
    pub(crate) fn claim(
        &mut self,
        task: usize,
        policy: &dyn TaskPolicy<MachineMemory>,
        memory: &MachineMemory,
    ) -> usize {
        look_at_claims(&mut self.claims, &mut self.claims_hold, policy, memory);
        self.claims[task].frames
    }

    /// Pages came, went, or were looked at: claims have to be looked at again.
    pub(crate) fn memory_changed(&mut self) {
        self.claims_hold = false;
    }

    /// A task has executed until this virtual time.
    pub(crate) fn executed(&mut self, task: usize, now: VirtualTime) {
        self.claims_hold &= now < self.claims[task].until;
    }

    /// When feedback looks next, in real time.
    pub(crate) fn next_look(&self) -> u64 {
        self.next_look
    }

    /// Feedback looks: how many pages have been read so far, how many tasks are active, whether
    /// others are ready. Returns whether a task has to be deactivated.
    pub(crate) fn look(&mut self, reads: u64, active: usize, any_ready: bool) -> bool {
        let load = (reads - self.reads) as f64 / self.capacity;
        self.reads = reads;
        self.next_look += self.period_refs;
        self.rules.adjust(load, active, any_ready)
    }
}

fn look_at_claims(
    claims: &mut [Claim],
    claims_hold: &mut bool,
    policy: &dyn TaskPolicy<MachineMemory>,
    memory: &MachineMemory,
) {
    if !*claims_hold {
        claims.fill(Claim::NONE);
        policy.claims(memory, claims);
        *claims_hold = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(of_policy: LoadControl) -> LoadController {
        let text = "name = 'test'\nframes = 100\n[devices]\ncount = 2\naccess_refs = [10, 30]\n[load_control]\n\
                    feedback = { period_refs = 400, low = 0.35, high = 0.65 }\n[tasks]\nprograms = ['x']\n";
        LoadController::new(&Configuration::parse(text).unwrap(), of_policy, true, 3)
    }

    /// Two devices that take 20 units of time for a page read 40 in a period of 400. 26 are 65
    /// percent: not too much yet.
    #[test]
    fn load_is_the_share_of_the_reads_that_the_devices_can_do() {
        let mut controller = controller(LoadControl::Feedback);
        assert_eq!(controller.next_look(), 400);
        assert!(!controller.look(26, 3, true));
        assert_eq!(controller.next_look(), 800);
        assert!(!controller.look(26 + 26, 3, true));
        assert!(controller.look(26 + 26 + 27, 3, true));
        assert_eq!(controller.next_look(), 1600);
    }

    #[test]
    fn claims_are_looked_at_without_feedback() {
        assert_eq!(controller(LoadControl::Claims).next_look(), u64::MAX);
    }
}
