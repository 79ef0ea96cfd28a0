//! Code of others that a client calls: a back-off, a waker, a recorder of metrics, a subscriber of traces, and the drop of each. It runs under
//! no lock of the client, so that it may use the client itself.

use crate::support::{World, ms, secs};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::{Backoff, Client, Error, Guard};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::future::IntoFuture as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};

/// Foreign code that uses the client, and counts how often it ran.
struct Foreign {
    client: Client,
    guard: Option<Arc<Guard>>,
    ran: Arc<AtomicUsize>,
}

impl Foreign {
    fn run(&self) {
        let _census = self.client.stats();
        if let Some(guard) = &self.guard {
            // It looks for a place among those who are woken at the end.
            assert!(guard.lost().now_or_never().is_none());
        }
        self.ran.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.run();
    }
}

/// Runs `work` on a thread of its own, because what waits for itself never ends.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    ended.recv_timeout(secs(20)).expect("foreign code that does not wait for the lock that its own client holds")
}

pub(crate) async fn a_back_off_may_use_its_client(world: World) {
    let (holder, client) = (world.client().await, world.client().await);
    let name = world.name("backed-off");
    let held = holder.spin_lock(&name).acquire().await.expect("the lock");
    let (ran, runtime) = (Arc::<AtomicUsize>::default(), tokio::runtime::Handle::current());
    let foreign = Foreign { client: client.clone(), guard: None, ran: ran.clone() };
    let failures = Arc::<AtomicUsize>::default();
    let counted = failures.clone();
    let backoff = Backoff::custom(move |failure| {
        foreign.run();
        counted.fetch_add(1, Ordering::SeqCst);
        (failure < 3).then_some(ms(2))
    });
    let waits = client.spin_lock(&name).acquire().backoff(backoff);
    let outcome = ends(move || runtime.block_on(waits.into_future()));
    assert!(matches!(outcome, Err(Error::WaitElapsed { .. })), "{outcome:?}");
    assert_eq!(failures.load(Ordering::SeqCst), 3, "asked once after each failure");
    assert_eq!(ran.load(Ordering::SeqCst), 4, "three times, and when it was dropped");
    held.release().await.expect("a release");
}

pub(crate) async fn a_waker_may_use_its_client(world: World) {
    let (holder, client) = (world.client().await, world.client().await);
    let name = world.name("woken");
    let held = holder.lock(&name).acquire().await.expect("the lock");
    let mine = Arc::new(client.lock(world.name("mine")).acquire().await.expect("the lock"));
    let (ran, runtime) = (Arc::<AtomicUsize>::default(), tokio::runtime::Handle::current());
    let foreign = || {
        let foreign = Foreign { client: client.clone(), guard: Some(mine.clone()), ran: ran.clone() };
        Waker::from(Arc::new(foreign))
    };
    // Each future has wakers of its own, so that the client has the last reference to each of them.
    let wakers: [[Waker; 3]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| foreign()));
    let waits = client.lock(&name).acquire().wait(secs(10));
    let watched = mine.clone();
    ends(move || {
        let _entered = runtime.enter();
        let lost = async move { Err(watched.lost().await.into()) };
        let mut futures: [BoxFuture<'_, Result<Guard, Error>>; 2] = [waits.into_future().boxed(), lost.boxed()];
        for (future, wakers) in futures.iter_mut().zip(wakers) {
            for waker in wakers {
                assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
        }
        drop(futures);
    });
    assert!(ran.load(Ordering::SeqCst) >= 6, "each was dropped, and each used the client");
    drop(mine);
    held.release().await.expect("a release");
}

/// A client on a clock that is moved by hand: its background runs in the thread that uses it.
fn inline() -> (ManualClock, Client) {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(&clock).lease(secs(3)).embedded(&server).expect("a client");
    (clock, client)
}

/// Acquires by the client, whose background cleans up.
fn use_both_ways(clock: &ManualClock, client: &Client, class: &'static str) {
    let lock = client.lock(class).class(class);
    let guard = lock.acquire().into_future().now_or_never().expect("at once").expect("the lock");
    drop(guard);
    clock.advance(ms(1));
}

thread_local! {
    /// Foreign code does not call itself.
    static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

struct Uses(ManualClock, Client, AtomicUsize);

impl Uses {
    fn run(&self) {
        // Its own events are told to it again: it does not do so for ever.
        if self.2.load(Ordering::SeqCst) < 100 && !INSIDE.replace(true) {
            use_both_ways(&self.0, &self.1, "within");
            let _census = self.1.stats();
            self.2.fetch_add(1, Ordering::SeqCst);
            INSIDE.set(false);
        }
    }
}

impl Recorder for Uses {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        self.run();
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        self.run();
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        self.run();
        Histogram::noop()
    }
}

pub(crate) async fn a_recorder_of_metrics_may_use_the_client(_: World) {
    let ran = ends(|| {
        let (clock, client) = inline();
        let recorder = Uses(clock.clone(), client.clone(), AtomicUsize::new(0));
        metrics::with_local_recorder(&recorder, || use_both_ways(&clock, &client, "orders"));
        recorder.2.load(Ordering::SeqCst)
    });
    assert!(ran > 0, "it was asked for metrics");
}

impl tracing::Subscriber for Uses {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.run();
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.run();
    }

    fn enter(&self, _: &tracing::span::Id) {
        self.run();
    }

    fn exit(&self, _: &tracing::span::Id) {
        self.run();
    }
}

pub(crate) async fn a_subscriber_of_traces_may_use_the_client(_: World) {
    let ran = ends(|| {
        let (clock, client) = inline();
        let subscriber = Arc::new(Uses(clock.clone(), client.clone(), AtomicUsize::new(0)));
        let dispatch = tracing::Dispatch::from(subscriber.clone() as Arc<dyn tracing::Subscriber + Send + Sync>);
        tracing::dispatcher::with_default(&dispatch, || use_both_ways(&clock, &client, "orders"));
        subscriber.2.load(Ordering::SeqCst)
    });
    assert!(ran > 0, "it was told of spans");
}
