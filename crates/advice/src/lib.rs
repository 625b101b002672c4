//! Advice on a trace: how much memory its program needs, and which policy suits it.
//!
//! - [`POLICIES`] and [`SIZES`] are what is simulated unless something else is asked for.
//! - [`CurveStudy`] simulates policies at memory sizes, and draws the [`Conclusion`] from the fault
//!   curves.
//! - [`Advice`] is what that comes to, in five lines.
//! - [`Budget`] says whether the program keeps to a budget of memory.
//! - [`FaultsInCode`] says at which lines of the program the faults are, and what to change there.
//! - [`Leaders`] says which policy `auto` follows at each memory size.
//! - [`Slowdown`] is the least memory in which the program is hardly slower, with limits to set.
//! - [`Compression`] is what compressed memory before a disk would do, zswap's or zram's.
//! - [`TraceDiff`] holds two traces side by side.
//! - [`OverTime`] says what is missed in each window of the trace.
//! - [`Study`] adds what a report on the trace shows: faults by object and by line ([`CodeStudy`]),
//!   distances, pictures.
#![forbid(unsafe_code)]

mod advice;
mod budget;
mod by_object;
mod code;
mod compression;
mod conclusion;
mod curve_study;
mod faults_in_code;
mod leaders;
mod object_study;
mod over_time;
mod pprof;
mod request;
mod seconds;
mod slowdown;
mod study;
mod trace_diff;

pub use advice::Advice;
pub use budget::Budget;
pub use by_object::{Action, ObjectAdvice, advice_by_object};
pub use code::{CodeStudy, Flame, StudiedLine};
pub use compression::{AdvisedPool, CompressedMemory, Compression, MOST_INCOMPRESSIBLE_PERCENT, PAYS};
pub use conclusion::{
    Comparison, Conclusion, Curve, Curves, Enough, NEARLY_ALL, SLACK, Sentences, WORTH_IT, percent,
};
pub use curve_study::{CurveStudy, launcher, short_name};
pub use faults_in_code::FaultsInCode;
pub use leaders::{Leaders, LeadersAtSize};
pub use object_study::{ObjectStudy, StudiedObject, StudiedPlace};
pub use over_time::OverTime;
pub use request::{POLICIES, RequestError, SIZES, check, sizes};
pub use seconds::DeviceSeconds;
pub use slowdown::{LeastMemory, Slowdown, docker_limit, kernel_policy, kubernetes_limits};
pub use study::{Distances, Study};
pub use trace_diff::{Changed, DIFF_POLICIES, DiffError, DiffSide, TraceDiff};
