//! Paging devices and the queue of their requests.

use crate::configuration::{Configuration, Discipline};
use std::collections::VecDeque;
use sweephand_policy::{PageId, SplitMix64};

/// A transfer between memory and the paging devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// A task waits for the page.
    Read { page: PageId, task: usize, loading: bool },
    /// Cleans a dirty page.
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

/// The paging devices with their queues.
#[derive(Debug)]
pub(crate) struct Devices {
    /// One for all devices, or one for each.
    queues: Vec<PagingQueue>,
    /// What each device works on.
    working: Vec<Option<Request>>,
    /// The shortest and the longest time of a transfer, and what draws the times between.
    access_refs: (u64, u64),
    service: SplitMix64,
}

impl Devices {
    pub(crate) fn new(configuration: &Configuration, seed: u64) -> Self {
        let devices = &configuration.devices;
        Self {
            queues: vec![PagingQueue::new(devices.queue); devices.queues()],
            working: vec![None; devices.count],
            access_refs: devices.access_refs,
            service: SplitMix64::new(seed),
        }
    }

    /// How many queues there are.
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Requests that no device has taken.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.iter().map(PagingQueue::len).sum()
    }

    /// Puts a request for a page into its queue.
    pub(crate) fn push(&mut self, page: PageId, request: Request) {
        let queue = page.index() % self.queues.len();
        self.queues[queue].push(request);
    }

    /// The request of a queue that is served next.
    pub(crate) fn first(&self, queue: usize) -> Option<Request> {
        self.queues[queue].first()
    }

    /// Takes out the request that [`first`](Self::first) has shown.
    pub(crate) fn pop(&mut self, queue: usize) -> Request {
        self.queues[queue].pop().expect("there is a first one")
    }

    /// Takes the first write out of a queue, whatever stands before it. Returns its page.
    pub(crate) fn pop_write(&mut self, queue: usize) -> Option<PageId> {
        self.queues[queue].pop_write()
    }

    /// Takes the read that a task waits for out of its queue.
    pub(crate) fn withdraw_read(&mut self, task: usize) {
        self.queues.iter_mut().for_each(|queue| queue.withdraw_read(task));
    }

    /// The contents of a page are gone, so a write of it has no use. A device that is writing it
    /// finishes, and the result is ignored.
    pub(crate) fn withdraw_write(&mut self, page: PageId) {
        self.queues.iter_mut().for_each(|queue| queue.withdraw_write(page));
        for device in self.working.iter_mut().flatten() {
            if *device == (Request::Write { page }) {
                *device = Request::Void;
            }
        }
    }

    /// A device without work that takes requests from a queue.
    fn idle(&self, queue: usize) -> Option<usize> {
        if self.queues.len() > 1 {
            return self.working[queue].is_none().then_some(queue);
        }
        self.working.iter().position(Option::is_none)
    }

    /// Whether a device could take a request from a queue.
    pub(crate) fn is_idle(&self, queue: usize) -> bool {
        self.idle(queue).is_some()
    }

    /// How long a transfer takes.
    pub(crate) fn draw_service(&mut self) -> u64 {
        let (least, most) = self.access_refs;
        least + self.service.below(most - least + 1)
    }

    /// Gives a request to an idle device of a queue. Returns the device.
    pub(crate) fn begin(&mut self, request: Request, queue: usize) -> usize {
        let device = self.idle(queue).expect("a device is idle");
        self.working[device] = Some(request);
        device
    }

    /// A device has done its work. Returns what it was.
    pub(crate) fn finish(&mut self, device: usize) -> Request {
        self.working[device].take().expect("the device was working")
    }

    /// What the devices work on.
    #[cfg(test)]
    pub(crate) fn working(&self) -> impl Iterator<Item = &Request> {
        self.working.iter().flatten()
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
            assert_eq!(queue.clone().pop_write(), Some(PageId(0)), "{discipline:?}");
            let mut order = Vec::new();
            while let Some(first) = queue.first() {
                assert_eq!(queue.pop(), Some(first), "{discipline:?}");
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
