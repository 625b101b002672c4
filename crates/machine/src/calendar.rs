//! Real time, and what happens at its own time rather than because a task executes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is going to happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Event {
    /// A paging device has finished.
    Transferred { device: usize },
    /// A task's I/O request has been served.
    IoDone { task: usize },
}

/// The events to come, by time and then in the order of cause.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Events caused so far.
    caused: u64,
    /// Real time in references.
    pub(crate) now: u64,
}

impl Calendar {
    /// Something is going to happen after a delay.
    pub(crate) fn cause(&mut self, delay: u64, event: Event) {
        self.events.push(Reverse((self.now + delay, self.caused, event)));
        self.caused += 1;
    }

    /// Takes out the next event that happens now.
    pub(crate) fn due(&mut self) -> Option<Event> {
        let time = self.next_time()?;
        debug_assert!(time >= self.now, "an event was passed");
        if time > self.now {
            return None;
        }
        self.events.pop().map(|Reverse((_, _, event))| event)
    }

    /// When the next event happens.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((time, _, _))| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_cause() {
        let mut calendar = Calendar { now: 100, ..Calendar::default() };
        let [io, first, second] =
            [Event::IoDone { task: 0 }, Event::Transferred { device: 2 }, Event::Transferred { device: 1 }];
        calendar.cause(7, io);
        calendar.cause(5, first);
        calendar.cause(5, second);
        assert_eq!((calendar.next_time(), calendar.due()), (Some(105), None), "not yet");
        calendar.now = 105;
        assert_eq!([calendar.due(), calendar.due(), calendar.due()], [Some(first), Some(second), None]);
        calendar.now = 107;
        assert_eq!((calendar.due(), calendar.next_time()), (Some(io), None));
    }
}
