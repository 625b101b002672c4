//! The way to the disk and what is there. Only `transfer` moves pages on it.

use crate::store::backing::Store;
use crate::store::io::Io;
use crate::store::staging::Staging;
use sweephand_pager_interface::readahead::ReadAhead;
use sweephand_pager_interface::readaround::ReadAround;

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Pages on their way, in either direction.
    pub(crate) staging: Staging,
    /// Which slot has which page.
    pub(crate) store: Store,
    /// Requests.
    pub(crate) io: Io,
    /// How far to read ahead.
    pub(crate) ahead: ReadAhead,
    /// How many neighbours to read with a page.
    pub(crate) around: ReadAround,
    /// Frames promised to pages that are being read.
    pub(crate) incoming: usize,
}
