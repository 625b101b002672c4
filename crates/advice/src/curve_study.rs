//! The fault curves of a trace, with what they come to.

use crate::conclusion::{Conclusion, Curve, Curves};
use crate::leaders::{Leaders, LeadersAtSize, sample_records};
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
        let records = described.records.max(1);
        let mut notes = Vec::new();
        let mut specs = specs;
        if records >= u64::from(NEVER) {
            specs.retain(|spec| spec.entry().model != "offline");
            notes.push(format!("OPT is left out: it can be told the future of {NEVER} references at most."));
        }
        let all = described.distinct_pages.max(1) as usize;
        let mut frames = Vec::new();
        for size in sizes {
            frames.extend(size.frames(described.distinct_pages, described.page_bytes)?);
        }
        // In less memory a live recording lacks faults.
        let known_from = described.known_from_pages as usize;
        frames.retain(|frames| *frames < all);
        let left_out = frames.iter().any(|frames| *frames < known_from);
        frames.retain(|frames| *frames >= known_from);
        let is_unknown = left_out && frames.is_empty();
        frames.push(all);
        frames.sort_unstable();
        frames.dedup();
        let metadata = &trace.header().metadata;
        if left_out {
            let known_from = grouped(known_from as u64);
            notes.push(format!(
                "Memory of less than {known_from} pages is left out: faults are missing there."
            ));
        }
        let exact_from_pages = metadata.nearly_exact_pages();
        if let (Some(reduction), true) = (metadata.reduction(), (frames[0] as u64) < exact_from_pages) {
            notes.push(format!("The trace {reduction}. Policies are compared from there."));
        }
        if !trace.header().metadata.complete {
            notes.push(format!(
                "The recording ends before the program does: it {}.",
                trace.header().metadata.ended
            ));
        }
        let cells =
            specs.iter().flat_map(|spec| frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
        // Where a policy follows others, its leader is looked at on the way.
        let sweep_of = |cells: Vec<Cell>| Sweep {
            cells,
            sample_records: sample_records(&specs, records),
            interrupt: interrupt.clone(),
            ..Sweep::default()
        };
        let outcomes =
            sweep_of(cells.collect()).run(trace, &|done| progress(0.75 * done as f64 / records as f64))?;
        let mut leaders: Vec<Leaders> = specs.iter().filter_map(Leaders::of).collect();
        let mut note_leaders = |frames: &[usize], outcomes: &[(Outcome, Trajectory)]| {
            let of_specs = specs.iter().zip(outcomes.chunks(frames.len()));
            let leading = of_specs.filter(|(spec, _)| spec.expert(0).is_some());
            for (leaders, (_, outcomes)) in leaders.iter_mut().zip(leading) {
                for (frames, (_, trajectory)) in frames.iter().zip(outcomes) {
                    if let Some(seen) = LeadersAtSize::of(*frames as u64, trajectory) {
                        leaders.insert(seen);
                    }
                }
            }
        };
        note_leaders(&frames, &outcomes);
        let mut curves = Curves {
            page_bytes: described.page_bytes,
            distinct_pages: described.distinct_pages,
            first_touch_faults: outcomes.first().map_or(0, |(outcome, _)| outcome.first_touch_faults),
            exact_from_pages,
            memory_pages: frames.iter().map(|frames| *frames as u64).collect(),
            curves: specs
                .iter()
                .zip(outcomes.chunks(frames.len()))
                .map(|(spec, outcomes)| Curve {
                    policy: spec.to_string(),
                    runs_live: spec.entry().runs_live,
                    offline: spec.entry().model == "offline",
                    faults: outcomes.iter().map(|(outcome, _)| outcome.faults).collect(),
                })
                .collect(),
        };
        let mut conclusion = Conclusion::of(&curves);
        let between = conclusion.between(REFINED_SIZES);
        let cell = |frames: &u64| Cell { spec: specs[conclusion.policy].clone(), frames: *frames as usize };
        let cells = between.iter().map(cell).collect();
        let sweep = Sweep { cells, interrupt: interrupt.clone(), ..Sweep::default() };
        let outcomes = sweep.run(trace, &|done| progress(0.75 + 0.15 * done as f64 / records as f64))?;
        let faults = outcomes.iter().map(|(outcome, _)| outcome.faults);
        conclusion.refine(&curves, &between.iter().copied().zip(faults).collect::<Vec<_>>());
        // The text speaks of that size: so the curves show it.
        if !curves.memory_pages.contains(&conclusion.enough.memory_pages) {
            let frames = conclusion.enough.memory_pages;
            let cells = specs.iter().map(|spec| Cell { spec: spec.clone(), frames: frames as usize });
            let outcomes = sweep_of(cells.collect())
                .run(trace, &|done| progress(0.9 + 0.1 * done as f64 / records as f64))?;
            note_leaders(&[frames as usize], &outcomes);
            let faults: Vec<u64> = outcomes.iter().map(|(outcome, _)| outcome.faults).collect();
            conclusion.insert(&mut curves, frames, &faults);
        }
        progress(1.0);
        let metadata = &trace.header().metadata;
        Ok(Self {
            trace: described,
            name: short_name(trace),
            program: metadata.program.clone(),
            command: metadata.command.clone(),
            specs,
            curves,
            conclusion,
            leaders,
            inconclusive: launcher(trace.header()).or_else(|| is_unknown.then(|| too_long_epochs(metadata))),
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
