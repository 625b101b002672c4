//! Reads pages at moments of a run, and counts what they contain.

use crate::codecs::{Codecs, Page};
use crate::memory::{Memory, is_memory};
use crate::schedule::Schedule;
use crate::uses::Candidate;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;
use sweephand_process::maps::mapping_of;
use sweephand_process::usage::processor_time;
use sweephand_trace::contents::{
    AGES, CodecTimes, Contents, MOST_OBJECTS, OTHERS, ObjectContents, PAGE_BYTES, PageContents, SampledPages,
    is_of_file,
};
use sweephand_trace::objects::NO_OBJECT;

/// Candidates for each page that a moment reads: some may have gone.
const CANDIDATES_A_PAGE: usize = 4;
/// Age classes of pages whose last use is known.
const QUARTERS: usize = AGES.len() - 1;

/// Whose a page is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Owner {
    /// The mapping that has this name.
    Named(String),
    /// The recorder's object with this number.
    Object(u64),
    /// Nobody that is known.
    Nobody,
}

/// A page that was read.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The number of its owner.
    owner: u32,
    /// Its age class.
    age: u8,
    contents: PageContents,
}

/// A moment.
#[derive(Debug, Default)]
struct Moment {
    rows: Vec<Row>,
    unread: u64,
    /// How long the codecs took for its pages, those of files left out.
    codec_times: Option<CodecTimes>,
}

/// Samples the pages of a process.
#[derive(Debug)]
pub struct Sampler {
    /// `None`: this process may not read it.
    memory: Option<Memory>,
    codecs: Codecs,
    began: Instant,
    schedule: Schedule,
    /// Moments before the next, those that are forgotten included.
    number: u64,
    moments: Vec<Moment>,
    owners: FxHashMap<Owner, u32>,
}

impl Sampler {
    /// The part of a run's time that a sampler may cost, unless another is asked for.
    pub const USUAL_SHARE: f64 = 0.005;

    /// Begins to sample the program that a process is now. If its memory may not be read, pages
    /// count as unread. Fails if there is no memory for the codecs.
    pub fn of(process: u32, share: f64) -> io::Result<Self> {
        Ok(Self {
            memory: Memory::open(process).ok(),
            codecs: Codecs::new()?,
            began: Instant::now(),
            schedule: Schedule::new(share),
            number: 0,
            moments: Vec::new(),
            owners: FxHashMap::default(),
        })
    }

    /// Reads pages if it is time. `choose` gives some pages of the process, as many as it is asked
    /// for or fewer, for the moment with this number. `object_of` gives the object that a page is
    /// in. Returns whether pages were read.
    pub fn look_if_due(
        &mut self,
        choose: impl FnOnce(usize, u64) -> Vec<Candidate>,
        object_of: impl Fn(u64) -> Option<u64>,
    ) -> bool {
        let Some(pages) = self.schedule.pages_at(self.began.elapsed()) else { return false };
        let began = processor_time();
        let moment = self.look(&choose(pages * CANDIDATES_A_PAGE, self.number), pages, object_of);
        let was_read = !moment.rows.is_empty() || moment.unread > 0;
        self.schedule.took(processor_time().saturating_sub(began), moment.rows.len().max(1));
        if was_read {
            self.keep(moment);
        }
        was_read
    }

    fn keep(&mut self, moment: Moment) {
        self.number += 1;
        self.moments.push(moment);
        if self.schedule.keep() {
            let mut number = 0;
            self.moments.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
    }

    /// Reads the first `pages` of the candidates that are there.
    fn look(
        &mut self,
        candidates: &[Candidate],
        pages: usize,
        object_of: impl Fn(u64) -> Option<u64>,
    ) -> Moment {
        let Some(memory) = &self.memory else {
            return Moment { unread: pages.min(candidates.len()) as u64, ..Moment::default() };
        };
        let mappings = memory.mappings();
        let mut page: Page = [0; PAGE_BYTES as usize];
        let (mut moment, mut uses, mut times) = (Moment::default(), Vec::new(), Vec::new());
        for candidate in candidates {
            if moment.rows.len() + moment.unread as usize >= pages {
                break;
            }
            let Some(mapping) = mapping_of(&mappings, candidate.page) else { continue };
            if !is_memory(mapping) {
                continue;
            }
            let read = memory.read(candidate.page, &mut page);
            match read.or_else(|| memory.read(candidate.kept_at?, &mut page)) {
                None => {}
                Some(Err(_)) => moment.unread += 1,
                Some(Ok(())) => {
                    let owner = match (mapping.name.as_str(), object_of(candidate.page)) {
                        ("", Some(object)) => Owner::Object(object),
                        ("", None) => Owner::Nobody,
                        (name, _) => Owner::Named(name.to_owned()),
                    };
                    let next = self.owners.len() as u32;
                    let owner = *self.owners.entry(owner).or_insert(next);
                    let (contents, took) = self.codecs.look_at(&page);
                    times.extend(took.filter(|_| !is_of_file(&mapping.name)));
                    moment.rows.push(Row { owner, age: QUARTERS as u8, contents });
                    uses.push(candidate.last_use);
                }
            }
        }
        for (row, age) in moment.rows.iter_mut().zip(ages(&uses)) {
            row.age = age as u8;
        }
        moment.codec_times = CodecTimes::medians(&times);
        moment
    }

    /// What was found so far. `name` says what an object is called. `None`: no page was chosen.
    pub fn contents(&self, name: impl Fn(u64) -> String) -> Option<Contents> {
        if self.moments.is_empty() {
            return None;
        }
        let mut by_owner = vec![SampledPages::default(); self.owners.len()];
        let mut ages = vec![SampledPages::default(); AGES.len()];
        for row in self.moments.iter().flat_map(|moment| &moment.rows) {
            by_owner[row.owner as usize].add(row.contents);
            ages[usize::from(row.age)].add(row.contents);
        }
        let mut by_name: BTreeMap<String, SampledPages> = BTreeMap::new();
        for (owner, number) in &self.owners {
            let name = match owner {
                Owner::Named(name) => name.clone(),
                Owner::Object(object) => name(*object),
                Owner::Nobody => NO_OBJECT.to_owned(),
            };
            by_name.entry(name).or_default().merge(&by_owner[*number as usize]);
        }
        let codec_times: Vec<_> = self.moments.iter().filter_map(|moment| moment.codec_times).collect();
        Some(Contents {
            moments: self.moments.len() as u64,
            unread_pages: self.moments.iter().map(|moment| moment.unread).sum(),
            objects: largest(by_name),
            ages,
            codec_times: CodecTimes::medians(&codec_times),
        })
    }
}

/// The age classes of pages, by their last uses. Of pages that were used at the same time, those
/// that come first are newer: they are in the order of a hash.
fn ages(uses: &[Option<u64>]) -> Vec<usize> {
    let mut known: Vec<usize> = (0..uses.len()).filter(|page| uses[*page].is_some()).collect();
    known.sort_by_key(|page| std::cmp::Reverse(uses[*page]));
    let mut ages = vec![QUARTERS; uses.len()];
    for (rank, page) in known.iter().enumerate() {
        ages[*page] = rank * QUARTERS / known.len();
    }
    ages
}

/// The objects with the most pages. What has no row of its own is in the last.
fn largest(by_name: BTreeMap<String, SampledPages>) -> Vec<ObjectContents> {
    let of_name = |(name, sampled)| ObjectContents { name, sampled };
    let mut all: Vec<ObjectContents> =
        by_name.into_iter().map(of_name).filter(|object| object.sampled.pages > 0).collect();
    all.sort_by_key(|object| std::cmp::Reverse(object.sampled.pages));
    if all.len() > MOST_OBJECTS {
        let mut others = ObjectContents { name: OTHERS.to_owned(), sampled: SampledPages::default() };
        all.drain(MOST_OBJECTS - 1..).for_each(|object| others.sampled.merge(&object.sampled));
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;
    use sweephand_trace::contents::CodecTime;

    #[test]
    fn ages_are_quarters_by_the_last_use() {
        let uses = [Some(50), Some(10), None, Some(40), Some(30)];
        assert_eq!(ages(&uses), [0, 3, 4, 1, 2]);
        // Ties are spread.
        assert_eq!(ages(&[Some(1); 8]), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(ages(&[]).is_empty());
    }

    #[test]
    fn objects_that_are_too_many_are_added_up() {
        let sampled = |pages| {
            let mut sampled = SampledPages::default();
            (0..pages).for_each(|_| sampled.add(PageContents::Zero));
            sampled
        };
        let by_name: BTreeMap<_, _> = (0..100).map(|n| (format!("{n:03}"), sampled(n))).collect();
        let objects = largest(by_name);
        assert_eq!((objects.len(), objects[0].name.as_str()), (MOST_OBJECTS, "099"));
        let others = &objects[MOST_OBJECTS - 1];
        assert_eq!((others.name.as_str(), others.sampled.pages), (OTHERS, (0..37).sum()));
    }

    /// Pages of this process, of which a quarter is zero, a quarter same-filled, and half random.
    #[test]
    fn pages_of_known_contents_are_counted_right() {
        const PAGES: u64 = 400;
        let mut bytes = vec![1_u8; ((PAGES + 1) * PAGE_BYTES) as usize];
        let untouched = Vec::<u8>::with_capacity(8 << 20);
        let first = (bytes.as_ptr() as u64).div_ceil(PAGE_BYTES);
        let offset = (first * PAGE_BYTES - bytes.as_ptr() as u64) as usize;
        for (number, page) in (0..PAGES).zip(bytes[offset..].chunks_exact_mut(PAGE_BYTES as usize)) {
            match number % 4 {
                0 => page.fill(0),
                1 => page.fill(7),
                _ => page.iter_mut().zip(number << 20..).for_each(|(byte, place)| *byte = hash(place) as u8),
            }
        }
        let candidate = |page| Candidate { page: first + page, last_use: Some(page), kept_at: None };
        let mut candidates: Vec<Candidate> = (0..PAGES).map(candidate).collect();
        // One that is not mapped, but kept at another place; and one that is nowhere.
        let elsewhere = untouched.as_ptr() as u64 / PAGE_BYTES + 1000;
        candidates[0] = Candidate { page: elsewhere, last_use: None, kept_at: Some(first) };
        candidates[1] = Candidate { page: elsewhere, last_use: Some(1), kept_at: None };
        let mut sampler = Sampler::of(std::process::id(), 1.0).unwrap();
        let is_ours = |page: &u64| (first..first + PAGES).contains(page);
        let object_of = |page: u64| Some(page).filter(is_ours).map(|page| (page - first) / 100);
        let moment = sampler.look(&candidates, 1000, object_of);
        sampler.moments.push(moment);
        let contents = sampler.contents(|object| format!("object {object}")).unwrap();
        let all = contents.sampled();
        assert_eq!((contents.moments, contents.unread_pages, all.pages), (1, 0, PAGES - 1));
        assert_eq!((all.zero, all.same_filled, all.incompressible), (100, 99, 200));
        assert_eq!(contents.ages.iter().map(|age| age.pages).collect::<Vec<_>>(), [100, 99, 100, 99, 1]);
        let told: Vec<_> = contents.objects.iter().map(|of| (of.name.as_str(), of.sampled.pages)).collect();
        let objects =
            [("object 1", 100), ("object 2", 100), ("object 3", 100), ("object 0", 98), (NO_OBJECT, 1)];
        // The allocator's memory may be the heap, which has a name.
        assert!(told == objects || told[0].0 == "[heap]", "{told:?}");
        assert!(contents.codec_times.unwrap().is_sound());
        // The most pages that are asked for are read.
        let moment = sampler.look(&candidates, 10, |_| None);
        assert_eq!(moment.rows.len(), 10);
        drop((bytes, untouched));
    }

    /// Pages of this program's file are read, and not timed, because they do not go to swap.
    #[test]
    fn codec_times_are_those_of_pages_that_go_to_swap() {
        let mut sampler = Sampler::of(std::process::id(), 1.0).unwrap();
        let code = sampler.memory.as_ref().unwrap().mappings();
        let program = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let code = code.iter().find(|mapping| mapping.name == program).unwrap();
        let candidate = |page| Candidate { page, last_use: None, kept_at: None };
        let candidates: Vec<_> = code.pages.clone().take(200).map(candidate).collect();
        let moment = sampler.look(&candidates, 200, |_| None);
        let compressed = |row: &&Row| matches!(row.contents, PageContents::Other { .. });
        assert!(moment.rows.iter().any(|row| compressed(&row)), "{moment:?}");
        assert_eq!(moment.codec_times, None);
    }

    #[test]
    fn codec_times_are_the_median_of_the_moments_that_have_some() {
        let mut sampler = Sampler::of(std::process::id(), 1.0).unwrap();
        let of = |ns| Some(CodecTimes { lz4: CodecTime::new(ns, 7), zstd: CodecTime::new(2 * ns, 8) });
        for codec_times in [of(500), None, of(100), None, of(90_000)] {
            sampler.moments.push(Moment { unread: 1, codec_times, ..Moment::default() });
        }
        assert_eq!(sampler.contents(|_| String::new()).unwrap().codec_times, of(500));
    }

    #[test]
    fn a_process_that_is_not_there_has_pages_that_cannot_be_read() {
        let mut sampler = Sampler::of(u32::MAX >> 1, 1.0).unwrap();
        let candidates = [Candidate { page: 5, last_use: None, kept_at: None }];
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(sampler.look_if_due(|_, _| candidates.to_vec(), |_| None));
        let contents = sampler.contents(|_| String::new()).unwrap();
        assert_eq!((contents.moments, contents.unread_pages, contents.sampled().pages), (1, 1, 0));
        assert!(contents.objects.is_empty());
    }
}
