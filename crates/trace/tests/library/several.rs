//! Several traces of disks as one: the same as their lines in order of time, each input opened
//! once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::common::{Random, decoded};
use sweephand_trace::several::{Order, import_several};
use sweephand_trace::{Error, ImportOptions, Metadata, Trace, Writer, import};

/// References, with their pages and times, and the notes.
type Found = (Vec<(u64, bool)>, Vec<i64>, Vec<String>);

fn found(trace: &Trace) -> Found {
    let (mut numbers, mut times) = (Vec::new(), Vec::new());
    let mut chunk = sweephand_trace::Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
        times.extend(chunk.times().into_iter().flatten().map(|(_, time)| time));
    }
    let pages = decoded(trace).0.into_iter().map(|(id, write)| (numbers[id as usize], write));
    (pages.collect(), times, trace.header().metadata.notes.clone())
}

fn finished(
    import: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>) -> Result<sweephand_trace::EndTotals, Error>,
) -> Result<Found, Error> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let end = import(&mut writer)?;
    let (out, _) = writer.finish(end)?;
    Ok(found(&Trace::from_bytes(out.into_inner())?))
}

/// Imports several inputs, of which each can be opened once, as a pipe can.
fn several(inputs: &[(&str, String)], order: Order) -> Result<Found, Error> {
    let contents: HashMap<PathBuf, String> =
        inputs.iter().map(|(name, text)| (PathBuf::from(name), text.clone())).collect();
    let contents = RefCell::new(contents);
    let open = |name: &Path| -> io::Result<Box<dyn Read>> {
        let text = contents.borrow_mut().remove(name).ok_or_else(|| io::Error::other("opened twice"))?;
        Ok(Box::new(Cursor::new(text)))
    };
    let names: Vec<PathBuf> = inputs.iter().map(|(name, _)| PathBuf::from(name)).collect();
    let options = ImportOptions::default();
    finished(|writer| import_several(&names, &open, order, writer, &options, &mut |_| {}))
}

fn one(text: &str) -> Found {
    finished(|writer| import(text.as_bytes(), writer, &ImportOptions::default(), &mut |_| {})).unwrap()
}

/// Makes a line of the time in units of 100 ns, of the input, and of random numbers.
type Line = fn(u64, usize, &mut Random) -> String;

const FORMATS: [(&str, Line); 3] = [
    ("msr", |time, input, random| {
        let kind = if random.below(3) == 0 { "Write" } else { "Read" };
        let time = 128_166_372_000_000_000 + time;
        format!("{time},host{},{},{kind},{},8192,5\n", input % 2, random.below(2), random.below(99) << 12)
    }),
    ("spc", |time, input, random| {
        let (kind, time) = (if random.below(3) == 0 { 'w' } else { 'R' }, time as f64 / 1e7);
        format!("{input},{},512,{kind},{time:.7}\n", random.below(999))
    }),
    ("blkparse", |time, input, random| {
        let kind = ["R", "WS", "D"][random.below(3) as usize];
        let time = format!("{}.{:09}", time / 10_000_000, time % 10_000_000 * 100);
        format!("  8,{input}    0    2     {time}   697  Q  {kind} {} + 16 [x]\n", random.below(99) * 8)
    }),
];

#[test]
fn traces_of_disks_are_merged_by_time() {
    for (format, line) in FORMATS {
        let mut random = Random(38);
        let (mut inputs, mut all) = (Vec::new(), Vec::new());
        for (input, name) in ["a", "b", "c"].into_iter().enumerate() {
            // Many are within the same millisecond.
            let mut time = random.below(20_000);
            let mut text = String::new();
            for _ in 0..300 {
                time += random.below(9_000);
                let line = line(time, input, &mut random);
                text += &line;
                all.push((time, input, line));
            }
            inputs.push((name, text));
        }
        all.sort_by_key(|(time, input, _)| (*time, *input));
        let sorted: String = all.iter().map(|(_, _, line)| line.as_str()).collect();
        let (expected, merged) = (one(&sorted), several(&inputs, Order::ByTime).unwrap());
        assert!(expected.0 == merged.0 && expected.1 == merged.1, "{format}");
        assert!(
            merged.2.iter().any(|note| note == "3 inputs, merged by time: a, b, c"),
            "{format}: {:?}",
            merged.2
        );
        let joined: String = inputs.iter().map(|(_, text)| text.as_str()).collect();
        assert!(one(&joined).0 == several(&inputs, Order::OneAfterAnother).unwrap().0, "{format}");
    }
}

#[test]
fn errors_of_several_traces_name_the_input() {
    let spc = || "0,8,512,R,1.5\n".to_owned();
    for (second, order, expected) in [
        ("0,8,512,R,2\n0,8,512,X,3\n", Order::ByTime, "b: line 2 (byte 12): neither R nor W"),
        ("0,8,512,R,2\n0,8,512,X,3\n", Order::OneAfterAnother, "b: line 2 (byte 12): neither R nor W"),
        ("0,8,512,R,2.x\n", Order::ByTime, "b: line 1 (byte 0): no time to merge by"),
        ("1\n2\n", Order::ByTime, "b: is of another kind than the first input"),
        ("1\n2\n", Order::OneAfterAnother, "b: is of another kind than the first input"),
        ("", Order::OneAfterAnother, "b: "),
    ] {
        let error = several(&[("a", spc()), ("b", second.into())], order).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{second:?}: {error}");
    }
    let lackey = "I  0401ab70,3\n S 1fff000758,8\n".to_owned();
    let error = several(&[("a", lackey.clone()), ("b", lackey)], Order::ByTime).unwrap_err().to_string();
    assert!(error.starts_with("a: several inputs are merged by time, and none are read"), "{error}");
}
