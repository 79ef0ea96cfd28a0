//! How holds end, and how their guards learn of it.

use crate::support::world::idle;
use crate::support::{RENEWED, World, ms, secs, until};
use leasehold::{Error, HoldEnd, LossReason, WithError};
use leasehold_test_support::Rounds;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

pub(crate) async fn the_longest_hold_ends_even_a_renewed_one(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let (first, second) = (client.lock(world.name("longest")), client.lock(world.name("longest")));
    let begun = Instant::now();
    let forgotten = first.acquire().max_hold(RENEWED * 5 / 4).await.expect("the lock");
    let lost = forgotten.lost().await;
    assert_eq!((lost.reason(), lost.lock()), (LossReason::MaxHold, first.name()));
    assert!(begun.elapsed() >= RENEWED, "it was renewed until then: {:?}", begun.elapsed());
    // The guard is still there, and it is not renewed: others get in.
    let next = first.acquire().wait(secs(5)).await.expect("the lock, once its lease has ended");
    next.release().await.expect("a release");
    assert!(matches!(forgotten.release().await, Err(Error::Lost { reason: LossReason::MaxHold, .. })));
    let short = second.acquire().max_hold(ms(800)).await.expect("the lock");
    assert!(world.lease(second.name()).is_none_or(|left| left <= ms(800)), "the lease ends with the longest hold");
    assert_eq!(short.lost().await.reason(), LossReason::MaxHold);
    drop(short);
    world.gone(second.name()).await;
    idle(&client).await;
}

pub(crate) async fn a_fixed_lease_is_lost_when_it_runs_out(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("fixed"));
    let guard = lock.acquire().lease(ms(200)).await.expect("the lock");
    assert!(guard.remaining() <= ms(200));
    let lost = guard.lost().await;
    assert_eq!(lost.reason(), LossReason::LeaseExpired);
    assert!(!guard.is_held() && guard.remaining() == ms(0));
    let error = guard.release().await.expect_err("a lost hold");
    assert!(matches!(error, Error::Lost { reason: LossReason::LeaseExpired, .. }), "{error}");
    world.gone(lock.name()).await;
    idle(&client).await;
}

pub(crate) async fn a_lock_is_renewed_for_as_long_as_it_is_held(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("long"));
    let guard = lock.acquire().await.expect("the lock");
    let begun = Instant::now();
    while begun.elapsed() < RENEWED * 3 / 2 {
        // In this order: what the server no longer has must not be believed to be held.
        let exists = world.exists(lock.name());
        let held = guard.is_held();
        assert!(exists || !held, "the lock is gone, and its guard does not know");
        assert!(held, "lost after {:?}", begun.elapsed());
        tokio::time::sleep(ms(20)).await;
    }
    assert!(guard.held_for() >= RENEWED * 3 / 2);
    guard.release().await.expect("a release of what was held all the time");
    assert!(!world.exists(lock.name()));
    idle(&client).await;
}

pub(crate) async fn a_detached_lock_runs_out_by_itself(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("detached"));
    let guard = lock.acquire().await.expect("the lock");
    let inner = guard.reenter().await.expect("a re-entry");
    let token = guard.cancellation_token();
    guard.detach();
    assert_eq!(token.end(), None, "another guard still holds it");
    assert!(inner.is_held());
    tokio::time::sleep(RENEWED * 9 / 8).await;
    assert!(inner.is_held(), "the other guard is renewed");
    inner.detach();
    assert_eq!(token.cancelled().await, HoldEnd::Detached);
    assert!(world.exists(lock.name()), "nothing was released");
    until("the lease has run out", || !world.exists(lock.name())).await;
    idle(&client).await;
}

pub(crate) async fn a_deleted_key_is_a_loss_that_renewal_finds(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("deleted"));
    let guard = lock.acquire().await.expect("the lock");
    world.delete(lock.name());
    let lost = guard.lost().await;
    assert_eq!(lost.reason(), LossReason::Removed);
    assert!(!world.exists(lock.name()), "a renewal creates nothing");
    assert!(matches!(guard.release().await, Err(Error::Lost { reason: LossReason::Removed, .. })));
    let guard = lock.acquire().await.expect("the lock");
    world.delete(lock.name());
    let error = guard.release().await.expect_err("a hold that is gone");
    assert!(matches!(error, Error::Lost { reason: LossReason::Removed, .. }), "{error}");
    let guard = lock.acquire().await.expect("the lock");
    let (field, _) = world.holds(lock.name())[0].clone();
    let _ = world.command(lock.name(), &["HSET", lock.name(), &field, "7"]);
    assert_eq!(guard.lost().await.reason(), LossReason::CountMismatch);
    drop(guard);
    world.gone(lock.name()).await;
    idle(&client).await;
}

pub(crate) async fn every_end_cancels_the_token_with_its_reason(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let lock = client.lock(world.name("token"));
    let guard = lock.acquire().await.expect("the lock");
    let (token, plain) = (guard.cancellation_token(), guard.cancellation_token().token());
    assert!(!token.is_cancelled() && !plain.is_cancelled() && token.end().is_none());
    guard.release().await.expect("a release");
    assert_eq!(token.cancelled().await, HoldEnd::Released);
    plain.cancelled().await;

    let guard = lock.acquire().await.expect("the lock");
    let token = guard.cancellation_token();
    drop(guard);
    assert_eq!(token.cancelled().await, HoldEnd::Released);

    let guard = lock.acquire().wait(secs(5)).lease(ms(100)).await.expect("the lock");
    let token = guard.cancellation_token();
    assert_eq!(token.cancelled().await, HoldEnd::Lost(LossReason::LeaseExpired));
    drop(guard);

    let guard = lock.acquire().wait(secs(5)).max_hold(ms(300)).await.expect("the lock");
    let token = guard.cancellation_token();
    assert_eq!(token.cancelled().await, HoldEnd::Lost(LossReason::MaxHold));
    drop(guard);

    let guard = lock.acquire().wait(secs(5)).await.expect("the lock");
    let token = guard.cancellation_token();
    world.delete(lock.name());
    assert_eq!(token.cancelled().await, HoldEnd::Lost(LossReason::Removed));
    drop(guard);

    let guard = lock.acquire().wait(secs(5)).await.expect("the lock");
    let token = guard.cancellation_token();
    guard.detach();
    assert_eq!(token.cancelled().await, HoldEnd::Detached);

    let guard = lock.acquire().wait(secs(5)).await.expect("the lock");
    let token = guard.cancellation_token();
    client.shutdown(ms(1)).await.expect_err("there is a guard");
    assert_eq!(token.cancelled().await, HoldEnd::Lost(LossReason::ShutDown));
    assert!(matches!(guard.release().await, Err(Error::Lost { reason: LossReason::ShutDown, .. })));
}

/// Notes its drop.
struct Work<'a>(&'a AtomicBool);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) async fn work_is_not_polled_again_after_the_loss(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("work"));
    let guard = lock.acquire().await.expect("the lock");
    assert_eq!(guard.run(async { 7 }).await.expect("work that ends in time"), 7);
    guard.release().await.expect("a release");

    // A thread that is put aside in the middle of a poll may see the loss there. Work that is polled after the loss sees it in every round.
    let mut rounds = Rounds::default();
    loop {
        let guard = lock.acquire().wait(secs(5)).lease(ms(150)).await.expect("the lock");
        let dropped = AtomicBool::new(false);
        let late = AtomicBool::new(false);
        let work = Work(&dropped);
        let result = guard
            .run(async {
                let _work = work;
                loop {
                    late.fetch_or(!guard.is_held(), Ordering::SeqCst);
                    tokio::time::sleep(ms(5)).await;
                }
            })
            .await;
        let lost = result.expect_err("a lock that was lost") as leasehold::Lost;
        assert_eq!(lost.reason(), LossReason::LeaseExpired);
        assert!(dropped.load(Ordering::SeqCst), "the work was dropped");
        if rounds.end_with(!late.load(Ordering::SeqCst), "the work was polled after the loss") {
            break;
        }
    }

    // A holder that blocks its executor beyond the lease does not go on.
    let guard = lock.acquire().wait(secs(5)).lease(ms(100)).await.expect("the lock");
    let went_on = AtomicBool::new(false);
    let result = guard
        .run(async {
            std::thread::sleep(ms(150));
            tokio::task::yield_now().await;
            went_on.store(true, Ordering::SeqCst);
        })
        .await;
    assert!(result.is_err() && !went_on.load(Ordering::SeqCst));
    drop(guard);

    // Nor does work pass for done that came to its end in a poll which outlived the lease; a token knows it at once.
    let guard = lock.acquire().wait(secs(5)).lease(ms(100)).await.expect("the lock");
    let token = guard.cancellation_token();
    let result = guard
        .run(async {
            std::thread::sleep(ms(150));
            token.is_cancelled()
        })
        .await;
    assert_eq!(result.expect_err("a lock that was lost").reason(), LossReason::LeaseExpired);
    assert_eq!(token.end(), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
}

pub(crate) async fn with_releases_and_carries_the_value(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let lock = client.lock(world.name("with"));
    let value = lock
        .with(async |held| {
            assert_eq!(world.count(lock.name()), 1);
            held.hold_count()
        })
        .await
        .expect("work under the lock");
    assert_eq!(value, 1);
    assert!(!world.exists(lock.name()), "it is released");

    let outcome = lock.with(async |_| world.delete(lock.name())).await;
    let expected = WithError::Lost { lock: lock.name().to_owned(), reason: LossReason::Removed, value: Some(()) };
    assert_eq!(outcome, Err(expected), "the work came to its end, and the lock was gone");

    let brief = world.client_with(|builder| builder.lease(RENEWED)).await;
    let stopped = brief.lock(lock.name());
    let outcome = stopped
        .with(async |_| {
            world.delete(lock.name());
            std::future::pending::<()>().await;
        })
        .await;
    let expected = WithError::Lost { lock: lock.name().to_owned(), reason: LossReason::Removed, value: None };
    assert_eq!(outcome, Err(expected), "the work was stopped");

    let guard = other.lock(lock.name()).acquire().await.expect("the lock");
    let impatient = world.client_with(|builder| builder.default_wait(ms(50))).await;
    let outcome = impatient.lock(lock.name()).with(async |_| ()).await;
    assert!(matches!(outcome, Err(WithError::NotAcquired(Error::WaitElapsed { .. }))), "{outcome:?}");
    let outcome = lock.acquire().wait(ms(50)).with(async |_| ()).await;
    let error = outcome.expect_err("a busy lock");
    assert!(matches!(Error::from(error.clone()), Error::WaitElapsed { .. }), "{error:?}");
    assert_eq!((error.error(), error.clone().into_value()), (Error::from(error), None));
    guard.release().await.expect("a release");
    let owner = client.new_owner();
    let again = lock.acquire().owner(&owner).max_hold(secs(60)).wait(secs(5));
    let counts = again.clone().with(async |_| again.with(async |held| held.hold_count()).await).await;
    assert_eq!(counts, Ok(Ok(2)), "the owner is that of both");
    world.gone(lock.name()).await;
}

/// Whom it is told of does not matter.
struct Sleeper;

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {}
}

/// A job that holds a lock for days runs many pieces of work under it.
pub(crate) async fn work_that_is_over_leaves_no_waker_with_the_hold(world: World) {
    let client = world.client().await;
    let guard = client.lock(world.name("watched")).acquire().await.expect("the lock");
    let both = client.multi_lock([client.lock(world.name("one")), client.lock(world.name("two"))]);
    let both = both.acquire().await.expect("the locks");
    let sleeper = Arc::new(Sleeper);
    let waker = Waker::from(sleeper.clone());
    let mut context = Context::from_waker(&waker);
    assert!(pin!(guard.run(std::future::ready(()))).as_mut().poll(&mut context).is_ready());
    assert!(pin!(both.run(std::future::ready(()))).as_mut().poll(&mut context).is_ready());
    assert!(pin!(guard.run(std::future::pending::<()>())).as_mut().poll(&mut context).is_pending());
    assert!(pin!(guard.lost()).as_mut().poll(&mut context).is_pending());
    assert!(pin!(both.lost()).as_mut().poll(&mut context).is_pending());
    drop(waker);
    assert_eq!(Arc::strong_count(&sleeper), 1, "the holds have nobody to wake");
    both.release().await.expect("a release");
    guard.release().await.expect("a release");
    idle(&client).await;
}
