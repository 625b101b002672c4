//! What follows the evictions and faults of one simulation down to the pools and the disk.

use super::compressed_sizes::CompressedSizes;
use super::counts::TierCounts;
use super::every_pool::EveryPool;
use super::kind::TierKind;
use super::limits::Limits;
use super::pool::Pool;
use super::size_classes::{SizeClass, SizeClasses};
use crate::{Observer, Outcome};
use std::sync::{Arc, Mutex, PoisonError};
use sweephand_policy::PageId;
use sweephand_policy::collections::PageMap;

/// Where a page is, as far as all pools agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    /// Resident, or without contents.
    #[default]
    Above,
    /// Nowhere: its words are all equal.
    SameFilled,
    /// On the disk, whatever the pool.
    Disk,
    /// In the pool, or on the disk: that depends on the pool.
    Below,
}

/// What becomes of a page that is evicted.
enum Fate {
    SameFilled,
    Rejected,
    Stored(SizeClass),
}

/// Follows one simulation for pools of several sizes.
pub(super) struct TierObserver {
    kind: TierKind,
    sizes: Arc<dyn CompressedSizes>,
    classes: Arc<SizeClasses>,
    /// What each pool may hold.
    limits: Vec<Limits>,
    pools: Pools,
    place: PageMap<Place>,
    /// What is the same for all pools. `disk_faults` are those on pages that no pool took, and
    /// `peak_stored_pages` are the most same-filled ones.
    common: TierCounts,
    /// Evicted pages whose words are all equal, now.
    same_filled: u64,
    /// All evictions, and all faults on pages that had been evicted: for a pool of no pages.
    evictions: u64,
    refaults: u64,
    /// Where the counts of each pool go in the end.
    told: Arc<Mutex<Vec<TierCounts>>>,
}

/// The pools below a simulation.
enum Pools {
    Every(Box<EveryPool>),
    Each(Vec<Pool>),
}

impl TierObserver {
    pub(super) fn new(
        kind: TierKind,
        sizes: Arc<dyn CompressedSizes>,
        classes: Arc<SizeClasses>,
        limits: Vec<Limits>,
        told: Arc<Mutex<Vec<TierCounts>>>,
    ) -> Self {
        let pools = match only_class(kind, &*sizes, &classes) {
            Some(class) => Pools::Every(Box::new(EveryPool::new(kind, class))),
            None => {
                let pool = |&limits: &Limits| Pool::new(kind, limits, Arc::clone(&classes));
                Pools::Each(limits.iter().map(pool).collect())
            }
        };
        Self {
            kind,
            sizes,
            classes,
            limits,
            pools,
            place: PageMap::new(),
            common: TierCounts::default(),
            same_filled: 0,
            evictions: 0,
            refaults: 0,
            told,
        }
    }

    /// The same with one pool, which another limits.
    pub(super) fn with_only_pool(
        kind: TierKind,
        sizes: Arc<dyn CompressedSizes>,
        classes: Arc<SizeClasses>,
        limits: Limits,
        told: Arc<Mutex<Vec<TierCounts>>>,
    ) -> Self {
        let pools = Pools::Each(vec![Pool::new(kind, limits, Arc::clone(&classes))]);
        Self { pools, ..Self::new(kind, sizes, classes, vec![limits], told) }
    }

    /// The pool of [`TierObserver::with_only_pool`].
    pub(super) fn only_pool(&mut self) -> &mut Pool {
        match &mut self.pools {
            Pools::Each(pools) => &mut pools[0],
            Pools::Every(_) => unreachable!("it was made with one pool"),
        }
    }

    /// The memory that a page takes in a pool, in bytes; a whole page if it goes to the disk.
    pub(super) fn room_bytes(&self, page: PageId) -> usize {
        match self.fate(page) {
            Fate::SameFilled => 0,
            Fate::Rejected => self.classes.page_bytes() as usize,
            Fate::Stored(class) => self.limits[0].room_bytes(class),
        }
    }

    /// A page is evicted while there is no pool.
    pub(super) fn evicted_to_disk(&mut self, page: PageId) {
        self.evictions += 1;
        self.common.turned_away += 1;
        self.place.set(page, Place::Disk);
    }

    fn fate(&self, page: PageId) -> Fate {
        fate(self.kind, self.sizes.bytes(page, self.classes.page_bytes()), &self.classes)
    }

    fn counts(&self, pool: usize) -> TierCounts {
        let limits = &self.limits[pool];
        if limits.pages == 0 {
            let (disk_faults, turned_away) = (self.refaults, self.evictions);
            return TierCounts { disk_faults, turned_away, ..TierCounts::default() };
        }
        let own = match &self.pools {
            Pools::Every(every) => every.counts(limits),
            Pools::Each(pools) => pools[pool].counts(),
        };
        TierCounts {
            same_filled_faults: own.same_filled_faults + self.common.same_filled_faults,
            rejected: self.common.rejected,
            turned_away: own.turned_away + self.common.turned_away,
            compressions: own.compressions + self.common.compressions,
            disk_faults: own.disk_faults + self.common.disk_faults,
            peak_stored_pages: own.peak_stored_pages + self.common.peak_stored_pages,
            ..own
        }
    }

    /// Where a page was that comes back, or whose contents are gone.
    fn take(&mut self, page: PageId) -> Place {
        let place = self.place.get(page);
        if place != Place::Above {
            self.place[page] = Place::Above;
            self.same_filled -= u64::from(place == Place::SameFilled);
        }
        place
    }
}

impl Observer for TierObserver {
    fn evicted(&mut self, page: PageId, _: u64) {
        self.evictions += 1;
        let place = match self.fate(page) {
            Fate::SameFilled => {
                self.same_filled += 1;
                let most = self.common.peak_stored_pages.max(self.same_filled);
                self.common.peak_stored_pages = most;
                Place::SameFilled
            }
            Fate::Rejected => {
                self.common.compressions += 1;
                self.common.rejected += 1;
                Place::Disk
            }
            Fate::Stored(class) => {
                match &mut self.pools {
                    Pools::Every(every) => every.store(page),
                    Pools::Each(pools) => pools.iter_mut().for_each(|pool| pool.store(page, class)),
                }
                Place::Below
            }
        };
        self.place.set(page, place);
    }

    fn fault(&mut self, page: PageId, _: u64) {
        let place = self.take(page);
        self.refaults += u64::from(place != Place::Above);
        match place {
            Place::Above => {}
            Place::SameFilled => self.common.same_filled_faults += 1,
            Place::Disk => self.common.disk_faults += 1,
            Place::Below => match &mut self.pools {
                Pools::Every(every) => every.load(page),
                Pools::Each(pools) => pools.iter_mut().for_each(|pool| pool.load(page)),
            },
        }
    }

    fn dropped(&mut self, page: PageId) {
        if self.take(page) == Place::Below {
            match &mut self.pools {
                Pools::Every(every) => every.forget(page),
                Pools::Each(pools) => pools.iter_mut().for_each(|pool| pool.forget(page)),
            }
        }
    }

    fn report(&self, _: &mut Outcome) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = (0..self.limits.len()).map(|pool| self.counts(pool)).collect();
    }
}

/// What becomes of a page that comes to `bytes` bytes.
fn fate(kind: TierKind, bytes: u32, classes: &SizeClasses) -> Fate {
    match bytes {
        0 if kind.counts_same_filled() => Fate::Stored(classes.empty()),
        0 => Fate::SameFilled,
        bytes if bytes < classes.page_bytes() => Fate::Stored(classes.class_of(bytes)),
        _ if matches!(kind, TierKind::Zram { .. }) => Fate::Stored(classes.class_of(classes.page_bytes())),
        _ => Fate::Rejected,
    }
}

/// The class of all pages that are stored, if one pass can do for pools of all sizes.
fn only_class(kind: TierKind, sizes: &dyn CompressedSizes, classes: &SizeClasses) -> Option<SizeClass> {
    if !matches!(kind, TierKind::Zram { .. } | TierKind::Zswap { accept_percent: 100 }) {
        return None;
    }
    let all = sizes.all_sizes(classes.page_bytes())?;
    let mut stored = all.into_iter().filter_map(|bytes| match fate(kind, bytes, classes) {
        Fate::Stored(class) => Some(class),
        Fate::SameFilled | Fate::Rejected => None,
    });
    let first = stored.next().filter(|class| !class.is_empty())?;
    stored.all(|class| class == first).then_some(first)
}
