//! What the command and the agents share: the order, the counters and the last words.
//!
//! The command puts a block of memory into a file of its own. It writes the order and starts the
//! program. The agent in each process of the program maps the block and counts in it. Before an
//! agent gives up, it writes the reason there.
//!
//! ```text
//!   page 0   the order, released     written by the command; agents can only read it
//!   page 1   counters                written by agents
//!   page 2   last words              written by agents
//! ```
//!
//! The processes of the program need not trust each other: a process may have given up root's
//! rights and still have the block in its memory. So everything that an agent acts on is in a page
//! that no agent can write. The command treats what agents write as numbers and text that may be
//! wrong.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sweephand_uffd::PAGE_BYTES;

/// The variable in the program's environment that names the control file.
pub const VARIABLE: &str = "SWEEPHAND_PAGER";
/// First word of the block: a name and the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"swphnd01");
/// Size of the block in bytes.
pub const CONTROL_BYTES: usize = size_of::<Control>();
/// Bytes at the beginning of the block that only the command writes.
pub const ORDER_BYTES: usize = core::mem::offset_of!(Control, counters);

/// A text of bounded length.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Text<const N: usize> {
    length: u32,
    bytes: [u8; N],
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self { length: 0, bytes: [0; N] }
    }
}

impl<const N: usize> Text<N> {
    /// `text`, or `None` if it does not fit.
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { length: text.len() as u32, bytes })
    }

    /// The text, followed by a null; `None` if it fills its place, or contains a null itself.
    pub fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length as usize)?).ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let length = (self.length as usize).min(N);
        core::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }
}

/// A number that cannot be guessed.
pub type Secret = [u32; 4];

/// What the command asks of agents that record what the program touches: see [`crate::recording`].
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct RecordingOrder {
    /// 0: agents page. Otherwise they record, into files in [`Order::directory`].
    pub is_on: u32,
    /// 0: processes that the program starts are not recorded.
    pub children: u32,
    /// The fewest pages of the window.
    pub least_pages: u32,
    /// The part of the time that recording may take from a program, in millionths, or
    /// `UNLIMITED`.
    pub overhead_millionths: u32,
    /// What a fault costs a program that an agent answers, in nanoseconds, as measured before the
    /// program starts.
    pub fault_ns: u32,
    /// How much of that is the answer itself, without what it takes to wake threads.
    pub answer_ns: u32,
}

/// What the command asks for. It is written before the program starts and only read afterwards.
///
/// It has as many fields as there are things to say: the command fills it in at one place for each
/// kind of run, and the agent reads each field at one or two. By default nothing is asked for.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Order {
    /// [`MAGIC`].
    pub magic: u64,
    /// An agent shows this to the command to prove that it belongs to this run.
    pub secret: Secret,
    /// Process id of the command. The program ends when the command dies.
    pub supervisor: i32,
    /// The pid namespace of that process id: the inode of `/proc/self/ns/pid`.
    pub pid_namespace: u64,
    /// Memory of each process of the program, including the pager's own.
    pub limit_pages: u64,
    /// Most pages read ahead at once; 0 or 1 for none.
    pub prefetch_pages: u32,
    /// 0: no io_uring, even if the kernel has one.
    pub use_ring: u32,
    /// What each read of the backing store takes in addition, one after another, in nanoseconds.
    /// With it there is no io_uring. 0 for nothing.
    pub read_delay_ns: u64,
    /// The command's descriptor of the socket by which agents ask for the program that reads
    /// accessed bits; 0 if there is no such program. See [`crate::accessed`].
    pub accessed_bits: u32,
    /// 0: not even if the kernel can, reference bits come from its read-write protection.
    pub may_track: u32,
    /// The part of the memory for evicted pages that are compressed; 0 for none.
    pub pool_pages: u32,
    /// 0: the part is that large. Otherwise it is at most that large, and as large as pays.
    pub pool_is_auto: u32,
    /// The policy and its arguments, as the user typed them.
    pub policy: Text<256>,
    /// The library with the agent, as `LD_PRELOAD` names it.
    pub library: Text<256>,
    /// The control file, as [`VARIABLE`] names it.
    pub control: Text<256>,
    /// The directory for the backing store, or for the files of a recording.
    pub directory: Text<1024>,
    /// The file with the limit of the program's cgroup; empty if the program has no cgroup of its
    /// own.
    pub cgroup_limit: Text<512>,
    /// What each process gets on top of the limit, in bytes. It is for page tables, stacks and the
    /// process's io_uring. What these leave is for the program's pages.
    pub share_bytes: u64,
    /// The part of the cgroup's limit for each process, in bytes; 0 if the limit does not change.
    pub cgroup_process_bytes: u64,
    /// The size limit for files that the command had itself.
    pub file_bytes: u64,
    /// The name of the command's socket if it lends memory to several programs; empty if this
    /// program has the limit for itself.
    pub lender: Text<108>,
    /// The number of this program among those that share memory.
    pub task: u32,
    /// What is recorded, if the program is recorded and not paged.
    pub recording: RecordingOrder,
}

/// Counters over all processes of the program since its start. They begin a page, because only the
/// command writes what is before them.
///
/// Each field is added to by itself, whatever the others are, and becomes a count of its own in the
/// command's output.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Counters {
    /// Processes that had an agent.
    pub agents: AtomicU64,
    /// Faults that the pager answered, of all kinds but rescues.
    pub faults: AtomicU64,
    /// Faults on pages that were never touched before or that the program has dropped.
    pub zero_fill_faults: AtomicU64,
    /// Faults on pages that had been evicted.
    pub refaults: AtomicU64,
    /// Refaults that found the page still on its way to the store, so that no read was needed.
    pub refaults_in_flight: AtomicU64,
    /// Faults on pages that the pager unmapped only to see whether they are still in use (the
    /// software reference bit).
    pub rescues: AtomicU64,
    /// Faults of recordings on pages that were known, and how long the answers took, in
    /// nanoseconds.
    pub answers: AtomicU64,
    /// See [`Self::answers`].
    pub answers_ns: AtomicU64,
    /// Pages evicted.
    pub evictions: AtomicU64,
    /// Pages read from the store.
    pub pages_read: AtomicU64,
    /// Pages written to the store.
    pub pages_written: AtomicU64,
    /// Pages evicted without a write, because the store has their contents.
    pub clean_evictions: AtomicU64,
    /// Pages that were compressed when they were evicted, and stayed in memory.
    pub pool_puts: AtomicU64,
    /// Refaults that found the page there.
    pub pool_hits: AtomicU64,
    /// Pages that went to the store because they do not compress to three quarters.
    pub pool_refused: AtomicU64,
    /// Pages that went to the store although they compress, because there was no room for them.
    pub pool_full: AtomicU64,
    /// Pages that were turned out of compressed memory: written to the store, for which there were
    /// writes, or not, because the store had their contents.
    pub pool_written_back: AtomicU64,
    /// See [`Self::pool_written_back`].
    pub pool_turned_out_clean: AtomicU64,
    /// Bytes that compressed pages take now, in the process that reported last.
    pub pool_bytes: AtomicU64,
    /// Most bytes that compressed pages of a process took.
    pub peak_pool_bytes: AtomicU64,
    /// Pages of memory for them now, in the process that reported last.
    pub pool_pages: AtomicU64,
    /// The most pages of memory that a process had for them.
    pub peak_pool_pages: AtomicU64,
    /// How often that memory has begun to become larger, or smaller, because it pays.
    pub pool_changes: AtomicU64,
    /// Pages of memory by which compressed memory has become smaller, because other memory of the
    /// process needed the room.
    pub pool_lowered_pages: AtomicU64,
    /// Processes that did without compressed memory, because there was no address space for it.
    pub pools_given_up: AtomicU64,
    /// Largest number of resident pages of a process, by the pager's count.
    pub peak_resident_pages: AtomicU64,
    /// Largest number of pages that the policy of a process had.
    pub peak_policy_pages: AtomicU64,
    /// Largest number of pages of the pager itself in a process.
    pub peak_own_pages: AtomicU64,
    /// Largest number of pages of a process and its pager together.
    pub peak_memory_pages: AtomicU64,
    /// Largest number of pages of a process that could not be paged out at one time.
    pub peak_pinned_pages: AtomicU64,
    /// List entries that the policy's hands looked at.
    pub hand_steps: AtomicU64,
    /// Programs that processes have become by `execve`.
    pub execs: AtomicU64,
    /// Programs that began with the pager: the first one, and those started by `execve`.
    pub begun: AtomicU64,
    /// Allocations of 40 KiB and more, if the policy tells them apart.
    pub objects: AtomicU64,
    /// Most bytes that the page table and the policy of a process took.
    pub peak_bookkeeping_bytes: AtomicU64,
    /// Most pages that the page table of a process had.
    pub peak_managed_pages: AtomicU64,
    /// Resident pages now, in the process that reported last.
    pub resident_pages: AtomicU64,
    /// Pages that came in although no fault had asked for them.
    pub unasked_pages: AtomicU64,
    /// Those of them that left without having been used, if reference bits can be read.
    pub unused_pages: AtomicU64,
    /// 1 + the place of the expert that the policy follows, in the process that reported last; 0 if
    /// the policy follows none.
    pub leader: AtomicU64,
    /// How often another expert has taken the lead.
    pub leader_changes: AtomicU64,
    /// Processes that were paged with the processor's reference bits.
    pub hardware_bits: AtomicU64,
    /// Processes that were paged with reference bits from the kernel's read-write protection.
    pub tracked_bits: AtomicU64,
    /// Processes that began to be paged with reference bits in software.
    pub software_bits: AtomicU64,
    /// Processes that read and write the store through an io_uring.
    pub rings: AtomicU64,
}

/// The block.
#[repr(C)]
pub struct Control {
    /// The order.
    pub order: Order,
    released: AtomicU32,
    recording_is_over: AtomicU32,
    /// The counters.
    pub counters: Counters,
    /// 1 once a process has begun to write `words`, 2 when they are complete.
    state: AtomicU32,
    words: core::cell::UnsafeCell<Text<512>>,
}

const _: () = assert!(ORDER_BYTES == PAGE_BYTES && CONTROL_BYTES == 3 * PAGE_BYTES);

// SAFETY: only the thread that turned `state` from 0 to 1 writes `words`. They are read only after
// it has turned to 2.
unsafe impl Sync for Control {}

impl Order {
    /// Pages for everything that counts in a process.
    pub fn budget_pages(&self) -> usize {
        self.limit_pages as usize + self.share_bytes as usize / PAGE_BYTES
    }

    /// Whether agents record what the program touches, and page nothing.
    pub fn is_recording(&self) -> bool {
        self.recording.is_on != 0
    }
}

impl Control {
    /// A block with an order.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            released: AtomicU32::new(0),
            recording_is_over: AtomicU32::new(0),
            counters: Counters::default(),
            state: AtomicU32::new(0),
            words: core::cell::UnsafeCell::new(Text { length: 0, bytes: [0; 512] }),
        }
    }

    /// Tells agents that the command ends because its program has ended. Other processes of the
    /// program may go on without the command.
    pub fn release(&self) {
        self.released.store(1, Ordering::Release);
    }

    /// Whether the command has ended in good order.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire) != 0
    }

    /// Tells agents that nobody takes their records any more. The program goes on without them.
    pub fn end_recording(&self) {
        self.recording_is_over.store(1, Ordering::Release);
    }

    /// Whether nobody takes records any more, although the command may be there.
    pub fn recording_is_over(&self) -> bool {
        self.recording_is_over.load(Ordering::Acquire) != 0
    }

    /// Leaves last words, unless there are some already. The first failure is the cause of the
    /// others.
    pub fn fail(&self, write: impl FnOnce(&mut dyn core::fmt::Write)) {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // SAFETY: the exchange gave `words` to this thread.
            write(unsafe { &mut *self.words.get() });
            self.state.store(2, Ordering::Release);
        }
    }

    /// A copy of the last words, if there are any. They may be any bytes, because processes of the
    /// program can write the block.
    pub fn failure(&self) -> Option<Text<512>> {
        // SAFETY: this is plain data, valid for any bytes. The agents do not write it any more. If
        // a hostile process does, it does not matter which bytes are copied.
        (self.state.load(Ordering::Acquire) == 2).then(|| unsafe { self.words.get().read_volatile() })
    }
}

/// Text that does not fit is cut off.
impl<const N: usize> core::fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for character in text.chars() {
            let (start, bytes) = (self.length as usize, character.len_utf8());
            let Some(room) = self.bytes.get_mut(start..start + bytes) else { break };
            character.encode_utf8(room);
            self.length += bytes as u32;
        }
        Ok(())
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
