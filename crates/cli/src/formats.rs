//! How results are printed: `--format` of the subcommands that print reports.

use sweephand_results::{Format, TextFormat};

/// The format of a report that can be a Parquet file.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FormatName {
    Table,
    Csv,
    Json,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl FormatName {
    /// The format. A table shows what `shown` says, if that goes with a table.
    pub(crate) fn showing<T>(self, shown: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<Format<T>> {
        Ok(match self {
            Self::Table => Format::Table(shown()?),
            Self::Csv => Format::Csv,
            Self::Json => Format::Json,
            #[cfg(feature = "parquet")]
            Self::Parquet => Format::Parquet,
        })
    }
}

/// The format of a report that is text in any case.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TextFormatName {
    Table,
    Csv,
    Json,
}

impl From<TextFormatName> for TextFormat {
    fn from(name: TextFormatName) -> Self {
        match name {
            TextFormatName::Table => Self::Table,
            TextFormatName::Csv => Self::Csv,
            TextFormatName::Json => Self::Json,
        }
    }
}
