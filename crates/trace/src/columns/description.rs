//! Which column of a log is what, as it is said on the command line: `key=3,size=5`.

use std::fmt;
use std::str::FromStr;

/// What a column can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Key,
    Offset,
    Size,
    Op,
    Tenant,
    Time,
    Ttl,
    Count,
    Part,
}

impl Role {
    pub(super) const ALL: [(Role, &str); 9] = [
        (Self::Key, "key"),
        (Self::Offset, "offset"),
        (Self::Size, "size"),
        (Self::Op, "op"),
        (Self::Tenant, "tenant"),
        (Self::Time, "time"),
        (Self::Ttl, "ttl"),
        (Self::Count, "count"),
        (Self::Part, "part"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// How many roles there are.
pub(super) const ROLES: usize = Role::ALL.len();

/// Where a row has a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its number, from 1.
    Number(usize),
    /// Its name in the header; in JSON, names from the outermost object inwards, with dots between.
    Name(String),
    /// In a struct: the first byte, and what is there.
    Bytes(usize, Kind),
}

/// A value in a struct, little endian unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Unsigned, of this many bytes.
    Unsigned(usize),
    /// The same, big endian.
    BigEndian(usize),
    /// Floating point, of 4 or 8 bytes.
    Real(usize),
    /// Text of this many bytes, filled up with zeros or spaces.
    Text(usize),
}

impl Kind {
    /// `u32`, `u64be`, `f64`, `text16`.
    fn parse(text: &str) -> Option<Self> {
        let bytes = |bits: &str| match bits {
            "8" => Some(1),
            "16" => Some(2),
            "32" => Some(4),
            "64" => Some(8),
            _ => None,
        };
        if let Some(length) = text.strip_prefix("text") {
            let length = length.parse().ok()?;
            (1..=MOST_TEXT).contains(&length).then_some(Self::Text(length))
        } else if let Some(bits) = text.strip_prefix('f') {
            bytes(bits).filter(|bytes| *bytes >= 4).map(Self::Real)
        } else {
            let bits = text.strip_prefix('u')?;
            bits.strip_suffix("be")
                .map_or_else(|| bytes(bits).map(Self::Unsigned), |bits| bytes(bits).map(Self::BigEndian))
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Unsigned(bytes) | Self::BigEndian(bytes) | Self::Real(bytes) | Self::Text(bytes) => bytes,
        }
    }
}

/// The types of values in a struct.
const KINDS: &str = "u8 u16 u32 u64, u16be u32be u64be (big endian), f32 f64, text1 to text4096";

/// The longest text in a struct, in bytes.
const MOST_TEXT: usize = 4096;

/// The longest struct, in bytes.
const MOST_RECORD: usize = 1 << 16;

/// Behind a column whose numbers are hexadecimal.
const HEXADECIMAL: &str = ":hex";

/// A column with a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) role: Role,
    pub(super) place: Place,
    /// What its numbers are multiplied by: 512 where sectors are counted, 0.001 for milliseconds.
    /// Whole for anything but times.
    pub(super) scale: f64,
    /// Its numbers are hexadecimal, with or without 0x.
    pub(super) hexadecimal: bool,
    /// A log may lack it.
    pub(super) optional: bool,
    /// What words mean, of an [`Role::Op`].
    pub(super) words: Words,
}

/// Words that read, write and delete; `put*` is all that begin so. The usual ones if there are
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) reads: Vec<String>,
    pub(super) writes: Vec<String>,
    pub(super) deletes: Vec<String>,
}

impl Words {
    /// Groups between colons: `SET|ADD` are words that write; `read=GET|HEAD`, `write=PUT` and
    /// `delete=DEL` say so themselves.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = Self::default();
        for group in text.split(':') {
            let (list, group) = match group.split_once('=') {
                Some(("read", group)) => (&mut words.reads, group),
                Some(("delete", group)) => (&mut words.deletes, group),
                Some(("write", group)) => (&mut words.writes, group),
                Some(_) => return Err("words are named as in read=GET:write=SET|ADD:delete=DEL"),
                None => (&mut words.writes, group),
            };
            list.extend(group.split('|').map(|word| word.trim().to_owned()));
            if list.iter().any(String::is_empty) {
                return Err("a word that writes is empty");
            }
        }
        let all = || [&words.reads, &words.writes, &words.deletes].into_iter().flatten();
        if all().any(|word| all().filter(|other| other.eq_ignore_ascii_case(word)).count() > 1) {
            return Err("a word means one thing, in either case");
        }
        Ok(words)
    }
}

/// As they stand behind the column's place.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (says, words) in [("read=", &self.reads), ("", &self.writes), ("delete=", &self.deletes)] {
            if !words.is_empty() {
                write!(f, ":{says}{}", words.join("|"))?;
            }
        }
        Ok(())
    }
}

/// What quotes are in separated text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// Characters like others.
    Off,
    /// This character begins and ends a column in which separators mean nothing.
    Mark(u8),
}

/// `off`, `"` or `'`.
impl FromStr for Quote {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "\"" | "'" => Ok(Self::Mark(text.as_bytes()[0])),
            _ => Err("off, \" or '"),
        }
    }
}

/// What the text of a log's columns looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Separated or JSON: the first byte decides.
    Text,
    Structs,
}

/// Which column of a log is what.
///
/// ```
/// use sweephand_trace::columns::Columns;
///
/// let mut columns: Columns = "key=3,size=5".parse()?;
/// columns.header = true;
/// let named: Columns = "offset=lba*512,size=bytes,op=rw:WRITE|TRIM".parse()?;
/// let structs: Columns = "record=24,key=u64@4,size=u32@12".parse()?;
/// assert!("size=5".parse::<Columns>().is_err());
/// # Ok::<(), sweephand_trace::columns::ColumnsError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    pub(super) columns: Vec<Column>,
    /// Length of a struct, in bytes.
    pub(super) record_bytes: usize,
    /// Bytes before the first struct.
    pub(super) skip_bytes: u64,
    /// The first row has the names of the columns. It has them whenever a column of separated text
    /// is given by name.
    pub header: bool,
    /// What stands between columns; a space means any number of spaces and tabs, and
    /// [`WHOLE_LINES`](super::WHOLE_LINES) nothing. If `None`, what gives the first rows the same
    /// number of columns.
    pub separator: Option<u8>,
    /// What quotes are. If `None`, double quotes between commas and between spaces.
    pub quote: Option<Quote>,
    /// Bytes of a page, or of a block: a power of two from 512 up.
    pub page_bytes: u64,
    /// Keys and sizes are kept as they are: each object begins with its size
    /// ([`Event::Alloc`](crate::Event::Alloc)), and a request refers to its first page only. An
    /// object that is requested with another size is a new one.
    pub whole_objects: bool,
}

/// What is wrong with a description of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnsError(String);

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ColumnsError {}

impl From<String> for ColumnsError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl Columns {
    pub(super) fn shape(&self) -> Shape {
        if self.record_bytes > 0 { Shape::Structs } else { Shape::Text }
    }

    /// The log is text: separated, or JSON lines.
    pub(crate) fn is_text(&self) -> bool {
        self.shape() == Shape::Text
    }

    /// The beginning of binary structs without the last one, if that is cut off.
    pub(crate) fn whole_structs<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let skip = usize::try_from(self.skip_bytes).unwrap_or(usize::MAX);
        let structs = bytes.len().saturating_sub(skip);
        &bytes[..bytes.len() - structs % self.record_bytes.max(1)]
    }

    pub(super) fn of(&self, role: Role) -> Option<&Column> {
        self.columns.iter().find(|column| column.role == role)
    }

    /// The first row of separated text has names. Columns that may be missing do not imply that: if
    /// no other column has a name, theirs are looked for in comments.
    pub(super) fn has_header(&self) -> bool {
        let has_name = |column: &Column| matches!(column.place, Place::Name(_)) && !column.optional;
        self.header || self.columns.iter().any(has_name)
    }

    /// One of the columns is called so in a log whose header is this.
    pub(super) fn any_named(&self, header: &[impl AsRef<[u8]>]) -> bool {
        self.columns.iter().any(|column| match &column.place {
            Place::Name(name) => matches!(column_named(name, header), Ok(Some(_))),
            _ => false,
        })
    }

    /// Adds columns that a log may lack.
    pub(super) fn with_optional(mut self, text: &str) -> Result<Self, ColumnsError> {
        let known = self.columns.len();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            self.item(item)?;
        }
        self.columns[known..].iter_mut().for_each(|column| column.optional = true);
        Ok(self)
    }

    /// The same columns as text, with numbers in place of names, in a log whose header is this.
    /// What may be missing, and is, is left out. `None` if it cannot be said so.
    pub(crate) fn numbered(&self, header: &[impl AsRef<[u8]>]) -> Option<String> {
        let mut items = Vec::new();
        for column in &self.columns {
            let number = match &column.place {
                Place::Number(number) => *number,
                Place::Name(name) => match column_named(name, header).ok()? {
                    Some(index) => index + 1,
                    None if column.optional => continue,
                    None => return None,
                },
                Place::Bytes(..) => return None,
            };
            items.push(format!("{}={number}{}{}", column.role.name(), column.unit(), column.words));
        }
        Some(items.join(","))
    }

    fn checked(self) -> Result<Self, String> {
        let structs = self.columns.iter().filter(|column| matches!(column.place, Place::Bytes(..))).count();
        if self.of(Role::Key).is_none() && self.of(Role::Offset).is_none() {
            return Err("no column says what is requested: name key or offset".into());
        }
        if self.of(Role::Part).is_some() && self.of(Role::Key).is_none() {
            return Err("part is a part of an object: name the key, too".into());
        }
        if self.record_bytes > 0
            && let Some((name, kind)) = self.columns.iter().find_map(Column::unknown_kind)
        {
            return Err(format!("{name}: there is no type '{kind}'; a struct can have {KINDS}"));
        }
        if structs == 0 && (self.record_bytes > 0 || self.skip_bytes > 0) {
            return Err("record and skip are for binary structs, with columns like u64@4".into());
        }
        if structs > 0 && structs < self.columns.len() {
            return Err("either all columns are in a struct, like u64@4, or none is".into());
        }
        if structs > 0 && self.record_bytes == 0 {
            return Err("record=BYTES is missing: how long is a struct?".into());
        }
        for column in &self.columns {
            if let Place::Bytes(at, kind) = column.place
                && at + kind.bytes() > self.record_bytes
            {
                return Err(format!(
                    "{} goes beyond a struct of {} bytes",
                    column.role.name(),
                    self.record_bytes
                ));
            }
        }
        Ok(self)
    }

    /// The text of a file without its comments: what follows `#` at the beginning of a line or
    /// behind white space, outside of quotes.
    #[must_use]
    pub fn without_comments(text: &str) -> String {
        let line = |line: &str| {
            let mut quotes = Quotes::default();
            let mut last = ' ';
            let comment = line.char_indices().find(|(_, here)| {
                let begins = *here == '#' && last.is_whitespace() && !quotes.are_open();
                quotes.pass(*here);
                last = *here;
                begins
            });
            line[..comment.map_or(line.len(), |(at, _)| at)].to_owned() + "\n"
        };
        text.lines().map(line).collect()
    }

    fn item(&mut self, item: &str) -> Result<(), String> {
        let (name, value) = item.split_once('=').ok_or_else(|| format!("'{item}': not like key=3"))?;
        let (name, value) = (name.trim(), value.trim());
        match name {
            "record" => {
                self.record_bytes =
                    value.parse().ok().filter(|bytes| (1..=MOST_RECORD).contains(bytes)).ok_or_else(
                        || format!("record={value}: a struct has from 1 to {MOST_RECORD} bytes"),
                    )?;
                return Ok(());
            }
            "skip" => {
                self.skip_bytes =
                    value.parse().map_err(|_| format!("skip={value}: not a number of bytes"))?;
                return Ok(());
            }
            _ => {}
        }
        let Some((role, _)) = Role::ALL.into_iter().find(|(_, known)| *known == name) else {
            let known: Vec<_> = Role::ALL.iter().map(|(_, name)| *name).collect();
            return Err(format!("'{name}': no column is called so; known: {} record skip", known.join(" ")));
        };
        if self.of(role).is_some() {
            return Err(format!("{name} is named twice"));
        }
        let column = Column::parse(role, value)?;
        self.columns.push(column);
        Ok(())
    }
}

/// Whether a name in quotes is open, character by character. Quotes begin behind a `=`; two of them
/// within quotes are one that belongs to the name.
#[derive(Default)]
struct Quotes {
    open: bool,
    /// The character before was a quote within quotes: the end, or the first of two.
    ended: bool,
    /// The last character that is not white space.
    last: char,
}

impl Quotes {
    fn pass(&mut self, here: char) {
        let is_quote = here == '"';
        match (self.open, self.ended) {
            (true, true) if !is_quote => (self.open, self.ended) = (false, false),
            (true, ended) => self.ended = is_quote && !ended,
            (false, _) => self.open = is_quote && self.last == '=',
        }
        if !here.is_whitespace() {
            self.last = here;
        }
    }

    fn are_open(&self) -> bool {
        self.open && !self.ended
    }
}

/// The column of that name among those of a file: the one that is equal, or else the one that
/// differs only in upper and lower case.
///
/// # Errors
/// Several are.
pub(super) fn column_named(name: &str, names: &[impl AsRef<[u8]>]) -> Result<Option<usize>, String> {
    let all = |same: &dyn Fn(&[u8]) -> bool| {
        let places = (0..names.len()).filter(|index| same(names[*index].as_ref()));
        places.collect::<Vec<_>>()
    };
    let mut places = all(&|other| other == name.as_bytes());
    if places.is_empty() {
        places = all(&|other| other.eq_ignore_ascii_case(name.as_bytes()));
    }
    match places[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [one, other, ..] => Err(format!(
            "column '{name}' is there several times, as columns {} and {}: give the number of one",
            one + 1,
            other + 1
        )),
    }
}

/// A name as [`Columns`] reads it: in quotes if it would be something else without.
pub(super) fn written(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '$');
    let is_number = name.parse::<usize>().is_ok();
    match !name.is_empty() && name.trim() == name && name.chars().all(is_plain) && !is_number {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The name in quotes at the beginning of a value, and what follows it.
fn quoted(value: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = value.strip_prefix('"')?;
    loop {
        let end = rest.find('"')?;
        name += &rest[..end];
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => (name, rest) = (name + "\"", more),
            None => return Some((name, rest)),
        }
    }
}

impl Column {
    /// Role and type, of a column that looks like one in a struct and has no type there is.
    fn unknown_kind(&self) -> Option<(&'static str, &str)> {
        let Place::Name(name) = &self.place else { return None };
        let (kind, at) = name.split_once('@')?;
        at.parse::<usize>().ok().map(|_| (self.role.name(), kind))
    }

    /// What stands behind its place: `*512`, `/1000`, `:hex`.
    fn unit(&self) -> String {
        let scale = match self.role {
            _ if self.scale == 1.0 => String::new(),
            Role::Time | Role::Ttl => format!("/{}", (1.0 / self.scale).round()),
            _ => format!("*{}", self.scale),
        };
        scale + if self.hexadecimal { HEXADECIMAL } else { "" }
    }

    fn parse(role: Role, value: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{}={value}: {what}", role.name());
        let name = quoted(value);
        if name.is_none() && value.starts_with('"') {
            return Err(wrong("the quote is not closed"));
        }
        let value = name.as_ref().map_or(value, |(_, rest)| rest);
        let (mut rest, mut scale, mut words, mut hexadecimal) = (value, 1.0, Words::default(), false);
        match role {
            Role::Op => {
                if let Some((place, groups)) = value.split_once(':') {
                    (rest, words) = (place, Words::parse(groups).map_err(wrong)?);
                }
            }
            Role::Offset | Role::Size => {
                let value = value.strip_suffix(HEXADECIMAL).inspect(|_| hexadecimal = true).unwrap_or(value);
                rest = value;
                if let Some((place, factor)) = value.rsplit_once('*') {
                    let factor: u32 = factor.trim().parse().map_err(|_| wrong("not a number after *"))?;
                    (rest, scale) = (place, factor.into());
                }
            }
            Role::Time | Role::Ttl => {
                if let Some((place, divisor)) = value.rsplit_once('/') {
                    let divisor: u64 = divisor.trim().parse().map_err(|_| wrong("not a number after /"))?;
                    (rest, scale) = (place, 1.0 / divisor as f64);
                }
            }
            Role::Key | Role::Tenant | Role::Count | Role::Part => {}
        }
        if scale == 0.0 || !scale.is_finite() {
            return Err(wrong("nothing can be counted in units of 0"));
        }
        let rest = rest.trim();
        let place = if let Some((name, _)) = name {
            if !rest.is_empty() {
                return Err(wrong("something stands behind the name"));
            }
            Place::Name(name)
        } else if let Some((kind, at)) =
            rest.split_once('@').and_then(|(kind, at)| Some((Kind::parse(kind)?, at.parse().ok()?)))
        {
            if at > MOST_RECORD {
                return Err(wrong("beyond the longest struct"));
            }
            Place::Bytes(at, kind)
        } else if let Ok(number) = rest.parse() {
            if number == 0 {
                return Err(wrong("columns count from 1"));
            }
            Place::Number(number)
        } else if rest.is_empty() {
            return Err(wrong("no column"));
        } else {
            Place::Name(rest.to_owned())
        };
        Ok(Self { role, place, scale, hexadecimal, optional: false, words })
    }
}

/// Items between commas or in lines of their own. A name may stand in double quotes, as in
/// `key="a,b"`. Comments are for files ([`Columns::without_comments`]).
impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Self, ColumnsError> {
        let mut columns = Self {
            columns: Vec::new(),
            record_bytes: 0,
            skip_bytes: 0,
            header: false,
            separator: None,
            quote: None,
            page_bytes: 4096,
            whole_objects: false,
        };
        let mut quotes = Quotes::default();
        let items = text.split(|c: char| {
            quotes.pass(c);
            matches!(c, ',' | '\n') && !quotes.are_open()
        });
        for item in items.map(str::trim).filter(|item| !item.is_empty()) {
            columns.item(item)?;
        }
        Ok(columns.checked()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_numbers_names_or_bytes() {
        let place = |text: &str| Columns::from_str(text).unwrap().columns[0].place.clone();
        assert_eq!(place("key=3"), Place::Number(3));
        assert_eq!(place("key=request.id"), Place::Name("request.id".into()));
        assert_eq!(place("key=u64@4,record=12"), Place::Bytes(4, Kind::Unsigned(8)));
        assert_eq!(place("key=u16be@0,record=12"), Place::Bytes(0, Kind::BigEndian(2)));
        assert_eq!(place("key=text8@4,record=12"), Place::Bytes(4, Kind::Text(8)));
        // A name with an @ in it is a name.
        assert_eq!(place("key=user@host"), Place::Name("user@host".into()));
        let columns = Columns::from_str("offset=lba*512\nsize=2\nop=x:SET|ADD,time=t/1000").unwrap();
        assert_eq!(columns.columns[0].scale, 512.0);
        assert_eq!(columns.columns[2].words.writes, ["SET", "ADD"]);
        let words = |text: &str| Columns::from_str(text).unwrap().columns[1].words.clone();
        assert_eq!(words("key=1,op=2:read=GET|HEAD:delete=DEL:PUT").deletes, ["DEL"]);
        assert_eq!(words("key=1,op=2:read=GET|HEAD:delete=DEL:PUT").writes, ["PUT"]);
        assert_eq!(columns.columns[3].scale, 0.001);
    }

    #[test]
    fn columns_of_a_header_are_said_by_number() {
        let numbered = |columns: &Columns, header: &str| {
            columns.numbered(&header.split(',').map(str::as_bytes).collect::<Vec<_>>())
        };
        let of = |text: &str| Columns::from_str(text).unwrap();
        let text = "key=2,size=1*512,op=3:read=GET|HEAD:SET:delete=DEL,time=4/1000000";
        let named = of("key=k,size=s*512,op=o:read=GET|HEAD:SET:delete=DEL,time=t/1000000");
        assert_eq!(numbered(&named, "s,k,O,t").as_deref(), Some(text));
        // What is said is read as the same.
        let again = of(text);
        assert_eq!(numbered(&again, "").as_deref(), Some(text));
        assert_eq!(again.columns[2].words, named.columns[2].words);
        let optional = of("key=k").with_optional("time=t,ttl=life").unwrap();
        assert_eq!(numbered(&optional, "t,k").as_deref(), Some("key=2,time=1"));
        for (columns, header) in [("key=k", "a"), ("key=k", "k,k"), ("record=8,key=u64@0", "u64@0")] {
            assert_eq!(numbered(&of(columns), header), None, "{columns}, {header}");
        }
    }

    #[test]
    fn names_in_quotes_may_hold_anything() {
        let place = |text: &str| Columns::from_str(text).unwrap().columns[0].place.clone();
        for name in ["a,b", "a=b", "3", "a*b", "a:b", "t/1", "u64@4", "say \"x\"", " a ", "#1", "x\ny", ""] {
            let text = format!("key={}", written(name));
            assert_eq!(place(&text), Place::Name(name.into()), "{text}");
            let text = format!("time={0}/1000,op={0}:SET,size={0}*2,key=1", written(name));
            assert!(Columns::from_str(&text).is_ok(), "{text}");
        }
        for name in ["user#id", "object id", "url.path", "_ts", "näme"] {
            assert_eq!(written(name).trim_matches('"'), name);
            assert_eq!(place(&format!("key={}", written(name))), Place::Name(name.into()), "{name}");
        }
        // Only files have comments, and no `#` inside a word begins one.
        assert_eq!(place("key=user#id"), Place::Name("user#id".into()));
        let file = "# all\nkey = a#b # the object\n\nsize=\"x # y\"*2\t# bytes\n#op=3\n";
        let columns = Columns::from_str(&Columns::without_comments(file)).unwrap();
        assert_eq!(columns.columns.len(), 2);
        assert_eq!(columns.columns[0].place, Place::Name("a#b".into()));
        assert_eq!(columns.columns[1].place, Place::Name("x # y".into()));
    }

    #[test]
    fn what_cannot_be_right_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no column says what is requested: name key or offset"),
            ("size=2", "no column says what is requested: name key or offset"),
            ("key=1,key=2", "key is named twice"),
            ("key", "'key': not like key=3"),
            ("key=", "key=: no column"),
            ("key=0", "key=0: columns count from 1"),
            (
                "keys=1",
                "'keys': no column is called so; known: key offset size op tenant time ttl count part record skip",
            ),
            ("key=u64@4", "record=BYTES is missing: how long is a struct?"),
            ("key=u64@4,record=11", "key goes beyond a struct of 11 bytes"),
            ("key=u64@4,size=2,record=12", "either all columns are in a struct, like u64@4, or none is"),
            (
                "key=i64@4,record=12",
                "key: there is no type 'i64'; a struct can have u8 u16 u32 u64, u16be u32be u64be (big endian), \
                 f32 f64, text1 to text4096",
            ),
            ("key=\"a", "key=\"a: the quote is not closed"),
            ("key=\"a\"b", "key=\"a\"b: something stands behind the name"),
            ("key=1,record=12", "record and skip are for binary structs, with columns like u64@4"),
            ("key=u8@0,record=0", "record=0: a struct has from 1 to 65536 bytes"),
            ("key=1,size=2*x", "size=2*x: not a number after *"),
            ("key=1,size=2*0", "size=2*0: nothing can be counted in units of 0"),
            ("key=1,time=2/0", "time=2/0: nothing can be counted in units of 0"),
            ("key=1,op=2:|x", "op=2:|x: a word that writes is empty"),
            ("key=1,op=2:x:delete=X", "op=2:x:delete=X: a word means one thing, in either case"),
            ("key=1,op=2:reed=x", "op=2:reed=x: words are named as in read=GET:write=SET|ADD:delete=DEL"),
        ] {
            assert_eq!(Columns::from_str(text).unwrap_err().to_string(), reason, "{text}");
        }
    }
}
