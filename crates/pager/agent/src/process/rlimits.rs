//! The program's resource limits apply to the program alone: what the agent needs does not count.
//!
//! The kernel applies limits to the process, agent included. So limits that the agent could meet
//! are kept here as the program has set them, and in the kernel so that the agent can continue:
//!
//! | limit | in the kernel |
//! |---|---|
//! | address space, data | what the program may have, and what the pager has reserved at that time (`own`), which is all that it will need for this memory |
//! | cores | 1 byte once memory is paged: the kernel then writes no core, where pages that are paged out would be zeros |
//! | descriptors, file size | the soft limit is the program's; the hard limit stays, so that the agent can raise the soft one for the moment that it opens a file or writes to the store |
//!
//! In such a moment another thread of the program could open a file, or write to one, beyond its
//! limit. Programs that this process starts by `execve` have the limits as the program has set
//! them.

use crate::kernel::symbols::c_result;
use crate::kernel::syscall::{call, refused};
use crate::kernel::thread::is_readable;
use crate::mailbox::{Call, MAILBOX};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as raw;
use rustix::io::Errno;

/// No limit.
const INFINITY: u64 = u64::MAX;
/// Enough descriptors for an agent.
const DESCRIPTORS: u64 = 256;
/// The limit with which the kernel writes no core, whether to a file or to a pipe.
const NO_CORE: u64 = 1;
/// How often a write that meets a limit of file sizes is tried before it counts as failed.
const WRITES: usize = 8;
/// The capability to raise a hard limit.
const CAP_SYS_RESOURCE: u32 = 24;
/// The capability to lock any amount of memory.
const CAP_IPC_LOCK: u32 = 14;

/// A limit as the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// A limit as the program has set it, and what the kernel has for it.
struct Kept {
    resource: u32,
    is_set: AtomicBool,
    program: [AtomicU64; 2],
    kernel: [AtomicU64; 2],
}

impl Kept {
    const fn new(resource: u32) -> Self {
        Self {
            resource,
            is_set: AtomicBool::new(false),
            program: [const { AtomicU64::new(0) }; 2],
            kernel: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// The program's view, if it is another than the kernel's.
    fn view(&self, kernel: Limit) -> Option<Limit> {
        // The agent may have raised the soft limit for the moment.
        let is_ours = self.is_set.load(Ordering::Acquire) && load(&self.kernel).hard == kernel.hard;
        is_ours.then(|| load(&self.program))
    }

    fn note(&self, program: Limit, kernel: Limit) {
        store(&self.program, program);
        store(&self.kernel, kernel);
        self.is_set.store(true, Ordering::Release);
    }
}

fn load([soft, hard]: &[AtomicU64; 2]) -> Limit {
    Limit { soft: soft.load(Ordering::Acquire), hard: hard.load(Ordering::Acquire) }
}

fn store([soft, hard]: &[AtomicU64; 2], limit: Limit) {
    soft.store(limit.soft, Ordering::Release);
    hard.store(limit.hard, Ordering::Release);
}

static FILE_SIZE: Kept = Kept::new(raw::RLIMIT_FSIZE);
static DATA: Kept = Kept::new(raw::RLIMIT_DATA);
static DESCRIPTORS_OPEN: Kept = Kept::new(raw::RLIMIT_NOFILE);
static ADDRESS_SPACE: Kept = Kept::new(raw::RLIMIT_AS);
static CORE: Kept = Kept::new(raw::RLIMIT_CORE);
static KEPT: [&Kept; 5] = [&FILE_SIZE, &DATA, &DESCRIPTORS_OPEN, &ADDRESS_SPACE, &CORE];

/// The process whose limits these are: the child of a `vfork` has others, and the same memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn process() -> u32 {
    // SAFETY: getpid(2) does nothing else.
    unsafe { call(raw::__NR_getpid, [0; 6]) as u32 }
}

fn kept(resource: u32) -> Option<&'static Kept> {
    let kept = KEPT.into_iter().find(|kept| kept.resource == resource)?;
    // The limit of cores is the kernel's until memory is paged.
    let is_kernels = resource == raw::RLIMIT_CORE && !kept.is_set.load(Ordering::Acquire);
    (!is_kernels).then_some(kept)
}

fn kernels(resource: u32, new: Option<Limit>) -> Result<Limit, Errno> {
    let mut old = Limit { soft: 0, hard: 0 };
    let new = new.as_ref().map_or(0, |new| new as *const Limit as usize);
    // SAFETY: prlimit64(2) for this process reads one limit and writes the other.
    let result =
        unsafe { call(raw::__NR_prlimit64, [0, resource as usize, new, (&raw mut old) as usize, 0, 0]) };
    if result < 0 { Err(Errno::from_raw_os_error(-result as i32)) } else { Ok(old) }
}

/// How much memory the program may lock; `None` if there is no limit for it.
pub(crate) fn lockable_bytes() -> Option<u64> {
    let limit = kernels(raw::RLIMIT_MEMLOCK, None).ok()?;
    (!has_capability(CAP_IPC_LOCK)).then_some(limit.soft)
}

/// Whether the calling thread may raise hard limits.
fn is_privileged() -> bool {
    has_capability(CAP_SYS_RESOURCE)
}

fn has_capability(number: u32) -> bool {
    let header = [0x2008_0522_u32, 0];
    let mut data = [[0_u32; 3]; 2];
    // SAFETY: capget(2) with a header of this version writes this much.
    let result =
        unsafe { call(raw::__NR_capget, [header.as_ptr() as usize, data.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    result == 0 && data[0][0] >> number & 1 != 0
}

/// The hard limit that the kernel should have for one of the program's.
fn hard_for(program: Limit, kernel: Limit) -> u64 {
    program.hard.max(kernel.hard)
}

/// Sets a limit of the program's.
fn set(kept: &Kept, wanted: Limit) -> Result<(), Errno> {
    let kernel = kernels(kept.resource, None)?;
    let now = kept.view(kernel).unwrap_or(kernel);
    if wanted.soft > wanted.hard {
        return Err(Errno::INVAL);
    }
    if wanted.hard > now.hard && !is_privileged() {
        return Err(Errno::PERM);
    }
    let reserved = match kept.resource {
        raw::RLIMIT_AS | raw::RLIMIT_DATA if wanted.soft != INFINITY => {
            let bytes = usize::try_from(wanted.soft).unwrap_or(usize::MAX);
            MAILBOX.ask(Call::Reserve, [bytes, 0, 0]).unwrap_or_default().max(0) as u64
        }
        _ => 0,
    };
    let soft = match kept.resource {
        raw::RLIMIT_CORE => NO_CORE,
        _ => wanted.soft.saturating_add(reserved),
    };
    let hard = hard_for(Limit { hard: soft.max(wanted.hard), ..wanted }, kernel);
    // Who may not raise the hard limit has what is left.
    let choices = [Limit { soft, hard }, Limit { soft: soft.min(kernel.hard), hard: kernel.hard }];
    // A hard limit that is raised is as the kernel allows it, or not at all.
    let choices = &choices[..if wanted.hard > now.hard { 1 } else { 2 }];
    let made = choices.iter().find(|&&limit| kernels(kept.resource, Some(limit)).is_ok());
    let made = *made.ok_or(Errno::PERM)?;
    kept.note(wanted, made);
    // The agent may have put back the limit of before, because it did not know of this one yet.
    let _ = kernels(kept.resource, Some(made));
    Ok(())
}

/// `prlimit`, with the kernel's numbers and results.
///
/// # Safety
/// As the system call asks for.
pub(crate) unsafe fn prlimit(pid: u32, resource: u32, new: usize, old: usize) -> isize {
    let own = process();
    let kept = kept(resource).filter(|_| pid == 0 || pid == own);
    let Some(kept) = kept.filter(|_| PROCESS.load(Ordering::Acquire) == own) else {
        let arguments = [pid as usize, resource as usize, new, old, 0, 0];
        // SAFETY: as the caller promises.
        return unsafe { call(raw::__NR_prlimit64, arguments) };
    };
    let before = match kernels(resource, None) {
        Ok(kernel) => kept.view(kernel).unwrap_or(kernel),
        Err(error) => return refused(error),
    };
    if new != 0 {
        if !is_readable(new, size_of::<Limit>()) {
            return refused(Errno::FAULT);
        }
        // SAFETY: it can be read.
        let wanted = unsafe { (new as *const Limit).read_unaligned() };
        if let Err(error) = set(kept, wanted) {
            return refused(error);
        }
    }
    if old != 0 {
        // The kernel finds out whether this can be written to.
        // SAFETY: as the caller promises.
        let written = unsafe { call(raw::__NR_prlimit64, [0, resource as usize, 0, old, 0, 0]) };
        if written < 0 {
            return written;
        }
        // SAFETY: it has just been written to.
        unsafe { (old as *mut Limit).write_unaligned(before) };
    }
    0
}

/// `prlimit` and its like, as C has their results.
///
/// # Safety
/// As the functions ask for.
pub unsafe fn prlimit_of_c(pid: u32, resource: u32, new: usize, old: usize) -> isize {
    // SAFETY: as the caller promises.
    c_result(unsafe { prlimit(pid, resource, new, old) })
}

/// Before the agent starts: makes room for it, if the limits that the program begins with leave it
/// none. `file_bytes` is the command's own limit of file sizes.
pub(crate) fn begin(file_bytes: u64) {
    PROCESS.store(process(), Ordering::Release);
    for kept in KEPT.into_iter().filter(|kept| kept.resource != raw::RLIMIT_CORE) {
        let Ok(kernel) = kernels(kept.resource, None) else { continue };
        let most = match kept.resource {
            // What the command itself had to keep to, its store has to.
            raw::RLIMIT_FSIZE => file_bytes,
            raw::RLIMIT_NOFILE => DESCRIPTORS,
            _ => INFINITY,
        };
        let hard = kernel.hard.max(most);
        let soft = match kept.resource {
            raw::RLIMIT_AS | raw::RLIMIT_DATA => hard,
            _ => kernel.soft,
        };
        if kernel.soft == INFINITY || (soft, hard) == (kernel.soft, kernel.hard) {
            continue;
        }
        let choices = [Limit { soft, hard }, Limit { soft: soft.min(kernel.hard), ..kernel }];
        if let Some(made) = choices.into_iter().find(|&limit| kernels(kept.resource, Some(limit)).is_ok()) {
            kept.note(kernel, made);
        }
    }
}

/// When there is an agent: has it reserve what it needs under the limits that the program begins
/// with.
pub(crate) fn settle() {
    for kept in [&DATA, &ADDRESS_SPACE] {
        if kept.is_set.load(Ordering::Acquire) {
            // Where it cannot be, the pager has to do with what there is.
            let _ = set(kept, load(&kept.program));
        }
    }
}

/// Has the kernel write no core, because pages are paged out from now on. The kernel does not wait
/// for a pager when it dumps core.
pub(crate) fn refuse_cores() {
    let Ok(kernel) = kernels(CORE.resource, None) else { return };
    let made = Limit { soft: NO_CORE.min(kernel.hard), ..kernel };
    if kernels(CORE.resource, Some(made)).is_ok() {
        CORE.note(kernel, made);
    }
}

/// In a child, which has its parent's limits.
pub(crate) fn in_child() {
    PROCESS.store(process(), Ordering::Release);
}

/// While this process becomes another program, or tries to, limits are as the program has set them.
pub(crate) fn as_the_program_has_them<R>(work: impl FnOnce() -> R) -> R {
    let change = |back: bool| {
        for kept in KEPT.into_iter().filter(|kept| kept.is_set.load(Ordering::Acquire)) {
            let (program, kernel) = (load(&kept.program), load(&kept.kernel));
            let (from, to) = if back { (program, kernel) } else { (kernel, program) };
            // The child of a `vfork` may have set limits of its own.
            if kernels(kept.resource, None) == Ok(from) {
                let _ = kernels(kept.resource, Some(to));
            }
        }
    };
    change(false);
    let result = work();
    change(true);
    result
}

/// Whether the program may write files of some size only.
pub(crate) fn are_files_limited() -> bool {
    FILE_SIZE.is_set.load(Ordering::Acquire)
        || kernels(raw::RLIMIT_FSIZE, None).is_ok_and(|limit| limit.soft != INFINITY)
}

/// Does something that the limit of descriptors or of file sizes would be in the way of.
pub(crate) fn without<R>(what: Raised, work: impl FnOnce() -> R) -> R {
    let kept = match what {
        Raised::Descriptors | Raised::MoreDescriptors => &DESCRIPTORS_OPEN,
        Raised::FileSize => &FILE_SIZE,
    };
    let Ok(before) = kernels(kept.resource, None) else { return work() };
    // Descriptors that the program opened under a higher limit are still there. So the soft limit
    // goes up all the way.
    let hard = match what {
        Raised::MoreDescriptors => before.hard.saturating_add(DESCRIPTORS),
        Raised::Descriptors | Raised::FileSize => before.hard,
    };
    let _ = kernels(kept.resource, Some(Limit { soft: hard, hard }));
    let result = work();
    // The program may set another meanwhile, also while this one is put back. Ends: each round
    // takes another call of the program.
    let wanted = || match kept.is_set.load(Ordering::Acquire) {
        true => load(&kept.kernel),
        false => before,
    };
    let mut limit = wanted();
    loop {
        let _ = kernels(kept.resource, Some(limit));
        let now = wanted();
        if now == limit {
            return result;
        }
        limit = now;
    }
}

/// Writes to a file of the pager's, of whatever size. The program can set a limit just when it is
/// lifted; the write then fails and is done again.
pub(crate) fn at_any_file_size<T>(mut write: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..WRITES {
        match without(Raised::FileSize, &mut write) {
            Err(Errno::FBIG) => {}
            result => return result,
        }
    }
    Err(Errno::FBIG)
}

/// A limit that can be lifted for a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raised {
    /// How many files can be open: as many as the hard limit allows.
    Descriptors,
    /// The same, and some more, if this process may raise the hard limit.
    MoreDescriptors,
    /// How large a file can be.
    FileSize,
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_limit_that_only_the_pager_needs_is_not_seen_by_the_program() {
        let kept = Kept::new(raw::RLIMIT_NOFILE);
        let (program, kernel) = (Limit { soft: 10, hard: 20 }, Limit { soft: 10, hard: 4096 });
        assert_eq!(kept.view(kernel), None);
        kept.note(program, kernel);
        assert_eq!(kept.view(kernel), Some(program));
        assert_eq!(kept.view(Limit { soft: 266, ..kernel }), Some(program), "raised for a moment");
        assert_eq!(kept.view(Limit { hard: 30, ..kernel }), None, "set by another way");
        assert_eq!(hard_for(program, kernel), 4096);
    }
}
