//! Databases on the pool, with so few frames that pages come and go all the time.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};
use redb_pool::Pooled;
use sweephand_policy::SplitMix64;
use sweephand_policy::policies::{Clock, ClockProStrict, Lru, S3Fifo, Sieve};
use sweephand_policy::registry::Registered;

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("table");

fn open<P: Registered + Send + 'static>(path: &Path) -> Database {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    let pool = Pooled::<P, _>::new(FileBackend::new(file).unwrap(), 24).unwrap();
    Builder::new().set_cache_size(0).create_with_backend(pool).unwrap()
}

/// Writes, removals, aborts, and a reader of an old state, beside an ordered map that shares no
/// code; then the file is opened again, without the pool.
fn agrees_with_a_map<P: Registered + Send + 'static>() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    let mut random = SplitMix64::new(3);
    let mut expected = BTreeMap::new();
    let contents = |database: &Database| -> BTreeMap<u64, Vec<u8>> {
        let read = database.begin_read().unwrap();
        let Ok(table) = read.open_table(TABLE) else { return BTreeMap::new() };
        let entries = table.iter().unwrap().map(|entry| entry.unwrap());
        entries.map(|(key, value)| (key.value(), value.value().to_vec())).collect()
    };
    for opened in 0..3 {
        let database = open::<P>(&path);
        assert_eq!(contents(&database), expected, "opened {opened} times before");
        for transaction in 0..8 {
            let mut changed = expected.clone();
            let write = database.begin_write().unwrap();
            {
                let mut table = write.open_table(TABLE).unwrap();
                for _ in 0..150 {
                    let key = random.below(500);
                    if random.below(4) == 0 {
                        table.remove(key).unwrap();
                        changed.remove(&key);
                    } else {
                        let value = vec![key as u8; random.below(2000) as usize];
                        table.insert(key, &value[..]).unwrap();
                        changed.insert(key, value);
                    }
                }
            }
            let before = database.begin_read().unwrap();
            if transaction % 4 == 3 {
                write.abort().unwrap();
            } else {
                write.commit().unwrap();
                if let Ok(table) = before.open_table(TABLE) {
                    let seen = table.iter().unwrap().count();
                    assert_eq!(seen, expected.len(), "a reader keeps its state");
                }
                expected = changed;
            }
            assert_eq!(contents(&database), expected, "transaction {transaction}");
        }
    }
    assert_eq!(contents(&Database::open(&path).unwrap()), expected, "without the pool");
}

#[test]
fn databases_on_the_pool_agree_with_a_map() {
    agrees_with_a_map::<Clock>();
    agrees_with_a_map::<ClockProStrict>();
    agrees_with_a_map::<Sieve>();
    agrees_with_a_map::<S3Fifo>();
    agrees_with_a_map::<Lru>();
}

/// The benchmarks run small, so that they cannot rot.
#[test]
fn the_benchmarks_run() {
    for (name, rows) in [("engine", 60), ("hits", 24)] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_redb-pool")).args([name, "small"]).output().expect("redb-pool");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        let columns = printed.lines().next().unwrap().split(',').count();
        assert!(printed.lines().all(|line| line.split(',').count() == columns), "{name}: {printed}");
        assert_eq!(printed.lines().count(), 1 + rows, "{name}: {printed}");
    }
}
