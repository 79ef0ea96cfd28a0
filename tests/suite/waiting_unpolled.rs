//! Futures that are neither polled nor dropped delay the others by a tenth of a second at most. How long that is, only a clock that is moved by
//! hand can tell. On the machine's clock the others get in at all: the lease of a lock that is not passed on outlives the test.

use crate::support::{NEVER, Polled, World, ms, secs};
use futures_util::FutureExt as _;
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::{Client, Tuning};
use leasehold_test_support::Way;
use std::time::{Duration, Instant};

/// The promise.
const DELAY: Duration = ms(100);

/// A client that waits for the end of no lease and of no sleep.
async fn client(world: &World) -> Client {
    world.client_with(|builder| builder.lease(NEVER).tuning(Tuning::new().recheck(NEVER))).await
}

async fn forgets_its_first_attempt(world: World, same_client: bool) {
    let world = world.proxied();
    world.warm();
    let forgetful = client(&world).await;
    let other = if same_client { forgetful.clone() } else { client(&world).await };
    let name = world.name("forgotten");
    let mut forgotten = Polled::new(forgetful.lock(&name).acquire().into_future());
    // No reply arrives while the future is polled, however long that takes on a busy machine.
    match (&world.proxy, world.embedded()) {
        (Some(proxy), _) => {
            proxy.freeze(Way::ToClient);
            assert!(forgotten.poll().is_pending());
            proxy.thaw(Way::ToClient);
        }
        (None, Some(server)) => {
            server.set_round_trip(ms(200));
            assert!(forgotten.poll().is_pending());
            server.set_round_trip(Duration::ZERO);
        }
        (None, None) => unreachable!("a server is reached through a proxy"),
    }
    let guard = other.lock(&name).acquire().await.expect("the lock");
    guard.release().await.expect("a release");
    drop(forgotten);
    world.gone(&name).await;
}

pub(crate) async fn a_parked_acquire_does_not_stand_in_the_way_of_tries(world: World) {
    let (holder, client) = (world.client().await, world.client().await);
    let name = world.name("parked");
    let held = holder.lock(&name).acquire().await.expect("the lock");
    let mut parked = Polled::new(client.lock(&name).acquire().into_future());
    crate::support::until("it waits and listens", || {
        // Woken by the reply, it is polled on until it sleeps.
        (!parked.is_woken() || parked.poll().is_pending()) && client.stats().subscriptions == 1
    })
    .await;
    held.release().await.expect("a release");
    let lock = client.lock(&name);
    for _ in 0..20 {
        // The notice of a release may be on the way yet.
        let end = Instant::now() + secs(30);
        let guard = loop {
            if let Some(guard) = lock.try_acquire().await.expect("an answer") {
                break guard;
            }
            assert!(Instant::now() < end, "the lock is free");
            tokio::task::yield_now().await;
        };
        guard.release().await.expect("a release");
    }
}

pub(crate) async fn a_first_attempt_in_flight_same_client(world: World) {
    forgets_its_first_attempt(world, true).await;
}

pub(crate) async fn a_first_attempt_in_flight_another_client(world: World) {
    forgets_its_first_attempt(world, false).await;
}

async fn forgets_its_turn(world: World, same_client: bool) {
    let (holder, forgetful) = (client(&world).await, client(&world).await);
    let other = if same_client { forgetful.clone() } else { client(&world).await };
    let name = world.name("forgotten");
    let held = holder.lock(&name).acquire().await.expect("the lock");
    let mut forgotten = Polled::new(forgetful.lock(&name).acquire().into_future());
    while world.subscribers(&name) == 0 || forgotten.is_woken() {
        assert!(forgotten.poll().is_pending());
        tokio::time::sleep(ms(2)).await;
    }
    let waiting = tokio::spawn({
        let lock = other.lock(&name);
        async move { lock.acquire().await }
    });
    let listeners = if same_client { 1 } else { 2 };
    crate::support::until("the other waits too", || {
        world.subscribers(&name) == listeners && other.stats().requests >= 1 && other.stats().subscriptions == 1
    })
    .await;
    held.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("the lock");
    guard.release().await.expect("a release");
    drop(forgotten);
    world.gone(&name).await;
}

pub(crate) async fn a_place_in_the_line_same_client(world: World) {
    forgets_its_turn(world, true).await;
}

pub(crate) async fn a_place_in_the_line_another_client(world: World) {
    forgets_its_turn(world, false).await;
}

/// The same to the millisecond, on a clock that is moved by hand.
pub(crate) async fn the_delay_is_bounded_exactly(_: World) {
    for (same_client, waits) in [(true, false), (false, false), (true, true), (false, true)] {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let client = || Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
        let (holder, forgetful) = (client(), client());
        let other = if same_client { forgetful.clone() } else { client() };
        let held = waits.then(|| holder.lock("forgotten").acquire().into_future().now_or_never().expect("an answer"));
        server.set_round_trip(ms(2));
        let mut forgotten = Polled::new(forgetful.lock("forgotten").acquire().into_future());
        let mut waiting = Polled::new(other.lock("forgotten").acquire().into_future());
        assert!(forgotten.poll().is_pending());
        for _ in 0..10 {
            if waits {
                assert!(forgotten.poll().is_pending() && waiting.poll().is_pending());
            }
            clock.advance(ms(1));
        }
        drop(held);
        let begun = clock.now();
        while !(waiting.is_woken() && waiting.poll().is_ready()) {
            clock.advance(ms(1));
            let delay = clock.now().since(begun);
            assert!(delay <= DELAY, "same client: {same_client}, waits: {waits}: delayed by {delay:?}");
        }
        drop(forgotten);
        drop(waiting);
    }
}
