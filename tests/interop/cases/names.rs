//! Names that the two sides must turn into the same keys and channels.

use crate::agent::Actor;
use crate::kind::{Kind, RustLock, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{NEVER, SLACK, World, settings, timed};

/// The text behind the name of a case. A cluster takes those whose braces are in order.
const ANYWHERE: [&str; 6] =
    [":é ü 名前 🔒", "{tag}:x", ":a{b}c", ":{a}{b}", " with spaces  in it", ":\"quotes\" and \\"];
const NOT_ON_A_CLUSTER: [&str; 4] = [":a{b", ":a}b", ":{}x", ":}x{"];

/// The prefix that a `NameMapper` puts in front of every name.
const PREFIX: &str = "shop:";

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for suffix in ANYWHERE {
            cases.add_with(place, format!("lock: the name \"…{suffix}\""), (Kind::Lock, suffix), by_name);
        }
        for kind in [Kind::Fair, Kind::Fenced, Kind::Write] {
            for suffix in ["{tag}:é", ":a{b}c"] {
                cases.add_with(place, format!("{kind}: the name \"…{suffix}\""), (kind, suffix), by_name);
            }
        }
        cases.add(place, "lock: names with a prefix, by a NameMapper", by_prefix);
    }
    for suffix in NOT_ON_A_CLUSTER {
        cases.add_with(PlaceName::Standalone, format!("lock: the name \"…{suffix}\""), (Kind::Lock, suffix), by_name);
    }
}

async fn by_name(world: World, (kind, suffix): (Kind, &'static str)) {
    let name = format!("{}{suffix}", world.name);
    let jvm = world.actor("jvm");
    let lock = kind.of(&world.rust, &name);
    let own = World { name: name.clone(), ..world };
    one_lock(&own, kind, &jvm, &*lock, &name).await;
}

async fn by_prefix(world: World) {
    let jvm = world.instance(&[&format!("prefix={PREFIX}")]).await;
    let client = world.client(settings().prefix(PREFIX)).await;
    let lock = Kind::Lock.of(&client, &world.name);
    let (name, raw) = (world.name.clone(), format!("{PREFIX}{}", world.name));
    one_lock(&World { name: raw, ..world }, Kind::Lock, &jvm, &*lock, &name).await;
}

/// Both sides mean the same keys and the same channels. The world has the name as the server has it.
async fn one_lock(world: &World, kind: Kind, jvm: &Actor, lock: &dyn RustLock, name: &str) {
    let object = kind.object(name);
    jvm.tell("lock", &[&object, &NEVER.as_millis().to_string()]).await;
    assert!(world.holder().is_some(), "the JVM's key");
    let waiting = tokio::spawn(lock.acquire(Wish { lease: Some(NEVER), ..Wish::default() }));
    world.until_waiting(kind, 1).await;
    jvm.tell("unlock", &[&object]).await;
    let (guard, waited) = timed(waiting).await;
    assert!(waited <= SLACK, "{waited:?}");
    assert_eq!(world.holder().expect("a holder").1, "1");
    let waiting = jvm.begin("lock", &[&object]).await;
    world.until_waiting(kind, 1).await;
    guard.expect("a task").expect("the lock").release().await.expect("a release");
    let (got, waited) = timed(waiting).await;
    got.expect("an answer").expect("no exception");
    assert!(waited <= SLACK, "{waited:?}");
    jvm.tell("unlock", &[&object]).await;
    assert_eq!(world.holder(), None);
}
