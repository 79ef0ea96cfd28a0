//! A hold that the other side ends by force.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, NEVER, SLACK, World, clock, settings, timed};
use leasehold::{Error, LossReason};
use std::time::Duration;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for kind in Kind::PLAIN {
            cases.add_with(place, format!("{kind}: Rust ends what a JVM holds by force"), kind, rust_forces);
        }
        for kind in Kind::ALL {
            cases.add_with(place, format!("{kind}: a JVM ends what Rust holds by force"), kind, jvm_forces);
        }
    }
}

async fn rust_forces(world: World, kind: Kind) {
    let (jvm, next, object) = (world.actor("jvm"), world.actor("next"), world.object(kind));
    jvm.tell("lock", &[&object, &NEVER.as_millis().to_string()]).await;
    let waiting = next.begin("lock", &[&object]).await;
    world.until_waiting(kind, 1).await;
    let forced = clock();
    let ended = kind.force(&world.rust, &world.name).await.expect("a hold that was ended");
    assert_eq!(ended.id, world.holder_id(&jvm).await);
    let got = waiting.await.expect("an answer").expect("no exception");
    let waited = Duration::from_micros(got.ended.saturating_sub(forced));
    assert!(waited <= SLACK, "{waited:?}");
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    next.tell("unlock", &[&object]).await;
    assert!(kind.force(&world.rust, &world.name).await.is_none(), "nobody holds it");
}

async fn jvm_forces(world: World, kind: Kind) {
    let (jvm, object) = (world.actor("jvm"), world.object(kind));
    let guard = world.lock(kind).acquire(Wish::default()).await.expect("the lock");
    let other = world.client(settings()).await;
    let waiting = tokio::spawn(kind.of(&other, &world.name).acquire(Wish::default()));
    world.until_waiting(kind, 1).await;
    assert!(jvm.yes("forceUnlock", &[&object]).await);
    let (next, waited) = timed(waiting).await;
    let next = next.expect("a task").expect("the lock");
    assert!(waited <= SLACK, "{waited:?}");
    let (reason, after) = timed(guard.lost()).await;
    assert_eq!(reason, LossReason::Removed);
    assert!(after <= LEASE, "it learns of it at its next renewal, not after {after:?}");
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    next.release().await.expect("a release");
    assert!(!jvm.yes("forceUnlock", &[&object]).await, "nobody holds it");
}
