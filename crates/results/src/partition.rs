//! The rows of `sweephand partition`, as a table, CSV or JSON.

use crate::columns::{Column, Field, named};
use crate::machine_readable::{header, write_csv, write_json};
use crate::{Table, TextFormat, bytes, grouped};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use sweephand_objects::TenantShare;
use sweephand_trace::shown;

/// One tenant in one memory. The fields are the columns of the CSV, in this order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PartitionRow {
    /// The trace, as it was named.
    pub trace: String,
    /// The memory of all tenants, in pages.
    pub memory_pages: u64,
    /// The tenant's name in the log.
    pub tenant: String,
    /// References of the tenant.
    pub references: u64,
    /// Different pages of the tenant.
    pub distinct_pages: u64,
    /// Faults in the memory that all share, under the policy asked for.
    pub shared_faults: u64,
    /// The tenant's share in the best division, in pages.
    pub own_pages: u64,
    /// Faults in that share, under LRU.
    pub own_faults: u64,
}

impl PartitionRow {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 8] = [
        ("trace", Field::Text(|row| &row.trace)),
        ("memory_pages", Field::Count(|row| row.memory_pages)),
        ("tenant", Field::Text(|row| &row.tenant)),
        ("references", Field::Count(|row| row.references)),
        ("distinct_pages", Field::Count(|row| row.distinct_pages)),
        ("shared_faults", Field::Count(|row| row.shared_faults)),
        ("own_pages", Field::Count(|row| row.own_pages)),
        ("own_faults", Field::Count(|row| row.own_faults)),
    ];

    /// The row of a tenant's share.
    pub fn new(trace: &str, memory_pages: u64, tenant: &str, share: &TenantShare) -> Self {
        Self {
            trace: trace.to_string(),
            memory_pages,
            tenant: tenant.to_string(),
            references: share.references,
            distinct_pages: share.pages,
            shared_faults: share.shared_faults,
            own_pages: share.own_pages,
            own_faults: share.own_faults,
        }
    }
}

/// The results of a `partition` command.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionReport {
    /// Version, options, conventions.
    pub sweephand: Map<String, Value>,
    /// Bytes a page.
    pub page_bytes: u64,
    /// The results: by memory size and tenant, in that order.
    pub rows: Vec<PartitionRow>,
}

impl PartitionReport {
    /// What the results depend on besides the trace: version, options, conventions.
    pub fn header(options: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
        let conventions = json!({
            "shared_faults": "of each tenant in one memory for all, under the policy; first touches among them",
            "own_faults": "of each tenant alone in its own share, under LRU; first touches among them",
            "own_pages": "the division with the fewest faults together, in steps of a thousandth of the memory",
        });
        header(options, conventions)
    }

    /// Writes the report.
    pub fn write(&self, format: TextFormat, out: impl Write) -> io::Result<()> {
        match format {
            TextFormat::Table => self.write_tables(out),
            TextFormat::Csv => write_csv(self.rows.iter().map(|row| named(&PartitionRow::COLUMNS, row)), out),
            TextFormat::Json => write_json(self, out),
        }
    }

    fn write_tables(&self, mut out: impl Write) -> io::Result<()> {
        for (index, rows) in self.rows.chunk_by(|a, b| a.memory_pages == b.memory_pages).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let memory = rows[0].memory_pages;
            let size = bytes(memory * self.page_bytes);
            writeln!(
                out,
                "{}: {size} ({} pages) for {} tenants\n",
                shown(&rows[0].trace),
                grouped(memory),
                rows.len()
            )?;
            let mut table = Table::new([
                "tenant",
                "references",
                "pages",
                "faults, shared",
                "own share",
                "faults in it",
                "change",
            ]);
            for row in rows {
                table.row([
                    row.tenant.clone(),
                    grouped(row.references),
                    grouped(row.distinct_pages),
                    grouped(row.shared_faults),
                    bytes(row.own_pages * self.page_bytes),
                    grouped(row.own_faults),
                    change(row.shared_faults, row.own_faults),
                ]);
            }
            let sum = |of: fn(&PartitionRow) -> u64| rows.iter().map(of).sum::<u64>();
            let (shared, own) = (sum(|row| row.shared_faults), sum(|row| row.own_faults));
            table.row([
                "all".to_string(),
                grouped(sum(|row| row.references)),
                grouped(sum(|row| row.distinct_pages)),
                grouped(shared),
                bytes(sum(|row| row.own_pages) * self.page_bytes),
                grouped(own),
                change(shared, own),
            ]);
            write!(out, "{table}")?;
        }
        Ok(())
    }
}

/// How many faults more or fewer, in percent.
fn change(from: u64, to: u64) -> String {
    format!("{:+.1}%", 100.0 * (to as f64 / from.max(1) as f64 - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tenants in memories of eight and of four pages.
    fn report() -> PartitionReport {
        let share = |references, pages, shared_faults, own_pages, own_faults| TenantShare {
            references,
            pages,
            shared_faults,
            own_pages,
            own_faults,
        };
        let rows = vec![
            PartitionRow::new("t", 8, "a", &share(1000, 5, 200, 6, 150)),
            PartitionRow::new("t", 8, "b", &share(3000, 7, 100, 2, 110)),
            PartitionRow::new("t", 4, "a", &share(1000, 5, 0, 1, 2)),
            PartitionRow::new("t", 4, "b", &share(3000, 7, 400, 3, 400)),
        ];
        PartitionReport { sweephand: Map::new(), page_bytes: 4096, rows }
    }

    fn written(format: TextFormat) -> String {
        let mut out = Vec::new();
        report().write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn partition_columns_have_the_numbers_of_their_names() {
        let csv = written(TextFormat::Csv);
        assert_eq!(
            csv.lines().take(2).collect::<Vec<_>>(),
            [
                "trace,memory_pages,tenant,references,distinct_pages,shared_faults,own_pages,own_faults",
                "t,8,a,1000,5,200,6,150"
            ]
        );
    }

    /// A quarter fewer, a tenth more, and 260 for 300. Where there was no fault, one more counts as
    /// a hundred percent.
    #[test]
    fn partition_table_adds_up_the_tenants_of_each_memory() {
        assert_eq!(
            written(TextFormat::Table),
            "t: 32.0 KiB (8 pages) for 2 tenants\n\n \
             tenant  references  pages  faults, shared  own share  faults in it  change\n \
             a            1,000      5             200   24.0 KiB           150  -25.0%\n \
             b            3,000      7             100    8.0 KiB           110  +10.0%\n \
             all          4,000     12             300   32.0 KiB           260  -13.3%\n\n\
             t: 16.0 KiB (4 pages) for 2 tenants\n\n \
             tenant  references  pages  faults, shared  own share  faults in it   change\n \
             a            1,000      5               0    4.0 KiB             2  +100.0%\n \
             b            3,000      7             400   12.0 KiB           400    +0.0%\n \
             all          4,000     12             400   16.0 KiB           402    +0.5%\n"
        );
    }
}
