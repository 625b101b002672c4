//! `sweephand import --show`: what an input is, and the command that imports it.

use super::args::{Args, FormatName};
use anyhow::Context;
use clap::ValueEnum;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use sweephand_trace::columns::{Columns, PreviewColumn};
use sweephand_trace::{Look, in_shell, shown};

/// Shows what the input is.
pub(super) fn run(args: &Args, columns: Option<Columns>) -> anyhow::Result<ExitCode> {
    let asked = columns.is_some();
    let (reader, _, options) = args.open(columns)?;
    let look = Look::at(reader, &options)?;
    let mut out = io::stdout().lock();
    let input = args.input.display().to_string();
    let input = shown(&input);
    match (&look.preview, look.format) {
        (Some(preview), _) => {
            let header = if preview.header { ", the first row has their names" } else { "" };
            writeln!(out, "{input}: {}{header}", preview.shape)?;
            write_columns(&mut out, &preview.columns)?;
        }
        (None, Some(format)) => {
            let name = FormatName::of(format).to_possible_value().expect("every format has a name");
            let help = name.get_help().map(ToString::to_string).unwrap_or_default();
            writeln!(out, "{input}: {}: {help}", name.get_name())?;
        }
        (None, None) if look.known.is_some() => {
            let log = look.known.expect("it is there");
            writeln!(out, "{input}: {}: {}: {}", log.name, log.what, shown(&look.known_columns))?;
        }
        (None, None) if look.is_native => {
            writeln!(out, "{input}: a trace; `sweephand info` shows what is in it")?;
        }
        (None, None) => writeln!(out, "{input}: binary structs")?,
    }
    if !look.references.is_empty() {
        let pages =
            look.references.iter().map(|(page, write)| format!("{page}{}", if *write { "w" } else { "" }));
        writeln!(out, "first references to pages (w: written): {}", pages.collect::<Vec<_>>().join(" "))?;
    }
    match &look.preview {
        // Who names columns has the command.
        _ if look.is_native || asked => {}
        Some(preview) => {
            if let Some(reason) = &look.refused {
                writeln!(out, "not all columns can be read: {reason}")?;
            }
            match preview.guess() {
                Some(guess) => {
                    let header: &[&str] = if preview.header { &["--header"] } else { &[] };
                    let options = [&["--columns", guess.as_str()], header].concat();
                    writeln!(out, "a guess: {}", command(args, &options))?;
                }
                None => writeln!(out, "no guess: name a key or an offset with --columns")?,
            }
        }
        None => {
            let name = args.format.to_possible_value().expect("every format has a name");
            let options = [&["--format"], &[name.get_name()][..]].concat();
            let options = if args.format.format().is_some() { &options[..] } else { &[] };
            writeln!(out, "to import it: {}", command(args, options))?;
        }
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// The command that imports the input, as a shell takes it.
fn command(args: &Args, options: &[&str]) -> String {
    let output = match args.input == Path::new("T.swt") {
        true => "T2.swt",
        false => "T.swt",
    };
    let input = if args.input == Path::new("-") { "-".to_owned() } else { in_shell(&args.input) };
    let options = options.iter().map(|option| match option.starts_with("--") {
        true => format!(" {option}"),
        false => format!(" {}", in_shell(option)),
    });
    format!("sweephand import {input}{} -o {output}", options.collect::<String>())
}

/// Characters of a value that are shown.
const SHOWN: usize = 20;

fn write_columns(out: &mut impl Write, columns: &[PreviewColumn]) -> io::Result<()> {
    let cut = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", shown(&text[..end])),
        None => shown(text).into_owned(),
    };
    let mut rows = vec![["column", "name", "may be", "values", "such as"].map(str::to_owned)];
    for column in columns {
        let examples: Vec<_> = column.examples.iter().map(|example| cut(example)).collect();
        let name = if column.name == column.place { String::new() } else { cut(&column.name) };
        let role = if column.role.is_empty() { "-" } else { column.role }.to_owned();
        let place = shown(&column.place).into_owned();
        rows.push([place, name, role, column.distinct.to_string(), examples.join(" ")]);
    }
    let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
    let [place, name, role, values] = [0, 1, 2, 3].map(width);
    for row in &rows {
        let line = format!(
            "{:<place$}  {:<name$}  {:<role$}  {:>values$}  {}",
            row[0], row[1], row[2], row[3], row[4]
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
