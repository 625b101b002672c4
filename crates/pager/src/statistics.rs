//! The counts of a run. `docs/pager.md` explains where each number comes from.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use sweephand_pager_interface::control::Counters;
use sweephand_pager_interface::spec::LiveSpec;
use sweephand_process::cgroup::CgroupCounts;
use sweephand_process::usage::Usage;
use sweephand_process::zram::ZramCounts;

/// The counts of a run, over all processes of the program. A count is `None` if it is not known.
///
/// It has more fields than other structs because each is a count that is written out under its own
/// name, in this order.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The policy, as typed; `kernel` for the kernel's own in a cgroup; `native` for a program with
    /// all memory.
    pub policy: String,
    /// How pages were taken from the program: `anon` by the pager, `swap` by the kernel as the
    /// policy chose.
    pub backend: Option<String>,
    /// Where reference bits come from: `hardware` (the processor's accessed bits), `rwp` (the
    /// kernel's read-write protection), `software` (pages are unmapped to see whether they are in
    /// use), with the reason if hardware bits cannot be had, or `none` (no process began to page).
    pub reference_bits: Option<String>,
    /// How the backing store was read and written: `io_uring`, or `system calls`.
    pub io: Option<String>,
    /// Memory of each process of the program, including the pager's own.
    pub memory_limit_bytes: Option<u64>,
    /// Memory of each process for everything that counts, including page tables and other memory of
    /// the kernel. Under the kernel's paging: the memory of all processes together.
    pub budget_bytes: Option<u64>,
    /// Time from start to end.
    pub wall_ns: u64,
    /// Processor time in user mode, of the program and of the pager in it.
    pub user_ns: u64,
    /// Processor time in the kernel, of the program and of the pager in it.
    pub sys_ns: u64,
    /// Faults that the pager answered, except rescues. Under the kernel's paging: all faults that
    /// the kernel counts, minor and major.
    pub faults: u64,
    /// Faults on pages that were never touched before or that the program has dropped.
    pub zero_fill_faults: Option<u64>,
    /// Faults on pages that had been evicted. Under the kernel's paging: pages that came back from
    /// the swap file.
    pub refaults: Option<u64>,
    /// Refaults on pages that were still on their way to the store, so that no read was needed.
    pub refaults_in_flight: Option<u64>,
    /// Faults on pages that the pager unmapped only to see whether they are in use.
    pub rescues: Option<u64>,
    /// Pages evicted.
    pub evictions: Option<u64>,
    /// With the swap backend: pages that the kernel paged out by itself although the policy kept
    /// them, as far as the director has seen.
    pub overruled_pages: Option<u64>,
    /// With the swap backend: how long the policy has chosen the pages that go. In the rest of the
    /// time the kernel did; until memory was nearly full, nobody did.
    pub directed_ns: Option<u64>,
    /// With the swap backend, if no policy is named: what a read of a page took where pages go,
    /// before the program began. The lower quartile of some single reads.
    pub store_read_ns: Option<u64>,
    /// Pages read from the backing store.
    pub pages_read: Option<u64>,
    /// Pages that came in although no fault had asked for them: along a stream, or around a fault.
    pub unasked_pages: Option<u64>,
    /// Those of them that left without having been used. Under software reference bits that is not
    /// known, and 0.
    pub unused_pages: Option<u64>,
    /// Pages written to the backing store.
    pub pages_written: Option<u64>,
    /// Pages evicted without a write, because the backing store has their contents.
    pub clean_evictions: Option<u64>,
    /// The part of the memory for evicted pages that are compressed (`--compress`), or the most
    /// that it may be under `--compress auto`: of each process or, under the kernel's paging, of
    /// all together. Without one, the counts of it are `None`.
    pub pool_limit_bytes: Option<u64>,
    /// Pages that were compressed when they were evicted, and stayed in memory.
    pub pool_puts: Option<u64>,
    /// Refaults that found the page there. Under the kernel's paging: pages that came from there,
    /// those that were read ahead included.
    pub pool_hits: Option<u64>,
    /// Pages that the kernel kept whole in its compressed memory, because they do not become
    /// smaller.
    pub pool_whole_pages: Option<u64>,
    /// Pages that went to the backing store because they do not compress to three quarters.
    pub pool_refused: Option<u64>,
    /// Pages that went to the backing store because too many compressed ones would have had to go.
    pub pool_full: Option<u64>,
    /// Compressed pages that were written to the backing store to make room for others.
    pub pool_written_back: Option<u64>,
    /// Compressed pages that made room without a write, because the backing store has their
    /// contents.
    pub pool_turned_out_clean: Option<u64>,
    /// Bytes that compressed pages took at the end, in the process that reported last.
    pub pool_bytes: Option<u64>,
    /// Most bytes that compressed pages of a process took, or those of all under the kernel.
    pub peak_pool_bytes: Option<u64>,
    /// The part of the memory for compressed pages at the end, in the process that reported last.
    pub pool_size_bytes: Option<u64>,
    /// The largest that this part was in a process.
    pub peak_pool_size_bytes: Option<u64>,
    /// How often it has begun to become larger, or smaller, because that pays (`--compress auto`).
    /// Under the kernel: how often the use of the zram device has changed.
    pub pool_changes: Option<u64>,
    /// Pages of memory that compressed memory has given up because other memory of the process
    /// needed the room.
    pub pool_lowered_pages: Option<u64>,
    /// Processes that did without compressed memory, because there was no address space for it.
    pub pools_given_up: Option<u64>,
    /// Largest number of resident pages of a process. The pager does not count while a program fits
    /// its memory. If that is all the time, and under the kernel's paging, this is the kernel's own
    /// figure, which includes files.
    pub peak_resident_pages: u64,
    /// Largest number of pages that the policy of a process had: the frames for a simulation to
    /// compare with.
    pub peak_policy_pages: Option<u64>,
    /// Largest number of pages that the pager needed for itself in a process.
    pub peak_pager_pages: Option<u64>,
    /// Largest number of pages of a process and its pager together; 0 while everything fits.
    pub peak_memory_pages: Option<u64>,
    /// Allocations of 40 KiB and more that the policy knew of; 0 if it does not distinguish them.
    pub objects: Option<u64>,
    /// Bytes of the pager's arrays for each page of the program that it knows; 0 while everything
    /// fits.
    pub bookkeeping_bytes_per_page: Option<f64>,
    /// Largest number of pages of a process that could not be paged out.
    pub peak_pinned_pages: Option<u64>,
    /// List entries that the policy's hands looked at.
    pub hand_steps: Option<u64>,
    /// The policy that this one follows, under `auto`: at the end, in the process that reported
    /// last.
    pub leader: Option<String>,
    /// How often another policy has taken the lead, under `auto`.
    pub leader_changes: Option<u64>,
    /// Processes of the program that had a pager.
    pub processes: Option<u64>,
    /// Programs that processes of the program became (execve) and that began without a pager:
    /// statically linked or setuid programs, and programs with an environment without LD_PRELOAD.
    pub unpaged_programs: Option<u64>,
    /// The program's exit status; 128 plus the signal's number if a signal ended it.
    pub exit_status: i32,
    /// What the kernel counted for the run's cgroup.
    #[serde(flatten)]
    pub cgroup: CgroupCounts,
    /// Faults that waited for a disk, by the kernel's count. `None` under the pager: the kernel's
    /// count has no meaning there.
    pub major_faults: Option<u64>,
}

impl Statistics {
    /// The counts of a pager until now.
    pub(crate) fn new(counters: &Counters, policy: &str, limit_pages: u64, wall: Duration) -> Self {
        let mut statistics = Self {
            policy: policy.to_string(),
            memory_limit_bytes: Some(limit_pages * crate::PAGE_BYTES),
            wall_ns: wall.as_nanos() as u64,
            faults: counters.faults.load(Relaxed),
            zero_fill_faults: Some(counters.zero_fill_faults.load(Relaxed)),
            refaults: Some(counters.refaults.load(Relaxed)),
            refaults_in_flight: Some(counters.refaults_in_flight.load(Relaxed)),
            rescues: Some(counters.rescues.load(Relaxed)),
            evictions: Some(counters.evictions.load(Relaxed)),
            pages_read: Some(counters.pages_read.load(Relaxed)),
            pages_written: Some(counters.pages_written.load(Relaxed)),
            clean_evictions: Some(counters.clean_evictions.load(Relaxed)),
            unasked_pages: Some(counters.unasked_pages.load(Relaxed)),
            unused_pages: Some(counters.unused_pages.load(Relaxed)),
            peak_resident_pages: counters.peak_resident_pages.load(Relaxed),
            peak_policy_pages: Some(counters.peak_policy_pages.load(Relaxed)),
            peak_pager_pages: Some(counters.peak_own_pages.load(Relaxed)),
            peak_memory_pages: Some(counters.peak_memory_pages.load(Relaxed)),
            objects: Some(counters.objects.load(Relaxed)),
            bookkeeping_bytes_per_page: Some(bytes_per_page(counters)),
            peak_pinned_pages: Some(counters.peak_pinned_pages.load(Relaxed)),
            hand_steps: Some(counters.hand_steps.load(Relaxed)),
            processes: Some(counters.agents.load(Relaxed)),
            io: Some(if counters.rings.load(Relaxed) > 0 { "io_uring" } else { "system calls" }.to_string()),
            unpaged_programs: Some(unpaged_programs(counters)),
            ..Self::default()
        };
        if let Some(expert) = counters.leader.load(Relaxed).checked_sub(1) {
            let changes = counters.leader_changes.load(Relaxed);
            statistics.set_leader(policy, expert as usize, changes);
        }
        statistics
    }

    /// The expert that the policy follows, by its place, and how often another has taken the lead.
    pub(crate) fn set_leader(&mut self, policy: &str, expert: usize, changes: u64) {
        let spec = LiveSpec::parse(policy).ok();
        self.leader = spec.as_ref().and_then(|spec| spec.expert(expert)).map(str::to_string);
        self.leader_changes = Some(changes);
    }

    /// The counts of compressed memory, if there is a part of the memory for it.
    pub(crate) fn set_pool(&mut self, counters: &Counters, limit_bytes: u64) {
        if limit_bytes == 0 {
            return;
        }
        self.pool_limit_bytes = Some(limit_bytes);
        let bytes = |pages: &AtomicU64| Some(pages.load(Relaxed) * crate::PAGE_BYTES);
        self.pool_size_bytes = bytes(&counters.pool_pages);
        self.peak_pool_size_bytes = bytes(&counters.peak_pool_pages);
        for (field, counter) in [
            (&mut self.pool_puts, &counters.pool_puts),
            (&mut self.pool_hits, &counters.pool_hits),
            (&mut self.pool_refused, &counters.pool_refused),
            (&mut self.pool_full, &counters.pool_full),
            (&mut self.pool_written_back, &counters.pool_written_back),
            (&mut self.pool_turned_out_clean, &counters.pool_turned_out_clean),
            (&mut self.pool_bytes, &counters.pool_bytes),
            (&mut self.peak_pool_bytes, &counters.peak_pool_bytes),
            (&mut self.pool_changes, &counters.pool_changes),
            (&mut self.pool_lowered_pages, &counters.pool_lowered_pages),
            (&mut self.pools_given_up, &counters.pools_given_up),
        ] {
            *field = Some(counter.load(Relaxed));
        }
    }

    /// The counts of a zram device that should take a part of the memory. What it has written and
    /// read did not come to the disk.
    pub(crate) fn set_zram(&mut self, counts: ZramCounts, limit_bytes: u64) {
        self.pool_limit_bytes = Some(limit_bytes);
        self.pool_puts = Some(counts.pages_written);
        self.pool_hits = Some(counts.pages_read);
        self.pool_whole_pages = Some(counts.whole_pages);
        self.peak_pool_bytes = Some(counts.peak_bytes);
        for (all, of_device) in
            [(&mut self.pages_written, counts.pages_written), (&mut self.pages_read, counts.pages_read)]
        {
            *all = all.map(|all| all.saturating_sub(of_device));
        }
    }

    /// The counts of a program without a pager, before any is known.
    pub(crate) fn of_kernel(policy: &str, limit_bytes: Option<u64>, wall: Duration) -> Self {
        Self {
            policy: policy.to_string(),
            memory_limit_bytes: limit_bytes,
            wall_ns: wall.as_nanos() as u64,
            ..Self::default()
        }
    }

    /// Adds what is known when the program has ended.
    pub(crate) fn ended(&mut self, status: ExitStatus, usage: &Usage) {
        self.user_ns = usage.user.as_nanos() as u64;
        self.sys_ns = usage.sys.as_nanos() as u64;
        self.exit_status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        if self.peak_resident_pages == 0 {
            self.peak_resident_pages = usage.most_resident_pages;
        }
    }
}

/// The state of a run at some moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Resident pages now. Of a paged program: in the process that reported last. Under the
    /// kernel's paging: the memory of its cgroup. Of tasks: all of them.
    pub resident_pages: u64,
    /// Faults until now.
    pub faults: u64,
    /// Pages read from the backing store until now.
    pub pages_read: u64,
    /// Pages written to the backing store until now.
    pub pages_written: u64,
    /// For tasks: how many are active, and how many have not ended.
    pub tasks: Option<(usize, usize)>,
    /// The policy that this one follows, under `auto`.
    pub leader: Option<String>,
}

impl Snapshot {
    pub(crate) fn new(statistics: &Statistics, resident_pages: u64) -> Self {
        Self {
            resident_pages,
            faults: statistics.faults,
            pages_read: statistics.pages_read.unwrap_or_default(),
            pages_written: statistics.pages_written.unwrap_or_default(),
            tasks: None,
            leader: statistics.leader.clone(),
        }
    }
}

/// Bytes of bookkeeping for each page, rounded to tenths.
fn bytes_per_page(counters: &Counters) -> f64 {
    let pages = counters.peak_managed_pages.load(Relaxed).max(1);
    (counters.peak_bookkeeping_bytes.load(Relaxed) as f64 / pages as f64 * 10.0).round() / 10.0
}

fn unpaged_programs(counters: &Counters) -> u64 {
    counters.execs.load(Relaxed).saturating_add(1).saturating_sub(counters.begun.load(Relaxed).max(1))
}
