//! Inputs that are intact and that other programs read: what they are, and the filter that makes
//! something of them that is read here.

use std::fmt;
use std::io;

use crate::Error;
use crate::error::FILE;

/// What is not read.
#[derive(Clone, Debug)]
pub(crate) struct NotRead {
    /// What it is.
    pub(crate) what: String,
    /// The command that makes something else of it, on standard output; `FILE` stands for the
    /// file.
    pub(crate) filter: String,
}

impl NotRead {
    pub(crate) fn new(what: impl Into<String>, filter: impl Into<String>) -> Self {
        Self { what: what.into(), filter: filter.into() }
    }
}

/// It travels as the reason of an [`io::Error`] from the middle of a decompressor.
impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for NotRead {}

impl From<NotRead> for io::Error {
    fn from(reason: NotRead) -> Self {
        Self::other(reason)
    }
}

impl From<NotRead> for Error {
    fn from(NotRead { what, filter }: NotRead) -> Self {
        Self::not_read(what, filter)
    }
}

/// What pyarrow makes a CSV file of, by its reader.
pub(crate) fn by_pyarrow(reader: &str) -> String {
    format!(
        "python3 -c 'import sys, pyarrow.{reader} as f, pyarrow.csv as c; \
         c.write_csv(f.read_table(sys.argv[1]), sys.stdout.buffer)' {FILE}"
    )
}

/// What is known by its first bytes and not read.
pub(crate) fn by_head(head: &[u8]) -> Option<NotRead> {
    by_mark(head).or_else(|| json(head))
}

/// JSON that is not an object a line.
fn json(head: &[u8]) -> Option<NotRead> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let second = text.get(1..)?.trim_ascii_start().first()?;
    match (text[0], second) {
        (b'[', b'{') => Some(NotRead::new("a JSON array", "jq -c '.[]' FILE")),
        (b'[', b'[') => Some(NotRead::new("a JSON array of arrays", "jq -r '.[] | @csv' FILE")),
        (b'{', _) => {
            let line = &text[..memchr::memchr(b'\n', text)?];
            let cut_off =
                serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err_and(|error| error.is_eof());
            cut_off.then(|| NotRead::new("JSON with objects of several lines", "jq -c . FILE"))
        }
        _ => None,
    }
}

fn by_mark(head: &[u8]) -> Option<NotRead> {
    let arrow = by_pyarrow("feather");
    let orc = by_pyarrow("orc");
    let marks: [(&[u8], &str, &str); 12] = [
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z e -so FILE"),
        (b"Rar!\x1a\x07", "a RAR archive", "unrar p -inul FILE"),
        (b"\x1f\x9d", "compressed by compress", "gzip -dc FILE"),
        (b"\x5d\0\0", "compressed by lzma, the predecessor of xz", "xz --format=lzma -dc FILE"),
        (b"LZIP\x01", "compressed by lzip", "lzip -dc FILE"),
        (b"\x89LZO\0\r\n\x1a\n", "compressed by lzop", "lzop -dc FILE"),
        (b"\x02\x21\x4c\x18", "compressed by lz4 in its first format", "lz4 -dc FILE"),
        (b"\xff\x06\0\0sNaPpY", "compressed by snappy", "snzip -dc FILE"),
        (b"ARROW1\0\0", "a file of Apache Arrow", &arrow),
        (b"ORC", "a file of Apache ORC", &orc),
        (b"SQLite format 3\0", "a database of SQLite", "sqlite3 -csv FILE 'SELECT * FROM a_table'"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "h5dump -d A_DATASET -y -w 0 FILE"),
    ];
    let found = marks.iter().find(|(mark, ..)| head.starts_with(mark));
    found.map(|(_, what, filter)| NotRead::new(*what, *filter))
}
