//! `sweephand generate`: makes a trace from a rule and a seed.

use crate::progress;
use crate::talk::say;
use anyhow::{Context, anyhow};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args as _, FromArgMatches};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_trace::Metadata;
use sweephand_trace::generate::{Pattern, Synthesis, SynthesisError};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    pattern: PatternArgs,
}

#[derive(clap::Subcommand)]
enum PatternArgs {
    /// The same pages over and over, in order
    Loop {
        /// Pages in a round
        #[arg(long, default_value = "1000", value_parser = number, value_name = "N")]
        pages: u64,
        /// Rounds [default: 10]
        #[arg(long, value_parser = number, value_name = "N", conflicts_with = "references")]
        rounds: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Every page once, in order
    Scan {
        /// Pages to scan
        #[arg(long, default_value = "10000", value_parser = number, value_name = "N")]
        pages: u64,
        /// Scans one after the other [default: 1]
        #[arg(long, value_parser = number, value_name = "N", conflicts_with = "references")]
        loops: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Few pages often, many pages rarely: the k-th with a probability proportional to 1 /
    /// k^exponent
    Zipf {
        /// Pages to choose from
        #[arg(long, default_value = "10000", value_parser = number, value_name = "N")]
        pages: u64,
        /// 0 is uniform; the larger, the more goes to few pages
        #[arg(long, default_value_t = 1.0, value_name = "S")]
        exponent: f64,
        #[command(flatten)]
        common: Common,
    },
    /// Every page equally likely
    Uniform {
        /// Pages to choose from
        #[arg(long, default_value = "10000", value_parser = number, value_name = "N")]
        pages: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Look-ups through an index: a random leaf page, a random record page, by turns
    IndexedDatabase {
        /// Leaf pages of the index
        #[arg(long, default_value = "100", value_parser = number, value_name = "N")]
        leaves: u64,
        /// Pages of records
        #[arg(long, default_value = "10000", value_parser = number, value_name = "N")]
        records: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Half zipf, half a loop over other pages: the benchmark of throughput
    Mixed {
        /// Pages of the zipf half
        #[arg(long, default_value = "1M", value_parser = number, value_name = "N")]
        zipf_pages: u64,
        /// Its exponent
        #[arg(long, default_value_t = 1.0, value_name = "S")]
        exponent: f64,
        /// Pages of the loop
        #[arg(long, default_value = "200k", value_parser = number, value_name = "N")]
        loop_pages: u64,
        /// Take turns instead of tossing a coin each time
        #[arg(long)]
        alternate: bool,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(clap::Args)]
struct Common {
    /// References to make; k, M and G are thousands, millions and billions
    #[arg(long, value_parser = number, value_name = "N")]
    references: Option<u64>,
    /// Seed of the randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of the references that write, 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    writes: f64,
    /// Trace to write
    #[arg(short, long, value_name = "T")]
    output: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (synthesis, path) = args.resolve()?;
    let references = synthesis.references;
    let out = Output::create(&path, &[])?;
    let bar = progress::bar(references, "references");
    let mut progress = |done| {
        bar.set_position(done);
        true
    };
    let (out, header) = synthesis.write(out, &mut progress).map_err(|error| match error {
        SynthesisError::Write(error) => SynthesisError::Write(error.in_output(&path)),
        error => error,
    })?;
    bar.finish_and_clear();
    out.commit()?;
    let totals = &header.totals;
    say!("{}: {} references to {} pages", path.display(), totals.records, totals.distinct_pages);
    Ok(ExitCode::SUCCESS)
}

/// What words such as `zipf --pages 100 --references 20k` ask for. Where one is none, the error
/// says in its line which there are.
pub fn synthesis(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Synthesis> {
    // Who asks says where it goes to.
    let words: Vec<OsString> =
        ["generate".into()].into_iter().chain(words).chain(["--output=-".into()]).collect();
    let mut command = Args::augment_args(clap::Command::new("generate")).disable_help_subcommand(true);
    let matches =
        command.try_get_matches_from_mut(&words).map_err(|error| with_choice(error, &command, &words[1]))?;
    Ok(Args::from_arg_matches(&matches)?.resolve()?.0)
}

/// An error of the words for the pattern `pattern`, with what would be right where it is one of a
/// few.
fn with_choice(error: clap::Error, command: &clap::Command, pattern: &OsString) -> anyhow::Error {
    match (error.kind(), error.get(ContextKind::InvalidArg), command.find_subcommand(pattern)) {
        (ErrorKind::InvalidSubcommand, ..) => {
            let names: Vec<_> = command.get_subcommands().map(|pattern| pattern.get_name()).collect();
            let (pattern, names) = (pattern.display(), names.join(", "));
            anyhow!("pattern '{pattern}': there is no such pattern; there are {names}")
        }
        (ErrorKind::UnknownArgument, Some(option), Some(pattern)) => {
            let options = pattern.get_arguments().filter_map(|option| option.get_long());
            let options = options.filter(|name| !["output", "help"].contains(name));
            let options: Vec<_> = options.map(|name| format!("--{name}")).collect();
            anyhow!("pattern '{}': has no {option}; it has {}", pattern.get_name(), options.join(", "))
        }
        _ => error.into(),
    }
}

impl Args {
    /// What to make, and the name of the file for it.
    fn resolve(self) -> anyhow::Result<(Synthesis, PathBuf)> {
        let (name, parameters, pattern, default, common) = resolve(self.pattern);
        let Common { references, seed, writes, output } = common;
        let references = references.or(default).context("too many references")?;
        let mut command = vec!["sweephand".to_owned(), "generate".to_owned(), name.to_owned()];
        let general = [
            ("--references", references.to_string()),
            ("--seed", seed.to_string()),
            ("--writes", writes.to_string()),
        ];
        for (option, value) in parameters.into_iter().chain(general) {
            command.push(option.to_owned());
            command.extend((!value.is_empty()).then_some(value));
        }
        let (program, source) = (name.to_owned(), "generator".to_owned());
        let metadata = Metadata { program, command, source, ..Metadata::default() };
        Ok((Synthesis { metadata, pattern, references, seed, writes }, output))
    }
}

/// Name, parameters, pattern, references unless asked for otherwise (`None` if that is too many),
/// the rest.
type Resolved = (&'static str, Vec<(&'static str, String)>, Pattern, Option<u64>, Common);

fn resolve(pattern: PatternArgs) -> Resolved {
    let pages_option = |pages: u64| ("--pages", pages.to_string());
    match pattern {
        PatternArgs::Loop { pages, rounds, common } => {
            let references = pages.checked_mul(rounds.unwrap_or(10));
            ("loop", vec![pages_option(pages)], Pattern::Loop { pages }, references, common)
        }
        PatternArgs::Scan { pages, loops, common } => {
            let references = pages.checked_mul(loops.unwrap_or(1));
            ("scan", vec![pages_option(pages)], Pattern::Loop { pages }, references, common)
        }
        PatternArgs::Zipf { pages, exponent, common } => {
            let parameters = vec![pages_option(pages), ("--exponent", exponent.to_string())];
            ("zipf", parameters, Pattern::Zipf { pages, exponent }, Some(1_000_000), common)
        }
        PatternArgs::Uniform { pages, common } => {
            ("uniform", vec![pages_option(pages)], Pattern::Uniform { pages }, Some(1_000_000), common)
        }
        PatternArgs::IndexedDatabase { leaves, records, common } => {
            let parameters = vec![("--leaves", leaves.to_string()), ("--records", records.to_string())];
            let pattern = Pattern::IndexedDatabase { leaves, records };
            ("indexed-database", parameters, pattern, Some(40_000), common)
        }
        PatternArgs::Mixed { zipf_pages, exponent, loop_pages, alternate, common } => {
            let mut parameters = vec![
                ("--zipf-pages", zipf_pages.to_string()),
                ("--exponent", exponent.to_string()),
                ("--loop-pages", loop_pages.to_string()),
            ];
            parameters.extend(alternate.then_some(("--alternate", String::new())));
            let pattern = Pattern::Mixed { zipf_pages, exponent, loop_pages, alternate };
            ("mixed", parameters, pattern, Some(50_000_000), common)
        }
    }
}

/// A count, as in `20000`, `20_000`, `20k`, `5M`.
fn number(text: &str) -> Result<u64, String> {
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
