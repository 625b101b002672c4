//! The APR thesis, Seoul National University, 2020, chapter 4: page faults of scientific programs.
//!
//! Each experiment has a file. `curves.rs` has the conventions and what they share.

mod clock_pro;
mod curves;
mod figure_4_1;
mod figure_4_2;
mod figure_4_3;
mod object_threshold;
mod readings;
mod summary;
mod table_1_1;
mod table_4_1;
mod window;
mod worst_case;

use crate::Item;

const FOLDER: &str = "apr-2020";

pub(crate) const ITEMS: &[Item] = &[
    Item {
        id: "apr/table-1.1",
        folder: FOLDER,
        title: "APR 2020, Table 1.1: which policies handle which loops",
        run: table_1_1::run,
    },
    Item {
        id: "apr/table-4.1",
        folder: FOLDER,
        title: "APR 2020, Table 4.1: the workloads",
        run: table_4_1::run,
    },
    Item {
        id: "apr/figure-4.1",
        folder: FOLDER,
        title: "APR 2020, Figure 4.1: page faults against memory size",
        run: |lab| lab.with_simulations(figure_4_1::run),
    },
    Item {
        id: "apr/figure-4.2",
        folder: FOLDER,
        title: "APR 2020, Figure 4.2: refault distances",
        run: figure_4_2::run,
    },
    Item {
        id: "apr/figure-4.3",
        folder: FOLDER,
        title: "APR 2020, Figure 4.3: the decay factor",
        run: |lab| lab.with_simulations(figure_4_3::run),
    },
    Item {
        id: "apr/object-threshold",
        folder: FOLDER,
        title: "APR 2020: from which size on an allocation is an object of its own",
        run: |lab| lab.with_simulations(object_threshold::run),
    },
    Item {
        id: "apr/summary",
        folder: FOLDER,
        title: "APR 2020: how many faults fewer than others",
        run: summary::run,
    },
    Item {
        id: "apr/readings",
        folder: FOLDER,
        title: "APR 2020: what the thesis leaves open, one way and the other",
        run: |lab| lab.with_simulations(readings::run),
    },
    Item {
        id: "apr/worst-case",
        folder: FOLDER,
        title: "APR 2020: where APR is worse than CLOCK, and what a fault costs",
        run: |lab| lab.with_simulations(worst_case::run),
    },
    Item {
        id: "apr/clock-pro",
        folder: FOLDER,
        title: "APR 2020: CLOCK-Pro when every page is used again at once",
        run: |lab| lab.with_simulations(clock_pro::run),
    },
    Item {
        id: "apr/window",
        folder: FOLDER,
        title: "APR 2020: what the window of a reduced trace does to APR and CLOCK-Pro",
        run: window::run,
    },
];
