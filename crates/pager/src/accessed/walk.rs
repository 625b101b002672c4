//! The programs that walk a page table: that of the process that runs the program, or that of a
//! process with a given number.

use super::layout::{Layout, TaskFunctions};
use super::program::{Assembler, FRAME, GET_CURRENT_TASK, Instruction, R0, R1, R2, R3, R6, R7, R8, R9};
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

/// Where a word of the kernel's memory is put on the stack.
const WORD: i16 = -8;

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
    walk_of(layout, |code| {
        code.load(R1, R6, core::mem::offset_of!(ProcessQuery, process) as i16);
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
    })
}

/// A program that walks the table whose address `find_table` puts into R7.
///
/// R6 is the argument, which begins with a [`Query`], R7 a table or an entry of one, R8 the
/// address, R9 the answer.
fn walk_of(layout: &Layout, find_table: impl FnOnce(&mut Assembler)) -> Vec<Instruction> {
    /// Entries that are on the stack at a time.
    const ENTRIES: usize = GROUP_PAGES / 2;
    const TABLE: i16 = -8 - 8 * ENTRIES as i16;
    const ACCESSED: i32 = 5;
    const LARGE: i32 = 7;
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
    let (mut absent, mut large) = (vec![in_kernel], Vec::new());
    for &shift in layout.shifts() {
        code.copy(R3, R8);
        code.shift_right(R3, shift);
        code.and(R3, 511);
        code.shift_left(R3, 3);
        code.add_register(R3, R7);
        code.read(WORD, 8);
        code.fail_on_error();
        code.load(R7, FRAME, WORD);
        absent.push(code.skip_unless_odd(R7));
        // The entry of a table of the two lowest levels may be a large page.
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
    let done = code.code.len();
    code.emit(0x05, (0, 0), 0, 0);
    for branch in large {
        code.ends_here(branch);
    }
    // All pages of a large page have its bit: 0 or -1.
    code.copy(R1, R7);
    code.shift_right(R1, ACCESSED);
    code.and(R1, 1);
    code.emit(0x1f, (R9, R1), 0, 0);
    code.ends_here(done);
    for branch in absent {
        code.ends_here(branch);
    }
    code.store(R6, core::mem::offset_of!(Query, accessed) as i16, R9);
    code.finish()
}
