//! The checks of what callers are told, and of what they leave, can fail.

use super::{ask, closed, finds, held};
use crate::invariants::outcomes::check_patience;
use crate::scenarios::{wish, world};
use crate::terms::LockFamily;
use crate::world::client::{Outcome, PollPolicy};
use crate::world::{World, ms, name};
use bytes::Bytes;
use leasehold_core::command::{Kind, latch};
use leasehold_core::error::{AcquireError, LossReason, ReleaseError};
use leasehold_core::link::ServerError;
use leasehold_core::session::{AcquireRequest, Patience};

/// A world of one owner that has a lock once, and the wish to have it again.
fn owned() -> (World, usize, AcquireRequest) {
    let mut world = world(1);
    world.plan.family = LockFamily::Lock;
    let owner = world.clients[0].session.new_owner();
    let wish = AcquireRequest { owner: Some(owner), ..wish("lock0") };
    let guard = world.hold(0, wish.clone());
    (world, guard, wish)
}

#[test]
fn a_deadline_that_is_put_earlier_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.guards[guard].check_deadline(false);
    world.guards[guard].until = world.guards[guard].cell.deadline() + ms(1);
    finds("was put earlier", || world.check());
    world.clients[0].clock_is_wrong = true;
    world.check();
}

#[test]
fn a_wrong_count_of_a_guard_is_found() {
    let (mut world, guard, wish) = owned();
    world.hold(0, wish);
    world.check_counts(ms(0));
    world.server.command(&[b"HSET", b"lock0", &world.guards[guard].field, b"1"]).expect("a hash");
    // The world forgets one of two guards, and the server has one, too: the client alone counts two.
    world.guards[guard].alive = false;
    finds("the local count", || world.check_counts(ms(0)));
}

#[test]
fn a_grant_with_a_wrong_count_is_found() {
    let (mut world, guard, wish) = owned();
    world.guards[guard].alive = false;
    finds("the hold count of a grant", || {
        world.hold(0, wish);
    });
}

#[test]
fn a_wait_that_ends_at_the_wrong_time_is_found() {
    let mut world = world(1);
    let until = world.now + ms(500);
    let elapsed = Outcome::NotAcquired(AcquireError::WaitElapsed);
    let world_timeout = world.clients[0].session.settings().command_timeout;
    let slack = world_timeout + ms(120);
    let mut ends = |patience, outcome: &Outcome, done| {
        let task = world.acquire_polled(0, AcquireRequest { patience, ..wish("lock0") }, PollPolicy::AtOnce);
        let state = &mut world.clients[0].tasks[task];
        (state.outcome, state.done) = (Some(outcome.clone()), done);
        check_patience(&world, 0, task);
    };
    ends(Patience::Until(until), &elapsed, until);
    finds("before", || ends(Patience::Until(until), &elapsed, until - ms(1)));
    let more = world_timeout / 2;
    finds("waited until", || ends(Patience::Until(until), &elapsed, until + slack + more + ms(1)));
    finds("left != right", || ends(Patience::Until(until), &Outcome::Nothing, until));
    finds("tried until", || ends(Patience::Try, &Outcome::Nothing, until + slack * 3 + ms(1)));
    finds("left != right", || ends(Patience::Try, &elapsed, until));
    finds("left != right", || ends(Patience::Forever, &Outcome::Nothing, until));
    finds("left != right", || ends(Patience::Forever, &elapsed, until));
}

#[test]
fn a_release_that_was_carried_out_and_failed_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    let task = world.release_polled(guard, PollPolicy::Never);
    let lost = Outcome::NotReleased(ReleaseError::Lost(LossReason::NotRenewed));
    let unreachable = Outcome::NotReleased(ReleaseError::Unreachable("?".to_owned()));
    world.check_outcome(0, task, &lost);
    world.judged(|rules, world| rules.grants.release(world.guards[guard].wire_id.clone()));
    finds("was carried out", || world.check_outcome(0, task, &lost));
    // A call that is polled late may have been repeated by then.
    world.check_outcome(0, task, &unreachable);
    world.clients[0].tasks[task].polls = PollPolicy::AtOnce;
    finds("was carried out", || world.check_outcome(0, task, &unreachable));
}

#[test]
fn an_acquire_that_failed_and_has_the_lock_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    let (client, id) = (world.guards[guard].client, world.guards[guard].wire_id.clone());
    let nothing = [
        Outcome::Nothing,
        Outcome::NotAcquired(AcquireError::WaitElapsed),
        Outcome::NotAcquired(AcquireError::Refused(ServerError::new("?"))),
        Outcome::NotAcquired(AcquireError::Unreachable("?".to_owned())),
        Outcome::NotAcquired(AcquireError::KeyConflict("?".to_owned())),
    ];
    // It is free, but for the server.
    world.guards.clear();
    for outcome in &nothing {
        finds("and the server has", || world.check_outcome(client, 0, outcome));
    }
    let unknown = Outcome::NotAcquired(AcquireError::OutcomeUnknown("?".to_owned()));
    world.check_outcome(client, 0, &unknown);
    world.clients[client].tasks[0].polls = PollPolicy::Late(ms(1));
    world.check_outcome(client, 0, &nothing[0]);
    world.clients[client].tasks[0].polls = PollPolicy::AtOnce;
    world.server.command(&[b"DEL", b"lock0"]).expect("a key can be removed");
    world.judged(|rules, world| rules.nothing_acquired.check_grant(world, &id));
    world.check_outcome(client, 0, &nothing[0]);
    finds("is granted after its caller was told", || {
        world.judged(|rules, world| rules.nothing_acquired.check_grant(world, &id))
    });
}

#[test]
fn place_left_behind_by_an_elapsed_wait_is_found() {
    let (mut world, guard) = held(Kind::Fair, LockFamily::Fair);
    let wish = world.guards[guard].name.clone();
    let task = world.acquire_polled(1, AcquireRequest::new(wish, Kind::Fair, ms(1_000)), PollPolicy::AtOnce);
    world.run(ms(100));
    let elapsed = Outcome::NotAcquired(AcquireError::WaitElapsed);
    world.plan.orderly = false;
    world.check_outcome(1, task, &elapsed);
    world.plan.orderly = true;
    finds("still waits", || world.check_outcome(1, task, &elapsed));
}

#[test]
fn a_listener_who_is_left_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.acquire(1, wish("lock0"));
    world.run(ms(100));
    world.server.command(&[b"DEL", b"lock0"]).expect("a key can be removed");
    assert!(world.guards[guard].alive);
    finds("somebody listens now", || world.check_left("now"));
}

#[test]
fn permits_that_are_not_back_are_found() {
    let (world, _) = held(Kind::Semaphore, LockFamily::Semaphore);
    finds("are back now", || world.check_left("now"));
    let (world, _) = held(Kind::Permits, LockFamily::Permits);
    finds("are held now", || world.check_left("now"));
}

#[test]
fn a_count_of_a_latch_that_is_wrong_is_found() {
    let mut world = closed();
    let publish = world.clients[0].session.settings().publish.clone();
    let count = |operation: &'static [u8]| latch::count_down(&name("lock0"), 1, operation, &publish);
    // It is counted without the world's knowledge.
    world.server.execute(&count(b"stranger")).expect("a latch can be counted down");
    finds("the count of", || world.count_down(&count(b"own")));
}

#[test]
fn what_worlds_never_come_to_is_missing() {
    let (mut world, _) = held(Kind::Lock, LockFamily::Lock);
    let call = ask(&world, Kind::Lock);
    let missing = |world: &World| world.stats.missing().contains(&"a copy came after the hold had ended");
    assert!(missing(&world));
    world.judged(|rules, _| rules.grants.release(Bytes::copy_from_slice(&call.args()[0])));
    world.apply(crate::world::message::Message::Copy { key: 0, call });
    assert!(!missing(&world));
}
