//! How reports are written.

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format<Shown = ()> {
    /// For people: tables that show this.
    Table(Shown),
    /// The rows, under the names of their columns.
    Csv,
    /// One object: `sweephand`, what the report says of all rows, and the rows.
    Json,
    /// The columns of the rows, with types: a Parquet file.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// How a report is written that is text in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextFormat {
    /// For people: tables.
    Table,
    /// The rows, under the names of their columns.
    Csv,
    /// One object: `sweephand`, what the report says of all rows, and the rows.
    Json,
}
