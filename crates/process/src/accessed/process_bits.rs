//! Accessed bits of any process, for the command that directs the kernel's paging.

use super::layout::{Layout, TaskFunctions};
use super::no_bits::NoBits;
use super::program::Program;
use super::walk::{ProcessQuery, walk_of_process};
use std::io;
use sweephand_pager_interface::accessed::Query;

/// The program that tells the command which of their pages other processes have used.
#[derive(Debug)]
pub struct ProcessBits {
    program: Program,
}

impl ProcessBits {
    /// Loads the program.
    pub fn load() -> Result<Self, NoBits> {
        let layout = Layout::find()?;
        let code = walk_of_process(&layout, TaskFunctions::find()?);
        let bits = Self { program: Program::load(&code).map_err(NoBits::Program)? };
        bits.query(std::process::id(), 0).map_err(NoBits::Program)?;
        Ok(bits)
    }

    /// Which pages a process has used, of the `GROUP_PAGES` pages, aligned to as many, among
    /// which an address is. The first page has the lowest bit.
    pub fn query(&self, process: u32, address: u64) -> io::Result<u64> {
        let query = Query { address, accessed: 0 };
        let mut query = ProcessQuery { query, process: process.into() };
        self.program.run(&mut query)?;
        Ok(query.query.accessed)
    }
}
