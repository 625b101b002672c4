//! What people and programs are shown: the page, the pictures, the advice, and JSON that keeps to
//! its schemas.

mod sandbox;
mod schema;

use sandbox::{Sandbox, sweephand};
use schema::keeps_to;
use std::fs;
use std::path::Path;
use std::process::Command;
use sweephand_checks::{Need, has_program, read_text, skip};

/// A loop over an object, with pages outside of it now and then: PGTR, our recorder's wire format.
fn with_a_loop() -> Sandbox {
    let mut stream = b"PGTR\x01\x0c\x01\x00\x04loop".to_vec();
    let number = |mut value: u64, out: &mut Vec<u8>| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    // ALLOC of 40 pages at page 256, by malloc.
    number(3, &mut stream);
    [256 << 12, 40 << 12, 0].into_iter().for_each(|operand| number(operand, &mut stream));
    let mut last = 0i64;
    for time in 0..3000i64 {
        let page = if time % 50 == 0 { 1 + time / 600 } else { 256 + time % 40 };
        let step = page - last;
        last = page;
        let write = u64::from(time % 3 == 0) << 1;
        number((((step << 1) ^ (step >> 63)) as u64) << 2 | write, &mut stream);
    }
    // END: instructions, references, runs, records, objects, their bytes, touches by system calls.
    number(1, &mut stream);
    let totals = [9000, 3000, 3000, 3000, 1, 40 << 12, 0];
    totals.into_iter().for_each(|operand| number(operand, &mut stream));
    let sandbox = Sandbox::new();
    sandbox.write("loop.pt", stream);
    sandbox
}

/// The text of every element of a kind, without the elements in it.
fn texts(html: &str, kind: &str) -> Vec<String> {
    let ends = format!("</{kind}>");
    html.split(&format!("<{kind}"))
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('>')?.1.split_once(&ends[..])?.0.to_string()))
        .collect()
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let sandbox = with_a_loop();
    sandbox.stdout("report loop.pt -o report.html");
    let page = read_text(sandbox.path("report.html"));
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    assert_eq!(texts(&page, "title")[0], "loop: memory report");
    assert_eq!(texts(&page, "h1"), ["loop"]);
    assert_eq!(
        texts(&page, "h2"),
        [
            "Page faults by memory size",
            "Pages against time",
            "Where the faults are",
            "What could be done",
            "Over time",
            "Reuse distances"
        ]
    );
    // Nothing is fetched: pictures are in the page, links lead nowhere else.
    for attribute in ["src=\"", "href=\"", "url("] {
        for value in page.split(attribute).skip(1) {
            assert!(value.starts_with("data:") || value.starts_with('#'), "{attribute}{:.60}", value);
        }
    }
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert!(page.contains("default-src 'none'"), "and nothing may be");
    assert!(page.contains("prefers-color-scheme:dark"));
    assert!(page.len() < 500_000, "{} bytes", page.len());
    // Four variants of the chart with a line a policy, which are the columns of the table, and two
    // of the series over time, with a line for each policy whose faults are told apart by object.
    assert_eq!(page.matches("data-name=").count(), 4 * 8 + 2 * 3);
    assert_eq!(page.matches("class=\"value\"").count(), 4 * 8);
    for policy in "opt lru clock car clock-pro-strict lirs mglru sieve".split(' ') {
        let heading = format!("<th scope=\"col\"><a href=\"#policy-{policy}\">{policy}</a></th>");
        assert!(page.contains(&heading) && page.contains(&format!("id=\"policy-{policy}\"")), "{policy}");
    }
    assert!(page.contains("malloc at 0x100000") && page.contains("no object: stack, globals, small blocks"));
    // Two layers of the whole, two of the object.
    assert_eq!(page.matches("data:image/png;base64,").count(), 4);
    assert!(!page.contains("{{") && !page.contains("{%"));
}

#[test]
fn the_numbers_of_a_report_are_those_of_simulate() {
    let sandbox = with_a_loop();
    let page = sandbox.stdout("report loop.pt -p opt,clock -m 20%,50% -o -");
    let csv = sandbox.stdout("simulate loop.pt -p opt,clock -m 20%,50%,100% --format csv");
    let faults: Vec<String> = csv.lines().skip(1).map(|row| row.split(',').nth(5).unwrap().into()).collect();
    let plain = page.replace(',', "");
    for size in 0..3 {
        let cells = format!("<td>{}</td><td>{}</td>", faults[size], faults[3 + size]);
        assert!(plain.contains(&cells), "size {size}: {cells}");
    }
}

#[test]
fn several_traces_have_a_section_each() {
    let sandbox = with_a_loop();
    sandbox.write("<b>&.txt", "1\n2\n3\n1\n2\n4\n");
    let page = sandbox.stdout("report loop.pt <b>&.txt -o -");
    assert_eq!(texts(&page, "h1"), ["2 traces"]);
    assert_eq!(texts(&page, "h2"), ["loop", "&lt;b&gt;&amp;"]);
    assert!(page.contains("<a href=\"#trace-2\">"));
    assert!(!page.contains("<b>"), "names are words, never elements");
}

#[test]
fn pictures_are_svg_or_png_by_their_names() {
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    for what in ["faults", "pages", "distances"] {
        sandbox.stdout(&format!("plot {what} loop.pt -o x.svg"));
        sandbox.stdout(&format!("plot {what} loop.pt --log -o x.png"));
        let svg = read_text(sandbox.path("x.svg"));
        assert!(
            svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"788\""),
            "{what}: {svg:.90}"
        );
        assert!(svg.ends_with("</svg>") && !svg.contains("var(--") && !svg.contains("NaN"), "{what}");
        assert_eq!(fs::read(path.join("x.png")).unwrap()[..8], *b"\x89PNG\r\n\x1a\n", "{what}");
    }
    let error = sandbox.run("plot faults loop.pt -o x.jpeg");
    assert_eq!(error.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(error.stderr).unwrap(),
        "sweephand: x.jpeg: name a picture that ends with .svg or .png\n"
    );
    assert!(!path.join("x.jpeg").exists());
}

#[test]
fn advice_is_five_lines_with_the_command_to_run_next() {
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    fs::rename(path.join("loop.pt"), path.join("it's a loop.pt")).unwrap();
    let output = sweephand()
        .args(["advise", "it's a loop.pt", "-p", "opt,clock,clock-pro-strict", "-m", "25%,50%,75%"])
        .current_dir(path)
        .output()
        .expect("sweephand");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "program   it's a loop: 3,000 references to 45 pages (180 KiB).\n\
         memory    Nothing short of nearly all its memory is enough: clock-pro-strict comes within 10% of the least faults only at 168 KiB \
         (93% of 180 KiB); its curve is steepest from 136 KiB to 168 KiB, where faults fall from 634 to 45.\n\
         policy    Of the 2 policies that could run live clock-pro-strict is best: 57% fewer faults than clock on average where memory is \
         short, most at 136 KiB: 634 instead of 3,000.\n\
         headroom  opt, which knows the future, would take 11% fewer faults than clock-pro-strict on average, most at 136 KiB: 513 instead \
         of 634.\n\
         next      sweephand report 'it'\\''s a loop.pt' -o 'it'\\''s a loop.html'\n"
    );
    let next = "report 'it'\\''s a loop.pt' -o 'it'\\''s a loop.html'";
    let shell = format!("{} {next}", env!("CARGO_BIN_EXE_sweephand"));
    assert!(Command::new("sh").args(["-c", &shell]).current_dir(path).status().expect("sh").success());
    assert!(path.join("it's a loop.html").exists());
}

#[test]
fn advice_names_the_run_of_a_program_whose_command_is_known() {
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    let numpy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/numpy.swt");
    fs::copy(numpy, path.join("numpy.swt")).unwrap();
    let info: serde_json::Value =
        serde_json::from_str(&sandbox.stdout("info numpy.swt --format json")).unwrap();
    let command: Vec<&str> =
        info["metadata"]["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let next = |policies: &str| -> Vec<String> {
        let advice = sandbox.stdout(&format!("advise numpy.swt -p {policies} -m 50%,70%,80% --format json"));
        let advice: serde_json::Value = serde_json::from_str(&advice).unwrap();
        serde_json::from_value(advice["next"].clone()).unwrap()
    };
    let words = next("opt,lirs,clock,clock-pro-strict");
    let [sweephand, run, memory, size, policy, name, end, program @ ..] = &words[..] else {
        panic!("{words:?}")
    };
    assert_eq!([sweephand, run, memory, policy, end], ["sweephand", "run", "--memory", "--policy", "--"]);
    assert_eq!(name, "clock-pro-strict", "the best that can run live");
    let mebibytes: u64 = size.strip_suffix("MiB").unwrap().parse().unwrap();
    assert!((32..65).contains(&mebibytes), "{size} of its 64.5 MiB");
    assert_eq!(program, command);
    // None of the policies simulated can run live: look at the report.
    assert_eq!(next("opt,lirs"), ["sweephand", "report", "numpy.swt", "-o", "numpy.html"]);
}

#[test]
fn advice_about_a_program_records_it_first() {
    if !has_program("valgrind") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = sweephand()
        .args(["advise", "-p", "opt,clock", "--", "sh", "-c", "echo said; exit 3"])
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .current_dir(directory.path())
        .output()
        .expect("sweephand");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "the program's own");
    // What the program prints is not among the advice.
    assert!(said.starts_with("program   sh: "), "{said}");
    assert!(String::from_utf8(output.stderr).unwrap().lines().any(|line| line == "said"));
    assert!(said.contains("\nnext      sweephand report sh.swt -o sh.html\n"), "{said}");
    // What is recorded says which code touches pages.
    assert_eq!(said.lines().nth(5).map(|line| &line[..9]), Some("lines    "), "{said}");
    assert!(directory.path().join("sh.swt").exists());
}

#[test]
fn bad_input_gets_one_line_and_leaves_nothing_behind() {
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    sandbox.write("empty.txt", "*\n");
    let cases = [
        ("report empty.txt -o r.html", "empty.txt: "),
        ("report loop.pt missing.swt -o r.html", "missing.swt: "),
        ("report loop.pt -p lur -o r.html", "policy 'lur': there is no such policy"),
        ("report loop.pt -m all -o r.html", "--memory: name 100 sizes at most"),
        ("report loop.pt -o no/r.html", "no/r.html: cannot be created"),
        ("advise empty.txt", "empty.txt: "),
        ("advise -- no-such-program", "no-such-program: there is no such program"),
        ("plot pages empty.txt -o p.svg", "empty.txt: "),
    ];
    for (arguments, message) in cases {
        let output = sandbox.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {error}");
        assert!(error.starts_with(&format!("sweephand: {message}")), "{arguments}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments}: {error}");
    }
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["empty.txt", "loop.pt"]);
}

/// Tasks that run a small program, with policies with and without a window and a hand.
const MACHINE: &str = "name = 'small'\nframes = 20\nseeds = [1, 2]\ntheta = [500]\npolicies = ['ws', 'wsclock', 'global-clock']\n\
                       [devices]\naccess_refs = [50, 100]\n[tasks]\nprograms = ['task.swt']\ncount = 3\n";
const TASK: &str = "generate zipf --pages 30 --references 20000 --seed 1 --writes 0.3 -o task.swt";

#[test]
#[cfg(feature = "parquet")]
fn parquet_is_a_file_of_its_own_kind() {
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    sandbox.write("machine.toml", MACHINE);
    sandbox.stdout(TASK);
    for command in ["simulate loop.pt -p opt,clock -m 50%", "multiprogram machine.toml"] {
        sandbox.stdout(&format!("{command} --format parquet -o results.parquet"));
        let file = fs::read(path.join("results.parquet")).unwrap();
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"), "{command}");
        assert_eq!(sandbox.run(&format!("{command} --format parquet")).stdout, file, "{command}");
    }
}

#[test]
fn json_keeps_to_its_schema() {
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    sandbox.write("flat.txt", "1\n2\n");
    sandbox.write("machine.toml", MACHINE);
    sandbox.stdout(TASK);
    sandbox.stdout("import --irim 100 loop.pt -o loop.irim");
    sandbox.stdout("generate zipf --pages 3000 --references 20000 -o zipf.swt");
    let commands = [
        ("simulate.json", "simulate loop.pt flat.txt -p opt,lru,clock-pro -m 20%,50% --format json"),
        ("simulate.json", "simulate zipf.swt -p opt,lru -m 20%,50% --sample 20% --format json"),
        ("simulate.json", "simulate loop.pt flat.txt -p opt,lru -m 20%,50% --warmup 50% --format json"),
        ("simulate-tiers.json", "simulate loop.pt -m 50% --tiers zswap --format json"),
        ("simulate-tiers.json", "simulate loop.pt -m 50% --tiers zswap --device ssd --format json"),
        ("simulate-tiers.json", "simulate loop.pt -m 50% --tiers zram --resident 50% --format json"),
        ("simulate.json", "simulate loop.pt -p clock -m 50% --device ssd --native 1 --format json"),
        ("advise.json", "advise loop.pt --format json"),
        ("advise.json", "advise loop.pt --device ssd --native 1 --format json"),
        ("advise.json", "advise zipf.swt -p clock -m 40% --device hdd --native 1 --format json"),
        ("advise.json", "advise flat.txt -p clock -m 2p --format json"),
        ("info.json", "info loop.pt --format json --verify"),
        ("info.json", "info flat.txt --format json"),
        ("info-irim.json", "info loop.irim --format json"),
        ("policies.json", "policies --format json"),
        ("multiprogram.json", "multiprogram machine.toml --format json"),
    ];
    for (schema, arguments) in commands {
        let document = sandbox.stdout(arguments);
        let Some(kept) = keeps_to(schema, &document, path) else { return };
        kept.unwrap_or_else(|error| panic!("{arguments}: {error}"));
        // The schema is strict: a name that changes is a breach.
        let changed = ["checksum\"", "\"summary\"", "\"mean_mpl\""];
        let changed = changed.iter().fold(document, |text, name| text.replace(name, "\"gist\""));
        assert!(keeps_to(schema, &changed, path).unwrap().is_err(), "{arguments}");
    }
}

#[test]
fn counts_of_a_run_keep_to_their_schema() {
    let sandbox = Sandbox { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
    let path = sandbox.directory.path();
    let output = sandbox.run("run --memory 16MiB --swap . --stats counts.json -- true");
    if !output.status.success() {
        return skip(Need::Userfaultfd, String::from_utf8_lossy(&output.stderr));
    }
    let counts = read_text(sandbox.path("counts.json"));
    let Some(kept) = keeps_to("run.json", &counts, path) else { return };
    kept.unwrap();
    let without = counts.replace("\"evictions\"", "\"gist\"");
    assert!(keeps_to("run.json", &without, path).unwrap().is_err(), "every count is needed");
}

/// In a browser: needs Node and Chromium.
#[test]
fn pages_work_in_a_browser() {
    if !has_program("node") || !has_program("chromium") {
        return;
    }
    let sandbox = with_a_loop();
    let path = sandbox.directory.path();
    sandbox.write("tiny.txt", "1\n2\n3\n1\n2\n4\n");
    sandbox.stdout("report loop.pt tiny.txt -o report.html");
    // With a band of leaders and its table.
    sandbox.stdout("report loop.pt -p opt,clock,lifo-plus,auto -o leaders.html");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/browser/check.mjs");
    for (page, least) in [("report.html", 30), ("leaders.html", 32)] {
        let output = Command::new("node").arg(&script).arg(path.join(page)).output().expect("node");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{page}: {said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.lines().filter(|line| line.starts_with("ok")).count() >= least, "{page}: {said}");
    }
}
