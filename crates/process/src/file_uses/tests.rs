//! Uses of files that the test knows.

use super::{BLOCK_PAGES, Ended, FilePage, FilePages, FileUses, Taken};
use crate::accessed::NoBits;
use crate::space::Space;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use sweephand_checks::{Need, skip};

const PAGE: usize = 4096;

/// One test at a time: this process is a member in each.
static ALONE: Mutex<()> = Mutex::new(());

/// This process as the only member. `None` where that is not permitted.
fn begin() -> Option<(MutexGuard<'static, ()>, FileUses)> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    match FileUses::begin() {
        Err(NoBits::Program(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            skip(Need::Root, error);
            None
        }
        uses => {
            let uses = uses.unwrap();
            uses.set_members(&BTreeSet::new(), &BTreeSet::from([std::process::id()])).unwrap();
            Some((alone, uses))
        }
    }
}

/// The pages of a file that were used, and written.
fn pages_of(taken: &Taken, file: &File) -> (Vec<u64>, Vec<u64>) {
    let inode = file.metadata().unwrap().ino();
    let bits = |number: u64, word: u64| {
        let bits = (0..BLOCK_PAGES).filter(move |bit| word >> bit & 1 != 0);
        bits.map(move |bit| number * BLOCK_PAGES + bit)
    };
    let of_file = || taken.blocks.iter().filter(|(block, _)| block.file.inode == inode);
    let used = of_file().flat_map(|(block, uses)| bits(block.number, uses.used)).collect();
    (used, of_file().flat_map(|(block, uses)| bits(block.number, uses.written)).collect())
}

/// The folder of this program, because `/tmp` may be on tmpfs.
fn folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// A file of zeros, without a name.
fn file(pages: usize, folder: &Path) -> File {
    let mut file = tempfile::tempfile_in(folder).unwrap();
    file.write_all(&vec![0; pages * PAGE]).unwrap();
    file
}

#[test]
fn reads_and_writes_are_noted_page_by_page() {
    let Some((_alone, mut uses)) = begin() else { return };
    let file = file(1000, &folder());
    let all: Vec<u64> = (0..1000).collect();
    assert_eq!(pages_of(&uses.take().unwrap(), &file), (all.clone(), all));
    let mut bytes = vec![0; 300 * PAGE];
    // From the end of page 4 to the start of 304, and the byte after the end is not there.
    file.read_exact_at(&mut bytes, 5 * PAGE as u64 - 1).unwrap();
    file.read_exact_at(&mut bytes[..1], 63 * PAGE as u64).unwrap();
    file.read_exact_at(&mut bytes[..2], 700 * PAGE as u64 - 1).unwrap();
    assert_eq!(file.read_at(&mut bytes, 1000 * PAGE as u64).unwrap(), 0);
    file.write_all_at(b"x", 64 * PAGE as u64).unwrap();
    let taken = uses.take().unwrap();
    assert_eq!(pages_of(&taken, &file), ((4..305).chain([699, 700]).collect(), vec![64]));
    assert!(taken.lost_blocks == 0 && !taken.cost.is_zero());
    assert_eq!(pages_of(&uses.take().unwrap(), &file), (vec![], vec![]));
    // A read to the end of a file notes no more than there is.
    assert_eq!(file.read_at(&mut bytes, 990 * PAGE as u64).unwrap(), 10 * PAGE);
    assert_eq!(pages_of(&uses.take().unwrap(), &file).0, (990..1000).collect::<Vec<_>>());
}

#[test]
fn files_that_are_sent_are_noted() {
    let Some((_alone, mut uses)) = begin() else { return };
    let file = file(100, &folder());
    let (mut output, input) = io::pipe().unwrap();
    uses.take().unwrap();
    let mut offset = 10 * PAGE as u64;
    let sent = rustix::fs::sendfile(&input, &file, Some(&mut offset), 2 * PAGE).unwrap();
    output.read_exact(&mut vec![0; sent]).unwrap();
    assert_eq!((sent, pages_of(&uses.take().unwrap(), &file).0), (2 * PAGE, vec![10, 11]));
}

/// Children of members count as soon as they are there, and nobody else.
#[test]
fn uses_of_other_processes_are_not_noted() {
    let Some((_alone, mut uses)) = begin() else { return };
    let named = tempfile::NamedTempFile::new_in(folder()).unwrap();
    fs::write(named.path(), vec![0; 10 * PAGE]).unwrap();
    let read_by_child = || {
        let script = r#"cat "$1" | wc -c; true"#;
        let mut shell = Command::new("sh");
        let read = shell.args(["-c", script, "sh"]).arg(named.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), (10 * PAGE).to_string());
    };
    uses.take().unwrap();
    read_by_child();
    assert_eq!(pages_of(&uses.take().unwrap(), named.as_file()).0.len(), 10);
    let own = BTreeSet::from([std::process::id()]);
    assert!(uses.members().unwrap().is_superset(&own));
    uses.set_members(&uses.members().unwrap(), &BTreeSet::new()).unwrap();
    assert!(uses.members().unwrap().is_empty());
    read_by_child();
    assert_eq!(pages_of(&uses.take().unwrap(), named.as_file()), (vec![], vec![]));
}

#[test]
fn files_that_end_are_told() {
    let Some((_alone, mut uses)) = begin() else { return };
    let file = file(100, &folder());
    let inode = file.metadata().unwrap().ino();
    let of_inode = |taken: Taken, inode: u64| {
        let found = taken.ended.iter().find(|(file, _)| file.inode == inode);
        found.map(|(_, ended)| (ended.from, ended.is_final))
    };
    uses.take().unwrap();
    file.set_len(50 * PAGE as u64 + 1).unwrap();
    file.set_len(70 * PAGE as u64).unwrap();
    assert_eq!(of_inode(uses.take().unwrap(), inode), Some((51, 0)));
    drop(file);
    assert_eq!(of_inode(uses.take().unwrap(), inode), Some((0, 1)));
    // It has a name.
    let named = tempfile::NamedTempFile::new_in(folder()).unwrap();
    fs::write(named.path(), vec![0; 10 * PAGE]).unwrap();
    uses.take().unwrap();
    fs::write(named.path(), "").unwrap();
    let inode = named.as_file().metadata().unwrap().ino();
    assert_eq!(of_inode(uses.take().unwrap(), inode), Some((0, 0)));
}

/// A page that is mapped is the page that is read.
#[test]
fn the_page_in_a_frame_is_the_page_that_is_read() {
    let Some((_alone, mut uses)) = begin() else { return };
    let pages = FilePages::load().unwrap();
    let space = Space::open(std::process::id()).unwrap();
    for folder in [folder(), PathBuf::from("/dev/shm")] {
        let file = file(600, &folder);
        // SAFETY: a new mapping, which is only read.
        let start = unsafe { mmap(ptr::null_mut(), 600 * PAGE, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
        let start = start.unwrap();
        for page in 0..600 {
            // SAFETY: within the mapping.
            unsafe { start.cast::<u8>().add(page * PAGE).read_volatile() };
        }
        let numbers: Vec<u64> = (0..600).map(|page| (start as usize / PAGE + page) as u64).collect();
        let frames: Vec<u64> = space.entries(&numbers).iter().map(|entry| entry.frame().unwrap()).collect();
        let found: Vec<FilePage> = pages.of(&frames).unwrap().into_iter().map(Option::unwrap).collect();
        let id = found[0].file;
        assert_eq!(id.inode, file.metadata().unwrap().ino());
        assert!(found.iter().zip(0..).all(|(page, number)| (page.file, page.number) == (id, number)));
        // tmpfs does not come to the places where reads and writes are noted.
        let Taken { blocks, .. } = uses.take().unwrap();
        assert_eq!(blocks.iter().any(|(block, _)| block.file == id), !folder.starts_with("/dev/shm"));
        uses.know(id);
        // SAFETY: nothing refers to it.
        unsafe { munmap(start, 600 * PAGE) }.unwrap();
        drop(file);
        assert!(uses.take().unwrap().ended.contains(&(id, Ended { from: 0, is_final: 1 })));
    }
    // Anonymous memory is no file's.
    let word = Box::new(1_u64);
    let number = &raw const *word as u64 / PAGE as u64;
    let frame = space.entries(&[number])[0].frame().unwrap();
    assert_eq!(pages.of(&[frame, 0]).unwrap(), [None, None]);
}
