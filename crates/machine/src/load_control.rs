//! Load control: how many tasks may be active.
//!
//! The first ready task is activated if three rules allow it. If no task is active, it is activated
//! in any case.
//!
//! * *Claims.* The memory that the task claimed when it was deactivated fits beside the current
//!   claims of the active tasks, with K0 frames to spare. (A task that waits for a page claims that
//!   page too. Otherwise a task that was just deactivated would fit again at once.) For policies
//!   without claims, *feedback* replaces this rule: the number of active tasks follows the load of
//!   the paging devices.
//! * *LT/RT.* Fewer than L tasks are loading. A task is loading from its activation until it has
//!   executed tau references or has made an I/O request. Loading tasks fault at nearly every
//!   reference. If there are more of them than paging devices, they only wait for each other, while
//!   the claims of all look small.
//! * *A plain limit* on the number of active tasks.
//!
//! [`Deactivate`](crate::configuration::Deactivate) chooses the task that is deactivated when
//! memory is overcommitted.

use crate::configuration::{Configuration, Control, Feedback};
use crate::memory::Memory;
use sweephand_policy::{Claim, LoadControl, TaskPolicy, VirtualTime};

#[derive(Debug)]
pub(crate) struct LoadController {
    frames: usize,
    k0_frames: usize,
    /// L; no limit without LT/RT.
    most_loading: usize,
    most_active: usize,
    rule: Rule,
    /// By task, as of the latest look.
    claims: Vec<Claim>,
    /// Whether `claims` still hold.
    claims_hold: bool,
}

#[derive(Debug)]
enum Rule {
    Claims,
    Feedback(Controller),
    None,
}

/// The feedback controller.
#[derive(Debug)]
struct Controller {
    parameters: Feedback,
    /// Reads that the paging devices can do in a period.
    capacity: f64,
    /// Tasks that may be active now.
    limit: usize,
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
        let unless_zero = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let rule = match (parameters.control, of_policy) {
            (Control::None, _) => Rule::None,
            (Control::Policy, LoadControl::Claims) => Rule::Claims,
            (Control::Policy, LoadControl::Feedback) | (Control::Feedback, _) => {
                Rule::Feedback(Controller::new(configuration))
            }
        };
        Self {
            frames: configuration.frames,
            k0_frames: parameters.k0_frames,
            most_loading: if limits_loading { configuration.loading_limit() } else { usize::MAX },
            most_active: unless_zero(parameters.most_active),
            rule,
            claims: vec![Claim::NONE; tasks],
            claims_hold: false,
        }
    }

    /// Whether a task that claims so many frames can be activated.
    pub(crate) fn admits<P: TaskPolicy<Memory>>(
        &mut self,
        claim: usize,
        load: Load,
        policy: &P,
        memory: &Memory,
    ) -> bool {
        if load.active == 0 {
            return true;
        }
        if load.loading >= self.most_loading || load.active >= self.most_active {
            return false;
        }
        match &self.rule {
            Rule::None => true,
            Rule::Feedback(controller) => load.active < controller.limit,
            Rule::Claims => {
                self.look_at_claims(policy, memory);
                let active = self.claims.iter().zip(&memory.active).filter(|(_, active)| **active);
                let claimed: usize = active.map(|(claim, _)| claim.frames).sum();
                claim + self.k0_frames + claimed + load.waiting <= self.frames
            }
        }
    }

    /// What a task claims now, in frames.
    pub(crate) fn claim<P: TaskPolicy<Memory>>(&mut self, task: usize, policy: &P, memory: &Memory) -> usize {
        self.look_at_claims(policy, memory);
        self.claims[task].frames
    }

    fn look_at_claims<P: TaskPolicy<Memory>>(&mut self, policy: &P, memory: &Memory) {
        if !self.claims_hold {
            self.claims.fill(Claim::NONE);
            policy.claims(memory, &mut self.claims);
            self.claims_hold = true;
        }
    }

    /// Pages came, went, or were looked at: claims have to be looked at again.
    pub(crate) fn memory_changed(&mut self) {
        self.claims_hold = false;
    }

    /// A task has executed until this virtual time.
    pub(crate) fn executed(&mut self, task: usize, now: VirtualTime) {
        self.claims_hold &= now < self.claims[task].until;
    }

    /// When the feedback controller looks next, in real time.
    pub(crate) fn next_look(&self) -> u64 {
        match &self.rule {
            Rule::Feedback(controller) => controller.next_look,
            Rule::Claims | Rule::None => u64::MAX,
        }
    }

    /// The feedback controller looks: how many pages have been read so far, how many tasks are
    /// active, whether others are ready. Returns whether a task has to be deactivated.
    pub(crate) fn look(&mut self, reads: u64, active: usize, any_ready: bool) -> bool {
        let Rule::Feedback(controller) = &mut self.rule else { return false };
        let load = (reads - controller.reads) as f64 / controller.capacity;
        controller.reads = reads;
        controller.next_look += controller.parameters.period_refs;
        if load > controller.parameters.high && active > 1 {
            controller.limit = active - 1;
            return true;
        }
        // Raise the limit only if tasks reach it: unused room says nothing about one more task.
        if load < controller.parameters.low && any_ready && active >= controller.limit {
            controller.limit = active + 1;
        }
        false
    }
}

impl Controller {
    fn new(configuration: &Configuration) -> Self {
        let (least, most) = configuration.devices.access_refs;
        let parameters = configuration.load_control.feedback.clone();
        let period = parameters.period_refs as f64;
        Self {
            capacity: configuration.devices.count as f64 * period / ((least + most) as f64 / 2.0),
            limit: 1,
            next_look: parameters.period_refs,
            reads: 0,
            parameters,
        }
    }
}
