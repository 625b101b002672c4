//! The memory of a process, read page by page.

use crate::codecs::Page;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::maps::{Mapping, mappings};
use sweephand_process::space::Space;

/// What is mapped from `/dev` and is memory. Reading other devices can change what they do.
const MEMORY_IN_DEV: [&str; 4] = ["/dev/shm/", "/dev/zero", "/dev/hugepages/", "/dev/mqueue/"];
/// How names of mappings begin that are no memory of the program's: of the kernel and of devices.
const NO_MEMORY: [&str; 6] = ["/dev/", "anon_inode:", "/dmabuf:", "socket:", "[vvar", "[vsyscall"];

/// The memory of a process. It stays with the program that the process was when it was opened.
#[derive(Debug)]
pub(crate) struct Memory {
    space: Space,
    bytes: File,
}

impl Memory {
    pub(crate) fn open(process: u32) -> io::Result<Self> {
        let space = Space::open(process)?;
        let bytes = File::open(format!("/proc/{process}/task/{}/mem", space.thread))?;
        Ok(Self { space, bytes })
    }

    pub(crate) fn mappings(&self) -> Vec<Mapping> {
        mappings(self.space.process, self.space.thread).unwrap_or_default()
    }

    /// Reads a page that is in memory or in swap. `None`: it is in neither.
    pub(crate) fn read(&self, number: u64, page: &mut Page) -> Option<io::Result<()>> {
        let entries = self.space.entries(&[number]);
        let is_there = entries.iter().any(|entry| entry.is_present() || entry.is_swapped());
        is_there.then(|| self.bytes.read_exact_at(page, number * PAGE_BYTES))
    }
}

/// Whether a mapping is memory that may be read.
pub(crate) fn is_memory(mapping: &Mapping) -> bool {
    let name = mapping.name.as_str();
    MEMORY_IN_DEV.iter().any(|start| name.starts_with(start))
        || !NO_MEMORY.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_read_and_untouched_pages_are_not() {
        const PAGES: usize = 8;
        let mut bytes = vec![0_u8; (PAGES + 1) * PAGE_BYTES as usize];
        let start = (bytes.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let offset = (start - bytes.as_ptr() as u64) as usize;
        bytes[offset + 5] = 77;
        let memory = Memory::open(std::process::id()).unwrap();
        let mut page = [0; PAGE_BYTES as usize];
        memory.read(start / PAGE_BYTES, &mut page).unwrap().unwrap();
        assert_eq!((page[5], page[6]), (77, 0));
        assert!(memory.read(1, &mut page).is_none());
        assert!(memory.mappings().iter().any(|of| of.pages.contains(&(start / PAGE_BYTES))));
        assert_eq!(bytes[offset + 5], 77);
    }

    #[test]
    fn memory_of_devices_is_left_alone() {
        let named = |name: &str| is_memory(&Mapping { pages: 0..1, name: name.to_string() });
        let memory =
            ["", "[heap]", "/usr/lib/a.so", "/dev/shm/a", "/memfd:a (deleted)", "/dev/zero (deleted)"];
        assert_eq!(memory.map(named), [true; 6]);
        let others = ["/dev/nvidia0", "/dev/dri/card0", "anon_inode:kvm-vcpu:0", "[vvar]", "[vvar_vclock]"];
        assert_eq!(others.map(named), [false; 5]);
    }
}
