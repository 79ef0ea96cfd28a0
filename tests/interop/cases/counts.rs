//! Hold counts of re-entered locks, as the other side sees them.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, World};
use std::time::Duration;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for kind in Kind::ALL {
            cases.add_with(place, format!("{kind}: Rust sees how often a JVM holds it"), kind, rust_sees_jvm);
            cases.add_with(place, format!("{kind}: a JVM sees how often Rust holds it"), kind, jvm_sees_rust);
        }
    }
}

async fn rust_sees_jvm(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let id = world.holder_id(&jvm).await;
    for count in [1, 2, 3] {
        jvm.tell("lock", &[&object]).await;
        let left = seen(&world, kind, &id, count).await;
        // Redisson adds up the leases of a write lock.
        let most = if kind == Kind::Write { LEASE * count } else { LEASE };
        assert!(left <= most && left > LEASE / 4, "{left:?}");
    }
    for count in [2, 1] {
        jvm.tell("unlock", &[&object]).await;
        seen(&world, kind, &id, count).await;
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds it {count} times more");
    }
    jvm.tell("unlock", &[&object]).await;
    assert_eq!(world.holder(), None);
    let guard = lock.try_acquire().await.expect("an answer").expect("a lock that is free");
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    guard.release().await.expect("a release");
}

/// This is who holds it, and so often; what is left of the lease.
async fn seen(world: &World, kind: Kind, id: &str, count: u32) -> Duration {
    assert_eq!(world.holder(), Some((id.to_owned(), count.to_string())));
    if Kind::PLAIN.contains(&kind) {
        let holder = kind.inspect(&world.rust, &world.name).await.expect("a holder");
        assert_eq!((holder.id.as_str(), holder.hold_count), (id, count));
        return holder.remaining.expect("a lease");
    }
    world.left(&world.name)
}

async fn jvm_sees_rust(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let key = format!("key:{}", world.name);
    let owner = world.rust.new_owner();
    let mut guards = Vec::new();
    for count in [1, 2, 3] {
        let wish = Wish { owner: Some(owner.clone()), ..Wish::default() };
        guards.push(lock.acquire(wish).await.expect("the lock"));
        let fields = jvm.ask("fields", &[&key]).await;
        assert!(fields.starts_with(&format!("{{{}:", world.rust.id())), "{fields}");
        assert!(fields.contains(&format!("={count}")), "{fields}");
        assert_eq!(jvm.ask("holdCount", &[&object]).await, "0", "this thread does not hold it");
    }
    while let Some(guard) = guards.pop() {
        assert!(!jvm.yes("tryLock", &[&object]).await, "Rust holds it {} times more", guards.len() + 1);
        guard.release().await.expect("a release");
        let fields = jvm.ask("fields", &[&key]).await;
        let expected = if guards.is_empty() { "{}".to_owned() } else { format!("={}", guards.len()) };
        assert!(fields.contains(&expected), "{fields}");
    }
    assert!(jvm.yes("tryLock", &[&object]).await, "it is free");
    jvm.tell("unlock", &[&object]).await;
}
