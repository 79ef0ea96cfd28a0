//! One holder at a time, whichever side it is on.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{NEVER, SLACK, World, clock, pass, settings, timed};
use leasehold::Error;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long the waits are that run out.
const SHORT: Duration = Duration::from_millis(400);

/// Redisson counts its waits in whole milliseconds, from a clock that shows no fractions: a wait may end by so much too early.
const JVM_CLOCK: Duration = Duration::from_millis(2);

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(
            place,
            "lock: a JVM waits while a lock lingers in Rust, and is not asked",
            jvm_waits_for_what_lingers,
        );
        for kind in Kind::ALL {
            cases.add_with(place, format!("{kind}: what a JVM holds keeps Rust out"), kind, jvm_keeps_rust_out);
            cases.add_with(place, format!("{kind}: what Rust holds keeps a JVM out"), kind, rust_keeps_jvm_out);
            cases.add_with(place, format!("{kind}: a JVM cannot unlock what Rust holds"), kind, not_the_holder);
            cases.add_with(place, format!("{kind}: a waiting Rust gets in when a JVM leaves"), kind, rust_waits);
            cases.add_with(place, format!("{kind}: a waiting JVM gets in when Rust leaves"), kind, jvm_waits);
            cases.add_with(place, format!("{kind}: threads and tasks count without a gap"), kind, counting);
        }
    }
}

async fn jvm_keeps_rust_out(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    jvm.tell("lock", &[&object]).await;
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "a JVM holds it");
    let (waited, took) = timed(lock.acquire(Wish { wait: Some(SHORT), ..Wish::default() })).await;
    assert!(matches!(waited, Err(Error::WaitElapsed { .. })), "a JVM holds it");
    assert!((SHORT..SHORT + SLACK).contains(&took), "{took:?}");
    assert!(jvm.yes("isHeld", &[&object]).await);
    jvm.tell("unlock", &[&object]).await;
    let guard = lock.try_acquire().await.expect("an answer").expect("a lock that is free");
    assert!(!jvm.yes("isHeld", &[&object]).await);
    guard.release().await.expect("a release");
    assert!(!jvm.yes("isLocked", &[&object]).await);
}

async fn rust_keeps_jvm_out(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let guard = lock.try_acquire().await.expect("an answer").expect("a lock that is free");
    assert!(jvm.yes("isLocked", &[&object]).await);
    assert!(!jvm.yes("tryLock", &[&object]).await, "Rust holds it");
    let short = SHORT.as_millis().to_string();
    let (got, took) = timed(jvm.yes("tryLock", &[&object, &short])).await;
    assert!(!got, "Rust holds it");
    assert!((SHORT - JVM_CLOCK..SHORT + SLACK).contains(&took), "{took:?}");
    guard.release().await.expect("a release");
    assert!(jvm.yes("tryLock", &[&object]).await, "it is free");
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds it");
    jvm.tell("unlock", &[&object]).await;
    assert_eq!(world.holder(), None);
}

async fn not_the_holder(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let guard = lock.acquire(Wish::default()).await.expect("the lock");
    let before = world.holder();
    assert!(before.is_some());
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    assert_eq!(before, world.holder());
    assert_eq!(jvm.ask("holdCount", &[&object]).await, "0");
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    if kind != Kind::Fair {
        // Redisson takes an unlock of a free fair lock for a success.
        jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    }
}

async fn rust_waits(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    jvm.tell("lock", &[&object, &NEVER.as_millis().to_string()]).await;
    let waiting = tokio::spawn(lock.acquire(Wish { wait: Some(NEVER), ..Wish::default() }));
    pass(SHORT).await;
    assert!(!waiting.is_finished(), "a JVM holds it");
    let unlocked = jvm.tell("unlock", &[&object]).await;
    let guard = waiting.await.expect("a task").expect("the lock");
    let waited = Duration::from_micros(clock().saturating_sub(unlocked.began));
    assert!(waited <= SLACK, "{waited:?}");
    assert!(!jvm.yes("tryLock", &[&object]).await, "Rust holds it");
    guard.release().await.expect("a release");
}

async fn jvm_waits(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let guard = lock.acquire(Wish { lease: Some(NEVER), ..Wish::default() }).await.expect("the lock");
    let waiting = jvm.begin("tryLock", &[&object, &NEVER.as_millis().to_string()]).await;
    pass(SHORT).await;
    assert!(!waiting.is_finished(), "Rust holds it");
    let released = clock();
    guard.release().await.expect("a release");
    let got = waiting.await.expect("an answer").expect("no exception");
    assert_eq!(got.value, "true");
    let waited = Duration::from_micros(got.ended.saturating_sub(released));
    assert!(waited <= SLACK, "{waited:?}");
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds it");
    jvm.tell("unlock", &[&object]).await;
}

/// The key of a number that belongs to a case.
fn number_of(world: &World) -> String {
    format!("{}-number", world.name)
}

/// A number is read and written in two commands under the lock, by three threads and three tasks. Were two of them ever in at
/// once, it would fall short.
async fn counting(world: World, kind: Kind) {
    const OF_EACH: usize = 3;
    const ROUNDS: usize = 20;
    let mut all = JoinSet::new();
    for at in 0..OF_EACH {
        let (jvm, object, number) = (world.actor(&format!("jvm-{at}")), world.object(kind), number_of(&world));
        all.spawn(async move {
            jvm.tell("bump", &[&object, &number, &ROUNDS.to_string()]).await;
        });
        let (lock, number, shared) = (world.lock(kind), number_of(&world), world.shared.clone());
        all.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.acquire(Wish::default()).await.expect("the lock");
                let read = shared.place.command(&["GET", &number]);
                let read: usize = read.as_str().map_or(0, |text| text.parse().expect("a number"));
                tokio::task::yield_now().await;
                shared.place.command(&["SET", &number, &(read + 1).to_string()]);
                guard.release().await.expect("a release");
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.expect("an actor that is done");
    }
    let counted = world.command(&["GET", &number_of(&world)]);
    assert_eq!(counted.as_str(), Some((2 * OF_EACH * ROUNDS).to_string().as_str()));
}

/// A JVM does not ask for a lock that lingers, and is not disturbed where another client does.
async fn jvm_waits_for_what_lingers(world: World) {
    let (jvm, object) = (world.actor("jvm"), world.object(Kind::Lock));
    let (lock, channel) = (world.rust.lock(&world.name).linger(SHORT), Kind::Lock.channel(&world.name));
    // The first hold begins the subscription, and does not linger.
    loop {
        let guard = lock.acquire().await.expect("the lock");
        let lingers = guard.holder_id().to_string().ends_with('~');
        guard.release().await.expect("a release");
        if lingers {
            break;
        }
    }
    let (got, took) = timed(jvm.yes("tryLock", &[&object, &NEVER.as_millis().to_string()])).await;
    assert!(got && took <= SHORT + SLACK, "{took:?}");
    jvm.tell("unlock", &[&object]).await;
    // The JVM listens, and is not woken, when another client asks for what it waits for.
    let guard = lock.acquire().await.expect("the lock");
    world.until_listening(&channel, 1).await;
    let waits = jvm.begin("tryLock", &[&object, &NEVER.as_millis().to_string()]).await;
    world.until_listening(&channel, 2).await;
    let asks = world.client(settings()).await;
    assert!(asks.lock(&world.name).try_acquire().await.expect("an answer").is_none(), "it asks");
    world.until_listening(&channel, 1).await;
    guard.release().await.expect("a release");
    let got = waits.await.expect("an answer").expect("no exception");
    assert_eq!(got.value, "true", "the release woke it");
    jvm.tell("unlock", &[&object]).await;
    assert_eq!(world.holder(), None);
}
