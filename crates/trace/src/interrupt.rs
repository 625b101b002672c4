//! Stops long work from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether long work is to be given up. Copies are one and the same: who works looks at one now and
/// then, who waits raises another. The default is one that nobody raises.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks that the work be given up.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that has been asked.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_one_and_others_are_not() {
        let interrupt = Interrupt::default();
        let (copy, other) = (interrupt.clone(), Interrupt::default());
        assert!(!copy.is_raised());
        std::thread::spawn(move || interrupt.raise()).join().unwrap();
        assert!(copy.is_raised() && !other.is_raised());
    }
}
