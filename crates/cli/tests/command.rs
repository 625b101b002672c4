//! The `sweephand` command as other programs see it: columns, messages, exit status, files left
//! behind.

mod sandbox;
mod schema;

use sandbox::{Sandbox, spawn, text};
use schema::keeps_to;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use sweephand_checks::{Need, has_program, read_text, skip};
use sweephand_trace::generate::NamedPattern;

/// The example string of Belady's anomaly, with a marker line and spaces as found in the wild.
const E1: &str = "1\n2\n3\n4\n*\n1\n2\n5\n1\n2\n3\n4\n5\n";

#[test]
fn csv_has_the_columns_that_other_tools_read() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1);
    assert_eq!(
        sandbox.stdout("simulate e1.txt --policy fifo,opt,clock:init=1 --memory 3p,60%,4p --format csv"),
        "trace,policy,memory_pages,references,distinct_pages,faults,first_touch_faults,warmup_faults,evictions,hit_ratio,\
         faults_per_million_instructions,hand_steps\n\
         e1.txt,fifo,3,12,5,9,5,3,6,0.250000,,0\n\
         e1.txt,fifo,4,12,5,10,5,4,6,0.166667,,0\n\
         e1.txt,opt,3,12,5,7,5,3,4,0.416667,,0\n\
         e1.txt,opt,4,12,5,6,5,4,2,0.500000,,0\n\
         e1.txt,clock:init=1,3,12,5,9,5,3,6,0.250000,,15\n\
         e1.txt,clock:init=1,4,12,5,10,5,4,6,0.166667,,14\n"
    );
}

/// What is counted behind a warm-up, beside an LRU that is written out here.
#[test]
fn a_warm_up_is_not_counted() {
    let sandbox = Sandbox::new();
    let mut random = 7u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let pages: Vec<u64> = (0..5_000).map(|_| next() % (2 << (next() % 8))).collect();
    sandbox.write("pages.txt", pages.iter().map(|page| format!("{page}\n")).collect::<String>());
    for (frames, warmup, behind) in [(3, "0", 0), (50, "20%", 1_000), (50, "4999", 4_999), (200, "13", 13)] {
        let (mut memory, mut touched): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let [mut faults, mut first, mut free, mut evictions] = [0; 4];
        for (number, page) in pages.iter().enumerate() {
            let counted = u64::from(number >= behind);
            if let Some(place) = memory.iter().position(|other| other == page) {
                memory.remove(place);
            } else {
                faults += counted;
                if !touched.contains(page) {
                    touched.push(*page);
                    first += counted;
                }
                if memory.len() == frames {
                    memory.pop();
                    evictions += counted;
                } else {
                    free += counted;
                }
            }
            memory.insert(0, *page);
        }
        let references = 5_000 - behind;
        let ratio = 1.0 - faults as f64 / references as f64;
        let distinct = touched.len();
        let expected = format!(
            "pages.txt,lru,{frames},{references},{distinct},{faults},{first},{free},{evictions},{ratio:.6},,0"
        );
        // One size, and several in one pass.
        for memory in [format!("{frames}p"), format!("{frames}p,7p,8p,9p")] {
            let csv = sandbox
                .stdout(&format!("simulate pages.txt -p lru -m {memory} --warmup {warmup} --format csv"));
            assert_eq!(csv.lines().nth(1).unwrap(), expected, "{warmup} {memory}");
        }
    }
    let table = sandbox.stdout("simulate pages.txt -p lru -m 50p --warmup 20%");
    assert!(table.contains("\ncounted from reference 1,001 on; those before it fill memory\n"), "{table}");
}

#[test]
fn a_warm_up_that_leaves_nothing_to_count_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("pages.txt", (0..5_000).map(|time| format!("{}\n", time % 100)).collect::<String>());
    for (options, words) in [
        ("--warmup 5000", "pages.txt: a warm-up of 5000 leaves nothing to count: there are 5000 references"),
        ("--warmup 99.999%", "pages.txt: a warm-up of 99.999% leaves nothing to count"),
        ("--warmup 1h", "pages.txt: a warm-up of 3600s: the trace has no times; give references"),
        ("--warmup 100%", "invalid value '100%' for '--warmup <N|TIME|PERCENT>': warm-up '100%': a share"),
        ("--warmup 1 --sample 50%", "the argument '--warmup <N|TIME|PERCENT>' cannot be used with"),
        ("--warmup 1 --device ssd", "the argument '--warmup <N|TIME|PERCENT>' cannot be used with"),
    ] {
        let output = sandbox.run(&format!("simulate pages.txt -p lru -m 50p {options}"));
        let error = text(&output.stderr);
        assert!(error.trim_start_matches("sweephand: ").starts_with(words), "{options}: {error}");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{options}");
    }
}

#[test]
fn a_sample_says_that_it_is_one() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate zipf --pages 20000 --references 100000 --seed 7 -o zipf.swt");
    let csv = sandbox.stdout("simulate zipf.swt -p lru,clock -m 50% --sample 10% --format csv");
    let mut lines = csv.lines();
    let columns = "trace,policy,memory_pages,references,distinct_pages,faults,first_touch_faults,warmup_faults,evictions,hit_ratio,\
                   faults_per_million_instructions,hand_steps,sampled_pages,hit_ratio_error";
    assert_eq!(lines.next().unwrap(), columns);
    let full = sandbox.stdout("simulate zipf.swt -p lru,clock -m 50% --format csv");
    assert_eq!(full.lines().next().unwrap(), columns.strip_suffix(",sampled_pages,hit_ratio_error").unwrap());
    assert_eq!([csv.lines().count(), full.lines().count()], [3; 2], "a header and two policies");
    for (estimate, exact) in lines.zip(full.lines().skip(1)) {
        let (estimate, exact): (Vec<_>, Vec<_>) = (estimate.split(',').collect(), exact.split(',').collect());
        // What the trace says of itself is exact.
        assert_eq!(estimate[..5], exact[..5], "{estimate:?}");
        let number = |text: &str| text.parse::<f64>().unwrap();
        let error = number(estimate[13]);
        assert!(
            error > 0.0 && (number(estimate[9]) - number(exact[9])).abs() < 5.0 * error,
            "{estimate:?} {exact:?}"
        );
        assert_eq!(estimate[12], ((number(exact[4]) / 10.0).round()).to_string(), "{estimate:?}");
    }
    let table = sandbox.stdout("simulate zipf.swt -p lru,clock -m 50% --sample 10%");
    assert!(table.contains("\nan estimate, from 1,"), "{table}");
    assert!(table.contains("\n off by, in points of hit ratio "), "{table}");
    let all = sandbox.stdout("simulate zipf.swt -p lru,clock -m 50% --sample 100% --format csv");
    assert_eq!(all.lines().count(), 3);
    for (all, exact) in all.lines().skip(1).zip(full.lines().skip(1)) {
        assert_eq!(all.strip_prefix(exact).unwrap().rsplit(',').next(), Some("0.000000"), "{all}");
    }
    let sizes = sandbox.stdout("simulate zipf.swt -p lru -m all --sample 10% --format csv");
    assert!((1000..2000).contains(&sizes.lines().count()), "{}", sizes.lines().count());
}

#[test]
fn what_a_sample_cannot_tell_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate zipf --pages 20000 --references 100000 --seed 7 -o zipf.swt");
    for (arguments, message) in [
        ("simulate zipf.swt --sample 1%", "zipf.swt: sample 1%: 1"),
        (
            "simulate zipf.swt --sample 10% -m 20p",
            "zipf.swt: sample 10%: 2 of 20 pages of memory are too few",
        ),
        (
            "simulate zipf.swt --sample 10% -p lru,seq",
            "seq cannot be told from a sample of the pages: it looks for",
        ),
    ] {
        let error = sandbox.error(arguments);
        assert!(error.starts_with(message), "{arguments}: {error}");
    }
    let policy = sandbox.stdout("policies apr");
    assert!(policy.contains("\n    sampled    no: an object's stack"), "{policy}");
}

#[test]
fn json_has_the_same_names_behind_version_options_and_conventions() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1);
    let json = sandbox.stdout("simulate e1.txt -p lru -m 3p --format json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), ["sweephand", "traces", "rows"]);
    assert_eq!(json["sweephand"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["sweephand"]["policy"], "lru");
    assert_eq!(json["traces"][0]["checksum"].as_str().unwrap().len(), 16);
    let row = &json["rows"][0];
    assert_eq!((&row["faults"], &row["hit_ratio"]), (&10.into(), &0.166667.into()));
    assert!(row["faults_per_million_instructions"].is_null());
}

#[test]
fn the_table_is_for_people() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1);
    assert_eq!(
        sandbox.stdout("simulate e1.txt --policy opt,clock-pro --memory 2p,3p"),
        "e1.txt: 12 references to 5 pages (20.0 KiB)\n\
         page faults under each policy, by memory size:\n\n\
         \x20memory              8.0 KiB  12.0 KiB\n\
         \x20  pages                   2         3\n\
         \x20  of the program's      40%       60%\n\
         \x20opt                       9         7\n\
         \x20clock-pro                10         8\n\n\
         5 of the faults in each cell are first touches (of a page, or of one unmapped since): no disk read.\n"
    );
}

/// What only rounds to 100 is not shown as that.
#[test]
fn hit_ratios_have_the_digits_that_they_need() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate loop --pages 5 --references 200000 -o loop.swt");
    let table = sandbox.stdout("simulate loop.swt -p LRU,opt -m 5p --measure hit-ratio");
    assert_eq!(table.matches(" 99.9975\n").count(), 2, "{table}");
    assert!(table.contains("\n lru "), "a policy's name is the same however it is typed: {table}");
    let short = sandbox.stdout("simulate loop.swt -p lru -m 4p --measure hit-ratio");
    assert!(short.contains(" 0.00\n"), "{short}");
}

#[test]
fn a_directory_for_pages_that_is_not_there_is_told() {
    let sandbox = Sandbox::new();
    let output = sandbox.run("run --memory 64MiB --swap ./nodir -- /no/such/program");
    let said = text(&output.stderr);
    assert!(
        said.starts_with("sweephand: note: --swap ./nodir: there is no such directory; pages go to a file"),
        "{said}"
    );
}

#[test]
fn collapse_can_be_set_for_all_policies_or_for_one() {
    let sandbox = Sandbox::new();
    sandbox.write("t.txt", "1\n1\n2\n3\n1\n");
    let faults = |arguments: &str| {
        let csv = sandbox.stdout(&format!("simulate t.txt --memory 2p --format csv {arguments}"));
        csv.lines().skip(1).map(|row| row.split(',').nth(5).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(faults("--policy clock,clock:collapse=on"), ["3", "4"]);
    assert_eq!(faults("--policy clock,clock:collapse=off --collapse"), ["4", "3"]);
}

#[test]
fn all_sizes_come_in_one_pass() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1);
    let csv = sandbox.stdout("simulate e1.txt --policy lru,opt --memory all --format csv");
    let faults: Vec<_> = csv.lines().skip(1).map(|row| row.split(',').nth(5).unwrap()).collect();
    assert_eq!(faults, ["12", "12", "10", "8", "5", "12", "9", "7", "6", "5"]);
}

#[test]
fn traces_come_from_standard_input_and_results_go_to_a_file() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command("simulate - --policy lru --memory 3p --format csv -o out.csv");
    let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    child.stdin.take().unwrap().write_all(E1.as_bytes()).unwrap();
    let output = child.output();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(read_text(sandbox.path("out.csv")).contains("\n-,lru,3,12,5,10,"));
    assert_eq!(sandbox.files(), ["out.csv"]);
}

#[test]
fn the_cold_allocation_is_written_over_time() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1);
    sandbox.stdout("simulate e1.txt -p lru,clock-pro -m 3p --trajectory cold.csv --trajectory-step 5");
    assert_eq!(
        read_text(sandbox.path("cold.csv")),
        "trace,policy,memory_pages,time_records,resident_cold_pages,resident_cold_percent,cold_target_pages,\
         leader,leader_changes,recent_misses\n\
         e1.txt,clock-pro,3,5,1,33.333,1,,,\n\
         e1.txt,clock-pro,3,10,1,33.333,1,,,\n"
    );
    assert_eq!(
        sandbox.error("simulate e1.txt -p lru -m 3p --trajectory cold.csv"),
        "--trajectory: none of the policies has a cold allocation or a leader; add clock-pro or auto to --policy"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1.repeat(2000));
    let mut command = sandbox.command("simulate e1.txt --policy lru,opt --memory all --format json");
    let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    drop(child.stdout.take());
    let output = child.output();
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn bad_input_gets_one_line_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.write("e1.txt", E1);
    sandbox.write("empty.txt", "");
    sandbox.write("words.txt", "1\n2\nthree\n");
    sandbox.write("long.txt", "1234567\n".repeat(100_000));
    sandbox.write("elf", b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00");
    sandbox.stdout("generate loop --pages 50 --references 1000 -o loop.swt");
    let whole = fs::read(sandbox.path("loop.swt")).unwrap();
    sandbox.write("cut.swt", &whole[..whole.len() - 10]);
    let mut flipped = whole.clone();
    flipped[230] ^= 1;
    sandbox.write("flipped.swt", flipped);
    let before = sandbox.files();
    for (arguments, message) in [
        ("simulate missing.txt", "missing.txt: No such file or directory"),
        ("simulate empty.txt", "empty.txt: is empty"),
        ("simulate words.txt", "words.txt: line 3"),
        ("simulate elf", "elf: "),
        ("simulate .", ".: is a directory"),
        ("simulate cut.swt", "cut.swt: "),
        ("simulate flipped.swt", "flipped.swt: "),
        (
            "simulate e1.txt --policy lur",
            "policy 'lur': there is no such policy (did you mean lru?); known: opt fifo",
        ),
        ("simulate e1.txt --memory 0p", "memory size '0p': must be more than 0"),
        ("simulate e1.txt --memory 300", "memory size '300': give it a unit"),
        ("simulate e1.txt -o missing/out.csv", "missing/out.csv: cannot be created"),
        ("simulate e1.txt -o .", ".: is a directory"),
        ("simulate missing.txt -o out.csv", "missing.txt: No such file or directory"),
        (
            "reproduce --all -o page",
            "reproduce is a command of sweephand-lab; in a checkout: cargo run --release -p sweephand-lab -- reproduce",
        ),
        ("info missing.swt", "missing.swt: No such file or directory"),
        ("import words.txt -o words.swt", "words.txt: line 3"),
        (
            "import words.txt --columns key=1,size=2 -o words.swt",
            "words.txt: line 1 (byte 0): fewer columns than are named",
        ),
        ("import words.txt --columns size=2 -o words.swt", "--columns: no column says what is requested"),
        (
            "import words.txt --columns twiter -o words.swt",
            "--columns: 'twiter' names no column, as key=3 does, and",
        ),
        ("import words.txt --columns @missing.txt -o words.swt", "missing.txt: No such file or directory"),
        ("import words.txt --columns key=id -o words.swt", "words.txt: line 1: no column 'id' in the header"),
        ("import missing.txt --show", "missing.txt: No such file or directory"),
        ("import words.txt --format spc -o words.swt", "words.txt: line 1 (byte 0): not unit,block,size"),
        ("import words.txt --format lackey -o words.swt", "words.txt: line 1 (byte 0): not an access"),
        ("import words.txt --format oracle-general -o words.swt", "words.txt: ends too soon, at byte 10"),
        // Its text, taken for sizes of objects, would be thousands of millions of pages.
        ("import long.txt --format oracle-general -o words.swt", "long.txt: record 0 at byte 0: request"),
        ("simulate e1.txt --memory 9999999999999p", "memory size '9999999999999p': 4294967295p is the most"),
        (
            "simulate e1.txt --policy clokpro",
            "policy 'clokpro': there is no such policy (did you mean clock-pro?)",
        ),
        ("run --memory 0 -- true", "--memory 0: write bytes as in 64MiB or pages as in 16384p"),
        ("run --memory 64MiB --load-control none -- true", "--load-control: is for the programs of --tasks"),
        ("sweep missing.toml -o e1.txt", "missing.toml: "),
        ("generate loop --pages 0 --references 10 -o zero.swt", ""),
    ] {
        let error = sandbox.error(arguments);
        assert!(error.starts_with(message), "{arguments}: {error}");
        assert_eq!(sandbox.files(), before, "{arguments}");
    }
}

/// What a database counts of its own cache is what the simulation of its policy counts.
#[test]
fn the_hits_of_sqlite_are_those_of_lru() {
    if !Path::new("/usr/bin/python3").exists() {
        return skip(Need::Program, "python3");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/sqlite/run.py");
    let output = Command::new("/usr/bin/python3")
        .arg(script)
        .args(["--sweephand", env!("CARGO_BIN_EXE_sweephand"), "--rows", "20000", "--queries", "5000"])
        .args(["--policies", "lru"])
        .output()
        .expect("python3");
    let said = text(&output.stderr);
    if said.contains("libsqlite3.so.0: cannot open") {
        return skip(Need::Program, "libsqlite3-0");
    }
    assert!(output.status.success(), "{said}");
    let printed = text(&output.stdout);
    let mut rows = csv::Reader::from_reader(printed.as_bytes());
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3, "three sizes");
    for row in rows {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let (accesses, hits, misses, difference) = (number(2), number(3), number(4), number(9));
        assert_eq!(hits + misses, accesses, "every access is recorded: {row:?}");
        assert!(misses > 0.0 && difference.abs() < 0.001, "{row:?}");
    }
}

/// A log is looked at, and the command that is shown for it imports it.
#[test]
fn the_guess_for_a_log_imports_it() {
    let sandbox = Sandbox::new();
    let rows: String = (0..100).map(|n| format!("{n}.5;user {};{};GET\n", n % 7, 1000 * (n % 9))).collect();
    sandbox.write("log.csv", "when;key;bytes;op\n".to_string() + &rows);
    let shown = sandbox.stdout("import log.csv --show");
    let guess = shown.lines().find_map(|line| line.strip_prefix("a guess: sweephand ")).unwrap();
    assert_eq!(guess, "import log.csv --columns key=2,size=3,op=4,time=1 --header -o T.swt");
    sandbox.stdout(guess);
    let info = sandbox.stdout("info T.swt");
    assert!(info.contains("100 requests for 7 objects in 99 s, 1 a second"), "{info}");
    // What is known without columns is said.
    sandbox.write("pages.txt", "1\n2\n1\n");
    let shown = sandbox.stdout("import pages.txt --show");
    assert!(shown.starts_with("pages.txt: text: Page numbers, one a line"), "{shown}");
    assert!(shown.contains("first references to pages (w: written): 1 2 1\n"), "{shown}");
}

/// The library says it in the same words to those who do not ask through the command line.
#[test]
fn a_pattern_is_refused_in_the_words_of_the_library() {
    let sandbox = Sandbox::new();
    for (pattern, given) in [
        ("zipf", [("pages", Some("few"))].as_slice()),
        ("zipf", &[("pages", Some("99999999999G"))]),
        ("zipf", &[("pages", Some("3")), ("pages", Some("4"))]),
        ("zipf", &[("pages", None)]),
        ("zipf", &[("exponent", Some("x"))]),
        ("zipf", &[("seed", Some("-1"))]),
        ("mixed", &[("alternate", Some("3"))]),
        ("loop", &[("references", Some("10")), ("rounds", Some("3"))]),
    ] {
        let error = NamedPattern::find(pattern).unwrap().synthesis(given.iter().copied()).unwrap_err();
        let options = given.iter().map(|(name, value)| match value {
            Some(value) => format!(" --{name}={value}"),
            None => format!(" --{name}"),
        });
        let output = sandbox.run(&format!("generate {pattern} -o t.swt{}", options.collect::<String>()));
        assert_eq!(output.status.code(), Some(2), "{pattern} {given:?}");
        assert_eq!(
            text(&output.stderr).lines().next(),
            Some(format!("sweephand: {error}; see sweephand generate --help").as_str()),
            "{pattern} {given:?}"
        );
    }
}

/// A result must not take the place of what it is made of, under whatever name.
#[test]
fn no_output_takes_the_place_of_an_input() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate zipf --pages 30 --references 2000 --seed 1 --writes 0.3 -o t.swt");
    sandbox.write("machine.toml", "name = 'm'\nframes = 20\n[tasks]\nprograms = ['t.swt']\ncount = 2\n");
    sandbox.write("three.txt", "1\n2\n3\n");
    sandbox.write("key.columns", "key = 1 # the page\n");
    sandbox.write(
        "disk.toml",
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../time/src/devices/hdd.toml")).unwrap(),
    );
    sandbox.write("tasks.toml", "memory = '64MiB'\n[[task]]\ncommand = ['true']\n");
    sandbox.write("job", "#!/bin/sh\n");
    fs::set_permissions(sandbox.path("job"), fs::Permissions::from_mode(0o755)).unwrap();
    let cases = [
        ("simulate t.swt -o OUT", "t.swt"),
        ("simulate three.txt t.swt -m 2p -o OUT", "t.swt"),
        ("simulate t.swt -p clock-pro -m 9p --trajectory OUT", "t.swt"),
        ("report three.txt t.swt -o OUT", "t.swt"),
        ("plot pages t.swt -o OUT.svg", "t.swt"),
        ("import three.txt -o OUT", "three.txt"),
        ("import --irim 100 t.swt -o OUT", "t.swt"),
        ("multiprogram machine.toml -o OUT", "machine.toml"),
        ("multiprogram machine.toml -o OUT", "t.swt"),
        ("multiprogram machine.toml --timeline OUT", "t.swt"),
        ("run --memory 64MiB --stats OUT -- ./job", "job"),
        ("run --memory 64MiB --stats OUT -- cat three.txt", "three.txt"),
        ("run --tasks tasks.toml --stats OUT", "tasks.toml"),
        ("import three.txt --columns @key.columns -o OUT", "key.columns"),
        ("simulate three.txt -m 2p --device disk.toml -o OUT", "disk.toml"),
        ("advise three.txt -m 2p --device disk.toml -o OUT", "disk.toml"),
        ("report three.txt -m 2p --device hdd,disk.toml -o OUT", "disk.toml"),
        ("record -o OUT -- ./job", "job"),
        ("record -o OUT -- cat three.txt", "three.txt"),
    ];
    let can_record = valgrind_is_here();
    for (arguments, input) in cases.iter().filter(|case| can_record || !case.0.starts_with("record ")) {
        let before = fs::read(sandbox.path(input)).unwrap();
        for name in ["same", "dotted", "symbolic", "hard"] {
            let out = format!("{name}{}", if arguments.contains("OUT.svg") { ".svg" } else { "" });
            let (path, target) = (sandbox.path(&out), sandbox.path(input));
            let shown = match name {
                // A picture is named .svg, so that only a link can be the trace.
                "same" if !arguments.contains(".svg") => (*input).to_string(),
                "dotted" if !arguments.contains(".svg") => format!("./{input}"),
                "symbolic" => {
                    std::os::unix::fs::symlink(&target, &path).unwrap();
                    out.clone()
                }
                "hard" => {
                    fs::hard_link(&target, &path).unwrap();
                    out.clone()
                }
                _ => continue,
            };
            let arguments = arguments.replace("OUT.svg", &shown).replace("OUT", &shown);
            let error = sandbox.error(&arguments);
            let expected = format!("{shown}: the command uses that file already");
            assert!(error.starts_with(&expected), "{arguments}: {error}");
            assert!(fs::read(&target).unwrap() == before, "{arguments}: {input} is another");
            let _ = fs::remove_file(&path);
        }
    }
    // Two outputs of one command, not there yet, and an input that has no name.
    for arguments in [
        "simulate t.swt -p clock-pro -m 9p --trajectory ./out.csv -o out.csv",
        "multiprogram machine.toml --timeline ./out.csv -o out.csv",
    ] {
        assert!(sandbox.error(arguments).starts_with("./out.csv: the command uses that file"), "{arguments}");
        assert!(!sandbox.path("out.csv").exists(), "{arguments}");
    }
    let stdin = fs::File::open(sandbox.path("three.txt")).unwrap();
    let output = sandbox.command("simulate - -m 2p -o three.txt").stdin(stdin).output().expect("sweephand");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(fs::read(sandbox.path("three.txt")).unwrap(), b"1\n2\n3\n");
    // A file that is there and has nothing to do with it is replaced, as ever.
    sandbox.stdout("simulate t.swt -m 9p --format csv -o three.txt");
    assert!(read_text(sandbox.path("three.txt")).starts_with("trace,policy"));
}

/// What is said on standard error is not what counts: without it results and status are the same.
#[test]
fn a_standard_error_that_cannot_be_written_changes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("three.txt", "1\n2\n3\n");
    let status = |arguments: &str| {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full);
        command.status().expect("sweephand").code()
    };
    assert_eq!(status("generate loop --pages 50 --references 1000 -o loop.swt"), Some(0));
    assert_eq!(status("import three.txt -o three.swt"), Some(0));
    assert_eq!(status("import --irim 100 loop.swt -o loop.irim"), Some(2), "no writes");
    assert_eq!(status("simulate missing.swt"), Some(2));
    assert_eq!(status("advise loop.swt -m 50%"), Some(0));
    assert_eq!(status("no-such-command"), Some(2));
    if valgrind_is_here() {
        assert_eq!(status("record -o exit.swt -- sh -c 'exit'"), Some(0));
        sandbox.stdout("info exit.swt --verify");
    }
    sandbox.stdout("info loop.swt --verify");
    sandbox.stdout("info three.swt --verify");
}

#[test]
fn a_generated_trace_is_imported_and_simulated_to_the_same_counts() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate zipf --pages 300 --references 20000 --seed 7 -o zipf.swt");
    sandbox.stdout("import zipf.swt -o again.swt");
    let rows = |name: &str| {
        let csv = sandbox.stdout(&format!("simulate {name} --policy all --memory 10%,50% --format csv"));
        csv.replace(name, "T")
    };
    assert_eq!(rows("zipf.swt"), rows("again.swt"));
    let info = |name: &str| -> serde_json::Value {
        serde_json::from_str(&sandbox.stdout(&format!("info {name} --format json --verify"))).unwrap()
    };
    assert_eq!(info("zipf.swt")["totals"]["records"], 20000);
    assert_eq!(info("zipf.swt")["checksum"], info("again.swt")["checksum"]);
}

#[test]
fn a_task_becomes_an_irim_string_that_info_describes() {
    let sandbox = Sandbox::new();
    let task = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/tasks/sort.swt");
    sandbox.stdout(&format!("import --irim 5000 {task} -o sort.irim"));
    let info: serde_json::Value =
        serde_json::from_str(&sandbox.stdout("info sort.irim --format json")).unwrap();
    // As the table beside the task says.
    let table = read_text(Path::new(task).with_file_name("irim.csv"));
    let row = table.lines().find(|row| row.starts_with("sort,") && row.contains(",5000,")).unwrap();
    let row: Vec<_> = row.split(',').collect();
    for (column, name) in [(1, "references"), (5, "omega_refs"), (6, "transitions")] {
        assert_eq!(info[name].to_string(), row[column], "{name}");
    }
    let trace: serde_json::Value =
        serde_json::from_str(&sandbox.stdout(&format!("info {task} --format json"))).unwrap();
    assert_eq!(info["source_checksum"], trace["checksum"]);
    assert_eq!(info["metadata"], trace["metadata"]);
    let piped = sandbox.command("info -").stdin(fs::File::open(sandbox.path("sort.irim")).unwrap()).output();
    let piped = text(&piped.unwrap().stdout);
    assert!(piped.starts_with("IRIM string          -\nprogram              sort\n"), "{piped}");
    assert!(
        piped.contains("\nsaving               ") && piped.contains("times                exact\n"),
        "{piped}"
    );

    sandbox.write("e1.txt", E1);
    let whole = fs::read(sandbox.path("sort.irim")).unwrap();
    sandbox.write("cut.irim", &whole[..whole.len() - 10]);
    let mut flipped = whole.clone();
    flipped[whole.len() - 10] ^= 1;
    sandbox.write("flipped.irim", flipped);
    let before = sandbox.files();
    for (arguments, message) in [
        ("simulate sort.irim", "sort.irim: is an IRIM string"),
        ("import --irim 5000 sort.irim -o again.irim", "sort.irim: is an IRIM string"),
        ("import --irim 5000 e1.txt -o e1.irim", "e1.txt: does not say which references are writes"),
        ("import --irim 5000 missing.swt -o e1.irim", "missing.swt: No such file or directory"),
        ("info cut.irim", "cut.irim: ends too soon, at byte"),
        ("info flipped.irim", "flipped.irim: damaged at byte 112: the checksum"),
    ] {
        let error = sandbox.error(arguments);
        assert!(error.starts_with(message), "{arguments}: {error}");
        assert_eq!(sandbox.files(), before, "{arguments}");
    }
}

#[test]
fn the_doctor_tries_what_needs_more_than_simulation() {
    let sandbox = Sandbox::new();
    let output = sandbox.run("doctor");
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 8, "{said}");
    let works = said.lines().skip(1).filter(|line| line.ends_with(": works")).count();
    assert_eq!(output.status.code(), Some(i32::from(works < 7)), "{said}");
    let valgrind = said.lines().find(|line| line.starts_with("record, advise: ")).unwrap();
    assert_eq!(valgrind.ends_with(": works"), valgrind_is_here(), "{said}");
}

#[test]
fn policies_say_what_they_need_and_where_they_run() {
    let sandbox = Sandbox::new();
    let listing = sandbox.stdout("policies");
    assert!(
        listing.contains("\nclock-pro         simulated or live tests cold pages for reuse"),
        "{listing}"
    );
    assert!(listing.contains("\nwsclock           with many tasks   "), "{listing}");
    assert!(listing.ends_with("its paper and its parameters.\n"), "{listing}");
    assert!(sandbox.stdout("policies all").contains("\nclock-pro: tests cold pages for reuse"));
    assert!(sandbox.stdout("policies lru").contains("runs       simulated\n"));
    assert!(sandbox.stdout("policies car").contains("runs       simulated or live\n"));
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.stdout("policies all --format json")).unwrap();
    let names: Vec<_> =
        json.as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    let expected = "opt fifo lifo mru random lru clock clock-page-table gclock aging linux24 fbr lru-2 2q lrfu mq lirs dlirs lirs2 arc \
                    car clock-pro clock-pro-fixed clock-pro-plus clock-pro-strict eelru ee-clock seq seq-lru ubm lifo-plus apr rrip dip lecar \
                    cacheus acme hyperbolic lhd s3-fifo s4-fifo clock2q-plus sieve w-tinylfu mglru auto ws vmin pff wsclock global-clock";
    assert_eq!(names.join(" "), expected);
    let wsclock = sandbox.stdout("policies lru,wsclock");
    assert!(
        wsclock.starts_with("lru: ")
            && wsclock.contains("runs       with many tasks (multiprogram) or live\n")
    );
}

/// Recording needs Valgrind: CI has it, a contributor may not. The recorder is built here, so that
/// no test hears of it.
fn valgrind_is_here() -> bool {
    static BUILT: LazyLock<()> = LazyLock::new(|| {
        let sandbox = Sandbox::new();
        let first = sandbox.run("record --quiet -o first.swt -- true");
        assert!(first.status.success(), "{}", text(&first.stderr));
    });
    let is_here = has_program("valgrind");
    if is_here {
        LazyLock::force(&BUILT);
    }
    is_here
}

#[test]
fn a_recorded_program_is_simulated_and_its_status_passed_on() {
    if !valgrind_is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.command("record -o sh.swt --");
    let output = command.args(["sh", "-c", "read line; echo $line out; echo err >&2; exit 7"]);
    let mut child = spawn(output.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let output = child.output();
    let talk = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{talk}");
    assert_eq!(text(&output.stdout), "in out\n");
    assert!(talk.starts_with("err\nsweephand: sh.swt: "), "{talk}");
    let info: serde_json::Value =
        serde_json::from_str(&sandbox.stdout("info sh.swt --format json --verify")).unwrap();
    assert_eq!(info["metadata"]["program"], "sh");
    assert_eq!(info["metadata"]["complete"], true);
    assert!(info["totals"]["instructions"].as_u64().unwrap() > 50_000);
    assert!(info["totals"]["distinct_pages"].as_u64().unwrap() > 50);
    let csv = sandbox.stdout("simulate sh.swt --policy lru --memory 90% --format csv");
    let fields: Vec<_> = csv.lines().nth(1).unwrap().split(',').collect();
    assert!(!fields[10].is_empty(), "faults per million instructions are known: {csv}");
}

#[test]
fn an_interrupted_program_leaves_a_shorter_trace() {
    if !valgrind_is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.command("record --quiet -o loop.swt --");
    command.args(["sh", "-c", "echo started; while :; do :; done"]);
    let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut started = [0; 8];
    child.stdout.take().unwrap().read_exact(&mut started).unwrap();
    // As `kill` would: the command passes it on to the program, which dies of it.
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill").success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(sandbox.stdout("info loop.swt --verify").contains("program              sh"));
    assert_eq!(sandbox.files(), ["loop.swt"]);
}

#[test]
fn what_cannot_be_recorded_is_said_in_one_line() {
    if !valgrind_is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.error("record -- no-such-program"), "no-such-program: there is no such program");
    assert_eq!(
        sandbox.error("record --min-object 10p -- true"),
        "--min-object 10p: write bytes as in 40KiB, at least 1B"
    );
    assert!(sandbox.error("record -o missing/t.swt -- true").starts_with("missing/t.swt: cannot be created"));
    assert!(sandbox.files().is_empty());
}

/// What Valgrind's own tool prints is the string that a few lines of plain code make of it.
#[test]
fn what_lackey_prints_is_imported_reference_for_reference() {
    if !valgrind_is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut lackey = Command::new("valgrind");
    lackey.args(["--tool=lackey", "--trace-mem=yes", "--log-file=true.lackey", "true"]);
    assert!(lackey.current_dir(sandbox.path(".")).status().expect("valgrind").success());
    let printed = read_text(sandbox.path("true.lackey"));
    let mut pages = String::new();
    let mut add = |address: u64, bytes: u64| {
        (address / 4096..=(address + bytes - 1) / 4096).for_each(|page| pages += &format!("{page}\n"));
    };
    for line in printed.lines().filter(|line| !line.starts_with("==")) {
        let (address, bytes) = line[3..].split_once(',').unwrap();
        let (address, bytes) = (u64::from_str_radix(address, 16).unwrap(), bytes.parse().unwrap());
        let times = if line.starts_with(" M") { 2 } else { 1 };
        (0..times).for_each(|_| add(address, bytes));
    }
    sandbox.write("true.pages", &pages);
    sandbox.stdout("import --format lackey true.lackey -o lackey.swt");
    let counts = |trace: &str| {
        let csv =
            sandbox.stdout(&format!("simulate {trace} --policy lru,clock --memory 10p,30p --format csv"));
        let rows: Vec<_> =
            csv.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>()[1..10].join(",")).collect();
        assert_eq!(rows.len(), 4);
        rows
    };
    assert_eq!(counts("lackey.swt"), counts("true.pages"));
    assert_eq!(counts("true.lackey"), counts("true.pages"));
    let info: serde_json::Value =
        serde_json::from_str(&sandbox.stdout("info lackey.swt --format json --verify")).unwrap();
    let executed = printed.lines().find_map(|line| line.split_once("guest instrs:")).unwrap().1;
    assert_eq!(info["totals"]["instructions"].to_string(), executed.trim().replace(',', ""));
    assert_eq!(info["metadata"]["program"], "true");
}

/// A configuration of two small programs with write flags.
const MACHINE: &str = "name = 'small'\nframes = 20\nseeds = [1, 2]\ntheta = [500, 2_000]\npolicies = ['ws:lt-rt=off', 'wsclock', \
                       'global-clock']\n[devices]\naccess_refs = [50, 100]\n[tasks]\nprograms = ['a.swt', 'b.swt']\ncount = 6\n";

fn machine() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", MACHINE);
    for (name, seed) in [("a", 1), ("b", 2)] {
        let arguments =
            format!("generate zipf --pages 30 --references 20000 --seed {seed} --writes 0.3 -o {name}.swt");
        assert!(sandbox.run(&arguments).status.success(), "{}", text(&sandbox.run(&arguments).stderr));
    }
    sandbox
}

#[test]
fn many_tasks_give_the_columns_in_their_order() {
    let sandbox = machine();
    let csv = sandbox.stdout("multiprogram small.toml --format csv");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "configuration,policy,theta_refs,utilization,mean_mpl,deactivations,page_faults,pointer_travel_per_replacement,ws_scans"
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let cells: Vec<_> = rows.iter().map(|row| (row[0], row[1], row[2])).collect();
    assert_eq!(
        cells,
        [
            ("small", "ws:lt-rt=off", "500"),
            ("small", "ws:lt-rt=off", "2000"),
            ("small", "wsclock", "500"),
            ("small", "wsclock", "2000"),
            ("small", "global-clock", ""),
        ]
    );
    for row in &rows {
        let utilization: f64 = row[3].parse().unwrap();
        assert!(0.0 < utilization && utilization < 1.0, "{row:?}");
        assert_eq!(row[7].is_empty(), row[1].starts_with("ws:"), "{row:?}: pure WS has no pointer");
        assert_eq!(row[8] == "0", !row[1].starts_with("ws:"), "{row:?}: only WS scans");
    }
    assert_eq!(csv, sandbox.stdout("multiprogram small.toml --format csv"), "the same again");
    let json: serde_json::Value = serde_json::from_str(
        &sandbox.stdout("multiprogram small.toml --theta 1k --policy wsclock --format json"),
    )
    .unwrap();
    assert_eq!(json["rows"][0]["theta_refs"], 1000);
    assert_eq!(json["rows"][0]["runs"].as_array().unwrap().len(), 2, "one for each seed");
    assert_eq!(json["configurations"][0]["frames"], 20);
    assert!(
        sandbox
            .stdout("multiprogram small.toml")
            .starts_with("Configuration small: 20 frames, 1 paging device of 50 to 100")
    );
}

#[test]
fn a_timeline_tells_how_the_machine_fared() {
    let sandbox = machine();
    sandbox.stdout("multiprogram small.toml -p wsclock --theta 500 --seed 3 --timeline t.csv --timeline-step 1k --format csv");
    let timeline = read_text(sandbox.path("t.csv"));
    let mut lines = timeline.lines();
    assert_eq!(
        lines.next().unwrap(),
        "configuration,policy,theta_refs,seed,time_refs,active_tasks,loading_tasks,blocked_tasks,free_frames,paging_queue,ready_tasks"
    );
    assert_eq!(lines.next().unwrap(), "small,wsclock,500,3,0,0,0,0,20,0,6");
    assert!(lines.clone().count() > 120, "every 1000 references of more than 120,000");
    assert!(lines.all(|line| line.split(',').count() == 11));
}

#[test]
fn one_task_alone_can_be_looked_ahead_in() {
    let sandbox = machine();
    sandbox
        .write("one.toml", MACHINE.replace("'a.swt', 'b.swt'", "'a.swt'").replace("count = 6", "count = 1"));
    let csv = sandbox.stdout("multiprogram one.toml -p vmin --theta 10,100 --format csv");
    let faults: Vec<u64> =
        csv.lines().skip(1).map(|line| line.split(',').nth(6).unwrap().parse().unwrap()).collect();
    assert!(faults[0] > faults[1] && faults[1] >= 30, "{faults:?}");
    assert_eq!(
        sandbox.error("multiprogram small.toml -p vmin"),
        "policy 'vmin': looks ahead in the string of one task alone: set tasks.count = 1"
    );
}

#[test]
fn a_built_in_configuration_can_be_printed_and_run_from_a_file() {
    let sandbox = Sandbox::new();
    // As it stands, in a folder of its own: it finds its traces.
    let toml = sandbox.stdout("multiprogram --print b").replace("name = \"B\"", "name = \"mine\"");
    sandbox.write("mine.toml", toml);
    let arguments = "--policy wsclock --theta 400k --format csv";
    let mine = sandbox.stdout(&format!("multiprogram mine.toml {arguments}"));
    assert_eq!(mine.replace("mine,", "B,"), sandbox.stdout(&format!("multiprogram B {arguments}")));
}

#[test]
fn a_machine_that_cannot_work_says_so_in_a_line() {
    let sandbox = machine();
    let edits = [
        ("frames = 20", "frames = 0", "frames = 0: memory has at least one frame"),
        ("frames = 20", "frame = 20", "line 2: unknown field `frame`, expected one of"),
        ("'a.swt'", "'none.swt'", "none.swt: No such file or directory"),
        ("'a.swt'", "'reads.swt'", "reads.swt: has no write flags"),
        ("'a.swt'", "'short.swt'", "short.swt: "),
        ("'wsclock'", "'wsclok'", "policy 'wsclok': there is no such policy"),
        ("'wsclock'", "'wsclock:theta=0'", "policy 'wsclock': theta=0: theta takes a whole number"),
        ("[devices]", "[devices", "line 6: "),
    ];
    assert!(sandbox.run("generate loop --pages 30 --rounds 60 -o reads.swt").status.success());
    let whole = fs::read(sandbox.path("a.swt")).unwrap();
    sandbox.write("short.swt", &whole[..whole.len() / 2]);
    for (from, to, expected) in edits {
        let toml = MACHINE.replace(from, to);
        assert_ne!(toml, MACHINE, "{to} for {from}");
        sandbox.write("bad.toml", toml);
        let error = sandbox.error("multiprogram bad.toml");
        assert!(error.contains(expected), "{to} for {from}: {error}");
    }
    for (arguments, expected) in [
        ("D", "configuration 'D': is not built in (those are A B C) and no file"),
        ("none.toml", "none.toml: No such file or directory"),
        ("small.toml -p lru", "policy 'lru': sees every reference of one task"),
        ("small.toml -o missing/o.csv", "missing/o.csv: cannot be created"),
    ] {
        let error = sandbox.error(&format!("multiprogram {arguments}"));
        assert!(error.starts_with(expected), "{arguments}: {error}");
    }
    let error = sandbox.error("simulate a.swt --policy wsclock");
    assert_eq!(
        error,
        "policy 'wsclock': is for many tasks in one memory; see sweephand multiprogram --policy wsclock"
    );
}

/// It is no mistake: the task takes its time.
#[test]
fn a_task_larger_than_memory_is_noted() {
    let sandbox = machine();
    sandbox.write("tight.toml", MACHINE.replace("frames = 20", "frames = 2"));
    let output = sandbox.run("multiprogram tight.toml --format csv");
    assert!(output.status.success());
    let note = text(&output.stderr);
    assert!(
        note.starts_with("sweephand: note: small: a task alone used more than the 2 frames there are; "),
        "{note}"
    );
    assert_eq!(note.lines().count(), 1);
}

/// Predictions come in columns behind the others, and agree with the schema; what is missing for
/// one is said.
#[test]
fn seconds_are_predicted_for_a_device() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate loop --pages 2000 --references 20000 -o loop.swt");
    let csv = sandbox.stdout("simulate loop.swt -p clock -m 50%,100% --device hdd --native 2 --format csv");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        lines[0][11..],
        ["hand_steps", "predicted_seconds", "predicted_pages_read", "predicted_pages_written"]
    );
    let seconds = |line: usize| lines[line][12].parse::<f64>().unwrap();
    // A loop that does not fit is read anew in each of its ten turns; one that fits never is.
    assert!(seconds(1) > 3.0 && lines[1][13].parse::<u64>().unwrap() >= 18_000, "{csv}");
    assert_eq!((seconds(2), lines[2][13]), (2.0, "0"), "{csv}");
    let table =
        sandbox.stdout("simulate loop.swt -p clock -m 50%,100% --device hdd --native 2 --measure time");
    assert!(table.contains(&format!("{:.2}", seconds(1))) && table.contains("2.00"), "{table}");
    let json = sandbox.stdout("simulate loop.swt -p clock -m 50% --device zram --native 2 --format json");
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed["sweephand"]["device"], "zram");
    assert!(parsed["rows"][0]["predicted_seconds"].as_f64().unwrap() < seconds(1));

    let advice = sandbox.stdout("advise loop.swt --device hdd --native 2 --slowdown 1.2");
    assert!(
        advice.contains("\ntime      Within 1.2 times its 2.00 s") && advice.contains("MemoryMax="),
        "{advice}"
    );
    // A loop that fits if a part of it is compressed.
    assert!(advice.contains("\ncompress  On hdd, z"), "{advice}");
    assert!(advice.contains(" Compressibility assumed: 3.00:1, "), "{advice}");
    let compressing = sandbox.stdout("advise loop.swt -p clock -m 60% --device zram --native 2");
    assert!(!compressing.contains("\ncompress "), "{compressing}");
    sandbox.stdout("report loop.swt -p clock -m 60% --device hdd --native 2 -o page.html");
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    assert!(page.contains(">Compressed memory before hdd</h") && page.contains("with zswap"));
    let listed = sandbox.stdout("devices");
    assert!(listed.contains("\n zram ") && listed.contains("\nnvme: the data sheet of "), "{listed}");

    let error = |command: &str| {
        let output = sandbox.run(command);
        assert_eq!(output.status.code(), Some(2), "{command}");
        text(&output.stderr)
    };
    assert!(error("simulate loop.swt --measure time").contains("needs a device"));
    assert!(error("simulate loop.swt --device floppy").contains("'floppy' is neither"));
    assert!(error("simulate loop.swt --device ssd").contains("--native SECONDS"));
    assert!(error("simulate loop.swt --device ssd --native 0").contains("more than 0"));
    assert!(error("advise loop.swt --device ssd --native 1 --slowdown 1").contains("more than 1"));
}

/// Whole objects of a log: counts that can be checked by hand, and what does not go together.
#[test]
fn whole_objects_are_simulated_in_bytes() {
    let sandbox = Sandbox::new();
    // A cache of 100 bytes: a and b do not fit together, c never fits, and 0 bytes is a's size.
    sandbox
        .write("log.csv", "a,70,get\nb,40,get\nb,40,get\na,0,get\nc,101,get\nb,40,get\nb,40,del\nb,40,get\n");
    sandbox.stdout("import log.csv --columns key=1,size=2,op=3 --whole-objects -o log.swt");
    let csv = sandbox.stdout("simulate log.swt --whole-objects -p bound,lru -m 100B,1KiB --format csv");
    let expected = "\
        trace,policy,memory_bytes,requests,misses,miss_ratio,requested_bytes,missed_bytes,byte_miss_ratio,passed,evictions\n\
        log.swt,bound,100,7,4,0.571429,401,251,0.625935,,\n\
        log.swt,bound,1024,7,4,0.571429,401,251,0.625935,,\n\
        log.swt,lru,100,7,6,0.857143,401,361,0.900249,1,3\n\
        log.swt,lru,1024,7,4,0.571429,401,251,0.625935,0,0\n";
    assert_eq!(csv, expected);
    let table = sandbox.stdout("simulate log.swt --whole-objects -p lru -m 100B --measure miss-ratio");
    assert!(table.starts_with("log.swt: 7 requests for 3 objects (211 B)\nmisses, %"), "{table}");
    assert!(table.lines().last().unwrap().split_whitespace().eq(["lru", "85.71"]), "{table}");
    let json = sandbox.stdout("simulate log.swt --whole-objects -p all -m 50% --format json");
    if let Some(Err(error)) = keeps_to("simulate-objects.json", &json, &sandbox.path("")) {
        panic!("{error}: {json}");
    }

    sandbox.stdout("import log.csv --columns key=1,size=2,op=3 -o pages.swt");
    for (command, expected) in [
        ("simulate pages.swt --whole-objects", "page 0 is not an object with a size; import the log again"),
        ("simulate log.swt --whole-objects -p lirs", "policy 'lirs': it counts pages"),
        ("simulate log.swt --whole-objects -m 3p", "whole objects have no pages"),
        ("simulate log.swt --whole-objects --measure faults", "whole objects have miss-ratio"),
        ("simulate log.swt --measure byte-miss-ratio", "add --whole-objects"),
        ("import log.csv --columns key=1 --whole-objects -o x.swt", "need a column of keys and one of sizes"),
    ] {
        let output = sandbox.run(command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{command}: {said}");
    }
}

/// A loop of 60 pages in memory for 40: alone, all miss. With half of the memory for pages at 2:1,
/// all but the first touches are in the pool.
#[test]
fn memories_are_split_between_resident_and_compressed_pages() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate loop --pages 60 --rounds 3 -o loop.swt");
    let command = "simulate loop.swt -p lru -m 40p --resident 100%,50%";
    let csv = sandbox.stdout(&format!("{command} --tiers zswap:ratio=2.1 --format csv"));
    let expected = "\
        trace,policy,memory_pages,resident_pages,references,distinct_pages,faults,first_touch_faults,evictions,\
        same_filled_faults,pool_faults,disk_faults,compressions,decompressions,write_backs,rejected,turned_away,\
        peak_pool_pages,peak_stored_pages\n\
        loop.swt,lru,40,40,180,60,180,60,140,0,0,120,0,0,0,0,140,0,0\n\
        loop.swt,lru,40,20,180,60,180,60,160,0,120,0,160,120,0,0,0,20,40\n";
    assert_eq!(csv, expected);
    let table = sandbox.stdout(&format!("{command} --tiers zram:ratio=2.1 --device hdd"));
    assert!(table.contains("lru in 160 KiB (40 pages):"), "{table}");
    assert!(table.contains("\ncompressibility assumed, but ratio as given: 2.10:1, "), "{table}");
    let seconds = |line: &str| line.split_whitespace().last().unwrap().parse::<f64>().unwrap();
    let lines: Vec<_> = table.lines().rev().take(2).map(seconds).collect();
    assert!(lines[0] < 0.01 && lines[1] > 1.5, "{table}");
    // Unless splits are named, one adapts where it can, beside the five that do not.
    let timed = "simulate loop.swt -m 40p --format csv --device hdd --tiers zswap:ratio=4.1";
    let csv = sandbox.stdout(&format!("{timed} -p lru,fifo"));
    let adaptive: Vec<_> = csv.lines().filter(|line| line.contains(",40,,180,60,")).collect();
    assert_eq!((csv.lines().count(), adaptive.len()), (12, 1), "{csv}");
    let disk_faults: u64 = adaptive[0].split(',').nth(11).unwrap().parse().unwrap();
    assert!(disk_faults < 60, "LRU alone takes 120: {csv}");
    let named = sandbox.stdout(&format!("{timed} --resident adaptive"));
    assert_eq!(named.lines().nth(1), Some(adaptive[0]));
    // Slower compression, more seconds.
    let toml =
        std::fs::read_to_string(format!("{}/../time/src/devices/zram.toml", env!("CARGO_MANIFEST_DIR")));
    let slow = toml.unwrap().replace("latency_us = 3.4", "latency_us = 3400.0");
    sandbox.write("slow.toml", slow);
    let fixed = format!("{command} --device hdd --tiers zram:disksize=100% --format csv");
    let seconds = |options: &str| {
        let csv = sandbox.stdout(&format!("{fixed}{options}"));
        csv.lines().last().unwrap().rsplit(',').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(seconds(" --pool-device slow.toml") > 10.0 * seconds(""));

    for (command, expected) in [
        ("simulate loop.swt --tiers zcache", "there are zswap and zram"),
        ("simulate loop.swt --tiers zram:accept=90%", "accept is for zswap"),
        ("simulate loop.swt --tiers zswap:disksize=50%", "disksize is for zram"),
        ("simulate loop.swt --tiers zram --resident 0%", "write shares of memory"),
        ("simulate loop.swt --tiers zram --resident adaptive --device hdd", "give --tiers zswap"),
        ("simulate loop.swt --tiers zswap --resident adaptive --device hdd -p clock", "give --policy lru"),
        ("simulate loop.swt --tiers zswap --resident adaptive", "name the disk with --device"),
        ("simulate loop.swt --tiers zswap --device hdd --pool-device ssd", "ssd is a disk"),
        ("simulate loop.swt --tiers zram --device zram", "name the disk behind the pool"),
        ("simulate loop.swt --tiers zram -m all", "too many to split"),
    ] {
        let output = sandbox.run(command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{command}: {said}");
    }
    for options in [
        "--resident 50%",
        "--pool-device zram",
        "--tiers zram --pool-device zram",
        "--tiers zram --sample 10%",
        "--tiers zram --measure faults",
        "--tiers zram --native 1 --device ssd",
    ] {
        let output = sandbox.run(&format!("simulate loop.swt {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}: {}", text(&output.stderr));
    }
}

#[test]
fn two_traces_are_compared_at_the_same_sizes() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate loop --pages 100 --rounds 3 -o before.swt");
    sandbox.stdout("generate loop --pages 50 --rounds 6 -o after.swt");
    // A loop that does not fit misses always under LRU.
    let text = sandbox.stdout("diff before.swt after.swt -p lru -m 60p,100% --chart faults.svg");
    for line in [
        " pages             100     50  -50.0%",
        " references        300    300       =",
        " 240 KiB     300     50  -83.3%",
        " 400 KiB     100     50  -50.0%",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in {text}");
    }
    let chart = read_text(sandbox.path("faults.svg"));
    assert!(chart.contains("before (before), lru") && chart.matches("<polyline").count() == 2, "{chart}");
    let json = sandbox.stdout("diff before.swt after.swt -p lru,opt -m 60p --format json");
    if let Some(Err(error)) = keeps_to("diff.json", &json, &sandbox.path("")) {
        panic!("{error}: {json}");
    }
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["before"]["faults"][0], serde_json::json!([300]));
    assert_eq!(json["after"]["faults"], serde_json::json!([[50], [50]]));
    sandbox.write("keys.csv", "1\n2\n1\n");
    sandbox.stdout("import keys.csv --columns offset=1 --page-size 8KiB -o large.swt");
    let error = sandbox.error("diff before.swt large.swt");
    assert!(error.contains("pages have 4096 bytes in the first trace and 8192 in the second"), "{error}");
    assert!(sandbox.error("diff before.swt after.swt --chart faults.png").contains("ends with .svg"));
    assert!(sandbox.error("diff before.swt after.swt -o after.swt").contains("after.swt"));
}

#[test]
fn a_budget_of_memory_is_kept_or_the_status_is_1() {
    let sandbox = Sandbox::new();
    sandbox.stdout("generate loop --pages 100 --rounds 30 -o loop.swt");
    let kept = sandbox.stdout("advise loop.swt --budget 400KiB");
    assert!(kept.starts_with("### loop: needs 400 KiB of its 400 KiB\n"), "{kept}");
    assert!(kept.contains("\n| memory | faults under ") && kept.contains("\n| 400 KiB | 100 |"), "{kept}");
    let output = sandbox.run("advise loop.swt --budget 396KiB");
    let broken = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()), "{broken}");
    assert!(broken.starts_with("### loop: needs 400 KiB, more than its budget of 396 KiB\n"), "{broken}");
    let json = text(&sandbox.run("advise loop.swt --budget 396KiB --format json").stdout);
    if let Some(Err(error)) = keeps_to("advise.json", &json, &sandbox.path("")) {
        panic!("{error}: {json}");
    }
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["budget"]["is_kept"], false, "{json}");
    assert!(
        sandbox
            .error("advise loop.swt --budget 25%")
            .contains("--budget 25%: write bytes as in 64MiB or pages as in 16384p")
    );
}

/// A loop and a scan of two tenants: sharing costs the loop all of its hits.
#[test]
fn a_memory_is_divided_among_tenants() {
    let sandbox = Sandbox::new();
    let rows = (0..600).map(|time| format!("loop,{}\nscan,{time}\n", time % 6));
    sandbox.write("log.csv", rows.collect::<String>());
    sandbox.stdout("import log.csv --columns tenant=1,key=2 -o log.swt");
    let csv = sandbox.stdout("partition log.swt -m 8p --format csv");
    let expected = "\
        trace,memory_pages,tenant,references,distinct_pages,shared_faults,own_pages,own_faults\n\
        log.swt,8,loop,600,6,600,6,6\n\
        log.swt,8,scan,600,600,600,2,600\n";
    assert_eq!(csv, expected);
    let table = sandbox.stdout("partition log.swt -m 8p,606p");
    assert!(table.contains("32.0 KiB (8 pages) for 2 tenants") && table.contains("-49.5%"), "{table}");
    let json = sandbox.stdout("partition log.swt -m 50% --policy clock-pro --format json");
    if let Some(Err(error)) = keeps_to("partition.json", &json, &sandbox.path("")) {
        panic!("{error}: {json}");
    }
    let info = sandbox.stdout("info log.swt --format json");
    if let Some(Err(error)) = keeps_to("info.json", &info, &sandbox.path("")) {
        panic!("{error}: {info}");
    }
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["metadata"]["tenants"]["names"], serde_json::json!(["loop", "scan"]));

    // With offsets, each tenant has a disk of its own.
    sandbox.stdout("import log.csv --columns tenant=1,offset=2*4096 -o disks.swt");
    assert_eq!(sandbox.stdout("partition disks.swt -m 8p --format csv"), csv.replace("log.swt", "disks.swt"));

    sandbox.stdout("import log.csv --columns key=2 -o one.swt");
    for (command, expected) in [
        ("simulate log.csv", "not a page number (a log with columns? `sweephand import --show` tells"),
        ("import one.swt --columns key=1 -o two.swt", "one.swt: it is a trace already, and has no columns"),
        ("partition one.swt", "one.swt: has no tenants; import the log with a column tenant=N"),
        ("partition log.swt -m all", "too many to divide"),
    ] {
        let output = sandbox.run(command);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(text(&output.stderr).contains(expected), "{command}: {}", text(&output.stderr));
    }
}
