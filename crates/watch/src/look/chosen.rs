//! Some of the pages that a look has found, for what they contain.

use super::mask::{count, pages_of};
use std::collections::BTreeSet;
use sweephand_contents::hash;
use sweephand_process::accessed::{Mask, TABLE_PAGES};

/// If this part of the pages is wanted, all are put in order. Otherwise places are drawn.
const PART_WANTED: usize = 2;
/// The most draws for a page that is wanted: tables may have one page each.
const DRAWS_A_PAGE: usize = TABLE_PAGES;

/// At most `pages` of the pages whose bits are set, each as likely as any other, by a hash of the
/// moment. They are in the order of that hash.
pub(super) fn choose(tables: &[(u64, &Mask)], pages: usize, moment: u64) -> Vec<u64> {
    let seed = hash(moment);
    let all: usize = tables.iter().map(|(_, mask)| count(mask) as usize).sum();
    if all <= PART_WANTED * pages {
        let mut all: Vec<u64> = tables.iter().flat_map(|(table, mask)| pages_of(*table, mask)).collect();
        all.sort_unstable_by_key(|page| hash(page ^ seed));
        all.truncate(pages);
        return all;
    }
    let (mut chosen, mut known) = (Vec::with_capacity(pages), BTreeSet::new());
    // Ends: the number of draws is bounded.
    for draw in 0..(DRAWS_A_PAGE * pages) as u64 {
        let drawn = hash(seed ^ draw);
        let (table, mask) = tables[(((drawn >> 32) * tables.len() as u64) >> 32) as usize];
        let bit = drawn as usize % TABLE_PAGES;
        let page = table * TABLE_PAGES as u64 + bit as u64;
        if mask[bit / 64] >> (bit % 64) & 1 != 0 && known.insert(page) {
            chosen.push(page);
            if chosen.len() == pages {
                break;
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_as_likely_as_any_other() {
        let full = [u64::MAX; TABLE_PAGES / 64];
        let mut one = Mask::default();
        one[3] = 1 << 5;
        let none = Mask::default();
        let tables: Vec<(u64, &Mask)> =
            (0..100).map(|table| (10 * table, [&full, &one, &none][table as usize % 3])).collect();
        let times = 200;
        let of_one = (0..times)
            .flat_map(|moment| choose(&tables, 100, moment))
            .inspect(|page| assert!(page / 512 % 10 == 0 && page / 5120 % 3 != 2))
            .filter(|page| page / 5120 % 3 == 1);
        // 34 tables have 512 pages, 33 have one.
        let expected = 100.0 * times as f64 * 33.0 / (34.0 * 512.0 + 33.0);
        let found = of_one.count() as f64;
        assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{found}, not {expected}");
        assert_eq!(choose(&tables, 100, 7), choose(&tables, 100, 7));
        assert_ne!(choose(&tables, 100, 7), choose(&tables, 100, 8));
    }

    #[test]
    fn all_pages_are_chosen_if_there_are_few() {
        let mut few = Mask::default();
        few[0] = 0b1011;
        let mut chosen = choose(&[(2, &few), (9, &Mask::default())], 100, 1);
        chosen.sort_unstable();
        assert_eq!(chosen, [1024, 1025, 1027]);
        assert_eq!(choose(&[(2, &few)], 2, 1).len(), 2);
        assert!(choose(&[], 10, 1).is_empty() && choose(&[(2, &few)], 0, 1).is_empty());
    }
}
