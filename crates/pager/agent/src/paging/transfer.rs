//! Transfers between memory and the store: reads, writes, their completion, and what happens when
//! one fails.
//!
//! ```text
//!   start_read:  Stored -> Reading    a batch with frames of the pager; requests to the store
//!   start_write: Writing              a batch of evicted pages; slots; requests to the store
//!   reap         a request is complete. The last request of a batch ends the batch:
//!                read:  Reading -> Resident, or Limbo if no thread waits for it
//!                write: Writing -> Stored
//!   a read that fails    the pages are poisoned: a thread that touches one gets a SIGBUS
//!   a write that fails   ends the run: the store is full, or broken
//!   a request that the kernel gave up, or that a limit of the program stopped, is done again
//! ```
//!
//! A transfer that is under way has a batch of the staging area. The page table says whether a page
//! still belongs to it: the state is `Reading` or `Writing` with this place. If it says anything
//! else, the program has dropped, moved or touched the page meanwhile, and the transfer leaves the
//! page alone.

use crate::control::add;
use crate::kernel::clock;
use crate::kernel::{self, PAGE_BYTES};
use crate::paging::changes::catch_up;
use crate::paging::guards::{look_for_guards, look_for_new_guards};
use crate::paging::lifecycle::came_in;
use crate::paging::pager::Pager;
use crate::process::failure::{abort, leave_message};
use crate::process::own::Retry;
use crate::process::rlimits;
use crate::state::pages::{Flag, State};
use crate::store::backing::{self, Growth, Slot, Store};
use crate::store::disk::Disk;
use crate::store::io::{self, Completion, Direction, Request};
use crate::store::pool::Entry;
use crate::store::staging::{Phase, Staged, Staging, copy_own, drop_pages};

use rustix::fd::AsFd;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use sweephand_pager_interface::readahead::foresees;
use sweephand_policy::PageId;

/// How often a frame may be found in use before the agent copies its contents instead. If a fork
/// shares the frame, it may be in use for good.
const MOST_BUSY_ATTEMPTS: usize = 256;
/// How often the agent tries to put a page back when nothing explains why it fails.
const MOST_ATTEMPTS: usize = 16;

/// What a request is about. It goes with the request and comes back with its completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tag {
    /// The first page's place in the staging area.
    first: Staged,
    /// How many pages of the same batch, from there on.
    pages: u32,
}

impl Tag {
    fn pack(self) -> u64 {
        u64::from(self.first.0) | u64::from(self.pages) << u32::BITS
    }

    fn unpack(word: u64) -> Self {
        Self { first: Staged(word as u32), pages: (word >> u32::BITS) as u32 }
    }

    /// Whether a transfer of these pages may succeed by a system call of the agent's.
    ///
    /// The kernel cancels requests of an io_uring that it has not begun if memory is too short to
    /// start a thread for them. A limit of file sizes that the program sets while a write is under
    /// way stops the write, or cuts it short.
    fn is_worth_another_try(self, phase: Phase, result: Result<u32, Errno>) -> bool {
        match result {
            Err(Errno::CANCELED) => true,
            Err(error) => phase == Phase::Writing && error == Errno::FBIG,
            Ok(_) => phase == Phase::Writing && self.failure(phase, result).is_some(),
        }
    }

    /// How a transfer of these pages has failed, if it has.
    fn failure(self, phase: Phase, result: Result<u32, Errno>) -> Option<Errno> {
        match result {
            Ok(bytes) if bytes as usize == self.pages as usize * PAGE_BYTES => None,
            // A short write means that there is no space left.
            Ok(_) if phase == Phase::Writing => Some(Errno::NOSPC),
            Ok(_) => Some(Errno::IO),
            Err(error) => Some(error),
        }
    }
}

/// Whether a window is read because a thread waits for its first page, or in advance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// A thread waits.
    Now,
    /// No thread waits yet. The page that is wanted first gets the flag `Trigger`.
    Soon,
    /// No thread waits yet: these are neighbours of a page that is being read.
    Around,
}

/// Whether a window may be read. No thread waits for one that is read in advance, so the agent does
/// not wait for staging either.
pub(crate) fn may_read(pager: &Pager, need: Need) -> bool {
    need == Need::Now || pager.disk.staging.count(Phase::Free) >= 2
}

/// Takes a free batch. Waits for one if there is none: ends because each batch in use has requests
/// under way, and the last of them frees it.
pub(crate) fn take_batch(pager: &mut Pager, take: impl Fn(&mut Pager) -> Option<usize>) -> usize {
    loop {
        match take(pager) {
            Some(batch) => return batch,
            None => reap_one(pager),
        }
    }
}

/// Takes a free batch whose first pages have frames of the pager itself.
pub(crate) fn take_filled(pager: &mut Pager, pages: usize) -> usize {
    take_batch(pager, |pager| pager.disk.staging.take_filled(pages, &pager.program.staging_uffd))
}

/// Starts to read the pages at these addresses as far as they are in the store, at most a batch.
/// The caller has made room for them. Returns how many. If the one that is wanted first is not in
/// the store any more, that is none: the others are among them for its sake.
pub(crate) fn start_read(pager: &mut Pager, addresses: &[usize], wanted: usize, need: Need) -> usize {
    let batch = take_filled(pager, addresses.len());
    // While this waited for a batch, others were read, and changes of the program became known.
    let (pages, staging) = (&mut pager.memory.pages, &mut pager.disk.staging);
    // Neighbours are no stream, however many they are.
    let window = if need == Need::Around { 1 } else { pager.disk.ahead.latest_window() };
    if need != Need::Around && !pages.is_stored_at(wanted) {
        return 0;
    }
    staging.batches[batch].slots.clear();
    staging.batches[batch].asked_for = None;
    for &address in addresses {
        let page = pages.find_or_insert(address);
        let State::Stored(slot) = pages.state(page) else { continue };
        staging.batches[batch].slots.push(slot);
        let place = staging.push(batch, page);
        pages.set(page, State::Reading(place));
        if let Some(pool) = &mut pager.disk.pool {
            pool.came_back(page, need == Need::Now && address == wanted);
            pool.came_in(page, window);
        }
        match need {
            Need::Now if address == wanted => {
                staging.batches[batch].asked_for = Some(staging.batches[batch].pages.len() - 1);
            }
            Need::Soon if address == wanted => {
                pages.mark(page, Flag::Trigger, true);
            }
            Need::Now | Need::Soon | Need::Around => {}
        }
    }
    let count = staging.batches[batch].pages.len();
    if count == 0 {
        return 0;
    }
    pager.disk.incoming += count;
    pager.disk.staging.batches[batch].phase = Phase::Reading;
    begin_wait(&mut pager.disk, batch, need, foresees(window));
    start(pager, Direction::Read, batch);
    add(&pager.control.counters.pages_read, count as u64);
    count
}

/// A batch is about to be read.
fn begin_wait(disk: &mut Disk, batch: usize, need: Need, is_stream: bool) {
    let is_measured = disk.split().is_some();
    let batch = &mut disk.staging.batches[batch];
    batch.is_awaited = need == Need::Now;
    batch.is_stream = is_stream;
    batch.awaited_ns = if batch.is_awaited && is_measured { clock::now_ns() } else { 0 };
    let pages = batch.pages.len();
    if let Some(split) = disk.split().filter(|_| is_stream) {
        split.streamed(pages);
    }
}

/// A batch has been read.
fn end_wait(disk: &mut Disk, batch: usize) {
    let batch = &mut disk.staging.batches[batch];
    let (began, is_stream) = (core::mem::take(&mut batch.awaited_ns), batch.is_stream);
    if let Some(split) = disk.split().filter(|_| began > 0) {
        split.waited(clock::now_ns().saturating_sub(began), is_stream);
    }
}

/// Whether a thread waits for a page that is being read.
pub(crate) fn is_read_awaited(pager: &Pager) -> bool {
    let mut batches = pager.disk.staging.batches.iter();
    batches.any(|batch| batch.phase == Phase::Reading && batch.is_awaited)
}

/// A thread waits for a page that is being read at this place.
pub(crate) fn is_needed(pager: &mut Pager, place: Staged) {
    let (batch, _) = pager.disk.staging.batch_of(place);
    let is_measured = pager.disk.split().is_some();
    let batch = &mut pager.disk.staging.batches[batch];
    batch.is_awaited = true;
    // For neighbours, the wait has begun with another read.
    if is_measured && batch.is_stream && batch.awaited_ns == 0 {
        batch.awaited_ns = clock::now_ns();
    }
}

/// Starts to write a batch of evicted pages to the store.
pub(crate) fn start_write(pager: &mut Pager, batch: usize) {
    let entry = &mut pager.disk.staging.batches[batch];
    entry.slots.clear();
    let growth = pager.disk.store.allocate(entry.pages.len(), &mut entry.slots);
    if let Some(growth) = growth {
        grow_store(pager, growth);
    }
    start(pager, Direction::Write, batch);
}

/// Starts to read or write the pages of a batch, from or to their slots. Neighbouring slots make
/// one request.
fn start(pager: &mut Pager, direction: Direction, batch: usize) {
    let slots = core::mem::take(&mut pager.disk.staging.batches[batch].slots);
    let is_now = direction == Direction::Write && rlimits::are_files_limited();
    let mut index = 0;
    for run in slots.chunk_by(|one, other| one + 1 == *other) {
        let tag = Tag { first: pager.disk.staging.place(batch, index), pages: run.len() as u32 };
        pager.disk.staging.batches[batch].requests += 1;
        request(&mut pager.disk, direction, tag, run[0], is_now);
        index += run.len();
    }
    pager.disk.staging.batches[batch].slots = slots;
    pager.disk.io.submit();
}

/// Asks for a transfer of neighbouring pages, from or to neighbouring slots. `is_now`: by a system
/// call, before anything else happens.
fn request(disk: &mut Disk, direction: Direction, tag: Tag, slot: Slot, is_now: bool) {
    let request = request_for(&disk.store, &disk.staging, direction, tag, slot);
    // SAFETY: the batch keeps these pages for the request until its completion is handled.
    unsafe {
        match is_now {
            true => disk.io.put_aside(Completion { tag: request.tag, result: transfer_now(&request) }),
            false => disk.io.request(&request),
        }
    }
}

fn request_for<'a>(
    store: &'a Store,
    staging: &Staging,
    direction: Direction,
    tag: Tag,
    slot: Slot,
) -> Request<'a> {
    let (file, first) = backing::location(slot);
    let (batch, index) = staging.batch_of(tag.first);
    Request {
        direction,
        file: store.file(file).as_fd(),
        offset: first * PAGE_BYTES as u64,
        address: staging.address(batch, index),
        length: (tag.pages as usize * PAGE_BYTES) as u32,
        tag: tag.pack(),
    }
}

/// Does a request by a system call, whatever size of file the program may write.
///
/// # Safety
/// As for [`Io::request`](io::Io::request).
unsafe fn transfer_now(request: &Request) -> Result<u32, Errno> {
    // SAFETY: as the caller promises.
    rlimits::at_any_file_size(|| unsafe { io::transfer(request) })
}

/// Reserves disk space for the slots by which the store has grown. So the agent finds a full disk
/// before pages are on their way.
fn grow_store(pager: &mut Pager, Growth { file, from, least, wished }: Growth) {
    let reserve = |to: usize| {
        let [offset, end] = [from, to].map(|slots| slots as u64 * PAGE_BYTES as u64);
        let store = pager.disk.store.file(file).as_fd();
        let grow = || kernel::fallocate(store, FallocateFlags::empty(), offset, end - offset);
        match rlimits::at_any_file_size(grow) {
            // Some file systems cannot reserve space. If there is none, writing will fail.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(to),
            result => result.map(|()| to),
        }
    };
    match reserve(wished).or_else(|_| reserve(least)) {
        Ok(slots) => pager.disk.store.grown(file, slots),
        Err(error) => store_failed(pager, "grown", error),
    }
}

/// Ends the run, because the store cannot be written to any more.
fn store_failed(pager: &Pager, what: &str, error: Errno) -> ! {
    let directory = pager.control.order.directory.as_str();
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => abort(format_args!(
            "{directory}: the backing store is full; make space, or name another place with --swap"
        )),
        _ => abort(format_args!("{directory}: the backing store cannot be {what}: {error}")),
    }
}

/// Handles the requests that are complete. Ends because handling one makes no new completion.
pub(crate) fn reap(pager: &mut Pager) {
    while let Some(completion) = pager.disk.io.reap(false) {
        complete(pager, completion);
    }
}

/// Waits until the store has completed a request.
pub(crate) fn reap_one(pager: &mut Pager) {
    assert!(pager.disk.staging.has_requests(), "the pager waits for the store, which has nothing to do");
    pager.disk.io.submit();
    if let Some(completion) = pager.disk.io.reap(true) {
        complete(pager, completion);
    }
    reap(pager);
}

/// Waits until nothing is under way. Ends because no transfer is started meanwhile.
pub(crate) fn reap_all(pager: &mut Pager) {
    while pager.disk.staging.count(Phase::Free) < pager.disk.staging.batches.len() {
        reap_one(pager);
    }
}

fn complete(pager: &mut Pager, completion: Completion) {
    let tag = Tag::unpack(completion.tag);
    let (batch, _) = pager.disk.staging.batch_of(tag.first);
    let phase = pager.disk.staging.batches[batch].phase;
    let result = match tag.is_worth_another_try(phase, completion.result) {
        true => do_again(pager, tag, phase),
        false => completion.result,
    };
    match tag.failure(phase, result) {
        None => {}
        Some(error) if phase == Phase::Reading => poison(pager, tag, error),
        Some(error) => store_failed(pager, "written", error),
    }
    pager.disk.staging.batches[batch].requests -= 1;
    if pager.disk.staging.batches[batch].requests > 0 {
        return;
    }
    match phase {
        Phase::Reading => end_read(pager, batch),
        Phase::Writing => end_write(pager, batch),
        Phase::Free => unreachable!("a request of a free batch"),
    }
}

/// Does a request again, by a system call. If that fails, too, its result says why. If the program
/// has dropped all pages of a read meanwhile, their slots are free and the file may be closed: then
/// there is nothing to do.
fn do_again(pager: &mut Pager, tag: Tag, phase: Phase) -> Result<u32, Errno> {
    let (batch, first) = pager.disk.staging.batch_of(tag.first);
    let mut places = first..first + tag.pages as usize;
    if phase == Phase::Reading && !places.any(|index| is_being_read(pager, batch, index)) {
        return Ok(tag.pages * PAGE_BYTES as u32);
    }
    let direction = if phase == Phase::Reading { Direction::Read } else { Direction::Write };
    let disk = &pager.disk;
    let slot = disk.staging.slot_of(tag.first);
    let request = request_for(&disk.store, &disk.staging, direction, tag, slot);
    // SAFETY: the batch keeps these pages until its last request is handled, and this is one.
    unsafe { transfer_now(&request) }
}

/// Handles a batch that has been written. Its pages are in the store, except for those that came
/// back meanwhile or were dropped.
fn end_write(pager: &mut Pager, batch: usize) {
    let count = pager.disk.staging.batches[batch].pages.len();
    for index in 0..count {
        let entry = &pager.disk.staging.batches[batch];
        let (page, slot) = (entry.pages[index], entry.slots[index]);
        if pager.memory.pages.state(page) == State::Writing(pager.disk.staging.place(batch, index)) {
            pager.memory.pages.set(page, State::Stored(slot));
        } else {
            pager.disk.store.free(slot);
        }
    }
    // The frames were the program's, and the kernel may still use them: see `staging`.
    drop_pages(pager.disk.staging.address(batch, 0), count);
    pager.disk.staging.release(batch);
}

/// Handles a batch that has been read: puts its pages where they belong.
fn end_read(pager: &mut Pager, batch: usize) {
    end_wait(&mut pager.disk, batch);
    let count = pager.disk.staging.batches[batch].pages.len();
    let [first, last] = [0, count - 1].map(|index| {
        let page = pager.disk.staging.batches[batch].pages[index];
        pager.memory.pages.address(page)
    });
    // If pages were moved meanwhile, this may be anything, and each is looked at when it is put.
    look_for_new_guards(pager, first, last + PAGE_BYTES);
    // The thread that waits goes on while the other pages are put in.
    let asked_for = pager.disk.staging.batches[batch].asked_for;
    if let Some(index) = asked_for {
        while end_read_at(pager, batch, index) == 0 {}
    }
    let mut index = 0;
    while index < count {
        index += if asked_for == Some(index) { 1 } else { end_read_at(pager, batch, index) };
    }
    pager.disk.staging.release(batch);
}

/// Handles pages that have been read, from `index` of a batch on. Returns how many: one at least,
/// except after a change of the address space.
fn end_read_at(pager: &mut Pager, batch: usize, index: usize) -> usize {
    let page = pager.disk.staging.batches[batch].pages[index];
    if !is_being_read(pager, batch, index) {
        // The program has dropped this page while it was read. Its slot is free already.
        pager.program.wake(pager.memory.pages.address(page));
        1
    } else if pager.memory.pages.has(page, Flag::Trigger) {
        leave_trigger(pager, batch, index);
        1
    } else {
        install(pager, batch, index)
    }
}

fn is_being_read(pager: &Pager, batch: usize, index: usize) -> bool {
    let page = pager.disk.staging.batches[batch].pages[index];
    pager.memory.pages.state(page) == State::Reading(pager.disk.staging.place(batch, index))
}

/// Puts a run of pages that have been read, from `first` of a batch on, to their addresses. A page
/// that a fault has asked for is put by itself. Returns how many pages it has put there. The caller
/// has to look at the others again.
fn install(pager: &mut Pager, batch: usize, first: usize) -> usize {
    let pages = &pager.disk.staging.batches[batch].pages;
    let address = pager.memory.pages.address(pages[first]);
    let awaited = pager.disk.staging.batches[batch].asked_for == Some(first);
    let follows = |index: &usize| {
        !awaited
            && is_being_read(pager, batch, *index)
            && !pager.memory.pages.has(pages[*index], Flag::Trigger)
            && pager.memory.pages.address(pages[*index]) == address + (index - first) * PAGE_BYTES
    };
    let end = (first + 1..pages.len()).find(|index| !follows(index)).unwrap_or(pages.len());
    let from = pager.disk.staging.address(batch, first);
    let length = (end - first) * PAGE_BYTES;
    debug_assert!(!pager.program.has_changes());
    // SAFETY: this copies the pages' contents, just read, to where they belong.
    let progress = unsafe { pager.anon.put_in(&pager.program.uffd, address, from, length, awaited) };
    let installed = match progress.error {
        None => progress.bytes / PAGE_BYTES,
        Some(Errno::AGAIN) => {
            catch_up(pager);
            return 0;
        }
        // The program has protected, unmapped or moved pages while they were read, or there is no
        // memory at the moment. Put a single page and handle each error.
        Some(_) => {
            let page = pager.disk.staging.batches[batch].pages[first];
            usize::from(put(pager, page, Source::Staging(from)))
        }
    };
    for index in first..first + installed {
        let entry = &pager.disk.staging.batches[batch];
        let page = entry.pages[index];
        let kept = end_reading(pager, batch, index);
        pager.memory.pages.set(page, State::Resident { kept });
        came_in(pager, page, awaited);
    }
    installed
}

/// Puts the page of a window that will be used first into limbo, since no thread waits for it. When
/// a thread touches it, the agent reads the next window. A thread that came to the page meanwhile
/// is woken and faults again.
fn leave_trigger(pager: &mut Pager, batch: usize, index: usize) {
    let page = pager.disk.staging.batches[batch].pages[index];
    let from = pager.disk.staging.address(batch, index);
    let limbo = pager.limbo(page);
    copy_own(&pager.program.staging_uffd, limbo, from);
    let kept = end_reading(pager, batch, index);
    pager.memory.pages.set(page, State::Limbo { kept });
    pager.memory.pages.mark(page, Flag::Trigger, true);
    came_in(pager, page, false);
    pager.program.wake(pager.memory.pages.address(page));
}

/// A page of a batch has been read. Returns the slot from which it was read if it keeps that. If it
/// is not known later whether the page was written to, it does not, and the slot is freed.
fn end_reading(pager: &mut Pager, batch: usize, index: usize) -> Option<Slot> {
    pager.disk.incoming -= 1;
    let staging = &pager.disk.staging;
    let entry = &staging.batches[batch];
    let (page, slot) = (entry.pages[index], entry.slots[index]);
    let keeps = pager.anon.sums.take(page, staging.address(batch, index));
    if !keeps {
        pager.disk.store.free(slot);
    }
    keeps.then_some(slot)
}

/// Poisons pages that cannot be read. A thread that touches one gets a SIGBUS, and the command
/// reports why. The contents are lost, and the slots are not used again.
fn poison(pager: &mut Pager, tag: Tag, error: Errno) {
    let directory = pager.control.order.directory.as_str();
    leave_message(format_args!(
        "{directory}: the backing store cannot be read: {error}; what was there is lost"
    ));
    let (batch, first) = pager.disk.staging.batch_of(tag.first);
    for index in first..first + tag.pages as usize {
        poison_page(pager, batch, index, error);
    }
}

fn poison_page(pager: &mut Pager, batch: usize, index: usize, error: Errno) {
    let page = pager.disk.staging.batches[batch].pages[index];
    let address = pager.memory.pages.address(page);
    // Ends: the kernel asks for another try only while the program changes its address space.
    while is_being_read(pager, batch, index) {
        match pager.program.uffd.poison(address, PAGE_BYTES) {
            Err(Errno::AGAIN) => catch_up(pager),
            Ok(()) | Err(Errno::NOENT | Errno::EXIST) => break,
            // The kernel has no poison. The program must not read anything else, so the run ends.
            Err(_) => store_failed(pager, "read", error),
        }
    }
    if is_being_read(pager, batch, index) {
        pager.disk.incoming -= 1;
        pager.choice.remove(page);
        pager.memory.pages.set(page, State::Lost);
        pager.memory.has_lost = true;
    }
    pager.program.wake(address);
}

/// Where contents are that go back to the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// In limbo: the frame goes with them if it can.
    Limbo(usize),
    /// In a batch, which is read or written, or on the scratch page.
    Staging(usize),
}

/// Puts a page's contents back to the address where the program expects them. Returns false if the
/// program does not expect them any more, because the page's state has changed. The run ends if
/// anything else prevents this, because the contents must not be lost.
fn put(pager: &mut Pager, page: PageId, source: Source) -> bool {
    let address = pager.memory.pages.address(page);
    let expected = pager.memory.pages.state(page);
    let (mut attempts, mut busy, mut retry) = (0, 0, Retry::new());
    // Ends: AGAIN lasts as long as the program changes its address space, BUSY is counted for a
    // frame in limbo, which alone can be busy, and all other errors are counted.
    loop {
        debug_assert!(!pager.program.has_changes());
        let (anon, program) = (&pager.anon, &pager.program);
        // SAFETY: this puts the page's own contents where they belong.
        let copy = |from| unsafe { anon.put_in(&program.uffd, address, from, PAGE_BYTES, true) };
        let progress = match source {
            // SAFETY: as above.
            Source::Limbo(limbo) => unsafe { program.mover().give(address, limbo, PAGE_BYTES) },
            Source::Staging(from) => copy(from),
        };
        let Some(mut error) = progress.error else { return true };
        busy += usize::from(error == Errno::BUSY);
        if let Source::Limbo(limbo) = source
            && (error == Errno::INVAL || busy > MOST_BUSY_ATTEMPTS)
        {
            // The kernel moves frames only between mappings of the same kind. This one is locked or
            // not writable.
            error = match copy(limbo).error {
                None => {
                    drop_pages(limbo, 1);
                    return true;
                }
                Some(error) => error,
            };
        }
        if error == Errno::NOMEM && retry.wait() {
            continue;
        }
        catch_up(pager);
        if error == Errno::EXIST {
            look_for_guards(pager, address, address + PAGE_BYTES);
        }
        if !pager.memory.is_still(page, address, expected) {
            return false;
        }
        if !matches!(error, Errno::AGAIN | Errno::BUSY) {
            attempts += 1;
            if attempts > MOST_ATTEMPTS {
                abort(format_args!("a page cannot be put back to {address:#x}: {error}"));
            }
        } else if error == Errno::BUSY {
            kernel::sched_yield();
        }
    }
}

/// Maps a page in limbo at its address again. Returns false if the address is not mapped any more.
pub(crate) fn map_from_limbo(pager: &mut Pager, page: PageId) -> bool {
    let address = pager.memory.pages.address(page);
    let kept = pager.memory.pages.state(page).kept();
    let limbo = pager.limbo(page);
    let is_put = put(pager, page, Source::Limbo(limbo));
    match is_put {
        true => pager.memory.pages.set(page, State::Resident { kept }),
        false => pager.program.wake(address),
    }
    is_put
}

/// Takes a page back that is on its way to the store: copies it from its batch, which keeps it
/// until it is written. Then its slot is freed. Returns false if the program does not expect the
/// page any more.
pub(crate) fn take_back(pager: &mut Pager, page: PageId, place: Staged) -> bool {
    let address = pager.memory.pages.address(page);
    let (batch, index) = pager.disk.staging.batch_of(place);
    let from = pager.disk.staging.address(batch, index);
    let is_put = put(pager, page, Source::Staging(from));
    match is_put {
        true => pager.memory.pages.set(page, State::RESIDENT),
        false => pager.program.wake(address),
    }
    is_put
}

/// Takes a page out of the pool: copies it from the scratch page, to which it is decompressed. The
/// entry stays until the program has the page. Returns false if the program does not expect the
/// page any more.
pub(crate) fn take_from_pool(pager: &mut Pager, page: PageId, entry: Entry) -> bool {
    let address = pager.memory.pages.address(page);
    let scratch = pager.disk.staging.scratch();
    pager.disk.pool().decompress(entry, scratch);
    let is_put = put(pager, page, Source::Staging(scratch));
    match is_put {
        true => {
            let kept = pager.disk.pool().slot(entry);
            pager.disk.pool().remove(entry);
            pager.memory.pages.set(page, State::Resident { kept });
        }
        false => pager.program.wake(address),
    }
    is_put
}

/// Reads a slot of the store to the scratch page and waits for the result.
pub(crate) fn read_slot(pager: &Pager, slot: Slot) {
    scratch(pager, slot, Direction::Read);
}

/// Writes the scratch page to a slot of the store and waits for the result.
pub(crate) fn write_slot(pager: &Pager, slot: Slot) {
    scratch(pager, slot, Direction::Write);
}

fn scratch(pager: &Pager, slot: Slot, direction: Direction) {
    let (file, index) = backing::location(slot);
    let request = Request {
        direction,
        file: pager.disk.store.file(file).as_fd(),
        offset: index * PAGE_BYTES as u64,
        address: pager.disk.staging.scratch(),
        length: PAGE_BYTES as u32,
        tag: 0,
    };
    // SAFETY: nothing else uses the scratch page, and the transfer is over when this returns.
    match unsafe { transfer_now(&request) } {
        Ok(bytes) if bytes as usize == PAGE_BYTES => {}
        Ok(_) => store_failed(pager, "used", Errno::IO),
        Err(error) => store_failed(pager, "used", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::evict::evict;
    use crate::paging::faults;
    use crate::testing::{at, pager};
    use alloc::vec;

    /// Pager with two pages, which hold their numbers, on their way to the store.
    fn writing() -> (Pager, alloc::rc::Rc<core::cell::RefCell<crate::testing::World>>) {
        let (mut pager, world) = pager();
        for number in 0..4 {
            faults::answer(&mut pager, at(number));
            world.borrow_mut().mapped.insert(at(number), number as u8);
        }
        assert!(
            crate::paging::lifecycle::condemn(&mut pager) && crate::paging::lifecycle::condemn(&mut pager)
        );
        assert_eq!(evict(&mut pager), 2);
        (pager, world)
    }

    #[test]
    fn a_page_that_is_touched_on_its_way_out_comes_back_and_gives_its_slot_back() {
        let (mut pager, world) = writing();
        assert!(matches!(pager.memory.pages.state_at(at(1)), State::Writing(_)));
        faults::answer(&mut pager, at(1));
        assert_eq!(pager.memory.pages.state_at(at(1)), State::RESIDENT);
        assert_eq!(world.borrow().mapped[&at(1)], 1);
        reap(&mut pager);
        assert!(matches!(pager.memory.pages.state_at(at(0)), State::Stored(_)));
        assert_eq!(pager.memory.pages.state_at(at(1)), State::RESIDENT);
        crate::paging::changes::drop_contents(&mut pager, at(0), at(4));
        assert!(pager.disk.store.current_is_empty(), "no slot is lost");
    }

    #[test]
    fn a_page_that_is_dropped_on_its_way_out_gives_its_slot_back() {
        let (mut pager, _) = writing();
        crate::paging::changes::drop_contents(&mut pager, at(0), at(2));
        reap(&mut pager);
        assert!(pager.disk.store.current_is_empty());
        assert_eq!(pager.disk.staging.count(Phase::Free), pager.disk.staging.batches.len());
    }

    #[test]
    fn what_the_kernel_refuses_is_tried_again() {
        let (mut pager, world) = writing();
        reap(&mut pager);
        for errors in [vec![Errno::AGAIN; 3], vec![Errno::BUSY, Errno::NOENT, Errno::AGAIN]] {
            world.borrow_mut().errors.extend(errors);
            let number = usize::from(world.borrow().mapped.contains_key(&at(0)));
            faults::answer(&mut pager, at(number));
            reap(&mut pager);
            assert_eq!(world.borrow().mapped.get(&at(number)), Some(&(number as u8)), "page {number}");
            assert!(
                matches!(pager.memory.pages.state_at(at(number)), State::Resident { kept: Some(_) }),
                "page {number}"
            );
        }
        assert_eq!(pager.disk.incoming, 0);
    }

    #[test]
    fn waiting_for_all_leaves_nothing_under_way() {
        let (mut pager, _) = writing();
        assert!(pager.disk.staging.has_requests());
        reap_all(&mut pager);
        assert!(!pager.disk.staging.has_requests() && !is_read_awaited(&pager));
        faults::answer(&mut pager, at(0));
        assert!(is_read_awaited(&pager));
        reap_all(&mut pager);
        assert!(!is_read_awaited(&pager));
    }

    #[test]
    fn a_window_in_advance_needs_a_batch_to_spare() {
        let (mut pager, _) = pager();
        assert!(may_read(&pager, Need::Soon) && may_read(&pager, Need::Now));
        pager.disk.staging.batches[1..].iter_mut().for_each(|batch| batch.phase = Phase::Writing);
        assert!(!may_read(&pager, Need::Soon) && may_read(&pager, Need::Now));
    }

    #[test]
    fn tags_round_trip_through_a_word() {
        for (first, pages) in [(0, 1), (1, 128), (u32::MAX, u32::MAX), (0xf_ffff, 4096)] {
            let tag = Tag { first: Staged(first), pages };
            assert_eq!(Tag::unpack(tag.pack()), tag);
        }
    }

    #[test]
    fn a_transfer_has_failed_if_it_is_short() {
        let tag = Tag { first: Staged(3), pages: 2 };
        let bytes = 2 * PAGE_BYTES as u32;
        for phase in [Phase::Reading, Phase::Writing] {
            assert_eq!(tag.failure(phase, Ok(bytes)), None, "{phase:?}");
            assert_eq!(tag.failure(phase, Err(Errno::NODEV)), Some(Errno::NODEV), "{phase:?}");
        }
        assert_eq!(tag.failure(Phase::Writing, Ok(bytes - 1)), Some(Errno::NOSPC), "the disk is full");
        assert_eq!(tag.failure(Phase::Reading, Ok(PAGE_BYTES as u32)), Some(Errno::IO));
    }

    #[test]
    fn a_request_that_a_limit_stopped_is_done_again() {
        let tag = Tag { first: Staged(3), pages: 2 };
        let bytes = 2 * PAGE_BYTES as u32;
        let is_tried = |phase, result| tag.is_worth_another_try(phase, result);
        assert!(is_tried(Phase::Reading, Err(Errno::CANCELED)));
        for stopped in [Err(Errno::CANCELED), Err(Errno::FBIG), Ok(bytes - 1), Ok(0)] {
            assert!(is_tried(Phase::Writing, stopped), "{stopped:?}");
        }
        for phase in [Phase::Reading, Phase::Writing] {
            assert!(!is_tried(phase, Ok(bytes)) && !is_tried(phase, Err(Errno::IO)), "{phase:?}");
        }
    }
}
