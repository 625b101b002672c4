//! An io_uring, and what it is asked for.

use crate::kernel::syscall::ring_setup;
use alloc::collections::VecDeque;
use core::ffi::c_void;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::io_uring::{
    IORING_OFF_CQ_RING, IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringOp, io_uring_cqe,
    io_uring_enter, io_uring_params, io_uring_ptr, io_uring_sqe,
};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Requests that may be under way.
const ENTRIES: u32 = 256;

/// What to do with a piece of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the store.
    Read,
    /// To the store.
    Write,
}

/// A request: a piece of memory and a piece of a file.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which way.
    pub direction: Direction,
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Bytes from its start.
    pub offset: u64,
    /// The memory. Nothing else may use it until the request is complete.
    pub address: usize,
    /// Bytes.
    pub length: u32,
    /// Comes back with the completion.
    pub tag: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// That of the request.
    pub tag: u64,
    /// Bytes done, or why none were.
    pub result: Result<u32, Errno>,
}

/// An io_uring.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    submission: *mut u8,
    completion: *mut u8,
    entries: *mut io_uring_sqe,
    params: io_uring_params,
    /// Entries written and not yet submitted to the kernel.
    pending: u32,
    /// Requests submitted to the kernel and not yet reaped.
    under_way: u32,
    /// Completions taken out of the ring to make room.
    aside: VecDeque<Completion>,
}

impl Ring {
    /// Makes one, if the kernel lets us.
    pub fn new() -> Option<Self> {
        let mut params = io_uring_params::default();
        // SAFETY: default parameters ask for nothing special.
        let fd = unsafe { ring_setup(ENTRIES, (&raw mut params).cast()) }.ok()?;
        let map = |bytes: u32, offset| {
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
            // Where the kernel likes: it accepts no hint for this. (The program cannot be about to
            // map something there. It has not begun, or it waits in a fork.)
            // SAFETY: a new mapping of the ring's memory.
            let area =
                unsafe { rustix::mm::mmap(ptr::null_mut(), bytes as usize, protection, flags, &fd, offset) };
            let area = area.ok()?;
            // A child must not write into its parent's ring.
            // SAFETY: advice on our own mapping.
            unsafe { rustix::mm::madvise(area, bytes as usize, Advice::LinuxDontFork) }.ok()?;
            Some(area)
        };
        let completion_bytes = params.cq_off.cqes + params.cq_entries * size_of::<io_uring_cqe>() as u32;
        let submission = map(params.sq_off.array + params.sq_entries * 4, IORING_OFF_SQ_RING)?;
        let completion = map(completion_bytes, IORING_OFF_CQ_RING)?;
        let entries = map(params.sq_entries * size_of::<io_uring_sqe>() as u32, IORING_OFF_SQES)?;
        Some(Self {
            fd,
            submission: submission.cast(),
            completion: completion.cast(),
            entries: entries.cast(),
            params,
            pending: 0,
            under_way: 0,
            aside: VecDeque::new(),
        })
    }

    fn submission(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the kernel gave this offset of a word that it shares with us.
        unsafe { &*self.submission.add(offset as usize).cast() }
    }

    fn completion(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.completion.add(offset as usize).cast() }
    }

    /// Asks for a request. It may not be on its way before [`Ring::submit`].
    ///
    /// # Safety
    /// The memory must be mapped, belong to the pager, and not be used otherwise until the request
    /// is reaped.
    pub unsafe fn push(&mut self, request: &Request) {
        // Neither side of the ring may overflow: completions that come too early are set aside.
        // Ends: the kernel takes entries, and completes those that it has taken.
        while self.pending >= self.params.sq_entries {
            self.enter(0);
        }
        while self.pending + self.under_way >= self.params.cq_entries {
            self.enter(1);
            let completion = self.take();
            self.aside.extend(completion);
        }
        self.write_entry(request);
    }

    fn write_entry(&mut self, request: &Request) {
        let tail = self.submission(self.params.sq_off.tail).load(Ordering::Relaxed);
        let mask = self.submission(self.params.sq_off.ring_mask).load(Ordering::Relaxed);
        let index = tail & mask;
        // SAFETY: zeros are an entry that does nothing.
        let mut entry: io_uring_sqe = unsafe { mem::zeroed() };
        entry.opcode = match request.direction {
            Direction::Read => IoringOp::Read,
            Direction::Write => IoringOp::Write,
        };
        entry.fd = request.file.as_raw_fd();
        entry.off_or_addr2.off = request.offset;
        entry.addr_or_splice_off_in.addr = io_uring_ptr::from(request.address as *mut c_void);
        entry.len.len = request.length;
        entry.user_data.u64_ = request.tag;
        // SAFETY: the index is within the array, and the kernel does not read it before the tail
        // says so.
        unsafe {
            self.entries.add(index as usize).write(entry);
            self.submission
                .add(self.params.sq_off.array as usize)
                .cast::<u32>()
                .add(index as usize)
                .write(index);
        }
        self.submission(self.params.sq_off.tail).store(tail.wrapping_add(1), Ordering::Release);
        self.pending += 1;
    }

    /// Sends off what has been asked for.
    pub fn submit(&mut self) {
        self.enter(0);
    }

    /// The next completion; waits for one with `wait`.
    pub fn reap(&mut self, wait: bool) -> Option<Completion> {
        self.pop().or_else(|| {
            if wait {
                self.enter(1);
            }
            self.pop()
        })
    }

    /// Adds a completion of a request that was not made through the ring.
    pub fn put_aside(&mut self, completion: Completion) {
        self.aside.push_back(completion);
    }

    /// Whether there are completions to reap.
    pub fn has_completions(&self) -> bool {
        !self.aside.is_empty() || self.is_filled()
    }

    /// What is readable when there are completions.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Submits pending entries to the kernel and waits for this many completions.
    fn enter(&mut self, wait_for: u32) {
        if self.pending == 0 && wait_for == 0 {
            return;
        }
        let flags = if wait_for > 0 { IoringEnterFlags::GETEVENTS } else { IoringEnterFlags::empty() };
        // SAFETY: the entries submitted describe memory that their requesters keep for them.
        match unsafe { io_uring_enter(&self.fd, self.pending, wait_for, flags) } {
            Ok(taken) => {
                self.pending -= taken;
                self.under_way += taken;
            }
            // Too busy, or interrupted: asked again at the next call.
            Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) => {}
            Err(error) => crate::process::failure::abort(format_args!(
                "io_uring has failed: {error}; sweephand run --io sync does without it"
            )),
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.aside.pop_front().or_else(|| self.take())
    }

    /// Whether the kernel has put a completion into the ring.
    fn is_filled(&self) -> bool {
        let head = self.completion(self.params.cq_off.head).load(Ordering::Relaxed);
        head != self.completion(self.params.cq_off.tail).load(Ordering::Acquire)
    }

    /// The next completion in the ring.
    fn take(&mut self) -> Option<Completion> {
        if !self.is_filled() {
            return None;
        }
        let head = self.completion(self.params.cq_off.head).load(Ordering::Relaxed);
        let mask = self.completion(self.params.cq_off.ring_mask).load(Ordering::Relaxed);
        let cqes = self.completion.wrapping_add(self.params.cq_off.cqes as usize).cast::<io_uring_cqe>();
        // SAFETY: the kernel wrote this entry before it moved the tail.
        let (tag, result) = unsafe {
            let entry = &*cqes.add((head & mask) as usize);
            (entry.user_data.u64_(), entry.res)
        };
        self.completion(self.params.cq_off.head).store(head.wrapping_add(1), Ordering::Release);
        self.under_way -= 1;
        let result = u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
        Some(Completion { tag, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    /// Without a ring the pager works too, but slower, so its absence would not be noticed.
    #[test]
    fn requests_go_through_a_ring_wherever_the_kernel_has_one() {
        let mut params = io_uring_params::default();
        // SAFETY: default parameters ask for nothing special.
        let is_to_be_had = unsafe { ring_setup(1, (&raw mut params).cast()) }.is_ok();
        let ring = Ring::new();
        assert_eq!(ring.is_some(), is_to_be_had);
        let Some(mut ring) = ring else {
            return sweephand_checks::skip(sweephand_checks::Need::Machine, "io_uring");
        };
        let file = memfd_create(c"store", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8192).unwrap();
        let (from, mut to) = ([7_u8; 4096], [0_u8; 4096]);
        for (direction, address, tag) in
            [(Direction::Write, from.as_ptr() as usize, 1), (Direction::Read, to.as_mut_ptr() as usize, 2)]
        {
            let request = Request { direction, file: file.as_fd(), offset: 4096, address, length: 4096, tag };
            // SAFETY: nothing else uses the arrays until the request is complete.
            unsafe { ring.push(&request) };
            let completion = ring.reap(true).unwrap();
            assert_eq!((completion.tag, completion.result), (tag, Ok(4096)));
        }
        assert_eq!(to, from);
        assert!(ring.reap(false).is_none());
    }
}
