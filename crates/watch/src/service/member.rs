//! A process of a service: its accessed bits are read and cleared.

use super::frames::{Frames, Mapped};
use crate::look::{TableWalk, count, pages_of};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use sweephand_process::accessed::{Mask, TABLE_PAGES, Table, TableBits};
use sweephand_process::space::Space;

/// A process of the service.
#[derive(Debug)]
pub(super) struct Member {
    space: Space,
    /// What is written here clears bits.
    clear_refs: File,
    /// All accessed bits are of this epoch.
    is_of_epoch: bool,
}

/// What a look has found in one process. Pages that it shares count in each process.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberLook {
    /// The process.
    pub process: u32,
    /// Pages that it has mapped.
    pub resident_pages: u64,
    /// Those of them that other processes have mapped, too.
    pub shared_pages: u64,
    /// Those of them whose accessed bit was set.
    pub accessed_pages: u64,
}

/// What has become of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Became {
    /// It is there.
    Itself,
    /// It has become another program.
    NewProgram,
    /// It has ended.
    Ended,
}

impl Member {
    /// Opens a process, and claims its accessed bits. `None`: it has ended, or has no memory of its
    /// own.
    pub(super) fn open(process: u32, is_of_epoch: bool) -> io::Result<Option<Self>> {
        let member = Self::open_unclaimed(process, is_of_epoch)?;
        member.iter().try_for_each(|member| member.space.claim_bits())?;
        Ok(member)
    }

    fn open_unclaimed(process: u32, is_of_epoch: bool) -> io::Result<Option<Self>> {
        const TOLD: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::ACCESS, Errno::PERM];
        let opened = Space::open(process).and_then(|space| {
            let path = format!("/proc/{process}/task/{}/clear_refs", space.thread);
            let clear_refs = File::options().write(true).open(path)?;
            Ok(Self { space, clear_refs, is_of_epoch })
        });
        match opened {
            Ok(member) => Ok(Some(member)),
            Err(error) if Errno::from_io_error(&error).is_some_and(|errno| TOLD.contains(&errno)) => {
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }

    /// Whether it is still the program that it was. If not, it is opened anew.
    pub(super) fn refresh(&mut self) -> io::Result<Became> {
        if !self.space.is_gone() {
            return Ok(Became::Itself);
        }
        let Some(member) = Self::open_unclaimed(self.space.process, true)? else { return Ok(Became::Ended) };
        // A thread has ended, and the memory is seen through another one: nothing is new.
        let is_itself = member.space.thread != self.space.thread;
        let is_of_epoch = if is_itself { self.is_of_epoch } else { member.is_of_epoch };
        // Its claim ends with it.
        *self = Self { is_of_epoch, ..member };
        self.space.claim_bits()?;
        Ok(if is_itself { Became::Itself } else { Became::NewProgram })
    }

    /// Reads and clears the bits, and adds the frames. `None`: it has ended meanwhile.
    pub(super) fn look(&mut self, bits: &TableBits, frames: &mut Frames) -> Option<MemberLook> {
        let (mut tables, mut walk): (Vec<(u64, Table)>, _) = (Vec::new(), TableWalk::default());
        // All bits first, so that they are cleared soon after.
        while let Some(table) = walk.next(bits, &self.space).ok()? {
            tables.push(table);
        }
        // The bits of all pages of the process.
        self.clear_refs.write_all(b"1").ok()?;
        let mut look = MemberLook { process: self.space.process, ..MemberLook::default() };
        for (number, table) in &tables {
            self.add(*number, table, frames, &mut look);
        }
        self.is_of_epoch = true;
        (!self.space.is_gone()).then_some(look)
    }

    /// Adds the frames of a table.
    fn add(&self, number: u64, table: &Table, frames: &mut Frames, look: &mut MemberLook) {
        let pages: Vec<u64> = pages_of(number, &table.present).collect();
        let accessed: Mask = std::array::from_fn(|word| table.accessed[word] & table.present[word]);
        look.accessed_pages += u64::from(count(&accessed));
        for (page, entry) in pages.iter().zip(self.space.entries(&pages)) {
            // Memory of devices has no frame here.
            let Some(frame) = entry.frame() else { continue };
            let bit = (page % TABLE_PAGES as u64) as usize;
            let has = |mask: &Mask| mask[bit / 64] >> (bit % 64) & 1 != 0;
            look.resident_pages += 1;
            look.shared_pages += u64::from(!entry.is_exclusive());
            frames.add(&Mapped {
                frame,
                number: *page,
                is_file: entry.is_file(),
                is_accessed: has(&accessed),
                is_dirty: has(&table.dirty),
                is_of_epoch: self.is_of_epoch,
            });
        }
    }
}
