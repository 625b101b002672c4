//! A live recording: the program runs at its own speed with an agent in it, and the agent records
//! which pages are touched outside a window.
//!
//! `agent/src/paging/window.rs` says what the window is. This side starts the program and reads the
//! files that agents make in the run's directory. It only reads and writes them by system calls,
//! because they belong to the program's processes.

mod price;

pub use price::{NoFaults, check};
pub use sweephand_pager_interface::recording::Item;

use crate::cleanup;
use crate::error::{RunError, system};
use crate::launch::{ControlBlock, Library, text};
use crate::program;
use crate::run::allow_sanitizers;
use crate::run_scope::{CgroupLimit, RunScope};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering::Relaxed;
use sweephand_pager_interface::control::{Order, RecordingOrder};
use sweephand_pager_interface::recording as layout;
use sweephand_process::usage;

/// What is put into an order whose limit means nothing: agents that record page nothing.
const LIMIT_PAGES: u64 = 1 << 16;
/// Most new pages that a fault brings where a program fills memory in order and there is a budget
/// to hold. They are recorded together, touched or not, so this is a part of the smallest window.
const NEW_PAGES_A_FAULT: u32 = 16;
const WORD: usize = size_of::<u64>();

/// How to record.
#[derive(Clone, Copy, Debug)]
pub struct RecordingOptions {
    /// The part of the program's time that recording may take. Infinite: the window stays as small
    /// as it may be, whatever that takes.
    pub overhead: f64,
    /// The fewest pages of the window.
    pub least_pages: u32,
    /// Whether processes that the program starts are recorded as well.
    pub children: bool,
}

impl RecordingOptions {
    /// Without a budget, each new page takes a fault, so only what is touched is recorded.
    fn new_pages_a_fault(&self) -> u32 {
        if self.overhead.is_finite() { NEW_PAGES_A_FAULT } else { 1 }
    }
}

/// A program that a process runs: the process, and how many programs it was before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Image {
    /// The process.
    pub process: u32,
    /// Programs before it.
    pub number: u32,
}

/// A program that is being recorded.
pub struct Recording {
    program: PathBuf,
    child: Child,
    block: ControlBlock,
    scope: RunScope,
    files: BTreeMap<Image, Records>,
    price: price::Price,
}

/// The file of an agent.
#[derive(Debug)]
struct Records {
    file: File,
    /// Words read.
    read: u64,
}

impl Records {
    /// Opens a file whose agent has made it ready. `None`: it is not ready yet, or not an agent's.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let records = Self { file, read: 0 };
        Ok((records.file.metadata()?.is_file() && records.word(0)? == layout::MAGIC).then_some(records))
    }

    fn word(&self, number: usize) -> io::Result<u64> {
        let mut bytes = [0; WORD];
        match self.file.read_exact_at(&mut bytes, (number * WORD) as u64) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read.map(|()| u64::from_ne_bytes(bytes)),
        }
    }

    /// Takes the items that have been written since the last time.
    fn take(&mut self) -> io::Result<Vec<Item>> {
        let written = self.word(layout::WRITTEN)?;
        // More than fits is nonsense of a program that has written into its file.
        let count = written.saturating_sub(self.read).min(layout::RING_WORDS as u64) as usize;
        let mut bytes = vec![0; count * WORD];
        let first = (self.read % layout::RING_WORDS as u64) as usize;
        let until_end = (layout::RING_WORDS - first).min(count);
        let (early, late) = bytes.split_at_mut(until_end * WORD);
        self.file.read_exact_at(early, (layout::RING_START + first * WORD) as u64)?;
        self.file.read_exact_at(late, layout::RING_START as u64)?;
        let words: Vec<u64> = bytes.as_chunks().0.iter().copied().map(u64::from_ne_bytes).collect();
        let (mut items, mut at) = (Vec::with_capacity(count), 0);
        while let Some((item, length)) = Item::decode(&words[at..]) {
            items.push(item);
            at += length;
        }
        // An agent writes whole items. What is none is left out.
        self.read = written;
        self.file.write_all_at(&self.read.to_ne_bytes(), (layout::READ * WORD) as u64)?;
        Ok(items)
    }
}

impl Recording {
    /// Starts a program: its name, and its arguments. `prepare` sees to its streams and whatever
    /// else is not recording.
    pub fn start(
        command: &[OsString],
        options: &RecordingOptions,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, RunError> {
        let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let program = program::find(name)?;
        let scope = RunScope::around(LIMIT_PAGES * crate::PAGE_BYTES, CgroupLimit::Unlimited)?;
        cleanup::wait_for_polling();
        let price = price::measured()
            .map_err(|error| system("live recording".to_string())(io::Error::other(error)))?;
        let order = Order {
            limit_pages: LIMIT_PAGES,
            prefetch_pages: options.new_pages_a_fault(),
            policy: text("policy", Some("fifo"))?,
            directory: text("path of the run's directory", scope.directory().path().to_str())?,
            recording: RecordingOrder {
                is_on: 1,
                children: u32::from(options.children),
                least_pages: options.least_pages,
                // More than fits is `UNLIMITED`.
                overhead_millionths: (options.overhead * 1e6) as u32,
                fault_ns: price.fault_ns,
                answer_ns: price.answer_ns,
            },
            ..Order::default()
        };
        let mut start = Command::new(name);
        start.args(command.get(1..).unwrap_or_default());
        allow_sanitizers(&mut start);
        let block = Library::new(scope.directory())?.equip(&mut start, order)?;
        prepare(&mut start);
        let child = start.spawn().map_err(system(format!("{}: cannot be started", program.display())))?;
        Ok(Self { program, child, block, scope, files: BTreeMap::new(), price })
    }

    /// What a fault costs a thread of the program that an agent answers, in nanoseconds, as
    /// measured before the program started.
    pub fn fault_ns(&self) -> u32 {
        self.price.fault_ns
    }

    /// The same as measured while the program ran. `None` if there was no such fault.
    pub fn fault_ns_in_program(&self) -> Option<u32> {
        let counters = &self.block.control.counters;
        let answers = counters.answers.load(Relaxed);
        let answer_ns = counters.answers_ns.load(Relaxed).checked_div(answers)?;
        let more = (answer_ns.min(u32::MAX.into()) as u32).saturating_sub(self.price.answer_ns);
        Some(self.price.fault_ns.saturating_add(more))
    }

    /// The program's process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// What processes have recorded since the last time, in the order in which their programs
    /// began. A program that is new is there even if it has recorded nothing.
    pub fn take(&mut self) -> Result<Vec<(Image, Vec<Item>)>, RunError> {
        let found = self.find_files();
        let mut taken = Vec::new();
        for (image, records) in &mut self.files {
            let items = records.take().map_err(system(format!("records of process {}", image.process)))?;
            if !items.is_empty() || found.contains(image) {
                taken.push((*image, items));
            }
        }
        Ok(taken)
    }

    /// Finds files that agents have made. Returns which.
    fn find_files(&mut self) -> Vec<Image> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.scope.directory().path()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(image) = name.to_str().and_then(image_of) else { continue };
            if !self.files.contains_key(&image)
                && let Ok(Some(records)) = Records::open(&entry.path())
            {
                self.files.insert(image, records);
                found.push(image);
            }
        }
        found
    }

    /// Has the agents stop recording. The program goes on.
    pub fn stop(&self) {
        self.block.control.end_recording();
    }

    /// Processes that had an agent.
    pub fn agents(&self) -> u64 {
        self.block.control.counters.agents.load(Relaxed)
    }

    /// Waits for the program.
    pub fn wait(&self) -> Result<ExitStatus, RunError> {
        let waited = usage::wait(&self.child);
        let waited = waited.map_err(system(format!("{}: cannot be waited for", self.program.display())))?;
        Ok(waited.0)
    }

    /// Ends the recording of a program that has ended with a status. Other processes of it go on
    /// unrecorded.
    pub fn finish(self, status: ExitStatus) -> Result<(), RunError> {
        self.block.control.release();
        let agents = self.agents();
        self.scope.finish();
        if let Some(words) = self.block.failure() {
            return Err(RunError::Pager { program: self.program, words });
        }
        if agents == 0 && status.success() {
            return Err(RunError::NotLoaded(self.program));
        }
        Ok(())
    }
}

/// The program whose records have this name.
fn image_of(name: &str) -> Option<Image> {
    let (process, number) = name.strip_prefix("records-")?.split_once('-')?;
    Some(Image { process: process.parse().ok()?, number: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as an agent makes it, with these words. It says that `written` words were written.
    fn file(path: &Path, written: u64, words: &[u64]) {
        let file = File::create(path).unwrap();
        file.set_len(layout::FILE_BYTES as u64).unwrap();
        for (place, word) in [(0, layout::MAGIC), (layout::WRITTEN, written)] {
            file.write_all_at(&word.to_ne_bytes(), (place * WORD) as u64).unwrap();
        }
        for (number, word) in words.iter().enumerate() {
            let place = (number % layout::RING_WORDS * WORD + layout::RING_START) as u64;
            file.write_all_at(&word.to_ne_bytes(), place).unwrap();
        }
    }

    #[test]
    fn items_are_read_across_the_end_of_the_ring() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records-7-0");
        let touched = |page| Item::Touched { page, write: page % 2 == 0 };
        let word = |page| touched(page).encode().0[0];
        let ring = layout::RING_WORDS as u64;
        file(&path, ring - 1, &(0..ring - 1).map(word).collect::<Vec<_>>());
        let mut records = Records::open(&path).unwrap().unwrap();
        assert_eq!(records.take().unwrap(), (0..ring - 1).map(touched).collect::<Vec<_>>());
        assert_eq!(records.word(layout::READ).unwrap(), ring - 1);
        // An item of two words, one at the end of the ring and one at its start.
        let item = Item::Dropped { page: 5, pages: 6 };
        let [first, second, _] = item.encode().0;
        let write = |word: u64, place: usize| {
            records.file.write_all_at(&word.to_ne_bytes(), (place * WORD) as u64).unwrap();
        };
        write(first, layout::RING_START / WORD + layout::RING_WORDS - 1);
        write(second, layout::RING_START / WORD);
        write(ring + 1, layout::WRITTEN);
        assert_eq!(records.take().unwrap(), [item]);
        assert_eq!(records.take().unwrap(), []);
    }

    #[test]
    fn a_file_that_a_program_has_spoilt_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records-7-0");
        fs::write(&path, b"").unwrap();
        assert!(Records::open(&path).unwrap().is_none(), "it is not ready");
        file(&path, u64::MAX, &[7; 16]);
        let mut records = Records::open(&path).unwrap().unwrap();
        assert!(records.take().is_ok(), "whatever it says");
        records.file.set_len(64).unwrap();
        records.read = 0;
        assert!(records.take().is_err(), "it was made shorter");
        assert_eq!(image_of("records-12-3"), Some(Image { process: 12, number: 3 }));
        assert!(["records-12", "records-x-3", "control-0"].map(image_of).iter().all(Option::is_none));
    }
}
