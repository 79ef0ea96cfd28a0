//! The locks without notices, the spin lock and the simple lock: how often they ask, and what a name on the server means.

use crate::support::world::idle;
use crate::support::{Actor, Stage, World, ms, secs, until};
use leasehold::kind::Spin;
use leasehold::{Backoff, Error, Guard, LossReason};
use leasehold_test_support::Resp;

/// The attempts of one waiter in ten seconds, under a back-off.
fn attempts(stage: &Stage, backoff: Backoff) -> (u64, Option<Result<Guard<Spin>, Error>>) {
    let lock = stage.client().spin_lock("polled");
    let before = stage.server.calls("lock/acquire");
    let mut waiters = [Actor::new(async move { lock.acquire().backoff(backoff).await })];
    stage.pass(secs(10), &mut waiters);
    (stage.server.calls("lock/acquire") - before, waiters[0].done.take().map(|(outcome, _)| outcome))
}

pub(crate) async fn a_spin_lock_asks_as_often_as_it_is_told(_: World) {
    let stage = Stage::new();
    let lock = stage.client().spin_lock("polled");
    let held = stage.now(async move { lock.acquire().await }).expect("the lock");
    let (asked, outcome) = attempts(&stage, Backoff::constant(ms(100)));
    assert!((99..=101).contains(&asked) && outcome.is_none(), "{asked} attempts");
    let (asked, _) = attempts(&stage, Backoff::linear(ms(100), ms(1_000)));
    assert!((14..=16).contains(&asked), "{asked} attempts: 5.5 s for ten, then one a second");
    let (asked, _) = attempts(&stage, Backoff::exponential(ms(2), ms(128)));
    assert!((100..=400).contains(&asked), "{asked} attempts: one in 64 ms, on average");
    for limited in
        [Backoff::constant(ms(10)).max_attempts(3), Backoff::custom(|failures| (failures < 3).then_some(ms(10)))]
    {
        let (asked, outcome) = attempts(&stage, limited);
        assert_eq!(asked, 3);
        let error = outcome.expect("an end").expect_err("a busy lock");
        assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    }
    assert_eq!(stage.server.subscriptions(), 0);
    drop(held);
    stage.pass(ms(10), &mut Vec::<Actor<()>>::new());
    assert!(stage.keys().is_empty());
}

/// The spin lock is the reentrant lock's hash, so that an owner enters again, and its loss is told.
pub(crate) async fn a_spin_lock_is_entered_again(world: World) {
    let client = world.client().await;
    let lock = client.spin_lock(world.name("spin"));
    let owner = client.new_owner();
    let outer = lock.acquire().owner(&owner).await.expect("the lock");
    let inner = lock.acquire().owner(&owner).await.expect("a re-entry");
    assert_eq!((inner.hold_count(), world.count(lock.name())), (2, 2));
    assert_eq!(world.subscribers(lock.name()), 0);
    assert!(lock.try_acquire().await.expect("an answer").is_none());
    inner.release().await.expect("a release");
    outer.release().await.expect("a release");
    idle(&client).await;
    assert!(!world.exists(lock.name()));
}

/// As go-zero's lock: a string under the plain name, whose value is the id.
pub(crate) async fn a_simple_lock_is_its_id(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("simple");
    let lease = secs(60);
    let mine = client.simple_lock(&name, lease).with_id("one-id");
    let same = other.simple_lock(&name, lease).with_id("one-id");
    let different = other.simple_lock(&name, lease).with_id("another-id");
    let guard = mine.try_acquire().await.expect("an answer").expect("the lock");
    assert!(matches!(world.command(&name, &["GET", &name]), Resp::Bulk(value) if value == b"one-id"));
    assert!(different.try_acquire().await.expect("an answer").is_none(), "refused");
    assert!(!different.release().await.expect("an answer"), "released by its owner alone");
    let _ = world.command(&name, &["PEXPIRE", &name, "30000"]);
    let refreshed = same.try_acquire().await.expect("an answer").expect("the same id");
    assert!(world.lease(&name).expect("a lease") > secs(30), "the same id refreshes the lease");
    let again = mine.acquire().await.expect("a re-entry");
    again.release().await.expect("a release");
    assert!(world.exists(&name) && guard.is_held(), "an inner release does not end the hold");
    assert!(mine.release().await.expect("an answer"), "there was a hold");
    assert!(!mine.release().await.expect("an answer"), "there is none any more");
    until("the guard has learnt of it", || !guard.is_held()).await;
    assert_eq!(guard.lost().await.reason(), LossReason::Removed);
    drop((guard, refreshed));
    let next = different.try_acquire().await.expect("an answer").expect("the lock, which is free");
    next.release().await.expect("a release");
    assert!(!world.exists(&name));
    idle(&client).await;
    idle(&other).await;
}

pub(crate) async fn a_simple_lock_is_renewed_where_that_is_asked_for(_: World) {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.simple_lock("renewed", secs(5));
    let guard = stage.now({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    let guard = guard.expect("the lock");
    stage.clock.advance(secs(6));
    assert!(!guard.is_held() && stage.keys().is_empty(), "not renewed");
    drop(guard);
    let named = lock.with_id("renewed-id");
    let (outer, inner) = stage.now(async move {
        let outer = named.acquire().renewed().await.expect("the lock");
        let inner = named.acquire().renewed().await.expect("a re-entry");
        (outer, inner)
    });
    stage.clock.advance(secs(60));
    assert!(outer.is_held() && inner.is_held(), "renewed");
    stage.now(inner.release()).expect("a release");
    stage.clock.advance(secs(60));
    stage.now(outer.release()).expect("a release");
    assert!(stage.keys().is_empty());
}
