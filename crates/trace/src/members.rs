//! An input as its members: one plain file, the files of an archive (zip, tar), or compressed files
//! one behind the other. Archives and compression may be nested.
//!
//! What an archive has beside data is passed over by name: what macOS adds (`__MACOSX/`, `._*`,
//! `.DS_Store`), and texts about the data (README, LICENSE, checksums). A note names it.

use std::cell::RefCell;
use std::io::{self, Cursor, ErrorKind, Read};
use std::rc::Rc;

use crate::Error;
use crate::buffered::Buffered;
use crate::bytes::read_error;
use crate::compression::{Compression, Frames};
use crate::intake::Intake;
use crate::source::{Archive, Plain, Source};
use crate::tar::Tar;
use crate::zip::{self, Zip};

/// Archives and compression within each other are followed this deep.
const NESTING: usize = 4;

/// How many bytes decide what a stream is, if that many arrive at once.
const HEAD: usize = 1024;

/// The file of an archive that is being read.
struct File<'a>(Rc<RefCell<dyn Archive + 'a>>);

impl Read for File<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

/// The members of an archive's files.
struct Files<'a> {
    archive: Rc<RefCell<dyn Archive + 'a>>,
    /// The members of the file that is being read.
    inner: Option<Box<dyn Source + 'a>>,
    depth: usize,
    /// The archive's own name in the archive around it.
    within: Option<String>,
    /// Its files have names.
    named: bool,
    intake: Rc<RefCell<Intake>>,
}

impl Source for Files<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.as_mut().map_or(Ok(0), |inner| inner.read(buffer))
    }

    fn next(&mut self) -> Result<bool, Error> {
        if let Some(inner) = &mut self.inner
            && inner.next()?
        {
            return Ok(true);
        }
        let first = self.inner.take().is_none();
        loop {
            // What goes wrong between two files is about neither.
            self.intake.borrow_mut().member.clone_from(&self.within);
            let file = self.archive.borrow_mut().next_file().map_err(|error| read_error(error, 0))?;
            let Some(name) = file else { return Ok(false) };
            let name = name.map(|name| self.path(&name));
            self.named |= name.is_some();
            match name {
                Some(name) if !is_data(&name) => {
                    self.intake.borrow_mut().pass(name);
                    continue;
                }
                Some(name) => self.intake.borrow_mut().begin(name),
                None => self.intake.borrow_mut().frames += u64::from(!first),
            }
            let file = Box::new(File(self.archive.clone()));
            self.inner = Some(open_at(file, self.depth + 1, &self.intake)?);
            return Ok(true);
        }
    }

    fn is_file(&self) -> bool {
        self.named || self.inner.as_ref().is_some_and(|inner| inner.is_file())
    }
}

impl Files<'_> {
    /// A name as it is shown: with that of the archive around it, and nothing that a terminal
    /// obeys.
    fn path(&self, name: &str) -> String {
        let name: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        self.within.as_ref().map_or_else(|| name.clone(), |within| format!("{within}/{name}"))
    }
}

/// The name of what is beside the data in an archive.
fn is_data(path: &str) -> bool {
    let of_macos = path.split('/').any(|part| part == "__MACOSX");
    let name = path.rsplit('/').next().unwrap_or_default();
    let (upper, stem) = (name.to_ascii_uppercase(), name.split('.').next().unwrap_or_default());
    let tells = |words: &[&str]| words.iter().any(|word| stem.eq_ignore_ascii_case(word));
    let ends = |ends: &[&str]| ends.iter().any(|end| upper.ends_with(end));
    !(of_macos
        || name.starts_with("._")
        || name == ".DS_Store"
        || tells(&["readme", "license", "licence", "copying", "notice", "changelog", "checksums"])
        || tells(&["md5sums", "sha1sums", "sha256sums", "sha512sums"])
        || ends(&[".MD", ".PDF", ".RST", ".HTML", ".MD5", ".SHA1", ".SHA256", ".SHA512"]))
}

/// Finds the members of an input, and goes to the first one. The beginning of that comes with it.
pub(crate) fn open<'a>(
    reader: Box<dyn Read + 'a>,
    intake: &Rc<RefCell<Intake>>,
) -> Result<(Vec<u8>, Box<dyn Source + 'a>), Error> {
    let mut source = open_at(reader, 0, intake)?;
    loop {
        let head = look(&mut |buffer| source.read(buffer))?;
        // An empty file says nothing.
        if !head.is_empty() || !source.next()? {
            return Ok((head, source));
        }
    }
}

fn open_at<'a>(
    mut reader: Box<dyn Read + 'a>,
    depth: usize,
    intake: &Rc<RefCell<Intake>>,
) -> Result<Box<dyn Source + 'a>, Error> {
    let head = look(&mut |buffer| reader.read(buffer))?;
    let (is_zip, is_tar) = (head.starts_with(zip::MAGIC), Tar::is(&head));
    let compression = Compression::of(&head);
    let reader = Cursor::new(head).chain(reader);
    if depth >= NESTING {
        return Ok(Box::new(Plain(reader)));
    }
    let reader = Buffered::new(Box::new(reader));
    let archive: Rc<RefCell<dyn Archive + 'a>> = match compression {
        Some(_) => Rc::new(RefCell::new(Frames::new(reader))),
        None if is_zip => Rc::new(RefCell::new(Zip::new(reader))),
        None if is_tar => Rc::new(RefCell::new(Tar::new(reader))),
        None => return Ok(Box::new(Plain(reader.into_read()))),
    };
    let within = intake.borrow().member.clone();
    let intake = intake.clone();
    let mut files = Files { archive, inner: None, depth, within, named: false, intake };
    files.next()?;
    Ok(Box::new(files))
}

/// The beginning of a stream: enough to tell what it is.
fn look(read: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>) -> Result<Vec<u8>, Error> {
    let mut head = vec![0; HEAD];
    let mut length = 0;
    // A live pipe may have little to give: what tells formats apart is enough.
    while length < crate::format::MAGIC.len() || (length < HEAD && !is_told(&head[..length])) {
        match read(&mut head[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error, length as u64)),
        }
    }
    head.truncate(length);
    Ok(head)
}

/// Whether bytes could be text.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r'))
}

/// Whether a beginning tells what the input is: by a mark, or by its first line. Other binary data
/// may need all of [`HEAD`].
fn is_told(head: &[u8]) -> bool {
    let is_marked = head.starts_with(&crate::format::MAGIC[..4])
        || head.starts_with(&crate::pgtr::MAGIC)
        || head.starts_with(zip::MAGIC)
        || Compression::of(head).is_some();
    is_marked || (is_text(head) && head.contains(&b'\n'))
}
