//! The values of a row, as references to pages.

use super::description::{Columns, ROLES, Role, Words};
use super::names::{Name, Names};
use super::op::Op;
use super::value::{
    HEXADECIMAL, Keep, NO_HEXADECIMAL, Row, Value, exponent, hexadecimal, is_hexadecimal, number, whole,
};
use crate::accesses::Accesses;
use crate::imported::Imported;
use crate::lines::Refused;
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

/// Takes rows.
pub(super) struct Requests<'a, S> {
    accesses: Accesses<'a, S>,
    roles: Roles<'a>,
    page_shift: u32,
    names: Names,
    /// Bytes of each object that exists, by its number; 0 for others. Only for whole objects.
    sizes: Option<Vec<u64>>,
    /// The last word of an op, and what it means: it is often the same.
    last_op: (Vec<u8>, Op),
    counts: Counts,
    /// Earliest and latest time, in seconds.
    times: Option<(f64, f64)>,
    /// The time of the row.
    now: f64,
    /// Keeps rows.
    keep: Option<Keep<'a>>,
}

/// What the columns are, by [`Role`].
struct Roles<'a> {
    has: [bool; ROLES],
    /// A row may lack the column.
    optional: [bool; ROLES],
    scales: [f64; ROLES],
    hexadecimal: [bool; ROLES],
    /// The words of the ops.
    words: Option<&'a Words>,
}

impl<'a> Roles<'a> {
    fn new(columns: &'a Columns) -> Self {
        let of = |role| columns.of(role);
        Self {
            has: Role::ALL.map(|(role, _)| of(role).is_some()),
            optional: Role::ALL.map(|(role, _)| of(role).is_some_and(|column| column.optional)),
            scales: Role::ALL.map(|(role, _)| of(role).map_or(1.0, |column| column.scale)),
            hexadecimal: Role::ALL.map(|(role, _)| of(role).is_some_and(|column| column.hexadecimal)),
            words: of(Role::Op).map(|column| &column.words),
        }
    }

    fn has(&self, role: Role) -> bool {
        self.has[role as usize]
    }
}

/// What is told of a log when it has been read.
#[derive(Default)]
struct Counts {
    rows: u64,
    /// Rows without a size.
    unsized_rows: u64,
    /// Rows whose time is before that of an earlier row.
    backward: u64,
    requests: u64,
    deletions: u64,
    writes: u64,
    /// A key is a floating-point number that may stand for several whole ones.
    has_rounded_keys: bool,
}

impl<'a, S: Sink> Requests<'a, S> {
    pub(super) fn new(columns: &'a Columns, sink: &'a mut S) -> Result<Self, &'static str> {
        let mut accesses = Accesses::new(sink);
        accesses
            .set_page_size(columns.page_bytes)
            .map_err(|_| "a page has a power of two of bytes, from 512 to 1 GiB")?;
        let has = |role| columns.of(role).is_some();
        if columns.whole_objects && !(has(Role::Key) && has(Role::Size)) {
            return Err("whole objects need a column of keys and one of sizes");
        }
        if columns.whole_objects && has(Role::Offset) {
            return Err("whole objects have no offsets: leave that column out");
        }
        Ok(Self {
            page_shift: accesses.page_size().trailing_zeros(),
            accesses,
            roles: Roles::new(columns),
            names: Names::default(),
            sizes: columns.whole_objects.then(Vec::new),
            last_op: (Vec::new(), Op::Read),
            counts: Counts::default(),
            times: None,
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
            let is_missing =
                || matches!(row[role as usize], Value::Absent) && self.roles.optional[role as usize];
            self.roles.has(role) && !is_missing()
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
        let op = if self.roles.has(Role::Op) { self.op(row[Role::Op as usize])? } else { Op::Read };
        let tenant = self.tenant(row)?;
        let name = if self.roles.has(Role::Key) {
            let seed = tenant.map_or(0, |tenant| tenant + 1);
            let key = row[Role::Key as usize];
            self.counts.has_rounded_keys |= matches!(key, Value::Rounded(_));
            let object = Name::of(key, seed).ok_or("no key")?;
            Some(if self.roles.has(Role::Part) { object.part(row[Role::Part as usize]) } else { object })
        } else {
            None
        };
        self.counts.rows += 1;
        self.counts.unsized_rows += u64::from(size.is_none());
        self.counts.requests += count;
        self.counts.deletions += if op == Op::Delete { count } else { 0 };
        self.counts.writes += u64::from(op == Op::Write);
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
        if !self.roles.has(Role::Size) || matches!(row[Role::Size as usize], Value::Absent) {
            return Ok(None);
        }
        if matches!(row[Role::Size as usize], Value::Text(b"" | b"-")) {
            return Ok(None);
        }
        let reason = "not a number of bytes in the column of sizes";
        self.whole(row, Role::Size, reason).map(Some)
    }

    /// Whether a row with this many columns may lack the others: a deletion has no size.
    pub(super) fn needs_no_size(
        &mut self,
        row: &Row<'_>,
        places: &[(usize, usize)],
        columns: usize,
    ) -> Result<bool, Refused> {
        let mut missing = places.iter().filter(|(index, _)| *index >= columns);
        let only_sizes = missing.all(|(_, role)| *role == Role::Size as usize || *role == Role::Ttl as usize);
        Ok(only_sizes
            && self.roles.has(Role::Op)
            && matches!(row[Role::Op as usize], Value::Text(_))
            && self.op(row[Role::Op as usize])? == Op::Delete)
    }

    /// Is the request within what an object or a disk can be?
    fn check_end(&self, offset: u64, bytes: u64) -> Result<(), Refused> {
        if !self.roles.has(Role::Key) {
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
        let space = self.names.space(tenant, beyond);
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
        let number = self.names.object(name, tenant)?;
        if self.sizes.is_some() {
            return self.whole_object(number, bytes, op);
        }
        let shift = self.object_shift();
        let is_part = self.roles.has(Role::Offset) && self.roles.has(Role::Size);
        if op == Op::Delete && !is_part {
            let mut piece = 1;
            self.accesses.drop_contents(number << shift, 1 << shift)?;
            while let Some(number) = self.names.known_piece(name, piece) {
                self.accesses.drop_contents(number << shift, 1 << shift)?;
                piece += 1;
            }
            return Ok(());
        }
        let (mut at, mut left) = (offset, bytes.max(1));
        while left > 0 {
            let (piece, start) = (at >> OBJECT_SHIFT, at & ((1 << OBJECT_SHIFT) - 1));
            let here = left.min((1 << OBJECT_SHIFT) - start);
            let number = if piece == 0 { number } else { self.names.piece(name, piece, tenant)? };
            let address = (number << shift) + start;
            match op {
                Op::Delete => self.accesses.drop_contents(address, here)?,
                _ => self.accesses.access(address, here, op == Op::Write)?,
            }
            (at, left) = (at + here, left - here);
        }
        Ok(())
    }

    /// The address space that an object has to itself, in bytes, as a power of two.
    fn object_shift(&self) -> u32 {
        let can_be_large = self.roles.has(Role::Offset) || self.roles.has(Role::Size);
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
        if !self.roles.has(Role::Tenant) {
            return Ok(None);
        }
        self.names.tenant(row[Role::Tenant as usize]).map(Some)
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
        let op = self.roles.words.and_then(|words| Op::named(word, words)).ok_or(
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
        Ok(time * self.roles.scales[Role::Time as usize])
    }

    /// The row is from this moment, in seconds.
    fn begin_moment(&mut self, time: f64) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        self.now = time;
        self.counts.backward += u64::from(time < last);
        self.accesses.time((time * 1000.0).round() as i64);
    }

    /// Times to live are kept beside times, for whole objects.
    fn keeps_times_to_live(&self) -> bool {
        self.sizes.is_some() && self.roles.has(Role::Time)
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
        let seconds = seconds.map(|seconds| seconds * self.roles.scales[Role::Ttl as usize]);
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
            Value::Text(text) if self.roles.hexadecimal[role as usize] => hexadecimal(text),
            Value::Text(text) => match number(text).or_else(|| exponent(text, role)) {
                None if is_hexadecimal(text) => return Err(HEXADECIMAL.into()),
                number => number,
            },
            _ if self.roles.hexadecimal[role as usize] => return Err(NO_HEXADECIMAL.into()),
            Value::Number(number) => Some(number),
            Value::Real(number) | Value::Rounded(number) => whole(number),
            Value::Absent => None,
        };
        let scale = self.roles.scales[role as usize] as u64;
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
        let mut rows = count(self.counts.requests, "request", "requests");
        if self.roles.has(Role::Key) {
            rows += &format!(" for {}", count(self.names.objects(), "object", "objects"));
        }
        if self.roles.has(Role::Tenant) {
            rows += &format!(" of {}", count(self.names.tenants(), "tenant", "tenants"));
        }
        if let Some((first, last)) = self.times {
            let seconds = last - first;
            rows += &format!(" in {seconds} s");
            if seconds > 0.0 {
                rows += &format!(", {:.0} a second", self.counts.requests as f64 / seconds);
            }
        }
        notes.push(rows);
        if self.counts.backward > 0 {
            let rows = count(self.counts.backward, "row is", "rows are");
            notes.push(format!(
                "{rows} from before the row in front: their times are taken for the latest so far"
            ));
        }
        if self.counts.deletions > 0 {
            notes
                .push(format!("{}: contents dropped", count(self.counts.deletions, "deletion", "deletions")));
        }
        if self.counts.has_rounded_keys {
            notes.push(
                "keys are floating-point numbers beyond those that are exact (2^53 for a double, 2^24 for a \
                 float): what were different whole numbers may be one object here"
                    .to_owned(),
            );
        }
        if self.roles.has(Role::Ttl) && !self.keeps_times_to_live() {
            notes
                .push("times to live are ignored: only whole objects expire, in a log with times".to_owned());
        }
        if self.roles.has(Role::Size) && self.counts.unsized_rows > 0 {
            if self.counts.unsized_rows == self.counts.rows {
                return Err(Error::columns("no row has a number of bytes in the column of sizes".into()));
            }
            notes.push(format!("{} without a size", count(self.counts.unsized_rows, "row", "rows")));
        }
        if let Some(words) = self.roles.words
            && !words.writes.is_empty()
            && self.counts.writes == 0
        {
            notes.push(format!("nothing writes: no op is {}", words.writes.join(" or ")));
        }
        let page_size = self.accesses.page_size();
        let pages_each = if self.roles.has(Role::Key) {
            1 << (self.object_shift() - self.page_shift)
        } else {
            self.accesses.pages_of_disk()
        };
        let has_keys = self.roles.has(Role::Key);
        let tenants = self.roles.has(Role::Tenant).then(|| self.names.into_tenants(pages_each, has_keys));
        let whole_objects = self.sizes.is_some();
        let end = self.accesses.finish("a log")?;
        Ok(Imported { end, page_size, source, notes, tenants, whole_objects, ..Imported::default() })
    }
}
