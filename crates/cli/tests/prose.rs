//! The text of the project: comments and Markdown end at column 100, comments do without phrases
//! that readers stumble over, and every measured figure in the README and the book is that of the
//! committed results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The last column of comments and Markdown.
const WIDTH: usize = 100;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file of the project: its path below the project's folder, its language and its text.
struct File {
    name: String,
    language: Language,
    text: String,
}

/// The project's own files. Left out are what a build or a run makes (`target`, `build`, results of
/// papers) and hidden folders but `.ci`.
fn files() -> Vec<File> {
    fn gather(folder: &Path, root: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap_or_default();
            if path.is_dir() {
                let is_made = ["target", "build", "results", "node_modules"].contains(&name.as_str());
                let is_hidden = name.starts_with('.') && name != ".ci";
                if !is_made && !is_hidden && !path.join("pyvenv.cfg").exists() {
                    gather(&path, root, files);
                }
                continue;
            }
            let is_script = folder.file_name().is_some_and(|name| name == ".ci");
            let language = Language::of(&name).or(is_script.then_some(Language::Hash));
            if let Some(mut language) = language {
                let text = fs::read_to_string(&path).unwrap();
                if is_script && text.lines().next().is_some_and(|line| line.contains("python")) {
                    language = Language::Python;
                }
                let name = path.strip_prefix(root).unwrap().display().to_string();
                files.push(File { name, language, text });
            }
        }
    }
    let root = project();
    let mut files = Vec::new();
    gather(&root, &root, &mut files);
    files
}

/// What a file is written in, as far as its comments are concerned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Language {
    Rust,
    C,
    Python,
    /// Shell, TOML: a comment begins with `#`.
    Hash,
    Markdown,
}

impl Language {
    const ALL: [Self; 5] = [Self::Rust, Self::C, Self::Python, Self::Hash, Self::Markdown];

    fn of(name: &str) -> Option<Self> {
        Some(match name.rsplit_once('.').map_or(name, |(_, ending)| ending) {
            "rs" => Self::Rust,
            "c" | "h" => Self::C,
            "py" | "pyi" => Self::Python,
            "sh" | "toml" => Self::Hash,
            "md" => Self::Markdown,
            _ => return None,
        })
    }
}

/// Whether `mark` begins a comment in a line, and not within a string.
fn has_comment(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let before = &line[..at];
        before.matches('"').count().is_multiple_of(2)
            && (before.is_empty() || before.ends_with(char::is_whitespace))
    })
}

/// The text of a comment line without its marks.
fn comment_text(line: &str) -> &str {
    let line = line.trim_start();
    let line = line.strip_prefix("//").or_else(|| line.strip_prefix('#')).unwrap_or(line);
    line.strip_prefix(['/', '!']).unwrap_or(line)
}

/// The lines with a comment, docstring or Markdown text, and their numbers. Tables, code blocks and
/// pictures are left out.
fn prose(language: Language, text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // Within a block of code in Markdown or in a Rust comment; within a comment of C; within a
    // string of three quotes in Python, and whether that is a docstring.
    let (mut in_code, mut in_comment, mut in_string) = (false, false, None);
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let is_prose = match language {
            Language::Rust => {
                let is_comment = trimmed.starts_with("//");
                let text = comment_text(line);
                if is_comment && text.trim_start().starts_with("```") {
                    in_code = !in_code;
                } else if !is_comment {
                    in_code = false;
                }
                let is_block = in_code || text.trim_start().starts_with('|') || text.starts_with("     ");
                if is_comment { !is_block } else { has_comment(line, "//") }
            }
            Language::C => {
                let began = in_comment;
                if let Some(at) = line.rfind("/*") {
                    in_comment = !line[at..].contains("*/");
                } else if line.contains("*/") {
                    in_comment = false;
                }
                began || has_comment(line, "/*") || has_comment(line, "//")
            }
            Language::Python => {
                let began: Option<bool> = in_string;
                if line.matches("\"\"\"").count() % 2 == 1 {
                    in_string = match in_string {
                        None => Some(trimmed.starts_with("\"\"\"") || trimmed.starts_with("r\"\"\"")),
                        Some(_) => None,
                    };
                }
                match began.or(in_string) {
                    Some(is_docstring) => is_docstring,
                    None => trimmed.starts_with("\"\"\"") || has_comment(line, "#"),
                }
            }
            Language::Hash => has_comment(line, "#"),
            Language::Markdown => {
                if trimmed.starts_with("```") {
                    in_code = !in_code;
                }
                !in_code
                    && !line.starts_with("    ")
                    && !trimmed.starts_with('|')
                    && !trimmed.starts_with("![")
            }
        };
        if is_prose {
            found.push((index + 1, line));
        }
    }
    found
}

/// Numbers of the lines of prose that go past [`WIDTH`]. Lines with a URL may be longer.
fn too_long(language: Language, text: &str) -> Vec<usize> {
    let is_long = |line: &str| line.chars().count() > WIDTH && !line.contains("://");
    prose(language, text).into_iter().filter(|(_, line)| is_long(line)).map(|(number, _)| number).collect()
}

/// Phrases that hide who acts, or which number is meant. Comments name the parameter, or say "this
/// many" or "this much", and have a subject with a verb.
const STUMBLES: [&str; 7] =
    ["so many", "so much", "is to be", "are to be", "was to be", "were to be", "for want of"];

/// The phrases of [`STUMBLES`] in comments, with the numbers of the lines where they begin. A "so
/// many" or "so much" with a result, as in "so many pages that memory is full", is none of them.
fn stumbles(language: Language, text: &str) -> Vec<(usize, &'static str)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    for (number, line) in prose(language, text) {
        let line = comment_text(line).trim_start().trim_start_matches(['*', '!']).to_lowercase();
        words.extend(line.split_whitespace().map(|word| (number, word.to_owned())));
    }
    let mut found = Vec::new();
    for at in 0..words.len() {
        for phrase in STUMBLES {
            let length = phrase.split(' ').count();
            let Some(here) = words.get(at..at + length) else { continue };
            let is_phrase = here.iter().zip(phrase.split(' ')).all(|((_, word), of_phrase)| {
                word.trim_matches(|letter: char| !letter.is_alphanumeric()) == of_phrase
            });
            let sentence = words[at..].split_inclusive(|(_, word)| word.ends_with(['.', ':', ';']));
            let has_result = || sentence.take(1).flatten().any(|(_, word)| word == "that");
            if is_phrase && !(phrase.starts_with("so ") && has_result()) {
                found.push((words[at].0, phrase));
            }
        }
    }
    found
}

#[test]
fn comments_name_the_number_and_who_acts() {
    let mut found = Vec::new();
    for File { name, language, text } in files().iter().filter(|file| file.language != Language::Markdown) {
        let phrases = stumbles(*language, text).into_iter();
        found.extend(phrases.map(|(line, phrase)| format!("{name}:{line}: {phrase}")));
    }
    assert!(
        found.is_empty(),
        "name the number, or say 'this many' or 'this much'; say who does it:\n{}",
        found.join("\n")
    );
}

#[test]
fn stumbles_are_found_across_lines_and_in_comments_only() {
    assert_eq!(stumbles(Language::Rust, "/// Pages that are to\n/// be cleared."), [(1, "are to be")]);
    assert_eq!(stumbles(Language::C, "/* One page in so many. It says that. */"), [(1, "so many")]);
    assert_eq!(stumbles(Language::Python, "# Stops for want\n# of memory."), [(1, "for want of")]);
    assert_eq!(stumbles(Language::Rust, "let text = \"so many\";"), []);
    assert_eq!(stumbles(Language::Rust, "/// There are so many pages that memory is full."), []);
    assert_eq!(stumbles(Language::Rust, "/// Until so much is free."), [(1, "so much")]);
    assert_eq!(stumbles(Language::Rust, "/// So much waits that it is worth a message."), []);
}

#[test]
fn comments_and_markdown_end_at_column_100() {
    let mut found = Vec::new();
    let mut seen: BTreeMap<Language, usize> = BTreeMap::new();
    let files = files();
    for File { name, language, text } in &files {
        *seen.entry(*language).or_default() += 1;
        found.extend(too_long(*language, text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(Language::ALL.iter().all(|language| seen.get(language) > Some(&10)), "{seen:?}");
    assert!(
        found.is_empty(),
        "{} lines of comments or Markdown are longer than {WIDTH} columns; wrap them:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn long_lines_are_found_in_comments_and_text_only() {
    let word = "word ".repeat(25);
    let long = |language, line: &str| too_long(language, line).len();
    assert_eq!(long(Language::Rust, &format!("/// {word}")), 1);
    assert_eq!(long(Language::Rust, &format!("    call(); // {word}")), 1);
    assert_eq!(long(Language::Rust, &format!("    let url = \"a // {word}\";")), 0);
    assert_eq!(long(Language::Rust, &format!("//! ```text\n//! {word}\n//! ```\n//! {word}")), 1);
    assert_eq!(long(Language::Rust, &format!("//! | {word} |")), 0);
    assert_eq!(long(Language::C, &format!("/* short\n * {word}\n */\nint {word};")), 1);
    assert_eq!(long(Language::Python, &format!("\"\"\"{word}\n{word}\"\"\"\nx = \"\"\"\n{word}\n\"\"\"")), 2);
    assert_eq!(long(Language::Python, &format!("# {word}\ncall('{word}')")), 1);
    assert_eq!(long(Language::Hash, &format!("key = \"{word}\"\n# {word}")), 1);
    assert_eq!(long(Language::Markdown, &format!("{word}\n| {word} |\n```\n{word}\n```\n    {word}")), 1);
    assert_eq!(long(Language::Markdown, &format!("[{word}](https://example.org)")), 0);
}

/// A figure in the README or the book: an entry of `docs/figures.toml`, which explains the fields.
struct Figure {
    page: String,
    /// The words around the figure.
    before: String,
    figure: String,
    after: String,
    file: String,
    source: Source,
}

/// How a file gives a figure.
enum Source {
    /// The median of a column over the rows with these values; divided into that of `relative_to`.
    Column { column: String, rows: Values, relative_to: Option<Values> },
    /// These words stand in the file.
    Quote(String),
}

/// Values of columns, by the names of these.
type Values = BTreeMap<String, String>;

/// A text with single spaces between its words.
fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The parts of a text before, within and after its braces.
fn braced(text: &str) -> (String, String, String) {
    let parts = text.split_once('{').and_then(|(before, rest)| {
        rest.split_once('}')
            .map(|(figure, after)| (before.to_string(), figure.to_string(), after.to_string()))
    });
    parts.unwrap_or_else(|| panic!("{text}: the figure has to stand in braces"))
}

fn figures() -> Vec<Figure> {
    let text = fs::read_to_string(project().join("docs/figures.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let entries = table["figure"].as_array().unwrap().iter().map(|entry| entry.as_table().unwrap());
    let figures = entries.map(|entry| {
        let word = |name: &str| {
            let value = entry.get(name).unwrap_or_else(|| panic!("{name} is missing in {entry:?}"));
            value.as_str().unwrap_or_else(|| panic!("{name} in {entry:?}")).to_string()
        };
        let values = |name: &str| -> Option<Values> {
            let values = entry.get(name)?.as_table().unwrap().iter();
            Some(values.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_string())).collect())
        };
        let (before, figure, after) = braced(&word("text"));
        let source = if entry.contains_key("quote") {
            Source::Quote(word("quote"))
        } else {
            let rows = values("rows").unwrap_or_default();
            Source::Column { column: word("column"), rows, relative_to: values("relative_to") }
        };
        Figure { page: word("page"), before, figure, after, file: word("file"), source }
    });
    figures.collect()
}

/// The median of a column over the rows with some values; `None` if there is no such row.
fn median(file: &Path, column: &str, values: &Values) -> Option<f64> {
    let mut reader =
        csv::Reader::from_path(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let columns = reader.headers().unwrap().clone();
    let index = |name: &str| columns.iter().position(|column| column == name);
    let column = index(column)?;
    let values: Option<Vec<(usize, &String)>> =
        values.iter().map(|(name, value)| index(name).map(|index| (index, value))).collect();
    let values = values?;
    let rows = reader.records().map(Result::unwrap);
    let rows = rows.filter(|row| values.iter().all(|(index, value)| row[*index] == **value));
    let mut numbers: Vec<f64> = rows.map(|row| row[column].parse().unwrap()).collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(numbers[middle]),
        _ => Some((numbers[middle - 1] + numbers[middle]) / 2.0),
    }
}

/// What the file of a figure gives, in as many decimals as the figure has; or what is wrong.
fn recomputed(figure: &Figure) -> Result<String, String> {
    let file = project().join(&figure.file);
    match &figure.source {
        Source::Quote(quote) => {
            let (before, in_quote, after) = braced(quote);
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", figure.file))?;
            let words = format!("{before}{in_quote}{after}");
            if single_spaced(&text).contains(&words) {
                Ok(in_quote)
            } else {
                Err(format!("{} does not say '{words}'", figure.file))
            }
        }
        Source::Column { column, rows, relative_to } => {
            let wanted = || format!("{} has no {column} of {rows:?}", figure.file);
            let value = median(&file, column, rows).ok_or_else(wanted)?;
            let value = match relative_to {
                Some(others) => median(&file, column, others).ok_or_else(wanted)? / value,
                None => value,
            };
            // Results are named by their dates, so the newest comes last.
            let folder = file.parent().unwrap();
            let others = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let is_newer = |other: &PathBuf| {
                let both = relative_to.iter().chain([rows]);
                other.extension().is_some_and(|ending| ending == "csv")
                    && other.file_name() > file.file_name()
                    && both.into_iter().all(|rows| median(other, column, rows).is_some())
            };
            if let Some(newer) = others.into_iter().find(is_newer) {
                return Err(format!("{} is newer than {}: quote it", newer.display(), figure.file));
            }
            let decimals = figure.figure.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            Ok(format!("{value:.decimals$}"))
        }
    }
}

/// Words that make a number before them a claim about a measurement.
const CLAIMS: [&str; 12] = [
    " times as fast",
    " times as long",
    " times as many",
    " times the program's",
    " times the kernel",
    " million references a CPU second",
    " million under",
    " of the kernel's speed",
    " points of",
    "% fewer",
    " % fewer",
    " ms more",
];

/// Pages whose figures are checked, without their code, with single spaces.
fn checked_pages() -> BTreeMap<String, String> {
    let is_checked = |name: &str| {
        name == "README.md" || name == "ARCHITECTURE.md" || name.starts_with("docs/") && name.ends_with(".md")
    };
    let without_code = |text: &str| {
        let mut in_code = false;
        let mut lines = text.lines().filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            !in_code && !is_fence
        });
        let lines: Vec<&str> = lines.by_ref().collect();
        single_spaced(&lines.join(" "))
    };
    let pages = files().into_iter().filter(|file| is_checked(&file.name));
    pages.map(|File { name, text, .. }| (name, without_code(&text))).collect()
}

/// Where the numbers end that make claims in a text.
fn claims(text: &str) -> Vec<usize> {
    let ends_in_digit = |at: &usize| text[..*at].ends_with(|last: char| last.is_ascii_digit());
    let claims = CLAIMS.iter().flat_map(|claim| text.match_indices(claim).map(|(at, _)| at));
    claims.filter(ends_in_digit).collect()
}

#[test]
fn measured_figures_are_those_of_the_newest_results() {
    let pages = checked_pages();
    let mut wrong = Vec::new();
    // By page, where figures of the list end.
    let mut known: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let figures = figures();
    for figure in &figures {
        let Figure { page, before, figure: printed, after, .. } = figure;
        let words = format!("{before}{printed}{after}");
        let text = pages.get(page).unwrap_or_else(|| panic!("{page} is not a page that is checked"));
        match text.match_indices(&words).map(|(at, _)| at).collect::<Vec<_>>()[..] {
            [at] => known.entry(page).or_default().push(at + before.len() + printed.len()),
            ref places => wrong.push(format!("{page} says '{words}' {} times, not once", places.len())),
        }
        match recomputed(figure) {
            Ok(value) if value == *printed => {}
            Ok(value) => wrong.push(format!("{page}: '{words}' should be {value}, by {}", figure.file)),
            Err(error) => wrong.push(format!("{page}: '{words}': {error}")),
        }
    }
    for (page, text) in &pages {
        let known = known.get(page.as_str()).map_or(&[][..], Vec::as_slice);
        for at in claims(text).into_iter().filter(|at| !known.contains(at)) {
            let [from, to] = [at.saturating_sub(60), at + 40];
            let around: String = text
                .char_indices()
                .filter(|(index, _)| (from..to).contains(index))
                .map(|(_, letter)| letter)
                .collect();
            wrong.push(format!(
                "{page} claims a measurement that docs/figures.toml does not list: …{around}…"
            ));
        }
    }
    assert!(figures.len() > 15, "{} figures", figures.len());
    assert!(wrong.is_empty(), "mend the page or docs/figures.toml:\n{}", wrong.join("\n"));
}

#[test]
fn claims_are_recognised() {
    let text = "It is 3.2 times as fast, in 5 to 25 times the program's time; 3 times a week nothing, many times as fast.";
    let ends: Vec<&str> = claims(text).iter().map(|at| &text[..*at]).collect();
    assert_eq!(ends, ["It is 3.2", "It is 3.2 times as fast, in 5 to 25"]);
}
