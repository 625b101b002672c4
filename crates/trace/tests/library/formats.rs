//! Other formats: small samples, written from the documentation of each, with every reference that
//! they stand for.

use std::io::{Cursor, Read, Write};
use std::path::PathBuf;
use sweephand_checks::trying;

use crate::common::{Random, decoded, zipped};
use sweephand_trace::{
    Error, Event, Format, Header, ImportOptions, Metadata, Trace, Writer, fuzz_reader, import,
};

const LACKEY: &str = "\
==17096== Lackey, an example Valgrind tool
==17096== Using Valgrind-3.19.0 and LibVEX; rerun with -h for copyright info
==17096== Command: /usr/bin/env true
==17096==
I  0401ab70,3
 S 1fff000758,8
I  0401affe,5
 L 1fff001ffc,8
 M 0421c7f0,4
--17096-- warning: something of valgrind's own
==17096== Counted 0 calls to main()
";

const DRMEMTRACE: &str = "\
Output format:
<--record#-> <--instr#->: <---tid---> <record details>
------------------------------------------------------------
           1           0:     2765542 <marker: version 5>
           5           0:     2765542 <marker: page size 4096>
           6           1:     2765542 ifetch       8 byte(s) @ 0x0000000000402ffc 48 8b 5c 24 08 00 00 mov    0x08(%rsp)[8byte] -> %rbx
           6           1:     2765542                                              00
           7           1:     2765542 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000402ffc
           8           1:     2765542 pref-r-L1    1 byte(s) @ 0x0000000000999000 by PC 0x0000000000402ffc
           9           1:     2765542 dflush      64 byte(s) @ 0x0000000000999000 by PC 0x0000000000402ffc
------------------------------------------------------------
          10           1:     2765543 <marker: timestamp 13334804716609227>
          11           2:     2765543 ifetch       2 byte(s) @ 0x0000000000404a94 0f 05                syscall  -> %rcx %r11
          12           2:     2765543 write        4 byte(s) @ 0x00007fdf64e2b000 by PC 0x0000000000404a94
          13           2:     2765543 <thread 2765543 exited>
View tool results:
              2 : total instructions
";

const SPC: &str = "\
0,15,512,R,0.000000
0,20941264,8192,W,0.551706,17,optional
1, 15, 512, r, 0.026214
0,16,0,w,0.9
0,7,4097,w,1
";

const MSR: &str = "\
128166372003061629,hm,0,Read,383496192,4096,331
128166372016382155,hm,1,Write,2822144,4097,1101
128166372026382245,hm,0,read,383500000,8192,1
128166372026382245,src1,0,Write,383496192,512,1
";

/// As fio 3.33 writes it.
const FIO: &str = "\
fio version 3 iolog
21 /dev/a add
102 /dev/a open
106 /dev/a write 4096 8192
126 /dev/b read 4095 2
130 /dev/a wait 100
131 /dev/b sync 0 0
140 /dev/a trim 4096 4096
150 /dev/a read 0 0
151 /dev/a read 0 512
160 /dev/a close
";

/// What blkparse 1.2.0 prints of records that were made for it; `tools.rs` has it print them again.
const BLKPARSE: &str = "  8,0    0        2     0.000000000   697  Q  WS 800 + 8 [kjourna]
  8,0    0        3     0.000001000   697  D  WS 800 + 8 [kjourna]
  8,0    0        4     0.000002000   697  Q  RA 808 + 16 [kjourna]
  8,0    0        5     0.000002500   697  D  RA 808 + 16 [kjourna]
  8,0    0        6     0.000003000   697  C  WS 800 + 8 [0]
  8,0    0        7     0.000003100   697  C   R 808 + 16 [0]
  8,0    0        8     0.000004000   697  Q   D 800 + 8 [kjourna]
  8,0    0        9     0.000005000   697  Q  FN [kjourna]
  8,16   0       10     0.000006000   697  Q  RM 16 + 1 [kjourna]
CPU0 (8,0):
 Reads Queued:           3,       12KiB	 Writes Queued:           1,        4KiB

Throughput (R/W): 0KiB/s / 0KiB/s
Events (8,0): 8 entries
Skips: 0 forward (0 -   0.0%)
";

/// Pages with their write flags, in order.
fn references(trace: &Trace) -> Vec<(u64, bool)> {
    let mut numbers = Vec::new();
    let mut chunk = sweephand_trace::Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
    }
    decoded(trace).0.into_iter().map(|(id, write)| (numbers[id as usize], write)).collect()
}

/// Imports as `format`, or as what is found by content.
fn imported(input: impl Read, format: Option<Format>) -> Result<(Trace, Header), Error> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let options = ImportOptions { name: PathBuf::from("a.trace"), format, ..ImportOptions::default() };
    let end = import(input, &mut writer, &options, &mut |_| {})?;
    let (out, header) = writer.finish(end)?;
    Ok((Trace::from_bytes(out.into_inner())?, header))
}

/// A record of oracleGeneral.
fn record(object: u64, bytes: u32, next: i64) -> [u8; 24] {
    let mut record = [0; 24];
    record[..4].copy_from_slice(&7u32.to_le_bytes());
    record[4..12].copy_from_slice(&object.to_le_bytes());
    record[12..16].copy_from_slice(&bytes.to_le_bytes());
    record[16..].copy_from_slice(&next.to_le_bytes());
    record
}

fn oracle_general() -> Vec<u8> {
    let records =
        [(u64::MAX, 512, 2), (5, 4097, -1), (u64::MAX, 512, i64::MAX), (6, 0, 4), (6, 8192, i64::MAX)];
    records.iter().flat_map(|&(object, bytes, next)| record(object, bytes, next)).collect()
}

/// An instruction as ChampSim has it: where it is, what it writes and reads.
fn instruction(address: u64, writes: [u64; 2], reads: [u64; 4]) -> Vec<u8> {
    let mut record = address.to_le_bytes().to_vec();
    record.extend([1, 0, 25, 26, 6, 7, 0, 0]);
    record.extend(writes.iter().chain(&reads).flat_map(|address| address.to_le_bytes()));
    record
}

fn champsim() -> Vec<u8> {
    [
        instruction(0x401000, [0x7fff_0008, 0], [0x5000, 0, 0, 0x6fff]),
        instruction(0x401004, [0, 0], [0; 4]),
        instruction(0x402000, [0, 0x5008], [0; 4]),
    ]
    .concat()
}

/// A record of a drmemtrace trace.
fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// The records of [`DRMEMTRACE`], and some that have no line there.
fn drmemtrace() -> Vec<u8> {
    let (read, write, fetch, jump, not_fetched) = (0, 1, 10, 48, 29);
    let (marker, page_size, timestamp, thread) = (28, 18, 2, 22);
    [
        entry(25, 0, 6),
        entry(marker, 12, 6),
        entry(thread, 4, 2_765_542),
        entry(24, 4, 2_765_542),
        entry(marker, page_size, 4096),
        // The code of the instruction behind it.
        entry(47, 8, 0x0008_245c_8b48),
        entry(fetch, 8, 0x40_2ffc),
        entry(read, 8, 0x7fdf_64e2_adc8),
        // Prefetch and flush.
        entry(3, 1, 0x99_9000),
        entry(20, 64, 0x99_9000),
        // Only says where an access is made.
        entry(fetch, 0, 0x77_7000),
        entry(marker, timestamp, 13_334_804_716_609_227),
        entry(marker, 21, 0),
        entry(thread, 4, 2_765_543),
        entry(24, 4, 2_765_542),
        entry(jump, 2, 0x40_4a94),
        entry(write, 4, 0x7fdf_64e2_b000),
        entry(not_fetched, 2, 0x40_5000),
        entry(23, 4, 2_765_543),
        entry(26, 0, 0),
    ]
    .concat()
}

/// Formats of binary records, which content does not tell.
const BINARY: [Format; 2] = [Format::OracleGeneral, Format::ChampSim];

/// A format, a file of it, and the references that it stands for.
type Sample = (Format, Vec<u8>, Vec<(u64, bool)>);

fn samples() -> Vec<Sample> {
    // The same program in both forms.
    let of_drmemtrace =
        vec![(0x402, false), (0x403, false), (0x7_fdf6_4e2a, false), (0x404, false), (0x7_fdf6_4e2b, true)];
    let (stack, disk) = (0x1fff000, 1 << 40);
    let offset = 383_496_192 / 4096;
    vec![
        (
            Format::Lackey,
            LACKEY.into(),
            vec![
                (0x401a, false),
                (stack, true),
                (0x401a, false),
                (0x401b, false),
                (stack + 1, false),
                (stack + 2, false),
                (0x421c, false),
                (0x421c, true),
            ],
        ),
        (Format::Drmemtrace, DRMEMTRACE.into(), of_drmemtrace.clone()),
        (Format::Drmemtrace, drmemtrace(), of_drmemtrace),
        (
            Format::Spc,
            SPC.into(),
            vec![
                (1, false),
                (20_941_264 / 8, true),
                (20_941_264 / 8 + 1, true),
                (disk + 1, false),
                (0, true),
                (1, true),
            ],
        ),
        (
            Format::Msr,
            MSR.into(),
            vec![
                (offset, false),
                (disk + 689, true),
                (disk + 690, true),
                (offset, false),
                (offset + 1, false),
                (offset + 2, false),
                (2 * disk + offset, true),
            ],
        ),
        (Format::Fio, FIO.into(), vec![(1, true), (2, true), (disk, false), (disk + 1, false), (0, false)]),
        (Format::Blkparse, BLKPARSE.into(), vec![(100, true), (101, false), (102, false), (disk + 2, false)]),
        (
            Format::OracleGeneral,
            oracle_general(),
            // Each object begins 4 GiB after the one before.
            vec![
                (0, false),
                (1 << 20, false),
                (1 << 20 | 1, false),
                (0, false),
                (2 << 20, false),
                (2 << 20, false),
                (2 << 20 | 1, false),
            ],
        ),
        (
            Format::ChampSim,
            champsim(),
            vec![
                (0x401, false),
                (5, false),
                (6, false),
                (0x7fff0, true),
                (0x401, false),
                (0x402, false),
                (5, true),
            ],
        ),
    ]
}

#[test]
fn samples_become_the_references_they_stand_for() {
    for (format, sample, expected) in samples() {
        let (trace, header) = imported(&sample[..], Some(format)).unwrap();
        assert_eq!(references(&trace), expected, "{format:?}");
        assert_eq!(header.totals.references, expected.len() as u64, "{format:?}");
        assert_eq!(header.metadata.page_size, 4096, "{format:?}");
        trace.verify(&mut |_| {}).unwrap();
        // The last line need not end, and lines may end as in MS-DOS.
        if sample.is_ascii() && !sample.contains(&0) {
            let text = String::from_utf8(sample).unwrap();
            for text in [text.trim_end().to_owned(), text.replace('\n', "\r\n")] {
                let (again, _) = imported(text.as_bytes(), Some(format)).unwrap();
                assert_eq!(references(&again), expected, "{text:?}: {format:?}");
            }
        }
    }
}

#[test]
fn samples_are_known_by_content_through_compression_and_slow_pipes() {
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }
    for (format, sample, expected) in samples() {
        let named = BINARY.contains(&format).then_some(format);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&sample).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
        xz.write_all(&sample).unwrap();
        let zstd = zstd::encode_all(&sample[..], 3).unwrap();
        let zip = zipped(&sample);
        for bytes in [&sample, &gzip.finish().unwrap(), &xz.finish().unwrap(), &zstd, &zip] {
            assert_eq!(references(&imported(&bytes[..], named).unwrap().0), expected, "{format:?}");
            assert_eq!(references(&imported(Slow(bytes), named).unwrap().0), expected, "{format:?}");
        }
        if named.is_none() {
            assert_eq!(references(&Trace::from_bytes(sample).unwrap()), expected, "{format:?}");
        }
    }
    // A file of page numbers stays one, and MSR may name its columns.
    let numbers = imported(&b"1\n2\n"[..], None).unwrap().0;
    assert_eq!(references(&numbers), [(1, false), (2, false)]);
    let titled = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}");
    assert_eq!(references(&imported(titled.as_bytes(), None).unwrap().0).len(), 7);
}

#[test]
fn programs_and_instructions_are_kept() {
    let (trace, header) = imported(LACKEY.as_bytes(), None).unwrap();
    assert_eq!((header.metadata.program.as_str(), header.metadata.source.as_str()), ("env", "lackey"));
    assert!(header.metadata.instruction_fetches);
    assert_eq!(header.totals.instructions, Some(2));
    assert_eq!(decoded(&trace).1, [(8, Event::Mark { instructions: 2, references: 8 })]);
    let (_, header) = imported(DRMEMTRACE.as_bytes(), None).unwrap();
    assert_eq!((header.totals.instructions, header.metadata.program.as_str()), (Some(2), "a"));
    let (_, header) = imported(&drmemtrace()[..], None).unwrap();
    assert_eq!((header.totals.instructions, header.metadata.source.as_str()), (Some(2), "drmemtrace"));
    let (_, header) = imported(&champsim()[..], Some(Format::ChampSim)).unwrap();
    assert_eq!((header.totals.instructions, header.metadata.instruction_fetches), (Some(3), true));
    let (_, header) = imported(SPC.as_bytes(), None).unwrap();
    assert_eq!((header.totals.instructions, header.metadata.instruction_fetches), (None, false));
}

#[test]
fn a_mark_stands_after_every_million_instructions() {
    let line = b"I  0401ab70,3\n";
    let (trace, header) = imported(&line.repeat(2_500_000)[..], None).unwrap();
    let marks = decoded(&trace).1;
    let mark = |instructions: u64| Event::Mark { instructions, references: instructions };
    let expected = [1_000_000, 1_000_000, 500_000].map(mark);
    assert_eq!(marks.iter().map(|(_, mark)| mark.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(marks[0].0, 1_000_000);
    assert_eq!(header.totals.instructions, Some(2_500_000));
}

#[test]
fn pages_are_as_large_as_the_view_tool_says() {
    let large = DRMEMTRACE.replace("page size 4096", "page size 65536");
    let (trace, header) = imported(large.as_bytes(), None).unwrap();
    assert_eq!(header.metadata.page_size, 65536);
    let pages = [(0x40, false), (0x7fdf_64e2, false), (0x40, false), (0x7fdf_64e2, true)];
    assert_eq!(references(&trace), pages);
}

/// Why an input is not read as a format.
fn error(format: Format, input: &[u8]) -> String {
    imported(input, Some(format)).unwrap_err().to_string()
}

/// Behind a sample: the line after its last, at the byte after its last.
#[test]
fn a_bad_line_has_a_place_and_a_reason() {
    for (format, sample, line, expected) in [
        (Format::Lackey, LACKEY, "hello", "not an access as lackey prints it"),
        (Format::Lackey, LACKEY, " X 1,1", "not I, L, S or M"),
        (Format::Lackey, LACKEY, " L 12g,4", "not an address and a length"),
        (Format::Lackey, LACKEY, " L 12", "not an address and a length"),
        (Format::Lackey, LACKEY, " L 12,65536", "not an address and a length"),
        (Format::Lackey, LACKEY, " L ffffffffffffffff,2", "an access past the end of the address space"),
        (Format::Drmemtrace, DRMEMTRACE, "hello", "not a record of the view tool"),
        (Format::Drmemtrace, DRMEMTRACE, "14 2: 17 jump", "not a record of the view tool"),
        (Format::Drmemtrace, DRMEMTRACE, "14 2: 17", "a record without details"),
        (
            Format::Drmemtrace,
            DRMEMTRACE,
            "14 2: 17 read 8 bytes @ 0x12",
            "not a number of bytes and an address",
        ),
        (Format::Drmemtrace, DRMEMTRACE, "14 2: 17 <marker: page size 4095>", "not the size of a page"),
        (
            Format::Drmemtrace,
            DRMEMTRACE,
            "14 2: 17 <marker: page size 8192>",
            "another page size than that of the references before",
        ),
        (
            Format::Drmemtrace,
            DRMEMTRACE,
            "14 2: W1.T9 read 8 byte(s) @ 0x12",
            "another program: import one at a time",
        ),
        (Format::Fio, FIO, "170 /dev/a", "an iolog's line has a file and an action"),
        (Format::Fio, FIO, "/dev/a read 0 512", "not a time in the first column"),
        (Format::Fio, FIO, "170 /dev/a erase 0 512", "not an action of an iolog"),
        (Format::Fio, FIO, "170 /dev/a read 0", "not an offset and a number of bytes"),
        (Format::Fio, FIO, "170 /dev/a read 0 4294967296", "a request for 4 GiB or more"),
        (Format::Spc, SPC, "0,1,512,R", "not unit,block,size,R or W,time"),
        (Format::Spc, SPC, "0,1,512,X,0.5", "neither R nor W in the fourth field"),
        (Format::Spc, SPC, "0,1,4294967296,R,0.5", "a request for 4 GiB or more"),
        (Format::Spc, SPC, "0,8796093022208,512,R,0.5", "a request behind the first 4 PiB of a disk"),
        (Format::Spc, SPC, "0,36028797018963968,512,R,0.5", "a block behind the end of any disk"),
        (Format::Spc, SPC, "0,99999999999999999999,512,R,0.5", "not a block in the second field"),
        (Format::Spc, SPC, "16777216,1,512,R,0.5", "a disk beyond those that there are page numbers for"),
        (Format::Msr, MSR, "1,hm,0,Reed,0,1,1", "neither Read nor Write in the fourth field"),
        (Format::Msr, MSR, "1,hm,0,Read,0", "not seven fields, as MSR has"),
        (Format::Msr, MSR, "1,hm,0,Read,-5,1,1", "not an offset in the fifth field"),
        (Format::Msr, MSR, "Timestamp,hm,0,Read,0,1,1", "not a time in the first field"),
    ] {
        let (place, number) = (sample.len(), sample.lines().count() + 1);
        let shown: String = line.trim().chars().take(40).chain((line.len() > 40).then_some('…')).collect();
        let expected = format!("a.trace: line {number} (byte {place}): {expected}: {shown:?}");
        assert_eq!(error(format, format!("{sample}{line}\n").as_bytes()), expected, "{format:?}");
    }
    assert_eq!(
        error(Format::Fio, b"fio version 1 iolog\n"),
        "a.trace: line 1 (byte 0): neither version 2 nor version 3 of fio's iologs: \"fio version 1 iolog\""
    );
}

#[test]
fn a_bad_record_has_a_place_and_a_reason() {
    let records = drmemtrace();
    let footer = records.len() - 12;
    let behind = |kind, size, value| [&records[..footer], &entry(kind, size, value)].concat();
    let narrow = [25, 0, 0, 0, 6, 0, 0, 0, 28, 0, 12, 0, 6, 0, 0, 0];
    let oracle = oracle_general();
    let past = [&oracle[..], &record(9, 1, 1)].concat();
    let executed = champsim();
    let mut no_branch = executed.clone();
    no_branch[64 + 9] = 2;
    for (format, input, expected) in [
        (Format::Lackey, &b"==1== Command: x\n"[..], "is a lackey trace without a single reference"),
        (Format::Spc, b"0,1,0,r,0.1\n", "is an SPC trace without a single reference"),
        (Format::Drmemtrace, &records[..50], "ends too soon, at byte 50, inside record 4"),
        (
            Format::Drmemtrace,
            &records[..footer],
            "ends too soon, at byte 228, without the footer of a drmemtrace trace",
        ),
        (Format::Drmemtrace, &behind(50, 0, 0), "record 19 at byte 228: a record of no known type"),
        (
            Format::Drmemtrace,
            &behind(24, 4, 9),
            "record 19 at byte 228: another program: import one at a time",
        ),
        (
            Format::Drmemtrace,
            &behind(28, 18, 8192),
            "record 19 at byte 228: another page size than that of the references before",
        ),
        (
            Format::Drmemtrace,
            &behind(17, 9, 0),
            "record 19 at byte 228: a bundle of more than 8 instructions",
        ),
        (
            Format::Drmemtrace,
            &narrow,
            "record 0 at byte 0: a trace of a program of 32 bits: only those of 64 are read",
        ),
        (Format::OracleGeneral, &oracle[..50], "ends too soon, at byte 50, inside record 2"),
        (
            Format::OracleGeneral,
            &past,
            "record 5 at byte 120: request 1 wants the object next, which lies in the past",
        ),
        (Format::ChampSim, &executed[..70], "ends too soon, at byte 70, inside record 1"),
        (
            Format::ChampSim,
            &no_branch,
            "record 1 at byte 64: says neither yes nor no to being a branch: not ChampSim",
        ),
    ] {
        let error = error(format, input);
        assert!(error.starts_with(&format!("a.trace: {expected}")), "{format:?}: {error}");
        assert!(!error.contains('\n'), "{format:?}: {error}");
    }
}

#[test]
fn an_empty_file_is_no_trace_of_any_format() {
    for format in Format::ALL {
        assert_eq!(error(format, b""), "a.trace: is empty: there is no trace in it", "{format:?}");
    }
}

#[test]
fn damage_never_panics_and_pieces_are_the_same_as_the_whole() {
    let mut random = Random(11);
    for (format, sample, _) in samples() {
        for length in 0..sample.len() {
            let _input = trying(|| format!("{format:?}, {length} bytes"));
            fuzz_reader(&sample[..length]);
        }
        for _ in 0..500 {
            let mut bytes = sample.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.next() as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0123456789abcdef, \n"[random.below(19) as usize]),
                }
            }
            let _input = trying(|| format!("{format:?}: {}", bytes.escape_ascii()));
            fuzz_reader(&bytes);
        }
    }
}

/// An archive that Info-ZIP 3.0 made of two files, one stored.
const INFO_ZIP: &[u8] = include_bytes!("../fixtures/info-zip.zip");
/// Where its second file begins: before the contents of that, the directory and its end.
const SECOND_FILE: usize = INFO_ZIP.len() - 22 - 2 * (46 + 5) - 2 - 5 - 30;

/// That archive with another byte in one place.
fn changed(at: usize, to: u8) -> Vec<u8> {
    [&INFO_ZIP[..at], &[to], &INFO_ZIP[at + 1..]].concat()
}

/// Others are Info-ZIP's into a pipe, and Python 3.11's into a pipe, with lengths of 64 bits.
#[test]
fn archives_of_other_programs_are_read() {
    let numbers: Vec<_> = (1..=400).map(|page| (page, false)).collect();
    let with_seven = [&numbers[..], &[(7, false)]].concat();
    let archives: [(&str, &[u8], _); 3] = [
        ("Info-ZIP", INFO_ZIP, &with_seven),
        ("Info-ZIP, pipe", include_bytes!("../fixtures/info-zip-stream.zip"), &numbers),
        ("Python, pipe", include_bytes!("../fixtures/zip64-stream.zip"), &numbers),
    ];
    for (program, archive, expected) in archives {
        assert_eq!(&references(&imported(archive, None).unwrap().0), expected, "{program}");
    }
}

/// What is wrong is said: by the file's header, or behind its contents.
#[test]
fn a_damaged_archive_says_where() {
    for (archive, expected) in [
        (changed(14, INFO_ZIP[14] ^ 1), "zip: the contents of a file do not agree with their checksum"),
        (changed(22, INFO_ZIP[22] ^ 1), "zip: a file has another length than the archive says"),
        (changed(SECOND_FILE, b'Q'), "zip: something that is no header stands in the place of one"),
    ] {
        let error = imported(&archive[..], None).unwrap_err().to_string();
        // The file of the archive is named, unless the error is between two of them.
        let name = if expected.contains("no header") { "a.trace" } else { "a.trace (a.txt)" };
        let place = error.starts_with(&format!("{name}: damaged at byte "));
        assert!(place && error.ends_with(expected), "{expected}: {error}");
    }
}

/// An intact archive that other programs read is not called damaged.
#[test]
fn an_archive_that_is_not_read_names_the_program_that_reads_it() {
    for (archive, name, expected) in [
        (changed(6, 1), "a.trace", "with an encrypted file"),
        (changed(8, 14), "a.trace", "with a file compressed by lzma, not stored or deflated"),
        (changed(8, 77), "a.trace", "with a file compressed by method 77, not stored or deflated"),
        (changed(SECOND_FILE + 6, 8), "a.trace", "with a stored file whose length stands behind it"),
    ] {
        let error = imported(&archive[..], None).unwrap_err().to_string();
        let filter = "with the same options, `bsdtar -xOf FILE | sweephand import -` reads it";
        assert_eq!(error, format!("{name}: is a zip archive {expected}, which is not read; {filter}"));
    }
}

#[test]
fn iologs_of_version_2_have_no_times_and_a_trim_drops_contents() {
    let old = "fio version 2 iolog\nf add\nf open\nf read 0 8192\nf trim 100 8092\nf read 0 8192\nf close\n";
    let (trace, header) = imported(old.as_bytes(), None).unwrap();
    assert_eq!(references(&trace), [(0, false), (1, false), (0, false), (1, false)]);
    assert_eq!(header.metadata.source, "fio");
    // Only the second page is trimmed as a whole.
    assert_eq!(decoded(&trace).1, [(2, Event::Drop { pages: 1..2 })]);
}

#[test]
fn one_action_of_blkparse_is_taken_and_a_note_says_which() {
    let notes = |text: &str| imported(text.as_bytes(), None).unwrap().1.metadata.notes;
    assert_eq!(notes(BLKPARSE), ["requests as they were queued"]);
    let issued: String =
        BLKPARSE.lines().filter(|line| !line.contains("  Q ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(notes(&issued), ["requests as they were issued"]);
    let (trace, _) = imported(issued.as_bytes(), Some(Format::Blkparse)).unwrap();
    assert_eq!(references(&trace), [(100, true), (101, false), (102, false)]);
    let error =
        imported(&b"  8,0 0 1 0.5 697 Q W 8 + 8 [a]\nhello\n"[..], Some(Format::Blkparse)).unwrap_err();
    assert_eq!(error.to_string(), "a.trace: line 2 (byte 32): not an event as blkparse prints it: \"hello\"");
}
