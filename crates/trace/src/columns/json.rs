//! JSON lines: an object a line. Only the values that are wanted are looked at.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::description::{Columns, Place, ROLES};
use super::requests::{Requests, Value};
use crate::bytes::ByteStream;
use crate::imported::Progress;
use crate::lines::{self, Lines, Refused};
use crate::{Error, Sink};

/// Reads a stream into `requests`.
pub(super) fn read<R: Read, S: Sink>(
    stream: ByteStream<R>,
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
        paths.push((name.split('.').map(str::to_owned).collect(), column.role as usize));
    }
    lines::read(stream, &mut Objects { paths, requests }, progress)
}

/// The names that lead to a value, from the outermost object inwards, and the value's role.
type Path = (Vec<String>, usize);

struct Objects<'a, 'b, S> {
    paths: Vec<Path>,
    requests: &'a mut Requests<'b, S>,
}

/// Values as they stand in the line, by role.
type Found<'de> = [Option<&'de RawValue>; ROLES];

impl<S: Sink> Lines for Objects<'_, '_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut found = [None; ROLES];
        let mut json = serde_json::Deserializer::from_slice(line);
        let all = (0..self.paths.len()).collect();
        Wanted { paths: &self.paths, here: all, depth: 0, found: &mut found }
            .deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|_| "not a JSON object")?;
        let mut texts: [Option<Cow<'_, str>>; ROLES] = [const { None }; ROLES];
        for (text, raw) in texts.iter_mut().zip(found) {
            *text = raw.and_then(scalar);
        }
        if self.paths.iter().any(|(_, role)| texts[*role].is_none()) {
            return Err("an object without one of the columns that are named".into());
        }
        let mut row = [Value::Absent; ROLES];
        for (value, text) in row.iter_mut().zip(&texts) {
            if let Some(text) = text {
                *value = Value::Text(text.as_bytes());
            }
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

/// Takes the wanted values out of an object.
struct Wanted<'a, 'de> {
    paths: &'a [Path],
    /// The paths that lead through this object.
    here: Vec<usize>,
    depth: usize,
    found: &'a mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for Wanted<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let name = name.0;
            let leads = |index: &usize| {
                let (path, _) = &self.paths[*index];
                path.get(self.depth).is_some_and(|step| *step == name)
            };
            let last = |index: &usize| self.paths[*index].0.len() == self.depth + 1;
            let mut matching = self.here.iter().copied().filter(leads).peekable();
            match matching.peek() {
                None => drop(map.next_value::<IgnoredAny>()?),
                // The usual case: this is a value that is wanted.
                Some(index) if last(index) => {
                    let value = map.next_value::<&RawValue>()?;
                    for index in matching.filter(last) {
                        self.found[self.paths[index].1] = Some(value);
                    }
                }
                Some(_) => {
                    let here = matching.collect();
                    let inner = Wanted { paths: self.paths, here, depth: self.depth + 1, found: self.found };
                    map.next_value_seed(inner)?;
                }
            }
        }
        Ok(())
    }
}
