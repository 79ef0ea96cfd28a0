//! A holder that renews keeps the other side out, for as long as it lives.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, World, pass, settings};
use leasehold::Error;
use std::time::{Duration, Instant};

/// How long the other side is kept out.
const LEASES: u32 = 3;

/// Between two attempts.
const STEP: Duration = Duration::from_millis(200);

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for kind in Kind::ALL {
            cases.add_with(place, format!("{kind}: a JVM's watchdog keeps Rust out for 3 leases"), kind, jvm_renews);
            cases.add_with(place, format!("{kind}: Rust's watchdog keeps a JVM out for 3 leases"), kind, rust_renews);
        }
    }
}

async fn jvm_renews(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    // A client of its own: one that waits would keep the tries of the other from the server.
    let other = world.client(settings()).await;
    jvm.tell("lock", &[&object]).await;
    let end = Instant::now() + LEASE * LEASES;
    let waiting = kind.of(&other, &world.name).acquire(Wish { wait: Some(LEASE * LEASES), ..Wish::default() });
    let waiting = tokio::spawn(waiting);
    while Instant::now() < end {
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM renews it");
        pass(STEP).await;
    }
    let waited = waiting.await.expect("a task");
    assert!(matches!(waited, Err(Error::WaitElapsed { .. })), "the JVM renews it");
    assert!(jvm.yes("isHeld", &[&object]).await);
    jvm.tell("unlock", &[&object]).await;
    let guard = lock.acquire(Wish::default()).await.expect("the lock");
    guard.release().await.expect("a release");
}

async fn rust_renews(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let guard = lock.acquire(Wish::default()).await.expect("the lock");
    let end = Instant::now() + LEASE * LEASES;
    let patience = (LEASE * LEASES).as_millis().to_string();
    let waiting = world.actor("waiter").begin("tryLock", &[&object, &patience]).await;
    while Instant::now() < end {
        assert!(!jvm.yes("tryLock", &[&object]).await, "Rust renews it");
        pass(STEP).await;
    }
    assert_eq!(waiting.await.expect("an answer").expect("no exception").value, "false", "Rust renews it");
    assert!(guard.is_held());
    guard.release().await.expect("a lock that was held throughout");
    assert!(jvm.yes("tryLock", &[&object]).await, "it is free");
    jvm.tell("unlock", &[&object]).await;
}
