//! What people ask of caches beside their misses: a second level, series over time, times to live.
//! Each is compared with a cache that is written out here.

mod sandbox;

use sandbox::{Sandbox, text};
use std::collections::{HashMap, HashSet};
use sweephand_checks::read_text;
use sweephand_trace::{Chunk, Event, PackedReference, Trace};

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Small numbers are much more frequent.
    fn skewed(&mut self, bits: u64) -> u64 {
        let most = 2 << self.below(bits);
        self.below(most)
    }
}

/// A cache that gives up what was used, or came, the longest time ago.
struct Cache {
    frames: usize,
    moves_at_hits: bool,
    /// Pages with whether they were written to, the first to go last.
    pages: Vec<(u64, bool)>,
    touched: HashSet<u64>,
    references: u64,
    faults: u64,
    first: u64,
    free: u64,
    evictions: u64,
}

impl Cache {
    fn new(policy: &str, frames: usize) -> Self {
        let (pages, touched, moves_at_hits) = (Vec::new(), HashSet::new(), policy == "lru");
        let [references, faults, first, free, evictions] = [0; 5];
        Self { frames, moves_at_hits, pages, touched, references, faults, first, free, evictions }
    }

    /// Whether it missed, and what it gave up.
    fn access(&mut self, page: u64, write: bool) -> (bool, Option<(u64, bool)>) {
        self.references += 1;
        let place = self.pages.iter().position(|(other, _)| *other == page);
        if let Some(place) = place {
            self.pages[place].1 |= write;
            if self.moves_at_hits {
                let page = self.pages.remove(place);
                self.pages.insert(0, page);
            }
            return (false, None);
        }
        self.faults += 1;
        self.first += u64::from(self.touched.insert(page));
        let victim = if self.pages.len() == self.frames { self.pages.pop() } else { None };
        if victim.is_some() {
            self.evictions += 1
        } else {
            self.free += 1
        }
        self.pages.insert(0, (page, write));
        (true, victim)
    }

    fn delete(&mut self, page: u64) {
        self.pages.retain(|(other, _)| *other != page);
        self.touched.remove(&page);
    }

    /// As the command counts it.
    fn counts(&self) -> String {
        let Self { references, faults, first, free, evictions, .. } = self;
        format!("{references},{faults},{first},{free},{evictions}")
    }
}

/// The counts in the only row of a CSV.
fn counts(csv: &str) -> String {
    let row = csv.lines().nth(1).unwrap();
    let fields: Vec<_> = row.split(',').collect();
    [3, 5, 6, 7, 8].map(|field| fields[field]).join(",")
}

/// The command's runs, one after the other, are a simulator of levels: equal counts on all.
#[test]
fn misses_of_one_level_are_the_requests_of_the_next() {
    let sandbox = Sandbox::new();
    let mut random = Random(7);
    let word = |number: u64| match number {
        0 => "delete",
        1..30 => "set",
        _ => "get",
    };
    let requests: Vec<(u64, &str)> =
        (0..20_000).map(|_| (random.skewed(10), word(random.below(100)))).collect();
    let log: String = requests.iter().map(|(page, word)| format!("{page},{word}\n")).collect();
    sandbox.write("log.csv", log);
    sandbox.stdout("import log.csv --columns key=1,op=2 -o log.swt");
    for (evictions, upper, lower) in [
        ("written", ("lru", 40), ("lru", 90)),
        ("written", ("fifo", 100), ("lru", 100)),
        ("all", ("lru", 40), ("fifo", 90)),
        ("none", ("lru", 64), ("fifo", 300)),
    ] {
        // The third level sees which of the second's pages were written.
        let sizes = [upper, lower, ("lru", 150)];
        let mut levels = sizes.map(|(policy, frames)| Cache::new(policy, frames));
        for (page, word) in &requests {
            match *word {
                "delete" => levels.iter_mut().for_each(|level| level.delete(*page)),
                word => access(&mut levels, *page, word == "set", evictions),
            }
        }
        for (level, (policy, frames)) in sizes.into_iter().enumerate() {
            let from = if level == 0 { "log.swt".to_string() } else { format!("below{level}.swt") };
            let options = format!("--misses below{}.swt --evictions {evictions}", level + 1);
            let csv =
                sandbox.stdout(&format!("simulate {from} -p {policy} -m {frames}p {options} --format csv"));
            assert_eq!(counts(&csv), levels[level].counts(), "{from} {options} {policy} {frames}");
            sandbox.stdout(&format!("info --verify {from}"));
        }
    }
}

/// A request to the first of some levels. It passes its misses on to the next, and before each the
/// page that has to go, if that is told.
fn access(levels: &mut [Cache], page: u64, write: bool, evictions: &str) {
    let Some((first, below)) = levels.split_first_mut() else { return };
    let (missed, victim) = first.access(page, write);
    let is_told = |written| evictions == "all" || (evictions == "written" && written);
    if let Some((victim, _)) = victim.filter(|(_, written)| is_told(*written)) {
        access(below, victim, true, evictions);
    }
    if missed {
        access(below, page, false, evictions);
    }
}

/// Runs a command that has to fail, and gives what it says.
fn refused(sandbox: &Sandbox, arguments: &str) -> String {
    let output = sandbox.run(arguments);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments}");
    text(&output.stderr).trim_start_matches("sweephand: ").to_string()
}

/// A trace of misses has one level above it, is complete or absent, and replaces nothing that is
/// read.
#[test]
fn a_trace_of_misses_is_of_one_simulation() {
    let sandbox = Sandbox::new();
    sandbox.write("pages.txt", "1\n2\n3\n1\n2\n4\n");
    for (arguments, words) in [
        ("pages.txt -p lru,clock -m 2p", "--misses: 2 policies, and it is for one: name it with --policy"),
        ("pages.txt -p lru -m 2p,3p", "--misses: 2 memory sizes, and it is for one: give it with --memory"),
        ("pages.txt -m 2p", "--misses: 7 policies"),
        ("pages.txt pages.txt -p lru -m 2p", "--misses: 2 traces, and it is for one"),
        (
            "pages.txt -p lru -m 2p --warmup 1",
            "the argument '--warmup <N|TIME|PERCENT>' cannot be used with '--misses <FILE>'",
        ),
        ("missing.txt -p lru -m 2p", "missing.txt: "),
    ] {
        let error = refused(&sandbox, &format!("simulate {arguments} --misses below.swt"));
        assert!(error.starts_with(words), "{arguments}: {error}");
        assert_eq!(sandbox.files(), ["pages.txt"], "{arguments}");
    }
    let error = refused(&sandbox, "simulate pages.txt -p lru -m 2p --misses pages.txt");
    assert!(error.starts_with("pages.txt: the command uses that file already"), "{error}");
    let error = refused(&sandbox, "simulate pages.txt -p lru -m 2p -o x --misses x");
    assert!(error.starts_with("x: the command uses that file already"), "{error}");
    let error = refused(&sandbox, "simulate pages.txt -p lru -m 2p --evictions all");
    assert_eq!(error.trim_end(), "--evictions needs --misses");
}

/// What a trace has: pages and whether they are written to, in order, with the events between, the
/// times, and the times to live.
type Contents = (Vec<(u64, bool)>, Vec<(u64, Event)>, Vec<(u64, i64)>, Vec<(u64, i64)>);

fn contents(sandbox: &Sandbox, name: &str) -> Contents {
    let trace = Trace::open(&sandbox.path(name)).unwrap();
    trace.verify(&mut |_| {}).unwrap();
    let (mut contents, mut chunk, mut numbers) = (Contents::default(), Chunk::new(), Vec::new());
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
        let place = |at: u32| chunk.first_record + u64::from(at);
        let page = |reference: &PackedReference| (numbers[reference.page() as usize], reference.is_write());
        contents.0.extend(chunk.references.iter().map(page));
        contents.1.extend(chunk.events.iter().map(|(at, event)| (place(*at), event.clone())));
        contents.2.extend(chunk.times().unwrap().iter().map(|(at, time)| (place(*at), *time)));
        contents.3.extend(chunk.times_to_live().unwrap().iter().map(|(at, time)| (place(*at), *time)));
    }
    contents
}

/// Exports a trace and imports it again, by the options that the command names.
fn there_and_back(sandbox: &Sandbox, name: &str, format: &str) -> (Contents, Contents, String) {
    let output = sandbox.run(&format!("export {name} --format {format} -o exported"));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{name} {format}: {said}");
    let (_, command) = said.trim_end().split_once("read it with: sweephand ").unwrap();
    sandbox.stdout(&command.replace("-o T.swt", "-o back.swt"));
    (contents(sandbox, name), contents(sandbox, "back.swt"), said)
}

#[test]
fn what_is_exported_comes_back() {
    let sandbox = Sandbox::new();
    let mut random = Random(11);
    let mut row = |time: u64| {
        let op = match random.below(100) {
            0..5 => "delete",
            5..30 => "set",
            _ => "get",
        };
        let (key, tenant) = (random.skewed(9), ["east", "we\"st", "a b"][random.below(3) as usize]);
        let (size, ttl) = (1 + key * 7919 % 20_000, random.below(3) * 60);
        let tenant = format!("\"{}\"", tenant.replace('"', "\"\""));
        format!("{}.{:02},{key},{tenant},{size},{op},{ttl}\n", time / 100, time % 100)
    };
    sandbox.write("log.csv", (0..5_000).map(|time| row(100 * 86_400 + time / 3 * 3)).collect::<String>());
    for (name, columns) in [
        ("places", "time=1,offset=2*4096,size=4,op=5"),
        ("large", "time=1,offset=2*4096,size=4,op=5 --page-size 64KiB"),
        ("disks", "offset=2*4096,tenant=3,op=5"),
        ("keys", "key=2,op=5"),
        ("sizes", "time=1,key=2,size=4,op=5"),
        ("tenants", "key=2,tenant=3,op=5,time=1"),
        ("both", "key=2,tenant=3,size=4,op=5"),
        ("whole", "time=1,key=2,size=4,op=5 --whole-objects"),
        ("whole-tenants", "time=1,key=2,tenant=3,size=4,op=5 --whole-objects"),
    ] {
        let name = format!("{name}.swt");
        sandbox.stdout(&format!("import log.csv --columns {columns} -o {name}"));
        let (there, back, said) = there_and_back(&sandbox, &name, "csv");
        assert!(there == back, "{name}: {said}");
        assert!(!said.contains("left out"), "{name}: {said}");
        // Objects get numbers of their own, and there are neither writes nor deletions.
        let (there, back, said) = there_and_back(&sandbox, &name, "oracle-general");
        let (mut number, mut numbers) = (0, HashMap::new());
        let mut renamed = |page: &u64| {
            *numbers.entry(*page).or_insert_with(|| {
                number += 1;
                number - 1
            })
        };
        let expected: Vec<u64> = there.0.iter().map(|(page, _)| renamed(page)).collect();
        let pages_each = if name == "large.swt" { 1 << 16 } else { 1 << 20 };
        let found: Vec<u64> = back.0.iter().map(|(page, _)| page / pages_each).collect();
        assert!(expected == found, "{name}: {said}");
        assert!(said.contains("has no place for it: ") && said.contains(" writes"), "{name}: {said}");
    }
}

#[test]
fn lackey_has_memory_and_nothing_else() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", " L 1fff000750,8\n S 04222c80,4\n M 7ff0,32\n");
    sandbox.stdout("import in.txt -o in.swt");
    let (there, back, said) = there_and_back(&sandbox, "in.swt", "lackey");
    assert!(there == back && there.0.len() == 6, "{said}");
    assert!(!said.contains("left out"), "{said}");
    sandbox.write("pages.csv", "1,a,4096\n2,b,4096\n");
    sandbox.stdout("import pages.csv --columns time=1,key=2,size=3 --whole-objects -o whole.swt");
    sandbox.stdout("import pages.csv --columns time=1,key=2,size=3 --page-size 8KiB -o large.swt");
    sandbox.stdout("import pages.csv --columns time=1,key=2 -o timed.swt");
    for (name, words) in
        [("whole", "whole.swt: is of whole objects"), ("large", "large.swt: has pages of another size")]
    {
        let error = refused(&sandbox, &format!("export {name}.swt --format lackey -o out.lackey"));
        assert!(error.starts_with(words), "{error}");
    }
    let (_, _, said) = there_and_back(&sandbox, "timed.swt", "lackey");
    assert!(said.contains("left out, because the format has no place for it: times\n"), "{said}");
    let error = refused(&sandbox, "export timed.swt --format csv -o timed.swt");
    assert!(error.starts_with("timed.swt: the command uses that file already"), "{error}");
    // To standard output, for a pipe.
    let csv = sandbox.stdout("export timed.swt --format csv");
    assert_eq!(csv, "time,offset,size,op\n1,0,4096,read\n2,4096,4096,read\n");
}

/// Series over time come to the counts of the whole, and each window has its own.
#[test]
fn windows_have_the_faults_of_the_whole() {
    let sandbox = Sandbox::new();
    let mut random = Random(3);
    let log: Vec<(u64, u64)> = (0..6_000).map(|number| (number * number / 6_000, random.skewed(9))).collect();
    sandbox.write("log.csv", log.iter().map(|(time, key)| format!("{time},{key},9\n")).collect::<String>());
    sandbox.stdout("import log.csv --columns time=1,key=2 -o log.swt");
    let options = "-p lru,clock -m 30p,100p --over-time series.csv --format csv";
    for (windows, of_window) in [("7", None), ("500s", Some(500))] {
        let csv = sandbox.stdout(&format!("simulate log.swt {options} --windows {windows}"));
        let series = read_text(sandbox.path("series.csv"));
        let rows: Vec<Vec<&str>> = series.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(
            series.lines().next().unwrap(),
            "trace,policy,memory_pages,window,start_references,start_seconds,references,faults,first_touch_faults,\
             evictions,miss_ratio",
            "--windows {windows}"
        );
        assert_eq!(csv.lines().count(), 5, "a header, and two policies in two sizes");
        for row in csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()) {
            let own: Vec<_> = rows.iter().filter(|other| other[1] == row[1] && other[2] == row[2]).collect();
            let sum = |field: usize| own.iter().map(|row| row[field].parse::<u64>().unwrap()).sum::<u64>();
            assert_eq!(
                [6, 7, 8, 9].map(sum).map(|sum| sum.to_string()),
                [row[3], row[5], row[6], row[8]],
                "--windows {windows}: {row:?}"
            );
        }
        // LRU in 30 pages, by window.
        let mut cache = Cache::new("lru", 30);
        let (mut expected, mut before) = (Vec::new(), 0);
        let end_of = |number: u64| match of_window {
            Some(length) => log[number as usize].0 / length,
            None => number * 7 / 6_000,
        };
        for (number, (_, page)) in (0..).zip(&log) {
            cache.access(*page, false);
            if number + 1 == 6_000 || end_of(number + 1) != end_of(number) {
                expected.push((end_of(number) + 1, cache.faults - before));
                before = cache.faults;
            }
        }
        let found: Vec<(u64, u64)> = rows
            .iter()
            .filter(|row| (row[1], row[2]) == ("lru", "30"))
            .map(|row| (row[3].parse().unwrap(), row[7].parse().unwrap()))
            .collect();
        if of_window.is_some() {
            assert_eq!(found, expected, "--windows {windows}");
        } else {
            assert_eq!(found.len(), 7, "--windows {windows}");
        }
    }
    let page = "report log.swt -p lru,clock -m 50% -o report.html";
    sandbox.stdout(page);
    let page = read_text(sandbox.path("report.html"));
    assert!(
        page.contains("Over time") && page.contains("miss ratio over time, log"),
        "no series in the report"
    );
}

#[test]
fn what_cannot_be_shown_over_time_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("pages.txt", "1\n2\n");
    let error = refused(&sandbox, "simulate pages.txt -p lru -m 1p --over-time x.csv --windows 1h");
    assert!(error.starts_with("pages.txt: has no times; give a number of windows"), "{error}");
    let error = refused(&sandbox, "simulate pages.txt -p lru -m 1p --over-time pages.txt");
    assert!(error.starts_with("pages.txt: the command uses that file already"), "{error}");
    assert!(!sandbox.path("x.csv").exists());
}

/// Objects expire as in a cache that is written out here, read from a log as people have it.
#[test]
fn objects_expire_and_are_counted_apart() {
    let sandbox = Sandbox::new();
    let mut random = Random(9);
    let mut log = String::from("time,key,size,op,ttl\n");
    let mut cache: HashMap<u64, u64> = HashMap::new();
    let [mut misses, mut expired] = [0u64; 2];
    for number in 0..4_000_u64 {
        let (time, key, ttl) = (number / 8, random.skewed(8), [0, 7, 30, 90][random.below(4) as usize]);
        let op = if random.below(6) == 0 { "set" } else { "get" };
        log += &format!(
            "{time},{key},{},{op},{}\n",
            10 + key,
            if ttl == 0 { String::new() } else { ttl.to_string() }
        );
        let known = cache.get(&key).copied();
        let is_hit = known.is_some_and(|end| end >= time);
        misses += u64::from(!is_hit);
        expired += u64::from(known.is_some() && !is_hit);
        if !is_hit || op == "set" {
            cache.insert(key, if ttl == 0 { u64::MAX } else { time + ttl });
        }
    }
    sandbox.write("log.csv", log);
    let columns = "--columns time=time,key=key,size=size,op=op,ttl=ttl --whole-objects";
    sandbox.stdout(&format!("import log.csv {columns} -o log.swt"));
    let csv = sandbox.stdout("simulate log.swt --whole-objects -m 1GiB -p bound,lru,gdsf --format csv");
    assert!(csv.lines().next().unwrap().ends_with(",passed,evictions,expired"), "{csv}");
    let field = |row: &str, field: usize| row.split(',').nth(field).unwrap().to_string();
    assert!(expired > 300, "{expired}");
    for row in csv.lines().skip(2) {
        assert_eq!((field(row, 4), field(row, 11)), (misses.to_string(), expired.to_string()), "{row}");
    }
    assert!(field(csv.lines().nth(1).unwrap(), 4).parse::<u64>().unwrap() <= misses);
    let table = sandbox.stdout("simulate log.swt --whole-objects -m 1GiB -p lru");
    assert!(table.contains(" of the misses in each cell are of objects that had expired."), "{table}");
    // Exported and imported again, they expire as before.
    let (there, back, _) = there_and_back(&sandbox, "log.swt", "csv");
    assert!(there == back);
    // Without times, they do not.
    let said = text(
        &sandbox.run("import log.csv --columns key=2,size=3,ttl=5 --header --whole-objects -o no.swt").stderr,
    );
    assert!(
        said.contains("times to live are ignored: only whole objects expire, in a log with times"),
        "{said}"
    );
    let csv = sandbox.stdout("simulate no.swt --whole-objects -m 1GiB -p lru --format csv");
    assert!(csv.lines().next().unwrap().ends_with(",passed,evictions"), "{csv}");
}

#[test]
fn a_negative_time_to_live_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.csv", "1,a,5,-3\n");
    let error =
        sandbox.error("import bad.csv --columns time=1,key=2,size=3,ttl=4 --whole-objects -o bad.swt");
    assert!(error.contains("not a number of seconds in the column of times to live"), "{error}");
}

/// Merged inputs are what sorting them first gives; without times they are refused, or read in
/// order.
#[test]
fn several_inputs_are_merged_by_time() {
    let sandbox = Sandbox::new();
    let mut random = Random(21);
    std::fs::create_dir_all(sandbox.path("logs/deeper")).unwrap();
    let mut all: Vec<(u64, usize, String)> = Vec::new();
    for (input, name) in ["a.csv", "b.csv", "c.csv"].into_iter().enumerate() {
        let (mut time, mut log) = (random.below(50), String::from("t,key,size,op\n"));
        for _ in 0..1_000 {
            time += random.below(3);
            let op = if random.below(20) == 0 { "delete" } else { "get" };
            let row = format!("{time},user:{},{},{op}\n", random.skewed(8), 1 + random.below(3) * 4_000);
            log += &row;
            all.push((time, input, row));
        }
        sandbox.write(&format!("logs/{name}"), log);
    }
    sandbox.write("logs/.hidden", "no log\n");
    all.sort_by_key(|(time, input, _)| (*time, *input));
    let sorted: String = all.iter().map(|(_, _, row)| row.as_str()).collect();
    sandbox.write("sorted.csv", format!("t,key,size,op\n{sorted}"));
    for options in ["", " --whole-objects", " --window 50"] {
        let columns = format!("--columns time=t,key=key,size=size,op=op{options}");
        sandbox.stdout(&format!("import sorted.csv {columns} -o sorted.swt"));
        let output = sandbox.run(&format!("import logs {columns} -o merged.swt"));
        let said = text(&output.stderr);
        assert!(
            output.status.success() && said.contains("3 inputs, merged by time: logs/a.csv, "),
            "{options}: {said}"
        );
        assert!(contents(&sandbox, "merged.swt") == contents(&sandbox, "sorted.swt"), "{options}");
        let files = "logs/a.csv logs/b.csv logs/c.csv";
        sandbox.stdout(&format!("import {files} {columns} -o merged.swt"));
        assert!(contents(&sandbox, "merged.swt") == contents(&sandbox, "sorted.swt"), "{options}");
    }
    for (arguments, words) in [
        (
            "logs --columns key=key -o x.swt",
            "logs/a.csv: several inputs are merged by time, and this one has no",
        ),
        ("logs logs/a.csv --columns time=t,key=key -o x.swt", "logs/a.csv: is named twice"),
        ("logs sorted.swt --columns time=t,key=key -o x.swt", "sorted.swt: is a trace already"),
        ("logs --columns time=t,key=key -o logs/b.csv", "logs/b.csv: the command uses that file already"),
        ("logs --columns time=t,key=key --show", "--show: is for one input; there are 3"),
        ("logs/deeper --columns time=t,key=key -o x.swt", "logs/deeper: there is no file in this directory"),
        ("logs/a.csv missing.csv --columns time=t,key=key -o x.swt", "missing.csv: "),
    ] {
        let error = refused(&sandbox, &format!("import {arguments}"));
        assert!(error.starts_with(words), "{arguments}: {error}");
        assert!(!sandbox.path("x.swt").exists(), "{arguments}");
    }
    // An error names the input and its own line.
    sandbox.write("bad.csv", "t,key,size,op\n5,a,1,get\nx,a,1,get\n");
    let error = sandbox.error("import logs/a.csv bad.csv --columns time=t,key=key -o x.swt");
    assert!(error.starts_with("bad.csv: line 3 "), "{error}");
    // One after another, on request.
    sandbox.write("1.txt", "1\n2\n3");
    sandbox.write("2.txt", "3\n4\n");
    let error = refused(&sandbox, "import 1.txt 2.txt -o x.swt");
    assert!(error.starts_with("1.txt: several inputs are merged by time"), "{error}");
    sandbox.stdout("import 2.txt 1.txt --in-order -o both.swt");
    let pages: Vec<u64> = contents(&sandbox, "both.swt").0.into_iter().map(|(page, _)| page).collect();
    assert_eq!(pages, [3, 4, 1, 2, 3]);
    sandbox.write("3.txt", "1\n2\nx\n");
    let error = sandbox.error("import 1.txt 3.txt --in-order -o x.swt");
    assert!(error.starts_with("3.txt: line 3 (byte 4): "), "{error}");
    sandbox.stdout("import logs --columns key=key --in-order -o ordered.swt");
    assert_eq!(contents(&sandbox, "ordered.swt").0.len(), 3_000);
}
