//! Faults a second by memory size, and how much slower these make what is watched.

use crate::estimates::sizes;
use crate::{Bounds, Estimates, History};
use serde_json::{Value, json};
use std::time::Duration;
use sweephand_advice::kernel_policy;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_policy::registry::Spec;
use sweephand_results::{Table, bytes};
use sweephand_sim::SweepError;
use sweephand_time::{Device, Paging};

/// Policies that are estimated. The first stands for the kernel's.
const ESTIMATED: [&str; 3] = ["clock", "mglru", "clock-pro"];
/// Memory sizes of a curve.
const SIZES: usize = 40;
/// Memory sizes of its table.
const TABLE_SIZES: usize = 10;

/// What a fault costs on a device.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultCost {
    /// The device.
    pub device: String,
    /// Seconds for which a process waits.
    pub seconds: f64,
}

impl FaultCost {
    /// That under the kernel, where each fault waits for its own read.
    pub fn of(device: &Device) -> Self {
        Self { device: device.name.clone(), seconds: Paging::Kernel.fault_seconds(device) }
    }

    /// How many times as long everything takes with this many faults a second, at most: as if they
    /// were all of one thread. Processes that fault side by side wait side by side.
    pub fn slowdown(&self, faults_per_second: f64) -> f64 {
        1.0 + faults_per_second * self.seconds
    }
}

/// Faults on pages that were used before in the watch, by memory size.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultCurve {
    /// Of LRU, in the whole watch.
    pub lru: Vec<Bounds>,
    /// Of other policies, at the same sizes.
    pub estimates: Estimates,
}

impl FaultCurve {
    /// That of a history that keeps uses ([`History::keep_uses`]). `None`: it does not, or there
    /// are none.
    ///
    /// # Errors
    /// See [`Estimates::of`].
    pub fn of(history: &History) -> Result<Option<Self>, SweepError> {
        let specs = ESTIMATED.map(|name| Spec::parse(name).expect("a policy of ours"));
        let sizes = sizes(history, SIZES as u64);
        let estimates = Estimates::of(history, &specs, &sizes)?;
        let lru = sizes.iter().map(|pages| history.faults(*pages)).collect();
        Ok(estimates.map(|estimates| Self { lru, estimates }))
    }

    /// Faults of what stands for the kernel's policy: by memory size, then by part of the watch.
    pub(crate) fn kernel(&self) -> &[Vec<u64>] {
        let kernel = kernel_policy().to_string();
        &self.estimates.by(&kernel).expect("it is estimated").faults
    }

    fn per_second(&self, faults: u64) -> f64 {
        faults as f64 / self.estimates.watched().max(Duration::from_millis(1)).as_secs_f64()
    }

    /// The slowdown at the memory size with an index, at most, as far as the estimate is right.
    fn slowdown(&self, size: usize, cost: &FaultCost) -> f64 {
        cost.slowdown(self.per_second(self.kernel()[size].iter().sum()))
    }

    /// For people: at some of the sizes.
    pub fn to_table(&self, cost: Option<&FaultCost>) -> Table {
        let mut heading = vec!["memory".to_string(), "LRU, at least".into(), "at most".into()];
        heading.extend(self.estimates.policies.iter().map(|of| of.policy.clone()));
        heading.extend(cost.map(|_| "slowdown".to_string()));
        let mut table = Table { heading, rows: Vec::new() };
        let sizes = self.estimates.memory_pages.len();
        let shown = sizes.min(TABLE_SIZES);
        let rate = |faults: u64| match self.per_second(faults) {
            rate if rate < 9.95 && faults > 0 => format!("{rate:.1}"),
            rate => sweephand_results::grouped(rate.round() as u64),
        };
        for row in 1..=shown {
            let size = sizes * row / shown - 1;
            let Bounds { at_least, at_most } = self.lru[size];
            let most = at_most.map_or("?".to_string(), rate);
            let mut cells = vec![bytes(self.estimates.memory_pages[size] * PAGE_BYTES), rate(at_least), most];
            cells.extend(self.estimates.policies.iter().map(|of| rate(of.in_all(size))));
            cells.extend(cost.map(|cost| format!("{:.2}", self.slowdown(size, cost))));
            table.rows.push(cells);
        }
        table
    }

    /// For programs: at all sizes.
    pub fn to_json(&self, cost: Option<&FaultCost>) -> Value {
        let at = |size: usize| {
            let Bounds { at_least, at_most } = self.lru[size];
            let by_policy = self.estimates.policies.iter();
            let estimates: serde_json::Map<_, _> =
                by_policy.map(|of| (of.policy.clone(), self.per_second(of.in_all(size)).into())).collect();
            json!({
                "memory_pages": self.estimates.memory_pages[size],
                "lru_at_least_per_second": self.per_second(at_least),
                "lru_at_most_per_second": at_most.map(|most| self.per_second(most)),
                "estimates_per_second": estimates,
                "slowdown": cost.map(|cost| self.slowdown(size, cost)),
            })
        };
        json!({
            "one_page_in": self.estimates.one_page_in,
            "sizes": (0..self.lru.len()).map(at).collect::<Vec<_>>(),
        })
    }
}
