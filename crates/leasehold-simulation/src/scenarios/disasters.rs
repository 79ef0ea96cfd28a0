//! The faults of the server and of processes, and the times at which holders are told of them.

use super::{holding, nothing_left, nothing_left_after, wish, world};
use crate::terms::LockFamily;
use crate::workload::UserEvent;
use crate::world::client::Outcome;
use crate::world::events::{Message, WorldEvent};
use crate::world::network::CallFault;
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms, name, settings};
use leasehold_core::command::{Kind, latch};
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Patience};
use std::time::Duration;

/// A world in which client 0 has a lock of a kind, renewed.
fn held(kind: Kind) -> (World, usize) {
    let mut world = world(2);
    world.plan.settings = settings();
    world.plan.family = LockFamily::Lock;
    let guard = world.hold(0, AcquireRequest { kind, ..wish("a") });
    world.run(ms(10));
    (world, guard)
}

fn is_removed(world: &World, guard: usize) -> bool {
    world.guards[guard].cell.ended(world.now) == Some(HoldEnd::Lost(LossReason::Removed))
}

#[test]
fn a_hold_survives_a_restart_with_data() {
    let (mut world, guard) = held(Kind::Lock);
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(10));
    world.restart();
    world.run(ms(5_000));
    assert!(world.believes(&world.guards[guard]) && world.task(1, waiter).outcome.is_none());
    world.give_back(guard);
    let other = world.granted(1, waiter);
    nothing_left_after(&mut world, other);
}

#[test]
fn a_failover_that_loses_a_grant_is_told_within_a_reconnect() {
    let mut world = world(2);
    world.plan.settings = settings();
    world.take_snapshot();
    let guard = world.hold(0, wish("a"));
    world.fail_over();
    world.run(ms(30));
    assert!(is_removed(&world, guard));
    world.run(ms(200));
    assert_eq!(world.stats.reached(Coverage::RemovalTold), 1);
    world.drop_guard(guard);
    nothing_left(&mut world);
}

#[test]
fn failover_losing_a_release_revives_the_lock_for_a_lease() {
    let (mut world, guard) = held(Kind::Lock);
    world.take_snapshot();
    world.give_back(guard);
    world.fail_over();
    let task = world.acquire(1, wish("a"));
    world.run(ms(2_900));
    assert!(world.task(1, task).outcome.is_none());
    let other = world.granted(1, task);
    nothing_left_after(&mut world, other);
}

#[test]
fn tokens_grow_although_a_failover_has_lost_the_last_one() {
    let mut world = world(2);
    world.plan.settings = settings();
    let fenced = || AcquireRequest { kind: Kind::Fenced, ..wish("a") };
    world.take_snapshot();
    let guard = world.hold(0, fenced());
    world.fail_over();
    let task = world.acquire(1, fenced());
    let other = world.granted_beside(1, task);
    let [before, after] = [guard, other].map(|guard| world.guards[guard].cell.token().expect("it has a token"));
    assert!(before < after, "{before} {after}");
    world.drop_guard(guard);
    world.give_back(other);
}

#[test]
fn an_evicted_hold_is_told_within_a_third_of_its_lease() {
    for kind in [Kind::Lock, Kind::Fair, Kind::Fenced, Kind::Spin, Kind::Simple, Kind::Read, Kind::Write] {
        let (mut world, guard) = held(kind);
        while world.is_on_server(&world.guards[guard]) {
            world.evict(false);
        }
        world.run(ms(1_020));
        assert!(is_removed(&world, guard), "{kind:?}");
        world.run(ms(100));
        world.drop_guard(guard);
        assert!(world.stats.reached(Coverage::RemovalTold) > 0, "{kind:?}");
    }
}

#[test]
fn forced_release_is_told_within_a_third_of_the_lease() {
    for kind in
        [Kind::Lock, Kind::Fair, Kind::FencedFair, Kind::Fenced, Kind::Spin, Kind::Simple, Kind::Read, Kind::Write]
    {
        let (mut world, guard) = held(kind);
        // A second reader would hold beside the first.
        let other = if kind == Kind::Read { Kind::Write } else { kind };
        let waiter = world.acquire(1, AcquireRequest { kind: other, ..wish("a") });
        world.run(ms(10));
        world.force_release();
        assert_eq!(world.stats.faults(FaultKind::ForceRelease), 1, "{kind:?}");
        world.run(ms(300));
        let Some(Outcome::Granted(other)) = world.task(1, waiter).outcome else {
            panic!("{kind:?} is not handed over")
        };
        world.run(ms(720));
        assert!(is_removed(&world, guard), "{kind:?}");
        world.drop_guard(guard);
        world.give_back(other);
    }
}

#[test]
fn server_clock_stepped_forward_ends_leases_and_tells() {
    let (mut world, guard) = held(Kind::Lock);
    world.step_server(3_600_000);
    let task = world.acquire(1, wish("a"));
    let other = world.granted_beside(1, task);
    world.run(ms(1_020));
    assert!(is_removed(&world, guard));
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

#[test]
fn server_clock_stepped_back_lengthens_leases_of_the_dead() {
    let (mut world, _) = held(Kind::Lock);
    world.crash(0);
    world.step_server(-10_000);
    let task = world.acquire(1, wish("a"));
    world.run(ms(12_900));
    assert!(world.task(1, task).outcome.is_none());
    let other = world.granted(1, task);
    nothing_left_after(&mut world, other);
}

#[test]
fn a_step_within_the_margin_is_covered_by_it() {
    let mut world = world(2);
    let guard = world.hold(0, AcquireRequest { lease: ms(100), renewed: false, ..wish("a") });
    let waiter = world.acquire(1, wish("a"));
    world.step_server(1);
    world.change_clock(0, -9_000, ms(0));
    let other = world.granted(1, waiter);
    assert!(!world.doubts.broken && world.guards[guard].over);
    world.drop_guard(guard);
    world.give_back(other);
}

#[test]
fn a_script_that_was_flushed_costs_one_round_trip() {
    let (mut world, guard) = held(Kind::Lock);
    world.flush_scripts();
    world.give_back(guard);
    assert_eq!(world.stats.reached(Coverage::NoScript), 1);
    let other = world.hold(1, wish("a"));
    world.give_back(other);
    assert_eq!(world.stats.reached(Coverage::NoScript), 2, "the release is known again by now");
    nothing_left(&mut world);
}

#[test]
fn a_call_that_met_noscript_sends_nothing_once_it_is_settled() {
    let (mut world, guard) = held(Kind::Lock);
    world.flush_scripts();
    world.net.rates.delay = (ms(30), ms(30));
    // The reply takes so long that the background settles before the text is sent.
    let task = world.release(guard);
    assert_eq!(world.outcome(0, task), Outcome::Released);
    assert_eq!(world.server.calls("lock/release"), 1);
    nothing_left(&mut world);
}

/// A renewal that arrives at an instant around the end of its lease: whether it is in time.
fn renewal_at(nanos_before_the_end: i64) -> bool {
    let mut world = world(1);
    let start = world.now;
    let guard = world.hold(0, wish("a"));
    let arrived = world.now;
    // Granted between two milliseconds of the server: it has the lease for whole ones.
    let granted = start.as_nanos() / 1_000_000;
    assert_eq!(granted, arrived.as_nanos() / 1_000_000);
    let end = i64::try_from((granted + 3_001) * 1_000_000).expect("it is small");
    world.set_unreachable(0, true);
    world.run_until(leasehold_core::time::Instant::from_nanos((end - nanos_before_the_end).unsigned_abs()));
    let call = {
        let guard = &world.guards[guard];
        let session = &world.clients[0].session;
        let keys = guard.kind.protocol().keys(&guard.name, &session.client());
        let mut renewal = leasehold_core::command::Renewal::default();
        guard.kind.protocol().renew(&mut renewal, &guard.name, &keys, &guard.cell.key(), ms(3_000));
        leasehold_core::call::Call::new(
            guard.kind.protocol().renewal().expect("it has a lease"),
            renewal.keys,
            renewal.args,
        )
    };
    drop(world.execute(&call));
    assert!(world.guards[guard].over, "the holder has given it up by then, whatever the server says");
    !world.server.keys().is_empty()
}

#[test]
fn renewal_at_the_last_moment_counts_and_later_does_not() {
    assert!(renewal_at(1_000_000));
    assert!(renewal_at(1));
    assert!(!renewal_at(0));
    assert!(!renewal_at(-1));
}

#[test]
fn a_latch_counts_each_count_once_and_opens_for_all_who_wait() {
    let mut world = world(3);
    world.plan.settings = settings();
    world.plan.family = LockFamily::Latch;
    world.plan.locks = 1;
    world.close_latches();
    let waiting: Vec<_> = (0..3)
        .map(|client| {
            let wish = AcquireRequest { kind: Kind::Latch, renewed: false, ..wish("lock0") };
            (client, world.acquire(client, wish))
        })
        .collect();
    world.run(ms(50));
    let publish = settings().publish;
    for operation in 0..10_u8 {
        let call = latch::count_down(&name("lock0"), 1, &[operation], &publish);
        for _ in 0..2 {
            world.apply(UserEvent::CountDown { call: call.clone() });
        }
    }
    for (client, task) in waiting {
        assert_eq!(world.outcome(client, task), Outcome::Opened);
    }
    assert_eq!(world.stats.reached(Coverage::LatchOpened), 3);
    nothing_left(&mut world);
}

#[test]
fn a_refusal_keeps_its_place_among_the_replies_of_a_connection() {
    let (mut world, guard) = held(Kind::Lock);
    world.net.rates.delay = (ms(60), ms(60));
    world.fault(0, "lock/release", CallFault::Refuse("LOADING Redis is loading"));
    let task = world.release(guard);
    world.run(ms(119));
    assert!(world.task(0, task).call.is_some() && world.task(0, task).outcome.is_none());
    world.outcome(0, task);
    nothing_left(&mut world);
}

#[test]
fn late_copy_of_an_oom_refusal_keeps_no_permit() {
    for refusal in ["OOM command not allowed when used memory > 'maxmemory'.", "LOADING Redis is loading"] {
        let mut world = world(1);
        world.server.command(&[b"SET", b"a", b"3"]).expect("a counter");
        let semaphore = AcquireRequest { kind: Kind::Semaphore, renewed: false, ..wish("a") };
        // The first call learns the server's time, and is no copy's original.
        let guard = world.hold(0, semaphore.clone());
        world.give_back(guard);
        world.fault(0, "semaphore/acquire", CallFault::Refuse(refusal));
        let task = world.acquire(0, AcquireRequest { patience: Patience::Try, ..semaphore });
        let call = world.events.queue.values().find_map(|what| match what {
            WorldEvent::Message(Message::Arrive { call, .. }) => Some(call.clone()),
            _ => None,
        });
        let call = call.expect("the acquire is under way");
        world.outcome(0, task);
        world.run(ms(20));
        world.apply(Message::Copy { key: 0, call });
        world.run(ms(1_000));
        for guard in 0..world.guards.len() {
            if world.guards[guard].alive {
                world.give_back(guard);
            }
        }
        assert_eq!(world.server.command(&[b"GET", b"a"]), Ok(Reply::Bulk("3".into())), "{refusal}");
        assert!(world.clients[0].session.holds_nothing(), "{refusal}");
    }
}

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
    world.plan.settings = settings();
    world.hold(0, wish("a"));
    world.crash(0);
    world.plan.over = true;
    world.apply(UserEvent::Join);
    let guard = world.hold(2, wish("a"));
    assert!(world.now.as_nanos() >= 3_000_000_000, "it does not inherit what the dead one had");
    world.give_back(guard);
}
