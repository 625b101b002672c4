//! The shared library that `sweephand run` has preloaded: the agent, and what a library without std has to bring along.
#![no_std]

use core::arch::global_asm;
use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;
use sweephand_agent::own::Arena;
use sweephand_agent::{failure, interpose, start};

#[global_allocator]
static ARENA: Arena = Arena::new();

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    failure::give_up(format_args!("the pager has failed, and the program was ended with it: {info}"))
}

// Where the linker put this library.
unsafe extern "C" {
    static __ehdr_start: u8;
    static _end: u8;
}

/// Called by the dynamic linker before `main`, as C libraries pass the arguments on.
extern "C" fn initialize(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    let library = (&raw const __ehdr_start as usize, &raw const _end as usize);
    // SAFETY: called once, with the environment, before the program's own code.
    unsafe { start::begin(environment, library) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALIZE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = initialize;

/// The program's, in place of the C library's.
///
/// # Safety
/// As the system call asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { interpose::prctl(option, second, third, fourth, fifth) }
}

// `syscall`, in place of the C library's: most system calls are made here as they are made there, with
// the caller's stack and nothing on it. (Some make a thread that goes on with another.)
global_asm!(
    ".globl syscall",
    ".type syscall, @function",
    "syscall:",
    "mov rax, rdi",
    "cmp rax, 512",
    "jae 2f",
    "lea r11, [rip + {seen}]",
    "bt qword ptr [r11], rax",
    "jc {system_call}",
    "2:",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "cmp rax, -4095",
    "jae 3f",
    "ret",
    "3:",
    "mov rdi, rax",
    "jmp {c_result}",
    seen = sym interpose::SEEN,
    system_call = sym interpose::system_call,
    c_result = sym interpose::c_result,
);

// The compiler calls these. The C library's would do, but for what they read before they copy: variables in memory that
// is paged. Hidden, so that the program keeps its own.
global_asm!(
    ".macro own name",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    "\\name:",
    ".endm",
    "own memcpy",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "own memmove",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    // The target begins within the source: from the end.
    "2:",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "own memset",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "own bcmp",
    "own memcmp",
    "xor eax, eax",
    "mov rcx, rdx",
    // With nothing to compare the flags say equal.
    "test eax, eax",
    "repe cmpsb",
    "je 3f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub ecx, eax",
    "mov eax, ecx",
    "3:",
    "ret",
    "own strlen",
    "xor eax, eax",
    "4:",
    "cmp byte ptr [rdi + rax], 0",
    "je 5f",
    "inc rax",
    "jmp 4b",
    "5:",
    "ret",
    // Nothing unwinds here; precompiled parts of core name these all the same.
    "own rust_eh_personality",
    "own _Unwind_Resume",
    "ud2",
);
