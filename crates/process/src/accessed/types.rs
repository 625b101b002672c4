//! The file in which the kernel describes its own types.

use super::btf::Btf;
use super::no_bits::NoBits;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};
use std::{ptr, slice};

/// The kernel's description of its types.
pub(crate) enum Types {
    /// As the kernel has it in memory, some megabytes.
    Mapped { start: *mut c_void, bytes: usize },
    /// A copy. Kernels before 6.16 do not map it.
    Read(Vec<u8>),
}

impl Types {
    /// Opens it.
    pub(crate) fn open() -> Result<Self, NoBits> {
        Self::map().map_err(|error| NoBits::Types(error.to_string()))
    }

    /// What it says.
    pub(crate) fn btf(&self) -> Result<Btf<'_>, NoBits> {
        Btf::parse(self.bytes()).ok_or_else(|| NoBits::Types("is not BTF".to_string()))
    }

    fn map() -> io::Result<Self> {
        let file = File::open("/sys/kernel/btf/vmlinux")?;
        let bytes = file.metadata()?.len() as usize;
        // SAFETY: a new mapping, which is only read.
        let mapped = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) };
        match mapped {
            Ok(start) => Ok(Self::Mapped { start, bytes }),
            Err(_) => {
                let mut copy = Vec::with_capacity(bytes);
                (&file).read_to_end(&mut copy)?;
                Ok(Self::Read(copy))
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: this is mapped until it is dropped, and the kernel does not change it.
            Self::Mapped { start, bytes } => unsafe { slice::from_raw_parts(start.cast(), *bytes) },
            Self::Read(bytes) => bytes,
        }
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        if let Self::Mapped { start, bytes } = *self {
            // SAFETY: nothing refers to it any more.
            let _ = unsafe { munmap(start, bytes) };
        }
    }
}

/// The byte at which a structure has a member.
pub(crate) fn member_offset(btf: &Btf, structure: &str, member: &str) -> Result<usize, NoBits> {
    let missing = || NoBits::Types(format!("has no {structure}.{member}"));
    btf.offset(structure, member).ok_or_else(missing)
}
