//! Lists of objects, with the bytes of each list.

use sweephand_policy::PageId;
use sweephand_policy::collections::Lists;

/// Three lists, of which an object is in one at most. Whoever puts it in or takes it out says how
/// many bytes it has.
#[derive(Debug)]
pub(super) struct ByteLists {
    lists: Lists<3>,
    bytes: [u64; 3],
}

impl ByteLists {
    pub(super) fn new() -> Self {
        Self { lists: Lists::new(), bytes: [0; 3] }
    }

    /// Puts an object at the back of a list.
    pub(super) fn push(&mut self, list: usize, object: PageId, bytes: u64) {
        self.lists.push_back(list, object);
        self.bytes[list] += bytes;
    }

    /// Takes an object out. Returns the list that it was in.
    pub(super) fn take(&mut self, object: PageId, bytes: u64) -> Option<usize> {
        let list = self.lists.remove(object)?;
        self.bytes[list] -= bytes;
        Some(list)
    }

    /// The oldest object of a list.
    pub(super) fn front(&self, list: usize) -> Option<PageId> {
        self.lists.front(list)
    }

    /// Objects in a list.
    pub(super) fn len(&self, list: usize) -> usize {
        self.lists.len(list)
    }

    /// Bytes in a list.
    pub(super) fn bytes(&self, list: usize) -> u64 {
        self.bytes[list]
    }
}
