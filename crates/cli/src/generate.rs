//! `sweephand generate`: makes a trace from a rule and a seed.

use crate::progress;
use crate::stderr::eprint_line;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use std::path::PathBuf;
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_trace::generate::{Kind, NamedPattern, PATTERNS, Parameter, SynthesisError};

pub(crate) struct Args {
    pattern: String,
    options: ArgMatches,
}

/// A subcommand for each pattern, with an option for each of its parameters.
impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let patterns = PATTERNS.iter().map(|pattern| {
            let output = Arg::new("output").short('o').long("output").value_name("T").help("Trace to write");
            Command::new(pattern.name)
                .about(pattern.summary)
                .args(pattern.parameters().map(option))
                .arg(output.required(true).value_parser(value_parser!(PathBuf)))
        });
        command.subcommand_required(true).arg_required_else_help(true).subcommands(patterns)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn option(parameter: &'static Parameter) -> Arg {
    let Parameter { name, kind, default, meaning } = *parameter;
    let option = Arg::new(name).long(name).help(meaning).conflicts_with_all(kind.excludes());
    match kind.value_name() {
        None => option.action(ArgAction::SetTrue),
        Some(value) => {
            option.value_name(value).default_value(default).value_parser(move |text: &str| kind.read(text))
        }
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (pattern, options) = matches.subcommand().expect("a subcommand is required");
        Ok(Self { pattern: pattern.to_owned(), options: options.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { pattern, options } = args;
    let path: &PathBuf = options.get_one("output").expect("it is required");
    let pattern = NamedPattern::find(&pattern)?;
    let is_given = |name| options.value_source(name) == Some(ValueSource::CommandLine);
    let given = pattern.parameters().filter(|parameter| is_given(parameter.name)).map(|parameter| {
        match parameter.kind {
            Kind::Flag => (parameter.name, None),
            _ => (parameter.name, options.get_one(parameter.name).map(String::as_str)),
        }
    });
    let synthesis = pattern.synthesis(given)?;

    let out = Output::create(path, &[])?;
    let bar = progress::bar(synthesis.references, "references");
    let mut progress = |done| {
        bar.set_position(done);
        true
    };
    let (out, header) = synthesis.write(out, &mut progress).map_err(|error| match error {
        SynthesisError::Write(error) => SynthesisError::Write(error.in_output(path)),
        error => error,
    })?;
    bar.finish_and_clear();
    out.commit()?;
    let totals = &header.totals;
    eprint_line!("{}: {} references to {} pages", path.display(), totals.records, totals.distinct_pages);
    Ok(ExitCode::SUCCESS)
}
