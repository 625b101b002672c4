//! The test suite that every registered policy passes, and the simple machine that it runs policies
//! on.
//!
//! [`Machine`] is demand paging written for clarity. It keeps its own resident set. After every
//! step it checks what the policy did and calls the policy's own
//! [`Policy::check`](crate::Policy::check). [`conform`] runs a policy on
//! - every reference string of length 8 over 4 pages, at every memory size from 1 to 5. Strings
//!   that differ only in the names of their pages count as one, unless the policy looks at the
//!   names. Each is tried under two namings;
//! - random strings over more pages and sizes.
//!
//! For each string it checks that
//! - the policy never takes fewer faults than OPT;
//! - a page faults only once when all pages fit;
//! - the victims stay the same when the pages are renamed in an order-preserving way;
//! - the faults and victims are those of the [`naive`] model;
//! - with `settle`, they are those of the policy without it in a memory that clears the bits;
//! - in the VM model, the victims stay the same when the hits on a page between two faults are
//!   reduced to one.
//!
//! [`fuzz`] turns any bytes into a policy, a memory size and operations (references, unmaps,
//! evictions ahead of need, lost races, objects allocated and freed). It makes the same checks
//! after each operation. `fuzz/` feeds it to libFuzzer.

mod machine;
pub mod naive;

pub use machine::{Machine, Step};

use crate::arguments::Rounding;
use crate::plugin::Failed;
use crate::registry::{POLICIES, Registered, Spec, Visitor};
use crate::settled::SETTLE;
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

/// Pages of the strings of which every one is tried.
const PAGES: u32 = 4;
/// The largest memory for these strings: all pages fit, and a frame is left.
const MOST_FRAMES: usize = PAGES as usize + 1;

/// Puts a policy through the suite. `Err` names the string, the memory size and the rule that was
/// broken.
pub fn conform(spec: &Spec) -> Result<(), Violation> {
    conform_to(spec, Extent::WHOLE)
}

/// How much of the suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The length of the strings of which every one is tried.
    pub length: u32,
    /// How many random strings.
    pub strings: u32,
    /// How many random sequences of operations; see [`operate`].
    pub operations: u32,
}

impl Extent {
    /// All of it; operations come besides, from the fuzz target.
    pub const WHOLE: Self = Self { length: 8, strings: 400, operations: 0 };
    /// For policies that are slow to call.
    pub const QUICK: Self = Self { length: 5, strings: 60, operations: 60 };
}

/// Puts a policy through a part of the suite.
pub fn conform_to(spec: &Spec, extent: Extent) -> Result<(), Violation> {
    let names_matter = spec.visit(NeedsPageNumbers) || spec.visit(IdsMatterModulo) > 1;
    let mut namings = SplitMix64::new(4);
    for string in strings(extent.length) {
        if names_matter {
            for frames in 1..=MOST_FRAMES {
                conform_on(spec, &string, frames)?;
            }
        } else if is_named_in_order(&string) {
            let names = naming(&mut namings);
            let renamed: Vec<u32> = string.iter().map(|&page| names[page as usize]).collect();
            for frames in 1..=MOST_FRAMES {
                conform_on(spec, &string, frames)?;
                conform_on(spec, &renamed, frames)?;
            }
        }
    }
    let mut random = SplitMix64::new(1);
    for round in 0..u64::from(extent.operations) {
        let (frames, length) = (1 + round as usize % 16, random.below(200));
        let operations: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        let operated = caught(|| operate_on(spec, frames, &operations));
        operated.map_err(|Violation(what)| {
            Violation(format!("{spec}, {frames} frames, operations {operations:02x?}: {what}"))
        })?;
    }
    let mut random = SplitMix64::new(1);
    for round in 0..extent.strings {
        // Small alphabets meet every corner, larger ones let history build up; some strings are
        // mostly loops.
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

/// Every string of this length over [`PAGES`] pages.
fn strings(length: u32) -> impl Iterator<Item = Vec<u32>> {
    (0..PAGES.pow(length)).map(move |code| (0..length).map(|place| code / PAGES.pow(place) % PAGES).collect())
}

/// Whether the pages of a string are named in the order of their first references: 0, 1, 2, ...
/// Each string has exactly one such form.
fn is_named_in_order(string: &[u32]) -> bool {
    let mut named = 0;
    string.iter().all(|&page| {
        let follows = page <= named;
        named += u32::from(page == named);
        follows
    })
}

/// The names 0 to `PAGES` - 1 in some order.
fn naming(random: &mut SplitMix64) -> Vec<u32> {
    let mut names: Vec<u32> = (0..PAGES).collect();
    for place in (1..names.len()).rev() {
        names.swap(place, random.below(place as u64 + 1) as usize);
    }
    names
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
    let modulus = spec.visit(IdsMatterModulo);
    // Neighbours stay neighbours where that matters.
    let stretch = if spec.visit(NeedsPageNumbers) { 1 } else { 2 * modulus + 1 };
    let rename = |page| stretch * page + 5 * modulus;
    let renamed: Vec<u32> = references.iter().copied().map(rename).collect();
    let expected: Vec<Step> =
        steps.iter().map(|step| Step { victim: step.victim.map(rename), ..*step }).collect();
    if run_spec(spec, &renamed, frames)? != expected {
        return fail("other victims when pages are renamed in order".into());
    }
    if let Some(model) = naive_model(spec, references, frames)
        && model != steps
    {
        return fail(format!("{} instead of the naive model's {}", outcome(&steps), outcome(&model)));
    }
    if let Some(settle) = settle(spec.arguments(), frames) {
        let model = caught(|| spec.visit(Run { spec, references, frames, settle }))?;
        if model != steps {
            return fail(format!("{} instead of {} if memory settles", outcome(&steps), outcome(&model)));
        }
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
    if spec.plugin().is_some() || settle(spec.arguments(), frames).is_some() {
        return None;
    }
    let (_, model) = naive::MODELS.iter().find(|(name, _)| *name == spec.name())?;
    let steps = model(&naive::Given { arguments: spec.arguments(), frames }, references);
    Some(naive_steps(steps))
}

/// Calls `check` with random strings of three shapes and 1 to 10 frames. If it fails, the string is
/// printed.
#[cfg(test)]
pub(crate) fn for_random_strings(check: impl Fn(&[u32], usize)) {
    let check = |string: &[u32], frames| {
        let _input = sweephand_checks::trying(|| format!("{frames} frames, {string:?}"));
        check(string, frames);
    };
    let mut random = SplitMix64::new(1);
    let mut below = move |bound| random.below(bound);
    for frames in 1..=10 {
        for pages in [frames as u64, frames as u64 + 1, 2 * frames as u64, 5 * frames as u64] {
            let uniform: Vec<u32> = (0..300).map(|_| below(pages) as u32).collect();
            check(&uniform, frames);
            // Mostly low pages.
            let mut skewed = Vec::new();
            for _ in 0..300 {
                let top = below(pages);
                skewed.push(below(top + 1) as u32);
            }
            check(&skewed, frames);
            // Loops with random pages between.
            let mixed: Vec<u32> = (0..300)
                .map(|i| if below(4) == 0 { below(pages) as u32 } else { (i % pages) as u32 })
                .collect();
            check(&mixed, frames);
        }
    }
}

fn naive_steps(steps: Vec<naive::Step>) -> Vec<Step> {
    steps.into_iter().map(|step| Step { fault: step.fault, victim: step.victims.first().copied() }).collect()
}

fn count_faults(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.fault).count()
}

/// What a policy from elsewhere cannot do is a rule that it breaks.
fn caught<T>(work: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    result.unwrap_or_else(|payload| match payload.downcast::<Failed>() {
        Ok(failed) => Err(Violation(failed.0)),
        Err(payload) => std::panic::resume_unwind(payload),
    })
}

fn run_spec(spec: &Spec, references: &[u32], frames: usize) -> Result<Vec<Step>, Violation> {
    caught(|| spec.visit(Run { spec, references, frames, settle: 0 }))
}

/// A run of a spec. `settle`: memory settles the pages, and not the policy; 0 if memory does not.
struct Run<'a> {
    spec: &'a Spec,
    references: &'a [u32],
    frames: usize,
    settle: u64,
}

impl Visitor for Run<'_> {
    type Output = Result<Vec<Step>, Violation>;
    fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
        let Run { spec, references, frames, settle } = self;
        let mut arguments = spec.arguments().clone();
        if settle > 0 {
            arguments = arguments.with(SETTLE.name, "0".into());
        }
        Machine::<P>::with_arguments(&arguments, frames).with_settling(settle).run(references)
    }
}

/// After how many faults a policy has its pages' bits cleared once more, if it does.
fn settle(arguments: &Arguments, frames: usize) -> Option<u64> {
    // `auto` settles the pages of some experts, not its own.
    let takes = arguments
        .info()
        .parameters
        .iter()
        .any(|parameter| parameter.default == SETTLE.default && parameter.name == SETTLE.name);
    let faults = takes.then(|| arguments.pages(SETTLE.name, frames, Rounding::Up));
    faults.map(|faults| faults.expect("checked by the spec") as u64).filter(|&faults| faults > 0)
}

struct IdsMatterModulo;

impl Visitor for IdsMatterModulo {
    type Output = u32;
    fn visit<P: Registered + Send + 'static>(self) -> u32 {
        P::IDS_MATTER_MODULO
    }
}

struct NeedsPageNumbers;

impl Visitor for NeedsPageNumbers {
    type Output = bool;
    fn visit<P: Registered + Send + 'static>(self) -> bool {
        P::NEEDS_PAGE_NUMBERS
    }
}

struct IsVmModel;

impl Visitor for IsVmModel {
    type Output = bool;
    fn visit<P: Registered + Send + 'static>(self) -> bool {
        !<P::Model as Model>::SEES_HITS
    }
}

/// Runs operations read from `data` against a policy chosen by it, checking every rule. Panics on a
/// broken one.
///
/// The first two bytes choose policy, memory size (1 to 16 frames) and whether pages settle; each
/// further byte is an operation.
pub fn fuzz(data: &[u8]) {
    let [policy, frames, operations @ ..] = data else { return };
    let info = POLICIES[*policy as usize % POLICIES.len()].info;
    let preset = info.presets.get(*policy as usize / POLICIES.len() % (info.presets.len() + 1));
    let mut text = preset.map_or(String::new(), |preset| format!("preset={}", preset.name));
    if *frames >= 128 && info.parameters.iter().any(|parameter| parameter.name == SETTLE.name) {
        text += &format!(",{}={}", SETTLE.name, 1 + *frames as usize / 16 % 8);
    }
    let arguments = Arguments::parse(info, &text).expect("a preset of its own");
    let frames = 1 + *frames as usize % 16;
    if let Err(violation) = operate(&arguments, frames, operations) {
        panic!("{}:{text}, {frames} frames, operations {operations:02x?}: {violation}", info.name);
    }
}

/// Does the operations of [`fuzz`], a byte each, with one policy.
pub fn operate(arguments: &Arguments, frames: usize, operations: &[u8]) -> Result<(), Violation> {
    crate::registry::visit(arguments.info().name, Operate(arguments, frames, operations))
        .expect("arguments are those of a registered policy")
}

fn operate_on(spec: &Spec, frames: usize, operations: &[u8]) -> Result<(), Violation> {
    spec.visit(Operate(spec.arguments(), frames, operations))
}

struct Operate<'a>(&'a Arguments, usize, &'a [u8]);

impl Visitor for Operate<'_> {
    type Output = Result<(), Violation>;
    fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
        let Operate(arguments, frames, operations) = self;
        let machine = Machine::<P>::with_arguments(arguments, frames);
        // Three objects, each with a run of pages.
        let mut machine = machine.with_objects(|page| page / 11);
        for operation in operations {
            let page = u32::from(operation & 31);
            match operation >> 5 {
                0..=4 => drop(machine.try_access(page)?),
                5 => machine.unmap(page)?,
                6 => machine.evict_ahead(page as usize % frames)?,
                _ if page < 16 => machine.lose_race()?,
                // The objects by number, and others that are allocated over runs of four pages.
                _ if page < 24 => machine.free_object(1 + page % 4)?,
                _ => machine.allocate(1 + page % 4, 4 * (page - 24)..4 * (page - 23))?,
            }
        }
        Ok(())
    }
}
