//! Copies of calls, delivered at once and late.

use crate::support::wire::Log;
use crate::support::world::idle;
use crate::support::{Sent, World, ms, until};
use leasehold::embedded::{Aim, Fault};
use leasehold::{Client, Lock};
use leasehold_core::script::ACQUIRE;

/// The calls about a lock that were recorded, its renewals included.
fn calls(world: &World, log: &Log, lock: &Lock) -> Vec<Sent> {
    world.sent(log).into_iter().filter(|sent| sent.keys.iter().any(|key| key == lock.name())).collect()
}

/// Delivers the last call once more, and sees that nothing has changed.
#[track_caller]
fn again(world: &World, log: &Log, lock: &Lock, script: &str) {
    let before = (world.holds(lock.name()), world.keys());
    let all = calls(world, log, lock);
    let last = all.iter().rfind(|sent| sent.script == script).expect("a call that was recorded");
    let reply = world.replay(log, last);
    assert!(!reply.is_error(), "{reply:?}");
    assert_eq!((world.holds(lock.name()), world.keys()), before, "a copy of {last:?} changes nothing");
}

/// A hold with every sort of call in it; each is delivered twice.
async fn history(world: &World, log: &Log, client: &Client, lock: &Lock) -> Vec<Sent> {
    let owner = client.new_owner();
    let outer = lock.acquire().owner(&owner).await.expect("the lock");
    again(world, log, lock, "lock/acquire");
    let inner = lock.acquire().owner(&owner).await.expect("a re-entry");
    again(world, log, lock, "lock/acquire");
    until("it is renewed", || calls(world, log, lock).iter().any(|sent| sent.script == "lock/renew" && sent.answered))
        .await;
    again(world, log, lock, "lock/renew");
    inner.release().await.expect("a release");
    again(world, log, lock, "lock/release");
    outer.release().await.expect("a release");
    again(world, log, lock, "lock/release");
    let guard = lock.acquire().owner(&owner).await.expect("the lock");
    assert!(lock.force_release().await.expect("an answer").is_some());
    again(world, log, lock, "lock/force_release");
    drop(guard.release().await);
    world.gone(lock.name()).await;
    calls(world, log, lock).into_iter().filter(|sent| sent.script != "lock/inspect").collect()
}

pub(crate) async fn copies_change_nothing_at_once_or_in_a_later_hold(world: World) {
    let world = world.proxied();
    world.warm();
    let log = world.record();
    let client = world.client_with(|builder| builder.lease(ms(1_500))).await;
    let (other, waiter) = (world.client().await, world.client().await);
    let lock = client.lock(world.name("copied"));
    let old = history(&world, &log, &client, &lock).await;
    for script in ["lock/acquire", "lock/renew", "lock/release", "lock/force_release"] {
        assert!(old.iter().any(|sent| sent.script == script), "{script} was recorded");
    }
    for later in [&client, &other] {
        let guard = later.lock(lock.name()).acquire().lease(ms(5_000)).await.expect("the lock");
        let waiting = tokio::spawn({
            let lock = waiter.lock(lock.name());
            async move { lock.acquire().await.map(drop) }
        });
        until("a waiter listens", || world.subscribers(lock.name()) == 1).await;
        until("the waiter has tried after listening", || {
            let tries = world
                .sent(&log)
                .iter()
                .filter(|sent| sent.args.first().is_some_and(|hold| hold.starts_with(&waiter.id())))
                .count();
            tries >= 2
        })
        .await;
        let holds = world.holds(lock.name());
        let lease = world.lease(lock.name()).expect("a lease");
        let (calls, copies) = (world.calls(), u64::try_from(old.len()).expect("a number"));
        for sent in &old {
            let reply = world.replay(&log, sent);
            assert!(!reply.is_error(), "{reply:?}");
            assert_eq!(world.holds(lock.name()), holds, "a late copy of {sent:?} changes nothing");
            assert!(world.lease(lock.name()).expect("a lease") <= lease, "nor does it prolong the lease");
        }
        assert_eq!(world.calls(), calls + copies, "no waiter is disturbed");
        assert!(guard.is_held());
        guard.release().await.expect("a release");
        waiting.await.expect("a task").expect("the lock");
        world.gone(lock.name()).await;
    }
}

pub(crate) async fn a_first_grant_after_its_time_is_refused(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.not_after(true).command_timeout(ms(200))).await;
    let lock = client.lock(world.name("not-after"));
    // The first reply tells the server's time.
    lock.acquire().await.expect("the lock").release().await.expect("a release");
    let log = world.record();
    lock.acquire().await.expect("the lock").release().await.expect("a release");
    let sent = calls(&world, &log, &lock);
    let acquire = sent.iter().find(|sent| sent.script == ACQUIRE.name()).expect("an acquire");
    assert!(acquire.args[3].parse::<i64>().expect("a time") > 0, "it carries a time: {acquire:?}");
    tokio::time::sleep(ms(400)).await;
    let reply = world.replay(&log, acquire);
    assert_eq!(reply.elements().first().and_then(leasehold_test_support::Resp::as_int), Some(-3), "{reply:?}");
    assert!(!world.exists(lock.name()), "nobody got it");
}

/// A driver that sends everything twice: callers see the replies to the copies only.
pub(crate) async fn copies_whose_replies_are_seen_change_nothing_either(world: World) {
    let world = world.own();
    let server = world.embedded().expect("the embedded engine");
    server.inject(Fault::Duplicate, Aim::always());
    let client = world.client_with(|builder| builder.lease(ms(600))).await;
    let lock = client.lock(world.name("doubled"));
    for _ in 0..3 {
        let guard = lock.acquire().await.expect("the lock");
        assert_eq!((guard.hold_count(), world.count(lock.name())), (1, 1));
        let again = guard.reenter().await.expect("a re-entry");
        assert_eq!((again.hold_count(), world.count(lock.name())), (2, 2));
        until("it was renewed twice", || guard.held_for() > ms(500)).await;
        again.release().await.expect("a release");
        assert_eq!((guard.hold_count(), world.count(lock.name())), (1, 1));
        // The server cannot tell the copy of a last release from one of a hold that was lost, and the caller is told so: our
        // link never sends anything twice.
        drop(guard.release().await);
        world.gone(lock.name()).await;
    }
    idle(&client).await;
}
