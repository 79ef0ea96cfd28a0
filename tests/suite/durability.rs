//! Locks that replicas must acknowledge, on an engine whose replicas are a number, and whose clock the tests move.

use crate::support::{World, ms, secs};
use futures_util::FutureExt as _;
use leasehold::embedded::{EmbeddedServer, Fault, FaultTarget, ManualClock};
use leasehold::{Acquire, Client, ClientBuilder, ClientStats, Error, Guard, LossReason, Replicas};
use std::time::Duration;

const ONE: Replicas = Replicas { at_least: 1, within: secs(1) };

/// An engine with a clock, and what the clients on it share.
struct Stage {
    clock: ManualClock,
    server: EmbeddedServer,
}

impl Stage {
    fn new(replicas: u32) -> Self {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        server.set_replicas(replicas);
        Self { clock, server }
    }

    fn client(&self) -> Client {
        self.client_with(|builder| builder)
    }

    fn client_with(&self, settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        settings(Client::builder()).manual_clock(&self.clock).embedded(&self.server).expect("a client")
    }

    fn exists(&self, key: &str) -> bool {
        self.server.keys().iter().any(|known| known == key.as_bytes())
    }
}

async fn durable(client: &Client, name: &str) -> Result<Guard, Error> {
    client.lock(name).acquire().durable(ONE).await
}

#[track_caller]
fn fell_short<T>(result: Result<T, Error>, acknowledged: u32, wanted: u32) {
    match result {
        Err(Error::NotReplicated { acknowledged: got, wanted: asked, .. }) => {
            assert_eq!((got, asked), (acknowledged, wanted));
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was granted"),
    }
}

/// A caller that is told that replicas are missing finds the lock free, and so do all others.
pub(crate) async fn a_shortfall_is_taken_back_and_said(_: World) {
    let stage = Stage::new(1);
    let (client, other) = (stage.client(), stage.client());
    let wanted = Replicas { at_least: 2, within: secs(1) };
    fell_short(client.lock("stock").acquire().durable(wanted).await, 1, 2);
    assert!(!stage.exists("stock"), "it is free when it is said");
    let guard = other.lock("stock").try_acquire().await.expect("an answer").expect("a lock that is free");
    assert_eq!(guard.acknowledged(), None);
    // A busy lock is busy, and no shortfall.
    assert!(client.lock("stock").acquire().durable(wanted).into_future().now_or_never().is_none(), "it waits");
    guard.release().await.expect("a release");
    stage.server.set_replicas(2);
    let guard = client.lock("stock").acquire().durable(wanted).await.expect("the lock");
    assert_eq!(guard.acknowledged(), Some(2));
    guard.release().await.expect("a release");
    assert_eq!((client.stats(), other.stats()), (ClientStats::default(), ClientStats::default()));
}

/// The caller is not told before the server has taken it back, and not later than the command timeout.
pub(crate) async fn the_error_waits_for_the_undo_but_not_for_ever(_: World) {
    let stage = Stage::new(0);
    let client = stage.client_with(|builder| builder.command_timeout(secs(1)));
    stage.server.inject(Fault::Swallow, FaultTarget::next().script("lock/release"));
    let mut acquiring = Box::pin(client.lock("stock").acquire().durable(ONE).into_future());
    assert!((&mut acquiring).now_or_never().is_none(), "the server has not confirmed that it was taken back");
    stage.clock.advance(ms(999));
    assert!((&mut acquiring).now_or_never().is_none());
    stage.clock.advance(ms(1));
    fell_short(acquiring.now_or_never().expect("an answer"), 0, 1);
    // Dropped in between, it is taken back all the same.
    stage.server.inject(Fault::Swallow, FaultTarget::next().script("lock/release"));
    let mut dropped = Box::pin(client.lock("dropped").acquire().durable(ONE).into_future());
    assert!((&mut dropped).now_or_never().is_none());
    drop(dropped);
    // The replies are missing for good, and the connection says so.
    stage.server.set_down(true);
    stage.server.set_down(false);
    stage.clock.advance(secs(60));
    assert!(stage.server.keys().is_empty(), "{:?}", stage.server.keys());
    assert_eq!(client.stats(), ClientStats::default());
}

/// A renewal that too few acknowledge leaves the deadline where it was, and the primary's word does not count.
pub(crate) async fn only_acknowledged_renewals_move_the_deadline(_: World) {
    let stage = Stage::new(1);
    let (client, other) = (stage.client(), stage.client());
    let guard = durable(&client, "stock").await.expect("the lock");
    stage.clock.advance(secs(3_600));
    assert!(guard.is_held(), "renewed all along");
    // The replicas are away for less than what is left of the lease.
    stage.server.set_replicas(0);
    let left = guard.remaining();
    stage.clock.advance(left - ms(1));
    assert!(guard.is_held());
    assert_eq!(guard.remaining(), ms(1), "no renewal moved the deadline");
    stage.server.set_replicas(2);
    drop(guard);
    stage.clock.advance(secs(1));

    let guard = durable(&client, "stock").await.expect("the lock");
    stage.server.set_replicas(0);
    stage.clock.advance(guard.remaining() - secs(5));
    stage.server.set_replicas(1);
    stage.clock.advance(secs(60));
    assert!(guard.is_held(), "they came back in time");
    assert_eq!(guard.acknowledged(), Some(1));
    stage.server.set_replicas(0);
    let left = guard.remaining();
    stage.clock.advance(left);
    assert_eq!(guard.lost().await.reason(), LossReason::NotRenewed);
    assert!(other.lock("stock").try_acquire().await.expect("an answer").is_none(), "the primary has renewed it");
    drop(guard);
    assert!(other.lock("stock").try_acquire().await.expect("an answer").is_some(), "and releases it");
}

/// A re-entry is under the condition of its hold; where it falls short the hold stays as it was.
pub(crate) async fn a_reentry_that_falls_short_is_taken_back_alone(_: World) {
    let stage = Stage::new(1);
    let client = stage.client();
    let guard = durable(&client, "stock").await.expect("the lock");
    let inner = guard.reenter().await.expect("a re-entry");
    assert_eq!((guard.hold_count(), inner.acknowledged()), (2, Some(1)));
    stage.server.set_replicas(0);
    fell_short(guard.reenter().await, 0, 1);
    assert_eq!((guard.hold_count(), guard.is_held()), (2, true));
    // A release does not ask the replicas.
    inner.release().await.expect("a release");
    assert_eq!(guard.hold_count(), 1);
    stage.server.set_replicas(3);
    // An entry may ask for more than its hold did, and the hold is under that condition from then on.
    let more = Replicas { at_least: 3, ..ONE };
    let owner = client.new_owner();
    let outer = client.lock("other").acquire().owner(&owner).await.expect("the lock");
    assert_eq!(outer.acknowledged(), None);
    let strict = client.lock("other").acquire().owner(&owner).durable(more).await.expect("a re-entry");
    assert_eq!((outer.acknowledged(), strict.acknowledged()), (Some(3), Some(3)));
    stage.server.set_replicas(2);
    stage.clock.advance(outer.remaining());
    assert!(!outer.is_held() && !strict.is_held());
    guard.release().await.expect("a release");
}

/// The other half of a read-write lock that is taken beside a durable one is as durable.
pub(crate) async fn a_downgrade_keeps_the_condition(_: World) {
    let stage = Stage::new(1);
    let client = stage.client();
    let lock = client.read_write_lock("ledger");
    let writing = lock.write().acquire().durable(ONE).await.expect("the lock");
    let reading = writing.downgrade().await.expect("a reader");
    assert_eq!(reading.acknowledged(), Some(1));
    stage.server.set_replicas(0);
    stage.clock.advance(reading.remaining());
    assert_eq!(reading.lost().await.reason(), LossReason::NotRenewed);
}

/// The server may take as long as the replicas are given: the call is neither dead nor left alone until then.
pub(crate) async fn a_call_that_waits_for_replicas_is_left_in_peace(_: World) {
    let stage = Stage::new(1);
    let client = stage.client_with(|builder| builder.command_timeout(secs(1)));
    let patient = Replicas { at_least: 1, within: secs(5) };
    stage.server.inject(Fault::Swallow, FaultTarget::next().script("lock/acquire"));
    let acquires = stage.server.calls("lock/acquire");
    let mut acquiring = Box::pin(client.lock("stock").acquire().durable(patient).into_future());
    assert!((&mut acquiring).now_or_never().is_none());
    for _ in 0..50 {
        stage.clock.advance(ms(100));
        assert!((&mut acquiring).now_or_never().is_none());
    }
    assert_eq!(stage.server.calls("lock/acquire") - acquires, 1, "it was not given up");
    // The reply is missing for good: settled, it is asked for once more, and the copy is granted.
    let mut granted = None;
    for _ in 0..20 {
        stage.clock.advance(ms(100));
        granted = granted.or_else(|| (&mut acquiring).now_or_never());
        if granted.is_some() {
            break;
        }
    }
    let guard = granted.expect("an answer").expect("the lock");
    assert_eq!((guard.acknowledged(), guard.hold_count()), (Some(1), 1));
    assert_eq!(stage.server.calls("lock/acquire") - acquires, 2);
}

/// A renewal that waits for replicas takes no room from the others.
pub(crate) async fn nobody_elses_renewal_waits_for_replicas(_: World) {
    let stage = Stage::new(1);
    let client = stage.client();
    let guard = durable(&client, "durable").await.expect("the lock");
    let plain = client.lock("plain").acquire().await.expect("the lock");
    stage.server.inject(Fault::Swallow, FaultTarget::always().script("lock/renew").durable());
    stage.clock.advance(secs(120));
    assert!(plain.is_held());
    assert_eq!(guard.lost().await.reason(), LossReason::NotRenewed);
}

/// A wish that cannot be meant is refused before anything is sent.
pub(crate) async fn conditions_are_checked_before_anything_is_sent(_: World) {
    let stage = Stage::new(1);
    let client = stage.client();
    let lock = client.lock("stock");
    let refused = async |acquire: Acquire| {
        let error = acquire.await.expect_err("it must be refused");
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        error.to_string()
    };
    let none = Replicas { at_least: 0, within: secs(1) };
    assert!(refused(lock.acquire().durable(none)).await.contains("number of replicas"));
    for within in [Duration::ZERO, Duration::from_micros(999), ms(7_501)] {
        let error = refused(lock.acquire().durable(Replicas { at_least: 1, within })).await;
        assert!(error.contains("time for replicas"), "{error}");
    }
    let error = refused(lock.acquire().lease(secs(2)).durable(ONE)).await;
    assert!(error.contains("500ms"), "a quarter of the lease: {error}");
    assert_eq!(stage.server.calls("lock/acquire"), 0);
}
