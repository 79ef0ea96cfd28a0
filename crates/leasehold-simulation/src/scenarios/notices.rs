//! Subscriptions that fail, and notices that do not come.

use super::{elapsed, holding, nothing_left, nothing_left_after, wish, world};
use crate::faults::FaultEvent;
use crate::world::client::Outcome;
use crate::world::conditions::CallFault;
use crate::world::ms;
use crate::world::network::Role;
use leasehold_core::error::AcquireError;
use leasehold_core::session::{AcquireRequest, Event};

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
        let pause = std::time::Duration::from_micros(micros);
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
