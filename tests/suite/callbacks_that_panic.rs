//! The application's code that leasehold calls, and that panics: the background goes on.

use crate::support::{RENEWED, World, ms, secs, until};
use futures_util::FutureExt as _;
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::once::Period;
use leasehold::{Client, QuorumLock, telemetry};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use tracing::subscriber::Interest;
use tracing::{Subscriber, span};

/// A recorder that panics whenever this metric is changed, or made known.
struct Panicking {
    metric: &'static str,
    when_registered: bool,
}

impl Panicking {
    const fn at(metric: &'static str) -> Self {
        Self { metric, when_registered: false }
    }

    fn is_of<T>(&self, key: &Key, panicking: impl FnOnce(Arc<Handle>) -> T, other: T) -> T {
        if key.name() != self.metric {
            return other;
        }
        assert!(!self.when_registered, "a recorder that panics");
        panicking(Arc::new(Handle))
    }
}

/// A counter, a gauge and a histogram that panic.
struct Handle;

impl CounterFn for Handle {
    fn increment(&self, _: u64) {
        panic!("a recorder that panics");
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Handle {
    fn increment(&self, _: f64) {
        panic!("a recorder that panics");
    }

    fn decrement(&self, _: f64) {
        panic!("a recorder that panics");
    }

    fn set(&self, _: f64) {}
}

impl HistogramFn for Handle {
    fn record(&self, _: f64) {
        panic!("a recorder that panics");
    }
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.is_of(key, Counter::from_arc, Counter::noop())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.is_of(key, Gauge::from_arc, Gauge::noop())
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.is_of(key, Histogram::from_arc, Histogram::noop())
    }
}

pub(crate) async fn a_recorder_that_panics_does_not_end_the_renewals(_: World) {
    metrics::with_local_recorder(&Panicking::at(telemetry::RENEW_TOTAL), || {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let client = Client::builder().manual_clock(&clock).lease(secs(3)).embedded(&server).expect("a client");
        let guard = client.lock("stock").acquire().into_future().now_or_never().expect("an answer").expect("the lock");
        for _ in 0..100 {
            clock.advance(ms(100));
        }
        assert!(guard.is_held(), "three leases later");
        guard.release().now_or_never().expect("an answer").expect("a release");
    });
}

/// A future of which every step is answered at once.
#[track_caller]
fn now<T>(future: impl IntoFuture<Output = T>) -> T {
    future.into_future().now_or_never().expect("an answer at once")
}

/// Takes locks of every sort, in every way, and ends them in every way. No call may fail, and nothing may be left a lease later.
fn use_every_lock() {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let connect = || Client::builder().manual_clock(&clock).lease(secs(3));
    let client = connect().embedded(&server).expect("a client");
    let lock = client.lock("lock");
    now(now(lock.acquire()).expect("the lock").release()).expect("a release");
    drop(now(lock.try_acquire()).expect("an answer").expect("the lock"));
    now(lock.acquire()).expect("the lock").detach();
    assert!(now(lock.try_acquire()).expect("an answer").is_none());
    clock.advance(secs(4));
    let guard = now(lock.acquire()).expect("the lock");
    drop(now(guard.reenter()).expect("a re-entry"));
    drop(guard);
    clock.advance(ms(1));
    let guard = now(lock.acquire().lease(ms(100))).expect("the lock");
    assert_eq!(now(guard.run(async { 1 })), Ok(1));
    let mut cut_short = Box::pin(guard.run(std::future::pending::<()>()));
    assert!((&mut cut_short).now_or_never().is_none());
    drop(cut_short);
    let mut waiting = Box::pin(lock.acquire().wait(ms(50)).into_future());
    assert!((&mut waiting).now_or_never().is_none());
    clock.advance(ms(60));
    assert!(waiting.now_or_never().expect("an answer").is_err(), "its wait is over");
    clock.advance(ms(100));
    assert!(now(guard.run(async { 1 })).is_err(), "it is lost");
    assert!(now(guard.release()).is_err(), "it is lost");
    assert_eq!(now(lock.with(async |_| 7)), Ok(7));
    drop(lock.acquire().into_future().now_or_never());
    now(lock.acquire()).expect("the lock").detach();
    now(lock.force_release()).expect("an answer");
    now(lock.inspect()).expect("an answer");
    drop(now(client.fair_lock("fair").acquire()).expect("the lock"));
    drop(now(client.fenced_lock("fenced").acquire()).expect("the lock"));
    let halves = client.read_write_lock("halves");
    drop(now(halves.read().acquire()).expect("the lock"));
    let write = now(halves.write().acquire()).expect("the lock");
    now(now(write.downgrade()).expect("the read half").release()).expect("a release");
    let permits = client.semaphore("permits");
    now(permits.try_set_permits(2)).expect("an answer");
    drop(now(permits.acquire().permits(2)).expect("permits"));
    let latch = client.count_down_latch("latch");
    now(latch.try_set_count(1)).expect("an answer");
    let mut waiting = Box::pin(latch.opened().into_future());
    assert!((&mut waiting).now_or_never().is_none());
    now(latch.count_down()).expect("an answer");
    clock.advance(ms(1));
    waiting.now_or_never().expect("an answer").expect("the latch is open");
    now(now(client.multi_lock(["a", "b"].map(|name| client.lock(name))).acquire()).expect("both").release())
        .expect("a release");
    drop(
        now(client.striped_lock("stripes", 4).all_of(["a", "b", "c"]).try_acquire()).expect("an answer").expect("all"),
    );
    drop(now(QuorumLock::new([client.clone()], "quorum").acquire()).expect("the lock"));
    assert_eq!(now(client.leader("leader").run(async |_| 7)), Ok(Some(7)));
    now(client.once("once", Period::key("1")).run(async |_| 7)).expect("an answer");
    // A lock that one task hands on to another, and one that lingers.
    let handing = connect().hand_over(true).embedded(&server).expect("a client");
    let lock = handing.lock("handed on");
    let guard = now(lock.acquire()).expect("the lock");
    let mut next = Box::pin(lock.acquire().into_future());
    assert!((&mut next).now_or_never().is_none());
    now(guard.release()).expect("a release");
    drop(next.now_or_never().expect("an answer at once").expect("the lock"));
    let lingering = client.lock("lingering").linger(ms(50));
    for _ in 0..3 {
        now(now(lingering.acquire()).expect("the lock").release()).expect("a release");
    }
    // A renewal, and a loss without a server.
    let held = now(client.lock("held").acquire()).expect("the lock");
    clock.advance(secs(2));
    assert!(held.is_held());
    server.set_down(true);
    clock.advance(secs(8));
    assert!(!held.is_held());
    drop(held);
    server.set_down(false);
    for _ in 0..100 {
        clock.advance(ms(100));
    }
    for client in [&client, &handing] {
        let left = client.stats();
        assert_eq!((left.held, left.cleaning_up, left.requests), (0, 0, 0), "{left:?}");
    }
    let other = connect().embedded(&server).expect("a client");
    for name in ["lock", "a", "b", "stripes:0", "quorum", "handed on", "lingering", "held"] {
        drop(now(other.lock(name).try_acquire()).expect("an answer").unwrap_or_else(|| panic!("{name} is free")));
    }
    now(client.shutdown(secs(1))).expect("nothing is left");
}

pub(crate) async fn a_recorder_that_panics_leaves_no_lock(_: World) {
    use_every_lock();
    for metric in [
        telemetry::ACQUIRE_TOTAL,
        telemetry::ACQUIRE_SECONDS,
        telemetry::HANDED_ON_TOTAL,
        telemetry::WAITING,
        telemetry::HELD,
        telemetry::HOLD_SECONDS,
        telemetry::RELEASE_TOTAL,
        telemetry::LOST_TOTAL,
        telemetry::RENEW_TOTAL,
        telemetry::CLEAN_UP_TOTAL,
        telemetry::CONNECTED,
        telemetry::USER_CODE_PANIC_TOTAL,
    ] {
        for when_registered in [false, true] {
            metrics::with_local_recorder(&Panicking { metric, when_registered }, use_every_lock);
        }
    }
}

/// What a subscriber is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    NewSpan,
    Record,
    Event,
    Enter,
    Exit,
    Close,
}

/// A subscriber that panics at one of its methods.
struct PanickingSubscriber(At, AtomicU64);

impl PanickingSubscriber {
    fn called(&self, at: At) {
        assert_ne!(self.0, at, "a subscriber that panics");
    }
}

impl Subscriber for PanickingSubscriber {
    fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        self.called(At::NewSpan);
        span::Id::from_u64(self.1.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {
        self.called(At::Record);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.called(At::Event);
    }

    fn enter(&self, _: &span::Id) {
        self.called(At::Enter);
    }

    fn exit(&self, _: &span::Id) {
        self.called(At::Exit);
    }

    fn try_close(&self, _: span::Id) -> bool {
        self.called(At::Close);
        true
    }
}

pub(crate) async fn a_subscriber_that_panics_leaves_no_lock(_: World) {
    for at in [At::NewSpan, At::Record, At::Event, At::Enter, At::Exit, At::Close] {
        tracing::subscriber::with_default(PanickingSubscriber(at, AtomicU64::new(0)), use_every_lock);
    }
}

/// A waker that panics, and tells that it was called.
#[derive(Default)]
struct PanickingWaker(AtomicBool);

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("a waker that panics");
    }
}

pub(crate) async fn a_waker_that_panics_does_not_end_the_renewals(_: World) {
    let client = Client::builder().lease(RENEWED).embedded(&EmbeddedServer::new()).expect("a client");
    let (kept, held) = (client.lock("kept").acquire().await.expect("a lock"), client.lock("stock").acquire().await);
    let lock = client.lock("stock");
    let mut waiting = Box::pin(lock.acquire().into_future());
    let panicking = Arc::<PanickingWaker>::default();
    let waker = Waker::from(panicking.clone());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The background releases what is dropped, and wakes the waiter.
    drop(held);
    until("the background has called it", || panicking.0.load(Ordering::SeqCst)).await;
    assert!(waiting.await.is_ok(), "the waiter that is polled again gets the lock");
    tokio::time::sleep(RENEWED * 3 / 2).await;
    assert!(kept.is_held());
    kept.release().await.expect("a release");
}
