//! A live recording's trace: what the agent says, as messages to the process that writes it.

use crate::TraceSender;
use crate::look::UsedPage;
use crate::objects::{mapping_name, object_of};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use sweephand_contents::{LastUses, Sampler};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_pager_interface::recording::{Item, LEAST_OBJECT_BYTES};

/// Mappings of this size and more are objects of the trace.
const LEAST_OBJECT_PAGES: u64 = LEAST_OBJECT_BYTES as u64 / PAGE_BYTES;

/// The trace of a process that is being recorded.
#[derive(Debug)]
pub struct LiveTrace<W: Write> {
    sender: TraceSender<W>,
    /// Touches that have not been sent yet.
    touched: Vec<UsedPage>,
    /// Mappings that are objects, by address, with their bytes.
    objects: BTreeMap<u64, u64>,
    records: u64,
    /// What pages contain, if the trace says so.
    contents: Option<LiveContents>,
}

/// The sampler of a process, and the pages that it may read.
#[derive(Debug)]
struct LiveContents {
    process: u32,
    sampler: Sampler,
    uses: LastUses,
}

impl LiveContents {
    fn of(process: u32) -> Option<Self> {
        let sampler = Sampler::of(process, Sampler::USUAL_SHARE).ok()?;
        Some(Self { process, sampler, uses: LastUses::default() })
    }
}

impl<W: Write> LiveTrace<W> {
    /// Nothing has been recorded yet.
    pub fn new(sender: TraceSender<W>) -> Self {
        Self { sender, touched: Vec::new(), objects: BTreeMap::new(), records: 0, contents: None }
    }

    /// From now on, the trace says what the pages of this process contain, which is the recorded
    /// one.
    pub fn sample_contents(&mut self, process: u32) {
        self.contents = LiveContents::of(process);
    }

    /// Touches so far, of the program that the process is now.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The process has become another program.
    pub fn restart(&mut self, program: &str, command: &[String]) -> io::Result<()> {
        self.touched.clear();
        self.objects.clear();
        self.records = 0;
        self.contents = self.contents.take().and_then(|contents| LiveContents::of(contents.process));
        self.sender.restart(program, command)
    }

    /// Takes in what the agent says.
    pub fn take(&mut self, items: &[Item]) -> io::Result<()> {
        for &item in items {
            match item {
                Item::Touched { page, write } => {
                    self.touched.push(UsedPage { number: page, dirty: write });
                    self.records += 1;
                    if let Some(LiveContents { uses, .. }) = &mut self.contents {
                        uses.used(page, self.records);
                    }
                }
                Item::Kept { page, at } => {
                    if let Some(LiveContents { uses, .. }) = &mut self.contents {
                        uses.kept_at(page, at);
                    }
                }
                item => {
                    self.send_touched()?;
                    self.tell(item)?;
                }
            }
        }
        self.send_touched()
    }

    /// Tells the trace what pages contain, if that is wanted and it is time to look.
    pub fn look_at_contents(&mut self) -> io::Result<()> {
        let Some(LiveContents { sampler, uses, .. }) = &mut self.contents else { return Ok(()) };
        let objects = &self.objects;
        let choose = |pages, moment| uses.choose(pages, moment);
        if sampler.look_if_due(choose, |page| object_of(objects, page * PAGE_BYTES))
            && let Some(contents) = sampler.contents(|address| mapping_name(objects, address))
        {
            self.sender.contents(contents)?;
        }
        Ok(())
    }

    /// The contents of pages are gone, or are elsewhere.
    fn forget(&mut self, pages: &Range<u64>) {
        if let Some(LiveContents { uses, .. }) = &mut self.contents {
            uses.forget(pages.clone());
        }
    }

    fn send_touched(&mut self) -> io::Result<()> {
        if !self.touched.is_empty() {
            self.sender.touched(&self.touched)?;
            self.touched.clear();
        }
        Ok(())
    }

    fn tell(&mut self, item: Item) -> io::Result<()> {
        match item {
            Item::Touched { .. } | Item::Kept { .. } => Ok(()),
            Item::EpochEnded { ns } => self.sender.epoch_ended(ns),
            Item::Dropped { page, pages } => {
                self.forget(&range(page, pages));
                self.sender.dropped(&range(page, pages))
            }
            Item::Unmapped { page, pages } => {
                self.forget(&range(page, pages));
                self.end_objects(range(page, pages))?;
                self.sender.dropped(&range(page, pages))
            }
            Item::Moved { from, to, pages } => {
                self.forget(&range(from, pages));
                let moved = self.end_objects(range(from, pages))?;
                self.end_objects(range(to, pages))?;
                self.sender.moved(from, to, pages)?;
                moved.into_iter().try_for_each(|(page, pages)| self.begin_object(page - from + to, pages))
            }
            Item::Mapped { page, pages } if pages >= LEAST_OBJECT_PAGES => self.begin_object(page, pages),
            Item::Mapped { .. } => Ok(()),
        }
    }

    fn begin_object(&mut self, page: u64, pages: u64) -> io::Result<()> {
        let (address, bytes) = (page.saturating_mul(PAGE_BYTES), pages.saturating_mul(PAGE_BYTES));
        self.objects.insert(address, bytes);
        self.sender.mapped(address, bytes)
    }

    /// Ends the objects that begin in a range of pages. Returns their pages.
    fn end_objects(&mut self, range: Range<u64>) -> io::Result<Vec<(u64, u64)>> {
        let addresses = range.start.saturating_mul(PAGE_BYTES)..range.end.saturating_mul(PAGE_BYTES);
        let ended: Vec<(u64, u64)> =
            self.objects.range(addresses).map(|(&address, &bytes)| (address, bytes)).collect();
        for (address, _) in &ended {
            self.objects.remove(address);
            self.sender.unmapped(*address)?;
        }
        Ok(ended.into_iter().map(|(address, bytes)| (address / PAGE_BYTES, bytes / PAGE_BYTES)).collect())
    }

    /// The recording is over. How, if there is something to say, and whether the program has ended.
    pub fn end(self, words: &str, complete: bool) -> io::Result<()> {
        self.sender.end(words, complete)
    }
}

fn range(page: u64, pages: u64) -> Range<u64> {
    page..page.saturating_add(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep;
    use sweephand_checks::trying;
    use sweephand_trace::{Chunk, Event, Trace, Window};

    fn stream(before: &[Item], items: &[Item]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let sender = TraceSender::begin_recording(&mut bytes, "env", &[]).unwrap();
        let mut trace = LiveTrace::new(sender);
        trace.take(before).unwrap();
        trace.restart("prog", &["prog".to_string()]).unwrap();
        trace.take(items).unwrap();
        trace.end("", true).unwrap();
        bytes
    }

    #[test]
    fn what_the_agent_says_is_in_the_trace_in_its_order() {
        let touched = |page| Item::Touched { page, write: page % 2 == 0 };
        let items = [
            Item::Mapped { page: 100, pages: 20 },
            touched(100),
            touched(105),
            Item::EpochEnded { ns: 1000 },
            touched(105),
            Item::Moved { from: 100, to: 200, pages: 20 },
            touched(205),
            touched(7),
            touched(8),
            Item::EpochEnded { ns: 500 },
            Item::Unmapped { page: 200, pages: 20 },
            touched(8),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.swt");
        keep(&mut &stream(&[touched(1), touched(2)], &items)[..], &path, &[], io::sink()).unwrap();
        let trace = Trace::open(&path).unwrap();
        let metadata = &trace.header().metadata;
        assert_eq!((metadata.program.as_str(), metadata.complete), ("prog", true));
        let window =
            |first_record, start_ns, ns, pages| Window { first_record, start_ns, ns, epochs: 1, pages };
        // How long the last epoch was is measured.
        let last_ns = metadata.windows[2].ns;
        let windows = [window(0, 0, 1000, 2), window(2, 1000, 500, 4), window(6, 1500, last_ns, 1)];
        assert_eq!(metadata.windows, windows);
        assert_eq!(metadata.exact_pages(), 4);
        let mut chunk = Chunk::new();
        trace.read_chunk(0, &mut chunk).unwrap();
        let references: Vec<_> = chunk.references.iter().map(|of| (of.page(), of.is_write())).collect();
        // What was moved keeps its number.
        let expected = [(0, true), (1, false), (1, false), (1, false), (2, false), (3, true), (3, true)];
        assert_eq!(references, expected);
        let objects = |event: &&(u32, Event)| matches!(event.1, Event::Alloc { .. } | Event::Free { .. });
        assert_eq!(chunk.events.iter().filter(objects).count(), 4, "made, moved (gone and made), unmapped");
    }

    #[test]
    fn a_recording_is_readable_wherever_it_ends() {
        let touched = |page| Item::Touched { page, write: true };
        let items = [touched(1), touched(2), Item::EpochEnded { ns: 10 }, touched(1), touched(3)];
        let bytes = stream(&[], &items);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.swt");
        for length in 0..=bytes.len() {
            let _input = trying(|| format!("{length} bytes"));
            keep(&mut &bytes[..length], &path, &[], io::sink()).unwrap();
            let trace = Trace::open(&path).unwrap();
            let (totals, metadata) = (&trace.header().totals, &trace.header().metadata);
            assert!([0, 2, 4].contains(&totals.records));
            assert_eq!(metadata.complete, length == bytes.len());
            assert_eq!(metadata.windows.iter().map(|window| window.pages).sum::<u64>(), totals.records);
        }
    }
}
