//! Holds that are lost: when, why, and who is told.

use super::{holding, nothing_left, nothing_left_after, wish, world};
use crate::workload::UserEvent;
use crate::world::client::Outcome;
use crate::world::ms;
use crate::world::network::CallFault;
use leasehold_core::error::{HoldEnd, LossReason, ReleaseError};
use leasehold_core::session::{AcquireRequest, Event};

#[test]
fn unrenewed_lease_is_lost_before_the_server_grants_again() {
    let mut world = world(2);
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..wish("a") });
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(980));
    assert!(!world.guards[guard].over);
    let other = world.granted(1, waiter);
    assert!(world.guards[guard].over);
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

#[test]
fn failing_renewal_loses_the_hold_at_its_deadline_only() {
    let (mut world, guard) = holding(1);
    let deadline = world.guards[guard].cell.deadline();
    world.set_unreachable(0, true);
    world.run_until(deadline - ms(1));
    assert!(!world.guards[guard].over);
    world.run(ms(1));
    assert!(world.guards[guard].over);
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::NotRenewed)));
    world.drop_guard(guard);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}

#[test]
fn hold_survives_an_outage_shorter_than_its_deadline() {
    let (mut world, guard) = holding(1);
    world.set_unreachable(0, true);
    world.run(ms(2_800));
    world.set_unreachable(0, false);
    world.run(ms(5_000));
    world.check_counts(ms(0));
    nothing_left_after(&mut world, guard);
}

#[test]
fn the_longest_hold_ends_the_hold_and_the_lease() {
    let mut world = world(1);
    let task = world.acquire(0, AcquireRequest { max_hold: Some(ms(5_000)), ..wish("a") });
    let start = world.now;
    let guard = world.granted(0, task);
    world.run_until(start + ms(4_999));
    assert!(!world.guards[guard].over);
    world.run(ms(1));
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::MaxHold)));
    world.run(ms(100));
    assert!(world.server.keys().is_empty(), "the lease outlives the hold");
    assert!(world.server.calls("lock/renew") < 12, "{}", world.server.calls("lock/renew"));
    world.drop_guard(guard);
    nothing_left(&mut world);
}

#[test]
fn a_count_that_is_not_ours_loses_the_hold() {
    let (mut world, guard) = holding(1);
    let field = world.clients[0].session.client().field(world.guards[guard].hold);
    world.server.command(&[b"HSET", b"a", &field, b"5"]).expect("the server works");
    world.run(ms(1_100));
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::CountMismatch)));
    world.drop_guard(guard);
    world.run(ms(1));
    assert!(world.server.keys().is_empty());
    nothing_left(&mut world);
}

#[test]
fn a_server_that_comes_back_empty_loses_every_hold_soon() {
    let mut world = world(1);
    let guards: Vec<_> = (0..20)
        .map(|n| {
            let task = world.acquire(0, wish(&format!("a{n}")));
            world.granted(0, task)
        })
        .collect();
    let waiter = world.acquire(0, wish("a0"));
    world.run(ms(100));
    world.restart_empty();
    world.run(ms(60));
    for guard in &guards {
        assert_eq!(world.guards[*guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::Removed)));
    }
    world.run(ms(60));
    assert!(matches!(world.task(0, waiter).outcome, Some(Outcome::Granted(_))), "waiters try again");
    for guard in 0..world.guards.len() {
        world.drop_guard(guard);
    }
    nothing_left(&mut world);
}

#[test]
fn a_fixed_lease_learns_of_an_empty_restart_as_well() {
    let mut world = world(1);
    let fixed = AcquireRequest { lease: ms(60_000), renewed: false, ..wish("a") };
    let guard = world.hold(0, fixed);
    world.run(ms(100));
    world.restart_empty();
    world.run(ms(60));
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::Removed)));
    world.drop_guard(guard);
    nothing_left(&mut world);
}

#[test]
fn a_look_at_a_fixed_lease_does_not_extend_it() {
    let mut world = world(1);
    let fixed = AcquireRequest { lease: ms(500), renewed: false, ..wish("a") };
    let guard = world.hold(0, fixed);
    let deadline = world.guards[guard].cell.deadline();
    world.run(ms(100));
    let now = world.now;
    world.clients[0].session.look_again(now, "a");
    world.run(ms(100));
    assert!(world.guards[guard].cell.deadline().since(deadline) <= ms(8), "what is left is reckoned anew, and no more");
    assert_eq!(world.guards[guard].cell.ended(world.now), None);
    world.run(ms(400));
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    world.drop_guard(guard);
    nothing_left(&mut world);
}

#[test]
fn a_lost_hold_with_a_lowering_to_do_waits_for_its_last_guard() {
    let mut world = world(1);
    let owner = Some(world.clients[0].session.new_owner());
    let guards =
        [(), ()].map(|()| world.hold(0, AcquireRequest { owner, lease: ms(500), renewed: false, ..wish("a") }));
    world.set_unreachable(0, true);
    world.drop_guard(guards[0]);
    world.run(ms(3_000));
    assert!(world.guards[guards[1]].over);
    world.set_unreachable(0, false);
    let task = world.release(guards[1]);
    assert!(matches!(world.outcome(0, task), Outcome::NotReleased(ReleaseError::Lost(_))));
    nothing_left(&mut world);
}

#[test]
fn a_release_that_waits_for_another_is_told_of_the_loss() {
    let mut world = world(1);
    let owner = Some(world.clients[0].session.new_owner());
    let guards = [(), (), ()].map(|()| {
        let task = world.acquire(0, AcquireRequest { owner, lease: ms(500), renewed: false, ..wish("a") });
        world.granted(0, task)
    });
    world.fault(0, "lock/release", CallFault::Swallow);
    world.net.rates.settle_fails = 1.0;
    let tasks = [world.release(guards[0]), world.release(guards[1])];
    for task in tasks {
        assert!(matches!(world.outcome(0, task), Outcome::NotReleased(_)));
    }
    world.net.rates.settle_fails = 0.0;
    world.after(ms(1_500), UserEvent::GiveUp { guard: guards[2], how: 6 });
    world.run(ms(3_500));
    world.check_nothing_left();
}

#[test]
fn a_deadline_lies_a_margin_before_the_end_of_the_lease() {
    let mut world = world(1);
    let begun = world.now;
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..wish("a") });
    // A hundredth of the lease, and two milliseconds.
    assert_eq!(world.guards[guard].cell.deadline(), begun + ms(988));
    nothing_left_after(&mut world, guard);
}

#[test]
fn nothing_is_left_of_a_hold_that_was_removed() {
    let (mut world, guard) = holding(1);
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    world.run(ms(1_100));
    let cell = &world.guards[guard].cell;
    assert_eq!(cell.ended(world.now), Some(HoldEnd::Lost(LossReason::Removed)));
    assert!(world.now < cell.deadline(), "the renewal told it before the deadline");
    assert_eq!(cell.remaining(world.now), ms(0));
    world.drop_guard(guard);
    nothing_left(&mut world);
}

/// The rules of every step compare what the holder believes with what the server has.
#[test]
fn extended_lease_excludes_others_until_its_new_deadline() {
    let mut world = world(2);
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..wish("a") });
    let waiter = world.acquire(1, wish("a"));
    world.run(ms(700));
    world.extend(guard, ms(2_000));
    world.run(ms(1_900));
    assert!(!world.guards[guard].over);
    let other = world.granted(1, waiter);
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    world.drop_guard(guard);
    nothing_left_after(&mut world, other);
}

/// The client checks its holds after the loss of a connection.
#[test]
fn extension_whose_reply_is_lost_counts_once_the_client_is_connected_again() {
    let mut world = world(1);
    let guard = world.hold(0, AcquireRequest { lease: ms(1_000), renewed: false, ..wish("a") });
    world.fault(0, "lock/renew", CallFault::LoseReply);
    world.extend(guard, ms(5_000));
    world.run(ms(1_000));
    assert!(!world.guards[guard].over);
    world.run(ms(4_500));
    assert_eq!(world.guards[guard].cell.ended(world.now), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
    world.drop_guard(guard);
    nothing_left(&mut world);
}

/// A guard reports this instant as a risk.
#[test]
fn a_third_of_the_lease_remains_only_after_renewals_have_failed() {
    let (mut world, guard) = holding(1);
    let third = world.guards[guard].lease / 3;
    let left = |world: &crate::world::World| world.guards[guard].cell.deadline().since(world.now);
    for _ in 0..100 {
        world.run(ms(100));
        assert!(left(&world) > third, "a renewed lock is not at risk");
    }
    world.set_unreachable(0, true);
    while left(&world) > third {
        world.run(ms(10));
    }
    assert!(!world.guards[guard].over, "the risk comes before the loss");
    assert!(world.events(0, |event| matches!(event, Event::RenewalFailed { .. })) > 0, "renewals have failed");
    world.run(third);
    assert!(world.guards[guard].over);
    world.drop_guard(guard);
    world.set_unreachable(0, false);
    nothing_left(&mut world);
}
