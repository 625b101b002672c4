//! Models of the shared state under `loom`: its own code in every order of the agent's and the
//! command's steps, with every value that a load may return (see CONTRIBUTING.md).
//!
//! The shared state is all of a lease that both sides write to. The rest is messages. A socket
//! keeps them in order, and each side has one thread that sends and reads them.

use super::*;
use alloc::sync::Arc;
use loom::sync::mpsc::channel;
use loom::thread::{JoinHandle, spawn};

const PAGE: usize = 0;

/// A shared state as it is in new memory.
fn shared_state() -> Arc<SharedState> {
    Arc::new(SharedState {
        agent_ns: AtomicU64::new(0),
        reading: AtomicU32::new(0),
        rest: core::array::from_fn(|_| core::sync::atomic::AtomicU8::new(0)),
        bits: core::array::from_fn(|_| AtomicU8::new(0)),
    })
}

/// The agent's thread.
fn agent<R: 'static>(
    shared: &Arc<SharedState>,
    work: impl FnOnce(&SharedState) -> R + 'static,
) -> JoinHandle<R> {
    let shared = shared.clone();
    spawn(move || work(&shared))
}

/// Whether the page has been referenced since the latest look.
fn look(shared: &SharedState) -> bool {
    shared.clear(PAGE, REFERENCED) & REFERENCED != 0
}

#[test]
fn a_reference_is_found_once_now_or_at_the_next_look() {
    loom::model(|| {
        let shared = shared_state();
        let agent = agent(&shared, |shared| shared.set(PAGE, REFERENCED));
        let during = [look(&shared), look(&shared)];
        agent.join().unwrap();
        let after = [look(&shared), look(&shared)];
        let found = during.into_iter().chain(after).filter(|&found| found).count();
        assert_eq!(found, 1, "{during:?}, then {after:?}");
    });
}

#[test]
fn a_reference_goes_with_its_page_unless_the_command_has_found_it() {
    loom::model(|| {
        let shared = shared_state();
        let agent = agent(&shared, |shared| {
            shared.set(PAGE, REFERENCED);
            // As `Pages::set` does when a page leaves.
            shared.clear(PAGE, u8::MAX) & REFERENCED != 0
        });
        let is_found = look(&shared);
        let has_gone = agent.join().unwrap();
        assert_ne!(is_found, has_gone);
        assert_eq!(shared.get(PAGE), 0, "the next page with this id has not been referenced");
    });
}

#[test]
fn a_page_is_referenced_when_the_command_hears_of_it() {
    loom::model(|| {
        let shared = shared_state();
        let (socket, reports) = channel();
        let agent = agent(&shared, move |shared| {
            shared.set(PAGE, REFERENCED);
            socket.send(Report::Insert.word(PAGE)).unwrap();
        });
        assert_eq!(reports.recv().map(Report::parse), Ok(Some((Report::Insert, PAGE as u32))));
        assert_eq!(shared.get(PAGE), REFERENCED, "the command counts it as used");
        assert!(look(&shared));
        agent.join().unwrap();
        assert_eq!(shared.get(PAGE), 0, "it starts with the bit that the policy gave it");
    });
}
