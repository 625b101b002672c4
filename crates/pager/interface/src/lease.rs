//! Memory lent: the messages between the command and the agents of several programs that share one
//! limit.
//!
//! With one program an agent has its limit and its policy to itself. With several, the command has
//! the limit and the policy, and lends frames: an agent holds as many as it has been *granted*,
//! asks for more, and gives back what it does not use. It reports pages, and gets victims, by its
//! own ids. Bits are not reported: they are in the *shared state*, a byte a page in memory that
//! both see.
//!
//! ```text
//!   agent                                      command
//!   Fault p, Insert p, Remove p, ...  ------>  the policy learns of it
//!   Ask n                             ------>  is there room? whose pages go?
//!                                     <------  Evict q ..., Answered     its own: their frames are the answer
//!                                     <------  Evict q ..., Give n       another's: Evicted q ..., Give n, Done n
//!                                     <------  Grant n, Answered
//! ```
//!
//! Words of 32 bits, an operation and its operand, in datagrams over a Unix socket: the socket's
//! end shows each side that the other is gone. A question has one answer, and an agent has one
//! question at a time; its reports go with it.
//!
//! A program's first agent connects to the command's socket in the run's directory, which is open
//! to root or the user alone. A child's agent need not be able to find it: the parent may have
//! another root directory by then, or be another user. So its socket comes through its parent, whom
//! the command knows.

use crate::control::Secret;
use crate::numbered;
#[cfg(not(all(test, loom)))]
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use sweephand_uffd::PAGE_BYTES;

/// Whether this is a model of the shared state, which has few pages.
const IS_MODELLED: bool = cfg!(all(test, loom));

/// First word of an agent's first message.
pub const HELLO: u32 = u32::from_le_bytes(*b"swp1");
/// Words of the first message: [`HELLO`], the task's number, frames that the process has already,
/// the run's secret. The file of the shared state comes with it.
pub const HELLO_WORDS: usize = 3 + size_of::<Secret>() / 4;
/// Most words of a message.
pub const MESSAGE_WORDS: usize = 8 << 10;
/// Most pages of a process, by id: 256 GiB.
pub const MOST_PAGES: usize = if IS_MODELLED { 1 } else { 1 << 26 };
/// Bytes of the file of the shared state. Most of them are never touched.
pub const SHARED_BYTES: usize = PAGE_BYTES + MOST_PAGES;
/// Frames that a process gets before its first page is managed, beside those that its pager needs.
pub const FIRST_FRAMES: usize = 256;

const OPERAND_BITS: u32 = 28;

/// The largest operand.
pub const MOST_OPERAND: usize = (1 << OPERAND_BITS) - 1;

numbered! {
    /// What an agent reports. Pages are its own ids.
    pub enum Report {
        /// A page that was not in memory is needed.
        Fault = 1,
        /// A page has come in.
        Insert = 2,
        /// A page's contents are gone, or it cannot be moved: it is not the policy's any more.
        Remove = 3,
        /// A page named as a victim is on its way out.
        Evicted = 4,
        /// This many frames are given back.
        Give = 5,
        /// An instruction to give this many frames has been carried out, as far as it could be.
        Done = 6,
        /// This many frames are needed beyond those granted. The answer ends with
        /// [`Instruction::Answered`].
        Ask = 7,
        /// This many frames belong to the pager, or are filled by the kernel without a fault.
        Own = 8,
        /// A fork is coming: with this message comes the command's end of a socket for the child's
        /// agent.
        Fork = 9,
    }
}

numbered! {
    /// What the command has an agent do.
    pub enum Instruction {
        /// This many more frames are the agent's.
        Grant = 1,
        /// This page has to go.
        Evict = 2,
        /// The agent gives back this many frames of the pages named before.
        Give = 3,
        /// This page's bit has been found clear: its next touch has to be reported.
        Watch = 4,
        /// The task is not active: answer no fault.
        Suspend = 5,
        /// The task is active again.
        Resume = 6,
        /// The agent unmaps all pages, so that a task that does not fault goes no further either.
        Freeze = 7,
        /// The question has its answer.
        Answered = 8,
        /// There will never be as many frames as were asked for.
        Refuse = 9,
        /// The command has counted this process in: the first instruction to every agent.
        Admitted = 10,
    }
}

impl Report {
    /// The word for this, with its operand.
    pub fn word(self, operand: usize) -> u32 {
        encode(self as u32, operand)
    }

    /// What a word says.
    pub fn parse(word: u32) -> Option<(Self, u32)> {
        let (operation, operand) = decode(word);
        Some((Self::of(operation)?, operand))
    }
}

impl Instruction {
    /// The word for this, with its operand.
    pub fn word(self, operand: usize) -> u32 {
        encode(self as u32, operand)
    }

    /// What a word says.
    pub fn parse(word: u32) -> Option<(Self, u32)> {
        let (operation, operand) = decode(word);
        Some((Self::of(operation)?, operand))
    }
}

fn encode(operation: u32, operand: usize) -> u32 {
    operation << OPERAND_BITS | operand.min(MOST_OPERAND) as u32
}

fn decode(word: u32) -> (u32, u32) {
    (word >> OPERAND_BITS, word & MOST_OPERAND as u32)
}

/// The page has been referenced since its bit was cleared.
pub const REFERENCED: u8 = 1;

/// What an agent shares with the command instead of sending it: a page of numbers, then a byte a
/// page. In a file that both sides map.
#[derive(Debug)]
#[repr(C)]
pub struct SharedState {
    /// Processor time of the agent's thread, in nanoseconds: it is not the task's.
    pub agent_ns: AtomicU64,
    /// Reads from the store that are under way.
    pub reading: AtomicU32,
    rest: [core::sync::atomic::AtomicU8; PAGE_BYTES - 16],
    bits: [AtomicU8; MOST_PAGES],
}

const _: () = assert!(IS_MODELLED || size_of::<SharedState>() <= SHARED_BYTES);

/// No operation orders others. A page's bits are one byte, and the socket carries a message after
/// what its sender did before.
impl SharedState {
    /// Sets bits of a page.
    pub fn set(&self, page: usize, bits: u8) {
        self.bits[page].fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits of a page; returns all that were set before.
    pub fn clear(&self, page: usize, bits: u8) -> u8 {
        self.bits[page].fetch_and(!bits, Ordering::Relaxed)
    }

    /// The bits of a page.
    pub fn get(&self, page: usize) -> u8 {
        self.bits[page].load(Ordering::Relaxed)
    }
}

#[cfg(loom)]
#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_instructions_round_trip_as_words() {
        for (report, operand) in [(Report::Fault, 0), (Report::Ask, 7), (Report::Own, MOST_OPERAND)] {
            assert_eq!(Report::parse(report.word(operand)), Some((report, operand as u32)));
        }
        for (order, operand) in
            [(Instruction::Grant, 1), (Instruction::Evict, MOST_PAGES - 1), (Instruction::Refuse, 0)]
        {
            assert_eq!(Instruction::parse(order.word(operand)), Some((order, operand as u32)));
        }
        assert_eq!((Report::parse(0), Instruction::parse(u32::MAX)), (None, None));
        assert_eq!((Report::of(0), Instruction::of(0)), (None, None), "0 is what new memory holds");
    }

    #[test]
    fn the_shared_state_fits_its_file() {
        assert!(size_of::<SharedState>() <= SHARED_BYTES);
        assert!(core::mem::offset_of!(SharedState, bits) <= PAGE_BYTES);
    }
}
