//! MQ: queues for pages with more and more references. Pages that are not used for long sink to
//! lower queues.
//!
//! Paper: Y. Zhou, J. F. Philbin, K. Li, "The multi-queue replacement algorithm for second level
//! buffer caches", USENIX Annual Technical Conference 2001.
//!
//! A page referenced f times is in the LRU queue log2 f. At each reference the oldest page of every
//! queue sinks by one queue if it has not been used for `life` references. The lowest queue gives
//! up pages first. Qout remembers the counts of evicted pages for a while.
//!
//! Choices where the paper is silent: `life` is 4 x M references. (The authors take it from the
//! peak of a histogram of temporal distances.) Qout is searched after the victim has gone into it.
//!
//! The listing sets the time of expiry before it counts the reference, so there a page sinks one
//! reference earlier than here. That changes none of 27 cells of three small classic traces (cpp,
//! gli and multi2). With sprite, 45 of 52 cells equal libCacheSim's counts; the others differ by at
//! most 0.11 points of hit ratio.
//!
//! Cost: hit O(`queues`); fault O(`queues`). 25 bytes a page seen.
//!
//! ```text
//!   Q0 [ f = 1 ]  Q1 [ 2..3 ]  Q2 [ 4..7 ]  ...  Q7 [ 128.. ]     hit: f + 1, to the recent end of queue log2 f
//!     |      <-------    <-------    not used for `life` references: down one queue
//!     +-- evict (Q1 if Q0 is empty, ...) --> ( Qout, with f ) --> forgotten
//! ```

use crate::arguments::Parameter;
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

const MOST_QUEUES: usize = 16;
/// The list behind the queues: pages evicted, the earliest in front.
const OUT: usize = MOST_QUEUES;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// References counted. Kept while the page is in Qout; 0 when it is forgotten.
    references: u32,
    /// The reference time after which the page sinks.
    expires: u64,
}

/// Multi-queue.
#[derive(Debug)]
pub struct Mq {
    frames: usize,
    /// Queues 0 to `queues` - 1 by recency, the least recent in front; and `OUT`.
    lists: Lists<{ MOST_QUEUES + 1 }>,
    entries: PageMap<Entry>,
    /// m.
    queues: usize,
    /// References without use after which a page sinks.
    life_refs: u64,
    /// Most pages in Qout.
    out_pages: usize,
    /// References so far.
    time: u64,
}

impl Registered for Mq {
    const INFO: Info = Info {
        name: "mq",
        summary: "LRU queues for rising numbers of references; unused pages sink",
        paper: "Zhou, Philbin, Li, The multi-queue replacement algorithm, USENIX ATC 2001",
        parameters: &[
            Parameter { name: "queues", default: "8", meaning: "number of queues, 1 to 16" },
            Parameter {
                name: "life",
                default: "4",
                meaning: "references without use after which a page sinks, as a multiple of memory",
            },
            Parameter {
                name: "history",
                default: "4",
                meaning: "most evicted pages whose counts are remembered, as a multiple of memory",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let times_memory = |name| arguments.factor(name).map(|factor| (factor * frames as f64) as u64);
        Ok(Self {
            frames,
            lists: Lists::new(),
            entries: PageMap::new(),
            queues: arguments.whole("queues", 1..=MOST_QUEUES as u64)? as usize,
            life_refs: times_memory("life")?,
            out_pages: times_memory("history")? as usize,
            time: 0,
        })
    }
}

impl Mq {
    /// Counts a reference and puts the page into the queue for it.
    fn touch(&mut self, page: PageId) {
        let references = self.entries[page].references.saturating_add(1);
        self.enqueue(page, (references.ilog2() as usize).min(self.queues - 1));
        self.entries[page].references = references;
        self.sink();
    }

    /// Puts a page at the recent end of a queue, for another life time.
    fn enqueue(&mut self, page: PageId, queue: usize) {
        self.lists.remove(page);
        self.lists.push_back(queue, page);
        self.entries[page].expires = self.time.saturating_add(self.life_refs);
    }

    /// Moves the oldest page of each queue down if its time is over.
    fn sink(&mut self) {
        for queue in 1..self.queues {
            if let Some(oldest) = self.lists.front(queue)
                && self.entries[oldest].expires < self.time
            {
                self.enqueue(oldest, queue - 1);
            }
        }
    }
}

impl Policy for Mq {
    type Model = ExactModel;

    fn fault(&mut self, _: Reference) {
        self.time += 1;
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        (0..self.queues).find_map(|queue| self.lists.front(queue))
    }

    fn evict(&mut self, page: PageId) {
        self.lists.remove(page);
        self.lists.push_back(OUT, page);
        if self.lists.len(OUT) > self.out_pages
            && let Some(oldest) = self.lists.pop_front(OUT)
        {
            self.entries[oldest].references = 0;
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.entries.cover(reference.page);
        self.touch(reference.page);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.time += 1;
        self.touch(reference.page);
    }

    fn remove(&mut self, page: PageId) {
        if self.lists.remove(page).is_some() {
            self.entries[page].references = 0;
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let residents: usize = (0..self.queues).map(|queue| self.lists.len(queue)).sum();
        ensure!(residents <= self.frames, "{residents} pages resident");
        let out = self.lists.len(OUT);
        ensure!(out <= self.out_pages, "{out} pages in Qout, at most {}", self.out_pages);
        for (page, entry) in self.entries.iter() {
            let list = self.lists.list_of(page);
            ensure!((entry.references > 0) == list.is_some(), "page {page}: {entry:?} in {list:?}");
            let queue = list.filter(|list| *list != OUT);
            let highest = entry.references.max(1).ilog2() as usize;
            ensure!(queue.is_none_or(|queue| queue <= highest), "page {page}: {entry:?} in {list:?}");
        }
        for queue in 0..self.queues {
            let expires = self.lists.iter(queue).map(|page| self.entries[page].expires);
            ensure!(expires.is_sorted(), "queue {queue} is not in the order of expiry");
        }
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `Q0 | Q1 | Q2 | Qout`, oldest first, each page with its count; pages sink after 4
    /// references.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Mq>::new("mq:life=2", 2);
        let states = machine.trace(&[1, 1, 1, 1, 2, 3, 2, 4, 5, 1], |machine| {
            let mq = machine.policy();
            let show = |page: PageId| format!("{page}:{}", mq.entries[page].references);
            let list = |list| mq.lists.iter(list).map(show).collect::<Vec<_>>().join(" ");
            [0, 1, 2, OUT].map(list).join(" | ")
        });
        assert_eq!(
            states,
            [
                "1:1 |  |  | ",
                " | 1:2 |  | ",
                " | 1:3 |  | ",
                " |  | 1:4 | ",
                "2:1 |  | 1:4 | ",
                "3:1 |  | 1:4 | 2:1",
                " | 2:2 | 1:4 | 3:1", // 2 comes back with its count
                "4:1 |  | 1:4 | 3:1 2:2",
                "5:1 | 1:4 |  | 3:1 2:2 4:1", // not used since time 4, 1 sinks
                "5:1 |  | 1:5 | 3:1 2:2 4:1",
            ]
        );
    }
}
