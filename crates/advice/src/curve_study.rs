//! The fault curves of a trace, with what they come to.

use crate::conclusion::{Conclusion, Curve, Curves};
use crate::leaders::{Leaders, LeadersAtSize, sample_records};
use std::ops::Range;
use sweephand_policy::NEVER;
use sweephand_policy::registry::Spec;
use sweephand_results::{SimulatedTrace, grouped};
use sweephand_sim::{Cell, MemorySize, Outcome, Sweep, SweepError, Trajectory};
use sweephand_trace::{BECAME_ANOTHER, Header, Interrupt, LargestChild, Metadata, Trace};

/// Sizes simulated between the last that is short and the first that is enough.
const REFINED_SIZES: usize = 7;

/// The fault curves of a trace with what they come to.
#[derive(Clone, Debug)]
pub struct CurveStudy {
    /// The trace.
    pub trace: SimulatedTrace,
    /// What it is called; see [`short_name`].
    pub name: String,
    /// The program's name.
    pub program: String,
    /// Its command line, where known.
    pub command: Vec<String>,
    /// The policies, in the order of the curves.
    pub specs: Vec<Spec>,
    /// Faults by policy and memory size.
    pub curves: Curves,
    /// What they come to.
    pub conclusion: Conclusion,
    /// Of each policy that follows others, such as `auto`: which.
    pub leaders: Vec<Leaders>,
    /// Why nothing is concluded: the program only launches the one that works (see [`launcher`]),
    /// or a live recording lacks faults at every size.
    pub inconclusive: Option<String>,
    /// What the reader should know before believing it.
    pub notes: Vec<String>,
}

impl CurveStudy {
    /// Simulates `specs` at `sizes`, and the best of them at a few more to say how much memory is
    /// enough. `progress` is called with the share done, from 0 to 1.
    ///
    /// `interrupt` has it given up.
    ///
    /// Where the trace is too long for OPT it is left out, with a note. OPT and CLOCK are wanted
    /// for comparison: name them if you want all that can be concluded.
    pub fn of(
        trace: &Trace,
        specs: Vec<Spec>,
        sizes: &[MemorySize],
        progress: &(dyn Fn(f64) + Sync),
        interrupt: &Interrupt,
    ) -> Result<Self, SweepError> {
        trace.check_pages()?;
        let described = SimulatedTrace::of(trace);
        let metadata = &trace.header().metadata;
        let mut specs = specs;
        let is_too_long_for_opt = described.records >= u64::from(NEVER);
        if is_too_long_for_opt {
            specs.retain(|spec| spec.entry().model != "offline");
        }
        let memory = KnownSizes::of(sizes, &described)?;
        let notes = notes(metadata, &memory, is_too_long_for_opt);
        let mut simulations = Simulations::new(trace, &specs, progress, interrupt);
        let mut curves = simulations.curves(&described, &memory)?;
        let mut conclusion = Conclusion::of(&curves);
        simulations.refine(&mut conclusion, &curves)?;
        // The text speaks of that size: so the curves show it.
        if !curves.memory_pages.contains(&conclusion.enough.memory_pages) {
            simulations.insert_enough(&mut conclusion, &mut curves)?;
        }
        progress(1.0);
        let leaders = simulations.leaders;
        let too_long_epochs = || memory.is_unknown.then(|| too_long_epochs(metadata));
        Ok(Self {
            trace: described,
            name: short_name(trace),
            program: metadata.program.clone(),
            command: metadata.command.clone(),
            specs,
            curves,
            conclusion,
            leaders,
            inconclusive: launcher(trace.header()).or_else(too_long_epochs),
            notes,
        })
    }

    /// The size at which there is most to gain: where OPT, or else the best policy, saves the
    /// largest share of faults.
    pub fn telling_size(&self) -> usize {
        let Conclusion { headroom, best, .. } = &self.conclusion;
        headroom.or(*best).map_or(self.curves.memory_pages.len() / 2, |comparison| comparison.most_at)
    }
}

/// The memory sizes of which a trace can tell the faults.
struct KnownSizes {
    /// In pages, ascending, each once. The last is all of the program's pages.
    frames: Vec<usize>,
    /// In less memory a live recording lacks faults.
    known_from: usize,
    /// Whether sizes below that were asked for.
    left_out: bool,
    /// Whether all that were asked for, but all pages, are below that.
    is_unknown: bool,
}

impl KnownSizes {
    /// Those of `sizes`, and all pages of the program.
    fn of(sizes: &[MemorySize], trace: &SimulatedTrace) -> Result<Self, SweepError> {
        let all = trace.distinct_pages.max(1) as usize;
        let mut frames = Vec::new();
        for size in sizes {
            frames.extend(size.frames(trace.distinct_pages, trace.page_bytes)?);
        }
        let known_from = trace.known_from_pages as usize;
        frames.retain(|frames| *frames < all);
        let left_out = frames.iter().any(|frames| *frames < known_from);
        frames.retain(|frames| *frames >= known_from);
        let is_unknown = left_out && frames.is_empty();
        frames.push(all);
        frames.sort_unstable();
        frames.dedup();
        Ok(Self { frames, known_from, left_out, is_unknown })
    }
}

/// What the reader should know of the trace, and of what the study leaves out, before believing it.
fn notes(metadata: &Metadata, memory: &KnownSizes, is_too_long_for_opt: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if is_too_long_for_opt {
        notes.push(format!("OPT is left out: it can be told the future of {NEVER} references at most."));
    }
    if memory.left_out {
        let known_from = grouped(memory.known_from as u64);
        notes.push(format!("Memory of less than {known_from} pages is left out: faults are missing there."));
    }
    let is_rough = (memory.frames[0] as u64) < metadata.nearly_exact_pages();
    if let (Some(reduction), true) = (metadata.reduction(), is_rough) {
        notes.push(format!("The trace {reduction}. Policies are compared from there."));
    }
    if !metadata.complete {
        notes.push(format!("The recording ends before the program does: it {}.", metadata.ended));
    }
    notes
}

/// The simulations of a study, one sweep after another.
struct Simulations<'a> {
    trace: &'a Trace,
    specs: &'a [Spec],
    /// Records of the trace, at least 1.
    records: u64,
    progress: &'a (dyn Fn(f64) + Sync),
    interrupt: &'a Interrupt,
    /// What has been seen so far, of each policy that follows others.
    leaders: Vec<Leaders>,
}

impl<'a> Simulations<'a> {
    fn new(
        trace: &'a Trace,
        specs: &'a [Spec],
        progress: &'a (dyn Fn(f64) + Sync),
        interrupt: &'a Interrupt,
    ) -> Self {
        let records = trace.header().totals.records.max(1);
        let leaders = specs.iter().filter_map(Leaders::of).collect();
        Self { trace, specs, records, progress, interrupt, leaders }
    }

    /// The curves of all policies at these sizes.
    fn curves(&mut self, trace: &SimulatedTrace, memory: &KnownSizes) -> Result<Curves, SweepError> {
        let outcomes = self.at_sizes(&memory.frames, 0.0..0.75)?;
        let curve = |(spec, outcomes): (&Spec, &[Outcome])| Curve {
            policy: spec.to_string(),
            runs_live: spec.entry().runs_live,
            offline: spec.entry().model == "offline",
            faults: outcomes.iter().map(|outcome| outcome.faults).collect(),
        };
        Ok(Curves {
            page_bytes: trace.page_bytes,
            distinct_pages: trace.distinct_pages,
            first_touch_faults: outcomes.first().map_or(0, |outcome| outcome.first_touch_faults),
            exact_from_pages: self.trace.header().metadata.nearly_exact_pages(),
            memory_pages: memory.frames.iter().map(|frames| *frames as u64).collect(),
            curves: self.specs.iter().zip(outcomes.chunks(memory.frames.len())).map(curve).collect(),
        })
    }

    /// Simulates the policy of a conclusion at a few more sizes, to say closer how much memory is
    /// enough.
    fn refine(&self, conclusion: &mut Conclusion, curves: &Curves) -> Result<(), SweepError> {
        let between = conclusion.between(REFINED_SIZES);
        let spec = &self.specs[conclusion.policy];
        let cell = |frames: &u64| Cell { spec: spec.clone(), frames: *frames as usize };
        let cells = between.iter().map(cell).collect();
        let sweep = Sweep { cells, interrupt: self.interrupt.clone(), ..Sweep::default() };
        let outcomes = sweep.run(self.trace, &self.share_done(0.75..0.9))?;
        let faults = outcomes.iter().map(|(outcome, _)| outcome.faults);
        conclusion.refine(curves, &between.iter().copied().zip(faults).collect::<Vec<_>>());
        Ok(())
    }

    /// Adds the size that is enough to the curves.
    fn insert_enough(&mut self, conclusion: &mut Conclusion, curves: &mut Curves) -> Result<(), SweepError> {
        let frames = conclusion.enough.memory_pages;
        let outcomes = self.at_sizes(&[frames as usize], 0.9..1.0)?;
        let faults: Vec<u64> = outcomes.iter().map(|outcome| outcome.faults).collect();
        conclusion.insert(curves, frames, &faults);
        Ok(())
    }

    /// What every policy does at these sizes: all sizes of the first policy, then those of the
    /// next. Where a policy follows others, its leader is looked at on the way.
    fn at_sizes(&mut self, frames: &[usize], share: Range<f64>) -> Result<Vec<Outcome>, SweepError> {
        let of_spec = |spec: &'a Spec| frames.iter().map(|&frames| Cell { spec: spec.clone(), frames });
        let sweep = Sweep {
            cells: self.specs.iter().flat_map(of_spec).collect(),
            sample_records: sample_records(self.specs, self.records),
            interrupt: self.interrupt.clone(),
            ..Sweep::default()
        };
        let (outcomes, trajectories): (Vec<_>, Vec<_>) =
            sweep.run(self.trace, &self.share_done(share))?.into_iter().unzip();
        self.note_leaders(frames, &trajectories);
        Ok(outcomes)
    }

    /// Takes in which policies led, in simulations of all policies at these sizes.
    fn note_leaders(&mut self, frames: &[usize], trajectories: &[Trajectory]) {
        let of_specs = self.specs.iter().zip(trajectories.chunks(frames.len()));
        let leading = of_specs.filter(|(spec, _)| spec.expert(0).is_some());
        for (leaders, (_, trajectories)) in self.leaders.iter_mut().zip(leading) {
            for (frames, trajectory) in frames.iter().zip(trajectories) {
                if let Some(seen) = LeadersAtSize::of(*frames as u64, trajectory) {
                    leaders.insert(seen);
                }
            }
        }
    }

    /// Tells of the progress of a sweep that is this share of the work.
    fn share_done(&self, share: Range<f64>) -> impl Fn(u64) {
        let (records, progress) = (self.records as f64, self.progress);
        move |done| progress(share.start + (share.end - share.start) * done as f64 / records)
    }
}

/// Why the recorded program only launches the one that works, if that is so, in a sentence. What
/// such a trace says about memory is of no use.
pub fn launcher(header: &Header) -> Option<String> {
    let Metadata { program, complete, ended, largest_child, .. } = &header.metadata;
    let own = header.totals.distinct_pages;
    if !complete && ended.starts_with(BECAME_ANOTHER) {
        return Some(format!("{program} is only a launcher: it {ended}"));
    }
    let LargestChild { program: child, pages } = largest_child.as_ref()?;
    let worked = match pages {
        Some(pages) if *pages <= own => return None,
        Some(pages) => format!("used {}", grouped(*pages)),
        None => "worked longer than it did".to_string(),
    };
    Some(format!("{program}: {} pages; its child {child} {worked}: record with --children", grouped(own)))
}

fn too_long_epochs(metadata: &Metadata) -> String {
    let what = match metadata.epochs {
        Some(epochs) if epochs.ordered => "record with --overhead none, or for longer, or without --live",
        _ => "watch with shorter epochs (--every), or record the program",
    };
    let from = grouped(metadata.exact_pages());
    format!("In less than {from} pages, faults are missing from the recording: {what}")
}

/// What a trace is called in headings: its file's name up to the first dot, or else its program's.
pub fn short_name(trace: &Trace) -> String {
    let path = trace.name();
    // What is read from a pipe has no file.
    let file = path.file_name().filter(|_| path.exists()).unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or_default();
    if stem.is_empty() { trace.header().metadata.program.clone() } else { stem.to_string() }
}
