//! Releases, dropped guards and detached ones, and the end of a client.

use super::{elapsed, holding, nothing_left, nothing_left_after, wish, world};
use crate::workload::UserEvent;
use crate::world::client::{Outcome, PollPolicy};
use crate::world::network::CallFault;
use crate::world::{World, ms};
use leasehold_core::command::Kind;
use leasehold_core::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Event, Patience};
use std::time::Duration;

/// A client that has the lock, twice where `twice`.
fn held(twice: bool) -> (World, Vec<usize>) {
    let mut world = world(1);
    let owner = Some(world.clients[0].session.new_owner());
    let guards = (0..1 + usize::from(twice)).map(|_| world.hold(0, AcquireRequest { owner, ..wish("a") })).collect();
    (world, guards)
}

#[test]
fn a_dropped_guard_is_released_by_the_background() {
    let (mut world, guards) = held(false);
    world.drop_guard(guards[0]);
    world.run(ms(1));
    assert!(world.server.keys().is_empty());
    assert_eq!(world.events(0, |event| matches!(event, Event::CleanedUp { .. })), 1);
    nothing_left(&mut world);
}

#[test]
fn a_permit_that_others_prolonged_is_back_when_its_guard_is() {
    for dropped in [false, true] {
        let mut world = world(1);
        world.server.command(&[b"SET", b"seats", b"1"]).expect("the server works");
        let request = AcquireRequest { kind: Kind::Permits, lease: ms(300), renewed: false, ..wish("seats") };
        let guard = world.hold(0, request);
        let key = b"{seats}:timeout".as_slice();
        let Ok(Reply::Array(ids)) = world.server.command(&[b"ZRANGE", key, b"0", b"-1"]) else { panic!("a permit") };
        let Reply::Bulk(id) = &ids[0] else { panic!("{ids:?}") };
        world.server.command(&[b"ZADD", key, b"922337203685477", id]).expect("a JVM's updateLeaseTime");
        // Longer than the lease that it was taken for.
        world.run(ms(5_000));
        assert!(world.guards[guard].over, "the guard does not know of it");
        if dropped {
            world.drop_guard(guard);
        } else {
            let task = world.release(guard);
            let lost = Outcome::NotReleased(ReleaseError::Lost(LossReason::LeaseExpired));
            assert_eq!(world.outcome(0, task), lost);
        }
        world.run(ms(100));
        assert_eq!(world.server.command(&[b"GET", b"seats"]), Ok(Reply::Bulk("1".into())), "dropped: {dropped}");
        world.server.command(&[b"DEL", b"seats"]).expect("the server works");
        nothing_left(&mut world);
    }
}

#[test]
fn a_release_may_be_dropped_at_any_point() {
    for micros in (0..1_200).step_by(50) {
        for twice in [false, true] {
            let (mut world, guards) = held(twice);
            let task = world.release(guards[0]);
            world.after(Duration::from_micros(micros), UserEvent::Abandon { client: 0, task });
            world.run(ms(5));
            world.check_counts(ms(0));
            if twice {
                world.give_back(guards[1]);
            }
            assert!(world.server.keys().is_empty());
            nothing_left(&mut world);
        }
    }
}

#[test]
fn unpolled_release_is_done_by_the_background() {
    let (mut world, guards) = held(false);
    world.fault(0, "lock/release", CallFault::Refuse("LOADING wait"));
    let task = world.release_polled(guards[0], PollPolicy::Never);
    world.run(ms(100));
    assert!(world.server.keys().is_empty());
    world.poll(0, task);
    assert_eq!(world.outcome(0, task), Outcome::Released);
    nothing_left(&mut world);
}

#[test]
fn a_partial_release_that_is_refused_is_reported_and_repeated() {
    let (mut world, guards) = held(true);
    world.server.deny_growth(true);
    let task = world.release(guards[0]);
    assert!(matches!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::Refused(_))));
    world.run(ms(500));
    world.server.deny_growth(false);
    world.run(ms(700));
    world.check_counts(ms(0));
    nothing_left_after(&mut world, guards[1]);
}

#[test]
fn a_hold_that_is_gone_is_lost_and_not_released() {
    let (mut world, guards) = held(false);
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    let task = world.release(guards[0]);
    assert_eq!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::Lost(LossReason::Removed)));
    assert_eq!(world.events(0, |event| matches!(event, Event::Lost { .. })), 1);
    nothing_left(&mut world);
}

#[test]
fn gone_hold_is_lost_despite_an_unknown_partial_release() {
    let (mut world, guards) = held(true);
    world.fault(0, "lock/release", CallFault::LoseReply);
    let first = world.release(guards[0]);
    let second = world.release(guards[1]);
    // The partial release is on the server; what is left of the hold is taken away.
    world.run(Duration::from_micros(350));
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    let lost = Outcome::NotReleased(ReleaseError::Lost(LossReason::Removed));
    assert_eq!(world.outcome(0, second), lost);
    assert_eq!(world.outcome(0, first), lost);
    nothing_left(&mut world);
}

#[test]
fn a_release_after_the_deadline_is_lost_at_once() {
    let mut world = world(1);
    let guard = world.hold(0, AcquireRequest { lease: ms(100), renewed: false, ..wish("a") });
    world.run(ms(200));
    let task = world.release(guard);
    assert_eq!(world.task(0, task).outcome, Some(Outcome::NotReleased(ReleaseError::Lost(LossReason::LeaseExpired))));
    nothing_left(&mut world);
}

#[test]
fn release_without_reply_ends_and_repeats_in_background() {
    let (mut world, guards) = held(false);
    world.set_unreachable(0, true);
    let start = world.now;
    let task = world.release(guards[0]);
    assert!(matches!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::Unreachable(_))));
    assert_eq!(elapsed(&world, start), ms(2_000));
    assert_eq!(world.server.keys().len(), 1);
    world.set_unreachable(0, false);
    world.run(ms(600));
    assert!(world.server.keys().is_empty());
    nothing_left(&mut world);
}

#[test]
fn unreleasable_hold_is_forgotten_after_its_lease() {
    let (mut world, guards) = held(false);
    world.set_unreachable(0, true);
    world.drop_guard(guards[0]);
    world.run(ms(3_100));
    assert_eq!(world.clients[0].session.stats().cleaning_up, 0);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn a_detached_guard_leaves_the_lease_to_run_out() {
    let (mut world, guards) = held(false);
    world.detach(guards[0]);
    assert_eq!(world.guards[guards[0]].cell.ended(world.now), Some(HoldEnd::Detached));
    world.run(ms(2_900));
    assert_eq!(world.server.keys().len(), 1);
    assert_eq!(world.server.calls("lock/renew"), 0);
    world.run(ms(200));
    nothing_left(&mut world);
}

#[test]
fn a_guard_that_is_detached_after_its_deadline_was_lost() {
    let (mut world, guards) = held(false);
    let cell = world.guards[guards[0]].cell.clone();
    // It is detached before the timers are looked at.
    world.now = cell.deadline();
    world.detach(guards[0]);
    assert!(matches!(cell.ended(world.now), Some(HoldEnd::Lost(_))), "{:?}", cell.ended(world.now));
    world.run(ms(3_100));
    nothing_left(&mut world);
}

#[test]
fn a_detached_guard_beside_another_keeps_its_count() {
    let (mut world, guards) = held(true);
    world.detach(guards[0]);
    world.give_back(guards[1]);
    world.run(ms(10));
    assert_eq!(world.server.keys().len(), 1, "the detached guard's lease runs on");
    world.run(ms(3_100));
    nothing_left(&mut world);
}

#[test]
fn a_closed_client_grants_nothing_and_tells_those_who_wait() {
    let mut world = world(2);
    let kept = world.hold(1, wish("a"));
    let guard = { world.hold(0, wish("b")) };
    let waiters = [world.acquire(0, wish("a")), world.acquire(0, wish("a")), world.acquire(0, wish("c"))];
    world.run(Duration::from_micros(100));
    world.clients[0].session.close(world.now);
    world.look_after(0);
    for waiter in waiters {
        assert_eq!(world.outcome(0, waiter), Outcome::NotAcquired(AcquireError::Closed));
    }
    let late = world.acquire(0, wish("d"));
    assert_eq!(world.outcome(0, late), Outcome::NotAcquired(AcquireError::Closed));
    assert!(!world.guards[guard].over, "holds stay as they are");
    world.give_back(guard);
    nothing_left_after(&mut world, kept);
}

#[test]
fn closed_client_renews_the_holds_of_its_guards_until_they_end() {
    let mut world = world(2);
    let guard = world.hold(0, wish("a"));
    world.clients[0].session.close(world.now);
    world.look_after(0);
    // For ten leases.
    world.run(ms(10_000));
    assert_eq!(world.guards[guard].cell.ended(world.now), None);
    let other = world.acquire(1, AcquireRequest { patience: Patience::Try, ..wish("a") });
    assert_eq!(world.outcome(1, other), Outcome::Nothing);
    let task = world.release(guard);
    assert_eq!(world.outcome(0, task), Outcome::Released);
    nothing_left(&mut world);
}

#[test]
fn guards_that_outlive_a_shutdown_are_lost_and_their_locks_are_released_after_them() {
    let mut world = world(2);
    let owner = Some(world.clients[0].session.new_owner());
    let mut guards: Vec<_> = (0..2).map(|_| world.hold(0, AcquireRequest { owner, ..wish("a") })).collect();
    // One that was lost before, and one that is not polled for.
    let task = world.acquire(0, AcquireRequest { lease: ms(100), renewed: false, ..wish("b") });
    guards.push(world.granted(0, task));
    world.run_until(world.guards[guards[2]].cell.deadline());
    let sleepy = world.acquire_polled(0, wish("c"), PollPolicy::Never);
    world.run(ms(1));
    world.clients[0].session.close(world.now);
    assert!(world.clients[0].session.lose_all(world.now));
    world.look_after(0);
    assert_eq!(world.guards[guards[1]].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::ShutDown)));
    world.run(ms(5));
    let other = world.acquire(1, AcquireRequest { patience: Patience::Try, ..wish("a") });
    assert_eq!(world.outcome(1, other), Outcome::Nothing, "its work may not have stopped yet");
    let task = world.release(guards[0]);
    assert_eq!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::Lost(LossReason::ShutDown)));
    world.run(ms(5));
    assert!(world.server.keys().iter().any(|key| key[..] == b"a"[..]), "one of its guards is there");
    world.drop_guard(guards[1]);
    world.drop_guard(guards[2]);
    world.run(ms(5));
    assert!(world.server.keys().is_empty(), "nothing holds it any more, and its lease lasts");
    world.clients[0].tasks[sleepy].polls = PollPolicy::AtOnce;
    world.poll(0, sleepy);
    assert_eq!(world.outcome(0, sleepy), Outcome::NotAcquired(AcquireError::Closed));
    nothing_left(&mut world);
}

#[test]
fn lock_of_a_guard_that_outlives_a_shutdown_is_free_after_its_lease() {
    let mut world = world(2);
    let guard = world.hold(0, wish("a"));
    world.clients[0].session.close(world.now);
    world.clients[0].session.lose_all(world.now);
    world.look_after(0);
    let other = world.acquire(1, wish("a"));
    let taken = world.granted(1, other);
    assert!(world.guards[guard].cell.deadline() <= world.guards[taken].cell.acquired_at());
    world.drop_guard(guard);
    nothing_left_after(&mut world, taken);
}

#[test]
fn a_shutdown_keeps_what_was_detached() {
    let (mut world, guard) = holding(1);
    world.detach(guard);
    world.clients[0].session.close(world.now);
    world.clients[0].session.lose_all(world.now);
    world.look_after(0);
    world.run(ms(50));
    assert_eq!(world.server.keys().len(), 1);
    world.run(ms(3_000));
    nothing_left(&mut world);
}
