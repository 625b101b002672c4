//! What an importer of a format tells while it reads, and what it has found out in the end.

use crate::places::Places;
use crate::tenants::Tenants;
use crate::{EndTotals, Metadata};
use std::path::Path;

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, after decompression.
    pub bytes: u64,
    /// References read, before any reduction.
    pub records: u64,
    /// Instructions executed, as far as marks tell.
    pub instructions: u64,
}

/// What an importer finds out about its input.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    pub(crate) end: EndTotals,
    /// The program's name; empty if the input does not say.
    pub(crate) program: String,
    pub(crate) page_size: u64,
    pub(crate) window: u64,
    pub(crate) instruction_fetches: bool,
    pub(crate) system_calls: bool,
    pub(crate) source: &'static str,
    /// Why it is not complete, if it is not.
    pub(crate) cut_short: Option<&'static str>,
    /// What else there is to say, a line each.
    pub(crate) notes: Vec<String>,
    /// Where its objects were made, if it says so.
    pub(crate) places: Option<Places>,
    /// Whose its pages are, if it says so.
    pub(crate) tenants: Option<Tenants>,
    /// Its pages stand for whole objects.
    pub(crate) whole_objects: bool,
}

impl Imported {
    /// Fills in what the input says; what only the caller knows (command, notes) stays.
    pub(crate) fn describe(&self, metadata: &mut Metadata, name: &Path) {
        if !self.program.is_empty() {
            metadata.program.clone_from(&self.program);
        } else if metadata.program.is_empty() {
            metadata.program = stem(name);
        }
        metadata.page_size = self.page_size;
        metadata.window = self.window;
        metadata.instruction_fetches = self.instruction_fetches;
        metadata.system_calls = self.system_calls;
        self.source.clone_into(&mut metadata.source);
        metadata.notes.extend_from_slice(&self.notes);
        metadata.places.clone_from(&self.places);
        metadata.tenants.clone_from(&self.tenants);
        metadata.whole_objects = self.whole_objects;
        if let Some(reason) = self.cut_short {
            metadata.complete = false;
            reason.clone_into(&mut metadata.ended);
        }
    }
}

/// A file's name up to its first dot.
fn stem(name: &Path) -> String {
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').find(|part| !part.is_empty()).unwrap_or_default().to_owned()
}
