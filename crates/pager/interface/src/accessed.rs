//! How an agent asks for accessed bits. A BPF program (`crates/process/src/accessed`) reads them.
//! The command loads it, and the agent runs it.
//!
//! Most programs never page, so the command loads it when the first agent asks for it:
//!
//! ```text
//!   a process begins     agent     fetches a socket of the command (pidfd_getfd)
//!   it begins to page    agent     sends a socket of its own through it, and waits
//!                        command   loads the program if it has not yet
//!                                  sends it through the agent's socket, or closes that: there is none
//! ```
//!
//! The agent fetches the socket at the start, while it has the right to. The program may give up
//! its rights later, and the agent with it.

/// Pages that one query is about.
pub const GROUP_PAGES: usize = 64;

/// A query and its answer.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Query {
    /// An address in the calling process. The query is about the [`GROUP_PAGES`] pages, aligned to
    /// as many, among which its page is.
    pub address: u64,
    /// A bit for each of these pages, the first page's lowest: whether the processor has used the
    /// page since its accessed bit was last cleared. A page that is not mapped has none.
    pub accessed: u64,
}

/// The call of `bpf` that runs a program, `BPF_PROG_TEST_RUN`.
pub const RUN_PROGRAM: usize = 10;

/// The argument of [`RUN_PROGRAM`], as far as it is needed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RunProgram {
    program: u32,
    result: u32,
    data: [u64; 3],
    repeat: [u32; 2],
    argument_bytes: u32,
    answer_bytes: u32,
    argument: u64,
    answer: u64,
    how: [u32; 4],
}

impl RunProgram {
    /// To run the program of a descriptor on an argument that it may change.
    pub fn new<T: Copy>(program: i32, argument: &mut T) -> Self {
        Self {
            program: program as u32,
            argument_bytes: size_of::<T>() as u32,
            argument: &raw mut *argument as u64,
            ..Self::default()
        }
    }

    /// Whether the program, once it has run, said that it could not do its work.
    pub fn has_failed(&self) -> bool {
        self.result != 0
    }
}
