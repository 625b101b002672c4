//! The rows of `sweephand simulate --tiers`, as a table, CSV, JSON or Parquet.

use crate::columns::{Column, Field, named};
use crate::machine_readable::{header, write_csv, write_json};
use crate::{Format, SimulatedTrace, SimulationRow, Table, TracePages, bytes, grouped, seconds};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use sweephand_sim::{Outcome, Split, TierCounts};

/// One policy with one split of one memory on one trace. The fields are the columns of the CSV, in
/// this order; each count of the tiers has one. The last is there only if time was predicted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TiersRow {
    /// The trace, as it was named.
    pub trace: String,
    /// The policy of the resident pages, as it was named.
    pub policy: String,
    /// All memory, in pages.
    pub memory_pages: u64,
    /// What of it has resident pages. The pool may take the rest. `None` if the split adapts.
    pub resident_pages: Option<u64>,
    /// References that the program made (not the records kept of them).
    pub references: u64,
    /// Page addresses touched.
    pub distinct_pages: u64,
    /// References to pages that were not resident.
    pub faults: u64,
    /// Faults on the first reference to a page, or the first after its mapping was dropped.
    pub first_touch_faults: u64,
    /// Resident pages evicted.
    pub evictions: u64,
    /// Faults on pages whose words are all equal.
    pub same_filled_faults: u64,
    /// Faults on pages in the pool.
    pub pool_faults: u64,
    /// Faults on pages on the disk: as many pages are read.
    pub disk_faults: u64,
    /// Pages compressed.
    pub compressions: u64,
    /// Pages decompressed.
    pub decompressions: u64,
    /// Pages written from the pool to the disk.
    pub write_backs: u64,
    /// Evicted pages that went to the disk because they did not become smaller.
    pub rejected: u64,
    /// Evicted pages that went to the disk because the pool had no room.
    pub turned_away: u64,
    /// The most memory that the pool took, in pages.
    pub peak_pool_pages: u64,
    /// Pages for which a device for swap needs room so that all fit that went to the pool.
    pub peak_stored_pages: u64,
    /// Seconds of paging, to six decimals, where they were predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paging_seconds: Option<f64>,
}

impl TiersRow {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 19] = [
        ("trace", Field::Text(|row| &row.trace)),
        ("policy", Field::Text(|row| &row.policy)),
        ("memory_pages", Field::Count(|row| row.memory_pages)),
        ("resident_pages", Field::OptionalCount(|row| row.resident_pages)),
        ("references", Field::Count(|row| row.references)),
        ("distinct_pages", Field::Count(|row| row.distinct_pages)),
        ("faults", Field::Count(|row| row.faults)),
        ("first_touch_faults", Field::Count(|row| row.first_touch_faults)),
        ("evictions", Field::Count(|row| row.evictions)),
        ("same_filled_faults", Field::Count(|row| row.same_filled_faults)),
        ("pool_faults", Field::Count(|row| row.pool_faults)),
        ("disk_faults", Field::Count(|row| row.disk_faults)),
        ("compressions", Field::Count(|row| row.compressions)),
        ("decompressions", Field::Count(|row| row.decompressions)),
        ("write_backs", Field::Count(|row| row.write_backs)),
        ("rejected", Field::Count(|row| row.rejected)),
        ("turned_away", Field::Count(|row| row.turned_away)),
        ("peak_pool_pages", Field::Count(|row| row.peak_pool_pages)),
        ("peak_stored_pages", Field::Count(|row| row.peak_stored_pages)),
    ];

    /// The one behind them where time was predicted.
    pub const TIME_COLUMN: Column<Self> = ("paging_seconds", Field::OptionalRatio(|row| row.paging_seconds));

    /// The row of a split: what its policy and its tiers count, and the seconds of paging if they
    /// were predicted.
    pub fn new(
        trace: &SimulatedTrace,
        split: &Split,
        outcome: &Outcome,
        counts: &TierCounts,
        paging_seconds: Option<f64>,
    ) -> Self {
        let SimulationRow { trace, policy, references, distinct_pages, faults, .. } =
            trace.row(&split.spec, split.memory_pages, outcome);
        let TierCounts { same_filled_faults, pool_faults, disk_faults, .. } = *counts;
        let TierCounts { compressions, decompressions, write_backs, rejected, turned_away, .. } = *counts;
        Self {
            trace,
            policy,
            memory_pages: split.memory_pages as u64,
            resident_pages: split.resident_pages().map(|pages| pages as u64),
            references,
            distinct_pages,
            faults,
            first_touch_faults: outcome.first_touch_faults,
            evictions: outcome.evictions,
            same_filled_faults,
            pool_faults,
            disk_faults,
            compressions,
            decompressions,
            write_backs,
            rejected,
            turned_away,
            peak_pool_pages: counts.peak_pool_pages,
            peak_stored_pages: counts.peak_stored_pages,
            paging_seconds: paging_seconds.map(|seconds| (seconds * 1e6).round() / 1e6),
        }
    }

    /// Pages written to the disk.
    pub fn disk_writes(&self) -> u64 {
        self.write_backs + self.rejected + self.turned_away
    }
}

/// The results of a `simulate --tiers` command.
#[derive(Clone, Debug, Serialize)]
pub struct TiersReport {
    /// Version, options, conventions.
    pub sweephand: Map<String, Value>,
    /// The traces, in order.
    pub traces: Vec<SimulatedTrace>,
    /// How well the pages of each trace compress.
    pub compressibility: Vec<TracePages>,
    /// The results: by trace, policy, memory size and split, in that order.
    pub rows: Vec<TiersRow>,
}

impl TiersReport {
    /// What the results depend on besides the traces: version, options, conventions.
    pub fn header(options: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
        let options: Vec<_> = options.into_iter().collect();
        let mut conventions = json!({
            "memory_pages": "resident pages and the most that the pool may take, together; the kernel's tables \
                             of the pool are part of it",
            "resident_pages": "null where the split adapts: they and the pool share the memory as costs and \
                               savings of late suggest (Wilson, Kaplan, Smaragdakis, USENIX 1999)",
            "faults": "all references to pages that are not resident, first touches among them: \
                       first_touch_faults, same_filled_faults, pool_faults and disk_faults",
            "disk_faults": "one page each; nothing is read ahead",
            "compressions": "of evicted pages for which there is room, changed or not",
            "decompressions": "for faults and for write-backs; zram keeps what would take a page whole",
            "compressibility": "as recorded with the trace, but what --tiers gives; assumed if nothing was recorded \
                                (codec is null)",
            "peak_stored_pages": "before compression: the most pages in the pool, and the most same-filled ones",
            "no_pool": "where all memory is resident, all evicted pages go to the disk (turned_away)",
            "percentages_of_memory": "of the trace's distinct pages, to the nearest page, at least one",
        });
        if options.iter().any(|(name, _)| *name == "device") {
            conventions["paging_seconds"] = json!(
                "the waits of one thread for faults, compression and reads of the disk, on top of the \
                 processor time with all memory; writes to the disk are not waited for"
            );
        }
        header(options, conventions)
    }

    /// Writes the report.
    pub fn write(&self, format: Format, out: impl Write + Send) -> io::Result<()> {
        match format {
            Format::Table(()) => self.write_tables(out),
            Format::Csv => {
                let columns = self.columns();
                write_csv(self.rows.iter().map(|row| named(&columns, row)), out)
            }
            Format::Json => write_json(self, out),
            #[cfg(feature = "parquet")]
            Format::Parquet => crate::parquet::write(&self.columns(), &self.rows, out),
        }
    }

    fn is_timed(&self) -> bool {
        self.rows.iter().any(|row| row.paging_seconds.is_some())
    }

    /// The columns of its rows, in order.
    pub fn columns(&self) -> Vec<Column<TiersRow>> {
        let mut columns = TiersRow::COLUMNS.to_vec();
        if self.is_timed() {
            columns.push(TiersRow::TIME_COLUMN);
        }
        columns
    }

    /// A table for each policy and memory size, with a row for each split.
    fn write_tables(&self, mut out: impl Write) -> io::Result<()> {
        for (index, (trace, pages)) in self.traces.iter().zip(&self.compressibility).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            writeln!(
                out,
                "{}: {} references to {} pages ({})",
                trace.trace,
                grouped(trace.references),
                grouped(trace.distinct_pages),
                bytes(trace.distinct_pages * trace.page_bytes),
            )?;
            writeln!(out, "compressibility {pages}")?;
            let rows: Vec<_> = self.rows.iter().filter(|row| row.trace == trace.trace).collect();
            for rows in rows.chunk_by(|a, b| (&a.policy, a.memory_pages) == (&b.policy, b.memory_pages)) {
                let memory_pages = rows[0].memory_pages;
                let memory = bytes(memory_pages * trace.page_bytes);
                writeln!(out, "\n{} in {memory} ({} pages):\n", rows[0].policy, grouped(memory_pages))?;
                write!(out, "{}", self.table(trace.page_bytes, rows))?;
            }
        }
        Ok(())
    }

    fn table(&self, page_bytes: u64, rows: &[&TiersRow]) -> Table {
        let mut heading = vec![
            "resident",
            "faults",
            "first touches",
            "in the pool",
            "on disk",
            "written to disk",
            "pool at most",
        ];
        if self.is_timed() {
            heading.push("seconds of paging");
        }
        let mut table = Table::new(heading);
        for row in rows {
            let share = |pages: u64| share_of(pages, row.memory_pages);
            let mut cells = vec![
                row.resident_pages.map_or_else(|| "adaptive".to_string(), share),
                grouped(row.faults),
                grouped(row.first_touch_faults),
                grouped(row.same_filled_faults + row.pool_faults),
                grouped(row.disk_faults),
                grouped(row.disk_writes()),
                bytes(row.peak_pool_pages * page_bytes),
            ];
            cells.extend(row.paging_seconds.map(seconds));
            table.row(cells);
        }
        table
    }
}

/// A part of the memory in percent. Only all of it is 100%, and only nothing 0%.
fn share_of(pages: u64, memory_pages: u64) -> String {
    let percent = 100.0 * pages as f64 / memory_pages as f64;
    let decimals = if percent == percent.round() || (0.5..99.5).contains(&percent) { 0 } else { 2 };
    format!("{percent:.decimals$}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_policy::registry::Spec;
    use sweephand_sim::{Resident, SplitCosts};

    fn described(name: &str) -> SimulatedTrace {
        SimulatedTrace {
            trace: name.into(),
            checksum: String::new(),
            records: 90,
            references: 100,
            distinct_pages: 40,
            page_bytes: 4096,
            instructions: None,
            window: 1,
            known_from_pages: 0,
            sample: None,
            warmup: None,
        }
    }

    /// A row for 12 resident pages in `memory_pages`, or for a split that adapts.
    fn row(trace: &SimulatedTrace, memory_pages: usize, is_adaptive: bool, seconds: Option<f64>) -> TiersRow {
        let costs = SplitCosts { fault_ns: 1, compression_ns: 2, disk_read_ns: 3 };
        let resident = if is_adaptive { Resident::Adaptive(costs) } else { Resident::Pages(12) };
        let split = Split { spec: Spec::parse("lru").unwrap(), memory_pages, resident };
        let outcome = Outcome { faults: 70, first_touch_faults: 40, evictions: 58, ..Outcome::default() };
        let counts = TierCounts {
            same_filled_faults: 1,
            pool_faults: 20,
            disk_faults: 9,
            compressions: 50,
            decompressions: 33,
            write_backs: 13,
            rejected: 2,
            turned_away: 3,
            peak_pool_pages: 7,
            peak_stored_pages: 17,
        };
        TiersRow::new(trace, &split, &outcome, &counts, seconds)
    }

    fn written(traces: Vec<SimulatedTrace>, rows: Vec<TiersRow>, format: Format) -> String {
        let pages = TracePages::of(&"zswap".parse().unwrap(), None);
        let compressibility = vec![pages; traces.len()];
        let report = TiersReport { sweephand: TiersReport::header([]), traces, rows, compressibility };
        let mut out = Vec::new();
        report.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_column_has_the_number_of_its_name() {
        let trace = described("t");
        let rows = [false, true].map(|is_adaptive| row(&trace, 20, is_adaptive, Some(1.5)));
        assert_eq!(
            written(vec![trace], rows.into(), Format::Csv),
            "trace,policy,memory_pages,resident_pages,references,distinct_pages,faults,first_touch_faults,\
             evictions,same_filled_faults,pool_faults,disk_faults,compressions,decompressions,write_backs,\
             rejected,turned_away,peak_pool_pages,peak_stored_pages,paging_seconds\n\
             t,lru,20,12,100,40,70,40,58,1,20,9,50,33,13,2,3,7,17,1.500000\n\
             t,lru,20,,100,40,70,40,58,1,20,9,50,33,13,2,3,7,17,1.500000\n"
        );
    }

    #[test]
    fn without_a_device_there_are_no_seconds() {
        let trace = described("t");
        let csv = written(vec![trace.clone()], vec![row(&trace, 20, false, None)], Format::Csv);
        assert!(
            csv.ends_with("peak_stored_pages\nt,lru,20,12,100,40,70,40,58,1,20,9,50,33,13,2,3,7,17\n"),
            "{csv}"
        );
        let is_said = |options: Vec<(&'static str, Value)>| {
            TiersReport::header(options)["conventions"].get("paging_seconds").is_some()
        };
        assert!(is_said(vec![("seed", 1.into()), ("device", "hdd".into())]));
        assert!(!is_said(vec![("seed", 1.into())]));
    }

    #[test]
    fn each_trace_and_each_memory_has_a_table_of_its_own() {
        let traces = ["t", "u"].map(described);
        let rows = vec![
            row(&traces[0], 20, false, Some(1.5)),
            row(&traces[0], 20, true, Some(1.5)),
            row(&traces[0], 40, false, Some(1.5)),
            row(&traces[1], 20, false, Some(0.25)),
        ];
        let heading = " resident  faults  first touches  in the pool  on disk  written to disk  pool at most  \
                       seconds of paging\n";
        let pages = "compressibility assumed: 3.00:1, 0% same-filled, 0% incompressible";
        let counts = "70             40           21        9               18      28.0 KiB";
        let expected = format!(
            "t: 100 references to 40 pages (160 KiB)\n{pages}\n\n\
             lru in 80.0 KiB (20 pages):\n\n{heading} \
             60%           {counts}               1.50\n \
             adaptive      {counts}               1.50\n\n\
             lru in 160 KiB (40 pages):\n\n{heading} \
             30%           {counts}               1.50\n\n\
             u: 100 references to 40 pages (160 KiB)\n{pages}\n\n\
             lru in 80.0 KiB (20 pages):\n\n{heading} \
             60%           {counts}               0.25\n"
        );
        assert_eq!(written(traces.into(), rows, Format::Table(())), expected);
    }

    #[test]
    fn hardly_all_of_memory_is_not_all() {
        let shown = [(1000, 1000), (995, 1000), (9_999, 10_000), (667, 1000), (1, 1000)];
        assert_eq!(
            shown.map(|(pages, all)| share_of(pages, all)),
            ["100%", "99.50%", "99.99%", "67%", "0.10%"]
        );
    }
}
