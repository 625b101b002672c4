//! Inputs as people have them: archives, compressed files one behind the other, headers that come
//! again, text in other encodings, rows of another shape. Each row of these tables was once read
//! wrongly without a word, or refused although it is right.

use std::io::{Cursor, Write};
use sweephand_checks::trying;

use crate::common::{decoded, zip_of};
use sweephand_trace::columns::{Columns, Quote};
use sweephand_trace::{BadRows, Chunk, Format, Header, ImportOptions, Metadata, Trace, Writer, import};

/// What is read: pages, and the header. Or the error.
fn read(log: &[u8], options: &ImportOptions) -> Result<(Vec<u64>, Header), String> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let options = ImportOptions { name: "a.log".into(), ..options.clone() };
    let end = import(log, &mut writer, &options, &mut |_| {}).map_err(|error| error.to_string())?;
    let (out, header) = writer.finish(end).unwrap();
    let trace = Trace::from_bytes(out.into_inner()).unwrap();
    let (mut numbers, mut chunk) = (Vec::new(), Chunk::new());
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
    }
    Ok((decoded(&trace).0.into_iter().map(|(id, _)| numbers[id as usize]).collect(), header))
}

fn options(columns: &str) -> ImportOptions {
    let columns = (!columns.is_empty()).then(|| columns.parse().unwrap());
    ImportOptions { columns, ..ImportOptions::default() }
}

/// The pages of a log with these columns, or of a format that is found by content.
fn pages(log: &[u8], columns: &str) -> Vec<u64> {
    read(log, &options(columns)).unwrap_or_else(|error| panic!("{columns}: {error}")).0
}

fn refused(log: &[u8], columns: &str) -> String {
    read(log, &options(columns)).unwrap_err()
}

fn notes(log: &[u8], columns: &str) -> String {
    read(log, &options(columns)).unwrap().1.metadata.notes.join("; ")
}

fn gzip(text: &[u8], name: Option<&str>) -> Vec<u8> {
    let mut builder = flate2::GzBuilder::new();
    if let Some(name) = name {
        builder = builder.filename(name);
    }
    let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, contents) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *contents).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Makes an archive of files with these names and contents.
type Archive = fn(&[(&str, &[u8])]) -> Vec<u8>;

const ARCHIVES: [(&str, Archive); 2] = [("zip", zip_of), ("tar", tar_of)];

#[test]
fn rows_end_with_the_file_of_an_archive() {
    for (kind, archive) in ARCHIVES {
        let _input = trying(|| kind.into());
        assert_eq!(pages(&archive(&[("a", b"1\n2"), ("b", b"3\n4")]), ""), [1, 2, 3, 4]);
        assert_eq!(pages(&archive(&[("a", b"a,1\nb,2"), ("b", b"a,3")]), "key=1"), [0, 1, 0]);
        let json = [("a", &b"{\"k\":1}\n{\"k\":2}"[..]), ("b", b"{\"k\":1}")];
        assert_eq!(pages(&archive(&json), "key=k"), [0, 1, 0]);
        let quoted = archive(&[("a", b"\"a\",1\n\"b\",2"), ("b", b"\"a\",3")]);
        assert_eq!(pages(&quoted, "key=1"), [0, 1, 0]);
        // Compressed files in an archive, and an archive that is compressed.
        let nested = archive(&[("a.gz", &gzip(b"1\n2", None)), ("b.gz", &gzip(b"3\n4", None))]);
        assert_eq!(pages(&nested, ""), [1, 2, 3, 4]);
        assert_eq!(pages(&gzip(&nested, None), ""), [1, 2, 3, 4]);
        let error = refused(&archive(&[("a", b"1\n2\n"), ("b", b"3\nx\n")]), "");
        assert!(error.starts_with("a.log (b): line 2 (byte 2): not a page number"), "{error}");
        // Another file's columns may stand elsewhere, and may not be others.
        let turned = archive(&[("a", b"k,s\na,1\n"), ("b", b"s,k\n1,b\n2,a\n")]);
        assert_eq!(pages(&turned, "key=k,size=s"), [0, 1 << 20, 0]);
        let other = archive(&[("a", b"k,s\na,1\n"), ("b", b"k,t\nb,1\n")]);
        let error = refused(&other, "key=k,size=s");
        assert!(error.starts_with("a.log (b): line 1 (byte 0): not a number of bytes"), "{error}");
        assert!(!error.contains("--header"), "{error}");
    }
}

#[test]
fn what_is_wrong_between_two_files_is_about_neither() {
    let mut archive = zip_of(&[("a", b"1\n"), ("b", b"2\n")]);
    let second = archive.windows(4).rposition(|bytes| bytes == b"PK\x03\x04").unwrap();
    archive[second] = b'X';
    let error = refused(&archive, "");
    assert!(error.starts_with("a.log: damaged") && error.contains("no header"), "{error}");
}

#[test]
fn a_struct_does_not_cross_into_the_next_file() {
    let [one, two] = [7u64, 8].map(|key| [key.to_le_bytes(), [0; 8]].concat());
    for (kind, archive) in ARCHIVES {
        let _input = trying(|| kind.into());
        let whole = archive(&[("a", &one), ("b", &[&two[..], &one].concat())]);
        assert_eq!(pages(&whole, "record=16,key=u64@0"), [0, 1, 0]);
        let glued = archive(&[("a", &[&one[..], b"\n"].concat()), ("b", &two[..15])]);
        let error = refused(&glued, "record=16,key=u64@0");
        assert!(error.contains("(a): ends too soon") && error.contains("inside struct 1"), "{error}");
        let short = archive(&[("a", &one), ("b", &two[..15])]);
        assert!(refused(&short, "record=16,key=u64@0").contains("(b): ends too soon"));
    }
    // What oracleGeneral says of the future counts within a file.
    let record = |key: u64, next: i64| {
        [&0u32.to_le_bytes()[..], &key.to_le_bytes(), &1u32.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let part = [record(1, 1), record(1, -1)].concat();
    let as_oracle = ImportOptions { format: Some(Format::OracleGeneral), ..ImportOptions::default() };
    assert_eq!(read(&zip_of(&[("a", &part), ("b", &part)]), &as_oracle).unwrap().0, [0; 4]);
    let error = read(&part.repeat(2), &as_oracle).unwrap_err();
    assert!(error.contains("two traces one behind the other"), "{error}");
}

#[test]
fn what_is_no_data_in_an_archive_is_passed_over_and_named() {
    let junk = b"\0\x05\x16\x07 no rows";
    for (kind, archive) in ARCHIVES {
        let _input = trying(|| kind.into());
        let mac = archive(&[("t.txt", b"1\n2\n"), ("__MACOSX/._t.txt", junk), ("._u.txt", junk)]);
        assert_eq!(pages(&mac, ""), [1, 2]);
        let documented =
            archive(&[("README.md", b"# about"), ("t.txt", b"a\nb\na\n"), ("LICENSE", b"CC BY 4.0\n")]);
        assert_eq!(pages(&documented, "key=1"), [0, 1, 0]);
        let notes = notes(&documented, "key=1");
        assert!(notes.contains("1 file of the archive: t.txt"), "{notes}");
        assert!(notes.contains("no data: README.md, LICENSE"), "{notes}");
        assert!(refused(&archive(&[("LICENSE", b"CC BY 4.0\n")]), "").contains("is empty"));
    }
}

#[test]
fn compressed_files_end_and_blocks_of_one_file_go_on() {
    let two = [gzip(b"1\n2", Some("a")), gzip(b"3\n4", Some("b"))].concat();
    assert_eq!(pages(&two, ""), [1, 2, 3, 4]);
    assert!(notes(&two, "").contains("2 compressed files"));
    let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
    assert_eq!(pages(&[zstd(b"1\n2"), zstd(b"3\n4")].concat(), ""), [1, 2, 3, 4]);
    // One kind behind another.
    assert_eq!(pages(&[zstd(b"1\n2"), gzip(b"3\n4", None)].concat(), ""), [1, 2, 3, 4]);
    // A parallel compressor cuts a file anywhere.
    let text: Vec<u8> = (0..4000).flat_map(|n| format!("{}\n", n % 977).into_bytes()).collect();
    let plain = pages(&text, "");
    let blocks: Vec<u8> = text.chunks(5000).flat_map(|block| gzip(block, None)).collect();
    assert_eq!(pages(&blocks, ""), plain);
    let blocks: Vec<u8> = text.chunks(4096).flat_map(zstd).collect();
    assert_eq!(pages(&blocks, ""), plain);
    // bgzip's blocks have a mark, whatever their length.
    let marked = |block: &[u8]| {
        let builder = flate2::GzBuilder::new().extra(*b"BC\x02\0\x1b\0");
        let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(block).unwrap();
        encoder.finish().unwrap()
    };
    let blocks: Vec<u8> = text.chunks(777).flat_map(marked).chain(marked(b"")).collect();
    assert_eq!(pages(&blocks, ""), plain);
}

#[test]
fn zeros_may_stand_behind_compressed_data_and_other_bytes_may_not() {
    let zeros = [0; 512];
    let zstd = zstd::encode_all(&b"1\n2\n"[..], 1).unwrap();
    for (kind, packed) in [("gzip", gzip(b"1\n2\n", None)), ("zstd", zstd)] {
        let _input = trying(|| kind.into());
        assert_eq!(pages(&[&packed[..], &zeros].concat(), ""), [1, 2]);
        assert!(refused(&[&packed[..], b"3\n"].concat(), "").contains("something else stands behind"));
    }
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(b"1\n2").unwrap();
    assert_eq!(pages(&lz4.finish().unwrap(), ""), [1, 2], "a frame of a few bytes");
}

#[test]
fn headers_marks_and_comments_are_skipped_wherever_they_stand() {
    let mark = "\u{feff}";
    for (log, columns, expected) in [
        (format!("{mark}12\n13\n"), "", vec![12, 13]),
        (format!("12\n{mark}13\n# more\n12\n"), "", vec![12, 13, 12]),
        (format!("{mark}a,1\nb,2\n{mark}a,1\n"), "key=1", vec![0, 1, 0]),
        ("key\na\nb\nkey\na\n".into(), "key=key", vec![0, 1, 0]),
        ("key,n\na,1\nkey,n\nb,2\n".into(), "key=key", vec![0, 1]),
        ("key,size\na,1\nsize,key\n1,a\n".into(), "key=key", vec![0, 1, 2]),
        ("# made 2020\na\nb\n# part 2\na\n".into(), "key=1", vec![0, 1, 0]),
        ("#eof\n0x7f: W 0x7000\n0x7f: R 0x7008\n#eof\n".into(), "", vec![7, 7]),
        ("# block size\na 1\nb 1\n".into(), "key=block,size=size", vec![0, 1 << 20]),
        ("#Version: 1.0\n#Fields: date uri\n1\t/a\n2\t/b\n".into(), "key=uri", vec![0, 1]),
        ("{\"k\":1}\n# more\n{\"k\":2}\n".into(), "key=k", vec![0, 1]),
        ("fio version 2 iolog\n/f read 0 1\nfio version 2 iolog\n/f read 4096 1\n".into(), "", vec![0, 1]),
        ("I  0400d7d4,8\n# note\n L 04f6b868,8\n".into(), "", vec![0x400d, 0x4f6b]),
    ] {
        assert_eq!(pages(log.as_bytes(), columns), expected, "{log:?}");
    }
    // Each file of an archive may have its columns in another order.
    let parts = zip_of(&[("a", b"key,size\na,1\n"), ("b", b"size,key\n1,a\n")]);
    assert_eq!(pages(&parts, "key=key"), [0, 0]);
    let parts = zip_of(&[("a", b"key\na\nb\n"), ("b", b"b\na\n")]);
    assert_eq!(pages(&parts, "key=key"), [0, 1, 1, 0], "the other parts have no header");
}

#[test]
fn text_in_utf16_and_lines_that_end_with_a_return_are_read() {
    let text = "1,a\n2,\u{e9}\u{1f980}\n3,a\n";
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        let _input = trying(|| format!("the bytes of a unit in the order of {:x?}", order(1)));
        let units = |text: &str| text.encode_utf16().flat_map(order).collect::<Vec<_>>();
        assert_eq!(pages(&units(&format!("\u{feff}{text}")), "key=2"), [0, 1, 0]);
        assert_eq!(pages(&units(text), "key=2"), [0, 1, 0], "without a mark");
        assert_eq!(pages(&units("\u{feff}12\n13\n"), ""), [12, 13]);
        let long: String = (0..50_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(pages(&units(&format!("\u{feff}{long}")), "").len(), 50_000);
    }
    for text in ["1,a\r2,b\r3,a\r", "1,a\r2,b\r3,a", "1,a\r\n2,b\r\n3,a\r\n"] {
        assert_eq!(pages(text.as_bytes(), "key=2"), [0, 1, 0], "{text:?}");
    }
    assert_eq!(pages(b"7\r8\r", ""), [7, 8]);
    for (log, columns, reason) in [
        (&b"a,1\nb\0,2\n"[..], "key=1", "NUL bytes"),
        (b"1\n\0\0\0\0\n", "", "binary data"),
        // Behind what tells the formats apart.
        (&[&b"1\n".repeat(1000)[..], b"\0\0\n"].concat()[..], "", "NUL bytes"),
        (b"1,a\n2,b\rc\n", "key=2", "carriage return"),
        (b"a,1\n\xff,2\n", "key=1", "not UTF-8"),
        (b"{\"k\":\"\xff\"}\n", "key=k", "not UTF-8"),
        (b"\xff\xfe\0\0a\0\0\0", "key=1", "UTF-32"),
        (b"[{\"k\":1},\n{\"k\":2}]\n", "key=k", "a JSON array"),
        (b"# by line\n[\n  {\"k\":1}\n]\n", "key=k", "a JSON array"),
    ] {
        let error = refused(log, columns);
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

/// Excel begins a file with what separates its columns.
#[test]
fn a_first_line_may_say_what_separates_columns() {
    for (log, columns) in [
        ("sep=;\na;5\nb,c;7\na;5\n", "key=1,size=2"),
        ("\u{feff}SEP=,\r\na,5\r\nb,7\r\na,5\r\n", "key=1,size=2"),
        ("sep=^\nkey^size\na^5\nb^7\na^5\n", "key=key,size=size"),
        ("sep=\t\nkey\tsize\na\t5\nb\t7\na\t5\n", "key=key,size=size"),
    ] {
        assert_eq!(pages(log.as_bytes(), columns), [0, 1 << 20, 0], "{log:?}");
        let look = sweephand_trace::Look::at(log.as_bytes(), &ImportOptions::default()).unwrap();
        let preview = look.preview.unwrap();
        assert_eq!((preview.columns.len(), preview.guess().is_some()), (2, true), "{log:?}");
    }
    // Elsewhere it is a row.
    assert_eq!(pages(b"a,5\nsep=,\n", "key=1"), [0, 1]);
    assert!(refused(&[0xff, 0xfe, b'a', 0, b'\n', 0, b'b'], "key=1").contains("begins like UTF-16"));
}

#[test]
fn text_in_utf16_is_shown_as_it_is_read() {
    let csv = "key,size\na,5\nb,7\na,5\n";
    let json = "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"a\"}\n";
    for (text, guess) in [(csv, Some("key=1,size=2")), (json, Some("key=key")), ("1\n2\n1\n", None)] {
        let marked = format!("\u{feff}{text}");
        let little: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [little, big, marked.replace('\n', "\r").into_bytes()] {
            let look = sweephand_trace::Look::at(&bytes[..], &ImportOptions::default()).unwrap();
            assert_eq!(look.preview.and_then(|preview| preview.guess()).as_deref(), guess, "{text}");
            assert_eq!(look.references.len(), 3, "{text}");
        }
    }
}

#[test]
fn the_shape_of_rows_chooses_the_separator_and_is_told() {
    for (log, columns, expected) in [
        ("a,b\t100\na,c\t100\n", "key=1", vec![0, 1]),
        ("a;1,5\na;2,5\nb;1,5\n", "key=1", vec![0, 0, 1]),
        ("http://h/a\nhttp://h/a,b\nhttp://h/a\n", "key=1", vec![0, 1, 0]),
        ("1\t\"foo\t10\n2\tbar\t20\n3\tbaz\" x\t30\n", "key=2", vec![0, 1, 2]),
        ("1.5 [0 ::1:6] \"GET\" \"user 1\"\n1.6 [0 ::1:6] \"GET\" \"user 2\"\n", "key=4", vec![0, 1]),
        // Counted with the brackets as two columns.
        ("1.5 [0 ::1:6] \"GET\" \"user 1\"\n1.6 [0 ::1:6] \"GET\" \"user 2\"\n", "key=5", vec![0, 1]),
    ] {
        assert_eq!(pages(log.as_bytes(), columns), expected, "{log:?}");
    }
    let url = "http://h/a,1\nhttp://h/a,2\n";
    assert!(notes(url.as_bytes(), "key=1").contains("rows have 2 columns, split at ',' (--separator"));
    let ragged = "1,a,x\n2,b\n3,c,d,e\n";
    assert!(notes(ragged.as_bytes(), "key=2").contains("rows have 2 to 4 columns, split at ','"));
    for (log, quote) in [("a\n\"b\nc\nd\n", None), ("'a\nb\n", Some(Quote::Mark(b'\'')))] {
        let mut columns: Columns = "key=1".parse().unwrap();
        (columns.quote, columns.separator) = (quote, Some(b','));
        let error = read(log.as_bytes(), &ImportOptions { columns: Some(columns.clone()), ..options("") });
        assert!(error.unwrap_err().contains("a quote that is not closed"), "{log:?}");
        columns.quote = Some(Quote::Off);
        assert!(
            read(log.as_bytes(), &ImportOptions { columns: Some(columns), ..options("") }).is_ok(),
            "{log:?}, {quote:?}"
        );
    }
    let mut single: Columns = "key=1".parse().unwrap();
    (single.quote, single.separator) = (Some(Quote::Mark(b'\'')), Some(b'\t'));
    let quoted = ImportOptions { columns: Some(single), ..options("") };
    assert_eq!(read(b"'a\tb'\t1\n'a\tc'\t1\n", &quoted).unwrap().0, [0, 1]);
    // A row is as long as it is.
    let long = format!("{{\"k\":\"a\",\"body\":\"{}\"}}\n{{\"k\":\"b\"}}\n", "x".repeat(3_000_000));
    assert_eq!(pages(long.as_bytes(), "key=k"), [0, 1]);
}

#[test]
fn odd_rows_are_skipped_and_counted_if_that_is_asked_for() {
    let skip = |share| ImportOptions { bad_rows: BadRows::Skip(share), ..ImportOptions::default() };
    let with =
        |columns: &str, share| ImportOptions { columns: Some(columns.parse().unwrap()), ..skip(share) };
    let mut rows: Vec<String> = (0..400).map(|n| format!("{},{}", n % 7, 10 + n)).collect();
    rows[100] = "7,x".into();
    rows[200] = "8".into();
    let csv = rows.join("\n");
    let (pages, header) = read(csv.as_bytes(), &with("key=1,size=2", 0.01)).unwrap();
    assert_eq!(pages.len(), 398);
    let notes = header.metadata.notes.join("; ");
    assert!(notes.contains("2 of 400 rows skipped:; skipped: line 101 (byte"), "{notes}");
    assert!(notes.contains("skipped: line 201") && notes.contains("398 requests for 7 objects"), "{notes}");
    let error = read(csv.as_bytes(), &with("key=1,size=2", 0.001)).unwrap_err();
    assert!(
        error.contains("2 of 400 rows cannot be read, more than 0.1%") && error.contains("line 101"),
        "{error}"
    );
    assert!(read(csv.as_bytes(), &with("key=1,size=2", 0.0)).is_err());
    for (log, options) in [
        (&b"1\nx\n2\n"[..], skip(0.5)),
        (b"{\"k\":1}\n{\"k\":\n{\"k\":2}\n", with("key=k", 0.5)),
        (b"128166372003061629,hm,0,Read,0,1,1\nhm,0\n128166372003061630,hm,0,Read,4096,1,1\n", skip(0.5)),
        (b"\x01\0\x02\x01\x05\0", with("record=2,key=u8@0,op=u8@1:read=0:write=9", 0.5)),
    ] {
        assert_eq!(read(log, &options).unwrap().0.len(), 2, "{log:?}");
    }
}

#[test]
fn a_request_without_a_size_has_none() {
    let big = 1 << 20;
    for (log, columns, expected) in [
        ("a,100\nb,-\nc,\na,4097\n", "key=1,size=2", vec![0, big, 2 * big, 0, 1]),
        (
            "1 REST.PUT.OBJECT a 5000\n2 REST.DELETE.OBJECT a\n3 REST.GET.OBJECT b 10 0 9\n",
            "time=1,op=2,key=3,size=4",
            vec![0, 1, big],
        ),
        ("{\"k\":1,\"s\":5000}\n{\"k\":2,\"s\":null}\n{\"k\":3}\n", "key=k,size=s", vec![0, 1, big, 2 * big]),
    ] {
        assert_eq!(pages(log.as_bytes(), columns), expected, "{log:?}");
    }
    assert!(notes(b"a,1\nb,-\n", "key=1,size=2").contains("1 row without a size"));
    assert!(refused(b"a,-\nb,\n", "key=1,size=2").contains("no row has a number of bytes"));
    assert!(refused(b"a,1\nb\n", "key=1,size=2").contains("fewer columns"));
}

#[test]
fn what_words_mean_can_be_said_and_case_does_not_matter() {
    let written = |log: &str, columns: &str| {
        let (_, header) = read(log.as_bytes(), &options(columns)).unwrap();
        (header.totals.written_pages, header.totals.unmaps)
    };
    assert_eq!(written("a,Set\nb,SET\n", "key=1,op=2:set"), (2, 0));
    assert_eq!(
        written("a,fetch2\nb,STASH\na,Zap\n", "key=1,op=2:read=FETCH2:write=stash:delete=zap"),
        (1, 1)
    );
    assert_eq!(written("a,get\nb,put\na,zap\n", "key=1,op=2:delete=zap"), (1, 1), "others mean the usual");
    assert_eq!(written("a,PutObject\nb,put\nc,getput\nd,pu\n", "key=1,op=2:put*"), (2, 0));
    // CacheLib's own samples of 2023 have these words in place of numbers.
    let header =
        "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count\n";
    let ops = ["putChunk.NotInitialized", "getChunkData.Permanent", "putChunk.Permanent", "4", "1"];
    let blocks: String =
        ops.iter().enumerate().map(|(n, op)| format!("1702511878,b{n},40,4096,0,1,2,{op},1\n")).collect();
    assert_eq!(written(&(header.to_owned() + &blocks), ""), (3, 0));
    assert!(refused(b"a,get\nb,fly\n", "key=1,op=2:read=get:write=put").contains("line 2"));
    assert!(notes(b"a,get\nb,get\n", "key=1,op=2:SET|ADD").contains("nothing writes: no op is SET or ADD"));
}

#[test]
fn large_objects_many_disks_and_high_addresses_are_read() {
    let mut whole = options("key=1,size=2");
    whole.columns.as_mut().unwrap().whole_objects = true;
    let (pages_of_objects, header) = read(b"a,100\nb,45126777839\na,100\n", &whole).unwrap();
    assert_eq!((pages_of_objects.len(), header.totals.distinct_pages), (3, 2));
    // In pages, an object beyond 4 GiB goes on elsewhere.
    let places = "a,4294967295,2\nb,0,1\na,4294967296,1\n";
    assert_eq!(pages(places.as_bytes(), "key=1,offset=2,size=3"), [(1 << 20) - 1, 1 << 20, 2 << 20, 1 << 20]);
    assert!(notes(places.as_bytes(), "key=1,offset=2,size=3").contains("3 requests for 2 objects"));
    let disks: String = (0..5584).map(|disk| format!("{disk},8,8,0,{disk}\n")).collect();
    let (references, header) = read(disks.as_bytes(), &options("offset=2*512,size=3*512,tenant=5")).unwrap();
    assert_eq!((references.len(), header.totals.distinct_pages), (5584, 5584));
    let by_page = header.metadata.tenants.unwrap().by_page();
    assert!(references.iter().enumerate().all(|(disk, page)| by_page.of(*page) == Some(disk as u32)));
    assert_eq!(
        pages(b"0x7f1c2d3e4010\n0xffff9a3b4c5d6e70\n", "offset=1"),
        [0x7_f1c2_d3e4, 0xf_fff9_a3b4_c5d6]
    );
    let (references, header) =
        read(b"1,0x1000\n1,0xffff9a3b4c5d6000\n2,0x1000\n", &options("tenant=1,offset=2")).unwrap();
    let by_page = header.metadata.tenants.unwrap().by_page();
    let tenants: Vec<_> = references.iter().map(|page| by_page.of(*page).unwrap()).collect();
    assert_eq!((header.totals.distinct_pages, tenants), (3, vec![0, 0, 1]));
}

#[test]
fn named_formats_are_read_as_their_tools_write_them() {
    let event = "  8,0    0        2     0.000000000   697  Q  WS 800 + 8 [x]\n";
    let input = "Input file sda.blktrace.0 added\n";
    let summary = "CPU0 (8,0):\n Reads Queued:           3,       12KiB\n\nThroughput (R/W): 1KiB/s\n";
    let actions = ["wait", "sync", "datasync", "sync_file_range", "syncfs"];
    let actions: String = actions.iter().map(|action| format!("2 /f {action} 0 4096\n")).collect();
    for (log, expected) in [
        (format!("{input}{event}"), vec![100]),
        (format!("{event}{input}{event}"), vec![100, 100]),
        (format!("{event}{summary}{input}{event}{summary}"), vec![100, 100]),
        (format!("fio version 3 iolog\n1 /f write 0 4096\n{actions}"), vec![0]),
        ("I 0400d7d4,8\n L 04f6b868,8\n".into(), vec![0x400d, 0x4f6b]),
        (" S 04f6b868,8\n".into(), vec![0x4f6b]),
        ("1.28166E+17,hm,0,Read,8192,4096,331\n".into(), vec![2]),
        ("128166372003061629,hm,0,Read,8192,4096,331.5\n".into(), vec![2]),
        ("128166372003061629,hm,0,READ,8192,4096\n".into(), vec![2]),
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,h,0,Read,0,1,1\n".repeat(2),
            vec![0, 0],
        ),
        ("Timestamp,Response,IOType,LUN,Offset,Size\n1,0.1,R,0,8192,4096\n".repeat(2), vec![2, 2]),
        ("key,op,size,op_count,key_size\nk,GET,82,1,40\n".into(), vec![0]),
        ("op_time,key,key_size,op,op_count,size\n1,a,4,GET,2,10\n".into(), vec![0, 0]),
        (
            "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
             604038471,82131353f9ddc8c6,48,GET,1,87,1,0,366387042,3003229276\n"
                .into(),
            vec![0],
        ),
        (
            "timestamp,cacheKey,OpType,objectSize,responseSize,responseHeaderSize,rangeStart,rangeEnd,TTL\n\
             1679000000,77,1,4097,10,10,-1,-1,3600\n"
                .into(),
            vec![0, 1],
        ),
        (
            "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count\n\
             1,b,8,4096,8192,u,n,1,1\n2,b,8,1,0,u,n,4,1\n"
                .into(),
            vec![2, 0],
        ),
    ] {
        assert_eq!(pages(log.as_bytes(), ""), expected, "{log:?}");
    }
    assert!(refused(b"fio version 4 iolog\n1 /f read 0 1\n", "").contains("neither version 2 nor"));
}
