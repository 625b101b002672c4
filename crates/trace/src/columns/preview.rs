//! What a log looks like, and which column may be what.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::description::{Columns, Role};
use super::requests::{self, Op};
use super::separated::{guess_separator, split};
#[cfg(feature = "parquet")]
use crate::Error;

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
    /// Columns as [`Columns`] reads them, if there is a guess.
    pub guess: Option<String>,
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

/// A column and its values.
struct Sampled {
    place: String,
    name: String,
    values: Vec<String>,
}

/// Names that columns have in logs, with the role that they tell, the most telling first.
const NAMES: &[(Role, &[&str])] = &[
    (
        Role::Offset,
        &["offset", "lba", "byteoffset", "sector", "block", "startblock", "address", "addr", "blockaddress"],
    ),
    (
        Role::Key,
        &[
            "key", "keyid", "object", "obj", "objectid", "objid", "cachekey", "url", "uri", "page", "pageid",
            "hash", "item", "itemid", "blockid", "id",
        ],
    ),
    (
        Role::Size,
        &[
            "size",
            "bytes",
            "length",
            "len",
            "objectsize",
            "objsize",
            "valuesize",
            "sizebytes",
            "iosize",
            "requestsize",
            "nbytes",
        ],
    ),
    (Role::Op, &["op", "operation", "opcode", "rw", "iotype", "type", "method", "command", "verb"]),
    (Role::Time, &["time", "timestamp", "ts", "seconds", "date"]),
    (
        Role::Tenant,
        &["tenant", "client", "clientid", "namespace", "volume", "disk", "device", "user", "host"],
    ),
    (Role::Ttl, &["ttl", "expiry", "timetolive"]),
];

impl Preview {
    /// Looks at the beginning of a log. `None` if it is no text with columns.
    pub fn of(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines: Vec<&[u8]> = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .take(ROWS)
            .collect();
        let first = lines.first()?;
        if first.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\r')) {
            return None;
        }
        if first.trim_ascii_start().starts_with(b"{") {
            Self::json(&lines)
        } else {
            Some(Self::separated(&lines))
        }
    }

    /// The columns that are guessed.
    pub(crate) fn guessed(&self) -> Option<Columns> {
        let mut columns: Columns = self.guess.as_ref()?.parse().ok()?;
        columns.header = self.header;
        Some(columns)
    }

    /// Looks at a Parquet file.
    #[cfg(feature = "parquet")]
    pub(crate) fn of_table(table: &super::Table) -> Result<Self, Error> {
        let columns = table.names().into_iter().zip(table.first_rows(ROWS)?);
        let sampled = columns.map(|(name, values)| Sampled { place: name.clone(), name, values });
        Ok(Self::new("Parquet", sampled.collect(), false))
    }

    fn separated(lines: &[&[u8]]) -> Self {
        let separator = guess_separator(lines[0]);
        let shown = |columns: Vec<Vec<u8>>| -> Vec<String> {
            columns.iter().map(|column| String::from_utf8_lossy(column).into_owned()).collect()
        };
        let mut rows: Vec<_> = lines.iter().map(|line| shown(split(line, separator))).collect();
        let is_number =
            |text: &String| text.parse::<f64>().is_ok() || requests::number(text.as_bytes()).is_some();
        let first_is_words = rows[0].iter().all(|column| !is_number(column));
        let tells = rows[0].iter().any(|name| role_of_name(name).is_some());
        let later_numbers = rows.iter().skip(1).any(|row| row.iter().any(is_number));
        let header = rows.len() > 1 && first_is_words && (tells || later_numbers);
        let names = if header { rows.remove(0) } else { Vec::new() };
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let columns = (0..width)
            .map(|index| Sampled {
                place: (index + 1).to_string(),
                name: names.get(index).cloned().unwrap_or_default(),
                values: rows.iter().filter_map(|row| row.get(index).cloned()).collect(),
            })
            .collect();
        let shape = match separator {
            b',' => "columns between commas (CSV)",
            b'\t' => "columns between tabs (TSV)",
            b' ' => "columns between spaces",
            b';' => "columns between semicolons",
            _ => "columns between vertical bars",
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
            let Ok(value) = serde_json::from_slice(line) else { continue };
            let mut found = Vec::new();
            walk("", &value, &mut found);
            for (path, text) in found {
                match columns.iter_mut().find(|column| column.place == path) {
                    Some(column) => column.values.push(text),
                    None => columns.push(Sampled { name: path.clone(), place: path, values: vec![text] }),
                }
            }
        }
        (!columns.is_empty()).then(|| Self::new("JSON lines", columns, false))
    }

    fn new(shape: &str, columns: Vec<Sampled>, header: bool) -> Self {
        let roles = guess(&columns);
        let of = |role| roles.iter().position(|guessed| *guessed == Some(role));
        let named = of(Role::Key).or(of(Role::Offset)).map(|_| {
            let items = Role::ALL.iter().filter_map(|(role, name)| {
                let column = of(*role)?;
                Some(format!("{name}={}", columns[column].place))
            });
            items.collect::<Vec<_>>().join(",")
        });
        let columns = columns.into_iter().zip(&roles).map(|(column, role)| {
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
                role: role.map_or("", Role::name),
                place: column.place.clone(),
                name: column.name.clone(),
            }
        });
        let columns = columns.collect();
        // What it says has to be what the reader takes.
        let guess = named.filter(|text| text.parse::<Columns>().is_ok());
        Self { shape: shape.to_owned(), columns, header, guess }
    }
}

/// The role that a name tells.
fn role_of_name(name: &str) -> Option<(Role, usize)> {
    let last = name.rsplit('.').next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_lowercase();
    NAMES
        .iter()
        .find_map(|(role, names)| names.iter().position(|known| *known == plain).map(|rank| (*role, rank)))
}

/// Which column may be what: first by their names, then by their values.
fn guess(columns: &[Sampled]) -> Vec<Option<Role>> {
    let mut roles: Vec<Option<Role>> = vec![None; columns.len()];
    for (role, _) in NAMES {
        let named = columns.iter().enumerate().filter_map(|(index, column)| {
            role_of_name(&column.name).filter(|(told, _)| told == role).map(|(_, rank)| (rank, index))
        });
        if let Some((_, index)) = named.min() {
            roles[index] = Some(*role);
        }
    }
    let numbers: Vec<Option<Vec<f64>>> = columns
        .iter()
        .map(|column| column.values.iter().map(|value| value.parse().ok()).collect::<Option<Vec<f64>>>())
        .collect();
    let has = |roles: &[Option<Role>], role| roles.contains(&Some(role));
    let free = |roles: &[Option<Role>], index: usize| roles[index].is_none();
    // Every value is a word for reading, writing or deleting.
    if let Some(index) = (0..columns.len()).find(|index| {
        free(&roles, *index)
            && !columns[*index].values.is_empty()
            && columns[*index].values.iter().all(|value| Op::of(value.as_bytes()).is_some())
    }) && !has(&roles, Role::Op)
    {
        roles[index] = Some(Role::Op);
    } else if let Some(op) = roles.iter().position(|role| *role == Some(Role::Op))
        && !columns[op].values.iter().all(|value| Op::of(value.as_bytes()).is_some())
    {
        // Its name says so, but its values need words that only the reader of the log knows.
        roles[op] = None;
    }
    // Times never go back.
    let ascends =
        |numbers: &[f64]| numbers.len() > 2 && numbers.is_sorted() && numbers.first() < numbers.last();
    let is_time = |index: usize| numbers[index].as_deref().is_some_and(ascends);
    if let Some(time) = roles.iter().position(|role| *role == Some(Role::Time))
        && numbers[time].is_none()
    {
        roles[time] = None;
    }
    if !has(&roles, Role::Time)
        && columns.len() > 1
        && let Some(index) = (0..columns.len()).find(|index| free(&roles, *index) && is_time(*index))
    {
        roles[index] = Some(Role::Time);
    }
    // What is requested: many values, some of them again.
    if has(&roles, Role::Key) && has(&roles, Role::Offset) {
        let key = roles.iter().position(|role| *role == Some(Role::Key)).expect("there is one");
        roles[key] = None;
    }
    if !has(&roles, Role::Key) && !has(&roles, Role::Offset) {
        let distinct = |index: usize| columns[index].values.iter().collect::<HashSet<_>>().len();
        let best = (0..columns.len()).filter(|index| free(&roles, *index)).max_by_key(|index| {
            // The first of several that are as good.
            (distinct(*index), std::cmp::Reverse(*index))
        });
        if let Some(index) = best {
            let in_blocks = numbers[index].as_deref().is_some_and(|numbers| {
                numbers.len() > 2 && numbers.iter().all(|number| number % 512.0 == 0.0)
            });
            roles[index] = Some(if in_blocks { Role::Offset } else { Role::Key });
        }
    }
    // Sizes in bytes of disks are whole sectors.
    if !has(&roles, Role::Size)
        && let Some(index) = (0..columns.len()).find(|index| {
            free(&roles, *index)
                && numbers[*index].as_deref().is_some_and(|numbers| {
                    !numbers.is_empty()
                        && numbers.iter().all(|number| *number >= 512.0 && number % 512.0 == 0.0)
                })
        })
    {
        roles[index] = Some(Role::Size);
    }
    // An offset or a size that is no number is none.
    for (role, values) in roles.iter_mut().zip(columns) {
        let whole = || values.values.iter().all(|value| requests::number(value.as_bytes()).is_some());
        match role {
            Some(Role::Size) if !whole() => *role = None,
            Some(Role::Offset) if !whole() => *role = Some(Role::Key),
            _ => {}
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(text: &str) -> (Option<String>, bool) {
        let preview = Preview::of(text.as_bytes()).unwrap();
        (preview.guess, preview.header)
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
    fn what_the_reader_would_refuse_is_not_guessed() {
        let log = "op,time,key,size\nx,2024-01-01,a,big\ny,2024-01-02,b,small\n";
        assert_eq!(guessed(log), (Some("key=3".into()), true));
        assert!(Preview::of(b"\0\x01").is_none());
        assert!(Preview::of(b"").is_none());
    }
}
