//! Accessed bits: BPF programs that tell which pages the processor has used.
//!
//! The processor sets a bit in the page table when it uses a page. The kernel shows these bits to
//! nobody, but a BPF program may read kernel memory. The command loads such a program and gives it
//! to the agents of paged programs. It walks the page table of the process that runs it, and gives
//! back nothing but bits. So an agent cannot read the kernel with it, nor another process.
//!
//! ```text
//!   command                                        agent
//!   server: waits for agents             <------  begins to page, and asks
//!   btf   offsets in task_struct, mm_struct
//!   peek  where the kernel sees all memory
//!   walk  the program for agents, tried  ---fd-->  BPF_PROG_TEST_RUN: 64 pages a query
//!                                                  MADV_COLD: clears bits
//!   walk  the program for the command              the same, of any process by its number
//! ```
//!
//! Loading lasts milliseconds, and most programs fit into their memory. So they start without it,
//! and it is loaded when the first of their processes begins to page. `--reference-bits hardware`
//! loads it first, because without it there is no run.
//!
//! The command has the second program to direct the kernel's paging from outside
//! (`sweephand-director`), and a third, which reads whole tables, to watch a process
//! (`sweephand-watch`). They never leave the command.
//!
//! Loading takes root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, and a kernel with BTF. Running
//! takes the descriptor alone. Where there is no such program, agents get reference bits from the
//! kernel's read-write protection, or keep them in software (`bit_source` in the agent).
//!
//! **What can be missed.** To read a bit and to clear it are two steps. A page that is used between
//! the two loses that reference. The agent clears what it has read as used at the end of the same
//! turn of its loop, before it waits for anything. While the program unmaps memory, the walk may
//! read a page table that has just been freed: then bits of pages that are being unmapped are
//! wrong. The kernel clears bits for its own purposes when it reclaims memory or samples its use
//! (DAMON).
//!
//! **What can be seen twice.** `MADV_COLD` leaves the bit of a page alone that waits in another
//! processor's list for its place among the pages by age. Each list has at most 31 pages. Such a
//! page counts as used once more. Nor does it clear the bits of pages that are shared since a fork:
//! these count as used until one of the processes has written to its copy or has ended. A huge page
//! has one bit: if a part is used, all of it is.
//!
//! None of this can make contents wrong: bits only tell a policy what is in use.
//!
//! | file | what it holds |
//! |---|---|
//! | `server` | hands the program to the agents that ask for it |
//! | `own_bits` | the program for agents: accessed bits of the process that runs it |
//! | `process_bits` | the program for directing: accessed bits of any process |
//! | `table_bits` | the program for watching: whole tables of any process |
//! | `walk` | their instructions |
//! | `layout` | where page tables are |
//! | `types` | members of the kernel's types |
//! | `btf` | the kernel's description of its types |
//! | `program` | BPF programs: assembling, loading, running, attaching |
//! | `one_processor` | keeps a thread where the kernel clears the bits that it asks for |
//! | `scratch` | memory of this process to try things on |
//! | `no_bits` | why there are no accessed bits |

pub(crate) mod btf;
pub(crate) mod layout;
mod no_bits;
mod one_processor;
mod own_bits;
mod process_bits;
pub(crate) mod program;
mod scratch;
mod server;
mod table_bits;
#[cfg(test)]
mod tests;
pub(crate) mod types;
mod walk;

pub use no_bits::NoBits;
pub use one_processor::OneProcessor;
pub use own_bits::AccessedBits;
pub use process_bits::ProcessBits;
pub use scratch::ScratchMemory;
pub use server::ProgramServer;
pub use table_bits::{Found, Mask, Table, TableBits};
pub use walk::TABLE_PAGES;
