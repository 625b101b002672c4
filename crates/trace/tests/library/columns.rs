//! Logs with columns: every reference that small ones stand for, errors with their places, and the
//! same log in every form.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use crate::common::{Random, decoded};
use sweephand_trace::columns::{Columns, KNOWN, KnownLog};
use sweephand_trace::{
    EndTotals, Error, Event, Header, ImportOptions, Look, Metadata, Trace, Writer, fuzz_reader, import,
};

/// Imports a log.
fn trace(log: &[u8], columns: Columns) -> Result<(Trace, Header), Error> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let options =
        ImportOptions { name: PathBuf::from("a.log"), columns: Some(columns), ..ImportOptions::default() };
    let end = import(log, &mut writer, &options, &mut |_| {})?;
    let (out, header) = writer.finish(end)?;
    Ok((Trace::from_bytes(out.into_inner())?, header))
}

/// Imports a log, and gives its pages with their write flags, and the header.
fn imported(log: &[u8], columns: Columns) -> Result<(Vec<(u64, bool)>, Header), Error> {
    let (trace, header) = trace(log, columns)?;
    let mut numbers = Vec::new();
    let mut chunk = sweephand_trace::Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
    }
    let references = decoded(&trace).0;
    Ok((references.into_iter().map(|(id, write)| (numbers[id as usize], write)).collect(), header))
}

fn columns(text: &str) -> Columns {
    text.parse().unwrap()
}

/// References, without their write flags.
fn pages(log: &str, text: &str) -> Vec<u64> {
    let (references, _) = imported(log.as_bytes(), columns(text)).unwrap();
    references.into_iter().map(|(page, _)| page).collect()
}

/// Pages of the n-th object, where objects have sizes.
const OBJECT: u64 = 1 << 20;

#[test]
fn keys_are_numbered_in_order_of_their_first_requests() {
    assert_eq!(pages("b\na\nb\n c \n\na", "key=1"), [0, 1, 0, 2, 1]);
    // The same key of another tenant is another object.
    assert_eq!(pages("x,b\ny,b\nx,b\nx,a\n", "key=2,tenant=1"), [0, 1, 0, 2]);
}

#[test]
fn sizes_are_cut_into_pages() {
    let log = "time,key,bytes\n1,a,4097\n2,b,0\n3,a,1\n4,c,8192.0\n";
    let expected = [0, 1, OBJECT, 0, 2 * OBJECT, 2 * OBJECT + 1];
    assert_eq!(pages(log, "key=key,size=bytes"), expected);
    assert_eq!(pages(log, "key=KEY,size=3"), expected);
    let mut large = columns("key=2,size=3");
    (large.header, large.page_bytes) = (true, 1 << 16);
    let (references, header) = imported(log.as_bytes(), large).unwrap();
    assert_eq!(references.iter().map(|(page, _)| page << 16 >> 32).collect::<Vec<_>>(), [0, 1, 0, 2]);
    assert_eq!(header.metadata.page_size, 1 << 16);
}

#[test]
fn offsets_are_places_on_a_disk_of_each_tenant() {
    assert_eq!(pages("0;4096\n8;4097\n15;1\n", "offset=1*512,size=2"), [0, 1, 2, 1]);
    assert_eq!(pages("0;7\n1;7\n0;4096\n", "tenant=1,offset=2"), [0, 1 << 40, 1]);
    assert_eq!(pages("0x1000 1\n  0x2fff\t2\n", "offset=1,size=2"), [1, 2, 3]);
}

#[test]
fn ops_read_write_and_delete() {
    let (references, header) =
        imported(b"get,a\nSET,a\ndelete,a\nget,a\ndelete,b\n", columns("op=1,key=2")).unwrap();
    assert_eq!(references, [(0, false), (0, true), (0, false)]);
    assert_eq!((header.totals.unmaps, header.totals.written_pages, header.totals.distinct_pages), (2, 1, 1));
    assert_eq!(
        header.metadata.notes,
        ["5 requests for 2 objects", "2 deletions: contents dropped"],
        "notes say what was in the log"
    );
    let (references, _) = imported(b"1,a\n2,a\n3,a\n", columns("op=1:2|3,key=2")).unwrap();
    assert_eq!(references, [(0, false), (0, true), (0, true)]);
    let (dropped, _) = trace(b"a,get\na,delete\na,get\nb,delete\n", columns("key=1,op=2")).unwrap();
    assert_eq!(decoded(&dropped).1, [(1, Event::Drop { pages: 0..1 })], "before the second reference");
    // Whole pages only.
    let (_, header) =
        imported(b"r,0,8192\ntrim,1,8191\nr,0,8192\n", columns("op=1,offset=2,size=3")).unwrap();
    assert_eq!((header.totals.unmaps, header.totals.distinct_pages), (1, 2));
}

#[test]
fn times_give_a_rate_and_times_to_live_are_named() {
    let log = b"1000,a,5\n1500,b,5\n3000,a,5\n";
    let (_, header) = imported(log, columns("time=1/1000,key=2,ttl=3")).unwrap();
    assert_eq!(
        header.metadata.notes,
        [
            "3 requests for 2 objects in 2 s, 2 a second",
            "times to live are ignored: only whole objects expire, in a log with times"
        ]
    );
}

/// One log in every form that there is.
#[test]
fn the_same_log_is_the_same_trace_in_every_form() {
    let mut random = Random(7);
    let rows: Vec<(u64, u64, bool)> = (0..3000)
        .map(|_| (random.below(50) * random.below(50), 1 + random.below(20_000), random.below(3) == 0))
        .collect();
    let op = |write: bool| if write { "set" } else { "get" };
    let mut csv = String::from("\u{feff}time,key,size,op\r\n");
    let (mut quoted, mut tsv, mut spaces, mut json, mut structs) =
        (String::new(), String::new(), String::new(), String::new(), b"head".to_vec());
    for (time, &(key, size, write)) in rows.iter().enumerate() {
        let op = op(write);
        csv += &format!("{time},key \u{e9} {key},{size},{op}\r\n");
        quoted += &format!("{time},\"key \u{e9} {key}\",\"{size}\",\"{op}\"\n");
        tsv += &format!("{time}\tkey \u{e9} {key}\t{size}\t{op}\n");
        spaces += &format!("  {time}  k{key} {size}\t{op}\n");
        json += &format!(
            "{{\"t\":{time},\"other\":[1,{{\"key\":0}}],\"in\":{{\"key\":\"key \\u00e9 {key}\",\"size\":{size}}},\"op\":\"{op}\"}}\n"
        );
        structs.extend_from_slice(&(time as u32).to_le_bytes());
        structs.extend_from_slice(&key.to_be_bytes());
        structs.extend_from_slice(&(size as u16).to_le_bytes());
        structs.push(u8::from(write));
    }
    let forms: [(&str, &[u8], &str); 6] = [
        ("CSV", csv.as_bytes(), "key=key,size=size,op=op"),
        ("quoted CSV", quoted.as_bytes(), "key=2,size=3,op=4"),
        ("TSV", tsv.as_bytes(), "key=2,size=3,op=4"),
        ("spaces", spaces.as_bytes(), "key=2,size=3,op=4"),
        ("JSON", json.as_bytes(), "key=in.key,size=in.size,op=op"),
        ("structs", &structs, "record=15,skip=4,key=u64be@4,size=u16@12,op=u8@14:1"),
    ];
    let mut first = None;
    for (form, log, text) in forms {
        let mut columns = columns(text);
        // There are tabs, too.
        columns.separator = (form == "spaces").then_some(b' ');
        let (references, header) = imported(log, columns).unwrap();
        let told = (references, header.checksum);
        assert_eq!(first.get_or_insert_with(|| told.clone()), &told, "{form}");
        fuzz_reader(&log[..log.len().min(4000)]);
    }
}

#[test]
fn quotes_may_hold_separators_quotes_and_newlines() {
    let log = "a,\"x,\"\"y\"\"\nz\",1\nb,plain,2\nc,\"x,\"\"y\"\"\nz\",3\n";
    assert_eq!(pages(log, "key=2"), [0, 1, 0]);
    let error = imported((log.to_owned() + "d\n").as_bytes(), columns("key=2")).unwrap_err();
    assert_eq!(error.to_string(), "a.log: line 6 (byte 42): fewer columns than are named: \"d\"");
}

#[test]
fn errors_name_the_file_and_the_line() {
    for (log, text, message) in [
        (
            "key,size\na,1\n",
            "key=1,size=2",
            String::from(
                "line 1 (byte 0): not a number of bytes in the column of sizes (if the line has the names \
                 of the columns: --header): \"key,size\"",
            ),
        ),
        (
            "a,1\nb,2x\n",
            "key=1,size=2",
            "line 2 (byte 4): not a number of bytes in the column of sizes: \"b,2x\"".into(),
        ),
        ("a,1\n,2\n", "key=1,size=2", "line 2 (byte 4): no key: \",2\"".into()),
        ("a,1\nb\n", "key=1,size=2", "line 2 (byte 4): fewer columns than are named: \"b\"".into()),
        ("a,b\n1,2\n", "key=c", "line 1: no column 'c' in the header; it has: a, b".into()),
        (
            "1\nx\n",
            "offset=1",
            "line 2 (byte 2): not a number in the column of offsets (is it a key?): \"x\"".into(),
        ),
        (
            "r,1\nfly,1\n",
            "op=1,key=2",
            "line 2 (byte 4): neither read nor write nor delete in the column of ops: name the words that \
             write, as in op=4:SET|ADD, or more, as in op=4:read=GET:write=SET:delete=DEL: \"fly,1\""
                .into(),
        ),
        (
            "1,1\nx,1\n",
            "time=1,key=2",
            "line 2 (byte 4): not a number of seconds in the column of times (dates are not read; without the \
             column the log has no times): \"x,1\""
                .into(),
        ),
        (
            "a,1\nb,68719476737\n",
            "key=1,size=2",
            "line 2 (byte 4): an object of more than 64 GiB: \"b,68719476737\"".into(),
        ),
        ("{\"a\":1}\n{\"a\":}\n", "key=a", "line 2 (byte 8): not a JSON object: \"{\\\"a\\\":}\"".into()),
        (
            "{\"a\":1}\n{\"b\":null,\"a\":[]}\n",
            "key=a",
            "line 2 (byte 8): an object without one of the columns that are named: \
             \"{\\\"b\\\":null,\\\"a\\\":[]}\""
                .into(),
        ),
        (
            "{\"a\":1}\n",
            "key=1",
            "the lines are JSON, whose columns have names: key=NAME, or OUTER.NAME".into(),
        ),
        ("abc", "record=2,key=u8@0", "ends too soon, at byte 3, inside struct 1 of 2 bytes".into()),
        ("abcd", "record=2,skip=5,key=u8@0", "ends too soon, at byte 4, before the first struct".into()),
        ("", "key=1", "is empty: there is no trace in it".into()),
    ] {
        let error = imported(log.as_bytes(), columns(text)).unwrap_err();
        assert_eq!(error.to_string(), format!("a.log: {message}"), "{log:?} {text}");
    }
}

#[test]
fn a_quote_that_is_not_closed_takes_no_memory() {
    let log = "a,1\n\"".to_owned() + &"x\n".repeat(1 << 24);
    let error = imported(log.as_bytes(), columns("key=1")).unwrap_err().to_string();
    assert!(error.starts_with("a.log: line 2 (byte 4): a row of more than 16 MiB"), "{error}");
    let log = &log[..1 << 20];
    let error = imported(log.as_bytes(), columns("key=1")).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with(
            "a.log: line 2 (byte 4): a quote that is not closed (--quote off: quotes mean nothing)"
        ),
        "{message}"
    );
}

#[test]
fn a_look_shows_columns_and_the_first_references() {
    let log = b"id,when\nx,1\ny,2\nx,3\n";
    let look = Look::at(&log[..], &ImportOptions::default()).unwrap();
    let preview = look.preview.unwrap();
    assert_eq!((preview.guess().as_deref(), preview.header), (Some("key=1,time=2"), true));
    assert_eq!(look.references, [(0, false), (1, false), (0, false)]);
    let look = Look::at(&b"7\n8\n"[..], &ImportOptions::default()).unwrap();
    assert_eq!(look.format, Some(sweephand_trace::Format::Text));
    assert_eq!(look.references, [(7, false), (8, false)]);
}

#[test]
fn bzip2_and_lz4_are_taken_off_and_every_cut_is_found() {
    let text: String = (0..2000u32).map(|n| format!("{}\n", n * n % 97)).collect();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(text.as_bytes()).unwrap();
    let bzip2 = bzip2.finish().unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(text.as_bytes()).unwrap();
    let lz4 = lz4.finish().unwrap();
    let plain = Trace::from_bytes(text.clone().into_bytes()).unwrap().header().checksum;
    let twice = Trace::from_bytes((text.clone() + &text).into_bytes()).unwrap().header().checksum;
    for (name, packed) in [("bzip2", bzip2), ("lz4", lz4)] {
        assert_eq!(Trace::from_bytes(packed.clone()).unwrap().header().checksum, plain, "{name}");
        assert_eq!(Trace::from_bytes(packed.repeat(2)).unwrap().header().checksum, twice, "{name}");
        for length in 0..packed.len() {
            assert!(Trace::from_bytes(packed[..length].to_vec()).is_err(), "{name} of {length} bytes");
        }
    }
}

/// The name of a log, a file of it, and the references that it stands for.
type Log = (&'static str, Vec<u8>, Vec<(u64, bool)>);

/// A struct from its parts.
fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A file of each log with a name, from its specification, and the references that it stands for.
#[test]
fn logs_with_names_are_read_as_their_specifications_say() {
    let lcs = |version: u64, requests: &[Vec<u8>]| {
        let magic = 0x1234_5678_9abc_def0u64.to_le_bytes();
        let mut file = bytes(&[&magic, &version.to_le_bytes()]);
        file.resize(8192 - 8, 0);
        file.extend_from_slice(&magic);
        file.extend(requests.concat());
        file
    };
    let (u16, u32, u64) = (u16::to_le_bytes, u32::to_le_bytes, u64::to_le_bytes);
    let one_to_two = [(0, false), (OBJECT, false), (OBJECT + 1, false), (0, false)];
    let objects = [(7u64, 100u64), (9, 4097), (7, 100)];
    let disk = 1 << 40;
    let with_features = |version: u64, features: usize| {
        let request = |(key, size): (u64, u64)| {
            let base = bytes(&[&u32(1), &u64(key), &u64(size), &u32(1), &u32(60), &u64(2)]);
            bytes(&[&base, &vec![0xab; 4 * features]])
        };
        lcs(version, &objects.map(request))
    };
    let logs: [Log; 23] = [
        (
            "twitter",
            b"0,nz:u:eeW511W3,16,4097,33,get,0\n1,nz:u:eeW511W3,16,100,9,set,3600\n2,q:q:1wuP,17,0,33,get,0\n"
                .to_vec(),
            vec![(0, false), (1, false), (0, true), (OBJECT, false)],
        ),
        (
            "tencent-block",
            b"1538323200,12910952,16,0,1063\n1538323200,8,8,1,1064\n".to_vec(),
            vec![(1_613_869, false), (1_613_870, false), (disk + 1, true)],
        ),
        (
            "alibaba-block",
            b"419,W,4096,8192,1577808144360767\n725,R,0,4096,1577808144360819\n".to_vec(),
            vec![(1, true), (2, true), (disk, false)],
        ),
        (
            "systor",
            b"Timestamp,Response,IOType,LUN,Offset,Size\n1455592218.1,0.01,W,2,4096,512\n1455592219.2,,R,0,8192,4096\n"
                .to_vec(),
            vec![(1, true), (disk + 2, false)],
        ),
        (
            "rocksdb-block-cache",
            b"1000000,5,9,4000,0,default,1,8,1,0,0,0,0,0\n2000000,6,9,8192,0,default,1,8,1,0,0,0,0,0\n".to_vec(),
            vec![(0, false), (OBJECT, false), (OBJECT + 1, false)],
        ),
        (
            "vscsi-1",
            [(0x2au16, 8192u32, 16u64), (0x28, 512, 8)]
                .iter()
                .flat_map(|&(command, length, block)| {
                    let (version, none) = (u16(0x0100), u32(1));
                    bytes(&[&none, &u32(length), &none, &u16(command), &version, &u64(block), &u64(5)])
                })
                .collect(),
            vec![(2, true), (3, true), (1, false)],
        ),
        (
            "vscsi-2",
            [(0x8au16, 8192u32, 16u64), (0x88, 512, 8)]
                .iter()
                .flat_map(|&(command, length, block)| {
                    let (version, none) = (u16(0x0200), u32(1));
                    let front = bytes(&[&u16(command), &version, &none, &u32(length), &none]);
                    bytes(&[&front, &u64(block), &u64(5), &u64(5)])
                })
                .collect(),
            vec![(2, true), (3, true), (1, false)],
        ),
        (
            "lcs-1",
            lcs(1, &objects.map(|(key, size)| bytes(&[&u32(1), &u64(key), &u32(size as u32), &u64(2)]))),
            one_to_two.to_vec(),
        ),
        (
            "lcs-2",
            lcs(
                2,
                &objects
                    .map(|(key, size)| bytes(&[&u32(1), &u64(key), &u32(size as u32), &u32(1), &u64(2)])),
            ),
            one_to_two.to_vec(),
        ),
        (
            "lcs-3",
            lcs(
                3,
                &objects.map(|(key, size)| {
                    bytes(&[&u32(1), &u64(key), &u64(size), &u32(1), &u32(60), &u64(2)])
                }),
            ),
            one_to_two.to_vec(),
        ),
        ("lcs-4", with_features(4, 1), one_to_two.to_vec()),
        ("lcs-5", with_features(5, 2), one_to_two.to_vec()),
        ("lcs-6", with_features(6, 4), one_to_two.to_vec()),
        ("lcs-7", with_features(7, 8), one_to_two.to_vec()),
        ("lcs-8", with_features(8, 16), one_to_two.to_vec()),
        (
            "cachelib",
            b"key,op,size,op_count,key_size\nk1,GET,4097,2,9\nk2,SET_LEASE,10,1,9\nk1,GET_LEASE,10,0,9\n".to_vec(),
            vec![(0, false), (1, false), (0, false), (1, false), (OBJECT, true)],
        ),
        (
            "cachelib-block",
            b"op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count\n\
              1,b,8,4097,8192,u,n,1,1\n2,c,8,1,0,u,n,4,2\n"
                .to_vec(),
            vec![(2, false), (3, false), (OBJECT, true), (OBJECT, true)],
        ),
        (
            "cachelib-cdn",
            b"timestamp,cacheKey,OpType,objectSize,responseSize,responseHeaderSize,rangeStart,rangeEnd,TTL\n\
              1679000000,77,1,4097,10,10,-1,-1,3600\n1679000001,78,1,0,10,10,-1,-1,3600\n"
                .to_vec(),
            vec![(0, false), (1, false), (OBJECT, false)],
        ),
        (
            "ibm-cos",
            b"1219008 REST.PUT.OBJECT 8d4fcda3d675bac9 4097\n1221974 REST.HEAD.OBJECT 39d177fb735ac5df 528\n\
              1232488 REST.GET.OBJECT 8d4fcda3d675bac9 4097 0 4096\n1252488 REST.DELETE.OBJECT 39d177fb735ac5df\n"
                .to_vec(),
            vec![(0, true), (1, true), (OBJECT, false), (0, false), (1, false)],
        ),
        (
            "pinatrace",
            b"0x7f0a: W 0x7ffc7a9a5a08\n0x7f0b: R 0x1000\n#eof\n".to_vec(),
            vec![(0x7_ffc7_a9a5, true), (1, false)],
        ),
        (
            "tectonic",
            b"# block_id io_offset io_size op_time op_name user_namespace user_name rs_shard_id op_count\n310 262144 4325 1572074461.57806 1 24 3 5 2\n7 0 1 1572074462 4 24 3 5 1\n310 262144 1 1572074463 1 24 3 6 1\n".to_vec(),
            vec![
                (64, false),
                (65, false),
                (64, false),
                (65, false),
                (OBJECT, true),
                (2 * OBJECT + 64, false),
            ],
        ),
        (
            "thesios",
            b"filename,file_offset,application,op_type,request_io_size_bytes,start_time,simulated_latency\n\
              a,8192,spanner,READ,4096,1.5,0.1\nb,0,x,WRITE,1,1.6,0.1\na,8192,spanner,READ,1,1.7,0.1\n"
                .to_vec(),
            vec![(2, false), (OBJECT, true), (2, false)],
        ),
        ("arc", b"100 3 0 0\n7 1 0 1\n".to_vec(), vec![(100, false), (101, false), (102, false), (7, false)]),
    ];
    assert_eq!(
        logs.each_ref().map(|(name, ..)| *name)[..],
        KNOWN.iter().map(|log| log.name).collect::<Vec<_>>()
    );
    for (name, log, expected) in logs {
        let columns = KnownLog::named(name).unwrap().columns();
        assert_eq!(imported(&log, columns).unwrap().0, expected, "{name}");
        if name.starts_with("lcs")
            || ["systor", "cachelib", "cachelib-block", "cachelib-cdn", "pinatrace", "tectonic", "thesios"]
                .contains(&name)
        {
            let found = Look::at(&log[..], &ImportOptions::default()).unwrap();
            assert_eq!((found.known.unwrap().name, found.references), (name, expected), "{name}");
            let trace = Trace::from_bytes(log.clone()).unwrap();
            assert!(!trace.header().metadata.notes.is_empty(), "{name}: no note says how it was read");
        }
        fuzz_reader(&log);
    }
}

/// Commands to virtual SCSI disks are found by the version in each of them.
#[test]
fn commands_to_virtual_disks_are_found_by_content() {
    let commands = |version: u8, length: usize, at: usize, count: usize| -> Vec<u8> {
        let mut log = vec![0; length * count];
        log.chunks_exact_mut(length).for_each(|command| command[at + 1] = version);
        log
    };
    let known = |log: &[u8]| Look::at(log, &ImportOptions::default()).ok().and_then(|look| look.known);
    assert_eq!(known(&commands(1, 32, 14, 40)).unwrap().name, "vscsi-1");
    assert_eq!(known(&commands(2, 40, 2, 40)).unwrap().name, "vscsi-2");
    // Too few to be sure, and one that disagrees.
    assert!(known(&commands(1, 32, 14, 7)).is_none());
    let mut log = commands(1, 32, 14, 40);
    log[3 * 32 + 15] = 2;
    assert!(known(&log).is_none());
}

/// A key and an offset are a place in an object. A row with a count of N stands for N requests.
#[test]
fn an_offset_is_a_place_in_an_object_and_a_count_repeats_a_row() {
    let read = |log: &str, columns: &str| imported(log.as_bytes(), columns.parse().unwrap()).unwrap().0;
    let log = "a 4096 4097 r 1\nb 0 1 w 2\na 4096 1 r 0\n";
    let expected = vec![(1, false), (2, false), (OBJECT, true), (OBJECT, true)];
    assert_eq!(read(log, "key=1,offset=2,size=3,op=4,count=5"), expected);
    // Without sizes, an offset is one page.
    assert_eq!(read("a 4096\nb 8191\n", "key=1,offset=2"), [(1, false), (OBJECT + 1, false)]);
    let refused = |log: &str, columns: &str| {
        imported(log.as_bytes(), columns.parse().unwrap()).unwrap_err().to_string()
    };
    let error = refused("a 68719476736 1\n", "key=1,offset=2,size=3");
    assert!(error.contains("line 1") && error.contains("more than 64 GiB"), "{error}");
    let error = refused("a 1\nb 1000001\n", "key=1,count=2");
    assert!(error.contains("line 2") && error.contains("more than a million requests"), "{error}");
}

/// A trace in our own format has no columns.
#[test]
fn parts_of_an_object_are_objects() {
    let log = "a,1\na,2\nb,1\na,1\na,\nb,1\n";
    assert_eq!(pages(log, "key=1,part=2"), [0, 1, 2, 0, 3, 2]);
    let offsets = "a,1,0\na,2,0\na,1,4096\n";
    assert_eq!(pages(offsets, "key=1,part=2,offset=3"), [0, 1 << 20, 1]);
    // What is a part of one object is none of another, however their names go together.
    assert_eq!(pages("ab,c\na,bc\n", "key=1,part=2"), [0, 1]);
    let json = "{\"k\":\"a\",\"v\":1}\n{\"k\":\"a\",\"v\":2}\n";
    assert_eq!(pages(json, "key=k,part=v"), [0, 1]);
    assert!("part=2,offset=1".parse::<Columns>().is_err());
}

/// Baleen's files of 2019 have neither shards nor counts, and the names of their columns stand in
/// one of several comments, or nowhere.
#[test]
fn columns_that_a_log_may_lack_are_named_in_comments() {
    let rows = "1 0 1 5.5 1 24 3 9\n1 0 1 6.5 1 24 3 8\n";
    let of_2019 = "# block_id io_offset io_size op_time op_name pipeline user_namespace user_name\n";
    let of_2023 = "# block_id io_offset io_size op_time op_name user_namespace user_name rs_shard_id\n";
    let tectonic = || KnownLog::named("tectonic").unwrap().columns();
    for (head, expected) in
        [("", 1), (of_2019, 1), (of_2023, 2), (&("# Region 1\n#\n".to_owned() + of_2023), 2)]
    {
        let (_, header) = imported((head.to_owned() + rows).as_bytes(), tectonic()).unwrap();
        assert_eq!((header.totals.references, header.totals.distinct_pages), (2, expected), "{head}");
    }
}

#[test]
fn hexadecimal_numbers_without_a_mark_are_asked_for() {
    let log = "1a2000\n123000\nffffffff9c2e0fff\n0x1000\n";
    assert_eq!(pages(log, "offset=1:hex"), [0x1a2, 0x123, 0xf_ffff_fff9_c2e0, 1]);
    assert_eq!(pages("8,10\n", "offset=1*4096:hex,size=2*512:hex"), [8, 9]);
    for (log, text) in [(log, "offset=1"), ("0,1a2\n", "offset=1,size=2"), ("1e6\n", "offset=1")] {
        let error = imported(log.as_bytes(), columns(text)).unwrap_err().to_string();
        assert!(error.contains("offset=2:hex"), "{log:?}, {text}: {error}");
    }
    assert_eq!(pages("0,8.192e+03\n0,1e0\n", "offset=1,size=2"), [0, 1, 0]);
}

#[test]
fn columns_of_a_trace_are_refused() {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    writer.reference(7, false).unwrap();
    let (trace, _) = writer.finish(EndTotals::default()).unwrap();
    let error = imported(&trace.into_inner(), "key=1".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("it is a trace already"), "{error}");
}

/// A log that pyarrow 26.0 wrote: 300 requests in three row groups, with columns compressed by
/// zstd, snappy, gzip, lz4 and not at all, nested columns, absent values, lists and decimal
/// numbers.
#[cfg(feature = "parquet")]
const PARQUET: &[u8] = include_bytes!("../fixtures/pyarrow.parquet");

/// The requests of [`PARQUET`], as they were computed for it: key, op, lba, bytes, cost.
#[cfg(feature = "parquet")]
fn rows() -> impl Iterator<Item = (String, &'static str, u64, Option<u64>, i64)> {
    (0..300).map(|i| {
        let lba = 8 * (i % 50) + if i % 7 == 0 { 1 << 63 } else { 0 };
        let bytes = (i % 10 != 9).then_some(512 * (i % 20));
        (format!("user:{}", i * i % 97), if i % 5 == 0 { "set" } else { "get" }, lba, bytes, -(i as i64 % 3))
    })
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_are_read_like_the_same_log_as_text() {
    let csv: String = rows()
        .enumerate()
        .map(|(i, (key, op, lba, bytes, cost))| {
            format!("{},{key},{op},{lba},{},{cost}\n", i as f64 / 4.0, bytes.unwrap_or(0))
        })
        .collect();
    for (parquet, text) in [
        ("key=request.key", "key=2"),
        ("key=REQUEST.KEY,op=request.op", "key=2,op=3"),
        ("key=2,op=3,tenant=lba", "key=2,op=3,tenant=4"),
        ("key=lba,op=request.op:get,time=time", "key=4,op=3:get,time=1"),
        ("key=cost,tenant=request.op", "key=6,tenant=3"),
    ] {
        let (references, header) = imported(PARQUET, columns(parquet)).unwrap();
        let (expected, expected_header) = imported(csv.as_bytes(), columns(text)).unwrap();
        assert_eq!(references, expected, "{parquet}");
        assert_eq!(header.metadata.source, "Parquet", "{parquet}");
        // Times are seconds, whatever unit the file has.
        let without_dates = |notes: &[String]| notes.iter().map(|note| note.replace(".0 s", " s")).collect();
        let [notes, expected]: [Vec<String>; 2] =
            [&header.metadata.notes, &expected_header.metadata.notes].map(|notes| without_dates(notes));
        assert_eq!(notes, expected, "{parquet}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn what_is_wrong_in_a_parquet_file_has_a_reason() {
    let all = "time request.key request.op lba bytes cost tags.list.element price";
    let cut = &PARQUET[..PARQUET.len() - 9];
    for (log, text, expected) in [
        (PARQUET, "key=id", format!("a.log: no column id for key: the Parquet file has {all}")),
        (PARQUET, "key=9", format!("a.log: no column 9 for key: the Parquet file has {all}")),
        (
            PARQUET,
            "key=tags.list.element",
            "a.log: tags.list.element is a column of lists, which is not read".into(),
        ),
        (
            PARQUET,
            "key=price",
            "a.log: price is a column of decimal numbers or of halves, which is not read".into(),
        ),
        (
            PARQUET,
            "key=cost,size=request.key",
            "a.log: row 1: not a number of bytes in the column of sizes".into(),
        ),
        (PARQUET, "key=bytes", "a.log: row 10: no key".into()),
        (
            PARQUET,
            "offset=request.key",
            "a.log: row 1: not a number in the column of offsets (is it a key?)".into(),
        ),
        (cut, "key=cost", format!("a.log: ends too soon, at byte {}, and its directory", cut.len())),
    ] {
        let error = imported(log, columns(text)).unwrap_err().to_string();
        assert!(error.starts_with(&expected), "{text}: {error}");
    }
    let twice = [PARQUET, PARQUET].concat();
    let error = imported(&twice, columns("key=cost")).unwrap_err().to_string();
    assert!(error.contains("two Parquet files one behind the other"), "{error}");
    let archive = crate::common::zip_of(&[("a", PARQUET), ("b", PARQUET)]);
    assert_eq!(imported(&archive, columns("key=cost")).unwrap().0.len(), 600);
    // Without columns it is no trace.
    let error = import(
        PARQUET,
        &mut Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap(),
        &ImportOptions::default(),
        &mut |_| {},
    );
    assert!(error.unwrap_err().to_string().starts_with("is a Parquet file, not a trace"));
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_is_shown() {
    let look = Look::at(PARQUET, &ImportOptions::default()).unwrap();
    let preview = look.preview.unwrap();
    assert_eq!(preview.shape, "Parquet");
    let shown: Vec<_> = preview
        .columns
        .iter()
        .map(|column| (column.place.as_str(), column.role, column.distinct, column.examples.join(" ")))
        .collect();
    assert_eq!(shown[1], ("request.key", "key", 49, "user:0 user:1 user:4".to_owned()));
    assert_eq!(shown[2], ("request.op", "op", 2, "set get".to_owned()));
    assert_eq!(shown[5], ("cost", "", 3, "0 -1 -2".to_owned()));
    assert_eq!(shown[6].2, 0);
    // The first of these places is beyond any disk, so they are no places in objects either.
    assert_eq!(preview.guess().as_deref(), Some("key=request.key,op=request.op,time=time"));
    assert!(look.refused.unwrap().contains("not a number in the column of offsets"));
    assert_eq!(look.references[..3], [(0, true), (1, false), (2, false)]);
    let asked =
        ImportOptions { columns: Some(columns("key=cost,op=request.op")), ..ImportOptions::default() };
    let look = Look::at(PARQUET, &asked).unwrap();
    let [reads, writes] = [false, true].map(|write| look.references.iter().filter(|r| r.1 == write).count());
    assert_eq!((reads, writes), (6, 2));
}

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_files_are_errors_or_logs() {
    let all = columns("key=request.key,op=request.op:set,tenant=lba,time=time,ttl=bytes");
    for length in (0..PARQUET.len()).step_by(61) {
        assert!(imported(&PARQUET[..length], all.clone()).is_err(), "{length}");
    }
    let mut random = Random(9);
    let mut refused = 0;
    for _ in 0..2000 {
        let mut damaged = PARQUET.to_vec();
        // Most of the file is values; its directory is what most depends on.
        let directory = random.below(2) * (damaged.len() as u64 - 3000);
        let at = directory + random.below(damaged.len() as u64 - directory);
        damaged[at as usize] = random.below(256) as u8;
        refused += u32::from(imported(&damaged, all.clone()).is_err());
    }
    assert!((200..1900).contains(&refused), "{refused}");
}
