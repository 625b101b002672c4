//! The rows of `sweephand simulate` as a Parquet file: the columns of the CSV, with types.

use crate::SimulationRow;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// The columns, in the order of [`SimulationRow`]'s fields. Counts are unsigned 64-bit numbers.
const SCHEMA: &str = "message simulation {
    required binary trace (utf8);
    required binary policy (utf8);
    required int64 memory_pages (integer(64, false));
    required int64 references (integer(64, false));
    required int64 distinct_pages (integer(64, false));
    required int64 faults (integer(64, false));
    required int64 first_touch_faults (integer(64, false));
    required int64 warmup_faults (integer(64, false));
    required int64 evictions (integer(64, false));
    optional double hit_ratio;
    optional double faults_per_million_instructions;
    required int64 hand_steps (integer(64, false));
}";

/// Writes a file with one row group.
pub(crate) fn write(rows: &[SimulationRow], out: impl Write + Send) -> io::Result<()> {
    write_rows(rows, out).map_err(|error| match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    })
}

fn write_rows(rows: &[SimulationRow], out: impl Write + Send) -> Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let producer = concat!("sweephand ", env!("CARGO_PKG_VERSION")).to_string();
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(producer)
        .build();
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let texts: [fn(&SimulationRow) -> &str; 2] = [|row| &row.trace, |row| &row.policy];
    let counts: [fn(&SimulationRow) -> u64; 8] = [
        |row| row.memory_pages,
        |row| row.references,
        |row| row.distinct_pages,
        |row| row.faults,
        |row| row.first_touch_faults,
        |row| row.warmup_faults,
        |row| row.evictions,
        |row| row.hand_steps,
    ];
    let ratios: [fn(&SimulationRow) -> Option<f64>; 2] =
        [|row| row.hit_ratio, |row| row.faults_per_million_instructions];
    // Columns come in the order of the schema; each takes the next of its type.
    let (mut texts, mut counts, mut ratios) = (texts.iter(), counts.iter(), ratios.iter());
    while let Some(mut column) = group.next_column()? {
        match column.untyped() {
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let field = texts.next().expect("two texts");
                let values: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(field(row))).collect();
                writer.write_batch(&values, None, None)?;
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                let field = counts.next().expect("eight counts");
                // Parquet keeps unsigned numbers in the bits of signed ones.
                let values: Vec<i64> = rows.iter().map(|row| field(row) as i64).collect();
                writer.write_batch(&values, None, None)?;
            }
            ColumnWriter::DoubleColumnWriter(writer) => {
                let field = ratios.next().expect("two ratios");
                let present: Vec<i16> = rows.iter().map(|row| i16::from(field(row).is_some())).collect();
                let values: Vec<f64> = rows.iter().filter_map(field).collect();
                writer.write_batch(&values, Some(&present), None)?;
            }
            _ => unreachable!("the schema has no other types"),
        }
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn row(policy: &str, hit_ratio: Option<f64>) -> SimulationRow {
        SimulationRow {
            trace: "t".into(),
            policy: policy.into(),
            memory_pages: 3,
            references: u64::MAX,
            distinct_pages: 5,
            faults: 6,
            first_touch_faults: 7,
            warmup_faults: 8,
            evictions: 9,
            hit_ratio,
            faults_per_million_instructions: None,
            hand_steps: 12,
        }
    }

    #[test]
    fn a_file_is_read_back_with_the_columns_of_the_csv() {
        let rows = [row("clock", Some(0.25)), row("clock-pro", None)];
        let mut file = Vec::new();
        write(&rows, &mut file).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), rows.len());
        for (read, row) in read.iter().zip(&rows) {
            let ratio = |value: Option<f64>| value.map_or(Field::Null, Field::Double);
            let expected = row.columns().map(|(name, text)| {
                let field = match name {
                    "trace" | "policy" => Field::Str(text),
                    "hit_ratio" => ratio(row.hit_ratio),
                    "faults_per_million_instructions" => ratio(row.faults_per_million_instructions),
                    _ => Field::ULong(text.parse().unwrap()),
                };
                (name.to_string(), field)
            });
            let columns: Vec<_> =
                read.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
            assert_eq!(columns, expected);
        }
    }
}
