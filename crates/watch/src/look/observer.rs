//! The look: it reads the bits of all pages of a process, and clears those of the sample.

use super::chosen::choose;
use super::error::WatchError;
use super::found::{Look, Seen, UsedPage};
use super::mappings::{Mapping, Mappings};
use super::mask::{bits, count, pages_of};
use super::price::Price;
use super::sample::{BLOCK_PAGES, Sample, Spread};
use super::walk::TableWalk;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, io};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::accessed::{Found, Mask, NoBits, OneProcessor, TABLE_PAGES, Table, TableBits};
use sweephand_process::family;
use sweephand_process::space::{Advice, Entry, Space, ranges};
use sweephand_process::usage::processor_time;

/// Used pages between two clearings.
const PAGES_A_CLEARING: u32 = 4096;
/// If at most this many pages lie between two used ones, their bits are cleared too. A range costs
/// as much as some hundred pages, because the kernel interrupts other processors for each range. A
/// page in between that is first used in just that turn is missed.
const CLEARED_ALONG: u64 = BLOCK_PAGES;

/// A process that is being watched.
#[derive(Debug)]
pub struct Observer {
    process: u32,
    bits: TableBits,
    space: Space,
    /// What is known of pages, by table.
    tables: BTreeMap<u64, Known>,
    mappings: Mappings,
    looks: u64,
    sample: Sample,
    /// When the last look was, and the processor time of the process until then.
    before: Option<(Instant, Duration)>,
}

/// What is known of the pages of a table.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The look that found the table last.
    look: u64,
    /// Pages in memory, as that look has found, and as the one before has.
    present: Mask,
    before: Mask,
    dirty: Mask,
    /// Pages that some look has reported as used.
    reported: Mask,
    /// Pages whose bits could not be cleared.
    unknown: Mask,
    /// Pages in memory that are in the sample, as the look has found.
    sampled: Mask,
}

fn claim_bits(space: &Space) -> Result<(), WatchError> {
    space.claim_bits().map_err(|error| WatchError::System(format!("process {}", space.process), error))
}

impl Observer {
    /// Prepares to watch a process. Nothing is cleared yet.
    pub fn of(process: u32) -> Result<Self, WatchError> {
        if !rustix::process::geteuid().is_root() {
            return Err(WatchError::Root);
        }
        let missing = |error: NoBits| WatchError::Bits(error.to_string());
        let bits = TableBits::load().map_err(missing)?;
        let space = Space::open(process).map_err(|_| WatchError::NoProcess(process))?;
        claim_bits(&space)?;
        let mappings = Mappings::new(process);
        let tables = BTreeMap::new();
        Ok(Self { process, bits, space, tables, mappings, looks: 0, sample: Sample::ALL, before: None })
    }

    /// The pages that are looked at.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// From the next look on, these pages are looked at. Of pages that come into the sample, the
    /// next look says whether they were used at any time.
    pub fn set_sample(&mut self, sample: Sample) {
        self.sample = sample;
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// What a look costs for each page, measured on memory of this process.
    pub fn price(&self) -> Result<Price, WatchError> {
        let failed = |error| WatchError::System("memory to measure with".to_string(), error);
        Price::measure(&self.bits).map_err(failed)
    }

    /// Pages in memory, from the kernel's own count.
    pub fn resident_pages(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process)).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default()
    }

    /// The mappings, as far as they are known: a process with very many is not asked for them at
    /// every look.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings.all
    }

    /// At most this many of the pages of the sample that the last look has found in memory, chosen
    /// by a hash of the moment.
    pub fn choose(&self, pages: usize, moment: u64) -> Vec<u64> {
        let tables: Vec<(u64, &Mask)> =
            self.tables.iter().map(|(&table, known)| (table, &known.sampled)).collect();
        choose(&tables, pages, moment)
    }

    /// The processes that the process has started and that are there.
    pub fn children(&self) -> Vec<u32> {
        family::children(self.process)
    }

    /// Looks: reads the bits, and clears them.
    pub fn look(&mut self) -> Result<Seen, WatchError> {
        let began = processor_time();
        self.looks += 1;
        let _ = OneProcessor::empty_all_lists();
        let mut look = Look { one_page_in: self.sample.one_page_in(), ..Look::default() };
        if let Err(error) = self.walk(&mut look) {
            return self.instead(error);
        }
        if self.space.is_gone() {
            return self.instead(io::ErrorKind::NotFound.into());
        }
        self.mappings.refresh();
        self.find_dropped(&mut look);
        let tables = self
            .tables
            .iter()
            .map(|(&table, known)| (table, [&known.present, &known.unknown, &known.sampled]));
        self.mappings.count(tables, &look.pages);
        look.running = self.running();
        look.processor_time = processor_time().saturating_sub(began);
        Ok(Seen::Look(look))
    }

    /// The processors that have run the process since the look before, on average. 1 where that is
    /// not known.
    fn running(&mut self) -> f64 {
        let now = self.space.processor_time().map(|time| (Instant::now(), time));
        let before = std::mem::replace(&mut self.before, now);
        let (Some((now, time)), Some((then, before))) = (now, before) else { return 1.0 };
        time.saturating_sub(before).as_secs_f64() / (now - then).as_secs_f64().max(1e-9)
    }

    /// What has become of the process if its memory cannot be looked at.
    fn instead(&mut self, error: io::Error) -> Result<Seen, WatchError> {
        let was_gone = self.space.is_gone();
        let Ok(space) = Space::open(self.process) else { return Ok(Seen::Ended) };
        let is_other_thread = space.thread != self.space.thread;
        self.space = space;
        claim_bits(&self.space)?;
        if !was_gone && !is_other_thread {
            return Err(WatchError::System(format!("process {}: its page table", self.process), error));
        }
        if was_gone {
            self.tables.clear();
            self.mappings = Mappings::new(self.process);
            return Ok(Seen::NewProgram);
        }
        // The thread through which its memory was seen has ended.
        self.look()
    }

    /// Reads and clears the bits of all pages.
    fn walk(&mut self, look: &mut Look) -> io::Result<()> {
        let mut used: Vec<(u64, Mask)> = Vec::new();
        let mut used_pages = 0;
        let mut spread = Spread::default();
        let mut walk = TableWalk::default();
        while let Some((number, table)) = walk.next(&self.bits, &self.space)? {
            if let Some(accessed) = self.take(number, &table, look, &mut spread) {
                used.push((number, accessed));
                used_pages += count(&accessed);
            }
            if used_pages >= PAGES_A_CLEARING {
                self.clear(&used, look);
                used.clear();
                used_pages = 0;
            }
        }
        self.clear(&used, look);
        look.calls = walk.calls;
        look.used_pages_error = spread.error(look.one_page_in);
        Ok(())
    }

    /// Takes what a table says. Returns the pages whose bits have to be cleared.
    fn take(&mut self, number: u64, table: &Table, look: &mut Look, spread: &mut Spread) -> Option<Mask> {
        let (looks, in_sample) = (self.looks, self.sample.words(number, table));
        let known = self.tables.entry(number).or_default();
        known.look = looks;
        look.resident_pages += u64::from(count(&table.present));
        look.dirty_pages += u64::from(count(&table.dirty));
        let first = number * TABLE_PAGES as u64;
        let mut to_clear = Mask::default();
        known.sampled = Mask::default();
        for word in 0..table.accessed.len() {
            look.newly_dirty_pages += u64::from((table.dirty[word] & !known.dirty[word]).count_ones());
            if !in_sample[word] {
                // If the page comes into the sample later, nothing is known of it.
                known.reported[word] = 0;
                continue;
            }
            let (present, accessed) = (table.present[word], table.accessed[word]);
            (known.sampled[word], to_clear[word]) = (present, accessed);
            look.unknown_pages += u64::from((accessed & known.unknown[word]).count_ones());
            look.sampled_pages += u64::from(present.count_ones());
            let used = accessed & !known.unknown[word];
            spread.add(present.count_ones(), used.count_ones());
            known.reported[word] |= used;
            look.pages.extend(bits(used).map(|bit| UsedPage {
                number: first + (64 * word) as u64 + bit,
                dirty: table.dirty[word] >> bit & 1 != 0,
            }));
        }
        (known.dirty, known.present) = (table.dirty, table.present);
        (to_clear != Mask::default()).then_some(to_clear)
    }

    /// Clears the bits of pages, and finds those whose bits cannot be cleared.
    fn clear(&mut self, used: &[(u64, Mask)], look: &mut Look) {
        let numbers = used.iter().flat_map(|(table, mask)| pages_of(*table, mask));
        let ranges = ranges(numbers, CLEARED_ALONG);
        look.cleared_ranges += ranges.len() as u64;
        let refused = self.space.advise(&ranges, Advice::Cold);
        for (number, mask) in used {
            look.cleared_pages += u64::from(count(mask));
            let address = number * TABLE_PAGES as u64 * PAGE_BYTES;
            let Ok(Found::Table(after)) = self.bits.find(self.space.thread, address) else { continue };
            let mut still = after.accessed;
            still.iter_mut().zip(mask).for_each(|(still, mask)| *still &= mask);
            let pages: Vec<u64> = pages_of(*number, &still).collect();
            let mut unknown = Mask::default();
            if !pages.is_empty() {
                for (page, entry) in pages.iter().zip(self.space.entries(&pages)) {
                    let is_refused = || {
                        let after = refused.partition_point(|range| range.start <= *page);
                        refused[..after].last().is_some_and(|range| range.contains(page))
                    };
                    // Of the others, the program has used the page just now.
                    if !entry.is_exclusive() || is_refused() {
                        let bit = (page % TABLE_PAGES as u64) as usize;
                        unknown[bit / 64] |= 1 << (bit % 64);
                    }
                }
            }
            if let Some(known) = self.tables.get_mut(number) {
                known.unknown = unknown;
            }
        }
    }

    /// Finds reported pages whose contents are gone, and notes which pages are present.
    fn find_dropped(&mut self, look: &mut Look) {
        let mut gone = Vec::new();
        for (&number, known) in &mut self.tables {
            if known.look != self.looks {
                known.present = Mask::default();
                known.sampled = Mask::default();
                known.dirty = Mask::default();
            }
            let missing = |word: usize| known.reported[word] & known.before[word] & !known.present[word];
            gone.extend(pages_of(number, &std::array::from_fn(missing)));
            known.before = known.present;
        }
        let entries = self.space.entries(&gone);
        let is_dropped = |&(page, entry): &(u64, Entry)| {
            // The contents of a file's page are in the file.
            let is_kept = |mapping: &Mapping| mapping.is_file();
            !entry.is_present() && !entry.is_swapped() && !self.mappings.at(page).is_some_and(is_kept)
        };
        let dropped = gone.into_iter().zip(entries).filter(is_dropped).map(|(page, _)| page);
        look.dropped = ranges(dropped, 0);
        for page in look.dropped.iter().cloned().flatten() {
            if let Some(known) = self.tables.get_mut(&(page / TABLE_PAGES as u64)) {
                let bit = (page % TABLE_PAGES as u64) as usize;
                known.reported[bit / 64] &= !(1 << (bit % 64));
            }
        }
        let looks = self.looks;
        self.tables.retain(|_, known| known.look == looks || known.reported != Mask::default());
    }
}
