//! What the papers print, as CSV that comes with the project.

/// A published table of numbers, columns by name. Lines that begin with `#` say where it is from.
#[derive(Clone, Debug)]
pub struct Published {
    headings: Vec<String>,
    rows: Vec<Vec<f64>>,
}

impl Published {
    /// Reads a CSV. It comes with the project, so a mistake in it is ours: panics. An empty cell is not a number.
    pub fn read(csv: &str) -> Self {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(csv.as_bytes());
        let headings = reader.headers().expect("headings").iter().map(String::from).collect();
        let number = |cell: &str| if cell.is_empty() { f64::NAN } else { cell.parse().expect("a number") };
        let rows = reader.records().map(|row| row.expect("a row").iter().map(number).collect()).collect();
        Self { headings, rows }
    }

    /// A column. Panics if there is none of that name.
    pub fn column(&self, name: &str) -> Vec<f64> {
        let at = self.headings.iter().position(|heading| heading == name);
        let at = at.unwrap_or_else(|| panic!("no column '{name}' among {:?}", self.headings));
        self.rows.iter().map(|row| row[at]).collect()
    }
}
