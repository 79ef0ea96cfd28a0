//! Leases of either side, as the other sees them and as they end.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{SLACK, World, clock, timed};
use leasehold::LossReason;
use std::time::Duration;

/// A fixed lease that ends by itself.
const FIXED: Duration = Duration::from_millis(1200);

/// A fixed lease that is looked at.
const LONG: Duration = Duration::from_secs(20);

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for kind in Kind::ALL {
            cases.add_with(place, format!("{kind}: each side reads the lease of the other"), kind, both_read);
            cases.add_with(place, format!("{kind}: Rust gets in when a fixed lease of a JVM ends"), kind, jvm_ends);
            cases.add_with(place, format!("{kind}: a JVM gets in when a fixed lease of Rust ends"), kind, rust_ends);
        }
    }
}

async fn both_read(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    jvm.tell("lock", &[&object, &LONG.as_millis().to_string()]).await;
    let left = if Kind::PLAIN.contains(&kind) {
        kind.inspect(&world.rust, &world.name).await.expect("a holder").remaining.expect("a lease")
    } else {
        world.left(&world.name)
    };
    assert!(left <= LONG && left > LONG - SLACK, "{left:?}");
    jvm.tell("unlock", &[&object]).await;
    assert_eq!(jvm.ask("remaining", &[&object]).await, "-2", "nobody holds it");
    let guard = lock.acquire(Wish { lease: Some(LONG), ..Wish::default() }).await.expect("the lock");
    let left: u64 = jvm.ask("remaining", &[&object]).await.parse().expect("milliseconds");
    let left = Duration::from_millis(left);
    assert!(left <= LONG && left > LONG - SLACK, "{left:?}");
    guard.release().await.expect("a release");
}

async fn jvm_ends(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let locked = jvm.tell("lock", &[&object, &FIXED.as_millis().to_string()]).await;
    let guard = lock.acquire(Wish::default()).await.expect("the lock");
    let waited = Duration::from_micros(clock().saturating_sub(locked.began));
    assert!((FIXED..FIXED + SLACK).contains(&waited), "{waited:?}");
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    assert!(guard.is_held());
    guard.release().await.expect("a release");
}

async fn rust_ends(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let guard = lock.acquire(Wish { lease: Some(FIXED), ..Wish::default() }).await.expect("the lock");
    let (_, waited) = timed(jvm.tell("lock", &[&object])).await;
    assert!(waited > FIXED / 2 && waited < FIXED + SLACK, "{waited:?}");
    assert_eq!(guard.lost().await, LossReason::LeaseExpired);
    guard.release().await.expect_err("a lock that was lost");
    assert!(jvm.yes("isHeld", &[&object]).await);
    jvm.tell("unlock", &[&object]).await;
}
