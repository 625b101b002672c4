//! The rows of `sweephand sweep`: the columns of `simulate`, and those that identify a cell of a
//! plan.

use crate::columns::{Column, Field};
use crate::{SimulationRow, parquet};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};

/// The result of one cell: a policy with one memory size on one trace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SweepRow {
    /// What `sweephand simulate` says of it.
    #[serde(flatten)]
    pub simulation: SimulationRow,
    /// What makes it this row of the plan.
    #[serde(flatten)]
    pub cell: CellColumns,
}

/// The columns behind those of [`SimulationRow`], in this order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CellColumns {
    /// The memory size as the plan has it: `25%`.
    pub memory: String,
    /// The window that the trace was reduced with (1: repeated references collapsed, 0: not
    /// reduced).
    pub window: u64,
    /// The sample as the plan has it: `1%`; `None` where all pages were simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Its seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_seed: Option<u64>,
    /// The warm-up as the plan has it: `20%`; `None` where counting began with the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<String>,
    /// The hash of the trace's file: `xxh3:…` or `sha256:…`.
    pub trace_hash: String,
    /// The version of Sweephand that computed it.
    pub version: String,
    /// Seconds that it took, by the clock.
    pub seconds: f64,
    /// The key of the cell: equal keys stand for equal counts.
    pub cell: String,
}

impl CellColumns {
    /// Its columns, in order.
    pub const COLUMNS: [Column<Self>; 9] = [
        ("memory", Field::Text(|row| &row.memory)),
        ("window", Field::Count(|row| row.window)),
        ("sample", Field::OptionalText(|row| row.sample.as_deref())),
        ("sample_seed", Field::OptionalCount(|row| row.sample_seed)),
        ("warmup", Field::OptionalText(|row| row.warmup.as_deref())),
        ("trace_hash", Field::Text(|row| &row.trace_hash)),
        ("version", Field::Text(|row| &row.version)),
        ("seconds", Field::Ratio(|row| row.seconds)),
        ("cell", Field::Text(|row| &row.cell)),
    ];
}

/// The columns of `simulate`, with those of samples, whether there is one or not: a dataset has one
/// schema.
fn simulation_columns() -> Vec<Column<SimulationRow>> {
    SimulationRow::COLUMNS.into_iter().chain(SimulationRow::SAMPLE_COLUMNS).collect()
}

impl SweepRow {
    /// Writes rows as a Parquet file.
    pub fn write_parquet(rows: &[Self], out: impl Write + Send) -> io::Result<()> {
        let simulations: Vec<_> = rows.iter().map(|row| &row.simulation).collect();
        let cells: Vec<_> = rows.iter().map(|row| &row.cell).collect();
        let columns = simulation_columns();
        parquet::write_pairs((&columns, &simulations), (&CellColumns::COLUMNS, &cells), out)
    }

    /// Reads such a file.
    pub fn read_parquet(file: File) -> io::Result<Vec<Self>> {
        parquet::read(file, None)
    }

    /// Reads the keys in such a file, and nothing else of it.
    pub fn read_keys(file: File) -> io::Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Key {
            cell: String,
        }
        Ok(parquet::read::<Key>(file, Some("cell"))?.into_iter().map(|key| key.cell).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, hit_ratio: Option<f64>) -> SweepRow {
        let simulation = SimulationRow {
            trace: "t".into(),
            policy: policy.into(),
            memory_pages: 3,
            references: 4,
            distinct_pages: 5,
            faults: i64::MAX as u64,
            first_touch_faults: 7,
            warmup_faults: 8,
            evictions: 9,
            hit_ratio,
            faults_per_million_instructions: None,
            hand_steps: 12,
            sampled_pages: None,
            hit_ratio_error: None,
            predicted_seconds: None,
            predicted_pages_read: None,
            predicted_pages_written: None,
        };
        let cell = CellColumns {
            memory: "25%".into(),
            window: 13,
            sample: None,
            sample_seed: None,
            warmup: None,
            trace_hash: "xxh3:14".into(),
            version: "15".into(),
            seconds: 0.1 + 0.2,
            cell: format!("key of {policy}"),
        };
        SweepRow { simulation, cell }
    }

    fn sampled(mut row: SweepRow) -> SweepRow {
        (row.simulation.sampled_pages, row.simulation.hit_ratio_error) = (Some(16), Some(0.17));
        (row.cell.sample, row.cell.sample_seed) = (Some("18%".into()), Some(19));
        row.cell.warmup = Some("20%".into());
        row
    }

    #[test]
    fn rows_come_back_from_parquet_and_json_as_they_were() {
        let rows = vec![row("clock", Some(0.123456)), sampled(row("lru", None))];
        let mut file = tempfile::tempfile().unwrap();
        SweepRow::write_parquet(&rows, &mut file).unwrap();
        assert_eq!(SweepRow::read_parquet(file.try_clone().unwrap()).unwrap(), rows);
        assert_eq!(SweepRow::read_keys(file).unwrap(), ["key of clock", "key of lru"]);
        let json = serde_json::to_string(&rows).unwrap();
        assert_eq!(serde_json::from_str::<Vec<SweepRow>>(&json).unwrap(), rows);
    }

    #[test]
    fn columns_are_named_as_the_json_fields() {
        let json = serde_json::to_value(sampled(row("clock", None))).unwrap();
        let simulation = simulation_columns().into_iter().map(|(name, _)| name);
        let columns: Vec<_> = simulation.chain(CellColumns::COLUMNS.iter().map(|(name, _)| *name)).collect();
        assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), columns);
    }
}
