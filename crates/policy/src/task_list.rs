//! The list of policies for many tasks.

use crate::arguments::{ArgumentError, Arguments, Info};
use crate::policies::{GlobalClock, Pff, Vmin, Ws, WsClock};
use crate::registered::{Made, RegisteredTaskPolicy};
use crate::{ExactMmu, TaskMmu};

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct TaskEntry {
    /// Name, paper, parameters.
    pub info: &'static Info,
    /// What it has to be shown, in words.
    pub needs: &'static str,
}

macro_rules! task_policies {
    ($($policy:ty),+ $(,)?) => {
        /// The policies for many tasks only, in the order of listings.
        pub const TASK_POLICIES: &[TaskEntry] = &[$(TaskEntry {
            info: &<$policy as RegisteredTaskPolicy>::INFO,
            needs: <$policy as RegisteredTaskPolicy>::NEEDS,
        }),+];

        /// See [`RegisteredTaskPolicy::make`]. `None` if the arguments are those of a policy that
        /// is not in this list.
        pub(crate) fn make<M: TaskMmu>(
            frames: usize,
            arguments: &Arguments,
        ) -> Option<Result<Option<Made<M>>, ArgumentError>> {
            $(if arguments.info().name == <$policy as RegisteredTaskPolicy>::INFO.name {
                return Some(<$policy as RegisteredTaskPolicy>::make(frames, arguments));
            })+
            None
        }

        /// See [`RegisteredTaskPolicy::make_exact`]. `None` as for [`make`].
        pub(crate) fn make_exact<M: ExactMmu>(
            frames: usize,
            arguments: &Arguments,
        ) -> Option<Result<Made<M>, ArgumentError>> {
            $(if arguments.info().name == <$policy as RegisteredTaskPolicy>::INFO.name {
                return Some(<$policy as RegisteredTaskPolicy>::make_exact(frames, arguments));
            })+
            None
        }
    };
}

task_policies![Ws, Vmin, Pff, WsClock, GlobalClock];

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static TaskEntry> {
    TASK_POLICIES.iter().find(|entry| entry.info.name == name)
}
