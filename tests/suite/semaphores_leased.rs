//! The leased semaphore.

use super::semaphores::{crowd, waits};
use crate::support::world::idle;
use crate::support::{NEVER, Polled, RENEWED, World, ms, secs};
use leasehold::{Error, InvalidInput, LossReason, PermitId, Semaphore, Tuning};
use leasehold_core::script;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Waits until no permit is held any more.
async fn expired(seats: &Semaphore, id: PermitId) {
    let end = Instant::now() + secs(20);
    while seats.lease_of(id).await.expect("an answer").is_some() {
        assert!(Instant::now() < end, "the permit does not expire");
        tokio::time::sleep(ms(5)).await;
    }
}

async fn available(seats: &Semaphore) -> i64 {
    seats.available_permits().await.expect("an answer")
}

pub(crate) async fn s1_what_a_crashed_holder_had_is_back_after_its_lease(world: World) {
    let (crashed, other) =
        (world.client().await, world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await);
    let name = world.name("seats");
    let seats = other.semaphore(&name);
    seats.try_set_permits(2).await.expect("an answer");
    let taken = Instant::now();
    // It is neither renewed nor released: to the server that is a crash.
    crashed.semaphore(&name).acquire().permits(2).lease(ms(300)).await.expect("two permits").detach();
    let tried = seats.try_acquire().await.expect("an answer");
    assert!(tried.is_none() || taken.elapsed() >= ms(300), "the permits are taken");
    drop(tried);
    let guard = seats.acquire().permits(2).await.expect("the permits, when their lease has run out");
    guard.release().await.expect("a release");
    assert_eq!(available(&seats).await, 2);
    idle(&other).await;
}

pub(crate) async fn s4_a_capacity_that_is_there_is_not_set_again(world: World) {
    let client = world.client().await;
    let seats = client.semaphore(world.name("seats"));
    assert_eq!(seats.inspect().await.expect("an answer"), None);
    assert!(seats.try_set_permits(2).await.expect("an answer"));
    let all = seats.acquire().permits(2).await.expect("two permits");
    assert!(!seats.try_set_permits(5).await.expect("an answer"));
    assert_eq!((available(&seats).await, seats.held_permits().await.expect("an answer")), (0, 2));
    all.release().await.expect("a release");
    assert_eq!((available(&seats).await, seats.held_permits().await.expect("an answer")), (2, 0));
    idle(&client).await;
}

pub(crate) async fn s5_of_two_waiters_for_two_permits_one_proceeds(world: World) {
    let (holder, one, other) = (world.client().await, world.client().await, world.client().await);
    let name = world.name("seats");
    holder.semaphore(&name).try_set_permits(2).await.expect("an answer");
    let guard = holder.semaphore(&name).acquire().permits(2).await.expect("two permits");
    let inside = Arc::new(AtomicI64::new(0));
    let waiting = [&one, &other].map(|client| {
        let (seats, inside) = (client.semaphore(&name), inside.clone());
        tokio::spawn(async move {
            let guard = seats.acquire().permits(2).await.expect("two permits");
            assert_eq!(guard.ids().into_iter().collect::<HashSet<_>>().len(), 2, "each permit has an id of its own");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
            tokio::time::sleep(ms(20)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.expect("a release");
        })
    });
    waits(&one, 1).await;
    waits(&other, 1).await;
    guard.release().await.expect("a release");
    for task in waiting {
        task.await.expect("a task that gets its permits");
    }
    assert_eq!(available(&holder.semaphore(&name)).await, 2);
    idle(&one).await;
    idle(&other).await;
}

pub(crate) async fn s6_permits_that_are_added_wake_who_waits(world: World) {
    let (operator, waiter) = (world.client().await, world.client().await);
    for how in ["none was ever set", "there were none", "a greater capacity"] {
        let name = world.name("seats");
        let seats = operator.semaphore(&name);
        if how != "none was ever set" {
            assert!(seats.try_set_permits(0).await.expect("an answer"));
        }
        let waiting = tokio::spawn({
            let seats = waiter.semaphore(&name);
            async move { seats.acquire().permits(2).await }
        });
        waits(&waiter, 1).await;
        let now = if how == "a greater capacity" { seats.resize(3).await } else { seats.add_permits(3).await };
        assert_eq!(now.expect("an answer"), 3, "{how}");
        let guard = waiting.await.expect("a task").expect("two permits");
        assert_eq!(available(&seats).await, 1, "{how}");
        guard.release().await.expect("a release");
        idle(&waiter).await;
    }
}

pub(crate) async fn s7_each_of_several_permits_is_given_back_on_its_own(world: World) {
    let (client, operator) = (world.client().await, world.client().await);
    let name = world.name("seats");
    let seats = client.semaphore(&name);
    seats.try_set_permits(3).await.expect("an answer");
    let short = seats.acquire().lease(ms(100)).await.expect("a permit");
    let gone = short.ids()[0];
    short.detach();
    expired(&seats, gone).await;
    let live = seats.acquire().await.expect("a permit");
    let ids = [gone, live.ids()[0], "00000000000000000000000000000000".parse().expect("an id"), live.ids()[0]];
    let given = operator.semaphore(&name).release_ids(&ids).await.expect("an answer");
    assert_eq!(given, [false, true, false, false], "each for itself, and one that is named twice once");
    assert_eq!(available(&seats).await, 3, "the live one is back, although the other was not there any more");
    assert_eq!(seats.release_ids(&[]).await.expect("an answer"), [false; 0]);
    assert!(matches!(live.release().await, Err(Error::Lost { .. })), "somebody else gave it back");
    assert_eq!(available(&seats).await, 3, "and it is not given back twice");
    idle(&client).await;
}

pub(crate) async fn s11_more_than_there_are_in_all_is_refused_at_once(world: World) {
    let client = world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await;
    let seats = client.semaphore(world.name("seats"));
    seats.try_set_permits(3).await.expect("an answer");
    let one = seats.acquire().await.expect("a permit");
    let error = seats.acquire().permits(4).await.expect_err("more than there are");
    assert!(matches!(error, Error::ExceedsCapacity { capacity: 3, .. }), "{error}");
    let error = seats.try_acquire_many(4).await.expect_err("more than there are");
    assert!(matches!(error, Error::ExceedsCapacity { capacity: 3, .. }), "{error}");
    let rest = seats.acquire().permits(2).wait(secs(5)).await.expect("nobody stands in the way of the others");
    one.release().await.expect("a release");
    rest.release().await.expect("a release");
    idle(&client).await;
}

pub(crate) async fn too_many_permits_are_refused_before_sending(world: World) {
    let world = world.own();
    let client = world.client().await;
    let seats = client.semaphore(world.name("seats"));
    seats.try_set_permits(1_000_000).await.expect("an answer");
    let before = world.calls();
    for given in [Semaphore::MAX_AT_ONCE + 1, 1_000_000, u32::MAX] {
        let wanted = Error::Invalid(InvalidInput::TooManyPermits { given, most: Semaphore::MAX_AT_ONCE });
        assert_eq!(seats.acquire().permits(given).await.expect_err("too many"), wanted);
        assert_eq!(seats.try_acquire_many(given).await.expect_err("too many"), wanted);
        assert!(wanted.to_string().contains("several guards"), "{wanted}");
    }
    assert_eq!(world.calls(), before, "nothing was sent");
    let most = seats.acquire().permits(Semaphore::MAX_AT_ONCE).await.expect("as many as are allowed");
    assert_eq!(most.ids().into_iter().collect::<HashSet<_>>().len(), 1_000, "each has an id of its own");
    // Ids from several guards go back in one call of the API, whatever number of commands that takes.
    let other = seats.acquire().permits(700).await.expect("capacity is left");
    let ids = [most.ids(), other.ids()].concat();
    most.detach();
    other.detach();
    assert_eq!(seats.release_ids(&ids).await.expect("an answer"), vec![true; 1_700]);
    assert_eq!(available(&seats).await, 1_000_000);
    // A bare counter does not look at each permit.
    let bare = client.bare_semaphore(world.name("bare"));
    bare.try_set_permits(i32::MAX.unsigned_abs()).await.expect("an answer");
    let all = bare.acquire().permits(i32::MAX.unsigned_abs()).await.expect("all of them");
    all.release().await.expect("a release");
}

pub(crate) async fn s12_permits_are_renewed_and_a_loss_is_told(world: World) {
    let client = world.client_with(|builder| builder.lease(RENEWED)).await;
    let operator = world.client().await;
    let name = world.name("seats");
    let seats = client.semaphore(&name);
    seats.try_set_permits(3).await.expect("an answer");
    let kept = seats.acquire().permits(2).await.expect("two permits");
    tokio::time::sleep(RENEWED * 9 / 8).await;
    assert!(kept.is_held() && kept.remaining() > Duration::ZERO, "the leases were renewed: {kept:?}");
    for id in kept.ids() {
        let held = seats.lease_of(id).await.expect("an answer").expect("it is held");
        assert!(held.remaining.is_some_and(|left| left > Duration::ZERO && left <= RENEWED), "{held:?}");
    }
    assert_eq!(operator.semaphore(&name).release_ids(&kept.ids()[..1]).await.expect("an answer"), [true]);
    let lost = tokio::time::timeout(secs(20), kept.lost()).await.expect("the guard learns of it");
    assert_eq!(lost.reason(), LossReason::Removed);
    assert!(matches!(kept.release().await, Err(Error::Lost { .. })));
    idle(&client).await;
    let end = Instant::now() + secs(20);
    while available(&seats).await < 3 {
        assert!(Instant::now() < end, "what was left of the lost hold is back when its lease has run out");
        tokio::time::sleep(ms(5)).await;
    }
    let fixed = seats.acquire().lease(ms(100)).await.expect("a permit");
    assert_eq!(fixed.lost().await.reason(), LossReason::LeaseExpired);
}

pub(crate) async fn s13_the_shortest_and_the_longest_lease(world: World) {
    let client = world.client().await;
    let seats = client.semaphore(world.name("seats"));
    seats.try_set_permits(2).await.expect("an answer");
    for lease in [Duration::ZERO, ms(1), ms(49), leasehold::MAX_LEASE + ms(1), Duration::MAX] {
        let error = seats.acquire().lease(lease).await.expect_err("a lease that cannot be used");
        assert!(matches!(error, Error::Invalid(InvalidInput::Duration { what: "lease", .. })), "{error}");
    }
    let long = seats.acquire().lease(leasehold::MAX_LEASE).await.expect("a permit");
    let left =
        seats.lease_of(long.ids()[0]).await.expect("an answer").and_then(|held| held.remaining).expect("a lease");
    assert!(left > leasehold::MAX_LEASE - secs(60) && left <= leasehold::MAX_LEASE, "{left:?}");
    let half_a_second = seats.acquire().lease(ms(500)).await.expect("a permit");
    let left = seats.lease_of(half_a_second.ids()[0]).await.expect("an answer").and_then(|held| held.remaining);
    assert!(left.is_none_or(|left| left <= ms(500)), "sub-second leases are not rounded up: {left:?}");
    assert!(half_a_second.remaining() <= ms(500));
    half_a_second.detach();
    long.release().await.expect("a release");
    // Both numbers of one moment: the lease may run out between two.
    let seen = seats.inspect().await.expect("an answer").expect("a semaphore");
    assert_eq!(seen.available + i64::try_from(seen.held).expect("few"), 2);
}

pub(crate) async fn s14_contention_loses_no_permit(world: World) {
    let clients = [world.client().await, world.client().await];
    let name = world.name("seats");
    clients[0].semaphore(&name).try_set_permits(3).await.expect("an answer");
    crowd(clients.each_ref().map(|client| client.semaphore(&name)), 3).await;
    assert_eq!(available(&clients[0].semaphore(&name)).await, 3);
    idle(&clients[0]).await;
    idle(&clients[1]).await;
}

pub(crate) async fn a_capacity_changes_under_its_holders(world: World) {
    let client = world.client().await;
    let seats = client.semaphore(world.name("seats")).class("tests");
    seats.try_set_permits(2).await.expect("an answer");
    let (one, two) = (seats.acquire().await.expect("a permit"), seats.acquire().await.expect("a permit"));
    assert_eq!(seats.resize(1).await.expect("an answer"), -1);
    assert!(one.is_held() && two.is_held(), "nobody loses a permit by it");
    let counts = seats.inspect().await.expect("an answer").expect("a semaphore");
    assert_eq!((counts.available, counts.held, counts.permits.len()), (-1, 2, 2));
    let ids: HashSet<_> = counts.permits.iter().map(|held| held.id).collect();
    assert_eq!(ids, HashSet::from([one.ids()[0], two.ids()[0]]));
    assert_eq!(one.ids()[0].to_string().len(), 32);
    assert_eq!(one.ids()[0].to_string().parse(), Ok(one.ids()[0]));
    one.release().await.expect("a release");
    assert!(seats.try_acquire().await.expect("an answer").is_none(), "there is one permit, and it is held");
    two.release().await.expect("a release");
    assert_eq!(available(&seats).await, 1);
    assert_eq!(seats.add_permits(-2).await.expect("an answer"), -1);
    assert!(seats.try_acquire().await.expect("an answer").is_none(), "of a capacity below zero nobody gets a permit");
    world.delete(seats.name());
}

pub(crate) async fn s3_a_lost_reply_leaves_no_permit_behind(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.command_timeout(secs(1))).await;
    let seats = client.semaphore(world.name("seats"));
    world.lose_reply(&script::PERMITS_SET);
    assert!(seats.try_set_permits(5).await.expect("an answer to the second copy"));
    world.lose_reply(&script::PERMITS_ACQUIRE);
    let guard = seats.acquire().permits(2).await.expect("two permits");
    assert_eq!(available(&seats).await, 3, "they were taken once");
    world.lose_reply(&script::PERMITS_RELEASE);
    guard.release().await.expect("a release");
    assert_eq!(available(&seats).await, 5, "they were given back once");
    world.lose_reply(&script::PERMITS_RESIZE);
    assert_eq!(seats.resize(6).await.expect("an answer"), 6);
    world.swallow_reply(&script::PERMITS_ACQUIRE);
    let mut acquire = Polled::new(seats.acquire().permits(4).into_future());
    assert!(acquire.poll().is_pending(), "its command is under way");
    drop(acquire);
    idle(&client).await;
    assert_eq!(available(&seats).await, 6, "what the dropped acquire took is back");
}

pub(crate) async fn what_cannot_be_a_number_of_permits_is_refused(world: World) {
    let client = world.client().await;
    let seats = client.semaphore(world.name("seats"));
    let most = i32::MAX.unsigned_abs();
    let number = |error: &Error| matches!(error, Error::Invalid(InvalidInput::Number { .. }));
    let none = Error::Invalid(InvalidInput::NoPermits);
    assert_eq!(seats.acquire().permits(0).await.expect_err("no permits"), none);
    assert_eq!(seats.add_permits(0).await.expect_err("no permits"), none);
    assert!(number(&seats.try_set_permits(u32::MAX).await.expect_err("too many")));
    assert!(number(&seats.resize(most + 1).await.expect_err("too many")));
    assert!(!world.exists(seats.name()), "nothing was sent");
    seats.try_set_permits(most).await.expect("an answer");
    assert!(number(&seats.add_permits(1).await.expect_err("an overflow")));
    let taken = world.name("taken");
    let _ = world.command(&taken, &["RPUSH", &taken, "value"]);
    let conflict = |error: &Error| matches!(error, Error::KeyConflict { kind, .. } if kind.contains("list"));
    let seats = client.semaphore(&taken);
    assert!(conflict(&seats.acquire().wait(secs(5)).await.expect_err("a list")));
    assert!(conflict(&seats.inspect().await.expect_err("a list")));
    assert!(conflict(&seats.resize(1).await.expect_err("a list")));
    assert!(conflict(
        &seats.release_ids(&["00000000000000000000000000000000".parse().expect("an id")]).await.expect_err("a list")
    ));
    world.delete(&taken);
}
