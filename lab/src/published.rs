//! The published numbers, as CSV files of the project.

/// A published table, columns by name. Lines that begin with `#` say where it is from.
#[derive(Clone, Debug)]
pub struct Published {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Published {
    /// Reads a CSV. It comes with the project, so a mistake in it is ours: panics.
    pub fn read(csv: &str) -> Self {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(csv.as_bytes());
        let headings = reader.headers().expect("headings").iter().map(String::from).collect();
        let rows =
            reader.records().map(|row| row.expect("a row").iter().map(String::from).collect()).collect();
        Self { headings, rows }
    }

    /// A column of numbers; an empty cell is not a number. Panics if there is none of that name.
    pub fn column(&self, name: &str) -> Vec<f64> {
        let number = |cell: &str| if cell.is_empty() { f64::NAN } else { cell.parse().expect("a number") };
        self.words(name).into_iter().map(number).collect()
    }

    /// A column of words. Panics if there is none of that name.
    pub fn words(&self, name: &str) -> Vec<&str> {
        let at = self.headings.iter().position(|heading| heading == name);
        let at = at.unwrap_or_else(|| panic!("no column '{name}' among {:?}", self.headings));
        self.rows.iter().map(|row| row[at].as_str()).collect()
    }
}
