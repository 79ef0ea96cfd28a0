//! Semaphores of both sides: one number of permits that all take from and give back to.

use super::wake_up::{ROUNDS, judge};
use crate::agent::Actor;
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{NEVER, World, clock, pass, soon};
use leasehold::{BareSemaphore, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The time in which no caller gets in, for want of permits.
const SHORT: Duration = Duration::from_millis(400);

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add_alone(place, "semaphore: Rust wakes up when a JVM releases", (), rust_wakes);
        cases.add_alone(place, "semaphore: a JVM wakes up when Rust releases", (), jvm_wakes);
        cases.add(place, "semaphore: permits move between the sides, and both count the same", permits_move);
        cases.add(place, "semaphore: what one side has set, the other does not set again", set_once);
        cases.add(place, "semaphore: permits that one side adds, takes away or drains are so for the other", changed);
        cases.add(place, "semaphore: a waiter for several gets them when the other side has given all back", several);
        cases.add(place, "semaphore: permits that a side sets or adds wake up the other", added_wake);
        cases.add(place, "semaphore: one release of many lets waiters of both sides in", many_at_once);
        cases.add(place, "semaphore: never more than there are, whoever takes them", never_more);
    }
}

/// The semaphore of this case on both sides: ours, a JVM's thread, and what it calls it.
fn semaphores(world: &World) -> (BareSemaphore, Actor, String) {
    (world.rust.bare_semaphore(&world.name), world.actor("jvm"), format!("semaphore:{}", world.name))
}

fn channel(world: &World) -> String {
    format!("redisson_sc:{{{}}}", world.name)
}

/// So many are available, for both sides.
async fn available(world: &World, permits: i64) {
    let (semaphore, jvm, object) = semaphores(world);
    assert_eq!(semaphore.available_permits().await.expect("an answer"), permits, "for Rust");
    assert_eq!(jvm.ask("available", &[&object]).await, permits.to_string(), "for the JVM");
}

async fn rust_wakes(world: World, (): ()) {
    let (semaphore, jvm, object) = semaphores(&world);
    assert!(jvm.yes("trySetPermits", &[&object, "1"]).await);
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        jvm.tell("acquire", &[&object]).await;
        let acquire = semaphore.acquire();
        let waiting = tokio::spawn(async { (acquire.await, clock()) });
        world.until_listening(&channel(&world), 1).await;
        let released = jvm.tell("release", &[&object]).await;
        let (guard, woken) = waiting.await.expect("a task");
        waits.push(woken.saturating_sub(released.began));
        guard.expect("a permit").release().await.expect("a release");
        world.until_listening(&channel(&world), 0).await;
    }
    judge(&world, waits);
}

async fn jvm_wakes(world: World, (): ()) {
    let (semaphore, jvm, object) = semaphores(&world);
    assert!(semaphore.try_set_permits(1).await.expect("an answer"));
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        let guard = semaphore.acquire().await.expect("a permit");
        let waiting = jvm.begin("acquire", &[&object]).await;
        world.until_listening(&channel(&world), 1).await;
        let released = clock();
        guard.release().await.expect("a release");
        let woken = waiting.await.expect("an answer").expect("no exception").ended;
        waits.push(woken.saturating_sub(released));
        jvm.tell("release", &[&object]).await;
        world.until_listening(&channel(&world), 0).await;
    }
    judge(&world, waits);
}

async fn permits_move(world: World) {
    let (semaphore, jvm, object) = semaphores(&world);
    available(&world, 0).await;
    assert!(!jvm.yes("tryAcquire", &[&object, "1"]).await, "nobody has set it");
    assert!(semaphore.try_acquire().await.expect("an answer").is_none(), "nobody has set it");
    assert!(semaphore.try_set_permits(5).await.expect("an answer"));
    available(&world, 5).await;
    assert!(jvm.yes("tryAcquire", &[&object, "2"]).await);
    available(&world, 3).await;
    assert!(semaphore.try_acquire_many(4).await.expect("an answer").is_none(), "the JVM has two of five");
    let guard = semaphore.try_acquire_many(3).await.expect("an answer").expect("three permits");
    available(&world, 0).await;
    assert!(!jvm.yes("tryAcquire", &[&object, "1", &SHORT.as_millis().to_string()]).await, "all are taken");
    let waited = semaphore.acquire().wait(SHORT).await;
    assert!(matches!(waited, Err(Error::WaitElapsed { .. })), "all are taken");
    jvm.tell("release", &[&object, "1"]).await;
    available(&world, 1).await;
    let one = semaphore.try_acquire().await.expect("an answer").expect("a permit that the JVM had");
    available(&world, 0).await;
    guard.release().await.expect("a release");
    available(&world, 3).await;
    assert!(jvm.yes("tryAcquire", &[&object, "3"]).await, "which Rust had");
    one.release().await.expect("a release");
    jvm.tell("release", &[&object, "4"]).await;
    available(&world, 5).await;
    // Permits that one side took, the other may give back: they belong to no holder.
    assert_eq!(semaphore.drain_permits().await.expect("an answer"), 5);
    jvm.tell("release", &[&object, "2"]).await;
    assert_eq!(semaphore.release_permits(3).await.expect("an answer"), 5);
    available(&world, 5).await;
}

async fn set_once(world: World) {
    let (semaphore, jvm, object) = semaphores(&world);
    assert!(jvm.yes("trySetPermits", &[&object, "2"]).await);
    assert!(!semaphore.try_set_permits(7).await.expect("an answer"), "the JVM has set it");
    available(&world, 2).await;
    let guard = semaphore.acquire().permits(2).await.expect("two permits");
    assert!(!semaphore.try_set_permits(7).await.expect("an answer"), "all are taken, which is not none");
    assert!(!jvm.yes("trySetPermits", &[&object, "7"]).await, "all are taken, which is not none");
    guard.release().await.expect("a release");
    available(&world, 2).await;
    assert!(jvm.yes("delete", &[&object]).await);
    available(&world, 0).await;
    assert!(semaphore.try_set_permits(3).await.expect("an answer"), "there is none any more");
    assert!(!jvm.yes("trySetPermits", &[&object, "7"]).await, "Rust has set it");
    available(&world, 3).await;
}

async fn changed(world: World) {
    let (semaphore, jvm, object) = semaphores(&world);
    assert!(semaphore.try_set_permits(4).await.expect("an answer"));
    jvm.tell("addPermits", &[&object, "3"]).await;
    available(&world, 7).await;
    assert_eq!(semaphore.add_permits(2).await.expect("an answer"), 9);
    available(&world, 9).await;
    jvm.tell("addPermits", &[&object, "-4"]).await;
    assert_eq!(semaphore.add_permits(-1).await.expect("an answer"), 4);
    assert_eq!(jvm.ask("drain", &[&object]).await, "4");
    assert_eq!(semaphore.drain_permits().await.expect("an answer"), 0, "the JVM has them");
    jvm.tell("release", &[&object, "4"]).await;
    assert_eq!(semaphore.drain_permits().await.expect("an answer"), 4);
    assert_eq!(jvm.ask("drain", &[&object]).await, "0", "Rust has them");
    // More are taken away than there are, by each side once.
    jvm.tell("addPermits", &[&object, "-2"]).await;
    assert_eq!(semaphore.add_permits(-1).await.expect("an answer"), -3);
    available(&world, -3).await;
    assert_eq!(semaphore.release_permits(3).await.expect("an answer"), 0);
    assert!(!jvm.yes("tryAcquire", &[&object, "1"]).await);
    jvm.tell("release", &[&object, "1"]).await;
    let guard = semaphore.try_acquire().await.expect("an answer").expect("the only one");
    guard.release().await.expect("a release");
    available(&world, 1).await;
}

async fn several(world: World) {
    let (semaphore, jvm, object) = semaphores(&world);
    assert!(semaphore.try_set_permits(3).await.expect("an answer"));
    jvm.tell("acquire", &[&object, "3"]).await;
    let acquire = semaphore.acquire().permits(3);
    let waiting = tokio::spawn(async move { acquire.await });
    world.until_listening(&channel(&world), 1).await;
    jvm.tell("release", &[&object, "2"]).await;
    pass(SHORT).await;
    assert!(!waiting.is_finished(), "one is missing");
    let released = clock();
    jvm.tell("release", &[&object, "1"]).await;
    let guard = waiting.await.expect("a task").expect("three permits");
    soon(released);
    guard.release().await.expect("a release");
    let [two, one] = [2, 1].map(|permits| semaphore.acquire().permits(permits));
    let (two, one) = (two.await.expect("two permits"), one.await.expect("a permit"));
    let waiting = jvm.begin("acquire", &[&object, "3"]).await;
    world.until_listening(&channel(&world), 1).await;
    two.release().await.expect("a release");
    pass(SHORT).await;
    assert!(!waiting.is_finished(), "one is missing");
    let released = clock();
    one.release().await.expect("a release");
    waiting.await.expect("an answer").expect("no exception");
    soon(released);
    available(&world, 0).await;
}

async fn added_wake(world: World) {
    let (semaphore, jvm, object) = semaphores(&world);
    for set_first in [false, true] {
        let (acquire, begun) = (semaphore.acquire(), clock());
        let waiting = tokio::spawn(async move { acquire.await });
        world.until_listening(&channel(&world), 1).await;
        if set_first {
            jvm.tell("addPermits", &[&object, "1"]).await;
        } else {
            assert!(jvm.yes("trySetPermits", &[&object, "1"]).await);
        }
        // The permit is kept, so that the next waiter finds none.
        waiting.await.expect("a task").expect("a permit").detach();
        soon(begun);
    }
    assert!(jvm.yes("delete", &[&object]).await);
    for set_first in [false, true] {
        let waiting = jvm.begin("acquire", &[&object]).await;
        world.until_listening(&channel(&world), 1).await;
        let added = clock();
        if set_first {
            assert_eq!(semaphore.add_permits(1).await.expect("an answer"), 1);
        } else {
            assert!(semaphore.try_set_permits(1).await.expect("an answer"));
        }
        waiting.await.expect("an answer").expect("no exception");
        soon(added);
    }
}

async fn many_at_once(world: World) {
    const WAITERS: usize = 3;
    let (semaphore, jvm, object) = semaphores(&world);
    assert!(semaphore.try_set_permits(0).await.expect("an answer"));
    for by_rust in [true, false] {
        let acquires = (0..WAITERS).map(|_| semaphore.acquire().wait(NEVER));
        let ours: Vec<_> = acquires.map(|acquire| tokio::spawn(async move { acquire.await })).collect();
        let mut theirs = Vec::new();
        for number in 0..WAITERS {
            theirs.push(world.actor(&format!("waiter-{number}")).begin("acquire", &[&object]).await);
        }
        world.until_listening(&channel(&world), 2).await;
        // Those who share the subscription fall asleep a moment later; a message wakes those who sleep.
        pass(SHORT).await;
        let released = clock();
        if by_rust {
            semaphore.release_permits(2 * WAITERS as u32).await.expect("a release");
        } else {
            jvm.tell("release", &[&object, &(2 * WAITERS).to_string()]).await;
        }
        for waiter in theirs {
            waiter.await.expect("an answer").expect("no exception");
        }
        for waiter in ours {
            waiter.await.expect("a task").expect("a permit").detach();
        }
        soon(released);
        available(&world, 0).await;
    }
}

async fn never_more(world: World) {
    const PERMITS: i64 = 2;
    const TIMES: usize = 15;
    let (semaphore, _, object) = semaphores(&world);
    assert!(semaphore.try_set_permits(PERMITS as u32).await.expect("an answer"));
    let taken = Arc::new(AtomicI64::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..3 {
        let (semaphore, ours) = (semaphore.clone(), taken.clone());
        workers.spawn(async move {
            for _ in 0..TIMES {
                let guard = semaphore.acquire().await.expect("a permit");
                assert!(ours.fetch_add(1, Ordering::SeqCst) < PERMITS, "one permit too many for Rust");
                tokio::task::yield_now().await;
                ours.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("a release");
            }
        });
        let (actor, object, theirs) = (world.actor(&format!("worker-{number}")), object.clone(), taken.clone());
        workers.spawn(async move {
            for _ in 0..TIMES {
                actor.tell("acquire", &[&object]).await;
                assert!(theirs.fetch_add(1, Ordering::SeqCst) < PERMITS, "one permit too many for a JVM");
                tokio::task::yield_now().await;
                theirs.fetch_sub(1, Ordering::SeqCst);
                actor.tell("release", &[&object]).await;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("a worker that is not refused");
    }
    available(&world, PERMITS).await;
}
