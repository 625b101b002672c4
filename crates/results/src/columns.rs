//! The columns of results, each with its name and type: one list for CSV, Parquet and other tables.

/// A column of rows of type `R`: its name, and what a row has there.
pub type Column<R> = (&'static str, Field<R>);

/// What a row has in a column.
#[derive(Clone, Copy, Debug)]
pub enum Field<R> {
    /// Words.
    Text(fn(&R) -> &str),
    /// The same, where there are some.
    OptionalText(fn(&R) -> Option<&str>),
    /// A count. Tables have it as a signed number of 64 bits, so that differences come out right.
    Count(fn(&R) -> u64),
    /// The same, where there is one.
    OptionalCount(fn(&R) -> Option<u64>),
    /// A number with decimals.
    Ratio(fn(&R) -> f64),
    /// The same, where there is one.
    OptionalRatio(fn(&R) -> Option<f64>),
}

impl<R> Field<R> {
    /// The value of a row in a CSV: ratios have six decimals; empty where there is none.
    pub(crate) fn text(&self, row: &R) -> String {
        let ratio = |ratio: f64| format!("{ratio:.6}");
        match self {
            Self::Text(of) => of(row).to_string(),
            Self::OptionalText(of) => of(row).unwrap_or_default().to_string(),
            Self::Count(of) => of(row).to_string(),
            Self::OptionalCount(of) => of(row).map_or_else(String::new, |count| count.to_string()),
            Self::Ratio(of) => ratio(of(row)),
            Self::OptionalRatio(of) => of(row).map_or_else(String::new, ratio),
        }
    }
}

/// A row with the names of its columns, for a CSV.
pub(crate) fn named<R>(columns: &[Column<R>], row: &R) -> Vec<(&'static str, String)> {
    columns.iter().map(|(name, field)| (*name, field.text(row))).collect()
}
