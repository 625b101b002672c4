//! Patterns by name, for those who ask for one in text: a command line, a script.
//!
//! [`PATTERNS`] is the one list of their names, parameters and defaults. A command line is made
//! from it, so its grammar and [`NamedPattern::synthesis`] agree.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{Invalid, Pattern, Synthesis};
use crate::Metadata;

use Kind::{Count, Exponent, Flag, Rounds, Seed, Share};

/// A pattern that is chosen by its name.
#[derive(Debug)]
pub struct NamedPattern {
    /// The name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// The parameters that only it has.
    own: &'static [Parameter],
    /// The pattern, and the number of references unless it is given; `None` if it is too large.
    make: fn(&Values) -> (Pattern, Option<u64>),
}

/// A parameter of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The default, as it would be typed.
    pub default: Option<&'static str>,
    /// What it sets.
    pub meaning: &'static str,
}

/// What values a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A whole number; k, M and G are thousands, millions and billions.
    Count,
    /// A count of rounds, from which the number of references follows.
    Rounds,
    /// A whole number.
    Seed,
    /// A number.
    Exponent,
    /// A number from 0 to 1.
    Share,
    /// No value: the parameter is given, or it is not.
    Flag,
}

const REFERENCES: &str = "references";

/// The parameters that every pattern has.
static COMMON: [Parameter; 3] = [
    parameter(REFERENCES, Count, None, "References to make; k, M and G are thousands, millions and billions"),
    parameter("seed", Seed, Some("1"), "Seed of the randomness"),
    parameter("writes", Share, Some("0"), "Share of the references that write, 0 to 1"),
];

/// Every pattern that has a name.
pub static PATTERNS: &[NamedPattern] = &[
    NamedPattern {
        name: "loop",
        summary: "The same pages over and over, in order",
        own: &[
            parameter("pages", Count, Some("1000"), "Pages in a round"),
            parameter("rounds", Rounds, Some("10"), "Rounds"),
        ],
        make: |values| {
            let pages = values.get("pages");
            (Pattern::Loop { pages }, pages.checked_mul(values.get("rounds")))
        },
    },
    NamedPattern {
        name: "scan",
        summary: "Every page once, in order",
        own: &[
            parameter("pages", Count, Some("10000"), "Pages to scan"),
            parameter("loops", Rounds, Some("1"), "Scans one after the other"),
        ],
        make: |values| {
            let pages = values.get("pages");
            (Pattern::Loop { pages }, pages.checked_mul(values.get("loops")))
        },
    },
    NamedPattern {
        name: "zipf",
        summary: "Few pages often, many pages rarely: the k-th with a probability proportional to 1 / k^exponent",
        own: &[
            parameter("pages", Count, Some("10000"), "Pages to choose from"),
            parameter(
                "exponent",
                Exponent,
                Some("1"),
                "0 is uniform; the larger, the more goes to few pages",
            ),
        ],
        make: |values| {
            let (pages, exponent) = (values.get("pages"), values.get("exponent"));
            (Pattern::Zipf { pages, exponent }, Some(1_000_000))
        },
    },
    NamedPattern {
        name: "uniform",
        summary: "Every page equally likely",
        own: &[parameter("pages", Count, Some("10000"), "Pages to choose from")],
        make: |values| (Pattern::Uniform { pages: values.get("pages") }, Some(1_000_000)),
    },
    NamedPattern {
        name: "indexed-database",
        summary: "Look-ups through an index: a random leaf page, a random record page, by turns",
        own: &[
            parameter("leaves", Count, Some("100"), "Leaf pages of the index"),
            parameter("records", Count, Some("10000"), "Pages of records"),
        ],
        make: |values| {
            let (leaves, records) = (values.get("leaves"), values.get("records"));
            (Pattern::IndexedDatabase { leaves, records }, Some(40_000))
        },
    },
    NamedPattern {
        name: "mixed",
        summary: "Half zipf, half a loop over other pages: the benchmark of throughput",
        own: &[
            parameter("zipf-pages", Count, Some("1M"), "Pages of the zipf half"),
            parameter("exponent", Exponent, Some("1"), "Its exponent"),
            parameter("loop-pages", Count, Some("200k"), "Pages of the loop"),
            parameter("alternate", Flag, None, "Take turns instead of tossing a coin each time"),
        ],
        make: |values| {
            let pattern = Pattern::Mixed {
                zipf_pages: values.get("zipf-pages"),
                exponent: values.get("exponent"),
                loop_pages: values.get("loop-pages"),
                alternate: values.has("alternate"),
            };
            (pattern, Some(50_000_000))
        },
    },
];

const fn parameter(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Parameter {
    Parameter { name, kind, default, meaning }
}

impl NamedPattern {
    /// The pattern that is called `name`.
    pub fn find(name: &str) -> Result<&'static Self, Invalid> {
        PATTERNS.iter().find(|pattern| pattern.name == name).ok_or_else(|| {
            let names: Vec<_> = PATTERNS.iter().map(|pattern| pattern.name).collect();
            Invalid(format!("pattern '{name}': there is no such pattern; there are {}", names.join(", ")))
        })
    }

    /// Its parameters: its own, then those of every pattern.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.own.iter().chain(&COMMON)
    }

    /// What is made with the given values, and with defaults for the rest. A flag is given without
    /// a value.
    ///
    /// ```
    /// use sweephand_trace::generate::{NamedPattern, Pattern};
    ///
    /// let zipf = NamedPattern::find("zipf")?.synthesis([("pages", Some("20k"))])?;
    /// assert_eq!(zipf.pattern, Pattern::Zipf { pages: 20_000, exponent: 1.0 });
    /// # Ok::<(), sweephand_trace::generate::Invalid>(())
    /// ```
    pub fn synthesis<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<Synthesis, Invalid> {
        let mut values = Values::default();
        for (name, text) in given {
            let parameter = self.parameter(name)?;
            if values.0.insert(parameter.name, parameter.read(text)?).is_some() {
                return Err(Invalid(format!("the argument '{parameter}' cannot be used multiple times")));
            }
        }
        for parameter in self.parameters() {
            if values.has(parameter.name) {
                if let Some(other) = parameter.kind.excludes().filter(|other| values.has(other)) {
                    let other = self.parameter(other)?;
                    return Err(Invalid(format!("the argument '{other}' cannot be used with '{parameter}'")));
                }
            } else if let Some(default) = parameter.default {
                values.0.insert(parameter.name, parameter.read(Some(default))?);
            }
        }

        let (pattern, references) = (self.make)(&values);
        if !values.has(REFERENCES) {
            let references = references.ok_or_else(|| Invalid("too many references".to_owned()))?;
            values.0.insert(REFERENCES, references.to_string());
        }
        let mut command = vec!["sweephand".to_owned(), "generate".to_owned(), self.name.to_owned()];
        for parameter in self.parameters().filter(|parameter| parameter.kind != Rounds) {
            let Some(value) = values.0.get(parameter.name) else { continue };
            command.push(format!("--{}", parameter.name));
            command.extend((parameter.kind != Flag).then(|| value.clone()));
        }
        let (program, source) = (self.name.to_owned(), "generator".to_owned());
        Ok(Synthesis {
            metadata: Metadata { program, command, source, ..Metadata::default() },
            pattern,
            references: values.get(REFERENCES),
            seed: values.get("seed"),
            writes: values.get("writes"),
        })
    }

    fn parameter(&self, name: &str) -> Result<&'static Parameter, Invalid> {
        self.parameters().find(|parameter| parameter.name == name).ok_or_else(|| {
            let names: Vec<_> = self.parameters().map(|parameter| format!("--{}", parameter.name)).collect();
            Invalid(format!("pattern '{}': has no --{name}; it has {}", self.name, names.join(", ")))
        })
    }
}

impl Parameter {
    /// The value as it is kept, see [`Kind::read`].
    fn read(&self, text: Option<&str>) -> Result<String, Invalid> {
        match (text, self.kind) {
            (None, Flag) => Ok(String::new()),
            (None, _) => Err(format!("a value is required for '{self}' but none was supplied")),
            (Some(text), Flag) => {
                Err(format!("unexpected value '{text}' for '{self}' found; no more were expected"))
            }
            (Some(text), kind) => {
                kind.read(text).map_err(|wanted| format!("invalid value '{text}' for '{self}': {wanted}"))
            }
        }
        .map_err(Invalid)
    }
}

/// As in a usage: `--pages <N>`.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name)?;
        self.kind.value_name().map_or(Ok(()), |value| write!(f, " <{value}>"))
    }
}

impl Kind {
    /// What stands for the value in a usage; `None` for a flag.
    pub fn value_name(self) -> Option<&'static str> {
        match self {
            Count | Rounds => Some("N"),
            Seed => Some("SEED"),
            Exponent => Some("S"),
            Share => Some("SHARE"),
            Flag => None,
        }
    }

    /// The parameter that cannot be given beside one of this kind.
    pub fn excludes(self) -> Option<&'static str> {
        (self == Rounds).then_some(REFERENCES)
    }

    /// The number that `text` stands for, written out: 20000 for `20k`. The error says what would
    /// be right.
    pub fn read(self, text: &str) -> Result<String, String> {
        fn plain<T: FromStr<Err: fmt::Display> + fmt::Display>(text: &str) -> Result<String, String> {
            text.parse::<T>().map(|value| value.to_string()).map_err(|error| error.to_string())
        }
        match self {
            Count | Rounds => count(text).map(|count| count.to_string()),
            Seed => plain::<u64>(text),
            Exponent | Share => plain::<f64>(text),
            Flag => Err("no value".to_owned()),
        }
    }
}

/// A count, as in `20000`, `20_000`, `20k`, `5M`.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let value: u64 = digits
        .replace('_', "")
        .parse()
        .map_err(|_| "a whole number, with k, M or G behind it if you like".to_owned())?;
    value.checked_mul(factor).ok_or_else(|| "too large".to_owned())
}

/// The values of a pattern's parameters by name, as [`Kind::read`] gives them.
#[derive(Default)]
struct Values(BTreeMap<&'static str, String>);

impl Values {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn get<T: FromStr>(&self, name: &str) -> T {
        self.0[name].parse().ok().expect("a value is of its parameter's kind")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    /// What `name --option=value --flag` makes.
    fn made(words: &str) -> Result<Synthesis, Invalid> {
        let (name, options) = words.split_once(' ').unwrap_or((words, ""));
        let options = options.split_whitespace().map(|option| {
            let option = option.strip_prefix("--").unwrap();
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)))
        });
        NamedPattern::find(name)?.synthesis(options)
    }

    #[test]
    fn a_pattern_has_its_defaults() {
        let expected = [
            ("loop", Pattern::Loop { pages: 1000 }, 10_000),
            ("scan", Pattern::Loop { pages: 10_000 }, 10_000),
            ("zipf", Pattern::Zipf { pages: 10_000, exponent: 1.0 }, 1_000_000),
            ("uniform", Pattern::Uniform { pages: 10_000 }, 1_000_000),
            ("indexed-database", Pattern::INDEXED_DATABASE, 40_000),
            ("mixed", Pattern::MIXED, 50_000_000),
        ];
        assert!(PATTERNS.iter().map(|pattern| pattern.name).eq(expected.iter().map(|(name, ..)| *name)));
        for (name, pattern, references) in expected {
            let made = made(name).unwrap();
            assert_eq!(
                (made.pattern, made.references, made.seed, made.writes),
                (pattern, references, 1, 0.0),
                "{name}"
            );
        }
    }

    #[test]
    fn values_are_taken_and_written_out_in_the_command() {
        for (words, pattern, command) in [
            (
                "zipf --references=20k --seed=7 --exponent=0.80 --pages=3_000 --writes=.25",
                Pattern::Zipf { pages: 3000, exponent: 0.8 },
                "zipf --pages 3000 --exponent 0.8 --references 20000 --seed 7 --writes 0.25",
            ),
            (
                "scan --loops=3 --pages=2k",
                Pattern::Loop { pages: 2000 },
                "scan --pages 2000 --references 6000 --seed 1 --writes 0",
            ),
            (
                "mixed --alternate --zipf-pages=1M --loop-pages=1G --references=5",
                Pattern::Mixed {
                    zipf_pages: 1_000_000,
                    exponent: 1.0,
                    loop_pages: 1_000_000_000,
                    alternate: true,
                },
                "mixed --zipf-pages 1000000 --exponent 1 --loop-pages 1000000000 --alternate --references 5 --seed 1 --writes 0",
            ),
        ] {
            let _input = trying(|| words.into());
            let first = made(words).unwrap();
            assert_eq!(first.pattern, pattern);
            assert_eq!(first.metadata.command.join(" "), format!("sweephand generate {command}"));
            assert_eq!(
                (first.metadata.program.as_str(), first.metadata.source.as_str()),
                (words.split(' ').next().unwrap(), "generator")
            );
            let (name, options) = command.split_once(" --").unwrap();
            let options: Vec<String> =
                options.split(" --").map(|option| format!(" --{}", option.replace(' ', "="))).collect();
            assert_eq!(made(&format!("{name}{}", options.concat())).unwrap(), first);
        }
    }

    #[test]
    fn errors_name_the_option_and_say_what_would_be_right() {
        for (words, message) in [
            (
                "zop",
                "pattern 'zop': there is no such pattern; there are loop, scan, zipf, uniform, indexed-database, mixed",
            ),
            (
                "zipf --page=3",
                "pattern 'zipf': has no --page; it has --pages, --exponent, --references, --seed, --writes",
            ),
            (
                "zipf --pages=few",
                "invalid value 'few' for '--pages <N>': a whole number, with k, M or G behind it if you like",
            ),
            ("zipf --pages=99999999999G", "invalid value '99999999999G' for '--pages <N>': too large"),
            ("zipf --exponent=x", "invalid value 'x' for '--exponent <S>': invalid float literal"),
            ("zipf --seed=1k", "invalid value '1k' for '--seed <SEED>': invalid digit found in string"),
            ("zipf --pages", "a value is required for '--pages <N>' but none was supplied"),
            ("zipf --pages=1 --pages=2", "the argument '--pages <N>' cannot be used multiple times"),
            ("mixed --alternate=3", "unexpected value '3' for '--alternate' found; no more were expected"),
            (
                "loop --rounds=3 --references=10",
                "the argument '--references <N>' cannot be used with '--rounds <N>'",
            ),
            ("loop --pages=10G --rounds=10G", "too many references"),
        ] {
            assert_eq!(made(words).unwrap_err().to_string(), message, "{words}");
        }
    }
}
