//! What to type where only root may do something.

use std::ffi::OsString;
use sweephand_pager::RunError;
use sweephand_process::limit::LimitError;
use sweephand_watch::WatchError;

/// The same command line for root, if an error says that root is needed.
pub(crate) fn hint(error: &anyhow::Error, words: &[OsString]) -> Option<String> {
    let is_for_root = error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(RunError::Root))
            || matches!(cause.downcast_ref(), Some(WatchError::Root))
            || matches!(cause.downcast_ref(), Some(LimitError::NoPermission(..)))
    });
    if !is_for_root || rustix::process::geteuid().is_root() {
        return None;
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let line = shlex::try_join(words.iter().map(AsRef::as_ref)).ok()?;
    Some(format!("sudo {line}"))
}
