//! The bundled tasks: every reference is stored, and their IRIM strings are as short as
//! `traces/tasks/irim.csv` says.

use std::fmt::Write;
use std::path::PathBuf;
use sweephand_checks::read_text;

use sweephand_trace::{Chunk, Irim, Trace};

const TASKS: [&str; 8] = ["tcc", "as", "ld", "troff", "sort", "gzip", "perl", "sqlite3"];

/// How long is "a long time" in the WSCLOCK paper, and two that show what it depends on.
const OMEGAS: [u64; 3] = [1_000, 5_000, 20_000];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/tasks"))
}

fn open(task: &str) -> Trace {
    Trace::open(&folder().join(task).with_extension("swt")).unwrap()
}

#[test]
fn every_reference_of_a_task_is_stored_with_its_write_flag() {
    for task in TASKS {
        let trace = open(task);
        let header = trace.header();
        let totals = &header.totals;
        assert_eq!(header.metadata.window, 0, "{task}");
        assert!(header.metadata.complete, "{task}");
        // Straddling references are two records; what system calls touch is a record and no
        // reference.
        let extra = totals.records - totals.references;
        assert!(extra >= totals.system_call_touches, "{task}: {extra}");
        assert!(extra < totals.references / 1_000, "{task}: {extra}");
        assert!((4_800_000..5_500_000).contains(&totals.references), "{task}: {}", totals.references);
        assert!((100..700).contains(&totals.distinct_pages), "{task}: {}", totals.distinct_pages);
        trace.verify(&mut |_| {}).unwrap();
    }
}

/// The table in `traces/tasks/irim.csv`, measured again. After recording anew run this test with
/// `SWEEPHAND_BLESS=1`.
#[test]
fn irim_strings_are_as_short_as_the_table_says() {
    let mut table = String::from(
        "task,references,pages,written_pages,writes,omega_refs,transitions,references_per_transition,file_bytes\n",
    );
    for task in TASKS {
        let trace = open(task);
        let mut chunk = Chunk::new();
        let mut writes = 0;
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk).unwrap();
            writes += chunk.references.iter().filter(|reference| reference.is_write()).count();
        }
        for omega in OMEGAS {
            let string = Irim::from_trace(&trace, omega).unwrap();
            assert_eq!(string.references, trace.header().totals.records, "{task}, omega {omega}");
            let mut file = Vec::new();
            string.write(&mut file).unwrap();
            assert_eq!(Irim::from_bytes(&file).unwrap(), string, "{task}, omega {omega}");
            let totals = &trace.header().totals;
            writeln!(
                table,
                "{task},{},{},{},{writes},{omega},{},{:.0},{}",
                string.references,
                totals.distinct_pages,
                totals.written_pages,
                string.transitions.len(),
                string.reduction(),
                file.len()
            )
            .unwrap();
        }
    }
    let path = folder().join("irim.csv");
    if std::env::var_os("SWEEPHAND_BLESS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let committed = read_text(&path);
    assert_eq!(table, committed, "{} differs (SWEEPHAND_BLESS=1 writes it anew)", path.display());
}
