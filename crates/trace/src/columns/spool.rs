//! Rows of several logs, kept until they are merged.
//!
//! Each log is read by itself and checked, so that errors name its lines. Its rows are kept in a
//! temporary file without a name. Then the rows of all logs are taken, the earliest first. A row
//! that is from before the row in front of it counts as from the same moment. Of rows of the same
//! moment, those of the log that was named first come first.

use super::description::ROLES;
use super::value::{Row, Value};
use crate::Error;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Bytes of each log that are read at a time.
const READ: usize = 1 << 16;

/// Rows of logs, one log behind the other.
pub(crate) struct Spool {
    file: BufWriter<File>,
    /// Bytes written.
    length: u64,
    /// Where each log begins.
    begins: Vec<u64>,
    row: Vec<u8>,
}

impl Spool {
    pub(crate) fn new() -> Result<Self, Error> {
        let file = BufWriter::with_capacity(1 << 20, tempfile::tempfile().map_err(Error::no_copy)?);
        Ok(Self { file, length: 0, begins: Vec::new(), row: Vec::new() })
    }

    /// The next rows are those of another log.
    pub(crate) fn begin(&mut self) {
        self.begins.push(self.length);
    }

    /// Keeps a row: its length, its time, and each value that is there with its role.
    pub(crate) fn push(&mut self, time: f64, row: &Row<'_>) -> Result<(), Error> {
        let Self { row: bytes, .. } = self;
        bytes.clear();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&time.to_le_bytes());
        for (role, value) in row.iter().enumerate() {
            let mut put = |kind: u8, value: &[u8]| {
                bytes.extend_from_slice(&[role as u8, kind]);
                bytes.extend_from_slice(value);
            };
            match value {
                Value::Absent => {}
                Value::Number(number) => put(NUMBER, &number.to_le_bytes()),
                Value::Real(number) => put(REAL, &number.to_le_bytes()),
                Value::Rounded(number) => put(ROUNDED, &number.to_le_bytes()),
                Value::Text(text) => {
                    put(TEXT, &(text.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(text);
                }
            }
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.length += u64::from(length);
        self.file.write_all(bytes).map_err(Error::no_copy)
    }

    /// Takes all rows: by time, or one log behind the other.
    pub(crate) fn for_each(
        mut self,
        by_time: bool,
        take: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.file.flush().map_err(Error::no_copy)?;
        let file = self.file.get_ref();
        let ends = self.begins.iter().skip(1).copied().chain([self.length]);
        let mut logs = Vec::new();
        for (at, end) in self.begins.iter().copied().zip(ends) {
            logs.push(Log { file, at, end, buffer: Vec::new(), used: 0, time: f64::NEG_INFINITY });
        }
        if !by_time {
            for log in &mut logs {
                while log.next()? {
                    log.take(take)?;
                }
            }
            return Ok(());
        }
        let mut first = BinaryHeap::new();
        for (number, log) in logs.iter_mut().enumerate() {
            if log.next()? {
                first.push(Reverse((Moment(log.time), number)));
            }
        }
        while let Some(Reverse((_, number))) = first.pop() {
            let log = &mut logs[number];
            log.take(take)?;
            if log.next()? {
                first.push(Reverse((Moment(log.time), number)));
            }
        }
        Ok(())
    }
}

const NUMBER: u8 = 0;
const REAL: u8 = 1;
const TEXT: u8 = 2;
const ROUNDED: u8 = 3;

/// Times, which are finite, in their order.
#[derive(PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The rows of a log that are still to come.
struct Log<'a> {
    file: &'a File,
    /// What is read next, and where the log ends.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Bytes of `buffer` before the present row.
    used: usize,
    /// The latest time so far.
    time: f64,
}

impl Log<'_> {
    /// Goes to the next row, if there is one.
    fn next(&mut self) -> io::Result<bool> {
        if self.used > 0 || !self.buffer.is_empty() {
            self.used += self.length();
        }
        if !self.fill(12)? {
            return Ok(false);
        }
        let length = self.length();
        self.fill(length)?;
        let time: [u8; 8] = self.buffer[self.used + 4..self.used + 12].try_into().expect("8 bytes");
        self.time = self.time.max(f64::from_le_bytes(time));
        Ok(true)
    }

    /// The length of the present row.
    fn length(&self) -> usize {
        let length = self.buffer[self.used..self.used + 4].try_into().expect("4 bytes");
        u32::from_le_bytes(length) as usize
    }

    /// Reads until the buffer has this many bytes of the present row; `false` at the log's end.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        while self.buffer.len() - self.used < bytes {
            let more = (self.end - self.at).min(READ.max(bytes) as u64) as usize;
            if more == 0 {
                return Ok(false);
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            let held = self.buffer.len();
            self.buffer.resize(held + more, 0);
            self.file.read_exact_at(&mut self.buffer[held..], self.at)?;
            self.at += more as u64;
        }
        Ok(true)
    }

    fn take(&self, take: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut bytes = &self.buffer[self.used..self.used + self.length()][12..];
        let mut row = [Value::Absent; ROLES];
        while let [role, kind, rest @ ..] = bytes {
            let length = if *kind == TEXT { 4 } else { 8 };
            let (value, rest) = rest.split_at(length);
            bytes = rest;
            row[*role as usize] = if *kind == TEXT {
                let length = u32::from_le_bytes(value.try_into().expect("4 bytes")) as usize;
                let (text, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Text(text)
            } else {
                let value: [u8; 8] = value.try_into().expect("8 bytes");
                match *kind {
                    NUMBER => Value::Number(u64::from_le_bytes(value)),
                    ROUNDED => Value::Rounded(f64::from_le_bytes(value)),
                    _ => Value::Real(f64::from_le_bytes(value)),
                }
            };
        }
        take(&row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::description::Role;

    fn row(time: f64, key: &str) -> Row<'_> {
        let mut row = [Value::Absent; ROLES];
        row[Role::Time as usize] = Value::Real(time);
        row[Role::Key as usize] = Value::Text(key.as_bytes());
        row[Role::Size as usize] = Value::Number(key.len() as u64);
        row
    }

    fn keys(logs: &[&[(f64, &str)]], by_time: bool) -> Vec<String> {
        let mut spool = Spool::new().unwrap();
        for log in logs {
            spool.begin();
            log.iter().for_each(|(time, key)| spool.push(*time, &row(*time, key)).unwrap());
        }
        let mut keys = Vec::new();
        let mut take = |found: &Row<'_>| {
            let [Value::Text(key), Value::Real(time)] =
                [Role::Key, Role::Time].map(|role| found[role as usize])
            else {
                panic!("{found:?}")
            };
            let key = str::from_utf8(key).unwrap();
            assert_eq!(*found, row(time, key));
            keys.push(key.to_string());
            Ok(())
        };
        spool.for_each(by_time, &mut take).unwrap();
        keys
    }

    #[test]
    fn the_earliest_row_comes_first_and_then_the_log_named_first() {
        let logs: [&[_]; 4] = [
            &[(1.0, "a1"), (3.0, "a3"), (2.0, "a2"), (9.0, "a9")],
            &[],
            &[(-1.0, "b"), (3.0, "b3"), (4.0, "b4")],
            &[(3.0, "c3"), (3.0, "")],
        ];
        assert_eq!(keys(&logs, true), ["b", "a1", "a3", "a2", "b3", "c3", "", "b4", "a9"]);
        assert_eq!(keys(&logs, false), ["a1", "a3", "a2", "a9", "b", "b3", "b4", "c3", ""]);
    }

    #[test]
    fn rows_longer_than_what_is_read_at_a_time_come_back() {
        let long: Vec<String> = (0..40).map(|number| format!("{number}").repeat(number * 997)).collect();
        let log: Vec<(f64, &str)> = long.iter().map(|key| (1.0, &key[..])).collect();
        assert_eq!(keys(&[&log[..20], &log[20..]], true), long);
    }
}
