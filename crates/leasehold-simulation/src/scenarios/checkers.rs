//! The checks of the world can fail: each is shown what it must not accept.

use super::{wish, world};
use crate::invariants::check_sum;
use crate::invariants::losses::{check_promptness, note_end};
use crate::invariants::outcomes::{check_patience, check_reason};
use crate::terms::{CAPACITY, LockFamily};
use crate::workload::UserEvent;
use crate::world::client::{Outcome, PollPolicy};
use crate::world::events::{Message, WorldEvent};
use crate::world::history::{Fact, Promises};
use crate::world::network::CallFault;
use crate::world::{World, ms, name};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::command::{HoldKey, Kind, latch};
use leasehold_core::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use leasehold_core::link::ServerError;
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, Patience};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Wants `check` to find fault, in words that contain `words`.
fn finds(words: &str, check: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("nothing was found");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    assert!(text.contains(words), "{text}");
}

/// A world in which client 0 has `lock0` of a kind.
fn held(kind: Kind, family: LockFamily) -> (World, usize) {
    let mut world = world(2);
    world.plan.family = family;
    world.plan.locks = 1;
    world.fill();
    let guard = world.hold(0, AcquireRequest { kind, ..wish("lock0") });
    (world, guard)
}

/// A world of one client, in which the latch `lock0` is closed.
fn closed() -> World {
    let mut world = world(1);
    world.plan.family = LockFamily::Latch;
    world.plan.locks = 1;
    world.close_latches();
    world
}

/// An acquire of `lock0` that the session of client 1 might send.
fn ask(world: &World, kind: Kind) -> Call {
    let lock = name("lock0");
    let client = world.clients[1].session.client();
    let hold = HoldKey::new(client.field(HoldNumber::FIRST), 1);
    let keys = kind.protocol().keys(&lock, &client);
    let settings = world.clients[1].session.settings();
    let ask = leasehold_core::command::AcquireArgs {
        name: &lock,
        keys: &keys,
        hold: &hold,
        beside: None,
        count: 1,
        lease: ms(3_000),
        not_after: None,
        waits: true,
        placed: false,
        prefer_writers: None,
        settings,
    };
    kind.protocol().acquire(&ask)
}

#[test]
fn two_who_believe_to_hold_are_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.server.command(&[b"DEL", b"lock0"]).expect("a key can be removed");
    // The check of the server's grant comes first; this is about belief.
    world.plan.family = LockFamily::Semaphore;
    finds("beside", || {
        world.hold(1, wish("lock0"));
    });
    assert!(world.guards[guard].alive);
}

#[test]
fn a_grant_of_the_server_beside_a_believer_is_found() {
    let (mut world, _) = held(Kind::Lock, LockFamily::Lock);
    world.server.command(&[b"DEL", b"lock0"]).expect("a key can be removed");
    finds("still believes", || {
        world.acquire(1, wish("lock0"));
        world.run(ms(100));
    });
}

#[test]
fn a_writer_beside_a_reader_is_found() {
    let (mut world, _) = held(Kind::Read, LockFamily::ReadWrite);
    let call = ask(&world, Kind::Write);
    world.server.keys().iter().for_each(|key| drop(world.server.command(&[b"DEL", key])));
    finds("still believes", || drop(world.execute(&call)));
}

#[test]
fn a_permit_too_many_is_found() {
    let (world, _) = held(Kind::Permits, LockFamily::Permits);
    check_sum(&world);
    world.server.command(&[b"SET", b"lock0", CAPACITY.to_string().as_bytes()]).expect("a counter");
    finds("available and held", || check_sum(&world));
}

#[test]
fn a_wrong_hold_count_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.check_counts(ms(0));
    world.server.command(&[b"HSET", b"lock0", &world.guards[guard].field, b"2"]).expect("a hash");
    finds("the server's count", || world.check_counts(ms(0)));
}

#[test]
fn a_hold_of_nobody_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.check_strays();
    let field = world.clients[1].session.client().field(HoldNumber::FIRST);
    world.server.command(&[b"HSET", b"lock0", &field, b"1"]).expect("a hash");
    finds("of which client 1 knows nothing", || world.check_strays());
    world.guards[guard].alive = false;
    finds("of which client 0 knows nothing", || world.check_strays());
}

#[test]
fn a_hold_that_comes_back_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.check();
    world.guards[guard].passed = true;
    finds("is held again", || world.check());
}

#[test]
fn a_release_that_released_nothing_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    let task = world.release_polled(guard, PollPolicy::Never);
    finds("nobody released", || world.check_outcome(0, task, &Outcome::Released));
    world.judged(|rules, world| rules.grants.release(world.guards[guard].wire_id.clone()));
    world.check_outcome(0, task, &Outcome::Released);
}

#[test]
fn trouble_that_there_was_not_is_found() {
    let mut world = world(1);
    world.plan.orderly = true;
    let task = world.acquire(0, wish("lock0"));
    world.run(ms(50));
    let unreachable = AcquireError::Unreachable("?".to_owned());
    world.clients[0].tasks[task].outcome = Some(Outcome::NotAcquired(unreachable));
    finds("nothing is wrong", || check_reason(&world, 0, task));
    world.plan.orderly = false;
    check_reason(&world, 0, task);
    world.clients[0].tasks[task].outcome = Some(Outcome::NotAcquired(AcquireError::Closed));
    finds("is told", || check_reason(&world, 0, task));
}

#[test]
fn a_renewed_hold_that_is_lost_for_no_reason_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.plan.fault_free = true;
    world.guards[guard].renewed = true;
    finds("was lost", || note_end(&mut world, guard, HoldEnd::Lost(LossReason::NotRenewed)));
    world.guards[guard].limited = true;
    note_end(&mut world, guard, HoldEnd::Lost(LossReason::MaxHold));
}

#[test]
fn what_is_left_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    finds("of client 0", || world.check_nothing_left());
    world.give_back(guard);
    world.run(ms(1_500));
    world.check_nothing_left();
    world.server.command(&[b"SET", b"lock0", b"?"]).expect("a key");
    finds("is left", || world.check_nothing_left());
}

#[test]
fn a_queue_out_of_order_is_found() {
    let (mut world, _) = held(Kind::Fair, LockFamily::Fair);
    let waiter = world.acquire(1, AcquireRequest { kind: Kind::Fair, ..wish("lock0") });
    world.run(ms(50));
    assert!(world.task(1, waiter).outcome.is_none());
    let call = ask(&world, Kind::Fair);
    for orderly in [true, false] {
        world.plan.orderly = orderly;
        finds("overtook", || {
            world.judged(|rules, world| rules.was_granted(world, &call, Bytes::from_static(b"somebody else"), 1, None))
        });
    }
    // A waiter that has been silent for too long may have lost its place.
    world.now = world.now + world.plan.settings.fair.liveness_timeout;
    world.tell(Fact::Arrives(&call));
    let lock = &call.keys().to_vec()[0];
    world.judged(|rules, world| {
        rules.fair_order.check(world, "fair/acquire", lock, &Bytes::from_static(b"somebody else"))
    });
}

#[test]
fn a_fencing_token_that_does_not_grow_is_found() {
    let mut world = world(1);
    let [lock, id] = [Bytes::from_static(b"lock0"), Bytes::from_static(b"a hold")];
    world.judged(|rules, _| rules.tokens.issue(lock.clone(), 7));
    world.judged(|rules, world| rules.tokens.check(world, &lock, &id, 8));
    world.judged(|rules, _| rules.tokens.issue(lock.clone(), 8));
    finds("got the token 8", || world.judged(|rules, world| rules.tokens.check(world, &lock, &id, 8)));
}

#[test]
fn an_update_that_is_lost_behind_a_fence_is_found() {
    let (mut world, guard) = held(Kind::Fenced, LockFamily::Fenced);
    world.store_reads(guard);
    let read = world.events.queue.values().find_map(|what| match what {
        WorldEvent::Act(act) => match (&**act as &dyn Any).downcast_ref() {
            Some(UserEvent::Work { read, .. }) => Some(*read),
            _ => None,
        },
        _ => None,
    });
    let read = read.expect("the read is answered");
    world.store_writes(guard, read);
    finds("lost behind a fence", || world.store_writes(guard, read));
}

#[test]
fn a_token_that_was_issued_twice_is_found() {
    let (mut world, guard) = held(Kind::Fenced, LockFamily::Fenced);
    world.store_reads(guard);
    world.guards[guard].field = Bytes::from_static(b"another hold");
    finds("issued twice", || world.store_reads(guard));
}

#[test]
fn a_removal_that_is_not_told_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    world.plan.settings = world.clients[0].session.settings().clone();
    world.server.command(&[b"DEL", b"lock0"]).expect("a key can be removed");
    let removed = world.now;
    finds("was not told", || check_promptness(&mut world, guard, removed));
    world.run(ms(1_100));
    check_promptness(&mut world, guard, removed);
    assert!(!world.believes(&world.guards[guard]));
}

#[test]
fn a_removal_of_permits_that_is_not_told_is_found() {
    let (mut world, guard) = held(Kind::Permits, LockFamily::Permits);
    let removed = world.now;
    check_promptness(&mut world, guard, removed);
    world.server.command(&[b"DEL", b"{lock0}:timeout"]).expect("a key can be removed");
    finds("was not told", || check_promptness(&mut world, guard, removed));
}

#[test]
fn permits_that_are_granted_beside_too_many_are_found() {
    let (mut world, _) = held(Kind::Permits, LockFamily::Permits);
    let call = ask(&world, Kind::Permits);
    let ids = |permits: u32| Bytes::from(vec![b'?'; permits as usize * ID_BYTES]);
    world.judged(|rules, world| rules.was_granted(world, &call, ids(CAPACITY - 1), 1, None));
    finds("beside 1 others", || world.judged(|rules, world| rules.was_granted(world, &call, ids(CAPACITY), 1, None)));
}

#[test]
fn a_clock_that_stands_still_excuses_nobody_but_its_client() {
    let (mut world, _) = held(Kind::Lock, LockFamily::Lock);
    let call = ask(&world, Kind::Lock);
    world.void(Promises::OfClient(1));
    finds("still believes", || {
        world.judged(|rules, world| rules.was_granted(world, &call, Bytes::from_static(b"somebody else"), 1, None))
    });
    world.void(Promises::OfClient(0));
    world.judged(|rules, world| rules.was_granted(world, &call, Bytes::from_static(b"somebody else"), 1, None));
}

#[test]
fn a_holder_who_is_not_told_of_its_deadline_is_found() {
    let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
    // The session does not see that time passes.
    world.now = world.guards[guard].cell.deadline();
    finds("nobody was told in time", || world.check());
}

#[test]
fn a_waiter_who_waits_too_long_is_found() {
    let (mut world, _) = held(Kind::Lock, LockFamily::Lock);
    world.acquire(1, wish("lock0"));
    let limit = world.now + ms(20_000);
    // The holder never gives up.
    world.finished.clear();
    finds("waits for ever", || crate::run::finish(&mut world, limit));
}

#[test]
fn somebody_who_goes_through_a_closed_latch_is_found() {
    let mut world = closed();
    let lock = name("lock0");
    let task = world.acquire_polled(
        0,
        AcquireRequest { kind: Kind::Latch, renewed: false, ..wish("lock0") },
        PollPolicy::AtOnce,
    );
    world.run(ms(100));
    assert!(world.task(0, task).outcome.is_none());
    // It is opened without the world's knowledge.
    let publish = world.clients[0].session.settings().publish.clone();
    world.server.execute(&latch::delete(&lock, b"op", &publish)).expect("a latch can be removed");
    world.deliver_notices();
    finds("went through", || world.run(ms(5_000)));
    assert_ne!(world.task(0, task).outcome, Some(Outcome::Opened));
}

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
fn copy_of_a_refused_release_excuses_the_refusal() {
    for is_copy in [true, false] {
        let (mut world, guard) = held(Kind::Lock, LockFamily::Lock);
        world.fault(0, "lock/release", CallFault::Refuse("OOM command not allowed when used memory > 'maxmemory'."));
        let task = world.release_polled(guard, PollPolicy::AtOnce);
        let release = world.events.queue.values().find_map(|what| match what {
            WorldEvent::Message(Message::Arrive { key, call, .. }) => Some((*key, call.clone())),
            _ => None,
        });
        let (key, call) = release.expect("the release is under way");
        let outcome = world.outcome(0, task);
        assert!(matches!(outcome, Outcome::NotReleased(ReleaseError::Refused(_))), "{outcome:?}");
        world.apply(Message::Copy { key: if is_copy { key } else { 0 }, call });
        let judge = |world: &mut World| world.check_outcome(0, task, &outcome);
        if is_copy { judge(&mut world) } else { finds("was carried out", || judge(&mut world)) }
    }
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
    world.apply(Message::Copy { key: 0, call });
    assert!(!missing(&world));
}
