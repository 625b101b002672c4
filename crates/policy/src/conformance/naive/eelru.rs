//! EELRU: LRU, or early eviction for the pair of points that would have had most hits.
//!
//! Decisions: the log of hits on the queue is kept whole, with what each weighs; a reference is
//! counted before its victim is chosen and moves to the front after that; sums run over (e, M] and
//! (M, l] separately, in the order of the log.

use super::{Given, Step};

/// The parameters of EELRU.
#[derive(Clone, Debug)]
pub struct EelruOptions {
    /// Points before M.
    pub early: Vec<usize>,
    /// Points after M; others are ignored.
    pub late: Vec<usize>,
    /// What a counted hit leaves of the ones before it.
    pub decay: f64,
}

/// EELRU with `frames` frames.
pub fn eelru(references: &[u32], frames: usize, options: &EelruOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let late: Vec<usize> = options.late.iter().copied().filter(|late| *late > frames).collect();
    let deepest = late.iter().copied().max().unwrap_or(frames);
    let mut queue: Vec<u32> = Vec::new(); // most recent first, evicted pages as well
    let mut resident: Vec<u32> = Vec::new();
    let mut log: Vec<(usize, f64)> = Vec::new(); // position and weight
    let mut weight = 1.0;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(index) = queue.iter().position(|other| *other == page) {
            let position = index + 1;
            if options.early.iter().any(|early| *early < position) && position <= deepest {
                log.push((position, weight));
                weight *= 1.0 / options.decay;
                if weight >= 2_f64.powi(63) {
                    weight *= 0.5_f64.powi(63);
                    log.iter_mut().for_each(|entry| entry.1 *= 0.5_f64.powi(63));
                }
            }
        }
        if resident.contains(&page) {
            steps.push(Step::hit());
        } else {
            let mut victim = None;
            if resident.len() == frames {
                let by_recency: Vec<u32> =
                    queue.iter().copied().filter(|other| resident.contains(other)).collect();
                let oldest = *by_recency.last().expect("memory is full");
                let age = 1 + queue.iter().position(|other| *other == oldest).expect("it is in the queue");
                let chosen = match best_pair(&log, frames, &options.early, &late) {
                    Some((early, late)) if age < late => by_recency[early.max(1) - 1],
                    _ => oldest,
                };
                resident.retain(|other| *other != chosen);
                victim = Some(chosen);
            }
            resident.push(page);
            steps.push(Step::fault(victim));
        }
        queue.retain(|other| *other != page);
        queue.insert(0, page);
    }
    steps
}

fn best_pair(log: &[(usize, f64)], frames: usize, early: &[usize], late: &[usize]) -> Option<(usize, usize)> {
    let hits = |after: usize, to: usize| -> f64 {
        log.iter().filter(|entry| after < entry.0 && entry.0 <= to).fold(0.0, |sum, entry| sum + entry.1)
    };
    let mut best = None;
    let mut most = 0.0;
    for &e in early {
        for &l in late {
            let lru = hits(e, frames);
            let total = lru + hits(frames, l);
            let benefit = total * ((frames - e) as f64 / (l - e) as f64) - lru;
            if benefit > most {
                most = benefit;
                best = Some((e, l));
            }
        }
    }
    best
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let points = |name: &str| {
        let multiples = given.arguments.value(name).split('/');
        let multiples = multiples.map(|one| one.parse::<f64>().expect("checked by the spec"));
        multiples.map(|one| (one * frames as f64) as usize).collect()
    };
    let options = EelruOptions {
        early: points("early"),
        late: points("late"),
        decay: 1.0 - 1.0 / (given.factor("decay") * frames as f64),
    };
    eelru(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, outcomes_on_examples};
    use super::{EelruOptions, eelru};

    fn defaults(frames: usize) -> EelruOptions {
        let points = |multiples: &[f64]| multiples.iter().map(|m| (m * frames as f64) as usize).collect();
        EelruOptions {
            early: points(&[0.25, 0.5, 0.75]),
            late: points(&[1.25, 1.5, 2.0, 3.0]),
            decay: 1.0 - 1.0 / (8.0 * frames as f64),
        }
    }

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| eelru(refs, frames, &defaults(frames)));
        assert_eq!(row, "8:14323 | 8:1543 | 10:345678");
    }

    #[test]
    fn keeps_part_of_a_loop() {
        let string: Vec<u32> = (0..30).flat_map(|_| 0..60).collect();
        assert_eq!(faults(&eelru(&string, 40, &defaults(40))), 760);
    }
}
