//! Where page tables are: the offsets that lead to one, and where the kernel sees all of the
//! machine's memory (its direct map). An entry of a page table names memory by its physical
//! address, and a BPF program reads by the kernel's addresses.

use super::no_bits::NoBits;
use super::program::{Peek, Program, peek};
use super::scratch::ScratchMemory;
use super::types::{Types, member_offset};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// The direct map begins at a multiple of this, whichever place the kernel has chosen for it.
const DIRECT_MAP_ALIGNMENT: u64 = 1 << 30;
/// How many places are tried: one for each GiB of physical addresses below the page table.
const MOST_TRIES: u64 = 1 << 16;

/// How to get from a thread to the entries of its page table.
#[derive(Debug)]
pub(super) struct Layout {
    /// Byte of `task_struct` at which a pointer to the process's memory is.
    pub(super) mm: usize,
    /// Byte of `mm_struct` at which a pointer to the top table is.
    pub(super) pgd: usize,
    /// The kernel's address of physical address 0.
    pub(super) direct_map: u64,
    /// Whether page tables have five levels instead of four.
    pub(super) has_five_levels: bool,
}

/// Numbers of functions of the kernel: one that finds a process, and one that lets go of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskFunctions {
    /// `bpf_task_from_vpid`.
    pub(super) find: u32,
    /// `bpf_task_release`.
    pub(super) release: u32,
}

impl TaskFunctions {
    /// Finds them out.
    pub(super) fn find() -> Result<Self, NoBits> {
        let types = Types::open()?;
        let btf = types.btf()?;
        let number = |name: &str| btf.function(name).ok_or_else(|| NoBits::Types(format!("has no {name}")));
        Ok(Self { find: number("bpf_task_from_vpid")?, release: number("bpf_task_release")? })
    }
}

impl Layout {
    /// Finds it out.
    pub(super) fn find() -> Result<Self, NoBits> {
        if !cfg!(target_arch = "x86_64") {
            return Err(NoBits::Layout("page tables are read on x86-64 only"));
        }
        let types = Types::open()?;
        let btf = types.btf()?;
        let offset = |structure: &str, member: &str| member_offset(&btf, structure, member);
        let (mm, pgd) = (offset("task_struct", "mm")?, offset("mm_struct", "pgd")?);
        let reader = Reader::load()?;
        let missing = NoBits::Layout("this process's page table is not where it should be");
        let top = reader
            .task()
            .and_then(|task| reader.words(task + mm as u64))
            .and_then(|[memory, ..]| reader.words(memory + pgd as u64))
            .ok_or(missing)?[0];
        let direct_map = reader.direct_map(top)?;
        // The kernel takes the flag away if it uses four levels all the same.
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        let has_five_levels = flags.split_whitespace().any(|flag| flag == "la57");
        Ok(Self { mm, pgd, direct_map, has_five_levels })
    }

    /// The lowest bit of an address that each table above the lowest goes by, from the top.
    pub(super) fn shifts(&self) -> &'static [i32] {
        if self.has_five_levels { &[48, 39, 30, 21] } else { &[39, 30, 21] }
    }

    /// Bits of an address that belongs to a process.
    pub(super) fn address_bits(&self) -> i32 {
        if self.has_five_levels { 56 } else { 47 }
    }
}

/// Reads kernel memory.
#[derive(Debug)]
pub(crate) struct Reader(Program);

impl Reader {
    /// Loads the program.
    pub(crate) fn load() -> Result<Self, NoBits> {
        Program::load(&peek()).map(Self).map_err(NoBits::Program)
    }

    /// The calling thread's `task_struct`.
    pub(crate) fn task(&self) -> Option<u64> {
        let mut peek = Peek::default();
        // There is nothing at address 0, but the thread is known.
        let _ = self.0.run(&mut peek);
        (peek.task != 0).then_some(peek.task)
    }

    /// Eight words from an address on. `None`: they cannot be read.
    pub(crate) fn words(&self, address: u64) -> Option<[u64; 8]> {
        let mut peek = Peek { address, ..Peek::default() };
        self.0.run(&mut peek).ok()?;
        Some(peek.words)
    }

    /// The kernel's address of physical address 0: where the kernel sees a page of this process,
    /// whose physical address is known, with just those contents. `top` is in the direct map too.
    fn direct_map(&self, top: u64) -> Result<u64, NoBits> {
        let mut words = [0_u64; 8];
        let mut bytes = [0_u8; 64];
        let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        random.map_err(NoBits::Program)?;
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let memory = ScratchMemory::map(1).map_err(NoBits::Program)?;
        for (index, &word) in words.iter().enumerate() {
            memory.write(memory.start + 8 * index, word);
        }
        let physical = physical_address(memory.start).ok_or(NoBits::Layout(
            "/proc/self/pagemap tells no physical addresses: CAP_SYS_ADMIN is missing",
        ))?;
        let highest = top & !(DIRECT_MAP_ALIGNMENT - 1);
        (0..MOST_TRIES)
            .map_while(|gib| highest.checked_sub(gib * DIRECT_MAP_ALIGNMENT))
            .find(|start| self.words(start.wrapping_add(physical)) == Some(words))
            .ok_or(NoBits::Layout("the kernel's view of all memory is not found"))
    }
}

/// The physical address of a page of this process.
pub(crate) fn physical_address(address: usize) -> Option<u64> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let mut entry = [0; 8];
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    pagemap.read_exact_at(&mut entry, address as u64 / PAGE_BYTES * 8).ok()?;
    let entry = u64::from_ne_bytes(entry);
    let frame = entry & FRAME;
    (entry & PRESENT != 0 && frame != 0).then_some(frame * PAGE_BYTES)
}
