//! Metrics and traces. Their names are part of the API.
//!
//! Metrics use the facade crate `metrics`. To receive metrics, install a recorder *before* you build the clients. Without a recorder, metrics cost
//! nothing. Their label is the class of a lock ([`Lock::class`](crate::Lock::class)), never its name, because names are unbounded. Metrics of a
//! connection have the server's address as their label.
//!
//! Each constant describes its metric: [`ACQUIRE_TOTAL`] counts acquires, [`HELD`] and [`WAITING`] are gauges, and the names of histograms end with
//! `_seconds`.
//!
//! Every series of a class exists from the first lock of that class, and all other series from the first client, at 0. An alert on the growth of a
//! counter therefore fires on the first event. Each metric has a unit and a description. [`BUCKETS_SECONDS`] are buckets for the histograms.
//!
//! Traces use the crate `tracing`. The spans are [`SPAN_ACQUIRE`], [`SPAN_HOLD`] (entered by
//! [`Guard::run`](crate::Guard::run)) and [`SPAN_RELEASE`]. Their fields:
//!
//! | field | spans | value |
//! |---|---|---|
//! | `lock` | all | the name from the program, unless [`span_lock_names`](crate::ClientBuilder::span_lock_names) is off |
//! | `class` | all | the class of the lock |
//! | `outcome` | all | the label of the metric, such as `acquired` or `released`; for work under a guard only `lost` |
//! | `waited_ms` | acquire | duration of the acquire in milliseconds |
//! | `holder`, `token` | all | the holder's id on the server, and its fencing token if it has one |
//!
//! Their level is DEBUG, or INFO with [`span_level`](crate::ClientBuilder::span_level). Events that need attention have the level WARN, with the
//! fields `lock` and `class` or `reason`. The event of a loss also has `holder`, `token` and `held_ms`. The value of `lock` is a string: a
//! subscriber escapes its line feeds and control characters. Times are whole milliseconds, in fields that end with `_ms`.
//!
//! A client logs its connection once at INFO: the addresses without credentials, the topology, the kind and version of the server, and
//! `took_ms`. At DEBUG, a line for each finished acquire has `lock`, `kind`, `outcome` and `waited_ms`, and a line for the end of each guard
//! has `held_ms` instead. Without a subscriber at that level, these lines cost nothing.

pub(crate) mod names;
mod spans;

pub use names::*;
pub use spans::SpanLevel;
pub(crate) use spans::{InSpan, Span, record_hold, span_of_acquire, span_of_hold, span_of_release};

use crate::runtime::user_code::{self, UserCode};
use leasehold_core::error::LossReason;
use leasehold_core::link::ServerInfo;
use leasehold_core::session::{Event, Failure};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sends an event to the subscriber and catches its panics, because the subscriber is foreign code.
macro_rules! event {
    ($level:ident, $($fields:tt)*) => {
        $crate::runtime::user_code::call($crate::runtime::user_code::UserCode::Telemetry, || tracing::$level!($($fields)*))
    };
}
pub(crate) use event;

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A metric handle of the recorder, or `None` after a panic of the recorder. Each call catches panics, because the recorder is user code.
#[derive(Debug)]
pub(crate) struct Metric<T>(Option<T>);

impl<T> Metric<T> {
    fn of(register: impl FnOnce() -> T) -> Self {
        Self(user_code::value(UserCode::Telemetry, register))
    }

    fn call(&self, work: impl FnOnce(&T)) {
        if let Some(handle) = &self.0 {
            user_code::call(UserCode::Telemetry, || work(handle));
        }
    }
}

impl Metric<Counter> {
    pub(crate) fn add(&self, number: u64) {
        self.call(|counter| counter.increment(number));
    }
}

impl Metric<Gauge> {
    /// Adds to the gauge. A negative change lowers it.
    pub(crate) fn change(&self, change: f64) {
        self.call(|gauge| gauge.increment(change));
    }
}

impl Metric<Histogram> {
    pub(crate) fn record(&self, time: Duration) {
        self.call(|histogram| histogram.record(time.as_secs_f64()));
    }
}

/// The counter of one outcome of an acquire or a release, and its label.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) word: &'static str,
    counter: Metric<Counter>,
}

impl Outcome {
    pub(crate) fn count(&self) {
        self.counter.add(1);
    }
}

/// The metric handles of a class, which avoid a lookup at each acquire.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: Arc<str>,
    pub(crate) acquired: Outcome,
    pub(crate) busy: Outcome,
    pub(crate) wait_elapsed: Outcome,
    pub(crate) cancelled: Outcome,
    pub(crate) failed: Outcome,
    pub(crate) acquire_seconds: Metric<Histogram>,
    pub(crate) handed_on: Metric<Counter>,
    pub(crate) waiting: Metric<Gauge>,
    pub(crate) held: Metric<Gauge>,
    pub(crate) hold_seconds: Metric<Histogram>,
    pub(crate) released: Outcome,
    pub(crate) release_lost: Outcome,
    pub(crate) release_failed: Outcome,
    pub(crate) dropped: Outcome,
    pub(crate) detached: Outcome,
}

impl Class {
    fn new(name: &Arc<str>) -> Self {
        let class = || name.clone();
        let outcome = |total: &'static str, word: &'static str| Outcome {
            word,
            counter: Metric::of(|| counter!(total, "class" => class(), "outcome" => word)),
        };
        let acquire = |word| outcome(ACQUIRE_TOTAL, word);
        let release = |word| outcome(RELEASE_TOTAL, word);
        // An alert on growth sees the first loss only if the series existed at 0.
        for reason in LossReason::ALL {
            drop(Metric::of(|| counter!(LOST_TOTAL, "class" => class(), "reason" => reason.as_str())));
        }
        Self {
            name: class(),
            acquired: acquire("acquired"),
            busy: acquire("busy"),
            wait_elapsed: acquire("wait_elapsed"),
            cancelled: acquire("cancelled"),
            failed: acquire("failed"),
            acquire_seconds: Metric::of(|| histogram!(ACQUIRE_SECONDS, "class" => class())),
            handed_on: Metric::of(|| counter!(HANDED_ON_TOTAL, "class" => class())),
            waiting: Metric::of(|| gauge!(WAITING, "class" => class())),
            held: Metric::of(|| gauge!(HELD, "class" => class())),
            hold_seconds: Metric::of(|| histogram!(HOLD_SECONDS, "class" => class())),
            released: release("released"),
            release_lost: release("lost"),
            release_failed: release("failed"),
            dropped: release("dropped"),
            detached: release("detached"),
        }
    }
}

/// Sends a lasting problem at WARN, and a failure within an outage, which is reported once, at DEBUG.
macro_rules! at_level {
    ($lasting:expr, $($fields:tt)*) => {
        if $lasting {
            event!(warn, $($fields)*);
        } else {
            event!(debug, $($fields)*);
        }
    };
}

/// The classes of a client, and the reporter of its background.
#[derive(Debug)]
pub(crate) struct Classes {
    met: Mutex<HashMap<Arc<str>, Arc<Class>>>,
    /// The connected servers, as counted in the gauge.
    connected: Mutex<HashSet<String>>,
}

/// Counts and logs a panic of the background.
pub(crate) fn report_panic() {
    Metric::of(|| counter!(BUG_TOTAL)).add(1);
    event!(
        error,
        "a bug of leasehold: the background panicked, and all locks of this client are lost; please report the panic's message and \
         the version"
    );
}

impl Classes {
    /// Describes every metric, and registers the metrics without a class and the default class.
    pub(crate) fn new() -> Self {
        user_code::call(UserCode::Telemetry, describe);
        let classes = Self { met: Mutex::default(), connected: Mutex::default() };
        classes.get(DEFAULT_CLASS);
        classes
    }

    pub(crate) fn get(&self, class: &str) -> Arc<Class> {
        if let Some(known) = self.met.lock().get(class) {
            return known.clone();
        }
        // The recorder is foreign code and may use the client, so it runs, and its handles drop, without the lock. If another thread
        // has inserted the class by then, that entry counts.
        let name = Arc::from(class);
        let new = Arc::new(Class::new(&name));
        let mut classes = self.met.lock();
        let counts = classes.entry(name).or_insert_with(|| new.clone()).clone();
        drop(classes);
        counts
    }

    /// Sets the gauge of a server, which exists after the first event of the server.
    fn set_connected(&self, server: String, stands: bool) {
        let mut connected = self.connected.lock();
        let change = match stands {
            true => f64::from(u8::from(connected.insert(server.clone()))),
            false => -f64::from(u8::from(connected.remove(&server))),
        };
        drop(connected);
        Metric::of(|| gauge!(CONNECTED, "server" => server)).change(change);
    }

    /// Resets the gauges after the end of the background and its connections.
    pub(crate) fn end_connections(&self) {
        let connected = std::mem::take(&mut *self.connected.lock());
        for server in connected {
            Metric::of(|| gauge!(CONNECTED, "server" => server)).change(-1.0);
        }
    }

    /// Counts and logs an event of the session.
    pub(crate) fn report(&self, event: Event) {
        match event {
            Event::Lost { name, class, reason, holder, token, held } => {
                Metric::of(|| counter!(LOST_TOTAL, "class" => class.clone(), "reason" => reason.as_str())).add(1);
                let (class, holder, held_ms) = (&*class, &*String::from_utf8_lossy(&holder), millis(held));
                let text = match reason {
                    LossReason::ShutDown => "a guard outlived the shutdown of its client".to_owned(),
                    reason => format!("the lock was lost: {reason}"),
                };
                at_level!(
                    reason != LossReason::ShutDown,
                    lock = name.as_str(),
                    class,
                    reason = reason.as_str(),
                    holder,
                    token,
                    held_ms,
                    "{text}"
                );
            }
            Event::Renewed { holds, left, oldest } => {
                Metric::of(|| histogram!(RENEWAL_LEFT_SECONDS)).record(left);
                Metric::of(|| histogram!(OLDEST_HOLD_SECONDS)).record(oldest);
                Metric::of(|| counter!(RENEW_TOTAL, "outcome" => "renewed")).add(1);
                Metric::of(|| counter!(RENEWED_HOLDS_TOTAL)).add(u64::try_from(holds).unwrap_or(u64::MAX));
            }
            Event::RenewalFailed(holds, Failure { why, lasting }) => {
                Metric::of(|| counter!(RENEW_TOTAL, "outcome" => "failed")).add(1);
                at_level!(lasting, holds, why, "renewal failed; retrying until the leases end");
            }
            Event::Connected { server, again, out_for } => {
                if again {
                    Metric::of(|| counter!(RECONNECTS_TOTAL)).add(1);
                }
                if let Some(out_for) = out_for {
                    event!(info, server, out_for_ms = millis(out_for), "the server is reachable again");
                }
                self.set_connected(server, true);
            }
            Event::OutOfReach { server, why, holds, first_lost_in } => {
                // The field is absent without a hold that can be lost.
                let first_lost_in_ms = first_lost_in.map(millis);
                event!(
                    warn,
                    server,
                    why,
                    holds,
                    first_lost_in_ms,
                    "the server is unreachable: holds are lost at the end of their leases, unless the client reconnects first"
                );
                self.set_connected(server, false);
            }
            Event::Retired { server, out_for } => {
                if let Some(out_for) = out_for {
                    event!(
                        info,
                        server,
                        out_for_ms = millis(out_for),
                        "other servers have replaced the unreachable server"
                    );
                }
                self.set_connected(server, false);
            }
            Event::UnpolledTurn(name) => {
                Metric::of(|| counter!(UNPOLLED_TURNS_TOTAL)).add(1);
                event!(debug, lock = name.as_str(), "a waiter's future was not polled in time for its turn");
            }
            Event::QueuesBehindOwnClient(name) => {
                event!(
                    debug,
                    lock = name.as_str(),
                    "a task waits for a lock that this client holds under another owner"
                );
            }
            Event::WaitsForOwnClient(name) => {
                event!(
                    warn,
                    lock = name.as_str(),
                    "a task has waited for longer than a lease for a lock that this client has held throughout under another owner; if \
                     the holder waits for this task, this is a deadlock: re-enter with an owner"
                );
            }
            Event::Endless(name) => {
                Metric::of(|| counter!(ENDLESS_TOTAL)).add(1);
                event!(
                    warn,
                    lock = name.as_str(),
                    "a task waits for a lock without a time to live, which no lease ends: inspect its holder, and use \
                     force_release if the holder is gone"
                );
            }
            Event::Unset(name) => {
                Metric::of(|| counter!(UNSET_TOTAL)).add(1);
                event!(
                    warn,
                    lock = name.as_str(),
                    "a task waits for permits of a semaphore that does not exist, because it was never set, or was deleted: \
                     set it with try_set_permits"
                );
            }
            Event::CleanedUp(name) => {
                Metric::of(|| counter!(CLEAN_UP_TOTAL, "outcome" => "done")).add(1);
                event!(debug, lock = name.as_str(), "the background released an abandoned lock");
            }
            Event::CleanUpFailed(name, Failure { why, lasting }) => {
                Metric::of(|| counter!(CLEAN_UP_TOTAL, "outcome" => "failed")).add(1);
                at_level!(lasting, lock = name.as_str(), why, "cleanup of a lock failed; retrying");
            }
            Event::Degraded(name) => {
                Metric::of(|| counter!(FALLBACK_TOTAL, "event" => "degraded")).add(1);
                event!(warn, lock = name.as_str(), "the lock was granted without the server, which is unreachable");
            }
            Event::Restored(name) => {
                Metric::of(|| counter!(FALLBACK_TOTAL, "event" => "restored")).add(1);
                event!(info, lock = name.as_str(), "the server confirmed a lock that was granted without it");
            }
            Event::QueuePositionLost(name) => {
                Metric::of(|| counter!(QUEUE_POSITIONS_LOST_TOTAL)).add(1);
                event!(warn, lock = name.as_str(), "a waiter lost its place in the queue and rejoined at the tail");
            }
            Event::HeartbeatFailed(name, Failure { why, lasting }) => {
                at_level!(lasting, lock = name.as_str(), why, "heartbeat for waiters failed");
            }
            Event::SubscribeFailed(name, Failure { why, lasting }) => {
                at_level!(lasting, lock = name.as_str(), why, "cannot subscribe to release notices yet; retrying");
            }
            _ => {}
        }
    }
}

// The gauge counts clients whose background runs.
impl Drop for Classes {
    fn drop(&mut self) {
        self.end_connections();
    }
}

/// Starts the measurement of a connect to `address`, which contains no credentials. The returned value reports the connection.
pub(crate) fn connecting(address: String, topology: &'static str) -> impl Fn(&ServerInfo) {
    let begun = Instant::now();
    move |server| {
        event!(
            info,
            server = address,
            topology,
            flavor = server.flavor,
            version = server.version,
            took_ms = millis(begun.elapsed()),
            "connected"
        );
    }
}

/// Reports a server whose policy can evict a held lock.
pub(crate) fn report_eviction_policy(policy: &str) {
    Metric::of(|| counter!(EVICTION_TOTAL)).add(1);
    event!(
        warn,
        policy,
        "the server's maxmemory-policy can evict a held lock: set it to noeviction, or use a separate server for locks"
    );
}
