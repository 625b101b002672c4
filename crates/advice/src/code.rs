//! Faults by the code that took them: by line, and by call stack for flame graphs.

use crate::pprof::Profile;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use sweephand_sim::{Attribution, CodeCounts};
use sweephand_trace::places::{Frame, Places, Stack};

/// What stands for code that is not known.
const UNKNOWN: &str = "[code not known]";
/// Follows a line that imports modules, for what the import itself did.
pub(crate) const IMPORTING: &str = ", importing modules";

/// The code of a program with its faults under some policies, at one memory size.
#[derive(Clone, Debug, Default)]
pub struct CodeStudy {
    places: Places,
    /// Faults by place, in the order of the policies. Only places with faults.
    faults: BTreeMap<Option<u32>, Vec<u64>>,
    lines: Vec<StudiedLine>,
}

/// A line of the program with its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StudiedLine {
    /// The line, as `relax.py:12 in step`; module and offset if there is no debug information.
    pub code: String,
    /// The function inside it that took most of its faults, if it is another: `memset` of a call.
    pub inside: Option<String>,
    /// References stored that it made.
    pub records: u64,
    /// Its faults, by policy.
    pub faults: Vec<u64>,
    /// The objects that it had faults on, by their numbers in order of allocation from 1, and 0 for
    /// none; with its faults under the first policy, the most first.
    pub objects: Vec<(usize, u64)>,
    /// Whether the reader could edit it: see [`is_editable`].
    pub(crate) is_editable: bool,
}

/// A box of a flame graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flame {
    /// The function and line.
    pub name: String,
    /// Faults in it and in what it calls.
    pub faults: u64,
    /// What it calls, the one with most faults first.
    pub calls: Vec<Flame>,
}

/// A line while it is added up.
#[derive(Default)]
struct Sum {
    records: u64,
    faults: Vec<u64>,
    inside: HashMap<String, u64>,
    objects: HashMap<usize, u64>,
    is_editable: bool,
}

impl CodeStudy {
    /// That of an attribution, with the trace's places; empty if the code is not known.
    pub fn of(places: Option<&Places>, attribution: &Attribution) -> Self {
        let Some(places) = places.filter(|_| attribution.code.iter().any(|code| code.place.is_some())) else {
            return Self::default();
        };
        let mut faults: BTreeMap<Option<u32>, Vec<u64>> = BTreeMap::new();
        let mut names: HashMap<Option<u32>, (String, Option<String>)> = HashMap::new();
        let mut lines: BTreeMap<String, Sum> = BTreeMap::new();
        for CodeCounts { place, object, records, faults: counted } in &attribution.code {
            let counted: Vec<u64> = counted.iter().map(|counted| counted.faults).collect();
            let (line, inside) = names.entry(*place).or_insert_with(|| name(places, *place));
            let sum = lines.entry(line.clone()).or_insert_with(|| {
                let stack = place.map(|place| places.stack(place));
                let frame = stack.as_ref().and_then(Stack::place);
                Sum { is_editable: frame.is_some_and(is_editable), ..Sum::default() }
            });
            sum.records += records;
            add(&mut sum.faults, &counted);
            let first = counted.first().copied().unwrap_or_default();
            *sum.objects.entry(*object).or_default() += first;
            *sum.inside.entry(inside.clone().unwrap_or_default()).or_default() += first;
            if counted.iter().any(|faults| *faults > 0) {
                add(faults.entry(*place).or_default(), &counted);
            }
        }
        let mut lines: Vec<StudiedLine> = lines.into_iter().map(|(code, sum)| sum.line(code)).collect();
        lines.retain(|line| line.faults.iter().any(|faults| *faults > 0));
        lines.sort_by_key(|line| std::cmp::Reverse(line.faults.first().copied()));
        Self { places: places.clone(), faults, lines }
    }

    /// The line of the first of these places that does not only import modules. If there is Python
    /// code among them, it is a line of that: the rest is the interpreter, which ends. `None` if
    /// nobody [can edit](is_editable) that.
    pub(crate) fn first_own(&self, places: &[(u32, u64)]) -> Option<String> {
        let is_python = |stack: &Stack| stack.place().is_some_and(Frame::is_python);
        let stacks: Vec<Stack> = places.iter().map(|(place, _)| self.places.stack(*place)).collect();
        let has_python = stacks.iter().any(is_python);
        let own = stacks.iter().find(|stack| !stack.imports() && is_python(stack) == has_python);
        own.and_then(Stack::place).filter(|frame| is_editable(frame)).map(label)
    }

    /// Whether the code is not known.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines with faults, the one with most under the first policy first.
    pub fn lines(&self) -> &[StudiedLine] {
        &self.lines
    }

    /// The line with the most faults under the first policy on these objects, and how many; not one
    /// that only imports modules. `None` if nobody [can edit](is_editable) it.
    pub(crate) fn busiest_on(&self, objects: &HashSet<usize>) -> Option<(String, u64)> {
        let on = |line: &StudiedLine| -> u64 {
            let counted = line.objects.iter().filter(|(object, _)| objects.contains(object));
            counted.map(|(_, faults)| faults).sum()
        };
        let lines = self.lines.iter().filter(|line| !line.code.ends_with(IMPORTING));
        let (line, faults) = lines.map(|line| (line, on(line))).max_by_key(|(_, faults)| *faults)?;
        (faults > 0 && line.is_editable).then(|| (line.code.clone(), faults))
    }

    /// What the reader should know of the code with the faults.
    pub fn notes(&self) -> Vec<String> {
        self.note_on_end().into_iter().chain(self.note_on_debug_information()).collect()
    }

    /// How to save the faults that an interpreter takes as it ends, if they are many.
    fn note_on_end(&self) -> Option<String> {
        let first = |faults: &[u64]| faults.first().copied().unwrap_or_default();
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        for (place, faults) in &self.faults {
            let stack = place.map(|place| self.places.stack(place)).unwrap_or_default();
            if let Some(end) = stack.0.into_iter().find(Frame::ends_interpreter) {
                *ends.entry(end.function.unwrap_or_default()).or_default() += first(faults);
            }
        }
        let all: u64 = self.faults.values().map(|faults| first(faults)).sum();
        let (function, faults) = ends.into_iter().max_by_key(|(_, faults)| *faults)?;
        let leave = match function.as_str() {
            "Py_FinalizeEx" => "os._exit(0)",
            "perl_destruct" => "POSIX::_exit(0)",
            _ => "exit!",
        };
        (10 * faults > all).then(|| {
            format!(
                "{}% of the faults come as the interpreter ends ({function}): it goes over all that is left to free it. \
                 A program that has written and closed its files can end with {leave} instead.",
                100 * faults / all
            )
        })
    }

    /// What can be done about code without debug information, if it has many faults.
    fn note_on_debug_information(&self) -> Option<String> {
        let mut modules: BTreeMap<String, u64> = BTreeMap::new();
        let mut all = 0;
        for (place, faults) in &self.faults {
            let faults = faults.first().copied().unwrap_or_default();
            all += faults;
            let stack = place.map(|place| self.places.stack(place));
            let place = stack.as_ref().and_then(Stack::place);
            // What is made at run time has no debug information to install.
            if let Some(Frame { line: None, module, .. }) = place.filter(|frame| !frame.is_made_at_run_time())
            {
                let module = module.rsplit('/').next().unwrap_or_default().to_owned();
                *modules.entry(module).or_default() += faults;
            }
        }
        let without: u64 = modules.values().sum();
        if 10 * without <= all {
            return None;
        }
        let (module, _) = modules.iter().max_by_key(|(_, faults)| **faults)?;
        let share = (100 * without).div_ceil(all);
        Some(format!(
            "Code without debug information takes {share}% of the faults, most of it in {module}: it is named by its place \
             in the file. Compile it with -g, or install its debug symbols, to see lines."
        ))
    }

    /// The stacks with the faults of policy number `policy`, the outermost function first.
    fn stacks(&self, policy: usize) -> Vec<(Vec<Frame>, u64)> {
        let with_faults = self.faults.iter().filter(|(_, faults)| faults[policy] > 0);
        let stack = |place: &Option<u32>| {
            let mut frames = place.map(|place| self.places.stack(place).0).unwrap_or_default();
            frames.reverse();
            frames
        };
        with_faults.map(|(place, faults)| (stack(place), faults[policy])).collect()
    }

    /// The faults of a policy by call stack in the folded format: see
    /// [`ObjectStudy::folded`](crate::ObjectStudy::folded).
    pub fn folded(&self, policy: usize) -> String {
        let mut folded: BTreeMap<String, u64> = BTreeMap::new();
        for (frames, faults) in self.stacks(policy) {
            let names: Vec<_> = frames.iter().map(|frame| label(frame).replace(';', ":")).collect();
            let stack = if names.is_empty() { UNKNOWN.to_owned() } else { names.join(";") };
            *folded.entry(stack).or_default() += faults;
        }
        folded.iter().map(|(stack, faults)| format!("{stack} {faults}\n")).collect()
    }

    /// The faults of these policies by call stack, as a file of speedscope (and of what reads its
    /// format): a profile for each policy. `name` is of the trace, `policies` have names.
    pub fn speedscope(&self, name: &str, policies: &[String]) -> Value {
        let mut frames: Vec<Value> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut number = |frame: &Frame| {
            *numbers.entry(label(frame)).or_insert_with(|| {
                let mut told = json!({ "name": label(frame) });
                if let Some((file, line)) = &frame.line {
                    told["file"] = json!(file);
                    told["line"] = json!(line);
                }
                frames.push(told);
                frames.len() - 1
            })
        };
        let unknown = Frame { module: UNKNOWN.to_owned(), ..Frame::default() };
        let profiles: Vec<Value> = policies
            .iter()
            .enumerate()
            .map(|(at, policy)| {
                let mut samples = Vec::new();
                let mut weights = Vec::new();
                for (stack, faults) in self.stacks(at) {
                    let stack = if stack.is_empty() { vec![unknown.clone()] } else { stack };
                    samples.push(stack.iter().map(&mut number).collect::<Vec<_>>());
                    weights.push(faults);
                }
                let all: u64 = weights.iter().sum();
                json!({
                    "type": "sampled", "name": format!("page faults under {policy}"), "unit": "none",
                    "startValue": 0, "endValue": all, "samples": samples, "weights": weights,
                })
            })
            .collect();
        json!({
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": concat!("sweephand ", env!("CARGO_PKG_VERSION")),
            "name": name,
            "shared": { "frames": frames },
            "profiles": profiles,
        })
    }

    /// The faults of these policies by call stack, as a file of pprof: a kind of value for each.
    pub fn pprof(&self, policies: &[String]) -> Vec<u8> {
        let kinds: Vec<String> = policies.iter().map(|policy| format!("faults under {policy}")).collect();
        let mut profile = Profile::new(&kinds, "faults");
        let unknown = [Frame { module: UNKNOWN.to_owned(), ..Frame::default() }];
        for (place, faults) in &self.faults {
            let stack = place.map(|place| self.places.stack(place).0).filter(|stack| !stack.is_empty());
            profile.sample(stack.as_deref().unwrap_or(&unknown), faults, label);
        }
        profile.finish()
    }

    /// The faults of a policy as a flame graph. Boxes with less than `least` of all faults are left
    /// out.
    pub fn flame(&self, policy: usize, least: f64) -> Flame {
        let mut all = Flame { name: "all faults".to_owned(), ..Flame::default() };
        for (frames, faults) in self.stacks(policy) {
            all.add(frames.iter().map(label), faults);
        }
        let least = (all.faults as f64 * least) as u64;
        all.tidy(least);
        all
    }
}

impl Flame {
    fn add(&mut self, mut names: impl Iterator<Item = String>, faults: u64) {
        self.faults += faults;
        let Some(name) = names.next() else { return };
        let at = self.calls.iter().position(|call| call.name == name).unwrap_or_else(|| {
            self.calls.push(Flame { name, ..Flame::default() });
            self.calls.len() - 1
        });
        self.calls[at].add(names, faults);
    }

    /// Leaves small boxes out, and sorts the others.
    fn tidy(&mut self, least: u64) {
        self.calls.retain(|call| call.faults >= least.max(1));
        self.calls.sort_by_key(|call| std::cmp::Reverse(call.faults));
        self.calls.iter_mut().for_each(|call| call.tidy(least));
    }
}

impl Sum {
    fn line(self, code: String) -> StudiedLine {
        let inside = self.inside.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
        let mut objects: Vec<_> = self.objects.into_iter().filter(|(_, faults)| *faults > 0).collect();
        objects.sort_by_key(|(object, faults)| (std::cmp::Reverse(*faults), *object));
        StudiedLine {
            code,
            inside: inside.map(|(name, _)| name).filter(|name| !name.is_empty()),
            records: self.records,
            faults: self.faults,
            objects,
            is_editable: self.is_editable,
        }
    }
}

fn add(sums: &mut Vec<u64>, faults: &[u64]) {
    sums.resize(faults.len(), 0);
    sums.iter_mut().zip(faults).for_each(|(sum, faults)| *sum += faults);
}

/// Where systems keep programs that are installed: an interpreter, for example.
const INSTALLED: [&str; 5] = ["/usr/", "/bin/", "/lib/", "/opt/", "/snap/"];

/// Whether the reader of some advice could edit the code: it was not made as the program ran, it is
/// not an interpreter's end, and if it has no debug information, it is of a program of their own,
/// not of a shared library (a JVM's, say) or of a program that is installed (perl, node).
pub(crate) fn is_editable(frame: &Frame) -> bool {
    let is_shared = || frame.module.rsplit('/').next().unwrap_or_default().contains(".so");
    let is_installed = || INSTALLED.iter().any(|start| frame.module.starts_with(start));
    let is_own = || !frame.is_made_at_run_time() && !is_shared() && !is_installed();
    !frame.ends_interpreter() && (frame.line.is_some() || is_own())
}

/// A line; without debug information the function and its module, whatever the offset in it.
fn label(frame: &Frame) -> String {
    match (&frame.line, &frame.function) {
        (None, Some(function)) => {
            format!("{function} in {}", frame.module.rsplit('/').next().unwrap_or_default())
        }
        _ => frame.to_string(),
    }
}

/// What a place is called, and the function inside, if it is another.
fn name(places: &Places, place: Option<u32>) -> (String, Option<String>) {
    let stack = place.map(|place| places.stack(place)).unwrap_or_default();
    let Some(frame) = stack.place() else { return (UNKNOWN.to_owned(), None) };
    let innermost = &stack.0[0];
    let inside = (innermost != frame).then(|| {
        let module = innermost.module.rsplit('/').next().unwrap_or_default();
        innermost.function.clone().unwrap_or_else(|| module.to_owned())
    });
    let importing = if stack.imports() { IMPORTING } else { "" };
    (format!("{}{importing}", label(frame)), inside)
}
