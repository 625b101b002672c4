//! The policies of this crate that follow no other, each by its type, and what can be done with one
//! whose name is known.
//!
//! One line in [`policies!`](self) puts a policy on the command line, in `sweephand policies`, and
//! through the whole conformance suite. The [registry](crate::registry) adds those that follow
//! policies of this list.

use crate::arguments::Info;
use crate::policies::*;
use crate::registered::Registered;
use crate::settled::Settled;
use crate::{ExactModel, Model, OfflineModel, Policy, VmModel};

/// Something done with a policy of any type: the step from a name to static dispatch.
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

impl Entry {
    pub(crate) const fn of<P: Registered>() -> Self {
        Self {
            info: &P::INFO,
            model: <P::Model as Model>::NAME,
            runs_live: !<P::Model as Model>::SEES_HITS,
            not_sampled: P::NOT_SAMPLED,
            bytes_a_page: P::BYTES_A_PAGE,
            revision: P::REVISION,
        }
    }
}

macro_rules! policies {
    ($($policy:ty),+ $(,)?) => {
        /// The policies, in the order of listings.
        pub(crate) const POLICIES: &[Entry] = &[$(Entry::of::<$policy>()),+];

        /// Calls the visitor with the type of the policy of that name.
        pub(crate) fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$policy as Registered>::INFO.name {
                return Some(visitor.visit::<$policy>());
            })+
            None
        }

        /// Calls the visitor with the type of the [`VmModel`] policy of that name. `None` if there
        /// is none.
        pub(crate) fn visit_vm<V: VmVisitor>(name: &str, visitor: V) -> Option<V::Output> {
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
}
