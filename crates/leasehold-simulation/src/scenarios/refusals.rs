//! Scripts that fail in their middle: at each of their commands, and what becomes of what they had written.

use super::{elapsed, nothing_left, wish, world};
use crate::terms::LockFamily;
use crate::world::client::Outcome;
use crate::world::network::CallFault;
use crate::world::{World, ms, name};
use leasehold_core::command::Kind;
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::session::{AcquireRequest, Event, Patience};
use leasehold_embedded::{RefusalEffect, RefuseAt};
use std::time::Duration;

/// The kinds that give holds, each with its family and its scripts.
const KINDS: [(Kind, LockFamily, &str, &str); 10] = [
    (Kind::Lock, LockFamily::Lock, "lock/acquire", "lock/release"),
    (Kind::Spin, LockFamily::Spin, "lock/acquire", "lock/release"),
    (Kind::Simple, LockFamily::Simple, "simple/acquire", "simple/release"),
    (Kind::Fenced, LockFamily::Fenced, "fenced/acquire", "lock/release"),
    (Kind::Fair, LockFamily::Fair, "fair/acquire", "fair/release"),
    (Kind::FencedFair, LockFamily::FencedFair, "fenced_fair/acquire", "fair/release"),
    (Kind::Read, LockFamily::ReadWrite, "read/acquire", "read/release"),
    (Kind::Write, LockFamily::ReadWrite, "write/acquire", "write/release"),
    (Kind::Semaphore, LockFamily::Semaphore, "semaphore/acquire", "semaphore/release"),
    (Kind::Permits, LockFamily::Permits, "permits/acquire", "permits/release"),
];

/// No script of a lock that is free, or has one holder, uses so many commands.
const MOST: u32 = 60;

/// A wish for all that there is of a lock.
fn all_of(kind: Kind) -> AcquireRequest {
    let lease = match kind {
        Kind::Semaphore => Duration::from_secs(10 * 365 * 86_400),
        _ => ms(3_000),
    };
    let permits = if matches!(kind, Kind::Semaphore | Kind::Permits) { crate::terms::CAPACITY } else { 1 };
    let renewed = kind != Kind::Semaphore;
    AcquireRequest { permits, renewed, ..AcquireRequest::new(name("lock0"), kind, lease) }
}

/// Two clients, and a lock of a family that is free. Both have had it, so that they know the server's time.
fn free(kind: Kind, family: LockFamily) -> World {
    let mut world = world(2);
    world.plan.family = family;
    world.plan.locks = 1;
    world.fill();
    for client in [0, 1] {
        let guard = world.hold(client, all_of(kind));
        world.give_back(guard);
    }
    world
}

/// Another client gets all of the lock at once, and nothing is left when it is given back.
fn is_free(world: &mut World, kind: Kind, within: Duration) {
    let start = world.now;
    let guard = world.hold(1, all_of(kind));
    assert!(elapsed(world, start) < within, "after {:?}", elapsed(world, start));
    world.give_back(guard);
    nothing_left(world);
}

/// The ways in which the server refuses a command of a kind's script. A leased semaphore checks its right to remove
/// permits before it counts them, so the server does not refuse a single removal.
fn ways(kind: Kind) -> &'static [fn(u32) -> RefuseAt] {
    if kind == Kind::Permits { &[RefuseAt::Command] } else { &[RefuseAt::Call, RefuseAt::Command] }
}

/// Plays a story for each command of a script, until it comes to none any more; gives how many it came to after the script had written.
fn at_each_command(kind: Kind, mut story: impl FnMut(RefuseAt) -> RefusalEffect) -> usize {
    let mut after_writing = 0;
    for inside in ways(kind) {
        let mets: Vec<_> =
            (1..MOST).map(|at| story(inside(at))).take_while(|met| *met != RefusalEffect::Nothing).collect();
        assert!((2..MOST as usize - 1).contains(&mets.len()), "{mets:?}");
        after_writing += mets.iter().filter(|met| **met == RefusalEffect::AfterWriting).count();
    }
    after_writing
}

#[test]
fn acquire_failing_at_any_command_leaves_nothing_when_told() {
    for (kind, family, script, _) in KINDS {
        let after_writing = at_each_command(kind, |inside| {
            let mut world = free(kind, family);
            world.fault(0, script, CallFault::Inside(inside));
            let task = world.acquire(0, AcquireRequest { patience: Patience::Try, ..all_of(kind) });
            match world.outcome(0, task) {
                Outcome::Granted(guard) => world.give_back(guard),
                Outcome::NotAcquired(AcquireError::Refused(why)) => {
                    assert!(why.text().contains("ACL failure"), "{why}")
                }
                other => panic!("{kind:?} {inside:?}: {other:?}"),
            }
            is_free(&mut world, kind, ms(2));
            world.server.met
        });
        // The simple lock is one command.
        assert!(after_writing > 0 || kind == Kind::Simple, "{kind:?}");
    }
}

#[test]
fn an_acquire_of_a_lock_that_is_held_leaves_nothing_either() {
    for (kind, family, script, _) in KINDS {
        for prefers in [false, kind == Kind::Write] {
            let family = if prefers { LockFamily::PreferWriters } else { family };
            at_each_command(kind, |inside| {
                let mut world = free(kind, family);
                let held = world.hold(1, all_of(if kind == Kind::Read { Kind::Write } else { kind }));
                world.fault(0, script, CallFault::Inside(inside));
                let patience = Patience::Until(world.now + ms(100));
                let prefer_writers = prefers.then_some(ms(300));
                let task = world.acquire(0, AcquireRequest { patience, prefer_writers, ..all_of(kind) });
                match world.outcome(0, task) {
                    Outcome::NotAcquired(AcquireError::Refused(_) | AcquireError::WaitElapsed) => {}
                    other => panic!("{kind:?} {inside:?}: {other:?}"),
                }
                world.run(ms(2));
                world.give_back(held);
                is_free(&mut world, kind, ms(2));
                world.server.met
            });
        }
    }
}

#[test]
fn an_entry_that_fails_at_any_command_leaves_the_hold_as_it_was() {
    for (kind, family, script, _) in KINDS {
        if !kind.protocol().reenters() {
            continue;
        }
        at_each_command(kind, |inside| {
            let mut world = free(kind, family);
            let owner = Some(world.clients[0].session.new_owner());
            let guard = world.hold(0, AcquireRequest { owner, ..all_of(kind) });
            world.fault(0, script, CallFault::Inside(inside));
            let task = world.acquire(0, AcquireRequest { owner, ..all_of(kind) });
            match world.outcome(0, task) {
                Outcome::Granted(again) => world.give_back(again),
                Outcome::NotAcquired(AcquireError::Refused(_)) => {}
                other => panic!("{kind:?} {inside:?}: {other:?}"),
            }
            world.check_counts(ms(0));
            assert_eq!(world.guards[guard].cell.count(), 1);
            world.give_back(guard);
            is_free(&mut world, kind, ms(2));
            world.server.met
        });
    }
}

#[test]
fn release_failing_at_any_command_is_repeated_to_the_end() {
    for (kind, family, _, script) in KINDS {
        at_each_command(kind, |inside| {
            let mut world = free(kind, family);
            let guard = world.hold(0, all_of(kind));
            world.fault(0, script, CallFault::Inside(inside));
            let task = world.release(guard);
            let outcome = world.outcome(0, task);
            let refused = matches!(&outcome, Outcome::NotReleased(ReleaseError::Refused(_)));
            assert!(outcome == Outcome::Released || refused, "{kind:?} {inside:?}: {outcome:?}");
            let lost = |event: &Event| matches!(event, Event::Lost { .. });
            is_free(&mut world, kind, ms(60));
            assert_eq!(world.events(0, lost), 0, "{kind:?} {inside:?}");
            world.server.met
        });
    }
}

#[test]
fn acquire_that_may_not_be_taken_back_either_is_refused_and_holds_nothing() {
    for (kind, family, script, release) in KINDS {
        let mut refused = 0;
        for inside in ways(kind).iter().flat_map(|way| (1..MOST).map(way)) {
            let mut world = free(kind, family);
            world.fault(0, script, CallFault::Inside(inside));
            // A release may do nothing.
            for _ in 0..3 {
                world.fault(0, release, CallFault::Inside(RefuseAt::Call(1)));
            }
            let start = world.now;
            let task = world.acquire(0, AcquireRequest { patience: Patience::Try, ..all_of(kind) });
            let refusal = match world.outcome(0, task) {
                // The script used another path, or had fewer commands.
                Outcome::Granted(_) => continue,
                Outcome::NotAcquired(AcquireError::Refused(refusal)) => refusal,
                other => panic!("{kind:?} {inside:?}: {other:?}"),
            };
            refused += 1;
            assert!(elapsed(&world, start) < ms(5), "{kind:?} {inside:?}: after {:?}", elapsed(&world, start));
            assert!(refusal.text().contains("ACL failure"), "{refusal}");
            // The other client gets the whole lock, despite any preparations.
            let other = world.hold(1, all_of(kind));
            assert!(elapsed(&world, start) < ms(60), "{kind:?} {inside:?}: after {:?}", elapsed(&world, start));
            world.give_back(other);
            is_free(&mut world, kind, ms(200));
        }
        assert!(refused > 1, "{kind:?}");
    }
}

#[test]
fn grant_that_may_be_neither_finished_nor_taken_back_is_not_known() {
    let mut world = free(Kind::Lock, LockFamily::Lock);
    world.server.forbid(&["PEXPIRE", "DEL"]);
    let start = world.now;
    let task = world.acquire(0, AcquireRequest { patience: Patience::Try, ..all_of(Kind::Lock) });
    let outcome = world.outcome(0, task);
    world.server.forbid(&[]);
    let Outcome::NotAcquired(AcquireError::OutcomeUnknown(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("PEXPIRE and DEL are refused") && why.contains("'del'"), "{why}");
    assert!(elapsed(&world, start) < ms(5), "after {:?}", elapsed(&world, start));
    assert!(world.events(0, |event| matches!(event, Event::CleanUpFailed { .. })) > 0);
    is_free(&mut world, Kind::Lock, ms(200));
}

#[test]
fn release_behind_a_refused_lowering_waits_for_its_own_call() {
    let mut world = world(1);
    let owner = Some(world.clients[0].session.new_owner());
    let mut guards = Vec::new();
    for _ in 0..2 {
        let task = world.acquire(0, AcquireRequest { owner, ..wish("lock0") });
        guards.push(world.granted(0, task));
    }
    // Lowering a count needs memory, and ending a hold needs none.
    world.server.deny_growth(true);
    world.drop_guard(guards[1]);
    let start = world.now;
    world.give_back(guards[0]);
    assert!(elapsed(&world, start) < ms(5), "after {:?}", elapsed(&world, start));
    assert!(world.server.keys().is_empty());
    world.server.deny_growth(false);
    nothing_left(&mut world);
}
