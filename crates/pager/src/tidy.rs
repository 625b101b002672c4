//! Cgroups and swap files outlive the process that made them. So a second process, a shell with a few lines to run, waits
//! for that one to end, by whichever signal, and removes them.
//!
//! What is left if this process is killed too: `sweephand-PID-N` among the cgroups (`rmdir`), `sweephand-PID-N.swap` where
//! the backing store would be (`swapoff`, `rm`).

use crate::cgroup::Cgroup;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `$1`: the cgroup. `$2`: where its processes go if they are to go on. `$3`: the swap file, or nothing.
///
/// Told `keep` or `end`, it does that with processes that are left. Told nothing, since who started it was killed, it leaves
/// half a second to their agents, which end them with a line that says why; under the kernel there are none.
///
/// A cgroup that processes are just leaving cannot be removed for a moment. A swap file in use is not removed, and one
/// that is not in use cannot be switched off.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
read -r how
tries=0
patience=0
[ -z "$how" ] && [ -z "$3" ] && patience=25
while [ -d "$1" ] && ! rmdir "$1" && [ $tries -lt 300 ]; do
    [ $tries -ge $patience ] && while read -r pid; do
        if [ "$how" = keep ]; then echo "$pid" > "$2/cgroup.procs"; else kill -s KILL "$pid"; fi
    done < "$1/cgroup.procs"
    sleep 0.02
    tries=$((tries + 1))
done
if [ -n "$3" ]; then
    swapoff "$3"
    rm -f "$3"
fi
[ ! -d "$1" ] && { [ -z "$3" ] || [ ! -e "$3" ]; }
"#;

/// The process that removes a cgroup, and a swap file, once this one has ended or does not need them any more.
#[derive(Debug)]
pub(crate) struct Tidy {
    shell: Option<Child>,
    cgroup: PathBuf,
    swap: Option<PathBuf>,
}

impl Tidy {
    /// To be called before there is a swap file.
    pub(crate) fn start(cgroup: &Cgroup, swap: Option<&Path>) -> io::Result<Self> {
        let started = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sweephand-tidy"])
            .args([cgroup.path(), cgroup.home()])
            .arg(swap.map_or(OsStr::new(""), Path::as_os_str))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            // So that the terminal's signals do not reach it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let shell = started.inspect_err(|_| {
            // Nobody is in it yet.
            let _ = std::fs::remove_dir(cgroup.path());
        })?;
        Ok(Self { shell: Some(shell), cgroup: cgroup.path().into(), swap: swap.map(Path::to_path_buf) })
    }

    /// Removes everything now. Processes of the program that are left go on, without a limit.
    pub(crate) fn finish(mut self) {
        self.end(b"keep\n");
    }

    fn end(&mut self, how: &[u8]) {
        let Some(mut shell) = self.shell.take() else { return };
        // The pipe is closed with the child's standard input, here or in `wait`.
        let told = shell.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(how));
        if told.is_err() || !shell.wait().is_ok_and(|status| status.success()) {
            let swap = self.swap.iter().map(|swap| format!("swapoff {0}; rm {0}; ", swap.display()));
            eprintln!(
                "sweephand: note: what the run needed could not be removed; as root: {}rmdir {}",
                swap.collect::<String>(),
                self.cgroup.display()
            );
        }
    }
}

/// When a run did not come to its end: its processes are ended.
impl Drop for Tidy {
    fn drop(&mut self) {
        self.end(b"end\n");
    }
}
