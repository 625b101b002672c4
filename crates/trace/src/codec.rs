//! Encodes a [`Chunk`] as the raw chunk of [`crate::format`] and decodes it.
//!
//! Every simulation pays for decoding. So decoding works on blocks of 64 references, through arrays
//! on the stack. It puts byte planes together and undoes the zig-zag coding (vectorised), adds up
//! the differences (serial: one addition a reference), and joins the result with 64 write flags and
//! the running maximum (vectorised). The largest id is compared once a chunk. Nothing here is
//! `unsafe`. Every count is checked against the bytes that are there before memory is allocated.

use std::io;
use std::ops::Range;

use zstd::bulk::Compressor;

use crate::format::{CHUNK_EVENTS, CHUNK_REFERENCES};
use crate::varint::{self, Bad, put, unzigzag, zigzag};
use crate::{AllocKind, Chunk, Event, MAX_PAGES, PackedReference};

const PLANES: u8 = 0b0000_0111;
const ABSOLUTE: u8 = 0b0000_1000;
const WRITES: u8 = 0b0001_0000;
const CODE: u8 = 0b0010_0000;
/// Columns of times and of times to live.
const TIMES: [u8; 2] = [0b0100_0000, 0b1000_0000];

/// The zstd level samples are tried at.
const TRIAL_LEVEL: i32 = 1;

/// References in the middle of a chunk that decide how its ids are stored. `lab/bench/throughput`
/// says what the choice saves.
const TRIAL_REFERENCES: usize = 1 << 16;

/// References decoded at a time: one word of write flags.
const BLOCK: usize = 64;

/// What is wrong with a raw chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Bad> for Malformed {
    fn from(bad: Bad) -> Self {
        Self(match bad {
            Bad::Truncated => "a number is cut off",
            Bad::Overflow => "a number does not fit 64 bits",
            Bad::Overlong => "a number is longer than it need be",
        })
    }
}

type Result<T> = std::result::Result<T, Malformed>;

/// Zig-zag code of the difference of two page ids.
#[inline]
const fn difference(from: u32, to: u32) -> u32 {
    let d = to.wrapping_sub(from) as i32;
    ((d << 1) ^ (d >> 31)) as u32
}

/// Encodes chunks.
pub(crate) struct Encoder {
    /// Page ids as they will be stored.
    codes: Vec<u32>,
    /// For trying both ways on a sample.
    trial: Compressor<'static>,
    planes: Vec<u8>,
    compressed: Vec<u8>,
    /// Where the columns of the last chunk end, but for the last of them.
    ends: Vec<usize>,
}

impl Encoder {
    pub(crate) fn new() -> io::Result<Self> {
        let trial = Compressor::new(TRIAL_LEVEL)?;
        let (codes, planes, compressed, ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { codes, trial, planes, compressed, ends })
    }

    /// Where the columns of the chunk encoded last end, but for the last of them: its head, and
    /// each of its byte planes.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Replaces `raw` by the raw form of `chunk`.
    pub(crate) fn encode(&mut self, chunk: &Chunk, raw: &mut Vec<u8>) {
        raw.clear();
        let references = &chunk.references;
        let written = references.iter().any(|r| r.is_write());
        let absolute = self.prefers_absolute(references);
        self.codes.clear();
        codes(references, absolute, &mut self.codes);
        let planes = planes(&self.codes);

        put(raw, references.len() as u64);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let has_code = flag(!chunk.code.is_empty(), CODE);
        let times = [&chunk.times, &chunk.times_to_live];
        let [has_times, has_times_to_live] =
            [0, 1].map(|column| flag(!times[column].is_empty(), TIMES[column]));
        let has = has_code | has_times | has_times_to_live;
        raw.push(planes | flag(absolute, ABSOLUTE) | flag(written, WRITES) | has);
        put(raw, chunk.new_pages.len() as u64);
        put(raw, chunk.events.len() as u64);
        self.ends.clear();
        self.ends.extend((0..=usize::from(planes)).map(|plane| raw.len() + plane * references.len()));
        split(&self.codes, planes, raw);
        if written {
            raw.extend(references.chunks(8).map(|eight| {
                eight.iter().enumerate().fold(0, |bits, (i, r)| bits | (u8::from(r.is_write()) << i))
            }));
        }
        let mut previous = 0u64;
        for &page in &chunk.new_pages {
            put(raw, zigzag(page.wrapping_sub(previous) as i64));
            previous = page;
        }
        let mut previous = 0;
        for (position, event) in &chunk.events {
            put(raw, u64::from(position - previous));
            previous = *position;
            encode_event(event, raw);
        }
        for times in times.into_iter().filter(|times| !times.is_empty()) {
            let mut column = Vec::new();
            encode_times(times, &mut column);
            put(raw, column.len() as u64);
            raw.extend_from_slice(&column);
        }
        if has_code != 0 {
            encode_code(&chunk.code, raw);
        }
    }

    /// Whether plain ids compress better than differences, as far as a sample tells.
    fn prefers_absolute(&mut self, references: &[PackedReference]) -> bool {
        let middle = (references.len() / 2).saturating_sub(TRIAL_REFERENCES / 2);
        let sample = &references[middle..references.len().min(middle + TRIAL_REFERENCES)];
        let [as_ids, as_differences] = [true, false].map(|absolute| {
            self.codes.clear();
            self.planes.clear();
            codes(sample, absolute, &mut self.codes);
            split(&self.codes, planes(&self.codes), &mut self.planes);
            self.compressed.clear();
            self.compressed.reserve(zstd::zstd_safe::compress_bound(self.planes.len()));
            self.trial.compress_to_buffer(&self.planes, &mut self.compressed).unwrap_or(usize::MAX)
        });
        as_ids <= as_differences
    }
}

/// Appends page ids as they are, or as zig-zag differences.
fn codes(references: &[PackedReference], absolute: bool, codes: &mut Vec<u32>) {
    if absolute {
        codes.extend(references.iter().map(|r| r.page()));
    } else {
        codes.extend(references.first().map(|r| difference(0, r.page())));
        codes.extend(references.windows(2).map(|pair| difference(pair[0].page(), pair[1].page())));
    }
}

/// The number of byte planes the largest code needs.
fn planes(codes: &[u32]) -> u8 {
    let all = codes.iter().fold(0, |all, code| all | code);
    (32 - all.leading_zeros()).div_ceil(8) as u8
}

/// Appends byte planes.
fn split(codes: &[u32], planes: u8, out: &mut Vec<u8>) {
    for plane in 0..planes {
        out.extend(codes.iter().map(|code| (code >> (8 * plane)) as u8));
    }
}

pub(crate) fn encode_event(event: &Event, raw: &mut Vec<u8>) {
    let mut operands = |kind: u8, operands: &[u64]| {
        raw.push(kind);
        operands.iter().for_each(|operand| put(raw, *operand));
    };
    match event {
        Event::Alloc { address, length, kind } => operands(0, &[*address, *length, kind.code()]),
        Event::Free { address } => operands(1, &[*address]),
        Event::Mark { instructions, references } => operands(2, &[*instructions, *references]),
        Event::Map { first_page, pages } => operands(3, &[*first_page, *pages]),
        Event::Drop { pages } => operands(4, &[pages.start.into(), u64::from(pages.end - pages.start) - 1]),
        Event::Move { page, to } => operands(5, &[u64::from(*page), *to]),
    }
}

fn encode_code(code: &[(u32, u32)], raw: &mut Vec<u8>) {
    put(raw, code.len() as u64);
    let mut previous = 0;
    for (position, place) in code {
        put(raw, u64::from(position - previous));
        put(raw, u64::from(*place));
        previous = *position;
    }
}

fn encode_times(times: &[(u32, i64)], raw: &mut Vec<u8>) {
    put(raw, times.len() as u64);
    let mut previous = (0, 0i64);
    for (position, time) in times {
        put(raw, u64::from(position - previous.0));
        put(raw, zigzag(time.wrapping_sub(previous.1)));
        previous = (*position, *time);
    }
}

/// Decodes a column of times. `references`: those of the chunk.
fn decode_times(raw: &[u8], references: usize) -> Result<Vec<(u32, i64)>> {
    let mut at = 0;
    let changes = count(raw, &mut at, references, "more changes of time than references")?;
    let mut times: Vec<(u32, i64)> = Vec::with_capacity(changes);
    for _ in 0..changes {
        let step = varint::get_shortest(raw, &mut at)?;
        let (before, time) = times.last().map_or((0, 0), |(position, time)| (u64::from(*position), *time));
        let position = before.saturating_add(step);
        if position >= references as u64 || (step == 0 && !times.is_empty()) {
            return Err(Malformed("a time of no reference"));
        }
        let difference = unzigzag(varint::get_shortest(raw, &mut at)?);
        times.push((position as u32, time.wrapping_add(difference)));
    }
    if times.is_empty() || at != raw.len() {
        return Err(Malformed("bytes left over behind the times"));
    }
    Ok(times)
}

/// Decodes the column of code at this place of a raw chunk. `references`: those of the chunk.
pub(crate) fn decode_code(raw: &[u8], mut at: usize, references: usize) -> Result<Vec<(u32, u32)>> {
    let changes = count(raw, &mut at, references, "more changes of code than references")?;
    let mut code: Vec<(u32, u32)> = Vec::with_capacity(changes);
    for _ in 0..changes {
        let step = varint::get_shortest(raw, &mut at)?;
        let position = code.last().map_or(0, |(position, _)| u64::from(*position)).saturating_add(step);
        if position >= references as u64 || (step == 0 && !code.is_empty()) {
            return Err(Malformed("code of no reference"));
        }
        let place = u32::try_from(varint::get_shortest(raw, &mut at)?);
        code.push((position as u32, place.map_err(|_| Malformed("a place that cannot be"))?));
    }
    if code.is_empty() || at != raw.len() {
        return Err(Malformed("bytes left over at the end"));
    }
    Ok(code)
}

impl Chunk {
    /// Which code makes the references: each change of it, as the number of references of this
    /// chunk before it and the [place](crate::places) from there on. Empty if the trace does not
    /// say. The error says what is wrong with the chunk.
    pub fn code(&self) -> std::result::Result<Vec<(u32, u32)>, &'static str> {
        let Some(at) = self.code_from else { return Ok(self.code.clone()) };
        decode_code(&self.scratch.raw, at, self.references.len()).map_err(|malformed| malformed.0)
    }

    /// When references are made: each change of the time, as the number of references of this chunk
    /// before it and the milliseconds of the trace's clock from there on. Empty if the trace does
    /// not say. The error says what is wrong with the chunk.
    pub fn times(&self) -> std::result::Result<Vec<(u32, i64)>, &'static str> {
        let times = self.column_of_times(0, &self.times)?;
        if times.windows(2).any(|pair| pair[0].1 > pair[1].1) {
            return Err("its times go back");
        }
        Ok(times)
    }

    /// How long an object lives that a reference loads: each change of it, as the number of
    /// references of this chunk before it and the milliseconds from there on. 0 is for ever. Empty
    /// if the trace does not say. The error says what is wrong with the chunk.
    pub fn times_to_live(&self) -> std::result::Result<Vec<(u32, i64)>, &'static str> {
        let times = self.column_of_times(1, &self.times_to_live)?;
        if times.iter().any(|(_, time)| *time < 0) {
            return Err("a time to live is below 0");
        }
        Ok(times)
    }

    fn column_of_times(
        &self,
        column: usize,
        written: &[(u32, i64)],
    ) -> std::result::Result<Vec<(u32, i64)>, &'static str> {
        let Some(range) = self.times_at[column].clone() else { return Ok(written.to_vec()) };
        decode_times(&self.scratch.raw[range], self.references.len()).map_err(|malformed| malformed.0)
    }
}

/// Decodes `raw`, but for the columns of code and of times: few ask for them. `chunk` has been
/// restarted where the chunk before it ended, or at its index entry.
pub(crate) fn decode(raw: &[u8], chunk: &mut Chunk) -> Result<()> {
    let mut at = 0;
    let references = count(raw, &mut at, CHUNK_REFERENCES, "too many references")?;
    let flags = *raw.get(at).ok_or(Bad::Truncated)?;
    at += 1;
    let new_pages = count(raw, &mut at, references, "more new pages than references")?;
    let events = count(raw, &mut at, CHUNK_EVENTS, "too many events")?;
    let planes = usize::from(flags & PLANES);
    if planes > 4 {
        return Err(Malformed("more byte planes than an id has bytes"));
    }
    let pages = chunk.pages as usize + new_pages;
    if pages > MAX_PAGES as usize {
        return Err(Malformed("too many pages"));
    }
    chunk.pages = pages as u32;

    let ids = take(raw, &mut at, planes * references)?;
    let writes = if flags & WRITES != 0 { take(raw, &mut at, references.div_ceil(8))? } else { &[] };
    decode_references(ids, writes, references, planes, flags & ABSOLUTE != 0, chunk)?;
    if flags & WRITES != 0 {
        let spare = writes.last().map_or(0, |last| (*last >> ((references - 1) % 8)) >> 1);
        if spare != 0 || writes.iter().all(|byte| *byte == 0) {
            return Err(Malformed("spare write flags"));
        }
    }
    if planes > 0 && ids[(planes - 1) * references..].iter().all(|byte| *byte == 0) {
        return Err(Malformed("more byte planes than needed"));
    }

    let mut previous = 0u64;
    for _ in 0..new_pages {
        previous = previous.wrapping_add(unzigzag(varint::get_shortest(raw, &mut at)?) as u64);
        chunk.new_pages.push(previous);
    }
    let mut position = 0;
    for _ in 0..events {
        position += varint::get_shortest(raw, &mut at)?.min(1 << 32);
        if position > references as u64 {
            return Err(Malformed("an event lies outside its chunk"));
        }
        let event = decode_event(raw, &mut at, chunk.pages)?;
        chunk.events.push((position as u32, event));
    }
    for column in (0..TIMES.len()).filter(|column| flags & TIMES[*column] != 0) {
        let length = count(raw, &mut at, raw.len(), "a column is cut off")?;
        take(raw, &mut at, length)?;
        chunk.times_at[column] = Some(at - length..at);
    }
    if flags & CODE != 0 {
        chunk.code_from = Some(at);
        return Ok(());
    }
    if at == raw.len() { Ok(()) } else { Err(Malformed("bytes left over at the end")) }
}

fn count(raw: &[u8], at: &mut usize, limit: usize, reason: &'static str) -> Result<usize> {
    let count = varint::get_shortest(raw, at)?;
    if count <= limit as u64 { Ok(count as usize) } else { Err(Malformed(reason)) }
}

fn take<'a>(raw: &'a [u8], at: &mut usize, length: usize) -> Result<&'a [u8]> {
    let bytes = raw.get(*at..*at + length).ok_or(Malformed("a column is cut off"))?;
    *at += length;
    Ok(bytes)
}

fn decode_references(
    ids: &[u8],
    writes: &[u8],
    n: usize,
    planes: usize,
    absolute: bool,
    chunk: &mut Chunk,
) -> Result<()> {
    let out = &mut chunk.references;
    out.resize(n, PackedReference::new(0, false));
    // `resize` leaves what a longer chunk before this one had; every place is overwritten below.
    let plane = |i: usize| if i < planes { &ids[i * n..(i + 1) * n] } else { &[] };
    let planes_of = [plane(0), plane(1), plane(2), plane(3)];
    let largest = match (planes, absolute) {
        (0, _) => columns::<0, true>(planes_of, writes, out),
        (1, false) => columns::<1, false>(planes_of, writes, out),
        (2, false) => columns::<2, false>(planes_of, writes, out),
        (3, false) => columns::<3, false>(planes_of, writes, out),
        (_, false) => columns::<4, false>(planes_of, writes, out),
        (1, true) => columns::<1, true>(planes_of, writes, out),
        (2, true) => columns::<2, true>(planes_of, writes, out),
        (3, true) => columns::<3, true>(planes_of, writes, out),
        (_, true) => columns::<4, true>(planes_of, writes, out),
    };
    if n > 0 && largest >= chunk.pages {
        return Err(Malformed("a page id that no page has"));
    }
    Ok(())
}

/// Joins `P` byte planes and the write flags; gives the largest id.
fn columns<const P: usize, const ABSOLUTE: bool>(
    planes: [&[u8]; 4],
    writes: &[u8],
    out: &mut [PackedReference],
) -> u32 {
    let mut sum = 0u32;
    let mut largest = 0u32;
    let mut block = |start: usize, out: &mut [PackedReference], flags: u64| {
        let n = out.len();
        let mut codes = [0u32; BLOCK];
        for (i, plane) in planes.iter().enumerate().take(P) {
            for (code, byte) in codes.iter_mut().zip(&plane[start..start + n]) {
                *code |= u32::from(*byte) << (8 * i);
            }
        }
        if !ABSOLUTE {
            for code in &mut codes {
                *code = (*code >> 1) ^ (*code & 1).wrapping_neg();
            }
            for code in &mut codes {
                sum = sum.wrapping_add(*code);
                *code = sum;
            }
        }
        for (i, (out, id)) in out.iter_mut().zip(codes).enumerate() {
            largest = largest.max(id);
            *out = PackedReference::from_bits(id << 1 | (flags >> i) as u32 & 1);
        }
    };
    let whole = out.len() / BLOCK;
    let (blocks, rest) = out.split_at_mut(whole * BLOCK);
    for (b, out) in blocks.chunks_exact_mut(BLOCK).enumerate() {
        block(b * BLOCK, out, flags(writes, b));
    }
    if !rest.is_empty() {
        block(whole * BLOCK, rest, flags(writes, whole));
    }
    largest
}

/// The write flags of block `b`, of which the last may be short.
#[inline]
fn flags(writes: &[u8], b: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(bytes) = writes.get(8 * b..) {
        let n = bytes.len().min(8);
        word[..n].copy_from_slice(&bytes[..n]);
    }
    u64::from_le_bytes(word)
}

fn decode_event(raw: &[u8], at: &mut usize, pages: u32) -> Result<Event> {
    let kind = *raw.get(*at).ok_or(Bad::Truncated)?;
    *at += 1;
    let mut operand = || varint::get_shortest(raw, at).map_err(Malformed::from);
    let id =
        |id: u64| if id < u64::from(pages) { Ok(id as u32) } else { Err(Malformed("an event of no page")) };
    Ok(match kind {
        0 => {
            let (address, length) = (operand()?, operand()?);
            let kind = AllocKind::from_code(operand()?).ok_or(Malformed("an unknown kind of object"))?;
            address.checked_add(length).ok_or(Malformed("an object past the end of the address space"))?;
            Event::Alloc { address, length, kind }
        }
        1 => Event::Free { address: operand()? },
        2 => Event::Mark { instructions: operand()?, references: operand()? },
        3 => {
            let (first_page, pages) = (operand()?, operand()?);
            first_page.checked_add(pages).ok_or(Malformed("a mapping past the end of the address space"))?;
            Event::Map { first_page, pages }
        }
        4 => {
            let first = id(operand()?)?;
            let last = id(operand()?.saturating_add(u64::from(first)))?;
            Event::Drop { pages: Range { start: first, end: last + 1 } }
        }
        5 => Event::Move { page: id(operand()?)?, to: operand()? },
        _ => return Err(Malformed("an unknown event")),
    })
}
