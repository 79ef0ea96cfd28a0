//! The ground of the tests of the suite: an engine, a second look at what is on it, and the faults on the way to it.

pub(crate) mod engine;
pub(crate) mod kinds;
mod monitor;
pub(crate) mod polled;
pub(crate) mod stage;
pub(crate) mod wire;
pub(crate) mod world;

pub(crate) use engine::Engine;
pub(crate) use kinds::Kind;
pub(crate) use polled::Polled;
pub(crate) use stage::{Actor, Stage};
pub(crate) use wire::Sent;
pub(crate) use world::World;

use std::time::{Duration, Instant};

/// How long a condition may take to come true. It is long because the machine may be busy; nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(300);

/// A renewed lease on the machine's clock: short enough to wait for its end, and long enough for a machine on which no thread of a client runs
/// for a second.
pub(crate) const RENEWED: Duration = secs(2);

/// Longer than a test may take. A test with such a lease, or such a re-check, reaches its [`LIMIT`] if it waits for the end of one.
pub(crate) const NEVER: Duration = secs(600);

/// Runs one test of the suite on one engine.
pub(crate) fn run(engine: Engine, test: impl AsyncFnOnce(World)) {
    crate::suite::telemetry::Collector::install();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ended = runtime.block_on(async { tokio::time::timeout(LIMIT, test(World::on(engine))).await });
    // A process that a failed test left running must not stay.
    runtime.shutdown_background();
    ended.expect("a test that ends in time");
}

/// Waits until `holds`, and fails with `what` where it does not.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    let end = Instant::now() + PATIENCE;
    async move {
        while !holds() {
            assert!(Instant::now() < end, "{place}: waited in vain until {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Milliseconds.
pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Seconds.
pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
