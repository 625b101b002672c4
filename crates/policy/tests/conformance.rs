//! Every registered policy passes the conformance suite, with its defaults and with the arguments
//! that change its rules. The worked examples give exactly the expected states.
//!
//! `conform` tries every string of length 8. Here the strings are shorter, unless
//! `SWEEPHAND_AT_LENGTH` is set.

use std::panic::catch_unwind;
use sweephand_checks::{at_length, trying};
use sweephand_policy::SplitMix64;
use sweephand_policy::conformance::{E1, E2, E3, Extent, conform, conform_to, fuzz, operate, outcome, run};
use sweephand_policy::registry::{POLICIES, Spec};

/// Puts a policy through this part of the suite, or through all of it at length.
fn conform_or(part: Extent, spec: &Spec) {
    let conforms = if at_length() { conform(spec) } else { conform_to(spec, part) };
    conforms.unwrap();
}

#[test]
fn every_policy_conforms() {
    for entry in POLICIES {
        conform_or(Extent { length: 7, ..Extent::WHOLE }, &Spec::parse(entry.info.name).unwrap());
    }
}

#[test]
fn every_policy_conforms_where_pages_settle() {
    let names: Vec<&str> = POLICIES
        .iter()
        .filter(|entry| entry.info.parameters.iter().any(|parameter| parameter.name == "settle"))
        .map(|entry| entry.info.name)
        .filter(|name| *name != "auto")
        .collect();
    assert!(names.contains(&"clock"), "{names:?}");
    for name in names {
        for settle in ["1", "20%"] {
            let spec = Spec::parse(&format!("{name}:settle={settle}")).unwrap();
            conform_to(&spec, Extent { length: 6, ..Extent::WHOLE }).unwrap();
        }
    }
}

#[test]
fn other_readings_conform() {
    let rounds = if at_length() { 300 } else { 60 };
    for spec in [
        "auto:experts=clock",
        "auto:experts=clock+lifo,half-life=0.5,margin=0",
        "auto:experts=settled-clock-pro+lifo-plus,polls=0,settle=2",
        "auto:experts=random+clock-pro+car+lifo-plus+aging+sieve+clock,polls=100",
        "apr:ghosts=50%,decay=0.9,ties=fallback",
        "apr:ghosts=0",
        "apr:ties=last,judged=before",
        "apr:search=one-choice",
        "apr:search=search-on,decay=0.5",
        "apr:named=stay",
        "apr:named=pass",
        "apr:preset=once,decay=0.1",
        "clock:init=1",
        "clock:init=1,fill-init=0",
        "clock:fill-init=1",
        "car:integer-ratio=off",
        "gclock:max=1",
        "gclock:init=0,increment=2,max=3",
        "lru-2:k=1",
        "lru-2:k=3,crp=2",
        "lru-2:crp=1,history=0.5",
        "lru-2:retained=7,history=2",
        "random:seed=2",
        "s3-fifo:threshold=0",
        "s3-fifo:small=40%,threshold=2",
        "linux24:active=1",
        "mq:queues=3,life=1,history=0.5",
        "mq:life=0.3",
        "lrfu:lambda=0.5",
        "lrfu:lambda=1",
        "lrfu:lambda=0,retain=on",
        "aging:flavour=freebsd",
        "aging:decline=halve,start=1",
        "rrip:bits=1",
        "rrip:bits=3,variant=brrip",
        "rrip:variant=drrip",
        "dip:variant=bip,one-in=3",
        "dip:variant=lip",
        "w-tinylfu:window=30%,protected=50%,sample=2",
        "fbr:new=0,old=40%,max-average=2",
        "lecar:rate=2,discount=0.5,seed=7",
        "cacheus:new=40%,seed=7",
        "lhd:ages=16,interval=20,span=3,sample=3",
        "lhd:ages=2000,interval=7,seed=3",
        "s4-fifo:small=50%,skip=50%,hits=1,ghosts=3,ghost-hits=1",
        "s4-fifo:small=4,skip=3,hits=3,ghosts=0",
        "s4-fifo:hits=0,ghost-hits=2,ghosts=6",
        "acme:beta=0.5,alpha=0.3",
        "acme:beta=1,alpha=1",
        "2q:in=50%,out=1",
        "clock2q-plus:small=50%,window=50%",
        "clock2q-plus:small=3,window=0,ghosts=100%",
        "clock2q-plus:small=100%,window=100%,ghosts=1",
        "hyperbolic:sample=3",
        "hyperbolic:sample=1,seed=2",
        "mglru:sightings=1",
        "mglru:init=1",
        "lirs:hir-min=1",
        "dlirs:hir-min=1",
        "dlirs:hir=60%",
        "lirs2:hir-min=1",
        "lirs2:hir=40%",
        "lirs:stack-limit=1",
        "lirs:stack-limit=2,hir=40%",
        "clock-pro:preset=clockpro2005",
        "clock-pro:warm=cold",
        "clock-pro:referenced-cold=evict,history=0",
        "clock-pro:cold=3,cold-min=2,cold-max=50%,history=0.5",
        "clock-pro:test-end=keep",
        "clock-pro:test-end=keep,referenced-cold=evict,history=0.5",
        "clock-pro:test-end=shrink",
        "clock-pro:test-end=shrink,history=0,warm=cold",
        "clock-pro-strict:referenced-cold=new-test,history=3",
        "clock-pro-strict:cold=3,cold-min=2,cold-max=50%,history=0.5",
        "clock-pro-fixed:cold=30%,history=2",
        "eelru:early=0/0.9,late=1.1/4",
        "eelru:early=0.6,late=1.3/1.3/1.2,decay=2",
        "ee-clock:parts=1",
        "ee-clock:parts=2,reach=2",
        "ee-clock:parts=5,reach=3",
        "seq:length=3,faults=2,distance=1",
        "seq:length=3,faults=2,distance=1,inside=delete",
        "seq:length=1,faults=3,distance=0",
        "seq:length=2,faults=1,distance=2",
        "seq-lru:length=3,faults=2,distance=1",
        "ubm:sequence=2,segment=1,decay=0.5",
        "ubm:sequence=5,segment=60%,decay=0.99",
        "clock-pro-plus:cold-max=100%",
        "clock-pro-plus:warm=cold,referenced-cold=new-test,history=3",
        "clock-pro-plus:cold=3,cold-min=2,cold-max=75%,referenced-cold=evict,history=0.5",
    ] {
        let spec = Spec::parse(spec).unwrap();
        conform_or(Extent { length: 6, strings: 80, ..Extent::WHOLE }, &spec);
        let mut random = SplitMix64::new(20_050_410);
        for round in 0..rounds {
            let (frames, length) = (1 + round % 16, random.below(400));
            let operations: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
            if let Err(violation) = operate(spec.arguments(), frames, &operations) {
                panic!("{spec}, {frames} frames, operations {operations:02x?}: {violation}");
            }
        }
    }
}

/// Policies that spare pages only for hits come down to FIFO when there are none.
#[test]
fn without_hits_clocks_are_fifo() {
    let string: Vec<u32> = (0..100).collect();
    for frames in 1..=16 {
        let fifo = run("fifo", &string, frames);
        for spec in ["clock", "clock:init=1", "gclock", "aging", "linux24", "sieve", "mglru", "car"] {
            assert_eq!(run(spec, &string, frames), fifo, "{spec}, {frames} frames");
        }
    }
}

/// `faults:victims` of the three example strings with 3, 4 and 4 frames.
#[test]
fn policies_take_the_known_victims_on_the_examples() {
    let table = [
        ("fifo", "9:123412 | 15:12345123451 | 13:123456172"),
        ("lifo", "8:34534 | 9:45454 | 9:45678"),
        ("lifo-plus", "9:234523 | 11:3453453 | 10:345678"),
        ("ee-clock", "10:1234512 | 15:12345123451 | 10:345678"),
        ("apr", "11:12412512 | 12:12512452 | 10:345678"),
        ("apr:ties=fallback", "9:234523 | 11:3453453 | 10:345678"),
        ("mru", "7:3212 | 7:432 | 13:126172131"),
        ("random", "10:2324254 | 8:3542 | 11:3542872"),
        ("lru", "10:1234512 | 15:12345123451 | 10:345678"),
        ("opt", "7:3412 | 7:431 | 9:45671"),
        ("clock", "10:1234512 | 15:12345123451 | 10:345678"),
        ("clock:init=1", "9:123412 | 15:12345123451 | 12:13425678"),
        ("gclock", "9:123412 | 15:12345123451 | 11:3425678"),
        ("lru-2", "10:1234534 | 15:12345123451 | 10:345678"),
        ("lru-2:crp=1", "10:1234513 | 15:12345123451 | 10:345678"),
        ("2q", "11:12314513 | 12:12341251 | 12:12345672"),
        ("arc", "10:1234531 | 15:12345123451 | 10:345678"),
        ("clock-page-table", "11:12312412 | 13:123412341 | 14:1341561237"),
        ("lirs:hir-min=1", "8:34534 | 9:45454 | 9:45678"),
        ("lirs", "9:234523 | 11:3453453 | 10:345678"),
        ("dlirs", "9:234523 | 11:3453453 | 10:345678"),
        ("lirs2:hir-min=1", "8:34534 | 9:45454 | 9:45678"),
        ("lirs2", "9:234523 | 11:3453453 | 10:345678"),
        ("s3-fifo", "10:1234534 | 12:12345121 | 11:2345678"),
        ("s4-fifo", "10:1234534 | 12:12345121 | 11:2345678"),
        ("lhd", "9:243534 | 15:12345123451 | 10:345678"),
        ("clock2q-plus", "10:1234534 | 12:12345121 | 10:345678"),
        ("clock2q-plus:small=2,window=1", "10:1234153 | 12:12341251 | 10:345678"),
        ("hyperbolic", "10:1234512 | 15:12345123451 | 10:345678"),
        ("linux24", "10:1234534 | 15:12345123451 | 10:345678"),
        ("mq", "10:1234512 | 15:12345123451 | 10:345678"),
        ("lrfu", "10:1234534 | 15:12345123451 | 10:345678"),
        ("lrfu:lambda=0.5", "10:1234512 | 15:12345123451 | 10:345678"),
        ("aging", "10:1234531 | 15:12345123451 | 10:345678"),
        ("aging:flavour=freebsd", "9:123412 | 15:12345123451 | 10:345678"),
        ("rrip", "10:1234534 | 15:12345123451 | 10:345678"),
        ("rrip:variant=brrip", "9:141514 | 9:15151 | 9:35678"),
        ("dip", "11:12134152 | 9:12121 | 10:345678"),
        ("dip:variant=bip", "8:34534 | 9:45454 | 9:45678"),
        ("mglru", "10:1234512 | 15:12345123451 | 11:1345678"),
        ("mglru:sightings=1", "10:1234512 | 15:12345123451 | 10:345678"),
        ("w-tinylfu", "8:34534 | 9:45454 | 9:45678"),
        ("fbr", "10:1234513 | 15:12345123451 | 10:345678"),
        ("lecar", "10:1234534 | 15:12345123451 | 10:345678"),
        ("cacheus", "8:34534 | 9:45454 | 10:456383"),
        ("acme", "10:1234152 | 15:12345123452 | 10:345678"),
        ("auto", "8:34534 | 9:45454 | 9:45678"),
        ("sieve", "10:1234512 | 15:12345123451 | 10:345678"),
        ("eelru", "8:14323 | 8:1543 | 10:345678"),
        ("seq", "10:1234512 | 15:12345123451 | 10:345678"),
        ("seq:length=3,faults=2,distance=1", "8:34514 | 8:4241 | 9:45672"),
        ("seq:length=3,faults=2,distance=1,inside=delete", "8:34514 | 10:451232 | 9:45678"),
        ("seq-lru", "10:1234512 | 15:12345123451 | 10:345678"),
        ("seq-lru:length=3,faults=2,distance=1", "8:34514 | 9:42343 | 9:45672"),
        ("ubm", "8:34534 | 8:4543 | 10:345678"),
        ("car", "10:1234534 | 15:12345123451 | 10:345678"),
        ("car:integer-ratio=off", "10:1234534 | 15:12345123451 | 10:345678"),
        ("clock-pro-fixed", "8:34534 | 9:45454 | 9:45678"),
        ("clock-pro", "8:34534 | 9:45454 | 9:45678"),
        ("clock-pro-plus", "8:34534 | 10:451451 | 9:45678"),
        ("clock-pro-plus:cold-max=100%", "8:34513 | 10:451451 | 9:45678"),
        ("clock-pro-strict", "8:34534 | 9:45454 | 9:45678"),
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
fn policies_take_the_known_victims_on_a_longer_string() {
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
        let _input = trying(|| format!("{data:?}"));
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
