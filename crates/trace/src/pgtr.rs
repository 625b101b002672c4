//! PGTR version 1, the stream the recorder sends: page addresses in one chain of differences.
//!
//! All integers are varints (7 bits a byte, low group first). Header: `PGTR`, byte 1 (version),
//! byte 12 (page shift), window K, flags (bit 0: instruction fetches are included, bit 1: pages
//! touched by system calls), length of the program's name, the name. Then records, each beginning
//! with a number v:
//!
//! * v even: a reference. Bit 1: write. v >> 2: zig-zag of the page number less that of the
//!   reference before (0 before the first).
//! * v odd: v >> 1 is an operation, followed by its operands:
//!
//! | v >> 1 | name  | operands |
//! |--------|-------|----------|
//! | 0      | END   | instructions, references, runs, records, objects, peak object bytes, pages touched by system calls |
//! | 1      | ALLOC | address, length, kind ([`AllocKind`]) |
//! | 2      | FREE  | address |
//! | 3      | MARK  | instructions and references since the last MARK |
//! | 4      | MAP   | first page, pages |
//! | 5      | UNMAP | first page, pages |
//! | 6      | REMAP | from page, to page, pages |
//! | 7      | PLACE | 1 + the number of the place that calls it or 0, length of a text, the text |
//! | 8      | MADE  | number of a place |
//! | 9      | CODE  | number of a place |
//! | 10     | NOTE  | length of a text, the text: a sentence on the recording |
//! | 11     | ARENA | first page, pages |
//! | 12     | SMALL | address, length, number of a place |
//! | 13     | GONE  | address |
//!
//! The first PLACE is number 0. Its text has a line for its function, and before it one for each
//! function that is inlined there, the innermost first: what Valgrind says of the code, a tab, the
//! file with the code, a tab, the address in that file in hexadecimal. MADE follows the ALLOC of an
//! object and says where it was made. CODE says which code makes the references that follow. An
//! allocator keeps small allocations in the pages of an ARENA. SMALL is one in some 1 KiB of them,
//! with the place that made it, and GONE says that it is freed.
//!
//! Nothing follows END, and END's count of records is what was counted, so that a stream cut off
//! anywhere is noticed. Page numbers fit an address space of 2^64 bytes: one that does not is
//! damage.

use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::places::{Collector, Frame};
use crate::small::Gathered;
use crate::varint::{self, Bad, unzigzag};
use crate::{AllocKind, EndTotals, Error, Sink};

/// The first four bytes.
pub(crate) const MAGIC: [u8; 4] = *b"PGTR";

const VERSION: u64 = 1;
const PAGE_SHIFT: u64 = 12;
/// Page numbers are below this.
const PAGES: u64 = 1 << (64 - PAGE_SHIFT);
/// Longest name of a program.
const MAX_NAME: u64 = 1 << 16;
/// Most operands an operation has.
const OPERANDS: usize = 7;
/// Longest record.
const MAX_RECORD: usize = (1 + OPERANDS) * varint::MAX_LENGTH;

const END: u64 = 0;
const ALLOC: u64 = 1;
const FREE: u64 = 2;
const MARK: u64 = 3;
const MAP: u64 = 4;
const UNMAP: u64 = 5;
const REMAP: u64 = 6;
const PLACE: u64 = 7;
const MADE: u64 = 8;
const CODE: u64 = 9;
const NOTE: u64 = 10;
const ARENA: u64 = 11;
const SMALL: u64 = 12;
const GONE: u64 = 13;

/// Longest text; the recorder's are at most a quarter of it.
const MAX_TEXT: u64 = 1 << 16;

/// Reads a stream into `sink`.
pub(crate) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    tolerate_missing_end: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut parser = Parser {
        stream,
        page: 0,
        records: 0,
        objects: 0,
        instructions: 0,
        places: Collector::default(),
        numbers: Vec::new(),
        of_objects: Vec::new(),
        code: None,
        small: Gathered::default(),
        notes: Vec::new(),
    };
    let mut imported = parser.header()?;
    sink.reduced_to(imported.window);
    let read = parser.records(sink, progress);
    let mut places = std::mem::take(&mut parser.places).finish();
    places.of_objects = std::mem::take(&mut parser.of_objects);
    places.small = std::mem::take(&mut parser.small).finish(&|place| places.line(place), parser.records);
    imported.places = Some(places).filter(|places| !places.is_empty());
    imported.notes.append(&mut parser.notes);
    match read {
        Ok(Some(end)) => {
            parser.stream.last_member("trace")?;
            imported.end = end;
        }
        Ok(None) if tolerate_missing_end => {
            imported.cut_short = Some("the recorder's stream ended without END");
        }
        Ok(None) => {
            let place = format!("after {} references, without the END record", parser.records);
            return Err(Error::truncated(parser.stream.offset(), place));
        }
        // Only the last record can be cut off, and it has not been acted upon.
        Err(Error::Truncated { .. }) if tolerate_missing_end => {
            imported.cut_short = Some("the recorder's stream ended inside a record");
        }
        Err(error) => return Err(error),
    }
    Ok(imported)
}

struct Parser<'a> {
    stream: ByteStream<'a>,
    /// The page referenced last.
    page: u64,
    /// References so far.
    records: u64,
    /// ALLOCs so far.
    objects: u64,
    /// Sum of the marks so far.
    instructions: u64,
    /// Places so far.
    places: Collector,
    /// By number in the stream: that of the place here.
    numbers: Vec<u32>,
    /// Where the objects so far were made.
    of_objects: Vec<Option<u32>>,
    /// The place of the code that makes the references.
    code: Option<u32>,
    /// What is known of small allocations.
    small: Gathered,
    /// Notes so far.
    notes: Vec<String>,
}

impl Parser<'_> {
    fn header(&mut self) -> Result<Imported, Error> {
        let stream = &mut self.stream;
        stream.join_compressed();
        stream.fill_to(MAGIC.len() + 5 * varint::MAX_LENGTH)?;
        let bytes = stream.buffered();
        if !bytes.starts_with(&MAGIC) {
            let place = "inside the header";
            return Err(match MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
                true => Error::truncated(bytes.len() as u64, place),
                false => Error::damaged(0, "a PGTR stream begins with \"PGTR\""),
            });
        }
        let mut at = MAGIC.len();
        let mut number = || {
            varint::get(bytes, &mut at).map_err(|bad| match bad {
                Bad::Truncated => Error::truncated(bytes.len() as u64, "inside the header"),
                _ => {
                    Error::damaged(MAGIC.len() as u64, "the header holds a number that does not fit 64 bits")
                }
            })
        };
        let [version, page_shift, window, flags, length] =
            [number()?, number()?, number()?, number()?, number()?];
        if version != VERSION {
            return Err(Error::damaged(4, format!("PGTR version {version}; this program reads version 1")));
        }
        if page_shift != PAGE_SHIFT {
            return Err(Error::damaged(5, format!("pages of 2^{page_shift} bytes; PGTR version 1 has 2^12")));
        }
        if length > MAX_NAME {
            return Err(Error::damaged(at as u64, "the program's name is longer than any name"));
        }
        stream.consume(at);
        stream.fill_to(length as usize)?;
        let Some(name) = stream.buffered().get(..length as usize) else {
            return Err(Error::truncated(
                stream.offset() + stream.buffered().len() as u64,
                "inside the header",
            ));
        };
        let program = String::from_utf8_lossy(name).into_owned();
        stream.consume(length as usize);
        Ok(Imported {
            program,
            page_size: 1 << PAGE_SHIFT,
            window,
            instruction_fetches: flags & 1 != 0,
            system_calls: flags & 2 != 0,
            source: "PGTR 1",
            ..Imported::default()
        })
    }

    /// Reads to the end of the stream. `None`: it ended between two records, without END.
    fn records(
        &mut self,
        sink: &mut impl Sink,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<EndTotals>, Error> {
        loop {
            self.references(sink)?;
            let bytes = self.stream.buffered();
            if bytes.len() < MAX_RECORD && !self.stream.ended() {
                self.stream.fill()?;
                progress(Progress {
                    bytes: self.stream.taken(),
                    records: self.records,
                    instructions: self.instructions,
                });
                continue;
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            // A control record, or the last few bytes of the stream.
            let mut at = 0;
            let v = varint::get(bytes, &mut at).map_err(|bad| self.bad(bad))?;
            if v & 1 == 0 {
                let page = self.next_page(self.page, v)?;
                self.page = page;
                self.stream.consume(at);
                if let Some(code) = self.code {
                    self.small.touch(page, code, self.records);
                }
                self.records += 1;
                sink.reference(page, v & 2 != 0)?;
            } else if let Some(end) = self.control(v >> 1, at, sink)? {
                return Ok(Some(end));
            }
        }
    }

    /// Reads references until there is a control record, or a record that could be cut off.
    #[inline]
    fn references(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let bytes = self.stream.buffered();
        let mut page = self.page;
        let mut at = 0;
        let mut records = 0;
        let mut failed = None;
        // No record of a reference is longer than a varint.
        while bytes.len() - at >= varint::MAX_LENGTH {
            let start = at;
            let Ok(v) = varint::get(bytes, &mut at) else { break };
            if v == CODE << 1 | 1 && bytes.len() - at >= varint::MAX_LENGTH {
                let number = varint::get(bytes, &mut at).ok().and_then(|n| self.numbers.get(n as usize));
                if let Some(place) = number {
                    self.code = Some(*place);
                    sink.code(*place);
                    continue;
                }
            }
            if v & 1 != 0 {
                at = start;
                break;
            }
            let next = page.wrapping_add(unzigzag(v >> 2) as u64);
            if next >= PAGES {
                at = start;
                break;
            }
            page = next;
            if let Some(code) = self.code {
                self.small.touch(page, code, self.records + records);
            }
            records += 1;
            if let Err(error) = sink.reference(page, v & 2 != 0) {
                failed = Some(error);
                break;
            }
        }
        self.page = page;
        self.records += records;
        self.stream.consume(at);
        failed.map_or(Ok(()), Err)
    }

    /// The page `v` names, after `page`.
    fn next_page(&self, page: u64, v: u64) -> Result<u64, Error> {
        let next = page.wrapping_add(unzigzag(v >> 2) as u64);
        if next < PAGES { Ok(next) } else { Err(self.wrong("a reference outside the address space")) }
    }

    /// Reads the operands, at `at`, of an operation, and does it. Gives the totals if it was END.
    fn control(
        &mut self,
        operation: u64,
        mut at: usize,
        sink: &mut impl Sink,
    ) -> Result<Option<EndTotals>, Error> {
        if operation == PLACE || operation == NOTE {
            return self.text(operation, at).map(|()| None);
        }
        let operands = match operation {
            END => 7,
            ALLOC | REMAP | SMALL => 3,
            MARK | MAP | UNMAP | ARENA => 2,
            FREE | MADE | CODE | GONE => 1,
            _ => return Err(self.wrong("an unknown operation")),
        };
        let mut v = [0; OPERANDS];
        for operand in &mut v[..operands] {
            *operand = varint::get(self.stream.buffered(), &mut at).map_err(|bad| self.bad(bad))?;
        }
        if operation == END {
            return self.end(at, v).map(Some);
        }
        self.act(operation, v, sink)?;
        self.stream.consume(at);
        Ok(None)
    }

    /// Does an operation that has been read whole.
    fn act(&mut self, operation: u64, v: [u64; OPERANDS], sink: &mut impl Sink) -> Result<(), Error> {
        match operation {
            ALLOC => {
                let kind =
                    AllocKind::from_code(v[2]).ok_or_else(|| self.wrong("an unknown kind of object"))?;
                if v[0].checked_add(v[1]).is_none() {
                    return Err(self.wrong("an object outside the address space"));
                }
                self.objects += 1;
                sink.alloc(v[0], v[1], kind)
            }
            FREE => sink.free(v[0]),
            MADE => self.made(v[0]),
            CODE => {
                let place = self.number(v[0])?;
                self.code = Some(place);
                sink.code(place);
                Ok(())
            }
            ARENA => {
                self.range(v[0], v[1])?;
                self.small.arena(v[0], v[1]);
                Ok(())
            }
            SMALL => {
                let place = self.number(v[2])?;
                if v[0].checked_add(v[1]).is_none() {
                    return Err(self.wrong("a small allocation outside the address space"));
                }
                self.small.came(v[0], v[1], place, self.records);
                Ok(())
            }
            GONE => {
                self.small.went(v[0], self.records);
                Ok(())
            }
            MARK => {
                self.instructions = self.instructions.saturating_add(v[0]);
                sink.mark(v[0], v[1])
            }
            MAP => {
                self.range(v[0], v[1])?;
                sink.map(v[0], v[1])
            }
            UNMAP => {
                self.range(v[0], v[1])?;
                sink.unmap(v[0], v[1])
            }
            REMAP => {
                self.range(v[0], v[2])?;
                self.range(v[1], v[2])?;
                sink.remap(v[0], v[1], v[2])
            }
            _ => unreachable!("`control` knows its operands"),
        }
    }

    /// Reads a place or a note, whose operands are at `at`.
    fn text(&mut self, operation: u64, mut at: usize) -> Result<(), Error> {
        let mut number = || varint::get(self.stream.buffered(), &mut at);
        let caller = if operation == PLACE { number() } else { Ok(0) }.map_err(|bad| self.bad(bad))?;
        let length = number().map_err(|bad| self.bad(bad))?;
        if length > MAX_TEXT {
            return Err(self.wrong("a text that is longer than any"));
        }
        let end = at + length as usize;
        self.stream.fill_to(end)?;
        let Some(text) = self.stream.buffered().get(at..end) else { return Err(self.bad(Bad::Truncated)) };
        let text = String::from_utf8_lossy(text).into_owned();
        if operation == NOTE {
            self.notes.push(text);
        } else {
            self.place(caller, &text)?;
        }
        self.stream.consume(end);
        Ok(())
    }

    /// Takes in a place that this place calls, if any: one more than its number.
    fn place(&mut self, caller: u64, text: &str) -> Result<(), Error> {
        let mut place = match caller.checked_sub(1) {
            Some(caller) => Some(self.number(caller)?),
            None => None,
        };
        for line in text.lines().rev() {
            let frame = Frame::parse(line).ok_or_else(|| self.wrong("a place that is no code"))?;
            place = Some(self.places.place(place, frame));
        }
        self.numbers.push(place.ok_or_else(|| self.wrong("a place without code"))?);
        Ok(())
    }

    /// The number here of a place of the stream.
    fn number(&self, place: u64) -> Result<u32, Error> {
        let number = usize::try_from(place).ok().and_then(|place| self.numbers.get(place));
        number.copied().ok_or_else(|| self.wrong("a place that has not come"))
    }

    /// The object allocated last was made at this place.
    fn made(&mut self, place: u64) -> Result<(), Error> {
        let place = self.number(place)?;
        let Some(object) = self.objects.checked_sub(1) else {
            return Err(self.wrong("a place of an object before the first"));
        };
        self.of_objects.resize(object as usize, None);
        self.of_objects.push(Some(place));
        Ok(())
    }

    fn range(&self, first: u64, pages: u64) -> Result<(), Error> {
        match first.checked_add(pages) {
            Some(end) if end <= PAGES => Ok(()),
            _ => Err(self.wrong("a range of pages outside the address space")),
        }
    }

    fn end(&mut self, at: usize, v: [u64; OPERANDS]) -> Result<EndTotals, Error> {
        let [instructions, references, runs, records, objects, peak_object_bytes, system_call_touches] = v;
        if records != self.records {
            return Err(
                self.wrong(format!("END counts {records} references, the stream has {}", self.records))
            );
        }
        if objects != self.objects {
            return Err(self.wrong(format!("END counts {objects} objects, the stream has {}", self.objects)));
        }
        self.stream.consume(at);
        self.stream.fill_to(1)?;
        if !self.stream.buffered().is_empty() {
            return Err(Error::damaged(self.stream.offset(), "the stream is over (END), and more follows"));
        }
        Ok(EndTotals {
            references: Some(references),
            runs: Some(runs),
            instructions: Some(instructions),
            peak_object_bytes: Some(peak_object_bytes),
            system_call_touches: Some(system_call_touches),
            ..EndTotals::default()
        })
    }

    fn bad(&self, bad: Bad) -> Error {
        match bad {
            Bad::Truncated => {
                let length = self.stream.offset() + self.stream.buffered().len() as u64;
                Error::truncated(length, format!("inside the record after reference {}", self.records))
            }
            _ => self.wrong("a number does not fit 64 bits"),
        }
    }

    /// Something is wrong with the record that begins where the stream stands.
    fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::record(self.records, self.stream.offset(), reason)
    }
}
