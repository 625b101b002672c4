//! The contents of a trace: references, and the events between them.
//!
//! A *reference* names a page by its **id**. Ids are `u32`, given out in the order in which pages
//! are first touched, so a simulation can keep all it knows about pages in plain arrays. An *event*
//! is anything else the program did that a memory manager would notice. Page *numbers* (address /
//! page size) occur only where an id begins ([`Chunk::new_pages`](crate::Chunk::new_pages)) or
//! changes its place ([`Event::Move`]).

use std::fmt;
use std::ops::Range;

/// The largest number of page ids a trace can use: an id and its write flag share 32 bits.
pub const MAX_PAGES: u32 = 1 << 31;

/// One reference, packed: page id << 1 | write.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PackedReference(u32);

impl PackedReference {
    /// A reference to `page`, which is below [`MAX_PAGES`].
    #[inline]
    pub const fn new(page: u32, write: bool) -> Self {
        debug_assert!(page < MAX_PAGES);
        Self(page << 1 | write as u32)
    }

    /// From its bits in memory. A page id that is too large would lose bits; the caller has checked
    /// it.
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// As it stands in memory.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The page id.
    #[inline]
    pub const fn page(self) -> u32 {
        self.0 >> 1
    }

    /// Whether the page was written to.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.0 & 1 != 0
    }
}

impl fmt::Debug for PackedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.page(), if self.is_write() { "w" } else { "r" })
    }
}

/// Something the program did between two references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An object came to be: bytes `address .. address + length`, not necessarily page aligned.
    Alloc {
        /// First byte.
        address: u64,
        /// Length in bytes; can be far more than the pages ever touched.
        length: u64,
        /// The call that made it.
        kind: AllocKind,
    },
    /// The object that began at `address` is gone. Its pages are not: see [`Event::Drop`].
    Free {
        /// First byte of the object.
        address: u64,
    },
    /// The program's progress since the mark before: about every million instructions.
    Mark {
        /// Instructions since the last mark.
        instructions: u64,
        /// References the program made since the last mark (before any collapsing or reduction).
        references: u64,
    },
    /// A mapping appeared (start-up, mmap, growing brk). For information.
    Map {
        /// First page number.
        first_page: u64,
        /// Number of pages.
        pages: u64,
    },
    /// The contents of these page ids are gone (munmap, shrinking brk, MADV_DONTNEED or FREE): the
    /// next touch is a zero-fill. Only pages that had contents are named. One unmapping of
    /// scattered ids makes several of these, in ascending order, at the same position.
    Drop {
        /// The ids; never empty.
        pages: Range<u32>,
    },
    /// This page id, contents and all, now lives at another page number (mremap).
    Move {
        /// The id.
        page: u32,
        /// Its new page number.
        to: u64,
    },
}

/// The call that made an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AllocKind {
    /// `malloc` or C++ `new`.
    Malloc = 0,
    /// `calloc`.
    Calloc = 1,
    /// `realloc`.
    Realloc = 2,
    /// `memalign`, `posix_memalign`, `aligned_alloc`.
    Memalign = 3,
    /// The program's own `mmap`.
    Mmap = 4,
    /// The program's own `mremap`.
    Mremap = 5,
}

impl AllocKind {
    /// Every kind, in the order of its code.
    pub const ALL: [AllocKind; 6] =
        [Self::Malloc, Self::Calloc, Self::Realloc, Self::Memalign, Self::Mmap, Self::Mremap];

    /// The kind with this code in PGTR and in our own format.
    pub fn from_code(code: u64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code).copied())
    }

    /// The code of this kind in PGTR and in our own format.
    pub const fn code(self) -> u64 {
        self as u64
    }

    /// The name of the call.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Calloc => "calloc",
            Self::Realloc => "realloc",
            Self::Memalign => "memalign",
            Self::Mmap => "mmap",
            Self::Mremap => "mremap",
        }
    }
}

impl fmt::Display for AllocKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
