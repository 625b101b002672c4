//! The extension module of the Python package `sweephand`.
//!
//! `python/package/sweephand` is the public interface, with its documentation. It calls this
//! module, whose types are in `_sweephand.pyi`. While traces are read and simulated, other Python
//! threads can run (`wait`). Results are columns (`table`), and errors are exceptions with the
//! command's messages (`error`).

mod command;
mod error;
mod generate;
mod multiprogram;
mod policy;
mod simulate;
mod study;
mod sweep;
mod table;
mod trace;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _sweephand {
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::error::SweephandError;
    #[pymodule_export]
    use crate::generate::generate;
    #[pymodule_export]
    use crate::multiprogram::multiprogram;
    #[pymodule_export]
    use crate::policy::{Mmu, PyReference, check};
    #[pymodule_export]
    use crate::simulate::{reuse_distances, simulate};
    #[pymodule_export]
    use crate::study::{advise, info, policies, report};
    #[pymodule_export]
    use crate::sweep::{Dataset, Hasher, Plan, check_hash, is_url, run_cell, serve};
    #[pymodule_export]
    use crate::trace::Trace;
    #[pymodule_export]
    use crate::wait::bounded_threads;

    #[pymodule_export]
    const POLICIES: &str = sweephand_sim::DEFAULT_POLICIES;
    #[pymodule_export]
    const SIZES: &str = sweephand_sim::DEFAULT_SIZES;
    #[pymodule_export]
    const STUDY_POLICIES: &str = sweephand_advice::POLICIES;
    #[pymodule_export]
    const STUDY_SIZES: &str = sweephand_advice::SIZES;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
