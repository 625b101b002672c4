//! Items are measured once, kept, and shown in one HTML file.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use sweephand_lab::{
    Bar, Compared, Error, Item, Lab, Machine, Nearness, Place, Program, Report, Reproduction, Scale, State,
    every_item, html_page, items,
};
use sweephand_results::Table;

fn program(checksum: &str) -> Program {
    Program { version: "1.2.3".into(), checksum: checksum.into() }
}

fn measure(item: &Item, lab: &Lab) -> Reproduction {
    let machine = Machine {
        processor: "a <processor>".into(),
        processors: 2,
        memory_bytes: 4 << 30,
        system: "Linux 6.18".into(),
    };
    Reproduction::run(item, lab, &program("one"), &machine, || "2026-01-31 17:05".into())
}

/// A report on two published numbers.
fn small_report(lab: &Lab) -> Result<Report, Error> {
    let trace = lab.classic_trace("tiny")?;
    let mut report = Report {
        title: "Tiny".into(),
        method: "On `tiny`.\nTwice.".into(),
        seeds: vec![1, 2],
        ..Report::default()
    };
    let mut table = Table::new(["blocks", "published", "ours"]);
    table.row(["<1>".to_string(), "10.0".into(), "10.0".into()]);
    table.row(["2".to_string(), "50.0".into(), "31.5".into()]);
    report.tables.push(("Hits.".into(), table));
    report.beside((0, 1), (0, 2), Scale::Points);
    let references = format!("{} references", trace.header().totals.references);
    report.claim("cp07", Bar::Paper).exact("it holds", true, references);
    report.claim("cp08", Bar::Ours).exact("it does not", false, "no");
    report.check("we hold", true, "so");
    report.notes.push("First.\n\n    ▁▂▃ drawn\n\nLast.".into());
    Ok(report)
}

/// An item under the name of a real one, so that it has a place on the page.
const TINY: Item =
    Item { id: "clock-pro/table-1", folder: "clock-pro-2005", title: "Tiny", run: small_report };

fn folder_with_tiny_trace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lirs")).unwrap();
    fs::write(folder.path().join("lirs/tiny.trace.gz"), "1\n2\n1\n").unwrap();
    folder
}

#[test]
fn a_result_is_current_until_its_program_or_its_traces_change() {
    let folder = folder_with_tiny_trace();
    let lab = || Lab::new(Some(folder.path().to_path_buf()));
    let found = measure(&TINY, &lab());
    let origin = found.origin.clone().unwrap();
    assert_eq!(found.state, State::Measured);
    assert_eq!((&origin.inputs[0].file[..], origin.inputs[0].bundled), ("lirs/tiny.trace.gz", false));
    assert_eq!((origin.inputs.len(), &origin.date[..]), (1, "2026-01-31 17:05"));

    let text = serde_json::to_string(&found).unwrap();
    let kept: Reproduction = serde_json::from_str(&text).unwrap();
    assert_eq!(kept, found, "nothing is lost on the way");
    assert!(kept.is_current(&TINY, &lab(), &program("one")));
    assert!(!kept.is_current(&TINY, &lab(), &program("two")), "another build");
    assert!(!kept.is_current(&TINY, &Lab::new(None), &program("one")), "the trace is not there");
    let other = Item { id: "clock-pro/table-2", ..TINY };
    assert!(!kept.is_current(&other, &lab(), &program("one")), "another item");
    fs::write(folder.path().join("lirs/tiny.trace.gz"), "1\n2\n3\n").unwrap();
    assert!(!kept.is_current(&TINY, &lab(), &program("one")), "another trace");
    assert!(!Reproduction::waiting(&TINY).is_current(&TINY, &lab(), &program("one")));
}

#[test]
fn inputs_are_those_of_the_item_also_where_the_lab_has_read_them_before() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    fn reads_bundled(lab: &Lab) -> Result<Report, Error> {
        RUNS.fetch_add(1, Ordering::Relaxed);
        lab.bundled_trace("scan-once")?;
        lab.bundled_trace("scan-once")?;
        Ok(Report::default())
    }
    let item = Item { run: reads_bundled, ..TINY };
    let lab = Lab::default();
    let [first, second] = [(); 2].map(|()| measure(&item, &lab).origin.unwrap().inputs);
    assert_eq!(RUNS.load(Ordering::Relaxed), 2);
    assert_eq!(first, second);
    assert_eq!(first.len(), 1, "each once");
    assert!(first[0].bundled && first[0].file == "scan-once.swt", "{first:?}");
}

#[test]
fn what_cannot_be_measured_says_where_to_get_what_is_missing() {
    let item = items(&["clock-pro/table-1".into()]).unwrap()[0];
    let found = measure(item, &Lab::new(None));
    assert_eq!(
        (found.state, found.origin.is_none(), found.report.is_none()),
        (State::Impossible, true, true)
    );
    let reason = found.reason.as_deref().unwrap();
    assert!(reason.contains("put it at DIR/lirs/cpp.trace.gz"), "{reason}");
    let page = html_page(std::slice::from_ref(&found), "1.2.3");
    assert!(page.contains("Not measured here: trace &#x27;cpp&#x27; is needed"), "{reason}");
}

#[test]
fn the_page_has_every_item_with_what_became_of_it() {
    let folder = folder_with_tiny_trace();
    let found = measure(&TINY, &Lab::new(Some(folder.path().to_path_buf())));
    let page = html_page(&[found], "1.2.3");
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">") && page.trim_end().ends_with("</html>"));
    for item in every_item() {
        assert!(page.contains(&format!("<h3 id=\"{}\">", item.id.replace('/', "-"))), "{}", item.id);
    }
    assert_eq!(page.matches("<p class=\"note\">Not run yet.</p>").count(), every_item().count() - 1);
    // Published beside measured: marked by colour, sign, words and difference.
    assert!(page.contains("<td class=\"published\">50.0</td>"));
    assert!(page.contains(
        "<td class=\"judged far\">31.5 <small><span aria-hidden=\"true\">!</span><span class=\"hidden\">far: further than \
         that</span> -18.5</small></td>"
    ));
    assert!(page.contains("<td class=\"judged equal\">10.0 "));
    for class in ["equal", "near", "off", "far"] {
        assert!(page.contains(&format!("<li class=\"{class}\"><span>")), "{class} is in the legend");
    }
    assert!(page.contains("<li class=\"yes\"><b>reproduced</b><span>it holds <small>3 references [cp07, the paper&#x27;s bar]</small>"));
    assert!(
        page.contains(
            "<li class=\"no\"><b>contradicted</b><span>it does not <small>no [cp08, our bar]</small>"
        )
    );
    // Where it comes from.
    assert!(page.contains("Sweephand 1.2.3, executable one."));
    assert!(page.contains("2 processors (a &lt;processor&gt;), 4.0 GiB, Linux 6.18."));
    assert!(page.contains("2026-01-31 17:05 UTC, ") && page.contains("seeds 1 and 2."));
    assert!(page.contains("from lirs&#x2f;tiny.trace.gz ("));
    // Names are words, never elements; nothing is left of the template.
    assert!(page.contains("<th scope=\"row\">&lt;1&gt;</th>"));
    assert!(!page.contains("{{") && !page.contains("{%") && !page.contains("<processor>"));
    assert!(page.contains("<p>On <code>tiny</code>.</p><p>Twice.</p>"), "each line of the method is one");
    assert!(page.contains("<pre tabindex=\"0\">    ▁▂▃ drawn</pre>") && page.contains("<p>Last.</p>"));
    // It needs nothing else, and nothing else may be fetched.
    for attribute in ["src=\"", "href=\"", "url("] {
        for value in page.split(attribute).skip(1) {
            assert!(value.starts_with("data:") || value.starts_with('#'), "{attribute}{value:.60}");
        }
    }
    assert!(page.contains("default-src 'none'") && !page.contains("<script"));
    // Links within the page lead somewhere.
    let targets: Vec<&str> =
        page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(targets.len() >= every_item().count(), "{targets:?}");
    for target in targets {
        assert!(page.contains(&format!("id=\"{target}\"")), "#{target}");
    }
}

/// The real items say which numbers are published: those with a table of the paper's, in every row
/// with both numbers.
#[test]
fn items_with_published_numbers_say_which_they_are() {
    let Some(traces) = sweephand_checks::traces() else { return };
    let lab = Lab::new(Some(traces));
    let report = |id: &str| items(&[id.to_string()]).unwrap()[0].measure(&lab).unwrap();
    let table_1 = report("clock-pro/table-1");
    assert_eq!(table_1.compared.len(), 9 * 5);
    let nearness = |compared: &Compared| table_1.judge(compared).unwrap().0;
    let of_column = |column: usize| -> Vec<Nearness> {
        let compared = table_1.compared.iter().filter(|compared| compared.measured.column == column);
        compared.map(nearness).collect()
    };
    assert_eq!(of_column(2), [Nearness::Equal; 9], "OPT");
    assert!(of_column(5).iter().all(|nearness| *nearness <= Nearness::Near), "CLOCK-Pro");
    let clock = Place { table: 0, row: 3, column: 14 };
    let clock = table_1.compared.iter().find(|compared| compared.measured == clock).unwrap();
    assert_eq!(table_1.judge(clock), Some((Nearness::Off, "-7.4".into())));
    let table_4_1 = report("apr/table-4.1");
    assert_eq!(table_4_1.compared.len(), 12 * 4, "twelve workloads are recorded");
}
