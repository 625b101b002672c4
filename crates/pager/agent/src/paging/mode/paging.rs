//! A program that is paged: it has a limit of its own, and its agent has the policy.

use crate::control::add;
use crate::paging::evict::lower_pool;
use crate::paging::faults;
use crate::paging::lifecycle::set_out;
use crate::paging::manage::begin_to_page;
use crate::paging::pager::{Mode, Pager};
use crate::paging::reclaim::reclaim;
use crate::paging::resize;
use crate::store::pool::moment;
use sweephand_policy::PageId;

/// The program keeps at least one part in this many of the memory, whatever else takes memory.
const LEAST_ROOM: usize = 8;

/// The program is paged.
pub(crate) struct Paging;

impl Mode for Paging {
    /// If the least that the program keeps exceeds the limit, the cgroup enforces it.
    fn room(&self, pager: &Pager) -> usize {
        let budget = pager.control.order.budget_pages();
        budget.saturating_sub(pager.apart_pages()).max(budget / LEAST_ROOM)
    }

    fn begin_to_manage(&self, pager: &mut Pager, ranges: &[(usize, usize)]) {
        begin_to_page(pager, ranges);
    }

    fn make_room(&self, pager: &mut Pager, pages: usize) {
        reclaim(pager, pages);
    }

    fn in_child(&self, pager: &mut Pager) {
        if let Some(split) = pager.disk.split() {
            split.begin_in_child(moment());
        }
    }

    fn on_fault(&self, pager: &mut Pager, address: usize, _is_write: bool) {
        if let Some(split) = pager.disk.split() {
            split.faulted();
        }
        faults::answer(pager, address);
    }

    fn on_arrival(&self, pager: &mut Pager, page: PageId, is_asked: bool) {
        set_out(pager, page, is_asked);
    }

    /// Makes room for the next window that is read ahead. Before the program has less than the
    /// least that it keeps, compressed memory gives way.
    fn between_faults(&self, pager: &mut Pager) {
        let budget = pager.control.order.budget_pages();
        let missing = (pager.apart_pages() + budget / LEAST_ROOM).saturating_sub(budget);
        let lowered = lower_pool(pager, missing);
        add(&pager.control.counters.pool_lowered_pages, lowered as u64);
        if pager.memory.managed && missing == 0 {
            resize::follow_split(pager, budget / LEAST_ROOM);
        }
        let pages = if pager.memory.managed { pager.disk.ahead.latest_window() } else { 0 };
        reclaim(pager, pages);
    }
}
