//! A tree of files stands for the mount: the kernel's part is to keep what is written.

use super::*;
use std::time::{Duration, Instant};
use sweephand_checks::trying;

const MIB: u64 = 1 << 20;
/// What version 1 has for no limit.
const NO_LIMIT: &str = "9223372036854771712";

/// A mount with the cgroup of a service.
struct Mount(tempfile::TempDir);

impl Mount {
    fn of(files: &[(&str, &str)]) -> Self {
        let mount = Self(tempfile::tempdir().unwrap());
        fs::create_dir(mount.service()).unwrap();
        fs::write(mount.0.path().join("cgroup.procs"), "1\n").unwrap();
        fs::write(mount.service().join("cgroup.procs"), "2\n").unwrap();
        files.iter().for_each(|(file, text)| fs::write(mount.service().join(file), text).unwrap());
        mount
    }

    fn v1(original: &str) -> Self {
        Self::of(&[
            ("memory.limit_in_bytes", original),
            ("memory.usage_in_bytes", "67108864\n"),
            ("memory.swappiness", "60\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            (
                "memory.stat",
                "cache 1\nrss 1\npgmajfault 1\ntotal_cache 8388608\ntotal_rss 50331648\n\
                 total_shmem 4194304\ntotal_pgmajfault 70\ntotal_workingset_refault_anon 5\n\
                 total_workingset_refault_file 6\ntotal_unevictable 4096\n",
            ),
        ])
    }

    fn v2(original: &str) -> Self {
        Self::of(&[
            ("memory.high", original),
            ("memory.current", "67108864\n"),
            ("memory.swap.max", "1048576\n"),
            ("memory.swap.current", "4096\n"),
            ("memory.reclaim", ""),
            ("memory.events", "low 0\nhigh 7\nmax 0\noom 0\noom_kill 2\n"),
            (
                "memory.stat",
                "anon 50331648\nfile 8388608\nkernel 8388608\nshmem 4194304\npgmajfault 70\nunevictable 4096\n",
            ),
        ])
    }

    fn service(&self) -> PathBuf {
        self.0.path().join("service")
    }

    /// The limit, once nobody has it any more: the child of another test may have the lock until it
    /// runs its program.
    fn take_again(&self) -> ServiceLimit {
        let start = Instant::now();
        loop {
            match ServiceLimit::of(&self.service()) {
                Err(LimitError::Busy(_)) if start.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                limit => return limit.unwrap(),
            }
        }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.service().join(file)).unwrap().trim().to_string()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.service().join(file), text).unwrap();
    }
}

#[test]
fn a_limit_is_lowered_and_put_back_in_both_versions() {
    for (mount, file, none) in [
        (Mount::v1(&format!("{NO_LIMIT}\n")), "memory.limit_in_bytes", NO_LIMIT),
        (Mount::v2("max\n"), "memory.high", "max"),
    ] {
        let _input = trying(|| file.to_string());
        let mut limit = ServiceLimit::of(&mount.service()).unwrap();
        assert_eq!((limit.original_bytes(), mount.read(file).as_str()), (None, none));
        limit.set(48 * MIB + 5).unwrap();
        limit.set(40 * MIB).unwrap();
        assert_eq!(mount.read(file), (40 * MIB).to_string());
        limit.restore().unwrap();
        assert_eq!(mount.read(file), none);
        limit.set(30 * MIB).unwrap();
        assert_eq!(mount.read(file), (30 * MIB).to_string());
        drop(limit);
        assert_eq!(mount.read(file), none);
    }
}

#[test]
fn in_version_1_processes_wait_while_the_limit_is_lower() {
    let mount = Mount::v1("104857600\n");
    let mut limit = ServiceLimit::of(&mount.service()).unwrap();
    assert_eq!((limit.original_bytes(), limit.cgroup_version()), (Some(100 * MIB), 1));
    limit.set(48 * MIB).unwrap();
    assert_eq!(mount.read("memory.oom_control"), "1");
    limit.restore().unwrap();
    assert_eq!(mount.read("memory.oom_control"), "0");
    // Where they wait anyway, they go on waiting.
    mount.write("memory.oom_control", "oom_kill_disable 1\nunder_oom 0\n");
    drop(limit);
    let mut limit = mount.take_again();
    limit.set(48 * MIB).unwrap();
    drop(limit);
    assert_eq!(mount.read("memory.oom_control"), "oom_kill_disable 1\nunder_oom 0");
}

#[test]
fn in_version_2_memory_is_reclaimed_before_the_limit_is_set() {
    let mount = Mount::v2("max\n");
    let mut limit = ServiceLimit::of(&mount.service()).unwrap();
    limit.set(48 * MIB).unwrap();
    assert_eq!(mount.read("memory.reclaim"), (16 * MIB).to_string());
}

#[test]
fn what_somebody_else_has_set_stays() {
    for (mount, file) in
        [(Mount::v1("104857600\n"), "memory.limit_in_bytes"), (Mount::v2("max\n"), "memory.high")]
    {
        let _input = trying(|| file.to_string());
        let mut limit = ServiceLimit::of(&mount.service()).unwrap();
        limit.set(48 * MIB).unwrap();
        mount.write(file, "83886080\n");
        assert!(
            limit.set(40 * MIB).unwrap_err().to_string().ends_with("set it to 83886080, and it stays so")
        );
        // Also if it is what was set here last, by then.
        mount.write(file, &(48 * MIB).to_string());
        assert!(matches!(limit.restore(), Err(LimitError::Changed { .. })));
        mount.write(file, "83886080\n");
        drop(limit);
        assert_eq!(mount.read(file), "83886080");
        if file == "memory.limit_in_bytes" {
            assert_eq!(mount.read("memory.oom_control"), "0");
        }
    }
}

#[test]
fn one_process_lowers_a_limit_at_a_time() {
    let mount = Mount::v2("max\n");
    let mut first = ServiceLimit::of(&mount.service()).unwrap();
    assert!(matches!(ServiceLimit::of(&mount.service()), Err(LimitError::Busy(_))));
    first.set(MIB).unwrap();
    drop(first);
    mount.take_again();
}

/// What the other process does when its input ends.
#[test]
fn a_limit_is_put_back_if_the_command_is_killed() {
    for (told, now, after, control) in [
        (&[48, 40][..], 40, 100, "0"),
        // Killed before it was written.
        (&[48, 40], 48, 100, "0"),
        // Somebody else has set it.
        (&[48, 40], 77, 77, "0"),
        (&[], 100, 100, "0"),
    ] {
        let _input = trying(|| format!("{told:?}, {now}"));
        let mount = Mount::v1("104857600\n");
        let (file, oom) = ("memory.limit_in_bytes", mount.service().join("memory.oom_control"));
        let lock = fs::File::open(mount.service()).unwrap().into();
        let mut tidy = Tidy::start(&mount.service().join(file), "104857600", Some(&oom), lock).unwrap();
        told.iter().for_each(|mib| tidy.announce(mib * MIB).unwrap());
        mount.write(file, &format!("{}\n", now * MIB));
        tidy.leave();
        assert_eq!(
            (mount.read(file), mount.read("memory.oom_control").as_str()),
            ((after * MIB).to_string(), control)
        );
    }
}

#[test]
fn counts_are_those_of_all_cgroups_below() {
    let (v1, v2) = (Mount::v1(NO_LIMIT), Mount::v2("max"));
    let [first, second] = [&v1, &v2].map(|mount| ServiceLimit::of(&mount.service()).unwrap());
    let expected = ServiceCounts {
        usage_bytes: 64 * MIB,
        major_faults: 70,
        refaults: Some(11),
        oom_kills: 3,
        is_out_of_memory: false,
    };
    assert_eq!(first.counts().unwrap(), expected);
    assert_eq!(second.counts().unwrap(), ServiceCounts { refaults: None, oom_kills: 2, ..expected });
    let makeup = Makeup {
        usage_bytes: 64 * MIB,
        swappable_bytes: 52 * MIB,
        file_bytes: 4 * MIB,
        kernel_bytes: 8 * MIB,
        unevictable_bytes: 4096,
    };
    assert_eq!(first.makeup().unwrap(), makeup);
    assert_eq!(second.makeup().unwrap(), makeup);
    assert_eq!((first.most_swap_bytes(), second.most_swap_bytes()), (u64::MAX, MIB - 4096));
    v1.write("memory.swappiness", "0\n");
    v1.write("memory.oom_control", "oom_kill_disable 0\nunder_oom 1\n");
    assert_eq!(first.most_swap_bytes(), 0);
    assert!(first.counts().unwrap().is_out_of_memory);
    drop(v2);
    assert!(matches!(second.makeup(), Err(LimitError::Gone(_))));
}

/// Of the cgroups above, the one with the least swap counts; of those below, one that may not swap
/// and has processes.
#[test]
fn cgroups_above_and_below_say_how_much_may_be_swapped() {
    for (mount, file) in [(Mount::v1(NO_LIMIT), "memory.swappiness"), (Mount::v2("max"), "memory.swap.max")] {
        let _input = trying(|| file.to_string());
        let (limit, above, below) =
            (ServiceLimit::of(&mount.service()).unwrap(), mount.0.path(), mount.service().join("below"));
        let alone = limit.most_swap_bytes();
        fs::write(above.join(file), "8192\n").unwrap();
        fs::write(above.join("memory.swap.current"), "4096\n").unwrap();
        let with_above = if file == "memory.swap.max" { 4096 } else { alone };
        assert_eq!(limit.most_swap_bytes(), with_above);
        fs::create_dir(&below).unwrap();
        fs::write(below.join("cgroup.procs"), "").unwrap();
        fs::write(below.join(file), "0\n").unwrap();
        assert_eq!(limit.most_swap_bytes(), with_above);
        fs::write(below.join("cgroup.procs"), "5\n").unwrap();
        assert_eq!(limit.most_swap_bytes(), 0);
    }
}

/// Nobody can write to a directory.
#[test]
fn what_cannot_be_put_back_is_told_with_what_to_write() {
    for (file, original) in [("memory.limit_in_bytes", "104857600"), ("memory.oom_control", "0")] {
        let _input = trying(|| file.to_string());
        let mount = Mount::v1("104857600\n");
        let mut limit = ServiceLimit::of(&mount.service()).unwrap();
        limit.set(48 * MIB).unwrap();
        fs::remove_file(mount.service().join(file)).unwrap();
        fs::create_dir(mount.service().join(file)).unwrap();
        let error = limit.restore().unwrap_err();
        let expected = format!("{file}: it is not as it was: write {original} to it");
        assert!(error.to_string().ends_with(&expected), "{error}");
        if file == "memory.limit_in_bytes" {
            assert_eq!(mount.read("memory.oom_control"), "0");
        }
    }
}

/// The command prints an error with what caused it.
#[test]
fn a_cause_is_told_once() {
    let denied = || io::Error::from(Errno::ACCESS);
    for error in [
        LimitError::NoPermission(PathBuf::from("a"), denied()),
        LimitError::System(PathBuf::from("a"), denied()),
    ] {
        assert!(!error.to_string().contains(&denied().to_string()), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn a_lower_limit_above_is_found() {
    let mount = Mount::v2("max");
    let limit = ServiceLimit::of(&mount.service()).unwrap();
    assert_eq!(limit.lowest_above(), None);
    let above = mount.0.path();
    fs::write(above.join("memory.high"), "max\n").unwrap();
    fs::write(above.join("memory.max"), "33554432\n").unwrap();
    assert_eq!(limit.lowest_above(), Some((above.join("memory.max"), 32 * MIB)));
}

#[test]
fn a_cgroup_without_the_controller_and_the_topmost_have_no_limit() {
    let without = Mount::of(&[]);
    let error = ServiceLimit::of(&without.service()).unwrap_err();
    assert!(matches!(&error, LimitError::NoController(_)), "{error}");
    fs::write(without.0.path().join("memory.limit_in_bytes"), NO_LIMIT).unwrap();
    assert!(matches!(ServiceLimit::of(without.0.path()), Err(LimitError::NoController(_))));
}

#[test]
fn a_cgroup_that_goes_is_told() {
    let mount = Mount::v1("104857600\n");
    let mut limit = ServiceLimit::of(&mount.service()).unwrap();
    limit.set(48 * MIB).unwrap();
    fs::remove_dir_all(mount.service()).unwrap();
    for result in [limit.set(40 * MIB), limit.check(), limit.restore(), limit.counts().map(|_| ())] {
        assert!(matches!(result, Err(LimitError::Gone(_))), "{result:?}");
    }
}

#[test]
fn free_swap_is_read() {
    assert_eq!(free_swap("SwapTotal:  100 kB\nSwapFree:       64 kB\n"), 64 << 10);
    assert_eq!(free_swap(""), 0);
}
