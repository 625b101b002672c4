//! Processors kept from sleeping while a program is paged.
//!
//! Each fault has a thread of the program wait for the pager, and the pager for the disk. Where
//! nothing else runs, processors fall asleep meanwhile, and to wake one, above all one of a virtual
//! machine, takes about as long as the read. The kernel lets root ask for less: idle processors
//! then look out for work (`Documentation/power/pm_qos_interface.rst` in Linux).

use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// What is written to it holds while it stays open: the longest that a processor may take to wake
/// up, in microseconds.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// While this lives, processors do not sleep. It is not inherited by programs.
pub(crate) struct Awake {
    _device: File,
}

impl Awake {
    /// Asks the kernel for it.
    pub(crate) fn hold() -> anyhow::Result<Self> {
        let wanted_us = 0_i32;
        let device = OpenOptions::new().write(true).open(DEVICE).and_then(|mut device| {
            device.write_all(&wanted_us.to_ne_bytes())?;
            Ok(device)
        });
        let device = device
            .with_context(|| format!("{DEVICE}: --awake needs to write to it: run as root, or do without"))?;
        Ok(Self { _device: device })
    }
}
