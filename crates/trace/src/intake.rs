//! What a reader notices beside the rows: members of an archive, lines that are no rows, and rows
//! that cannot be read. Notes say so in the end.

use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

use crate::Error;

/// Rows that cannot be read and are shown.
const SHOWN: usize = 3;

/// Members that are named in a note.
const NAMED: usize = 8;

/// What happens at a row or a record that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum BadRows {
    /// The import fails.
    #[default]
    Stop,
    /// It is skipped and counted. The import fails in the end if more than this share of all rows
    /// was skipped.
    Skip(f64),
}

/// The share of rows that are skipped without an error, unless another is asked for.
const SHARE: f64 = 0.01;

/// `stop`, `skip`, or `skip:5%`.
impl FromStr for BadRows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = match text.split_once(':') {
            None if text == "stop" => return Ok(Self::Stop),
            None if text == "skip" => Some(SHARE),
            Some(("skip", share)) => {
                share.strip_suffix('%').and_then(|share| share.parse::<f64>().ok()).map(|share| share / 100.0)
            }
            _ => None,
        };
        share
            .filter(|share| (0.0..=1.0).contains(share))
            .map(Self::Skip)
            .ok_or_else(|| "stop, skip, or skip with a share of all rows, as in skip:5%".into())
    }
}

impl BadRows {
    /// Refuses the wish to skip rows where there are none, for this reason.
    pub(crate) fn check(self, reason: &str) -> Result<(), Error> {
        match self {
            Self::Stop => Ok(()),
            Self::Skip(_) => Err(Error::columns(format!("{reason}: leave --bad-rows out"))),
        }
    }
}

/// What has been noticed so far.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    /// What happens at a row that cannot be read.
    pub(crate) bad_rows: BadRows,
    /// The file of an archive that is being read.
    pub(crate) member: Option<String>,
    /// Files of an archive, and of archives in it.
    members: Vec<String>,
    /// Files of an archive that are no data.
    passed: Vec<String>,
    /// Compressed files behind the first one.
    pub(crate) frames: u64,
    /// Rows and records, those that cannot be read among them.
    pub(crate) rows: u64,
    /// Lines that begin with `#`.
    pub(crate) comments: u64,
    /// Headers that stood there again.
    pub(crate) headers: u64,
    skipped: u64,
    /// The first of these, with the files of the archive that they are in.
    first_skipped: Vec<(Option<String>, Error)>,
}

impl Intake {
    /// A file of an archive is read next.
    pub(crate) fn begin(&mut self, name: String) {
        self.members.push(name.clone());
        self.member = Some(name);
    }

    /// An error of the input of that name, with the file of the archive that it is in.
    pub(crate) fn locate(&self, error: Error, name: &Path) -> Error {
        match &self.member {
            Some(member) => error.in_file(Path::new(&format!("{} ({member})", name.display()))),
            None => error.in_file(name),
        }
    }

    /// A file of an archive is no data.
    pub(crate) fn pass(&mut self, name: String) {
        self.passed.push(name);
    }

    /// A line or a record cannot be read, or what it stands for cannot be passed on. Gives the
    /// error back if it should stop the import.
    pub(crate) fn refuse(&mut self, error: Error) -> Result<(), Error> {
        let is_row = matches!(error, Error::Line { .. } | Error::Record { .. });
        if is_row { self.refuse_row(error) } else { Err(error) }
    }

    /// A row cannot be read.
    pub(crate) fn refuse_row(&mut self, error: Error) -> Result<(), Error> {
        if self.bad_rows == BadRows::Stop {
            return Err(error);
        }
        self.skipped += 1;
        if self.first_skipped.len() < SHOWN {
            self.first_skipped.push((self.member.clone(), error));
        }
        Ok(())
    }

    /// Adds what there is to say. An error if too many rows were skipped. `locate` gives the error
    /// of a row its place in the input.
    pub(crate) fn finish(
        &mut self,
        notes: &mut Vec<String>,
        locate: impl Fn(Error) -> Error,
    ) -> Result<(), Error> {
        let first = std::mem::take(&mut self.first_skipped).into_iter().map(|(member, error)| {
            let member = member.map_or_else(String::new, |member| format!("{member}: "));
            format!("skipped: {member}{}", locate(error))
        });
        let first_skipped: Vec<String> = first.collect();
        if let BadRows::Skip(share) = self.bad_rows
            && self.skipped as f64 > share * self.rows as f64
        {
            let (skipped, rows) = (self.skipped, self.rows);
            let mut reason = format!(
                "{skipped} of {rows} rows cannot be read, more than {}% (--bad-rows skip:SHARE% allows more)",
                share * 100.0
            );
            for first in &first_skipped {
                let _ = write!(reason, "; {first}");
            }
            return Err(Error::columns(reason));
        }
        if self.members.len() > 1 || (self.members.len() == 1 && !self.passed.is_empty()) {
            notes.push(format!(
                "{} of the archive: {}",
                count(self.members.len(), "file"),
                named(&self.members)
            ));
        }
        if !self.passed.is_empty() {
            notes.push(format!("passed over, because it is no data: {}", named(&self.passed)));
        }
        if self.frames > 0 {
            notes.push(format!("{} compressed files, one behind the other", self.frames + 1));
        }
        if self.headers > 0 {
            notes.push(format!("{} skipped that repeat the header", count(self.headers as usize, "line")));
        }
        if self.comments > 0 {
            notes.push(format!("{} skipped that begin with #", count(self.comments as usize, "line")));
        }
        if self.skipped > 0 {
            notes.push(format!("{} of {} skipped:", self.skipped, count(self.rows as usize, "row")));
            notes.extend(first_skipped);
        }
        Ok(())
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The first names.
fn named(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        let _ = write!(text, " and {} more", names.len() - NAMED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::BadRows;

    #[test]
    fn bad_rows_stop_or_are_skipped_up_to_a_share() {
        for (text, expected) in [
            ("stop", Some(BadRows::Stop)),
            ("skip", Some(BadRows::Skip(0.01))),
            ("skip:5%", Some(BadRows::Skip(0.05))),
            ("skip:100%", Some(BadRows::Skip(1.0))),
            ("skip:101%", None),
            ("skip:5", None),
            ("stop:5%", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
