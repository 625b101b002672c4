//! A policy as it was asked for, made for a number of frames.

use sweephand_pager_interface::spec::LiveSpec;
use sweephand_policy::plugin::PolicyObject;
use sweephand_policy::registry::{Registered, VmVisitor};
use sweephand_policy::{ArgumentError, Arguments, Policy, VmModel};

/// A policy.
pub(crate) struct Made {
    pub(crate) policy: Box<dyn PolicyObject>,
    /// Whether it goes by objects.
    pub(crate) needs_objects: bool,
}

/// Makes a policy, and says whether it goes by objects.
pub(crate) fn make(spec: &LiveSpec, frames: usize) -> Option<Result<Made, ArgumentError>> {
    struct Make<'a>(&'a Arguments, usize);
    impl VmVisitor for Make<'_> {
        type Output = Result<Made, ArgumentError>;
        fn visit<P: Registered<Model = VmModel> + Send + 'static>(self) -> Self::Output {
            let policy = P::configure(self.1, self.0)?;
            Ok(Made { policy: Box::new(policy), needs_objects: <P as Policy>::NEEDS_OBJECTS })
        }
    }
    spec.visit(Make(spec.arguments(), frames))
}
