//! The objects of a trace that is not recorded under Valgrind: mappings, by address, with their
//! bytes.

use std::collections::BTreeMap;
use sweephand_results::bytes;

/// The object that an address is in, by its own address.
pub(crate) fn object_of(objects: &BTreeMap<u64, u64>, address: u64) -> Option<u64> {
    let before = objects.range(..=address).next_back();
    before.filter(|(start, bytes)| address - *start < **bytes).map(|(start, _)| *start)
}

/// What an object is called: it has no name of its own. It may have gone.
pub(crate) fn mapping_name(objects: &BTreeMap<u64, u64>, address: u64) -> String {
    let size = objects.get(&address).map_or(String::new(), |size| format!(" of {}", bytes(*size)));
    format!("mapping{size} at {address:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_object_that_begins_before_them() {
        let objects = BTreeMap::from([(0x1000, 0x2000), (0x8000, 0x1000)]);
        let of = [0, 0x1000, 0x2fff, 0x3000, 0x8fff, 0x9000].map(|address| object_of(&objects, address));
        assert_eq!(of, [None, Some(0x1000), Some(0x1000), None, Some(0x8000), None]);
        assert_eq!(mapping_name(&objects, 0x1000), "mapping of 8.0 KiB at 0x1000");
        assert_eq!(mapping_name(&objects, 0x5000), "mapping at 0x5000");
    }
}
