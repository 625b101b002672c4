//! Models of the mailbox under `loom`: see `atomic`. Each runs the mailbox's own code on a few
//! threads in every order of their steps, up to a number of preemptions (`LOOM_MAX_PREEMPTIONS`).
//!
//! A model has few slots, so that every call needs the slot of another one.

use super::*;
use crate::kernel::BELLS;
use loom::thread::{JoinHandle, spawn};
use std::sync::Arc;

/// Runs a model with a mailbox that is open, and says in how many orders.
fn model(work: impl Fn(Arc<Mailbox>) + Send + Sync + 'static) {
    let orders = Arc::new(core::sync::atomic::AtomicU64::new(0));
    let counted = orders.clone();
    loom::model(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        work(open());
    });
    println!("{} orders", orders.load(Ordering::Relaxed));
}

/// Every atomic is used here, before there are other threads.
fn open() -> Arc<Mailbox> {
    kernel::make_bells();
    let mailbox = Mailbox::new();
    mailbox.begin_anew();
    mailbox.open(BELLS);
    for slot in &mailbox.slots {
        slot.call.store(0, Ordering::Relaxed);
        slot.arguments.iter().for_each(|argument| argument.store(0, Ordering::Relaxed));
        slot.answer.store(0, Ordering::Relaxed);
    }
    mailbox.empty.publish(&[(0, 0)]);
    mailbox.empty.withdraw();
    Arc::new(mailbox)
}

fn thread(mailbox: &Arc<Mailbox>, work: impl FnOnce(&Mailbox) + 'static) -> JoinHandle<()> {
    let mailbox = mailbox.clone();
    spawn(move || work(&mailbox))
}

fn arguments(number: usize) -> [usize; ARGUMENTS] {
    [number, !number, 0]
}

/// The answer that the agent of a model gives to a call.
fn answer_of(number: usize) -> isize {
    number as isize + 1
}

/// The agent, as it is in `calls` and `program`.
struct Agent<'a> {
    mailbox: &'a Mailbox,
    /// Slots with a page at their doorbell.
    with_page: u64,
    /// By call: how often it was answered.
    answered: Vec<u32>,
}

impl<'a> Agent<'a> {
    fn new(mailbox: &'a Mailbox, calls: usize) -> Self {
        Self { mailbox, with_page: 0, answered: vec![0; calls] }
    }

    /// Answers all calls of a model, each once.
    fn serve(mut self) {
        while self.answered.contains(&0) {
            let rung = kernel::wait_for_bells();
            self.answer_all(rung);
        }
        assert!(self.answered.iter().all(|&times| times == 1), "a call was answered twice");
    }

    fn answer_all(&mut self, rung: u64) {
        self.clear_bells();
        let slots = rung | self.mailbox.take_posted();
        for slot in (0..SLOTS).filter(|slot| slots >> slot & 1 != 0) {
            if let Some((_, [number, check, _])) = self.mailbox.call_of(slot) {
                assert_eq!(check, !number, "arguments of two calls");
                self.answered[number] += 1;
                self.mailbox.answer(slot, answer_of(number));
            }
            kernel::put_bell(slot);
            self.with_page |= 1 << slot;
        }
    }

    fn clear_bells(&mut self) {
        for slot in 0..SLOTS {
            if self.with_page >> slot & 1 != 0 && self.mailbox.is_at_rest(slot) {
                drop_bell(BELLS + slot * PAGE_BYTES);
                self.with_page &= !(1 << slot);
                self.mailbox.free(slot);
            }
        }
    }
}

/// Makes a call that does not need an answer.
fn call(mailbox: &Mailbox, number: usize) {
    let answer = mailbox.ask(Call::Grown, arguments(number));
    // Another thread may take the slot before the answer is read.
    assert!(answer == Some(answer_of(number)) || answer == Some(0), "{number}: {answer:?}");
}

/// Makes a call that needs its answer.
fn question(mailbox: &Mailbox, number: usize) {
    assert_eq!(mailbox.ask(Call::Threads, arguments(number)), Some(answer_of(number)));
}

#[test]
fn a_thread_gets_the_answers_to_its_calls_in_turn() {
    model(|mailbox| {
        let caller = thread(&mailbox, |mailbox| (0..3).for_each(|number| question(mailbox, number)));
        Agent::new(&mailbox, 3).serve();
        caller.join().unwrap();
    });
}

#[test]
fn a_slot_can_be_taken_before_its_answer_is_read() {
    model(|mailbox| {
        let callers = [0, 1].map(|number| thread(&mailbox, move |mailbox| call(mailbox, number)));
        Agent::new(&mailbox, 2).serve();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn an_answer_that_is_needed_is_not_lost() {
    model(|mailbox| {
        let callers = [0, 1].map(|number| thread(&mailbox, move |mailbox| question(mailbox, number)));
        Agent::new(&mailbox, 2).serve();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn a_thread_that_never_comes_back_keeps_nobody_from_an_answer() {
    model(|mailbox| {
        let lost = thread(&mailbox, |mailbox| {
            kernel::ring_bell(mailbox.post(BELLS, Call::Grown, arguments(0)).slot);
        });
        let caller = thread(&mailbox, |mailbox| question(mailbox, 1));
        Agent::new(&mailbox, 2).serve();
        lost.join().unwrap();
        caller.join().unwrap();
    });
}

#[test]
fn no_mapping_moves_while_moves_are_blocked() {
    model(|mailbox| {
        // A move has two halves.
        let halves = Arc::new(AtomicU32::new(0));
        halves.store(0, Ordering::Relaxed);
        let of_mover = halves.clone();
        let mover = thread(&mailbox, move |mailbox| {
            mailbox.move_mapping(|| {
                of_mover.fetch_add(1, Ordering::Relaxed);
                of_mover.fetch_add(1, Ordering::Relaxed);
            });
        });
        if mailbox.try_block_moves() {
            let [before, after] = [(); 2].map(|()| halves.load(Ordering::Relaxed));
            assert!(before == after && before % 2 == 0, "a mapping moved: {before}, {after}");
            mailbox.allow_moves();
        }
        mover.join().unwrap();
        assert!(mailbox.try_block_moves(), "no move is under way");
    });
}

#[test]
fn ranges_that_were_withdrawn_are_not_taken_for_others() {
    model(|mailbox| {
        mailbox.empty.publish(&[(10, 20)]);
        let reader = thread(&mailbox, |mailbox| {
            assert!(!mailbox.empty.contains(15, 35), "the start of one and the end of the other");
            _ = mailbox.empty.contains(12, 18);
        });
        mailbox.empty.publish(&[(30, 40)]);
        mailbox.empty.publish(&[(10, 20)]);
        reader.join().unwrap();
    });
}
