//! A worker process: cells in, rows out, one line of JSON each.
//!
//! ```text
//! driver                          worker
//!        <-- {"ready":"0.2.0"}
//!   cell -->
//!        <-- {"row":{…}} or {"error":"…"} or {"refused":"…"}
//! ```
//!
//! A worker ends when its input or its driver ends.

use crate::{Cell, Error, Runner, VERSION};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use sweephand_results::SweepRow;

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The worker is ready for cells; its version.
    Ready(String),
    /// The row of a cell.
    Row(Box<SweepRow>),
    /// Why there is no row this time.
    Error(String),
    /// Why there is no row, however often the cell is tried.
    Refused(String),
    /// Why there is none, and none of its trace's other cells either: it is not the trace that was
    /// planned with.
    Wrong(String),
}

/// Takes cells until there are no more. `fetch` says where a cell's trace lies on this machine.
pub fn serve(
    input: impl BufRead,
    mut output: impl Write,
    mut fetch: impl FnMut(&Cell) -> Result<PathBuf, String>,
) -> io::Result<()> {
    // A driver that is killed takes its workers along.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut runner = Runner::default();
    say(&mut output, &Answer::Ready(VERSION.to_string()))?;
    for line in input.lines() {
        let mut run = |line: &str| -> Result<SweepRow, Answer> {
            let refused = |error| Answer::Refused(format!("no cell: {error}"));
            let cell: Cell = serde_json::from_str(line).map_err(refused)?;
            let path = fetch(&cell).map_err(Answer::Error)?;
            runner.run(&cell, &path).map_err(|error| match error {
                Error::WrongTrace(words) => Answer::Wrong(words),
                error if error.may_pass() => Answer::Error(error.to_string()),
                error => Answer::Refused(error.to_string()),
            })
        };
        let answer = run(&line?).map_or_else(|answer| answer, |row| Answer::Row(Box::new(row)));
        say(&mut output, &answer)?;
    }
    Ok(())
}

fn say(output: &mut impl Write, answer: &Answer) -> io::Result<()> {
    serde_json::to_writer(&mut *output, answer)?;
    writeln!(output)?;
    output.flush()
}
