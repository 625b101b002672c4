//! The list of all policies, and policies by name.
//!
//! One line in [`policies!`](self) registers a policy. It puts the policy on the command line, in
//! `sweephand policies`, and through the whole conformance suite.
//!
//! The feature `registration` can add policies from outside ([`plugin`]) while the program runs.

use crate::arguments::{ArgumentError, Arguments, Info};
use crate::near::hint;
use crate::plugin::{self, Plugged, Plugin, Shown};
use crate::policies::*;
pub use crate::registered::Registered;
use crate::settled::Settled;
use crate::{ExactModel, Model, OfflineModel, Policy, VmModel, task_list};
use alloc::{
    format,
    string::{String, ToString},
    sync,
    vec::Vec,
};
use core::fmt;

/// The parameter of a policy that follows one of several: their names, joined by `+`.
pub(crate) const EXPERTS: &str = "experts";

/// Something done with a policy of any type: the door from a name to static dispatch.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Called with the policy's type.
    fn visit<P: Registered + Send + 'static>(self) -> Self::Output;
}

/// Something done with a policy that needs only faults and reference bits.
pub trait VmVisitor {
    /// What comes of it.
    type Output;
    /// Called with the policy's type.
    fn visit<P: Registered<Model = VmModel> + Send + 'static>(self) -> Self::Output;
}

/// Sorts policies by their models, in types: nothing is compiled for policies of another model.
trait ByModel: Model + Sized {
    fn visit_vm<P: Registered<Model = Self> + Send + 'static, V: VmVisitor>(visitor: V) -> Option<V::Output>;
}

impl ByModel for VmModel {
    fn visit_vm<P: Registered<Model = Self> + Send + 'static, V: VmVisitor>(visitor: V) -> Option<V::Output> {
        Some(visitor.visit::<P>())
    }
}

impl ByModel for ExactModel {
    fn visit_vm<P: Registered<Model = Self> + Send + 'static, V: VmVisitor>(_: V) -> Option<V::Output> {
        None
    }
}

impl ByModel for OfflineModel {
    fn visit_vm<P: Registered<Model = Self> + Send + 'static, V: VmVisitor>(_: V) -> Option<V::Output> {
        None
    }
}

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name, paper, parameters.
    pub info: &'static Info,
    /// [`Model::NAME`] of the policy's model: `vm`, `exact` or `offline`.
    pub model: &'static str,
    /// Whether it can run against real hardware: needs faults and reference bits only.
    pub runs_live: bool,
    /// [`Policy::NOT_SAMPLED`]: why a sample of the pages does not tell how it does on all of them,
    /// if it does not.
    pub not_sampled: Option<&'static str>,
    /// [`Registered::BYTES_A_PAGE`].
    pub bytes_a_page: usize,
    /// [`Registered::REVISION`].
    pub revision: u32,
}

macro_rules! policies {
    ($($policy:ty),+ $(,)?) => {
        /// Every policy, in the order of listings.
        pub const POLICIES: &[Entry] = &[$(Entry {
            info: &<$policy as Registered>::INFO,
            model: <<$policy as Policy>::Model as Model>::NAME,
            runs_live: !<<$policy as Policy>::Model as Model>::SEES_HITS,
            not_sampled: <$policy as Policy>::NOT_SAMPLED,
            bytes_a_page: <$policy as Registered>::BYTES_A_PAGE,
            revision: <$policy as Registered>::REVISION,
        }),+];

        /// Calls the visitor with the type of the policy of that name.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$policy as Registered>::INFO.name {
                return Some(visitor.visit::<$policy>());
            })+
            None
        }

        /// Calls the visitor with the type of the [`VmModel`] policy of that name. `None` if there
        /// is none.
        pub fn visit_vm<V: VmVisitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$policy as Registered>::INFO.name {
                return <<$policy as Policy>::Model as ByModel>::visit_vm::<$policy, V>(visitor);
            })+
            None
        }
    };
}

policies! {
    Opt,
    Fifo,
    Lifo,
    Mru,
    Random,
    Lru,
    Settled<Clock>,
    Settled<ClockPageTable>,
    GClock,
    Settled<Aging>,
    Settled<Linux24>,
    Fbr,
    Lru2,
    TwoQ,
    Lrfu,
    Mq,
    Lirs,
    DLirs,
    Lirs2,
    Arc,
    Settled<Car>,
    Settled<ClockPro>,
    Settled<ClockProFixed>,
    Settled<ClockProPlus>,
    Settled<ClockProStrict>,
    Eelru,
    Settled<EeClock>,
    Settled<SeqClock>,
    SeqLru,
    Ubm,
    Settled<LifoPlus>,
    Settled<Apr>,
    Rrip,
    Dip,
    LeCar,
    Cacheus,
    Acme,
    Hyperbolic,
    Lhd,
    S3Fifo,
    S4Fifo,
    Settled<Clock2QPlus>,
    Settled<Sieve>,
    WTinyLfu,
    Settled<Mglru>,
    Auto,
}

impl Entry {
    fn of_plugin(plugin: &dyn Plugin) -> Self {
        // The live pager is a library of its own, made of this crate's policies.
        Self {
            info: plugin.info(),
            model: plugin.shown().name(),
            runs_live: false,
            not_sampled: None,
            bytes_a_page: 0,
            revision: plugin.revision(),
        }
    }
}

/// Every policy there is to name: [`POLICIES`], and those that were registered.
pub fn entries() -> Vec<Entry> {
    let registered = registered();
    POLICIES.iter().copied().chain(registered.iter().map(|plugin| Entry::of_plugin(&**plugin))).collect()
}

#[cfg(feature = "registration")]
static REGISTERED: std::sync::RwLock<Vec<sync::Arc<dyn Plugin>>> = std::sync::RwLock::new(Vec::new());

/// Adds a policy of another crate to those that can be named in this process.
///
/// Panics if there is one of that name.
#[cfg(feature = "registration")]
pub fn register<P: Registered + Send + 'static>() {
    register_plugin(sync::Arc::new(crate::plugin::plugin::<P>()));
}

/// Adds a policy from elsewhere, as [`register`] does.
#[cfg(feature = "registration")]
pub fn register_plugin(plugin: sync::Arc<dyn Plugin>) {
    let name = plugin.info().name;
    let taken = entries().iter().any(|entry| entry.info.name == name) || task_list::find(name).is_some();
    assert!(!taken, "there is a policy '{name}' already");
    REGISTERED.write().expect("no thread panics while it holds the lock").push(plugin);
}

/// The policies that were registered, in their order.
fn registered() -> Vec<sync::Arc<dyn Plugin>> {
    #[cfg(feature = "registration")]
    return REGISTERED.read().expect("no thread panics while it holds the lock").clone();
    #[cfg(not(feature = "registration"))]
    Vec::new()
}

/// A policy and its arguments, as typed: `clock`, `clock:init=1`.
#[derive(Clone, Debug)]
pub struct Spec {
    text: String,
    arguments: Arguments,
}

impl Spec {
    /// Reads one policy, `name` or `name:parameter=value,...`.
    pub fn parse(text: &str) -> Result<Self, ArgumentError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if let Some(plugin) = registered().into_iter().find(|plugin| plugin.info().name == name) {
            return Self::plugged(plugin, text);
        }
        let Some(entry) = POLICIES.iter().find(|entry| entry.info.name.eq_ignore_ascii_case(name)) else {
            if task_list::find(name).is_some() {
                return Err(ArgumentError {
                    policy: name.to_string(),
                    reason: format!(
                        "is for many tasks in one memory; see sweephand multiprogram --policy {name}"
                    ),
                });
            }
            let known: Vec<_> = entries().iter().map(|entry| entry.info.name).collect();
            return Err(ArgumentError {
                policy: name.to_string(),
                reason: format!(
                    "there is no such policy{}; known: {}",
                    hint(name, known.iter().copied()),
                    known.join(" ")
                ),
            });
        };
        let arguments = Arguments::parse(entry.info, rest)?;
        // Results have one name for it, however it was typed.
        let text = entry.info.name.to_string() + &text[name.len()..];
        Self { text, arguments }.checked()
    }

    /// A policy from elsewhere, with the arguments in `text`: `name` or `name:parameter=value,...`,
    /// whatever the name is.
    pub fn plugged(plugin: sync::Arc<dyn Plugin>, text: &str) -> Result<Self, ArgumentError> {
        let rest = text.split_once(':').map_or("", |(_, rest)| rest);
        let arguments = plugin::arguments(plugin, rest)?;
        Self { text: text.to_string(), arguments }.checked()
    }

    /// Values are checked by the policy itself; any memory size will do for that.
    fn checked(self) -> Result<Self, ArgumentError> {
        self.visit(Configure { frames: 1000, arguments: &self.arguments })?;
        Ok(self)
    }

    /// Reads a comma list of policies; `all` stands for every policy with its defaults. In
    /// `clock:init=1,fill-init=0,lru` an item of the form name=value goes to the policy before it.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ArgumentError> {
        let entries = entries();
        split_list(text, entries.iter().map(|entry| entry.info.name))?
            .iter()
            .map(|spec| Self::parse(spec))
            .collect()
    }

    /// The policy's name without arguments.
    pub fn name(&self) -> &'static str {
        self.arguments.info().name
    }

    /// The plugin that the policy comes from; `None` for a policy of this crate.
    pub fn plugin(&self) -> Option<&sync::Arc<dyn Plugin>> {
        plugin::behind(&self.arguments)
    }

    /// What a listing says of the policy.
    pub fn entry(&self) -> Entry {
        match self.plugin() {
            Some(plugin) => Entry::of_plugin(&**plugin),
            None => *POLICIES.iter().find(|entry| entry.info.name == self.name()).expect("it is registered"),
        }
    }

    /// The arguments.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The name of an expert that the policy can follow, by its place; see
    /// [`Leader`](crate::Leader).
    pub fn expert(&self, place: usize) -> Option<&str> {
        let has_experts = self.arguments.info().parameters.iter().any(|parameter| parameter.name == EXPERTS);
        has_experts.then(|| self.arguments.value(EXPERTS).split('+').nth(place)).flatten()
    }

    /// The same policy for a share of the pages; see [`Arguments::sampled`].
    #[must_use]
    pub fn sampled(&self, share: f64) -> Self {
        Self { text: self.text.clone(), arguments: self.arguments.clone().sampled(share) }
    }

    /// Why a sample of the pages does not tell how the policy does on all of them, if it does not.
    pub fn not_sampled(&self) -> Option<&'static str> {
        POLICIES.iter().find(|entry| entry.info.name == self.name()).and_then(|entry| entry.not_sampled)
    }

    /// Calls the visitor with the policy's type.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        let Some(plugin) = self.plugin() else {
            return visit(self.name(), visitor).expect("a spec names a registered policy");
        };
        match (plugin.shown(), plugin.needs_places()) {
            (Shown::Faults, false) => visitor.visit::<Plugged<VmModel, false>>(),
            (Shown::Faults, true) => visitor.visit::<Plugged<VmModel, true>>(),
            (Shown::Hits, false) => visitor.visit::<Plugged<ExactModel, false>>(),
            (Shown::Hits, true) => visitor.visit::<Plugged<ExactModel, true>>(),
            (Shown::Future, false) => visitor.visit::<Plugged<OfflineModel, false>>(),
            (Shown::Future, true) => visitor.visit::<Plugged<OfflineModel, true>>(),
        }
    }
}

/// Cuts a comma list of policies. An item of the form name=value goes to the policy before it;
/// `all` stands for the given names.
pub fn split_list(
    text: &str,
    all: impl Iterator<Item = &'static str> + Clone,
) -> Result<Vec<String>, ArgumentError> {
    let mut specs: Vec<String> = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match specs.last_mut() {
            Some(last) if item.contains('=') && !item.contains(':') => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(item);
            }
            _ if item == "all" => specs.extend(all.clone().map(ToString::to_string)),
            _ => specs.push(item.to_string()),
        }
    }
    if specs.is_empty() {
        return Err(ArgumentError { policy: text.to_string(), reason: "no policy is named".to_string() });
    }
    Ok(specs)
}

/// As it was typed.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

struct Configure<'a> {
    frames: usize,
    arguments: &'a Arguments,
}

impl Visitor for Configure<'_> {
    type Output = Result<(), ArgumentError>;
    fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
        P::configure(self.frames, self.arguments).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_give_arguments_to_the_policy_before_them() {
        let specs = Spec::parse_list("lru, clock:init=1,fill-init=0,clock-pro:cold=5%").unwrap();
        let texts: Vec<_> = specs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["lru", "clock:init=1,fill-init=0", "clock-pro:cold=5%"]);
        assert_eq!(Spec::parse_list("all").unwrap().len(), POLICIES.len());
    }

    #[test]
    fn errors_name_the_policy_and_say_what_would_be_right() {
        let message = |text: &str| Spec::parse_list(text).unwrap_err().to_string();
        assert!(
            message("lur").starts_with(
                "policy 'lur': there is no such policy (did you mean lru?); known: opt fifo lifo"
            )
        );
        for (typed, meant) in
            [("clokpro", "clock-pro"), ("clockpro", "clock-pro"), ("Lru2", "lru-2"), ("s3fifo", "s3-fifo")]
        {
            assert!(
                message(typed).contains(&format!("did you mean {meant}?")),
                "{typed}: {}",
                message(typed)
            );
        }
        assert_eq!(
            message("clock:ini=1"),
            "policy 'clock': there is no parameter 'ini' (did you mean init?); its parameters: init, fill-init, settle"
        );
        assert_eq!(message("clock:init=2"), "policy 'clock': init=2: init takes on or off");
        assert_eq!(message("fifo:x=1"), "policy 'fifo': there is no parameter 'x'; its parameters: none");
        assert_eq!(message("clock-pro:preset=x"), "policy 'clock-pro': there is no preset 'x'");
        assert_eq!(message("lru:collapse=maybe"), "policy 'lru': collapse=maybe: collapse takes on or off");
        assert_eq!(message(" , "), "policy ' , ': no policy is named");
        assert_eq!(
            message("lru,wsclock"),
            "policy 'wsclock': is for many tasks in one memory; see sweephand multiprogram --policy wsclock"
        );
    }

    #[test]
    fn names_may_be_in_capitals() {
        let specs = Spec::parse_list("CLOCK:init=1,Clock-Pro").unwrap();
        assert_eq!(specs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["clock:init=1", "clock-pro"]);
    }

    #[test]
    fn arguments_beside_a_preset_win() {
        let spec = Spec::parse("clock-pro:history=2,preset=clockpro2005").unwrap();
        assert_eq!(spec.arguments().value("history"), "2");
        assert_eq!(spec.arguments().collapse(), Ok(Some(true)));
    }

    #[test]
    fn names_are_unique() {
        for (index, entry) in POLICIES.iter().enumerate() {
            assert!(POLICIES[..index].iter().all(|other| other.info.name != entry.info.name));
        }
    }
}
