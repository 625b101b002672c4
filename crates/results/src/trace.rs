//! What is in a trace: `sweephand info`.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use sweephand_trace::objects::{Object, objects};
use sweephand_trace::{Error, Header, Metadata, Trace, file_hash};

/// What is in a trace, with its largest objects.
#[derive(Clone, Debug)]
pub struct TraceReport<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Whether every chunk was checked.
    pub verified: bool,
    /// The hash of its file, as the plan of a sweep has it, if it was verified and has one.
    pub file_hash: Option<String>,
    /// The largest objects: those with most pages touched first.
    pub objects: Vec<Object>,
    /// The places whose objects have most pages touched, the most first. Empty if the trace has no
    /// places.
    pub places: Vec<PlaceCounts>,
    /// How many of all objects are live at the end.
    pub live_at_end: usize,
}

/// The objects that one place in the program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceCounts {
    /// The place, as `relax.c:12 in step`.
    pub made_at: String,
    /// How many objects it made.
    pub objects: u64,
    /// Their lengths together, in bytes; with reservations this can be far more than was used.
    pub length_bytes: u64,
    /// Their pages touched together. Objects that lay in the same page, or one after the other in
    /// the same memory, each count it.
    pub touched_pages: u64,
}

/// The places that made objects, the one with most pages touched first.
fn places_of(objects: &[Object]) -> Vec<PlaceCounts> {
    let mut counts: BTreeMap<String, PlaceCounts> = BTreeMap::new();
    for object in objects {
        let Some(frame) = object.made_at.as_ref().and_then(|stack| stack.place()) else { continue };
        let made_at = frame.to_string();
        let place = counts.entry(made_at.clone()).or_insert(PlaceCounts {
            made_at,
            objects: 0,
            length_bytes: 0,
            touched_pages: 0,
        });
        place.objects += 1;
        place.length_bytes = place.length_bytes.saturating_add(object.length_bytes);
        place.touched_pages += object.touched_pages;
    }
    let mut places: Vec<_> = counts.into_values().collect();
    places.sort_by_key(|place| std::cmp::Reverse((place.touched_pages, place.length_bytes)));
    places
}

impl<'a> TraceReport<'a> {
    /// The report on a trace, with at most `most_objects` objects.
    pub fn of(trace: &'a Trace, most_objects: usize, verified: bool) -> Result<Self, Error> {
        let name = Some(trace.name()).filter(|name| verified && name.is_file());
        let hash = |name| file_hash(name).map_err(|error| Error::from(error).in_file(name));
        let file_hash = name.map(hash).transpose()?;
        let mut objects = objects(trace)?;
        let live_at_end = objects.iter().filter(|object| object.to_record.is_none()).count();
        let mut places = places_of(&objects);
        places.truncate(most_objects);
        // A reservation of which nothing is used is not large.
        objects.sort_by_key(|object| std::cmp::Reverse((object.touched_pages, object.length_bytes)));
        objects.truncate(most_objects);
        Ok(Self { trace, verified, file_hash, objects, places, live_at_end })
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let Header { version, checksum, totals, metadata } = self.trace.header();
        // Objects name their places below. The stacks of all objects would be most of the output.
        let mut metadata = Metadata { places: None, ..metadata.clone() };
        // So would the tenant of each object be. Their names tell enough.
        if let Some(tenants) = &mut metadata.tenants {
            tenants.of_objects.clear();
        }
        let objects: Vec<Value> = self
            .objects
            .iter()
            .map(|object| {
                json!({
                    "address": object.address,
                    "length_bytes": object.length_bytes,
                    "kind": object.kind.name(),
                    "made_at": object.made_at.as_ref().and_then(|stack| stack.place()).map(ToString::to_string),
                    "touched_pages": object.touched_pages,
                    "from_record": object.from_record,
                    "to_record": object.to_record,
                })
            })
            .collect();
        let places: Vec<Value> = self
            .places
            .iter()
            .map(|place| {
                json!({
                    "made_at": place.made_at,
                    "objects": place.objects,
                    "length_bytes": place.length_bytes,
                    "touched_pages": place.touched_pages,
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
            "places": places,
        })
    }
}
