//! The bits of a table's pages.

use sweephand_process::accessed::{Mask, TABLE_PAGES};

/// The pages of a table that have a bit, by number.
pub(crate) fn pages_of(table: u64, mask: &Mask) -> impl Iterator<Item = u64> {
    let first = table * TABLE_PAGES as u64;
    mask.iter()
        .enumerate()
        .flat_map(move |(word, &mask)| bits(mask).map(move |bit| first + 64 * word as u64 + bit))
}

/// The places of the bits of a word, ascending.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(bit)
    })
}

/// How many pages have a bit.
pub(crate) fn count(mask: &Mask) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_ranges_of_bits_are_taken_apart() {
        assert_eq!(bits(1 | 1 << 17 | 1 << 63).collect::<Vec<_>>(), [0, 17, 63]);
        let mut mask = Mask::default();
        (mask[0], mask[7]) = (2, 1 << 63);
        assert_eq!(pages_of(3, &mask).collect::<Vec<_>>(), [3 * 512 + 1, 3 * 512 + 511]);
    }
}
