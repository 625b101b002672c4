//! What a filter of system calls refuses a program that runs with a memfd: direct I/O, and bare calls of `madvise`.
//!
//! A page that a device writes to cannot be told from others. Punched out of the file it would be evicted with what it held
//! before the device was done. So while a program runs with a memfd, the kernel refuses it what such transfers begin
//! with, by a filter of system calls: files opened with `O_DIRECT` (`EINVAL`, as file systems say
//! that cannot do it), and io_uring (`ENOSYS`, as kernels say that have none), whose registered
//! buffers are pinned for good. `openat2`, whose flags a filter cannot see, is not there either.
//! Programs know all three answers, and do without. Memory cannot be given to network devices
//! (`AF_XDP`, RDMA) or to devices that a program drives by itself (VFIO, iommufd).
//!
//! `madvise` that would drop contents is refused (`EINVAL`) where it does not come through the C library's function, which
//! the agent has taken over: of shared memory the kernel would drop nothing.
//!
//! The filter holds for all threads and children, as the backend does. The pager's own calls are told from the
//! program's by a number in an argument that the kernel does not look at. What it cannot see: files that were opened so
//! before the program began, and drivers that write to a program's memory by ways of their own (graphics).

use crate::failure::give_up;
use crate::hooks::call;
use core::ffi::c_void;
use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The pager's calls have this for their fifth argument.
const PASS: u32 = 0x7377_6864;
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

/// What an argument of a system call must be for a rule to hold; of its low word.
#[derive(Clone, Copy)]
enum Test {
    Is(u32),
    IsNot(u32),
    HasBit(u32),
}

/// A rule: the system call of this number, with arguments like these, ends with this error.
type Rule = (u32, &'static [(u32, Test)], Errno);

const PROGRAMS: (u32, Test) = (4, Test::IsNot(PASS));
/// A socket's option that gives memory to a network device.
const SOL_XDP: u32 = 283;
const XDP_UMEM_REG: u32 = 4;
/// What gives memory to devices: for RDMA, to VFIO's, and to iommufd's.
const RDMA_VERBS_IOCTL: u32 = 0xc018_1b01;
const VFIO_IOMMU_MAP_DMA: u32 = 0x3b71;
const IOMMU_IOAS_MAP: u32 = 0x3b85;
const RULES: [Rule; 19] = [
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_DONTNEED)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_FREE)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_REMOVE)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_GUARD_INSTALL)), PROGRAMS], Errno::INVAL),
    (raw::__NR_madvise, &[(2, Test::Is(raw::MADV_GUARD_REMOVE)), PROGRAMS], Errno::INVAL),
    (raw::__NR_process_madvise, &[(3, Test::Is(raw::MADV_DONTNEED))], Errno::INVAL),
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
/// Where the kernel shows the number of the call, the processor, and the arguments, of two words each.
const NUMBER_AT: u32 = 0;
const PROCESSOR_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

fn step(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

/// Instructions of the filter, of which there are 113.
const MOST_INSTRUCTIONS: usize = 128;

/// A filter in the making. Not on the heap: that is the agent's, who runs already.
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

/// The rules, one after another; what none of them is about is allowed.
fn filter() -> Filter {
    let mut filter = Filter { instructions: [step(ANSWER, ALLOW); MOST_INSTRUCTIONS], length: 0 };
    filter.push(step(LOAD, PROCESSOR_AT));
    filter.push(Instruction { if_true: 1, ..step(IF_EQUAL, ARCHITECTURE) });
    filter.push(step(ANSWER, ALLOW));
    for (number, tests, error) in RULES {
        // Behind each test come those that follow, two steps each, and the answer.
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

/// Makes the filter that is described above, for this thread and those that it will start.
pub(crate) fn refuse_unseen() {
    let filter = filter();
    if probe() == Errno::INVAL {
        // There is one already, from before this program was executed.
        return;
    }
    let program = Program { length: filter.length as u16, instructions: filter.instructions.as_ptr() };
    let arguments = [OPERATION_SET_FILTER, 0, &raw const program as usize, 0, 0, 0];
    // SAFETY: the kernel copies the program, which is well formed.
    let mut result = unsafe { call(raw::__NR_seccomp, arguments) };
    if result == -(Errno::ACCESS.raw_os_error() as isize) {
        // Without privileges a filter is for those who give up gaining any.
        // SAFETY: a setting of the process.
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

/// How the kernel refuses to open a file of no name for direct I/O.
fn probe() -> Errno {
    rustix::fs::open(c"", OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).err().unwrap_or(Errno::EXIST)
}

/// `madvise` by the pager itself, or on behalf of the program. Returns the system call's answer.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn advise(start: usize, length: usize, advice: u32) -> isize {
    // SAFETY: as the caller promises.
    unsafe { call(raw::__NR_madvise, [start, length, advice as usize, 0, PASS as usize, 0]) }
}

/// Opens a directory, or a file without a name in it, for direct I/O, for the pager itself.
pub(crate) fn open_direct(directory: BorrowedFd<'_>, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = (flags | OFlags::DIRECT).bits() as usize;
    let arguments = [
        directory.as_raw_fd() as usize,
        c".".as_ptr() as usize,
        flags,
        mode.bits() as usize,
        PASS as usize,
        0,
    ];
    // SAFETY: a path that ends with a zero.
    let result = unsafe { call(raw::__NR_openat, arguments) };
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result as i32));
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Makes an io_uring, for the pager itself.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn ring_setup(entries: u32, params: *mut c_void) -> Result<OwnedFd, Errno> {
    let arguments = [entries as usize, params as usize, 0, 0, PASS as usize, 0];
    // SAFETY: as the caller promises.
    let result = unsafe { call(raw::__NR_io_uring_setup, arguments) };
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result as i32));
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
