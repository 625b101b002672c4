//! Policies from other crates and other languages.
//!
//! The [registry](crate::registry) knows the policies of this crate by type, and the compiler
//! builds a driver for each. A policy from outside is a [`Plugin`], which makes
//! [objects](PolicyObject). Each driver is compiled once for all objects ([`Plugged`]). It calls
//! the object where it would call a built-in policy directly: at faults in the VM model, at every
//! reference in the other models. Everything else is the same: the `conformance` suite, the
//! simulations, the command line.
//!
//! [`Spec::plugged`](crate::registry::Spec::plugged) makes a [`Spec`](crate::registry::Spec) for a
//! plugin. Once the plugin is [registered](crate::registry::register), its name does too.

use crate::arguments::{ArgumentError, Arguments, Info};
use crate::registered::Registered;
use crate::{ColdAllocation, Leader, Mmu, Model, PageId, Policy, Reference, Violation};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;

/// A kind of policy from elsewhere.
pub trait Plugin: fmt::Debug + Send + Sync {
    /// Name, paper, parameters.
    fn info(&self) -> &'static Info;

    /// What its policies have to be shown.
    fn shown(&self) -> Shown;

    /// Whether [`Reference::page_number`] and [`Reference::object`] matter to its policies.
    fn needs_places(&self) -> bool;

    /// [`Registered::REVISION`].
    fn revision(&self) -> u32 {
        1
    }

    /// Makes a policy for `frames` >= 1 page frames.
    fn make(&self, frames: usize, arguments: &Arguments) -> Result<Box<dyn PolicyObject>, ArgumentError>;

    /// Does some work in which its policies are called often: for those that have to get ready for
    /// that.
    fn during(&self, work: &mut dyn FnMut()) {
        work();
    }
}

/// The models, as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// [`VmModel`](crate::VmModel).
    Faults,
    /// [`ExactModel`](crate::ExactModel).
    Hits,
    /// [`OfflineModel`](crate::OfflineModel).
    Future,
}

impl Shown {
    /// What a model shows.
    pub const fn by<M: Model>() -> Self {
        match (M::SEES_HITS, M::SEES_FUTURE) {
            (false, _) => Self::Faults,
            (true, false) => Self::Hits,
            (true, true) => Self::Future,
        }
    }

    /// [`Model::NAME`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faults => <crate::VmModel as Model>::NAME,
            Self::Hits => <crate::ExactModel as Model>::NAME,
            Self::Future => <crate::OfflineModel as Model>::NAME,
        }
    }
}

/// A [`Policy`] as an object: the same methods.
///
/// An object that cannot continue panics with [`Failed`]. The function that started the simulation
/// catches that.
#[expect(missing_docs, reason = "the methods of Policy")]
pub trait PolicyObject: Send {
    fn fault(&mut self, reference: Reference);
    fn victim(&mut self, mmu: &mut dyn Mmu) -> Option<PageId>;
    fn evict(&mut self, page: PageId);
    fn insert(&mut self, reference: Reference, mmu: &mut dyn Mmu) -> bool;
    fn hit(&mut self, reference: Reference);
    fn remove(&mut self, page: PageId);
    fn assign(&mut self, page: PageId, object: u32, mmu: &mut dyn Mmu);
    fn renumber(&mut self, page: PageId, page_number: u64);
    fn free_object(&mut self, object: u32);
    fn hand_steps(&self) -> u64;
    fn cold_allocation(&self) -> Option<ColdAllocation>;
    fn leader(&self) -> Option<Leader> {
        None
    }
    fn check(&self) -> Result<(), Violation>;
}

impl Mmu for &mut dyn Mmu {
    #[inline]
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        (**self).test_and_clear_referenced(page)
    }
}

impl<P: Policy + Send> PolicyObject for P {
    fn fault(&mut self, reference: Reference) {
        Policy::fault(self, reference);
    }
    fn victim(&mut self, mut mmu: &mut dyn Mmu) -> Option<PageId> {
        Policy::victim(self, &mut mmu)
    }
    fn evict(&mut self, page: PageId) {
        Policy::evict(self, page);
    }
    fn insert(&mut self, reference: Reference, mut mmu: &mut dyn Mmu) -> bool {
        Policy::insert(self, reference, &mut mmu)
    }
    fn hit(&mut self, reference: Reference) {
        Policy::hit(self, reference);
    }
    fn remove(&mut self, page: PageId) {
        Policy::remove(self, page);
    }
    fn assign(&mut self, page: PageId, object: u32, mut mmu: &mut dyn Mmu) {
        Policy::assign(self, page, object, &mut mmu);
    }
    fn renumber(&mut self, page: PageId, page_number: u64) {
        Policy::renumber(self, page, page_number);
    }
    fn free_object(&mut self, object: u32) {
        Policy::free_object(self, object);
    }
    fn hand_steps(&self) -> u64 {
        Policy::hand_steps(self)
    }
    fn cold_allocation(&self) -> Option<ColdAllocation> {
        Policy::cold_allocation(self)
    }
    fn leader(&self) -> Option<Leader> {
        Policy::leader(self)
    }
    fn check(&self) -> Result<(), Violation> {
        Policy::check(self)
    }
}

/// What a [`PolicyObject`] panics with when it cannot go on: why, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed(pub String);

/// Any [`PolicyObject`] of a model, as a policy. `PLACES`: whether page numbers and objects matter
/// to it.
pub struct Plugged<M, const PLACES: bool>(Box<dyn PolicyObject>, PhantomData<M>);

impl<M, const PLACES: bool> fmt::Debug for Plugged<M, PLACES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugged").finish_non_exhaustive()
    }
}

impl<M: Model + Send + 'static, const PLACES: bool> Registered for Plugged<M, PLACES> {
    /// That of all of them: a spec of one has its own.
    const INFO: Info = Info { name: "plugin", summary: "", paper: "", parameters: &[], presets: &[] };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let plugin = behind(arguments).expect("the spec is a plugin's");
        Ok(Self(plugin.make(frames, arguments)?, PhantomData))
    }
}

impl<M: Model, const PLACES: bool> Policy for Plugged<M, PLACES> {
    type Model = M;
    const NEEDS_PAGE_NUMBERS: bool = PLACES;
    const NEEDS_OBJECTS: bool = PLACES;

    #[inline]
    fn fault(&mut self, reference: Reference) {
        self.0.fault(reference);
    }
    #[inline]
    fn victim<T: Mmu>(&mut self, mmu: &mut T) -> Option<PageId> {
        self.0.victim(mmu)
    }
    #[inline]
    fn evict(&mut self, page: PageId) {
        self.0.evict(page);
    }
    #[inline]
    fn insert<T: Mmu>(&mut self, reference: Reference, mmu: &mut T) -> bool {
        self.0.insert(reference, mmu)
    }
    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.0.hit(reference);
    }
    fn remove(&mut self, page: PageId) {
        self.0.remove(page);
    }
    fn assign<T: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut T) {
        self.0.assign(page, object, mmu);
    }
    fn renumber(&mut self, page: PageId, page_number: u64) {
        self.0.renumber(page, page_number);
    }
    fn free_object(&mut self, object: u32) {
        self.0.free_object(object);
    }
    fn hand_steps(&self) -> u64 {
        self.0.hand_steps()
    }
    fn cold_allocation(&self) -> Option<ColdAllocation> {
        self.0.cold_allocation()
    }
    fn leader(&self) -> Option<Leader> {
        self.0.leader()
    }
    fn check(&self) -> Result<(), Violation> {
        self.0.check()
    }
}

/// The arguments in `text` (`name=value,name=value`) for a policy of a plugin.
pub(crate) fn arguments(plugin: Arc<dyn Plugin>, text: &str) -> Result<Arguments, ArgumentError> {
    Ok(Arguments::parse(plugin.info(), text)?.made_by(plugin))
}

/// The plugin whose policy the arguments are for; `None` for a policy of this crate.
pub(crate) fn behind(arguments: &Arguments) -> Option<&Arc<dyn Plugin>> {
    arguments.maker()
}

/// A policy of another crate, by its type.
struct Kind<P>(PhantomData<fn() -> P>);

impl<P> fmt::Debug for Kind<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::any::type_name::<P>())
    }
}

impl<P: Registered + Send + 'static> Plugin for Kind<P> {
    fn info(&self) -> &'static Info {
        &P::INFO
    }
    fn shown(&self) -> Shown {
        Shown::by::<P::Model>()
    }
    fn needs_places(&self) -> bool {
        P::NEEDS_PAGE_NUMBERS || P::NEEDS_OBJECTS
    }
    fn revision(&self) -> u32 {
        P::REVISION
    }
    fn make(&self, frames: usize, arguments: &Arguments) -> Result<Box<dyn PolicyObject>, ArgumentError> {
        Ok(Box::new(P::configure(frames, arguments)?))
    }
}

/// The plugin of a policy of another crate.
pub fn plugin<P: Registered + Send + 'static>() -> impl Plugin {
    Kind::<P>(PhantomData)
}

#[cfg(test)]
mod tests {
    use super::Plugged;
    use crate::VmModel;
    use crate::told::expect_all_passed_on;
    use core::marker::PhantomData;

    #[test]
    fn a_policy_from_elsewhere_is_told_everything_and_its_answers_come_back() {
        expect_all_passed_on(|told| Plugged::<VmModel, true>(Box::new(told), PhantomData));
    }
}
