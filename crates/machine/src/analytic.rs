//! Closed forms for one task without a limit of memory, where a page is dropped as soon as the
//! policy releases it.
//!
//! The policies of the whole system keep a released page until its frame is needed. Here it is gone
//! at once, as in the models in which WS, VMIN and PFF were defined.

use sweephand_policy::VirtualTime;

/// Faults of a reference string, and the space it took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SpaceTime {
    /// References to pages not held.
    pub faults: u64,
    /// Pages held, on average over the moments right after each reference.
    pub mean_pages: f64,
}

/// The working set policy: a page is held while fewer than `theta` references have been completed
/// since its last one.
pub fn working_set(string: &[u32], theta: VirtualTime) -> SpaceTime {
    let next = next_references(string);
    // After its reference a page is held for theta references, or until the next one if that comes
    // before.
    let mut faults = distinct(string);
    let mut space = 0;
    for (now, &next) in next.iter().enumerate() {
        let end = next.unwrap_or(string.len());
        let held = (end - now) as u64;
        faults += u64::from(next.is_some() && held > theta);
        space += held.min(theta);
    }
    SpaceTime { faults, mean_pages: mean(space, string.len()) }
}

/// VMIN: after each reference its page is held if its next reference is at most `tau` references
/// ahead, and dropped otherwise.
pub fn vmin(string: &[u32], tau: VirtualTime) -> SpaceTime {
    let mut faults = distinct(string);
    let mut space = 0;
    for (now, next) in next_references(string).into_iter().enumerate() {
        match next.map(|next| (next - now) as u64) {
            Some(ahead) if ahead <= tau => space += ahead,
            next => {
                faults += u64::from(next.is_some());
                // It was there for its own reference.
                space += 1;
            }
        }
    }
    SpaceTime { faults, mean_pages: mean(space, string.len()) }
}

/// PFF: at a fault `threshold` or more references after the one before, pages not referenced since
/// then are dropped.
pub fn page_fault_frequency(string: &[u32], threshold: VirtualTime) -> SpaceTime {
    let pages = string.iter().max().map_or(0, |&page| page as usize + 1);
    let (mut held, mut referenced) = (vec![false; pages], vec![false; pages]);
    let (mut size, mut faults, mut space) = (0, 0, 0);
    let mut last_fault = None;
    for (now, &page) in string.iter().enumerate() {
        if !held[page as usize] {
            faults += 1;
            let before = last_fault.replace(now);
            if before.is_some_and(|before| (now - before) as u64 >= threshold) {
                for (held, referenced) in held.iter_mut().zip(&mut referenced) {
                    size -= u64::from(*held && !*referenced);
                    *held &= std::mem::take(referenced);
                }
            }
            held[page as usize] = true;
            size += 1;
        }
        referenced[page as usize] = true;
        space += size;
    }
    SpaceTime { faults, mean_pages: mean(space, string.len()) }
}

/// For each reference the next one to its page.
fn next_references(string: &[u32]) -> Vec<Option<usize>> {
    let pages = string.iter().max().map_or(0, |&page| page as usize + 1);
    let mut last = vec![None; pages];
    let mut next = vec![None; string.len()];
    for (now, &page) in string.iter().enumerate().rev() {
        next[now] = last[page as usize].replace(now);
    }
    next
}

fn distinct(string: &[u32]) -> u64 {
    let mut pages = string.to_vec();
    pages.sort_unstable();
    pages.dedup();
    pages.len() as u64
}

fn mean(sum: u64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E1: [u32; 12] = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    const E3: [u32; 20] = [1, 2, 1, 3, 1, 2, 4, 1, 5, 2, 6, 1, 7, 2, 1, 8, 3, 1, 2, 4];

    fn rounded(results: impl IntoIterator<Item = SpaceTime>) -> Vec<(u64, f64)> {
        results.into_iter().map(|of| (of.faults, (of.mean_pages * 100.0).round() / 100.0)).collect()
    }

    #[test]
    fn working_sets_vmin_and_pff_take_the_known_faults_on_the_examples() {
        let thetas = [1, 2, 3, 4, 5, 8];
        assert_eq!(
            rounded(thetas.map(|theta| working_set(&E1, theta))),
            [(12, 1.0), (12, 1.92), (10, 2.75), (8, 3.33), (7, 3.67), (5, 4.0)]
        );
        assert_eq!(
            rounded(thetas.map(|tau| vmin(&E1, tau))),
            [(12, 1.0), (12, 1.0), (10, 1.33), (8, 1.83), (7, 2.17), (5, 3.17)]
        );
        assert_eq!(
            rounded([2, 4, 8].map(|theta| working_set(&E3, theta))),
            [(18, 1.95), (11, 3.35), (10, 4.45)]
        );
        assert_eq!(rounded([2, 4, 8].map(|tau| vmin(&E3, tau))), [(18, 1.1), (11, 2.0), (10, 2.2)]);
        assert_eq!(
            rounded([1, 2, 3, 4].map(|t| page_fault_frequency(&E1, t))),
            [(12, 1.92), (5, 4.0), (5, 4.0), (5, 4.0)]
        );
        assert_eq!(
            rounded([1, 2, 3].map(|t| page_fault_frequency(&E3, t))),
            [(16, 2.35), (11, 3.9), (9, 5.2)]
        );
    }
}
