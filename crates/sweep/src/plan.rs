//! The plan of a sweep: a TOML file.
//!
//! ```toml
//! traces = ["recorded/*.swt", "s3://traces/web.swt", { file = "db.swt", hash = "sha256:…", name = "db" }]
//! policies = ["lru", "clock", "clock-pro:cold=5%"]      # as on the command line; "all" too
//! memory = ["10%", "25%", "64MiB"]                      # likewise, but "all"
//! sample = "1%"                                         # as for simulate --sample; if left out, all pages are simulated
//! sample_seed = 2                                       # as for --sample-seed
//! warmup = "20%"                                        # as for simulate --warmup; not with a sample
//! ```

use crate::error::InFile;
use crate::{Cell, CellKey, Error, Hash, Sample, TraceFile, VERSION, revision};
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use sweephand_policy::line;
use sweephand_policy::registry::Spec;
use sweephand_sim::{DEFAULT_SEED, MemorySize, SampleSize, SampleSizeError, Sampling, Warmup, WarmupError};

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    traces: Vec<TraceEntry>,
    policies: Vec<PlannedPolicy>,
    memory: Vec<String>,
    sample: Option<Sample>,
    warmup: Option<String>,
    /// Where relative paths begin.
    folder: PathBuf,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    traces: Vec<TraceEntry>,
    policies: Vec<String>,
    memory: Vec<String>,
    sample: Option<String>,
    sample_seed: Option<u64>,
    warmup: Option<String>,
}

/// An entry of the list of traces.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a trace is a path, a pattern, a URL, or { file = \"…\", hash = \"xxh3:…\", name = \"…\" }"
)]
enum TraceEntry {
    Name(String),
    Described(DescribedEntry),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedEntry {
    file: String,
    hash: Option<Hash>,
    name: Option<String>,
}

/// A trace that the plan names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedTrace {
    /// What it is called in results: the name that the plan gives it, or else its path or URL as
    /// there, patterns filled in.
    pub name: String,
    /// The path, or the URL (a pattern still, where it has a `*`).
    pub location: String,
    /// Its hash, where the plan has it.
    pub hash: Option<Hash>,
}

/// Whether a location is a URL, such as `s3://bucket/key`, rather than a path.
pub fn is_url(location: &str) -> bool {
    location.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:".contains(&byte))
    })
}

fn is_pattern(location: &str) -> bool {
    location.contains(['*', '?', '['])
}

impl Plan {
    /// Reads a TOML file. Traces are looked for beside it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).in_file(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|reason| Error::file(path, reason))
    }

    /// Reads the text of a TOML file; relative paths of traces begin in `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let plan =
            toml::from_str(text).map_err(|error| line::message(text, error.span(), error.message()))?;
        Self::check(plan, folder)
    }

    /// Reads the same as JSON.
    pub fn parse_json(text: &str, folder: &Path) -> Result<Self, String> {
        let plan = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::check(plan, folder)
    }

    fn check(plan: PlanFile, folder: &Path) -> Result<Self, String> {
        let PlanFile { traces, policies, memory, sample, sample_seed, warmup } = plan;
        for (list, is_empty) in
            [("traces", traces.is_empty()), ("policies", policies.is_empty()), ("memory", memory.is_empty())]
        {
            if is_empty {
                return Err(format!("{list} is empty: give at least one"));
            }
        }
        let specs = policies.iter().map(|list| Spec::parse_list(list)).collect::<Result<Vec<_>, _>>();
        let specs: Vec<Spec> =
            specs.map_err(|error| format!("policies: {error}"))?.into_iter().flatten().collect();
        let mut sizes = Vec::new();
        for item in memory.iter().flat_map(|list| list.split(',')).map(str::trim) {
            match item.parse::<MemorySize>() {
                Err(error) => return Err(format!("memory: {error}")),
                Ok(MemorySize::All) => {
                    return Err("memory: 'all' is no single size, and a cell has one; list the sizes".into());
                }
                Ok(_) => sizes.push(item.to_string()),
            }
        }
        let sample = match (sample, sample_seed) {
            (Some(size), seed) => Some(sample_of(&size, seed, &specs)?),
            (None, Some(_)) => return Err("sample_seed: there is no sample; add one, or leave it out".into()),
            (None, None) => None,
        };
        Self {
            traces,
            policies: once_each(specs.iter().map(PlannedPolicy::of)),
            memory: once_each(sizes.into_iter()),
            sample,
            warmup: None,
            folder: folder.to_owned(),
        }
        .with_warmup(warmup.as_deref())
    }

    /// The plan with a warm-up; unchanged without.
    ///
    /// # Errors
    /// It is no warm-up, the plan has another, or it has a sample.
    pub fn with_warmup(self, warmup: Option<&str>) -> Result<Self, String> {
        let Some(warmup) = warmup else { return Ok(self) };
        let parsed: Result<Warmup, WarmupError> = warmup.parse();
        let warmup = parsed.map_err(|error| format!("warmup: {error}"))?.to_string();
        if self.sample.is_some() {
            return Err("warmup: not with a sample; leave one of them out".into());
        }
        if let Some(planned) = self.warmup.as_ref().filter(|planned| **planned != warmup) {
            return Err(format!("warmup: the plan has {planned}; change it there, or leave --warmup out"));
        }
        Ok(Self { warmup: Some(warmup), ..self })
    }

    /// The traces, patterns of paths filled in, in the plan's order, each once.
    pub fn traces(&self) -> Result<Vec<NamedTrace>, Error> {
        let mut traces = Vec::new();
        for entry in &self.traces {
            let (file, hash, name) = match entry {
                TraceEntry::Name(file) => (file, None, file),
                TraceEntry::Described(DescribedEntry { file, hash, name }) => {
                    let one = if hash.is_some() { "hash" } else { "name" };
                    if is_pattern(file) && (hash.is_some() || name.is_some()) {
                        return Err(Error::Other(format!(
                            "{file}: one {one} is not for many files; name them one by one"
                        )));
                    }
                    (file, hash.clone(), name.as_ref().unwrap_or(file))
                }
            };
            if is_url(file) {
                traces.push(NamedTrace { name: name.clone(), location: file.clone(), hash });
            } else if is_pattern(file) {
                traces.extend(self.matching(file)?);
            } else {
                let location = self.location(Path::new(file))?;
                traces.push(NamedTrace { name: name.clone(), location, hash });
            }
        }
        let mut seen = HashSet::new();
        traces.retain(|trace| seen.insert(trace.name.clone()));
        Ok(traces)
    }

    /// The files that a pattern stands for, by name.
    fn matching(&self, pattern: &str) -> Result<Vec<NamedTrace>, Error> {
        let wrong = |reason: &dyn ToString| Error::Other(format!("{pattern}: {}", reason.to_string()));
        // What is special in the folder's own name is not meant.
        let folder = glob::Pattern::escape(&self.folder.to_string_lossy());
        let paths =
            glob::glob(&Path::new(&folder).join(pattern).to_string_lossy()).map_err(|error| wrong(&error))?;
        let mut traces = Vec::new();
        for path in paths {
            let path = path.map_err(|error| wrong(&error))?;
            if path.is_file() {
                let name = path.strip_prefix(&self.folder).unwrap_or(&path).display().to_string();
                let location = self.location(Path::new(&name))?;
                traces.push(NamedTrace { name, location, hash: None });
            }
        }
        if traces.is_empty() {
            return Err(wrong(&"no file matches; patterns begin in the plan's folder"));
        }
        Ok(traces)
    }

    /// A path that means the same wherever a worker runs on this machine.
    fn location(&self, name: &Path) -> Result<String, Error> {
        let path = self.folder.join(name);
        let path = std::path::absolute(&path).in_file(&path)?;
        let not_text = || Error::file(&path, "its name is no UTF-8; rename it");
        path.to_str().map(str::to_string).ok_or_else(not_text)
    }

    /// The cells, by trace, policy and memory size.
    pub fn cells(&self, traces: Vec<TraceFile>) -> Cells {
        let Self { policies, memory, sample, warmup, .. } = self.clone();
        Cells { traces, policies, memory, sample, warmup }
    }
}

/// The cells of a plan: every trace under every policy at every memory size. There may be millions:
/// each is made when it is asked for.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    pub(crate) traces: Vec<TraceFile>,
    pub(crate) policies: Vec<PlannedPolicy>,
    pub(crate) memory: Vec<String>,
    pub(crate) sample: Option<Sample>,
    pub(crate) warmup: Option<String>,
}

/// A policy of a plan.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PlannedPolicy {
    /// As on the command line.
    pub(crate) text: String,
    /// Its [revision].
    pub(crate) revision: String,
}

impl PlannedPolicy {
    fn of(spec: &Spec) -> Self {
        Self { text: spec.to_string(), revision: revision(spec) }
    }
}

impl Cells {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.traces.len() * self.policies.len() * self.memory.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them; 0 is the first.
    ///
    /// # Panics
    /// If there are not that many cells.
    pub fn get(&self, place: usize) -> Cell {
        let (of_policies, memory) = (place / self.memory.len(), place % self.memory.len());
        let (trace, policy) = (of_policies / self.policies.len(), of_policies % self.policies.len());
        let PlannedPolicy { text, revision } = self.policies[policy].clone();
        Cell {
            trace: self.traces[trace].clone(),
            policy: text,
            memory: self.memory[memory].clone(),
            sample: self.sample.clone(),
            warmup: self.warmup.clone(),
            revision,
            version: VERSION.to_string(),
        }
    }

    /// Their keys, in order.
    pub(crate) fn keys(&self) -> Vec<CellKey> {
        (0..self.len()).into_par_iter().map(|place| self.get(place).key()).collect()
    }
}

/// The sample that a plan asks for. Whether it is large enough depends on the trace, so that is
/// seen when a cell is computed.
fn sample_of(size: &str, seed: Option<u64>, specs: &[Spec]) -> Result<Sample, String> {
    let size: SampleSize = size.trim().parse().map_err(|error: SampleSizeError| error.to_string())?;
    // A number of pages may be all that there are, and any policy can be told from all of them.
    if matches!(size, SampleSize::Percent(percent) if percent < 100.0) {
        let told = specs.iter().try_for_each(Sampling::check_policy);
        told.map_err(|error| format!("policies: {error}"))?;
    }
    Ok(Sample { size: size.to_string(), seed: seed.unwrap_or(DEFAULT_SEED) })
}

fn once_each<T: Clone + Eq + std::hash::Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        Plan::parse(text, Path::new("somewhere"))
    }

    #[test]
    fn cells_are_the_product_in_order_each_once() {
        let plan = plan("traces = ['a']\npolicies = ['lru,clock:init=1', 'lru']\nmemory = ['10%, 3p', '3p']")
            .unwrap();
        let hash: Hash = "xxh3:0123456789abcdef".parse().unwrap();
        let traces =
            ["a", "b"].map(|name| TraceFile { name: name.into(), location: name.into(), hash: hash.clone() });
        let cells = plan.cells(traces.into());
        let cells: Vec<_> = (0..cells.len())
            .map(|place| cells.get(place))
            .map(|cell| format!("{} {} {}", cell.trace.name, cell.policy, cell.memory))
            .collect();
        assert_eq!(
            cells,
            [
                "a lru 10%",
                "a lru 3p",
                "a clock:init=1 10%",
                "a clock:init=1 3p",
                "b lru 10%",
                "b lru 3p",
                "b clock:init=1 10%",
                "b clock:init=1 3p"
            ]
        );
    }

    #[test]
    fn patterns_are_filled_in_and_names_stay_as_the_plan_has_them() {
        let folder = tempfile::Builder::new().prefix("odd[1]").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["b.swt", "a.swt", "c.txt", "sub/d.swt"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let traces = |list: &str| {
            let text = format!("traces = {list}\npolicies = ['lru']\nmemory = ['3p']");
            Plan::parse(&text, folder.path()).unwrap().traces()
        };
        let names = |list: &str| -> Vec<String> {
            traces(list).unwrap().into_iter().map(|trace| trace.name).collect()
        };
        assert_eq!(
            names("['*.swt', 'a.swt', '*/*.swt', 's3://b/*.swt']"),
            ["a.swt", "b.swt", "sub/d.swt", "s3://b/*.swt"]
        );
        let location = folder.path().join("a.swt").display().to_string();
        assert_eq!(traces("['a.swt']").unwrap()[0].location, location);
        let error = |list: &str| traces(list).unwrap_err().to_string();
        assert_eq!(error("['*.gz']"), "*.gz: no file matches; patterns begin in the plan's folder");
        let hashed = "[{ file = '*.swt', hash = 'xxh3:0123456789abcdef' }]";
        assert_eq!(error(hashed), "*.swt: one hash is not for many files; name them one by one");
        let named = "[{ file = '*.swt', name = 'a' }]";
        assert_eq!(error(named), "*.swt: one name is not for many files; name them one by one");
        let named =
            traces("[{ file = 'a.swt', name = 'a' }, { file = 's3://b/b.swt', name = 'b' }]").unwrap();
        let expected = [("a", location.as_str()), ("b", "s3://b/b.swt")];
        assert_eq!(named.iter().map(|trace| (&*trace.name, &*trace.location)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let error = |text: &str| plan(text).unwrap_err();
        let lists = |traces: &str, policies: &str, memory: &str| {
            error(&format!("traces = {traces}\npolicies = {policies}\nmemory = {memory}"))
        };
        assert_eq!(lists("[]", "['lru']", "['3p']"), "traces is empty: give at least one");
        assert!(
            lists("['a']", "['lur']", "['3p']")
                .starts_with("policies: policy 'lur': there is no such policy")
        );
        assert!(lists("['a']", "['lru']", "['3']").starts_with("memory: memory size '3': give it a unit"));
        assert!(lists("['a']", "['lru']", "['all']").starts_with("memory: 'all' is no single size"));
        assert!(error("trace = []").starts_with("line 1: unknown field `trace`"));
        let wrong_hash = lists("[{ file = 'a', hash = 'md5:1' }]", "['lru']", "['3p']");
        assert!(wrong_hash.starts_with("line 1: a trace is a path"), "{wrong_hash}");
    }

    #[test]
    fn a_sample_is_that_of_simulate_and_refused_as_there() {
        let with = |policies: &str, lines: &str| {
            plan(&format!("traces = ['a']\npolicies = ['{policies}']\nmemory = ['3p']\n{lines}"))
        };
        let trace = TraceFile {
            name: "a".into(),
            location: "a".into(),
            hash: "xxh3:0123456789abcdef".parse().unwrap(),
        };
        let sample = |policies: &str, lines: &str| {
            with(policies, lines).unwrap().cells(vec![trace.clone()]).get(0).sample
        };
        assert_eq!(sample("lru", ""), None);
        let expected = |size: &str, seed| Some(Sample { size: size.into(), seed });
        assert_eq!(sample("lru", "sample = '1.0%'"), expected("1%", 1));
        assert_eq!(sample("lru", "sample = '8192p'\nsample_seed = 7"), expected("8192p", 7));
        // Of all pages, it is no sample.
        assert_eq!(sample("apr", "sample = '100%'"), expected("100%", 1));
        let error = |policies: &str, lines: &str| with(policies, lines).unwrap_err();
        assert_eq!(
            error("lru", "sample = '1'"),
            "sample '1': write a share of the pages as in 1%, or a number as in 8192p"
        );
        let refused = error("lru,seq", "sample = '1%'");
        let words = "policies: seq cannot be told from a sample of the pages: it looks for";
        assert!(refused.starts_with(words), "{refused}");
        assert!(error("all", "sample = '1%'").contains(" cannot be told from a sample of the pages: "));
        assert_eq!(
            error("lru", "sample_seed = 1"),
            "sample_seed: there is no sample; add one, or leave it out"
        );
        assert!(
            error("lru", "sample = 1").starts_with("line 4: invalid type: integer `1`, expected a string")
        );
    }

    #[test]
    fn urls_are_told_from_paths() {
        assert!(["s3://b/k", "https://h/x", "simplecache::s3://b"].into_iter().all(is_url));
        assert!(!["/a/b", "a:b", "C:/x", "://x", "a/b://c"].into_iter().any(is_url));
    }
}
