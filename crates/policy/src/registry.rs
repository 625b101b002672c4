//! The list of all policies, and policies by name.
//!
//! The `catalogue` lists the policies that follow no other, and [`Auto`] follows those.
//!
//! The feature `registration` can add policies from outside ([`plugin`]) while the program runs.

use crate::arguments::{ArgumentError, Arguments};
use crate::catalogue;
pub use crate::catalogue::{Entry, Visitor, VmVisitor};
use crate::near::hint;
use crate::plugin::{self, Plugged, Plugin, Shown};
use crate::policies::Auto;
use crate::policies::learned::auto::EXPERTS;
pub use crate::registered::Registered;
use crate::{ExactModel, OfflineModel, VmModel, task_list};
use alloc::{
    format,
    string::{String, ToString},
    sync,
    vec::Vec,
};
use core::fmt;

/// Every policy, in the order of listings.
pub const POLICIES: &[Entry] = &{
    let mut all = [Entry::of::<Auto>(); catalogue::POLICIES.len() + 1];
    all.split_at_mut(catalogue::POLICIES.len()).0.copy_from_slice(catalogue::POLICIES);
    all
};

/// Calls the visitor with the type of the policy of that name.
pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
    if name == Auto::INFO.name {
        return Some(visitor.visit::<Auto>());
    }
    catalogue::visit(name, visitor)
}

/// Calls the visitor with the type of the [`VmModel`] policy of that name. `None` if there is none.
pub fn visit_vm<V: VmVisitor>(name: &str, visitor: V) -> Option<V::Output> {
    if name == Auto::INFO.name {
        return Some(visitor.visit::<Auto>());
    }
    catalogue::visit_vm(name, visitor)
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
    fn a_factor_may_be_at_its_limit_and_not_beyond() {
        for (parameter, most, more) in [
            ("acme:alpha", "1", "1.01"),
            ("apr:decay", "1", "1.01"),
            ("lecar:discount", "1", "1.01"),
            ("lecar:rate", "100", "100.1"),
            ("lrfu:lambda", "1", "1.01"),
        ] {
            let parsed = |value: &str| Spec::parse(&format!("{parameter}={value}"));
            assert!(parsed(most).is_ok(), "{parameter}={most}");
            let error = parsed(more).unwrap_err().to_string();
            assert!(error.contains(&format!("={more}: ")), "{error}");
            assert!(parsed("-0.1").is_err(), "{parameter}=-0.1");
        }
        for above_zero in ["acme:alpha", "lecar:discount"] {
            assert!(Spec::parse(&format!("{above_zero}=0")).is_err(), "{above_zero}");
        }
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
            assert!(
                POLICIES[..index].iter().all(|other| other.info.name != entry.info.name),
                "{}",
                entry.info.name
            );
        }
    }
}
