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

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what it is given.
    #[derive(Debug, Default, PartialEq)]
    struct Taken {
        references: Vec<(u64, bool)>,
        marks: Vec<(u64, u64)>,
        unmapped: Vec<(u64, u64)>,
    }

    impl Sink for Taken {
        fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
            self.references.push((page_number, write));
            Ok(())
        }
        fn alloc(&mut self, _: u64, _: u64, _: AllocKind) -> Result<(), Error> {
            Ok(())
        }
        fn free(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }
        fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
            self.marks.push((instructions, references));
            Ok(())
        }
        fn map(&mut self, _: u64, _: u64) -> Result<(), Error> {
            Ok(())
        }
        fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
            self.unmapped.push((first_page, pages));
            Ok(())
        }
        fn remap(&mut self, _: u64, _: u64, _: u64) -> Result<(), Error> {
            Ok(())
        }
    }

    fn taken(fill: impl FnOnce(&mut Accesses<'_, Taken>)) -> Taken {
        let mut taken = Taken::default();
        fill(&mut Accesses::new(&mut taken));
        taken
    }

    #[test]
    fn an_access_touches_each_page_that_it_covers() {
        let taken = taken(|accesses| {
            accesses.access(4095, 1, false).unwrap();
            accesses.access(4095, 2, true).unwrap();
            accesses.access(8192, 8192, false).unwrap();
            accesses.access(8192, 8193, false).unwrap();
            accesses.access(8192, 0, false).unwrap();
            assert_eq!(accesses.counts(), (8, 0));
            assert!(accesses.access(u64::MAX, 2, false).is_err());
            accesses.access(u64::MAX, 1, false).unwrap();
        });
        let pages: Vec<_> = taken.references.iter().map(|(page, _)| *page).collect();
        assert_eq!(pages, [0, 0, 1, 2, 3, 2, 3, 4, u64::MAX >> 12]);
        assert_eq!(taken.references[..3], [(0, false), (0, true), (1, true)]);
    }

    #[test]
    fn a_page_has_512_bytes_to_a_gibibyte_and_keeps_its_size() {
        let taken = taken(|accesses| {
            for bytes in [0, 256, 513, 1 << 31] {
                assert!(accesses.set_page_size(bytes).is_err(), "{bytes}");
            }
            for bytes in [1 << 30, 512] {
                accesses.set_page_size(bytes).unwrap();
                assert_eq!(accesses.page_size(), bytes);
            }
            assert_eq!(accesses.pages_of_disk(), 1 << (52 - 9));
            accesses.access(1024, 1, false).unwrap();
            accesses.set_page_size(512).unwrap();
            assert!(accesses.set_page_size(4096).is_err(), "there are references to pages of 512 bytes");
        });
        assert_eq!(taken.references, [(2, false)]);
    }

    /// With pages of a gibibyte, whose numbers are small, at the limits of what a disk can have.
    #[test]
    fn a_request_has_less_than_4_gib_in_the_first_4_pib_of_a_disk() {
        let taken = taken(|accesses| {
            accesses.set_page_size(1 << 30).unwrap();
            let most = u64::from(u32::MAX);
            accesses.request(0, 0, most, false).unwrap();
            assert!(accesses.request(0, 0, most + 1, false).is_err());
            accesses.request(1, (1 << 52) - 513, 512, true).unwrap();
            assert!(accesses.request(1, (1 << 52) - 512, 512, true).is_err());
            // 22 bits number the pages of a disk, and 42 the disks.
            accesses.request((1 << 42) - 1, 0, 1, false).unwrap();
            assert!(accesses.request(1 << 42, 0, 1, false).is_err());
            accesses.request(7, 1, 0, false).unwrap();
            assert_eq!(accesses.counts(), (6, 0));
            assert_eq!(accesses.split_offset((3 << 52) + 5), (3, 5));
        });
        let (first, last) = (1 << 22, u64::MAX - ((1 << 22) - 1));
        let expected = [(0, false), (1, false), (2, false), (3, false), (2 * first - 1, true), (last, false)];
        assert_eq!(taken.references, expected);
    }

    #[test]
    fn only_whole_pages_lose_their_contents() {
        let taken = taken(|accesses| {
            accesses.discard(0, 1, 4095).unwrap();
            accesses.discard(0, 1, 8191).unwrap();
            accesses.discard(1, 4096, 8192).unwrap();
            accesses.drop_contents(4095, 4097).unwrap();
            accesses.drop_contents(4095, 4096).unwrap();
            accesses.drop_contents(4096, 4095).unwrap();
            accesses.end_object(0, 12_288).unwrap();
        });
        assert_eq!(taken.unmapped, [(1, 1), ((1 << 40) + 1, 2), (1, 1), (0, 3)]);
    }

    /// A mark after each million of instructions, with the references since the mark before, and
    /// one for the rest.
    #[test]
    fn marks_tell_what_happened_since_the_mark_before() {
        let mut taken = Taken::default();
        let mut accesses = Accesses::new(&mut taken);
        for instruction in 0..2_500_000_u64 {
            if instruction.is_multiple_of(1_000_000) {
                accesses.access(0, 1 + instruction / 1_000_000 * 4096, false).unwrap();
            }
            accesses.instruction().unwrap();
        }
        let end = accesses.finish("a log").unwrap();
        assert_eq!((end.references, end.instructions), (Some(6), Some(2_500_000)));
        assert_eq!(taken.marks, [(1_000_000, 1), (1_000_000, 2), (500_000, 3)]);
    }

    #[test]
    fn input_without_instructions_has_no_marks_and_without_references_is_an_error() {
        let mut taken = Taken::default();
        let mut accesses = Accesses::new(&mut taken);
        accesses.access(0, 1, false).unwrap();
        assert_eq!(accesses.finish("a log").unwrap().instructions, None);
        assert_eq!(taken.marks, []);
        let error = Accesses::new(&mut taken).finish("a log").unwrap_err().to_string();
        assert!(error.contains("a log without a single reference"), "{error}");
    }

    #[test]
    fn disks_are_numbered_in_the_order_of_their_names() {
        let mut disks = Disks::default();
        assert_eq!(["b", "a", "b", "c"].map(|name| disks.number(name.as_bytes())), [0, 1, 0, 2]);
    }
}
