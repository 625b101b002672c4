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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_trace::places::{Frame, Stack};
    use sweephand_trace::{AllocKind, EndTotals, Writer};

    fn object(line: u32, length_bytes: u64, touched_pages: u64) -> Object {
        let frame = Frame {
            function: Some("step".into()),
            line: (line > 0).then(|| ("relax.c".into(), line)),
            module: "relax".into(),
            offset: 16,
        };
        Object {
            address: 0x1000,
            length_bytes,
            kind: AllocKind::Malloc,
            made_at: (line > 0).then(|| Stack(vec![frame])),
            from_record: 0,
            to_record: None,
            touched_pages,
        }
    }

    #[test]
    fn places_add_up_their_objects_and_most_pages_come_first() {
        let objects =
            [object(12, 100, 3), object(0, 9, 9), object(40, 900, 5), object(12, 50, 1), object(7, 800, 5)];
        let told: Vec<_> = places_of(&objects)
            .into_iter()
            .map(|place| (place.made_at, place.objects, place.length_bytes, place.touched_pages))
            .collect();
        let at = |line: u32| format!("relax.c:{line} in step");
        // Of two with as many pages, the longer one comes first.
        assert_eq!(told, [(at(40), 1, 900, 5), (at(7), 1, 800, 5), (at(12), 2, 150, 4)]);
    }

    #[test]
    fn report_has_the_largest_objects_and_counts_those_that_live() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        for (address, pages) in [(0x10_0000, 100), (0x20_0000, 3), (0x30_0000, 4)] {
            writer.alloc(address, pages * 4096, AllocKind::Malloc).unwrap();
        }
        // Of the first two pages are touched, of the second three, of the third one.
        for page in [0x100, 0x101, 0x200, 0x201, 0x202, 0x300] {
            writer.reference(page, false).unwrap();
        }
        writer.free(0x20_0000).unwrap();
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let report = TraceReport::of(&trace, 2, true).unwrap();
        assert_eq!((report.live_at_end, report.places.len()), (2, 0));
        assert_eq!(report.file_hash, None, "it is in no file");
        let json = report.to_json();
        let objects: Vec<_> = json["largest_objects"].as_array().unwrap().iter().collect();
        let told = |object: &Value| {
            ["touched_pages", "length_bytes", "from_record", "to_record"].map(|name| object[name].as_u64())
        };
        assert_eq!(
            objects.into_iter().map(told).collect::<Vec<_>>(),
            [[Some(3), Some(3 * 4096), Some(0), Some(6)], [Some(2), Some(100 * 4096), Some(0), None],]
        );
        assert_eq!((json["verified"].as_bool(), json["totals"]["records"].as_u64()), (Some(true), Some(6)));
    }
}
