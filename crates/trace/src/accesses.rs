//! Accesses to bytes, of memory or of a disk, as references to pages.

use rustc_hash::FxHashMap;

use crate::lines::Refused;
use crate::{AllocKind, EndTotals, Error, Sink};

/// Instructions between two marks: what the recorder has.
const MARK_INSTRUCTIONS: u64 = 1_000_000;

/// Page size where a format does not say: 4 KiB.
const PAGE_SHIFT: u32 = 12;

/// Bytes of address space for each disk: 4 PiB.
const UNIT_SHIFT: u32 = 52;

/// One request cannot be for more bytes: in traces of disks a larger one is damage.
const REQUEST_BYTES: u64 = u32::MAX as u64;

/// Numbers of disks, or of files, in the order in which their names appear.
#[derive(Default)]
pub(crate) struct Disks(FxHashMap<Vec<u8>, u64>);

impl Disks {
    pub(crate) fn number(&mut self, name: &[u8]) -> u64 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as u64;
        self.0.insert(name.to_vec(), number);
        number
    }
}

/// Turns accesses into references. An access touches each page that it covers once, in ascending
/// order; one of no bytes touches none.
pub(crate) struct Accesses<'a, S> {
    sink: &'a mut S,
    page_shift: u32,
    /// References made.
    references: u64,
    /// Instructions executed.
    instructions: u64,
    /// References and instructions at the last mark.
    marked: (u64, u64),
}

impl<'a, S: Sink> Accesses<'a, S> {
    pub(crate) fn new(sink: &'a mut S) -> Self {
        Self { sink, page_shift: PAGE_SHIFT, references: 0, instructions: 0, marked: (0, 0) }
    }

    pub(crate) fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    /// Pages of address space for each disk.
    pub(crate) fn pages_of_disk(&self) -> u64 {
        1 << (UNIT_SHIFT - self.page_shift)
    }

    /// The input says how large a page is: a power of two, the same before the first reference and
    /// ever after.
    pub(crate) fn set_page_size(&mut self, bytes: u64) -> Result<(), &'static str> {
        if !bytes.is_power_of_two() || !(512..=1 << 30).contains(&bytes) {
            return Err("not the size of a page");
        }
        if self.references > 0 && bytes != self.page_size() {
            return Err("another page size than that of the references before");
        }
        self.page_shift = bytes.trailing_zeros();
        Ok(())
    }

    /// `bytes` bytes from `address` on are read or written.
    #[inline]
    pub(crate) fn access(&mut self, address: u64, bytes: u64, write: bool) -> Result<(), Refused> {
        let Some(more) = bytes.checked_sub(1) else { return Ok(()) };
        let last = address.checked_add(more).ok_or("an access past the end of the address space")?;
        for page in address >> self.page_shift..=last >> self.page_shift {
            self.sink.reference(page, write)?;
            self.references += 1;
        }
        Ok(())
    }

    /// What follows happens at this time, in milliseconds.
    #[inline]
    pub(crate) fn time(&mut self, milliseconds: i64) {
        self.sink.time(milliseconds);
    }

    /// Objects that are loaded from here on live for this many milliseconds. 0 is for ever.
    #[inline]
    pub(crate) fn time_to_live(&mut self, milliseconds: u64) {
        self.sink.time_to_live(milliseconds);
    }

    /// An object of `bytes` bytes begins at `address`.
    pub(crate) fn begin_object(&mut self, address: u64, bytes: u64) -> Result<(), Error> {
        self.sink.alloc(address, bytes, AllocKind::Malloc)
    }

    /// The object at `address` is gone, with its contents, which took `bytes` bytes.
    pub(crate) fn end_object(&mut self, address: u64, bytes: u64) -> Result<(), Error> {
        self.sink.free(address)?;
        self.drop_contents(address, bytes)
    }

    /// `bytes` bytes from byte `offset` of a disk on are read or written. Each disk has its own
    /// pages.
    pub(crate) fn request(&mut self, disk: u64, offset: u64, bytes: u64, write: bool) -> Result<(), Refused> {
        let Some(more) = bytes.checked_sub(1) else { return Ok(()) };
        let first = self.first_page_of_disk(disk, offset, bytes)?;
        for page in offset >> self.page_shift..=(offset + more) >> self.page_shift {
            self.sink.reference(first + page, write)?;
            self.references += 1;
        }
        Ok(())
    }

    /// How often the address space of a disk fits before this offset, and where it is in the rest.
    pub(crate) fn split_offset(&self, offset: u64) -> (u64, u64) {
        (offset >> UNIT_SHIFT, offset & ((1 << UNIT_SHIFT) - 1))
    }

    /// The contents of `bytes` bytes from byte `offset` of a disk on are gone. Pages of which that
    /// holds in part only stay.
    pub(crate) fn discard(&mut self, disk: u64, offset: u64, bytes: u64) -> Result<(), Refused> {
        let disk = self.first_page_of_disk(disk, offset, bytes)?;
        let (first, end) = (offset.div_ceil(self.page_size()), (offset + bytes) >> self.page_shift);
        if first < end { Ok(self.sink.unmap(disk + first, end - first)?) } else { Ok(()) }
    }

    /// The contents of the whole pages among `bytes` bytes from `address` on are gone.
    pub(crate) fn drop_contents(&mut self, address: u64, bytes: u64) -> Result<(), Error> {
        let first = address.div_ceil(self.page_size());
        let end = address.saturating_add(bytes) >> self.page_shift;
        if first < end { self.sink.unmap(first, end - first) } else { Ok(()) }
    }

    /// The first page of a disk on which there is a request. Disks have ranges of page numbers, not
    /// of addresses: there are 2^64 numbers, and so more disks.
    fn first_page_of_disk(&self, disk: u64, offset: u64, bytes: u64) -> Result<u64, Refused> {
        if bytes > REQUEST_BYTES {
            return Err("a request for 4 GiB or more".into());
        }
        if offset >= (1 << UNIT_SHIFT) - bytes {
            return Err("a request behind the first 4 PiB of a disk".into());
        }
        if disk >= 1 << (u64::BITS - UNIT_SHIFT + self.page_shift) {
            return Err("a disk beyond those that there are page numbers for".into());
        }
        Ok(disk << (UNIT_SHIFT - self.page_shift))
    }

    /// An instruction has been executed.
    #[inline]
    pub(crate) fn instruction(&mut self) -> Result<(), Error> {
        self.instructions += 1;
        if self.instructions - self.marked.1 == MARK_INSTRUCTIONS { self.mark() } else { Ok(()) }
    }

    fn mark(&mut self) -> Result<(), Error> {
        let (references, instructions) = self.marked;
        self.marked = self.counts();
        self.sink.mark(self.instructions - instructions, self.references - references)
    }

    /// References and instructions so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.references, self.instructions)
    }

    /// That was all. `what` the input has been taken for is for the error if there was no reference
    /// in it.
    pub(crate) fn finish(mut self, what: &str) -> Result<EndTotals, Error> {
        if self.references == 0 {
            return Err(Error::unrecognised(format!("{what} without a single reference")));
        }
        if self.instructions > self.marked.1 {
            self.mark()?;
        }
        let instructions = (self.instructions > 0).then_some(self.instructions);
        Ok(EndTotals { references: Some(self.references), instructions, ..EndTotals::default() })
    }
}
