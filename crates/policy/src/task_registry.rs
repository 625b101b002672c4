//! The list of policies for many tasks in one memory, and those policies by name.
//!
//! Every [`VmModel`] policy of the ordinary [registry] can also serve as a global
//! policy ([`Shared`]). Exceptions are policies that need page numbers or objects, because those
//! belong to one address space.

use crate::arguments::{ArgumentError, Arguments};
use crate::near::hint;
use crate::policies::Vmin;
use crate::registered::Registered;
pub use crate::registered::{Made, RegisteredTaskPolicy, VM_NEEDS};
use crate::registry::{self, POLICIES, VmVisitor, split_list};
pub use crate::task_list::{TASK_POLICIES, TaskEntry, find};
use crate::task_list::{make, make_exact};
use crate::{ExactMmu, Shared, TaskMmu, VirtualTime, VmModel};
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;
use core::marker::PhantomData;

/// A policy for many tasks and its arguments, as typed: `wsclock`, `ws:lr=sampled`,
/// `clock-pro:history=2`.
///
/// `lt-rt=on` or `off`, which every one of them takes, is the driver's: whether the number of
/// loading tasks is limited.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    text: String,
    arguments: Arguments,
    limits_loading: Option<bool>,
}

const LT_RT: &str = "lt-rt";
/// The parameter that a sweep gives values to.
const THETA: &str = "theta";

impl TaskSpec {
    /// Reads one policy, `name` or `name:parameter=value,...`.
    pub fn parse(text: &str) -> Result<Self, ArgumentError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let small = name.to_ascii_lowercase();
        let text = &(small.clone() + &text[name.len()..]);
        let name = small.as_str();
        let error = |reason| ArgumentError { policy: name.to_string(), reason };
        let shared = POLICIES.iter().find(|entry| entry.info.name == name);
        let info = match (find(name), shared) {
            (Some(entry), _) => entry.info,
            (None, Some(entry)) if !entry.runs_live => {
                return Err(error(
                    "sees every reference of one task; tasks can share memory under vm policies only".into(),
                ));
            }
            (None, Some(entry)) if registry::visit_vm(name, NeedsAddresses) == Some(true) => {
                let name = entry.info.name;
                return Err(error(format!(
                    "{name} looks at addresses, and tasks have no address space in common"
                )));
            }
            (None, Some(entry)) => entry.info,
            (None, None) => {
                let own: Vec<_> = TASK_POLICIES.iter().map(|entry| entry.info.name).collect();
                let live = POLICIES.iter().filter(|entry| entry.runs_live).map(|entry| entry.info.name);
                let hint = hint(name, own.iter().copied().chain(live));
                let own = own.join(" ");
                return Err(error(format!(
                    "there is no such policy{hint}; known: {own}, and those of simulate that run live"
                )));
            }
        };
        let mut limits_loading = None;
        let mut others = Vec::new();
        for item in rest.split(',') {
            match item.split_once('=') {
                Some((LT_RT, "on" | "1")) => limits_loading = Some(true),
                Some((LT_RT, "off" | "0")) => limits_loading = Some(false),
                Some((LT_RT, value)) => return Err(error(format!("lt-rt={value}: lt-rt takes on or off"))),
                _ => others.push(item),
            }
        }
        let arguments = Arguments::parse(info, &others.join(","))?;
        if arguments.collapse()?.is_some() {
            return Err(error("collapse is for simulate; tasks are shown as they were recorded".to_string()));
        }
        Ok(Self { text: text.to_string(), arguments, limits_loading })
    }

    /// Reads a comma list of policies, as [`Spec::parse_list`](registry::Spec::parse_list) does;
    /// `all` stands for those of [`TASK_POLICIES`] that run several tasks.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ArgumentError> {
        let names = TASK_POLICIES.iter().map(|entry| entry.info.name).filter(|name| *name != Vmin::INFO.name);
        split_list(text, names)?.iter().map(|spec| Self::parse(spec)).collect()
    }

    /// The policy's name without arguments.
    pub fn name(&self) -> &'static str {
        self.arguments.info().name
    }

    /// The arguments.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Whether the number of loading tasks is limited, if it is said for this policy.
    pub fn limits_loading(&self) -> Option<bool> {
        self.limits_loading
    }

    /// Whether a sweep over theta gives the policy its theta: it has one, and it has not been
    /// given.
    pub fn takes_theta(&self) -> bool {
        self.arguments.info().parameters.iter().any(|parameter| parameter.name == THETA)
            && !self.arguments.is_given(THETA)
    }

    /// The theta that is given, if it is.
    pub fn theta(&self) -> Option<VirtualTime> {
        self.arguments.is_given(THETA).then(|| self.arguments.value(THETA).parse().ok()).flatten()
    }

    /// The policy with this theta, where it takes one from a sweep.
    pub fn with_theta(&self, theta: Option<VirtualTime>) -> Self {
        let mut spec = self.clone();
        if let Some(theta) = theta.filter(|_| self.takes_theta()) {
            spec.arguments = spec.arguments.with(THETA, theta.to_string());
        }
        spec
    }

    /// Makes the policy for `frames` >= 1 page frames. `None` if it needs [`ExactMmu`].
    pub fn make<M: TaskMmu>(&self, frames: usize) -> Result<Option<Made<M>>, ArgumentError> {
        match make(frames, &self.arguments) {
            Some(made) => made,
            None => self.make_shared(frames).map(Some),
        }
    }

    /// Makes the policy for a memory that knows every reference.
    pub fn make_exact<M: ExactMmu>(&self, frames: usize) -> Result<Made<M>, ArgumentError> {
        match make_exact(frames, &self.arguments) {
            Some(made) => made,
            None => self.make_shared(frames),
        }
    }

    fn make_shared<M: TaskMmu>(&self, frames: usize) -> Result<Made<M>, ArgumentError> {
        let share = Share { frames, arguments: &self.arguments, memory: PhantomData };
        registry::visit_vm(self.name(), share).expect("a spec names a vm policy")
    }
}

/// As it was typed.
impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

struct NeedsAddresses;

impl VmVisitor for NeedsAddresses {
    type Output = bool;
    fn visit<P: Registered<Model = VmModel> + Send + 'static>(self) -> bool {
        P::NEEDS_PAGE_NUMBERS || P::NEEDS_OBJECTS
    }
}

struct Share<'a, M> {
    frames: usize,
    arguments: &'a Arguments,
    memory: PhantomData<M>,
}

impl<M: TaskMmu> VmVisitor for Share<'_, M> {
    type Output = Result<Made<M>, ArgumentError>;
    fn visit<P: Registered<Model = VmModel> + Send + 'static>(self) -> Self::Output {
        Ok(Box::new(Shared::new(P::configure(self.frames, self.arguments)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn specs_are_read_with_the_drivers_argument_among_the_policys() {
        let specs =
            TaskSpec::parse_list("ws:lt-rt=off,lr=sampled,wsclock,clock-pro:history=2,lt-rt=on").unwrap();
        let texts: Vec<_> = specs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["ws:lt-rt=off,lr=sampled", "wsclock", "clock-pro:history=2,lt-rt=on"]);
        assert_eq!(
            specs.iter().map(TaskSpec::limits_loading).collect::<Vec<_>>(),
            [Some(false), None, Some(true)]
        );
        assert_eq!(specs.iter().map(TaskSpec::takes_theta).collect::<Vec<_>>(), [true, true, false]);
        let names: Vec<_> = TaskSpec::parse_list("all").unwrap().iter().map(TaskSpec::name).collect();
        assert_eq!(names, ["ws", "pff", "wsclock", "global-clock"]);
        assert_eq!(TaskSpec::parse("wsclock:theta=5").unwrap().theta(), Some(5));
        assert_eq!(specs[1].with_theta(Some(7)).theta(), Some(7));
    }

    #[test]
    fn what_cannot_share_memory_says_why() {
        let error = |text: &str| TaskSpec::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("lru"),
            "policy 'lru': sees every reference of one task; tasks can share memory under vm policies only"
        );
        assert_eq!(
            error("seq"),
            "policy 'seq': seq looks at addresses, and tasks have no address space in common"
        );
        assert!(error("wsclok").starts_with(
            "policy 'wsclok': there is no such policy (did you mean wsclock?); known: ws vmin pff wsclock global-clock, and"
        ));
        assert_eq!(error("ws:lt-rt=2"), "policy 'ws': lt-rt=2: lt-rt takes on or off");
        assert!(error("wsclock:thta=1").ends_with("its parameters: theta, clean-list"));
        assert!(error("clock:collapse=on").starts_with("policy 'clock': collapse is for simulate"));
    }

    #[test]
    fn every_policy_can_be_made_for_a_memory() {
        for spec in TaskSpec::parse_list("all,clock,clock-pro,ws:lr=sampled").unwrap() {
            spec.make_exact::<Desk>(8).unwrap().check().unwrap();
            let made = spec.make::<Desk>(8).unwrap();
            assert_eq!(made.is_none(), spec.to_string() == "ws", "{spec}");
        }
        assert!(TaskSpec::parse("wsclock:theta=0").unwrap().make::<Desk>(8).is_err());
        assert!(TaskSpec::parse("vmin").unwrap().make_exact::<Desk>(8).is_err());
    }
}
