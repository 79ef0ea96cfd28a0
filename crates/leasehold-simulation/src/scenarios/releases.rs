//! Releases, dropped guards and detached ones.

use super::{elapsed, nothing_left, nothing_left_after, wish, world};
use crate::workload::UserEvent;
use crate::world::client::{Outcome, PollPolicy};
use crate::world::conditions::CallFault;
use crate::world::{World, ms};
use leasehold_core::command::Kind;
use leasehold_core::error::{HoldEnd, LossReason, ReleaseError};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Event};
use std::time::Duration;

/// A client that has the lock, twice where `twice`.
fn holding(twice: bool) -> (World, Vec<usize>) {
    let mut world = world(1);
    let owner = Some(world.clients[0].session.new_owner());
    let guards = (0..1 + usize::from(twice)).map(|_| world.hold(0, AcquireRequest { owner, ..wish("a") })).collect();
    (world, guards)
}

#[test]
fn a_dropped_guard_is_released_by_the_background() {
    let (mut world, guards) = holding(false);
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
            let (mut world, guards) = holding(twice);
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
    let (mut world, guards) = holding(false);
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
    let (mut world, guards) = holding(true);
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
    let (mut world, guards) = holding(false);
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    let task = world.release(guards[0]);
    assert_eq!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::Lost(LossReason::Removed)));
    assert_eq!(world.events(0, |event| matches!(event, Event::Lost { .. })), 1);
    nothing_left(&mut world);
}

#[test]
fn gone_hold_is_lost_despite_an_unknown_partial_release() {
    let (mut world, guards) = holding(true);
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
    let (mut world, guards) = holding(false);
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
    let (mut world, guards) = holding(false);
    world.set_unreachable(0, true);
    world.drop_guard(guards[0]);
    world.run(ms(3_100));
    assert_eq!(world.clients[0].session.stats().cleaning_up, 0);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn a_detached_guard_leaves_the_lease_to_run_out() {
    let (mut world, guards) = holding(false);
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
    let (mut world, guards) = holding(false);
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
    let (mut world, guards) = holding(true);
    world.detach(guards[0]);
    world.give_back(guards[1]);
    world.run(ms(10));
    assert_eq!(world.server.keys().len(), 1, "the detached guard's lease runs on");
    world.run(ms(3_100));
    nothing_left(&mut world);
}
