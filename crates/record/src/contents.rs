//! What the pages of a recorded program contain: they are read while its stream is.
//!
//! The addresses of the stream are those of the process that Valgrind runs in, and its own memory
//! lies between them. So only pages that the stream has are read.

use std::collections::BTreeMap;
use sweephand_contents::{LastUses, Sampler};
use sweephand_trace::contents::{Contents, PAGE_BYTES};
use sweephand_trace::places::Places;
use sweephand_trace::{AllocKind, Error, Metadata, Sink, TraceSink};

/// What an object is called that the trace has no place for.
const NO_PLACE: &str = "objects made at no known place";

/// A trace that is being written, with the sampler of the program's pages.
pub(crate) struct Sampled<T> {
    pub(crate) trace: T,
    sampling: Option<Sampling>,
}

/// The pages of a program.
struct Sampling {
    sampler: Sampler,
    uses: LastUses,
    objects: Objects,
    /// References so far.
    references: u64,
}

/// The objects that live, by address: where each ends, and its number.
#[derive(Default)]
struct Objects {
    live: BTreeMap<u64, (u64, u64)>,
    /// Objects so far.
    made: u64,
}

impl Objects {
    /// An object that has a part of a page.
    fn of_page(&self, page: u64) -> Option<u64> {
        let start = page * PAGE_BYTES;
        let before = self.live.range(..start.saturating_add(PAGE_BYTES)).next_back();
        before.filter(|(_, (end, _))| *end > start).map(|(_, (_, number))| *number)
    }
}

impl<T: TraceSink> Sampled<T> {
    /// Samples the program that a process is now, if there is one.
    pub(crate) fn of(trace: T, process: Option<u32>) -> Self {
        let sampler = process.and_then(|process| Sampler::of(process, Sampler::USUAL_SHARE).ok());
        let sampling = sampler.map(|sampler| Sampling {
            sampler,
            uses: LastUses::default(),
            objects: Objects::default(),
            references: 0,
        });
        Self { trace, sampling }
    }

    /// The trace, in which what was found is.
    pub(crate) fn finish(mut self) -> T {
        let metadata = self.trace.metadata_mut();
        let places = metadata.places.as_ref();
        metadata.contents = self.sampling.as_ref().and_then(|sampling| sampling.contents(places));
        self.trace
    }
}

impl Sampling {
    fn used(&mut self, page: u64) {
        self.uses.used(page, self.references);
        self.references += 1;
    }

    fn look_if_due(&mut self) {
        let Self { sampler, uses, objects, .. } = self;
        sampler.look_if_due(|pages, moment| uses.choose(pages, moment), |page| objects.of_page(page));
    }

    fn contents(&self, places: Option<&Places>) -> Option<Contents> {
        self.sampler.contents(|object| {
            let stack = places.and_then(|places| places.of_object(object as usize));
            stack.and_then(|stack| Some(stack.place()?.to_string())).unwrap_or_else(|| NO_PLACE.to_owned())
        })
    }
}

impl<T: TraceSink> TraceSink for Sampled<T> {
    fn metadata_mut(&mut self) -> &mut Metadata {
        self.trace.metadata_mut()
    }
}

impl<T: TraceSink> Sink for Sampled<T> {
    fn reduced_to(&mut self, window: u64) {
        self.trace.reduced_to(window);
    }

    fn code(&mut self, place: u32) {
        self.trace.code(place);
    }

    fn time(&mut self, milliseconds: i64) {
        self.trace.time(milliseconds);
    }

    fn time_to_live(&mut self, milliseconds: u64) {
        self.trace.time_to_live(milliseconds);
    }

    #[inline]
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        if let Some(sampling) = &mut self.sampling {
            sampling.used(page_number);
        }
        self.trace.reference(page_number, write)
    }

    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        if let Some(Sampling { objects, .. }) = &mut self.sampling {
            objects.live.insert(address, (address.saturating_add(length), objects.made));
            objects.made += 1;
        }
        self.trace.alloc(address, length, kind)
    }

    fn free(&mut self, address: u64) -> Result<(), Error> {
        if let Some(Sampling { objects, .. }) = &mut self.sampling {
            objects.live.remove(&address);
        }
        self.trace.free(address)
    }

    /// The recorder marks every million instructions: often enough to look whether it is time.
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        if let Some(sampling) = &mut self.sampling {
            sampling.look_if_due();
        }
        self.trace.mark(instructions, references)
    }

    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.trace.map(first_page, pages)
    }

    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        if let Some(sampling) = &mut self.sampling {
            sampling.uses.forget(first_page..first_page.saturating_add(pages));
        }
        self.trace.unmap(first_page, pages)
    }

    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        if let Some(sampling) = &mut self.sampling {
            sampling.uses.forget(from..from.saturating_add(pages));
        }
        self.trace.remap(from, to, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_object_that_has_a_part_of_it() {
        let mut objects = Objects::default();
        objects.live.insert(0x10_0010, (0x10_3000, 4));
        objects.live.insert(0x20_0ff0, (0x20_1001, 5));
        let of = [0xff, 0x100, 0x102, 0x103, 0x200, 0x201, 0x202].map(|page| objects.of_page(page));
        assert_eq!(of, [None, Some(4), Some(4), None, Some(5), Some(5), None]);
    }
}
