//! Which page of which file is in a frame, by what the kernel keeps about frames.
//!
//! The kernel has a `struct page` for each frame, in one array. It leads to the folio, that to the
//! file. All of this is read while it may change. A frame that the kernel gives to another use just
//! then may be taken for a page that was in it, or for none.

use super::entries::FileId;
use crate::accessed::NoBits;
use crate::accessed::btf::Btf;
use crate::accessed::layout::{Reader, physical_address};
use crate::accessed::program::{Assembler, FRAME, Instruction, Program, R1, R2, R3, R6, R7, R8, R9};
use crate::accessed::types::{Types, member_offset};
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// Frames that are asked about with one call.
const FRAMES: usize = 128;

/// A page of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FilePage {
    /// The file.
    pub file: FileId,
    /// The page's number in it, from 0.
    pub number: u64,
}

/// A question, and its answer in the same place.
#[derive(Clone, Copy)]
#[repr(C)]
struct Query {
    /// The frame; in the answer, the address of the file's `struct address_space`.
    frame_or_mapping: u64,
    /// The page's number in the file.
    number: u64,
}

/// Finds the pages of files that are in frames.
#[derive(Debug)]
pub struct FilePages {
    program: Program,
    reader: Reader,
    host: u64,
    inode: u64,
    generation: u64,
    super_block: u64,
    device: u64,
}

impl FilePages {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// The kernel does not permit it, or the array is not found.
    pub fn load() -> Result<Self, NoBits> {
        let types = Types::open()?;
        let btf = types.btf()?;
        let at = |structure, member| member_offset(&btf, structure, member);
        let reader = Reader::load()?;
        let page_bytes = btf.size("page").ok_or_else(|| NoBits::Types("has no page".to_string()))?;
        let layout = Layout {
            array: array(&btf, &reader, page_bytes)?,
            page_bytes,
            head: at("page", "compound_head")?,
            mapping: at("folio", "mapping")?,
            index: at("folio", "index")?,
        };
        if !layout.page_bytes.is_power_of_two() {
            return Err(NoBits::Layout("the kernel's array of pages has gaps"));
        }
        Ok(Self {
            program: Program::load(&layout.program()).map_err(NoBits::Program)?,
            reader,
            host: at("address_space", "host")? as u64,
            inode: at("inode", "i_ino")? as u64,
            generation: at("inode", "i_generation")? as u64,
            super_block: at("inode", "i_sb")? as u64,
            device: at("super_block", "s_dev")? as u64,
        })
    }

    /// The pages of files in some frames. `None`: there is none, as in a frame of anonymous memory.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn of(&self, frames: &[u64]) -> io::Result<Vec<Option<FilePage>>> {
        let mut all = Vec::with_capacity(frames.len());
        let mut files = HashMap::new();
        for some in frames.chunks(FRAMES) {
            let mut queries = [Query { frame_or_mapping: some[0], number: 0 }; FRAMES];
            queries.iter_mut().zip(some).for_each(|(query, frame)| query.frame_or_mapping = *frame);
            self.program.run(&mut queries)?;
            all.extend(queries[..some.len()].iter().map(|query| {
                let mapping = query.frame_or_mapping;
                let file = *files.entry(mapping).or_insert_with(|| self.file(mapping));
                file.map(|file| FilePage { file, number: query.number })
            }));
        }
        Ok(all)
    }

    /// The file of a `struct address_space`.
    fn file(&self, mapping: u64) -> Option<FileId> {
        /// These mark anonymous memory, and pages that drivers own.
        const MARKS: u64 = 3;
        if mapping == 0 || mapping & MARKS != 0 {
            return None;
        }
        let word = |address: u64| self.reader.words(address).map(|[word, ..]| word);
        let inode = word(mapping + self.host)?;
        let device = word(word(inode + self.super_block)? + self.device)?;
        Some(FileId {
            device: device as u32,
            generation: word(inode + self.generation)? as u32,
            inode: word(inode + self.inode)?,
        })
    }
}

/// The address of the `struct page` of frame 0: a page of this process, whose frame is known, is
/// put into a pipe, which keeps the address of its `struct page`.
fn array(btf: &Btf, reader: &Reader, page_bytes: usize) -> Result<u64, NoBits> {
    let byte = [1_u8];
    let (output, input) = std::io::pipe().map_err(NoBits::Program)?;
    // SAFETY: the pipe is never read.
    unsafe { vmsplice(&input, &[IoSliceRaw::from_slice(&byte)], SpliceFlags::empty()) }
        .map_err(|error| NoBits::Program(error.into()))?;
    let at = |structure, member| member_offset(btf, structure, member).map(|offset| offset as u64);
    let mut address = reader.task().unwrap_or_default();
    for offset in [
        at("task_struct", "files")?,
        at("files_struct", "fdt")?,
        at("fdtable", "fd")?,
        8 * output.as_raw_fd() as u64,
        at("file", "private_data")?,
        at("pipe_inode_info", "bufs")?,
        at("pipe_buffer", "page")?,
    ] {
        address = reader.words(address + offset).map_or(0, |[word, ..]| word);
    }
    let frame = physical_address(byte.as_ptr() as usize).map(|physical| physical / PAGE_BYTES);
    let start = frame.and_then(|frame| address.checked_sub(frame * page_bytes as u64));
    start
        .filter(|start| start % PAGE_BYTES == 0)
        .ok_or(NoBits::Layout("the kernel's array of pages is not found"))
}

/// What the kernel keeps about frames, and where.
struct Layout {
    /// The address of the `struct page` of frame 0.
    array: u64,
    page_bytes: usize,
    head: usize,
    mapping: usize,
    index: usize,
}

impl Layout {
    /// The program: straight on, because what cannot be read is 0. R6 is the argument, R7 the
    /// `struct page`, later the page's place in the folio, R8 the folio, R9 the array.
    fn program(&self) -> Vec<Instruction> {
        const WORD: i16 = -8;
        let shift = self.page_bytes.trailing_zeros() as i32;
        let mut code = Assembler::default();
        code.copy(R6, R1);
        code.set_wide(R9, self.array);
        for query in 0..FRAMES {
            let at = |offset: usize| (query * size_of::<Query>() + offset) as i16;
            code.load(R7, R6, at(std::mem::offset_of!(Query, frame_or_mapping)));
            code.shift_left(R7, shift);
            code.add_register(R7, R9);
            // The word is odd in all pages of a folio but the first, to which it leads then.
            code.copy(R3, R7);
            code.add(R3, self.head as i32);
            code.read(WORD, 8);
            code.load(R1, FRAME, WORD);
            code.copy(R2, R1);
            code.and(R2, 1);
            code.set(R8, 0);
            code.subtract_register(R8, R2);
            code.add(R1, -1);
            code.exclusive_or_register(R1, R7);
            code.and_register(R8, R1);
            code.exclusive_or_register(R8, R7);
            code.subtract_register(R7, R8);
            code.shift_right(R7, shift);
            for (offset, answer) in [
                (self.mapping, std::mem::offset_of!(Query, frame_or_mapping)),
                (self.index, std::mem::offset_of!(Query, number)),
            ] {
                code.copy(R3, R8);
                code.add(R3, offset as i32);
                code.read(WORD, 8);
                code.load(R1, FRAME, WORD);
                if answer != 0 {
                    code.add_register(R1, R7);
                }
                code.store(R6, at(answer), R1);
            }
        }
        code.return_nothing();
        code.code
    }
}
