//! Profiles in the format of pprof: a gzipped protocol buffer.
//!
//! The format is `profile.proto` of <https://github.com/google/pprof>. Of it we need six messages
//! with a few fields each, so they are written here, field by field.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::Write;
use sweephand_trace::places::Frame;

/// A profile: samples of call stacks, each with a number for each kind of value.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The fields of the message `Profile` so far.
    body: Vec<u8>,
    strings: Vec<String>,
    numbers: HashMap<String, u64>,
    /// Frames have a location and a function each, with the same number, from 1.
    locations: HashMap<Frame, u64>,
}

impl Profile {
    /// Without samples. `kinds` names the values of a sample, `unit` what they count.
    pub(crate) fn new(kinds: &[String], unit: &str) -> Self {
        let mut profile = Self {
            body: Vec::new(),
            strings: Vec::new(),
            numbers: HashMap::new(),
            locations: HashMap::new(),
        };
        // The first string has to be the empty one.
        profile.string("");
        for kind in kinds {
            // sample_type = 1: ValueType { type = 1, unit = 2 }
            let value_type = [(1, profile.string(kind)), (2, profile.string(unit))];
            message(&mut profile.body, 1, &numbers(&value_type));
        }
        profile
    }

    /// A sample. The innermost frame comes first. `name` is what a frame is called.
    pub(crate) fn sample(&mut self, stack: &[Frame], values: &[u64], name: impl Fn(&Frame) -> String) {
        let locations: Vec<u64> = stack.iter().map(|frame| self.location(frame, &name)).collect();
        // sample = 2: Sample { location_id = 1, value = 2 }, both packed
        let mut sample = Vec::new();
        message(&mut sample, 1, &packed(&locations));
        message(&mut sample, 2, &packed(values));
        message(&mut self.body, 2, &sample);
    }

    /// The file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for string in &self.strings {
            message(&mut self.body, 6, string.as_bytes());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.body).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn location(&mut self, frame: &Frame, name: impl Fn(&Frame) -> String) -> u64 {
        if let Some(known) = self.locations.get(frame) {
            return *known;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(frame.clone(), id);
        let (file, line) = frame.line.clone().unwrap_or_else(|| (frame.module.clone(), 0));
        let function_name = frame.function.clone().unwrap_or_else(|| name(frame));
        let (function_name, file) = (self.string(&function_name), self.string(&file));
        // location = 4: Location { id = 1, line = 4: Line { function_id = 1, line = 2 } }
        let mut location = numbers(&[(1, id)]);
        message(&mut location, 4, &numbers(&[(1, id), (2, line.into())]));
        message(&mut self.body, 4, &location);
        // function = 5: Function { id = 1, name = 2, system_name = 3, filename = 4 }
        let function = [(1, id), (2, function_name), (3, function_name), (4, file)];
        message(&mut self.body, 5, &numbers(&function));
        id
    }

    fn string(&mut self, string: &str) -> u64 {
        if let Some(known) = self.numbers.get(string) {
            return *known;
        }
        let number = self.strings.len() as u64;
        self.strings.push(string.to_owned());
        self.numbers.insert(string.to_owned(), number);
        number
    }
}

/// Fields that are numbers. Zero is what a missing one means.
fn numbers(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (field, value) in fields.iter().filter(|(_, value)| *value > 0) {
        varint(&mut out, field << 3);
        varint(&mut out, *value);
    }
    out
}

/// A field that is a message, a string or a packed list.
fn message(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn packed(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| varint(&mut out, *value));
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    /// Field numbers with their values: a number, or bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        let mut next = || -> Option<(u64, u64, Vec<u8>)> {
            let mut number = || -> Option<u64> {
                let mut value = 0;
                for shift in (0..).step_by(7) {
                    let (byte, rest) = bytes.split_first()?;
                    bytes = rest;
                    value |= u64::from(byte & 0x7f) << shift;
                    if byte & 0x80 == 0 {
                        break;
                    }
                }
                Some(value)
            };
            let key = number()?;
            let value = number()?;
            if key & 7 == 0 {
                return Some((key >> 3, value, Vec::new()));
            }
            assert_eq!(key & 7, 2);
            let (own, rest) = bytes.split_at(value as usize);
            bytes = rest;
            Some((key >> 3, 0, own.to_vec()))
        };
        std::iter::from_fn(&mut next).collect()
    }

    #[test]
    fn a_profile_reads_back() {
        let frame = |function: &str, line| Frame {
            function: Some(function.into()),
            line: Some(("src/a.c".into(), line)),
            ..Frame::default()
        };
        let kinds = ["faults under clock".to_owned(), "faults under opt".to_owned()];
        let mut profile = Profile::new(&kinds, "faults");
        let (inner, outer) = (frame("f", 300), frame("main", 7));
        profile.sample(&[inner.clone(), outer.clone()], &[1000, 3], ToString::to_string);
        profile.sample(&[outer], &[0, 200], ToString::to_string);
        let mut bytes = Vec::new();
        GzDecoder::new(&profile.finish()[..]).read_to_end(&mut bytes).unwrap();
        let all = fields(&bytes);
        let of =
            |field| all.iter().filter(move |(number, ..)| *number == field).map(|(.., bytes)| &bytes[..]);
        let strings: Vec<&str> = of(6).map(|bytes| std::str::from_utf8(bytes).unwrap()).collect();
        assert_eq!(strings, ["", "faults under clock", "faults", "faults under opt", "f", "src/a.c", "main"]);
        let types: Vec<_> = of(1).map(fields).collect();
        assert_eq!(types[1], [(1, 3, vec![]), (2, 2, vec![])]);
        let samples: Vec<_> = of(2).map(fields).collect();
        assert_eq!(samples[0], [(1, 0, vec![1, 2]), (2, 0, vec![0xe8, 0x07, 3])]);
        assert_eq!(samples[1], [(1, 0, vec![2]), (2, 0, vec![0, 0xc8, 0x01])]);
        let location = fields(of(4).next().unwrap());
        assert_eq!(location[0], (1, 1, vec![]));
        assert_eq!(fields(&location[1].2), [(1, 1, vec![]), (2, 300, vec![])]);
        let functions: Vec<_> = of(5).map(fields).collect();
        assert_eq!(functions[1], [(1, 2, vec![]), (2, 6, vec![]), (3, 6, vec![]), (4, 5, vec![])]);
    }
}
