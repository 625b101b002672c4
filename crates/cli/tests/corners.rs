//! Programs that do what few programs do: under an agent they answer, print and end as without one.
//!
//! Each runs by itself first. What it prints and how it ends is what every pager has to bring
//! about.
//!
//! `programs/corners.c` and `programs/suites.c` were written after programs of other test suites
//! and after public bug reports. What each is after, and what it has shown (*mended*: it failed
//! once):
//!
//! | program | source | result |
//! |---|---|---|
//! | `strict`, `kill-thread` | kernel selftests, `seccomp_bpf` | mended: ended with status 0 |
//! | `leave` | LTP `exit02`, glibc `tst-thread-exit` | mended: the agent stayed |
//! | `daemon` | glibc `daemon`, LTP `close_range` | mended: hung |
//! | `no-descriptors` | LTP `dup`, `fork` with `EMFILE` | mended: no agent for the child |
//! | `lock`, `lock-future`, `lock-on-fault` | LTP `mlockall`, `mlock2` | mended: ended with status 2 |
//! | `faults` | kernel selftests `uffd-unit-tests`, QEMU postcopy, umap | mended: `EBUSY` |
//! | `threads` | CRIU zdtm `thread-bomb`, collectors | mended: an answer too few |
//! | `memory` | rr, gVisor `proc_pid_mem` | mended: `EIO` |
//! | `cancelled` | glibc `tst-cancel` | as without a pager |
//! | `names` | CRIU zdtm `cmdlinenv` | mended: empty |
//! | `share`, `outlive` | LTP `clone02`, gVisor `clone` | mended: hung |
//! | `keep-place` | kernel selftests `mremap_dontunmap` | as without a pager |
//! | `not-for-children` | LTP `madvise10` | as without a pager |
//! | `downward` | LTP `mmap18`, CRIU zdtm `grow_map` | as without a pager |
//! | `shorter-file` | gVisor `mmap`, kernel selftests `memfd_test` | as without a pager |
//! | `programs` | glibc `tst-spawn`, LTP `vfork` | as without a pager |
//! | `other-stack` | glibc `tst-minsigstksz`, Go's runtime | as without a pager |
//! | `overflow` | GNU libsigsegv | as without a pager |
//! | `debugger` | LTP `process_vm01`, `ptrace`; rr | `EIO` where a page is not in memory, no wrong bytes |
//! | `pipes` | LTP `vmsplice01`, `splice01` | as without a pager |
//! | `words` | glibc `tst-robust`, kernel selftests `futex` | as without a pager |
//! | `segments` | LTP `shmat`, CRIU zdtm `shm` | as without a pager |
//! | `barrier`, `guards` | Boehm's collector, Firecracker's guards | as without a pager, if the protected part fits |
//! | `may-go` | kernel selftests `madv_populate`, jemalloc | as without a pager |
//! | `own-protection` | kernel selftests `uffd-wp`, QEMU's snapshots | as without a pager |
//! | `breaks` | LTP `brk01` | as without a pager |
//! | `thread-leaves` | LTP `execve`, rr `exec_from_other_thread` | as without a pager |
//! | `coroutines` | glibc `tst-makecontext` | as without a pager |
//! | `partly` | gVisor `write`, LTP `writev` | as without a pager |
//! | `allocator.c` | maxima (GNU Common Lisp's allocator) | mended: ended by `SIGSEGV` |
//! | `sandboxed` | man-db with libseccomp, Firecracker's jailer | mended: ended by `SIGKILL` |

mod live;

use live::*;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use sweephand_checks::{Need, skip};

/// The ways of paging.
const POLICIES: [&str; 2] = ["clock", "clock-pro"];

/// The status as a shell has it, and what was printed.
fn outcome(output: &Output) -> (i32, String) {
    let status = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    (status.unwrap_or(-1), text(&output.stdout))
}

fn expect_as_without(program: &Path, memory: &str, arguments: &[&str]) {
    let bare = outcome(&output(Command::new(program).args(arguments)));
    if bare.1.starts_with("cannot: ") {
        return skip(Need::Machine, format_args!("{arguments:?}: {}", bare.1));
    }
    assert!(bare.1.lines().last() == Some("right"), "{arguments:?}: {bare:?}");
    for policy in POLICIES {
        let paged = output(run(&["--memory", memory, "--policy", policy, "--"]).arg(program).args(arguments));
        assert_eq!(outcome(&paged), bare, "{arguments:?} under {policy}: {}", text(&paged.stderr));
    }
}

#[test]
fn calls_that_the_kernel_refuses_are_refused() {
    if !can_page() {
        return;
    }
    let program = program("refused");
    expect_as_without(&program, "24MiB", &["40"]);
    // The same while nothing is paged, and while the program is recorded.
    expect_as_without(&program, "256MiB", &["40"]);
    let bare = output(Command::new(&program).arg("40"));
    let trace = workshop().join("refused.swt");
    let mut recorded = sweephand();
    recorded.args(["record", "--live", "-o"]).arg(&trace).arg("--").arg(&program).arg("40");
    let recorded = output(&mut recorded);
    assert_eq!(outcome(&recorded), outcome(&bare), "{}", text(&recorded.stderr));
}

/// Ends by a sandbox, a daemon's ways, locked memory, faults that a program answers itself, threads
/// that are counted, and memory that is read as a file.
#[test]
fn rare_operations_behave_as_without_a_pager() {
    if !can_page() {
        return;
    }
    let program = program("corners");
    let kinds = ["strict", "kill-thread", "leave", "daemon", "no-descriptors", "lock", "lock-future"];
    let more = ["lock-on-fault", "faults", "threads", "memory", "cancelled", "names", "share", "outlive"];
    for what in kinds.into_iter().chain(more) {
        expect_as_without(&program, "24MiB", &["40", what]);
    }
}

/// Runs the program with each of these under the pager and without it.
fn expect_suites_as_without(kinds: &[&str]) {
    if !can_page() {
        return;
    }
    let program = program("suites");
    for what in kinds {
        expect_as_without(&program, "24MiB", &["40", what]);
    }
}

#[test]
fn memory_cases_of_other_suites_behave_as_without_a_pager() {
    expect_suites_as_without(&["keep-place", "downward", "shorter-file", "words", "segments", "guards"]);
    expect_suites_as_without(&["own-protection", "breaks", "partly", "overflow"]);
}

#[test]
fn thread_and_child_cases_of_other_suites_behave_as_without_a_pager() {
    expect_suites_as_without(&["not-for-children", "programs", "other-stack", "debugger", "pipes"]);
    expect_suites_as_without(&["barrier", "may-go", "thread-leaves", "coroutines", "sandboxed"]);
}

/// The agent has the C library allocate nothing before the program's own allocator has begun.
#[test]
fn nothing_is_allocated_before_main() {
    if can_page() {
        expect_as_without(&program("allocator"), "24MiB", &["40"]);
    }
}

/// Where nothing is paged yet there is an agent all the same.
#[test]
fn rare_operations_behave_as_without_a_pager_while_the_program_fits() {
    if !can_page() {
        return;
    }
    let program = program("corners");
    for what in ["strict", "kill-thread", "leave", "lock-future", "faults", "threads", "memory", "outlive"] {
        expect_as_without(&program, "256MiB", &["16", what]);
    }
}

/// What is locked and does not fit is told with its size, and soon.
#[test]
fn more_locked_memory_than_there_is_room_for_is_told() {
    if !can_page() {
        return;
    }
    let program = program("corners");
    let output = output(run(&["--memory", "16MiB", "--"]).arg(program).args(["512", "lock"]));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("the limit is too small") && said.contains("MiB"), "{said}");
}
