//! Models of the board under `loom`: the board's own code in every order of the agent's and the
//! command's steps, with every value that a load may return (see CONTRIBUTING.md).
//!
//! The board is all of a lease that both sides write to. The rest is messages: a socket keeps them
//! in order, and each side has one thread that sends and reads them.

use super::*;
use alloc::sync::Arc;
use loom::sync::mpsc::channel;
use loom::thread::{JoinHandle, spawn};

const PAGE: usize = 0;

/// A board as it is in new memory.
fn board() -> Arc<Board> {
    Arc::new(Board {
        agent_ns: AtomicU64::new(0),
        reading: AtomicU32::new(0),
        rest: core::array::from_fn(|_| core::sync::atomic::AtomicU8::new(0)),
        bits: core::array::from_fn(|_| AtomicU8::new(0)),
    })
}

/// The agent's thread.
fn agent<R: 'static>(board: &Arc<Board>, work: impl FnOnce(&Board) -> R + 'static) -> JoinHandle<R> {
    let board = board.clone();
    spawn(move || work(&board))
}

/// Whether the page has been referenced since the latest look.
fn look(board: &Board) -> bool {
    board.clear(PAGE, REFERENCED) & REFERENCED != 0
}

#[test]
fn a_reference_is_found_once_now_or_at_the_next_look() {
    loom::model(|| {
        let board = board();
        let agent = agent(&board, |board| board.set(PAGE, REFERENCED));
        let during = [look(&board), look(&board)];
        agent.join().unwrap();
        let after = [look(&board), look(&board)];
        let found = during.into_iter().chain(after).filter(|&found| found).count();
        assert_eq!(found, 1, "{during:?}, then {after:?}");
    });
}

#[test]
fn a_reference_goes_with_its_page_unless_the_command_has_found_it() {
    loom::model(|| {
        let board = board();
        let agent = agent(&board, |board| {
            board.set(PAGE, REFERENCED);
            // As `Pages::set` does when a page leaves.
            board.clear(PAGE, u8::MAX) & REFERENCED != 0
        });
        let is_found = look(&board);
        let has_gone = agent.join().unwrap();
        assert_ne!(is_found, has_gone);
        assert_eq!(board.get(PAGE), 0, "the next page with this id has not been referenced");
    });
}

#[test]
fn a_page_is_referenced_when_the_command_hears_of_it() {
    loom::model(|| {
        let board = board();
        let (socket, reports) = channel();
        let agent = agent(&board, move |board| {
            board.set(PAGE, REFERENCED);
            socket.send(Report::Insert.word(PAGE)).unwrap();
        });
        assert_eq!(reports.recv().map(Report::parse), Ok(Some((Report::Insert, PAGE as u32))));
        assert_eq!(board.get(PAGE), REFERENCED, "the command counts it as used");
        assert!(look(&board));
        agent.join().unwrap();
        assert_eq!(board.get(PAGE), 0, "it starts with the bit that the policy gave it");
    });
}
