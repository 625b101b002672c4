//! `sweephand plot`: one picture of a trace.

use crate::report::{self, Options};
use anyhow::{Context, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_advice::{CurveStudy, Distances};
use sweephand_output::Output;
use sweephand_report::{PictureFormat, plot_distances, plot_faults, plot_pages};
use sweephand_trace::Interrupt;
use sweephand_trace::picture::Picture;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to draw
    #[arg(value_enum)]
    what: What,
    /// Trace of any format; - is standard input
    #[arg(value_name = "T")]
    trace: PathBuf,
    #[command(flatten)]
    options: Options,
    /// Count on a logarithmic axis
    #[arg(long)]
    log: bool,
    /// Picture to write; its name ends with .svg or .png
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Page faults of each policy against memory size
    Faults,
    /// Page against time, with reads and writes apart
    Pages,
    /// How much memory LRU needs for how many references
    Distances,
}

/// Size of the picture of page against time, in cells.
const COLUMNS: usize = 1400;
const ROWS: usize = 780;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let format = format(&args.output)?;
    let (specs, sizes) = args.options.parse()?;
    let mut out = Output::create(&args.output, &[&args.trace])?;
    let trace = report::open(&args.trace)?;
    let header = trace.header();
    let (name, page_bytes) = (sweephand_advice::short_name(&trace), header.metadata.page_size);
    let picture = match args.what {
        What::Faults => {
            let bar = report::bar(&trace);
            let study = CurveStudy::of(
                &trace,
                specs,
                &sizes,
                &|share| report::show(&bar, share),
                &Interrupt::default(),
            )?;
            bar.finish_and_clear();
            plot_faults(&study, args.log, format)
        }
        What::Pages => {
            let picture = Picture::of(&trace, COLUMNS, ROWS)?;
            plot_pages(&name, &picture, header.totals.records, page_bytes, format)
        }
        What::Distances => plot_distances(&name, &Distances::of(&trace)?, page_bytes, args.log, format),
    };
    out.write_all(&picture).context("the picture cannot be written")?;
    out.commit()?;
    Ok(ExitCode::SUCCESS)
}

fn format(path: &Path) -> anyhow::Result<PictureFormat> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(PictureFormat::Svg),
        Some("png") => Ok(PictureFormat::Png),
        _ => bail!("{}: name a picture that ends with .svg or .png", path.display()),
    }
}
