//! Replies and requests that are lost: the hold count stays exact, and the caller is told the truth.

use crate::support::world::idle;
use crate::support::{World, ms, secs, until};
use leasehold::{Client, Error, Lock, LossReason};
use leasehold_core::script::{ACQUIRE, RELEASE, RENEW, Script};

/// A way to lose something.
type Lose = fn(&World, &'static Script);

const WAYS: [Lose; 3] = [World::lose_reply, World::lose_request, World::swallow_reply];

async fn scene(world: World) -> (World, Client, Lock) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.command_timeout(secs(1))).await;
    let lock = client.lock(world.name("lossy"));
    (world, client, lock)
}

async fn is_clean(world: &World, client: &Client, lock: &Lock) {
    world.gone(lock.name()).await;
    idle(client).await;
}

pub(crate) async fn l1_a_lost_reply_to_an_acquire_counts_once(world: World) {
    let (world, client, lock) = scene(world).await;
    for lose in WAYS {
        lose(&world, &ACQUIRE);
        let guard = lock.acquire().await.expect("the lock");
        assert_eq!((guard.hold_count(), world.count(lock.name())), (1, 1));
        lose(&world, &ACQUIRE);
        let again = guard.reenter().await.expect("a re-entry");
        assert_eq!((again.hold_count(), guard.hold_count(), world.count(lock.name())), (2, 2, 2));
        again.release().await.expect("a release");
        assert_eq!(world.count(lock.name()), 1);
        guard.release().await.expect("a release");
        assert!(!world.exists(lock.name()));
        lose(&world, &ACQUIRE);
        match lock.try_acquire().await {
            Ok(tried) => {
                assert_eq!(world.count(lock.name()), 1);
                tried.expect("the lock, which is free").release().await.expect("a release");
            }
            // A try does not wait until a connection that hangs has been replaced; what it left is cleaned up below.
            Err(error) => assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}"),
        }
        is_clean(&world, &client, &lock).await;
    }
}

pub(crate) async fn l2_a_lost_reply_to_a_release_is_a_release(world: World) {
    let (world, client, lock) = scene(world).await;
    for lose in WAYS {
        let guard = lock.acquire().await.expect("the lock");
        let inner = guard.reenter().await.expect("a re-entry");
        lose(&world, &RELEASE);
        inner.release().await.expect("a release, which happened once");
        assert_eq!((guard.hold_count(), world.count(lock.name()), guard.is_held()), (1, 1, true));
        lose(&world, &RELEASE);
        guard.release().await.expect("a release, which happened once");
        assert!(!world.exists(lock.name()));
        is_clean(&world, &client, &lock).await;
    }
}

pub(crate) async fn a_lost_reply_to_a_renewal_does_not_lose_the_lock(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.lease(secs(3)).command_timeout(ms(500))).await;
    let lock = client.lock(world.name("renewed"));
    // The embedded engine has no clock by which it would give up waiting for a renewal.
    let ways = if world.engine.is_inside() { &WAYS[..2] } else { &WAYS[..] };
    for lose in ways {
        let guard = lock.acquire().await.expect("the lock");
        lose(&world, &RENEW);
        until("a lease has passed", || {
            assert!(guard.is_held(), "lost after {:?}", guard.held_for());
            guard.held_for() > ms(3_400)
        })
        .await;
        assert_eq!((guard.hold_count(), world.count(lock.name())), (1, 1));
        guard.release().await.expect("a release of what was held all the time");
        is_clean(&world, &client, &lock).await;
    }
}

/// The release is sent by a client that was cut off, after its lease has ended: another holder is not touched.
pub(crate) async fn a_release_that_comes_too_late_is_a_loss_and_touches_nobody(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.lease(ms(400))).await;
    let lock = client.lock(world.name("late"));
    let guard = lock.acquire().await.expect("the lock");
    world.set_down(true);
    assert_eq!(guard.lost().await.reason(), LossReason::NotRenewed);
    until("the lease has ended on the server", || !world.exists(lock.name())).await;
    let _ = world.command(lock.name(), &["HSET", lock.name(), "somebody:1", "1"]);
    world.set_down(false);
    let error = guard.release().await.expect_err("a lost hold");
    assert!(matches!(error, Error::Lost { reason: LossReason::NotRenewed, .. }), "{error}");
    idle(&client).await;
    assert_eq!(world.holds(lock.name()), [("somebody:1".to_owned(), 1)]);
    world.delete(lock.name());
    client.shutdown(secs(5)).await.expect("nothing is left");
}
