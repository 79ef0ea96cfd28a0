//! Locks that linger after their release: the next acquire of the client costs nothing, and others get in as soon as they ask.

use crate::support::world::idle;
use crate::support::{NEVER, World, ms, secs, until};
use leasehold::embedded::{EmbeddedServer, ServerClock};
use leasehold::{Client, Error, Guard, Lock};
use leasehold_test_support::Rounds;
use std::time::{Duration, Instant};

/// Longer than a test may take; as long as a lease that never ends allows.
const LONG: Duration = secs(200);

/// A client whose locks can linger for so long.
async fn client(world: &World) -> Client {
    world.client_with(|builder| builder.lease(NEVER)).await
}

/// A guard of a hold that may linger. The first hold of a lock begins the subscription that this needs.
async fn marked(lock: &Lock) -> Guard {
    loop {
        let guard = lock.acquire().await.expect("the lock");
        if guard.holder_id().to_string().ends_with('~') {
            return guard;
        }
        guard.release().await.expect("a release");
    }
}

/// A lock of a client that lingers. The client has had it, and hears who wants it.
async fn lingering(client: &Client, name: &str) -> Lock {
    let lock = client.lock(name).linger(LONG);
    marked(&lock).await.release().await.expect("a release");
    lock
}

pub(crate) async fn next_acquire_of_the_client_costs_no_command(world: World) {
    let world = world.own();
    world.warm();
    let client = client(&world).await;
    let name = world.name("lingers");
    let lock = lingering(&client, &name).await;
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
        let guard = marked(&client.lock(&name).linger(ms(200))).await;
        let begun = Instant::now();
        guard.release().await.expect("a release");
        let lingers = world.count(&name) == 1;
        until("it is released", || !world.exists(&name)).await;
        let took = begun.elapsed();
        // A machine that stands still for that long has seen nothing of it.
        if rounds.end_with(lingers && took >= ms(200), took) {
            break;
        }
    }
}

pub(crate) async fn another_client_gets_a_lingering_lock_at_once(world: World) {
    let (client, other) = (client(&world).await, client(&world).await);
    for lingers in [false, true] {
        // The clients remember for a while that a lock was wanted.
        let name = world.name("lingers");
        let lock = lingering(&client, &name).await;
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
    let guard = marked(&client.lock(&name).linger(LONG)).await;
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
    let lock = lingering(&client, &name).await;
    let holder = other.lock(&name).force_release().await.expect("an answer").expect("a holder");
    assert!(holder.id.to_string().ends_with('~'), "{holder:?}");
    until("the client has heard of it", || client.stats().cleaning_up == 0).await;
    let guard = lock.acquire().await.expect("the lock");
    assert_ne!(guard.holder_id(), holder.id, "it was asked for anew");
    guard.release().await.expect("a release");
    world.gone(&name).await;
    drop(lock);
    let name = world.name("lingers");
    drop(lingering(&client, &name).await);
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

pub(crate) async fn own_attempts_do_not_end_lingering(world: World) {
    let world = world.own();
    world.warm();
    let client = client(&world).await;
    let name = world.name("lingers");
    let lock = lingering(&client, &name).await;
    // It is busy for itself: its own task has it, and another asks without a wait.
    let guard = lock.acquire().await.expect("the lock");
    assert!(lock.try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a release");
    let before = world.calls();
    lock.acquire().await.expect("the lock").release().await.expect("a release");
    assert_eq!(world.calls(), before, "it lingers on");
}

pub(crate) async fn released_lock_that_lingers_is_not_busy_for_its_own_client(world: World) {
    let client = client(&world).await;
    for round in 0..20 {
        let lock = lingering(&client, &world.name("lingers")).await;
        let other = lock.acquire().lease(secs(60));
        let guard = if round % 2 == 0 { other.wait(ms(0)).await } else { other.wait(secs(60)).await };
        guard.expect("nobody else wants it").release().await.expect("a release");
    }
}

/// A client takes a lock that lingers again and again, and another one waits for it from time to time.
pub(crate) fn another_client_gets_in_within_a_second_behind_a_slow_network() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        for (round_trip, linger) in [(0, 50), (20, 1_000), (100, 50), (100, 1_000)] {
            let zero = tokio::time::Instant::now();
            let server = EmbeddedServer::with_clock(ServerClock::tokio(zero));
            server.set_round_trip(ms(round_trip));
            let [busy, other] =
                [(); 2].map(|()| Client::builder().tokio_clock(zero).embedded(&server).expect("a client"));
            let lock = busy.lock("busy").linger(ms(linger));
            let works = tokio::spawn(async move {
                let mut pause = 0;
                loop {
                    let guard = lock.acquire().await.expect("the lock");
                    tokio::time::sleep(ms(1)).await;
                    guard.release().await.expect("a release");
                    pause = (pause + 1) % 4;
                    tokio::time::sleep(ms(pause)).await;
                }
            });
            let lock = other.lock("busy");
            for wait in 0..12 {
                // Whatever the busy client is about.
                tokio::time::sleep(ms(700 + wait * 37)).await;
                let begun = tokio::time::Instant::now();
                let guard = lock.acquire().await.expect("the lock");
                let took = begun.elapsed();
                assert!(took <= secs(1), "wait {wait} took {took:?} at {round_trip} ms, linger {linger} ms");
                guard.release().await.expect("a release");
            }
            works.abort();
        }
    });
}
