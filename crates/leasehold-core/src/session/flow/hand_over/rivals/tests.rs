//! How often a lock is handed on before other clients are let in, and what they get then.

use crate::reply::Reply;
use crate::session::Granted;
use crate::session::flow::hand_over::tests::{LIMITS, MS, World, wish};
use crate::session::lock::line::Phase;
use crate::session::steps::Step;
use crate::settings::Settings;
use bytes::Bytes;
use std::task::Waker;
use std::time::Duration;

#[test]
fn others_get_a_head_start_after_the_last_of_the_grants() {
    let mut world = World::new(Some(LIMITS));
    let mut guard = world.holds(wish());
    let waiters = [(); 4].map(|()| world.waits(wish()));
    world.listens(waiters[0]);
    for waiter in &waiters[..2] {
        assert_eq!(world.releases(&guard), Some(Ok(())));
        guard = world.read(*waiter);
    }
    assert_eq!((world.releases(&guard), world.session.hand_overs()), (None, 2), "others are let in");
    world.is_told();
    world.pass(MS / 2);
    assert!(matches!(world.poll(waiters[2]), Step::Wait), "it leaves others the time to ask");
    world.pass(MS / 2);
    assert!(matches!(world.poll(waiters[2]), Step::Send(..)), "and asks then, notice or not");
}

/// A world in which the lock was handed on twice, released to the server with this reply, and granted to the next.
fn released_with(reply: i64, listens: bool, change: impl FnOnce(&mut Settings)) -> (World, Granted) {
    let mut world = World::new(Some(LIMITS));
    change(&mut world.session.parts.settings);
    let mut guard = world.holds(wish());
    let waiters = [(); 3].map(|()| world.waits(wish()));
    if listens {
        world.listens(waiters[0]);
    }
    for waiter in &waiters[..2] {
        world.releases(&guard);
        guard = world.read(*waiter);
    }
    let release = world.session.release(world.now, guard.hold, true);
    let Step::Send(flight, _) = world.session.step_release(world.now, release, Waker::noop()) else {
        panic!("it is released to the server")
    };
    world.session.handle_called(world.now, flight, Ok(Reply::Int(reply)));
    world.pass(MS * 2);
    let Step::Send(flight, _) = world.poll(waiters[2]) else { panic!("it asks") };
    world.reply((waiters[2], flight), [1, 30_000, 0]);
    let guard = world.read(waiters[2]);
    (world, guard)
}

/// Hands the lock on once, and releases it to the server then, with this reply. Says whether others get a head start, and gives the next grant.
fn released_again(world: &mut World, guard: &Granted, reply: i64) -> (bool, Granted) {
    let waiters = [(); 2].map(|()| world.waits(wish()));
    if world.phase() == Phase::Subscribing {
        world.listens(waiters[0]);
    }
    world.releases(guard);
    let guard = world.read(waiters[0]);
    world.limit(Some(Duration::ZERO));
    let release = world.session.release(world.now, guard.hold, true);
    let Step::Send(flight, _) = world.session.step_release(world.now, release, Waker::noop()) else {
        panic!("it is released to the server")
    };
    world.pass(MS / 5);
    assert!(matches!(world.poll(waiters[1]), Step::Wait), "the notice of the release comes first");
    world.pass(MS / 5);
    let mut step = world.poll(waiters[1]);
    let others_first = matches!(step, Step::Wait);
    world.session.handle_called(world.now, flight, Ok(Reply::Int(reply)));
    world.limit(Some(LIMITS.within));
    if others_first {
        world.pass(MS);
        step = world.poll(waiters[1]);
    }
    let Step::Send(flight, _) = step else { panic!("it asks, told or not") };
    world.reply((waiters[1], flight), [1, 30_000, 0]);
    let guard = world.read(waiters[1]);
    (others_first, guard)
}

#[test]
fn others_get_no_head_start_where_none_listens() {
    let (mut world, guard) = released_with(6, true, |_| {});
    let (others_first, guard) = released_again(&mut world, &guard, 7);
    assert!(!others_first, "none listened");
    let (others_first, guard) = released_again(&mut world, &guard, 6);
    assert!(others_first, "others listened at the last release");
    assert!(!released_again(&mut world, &guard, 6).0, "none listened");
}

#[test]
fn those_who_poll_get_a_head_start_now_and_then() {
    let (mut world, mut guard) = released_with(6, true, |_| {});
    let mut head_starts = Vec::new();
    for _ in 0..20 {
        let (others_first, next) = released_again(&mut world, &guard, 6);
        head_starts.push(others_first);
        guard = next;
    }
    let given: Vec<usize> = (0..20).filter(|at| head_starts[*at]).collect();
    assert_eq!(given, [8, 17], "after eight releases for which none listened");
}

/// How often the lock is handed on after that, of four times that are wished for.
fn handed_on_after((mut world, mut guard): (World, Granted)) -> u64 {
    let before = world.session.hand_overs();
    for waiter in [(); 4].map(|()| world.waits(wish())) {
        if world.releases(&guard).is_none() {
            break;
        }
        guard = world.read(waiter);
    }
    world.session.hand_overs() - before
}

#[test]
fn lock_for_which_none_else_listens_is_kept_longer() {
    let told = |reply, listens| handed_on_after(released_with(reply, listens, |_| {}));
    assert_eq!(told(1, false), 4, "none listens");
    assert_eq!(told(6, true), 4, "only this client listens");
    assert_eq!(told(6, false), 2, "another client listens");
    assert_eq!(told(7, true), 2, "others listen as well");
}

#[test]
fn node_of_a_cluster_knows_the_listeners_of_a_shard_only() {
    for (publish, handed_on) in [("PUBLISH", 2), ("SPUBLISH", 4)] {
        let released = released_with(1, false, |settings| {
            (settings.cluster, settings.publish) = (true, Bytes::from_static(publish.as_bytes()));
        });
        assert_eq!(handed_on_after(released), handed_on, "{publish}");
    }
}
