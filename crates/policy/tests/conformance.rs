//! Every registered policy passes the suite, with its defaults and with the arguments that have readings of their
//! own; and the worked examples come out to the letter.

use std::panic::catch_unwind;
use sweephand_policy::SplitMix64;
use sweephand_policy::conformance::{E1, E2, E3, conform, fuzz, outcome, run};
use sweephand_policy::registry::{POLICIES, Spec};

#[test]
fn every_policy_conforms() {
    for entry in POLICIES {
        conform(&Spec::parse(entry.info.name).unwrap()).unwrap();
    }
}

#[test]
fn other_readings_conform() {
    for spec in [
        "clock:init=1",
        "clock:init=1,fill-init=0",
        "clock:fill-init=1",
        "car:integer-ratio=off",
        "lirs:hir-min=1",
        "lirs:stack-limit=1",
        "lirs:stack-limit=2,hir=40%",
        "clock-pro:preset=clockpro2005",
        "clock-pro:warm=cold",
        "clock-pro:referenced-cold=evict,history=0",
        "clock-pro:cold=3,cold-min=2,cold-max=50%,history=0.5",
        "clock-pro-fixed:cold=30%,history=2",
    ] {
        conform(&Spec::parse(spec).unwrap()).unwrap();
    }
}

/// `faults:victims` of the three example strings with 3, 4 and 4 frames.
#[test]
fn worked_examples() {
    let table = [
        ("fifo", "9:123412 | 15:12345123451 | 13:123456172"),
        ("lru", "10:1234512 | 15:12345123451 | 10:345678"),
        ("opt", "7:3412 | 7:431 | 9:45671"),
        ("clock", "10:1234512 | 15:12345123451 | 10:345678"),
        ("clock:init=1", "9:123412 | 15:12345123451 | 12:13425678"),
        ("clock-page-table", "11:12312412 | 13:123412341 | 14:1341561237"),
        ("lirs:hir-min=1", "8:34534 | 9:45454 | 9:45678"),
        ("lirs", "9:234523 | 11:3453453 | 10:345678"),
        ("car", "10:1234534 | 15:12345123451 | 10:345678"),
        ("car:integer-ratio=off", "10:1234534 | 15:12345123451 | 10:345678"),
        ("clock-pro-fixed", "8:34534 | 9:45454 | 9:45678"),
        ("clock-pro", "8:34534 | 9:45454 | 9:45678"),
    ];
    for (spec, expected) in table {
        let outcomes =
            [(E1, 3), (E2, 4), (E3, 4)].map(|(string, frames)| outcome(&run(spec, string, frames)));
        assert_eq!(outcomes.join(" | "), expected, "{spec}");
    }
    for entry in POLICIES {
        assert!(table.iter().any(|(spec, _)| *spec == entry.info.name), "{} has no example", entry.info.name);
    }
}

#[test]
fn longer_worked_examples() {
    let second = [1, 2, 3, 4, 5, 6, 4, 2, 7, 5, 1, 6, 3, 4, 8, 1, 2, 5];
    for (spec, expected) in [
        ("clock-pro:cold=2", "16:345617521638"),
        ("clock-pro-fixed:cold=2", "15:34561741634"),
        ("clock", "17:1235624751634"),
        ("clock:init=1", "16:123462571634"),
        ("opt", "11:3127641"),
    ] {
        assert_eq!(outcome(&run(spec, &second, 4)), expected, "{spec}");
    }
}

/// The fuzz target on random operations, so that it runs without a fuzzer too.
#[test]
fn fuzzed_operations_keep_every_invariant() {
    let mut random = SplitMix64::new(20_050_410);
    for _ in 0..6000 {
        let length = 2 + random.below(400);
        let data: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        fuzz(&data);
    }
}

/// The suite can fail: a policy that breaks its word is caught, with the string that shows it.
#[test]
fn a_broken_policy_is_caught() {
    use sweephand_policy::conformance::Machine;
    use sweephand_policy::registry::Registered;
    use sweephand_policy::*;

    /// Names the page just loaded and never forgets one.
    #[derive(Debug)]
    struct Stuck(Vec<PageId>);
    impl Registered for Stuck {
        const INFO: Info = Info { name: "fifo", summary: "", paper: "", parameters: &[], presets: &[] };
        fn configure(_: usize, _: &Arguments) -> Result<Self, ArgumentError> {
            Ok(Self(Vec::new()))
        }
    }
    impl Policy for Stuck {
        type Model = VmModel;
        fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
            self.0.first().copied()
        }
        fn evict(&mut self, _: PageId) {}
        fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
            assert_eq!(reference.next_use, NEVER);
            self.0.push(reference.page);
            false
        }
        fn remove(&mut self, _: PageId) {}
        fn check(&self) -> Result<(), Violation> {
            Ok(())
        }
    }
    let result = catch_unwind(|| {
        let mut machine = Machine::<Stuck>::new("fifo", 2);
        for page in [1, 2, 3, 4] {
            machine.access(page);
        }
    });
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "victim 1 is not resident");
}
