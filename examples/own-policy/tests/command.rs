//! The policy stands beside the built-in ones, and keeps the rules that they keep.

use own_policy::Comeback;
use std::process::Command;
use sweephand_policy::conformance::{Extent, conform_to, outcome, run};
use sweephand_policy::registry::{Spec, entries, register};

fn stdout(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_own-policy")).args(arguments).output().expect("own-policy");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_is_simulated_beside_the_built_in_ones_and_listed_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    std::fs::write(&trace, "1\n2\n3\n4\n1\n2\n5\n6\n1\n2\n").unwrap();
    let policies = "clock,comeback,comeback:memory=0";
    let csv = stdout(&["simulate", trace.to_str().unwrap(), "-p", policies, "-m", "3p", "--format", "csv"]);
    let faults: Vec<_> = csv.lines().skip(1).map(|row| row.split(',').nth(5).unwrap()).collect();
    // Without memory it is CLOCK.
    assert_eq!(faults, ["10", "8", "10"]);
    let all = stdout(&["simulate", trace.to_str().unwrap(), "-p", "all", "-m", "3p", "--format", "csv"]);
    assert!(all.contains(",comeback,3,10,6,8,"));
    assert!(stdout(&["policies", "all"]).contains("\ncomeback: CLOCK that spares pages which come back\n"));
}

#[test]
fn it_conforms_and_what_it_does_can_be_followed_by_hand() {
    register::<Comeback>();
    assert_eq!(entries().last().unwrap().info.name, "comeback");
    for text in ["comeback", "comeback:memory=0", "comeback:memory=2.5"] {
        let spec = Spec::parse(text).unwrap();
        conform_to(&spec, Extent { operations: 300, ..Extent::WHOLE }).unwrap();
    }
    // 1, 2 and 3 go for 4, 1 and 2. The latter came back: 5, which has not, goes for 6.
    assert_eq!(outcome(&run("comeback", &[1, 2, 3, 4, 1, 2, 5, 6, 1, 2], 3)), "8:12345");
    let taken = std::panic::catch_unwind(register::<Comeback>).unwrap_err();
    assert_eq!(taken.downcast_ref::<String>().unwrap(), "there is a policy 'comeback' already");
}
