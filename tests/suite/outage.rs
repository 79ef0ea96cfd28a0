//! Servers that are out of reach, and notices that never come.

use crate::support::world::idle;
use crate::support::{Actor, NEVER, Stage, World, ms, secs, until};
use leasehold::{Client, Error, Fallback, Tuning};
use std::time::Instant;

pub(crate) async fn l11_down_server_is_an_error_in_time_and_can_be_cancelled(world: World) {
    let world = world.proxied();
    let client = world.client_with(|builder| builder.unreachable_after(ms(600)).command_timeout(secs(1))).await;
    let lock = client.lock(world.name("down"));
    let guard = lock.acquire().await.expect("the lock");
    let free = client.lock(world.name("free"));
    world.set_down(true);

    let begun = Instant::now();
    let error = free.acquire().await.expect_err("a server that is down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");
    assert!(begun.elapsed() >= ms(500), "after {:?}", begun.elapsed());

    let error = free.acquire().wait(ms(100)).await.expect_err("a server that is down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");

    let error = free.try_acquire().await.expect_err("a server that is down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");

    let error = free.inspect().await.expect_err("a server that is down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");

    let waits = free.acquire().wait(secs(60)).into_future();
    assert!(tokio::time::timeout(ms(50), waits).await.is_err(), "it can be cancelled");

    let error = guard.release().await.expect_err("a server that is down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");

    world.set_down(false);
    world.gone(lock.name()).await;
    world.gone(free.name()).await;
    idle(&client).await;
    // Connecting again may take longer than this client is willing to be without a server.
    let begun = Instant::now();
    let guard = loop {
        match lock.acquire().await {
            Ok(guard) => break guard,
            Err(error) => assert!(begun.elapsed() < secs(60), "{error}"),
        }
    };
    guard.release().await.expect("a release");
}

pub(crate) async fn known_outage_fails_whoever_does_not_wait_for_its_end(world: World) {
    let world = world.proxied();
    let client = world.client_with(|builder| builder.unreachable_after(ms(300)).command_timeout(ms(200))).await;
    let name = world.name("down");
    client.lock(&name).acquire().await.expect("the lock").release().await.expect("a release");
    world.set_down(true);
    let mut races = 0;
    while !fails_before_a_wait(&client, &name, 0).await {
        races += 1;
        assert!(races < 100, "the outage is never known");
    }
    for way in 0..WAYS {
        assert!(fails_before_a_wait(&client, &name, way).await, "{way}");
    }
    world.set_down(false);
    world.gone(&name).await;
    idle(&client).await;
}

/// The ways in which a lock is used without a wait.
const WAYS: u32 = 12;

/// Whether an acquire, a try, a group, a look or a change fails before an acquire of the same lock whose wait is shorter than the server may
/// be away, and than a command may take.
async fn fails_before_a_wait(client: &Client, name: &str, way: u32) -> bool {
    let lock = client.lock(name);
    let fails = async {
        match way {
            0 => lock.acquire().await.map(drop),
            1 => lock.try_acquire().await.map(drop),
            2 => client.multi_lock([lock.clone()]).acquire().await.map(drop),
            3 => lock.inspect().await.map(drop),
            4 => lock.force_release().await.map(drop),
            5 => client.inspect(name).await.map(drop),
            6 => client.count_down_latch(name).count().await.map(drop),
            7 => client.count_down_latch(name).count_down().await.map(drop),
            8 => client.bare_semaphore(name).release_permits(1).await.map(drop),
            9 => client.bare_semaphore(name).available_permits().await.map(drop),
            10 => client.semaphore(name).resize(2).await.map(drop),
            _ => client.fair_lock(name).inspect().await.map(drop),
        }
    };
    let waits = lock.acquire().wait(ms(150)).into_future();
    let (is_first, answer) = tokio::select! {
        biased;
        answer = fails => (true, answer),
        answer = waits => (false, answer.map(drop)),
    };
    let error = answer.expect_err("a server that is down");
    // One that waits for less than a command may take does not learn why it has no lock.
    let is_of_outages = matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. });
    assert!(is_of_outages || !is_first && matches!(error, Error::WaitElapsed { .. }), "{way}: {error}");
    is_first
}

/// The key goes, and no message tells of it: the waiter looks again by itself.
pub(crate) async fn l3_a_lost_notice_costs_one_sleep(world: World) {
    let holder = world.client_with(|builder| builder.lease(NEVER)).await;
    let waiter = world.client_with(|builder| builder.tuning(Tuning::new().recheck(ms(300)))).await;
    let name = world.name("silent");
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    let waiting = tokio::spawn({
        let lock = waiter.lock(&name);
        async move { lock.acquire().await }
    });
    until("the waiter listens", || world.subscribers(&name) == 1).await;
    world.delete(&name);
    let got = waiting.await.expect("a task").expect("the lock");
    got.release().await.expect("a release");
    drop(guard);
    world.gone(&name).await;
}

pub(crate) async fn after_a_reconnect_waiters_try_again(world: World) {
    let world = world.proxied();
    let waiter = world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await;
    let name = world.name("reconnected");
    let _ = world.command(&name, &["HSET", &name, "somebody:1", "1"]);
    let _ = world.command(&name, &["PEXPIRE", &name, "3600000"]);
    let waiting = tokio::spawn({
        let lock = waiter.lock(&name);
        async move { lock.acquire().await }
    });
    until("the waiter listens", || world.subscribers(&name) == 1).await;
    world.set_down(true);
    world.delete(&name);
    world.set_down(false);
    let got = waiting.await.expect("a task").expect("the lock");
    got.release().await.expect("a release");
    world.gone(&name).await;
    idle(&waiter).await;
}

pub(crate) async fn a_connect_that_is_dropped_closes_its_connections(world: World) {
    let world = world.proxied();
    let proxy = world.proxy.as_ref().expect("a proxy");
    proxy.delay(leasehold_test_support::Way::Both, ms(3));
    for after in [0, 2, 5, 8, 12, 16, 20, 25] {
        drop(tokio::time::timeout(ms(after), Client::connect(&world.url().expect("a server"))).await);
        until("its connections are closed", || proxy.connections() == 0).await;
    }
    proxy.refuse(true);
    let error = world.try_connect(|builder| builder.connect_deadline(NEVER)).await.expect_err("nobody who listens");
    assert!(matches!(error, leasehold::ConnectError::Unreachable { .. }), "{error}");
}

/// The holder's lease has 30 s to go.
pub(crate) async fn waiter_that_sleeps_learns_that_its_server_is_gone(_: World) {
    for fallback in [Fallback::Fail, Fallback::Local, Fallback::PassThrough] {
        for of_the_link in [false, true] {
            let stage = Stage::new();
            let holder = stage.client().lock("stock");
            let held = stage.now(async move { holder.acquire().await }).expect("the lock");
            let link = stage.server.link();
            let settings = Client::builder().unreachable_after(ms(300)).fallback(fallback);
            let client = settings.manual_clock(&stage.clock).embedded_link(link.clone()).expect("a client");
            let lock = client.lock("stock");
            let mut waits = [Actor::new(async move { lock.acquire().wait(secs(60)).await })];
            stage.pass(secs(1), &mut waits);
            if of_the_link {
                link.set_down(true)
            } else {
                stage.server.set_down(true)
            }
            let took = stage.pass_until("an answer", secs(40), &mut waits, |waits| waits[0].is_done());
            assert!(took >= ms(300) && took < ms(310), "{fallback:?}: after {took:?}");
            match waits[0].take() {
                Ok(guard) => assert!(guard.is_degraded() && fallback != Fallback::Fail),
                Err(error) => assert!(matches!(error, Error::Unreachable { .. }) && fallback == Fallback::Fail),
            }
            drop(held);
        }
    }
}
