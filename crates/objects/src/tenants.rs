//! A memory divided among the tenants of a log.
//!
//! Tenants that share a memory push each other's pages out. With a share of its own, a tenant has
//! the faults that its own requests cause, which one pass tells for every size of the share
//! ([`LruStack`]). [`divide`] finds the shares with the fewest faults together. It tries all of
//! them, in steps of a thousandth of the memory: the gain of a page more need not fall, and a loop
//! gains nothing before it fits.

use sweephand_policy::PageId;
use sweephand_policy::registry::Spec;
use sweephand_sim::{Cell, LruStack, Outcome, Sweep, SweepError};
use sweephand_trace::{Chunk, Event, Interrupt, Trace};

/// Most steps of a division.
const STEPS: usize = 1000;
/// Divisions that are compared, at most: fewer steps with many tenants.
const MOST_COMPARED: usize = 400_000_000;

/// What sharing does to a tenant, and what a share of its own would.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TenantShare {
    /// References (records of the trace).
    pub references: u64,
    /// Different pages.
    pub pages: u64,
    /// Faults in the memory that all share, under the policy asked for.
    pub shared_faults: u64,
    /// Its share, in pages.
    pub own_pages: u64,
    /// Faults in it, under LRU.
    pub own_faults: u64,
}

/// Why tenants cannot be told apart.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The trace cannot be read, or there is nothing in it.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// The trace does not say whose its pages are.
    #[error("{}: has no tenants; import the log with a column tenant=N", .0.display())]
    NoTenants(std::path::PathBuf),
}

/// The tenants of a trace, with their LRU stacks.
pub struct Tenancy {
    /// Their names, in the order of their first requests.
    pub names: Vec<String>,
    /// The tenant of each page id.
    of_pages: Vec<u32>,
    stacks: Vec<LruStack>,
    references: Vec<u64>,
    pages: Vec<u64>,
}

impl Tenancy {
    /// Reads a trace.
    ///
    /// # Errors
    /// It cannot be read, is empty, or has no tenants.
    pub fn of(trace: &Trace, interrupt: &Interrupt) -> Result<Self, PartitionError> {
        trace.check_pages().map_err(SweepError::from)?;
        let no_tenants = || PartitionError::NoTenants(trace.name().to_owned());
        let tenants = trace.header().metadata.tenants.as_ref().ok_or_else(no_tenants)?;
        let by_page = tenants.by_page();
        let count = tenants.names.len();
        let mut tenancy = Self {
            names: tenants.names.clone(),
            of_pages: Vec::new(),
            stacks: (0..count).map(|_| LruStack::new()).collect(),
            references: vec![0; count],
            pages: vec![0; count],
        };
        // A stack takes memory by page id, so each tenant's pages are counted on their own.
        let mut own_ids: Vec<u32> = Vec::new();
        let mut chunk = Chunk::new();
        for number in 0..trace.chunks() {
            trace.read_chunk(number, &mut chunk).map_err(SweepError::from)?;
            for &page_number in &chunk.new_pages {
                let tenant = by_page.of(page_number).filter(|tenant| (*tenant as usize) < count);
                let tenant = tenant.ok_or_else(no_tenants)?;
                tenancy.of_pages.push(tenant);
                own_ids.push(tenancy.pages[tenant as usize] as u32);
                tenancy.pages[tenant as usize] += 1;
            }
            let mut events = chunk.events.iter().peekable();
            for (position, reference) in chunk.references.iter().enumerate() {
                while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= position) {
                    tenancy.event(event, &own_ids);
                }
                let page = reference.page() as usize;
                let tenant = tenancy.of_pages[page] as usize;
                tenancy.references[tenant] += 1;
                tenancy.stacks[tenant].touch(own_ids[page]);
            }
            events.for_each(|(_, event)| tenancy.event(event, &own_ids));
            if interrupt.is_raised() {
                return Err(SweepError::Interrupted.into());
            }
        }
        if tenancy.references.iter().all(|references| *references == 0) {
            return Err(SweepError::Empty { path: trace.name().to_owned() }.into());
        }
        Ok(tenancy)
    }

    fn event(&mut self, event: &Event, own_ids: &[u32]) {
        if let Event::Drop { pages } = event {
            for page in pages.clone() {
                if let (Some(tenant), Some(own)) =
                    (self.of_pages.get(page as usize), own_ids.get(page as usize))
                {
                    self.stacks[*tenant as usize].forget(*own);
                }
            }
        }
    }

    /// What each tenant has in a memory of this many pages: shared, under a policy, and divided.
    ///
    /// # Errors
    /// The trace cannot be read, or the policy not be made.
    pub fn shares(
        &self,
        trace: &Trace,
        policy: &Spec,
        frames: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<TenantShare>, SweepError> {
        let cells = vec![Cell { spec: policy.clone(), frames }];
        let sweep = Sweep { cells, interrupt: interrupt.clone(), ..Sweep::default() };
        let class_of = |_, page: PageId| self.of_pages[page.index()] as usize;
        let shared = sweep.run_by_class(trace, self.names.len(), class_of)?.remove(0);

        let steps = STEPS.min((MOST_COMPARED / self.names.len()).isqrt()).min(frames).max(1);
        let step = frames / steps;
        let sizes: Vec<usize> = (0..=steps).map(|steps| steps * step).collect();
        let curves: Vec<Vec<u64>> = (0..self.names.len()).map(|tenant| self.faults(tenant, &sizes)).collect();
        let mut own: Vec<usize> = divide(&curves).into_iter().map(|steps| steps * step).collect();
        // What the steps leave over goes to who gains most by it.
        let left = frames - own.iter().sum::<usize>();
        let gain = |tenant: &usize| {
            let faults = self.faults(*tenant, &[own[*tenant], own[*tenant] + left]);
            faults[0] - faults[1]
        };
        let best = (0..own.len()).max_by_key(gain).unwrap_or(0);
        own[best] += left;

        let share = |tenant: usize| TenantShare {
            references: self.references[tenant],
            pages: self.pages[tenant],
            shared_faults: shared[tenant].faults,
            own_pages: own[tenant] as u64,
            own_faults: self.faults(tenant, &[own[tenant]])[0],
        };
        Ok((0..own.len()).map(share).collect())
    }

    /// Faults of a tenant alone under LRU, by size.
    fn faults(&self, tenant: usize, frames: &[usize]) -> Vec<u64> {
        let outcomes = self.stacks[tenant].outcomes(frames);
        let faults = |(outcome, frames): (Outcome, &usize)| {
            if *frames == 0 { self.references[tenant] } else { outcome.faults }
        };
        outcomes.into_iter().zip(frames).map(faults).collect()
    }
}

/// The division with the least sum. `curves[t][s]` is what tenant t costs with s steps, for every s
/// up to all of them. Returns the steps of each, together at most all. Costs tenants x steps^2.
pub fn divide(curves: &[Vec<u64>]) -> Vec<usize> {
    let Some(most) = curves.first().map(|curve| curve.len() - 1) else { return Vec::new() };
    // `least[steps]` is the least sum of the tenants so far; `chosen` has the steps of the last of
    // them in it.
    let mut least = vec![0_u64; most + 1];
    let mut chosen: Vec<Vec<u32>> = Vec::new();
    for curve in curves {
        let choose = |steps: usize| {
            let cost = |own: usize| (curve[own] + least[steps - own], own as u32);
            (0..=steps).map(cost).min().expect("0 steps are a choice")
        };
        let (sums, own): (Vec<u64>, Vec<u32>) = (0..=most).map(choose).unzip();
        least = sums;
        chosen.push(own);
    }
    let mut left = most;
    let mut shares: Vec<usize> = chosen
        .iter()
        .rev()
        .map(|own| {
            let own = own[left] as usize;
            left -= own;
            own
        })
        .collect();
    shares.reverse();
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_policy::SplitMix64;
    use sweephand_trace::tenants::Tenants;
    use sweephand_trace::{EndTotals, Metadata, Writer};

    /// The best of all divisions, tried one by one.
    fn least_sum(curves: &[Vec<u64>], steps: usize) -> u64 {
        match curves {
            [] => 0,
            [first, rest @ ..] => {
                (0..=steps).map(|own| first[own] + least_sum(rest, steps - own)).min().unwrap()
            }
        }
    }

    #[test]
    fn no_division_is_better() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let (tenants, steps) = (1 + random.below(4) as usize, 1 + random.below(9) as usize);
            // Curves that fall, with cliffs.
            let curve = |random: &mut SplitMix64| {
                let mut faults = 1000;
                let falls = (0..=steps).map(|_| {
                    let fall = if random.below(3) == 0 { random.below(200) } else { random.below(5) };
                    faults -= fall.min(faults);
                    faults
                });
                falls.collect::<Vec<u64>>()
            };
            let curves: Vec<_> = (0..tenants).map(|_| curve(&mut random)).collect();
            let shares = divide(&curves);
            let sum: u64 = shares.iter().zip(&curves).map(|(own, curve)| curve[*own]).sum();
            assert!(shares.iter().sum::<usize>() <= steps, "seed {seed}: {shares:?}");
            assert_eq!(sum, least_sum(&curves, steps), "seed {seed}");
        }
    }

    /// Two tenants by turns: one loops over 6 pages, one goes through 1000 pages once. 8 pages hold
    /// the loop. Shared under LRU, it never hits; with a share of its own, it always does.
    #[test]
    fn a_loop_is_kept_from_a_scan() {
        let tenants = Tenants {
            names: vec!["loop".into(), "scan".into()],
            pages_each: 1 << 40,
            of_objects: Vec::new(),
        };
        let metadata = Metadata { tenants: Some(tenants), ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        for time in 0..1000 {
            writer.reference(time % 6, false).unwrap();
            writer.reference((1 << 40) + time, false).unwrap();
        }
        let (bytes, _) = writer.finish(EndTotals::default()).unwrap();
        let trace = Trace::from_bytes(bytes.into_inner()).unwrap();
        let tenancy = Tenancy::of(&trace, &Interrupt::default()).unwrap();
        assert_eq!(tenancy.names, ["loop", "scan"]);
        let lru = Spec::parse("lru").unwrap();
        let shares = tenancy.shares(&trace, &lru, 8, &Interrupt::default()).unwrap();
        let [of_loop, of_scan] = shares[..] else { panic!() };
        assert_eq!((of_loop.references, of_loop.pages, of_loop.shared_faults), (1000, 6, 1000));
        assert_eq!(of_loop.own_faults, 6);
        assert!(of_loop.own_pages >= 6 && of_loop.own_pages + of_scan.own_pages == 8);
        assert_eq!((of_scan.shared_faults, of_scan.own_faults), (1000, 1000));
        // A share is what a simulation of the tenant alone has.
        let five = tenancy.faults(0, &[5, 6]);
        assert_eq!(five, [1000, 6]);
    }
}
