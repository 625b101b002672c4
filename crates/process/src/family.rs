//! A process and those that it has started, as `/proc` tells.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// The unit of times in `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);

/// The processes that a process has started and that are there.
pub fn children(process: u32) -> Vec<u32> {
    let lists = threads(process)
        .into_iter()
        .map(|thread| fs::read_to_string(format!("/proc/{process}/task/{thread}/children")));
    lists
        .flat_map(|list| {
            let list = list.unwrap_or_default();
            list.split_whitespace().map_while(|word| word.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// A process, its children, theirs and so on. Without those whose parent has ended.
pub fn members(process: u32) -> Vec<u32> {
    let mut members = vec![process];
    let mut next = 0;
    while next < members.len() {
        members.extend(children(members[next]));
        next += 1;
    }
    members
}

/// The threads of a process.
pub fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Bytes of anonymous memory that a process has mapped. Of pages that processes share after a fork,
/// each counts them.
pub fn anonymous_bytes(process: u32) -> u64 {
    // Pages of all kinds, and those of files and shared memory.
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let mut numbers = text.split(' ').skip(1).map_while(|word| word.parse::<u64>().ok());
    let (all, of_files) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    all.saturating_sub(of_files) * PAGE_BYTES
}

/// What `/proc/PID/stat` says behind the program's name: its state, its parent and so on. `None`:
/// the process has ended.
fn stat(process: u32) -> Option<String> {
    let mut text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let name_end = text.rfind(')')? + 1;
    Some(text.split_off(name_end))
}

/// When a process started, from the start of the machine, in steps of 10 ms. `None`: it has ended.
pub fn started(process: u32) -> Option<Duration> {
    let text = stat(process)?;
    let mut words = text.split_whitespace();
    let state = words.next()?;
    let threads: u32 = words.nth(16)?.parse().ok()?;
    // Nobody has waited for it yet. If it has other threads, only the first one has ended.
    let has_ended = state == "Z" && threads <= 1;
    let ticks: u64 = words.nth(1)?.parse().ok()?;
    (!has_ended).then_some(Duration::from_millis(TICK.as_millis() as u64 * ticks))
}

/// Minor and major page faults of a process until now. `None`: it has ended.
pub fn faults(process: u32) -> Option<(u64, u64)> {
    let text = stat(process)?;
    let mut words = text.split_whitespace();
    let minor = words.nth(7)?.parse().ok()?;
    let major = words.nth(1)?.parse().ok()?;
    Some((minor, major))
}

/// Whether a process has the same memory as its parent. `false` if the kernel does not say.
pub fn shares_memory_with_parent(process: u32) -> bool {
    /// Compares address spaces; see `kcmp(2)`.
    const KCMP_VM: libc::c_long = 1;
    let text = stat(process).unwrap_or_default();
    let parent = text.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
    let Some(parent) = parent else { return false };
    let (one, other) = (libc::c_long::from(process), libc::c_long::from(parent));
    // SAFETY: no memory is concerned.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}

/// User time of a process until now, in steps of 10 ms; 0 if it has ended.
fn user_time(process: u32) -> Duration {
    let text = stat(process).unwrap_or_default();
    TICK * text.split_whitespace().nth(11).and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// User time of many processes. It never becomes less: what a process has had stays in the sum when
/// it ends. What a process has between the last look and its end is not in it.
#[derive(Debug, Default)]
pub struct UserTimes {
    latest: HashMap<u32, Duration>,
    sum: Duration,
}

impl UserTimes {
    /// Looks at the processes that are there now. Returns what all have had so far.
    pub fn look(&mut self, processes: &[u32]) -> Duration {
        let latest: HashMap<u32, Duration> =
            processes.iter().map(|&process| (process, user_time(process))).collect();
        for (process, now) in &latest {
            self.sum += now.saturating_sub(self.latest.get(process).copied().unwrap_or_default());
        }
        self.latest = latest;
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn a_process_is_known_with_its_threads_children_and_memory() {
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().expect("sleep");
        let (found, threads) = (members(own), threads(own));
        let (bytes, (minor, _)) = (anonymous_bytes(own), faults(own).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&own) && found.contains(&child.id()), "{found:?}");
        assert!(threads.contains(&own) && threads.len() > 1, "a test has a thread of its own: {threads:?}");
        assert!(bytes > 100 << 10 && minor > 50, "{bytes} {minor}");
        assert_eq!(faults(child.id()), None);
    }

    #[test]
    fn a_child_has_its_parents_memory_or_its_own() {
        extern "C" fn wait_for_the_end(_: *mut libc::c_void) -> libc::c_int {
            // SAFETY: no memory is concerned.
            unsafe { libc::pause() }
        }
        let own = std::process::id();
        let mut stack = vec![0_u128; 4096];
        // SAFETY: the child has a stack of its own, does nothing, and is ended below.
        let sharing = unsafe {
            let top = stack.as_mut_ptr().add(stack.len()).cast();
            libc::clone(wait_for_the_end, top, libc::CLONE_VM | libc::SIGCHLD, std::ptr::null_mut())
        };
        let shares = shares_memory_with_parent(sharing as u32);
        // SAFETY: the child is this process's.
        let ended = unsafe {
            libc::kill(sharing, libc::SIGKILL);
            libc::waitpid(sharing, std::ptr::null_mut(), 0)
        };
        assert!(sharing > 0 && ended == sharing);
        let mut child = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().expect("sleep");
        let does_not = !shares_memory_with_parent(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(does_not && !shares_memory_with_parent(own));
        // A kernel without the call says that nothing is shared.
        // SAFETY: no memory is concerned.
        let can_compare = unsafe { libc::syscall(libc::SYS_kcmp, own, own, 1, 0, 0) == 0 };
        assert_eq!(shares, can_compare);
    }

    #[test]
    fn user_time_of_processes_that_have_ended_stays_in_the_sum() {
        let (began, mut times) = (Instant::now(), UserTimes::default());
        let waits = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read line";
        let mut child = Command::new("sh").args(["-c", waits]).stdin(Stdio::piped()).spawn().expect("sh");
        let mut user = Duration::ZERO;
        while user.is_zero() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
            user = times.look(&[child.id()]);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!user.is_zero() && user < began.elapsed(), "{user:?}");
        assert!(times.look(&[child.id()]) >= user && times.look(&[]) >= user, "it has ended");
    }
}
