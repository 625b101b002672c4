//! Benchmarks of the pool. They print CSV.
//!
//! - `redb-pool engine`: redb under its own cache and under the pool, by turns: a load, commits,
//!   random look-ups, range scans. The phases are those of redb's own benchmark, with fewer
//!   entries.
//! - `redb-pool hits`: what a hit costs the pool with and without the lock, on 1 to 8 threads.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{BackendError, Builder, Database, ReadableDatabase, StorageBackend, TableDefinition};
use redb_pool::Pooled;
use redb_pool::pool::{BufferPool, PAGE_BYTES, Page, Storage};
use sweephand_policy::policies::{Clock, ClockProStrict, Lru, S3Fifo, Sieve};
use sweephand_policy::registry::Registered;
use sweephand_policy::{Arguments, PageId, SplitMix64};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["engine"] => engine(400_000, 3),
        // For tests: the same, small.
        ["engine", "small"] => engine(3_000, 1),
        ["hits"] => hits(2_000_000, 5),
        ["hits", "small"] => hits(2_000, 1),
        _ => Err("redb-pool engine|hits [small]".into()),
    }
}

/// Pages that go to and come from the file.
#[derive(Debug, Default)]
struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
}

/// A backend that counts.
#[derive(Debug)]
struct Counted {
    backend: FileBackend,
    traffic: Arc<Traffic>,
}

impl StorageBackend for Counted {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.traffic.read.fetch_add(out.len().div_ceil(PAGE_BYTES) as u64, Relaxed);
        self.backend.read(offset, out)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.backend.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.traffic.written.fetch_add(data.len().div_ceil(PAGE_BYTES) as u64, Relaxed);
        self.backend.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_range(start, end)
    }
    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_shared_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.unlock_range(start, end)
    }
}

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("table");

/// Bytes of a value, as in redb's benchmark.
const VALUE: usize = 150;

/// The exponent of the Zipf distribution that keys are drawn from.
const EXPONENT: f64 = 0.9;

/// Keys by popularity. A hash spreads them over the table.
struct Keys {
    cumulative: Vec<f64>,
}

impl Keys {
    fn new(entries: u64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u64| {
            sum += (rank as f64).powf(-EXPONENT);
            sum
        };
        Self { cumulative: (1..=entries).map(weight).collect() }
    }
    fn of_rank(rank: u64) -> u64 {
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn draw(&self, random: &mut SplitMix64) -> u64 {
        let total = self.cumulative[self.cumulative.len() - 1];
        let point = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * total;
        Self::of_rank(self.cumulative.partition_point(|sum| *sum <= point) as u64)
    }
}

/// How a database is opened: backend, bytes of cache.
type Open = fn(Counted, usize) -> Outcome<Database>;

fn own(backend: Counted, bytes: usize) -> Outcome<Database> {
    Ok(Builder::new().set_cache_size(bytes).create_with_backend(backend)?)
}

fn pooled<P: Registered + Send + 'static>(backend: Counted, bytes: usize) -> Outcome<Database> {
    let pool = Pooled::<P, _>::new(backend, (bytes / PAGE_BYTES) as u32)?;
    Ok(Builder::new().set_cache_size(0).create_with_backend(pool)?)
}

fn engine(entries: u64, rounds: usize) -> Outcome<()> {
    let keys = Keys::new(entries);
    let contestants: [(&str, Open); 6] = [
        ("redb", own),
        ("clock", pooled::<Clock>),
        ("clock-pro-strict", pooled::<ClockProStrict>),
        ("sieve", pooled::<Sieve>),
        ("s3-fifo", pooled::<S3Fifo>),
        ("lru", pooled::<Lru>),
    ];
    let directory = std::env::temp_dir().join(format!("redb-pool-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    println!("cache,cache_share,round,phase,operations,seconds,pages_read,pages_written");
    for round in 0..rounds {
        for share in [0.05, 0.2] {
            // Nodes of a B-tree are two thirds full.
            let bytes = (share * (entries as usize * (VALUE + 16) * 3 / 2) as f64) as usize;
            for (name, open) in contestants {
                let path = directory.join(name);
                let benchmark = Benchmark::on_new_database(&path, open, bytes, &keys, entries)?;
                benchmark.run(|phase, measured| println!("{name},{share},{round},{phase},{measured}"))?;
                std::fs::remove_file(&path)?;
            }
        }
    }
    Ok(std::fs::remove_dir(&directory)?)
}

/// What a phase came to.
struct Measured {
    operations: u64,
    seconds: f64,
    pages_read: u64,
    pages_written: u64,
}

/// As the last columns of the CSV.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, seconds, pages_read, pages_written } = self;
        write!(f, "{operations},{seconds:.3},{pages_read},{pages_written}")
    }
}

/// A database that the phases run on, one after another.
struct Benchmark<'a> {
    database: Database,
    traffic: Arc<Traffic>,
    keys: &'a Keys,
    entries: u64,
    random: SplitMix64,
}

/// Does the work of a phase, and returns how many operations that were.
type Phase<'a> = fn(&mut Benchmark<'a>) -> Outcome<u64>;

impl<'a> Benchmark<'a> {
    /// Replaces what is at `path` by an empty database.
    fn on_new_database(path: &Path, open: Open, bytes: usize, keys: &'a Keys, entries: u64) -> Outcome<Self> {
        let traffic = Arc::new(Traffic::default());
        let options =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let backend = Counted { backend: FileBackend::new(options)?, traffic: traffic.clone() };
        let database = open(backend, bytes)?;
        Ok(Self { database, traffic, keys, entries, random: SplitMix64::new(7) })
    }

    /// Runs all phases, and reports each when it is over.
    fn run(mut self, mut report: impl FnMut(&str, Measured)) -> Outcome<()> {
        let phases: [(&str, Phase<'a>); 5] = [
            ("bulk load", Self::bulk_load),
            ("batch writes", Self::batch_writes),
            ("random reads", Self::random_reads),
            ("random range reads", Self::random_range_reads),
            ("reads beside scans", Self::reads_beside_scans),
        ];
        for (name, phase) in phases {
            report(name, self.measure(phase)?);
        }
        Ok(())
    }

    fn measure(&mut self, phase: Phase<'a>) -> Outcome<Measured> {
        let before = (self.traffic.read.load(Relaxed), self.traffic.written.load(Relaxed));
        let start = Instant::now();
        let operations = phase(self)?;
        Ok(Measured {
            operations,
            seconds: start.elapsed().as_secs_f64(),
            pages_read: self.traffic.read.load(Relaxed) - before.0,
            pages_written: self.traffic.written.load(Relaxed) - before.1,
        })
    }

    fn value(number: u64) -> [u8; VALUE] {
        [number as u8; VALUE]
    }

    /// All entries, in one commit.
    fn bulk_load(&mut self) -> Outcome<u64> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(TABLE)?;
            for rank in 0..self.entries {
                table.insert(Keys::of_rank(rank), &Self::value(rank)[..])?;
            }
        }
        write.commit()?;
        Ok(self.entries)
    }

    /// Replaces entries, in commits of many.
    fn batch_writes(&mut self) -> Outcome<u64> {
        for _ in 0..20 {
            let write = self.database.begin_write()?;
            {
                let mut table = write.open_table(TABLE)?;
                for _ in 0..self.entries / 400 {
                    let key = self.keys.draw(&mut self.random);
                    table.insert(key, &Self::value(key)[..])?;
                }
            }
            write.commit()?;
        }
        Ok(self.entries / 400 * 20)
    }

    fn random_reads(&mut self) -> Outcome<u64> {
        let read = self.database.begin_read()?;
        let table = read.open_table(TABLE)?;
        for _ in 0..self.entries {
            assert!(table.get(self.keys.draw(&mut self.random))?.is_some());
        }
        Ok(self.entries)
    }

    fn random_range_reads(&mut self) -> Outcome<u64> {
        let read = self.database.begin_read()?;
        let table = read.open_table(TABLE)?;
        for _ in 0..self.entries / 20 {
            for entry in table.range(self.keys.draw(&mut self.random)..)?.take(10) {
                assert_eq!(entry?.1.value().len(), VALUE);
            }
        }
        Ok(self.entries / 20)
    }

    /// Look-ups while another reader goes through the whole table.
    fn reads_beside_scans(&mut self) -> Outcome<u64> {
        let read = self.database.begin_read()?;
        let table = read.open_table(TABLE)?;
        let mut scan = table.range::<u64>(..)?;
        for _ in 0..self.entries {
            assert!(table.get(self.keys.draw(&mut self.random))?.is_some());
            if scan.next().is_none() {
                scan = table.range::<u64>(..)?;
            }
        }
        Ok(self.entries)
    }
}

/// Pages without contents.
struct Nothing;

impl Storage for Nothing {
    fn read(&self, _page: PageId, _into: &mut Page) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, _page: PageId, _from: &Page) -> io::Result<()> {
        Ok(())
    }
}

/// Frames of the pool in which every access hits.
const FRAMES: u32 = 4096;

fn pool<P: Registered>() -> BufferPool<P, Nothing> {
    let defaults = Arguments::parse(&P::INFO, "").expect("no arguments are right");
    BufferPool::new(P::configure(FRAMES as usize, &defaults).expect("defaults are right"), FRAMES, Nothing)
}

fn hits(accesses: u64, rounds: usize) -> Outcome<()> {
    println!("policy,lock,threads,round,hits,seconds,million_hits_per_second");
    for round in 0..rounds {
        for threads in [1, 2, 4, 8] {
            let row = |policy: &str, lock: &str, seconds: f64| {
                let hits = accesses * threads;
                let rate = hits as f64 / seconds / 1e6;
                println!("{policy},{lock},{threads},{round},{hits},{seconds:.4},{rate:.2}");
            };
            row("clock", "none", hit(&pool::<Clock>(), threads, accesses)?);
            row("clock", "mutex", hit(&pool::<Clock>().with_locked_hits(), threads, accesses)?);
            row("clock-pro-strict", "none", hit(&pool::<ClockProStrict>(), threads, accesses)?);
            row("sieve", "none", hit(&pool::<Sieve>(), threads, accesses)?);
            row("s3-fifo", "mutex", hit(&pool::<S3Fifo>(), threads, accesses)?);
            row("lru", "mutex", hit(&pool::<Lru>(), threads, accesses)?);
        }
    }
    Ok(())
}

/// Seconds in which each thread hits random pages `accesses` times.
fn hit<P: Registered + Send>(pool: &BufferPool<P, Nothing>, threads: u64, accesses: u64) -> Outcome<f64> {
    for page in 0..FRAMES {
        pool.page(PageId(page))?;
    }
    let start = Barrier::new(threads as usize + 1);
    let seconds = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|seed| {
                let start = &start;
                scope.spawn(move || {
                    let mut random = SplitMix64::new(seed);
                    start.wait();
                    (0..accesses)
                        .map(|_| {
                            let page = PageId(random.below(FRAMES.into()) as u32);
                            u64::from(pool.page(page).expect("it is resident").read()[0])
                        })
                        .sum::<u64>()
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        let sum: u64 = workers.into_iter().map(|worker| worker.join().expect("no thread panics")).sum();
        assert_eq!(sum, 0);
        began.elapsed().as_secs_f64()
    });
    assert_eq!(pool.faults(), u64::from(FRAMES), "every access is a hit");
    Ok(seconds)
}
