//! Rules for the sources: no module of a crate imports, directly or through others, a module that
//! imports it. So each can be read, and tested, with what it uses, and data flows one way.
//!
//! An import is a path that begins with `crate::`, `super::`, `self::` or the name of one of the
//! module's own parts, in a `use` or in code. If the root says `pub use module::Name`, a module
//! that uses `crate::Name` imports `module`. A star imports those names of a module that the code
//! uses. Test modules do not count: they may use what is above them. Neither do `mod`, nor
//! `pub use` of a part whose names the module's own code does not use: a crate's root and a
//! folder's `mod.rs` name what they consist of.
//!
//! The same holds for the C files of the recorder, by the functions and variables that they use.
//!
//! In the crates of [`IN_ORDER`], the table at the head of each folder is in the order of imports,
//! and so are the folders.
//!
//! No function outside tests is longer than a screen ([`MOST_LINES`]). A struct with more than
//! [`MOST_FIELDS`] says why in its documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use sweephand_checks::{entries, read_text};

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
        for path in entries(&folder) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_source = !name.starts_with('.') && !["target", "src", "tests"].contains(&name);
            if is_source && path.is_dir() && !path.is_symlink() {
                open.push(path);
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
        for entry in entries(&folder) {
            let stem = entry.file_stem().unwrap().to_str().unwrap();
            if stem.starts_with('.') || skipped.contains(&stem) {
                continue;
            }
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = read_text(&entry);
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
        for (name, elsewhere) in elsewhere(&text) {
            let text = read_text(file.with_file_name(elsewhere));
            found.insert([module.as_slice(), &[name.to_string()]].concat(), text);
        }
        // A crate may have both lib.rs and main.rs at its root.
        *found.entry(module).or_default() += text.as_str();
    }
    found
}

/// The modules of a file that say where they are, with that.
fn elsewhere(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.split("\n#[path = \"").skip(1).filter_map(|rest| {
        let (path, rest) = rest.split_once("\"]\nmod ")?;
        Some((rest.split_once(';')?.0, path))
    })
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

/// A path that code names, and the name that it has there.
struct Named {
    path: Vec<String>,
    name: String,
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The paths that a piece of code begins with: `a::b`, and each of `a::{b, c::d}`. `a::*` ends with
/// a star.
fn paths(text: &str) -> Vec<Named> {
    fn tree(text: &str, before: &[String], found: &mut Vec<Named>) -> usize {
        let (mut path, mut at) = (before.to_vec(), 0);
        loop {
            let name = match text[at..].starts_with('*') && !path.is_empty() {
                true => "*",
                false => text[at..].split(|letter| !is_of_word(letter)).next().unwrap_or_default(),
            };
            at += name.len();
            // `a::{self, b}` names a itself.
            if !name.is_empty() && (name != "self" || path.is_empty()) {
                path.push(name.to_string());
            }
            if !text[at..].starts_with("::") {
                let new = text[at..].strip_prefix(" as ").map(|rest| {
                    rest.split(|letter| !is_of_word(letter)).next().unwrap_or_default().to_string()
                });
                if let Some(name) = new.or_else(|| path.last().cloned()) {
                    found.push(Named { path, name });
                }
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

/// What a module's code names of others. Paths are as they are written.
struct Mentions {
    /// In `use`, for this module alone.
    uses: Vec<Named>,
    /// In `pub use`, which gives others the name from here.
    passed_on: Vec<Named>,
    /// Paths elsewhere in the code.
    paths: Vec<Named>,
    /// The words of the code outside `use`.
    words: BTreeSet<String>,
}

impl Mentions {
    fn of(source: &str) -> Self {
        let code = code(source);
        let (mut uses, mut passed_on, mut body, mut rest) = (Vec::new(), Vec::new(), String::new(), &*code);
        while let Some(at) = rest.find("use ") {
            let (before, after) = rest.split_at(at);
            // What stands before it in its statement: nothing, or whom it is for.
            let statement = before.rfind([';', '{', '}', ']']).map_or(0, |end| end + 1);
            let qualifier = before[statement..].trim();
            if before.ends_with(is_of_word) || !(qualifier.is_empty() || qualifier.starts_with("pub")) {
                body += &rest[..at + 4];
                rest = &rest[at + 4..];
                continue;
            }
            body += &before[..statement];
            let end = after.find(';').unwrap_or(after.len());
            let list = if qualifier.is_empty() { &mut uses } else { &mut passed_on };
            list.extend(paths(after[4..end].trim_start_matches("::")));
            rest = &after[end..];
        }
        body += rest;
        // A path begins with the word before its first colons.
        let begins = |at: usize| !body[..at].ends_with(|letter| is_of_word(letter) || ":$.".contains(letter));
        let starts = body.match_indices("::").filter_map(|(end, _)| {
            let word = body[..end].rsplit(|letter| !is_of_word(letter)).next()?;
            Some(end - word.len()).filter(|at| !word.is_empty() && begins(*at))
        });
        let paths = starts.flat_map(|at| paths(&body[at..])).collect();
        let (mut words, mut last) = (BTreeSet::new(), "");
        for word in body.split(|letter| !is_of_word(letter)).filter(|word| !word.is_empty()) {
            // A module's declaration does not use a name that is like the module's.
            if last != "mod" {
                words.insert(word.to_string());
            }
            last = word;
        }
        Self { uses, passed_on, paths, words }
    }
}

/// A crate's modules, and what each mentions.
struct Modules(BTreeMap<Vec<String>, Mentions>);

impl Modules {
    /// Where a path leads from the root; `None` for another crate's path, and for that of a type.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (start, rest) = match path[0].as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (&module[..module.len().saturating_sub(supers)], &path[supers..]),
            child => {
                let is_child = self.0.contains_key(&[module, &[child.to_string()]].concat());
                (is_child.then_some(module)?, path)
            }
        };
        Some([start, rest].concat())
    }

    /// The module that a path from the root leads to: the longest part of it that is one, or the
    /// module from which that one has the rest. `None` if that is another crate.
    fn module_of(&self, path: &[String]) -> Option<Vec<String>> {
        let mut path = path.to_vec();
        // A name is passed on from module to module at most once by each.
        for _ in 0..self.0.len() {
            let mut module = path.clone();
            while !self.0.contains_key(&module) && !module.is_empty() {
                module.pop();
            }
            let given = path.get(module.len()).and_then(|name| {
                let passed_on = &self.0.get(&module)?.passed_on;
                passed_on.iter().find(|given| given.name == *name)
            });
            let Some(given) = given else { return Some(module) };
            let next = self.absolute(&module, &given.path)?;
            path = [next.as_slice(), &path[module.len() + 1..]].concat();
        }
        None
    }

    /// The modules that a module has a path's names from. With a star, those are the names that the
    /// module's code has.
    fn sources_of(&self, module: &[String], named: &Named) -> Vec<Vec<String>> {
        let Some(path) = self.absolute(module, &named.path) else { return Vec::new() };
        let Some((_, before)) = path.split_last().filter(|(last, _)| *last == "*") else {
            return self.module_of(&path).into_iter().collect();
        };
        let Some(other) = self.module_of(before) else { return Vec::new() };
        let words = &self.0[module].words;
        let given = self.0[&other].passed_on.iter().filter(|given| words.contains(&given.name));
        let given =
            given.filter_map(|given| self.module_of(&[&other[..], slice::from_ref(&given.name)].concat()));
        given.chain([other.clone()]).collect()
    }

    /// The modules that a module imports.
    fn imports(&self, module: &[String]) -> BTreeSet<Vec<String>> {
        let mentions = &self.0[module];
        // A name of its own parts that it only passes on is in its table of contents. Which names a
        // star passes on does not show.
        let is_import = |named: &&Named| {
            let is_own = self.absolute(module, &named.path).is_some_and(|path| path.starts_with(module));
            !is_own || named.name == "*" || mentions.words.contains(&named.name)
        };
        let named = mentions.uses.iter().chain(&mentions.paths);
        let named = named.chain(mentions.passed_on.iter().filter(is_import));
        named.flat_map(|named| self.sources_of(module, named)).filter(|other| other != module).collect()
    }
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
    let modules = Modules(all.iter().map(|(path, source)| (path.clone(), Mentions::of(source))).collect());
    all.keys().map(|module| (module.clone(), modules.imports(module))).collect()
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

/// The functions and variables that a C file has for others. The file is formatted: so what is not
/// inside another begins its line.
fn given_by(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let is_of_others = ["static ", "extern ", "typedef "].iter().any(|word| line.starts_with(word));
        let (kind, name) = line.split(['(', '[', '=', ';']).next()?.trim_end().rsplit_once([' ', '*'])?;
        (kind.starts_with(is_of_word) && !is_of_others).then_some(name)
    })
}

/// The C files whose functions and variables each one names.
fn c_graph(files: &[(String, String)]) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let files: Vec<(&String, String)> = files.iter().map(|(file, source)| (file, code(source))).collect();
    let owners: BTreeMap<&str, &String> =
        files.iter().flat_map(|(file, code)| given_by(code).map(move |name| (name, *file))).collect();
    let uses = |file: &String, code: &str| {
        let words = code.split(|letter| !is_of_word(letter));
        let others = words.filter_map(|word| owners.get(word)).filter(|owner| **owner != file);
        others.map(|owner| vec![owner.to_string()]).collect()
    };
    files.iter().map(|(file, code)| (vec![file.to_string()], uses(file, code))).collect()
}

#[test]
fn no_file_of_the_recorder_uses_one_that_uses_it() {
    let mut files = Vec::new();
    for path in entries(repository().join("recorder")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".c") {
            files.push((name.to_string(), read_text(&path)));
        }
    }
    let graph = c_graph(&files);
    let uses = |file: &str, other: &str| graph[&vec![file.to_string()]].contains(&vec![other.to_string()]);
    assert!(uses("main.c", "log.c") && uses("log.c", "window.c"), "uses are found: {graph:?}");
    let none: [BTreeSet<Vec<String>>; 0] = [];
    assert_eq!(circles(&graph), none, "C files use each other in a circle: {graph:#?}");
}

#[test]
fn a_circle_of_c_files_is_found() {
    let log = "/* mark() */\nULong words[8];\nstatic void own(void)\n{\n   stop(\"mark\");\n}\n";
    let stream = "extern UInt elsewhere;\nvoid stop(const HChar *text) { own(); }\nconst HChar *last;\n";
    let of_marks = |marks: &str| {
        let files = [("log.c", log), ("stream.c", stream), ("marks.c", marks)];
        c_graph(&files.map(|(file, source)| (file.to_string(), source.to_string())))
    };
    let file = |name: &str| vec![name.to_string()];
    let graph = of_marks("void own(void) { words[0] = last != NULL; }\n");
    assert_eq!(graph[&file("log.c")], ["marks.c", "stream.c"].map(file).into());
    assert_eq!(graph[&file("stream.c")], [file("marks.c")].into());
    assert_eq!(graph[&file("marks.c")], ["log.c", "stream.c"].map(file).into());
    assert_eq!(circles(&graph), [["log.c", "marks.c", "stream.c"].map(file).into()]);
    let graph = of_marks("void mark(void) { stop(\"words\"); }\n");
    assert_eq!(graph[&file("log.c")], [file("stream.c")].into());
    assert_eq!(circles(&graph), []);
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
        let manifest = read_text(folder.join("Cargo.toml"));
        assert!(!manifest.contains("sweephand-lab"), "{}: depends on lab/", folder.display());
        for (module, source) in modules(&folder.join("src")) {
            let knows = source.contains("CARGO_MANIFEST_DIR");
            assert!(!knows, "{}: {} has the path of the build", folder.display(), name(&module));
        }
    }
}

/// Lines that a function has at most, from `fn` to its closing brace.
const MOST_LINES: usize = 70;

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
    for (path, source) in &sources {
        let file = path.strip_prefix(&root).unwrap().display();
        for (name, lines) in functions(source).into_iter().filter(|(_, lines)| *lines > MOST_LINES) {
            messages.push(format!("{file}: {name} has {lines} lines, {MOST_LINES} at most"));
        }
    }
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

fn path(name: &str) -> Vec<String> {
    name.split("::").filter(|part| !part.is_empty()).map(String::from).collect()
}

/// What the modules of a small crate import.
fn graph_of(files: &[(&str, &str)]) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    graph(&files.iter().map(|(name, source)| (path(name), source.to_string())).collect())
}

#[test]
fn a_circle_is_found_through_other_modules_and_not_through_tests() {
    let graph = graph_of(&[
        ("", "pub use crate::a::A; mod a;"),
        ("a", "use crate::b::{self, c::C as D, B};\nfn f() { crate::x::y(); }"),
        (
            "b",
            "// use crate::a;\nconst T: &str = \"crate::a\";\n#[cfg(test)]\nmod tests {\n use crate::a;\n}\n",
        ),
        ("b::c", "use super::super::d::D;"),
        ("d", "use crate::{a::A, b};"),
        ("x", ""),
    ]);
    let imports_of = |module: &str| graph[&path(module)].clone();
    assert_eq!(imports_of("a"), ["b", "b::c", "x"].map(path).into());
    assert_eq!(imports_of("b"), BTreeSet::new());
    assert_eq!(imports_of("b::c"), [path("d")].into());
    assert_eq!(imports_of("d"), ["a", "b"].map(path).into());
    assert_eq!(imports_of(""), BTreeSet::new());
    assert_eq!(circles(&graph), [["a", "b::c", "d"].map(path).into()]);
}

#[test]
fn a_circle_is_found_between_a_module_and_its_own_parts() {
    let part = ("a::b", "use super::Shared;");
    let of_a = |source: &str| circles(&graph_of(&[("", "mod a;"), ("a", source), part, ("b", "")]));
    let both = [["a", "a::b"].map(path).into()];
    // Through the part's name, in `use` and in code; and through a name that is passed on, too.
    assert_eq!(of_a("mod b; use b::B; pub struct Shared;"), both);
    assert_eq!(of_a("mod b; use self::b::B as C; pub struct Shared;"), both);
    assert_eq!(of_a("mod b; pub struct Shared; fn f() -> u32 { b::f() }"), both);
    assert_eq!(of_a("mod b; pub use b::B; pub struct Shared(B);"), both);
    // A table of contents imports nothing, and neither does a part of another module or crate.
    assert_eq!(of_a("mod b; pub use b::{B, b, f as g}; pub struct Shared;"), []);
    assert_eq!(of_a("mod b; use crate::b::B; use other::b::B; pub struct Shared;"), []);
    assert_eq!(of_a("mod b; use other::{b::B, c}; pub struct Shared;"), []);
}

#[test]
fn a_circle_is_found_through_a_star() {
    let of_list = |list: &str| {
        graph_of(&[
            ("", "mod list; mod parts;"),
            ("list", list),
            ("parts", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("parts::a", "use crate::list::look_up;"),
            ("parts::b", ""),
        ])
    };
    let with_a = of_list("use crate::parts::*; const ALL: [A; 1] = [A];");
    assert_eq!(with_a[&path("list")], ["parts", "parts::a"].map(path).into());
    assert_eq!(circles(&with_a), [["list", "parts::a"].map(path).into()]);
    let with_b = of_list("use crate::parts::*; const ALL: [B; 1] = [B];");
    assert_eq!(with_b[&path("list")], ["parts", "parts::b"].map(path).into());
    assert_eq!(circles(&with_b), []);
    // The star of a child, of what its parent has.
    let graph = graph_of(&[("a", "mod b; fn f() { b::g() }"), ("a::b", "use super::*;")]);
    assert_eq!(circles(&graph), [["a", "a::b"].map(path).into()]);
}

#[test]
fn a_name_that_a_module_passes_on_is_imported_from_where_it_is() {
    let graph = graph_of(&[
        (
            "",
            "mod a;\n#[cfg(unix)]\npub use a::{A, b::{B, C as D}};\npub(crate) use x::y as z;\npub use other::Foreign;\nfn f() { g() }",
        ),
        ("a", "mod b;\npub use self::b::deep;"),
        ("a::b", "use crate::{A, Other};"),
        ("c", "use crate::{B, D};"),
        ("d", "use crate::z::Item; use crate::a::deep;"),
        ("e", "use crate::{Foreign, x::Y};"),
        ("x", "pub use other::Y;"),
    ]);
    let imports_of = |module: &str| graph[&path(module)].clone();
    assert_eq!(imports_of("e"), BTreeSet::new());
    assert_eq!(imports_of("a::b"), ["a", ""].map(path).into());
    assert_eq!(imports_of("c"), [path("a::b")].into());
    assert_eq!(imports_of("d"), ["x", "a::b"].map(path).into());
    assert_eq!(circles(&graph), []);
}

/// A package has only what is in its own folder, so each has the texts there, as links.
#[test]
fn published_crates_carry_the_licences() {
    let is_published = |folder: &PathBuf| {
        let manifest = read_text(folder.join("Cargo.toml"));
        manifest.contains("license.workspace") && !manifest.contains("publish = false")
    };
    let published: Vec<_> = crates().into_iter().filter(is_published).collect();
    assert!(published.len() > 15, "the crates are found: {published:?}");
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = read_text(repository().join(name));
        let lacks = |folder: &&PathBuf| fs::read_to_string(folder.join(name)).ok().as_ref() != Some(&text);
        let lacking: Vec<_> = published.iter().filter(lacks).collect();
        assert!(lacking.is_empty(), "{name} is not the repository's: {lacking:?}");
    }
}
