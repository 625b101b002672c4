//! What moves pages, and what that costs apart from the device.
//!
//! The costs of a fault under `run` follow the figures in lab/bench/pager's README; the others are
//! rough estimates for one machine, not fitted yet: lab/bench/time says how far predictions are
//! off. They hardly matter where a device takes 100 microseconds, and decide where it takes 5.

use crate::Device;

/// What moves pages between memory and the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paging {
    /// Sweephand's pager (`sweephand run`).
    Run,
    /// The kernel (`sweephand run --kernel`, swap in a cgroup).
    Kernel,
}

/// What paging does and what it costs, apart from the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Costs {
    /// Once, when memory is short for the first time. The pager takes over memory, and has what
    /// reads accessed bits loaded: a sort of 26 MiB in 30 MiB, where nothing is read or written
    /// yet, took 0.1 seconds more than in 200 MiB.
    pub(crate) start_ns: u64,
    /// A fault that reads: from the touch to the request, and from its completion to the program.
    pub(crate) fault_ns: u64,
    /// Each page read, to be put into memory.
    pub(crate) page_in_ns: u64,
    /// A touch of a page that was read ahead.
    pub(crate) arrived_ns: u64,
    /// A fault on a page that was never touched, beyond what it costs with all memory. It may fill
    /// a window of them.
    pub(crate) zero_fault_ns: u64,
    /// Each page so filled.
    pub(crate) zero_page_ns: u64,
    /// Each page evicted.
    pub(crate) evict_ns: u64,
    /// Whether the work on pages is another thread's, which goes on while the program computes.
    pub(crate) has_own_thread: bool,
    /// Most pages that a fault brings in.
    pub(crate) most_window_pages: usize,
    /// Whether the next window of a run is read before the program asks for it.
    pub(crate) reads_on: bool,
}

impl Paging {
    /// Seconds that a thread waits for a page that is on the device, which does nothing else: the
    /// read, and the work on this page and on the one that it evicts. Nothing is read ahead. A
    /// device that compresses pages does so meanwhile.
    pub fn fault_seconds(self, device: &Device) -> f64 {
        let Costs { fault_ns, page_in_ns, evict_ns, .. } = self.costs();
        let read_us = device.read.latency_us;
        let write_us = if device.synchronous { device.write.latency_us } else { 0.0 };
        (fault_ns + page_in_ns + evict_ns) as f64 / 1e9 + (read_us + write_us) / 1e6
    }

    pub(crate) fn costs(self) -> Costs {
        match self {
            Self::Run => Costs {
                start_ns: 90_000_000,
                fault_ns: 14_000,
                page_in_ns: 1_000,
                arrived_ns: 0,
                zero_fault_ns: 6_000,
                zero_page_ns: 2_000,
                evict_ns: 1_500,
                has_own_thread: true,
                most_window_pages: 128,
                reads_on: true,
            },
            Self::Kernel => Costs {
                start_ns: 0,
                fault_ns: 3_000,
                page_in_ns: 500,
                arrived_ns: 700,
                zero_fault_ns: 0,
                zero_page_ns: 300,
                evict_ns: 1_500,
                has_own_thread: false,
                // `page-cluster` is 3 unless it has been set.
                most_window_pages: 8,
                reads_on: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_costs_its_read_and_the_work_on_pages() {
        let mut device = Device::named("ssd").unwrap();
        let microseconds = |device: &Device| (Paging::Kernel.fault_seconds(device) * 1e6).round();
        // 100 us of the read, and 3 + 0.5 + 1.5 us of work.
        assert_eq!(microseconds(&device), 105.0);
        // The processor compresses the page that goes.
        device.synchronous = true;
        assert_eq!(microseconds(&device), 129.0);
    }
}
