//! Seconds from page faults: how long a program would take in less memory, on a given device.
//!
//! - A [`Device`] is what pages go to, in a few figures: five devices are built in, others come
//!   from TOML files.
//! - [`calibrate`] measures the figures of the device that a directory is on.
//! - [`measured_swap`] is the device that was measured, if the machine swaps to it.
//! - [`Paging`] is what moves the pages: Sweephand's pager, or the kernel. Its costs were measured.
//! - [`TimeModel`] puts these beside a trace. It watches simulations and adds up the time for which
//!   the program would wait; [`Prediction`] is that with the processor time.
//! - [`TierCosts`] are those of each step of paging to compressed memory and a disk behind it.
#![forbid(unsafe_code)]

mod calibrate;
mod device;
mod model;
mod observer;
mod paging;
mod space;
mod swap;
mod swap_in;
mod tiers;

pub use calibrate::{CalibrationError, calibrate};
pub use device::{BUILT_IN, Device, DeviceError, Figures, MEASURED, Measurement, measured_path};
pub use model::{ASSUMED_INSTRUCTIONS_PER_SECOND, ModelError, Prediction, TimeModel};
pub use paging::Paging;
pub use swap::measured_swap;
pub use tiers::{POOL_DEVICE, TierCosts};
