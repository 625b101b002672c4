//! BPF programs. Those of the type SYSCALL are run by a system call, on an argument that they may
//! change. One reads kernel memory anywhere ([`peek`]), and only the command has it. Others walk a
//! page table (`walk`): that of the caller, for agents, or that of any process, for the command.
//! Programs of the type RAW_TRACEPOINT run when the kernel comes to a tracepoint
//! (`crate::file_uses`).

use rustix::fd::{FromRawFd, OwnedFd};
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, BorrowedFd};
use sweephand_pager_interface::accessed::{RUN_PROGRAM, RunProgram};

/// An instruction.
pub(crate) type Instruction = [u8; 8];

// Registers. Calls keep R6 to R9.
pub(crate) const R0: u8 = 0;
pub(crate) const R1: u8 = 1;
pub(crate) const R2: u8 = 2;
pub(crate) const R3: u8 = 3;
pub(crate) const R4: u8 = 4;
pub(crate) const R5: u8 = 5;
pub(crate) const R6: u8 = 6;
pub(crate) const R7: u8 = 7;
pub(crate) const R8: u8 = 8;
pub(crate) const R9: u8 = 9;
/// The end of the stack.
pub(crate) const FRAME: u8 = 10;

// Functions of the kernel.
pub(crate) const GET_CURRENT_TASK: i32 = 35;
const PROBE_READ_KERNEL: i32 = 113;

/// What the command asks when it looks for page tables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Peek {
    /// An address of the kernel. 0: the calling thread's `task_struct`.
    pub(crate) address: u64,
    /// The calling thread's `task_struct`.
    pub(crate) task: u64,
    /// Whether there was nothing to read.
    pub(crate) failed: u64,
    /// What is there.
    pub(crate) words: [u64; 8],
}

/// A program as text: instructions, and jumps to the end that are filled in when it is there.
#[derive(Default)]
pub(crate) struct Assembler {
    pub(crate) code: Vec<Instruction>,
    /// Instructions that jump to the failure at the end.
    failures: Vec<usize>,
}

impl Assembler {
    pub(crate) fn emit(&mut self, code: u8, (to, from): (u8, u8), offset: i16, number: i32) {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = number.to_le_bytes();
        self.code.push([code, from << 4 | to, low, high, a, b, c, d]);
    }

    pub(crate) fn copy(&mut self, to: u8, from: u8) {
        self.emit(0xbf, (to, from), 0, 0);
    }

    pub(crate) fn set(&mut self, to: u8, number: i32) {
        self.emit(0xb7, (to, 0), 0, number);
    }

    pub(crate) fn set_wide(&mut self, to: u8, number: u64) {
        self.emit(0x18, (to, 0), 0, number as i32);
        self.emit(0, (0, 0), 0, (number >> 32) as i32);
    }

    pub(crate) fn add(&mut self, to: u8, number: i32) {
        self.emit(0x07, (to, 0), 0, number);
    }

    pub(crate) fn add_register(&mut self, to: u8, from: u8) {
        self.emit(0x0f, (to, from), 0, 0);
    }

    pub(crate) fn and(&mut self, to: u8, number: i32) {
        self.emit(0x57, (to, 0), 0, number);
    }

    pub(crate) fn and_register(&mut self, to: u8, from: u8) {
        self.emit(0x5f, (to, from), 0, 0);
    }

    pub(crate) fn or_register(&mut self, to: u8, from: u8) {
        self.emit(0x4f, (to, from), 0, 0);
    }

    pub(crate) fn shift_left(&mut self, to: u8, bits: i32) {
        self.emit(0x67, (to, 0), 0, bits);
    }

    pub(crate) fn shift_right(&mut self, to: u8, bits: i32) {
        self.emit(0x77, (to, 0), 0, bits);
    }

    pub(crate) fn load(&mut self, to: u8, from: u8, offset: i16) {
        self.emit(0x79, (to, from), offset, 0);
    }

    pub(crate) fn store(&mut self, to: u8, offset: i16, from: u8) {
        self.emit(0x7b, (to, from), offset, 0);
    }

    /// Stores the lower half of a register.
    pub(crate) fn store_half(&mut self, to: u8, offset: i16, from: u8) {
        self.emit(0x63, (to, from), offset, 0);
    }

    pub(crate) fn subtract_register(&mut self, to: u8, from: u8) {
        self.emit(0x1f, (to, from), 0, 0);
    }

    pub(crate) fn or(&mut self, to: u8, number: i32) {
        self.emit(0x47, (to, 0), 0, number);
    }

    pub(crate) fn exclusive_or_register(&mut self, to: u8, from: u8) {
        self.emit(0xaf, (to, from), 0, 0);
    }

    pub(crate) fn shift_left_register(&mut self, to: u8, bits: u8) {
        self.emit(0x6f, (to, bits), 0, 0);
    }

    pub(crate) fn shift_right_register(&mut self, to: u8, bits: u8) {
        self.emit(0x7f, (to, bits), 0, 0);
    }

    /// Loads four bytes.
    pub(crate) fn load_half(&mut self, to: u8, from: u8, offset: i16) {
        self.emit(0x61, (to, from), offset, 0);
    }

    /// Sets bits of a word in memory, in one step for all processors.
    pub(crate) fn set_bits(&mut self, to: u8, offset: i16, from: u8) {
        const OR: i32 = 0x40;
        self.emit(0xdb, (to, from), offset, OR);
    }

    /// The address of a map, by its descriptor.
    pub(crate) fn map(&mut self, to: u8, map: i32) {
        const MAP_DESCRIPTOR: u8 = 1;
        self.emit(0x18, (to, MAP_DESCRIPTOR), 0, map);
        self.emit(0, (0, 0), 0, 0);
    }

    pub(crate) fn call(&mut self, function: i32) {
        self.emit(0x85, (0, 0), 0, function);
    }

    /// Calls a function of the kernel that BTF has this number for.
    pub(crate) fn call_kernel(&mut self, function: u32) {
        const KERNEL_FUNCTION: u8 = 2;
        self.emit(0x85, (0, KERNEL_FUNCTION), 0, function as i32);
    }

    pub(crate) fn exit(&mut self) {
        self.emit(0x95, (0, 0), 0, 0);
    }

    /// The end of a program for a tracepoint: all return 0.
    pub(crate) fn return_nothing(&mut self) {
        self.set(R0, 0);
        self.exit();
    }

    /// Jumps to the failure at the end if R0 is not 0.
    pub(crate) fn fail_on_error(&mut self) {
        self.failures.push(self.code.len());
        self.emit(0x55, (R0, 0), 0, 0);
    }

    /// Jumps to the failure at the end if a register is 0.
    pub(crate) fn fail_if_zero(&mut self, register: u8) {
        self.failures.push(self.code.len());
        self.emit(0x15, (register, 0), 0, 0);
    }

    /// Reads kernel memory, at the address in R3, to the stack.
    pub(crate) fn read(&mut self, stack: i16, bytes: i32) {
        self.copy(R1, FRAME);
        self.add(R1, stack.into());
        self.set(R2, bytes);
        self.call(PROBE_READ_KERNEL);
    }

    /// Begins a branch that is taken if the lowest bit of a register is 0. Returns it for
    /// [`Self::ends_here`].
    pub(crate) fn skip_unless_odd(&mut self, register: u8) -> usize {
        self.copy(R1, register);
        self.and(R1, 1);
        let branch = self.code.len();
        self.emit(0x15, (R1, 0), 0, 0);
        branch
    }

    /// Begins a branch that is always taken. Returns it for [`Self::ends_here`].
    pub(crate) fn jump(&mut self) -> usize {
        let branch = self.code.len();
        self.emit(0x05, (0, 0), 0, 0);
        branch
    }

    /// Begins a branch that is taken if a comparison with a number holds: an instruction of the
    /// class JMP. Returns it for [`Self::ends_here`].
    pub(crate) fn branch(&mut self, code: u8, register: u8, number: i32) -> usize {
        let branch = self.code.len();
        self.emit(code, (register, 0), 0, number);
        branch
    }

    /// Begins a branch that is taken if a comparison of two registers holds.
    pub(crate) fn branch_registers(&mut self, code: u8, register: u8, other: u8) -> usize {
        let branch = self.code.len();
        self.emit(code, (register, other), 0, 0);
        branch
    }

    /// Begins a branch that the kernel takes when a loop has lasted too long.
    pub(crate) fn leave_long_loop(&mut self) -> usize {
        self.branch(0xe5, 0, 0)
    }

    /// Jumps back to an instruction.
    pub(crate) fn jump_back(&mut self, to: usize) {
        let distance = to as i64 - self.code.len() as i64 - 1;
        self.emit(0x05, (0, 0), distance as i16, 0);
    }

    /// The branch leads to the next instruction.
    pub(crate) fn ends_here(&mut self, branch: usize) {
        let distance = (self.code.len() - branch - 1) as i16;
        self.code[branch][2..4].copy_from_slice(&distance.to_le_bytes());
    }

    /// The program, whose failures return 1.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        self.set(R0, 0);
        self.exit();
        for branch in std::mem::take(&mut self.failures) {
            self.ends_here(branch);
        }
        self.set(R0, 1);
        self.exit();
        self.code
    }
}

/// The program that reads kernel memory.
pub(crate) fn peek() -> Vec<Instruction> {
    const WORDS: usize = 8;
    const STACK: i16 = -8 * WORDS as i16;
    let at = |offset: usize| offset as i16;
    let mut code = Assembler::default();
    code.copy(R6, R1);
    code.call(GET_CURRENT_TASK);
    code.store(R6, at(core::mem::offset_of!(Peek, task)), R0);
    code.load(R3, R6, at(core::mem::offset_of!(Peek, address)));
    code.read(STACK, 8 * WORDS as i32);
    code.fail_on_error();
    for word in 0..WORDS {
        code.load(R1, FRAME, STACK + at(8 * word));
        code.store(R6, at(core::mem::offset_of!(Peek, words) + 8 * word), R1);
    }
    code.finish()
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_PROG_TYPE_SYSCALL: u32 = 31;
const BPF_F_SLEEPABLE: u32 = 1 << 4;

/// The argument of `BPF_PROG_LOAD`, as far as it is needed.
#[repr(C)]
#[derive(Default)]
struct LoadArgument {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// Calls `bpf`. Returns what it does: a descriptor, if it makes one.
///
/// # Safety
/// The argument is that of the call with this number, and its pointers are to memory that is large
/// enough for what the kernel reads and writes there.
pub(crate) unsafe fn bpf<T>(number: libc::c_long, argument: &mut T) -> io::Result<i32> {
    // SAFETY: as the caller says.
    match unsafe { libc::syscall(libc::SYS_bpf, number, &raw mut *argument, size_of::<T>()) } {
        failed if failed < 0 => Err(io::Error::last_os_error()),
        returned => Ok(returned as i32),
    }
}

/// The same for a call that makes a descriptor.
///
/// # Safety
/// That of [`bpf`], and the call makes a descriptor.
pub(crate) unsafe fn bpf_descriptor<T>(number: libc::c_long, argument: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller says. The descriptor is new, and closed on exec.
    unsafe { bpf(number, argument).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// A program that the kernel has accepted.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads a program that is run by a system call.
    pub(crate) fn load(code: &[Instruction]) -> io::Result<Self> {
        let how = LoadArgument {
            prog_type: BPF_PROG_TYPE_SYSCALL,
            prog_flags: BPF_F_SLEEPABLE,
            ..LoadArgument::default()
        };
        Self::load_as(how, code)
    }

    /// Loads a program that runs at a tracepoint, once it is attached.
    pub(crate) fn load_for_tracepoint(code: &[Instruction]) -> io::Result<Self> {
        Self::load_as(
            LoadArgument { prog_type: BPF_PROG_TYPE_RAW_TRACEPOINT, ..LoadArgument::default() },
            code,
        )
    }

    fn load_as(how: LoadArgument, code: &[Instruction]) -> io::Result<Self> {
        let mut argument = LoadArgument {
            insn_cnt: code.len() as u32,
            insns: code.as_ptr() as u64,
            // The function that reads kernel memory is for programs under a licence that is
            // compatible with the GPL, as MIT is.
            license: c"Dual MIT/GPL".as_ptr() as u64,
            ..how
        };
        // SAFETY: the kernel reads the argument and what it points to.
        unsafe { bpf_descriptor(BPF_PROG_LOAD, &mut argument) }.map(Self)
    }

    /// Has the program run at a tracepoint from now on, until the descriptor is closed.
    pub(crate) fn attach(&self, tracepoint: &str) -> io::Result<OwnedFd> {
        /// The argument of `BPF_RAW_TRACEPOINT_OPEN`.
        #[repr(C)]
        struct AttachArgument {
            name: u64,
            program: u64,
        }
        let name = CString::new(tracepoint)?;
        let mut argument = AttachArgument { name: name.as_ptr() as u64, program: self.0.as_raw_fd() as u64 };
        // SAFETY: the kernel reads the argument and the name.
        unsafe { bpf_descriptor(BPF_RAW_TRACEPOINT_OPEN, &mut argument) }
    }

    /// Runs the program in this thread, on an argument that it may change.
    pub(crate) fn run<T: Copy>(&self, argument: &mut T) -> io::Result<()> {
        let mut run = RunProgram::new(self.0.as_raw_fd(), argument);
        // SAFETY: the kernel copies the argument in and out, and nothing else.
        unsafe { bpf(RUN_PROGRAM as libc::c_long, &mut run) }?;
        if run.has_failed() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
