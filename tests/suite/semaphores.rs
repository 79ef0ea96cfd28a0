//! The semaphore, a bare counter.

use crate::support::world::idle;
use crate::support::{Polled, World, ms, secs, until};
use leasehold::embedded::{EmbeddedServer, Fault, FaultTarget, ManualClock};
use leasehold::error::NameError;
use leasehold::kind::Counted;
use leasehold::{Client, Error, InvalidInput, Lock, Tuning};
use leasehold_core::script;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Waits until a client has a task that waits and listens.
pub(super) async fn waits(client: &Client, tasks: usize) {
    until("the tasks wait", || client.stats().requests == tasks && client.stats().subscriptions > 0).await;
}

pub(crate) async fn s4_a_number_that_is_there_is_not_set_again(world: World) {
    let client = world.client().await;
    let seats = client.bare_semaphore(world.name("seats"));
    assert_eq!(seats.available_permits().await.expect("an answer"), 0);
    assert!(seats.try_set_permits(2).await.expect("an answer"));
    let all = seats.acquire().permits(2).await.expect("two permits");
    assert!(!seats.try_set_permits(5).await.expect("an answer"), "all permits are taken, and still there");
    assert_eq!(seats.available_permits().await.expect("an answer"), 0);
    assert!(seats.try_acquire().await.expect("an answer").is_none());
    all.release().await.expect("a release");
    assert_eq!(seats.available_permits().await.expect("an answer"), 2);
    let none = client.bare_semaphore(world.name("none"));
    assert!(none.try_set_permits(0).await.expect("an answer"));
    assert!(!none.try_set_permits(3).await.expect("an answer"), "a number of 0 is a number");
    idle(&client).await;
}

pub(crate) async fn s5_of_two_waiters_for_two_permits_each_one_proceeds(world: World) {
    let (holder, one, other) = (world.client().await, world.client().await, world.client().await);
    let name = world.name("seats");
    holder.bare_semaphore(&name).try_set_permits(2).await.expect("an answer");
    let first = holder.bare_semaphore(&name).acquire().await.expect("a permit");
    let second = holder.bare_semaphore(&name).acquire().await.expect("a permit");
    let inside = Arc::new(AtomicI64::new(0));
    let wait = |client: &Client| {
        let (seats, inside) = (client.bare_semaphore(&name), inside.clone());
        tokio::spawn(async move {
            let guard = seats.acquire().permits(2).await.expect("two permits");
            assert_eq!((guard.permits(), inside.fetch_add(1, Ordering::SeqCst)), (2, 0), "one at a time");
            tokio::time::sleep(ms(20)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.expect("a release");
        })
    };
    let waiting = [wait(&one), wait(&other)];
    waits(&one, 1).await;
    waits(&other, 1).await;
    first.release().await.expect("a release");
    assert_eq!(inside.load(Ordering::SeqCst), 0, "one permit is not two");
    second.release().await.expect("a release");
    for task in waiting {
        task.await.expect("a task that gets its permits");
    }
    assert_eq!(holder.bare_semaphore(&name).available_permits().await.expect("an answer"), 2);
    idle(&one).await;
    idle(&other).await;
}

pub(crate) async fn s6_permits_that_are_added_wake_who_waits(world: World) {
    let (operator, waiter) = (world.client().await, world.client().await);
    for set in [None, Some(0)] {
        let name = world.name("seats");
        let seats = operator.bare_semaphore(&name);
        if let Some(permits) = set {
            assert!(seats.try_set_permits(permits).await.expect("an answer"));
        }
        let waiting = tokio::spawn({
            let seats = waiter.bare_semaphore(&name);
            async move { seats.acquire().permits(3).await }
        });
        waits(&waiter, 1).await;
        assert_eq!(seats.add_permits(2).await.expect("an answer"), 2);
        assert_eq!(seats.add_permits(2).await.expect("an answer"), 4);
        let guard = waiting.await.expect("a task").expect("three permits");
        assert_eq!(seats.available_permits().await.expect("an answer"), 1);
        drop(guard);
        until("the dropped guard's permits are back", || waiter.stats().cleaning_up == 0).await;
        assert_eq!(seats.available_permits().await.expect("an answer"), 4);
        idle(&waiter).await;
    }
}

pub(crate) async fn permits_without_a_hold_are_drained_and_given_back(world: World) {
    let client = world.client().await;
    let seats = client.bare_semaphore(world.name("seats")).class("tests");
    seats.try_set_permits(5).await.expect("an answer");
    let guard = seats.try_acquire_many(2).await.expect("an answer").expect("two permits");
    assert!(seats.try_acquire_many(4).await.expect("an answer").is_none());
    assert_eq!(seats.drain_permits().await.expect("an answer"), 3);
    assert_eq!(seats.drain_permits().await.expect("an answer"), 0);
    assert_eq!(seats.release_permits(3).await.expect("an answer"), 3);
    assert_eq!(seats.add_permits(-4).await.expect("an answer"), -1, "capacity may be taken away that is in use");
    assert_eq!(seats.available_permits().await.expect("an answer"), -1);
    guard.release().await.expect("a release");
    assert_eq!(seats.available_permits().await.expect("an answer"), 1);
    let held = seats.with(async |held| (held.permits(), seats.available_permits().await)).await.expect("work");
    assert_eq!(held, (1, Ok(0)));
    assert_eq!(seats.available_permits().await.expect("an answer"), 1);
    idle(&client).await;
}

pub(crate) async fn an_owner_takes_permits_of_its_own_each_time(world: World) {
    let client = world.client().await;
    let seats = client.bare_semaphore(world.name("seats"));
    seats.try_set_permits(3).await.expect("an answer");
    let scope = client.new_owner();
    scope
        .scope(async {
            let one = seats.acquire().await.expect("a permit");
            let two = seats.acquire().permits(2).await.expect("two permits");
            assert_eq!((one.permits(), two.permits()), (1, 2));
            assert_ne!(one.holder_id(), two.holder_id());
            assert_eq!(seats.available_permits().await.expect("an answer"), 0);
            assert!(seats.try_acquire().await.expect("an answer").is_none());
            one.release().await.expect("a release");
            assert_eq!(seats.available_permits().await.expect("an answer"), 1);
            two.release().await.expect("a release");
        })
        .await;
    assert_eq!(seats.available_permits().await.expect("an answer"), 3);
    idle(&client).await;
}

pub(crate) async fn s14_many_tasks_never_have_too_many_permits(world: World) {
    let clients = [world.client().await, world.client().await];
    let name = world.name("seats");
    clients[0].bare_semaphore(&name).try_set_permits(3).await.expect("an answer");
    crowd(clients.each_ref().map(|client| client.bare_semaphore(&name)), 3).await;
    assert_eq!(clients[0].bare_semaphore(&name).available_permits().await.expect("an answer"), 3);
    idle(&clients[0]).await;
    idle(&clients[1]).await;
}

/// Twelve tasks of two clients want one or two permits, ten times each; they never have more than there are, and each gives back what it has.
pub(super) async fn crowd<K: Counted>(seats: [Lock<K>; 2], capacity: i64) {
    let inside = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..12_u32)
        .map(|task| {
            let (seats, inside) = (seats[task as usize % 2].clone(), inside.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    let permits = 1 + (task + round) % 2;
                    let guard = seats.acquire().permits(permits).await.expect("permits, however many want them");
                    let now = inside.fetch_add(permits.into(), Ordering::SeqCst) + i64::from(permits);
                    assert!(now <= capacity, "{now} permits of {capacity}");
                    tokio::task::yield_now().await;
                    assert!(guard.is_held(), "nothing takes a permit away");
                    inside.fetch_sub(permits.into(), Ordering::SeqCst);
                    guard.release().await.expect("a release that finds its permits");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
}

pub(crate) async fn what_cannot_be_a_number_of_permits_is_refused(world: World) {
    let client = world.client().await;
    let seats = client.bare_semaphore(world.name("seats"));
    let name = seats.name().to_owned();
    let most = i32::MAX.unsigned_abs();
    let number = |error: &Error| matches!(error, Error::Invalid(InvalidInput::Number { .. }));
    let none = Error::Invalid(InvalidInput::NoPermits);
    assert_eq!(seats.acquire().permits(0).await.expect_err("no permits"), none);
    assert_eq!(seats.try_acquire_many(0).await.expect_err("no permits"), none);
    assert_eq!(seats.release_permits(0).await.expect_err("no permits"), none);
    assert_eq!(seats.add_permits(0).await.expect_err("no permits"), none);
    for many in [most + 1, u32::MAX] {
        assert!(number(&seats.acquire().permits(many).await.expect_err("too many")));
        assert!(number(&seats.try_acquire_many(many).await.expect_err("too many")));
        assert!(number(&seats.release_permits(many).await.expect_err("too many")));
        assert!(number(&seats.try_set_permits(many).await.expect_err("too many")));
    }
    assert!(!world.exists(&name), "nothing was sent");
    assert!(seats.try_set_permits(most).await.expect("an answer"));
    let error = seats.add_permits(1).await.expect_err("an overflow");
    assert!(number(&error) && error.to_string().contains("2147483648"), "{error}");
    assert_eq!(seats.available_permits().await.expect("an answer"), i64::from(most));
    let unnamed = client.bare_semaphore("").available_permits().await.expect_err("a name that cannot be used");
    assert_eq!(unnamed, Error::Invalid(InvalidInput::Name(NameError::Empty)));
    let taken = world.name("taken");
    let _ = world.command(&taken, &["RPUSH", &taken, "value"]);
    let conflict = |error: &Error| matches!(error, Error::KeyConflict { kind, .. } if kind.contains("list"));
    let taken = client.bare_semaphore(&taken);
    assert!(conflict(&taken.acquire().wait(secs(5)).await.expect_err("a list")));
    assert!(conflict(&taken.try_set_permits(1).await.expect_err("a list")));
    assert!(conflict(&taken.drain_permits().await.expect_err("a list")));
    assert!(conflict(&taken.available_permits().await.expect_err("a list")));
    world.delete(taken.name());
    world.delete(&name);
}

pub(crate) async fn s3_a_lost_reply_leaves_no_permit_behind(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.command_timeout(secs(1))).await;
    let seats = client.bare_semaphore(world.name("seats"));
    world.lose_reply(&script::SEMAPHORE_SET);
    assert!(seats.try_set_permits(5).await.expect("an answer to the second copy"));
    for _ in 0..2 {
        world.lose_reply(&script::SEMAPHORE_ACQUIRE);
        let guard = seats.acquire().permits(2).await.expect("two permits");
        assert_eq!(seats.available_permits().await.expect("an answer"), 3, "they were taken once");
        world.lose_reply(&script::SEMAPHORE_RELEASE);
        guard.release().await.expect("a release");
        assert_eq!(seats.available_permits().await.expect("an answer"), 5, "they were given back once");
    }
    world.swallow_reply(&script::SEMAPHORE_ACQUIRE);
    let mut acquire = Polled::new(seats.acquire().permits(4).into_future());
    assert!(acquire.poll().is_pending(), "its command is under way");
    drop(acquire);
    idle(&client).await;
    assert_eq!(seats.available_permits().await.expect("an answer"), 5, "what the dropped acquire took is back");
}

pub(crate) async fn a_lost_reply_to_an_operation_counts_it_once(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client().await;
    let seats = client.bare_semaphore(world.name("seats"));
    seats.try_set_permits(1).await.expect("an answer");
    world.lose_reply(&script::SEMAPHORE_ADD);
    assert_eq!(seats.add_permits(3).await.expect("an answer"), 4);
    world.lose_request(&script::SEMAPHORE_ADD);
    assert_eq!(seats.release_permits(2).await.expect("an answer"), 6);
    world.lose_reply(&script::SEMAPHORE_DRAIN);
    assert_eq!(seats.drain_permits().await.expect("an answer"), 6, "the copy tells what the first one took");
    assert_eq!(seats.available_permits().await.expect("an answer"), 0);
}

pub(crate) async fn an_operation_on_a_server_that_is_down_is_an_error_in_time(world: World) {
    let world = world.proxied();
    let client = world
        .client_with(|builder| {
            builder.unreachable_after(ms(300)).command_timeout(secs(1)).tuning(Tuning::new().recheck(secs(1)))
        })
        .await;
    let seats = client.bare_semaphore(world.name("seats"));
    world.set_down(true);
    let begun = std::time::Instant::now();
    let error = seats.add_permits(1).await.expect_err("a server that is down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");
    assert!(begun.elapsed() >= ms(250), "{:?}", begun.elapsed());
    world.set_down(false);
    // Connecting again may take longer than this client is willing to be without a server.
    let begun = std::time::Instant::now();
    while let Err(error) = seats.add_permits(1).await {
        assert!(begun.elapsed() < secs(60), "{error}");
    }
}

pub(crate) async fn a_release_that_is_repeated_late_gives_nothing_back_twice(world: World) {
    drop(world);
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
    let seats = client.bare_semaphore("seats");
    seats.try_set_permits(2).await.expect("an answer");
    let guard = seats.acquire().permits(2).await.expect("two permits");
    clock.advance(secs(20 * 60));
    assert!(guard.is_held(), "the record of the hold is gone, and the hold is not");
    guard.release().await.expect("a release");
    assert_eq!(seats.available_permits().await.expect("an answer"), 2, "they are back without a record");
    let guard = seats.acquire().permits(2).await.expect("two permits");
    let release = || FaultTarget::next().script(script::SEMAPHORE_RELEASE.name());
    server.inject(Fault::LoseReply, release());
    server.inject(Fault::LinkDown, release());
    drop(guard);
    clock.advance(secs(20 * 60));
    server.set_down(false);
    clock.advance(secs(60));
    assert_eq!(seats.available_permits().await.expect("an answer"), 2, "the first copy gave them back");
    idle(&client).await;
}
