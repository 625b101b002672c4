//! The mappings of a process, from `/proc/PID/maps`.

use super::found::UsedPage;
use super::mask::count;
use std::mem::take;
use std::ops::Range;
use std::time::{Duration, Instant};
use sweephand_process::accessed::{Mask, TABLE_PAGES};
use sweephand_process::maps;

/// Reading the mappings takes at most one part in this many of the time.
const READING_PART: u32 = 200;

/// A mapping.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    /// Its pages, by number.
    pub pages: Range<u64>,
    /// The file, or the kernel's name in brackets. Empty: anonymous memory.
    pub name: String,
    /// Pages in memory, as the last look has found.
    pub resident_pages: u64,
    /// Those of them that are in the sample.
    pub sampled_pages: u64,
    /// Pages of the sample whose bits cannot be cleared.
    pub unknown_pages: u64,
    /// Pages of the sample that were used in the last epoch.
    pub used_pages: u64,
    /// Those of them whose dirty bit is set.
    pub dirty_pages: u64,
}

impl Mapping {
    /// Whether its contents are a file's, or of memory that is named like one.
    pub fn is_file(&self) -> bool {
        self.name.starts_with('/')
    }

    /// How many of its pages this many pages of the sample stand for.
    pub fn of_all(&self, sampled: u64) -> u64 {
        match self.sampled_pages {
            // All pages, or none of this mapping.
            all if all == self.resident_pages => sampled,
            0 => 0,
            some => (sampled as f64 * self.resident_pages as f64 / some as f64).round() as u64,
        }
    }
}

/// The mappings of a process.
#[derive(Debug)]
pub(super) struct Mappings {
    process: u32,
    /// As last read, ascending.
    pub(super) all: Vec<Mapping>,
    read: Option<Instant>,
    took: Duration,
}

impl Mappings {
    pub(super) fn new(process: u32) -> Self {
        Self { process, all: Vec::new(), read: None, took: Duration::ZERO }
    }

    /// Reads them, unless that would take too large a part of the time.
    pub(super) fn refresh(&mut self) {
        let now = Instant::now();
        if self.read.is_some_and(|read| now - read < self.took * READING_PART) {
            return;
        }
        // Of a process that has just ended, the old ones are as good.
        let Ok(all) = maps::mappings(self.process, self.process) else { return };
        if !all.is_empty() {
            let of_line = |maps::Mapping { pages, name }| Mapping { pages, name, ..Mapping::default() };
            self.all = all.into_iter().map(of_line).collect();
        }
        self.read = Some(now);
        self.took = now.elapsed();
    }

    /// The mapping that a page is in.
    pub(super) fn at(&self, page: u64) -> Option<&Mapping> {
        let after = self.all.partition_point(|mapping| mapping.pages.start <= page);
        self.all[..after].last().filter(|mapping| mapping.pages.contains(&page))
    }

    /// Counts the pages of each mapping. `tables`: tables with their pages in memory, those whose
    /// bits cannot be cleared, and those in memory that are in the sample; ascending.
    pub(super) fn count<'a>(
        &mut self,
        tables: impl Iterator<Item = (u64, [&'a Mask; 3])>,
        used: &[UsedPage],
    ) {
        for mapping in &mut self.all {
            *mapping =
                Mapping { pages: mapping.pages.clone(), name: take(&mut mapping.name), ..Mapping::default() };
        }
        let mut from = 0;
        for (table, masks) in tables {
            let start = table * TABLE_PAGES as u64;
            let end = start + TABLE_PAGES as u64;
            while self.all.get(from).is_some_and(|mapping| mapping.pages.end <= start) {
                from += 1;
            }
            for mapping in self.all[from..].iter_mut().take_while(|mapping| mapping.pages.start < end) {
                let first = mapping.pages.start.max(start) - start;
                let last = mapping.pages.end.min(end) - start;
                let [present, unknown, sampled] = masks.map(|mask| part(mask, first as usize..last as usize));
                mapping.resident_pages += u64::from(count(&present));
                mapping.sampled_pages += u64::from(count(&sampled));
                let unknown: Mask = std::array::from_fn(|word| sampled[word] & unknown[word]);
                mapping.unknown_pages += u64::from(count(&unknown));
            }
        }
        let mut at = 0;
        for page in used {
            while self.all.get(at).is_some_and(|mapping| mapping.pages.end <= page.number) {
                at += 1;
            }
            let Some(mapping) = self.all.get_mut(at) else { break };
            if mapping.pages.contains(&page.number) {
                mapping.used_pages += 1;
                mapping.dirty_pages += u64::from(page.dirty);
            }
        }
    }
}

/// The bits of a mask that are in a range.
fn part(mask: &Mask, range: Range<usize>) -> Mask {
    let below = |end: usize| match end {
        0 => 0,
        64.. => u64::MAX,
        end => (1 << end) - 1,
    };
    std::array::from_fn(|word| {
        let bits = |end: usize| below(end.saturating_sub(64 * word));
        mask[word] & bits(range.end) & !bits(range.start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_path_is_a_file() {
        let named = |name: &str| Mapping { name: name.to_string(), ..Mapping::default() };
        let names = ["/usr/lib/a b.so (deleted)", "", "[heap]"];
        assert_eq!(names.map(|name| named(name).is_file()), [true, false, false]);
    }

    #[test]
    fn pages_are_counted_in_the_mappings_that_they_are_in() {
        let mapping = |pages| Mapping { pages, ..Mapping::default() };
        let mut mappings = Mappings::new(0);
        mappings.all = vec![mapping(10..20), mapping(500..520), mapping(2000..2001)];
        let used = [12, 19, 25, 511, 512, 2000].map(|number| UsedPage { number, dirty: number > 500 });
        let full = [u64::MAX; TABLE_PAGES / 64];
        let mut unknown = Mask::default();
        unknown[0] = 1 << 19 | 1 << 30;
        let mut sampled = Mask::default();
        sampled[0] = 0x1f << 15;
        let tables = [(0, [&full, &unknown, &sampled]), (1, [&full, &unknown, &full])];
        mappings.count(tables.into_iter(), &used);
        let counts = mappings
            .all
            .iter()
            .map(|of| [of.resident_pages, of.sampled_pages, of.unknown_pages, of.used_pages, of.dirty_pages]);
        assert_eq!(counts.collect::<Vec<_>>(), [[10, 5, 1, 2, 0], [20, 8, 0, 2, 2], [0, 0, 0, 1, 1]]);
        assert_eq!(mappings.all[0].of_all(2), 4);
        assert_eq!(Mapping::default().of_all(2), 2);
        assert!(mappings.at(19).is_some() && mappings.at(20).is_none() && mappings.at(9).is_none());
    }
}
