//! CACHEUS: SR-LRU and CR-LFU, drawn by weights that ghosts teach.
//!
//! Decisions: one draw for every replacement, also when the experts agree; a page found in a
//! history leaves it before the replacement. The learning rate changes before the reference is
//! looked at.

use super::{Given, Rounding, Step};
use crate::SplitMix64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    count: u64,
    time: u64,
    new: bool,
    demoted: bool,
}

fn three_decimals(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

fn ratio(dividend: usize, divisor: usize) -> usize {
    ((dividend as f64 / divisor.max(1) as f64).round() as usize).max(1)
}

fn take(list: &mut Vec<Entry>, page: u32) -> Option<Entry> {
    let at = list.iter().position(|entry| entry.page == page)?;
    Some(list.remove(at))
}

fn count(list: &[Entry], what: impl Fn(&Entry) -> bool) -> usize {
    list.iter().filter(|entry| what(entry)).count()
}

/// CACHEUS with `frames` frames, `for_new` of them for new pages at the start.
pub fn cacheus(references: &[u32], frames: usize, for_new: usize, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut random = SplitMix64::new(seed);
    let (mut s, mut q): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
    let mut histories: [Vec<Entry>; 2] = [Vec::new(), Vec::new()]; // of LRU and LFU, earliest first
    let mut s_limit = if frames == 1 { 0 } else { frames.saturating_sub(for_new.max(1)).max(1) };
    let mut weights = [0.5, 0.5];
    let mut rate = crate::math::pow(2.0 * core::f64::consts::LN_2 / frames as f64, 0.5);
    let start = rate.clamp(0.001, 1.0);
    let (mut previous_rate, mut previous_ratio, mut hits) = (0.0, 0.0, 0);
    let (mut without, mut losses) = (0, 0);
    let demote = |s: &mut Vec<Entry>, q: &mut Vec<Entry>| {
        let front = s.remove(0);
        q.push(Entry { demoted: true, ..front });
    };
    let mut steps = Vec::new();
    for (time, &page) in (1_u64..).zip(references) {
        if time % frames as u64 == 0 {
            let hit_ratio = three_decimals(f64::from(hits) / frames as f64);
            let gain = three_decimals(hit_ratio - previous_ratio);
            let change = three_decimals(rate) - three_decimals(previous_rate);
            previous_rate = rate;
            if change * gain > 0.0 {
                rate = (rate + (rate * change).abs()).min(1.0);
                (without, losses) = (0, 0);
            } else if change * gain < 0.0 {
                rate = (rate - (rate * change).abs()).max(0.001);
                (without, losses) = (0, 0);
            } else if gain < 0.0 || gain == 0.0 && hit_ratio == 0.0 {
                without += 1;
                losses += i32::from(gain < 0.0);
                if without >= 10 {
                    rate = start;
                    without = 0;
                } else if gain < 0.0 && losses >= 10 {
                    rate = start;
                    losses = 0;
                } else if gain < 0.0 {
                    rate = match rate {
                        1.0.. => 0.9,
                        ..=0.001 => 0.005,
                        _ if random.below(2) == 0 => (rate * 1.25).min(1.0),
                        _ => (rate * 0.75).max(0.001),
                    };
                }
            }
            previous_ratio = hit_ratio;
            hits = 0;
        }
        if let Some(entry) = take(&mut s, page) {
            s.push(Entry { count: entry.count + 1, time, ..entry });
            hits += 1;
            steps.push(Step::hit());
            continue;
        }
        if let Some(entry) = q.iter().copied().find(|entry| entry.page == page) {
            if entry.demoted {
                let demoted = count(&q, |entry| entry.demoted);
                let new = count(&histories[0], |entry| entry.new);
                s_limit = (s_limit + ratio(new, demoted)).min(frames - 1);
            }
            take(&mut q, page);
            let entry = Entry { count: entry.count + 1, time, demoted: false, ..entry };
            if frames == 1 {
                q.push(entry);
            } else {
                if s.len() >= s_limit {
                    demote(&mut s, &mut q);
                }
                s.push(entry);
            }
            hits += 1;
            steps.push(Step::hit());
            continue;
        }
        let mut known = None;
        for expert in [0, 1] {
            let Some(at) = histories[expert].iter().position(|entry| entry.page == page) else { continue };
            let ghost = histories[expert].remove(at);
            if expert == 0 && ghost.new {
                let demoted = count(&q, |entry| entry.demoted);
                let new = count(&histories[0], |entry| entry.new);
                s_limit = frames - (frames - s_limit + ratio(demoted, new)).min(frames - 1);
            }
            weights[expert] *= crate::math::exp(-rate);
            let sum = weights[0] + weights[1];
            weights = weights.map(|weight| weight / sum);
            for expert in [0, 1] {
                if weights[expert] >= 0.99 {
                    weights[expert] = 0.99;
                    weights[1 - expert] = 1.0 - 0.99;
                }
            }
            known = Some(ghost.count);
        }
        let full = s.len() + q.len() == frames;
        let mut victim = None;
        if full {
            let expert = usize::from(random.unit() >= weights[0]);
            let by_count = |entry: &&Entry| (entry.count, u64::MAX - entry.time);
            let lfu = s.iter().chain(&q).min_by_key(by_count).expect("memory is full").page;
            let lru = q[0].page;
            let chosen = [lru, lfu][expert];
            let leaving = take(&mut q, chosen).or_else(|| take(&mut s, chosen)).expect("it is resident");
            if lru != lfu {
                if histories[expert].len() == frames / 2 {
                    histories[expert].remove(0);
                }
                histories[expert].push(Entry { demoted: false, ..leaving });
            }
            victim = Some(chosen);
        }
        let entry = Entry { page, count: known.unwrap_or(1), time, new: false, demoted: false };
        if known.is_some() {
            s.push(entry);
            while s.len() >= s_limit {
                demote(&mut s, &mut q);
            }
        } else if !full && s.len() < s_limit && q.is_empty() {
            s.push(entry);
        } else if !full && q.len() < frames - s_limit {
            q.push(entry);
        } else {
            q.push(Entry { new: true, ..entry });
            while !s.is_empty() && s.len() >= s_limit {
                demote(&mut s, &mut q);
            }
        }
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    cacheus(references, given.frames, given.pages("new", Rounding::Nearest), given.whole("seed"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::verification_row;
    use super::cacheus;

    #[test]
    fn verification_table() {
        let row = verification_row(|refs, frames| cacheus(refs, frames, 1, 1));
        assert_eq!(row, "8:34534 | 9:45454 | 10:456383");
    }
}
