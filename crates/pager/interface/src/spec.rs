//! Which policies run live, and a policy as the user typed it. The command reads it before a run;
//! the agent makes the policy from it (`live`).
//!
//! A policy can run live if it needs only faults and reference bits
//! ([`Model::SEES_HITS`](sweephand_policy::Model::SEES_HITS)). Two more can, in a form of their
//! own: GCLOCK and WSCLOCK.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use sweephand_policy::policies::{GClockBits, WsClock};
use sweephand_policy::registry::{self, POLICIES, Spec, VmVisitor, split_list};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_policy::{ArgumentError, Arguments};

/// A policy that runs live, with its arguments as typed.
#[derive(Clone, Debug)]
pub enum LiveSpec {
    /// A policy that a simulation drives in the same way.
    Ordinary(Spec),
    /// WSCLOCK.
    OneTask(TaskSpec),
}

impl LiveSpec {
    /// Reads one policy, `name` or `name:parameter=value,...`. Refuses policies that cannot run
    /// live.
    pub fn parse(text: &str) -> Result<Self, ArgumentError> {
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        let small = name.to_ascii_lowercase();
        let text = &(small.clone() + &text[name.len()..]);
        let name = small.as_str();
        if name == WSCLOCK {
            let spec = TaskSpec::parse(text)?;
            // Making the policy checks its values. Any number of frames will do for that.
            WsClock::from_arguments(1000, spec.arguments())?;
            return Ok(Self::OneTask(spec));
        }
        let entry = POLICIES.iter().find(|entry| entry.info.name == name);
        let reason = match entry.map(|entry| (entry.runs_live || name == GCLOCK, entry.model)) {
            None | Some((true, _)) => match Spec::parse(text)? {
                spec if spec.plugin().is_none() => return Ok(Self::Ordinary(spec)),
                _ => "is not one of the pager's own",
            },
            Some((false, "offline")) => "needs the future",
            Some((false, _)) => "needs every reference",
        };
        let live: Vec<_> = names().collect();
        let reason = format!("{reason} and can only be simulated; these can run live: {}", live.join(" "));
        Err(ArgumentError { policy: text.to_string(), reason })
    }

    /// Calls the visitor with the type of the policy in its live form. `None`: it is WSCLOCK, which
    /// is for tasks.
    pub fn visit<V: VmVisitor>(&self, visitor: V) -> Option<V::Output> {
        match self {
            Self::OneTask(_) => None,
            Self::Ordinary(spec) if spec.name() == GCLOCK => Some(visitor.visit::<GClockBits>()),
            Self::Ordinary(spec) => registry::visit_vm(spec.name(), visitor),
        }
    }

    /// The arguments.
    pub fn arguments(&self) -> &Arguments {
        match self {
            Self::OneTask(spec) => spec.arguments(),
            Self::Ordinary(spec) => spec.arguments(),
        }
    }

    /// Bytes that the policy keeps for each page, at most; see
    /// [`Registered::BYTES_A_PAGE`](sweephand_policy::registry::Registered::BYTES_A_PAGE).
    pub fn bytes_a_page(&self) -> usize {
        match self {
            Self::OneTask(_) => WSCLOCK_BYTES,
            Self::Ordinary(spec) => spec.entry().bytes_a_page,
        }
    }

    /// The name of an expert that the policy can follow, by its place.
    pub fn expert(&self, place: usize) -> Option<&str> {
        match self {
            Self::OneTask(_) => None,
            Self::Ordinary(spec) => spec.expert(place),
        }
    }

    /// Reads a comma list of policies, as [`Spec::parse_list`] does. `all` stands for all that run
    /// live.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ArgumentError> {
        split_list(text, names())?.iter().map(|spec| Self::parse(spec)).collect()
    }
}

/// Prints the policy as it was typed.
impl fmt::Display for LiveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordinary(spec) => spec.fmt(f),
            Self::OneTask(spec) => spec.fmt(f),
        }
    }
}

/// GCLOCK by name. Its live form differs from the simulated one.
const GCLOCK: &str = "gclock";
const WSCLOCK: &str = "wsclock";
/// [`LiveSpec::bytes_a_page`] of WSCLOCK.
const WSCLOCK_BYTES: usize = 23;

/// The names of the policies that run live.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    let ordinary = POLICIES.iter().filter(|entry| entry.runs_live || entry.info.name == GCLOCK);
    ordinary.map(|entry| entry.info.name).chain([WSCLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_cannot_run_live_are_refused_with_those_that_can() {
        let message = |text: &str| LiveSpec::parse(text).unwrap_err().to_string();
        let lru = message("lru");
        assert!(lru.starts_with(
            "policy 'lru': needs every reference and can only be simulated; these can run live: fifo"
        ));
        for name in ["clock", "gclock", "clock-pro", "car", "seq", "apr", "lifo-plus", "wsclock"] {
            assert!(lru.split(' ').any(|word| word == name), "{name} in {lru}");
            assert_eq!(LiveSpec::parse(name).unwrap().to_string(), name);
        }
        assert!(message("opt").contains("needs the future"));
        assert!(message("lur").contains("there is no such policy"));
        assert!(message("gclock:max=0").contains("max=0"));
        assert!(message("wsclock:theta=0").contains("theta=0"));
        assert!(message("ws").contains("is for many tasks"));
    }
}
