//! A watch: looks at a process once a period, and takes in what it finds.

use crate::look::{Look, Mapping, Observer, Price, Sample, Seen, WatchError};
use crate::objects::{mapping_name, object_of};
use crate::{History, Pace, TraceSender};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::mem::take;
use std::time::{Duration, Instant};
use sweephand_contents::{Candidate, Sampler};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_pager_interface::recording::LEAST_OBJECT_BYTES;

/// The longest time for which a sample is tried before the first epoch.
const LONGEST_TRIAL: Duration = Duration::from_secs(1);
/// At most one part in this many of the overhead is spent on what pages contain.
const CONTENTS_PART: f64 = 4.0;

/// How to watch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The time between looks, unless that costs too much.
    pub every: Duration,
    /// The part of a processor's time that watching may cost: its own time, the time that the
    /// program's next uses of the pages take longer, and the interrupts of its processors.
    pub overhead: f64,
}

/// A process that is being watched.
#[derive(Debug)]
pub struct Watching {
    observer: Observer,
    options: Options,
    price: Price,
    pace: Pace,
    /// The next look says what the sample costs, and is no epoch.
    is_trial: bool,
    history: History,
    began: Instant,
    /// When the last look was. `None`: the bits have not been cleared yet.
    looked: Option<Instant>,
    /// The largest error of an epoch's used pages, as a part of them.
    largest_error: f64,
    children: Vec<u32>,
    /// Mappings that the trace knows, with their bytes.
    objects: BTreeMap<u64, u64>,
    /// What pages contain, if the trace says so.
    sampler: Option<Sampler>,
}

/// What has changed since the look before.
#[derive(Debug)]
pub enum Change {
    /// An epoch is over.
    Epoch(Box<Epoch>),
    /// The process has become another program, and is watched on.
    NewProgram,
    /// The process has ended.
    Ended,
}

/// An epoch.
#[derive(Debug)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: u64,
    /// When it ended, from the start of the watch.
    pub time: Duration,
    /// How long it was.
    pub length: Duration,
    /// What was found.
    pub look: Look,
    /// Pages used for the first time in the watch.
    pub first_used_pages: u64,
    /// What the look has cost: see [`Price::of`].
    pub cost: Duration,
    /// Processes that the process has started since the look before.
    pub new_children: Vec<u32>,
}

impl Watching {
    /// Prepares to watch a process. Nothing is cleared yet.
    pub fn of(process: u32, options: Options) -> Result<Self, WatchError> {
        let observer = Observer::of(process)?;
        let price = observer.price()?;
        let pace = Pace::new(options.every, options.overhead, price, observer.resident_pages());
        let children = observer.children();
        let mut watching = Self {
            observer,
            options,
            price,
            pace,
            is_trial: false,
            history: History::default(),
            began: Instant::now(),
            looked: None,
            largest_error: 0.0,
            children,
            objects: BTreeMap::new(),
            sampler: None,
        };
        watching.begin();
        Ok(watching)
    }

    /// From now on, the trace says what pages contain. That is a part of what watching costs.
    pub fn sample_contents(&mut self) {
        let share = Sampler::USUAL_SHARE.min(self.options.overhead / CONTENTS_PART);
        self.sampler = Sampler::of(self.observer.process(), share).ok();
    }

    /// Before the first look at a program: chooses the sample as if it used all its memory in each
    /// epoch. If that is not all, how much it does use is found out first.
    fn begin(&mut self) {
        let Options { every, overhead } = self.options;
        self.pace = Pace::new(every, overhead, self.price, self.observer.resident_pages());
        self.observer.set_sample(self.pace.sample());
        self.is_trial = self.pace.sample() != Sample::ALL;
        self.looked = None;
    }

    /// What a page costs.
    pub fn price(&self) -> Price {
        self.price
    }

    /// Pages of the process that are in memory, by the kernel's count.
    pub fn resident_pages(&self) -> u64 {
        self.observer.resident_pages()
    }

    /// The mappings of the process, with what the last look has found in them.
    pub fn mappings(&self) -> &[Mapping] {
        self.observer.mappings()
    }

    /// Has the history keep uses: see [`History::keep_uses`].
    pub fn keep_uses(&mut self) {
        self.history.keep_uses();
    }

    /// What the epochs so far say.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The largest standard error of an epoch's used pages, as a part of them. 0: all pages were
    /// looked at.
    pub fn largest_error(&self) -> f64 {
        self.largest_error
    }

    /// How often it looks, and at which pages.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// When it is time for the next look: at once for the first.
    pub fn next_look(&self) -> Instant {
        let period = self.pace.period();
        let period = if self.is_trial { period.min(LONGEST_TRIAL) } else { period };
        self.looked.map_or(self.began, |looked| looked + period)
    }

    /// Looks. The first look only clears bits, and so does the first of a new program: `None`. If
    /// all pages would cost too much, so does the second.
    pub fn look<W: Write>(
        &mut self,
        trace: &mut Option<TraceSender<W>>,
    ) -> Result<Result<Option<Change>, WatchError>, io::Error> {
        let (now, before) = (Instant::now(), self.looked);
        let look = match self.observer.look() {
            Err(error) => return Ok(Err(error)),
            Ok(Seen::Ended) => return Ok(Ok(Some(Change::Ended))),
            Ok(Seen::NewProgram) => {
                self.begin();
                self.history.forget_all();
                self.objects.clear();
                if self.sampler.is_some() {
                    self.sample_contents();
                }
                if let Some(trace) = trace {
                    trace.dropped(&(0..u64::MAX / PAGE_BYTES))?;
                    trace.note("the process became another program")?;
                }
                return Ok(Ok(Some(Change::NewProgram)));
            }
            Ok(Seen::Look(look)) => look,
        };
        self.looked = Some(now);
        let mut cost = self.price.of(&look);
        let Some(before) = before else { return Ok(Ok(None)) };
        if take(&mut self.is_trial) {
            self.pace.first_has_cost(cost, look.resident_pages);
            let is_thicker = self.pace.sample() != self.observer.sample();
            self.observer.set_sample(self.pace.sample());
            // Bits are cleared of what has come into the sample.
            return if is_thicker { self.look_at_first(trace) } else { Ok(Ok(None)) };
        }
        let taking_in = Instant::now();
        look.dropped.iter().for_each(|pages| self.history.forget(pages.clone()));
        let time = now - self.began;
        let length = now - before;
        let first_used_pages = self.history.add(&look.pages, look.weight(), time);
        if let Some(trace) = trace {
            look.dropped.iter().try_for_each(|pages| trace.dropped(pages))?;
            self.tell_objects(trace)?;
            trace.epoch(&look.pages, look.one_page_in, length.as_nanos() as u64)?;
            self.look_at_contents(trace)?;
        }
        let children = self.observer.children();
        let new_children = children.iter().copied().filter(|child| !self.children.contains(child)).collect();
        self.children = children;
        let number = self.history.epochs();
        let error = look.used_pages_error / look.used_pages().max(1) as f64;
        self.largest_error = self.largest_error.max(error);
        cost += taking_in.elapsed();
        self.pace.has_cost(cost, look.resident_pages);
        let (was, sample) = (self.observer.sample(), self.pace.sample());
        if was != sample {
            self.observer.set_sample(sample);
            let left_out = self.history.keep_only(sample, was);
            if let Some(trace) = trace {
                left_out.iter().try_for_each(|pages| trace.dropped(pages))?;
            }
        }
        let epoch = Epoch { number, time, length, look, first_used_pages, cost, new_children };
        Ok(Ok(Some(Change::Epoch(Box::new(epoch)))))
    }

    /// The first look again.
    fn look_at_first<W: Write>(
        &mut self,
        trace: &mut Option<TraceSender<W>>,
    ) -> Result<Result<Option<Change>, WatchError>, io::Error> {
        self.looked = None;
        self.look(trace)
    }

    /// Tells the trace what pages contain, if it is time to look.
    fn look_at_contents<W: Write>(&mut self, trace: &mut TraceSender<W>) -> io::Result<()> {
        let Self { sampler: Some(sampler), observer, history, objects, .. } = self else { return Ok(()) };
        let candidate = |page| Candidate { page, last_use: history.last_use(page), kept_at: None };
        let choose =
            |pages, moment| observer.choose(pages, moment).into_iter().map(candidate).collect::<Vec<_>>();
        if sampler.look_if_due(choose, |page| object_of(objects, page * PAGE_BYTES))
            && let Some(contents) = sampler.contents(|address| mapping_name(objects, address))
        {
            trace.contents(contents)?;
        }
        Ok(())
    }

    /// Tells the trace which mappings have appeared, changed and gone.
    fn tell_objects<W: Write>(&mut self, trace: &mut TraceSender<W>) -> io::Result<()> {
        let bytes = |mapping: &Mapping| (mapping.pages.end - mapping.pages.start) * PAGE_BYTES;
        let is_object = |mapping: &&Mapping| bytes(mapping) >= LEAST_OBJECT_BYTES as u64;
        let there: BTreeMap<u64, u64> = self
            .mappings()
            .iter()
            .filter(is_object)
            .map(|mapping| (mapping.pages.start * PAGE_BYTES, bytes(mapping)))
            .collect();
        for address in self.objects.keys().filter(|address| !there.contains_key(address)) {
            trace.unmapped(*address)?;
        }
        for (address, bytes) in &there {
            if self.objects.get(address) != Some(bytes) {
                trace.mapped(*address, *bytes)?;
            }
        }
        self.objects = there;
        Ok(())
    }
}
