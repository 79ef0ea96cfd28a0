//! Fencing tokens of both sides.

use crate::kind::Kind;
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::World;

const ROUNDS: usize = 10;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(place, "fenced: tokens grow strictly over both sides", tokens_grow);
        cases.add(place, "fenced: both sides read the token that the other got", tokens_are_read);
        cases.add(
            place,
            "fenced: tokens of a fair lock grow over what a JVM's fair lock does in between",
            fair_tokens_grow,
        );
    }
}

async fn tokens_grow(world: World) {
    let (jvm, lock, object) =
        (world.actor("jvm"), world.rust.fenced_lock(&world.name), format!("fenced:{}", world.name));
    let mut last = 0;
    let mut grown = |token: u64, whose: &str| {
        assert!(token > last, "{whose} got {token} after {last}");
        last = token;
    };
    for _ in 0..ROUNDS {
        grown(jvm.ask("lockAndGetToken", &[&object]).await.parse().expect("a token"), "the JVM");
        jvm.tell("unlock", &[&object]).await;
        let guard = lock.acquire().await.expect("the lock");
        grown(guard.fencing_token().as_u64(), "Rust");
        guard.release().await.expect("a release");
        // An acquire that does not ask for its token takes one all the same.
        jvm.tell("lock", &[&object]).await;
        grown(jvm.ask("getToken", &[&object]).await.parse().expect("a token"), "the JVM");
        jvm.tell("unlock", &[&object]).await;
    }
}

async fn tokens_are_read(world: World) {
    let (jvm, lock, object) =
        (world.actor("jvm"), world.rust.fenced_lock(&world.name), format!("fenced:{}", world.name));
    let guard = lock.acquire().await.expect("the lock");
    let token = guard.fencing_token();
    assert_eq!(jvm.ask("getToken", &[&object]).await, token.to_string());
    // A wait that is shorter than the JVM's subscription ends in an exception, so it is not too short for a busy machine.
    assert_eq!(jvm.ask("tryLockAndGetToken", &[&object, "2500"]).await, "null", "Rust holds it");
    assert_eq!(guard.fencing_token(), token);
    guard.release().await.expect("a release");
    let next: u64 = jvm.ask("lockAndGetToken", &[&object]).await.parse().expect("a token");
    assert!(next > token.as_u64(), "{next} after {token}");
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds it");
    jvm.tell("unlock", &[&object]).await;
}

/// The JVM has a fair lock without tokens: it takes turns with ours, and reads the tokens as a fenced lock.
async fn fair_tokens_grow(world: World) {
    let (jvm, lock) = (world.actor("jvm"), world.rust.fair_lock(&world.name).fenced());
    let (fair, fenced) = (format!("fair:{}", world.name), format!("fenced:{}", world.name));
    let mut last = 0;
    for _ in 0..ROUNDS {
        jvm.tell("lock", &[&fair]).await;
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "the JVM holds it");
        let acquire = lock.acquire();
        let waiting = tokio::spawn(async move { acquire.await });
        world.until_waiting(Kind::Fair, 1).await;
        jvm.tell("unlock", &[&fair]).await;
        let guard = waiting.await.expect("a task").expect("the lock");
        let token = guard.fencing_token().as_u64();
        assert!(token > last, "{token} after {last}");
        last = token;
        assert!(!jvm.yes("tryLock", &[&fair]).await, "Rust holds it");
        assert_eq!(jvm.ask("getToken", &[&fenced]).await, last.to_string());
        guard.release().await.expect("a release");
    }
}
