//! What is to be done about a hold, in every state of its clean-up.

use super::*;
use crate::command::Kind;
use crate::name::LockName;
use crate::owner::{ClientId, HoldName, HoldNumber};
use crate::session::hold::change::Change;
use crate::session::ids::Id;
use crate::session::{AcquireRequest, CallId};

const LEASE: Duration = Duration::from_secs(4);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
}

fn change(now: Instant, by: Option<Ticket>, aim: CountChange) -> Change {
    Change::new(now, CallId(1), by, aim, 0).with_lease(LEASE)
}

/// A hold that was asked for at 0.
fn asked_for() -> Hold {
    let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
    let wish = AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, LEASE);
    let mut hold = Hold::new(at(0), Id::new(0), Ticket::new(1), name, &wish);
    hold.begin_change(change(at(0), Some(Ticket::new(1)), CountChange::RaiseTo(1)));
    hold.extend_clean_up(at(0));
    hold
}

/// The same, granted, with one guard.
fn held() -> Hold {
    let mut hold = asked_for();
    let sent = hold.end_change().expect("it was asked for");
    hold.note_grant(None);
    hold.confirm_grant(at(1), &sent, LEASE);
    hold.end_raising();
    hold.grant(true);
    hold
}

#[test]
fn next_step_follows_the_count_and_what_is_on_its_way() {
    type Prepare = fn(&mut Hold);
    let rows: [(Prepare, NextStep); 6] = [
        (|_| {}, NextStep::GoOn),
        // A caller sends the release by itself.
        (|hold| assert!(hold.remove_guard(true)), NextStep::Nothing),
        (
            |hold| {
                hold.remove_guard(true);
                hold.leave_to_background();
            },
            NextStep::Lower,
        ),
        // It waits for room.
        (
            |hold| {
                hold.remove_guard(true);
                hold.leave_to_background();
                hold.set_queued(true);
            },
            NextStep::Nothing,
        ),
        (|hold| hold.begin_change(change(at(2), None, CountChange::LowerTo(0))), NextStep::Nothing),
        (
            |hold| {
                hold.remove_guard(true);
                hold.note_absent();
            },
            NextStep::Forget,
        ),
    ];
    for (row, (prepare, expected)) in rows.into_iter().enumerate() {
        let mut hold = held();
        prepare(&mut hold);
        assert_eq!(hold.next_step(at(3)), expected, "row {row}: {hold:?}");
    }
}

#[test]
fn abandoned_hold_is_forgotten_when_its_lease_is_over() {
    let mut hold = held();
    hold.remove_guard(true);
    hold.leave_to_background();
    assert_eq!(hold.next_step(at(3_999)), NextStep::Lower);
    assert_eq!(hold.next_step(at(4_000)), NextStep::Forget);
    hold.keep_until(at(5_000));
    assert_eq!((hold.next_step(at(4_000)), hold.is_over(at(5_000))), (NextStep::Lower, true));
}

#[test]
fn settled_acquire_is_tried_again_and_settled_entry_taken_back() {
    let mut hold = asked_for();
    assert_eq!(hold.note_settled(at(5), true), AfterSettling::TryAgain(Ticket::new(1)));
    let mut hold = held();
    let count = hold.begin_entry(Ticket::new(2));
    hold.begin_change(change(at(2), Some(Ticket::new(2)), CountChange::RaiseTo(count)));
    assert_eq!(hold.note_settled(at(5), false), AfterSettling::TakeBack);
    assert!(hold.is_for_background() && hold.is_unproven() && hold.waiting().eq([Ticket::new(2)]));
}

#[test]
fn failed_lowering_is_repeated_after_growing_pauses() {
    let mut hold = held();
    hold.remove_guard(true);
    let mut last = at(3);
    let pauses: Vec<Duration> = (0..4)
        .map(|_| {
            hold.note_failed_lowering(last);
            let next = hold.lowering_at().expect("the background lowers it");
            let pause = next.since(last);
            last = next;
            pause
        })
        .collect();
    assert!(pauses.is_sorted() && pauses[0] < pauses[3], "{pauses:?}");
}

#[test]
fn doubted_release_counts_as_done_if_sent_in_time() {
    for (sent_at, in_time) in [(at(2), true), (at(4_500), false)] {
        let mut hold = held();
        hold.remove_guard(true);
        hold.begin_change(change(sent_at, None, CountChange::LowerTo(0)));
        assert!(hold.begin_settling() == Some(false) && hold.begin_settling().is_none(), "it is settled once");
        assert_eq!((hold.was_perhaps_released_in_time(), hold.is_perhaps_lowered()), (in_time, true));
    }
}

#[test]
fn release_is_repeated_once_more_when_late_copies_are_over() {
    let mut hold = held();
    hold.remove_guard(true);
    hold.note_lowered(at(3), 0, false);
    hold.expect_late_copies(at(1_000));
    assert!(hold.is_repeated() && !hold.is_given_up());
    assert_eq!(hold.next_step(at(999)), NextStep::Nothing);
    assert_eq!(hold.next_step(at(1_000)), NextStep::Lower);
    assert_eq!(hold.next_step(at(5_000)), NextStep::Lower, "the last repetition is owed");
    hold.note_repeat(at(5_000));
    assert_eq!(hold.next_step(at(5_000)), NextStep::Forget);
}

#[test]
fn copies_are_awaited_for_a_lease_once_nothing_is_left() {
    for (left, ends) in [(0, at(100) + LEASE), (1, at(100) + LEASE * 8)] {
        let mut hold = held();
        hold.clean_up.until = at(100) + LEASE * 8;
        hold.note_lowered(at(100), left, false);
        assert_eq!(hold.clean_up.until, ends, "{left} are left");
    }
}
