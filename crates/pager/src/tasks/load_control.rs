//! Load control: how many tasks may be active. The rules are those of `sweephand multiprogram`,
//! with clocks instead of references.
//!
//! The first ready task is activated if three rules allow it. If no task is active, it is activated
//! in any case.
//!
//! * *Claims.* The memory that the task claimed when it was deactivated fits beside the current
//!   claims of the active tasks, with K0 frames to spare. (Claims include frames that are asked
//!   for, and pages used since the hand passed them, whatever the clocks say.) For policies without
//!   claims, *feedback* replaces this rule: the number of active tasks follows the share of time in
//!   which pages are read.
//! * *LT/RT.* Fewer than L tasks are loading. A task is loading from its activation until it has
//!   had tau of processor time. (In the paper an I/O request of its own ends that too; the command
//!   does not see such requests.)
//! * *A plain limit* on the number of active tasks.
//!
//! In the simulation, a task that was just deactivated is not activated before something has
//! happened. Here something always happens, so a pause takes the place of that rule.

use super::file::{Control, LoadControlOptions};
use std::time::{Duration, Instant};
use sweephand_policy::LoadControl;

/// What there is of active tasks.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) active: usize,
    pub(crate) loading: usize,
}

#[derive(Debug)]
pub(crate) struct LoadController {
    spare_pages: usize,
    /// L; no limit without LT/RT.
    most_loading: usize,
    most_active: usize,
    rest: Duration,
    /// When a task was last deactivated.
    gave_way: Option<Instant>,
    rule: Rule,
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
    period: Duration,
    low: f64,
    high: f64,
    /// Tasks that may be active now.
    limit: usize,
    /// When the period began.
    since: Instant,
    /// Looks taken in it, and those that found pages being read.
    looks: u32,
    busy: u32,
}

impl LoadController {
    pub(crate) fn new(
        options: &LoadControlOptions,
        of_policy: LoadControl,
        limits_loading: bool,
        now: Instant,
    ) -> Self {
        let feedback = &options.feedback;
        let controller = || {
            Rule::Feedback(Controller {
                period: Duration::from_millis(feedback.period_ms),
                low: feedback.low,
                high: feedback.high,
                limit: 1,
                since: now,
                looks: 0,
                busy: 0,
            })
        };
        Self {
            spare_pages: options.spare_pages,
            most_loading: if limits_loading { options.loading_tasks } else { usize::MAX },
            most_active: if options.most_active == 0 { usize::MAX } else { options.most_active },
            rest: Duration::from_millis(options.rest_ms),
            gave_way: None,
            rule: match (options.control, of_policy) {
                (Control::None, _) => Rule::None,
                (Control::Policy, LoadControl::Claims) => Rule::Claims,
                (Control::Policy, LoadControl::Feedback) | (Control::Feedback, _) => controller(),
            },
        }
    }

    /// Whether tasks give way when memory is overcommitted.
    pub(crate) fn gives_way(&self) -> bool {
        !matches!(self.rule, Rule::None)
    }

    /// Whether claims matter, which take a look at every frame.
    pub(crate) fn needs_claims(&self) -> bool {
        matches!(self.rule, Rule::Claims)
    }

    /// A task has been deactivated.
    pub(crate) fn gave_way(&mut self, now: Instant) {
        self.gave_way = Some(now);
    }

    /// Whether another task can be activated, as far as that does not depend on what it claims.
    pub(crate) fn admits_more(&self, load: Load, now: Instant) -> bool {
        if load.active == 0 {
            return true;
        }
        let rests = self.gave_way.is_some_and(|since| now.duration_since(since) < self.rest);
        if rests || load.loading >= self.most_loading || load.active >= self.most_active {
            return false;
        }
        match &self.rule {
            Rule::Feedback(controller) => load.active < controller.limit,
            Rule::None | Rule::Claims => true,
        }
    }

    /// Whether a task with this claim fits beside the claims of the active tasks.
    pub(crate) fn fits(&self, claim: usize, claimed: usize, frames: usize) -> bool {
        claim + self.spare_pages + claimed <= frames
    }

    /// A look at the paging device, now and then. Returns whether a task has to give way.
    pub(crate) fn look(&mut self, is_reading: bool, active: usize, any_ready: bool, now: Instant) -> bool {
        let Rule::Feedback(controller) = &mut self.rule else { return false };
        controller.looks += 1;
        controller.busy += u32::from(is_reading);
        if now.duration_since(controller.since) < controller.period {
            return false;
        }
        let load = f64::from(controller.busy) / f64::from(controller.looks);
        (controller.since, controller.looks, controller.busy) = (now, 0, 0);
        if load > controller.high && active > 1 {
            controller.limit = active - 1;
            return true;
        }
        // Raise the limit only if tasks reach it: unused room says nothing about one more task.
        if load < controller.low && any_ready && active >= controller.limit {
            controller.limit = active + 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(
        options: &LoadControlOptions,
        of_policy: LoadControl,
        limits_loading: bool,
    ) -> LoadController {
        LoadController::new(options, of_policy, limits_loading, Instant::now())
    }

    #[test]
    fn a_task_is_activated_when_its_claim_fits_beside_the_others() {
        let options = LoadControlOptions { spare_pages: 5, ..Default::default() };
        let control = controller(&options, LoadControl::Claims, true);
        assert!(control.needs_claims());
        assert!(control.fits(35, 60, 100) && !control.fits(36, 60, 100));
    }

    #[test]
    fn loading_tasks_are_limited_if_that_is_asked_for() {
        let options = LoadControlOptions::default();
        let (now, load) = (Instant::now(), Load { active: 1, loading: 1 });
        assert!(!controller(&options, LoadControl::Claims, true).admits_more(load, now));
        assert!(controller(&options, LoadControl::Claims, false).admits_more(load, now));
        let nobody = Load { active: 0, loading: 1 };
        assert!(
            controller(&options, LoadControl::Claims, true).admits_more(nobody, now),
            "somebody has to be active"
        );
    }

    #[test]
    fn one_that_has_given_way_rests() {
        let mut control = controller(&LoadControlOptions::default(), LoadControl::Claims, true);
        let now = Instant::now();
        let load = Load { active: 1, loading: 0 };
        control.gave_way(now);
        assert!(!control.admits_more(load, now));
        assert!(control.admits_more(Load { active: 0, ..load }, now));
        assert!(control.admits_more(load, now + Duration::from_millis(500)));
    }

    #[test]
    fn feedback_follows_the_load_of_the_device() {
        let options = LoadControlOptions { lt_rt: false, ..Default::default() };
        let mut control = controller(&options, LoadControl::Feedback, false);
        let (start, period) = (Instant::now(), Duration::from_millis(500));
        let load = |active| Load { active, loading: 0 };
        assert!(!control.admits_more(load(1), start), "one at first");
        assert!(!control.look(false, 1, true, start + period));
        assert!(control.admits_more(load(1), start), "an idle device: one more");
        assert!(control.look(true, 2, true, start + 2 * period), "a busy one: one gives way");
        assert!(!control.admits_more(load(1), start));
        assert!(!control.look(true, 1, true, start + 3 * period), "the last one stays");
    }

    #[test]
    fn without_control_all_are_active() {
        let options = LoadControlOptions { control: Control::None, most_active: 3, ..Default::default() };
        let control = controller(&options, LoadControl::Claims, false);
        let load = |active| Load { active, loading: active };
        assert!(
            control.admits_more(load(2), Instant::now()) && !control.gives_way() && !control.needs_claims()
        );
        assert!(!control.admits_more(load(3), Instant::now()), "the plain limit");
    }
}
