//! Load control: how many tasks may be active, and which one is deactivated. The simulated machine
//! and the live pager share these rules; they have their own clocks, and measure claims and the
//! load of the paging devices themselves.
//!
//! The first ready task is activated if three rules allow it. If no task is active, it is activated
//! in any case.
//!
//! - *Claims.* The memory that the task claimed when it was deactivated fits beside the current
//!   claims of the active tasks, with K0 frames to spare. For policies without claims, *feedback*
//!   replaces this rule: after each period, the number of active tasks follows the load of the
//!   paging devices.
//! - *LT/RT.* Fewer than L tasks are loading. A task is loading from its activation until it has
//!   run for a virtual time of tau. Loading tasks fault at nearly every reference. If there are
//!   more of them than paging devices, they only wait for each other, while the claims of all look
//!   small.
//! - *A plain limit* on the number of active tasks.
//!
//! R. W. Carr and J. L. Hennessy, "WSCLOCK", SOSP 1981, describe claims, LT/RT and the choices of
//! [`Deactivate`].
//!
//! With the feature `serde`, configurations name the choices.

use crate::{LoadControl, SplitMix64};
use alloc::vec::Vec;

/// What decides whether the first ready task is activated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Control {
    /// The claims of policies that make them (`wsclock`, `ws`, `pff`); feedback for the others.
    #[default]
    Policy,
    /// Feedback from the paging devices, for every policy.
    Feedback,
    /// Only the plain limit and LT/RT. The live pager then deactivates no task.
    None,
}

/// Which active task is deactivated when memory is overcommitted. Ties go to the one activated
/// last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Deactivate {
    /// The one with the fewest frames.
    Smallest,
    /// The one activated last (used in the paper).
    #[default]
    Last,
    /// The one with the most left of its time slice.
    Slice,
    /// The one whose fault found memory overcommitted.
    Faulting,
    /// The one with the most frames.
    Largest,
    /// Any.
    Random,
}

impl Deactivate {
    /// All of them: those that the paper found good, then the others.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Smallest, "smallest"),
        (Self::Last, "last"),
        (Self::Slice, "slice"),
        (Self::Faulting, "faulting"),
        (Self::Largest, "largest"),
        (Self::Random, "random"),
    ];

    /// The task to deactivate, of those that can be.
    pub fn choose(
        self,
        candidates: impl Iterator<Item = Candidate>,
        random: &mut SplitMix64,
    ) -> Option<usize> {
        if self == Self::Random {
            let tasks: Vec<usize> = candidates.map(|candidate| candidate.task).collect();
            return match tasks.len() {
                0 => None,
                count => Some(tasks[random.below(count as u64) as usize]),
            };
        }
        // The largest key wins.
        let key = |of: &Candidate| match self {
            Self::Smallest => u64::MAX - of.resident_pages as u64,
            Self::Largest => of.resident_pages as u64,
            Self::Slice => of.slice_left,
            Self::Faulting => u64::from(of.is_faulting),
            Self::Last | Self::Random => 0,
        };
        candidates.max_by_key(|of| (key(of), of.activation)).map(|of| of.task)
    }
}

/// An active task that can be deactivated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its number.
    pub task: usize,
    /// Its pages in frames.
    pub resident_pages: usize,
    /// Virtual time left of its slice.
    pub slice_left: u64,
    /// Whether its fault found memory overcommitted.
    pub is_faulting: bool,
    /// The number of its latest activation, counted over all tasks.
    pub activation: u64,
}

/// What the rules go by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// What decides.
    pub control: Control,
    /// L: tasks loading at one time at most; `None` without LT/RT.
    pub most_loading: Option<usize>,
    /// Active tasks at most; 0 for no limit.
    pub most_active: usize,
    /// K0: frames that an activation has to leave unclaimed.
    pub spare_frames: usize,
    /// Feedback: the load of the paging devices below which one more task may be active.
    pub low: f64,
    /// Feedback: the load above which a task is deactivated.
    pub high: f64,
}

/// How many tasks are active now.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Load {
    /// Active tasks.
    pub active: usize,
    /// Those of them that are loading.
    pub loading: usize,
}

/// Claims to memory, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claims {
    /// That of the task to be activated.
    pub next: usize,
    /// Those of the active tasks, with what they wait for.
    pub active: usize,
    /// The frames that there are.
    pub frames: usize,
}

/// The rules, and the state of the feedback controller.
#[derive(Clone, Debug)]
pub struct LoadController {
    limits: Limits,
    rule: Rule,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Claims,
    /// This many tasks may be active now.
    Feedback(usize),
    None,
}

impl LoadController {
    /// Load control under a policy, before the first activation.
    pub fn new(limits: Limits, of_policy: LoadControl) -> Self {
        let rule = match (limits.control, of_policy) {
            (Control::None, _) => Rule::None,
            (Control::Policy, LoadControl::Claims) => Rule::Claims,
            (Control::Policy, LoadControl::Feedback) | (Control::Feedback, _) => Rule::Feedback(1),
        };
        Self { limits, rule }
    }

    /// Whether there is a rule by which tasks give way when memory is overcommitted.
    pub fn gives_way(&self) -> bool {
        self.rule != Rule::None
    }

    /// Whether claims decide.
    pub fn needs_claims(&self) -> bool {
        self.rule == Rule::Claims
    }

    /// Whether the load of the paging devices decides.
    pub fn needs_feedback(&self) -> bool {
        matches!(self.rule, Rule::Feedback(_))
    }

    /// Whether the first ready task may be activated. Asks for claims only if they decide; if they
    /// are not known now, it may not.
    pub fn admits(&self, load: Load, claims: impl FnOnce() -> Option<Claims>) -> bool {
        if load.active == 0 {
            return true;
        }
        let Limits { most_loading, most_active, spare_frames, .. } = self.limits;
        if most_loading.is_some_and(|most| load.loading >= most)
            || (most_active > 0 && load.active >= most_active)
        {
            return false;
        }
        match self.rule {
            Rule::None => true,
            Rule::Feedback(most) => load.active < most,
            Rule::Claims => {
                claims().is_some_and(|Claims { next, active, frames }| next + spare_frames + active <= frames)
            }
        }
    }

    /// The end of a period in which the paging devices had this load, a share of what they can do.
    /// Returns whether a task has to be deactivated.
    pub fn adjust(&mut self, device_load: f64, active: usize, any_ready: bool) -> bool {
        let Rule::Feedback(most) = &mut self.rule else { return false };
        if device_load > self.limits.high && active > 1 {
            *most = active - 1;
            return true;
        }
        // Raise the limit only if tasks reach it: unused room says nothing about one more task.
        if device_load < self.limits.low && any_ready && active >= *most {
            *most = active + 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        control: Control::Policy,
        most_loading: Some(1),
        most_active: 0,
        spare_frames: 5,
        low: 0.35,
        high: 0.65,
    };

    fn no_claims() -> Option<Claims> {
        panic!("claims do not decide")
    }

    #[test]
    fn a_task_is_activated_when_its_claim_fits_beside_the_others() {
        let control = LoadController::new(LIMITS, LoadControl::Claims);
        let load = Load { active: 2, loading: 0 };
        let admits = |next| control.admits(load, || Some(Claims { next, active: 60, frames: 100 }));
        assert!(control.needs_claims() && control.gives_way());
        assert!(admits(35) && !admits(36));
        assert!(!control.admits(load, || None), "not known now");
    }

    #[test]
    fn loading_tasks_are_limited_if_that_is_asked_for() {
        let load = Load { active: 1, loading: 1 };
        let fits = || Some(Claims { next: 0, active: 0, frames: 100 });
        let limited = LoadController::new(LIMITS, LoadControl::Claims);
        assert!(!limited.admits(load, no_claims));
        assert!(limited.admits(Load { active: 0, loading: 1 }, no_claims), "one has to be active");
        let unlimited = Limits { most_loading: None, ..LIMITS };
        assert!(LoadController::new(unlimited, LoadControl::Claims).admits(load, fits));
    }

    #[test]
    fn feedback_follows_the_load_of_the_devices() {
        let mut control = LoadController::new(Limits { most_loading: None, ..LIMITS }, LoadControl::Feedback);
        let load = |active| Load { active, loading: 0 };
        assert!(!control.admits(load(1), no_claims), "one at first");
        assert!(!control.adjust(0.0, 1, true));
        assert!(control.admits(load(1), no_claims), "idle devices: one more");
        assert!(!control.adjust(0.0, 1, true) && !control.admits(load(2), no_claims), "not reached");
        assert!(control.adjust(1.0, 2, true), "busy ones: one gives way");
        assert!(!control.admits(load(1), no_claims));
        assert!(!control.adjust(1.0, 1, true), "the last one stays");
    }

    #[test]
    fn without_control_only_the_plain_limit_holds() {
        let limits = Limits { control: Control::None, most_active: 3, most_loading: None, ..LIMITS };
        let control = LoadController::new(limits, LoadControl::Claims);
        let load = |active| Load { active, loading: active };
        assert!(!control.gives_way() && !control.needs_claims() && !control.needs_feedback());
        assert!(control.admits(load(2), no_claims) && !control.admits(load(3), no_claims));
    }

    #[test]
    fn each_choice_takes_its_task_and_ties_go_to_the_latest() {
        let of = |task, resident_pages, slice_left, is_faulting| Candidate {
            task,
            resident_pages,
            slice_left,
            is_faulting,
            activation: 10 + task as u64,
        };
        let tasks = [of(0, 5, 9, false), of(1, 9, 3, true), of(2, 5, 9, false), of(3, 9, 1, false)];
        let mut random = SplitMix64::new(1);
        let mut choose = |by: Deactivate| by.choose(tasks.into_iter(), &mut random);
        let chosen = Deactivate::ALL.map(|(by, _)| choose(by).unwrap());
        assert_eq!(chosen[..5], [2, 3, 2, 1, 3]);
        assert!(chosen[5] < 4);
        for (by, _) in Deactivate::ALL {
            assert_eq!(by.choose(core::iter::empty(), &mut random), None, "{by:?}");
        }
    }
}
