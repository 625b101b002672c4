//! A program: the reference string that a task executes. It is decoded into memory once and shared
//! by all tasks that run it.

use std::path::{Path, PathBuf};
use sweephand_trace::irim::{Irim, PageDrop, Transition};
use sweephand_trace::{Chunk, Event, PackedReference, Trace};

/// A program that tasks execute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// What it is called.
    pub name: String,
    /// What it references.
    pub string: ReferenceString,
    /// References in all: the virtual time of a task at its end.
    pub references: u64,
    /// Page ids: every one is below this.
    pub pages: u32,
    /// When contents of pages are given up, in the order of time.
    pub drops: Vec<PageDrop>,
}

/// The two forms of a reference string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReferenceString {
    /// Every reference.
    Full(Vec<PackedReference>),
    /// The changes in the use of pages (see [`sweephand_trace::irim`]), a reference string some
    /// hundred times shorter.
    Intervals {
        /// How long a page is not used before it counts as idle, in references.
        omega: u64,
        /// In the order of time.
        transitions: Vec<Transition>,
    },
}

/// Why a trace cannot be executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] sweephand_trace::Error),
    /// It does not say which references write.
    #[error("{}: has no write flags, so the dirty pages are unknown; record it with sweephand record", path.display())]
    NoWrites {
        /// The trace.
        path: PathBuf,
    },
    /// It has no references.
    #[error("{}: has no references", path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
    },
    /// Its records are not references, so virtual time is not known at each.
    #[error(
        "{}: holds runs of references (window {window}), not each of them; simulate its intervals (irim = 5000) or record it with \
         --window 0", path.display()
    )]
    Reduced {
        /// The trace.
        path: PathBuf,
        /// Its window.
        window: u64,
    },
}

impl Program {
    /// Opens a trace, or an IRIM string made before; with `omega` above 0 a trace is turned into
    /// one.
    pub fn open(path: &Path, name: &str, omega: u64) -> Result<Self, ProgramError> {
        let mut head = [0; 4];
        let is_irim = std::fs::File::open(path)
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head))
            .is_ok_and(|()| Irim::recognise(&head));
        if is_irim {
            return Self::from_irim(Irim::open(path)?, name, path);
        }
        Self::from_trace(&Trace::open(path)?, name, omega)
    }

    /// A trace, with every reference, or with `omega` above 0 its intervals.
    pub fn from_trace(trace: &Trace, name: &str, omega: u64) -> Result<Self, ProgramError> {
        let header = trace.header();
        let path = || trace.name().to_owned();
        trace.check_pages()?;
        if header.totals.records == 0 {
            return Err(ProgramError::Empty { path: path() });
        }
        if header.totals.written_pages == 0 {
            return Err(ProgramError::NoWrites { path: path() });
        }
        if omega > 0 {
            return Self::from_irim(Irim::from_trace(trace, omega)?, name, trace.name());
        }
        if header.metadata.window > 0 {
            return Err(ProgramError::Reduced { path: path(), window: header.metadata.window });
        }
        let mut references = Vec::with_capacity(header.totals.records as usize);
        let mut drops = Vec::new();
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            references.extend_from_slice(&chunk.references);
            for (at, event) in &chunk.events {
                if let Event::Drop { pages } = event {
                    let time = chunk.first_record + u64::from(*at);
                    drops.push(PageDrop { time, pages: pages.clone() });
                }
            }
        }
        Ok(Self {
            name: name.to_string(),
            references: references.len() as u64,
            string: ReferenceString::Full(references),
            pages: header.totals.page_ids,
            drops,
        })
    }

    fn from_irim(irim: Irim, name: &str, path: &Path) -> Result<Self, ProgramError> {
        if irim.references == 0 {
            return Err(ProgramError::Empty { path: path.to_owned() });
        }
        Ok(Self {
            name: name.to_string(),
            references: irim.references,
            pages: irim.pages,
            drops: irim.drops,
            string: ReferenceString::Intervals { omega: irim.omega, transitions: irim.transitions },
        })
    }

    /// A program from pages and whether they are written, for tests and examples.
    pub fn from_references(name: &str, references: impl IntoIterator<Item = (u32, bool)>) -> Self {
        let references: Vec<_> =
            references.into_iter().map(|(page, write)| PackedReference::new(page, write)).collect();
        let pages = references.iter().map(|reference| reference.page() + 1).max().unwrap_or_default();
        Self {
            name: name.to_string(),
            references: references.len() as u64,
            string: ReferenceString::Full(references),
            pages,
            drops: Vec::new(),
        }
    }
}
