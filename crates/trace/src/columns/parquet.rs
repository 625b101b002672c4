//! Parquet: a table whose columns lie one behind the other, with types.
//!
//! The directory of such a file stands at its end. So a file is read at places, and what comes
//! through a pipe or a decompressor is copied to a file without a name first. Columns have names,
//! with dots between the names of nested ones, or numbers from 1. Columns of lists are refused, and
//! so are decimal numbers. A time that has a unit is taken in seconds.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{Compression, ConvertedType, LogicalType, TimeUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::description::{Columns, Place, ROLES, Role, column_named};
use super::requests::Requests;
use super::value::Value;
use crate::bytes::read_error;
use crate::imported::Progress;
use crate::intake::Intake;
use crate::lines::Refused;
use crate::not_read::by_pyarrow;
use crate::{Error, Sink};

/// Rows that are decoded at a time.
const BATCH: usize = 4096;

/// A value of a column.
enum Cell {
    Absent,
    Number(u64),
    Single(f32),
    Real(f64),
    Text(ByteArray),
}

impl Cell {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Absent => Value::Absent,
            Self::Number(number) => Value::Number(*number),
            Self::Single(number) => Value::single(*number),
            Self::Real(number) => Value::double(*number),
            Self::Text(text) => Value::Text(text.data()),
        }
    }

    /// A number is not negative; other values may be names.
    fn signed(number: i64) -> Self {
        u64::try_from(number)
            .map_or_else(|_| Self::Text(number.to_string().into_bytes().into()), Self::Number)
    }
}

/// A column that is read.
struct Wanted {
    /// Its number among the columns that have values, from 0.
    leaf: usize,
    /// The definition level of a value that is there.
    level: i16,
    /// Its whole numbers have no sign.
    unsigned: bool,
    /// How many seconds one of its whole numbers stands for.
    seconds: Option<f64>,
}

impl Wanted {
    /// Refused with a reason if the values cannot be taken.
    fn new(leaf: usize, column: &ColumnDescriptor, is_time: bool) -> Result<Self, &'static str> {
        if column.max_rep_level() > 0 {
            return Err("a column of lists");
        }
        let (logical, converted) = (column.logical_type_ref(), column.converted_type());
        if matches!(logical, Some(LogicalType::Decimal(_) | LogicalType::Float16))
            || converted == ConvertedType::DECIMAL
        {
            return Err("a column of decimal numbers or of halves");
        }
        let unsigned = matches!(logical, Some(LogicalType::Integer(whole)) if !whole.is_signed)
            || matches!(
                converted,
                ConvertedType::UINT_8
                    | ConvertedType::UINT_16
                    | ConvertedType::UINT_32
                    | ConvertedType::UINT_64
            );
        let seconds = match (logical, converted) {
            (Some(LogicalType::Timestamp(time) | LogicalType::Time(time)), _) => match time.unit {
                TimeUnit::MILLIS => Some(1e-3),
                TimeUnit::MICROS => Some(1e-6),
                TimeUnit::NANOS => Some(1e-9),
            },
            (_, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIME_MILLIS) => Some(1e-3),
            (_, ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS) => Some(1e-6),
            _ => None,
        };
        Ok(Self { leaf, level: column.max_def_level(), unsigned, seconds: seconds.filter(|_| is_time) })
    }

    fn whole(&self, number: i64) -> Cell {
        match self.seconds {
            Some(seconds) => Cell::Real(number as f64 * seconds),
            None => Cell::signed(number),
        }
    }

    /// The values of at most [`BATCH`] rows, which replace those in `cells`.
    fn read(&self, reader: &mut ColumnReader, cells: &mut Vec<Cell>) -> Result<(), ParquetError> {
        use ColumnReader as Of;
        let level = self.level;
        match reader {
            Of::BoolColumnReader(reader) => batch(reader, level, cells, |truth| Cell::Number(truth.into())),
            Of::Int32ColumnReader(reader) if self.unsigned => {
                batch(reader, level, cells, |number| Cell::Number(number.cast_unsigned().into()))
            }
            Of::Int32ColumnReader(reader) => batch(reader, level, cells, |number| self.whole(number.into())),
            Of::Int64ColumnReader(reader) if self.unsigned => {
                batch(reader, level, cells, |number| Cell::Number(number.cast_unsigned()))
            }
            Of::Int64ColumnReader(reader) => batch(reader, level, cells, |number| self.whole(number)),
            Of::Int96ColumnReader(reader) => {
                batch(reader, level, cells, |time| Cell::Real(time.to_nanos() as f64 * 1e-9))
            }
            Of::FloatColumnReader(reader) => batch(reader, level, cells, Cell::Single),
            Of::DoubleColumnReader(reader) => batch(reader, level, cells, Cell::Real),
            Of::ByteArrayColumnReader(reader) => batch(reader, level, cells, Cell::Text),
            Of::FixedLenByteArrayColumnReader(reader) => {
                batch(reader, level, cells, |bytes| Cell::Text(bytes.into()))
            }
        }
    }
}

fn batch<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    level: i16,
    cells: &mut Vec<Cell>,
    cell: impl Fn(T::T) -> Cell,
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let (rows, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut values)?;
    // A column all of whose values are there has no levels.
    let is_there = |row: usize| level == 0 || levels[row] == level;
    let mut values = values.into_iter();
    cells.clear();
    cells.extend(
        (0..rows).map(|row| is_there(row).then(|| values.next()).flatten().map_or(Cell::Absent, &cell)),
    );
    Ok(())
}

/// Takes a row: its number from 0, the values of the wanted columns in its batch, and its place in
/// the batch.
type EachRow<'a> = dyn FnMut(u64, &[Vec<Cell>], usize) -> Result<(), Error> + 'a;

/// The crate asserts some of what a file says. Damage is an error here.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let gave_up = |_| Err(ParquetError::General("it contradicts itself".into()));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(gave_up)
}

/// A file in this format.
pub(crate) struct Table {
    reader: SerializedFileReader<File>,
    /// Length of the file.
    bytes: u64,
}

impl Table {
    /// How a file begins and ends.
    pub(crate) const MARK: &[u8] = b"PAR1";

    /// Copies an input to the disk, and reads its directory.
    pub(crate) fn copy_of(mut input: impl Read) -> Result<Self, Error> {
        let mut copy = tempfile::tempfile().map_err(Error::no_copy)?;
        let mut buffer = vec![0; 1 << 17];
        let mut bytes = 0;
        loop {
            match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    copy.write_all(&buffer[..read]).map_err(Error::no_copy)?;
                    bytes += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error, bytes)),
            }
        }
        Self::in_file(copy)
    }

    /// Reads the directory of a file.
    pub(crate) fn in_file(file: File) -> Result<Self, Error> {
        let bytes = file.metadata()?.len();
        let whole = file.try_clone()?;
        let reader = guarded(|| SerializedFileReader::new(file)).map_err(|error| {
            Error::truncated(
                bytes,
                format!("and its directory, the end of a Parquet file, is not whole ({error})"),
            )
        })?;
        let table = Self { reader, bytes };
        if table.is_behind_another(&whole) {
            return Err(Error::columns(
                "two Parquet files one behind the other: put them into an archive, which is read file by file"
                    .into(),
            ));
        }
        Ok(table)
    }

    /// Whether the directory is that of a second file, whose places count from its own beginning:
    /// what it lists, and it itself, is shorter than all that there is, and the files meet where it
    /// begins.
    fn is_behind_another(&self, file: &File) -> bool {
        let at = |place: u64| {
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, place).is_ok().then_some(bytes)
        };
        let end = |place: Option<i64>, length: Option<i64>| match (place, length) {
            (Some(place), Some(length)) => place.checked_add(length),
            _ => None,
        };
        let columns = self.reader.metadata().row_groups().iter().flat_map(|group| group.columns());
        let ends = columns.flat_map(|column| {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            [
                end(Some(start), Some(column.compressed_size())),
                end(column.column_index_offset(), column.column_index_length().map(i64::from)),
                end(column.offset_index_offset(), column.offset_index_length().map(i64::from)),
                end(column.bloom_filter_offset(), column.bloom_filter_length().map(i64::from)),
            ]
        });
        let listed = ends.flatten().max().and_then(|end| u64::try_from(end).ok());
        let directory = at(self.bytes.saturating_sub(8)).map(u32::from_le_bytes);
        let (Some(listed), Some(directory)) = (listed, directory) else { return false };
        let own = listed.saturating_add(u64::from(directory) + 8);
        match self.bytes.checked_sub(own) {
            Some(begin @ 8..) => [begin - 4, begin].map(at) == [Some(*b"PAR1"); 2],
            _ => false,
        }
    }

    /// Whether the wanted columns are compressed as this program knows it.
    fn check_compression(&self, wanted: &[Wanted]) -> Result<(), Error> {
        let groups = self.reader.metadata().row_groups();
        let mut columns = groups.iter().flat_map(|group| wanted.iter().map(|one| group.column(one.leaf)));
        let unknown = columns.find_map(|column| match column.compression() {
            Compression::BROTLI(_) => Some("brotli"),
            Compression::LZO => Some("LZO"),
            _ => None,
        });
        let what = |name| format!("a Parquet file compressed by {name}");
        unknown.map_or(Ok(()), |name| Err(Error::not_read(what(name), by_pyarrow("parquet"))))
    }

    /// Its columns, by name.
    pub(super) fn names(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.columns().iter().map(|column| column.path().string()).collect()
    }

    fn wanted(&self, place: &Place, role: Role) -> Result<Wanted, Error> {
        let names = self.names();
        let leaf = match place {
            Place::Number(number) => number.checked_sub(1).filter(|leaf| *leaf < names.len()),
            Place::Name(name) => column_named(name, &names).map_err(Error::columns)?,
            Place::Bytes(..) => None,
        };
        let leaf = leaf.ok_or_else(|| {
            let asked = match place {
                Place::Number(number) => number.to_string(),
                Place::Name(name) => name.clone(),
                Place::Bytes(..) => "struct".to_owned(),
            };
            Error::columns(format!(
                "no column {asked} for {}: the Parquet file has {}",
                role.name(),
                names.join(" ")
            ))
        })?;
        let column = self.reader.metadata().file_metadata().schema_descr().column(leaf);
        Wanted::new(leaf, &column, role == Role::Time)
            .map_err(|reason| Error::columns(format!("{} is {reason}, which is not read", names[leaf])))
    }

    /// The crate takes it for granted that a column lies in the file.
    fn check_place(&self, column: &ColumnChunkMetaData) -> Result<(), ParquetError> {
        let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let place = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
        match place.and_then(|(start, length)| start.checked_add(length)) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(ParquetError::General("a column lies beyond the end of the file".into())),
        }
    }

    /// Gives the values of the wanted columns to `each`, row by row, until `each` fails.
    fn rows(&self, wanted: &[Wanted], each: &mut EachRow<'_>) -> Result<(), Error> {
        self.check_compression(wanted)?;
        let mut cells: Vec<Vec<Cell>> = wanted.iter().map(|_| Vec::new()).collect();
        let mut row = 0;
        for group in 0..self.reader.num_row_groups() {
            let damaged = |error: ParquetError| {
                let start = self.reader.metadata().row_group(group).file_offset().unwrap_or(0);
                Error::damaged(start.try_into().unwrap_or(0), format!("row group {group}: {error}"))
            };
            let reader = guarded(|| self.reader.get_row_group(group)).map_err(damaged)?;
            for wanted in wanted {
                self.check_place(reader.metadata().column(wanted.leaf)).map_err(damaged)?;
            }
            let readers: Result<Vec<_>, _> =
                wanted.iter().map(|wanted| guarded(|| reader.get_column_reader(wanted.leaf))).collect();
            let mut readers = readers.map_err(damaged)?;
            loop {
                for ((wanted, reader), cells) in wanted.iter().zip(&mut readers).zip(&mut cells) {
                    guarded(|| wanted.read(reader, cells)).map_err(damaged)?;
                }
                let rows = cells.iter().map(Vec::len).max().unwrap_or(0);
                if cells.iter().any(|cells| cells.len() < rows) {
                    return Err(damaged(ParquetError::General("columns of different lengths".into())));
                }
                for index in 0..rows {
                    each(row, &cells, index)?;
                    row += 1;
                }
                if rows == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads its rows into `requests`.
    pub(super) fn read<S: Sink>(
        &self,
        columns: &Columns,
        requests: &mut Requests<'_, S>,
        intake: &RefCell<Intake>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let described = &columns.columns;
        let wanted: Result<Vec<_>, _> =
            described.iter().map(|column| self.wanted(&column.place, column.role)).collect();
        self.rows(&wanted?, &mut |number, cells, index| {
            let mut row = [Value::Absent; ROLES];
            for (column, cells) in described.iter().zip(cells) {
                row[column.role as usize] = cells[index].value();
            }
            if index == 0 {
                let (records, instructions) = requests.counts();
                progress(Progress { bytes: 0, records, instructions });
            }
            intake.borrow_mut().rows += 1;
            requests.row(&row).or_else(|refused| match refused {
                Refused::Line(reason) => {
                    let error = Error::columns(format!("row {}: {reason}", number + 1));
                    intake.borrow_mut().refuse_row(error)
                }
                Refused::Sink(error) => Err(error),
            })
        })
    }

    /// The first rows, as text, by column; columns that are not read have none.
    pub(super) fn first_rows(&self, most: usize) -> Result<Vec<Vec<String>>, Error> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let mut texts = vec![Vec::new(); schema.num_columns()];
        let readable: Vec<_> = (0..schema.num_columns())
            .filter_map(|leaf| Wanted::new(leaf, &schema.column(leaf), true).ok())
            .collect();
        let mut enough = false;
        let read = self.rows(&readable, &mut |row, cells, index| {
            enough = row >= most as u64;
            if enough {
                return Err(Error::empty());
            }
            for (wanted, cells) in readable.iter().zip(cells) {
                texts[wanted.leaf].push(cells[index].value().to_string());
            }
            Ok(())
        });
        if enough { Ok(texts) } else { read.map(|()| texts) }
    }
}
