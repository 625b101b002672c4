//! A watch for people: a full screen on a terminal, otherwise a line for each epoch, and a summary.

use super::show::{Show, seconds};
use crate::processes::name_of;
use crate::stderr::eprint_line;
use console::{Term, truncate_str};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;
use sweephand_pager::PAGE_BYTES;
use sweephand_results::{Table, bytes, grouped};
use sweephand_watch::{Bounds, Epoch, History, Mapping, Watching};

/// Mappings in the summary: those with the most pages in memory. The screen has as many as fit.
const MAPPINGS: usize = 10;
/// Epochs of which the working set is drawn.
const DRAWN_EPOCHS: usize = 120;
/// Parts of a mapping that are shown.
const CELLS: u64 = 32;
/// Parts of the used pages at which faults are told.
const PARTS: [f64; 5] = [0.125, 0.25, 0.5, 0.75, 1.0];
/// Longest name of a mapping on the screen.
const NAME: usize = 28;

pub(super) fn size(pages: u64) -> String {
    bytes(pages * PAGE_BYTES)
}

/// The full screen, which goes away with the watch.
pub(super) struct Screen {
    pid: u32,
    name: String,
    terminal: Term,
    /// The working sets of the last epochs, in pages.
    working_sets: VecDeque<u64>,
    /// What is said once the screen is gone.
    notes: Vec<String>,
}

impl Screen {
    pub(super) fn new(pid: u32) -> Self {
        let terminal = Term::stderr();
        // The other screen, so that what the terminal has shown comes back.
        let _ = terminal.write_str("\x1b[?1049h");
        let _ = terminal.hide_cursor();
        Self { pid, name: name_of(pid), terminal, working_sets: VecDeque::new(), notes: Vec::new() }
    }

    /// Shows lines from the top, as many as fit.
    fn draw(&self, text: &str) -> io::Result<()> {
        let (rows, columns) = self.terminal.size();
        let lines = text.lines().take(rows.into());
        let lines: Vec<_> = lines.map(|line| truncate_str(line, columns.into(), "…").into_owned()).collect();
        self.terminal.clear_screen()?;
        self.terminal.write_str(&lines.join("\n"))?;
        self.terminal.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        let _ = self.terminal.write_str("\x1b[?1049l");
        self.notes.iter().for_each(|note| eprint_line!("{note}"));
    }
}

impl Show for Screen {
    fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()> {
        let (history, look) = (watching.history(), &epoch.look);
        let stretched = if watching.pace().is_stretched() {
            format!(", the next of {} to keep the budget", seconds(watching.pace().period()))
        } else {
            String::new()
        };
        let mut text = format!(
            "{} ({}) after {}, epoch {} of {}, cost {:.1}% of a processor{stretched}\n\n",
            self.pid,
            self.name,
            seconds(epoch.time),
            epoch.number,
            seconds(epoch.length),
            100.0 * epoch.cost.as_secs_f64() / epoch.length.as_secs_f64(),
        );
        if look.one_page_in > 1 {
            text += &format!(
                "to keep the budget: estimates from one page in {}; working set now +- {:.1}%, twice the standard error\n",
                look.one_page_in,
                200.0 * look.used_pages_error / look.used_pages().max(1) as f64,
            );
        }
        text += &format!(
            "working set now {}   10 s {}   1 min {}   resident {}, {} of it unknown\n\n",
            size(look.used_pages()),
            size(history.working_set(Duration::from_secs(10))),
            size(history.working_set(Duration::from_secs(60))),
            size(look.resident_pages),
            size(look.of_all(look.unknown_pages)),
        );
        self.working_sets.push_back(look.used_pages());
        let drawn = usize::from(self.terminal.size().1).saturating_sub(1).clamp(1, DRAWN_EPOCHS);
        self.working_sets.drain(..self.working_sets.len().saturating_sub(drawn));
        text += &format!("{}\n\n{}\n", graph(&self.working_sets), curve(history));
        let rows = usize::from(self.terminal.size().0).saturating_sub(text.lines().count() + 2);
        text += &regions(history, watching.mappings(), rows).to_string();
        self.draw(&text)
    }

    fn new_program(&mut self, _: &Watching, name: &str) -> io::Result<()> {
        self.name = name.to_string();
        self.notes.push(new_program(name));
        Ok(())
    }

    fn child(&mut self, _: &Watching, pid: u32, name: &str) -> io::Result<()> {
        self.notes.push(child(pid, name));
        Ok(())
    }
}

fn new_program(name: &str) -> String {
    format!("sweephand: note: the process became another program: {name}")
}

fn child(pid: u32, name: &str) -> String {
    format!("sweephand: note: it started process {pid} ({name}), which is not watched")
}

/// Numbers as bars, a column each, the newest last.
fn graph(numbers: &VecDeque<u64>) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().copied().max().unwrap_or_default().max(1);
    numbers.iter().map(|number| BARS[(8 * number).div_ceil(most) as usize]).collect()
}

/// Bounds on the faults of LRU on pages that were used before in the watch.
fn curve(history: &History) -> Table {
    let pages = history.known_pages();
    let mut table = Table::new(["memory", "faults, at least", "at most"]);
    for part in PARTS {
        let memory = ((pages as f64 * part).ceil() as u64).max(1);
        let Bounds { at_least, at_most } = history.faults(memory);
        let at_most = at_most.map_or("?".to_string(), grouped);
        table.row([size(memory), grouped(at_least), at_most]);
    }
    table
}

/// The mappings with the most pages in memory, and how their parts are used.
fn regions(history: &History, mappings: &[Mapping], most: usize) -> Table {
    let mut largest: Vec<&Mapping> = mappings.iter().filter(|mapping| mapping.resident_pages > 0).collect();
    largest.sort_by_key(|mapping| std::cmp::Reverse(mapping.resident_pages));
    let mut table = Table::new(["mapping", "resident", "hot", "cold", "idle", "unknown", "use"]);
    for mapping in largest.into_iter().take(most) {
        let (hot, cold) = history.used_in(mapping.pages.clone());
        let [hot, cold, unknown] = [hot, cold, mapping.unknown_pages].map(|sampled| mapping.of_all(sampled));
        let idle = mapping.resident_pages.saturating_sub(hot + cold + unknown);
        table.row([
            name(mapping),
            size(mapping.resident_pages),
            size(hot),
            size(cold),
            size(idle),
            size(unknown),
            strip(history, mapping),
        ]);
    }
    table
}

/// The name of a mapping, its end if it is long.
fn name(mapping: &Mapping) -> String {
    let name = match mapping.name.as_str() {
        "" => format!("{:#x}", mapping.pages.start * PAGE_BYTES),
        name => name.to_string(),
    };
    let letters = name.chars().count();
    if letters <= NAME {
        name
    } else {
        format!("…{}", name.chars().skip(letters - NAME + 1).collect::<String>())
    }
}

/// How the parts of a mapping are used: the darker, the more of it was used in the last epoch. A
/// dot: used before, in the watch.
fn strip(history: &History, mapping: &Mapping) -> String {
    const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
    let (start, pages) = (mapping.pages.start, mapping.pages.end - mapping.pages.start);
    // Of a part with a sample of its pages, the rest counts as the sample does.
    let sampled = mapping.sampled_pages as f64 / mapping.resident_pages.max(1) as f64;
    let cell = |cell: u64| {
        let part = start + pages * cell / CELLS..start + (pages * (cell + 1)).div_ceil(CELLS);
        let all = (part.end - part.start).max(1);
        match history.used_in(part) {
            (0, 0) => ' ',
            (0, _) => '·',
            (hot, _) => SHADES[((4.0 * hot as f64 / (all as f64 * sampled)).ceil() as usize - 1).min(3)],
        }
    };
    (0..CELLS.min(pages)).map(cell).collect()
}

/// A line for each epoch.
#[derive(Default)]
pub(super) struct Rows {
    has_heading: bool,
}

impl Show for Rows {
    fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let mut row = |cells: [&str; 8]| {
            let [first, rest @ ..] = cells;
            let rest: String = rest.iter().map(|cell| format!(" {cell:>10}")).collect();
            writeln!(out, "{first:>8}{rest}")
        };
        if !self.has_heading {
            row(["time", "length", "resident", "used", "10 s", "1 min", "unknown", "cost"])?;
            self.has_heading = true;
        }
        let (history, look) = (watching.history(), &epoch.look);
        row([
            &seconds(epoch.time),
            &seconds(epoch.length),
            &size(look.resident_pages),
            &size(look.used_pages()),
            &size(history.working_set(Duration::from_secs(10))),
            &size(history.working_set(Duration::from_secs(60))),
            &size(look.of_all(look.unknown_pages)),
            &seconds(epoch.cost),
        ])?;
        out.flush()
    }

    fn new_program(&mut self, _: &Watching, name: &str) -> io::Result<()> {
        eprint_line!("{}", new_program(name));
        Ok(())
    }

    fn child(&mut self, _: &Watching, pid: u32, name: &str) -> io::Result<()> {
        eprint_line!("{}", child(pid, name));
        Ok(())
    }
}

/// What the epochs of a whole watch come to.
pub(super) fn epochs_in_all(out: &mut impl Write, history: &History, words: &str) -> io::Result<()> {
    writeln!(
        out,
        "{} epochs; {words}. {} of pages used, {} in the epoch with the most.",
        grouped(history.epochs()),
        size(history.first_uses()),
        size(history.largest_epoch_pages()),
    )?;
    if history.epochs() == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\nfaults of LRU on pages that were used before in the watch (?: no bound)\n\n{}",
        curve(history)
    )
}

/// What the whole watch comes to.
pub(super) fn summary(watching: &Watching, words: &str) -> io::Result<()> {
    let history = watching.history();
    let mut out = io::stdout().lock();
    epochs_in_all(&mut out, history, words)?;
    if history.epochs() == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "mappings: hot was used in the last epoch, cold before, idle not in the watch\n\n{}",
        regions(history, watching.mappings(), MAPPINGS)
    )
}

#[cfg(test)]
mod tests {
    use super::graph;

    #[test]
    fn the_largest_number_fills_its_column() {
        assert_eq!(graph(&[0, 1, 4, 8].into()), " ▁▄█");
        assert_eq!(graph(&[0, 0].into()), "  ");
    }
}
