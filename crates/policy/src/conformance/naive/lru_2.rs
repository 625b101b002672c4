//! LRU-K: evict the page whose K-th last uncorrelated reference is longest ago.
//!
//! Decisions:
//! * Ties go by the last reference of any kind, the least recent first; 0 stands for an unknown
//!   time.
//! * A history block is judged when its page is faulted on, after the eviction: one unreferenced
//!   for longer than the retained information period, or beyond the number of blocks kept for
//!   non-resident pages, is gone.

use super::{Given, Step};

/// The parameters of LRU-K.
#[derive(Clone, Copy, Debug)]
pub struct LruKOptions {
    /// Which last reference counts.
    pub k: usize,
    /// Correlated reference period, in references.
    pub crp: u64,
    /// Retained information period, in references.
    pub rip: u64,
    /// Most blocks of non-resident pages.
    pub blocks: usize,
}

#[derive(Clone, Debug)]
struct Block {
    page: u32,
    resident: bool,
    hist: Vec<u64>, // hist[0] is the latest
    last: u64,
}

/// LRU-K with `frames` frames.
pub fn lru_k(references: &[u32], frames: usize, options: &LruKOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let &LruKOptions { k, crp, rip, blocks: most_blocks } = options;
    let mut blocks: Vec<Block> = Vec::new();
    let mut steps = Vec::new();
    for (time, &page) in (1_u64..).zip(references) {
        if let Some(block) = blocks.iter_mut().find(|block| block.page == page && block.resident) {
            if time - block.last > crp {
                let period = block.last - block.hist[0];
                for i in (1..k).rev() {
                    block.hist[i] = if block.hist[i - 1] == 0 { 0 } else { block.hist[i - 1] + period };
                }
                block.hist[0] = time;
            }
            block.last = time;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        if blocks.iter().filter(|block| block.resident).count() == frames {
            let any_eligible = blocks.iter().any(|block| block.resident && time - block.last > crp);
            let chosen = blocks
                .iter_mut()
                .filter(|block| block.resident && (!any_eligible || time - block.last > crp))
                .min_by_key(|block| (block.hist[k - 1], block.last))
                .expect("memory is full");
            chosen.resident = false;
            victim = Some(chosen.page);
        }
        blocks.retain(|block| block.resident || time - block.last <= rip);
        while blocks.iter().filter(|block| !block.resident).count() > most_blocks {
            let oldest = blocks.iter().filter(|block| !block.resident).map(|block| block.last).min();
            blocks.retain(|block| block.resident || Some(block.last) != oldest);
        }
        match blocks.iter_mut().find(|block| block.page == page) {
            Some(block) => {
                for i in (1..k).rev() {
                    block.hist[i] = block.hist[i - 1];
                }
                block.hist[0] = time;
                block.last = time;
                block.resident = true;
            }
            None => {
                let mut hist = vec![0; k];
                hist[0] = time;
                blocks.push(Block { page, resident: true, hist, last: time });
            }
        }
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let options = LruKOptions {
        k: given.whole("k") as usize,
        crp: given.whole("crp"),
        rip: given.arguments.whole("retained", 0..=u64::MAX).unwrap_or(u64::MAX),
        blocks: match given.arguments.factor("history") {
            Ok(limit) => (limit * frames as f64) as usize,
            Err(_) => usize::MAX,
        },
    };
    lru_k(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::lru;
    use super::super::tests::{for_random_strings, outcomes_on_examples};
    use super::{LruKOptions, lru_k};

    const LRU_2: LruKOptions = LruKOptions { k: 2, crp: 0, rip: u64::MAX, blocks: usize::MAX };

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = |options| outcomes_on_examples(|refs, frames| lru_k(refs, frames, &options));
        assert_eq!(row(LRU_2), "10:1234534 | 15:12345123451 | 10:345678");
        assert_eq!(row(LruKOptions { crp: 1, ..LRU_2 }), "10:1234513 | 15:12345123451 | 10:345678");
    }

    #[test]
    fn lru_1_is_lru() {
        for_random_strings(|refs, frames| {
            assert_eq!(lru_k(refs, frames, &LruKOptions { k: 1, ..LRU_2 }), lru(refs, frames));
        });
    }
}
