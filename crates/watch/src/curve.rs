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
    /// Seconds for which a process waits, if nothing is being written.
    pub seconds: f64,
    /// Seconds for which it waits longer if something is.
    pub seconds_beside_write: f64,
    /// Seconds that a write takes. Each fault has one, because a page has to go for the one that
    /// comes.
    pub write_seconds: f64,
}

impl FaultCost {
    /// That under the kernel, where each fault waits for its own read.
    pub fn of(device: &Device) -> Self {
        let beside_us = device.read_beside_writes_us.map_or(0.0, |beside| beside - device.read.latency_us);
        Self {
            device: device.name.clone(),
            seconds: Paging::Kernel.fault_seconds(device),
            seconds_beside_write: beside_us.max(0.0) / 1e6,
            write_seconds: if device.synchronous { 0.0 } else { device.write.latency_us / 1e6 },
        }
    }

    /// One that does not depend on how many faults there are.
    pub fn constant(device: &str, seconds: f64) -> Self {
        Self { device: device.to_string(), seconds, seconds_beside_write: 0.0, write_seconds: 0.0 }
    }

    /// Seconds for which a process waits, with this many faults a second.
    pub fn seconds_at(&self, faults_per_second: f64) -> f64 {
        self.seconds + (faults_per_second * self.write_seconds).min(1.0) * self.seconds_beside_write
    }

    /// How many times as long everything takes with this many faults a second, at most: as if they
    /// were all of one thread. Processes that fault side by side wait side by side.
    pub fn slowdown(&self, faults_per_second: f64) -> f64 {
        1.0 + faults_per_second * self.seconds_at(faults_per_second)
    }

    /// The faults that a time may have, if everything may take this many times as long.
    pub fn allowed_faults(&self, time: Duration, factor: f64) -> f64 {
        let waits = factor - 1.0;
        // What each fault a second adds to the price of all.
        let growth = self.write_seconds * self.seconds_beside_write;
        let rate = 2.0 * waits / (self.seconds + (self.seconds.powi(2) + 4.0 * growth * waits).sqrt());
        let is_always_writing = rate * self.write_seconds > 1.0;
        let rate = if is_always_writing { waits / self.seconds_at(f64::INFINITY) } else { rate };
        time.as_secs_f64() * rate
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_faults_are_allowed_as_make_the_slowdown() {
        let ssd = FaultCost::of(&Device::named("ssd").unwrap());
        let waits_for_writes = FaultCost { seconds_beside_write: 4e-4, write_seconds: 1e-3, ..ssd.clone() };
        for cost in [FaultCost::constant("slow", 0.01), ssd, waits_for_writes] {
            for factor in [1.01, 1.05, 1.2, 2.0, 10.0] {
                let _input = sweephand_checks::trying(|| format!("{cost:?} {factor}"));
                let a_second = cost.allowed_faults(Duration::from_secs(100), factor) / 100.0;
                assert!((cost.slowdown(a_second) - factor).abs() < 1e-9 * factor);
            }
        }
    }

    #[test]
    fn a_read_takes_longer_the_more_is_written() {
        let mut device = Device::named("ssd").unwrap();
        device.read_beside_writes_us = Some(300.0);
        let cost = FaultCost::of(&device);
        let microseconds = |faults| (1e6 * cost.seconds_at(faults)).round();
        assert_eq!(microseconds(0.0), 105.0);
        // A hundred writes take a part of each second.
        let part = 100.0 * device.write.latency_us / 1e6;
        assert_eq!(microseconds(100.0), (105.0 + 200.0 * part).round());
        assert_eq!(microseconds(1e6), 305.0);
    }
}
