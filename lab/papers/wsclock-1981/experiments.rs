//! R. W. Carr, J. L. Hennessy, "WSCLOCK: a simple and effective algorithm for virtual memory
//! management", 8th Symposium on Operating Systems Principles (SOSP), 1981.
//!
//! Each experiment has a file. `conventions.rs` says what they share, and `causes.rs` what the
//! differences from the paper come from.

mod deactivation;
mod figures;
mod intervals;
mod ltrt;
mod other_policies;
mod paging_queue;
mod table_2;

use crate::Item;
use crate::wsclock_1981_conventions::{FOLDER, with_cells};

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "wsclock/table-2",
        folder: FOLDER,
        title: "WSCLOCK 1981, Table 2: peak performance of WS and WSCLOCK",
        run: |lab| with_cells(lab, table_2::run),
    },
    Item {
        id: "wsclock/figure-3",
        folder: FOLDER,
        title: figures::TITLES[0],
        run: |lab| figures::run(lab, 0),
    },
    Item {
        id: "wsclock/figure-4",
        folder: FOLDER,
        title: figures::TITLES[1],
        run: |lab| figures::run(lab, 1),
    },
    Item {
        id: "wsclock/figure-5",
        folder: FOLDER,
        title: figures::TITLES[2],
        run: |lab| figures::run(lab, 2),
    },
    Item {
        id: "wsclock/intervals",
        folder: FOLDER,
        title: "WSCLOCK 1981: intervals (IRIM) against every reference",
        run: |lab| with_cells(lab, intervals::run),
    },
    Item {
        id: "wsclock/deactivation",
        folder: FOLDER,
        title: "WSCLOCK 1981: which task to deactivate",
        run: |lab| with_cells(lab, deactivation::run),
    },
    Item {
        id: "wsclock/paging-queue",
        folder: FOLDER,
        title: "WSCLOCK 1981: which request to serve first",
        run: |lab| with_cells(lab, paging_queue::run),
    },
    Item {
        id: "wsclock/ltrt",
        folder: FOLDER,
        title: "WSCLOCK 1981: LT/RT control, tau and L, and K0",
        run: |lab| with_cells(lab, ltrt::run),
    },
    Item {
        id: "wsclock/alternatives",
        folder: FOLDER,
        title: "WSCLOCK 1981: global CLOCK, LT/RT alone, the 50 % rule, the list of cleaned pages",
        run: |lab| with_cells(lab, other_policies::run),
    },
];
