//! The rows of `sweephand simulate --whole-objects`, as a table, CSV, JSON or Parquet.

use crate::columns::{Column, Field, named};
use crate::machine_readable::{header, write_csv, write_json};
use crate::{Format, Table, bytes, grouped};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use sweephand_objects::{SizedOutcome, SizedTotals};
use sweephand_trace::Trace;

/// One policy, or the bound of all, with one capacity on one trace. The fields are the columns of
/// the CSV, in this order.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ObjectsRow {
    /// The trace, as it was named.
    pub trace: String,
    /// The policy; `bound` for lower bounds on the misses and the missed bytes of all policies.
    pub policy: String,
    /// The cache's capacity.
    pub memory_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Requests for objects that were not in the cache.
    pub misses: u64,
    /// `misses / requests`, to six decimals.
    pub miss_ratio: f64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Bytes of the requests that missed.
    pub missed_bytes: u64,
    /// `missed_bytes / requested_bytes`, to six decimals.
    pub byte_miss_ratio: f64,
    /// Misses after which the object did not come in: too large, or refused by the policy. `None`
    /// for the bound.
    pub passed: Option<u64>,
    /// Objects evicted. `None` for the bound.
    pub evictions: Option<u64>,
    /// Misses of objects that were in the cache, but whose time to live was over; `Some(None)` for
    /// the bound, and `None` if no object of the trace has a time to live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired: Option<Option<u64>>,
}

impl ObjectsRow {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 11] = [
        ("trace", Field::Text(|row| &row.trace)),
        ("policy", Field::Text(|row| &row.policy)),
        ("memory_bytes", Field::Count(|row| row.memory_bytes)),
        ("requests", Field::Count(|row| row.requests)),
        ("misses", Field::Count(|row| row.misses)),
        ("miss_ratio", Field::Ratio(|row| row.miss_ratio)),
        ("requested_bytes", Field::Count(|row| row.requested_bytes)),
        ("missed_bytes", Field::Count(|row| row.missed_bytes)),
        ("byte_miss_ratio", Field::Ratio(|row| row.byte_miss_ratio)),
        ("passed", Field::OptionalCount(|row| row.passed)),
        ("evictions", Field::OptionalCount(|row| row.evictions)),
    ];

    /// The column behind them, if objects have times to live.
    pub const EXPIRED: Column<Self> = ("expired", Field::OptionalCount(|row| row.expired.flatten()));
}

/// What the rows on one trace have in common.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectsTrace {
    /// The trace, as it was named.
    pub trace: String,
    /// Its checksum, in hexadecimal: the identity of its contents.
    pub checksum: String,
    /// Requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Different objects.
    pub objects: u64,
    /// Their bytes, each object counted once.
    pub object_bytes: u64,
    /// Requests before counting began, if that was not at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_requests: Option<u64>,
    /// Whether objects have times to live.
    #[serde(skip)]
    expire: bool,
}

impl ObjectsTrace {
    /// What there is in a trace, under the name that it was given by, and how many requests of it
    /// were a warm-up.
    pub fn new(name: String, trace: &Trace, totals: &SizedTotals, warmup_requests: Option<u64>) -> Self {
        Self {
            trace: name,
            checksum: format!("{:016x}", trace.header().checksum),
            requests: totals.requests,
            requested_bytes: totals.requested_bytes,
            objects: totals.objects,
            object_bytes: totals.object_bytes,
            warmup_requests,
            expire: totals.expire,
        }
    }

    /// The row of an outcome: that of the part that was counted.
    pub fn row(&self, policy: &str, memory_bytes: u64, outcome: &SizedOutcome) -> ObjectsRow {
        let SizedOutcome { requests, requested_bytes, .. } = *outcome;
        let ratio = |part: u64, of: u64| (part as f64 / of.max(1) as f64 * 1e6).round() / 1e6;
        ObjectsRow {
            trace: self.trace.clone(),
            policy: policy.to_string(),
            memory_bytes,
            requests,
            misses: outcome.misses,
            miss_ratio: ratio(outcome.misses, requests),
            requested_bytes,
            missed_bytes: outcome.missed_bytes,
            byte_miss_ratio: ratio(outcome.missed_bytes, requested_bytes),
            passed: outcome.passed,
            evictions: outcome.evictions,
            expired: if self.expire { Some(outcome.expired) } else { None },
        }
    }
}

/// The results of a `simulate --whole-objects` command.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectsReport {
    /// Version, options, conventions.
    pub sweephand: Map<String, Value>,
    /// The traces, in order.
    pub traces: Vec<ObjectsTrace>,
    /// The results: by trace, policy and capacity, in that order.
    pub rows: Vec<ObjectsRow>,
}

/// What the cells of a table of objects show, in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectsMeasure {
    /// Misses, of all requests.
    Misses,
    /// Missed bytes, of all bytes requested.
    MissedBytes,
}

impl ObjectsReport {
    /// What the results depend on besides the traces: version, options, conventions.
    pub fn header(options: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
        let mut conventions = json!({
            "misses": "requests for objects that are not in the cache, first requests among them",
            "missed_bytes": "bytes of the objects that missed, whole",
            "sizes": "an object that is requested with another size is a new object",
            "percentages_of_memory": "of the bytes of all objects, each counted once with its last size",
            "bound": "no policy has fewer misses, and none has fewer missed bytes; one policy may reach neither",
        });
        let options: Vec<_> = options.into_iter().collect();
        conventions["expired"] = json!(
            "misses of objects that were in the cache, but whose time to live was over; it begins when the \
             object comes in, and anew when a request writes it; an expired object keeps its room until it \
             is requested again or evicted; missing if no object has a time to live"
        );
        if options.iter().any(|(name, _)| *name == "warmup") {
            conventions["warmup"] = json!(
                "requests before it fill the cache, and no column counts them; the bound is that of the \
                 requests behind it, over all states that the cache may be in by then"
            );
        }
        header(options, conventions)
    }

    /// Writes the report.
    pub fn write(&self, format: Format<ObjectsMeasure>, out: impl Write + Send) -> io::Result<()> {
        match format {
            Format::Table(measure) => self.write_tables(measure, out),
            Format::Csv => {
                let columns = self.columns();
                write_csv(self.rows.iter().map(|row| named(&columns, row)), out)
            }
            Format::Json => write_json(self, out),
            #[cfg(feature = "parquet")]
            Format::Parquet => crate::parquet::write(&self.columns(), &self.rows, out),
        }
    }

    /// The columns of its rows, in order.
    fn columns(&self) -> Vec<Column<ObjectsRow>> {
        let expired = self.rows.iter().any(|row| row.expired.is_some()).then_some(ObjectsRow::EXPIRED);
        ObjectsRow::COLUMNS.into_iter().chain(expired).collect()
    }

    fn write_tables(&self, measure: ObjectsMeasure, mut out: impl Write) -> io::Result<()> {
        let of_bytes = measure == ObjectsMeasure::MissedBytes;
        for (index, trace) in self.traces.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            writeln!(
                out,
                "{}: {} requests for {} objects ({})",
                trace.trace,
                grouped(trace.requests),
                grouped(trace.objects),
                bytes(trace.object_bytes)
            )?;
            if let Some(warmup) = trace.warmup_requests {
                writeln!(
                    out,
                    "counted from request {} on; those before it fill the cache",
                    grouped(warmup + 1)
                )?;
            }
            let heading =
                if of_bytes { "bytes missed, % of the bytes requested" } else { "misses, % of the requests" };
            writeln!(out, "{heading}:\n")?;
            write!(out, "{}", self.table(trace, of_bytes))?;
            let rows = self.rows.iter().filter(|row| row.trace == trace.trace);
            let expired = rows.filter_map(|row| row.expired.flatten());
            if let Some((least, most)) = expired.clone().min().zip(expired.max()) {
                writeln!(
                    out,
                    "\n{} to {} of the misses in each cell are of objects that had expired.",
                    grouped(least),
                    grouped(most)
                )?;
            }
        }
        Ok(())
    }

    /// Policies down, capacities across.
    fn table(&self, trace: &ObjectsTrace, of_bytes: bool) -> Table {
        let rows: Vec<_> = self.rows.iter().filter(|row| row.trace == trace.trace).collect();
        let (mut sizes, mut policies): (Vec<u64>, Vec<&str>) = (Vec::new(), Vec::new());
        for row in &rows {
            if !sizes.contains(&row.memory_bytes) {
                sizes.push(row.memory_bytes);
            }
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        let across = |first: &str, cell: &dyn Fn(u64) -> String| -> Vec<String> {
            std::iter::once(first.to_string()).chain(sizes.iter().map(|&size| cell(size))).collect()
        };
        let share = |size: u64| format!("{:.0}%", 100.0 * size as f64 / trace.object_bytes.max(1) as f64);
        let mut table = Table::new(across("memory", &bytes));
        table.row(across("  of all objects", &share));
        for policy in policies {
            let cell = |size| {
                let row = rows.iter().find(|row| row.policy == policy && row.memory_bytes == size);
                let ratio = row.map(|row| if of_bytes { row.byte_miss_ratio } else { row.miss_ratio });
                ratio.map_or(String::new(), |ratio| format!("{:.2}", 100.0 * ratio))
            };
            table.row(across(policy, &cell));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 KiB of objects, and a row for 1 KiB: ten misses of 30 requests, an eighth of the bytes.
    fn report(expire: bool) -> ObjectsReport {
        let trace = ObjectsTrace {
            trace: "t".into(),
            checksum: String::new(),
            requests: 50,
            requested_bytes: 9000,
            objects: 7,
            object_bytes: 4096,
            warmup_requests: Some(20),
            expire,
        };
        let outcome = SizedOutcome {
            requests: 30,
            requested_bytes: 8000,
            misses: 10,
            missed_bytes: 1000,
            passed: Some(3),
            evictions: Some(5),
            expired: Some(2),
        };
        let bound = SizedOutcome {
            misses: 6,
            missed_bytes: 800,
            passed: None,
            evictions: None,
            expired: None,
            ..outcome
        };
        let larger = SizedOutcome { misses: 3, missed_bytes: 400, expired: Some(1), ..outcome };
        let rows = vec![
            trace.row("lru", 1024, &outcome),
            trace.row("lru", 3072, &larger),
            trace.row("bound", 1024, &bound),
        ];
        ObjectsReport { sweephand: ObjectsReport::header([]), traces: vec![trace], rows }
    }

    fn written(report: &ObjectsReport, format: Format<ObjectsMeasure>) -> String {
        let mut out = Vec::new();
        report.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn object_columns_have_the_numbers_of_their_names() {
        assert_eq!(
            written(&report(true), Format::Csv),
            "trace,policy,memory_bytes,requests,misses,miss_ratio,requested_bytes,missed_bytes,byte_miss_ratio,\
             passed,evictions,expired\n\
             t,lru,1024,30,10,0.333333,8000,1000,0.125000,3,5,2\n\
             t,lru,3072,30,3,0.100000,8000,400,0.050000,3,5,1\n\
             t,bound,1024,30,6,0.200000,8000,800,0.100000,,,\n"
        );
        // To six decimals also where they are no text.
        assert_eq!(report(true).rows[0].miss_ratio, 0.333333);
    }

    #[test]
    fn objects_without_times_to_live_have_no_column_of_expired_ones() {
        let report = report(false);
        assert!(!written(&report, Format::Csv).contains("expired"));
        assert!(!written(&report, Format::Table(ObjectsMeasure::Misses)).contains("expired"));
    }

    #[test]
    fn object_table_shows_misses_or_missed_bytes_in_percent() {
        let report = report(true);
        let of = |of_bytes| report.table(&report.traces[0], of_bytes).rows;
        assert_eq!(
            of(false),
            [["  of all objects", "25%", "75%"], ["lru", "33.33", "10.00"], ["bound", "20.00", ""]]
        );
        assert_eq!(of(true)[1..], [["lru", "12.50", "5.00"], ["bound", "10.00", ""]]);
        let text = written(&report, Format::Table(ObjectsMeasure::Misses));
        assert!(
            text.starts_with(
                "t: 50 requests for 7 objects (4.0 KiB)\n\
                 counted from request 21 on; those before it fill the cache\n\
                 misses, % of the requests:\n\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("\n1 to 2 of the misses in each cell are of objects that had expired.\n"),
            "{text}"
        );
        let text = written(&report, Format::Table(ObjectsMeasure::MissedBytes));
        assert!(text.contains("\nbytes missed, % of the bytes requested:\n\n"), "{text}");
    }

    #[test]
    fn header_explains_the_warmup_only_where_there_is_one() {
        let has_warmup = |name| {
            let header = ObjectsReport::header([(name, json!("20%"))]);
            header["conventions"].as_object().unwrap().contains_key("warmup")
        };
        assert!(has_warmup("warmup") && !has_warmup("policies"));
    }
}
