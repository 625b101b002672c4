//! For tests: a simulated io_uring on threads that are simulated, a real one on others.

use super::kernel::{self, descriptor};
use super::{Object, is_on};
use crate::store::ring::{self, Completion, Request};
use alloc::collections::VecDeque;
use rustix::fd::OwnedFd;

/// An io_uring.
#[derive(Debug)]
pub enum Ring {
    /// The kernel's.
    Real(ring::Ring),
    /// The simulation's: what is readable, and completions that did not come from there.
    Simulated(OwnedFd, VecDeque<Completion>),
}

impl Ring {
    pub fn new() -> Option<Self> {
        match is_on() {
            true => Some(Self::Simulated(descriptor(Object::Ring), VecDeque::new())),
            false => ring::Ring::new().map(Self::Real),
        }
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn push(&mut self, request: &Request) {
        match self {
            // SAFETY: as the caller promises.
            Self::Real(ring) => unsafe { ring.push(request) },
            Self::Simulated(..) => kernel::begin_transfer(request),
        }
    }

    pub fn submit(&mut self) {
        if let Self::Real(ring) = self {
            ring.submit();
        }
    }

    pub fn reap(&mut self, wait: bool) -> Option<Completion> {
        match self {
            Self::Real(ring) => ring.reap(wait),
            Self::Simulated(_, aside) => aside.pop_front().or_else(|| kernel::reap(wait)),
        }
    }

    pub fn put_aside(&mut self, completion: Completion) {
        match self {
            Self::Real(ring) => ring.put_aside(completion),
            Self::Simulated(_, aside) => aside.push_back(completion),
        }
    }

    pub fn has_completions(&self) -> bool {
        match self {
            Self::Real(ring) => ring.has_completions(),
            Self::Simulated(_, aside) => !aside.is_empty() || kernel::has_completions(),
        }
    }

    pub fn descriptor(&self) -> &OwnedFd {
        match self {
            Self::Real(ring) => ring.descriptor(),
            Self::Simulated(fd, _) => fd,
        }
    }
}
