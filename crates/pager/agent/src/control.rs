//! What the command and the agents share: the order, the counts, the last words.
//!
//! One block of memory in a file of the command's own. The command writes the order and starts the
//! program. The agent in each process of the program maps the block, counts in it, and before it
//! has to give up says there why.
//!
//! ```text
//!   page 0   the order, released     written by the command; agents can only read it
//!   page 1   counters                written by agents
//!   page 2   last words              written by agents
//! ```
//!
//! Processes of the program need not trust each other: one may have given up root's rights, and it
//! still has the block in its memory. So what an agent acts on is in a page that no agent can
//! write, and the command takes what agents write for what it is: numbers and a text, which may be
//! wrong.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sweephand_uffd::PAGE_BYTES;

/// The variable in the program's environment that names the control file.
pub const VARIABLE: &str = "SWEEPHAND_PAGER";
/// First word of the block: "sweephnd", and a layout that a later one tells itself apart from.
pub const MAGIC: u64 = u64::from_le_bytes(*b"swphnd01");
/// Bytes of the block.
pub const CONTROL_BYTES: usize = size_of::<Control>();
/// Bytes at its beginning that only the command writes.
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
    /// As much of `text` as fits; `None` if that is not all.
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { length: text.len() as u32, bytes })
    }

    /// The text, followed by a null; `None` if it fills its place, or holds one itself.
    pub fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length as usize)?).ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let length = (self.length as usize).min(N);
        core::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }
}

/// How pages are taken from the program and given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Backend {
    /// Private anonymous memory stays what it is; its pages are moved.
    Anon = 0,
    /// Memory becomes a shared mapping of a file in memory; reference and dirty bits are exact.
    Memfd = 1,
}

/// A number that nobody guesses.
pub type Secret = [u32; 4];

/// What the command asks for. Written before the program starts, read only from then on.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Order {
    /// [`MAGIC`].
    pub magic: u64,
    /// What an agent says to the command to be taken for one of this run's.
    pub secret: Secret,
    /// The process to live and die with: the command.
    pub supervisor: i32,
    /// The namespace in which that is its number: the inode of `/proc/self/ns/pid`.
    pub pid_namespace: u64,
    /// Memory of each process of the program, the pager's own included.
    pub limit_pages: u64,
    /// Most pages read ahead at once; 0 or 1 for none.
    pub prefetch_pages: u32,
    /// 0: no io_uring even where there is one.
    pub use_ring: u32,
    /// How pages are taken from the program: a [`Backend`].
    pub backend: u32,
    /// The policy and its arguments, as typed.
    pub policy: Text<256>,
    /// The library with the agent, as `LD_PRELOAD` names it.
    pub library: Text<256>,
    /// The control file, as [`VARIABLE`] names it.
    pub control: Text<256>,
    /// The directory for the backing store.
    pub directory: Text<1024>,
    /// The file with the limit of the cgroup that the program is in; empty if it is in none of its own.
    pub cgroup_limit: Text<512>,
    /// What each process has on top of the limit, in bytes: for page tables, stacks and a ring of its own, and for
    /// its pages as far as it is left over.
    pub share_bytes: u64,
    /// How much of the cgroup's limit is for each process, in bytes; 0 if the limit stays as it is.
    pub cgroup_process_bytes: u64,
    /// The size that files may have, by the limit that the command had itself.
    pub file_bytes: u64,
    /// The name of the command's socket, if it lends memory to several programs; empty if the limit
    /// is this one's alone.
    pub lender: Text<108>,
    /// Which of the programs this is.
    pub task: u32,
}

/// Counters over all processes of the program since its start. They begin a page: what is before
/// them only the command writes.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Counters {
    /// Processes that had an agent.
    pub agents: AtomicU64,
    /// Faults that the pager answered, of all kinds but rescues.
    pub faults: AtomicU64,
    /// Those on pages never touched before, or dropped by the program.
    pub zero_fill_faults: AtomicU64,
    /// Those on pages that had been evicted.
    pub refaults: AtomicU64,
    /// Refaults that found the page still on its way to the store: no read.
    pub refaults_in_flight: AtomicU64,
    /// Faults on pages unmapped only to see whether they are still in use: the software's reference bit.
    pub rescues: AtomicU64,
    /// Pages evicted.
    pub evictions: AtomicU64,
    /// Pages read from the store.
    pub pages_read: AtomicU64,
    /// Pages written to the store.
    pub pages_written: AtomicU64,
    /// Largest number of pages that a process had resident, as far as the pager counts them.
    pub peak_resident_pages: AtomicU64,
    /// Largest number of pages of the pager's own in a process.
    pub peak_own_pages: AtomicU64,
    /// Largest number of pages that a process and its pager had together.
    pub peak_memory_pages: AtomicU64,
    /// Largest number of pages at a time that cannot be paged out in a process.
    pub peak_pinned_pages: AtomicU64,
    /// List entries that the policy's hands looked at.
    pub hand_steps: AtomicU64,
    /// Programs that processes of the program have become by `execve`.
    pub execs: AtomicU64,
    /// Programs that were begun with the pager: the first, and those by `execve`.
    pub begun: AtomicU64,
    /// Allocations of 40 KiB and more, where the policy tells them apart.
    pub objects: AtomicU64,
    /// Most bytes that a process's page table and policy took.
    pub peak_bookkeeping_bytes: AtomicU64,
    /// Most pages that a process's page table had at that.
    pub peak_managed_pages: AtomicU64,
    /// Pages resident now, in the process that said so last.
    pub resident_pages: AtomicU64,
}

/// The block.
#[repr(C)]
pub struct Control {
    /// The order.
    pub order: Order,
    released: AtomicU32,
    /// The counts.
    pub counters: Counters,
    /// 1 once someone has begun to write `words`, 2 when they are complete.
    state: AtomicU32,
    words: core::cell::UnsafeCell<Text<512>>,
}

const _: () = assert!(ORDER_BYTES == PAGE_BYTES && CONTROL_BYTES == 3 * PAGE_BYTES);

// SAFETY: `words` is written by whoever turned `state` from 0 to 1, and read only after it has turned to 2.
unsafe impl Sync for Control {}

impl Order {
    /// Pages of memory for everything that counts in a process.
    pub fn budget_pages(&self) -> usize {
        self.limit_pages as usize + self.share_bytes as usize / PAGE_BYTES
    }

    /// Whether memory is to be paged through a file in memory.
    pub fn is_memfd(&self) -> bool {
        self.backend == Backend::Memfd as u32
    }
}

impl Control {
    /// A block with an order.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            released: AtomicU32::new(0),
            counters: Counters::default(),
            state: AtomicU32::new(0),
            words: core::cell::UnsafeCell::new(Text { length: 0, bytes: [0; 512] }),
        }
    }

    /// The command ends because its program has; other processes of the program may go on without it.
    pub fn release(&self) {
        self.released.store(1, Ordering::Release);
    }

    /// Whether the command has ended in good order.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire) != 0
    }

    /// Leaves last words, unless someone has already: the first failure is the cause of the others.
    pub fn fail(&self, write: impl FnOnce(&mut dyn core::fmt::Write)) {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // SAFETY: the exchange gave the words to us.
            write(unsafe { &mut *self.words.get() });
            self.state.store(2, Ordering::Release);
        }
    }

    /// A copy of the last words, if there are any. Whoever can write the block may write any bytes.
    pub fn failure(&self) -> Option<Text<512>> {
        // SAFETY: plain data of which any bytes are a value. Nobody but a program that means harm
        // writes it any more, and to such a one it does not matter which bytes are copied.
        (self.state.load(Ordering::Acquire) == 2).then(|| unsafe { self.words.get().read_volatile() })
    }
}

/// What does not fit is cut off.
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
