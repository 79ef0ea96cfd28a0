//! The waiters, how long they wait, whose turn it is, and notices that do not come.

use super::{elapsed, holding, nothing_left, nothing_left_after, wish, world};
use crate::faults::FaultEvent;
use crate::terms::LockFamily;
use crate::workload::UserEvent;
use crate::world::client::{Outcome, PollPolicy};
use crate::world::network::{CallFault, Role};
use crate::world::{World, ms, name};
use leasehold_core::command::Kind;
use leasehold_core::error::AcquireError;
use leasehold_core::session::{AcquireRequest, Event, Fallback, Patience};
use std::time::Duration;

#[test]
fn a_free_lock_costs_one_command_and_its_release_another() {
    let (mut world, guard) = holding(1);
    world.check_counts(ms(0));
    world.give_back(guard);
    assert_eq!((world.server.calls("lock/acquire"), world.server.calls("lock/release")), (1, 1));
    assert_eq!(world.net.subscribes, 0);
    nothing_left(&mut world);
}

#[test]
fn waiter_subscribes_tries_again_sleeps_and_is_woken() {
    let (mut world, guard) = holding(2);
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(500));
    assert_eq!(world.server.calls("lock/acquire"), 3, "one, one that was busy, and one after the subscription");
    assert_eq!(world.server.subscriptions(), 1);
    let start = world.now;
    world.give_back(guard);
    let guard = world.granted(1, waiter);
    assert!(elapsed(&world, start) < ms(3));
    assert_eq!(world.server.calls("lock/acquire"), 4);
    world.run(ms(5));
    assert_eq!(world.server.subscriptions(), 0, "nobody waits any more");
    nothing_left_after(&mut world, guard);
}

#[test]
fn line_of_a_hundred_makes_one_attempt_a_release() {
    let mut world = world(2);
    let mut guard = world.hold(0, wish("a"));
    let waiters: Vec<_> = (0..100).map(|_| world.acquire(1, wish("a"))).collect();
    world.run(ms(100));
    for waiter in waiters {
        world.give_back(guard);
        guard = world.granted(1, waiter);
    }
    world.give_back(guard);
    assert_eq!(world.server.calls("lock/acquire"), 1 + 2 + 100);
    assert_eq!(world.net.subscribes, 1);
    nothing_left(&mut world);
}

#[test]
fn a_turn_that_is_not_used_passes_on_after_fifty_milliseconds() {
    let (mut world, guard) = holding(2);
    let first = world.acquire(1, wish("a"));
    let second = world.acquire(1, wish("a"));
    world.run(ms(100));
    world.clients[1].tasks[first].polls = PollPolicy::Never;
    let start = world.now;
    world.give_back(guard);
    let guard = world.granted(1, second);
    assert!(elapsed(&world, start) > ms(50) && elapsed(&world, start) < ms(53));
    assert_eq!(world.events(1, |event| matches!(event, Event::UnpolledTurn { .. })), 1);
    world.give_back(guard);
    // The first one comes at once when it is polled after all.
    world.clients[1].tasks[first].polls = PollPolicy::AtOnce;
    world.poll(1, first);
    let guard = world.granted(1, first);
    nothing_left_after(&mut world, guard);
}

#[test]
fn unpolled_grant_is_taken_back_within_100_ms() {
    let mut world = world(2);
    let sleepy = world.acquire_polled(0, wish("a"), PollPolicy::Never);
    let start = world.now;
    world.run(ms(1));
    let guard = world.hold(1, wish("a"));
    assert!(elapsed(&world, start) < ms(100), "{:?}", elapsed(&world, start));
    world.clients[0].tasks[sleepy].polls = PollPolicy::AtOnce;
    world.poll(0, sleepy);
    world.run(ms(100));
    assert_eq!(world.task(0, sleepy).outcome, None, "it was granted the lock that another has");
    world.give_back(guard);
    let guard = world.granted(0, sleepy);
    nothing_left_after(&mut world, guard);
}

#[test]
fn future_always_polled_late_gets_in_as_its_time_doubles() {
    let mut world = world(1);
    let late = world.acquire_polled(0, wish("a"), PollPolicy::Late(ms(250)));
    let guard = world.granted(0, late);
    let passed = world.events(0, |event| matches!(event, Event::UnpolledTurn { .. }));
    assert_eq!(passed, 3, "60, 100 and 180 ms are too short, 340 ms is not");
    nothing_left_after(&mut world, guard);
}

#[test]
fn futures_all_polled_late_do_not_pass_the_turn_for_ever() {
    let mut world = world(2);
    let task = world.acquire(0, wish("a"));
    let guard = world.granted(0, task);
    let late: Vec<_> = (0..3).map(|n| world.acquire_polled(1, wish("a"), PollPolicy::Late(ms(55 + n)))).collect();
    world.run(ms(500));
    world.give_back(guard);
    world.run(ms(3_000));
    let granted: Vec<_> = late
        .iter()
        .filter_map(|task| match world.task(1, *task).outcome {
            Some(Outcome::Granted(guard)) => Some(guard),
            _ => None,
        })
        .collect();
    assert_eq!(granted.len(), 1);
}

#[test]
fn trying_does_not_wait() {
    let (mut world, guard) = holding(2);
    let tries = AcquireRequest { patience: Patience::Try, ..wish("a") };
    let task = world.acquire(1, tries.clone());
    assert_eq!(world.outcome(1, task), Outcome::Nothing);
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(10));
    let calls = world.server.calls("lock/acquire");
    let task = world.acquire(1, tries);
    assert_eq!(world.outcome(1, task), Outcome::Nothing);
    assert_eq!(world.server.calls("lock/acquire"), calls, "somebody of the same client waits already");
    world.abandon(1, waiter);
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_wait_ends_in_time_after_a_last_attempt() {
    let (mut world, guard) = holding(2);
    let until = world.now + ms(700);
    let task = world.acquire(1, AcquireRequest { patience: Patience::Until(until), ..wish("a") });
    world.run(ms(600));
    let calls = world.server.calls("lock/acquire");
    assert_eq!(world.outcome(1, task), Outcome::NotAcquired(AcquireError::WaitElapsed));
    assert!(world.now >= until && world.now < until + ms(2));
    assert_eq!(world.server.calls("lock/acquire"), calls + 1);
    nothing_left_after(&mut world, guard);
}

#[test]
fn the_last_attempt_may_succeed() {
    let (mut world, guard) = holding(2);
    let until = world.now + ms(700);
    let task = world.acquire(1, AcquireRequest { patience: Patience::Until(until), ..wish("a") });
    world.run(ms(600));
    world.net.rates.lose_notice = 1.0;
    world.give_back(guard);
    let guard = world.granted(1, task);
    assert!(world.now >= until);
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_server_out_of_reach_fails_an_acquire_after_its_time() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let start = world.now;
    let first = world.acquire(0, wish("a"));
    let second = world.acquire(0, wish("a"));
    assert!(matches!(world.outcome(0, first), Outcome::NotAcquired(AcquireError::Unreachable(_))));
    assert!(matches!(world.outcome(0, second), Outcome::NotAcquired(AcquireError::Unreachable(_))));
    assert_eq!(elapsed(&world, start), ms(2_000));
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

/// Runs until the task fails because its server is unreachable, and returns the elapsed time.
fn fails_unreachable(world: &mut World, task: usize) -> Duration {
    let start = world.now;
    let outcome = world.outcome(0, task);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::Unreachable(_))), "{outcome:?}");
    elapsed(world, start)
}

/// A request whose caller set the wait.
fn waits_for(world: &World, wait: Duration) -> AcquireRequest {
    AcquireRequest { patience: Patience::Until(world.now + wait), waits_out_outage: true, ..wish("a") }
}

const AT_ONCE: Duration = ms(20);

#[test]
fn try_in_a_known_outage_fails_at_once() {
    for kind in [Kind::Lock, Kind::Fenced, Kind::Fair, Kind::Spin, Kind::Read, Kind::Write, Kind::Permits] {
        let mut world = world(1);
        let tries = |world: &mut World| {
            let task = world.acquire(0, AcquireRequest { kind, patience: Patience::Try, ..wish("a") });
            fails_unreachable(world, task)
        };
        world.set_unreachable(0, true);
        world.run(ms(10));
        assert!(tries(&mut world) < AT_ONCE, "{kind:?}");
        // Also behind an acquire that waits for the server.
        let waits = world.acquire(0, AcquireRequest { kind, ..wish("a") });
        world.run(ms(100));
        assert!(tries(&mut world) < AT_ONCE, "{kind:?}");
        assert!(world.task(0, waits).outcome.is_none());
        world.set_unreachable(0, false);
    }
}

#[test]
fn acquire_without_a_wait_fails_when_the_outage_has_lasted_too_long() {
    for kind in [Kind::Lock, Kind::Fenced, Kind::Fair, Kind::Spin, Kind::Read, Kind::Write, Kind::Permits] {
        let mut world = world(1);
        world.set_unreachable(0, true);
        world.run(ms(1_500));
        let task = world.acquire(0, AcquireRequest { kind, ..wish("a") });
        let took = fails_unreachable(&mut world, task);
        assert!(took >= ms(480) && took <= ms(520), "{kind:?}: {took:?}, where unreachable_after is 2 s");
        world.run(ms(60_000));
        // The client's default wait does not count as the caller's.
        let default_wait = AcquireRequest { waits_out_outage: false, ..waits_for(&world, ms(5_000)) };
        for wish in [AcquireRequest { kind, ..wish("a") }, AcquireRequest { kind, ..default_wait }] {
            let task = world.acquire(0, wish);
            let took = fails_unreachable(&mut world, task);
            assert!(took < AT_ONCE, "{kind:?}: {took:?}");
        }
        world.set_unreachable(0, false);
    }
}

#[test]
fn acquire_with_a_wait_waits_for_a_server_that_is_known_to_be_gone() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    world.run(ms(60_000));
    for (wait, least) in [(ms(300), ms(300)), (ms(5_000), ms(2_000))] {
        let task = world.acquire(0, waits_for(&world, wait));
        let took = fails_unreachable(&mut world, task);
        assert!(took >= least && took <= least + AT_ONCE, "{wait:?}: {took:?}, where unreachable_after is 2 s");
    }
    let task = world.acquire(0, waits_for(&world, ms(1_500)));
    world.run(ms(700));
    world.set_unreachable(0, false);
    let guard = world.granted(0, task);
    nothing_left_after(&mut world, guard);
}

#[test]
fn waits_of_one_line_outlast_a_known_outage_each_for_itself() {
    for has_first_wait in [false, true] {
        let mut world = world(1);
        world.set_unreachable(0, true);
        world.run(ms(1_000));
        let wishes = [waits_for(&world, ms(1_500)), wish("a")];
        let mut tasks = [0; 2];
        for turn in if has_first_wait { [0, 1] } else { [1, 0] } {
            tasks[turn] = world.acquire(0, wishes[turn].clone());
        }
        let took = fails_unreachable(&mut world, tasks[1]);
        assert!(took >= ms(980) && took <= ms(1_020), "{took:?}");
        assert!(world.task(0, tasks[0]).outcome.is_none(), "its wait is not over");
        // A new request fails, regardless of waiters.
        let late = world.acquire(0, wish("a"));
        assert!(fails_unreachable(&mut world, late) < AT_ONCE);
        assert!(world.task(0, tasks[0]).outcome.is_none(), "its wait is not over");
        world.set_unreachable(0, false);
        let guard = world.granted(0, tasks[0]);
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn wait_for_a_task_of_the_same_client_outlasts_a_known_outage() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let local = AcquireRequest { fallback: Fallback::Local, ..wish("a") };
    let guard = world.hold(0, local.clone());
    let waits = [world.acquire(0, wish("a")), world.acquire(0, local)];
    world.run(ms(30_000));
    assert!(waits.iter().all(|task| world.task(0, *task).outcome.is_none()), "they wait for the holder");
    world.give_back(guard);
    assert!(fails_unreachable(&mut world, waits[0]) < AT_ONCE);
    let guard = world.granted(0, waits[1]);
    world.give_back(guard);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn sleeping_waiter_learns_of_an_outage_with_the_others() {
    for kind in [Kind::Lock, Kind::Fenced, Kind::Fair, Kind::Spin, Kind::Read, Kind::Write] {
        let mut world = world(2);
        let half = if kind == Kind::Read { Kind::Write } else { kind };
        world.hold(0, AcquireRequest { kind: half, ..wish("a") });
        let waiters = [(); 3].map(|()| world.acquire(1, AcquireRequest { kind, ..wish("a") }));
        world.run(ms(100));
        world.set_unreachable(1, true);
        let start = world.now;
        for waiter in waiters {
            let outcome = world.outcome(1, waiter);
            let unreachable = matches!(outcome, Outcome::NotAcquired(AcquireError::Unreachable(_)));
            assert!(unreachable, "{kind:?}: {outcome:?}");
        }
        let after = elapsed(&world, start);
        assert!(after >= ms(1_990) && after <= ms(2_200), "{kind:?}: {after:?}, where unreachable_after is 2 s");
    }
}

#[test]
fn a_short_outage_ends_no_wait_that_slept_through_it() {
    let (mut world, guard) = holding(2);
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(100));
    for _ in 0..5 {
        world.set_unreachable(1, true);
        world.run(ms(1_500));
        world.set_unreachable(1, false);
        world.run(ms(500));
    }
    world.give_back(guard);
    let guard = world.granted(1, waiter);
    nothing_left_after(&mut world, guard);
}

#[test]
fn an_outage_is_said_with_what_is_at_stake() {
    let mut world = world(1);
    let guards = ["a", "b", "c"].map(|name| world.hold(0, wish(name)));
    world.set_unreachable(0, true);
    world.run(ms(500));
    world.set_unreachable(0, false);
    world.run(ms(500));
    let out = |event: &Event| matches!(event, Event::OutOfReach { holds: 3, first_lost_in: Some(left), .. } if *left > ms(500));
    let back =
        |event: &Event| matches!(event, Event::Connected { again: true, out_for: Some(time), .. } if *time >= ms(500));
    assert_eq!(world.events(0, out), 1);
    assert_eq!(world.events(0, back), 1);
    guards.into_iter().for_each(|guard| world.give_back(guard));
    nothing_left(&mut world);
}

#[test]
fn a_server_that_comes_back_in_time_is_asked_again() {
    let mut world = world(1);
    world.set_unreachable(0, true);
    let task = world.acquire(0, wish("a"));
    world.run(ms(1_000));
    world.set_unreachable(0, false);
    let start = world.now;
    let guard = world.granted(0, task);
    assert!(elapsed(&world, start) < ms(60));
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_key_of_another_kind_is_named() {
    let mut world = world(1);
    world.server.command(&[b"SET", b"a", b"1"]).expect("the server works");
    let first = world.acquire(0, wish("a"));
    let second = world.acquire(0, wish("a"));
    for task in [first, second] {
        assert_eq!(world.outcome(0, task), Outcome::NotAcquired(AcquireError::KeyConflict("string".to_owned())));
    }
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    nothing_left(&mut world);
}

/// The reports of waiting for the own client: in passing, and as an alarm.
fn alarms(world: &World) -> (usize, usize) {
    let passing = |event: &Event| matches!(event, Event::QueuesBehindOwnClient { .. });
    let alarm = |event: &Event| matches!(event, Event::WaitsForOwnClient { .. });
    (world.events(0, passing), world.events(0, alarm))
}

#[test]
fn wait_for_own_client_beyond_a_lease_raises_one_alarm() {
    let kinds = [
        (Kind::Lock, Kind::Lock),
        (Kind::Spin, Kind::Spin),
        (Kind::Simple, Kind::Simple),
        (Kind::Fair, Kind::Fair),
        (Kind::Read, Kind::Write),
        (Kind::Write, Kind::Read),
    ];
    for (held, waits) in kinds {
        let mut world = world(1);
        let guard = world.hold(0, AcquireRequest { kind: held, ..wish("a") });
        let waiters = [(); 3].map(|()| world.acquire(0, AcquireRequest { kind: waits, ..wish("a") }));
        world.run(ms(50));
        assert_eq!(alarms(&world).1, 0, "{held:?}, {waits:?}: it is contention so far");
        assert!(alarms(&world).0 > 0, "{held:?}, {waits:?}");
        world.run(ms(20_000));
        assert_eq!(alarms(&world).1, 1, "{held:?}, {waits:?}");
        for waiter in waiters {
            world.abandon(0, waiter);
        }
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn a_task_that_takes_the_last_permit_twice_raises_one_alarm() {
    let mut world = world(1);
    world.plan.family = LockFamily::Permits;
    world.plan.locks = 1;
    world.fill();
    let all = || AcquireRequest { kind: Kind::Permits, permits: crate::terms::CAPACITY, ..wish("lock0") };
    let guard = world.hold(0, all());
    let waiter = world.acquire(0, all());
    world.run(ms(50));
    assert_eq!(alarms(&world), (1, 0));
    world.run(ms(20_000));
    assert_eq!(alarms(&world), (1, 1));
    world.abandon(0, waiter);
    world.give_back(guard);
}

#[test]
fn two_thousand_contended_requests_of_one_client_raise_no_alarm() {
    let mut world = world(1);
    let mut guard = world.hold(0, wish("a"));
    let tasks: Vec<usize> = (1..2_000).map(|_| world.acquire(0, wish("a"))).collect();
    for task in tasks {
        world.run(ms(5));
        world.give_back(guard);
        guard = world.granted(0, task);
    }
    world.give_back(guard);
    assert_eq!(alarms(&world), (1, 0), "they came at once, and waited for up to ten seconds, with a lease of three");
    nothing_left(&mut world);
}

#[test]
fn whoever_waits_for_a_lock_without_a_time_to_live_is_told_once() {
    for kind in [Kind::Lock, Kind::Fenced, Kind::Spin, Kind::Simple, Kind::Read, Kind::Write] {
        let mut world = world(1);
        let held: &[&[u8]] = match kind {
            Kind::Simple => &[b"SET", b"a", b"somebody"],
            Kind::Read | Kind::Write => &[b"HSET", b"a", b"mode", b"write", b"u:7:write", b"1"],
            _ => &[b"HSET", b"a", b"u:7", b"1"],
        };
        world.server.command(held).expect("the server works");
        let said = |event: &Event| *event == Event::Endless(name("a"));
        let request = || AcquireRequest { kind, ..wish("a") };
        let task = world.acquire(0, AcquireRequest { patience: Patience::Try, ..request() });
        assert_eq!(world.outcome(0, task), Outcome::Nothing);
        assert_eq!(world.events(0, said), 0, "{kind:?}: a try does not wait");
        let waiters = [world.acquire(0, request()), world.acquire(0, request())];
        world.run(ms(5_000));
        assert_eq!(world.events(0, said), 1, "{kind:?}: once, although it is asked again and again");
        waiters.into_iter().for_each(|waiter| world.abandon(0, waiter));
        world.server.command(&[b"DEL", b"a"]).expect("the server works");
        nothing_left(&mut world);
    }
    for kind in [Kind::Semaphore, Kind::Permits] {
        let mut world = world(2);
        let tasks = [0, 1].map(|client| world.acquire(client, AcquireRequest { kind, ..wish("a") }));
        world.run(ms(1_000));
        assert_eq!(world.events(1, |event| matches!(event, Event::Endless { .. })), 0, "{kind:?} waits for no lease");
        tasks.into_iter().enumerate().for_each(|(client, task)| world.abandon(client, task));
        world.run(ms(1_000));
    }
}

#[test]
fn whoever_waits_for_a_semaphore_that_was_deleted_is_told_once() {
    for kind in [Kind::Semaphore, Kind::Permits] {
        let mut world = world(1);
        let empty: &[&[u8]] = &[b"SET", b"a", b"0"];
        let request = || AcquireRequest { kind, ..wish("a") };
        let said = |event: &Event| *event == Event::Unset(name("a"));
        world.server.command(empty).expect("the server works");
        let waiters = [world.acquire(0, request()), world.acquire(0, request())];
        world.run(ms(1_000));
        assert_eq!(world.events(0, said), 0, "{kind:?}: all permits are taken, and may come back");
        world.server.command(&[b"DEL", b"a"]).expect("the server works");
        let asks_again = world.clients[0].session.settings().recheck * 2;
        world.run(asks_again);
        assert_eq!(world.events(0, said), 1, "{kind:?}: once, although it is asked again and again");
        world.server.command(empty).expect("the server works");
        world.run(asks_again);
        world.server.command(&[b"DEL", b"a"]).expect("the server works");
        world.run(asks_again);
        assert_eq!(world.events(0, said), 2, "{kind:?}: it was there in between");
        waiters.into_iter().for_each(|waiter| world.abandon(0, waiter));
        world.run(ms(1_000));
    }
}

#[test]
fn a_waiter_that_goes_leaves_nothing_and_nobody_behind() {
    let (mut world, guard) = holding(2);
    let waiters: Vec<_> = (0..4).map(|_| world.acquire(1, wish("a"))).collect();
    world.run(ms(50));
    // The contender and one of the line go.
    world.abandon(1, waiters[0]);
    world.abandon(1, waiters[2]);
    world.give_back(guard);
    for waiter in [waiters[1], waiters[3]] {
        let guard = world.granted(1, waiter);
        world.give_back(guard);
    }
    nothing_left(&mut world);
}

#[test]
fn a_future_dropped_at_any_point_of_an_acquire_leaves_nothing() {
    for micros in (0..1_200).step_by(50) {
        let mut world = world(1);
        let task = world.acquire(0, wish("a"));
        world.after(Duration::from_micros(micros), UserEvent::Abandon { client: 0, task });
        if let Outcome::Granted(guard) = world.outcome(0, task) {
            world.drop_guard(guard);
        }
        world.run(ms(5));
        assert!(world.server.keys().is_empty(), "dropped after {micros} us");
        nothing_left(&mut world);
    }
}

#[test]
fn attempt_answered_after_the_wait_was_the_last() {
    let (mut world, guard) = holding(2);
    world.fault(1, "lock/acquire", CallFault::Delay(ms(80)));
    let until = world.now + ms(10);
    let task = world.acquire(1, AcquireRequest { patience: Patience::Until(until), ..wish("a") });
    assert_eq!(world.outcome(1, task), Outcome::NotAcquired(AcquireError::WaitElapsed));
    assert_eq!(world.task(1, task).sent, 1);
    nothing_left_after(&mut world, guard);
}

/// A waiter whose notice is lost gets in within `most`, counted from when the holder took a lease of this length.
#[track_caller]
fn a_lost_notice_costs(lease: u64, most: u64) {
    let mut world = world(2);
    let guard = world.hold(0, AcquireRequest { lease: ms(lease), renewed: false, ..wish("a") });
    let start = world.now;
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(500));
    world.net.rates.lose_notice = 1.0;
    world.give_back(guard);
    let guard = world.granted(1, waiter);
    assert!(elapsed(&world, start) < ms(most), "{:?}", elapsed(&world, start));
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_lost_notice_costs_at_most_the_lease_that_was_left() {
    a_lost_notice_costs(1_000, 1_020);
}

#[test]
fn a_lost_notice_costs_at_most_the_time_of_a_recheck() {
    a_lost_notice_costs(60_000, 3_020);
}

#[test]
fn whoever_missed_notices_tries_again() {
    for event in 0..2 {
        let (mut world, guard) = holding(2);
        let waiter = world.acquire(1, wish("a"));
        world.run(ms(100));
        world.net.rates.lose_notice = 1.0;
        world.give_back(guard);
        world.net.rates.lose_notice = 0.0;
        let start = world.now;
        match event {
            0 => world.after(ms(0), FaultEvent::ResetNotices { client: 1 }),
            // The connection for calls is reset; the server may have restarted.
            _ => world.reset(1, Role::Calls),
        }
        let guard = world.granted(1, waiter);
        assert!(elapsed(&world, start) < ms(60), "{event}: {:?}", elapsed(&world, start));
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn without_a_subscription_a_waiter_asks_now_and_then() {
    let (mut world, guard) = holding(2);
    world.net.rates.subscribe_fails = 1.0;
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(5_000));
    assert!(world.events(1, |event| matches!(event, Event::SubscribeFailed { .. })) > 10);
    assert!(world.server.calls("lock/acquire") < 30, "{}", world.server.calls("lock/acquire"));
    let start = world.now;
    world.give_back(guard);
    let guard = world.granted(1, waiter);
    assert!(elapsed(&world, start) < ms(550));
    world.net.rates.subscribe_fails = 0.0;
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_subscription_that_is_forbidden_fails_those_who_wait() {
    let (mut world, guard) = holding(2);
    world.fault(1, "subscribe", CallFault::Refuse("NOPERM no channel"));
    let waiters = [world.acquire(1, wish("a")), world.acquire(1, wish("a"))];
    for waiter in waiters {
        assert!(matches!(world.outcome(1, waiter), Outcome::NotAcquired(AcquireError::Refused(_))));
    }
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_connection_lost_while_subscribing_is_subscribed_again() {
    for micros in (0..1_500).step_by(100) {
        let (mut world, guard) = holding(2);
        let waiter = world.acquire(1, wish("a"));
        let pause = Duration::from_micros(micros);
        world.after(pause, FaultEvent::ResetNotices { client: 1 });
        world.run(ms(20));
        assert_eq!(world.server.subscriptions(), 1, "reset after {micros} us");
        let start = world.now;
        world.give_back(guard);
        let guard = world.granted(1, waiter);
        assert!(elapsed(&world, start) < ms(5), "reset after {micros} us");
        nothing_left_after(&mut world, guard);
    }
}

#[test]
fn a_notice_that_overtakes_the_reply_before_it_is_not_lost() {
    let mut world = world(2);
    world.net.rates.delay = (ms(0), ms(5));
    for round in 0..200 {
        let guard = world.hold(0, wish("a"));
        let waiter = world.acquire(1, wish("a"));
        let pause = world.between(ms(0), ms(30));
        world.run(pause);
        let start = world.now;
        world.give_back(guard);
        let guard = world.granted(1, waiter);
        assert!(elapsed(&world, start) < ms(60), "in round {round}: {:?}", elapsed(&world, start));
        world.give_back(guard);
    }
    nothing_left(&mut world);
}

#[test]
fn final_attempt_before_the_server_s_time_is_known_is_sent_again() {
    let mut world = world(1);
    world.server.command(&[b"SET", b"a", b"1"]).expect("the server works");
    let semaphore = AcquireRequest { kind: Kind::Semaphore, renewed: false, ..wish("a") };
    let first = world.acquire(0, semaphore.clone());
    let until = world.now + Duration::from_micros(50);
    let second = world.acquire(0, AcquireRequest { patience: Patience::Until(until), ..semaphore });
    let guard = world.granted(0, first);
    let outcome = world.outcome(0, second);
    assert!(matches!(outcome, Outcome::NotAcquired(AcquireError::WaitElapsed)), "{outcome:?}");
    world.give_back(guard);
    world.run(ms(5));
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    nothing_left(&mut world);
}
