//! Which task load control deactivates.

use crate::wsclock_1981_conventions::{
    POLICIES, SEEDS, alternative, alternatives, by_configuration, compared, deactivations, difference,
    method, overall,
};
use crate::{Bar, Error, Lab, Limit, Report};
use sweephand_machine::configuration::Deactivate;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    let mut losses = Vec::new();
    for (policy, spec) in POLICIES {
        let mut table = alternatives("deactivated", &["deactivations on A", "on B", "on C"]);
        let mut all = Vec::new();
        for (choice, name) in Deactivate::ALL {
            let found = compared(lab, |configuration| configuration.load_control.deactivate = choice, spec)?;
            alternative(&mut table, name, &found, by_configuration(&found, deactivations, 0));
            all.push((choice, name, found));
        }
        report.tables.push((format!("Utilization in percent, {policy}."), table));
        let (good, poor) = all.split_at(3);
        // The best of the poorer ones is the one to beat.
        let (_, best_poor, to_beat) =
            poor.iter().max_by(|a, b| overall(&a.2).total_cmp(&overall(&b.2))).expect("three");
        let found: Vec<_> = good.iter().map(|(_, name, lines)| difference(*name, to_beat, lines)).collect();
        report.claim("ws16", Bar::Paper).numbers(
            format!(
                "{policy}: smallest resident set, last activated and largest remaining slice are each better than the best of the \
                 others ({best_poor} here)"
            ),
            Limit::AtLeast(0.0),
            None,
            &found,
        );
        let (_, _, last) = all.iter().find(|(choice, ..)| *choice == Deactivate::Last).expect("it is one");
        let (_, _, best) = all.iter().max_by(|a, b| overall(&a.2).total_cmp(&overall(&b.2))).expect("six");
        losses.push(difference(policy, last, best));
    }
    report.claim("ws24", Bar::Ours).numbers(
        "one choice is best for all three policies: last activated is at most 0.5 points below the best of six (in spirit: 2 points)",
        Limit::AtMost(0.5),
        Some(Limit::AtMost(2.0)),
        &losses,
    );
    Ok(report)
}
