//! Page table and virtual clocks: what the memory manager can ask of hardware and scheduler.
//!
//! The pages of all tasks are numbered one after the other, with a byte of flags each. If a task
//! executes an interval string (IRIM), its page counts as referenced all the time while it is in
//! use, and as written while its use is writing. A bit that is cleared then is set again when the
//! task next executes.

use sweephand_policy::{ExactMmu, Mmu, PageId, TaskId, TaskMmu, VirtualTime};

/// The dirty bit. In the place of the write flag of a packed reference, so that a hit is one OR.
pub(crate) const DIRTY: u8 = 1;
/// The use bit.
pub(crate) const REFERENCED: u8 = 2;
/// In a frame, and not on its way there.
pub(crate) const RESIDENT: u8 = 4;
/// Waits to be written to a paging device, or is being written.
pub(crate) const CLEANING: u8 = 8;
/// Loaded, and its task has not come to repeat the reference that it waited for.
pub(crate) const AWAITED: u8 = 16;
/// Intervals: in use. Such a page counts as referenced all the time.
pub(crate) const IN_USE: u8 = 32;
/// Intervals: its use is writing.
pub(crate) const IN_WRITING: u8 = 64;

/// What belongs to the page, not to the frame that it is in.
const OF_THE_PAGE: u8 = IN_USE | IN_WRITING;

/// Pages, their owners, and the owners' virtual times.
#[derive(Debug)]
pub struct MachineMemory {
    /// By page.
    pub(crate) flags: Vec<u8>,
    /// By page.
    owner: Vec<TaskId>,
    /// By task.
    pub(crate) virtual_time: Vec<VirtualTime>,
    /// By task.
    pub(crate) active: Vec<bool>,
    /// By task: pages in frames.
    pub(crate) resident: Vec<usize>,
    /// Frames that hold no page and are not promised to any.
    pub(crate) free_frames: usize,
    /// Pages whose cleaning has been asked for and not been passed on to the paging queue.
    pub(crate) to_clean: Vec<PageId>,
    /// By task, intervals: pages in use a bit of which has been cleared since it executed last.
    pub(crate) cleared: Vec<Vec<PageId>>,
    /// By page, where exact knowledge is kept: virtual time after the last reference before the
    /// page fell idle.
    pub(crate) last_reference: Vec<VirtualTime>,
    /// By task, where exact knowledge is kept.
    pub(crate) windows: Vec<Window>,
    /// Whether dirty pages can be replaced as they are: whoever takes the frame writes them.
    pub(crate) coupled_writes: bool,
    /// Pages that have left their working sets, if somebody wants to know.
    pub(crate) left: Option<Vec<PageId>>,
}

/// The working set of a task, counted exactly as its window moves along.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Window {
    /// Pages whose last reference is within the window.
    pub(crate) pages: usize,
    /// Virtual time at its rear end: pages last referenced at this or before are outside.
    pub(crate) rear: VirtualTime,
    /// Intervals: the first transition that the rear end has not passed.
    pub(crate) next_transition: usize,
}

impl MachineMemory {
    /// Empty memory of that many frames.
    pub(crate) fn new(frames: usize) -> Self {
        Self {
            flags: Vec::new(),
            owner: Vec::new(),
            virtual_time: Vec::new(),
            active: Vec::new(),
            resident: Vec::new(),
            free_frames: frames,
            to_clean: Vec::new(),
            cleared: Vec::new(),
            last_reference: Vec::new(),
            windows: Vec::new(),
            coupled_writes: false,
            left: None,
        }
    }

    /// A new task of that many pages; returns its first page.
    pub(crate) fn add_task(&mut self, pages: u32, exact: bool) -> u32 {
        let first = self.flags.len();
        let end = first + pages as usize;
        assert!(u32::try_from(end).is_ok(), "the tasks have more than 2^32 pages in all");
        self.flags.resize(end, 0);
        self.owner.resize(end, TaskId(self.virtual_time.len() as u32));
        self.virtual_time.push(0);
        self.active.push(false);
        self.resident.push(0);
        self.cleared.push(Vec::new());
        if exact {
            self.last_reference.resize(end, 0);
        }
        self.windows.push(Window::default());
        first as u32
    }

    pub(crate) fn is(&self, page: PageId, flag: u8) -> bool {
        self.flags[page.index()] & flag != 0
    }

    /// A page has been read into a frame.
    pub(crate) fn load(&mut self, page: PageId) {
        let task = self.owner[page.index()].index();
        self.resident[task] += 1;
        let flags = &mut self.flags[page.index()];
        debug_assert_eq!(*flags & RESIDENT, 0, "page {page} is loaded twice");
        *flags |= RESIDENT;
        if *flags & IN_USE != 0 {
            self.cleared[task].push(page);
        }
    }

    /// Takes the frame of a resident page away. Returns whether the page is in use all the time.
    pub(crate) fn evict(&mut self, page: PageId) -> bool {
        let task = self.owner[page.index()].index();
        let flags = &mut self.flags[page.index()];
        assert!(*flags & RESIDENT != 0, "victim {page} is not resident");
        self.resident[task] -= 1;
        self.free_frames += 1;
        *flags &= OF_THE_PAGE;
        *flags & IN_USE != 0
    }

    /// The contents of a page are gone. Returns whether it was resident.
    pub(crate) fn discard(&mut self, page: PageId) -> bool {
        let was_resident = self.is(page, RESIDENT);
        if was_resident {
            self.evict(page);
        }
        if let Some(last_reference) = self.last_reference.get_mut(page.index()) {
            let window = &mut self.windows[self.owner[page.index()].index()];
            let in_use = self.flags[page.index()] & IN_USE != 0;
            if in_use || *last_reference > window.rear {
                window.pages -= 1;
            }
            *last_reference = 0;
        }
        self.flags[page.index()] = 0;
        was_resident
    }

    /// A paging device begins to write a page: what is written to the page from now on is not in
    /// that write.
    pub(crate) fn begin_write(&mut self, page: PageId) {
        let flags = &mut self.flags[page.index()];
        debug_assert_eq!(*flags & (DIRTY | CLEANING), DIRTY | CLEANING, "page {page} is not to be cleaned");
        *flags &= !DIRTY;
        if *flags & IN_WRITING != 0 {
            self.cleared[self.owner[page.index()].index()].push(page);
        }
    }

    /// Sets the bits of pages in use that have been cleared since the task executed last.
    pub(crate) fn touch_again(&mut self, task: usize) {
        for page in self.cleared[task].drain(..) {
            let flags = &mut self.flags[page.index()];
            if *flags & RESIDENT != 0 && *flags & IN_USE != 0 {
                *flags |= if *flags & IN_WRITING != 0 { REFERENCED | DIRTY } else { REFERENCED };
            }
        }
    }
}

impl Mmu for MachineMemory {
    #[inline]
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        let flags = &mut self.flags[page.index()];
        let referenced = *flags & REFERENCED != 0;
        *flags &= !REFERENCED;
        if referenced && *flags & IN_USE != 0 {
            self.cleared[self.owner[page.index()].index()].push(page);
        }
        referenced
    }
}

impl TaskMmu for MachineMemory {
    #[inline]
    fn owner(&self, page: PageId) -> TaskId {
        self.owner[page.index()]
    }

    #[inline]
    fn virtual_time(&self, task: TaskId) -> VirtualTime {
        self.virtual_time[task.index()]
    }

    #[inline]
    fn is_active(&self, task: TaskId) -> bool {
        self.active[task.index()]
    }

    fn is_dirty(&self, page: PageId) -> bool {
        !self.coupled_writes && self.is(page, DIRTY)
    }

    fn is_busy(&self, page: PageId) -> bool {
        self.is(page, CLEANING | AWAITED)
    }

    fn start_cleaning(&mut self, page: PageId) {
        let flags = &mut self.flags[page.index()];
        debug_assert_eq!(
            *flags & (RESIDENT | DIRTY | CLEANING),
            RESIDENT | DIRTY,
            "page {page} is not to be cleaned"
        );
        *flags |= CLEANING;
        self.to_clean.push(page);
    }
}

impl ExactMmu for MachineMemory {
    fn last_reference(&self, page: PageId) -> VirtualTime {
        if self.is(page, IN_USE) {
            self.virtual_time(self.owner(page))
        } else {
            self.last_reference[page.index()]
        }
    }

    fn working_set_pages(&self, task: TaskId) -> usize {
        self.windows[task.index()].pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_takes_along_what_was_written_while_it_waited() {
        let mut memory = MachineMemory::new(1);
        memory.add_task(1, false);
        let page = PageId(0);
        memory.free_frames -= 1;
        memory.load(page);
        memory.flags[0] |= DIRTY;
        memory.start_cleaning(page);
        assert!(memory.is_dirty(page) && memory.is_busy(page), "it waits for a device");
        memory.begin_write(page);
        assert!(!memory.is_dirty(page) && memory.is_busy(page));
        memory.flags[0] |= DIRTY;
        assert!(memory.is_dirty(page), "written to since");
    }

    #[test]
    fn a_bit_of_a_page_in_use_is_set_again_when_its_task_executes() {
        let mut memory = MachineMemory::new(4);
        memory.add_task(4, false);
        let in_use = RESIDENT | IN_USE;
        let (idle, read, written, evicted) = (0, 1, 2, 3);
        memory.flags = vec![RESIDENT, in_use, in_use | IN_WRITING | DIRTY | CLEANING, in_use];
        for flags in &mut memory.flags {
            *flags |= REFERENCED;
        }
        for page in [idle, read, written, evicted] {
            assert!(memory.test_and_clear_referenced(PageId(page)));
        }
        memory.begin_write(PageId(written));
        memory.resident[0] = 4;
        memory.evict(PageId(evicted));
        memory.touch_again(0);
        assert_eq!(
            memory.flags,
            [RESIDENT, in_use | REFERENCED, in_use | IN_WRITING | DIRTY | CLEANING | REFERENCED, IN_USE]
        );
    }
}
