//! The values of a row, as references to pages.

use std::fmt;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use super::description::{Columns, ROLES, Role, Words};
use crate::accesses::Accesses;
use crate::imported::Imported;
use crate::lines::{self, Refused};
use crate::tenants::Tenants;
use crate::{Error, Sink};

/// A row cannot stand for more requests: in a log, a larger count is damage.
pub(super) const MOST_COUNT: u64 = 1_000_000;

/// No object lives longer: some 30,000 years. Further numbers are other things.
const MOST_SECONDS: f64 = 1e12;

/// Addresses that an object has to itself where objects have sizes. What an object has beyond that
/// is elsewhere, in pieces of as many addresses.
const OBJECT_SHIFT: u32 = 32;

/// No object is as large: in a log, a larger size is damage. Whole objects cost a reference each,
/// others one for each of their pages.
const MOST_BYTES: u64 = 1 << 36;
const MOST_WHOLE_BYTES: u64 = 1 << 48;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
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
pub(crate) type Row<'a> = [Value<'a>; ROLES];

/// A row without a value.
pub(crate) const NO_ROW: Row<'_> = [Value::Absent; ROLES];

/// Keeps a row and its time.
pub(crate) type Keep<'a> = &'a mut dyn FnMut(f64, &Row<'_>) -> Result<(), Error>;

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

    /// What a word means that logs use, in either case. Logs of object stores put it into a name,
    /// as in `REST.GET.OBJECT`.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        let word = match word.split(|byte| *byte == b'.').collect::<Vec<_>>()[..] {
            [rest, verb, _] if rest.eq_ignore_ascii_case(b"rest") => verb,
            _ => word,
        };
        Self::WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())))
            .map(|(op, _)| *op)
    }

    /// What a word means where some are named.
    fn named(word: &[u8], words: &Words) -> Option<Self> {
        let is_named = |known: &String| match known.strip_suffix('*') {
            Some(start) => {
                word.get(..start.len()).is_some_and(|word| word.eq_ignore_ascii_case(start.as_bytes()))
            }
            None => word.eq_ignore_ascii_case(known.as_bytes()),
        };
        let is_of = |words: &[String]| words.iter().any(is_named);
        if is_of(&words.writes) {
            Some(Self::Write)
        } else if is_of(&words.deletes) {
            Some(Self::Delete)
        } else if is_of(&words.reads) {
            Some(Self::Read)
        } else if words.writes.is_empty() {
            Self::of(word)
        } else {
            words.reads.is_empty().then_some(Self::Read)
        }
    }
}

/// Takes rows.
pub(super) struct Requests<'a, S> {
    accesses: Accesses<'a, S>,
    scales: [f64; ROLES],
    hexadecimal: [bool; ROLES],
    has: [bool; ROLES],
    /// A row may lack the column.
    optional: [bool; ROLES],
    words: Option<&'a Words>,
    page_shift: u32,
    /// Numbers of objects, and of pieces of large ones, in the order of their first requests, by
    /// the hash of tenant and key.
    objects: FxHashMap<Name, u32>,
    /// Of these, pieces.
    pieces: u64,
    /// Bytes of each object that exists, by its number; 0 for others. Only for whole objects.
    sizes: Option<Vec<u64>>,
    /// Numbers of tenants in the order of their first requests, by the hash of the name.
    tenant_numbers: FxHashMap<Name, u32>,
    /// Their names, and whose the objects are.
    tenants: Tenants,
    /// Numbers of address spaces in the order of their first requests, by tenant and what the
    /// offset has beyond one. Only for offsets of tenants.
    spaces: FxHashMap<(u64, u64), u64>,
    /// The last word of an op, and what it means: it is often the same.
    last_op: (Vec<u8>, Op),
    requests: u64,
    deletions: u64,
    writes: u64,
    /// Rows, and those of them without a size.
    rows: u64,
    unsized_rows: u64,
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
            hexadecimal: Role::ALL.map(|(role, _)| of(role).is_some_and(|column| column.hexadecimal)),
            has: Role::ALL.map(|(role, _)| of(role).is_some()),
            optional: Role::ALL.map(|(role, _)| of(role).is_some_and(|column| column.optional)),
            words: of(Role::Op).map(|column| &column.words),
            objects: FxHashMap::default(),
            pieces: 0,
            sizes: columns.whole_objects.then(Vec::new),
            tenant_numbers: FxHashMap::default(),
            tenants: Tenants::default(),
            spaces: FxHashMap::default(),
            last_op: (Vec::new(), Op::Read),
            requests: 0,
            deletions: 0,
            writes: 0,
            rows: 0,
            unsized_rows: 0,
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

    /// Takes a row. One that is refused leaves nothing behind.
    pub(super) fn row(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        self.take(row)?;
        if let Some(keep) = &mut self.keep {
            keep(self.now, row)?;
        }
        Ok(())
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        // A column that may be missing, and is, is none.
        let has = |role: Role| {
            let is_missing = || matches!(row[role as usize], Value::Absent) && self.optional[role as usize];
            self.has[role as usize] && !is_missing()
        };
        let time = if has(Role::Time) { Some(self.time(row[Role::Time as usize])?) } else { None };
        let size = self.size(row)?;
        let bytes = if has(Role::Size) { size.unwrap_or(u64::from(self.sizes.is_none())) } else { 1 };
        let count = if has(Role::Count) {
            let count = self.whole(row, Role::Count, "not a number in the column of counts")?;
            Some(count)
                .filter(|count| *count <= MOST_COUNT)
                .ok_or("a row for more than a million requests")?
        } else {
            1
        };
        let offset = if has(Role::Offset) {
            let reason = "not a number in the column of offsets (is it a key?)";
            self.whole(row, Role::Offset, reason)?
        } else {
            0
        };
        let lives = match has(Role::Ttl) && self.keeps_times_to_live() {
            true => Some(self.time_to_live(row[Role::Ttl as usize])?),
            false => None,
        };
        self.check_end(offset, bytes)?;
        let op = if self.has[Role::Op as usize] { self.op(row[Role::Op as usize])? } else { Op::Read };
        let tenant = self.tenant(row)?;
        let name = if self.has[Role::Key as usize] {
            let seed = tenant.map_or(0, |tenant| tenant + 1);
            let key = row[Role::Key as usize];
            self.has_rounded_keys |= matches!(key, Value::Rounded(_));
            let object = Name::of(key, seed).ok_or("no key")?;
            Some(if self.has[Role::Part as usize] { object.part(row[Role::Part as usize]) } else { object })
        } else {
            None
        };
        self.rows += 1;
        self.unsized_rows += u64::from(size.is_none());
        self.requests += count;
        self.deletions += if op == Op::Delete { count } else { 0 };
        self.writes += u64::from(op == Op::Write);
        if let Some(time) = time {
            self.begin_moment(time);
        }
        if let Some(lives) = lives {
            self.accesses.time_to_live(lives);
        }
        for _ in 0..count {
            match name {
                Some(name) => self.object(name, tenant, offset, bytes, op)?,
                None => self.place(tenant, offset, bytes, op)?,
            }
        }
        Ok(())
    }

    /// The bytes of the request, if the row says how many.
    fn size(&self, row: &Row<'_>) -> Result<Option<u64>, Refused> {
        if !self.has[Role::Size as usize] || matches!(row[Role::Size as usize], Value::Absent) {
            return Ok(None);
        }
        if matches!(row[Role::Size as usize], Value::Text(b"" | b"-")) {
            return Ok(None);
        }
        let reason = "not a number of bytes in the column of sizes";
        self.whole(row, Role::Size, reason).map(Some)
    }

    /// Whether a row of so many columns may lack those that it lacks: a deletion has no size.
    pub(super) fn needs_no_size(
        &mut self,
        row: &Row<'_>,
        places: &[(usize, usize)],
        columns: usize,
    ) -> Result<bool, Refused> {
        let mut missing = places.iter().filter(|(index, _)| *index >= columns);
        let only_sizes = missing.all(|(_, role)| *role == Role::Size as usize || *role == Role::Ttl as usize);
        Ok(only_sizes
            && self.has[Role::Op as usize]
            && matches!(row[Role::Op as usize], Value::Text(_))
            && self.op(row[Role::Op as usize])? == Op::Delete)
    }

    /// Is the request within what an object or a disk can be?
    fn check_end(&self, offset: u64, bytes: u64) -> Result<(), Refused> {
        if !self.has[Role::Key as usize] {
            return if bytes > u32::MAX.into() { Err("a request for 4 GiB or more".into()) } else { Ok(()) };
        }
        let end = offset.saturating_add(bytes);
        if self.sizes.is_some() {
            return if end > MOST_WHOLE_BYTES {
                Err("an object of more than 256 TiB".into())
            } else {
                Ok(())
            };
        }
        if end > MOST_BYTES { Err("an object of more than 64 GiB".into()) } else { Ok(()) }
    }

    /// A request for a place on a disk.
    fn place(&mut self, tenant: Option<u64>, offset: u64, bytes: u64, op: Op) -> Result<(), Refused> {
        let Some(tenant) = tenant else {
            // The only address space there is.
            return match op {
                Op::Delete => Ok(self.accesses.drop_contents(offset, bytes)?),
                _ => self.accesses.access(offset, bytes, op == Op::Write),
            };
        };
        let (beyond, offset) = self.accesses.split_offset(offset);
        let fresh = self.spaces.len() as u64;
        let space = *self.spaces.entry((tenant, beyond)).or_insert(fresh);
        if space == fresh {
            self.tenants.push_object(tenant as u32);
        }
        match op {
            Op::Delete => self.accesses.discard(space, offset, bytes),
            _ => self.accesses.request(space, offset, bytes, op == Op::Write),
        }
    }

    #[inline]
    fn object(
        &mut self,
        name: Name,
        tenant: Option<u64>,
        offset: u64,
        bytes: u64,
        op: Op,
    ) -> Result<(), Refused> {
        let number = self.number(name, tenant)?;
        if self.sizes.is_some() {
            return self.whole_object(number, bytes, op);
        }
        let shift = self.object_shift();
        let is_part = self.has[Role::Offset as usize] && self.has[Role::Size as usize];
        if op == Op::Delete && !is_part {
            let mut piece = 1;
            self.accesses.drop_contents(number << shift, 1 << shift)?;
            while let Some(number) = self.objects.get(&name.piece(piece)) {
                self.accesses.drop_contents(u64::from(*number) << shift, 1 << shift)?;
                piece += 1;
            }
            return Ok(());
        }
        let (mut at, mut left) = (offset, bytes.max(1));
        while left > 0 {
            let (piece, start) = (at >> OBJECT_SHIFT, at & ((1 << OBJECT_SHIFT) - 1));
            let here = left.min((1 << OBJECT_SHIFT) - start);
            let known = self.objects.len();
            let number = if piece == 0 { number } else { self.number(name.piece(piece), tenant)? };
            self.pieces += if piece > 0 { (self.objects.len() - known) as u64 } else { 0 };
            let address = (number << shift) + start;
            match op {
                Op::Delete => self.accesses.drop_contents(address, here)?,
                _ => self.accesses.access(address, here, op == Op::Write)?,
            }
            (at, left) = (at + here, left - here);
        }
        Ok(())
    }

    /// The number of an object, or of a piece of one.
    #[inline]
    fn number(&mut self, name: Name, tenant: Option<u64>) -> Result<u64, Refused> {
        let known = self.objects.len();
        let number = number_of(&mut self.objects, name)?;
        if let Some(tenant) = tenant
            && self.objects.len() > known
        {
            self.tenants.push_object(tenant as u32);
        }
        Ok(number)
    }

    /// An object has so many bytes of address space to itself, as a power of two.
    fn object_shift(&self) -> u32 {
        let can_be_large = self.has[Role::Offset as usize] || self.has[Role::Size as usize];
        if can_be_large { OBJECT_SHIFT } else { self.page_shift }
    }

    /// A request for a whole object. One of no bytes is for the size that the object has.
    fn whole_object(&mut self, number: u64, size: u64, op: Op) -> Result<(), Refused> {
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
            self.accesses.begin_object(address, size)?;
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
        if word == self.last_op.0 && !word.is_empty() {
            return Ok(self.last_op.1);
        }
        let op = self.words.and_then(|words| Op::named(word, words)).ok_or(
            "neither read nor write nor delete in the column of ops: name the words that write, as in \
             op=4:SET|ADD, or more, as in op=4:read=GET:write=SET:delete=DEL",
        )?;
        self.last_op.0.clear();
        self.last_op.0.extend_from_slice(word);
        self.last_op.1 = op;
        Ok(op)
    }

    fn time(&self, value: Value<'_>) -> Result<f64, Refused> {
        let time = match value {
            Value::Number(number) => Some(number as f64),
            Value::Real(number) | Value::Rounded(number) => Some(number),
            Value::Text(text) => str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()),
            Value::Absent => None,
        };
        let time = time
            .filter(|time| time.is_finite())
            .ok_or("not a number of seconds in the column of times (dates are not read; without the column the log has no times)")?;
        Ok(time * self.scales[Role::Time as usize])
    }

    /// The row is from this moment, in seconds.
    fn begin_moment(&mut self, time: f64) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        self.now = time;
        self.backward += u64::from(time < last);
        self.accesses.time((time * 1000.0).round() as i64);
    }

    /// Times to live are kept beside times, for whole objects.
    fn keeps_times_to_live(&self) -> bool {
        self.sizes.is_some() && self.has[Role::Time as usize]
    }

    /// Milliseconds that an object lives; none and 0 are for ever.
    fn time_to_live(&self, value: Value<'_>) -> Result<u64, Refused> {
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
        Ok(if seconds > 0.0 { milliseconds.max(1) } else { 0 })
    }

    /// A whole number, times the scale of its column.
    fn whole(&self, row: &Row<'_>, role: Role, reason: &'static str) -> Result<u64, Refused> {
        let number = match row[role as usize] {
            Value::Text(text) if self.hexadecimal[role as usize] => hexadecimal(text),
            Value::Text(text) => match number(text).or_else(|| exponent(text, role)) {
                None if is_hexadecimal(text) => return Err(HEXADECIMAL.into()),
                number => number,
            },
            _ if self.hexadecimal[role as usize] => return Err(NO_HEXADECIMAL.into()),
            Value::Number(number) => Some(number),
            Value::Real(number) | Value::Rounded(number) => whole(number),
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
            rows += &format!(" for {}", count(self.objects.len() as u64 - self.pieces, "object", "objects"));
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
        if self.has[Role::Size as usize] && self.unsized_rows > 0 {
            if self.unsized_rows == self.rows {
                return Err(Error::columns("no row has a number of bytes in the column of sizes".into()));
            }
            notes.push(format!("{} without a size", count(self.unsized_rows, "row", "rows")));
        }
        if let Some(words) = self.words
            && !words.writes.is_empty()
            && self.writes == 0
        {
            notes.push(format!("nothing writes: no op is {}", words.writes.join(" or ")));
        }
        let page_size = self.accesses.page_size();
        let pages_each = if self.has[Role::Key as usize] {
            1 << (self.object_shift() - self.page_shift)
        } else {
            self.accesses.pages_of_disk()
        };
        let mut tenants = Tenants { pages_each, ..self.tenants };
        if !self.has[Role::Key as usize] && self.spaces.len() == tenants.names.len() {
            // A tenant has one address space, of its own number.
            tenants.of_objects.clear();
        }
        let tenants = self.has[Role::Tenant as usize].then_some(tenants);
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

impl Name {
    /// The name of a part of the object. An object without one is a part of its own.
    fn part(self, part: Value<'_>) -> Self {
        let [low, middle, high] = self.0;
        let seed = u64::from(low) | u64::from(middle) << 32;
        match Self::of(part, seed) {
            // The seed has lost a third of the name.
            Some(Self([first, second, third])) => Self([first, second, third ^ high]),
            None => self,
        }
    }

    /// The name of a piece of a large object: what is beyond the object's own addresses.
    fn piece(self, piece: u64) -> Self {
        let mut bytes = [0; 20];
        let (name, number) = bytes.split_at_mut(12);
        name.copy_from_slice(self.0.map(u32::to_le_bytes).as_flattened());
        number.copy_from_slice(&piece.to_le_bytes());
        let hash = xxh3_128_with_seed(&bytes, piece);
        Self([hash as u32, (hash >> 32) as u32, (hash >> 64) as u32])
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
        return lines::hexadecimal(digits);
    }
    let end = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (digits, fraction) = text.split_at(end);
    let nothing = fraction.iter().skip(1).all(|digit| *digit == b'0');
    if nothing { lines::decimal(digits) } else { None }
}

/// A hexadecimal number, with or without 0x.
fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
    lines::hexadecimal(digits)
}

/// Why a number with the letters of a hexadecimal one is refused: the rows with digits only would
/// be read as decimal.
const HEXADECIMAL: &str = "hexadecimal digits without 0x: write :hex behind the column, as in \
    offset=2:hex, and all rows are read so (an exponent of an offset has a sign, as in 1e+6)";

const NO_HEXADECIMAL: &str = "a binary number in a column that is said to be hexadecimal text";

fn is_hexadecimal(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_hexdigit) && text.iter().any(u8::is_ascii_digit)
}

/// A whole number with an exponent, such as 1.5e+06. An offset like 1e6 is none: it may be
/// hexadecimal.
fn exponent(text: &[u8], role: Role) -> Option<u64> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let is_sure = role != Role::Offset || text.iter().any(|byte| matches!(byte, b'.' | b'+'));
    if !is_sure || !text.iter().all(is_part) || !text.first()?.is_ascii_digit() {
        return None;
    }
    let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    if text.iter().any(|byte| matches!(byte, b'e' | b'E')) { whole(number) } else { None }
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
    fn exponents_of_offsets_have_a_sign_or_a_point() {
        for (text, size, offset) in [
            ("1e6", Some(1_000_000), None),
            ("1E+06", Some(1_000_000), Some(1_000_000)),
            ("1.5e3", Some(1500), Some(1500)),
            ("4.096e+03", Some(4096), Some(4096)),
            ("15e-1", None, None),
            ("1e20", None, None),
            ("1e", None, None),
            ("e6", None, None),
            ("-1e6", None, None),
            ("inf", None, None),
            ("1a6", None, None),
        ] {
            let found = [Role::Size, Role::Offset].map(|role| exponent(text.as_bytes(), role));
            assert_eq!(found, [size, offset], "{text:?}");
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
