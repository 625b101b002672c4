//! A running service, watched from outside: which pages its processes have used since the last
//! look, each page once.
//!
//! Processes share pages: those that they had before a fork, shared memory, files that they have
//! mapped. A page is the physical *frame* that holds it, whose number the page tables of all these
//! processes have. It was used if any of them has used it.
//!
//! ```text
//!   the processes of the service now                 sweephand_process::group
//!   for each of them
//!       read     accessed, dirty, present            BPF, a table of 512 pages a call
//!       clear    all accessed bits                   1 into /proc/PID/clear_refs
//!       frames   of the pages in memory              /proc/PID/pagemap
//!   for each frame that is new                       /proc/kpageflags: shared memory? a file's?
//!   for each frame of a file                         BPF: which page of which file
//!   uses of files by system calls                    BPF, which has noted them meanwhile
//! ```
//!
//! `MADV_COLD`, which clears bits for the watch of one process (`look`), leaves pages alone that
//! several processes have mapped. `clear_refs` does not, but it clears the bits of all pages of a
//! process. So there is no sample: where a look costs too much, the looks are further apart.
//!
//! **From when on.** The bits of a process that has started since the look before, or that has
//! become another program since, are all of this epoch, because a new page table begins with clear
//! bits. Those of one that was there before and has come into the service are not: its first look
//! clears them, and the pages that only such processes have used count as unknown.
//!
//! **What can be missed.** From the reading of a process's bits to the clearing there are some
//! milliseconds for each GiB that it has in memory. A page used first in that time and not again in
//! the epoch is missed. The kernel clears bits without having the processors forget what they know
//! of the page table. A processor that goes on with the same few pages, and is never interrupted by
//! another process, may use a page without setting its bit again. A process that starts and ends
//! between two looks is not seen, nor are pages that a process has used and given back by then.
//! Pages of hugetlbfs have bits that nobody can clear: they count as unknown once they are used.
//!
//! **What is the same page.** A frame that is freed may get other contents. Of anonymous memory, a
//! frame holds the same page as long as it is mapped at the same address. A page that is swapped
//! out and comes back, or that the kernel moves to another frame, is a new one. A page of a file or
//! of shared memory is known by the file and its place in it, whether it is mapped or read, and
//! also while it is not in memory. It ends when the file is truncated or deleted. Where that cannot
//! be found out, a frame holds the same page until the kernel gives it to another use.
//!
//! | file | what it holds |
//! |---|---|
//! | `watching` | the watch: a look once a period, and what the looks come to |
//! | `member` | a process of the service: its bits are read and cleared |
//! | `files` | the pages of files, mapped or read, by number |
//! | `frames` | the frames of all processes, each once |
//! | `page_flags` | what the kernel says of frames |

mod files;
mod frames;
mod member;
mod page_flags;
mod watching;

pub use frames::Pages;
pub use member::MemberLook;
pub use watching::{ServiceChange, ServiceEpoch, ServiceLook, ServiceWatching, Unopened};
