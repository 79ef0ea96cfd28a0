//! The faults of a client as a whole: crashes, pauses, clocks that are wrong.

use super::{holding, nothing_left_after, wish, world};
use crate::terms::LockFamily;
use crate::workload::UserEvent;
use crate::world::stats::Coverage;
use crate::world::{World, ms};
use leasehold_core::command::Kind;
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::session::AcquireRequest;
use std::time::Duration;

/// A world in which client 0 has a fixed lease of a second, and client 1 waits.
fn held_for_a_second() -> (World, usize, usize) {
    let mut world = world(2);
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..wish("a") });
    let waiter = world.acquire(1, wish("a"));
    (world, guard, waiter)
}

#[test]
fn crashed_client_keeps_its_lock_for_one_lease() {
    let mut world = world(2);
    let task = world.acquire(0, wish("a"));
    world.granted(0, task);
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(100));
    world.crash(0);
    world.run(ms(2_850));
    assert!(world.task(1, waiter).outcome.is_none());
    let guard = world.granted(1, waiter);
    assert!(world.now.as_nanos() < 3_050_000_000, "{:?}", world.now);
    nothing_left_after(&mut world, guard);
}

#[test]
fn what_a_client_sent_before_it_crashed_is_carried_out_and_ends() {
    let mut world = world(2);
    world.acquire(0, wish("a"));
    world.crash(0);
    world.run(ms(1));
    assert_eq!(world.server.keys(), ["a"], "the acquire was under way");
    let guard = world.hold(1, wish("a"));
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_dead_head_of_a_queue_is_skipped_within_the_window() {
    let mut world = world(3);
    let fair = || AcquireRequest { kind: Kind::Fair, ..wish("a") };
    let holder = world.hold(0, fair());
    world.acquire(1, fair());
    world.run(ms(50));
    let next = world.acquire(2, fair());
    world.run(ms(50));
    world.crash(1);
    let since = world.now;
    world.give_back(holder);
    let guard = world.granted(2, next);
    assert_eq!(world.stats.reached(Coverage::DeadHeadSkipped), 1);
    assert!(world.now.since(since) < ms(4_100), "{:?}", world.now.since(since));
    world.give_back(guard);
}

#[test]
fn client_paused_beyond_its_lease_wakes_without_its_hold() {
    let (mut world, guard, waiter) = held_for_a_second();
    world.pause(0, ms(2_500), true);
    let other = world.granted(1, waiter);
    world.run(ms(2_000));
    assert_eq!(world.guards[guard].cell.ended(world.local(0)), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    assert!(world.guards[guard].over, "it was told when it ran again");
    assert_eq!(world.stats.reached(Coverage::WokeLost), 1);
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

#[test]
fn renewed_hold_survives_a_pause_shorter_than_its_lease() {
    let (mut world, guard) = holding(1);
    world.run(ms(900));
    world.pause(0, ms(1_900), true);
    world.run(ms(6_000));
    assert!(world.believes(&world.guards[guard]));
    world.check_counts(ms(0));
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_notice_that_comes_during_a_pause_is_seen_after_it() {
    let mut world = world(2);
    let task = world.acquire(0, wish("a"));
    let guard = world.granted(0, task);
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(100));
    world.pause(1, ms(700), true);
    world.give_back(guard);
    world.run(ms(600));
    assert!(world.task(1, waiter).outcome.is_none());
    world.run(ms(101));
    let guard = world.granted(1, waiter);
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_rate_error_within_the_margin_is_covered_by_it() {
    for ppm in [-9_000, 9_000] {
        let (mut world, guard, waiter) = held_for_a_second();
        world.change_clock(0, ppm, Duration::ZERO);
        // The world checks at the server's grant that no other believes any more.
        world.plan.family = LockFamily::Lock;
        let other = world.granted(1, waiter);
        assert!(world.guards[guard].over);
        world.drop_guard(guard);
        nothing_left_after(&mut world, other);
    }
}

#[test]
fn a_rate_error_beyond_the_margin_is_not_covered() {
    let (mut world, guard, waiter) = held_for_a_second();
    world.change_clock(0, -30_000, Duration::ZERO);
    let other = world.granted(1, waiter);
    assert!(world.believes(&world.guards[guard]), "this is what the assumption is for");
    world.run(ms(60));
    assert!(world.guards[guard].over);
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

#[test]
fn a_clock_that_jumps_ahead_loses_holds_early() {
    let (mut world, guard, waiter) = held_for_a_second();
    world.run(ms(100));
    world.change_clock(0, 0, ms(900));
    assert!(!world.believes(&world.guards[guard]));
    world.check();
    assert!(world.guards[guard].over, "it was told at once");
    world.drop_guard(guard);
    let other = world.granted(1, waiter);
    nothing_left_after(&mut world, other);
}

#[test]
fn a_clock_that_does_not_count_a_suspend_goes_on_believing() {
    let (mut world, guard, waiter) = held_for_a_second();
    world.pause(0, ms(1_500), false);
    let other = world.granted_beside(1, waiter);
    world.run(ms(600));
    assert!(world.believes(&world.guards[guard]), "this is why the boot-time clock is asked");
    world.run(ms(1_000));
    assert!(world.guards[guard].over);
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

#[test]
fn process_replacing_a_dead_one_is_another_client() {
    let mut world = world(2);
    world.plan.settings = crate::world::settings();
    world.hold(0, wish("a"));
    world.crash(0);
    world.plan.over = true;
    world.apply(UserEvent::Join);
    let guard = world.hold(2, wish("a"));
    assert!(world.now.as_nanos() >= 3_000_000_000, "it does not inherit what the dead one had");
    world.give_back(guard);
}
