//! A thread that does the same over and over.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that acts once in a period, until it is dropped.
#[derive(Debug)]
pub struct Periodic {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Starts it under this name.
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn start(name: &str, period: Duration, mut act: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name(name.to_string()).spawn(move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                act();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
