//! Which of the numbers in page tables are those of the zram devices. Only the kernel knows under
//! which number it has a swap area; it lists the areas in the order of these numbers.

use std::collections::{BTreeMap, BTreeSet};
use sweephand_process::swap_area::{Area, areas};
use sweephand_process::zram::Zram;

/// A program's pages in each swap area, by the area's number.
#[derive(Debug, Default)]
pub(crate) struct SwapAreas(BTreeMap<u8, u64>);

impl SwapAreas {
    /// A page is in this one.
    pub(crate) fn add(&mut self, area: u8) {
        *self.0.entry(area).or_default() += 1;
    }

    /// The numbers of the devices, if one page in `one_in` has been added.
    pub(crate) fn of_devices(&self, zram: &Zram, one_in: u64) -> BTreeSet<u8> {
        let used: Vec<Area> = areas().into_iter().filter(|area| area.pages > 0).collect();
        self.matching(&used, one_in, |area| zram.has_path(&area.path))
    }

    /// If all areas that have pages have some of this program's, they are in the same order.
    /// Otherwise an area's number is the one that has about as many pages.
    fn matching(&self, used: &[Area], one_in: u64, is_device: impl Fn(&Area) -> bool) -> BTreeSet<u8> {
        if self.0.len() == used.len() {
            let pairs = self.0.keys().zip(used);
            return pairs.filter(|(_, area)| is_device(area)).map(|(&number, _)| number).collect();
        }
        let nearest = |area: &Area| {
            let distance = |&(_, &pages): &(&u8, &u64)| (pages * one_in).abs_diff(area.pages);
            self.0.iter().min_by_key(distance).map(|(&number, _)| number)
        };
        used.iter().filter(|area| is_device(area)).filter_map(nearest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_known_by_their_order_or_by_their_pages() {
        let area = |path: &str, pages| Area { path: path.into(), pages, priority: 0 };
        let of = |seen: &[(u8, u64)], used: &[Area]| {
            let areas = SwapAreas(seen.iter().copied().collect());
            Vec::from_iter(areas.matching(used, 2, |area| area.path.starts_with("/dev/zram")))
        };
        let both = [area("/dev/zram1", 6000), area("/var/file", 20_000), area("/dev/zram2", 12_000)];
        // As many pages in the file as in the devices together, and more than are in the first.
        assert_eq!(of(&[(0, 3000), (3, 10_000), (4, 6000)], &both), [0, 4]);
        assert_eq!(of(&[(0, 9000), (3, 3000), (4, 100)], &both), [0, 4]);
        // The machine's own area has pages of others only.
        let others = [area("/dev/sda2", 77), area("/dev/zram1", 6000), area("/var/file", 20_000)];
        assert_eq!(of(&[(2, 3100), (5, 9000)], &others), [2]);
        assert!(of(&[], &both).is_empty() && of(&[(0, 9)], &[]).is_empty());
    }
}
