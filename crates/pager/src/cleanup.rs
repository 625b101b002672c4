//! Cgroups, swap areas and the run's directory outlive the process that made them. So a second
//! process, a shell with a few lines to run, waits for that one to end, by whichever signal, and
//! removes them.
//!
//! It also sees to it that idle processors of a virtual machine look out for work for a moment
//! before they halt, as long as the run lasts. Each fault has a thread of the program wait for the
//! pager, and the pager for the disk, and to wake a processor that has halted takes about as long
//! as the read. The kernel does so by default, for 200 microseconds at most
//! (`Documentation/virt/guest-halt-polling.rst` in Linux); some machines are set up without. A run
//! under the kernel's own replacement gets the same.
//!
//! If the process is killed, the command starts another one at its end. What is left if both are
//! killed: `sweephand-PID-N` among the cgroups (`rmdir`), `sweephand-PID-N.swap` and
//! `sweephand-PID-N.second.swap` where the backing store would be (`swapoff`, `rm`), zram devices
//! among the swap areas (`swapoff`, `hot_remove`), and `sweephand-PID-RANDOM` where `run_directory`
//! says (`rm -r`).

use crate::run_directory::RunDirectory;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use sweephand_process::cgroup::Cgroup;

/// For how long idle processors of this virtual machine look out for work before they halt.
const HALT_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
/// For how long they should: the kernel's own default.
const HALT_POLL_NS: &str = "200000";

/// `$1`: the cgroup. `$2`: where its processes go if they are to go on. `$3`: the swap file; a
/// second one has its name with `.second` in it. `$4`: the run's directory. Each may be empty.
/// `$5`: the file that says for how long idle processors look out for work, in nanoseconds, and
/// `$6`: for how long they should.
///
/// Told `zram` and a number, once or more often, it removes these devices, too. Told `keep` or
/// `end`, it does that with processes that are left. Told nothing more, since who started it was
/// killed, it leaves half a second to their agents, which end them with a line that says why; under
/// the kernel there are none.
///
/// A cgroup that processes are just leaving cannot be removed for a moment. A swap area in use is
/// not removed, and one that is not in use cannot be switched off. Switching one off may also fail
/// because memory is short: that of the machine, or that of another cgroup which is full, and whose
/// pages the kernel has put there. So after five seconds a process of its own goes on trying.
///
/// Where processes go on, or may, one of them may just be about to begin a program with the run's
/// library. It is left there for a second: a process of its own sees to that.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
polls=
if [ -w "$5" ]; then
    read -r polls < "$5"
    if [ "$polls" -lt "$6" ]; then echo "$6" > "$5"; else polls=; fi
fi
how=
zram=
while [ -z "$how" ] && read -r word number; do
    if [ "$word" = zram ]; then zram="$zram $number"; else how=$word; fi
done
if [ -n "$polls" ]; then echo "$polls" > "$5"; fi
tries=0
patience=0
left=
[ -n "$1" ] || left=1
[ -z "$how" ] && [ -z "$3" ] && patience=25
while [ -d "$1" ] && ! rmdir "$1" && [ $tries -lt 300 ]; do
    [ $tries -ge $patience ] && while read -r pid; do
        if [ "$how" = keep ]; then
            left=1
            echo "$pid" > "$2/cgroup.procs"
        else
            kill -s KILL "$pid"
        fi
    done < "$1/cgroup.procs"
    sleep 0.02
    tries=$((tries + 1))
done
is_on() { grep -qsF "$(printf %s "$1" | sed 's/ /\\040/g') " /proc/swaps; }
switch_off() {
    tries=0
    while ! swapoff "$1" && [ $tries -lt "$2" ] && is_on "$1"; do
        sleep "$3"
        tries=$((tries + 1))
    done
}
stuck=
for number in $zram; do
    tries=0
    while [ -d "/sys/block/zram$number" ]; do
        swapoff "/dev/zram$number"
        # From now on, another run may have a device of this number.
        if echo "$number" > /sys/class/zram-control/hot_remove; then break; fi
        tries=$((tries + 1))
        if [ $tries -eq 100 ]; then stuck=1; break; fi
        sleep 0.1
    done
done
second=
[ -n "$3" ] && second=${3%.swap}.second.swap
for area in "$second" "$3"; do
    if [ -n "$area" ] && { [ -e "$area" ] || is_on "$area"; }; then
        switch_off "$area" 50 0.1
        if is_on "$area"; then
            (switch_off "$area" 3600 1; rm -f "$area") &
        else
            rm -f "$area"
        fi
    fi
done
if [ -n "$left" ] && [ -d "$4" ]; then
    (sleep 1; rm -rf "$4") &
else
    rm -rf "$4"
fi
is_gone() { [ -z "$1" ] || [ ! -e "$1" ]; }
[ -z "$stuck" ] && is_gone "$1" && is_gone "$3" && is_gone "$second" && { [ -n "$left" ] || is_gone "$4"; }
"#;

/// Waits until the process that has just been started has idle processors look out for work, if it
/// may: until then, to wake one takes longer than during the run.
pub(crate) fn wait_for_polling() {
    const PATIENCE: Duration = Duration::from_millis(50);
    let wanted: u64 = HALT_POLL_NS.parse().unwrap_or_default();
    let halts = || {
        let set_up = fs::read_to_string(HALT_POLL).ok().and_then(|ns| ns.trim().parse().ok());
        set_up.is_some_and(|ns: u64| ns < wanted)
    };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let began = Instant::now();
    while halts() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts the process that runs `SCRIPT`, which says what its arguments are.
fn start_shell(arguments: &[OsString]) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", SCRIPT, "sweephand-tidy"])
        .args(arguments)
        // Nothing of the user's environment says how a shell does this.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        // So that the terminal's signals do not reach it.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The process that removes a cgroup, swap areas and a run's directory, once this one has ended or
/// does not need them any more.
#[derive(Debug)]
pub(crate) struct Cleanup {
    shell: Option<Child>,
    /// What the shell was started with.
    arguments: Vec<OsString>,
    /// What it was told afterwards.
    told: String,
    /// How to remove by hand what it could not.
    by_hand: String,
}

impl Cleanup {
    /// To be called before there is a swap file or a directory.
    pub(crate) fn start(
        cgroup: Option<&Cgroup>,
        swap: Option<&Path>,
        directory: Option<&RunDirectory>,
    ) -> io::Result<Self> {
        let path = |path: Option<&Path>| path.map_or_else(OsString::new, OsString::from);
        let arguments = vec![
            path(cgroup.map(Cgroup::path)),
            path(cgroup.map(Cgroup::home)),
            path(swap),
            path(directory.map(RunDirectory::path)),
            HALT_POLL.into(),
            HALT_POLL_NS.into(),
        ];
        let shell = start_shell(&arguments).inspect_err(|_| {
            // No process is in it yet.
            cgroup.map(|cgroup| std::fs::remove_dir(cgroup.path()));
        })?;
        let swap = swap.map(|swap| format!("swapoff {0}; rm {0}", swap.with_extension("*swap").display()));
        let cgroup = cgroup.map(|cgroup| format!("rmdir {}", cgroup.path().display()));
        let directory = directory.map(|directory| format!("rm -r {}", directory.path().display()));
        let by_hand: Vec<String> = [swap, cgroup, directory].into_iter().flatten().collect();
        Ok(Self { shell: Some(shell), arguments, told: String::new(), by_hand: by_hand.join("; ") })
    }

    /// It removes the zram device with this number, too.
    pub(crate) fn also_remove(&mut self, number: u32) -> io::Result<()> {
        let order = format!("zram {number}\n");
        self.told += &order;
        self.by_hand = format!(
            "swapoff /dev/zram{number}; echo {number} > /sys/class/zram-control/hot_remove; {}",
            self.by_hand
        );
        let stdin = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        stdin.map_or(Ok(()), |stdin| stdin.write_all(order.as_bytes()))
    }

    /// Removes everything now. Processes of the program that are left go on, without a limit.
    pub(crate) fn finish(mut self) {
        self.end("keep\n");
    }

    fn end(&mut self, how: &str) {
        let Some(shell) = self.shell.take() else { return };
        let orders = format!("{}{how}", self.told);
        let tell = |mut shell: Child| {
            // The pipe is closed with the child's standard input, here or in `wait`. A shell that
            // cannot be told has been killed, which its status says.
            let _ = shell.stdin.take().map(|mut stdin| stdin.write_all(orders.as_bytes()));
            shell.wait()
        };
        let mut status = tell(shell);
        if status.as_ref().is_ok_and(|status| status.code().is_none()) {
            status = start_shell(&self.arguments).and_then(tell);
        }
        if !status.is_ok_and(|status| status.success()) {
            // If standard error cannot be written, the message is lost.
            let _ = writeln!(
                std::io::stderr(),
                "sweephand: note: what the run needed could not be removed yet. A swap file is tried again for an \
                 hour; by hand: {}",
                self.by_hand
            );
        }
    }
}

/// When a run did not come to its end: its processes are ended.
impl Drop for Cleanup {
    fn drop(&mut self) {
        self.end("end\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use sweephand_checks::{Need, skip};

    fn is_on(area: &Path) -> bool {
        // The kernel writes a space so.
        let name = area.to_string_lossy().replace(' ', "\\040");
        fs::read_to_string("/proc/swaps").is_ok_and(|areas| areas.contains(&name))
    }

    /// A swap area on a disk, with a space in its name. `None`: there can be none here.
    fn swap_area(folder: &Path) -> Option<PathBuf> {
        let area = folder.join("an area.swap");
        fs::write(&area, vec![1; 1 << 20]).unwrap();
        fs::set_permissions(&area, Permissions::from_mode(0o600)).unwrap();
        let does =
            |command: &str| Command::new(command).arg(&area).output().is_ok_and(|made| made.status.success());
        (does("mkswap") && does("swapon")).then_some(area)
    }

    /// A swap area that cannot be switched off in five seconds is removed as soon as it can.
    #[test]
    fn a_swap_area_is_tried_again_until_it_can_be_switched_off() {
        let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let Some(area) = swap_area(folder.path()) else { return skip(Need::Swap, "no swap area") };
        let (hindrance, switch) = (folder.path().join("hindrance"), folder.path().join("swapoff"));
        fs::write(&hindrance, "").unwrap();
        let refuse = format!("#!/bin/sh\n[ ! -e '{}' ] && exec /sbin/swapoff \"$1\"\n", hindrance.display());
        fs::write(&switch, refuse).unwrap();
        fs::set_permissions(&switch, Permissions::from_mode(0o755)).unwrap();
        let mut tidy = Command::new("/bin/sh");
        tidy.args(["-c", SCRIPT, "sweephand-tidy", "", ""]).arg(&area).args(["", "", ""]);
        tidy.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.path().display()));
        let mut tidy = tidy.stdin(Stdio::piped()).spawn().unwrap();
        tidy.stdin.take().unwrap().write_all(b"keep\n").unwrap();
        let ended = tidy.wait().unwrap();
        assert!(!ended.success() && area.exists() && is_on(&area), "{ended}");
        fs::remove_file(hindrance).unwrap();
        let start = Instant::now();
        while area.exists() || is_on(&area) {
            assert!(start.elapsed() < Duration::from_secs(60), "it is still there");
            thread::sleep(Duration::from_millis(50));
        }
    }
}
