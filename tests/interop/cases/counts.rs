//! Hold counts of re-entered locks, as the other side sees them.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, World};

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
        let holder = lock.inspect().await.expect("an answer").expect("a holder");
        assert_eq!((&holder.id, holder.hold_count), (&id, count));
        let left = holder.remaining.expect("a lease");
        assert!(left <= LEASE && left > LEASE / 2, "{left:?}");
    }
    for count in [2, 1] {
        jvm.tell("unlock", &[&object]).await;
        let holder = lock.inspect().await.expect("an answer").expect("a holder");
        assert_eq!((&holder.id, holder.hold_count), (&id, count));
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds it {count} times more");
    }
    jvm.tell("unlock", &[&object]).await;
    assert!(lock.inspect().await.expect("an answer").is_none());
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
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
        assert!(fields.ends_with(&format!("={count}}}")), "{fields}");
        assert_eq!(jvm.ask("holdCount", &[&object]).await, "0", "this thread does not hold it");
    }
    while let Some(guard) = guards.pop() {
        assert!(!jvm.yes("tryLock", &[&object]).await, "Rust holds it {} times more", guards.len() + 1);
        guard.release().await.expect("a release");
        let fields = jvm.ask("fields", &[&key]).await;
        let expected = if guards.is_empty() { "{}".to_owned() } else { format!("={}}}", guards.len()) };
        assert!(fields.ends_with(&expected), "{fields}");
    }
    assert!(jvm.yes("tryLock", &[&object]).await, "it is free");
    jvm.tell("unlock", &[&object]).await;
}
