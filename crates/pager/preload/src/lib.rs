//! The shared library that `sweephand run` has preloaded: the agent, and what a library without std has to bring along.
#![no_std]

use core::arch::global_asm;
use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;
use sweephand_agent::own::Arena;
use sweephand_agent::{failure, start};

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
