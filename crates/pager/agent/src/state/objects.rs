//! Objects: allocations of 40 KiB and more, each a mapping of its own, for policies that use them
//! (APR, LIFO+, SEQ).
//!
//! The agent sets the C library's `malloc` to map blocks from that size on (see `entry::hooks`). So
//! it sees allocations where it sees all new memory, in `mmap` and `mremap`. It does not interfere
//! with `malloc`, whatever signal handlers, threads, forks and programs with allocators of their
//! own do. Everything else (smaller allocations, variables, stacks) is the default object,
//! number 0.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A range of an object, by its start.
#[derive(Clone, Copy, Debug)]
struct Range {
    end: usize,
    object: u32,
}

/// Which object is where.
#[derive(Debug)]
pub struct Objects {
    ranges: BTreeMap<usize, Range>,
    /// By object, 0 being the default one: how many ranges it has.
    counts: Vec<u32>,
    /// Numbers to give out again.
    free: Vec<u32>,
}

impl Default for Objects {
    fn default() -> Self {
        Self { ranges: BTreeMap::new(), counts: alloc::vec![0], free: Vec::new() }
    }
}

impl Objects {
    /// The object that an address is in.
    pub fn at(&self, address: usize) -> u32 {
        match self.ranges.range(..=address).next_back() {
            Some((_, range)) if address < range.end => range.object,
            _ => 0,
        }
    }

    /// There is a new object. What was known of objects there is past; returns those that have
    /// ended by that.
    pub fn add(&mut self, start: usize, end: usize) -> Vec<u32> {
        let ended = self.remove(start, end);
        let object = self.free.pop().unwrap_or_else(|| {
            self.counts.push(0);
            self.counts.len() as u32 - 1
        });
        self.insert(start, Range { end, object });
        ended
    }

    /// The object at `start` reaches up to `end` now. If there is none there it is new.
    pub fn extend(&mut self, start: usize, end: usize) -> Vec<u32> {
        match self.ranges.get(&start).copied() {
            Some(range) if range.end < end => {
                let ended = self.remove(range.end, end);
                self.insert(start, Range { end, ..range });
                ended
            }
            Some(_) => Vec::new(),
            None => self.add(start, end),
        }
    }

    /// A range is no object any more; returns the objects that have ended by that.
    pub fn remove(&mut self, start: usize, end: usize) -> Vec<u32> {
        let mut ended = Vec::new();
        for (_, range) in self.cut(start, end) {
            self.uncount(range.object, &mut ended);
        }
        ended
    }

    /// A range has been moved; returns the objects that have ended where it has come to.
    pub fn relocate(&mut self, from: usize, to: usize, length: usize) -> Vec<u32> {
        let moved = self.cut(from, from + length);
        let mut ended = self.remove(to, to + length);
        for (start, range) in moved {
            self.insert(start - from + to, Range { end: range.end - from + to, ..range });
            // Counted twice now: where it was, and where it is.
            self.uncount(range.object, &mut ended);
        }
        ended
    }

    fn insert(&mut self, start: usize, range: Range) {
        if self.ranges.insert(start, range).is_none() {
            self.counts[range.object as usize] += 1;
        }
    }

    fn uncount(&mut self, object: u32, ended: &mut Vec<u32>) {
        let count = &mut self.counts[object as usize];
        *count -= 1;
        if *count == 0 {
            self.free.push(object);
            ended.push(object);
        }
    }

    /// Takes out what lies in a range, as ranges that are still counted.
    fn cut(&mut self, start: usize, end: usize) -> Vec<(usize, Range)> {
        let mut cut = Vec::new();
        while let Some((&from, &range)) = self.ranges.range(..end).next_back() {
            if range.end <= start {
                break;
            }
            self.ranges.remove(&from);
            if from < start {
                self.insert(from, Range { end: start, ..range });
            }
            if end < range.end {
                self.insert(end, range);
            }
            cut.push((from.max(start), Range { end: range.end.min(end), ..range }));
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(objects: &Objects) -> Vec<(usize, usize, u32)> {
        objects.ranges.iter().map(|(&start, range)| (start, range.end, range.object)).collect()
    }

    #[test]
    fn objects_are_where_they_were_put_and_end_with_their_last_byte() {
        let mut objects = Objects::default();
        assert_eq!(objects.at(10), 0);
        assert!(objects.add(10, 20).is_empty() && objects.add(20, 40).is_empty());
        assert_eq!([5, 10, 19, 20, 39, 40].map(|address| objects.at(address)), [0, 1, 1, 2, 2, 0]);
        // A hole leaves two parts of one object.
        assert!(objects.remove(25, 30).is_empty());
        assert_eq!(show(&objects), [(10, 20, 1), (20, 25, 2), (30, 40, 2)]);
        assert!(objects.remove(18, 26).is_empty());
        assert_eq!(show(&objects), [(10, 18, 1), (30, 40, 2)]);
        assert_eq!(objects.remove(0, 100), [2, 1]);
        // Numbers are given out again.
        objects.add(50, 60);
        assert_eq!(objects.at(50), 1);
    }

    #[test]
    fn a_new_object_ends_what_was_there() {
        let mut objects = Objects::default();
        objects.add(10, 20);
        assert_eq!(objects.add(10, 20), [1]);
        assert_eq!(objects.at(15), 1);
        assert_eq!(objects.extend(10, 30), []);
        assert_eq!(show(&objects), [(10, 30, 1)]);
        objects.add(30, 40);
        assert_eq!(objects.extend(10, 40), [2]);
        assert_eq!(objects.extend(10, 35), [], "no longer than it was");
        assert_eq!(objects.extend(70, 80), []);
        assert_eq!(show(&objects), [(10, 40, 1), (70, 80, 2)]);
    }

    #[test]
    fn an_object_that_is_moved_keeps_its_number() {
        let mut objects = Objects::default();
        objects.add(10, 20);
        objects.add(100, 120);
        assert_eq!(objects.relocate(10, 105, 10), []);
        assert_eq!(show(&objects), [(100, 105, 2), (105, 115, 1), (115, 120, 2)]);
        assert_eq!(objects.relocate(105, 100, 10), []);
        assert_eq!(show(&objects), [(100, 110, 1), (115, 120, 2)]);
        assert_eq!(objects.relocate(115, 100, 5), []);
        assert_eq!(objects.remove(100, 110), [1, 2]);
    }
}
