//! Which policy `auto` follows, by memory size: the share of the program's time for which each of
//! its experts leads.

use serde_json::{Value, json};
use sweephand_policy::registry::Spec;
use sweephand_sim::Trajectory;

/// Looks at the leader in one simulation.
const SAMPLES: u64 = 1000;

/// The leaders of one policy that follows others.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaders {
    /// The policy, as typed.
    pub policy: String,
    /// The policies that it chooses from.
    pub experts: Vec<String>,
    /// What was seen at each memory size of the curves, in their order.
    pub sizes: Vec<LeadersAtSize>,
}

/// What was seen at one memory size.
#[derive(Clone, Debug, PartialEq)]
pub struct LeadersAtSize {
    /// Memory, in pages.
    pub memory_pages: u64,
    /// The share of the stored references during which each expert led, from 0 to 1.
    pub shares: Vec<f64>,
    /// How often another expert has taken the lead.
    pub changes: u64,
}

/// Records between two looks at the leader, or 0 if none of the policies follows others.
pub(crate) fn sample_records(specs: &[Spec], records: u64) -> u64 {
    let any_leads = specs.iter().any(|spec| spec.expert(0).is_some());
    if any_leads { (records / SAMPLES).max(1) } else { 0 }
}

impl LeadersAtSize {
    /// Those of a simulation; `None` if it had no leader.
    pub(crate) fn of(memory_pages: u64, trajectory: &Trajectory) -> Option<Self> {
        let leaders: Vec<_> = trajectory.points.iter().filter_map(|point| point.leader).collect();
        let last = leaders.last()?;
        let share = |expert: usize| {
            leaders.iter().filter(|leader| leader.expert == expert).count() as f64 / leaders.len() as f64
        };
        Some(Self { memory_pages, shares: (0..last.experts).map(share).collect(), changes: last.changes })
    }
}

impl Leaders {
    /// No sizes yet; `None` of a policy that follows no others.
    pub(crate) fn of(spec: &Spec) -> Option<Self> {
        let experts: Vec<String> = (0..).map_while(|place| spec.expert(place).map(str::to_owned)).collect();
        (!experts.is_empty()).then(|| Self { policy: spec.to_string(), experts, sizes: Vec::new() })
    }

    /// Adds what was seen at a size, in the order of sizes.
    pub(crate) fn insert(&mut self, size: LeadersAtSize) {
        let at = self.sizes.partition_point(|other| other.memory_pages < size.memory_pages);
        self.sizes.insert(at, size);
    }

    /// What was seen at a memory size, in words: `auto follows clock 75%, lifo-plus 25%; 3
    /// changes`.
    pub fn sentence(&self, size: usize) -> Option<String> {
        let LeadersAtSize { shares, changes, .. } = self.sizes.get(size)?;
        let mut led: Vec<_> = self.experts.iter().zip(shares).filter(|(_, share)| **share > 0.0).collect();
        led.sort_by(|a, b| b.1.total_cmp(a.1));
        let led: Vec<_> = led.iter().map(|(name, share)| format!("{name} {:.0}%", 100.0 * **share)).collect();
        let changes = if *changes == 1 { "1 change".to_owned() } else { format!("{changes} changes") };
        Some(format!("{} follows {}; {changes}", self.policy, led.join(", ")))
    }

    /// A row for each size and expert, for programs.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        let row = |size: &LeadersAtSize, expert: usize| {
            json!({
                "policy": self.policy, "memory_pages": size.memory_pages, "expert": self.experts[expert],
                "share": size.shares[expert], "changes": size.changes,
            })
        };
        self.sizes.iter().flat_map(|size| (0..size.shares.len()).map(move |at| row(size, at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CurveStudy;
    use std::io::Cursor;
    use sweephand_sim::MemorySize;
    use sweephand_trace::{EndTotals, Interrupt, Metadata, Trace, Writer};

    /// A loop that does not fit: CLOCK, the first expert, misses all, and LIFO+ takes the lead.
    /// With all memory nobody has to.
    #[test]
    fn the_leader_of_a_loop_is_the_one_that_suits_it() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        (0..40_000u64).for_each(|turn| writer.reference(turn % 200, true).unwrap());
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let specs = ["clock", "auto:experts=clock+lifo-plus", "opt"].map(|spec| Spec::parse(spec).unwrap());
        let sizes = MemorySize::parse_list("50%").unwrap();
        let study = CurveStudy::of(&trace, specs.to_vec(), &sizes, &|_| {}, &Interrupt::default()).unwrap();
        let [leaders] = &study.leaders[..] else { panic!("{:?}", study.leaders) };
        assert_eq!(leaders.experts, ["clock", "lifo-plus"]);
        let pages: Vec<u64> = leaders.sizes.iter().map(|size| size.memory_pages).collect();
        assert_eq!(pages, study.curves.memory_pages);
        let (half, all) = (&leaders.sizes[0], leaders.sizes.last().unwrap());
        assert!(half.changes >= 1 && all.changes == 0, "{leaders:?}");
        assert!(half.shares[1] > 0.9 && all.shares == [1.0, 0.0], "{leaders:?}");
        let sentence = leaders.sentence(0).unwrap();
        assert!(sentence.contains(" follows lifo-plus ") && sentence.contains(" change"), "{sentence}");
    }
}
