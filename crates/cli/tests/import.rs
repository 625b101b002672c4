//! `sweephand import`: which options go together, what is shown of an input, whole objects, and
//! what is said of inputs that are not read.

mod sandbox;

use sandbox::{Sandbox, text};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a line of bash in the sandbox, with the command on its path.
fn bash(sandbox: &Sandbox, line: &str) -> Output {
    let folder = Path::new(env!("CARGO_BIN_EXE_sweephand")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(sandbox.path("")).env("PATH", path);
    command.stdin(Stdio::null()).output().expect("bash")
}

#[test]
fn options_that_have_no_effect_are_refused_by_name() {
    let sandbox = Sandbox::new();
    sandbox.write("page.msr", "128166372003061629,hm,0,Read,0,65536,331\n");
    sandbox.write("a.csv", "k,s\na,1\n");
    sandbox.write("a.json", "{\"k\":\"a\"}\n");
    sandbox.write("a.bin", [7; 24]);
    sandbox.stdout("import page.msr -o t.swt");
    let before = sandbox.files();
    for (arguments, expected) in [
        ("page.msr --format msr --page-size 64KiB", "--page-size needs --columns"),
        ("page.msr --page-size 64KiB", "--page-size needs --columns"),
        ("page.msr --format msr --header", "--header needs --columns"),
        ("page.msr --format msr --separator ;", "--separator needs --columns"),
        ("page.msr --format msr --whole-objects", "--whole-objects needs --columns"),
        ("page.msr --format msr --columns key=1", "--columns does not go with --format"),
        ("t.swt --irim 9 --page-size 64KiB", "--page-size needs --columns"),
        ("t.swt --irim 9 --header", "--header needs --columns"),
        ("t.swt --irim 9 --separator tab", "--separator needs --columns"),
        ("t.swt --irim 9 --whole-objects", "--whole-objects needs --columns"),
        ("page.msr --quote off", "--quote needs --columns"),
        ("t.swt --irim 9 --bad-rows skip", "--irim does not go with --bad-rows"),
        ("t.swt --irim 9 --format pgtr", "--irim does not go with --format"),
        ("t.swt --irim 9 --columns key=1", "--irim does not go with --columns"),
        ("t.swt --irim 9 --window 9", "--irim does not go with --window"),
        (
            "a.csv --columns key=1,size=2 --whole-objects --page-size 64KiB",
            "--whole-objects does not go with --page-size",
        ),
        (
            "a.csv --columns key=1,size=2 --whole-objects --window 9",
            "--whole-objects does not go with --window",
        ),
        ("a.csv --show", "--show does not go with --output"),
        // What is only known when the input is open.
        ("t.swt --format text", "t.swt: it is a trace already: leave --format out"),
        ("t.swt --bad-rows skip", "t.swt: it is a trace already, and has no rows: leave --bad-rows out"),
        (
            "a.bin --format oracle-general --bad-rows skip:5%",
            "a.bin: this format has no rows that can be skipped: leave --bad-rows out",
        ),
        ("a.json --columns key=k --quote off", "a.json: JSON has no quotes to choose: leave --quote out"),
        ("a.json --columns key=k --header", "a.json: JSON has no row of names: leave --header out"),
        ("a.json --columns key=k --separator ;", "a.json: JSON has no separators: leave --separator out"),
        (
            "a.bin --columns record=24,key=u64@0 --header",
            "a.bin: structs have no row of names: leave --header",
        ),
        ("a.bin --columns record=24,key=u64@0 --separator tab", "a.bin: structs have no separators: leave"),
    ] {
        let error = sandbox.error(&format!("import {arguments} -o x.swt"));
        assert!(error.starts_with(expected), "{arguments}: {error}");
        assert_eq!(sandbox.files(), before, "{arguments}");
    }
    let error = sandbox.error("import a.csv --show --window 3");
    assert!(error.starts_with("--show does not go with --window"), "{error}");
    let error = sandbox.error("import a.csv --show --bad-rows skip");
    assert!(error.starts_with("--show does not go with --bad-rows"), "{error}");
}

#[test]
fn rows_that_cannot_be_read_stop_the_import_or_are_skipped() {
    let sandbox = Sandbox::new();
    let log = |bad: &[usize]| -> String {
        let row =
            |number: usize| if bad.contains(&number) { "?".into() } else { format!("{},7", number % 9) };
        (1..=300).map(|number| format!("{number},{}\n", row(number))).collect()
    };
    sandbox.write("two.csv", log(&[100, 200]));
    sandbox.write("five.csv", log(&[100, 101, 102, 103, 300]));
    let columns = "--columns time=1,key=2,size=3";
    for rule in ["", "--bad-rows stop", "--bad-rows skip:0%"] {
        let error = sandbox.error(&format!("import two.csv {columns} {rule} -o x.swt"));
        assert!(error.contains("line 100 (byte "), "{rule:?}: {error}");
    }
    let said = |arguments: &str| {
        let output = sandbox.run(&format!("import {arguments}"));
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let two = said(&format!("two.csv {columns} --bad-rows skip -o two.swt"));
    for expected in
        ["298 references", "2 of 300 rows skipped", "skipped: line 100 (byte ", "skipped: line 200 "]
    {
        assert!(two.contains(expected), "{expected}: {two}");
    }
    let error = sandbox.error(&format!("import five.csv {columns} --bad-rows skip -o x.swt"));
    assert!(
        error.starts_with("five.csv: 5 of 300 rows cannot be read, more than 1% (--bad-rows skip:"),
        "{error}"
    );
    assert!(error.contains("line 102") && !error.contains("line 103"), "{error}");
    assert_eq!(sandbox.files(), ["five.csv", "two.csv", "two.swt"]);
    let five = said(&format!("five.csv {columns} --bad-rows skip:2% -o five.swt"));
    assert!(five.contains("295 references") && five.contains("5 of 300 rows skipped"), "{five}");
    // Each of several inputs by itself, merged or one behind the other.
    for order in ["", "--in-order"] {
        let both = said(&format!("two.csv five.csv {columns} {order} --bad-rows skip:2% -o both.swt"));
        for expected in ["593 references", "two.csv: 2 of 300 rows", "five.csv: 5 of 300 rows"] {
            assert!(both.contains(expected), "{expected}: {both}");
        }
        let error =
            sandbox.error(&format!("import two.csv five.csv {columns} {order} --bad-rows skip -o x.swt"));
        assert!(error.starts_with("five.csv: 5 of 300 rows"), "{order:?}: {error}");
        let error = sandbox.error(&format!("import two.csv five.csv {columns} {order} -o x.swt"));
        assert!(error.starts_with("two.csv: line 100 "), "{order:?}: {error}");
    }
    sandbox.write("a.txt", "1\nx\n2\n");
    sandbox.write("b.txt", "3\ny\n");
    let both = said("a.txt b.txt --in-order --bad-rows skip:40% -o t.swt");
    for expected in
        ["2 of 5 rows skipped", "skipped: a.txt: line 2 (byte 2)", "skipped: b.txt: line 2 (byte 2)"]
    {
        assert!(both.contains(expected), "{expected}: {both}");
    }
}

#[test]
fn a_rule_for_bad_rows_that_is_none_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "1\n2\n");
    for rule in ["skip:101%", "skip:5", "jump", "skip:-1%"] {
        let error = sandbox.run(&format!("import a.txt --bad-rows {rule} -o x.swt"));
        assert_eq!(error.status.code(), Some(2), "{rule}");
        assert!(text(&error.stderr).contains("as in skip:5%"), "{rule}: {}", text(&error.stderr));
    }
}

#[test]
fn quotes_mean_what_is_asked_for() {
    let sandbox = Sandbox::new();
    let pages = |log: &str, options: &str| {
        sandbox.write("q.log", log);
        let output = bash(&sandbox, &format!("sweephand import q.log -o q.swt --columns {options}"));
        if !output.status.success() {
            return Err(text(&output.stderr));
        }
        let info: serde_json::Value =
            serde_json::from_str(&sandbox.stdout("info q.swt --format json")).unwrap();
        Ok(["references", "distinct_pages"].map(|name| info["totals"][name].as_u64().unwrap()))
    };
    for (log, options, expected) in [
        // Between commas they mean something, unless they are switched off.
        ("\"a,b\",1\n\"a,c\",1\n", "key=1", [2, 2]),
        ("\"a,b\",1\n\"a,c\",1\n", "key=1 --separator , --quote off", [2, 1]),
        ("\"a\nb\",1\na,1\n", "key=1", [2, 2]),
        ("5\" disk,1\n3\" disk,1\n5\" disk,2\n", "key=1 --quote off", [3, 2]),
        // Between tabs they mean nothing, unless they are asked for.
        ("\"a\tb\"\tx\n\"a\tc\"\tx\n", "key=1 --separator tab", [2, 1]),
        ("\"a\tb\"\tx\n\"a\tc\"\tx\n", "key=1 --separator tab --quote '\"'", [2, 2]),
        ("\"a;b\";x\n\"a;c\";x\n", "key=1 --separator ';' --quote '\"'", [2, 2]),
        // Others.
        ("'a,b',1\n'a,c',1\n", "key=1 --separator , --quote \"'\"", [2, 2]),
        ("'it''s',1\n\"x,1\n", "key=1 --quote \"'\"", [2, 2]),
        ("x \"a b\" 1\nx \"a c\" 1\n", "key=2", [2, 2]),
        ("x \"a b\" 1\nx \"a c\" 1\n", "key=2 --quote off", [2, 1]),
        ("x 'a b' 1\nx 'a c' 1\n", "key=2 --separator space --quote \"'\"", [2, 2]),
    ] {
        assert_eq!(pages(log, options), Ok(expected), "{log:?} {options}");
    }
    let error = pages("a,1\n\"b,1\nc,1\n", "key=1").unwrap_err();
    assert!(error.contains("q.log: line 2 (byte 4): a quote that is not closed (--quote off"), "{error}");
    for quote in ["x", "on", "''", "'\"\"'"] {
        let error = pages("a,1\n", &format!("key=1 --quote {quote}")).unwrap_err();
        assert!(error.contains("off, \" or '"), "{quote}: {error}");
    }
}

#[test]
fn a_link_in_a_directory_is_no_further_file() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("logs")).unwrap();
    sandbox.write("logs/a.csv", "1,a\n3,b\n");
    sandbox.write("logs/z.csv", "2,c\n");
    sandbox.write("other.csv", "4,d\n");
    let link =
        |to: &str, name: &str| std::os::unix::fs::symlink(to, sandbox.path("logs").join(name)).unwrap();
    link("z.csv", "latest.csv");
    link("../other.csv", "other.csv");
    let output = sandbox.run("import logs --columns time=1,key=2 -o t.swt");
    let said = text(&output.stderr);
    assert!(said.contains("4 references to 4 pages"), "{said}");
    assert!(said.contains("3 inputs, merged by time: logs/a.csv, logs/other.csv, logs/z.csv"), "{said}");
    let error = sandbox.error("import logs logs/a.csv --columns time=1,key=2 -o t.swt");
    assert_eq!(error, "logs/a.csv: is named twice");
    link("nowhere", "gone.csv");
    let error = sandbox.error("import logs --columns time=1,key=2 -o t.swt");
    assert!(error.starts_with("logs/gone.csv: No such file"), "{error}");
}

#[test]
fn an_error_in_a_file_of_an_archive_among_several_inputs_names_it() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "1,a\n");
    sandbox.write("x.csv", "1,a\n");
    sandbox.write("y.csv", "2,b\nz,c\n");
    assert!(bash(&sandbox, "tar cf xy.tar x.csv y.csv").status.success());
    for order in ["", "--in-order"] {
        let error = sandbox.error(&format!("import a.csv xy.tar --columns time=1,key=2 {order} -o t.swt"));
        assert!(error.starts_with("xy.tar (y.csv): line 2 (byte 4): "), "{order:?}: {error}");
    }
    let output =
        bash(&sandbox, "TMPDIR=/nosuch sweephand import a.csv x.csv --columns time=1,key=2 -o t.swt");
    let said = text(&output.stderr);
    assert!(said.contains("cannot be copied to /nosuch: ") && said.contains("TMPDIR names"), "{said}");
}

#[test]
fn a_trace_of_whole_objects_says_so_and_its_pages_are_not_counted() {
    let sandbox = Sandbox::new();
    sandbox.write("log.csv", "x,a,50000000\ny,b,50000000\n".repeat(5));
    sandbox.stdout("import log.csv --columns tenant=1,key=2,size=3 --whole-objects -o w.swt");
    sandbox.write("log.json", "{\"k\":\"a\",\"s\":70}\n{\"k\":\"b\",\"s\":9}\n");
    sandbox.stdout("import log.json --columns key=k,size=s --whole-objects -o json.swt");
    // A copy is still one.
    sandbox.stdout("import w.swt -o copy.swt");
    sandbox.write("plan.toml", "traces = ['w.swt']\npolicies = ['lru']\nmemory = ['50%']\n");
    sandbox.write("machine.toml", "name = 'm'\nframes = 20\n[tasks]\nprograms = ['w.swt']\ncount = 2\n");
    let info: serde_json::Value = serde_json::from_str(&sandbox.stdout("info w.swt --format json")).unwrap();
    assert_eq!(info["metadata"]["whole_objects"], true);
    let info = sandbox.stdout("info copy.swt");
    assert!(info.contains("none: whole objects, for simulate --whole-objects"), "{info}");
    let before = sandbox.files();
    for command in [
        "simulate w.swt --policy lru --memory 64KiB",
        "simulate w.swt --policy all --memory 50% --format csv",
        "simulate w.swt --policy lru --memory 4p --sample 50%",
        "simulate json.swt",
        "simulate copy.swt",
        "advise w.swt",
        "report w.swt -o r.html",
        "plot faults w.swt -o p.svg",
        "plot distances w.swt -o p.svg",
        "partition w.swt --memory 64MiB",
        "multiprogram machine.toml",
        "import w.swt --irim 100 -o x.irim",
    ] {
        let error = sandbox.error(command);
        assert!(
            error.contains("is of whole objects: `sweephand simulate --whole-objects`"),
            "{command}: {error}"
        );
        assert_eq!(sandbox.files(), before, "{command}");
    }
    let error = sandbox.error("sweep plan.toml -o out");
    assert!(error.contains("w.swt: is of whole objects"), "{error}");
    sandbox.stdout("simulate copy.swt --whole-objects --memory 64MiB");
    // Pages of the same log are counted.
    sandbox.stdout("import log.csv --columns tenant=1,key=2,size=3 -o pages.swt");
    sandbox.stdout("partition pages.swt --memory 64MiB");
}

/// Each request for a whole object counts.
#[test]
fn a_window_leaves_out_no_request_for_a_whole_object() {
    let sandbox = Sandbox::new();
    sandbox.write("log.csv", "x,a,50000000\ny,b,50000000\n".repeat(5));
    sandbox.stdout("import log.csv --columns tenant=1,key=2,size=3 --whole-objects -o w.swt");
    sandbox.stdout("import w.swt -o copy.swt");
    let counts = |trace: &str| {
        let options = "--whole-objects --memory 40MiB,1GiB --policy lru,sieve --format csv";
        sandbox.stdout(&format!("simulate {trace} {options}")).replace(trace, "")
    };
    for (trace, window, output) in
        [("w.swt", 1, "one.swt"), ("copy.swt", 100, "two.swt"), ("one.swt", 5, "small.swt")]
    {
        let reduced = sandbox.run(&format!("import {trace} --window {window} -o {output}"));
        assert!(text(&reduced.stderr).contains("requests for whole objects are all kept"), "{trace}");
        assert_eq!(counts(output), counts("w.swt"), "{trace}");
    }
    assert!(counts("small.swt").contains(",10,2,"), "{}", counts("small.swt"));
    let info: serde_json::Value =
        serde_json::from_str(&sandbox.stdout("info small.swt --format json")).unwrap();
    let notes = info["metadata"]["notes"].as_array().unwrap();
    assert_eq!(notes.iter().filter(|note| note.as_str().unwrap().contains("all kept")).count(), 1);
}

#[test]
fn a_column_is_the_one_that_its_name_equals() {
    let sandbox = Sandbox::new();
    let pages = |log: &str, columns: &str| {
        sandbox.write("a.csv", log);
        let mut command = sandbox.command("import a.csv -o a.swt --columns");
        let output = command.arg(columns).output().expect("sweephand");
        match output.status.success() {
            true => {
                let info: serde_json::Value =
                    serde_json::from_str(&sandbox.stdout("info a.swt --format json")).unwrap();
                Ok(info["totals"]["distinct_pages"].as_u64().unwrap())
            }
            false => Err(text(&output.stderr)),
        }
    };
    assert_eq!(pages("Key,key\na,x\nb,x\n", "key=key"), Ok(1));
    assert_eq!(pages("KEY,Key\na,x\nb,x\n", "key=Key"), Ok(1));
    assert_eq!(pages("KEY,x\na,x\nb,x\n", "key=key"), Ok(2));
    assert_eq!(pages("user,user#id\na,1\na,2\n", "key=user#id"), Ok(2));
    assert_eq!(pages("a,\"x,y\"\na,1\na,2\n", "key=\"x,y\""), Ok(2));
    for (log, columns) in [
        ("key,size,size\na,100,9000\n", "key=key,size=size"),
        ("key,Size,SIZE\na,100,9000\n", "key=key,size=size"),
        ("key,key\na,b\n", "key=key"),
    ] {
        let error = pages(log, columns).unwrap_err();
        assert!(error.contains("is there several times, as columns "), "{log:?}, {columns}: {error}");
        assert!(error.contains("give the number of one"), "{log:?}, {columns}: {error}");
    }
}

#[test]
fn a_column_of_json_is_the_one_that_its_name_equals() {
    let sandbox = Sandbox::new();
    let json = |log: &str| {
        sandbox.write("a.json", log);
        let output = sandbox.run("import a.json -o a.swt --columns key=url.path");
        text(&output.stderr).lines().next().unwrap().to_owned()
    };
    for (log, expected) in [
        ("{\"url.path\":\"/a\"}\n{\"url.path\":\"/b\"}\n", "2 references to 2 pages"),
        ("{\"url\":{\"path\":\"/a\"}}\n{\"url\":{\"path\":\"/b\"}}\n", "2 references to 2 pages"),
        (
            "{\"url\":{\"path\":\"/a\"},\"url.path\":\"/c\"}\n{\"url.path\":\"/c\"}\n",
            "2 references to 1 pages",
        ),
        ("{\"url\":5,\"url.path\":\"/c\"}\n", "1 references to 1 pages"),
        (
            "{\"url.path\":\"/a\",\"url.path\":\"/b\"}\n",
            "a.json: line 1 (byte 0): a name that is there twice",
        ),
        ("{\"url\":{\"path\":1,\"path\":2}}\n", "a.json: line 1 (byte 0): a name that is there twice"),
    ] {
        assert!(json(log).contains(expected), "{log}: {}", json(log));
    }
}

/// Inputs of every kind, under names that a shell would take apart.
fn inputs() -> Vec<(&'static OsStr, Vec<u8>)> {
    let text: [(&str, &str); 15] = [
        ("pages.txt", "1\n2\n1\n"),
        ("disk.msr", "128166372003061629,hm,0,Read,0,65536,331\n"),
        ("my log.csv", "time,lba,size,op\n1,8,4096,R\n2,16,4096,W\n3,8,4096,R\n"),
        ("it's.csv", "key,offset,size\na,0,4096\nb,0,4096\na,0,4096\n"),
        ("$HOME.csv", "key;size\na;1\nb;2\na;1\n"),
        ("-o", "client,url\na,/x\nb,/x\na,/x\n"),
        ("a&b;c.json", "{\"object id\":\"a\"}\n{\"object id\":\"b\"}\n"),
        ("dots.json", "{\"url.path\":\"/a\"}\n{\"url.path\":\"/b\"}\n"),
        ("comma.json", "{\"a,b\":\"x\"}\n{\"a,b\":\"it's\"}\n"),
        ("number.json", "{\"1\":\"x\"}\n{\"1\":\"y\"}\n"),
        ("hash.json", "{\"user#id\":\"x\",\"a=b\":1}\n"),
        ("tab\tnewline\n.csv", "key,size\na,1\n"),
        ("T.swt", "key,size\na,1\n"),
        ("big.csv", "key,size\na,10\nb,451267778390\n"),
        ("excel.csv", "sep=;\nkey;size\na;1\nb;2\n"),
    ];
    let mut all: Vec<_> =
        text.iter().map(|(name, text)| (OsStr::new(*name), text.as_bytes().to_vec())).collect();
    all.push((OsStr::from_bytes(b"latin\xe9.csv"), b"key,size\na,1\nb,1\n".to_vec()));
    let wide = "\u{feff}key,size\r\na,1\r\nb,1\r\n".encode_utf16().flat_map(u16::to_le_bytes);
    all.push((OsStr::new("wide.csv"), wide.collect()));
    all.push((
        OsStr::new("long.json"),
        format!("{{\"k\":\"a\",\"b\":\"{}\"}}\n", "x".repeat(300_000)).into(),
    ));
    all
}

#[test]
fn every_command_that_is_shown_imports() {
    for (name, contents) in inputs() {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path("").join(name), contents).unwrap();
        let mut command = sandbox.command("import --show");
        // A name with a dash is one for every program.
        let given = if name == "-o" { OsStr::new("./-o") } else { name };
        let output = command.arg(given).output().expect("sweephand");
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{name:?}: {}", text(&output.stderr));
        let line = shown
            .lines()
            .find_map(|line| line.strip_prefix("a guess: ").or(line.strip_prefix("to import it: ")));
        let line = line.unwrap_or_else(|| panic!("{name:?}: {shown}"));
        assert!(line.starts_with("sweephand import "), "{name:?}: {line}");
        let output = bash(&sandbox, line);
        assert!(output.status.success(), "{name:?}: {line}: {}", text(&output.stderr));
        let trace = if name == "T.swt" { "T2.swt" } else { "T.swt" };
        assert!(sandbox.path(trace).exists(), "{name:?}: {line}");
    }
}

#[test]
fn what_is_shown_is_not_proved_wrong_by_the_file() {
    let sandbox = Sandbox::new();
    for (log, expected) in [
        ("time,lba,size,op\n1,8,4096,R\n2,16,4096,W\n3,8,4096,R\n", "offset=2*512,size=3,op=4,time=1"),
        ("key,offset,size\na,0,4096\nb,0,4096\na,0,4096\n", "key=1,offset=2,size=3"),
        ("#Version: 1.0\n#Fields: date cs-uri sc-bytes\n2014\t/a\t563\n2014\t/b\t563\n", "between tabs"),
        ("Timestamp,key,size\n1,a,7\n2,b,8\n", "columns between commas"),
        // A log with a name says where its columns are, those that only some files have, too.
        ("op_time,key,op,size,op_count\n1,a,GET,10,5\n", "key=2,op=3,size=4,count=5,time=1"),
        ("ttl,op_count,size,op,key\n7,1,10,GET,a\n", "key=5,op=4,size=3,count=2,ttl=1"),
        ("Timestamp,Response,IOType,LUN,Offset,Size\n1,0.1,R,0,8192,4096\n", "time=1,op=3,tenant=4,offset=5"),
        // What the reader refuses is not guessed, and said.
        ("key,size\na,10\nb,451267778390\n", "not all columns can be read: line 3"),
        ("lba,x\n9999999999999999999,1\n5,2\n", "key=1"),
    ] {
        sandbox.write("a.csv", log);
        let shown = sandbox.stdout("import a.csv --show");
        assert!(shown.contains(expected), "{log}: {shown}");
    }
}

#[test]
fn json_that_is_not_an_object_a_line_is_named() {
    let sandbox = Sandbox::new();
    for (json, what, filter) in [
        ("[{\"k\":\"a\"},{\"k\":\"b\"}]\n", "a JSON array", "jq -c '.[]' a.json"),
        ("\n[ \n{\"k\":\"a\"}\n]\n", "a JSON array", "jq -c '.[]' a.json"),
        ("[[1,2],[3,4]]\n", "a JSON array of arrays", "jq -r '.[] | @csv' a.json"),
        ("{\n  \"k\": \"a\"\n}\n", "JSON with objects of several lines", "jq -c . a.json"),
    ] {
        sandbox.write("a.json", json);
        for arguments in ["--show", "--columns key=k -o a.swt", "-o a.swt"] {
            let error = sandbox.error(&format!("import a.json {arguments}"));
            assert!(
                error.starts_with(&format!("a.json: is {what}, which is not read")),
                "{arguments}: {json}: {error}"
            );
            assert!(error.contains(&format!("`{filter} | sweephand import -`")), "{arguments}: {error}");
        }
    }
    sandbox.write("b.json", b"{\"k\":\"\xff\"}\n");
    let error = sandbox.error("import b.json --columns key=k -o b.swt");
    assert!(error.starts_with("b.json: line 1 (byte 0): not UTF-8"), "{error}");
    let shown = sandbox.stdout("import b.json --show");
    assert!(shown.contains("JSON lines") && shown.contains("not UTF-8"), "{shown}");
}

#[test]
fn what_a_file_holds_never_reaches_the_terminal_raw() {
    let sandbox = Sandbox::new();
    let evil = "\u{1b}[31mred\u{7}\u{202e}";
    sandbox.write("names.csv", format!("{evil},size\na,1\nb,x\n"));
    sandbox.write("a.json", format!("{{\"k{}\":\"{}\"}}\n", "\\u001b[2J", "\\u001b[2J"));
    sandbox.write("tenants.csv", format!("{evil},a\ny,b\n"));
    sandbox.stdout("import tenants.csv --columns tenant=1,key=2 -o tenants.swt");
    for command in [
        "import names.csv --columns key=id -o x.swt",
        "import names.csv --columns key=1,size=2 --header -o x.swt",
        "import names.csv --show",
        "import a.json --show",
        "import tenants.csv --show",
        "partition tenants.swt --memory 1p",
        "info tenants.swt",
    ] {
        let output = sandbox.run(command);
        let all = text(&output.stdout) + &text(&output.stderr);
        let raw = all.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
        assert_eq!(raw, None, "{command}: {all:?}");
    }
}

#[test]
fn import_without_memory_fails_in_one_line() {
    let sandbox = Sandbox::new();
    // Twenty objects, each of a million pages.
    sandbox.write("large.csv", (0..20).map(|key| format!("{key},4294967295\n")).collect::<String>());
    // A frame of zstd with a window of 1 GiB, and two lines in it.
    let long = [&b"\x28\xb5\x2f\xfd\x00\xa0"[..], &[0x21, 0, 0], b"1\n2\n"].concat();
    sandbox.write("long.zst", long);
    assert!(bash(&sandbox, "sweephand import long.zst -o long.swt").status.success());
    for (line, expected) in [
        ("ulimit -v 300000; sweephand import large.csv --columns key=1,size=2 -o x.swt", "out of memory: "),
        ("ulimit -v 600000; sweephand import long.zst -o x.swt", "long.zst: out of memory"),
    ] {
        let output = bash(&sandbox, line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.starts_with("sweephand: ") && said.contains(expected), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
        assert!(!sandbox.path("x.swt").exists(), "{line}");
    }
}

#[test]
fn a_folder_for_temporary_files_that_is_not_there_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "1\n2\n");
    let output = bash(&sandbox, "TMPDIR=/nosuch sweephand simulate a.txt -m 1p");
    let said = text(&output.stderr);
    assert!(said.starts_with("sweephand: /nosuch: cannot hold a temporary file (TMPDIR"), "{said}");
}
