//! Where results go: standard output, or a file that appears only when it is complete.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that is written out of sight and takes its name with [`Output::commit`]. `-` is standard
/// output; that, and what is no regular file (`/dev/null`, a pipe), gets everything at once then
/// and is never replaced.
///
/// Until then it has no name at all, so whatever ends the program leaves nothing behind. It is
/// opened before a long run starts, so a path that cannot be written is found out at once.
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
    pub fn create(path: &Path, inputs: &[&Path]) -> anyhow::Result<Self> {
        if path.is_dir() {
            bail!("{}: is a directory; name a file", path.display());
        }
        refuse_foreign_links(path)?;
        if let Some(&input) = inputs.iter().find(|input| is_same_file(path, input)) {
            let also = match input {
                input if input == path => String::new(),
                input if input == Path::new("-") => " (standard input)".to_string(),
                input => format!(" (as {})", input.display()),
            };
            bail!(
                "{}: the command uses that file already{also}; name another for the output",
                path.display()
            );
        }
        // What a symbolic link stands for is replaced, not the link.
        let path = &path.canonicalize().unwrap_or(path.to_path_buf());
        let context = || format!("{}: cannot be created", path.display());
        let sink = if path == Path::new("-") {
            Some(io::stdout().as_fd().try_clone_to_owned().map(File::from).with_context(context)?)
        } else if path.metadata().is_ok_and(|existing| !existing.is_file()) {
            Some(File::options().write(true).open(path).with_context(context)?)
        } else {
            None
        };
        let directory = if sink.is_some() { std::env::temp_dir() } else { directory_of(path) };
        let (file, named) = nameless(&directory).with_context(context)?;
        Ok(Self { file: BufWriter::new(file), path: path.to_path_buf(), sink, named })
    }

    /// Gives the file its name, replacing what was there, or copies it to standard output.
    pub fn commit(self) -> anyhow::Result<()> {
        let Self { file, path, sink, named } = self;
        let context = || format!("{}: cannot be written", path.display());
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error).with_context(context)?;
        if let Some(mut sink) = sink {
            file.seek(SeekFrom::Start(0)).with_context(context)?;
            io::copy(&mut file, &mut sink).with_context(context)?;
            return Ok(());
        }
        match named {
            Some(named) => named.persist(&path).map_err(|error| error.error).with_context(context),
            None => give_name(&file, &path).with_context(context),
        }
    }
}

/// In a directory where everybody can make files, as in `/tmp`, a link that somebody else has put
/// under this name would have any file of ours replaced. (The kernel refuses to follow one where
/// `fs.protected_symlinks` is set; here it is read, not followed.)
fn refuse_foreign_links(path: &Path) -> anyhow::Result<()> {
    const ANYBODYS: u32 = 0o1002;
    let mut path = path.to_path_buf();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(link) = path.symlink_metadata() else { break };
        let Ok(target) = path.read_link() else { break };
        let directory = directory_of(&path);
        let place = directory.metadata().with_context(|| directory.display().to_string())?;
        let own = rustix::process::geteuid().as_raw();
        if place.mode() & ANYBODYS == ANYBODYS && link.uid() != own && link.uid() != place.uid() {
            bail!("{}: is a link of another user's; name another file", path.display());
        }
        path = directory.join(target);
    }
    Ok(())
}

/// Makes a folder for results, if it is not there.
pub(crate) fn make_folder(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !path.is_dir() {
        bail!("{}: is a file; name a directory", path.display());
    }
    std::fs::create_dir_all(path).with_context(|| format!("{}: cannot be made", path.display()))
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
fn nameless(directory: &Path) -> io::Result<(File, Option<tempfile::TempPath>)> {
    use rustix::fs::{Mode, OFlags, openat};
    use rustix::io::Errno;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // It gets its name through /proc, which is not everywhere: a chroot may have none.
    let opened = match Path::new("/proc/self/fd").is_dir() {
        true => openat(rustix::fs::CWD, directory, flags, Mode::from_raw_mode(0o666)),
        false => Err(Errno::OPNOTSUPP),
    };
    match opened {
        Ok(file) => Ok((File::from(file), None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let (file, path) =
                tempfile::Builder::new().prefix(".sweephand-").tempfile_in(directory)?.into_parts();
            Ok((file, Some(path)))
        }
        Err(error) => Err(error.into()),
    }
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
