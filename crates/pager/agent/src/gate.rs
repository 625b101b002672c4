//! The gate keeps the program's threads from changing the address space while the agent changes it.
//!
//! Only the memfd backend needs it. There, the agent maps memory over the program's memory and
//! unmaps pages by address, so what it has looked up must not change before it acts. The hooks of
//! the functions that change mappings pass through the gate. The agent shuts the gate, waits until
//! no thread is inside, reads what the threads have changed, and acts.
//!
//! The gate counts the threads inside; it is not a lock. Signal handlers wait while their thread is
//! inside. A thread inside waits only for the kernel, and perhaps for the agent to read its event.
//! The agent does that while it waits.

use crate::kernel;
use crate::thread;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The gate of this process.
pub static GATE: Gate =
    Gate { in_use: AtomicBool::new(false), shut: AtomicBool::new(false), within: AtomicUsize::new(0) };

/// The gate.
#[derive(Debug)]
pub struct Gate {
    in_use: AtomicBool,
    shut: AtomicBool,
    within: AtomicUsize,
}

impl Gate {
    /// From now on it keeps order; before the program has threads.
    pub fn put_in_use(&self) {
        self.in_use.store(true, Ordering::Release);
    }

    /// Whether the backend is one that needs it.
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// For threads of the program: makes a change while the gate is open.
    pub fn pass<R>(&self, change: impl FnOnce() -> R) -> R {
        if !self.is_in_use() {
            return change();
        }
        // A handler that jumped out would leave its thread inside for ever.
        thread::uninterrupted(|| self.go_through(change))
    }

    /// Ends: the agent keeps the gate shut for a bounded number of its own steps at a time.
    fn go_through<R>(&self, change: impl FnOnce() -> R) -> R {
        loop {
            self.within.fetch_add(1, Ordering::SeqCst);
            if !self.shut.load(Ordering::SeqCst) {
                break;
            }
            self.within.fetch_sub(1, Ordering::SeqCst);
            kernel::sched_yield();
        }
        let result = change();
        self.within.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// For the agent: no thread may enter any more. Some may still be inside.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
    }

    /// For the agent: threads may enter again. (A child starts with an open gate: threads that were
    /// inside are not in that process.)
    pub fn open(&self) {
        self.shut.store(false, Ordering::SeqCst);
    }

    /// For the agent: whether a change is being made.
    pub fn is_passed(&self) -> bool {
        self.within.load(Ordering::SeqCst) > 0
    }

    /// In a child: threads that were inside are in the parent.
    pub fn forget_others(&self) {
        self.within.store(0, Ordering::SeqCst);
        self.open();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_is_within_while_it_is_shut() {
        let gate =
            Gate { in_use: AtomicBool::new(true), shut: AtomicBool::new(false), within: AtomicUsize::new(0) };
        let (inside, stop, passed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        gate.pass(|| {
                            inside.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..200 {
                gate.shut();
                while gate.is_passed() {
                    std::thread::yield_now();
                }
                for _ in 0..20 {
                    assert_eq!(inside.load(Ordering::SeqCst), 0);
                }
                gate.open();
                std::thread::yield_now();
            }
            while passed.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
