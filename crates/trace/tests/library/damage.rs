//! Damaged traces: the reader reports an error with its place. It never panics and never returns a
//! trace that is silently shorter.

use std::io::Write;
use std::path::Path;
use sweephand_checks::trying;

use crate::common::{Random, Step, pgtr, written, zipped};
use std::time::{Duration, Instant};
use sweephand_trace::{AllocKind, Chunk, Error, Trace, fuzz_input, fuzz_inputs, fuzz_reader};

/// A small program with everything in it.
fn program() -> Vec<Step> {
    let mut random = Random(1);
    let mut steps = vec![
        Step::Map(0, 1_000),
        Step::Alloc(4096 * 10 + 16, 1 << 20, AllocKind::Malloc),
        Step::Mark(1_000_000, 400_000),
    ];
    steps.extend((0..400).map(|_| Step::Reference(random.below(60), random.below(2) == 0)));
    steps.extend([Step::Unmap(0, 9), Step::Remap(10, 200, 20), Step::Free(4096 * 10 + 16)]);
    steps.extend((0..200).map(|_| Step::Reference(random.below(300), random.below(2) == 0)));
    steps.extend([Step::Mark(900_000, 300_000)]);
    steps
}

/// Everything a reader looks at. The error, if there is one, says where.
fn read(bytes: &[u8]) -> Result<u64, Error> {
    let trace = read_chunks(bytes)?;
    trace.verify(&mut |_| {})?;
    Ok(trace.header().checksum)
}

/// All that a simulation reads.
fn read_chunks(bytes: &[u8]) -> Result<Trace, Error> {
    let trace = Trace::from_bytes(bytes.to_vec())?;
    let mut chunk = Chunk::new();
    (0..trace.chunks()).try_for_each(|index| trace.read_chunk(index, &mut chunk))?;
    Ok(trace)
}

fn says_where(error: &Error) -> bool {
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    // "is empty", "is binary data" and "was never finished" are about the whole file.
    matches!(error, Error::Empty { .. } | Error::Unrecognised { .. } | Error::Unfinished { .. })
        || message.contains("byte")
}

#[test]
fn a_native_trace_cut_anywhere_says_where() {
    let whole = written(&program(), 3);
    for length in 0..whole.len() {
        let _input = trying(|| format!("{length} of {} bytes", whole.len()));
        let error = read(&whole[..length]).expect_err("shorter");
        assert!(says_where(&error), "{error}");
        fuzz_reader(&whole[..length]);
    }
}

#[test]
fn a_pgtr_trace_cut_anywhere_says_where() {
    let whole = pgtr(&program(), 1);
    read(&whole).unwrap();
    for length in 0..whole.len() {
        let _input = trying(|| format!("{length} of {} bytes", whole.len()));
        let error = read(&whole[..length]).expect_err("shorter");
        assert!(says_where(&error), "{error}");
        fuzz_reader(&whole[..length]);
    }
}

/// A compressor of blocks cuts a trace anywhere.
#[test]
fn a_trace_goes_on_in_the_next_compressed_file() {
    let native = written(&program(), 3);
    let blocks: Vec<u8> = native.chunks(700).flat_map(|block| zstd::encode_all(block, 1).unwrap()).collect();
    assert_eq!(read(&blocks).unwrap(), read(&native).unwrap());
    // Two are not one.
    let two = [&native[..], &native].map(|trace| zstd::encode_all(trace, 1).unwrap()).concat();
    assert!(read(&two).is_err());
    let pgtr = pgtr(&program(), 1);
    assert!(read(&[&pgtr[..], &pgtr].map(|trace| zstd::encode_all(trace, 1).unwrap()).concat()).is_err());
}

#[test]
fn a_compressed_trace_cut_anywhere_says_where() {
    let whole = pgtr(&program(), 1);
    for (name, bytes) in compressions(&whole) {
        assert!(read(&bytes).is_ok(), "{name}");
        for length in 0..bytes.len() {
            let _input = trying(|| format!("{length} bytes of {name}"));
            let error = read(&bytes[..length]).expect_err("shorter");
            assert!(says_where(&error), "{error}");
        }
    }
}

fn compressions(whole: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let gzip = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let (front, back) = whole.split_at(whole.len() / 2);
    let members = [gzip(front), gzip(back)].concat();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(whole).unwrap();
    let zstd = zstd::encode_all(whole, 3).unwrap();
    // Two gzip members: but for that boundary, where the PGTR inside is cut, every cut is inside a
    // member.
    [("gzip", members), ("xz", xz.finish().unwrap()), ("zstd", zstd), ("zip", zipped(whole))]
}

/// Every single bit: an error as soon as the chunks are read, or a bit that means nothing to zstd
/// and the same content.
#[test]
fn a_flipped_bit_is_found_or_means_nothing() {
    let whole = written(&program(), 3);
    let checksum = read(&whole).unwrap();
    let mut harmless = 0;
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let _input = trying(|| format!("bit {bit} flipped"));
        match read_chunks(&bytes) {
            Err(error) => assert!(says_where(&error), "{error}"),
            Ok(_) => {
                assert_eq!(read(&bytes).unwrap(), checksum);
                harmless += 1;
            }
        }
        fuzz_reader(&bytes);
    }
    assert!(harmless <= 8, "{harmless} bits mean nothing");
}

#[test]
fn pgtr_and_text_with_bits_flipped_never_panic() {
    let stream = pgtr(&program(), 1);
    let text: Vec<u8> = (0..300).flat_map(|i| format!("{}\n", i * i % 97).into_bytes()).collect();
    for whole in [stream, text] {
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _input = trying(|| format!("bit {bit} flipped in {}", whole.escape_ascii()));
            if let Err(error) = read(&bytes) {
                assert!(says_where(&error), "{error}");
            }
        }
    }
}

#[test]
fn random_damage_never_panics() {
    let sources = [written(&program(), 3), pgtr(&program(), 1)];
    let mut random = Random(7);
    for round in 0..4_000 {
        let mut bytes = sources[round % 2].clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, random.next() as u8),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let _input = trying(|| format!("round {round}: {}", bytes.escape_ascii()));
        fuzz_reader(&bytes);
    }
}

/// Files of random rows, and of random bytes.
#[test]
fn random_files_are_the_same_in_every_archive_and_however_they_arrive() {
    let mut random = Random(21);
    let words: [&[u8]; 24] = [
        b"\n",
        b"\n",
        b",",
        b",",
        b",",
        b"\xfe",
        b"1",
        b"2",
        b"70",
        b"a",
        b"b",
        b"\"",
        b"#",
        b"\r\n",
        b" ",
        b"\t",
        b";",
        b"{\"k\":1,\"t\":2}\n",
        b"{\"k\":\"a\"}\n",
        b"k,s\n",
        b"1,a,5\n",
        b"2,b,\n",
        b"\xef\xbb\xbf",
        b"-1",
    ];
    // More of them, of every kind: `SWEEPHAND_SECONDS=600 cargo test --test library random_files`.
    let seconds = std::env::var("SWEEPHAND_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let inputs = if end.is_some() { fuzz_inputs() } else { vec!["members".into(), "several".into()] };
    random.0 += u64::from(end.is_some()) * u64::from(std::process::id());
    let mut number = 0;
    while end.map_or(number < 1_500, |end| Instant::now() < end) {
        number += 1;
        let length = random.below(60);
        let word = |random: &mut Random| match random.below(30) {
            0 => vec![random.below(256) as u8],
            _ => words[random.below(words.len() as u64) as usize].to_vec(),
        };
        let data: Vec<u8> = (0..length).flat_map(|_| word(&mut random)).collect();
        for input in &inputs {
            let read = || fuzz_input(input, &data);
            if std::panic::catch_unwind(read).is_err() {
                panic!("{input} of {}", data.escape_ascii());
            }
        }
    }
    println!("{number} inputs");
}

/// The first error is the same whether the bytes come at once or in pieces.
#[test]
fn text_before_broken_utf_16_is_read_first() {
    let utf_16 = |text: &str| -> Vec<u8> {
        ['\u{feff}'].into_iter().chain(text.chars()).flat_map(|c| (c as u16).to_le_bytes()).collect()
    };
    for text in ["1 2\0\n", "1\n2\n", "1,2\n3", "{\"k\":1}\nx\n"] {
        for end in [&b"1"[..], b"\x00\xd8", b"\x00\xd8\x0a\x00", b"\x00\xdc3\x003\x00"] {
            let data = [&utf_16(text), end].concat();
            for input in fuzz_inputs() {
                let _input = trying(|| format!("{input} of {}", data.escape_ascii()));
                fuzz_input(&input, &data);
            }
        }
    }
}

#[test]
fn trailing_bytes_are_noticed() {
    let sources = [written(&program(), 3), pgtr(&program(), 1)];
    for whole in &sources {
        for tail in [&b"\0"[..], b"\n", &whole[..]] {
            let _input = trying(|| format!("{} bytes behind {}", tail.len(), whole.len()));
            let error = read(&[whole, tail].concat()).unwrap_err();
            assert!(error.to_string().contains("more follows"), "{error}");
            assert!(says_where(&error));
        }
    }
    for (name, bytes) in compressions(&sources[1]) {
        let error = read(&[&bytes[..], b"garbage"].concat()).expect_err(name);
        assert!(says_where(&error), "{name}: {error}");
    }
}

/// A length of 2^60 in any varint must not be believed: no machine has that much memory.
#[test]
fn huge_lengths_are_refused_before_memory_is_asked_for() {
    for prefix in [b"PGTR\x01\x0c\x01\x00".as_slice(), &[0xff, 0xff, 0x0f], &[1, 0], &[1, 0, 0]] {
        let mut bytes = prefix.to_vec();
        bytes.extend([0x80; 8]);
        bytes.push(0x10);
        let _input = trying(|| format!("{bytes:x?}"));
        fuzz_reader(&bytes);
        assert!(read(&bytes).is_err());
    }
}

#[test]
fn messages_say_what_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let message = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let error = Trace::open(&path).expect_err(name).to_string();
        let shown = format!("{}: ", path.display());
        error.strip_prefix(&shown).unwrap_or_else(|| panic!("{error} names the file")).to_owned()
    };
    let native = written(&program(), 3);
    let stream = pgtr(&program(), 1);
    let text_mode: Vec<u8> = {
        let text = native.iter().flat_map(|b| if *b == b'\n' { vec![b'\r', b'\n'] } else { vec![*b] });
        text.collect()
    };
    let mut unfinished = native.clone();
    unfinished[16] = 0;
    for (name, content, expected) in [
        ("empty", &b""[..], "is empty"),
        ("elf", b"\x7fELF\x02\x01\x01\0\0\0", "is an ELF file (a program or a library), not a trace"),
        ("binary", &[0, 1, 2, 3, 4, 5, 6, 7, 8], "is binary data of no known format, not a trace"),
        ("words", b"12\n13\nhello there\n", "line 3 (byte 6): not a page number: \"hello there\""),
        ("number", b"99999999999999999999999\n", "line 1 (byte 0): a page number that does not fit 64 bits"),
        ("comments", b"# nothing\n\n*\n", "is text without a single page number"),
        ("short", &native[..native.len() - 9], "ends too soon, at byte"),
        ("half", &stream[..stream.len() / 2], "ends too soon, at byte"),
        ("text-mode", &text_mode, "line ends were changed on the way"),
        ("unfinished", &unfinished, "the header's checksum is wrong"),
        (
            "version",
            &[&native[..8], &[9], &native[9..]].concat(),
            "byte 8: format version 9; this program reads",
        ),
    ] {
        let error = message(name, content);
        assert!(error.contains(expected), "{name}: {error}");
    }
    let error = Trace::open(Path::new("no/such/file")).unwrap_err().to_string();
    assert!(error.starts_with("no/such/file: "), "{error}");
    let error = Trace::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("a directory"), "{error}");
}

/// What a writer leaves behind that died before it finished.
#[test]
fn an_unfinished_trace_says_so() {
    let mut out = std::io::Cursor::new(Vec::new());
    let mut writer = sweephand_trace::Writer::new(&mut out, sweephand_trace::Metadata::default()).unwrap();
    for i in 0..300_000 {
        writer.reference(i, false).unwrap();
    }
    drop(writer);
    let error = read(&out.into_inner()).unwrap_err();
    assert!(error.to_string().contains("was never finished"), "{error}");
}
