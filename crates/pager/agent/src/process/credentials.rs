//! The agent's rights: those of the program, and no more.
//!
//! To the kernel each thread has rights of its own. The C library's `setuid` and similar functions
//! change the rights of all threads that the library knows, and it does not know the agent. An
//! agent with root's rights in another user's process would be root for anyone who can misuse that
//! process. So the preload library replaces the program's functions that change rights; they return
//! when the agent has followed. If a program changes its rights by bare system calls, the agent
//! finds out a moment later.
//!
//! The agent opens in advance what it needs afterwards: see `roots` and `fork`.

use crate::kernel::symbols::{c_result, symbol};
use crate::kernel::syscall::{call, refused};
use crate::mailbox::{Call, MAILBOX};
use crate::process::failure::abort;
use crate::process::roots::open_proc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int};
use linux_raw_sys::general as raw;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// What the kernel says of a thread's rights.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Credentials {
    /// Real, effective, saved.
    users: [u32; 3],
    groups: [u32; 3],
    others: Vec<u32>,
    /// Inheritable, permitted, effective.
    capabilities: [u64; 3],
}

impl Credentials {
    /// From a `status` file.
    fn parse(text: &str) -> Option<Self> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let numbers = |name: &str| {
            let parse = |word: &str| word.parse::<u32>().ok();
            line(name)?.split_ascii_whitespace().map(parse).collect::<Option<Vec<u32>>>()
        };
        let three = |name: &str| <[u32; 3]>::try_from(numbers(name)?.get(..3)?).ok();
        let capability = |name: &str| u64::from_str_radix(line(name)?.trim(), 16).ok();
        Some(Self {
            users: three("Uid")?,
            groups: three("Gid")?,
            others: numbers("Groups")?,
            capabilities: [capability("CapInh")?, capability("CapPrm")?, capability("CapEff")?],
        })
    }

    fn of(path: &CStr) -> Option<Self> {
        let file = open_proc(path, OFlags::RDONLY).ok()?;
        let (mut text, mut length) = (Vec::new(), 0);
        // Ends with the file. The agent takes no signals that could interrupt it again and again.
        loop {
            text.resize(length + (8 << 10), 0);
            match rustix::io::read(&file, &mut text[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Self::parse(core::str::from_utf8(&text[..length]).ok()?)
    }

    /// Has the calling thread, which has the rights `own`, take these on as far as they are no
    /// more.
    fn take_on(&self, own: &Self) -> Result<(), Errno> {
        let set = |number: u32, arguments: [usize; 3]| {
            let [first, second, third] = arguments;
            // SAFETY: changes this thread's rights alone; what is pointed to is read only.
            let result = unsafe { call(number, [first, second, third, 0, 0, 0]) };
            if result < 0 { Err(Errno::from_raw_os_error(-result as i32)) } else { Ok(()) }
        };
        let set_capabilities = |[inheritable, permitted, effective]: [u64; 3]| {
            const VERSION: u32 = 0x2008_0522;
            let header = [VERSION, 0];
            let words = |shift: u32| {
                [effective, permitted, inheritable].map(|bits| (bits >> shift & u64::from(u32::MAX)) as u32)
            };
            let data = [words(0), words(32)];
            set(raw::__NR_capset, [header.as_ptr() as usize, data.as_ptr() as usize, 0])
        };
        // The permitted capabilities must take effect, and must not go with the user: the program
        // may have more to change, and what it has kept for that is kept here.
        let [inheritable, permitted, _] = own.capabilities;
        set_capabilities([inheritable, permitted, permitted])?;
        set(raw::__NR_prctl, [PR_SET_KEEPCAPS, 1, 0])?;
        if self.others != own.others {
            set(raw::__NR_setgroups, [self.others.len(), self.others.as_ptr() as usize, 0])?;
        }
        if self.groups != own.groups {
            set(raw::__NR_setresgid, self.groups.map(|group| group as usize))?;
        }
        if self.users != own.users {
            set(raw::__NR_setresuid, self.users.map(|user| user as usize))?;
        }
        let [inheritable, permitted, effective] = self.capabilities;
        let kept = permitted & own.capabilities[1];
        set_capabilities([inheritable & own.capabilities[0], kept, effective & kept])
    }
}

/// Of `prctl`: the calling thread's capabilities outlast a change of its user.
const PR_SET_KEEPCAPS: usize = 8;

/// Takes on the rights of the process's first thread.
pub(crate) fn take_on_rights() {
    let (program, own) = (Credentials::of(c"self/status"), Credentials::of(c"thread-self/status"));
    let (Some(program), Some(own)) = (program, own) else { return };
    if program == own {
        return;
    }
    if let Err(error) = program.take_on(&own) {
        abort(format_args!(
            "the program has changed its user, and its pager cannot change with it: {error}; run it without the \
             pager, or as that user from the start"
        ));
    }
}

/// Calls the C library's function of a name, which may change the program's rights. Afterwards the
/// agent has the same.
///
/// # Safety
/// As the function asks for.
pub unsafe fn changed_by(name: &CStr, arguments: [usize; 3]) -> isize {
    let Some(function) = symbol(name) else {
        return c_result(refused(Errno::NOSYS));
    };
    let [first, second, third] = arguments;
    // SAFETY: the C library's function of that name, with at most three arguments that fit a
    // register.
    let result = unsafe {
        let function: extern "C" fn(usize, usize, usize) -> c_int = core::mem::transmute(function);
        function(first, second, third)
    };
    if result != -1 {
        MAILBOX.call(Call::Credentials, 0, 0);
    }
    result as isize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_as_the_kernel_writes_them() {
        let text = "Name:\tsh\nUid:\t0\t65534\t7\t65534\nGid:\t1\t2\t3\t2\nGroups:\t4 24 1000 \n\
                    CapInh:\t0000000000000001\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000000003\n";
        let expected = Credentials {
            users: [0, 65534, 7],
            groups: [1, 2, 3],
            others: std::vec![4, 24, 1000],
            capabilities: [1, 0x1ff_ffff_ffff, 3],
        };
        assert_eq!(Credentials::parse(text), Some(expected));
        assert_eq!(Credentials::parse("Uid:\t0\n"), None);
        assert_eq!(Credentials::of(c"self/status"), Credentials::of(c"thread-self/status"));
        assert!(Credentials::of(c"self/status").is_some());
    }
}
