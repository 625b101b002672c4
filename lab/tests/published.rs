//! The published tables, on the classic traces. The traces belong to others; `SWEEPHAND_TRACES`
//! says where they are.

use std::path::PathBuf;
use std::sync::LazyLock;
use sweephand_checks::{Need, at_length, skip};
use sweephand_lab::{
    Error, Item, Lab, Report, all_items, claims_page, every_item, items, listed_claims, measured_items,
    verdicts_in,
};

/// The papers that have a test of their own below. The runs behind their results are kept, and the
/// tests repeat one run in N: this is N. `sweephand-lab reproduce` repeats all.
const COMMITTED: [(&str, u64); 5] = [
    ("apr-2020", 512),
    ("clock-pro-2005", 512),
    ("linux-mm-advanced-page-replacement", 512),
    ("wsclock-1981", 128),
    ("compressed-caching-1999", 1),
];
/// How many times as many runs the tests repeat with `SWEEPHAND_AT_LENGTH`.
const AT_LENGTH: u64 = 32;
/// Items whose runs are not kept, and take a minute and more each. They are made only with
/// `SWEEPHAND_AT_LENGTH` or when they are written.
const AT_LENGTH_ONLY: [&str; 4] =
    ["apr/figure-4.2", "apr/summary", "apr/window", "compressed-caching/adaptive-split"];

/// By paper, the lab of all its tests, so that nothing is simulated twice.
static LABS: LazyLock<Vec<(&str, Lab)>> = LazyLock::new(|| {
    let lab = |(paper, one_in)| {
        let check_one_in = if at_length() { one_in / AT_LENGTH } else { one_in };
        let results = PathBuf::from(format!("{}/papers/{paper}/results", env!("CARGO_MANIFEST_DIR")));
        (paper, Lab::new(traces()).recalling(&results, check_one_in))
    };
    COMMITTED.map(lab).into()
});

/// The folder with the traces of others, if it is known.
fn traces() -> Option<PathBuf> {
    std::env::var_os("SWEEPHAND_TRACES").map(PathBuf::from)
}

/// Runs an item, or says that it needs traces which are not here.
fn report(id: &str) -> Option<Report> {
    let item = items(&[id.to_string()]).unwrap()[0];
    let (_, lab) = LABS.iter().find(|(paper, _)| *paper == item.folder).unwrap();
    match item.measure(lab) {
        Ok(report) => Some(report),
        Err(Error::NoTrace { name, .. }) if traces().is_none() => {
            skip(Need::Traces, format_args!("{id} needs {name}; SWEEPHAND_TRACES names no folder"));
            None
        }
        Err(error) => panic!("{id}: {error}"),
    }
}

/// The differences "ours less published" of a policy, in tenths of a point.
fn differences(report: &Report, policy: &str) -> Vec<i64> {
    let table = &report.tables[0].1;
    let column = table.heading.iter().position(|heading| heading == policy).unwrap();
    let tenths = |cell: &String| (cell.parse::<f64>().unwrap() * 10.0).round() as i64;
    table.rows.iter().map(|row| tenths(&row[column + 1]) - tenths(&row[column])).collect()
}

#[test]
fn opt_lirs_and_car_equal_all_fifteen_published_cells() {
    let (Some(cpp), Some(sprite)) = (report("clock-pro/table-1"), report("clock-pro/table-2")) else {
        return;
    };
    for policy in ["OPT", "LIRS", "CAR"] {
        let both = [differences(&cpp, policy), differences(&sprite, policy)].concat();
        assert_eq!(both, [0; 15], "{policy}");
    }
}

#[test]
fn clock_pro_is_as_near_to_the_published_tables_as_it_is_known_to_come() {
    let (Some(cpp), Some(sprite)) = (report("clock-pro/table-1"), report("clock-pro/table-2")) else {
        return;
    };
    let off = [differences(&cpp, "CLOCK-Pro"), differences(&sprite, "CLOCK-Pro")].concat();
    assert_eq!(
        off.iter().map(|tenths| tenths.abs()).sum::<i64>(),
        66,
        "tenths of a point over 15 cells: {off:?}"
    );
    assert_eq!(off, [-5, 5, 10, 4, 10, 0, 0, 0, 0, 16, 9, -1, -4, 2, 0]);
}

/// Whatever comes out of a paper's items is what the project shows.
/// `sweephand-lab reproduce -o lab/papers` writes it, and so does `SWEEPHAND_WRITE_DOCS=1` from the
/// runs that are kept. Papers share no simulations, so each is a test and they run side by side.
fn expect_committed_results(folder: &str) {
    let writes = std::env::var_os("SWEEPHAND_WRITE_DOCS").is_some();
    let is_made = |item: &Item| at_length() || writes || !AT_LENGTH_ONLY.contains(&item.id);
    let mut stale = Vec::new();
    for item in all_items().filter(|item| item.folder == folder && is_made(item)) {
        let Some(report) = report(item.id) else { continue };
        assert!(!report.claims.is_empty() || !report.checks.is_empty(), "{}", item.id);
        assert!(!report.tables.is_empty(), "{}", item.id);
        assert_eq!(report.title, item.title);
        let markdown = report.markdown();
        let mut files = report.files(item.name());
        files.push((format!("{}.md", item.name()), &markdown));
        let differs = |(file, contents): &(String, &str)| {
            let path = format!("{}/papers/{folder}/results/{file}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_default() != *contents
        };
        if !files.iter().any(differs) {
            continue;
        }
        if !writes {
            stale.push(item.id);
            continue;
        }
        for (file, contents) in &files {
            let path = format!("{}/papers/{folder}/results/{file}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, contents).unwrap();
        }
    }
    assert!(
        stale.is_empty(),
        "other results than those committed; look at: sweephand-lab reproduce {}",
        stale.join(" ")
    );
}

#[test]
fn ids_made_only_at_length_are_known_items() {
    for id in AT_LENGTH_ONLY {
        assert!(all_items().any(|item| item.id == id), "{id}");
    }
}

/// The committed results of all items, in Markdown.
fn committed_results() -> Vec<String> {
    let read = |item: &sweephand_lab::Item| {
        let path =
            format!("{}/papers/{}/results/{}.md", env!("CARGO_MANIFEST_DIR"), item.folder, item.name());
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    every_item().map(read).collect()
}

#[test]
fn every_claim_has_a_verdict_or_a_reason_why_it_has_none() {
    let results = committed_results();
    let judged: Vec<&str> = results.iter().flat_map(|result| verdicts_in(result)).map(|(id, _)| id).collect();
    for listed in listed_claims() {
        let has_verdict = judged.contains(&&listed.id[..]);
        let reason = &listed.no_verdict;
        assert!(
            has_verdict || !reason.is_empty(),
            "{}: no item judges it; claims.csv has no reason",
            listed.id
        );
        assert!(!has_verdict || reason.is_empty(), "{}: is judged, so claims.csv needs no reason", listed.id);
    }
}

/// `SWEEPHAND_WRITE_DOCS=1` writes the page.
#[test]
fn the_page_of_claims_is_what_the_committed_results_say() {
    let results = committed_results();
    let table = claims_page(results.iter().map(String::as_str));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/papers/CLAIMS.md");
    let page = format!(
        "# Claims of the papers\n\nThe claims of `claims.csv` by grade, from the committed results.\n\
         [How verdicts are made](../../docs/papers.md#verdicts).\n\n{table}"
    );
    if std::env::var_os("SWEEPHAND_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == page, "{path} is not what the results say: run this with SWEEPHAND_WRITE_DOCS=1");
}

#[test]
fn the_committed_results_of_every_paper_are_compared() {
    assert!(all_items().all(|item| COMMITTED.iter().any(|(paper, _)| *paper == item.folder)));
}

#[test]
fn the_committed_results_of_apr_are_what_comes_out() {
    expect_committed_results(COMMITTED[0].0);
}

#[test]
fn the_committed_results_of_clock_pro_are_what_comes_out() {
    expect_committed_results(COMMITTED[1].0);
}

#[test]
fn the_committed_results_of_linux_are_what_comes_out() {
    expect_committed_results(COMMITTED[2].0);
}

#[test]
fn the_committed_results_of_wsclock_are_what_comes_out() {
    expect_committed_results(COMMITTED[3].0);
}

#[test]
fn the_committed_results_of_compressed_caching_are_what_comes_out() {
    expect_committed_results(COMMITTED[4].0);
}

/// What is measured depends on the machine and the day, so it is not compared; but it says which
/// they were.
#[test]
fn what_is_measured_on_a_machine_is_run_only_when_named_in_full() {
    assert!(measured_items().count() > 0);
    for item in measured_items() {
        let found = items(&[item.id.to_string()]).unwrap();
        assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), [item.id]);
        let paper = item.id.split('/').next().unwrap();
        for others in [items(&[]).unwrap(), items(&[paper.to_string()]).unwrap()] {
            assert!(others.iter().all(|other| other.id != item.id), "{}", item.id);
        }
        assert!(matches!(item.measure(&Lab::default()), Err(Error::NoCommand)), "{}", item.id);
        let name = item.id.rsplit('/').next().unwrap();
        let path = format!("{}/papers/{}/results/{name}.md", env!("CARGO_MANIFEST_DIR"), item.folder);
        let result = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(result.starts_with(&format!("# {}\n", item.title)), "{path}: {result}");
        assert!(result.contains("\nMeasured on 20") && result.contains(" processors, "), "{path}: {result}");
    }
}

#[test]
fn without_traces_it_says_what_is_needed_and_where() {
    let error = items(&[]).unwrap()[0].measure(&Lab::new(None)).unwrap_err();
    assert!(matches!(error, Error::NoTrace { name: "cpp", .. }));
    assert_eq!(
        error.to_string(),
        "trace 'cpp' is needed and does not come with Sweephand: put it at DIR/lirs/cpp.trace.gz and set \
         SWEEPHAND_TRACES=DIR or give --traces DIR (the README says where to get it)"
    );
}

#[test]
fn items_are_found_by_name_and_by_paper() {
    let ids = |name: &str| items(&[name.to_string()]).unwrap().iter().map(|item| item.id).collect::<Vec<_>>();
    assert_eq!(ids("clock-pro/figure-3"), ["clock-pro/figure-3"]);
    assert_eq!(ids("clock-pro")[0], "clock-pro/table-1");
    assert_eq!(items(&[]).unwrap().len(), all_items().count());
    assert!(
        items(&["clock-amateur".into()])
            .unwrap_err()
            .to_string()
            .starts_with("'clock-amateur' is no paper or item")
    );
}
