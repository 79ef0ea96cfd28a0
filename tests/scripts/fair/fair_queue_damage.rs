//! A queue that was changed by hand, or lost a key, mends itself.

use super::jvm::Jvm;
use super::world::{Process, World, is_held, is_placed};
use leasehold_core::command::fair::Heartbeat;

fn queued(world: &World) -> (String, [Process; 3]) {
    let holder = world.process().hold(1);
    world.acquire(&holder);
    let waiters = [(); 3].map(|()| world.process());
    waiters.iter().for_each(|waiter| assert!(is_placed(&world.acquire(&waiter.hold(1)))));
    (holder, waiters)
}

/// Every process beats, acquires again if its place is gone, and gets its turn at last. Answers with the order of turns.
#[track_caller]
fn everybody_gets_in(world: &World, holder: &str, waiters: &[Process]) -> Vec<String> {
    for waiter in waiters {
        if matches!(world.beat(*waiter, Some(&waiter.hold(1))), Heartbeat::Gone(_)) {
            world.ask(&waiter.hold(1), |ask| ask.placed = true);
        }
    }
    world.assert_consistent();
    let mut last = holder.to_owned();
    let mut order = Vec::new();
    for _ in waiters {
        world.release(&last, 0);
        let next = world.queue().first().expect("somebody waits").clone();
        assert!(is_held(&world.acquire(&next)));
        order.push(next.clone());
        last = next;
    }
    world.release(&last, 0);
    assert!(world.queue().is_empty() && world.scores().is_empty());
    order
}

#[test]
fn without_its_scores_a_queue_keeps_its_order() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    world.command(&["DEL", &world.key("deadlines")]);
    assert_eq!(everybody_gets_in(&world, &holder, &waiters), waiters.map(|waiter| waiter.hold(1)));
}

#[test]
fn without_its_list_a_queue_takes_the_living_back() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    world.command(&["DEL", &world.key("queue")]);
    let mut order = everybody_gets_in(&world, &holder, &waiters);
    order.sort();
    assert_eq!(order, waiters.map(|waiter| waiter.hold(1)));
}

#[test]
fn without_its_marks_a_queue_keeps_its_order() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    world.command(&["DEL", &world.key("marks")]);
    assert_eq!(everybody_gets_in(&world, &holder, &waiters), waiters.map(|waiter| waiter.hold(1)));
    assert!(!world.marks().contains_key("f"), "nobody is taken for foreign for longer than that");
}

#[test]
fn a_jvm_in_the_middle_is_found_again_after_the_marks_were_lost() {
    let world = World::embedded();
    let (_, waiters) = queued(&world);
    let jvm = Jvm::new(1, 5_000);
    jvm.acquire(&world, 30_000);
    let last = world.process();
    world.acquire(&last.hold(1));
    world.command(&["DEL", &world.key("marks")]);
    waiters.iter().for_each(|waiter| drop(world.beat(*waiter, None)));
    world.advance(500);
    waiters.iter().chain([&last]).for_each(|waiter| drop(world.beat(*waiter, None)));
    assert!(world.marks().contains_key("f"), "{:?}", world.marks());
    assert!(world.score(&last.hold(1)) > 300_000, "and who stands behind it is guarded");
}

#[test]
fn everything_deleted_is_a_loss_of_places_and_nothing_worse() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    for key in ["queue", "deadlines", "marks", "lock"] {
        world.command(&["DEL", &world.key(key)]);
    }
    assert!(matches!(world.beat(waiters[0], Some(&waiters[0].hold(1))), Heartbeat::Gone(_)));
    assert!(is_held(&world.ask(&waiters[0].hold(1), |ask| ask.placed = true)), "it is free, and nobody is in front");
    assert_eq!(world.release(&holder, 0), -1);
    everybody_gets_in(&world, &waiters[0].hold(1), &waiters[1..]);
}

#[test]
fn an_entry_listed_twice_is_listed_once() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    world.command(&["RPUSH", &world.key("queue"), &waiters[0].hold(1)]);
    assert_eq!(everybody_gets_in(&world, &holder, &waiters), waiters.map(|waiter| waiter.hold(1)));
}

#[test]
fn scores_that_belong_to_nobody_go() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    world.command(&["ZADD", &world.key("deadlines"), "99", "tomb:1", "1900000000000", "jvm:1"]);
    world.command(&["LPOP", &world.key("queue")]);
    let mut order = everybody_gets_in(&world, &holder, &waiters);
    order.sort();
    assert_eq!(order, waiters.map(|waiter| waiter.hold(1)), "who lives is appended, anybody else goes");
}

#[test]
fn damage_with_right_lengths_mends_when_reached() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world);
    world.command(&["ZREM", &world.key("deadlines"), &waiters[0].hold(1)]);
    world.command(&["ZADD", &world.key("deadlines"), "1900000000000", "jvm:1"]);
    assert_eq!(everybody_gets_in(&world, &holder, &waiters), waiters.map(|waiter| waiter.hold(1)));
}

#[test]
fn a_jvm_without_a_score_gets_one() {
    let world = World::embedded();
    let holder = world.process();
    world.acquire(&holder.hold(1));
    let jvm = Jvm::new(1, 5_000);
    jvm.acquire(&world, 30_000);
    world.command(&["DEL", &world.key("deadlines")]);
    let waiter = world.process();
    world.acquire(&waiter.hold(1));
    world.assert_consistent();
    // By then the walk has lowered it to what a JVM would have given it, had it a wait of the cap.
    assert_eq!(world.score(&jvm.entry), 30_000 + 300_000);
    world.release(&holder.hold(1), 0);
    assert_eq!(jvm.acquire(&world, 30_000), None);
}

#[test]
fn an_infinite_score_keeps_nothing_for_ever() {
    let world = World::embedded();
    let (_, waiters) = queued(&world);
    world.command(&["ZADD", &world.key("deadlines"), "inf", &waiters[1].hold(1)]);
    world.beat(waiters[0], None);
    assert!(world.ttl("queue") > 0 && world.ttl("queue") < 700_000);
    let jvm = Jvm::new(1, 5_000);
    jvm.acquire(&world, 30_000);
    world.command(&["ZADD", &world.key("deadlines"), "inf", &jvm.entry]);
    world.beat(waiters[0], None);
    world.advance(500);
    world.beat(waiters[0], None);
    assert!(world.scores().values().all(|score| score.is_finite()), "{:?}", world.scores());
}
