//! The hours of a long watch, kept in a file, so that a later watch goes on with them.
//!
//! An hour is a line of JSON, of some 500 bytes: when it was, and the faults of the stand-in for
//! the kernel's policy in it, by memory size. The file has the service in its first line and at
//! most [`MOST_HOURS`] after it; the oldest are dropped, and those that are older than four weeks
//! when the last one ends. It is replaced as a whole once an hour, so that a watch that is killed
//! loses the hour that goes on, and nothing else. One watch at a time has the folder, because each
//! would replace the hours of the other.

use crate::{Estimates, History};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sweephand_advice::kernel_policy;
use sweephand_output::{Output, OutputError};
use sweephand_sim::SweepError;

/// The file in the folder.
const FILE: &str = "hours.jsonl";
/// Hours that are kept: four weeks.
const MOST_HOURS: usize = 4 * 7 * 24;
/// How long an hour is.
const HOUR: Duration = Duration::from_secs(3600);
/// Hours that end longer ago than this are dropped.
const LONGEST_AGO: Duration = Duration::from_secs(MOST_HOURS as u64 * 3600);
/// An hour that goes on when the watch ends is kept if it has this many epochs.
const LEAST_EPOCHS: u64 = 4;
/// Memory sizes of an hour.
const SIZES: u64 = 20;

/// An hour of a watch, or the last part of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hour {
    /// When it began, in seconds since 1970.
    pub start_unix_s: u64,
    /// How long it was watched, in nanoseconds.
    pub watched_ns: u64,
    /// Pages of the epoch that has the most.
    pub largest_epoch_pages: u64,
    /// Memory sizes, ascending.
    pub memory_pages: Vec<u64>,
    /// Faults there, on pages that were used before in the same watch: estimates.
    pub faults: Vec<u64>,
}

/// Why hours cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoursError {
    /// The file cannot be read.
    #[error("{}", .0.display())]
    Unread(PathBuf, #[source] io::Error),
    /// The file is of another service, or it is damaged.
    #[error("{}: {reason}; name another folder", .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// It cannot be written.
    #[error("{}: cannot be written", .0.display())]
    NotWritten(PathBuf, #[source] io::Error),
    /// Another watch has the folder.
    #[error("{}: another watch keeps its hours here; wait for its end, or name another folder", .0.display())]
    Busy(PathBuf),
    /// The hour cannot be simulated, because there is no thread for it.
    #[error("the hour's faults cannot be estimated: no thread can be started for them")]
    NoThread(#[source] rayon::ThreadPoolBuildError),
    /// The hour cannot be simulated.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

/// The hours of a service.
#[derive(Debug)]
pub struct Hours {
    path: PathBuf,
    /// The folder, locked until this is dropped.
    _folder: File,
    service: String,
    hours: Vec<Hour>,
    /// The last write has failed.
    is_unwritten: bool,
    /// When the hour that goes on began, from the start of the watch, and the epochs before it.
    began: (Duration, u64),
}

impl Hours {
    /// Those in a folder, which is that of one service. There may be none yet.
    ///
    /// # Errors
    /// The folder cannot be made or locked, or holds the hours of another service.
    pub fn open(folder: &Path, service: &str) -> Result<Self, HoursError> {
        let path = folder.join(FILE);
        let unread = |error| HoursError::Unread(path.clone(), error);
        std::fs::create_dir_all(folder).map_err(unread)?;
        let locked = File::open(folder).map_err(unread)?;
        flock(&locked, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
            Errno::WOULDBLOCK => HoursError::Busy(folder.to_path_buf()),
            _ => unread(errno.into()),
        })?;
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.map_err(unread)?,
        };
        let not_ours = |reason: String| HoursError::NotOurs { path: path.clone(), reason };
        let mut lines = text.lines();
        if let Some(first) = lines.next() {
            let head: serde_json::Value = serde_json::from_str(first).unwrap_or_default();
            match head["service"].as_str() {
                Some(of) if of == service => {}
                Some(of) => return Err(not_ours(format!("these are hours of {of}"))),
                None => return Err(not_ours("these are no hours of a watch".to_string())),
            }
        }
        let hour = |(index, line): (usize, &str)| {
            let at_line = |reason: String| format!("line {}: {reason}", index + 2);
            let hour: Hour = serde_json::from_str(line).map_err(|error| at_line(error.to_string()))?;
            let is_sound = hour.memory_pages.len() == hour.faults.len() && !hour.faults.is_empty();
            if is_sound { Ok(hour) } else { Err(at_line("it has no fault count for each size".to_string())) }
        };
        let hours = lines.enumerate().map(hour).collect::<Result<_, String>>().map_err(not_ours)?;
        Ok(Self {
            path,
            _folder: locked,
            service: service.to_string(),
            hours,
            is_unwritten: false,
            began: (Duration::ZERO, 0),
        })
    }

    /// The hours so far, in their order.
    pub fn hours(&self) -> &[Hour] {
        &self.hours
    }

    /// An epoch is over. If that ends an hour, it is kept.
    ///
    /// # Errors
    /// The file cannot be written. The hour is written with the next one then.
    pub fn epoch(&mut self, history: &History, now: SystemTime) -> Result<(), HoursError> {
        if history.watched() >= self.began.0 + HOUR { self.keep(history, now) } else { Ok(()) }
    }

    /// The watch is over. What there is of an hour is kept, unless that is next to nothing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, history: &History, now: SystemTime) -> Result<(), HoursError> {
        match history.epochs() >= self.began.1 + LEAST_EPOCHS {
            true => self.keep(history, now),
            false if self.is_unwritten => self.write(),
            false => Ok(()),
        }
    }

    fn keep(&mut self, history: &History, now: SystemTime) -> Result<(), HoursError> {
        let (began, _) = std::mem::replace(&mut self.began, (history.watched(), history.epochs()));
        // The other processors are the service's.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(HoursError::NoThread)?;
        let estimates = pool.install(|| Estimates::since(history, &[kernel_policy()], SIZES, began))?;
        let Some(estimates) = estimates else {
            return Ok(());
        };
        let part = estimates.parts[0];
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.hours.push(Hour {
            start_unix_s: since_1970.saturating_sub(part.length()).as_secs(),
            watched_ns: part.length().as_nanos() as u64,
            largest_epoch_pages: part.largest_epoch_pages,
            faults: (0..estimates.memory_pages.len())
                .map(|size| estimates.policies[0].in_all(size))
                .collect(),
            memory_pages: estimates.memory_pages,
        });
        let oldest = since_1970.saturating_sub(LONGEST_AGO).as_nanos();
        let end = |hour: &Hour| u128::from(hour.start_unix_s) * 1_000_000_000 + u128::from(hour.watched_ns);
        self.hours.retain(|hour| end(hour) >= oldest);
        let old = self.hours.len().saturating_sub(MOST_HOURS);
        self.hours.drain(..old);
        self.write()
    }

    fn write(&mut self) -> Result<(), HoursError> {
        self.is_unwritten = true;
        let mut out = Output::create(&self.path, &[])?;
        let mut write = || -> io::Result<()> {
            writeln!(out, "{}", json!({ "service": self.service }))?;
            self.hours.iter().try_for_each(|hour| writeln!(out, "{}", serde_json::to_string(hour)?))
        };
        write().map_err(|error| HoursError::NotWritten(self.path.clone(), error))?;
        out.commit()?;
        self.is_unwritten = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::UsedPage;

    /// Watches for some hours, in epochs of ten minutes, a loop over this many pages.
    fn watch(hours: &mut Hours, start_unix_s: u64, number: u64, pages: u64) {
        let mut history = History::default();
        history.keep_uses();
        for epoch in 0..number * 6 {
            let first = epoch % 2 * pages / 2;
            let used = (first..first + pages / 2).map(|number| UsedPage { number, dirty: false });
            let time = Duration::from_secs(600 * (epoch + 1));
            history.add(&used.collect::<Vec<_>>(), 1.0, time);
            hours.epoch(&history, UNIX_EPOCH + Duration::from_secs(start_unix_s) + time).unwrap();
        }
        let end = UNIX_EPOCH + Duration::from_secs(start_unix_s) + history.watched();
        hours.end(&history, end).unwrap();
    }

    #[test]
    fn a_later_watch_goes_on_and_old_hours_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        let open = || Hours::open(&place, "--unit web").unwrap();
        let mut hours = open();
        watch(&mut hours, 7200, 2, 100);
        drop(hours);
        let mut hours = open();
        assert_eq!(hours.hours().iter().map(|hour| hour.start_unix_s).collect::<Vec<_>>(), [7200, 10_800]);
        watch(&mut hours, 36_000, 3, 400);
        drop(hours);
        let all = open().hours().to_vec();
        assert_eq!(all.len(), 5);
        let last = &all[4];
        assert_eq!((last.start_unix_s, last.watched_ns), (43_200, 3_600_000_000_000));
        assert_eq!(last.largest_epoch_pages, 200);
        // All 1,200 uses of an hour are faults in a memory of nearly nothing, none in all pages.
        assert_eq!((last.memory_pages.len(), last.memory_pages[19]), (20, 400));
        assert!((1100..=1200).contains(&last.faults[0]) && last.faults[19] == 0, "{last:?}");
        let mut hours = open();
        hours.hours = vec![last.clone(); MOST_HOURS];
        watch(&mut hours, 100_000, 2, 10);
        drop(hours);
        let all = open().hours().to_vec();
        let starts = [0, MOST_HOURS - 3, MOST_HOURS - 2].map(|hour| all[hour].start_unix_s);
        assert_eq!((all.len(), starts), (MOST_HOURS, [43_200, 43_200, 100_000]));
        let bytes = std::fs::metadata(place.join(FILE)).unwrap().len();
        assert!(bytes < MOST_HOURS as u64 * 500, "{bytes}");
        // An hour later than four weeks after the end of the hours from 43,200 on.
        watch(&mut open(), 46_800 + 4 * 7 * 86_400, 1, 10);
        assert_eq!(open().hours().len(), 3);
    }

    #[test]
    fn one_watch_at_a_time_has_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Hours::open(folder.path(), "--unit web");
        let first = open().unwrap();
        let said = open().unwrap_err().to_string();
        assert!(
            said.ends_with(": another watch keeps its hours here; wait for its end, or name another folder")
        );
        drop(first);
        assert!(open().is_ok());
    }

    /// The folder is gone for an hour.
    #[test]
    fn an_hour_that_could_not_be_written_is_written_later() {
        let outer = tempfile::tempdir().unwrap();
        let [place, away] = ["hours", "away"].map(|name| outer.path().join(name));
        let mut hours = Hours::open(&place, "--unit web").unwrap();
        let mut history = History::default();
        history.keep_uses();
        let mut hour = |number: u64| {
            history.add(&[UsedPage { number: 1, dirty: false }], 1.0, HOUR * number as u32);
            let kept = hours.epoch(&history, UNIX_EPOCH + HOUR * number as u32);
            (kept.is_ok(), hours.end(&history, UNIX_EPOCH + HOUR * number as u32).is_ok())
        };
        std::fs::rename(&place, &away).unwrap();
        assert_eq!(hour(1), (false, false));
        std::fs::rename(&away, &place).unwrap();
        assert_eq!(hour(2), (true, true));
        std::fs::rename(&place, &away).unwrap();
        assert!(!hour(3).0);
        std::fs::rename(&away, &place).unwrap();
        assert!(hours.end(&history, UNIX_EPOCH + HOUR * 3).is_ok());
        drop(hours);
        assert_eq!(Hours::open(&place, "--unit web").unwrap().hours().len(), 3);
    }

    #[test]
    fn hours_of_others_and_damaged_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let error = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Hours::open(folder.path(), "--unit web").unwrap_err().to_string();
            error.replace(path.to_str().unwrap(), "FILE")
        };
        assert_eq!(
            error("{\"service\":\"--unit db\"}\n"),
            "FILE: these are hours of --unit db; name another folder"
        );
        assert_eq!(error("words\n"), "FILE: these are no hours of a watch; name another folder");
        let damaged = error("{\"service\":\"--unit web\"}\n{\"start_unix_s\":1}\n");
        assert!(damaged.starts_with("FILE: line 2: missing field"), "{damaged}");
        let sizes = "{\"start_unix_s\":1,\"watched_ns\":1,\"largest_epoch_pages\":1,\"memory_pages\":[1],\"faults\":[]}";
        let uneven = error(&format!("{{\"service\":\"--unit web\"}}\n{sizes}\n"));
        assert_eq!(uneven, "FILE: line 2: it has no fault count for each size; name another folder");
    }
}
