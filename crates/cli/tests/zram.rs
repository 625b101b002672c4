//! What the zram devices of a run are used for, as that pays. A run beside it would keep it from
//! making a second swap file, so this is the only test of its binary.

mod live;

use live::*;
use std::process::Stdio;

/// Swap areas of a run, and of zram devices that are not among those before it.
fn areas(command: u32) -> Vec<String> {
    let areas = std::fs::read_to_string("/proc/swaps").unwrap();
    let names = areas.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let is_ours =
        |name: &&str| name.starts_with("/dev/zram") || name.contains(&format!("sweephand-{command}-"));
    names.filter(is_ours).map(String::from).collect()
}

#[test]
fn devices_grow_where_pages_become_small_and_drain_where_they_cost() {
    if !can_direct() || !can_zram() {
        return;
    }
    let before = (zram_devices(), areas(0).len());
    let start = |arguments: [&str; 4]| {
        let mut command = run_as_is(&["--memory", "32MiB", "--compress", "auto"]);
        command.arg("--").arg(program("hot")).args(arguments);
        spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let is_second = |command| areas(command).iter().any(|name| name.ends_with(".second.swap"));

    // Half of the pages are in use all the time, and would fit without the device.
    for ends in ["by itself", "killed"] {
        let child = start(["24", "24", "15", "320"]);
        let command = child.id();
        wait_until("pages that are not in use go to a second file", || is_second(command));
        if ends == "killed" {
            signal(command, "KILL");
        }
        let output = wait(child);
        if ends == "by itself" {
            assert_eq!((text(&output.stdout), text(&output.stderr)), ("right".to_string(), String::new()));
        }
        wait_until("all is removed", || left_by(command).is_empty() && zram_devices() == before.0);
    }

    // Pages become a fifth of their size, and there are more than one device holds.
    let child = start(["0", "128", "15", "100"]);
    let command = child.id();
    wait_until("there is a second device", || areas(command).len() == before.1 + 3);
    let output = wait(child);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("right".to_string(), String::new()));
    wait_until("all is removed", || left_by(command).is_empty() && zram_devices() == before.0);
}
