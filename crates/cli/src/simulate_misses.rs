//! `sweephand simulate --misses`: what a memory asks of the memory below it, as a trace.

use crate::progress;
use anyhow::bail;
use std::path::Path;
use sweephand_output::Output;
use sweephand_sim::{Cell, Evictions, Outcome, Sweep, write_misses};
use sweephand_trace::{Error, Interrupt, Metadata, Trace, Writer};

/// Which evictions are written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EvictionsName {
    /// Of pages that were written to: the memory below has an old copy
    Written,
    /// All: the memory below has what this one gives up
    All,
    /// No evictions, only misses
    None,
}

impl EvictionsName {
    fn evictions(self) -> Evictions {
        match self {
            Self::Written => Evictions::Written,
            Self::All => Evictions::All,
            Self::None => Evictions::None,
        }
    }
}

/// A trace of misses that is still to be written.
pub(crate) struct Misses<'a> {
    path: &'a Path,
    writer: Writer<Output>,
    evictions: Evictions,
}

impl<'a> Misses<'a> {
    /// `in_use` is what the command reads, and writes besides.
    pub(crate) fn create(path: &'a Path, evictions: EvictionsName, in_use: &[&Path]) -> anyhow::Result<Self> {
        let out = Output::create(path, in_use)?;
        let writer = Writer::new(out, Metadata::default()).map_err(|error| error.in_output(path))?;
        Ok(Self { path, writer, evictions: evictions.evictions() })
    }

    /// Simulates the one cell of a sweep. The file is complete then, and still has to be committed.
    pub(crate) fn write(mut self, trace: &Trace, sweep: &Sweep) -> anyhow::Result<(Outcome, Output)> {
        let [cell] = &sweep.cells[..] else { bail!(one_cell(&sweep.cells)) };
        let bar = progress::bar(trace.header().totals.records, "references");
        bar.set_message(trace.name().display().to_string());
        let (outcome, end) = write_misses(
            trace,
            cell,
            sweep.collapse,
            self.evictions,
            &mut self.writer,
            &Interrupt::default(),
            &|records| bar.set_position(records),
        )?;
        bar.finish_and_clear();
        let (out, _) = self.writer.finish(end).map_err(|error: Error| error.in_output(self.path))?;
        Ok((outcome, out))
    }
}

/// Why cells are too many for a trace of misses.
fn one_cell(cells: &[Cell]) -> String {
    let mut sizes: Vec<_> = cells.iter().map(|cell| cell.frames).collect();
    sizes.sort_unstable();
    sizes.dedup();
    match sizes.len() {
        1 => format!("--misses: {} policies, and it is for one: name it with --policy", cells.len()),
        sizes => format!("--misses: {sizes} memory sizes, and it is for one: give it with --memory"),
    }
}
