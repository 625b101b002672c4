//! Which column of a log may be what: by their names first, and then by their values.
//!
//! A guess must not be wrong where the file shows it. So names that say a unit have it (`lba`
//! counts sectors), two columns share a role only if both can have it, and [`Look`](crate::Look)
//! tries what is guessed on the first rows.

use std::collections::HashSet;

use super::description::Role;
use super::op::Op;
use super::requests::MOST_COUNT;
use super::value;

/// A column and its values.
pub(super) struct Sampled {
    /// How [`Columns`](super::Columns) names it.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// What a column may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) role: Role,
    /// What stands behind the column: `*512`, `/1000`.
    pub(super) unit: &'static str,
}

/// Names that columns have in logs, with the role that they tell and its unit, the most telling
/// first.
const NAMES: &[(Role, &str, &[&str])] = &[
    (Role::Offset, "", &["offset", "byteoffset", "fileoffset", "iooffset", "address", "addr"]),
    (Role::Offset, SECTORS, &["lba", "sector", "startlba", "startsector", "sectornumber", "lbn"]),
    (
        Role::Key,
        "",
        &[
            "key",
            "keyid",
            "object",
            "obj",
            "objectid",
            "objid",
            "cachekey",
            "url",
            "uri",
            "file",
            "filename",
            "fileid",
            "inode",
            "path",
            "page",
            "pageid",
            "blockid",
            "block",
            "startblock",
            "blockaddress",
            "blocknumber",
            "item",
            "itemid",
            "hash",
            "id",
        ],
    ),
    (
        Role::Size,
        "",
        &[
            "size",
            "bytes",
            "length",
            "len",
            "objectsize",
            "objsize",
            "valuesize",
            "sizebytes",
            "iosize",
            "requestsize",
            "nbytes",
        ],
    ),
    (Role::Size, SECTORS, &["sectors", "nsectors", "numsectors", "sectorcount", "sizesectors"]),
    (
        Role::Op,
        "",
        &["op", "operation", "opcode", "optype", "rw", "iotype", "type", "method", "command", "verb"],
    ),
    (Role::Time, "", &["time", "timestamp", "ts", "optime", "starttime", "seconds", "date"]),
    (
        Role::Tenant,
        "",
        &[
            "tenant",
            "tenantid",
            "namespace",
            "volume",
            "volumeid",
            "disk",
            "diskid",
            "device",
            "deviceid",
            "lun",
        ],
    ),
    (Role::Ttl, "", &["ttl", "expiry", "timetolive"]),
    (Role::Count, "", &["opcount", "requestcount", "count"]),
];

/// Behind a column that counts sectors.
pub(super) const SECTORS: &str = "*512";
const SECTOR: f64 = 512.0;

/// The role and the unit that a name tells, and how telling it is: less is more.
pub(super) fn named(name: &str) -> Option<(Guess, usize)> {
    let last = name.rsplit('.').next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_lowercase();
    let known =
        NAMES.iter().flat_map(|(role, unit, names)| names.iter().map(move |name| (*role, *unit, *name)));
    let mut known = known.enumerate();
    let (rank, (role, unit, _)) = known.find(|(_, (.., name))| *name == plain)?;
    Some((Guess { role, unit }, rank))
}

/// What each column may be.
pub(super) fn guess(columns: &[Sampled]) -> Vec<Option<Guess>> {
    let mut guesses = Guesses::by_name(columns);
    guesses.op();
    guesses.time();
    guesses.requested();
    guesses.size();
    guesses.owners();
    guesses.of
}

struct Guesses<'a> {
    columns: &'a [Sampled],
    /// The values of each column whose values are all numbers.
    numbers: Vec<Option<Vec<f64>>>,
    of: Vec<Option<Guess>>,
}

impl<'a> Guesses<'a> {
    fn by_name(columns: &'a [Sampled]) -> Self {
        let numbers = columns.iter().map(|column| {
            let numbers = column.values.iter().map(|value| number(value));
            numbers.collect::<Option<Vec<f64>>>().filter(|numbers| !numbers.is_empty())
        });
        let mut guesses = Self { columns, numbers: numbers.collect(), of: vec![None; columns.len()] };
        for (role, _) in Role::ALL {
            let told = columns.iter().enumerate().filter_map(|(index, column)| {
                named(&column.name)
                    .filter(|(guess, _)| guess.role == role)
                    .map(|(guess, rank)| (rank, index, guess))
            });
            if let Some((_, index, guess)) = told.min_by_key(|(rank, index, _)| (*rank, *index)) {
                guesses.of[index] = Some(guess);
            }
        }
        guesses
    }

    fn column(&self, role: Role) -> Option<usize> {
        self.of.iter().position(|guess| guess.is_some_and(|guess| guess.role == role))
    }

    fn is_free(&self, index: usize) -> bool {
        self.of[index].is_none()
    }

    fn set(&mut self, index: usize, role: Role, unit: &'static str) {
        self.of[index] = Some(Guess { role, unit });
    }

    /// Takes a role away from the column that has it.
    fn forget(&mut self, role: Role) {
        if let Some(index) = self.column(role) {
            self.of[index] = None;
        }
    }

    fn first_free(&self, is: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        (0..self.columns.len()).find(|index| self.is_free(*index) && is(self, *index))
    }

    fn all_numbers(&self, index: usize, is: impl Fn(f64) -> bool) -> bool {
        self.numbers[index].as_ref().is_some_and(|numbers| numbers.iter().all(|number| is(*number)))
    }

    /// Whether all values are whole numbers, as the reader takes them.
    fn all_whole(&self, index: usize) -> bool {
        self.columns[index].values.iter().all(|value| value::number(value.as_bytes()).is_some())
    }

    fn distinct(&self, index: usize) -> usize {
        self.columns[index].values.iter().collect::<HashSet<_>>().len()
    }

    /// Words for reading, writing or deleting, all of them.
    fn op(&mut self) {
        let are_words = |of: &Self, index: usize| {
            let values = &of.columns[index].values;
            !values.is_empty() && values.iter().all(|value| Op::of(value.as_bytes()).is_some())
        };
        match self.column(Role::Op) {
            // Its name says so, but its values need words that only the reader of the log knows.
            Some(index) if !are_words(self, index) => self.of[index] = None,
            Some(_) => {}
            None => {
                if let Some(index) = self.first_free(are_words) {
                    self.set(index, Role::Op, "");
                }
            }
        }
    }

    /// Times are numbers; without a name, numbers that never go back.
    fn time(&mut self) {
        let ascends = |of: &Self, index: usize| {
            of.numbers[index].as_deref().is_some_and(|numbers| {
                numbers.len() > 2 && numbers.is_sorted() && numbers.first() < numbers.last()
            })
        };
        let time = match self.column(Role::Time) {
            Some(index) => Some(index).filter(|index| self.numbers[*index].is_some()),
            None if self.columns.len() > 1 => self.first_free(ascends),
            None => None,
        };
        self.forget(Role::Time);
        if let Some(index) = time {
            let first = self.numbers[index].as_ref().map_or(0.0, |numbers| numbers[0]);
            self.set(index, Role::Time, unit_of_time(first));
        }
    }

    /// What is requested: a key, an offset, or both: a place in a file.
    fn requested(&mut self) {
        if let Some(offset) = self.column(Role::Offset)
            && !self.all_whole(offset)
        {
            self.of[offset] = None;
            if self.column(Role::Key).is_none() {
                self.set(offset, Role::Key, "");
            }
        }
        if let (Some(key), Some(_)) = (self.column(Role::Key), self.column(Role::Offset))
            && self.counts_rows(key)
        {
            self.of[key] = None;
        }
        if self.column(Role::Key).or(self.column(Role::Offset)).is_some() {
            return;
        }
        let best = (0..self.columns.len()).filter(|index| self.is_free(*index)).max_by_key(|index| {
            // The first of several that are as good.
            (self.distinct(*index), std::cmp::Reverse(*index))
        });
        if let Some(index) = best {
            let in_sectors = self.columns[index].values.len() > 2
                && self.all_whole(index)
                && self.all_numbers(index, |number| number % SECTOR == 0.0);
            self.set(index, if in_sectors { Role::Offset } else { Role::Key }, "");
        }
    }

    /// Numbers that go up by one from row to row are the rows', not those of objects.
    fn counts_rows(&self, index: usize) -> bool {
        self.numbers[index]
            .as_deref()
            .is_some_and(|numbers| numbers.len() > 2 && numbers.windows(2).all(|two| two[1] == two[0] + 1.0))
    }

    /// Sizes in bytes of requests to disks are whole sectors.
    fn size(&mut self) {
        if let Some(index) = self.column(Role::Size)
            && !self.all_whole(index)
        {
            self.of[index] = None;
        }
        let is_size = |of: &Self, index: usize| {
            of.all_whole(index) && of.all_numbers(index, |number| number >= SECTOR && number % SECTOR == 0.0)
        };
        match self.column(Role::Size) {
            None => {
                if let Some(index) = self.first_free(is_size) {
                    self.set(index, Role::Size, "");
                }
            }
            Some(index) => {
                let in_sectors =
                    self.of.iter().flatten().any(|of| of.role == Role::Offset && of.unit == SECTORS);
                // Where sectors are addressed, bytes are whole sectors. Otherwise they are sectors.
                if in_sectors && !self.all_numbers(index, |number| number % SECTOR == 0.0) {
                    self.set(index, Role::Size, SECTORS);
                }
            }
        }
    }

    /// Whose the request is, and for how many requests the row stands.
    fn owners(&mut self) {
        let is_count = |of: &Self, index: usize| {
            of.all_whole(index) && of.all_numbers(index, |value| value <= MOST_COUNT as f64)
        };
        if let Some(index) = self.column(Role::Count)
            && (!is_count(self, index) || self.column(Role::Offset).is_some())
        {
            self.of[index] = None;
        }
        // A host has its disks to itself, but not the objects that it asks for.
        if self.column(Role::Tenant).is_none() && self.column(Role::Offset).is_some() {
            let is_host = |of: &Self, index: usize| {
                let name = of.columns[index].name.to_ascii_lowercase();
                matches!(name.as_str(), "host" | "hostname")
            };
            if let Some(index) = self.first_free(is_host) {
                self.set(index, Role::Tenant, "");
            }
        }
    }
}

/// The number that a value is, also in hexadecimal.
fn number(value: &str) -> Option<f64> {
    let plain = value.parse::<f64>().ok().filter(|number| number.is_finite());
    plain.or_else(|| value::number(value.as_bytes()).map(|number| number as f64))
}

/// The unit of a time, if it is one of this century: seconds then have ten digits.
fn unit_of_time(time: f64) -> &'static str {
    match time {
        1e11..1e14 => "/1000",
        1e14..1e17 => "/1000000",
        // Windows counts tenths of microseconds.
        1e17..1e18 => "/10000000",
        1e18.. => "/1000000000",
        _ => "",
    }
}
