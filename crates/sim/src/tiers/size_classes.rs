//! How much memory compressed pages take: the size classes of zsmalloc, the allocator of zram and
//! zswap (`mm/zsmalloc.c`, `Documentation/mm/zsmalloc.rst`).
//!
//! Sizes are rounded up to classes, 16 bytes apart with pages of 4 KiB. A class takes its memory in
//! *zspages*: chains of 1 to 8 pages, as long as leaves the least waste behind the last object. An
//! object takes 8 bytes more than its contents, for its handle. Neighbouring classes are one if
//! their zspages have as many pages and as many objects. Where an object would have a page to
//! itself, the class is *huge*: that of whole pages.

/// Most pages of a zspage: the kernel's default (`CONFIG_ZSMALLOC_CHAIN_SIZE`).
const CHAIN_PAGES: u32 = 8;
/// The smallest class, in bytes.
const LEAST_BYTES: u32 = 32;
/// Steps between classes in a page (`CLASS_BITS`).
const STEPS_IN_PAGE: u32 = 256;
/// What each object takes beyond its contents.
const HANDLE_BYTES: u32 = 8;

/// A size class, or that of pages which take no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SizeClass {
    /// Which one it is. The huge class is 0, that of no room the last.
    pub(super) index: u16,
    /// Pages of a zspage.
    pub(super) zspage_pages: usize,
    /// Objects in a zspage.
    pub(super) zspage_objects: usize,
}

impl SizeClass {
    /// Whether an object takes a whole page.
    pub(super) fn is_huge(self) -> bool {
        self.index == 0
    }

    /// Whether an object takes no room: all of its words are equal.
    pub(super) fn is_empty(self) -> bool {
        self.zspage_pages == 0
    }

    /// Pages that some objects take, packed into as few zspages as they can be.
    pub(super) fn pages_of(self, objects: usize) -> usize {
        objects.div_ceil(self.zspage_objects) * self.zspage_pages
    }

    /// Objects that some pages hold, of a class that takes room.
    pub(super) fn objects_in(self, pages: usize) -> usize {
        pages / self.zspage_pages * self.zspage_objects
    }
}

/// The size classes of an allocator.
#[derive(Debug)]
pub(super) struct SizeClasses {
    page_bytes: u32,
    /// By falling size, that of no room last.
    classes: Vec<SizeClass>,
    /// The index of the class for each number of steps above the smallest class.
    by_step: Vec<u16>,
}

impl SizeClasses {
    /// The kernel's classes with pages of `page_bytes`, a power of two and at least 4096.
    pub(super) fn new(page_bytes: u32) -> Self {
        Self::with_chains(page_bytes, CHAIN_PAGES)
    }

    fn with_chains(page_bytes: u32, most_pages: u32) -> Self {
        let step_bytes = page_bytes / STEPS_IN_PAGE;
        let steps = (page_bytes - LEAST_BYTES).div_ceil(step_bytes) + 1;
        let mut classes: Vec<SizeClass> = Vec::new();
        let mut by_step = vec![0; steps as usize];
        for step in (0..steps).rev() {
            let bytes = (LEAST_BYTES + step * step_bytes).min(page_bytes);
            let pages = chain_pages(page_bytes, bytes, most_pages);
            let (zspage_pages, zspage_objects) = (pages as usize, (pages * page_bytes / bytes) as usize);
            let merges = classes.last().is_some_and(|larger| {
                (larger.zspage_pages, larger.zspage_objects) == (zspage_pages, zspage_objects)
            });
            if !merges {
                let index = classes.len() as u16;
                classes.push(SizeClass { index, zspage_pages, zspage_objects });
            }
            by_step[step as usize] = classes.len() as u16 - 1;
        }
        classes.push(SizeClass { index: classes.len() as u16, zspage_pages: 0, zspage_objects: 1 });
        Self { page_bytes, classes, by_step }
    }

    /// Bytes a page.
    pub(super) fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The class for contents of at most a page.
    pub(super) fn class_of(&self, contents_bytes: u32) -> SizeClass {
        let above_least = (contents_bytes + HANDLE_BYTES).saturating_sub(LEAST_BYTES);
        let step = above_least.div_ceil(self.page_bytes / STEPS_IN_PAGE) as usize;
        self.class(self.by_step[step.min(self.by_step.len() - 1)])
    }

    /// The class of pages whose words are all equal.
    pub(super) fn empty(&self) -> SizeClass {
        self.classes[self.classes.len() - 1]
    }

    /// The class with an index.
    pub(super) fn class(&self, index: u16) -> SizeClass {
        self.classes[usize::from(index)]
    }
}

/// The length of a chain of pages that leaves the least waste behind its last object. The shortest
/// of equals.
fn chain_pages(page_bytes: u32, object_bytes: u32, most_pages: u32) -> u32 {
    if object_bytes.is_power_of_two() {
        return 1;
    }
    (1..=most_pages).min_by_key(|pages| pages * page_bytes % object_bytes).expect("one page or more")
}

/// The memory that compressed pages take: objects by class, and the pages that they come to.
///
/// Objects are packed as the kernel's compaction (`zs_compact`) leaves them. Between compactions, a
/// pool whose objects come and go takes more.
#[derive(Debug)]
pub(super) struct PoolMemory {
    /// By index of the class.
    objects: Vec<usize>,
    pages: usize,
}

impl PoolMemory {
    pub(super) fn new(classes: &SizeClasses) -> Self {
        Self { objects: vec![0; classes.classes.len()], pages: 0 }
    }

    /// Pages that all objects take.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Pages with one more object.
    pub(super) fn pages_with(&self, class: SizeClass) -> usize {
        let objects = self.objects[usize::from(class.index)];
        self.pages - class.pages_of(objects) + class.pages_of(objects + 1)
    }

    /// One more object.
    pub(super) fn add(&mut self, class: SizeClass) {
        self.pages = self.pages_with(class);
        self.objects[usize::from(class.index)] += 1;
    }

    /// One object less.
    pub(super) fn remove(&mut self, class: SizeClass) {
        let objects = &mut self.objects[usize::from(class.index)];
        self.pages -= class.pages_of(*objects);
        *objects -= 1;
        self.pages += class.pages_of(*objects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in the kernel's documentation: by the most pages of a zspage, the largest object
    /// that is not huge. Its numbers of classes beyond 5 pages are those of older kernels, which
    /// chose chains by whole percents of waste.
    #[test]
    fn classes_are_those_of_the_kernels_documentation() {
        let largest_object = |most_pages| {
            let classes = SizeClasses::with_chains(4096, most_pages);
            assert_eq!(classes.by_step.len(), 255);
            let is_shared = |bytes: &u32| !classes.class_of(bytes - HANDLE_BYTES).is_huge();
            (HANDLE_BYTES..=4096).rev().find(is_shared).unwrap()
        };
        let largest = (4..=16).map(largest_object).collect::<Vec<_>>();
        let documented = [3264, 3408, 3504, 3584, 3632, 3680, 3712, 3744, 3776, 3792, 3808, 3840, 3840];
        assert_eq!(largest, documented);
        let number = |most_pages| SizeClasses::with_chains(4096, most_pages).classes.len() - 1;
        assert_eq!([4, 5].map(number), [69, 86]);
    }

    /// From the same page: with chains of 4 pages, objects of 1568 bytes go to the class of 1632,
    /// where 13 of them take 6 pages. Longer chains give them one of 5 pages.
    #[test]
    fn merged_classes_waste_what_longer_chains_do_not() {
        let short = SizeClasses::with_chains(4096, 4).class_of(1568 - HANDLE_BYTES);
        assert_eq!((short.pages_of(13), short.objects_in(6)), (6, 15));
        let long = SizeClasses::new(4096).class_of(1568 - HANDLE_BYTES);
        assert_eq!((long.pages_of(13), long.objects_in(6)), (5, 13));
    }

    #[test]
    fn an_object_of_any_size_has_a_class_that_it_fits_in() {
        for page_bytes in [4096, 16_384, 65_536] {
            let classes = SizeClasses::new(page_bytes);
            for bytes in 1..=page_bytes {
                let class = classes.class_of(bytes);
                let zspage_bytes = class.zspage_pages * page_bytes as usize;
                let room_bytes = zspage_bytes / class.zspage_objects;
                assert!(
                    class.is_huge() || room_bytes >= (bytes + HANDLE_BYTES) as usize,
                    "{bytes}: {class:?}"
                );
            }
            assert!(classes.class_of(page_bytes).is_huge());
        }
        let classes = SizeClasses::new(4096);
        assert!(!classes.class_of(3624).is_huge() && classes.class_of(3625).is_huge());
    }

    #[test]
    fn memory_is_that_of_the_objects_in_it() {
        let classes = SizeClasses::new(4096);
        let (half, third) = (classes.class_of(2040), classes.class_of(1352));
        let mut memory = PoolMemory::new(&classes);
        for (class, pages) in [(half, 1), (half, 1), (half, 2), (third, 3), (third, 3)] {
            assert_eq!(memory.pages_with(class), pages);
            memory.add(class);
            assert_eq!(memory.pages(), pages);
        }
        for (class, pages) in [(third, 3), (third, 2), (half, 1), (half, 1), (half, 0)] {
            memory.remove(class);
            assert_eq!(memory.pages(), pages);
        }
        memory.add(classes.empty());
        assert_eq!(memory.pages(), 0);
    }
}
