//! The filter of system calls for a program that runs with a memfd. It refuses direct I/O and bare
//! calls of `madvise`.
//!
//! The agent cannot know whether a device is writing to a page. If it punched such a page out of
//! the file, the page would be evicted with its contents from before the transfer. So the filter
//! refuses the calls that such transfers begin with:
//!
//! - opening a file with `O_DIRECT` (`EINVAL`, as on a file system that does not support it);
//! - `io_uring_setup` (`ENOSYS`, as on a kernel without it), because its registered buffers are
//!   pinned for good;
//! - `openat2` (`ENOSYS`), because a filter cannot see its flags;
//! - giving memory to network devices (`AF_XDP`, RDMA) or to devices that a program drives itself
//!   (VFIO, iommufd).
//!
//! Programs know the first three answers and go on without these calls.
//!
//! The filter also refuses an `madvise` that would drop contents, or that is about guards
//! (`EINVAL`), unless it comes through the C library's function, which the agent has replaced. The
//! kernel would drop nothing of shared memory.
//!
//! The filter holds for all threads and children, as the backend does. It recognises the pager's
//! own calls by a number in an argument that the kernel ignores. It cannot see files that were
//! opened for direct I/O before the program began, nor drivers that write to a program's memory by
//! other ways (graphics).

use crate::failure::give_up;
use crate::syscall::{PASS, call};
use linux_raw_sys::general as raw;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const OPERATION_SET_FILTER: usize = 1;
const ARCHITECTURE: u32 = 0xc000_003e;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;

/// An instruction of the kernel's filter machine.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// A condition on the low word of an argument.
#[derive(Clone, Copy)]
enum Test {
    Is(u32),
    IsNot(u32),
    HasBit(u32),
}

/// A rule: the system call with this number fails with this error if its arguments meet the
/// conditions.
type Rule = (u32, &'static [(u32, Test)], Errno);

const PROGRAMS: (u32, Test) = (4, Test::IsNot(PASS));
/// A socket's option that gives memory to a network device.
const SOL_XDP: u32 = 283;
const XDP_UMEM_REG: u32 = 4;
/// The calls of `ioctl` that give memory to devices: for RDMA, VFIO and iommufd.
const RDMA_VERBS_IOCTL: u32 = 0xc018_1b01;
const VFIO_IOMMU_MAP_DMA: u32 = 0x3b71;
const IOMMU_IOAS_MAP: u32 = 0x3b85;
const RULES: [Rule; 21] = [
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_DONTNEED)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_DONTNEED_LOCKED)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_FREE)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_REMOVE)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_GUARD_INSTALL)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_GUARD_REMOVE)), PROGRAMS], Errno::INVAL),
    (raw::__NR_process_madvise, &[(3, Test::Is(raw::MADV_DONTNEED))], Errno::INVAL),
    (raw::__NR_process_madvise, &[(3, Test::Is(raw::MADV_DONTNEED_LOCKED))], Errno::INVAL),
    (raw::__NR_process_madvise, &[(3, Test::Is(raw::MADV_FREE))], Errno::INVAL),
    (raw::__NR_process_madvise, &[(3, Test::Is(raw::MADV_GUARD_INSTALL))], Errno::INVAL),
    (raw::__NR_process_madvise, &[(3, Test::Is(raw::MADV_GUARD_REMOVE))], Errno::INVAL),
    (raw::__NR_open, &[(1, Test::HasBit(raw::O_DIRECT))], Errno::INVAL),
    (raw::__NR_openat, &[(2, Test::HasBit(raw::O_DIRECT)), PROGRAMS], Errno::INVAL),
    (raw::__NR_open_by_handle_at, &[(2, Test::HasBit(raw::O_DIRECT))], Errno::INVAL),
    (raw::__NR_openat2, &[], Errno::NOSYS),
    (raw::__NR_fcntl, &[(1, Test::Is(raw::F_SETFL)), (2, Test::HasBit(raw::O_DIRECT))], Errno::INVAL),
    (raw::__NR_io_uring_setup, &[PROGRAMS], Errno::NOSYS),
    (raw::__NR_setsockopt, &[(1, Test::Is(SOL_XDP)), (2, Test::Is(XDP_UMEM_REG))], Errno::NOPROTOOPT),
    (raw::__NR_ioctl, &[(1, Test::Is(RDMA_VERBS_IOCTL))], Errno::NOTTY),
    (raw::__NR_ioctl, &[(1, Test::Is(VFIO_IOMMU_MAP_DMA))], Errno::NOTTY),
    (raw::__NR_ioctl, &[(1, Test::Is(IOMMU_IOAS_MAP))], Errno::NOTTY),
];

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_BIT: u16 = 0x45;
const ANSWER: u16 = 0x06;
/// Where the kernel puts the number of the call, the architecture, and the arguments (two words
/// each).
const NUMBER_AT: u32 = 0;
const PROCESSOR_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

fn step(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

/// The most instructions. The filter has 125.
const MOST_INSTRUCTIONS: usize = 128;

/// A filter under construction. It is not on the heap, because the heap belongs to the agent, which
/// already runs.
struct Filter {
    instructions: [Instruction; MOST_INSTRUCTIONS],
    length: usize,
}

impl Filter {
    fn push(&mut self, instruction: Instruction) {
        self.instructions[self.length] = instruction;
        self.length += 1;
    }
}

/// Builds the filter: the rules, one after another. A call that no rule covers is allowed.
fn filter() -> Filter {
    let mut filter = Filter { instructions: [step(ANSWER, ALLOW); MOST_INSTRUCTIONS], length: 0 };
    filter.push(step(LOAD, PROCESSOR_AT));
    filter.push(Instruction { if_true: 1, ..step(IF_EQUAL, ARCHITECTURE) });
    filter.push(step(ANSWER, ALLOW));
    for (number, tests, error) in RULES {
        // After each test come the remaining tests, two steps each, and the answer.
        let rest = |done: usize| (2 * (tests.len() - done) + 1) as u8;
        filter.push(step(LOAD, NUMBER_AT));
        filter.push(Instruction { if_false: rest(0), ..step(IF_EQUAL, number) });
        for (index, &(argument, test)) in tests.iter().enumerate() {
            let rest = rest(index + 1);
            filter.push(step(LOAD, ARGUMENTS_AT + 8 * argument));
            filter.push(match test {
                Test::Is(value) => Instruction { if_false: rest, ..step(IF_EQUAL, value) },
                Test::IsNot(value) => Instruction { if_true: rest, ..step(IF_EQUAL, value) },
                Test::HasBit(bit) => Instruction { if_false: rest, ..step(IF_BIT, bit) },
            });
        }
        filter.push(step(ANSWER, REFUSE | error.raw_os_error() as u32));
    }
    filter.push(step(ANSWER, ALLOW));
    filter
}

/// Installs the filter for this thread and those that it will start.
pub(crate) fn refuse_unseen() {
    let filter = filter();
    if probe() == Errno::INVAL {
        // The filter is already there, from before this program was executed.
        return;
    }
    let program = Program { length: filter.length as u16, instructions: filter.instructions.as_ptr() };
    let arguments = [OPERATION_SET_FILTER, 0, &raw const program as usize, 0, 0, 0];
    // SAFETY: the kernel copies the program, which is well formed.
    let mut result = unsafe { call(raw::__NR_seccomp, arguments) };
    if result == -(Errno::ACCESS.raw_os_error() as isize) {
        // A process without privileges may install a filter only if it gives up gaining any.
        // SAFETY: this is a setting of the process.
        let _ = rustix::thread::set_no_new_privs(true);
        // SAFETY: as above.
        result = unsafe { call(raw::__NR_seccomp, arguments) };
    }
    if result < 0 || probe() != Errno::INVAL {
        give_up(format_args!(
            "direct I/O into shared memory cannot be refused here ({}); run it with --backend anon",
            Errno::from_raw_os_error(-result as i32)
        ));
    }
}

/// How the kernel refuses to open a file with an empty name for direct I/O.
fn probe() -> Errno {
    rustix::fs::open(c"", OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).err().unwrap_or(Errno::EXIST)
}
