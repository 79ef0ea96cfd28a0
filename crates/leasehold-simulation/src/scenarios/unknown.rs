//! Commands whose outcome is not known, and copies that come late.

use super::{elapsed, holding, nothing_left, nothing_left_after, wish, world};
use crate::world::client::Outcome;
use crate::world::network::{CallFault, Role};
use crate::world::{ms, name, settings};
use leasehold_core::command::Kind;
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Patience};
use leasehold_core::settings::Settings;
use std::sync::Arc;

#[test]
fn an_acquire_without_a_reply_is_settled_and_sent_again() {
    for kind in [CallFault::LoseReply, CallFault::LoseRequest, CallFault::Swallow] {
        let mut world = world(1);
        world.fault(0, "lock/acquire", kind);
        let start = world.now;
        let task = world.acquire(0, wish("a"));
        let guard = world.granted(0, task);
        assert!(elapsed(&world, start) < ms(400));
        assert!(world.task(0, task).sent >= 2);
        world.run(ms(100));
        world.check_counts(ms(0));
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn a_call_that_was_sent_on_a_detour_is_sent_again_at_once() {
    let refusals = ["NOSCRIPT No matching script", "MOVED 7 127.0.0.1:1", "ASK 7 127.0.0.1:1"];
    for kind in [CallFault::NotSent].into_iter().chain(refusals.map(CallFault::Refuse)) {
        let mut world = world(1);
        world.fault(0, "lock/acquire", kind.clone());
        let start = world.now;
        let owner = world.clients[0].session.new_owner();
        let guard = world.hold(0, AcquireRequest { owner: Some(owner), ..wish("a") });
        world.fault(0, "lock/acquire", kind);
        let again = world.hold(0, AcquireRequest { owner: Some(owner), ..wish("a") });
        assert!(elapsed(&world, start) < ms(4), "{:?}", elapsed(&world, start));
        world.give_back(again);
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn wait_ending_with_unknown_outcome_says_so_and_cleans_up() {
    let mut world = world(1);
    world.fault(0, "lock/acquire", CallFault::Swallow);
    let until = world.now + ms(100);
    let task = world.acquire(0, AcquireRequest { patience: Patience::Until(until), ..wish("a") });
    assert!(matches!(world.outcome(0, task), Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))));
    world.run(ms(300));
    assert!(world.server.keys().is_empty());
    nothing_left(&mut world);
}

#[test]
fn request_kept_by_a_proxy_is_killed_before_the_release() {
    let mut world = world(1);
    world.freeze(0, Role::Calls, ms(800));
    let task = world.acquire(0, wish("a"));
    world.run(ms(1));
    world.abandon(0, task);
    world.run(ms(2_000));
    assert_eq!(world.server.calls("lock/acquire"), 0, "the copy arrived although its connection was settled");
    nothing_left(&mut world);
}

#[test]
fn unproven_release_is_repeated_until_the_lease_has_ended() {
    let mut world = world(1);
    world.net.rates.unproven = 1.0;
    world.freeze(0, Role::Calls, ms(700));
    let task = world.acquire(0, wish("a"));
    world.run(ms(1));
    world.abandon(0, task);
    world.run(ms(600));
    assert!(world.server.calls("lock/release") >= 1);
    world.run(ms(200));
    assert_eq!(world.server.calls("lock/acquire"), 1, "the late copy was applied");
    world.run(ms(500));
    assert!(world.server.keys().is_empty(), "the late grant outlived the repeated release");
    world.run(ms(4_000));
    world.check_nothing_left();
}

#[test]
fn late_copy_behind_a_busy_attempt_is_taken_back() {
    for kind in [Kind::Lock, Kind::Fenced, Kind::Simple] {
        let mut world = world(2);
        world.net.rates.unproven = 1.0;
        world.plan.copies = true;
        let wish = || AcquireRequest::new(name("a"), kind, ms(3_000));
        let before = world.hold(1, wish());
        let script = match kind {
            Kind::Fenced => "fenced/acquire",
            Kind::Simple => "simple/acquire",
            _ => "lock/acquire",
        };
        world.freeze(0, Role::Calls, ms(900));
        let patience = Patience::Until(world.now + ms(500));
        let task = world.acquire(0, AcquireRequest { patience, ..wish() });
        let outcome = world.outcome(0, task);
        assert!(matches!(outcome, Outcome::NotAcquired(_)), "{kind:?}: {outcome:?}");
        let calls = world.server.calls(script);
        assert!(calls >= 2, "{kind:?}: a later attempt has found the lock busy");
        world.give_back(before);
        world.run(ms(500));
        assert_eq!(world.server.calls(script), calls + 1, "{kind:?}: the late copy was applied");
        world.run(ms(700));
        assert_eq!(
            world.server.command(&[b"EXISTS", b"a"]),
            Ok(Reply::Int(0)),
            "{kind:?}: it outlived the repeated release"
        );
        world.run(ms(5_000));
    }
}

#[test]
fn acquire_refused_after_an_unknown_one_is_unknown() {
    let mut world = world(1);
    world.fault(0, "lock/acquire", CallFault::LoseReply);
    world.fault(0, "lock/acquire", CallFault::Refuse("OOM no"));
    let task = world.acquire(0, wish("a"));
    assert!(matches!(world.outcome(0, task), Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))));
    world.run(ms(50));
    assert!(world.server.keys().is_empty());
    nothing_left(&mut world);
}

#[test]
fn release_refused_after_an_unknown_one_is_unknown() {
    let (mut world, guard) = holding(1);
    world.fault(0, "lock/release", CallFault::LoseReply);
    world.fault(0, "lock/release", CallFault::Refuse("OOM no"));
    let task = world.release(guard);
    assert!(matches!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::OutcomeUnknown(_))));
    nothing_left(&mut world);
}

#[test]
fn a_release_without_a_reply_is_repeated_and_counts_as_released() {
    for kind in [CallFault::LoseReply, CallFault::LoseRequest, CallFault::Swallow] {
        let (mut world, guard) = holding(1);
        world.fault(0, "lock/release", kind);
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn late_copies_of_an_old_hold_change_nothing_of_a_later_one() {
    let mut world = world(1);
    world.fault(0, "lock/acquire", CallFault::CopyAfter(ms(100)));
    world.fault(0, "lock/release", CallFault::CopyAfter(ms(100)));
    let guard = world.hold(0, wish("a"));
    world.give_back(guard);
    let guard = world.hold(0, wish("a"));
    world.run(ms(300));
    world.check_counts(ms(0));
    assert!(world.guards[guard].cell.ended(world.now).is_none());
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_grant_that_is_older_than_its_lease_is_not_handed_out() {
    let mut world = world(1);
    world.clients[0].tasks.clear();
    let short = AcquireRequest { lease: ms(50), renewed: false, ..wish("a") };
    let task = world.acquire_polled(0, short, crate::world::client::PollPolicy::Late(ms(55)));
    world.run(ms(58));
    assert_eq!(world.task(0, task).outcome, None);
    // Polled in time, the next attempt succeeds.
    world.clients[0].tasks[task].polls = crate::world::client::PollPolicy::AtOnce;
    let guard = world.granted(0, task);
    assert_eq!(world.task(0, task).sent, 3);
    nothing_left_after(&mut world, guard);
}

#[test]
fn unanswered_call_is_given_up_after_the_command_timeout() {
    let mut world = world(1);
    // Neither the call nor what settles it gets through.
    world.fault(0, "lock/acquire", CallFault::Swallow);
    world.net.rates.settle_fails = 1.0;
    let until = world.now + ms(300);
    let task = world.acquire(0, AcquireRequest { patience: Patience::Until(until), ..wish("a") });
    assert!(matches!(world.outcome(0, task), Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))));
    assert!(world.now <= until + ms(250), "{:?}", world.now);
    world.net.rates.settle_fails = 0.0;
    world.run(ms(2_000));
    world.check_nothing_left();
}

#[test]
fn settling_an_old_connection_proves_nothing_of_the_next() {
    let mut world = world(1);
    let old = world.acquire_polled(0, wish("a"), crate::world::client::PollPolicy::Never);
    world.run(ms(1));
    world.reset(0, Role::Calls);
    world.run(ms(6));
    world.freeze(0, Role::Calls, ms(90));
    let new = world.acquire(0, wish("b"));
    let guard = world.granted(0, new);
    assert_eq!(world.task(0, new).sent, 1, "it was taken for answered");
    world.abandon(0, old);
    nothing_left_after(&mut world, guard);
}

#[test]
fn first_grant_after_its_time_is_refused_where_asked() {
    for not_after in [true, false] {
        let mut world = world(0);
        world.add_client(Settings { not_after, ..settings() });
        // From the first reply on the client knows the server's time.
        for turn in 0..2 {
            if turn == 1 {
                world.fault(0, "lock/acquire", CallFault::CopyAfter(ms(500)));
            }
            let guard = world.hold(0, wish("a"));
            world.give_back(guard);
        }
        world.run(ms(600));
        assert_eq!(world.server.keys().is_empty(), not_after, "what the late copy took");
    }
}

#[test]
fn call_held_up_by_a_settlement_goes_again_until_sent() {
    let mut world = world(1);
    world.fault(0, "lock/acquire", CallFault::Delay(ms(280)));
    let late = world.acquire(0, AcquireRequest { patience: Patience::Try, ..wish("x") });
    while world.net.settling.is_empty() {
        world.run(ms(1));
    }
    world.abandon(0, late);
    for _ in 0..8 {
        world.fault(0, "lock/acquire", CallFault::NotSent);
    }
    let patience = Patience::Until(world.now + ms(2));
    let guard = world.hold(0, AcquireRequest { patience, ..wish("y") });
    nothing_left_after(&mut world, guard);
}

#[test]
fn future_moved_to_another_task_is_told_of_a_lost_reply() {
    let mut world = world(1);
    world.net.rates.settle_fails = 1.0;
    world.fault(0, "lock/acquire", CallFault::Swallow);
    let (start, patience) = (world.now, Patience::Until(world.now + ms(50)));
    let task = world.acquire(0, AcquireRequest { patience, ..wish("a") });
    world.run(ms(10));
    world.clients[0].tasks[task].flag = Arc::default();
    world.poll(0, task);
    let outcome = world.outcome(0, task);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))), "{outcome:?}");
    assert!(elapsed(&world, start) < ms(300), "{:?}", elapsed(&world, start));
    world.net.rates.settle_fails = 0.0;
    world.run(ms(3_000));
    nothing_left(&mut world);
}
