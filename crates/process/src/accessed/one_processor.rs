//! A thread that stays on its processor, so that the kernel clears the bits that it asks for.

use super::scratch::ScratchMemory;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;

/// Keeps the calling thread on the processor where it is.
///
/// The kernel does not clear the bit of a page that is in a list of another processor, on its way
/// to the lists of pages by age: new pages are, up to 31 for each processor. It first empties the
/// list of the processor that asks. To go to another processor takes long if that has other work.
#[derive(Debug)]
pub struct OneProcessor {
    pub(super) before: CpuSet,
}

impl OneProcessor {
    /// Keeps it there until this is dropped.
    pub fn here() -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }

    /// Has the calling thread, which another one has started on its processor, leave that one.
    pub fn leave(&self) -> io::Result<()> {
        let (mut others, one) = (self.before, sched_getaffinity(None)?);
        (0..CpuSet::MAX_CPU).filter(|&processor| one.is_set(processor)).for_each(|one| others.unset(one));
        Ok(sched_setaffinity(None, &others)?)
    }

    /// Has every processor that the calling thread may run on move the pages in its list to their
    /// places, so that their bits can be cleared.
    pub fn empty_all_lists() -> io::Result<()> {
        let all = Self { before: sched_getaffinity(None)? };
        let memory = ScratchMemory::map(1)?;
        for processor in (0..CpuSet::MAX_CPU).filter(|&processor| all.before.is_set(processor)) {
            let mut one = CpuSet::new();
            one.set(processor);
            sched_setaffinity(None, &one)?;
            memory.cool();
        }
        Ok(())
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
