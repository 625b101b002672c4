//! The shared library that `sweephand run` preloads: the agent, and the parts that a library
//! without std needs.
#![no_std]

use core::arch::{global_asm, naked_asm};
use core::ffi::{CStr, c_char, c_int};
use core::panic::PanicInfo;
use core::sync::atomic::AtomicUsize;
use sweephand_agent::process::own::Arena;
use sweephand_agent::process::credentials::changed_by;
use sweephand_agent::process::rlimits::prlimit_of_c;
use sweephand_agent::entry::{fork, interpose, start};
use sweephand_agent::process::failure;

#[global_allocator]
static ARENA: Arena = Arena::new();

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    failure::abort(format_args!("the pager has failed, and the program was ended with it: {info}"))
}

// Where the linker put this library.
unsafe extern "C" {
    static __ehdr_start: u8;
    static _end: u8;
}

/// Called by the dynamic linker before `main`, as C libraries pass the arguments on.
extern "C" fn initialize(
    _: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    let library = (&raw const __ehdr_start as usize, &raw const _end as usize);
    // SAFETY: called once, with the process's strings, before the program's own code.
    unsafe { start::begin(arguments, environment, library) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALIZE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = initialize;

/// Functions of the program's own, in place of the C library's of these names. What fits a register
/// is passed on as it is.
macro_rules! instead {
    ($($name:ident($($argument:ident),*) => $function:expr;)*) => {$(
        /// Ours, in place of the C library's.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: usize),*) -> isize {
            // SAFETY: as the caller promises.
            unsafe { $function }
        }
    )*};
}

instead! {
    prctl(a, b, c, d, e) => interpose::prctl(a, b, c, d, e);
    _Fork() => fork::hook_fork() as isize;
    clone(a, b, c, d, e, f, g) => fork::clone(a, b, c, d, e, f, g);
    pthread_create(a, b, c, d) => interpose::thread_create(a, b, c, d);
    pthread_mutex_init(a, b) => interpose::mutex_init(a, b);
    pthread_mutex_destroy(a) => interpose::mutex_destroy(a);
    setuid(a) => changed_by(c"setuid", [a, 0, 0]);
    setgid(a) => changed_by(c"setgid", [a, 0, 0]);
    seteuid(a) => changed_by(c"seteuid", [a, 0, 0]);
    setegid(a) => changed_by(c"setegid", [a, 0, 0]);
    setreuid(a, b) => changed_by(c"setreuid", [a, b, 0]);
    setregid(a, b) => changed_by(c"setregid", [a, b, 0]);
    setresuid(a, b, c) => changed_by(c"setresuid", [a, b, c]);
    setresgid(a, b, c) => changed_by(c"setresgid", [a, b, c]);
    setgroups(a, b) => changed_by(c"setgroups", [a, b, 0]);
    initgroups(a, b) => changed_by(c"initgroups", [a, b, 0]);
    capset(a, b) => changed_by(c"capset", [a, b, 0]);
    getrlimit(a, b) => prlimit_of_c(0, a as u32, 0, b);
    getrlimit64(a, b) => prlimit_of_c(0, a as u32, 0, b);
    setrlimit(a, b) => prlimit_of_c(0, a as u32, b, 0);
    setrlimit64(a, b) => prlimit_of_c(0, a as u32, b, 0);
    prlimit(a, b, c, d) => prlimit_of_c(a as u32, b as u32, c, d);
    prlimit64(a, b, c, d) => prlimit_of_c(a as u32, b as u32, c, d);
}

/// A system call whose number and arguments are in their registers, and the return of a C function
/// with its result.
macro_rules! system_call {
    () => {
        "syscall
        cmp rax, -4095
        jae 3f
        ret
        3:
        mov rdi, rax
        jmp {c_result}"
    };
}

/// `syscall`, in place of the C library's: most system calls are made here as they are made there,
/// with the caller's stack and nothing on it. (Some make a thread that continues with another.)
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn syscall() {
    naked_asm!(
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
        system_call!(),
        seen = sym interpose::SEEN,
        system_call = sym interpose::system_call,
        c_result = sym interpose::c_result,
    );
}

/// `ioctl`, in place of the C library's. Those about userfaultfds are seen to by the agent.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn ioctl() {
    naked_asm!(
        "mov eax, esi",
        "cmp ah, 0xaa",
        "je {of_userfaultfd}",
        "mov eax, 16",
        system_call!(),
        of_userfaultfd = sym interpose::ioctl,
        c_result = sym interpose::c_result,
    );
}

/// A function of the C library's, looked up when it is first called.
#[repr(C)]
struct Found {
    address: AtomicUsize,
    name: &'static CStr,
}

/// Functions that transfer files, in place of the C library's: they call those, and hand to the
/// agent what has failed or stopped early. A thread may be cancelled in such a call, which unwinds
/// its stack, so the frame is described.
macro_rules! transfers {
    ($($name:ident $found:ident $text:literal $number:literal;)*) => {$(
        static $found: Found = Found { address: AtomicUsize::new(0), name: $text };

        /// Ours, in place of the C library's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 56",
                ".cfi_adjust_cfa_offset 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov rax, [rip + {found}]",
                "test rax, rax",
                "jnz 2f",
                "mov [rsp + 32], r8",
                "mov rdi, [rip + {found} + 8]",
                "call {find}",
                "mov [rip + {found}], rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "2:",
                "call rax",
                "cmp rax, [rsp + 16]",
                "je 3f",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                concat!("mov r8d, ", $number),
                "mov r9, rax",
                "call {after_transfer}",
                "3:",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                found = sym $found,
                find = sym interpose::find,
                after_transfer = sym interpose::after_transfer,
            );
        }
    )*};
}

transfers! {
    read READ c"read" 0;
    write WRITE c"write" 1;
    pread PREAD c"pread" 17;
    pread64 PREAD64 c"pread64" 17;
    pwrite PWRITE c"pwrite" 18;
    pwrite64 PWRITE64 c"pwrite64" 18;
    readv READV c"readv" 19;
    writev WRITEV c"writev" 20;
    preadv PREADV c"preadv" 295;
    preadv64 PREADV64 c"preadv64" 295;
    pwritev PWRITEV c"pwritev" 296;
    pwritev64 PWRITEV64 c"pwritev64" 296;
    __read_chk READ_CHK c"__read_chk" 0;
    __pread_chk PREAD_CHK c"__pread_chk" 17;
    __pread64_chk PREAD64_CHK c"__pread64_chk" 17;
}

// The compiler calls these. The C library's would do, but for what they read before they copy:
// variables in memory that is paged. Hidden, so that the program keeps its own.
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
