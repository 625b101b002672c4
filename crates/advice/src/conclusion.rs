//! Conclusions from fault curves: how much memory is enough, which policy is best, how far that is
//! from OPT.
//!
//! **Enough** is the smallest memory from which on a policy's faults stay within a tenth
//! ([`SLACK`]) of the first touches, the fewest faults that any memory allows. The policy is the
//! best of those that could run live. Two other rules were considered:
//! - The point furthest below the chord between the ends of the curve depends on where the curve is
//!   cut off. One more small size, where faults soar, moves the knee. Our rule uses the other end,
//!   which is fixed.
//! - Denning's knee, where memory times faults is smallest, is often the memory of the innermost
//!   loop, and there a program still faults all the time.
//!
//! If less than nearly all memory ([`NEARLY_ALL`]) is not enough, the conclusion says so and names
//! the steepest stretch of the curve instead of a knee.
//!
//! **Best** is the policy with the fewest faults over the sizes at which memory is *short*: those
//! at which CLOCK is not within the slack and counts are exact. The mean is geometric, so each such
//! size has the same weight. Policies less than [`WORTH_IT`] apart count as equal, and CLOCK is
//! kept.

use serde::Serialize;
use sweephand_results::{bytes, grouped};

/// Memory is enough when faults are within this share of the least.
pub const SLACK: f64 = 0.10;
/// A policy that saves less than this share of CLOCK's faults is not worth a change.
pub const WORTH_IT: f64 = 0.02;
/// A memory beyond this share of a program's pages is nearly all of it.
pub const NEARLY_ALL: f64 = 0.90;
/// A step of a curve is small if faults fall by less than this share of their largest fall.
const NOTABLE_FALL: f64 = 0.25;

/// The faults of some policies at the same memory sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curves {
    /// Bytes a page.
    pub page_bytes: u64,
    /// Pages of the program: memory that is enough for everything.
    pub distinct_pages: u64,
    /// Faults that no memory and no policy saves: first touches.
    pub first_touch_faults: u64,
    /// Counts at smaller sizes than this are too rough to compare policies by: the trace is
    /// reduced.
    pub exact_from_pages: u64,
    /// The memory sizes, ascending. The last is all of the program's pages.
    pub memory_pages: Vec<u64>,
    /// The policies.
    pub curves: Vec<Curve>,
}

/// The faults of a policy at each memory size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// The policy, as typed.
    pub policy: String,
    /// Whether it needs no more than faults and reference bits.
    pub runs_live: bool,
    /// Whether it knows the future.
    pub offline: bool,
    /// Its faults, one number a memory size.
    pub faults: Vec<u64>,
}

/// How two policies compare where memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The policy: an index into [`Curves::curves`].
    pub policy: usize,
    /// What it is compared with.
    pub baseline: usize,
    /// Share of the baseline's faults that it saves, on geometric average over the sizes; negative
    /// if it takes more.
    pub saved: f64,
    /// The size at which it saves the largest share: an index into [`Curves::memory_pages`].
    pub most_at: usize,
}

/// A memory that is enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Enough {
    /// Its size.
    pub memory_pages: u64,
    /// Faults there, under the best policy.
    pub faults: u64,
    /// The largest size known not to be enough.
    pub short_pages: Option<u64>,
}

/// What the curves come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusion {
    /// The policy to take: an index into [`Curves::curves`].
    pub policy: usize,
    /// How much memory is enough under it.
    pub enough: Enough,
    /// The best policy that could run live beside CLOCK, or what stands in for it; `None` where
    /// memory is never short.
    pub best: Option<Comparison>,
    /// OPT beside that policy.
    pub headroom: Option<Comparison>,
    /// The sizes between which the policy's faults fall most steeply, on logarithmic axes: an index
    /// into [`Curves::memory_pages`] and the one after it. A step does not count, however steep,
    /// if faults fall by less than a quarter of their largest fall.
    pub steepest_from: Option<usize>,
}

/// The conclusion in a sentence each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sentences {
    /// How much memory is enough.
    pub enough: String,
    /// Which policy is best.
    pub policy: String,
    /// How far OPT is.
    pub headroom: String,
}

impl Curves {
    /// Whether this many faults are within the slack of the least.
    fn is_least(&self, faults: u64) -> bool {
        faults as f64 <= (1.0 + SLACK) * self.first_touch_faults as f64
    }

    /// CLOCK, or else the first policy that could run live, or else the first that does not know
    /// the future.
    fn baseline(&self) -> usize {
        let find = |test: &dyn Fn(&Curve) -> bool| self.curves.iter().position(test);
        find(&|curve| curve.policy.split(':').next() == Some("clock"))
            .or_else(|| find(&|curve| curve.runs_live))
            .or_else(|| find(&|curve| !curve.offline))
            .unwrap_or(0)
    }

    fn compare(&self, policy: usize, baseline: usize, sizes: &[usize]) -> Comparison {
        let ratio = |size: usize| {
            let faults = |curve: usize| self.curves[curve].faults[size].max(1) as f64;
            faults(policy) / faults(baseline)
        };
        let mean = sizes.iter().map(|size| ratio(*size).ln()).sum::<f64>() / sizes.len().max(1) as f64;
        let most_at =
            sizes.iter().copied().min_by(|a, b| ratio(*a).total_cmp(&ratio(*b))).unwrap_or_default();
        Comparison { policy, baseline, saved: 1.0 - mean.exp(), most_at }
    }

    fn size(&self, pages: u64) -> String {
        bytes(pages * self.page_bytes)
    }

    fn share(&self, pages: u64) -> String {
        percent(pages as f64 / self.distinct_pages.max(1) as f64)
    }
}

impl Conclusion {
    /// Draws it. There must be a curve, and a size.
    pub fn of(curves: &Curves) -> Self {
        let baseline = curves.baseline();
        let faults = |curve: usize| &curves.curves[curve].faults;
        let mut short: Vec<usize> =
            (0..curves.memory_pages.len()).filter(|size| !curves.is_least(faults(baseline)[*size])).collect();
        let is_exact = |size: &usize| curves.memory_pages[*size] >= curves.exact_from_pages;
        if short.iter().any(is_exact) {
            short.retain(is_exact);
        }
        let is_candidate = |curve: &usize| {
            let (curve, baseline) = (&curves.curves[*curve], &curves.curves[baseline]);
            // Without a policy that could run live the best of the others is named.
            curve.runs_live == baseline.runs_live && curve.offline == baseline.offline
        };
        let best = (!short.is_empty()).then(|| {
            let candidates = (0..curves.curves.len()).filter(is_candidate);
            let compared = candidates.map(|curve| curves.compare(curve, baseline, &short));
            compared
                .filter(|comparison| comparison.policy != baseline)
                .max_by(|a, b| a.saved.total_cmp(&b.saved))
                .unwrap_or(curves.compare(baseline, baseline, &short))
        });
        let policy = best.filter(|best| best.saved >= WORTH_IT).map_or(baseline, |best| best.policy);
        let opt = curves.curves.iter().position(|curve| curve.offline);
        let headroom = opt.filter(|_| !short.is_empty()).map(|opt| curves.compare(opt, policy, &short));
        let last_short = faults(policy).iter().rposition(|faults| !curves.is_least(*faults));
        let last = curves.memory_pages.len() - 1;
        let at = last_short.map_or(0, |size| (size + 1).min(last));
        let enough = Enough {
            memory_pages: curves.memory_pages[at],
            faults: faults(policy)[at],
            short_pages: last_short.map(|size| curves.memory_pages[size]),
        };
        let steepest_from = steepest(&curves.memory_pages, faults(policy));
        Self { policy, enough, best, headroom, steepest_from }
    }

    /// Some sizes between the largest that is known to be short and the smallest that is known to
    /// be enough: simulate the policy there, and give the faults to [`Conclusion::refine`].
    pub fn between(&self, sizes: usize) -> Vec<u64> {
        let Some(short) = self.enough.short_pages else { return Vec::new() };
        let gap = self.enough.memory_pages - short;
        let steps = gap.min(sizes as u64 + 1);
        (1..steps).map(|step| short + gap * step / steps).collect()
    }

    /// Takes in the policy's faults at sizes between those known, ascending.
    pub fn refine(&mut self, curves: &Curves, between: &[(u64, u64)]) {
        for &(memory_pages, faults) in between.iter().rev() {
            if !curves.is_least(faults) {
                self.enough.short_pages = Some(memory_pages);
                break;
            }
            self.enough = Enough { memory_pages, faults, ..self.enough };
        }
    }

    /// Puts the faults of all policies at one more size into the curves. What is concluded stays.
    pub fn insert(&mut self, curves: &mut Curves, memory_pages: u64, faults: &[u64]) {
        let at = curves.memory_pages.partition_point(|size| *size < memory_pages);
        curves.memory_pages.insert(at, memory_pages);
        for (curve, faults) in curves.curves.iter_mut().zip(faults) {
            curve.faults.insert(at, *faults);
        }
        for comparison in [&mut self.best, &mut self.headroom].into_iter().flatten() {
            comparison.most_at += usize::from(comparison.most_at >= at);
        }
        self.steepest_from = steepest(&curves.memory_pages, &curves.curves[self.policy].faults);
    }

    /// Whether nothing short of nearly all memory is enough.
    pub fn wants_nearly_all(&self, curves: &Curves) -> bool {
        self.enough.memory_pages as f64 > NEARLY_ALL * curves.distinct_pages as f64
    }

    /// The conclusion in words.
    pub fn sentences(&self, curves: &Curves) -> Sentences {
        Sentences {
            enough: self.enough_sentence(curves),
            policy: self.policy_sentence(curves),
            headroom: self.headroom_sentence(curves),
        }
    }

    fn enough_sentence(&self, curves: &Curves) -> String {
        let Enough { memory_pages, faults, .. } = self.enough;
        let policy = &curves.curves[self.policy];
        let least = grouped(curves.first_touch_faults);
        let more = faults as f64 / curves.first_touch_faults.max(1) as f64 - 1.0;
        let (size, all) = (curves.size(memory_pages), curves.size(curves.distinct_pages));
        if let (true, Some(from)) = (self.wants_nearly_all(curves), self.steepest_from) {
            return format!(
                "Nothing short of nearly all its memory is enough: {} comes within {} of the least faults only at {size} ({} of {all}); \
                 its curve is steepest from {} to {}, where faults fall from {} to {}.",
                policy.policy,
                percent(SLACK),
                curves.share(memory_pages),
                curves.size(curves.memory_pages[from]),
                curves.size(curves.memory_pages[from + 1]),
                grouped(policy.faults[from]),
                grouped(policy.faults[from + 1]),
            );
        }
        let even = if self.enough.short_pages.is_none() {
            "Even the smallest size simulated is enough: "
        } else {
            ""
        };
        let share = curves.share(memory_pages);
        format!(
            "{even}{size} {}({share} of its {all}): under {} it takes {} faults there, {} more than the {least} first touches that no \
             memory saves.",
            if even.is_empty() { "is enough " } else { "" },
            policy.policy,
            grouped(faults),
            percent(more),
        )
    }

    fn policy_sentence(&self, curves: &Curves) -> String {
        let live = curves.curves.iter().filter(|curve| curve.runs_live).count();
        let Some(best) = self.best else {
            return format!(
                "{} will do: memory is not short at any size simulated, so no policy matters.",
                curves.curves[self.policy].policy
            );
        };
        let [policy, baseline] = [best.policy, best.baseline].map(|index| &curves.curves[index]);
        let of = match (baseline.runs_live, live) {
            (true, 1) => {
                return format!("Only {} of the policies simulated could run live.", baseline.policy);
            }
            (true, live) => format!("Of the {live} policies that could run live"),
            _ => "Of the policies simulated, none of which could run live,".to_string(),
        };
        if best.saved < WORTH_IT {
            let nearest = if policy.policy == baseline.policy {
                String::new()
            } else if best.saved < 0.0 {
                format!(
                    "; the next, {}, takes {} more faults on average",
                    policy.policy,
                    percent(1.0 / (1.0 - best.saved.abs().min(0.99)) - 1.0)
                )
            } else {
                format!(
                    "; the next, {}, would save {} of its faults on average",
                    policy.policy,
                    percent(best.saved)
                )
            };
            return format!("{of} none is worth a change from {}{nearest}.", baseline.policy);
        }
        format!(
            "{of} {} is best: {} fewer faults than {} on average where memory is short, most at {}: {} instead of {}.",
            policy.policy,
            percent(best.saved),
            baseline.policy,
            curves.size(curves.memory_pages[best.most_at]),
            grouped(policy.faults[best.most_at]),
            grouped(baseline.faults[best.most_at]),
        )
    }

    fn headroom_sentence(&self, curves: &Curves) -> String {
        let Some(headroom) = self.headroom else {
            let known = curves.curves.iter().any(|curve| curve.offline);
            let why = if known { "memory is never short" } else { "OPT was not simulated" };
            return format!("No headroom is told: {why}.");
        };
        let [opt, policy] = [headroom.policy, headroom.baseline].map(|index| &curves.curves[index]);
        if headroom.saved < 0.0005 {
            return format!(
                "{}, which knows the future, would take no fewer faults than {}.",
                opt.policy, policy.policy
            );
        }
        format!(
            "{}, which knows the future, would take {} fewer faults than {} on average, most at {}: {} instead of {}.",
            opt.policy,
            percent(headroom.saved),
            policy.policy,
            curves.size(curves.memory_pages[headroom.most_at]),
            grouped(opt.faults[headroom.most_at]),
            grouped(policy.faults[headroom.most_at]),
        )
    }
}

/// Where a curve falls most steeply on logarithmic axes: from which size to the one after it. A
/// step between two sizes close together can be steep and yet save next to nothing, so small falls
/// do not count.
fn steepest(memory_pages: &[u64], faults: &[u64]) -> Option<usize> {
    let fall = |size: usize| faults[size].saturating_sub(faults[size + 1]) as f64;
    let least = NOTABLE_FALL * (0..faults.len() - 1).map(fall).fold(0.0, f64::max);
    let steepness = |size: &usize| {
        let pages = |size: usize| (memory_pages[size] as f64).ln();
        let faults = |size: usize| (faults[size].max(1) as f64).ln();
        (faults(*size) - faults(size + 1)) / (pages(size + 1) - pages(*size))
    };
    (0..memory_pages.len() - 1)
        .filter(|size| fall(*size) > 0.0 && fall(*size) >= least)
        .max_by(|a, b| steepness(a).total_cmp(&steepness(b)))
}

/// A share in percent, with a decimal where it is below ten.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = if percent.abs() >= 9.95 || percent == 0.0 { 0 } else { 1 };
    format!("{percent:.decimals$}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten sizes of 100 to 1000 pages; 1000 first touches.
    fn curves(curves: &[(&str, bool, bool, [u64; 10])]) -> Curves {
        let curve = |&(policy, runs_live, offline, faults): &(&str, bool, bool, [u64; 10])| Curve {
            policy: policy.to_string(),
            runs_live,
            offline,
            faults: faults.to_vec(),
        };
        Curves {
            page_bytes: 1 << 20,
            distinct_pages: 1000,
            first_touch_faults: 1000,
            exact_from_pages: 1,
            memory_pages: (1..=10).map(|size| 100 * size).collect(),
            curves: curves.iter().map(curve).collect(),
        }
    }

    const OPT: (&str, bool, bool, [u64; 10]) =
        ("opt", false, true, [4000, 3000, 2000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
    const CLOCK: (&str, bool, bool, [u64; 10]) =
        ("clock", true, false, [8000, 6000, 4000, 2000, 1100, 1000, 1000, 1000, 1000, 1000]);

    #[test]
    fn enough_is_where_faults_come_within_a_tenth_of_first_touches_and_stay_there() {
        let conclusion = Conclusion::of(&curves(&[OPT, CLOCK]));
        assert_eq!(conclusion.enough, Enough { memory_pages: 500, faults: 1100, short_pages: Some(400) });
        // An anomaly: more memory, more faults.
        let mut bump = CLOCK;
        bump.3[6] = 1101;
        assert_eq!(Conclusion::of(&curves(&[OPT, bump])).enough.memory_pages, 800);
    }

    #[test]
    fn enough_does_not_depend_on_how_small_the_smallest_size_is() {
        let mut cut = curves(&[OPT, CLOCK]);
        cut.memory_pages.drain(..3);
        cut.curves.iter_mut().for_each(|curve| drop(curve.faults.drain(..3)));
        assert_eq!(Conclusion::of(&cut).enough.memory_pages, 500);
    }

    #[test]
    fn enough_is_refined_between_two_sizes() {
        let curves = curves(&[OPT, CLOCK]);
        let mut conclusion = Conclusion::of(&curves);
        assert_eq!(conclusion.between(3), [425, 450, 475]);
        conclusion.refine(&curves, &[(425, 1090), (450, 1150), (475, 1100)]);
        assert_eq!(conclusion.enough, Enough { memory_pages: 475, faults: 1100, short_pages: Some(450) });
        conclusion.refine(&curves, &[]);
        assert_eq!(conclusion.enough.memory_pages, 475);
        conclusion.enough.short_pages = Some(473);
        assert_eq!(conclusion.between(7), [474]);
    }

    #[test]
    fn a_size_that_is_put_in_moves_nothing_but_the_curves() {
        let mut curves = curves(&[OPT, CLOCK]);
        let mut conclusion = Conclusion::of(&curves);
        let before = conclusion.sentences(&curves);
        // At each of the first four sizes OPT has half of the faults; the first of them counts.
        assert_eq!(curves.memory_pages[conclusion.headroom.unwrap().most_at], 100);
        conclusion.insert(&mut curves, 250, &[2500, 5000]);
        assert_eq!(curves.memory_pages[..4], [100, 200, 250, 300]);
        assert_eq!(curves.curves[1].faults[..4], [8000, 6000, 5000, 4000]);
        assert_eq!(conclusion.sentences(&curves), before);
        conclusion.insert(&mut curves, 50, &[4500, 9000]);
        assert_eq!(conclusion.sentences(&curves), before);
        assert_eq!(curves.memory_pages[conclusion.headroom.unwrap().most_at], 100);
    }

    #[test]
    fn the_best_policy_saves_most_on_geometric_average_where_memory_is_short() {
        // Short at 100 to 400: halves twice, the same twice.
        let pro = ("clock-pro", true, false, [4000, 3000, 4000, 2000, 1100, 9000, 1000, 1000, 1000, 1000]);
        let lru = ("lru", false, false, [1000; 10]);
        let conclusion = Conclusion::of(&curves(&[OPT, lru, CLOCK, pro]));
        let best = conclusion.best.unwrap();
        assert_eq!((best.policy, best.baseline, best.most_at), (3, 2, 0));
        assert!((best.saved - (1.0 - 0.5f64.sqrt())).abs() < 1e-12);
        let headroom = conclusion.headroom.unwrap();
        assert_eq!((headroom.policy, headroom.baseline, headroom.most_at), (0, 3, 2));
        assert!((headroom.saved - (1.0 - 0.25f64.powf(0.25))).abs() < 1e-12, "halves twice: 1 1 1/2 1/2");
    }

    #[test]
    fn sizes_at_which_counts_are_rough_do_not_decide_unless_there_are_no_others() {
        let pro = ("clock-pro", true, false, [4000, 9000, 6000, 3000, 1100, 1000, 1000, 1000, 1000, 1000]);
        let mut curves = curves(&[OPT, CLOCK, pro]);
        curves.exact_from_pages = 101;
        let best = Conclusion::of(&curves).best.unwrap();
        assert!((best.saved + 0.5).abs() < 1e-12, "half as many again at 200 to 400: {}", best.saved);
        curves.exact_from_pages = 401;
        assert!(Conclusion::of(&curves).best.unwrap().saved > -0.2, "as if all were exact");
    }

    #[test]
    fn a_policy_that_saves_next_to_nothing_is_not_advised() {
        let car = ("car", true, false, [7900, 5900, 3980, 1990, 1100, 1000, 1000, 1000, 1000, 1000]);
        let curves = curves(&[OPT, CLOCK, car]);
        let conclusion = Conclusion::of(&curves);
        assert_eq!(conclusion.policy, 1);
        assert_eq!(
            conclusion.sentences(&curves).policy,
            "Of the 2 policies that could run live none is worth a change from clock; the next, car, would save 1.0% of its faults \
             on average."
        );
    }

    #[test]
    fn sentences_carry_their_numbers() {
        let pro = ("clock-pro", true, false, [4000, 3000, 2000, 1500, 1050, 1000, 1000, 1000, 1000, 1000]);
        let curves = curves(&[OPT, CLOCK, pro]);
        let sentences = Conclusion::of(&curves).sentences(&curves);
        assert_eq!(
            sentences.enough,
            "500 MiB is enough (50% of its 1.0 GiB): under clock-pro it takes 1,050 faults there, 5.0% more than the 1,000 first \
             touches that no memory saves."
        );
        assert_eq!(
            sentences.policy,
            "Of the 2 policies that could run live clock-pro is best: 45% fewer faults than clock on average where memory is short, \
             most at 100 MiB: 4,000 instead of 8,000."
        );
        assert_eq!(
            sentences.headroom,
            "opt, which knows the future, would take 9.6% fewer faults than clock-pro on average, most at 400 MiB: 1,000 instead of \
             1,500."
        );
    }

    /// A page that was unmapped and mapped again has two first touches.
    #[test]
    fn shares_of_memory_are_of_its_pages() {
        let mut curves = curves(&[OPT, CLOCK]);
        curves.distinct_pages = 800;
        let sentences = Conclusion::of(&curves).sentences(&curves);
        assert!(
            sentences.enough.starts_with("500 MiB is enough (62% of its 800 MiB)"),
            "{}",
            sentences.enough
        );
    }

    #[test]
    fn where_only_nearly_all_memory_is_enough_no_knee_is_claimed() {
        // A loop under CLOCK: a fault at every page until all of them fit.
        let clock = ("clock", true, false, [9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 6000, 1000]);
        let curves = curves(&[clock]);
        let conclusion = Conclusion::of(&curves);
        assert!(conclusion.wants_nearly_all(&curves));
        assert_eq!(
            conclusion.sentences(&curves),
            Sentences {
                enough: "Nothing short of nearly all its memory is enough: clock comes within 10% of the least faults only at 1.0 \
                         GiB (100% of 1.0 GiB); its curve is steepest from 900 MiB to 1.0 GiB, where faults fall from 6,000 to 1,000."
                    .into(),
                policy: "Only clock of the policies simulated could run live.".into(),
                headroom: "No headroom is told: OPT was not simulated.".into(),
            }
        );
    }

    #[test]
    fn a_tiny_step_is_not_the_steepest() {
        // From 100 to 101 pages faults fall by 2% in 1% more memory; later they halve in twice it.
        assert_eq!(steepest(&[100, 101, 400, 800], &[8000, 7800, 7000, 3500]), Some(2));
        assert_eq!(steepest(&[100, 101, 400, 800], &[8000, 4000, 3900, 3500]), Some(0));
        assert_eq!(steepest(&[100, 200], &[8000, 8000]), None);
    }

    #[test]
    fn where_memory_is_never_short_no_policy_is_praised() {
        let flat = |policy, runs_live, offline| (policy, runs_live, offline, [1000; 10]);
        let curves =
            curves(&[flat("opt", false, true), flat("clock", true, false), flat("car", true, false)]);
        let conclusion = Conclusion::of(&curves);
        assert_eq!((conclusion.best, conclusion.headroom, conclusion.steepest_from), (None, None, None));
        assert_eq!(
            conclusion.sentences(&curves),
            Sentences {
                enough: "Even the smallest size simulated is enough: 100 MiB (10% of its 1.0 GiB): under clock it takes 1,000 faults \
                         there, 0% more than the 1,000 first touches that no memory saves."
                    .into(),
                policy: "clock will do: memory is not short at any size simulated, so no policy matters.".into(),
                headroom: "No headroom is told: memory is never short.".into(),
            }
        );
    }

    #[test]
    fn without_clock_or_policies_that_could_run_live_the_others_are_compared() {
        let lru = ("lru", false, false, CLOCK.3);
        let lirs = ("lirs", false, false, [4000, 3000, 2000, 1500, 1050, 1000, 1000, 1000, 1000, 1000]);
        let curves = curves(&[OPT, lru, lirs]);
        let conclusion = Conclusion::of(&curves);
        assert_eq!((conclusion.best.unwrap().baseline, conclusion.policy), (1, 2));
        assert!(conclusion.sentences(&curves).policy.starts_with(
            "Of the policies simulated, none of which could run live, lirs is best: 45% fewer faults than lru"
        ));
    }
}
