//! Rows as a Parquet file: the columns of the CSV, with types.

use crate::columns::{Column, Field};
use crate::machine_readable::SCHEMA_VERSION;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field as Read;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

impl<R> Field<R> {
    /// The column's type in a Parquet schema, before its name and after it.
    fn schema(&self) -> (&'static str, &'static str) {
        match self {
            Self::Text(_) => ("required binary", "(utf8)"),
            Self::OptionalText(_) => ("optional binary", "(utf8)"),
            Self::Count(_) => ("required int64", "(integer(64, true))"),
            Self::OptionalCount(_) => ("optional int64", "(integer(64, true))"),
            Self::Ratio(_) => ("required double", ""),
            Self::OptionalRatio(_) => ("optional double", ""),
        }
    }
}

/// Writes a file with one row group.
pub(crate) fn write<R>(columns: &[Column<R>], rows: &[R], out: impl Write + Send) -> io::Result<()> {
    let rows: Vec<&R> = rows.iter().collect();
    let group = Columns { columns, rows: &rows };
    write_groups(&[&group], out).map_err(io_error)
}

/// Writes rows that have two parts, the columns of the first before those of the second.
pub(crate) fn write_pairs<A, B>(
    first: (&[Column<A>], &[&A]),
    second: (&[Column<B>], &[&B]),
    out: impl Write + Send,
) -> io::Result<()> {
    let first = Columns { columns: first.0, rows: first.1 };
    let second = Columns { columns: second.0, rows: second.1 };
    write_groups(&[&first, &second], out).map_err(io_error)
}

/// What the disk said, where it was the disk.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

/// Neighbouring columns that are filled from rows of one type.
trait ColumnGroup {
    /// The columns' part of the schema.
    fn schema(&self) -> String;
    /// Writes the columns, in order.
    fn write(&self, group: &mut SerializedRowGroupWriter<'_, &mut (dyn Write + Send)>) -> Result<()>;
}

struct Columns<'a, R> {
    columns: &'a [Column<R>],
    rows: &'a [&'a R],
}

fn write_groups(groups: &[&dyn ColumnGroup], mut out: impl Write + Send) -> Result<()> {
    let fields: String = groups.iter().map(|group| group.schema()).collect();
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {fields} }}"))?);
    let producer = concat!("sweephand ", env!("CARGO_PKG_VERSION")).to_string();
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(producer)
        .set_key_value_metadata(Some(vec![KeyValue::new(
            "sweephand.schema_version".to_string(),
            SCHEMA_VERSION.to_string(),
        )]))
        .build();
    let out: &mut (dyn Write + Send) = &mut out;
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut row_group = file.next_row_group()?;
    for group in groups {
        group.write(&mut row_group)?;
    }
    row_group.close()?;
    file.close()?;
    Ok(())
}

impl<R> ColumnGroup for Columns<'_, R> {
    fn schema(&self) -> String {
        let field = |(name, field): &Column<R>| {
            let (before, after) = field.schema();
            format!("{before} {name} {after};")
        };
        self.columns.iter().map(field).collect()
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, &mut (dyn Write + Send)>) -> Result<()> {
        let rows = || self.rows.iter().copied();
        for (_, field) in self.columns {
            let mut column = group.next_column()?.expect("a column of the schema");
            match (column.untyped(), field) {
                (ColumnWriter::ByteArrayColumnWriter(writer), Field::Text(of)) => {
                    let values: Vec<ByteArray> = rows().map(|row| ByteArray::from(of(row))).collect();
                    writer.write_batch(&values, None, None)?;
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Field::OptionalText(of)) => {
                    let values: Vec<ByteArray> = rows().filter_map(of).map(ByteArray::from).collect();
                    writer.write_batch(
                        &values,
                        Some(&presence(rows().map(|row| of(row).is_some()))),
                        None,
                    )?;
                }
                (ColumnWriter::Int64ColumnWriter(writer), Field::Count(of)) => {
                    let values = rows().map(|row| signed(of(row))).collect::<Result<Vec<i64>>>()?;
                    writer.write_batch(&values, None, None)?;
                }
                (ColumnWriter::Int64ColumnWriter(writer), Field::OptionalCount(of)) => {
                    let values = rows().filter_map(of).map(signed).collect::<Result<Vec<i64>>>()?;
                    writer.write_batch(
                        &values,
                        Some(&presence(rows().map(|row| of(row).is_some()))),
                        None,
                    )?;
                }
                (ColumnWriter::DoubleColumnWriter(writer), Field::Ratio(of)) => {
                    let values: Vec<f64> = rows().map(of).collect();
                    writer.write_batch(&values, None, None)?;
                }
                (ColumnWriter::DoubleColumnWriter(writer), Field::OptionalRatio(of)) => {
                    let values: Vec<f64> = rows().filter_map(of).collect();
                    writer.write_batch(
                        &values,
                        Some(&presence(rows().map(|row| of(row).is_some()))),
                        None,
                    )?;
                }
                _ => unreachable!("the schema is made of the fields"),
            }
            column.close()?;
        }
        Ok(())
    }
}

/// Reads the rows of a file by the names of their columns: all of them, or those of one column.
pub(crate) fn read<R: DeserializeOwned>(file: File, only: Option<&str>) -> io::Result<Vec<R>> {
    let reader = SerializedFileReader::new(file).map_err(io_error)?;
    let whole = reader.metadata().file_metadata().schema();
    let projection = only.map(|name| {
        let fields = whole.get_fields().iter().filter(|field| field.name() == name).cloned().collect();
        Type::group_type_builder(whole.name()).with_fields(fields).build()
    });
    let rows = reader.get_row_iter(projection.transpose().map_err(io_error)?).map_err(io_error)?;
    rows.map(|row| {
        let named =
            row.map_err(io_error)?.into_columns().into_iter().map(|(name, value)| (name, json(value)));
        serde_json::from_value(Value::Object(named.collect())).map_err(io::Error::other)
    })
    .collect()
}

/// A value of one of the types that are written.
fn json(value: Read) -> Value {
    match value {
        Read::Str(text) => text.into(),
        Read::Long(count) => count.into(),
        // As counts were written in schema version 1.
        Read::ULong(count) => count.into(),
        Read::Double(number) => number.into(),
        _ => Value::Null,
    }
}

/// A count as it is stored.
fn signed(count: u64) -> Result<i64> {
    i64::try_from(count).map_err(|_| {
        let words = format!("a count of {count} is more than a signed number of 64 bits holds");
        ParquetError::External(io::Error::other(words).into())
    })
}

/// By row: 1 where there is a value, 0 where there is none.
fn presence(is_there: impl Iterator<Item = bool>) -> Vec<i16> {
    is_there.map(i16::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row {
        name: &'static str,
        alias: Option<&'static str>,
        count: u64,
        size: Option<u64>,
        ratio: f64,
        share: Option<f64>,
    }

    const COLUMNS: [Column<Row>; 6] = [
        ("name", Field::Text(|row| row.name)),
        ("alias", Field::OptionalText(|row| row.alias)),
        ("count", Field::Count(|row| row.count)),
        ("size", Field::OptionalCount(|row| row.size)),
        ("ratio", Field::Ratio(|row| row.ratio)),
        ("share", Field::OptionalRatio(|row| row.share)),
    ];

    fn read_back(file: Vec<u8>) -> Vec<Vec<(String, Read)>> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        rows.map(|row| row.into_columns()).collect()
    }

    #[test]
    fn every_type_of_column_is_read_back() {
        let rows = [
            Row { name: "a", alias: None, count: i64::MAX as u64, size: None, ratio: 0.5, share: Some(0.25) },
            Row { name: "b", alias: Some("c"), count: 0, size: Some(7), ratio: -1.0, share: None },
        ];
        let mut file = Vec::new();
        write(&COLUMNS, &rows, &mut file).unwrap();
        let named = |values: [Read; 6]| -> Vec<_> {
            COLUMNS.iter().map(|(name, _)| name.to_string()).zip(values).collect()
        };
        let [a, b, c] = ["a", "b", "c"].map(|name| Read::Str(name.into()));
        let expected = [
            named([a, Read::Null, Read::Long(i64::MAX), Read::Null, Read::Double(0.5), Read::Double(0.25)]),
            named([b, c, Read::Long(0), Read::Long(7), Read::Double(-1.0), Read::Null]),
        ];
        assert_eq!(read_back(file), expected);
    }

    #[test]
    fn no_rows_make_a_file_with_the_same_columns() {
        let mut file = Vec::new();
        write(&COLUMNS, &[], &mut file).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let names: Vec<_> = schema.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, COLUMNS.map(|(name, _)| name));
    }

    #[test]
    fn a_count_that_has_no_place_is_refused() {
        let row = Row { name: "a", alias: None, count: 1 << 63, size: None, ratio: 0.5, share: None };
        let error = write(&COLUMNS, &[row], Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "a count of 9223372036854775808 is more than a signed number of 64 bits holds");
    }

    #[test]
    fn a_full_disk_is_an_error_of_the_disk() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(write(&COLUMNS, &[], Full).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
