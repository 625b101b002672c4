//! Where the reference bits of private memory come from: the first of these that can be had.
//!
//! | | read by | cleared by | needs |
//! |---|---|---|---|
//! | the processor's accessed bits | a BPF program (`accessed_bits`) | `MADV_COLD` | root, BPF, BTF |
//! | the kernel's read-write protection | a scan of the pagemap | `UFFDIO_RWPROTECT` | Linux 7.3 |
//! | software (`bits`) | | | nothing |
//!
//! To read a bit and to clear it are two steps in both cases (`exact_bits`). Protected pages stay
//! where they are. The first touch of each takes the kernel a fault of its own, of which the agent
//! does not hear. So a bit costs this fault, once a page and turn of the hands, and clearing bits
//! costs what it takes to tell the other processors.

use crate::choice::accessed_bits::AccessedBits;
use crate::choice::exact_bits::Source;
use crate::control::{Control, add};
use crate::kernel::syscall::advise;
use crate::kernel::{PAGE_BYTES, Userfaultfd};
use crate::process::pagemap::Pagemap;
use crate::state::program::Program;
use linux_raw_sys::general::MADV_COLD;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Where bits come from. Software until [`Self::choose`].
#[derive(Debug, Default)]
pub(crate) struct BitSource {
    /// The program that reads accessed bits.
    accessed_bits: AccessedBits,
    /// Whether the kernel's protection takes its place.
    is_tracked: bool,
}

impl BitSource {
    /// With the way to the program that reads accessed bits. `command` is known if this process has
    /// the memory for itself.
    pub(crate) fn open(control: &Control, command: Option<&OwnedFd>) -> Self {
        Self { accessed_bits: AccessedBits::open(control, command), is_tracked: false }
    }

    /// The process is about to be paged.
    pub(crate) fn choose(&mut self, control: &Control, program: &Program) {
        self.accessed_bits.ask(program.supervisor.as_ref());
        self.settle(control, program);
    }

    /// In a child, whose copy of a descriptor's number is worth nothing: continues with what
    /// [`Self::descriptor`] was in the parent.
    pub(crate) fn begin_in_child(
        &mut self,
        control: &Control,
        program: &Program,
        descriptor: Option<OwnedFd>,
    ) {
        let could_be_read = self.can_be_read();
        self.accessed_bits.begin_in_child(descriptor);
        if could_be_read {
            self.settle(control, program);
        }
    }

    /// Finds out what can be had, once it is known whether there is a program, and counts it.
    fn settle(&mut self, control: &Control, program: &Program) {
        let is_read = self.accessed_bits.program().is_some();
        self.is_tracked = !is_read && program.tracks && program.pagemap.file().is_some();
        let counters = &control.counters;
        let counter = match (is_read, self.is_tracked) {
            (true, _) => &counters.hardware_bits,
            (false, true) => &counters.tracked_bits,
            (false, false) => &counters.software_bits,
        };
        add(counter, 1);
    }

    /// Whether bits can be read.
    pub(crate) fn can_be_read(&self) -> bool {
        self.accessed_bits.program().is_some() || self.is_tracked
    }

    /// Where they can be read, if they can.
    pub(crate) fn source<'a>(&'a self, pagemap: &'a Pagemap) -> Option<Source<'a>> {
        match self.accessed_bits.program() {
            Some(program) => Some(Source::Accessed(program)),
            None => pagemap.file().filter(|_| self.is_tracked).map(|file| Source::Tracked(file.as_fd())),
        }
    }

    /// Clears the bits of pages. A page may keep its bit while the address space changes, or, if
    /// the bit is the processor's, while the page is shared with another process or locked. Such a
    /// page seems to be in use once more.
    pub(crate) fn clear(&self, uffd: &Userfaultfd, start: usize, pages: usize) {
        match self.is_tracked {
            true => _ = uffd.protect(start, pages * PAGE_BYTES),
            // SAFETY: this leaves the contents as they are, whatever is mapped there.
            false => _ = unsafe { advise(start, pages * PAGE_BYTES, MADV_COLD) },
        }
    }

    /// What a child needs of the parent's descriptors.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.accessed_bits.descriptor()
    }
}
