//! What a policy declares so that a registry can list it and make it by name.

use crate::arguments::{ArgumentError, Arguments, Info};
use crate::{ExactMmu, Policy, TaskMmu, TaskPolicy};
use alloc::boxed::Box;

/// A policy that can be made from a number of frames and its arguments.
pub trait Registered: Policy + Sized {
    /// Name, paper, parameters.
    const INFO: Info;
    /// Bytes that the policy keeps for each page that it has seen, at most, while twice as many
    /// pages are in use as there are frames. A live pager sets this much memory aside.
    const BYTES_A_PAGE: usize = 10;
    /// Grows with every change of the policy, or of its defaults, that changes its faults. Results
    /// that are kept are computed again then. `tests/revisions.rs` tells when.
    const REVISION: u32 = 1;

    /// Makes the policy for `frames` >= 1 page frames.
    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError>;
}

/// A policy for many tasks, made for memory `M`.
pub type Made<M> = Box<dyn TaskPolicy<M> + Send>;

/// A policy for many tasks that can be made from a number of frames and its arguments.
pub trait RegisteredTaskPolicy {
    /// Name, paper, parameters.
    const INFO: Info;
    /// What it has to be shown, in words.
    const NEEDS: &'static str;

    /// Makes the policy for `frames` >= 1 page frames. `None` if with these arguments it needs
    /// [`ExactMmu`].
    fn make<M: TaskMmu>(frames: usize, arguments: &Arguments) -> Result<Option<Made<M>>, ArgumentError>;

    /// Makes the policy for a memory that knows every reference.
    fn make_exact<M: ExactMmu>(frames: usize, arguments: &Arguments) -> Result<Made<M>, ArgumentError> {
        Ok(Self::make(frames, arguments)?.expect("a policy that needs more than TaskMmu says how it is made"))
    }
}

/// [`RegisteredTaskPolicy::NEEDS`] of policies that could run live.
pub const VM_NEEDS: &str = "faults, reference and dirty bits, virtual time of tasks";
