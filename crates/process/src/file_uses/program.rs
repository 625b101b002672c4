//! The programs that note the uses of cached pages, and what ends them.

use super::entries::{Block, Count, Ended, FileId, Uses};
use super::map::{Counts, Map};
use crate::accessed::NoBits;
use crate::accessed::btf::Btf;
use crate::accessed::program::{Assembler, FRAME, Instruction, Program, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use crate::accessed::types::member_offset;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;
use std::mem::offset_of;

const MAP_LOOK_UP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const PROCESS_AND_THREAD: i32 = 14;
/// For an update: there must not be such an entry.
const NEW: i32 = 1;

// Comparisons: jump if it is so. Those with a number have the lowest bits 101.
const EQUAL: u8 = 0x15;
const UNEQUAL: u8 = 0x55;
const NOT_POSITIVE: u8 = 0xd5;
const UNEQUAL_REGISTERS: u8 = 0x5d;
const EQUAL_REGISTERS: u8 = 0x1d;
const LARGER_REGISTERS: u8 = 0x2d;
const AT_LEAST_REGISTERS: u8 = 0x3d;
const LESS_REGISTERS: u8 = 0xad;
const AT_MOST_REGISTERS: u8 = 0xbd;

const PAGE_SHIFT: i32 = 12;
/// Pages of a block are bits of a word.
const BLOCK_SHIFT: i32 = 6;
const BLOCK_LAST: i32 = 63;

// The stack.
const PROCESS: i16 = -8;
const BLOCK: i16 = PROCESS - size_of::<Block>() as i16;
const USES: i16 = BLOCK - size_of::<Uses>() as i16;
const ZERO: i16 = USES - 8;

/// The maps that the programs share.
#[derive(Debug)]
pub(super) struct Maps {
    /// The processes whose uses count.
    pub(super) members: Map<u32, u32>,
    /// The pages that they have used.
    pub(super) uses: Map<Block, Uses>,
    /// How often they have been taken out.
    pub(super) turn: Map<u32, u64>,
    /// The files of which pages have been used.
    pub(super) files: Map<FileId, u32>,
    /// Those of them that have ended, in whole or in part.
    pub(super) ended: Map<FileId, Ended>,
    pub(super) counts: Counts<Count>,
}

/// What the arguments of a tracepoint say about pages that are used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// `struct address_space`, the first page and the last one that are read, or the one after it.
    Read,
    /// `struct inode`, the first byte and the number of bytes that are written.
    Written,
    /// `struct iomap_iter`, which has the same, if this is a write to the cache.
    Iteration,
    /// `struct folio`, `struct address_space`: the folio was clean, and is written.
    Dirtied,
}

/// A tracepoint at which pages are used.
struct Use {
    name: &'static str,
    says: Says,
    /// Without it there is nothing to be seen. The others belong to some file systems.
    is_needed: bool,
}

const USES_AT: [Use; 5] = [
    Use { name: "mm_filemap_get_pages", says: Says::Read, is_needed: true },
    Use { name: "writeback_dirty_folio", says: Says::Dirtied, is_needed: true },
    Use { name: "ext4_write_begin", says: Says::Written, is_needed: false },
    Use { name: "ext4_da_write_begin", says: Says::Written, is_needed: false },
    Use { name: "iomap_iter", says: Says::Iteration, is_needed: false },
];

/// Marks of the file systems whose writes are seen at the last three: ext4, XFS, block devices.
const MARKS: [i32; 3] = [0xef53, 0x5846_5342, 0x6264_6576];

/// Whether the last page that is read is told, or the one after it, which some kernels do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LastPage {
    Told,
    NextTold,
}

/// Types of the kernel, and places in them.
struct Places {
    /// `bpf_rdonly_cast`, which tells the kernel what is at an address.
    cast: u32,
    mapping: u32,
    inode: u32,
    folio: u32,
    /// `struct iomap_iter`: its number, the places of the inode, the offset, the length and the
    /// flags.
    iteration: Option<(u32, [i16; 4])>,
    folio_mapping: i16,
    folio_index: i16,
    host: i16,
    mapping_flags: i16,
    i_sb: i16,
    i_ino: i16,
    i_generation: i16,
    i_nlink: i16,
    i_size: i16,
}

/// Places in other types.
struct OtherPlaces {
    s_dev: i16,
    s_magic: i16,
    task: u32,
    tgid: i16,
}

impl Places {
    fn find(btf: &Btf) -> Result<Self, NoBits> {
        let at = |structure, member| member_offset(btf, structure, member).map(|offset| offset as i16);
        let number = |name: &str| btf.structure(name).ok_or_else(|| NoBits::Types(format!("has no {name}")));
        let iteration = btf.structure("iomap_iter").and_then(|number| {
            let at = |member| btf.offset("iomap_iter", member).map(|offset| offset as i16);
            Some((number, [at("inode")?, at("pos")?, at("len")?, at("flags")?]))
        });
        let cast = btf.function("bpf_rdonly_cast");
        Ok(Self {
            cast: cast.ok_or_else(|| NoBits::Types("has no bpf_rdonly_cast".to_string()))?,
            mapping: number("address_space")?,
            inode: number("inode")?,
            folio: number("folio")?,
            iteration,
            folio_mapping: at("folio", "mapping")?,
            folio_index: at("folio", "index")?,
            host: at("address_space", "host")?,
            mapping_flags: at("address_space", "flags")?,
            i_sb: at("inode", "i_sb")?,
            i_ino: at("inode", "i_ino")?,
            i_generation: at("inode", "i_generation")?,
            i_nlink: at("inode", "i_nlink")?,
            i_size: at("inode", "i_size")?,
        })
    }
}

impl OtherPlaces {
    fn find(btf: &Btf) -> Result<Self, NoBits> {
        let at = |structure, member| member_offset(btf, structure, member).map(|offset| offset as i16);
        let task = btf.structure("task_struct");
        Ok(Self {
            s_dev: at("super_block", "s_dev")?,
            s_magic: at("super_block", "s_magic")?,
            task: task.ok_or_else(|| NoBits::Types("has no task_struct".to_string()))?,
            tgid: at("task_struct", "tgid")?,
        })
    }
}

/// Loads the programs and has them run from now on, until the descriptors are closed.
pub(super) fn attach(btf: &Btf, maps: &Maps, last: LastPage) -> Result<Vec<OwnedFd>, NoBits> {
    let writer = Writer { places: Places::find(btf)?, other: OtherPlaces::find(btf)?, maps, last };
    let mut attached = Vec::new();
    let mut attach = |name: &str, code: &[Instruction]| {
        let run = Program::load_for_tracepoint(code).and_then(|program| program.attach(name));
        run.map(|descriptor| attached.push(descriptor))
    };
    let failed = |name: &str| {
        let name = name.to_string();
        move |error| NoBits::Attached(name, error)
    };
    let is_not_there = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::NOENT);
    for Use { name, says, is_needed } in USES_AT {
        if says == Says::Iteration && writer.places.iteration.is_none() {
            continue;
        }
        match attach(name, &writer.note(says)) {
            Err(error) if !is_needed && is_not_there(&error) => {}
            result => result.map_err(failed(name))?,
        }
    }
    for (name, code) in [
        ("sched_process_fork", writer.follow_forks()),
        ("mm_filemap_delete_from_page_cache", writer.note_end()),
    ] {
        attach(name, &code).map_err(failed(name))?;
    }
    Ok(attached)
}

/// Puts the address of something on the stack into a register.
fn address(code: &mut Assembler, to: u8, stack: i16) {
    code.copy(to, FRAME);
    code.add(to, stack.into());
}

/// Looks up the entry of a key on the stack. R0 is its value's address, or 0.
fn look_up(code: &mut Assembler, map: i32, key: i16) {
    code.map(R1, map);
    address(code, R2, key);
    code.call(MAP_LOOK_UP);
}

/// Adds an entry, or changes it. Both its parts are on the stack. R0 is 0 if that could be done.
fn update(code: &mut Assembler, map: i32, key: i16, value: i16, flag: i32) {
    code.map(R1, map);
    address(code, R2, key);
    address(code, R3, value);
    code.set(R4, flag);
    code.call(MAP_UPDATE);
}

/// Adds 1 to a count, whose entry is in R9.
fn count(code: &mut Assembler, offset: usize) {
    code.load(R2, R9, offset as i16);
    code.add(R2, 1);
    code.store(R9, offset as i16, R2);
}

fn end_all(code: &mut Assembler, branches: Vec<usize>) {
    branches.into_iter().for_each(|branch| code.ends_here(branch));
}

/// Writes the programs.
struct Writer<'a> {
    places: Places,
    other: OtherPlaces,
    maps: &'a Maps,
    last: LastPage,
}

impl Writer<'_> {
    /// Tells the kernel that there is a structure at the address in R1, which is in R0 then.
    fn cast(&self, code: &mut Assembler, structure: u32) {
        code.set(R2, structure as i32);
        code.call_kernel(self.places.cast);
    }

    /// Puts what tells a file from others on the stack, for the inode in R3.
    fn put_file(&self, code: &mut Assembler) {
        const FILE: i16 = BLOCK + offset_of!(Block, file) as i16;
        code.load_half(R1, R3, self.places.i_generation);
        code.store_half(FRAME, FILE + offset_of!(FileId, generation) as i16, R1);
        code.load(R1, R3, self.places.i_ino);
        code.store(FRAME, FILE + offset_of!(FileId, inode) as i16, R1);
        code.load(R3, R3, self.places.i_sb);
        code.load_half(R1, R3, self.other.s_dev);
        code.store_half(FRAME, FILE + offset_of!(FileId, device) as i16, R1);
    }

    /// The program that notes which pages are used at a tracepoint.
    ///
    /// R6 are the arguments, R7 the page, R8 the last page, R9 the counts.
    fn note(&self, says: Says) -> Vec<Instruction> {
        let mut code = Assembler::default();
        code.copy(R6, R1);
        code.set(R1, 0);
        code.store(FRAME, ZERO, R1);
        look_up(&mut code, self.maps.counts.number(), ZERO);
        let mut done = vec![code.branch(EQUAL, R0, 0)];
        code.copy(R9, R0);
        code.call(PROCESS_AND_THREAD);
        code.shift_right(R0, 32);
        code.store_half(FRAME, PROCESS, R0);
        look_up(&mut code, self.maps.members.number(), PROCESS);
        let is_member = code.branch(UNEQUAL, R0, 0);
        count(&mut code, offset_of!(Count, outside));
        done.push(code.jump());
        code.ends_here(is_member);
        count(&mut code, offset_of!(Count, inside));
        done.extend(match says {
            Says::Read => self.find_read(&mut code),
            Says::Written => self.find_written(&mut code),
            Says::Iteration => self.find_iteration(&mut code),
            Says::Dirtied => self.find_dirtied(&mut code),
        });
        self.put_file(&mut code);
        let again = code.code.len();
        done.push(code.leave_long_loop());
        self.note_block(&mut code, says != Says::Read);
        code.or(R7, BLOCK_LAST);
        code.add(R7, 1);
        done.push(code.branch_registers(LARGER_REGISTERS, R7, R8));
        code.jump_back(again);
        end_all(&mut code, done);
        code.return_nothing();
        code.code
    }

    /// Puts the first page into R7, the last one into R8, and the file's inode into R3. Returns
    /// branches that are taken if there is nothing to note.
    fn find_read(&self, code: &mut Assembler) -> Vec<usize> {
        let memory = |offset: usize| (offset_of!(Count, noted) + offset) as i16;
        let [turn, mapping, first, last] = [0, 8, 16, 24].map(memory);
        code.load(R7, R6, 8);
        code.load(R8, R6, 16);
        // The kernel fetches the pages of a large read some at a time, and tells each time all that
        // are left.
        look_up(code, self.maps.turn.number(), ZERO);
        let mut done = vec![code.branch(EQUAL, R0, 0)];
        code.load(R3, R0, 0);
        code.load(R4, R6, 0);
        let mut is_other = Vec::new();
        for (offset, register) in [(turn, R3), (mapping, R4), (last, R8)] {
            code.load(R1, R9, offset);
            is_other.push(code.branch_registers(UNEQUAL_REGISTERS, R1, register));
        }
        code.load(R1, R9, first);
        done.push(code.branch_registers(AT_MOST_REGISTERS, R1, R7));
        end_all(code, is_other);
        for (offset, register) in [(turn, R3), (mapping, R4), (last, R8), (first, R7)] {
            code.store(R9, offset, register);
        }
        code.copy(R1, R4);
        self.cast(code, self.places.mapping);
        code.load(R3, R0, self.places.host);
        if self.last == LastPage::NextTold {
            code.add(R8, -1);
        }
        // A read may be longer than the file.
        code.load(R1, R3, self.places.i_size);
        done.push(code.branch(NOT_POSITIVE, R1, 0));
        code.add(R1, -1);
        code.shift_right(R1, PAGE_SHIFT);
        let is_within = code.branch_registers(AT_MOST_REGISTERS, R8, R1);
        code.copy(R8, R1);
        code.ends_here(is_within);
        done.push(code.branch_registers(LARGER_REGISTERS, R7, R8));
        done
    }

    fn find_written(&self, code: &mut Assembler) -> Vec<usize> {
        code.load(R1, R6, 0);
        self.cast(code, self.places.inode);
        code.copy(R3, R0);
        code.load(R7, R6, 8);
        code.load(R8, R6, 16);
        code.shift_left(R8, 32);
        code.shift_right(R8, 32);
        Self::bytes_to_pages(code)
    }

    fn find_iteration(&self, code: &mut Assembler) -> Vec<usize> {
        /// Of the flags, these say what is done: write, zero, fault, direct, unshare, DAX.
        const WHAT: i32 = 1 | 2 | 8 | 16 | 128 | 256;
        const WRITE: i32 = 1;
        let Some((iteration, [inode, offset, length, flags])) = self.places.iteration else {
            return Vec::new();
        };
        code.load(R1, R6, 0);
        self.cast(code, iteration);
        code.load_half(R1, R0, flags);
        code.and(R1, WHAT);
        let mut done = vec![code.branch(UNEQUAL, R1, WRITE)];
        code.load(R7, R0, offset);
        code.load(R8, R0, length);
        code.load(R3, R0, inode);
        done.extend(Self::bytes_to_pages(code));
        done
    }

    /// R7 is the first byte, and R8 the number of bytes.
    fn bytes_to_pages(code: &mut Assembler) -> Vec<usize> {
        let nothing = code.branch(NOT_POSITIVE, R8, 0);
        code.add_register(R8, R7);
        code.add(R8, -1);
        code.shift_right(R7, PAGE_SHIFT);
        code.shift_right(R8, PAGE_SHIFT);
        vec![nothing]
    }

    fn find_dirtied(&self, code: &mut Assembler) -> Vec<usize> {
        code.load(R1, R6, 8);
        self.cast(code, self.places.mapping);
        code.load(R8, R0, self.places.host);
        code.load(R1, R8, self.places.i_sb);
        code.load(R1, R1, self.other.s_magic);
        let done = MARKS.map(|mark| code.branch(EQUAL, R1, mark)).to_vec();
        code.load(R1, R6, 0);
        self.cast(code, self.places.folio);
        code.load(R7, R0, self.places.folio_index);
        code.copy(R3, R8);
        code.copy(R8, R7);
        done
    }

    /// Notes the pages from R7 to R8 that are in the block of the page in R7.
    fn note_block(&self, code: &mut Assembler, is_write: bool) {
        let (used, written) = (offset_of!(Uses, used) as i16, offset_of!(Uses, written) as i16);
        code.copy(R1, R7);
        code.shift_right(R1, BLOCK_SHIFT);
        code.store(FRAME, BLOCK + offset_of!(Block, number) as i16, R1);
        // The bits from the first page on, without those after the last one.
        code.copy(R1, R7);
        code.and(R1, BLOCK_LAST);
        code.set(R2, -1);
        code.shift_left_register(R2, R1);
        code.copy(R3, R7);
        code.or(R3, BLOCK_LAST);
        let goes_on = code.branch_registers(AT_LEAST_REGISTERS, R8, R3);
        code.subtract_register(R3, R8);
        code.and(R3, BLOCK_LAST);
        code.set(R4, -1);
        code.shift_right_register(R4, R3);
        code.and_register(R2, R4);
        code.ends_here(goes_on);
        code.store(FRAME, USES + used, R2);
        if !is_write {
            code.set(R2, 0);
        }
        code.store(FRAME, USES + written, R2);
        look_up(code, self.maps.uses.number(), BLOCK);
        let is_there = code.branch(UNEQUAL, R0, 0);
        // A new block, and maybe a new file.
        let file = BLOCK + offset_of!(Block, file) as i16;
        update(code, self.maps.files.number(), file, PROCESS, 0);
        update(code, self.maps.uses.number(), BLOCK, USES, NEW);
        let mut done = vec![code.branch(EQUAL, R0, 0)];
        // Another processor has added it just now, or there is no room.
        look_up(code, self.maps.uses.number(), BLOCK);
        let is_added = code.branch(UNEQUAL, R0, 0);
        count(code, offset_of!(Count, lost_blocks));
        done.push(code.jump());
        code.ends_here(is_there);
        code.ends_here(is_added);
        for (offset, is_wanted) in [(used, true), (written, is_write)] {
            if is_wanted {
                code.load(R1, FRAME, USES + offset);
                code.load(R2, R0, offset);
                code.and_register(R2, R1);
                // To write to what other processors read makes them wait.
                let is_known = code.branch_registers(EQUAL_REGISTERS, R2, R1);
                code.set_bits(R0, offset, R1);
                code.ends_here(is_known);
            }
        }
        end_all(code, done);
    }

    /// The program that makes the processes members that members start.
    fn follow_forks(&self) -> Vec<Instruction> {
        const CHILD: i16 = PROCESS + 4;
        let mut code = Assembler::default();
        code.copy(R6, R1);
        // A new thread has its process's number, and is one already.
        for (argument, stack) in [(0, PROCESS), (8, CHILD)] {
            code.load(R1, R6, argument);
            self.cast(&mut code, self.other.task);
            code.load_half(R2, R0, self.other.tgid);
            code.store_half(FRAME, stack, R2);
        }
        look_up(&mut code, self.maps.members.number(), PROCESS);
        let is_other = code.branch(EQUAL, R0, 0);
        update(&mut code, self.maps.members.number(), CHILD, CHILD, 0);
        code.ends_here(is_other);
        code.return_nothing();
        code.code
    }

    /// The program that notes that pages of a file have ended, when one of them leaves the cache:
    /// it is behind the file's end, or the inode goes and the file has no name any more. R6 is the
    /// folio, later the file's inode, R7 the first page that has ended, R8 whether the file has.
    fn note_end(&self) -> Vec<Instruction> {
        /// `AS_EXITING`: the inode goes.
        const EXITING: i32 = 1 << 4;
        const ENDED: i16 = USES;
        let mut code = Assembler::default();
        code.load(R1, R1, 0);
        self.cast(&mut code, self.places.folio);
        code.load(R4, R0, self.places.folio_index);
        code.load(R1, R0, self.places.folio_mapping);
        code.load(R2, R1, self.places.mapping_flags);
        code.load(R3, R1, self.places.host);
        code.load_half(R1, R3, self.places.i_nlink);
        code.set(R7, 0);
        code.set(R8, 0);
        code.and(R2, EXITING);
        let stays = code.branch(EQUAL, R2, 0);
        let has_name = code.branch(UNEQUAL, R1, 0);
        code.set(R8, 1);
        let is_final = code.jump();
        code.ends_here(stays);
        code.ends_here(has_name);
        code.load(R7, R3, self.places.i_size);
        code.add(R7, (1 << PAGE_SHIFT) - 1);
        code.shift_right(R7, PAGE_SHIFT);
        let mut done = vec![code.branch_registers(LESS_REGISTERS, R4, R7)];
        code.ends_here(is_final);
        self.put_file(&mut code);
        look_up(&mut code, self.maps.files.number(), BLOCK);
        done.push(code.branch(EQUAL, R0, 0));
        look_up(&mut code, self.maps.ended.number(), BLOCK);
        let is_new = code.branch(EQUAL, R0, 0);
        // The first page of all ends counts.
        code.load(R1, R0, offset_of!(Ended, from) as i16);
        let is_first = code.branch_registers(AT_MOST_REGISTERS, R7, R1);
        code.copy(R7, R1);
        code.ends_here(is_first);
        code.load(R2, R0, offset_of!(Ended, is_final) as i16);
        code.or_register(R8, R2);
        code.exclusive_or_register(R1, R7);
        code.exclusive_or_register(R2, R8);
        code.or_register(R1, R2);
        // Nothing is new.
        done.push(code.branch(EQUAL, R1, 0));
        code.ends_here(is_new);
        code.store(FRAME, ENDED + offset_of!(Ended, from) as i16, R7);
        code.store(FRAME, ENDED + offset_of!(Ended, is_final) as i16, R8);
        update(&mut code, self.maps.ended.number(), BLOCK, ENDED, 0);
        end_all(&mut code, done);
        code.return_nothing();
        code.code
    }
}
