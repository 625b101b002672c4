//! A watch as lines of JSON. `docs/schema/watch.json` has what they hold.

use super::show::Show;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;
use sweephand_pager::PAGE_BYTES;
use sweephand_results::json as line_of;
use sweephand_watch::{Epoch, History, Options, Watching};

/// Memory sizes of the curve. They are evenly spaced, up to all pages that were used.
const SIZES: u64 = 8;

/// Prints the lines.
pub(super) struct Lines;

pub(super) fn print(line: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line_of(line))?;
    out.flush()
}

pub(super) fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Lines {
    pub(super) fn begin(watching: &Watching, pid: u32, name: &str, how: &Options) -> io::Result<Self> {
        let price = watching.price();
        let resident = watching.resident_pages();
        print(&json!({
            "event": "begin",
            "version": env!("CARGO_PKG_VERSION"),
            "pid": pid,
            "program": name,
            "page_bytes": PAGE_BYTES,
            "every_ns": ns(how.every),
            "overhead": how.overhead,
            "resident_pages": resident,
            "read_ns_per_page": price.read_ns,
            "clear_ns_per_page": price.clear_ns,
            "touch_ns_per_page": price.touch_ns,
            "ns_per_range": price.range_ns,
            "most_cost_ns": ns(price.most(resident)),
        }))?;
        Ok(Self)
    }
}

/// Bounds on the faults of LRU so far, at some memory sizes.
pub(super) fn faults(history: &History) -> Vec<Value> {
    let pages = history.known_pages();
    let mut sizes: Vec<u64> = (1..=SIZES).map(|part| (pages * part).div_ceil(SIZES)).collect();
    sizes.dedup();
    let at = |&size: &u64| {
        let bounds = history.faults(size);
        json!({ "memory_pages": size, "at_least": bounds.at_least, "at_most": bounds.at_most })
    };
    sizes.iter().filter(|&&size| size > 0).map(at).collect()
}

impl Show for Lines {
    fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()> {
        let history = watching.history();
        let mappings = watching.mappings().iter().filter(|mapping| mapping.resident_pages > 0);
        let mappings: Vec<Value> = mappings
            .map(|mapping| {
                let (now, before) = history.used_in(mapping.pages.clone());
                json!({
                    "first_page": mapping.pages.start,
                    "pages": mapping.pages.end - mapping.pages.start,
                    "name": mapping.name,
                    "resident_pages": mapping.resident_pages,
                    "unknown_pages": mapping.of_all(mapping.unknown_pages),
                    "used_pages": mapping.of_all(now),
                    "used_before_pages": mapping.of_all(before),
                    "dirty_used_pages": mapping.of_all(mapping.dirty_pages),
                })
            })
            .collect();
        let look = &epoch.look;
        print(&json!({
            "event": "epoch",
            "epoch": epoch.number,
            "time_ns": ns(epoch.time),
            "length_ns": ns(epoch.length),
            "cost_ns": ns(epoch.cost),
            "next_epoch_ns": ns(watching.pace().period()),
            "resident_pages": look.resident_pages,
            "one_page_in": look.one_page_in,
            "used_pages": look.used_pages(),
            "used_pages_error": look.used_pages_error,
            "first_used_pages": epoch.first_used_pages,
            "dirty_used_pages": look.of_all(look.pages.iter().filter(|page| page.dirty).count() as u64),
            "dirty_pages": look.dirty_pages,
            "newly_dirty_pages": look.newly_dirty_pages,
            "unknown_pages": look.of_all(look.unknown_pages),
            "dropped_pages": look.of_all(look.dropped.iter().map(|pages| pages.end - pages.start).sum()),
            "working_set_10s_pages": history.working_set(Duration::from_secs(10)),
            "working_set_60s_pages": history.working_set(Duration::from_secs(60)),
            "largest_epoch_pages": history.largest_epoch_pages(),
            "faults": faults(history),
            "mappings": mappings,
        }))
    }

    fn new_program(&mut self, _: &Watching, name: &str) -> io::Result<()> {
        print(&json!({ "event": "exec", "program": name }))
    }

    fn child(&mut self, _: &Watching, pid: u32, name: &str) -> io::Result<()> {
        print(&json!({ "event": "fork", "pid": pid, "program": name }))
    }
}

/// The last line.
pub(super) fn end(history: &History, words: &str) -> io::Result<()> {
    print(&json!({
        "event": "end",
        "words": words,
        "epochs": history.epochs(),
        "first_used_pages": history.first_uses(),
        "faults": faults(history),
    }))
}
