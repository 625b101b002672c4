//! Where results go: standard output, or a file that appears only when it is complete.
//!
//! ```
//! use std::io::Write;
//! use std::path::Path;
//! use sweephand_output::Output;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("result.csv");
//! let mut out = Output::create(&path, &[])?;
//! writeln!(out, "policy,faults")?;
//! assert!(!path.exists());
//! out.commit()?;
//! assert!(path.exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of any new file, from which the umask takes.
const NEW_FILE: u32 = 0o666;
/// The mode of what waits for a pipe, beside the files of others.
const PRIVATE: u32 = 0o600;

/// Why an output cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file was meant.
    #[error("{}: is a directory; name a file", .0.display())]
    Directory(PathBuf),
    /// A directory was meant.
    #[error("{}: is a file; name a directory", .0.display())]
    File(PathBuf),
    /// It would replace something else that the command uses.
    #[error("{}: the command uses that file already{also}; name another for the output", .path.display())]
    InUse {
        /// The output.
        path: PathBuf,
        /// Under which other name it is used, as a part of the sentence.
        also: String,
    },
    /// It would replace whatever somebody else wants to have replaced.
    #[error("{}: is a link of another user's; name another file", .0.display())]
    ForeignLink(PathBuf),
    /// The directory that it is in cannot be looked at.
    #[error("{}", .0.display())]
    Unseen(PathBuf, #[source] io::Error),
    /// It cannot be opened.
    #[error("{}: cannot be created", .0.display())]
    NotCreated(PathBuf, #[source] io::Error),
    /// What goes to standard output at the end has no place until then.
    #[error("{}: cannot hold a temporary file (TMPDIR names another folder)", .0.display())]
    NoTemporary(PathBuf, #[source] io::Error),
    /// A directory cannot be made.
    #[error("{}: cannot be made", .0.display())]
    NotMade(PathBuf, #[source] io::Error),
    /// It cannot be written to, or not take its name.
    #[error("{}: cannot be written", .0.display())]
    NotWritten(PathBuf, #[source] io::Error),
}

/// A file that is written out of sight and takes its name with [`Output::commit`]. `-` is standard
/// output; that, and what is no regular file (`/dev/null`, a pipe), gets everything at once then
/// and is never replaced.
///
/// Until then it has no name, where the file system allows that, so whatever ends the program
/// leaves nothing behind. It is opened before a long run starts, so a path that cannot be written
/// is found out at once.
#[derive(Debug)]
pub struct Output {
    file: BufWriter<File>,
    path: PathBuf,
    /// What the contents are copied to instead of taking a name.
    sink: Option<File>,
    /// Kept where the file system has no nameless files.
    named: Option<tempfile::TempPath>,
}

impl Output {
    /// Opens an output that will be called `path`. It must not be one of `inputs`: what the command
    /// reads, or writes besides. `-` among them is standard input.
    pub fn create(path: &Path, inputs: &[&Path]) -> Result<Self, OutputError> {
        if path.is_dir() {
            return Err(OutputError::Directory(path.to_path_buf()));
        }
        refuse_foreign_links(path)?;
        if let Some(&input) = inputs.iter().find(|input| is_same_file(path, input)) {
            let also = match input {
                input if input == path => String::new(),
                input if input == Path::new("-") => " (standard input)".to_string(),
                input => format!(" (as {})", input.display()),
            };
            return Err(OutputError::InUse { path: path.to_path_buf(), also });
        }
        // What a symbolic link stands for is replaced, not the link.
        let path = &path.canonicalize().unwrap_or(path.to_path_buf());
        let not_created = |error| OutputError::NotCreated(path.to_path_buf(), error);
        let sink = if path == Path::new("-") {
            Some(io::stdout().as_fd().try_clone_to_owned().map(File::from).map_err(not_created)?)
        } else if path.metadata().is_ok_and(|existing| !existing.is_file()) {
            Some(File::options().write(true).open(path).map_err(not_created)?)
        } else {
            None
        };
        let (file, named) = match sink {
            Some(_) => {
                let directory = std::env::temp_dir();
                nameless(&directory, PRIVATE).map_err(|error| OutputError::NoTemporary(directory, error))?
            }
            None => nameless(&directory_of(path), NEW_FILE).map_err(not_created)?,
        };
        Ok(Self { file: BufWriter::new(file), path: path.to_path_buf(), sink, named })
    }

    /// Room for what is still to be written.
    pub fn room(&self) -> Result<Room, OutputError> {
        let file = self.file.get_ref().try_clone();
        let file = file.map_err(|error| OutputError::NotWritten(self.path.clone(), error))?;
        Ok(Room { file, path: self.path.clone() })
    }

    /// Gives the file its name, replacing what was there, or copies it to standard output.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { file, path, sink, named } = self;
        let not_written = |error| OutputError::NotWritten(path.clone(), error);
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error).map_err(not_written)?;
        if let Some(mut sink) = sink {
            file.seek(SeekFrom::Start(0)).map_err(not_written)?;
            io::copy(&mut file, &mut sink).map_err(not_written)?;
            return Ok(());
        }
        match named {
            Some(named) => named.persist(&path).map_err(|error| not_written(error.error)),
            None => give_name(&file, &path).map_err(not_written),
        }
    }
}

/// Room on the disk for what is still to be written to an output. It is the output's, even if
/// others fill the disk.
#[derive(Debug)]
pub struct Room {
    file: File,
    path: PathBuf,
}

impl Room {
    /// Makes sure that this many more bytes can be written. It fails if the disk has fewer. Where
    /// the file system promises nothing, it only looks how much is free.
    pub fn ensure(&self, bytes: u64) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, end, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => match available_bytes(&self.path)? < bytes {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            },
            ensured => Ok(ensured?),
        }
    }

    /// Gives back what was not needed. All has been written and flushed.
    pub fn release(&self) -> Result<(), OutputError> {
        let given_back = self.file.metadata().and_then(|file| self.file.set_len(file.len()));
        given_back.map_err(|error| OutputError::NotWritten(self.path.clone(), error))
    }
}

/// Bytes that may still be written where a file of this name is.
pub fn available_bytes(path: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(directory_of(path))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// In a directory where everybody can make files, as in `/tmp`, a link that somebody else has put
/// under this name would have any file of ours replaced. (The kernel refuses to follow one where
/// `fs.protected_symlinks` is set; here it is read, not followed.)
fn refuse_foreign_links(path: &Path) -> Result<(), OutputError> {
    const ANYBODYS: u32 = 0o1002;
    let mut path = path.to_path_buf();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(link) = path.symlink_metadata() else { break };
        let Ok(target) = path.read_link() else { break };
        let directory = directory_of(&path);
        let place = directory.metadata().map_err(|error| OutputError::Unseen(directory.clone(), error))?;
        let own = rustix::process::geteuid().as_raw();
        if place.mode() & ANYBODYS == ANYBODYS && link.uid() != own && link.uid() != place.uid() {
            return Err(OutputError::ForeignLink(path));
        }
        path = directory.join(target);
    }
    Ok(())
}

/// Makes a folder for results, if it is not there.
pub fn make_folder(path: &Path) -> Result<(), OutputError> {
    if path.exists() && !path.is_dir() {
        return Err(OutputError::File(path.to_path_buf()));
    }
    std::fs::create_dir_all(path).map_err(|error| OutputError::NotMade(path.to_path_buf(), error))
}

/// The files that a command line may be about: the program, and what it is given.
pub fn named_by(command: &[OsString]) -> Vec<&Path> {
    command.iter().map(Path::new).collect()
}

/// Whether an output would take the place of a file that is in use: the same file, under whatever
/// name, or the same name of a file that is not there yet. Terminals, pipes and the like are not
/// replaced, so they may be both.
fn is_same_file(output: &Path, input: &Path) -> bool {
    if output == Path::new("-") {
        return false;
    }
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    match (output.metadata(), input.metadata()) {
        (Ok(output), Ok(input)) => {
            output.is_file() && (output.dev(), output.ino()) == (input.dev(), input.ino())
        }
        (Err(_), Err(_)) => {
            let place =
                |path: &Path| Some((directory_of(path).canonicalize().ok()?, path.file_name()?.to_owned()));
            place(output).is_some_and(|output| place(input) == Some(output))
        }
        _ => false,
    }
}

fn directory_of(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_path_buf()
}

/// A file without a name in `directory`; with one that is removed on drop where that cannot be.
fn nameless(directory: &Path, mode: u32) -> io::Result<(File, Option<tempfile::TempPath>)> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // It gets its name through /proc, which is not everywhere: a chroot may have none.
    let opened = match Path::new("/proc/self/fd").is_dir() {
        true => openat(rustix::fs::CWD, directory, flags, Mode::from_raw_mode(mode)),
        false => Err(Errno::OPNOTSUPP),
    };
    match opened {
        Ok(file) => Ok((File::from(file), None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => named(directory, mode).map(|(file, path)| (file, Some(path))),
        Err(error) => Err(error.into()),
    }
}

/// A file in `directory` that is removed on drop.
fn named(directory: &Path, mode: u32) -> io::Result<(File, tempfile::TempPath)> {
    let permissions = Permissions::from_mode(mode);
    let file =
        tempfile::Builder::new().prefix(".sweephand-").permissions(permissions).tempfile_in(directory)?;
    Ok(file.into_parts())
}

/// Links a nameless file under a name beside `path`, then renames it: a link alone cannot replace a
/// file.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &Path| Ok(linkat(CWD, &from, CWD, name, AtFlags::SYMLINK_FOLLOW)?);
    let beside = tempfile::Builder::new().prefix(".sweephand-").make_in(directory_of(path), link)?;
    beside.into_temp_path().persist(path).map_err(|error| error.error)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_takes_its_name_when_complete_and_replaces_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "before").unwrap();
        let mut out = Output::create(&path, &[]).unwrap();
        out.write_all(b"after").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        out.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        drop(Output::create(&path, &[]).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn output_has_the_mode_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, any] = ["ours", "any"].map(|name| folder.path().join(name));
        Output::create(&ours, &[]).unwrap().commit().unwrap();
        std::fs::write(&any, "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode();
        assert_eq!(mode(&ours), mode(&any));
        let (_, path) = named(folder.path(), NEW_FILE).unwrap();
        assert_eq!(mode(&path), mode(&any), "where the file system has no nameless files");
        let (_, path) = named(folder.path(), PRIVATE).unwrap();
        assert_eq!(mode(&path) & 0o777, 0o600, "what waits for a pipe");
    }

    #[test]
    fn room_is_kept_free_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut out = Output::create(&path, &[]).unwrap();
        let room = out.room().unwrap();
        room.ensure(1 << 20).unwrap();
        assert!(room.ensure(u64::MAX >> 2).is_err(), "no disk has that much");
        out.write_all(b"all").unwrap();
        out.flush().unwrap();
        room.ensure(1 << 20).unwrap();
        room.release().unwrap();
        out.commit().unwrap();
        let file = path.metadata().unwrap();
        assert_eq!(file.len(), 3);
        assert!(file.blocks() * 512 < 1 << 20, "{} blocks", file.blocks());
    }

    #[test]
    fn output_never_replaces_an_input() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["in", "link"].map(|name| folder.path().join(name));
        std::fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let message = |inputs: &[&Path]| Output::create(&path, inputs).unwrap_err().to_string();
        let shown = path.display();
        assert_eq!(
            message(&[&path]),
            format!("{shown}: the command uses that file already; name another for the output")
        );
        assert!(message(&[&link]).contains(&format!("already (as {});", link.display())));
        let directory = Output::create(folder.path(), &[]).unwrap_err().to_string();
        assert!(directory.ends_with(": is a directory; name a file"), "{directory}");
        assert!(make_folder(&path).unwrap_err().to_string().ends_with(": is a file; name a directory"));
    }
}

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
