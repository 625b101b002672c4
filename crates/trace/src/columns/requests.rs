//! The values of a row, as references to pages.

use std::{fmt, io};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use super::description::{Column, Columns, ROLES, Role};
use crate::accesses::Accesses;
use crate::imported::Imported;
use crate::lines::Refused;
use crate::tenants::Tenants;
use crate::{Error, Sink};

/// A row cannot stand for more requests: in a log, a larger count is damage.
pub(super) const MOST_COUNT: u64 = 1_000_000;

/// No object lives longer: some 30,000 years. Further numbers are other things.
const MOST_SECONDS: f64 = 1e12;

/// Addresses that an object has to itself where objects have sizes: as many as a size can say.
const OBJECT_SHIFT: u32 = 32;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// The row has none.
    Absent,
    Text(&'a [u8]),
    Number(u64),
    Real(f64),
    /// A floating-point number so large that several whole ones are the same.
    Rounded(f64),
}

impl Value<'_> {
    /// A float. Tables that know no absent whole numbers have NaN in their place.
    pub(super) fn single(number: f32) -> Self {
        Self::floating(number.into(), WHOLE_SINGLE)
    }

    /// A double.
    pub(super) fn double(number: f64) -> Self {
        Self::floating(number, WHOLE_DOUBLE)
    }

    fn floating(number: f64, whole_to: f64) -> Self {
        match number {
            number if number.is_nan() => Self::Absent,
            number if number.abs() > whole_to => Self::Rounded(number),
            number => Self::Real(number),
        }
    }
}

/// The hash of a key or a tenant: 96 bits. With its number it takes 16 bytes, so that a look-up
/// costs one cache miss.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name([u32; 3]);

/// The values of a row, by [`Role`].
pub(super) type Row<'a> = [Value<'a>; ROLES];

/// Keeps a row and its time.
pub(super) type Keep<'a> = &'a mut dyn FnMut(f64, &Row<'_>) -> io::Result<()>;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    /// The contents are gone.
    Delete,
}

impl Op {
    const WORDS: [(Op, &'static [&'static str]); 3] = [
        (
            Self::Read,
            &["r", "rs", "ra", "read", "get", "gets", "gat", "get_lease", "lookup", "load", "fetch", "head"],
        ),
        (
            Self::Write,
            &[
                "w",
                "ws",
                "write",
                "put",
                "set",
                "set_lease",
                "add",
                "insert",
                "update",
                "replace",
                "cas",
                "append",
                "prepend",
                "incr",
                "decr",
                "store",
                "post",
            ],
        ),
        (Self::Delete, &["d", "delete", "del", "remove", "discard", "trim", "unmap"]),
    ];

    /// What a word means that logs use, in either case.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())))
            .map(|(op, _)| *op)
    }
}

/// Takes rows.
pub(super) struct Requests<'a, S> {
    accesses: Accesses<'a, S>,
    scales: [f64; ROLES],
    has: [bool; ROLES],
    writes: &'a [String],
    page_shift: u32,
    /// Numbers of objects in the order of their first requests, by the hash of tenant and key.
    objects: FxHashMap<Name, u32>,
    /// Bytes of each object that exists, by its number; 0 for others. Only for whole objects.
    sizes: Option<Vec<u32>>,
    /// Numbers of tenants in the order of their first requests, by the hash of the name.
    tenant_numbers: FxHashMap<Name, u32>,
    /// Their names, and whose the objects are.
    tenants: Tenants,
    /// The last word of an op, and what it means: it is often the same.
    last_op: (Vec<u8>, Op),
    requests: u64,
    deletions: u64,
    /// Earliest and latest time, in seconds.
    times: Option<(f64, f64)>,
    /// A key is a floating-point number that may stand for several whole ones.
    has_rounded_keys: bool,
    /// Rows whose time is before that of an earlier row.
    backward: u64,
    /// The time of the row.
    now: f64,
    /// Keeps rows.
    keep: Option<Keep<'a>>,
}

impl<'a, S: Sink> Requests<'a, S> {
    pub(super) fn new(columns: &'a Columns, sink: &'a mut S) -> Result<Self, &'static str> {
        let mut accesses = Accesses::new(sink);
        accesses
            .set_page_size(columns.page_bytes)
            .map_err(|_| "a page has a power of two of bytes, from 512 to 1 GiB")?;
        let of = |role| columns.of(role);
        if columns.whole_objects && (of(Role::Key).is_none() || of(Role::Size).is_none()) {
            return Err("whole objects need a column of keys and one of sizes");
        }
        if columns.whole_objects && of(Role::Offset).is_some() {
            return Err("whole objects have no offsets: leave that column out");
        }
        Ok(Self {
            page_shift: accesses.page_size().trailing_zeros(),
            accesses,
            scales: Role::ALL.map(|(role, _)| of(role).map_or(1.0, |column| column.scale)),
            has: Role::ALL.map(|(role, _)| of(role).is_some()),
            writes: of(Role::Op).map_or(&[], |column: &Column| &column.writes),
            objects: FxHashMap::default(),
            sizes: columns.whole_objects.then(Vec::new),
            tenant_numbers: FxHashMap::default(),
            tenants: Tenants::default(),
            last_op: (b"r".to_vec(), Op::Read),
            requests: 0,
            deletions: 0,
            times: None,
            has_rounded_keys: false,
            backward: 0,
            now: 0.0,
            keep: None,
        })
    }

    /// Hands on the rows that are taken, for merging.
    pub(super) fn keep(&mut self, keep: Keep<'a>) {
        self.keep = Some(keep);
    }

    pub(super) fn row(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        self.take(row)?;
        if let Some(keep) = &mut self.keep {
            keep(self.now, row).map_err(Error::from)?;
        }
        Ok(())
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        if self.has[Role::Time as usize] {
            self.time(row[Role::Time as usize])?;
        }
        let op = if self.has[Role::Op as usize] { self.op(row[Role::Op as usize])? } else { Op::Read };
        let bytes = if self.has[Role::Size as usize] {
            let reason = "not a number of bytes in the column of sizes";
            self.whole(row, Role::Size, reason)?
        } else {
            1
        };
        let count = if self.has[Role::Count as usize] {
            let count = self.whole(row, Role::Count, "not a number in the column of counts")?;
            Some(count)
                .filter(|count| *count <= MOST_COUNT)
                .ok_or("a row for more than a million requests")?
        } else {
            1
        };
        let offset = if self.has[Role::Offset as usize] {
            let reason = "not a number in the column of offsets (is it a key?)";
            self.whole(row, Role::Offset, reason)?
        } else {
            0
        };
        if self.has[Role::Ttl as usize] && self.keeps_times_to_live() {
            self.time_to_live(row[Role::Ttl as usize])?;
        }
        self.requests += count;
        self.deletions += if op == Op::Delete { count } else { 0 };
        for _ in 0..count {
            if self.has[Role::Key as usize] {
                self.object(row, offset, bytes, op)?;
            } else {
                let tenant = self.tenant(row)?.unwrap_or(0);
                match op {
                    Op::Delete => self.accesses.discard(tenant, offset, bytes)?,
                    _ => self.accesses.request(tenant, offset, bytes, op == Op::Write)?,
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn object(&mut self, row: &Row<'_>, offset: u64, bytes: u64, op: Op) -> Result<(), Refused> {
        let tenant = self.tenant(row)?;
        let seed = tenant.map_or(0, |tenant| tenant + 1);
        let key = row[Role::Key as usize];
        self.has_rounded_keys |= matches!(key, Value::Rounded(_));
        let name = Name::of(key, seed).ok_or("no key")?;
        let known = self.objects.len();
        let number = number_of(&mut self.objects, name)?;
        if let Some(tenant) = tenant
            && self.objects.len() > known
        {
            self.tenants.push_object(tenant as u32);
        }
        let Ok(size) = u32::try_from(offset.saturating_add(bytes)) else {
            return Err("an object of 4 GiB or more".into());
        };
        if self.sizes.is_some() {
            return self.whole_object(number, size, op);
        }
        let shift = self.object_shift();
        let address = (number << shift) + offset;
        match op {
            Op::Delete if self.has[Role::Offset as usize] && self.has[Role::Size as usize] => {
                Ok(self.accesses.drop_contents(address, bytes)?)
            }
            Op::Delete => Ok(self.accesses.drop_contents(number << shift, 1 << shift)?),
            _ => self.accesses.access(address, bytes.max(1), op == Op::Write),
        }
    }

    /// An object has so many bytes of address space to itself, as a power of two.
    fn object_shift(&self) -> u32 {
        let can_be_large = self.has[Role::Offset as usize] || self.has[Role::Size as usize];
        if can_be_large { OBJECT_SHIFT } else { self.page_shift }
    }

    /// A request for a whole object. One of no bytes is for the size that the object has.
    fn whole_object(&mut self, number: u64, size: u32, op: Op) -> Result<(), Refused> {
        let address = number << OBJECT_SHIFT;
        let sizes = self.sizes.get_or_insert_default();
        if sizes.len() <= number as usize {
            sizes.resize(number as usize + 1, 0);
        }
        let known = &mut sizes[number as usize];
        let size = if size == 0 { (*known).max(1) } else { size };
        if *known > 0 && (op == Op::Delete || *known != size) {
            *known = 0;
            self.accesses.end_object(address, 1 << OBJECT_SHIFT)?;
        }
        if op == Op::Delete {
            return Ok(());
        }
        if *known == 0 {
            *known = size;
            self.accesses.begin_object(address, u64::from(size))?;
        }
        self.accesses.access(address, 1, op == Op::Write)
    }

    /// The tenant's number, if there is a column for it.
    fn tenant(&mut self, row: &Row<'_>) -> Result<Option<u64>, Refused> {
        if !self.has[Role::Tenant as usize] {
            return Ok(None);
        }
        let value = row[Role::Tenant as usize];
        let name = Name::of(value, 0).ok_or("no tenant")?;
        let number = number_of(&mut self.tenant_numbers, name)?;
        if number as usize == self.tenants.names.len() {
            self.tenants.names.push(value.to_string());
        }
        Ok(Some(number))
    }

    fn op(&mut self, value: Value<'_>) -> Result<Op, Refused> {
        let mut digits = Vec::new();
        let word = match value {
            Value::Text(word) => word,
            Value::Number(number) => {
                digits.extend_from_slice(number.to_string().as_bytes());
                &digits
            }
            Value::Absent | Value::Real(_) | Value::Rounded(_) => return Err("no op".into()),
        };
        if word == self.last_op.0 && self.requests > 1 {
            return Ok(self.last_op.1);
        }
        let op = if self.writes.is_empty() {
            Op::of(word).ok_or(
                "neither read nor write nor delete in the column of ops: name the words that write, \
                 as in op=4:SET|ADD",
            )?
        } else if self.writes.iter().any(|known| known.as_bytes() == word) {
            Op::Write
        } else {
            Op::Read
        };
        self.last_op.0.clear();
        self.last_op.0.extend_from_slice(word);
        self.last_op.1 = op;
        Ok(op)
    }

    fn time(&mut self, value: Value<'_>) -> Result<(), Refused> {
        let time = match value {
            Value::Number(number) => Some(number as f64),
            Value::Real(number) | Value::Rounded(number) => Some(number),
            Value::Text(text) => str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()),
            Value::Absent => None,
        };
        let time = time
            .filter(|time| time.is_finite())
            .ok_or("not a number in the column of times: leave it out, it is only for rates")?
            * self.scales[Role::Time as usize];
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        self.now = time;
        self.backward += u64::from(time < last);
        self.accesses.time((time * 1000.0).round() as i64);
        Ok(())
    }

    /// Times to live are kept beside times, for whole objects.
    fn keeps_times_to_live(&self) -> bool {
        self.sizes.is_some() && self.has[Role::Time as usize]
    }

    /// Seconds that an object lives; none and 0 are for ever.
    fn time_to_live(&mut self, value: Value<'_>) -> Result<(), Refused> {
        let seconds = match value {
            Value::Absent => Some(0.0),
            Value::Number(number) => Some(number as f64),
            Value::Real(number) | Value::Rounded(number) => Some(number),
            Value::Text(text) => match text.trim_ascii() {
                b"" | b"-" => Some(0.0),
                text => str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()),
            },
        };
        let seconds = seconds.map(|seconds| seconds * self.scales[Role::Ttl as usize]);
        let seconds = seconds
            .filter(|seconds| (0.0..=MOST_SECONDS).contains(seconds))
            .ok_or("not a number of seconds in the column of times to live")?;
        // A time that is there does not become none.
        let milliseconds = (seconds * 1000.0).round() as u64;
        self.accesses.time_to_live(if seconds > 0.0 { milliseconds.max(1) } else { 0 });
        Ok(())
    }

    /// A whole number, times the scale of its column.
    fn whole(&self, row: &Row<'_>, role: Role, reason: &'static str) -> Result<u64, Refused> {
        let number = match row[role as usize] {
            Value::Number(number) => Some(number),
            Value::Real(number) | Value::Rounded(number) => whole(number),
            Value::Text(text) => number(text),
            Value::Absent => None,
        };
        let scale = self.scales[role as usize] as u64;
        Ok(number.and_then(|number| number.checked_mul(scale)).ok_or(reason)?)
    }

    /// References and instructions so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }

    /// That was all.
    pub(super) fn finish(self, source: &'static str) -> Result<Imported, Error> {
        let mut notes = Vec::new();
        let count =
            |number, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        let mut rows = count(self.requests, "request", "requests");
        if self.has[Role::Key as usize] {
            rows += &format!(" for {}", count(self.objects.len() as u64, "object", "objects"));
        }
        if self.has[Role::Tenant as usize] {
            rows += &format!(" of {}", count(self.tenants.names.len() as u64, "tenant", "tenants"));
        }
        if let Some((first, last)) = self.times {
            let seconds = last - first;
            rows += &format!(" in {seconds} s");
            if seconds > 0.0 {
                rows += &format!(", {:.0} a second", self.requests as f64 / seconds);
            }
        }
        notes.push(rows);
        if self.backward > 0 {
            let rows = count(self.backward, "row is", "rows are");
            notes.push(format!(
                "{rows} from before the row in front: their times are taken for the latest so far"
            ));
        }
        if self.deletions > 0 {
            notes.push(format!("{}: contents dropped", count(self.deletions, "deletion", "deletions")));
        }
        if self.has_rounded_keys {
            notes.push(
                "keys are floating-point numbers beyond those that are exact (2^53 for a double, 2^24 for a \
                 float): what were different whole numbers may be one object here"
                    .to_owned(),
            );
        }
        if self.has[Role::Ttl as usize] && !self.keeps_times_to_live() {
            notes
                .push("times to live are ignored: only whole objects expire, in a log with times".to_owned());
        }
        let page_size = self.accesses.page_size();
        let pages_each = if self.has[Role::Key as usize] {
            1 << (self.object_shift() - self.page_shift)
        } else {
            self.accesses.pages_of_disk()
        };
        let tenants = self.has[Role::Tenant as usize].then_some(Tenants { pages_each, ..self.tenants });
        let whole_objects = self.sizes.is_some();
        let end = self.accesses.finish("a log")?;
        Ok(Imported { end, page_size, source, notes, tenants, whole_objects, ..Imported::default() })
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Ok(()),
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
            Self::Number(number) => number.fmt(f),
            Self::Real(number) | Self::Rounded(number) => number.fmt(f),
        }
    }
}

impl Name {
    /// The hash of a value; `None` if it is empty.
    fn of(value: Value<'_>, seed: u64) -> Option<Self> {
        let hash = |bytes: &[u8]| if seed == 0 { xxh3_128(bytes) } else { xxh3_128_with_seed(bytes, seed) };
        let hash = match value {
            Value::Absent | Value::Text([]) => return None,
            Value::Text(text) => hash(text),
            Value::Number(number) => hash(&number.to_le_bytes()),
            // Both zeros are one.
            Value::Real(number) | Value::Rounded(number) => hash(&(number + 0.0).to_bits().to_le_bytes()),
        };
        Some(Self([hash as u32, (hash >> 32) as u32, (hash >> 64) as u32]))
    }
}

/// The number of a name: that of its first request.
fn number_of(numbers: &mut FxHashMap<Name, u32>, name: Name) -> Result<u64, Refused> {
    let fresh = u32::try_from(numbers.len()).map_err(|_| Error::too_many_pages())?;
    Ok(u64::from(*numbers.entry(name).or_insert(fresh)))
}

/// 2^53: a double beyond it has lost what tells it from the next whole number.
const WHOLE_DOUBLE: f64 = 9_007_199_254_740_992.0;

/// 2^24: the same of a float.
const WHOLE_SINGLE: f64 = 16_777_216.0;

/// A number of no fraction.
fn whole(number: f64) -> Option<u64> {
    ((0.0..=WHOLE_DOUBLE).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// A whole number: decimal, also with a fraction of zeros, or hexadecimal after 0x.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    // The usual one, quickly.
    if (1..=19).contains(&text.len()) {
        let mut number = 0u64;
        let mut digits = true;
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            digits &= digit < 10;
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        if digits {
            return Some(number);
        }
    }
    if let [b'0', b'x' | b'X', digits @ ..] = text {
        return crate::lines::hexadecimal(digits);
    }
    let end = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (digits, fraction) = text.split_at(end);
    let nothing = fraction.iter().skip(1).all(|digit| *digit == b'0');
    if nothing { crate::lines::decimal(digits) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_decimal_or_hexadecimal() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("4096.0", Some(4096)),
            ("4096.", Some(4096)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0x10", Some(16)),
            ("", None),
            ("4096.5", None),
            ("18446744073709551616", None),
            ("-1", None),
            ("1e3", None),
            ("0x", None),
            (".", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn words_mean_one_thing() {
        let words: Vec<_> = Op::WORDS.iter().flat_map(|(_, words)| *words).collect();
        for word in &words {
            assert_eq!(words.iter().filter(|other| *other == word).count(), 1, "{word}");
        }
        assert_eq!(Op::of(b"GET"), Some(Op::Read));
        assert_eq!(Op::of(b"Write"), Some(Op::Write));
        assert_eq!(Op::of(b"trim"), Some(Op::Delete));
        assert_eq!(Op::of(b"1"), None);
    }
}
