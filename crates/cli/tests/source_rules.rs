//! Rules for the sources: no module of a crate imports, directly or through others, a module that
//! imports it. So each can be read, and tested, with what it uses, and data flows one way.
//!
//! An import is a path that begins with `crate::` or `super::`, in a `use` or in code. One of a
//! name that a module has from another, as `crate::Name` where the root says
//! `pub use module::Name`, is an import of that other. Test modules do not count: they may use what
//! is above them. Neither do `mod` and `pub use` of a module's own parts: a crate's root and a
//! folder's `mod.rs` name what they consist of.
//!
//! In the crates of [`IN_ORDER`], the table at the head of each folder is in the order of imports,
//! and so are the folders.
//!
//! No function outside tests is longer than a screen ([`MOST_LINES`]). A struct with more than
//! [`MOST_FIELDS`] says why in its documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders with a `Cargo.toml` and sources.
fn crates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![repository()];
    while let Some(folder) = open.pop() {
        if folder.join("Cargo.toml").exists() && folder.join("src").exists() {
            found.push(folder.clone());
        }
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let is_source = !name.starts_with('.') && !["target", "src", "tests"].contains(&name.as_str());
            if is_source && entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found
}

/// The Rust files below a folder with their text. Hidden folders are left out, and what is called
/// as one of `skipped`.
fn sources(folder: &Path, skipped: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let stem = entry.file_stem().unwrap().to_str().unwrap();
            if stem.starts_with('.') || skipped.contains(&stem) {
                continue;
            }
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                found.push((entry, text));
            }
        }
    }
    found
}

/// A crate's files, by the paths of their modules.
fn modules(source: &Path) -> BTreeMap<Vec<String>, String> {
    let mut found: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for (file, text) in sources(source, &[]) {
        let below = file.strip_prefix(source).unwrap().with_extension("");
        let mut module: Vec<String> = below.iter().map(|part| part.to_str().unwrap().to_string()).collect();
        if module.last().is_some_and(|stem| ["lib", "main", "mod"].contains(&stem.as_str())) {
            module.pop();
        }
        // A crate may have both lib.rs and main.rs at its root.
        *found.entry(module).or_default() += text.as_str();
    }
    found
}

/// Source without comments, literals of text, and modules for tests.
fn code(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if next == '"' {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|&(_, letter)| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 1)
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("#[cfg(test)]\nmod ") || rest.starts_with("#[cfg(all(test") {
            let item = &rest[..rest.find(['{', ';']).map_or(rest.len(), |at| at + 1)];
            // A module in braces that begin at the first column ends with one there.
            let ends =
                if item.ends_with(';') { Some(item.len()) } else { rest.find("\n}\n").map(|at| at + 3) };
            ends.unwrap_or(rest.len())
        } else if rest.starts_with("#[cfg(test)]\nuse ") {
            rest.find(';').map_or(rest.len(), |end| end + 1)
        } else {
            code.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        rest = &rest[skipped..];
    }
    code
}

/// Modules in files of their own that exist for tests only, by their paths.
fn test_modules(all: &BTreeMap<Vec<String>, String>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (parent, source) in all {
        for declared in source.split("#[cfg(test)]\nmod ").skip(1) {
            if let Some((name, _)) = declared.split_once(';').filter(|(name, _)| !name.contains([' ', '{'])) {
                found.push([parent.as_slice(), &[name.to_string()]].concat());
            }
        }
    }
    found
}

/// The paths that a piece of code names from `start` on: `a::b`, and each of `a::{b, c::d}`.
fn paths(text: &str) -> Vec<Vec<String>> {
    fn tree(text: &str, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let (mut path, mut at) = (before.to_vec(), 0);
        loop {
            let name: String =
                text[at..].chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            at += name.len();
            if !name.is_empty() {
                path.push(name);
            }
            if !text[at..].starts_with("::") {
                found.push(path);
                return at;
            }
            at += 2;
            if text[at..].starts_with('{') {
                at += 1;
                loop {
                    at += text[at..].len() - text[at..].trim_start().len();
                    if text[at..].starts_with('}') || at >= text.len() {
                        return at + 1;
                    }
                    at += tree(&text[at..], &path, found);
                    at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
                    at += usize::from(text[at..].starts_with(','));
                }
            }
        }
    }
    let mut found = Vec::new();
    tree(text, &[], &mut found);
    found
}

/// Where the names are from that a module passes on: `pub use a::b::Name` is `Name`, from `a::b`.
fn passed_on(module: &[String], source: &str) -> BTreeMap<String, Vec<String>> {
    let code = code(source);
    let mut found = BTreeMap::new();
    for statement in code.split(';') {
        let Some(at) = ["pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .find_map(|start| statement.find(start).map(|at| at + start.len()))
        else {
            continue;
        };
        let text = &statement[at..];
        let is_elsewhere = |path: &Vec<String>| !["crate", "super"].contains(&path[0].as_str());
        for path in paths(text).into_iter().filter(|path| path.len() > 1 && is_elsewhere(path)) {
            let (name, before) = path.split_last().expect("it has names");
            let own = before.iter().filter(|part| *part != "self").cloned();
            let from: Vec<String> = module.iter().cloned().chain(own).collect();
            let renamed = text.split_once(&format!("{name} as ")).map(|(_, new)| {
                new.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
            });
            found.insert(renamed.unwrap_or_else(|| name.clone()), [from, vec![name.clone()]].concat());
        }
    }
    found
}

/// The file that a path leads to: the longest part of it that is one, or the file from which that
/// one has the rest.
fn file_of(
    path: &[String],
    all: &BTreeMap<Vec<String>, String>,
    passed_on: &BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>,
) -> Vec<String> {
    let mut path = path.to_vec();
    // A name is passed on from file to file at most once by each.
    for _ in 0..all.len() {
        let mut file = path.clone();
        while !all.contains_key(&file) && !file.is_empty() {
            file.pop();
        }
        let next = path.get(file.len()).and_then(|name| passed_on.get(&file)?.get(name));
        match next {
            Some(next) => path = [next.as_slice(), &path[file.len() + 1..]].concat(),
            None => return file,
        }
    }
    Vec::new()
}

/// The modules that a module imports.
fn imports(
    module: &[String],
    source: &str,
    all: &BTreeMap<Vec<String>, String>,
    passed_on: &BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>,
) -> BTreeSet<Vec<String>> {
    let code = code(source);
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let begins =
                !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_:$".contains(letter));
            // `pub use` in a root says what it consists of.
            let statement = code[..at].rfind([';', '}', '{']).map_or(0, |end| end + 1);
            let is_own_part = code[statement..at].trim_start().starts_with("pub use") && module.is_empty();
            if !begins || is_own_part {
                continue;
            }
            for path in paths(&code[at..]) {
                let supers = path.iter().take_while(|name| *name == "super").count();
                let mut target = match supers {
                    0 => Vec::new(),
                    _ => module[..module.len().saturating_sub(supers)].to_vec(),
                };
                target.extend(path[supers.max(1)..].iter().cloned());
                let target = file_of(&target, all, passed_on);
                if target != module {
                    found.insert(target);
                }
            }
        }
    }
    found
}

/// The modules that lie on circles, each circle's together.
fn circles(graph: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> Vec<BTreeSet<Vec<String>>> {
    let reached = |from: &Vec<String>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(graph.get(module).into_iter().flatten().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|module| (module, reached(module))).collect();
    let mut found: Vec<BTreeSet<Vec<String>>> = Vec::new();
    for (module, others) in &reached {
        if others.contains(*module) && !found.iter().any(|circle| circle.contains(*module)) {
            let back = |other: &&Vec<String>| reached.get(other).is_some_and(|from| from.contains(*module));
            found.push(others.iter().filter(back).cloned().collect());
        }
    }
    found
}

/// What each module of a crate imports.
fn graph(all: &BTreeMap<Vec<String>, String>) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let passed_on: BTreeMap<_, _> =
        all.iter().map(|(module, source)| (module.clone(), passed_on(module, source))).collect();
    all.iter().map(|(module, source)| (module.clone(), imports(module, source, all, &passed_on))).collect()
}

fn name(module: &[String]) -> String {
    match module {
        [] => "the root".to_string(),
        path => path.join("::"),
    }
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let mut messages = Vec::new();
    let crates = crates();
    assert!(crates.len() > 8, "the crates are found: {crates:?}");
    for folder in crates {
        let mut all = modules(&folder.join("src"));
        let tests = test_modules(&all);
        all.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let graph = graph(&all);
        let folder = folder.strip_prefix(repository()).unwrap().display().to_string();
        for circle in circles(&graph) {
            let edges = circle.iter().flat_map(|module| {
                let inside = graph[module].iter().filter(|other| circle.contains(*other));
                inside.map(move |other| format!("{} -> {}", name(module), name(other)))
            });
            messages.push(format!("{folder}: {}", edges.collect::<Vec<_>>().join(", ")));
        }
    }
    assert!(messages.is_empty(), "modules import each other in a circle:\n{}", messages.join("\n"));
}

/// Crates in which the tables at the heads of `lib.rs` and `mod.rs` name all files and folders,
/// each above those that it imports.
const IN_ORDER: [&str; 2] = ["crates/pager/agent", "crates/process"];

/// The names with which the rows of a header's tables begin.
fn listed(source: &str) -> Vec<&str> {
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name).collect()
}

/// What a folder's table does not name, and imports of what it does not name below.
fn disorder(
    folder: &[String],
    source: &str,
    graph: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<String> {
    let listed = listed(source);
    let part = |module: &Vec<String>| module.strip_prefix(folder)?.first().cloned();
    let place = |part: &str| listed.iter().position(|name| *name == part);
    let mut messages = BTreeSet::new();
    for (module, imports) in graph {
        let Some(part_of_it) = part(module) else { continue };
        let Some(row) = place(&part_of_it) else {
            messages.insert(format!("{} does not name {part_of_it}", name(folder)));
            continue;
        };
        let others = imports.iter().filter_map(part).filter(|other| *other != part_of_it);
        for other in others.filter(|other| place(other).is_none_or(|below| below < row)) {
            messages.insert(format!("{}: {part_of_it} imports {other}, which is above it", name(folder)));
        }
    }
    messages
}

#[test]
fn tables_of_files_are_in_the_order_of_imports() {
    let mut messages = Vec::new();
    for crate_name in IN_ORDER {
        let mut all = modules(&repository().join(crate_name).join("src"));
        let tests = test_modules(&all);
        all.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let graph = graph(&all);
        let folders: BTreeSet<&[String]> =
            all.keys().filter_map(|module| module.split_last()).map(|(_, folder)| folder).collect();
        assert!(folders.len() > 1, "{crate_name}: the folders are found");
        for folder in folders {
            let disorder = disorder(folder, &all[folder], &graph);
            messages.extend(disorder.iter().map(|message| format!("{crate_name}: {message}")));
        }
    }
    assert!(messages.is_empty(), "tables are out of order:\n{}", messages.join("\n"));
}

#[test]
fn a_table_out_of_order_is_noticed() {
    let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(String::from).collect();
    let files =
        [("", ""), ("f", ""), ("f::a", "use crate::f::b; use crate::g::c;"), ("f::b", ""), ("g::c", "")];
    let all: BTreeMap<Vec<String>, String> =
        files.iter().map(|(name, source)| (path(name), source.to_string())).collect();
    let graph = graph(&all);
    let of = |folder: &str, table: &str| -> Vec<String> {
        let folder: Vec<String> = path(folder);
        disorder(&folder, table, &graph).into_iter().collect()
    };
    let none: [&str; 0] = [];
    assert_eq!(of("f", "//! | `a` | first |\n//! | `b` | second |\n"), none);
    assert_eq!(of("f", "//! | `b` |\n//! | `a` |\n"), ["f: a imports b, which is above it"]);
    assert_eq!(of("f", "//! | `a` |\n"), ["f does not name b", "f: a imports b, which is above it"]);
    assert_eq!(of("", "//! | `g` |\n//! | `f` |\n"), ["the root: f imports g, which is above it"]);
}

/// A released command must not look for files where it was built.
#[test]
fn the_product_knows_neither_the_laboratory_nor_where_it_was_built() {
    let is_product = |folder: &PathBuf| {
        let below = folder.strip_prefix(repository()).unwrap();
        ["crates", "recorder", "python"].iter().any(|part| below.starts_with(part))
    };
    let product: Vec<PathBuf> = crates().into_iter().filter(is_product).collect();
    assert!(product.len() > 15, "the crates are found: {product:?}");
    for folder in product {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("sweephand-lab"), "{}: depends on lab/", folder.display());
        for (module, source) in modules(&folder.join("src")) {
            let knows = source.contains("CARGO_MANIFEST_DIR");
            assert!(!knows, "{}: {} has the path of the build", folder.display(), name(&module));
        }
    }
}

/// Lines that a function has at most, from `fn` to its closing brace.
const MOST_LINES: usize = 70;

/// Functions that are longer, by file, with the lines that each has at most.
const LONGER: [(&str, &[(&str, usize)]); 10] = [
    ("crates/pager/agent/src/simulation/kernel.rs", &[("mremap", 87)]),
    ("crates/pager/agent/src/simulation/run.rs", &[("of", 97)]),
    ("lab/papers/apr-2020/experiments.rs", &[("summary", 102), ("figure_4_1", 89), ("window", 78)]),
    ("lab/papers/clock-pro-2005/experiments.rs", &[("hit_ratio_table", 118)]),
    (
        "lab/papers/clock-pro-2005/live.rs",
        &[("figure", 127), ("delayed", 99), ("live_against_simulated", 96), ("table_6", 74)],
    ),
    (
        "lab/papers/clock-pro-2005/programs.rs",
        &[
            ("figure_4_claims", 137),
            ("bursts", 128),
            ("table_6", 91),
            ("beside_stream", 75),
            ("readings", 71),
            ("figure_4", 71),
        ],
    ),
    (
        "lab/papers/linux-mm-advanced-page-replacement/experiments.rs",
        &[("recorded_lookups", 118), ("indexed_database", 102)],
    ),
    ("lab/papers/wsclock-1981/causes.rs", &[("folding", 134), ("model", 107), ("io", 85)]),
    (
        "lab/papers/wsclock-1981/experiments.rs",
        &[("table_2", 189), ("ltrt", 125), ("figure", 78), ("other_policies", 72)],
    ),
    ("lab/src/html.rs", &[("show", 98)]),
];

/// The functions of a file outside its tests, with their lines. The file is formatted: so a
/// function ends with the first brace that is as far from the left as its `fn`.
fn functions(source: &str) -> Vec<(&str, usize)> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = declared_function(line.trim_start()) else { continue };
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        // Only a function with a body on lines of its own can be long.
        let opens = lines[at..].iter().find(|line| line.ends_with(['{', '}', ';']));
        let last = lines[at..].iter().position(|line| *line == end);
        if let Some(last) = last.filter(|_| opens.is_some_and(|line| line.ends_with('{'))) {
            found.push((name, last + 1));
        }
    }
    found
}

/// The name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let (before, rest) =
        if let Some(rest) = line.strip_prefix("fn ") { ("", rest) } else { line.split_once(" fn ")? };
    let is_qualifier = |word: &str| {
        ["const", "async", "unsafe", "extern", "in"].contains(&word)
            || word.starts_with("pub")
            || word.starts_with('"')
            || word.ends_with(')')
    };
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    before.split_whitespace().all(is_qualifier).then_some(name)
}

/// A function that fits a screen can be read as a whole.
#[test]
fn no_function_outside_tests_is_long() {
    let root = repository();
    let sources = sources(&root, &["target", "tests", "benches", "fuzz"]);
    assert!(sources.len() > 300, "the files are found: {}", sources.len());
    let mut messages = Vec::new();
    let mut longer: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (file, functions) in LONGER {
        longer.extend(functions.iter().map(|(name, most)| ((file, *name), *most)));
    }
    let mut met = BTreeSet::new();
    for (path, source) in &sources {
        let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
        for (name, lines) in functions(source).into_iter().filter(|(_, lines)| *lines > MOST_LINES) {
            let most = longer.get_key_value(&(file, name));
            met.extend(most.map(|(entry, _)| *entry));
            let most = most.map_or(MOST_LINES, |(_, most)| *most);
            if lines > most {
                messages.push(format!("{file}: {name} has {lines} lines, {most} at most"));
            }
        }
    }
    let unmet = longer.keys().filter(|entry| !met.contains(*entry));
    messages.extend(unmet.map(|(file, name)| format!("{file}: {name} is not long: take it from LONGER")));
    assert!(messages.is_empty(), "split them by what their parts are for:\n{}", messages.join("\n"));
}

/// More fields than this want a reason.
const MOST_FIELDS: usize = 15;

/// The structs of a file: each with its name, its documentation and attributes, and its fields.
fn structs(source: &str) -> Vec<(&str, String, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let Some((before, name)) = line.trim_start().split_once("struct ") else { continue };
        if !line.ends_with('{') || !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let name = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap();
        let is_above = |line: &&&str| ["///", "#["].iter().any(|mark| line.trim_start().starts_with(mark));
        let above: Vec<&str> = lines[..at].iter().rev().take_while(is_above).copied().collect();
        let body = lines[at + 1..].iter().take_while(|line| **line != format!("{indent}}}"));
        let is_field = |line: &&&str| {
            let field = line.strip_prefix(indent).and_then(|line| line.strip_prefix("    "));
            field.is_some_and(|field| !field.starts_with([' ', '/', '#', '}', ')', ']', '>']))
        };
        found.push((name, above.join("\n"), body.filter(is_field).count()));
    }
    found
}

#[test]
fn a_struct_with_many_fields_says_why() {
    let root = repository();
    let mut messages = Vec::new();
    let mut many = 0;
    for (path, source) in sources(&root, &["target", "tests", "benches", "fuzz"]) {
        for (name, above, fields) in structs(&source).into_iter().filter(|(_, _, n)| *n > MOST_FIELDS) {
            many += 1;
            // Those of the command line have a field for each option.
            if !above.contains("field") && !above.contains("derive(clap::Args)") {
                let file = path.strip_prefix(&root).unwrap().display();
                messages.push(format!("{file}: {name} has {fields} fields"));
            }
        }
    }
    assert!(many > 10, "the structs are found: {many}");
    assert!(
        messages.is_empty(),
        "split them by who changes what, or say in their documentation what their fields are:\n{}",
        messages.join("\n")
    );
}

#[test]
fn fields_are_the_lines_that_begin_one() {
    let source = "\
/// What it is.
#[derive(Debug)]
pub(crate) struct Pair<T: Copy> {
    /// The first.
    first: T,
    #[allow(dead_code)]
    pub second: Vec<
        T,
    >,
}
struct Unit;
struct Tuple(u32);
";
    let expected = [("Pair", "#[derive(Debug)]\n/// What it is.".to_string(), 2)];
    assert_eq!(structs(source), expected);
}

#[test]
fn a_function_is_as_long_as_from_its_name_to_its_brace() {
    let source = "\
/// Not an fn nobody() {
pub(in crate::a) const unsafe extern \"C\" fn outer(
    number: u32,
) -> u32 {
    fn inner() {
    }
    let of_functions: fn(u32) = f;
    number
}
trait Named {
    fn declared(
        &self,
    );
    fn short(&self) {}
    async fn given(&self) {
        body()
    }
}

#[cfg(test)]
mod tests {
    fn in_tests() {
    }
}
";
    let expected = [("outer", 8), ("inner", 2), ("given", 3)];
    assert_eq!(functions(source), expected);
}

#[test]
fn a_circle_is_found_through_other_modules_and_not_through_tests() {
    let files = [
        ("", "pub use crate::a::A; mod a;"),
        ("a", "use crate::b::{self, c::C as D, B};\nfn f() { crate::x::y(); }"),
        (
            "b",
            "// use crate::a;\nconst T: &str = \"crate::a\";\n#[cfg(test)]\nmod tests {\n use crate::a;\n}\n",
        ),
        ("b::c", "use super::super::d::D;"),
        ("d", "use crate::{a::A, b};"),
        ("x", ""),
    ];
    let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(String::from).collect();
    let all: BTreeMap<Vec<String>, String> =
        files.iter().map(|(name, source)| (path(name), source.to_string())).collect();
    let graph = graph(&all);
    let imports_of = |module: &str| graph[&path(module)].clone();
    assert_eq!(imports_of("a"), ["b", "b::c", "x"].map(path).into());
    assert_eq!(imports_of("b"), BTreeSet::new());
    assert_eq!(imports_of("b::c"), [path("d")].into());
    assert_eq!(imports_of("d"), ["a", "b"].map(path).into());
    assert_eq!(imports_of(""), BTreeSet::new());
    assert_eq!(circles(&graph), [["a", "b::c", "d"].map(path).into()]);
}

#[test]
fn a_name_that_a_module_passes_on_is_imported_from_where_it_is() {
    let files = [
        (
            "",
            "mod a;\n#[cfg(unix)]\npub use a::{A, b::{B, C as D}};\npub(crate) use x::y as z;\nfn f() { g() }",
        ),
        ("a", "mod b;\npub use self::b::deep;"),
        ("a::b", "use crate::{A, Other};"),
        ("c", "use crate::{B, D};"),
        ("d", "use crate::z::Item; use crate::a::deep;"),
        ("x", ""),
    ];
    let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(String::from).collect();
    let all = files.iter().map(|(name, source)| (path(name), source.to_string())).collect();
    let graph = graph(&all);
    let imports_of = |module: &str| graph[&path(module)].clone();
    assert_eq!(imports_of("a::b"), ["a", ""].map(path).into());
    assert_eq!(imports_of("c"), [path("a::b")].into());
    assert_eq!(imports_of("d"), ["x", "a::b"].map(path).into());
    assert_eq!(circles(&graph), Vec::<BTreeSet<Vec<String>>>::new());
}
