//! Several locks at once, all or nothing, by both sides.

use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{NEVER, SLACK, World, clock, pass};
use leasehold::{Error, MultiLock};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(400);

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(place, "multi: each side keeps the other out of every member", exclude);
        cases.add(place, "multi: one member that the other side holds keeps the others free", one_is_busy);
        cases.add(place, "multi: each side gets in when the other leaves", wait);
    }
}

/// Three locks of different kinds, on our side and as the agent names them: each one, and all.
fn members(world: &World) -> (MultiLock, [String; 3], String) {
    let names = ["a", "b", "c"].map(|part| format!("{}-{part}", world.name));
    let rust: [leasehold::AnyLock; 3] = [
        world.rust.lock(&names[0]).into(),
        world.rust.fenced_lock(&names[1]).into(),
        world.rust.read_write_lock(&names[2]).write().into(),
    ];
    let objects = [format!("lock:{}", names[0]), format!("fenced:{}", names[1]), format!("write:{}", names[2])];
    let all = format!("multi:{}", objects.join("|"));
    (world.rust.multi_lock(rust), objects, all)
}

async fn exclude(world: World) {
    let (lock, objects, all) = members(&world);
    let jvm = world.actor("jvm");
    let guard = lock.acquire().await.expect("the locks");
    assert!(!jvm.yes("tryLock", &[&all]).await, "Rust holds them");
    for object in &objects {
        assert!(jvm.yes("isLocked", &[object]).await, "{object}");
        assert!(!jvm.yes("tryLock", &[object]).await, "{object}");
    }
    guard.release().await.expect("a release");
    assert!(jvm.yes("tryLock", &[&all]).await, "they are free");
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds them");
    let first = world.rust.lock(format!("{}-a", world.name));
    assert!(first.try_acquire().await.expect("an answer").is_none(), "the JVM holds it");
    jvm.tell("unlock", &[&all]).await;
    let guard = lock.try_acquire().await.expect("an answer").expect("locks that are free");
    guard.release().await.expect("a release");
}

async fn one_is_busy(world: World) {
    let (lock, objects, all) = members(&world);
    let (jvm, other) = (world.actor("jvm"), world.actor("other"));
    for busy in &objects {
        jvm.tell("lock", &[busy]).await;
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "a JVM holds {busy}");
        let waited = lock.acquire().wait(SHORT).await;
        assert!(matches!(waited, Err(Error::WaitElapsed { .. })), "a JVM holds {busy}");
        for free in objects.iter().filter(|object| *object != busy) {
            assert!(other.yes("tryLock", &[free]).await, "{free} is free");
            other.tell("unlock", &[free]).await;
        }
        jvm.tell("unlock", &[busy]).await;
    }
    let middle = world.rust.fenced_lock(format!("{}-b", world.name)).acquire().await.expect("the lock");
    assert!(!jvm.yes("tryLock", &[&all, &SHORT.as_millis().to_string()]).await, "Rust holds one");
    let first = world.rust.lock(format!("{}-a", world.name)).try_acquire().await.expect("an answer");
    first.expect("a lock that is free").release().await.expect("a release");
    middle.release().await.expect("a release");
}

async fn wait(world: World) {
    let (lock, _, all) = members(&world);
    let jvm = world.actor("jvm");
    assert!(jvm.yes("tryLock", &[&all, "10000", &NEVER.as_millis().to_string()]).await);
    let acquire = lock.acquire().wait(NEVER);
    let waiting = tokio::spawn(async move { acquire.await });
    pass(SHORT).await;
    assert!(!waiting.is_finished(), "the JVM holds them");
    let unlocked = clock();
    jvm.tell("unlock", &[&all]).await;
    let guard = waiting.await.expect("a task").expect("the locks");
    let waited = Duration::from_micros(clock().saturating_sub(unlocked));
    assert!(waited <= SLACK, "{waited:?}");
    let waiting = jvm.begin("tryLock", &[&all, &NEVER.as_millis().to_string()]).await;
    pass(SHORT).await;
    assert!(!waiting.is_finished(), "Rust holds them");
    guard.release().await.expect("a release");
    assert_eq!(waiting.await.expect("an answer").expect("no exception").value, "true");
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds them");
    jvm.tell("unlock", &[&all]).await;
}
