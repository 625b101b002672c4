//! What is in a trace: `sweephand info`.

use serde_json::{Value, json};
use sweephand_trace::objects::{Object, objects};
use sweephand_trace::{Error, Header, Trace, file_hash};

/// What is in a trace, with its largest objects.
#[derive(Clone, Debug)]
pub struct TraceReport<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Whether every chunk was checked.
    pub verified: bool,
    /// The hash of its file, as the plan of a sweep has it, if it was verified and has one.
    pub file_hash: Option<String>,
    /// The largest objects, the largest first.
    pub objects: Vec<Object>,
    /// How many of all objects are live at the end.
    pub live_at_end: usize,
}

impl<'a> TraceReport<'a> {
    /// That of a trace, with so many objects at most.
    pub fn of(trace: &'a Trace, most_objects: usize, verified: bool) -> Result<Self, Error> {
        let name = Some(trace.name()).filter(|name| verified && name.is_file());
        let hash = |name| file_hash(name).map_err(|error| Error::from(error).in_file(name));
        let file_hash = name.map(hash).transpose()?;
        let mut objects = objects(trace)?;
        let live_at_end = objects.iter().filter(|object| object.to_record.is_none()).count();
        objects.sort_by_key(|object| std::cmp::Reverse(object.length_bytes));
        objects.truncate(most_objects);
        Ok(Self { trace, verified, file_hash, objects, live_at_end })
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let Header { version, checksum, totals, metadata } = self.trace.header();
        let objects: Vec<Value> = self
            .objects
            .iter()
            .map(|object| {
                json!({
                    "address": object.address,
                    "length_bytes": object.length_bytes,
                    "kind": object.kind.name(),
                    "touched_pages": object.touched_pages,
                    "from_record": object.from_record,
                    "to_record": object.to_record,
                })
            })
            .collect();
        json!({
            "trace": self.trace.name().display().to_string(),
            "format_version": version,
            // As text: 64 bits do not survive every JSON reader.
            "checksum": format!("{checksum:016x}"),
            "verified": self.verified,
            "file_hash": self.file_hash,
            "metadata": metadata,
            "totals": totals,
            "largest_objects": objects,
        })
    }
}
