//! What a program needs to begin with an agent: the library that is preloaded into it, and a
//! control block with its order. Both are files of the run's directory, which the program's
//! environment names.

use crate::error::{RunError, system};
use crate::run_directory::RunDirectory;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use sweephand_pager_interface::control::{CONTROL_BYTES, Control, MAGIC, Order, Text, VARIABLE};

static PRELOAD: &[u8] = include_bytes!(env!("SWEEPHAND_PRELOAD"));

/// The library with the agent, where programs find it until the run's directory is removed.
#[derive(Debug)]
pub(crate) struct Library {
    directory: RunDirectory,
    name: String,
    /// Control blocks made.
    blocks: Cell<usize>,
}

/// A control block.
pub(crate) struct ControlBlock {
    pub(crate) control: &'static Control,
}

impl Library {
    /// Puts the library into a run's directory, which is there.
    pub(crate) fn new(directory: &RunDirectory) -> Result<Self, RunError> {
        let (_, path) = directory.file("preload.so", PRELOAD, 0o444)?;
        Ok(Self { directory: directory.clone(), name: name(&path)?, blocks: Cell::new(0) })
    }

    /// Has a command begin with an agent that is given this order. Here the order gets what is the
    /// same in all runs.
    pub(crate) fn equip(&self, command: &mut Command, order: Order) -> Result<ControlBlock, RunError> {
        let number = self.blocks.replace(self.blocks.get() + 1);
        let (file, path) = self.directory.file(&format!("control-{number}"), &[0; CONTROL_BYTES], 0o600)?;
        let path = name(&path)?;
        let order = Order {
            magic: MAGIC,
            supervisor: std::process::id() as i32,
            pid_namespace: pid_namespace(),
            file_bytes: getrlimit(Resource::Fsize).maximum.unwrap_or(u64::MAX),
            library: text("path of the pager's library", Some(&self.name))?,
            control: text("path of the control file", Some(&path))?,
            ..order
        };
        let control = map_control(&file, order)?;
        let mut preload = OsString::from(&self.name);
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env("LD_PRELOAD", preload).env(VARIABLE, path);
        Ok(ControlBlock { control })
    }
}

impl ControlBlock {
    /// The last words of an agent, on one line. They come from the program's processes, so there
    /// may be anything in them.
    pub(crate) fn failure(&self) -> Option<String> {
        let words = self.control.failure()?;
        let printed = |character: char| if character.is_control() { ' ' } else { character };
        Some(words.as_str().chars().map(printed).collect())
    }
}

/// The namespace of this process's number.
fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

fn name(path: &Path) -> Result<String, RunError> {
    path.to_str()
        .map(str::to_string)
        .ok_or_else(|| system(format!("{}: is no text", path.display()))(io::ErrorKind::InvalidInput.into()))
}

/// A text of an order.
pub(crate) fn text<const N: usize>(what: &str, text: Option<&str>) -> Result<Text<N>, RunError> {
    text.and_then(Text::new).ok_or_else(|| {
        system(format!("the {what} is too long for the pager"))(io::ErrorKind::InvalidInput.into())
    })
}

fn map_control(file: &File, order: Order) -> Result<&'static Control, RunError> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file of that size, which is never unmapped.
    let block = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), CONTROL_BYTES, protection, MapFlags::SHARED, file, 0)
    };
    let block =
        block.map_err(|error| system("no memory for the pager's control block".to_string())(error.into()))?;
    let block = block.cast::<Control>();
    // SAFETY: no other thread knows the block yet, and it is large enough and aligned to a page.
    // From now on the order is only read, and of the rest any bytes are a value.
    unsafe {
        block.write(Control::new(order));
        Ok(&*block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_one_line_of_text() {
        // SAFETY: plain data of which zeros are a value.
        let order: Order = unsafe { std::mem::zeroed() };
        let block = ControlBlock { control: Box::leak(Box::new(Control::new(order))) };
        assert_eq!(block.failure(), None);
        block.control.fail(|text| {
            let _ = text.write_str("no \x1b[2Jspace\r\nleft");
        });
        assert_eq!(block.failure().as_deref(), Some("no  [2Jspace  left"));
    }
}
