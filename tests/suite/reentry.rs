//! Owners, hold counts, and who excludes whom.

use crate::support::world::idle;
use crate::support::{World, ms, secs, until};
use leasehold::{Error, Lock, LossReason};
use std::sync::atomic::{AtomicU32, Ordering};

/// Three functions that each take the same lock. Each returns the counts that it saw.
async fn outer(world: &World, lock: &Lock) -> Vec<u32> {
    let guard = lock.acquire().await.expect("the lock");
    let mut seen = vec![world.count(lock.name())];
    seen.extend(middle(world, lock).await);
    seen.push(world.count(lock.name()));
    assert_eq!(guard.hold_count(), 1);
    guard.release().await.expect("a release");
    seen
}

async fn middle(world: &World, lock: &Lock) -> Vec<u32> {
    let guard = lock.acquire().await.expect("the lock, once more");
    let mut seen = vec![world.count(lock.name())];
    seen.extend(inner(world, lock).await);
    seen.push(world.count(lock.name()));
    assert_eq!(guard.hold_count(), 2);
    guard.release().await.expect("a release");
    seen
}

async fn inner(world: &World, lock: &Lock) -> Vec<u32> {
    let guard = lock.acquire().await.expect("the lock, a third time");
    assert_eq!(guard.hold_count(), 3);
    let seen = vec![world.count(lock.name())];
    guard.release().await.expect("a release");
    seen
}

pub(crate) async fn three_functions_that_take_the_same_lock(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("stock"));
    let seen = client.new_owner().scope(outer(&world, &lock)).await;
    assert_eq!(seen, [1, 2, 3, 2, 1]);
    assert!(!world.exists(lock.name()), "the key is gone with the last release");
    idle(&client).await;
}

pub(crate) async fn branches_with_owners_of_their_own_exclude_each_other(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("stock"));
    let inside = AtomicU32::new(0);
    let branch = async || {
        for _ in 0..5 {
            let guard = lock.acquire().await.expect("the lock");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "somebody else is inside");
            let again = lock.acquire().await.expect("the lock, once more");
            assert_eq!(world.count(lock.name()), 2);
            tokio::task::yield_now().await;
            again.release().await.expect("a release");
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.expect("a release");
        }
    };
    let (one, other) = (client.new_owner(), client.new_owner());
    tokio::join!(one.scope(branch()), other.scope(branch()));
    world.gone(lock.name()).await;
    idle(&client).await;
}

pub(crate) async fn a_guard_reenters_without_an_owner(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("stock"));
    let first = lock.acquire().await.expect("the lock");
    let second = first.reenter().await.expect("a re-entry");
    assert_eq!((first.hold_count(), second.hold_count(), world.count(lock.name())), (2, 2, 2));
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "an acquire without an owner is excluded");
    // The guards of one hold can be released in any order.
    first.release().await.expect("a release");
    assert_eq!((second.hold_count(), world.count(lock.name())), (1, 1));
    let third = second.reenter().await.expect("a re-entry");
    drop(second);
    until("the dropped guard is released", || world.count(lock.name()) == 1).await;
    third.release().await.expect("a release");
    assert!(!world.exists(lock.name()));
    idle(&client).await;
}

pub(crate) async fn an_owner_is_named_or_inherited_and_the_innermost_counts(world: World) {
    let client = world.client().await;
    let (one, other) = (client.new_owner(), client.new_owner());
    let lock = client.lock(world.name("stock"));
    let held = lock.acquire().owner(&one).await.expect("the lock");
    one.scope(async {
        let again = lock.acquire().await.expect("a re-entry by the scope's owner");
        assert_eq!(again.hold_count(), 2);
        other
            .scope(async {
                assert!(lock.try_acquire().await.expect("an answer").is_none(), "the innermost scope counts");
                let named = lock.acquire().owner(&one).await.expect("a named owner counts more than any scope");
                assert_eq!(named.hold_count(), 3);
                named.release().await.expect("a release");
            })
            .await;
        again.release().await.expect("a release");
    })
    .await;
    held.release().await.expect("a release");
    world.gone(lock.name()).await;
}

pub(crate) async fn a_scope_of_one_client_does_not_hide_that_of_another(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let (lock, elsewhere) = (one.lock(world.name("one")), other.lock(world.name("other")));
    let work = async {
        let outer = lock.acquire().await.expect("the lock");
        let inside = async {
            let again =
                lock.try_acquire().await.expect("an answer").expect("a re-entry by the owner of the outer scope");
            assert_eq!(again.hold_count(), 2);
            let guard = elsewhere.acquire().await.expect("the lock");
            assert!(
                elsewhere.try_acquire().await.expect("an answer").is_some(),
                "its owner is that of the inner scope"
            );
            drop((again, guard));
        };
        other.new_owner().scope(inside).await;
        drop(outer);
    };
    one.new_owner().scope(work).await;
}

pub(crate) async fn a_scope_does_not_cross_spawn(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("stock"));
    client
        .new_owner()
        .scope(async {
            let guard = lock.acquire().await.expect("the lock");
            let elsewhere = tokio::spawn({
                let lock = lock.clone();
                async move { lock.try_acquire().await }
            });
            assert!(elsewhere.await.expect("a task").expect("an answer").is_none());
            guard.release().await.expect("a release");
        })
        .await;
}

pub(crate) async fn an_owner_takes_its_lock_again_after_a_full_release(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("stock"));
    let owner = client.new_owner();
    let mut fields = Vec::new();
    for _ in 0..3 {
        let guard = lock.acquire().owner(&owner).await.expect("the lock");
        fields.extend(world.holds(lock.name()));
        guard.release().await.expect("a release");
    }
    fields.dedup();
    assert_eq!(fields.len(), 3, "each hold has a number of its own: {fields:?}");
}

pub(crate) async fn lost_hold_stays_lost_for_its_owner_until_its_guards_go(world: World) {
    let client = world.client_with(|builder| builder.lease(ms(300))).await;
    let lock = client.lock(world.name("stock"));
    let owner = client.new_owner();
    let outer = lock.acquire().owner(&owner).lease(ms(100)).await.expect("the lock");
    // A busy machine may lose the short lease before the re-entry.
    drop(outer.reenter().await.ok());
    let lost = outer.lost().await;
    assert!(matches!(lost.reason(), LossReason::LeaseExpired | LossReason::NotRenewed), "{lost}");
    let again = lock.acquire().owner(&owner).wait(secs(5)).await.expect_err("an owner with guards of a lost hold");
    assert!(matches!(again, Error::Lost { .. }), "{again}");
    let tried = owner.scope(lock.try_acquire()).await.expect_err("an owner with guards of a lost hold");
    assert!(matches!(tried, Error::Lost { .. }), "{tried}");
    let reentered = outer.reenter().await.expect_err("a guard of a lost hold");
    assert!(matches!(reentered, Error::Lost { .. }), "{reentered}");
    let released = outer.release().await.expect_err("a lost hold");
    assert!(matches!(released, Error::Lost { .. }), "{released}");
    let guard =
        lock.acquire().owner(&owner).wait(secs(10)).await.expect("the lock, since no guard of the lost hold is left");
    guard.release().await.expect("a release");
    world.gone(lock.name()).await;
    idle(&client).await;
}
