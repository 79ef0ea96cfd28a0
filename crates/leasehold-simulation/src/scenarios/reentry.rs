//! Owners that come again, and hold counts.

use super::{elapsed, nothing_left, nothing_left_after, wish, world};
use crate::world::client::{Outcome, PollPolicy};
use crate::world::network::{CallFault, Role};
use crate::world::{World, ms, name, settings};
use leasehold_core::call::Replicas;
use leasehold_core::command::Kind;
use leasehold_core::error::{AcquireError, HoldEnd, LossReason};
use leasehold_core::link::LinkEvent;
use leasehold_core::owner::OwnerId;
use leasehold_core::session::{AcquireRequest, Event, Patience};
use leasehold_core::time::Instant;
use std::time::Duration;

fn owned(owner: OwnerId) -> AcquireRequest {
    AcquireRequest { owner: Some(owner), ..wish("a") }
}

/// A world of one client, an owner of it, and so many guards that it has.
fn nested(guards: usize) -> (World, OwnerId, Vec<usize>) {
    let mut world = world(1);
    let owner = world.clients[0].session.new_owner();
    let guards = (0..guards).map(|_| world.hold(0, owned(owner))).collect();
    (world, owner, guards)
}

#[test]
fn an_owner_enters_again_and_the_count_is_exact() {
    let (mut world, _, guards) = nested(3);
    assert_eq!(world.guards[guards[0]].cell.count(), 3);
    world.check_counts(ms(0));
    for guard in guards {
        world.give_back(guard);
        world.check_counts(ms(0));
    }
    assert_eq!((world.server.calls("lock/acquire"), world.server.calls("lock/release")), (3, 3));
    nothing_left(&mut world);
}

#[test]
fn nested_guards_are_released_in_any_order_or_at_once() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let (mut world, _, guards) = nested(3);
        for index in order {
            world.give_back(guards[index]);
            world.check_counts(ms(0));
        }
        nothing_left(&mut world);
        let (mut world, _, guards) = nested(3);
        let tasks: Vec<_> = order.iter().map(|index| world.release(guards[*index])).collect();
        for task in tasks {
            assert_eq!(world.outcome(0, task), Outcome::Released);
        }
        assert!(world.server.keys().is_empty(), "released at once, and not all was");
        nothing_left(&mut world);
    }
}

#[test]
fn two_acquires_of_one_owner_at_once_are_one_hold() {
    let mut world = world(1);
    let owner = world.clients[0].session.new_owner();
    let tasks = [world.acquire(0, owned(owner)), world.acquire(0, owned(owner)), world.acquire(0, owned(owner))];
    let guards = tasks.map(|task| world.granted(0, task));
    assert_eq!(world.server.calls("lock/acquire"), 3);
    assert!(guards.iter().all(|guard| world.guards[*guard].hold == world.guards[guards[0]].hold));
    world.check_counts(ms(0));
    guards.into_iter().for_each(|guard| world.give_back(guard));
    nothing_left(&mut world);
}

#[test]
fn another_owner_and_no_owner_are_others() {
    let (mut world, _, guards) = nested(1);
    let other = world.clients[0].session.new_owner();
    for owner in [Some(other), None] {
        let task = world.acquire(0, AcquireRequest { owner, patience: Patience::Try, ..wish("a") });
        assert_eq!(world.outcome(0, task), Outcome::Nothing);
    }
    nothing_left_after(&mut world, guards[0]);
}

#[test]
fn an_entry_without_a_reply_is_taken_back_and_sent_again() {
    for kind in [CallFault::LoseReply, CallFault::LoseRequest, CallFault::Swallow] {
        let (mut world, owner, guards) = nested(1);
        world.fault(0, "lock/acquire", kind);
        let guard = world.hold(0, owned(owner));
        world.run(ms(50));
        world.check_counts(ms(0));
        world.give_back(guard);
        world.check_counts(ms(0));
        nothing_left_after(&mut world, guards[0]);
    }
}

#[test]
fn a_release_does_not_wait_for_an_entry_that_nobody_polls() {
    for kind in [None, Some(CallFault::LoseReply), Some(CallFault::NotSent), Some(CallFault::Refuse("LOADING wait"))] {
        let (mut world, owner, guards) = nested(2);
        let answered = kind.is_some();
        if let Some(kind) = kind {
            world.fault(0, "lock/acquire", kind);
        }
        let entry = world.acquire_polled(0, owned(owner), PollPolicy::Never);
        world.run(ms(1));
        if answered {
            // It sees that it has failed, and is not polled again.
            world.poll(0, entry);
        }
        for guard in guards {
            world.give_back(guard);
        }
        // The unread grant of the re-entry expires.
        world.run(ms(60));
        let field = world.clients[0].session.client().field(world.guards[0].hold);
        assert_eq!(world.count_of(&wish("a").name, &field), 0);
        world.abandon(0, entry);
        nothing_left(&mut world);
    }
}

#[test]
fn entry_refused_as_a_guard_goes_keeps_the_count() {
    let (mut world, owner, guards) = nested(2);
    world.fault(0, "lock/acquire", CallFault::Refuse("LOADING wait"));
    let entry = world.acquire(0, owned(owner));
    world.drop_guard(guards[0]);
    let guard = world.granted(0, entry);
    world.run(ms(100));
    world.check_counts(ms(0));
    world.give_back(guard);
    nothing_left_after(&mut world, guards[1]);
}

#[test]
fn entry_refused_for_good_as_a_guard_goes_keeps_the_count() {
    let (mut world, owner, guards) = nested(2);
    world.fault(0, "lock/acquire", CallFault::Refuse("OOM no"));
    let entry = world.acquire(0, owned(owner));
    world.drop_guard(guards[0]);
    assert!(matches!(world.outcome(0, entry), Outcome::NotAcquired(AcquireError::Refused(_))));
    world.run(ms(100));
    world.check_counts(ms(0));
    nothing_left_after(&mut world, guards[1]);
}

#[test]
fn an_entry_waits_while_a_lowering_is_refused() {
    let (mut world, owner, guards) = nested(2);
    world.server.deny_growth(true);
    let release = world.release(guards[0]);
    let entry = world.acquire(0, owned(owner));
    assert!(matches!(world.outcome(0, release), Outcome::NotReleased(_)));
    world.run(ms(300));
    world.server.deny_growth(false);
    let guard = world.granted(0, entry);
    world.run(ms(100));
    world.check_counts(ms(0));
    world.give_back(guard);
    nothing_left_after(&mut world, guards[1]);
}

#[test]
fn owner_of_a_lost_hold_is_told_until_its_guards_go() {
    let (mut world, owner, guards) = nested(1);
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    world.run(ms(1_500));
    assert!(world.guards[guards[0]].over);
    let entry = world.acquire(0, owned(owner));
    assert!(matches!(world.outcome(0, entry), Outcome::NotAcquired(AcquireError::Lost(_))));
    world.drop_guard(guards[0]);
    let guard = world.hold(0, owned(owner));
    nothing_left_after(&mut world, guard);
}

#[test]
fn an_entry_whose_hold_ends_meanwhile_acquires_anew() {
    let (mut world, owner, guards) = nested(1);
    let release = world.release(guards[0]);
    let task = world.acquire(0, owned(owner));
    assert_eq!(world.outcome(0, release), Outcome::Released);
    let guard = world.granted(0, task);
    assert_ne!(world.guards[guard].hold, world.guards[guards[0]].hold);
    nothing_left_after(&mut world, guard);
}

#[test]
fn wait_ended_during_an_entry_does_not_begin_anew() {
    let (mut world, owner, guards) = nested(1);
    let until = world.now + ms(20);
    world.freeze(0, Role::Calls, ms(60));
    let task = world.acquire(0, AcquireRequest { patience: Patience::Until(until), ..owned(owner) });
    world.run(ms(30));
    world.drop_guard(guards[0]);
    let outcome = world.outcome(0, task);
    assert!(matches!(outcome, Outcome::NotAcquired(_)), "{outcome:?}");
    assert!(world.now < until + ms(200));
    nothing_left(&mut world);
}

#[test]
fn a_shorter_entry_does_not_shorten_the_lease() {
    let (mut world, owner, guards) = nested(1);
    let deadline = world.guards[guards[0]].cell.deadline();
    let guard = world.hold(0, fixed(owner, 100));
    assert!(world.guards[guard].cell.deadline() >= deadline);
    world.run(ms(5_000));
    world.check_counts(ms(0));
    assert!(!world.guards[guard].over, "it was renewed for the sake of the other guard");
    world.give_back(guard);
    nothing_left_after(&mut world, guards[0]);
}

/// The wish of an owner that wants the hold for so long, and no renewals.
fn fixed(owner: OwnerId, lease: u64) -> AcquireRequest {
    AcquireRequest { lease: ms(lease), renewed: false, ..owned(owner) }
}

/// The same request on the durable connection.
fn by_another_connection(wish: AcquireRequest) -> AcquireRequest {
    AcquireRequest { replicas: Some(Replicas { at_least: 0, within: ms(0) }), ..wish }
}

/// A hold for two seconds, and when they end for its guard; then the server's clock is stepped.
fn held_while_the_server_steps(millis: i64) -> (World, OwnerId, usize, Instant) {
    let mut world = world(1);
    let owner = world.clients[0].session.new_owner();
    let guard = world.hold(0, fixed(owner, 2_000));
    let deadline = world.guards[guard].cell.deadline();
    world.step_server(millis);
    (world, owner, guard, deadline)
}

#[test]
fn entry_told_of_less_takes_the_promise_back() {
    let (mut world, owner, guard, promised) = held_while_the_server_steps(800);
    let other = world.add_client(settings());
    let entry = world.hold(0, fixed(owner, 100));
    let deadline = world.guards[guard].cell.deadline();
    assert!(deadline < promised - ms(750), "the server has the hold for 1.2 seconds more");
    assert!(deadline > world.now + ms(1_150), "and for no less");
    let follower = world.hold(other, wish("a"));
    assert!(world.guards[guard].over && world.guards[entry].over);
    for guard in [guard, entry, follower] {
        world.drop_guard(guard);
    }
    nothing_left(&mut world);
}

#[test]
fn entry_withdrawing_an_ended_promise_is_not_granted() {
    let (mut world, owner, guard, promised) = held_while_the_server_steps(1_965);
    let entry = world.acquire(0, fixed(owner, 10));
    world.clients[0].tasks[entry].polls = PollPolicy::Never;
    world.run(ms(35));
    assert!(world.now < promised && world.task(0, entry).call.is_none());
    finds_it_lost(world, guard, entry);
}

#[test]
fn an_entry_that_is_answered_late_takes_nothing_from_the_lease() {
    let (mut world, owner, guard, promised) = held_while_the_server_steps(0);
    world.fault(0, "lock/acquire", CallFault::Delay(ms(30)));
    let entry = world.hold(0, fixed(owner, 100));
    assert_eq!(world.guards[guard].cell.deadline(), promised);
    world.give_back(entry);
    nothing_left_after(&mut world, guard);
}

#[test]
fn reply_to_an_earlier_call_takes_nothing_from_a_later() {
    let (mut world, owner, guards) = nested(1);
    // The server executes the renewal, and its answer to that comes behind its answer to the entry.
    while world.server.calls("lock/renew") == 0 {
        world.net.connection(0, Role::Calls).last_reply = world.now + ms(15);
        world.run(Duration::from_micros(50));
    }
    let entry = world.hold(0, by_another_connection(fixed(owner, 60_000)));
    let promised = world.guards[entry].cell.deadline();
    assert!(promised > world.now + ms(59_000));
    assert_eq!(world.events(0, |event| matches!(event, Event::Renewed { .. })), 0);
    world.run(ms(20));
    assert_eq!(world.events(0, |event| matches!(event, Event::Renewed { .. })), 1);
    assert_eq!(world.guards[entry].cell.deadline(), promised);
    world.give_back(entry);
    nothing_left_after(&mut world, guards[0]);
}

/// A renewed hold and its owner, in the moment in which a renewal is on its way.
fn held_while_a_renewal_flies() -> (World, OwnerId, usize) {
    let (mut world, owner, guards) = nested(1);
    world.fault(0, "lock/renew", CallFault::Delay(ms(5)));
    while world.net.is_idle(0) {
        world.run(Duration::from_micros(50));
    }
    (world, owner, guards[0])
}

#[test]
fn concurrent_renewal_and_entry_disprove_nothing() {
    let (mut world, owner, guard) = held_while_a_renewal_flies();
    // The entry is executed before the renewal, which was sent before it, and its reply is read after that to the renewal.
    world.net.connection(0, Role::Durable).last_reply = world.now + ms(15);
    let task = world.acquire(0, by_another_connection(fixed(owner, 100)));
    world.run(ms(3));
    assert_eq!((world.server.calls("lock/acquire"), world.server.calls("lock/renew")), (2, 0));
    let entry = world.granted(0, task);
    assert_eq!(world.events(0, |event| matches!(event, Event::Renewed { .. })), 1);
    assert!(world.guards[guard].cell.deadline() > world.now + settings().lease - ms(60));
    world.give_back(entry);
    nothing_left_after(&mut world, guard);
}

#[test]
fn withdrawn_promise_is_not_restored_by_older_calls() {
    let (mut world, owner, guard) = held_while_a_renewal_flies();
    world.net.connection(0, Role::Calls).last_reply = world.now + ms(17);
    world.run(ms(7));
    assert_eq!(world.server.calls("lock/renew"), 1);
    world.step_server(settings().lease.as_millis() as i64 - 500);
    let entry = world.hold(0, by_another_connection(fixed(owner, 100)));
    let deadline = world.guards[guard].cell.deadline();
    assert!(deadline < world.now + ms(500), "the entry was told of the step");
    world.run(ms(15));
    assert_eq!(world.events(0, |event| matches!(event, Event::Renewed { .. })), 1);
    assert_eq!(world.guards[guard].cell.deadline(), deadline);
    world.run(ms(5_000));
    assert!(!world.guards[guard].over, "it was renewed in time");
    world.give_back(entry);
    nothing_left_after(&mut world, guard);
}

#[test]
fn renewed_hold_with_a_withdrawn_promise_renews_at_once() {
    let (mut world, owner, guards) = nested(1);
    world.step_server(-60_000);
    world.run(ms(1_100));
    assert!(world.guards[guards[0]].cell.deadline() > world.now + ms(50_000), "a renewal has told of it");
    world.step_server(60_500);
    let renewals = world.server.calls("lock/renew");
    let entry = world.hold(0, fixed(owner, 100));
    assert!(world.guards[guards[0]].cell.deadline() < world.now + ms(2_000));
    world.run(ms(10));
    assert_eq!(world.server.calls("lock/renew"), renewals + 1);
    world.give_back(entry);
    nothing_left_after(&mut world, guards[0]);
}

#[test]
fn entry_given_up_is_taken_back_for_the_lease_it_asked() {
    let (mut world, owner, guard, _) = held_while_the_server_steps(0);
    world.fault(0, "lock/acquire", CallFault::LoseReply);
    let entry = world.acquire(0, fixed(owner, 60_000));
    world.run(ms(1));
    assert_eq!(world.server.calls("lock/acquire"), 2);
    world.abandon(0, entry);
    world.set_unreachable(0, true);
    world.run(ms(10_000));
    assert!(world.guards[guard].over);
    world.drop_guard(guard);
    world.run(ms(10));
    assert!(!world.server.keys().is_empty(), "the server has it for a minute");
    world.set_unreachable(0, false);
    world.run(ms(2_000));
    assert!(world.server.keys().is_empty());
    nothing_left(&mut world);
}

#[test]
fn entry_behind_another_change_keeps_its_own_wait_limit() {
    let (mut world, owner, guards) = nested(1);
    world.set_unreachable(0, true);
    world.fault(0, "lock/acquire", CallFault::NotSent);
    let first = world.acquire(0, owned(owner));
    world.set_unreachable(0, false);
    world.run(ms(50));
    world.freeze(0, Role::Calls, ms(900));
    world.net.rates.settle_fails = 1.0;
    let second = world.acquire(0, owned(owner));
    let until = world.now + ms(100);
    let third = world.acquire(0, AcquireRequest { patience: Patience::Until(until), ..owned(owner) });
    let outcome = world.outcome(0, third);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::WaitElapsed)), "{outcome:?}");
    assert_eq!(world.now, until);
    world.net.rates.settle_fails = 0.0;
    for task in [first, second] {
        let guard = world.granted(0, task);
        world.give_back(guard);
    }
    nothing_left_after(&mut world, guards[0]);
}

#[test]
fn a_call_that_was_not_sent_is_sent_again_at_once_one_time() {
    let mut world = super::seeded(1);
    let client = world.add_client(settings());
    world.fault(client, "lock/acquire", CallFault::NotSent);
    let begun = world.now;
    let guard = world.hold(client, wish("a"));
    // A pause would be 5 ms at the least; a round trip is shorter.
    assert!(world.now < begun + ms(5), "{:?}", world.now.since(begun));
    nothing_left_after(&mut world, guard);
}

#[test]
fn entry_of_an_ended_hold_passes_unpolled_futures() {
    for micros in (100..2_000).step_by(100) {
        let (mut world, owner, guards) = nested(1);
        let sleepy = world.acquire(0, wish("a"));
        world.run(ms(5));
        world.clients[0].tasks[sleepy].polls = PollPolicy::Never;
        // Its turn comes and passes.
        world.event(0, LinkEvent::NoticesReset);
        world.run(ms(150));
        world.fault(0, "lock/acquire", CallFault::LoseReply);
        let entry = world.acquire(0, owned(owner));
        world.run(Duration::from_micros(micros));
        world.drop_guard(guards[0]);
        if let Outcome::Granted(guard) = world.outcome(0, entry) {
            world.give_back(guard);
        }
        world.abandon(0, sleepy);
        nothing_left(&mut world);
    }
}

#[test]
fn trouble_long_ago_does_not_end_a_wait_without_end() {
    let (mut world, owner, guards) = nested(1);
    let other = world.add_client(settings());
    // Three times it is sent again at once, and then after a pause.
    for _ in 0..4 {
        world.fault(0, "lock/acquire", CallFault::NotSent);
    }
    let entry = world.acquire(0, owned(owner));
    world.run(ms(1));
    // The hold ends before the entry is tried again; another client gets the lock and keeps it.
    let first = world.acquire(other, wish("a"));
    world.run(ms(2));
    world.give_back(guards[0]);
    let kept = world.granted(other, first);
    world.run(ms(10_000));
    assert_eq!(world.task(0, entry).outcome, None);
    world.give_back(kept);
    let guard = world.granted(0, entry);
    nothing_left_after(&mut world, guard);
}

/// A world in which an entry to a hold that is not renewed has been answered, and that has not been read.
fn entered_shortly_before_the_deadline() -> (World, usize, usize) {
    let mut world = world(1);
    let owner = world.clients[0].session.new_owner();
    let fixed = fixed(owner, 1_000);
    let task = world.acquire(0, fixed.clone());
    let guard = world.granted(0, task);
    let deadline = world.guards[guard].cell.deadline();
    world.run_until(deadline - ms(50));
    let entry = world.acquire(0, fixed);
    world.clients[0].tasks[entry].polls = PollPolicy::Never;
    world.run(ms(20));
    assert!(world.task(0, entry).call.is_none(), "the server has prolonged the lease, and has said so");
    (world, guard, entry)
}

/// The entry is polled, and finds that the hold is lost.
fn finds_it_lost(mut world: World, guard: usize, entry: usize) {
    world.poll(0, entry);
    let outcome = world.outcome(0, entry);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::Lost(LossReason::LeaseExpired))), "{outcome:?}");
    assert!(world.guards[guard].ended.is_raised(), "its guard has been told");
    world.drop_guard(guard);
    nothing_left(&mut world);
}

#[test]
fn entry_read_after_the_deadline_brings_no_hold_back() {
    let (mut world, guard, entry) = entered_shortly_before_the_deadline();
    // The process stands still from here on: when it goes on, it reads the reply before it looks at its timers.
    world.now = world.guards[guard].cell.deadline();
    finds_it_lost(world, guard, entry);
}

#[test]
fn an_entry_brings_no_hold_back_that_a_guard_has_seen_lost() {
    let (world, guard, entry) = entered_shortly_before_the_deadline();
    // The instant at which the reply is read was taken before that at which another thread has asked.
    let cell = &world.guards[guard].cell;
    assert_eq!(cell.ended(cell.deadline()), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    finds_it_lost(world, guard, entry);
}

#[test]
fn ended_write_lease_beside_its_reader_admits_readers() {
    let mut world = world(2);
    let owner = world.clients[0].session.new_owner();
    let half = |kind, lease| AcquireRequest { owner: Some(owner), ..AcquireRequest::new(name("a"), kind, lease) };
    let write = world.acquire(0, AcquireRequest { renewed: false, ..half(Kind::Write, ms(400)) });
    let write = world.granted(0, write);
    let read = world.acquire(0, half(Kind::Read, ms(3_000)));
    let read = world.granted(0, read);
    world.run(ms(600));
    assert!(world.guards[write].cell.ended(world.now).is_some());
    world.drop_guard(write);
    world.run(ms(20));
    let start = world.now;
    let other = world.acquire(1, AcquireRequest::new(name("a"), Kind::Read, ms(3_000)));
    let other = world.granted(1, other);
    assert!(elapsed(&world, start) < ms(20));
    world.give_back(read);
    nothing_left_after(&mut world, other);
}

#[test]
fn reader_beside_a_forgotten_writer_waits_as_others_do() {
    let mut world = world(2);
    let owner = world.clients[0].session.new_owner();
    let half = |kind| AcquireRequest { owner: Some(owner), ..AcquireRequest::new(name("a"), kind, ms(3_000)) };
    let write = world.acquire(0, half(Kind::Write));
    let write = world.granted(0, write);
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    let other = world.acquire(1, AcquireRequest::new(name("a"), Kind::Write, ms(3_000)));
    let other = world.granted_beside(1, other);
    let before = world.server.calls("read/acquire");
    let read = world.acquire(0, half(Kind::Read));
    world.run(ms(600));
    assert!(!world.guards[write].over, "the next renewal tells of the loss");
    // Beside the writer, in line, and once more when notices are confirmed.
    assert_eq!(world.server.calls("read/acquire") - before, 3);
    world.give_back(other);
    let read = world.granted(0, read);
    world.run(ms(1_000));
    assert!(world.guards[write].over);
    world.drop_guard(write);
    nothing_left_after(&mut world, read);
}

/// An owner writes and reads for two seconds, and enters its read hold for a minute, without a reply, which is settled or not. Then the
/// server is out of reach for ten seconds, and both guards are dropped after so many milliseconds of that.
fn gives_up_an_entry_beside_a_writer(settled: bool, dropped_after: u64) {
    let mut world = world(1);
    let owner = world.clients[0].session.new_owner();
    let half = |kind, lease| AcquireRequest {
        owner: Some(owner),
        renewed: false,
        ..AcquireRequest::new(name("a"), kind, ms(lease))
    };
    let guards = [Kind::Write, Kind::Read].map(|kind| world.hold(0, half(kind, 2_000)));
    world.net.rates.settle_fails = if settled { 0.0 } else { 1.0 };
    world.fault(0, "read/acquire", CallFault::LoseReply);
    let entry = world.acquire(0, half(Kind::Read, 60_000));
    world.run(ms(1));
    assert_eq!(world.server.calls("read/acquire"), 2);
    world.abandon(0, entry);
    world.run(ms(if settled { 20 } else { 0 }));
    world.set_unreachable(0, true);
    world.run(ms(dropped_after));
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    world.run(ms(10_000 - dropped_after));
    assert!(!world.server.keys().is_empty(), "the server has both for a minute");
    world.net.rates.settle_fails = 0.0;
    world.set_unreachable(0, false);
    world.run(ms(3_000));
    assert_eq!(world.server.keys(), Vec::<bytes::Bytes>::new());
    nothing_left(&mut world);
}

#[test]
fn writer_is_taken_back_while_a_readers_entry_may_keep_it() {
    gives_up_an_entry_beside_a_writer(true, 9_900);
}

#[test]
fn writer_is_kept_while_its_readers_call_is_unknown() {
    gives_up_an_entry_beside_a_writer(false, 100);
}
