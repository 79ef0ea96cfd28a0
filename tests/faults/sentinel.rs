//! A primary that is replaced under Sentinel.

use crate::support::{connect, counts, held, lease_left, on_one_of_each, runtime, settings, soon, until};
use leasehold::{Error, LossReason};
use leasehold_test_support::{Sentinel, Server};
use std::time::Duration;

/// Waits until the replica has everything. `WAIT` is about what the same connection wrote before.
fn replicated(primary: &Server) {
    primary.command(&["SET", "probe", "1"]);
    assert_eq!(primary.command(&["WAIT", "1", "5000"]).as_int(), Some(1));
}

#[test]
fn a_planned_failover_takes_the_locks_along() {
    on_one_of_each(|binary| {
        let world = Sentinel::start_with(binary);
        runtime().block_on(async {
            let lease = Duration::from_secs(12);
            let client = settings().lease(lease).connect(&world.url()).await.expect("a client");
            let other = connect(&world.url()).await;
            let guard = held(&client, "stock").await;
            let outer = held(&client, "outer").await;
            let inner = outer.reenter().await.expect("a re-entry");
            let lock = other.lock("stock");
            let waiter = tokio::spawn(async move { lock.acquire().await });
            until("somebody waits", || other.stats().subscriptions == 1).await;
            replicated(world.primary());
            world.failover();
            let fresh = client.lock("fresh");
            let fresh = soon("an acquire", fresh.acquire()).await.expect("the lock");
            assert_eq!(counts(world.primary(), "fresh"), [1]);
            assert!(guard.is_held() && outer.is_held(), "the locks were there all the time");
            soon("a release", inner.release()).await.expect("a release");
            assert_eq!(counts(world.primary(), "outer"), [1]);
            // Renewed at the new primary.
            let mut last = lease_left(world.primary(), "stock");
            let mut rises = || {
                let before = std::mem::replace(&mut last, lease_left(world.primary(), "stock"));
                last > before
            };
            until("it is renewed", &mut rises).await;
            assert!(guard.is_held() && outer.is_held() && fresh.is_held());
            soon("a release", guard.release()).await.expect("a release");
            let woken = soon("a wake-up", waiter).await.expect("a task").expect("the lock");
            assert_eq!(counts(world.primary(), "stock"), [1]);
            woken.release().await.expect("a release");
        });
    });
}

#[test]
fn a_dead_primary_costs_its_outage_and_says_what_was_lost() {
    on_one_of_each(|binary| {
        let world = Sentinel::start_with(binary);
        runtime().block_on(async {
            let client = connect(&world.url()).await;
            let kept = held(&client, "kept").await;
            let (old, new) = (world.primary(), world.replica());
            replicated(old);
            old.kill();
            let next = client.lock("next");
            let (next, ()) = tokio::join!(
                next.acquire().into_future(),
                until("the replica is the primary", || world.primary().port() == new.port()),
            );
            world.wait_for_primary(new);
            let next = next.expect("the lock");
            assert_eq!(counts(new, "next"), [1]);
            assert!(kept.is_held());
            // A lock that is not there any more is reported before its lease is over.
            new.command(&["DEL", "next"]);
            new.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            let lost = soon("the news of the loss", next.lost()).await;
            assert_eq!(lost.reason(), LossReason::Removed);
            assert!(matches!(next.release().await, Err(Error::Lost { .. })));
            soon("a release", kept.release()).await.expect("a release");
        });
    });
}
