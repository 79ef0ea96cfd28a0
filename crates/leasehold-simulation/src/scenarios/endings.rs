//! The end of a client.

use super::{holding, nothing_left, nothing_left_after, wish, world};
use crate::world::client::{Outcome, PollPolicy};
use crate::world::ms;
use leasehold_core::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use leasehold_core::session::{AcquireRequest, Patience};

#[test]
fn a_closed_client_grants_nothing_and_tells_those_who_wait() {
    let mut world = world(2);
    let kept = world.hold(1, wish("a"));
    let guard = { world.hold(0, wish("b")) };
    let waiters = [world.acquire(0, wish("a")), world.acquire(0, wish("a")), world.acquire(0, wish("c"))];
    world.run(std::time::Duration::from_micros(100));
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
