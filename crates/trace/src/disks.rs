//! Requests to disks, one a line: what SPC, MSR and blkparse have in common.
//!
//! A request becomes references at once. Where inputs are merged by time, it waits beside those of
//! the others first ([`Spool`]).

use crate::accesses::{Accesses, Disks};
use crate::columns::{Keep, NO_ROW, Role, Row, Spool, Value};
use crate::imported::Imported;
use crate::lines::Refused;
use crate::{Error, Sink};

/// Which disk a request is for.
#[derive(Clone, Copy)]
pub(crate) enum Disk<'a> {
    Number(u64),
    Name(&'a [u8]),
}

/// What a request does.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Action {
    Read,
    Write,
    /// The contents are gone.
    Discard,
}

const ACTIONS: [Action; 3] = [Action::Read, Action::Write, Action::Discard];

/// When a request was made.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    /// Orders the requests of several inputs: later ones have more.
    pub(crate) moment: f64,
    /// What the trace keeps.
    pub(crate) milliseconds: i64,
}

/// A request to a disk.
pub(crate) struct Request<'a> {
    /// `None` if the line has no time.
    pub(crate) time: Option<Time>,
    pub(crate) disk: Disk<'a>,
    pub(crate) action: Action,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl<'a> Request<'a> {
    /// The request as a row that waits.
    fn row(&self, time: Time) -> Row<'a> {
        let mut row = NO_ROW;
        row[Role::Time as usize] = Value::Real(time.milliseconds as f64);
        row[Role::Tenant as usize] = match self.disk {
            Disk::Number(number) => Value::Number(number),
            Disk::Name(name) => Value::Text(name),
        };
        row[Role::Op as usize] = Value::Number(self.action as u64);
        row[Role::Offset as usize] = Value::Number(self.offset);
        row[Role::Size as usize] = Value::Number(self.bytes);
        row
    }

    /// The request that [`row`](Self::row) made a row of.
    fn of(row: &Row<'a>) -> Self {
        let number = |role: Role| match row[role as usize] {
            Value::Number(number) => number,
            _ => unreachable!("each request has this number"),
        };
        let Value::Real(milliseconds) = row[Role::Time as usize] else {
            unreachable!("each request has a time")
        };
        Self {
            time: Some(Time { moment: 0.0, milliseconds: milliseconds as i64 }),
            disk: match row[Role::Tenant as usize] {
                Value::Text(name) => Disk::Name(name),
                _ => Disk::Number(number(Role::Tenant)),
            },
            action: ACTIONS[number(Role::Op) as usize],
            offset: number(Role::Offset),
            bytes: number(Role::Size),
        }
    }
}

/// Takes requests.
pub(crate) struct Requests<'a, S> {
    accesses: Accesses<'a, S>,
    disks: Disks,
    keep: Option<Keep<'a>>,
}

impl<'a, S: Sink> Requests<'a, S> {
    pub(crate) fn new(sink: &'a mut S) -> Self {
        Self { accesses: Accesses::new(sink), disks: Disks::default(), keep: None }
    }

    /// Hands on the requests that are taken, for merging.
    pub(crate) fn keep(&mut self, keep: Keep<'a>) {
        self.keep = Some(keep);
    }

    pub(crate) fn take(&mut self, request: &Request<'_>) -> Result<(), Refused> {
        let Request { time, disk, action, offset, bytes } = *request;
        if self.keep.is_some() && time.is_none() {
            return Err("no time to merge by".into());
        }
        let number = match disk {
            Disk::Number(number) => number,
            Disk::Name(name) => self.disks.number(name),
        };
        if let Some(time) = time {
            self.accesses.time(time.milliseconds);
        }
        match action {
            Action::Discard => self.accesses.discard(number, offset, bytes)?,
            _ => self.accesses.request(number, offset, bytes, action == Action::Write)?,
        }
        if let (Some(keep), Some(time)) = (&mut self.keep, time) {
            keep(time.moment, &request.row(time))?;
        }
        Ok(())
    }

    /// Takes the requests that wait, the earliest first.
    pub(crate) fn take_merged(&mut self, waiting: Spool) -> Result<(), Error> {
        waiting.for_each(true, &mut |row| {
            self.take(&Request::of(row)).map_err(|refused| match refused {
                Refused::Line(reason) => Error::columns(reason.to_owned()),
                Refused::Sink(error) => error,
            })
        })
    }

    /// References and instructions so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }

    /// That was all ([`Accesses::finish`]). `source`: the name of the format.
    pub(crate) fn imported(self, what: &str, source: &'static str) -> Result<Imported, Error> {
        let page_size = self.accesses.page_size();
        let end = self.accesses.finish(what)?;
        Ok(Imported { end, page_size, source, ..Imported::default() })
    }
}
