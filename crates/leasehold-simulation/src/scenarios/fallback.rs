//! The results for callers while the server is out of reach.

use super::{elapsed, nothing_left, nothing_left_after, wish, world};
use crate::world::client::{Outcome, PollPolicy};
use crate::world::network::CallFault;
use crate::world::{World, ms, name};
use leasehold_core::command::Kind;
use leasehold_core::error::{AcquireError, HoldEnd, LossReason};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Event, Fallback, Outgoing, Patience};

fn local(lock: &str) -> AcquireRequest {
    AcquireRequest { fallback: Fallback::Local, ..wish(lock) }
}

fn is_degraded(world: &World, guard: usize) -> bool {
    world.guards[guard].cell.is_degraded()
}

fn count(world: &World, guard: usize) -> u32 {
    world.count_on_server(&world.guards[guard]).expect("a kind that counts")
}

#[test]
fn without_a_fallback_it_fails() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let task = world.acquire(0, wish("a"));
    let outcome = world.outcome(0, task);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::Unreachable(_))), "{outcome:?}");
}

#[test]
fn local_fallback_after_unreachable_then_immediate() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let task = world.acquire(0, local("a"));
    let start = world.now;
    let guard = world.granted(0, task);
    assert!(is_degraded(&world, guard));
    assert!(elapsed(&world, start) >= ms(2_000), "as long as the server may be out of reach");
    let task = world.acquire(0, local("b"));
    let start = world.now;
    let other = world.granted(0, task);
    assert!(elapsed(&world, start) < ms(50), "the outage is known by now");
    assert_eq!(world.events(0, |event| matches!(event, Event::Degraded { .. })), 2);
    world.give_back(guard);
    world.give_back(other);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn two_tasks_never_hold_at_once_with_the_server_away_and_back() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let tasks: Vec<_> = (0..3).map(|_| world.acquire(0, local("a"))).collect();
    let mut guard = world.granted(0, tasks[0]);
    for (turn, task) in tasks.iter().enumerate().skip(1) {
        world.run(ms(700));
        // The second one waits while the server is away, and the third one while it is back.
        world.set_unreachable(0, turn == 1);
        world.run(ms(700));
        assert!(world.task(0, *task).outcome.is_none(), "somebody of this client has it");
        assert_eq!(is_degraded(&world, guard), turn == 1);
        world.give_back(guard);
        guard = world.granted(0, *task);
    }
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_degraded_hold_becomes_real_when_the_server_returns() {
    let mut world = world(2);
    world.set_unreachable(0, true);
    let guard = world.hold(0, local("a"));
    world.run(ms(5_000));
    assert!(world.guards[guard].cell.ended(world.now).is_none(), "nothing ends it");
    world.set_unreachable(0, false);
    world.run(ms(400));
    assert!(!is_degraded(&world, guard));
    assert_eq!(count(&world, guard), 1);
    assert_eq!(world.events(0, |event| matches!(event, Event::Restored { .. })), 1);
    let other = world.acquire(1, AcquireRequest { patience: Patience::Try, ..wish("a") });
    assert_eq!(world.outcome(1, other), Outcome::Nothing, "it excludes other clients from now on");
    world.run(ms(9_000));
    assert!(world.guards[guard].cell.ended(world.now).is_none(), "it is renewed");
    nothing_left_after(&mut world, guard);
}

#[test]
fn unpolled_grant_without_the_server_is_taken_back() {
    let mut world = world(2);
    world.set_unreachable(0, true);
    let guard = world.hold(0, local("a"));
    let sleepy = world.acquire_polled(0, local("a"), PollPolicy::Never);
    world.give_back(guard);
    world.run(ms(1_000));
    world.set_unreachable(0, false);
    world.run(ms(1_000));
    let guard = world.hold(1, wish("a"));
    world.give_back(guard);
    world.clients[0].tasks[sleepy].polls = PollPolicy::AtOnce;
    world.poll(0, sleepy);
    let guard = world.granted(0, sleepy);
    nothing_left_after(&mut world, guard);
}

#[test]
fn restoration_waits_for_a_release_of_the_same_client() {
    for (former, next) in [(Kind::Lock, Kind::Lock), (Kind::Write, Kind::Read), (Kind::Read, Kind::Write)] {
        let mut world = world(1);
        let half = |kind| AcquireRequest { kind, lease: ms(20_000), ..local("a") };
        let left = world.hold(0, half(former));
        world.set_unreachable(0, true);
        world.drop_guard(left);
        let guard = world.hold(0, half(next));
        assert!(is_degraded(&world, guard));
        world.set_unreachable(0, false);
        world.run(ms(2_000));
        assert_eq!(world.guards[guard].cell.ended(world.now), None, "{next:?} after {former:?}");
        assert!(!is_degraded(&world, guard), "{next:?} after {former:?}");
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn restoration_waits_for_an_acquire_that_was_given_up() {
    let mut world = world(1);
    world.fault(0, "lock/acquire", CallFault::LoseReply);
    let task = world.acquire(0, AcquireRequest { lease: ms(20_000), ..local("a") });
    world.run(ms(2));
    world.set_unreachable(0, true);
    world.abandon(0, task);
    let guard = world.hold(0, local("a"));
    assert!(is_degraded(&world, guard));
    world.set_unreachable(0, false);
    world.run(ms(4_000));
    assert_eq!(world.guards[guard].cell.ended(world.now), None);
    assert!(!is_degraded(&world, guard));
    nothing_left_after(&mut world, guard);
}

#[test]
fn restoration_without_reply_is_taken_back_with_its_guard() {
    let mut world = world(2);
    world.set_unreachable(0, true);
    let guard = world.hold(0, local("a"));
    world.fault(0, "lock/acquire", CallFault::LoseReply);
    world.set_unreachable(0, false);
    while count(&world, guard) == 0 {
        assert!(world.step(world.now + ms(1_000)), "the server is asked for it");
    }
    // The server is out of reach again before it could tell, and is asked in vain.
    world.set_unreachable(0, true);
    world.run(ms(1_000));
    assert!(is_degraded(&world, guard));
    let task = world.release(guard);
    world.run(ms(50));
    world.set_unreachable(0, false);
    assert_eq!(world.outcome(0, task), Outcome::Released);
    // Far sooner than its lease ends.
    world.run(ms(600));
    assert_eq!(count(&world, guard), 0);
    nothing_left(&mut world);
}

#[test]
fn a_degraded_hold_is_lost_where_somebody_else_has_the_lock() {
    let mut world = world(2);
    let other = world.hold(1, wish("a"));
    world.set_unreachable(0, true);
    let task = world.acquire(0, local("a"));
    let guard = world.granted_beside(0, task);
    world.set_unreachable(0, false);
    world.run(ms(400));
    let end = world.guards[guard].cell.ended(world.now);
    assert_eq!(end, Some(HoldEnd::Lost(LossReason::NotRestored)));
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

#[test]
fn what_may_have_been_applied_does_not_fall_back() {
    let mut world = world(1);
    world.fault(0, "lock/acquire", CallFault::LoseReply);
    let task = world.acquire(0, AcquireRequest { patience: Patience::Until(world.now + ms(5_000)), ..local("a") });
    world.run(ms(2));
    world.set_unreachable(0, true);
    let outcome = world.outcome(0, task);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))), "{outcome:?}");
    world.set_unreachable(0, false);
    world.run(ms(4_000));
    nothing_left(&mut world);
}

#[test]
fn a_degraded_hold_is_entered_again_and_stays_one_hold() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let owner = Some(world.clients[0].session.new_owner());
    let outer = world.hold(0, AcquireRequest { owner, ..local("a") });
    let inner = world.hold(0, AcquireRequest { owner, ..local("a") });
    assert_eq!(world.guards[inner].cell.count(), 2);
    world.set_unreachable(0, false);
    world.run(ms(400));
    assert!(!is_degraded(&world, inner));
    let third = world.hold(0, AcquireRequest { owner, ..local("a") });
    for guard in [third, inner] {
        world.give_back(guard);
    }
    world.run(ms(4_000));
    assert!(world.guards[outer].cell.ended(world.now).is_none(), "it is renewed for the sake of the last guard");
    nothing_left_after(&mut world, outer);
}

#[test]
fn degraded_hold_released_in_the_outage_leaves_nothing() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    for how in 0..2 {
        let guard = world.hold(0, local("a"));
        if how == 0 { world.drop_guard(guard) } else { world.give_back(guard) }
    }
    world.set_unreachable(0, false);
    nothing_left(&mut world);
    assert_eq!(world.server.keys().len(), 0);
}

#[test]
fn local_readers_and_writers_exclude_each_other() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let half = |kind| AcquireRequest { kind, ..local("a") };
    let one = world.hold(0, half(Kind::Read));
    let task = world.acquire(0, half(Kind::Read));
    let other = world.granted(0, task);
    let writer = world.acquire(0, half(Kind::Write));
    world.run(ms(500));
    assert!(world.task(0, writer).outcome.is_none());
    world.give_back(one);
    world.give_back(other);
    let writing = world.granted(0, writer);
    let reader = world.acquire(0, half(Kind::Read));
    world.run(ms(500));
    assert!(world.task(0, reader).outcome.is_none());
    world.give_back(writing);
    let reading = world.granted(0, reader);
    world.give_back(reading);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn a_hold_that_passes_through_excludes_nobody() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let through = || AcquireRequest { fallback: Fallback::PassThrough, ..wish("a") };
    let one = world.hold(0, through());
    let task = world.acquire(0, through());
    let other = world.granted_beside(0, task);
    assert!(is_degraded(&world, one) && is_degraded(&world, other));
    world.set_unreachable(0, false);
    world.run(ms(1_000));
    assert!(is_degraded(&world, one), "the server is not asked for it");
    assert_eq!(world.count_of(&name("a"), &world.guards[one].field), 0);
    world.give_back(one);
    nothing_left_after(&mut world, other);
}

#[test]
fn who_falls_back_does_so_whoever_is_ahead_of_it() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let first = world.acquire(0, wish("a"));
    let second = world.acquire(0, local("a"));
    let third = world.acquire(0, local("a"));
    let outcome = world.outcome(0, first);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::Unreachable(_))), "{outcome:?}");
    let guard = world.granted(0, second);
    assert!(is_degraded(&world, guard));
    world.give_back(guard);
    let guard = world.granted(0, third);
    world.give_back(guard);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn a_half_that_fell_back_excludes_the_other_half_which_does_not() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let reading = world.hold(0, AcquireRequest { kind: Kind::Read, ..local("a") });
    world.set_unreachable(0, false);
    let patience = Patience::Try;
    let task = world.acquire(0, AcquireRequest { kind: Kind::Write, patience, ..wish("a") });
    assert_eq!(world.outcome(0, task), Outcome::Nothing);
    nothing_left_after(&mut world, reading);
}

#[test]
fn a_fixed_lease_is_not_lengthened_by_the_server_that_returns() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..local("a") });
    let end = world.guards[guard].cell.deadline();
    world.run(ms(600));
    world.set_unreachable(0, false);
    world.run(ms(300));
    assert!(!is_degraded(&world, guard));
    assert!(world.guards[guard].cell.deadline() <= end);
    world.drop_guard(guard);
    nothing_left(&mut world);
}

#[test]
fn restoration_read_after_the_deadline_restores_nothing() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..local("a") });
    let cell = world.guards[guard].cell.clone();
    let due = world.now + ms(300);
    // The process stands still while the server is asked: when it goes on, it reads the reply before it looks at its timers.
    let session = &mut world.clients[0].session;
    session.handle_timeout(due);
    let Outgoing { id, call, .. } = session.poll_call().expect("the server is asked again");
    assert_eq!(call.script().name(), "lock/acquire");
    let reply = Reply::Array([1, 1_000, 0].map(Reply::Int).to_vec());
    session.handle_called(cell.deadline(), id, Ok(reply));
    world.look_after(0);
    assert_eq!(world.events(0, |event| matches!(event, Event::Restored { .. })), 0);
    assert!(cell.is_degraded(), "the holder never had it on the server");
    assert_eq!(cell.ended(cell.deadline()), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    assert!(world.guards[guard].ended.is_raised(), "its guard has been told");
}

#[test]
fn of_two_clients_that_held_without_the_server_one_keeps_its_lock() {
    let mut world = world(2);
    world.set_unreachable(0, true);
    world.set_unreachable(1, true);
    let tasks = [0, 1].map(|client| (client, world.acquire(client, local("a"))));
    let guards = tasks.map(|(client, task)| world.granted_beside(client, task));
    world.judged(|rules, _| rules.exclusion.is_waived = true);
    world.set_unreachable(0, false);
    world.set_unreachable(1, false);
    world.run(ms(2_000));
    world.judged(|rules, _| rules.exclusion.is_waived = false);
    let ends = guards.map(|guard| world.guards[guard].cell.ended(world.now));
    let lost = Some(HoldEnd::Lost(LossReason::NotRestored));
    assert!(ends == [None, lost] || ends == [lost, None], "{ends:?}");
    let kept = usize::from(ends[0].is_some());
    assert!(!is_degraded(&world, guards[kept]));
    world.drop_guard(guards[1 - kept]);
    nothing_left_after(&mut world, guards[kept]);
}

#[test]
fn readers_of_two_clients_that_held_without_the_server_are_both_restored() {
    let mut world = world(2);
    let read = || AcquireRequest { kind: Kind::Read, ..local("a") };
    world.set_unreachable(0, true);
    world.set_unreachable(1, true);
    let guards = [0, 1].map(|client| world.hold(client, read()));
    world.set_unreachable(0, false);
    world.set_unreachable(1, false);
    world.run(ms(2_000));
    for guard in guards {
        assert_eq!((world.guards[guard].cell.ended(world.now), is_degraded(&world, guard)), (None, false));
    }
    world.give_back(guards[0]);
    nothing_left_after(&mut world, guards[1]);
}

/// A read beside its owner's write hold asks the server past the tasks of its client. When that hold ends, it waits for these like any other.
#[test]
fn read_beside_a_write_hold_that_ended_waits_for_the_local_writer() {
    let mut world = world(2);
    let owner = Some(world.clients[0].session.new_owner());
    let reading = world.hold(1, AcquireRequest { kind: Kind::Read, ..wish("a") });
    world.set_unreachable(0, true);
    let writing = |owner| AcquireRequest { kind: Kind::Write, owner, ..local("a") };
    let task = world.acquire(0, writing(owner));
    let first = world.granted_beside(0, task);
    let wait =
        AcquireRequest { waits_out_outage: true, patience: Patience::Until(world.now + ms(60_000)), ..wish("a") };
    let read = world.acquire(0, AcquireRequest { kind: Kind::Read, owner, ..wait });
    let task = world.acquire(0, writing(None));
    world.give_back(first);
    let second = world.granted_beside(0, task);
    // The server refuses to restore the second write hold, and its client does not learn it.
    world.fault(0, "write/acquire", CallFault::LoseReply);
    world.set_unreachable(0, false);
    while is_degraded(&world, second) && world.guards[second].cell.ended(world.now).is_none() {
        let outcome = &world.task(0, read).outcome;
        assert!(outcome.is_none(), "a task of its client writes: {outcome:?}");
        assert!(world.step(world.now + ms(1_000)), "the server is asked for it");
    }
    world.drop_guard(second);
    let granted = world.granted(0, read);
    world.give_back(granted);
    nothing_left_after(&mut world, reading);
}

/// The server grants a read that was asked beside a write hold, after that hold has ended and a task of the client writes without the server.
#[test]
fn late_grant_beside_a_write_hold_that_ended_is_given_back() {
    let mut world = world(1);
    let owner = Some(world.clients[0].session.new_owner());
    world.set_unreachable(0, true);
    let writing = |owner| AcquireRequest { kind: Kind::Write, owner, ..local("a") };
    let task = world.acquire(0, writing(owner));
    let first = world.granted(0, task);
    // The server is back for the read alone.
    (0..9).for_each(|_| world.fault(0, "write/acquire", CallFault::NotSent));
    world.fault(0, "read/acquire", CallFault::Delay(ms(100)));
    world.set_unreachable(0, false);
    world.run(ms(2));
    let read = world.acquire(0, AcquireRequest { kind: Kind::Read, owner, ..wish("a") });
    world.give_back(first);
    let task = world.acquire(0, writing(None));
    let second = world.granted(0, task);
    assert!(is_degraded(&world, second));
    world.run(ms(110));
    assert!(is_degraded(&world, second) && world.guards[second].cell.ended(world.now).is_none());
    assert!(world.task(0, read).outcome.is_none(), "a task of its client writes");
    world.give_back(second);
    let reading = world.granted(0, read);
    nothing_left_after(&mut world, reading);
}
