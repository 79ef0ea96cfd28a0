//! Count-down latches of both sides.

use super::wake_up::{ROUNDS, judge};
use crate::agent::Actor;
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{World, clock, pass, soon};
use leasehold::{CountDownLatch, Error};
use std::time::Duration;

/// The time in which no caller gets through a closed latch.
const SHORT: Duration = Duration::from_millis(400);

/// How many of a side wait at once.
const MANY: usize = 3;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add_alone(place, "latch: Rust wakes up when a JVM counts down to zero", (), rust_wakes);
        cases.add_alone(place, "latch: a JVM wakes up when Rust counts down to zero", (), jvm_wakes);
        cases.add(place, "latch: both sides set it, count it down and see the same count", both_count);
        cases.add(place, "latch: the last count, of either side, lets the waiters of both go", all_go);
        cases.add(
            place,
            "latch: a wait at a closed latch ends on both sides, and keeps nobody from the next",
            waits_end,
        );
        cases.add(place, "latch: one that is deleted by Rust lets a JVM go, and the reverse", deleted);
    }
}

/// The latch of this case on both sides: ours, a JVM's thread, and what it calls it.
fn latches(world: &World) -> (CountDownLatch, Actor, String) {
    (world.rust.count_down_latch(&world.name), world.actor("jvm"), format!("latch:{}", world.name))
}

fn channel(world: &World) -> String {
    format!("redisson_countdownlatch__channel__{{{}}}", world.name)
}

/// Both sides see this count.
async fn count(world: &World, count: u32) {
    let (latch, jvm, object) = latches(world);
    assert_eq!(latch.count().await.expect("an answer"), count, "for Rust");
    assert_eq!(jvm.ask("count", &[&object]).await, count.to_string(), "for the JVM");
}

async fn rust_wakes(world: World, (): ()) {
    let (latch, jvm, object) = latches(&world);
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        assert!(jvm.yes("trySetCount", &[&object, "1"]).await);
        let wait = latch.opened();
        let waiting = tokio::spawn(async { (wait.await, clock()) });
        world.until_listening(&channel(&world), 1).await;
        let counted = jvm.tell("countDown", &[&object]).await;
        let (through, woken) = waiting.await.expect("a task");
        through.expect("an open latch");
        waits.push(woken.saturating_sub(counted.began));
        world.until_listening(&channel(&world), 0).await;
    }
    judge(&world, waits);
}

async fn jvm_wakes(world: World, (): ()) {
    let (latch, jvm, object) = latches(&world);
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        assert!(latch.try_set_count(1).await.expect("an answer"));
        let waiting = jvm.begin("await", &[&object]).await;
        world.until_listening(&channel(&world), 1).await;
        let counted = clock();
        assert_eq!(latch.count_down().await.expect("an answer"), 0);
        let woken = waiting.await.expect("an answer").expect("no exception").ended;
        waits.push(woken.saturating_sub(counted));
        world.until_listening(&channel(&world), 0).await;
    }
    judge(&world, waits);
}

async fn both_count(world: World) {
    let (latch, jvm, object) = latches(&world);
    count(&world, 0).await;
    assert!(latch.try_set_count(4).await.expect("an answer"));
    assert!(!jvm.yes("trySetCount", &[&object, "9"]).await, "Rust has set it");
    count(&world, 4).await;
    jvm.tell("countDown", &[&object]).await;
    count(&world, 3).await;
    assert_eq!(latch.count_down().await.expect("an answer"), 2);
    count(&world, 2).await;
    jvm.tell("countDown", &[&object]).await;
    assert_eq!(latch.count_down().await.expect("an answer"), 0);
    count(&world, 0).await;
    // It is open: there is nothing left to count, and it may be set again, by the other side.
    jvm.tell("countDown", &[&object]).await;
    assert_eq!(latch.count_down().await.expect("an answer"), 0);
    assert!(jvm.yes("trySetCount", &[&object, "2"]).await);
    assert!(!latch.try_set_count(9).await.expect("an answer"), "the JVM has set it");
    count(&world, 2).await;
    assert_eq!(latch.count_down_by(2).await.expect("an answer"), 0);
    count(&world, 0).await;
    assert!(jvm.yes("await", &[&object, "1"]).await, "it is open");
    latch.opened().wait(Duration::ZERO).await.expect("an open latch");
}

async fn all_go(world: World) {
    let (latch, jvm, object) = latches(&world);
    for last_is_rust in [true, false] {
        assert!(latch.try_set_count(2).await.expect("an answer"));
        let waits = (0..MANY).map(|_| latch.opened());
        let ours: Vec<_> = waits.map(|wait| tokio::spawn(async move { wait.await })).collect();
        let mut theirs = Vec::new();
        for number in 0..MANY {
            theirs.push(world.actor(&format!("waiter-{number}")).begin("await", &[&object]).await);
        }
        world.until_listening(&channel(&world), 2).await;
        if last_is_rust {
            jvm.tell("countDown", &[&object]).await;
        } else {
            assert_eq!(latch.count_down().await.expect("an answer"), 1);
        }
        pass(SHORT).await;
        assert!(ours.iter().all(|waiter| !waiter.is_finished()), "one is left to count");
        assert!(theirs.iter().all(|waiter| !waiter.is_finished()), "one is left to count");
        let counted = clock();
        if last_is_rust {
            assert_eq!(latch.count_down().await.expect("an answer"), 0);
        } else {
            jvm.tell("countDown", &[&object]).await;
        }
        for waiter in ours {
            waiter.await.expect("a task").expect("an open latch");
        }
        for waiter in theirs {
            assert_eq!(waiter.await.expect("an answer").expect("no exception").value, "true");
        }
        soon(counted);
    }
}

async fn waits_end(world: World) {
    let (latch, jvm, object) = latches(&world);
    assert!(latch.try_set_count(1).await.expect("an answer"));
    assert!(!jvm.yes("await", &[&object, &SHORT.as_millis().to_string()]).await, "it is closed");
    let waited = latch.opened().wait(SHORT).await;
    assert!(matches!(waited, Err(Error::WaitElapsed { .. })), "it is closed: {waited:?}");
    count(&world, 1).await;
    let wait = latch.opened();
    let ours = tokio::spawn(async move { wait.await });
    let theirs = jvm.begin("await", &[&object]).await;
    world.until_listening(&channel(&world), 2).await;
    let counted = clock();
    world.actor("other").tell("countDown", &[&object]).await;
    ours.await.expect("a task").expect("an open latch");
    theirs.await.expect("an answer").expect("no exception");
    soon(counted);
}

async fn deleted(world: World) {
    let (latch, jvm, object) = latches(&world);
    assert!(jvm.yes("trySetCount", &[&object, "5"]).await);
    let waiting = jvm.begin("await", &[&object]).await;
    world.until_listening(&channel(&world), 1).await;
    // A JVM asks for the count again when it listens, and would find a latch that is gone; one that sleeps must be woken.
    pass(SHORT).await;
    let deleted = clock();
    assert!(latch.delete().await.expect("an answer"));
    assert_eq!(waiting.await.expect("an answer").expect("no exception").value, "true");
    soon(deleted);
    assert!(latch.try_set_count(5).await.expect("an answer"));
    let wait = latch.opened();
    let waiting = tokio::spawn(async move { wait.await });
    world.until_listening(&channel(&world), 1).await;
    let deleted = clock();
    assert!(jvm.yes("delete", &[&object]).await);
    waiting.await.expect("a task").expect("a latch that is gone");
    soon(deleted);
    assert!(!latch.delete().await.expect("an answer"), "the JVM has deleted it");
}
