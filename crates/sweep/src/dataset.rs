//! A dataset that survives a kill: Parquet files, and a journal of the rows that came in since.
//!
//! ```text
//! DIR/results/part-000000.parquet    rows, up to ROWS_PER_PART a file; all readers of Parquet take this folder as it is
//! DIR/_journal.jsonl                 rows that are in no part yet, a line each, written and synced as they come in
//! DIR/_failures.jsonl                cells of the last run that failed for good, and why
//! DIR/_traces.json                   hashes of traces, so that they are not read again to see that nothing has changed
//! DIR/_lock                          who is writing
//! ```
//!
//! A row is safe when [`Dataset::add`] returns. [`Dataset::fold`] turns the journal into a part. It
//! writes the whole part under another name, syncs and renames it, and only then empties the
//! journal. If it is killed in between, rows are in both; opening the dataset then drops those of
//! the journal. The last line of a journal may be torn. It is cut off, and its cell counts as
//! missing. The last part is written again with more rows until it is full, so there are few parts.

use crate::error::InFile;
use crate::{Algorithm, Cell, CellKey, Cells, Error, Hash, NamedTrace, TraceFile, is_url};
use rayon::prelude::*;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweephand_results::SweepRow;
use sweephand_trace::Trace;

/// Rows of a full part, and the most that a journal holds.
const ROWS_PER_PART: usize = 50_000;

/// The folder of the parts.
const RESULTS: &str = "results";
const JOURNAL: &str = "_journal.jsonl";
const FAILURES: &str = "_failures.jsonl";
const TRACES: &str = "_traces.json";
const LOCK: &str = "_lock";

/// A cell that failed however often it was tried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its key.
    pub cell: String,
    /// The trace.
    pub trace: String,
    /// The policy.
    pub policy: String,
    /// The memory size.
    pub memory: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What was wrong the last time.
    pub error: String,
}

impl Failure {
    /// A cell's.
    pub fn of(cell: &Cell, attempts: u32, error: impl ToString) -> Self {
        Self {
            cell: cell.key().to_string(),
            trace: cell.trace.name.clone(),
            policy: cell.policy.clone(),
            memory: cell.memory.clone(),
            attempts,
            error: error.to_string(),
        }
    }
}

/// A dataset that is open for writing, by this process only.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    /// The cells that have a row, in the parts or in the journal.
    done: HashSet<CellKey>,
    /// Rows in each part.
    parts: Vec<usize>,
    journal: File,
    /// The rows of the journal.
    pending: Vec<SweepRow>,
    failures: File,
    traces: BTreeMap<String, KnownTrace>,
    /// Held as long as this lives.
    _lock: File,
}

/// The hash of a trace as it was.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct KnownTrace {
    /// What changes when the trace does: length and time of a file, the ETag of an object.
    token: String,
    hash: Hash,
}

impl Dataset {
    /// Opens a dataset, or makes one. What a killed sweep left in the journal is taken up.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        if folder.exists() && !folder.is_dir() {
            return Err(Error::file(folder, "is a file; name a directory"));
        }
        fs::create_dir_all(folder).in_file(folder)?;
        let lock_path = folder.join(LOCK);
        if !lock_path.exists() && fs::read_dir(folder).in_file(folder)?.next().is_some() {
            return Err(Error::file(
                folder,
                "is not empty, and no dataset of a sweep; name another directory",
            ));
        }
        let lock = lock(&lock_path, folder)?;
        let results = folder.join(RESULTS);
        fs::create_dir_all(&results).in_file(&results)?;
        let mut done = HashSet::new();
        let mut parts = Vec::new();
        loop {
            let path = part_path(folder, parts.len());
            let Ok(file) = File::open(&path) else { break };
            let damaged = |reason: &dyn ToString| {
                Error::file(
                    &path,
                    format!("{}; remove it, and its cells are computed again", reason.to_string()),
                )
            };
            let keys = SweepRow::read_keys(file).map_err(|error| damaged(&error))?;
            parts.push(keys.len());
            for key in keys {
                done.insert(key.parse().map_err(|error: String| damaged(&error))?);
            }
        }
        let (journal, mut pending) = open_journal(&folder.join(JOURNAL))?;
        // A part that was finished just before the end has the journal's rows, or some of them.
        pending.retain(|row| row.cell.cell.parse().is_ok_and(|key| done.insert(key)));
        let failures_path = folder.join(FAILURES);
        let failures = File::create(&failures_path).in_file(&failures_path)?;
        let traces_path = folder.join(TRACES);
        // What is not there, or cannot be read, is made anew.
        let traces = fs::read(&traces_path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut dataset = Self {
            folder: folder.to_owned(),
            done,
            parts,
            journal,
            pending,
            failures,
            traces: traces.unwrap_or_default(),
            _lock: lock,
        };
        dataset.fold()?;
        Ok(dataset)
    }

    /// Where the parts are.
    pub fn results(&self) -> PathBuf {
        self.folder.join(RESULTS)
    }

    /// Where failures are recorded.
    pub fn failures(&self) -> PathBuf {
        self.folder.join(FAILURES)
    }

    /// Which of the cells have no row, by their places.
    pub fn missing(&self, cells: &Cells) -> Vec<usize> {
        let keys = cells.keys();
        (0..cells.len()).filter(|&place| !self.done.contains(&keys[place])).collect()
    }

    /// How many rows there are of cells that are not among these: of an earlier plan, of traces
    /// that have changed since.
    pub fn others(&self, cells: &Cells) -> usize {
        let keys: HashSet<CellKey> = cells.keys().into_iter().collect();
        self.done.iter().filter(|key| !keys.contains(key)).count()
    }

    /// Removes the rows of all cells but these.
    pub fn prune(&mut self, cells: &Cells) -> Result<(), Error> {
        let keep: HashSet<CellKey> = cells.keys().into_iter().collect();
        self.fold()?;
        for part in 0..self.parts.len() {
            let mut rows = self.read_part(part)?;
            rows.retain(|row| row.cell.cell.parse().is_ok_and(|key| keep.contains(&key)));
            if rows.len() < self.parts[part] {
                self.write_part(part, &rows)?;
            }
        }
        self.done.retain(|key| keep.contains(key));
        Ok(())
    }

    /// Takes rows in. They are on the disk when this returns.
    pub fn add(&mut self, rows: Vec<SweepRow>) -> Result<(), Error> {
        let path = self.folder.join(JOURNAL);
        let mut lines = Vec::new();
        for row in rows {
            let key = row.cell.cell.parse().map_err(Error::Other)?;
            // Two workers may have had the same cell: an executor that lost sight of one gave it to
            // another.
            if self.done.insert(key) {
                serde_json::to_writer(&mut lines, &row).map_err(io::Error::from).in_file(&path)?;
                lines.push(b'\n');
                self.pending.push(row);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.journal.write_all(&lines).and_then(|()| self.journal.sync_data()).in_file(&path)?;
        if self.pending.len() >= ROWS_PER_PART {
            self.fold()?;
        }
        Ok(())
    }

    /// Records a cell that failed for good. It stays missing, so the next run tries it again.
    pub fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        let mut line = serde_json::to_vec(failure).expect("words and numbers");
        line.push(b'\n');
        self.failures.write_all(&line).in_file(&self.failures())
    }

    /// Makes parts of the rows in the journal.
    pub fn fold(&mut self) -> Result<(), Error> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut pending = pending.into_iter();
        while pending.len() > 0 {
            // No row ever leaves a part: a part is written again with more rows, or begun.
            let last = self.parts.len().checked_sub(1).filter(|&last| self.parts[last] < ROWS_PER_PART);
            let (part, mut rows) = match last {
                Some(last) => (last, self.read_part(last)?),
                None => (self.parts.len(), Vec::new()),
            };
            rows.extend(pending.by_ref().take(ROWS_PER_PART - rows.len()));
            rows.sort_by(|a, b| order(a).cmp(&order(b)));
            self.write_part(part, &rows)?;
        }
        let path = self.folder.join(JOURNAL);
        let empty = |journal: &mut File| {
            journal.set_len(0)?;
            journal.seek(SeekFrom::Start(0))?;
            journal.sync_data()
        };
        empty(&mut self.journal).in_file(&path)
    }

    /// The traces with their hashes: the plan's, those known from last time if the file looks the
    /// same, or those of the files. URLs need to have theirs already.
    pub fn identify(&mut self, traces: &[NamedTrace]) -> Result<Vec<TraceFile>, Error> {
        let identify = |trace: &NamedTrace| {
            let NamedTrace { name, location, hash } = trace.clone();
            let file = |hash| TraceFile { name: name.clone(), location: location.clone(), hash };
            if !is_url(&location) {
                // Not after all cells have failed one by one.
                Trace::check_pages_of(Path::new(&location))?;
            }
            if let Some(hash) = hash {
                return Ok((file(hash), None));
            }
            if is_url(&location) {
                return Err(Error::Other(format!("{location}: its hash is not known")));
            }
            let path = Path::new(&location);
            let token = token(path).in_file(path)?;
            let known = self.known_hash(&location, &token);
            let hash = known.map_or_else(|| Hash::of(path, Algorithm::Xxh3), Ok)?;
            Ok((file(hash), Some(token)))
        };
        let identified = traces.par_iter().map(identify).collect::<Result<Vec<_>, Error>>()?;
        let (files, tokens): (Vec<_>, Vec<_>) = identified.into_iter().unzip();
        let hashed = files.iter().zip(tokens).filter_map(|(TraceFile { location, hash, .. }, token)| {
            Some((location.clone(), token?, hash.clone()))
        });
        self.remember_hashes(hashed)?;
        Ok(files)
    }

    /// The hash of a trace that was seen with this token, which changes when the trace does.
    pub fn known_hash(&self, location: &str, token: &str) -> Option<Hash> {
        self.traces.get(location).filter(|known| known.token == token).map(|known| known.hash.clone())
    }

    /// Keeps the hashes of traces: location, token, hash.
    pub fn remember_hashes(
        &mut self,
        traces: impl IntoIterator<Item = (String, String, Hash)>,
    ) -> Result<(), Error> {
        let traces = traces.into_iter().map(|(location, token, hash)| (location, KnownTrace { token, hash }));
        self.traces.extend(traces);
        let json = serde_json::to_vec_pretty(&self.traces).expect("words only");
        replace(&self.folder.join(TRACES), |file| file.write_all(&json))
    }

    fn read_part(&self, part: usize) -> Result<Vec<SweepRow>, Error> {
        let path = part_path(&self.folder, part);
        File::open(&path).and_then(SweepRow::read_parquet).in_file(&path)
    }

    fn write_part(&mut self, part: usize, rows: &[SweepRow]) -> Result<(), Error> {
        replace(&part_path(&self.folder, part), |file| {
            SweepRow::write_parquet(rows, io::BufWriter::new(file))
        })?;
        self.parts.resize(self.parts.len().max(part + 1), 0);
        self.parts[part] = rows.len();
        Ok(())
    }
}

fn part_path(folder: &Path, part: usize) -> PathBuf {
    folder.join(RESULTS).join(format!("part-{part:06}.parquet"))
}

/// What a file looks like without reading it.
fn token(path: &Path) -> io::Result<String> {
    let metadata = path.metadata()?;
    Ok(format!("{} bytes, {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// How rows are ordered within a part.
fn order(row: &SweepRow) -> (&str, &str, u64, &str) {
    let simulation = &row.simulation;
    (&simulation.trace, &simulation.policy, simulation.memory_pages, &row.cell.cell)
}

/// Writes a file so that its path has the old contents or the new ones, whole, whatever happens.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    // Beside the results and not among them, so that readers of the results see only whole files.
    let folder = path.parent().expect("a file of the dataset");
    let scratch = if folder.ends_with(RESULTS) { folder.parent().expect("the dataset") } else { folder };
    let replace = || {
        let mut file = tempfile::Builder::new().prefix("_new-").tempfile_in(scratch)?;
        write(file.as_file_mut())?;
        file.as_file().sync_all()?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    replace().in_file(path)
}

/// Takes the lock, or says who has it.
fn lock(path: &Path, folder: &Path) -> Result<File, Error> {
    let mut lock =
        File::options().read(true).write(true).create(true).truncate(false).open(path).in_file(path)?;
    if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(Error::file(path, io::Error::from(error)));
        }
        let mut owner = String::new();
        let _ = lock.read_to_string(&mut owner);
        let reason = format!(
            "another sweep is writing to it ({}); wait for it, or name another directory",
            owner.trim()
        );
        return Err(Error::file(folder, reason));
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    lock.set_len(0)
        .and_then(|()| writeln!(lock, "process {} on {host}", std::process::id()))
        .in_file(path)?;
    Ok(lock)
}

/// Opens the journal, and cuts off a last line that did not come to its end.
fn open_journal(path: &Path) -> Result<(File, Vec<SweepRow>), Error> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).in_file(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).in_file(path)?;
    let mut rows = Vec::new();
    let mut good = 0;
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_last = good + line.len() == text.len();
        match serde_json::from_slice(line) {
            Ok(row) if line.ends_with(b"\n") => rows.push(row),
            _ if is_last => break,
            Ok(_) => unreachable!("only the last line has no end"),
            Err(error) => {
                let reason =
                    format!("line {}: {error}; remove the line, and its cell is computed again", number + 1);
                return Err(Error::file(path, reason));
            }
        }
        good += line.len();
    }
    file.set_len(good as u64).in_file(path)?;
    file.seek(SeekFrom::End(0)).in_file(path)?;
    Ok((file, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlannedPolicy;
    use sweephand_results::{CellColumns, SimulationRow};

    /// The cells of traces with these numbers.
    fn cells_of(numbers: impl IntoIterator<Item = usize>) -> Cells {
        let trace = |number| TraceFile {
            name: format!("t{number}"),
            location: "t".into(),
            hash: "xxh3:0123456789abcdef".parse().unwrap(),
        };
        Cells {
            traces: numbers.into_iter().map(trace).collect(),
            policies: vec![PlannedPolicy { text: "lru".into(), revision: "1.1".into() }],
            memory: vec!["3p".into()],
            sample: None,
            warmup: None,
        }
    }

    fn row(number: usize) -> SweepRow {
        let cell = cells_of([number]).get(0);
        SweepRow {
            simulation: SimulationRow {
                trace: cell.trace.name.clone(),
                policy: cell.policy.clone(),
                memory_pages: 3,
                references: number as u64,
                distinct_pages: 1,
                faults: 1,
                first_touch_faults: 1,
                warmup_faults: 1,
                evictions: 0,
                hit_ratio: Some(0.5),
                faults_per_million_instructions: None,
                hand_steps: 0,
                sampled_pages: None,
                hit_ratio_error: None,
                predicted_seconds: None,
                predicted_pages_read: None,
                predicted_pages_written: None,
            },
            cell: CellColumns {
                memory: cell.memory.clone(),
                window: 0,
                sample: None,
                sample_seed: None,
                warmup: None,
                trace_hash: cell.trace.hash.to_string(),
                version: cell.version.clone(),
                seconds: 0.1,
                cell: cell.key().to_string(),
            },
        }
    }

    fn cells(count: usize) -> Cells {
        cells_of(0..count)
    }

    fn rows(numbers: std::ops::Range<usize>) -> Vec<SweepRow> {
        numbers.map(row).collect()
    }

    /// The numbers of the rows in the parts, ascending.
    fn stored(folder: &Path) -> Vec<u64> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder.join(RESULTS)).unwrap() {
            let rows = SweepRow::read_parquet(File::open(entry.unwrap().path()).unwrap()).unwrap();
            numbers.extend(rows.iter().map(|row| row.simulation.references));
        }
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn rows_that_came_in_before_a_kill_are_there_and_a_torn_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let mut dataset = Dataset::open(folder.path()).unwrap();
        dataset.add(rows(0..3)).unwrap();
        drop(dataset);
        assert!(stored(folder.path()).is_empty());
        let journal = folder.path().join(JOURNAL);
        let whole = fs::read(&journal).unwrap();
        let line = whole.len() / 3;
        // Wherever the kill came in the third line, its end included.
        for cut in [2 * line, 2 * line + 1, whole.len() - 2, whole.len() - 1] {
            fs::write(&journal, &whole[..cut]).unwrap();
            let copy = tempfile::tempdir().unwrap();
            fs::copy(&journal, copy.path().join(JOURNAL)).unwrap();
            fs::copy(folder.path().join(LOCK), copy.path().join(LOCK)).unwrap();
            let mut dataset = Dataset::open(copy.path()).unwrap();
            assert_eq!(dataset.missing(&cells(4)), [2, 3], "cut at {cut}");
            assert_eq!(stored(copy.path()), [0, 1], "cut at {cut}");
            dataset.add(rows(2..4)).unwrap();
            drop(dataset);
            let dataset = Dataset::open(copy.path()).unwrap();
            assert!(dataset.missing(&cells(4)).is_empty(), "cut at {cut}");
            assert_eq!(stored(copy.path()), [0, 1, 2, 3], "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_told() {
        let folder = tempfile::tempdir().unwrap();
        Dataset::open(folder.path()).unwrap().add(rows(0..3)).unwrap();
        let journal = folder.path().join(JOURNAL);
        let text = fs::read_to_string(&journal).unwrap();
        let damaged: Vec<_> =
            text.lines().enumerate().map(|(at, line)| if at == 1 { "{}" } else { line }).collect();
        fs::write(&journal, damaged.join("\n") + "\n").unwrap();
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("_journal.jsonl: line 2: "), "{error}");
        assert!(error.ends_with("remove the line, and its cell is computed again"), "{error}");
    }

    #[test]
    fn a_kill_between_a_part_and_the_emptying_of_the_journal_doubles_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut dataset = Dataset::open(folder.path()).unwrap();
        dataset.add(rows(0..3)).unwrap();
        let journal = fs::read(folder.path().join(JOURNAL)).unwrap();
        dataset.fold().unwrap();
        drop(dataset);
        fs::write(folder.path().join(JOURNAL), journal).unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        assert_eq!(dataset.missing(&cells(4)), [3]);
        assert_eq!(stored(folder.path()), [0, 1, 2]);
        assert_eq!(fs::read(folder.path().join(JOURNAL)).unwrap(), b"");
    }

    #[test]
    fn parts_are_filled_before_new_ones_are_begun() {
        let folder = tempfile::tempdir().unwrap();
        let mut dataset = Dataset::open(folder.path()).unwrap();
        dataset.add(rows(0..10)).unwrap();
        dataset.fold().unwrap();
        dataset.add(rows(5..2 * ROWS_PER_PART + 1)).unwrap();
        drop(dataset);
        let dataset = Dataset::open(folder.path()).unwrap();
        assert_eq!(dataset.parts, [ROWS_PER_PART, ROWS_PER_PART, 1]);
        let all: Vec<u64> = (0..=2 * ROWS_PER_PART as u64).collect();
        assert_eq!(stored(folder.path()), all);
        assert_eq!(dataset.missing(&cells(2 * ROWS_PER_PART + 2)), [2 * ROWS_PER_PART + 1]);
    }

    #[test]
    fn another_plan_reuses_rows_and_prune_takes_out_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut dataset = Dataset::open(folder.path()).unwrap();
        dataset.add(rows(0..5)).unwrap();
        let plan = cells_of([1, 3, 7]);
        assert_eq!(dataset.missing(&plan), [2]);
        assert_eq!(dataset.others(&plan), 3);
        dataset.prune(&plan).unwrap();
        assert_eq!(stored(folder.path()), [1, 3]);
        assert_eq!(dataset.others(&plan), 0);
        drop(dataset);
        assert_eq!(Dataset::open(folder.path()).unwrap().missing(&cells(4)), [0, 2]);
    }

    #[test]
    fn a_new_revision_of_a_policy_is_computed_again_and_the_other_policies_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut dataset = Dataset::open(folder.path()).unwrap();
        let mut plan = cells(2);
        plan.policies.push(PlannedPolicy { text: "clock".into(), revision: "1.1".into() });
        let row_of = |cells: &Cells, place| {
            let cell = cells.get(place);
            let mut row = row(0);
            (row.cell.cell, row.simulation.policy) = (cell.key().to_string(), cell.policy);
            row
        };
        dataset.add((0..4).map(|place| row_of(&plan, place)).collect()).unwrap();
        assert!(dataset.missing(&plan).is_empty());
        plan.policies[1].revision = "1.2".into();
        assert_eq!(dataset.missing(&plan), [1, 3], "clock on both traces");
        assert_eq!(dataset.others(&plan), 2, "the rows of before are not part of the plan");
        plan.policies[0].revision = "2.1".into();
        assert_eq!(dataset.missing(&plan).len(), 4, "the simulation counts otherwise");
    }

    #[test]
    fn two_writers_and_foreign_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        let owner = format!("another sweep is writing to it (process {} on ", std::process::id());
        assert!(error.contains(&owner), "{error}");
        drop(dataset);
        drop(Dataset::open(folder.path()).unwrap());
        let foreign = tempfile::tempdir().unwrap();
        fs::write(foreign.path().join("thesis.tex"), "").unwrap();
        let error = Dataset::open(foreign.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("is not empty, and no dataset of a sweep; name another directory"),
            "{error}"
        );
        assert_eq!(fs::read_dir(foreign.path()).unwrap().count(), 1);
    }

    #[test]
    fn hashes_are_known_as_long_as_the_trace_looks_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let hash: Hash = "xxh3:0123456789abcdef".parse().unwrap();
        let mut dataset = Dataset::open(folder.path()).unwrap();
        dataset.remember_hashes([("a".into(), "1".into(), hash.clone())]).unwrap();
        drop(dataset);
        let dataset = Dataset::open(folder.path()).unwrap();
        assert_eq!(dataset.known_hash("a", "1"), Some(hash));
        assert_eq!(dataset.known_hash("a", "2"), None);
        assert_eq!(dataset.known_hash("b", "1"), None);
    }

    #[test]
    fn a_file_replaced_by_one_as_long_looks_different() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.swt");
        fs::write(&path, "one").unwrap();
        let before = token(&path).unwrap();
        assert_eq!(token(&path).unwrap(), before);
        fs::write(&path, "two").unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_millis(1);
        File::options().append(true).open(&path).unwrap().set_modified(later).unwrap();
        assert_ne!(token(&path).unwrap(), before);
    }
}
