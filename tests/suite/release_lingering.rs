//! Locks that linger after their release: the next acquire of the client costs nothing, and others get in as soon as they ask.

use crate::support::world::idle;
use crate::support::{NEVER, World, ms, secs, until};
use leasehold::{Client, Error, Lock};
use leasehold_test_support::Rounds;
use std::time::{Duration, Instant};

/// Longer than a test may take; as long as a lease that never ends allows.
const LONG: Duration = secs(200);

/// A client whose locks can linger for so long.
async fn client(world: &World) -> Client {
    world.client_with(|builder| builder.lease(NEVER)).await
}

/// A lock of a client that lingers. The client has had it, and hears who wants it.
async fn lingering(world: &World, client: &Client, name: &str) -> Lock {
    let lock = client.lock(name).linger(LONG);
    // A client that is held up beyond the confirmation of its subscription is told of it all the same.
    let guard = lock.acquire().await.expect("the lock");
    until("the holder listens", || world.subscribers(name) == 1).await;
    guard.release().await.expect("a release");
    lock
}

pub(crate) async fn next_acquire_of_the_client_costs_no_command(world: World) {
    let world = world.own();
    world.warm();
    let client = client(&world).await;
    let name = world.name("lingers");
    let lock = lingering(&world, &client, &name).await;
    let before = world.calls();
    let [(holder, 1)] = &world.holds(&name)[..] else { panic!("it is on the server") };
    for round in 0..100 {
        let guard = if round % 2 == 0 {
            lock.acquire().await.expect("the lock")
        } else {
            lock.try_acquire().await.expect("an answer").expect("the lock")
        };
        assert_eq!(guard.holder_id().to_string(), *holder);
        assert!(guard.is_held() && guard.hold_count() == 1);
        if round % 3 == 0 { drop(guard) } else { guard.release().await.expect("a release") }
    }
    assert_eq!(world.calls(), before, "the server is not asked");
    client.shutdown(secs(5)).await.expect("all is released");
    world.gone(&name).await;
}

pub(crate) async fn lock_that_lingers_is_released_when_its_time_is_over(world: World) {
    let client = world.client().await;
    let name = world.name("lingers");
    let mut rounds = Rounds::default();
    loop {
        let begun = Instant::now();
        let guard = client.lock(&name).linger(ms(200)).acquire().await.expect("the lock");
        guard.release().await.expect("a release");
        let lingers = world.count(&name) == 1;
        world.gone(&name).await;
        idle(&client).await;
        // A machine that stands still for that long has seen nothing of it.
        if rounds.end_with(lingers && begun.elapsed() >= ms(200), begun.elapsed()) {
            break;
        }
    }
}

pub(crate) async fn another_client_gets_a_lingering_lock_at_once(world: World) {
    let (client, other) = (client(&world).await, client(&world).await);
    for lingers in [false, true] {
        // The clients remember for a while that a lock was wanted.
        let name = world.name("lingers");
        let lock = lingering(&world, &client, &name).await;
        let others = if lingers { other.lock(&name).linger(LONG) } else { other.lock(&name) };
        let guard = others.acquire().wait(secs(30)).await.expect("the lock, because it was asked for");
        assert!(guard.is_held() && lock.try_acquire().await.expect("an answer").is_none());
        guard.release().await.expect("a release");
        world.gone(&name).await;
        idle(&client).await;
    }
}

pub(crate) async fn guard_of_a_lock_that_is_wanted_is_released_for_good(world: World) {
    let (client, other) = (client(&world).await, client(&world).await);
    let name = world.name("lingers");
    let lock = client.lock(&name).linger(LONG);
    let guard = lock.acquire().await.expect("the lock");
    until("the holder listens", || world.subscribers(&name) == 1).await;
    let waits = tokio::spawn(other.lock(&name).acquire().wait(secs(30)).into_future());
    until("only the waiter listens", || client.stats().subscriptions == 0).await;
    guard.release().await.expect("a release");
    let guard = waits.await.expect("a task").expect("the lock");
    guard.release().await.expect("a release");
    world.gone(&name).await;
    idle(&client).await;
}

pub(crate) async fn force_release_and_the_end_of_the_client_end_lingering(world: World) {
    let (client, other) = (client(&world).await, client(&world).await);
    let name = world.name("lingers");
    let lock = lingering(&world, &client, &name).await;
    let holder = other.lock(&name).force_release().await.expect("an answer").expect("a holder");
    assert!(holder.id.to_string().ends_with('~'), "{holder:?}");
    until("the client has heard of it", || client.stats().cleaning_up == 0).await;
    let guard = lock.acquire().await.expect("the lock");
    assert_ne!(guard.holder_id(), holder.id, "it was asked for anew");
    guard.release().await.expect("a release");
    world.gone(&name).await;
    drop(lock);
    let name = world.name("lingers");
    drop(lingering(&world, &client, &name).await);
    // The end of the last handle is the end of it, too.
    assert_eq!(world.count(&name), 1);
    drop(client);
    world.gone(&name).await;
}

pub(crate) async fn longest_lingering_is_a_third_of_the_lease(world: World) {
    let client = world.client_with(|builder| builder.lease(secs(3))).await;
    let name = world.name("lingers");
    for wrong in [Duration::ZERO, ms(1_001), Duration::MAX] {
        let refused = client.lock(&name).linger(wrong).acquire().await.expect_err("it cannot linger so long");
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
    }
    drop(client.lock(&name).linger(ms(1_000)).acquire().await.expect("the lock"));
    world.gone(&name).await;
    idle(&client).await;
}
