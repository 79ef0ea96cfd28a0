//! The application's code that leasehold calls, and that panics: the background goes on.

use crate::support::{RENEWED, World, ms, secs, until};
use futures_util::FutureExt as _;
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::{Client, telemetry};
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// A recorder that panics whenever a renewal is counted.
struct Panicking;

impl CounterFn for Panicking {
    fn increment(&self, _: u64) {
        panic!("a recorder that panics");
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == telemetry::RENEW_TOTAL { Counter::from_arc(Arc::new(Self)) } else { Counter::noop() }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

pub(crate) async fn a_recorder_that_panics_does_not_end_the_renewals(_: World) {
    metrics::with_local_recorder(&Panicking, || {
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
