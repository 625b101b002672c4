//! What somebody may have meant by a name that there is not.

use alloc::{format, string::String, vec::Vec};
use core::mem::swap;

/// ` (did you mean lru?)`, where one of the names that there are is much like the one that was
/// given; nothing otherwise.
pub fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let given: Vec<char> = given.trim().to_lowercase().chars().collect();
    // A third of the letters may be wrong, but always one.
    let most = (given.len() / 3).max(1);
    let near = known.into_iter().map(|name| (edits(&given, name), name));
    // Hyphens are forgotten most often.
    let letters = |name: &[char]| name.iter().copied().filter(|letter| *letter != '-').collect::<Vec<_>>();
    let differs = |name: &str| letters(&name.chars().collect::<Vec<_>>()) != letters(&given);
    match near.filter(|(edits, _)| *edits <= most).min_by_key(|(edits, name)| (differs(name), *edits)) {
        Some((_, name)) => format!(" (did you mean {name}?)"),
        None => String::new(),
    }
}

/// How many letters have to be put in, left out, replaced, or swapped with their neighbour (the
/// optimal string alignment distance).
fn edits(given: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let [mut before, mut last, mut row] = [(); 3].map(|()| (0..=name.len()).collect::<Vec<usize>>());
    for (i, &a) in given.iter().enumerate() {
        row[0] = i + 1;
        for (j, &b) in name.iter().enumerate() {
            row[j + 1] = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == name[j - 1] && given[i - 1] == b {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        swap(&mut before, &mut last);
        swap(&mut last, &mut row);
    }
    last[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant_if_it_is_near() {
        let hint =
            |given: &str| hint(given, ["opt", "lru", "lru-2", "clock", "clock-pro", "lirs", "s3-fifo"]);
        for (given, meant) in [
            ("lur", "lru"),
            ("LRU", "lru"),
            ("Lru2", "lru-2"),
            ("clockpro", "clock-pro"),
            ("clok", "clock"),
            ("s3fifo", "s3-fifo"),
        ] {
            assert_eq!(hint(given), format!(" (did you mean {meant}?)"), "{given}");
        }
        for given in ["", "x", "belady", "least-recently-used"] {
            assert_eq!(hint(given), "", "{given}");
        }
    }

    #[test]
    fn edits_are_counted() {
        let edits = |given: &str, name: &str| edits(&given.chars().collect::<Vec<_>>(), name);
        assert_eq!(
            ["", "lru", "lur", "lr", "lruu", "abc"].map(|given| edits(given, "lru")),
            [3, 0, 1, 1, 1, 3]
        );
    }
}
