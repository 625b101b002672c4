//! The machine agrees with closed forms, and keeps its invariants under any workload.

use std::sync::Arc;
use sweephand_machine::configuration::{Deactivate, Discipline};
use sweephand_machine::{Cell, Configuration, Outcome, Program, Sample, Workload, analytic};
use sweephand_policy::SplitMix64;
use sweephand_policy::task_registry::TaskSpec;

/// Every policy that runs several tasks, in every reading, and two of one task's as global ones.
const POLICIES: [&str; 11] = [
    "ws:theta=300",
    "ws:theta=300,lt-rt=off",
    "ws:theta=300,lr=sampled",
    "ws:theta=300,lr=sampled,scan-interval=0",
    "wsclock:theta=300",
    "wsclock:theta=300,clean-list=on",
    "pff:threshold=50",
    "global-clock",
    "clock",
    "clock-pro",
    "fifo",
];

/// Fast devices, no I/O, one program that is nowhere on disk.
fn configuration(frames: usize, tasks: usize) -> Configuration {
    let text = format!(
        "name = 'test'\nframes = {frames}\n[devices]\naccess_refs = [30, 30]\n[processor]\nquantum_refs = 10\nslice_refs = 2000\n\
         [io]\ninterval_refs = 0\nservice_refs = [20, 60]\n[load_control]\ntau_refs = 40\nfeedback = {{ period_refs = 400, low = 0.35, \
         high = 0.65 }}\n[tasks]\nprograms = ['none.swt']\ncount = {tasks}\n"
    );
    Configuration::parse(&text).unwrap()
}

fn run_sampled(
    configuration: Configuration,
    programs: &[Arc<Program>],
    policy: &str,
    seed: u64,
) -> (Outcome, Vec<Sample>) {
    let workload = Workload::new(configuration, programs);
    workload.run(&Cell { policy: TaskSpec::parse(policy).unwrap(), seed }, 7).unwrap()
}

fn run(configuration: Configuration, programs: &[Arc<Program>], policy: &str) -> Outcome {
    run_sampled(configuration, programs, policy, 1).0
}

/// A program with phases: a few hundred references to a handful of its pages, then to others.
fn phases(pages: u64, references: usize, seed: u64) -> Arc<Program> {
    let mut random = SplitMix64::new(seed);
    let mut first = 0;
    let string: Vec<_> = (0..references)
        .map(|time| {
            if time % 400 == 0 {
                first = random.below(pages);
            }
            let page = match random.below(10) {
                0 => random.below(pages),
                _ => (first + random.below(pages.min(6))) % pages,
            };
            (page as u32, random.below(4) == 0)
        })
        .collect();
    Arc::new(Program::from_references("phases", string))
}

/// Whether load control goes by the policy's claims rather than by feedback.
fn claims(policy: &str) -> bool {
    ["ws", "wsclock", "pff"].contains(&policy.split(':').next().unwrap())
}

fn distinct(program: &Program) -> u64 {
    program.pages.into()
}

#[test]
fn one_task_of_four_pages_takes_220_units() {
    let program = Arc::new(Program::from_references("four", (0..100).map(|time| (time % 4, false))));
    for policy in POLICIES {
        let mut configuration = configuration(4, 1);
        configuration.processor.quantum_refs = 1000;
        let outcome = run(configuration, std::slice::from_ref(&program), policy);
        assert_eq!(
            (outcome.elapsed_refs, outcome.references, outcome.page_faults),
            (220, 100, 4),
            "{policy}"
        );
        assert_eq!(format!("{:.4}", outcome.utilization), "0.4545", "{policy}");
        assert_eq!(
            (outcome.mean_mpl, outcome.device_busy_refs, outcome.page_writes),
            (1.0, 120, 0),
            "{policy}"
        );
    }
}

#[test]
fn two_tasks_overlap_processing_with_paging() {
    // Each: a fault of 30, then 100 references. The second page is read while the first task runs.
    let program = Arc::new(Program::from_references("one", (0..100).map(|_| (0, false))));
    let outcome = run(configuration(2, 2), &[program], "wsclock:lt-rt=off");
    // 30 for the first page, then 200 references without a pause: the second page comes at 60.
    assert_eq!((outcome.elapsed_refs, outcome.page_faults), (230, 2));
}

#[test]
fn io_is_done_beside_the_processor_and_ends_loading() {
    let program = Arc::new(Program::from_references("one", (0..1000).map(|_| (0, false))));
    let mut configuration = configuration(1, 1);
    configuration.io.interval_refs = 100;
    configuration.io.service_refs = (50, 50);
    let outcome = run(configuration, &[program], "wsclock");
    assert!((4..=25).contains(&outcome.io_requests), "{}", outcome.io_requests);
    assert_eq!(outcome.elapsed_refs, 30 + 1000 + 50 * outcome.io_requests);
}

#[test]
fn with_memory_for_all_ws_faults_are_the_distinct_pages() {
    let programs = [phases(20, 3000, 1), phases(35, 2000, 2)];
    for policy in POLICIES {
        let configuration = configuration(1000, 6);
        let workload = Workload::new(configuration.clone(), &programs);
        let pages: u64 = workload.jobs.iter().map(|job| distinct(&job.program)).sum();
        let outcome = run(configuration, &programs, policy);
        assert_eq!(outcome.page_faults, pages, "{policy}");
        assert_eq!(outcome.replacements, 0, "{policy}");
        if claims(policy) {
            assert_eq!(outcome.deactivations, 0, "{policy}");
        }
    }
}

#[test]
fn vmin_takes_the_faults_of_the_working_set_in_less_memory() {
    let mut random = SplitMix64::new(3);
    for round in 0..200 {
        let pages = 1 + random.below(12);
        let string: Vec<u32> = (0..random.below(120)).map(|_| random.below(pages) as u32).collect();
        let theta = 1 + random.below(30);
        let (ws, vmin) = (analytic::working_set(&string, theta), analytic::vmin(&string, theta));
        assert_eq!(ws.faults, vmin.faults, "round {round}: theta {theta}, {string:?}");
        assert!(vmin.mean_pages <= ws.mean_pages, "round {round}: theta {theta}, {string:?}");
        let everything = analytic::working_set(&string, u64::MAX);
        let distinct = string.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        assert_eq!(everything.faults, distinct, "round {round}: theta {theta}, {string:?}");
        assert!(
            analytic::working_set(&string, theta + 1).faults <= ws.faults,
            "round {round}: theta {theta}, {string:?}"
        );
    }
}

#[test]
fn a_lone_task_larger_than_memory_finishes() {
    let string = (0..3000).map(|time| (time * 7 % 11, time % 3 == 0));
    let program = Arc::new(Program::from_references("large", string));
    for policy in POLICIES {
        for frames in [1, 2, 5, 10] {
            let outcome = run(configuration(frames, 1), std::slice::from_ref(&program), policy);
            assert_eq!(outcome.references, 3000, "{policy}, {frames} frames");
            assert!(outcome.page_faults > 11 && outcome.page_writes > 0, "{policy}, {frames} frames");
            // Of a working set no page is replaced but by force; the clocks have no such idea.
            if policy.starts_with("wsclock") || policy.starts_with("ws:") {
                assert!(outcome.forced_replacements > 0, "{policy}, {frames} frames");
            }
        }
    }
}

#[test]
fn many_tasks_in_hardly_any_memory_finish() {
    let programs = [phases(20, 800, 1), phases(7, 900, 2)];
    for policy in POLICIES {
        for frames in 1..=8 {
            for devices in 1..=3 {
                let mut configuration = configuration(frames, 5);
                configuration.devices.count = devices;
                configuration.io.interval_refs = 200;
                let outcome = run(configuration, &programs, policy);
                assert!(outcome.references >= 5 * 800, "{policy}, {frames} frames, {devices} devices");
            }
        }
    }
}

#[test]
fn a_result_depends_on_seeds_and_on_nothing_else() {
    let programs = [phases(20, 3000, 1), phases(35, 2000, 2)];
    for policy in POLICIES {
        let mut configuration = configuration(40, 8);
        configuration.devices.access_refs = (20, 60);
        configuration.io.interval_refs = 300;
        let of_seed = |seed| run_sampled(configuration.clone(), &programs, policy, seed);
        assert_eq!(of_seed(5), of_seed(5), "{policy}");
        assert_ne!(of_seed(5).0, of_seed(6).0, "{policy}");
    }
}

#[test]
fn no_more_tasks_load_than_are_allowed() {
    let programs = [phases(20, 3000, 1), phases(35, 2000, 2)];
    for policy in ["ws:theta=300", "wsclock:theta=300", "global-clock", "clock-pro"] {
        for limit in 1..=3 {
            let mut configuration = configuration(60, 12);
            configuration.load_control.loading_tasks = limit;
            let (outcome, samples) = run_sampled(configuration.clone(), &programs, policy, 1);
            assert!(outcome.most_loading <= limit as u64, "{limit} may load: {policy}");
            assert!(samples.iter().all(|sample| sample.loading_tasks <= limit), "{limit} may load: {policy}");
            if claims(policy) {
                assert_eq!(outcome.most_loading, limit as u64, "{limit} may load: {policy}");
                let unlimited = run(configuration, &programs, &format!("{policy},lt-rt=off"));
                assert!(unlimited.most_loading > 3, "{limit} may load: {policy}");
            }
        }
    }
}

#[test]
fn at_the_end_of_a_slice_a_task_goes_to_the_end_of_the_ready_queue() {
    let program = phases(5, 4000, 4);
    let mut configuration = configuration(100, 3);
    configuration.load_control.most_active = 1;
    let (outcome, samples) = run_sampled(configuration, &[program], "wsclock", 1);
    // Two slices each; the last one of a task ends with its string.
    assert_eq!((outcome.slice_ends, outcome.activations, outcome.deactivations), (3, 6, 0));
    assert!(
        samples
            .iter()
            .all(|sample| sample.active_tasks <= 1 && sample.active_tasks + sample.ready_tasks <= 3)
    );
    assert_eq!(outcome.page_faults, 15, "pages stay where they are");
}

#[test]
fn frames_tasks_and_requests_are_accounted_for_at_all_times() {
    let programs = [phases(20, 3000, 1), phases(35, 2000, 2)];
    for policy in POLICIES {
        let (outcome, samples) = run_sampled(configuration(40, 8), &programs, policy, 2);
        assert!(samples.len() as u64 >= outcome.elapsed_refs / 7, "{policy}");
        for sample in &samples {
            assert!(
                sample.blocked_tasks <= sample.active_tasks && sample.loading_tasks <= sample.active_tasks,
                "{policy}: {sample:?}"
            );
            assert!(
                sample.free_frames <= 40 && sample.active_tasks + sample.ready_tasks <= 8,
                "{policy}: {sample:?}"
            );
        }
        assert!(outcome.device_busy_refs == 30 * (outcome.page_reads + outcome.page_writes), "{policy}");
        assert!(
            outcome.page_reads <= outcome.page_faults && outcome.replacements <= outcome.page_reads,
            "{policy}"
        );
        assert!(outcome.mean_mpl >= 1.0 - f64::EPSILON && outcome.mean_mpl <= 8.0, "{policy}");
    }
}

#[test]
fn every_choice_of_load_control_and_queue_works() {
    let programs = [phases(20, 3000, 1), phases(35, 2000, 2)];
    let mut seen = std::collections::BTreeSet::new();
    for (deactivate, _) in Deactivate::ALL {
        for queue in [Discipline::Fifo, Discipline::ReadsFirst, Discipline::RunFirst] {
            let mut configuration = configuration(40, 10);
            (configuration.load_control.deactivate, configuration.devices.queue) = (deactivate, queue);
            configuration.devices.access_refs = (20, 60);
            let outcome = run(configuration, &programs, "wsclock:theta=500,lt-rt=off");
            assert!(outcome.deactivations > 0, "{queue:?}: {deactivate:?}");
            seen.insert((outcome.elapsed_refs, outcome.page_faults));
        }
    }
    assert!(seen.len() > 12, "they make a difference: {seen:?}");
}

#[test]
fn k0_leaves_frames_unclaimed() {
    let programs = [phases(20, 3000, 1)];
    let mpl = |k0_frames| {
        let mut configuration = configuration(60, 12);
        configuration.load_control.k0_frames = k0_frames;
        run(configuration, &programs, "wsclock:theta=300").mean_mpl
    };
    assert!(mpl(30) < mpl(0), "{} < {}", mpl(30), mpl(0));
}

#[test]
fn wsclock_alone_in_three_frames_forces_every_replacement() {
    let e1 = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    let program = Arc::new(Program::from_references("e1", e1.map(|page| (page, false))));
    let outcome = run(configuration(3, 1), &[program], "wsclock:theta=4");
    // Theta is too large for so little memory: every replacement is forced, after a whole circuit.
    assert_eq!((outcome.page_faults, outcome.replacements, outcome.forced_replacements), (10, 7, 7));
    assert_eq!(outcome.hand_steps, Some(21));
}
