//! Records of a live recording: what an agent says of the program that it is in, and the file
//! through which it says so.
//!
//! Each recorded process has a file in the run's directory. Its agent makes the file, maps it, and
//! puts items into a ring there. The command reads the ring and says in the file how far it is. It
//! only uses `pread` and `pwrite`, so a program that shortens its file harms nobody. What is in the
//! ring stays there when the process ends, however it ends.
//!
//! ```text
//!   page 0    words: MAGIC, process, written (by the agent), read (by the command)
//!   then      RING_WORDS words, used again and again
//! ```
//!
//! An item is one to three words. The three lowest bits of its first word say which it is.

use sweephand_uffd::PAGE_BYTES;

/// Allocations and mappings from this size on are objects.
pub const LEAST_OBJECT_BYTES: usize = 40 << 10;
/// First word of a file: a name and the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"swprec02");
/// Words of the ring.
pub const RING_WORDS: usize = 1 << 17;
/// Where the ring begins, in bytes.
pub const RING_START: usize = PAGE_BYTES;
/// Size of a file.
pub const FILE_BYTES: usize = RING_START + RING_WORDS * size_of::<u64>();
/// Words of the first page: which process it is.
pub const PROCESS: usize = 1;
/// How many words the agent has written since the start.
pub const WRITTEN: usize = 2;
/// How many of them the command has read.
pub const READ: usize = 3;
/// Most words of an item.
pub const MOST_WORDS: usize = 3;

/// A part of the time, in millionths, that stands for no limit.
pub const UNLIMITED: u32 = u32::MAX;

const TAG_BITS: u32 = 3;

/// What an agent says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A page outside the window was touched.
    Touched {
        /// Its number: address / page size.
        page: u64,
        /// Whether this touch was a write.
        write: bool,
    },
    /// The epoch is over: from now on, all pages are outside the window.
    EpochEnded {
        /// Its length.
        ns: u64,
    },
    /// The contents of pages are gone.
    Dropped {
        /// The first of them.
        page: u64,
        /// How many.
        pages: u64,
    },
    /// Pages were unmapped.
    Unmapped {
        /// The first of them.
        page: u64,
        /// How many.
        pages: u64,
    },
    /// Pages were moved.
    Moved {
        /// The first of them.
        from: u64,
        /// Where it is now.
        to: u64,
        /// How many.
        pages: u64,
    },
    /// There is a new mapping, or the one that begins there has another length.
    Mapped {
        /// Its first page.
        page: u64,
        /// How many.
        pages: u64,
    },
    /// While a page that is touched is not mapped, its frame is at another place of the process.
    /// Said at the first touch that is recorded, and of a page with new contents again.
    Kept {
        /// Its number.
        page: u64,
        /// The page number of the other place.
        at: u64,
    },
}

impl Item {
    /// The item as words, and how many they are.
    pub fn encode(self) -> ([u64; MOST_WORDS], usize) {
        let first = |tag: u64, value: u64| tag | value << TAG_BITS;
        match self {
            Self::Touched { page, write } => ([first(u64::from(write), page), 0, 0], 1),
            Self::EpochEnded { ns } => ([first(2, ns), 0, 0], 1),
            Self::Dropped { page, pages } => ([first(3, page), pages, 0], 2),
            Self::Unmapped { page, pages } => ([first(4, page), pages, 0], 2),
            Self::Moved { from, to, pages } => ([first(5, from), to, pages], 3),
            Self::Mapped { page, pages } => ([first(6, page), pages, 0], 2),
            Self::Kept { page, at } => ([first(7, page), at, 0], 2),
        }
    }

    /// The first item of some words, and how many words it has. `None`: there is no whole item, or
    /// none at all.
    pub fn decode(words: &[u64]) -> Option<(Self, usize)> {
        let first = *words.first()?;
        let value = first >> TAG_BITS;
        let second = || words.get(1).copied();
        Some(match first & ((1 << TAG_BITS) - 1) {
            tag @ (0 | 1) => (Self::Touched { page: value, write: tag == 1 }, 1),
            2 => (Self::EpochEnded { ns: value }, 1),
            3 => (Self::Dropped { page: value, pages: second()? }, 2),
            4 => (Self::Unmapped { page: value, pages: second()? }, 2),
            5 => (Self::Moved { from: value, to: second()?, pages: *words.get(2)? }, 3),
            6 => (Self::Mapped { page: value, pages: second()? }, 2),
            _ => (Self::Kept { page: value, at: second()? }, 2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_items_round_trip() {
        let page = (1 << 35) - 1;
        let items = [
            Item::Touched { page, write: false },
            Item::Touched { page, write: true },
            Item::EpochEnded { ns: u64::MAX >> TAG_BITS },
            Item::Dropped { page, pages: 7 },
            Item::Unmapped { page, pages: 1 << 35 },
            Item::Moved { from: page, to: 3, pages: 9 },
            Item::Mapped { page: 1, pages: 2 },
            Item::Kept { page, at: page - 1 },
        ];
        for item in items {
            let (words, length) = item.encode();
            assert_eq!(Item::decode(&words[..length]), Some((item, length)));
            assert_eq!(Item::decode(&words[..length - 1]), None, "it is cut off");
        }
        assert_eq!(Item::decode(&[7]), None);
    }
}
