//! CLOCK-Pro: hot, cold and remembered non-resident pages on one circle with three hands.
//!
//! A page is hot; or cold and resident, in its test period or not; or cold and non-resident, in its
//! test period. All hands move from larger towards smaller recency. HAND_hot stands at the list's
//! tail; inserting at the list's head is inserting just behind HAND_hot, where it arrives last.
//! HAND_cold evicts, HAND_test bounds the history. A hit sets the page's reference bit and does
//! nothing else.
//!
//! Here the circle is a queue that begins at HAND_hot, so that HAND_hot advances by rotating the
//! queue and a page enters at the head by being pushed at the back. The other two hands name the
//! page they stand at.
//!
//! Decisions:
//! * All hands start at the first page. Should the circle become empty, the next page is the first
//!   again.
//! * A page that leaves its place, removed or moved to the head, first passes on the hands that
//!   stand at it.
//! * HAND_cold stays on the entry after the evicted one when no resident cold page is left.
//! * HAND_hot advances past the page it demoted even if no hot page is left. After the demotion
//!   it walks on to the next hot page, ending the tests it meets. It pushes HAND_test along
//!   whenever it leaves the entry where both stand, hot or cold.
//! * A cold page's bit is cleared where the text says so only: HAND_hot and HAND_test leave it
//!   alone. They look at it: a resident page whose bit is set when its test ends was accessed in
//!   its test (section 4.4).
//! * `limit` times M is rounded down.
//! * While pages are filled in hot, `mc0` decides how many; the adaptation cannot act before the
//!   first eviction.
//! * With `adaptive` false, `mc0` is the cold allocation throughout; it is clamped to `lo` ..= `hi`
//!   all the same.
//! * Evicting a referenced page out of test (`ReferencedNotInTest::Evict`) treats it as one with
//!   bit 0: its entry is removed. A referenced page in test is promoted before the rule is asked.

use std::collections::VecDeque;

use super::{Given, Step};
use crate::arguments::Rounding;

/// What a page becomes while memory has free frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warm {
    /// Hot until the hot target is reached, then cold in test.
    #[default]
    Hot,
    /// Cold in test.
    Cold,
}

/// What HAND_cold does with a referenced cold page whose test period is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReferencedNotInTest {
    /// It moves to the list head and stays as it is.
    #[default]
    Keep,
    /// It moves to the list head and starts a new test period.
    NewTest,
    /// It is evicted although referenced.
    Evict,
}

/// What the end of a test does to the allocation if the page is resident and referenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestEnd {
    /// The page was accessed in its test: one more.
    #[default]
    Grow,
    /// Nothing.
    Keep,
    /// As any test that ends: one less.
    Shrink,
}

/// The parameters of CLOCK-Pro.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockProOptions {
    /// The cold allocation follows the tests' outcomes; otherwise it stays at `mc0`.
    pub adaptive: bool,
    /// The allocation follows the rule of CLOCK-Pro+ instead.
    pub plus: bool,
    /// The first cold allocation in frames.
    pub mc0: usize,
    /// Least cold allocation in frames.
    pub lo: usize,
    /// Greatest cold allocation in frames; never more than M - 1, which `None` stands for (1 when M
    /// = 1).
    pub hi: Option<usize>,
    /// Non-resident pages remembered, as a multiple of M.
    pub limit: f64,
    /// The rule for the initial fill.
    pub warm: Warm,
    /// The rule for a referenced cold page out of test.
    pub ref_not_in_test: ReferencedNotInTest,
    /// The rule for the end of a test.
    pub test_end: TestEnd,
}

impl Default for ClockProOptions {
    /// The reading of the paper's text.
    fn default() -> ClockProOptions {
        ClockProOptions {
            adaptive: true,
            plus: false,
            mc0: 1,
            lo: 1,
            hi: None,
            limit: 1.0,
            warm: Warm::Hot,
            ref_not_in_test: ReferencedNotInTest::Keep,
            test_end: TestEnd::Grow,
        }
    }
}

impl ClockProOptions {
    /// The preset nearest to the paper's tables 1 and 2. It also asks for collapsed references,
    /// which is the caller's part.
    pub fn clockpro2005() -> ClockProOptions {
        ClockProOptions { limit: 3.0, ref_not_in_test: ReferencedNotInTest::NewTest, ..Self::default() }
    }

    /// A constant cold allocation of `m_c` frames.
    pub fn fixed(m_c: usize) -> ClockProOptions {
        ClockProOptions { adaptive: false, mc0: m_c, ..Self::default() }
    }
}

/// A page on the circle.
#[derive(Clone, Debug)]
struct Entry {
    page: u32,
    hot: bool,
    resident: bool,
    in_test: bool,
    referenced: bool,
    demoted: bool, // turned cold by HAND_hot, and not found referenced by HAND_cold since
}

/// CLOCK-Pro with a state that can be printed. The fields are those of the policy.
#[derive(Clone, Debug)]
pub struct ClockProModel {
    frames: usize,
    adaptive: bool,
    plus: bool,
    lo: usize,
    hi: usize,
    most_non_resident: usize, // floor(limit * M)
    warm: Warm,
    ref_not_in_test: ReferencedNotInTest,
    test_end: TestEnd,
    circle: VecDeque<Entry>, // from HAND_hot onwards: the tail first, the head last
    hand_cold: u32,          // the page HAND_cold stands at; undefined while the circle is empty
    hand_test: u32,          // the page HAND_test stands at; likewise
    m_c: usize,              // cold allocation
    n_hot: usize,
    n_cold: usize, // resident cold pages
    n_non: usize,  // non-resident cold pages
}

impl ClockProModel {
    /// An empty memory.
    pub fn new(frames: usize, options: &ClockProOptions) -> ClockProModel {
        assert!(frames >= 1, "a memory has at least one frame");
        let most = (frames - 1).max(1);
        let hi = options.hi.unwrap_or(most).clamp(1, most);
        let lo = options.lo.clamp(1, hi);
        ClockProModel {
            frames,
            adaptive: options.adaptive,
            plus: options.plus,
            lo,
            hi,
            most_non_resident: (options.limit * frames as f64).floor() as usize,
            warm: options.warm,
            ref_not_in_test: options.ref_not_in_test,
            test_end: options.test_end,
            circle: VecDeque::new(),
            hand_cold: 0,
            hand_test: 0,
            m_c: options.mc0.clamp(lo, hi),
            n_hot: 0,
            n_cold: 0,
            n_non: 0,
        }
    }

    /// One reference.
    pub fn access(&mut self, page: u32) -> Step {
        if let Some(entry) = self.circle.iter_mut().find(|entry| entry.page == page)
            && entry.resident
        {
            entry.referenced = true;
            return Step::hit();
        }
        let mut victim = None;
        if self.n_hot + self.n_cold == self.frames {
            victim = Some(self.run_cold());
            // Only now: the hands may have ended the page's test meanwhile.
            if let Some(position) = self.position(page) {
                let entry = &self.circle[position];
                assert!(!entry.hot && !entry.resident && entry.in_test);
                if self.plus {
                    self.adapt_plus((self.n_demoted() / self.n_non).max(1) as isize);
                }
                self.n_non -= 1;
                self.unlink(position);
                self.insert_at_head(page, true);
                self.adapt(1);
                self.demote_surplus();
                return Step::fault(victim);
            }
        }
        let filling = victim.is_none();
        let hot = filling && self.warm == Warm::Hot && self.n_hot < self.hot_target();
        self.insert_at_head(page, hot);
        Step::fault(victim)
    }

    /// Frames for hot pages.
    fn hot_target(&self) -> usize {
        self.frames - self.m_c
    }

    fn position(&self, page: u32) -> Option<usize> {
        self.circle.iter().position(|entry| entry.page == page)
    }

    /// The page after `page` in the direction of the hands.
    fn after(&self, page: u32) -> u32 {
        let position = self.position(page).expect("a hand stands at an entry");
        self.circle[(position + 1) % self.circle.len()].page
    }

    /// Takes an entry off the circle, after the hands at it have moved on. Counters are the
    /// caller's.
    fn unlink(&mut self, position: usize) -> Entry {
        let page = self.circle[position].page;
        let next = self.after(page);
        if self.hand_cold == page {
            self.hand_cold = next;
        }
        if self.hand_test == page {
            self.hand_test = next;
        }
        // At position 0, HAND_hot's, the next entry moves up and so HAND_hot forward.
        self.circle.remove(position).expect("the position is on the circle")
    }

    /// Puts an entry just behind HAND_hot. Counters are the caller's.
    fn link_at_head(&mut self, entry: Entry) {
        if self.circle.is_empty() {
            (self.hand_cold, self.hand_test) = (entry.page, entry.page);
        }
        self.circle.push_back(entry);
    }

    /// A page just loaded, hot or cold in test.
    fn insert_at_head(&mut self, page: u32, hot: bool) {
        if hot {
            self.n_hot += 1;
        } else {
            self.n_cold += 1;
        }
        self.link_at_head(Entry {
            page,
            hot,
            resident: true,
            in_test: !hot,
            referenced: false,
            demoted: false,
        });
    }

    /// Resident cold pages that were hot and have not been found referenced since.
    fn n_demoted(&self) -> usize {
        self.circle.iter().filter(|entry| entry.demoted).count()
    }

    /// A change by the rule of CLOCK-Pro+.
    fn adapt_plus(&mut self, change: isize) {
        self.m_c = self.m_c.saturating_add_signed(change).clamp(self.lo, self.hi);
    }

    /// One test has ended: `+1` by a re-access, `-1` without.
    fn adapt(&mut self, change: isize) {
        if self.adaptive && !self.plus {
            self.m_c = self.m_c.saturating_add_signed(change).clamp(self.lo, self.hi);
        }
    }

    /// After a promotion: hot pages beyond the target turn cold.
    fn demote_surplus(&mut self) {
        while self.n_hot > self.hot_target() {
            self.run_hot();
        }
    }

    /// HAND_cold: evicts one page and returns it.
    fn run_cold(&mut self) -> u32 {
        loop {
            let position = self.position(self.hand_cold).expect("a hand stands at an entry");
            let entry = self.circle[position].clone();
            self.hand_cold = self.after(entry.page);
            if entry.hot || !entry.resident {
                continue;
            }
            if entry.referenced && entry.demoted {
                if self.plus {
                    self.adapt_plus(-((self.n_non / self.n_demoted()).max(1) as isize));
                }
                self.circle[position].demoted = false;
            }
            let entry = self.circle[position].clone();
            if entry.referenced && entry.in_test {
                // Re-accessed in its test: it turns hot at the list head.
                self.unlink(position);
                self.link_at_head(Entry { hot: true, in_test: false, referenced: false, ..entry });
                self.n_cold -= 1;
                self.n_hot += 1;
                self.adapt(1);
                self.demote_surplus();
            } else if entry.referenced && self.ref_not_in_test != ReferencedNotInTest::Evict {
                self.unlink(position);
                let in_test = self.ref_not_in_test == ReferencedNotInTest::NewTest;
                self.link_at_head(Entry { in_test, referenced: false, ..entry });
            } else {
                self.n_cold -= 1;
                if entry.in_test {
                    self.circle[position].resident = false;
                    self.n_non += 1;
                    self.run_test();
                } else {
                    self.unlink(position);
                }
                self.rest_hand_cold();
                return entry.page;
            }
        }
    }

    /// Moves HAND_cold on to a resident cold page, if there is one.
    fn rest_hand_cold(&mut self) {
        if self.n_cold == 0 {
            return;
        }
        while !self.circle.iter().any(|e| e.page == self.hand_cold && !e.hot && e.resident) {
            self.hand_cold = self.after(self.hand_cold);
        }
    }

    /// HAND_hot: turns exactly one hot page cold, unless none is left.
    fn run_hot(&mut self) {
        let mut demoted = false;
        while self.n_hot > 0 {
            let entry = &mut self.circle[0];
            let page = entry.page;
            if entry.hot {
                if demoted {
                    return;
                }
                if entry.referenced {
                    entry.referenced = false;
                } else {
                    entry.hot = false; // cold, and not in test
                    entry.demoted = true;
                    self.n_hot -= 1;
                    self.n_cold += 1;
                    demoted = true;
                }
            } else if self.end_test(0) {
                continue; // removed: HAND_hot stands at the next entry already
            }
            if self.hand_test == page {
                self.hand_test = self.after(page);
            }
            self.circle.rotate_left(1);
        }
    }

    /// HAND_test: ends tests until the history is within its bound.
    fn run_test(&mut self) {
        while self.n_non > self.most_non_resident {
            let position = self.position(self.hand_test).expect("a hand stands at an entry");
            self.hand_test = self.after(self.hand_test);
            if !self.circle[position].hot {
                self.end_test(position);
            }
        }
    }

    /// Ends a cold page's test; a non-resident page is removed. Tells whether it was. A resident
    /// page's bit says whether it was re-accessed in its test.
    fn end_test(&mut self, position: usize) -> bool {
        let entry = &mut self.circle[position];
        if entry.in_test {
            entry.in_test = false;
            let change = match self.test_end {
                TestEnd::Grow if entry.referenced => 1,
                TestEnd::Keep if entry.referenced => 0,
                _ => -1,
            };
            self.adapt(change);
        }
        if self.circle[position].resident {
            return false;
        }
        self.n_non -= 1;
        self.unlink(position);
        true
    }

    /// The circle from HAND_hot onwards, then the cold allocation and the counters. H is hot, C
    /// cold and resident, n non-resident, t in test, `*` a set bit; `<` names the hands at a page:
    /// `H1*<hot<test H2 n3t C4t<cold | m_c=1 hot=2 cold=1 non=1`.
    pub fn state(&self) -> String {
        let mut entries = Vec::new();
        for (position, entry) in self.circle.iter().enumerate() {
            let letter = match (entry.hot, entry.resident) {
                (true, _) => 'H',
                (false, true) => 'C',
                (false, false) => 'n',
            };
            let mut text = format!("{letter}{}", entry.page);
            let marks = [
                (entry.in_test, "t"),
                (entry.referenced, "*"),
                (position == 0, "<hot"),
                (self.hand_cold == entry.page, "<cold"),
                (self.hand_test == entry.page, "<test"),
            ];
            for (holds, mark) in marks {
                if holds {
                    text += mark;
                }
            }
            entries.push(text);
        }
        let counters = format!("hot={} cold={} non={}", self.n_hot, self.n_cold, self.n_non);
        format!("{} | m_c={} {counters}", entries.join(" "), self.m_c)
    }
}

/// CLOCK-Pro with `frames` frames.
pub fn clock_pro(references: &[u32], frames: usize, options: &ClockProOptions) -> Vec<Step> {
    let mut model = ClockProModel::new(frames, options);
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let adaptive = given.name() != "clock-pro-fixed";
    let plus = given.name() == "clock-pro-plus";
    let bound = |name, rounding| adaptive.then(|| given.pages(name, rounding));
    let hi_rounding = if plus { Rounding::Down } else { Rounding::Nearest };
    let options = ClockProOptions {
        adaptive,
        plus,
        mc0: given.pages("cold", Rounding::Nearest),
        lo: bound("cold-min", Rounding::Nearest).unwrap_or(1),
        hi: bound("cold-max", hi_rounding),
        limit: given.arguments.factor("history").expect("checked by the spec"),
        warm: if given.arguments.value("warm") == "hot" { Warm::Hot } else { Warm::Cold },
        ref_not_in_test: match given.arguments.value("referenced-cold") {
            "keep" => ReferencedNotInTest::Keep,
            "new-test" => ReferencedNotInTest::NewTest,
            _ => ReferencedNotInTest::Evict,
        },
        test_end: match given.name() {
            "clock-pro" => match given.arguments.value("test-end") {
                "grow" => TestEnd::Grow,
                "keep" => TestEnd::Keep,
                _ => TestEnd::Shrink,
            },
            _ => TestEnd::Shrink,
        },
    };
    clock_pro(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{E1, E2, SECOND, for_random_strings, outcome, outcomes_on_examples, trace};
    use super::{ClockProModel, ClockProOptions, ReferencedNotInTest, TestEnd, Warm, clock_pro};
    use sweephand_checks::trying;

    /// The trace lines, which put a bar before the state.
    fn clock_pro_trace(references: &[u32], frames: usize, options: &ClockProOptions) -> String {
        let mut model = ClockProModel::new(frames, options);
        trace(references, |page| (model.access(page), format!("| {}", model.state())))
    }

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        for options in [ClockProOptions::fixed(1), ClockProOptions::default()] {
            let row = outcomes_on_examples(|refs, frames| clock_pro(refs, frames, &options));
            assert_eq!(row, "8:34534 | 9:45454 | 9:45678", "{options:?}");
        }
    }

    #[test]
    fn goes_through_the_known_states_of_the_first_string() {
        let expected = "\
1 F [] | H1<hot<cold<test | m_c=1 hot=1 cold=0 non=0
2 F [] | H1<hot<cold<test H2 | m_c=1 hot=2 cold=0 non=0
3 F [] | H1<hot<cold<test H2 C3t | m_c=1 hot=2 cold=1 non=0
4 F [3] | H1<hot<cold<test H2 n3t C4t | m_c=1 hot=2 cold=1 non=1
1 h [] | H1*<hot<cold<test H2 n3t C4t | m_c=1 hot=2 cold=1 non=1
2 h [] | H1*<hot<cold<test H2* n3t C4t | m_c=1 hot=2 cold=1 non=1
5 F [4] | H1*<hot<cold<test H2* n3t n4t C5t | m_c=1 hot=2 cold=1 non=2
1 h [] | H1*<hot<cold<test H2* n3t n4t C5t | m_c=1 hot=2 cold=1 non=2
2 h [] | H1*<hot<cold<test H2* n3t n4t C5t | m_c=1 hot=2 cold=1 non=2
3 F [5] | H1<hot<cold<test H2 C3 | m_c=1 hot=2 cold=1 non=0
4 F [3] | H1<hot<cold<test H2 C4t | m_c=1 hot=2 cold=1 non=0
5 F [4] | H1<hot<cold<test H2 n4t C5t | m_c=1 hot=2 cold=1 non=1";
        assert_eq!(clock_pro_trace(E1, 3, &ClockProOptions::default()), expected);
    }

    #[test]
    fn goes_through_the_known_states_of_the_second_string() {
        let expected = "\
1 F [] | H1<hot<cold<test | m_c=2 hot=1 cold=0 non=0
2 F [] | H1<hot<cold<test H2 | m_c=2 hot=2 cold=0 non=0
3 F [] | H1<hot<cold<test H2 C3t | m_c=2 hot=2 cold=1 non=0
4 F [] | H1<hot<cold<test H2 C3t C4t | m_c=2 hot=2 cold=2 non=0
5 F [3] | H1<hot<test H2 n3t C4t<cold C5t | m_c=2 hot=2 cold=2 non=1
6 F [4] | H1<hot<test H2 n3t n4t C5t<cold C6t | m_c=2 hot=2 cold=2 non=2
4 F [5] | H4<hot<test C1 C2 C6<cold | m_c=1 hot=1 cold=3 non=0
2 h [] | H4<hot<test C1 C2* C6<cold | m_c=1 hot=1 cold=3 non=0
7 F [6] | H4<hot<test C1<cold C2* C7t | m_c=1 hot=1 cold=3 non=0
5 F [1] | H4<hot<test C2*<cold C7t C5t | m_c=1 hot=1 cold=3 non=0
1 F [7] | H4<hot<test n7t C5t<cold C2 C1t | m_c=1 hot=1 cold=3 non=1
6 F [5] | H4<hot<test n7t n5t C2<cold C1t C6t | m_c=1 hot=1 cold=3 non=2
3 F [2] | H4<hot<test n7t n5t C1t<cold C6t C3t | m_c=1 hot=1 cold=3 non=2
4 h [] | H4*<hot<test n7t n5t C1t<cold C6t C3t | m_c=1 hot=1 cold=3 non=2
8 F [1] | H4*<hot<test n7t n5t n1t C6t<cold C3t C8t | m_c=1 hot=1 cold=3 non=3
1 F [6] | H4*<hot<test n7t n5t n6t C3t<cold C8t H1 | m_c=2 hot=2 cold=2 non=3
2 F [3] | H4*<hot<test n7t n5t n6t n3t C8t<cold H1 C2t | m_c=2 hot=2 cold=2 non=4
5 F [8] | H5<hot<test H4 C1 C2<cold | m_c=1 hot=2 cold=2 non=0";
        let options = ClockProOptions { mc0: 2, ..ClockProOptions::default() };
        assert_eq!(clock_pro_trace(SECOND, 4, &options), expected);
        assert_eq!(outcome(&clock_pro(SECOND, 4, &options)), "16:345617521638");
        assert_eq!(outcome(&clock_pro(SECOND, 4, &ClockProOptions::fixed(2))), "15:34561741634");
    }

    #[test]
    fn fixed_cold_allocation_hits_its_hot_pages_on_a_loop() {
        let steps = clock_pro(E2, 4, &ClockProOptions::fixed(1));
        let hits = |round: usize| steps[5 * round..5 * (round + 1)].iter().filter(|step| !step.fault).count();
        assert_eq!([hits(0), hits(1), hits(2)], [0, 3, 3]);
    }

    #[test]
    fn one_frame_holds_the_last_page() {
        for warm in [Warm::Hot, Warm::Cold] {
            let options = ClockProOptions { warm, ..ClockProOptions::default() };
            assert_eq!(outcome(&clock_pro(&[1, 2, 1, 1, 2, 3, 3, 1], 1, &options)), "6:12123", "{warm:?}");
        }
    }

    #[test]
    fn invariants_hold() {
        let mut readings = Vec::new();
        for warm in [Warm::Hot, Warm::Cold] {
            for limit in [0.0, 0.5, 1.0, 3.0] {
                use ReferencedNotInTest::{Evict, Keep, NewTest};
                for ref_not_in_test in [Keep, NewTest, Evict] {
                    let options =
                        ClockProOptions { limit, warm, ref_not_in_test, ..ClockProOptions::default() };
                    readings.push(options.clone());
                    readings.push(ClockProOptions { test_end: TestEnd::Keep, ..options.clone() });
                    readings.push(ClockProOptions { test_end: TestEnd::Shrink, ..options.clone() });
                    readings.push(ClockProOptions { mc0: 3, lo: 2, hi: Some(5), ..options.clone() });
                    readings.push(ClockProOptions { adaptive: false, mc0: 2, ..options });
                }
            }
        }
        for_random_strings(|references, frames| {
            for options in &readings {
                let _input = trying(|| format!("{options:?}"));
                let mut model = ClockProModel::new(frames, options);
                for &page in references {
                    model.access(page);
                    check(&model);
                    let full = model.n_hot + model.n_cold == frames;
                    if full && !options.adaptive && frames > 1 && options.warm == Warm::Hot {
                        assert_eq!(model.n_hot, model.hot_target());
                    }
                }
            }
        });
    }

    /// The invariants.
    fn check(model: &ClockProModel) {
        let count = |hot, resident| {
            model.circle.iter().filter(|entry| (entry.hot, entry.resident) == (hot, resident)).count()
        };
        assert_eq!(count(true, true), model.n_hot);
        assert_eq!(count(false, true), model.n_cold);
        assert_eq!(count(false, false), model.n_non);
        assert_eq!(count(true, false), 0);
        assert!(model.n_hot + model.n_cold <= model.frames);
        assert!(model.n_hot + model.n_cold < model.frames || model.n_cold >= 1);
        assert!(model.n_non <= model.most_non_resident);
        assert!((1..=(model.frames - 1).max(1)).contains(&model.m_c));
        for entry in &model.circle {
            assert!(!entry.hot || !entry.in_test);
            assert!(entry.resident || entry.in_test && !entry.referenced);
        }
        for hand in [model.hand_cold, model.hand_test] {
            assert!(model.circle.iter().any(|entry| entry.page == hand));
        }
    }
}
