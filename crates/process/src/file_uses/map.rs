//! Maps: tables of the kernel that BPF programs and this process both read and write.

use crate::accessed::program::{bpf, bpf_descriptor};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::marker::PhantomData;

const CREATE: libc::c_long = 0;
const LOOK_UP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const DELETE: libc::c_long = 3;
const LOOK_UP_SOME: libc::c_long = 24;
const TAKE_SOME: libc::c_long = 25;

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const RECENT_HASH: u32 = 9;
const ARRAY_OF_EACH_PROCESSOR: u32 = 6;
/// Entries take memory only once they are there.
const NOT_ALLOCATED_BEFORE: u32 = 1;

/// Entries that are read with one call.
const SOME: usize = 4096;

/// The argument of `BPF_MAP_CREATE`, as far as it is needed.
#[repr(C)]
struct CreateArgument {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

/// The argument of the calls about one entry.
#[repr(C)]
struct EntryArgument {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
}

/// The argument of the calls about some entries.
#[repr(C)]
struct SomeArgument {
    from: u64,
    next: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    flags: [u64; 2],
}

/// A map. Keys and values are plain numbers, without gaps between them.
#[derive(Debug)]
pub(super) struct Map<K, V> {
    descriptor: OwnedFd,
    holds: PhantomData<(K, V)>,
}

impl<K: Copy + Default, V: Copy + Default> Map<K, V> {
    fn make(kind: u32, entries: u32, flags: u32) -> io::Result<Self> {
        let (key_bytes, value_bytes) = (size_of::<K>() as u32, size_of::<V>() as u32);
        let mut argument = CreateArgument { kind, key_bytes, value_bytes, entries, flags };
        // SAFETY: the argument has no pointers.
        let descriptor = unsafe { bpf_descriptor(CREATE, &mut argument) }?;
        Ok(Self { descriptor, holds: PhantomData })
    }

    /// A map of at most this many entries.
    pub(super) fn hash(entries: u32) -> io::Result<Self> {
        Self::make(HASH, entries, NOT_ALLOCATED_BEFORE)
    }

    /// A map of some entries. If there is no room for another, one goes that has not been used for
    /// long.
    pub(super) fn recent(entries: u32) -> io::Result<Self> {
        Self::make(RECENT_HASH, entries, 0)
    }

    /// A map of one entry, which is there from the beginning. Its key is 0.
    pub(super) fn single() -> io::Result<Self> {
        Self::make(ARRAY, 1, 0)
    }

    /// The number of its descriptor, by which programs name it.
    pub(super) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn entry(&self, number: libc::c_long, key: &K, value: u64) -> io::Result<()> {
        let map = self.number() as u64;
        let mut argument = EntryArgument { map, key: &raw const *key as u64, value, flags: 0 };
        // SAFETY: the key is one, and the caller's value is one or, in a map with one for each
        // processor, as many.
        unsafe { bpf(number, &mut argument) }.map(drop)
    }

    /// Adds an entry, or changes it.
    pub(super) fn set(&self, key: &K, value: &V) -> io::Result<()> {
        self.entry(UPDATE, key, &raw const *value as u64)
    }

    /// Removes an entry, if it is there.
    pub(super) fn remove(&self, key: &K) {
        let _ = self.entry(DELETE, key, 0);
    }

    /// All entries.
    pub(super) fn all(&self) -> io::Result<Vec<(K, V)>> {
        self.read(LOOK_UP_SOME)
    }

    /// Removes all entries and returns them.
    pub(super) fn take(&self) -> io::Result<Vec<(K, V)>> {
        self.read(TAKE_SOME)
    }

    fn read(&self, number: libc::c_long) -> io::Result<Vec<(K, V)>> {
        let mut all = Vec::new();
        let (mut keys, mut values) = (vec![K::default(); SOME], vec![V::default(); SOME]);
        let (mut place, mut has_place) = ([0_u64; 4], false);
        loop {
            let mut argument = SomeArgument {
                from: if has_place { place.as_ptr() as u64 } else { 0 },
                next: place.as_mut_ptr() as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: keys.len() as u32,
                map: self.number() as u32,
                flags: [0; 2],
            };
            // SAFETY: there is room for `count` keys and values, and for a place, of 32 bytes at
            // most.
            let read = unsafe { bpf(number, &mut argument) }.map(drop);
            let is_last = match read.as_ref().map_err(Errno::from_io_error) {
                Ok(()) => false,
                Err(Some(Errno::NOENT)) => true,
                // Entries that the kernel keeps together are more than there is room for.
                Err(Some(Errno::NOSPC)) => {
                    let room = 2 * keys.len();
                    (keys, values) = (vec![K::default(); room], vec![V::default(); room]);
                    false
                }
                Err(_) => return read.map(|()| all),
            };
            let count = argument.count as usize;
            all.extend(keys.iter().copied().zip(values.iter().copied()).take(count));
            if is_last {
                return Ok(all);
            }
            has_place |= read.is_ok();
        }
    }
}

/// A map with one value for each processor.
#[derive(Debug)]
pub(super) struct Counts<V> {
    map: Map<u32, V>,
    processors: usize,
}

impl<V: Copy + Default> Counts<V> {
    /// Makes it.
    pub(super) fn make() -> io::Result<Self> {
        let listed = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let last = listed.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
        let processors = 1 + last.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { map: Map::make(ARRAY_OF_EACH_PROCESSOR, 1, 0)?, processors })
    }

    /// The number of its descriptor.
    pub(super) fn number(&self) -> i32 {
        self.map.number()
    }

    /// The values of all processors.
    pub(super) fn all(&self) -> io::Result<Vec<V>> {
        let mut values = vec![V::default(); self.processors];
        self.map.entry(LOOK_UP, &0, values.as_mut_ptr() as u64)?;
        Ok(values)
    }
}
