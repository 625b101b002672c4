//! How an agent asks for accessed bits: the argument of the BPF program that the command loads and
//! the agent runs. `crates/pager/src/accessed` has the program.

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
