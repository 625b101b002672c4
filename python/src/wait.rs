//! Long work runs on threads of its own, while the calling thread watches for Ctrl-C and updates
//! the progress bar.

use crate::error::raise;
use pyo3::ffi;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use std::ffi::{c_long, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use sweephand_policy::plugin::Failed;
use sweephand_trace::Interrupt;

/// Time between two looks at signals and progress.
const EVERY: Duration = Duration::from_millis(50);

/// How many threads or processes some work gets if `asked` are asked for.
#[pyfunction]
pub(crate) fn bounded_threads(asked: Option<usize>, work: usize) -> usize {
    sweephand_sim::bounded_threads(asked, work)
}

/// How the work is watched.
#[derive(Default)]
pub(crate) struct Watch {
    /// Processors to work on; all of them unless it is said.
    pub(crate) threads: Option<usize>,
    /// Pieces of work that can be done at the same time, if that is known.
    pub(crate) work: Option<usize>,
    /// Called with the steps done and the steps there are.
    pub(crate) progress: Option<Py<PyAny>>,
    /// Steps done.
    pub(crate) done: AtomicU64,
    /// Steps there are, once that is known.
    pub(crate) total: AtomicU64,
    /// Asks the work to stop.
    pub(crate) interrupt: Interrupt,
    /// The threads that do it, as Python calls them.
    pub(crate) crew: Arc<Mutex<Vec<c_ulong>>>,
}

impl Watch {
    /// Does `work`, without the interpreter. Ctrl-C, or an error in the progress bar, interrupts it
    /// and is raised.
    ///
    /// The threads are this call's own: a process that was forked has none of those that its parent
    /// had.
    pub(crate) fn over<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
        let crew = Arc::clone(&self.crew);
        let asked = self.threads.or_else(sweephand_sim::rayon_threads);
        let pool = ThreadPoolBuilder::new()
            .num_threads(sweephand_sim::bounded_threads(asked, self.work.unwrap_or(usize::MAX)))
            .start_handler(move |_| {
                // SAFETY: it asks the system for a number, and needs no interpreter.
                let thread = unsafe { ffi::PyThread_get_thread_ident() };
                crew.lock().expect("no thread panics while it holds the lock").push(thread);
            })
            .build()
            .map_err(raise)?;
        let (sender, mut receiver) = sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                let result = catch_unwind(AssertUnwindSafe(|| pool.install(work)));
                // Somebody waits for it below, whatever happens.
                let _ = sender.send(result);
            });
            let mut reported = 0;
            let mut trouble = None;
            loop {
                let receiver = &mut receiver;
                match py.detach(move || receiver.recv_timeout(EVERY)) {
                    Ok(result) => {
                        self.report(py, &mut reported).unwrap_or_else(|error| trouble = Some(error));
                        return match (trouble, result) {
                            (Some(error), _) => Err(error),
                            (None, Ok(result)) => Ok(result),
                            (None, Err(panic)) => match panic.downcast::<Failed>() {
                                Ok(failed) => Err(raise(failed.0)),
                                Err(panic) => resume_unwind(panic),
                            },
                        };
                    }
                    Err(RecvTimeoutError::Disconnected) => unreachable!("a panic is sent, too"),
                    Err(RecvTimeoutError::Timeout) if trouble.is_some() => self.interrupt_python(py),
                    Err(RecvTimeoutError::Timeout) => {
                        let seen = py.check_signals().and_then(|()| self.report(py, &mut reported));
                        if let Err(error) = seen {
                            trouble = Some(error);
                            self.interrupt.raise();
                            self.interrupt_python(py);
                        }
                    }
                }
            }
        })
    }

    /// Raises KeyboardInterrupt in what Python code the threads run: a policy that is in a loop of
    /// its own does not look at the flag. Threads that run none take no notice.
    fn interrupt_python(&self, _: Python<'_>) {
        for thread in &*self.crew.lock().expect("no thread panics while it holds the lock") {
            // SAFETY: this thread has the interpreter, and the class lives as long as that.
            unsafe { ffi::PyThreadState_SetAsyncExc(*thread as c_long, ffi::PyExc_KeyboardInterrupt) };
        }
    }

    fn report(&self, py: Python<'_>, reported: &mut u64) -> PyResult<()> {
        let done = self.done.load(Ordering::Relaxed);
        match &self.progress {
            Some(progress) if done > *reported => {
                *reported = done;
                progress.call1(py, (done, self.total.load(Ordering::Relaxed))).map(drop)
            }
            _ => Ok(()),
        }
    }
}
