//! Stops long work from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks long work to stop. All copies share one flag: the work looks at its copy now
/// and then, and another thread raises its own. The default is never raised.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks the work to stop.
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
    fn interrupt_reaches_copies_and_no_other_interrupt() {
        let interrupt = Interrupt::default();
        let (copy, other) = (interrupt.clone(), Interrupt::default());
        assert!(!copy.is_raised());
        std::thread::spawn(move || interrupt.raise()).join().unwrap();
        assert!(copy.is_raised() && !other.is_raised());
    }
}
