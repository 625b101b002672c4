//! Starts a program under what can page it: an agent inside it, or the kernel, directed from
//! outside.

use crate::error::RunError;
use crate::options::{Backend, Options};
use crate::program;
use crate::run::{Run, Running};
use crate::swap::SwapRun;
use std::ffi::OsString;
use std::process::Command;

/// A program that has started. If it can have no agent, so that `auto` had to choose the kernel's
/// paging: what keeps an agent out of the program, as the predicate of a sentence.
pub type Started = (Box<dyn Running>, Option<&'static str>);

/// Starts a program: its name, and its arguments. `prepare` sees to its streams and whatever else
/// is not paging.
///
/// | backend | policy | who pages |
/// |---|---|---|
/// | `swap` | | the kernel, directed |
/// | `auto` | none is named ([`Options::by_turns`]) | the kernel, directed where that is faster; an agent if the kernel cannot be directed here |
/// | `auto` | named | an agent; the kernel, directed, if the program can have no agent |
/// | others | | an agent |
///
/// # Errors
/// Those of [`Run::start`] and [`SwapRun::start`]. If a program can have no agent, and the kernel
/// cannot be directed either, the error says why there is no agent.
pub fn start(
    command: &[OsString],
    options: &Options,
    prepare: impl FnOnce(&mut Command),
) -> Result<Started, RunError> {
    if options.backend == Backend::Swap {
        return Ok((Box::new(SwapRun::start(command, options, prepare)?), None));
    }
    let mut prepare = Some(prepare);
    if options.backend == Backend::Auto {
        let name = command.first().map(OsString::as_os_str).unwrap_or_default();
        let nature = program::find(name).err().and_then(|error| error.nature());
        if options.by_turns || nature.is_some() {
            let directed = SwapRun::start(command, options, |command| {
                if let Some(prepare) = prepare.take() {
                    prepare(command);
                }
            });
            match directed {
                Ok(run) => return Ok((Box::new(run), nature)),
                Err(error) if prepare.is_none() => return Err(error),
                // It did not get as far as the program. An agent may, or says why it cannot.
                Err(RunError::Root | RunError::NoDirection(_)) => {}
                // No memory cgroup, no place for a swap file, and the like.
                Err(_) if nature.is_none() => {}
                Err(error) => return Err(error),
            }
        }
    }
    let prepare = |command: &mut Command| prepare.into_iter().for_each(|prepare| prepare(command));
    Ok((Box::new(Run::start(command, options, prepare)?), None))
}
