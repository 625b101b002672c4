//! LT/RT control: how long a task counts as loading (tau), how many may load at once (L), and the
//! frames that activation leaves unclaimed (K0).

use crate::wsclock_1981_conventions::{
    SEEDS, alternative, alternatives, by_configuration, compared, deactivations, difference, mean_mpl, method,
};
use crate::wsclock_1981_runs::{Line, busy};
use crate::{Bar, Error, Lab, Limit, Report};
use sweephand_machine::Configuration;

pub(super) fn run(lab: &Lab) -> Result<Report, Error> {
    let mut report = Report { method: method(lab)?, seeds: SEEDS.to_vec(), ..Report::default() };
    loading_time(lab, &mut report)?;
    for devices in &DEVICES {
        loading_limit(lab, devices, &mut report)?;
    }
    reserve(lab, &mut report)?;
    Ok(report)
}

/// In references. The paper takes 15,000.
const TAUS: [u64; 6] = [0, 1_000, 5_000, 15_000, 30_000, 100_000];
/// Where that stands.
const CHOSEN_TAU: usize = 3;

fn loading_time(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let mut table = alternatives("tau", &["mean MPL on A", "on B", "on C"]);
    let mut by_tau = Vec::new();
    for tau in TAUS {
        let found = compared(lab, |configuration| configuration.load_control.tau_refs = tau, "wsclock")?;
        alternative(&mut table, &tau.to_string(), &found, by_configuration(&found, mean_mpl, 2));
        by_tau.push(found);
    }
    report.tables.push(("Utilization in percent by tau (0: no task ever counts as loading).".into(), table));
    let chosen = &by_tau[CHOSEN_TAU];
    let to_chosen: Vec<_> =
        (0..CHOSEN_TAU).map(|at| difference(format!("from {}:", TAUS[at]), &by_tau[at], chosen)).collect();
    report.claim("ws12", Bar::Ours).numbers(
        "tau = 15,000 is better than smaller ones (in spirit: at most 0.5 points worse)",
        Limit::AtLeast(0.0),
        Some(Limit::AtLeast(-0.5)),
        &to_chosen,
    );
    let beyond: Vec<_> = (CHOSEN_TAU + 1..TAUS.len())
        .map(|at| difference(format!("to {}:", TAUS[at]), chosen, &by_tau[at]))
        .collect();
    report.claim("ws12", Bar::Ours).numbers(
        "utilization is flat from there to 100,000: within 1 point (in spirit: 3 points)",
        Limit::Between(-1.0, 1.0),
        Some(Limit::Between(-3.0, 3.0)),
        &beyond,
    );
    Ok(())
}

/// Paging devices that L is varied with.
struct Devices {
    name: &'static str,
    count: usize,
    own_queues: bool,
    /// How many times as long an access takes.
    slower: u64,
}

const DEVICES: [Devices; 4] = [
    Devices { name: "one paging device", count: 1, own_queues: false, slower: 1 },
    Devices {
        name: "two paging devices of half the speed, with one queue",
        count: 2,
        own_queues: false,
        slower: 2,
    },
    Devices {
        name: "two paging devices of half the speed, with a queue each",
        count: 2,
        own_queues: true,
        slower: 2,
    },
    Devices {
        name: "two paging devices of the full speed, with a queue each",
        count: 2,
        own_queues: true,
        slower: 1,
    },
];

impl Devices {
    /// Gives a configuration these devices.
    fn set(&self, configuration: &mut Configuration) {
        configuration.devices.count = self.count;
        configuration.devices.own_queues = self.own_queues;
        let (least, most) = configuration.devices.access_refs;
        configuration.devices.access_refs = (least * self.slower, most * self.slower);
    }
}

/// Loading tasks at once.
const LIMITS: [usize; 5] = [1, 2, 3, 4, 8];

fn loading_limit(lab: &Lab, devices: &Devices, report: &mut Report) -> Result<(), Error> {
    let mut table = alternatives(
        "L",
        &[
            "mean MPL on A",
            "on B",
            "on C",
            "deactivations on A",
            "on B",
            "on C",
            "devices busy on A, %",
            "on B",
            "on C",
        ],
    );
    let others = |found: &[Line]| {
        [
            by_configuration(found, mean_mpl, 2),
            by_configuration(found, deactivations, 0),
            by_configuration(found, |run| busy(run, devices.count), 0),
        ]
        .concat()
    };
    let limited = |limit: usize, policy: &str| {
        let change = |configuration: &mut Configuration| {
            configuration.load_control.loading_tasks = limit;
            devices.set(configuration);
        };
        compared(lab, change, policy)
    };
    let mut by_limit = Vec::new();
    for limit in LIMITS {
        let found = limited(limit, "wsclock")?;
        alternative(&mut table, &limit.to_string(), &found, others(&found));
        by_limit.push(found);
    }
    let found = limited(1, "wsclock:lt-rt=off")?;
    alternative(&mut table, "no limit", &found, others(&found));
    report.tables.push((format!("Utilization in percent by L, {}.", devices.name), table));
    limit_claims(devices, &by_limit, report);
    Ok(())
}

/// L should be the number of paging devices.
fn limit_claims(devices: &Devices, by_limit: &[Vec<Line>], report: &mut Report) {
    let name = devices.name;
    let over = |best: usize, other: usize| {
        difference(format!("over L = {}:", LIMITS[other]), &by_limit[other], &by_limit[best])
    };
    if devices.count == 1 {
        report.claim("ws13", Bar::Paper).numbers(
            format!("with {name} L = 1 is best (in spirit: at most 0.5 points below another)"),
            Limit::AtLeast(0.0),
            Some(Limit::AtLeast(-0.5)),
            &[1, 2, 3, 4].map(|other| over(0, other)),
        );
    } else {
        report.claim("ws14", Bar::Paper).numbers(
            format!("with {name} L = 2 is better than L = 1"),
            Limit::AtLeast(0.0),
            None,
            &[over(1, 0)],
        );
        report.claim("ws14", Bar::Ours).numbers(
            format!("with {name} L = 2 is much better than more: by 1 point or more (in spirit: better)"),
            Limit::AtLeast(1.0),
            Some(Limit::AtLeast(0.0)),
            &[2, 3, 4].map(|other| over(1, other)),
        );
    }
}

/// In frames.
const RESERVES: [usize; 5] = [0, 5, 10, 20, 40];

fn reserve(lab: &Lab, report: &mut Report) -> Result<(), Error> {
    let mut table = alternatives("K0", &["deactivations on A", "on B", "on C"]);
    let mut by_k0 = Vec::new();
    for k0 in RESERVES {
        let found = compared(lab, |configuration| configuration.load_control.k0_frames = k0, "wsclock")?;
        alternative(&mut table, &k0.to_string(), &found, by_configuration(&found, deactivations, 0));
        by_k0.push(found);
    }
    report.tables.push((
        "Utilization in percent by K0, the frames that activation has to leave unclaimed.".into(),
        table,
    ));
    let over = |other: usize| difference(format!("over {}:", RESERVES[other]), &by_k0[other], &by_k0[0]);
    report.claim("ws15", Bar::Paper).numbers(
        "no free frames in reserve are best: K0 = 0 (in spirit: at most 0.5 points below another)",
        Limit::AtLeast(0.0),
        Some(Limit::AtLeast(-0.5)),
        &[1, 2, 3, 4].map(over),
    );
    Ok(())
}
