//! A tree of files stands for the cgroup, of version 2; this process stands for the service.

use super::*;
use std::fs;
use std::path::Path;
use std::thread;
use sweephand_process::group::Mounts;
use sweephand_watch::Named;

const MIB: u64 = 1 << 20;

/// A service that has 64 MiB, and this limit.
fn service(mount: &Path, high: &str, time: Duration) -> Subject {
    let path = mount.join("service");
    fs::create_dir(&path).unwrap();
    fs::write(mount.join("cgroup.procs"), "").unwrap();
    for (file, text) in [
        ("cgroup.procs", std::process::id().to_string()),
        ("memory.high", high.to_string()),
        ("memory.current", (64 * MIB).to_string()),
        ("memory.stat", "anon 67108864\nfile 0\n".to_string()),
        ("memory.events", "oom_kill 0\n".to_string()),
        ("memory.pressure", "some avg10=0.00 total=0\n".to_string()),
    ] {
        fs::write(path.join(file), text).unwrap();
    }
    let (signals, write) = rustix::pipe::pipe().unwrap();
    // Its end would be a signal.
    std::mem::forget(write);
    Subject {
        limit: ServiceLimit::of(&path).unwrap(),
        group: Group::find(&Named::Cgroup(path.clone()), &Mounts::here()).unwrap(),
        stalls: Stalls::of(&path),
        metric: None,
        signals,
        deadline: Instant::now() + time,
        every: LOOK,
        most_stalled: 0.15,
        usually_stalled: 0.0,
        usual_faults: 0.0,
    }
}

fn limit_of(subject: &Subject) -> u64 {
    fs::read_to_string(subject.limit.file()).unwrap().trim().parse().unwrap()
}

#[test]
fn a_limit_goes_down_from_what_the_owner_has_set() {
    let mount = tempfile::tempdir().unwrap();
    let mut subject = service(mount.path(), "33554432", Duration::ZERO);
    // After the first write, the time is over.
    assert_eq!(subject.lower_to(16 * MIB).unwrap(), Some(Alarm::Time));
    assert!((30 * MIB..32 * MIB).contains(&limit_of(&subject)), "{}", limit_of(&subject));
}

#[test]
fn while_the_limit_goes_down_pressure_is_an_alarm() {
    let (calm, pressed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut subject = service(calm.path(), "max", Duration::from_secs(60));
    assert_eq!(subject.lower_to(MIB).unwrap(), None);
    assert_eq!(limit_of(&subject), MIB);

    let mut subject = service(pressed.path(), "max", Duration::from_secs(60));
    let file = pressed.path().join("service/memory.pressure");
    let began = Instant::now();
    let service = thread::spawn(move || {
        while began.elapsed() < Duration::from_secs(3) {
            let text = format!("some avg10=0.00 total={}\n", began.elapsed().as_micros());
            // So that nobody reads half of it.
            fs::write(file.with_extension("new"), text).unwrap();
            fs::rename(file.with_extension("new"), &file).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(subject.lower_to(MIB).unwrap(), Some(Alarm::Pressure));
    assert!(limit_of(&subject) > MIB, "{}", limit_of(&subject));
    service.join().unwrap();
}
