//! The suite that every registered policy passes, and the plain machine it runs them on.
//!
//! [`Machine`] is demand paging written for clarity: it keeps its own resident set and checks after every step what
//! the policy did and what the policy's own [`Policy::check`](crate::Policy::check) says. [`conform`] puts a policy through
//! - every reference string of length 8 over 4 pages, at every memory size from 1 to 5;
//! - random strings over more pages and sizes;
//! - for each: never fewer faults than OPT, no fault beyond the first on a page when all fit, the same victims
//!   after an order-preserving renaming of the pages, the same faults and victims as the [`naive`] model, and, in
//!   the VM model, the same victims when the hits between two faults are reduced to one a page.
//!
//! [`fuzz`] turns any bytes into a policy, a memory size and operations (references, unmaps, evictions ahead of
//! need, lost races) with the same checks after each; `fuzz/` gives it to libFuzzer.

mod machine;
pub mod naive;

pub use machine::{Machine, Step};

use crate::arguments::Rounding;
use crate::registry::{POLICIES, Registered, Spec, Visitor};
use crate::{Arguments, Model, SplitMix64, Violation};
use alloc::{format, string::String, vec::Vec};

/// The classic string that shows Belady's anomaly; 3 frames.
pub const E1: &[u32] = &[1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
/// A loop one page larger than 4 frames.
pub const E2: &[u32] = &[1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5];
/// A hot pair with a scan going through; 4 frames.
pub const E3: &[u32] = &[1, 2, 1, 3, 1, 2, 4, 1, 5, 2, 6, 1, 7, 2, 1, 8, 3, 1, 2, 4];

/// Runs a string through a policy given as on the command line. Panics on a broken rule.
pub fn run(spec: &str, references: &[u32], frames: usize) -> Vec<Step> {
    let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
    run_spec(&spec, references, frames)
        .unwrap_or_else(|violation| panic!("{spec}, {frames} frames: {violation}"))
}

/// The number of faults of [`run`].
pub fn faults(spec: &str, references: &[u32], frames: usize) -> usize {
    count_faults(&run(spec, references, frames))
}

/// `faults:victims` in the short notation of worked examples, such as `9:123412`.
pub fn outcome(steps: &[Step]) -> String {
    let victims: String = steps.iter().filter_map(|step| step.victim).map(|page| format!("{page}")).collect();
    format!("{}:{victims}", count_faults(steps))
}

/// Puts a policy through the suite. `Err` names the string, the memory size and the rule that was broken.
pub fn conform(spec: &Spec) -> Result<(), Violation> {
    for code in 0..4_u32.pow(8) {
        let string: Vec<u32> = (0..8).map(|place| code >> (2 * place) & 3).collect();
        for frames in 1..=5 {
            conform_on(spec, &string, frames)?;
        }
    }
    let mut random = SplitMix64::new(1);
    for round in 0..400 {
        // Small alphabets meet every corner, larger ones let history build up; some strings are mostly loops.
        let pages = 2 + random.below(if round % 4 == 0 { 40 } else { 12 });
        let frames = 1 + random.below(16) as usize;
        let loops = round % 3 == 0;
        let length = 300;
        let string: Vec<u32> =
            (0..length)
                .map(|time| {
                    if loops && random.below(4) > 0 {
                        time % pages as u32
                    } else {
                        random.below(pages) as u32
                    }
                })
                .collect();
        conform_on(spec, &string, frames)?;
    }
    Ok(())
}

/// The checks of [`conform`] on one string.
pub fn conform_on(spec: &Spec, references: &[u32], frames: usize) -> Result<(), Violation> {
    let fail =
        |what: String| Err(Violation(format!("{spec}, {frames} frames, string {references:?}: {what}")));
    let steps = match run_spec(spec, references, frames) {
        Ok(steps) => steps,
        Err(violation) => return fail(violation.0),
    };
    let faults = count_faults(&steps);
    let least = count_faults(&naive_steps(naive::opt(references, frames)));
    if faults < least {
        return fail(format!("{faults} faults, but OPT takes {least}"));
    }
    let mut distinct = references.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() <= frames && faults != distinct.len() {
        return fail(format!("{faults} faults on {} pages that all fit", distinct.len()));
    }
    let renamed: Vec<u32> = references.iter().map(|page| 3 * page + 5).collect();
    let expected: Vec<Step> =
        steps.iter().map(|step| Step { victim: step.victim.map(|page| 3 * page + 5), ..*step }).collect();
    if run_spec(spec, &renamed, frames)? != expected {
        return fail("other victims when pages are renamed in order".into());
    }
    if let Some(model) = naive_model(spec, references, frames)
        && model != steps
    {
        return fail(format!("{} instead of the naive model's {}", outcome(&steps), outcome(&model)));
    }
    if spec.visit(IsVmModel) {
        let squeezed = squeeze_hits(references, &steps);
        let victims = |steps: &[Step]| steps.iter().filter(|step| step.fault).copied().collect::<Vec<_>>();
        if victims(&run_spec(spec, &squeezed, frames)?) != victims(&steps) {
            return fail("more than the reference bit of a hit was seen".into());
        }
    }
    Ok(())
}

/// Keeps, of the hits between two faults, the first to each page.
fn squeeze_hits(references: &[u32], steps: &[Step]) -> Vec<u32> {
    let mut since_fault: Vec<u32> = Vec::new();
    let mut kept = Vec::new();
    for (&page, step) in references.iter().zip(steps) {
        if step.fault {
            since_fault.clear();
            kept.push(page);
        } else if !since_fault.contains(&page) {
            since_fault.push(page);
            kept.push(page);
        }
    }
    kept
}

/// What the [`naive`] model of a policy does, for the policies that have one.
pub fn naive_model(spec: &Spec, references: &[u32], frames: usize) -> Option<Vec<Step>> {
    let arguments = spec.arguments();
    let on = |name| arguments.switch(name).unwrap_or_default();
    let pages = |name, rounding| arguments.pages(name, frames, rounding).expect("checked by the spec");
    let steps = match spec.name() {
        "fifo" => naive::fifo(references, frames),
        "lru" => naive::lru(references, frames),
        "opt" => naive::opt(references, frames),
        "clock" => {
            let init = on("init");
            let fill_init = if arguments.is_given("fill-init") { on("fill-init") } else { init };
            naive::clock(references, frames, init, fill_init)
        }
        "clock-page-table" => naive::clock_page_table(references, frames),
        "car" => naive::car(references, frames, on("integer-ratio")),
        "lirs" => {
            let hir = pages("hir", Rounding::Down).max(pages("hir-min", Rounding::Nearest));
            let smax = arguments.factor("stack-limit").ok().map(|limit| (limit * frames as f64) as usize);
            naive::lirs(references, frames, hir, smax)
        }
        name @ ("clock-pro" | "clock-pro-fixed") => {
            let adaptive = name == "clock-pro";
            let bound = |name| adaptive.then(|| pages(name, Rounding::Nearest));
            let options = naive::ClockProOptions {
                adaptive,
                mc0: pages("cold", Rounding::Nearest),
                lo: bound("cold-min").unwrap_or(1),
                hi: bound("cold-max"),
                limit: arguments.factor("history").expect("checked by the spec"),
                warm: if arguments.value("warm") == "hot" { naive::Warm::Hot } else { naive::Warm::Cold },
                ref_not_in_test: match arguments.value("referenced-cold") {
                    "keep" => naive::ReferencedNotInTest::Keep,
                    "new-test" => naive::ReferencedNotInTest::NewTest,
                    _ => naive::ReferencedNotInTest::Evict,
                },
            };
            naive::clock_pro(references, frames, &options)
        }
        _ => return None,
    };
    Some(naive_steps(steps))
}

fn naive_steps(steps: Vec<naive::Step>) -> Vec<Step> {
    steps.into_iter().map(|step| Step { fault: step.fault, victim: step.victims.first().copied() }).collect()
}

fn count_faults(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.fault).count()
}

fn run_spec(spec: &Spec, references: &[u32], frames: usize) -> Result<Vec<Step>, Violation> {
    struct Run<'a>(&'a Spec, &'a [u32], usize);
    impl Visitor for Run<'_> {
        type Output = Result<Vec<Step>, Violation>;
        fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
            let Run(spec, references, frames) = self;
            Machine::<P>::with_arguments(spec.arguments(), frames).run(references)
        }
    }
    spec.visit(Run(spec, references, frames))
}

struct IsVmModel;

impl Visitor for IsVmModel {
    type Output = bool;
    fn visit<P: Registered + Send + 'static>(self) -> bool {
        !<P::Model as Model>::SEES_HITS
    }
}

/// Runs operations read from `data` against a policy chosen by it, checking every rule. Panics on a broken one.
///
/// The first two bytes choose policy and memory size (1 to 16 frames); each further byte is an operation.
pub fn fuzz(data: &[u8]) {
    let [policy, frames, operations @ ..] = data else { return };
    let info = POLICIES[*policy as usize % POLICIES.len()].info;
    let preset = info.presets.get(*policy as usize / POLICIES.len() % (info.presets.len() + 1));
    let text = preset.map_or(String::new(), |preset| format!("preset={}", preset.name));
    let arguments = Arguments::parse(info, &text).expect("a preset of its own");
    struct Fuzz<'a>(&'a Arguments, usize, &'a [u8]);
    impl Visitor for Fuzz<'_> {
        type Output = Result<(), Violation>;
        fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
            let Fuzz(arguments, frames, operations) = self;
            let mut machine = Machine::<P>::with_arguments(arguments, frames);
            for operation in operations {
                let page = u32::from(operation & 31);
                match operation >> 5 {
                    0..=4 => drop(machine.try_access(page)?),
                    5 => machine.unmap(page)?,
                    6 => machine.evict_ahead(page as usize % frames)?,
                    _ => machine.lose_race()?,
                }
            }
            Ok(())
        }
    }
    let frames = 1 + *frames as usize % 16;
    let visited = crate::registry::visit(info.name, Fuzz(&arguments, frames, operations));
    if let Some(Err(violation)) = visited {
        panic!("{}:{text}, {frames} frames, operations {operations:02x?}: {violation}", info.name);
    }
}
