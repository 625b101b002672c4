//! Paging devices and the queue of their requests.

use crate::configuration::Discipline;
use std::collections::VecDeque;
use sweephand_policy::PageId;

/// A transfer between memory and the paging devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// A task waits for the page.
    Read { page: PageId, task: usize, loading: bool },
    /// A dirty page is to be cleaned.
    Write { page: PageId },
    /// A write in service of a page whose contents were given up meanwhile.
    Void,
}

/// Requests that no device has taken. The discipline sorts them into classes; within a class the
/// first comes first.
#[derive(Clone, Debug)]
pub(crate) struct PagingQueue {
    discipline: Discipline,
    classes: [VecDeque<Request>; 3],
}

impl PagingQueue {
    pub(crate) fn new(discipline: Discipline) -> Self {
        Self { discipline, classes: Default::default() }
    }

    pub(crate) fn push(&mut self, request: Request) {
        let class = match (self.discipline, request) {
            (Discipline::Fifo, _) => 0,
            (Discipline::RunFirst, Request::Read { loading: true, .. }) => 1,
            (_, Request::Read { .. }) => 0,
            (_, Request::Write { .. } | Request::Void) => 2,
        };
        self.classes[class].push_back(request);
    }

    /// The request that is served next.
    pub(crate) fn first(&self) -> Option<Request> {
        self.classes.iter().find_map(VecDeque::front).copied()
    }

    /// Takes the next request out.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        self.classes.iter_mut().find(|class| !class.is_empty())?.pop_front()
    }

    /// Takes the first write out, whatever stands before it. Returns its page.
    pub(crate) fn pop_write(&mut self) -> Option<PageId> {
        self.classes.iter_mut().find_map(|class| {
            let found = class.iter().enumerate().find_map(|(at, request)| match request {
                Request::Write { page } => Some((at, *page)),
                _ => None,
            });
            let (at, page) = found?;
            class.remove(at);
            Some(page)
        })
    }

    /// Takes the read that a task waits for out.
    pub(crate) fn withdraw_read(&mut self, task: usize) {
        self.retain(|request| !matches!(request, Request::Read { task: waits, .. } if *waits == task));
    }

    /// Takes the write of a page out, whose contents are gone.
    pub(crate) fn withdraw_write(&mut self, page: PageId) {
        self.retain(|request| !matches!(request, Request::Write { page: written } if *written == page));
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }

    fn retain(&mut self, keep: impl Fn(&Request) -> bool) {
        self.classes.iter_mut().for_each(|class| class.retain(&keep));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_order_requests() {
        let read = |page, loading| Request::Read { page: PageId(page), task: page as usize, loading };
        let write = |page| Request::Write { page: PageId(page) };
        for (discipline, expected) in [
            (Discipline::Fifo, [0, 1, 2, 3]),
            (Discipline::ReadsFirst, [1, 3, 0, 2]),
            (Discipline::RunFirst, [3, 1, 0, 2]),
        ] {
            let mut queue = PagingQueue::new(discipline);
            for request in [write(0), read(1, true), write(2), read(3, false)] {
                queue.push(request);
            }
            assert_eq!(queue.clone().pop_write(), Some(PageId(0)));
            let mut order = Vec::new();
            while let Some(first) = queue.first() {
                assert_eq!(queue.pop(), Some(first));
                let (Request::Read { page, .. } | Request::Write { page }) = first else {
                    panic!("{first:?}")
                };
                order.push(page.0);
            }
            assert_eq!(order, expected, "{discipline:?}");
        }
    }

    #[test]
    fn requests_are_withdrawn() {
        let mut queue = PagingQueue::new(Discipline::RunFirst);
        queue.push(Request::Read { page: PageId(7), task: 1, loading: false });
        queue.push(Request::Write { page: PageId(7) });
        queue.withdraw_read(2);
        queue.withdraw_write(PageId(8));
        assert_eq!(queue.len(), 2);
        queue.withdraw_read(1);
        assert_eq!(queue.first(), Some(Request::Write { page: PageId(7) }));
        queue.withdraw_write(PageId(7));
        assert_eq!(queue.len(), 0);
    }
}
