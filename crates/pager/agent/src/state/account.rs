//! What a process takes beside the pages that the pager can page out, by the kernel's own count.
//!
//! ```text
//!   --memory and what comes on top (Order::budget_pages)
//!   | the program's pages: room | private: the pager's own, .data and the like, unreported memory |
//!   |                           | shared memory | page tables | the kernel's                        |
//! ```
//!
//! All of it is taken out of the room for the program's pages. `/proc/self/statm` says how much
//! private memory there is: what of it is not among the pages that the agent knows is the rest. It
//! is read after every few pages that come or go, and by the clock, since a program can take memory
//! by system calls of its own.

use crate::kernel::PAGE_BYTES;
use crate::mailbox::MAILBOX;
use crate::process::maps;
use crate::process::roots::open_proc;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::pread;

/// Pages that come or go until the next look at private memory. A look costs 2 to 4 microseconds.
const LOOK_PAGES: usize = 64;
/// Looks at private memory until the next at the rest, which costs ten times as much.
const LOOKS_A_STATUS: usize = 8;
/// How soon the next look is due by the clock, in milliseconds: when something has grown, and when
/// nothing has for a while.
const PERIOD_MS: (u64, u64) = (10, 100);
/// Pages of the kernel's for a thread: its stack and what describes it.
const THREAD_PAGES: usize = 7;
/// Bytes of the kernel's for a mapping (Linux 6.18: 273 for each of 60,000).
const MAPPING_BYTES: usize = 280;
/// What a process takes includes this many mappings.
const USUAL_MAPPINGS: usize = 512;
/// Calls that may make a mapping, at least, before mappings are counted anew.
const LEAST_DIVISIONS: usize = 512;
/// Pages of the kernel's for a process: files, mappings and the ring; and what is charged ahead on
/// each of two processors.
const PROCESS_PAGES: usize = 192;

/// What the agent knows of when it looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Private pages that are managed. None: that is not known yet.
    pub(crate) private: Option<usize>,
    /// Pages of the pager's own that are not there now, and may be before the next look.
    pub(crate) reserve: usize,
}

/// What the kernel has said so far.
#[derive(Debug)]
pub(crate) struct Account {
    statm: Option<OwnedFd>,
    status: Option<OwnedFd>,
    /// Private pages that are not managed, the pager's own among them. None until it is known which
    /// are managed.
    private: Option<usize>,
    /// How many those were after the last search for memory that no hook has reported.
    pub(crate) searched: usize,
    /// Shared memory that is mapped, unless it is the pager's.
    shared: usize,
    /// Page tables.
    tables: usize,
    /// Threads.
    threads: usize,
    /// Mappings, and how many calls that may have changed their number there were by then.
    mappings: usize,
    divisions: usize,
    /// Pages that have come or gone since the last look.
    moved: usize,
    looks: usize,
    /// When the next look is due, and how long after the last.
    due_ms: u64,
    period_ms: u64,
}

impl Account {
    /// Opens what it reads, while the process may.
    pub(crate) fn open() -> Self {
        Self {
            statm: open_proc(c"self/statm", OFlags::RDONLY).ok(),
            status: open_proc(c"self/status", OFlags::RDONLY).ok(),
            private: None,
            searched: 0,
            shared: 0,
            tables: 0,
            threads: 2,
            mappings: 0,
            divisions: 0,
            moved: 0,
            looks: 0,
            due_ms: 0,
            period_ms: PERIOD_MS.0,
        }
    }

    /// In a child, whose copy of the numbers of descriptors is worth nothing: opens its own.
    pub(crate) fn reopen(&mut self) {
        let own =
            [open_proc(c"self/statm", OFlags::RDONLY).ok(), open_proc(c"self/status", OFlags::RDONLY).ok()];
        let [statm, status] = own;
        core::mem::forget((
            core::mem::replace(&mut self.statm, statm),
            core::mem::replace(&mut self.status, status),
        ));
    }

    /// This many pages have come or gone.
    pub(crate) fn moved(&mut self, pages: usize) {
        self.moved += pages;
    }

    /// Whether it is time to look again.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.moved >= LOOK_PAGES || now_ms >= self.due_ms
    }

    /// How long an idle agent may sleep before the next look.
    pub(crate) fn period_ms(&self) -> u64 {
        self.period_ms
    }

    /// Looks. Returns how many private pages there are, if the kernel says so.
    pub(crate) fn look(&mut self, known: Known, now_ms: u64) -> Option<usize> {
        let timely = now_ms >= self.due_ms;
        self.moved = 0;
        self.looks += 1;
        if timely || self.looks.is_multiple_of(LOOKS_A_STATUS) {
            self.look_at_status();
        }
        self.count_mappings();
        let anonymous = self.anonymous_pages()?;
        let before = self.private.unwrap_or_default();
        self.private = known.private.map(|managed| anonymous.saturating_sub(managed) + known.reserve);
        let grows = self.private.unwrap_or_default() > before + LOOK_PAGES;
        self.period_ms = match grows {
            true => PERIOD_MS.0,
            false if timely => (2 * self.period_ms).min(PERIOD_MS.1),
            false => self.period_ms,
        };
        self.due_ms = now_ms + self.period_ms;
        Some(anonymous)
    }

    /// Until the next look the pager's own estimate holds: pages are about to be counted one by
    /// one.
    pub(crate) fn forget_private(&mut self) {
        self.private = None;
    }

    /// Private pages that are not managed, if that is known.
    pub(crate) fn private(&self) -> Option<usize> {
        self.private
    }

    /// What is neither private nor the pager's: shared memory, page tables, the kernel's.
    pub(crate) fn others(&self) -> usize {
        self.shared + self.tables + self.kernel()
    }

    /// Shared memory.
    pub(crate) fn shared(&self) -> usize {
        self.shared
    }

    /// Page tables, stacks and the like.
    pub(crate) fn of_kernel(&self) -> usize {
        self.tables + self.kernel()
    }

    fn kernel(&self) -> usize {
        let mappings = self.mappings.saturating_sub(USUAL_MAPPINGS);
        PROCESS_PAGES + self.threads * THREAD_PAGES + (mappings * MAPPING_BYTES).div_ceil(PAGE_BYTES)
    }

    /// Counts the mappings, if they may be many more or fewer than at the last time. To list them
    /// takes long if there are many, so it is done after a number of calls that grows with them.
    fn count_mappings(&mut self) {
        let divisions = MAILBOX.divisions();
        if divisions.wrapping_sub(self.divisions) >= LEAST_DIVISIONS.max(self.mappings / 4) {
            self.divisions = divisions;
            self.mappings = maps::count().unwrap_or(self.mappings);
        }
    }

    /// Private pages in memory, those of files that were written to included.
    fn anonymous_pages(&self) -> Option<usize> {
        let mut text = [0_u8; 128];
        let length = pread(self.statm.as_ref()?, &mut text, 0).ok()?;
        parse_statm(&text[..length])
    }

    fn look_at_status(&mut self) {
        let mut text = [0_u8; 4096];
        let Some(status) = &self.status else { return };
        let Ok(length) = pread(status, &mut text, 0) else { return };
        let number = |name: &str| field(&text[..length], name);
        self.shared = number("RssShmem:").unwrap_or_default() / 4;
        self.tables = number("VmPTE:").unwrap_or_default() / 4;
        self.threads = number("Threads:").unwrap_or(2);
    }
}

/// Pages in memory, less those that are shared or of files.
fn parse_statm(text: &[u8]) -> Option<usize> {
    let mut numbers =
        core::str::from_utf8(text).ok()?.split_ascii_whitespace().map(|word| word.parse::<usize>().ok());
    let (_, resident, shared) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(resident.saturating_sub(shared))
}

/// A number of `/proc/self/status`. (The name of the program may be any bytes.)
fn field(text: &[u8], name: &str) -> Option<usize> {
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    core::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(parse_statm(b"2000 700 300 5 0 90 0\n"), Some(400));
        assert_eq!(parse_statm(b"2000 700"), None);
        let status = b"Name:\t\xff\nRssShmem:\t     128 kB\nVmPTE:\t      60 kB\nThreads:\t3\n";
        assert_eq!(field(status, "RssShmem:"), Some(128));
        assert_eq!(field(status, "Threads:"), Some(3));
        assert_eq!(field(status, "VmSwap:"), None);
    }

    #[test]
    fn what_is_not_managed_is_counted_and_looks_become_rare_while_nothing_grows() {
        let mut account = Account::open();
        assert_eq!(account.private(), None);
        let known = Known { private: Some(10), ..Known::default() };
        let anonymous = account.look(known, 1000).unwrap();
        assert!(anonymous > 10 && account.others() > PROCESS_PAGES);
        assert_eq!(account.private(), Some(anonymous - 10));
        let mut now_ms = 1000;
        for _ in 0..10 {
            assert!(!account.is_due(now_ms), "at {now_ms} ms");
            now_ms += account.period_ms();
            assert!(account.is_due(now_ms), "at {now_ms} ms");
            account.look(known, now_ms);
        }
        account.moved(LOOK_PAGES);
        assert!(account.is_due(now_ms));
        account.forget_private();
        assert_eq!(account.private(), None);
    }
}
