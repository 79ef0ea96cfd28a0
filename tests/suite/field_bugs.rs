//! Bugs that users of other lock libraries met, each named by its id in `docs/field-bugs.md`. L1, L2, L3 and L11 are in
//! `unknown_outcome.rs` and `outage.rs`, beside what else can be lost there.

use crate::support::world::idle;
use crate::support::{Engine, World, ms, secs, until};
use leasehold::{Error, InvalidInput};
use std::time::Duration;

/// A lock that is acquired and released while its renewals are all but continuous.
pub(crate) async fn l5_a_renewal_never_outlives_its_release(world: World) {
    let world = world.own();
    let rounds = match world.engine {
        Engine::Embedded => 10_000,
        Engine::Slow => 100,
        Engine::Cluster => 300,
        _ => 1_500,
    };
    let client = world.client_with(|builder| builder.lease(leasehold::MIN_LEASE)).await;
    let lock = client.lock(world.name("renewed"));
    let mut released = 0;
    while released < rounds {
        let guard = lock.acquire().await.unwrap_or_else(|error| panic!("{error}"));
        if released % 50 == 0 {
            // Long enough for a renewal to be on its way.
            tokio::time::sleep(ms(18)).await;
        }
        match guard.release().await {
            Ok(()) => released += 1,
            // A busy machine loses so short a lease now and then, and the guard says so.
            Err(Error::Lost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    idle(&client).await;
    until("no key is left", || world.keys().is_empty()).await;
    tokio::time::sleep(ms(60)).await;
    assert!(world.keys().is_empty(), "no renewal brings a key back");
    assert_eq!(client.stats(), leasehold::ClientStats::default());
}

pub(crate) async fn l7_a_renewal_does_not_bring_a_lock_back(world: World) {
    let client = world.client_with(|builder| builder.lease(ms(600))).await;
    let lock = client.lock(world.name("gone"));
    let guard = lock.acquire().await.expect("the lock");
    world.delete(lock.name());
    guard.lost().await;
    assert!(!world.exists(lock.name()));
    // Another holder has it meanwhile: the renewal does not touch that hold either.
    let _ = world.command(lock.name(), &["HSET", lock.name(), "somebody:1", "1"]);
    let _ = world.command(lock.name(), &["PEXPIRE", lock.name(), "30000"]);
    drop(guard);
    idle(&client).await;
    assert_eq!(world.holds(lock.name()), [("somebody:1".to_owned(), 1)]);
    world.delete(lock.name());
}

/// `PEXPIRE key 0` deletes the key: no lease may ever be rounded down to that.
pub(crate) async fn l8_a_lease_of_nothing_is_refused(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("nothing"));
    for lease in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
        let error = lock.acquire().lease(lease).await.expect_err("a lease of nothing");
        assert!(matches!(error, Error::Invalid(InvalidInput::Duration { .. })), "{error}");
    }
    assert!(!world.exists(lock.name()));
    // A hold that is to end within its lease keeps a lease above zero to the end.
    let guard = lock.acquire().max_hold(ms(80)).lease(ms(90)).await.expect("the lock");
    let again = guard.reenter().await;
    drop(again);
    drop(guard);
    world.gone(lock.name()).await;
}

pub(crate) async fn l9_the_longest_durations_do_not_overflow(world: World) {
    let client = world.client_with(|builder| builder.lease(leasehold::MAX_LEASE).default_wait(Duration::MAX)).await;
    let lock = client.lock(world.name("long"));
    let guard = lock.acquire().max_hold(leasehold::MAX_LEASE).wait(Duration::MAX).await.expect("the lock");
    assert!(guard.is_held());
    let left = world.lease(lock.name()).expect("a lease");
    assert!(left > leasehold::MAX_LEASE - secs(60) && left <= leasehold::MAX_LEASE, "{left:?}");
    let again = guard.reenter().await.expect("a re-entry");
    again.release().await.expect("a release");
    guard.release().await.expect("a release");
    let error = lock.acquire().lease(Duration::MAX).await.expect_err("a lease beyond the longest");
    assert!(matches!(error, Error::Invalid(InvalidInput::Duration { .. })), "{error}");
    idle(&client).await;
}

/// A guard can be released once, by its type. The server's side of a second release is a copy that finds another hold.
pub(crate) async fn l10_a_second_release_does_not_touch_the_next_owner(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("twice");
    let guard = client.lock(&name).acquire().await.expect("the lock");
    world.delete(&name);
    let next = other.lock(&name).acquire().await.expect("the lock");
    let error = guard.release().await.expect_err("a lost hold");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert_eq!(world.count(&name), 1);
    assert!(next.is_held());
    next.release().await.expect("a release");
    world.gone(&name).await;
}

pub(crate) async fn rw6_a_short_reentry_does_not_shorten_the_lease(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("shrink"));
    let outer = lock.acquire().lease(secs(20)).await.expect("the lock");
    let remaining = outer.remaining();
    let owner = client.new_owner();
    let inner = outer.reenter().await.expect("a re-entry");
    inner.release().await.expect("a release");
    assert!(outer.remaining() + secs(10) > remaining);
    assert!(world.lease(lock.name()).expect("a lease") > secs(10));
    outer.release().await.expect("a release");

    let outer = lock.acquire().owner(&owner).lease(secs(20)).await.expect("the lock");
    let inner = lock.acquire().owner(&owner).lease(ms(60)).await.expect("a re-entry");
    assert!(world.lease(lock.name()).expect("a lease") > secs(10), "the later deadline wins");
    assert!(world.lease(lock.name()).expect("a lease") <= secs(20), "and leases do not add up");
    tokio::time::sleep(ms(120)).await;
    assert!(outer.is_held() && inner.is_held());
    inner.release().await.expect("a release");
    assert!(world.lease(lock.name()).expect("a lease") > secs(10), "a release leaves the lease alone");
    outer.release().await.expect("a release");
    world.gone(lock.name()).await;
}

pub(crate) async fn rw14_names_of_every_sort(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let names =
        ["a:b:c", "{tag}:rest", "before{tag}after", "Lager/Größe 7 ♞", "blanks  within ", "*?[a-z]", "quote\"'\\"];
    for name in names {
        let name = format!("{name}{}", world.name("sort"));
        let guard = client.lock(&name).acquire().await.expect("the lock");
        assert_eq!((guard.lock().name(), world.count(&name)), (name.as_str(), 1));
        let waiting = tokio::spawn({
            let lock = other.lock(&name);
            async move { lock.acquire().await }
        });
        until("the waiter listens", || world.subscribers(&name) == 1).await;
        guard.release().await.expect("a release");
        waiting.await.expect("a task").expect("the lock").release().await.expect("a release");
        world.gone(&name).await;
    }
}
