//! Compressed memory that is as large as pays: it follows what `store::split` says, 16 pages of
//! memory at a time, which may hold some hundred compressed pages. So no thread waits for more than
//! that, and the sum of pages as they are and of compressed memory stays the same.

use crate::control::add;
use crate::paging::evict::{lower_pool, raise_pool};
use crate::paging::pager::Pager;
use crate::store::pool::{Course, moment};

/// The pool changes by one part in this many of a batch at a time.
const STEPS_A_BATCH: usize = 8;

/// Goes on towards the size that the pool should have, if anything says which. The program keeps
/// `least_room` pages.
pub(crate) fn follow_split(pager: &mut Pager, least_room: usize) {
    let room = pager.room();
    let step = (pager.disk.staging.batch_pages() / STEPS_A_BATCH).max(1);
    let Some(pool) = pager.disk.pool.as_mut() else { return };
    let present = pool.pages();
    let memory = room + present;
    let Some(split) = &mut pool.split else { return };
    if split.is_due(memory) {
        split.decide(moment(), memory);
    }
    let wanted = split.pages(memory);
    #[cfg(test)]
    let wanted = crate::simulation::pool_pages(wanted, pool.most_pages());
    let wanted = wanted.min(pool.most_pages());
    // Memory grows and shrinks by a few pages all the time, and with it what is wanted of it.
    let is_near = present.abs_diff(wanted) < step && wanted > 0;
    let course = match pool.course {
        Course::Upward if wanted > present => Course::Upward,
        Course::Downward if wanted < present => Course::Downward,
        _ if is_near || wanted == present => Course::Level,
        _ if wanted > present => Course::Upward,
        _ => Course::Downward,
    };
    if course != pool.course && course != Course::Level {
        add(&pager.control.counters.pool_changes, 1);
    }
    pool.course = course;
    match course {
        Course::Level => {}
        Course::Upward if room < least_room + step => {}
        Course::Upward => raise_pool(pager, step.min(wanted - present)),
        Course::Downward => {
            lower_pool(pager, step.min(present - wanted));
            pager.look();
        }
    }
}
