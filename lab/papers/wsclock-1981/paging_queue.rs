//! Which request the paging devices serve first.

use crate::wsclock_1981_conventions::{
    POLICIES, SEEDS, alternative, alternatives, by_configuration, compared, difference, method, overall,
    travel_text,
};
use crate::wsclock_1981_runs::busy;
use crate::{Bar, Error, Lab, Limit, Report};
use sweephand_machine::configuration::Discipline;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    let mut losses = Vec::new();
    for (policy, spec) in POLICIES {
        let mut table =
            alternatives("queue", &["travel on A", "on B", "on C", "devices busy on A, %", "on B", "on C"]);
        let mut all = Vec::new();
        for (discipline, name) in [
            (Discipline::Fifo, "in order of time"),
            (Discipline::ReadsFirst, "reads before writes"),
            (Discipline::RunFirst, "reads of running tasks, of loading tasks, writes"),
        ] {
            let found = compared(lab, |configuration| configuration.devices.queue = discipline, spec)?;
            let others = found.iter().map(travel_text).chain(by_configuration(&found, |run| busy(run, 1), 0));
            alternative(&mut table, name, &found, others.collect::<Vec<_>>());
            all.push(found);
        }
        report.tables.push((format!("Utilization in percent, {policy}."), table));
        report.claim("ws17", Bar::Ours).numbers(
            format!("{policy}: reads before writes are clearly better than the order of time: by 1 point or more (in spirit: better)"),
            Limit::AtLeast(1.0),
            Some(Limit::AtLeast(0.0)),
            &[difference("points:", &all[0], &all[1])],
        );
        report.claim("ws17", Bar::Paper).numbers(
            format!("{policy}: reads of running tasks before those of loading tasks are better still"),
            Limit::AtLeast(0.0),
            None,
            &[difference("points:", &all[1], &all[2])],
        );
        let best = all.iter().max_by(|a, b| overall(a).total_cmp(&overall(b))).expect("three");
        losses.push(difference(policy, &all[2], best));
    }
    report.claim("ws24", Bar::Ours).numbers(
        "one queue is best for all three policies: reads of running tasks first is at most 0.5 points below the best",
        Limit::AtMost(0.5),
        None,
        &losses,
    );
    Ok(report)
}
