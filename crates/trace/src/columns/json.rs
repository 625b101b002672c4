//! JSON lines: an object a line. Only the values that are wanted are looked at.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

use super::description::{Columns, Place, ROLES, Role};
use super::requests::Requests;
use super::value::Value;
use crate::bytes::ByteStream;
use crate::imported::Progress;
use crate::lines::{self, Lines, Refused};
use crate::{Error, Sink};

/// Reads the member's rows into `requests`.
pub(super) fn read_member<S: Sink>(
    stream: &mut ByteStream<'_>,
    columns: &Columns,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let mut paths = Vec::new();
    for column in &columns.columns {
        let Place::Name(name) = &column.place else {
            let role = column.role.name();
            return Err(Error::columns(format!(
                "the lines are JSON, whose columns have names: {role}=NAME, or OUTER.NAME"
            )));
        };
        paths.push((name.as_str(), column.role as usize));
    }
    let needed = columns.columns.iter().filter(|column| !column.optional).map(|column| column.role);
    let needed = needed.filter(|role| !matches!(role, Role::Size | Role::Ttl)).collect();
    lines::read_member(stream, &mut Objects { paths, needed, requests }, progress)
}

/// The names that lead to a value, from the outermost object inwards, with dots between, and the
/// value's role. A name may have dots of its own.
type Path<'a> = (&'a str, usize);

struct Objects<'a, 'b, S> {
    paths: Vec<Path<'a>>,
    /// What no row may lack.
    needed: Vec<Role>,
    requests: &'a mut Requests<'b, S>,
}

/// Values as they stand in the line, by role, each with the number of objects around it.
type Found<'de> = [Option<(usize, &'de RawValue)>; ROLES];

/// How a name is refused that is there twice.
const TWICE: &str = "a name that is there twice";

impl<S: Sink> Lines for Objects<'_, '_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        // Once for the line, instead of once for each name and value.
        let line = str::from_utf8(line).map_err(|_| "not UTF-8 (iconv converts it)")?;
        let mut found = [None; ROLES];
        let mut json = serde_json::Deserializer::from_str(line);
        let read = Wanted { here: &self.paths, depth: 0, found: &mut found }.deserialize(&mut json);
        read.and_then(|()| json.end()).map_err(|error| match error.to_string().starts_with(TWICE) {
            true => TWICE,
            false => "not a JSON object",
        })?;
        let mut row = [Value::Absent; ROLES];
        // Few strings have escapes, and only those are copied.
        let mut copied = Vec::new();
        for &(_, role) in &self.paths {
            match found[role].and_then(|(_, raw)| scalar(raw)) {
                Some(Cow::Borrowed(text)) => row[role] = Value::Text(text.as_bytes()),
                Some(Cow::Owned(text)) => copied.push((role, text)),
                None => {}
            }
        }
        for (role, text) in &copied {
            row[*role] = Value::Text(text.as_bytes());
        }
        if self.needed.iter().any(|role| matches!(row[*role as usize], Value::Absent)) {
            return Err("an object without one of the columns that are named".into());
        }
        self.requests.row(&row)
    }

    fn counts(&self) -> (u64, u64) {
        self.requests.counts()
    }
}

/// The text of a string, number or truth value. What has no such text is as good as absent.
fn scalar(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    match text.as_bytes().first()? {
        b'"' => {
            let inside = &text[1..text.len() - 1];
            if inside.contains('\\') {
                String::deserialize(raw).ok().map(Cow::Owned)
            } else {
                Some(Cow::Borrowed(inside))
            }
        }
        b'{' | b'[' | b'n' => None,
        _ => Some(Cow::Borrowed(text)),
    }
}

/// A name, which is not copied unless it has an escape in it.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// What stands where an object leads on: without one, there is nothing to find.
struct Inner<'a, 'de>(Wanted<'a, 'de>);

impl<'de> DeserializeSeed<'de> for Inner<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = <&RawValue>::deserialize(deserializer)?;
        if !value.get().starts_with('{') {
            return Ok(());
        }
        self.0.deserialize(&mut serde_json::Deserializer::from_str(value.get())).map_err(D::Error::custom)
    }
}

/// Takes the wanted values out of an object.
struct Wanted<'a, 'de> {
    /// The paths that lead through this object: what is left of them, with the role.
    here: &'a [Path<'a>],
    depth: usize,
    found: &'a mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for Wanted<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a, 'de> Visitor<'de> for Wanted<'a, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let name = name.0;
            let ends = |(rest, _): &&Path<'_>| *rest == name;
            let mut ending = self.here.iter().filter(ends).peekable();
            // The usual case: this is a value that is wanted.
            if ending.peek().is_some() {
                let value = map.next_value::<&RawValue>()?;
                for (_, role) in ending {
                    match self.found[*role] {
                        Some((depth, _)) if depth == self.depth => return Err(A::Error::custom(TWICE)),
                        // The name as a whole comes before objects within objects.
                        Some((depth, _)) if depth < self.depth => {}
                        _ => self.found[*role] = Some((self.depth, value)),
                    }
                }
                continue;
            }
            let behind =
                |(rest, role): &Path<'a>| Some((rest.strip_prefix(&*name)?.strip_prefix('.')?, *role));
            let here: Vec<_> = self.here.iter().filter_map(behind).collect();
            if here.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Inner(Wanted { here: &here, depth: self.depth + 1, found: self.found }))?;
            }
        }
        Ok(())
    }
}
