//! Accessed and dirty bits of any process, table by table, for the command that watches it.

use super::layout::{Layout, TaskFunctions};
use super::no_bits::NoBits;
use super::program::Program;
use super::walk::{TABLE_PAGES, TableQuery, walk_to_table};
use std::io;

/// The program that tells the command which of their pages other processes have used and written
/// to, a whole table of the lowest level at a time.
#[derive(Debug)]
pub struct TableBits {
    program: Program,
}

/// What a page table says of some addresses of a process.
#[derive(Clone, Debug)]
pub enum Found {
    /// The bits of [`TABLE_PAGES`] pages.
    Table(Table),
    /// Nothing is mapped up to this address.
    NothingUpTo(u64),
}

/// The bits of a table of the lowest level: one for each page, the first page's lowest.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The processor has used the page since this bit was last cleared.
    pub accessed: Mask,
    /// The page was written to since it came into memory or, if it is a file's, since it was last
    /// written back.
    pub dirty: Mask,
    /// The page is mapped.
    pub present: Mask,
    /// These are the pages of a large page, which has one bit of each kind.
    pub is_large: bool,
}

/// A bit for each page of a table.
pub type Mask = [u64; TABLE_PAGES / 64];

impl TableBits {
    /// Loads the program.
    pub fn load() -> Result<Self, NoBits> {
        let layout = Layout::find()?;
        let code = walk_to_table(&layout, TaskFunctions::find()?);
        let bits = Self { program: Program::load(&code).map_err(NoBits::Program)? };
        bits.find(std::process::id(), 0).map_err(NoBits::Program)?;
        Ok(bits)
    }

    /// What the page table of a process says of an address and those around it.
    pub fn find(&self, process: u32, address: u64) -> io::Result<Found> {
        let mut query = TableQuery { address, process: process.into(), ..TableQuery::default() };
        self.program.run(&mut query)?;
        let TableQuery { accessed, dirty, present, absent_from, is_large, .. } = query;
        Ok(match absent_from {
            0 => Found::Table(Table { accessed, dirty, present, is_large: is_large != 0 }),
            bit => Found::NothingUpTo(((address >> bit) + 1) << bit),
        })
    }
}
