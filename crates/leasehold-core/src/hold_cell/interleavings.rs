//! Models of a hold that one thread ends or renews while other threads read it. loom explores every order that the
//! memory model allows.

use super::*;
use crate::owner::{ClientId, HoldNumber};
use loom::thread::{self, Thread};
use std::task::Wake;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// A hold with the deadline 1000.
fn cell() -> Arc<HoldCell> {
    let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
    let cell = HoldCell::new(name, 1, at(0), None);
    assert!(cell.set_deadline(at(1_000)));
    Arc::new(cell)
}

/// Ends the hold as the session does.
fn end(cell: &HoldCell) {
    let mut woken = Vec::new();
    cell.end(HoldEnd::Released, &mut woken);
    woken.into_iter().for_each(Waker::wake);
}

/// Wakes a thread of the model.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

/// Waits as a task does: registers, checks for the end, then sleeps. loom reports a missing wake-up as a deadlock.
fn wait_for_end(watch: &mut EndWatch, cell: &HoldCell) {
    let waker = waker();
    loop {
        watch.wake_at_end(&waker);
        if cell.ended(at(0)).is_some() {
            return;
        }
        thread::park();
    }
}

#[test]
fn a_task_that_waits_for_the_end_is_always_woken() {
    loom::model(|| {
        let cell = cell();
        let watched = cell.clone();
        let waits = thread::spawn(move || wait_for_end(&mut EndWatch::new(watched.clone()), &watched));
        end(&cell);
        waits.join().expect("it is woken");
        assert_eq!(cell.watchers(), 0);
    });
}

#[test]
fn an_end_that_is_not_told_by_the_watch_wakes() {
    loom::model(|| {
        let cell = cell();
        let watched = cell.clone();
        let watches = thread::spawn(move || {
            // The model uses only the return value, as a loss token does.
            if EndWatch::new(watched.clone()).keep_with(&waker()) {
                thread::park();
            }
            assert!(watched.ended(at(0)).is_some());
        });
        end(&cell);
        watches.join().expect("it is told or woken");
    });
}

impl EndWatch {
    fn keep_with(mut self, waker: &Waker) -> bool {
        let is_held = self.wake_at_end(waker);
        self.keep();
        is_held
    }
}

#[test]
fn the_last_waker_of_a_task_that_moves_is_woken() {
    loom::model(|| {
        let cell = cell();
        let watched = cell.clone();
        let moves = thread::spawn(move || {
            let mut watch = EndWatch::new(watched.clone());
            watch.wake_at_end(Waker::noop());
            wait_for_end(&mut watch, &watched);
        });
        end(&cell);
        moves.join().expect("it is woken");
        assert_eq!(cell.watchers(), 0);
    });
}

#[test]
fn watches_that_are_dropped_at_the_end_leave_nothing() {
    loom::model(|| {
        let cell = cell();
        let drops = [0, 1].map(|_| {
            let watched = cell.clone();
            thread::spawn(move || {
                let _ = EndWatch::new(watched).wake_at_end(Waker::noop());
            })
        });
        end(&cell);
        drops.into_iter().for_each(|drops| drops.join().expect("a drop"));
        assert_eq!(cell.watchers(), 0);
    });
}

#[test]
fn a_deadline_is_either_moved_or_seen_to_pass() {
    loom::model(|| {
        let cell = cell();
        let [first, second] = [cell.clone(), cell.clone()].map(|seen| {
            thread::spawn(move || {
                let is_lost = seen.ended(at(1_500)).is_some();
                assert!(!is_lost || seen.ended(at(0)).is_some(), "a hold that was lost is held again");
                is_lost
            })
        });
        let is_moved = cell.set_deadline(at(2_000));
        let is_lost = [first, second].map(|seen| seen.join().expect("an answer")).contains(&true);
        assert_ne!(
            is_moved, is_lost,
            "a guard is told of a loss that the session does not know of, or nothing happened"
        );
    });
}

#[test]
fn a_loss_is_told_with_the_reason_that_its_deadline_has() {
    loom::model(|| {
        let cell = cell();
        let renewing = cell.clone();
        let renews = thread::spawn(move || {
            renewing.set_renewed(1);
            renewing.set_deadline(at(2_000));
        });
        if cell.deadline() == at(2_000) {
            assert_eq!(cell.would_end(at(3_000)), Some(HoldEnd::Lost(LossReason::NotRenewed)));
        }
        renews.join().expect("a renewal");
    });
}
