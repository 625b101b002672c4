//! The recorder itself: a Valgrind tool, built on first use and kept in the user's cache directory.

use crate::error::{RecordError, system};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use sweephand_program::ownership;

/// The directory with the recorder, built if it is not there for these sources and this Valgrind.
/// `is_built` is called before that is done.
pub(crate) fn directory(is_built: &dyn Fn()) -> Result<PathBuf, RecordError> {
    let version = Command::new("valgrind").arg("--version").output();
    let Ok(version) = version else { return Err(RecordError::NoValgrind) };
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&version.stdout);
    sweephand_recorder::SOURCES.iter().for_each(|(_, text)| hash.update(text.as_bytes()));
    // This program will be run, so no other user may have put it there.
    let cache = ownership::cache_directory().map_err(RecordError::NoCache)?;
    let cache = ownership::owned_directory(&cache).map_err(RecordError::SharedCache)?;
    let built = cache.join(format!("recorder-{:016x}", hash.digest()));
    if let Ok(metadata) = built.metadata() {
        if metadata.is_dir() && ownership::is_owned(&metadata) {
            return Ok(built);
        }
        return Err(RecordError::SharedTool(built));
    }
    is_built();
    let not_written = |error| RecordError::NotWritten(cache.clone(), error);
    let workshop = tempfile::tempdir_in(&cache).map_err(not_written)?;
    let (sources, result) = (workshop.path().join("sources"), workshop.path().join("result"));
    fs::create_dir(&sources).map_err(not_written)?;
    for (name, text) in sweephand_recorder::SOURCES {
        fs::write(sources.join(name), text).map_err(not_written)?;
    }
    let mut build = Command::new("sh");
    build.arg(sources.join("build.sh")).args([&sources, &result]);
    // Whatever the mask for new files is.
    // SAFETY: between fork and exec it makes one system call.
    unsafe {
        build.pre_exec(|| {
            rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
            Ok(())
        });
    }
    let build = build.output().map_err(system("sh cannot be started"))?;
    if !build.status.success() {
        let said = String::from_utf8_lossy(&build.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").to_string();
        let last = first.rsplit('/').next().unwrap_or(&first).to_string();
        return Err(RecordError::NotBuilt(last));
    }
    // Another command may have been quicker: its result is the same.
    match fs::rename(&result, &built) {
        Err(error) if !built.is_dir() => Err(system(format!("{}: cannot be made", built.display()))(error)),
        _ => Ok(built),
    }
}
