//! `sweephand watch --json`, for tests of processes and of services.
// Not every test uses all of it.
#![allow(dead_code)]

use crate::live::{Running, command, output, spawn, sweephand, text};
use crate::schema::keeps_to;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Stdio};
use sweephand_checks::{Need, skip};

/// A watch with its lines.
pub(crate) struct Watch {
    pub(crate) process: Running,
    lines: Lines<BufReader<ChildStdout>>,
    /// That of its lines, in docs/schema.
    schema: &'static str,
    /// A line of each kind of event, to be held to the schema at the end: that takes long.
    to_check: BTreeMap<String, String>,
}

impl Watch {
    /// Its overhead is 100 % unless the arguments say otherwise.
    pub(crate) fn start(schema: &'static str, arguments: &[&str]) -> Self {
        let mut watch = sweephand();
        watch.args(["watch", "--json"]).args(arguments);
        if !arguments.contains(&"--overhead") {
            watch.args(["--overhead", "100%"]);
        }
        let mut process = spawn(watch.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null()));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, schema, to_check: BTreeMap::new() }
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        let event = value["event"].as_str().unwrap().to_string();
        let is_end = event == "end";
        self.to_check.entry(event).or_insert(line);
        if is_end {
            for line in self.to_check.values() {
                let checked = keeps_to(self.schema, line, tempfile::tempdir().unwrap().path());
                if let Some(Err(error)) = checked {
                    panic!("{error}: {line}");
                }
            }
        }
        Some(value)
    }

    /// The next line about some kind of event.
    pub(crate) fn next_of(&mut self, event: &str) -> Value {
        loop {
            let line = self.next().unwrap_or_else(|| panic!("no {event}"));
            if line["event"] == event {
                return line;
            }
        }
    }

    /// It ends with these words.
    pub(crate) fn ends_with(mut self, words: &str) {
        assert_eq!(self.next_of("end")["words"], words);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Whether processes can be watched here (`--pid`), or services (`--tree`). If not, the command
/// says in a line what is missing.
pub(crate) fn can_watch(option: &str) -> bool {
    let sleeper = spawn(command("sleep").arg("600"));
    let output = output(sweephand().args(["watch", "--for", "100ms", option]).arg(sleeper.id().to_string()));
    if output.status.success() {
        return true;
    }
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("root is missing") || said.contains("BPF is missing"), "{said}");
    skip(if said.contains("BPF") { Need::Bpf } else { Need::Root }, said);
    false
}
