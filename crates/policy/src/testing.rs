//! A memory for tests of policies for many tasks. The test sets every bit by hand.

use crate::{ExactMmu, Mmu, PageId, TaskId, TaskMmu, VirtualTime};
use std::collections::BTreeSet;

#[derive(Default, Debug)]
pub(crate) struct Desk {
    /// Virtual time, and whether it is active, of each task.
    tasks: Vec<(VirtualTime, bool)>,
    owner: Vec<u32>,
    referenced: BTreeSet<PageId>,
    dirty: BTreeSet<PageId>,
    cleaning: BTreeSet<PageId>,
    last_reference: Vec<VirtualTime>,
}

impl Desk {
    pub(crate) fn tasks<const N: usize>(&mut self, tasks: [(VirtualTime, bool); N]) {
        self.tasks = tasks.to_vec();
    }

    /// A new page of a task, clean and not referenced, last used now.
    pub(crate) fn load(&mut self, owner: u32) -> PageId {
        self.owner.push(owner);
        self.last_reference.push(self.tasks[owner as usize].0);
        PageId(self.owner.len() as u32 - 1)
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + use<> {
        (0..self.owner.len() as u32).map(PageId)
    }

    pub(crate) fn reference(&mut self, page: PageId) {
        self.referenced.insert(page);
        self.last_reference[page.index()] = self.virtual_time(self.owner(page));
    }

    pub(crate) fn dirty(&mut self, page: PageId) {
        self.dirty.insert(page);
    }

    pub(crate) fn is_referenced(&self, page: PageId) -> bool {
        self.referenced.contains(&page)
    }

    pub(crate) fn cleaning(&self) -> Vec<PageId> {
        self.cleaning.iter().copied().collect()
    }

    pub(crate) fn finish_cleaning(&mut self) {
        self.cleaning.clear();
    }
}

impl Mmu for Desk {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        self.referenced.remove(&page)
    }
}

impl TaskMmu for Desk {
    fn owner(&self, page: PageId) -> TaskId {
        TaskId(self.owner[page.index()])
    }
    fn virtual_time(&self, task: TaskId) -> VirtualTime {
        self.tasks[task.index()].0
    }
    fn is_active(&self, task: TaskId) -> bool {
        self.tasks[task.index()].1
    }
    fn is_dirty(&self, page: PageId) -> bool {
        self.dirty.contains(&page)
    }
    fn is_busy(&self, page: PageId) -> bool {
        self.cleaning.contains(&page)
    }
    fn start_cleaning(&mut self, page: PageId) {
        assert!(self.dirty.remove(&page), "page {page} is clean");
        assert!(self.cleaning.insert(page), "page {page} is being cleaned");
    }
}

impl ExactMmu for Desk {
    fn last_reference(&self, page: PageId) -> VirtualTime {
        self.last_reference[page.index()]
    }
    fn working_set_pages(&self, _: TaskId) -> usize {
        unreachable!("no test asks")
    }
}
