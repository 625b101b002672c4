//! Starts a program under what can page it: an agent inside it, or the kernel, directed from
//! outside.

use crate::error::RunError;
use crate::options::{Backend, Options};
use crate::program;
use crate::run::{Run, Running};
use crate::swap::{self, SwapRun};
use std::ffi::OsString;
use std::process::Command;

/// A program that has started. If `auto` chose the kernel's paging: what keeps an agent out of the
/// program, as the predicate of a sentence.
pub type Started = (Box<dyn Running>, Option<&'static str>);

/// Starts a program: its name, and its arguments. `prepare` sees to its streams and whatever else
/// is not paging.
///
/// # Errors
/// Those of [`Run::start`] and [`SwapRun::start`]. If a program can have no agent, and the kernel
/// cannot be directed either, the error says why there is no agent.
pub fn start(
    command: &[OsString],
    options: &Options,
    prepare: impl FnOnce(&mut Command),
) -> Result<Started, RunError> {
    let directed = |prepare| SwapRun::start(command, options, prepare).map(|run| Box::new(run) as Box<_>);
    if options.backend == Backend::Swap {
        return Ok((directed(prepare)?, None));
    }
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    if options.backend == Backend::Auto
        && let Some(nature) = program::find(name).err().and_then(|error| error.nature())
        && swap::check(&options.policy).is_ok()
    {
        return Ok((directed(prepare)?, Some(nature)));
    }
    Ok((Box::new(Run::start(command, options, prepare)?), None))
}
