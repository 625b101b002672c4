//! The process that puts a cgroup's limit back when the one that lowered it has been killed: a
//! shell with a few lines to run.
//!
//! It is told each limit before that is written. At the end of its input, it looks whether the
//! limit is one of the last two that it was told: the last may not have been written any more. If
//! it is another, somebody else has set it, and it stays.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `$1`: the file with the limit. `$2`: what it had at first. `$3`: `memory.oom_control` if it is 0
/// otherwise, or nothing.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
last=
before=
while read -r line; do
    before=$last
    last=$line
done
[ "$last" = done ] && exit 0
if read -r now < "$1"; then
    if [ "$now" = "$last" ] || [ "$now" = "$before" ]; then echo "$2" > "$1"; fi
fi
if [ -n "$3" ] && [ -w "$3" ]; then echo 0 > "$3"; fi
"#;

/// The process. If it is not told that it is done, it puts the limit back when this one ends.
#[derive(Debug)]
pub(crate) struct Tidy {
    shell: Child,
}

impl Tidy {
    /// Starts it, before the limit is changed. `lock`: what keeps others from changing the limit.
    pub(crate) fn start(
        file: &Path,
        original: &str,
        oom_control: Option<&Path>,
        lock: OwnedFd,
    ) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sweephand-tidy"])
            .args([file.into(), original.into(), oom_control.map_or_else(OsString::new, OsString::from)])
            // Nothing of the user's environment says how a shell does this.
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            // So that the terminal's signals do not reach it.
            .process_group(0)
            .stdin(Stdio::piped())
            // It prints nothing. So the lock is held until it has put the limit back.
            .stdout(Stdio::from(lock))
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell })
    }

    /// Says which limit will be written next.
    pub(crate) fn announce(&mut self, limit_bytes: u64) -> io::Result<()> {
        self.say(&format!("{limit_bytes}\n"))
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.shell.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(line.as_bytes()))
    }

    /// As if this process were killed: waits until it has put the limit back.
    #[cfg(test)]
    pub(crate) fn leave(mut self) {
        drop(self.shell.stdin.take());
        assert!(self.shell.wait().unwrap().success());
    }

    /// The limit is as it was.
    pub(crate) fn finish(mut self) {
        // If it has been killed, there is nobody to tell.
        let _ = self.say("done\n");
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
