//! Results for other programs: CSV with a line of names, JSON.

use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Writes rows of named values, the names in the first line. All rows have the same names.
pub(crate) fn write_csv<R: AsRef<[(&'static str, String)]>>(
    rows: impl Iterator<Item = R>,
    out: impl Write,
) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(out);
    for (index, columns) in rows.enumerate() {
        let columns = columns.as_ref();
        if index == 0 {
            csv.write_record(columns.iter().map(|(name, _)| name)).map_err(io::Error::from)?;
        }
        csv.write_record(columns.iter().map(|(_, value)| value)).map_err(io::Error::from)?;
    }
    csv.flush()
}

/// Writes an object over several lines.
pub(crate) fn write_json(object: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, object).map_err(io::Error::from)?;
    writeln!(out)
}

/// An object on one line.
pub fn json(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("plain data")
}

/// The version of what results look like. 2: counts are signed in tables (in 1 they were unsigned).
pub const SCHEMA_VERSION: u64 = 2;

/// What stands in front of results: the versions, the options that they depend on, how they are
/// counted.
pub fn header(
    options: impl IntoIterator<Item = (&'static str, Value)>,
    conventions: Value,
) -> Map<String, Value> {
    let options = options.into_iter().map(|(name, value)| (name.to_string(), value));
    let version = ("version".to_string(), Value::from(env!("CARGO_PKG_VERSION")));
    let schema = ("schema_version".to_string(), Value::from(SCHEMA_VERSION));
    [version, schema].into_iter().chain(options).chain([("conventions".to_string(), conventions)]).collect()
}
