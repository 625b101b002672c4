//! BPF programs of the type SYSCALL: a program is run by a system call, on an argument that it may
//! change. There are four. One reads kernel memory anywhere ([`peek`]), and only the command has
//! it, while it looks for page tables. The others walk a page table (`walk`): that of the caller,
//! for agents, or that of any process, for the command.

use rustix::fd::{FromRawFd, OwnedFd};
use std::io;
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, BorrowedFd};
use sweephand_pager_interface::accessed::{RUN_PROGRAM, RunProgram};

/// An instruction.
pub(super) type Instruction = [u8; 8];

// Registers. Calls keep R6 to R9.
pub(super) const R0: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R3: u8 = 3;
pub(super) const R4: u8 = 4;
pub(super) const R5: u8 = 5;
pub(super) const R6: u8 = 6;
pub(super) const R7: u8 = 7;
pub(super) const R8: u8 = 8;
pub(super) const R9: u8 = 9;
/// The end of the stack.
pub(super) const FRAME: u8 = 10;

// Functions of the kernel.
pub(super) const GET_CURRENT_TASK: i32 = 35;
const PROBE_READ_KERNEL: i32 = 113;

/// What the command asks when it looks for page tables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Peek {
    /// An address of the kernel. 0: the calling thread's `task_struct`.
    pub(super) address: u64,
    /// The calling thread's `task_struct`.
    pub(super) task: u64,
    /// Whether there was nothing to read.
    pub(super) failed: u64,
    /// What is there.
    pub(super) words: [u64; 8],
}

/// A program as text: instructions, and jumps to the end that are filled in when it is there.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) code: Vec<Instruction>,
    /// Instructions that jump to the failure at the end.
    failures: Vec<usize>,
}

impl Assembler {
    pub(super) fn emit(&mut self, code: u8, (to, from): (u8, u8), offset: i16, number: i32) {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = number.to_le_bytes();
        self.code.push([code, from << 4 | to, low, high, a, b, c, d]);
    }

    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.emit(0xbf, (to, from), 0, 0);
    }

    pub(super) fn set(&mut self, to: u8, number: i32) {
        self.emit(0xb7, (to, 0), 0, number);
    }

    pub(super) fn set_wide(&mut self, to: u8, number: u64) {
        self.emit(0x18, (to, 0), 0, number as i32);
        self.emit(0, (0, 0), 0, (number >> 32) as i32);
    }

    pub(super) fn add(&mut self, to: u8, number: i32) {
        self.emit(0x07, (to, 0), 0, number);
    }

    pub(super) fn add_register(&mut self, to: u8, from: u8) {
        self.emit(0x0f, (to, from), 0, 0);
    }

    pub(super) fn and(&mut self, to: u8, number: i32) {
        self.emit(0x57, (to, 0), 0, number);
    }

    pub(super) fn and_register(&mut self, to: u8, from: u8) {
        self.emit(0x5f, (to, from), 0, 0);
    }

    pub(super) fn or_register(&mut self, to: u8, from: u8) {
        self.emit(0x4f, (to, from), 0, 0);
    }

    pub(super) fn shift_left(&mut self, to: u8, bits: i32) {
        self.emit(0x67, (to, 0), 0, bits);
    }

    pub(super) fn shift_right(&mut self, to: u8, bits: i32) {
        self.emit(0x77, (to, 0), 0, bits);
    }

    pub(super) fn load(&mut self, to: u8, from: u8, offset: i16) {
        self.emit(0x79, (to, from), offset, 0);
    }

    pub(super) fn store(&mut self, to: u8, offset: i16, from: u8) {
        self.emit(0x7b, (to, from), offset, 0);
    }

    /// Stores the lower half of a register.
    pub(super) fn store_half(&mut self, to: u8, offset: i16, from: u8) {
        self.emit(0x63, (to, from), offset, 0);
    }

    pub(super) fn subtract_register(&mut self, to: u8, from: u8) {
        self.emit(0x1f, (to, from), 0, 0);
    }

    pub(super) fn call(&mut self, function: i32) {
        self.emit(0x85, (0, 0), 0, function);
    }

    /// Calls a function of the kernel that BTF has this number for.
    pub(super) fn call_kernel(&mut self, function: u32) {
        const KERNEL_FUNCTION: u8 = 2;
        self.emit(0x85, (0, KERNEL_FUNCTION), 0, function as i32);
    }

    pub(super) fn exit(&mut self) {
        self.emit(0x95, (0, 0), 0, 0);
    }

    /// Jumps to the failure at the end if R0 is not 0.
    pub(super) fn fail_on_error(&mut self) {
        self.failures.push(self.code.len());
        self.emit(0x55, (R0, 0), 0, 0);
    }

    /// Jumps to the failure at the end if a register is 0.
    pub(super) fn fail_if_zero(&mut self, register: u8) {
        self.failures.push(self.code.len());
        self.emit(0x15, (register, 0), 0, 0);
    }

    /// Reads kernel memory, at the address in R3, to the stack.
    pub(super) fn read(&mut self, stack: i16, bytes: i32) {
        self.copy(R1, FRAME);
        self.add(R1, stack.into());
        self.set(R2, bytes);
        self.call(PROBE_READ_KERNEL);
    }

    /// Begins a branch that is taken if the lowest bit of a register is 0. Returns it for
    /// [`Self::ends_here`].
    pub(super) fn skip_unless_odd(&mut self, register: u8) -> usize {
        self.copy(R1, register);
        self.and(R1, 1);
        let branch = self.code.len();
        self.emit(0x15, (R1, 0), 0, 0);
        branch
    }

    /// Begins a branch that is always taken. Returns it for [`Self::ends_here`].
    pub(super) fn jump(&mut self) -> usize {
        let branch = self.code.len();
        self.emit(0x05, (0, 0), 0, 0);
        branch
    }

    /// The branch leads to the next instruction.
    pub(super) fn ends_here(&mut self, branch: usize) {
        let distance = (self.code.len() - branch - 1) as i16;
        self.code[branch][2..4].copy_from_slice(&distance.to_le_bytes());
    }

    /// The program, whose failures return 1.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
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
pub(super) fn peek() -> Vec<Instruction> {
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

/// A program that the kernel has accepted.
#[derive(Debug)]
pub(super) struct Program(OwnedFd);

impl Program {
    pub(super) fn load(code: &[Instruction]) -> io::Result<Self> {
        let argument = LoadArgument {
            prog_type: BPF_PROG_TYPE_SYSCALL,
            insn_cnt: code.len() as u32,
            insns: code.as_ptr() as u64,
            // The function that reads kernel memory is for programs under a licence that is
            // compatible with the GPL, as MIT is.
            license: c"Dual MIT/GPL".as_ptr() as u64,
            prog_flags: BPF_F_SLEEPABLE,
            ..LoadArgument::default()
        };
        let size = size_of::<LoadArgument>();
        // SAFETY: the kernel reads the argument and what it points to.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const argument, size) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us. It is closed on exec.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Runs the program in this thread, on an argument that it may change.
    pub(super) fn run<T: Copy>(&self, argument: &mut T) -> io::Result<()> {
        let mut run = RunProgram::new(self.0.as_raw_fd(), argument);
        let size = size_of::<RunProgram>();
        // SAFETY: the kernel copies the argument in and out, and nothing else.
        if unsafe { libc::syscall(libc::SYS_bpf, RUN_PROGRAM, &raw mut run, size) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if run.has_failed() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
