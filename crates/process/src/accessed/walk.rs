//! The programs that walk a page table: that of the process that runs the program, or that of a
//! process with a given number. Two answer for a group of pages, and one for a whole table of the
//! lowest level.

use super::layout::{Layout, TaskFunctions};
use super::program::{
    Assembler, FRAME, GET_CURRENT_TASK, Instruction, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9,
};
use sweephand_pager_interface::accessed::{GROUP_PAGES, Query};

/// The bits of an entry that say where the next table is.
const FRAME_BITS: u64 = 0x000f_ffff_ffff_f000;

/// A query about a process, and its answer.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct ProcessQuery {
    /// See [`Query`].
    pub(super) query: Query,
    /// The number of the process, as the caller sees it.
    pub(super) process: u64,
}

/// Pages of a table of the lowest level.
pub const TABLE_PAGES: usize = 512;

/// A query about the pages of a table of the lowest level, and its answer.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct TableQuery {
    /// An address among those pages.
    pub(super) address: u64,
    /// The number of the process, as the caller sees it.
    pub(super) process: u64,
    /// 0: there is a table, or a large page. Otherwise none of the addresses is mapped that agree
    /// with the query's in all bits from this one on.
    pub(super) absent_from: u64,
    /// A bit for each page, the first page's lowest: whether the processor has used the page.
    pub(super) accessed: [u64; TABLE_PAGES / 64],
    /// Whether it has written to the page.
    pub(super) dirty: [u64; TABLE_PAGES / 64],
    /// Whether the page is mapped.
    pub(super) present: [u64; TABLE_PAGES / 64],
    /// 1: these are the pages of a large page, which has one bit of each kind.
    pub(super) is_large: u64,
}

/// Where a word of the kernel's memory is put on the stack.
const WORD: i16 = -8;
/// Bits of an entry.
const PRESENT: i32 = 0;
const ACCESSED: i32 = 5;
const DIRTY: i32 = 6;
/// The entry of a table of the two lowest levels is a large page.
const LARGE: i32 = 7;

/// The program for agents.
pub(super) fn walk(layout: &Layout) -> Vec<Instruction> {
    walk_of(layout, |code| {
        code.call(GET_CURRENT_TASK);
        code.copy(R3, R0);
        for offset in [layout.mm, layout.pgd] {
            code.add(R3, offset as i32);
            code.read(WORD, 8);
            code.fail_on_error();
            code.load(R3, FRAME, WORD);
            // A thread of the kernel has no memory.
            code.fail_if_zero(R3);
        }
        code.copy(R7, R3);
    })
}

/// The program for the command: its argument is a [`ProcessQuery`].
pub(super) fn walk_of_process(layout: &Layout, tasks: TaskFunctions) -> Vec<Instruction> {
    let process = core::mem::offset_of!(ProcessQuery, process);
    walk_of(layout, |code| find_table_of_process(code, layout, tasks, process))
}

/// Puts the top table of the process whose number the argument has at `process` into R7.
fn find_table_of_process(code: &mut Assembler, layout: &Layout, tasks: TaskFunctions, process: usize) {
    code.load(R1, R6, process as i16);
    code.call_kernel(tasks.find);
    code.fail_if_zero(R0);
    code.copy(R9, R0);
    code.copy(R3, R0);
    // What cannot be read is 0. The process has to be let go of before the program may end.
    for offset in [layout.mm, layout.pgd] {
        code.add(R3, offset as i32);
        code.read(WORD, 8);
        code.load(R3, FRAME, WORD);
    }
    code.copy(R7, R3);
    code.copy(R1, R9);
    code.call_kernel(tasks.release);
    code.fail_if_zero(R7);
    code.set(R9, 0);
}

/// The program for the command that answers for a whole table: its argument is a [`TableQuery`].
/// R6 is the argument, R7 a table or an entry of one, R8 the address.
pub(super) fn walk_to_table(layout: &Layout, tasks: TaskFunctions) -> Vec<Instruction> {
    /// Entries that are on the stack at a time.
    const ENTRIES: usize = 32;
    const TABLE: i16 = WORD - 8 * ENTRIES as i16;
    const ANSWERS: [(i32, usize, u8); 3] = [
        (ACCESSED, core::mem::offset_of!(TableQuery, accessed), R3),
        (DIRTY, core::mem::offset_of!(TableQuery, dirty), R4),
        (PRESENT, core::mem::offset_of!(TableQuery, present), R5),
    ];
    let mut code = Assembler::default();
    code.copy(R6, R1);
    code.load(R8, R6, core::mem::offset_of!(TableQuery, address) as i16);
    find_table_of_process(&mut code, layout, tasks, core::mem::offset_of!(TableQuery, process));
    let Branches { absent, large } = descend(&mut code, layout);
    for part in 0..TABLE_PAGES / ENTRIES {
        code.copy(R3, R7);
        code.add(R3, (8 * ENTRIES * part) as i32);
        code.read(TABLE, 8 * ENTRIES as i32);
        code.fail_on_error();
        ANSWERS.iter().for_each(|&(_, _, answer)| code.set(answer, 0));
        for entry in 0..ENTRIES {
            code.load(R0, FRAME, TABLE + 8 * entry as i16);
            for (bit, _, answer) in ANSWERS {
                // Of an entry that is not present, the other bits mean something else.
                code.copy(R1, R0);
                code.shift_right(R1, bit);
                code.and_register(R1, R0);
                code.and(R1, 1);
                code.shift_left(R1, entry as i32);
                code.or_register(answer, R1);
            }
        }
        for (_, offset, answer) in ANSWERS {
            code.store_half(R6, (offset + ENTRIES / 8 * part) as i16, answer);
        }
    }
    let mut done = vec![code.jump()];
    large.into_iter().for_each(|branch| code.ends_here(branch));
    code.set(R1, 1);
    code.store(R6, core::mem::offset_of!(TableQuery, is_large) as i16, R1);
    for (bit, offset, _) in ANSWERS {
        // All pages of a large page have its bits: 0 or -1.
        code.copy(R1, R7);
        code.shift_right(R1, bit);
        code.and(R1, 1);
        code.set(R2, 0);
        code.subtract_register(R2, R1);
        for word in 0..TABLE_PAGES / 64 {
            code.store(R6, (offset + 8 * word) as i16, R2);
        }
    }
    done.push(code.jump());
    for (branch, shift) in absent {
        code.ends_here(branch);
        code.set(R1, shift);
        code.store(R6, core::mem::offset_of!(TableQuery, absent_from) as i16, R1);
        done.push(code.jump());
    }
    done.into_iter().for_each(|branch| code.ends_here(branch));
    code.finish()
}

/// Branches that are taken on the way down to a table of the lowest level.
struct Branches {
    /// There is no table, with the lowest bit of an address that the table above goes by.
    absent: Vec<(usize, i32)>,
    /// R7 is the entry of a large page.
    large: Vec<usize>,
}

/// Goes from the top table in R7 to the lowest one for the address in R8, which R7 then has.
fn descend(code: &mut Assembler, layout: &Layout) -> Branches {
    let (mut absent, mut large) = (Vec::new(), Vec::new());
    for &shift in layout.shifts() {
        code.copy(R3, R8);
        code.shift_right(R3, shift);
        code.and(R3, 511);
        code.shift_left(R3, 3);
        code.add_register(R3, R7);
        code.read(WORD, 8);
        code.fail_on_error();
        code.load(R7, FRAME, WORD);
        absent.push((code.skip_unless_odd(R7), shift));
        if shift <= 30 {
            code.copy(R1, R7);
            code.shift_right(R1, LARGE);
            code.and(R1, 1);
            large.push(code.code.len());
            code.emit(0x55, (R1, 0), 0, 0);
        }
        code.set_wide(R1, FRAME_BITS);
        code.and_register(R7, R1);
        code.set_wide(R1, layout.direct_map);
        code.add_register(R7, R1);
    }
    Branches { absent, large }
}

/// A program that walks the table whose address `find_table` puts into R7.
///
/// R6 is the argument, which begins with a [`Query`], R7 a table or an entry of one, R8 the
/// address, R9 the answer.
fn walk_of(layout: &Layout, find_table: impl FnOnce(&mut Assembler)) -> Vec<Instruction> {
    /// Entries that are on the stack at a time.
    const ENTRIES: usize = GROUP_PAGES / 2;
    const TABLE: i16 = -8 - 8 * ENTRIES as i16;
    let mut code = Assembler::default();
    code.copy(R6, R1);
    code.load(R8, R6, core::mem::offset_of!(Query, address) as i16);
    code.set(R9, 0);
    // Addresses of processes only.
    code.copy(R1, R8);
    code.shift_right(R1, layout.address_bits());
    let in_kernel = code.code.len();
    code.emit(0x55, (R1, 0), 0, 0);
    find_table(&mut code);
    let Branches { absent, large } = descend(&mut code, layout);
    // The first entry of the group.
    code.copy(R3, R8);
    code.shift_right(R3, 12);
    code.and(R3, 511 & !(GROUP_PAGES as i32 - 1));
    code.shift_left(R3, 3);
    code.add_register(R7, R3);
    for half in 0..2 {
        code.copy(R3, R7);
        code.add(R3, (8 * ENTRIES * half) as i32);
        code.read(TABLE, 8 * ENTRIES as i32);
        code.fail_on_error();
        for entry in 0..ENTRIES {
            // Accessed and present: the other bits of an entry that is not present mean something
            // else.
            code.load(R1, FRAME, TABLE + 8 * entry as i16);
            code.copy(R2, R1);
            code.shift_right(R2, ACCESSED);
            code.and_register(R2, R1);
            code.and(R2, 1);
            code.shift_left(R2, (ENTRIES * half + entry) as i32);
            code.or_register(R9, R2);
        }
    }
    let done = code.jump();
    for branch in large {
        code.ends_here(branch);
    }
    // All pages of a large page have its bit: 0 or -1.
    code.copy(R1, R7);
    code.shift_right(R1, ACCESSED);
    code.and(R1, 1);
    code.subtract_register(R9, R1);
    code.ends_here(done);
    code.ends_here(in_kernel);
    for (branch, _) in absent {
        code.ends_here(branch);
    }
    code.store(R6, core::mem::offset_of!(Query, accessed) as i16, R9);
    code.finish()
}
