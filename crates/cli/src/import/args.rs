//! The options of `sweephand import`, and what they say of its inputs.

use anyhow::{Context, bail};
use clap::ValueEnum;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sweephand_sim::MemorySize;
use sweephand_trace::columns::{Columns, KNOWN, KnownLog, Quote, WHOLE_LINES};
use sweephand_trace::{BadRows, Format, ImportOptions};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace or log to import, plain or compressed by gzip, xz, zstd, bzip2 or lz4, or an archive
    /// of such files (zip, tar); - is standard input. Several inputs, or a directory of them, are
    /// merged by time
    #[arg(value_name = "IN")]
    pub(super) input: PathBuf,
    /// Further inputs
    #[arg(value_name = "IN")]
    pub(super) more: Vec<PathBuf>,
    /// Read several inputs one after another, in the order in which they are named (those of a
    /// directory by name), instead of merging them by time
    #[arg(long)]
    pub(super) in_order: bool,
    /// Trace to write
    #[arg(short, long, value_name = "T", required_unless_present = "show")]
    pub(super) output: Option<PathBuf>,
    /// Format of the input
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) format: FormatName,
    /// The input is a log: which column is what. Columns have numbers from 1, names of the header,
    /// or names in JSON lines. key=3 is an object, any text; offset=3 a place on a disk. Further:
    /// size, op, tenant, part, time, ttl, count. offset=3*512 counts sectors, offset=3:hex is
    /// hexadecimal. Binary structs: record=24,key=u64@4,size=u32@12. Or the name of a log, such as
    /// twitter. @FILE reads the same from a file
    #[arg(long, value_name = "COLUMNS")]
    pub(super) columns: Option<String>,
    /// The first row of the log has the names of its columns (always so where --columns has names)
    #[arg(long)]
    pub(super) header: bool,
    /// What is between the columns of the log: a character, tab or space; none takes whole lines.
    /// Unless given, what gives the first rows the same number of columns
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    pub(super) separator: Option<u8>,
    /// What quotes are: off, " or '. Unless given, " between commas and between spaces
    #[arg(long, value_name = "QUOTE", value_parser = str::parse::<Quote>)]
    pub(super) quote: Option<Quote>,
    /// At a row that cannot be read: stop, or skip it. skip counts such rows, shows three, and
    /// fails if they are more than 1 % of all; skip:5% allows more [default: stop]
    #[arg(long, value_name = "RULE", value_parser = str::parse::<BadRows>)]
    pub(super) bad_rows: Option<BadRows>,
    /// Pages or blocks that the log's sizes and offsets are cut into, such as 64KiB [default: 4KiB]
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub(super) page_size: Option<u64>,
    /// Keep keys and sizes as they are, for simulate --whole-objects: a request is one reference,
    /// whatever its size. Needs columns key and size
    #[arg(long)]
    pub(super) whole_objects: bool,
    /// Show what the input is, which column may be what, the first references, and the command that
    /// imports it; import nothing
    #[arg(long)]
    pub(super) show: bool,
    /// Keep only the first and last run of each page in every stretch of K distinct pages. Faults
    /// of LRU and OPT stay exact from K pages of memory up, those of other policies nearly exact
    /// from 8 K up
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    pub(super) window: u64,
    /// Write an IRIM string instead: only the moments at which the use of a page changes. A page is
    /// idle after OMEGA references without it (5000 is usual). Multiprogramming simulations run on
    /// such a string many times faster
    #[arg(long, value_name = "OMEGA", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) irim: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum FormatName {
    /// Found by content
    Auto,
    /// Page numbers, one a line, decimal or 0x hexadecimal
    Text,
    /// What the recorder sends
    Pgtr,
    /// What valgrind --tool=lackey --trace-mem=yes prints, without the output of the program
    Lackey,
    /// DynamoRIO's drmemtrace: a file of DIR/trace, or what the view tool prints
    Drmemtrace,
    /// Requests to disks: unit,block,size,R or W,time (Storage Performance Council)
    Spc,
    /// Requests to disks: time,host,disk,Read or Write,offset,size,response time (MSR Cambridge)
    Msr,
    /// Requests to files: an iolog of fio
    Fio,
    /// Requests to block devices: what blkparse prints
    Blkparse,
    /// Requests for objects, binary (libCacheSim); not found by content
    OracleGeneral,
    /// Executed instructions, binary (ChampSim); not found by content
    #[value(name = "champsim")]
    ChampSim,
}

impl FormatName {
    pub(super) fn of(format: Format) -> Self {
        let named = |name: &&Self| name.format() == Some(format);
        *Self::value_variants().iter().find(named).expect("every format has a name")
    }

    pub(super) fn format(self) -> Option<Format> {
        match self {
            Self::Auto => None,
            Self::Text => Some(Format::Text),
            Self::Pgtr => Some(Format::Pgtr),
            Self::Lackey => Some(Format::Lackey),
            Self::Drmemtrace => Some(Format::Drmemtrace),
            Self::Spc => Some(Format::Spc),
            Self::Msr => Some(Format::Msr),
            Self::Fio => Some(Format::Fio),
            Self::Blkparse => Some(Format::Blkparse),
            Self::OracleGeneral => Some(Format::OracleGeneral),
            Self::ChampSim => Some(Format::ChampSim),
        }
    }
}

/// One character, or its name.
fn separator(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        "space" => Ok(b' '),
        "comma" => Ok(b','),
        "none" => Ok(WHOLE_LINES),
        _ => match *text.as_bytes() {
            [byte] if !byte.is_ascii_alphanumeric() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(byte),
            _ => {
                Err("a separator is one character of ASCII, no letter, digit or quote, or tab, space or none"
                    .into())
            }
        },
    }
}

fn page_size(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(MemorySize::Bytes(bytes)) if bytes.is_power_of_two() && (512..=1 << 30).contains(&bytes) => {
            Ok(bytes)
        }
        _ => Err("a page has a power of two of bytes, from 512B to 1GiB, as in 64KiB".into()),
    }
}

impl Args {
    /// Whether an option is on the command line.
    pub(super) fn has(&self, option: &str) -> bool {
        match option {
            "--output" => self.output.is_some(),
            "--format" => self.format.format().is_some(),
            "--columns" => self.columns.is_some(),
            "--header" => self.header,
            "--separator" => self.separator.is_some(),
            "--quote" => self.quote.is_some(),
            "--bad-rows" => self.bad_rows.is_some(),
            "--page-size" => self.page_size.is_some(),
            "--whole-objects" => self.whole_objects,
            "--show" => self.show,
            "--in-order" => self.in_order,
            "--window" => self.window > 0,
            "--irim" => self.irim.is_some(),
            _ => unreachable!("{option} is not in the table"),
        }
    }

    /// The file that the columns are read from, if they are.
    pub(super) fn columns_file(&self) -> Option<&Path> {
        self.columns.as_ref()?.strip_prefix('@').map(Path::new)
    }

    /// The columns of the log, if it is one.
    pub(super) fn columns(&self) -> anyhow::Result<Option<Columns>> {
        let Some(text) = &self.columns else { return Ok(None) };
        let (place, text) = match self.columns_file() {
            Some(file) => {
                let place = file.display().to_string();
                let text = fs::read_to_string(file).with_context(|| place.clone())?;
                (place, Columns::without_comments(&text))
            }
            None => ("--columns".to_owned(), text.clone()),
        };
        let mut columns = match KnownLog::named(text.trim()) {
            Some(log) => log.columns(),
            None if !text.contains('=') => {
                let known: Vec<_> = KNOWN.iter().map(|log| log.name).collect();
                bail!(
                    "{place}: '{}' names no column, as key=3 does, and no log; known: {}",
                    text.trim(),
                    known.join(" ")
                );
            }
            None => text.parse().context(place)?,
        };
        columns.header |= self.header;
        columns.separator = self.separator;
        columns.quote = self.quote;
        columns.page_bytes = self.page_size.unwrap_or(columns.page_bytes);
        columns.whole_objects = self.whole_objects;
        Ok(Some(columns))
    }

    /// The inputs, with the files of directories in their place.
    pub(super) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for input in [&self.input].into_iter().chain(&self.more) {
            if !input.is_dir() {
                files.push(input.clone());
                continue;
            }
            let found = files_of(input).with_context(|| input.display().to_string())?;
            if found.is_empty() {
                bail!("{}: there is no file in this directory", input.display());
            }
            files.extend(found);
        }
        if files.len() > 1 && files.iter().any(|file| file == Path::new("-")) {
            bail!("-: standard input cannot be one of several inputs; write it to a file first");
        }
        let mut seen = HashSet::new();
        let is_known = |file: &&PathBuf| !seen.insert(file.canonicalize().unwrap_or((*file).clone()));
        if let Some(twice) = files.iter().find(is_known) {
            bail!("{}: is named twice", twice.display());
        }
        Ok(files)
    }

    /// The input, its length, which is 0 if it is a pipe, and how to read it.
    pub(super) fn open(
        &self,
        columns: Option<Columns>,
    ) -> anyhow::Result<(Box<dyn Read>, u64, ImportOptions)> {
        let options = ImportOptions {
            name: self.input.clone(),
            format: self.format.format(),
            columns,
            window: self.window,
            bad_rows: self.bad_rows.unwrap_or_default(),
            ..ImportOptions::default()
        };
        if self.input == Path::new("-") {
            let options = ImportOptions { name: PathBuf::from("standard input"), ..options };
            return Ok((Box::new(io::stdin().lock()), 0, options));
        }
        let context = || self.input.display().to_string();
        let file = File::open(&self.input).with_context(context)?;
        let metadata = file.metadata().with_context(context)?;
        let places = if metadata.is_file() { Some(file.try_clone().with_context(context)?) } else { None };
        Ok((Box::new(file), metadata.len(), ImportOptions { file: places.map(Arc::new), ..options }))
    }
}

/// The files of a directory, by name. A link to another of them, as `latest.csv` may be, is no
/// further one. A link to nothing is an error when it is opened.
fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path.file_name().unwrap_or_default().as_encoded_bytes().starts_with(b".");
        if !is_hidden && (path.is_file() || !path.exists()) {
            files.push(path);
        }
    }
    files.sort_by_key(|path| (path.is_symlink(), path.clone()));
    let mut seen = HashSet::new();
    files.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    files.sort();
    Ok(files)
}
