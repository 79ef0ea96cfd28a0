//! The count-down latch.

use crate::support::world::idle;
use crate::support::{NEVER, World, ms, secs, until};
use leasehold::{Client, Error, InvalidInput, Tuning};
use leasehold_core::script;
use std::time::Duration;

pub(crate) async fn a_latch_is_set_counted_down_and_open(world: World) {
    let client = world.client().await;
    let parts = client.count_down_latch(world.name("parts"));
    parts.opened().await.expect("a latch without a count is open");
    assert_eq!((parts.count().await, parts.count_down().await), (Ok(0), Ok(0)));
    assert!(parts.try_set_count(3).await.expect("an answer"));
    assert!(!parts.try_set_count(9).await.expect("an answer"), "it is closed");
    assert_eq!(parts.count_down().await, Ok(2));
    let error = parts.opened().wait(ms(30)).await.expect_err("a closed latch");
    assert!(matches!(error, Error::WaitElapsed { waited, .. } if waited >= ms(30)), "{error}");
    let error = parts.opened().wait(Duration::ZERO).await.expect_err("a closed latch");
    assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    assert_eq!(parts.count_down_by(7).await, Ok(0), "not below zero");
    parts.opened().wait(Duration::MAX).await.expect("an open latch");
    assert!(!world.exists(parts.name()));
    assert!(parts.try_set_count(1).await.expect("an answer"), "it may be set again");
    assert_eq!((parts.delete().await, parts.delete().await), (Ok(true), Ok(false)));
    idle(&client).await;
}

/// Tasks of a client that wait at a latch.
async fn waiters(client: &Client, name: &str, tasks: usize) -> Vec<tokio::task::JoinHandle<Result<(), Error>>> {
    let waiting = (0..tasks).map(|_| tokio::spawn(client.count_down_latch(name).opened().into_future())).collect();
    until("the tasks wait", || client.stats().requests == tasks && client.stats().subscriptions == 1).await;
    waiting
}

pub(crate) async fn c2_all_who_wait_are_woken(world: World) {
    // A waiter that is not woken sleeps until the test has ended.
    let asleep = || world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER)));
    let (one, other, counter) = (asleep().await, asleep().await, world.client().await);
    let name = world.name("parts");
    for opens in ["the last count", "a deletion"] {
        let parts = counter.count_down_latch(&name);
        parts.try_set_count(2).await.expect("an answer");
        let mut waiting = waiters(&one, &name, 5).await;
        waiting.extend(waiters(&other, &name, 3).await);
        assert_eq!(parts.count_down().await, Ok(1));
        assert!(waiting.iter().all(|task| !task.is_finished()), "it is not open yet");
        if opens == "a deletion" {
            assert_eq!(parts.delete().await, Ok(true));
        } else {
            assert_eq!(parts.count_down().await, Ok(0));
        }
        for task in waiting {
            task.await.expect("a task").expect("an open latch");
        }
        idle(&one).await;
        idle(&other).await;
    }
}

pub(crate) async fn a_wait_that_is_dropped_leaves_nothing(world: World) {
    let client = world.client().await;
    let name = world.name("parts");
    client.count_down_latch(&name).try_set_count(1).await.expect("an answer");
    for task in waiters(&client, &name, 3).await {
        task.abort();
    }
    idle(&client).await;
    let waiting = waiters(&client, &name, 1).await;
    client.shutdown(secs(5)).await.expect("nothing is held");
    for task in waiting {
        let error = task.await.expect("a task").expect_err("a client that is shut down");
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
    }
    world.delete(&name);
}

pub(crate) async fn what_cannot_be_a_count_is_refused(world: World) {
    let client = world.client().await;
    let parts = client.count_down_latch(world.name("parts"));
    let number = |error: &Error| matches!(error, Error::Invalid(InvalidInput::Number { what: "count", .. }));
    for count in [0, i32::MAX.unsigned_abs() + 1, u32::MAX] {
        assert!(number(&parts.try_set_count(count).await.expect_err("a count that cannot be used")));
        assert!(number(&parts.count_down_by(count).await.expect_err("a count that cannot be used")));
    }
    assert!(!world.exists(parts.name()));
    let _ = world.command(parts.name(), &["RPUSH", parts.name(), "value"]);
    let conflict = |error: &Error| matches!(error, Error::KeyConflict { .. });
    assert!(conflict(&parts.opened().await.expect_err("a list")));
    assert!(conflict(&parts.try_set_count(1).await.expect_err("a list")));
    assert!(conflict(&parts.count_down().await.expect_err("a list")));
    assert!(conflict(&parts.count().await.expect_err("a list")));
    assert!(conflict(&parts.delete().await.expect_err("a list")));
    world.delete(parts.name());
}

pub(crate) async fn c1_a_lost_reply_to_a_count_counts_once(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.command_timeout(secs(1))).await;
    let parts = client.count_down_latch(world.name("parts"));
    world.lose_reply(&script::LATCH_SET);
    assert!(parts.try_set_count(3).await.expect("an answer to the second copy"));
    world.lose_reply(&script::LATCH_COUNT_DOWN);
    assert_eq!(parts.count_down().await, Ok(2), "it was sent twice and counted once");
    if world.engine.is_inside() {
        // A call that hangs there hangs for good.
        world.lose_request(&script::LATCH_COUNT_DOWN);
    } else {
        world.swallow_reply(&script::LATCH_COUNT_DOWN);
    }
    assert_eq!(parts.count_down().await, Ok(1), "it was sent twice and counted once");
    world.lose_reply(&script::LATCH_DELETE);
    assert_eq!(parts.delete().await, Ok(true), "the copy tells what the first one did");
}
