//! What a program needs to begin with an agent: the library that is preloaded into it, and a control block with its order.
//!
//! Both are files in memory, which the program's environment names as descriptors of this process.

use crate::run::{RunError, system};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use sweephand_agent::control::{CONTROL_BYTES, Control, Order, Text, VARIABLE};

static PRELOAD: &[u8] = include_bytes!(env!("SWEEPHAND_PRELOAD"));

/// The library with the agent. To be kept for as long as processes of a program may begin.
#[derive(Debug)]
pub(crate) struct Library(OwnedFd);

/// A control block, and its file, which is to be kept as long as the library.
pub(crate) struct ControlBlock {
    pub(crate) control: &'static Control,
    _file: OwnedFd,
}

impl Library {
    pub(crate) fn new() -> Result<Self, RunError> {
        memory_file("sweephand-pager", PRELOAD).map(Self)
    }

    /// Has a command begin with an agent that is given this order.
    pub(crate) fn equip(&self, command: &mut Command, order: Order) -> Result<ControlBlock, RunError> {
        let file = memory_file("sweephand-control", &[0; CONTROL_BYTES])?;
        let control = map_control(&file, order)?;
        let mut preload = OsString::from(name_of(&self.0));
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env("LD_PRELOAD", preload).env(VARIABLE, name_of(&file));
        Ok(ControlBlock { control, _file: file })
    }
}

/// A text of an order.
pub(crate) fn text<const N: usize>(what: &str, text: Option<&str>) -> Result<Text<N>, RunError> {
    text.and_then(Text::new).ok_or_else(|| {
        system(format!("the {what} is too long for the pager"))(io::ErrorKind::InvalidInput.into())
    })
}

/// The name of one of our files for other processes.
fn name_of(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

fn memory_file(name: &str, contents: &[u8]) -> Result<OwnedFd, RunError> {
    let context = || system("a file in memory cannot be made for the pager".to_string());
    let file = memfd_create(name, MemfdFlags::CLOEXEC).map_err(|error| context()(error.into()))?;
    let mut file = File::from(file);
    file.write_all(contents).map_err(context())?;
    Ok(file.into())
}

fn map_control(file: &OwnedFd, order: Order) -> Result<&'static Control, RunError> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file of that size, which is never unmapped.
    let block = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), CONTROL_BYTES, protection, MapFlags::SHARED, file, 0)
    };
    let block =
        block.map_err(|error| system("no memory for the pager's control block".to_string())(error.into()))?;
    let block = block.cast::<Control>();
    // SAFETY: nobody else knows the block yet, and it is large enough and aligned to a page.
    unsafe {
        block.write(Control::new(order));
        Ok(&*block)
    }
}
