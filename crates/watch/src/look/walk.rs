//! A walk through the page table of a process, from table to table of the lowest level.

use std::io;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::accessed::{Found, TABLE_PAGES, Table, TableBits};
use sweephand_process::space::Space;

/// The end of the addresses that processes have; see `sweephand_process::space`.
const END: u64 = 1 << 47;
/// This many tables may be unreadable in a look, because they are freed just then.
const MOST_FAILURES: u32 = 64;
/// After this many answers in a row that nothing is mapped, the watch asks the kernel where the
/// next page is. One such answer may stand for only 2 MiB, and a hole can have terabytes.
const STEPS_IN_A_HOLE: u32 = 2;

/// Where a walk is.
#[derive(Debug, Default)]
pub(crate) struct TableWalk {
    address: u64,
    failures: u32,
    /// Answers in a row that nothing is mapped.
    steps: u32,
    /// Calls of the program that reads the page table.
    pub(crate) calls: u64,
}

impl TableWalk {
    /// The next table, by number. `None`: there is no further one.
    pub(crate) fn next(&mut self, bits: &TableBits, space: &Space) -> io::Result<Option<(u64, Table)>> {
        const TABLE_BYTES: u64 = TABLE_PAGES as u64 * PAGE_BYTES;
        while self.address < END {
            self.calls += 1;
            match bits.find(space.thread, self.address) {
                // Part of the page table has just been freed; or there is none any more.
                Err(error) if self.failures == MOST_FAILURES => return Err(error),
                Err(_) => {
                    self.failures += 1;
                    self.address += TABLE_BYTES;
                }
                Ok(Found::NothingUpTo(next)) => {
                    (self.address, self.steps) = (next, self.steps + 1);
                    if self.steps == STEPS_IN_A_HOLE {
                        self.address = behind_hole(space, next);
                        self.steps = 0;
                    }
                }
                Ok(Found::Table(table)) => {
                    let number = self.address / TABLE_BYTES;
                    self.address += TABLE_BYTES;
                    self.steps = 0;
                    return Ok(Some((number, table)));
                }
            }
        }
        Ok(None)
    }
}

/// The address of the next page in memory. Where the kernel does not tell, the walk goes on as it
/// did.
fn behind_hole(space: &Space, from: u64) -> u64 {
    space.first_present(from).map_or(from, |found| found.unwrap_or(END))
}
