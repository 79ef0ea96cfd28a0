//! Waiters that give up leave a place in a queue, or a mark, that is in no other's way from then on.

use crate::support::world::idle;
use crate::support::{World, ms};
use leasehold::{Error, FairLock, ReadLock};

/// How often each way to give up is followed by a try.
const ROUNDS: usize = 30;

/// The caller is told that its wait has run out when its place is gone: the next try is granted, be it of the same client or of another.
pub(crate) async fn a_place_is_gone_when_its_wait_has_run_out(world: World) {
    let (holder, one, other) = (world.client().await, world.client().await, world.client().await);
    let name = world.name("elapsed");
    let lock = |client: &leasehold::Client| client.fair_lock(&name);
    let mut refused = 0;
    for round in 0..ROUNDS {
        let held = lock(&holder).acquire().await.expect("the lock");
        let error = lock(&one).acquire().wait(ms(5)).await.expect_err("it is held");
        assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
        held.release().await.expect("a release");
        let next = if round % 2 == 0 { &one } else { &other };
        refused += usize::from(!gets_in(&lock(next)).await);
    }
    assert_eq!(refused, 0, "tries of {ROUNDS} that were refused although the lock was free");
    for client in [&holder, &one, &other] {
        idle(client).await;
    }
}

/// A caller that drops the future of an acquire may try at once.
pub(crate) async fn a_dropped_acquire_does_not_refuse_the_next_try_of_its_client(world: World) {
    let (holder, one) = (world.client().await, world.client().await);
    let name = world.name("dropped");
    let lock = |client: &leasehold::Client| client.fair_lock(&name);
    let mut refused = 0;
    for _ in 0..ROUNDS {
        let held = lock(&holder).acquire().await.expect("the lock");
        tokio::time::timeout(ms(5), lock(&one).acquire()).await.expect_err("it is held");
        held.release().await.expect("a release");
        refused += usize::from(!gets_in(&lock(&one)).await);
    }
    assert_eq!(refused, 0, "tries of {ROUNDS} that were refused although the lock was free");
    for client in [&holder, &one] {
        idle(client).await;
    }
}

/// The mark that keeps readers out goes with the writer that left it, before its caller is told.
pub(crate) async fn a_writer_that_gave_up_keeps_no_reader_out(world: World) {
    let (holder, one, other) = (world.client().await, world.client().await, world.client().await);
    let name = world.name("marks");
    let lock = |client: &leasehold::Client| client.read_write_lock(&name).prefer_writers();
    let reading = lock(&holder).read().acquire().await.expect("the read half");
    let mut refused = [0, 0];
    for round in 0..ROUNDS {
        let error = lock(&one).write().acquire().wait(ms(5)).await.expect_err("somebody reads");
        assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
        let next = if round % 2 == 0 { &one } else { &other };
        refused[0] += usize::from(!reads(&lock(next).read()).await);
        tokio::time::timeout(ms(5), lock(&one).write().acquire()).await.expect_err("somebody reads");
        refused[1] += usize::from(!reads(&lock(&one).read()).await);
    }
    assert_eq!(refused, [0, 0], "readers of {ROUNDS} that were kept out by a writer that had gone, by how it went");
    reading.release().await.expect("a release");
    for client in [&holder, &one, &other] {
        idle(client).await;
    }
}

async fn gets_in(lock: &FairLock) -> bool {
    let Some(guard) = lock.try_acquire().await.expect("an answer") else { return false };
    guard.release().await.expect("a release");
    true
}

async fn reads(lock: &ReadLock) -> bool {
    let Some(guard) = lock.try_acquire().await.expect("an answer") else { return false };
    guard.release().await.expect("a release");
    true
}
