//! What there is in the program's memory, by the kernel's lists: mappings and present pages.

use crate::kernel::{PAGE_BYTES, Region};
use crate::paging::lifecycle::arrive;
use crate::paging::pager::Pager;
use crate::process::failure::abort;
use crate::process::maps::{self, Mapping};
use crate::process::own;
use crate::process::pagemap::NOTHING;
use crate::state::pages::State;
use crate::state::regions::Regions;
use alloc::vec::Vec;

/// The program's private anonymous writable memory, without the pager's own.
pub(crate) fn mappings() -> Vec<Mapping> {
    let (mappings, text) =
        maps::read().unwrap_or_else(|error| abort(format_args!("/proc/self/maps: cannot be read: {error}")));
    let mut own = Regions::new();
    own::mappings().chain(own::library()).for_each(|(start, end)| own.add(start, end));
    // Only now: see `maps::read`.
    drop(text);
    let parts = |mapping: Mapping| {
        let gaps = own.gaps(mapping.start, mapping.end).into_iter();
        gaps.map(move |(start, end)| Mapping { start, end, ..mapping })
    };
    mappings.into_iter().flat_map(parts).collect()
}

/// The program's writable anonymous memory that the agent does not manage, in ranges that do not
/// touch.
pub(crate) fn native(pager: &Pager) -> Vec<(usize, usize)> {
    let mut writable = Regions::new();
    mappings().iter().for_each(|mapping| writable.add(mapping.start, mapping.end));
    let gaps = writable.iter().flat_map(|(start, end)| pager.memory.unmanaged(start, end));
    gaps.collect()
}

/// Counts the pages that are present in a range.
pub(crate) fn present(pager: &Pager, start: usize, end: usize) -> usize {
    let (mut from, mut pages) = (start, 0);
    while from < end {
        let mut found = [NOTHING; 64];
        // A range that has disappeared meanwhile has no pages.
        let Ok((count, to)) = pager.program.pagemap.present(from, end, &mut found) else { break };
        let bytes = |region: &Region| (region.end - region.start) as usize;
        pages += found[..count].iter().map(bytes).sum::<usize>() / PAGE_BYTES;
        from = to.max(from + PAGE_BYTES);
    }
    pages
}

/// The regions of pages that are present from an address on, as far as `found` has room for them,
/// and where the next look begins.
pub(crate) fn look_up(pager: &Pager, from: usize, end: usize, found: &mut [Region]) -> (usize, usize) {
    let looked = pager.program.pagemap.present(from, end, found);
    looked.unwrap_or_else(|error| abort(format_args!("/proc/self/pagemap: cannot be scanned: {error}")))
}

/// Hands the present pages of a range that was just registered to the policy.
///
/// Between the look at a page and its entry in the page table, the agent reads no changes: see
/// `changes`. Lent memory has to be requested, and that may read changes. So the frames come first,
/// and then the look at as many pages as there are frames for.
pub(crate) fn take_stock(pager: &mut Pager, start: usize, end: usize) {
    let mut from = start;
    while from < end {
        let room = pager.mode.admit_present(pager, (end - from) / PAGE_BYTES);
        let mut found = [NOTHING; 64];
        let (count, to) = look_up(pager, from, end, &mut found);
        let ranges = found[..count].iter().map(|region| region.start as usize..region.end as usize);
        let mut addresses = ranges.flat_map(|range| range.step_by(PAGE_BYTES));
        for address in addresses.by_ref().take(room) {
            let page = pager.memory.pages.find_or_insert(address);
            if pager.memory.pages.state(page) == State::Absent {
                pager.memory.pages.set(page, State::RESIDENT);
                arrive(pager, page);
            }
        }
        // Ends: `room` is at least 1, so this is behind `from`.
        from = addresses.next().unwrap_or(to.max(from + PAGE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pager;

    #[test]
    fn the_pagers_own_memory_is_not_the_programs() {
        const PAGES: usize = 16;
        let own = own::map(PAGES * PAGE_BYTES).unwrap();
        let is_inside = |mapping: &Mapping| (mapping.start..mapping.end).contains(&own);
        assert!(!mappings().iter().any(is_inside));
        let here = 0_u8;
        let stack = &raw const here as usize;
        let (mut pager, _) = pager();
        let has_stack =
            |pager: &Pager| native(pager).iter().any(|&(start, end)| (start..end).contains(&stack));
        assert!(has_stack(&pager));
        pager.memory.regions.add(0, usize::MAX / 2);
        assert!(!has_stack(&pager), "it is managed");
    }

    #[test]
    fn present_pages_are_counted_and_handed_to_the_policy() {
        const PAGES: usize = 20;
        let start = own::map(PAGES * PAGE_BYTES).unwrap();
        let end = start + PAGES * PAGE_BYTES;
        let touched = [0, 3, 4, 19];
        // SAFETY: this is a mapping of the test.
        touched.iter().for_each(|page| unsafe { ((start + page * PAGE_BYTES) as *mut u8).write(1) });
        let (mut pager, _) = pager();
        assert_eq!(present(&pager, start, end), touched.len());
        take_stock(&mut pager, start, end);
        take_stock(&mut pager, start, end);
        assert_eq!(pager.memory.pages.resident(), touched.len(), "each once");
    }
}
