//! Leased semaphores of both sides: permits that have an id and, if the taker says so, a lease.

use super::wake_up::{ROUNDS, judge};
use crate::agent::Actor;
use crate::child;
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, NEVER, SLACK, World, clock, pass, soon};
use leasehold::kind::Permit;
use leasehold::{Error, Guard, LossReason, PermitId, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// The time in which no caller gets in, for want of permits.
const SHORT: Duration = Duration::from_millis(400);

/// A lease that a case waits out.
const BRIEF: Duration = Duration::from_millis(1500);

/// For how many leases a holder keeps the other side out.
const LEASES: u32 = 3;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add_alone(place, "permits: Rust wakes up when a JVM releases", (), rust_wakes);
        cases.add_alone(place, "permits: a JVM wakes up when Rust releases", (), jvm_wakes);
        cases.add(place, "permits: Rust's renewal keeps a JVM out for 3 leases", rust_renews);
        cases.add(place, "permits: a JVM's permit without a lease, or with a longer one, keeps Rust out", jvm_keeps);
        cases.add(place, "permits: that of a JVM that was killed lets Rust in within its lease", jvm_dies);
        cases.add(place, "permits: that of Rust that was killed lets a JVM in within its lease", rust_dies);
        cases.add(place, "permits: a lease of a JVM that ends lets a Rust waiter in", jvm_expires);
        cases.add(place, "permits: a lease of Rust that ends lets a JVM's waiter in", rust_expires);
        cases.add(place, "permits: ids, leases and numbers of either side are seen by the other", both_see);
        cases.add(place, "permits: a JVM gives back what Rust holds, by its id, and Rust is told", jvm_gives_back);
        cases.add(place, "permits: one of Rust's that a JVM prolonged is back when its guard is", jvm_prolongs);
        cases.add(
            place,
            "permits: one of Rust's that a JVM cut short is free, and Rust is told in time",
            jvm_cuts_short,
        );
        cases.add(place, "permits: Rust gives back what a JVM holds, by its id", rust_gives_back);
        cases.add(place, "permits: the capacity that one side sets or changes is so for the other", capacity);
        cases.add(place, "permits: several at once, all or none, on both sides", several);
        cases.add(place, "permits: never more than there are, whoever takes them", never_more);
    }
}

/// The semaphore of this case on both sides: ours, a JVM's thread, and what it calls it.
fn semaphores(world: &World) -> (Semaphore, Actor, String) {
    (world.rust.semaphore(&world.name), world.actor("jvm"), object(world))
}

fn object(world: &World) -> String {
    format!("{}:{}", child::PERMIT, world.name)
}

/// The same, with so many permits, which our side sets.
async fn set(world: &World, permits: u32) -> (Semaphore, Actor, String) {
    let (semaphore, jvm, object) = semaphores(world);
    assert!(semaphore.try_set_permits(permits).await.expect("an answer"));
    (semaphore, jvm, object)
}

fn channel(world: &World) -> String {
    format!("redisson_sc:{{{}}}", world.name)
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

/// So many are available and held, for both sides.
async fn counts(world: &World, available: i64, held: i64) {
    let (semaphore, jvm, object) = semaphores(world);
    let seen = semaphore.inspect().await.expect("an answer").expect("a semaphore");
    assert_eq!((seen.available, seen.held.cast_signed()), (available, held), "for Rust");
    assert_eq!(seen.permits.len() as i64, held);
    for (verb, number) in [("available", available), ("acquired", held), ("permits", available + held)] {
        assert_eq!(jvm.ask(verb, &[&object]).await, number.to_string(), "{verb}, for the JVM");
    }
}

fn id(text: &str) -> PermitId {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no id"))
}

async fn taken(semaphore: &Semaphore) -> Option<Guard<Permit>> {
    semaphore.try_acquire().await.expect("an answer")
}

async fn rust_wakes(world: World, (): ()) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        let permit = jvm.ask("acquire", &[&object]).await;
        let acquire = semaphore.acquire();
        let waiting = tokio::spawn(async { (acquire.await, clock()) });
        world.until_listening(&channel(&world), 1).await;
        let released = jvm.tell("release", &[&object, &permit]).await;
        let (guard, woken) = waiting.await.expect("a task");
        waits.push(woken.saturating_sub(released.began));
        guard.expect("a permit").release().await.expect("a release");
        world.until_listening(&channel(&world), 0).await;
    }
    judge(&world, waits);
}

async fn jvm_wakes(world: World, (): ()) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        let guard = semaphore.acquire().lease(NEVER).await.expect("a permit");
        let waiting = jvm.begin("acquire", &[&object]).await;
        world.until_listening(&channel(&world), 1).await;
        let released = clock();
        guard.release().await.expect("a release");
        let woken = waiting.await.expect("an answer").expect("no exception");
        waits.push(woken.ended.saturating_sub(released));
        jvm.tell("release", &[&object, &woken.value]).await;
        world.until_listening(&channel(&world), 0).await;
    }
    judge(&world, waits);
}

async fn rust_renews(world: World) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let guard = semaphore.acquire().await.expect("a permit");
    let end = Instant::now() + LEASE * LEASES;
    let waiting = world.actor("waiter").begin("tryAcquire", &[&object, &millis(LEASE * LEASES), "-1"]).await;
    while Instant::now() < end {
        assert_eq!(jvm.ask("tryAcquire", &[&object]).await, "null", "Rust renews it");
        pass(Duration::from_millis(200)).await;
    }
    assert_eq!(waiting.await.expect("an answer").expect("no exception").value, "null", "Rust renews it");
    assert!(guard.is_held());
    guard.release().await.expect("a permit that was held throughout");
    let permit = jvm.ask("tryAcquire", &[&object]).await;
    jvm.tell("release", &[&object, &permit]).await;
    counts(&world, 1, 0).await;
}

async fn jvm_keeps(world: World) {
    let (semaphore, jvm, object) = set(&world, 2).await;
    let endless = jvm.ask("acquire", &[&object]).await;
    let longer = jvm.ask("acquire", &[&object, &millis(SHORT)]).await;
    assert!(jvm.yes("updateLease", &[&object, &longer, &millis(NEVER)]).await, "before it has expired");
    let end = Instant::now() + LEASE * 2;
    while Instant::now() < end {
        assert!(taken(&semaphore).await.is_none(), "the JVM has both");
        pass(Duration::from_millis(200)).await;
    }
    counts(&world, 0, 2).await;
    for permit in [endless, longer] {
        jvm.tell("release", &[&object, &permit]).await;
        let guard = taken(&semaphore).await.expect("a permit that the JVM gave back");
        guard.release().await.expect("a release");
    }
    counts(&world, 2, 0).await;
}

async fn jvm_dies(world: World) {
    let (semaphore, _, object) = set(&world, 1).await;
    let (jvm, doomed) = world.mortal().await;
    let leased = doomed.tell("acquire", &[&object, &millis(LEASE)]).await.began;
    let acquire = semaphore.acquire();
    let waiting = tokio::spawn(async { (acquire.await, clock()) });
    world.until_listening(&channel(&world), 1).await;
    jvm.kill();
    let (guard, got) = waiting.await.expect("a task");
    let guard = guard.expect("a permit");
    at_the_end(&world, leased, got, LEASE);
    counts(&world, 0, 1).await;
    guard.release().await.expect("a release");
    counts(&world, 1, 0).await;
}

async fn rust_dies(world: World) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let mut child = world.child().await;
    child.acquire(child::PERMIT, &world.name).await;
    let waiting = jvm.begin("acquire", &[&object]).await;
    world.until_listening(&channel(&world), 1).await;
    let seen = semaphore.inspect().await.expect("an answer").expect("a semaphore");
    let left = seen.permits[0].remaining.expect("a lease");
    child.kill();
    let killed = clock();
    let got = waiting.await.expect("an answer").expect("no exception");
    let waited = Duration::from_micros(got.ended.saturating_sub(killed));
    world.note(format!("in after {waited:.1?}, of which {left:.1?} were left"));
    assert!(waited <= LEASE + SLACK, "{waited:?}");
    // The last look at the lease was a moment before.
    assert!(waited + Duration::from_millis(100) >= left, "{waited:?}, and {left:?} were left");
    counts(&world, 0, 1).await;
    jvm.tell("release", &[&object, &got.value]).await;
    counts(&world, 1, 0).await;
}

async fn jvm_expires(world: World) {
    let (semaphore, jvm, object) = set(&world, 2).await;
    let kept = jvm.ask("acquire", &[&object]).await;
    let brief = jvm.tell("acquire", &[&object, &millis(BRIEF)]).await;
    let guard = semaphore.acquire().await.expect("a permit");
    at_the_end(&world, brief.began, clock(), BRIEF);
    assert!(!jvm.yes("tryRelease", &[&object, &brief.value]).await, "it has expired");
    counts(&world, 0, 2).await;
    guard.release().await.expect("a release");
    jvm.tell("release", &[&object, &kept]).await;
    counts(&world, 2, 0).await;
}

async fn rust_expires(world: World) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let leased = clock();
    let guard = semaphore.acquire().lease(BRIEF).await.expect("a permit");
    let got = jvm.tell("acquire", &[&object]).await;
    at_the_end(&world, leased, got.ended, BRIEF);
    assert_eq!(guard.lost().await.reason(), LossReason::LeaseExpired);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })), "a JVM has it");
    counts(&world, 0, 1).await;
    jvm.tell("release", &[&object, &got.value]).await;
    counts(&world, 1, 0).await;
}

async fn both_see(world: World) {
    let (semaphore, jvm, object) = set(&world, 4).await;
    counts(&world, 4, 0).await;
    let endless = jvm.ask("acquire", &[&object]).await;
    let leased = jvm.ask("acquire", &[&object, &millis(NEVER)]).await;
    counts(&world, 2, 2).await;
    let held = |of: &str| {
        let (semaphore, id) = (semaphore.clone(), id(of));
        async move { semaphore.lease_of(id).await.expect("an answer") }
    };
    assert_eq!(held(&endless).await.expect("a held permit").remaining, None, "it has no lease");
    let remaining = held(&leased).await.expect("a held permit").remaining.expect("a lease");
    assert!(remaining <= NEVER && remaining + Duration::from_secs(30) > NEVER, "{remaining:?}");
    let guard = semaphore.acquire().permits(2).lease(NEVER).await.expect("two permits");
    counts(&world, 0, 4).await;
    let seen = semaphore.inspect().await.expect("an answer").expect("a semaphore");
    let mut seen: Vec<_> = seen.permits.iter().map(|permit| permit.id.to_string()).collect();
    let ours: Vec<_> = guard.ids().iter().map(PermitId::to_string).collect();
    let mut expected = [&ours[..], &[endless.clone(), leased.clone()]].concat();
    seen.sort();
    expected.sort();
    assert_eq!(seen, expected, "the ids of both sides, as both write them");
    for ours in &ours {
        let left: u64 = jvm.ask("lease", &[&object, ours]).await.parse().expect("a lease");
        let left = Duration::from_millis(left);
        assert!(left <= NEVER && left + Duration::from_secs(30) > NEVER, "{left:?}");
    }
    guard.release().await.expect("a release");
    for permit in [&endless, &leased] {
        jvm.tell("release", &[&object, permit]).await;
        assert_eq!(held(permit).await, None, "the JVM gave it back");
    }
    counts(&world, 4, 0).await;
}

async fn jvm_gives_back(world: World) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let guard = semaphore.acquire().await.expect("a permit");
    let ours = guard.ids()[0].to_string();
    let other = world.client(crate::world::settings()).await.semaphore(&world.name);
    let acquire = other.acquire().lease(NEVER);
    let waiting = tokio::spawn(async move { acquire.await });
    world.until_listening(&channel(&world), 1).await;
    let given = clock();
    jvm.tell("release", &[&object, &ours]).await;
    let next = waiting.await.expect("a task").expect("a permit");
    soon(given);
    // The holder finds out at its next renewal, which is due after a third of the lease.
    let lost = tokio::time::timeout(LEASE, guard.lost()).await.expect("a guard that is told");
    assert_eq!(lost.reason(), LossReason::Removed);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })), "the JVM gave it back");
    counts(&world, 0, 1).await;
    assert!(!jvm.yes("tryRelease", &[&object, &ours]).await, "it is back already");
    next.release().await.expect("a release");
    counts(&world, 1, 0).await;
}

async fn jvm_prolongs(world: World) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let guard = semaphore.acquire().lease(BRIEF).await.expect("a permit");
    let ours = guard.ids()[0].to_string();
    assert!(jvm.yes("updateLease", &[&object, &ours, &millis(NEVER)]).await, "whoever knows the id may");
    // The guard knows of the lease that it asked for.
    let lost = tokio::time::timeout(BRIEF + SLACK, guard.lost()).await.expect("a guard that is told");
    assert_eq!(lost.reason(), LossReason::LeaseExpired);
    pass(BRIEF).await;
    counts(&world, 0, 1).await;
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    let next = semaphore.acquire().wait(SLACK).await.expect("the permit, which is back");
    next.release().await.expect("a release");
    counts(&world, 1, 0).await;
}

async fn jvm_cuts_short(world: World) {
    let (semaphore, jvm, object) = set(&world, 1).await;
    let guard = semaphore.acquire().await.expect("a permit");
    let ours = guard.ids()[0].to_string();
    assert!(jvm.yes("updateLease", &[&object, &ours, "1"]).await, "whoever knows the id may");
    let waiting = jvm.begin("acquire", &[&object]).await;
    let theirs = waiting.await.expect("an answer").expect("no exception").value;
    // Both have it, until the guard's next renewal, which is due after a third of the lease.
    let lost = tokio::time::timeout(LEASE, guard.lost()).await.expect("a guard that is told");
    assert_eq!(lost.reason(), LossReason::Removed);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    counts(&world, 0, 1).await;
    jvm.tell("release", &[&object, &theirs]).await;
    counts(&world, 1, 0).await;
}

async fn rust_gives_back(world: World) {
    let (semaphore, jvm, object) = set(&world, 2).await;
    let [first, second] = [jvm.ask("acquire", &[&object]).await, jvm.ask("acquire", &[&object]).await];
    let waiter = world.actor("waiter");
    let waiting = waiter.begin("acquire", &[&object]).await;
    world.until_listening(&channel(&world), 1).await;
    let given = clock();
    let back = semaphore.release_ids(&[id(&first), id(&first)]).await.expect("an answer");
    assert_eq!(back, [true, false], "once");
    let got = waiting.await.expect("an answer").expect("no exception").value;
    soon(given);
    assert!(!jvm.yes("tryRelease", &[&object, &first]).await, "Rust gave it back");
    jvm.refuses("IllegalArgumentException", "release", &[&object, &first]).await;
    counts(&world, 0, 2).await;
    let back = semaphore.release_ids(&[id(&got), id(&second)]).await.expect("an answer");
    assert_eq!(back, [true, true]);
    counts(&world, 2, 0).await;
}

async fn capacity(world: World) {
    let (semaphore, jvm, object) = semaphores(&world);
    assert_eq!(semaphore.inspect().await.expect("an answer"), None);
    assert!(jvm.yes("trySetPermits", &[&object, "2"]).await);
    assert!(!semaphore.try_set_permits(9).await.expect("an answer"), "the JVM has set it");
    let guard = semaphore.acquire().permits(2).lease(NEVER).await.expect("two permits");
    assert!(!jvm.yes("trySetPermits", &[&object, "9"]).await, "all are taken, which is not none");
    let waiting = jvm.begin("acquire", &[&object]).await;
    world.until_listening(&channel(&world), 1).await;
    let resized = clock();
    assert_eq!(semaphore.resize(3).await.expect("an answer"), 1);
    let permit = waiting.await.expect("an answer").expect("no exception").value;
    soon(resized);
    counts(&world, 0, 3).await;
    let acquire = semaphore.acquire().lease(NEVER);
    let waiting = tokio::spawn(async move { acquire.await });
    world.until_listening(&channel(&world), 1).await;
    let resized = clock();
    jvm.tell("setPermits", &[&object, "4"]).await;
    let fourth = waiting.await.expect("a task").expect("a permit");
    soon(resized);
    jvm.tell("addPermits", &[&object, "2"]).await;
    counts(&world, 2, 4).await;
    assert_eq!(semaphore.add_permits(-1).await.expect("an answer"), 1);
    counts(&world, 1, 4).await;
    // Fewer than are held: no holder loses one, and no waiter gets one until enough are back.
    assert_eq!(semaphore.resize(2).await.expect("an answer"), -2);
    counts(&world, -2, 4).await;
    guard.release().await.expect("a permit that was held throughout");
    counts(&world, 0, 2).await;
    assert_eq!(jvm.ask("tryAcquire", &[&object]).await, "null");
    jvm.tell("release", &[&object, &permit]).await;
    fourth.release().await.expect("a release");
    counts(&world, 2, 0).await;
}

async fn several(world: World) {
    let (semaphore, jvm, object) = set(&world, 3).await;
    let theirs = jvm.ask("acquireMany", &[&object, "2"]).await;
    assert_eq!(theirs.split(',').count(), 2);
    assert!(semaphore.try_acquire_many(2).await.expect("an answer").is_none(), "one is there");
    let excess = semaphore.acquire().permits(4).await;
    assert!(matches!(excess, Err(Error::ExceedsCapacity { .. })), "there are three in all: {excess:?}");
    counts(&world, 1, 2).await;
    let acquire = semaphore.acquire().permits(3).lease(NEVER);
    let waiting = tokio::spawn(async move { acquire.await });
    world.until_listening(&channel(&world), 1).await;
    let given = clock();
    assert_eq!(jvm.ask("tryReleaseMany", &[&object, &theirs]).await, "2");
    let guard = waiting.await.expect("a task").expect("three permits");
    soon(given);
    counts(&world, 0, 3).await;
    let waiting = jvm.begin("acquireMany", &[&object, "3"]).await;
    world.until_listening(&channel(&world), 1).await;
    let released = clock();
    guard.release().await.expect("a release");
    let theirs = waiting.await.expect("an answer").expect("no exception").value;
    soon(released);
    let theirs: Vec<_> = theirs.split(',').map(id).collect();
    assert_eq!(semaphore.release_ids(&theirs).await.expect("an answer"), [true; 3]);
    counts(&world, 3, 0).await;
}

async fn never_more(world: World) {
    const PERMITS: i64 = 2;
    const TIMES: usize = 15;
    let (semaphore, _, object) = set(&world, PERMITS as u32).await;
    let taken = Arc::new(AtomicI64::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..3 {
        let (semaphore, ours) = (semaphore.clone(), taken.clone());
        workers.spawn(async move {
            for _ in 0..TIMES {
                let guard = semaphore.acquire().lease(NEVER).await.expect("a permit");
                assert!(ours.fetch_add(1, Ordering::SeqCst) < PERMITS, "one permit too many for Rust");
                tokio::task::yield_now().await;
                ours.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("a release");
            }
        });
        let (actor, object, theirs) = (world.actor(&format!("worker-{number}")), object.clone(), taken.clone());
        workers.spawn(async move {
            for _ in 0..TIMES {
                let permit = actor.ask("acquire", &[&object]).await;
                assert!(theirs.fetch_add(1, Ordering::SeqCst) < PERMITS, "one permit too many for a JVM");
                tokio::task::yield_now().await;
                theirs.fetch_sub(1, Ordering::SeqCst);
                actor.tell("release", &[&object, &permit]).await;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("a worker that is not refused");
    }
    counts(&world, PERMITS, 0).await;
}

/// A permit was got when the lease of another had ended, and not before.
#[track_caller]
fn at_the_end(world: &World, leased: u64, got: u64, lease: Duration) {
    let waited = Duration::from_micros(got.saturating_sub(leased));
    world.note(format!("in after {waited:.1?} of {lease:.1?}"));
    // The lease began after the time that was taken down; the clocks are read in milliseconds.
    assert!(waited + Duration::from_millis(5) >= lease, "{waited:?} of {lease:?}");
    assert!(waited <= lease + SLACK, "{waited:?} of {lease:?}");
}
