//! Which kind of pool.

use super::size_classes::SizeClass;

/// What compressed pages are kept by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TierKind {
    /// A cache in front of the disk. Full, it writes back what was evicted first.
    Zswap {
        /// 100: there is always room for the page that comes. Less: a page for which there is none
        /// goes to the disk, and the pool is written back down to this part of its limit. The
        /// kernel's default is 90.
        accept_percent: u8,
    },
    /// A swap device used before the disk. Full, it turns pages away.
    Zram {
        /// The kernel's `disksize`: pages before compression, in percent of all memory. Without
        /// it, only the memory that the pool takes is limited.
        disksize_percent: Option<u32>,
    },
}

impl TierKind {
    /// Whether a split can follow what a program does: the pool gives back memory when it has to.
    pub fn adapts(self) -> bool {
        self == Self::Zswap { accept_percent: 100 }
    }

    /// Whether the pool has a page of a class compressed. zram keeps pages of the huge class whole.
    pub(super) fn compresses(self, class: SizeClass) -> bool {
        match self {
            Self::Zswap { .. } => !class.is_empty(),
            Self::Zram { .. } => !class.is_empty() && !class.is_huge(),
        }
    }

    /// Whether pages whose words are all equal count in the pool: they take a place of zram's
    /// `disksize`.
    pub(super) fn counts_same_filled(self) -> bool {
        matches!(self, Self::Zram { disksize_percent: Some(_) })
    }
}
