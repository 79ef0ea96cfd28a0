//! A side that is killed (SIGKILL) frees the other within its lease, and stands in no other's way as a waiter.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, NEVER, SLACK, World, clock};
use std::time::Duration;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for kind in Kind::ALL {
            cases.add_with(
                place,
                format!("{kind}: a JVM that was killed lets Rust in within its lease"),
                kind,
                jvm_dies,
            );
            cases.add_with(
                place,
                format!("{kind}: Rust that was killed lets a JVM in within its lease"),
                kind,
                rust_dies,
            );
        }
        for kind in [Kind::Lock, Kind::Fenced, Kind::Write] {
            let name = format!("{kind}: waiters of both sides that were killed hold nobody up");
            cases.add_with(place, name, kind, waiters_die);
        }
    }
}

async fn jvm_dies(world: World, kind: Kind) {
    let lock = world.lock(kind);
    let (jvm, actor) = world.mortal().await;
    actor.tell("lock", &[&world.object(kind)]).await;
    let waiting = tokio::spawn(lock.acquire(Wish::default()));
    world.until_waiting(kind, 1).await;
    let left = world.left(&world.name);
    jvm.kill();
    let killed = clock();
    let guard = waiting.await.expect("a task").expect("the lock");
    judge(&world, killed, clock(), left);
    guard.release().await.expect("a release");
}

async fn rust_dies(world: World, kind: Kind) {
    let (actor, object) = (world.actor("jvm"), world.object(kind));
    let mut child = world.child().await;
    child.acquire(kind, &world.name).await;
    let waiting = actor.begin("lock", &[&object]).await;
    world.until_waiting(kind, 1).await;
    let left = world.left(&world.name);
    child.kill();
    let killed = clock();
    let got = waiting.await.expect("an answer").expect("no exception");
    judge(&world, killed, got.ended, left);
    actor.tell("unlock", &[&object]).await;
}

/// The other got in within a lease, and not before the lease that was left.
fn judge(world: &World, killed: u64, got: u64, left: Duration) {
    let waited = Duration::from_micros(got.saturating_sub(killed));
    world.note(format!("in after {waited:.1?}, of which {left:.1?} were left"));
    assert!(waited <= LEASE + SLACK, "{waited:?}");
    // The last look at the lease was a moment before.
    assert!(waited + Duration::from_millis(100) >= left, "{waited:?}, and {left:?} were left");
}

async fn waiters_die(world: World, kind: Kind) {
    let (lock, object) = (world.lock(kind), world.object(kind));
    let channel = kind.channel(&world.name);
    let guard = lock.acquire(Wish { lease: Some(NEVER), ..Wish::default() }).await.expect("the lock");
    let (jvm, doomed) = world.mortal().await;
    let dying = doomed.begin("lock", &[&object]).await;
    world.until_listening(&channel, 1).await;
    let mut child = world.child().await;
    child.order("acquire", kind, &world.name).await;
    world.until_listening(&channel, 2).await;
    let living = world.actor("jvm");
    let waiting = living.begin("lock", &[&object]).await;
    world.until_listening(&channel, 3).await;
    jvm.kill();
    child.kill();
    assert!(dying.await.expect("an answer").is_err(), "nobody answers for the dead");
    // The server has seen the end of the dead ones' connections.
    world.until_listening(&channel, 1).await;
    let released = clock();
    guard.release().await.expect("a release");
    let got = waiting.await.expect("an answer").expect("no exception");
    let waited = Duration::from_micros(got.ended.saturating_sub(released));
    assert!(waited <= SLACK, "{waited:?}");
    living.tell("unlock", &[&object]).await;
    let guard = lock.acquire(Wish::default()).await.expect("the lock");
    guard.release().await.expect("a release");
}
