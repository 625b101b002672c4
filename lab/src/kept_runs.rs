//! Runs of the machine that results are made of. They are kept beside the results
//! (`ITEM.cells.csv`), as simulations are.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use sweephand_machine::Outcome;

/// Outcomes by key, with what they are of.
#[derive(Debug, Default)]
pub(crate) struct KeptRuns {
    pub(crate) known: HashMap<String, (String, Outcome)>,
    /// Those that were asked for since [`Lab::take_cells`](crate::Lab::take_cells).
    pub(crate) used: BTreeMap<String, (String, Outcome)>,
    /// One in this many of the outcomes that were kept from before is run again; 0 for none.
    pub(crate) check_one_in: u64,
}

/// The columns of kept outcomes.
const COLUMNS: &str = "key,configuration,policy,seed,references,elapsed_refs,mean_mpl,deactivations,page_faults,replacements,\
                       page_writes,hand_steps,ws_scans,device_busy_refs";

impl KeptRuns {
    /// Takes over what a file keeps, if it keeps runs of the machine. Runs one in `check_one_in`
    /// again, and panics if that gives another outcome.
    pub(crate) fn recall(&mut self, csv: &str, check_one_in: u64) {
        let mut lines = csv.lines();
        if lines.next() != Some(&COLUMNS.replace(',', ";")) {
            return;
        }
        self.check_one_in = check_one_in;
        for line in lines {
            let cells: Vec<&str> = line.split(';').collect();
            let number = |at: usize| cells[at].parse().expect("a count");
            let mut outcome = Outcome {
                references: number(4),
                elapsed_refs: number(5),
                mean_mpl: cells[6].parse().expect("a number"),
                deactivations: number(7),
                page_faults: number(8),
                replacements: number(9),
                page_writes: number(10),
                hand_steps: cells[11].parse().ok(),
                ws_scans: number(12),
                device_busy_refs: number(13),
                ..Outcome::default()
            };
            outcome.utilization = outcome.references as f64 / outcome.elapsed_refs as f64;
            self.known.insert(cells[0].to_string(), (cells[1..4].join(";"), outcome));
        }
    }

    /// Outcomes as [`Self::recall`] reads them.
    pub(crate) fn csv(cells: &BTreeMap<String, (String, Outcome)>) -> String {
        let mut csv = COLUMNS.replace(',', ";") + "\n";
        for (key, (of, outcome)) in cells {
            let hand = outcome.hand_steps.map_or_else(String::new, |steps| steps.to_string());
            writeln!(
                csv,
                "{key};{of};{};{};{};{};{};{};{};{hand};{};{}",
                outcome.references,
                outcome.elapsed_refs,
                outcome.mean_mpl,
                outcome.deactivations,
                outcome.page_faults,
                outcome.replacements,
                outcome.page_writes,
                outcome.ws_scans,
                outcome.device_busy_refs
            )
            .expect("a string");
        }
        csv
    }

    /// What is kept of an outcome: its measures that the items use.
    pub(crate) fn measures(outcome: &Outcome) -> Outcome {
        Outcome {
            references: outcome.references,
            elapsed_refs: outcome.elapsed_refs,
            utilization: outcome.references as f64 / outcome.elapsed_refs as f64,
            mean_mpl: outcome.mean_mpl,
            deactivations: outcome.deactivations,
            page_faults: outcome.page_faults,
            replacements: outcome.replacements,
            page_writes: outcome.page_writes,
            hand_steps: outcome.hand_steps,
            ws_scans: outcome.ws_scans,
            device_busy_refs: outcome.device_busy_refs,
            ..Outcome::default()
        }
    }
}
