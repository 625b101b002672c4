//! What a program must find in its memory: a plain model, which knows nothing of paging.
//!
//! It follows the address space at the moments at which the kernel changes it. A read must find
//! what was written last, or zeros where nothing was. There is one moment of doubt: while
//! `madvise(MADV_DONTNEED)` is under way, its pages may have been dropped or not. So the model
//! keeps all contents that a page may have, and what a read finds settles it. When the call has
//! returned, what was written before it is gone for good.

use crate::kernel::PAGE_BYTES;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// What a page may hold, and when it came to hold it.
#[derive(Clone, Debug)]
struct Page {
    values: Vec<(u64, u64)>,
}

/// A drop under way.
#[derive(Clone, Copy, Debug)]
struct Drop {
    number: u64,
    start: usize,
    end: usize,
}

/// The model of one address space.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pages: BTreeMap<usize, Page>,
    drops: Vec<Drop>,
    time: u64,
    /// The first thing that went wrong.
    pub(super) failure: Option<String>,
}

impl Model {
    /// Something has gone wrong. The first is kept.
    pub(super) fn fail(&mut self, what: &str) {
        if self.failure.is_none() {
            self.failure = Some(what.to_string());
        }
    }

    fn is_dropped(&self, page: usize) -> bool {
        self.drops.iter().any(|drop| (drop.start..drop.end).contains(&page))
    }

    fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// A page holds this from now on.
    pub(super) fn write(&mut self, page: usize, value: u64) {
        let now = self.tick();
        let mut values = vec![(value, now)];
        if self.is_dropped(page) {
            values.push((0, now));
        }
        self.pages.insert(page, Page { values });
    }

    /// A thread has found this in a page.
    pub(super) fn read(&mut self, page: usize, value: u64) {
        let now = self.tick();
        let is_dropped = self.is_dropped(page);
        let expected = self.expected(page);
        let Some(&found) = expected.iter().find(|(expected, _)| *expected == value) else {
            let expected: Vec<u64> = expected.iter().map(|(value, _)| *value).collect();
            return self.fail(&format!("{page:#x} reads as {value}, and must be one of {expected:?}"));
        };
        let mut values = vec![found];
        if is_dropped && value != 0 {
            values.push((0, now));
        }
        self.pages.insert(page, Page { values });
    }

    fn expected(&self, page: usize) -> Vec<(u64, u64)> {
        self.pages.get(&page).map_or_else(|| vec![(0, 0)], |page| page.values.clone())
    }

    /// What a page may hold.
    pub(super) fn may_hold(&self, page: usize) -> Vec<u64> {
        self.expected(page).into_iter().map(|(value, _)| value).collect()
    }

    /// A call that drops the contents of a range begins. Returns its number.
    pub(super) fn begin_drop(&mut self, start: usize, end: usize) -> u64 {
        let number = self.tick();
        self.drops.push(Drop { number, start, end });
        for page in self.pages.range_mut(start..end).map(|(_, page)| page) {
            if page.values.iter().all(|(value, _)| *value != 0) {
                page.values.push((0, number));
            }
        }
        number
    }

    /// It has returned: what was there before it began is gone.
    pub(super) fn end_drop(&mut self, number: u64) {
        let Some(index) = self.drops.iter().position(|drop| drop.number == number) else { return };
        let Drop { start, end, .. } = self.drops.remove(index);
        for page in self.pages.range_mut(start..end).map(|(_, page)| page) {
            page.values.retain(|(value, since)| *value == 0 || *since >= number);
            if page.values.is_empty() {
                page.values.push((0, number));
            }
        }
    }

    /// The time of the latest event.
    pub(super) fn now(&self) -> u64 {
        self.time
    }

    /// A thread has dropped a range by a call that began after this time. What was there before
    /// must be gone, whoever has made the call do nothing.
    pub(super) fn expect_dropped(&mut self, start: usize, end: usize, before: u64) {
        for page in (start..end).step_by(PAGE_BYTES) {
            if !self.expected(page).iter().any(|&(value, since)| value == 0 || since > before) {
                self.fail(&format!("{page:#x} was dropped, and still holds what was there"));
            }
        }
    }

    /// A range is new, or gone: what was there is.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        for page in (start..end).step_by(PAGE_BYTES) {
            self.pages.remove(&page);
        }
    }

    /// What is in a range is elsewhere now.
    pub(super) fn relocate(&mut self, from: usize, to: usize, length: usize) {
        for offset in (0..length).step_by(PAGE_BYTES) {
            if let Some(page) = self.pages.remove(&(from + offset)) {
                self.pages.insert(to + offset, page);
            }
        }
    }

    /// Pages that have been written to.
    pub(super) fn written(&self) -> Vec<usize> {
        self.pages.keys().copied().collect()
    }
}
