//! The director's thread, from outside.

use crate::counts::Counts;
use crate::director::direct;
use crate::faults::Faults;
use crate::memory::Memory;
use crate::parts::{Order, Parts};
use crate::policy::make;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use sweephand_pager_interface::spec::LiveSpec;
use sweephand_policy::ArgumentError;
use sweephand_process::accessed::{NoBits, ProcessBits};

/// Why the kernel cannot be directed.
#[derive(Debug, thiserror::Error)]
pub enum NoDirection {
    /// The policy's arguments are wrong.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// The policy is not for one program as a whole.
    #[error(
        "policy '{0}' goes by the program's own time, which is not known here; choose another with --policy"
    )]
    OwnTime(String),
    /// Page faults are not reported.
    #[error("performance events: {0}")]
    Events(#[source] io::Error),
    /// The processor's accessed bits cannot be read.
    #[error(transparent)]
    Bits(#[from] NoBits),
}

/// Why the director did not start.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct StartError {
    /// What the system has refused.
    pub what: &'static str,
    /// Its answer.
    #[source]
    pub error: io::Error,
}

/// Whether the kernel can be directed here, by this policy. Returns what reads accessed bits.
pub fn check(policy: &LiveSpec) -> Result<ProcessBits, NoDirection> {
    const SOME_FRAMES: usize = 1000;
    make(policy, SOME_FRAMES).ok_or_else(|| NoDirection::OwnTime(policy.to_string()))??;
    // The events are opened anew when the program starts.
    let _ = Faults::of_children().map_err(NoDirection::Events)?;
    Ok(ProcessBits::load()?)
}

/// The director's thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Direction {
    counts: Arc<Mutex<Counts>>,
    stop: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Direction {
    /// Starts it.
    pub fn start(order: Order) -> Result<Self, StartError> {
        let refused = |what| move |error| StartError { what, error };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = stop.map_err(io::Error::from).map_err(refused("eventfd"))?;
        let counts = Arc::new(Mutex::new(Counts::default()));
        let Order { bits, faults, budget, policy, prefetch_pages, choosers, zram_trial, process } = order;
        let parts = Parts {
            memory: Memory::new(bits),
            faults,
            budget,
            spec: policy,
            prefetch_pages,
            choosers,
            zram_trial,
            process,
            stop: stop.try_clone().map_err(refused("eventfd"))?,
            counts: Arc::clone(&counts),
        };
        let thread = thread::Builder::new().name("director".to_string()).spawn(move || direct(parts));
        let thread = thread.map_err(refused("a thread cannot be started"))?;
        Ok(Self { counts, stop, thread: Mutex::new(Some(thread)) })
    }

    /// What it has counted so far.
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// Has it end. The counts are complete then.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        let thread = self.thread.lock().unwrap_or_else(|error| error.into_inner()).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.stop();
    }
}
