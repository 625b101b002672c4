//! What the command can see of tasks from outside while they run.

use crate::run::Watched;
use crate::statistics::Snapshot;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use sweephand_pager_interface::control::Control;

/// Tasks that run, for another thread to look at; [`run_tasks`](super::run_tasks) keeps it up to
/// date.
#[derive(Default)]
pub struct TasksWatch {
    /// Of the tasks that have been started.
    controls: Mutex<Vec<&'static Control>>,
    resident_pages: AtomicU64,
    active: AtomicUsize,
    left: AtomicUsize,
    has_ended: AtomicBool,
}

impl TasksWatch {
    /// A task has been started.
    pub(crate) fn add(&self, control: &'static Control) {
        self.controls.lock().expect("no thread panics while it holds the lock").push(control);
    }

    /// How things stand: active tasks, tasks that have not ended, pages of all of them.
    pub(crate) fn set(&self, active: usize, left: usize, resident_pages: usize) {
        self.active.store(active, Relaxed);
        self.left.store(left, Relaxed);
        self.resident_pages.store(resident_pages as u64, Relaxed);
    }

    /// Says at the end of its scope that all is over, whichever way it is left.
    pub(crate) fn until_the_end(&self) -> impl Drop {
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Release);
            }
        }
        End(&self.has_ended)
    }
}

impl Watched for TasksWatch {
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            resident_pages: self.resident_pages.load(Relaxed),
            tasks: Some((self.active.load(Relaxed), self.left.load(Relaxed))),
            ..Default::default()
        };
        for control in self.controls.lock().expect("no thread panics while it holds the lock").iter() {
            snapshot.faults = snapshot.faults.saturating_add(control.counters.faults.load(Relaxed));
            snapshot.pages_read =
                snapshot.pages_read.saturating_add(control.counters.pages_read.load(Relaxed));
            snapshot.pages_written =
                snapshot.pages_written.saturating_add(control.counters.pages_written.load(Relaxed));
        }
        snapshot
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }
}
