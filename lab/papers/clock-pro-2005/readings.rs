//! CLOCK-Pro 2005, section 4.4: what a test that ends on a referenced page does to the cold
//! allocation m_c.
//!
//! "When a cold page is accessed during its test period, m_c grows by one. If a cold page passes
//! its test period without a re-access, m_c shrinks by one", resident pages included, says the
//! text. HAND_hot and HAND_test end tests too, and find pages whose reference bit is set. They have
//! been accessed, so m_c grows (`clock-pro`). Here the two other readings stand beside that one.

use super::clock_pro_2005::mean_errors;
use super::clock_pro_2005_programs::{COUNTERPARTS, M88K, Program, SIZES, SOR, frames_at, instructions};
use super::clock_pro_2005_streams::{STREAM_PATTERN, Stream, TABLE_4, TABLE_5, frames_of};
use crate::kept::Counts;
use crate::verdict::mean;
use crate::{Error, Item, Lab, Published, Report};
use sweephand_results::{Table, grouped};
use sweephand_trace::Trace;

pub(crate) const ITEMS: &[Item] = &[Item {
    id: "clock-pro/test-end",
    folder: "clock-pro-2005",
    title: "CLOCK-Pro 2005: three readings of what the end of a test does to the cold allocation",
    run: |lab| lab.with_simulations(test_end),
}];

/// By what m_c changes when a test ends on a referenced page, and the policy.
const READINGS: [(&str, &str); 3] =
    [("+1", "clock-pro"), ("0", "clock-pro:test-end=keep"), ("-1", "clock-pro-strict")];

/// What a table of the readings begins with, and a column for each.
fn table(first: &[&str]) -> Table {
    Table::new(first.iter().copied().chain(READINGS.map(|(name, _)| name)))
}

fn test_end(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report {
        method: "+1: `clock-pro`, the text. 0: `clock-pro:test-end=keep`. -1: `clock-pro:test-end=shrink`, which is \
                 `clock-pro-strict`. Each column has what m_c changes by when HAND_hot or HAND_test ends the test \
                 of a resident page that is referenced."
            .into(),
        ..Report::default()
    };
    hit_ratios(lab, &mut report)?;
    beside_streams(lab, &mut report)?;
    let theirs = COUNTERPARTS.map(|counterpart| counterpart.ours);
    let of_theirs =
        programs(lab, &mut report, "Programs that stand for the paper's (Table 3, Figure 4)", &theirs)?;
    let of_splash = programs(lab, &mut report, "The programs of SPLASH-3", &SPLASH.map(Program::Splash))?;
    for (which, [grow, keep, shrink]) in [("programs like the paper's", of_theirs), ("SPLASH-3", of_splash)] {
        let shown = format!("+1 {grow:.1}, 0 {keep:.1}, -1 {shrink:.1} % of CLOCK's faults on average");
        report.check(
            format!(
                "{which}: by the text CLOCK-Pro takes about as many faults as CLOCK (within 5 % on average)"
            ),
            (grow - 100.0).abs() <= 5.0,
            shown.clone(),
        );
        report.check(
            format!("{which}: of the three readings, -1 takes the fewest faults"),
            shrink < grow.min(keep),
            shown,
        );
    }
    Ok(report)
}

/// Tables 1 and 2.
fn hit_ratios(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let mut table = table(&["history", "referenced out of test"]);
    for history in ["1", "3", "4", "300"] {
        for referenced in ["keep", "new-test"] {
            let policies = READINGS.map(|(_, policy)| {
                let separator = if policy.contains(':') { ',' } else { ':' };
                format!("{policy}{separator}history={history},referenced-cold={referenced},collapse=on")
            });
            let errors = mean_errors(lab, policies.each_ref().map(String::as_str))?;
            let errors = errors.map(|error| format!("{error:.2}"));
            table.row([history, referenced].map(String::from).into_iter().chain(errors));
        }
    }
    let heading = "Tables 1 and 2: mean difference from the published column over 15 cells, in points of hit ratio, by \
                   history (as a multiple of memory) and by what becomes of a referenced page out of its test.";
    report.tables.push((heading.into(), table));
    Ok(())
}

/// Tables 4 and 5.
fn beside_streams(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let mut table = table(&["program", "setting", "published"]);
    for (setting, program) in [(&TABLE_4, M88K), (&TABLE_5, SOR)] {
        let published = Published::read(setting.published);
        let shares = setting.shares(&published);
        let trace = program.trace(lab)?;
        let rows = alone_and_beside(lab, &trace, instructions(&trace) / 1e6, &shares)?;
        for (line, measured) in rows {
            let cells = [program.name().to_string(), line.to_string(), String::new()];
            table.row(cells.into_iter().chain(measured));
        }
        if let Some(as_loop) = &setting.as_loop {
            let rows = alone_and_beside(lab, &as_loop.trace()?, as_loop.million_instructions, &shares)?;
            for ((line, measured), column) in rows.into_iter().zip(["CLOCK-Pro", "CLOCK-Pro_wIO"]) {
                let published = format!("{:.2}", mean(published.column(column)));
                let cells = [format!("{} as a loop", setting.published_program), line.to_string(), published];
                table.row(cells.into_iter().chain(measured));
            }
        }
    }
    let heading = "Tables 4 and 5: faults but first touches per million instructions, mean over the published sizes, \
                   alone and beside the stream.";
    report.tables.push((heading.into(), table));
    Ok(())
}

/// The faults of a program under the readings: alone and beside the stream.
fn alone_and_beside(
    lab: &Lab,
    trace: &Trace,
    million_instructions: f64,
    shares: &[f64],
) -> Result<[(&'static str, [String; 3]); 2], Error> {
    let policies = READINGS.map(|(_, policy)| policy);
    let frames = frames_of(trace.header().totals.distinct_pages, shares);
    let outcomes = lab.outcomes(trace, &policies, &frames)?;
    let alone: Vec<Vec<f64>> = (outcomes.iter())
        .map(|by_size| by_size.iter().map(|one| one.refaults() as f64 / million_instructions).collect())
        .collect();
    let stream = Stream { pattern: &STREAM_PATTERN, million_instructions };
    let (beside, _) = stream.beside(lab, trace, &policies, &frames)?;
    let cells = |rates: &[Vec<f64>]| [0, 1, 2].map(|reading: usize| format!("{:.2}", mean(&rates[reading])));
    Ok([("alone", cells(&alone)), ("beside the stream", cells(&beside))])
}

/// The programs of SPLASH-3 that the APR thesis measures.
const SPLASH: [&str; 12] = [
    "cholesky",
    "fft",
    "lu_cb",
    "lu_ncb",
    "ocean_cp",
    "ocean_ncp",
    "radiosity",
    "radix",
    "raytrace",
    "volrend",
    "water_nsquared",
    "water_spatial",
];

/// Programs, beside CLOCK. Gives the mean of each reading.
fn programs(lab: &Lab, report: &mut Report, which: &str, programs: &[Program]) -> Result<[f64; 3], Error> {
    let mut table = table(&["program", "CLOCK"]);
    let mut shares = Vec::new();
    let mut below = [0; READINGS.len()];
    let mut cells = 0;
    for program in programs {
        let trace = &program.trace(lab)?;
        let header = trace.header();
        let frames = SIZES.map(|percent| frames_at(header.totals.distinct_pages, percent) as usize);
        // Below some windows the reduced trace is not exact for policies with reference bits.
        let is_exact = |frames: &&usize| **frames as u64 >= header.metadata.nearly_exact_pages();
        let frames: Vec<_> = frames.iter().filter(is_exact).copied().collect();
        let policies: Vec<_> = std::iter::once("clock").chain(READINGS.map(|(_, policy)| policy)).collect();
        let counts = lab.simulations(program.name(), trace, None, &policies, &frames)?;
        let warm = |policy: usize| counts[policy].iter().map(Counts::when_full);
        let clock: u64 = warm(0).sum();
        let of_clock = [1, 2, 3].map(|policy: usize| 100.0 * warm(policy).sum::<u64>() as f64 / clock as f64);
        for (reading, below) in below.iter_mut().enumerate() {
            *below += warm(0).zip(warm(reading + 1)).filter(|(clock, ours)| ours < clock).count();
        }
        cells += frames.len();
        let name = program.name().to_string();
        table.row([name, grouped(clock)].into_iter().chain(of_clock.map(|share| format!("{share:.1}"))));
        shares.push(of_clock);
    }
    let means = [0, 1, 2].map(|reading: usize| mean(shares.iter().map(|of| of[reading])));
    table.row(["mean".into(), String::new()].into_iter().chain(means.map(|mean| format!("{mean:.1}"))));
    let row = ["cells with fewer faults than CLOCK".to_string(), format!("of {cells}")];
    table.row(row.into_iter().chain(below.map(|cells| cells.to_string())));
    let heading = format!(
        "{which}: faults once memory is full, all sizes from 10 to 90 % of the pages together, in percent of CLOCK's."
    );
    report.tables.push((heading, table));
    Ok(means)
}
