//! Leases that their holders extend, and leases that run short.

use crate::support::world::idle;
use crate::support::{RENEWED, World, ms, secs};
use leasehold::{Error, LossReason};

pub(crate) async fn an_extended_lease_lasts_from_the_extension_on(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("extended"));
    let guard = lock.acquire().lease(secs(5)).await.expect("the lock");
    guard.extend(secs(60)).await.expect("an extension");
    assert!(guard.remaining() > secs(50), "{:?}", guard.remaining());
    assert!(world.lease(lock.name()).is_some_and(|left| left > secs(50)), "{:?}", world.lease(lock.name()));
    guard.extend(ms(100)).await.expect("an extension");
    assert!(guard.remaining() > secs(50), "a lease is never shortened");
    assert!(matches!(guard.extend(ms(1)).await, Err(Error::Invalid(_))));
    guard.release().await.expect("a release");

    let fair = client.fair_lock(world.name("fair")).acquire().lease(secs(5)).await.expect("the lock");
    let simple = client.simple_lock(world.name("simple"), secs(5)).acquire().await.expect("the lock");
    let semaphore = client.semaphore(world.name("permits"));
    semaphore.try_set_permits(2).await.expect("permits");
    let permit = semaphore.acquire().lease(secs(5)).await.expect("a permit");
    let halves = client.read_write_lock(world.name("halves"));
    let reader = halves.read().acquire().lease(secs(5)).await.expect("the read half");
    fair.extend(secs(60)).await.expect("an extension");
    simple.extend(secs(60)).await.expect("an extension");
    permit.extend(secs(60)).await.expect("an extension");
    reader.extend(secs(60)).await.expect("an extension");
    let left = [fair.remaining(), simple.remaining(), permit.remaining(), reader.remaining()];
    assert!(left.iter().all(|left| *left > secs(50)), "{left:?}");
    fair.release().await.expect("a release");
    simple.release().await.expect("a release");
    permit.release().await.expect("a release");
    reader.release().await.expect("a release");
    world.delete(semaphore.name());
    idle(&client).await;
}

pub(crate) async fn a_lost_lock_cannot_be_extended(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("late"));
    let guard = lock.acquire().lease(ms(200)).await.expect("the lock");
    guard.lost().await;
    let error = guard.extend(secs(5)).await.expect_err("a lost lock");
    assert!(matches!(error, Error::Lost { reason: LossReason::LeaseExpired, .. }), "{error}");
    drop(guard);

    let guard = lock.acquire().wait(secs(5)).lease(secs(5)).await.expect("the lock");
    world.delete(lock.name());
    let error = guard.extend(secs(5)).await.expect_err("a lock that is gone");
    assert!(matches!(error, Error::Lost { reason: LossReason::Removed, .. }), "{error}");
    assert!(!guard.is_held() && !world.exists(lock.name()), "an extension creates nothing");
    drop(guard);
    idle(&client).await;
}

pub(crate) async fn a_renewed_lock_keeps_its_extension_as_a_reserve(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("reserve"));
    let guard = lock.acquire().await.expect("the lock");
    guard.extend(secs(60)).await.expect("an extension");
    tokio::time::sleep(RENEWED).await;
    assert!(guard.remaining() > secs(50), "renewals do not shorten it: {:?}", guard.remaining());
    guard.release().await.expect("a release");
    let short = lock.acquire().max_hold(ms(800)).await.expect("the lock");
    short.extend(secs(60)).await.expect("an extension");
    assert!(short.remaining() <= ms(800), "the longest hold ends it");
    short.release().await.expect("a release");
    idle(&client).await;
}

pub(crate) async fn a_lock_is_at_risk_before_an_outage_loses_it(world: World) {
    let world = world.proxied();
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("risk"));
    let guard = lock.acquire().await.expect("the lock");
    let renewed = tokio::time::timeout(RENEWED * 5 / 4, guard.at_risk()).await;
    assert!(renewed.is_err() && guard.is_held(), "a renewed lock is not at risk");
    world.set_down(true);
    guard.at_risk().await;
    assert!(guard.is_held(), "the risk comes before the loss");
    assert!(guard.remaining() <= RENEWED / 3, "{:?}", guard.remaining());
    assert_eq!(guard.lost().await.reason(), LossReason::NotRenewed);
    guard.at_risk().await;
    assert!(guard.remaining().is_zero(), "a lost lock is at risk at once");
    world.set_down(false);
    drop(guard);
    world.gone(lock.name()).await;

    let fixed = lock.acquire().wait(secs(5)).lease(ms(600)).await.expect("the lock");
    fixed.at_risk().await;
    assert!(fixed.remaining() <= ms(200), "{:?}", fixed.remaining());
    drop(fixed);
    idle(&client).await;
}
