//! What a log looks like, and which column may be what.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::description::{Columns, Role, written};
use super::guess::{Guess, SECTORS, Sampled, guess, named};
use super::separated::{is_comment, said, separator_of, split};
use super::value::number;
#[cfg(feature = "parquet")]
use crate::Error;
use crate::bytes::MARK;

/// Rows that are looked at.
const ROWS: usize = 1000;

/// Values of a column that are shown.
const EXAMPLES: usize = 3;

/// The first rows of a log: its columns, and a guess which of them is what.
#[derive(Clone, Debug)]
pub struct Preview {
    /// What it seems to be: `CSV`, `JSON lines`, ...
    pub shape: String,
    /// Its columns.
    pub columns: Vec<PreviewColumn>,
    /// The first row seems to have the names of the columns.
    pub header: bool,
    /// What is guessed, as [`Columns`] reads it.
    guess: Vec<(Role, String)>,
}

/// A column of a log.
#[derive(Clone, Debug)]
pub struct PreviewColumn {
    /// How [`Columns`] names it: a number, or in JSON a name.
    pub place: String,
    /// What the header calls it; empty without a header.
    pub name: String,
    /// How many values it has in the rows that were looked at.
    pub distinct: usize,
    /// Some of its values.
    pub examples: Vec<String>,
    /// What it may be: a word that [`Columns`] knows, or nothing.
    pub role: &'static str,
}

impl Preview {
    /// Looks at the beginning of a log. `None` if it is no text with columns.
    pub fn of(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let (comments, lines): (Vec<_>, Vec<_>) = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .take(ROWS)
            .partition(|line| line.trim_ascii_start().starts_with(b"#"));
        let first = lines.first()?;
        if first.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\r')) {
            return None;
        }
        if first.trim_ascii_start().starts_with(b"{") {
            Self::json(&lines)
        } else {
            Some(Self::separated(&lines, comments.last().copied().unwrap_or_default()))
        }
    }

    /// Columns of a log that begins like this, by number if its first row has names.
    pub(crate) fn numbered(columns: &Columns, text: &[u8]) -> Option<String> {
        let text = text.strip_prefix(MARK).unwrap_or(text);
        let rows = text.split(|byte| matches!(byte, b'\n' | b'\r'));
        let first = rows.into_iter().find(|line| !line.trim_ascii().is_empty() && !is_comment(line))?;
        columns.numbered(&split(first, separator_of(&[first], 2)))
    }

    /// The columns that are guessed, as [`Columns`] reads them, if there is a guess.
    pub fn guess(&self) -> Option<String> {
        let items: Vec<&str> = self.guess.iter().map(|(_, item)| item.as_str()).collect();
        (!items.is_empty()).then(|| items.join(","))
    }

    /// The same, read.
    pub(crate) fn guessed(&self) -> Option<Columns> {
        let mut columns: Columns = self.guess()?.parse().ok()?;
        columns.header = self.header;
        Some(columns)
    }

    /// Guesses that differ from this one in one column: without it, what matters least first, or
    /// with the offset as a key if there is none. One of them may be right if the reader refuses
    /// this one.
    pub(crate) fn alternatives(&self) -> Vec<Self> {
        const OPTIONAL: [Role; 6] = [Role::Ttl, Role::Time, Role::Count, Role::Tenant, Role::Op, Role::Size];
        let has = |role: &Role| self.guess.iter().any(|(guessed, _)| guessed == role);
        let mut all: Vec<Self> = OPTIONAL.into_iter().filter(has).map(|role| self.with(role, None)).collect();
        if has(&Role::Offset) {
            let other = (!has(&Role::Key)).then_some(Role::Key);
            all.push(self.with(Role::Offset, other));
        }
        all
    }

    /// The same with another role, or none, for the column that has this one.
    fn with(&self, role: Role, other: Option<Role>) -> Self {
        let mut changed = self.clone();
        let index = self.guess.iter().position(|(guessed, _)| *guessed == role).expect("it is guessed");
        let (_, item) = changed.guess.remove(index);
        if let Some(other) = other {
            let place = item.split_once('=').map_or("", |(_, place)| place).trim_end_matches(SECTORS);
            changed.guess.insert(0, (other, format!("{}={place}", other.name())));
        }
        for column in changed.columns.iter_mut().filter(|column| column.role == role.name()) {
            column.role = other.map_or("", Role::name);
        }
        changed
    }

    /// Without any guess.
    pub(crate) fn without_guess(mut self) -> Self {
        self.guess.clear();
        self.columns.iter_mut().for_each(|column| column.role = "");
        self
    }

    /// Looks at a Parquet file.
    #[cfg(feature = "parquet")]
    pub(crate) fn of_table(table: &super::Table) -> Result<Self, Error> {
        let names = table.names();
        let columns = names.iter().zip(table.first_rows(ROWS)?).enumerate().map(|(index, (name, values))| {
            let is_one = names.iter().filter(|other| *other == name).count() == 1;
            let place = if is_one { written(name) } else { (index + 1).to_string() };
            Sampled { place, name: name.clone(), values }
        });
        Ok(Self::new("Parquet", columns.collect(), false))
    }

    fn separated(lines: &[&[u8]], comment: &[u8]) -> Self {
        let said = lines.first().and_then(|line| said(line)).filter(|_| lines.len() > 1);
        let lines = if said.is_some() { &lines[1..] } else { lines };
        let separator = said.unwrap_or_else(|| separator_of(lines, 2));
        let shown = |columns: Vec<Vec<u8>>| -> Vec<String> {
            columns.iter().map(|column| String::from_utf8_lossy(column).into_owned()).collect()
        };
        let mut rows: Vec<_> = lines.iter().map(|line| shown(split(line, separator))).collect();
        let is_number = |text: &String| text.parse::<f64>().is_ok() || number(text.as_bytes()).is_some();
        let first_is_words = rows[0].iter().all(|column| !is_number(column));
        let tells = rows[0].iter().any(|name| named(name).is_some());
        let later_numbers = rows.iter().skip(1).any(|row| row.iter().any(is_number));
        let header = rows.len() > 1 && first_is_words && (tells || later_numbers);
        let names = if header { rows.remove(0) } else { Vec::new() };
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let names = if header { names } else { names_in(comment, separator, width) };
        let columns = (0..width)
            .map(|index| Sampled {
                place: (index + 1).to_string(),
                name: names.get(index).cloned().unwrap_or_default(),
                values: rows.iter().filter_map(|row| row.get(index).cloned()).collect(),
            })
            .collect();
        let other = format!("columns between '{}'", separator.escape_ascii());
        let shape = match separator {
            b',' => "columns between commas (CSV)",
            b'\t' => "columns between tabs (TSV)",
            b' ' => "columns between spaces",
            b';' => "columns between semicolons",
            b'|' => "columns between vertical bars",
            _ => &other,
        };
        Self::new(shape, columns, header)
    }

    fn json(lines: &[&[u8]]) -> Option<Self> {
        fn walk(path: &str, value: &Json, found: &mut Vec<(String, String)>) {
            match value {
                Json::Object(object) => {
                    for (name, value) in object {
                        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                        walk(&path, value, found);
                    }
                }
                Json::String(text) => found.push((path.to_owned(), text.clone())),
                Json::Null | Json::Array(_) => {}
                other => found.push((path.to_owned(), other.to_string())),
            }
        }
        let mut columns: Vec<Sampled> = Vec::new();
        for line in lines {
            let Ok(value) = serde_json::from_str(&String::from_utf8_lossy(line)) else { continue };
            let mut found = Vec::new();
            walk("", &value, &mut found);
            for (path, text) in found {
                match columns.iter_mut().find(|column| column.name == path) {
                    Some(column) => column.values.push(text),
                    None => columns.push(Sampled { place: written(&path), name: path, values: vec![text] }),
                }
            }
        }
        (!columns.is_empty()).then(|| Self::new("JSON lines", columns, false))
    }

    fn new(shape: &str, columns: Vec<Sampled>, header: bool) -> Self {
        let guesses = guess(&columns);
        let of = |role| {
            let named = |guess: &Option<Guess>| guess.is_some_and(|guess| guess.role == role);
            guesses.iter().position(named)
        };
        let items = Role::ALL.iter().filter_map(|(role, name)| {
            let column = of(*role)?;
            let unit = guesses[column].map_or("", |guess| guess.unit);
            Some((*role, format!("{name}={}{unit}", columns[column].place)))
        });
        let requested = of(Role::Key).or(of(Role::Offset));
        let guess = requested.map(|_| items.collect()).unwrap_or_default();
        let columns = columns.iter().zip(&guesses).map(|(column, guess)| {
            let mut seen = HashSet::new();
            let mut examples = Vec::new();
            for value in &column.values {
                if seen.insert(value) && examples.len() < EXAMPLES {
                    examples.push(value.clone());
                }
            }
            PreviewColumn {
                distinct: seen.len(),
                examples,
                role: guess.map_or("", |guess| guess.role.name()),
                place: column.place.clone(),
                name: column.name.clone(),
            }
        });
        Self { shape: shape.to_owned(), columns: columns.collect(), header, guess }
    }
}

/// The names of `width` columns, if a comment before the rows has them: `#key,size`, or as web
/// servers write it, `#Fields: date time`.
fn names_in(comment: &[u8], separator: u8, width: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(comment);
    let text = text.trim().trim_start_matches('#');
    let text = text.strip_prefix("Fields:").unwrap_or(text);
    let names = |separator| -> Vec<String> {
        let names = split(text.as_bytes(), separator);
        names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    };
    let ways = [names(separator), names(b' ')];
    ways.into_iter().find(|names| names.len() == width).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(text: &str) -> (Option<String>, bool) {
        let preview = Preview::of(text.as_bytes()).unwrap();
        (preview.guess(), preview.header)
    }

    #[test]
    fn names_tell_the_roles() {
        let csv = "timestamp,obj_id,size,ttl\n1,a,100,0\n2,b,200,60\n";
        assert_eq!(guessed(csv), (Some("key=2,size=3,time=1,ttl=4".into()), true));
        let json = "{\"t\":{\"ts\":1},\"key\":\"a\",\"op\":\"GET\"}\n{\"t\":{\"ts\":2},\"key\":\"b\",\"op\":\"SET\"}\n";
        assert_eq!(guessed(json), (Some("key=key,op=op,time=t.ts".into()), false));
    }

    #[test]
    fn values_tell_the_roles_where_there_are_no_names() {
        let log = "1.5 4096 R 8192\n1.7 0 W 512\n1.9 8192 R 4096\n2.5 4096 R 8192\n";
        assert_eq!(guessed(log), (Some("offset=2,size=4,op=3,time=1".into()), false));
        assert_eq!(guessed("a\nb\na\n"), (Some("key=1".into()), false));
    }

    #[test]
    fn what_a_name_or_the_values_prove_is_not_guessed_otherwise() {
        for (log, expected) in [
            // Sectors, and sizes in sectors beside them.
            ("time,lba,size,op\n1,8,4096,R\n2,16,4096,W\n3,8,4096,R\n", "offset=2*512,size=3,op=4,time=1"),
            ("sector,size\n8,8\n16,8\n8,16\n", "offset=1*512,size=2*512"),
            ("start_lba;num_sectors\n8;8\n16;8\n", "offset=1*512,size=2*512"),
            // A place in a file, unless the key counts the rows.
            ("key,offset,size\na,0,4096\nb,0,4096\na,0,4096\n", "key=1,offset=2,size=3"),
            ("file_name,offset\nx,0\ny,0\n", "key=1,offset=2"),
            ("inode,file_offset\n7,0\n7,4096\n9,0\n", "key=1,offset=2"),
            ("id,offset,size\n1,0,4096\n2,0,4096\n3,0,4096\n", "offset=2,size=3"),
            // Blocks have no known unit, so each is an object.
            ("block,rw\n5,R\n6,W\n5,R\n", "key=1,op=2"),
            (
                "op_time,key,op,size,op_count\n1,a,GET,10,5\n2,b,GET,10,1\n",
                "key=2,size=4,op=3,time=1,count=5",
            ),
            ("key,count\na,5\nb,x\n", "key=1"),
            ("offset,count\n0,5\n4096,2\n", "offset=1"),
            // Clients share objects; disks do not share places.
            ("client,url\na,/x\nb,/x\na,/x\n", "key=2"),
            ("host,offset\na,0\nb,0\n", "offset=2,tenant=1"),
            ("user,key\na,x\nb,x\n", "key=2"),
            // Milliseconds and the like of this century.
            ("ts,key\n1700000000000,a\n1700000000001,b\n", "key=2,time=1/1000"),
            ("ts,key\n128166372003061629,a\n128166372003061630,b\n", "key=2,time=1/10000000"),
        ] {
            assert_eq!(guessed(log).0.as_deref(), Some(expected), "{log}");
        }
    }

    #[test]
    fn comments_are_skipped_and_may_name_the_columns() {
        let w3c = "#Version: 1.0\n#Fields: date time cs-uri-stem sc-bytes\n2014-07-21\t01:58:45\t/a\t563\n";
        let preview = Preview::of(w3c.as_bytes()).unwrap();
        assert!(preview.shape.contains("tabs"), "{}", preview.shape);
        assert_eq!(preview.columns[3].name, "sc-bytes");
        assert_eq!(guessed("# key size\na 10\nb 20\na 10\n"), (Some("key=1,size=2".into()), false));
        assert_eq!(guessed("#made by x\nk,10\nl,20\n").0.as_deref(), Some("key=1"));
    }

    #[test]
    fn a_guess_says_what_the_reader_takes() {
        let log = "op,time,key,size\nx,2024-01-01,a,big\ny,2024-01-02,b,small\n";
        assert_eq!(guessed(log), (Some("key=3".into()), true));
        assert!(Preview::of(b"\0\x01").is_none());
        assert!(Preview::of(b"").is_none());
        for (json, place) in [
            ("{\"object id\":\"a\"}", "key=object id"),
            ("{\"a,b\":\"a\"}", "key=\"a,b\""),
            ("{\"1\":\"a\"}", "key=\"1\""),
            ("{\"k=v\":\"a\"}", "key=\"k=v\""),
            ("{\"url.path\":\"/a\"}", "key=url.path"),
        ] {
            let preview = Preview::of(json.as_bytes()).unwrap();
            assert_eq!(preview.guess().as_deref(), Some(place), "{json}");
            assert!(preview.guessed().is_some(), "{json}");
        }
        let preview = Preview::of(b"time,lba,size,op\n1,8,4096,R\n2,16,4096,W\n").unwrap();
        let alternatives = preview.alternatives();
        let guesses: Vec<_> = alternatives.iter().map(|other| other.guess().unwrap()).collect();
        let expected = [
            "offset=2*512,size=3,op=4",
            "offset=2*512,size=3,time=1",
            "offset=2*512,op=4,time=1",
            "key=2,size=3,op=4,time=1",
        ];
        assert_eq!(guesses, expected);
        assert_eq!([alternatives[0].columns[0].role, alternatives[3].columns[1].role], ["", "key"]);
    }
}
