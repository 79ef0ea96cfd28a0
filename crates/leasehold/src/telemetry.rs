//! Metrics and traces. Their names are part of the API.
//!
//! Metrics go through the facade of the crate `metrics`: an application that installs a recorder *before* it builds its
//! clients sees them, and for any other they cost nothing. They are labelled with the class that the caller gives to a lock
//! ([`Lock::class`](crate::Lock::class)), never with a lock's name, because names are without number; what is said of a
//! connection is labelled with the server's address.
//!
//! | metric | sort | labels | what it counts |
//! |---|---|---|---|
//! | [`ACQUIRE_TOTAL`] | counter | `class`, `outcome` | acquires that came to an end |
//! | [`ACQUIRE_SECONDS`] | histogram | `class` | from the first poll to the guard, waiting included |
//! | [`WAITING`] | gauge | `class` | callers whose acquire is under way |
//! | [`HELD`] | gauge | `class` | guards that exist |
//! | [`HOLD_SECONDS`] | histogram | `class` | from grant to the guard's end |
//! | [`RELEASE_TOTAL`] | counter | `class`, `outcome` | releases that came to an end, and guards that were dropped |
//! | [`LOST_TOTAL`] | counter | `class`, `reason` | holds that were lost |
//! | [`RENEW_TOTAL`] | counter | `outcome` | renewals, one for each batch |
//! | [`RENEWED_HOLDS_TOTAL`] | counter | | holds in renewals that were answered |
//! | [`RENEWAL_LEFT_SECONDS`] | histogram | | how long before its deadline a hold was renewed; of each batch the one with the least time left |
//! | [`OLDEST_HOLD_SECONDS`] | histogram | | for how long a hold has been held that is renewed; of each batch the oldest |
//! | [`TURN_PASSED_TOTAL`] | counter | | waiters that were not polled in time |
//! | [`PLACE_LOST_TOTAL`] | counter | | waiters of fair locks that lost their place and went on at the tail |
//! | [`ENDLESS_TOTAL`] | counter | | locks without a time to live that a caller was found to wait for |
//! | [`UNSET_TOTAL`] | counter | | semaphores that are not there and that a caller was found to wait for |
//! | [`FALLBACK_TOTAL`] | counter | `event` | locks that were granted without the server, and those that it granted later |
//! | [`CLEAN_UP_TOTAL`] | counter | `outcome` | what the lifeline did for callers that were gone |
//! | [`CONNECTED`] | gauge | `server` | clients whose lifeline is connected to the server |
//! | [`RECONNECTS_TOTAL`] | counter | | connections of lifelines that were made anew |
//! | [`EVICTION_TOTAL`] | counter | | clients that found an eviction policy that can evict a held lock |
//! | [`FOREIGN_PANIC_TOTAL`] | counter | `code` | panics of the application's code that were caught |
//!
//! Every series of a class exists from the first lock of that class, and all others from the first client, at 0: an alert on the growth of a
//! counter sees the first event, too. Each metric has a unit and a description. [`BUCKETS_SECONDS`] are buckets for the histograms.
//!
//! Traces go through the crate `tracing`. The spans are [`SPAN_ACQUIRE`], [`SPAN_HOLD`] (entered by
//! [`Guard::run`](crate::Guard::run)) and [`SPAN_RELEASE`]. Their fields:
//!
//! | field | of | what it has |
//! |---|---|---|
//! | `lock` | all | the name as the program gave it, unless [`span_lock_names`](crate::ClientBuilder::span_lock_names) says no |
//! | `class` | all | the class of the lock |
//! | `outcome` | all | the word of the metric: of an acquire `acquired`, of a release `released`; of work under a guard only `lost` |
//! | `waited_ms` | acquire | how long the acquire took, in milliseconds |
//! | `holder`, `token` | all | what the hold is called on the server, and its fencing token where it has one |
//!
//! Their level is DEBUG, or INFO by [`span_level`](crate::ClientBuilder::span_level). An event that needs a person's eye has the level
//! WARN, with the fields `lock` and `class` or `reason`; that of a loss has `holder`, `token` and `held_ms` as well.

use crate::foreign::{self, Foreign};
use crate::target::Target;
use leasehold_core::error::LossReason;
use leasehold_core::hold_cell::HoldCell;
use leasehold_core::session::Event;
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tracing::Span;

/// Counts acquires by `class` and `outcome`: `acquired`, `busy`, `wait_elapsed`, `cancelled` or `failed`.
pub const ACQUIRE_TOTAL: &str = "leasehold_acquire_total";
/// Seconds from the first poll of an acquire to its guard, by `class`.
pub const ACQUIRE_SECONDS: &str = "leasehold_acquire_seconds";
/// How many acquires are under way, by `class`.
pub const WAITING: &str = "leasehold_waiting";
/// How many guards exist, by `class`.
pub const HELD: &str = "leasehold_held";
/// Seconds from a guard's grant to its end, by `class`.
pub const HOLD_SECONDS: &str = "leasehold_hold_seconds";
/// Counts releases by `class` and `outcome`: `released`, `lost`, `failed`, `dropped` or `detached`.
pub const RELEASE_TOTAL: &str = "leasehold_release_total";
/// Counts lost holds by `class` and `reason`, a word of [`LossReason::as_str`].
pub const LOST_TOTAL: &str = "leasehold_lost_total";
/// Counts renewals by `outcome`: `renewed` or `failed`.
pub const RENEW_TOTAL: &str = "leasehold_renew_total";
/// Counts the holds in renewals that were answered.
pub const RENEWED_HOLDS_TOTAL: &str = "leasehold_renewed_holds_total";
/// Seconds before its deadline at which a hold was renewed, once for each batch: of the hold with the least time left. Two thirds of the lease where
/// all is well; towards 0 a loss is near.
pub const RENEWAL_LEFT_SECONDS: &str = "leasehold_renewal_left_seconds";
/// Seconds for which the oldest hold of a renewed batch has been held, once for each batch.
pub const OLDEST_HOLD_SECONDS: &str = "leasehold_oldest_hold_seconds";
/// Counts waiters whose future was not polled in time when its turn had come.
pub const TURN_PASSED_TOTAL: &str = "leasehold_turn_passed_total";
/// Counts waiters of fair locks that lost their place in the queue and went on at the tail.
pub const PLACE_LOST_TOTAL: &str = "leasehold_places_lost_total";
/// Counts locks without a time to live that a caller was found to wait for: no lease ends them.
pub const ENDLESS_TOTAL: &str = "leasehold_endless_total";
/// Counts semaphores that are not there and that a caller was found to wait for: their number was never set, or they were deleted.
pub const UNSET_TOTAL: &str = "leasehold_unset_total";
/// Counts by `event` locks that were granted without the server, `degraded`, and those that it granted later, `restored`.
pub const FALLBACK_TOTAL: &str = "leasehold_fallback_total";
/// Counts what the lifeline cleaned up, by `outcome`: `done` or `failed`, which is tried again.
pub const CLEAN_UP_TOTAL: &str = "leasehold_clean_up_total";
/// How many clients of this process have a lifeline that is connected to a server, by `server`: its address. At 0 it is out of reach of them,
/// or they have ended.
pub const CONNECTED: &str = "leasehold_connected";
/// Counts connections of lifelines that were lost and made anew.
pub const RECONNECTS_TOTAL: &str = "leasehold_reconnects_total";
/// Counts clients that found an eviction policy other than `noeviction`.
pub const EVICTION_TOTAL: &str = "leasehold_eviction_policy_total";
/// Counts by `code`, `waker` or `telemetry`, panics of the application's code that leasehold called and caught.
pub const FOREIGN_PANIC_TOTAL: &str = "leasehold_foreign_panic_total";

/// Upper bounds of buckets, in seconds, for [`ACQUIRE_SECONDS`], [`HOLD_SECONDS`], [`RENEWAL_LEFT_SECONDS`] and
/// [`OLDEST_HOLD_SECONDS`]: from an uncontended acquire to the work of an hour.
///
/// Give them to the exporter, because some, as that for Prometheus, otherwise make a summary of a histogram, and summaries of several
/// processes cannot be added up: `PrometheusBuilder::set_buckets_for_metric(Matcher::Full(ACQUIRE_SECONDS.to_owned()), &BUCKETS_SECONDS)`.
pub const BUCKETS_SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0, 600.0, 3600.0];

/// The span of an acquire.
pub const SPAN_ACQUIRE: &str = "leasehold.acquire";
/// The span of work that runs under a guard.
pub const SPAN_HOLD: &str = "leasehold.hold";
/// The span of a release.
pub const SPAN_RELEASE: &str = "leasehold.release";

/// The class of locks to which none was given.
pub const DEFAULT_CLASS: &str = "default";

/// The level of the spans of a client. See [`ClientBuilder::span_level`](crate::ClientBuilder::span_level).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanLevel {
    /// For those who look for a fault.
    #[default]
    Debug,
    /// For applications whose traces shall always show their locks.
    Info,
}

/// How a client traces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) level: SpanLevel,
    pub(crate) lock_names: bool,
}

impl Default for Spans {
    fn default() -> Self {
        Self { level: SpanLevel::default(), lock_names: true }
    }
}

/// A span of what is asked of a lock, or done under it, at the level that the client has for spans. A field that is not known yet is
/// recorded later.
macro_rules! span {
    ($name:expr, $target:expr) => {
        match $target.handle().settings.spans.level {
            SpanLevel::Debug => span!(debug_span, $name, $target),
            SpanLevel::Info => span!(info_span, $name, $target),
        }
    };
    ($at_level:ident, $name:expr, $target:expr) => {
        tracing::$at_level!(
            $name,
            lock = $target.handle().settings.spans.lock_names.then(|| $target.name()),
            class = &*$target.metrics().name,
            outcome = tracing::field::Empty,
            waited_ms = tracing::field::Empty,
            holder = tracing::field::Empty,
            token = tracing::field::Empty
        )
    };
}

/// The span of an acquire.
pub(crate) fn span_of_acquire(target: &Target) -> Span {
    span!(SPAN_ACQUIRE, target)
}

/// The span of work under this hold.
pub(crate) fn span_of_hold(target: &Target, hold: &HoldCell) -> Span {
    about(span!(SPAN_HOLD, target), hold)
}

/// The span of a release of this hold.
pub(crate) fn span_of_release(target: &Target, hold: &HoldCell) -> Span {
    about(span!(SPAN_RELEASE, target), hold)
}

fn about(span: Span, hold: &HoldCell) -> Span {
    record_hold(&span, hold);
    span
}

/// Records which hold a span is about.
pub(crate) fn record_hold(span: &Span, hold: &HoldCell) {
    if span.is_disabled() {
        return;
    }
    span.record("holder", &*String::from_utf8_lossy(&hold.key().field));
    if let Some(token) = hold.token() {
        span.record("token", token);
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One end of an acquire or a release: the word of it, and how often there was one.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) word: &'static str,
    counter: Counter,
}

impl Outcome {
    pub(crate) fn count(&self) {
        self.counter.increment(1);
    }
}

/// The handles of a class, so that the way of a lock looks up no metric.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: Arc<str>,
    pub(crate) acquired: Outcome,
    pub(crate) busy: Outcome,
    pub(crate) wait_elapsed: Outcome,
    pub(crate) cancelled: Outcome,
    pub(crate) failed: Outcome,
    pub(crate) acquire_seconds: Histogram,
    pub(crate) waiting: Gauge,
    pub(crate) held: Gauge,
    pub(crate) hold_seconds: Histogram,
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
            counter: counter!(total, "class" => class(), "outcome" => word),
        };
        let acquire = |word| outcome(ACQUIRE_TOTAL, word);
        let release = |word| outcome(RELEASE_TOTAL, word);
        // An alert on the growth of a series sees the first loss only where the series was there before it, at 0.
        for reason in LossReason::ALL {
            drop(counter!(LOST_TOTAL, "class" => class(), "reason" => reason.as_str()));
        }
        Self {
            name: class(),
            acquired: acquire("acquired"),
            busy: acquire("busy"),
            wait_elapsed: acquire("wait_elapsed"),
            cancelled: acquire("cancelled"),
            failed: acquire("failed"),
            acquire_seconds: histogram!(ACQUIRE_SECONDS, "class" => class()),
            waiting: gauge!(WAITING, "class" => class()),
            held: gauge!(HELD, "class" => class()),
            hold_seconds: histogram!(HOLD_SECONDS, "class" => class()),
            released: release("released"),
            release_lost: release("lost"),
            release_failed: release("failed"),
            dropped: release("dropped"),
            detached: release("detached"),
        }
    }
}

/// An event at level WARN if it lasts until an operator acts, and at DEBUG if it belongs to an outage, which is told once.
macro_rules! at_level {
    ($lasting:expr, $($fields:tt)*) => {
        if $lasting {
            tracing::warn!($($fields)*);
        } else {
            tracing::debug!($($fields)*);
        }
    };
}

/// The classes that a client has met, and what its lifeline reports.
#[derive(Debug)]
pub(crate) struct Classes {
    met: Mutex<HashMap<Arc<str>, Arc<Class>>>,
    /// The servers that the lifeline is connected to, as the gauge has it.
    connected: Mutex<HashSet<String>>,
}

impl Classes {
    /// Describes every metric, and registers those without a class, and those of the default one.
    pub(crate) fn new() -> Self {
        foreign::call(Foreign::Telemetry, || {
            describe();
            register();
        });
        let classes = Self { met: Mutex::default(), connected: Mutex::default() };
        classes.get(DEFAULT_CLASS);
        classes
    }

    pub(crate) fn get(&self, class: &str) -> Arc<Class> {
        if let Some(known) = self.met.lock().get(class) {
            return known.clone();
        }
        // The recorder is foreign code, which may itself use the client: it is asked without the lock. A value that another thread made
        // meanwhile counts, and this one's is dropped without it as well.
        let name = Arc::from(class);
        let new = Arc::new(Class::new(&name));
        let mut classes = self.met.lock();
        let counts = classes.entry(name).or_insert_with(|| new.clone()).clone();
        drop(classes);
        counts
    }

    /// Sets the gauge of a server, which exists from the first word on it.
    fn set_connected(&self, server: String, stands: bool) {
        let mut connected = self.connected.lock();
        let change = match stands {
            true => f64::from(u8::from(connected.insert(server.clone()))),
            false => -f64::from(u8::from(connected.remove(&server))),
        };
        drop(connected);
        gauge!(CONNECTED, "server" => server).increment(change);
    }

    /// Counts and logs what happened in the session.
    pub(crate) fn report(&self, event: Event) {
        match event {
            Event::Lost { name, class, reason, holder, token, held } => {
                counter!(LOST_TOTAL, "class" => class.clone(), "reason" => reason.as_str()).increment(1);
                let (class, holder, held_ms) = (&*class, &*String::from_utf8_lossy(&holder), millis(held));
                if reason == LossReason::ShutDown {
                    tracing::debug!(
                        lock = %name, class, reason = reason.as_str(), holder, token, held_ms,
                        "the lock was taken from its guards"
                    );
                } else {
                    tracing::warn!(
                        lock = %name, class, reason = reason.as_str(), holder, token, held_ms,
                        "the lock was lost: {reason}"
                    );
                }
            }
            Event::Renewed { holds, left, oldest } => {
                histogram!(RENEWAL_LEFT_SECONDS).record(left.as_secs_f64());
                histogram!(OLDEST_HOLD_SECONDS).record(oldest.as_secs_f64());
                counter!(RENEW_TOTAL, "outcome" => "renewed").increment(1);
                counter!(RENEWED_HOLDS_TOTAL).increment(u64::try_from(holds).unwrap_or(u64::MAX));
            }
            Event::RenewalFailed { holds, why, lasting } => {
                counter!(RENEW_TOTAL, "outcome" => "failed").increment(1);
                at_level!(lasting, holds, why, "a renewal failed and is tried again while the leases last");
            }
            Event::Connected { server, again, out_for } => {
                if again {
                    counter!(RECONNECTS_TOTAL).increment(1);
                }
                if let Some(out_for) = out_for {
                    tracing::info!(server, ?out_for, "the server is in reach again");
                }
                self.set_connected(server, true);
            }
            Event::OutOfReach { server, why, holds, first_lost_in } => {
                let first_lost_in = first_lost_in.map(|left| format!("{left:?}")).unwrap_or_else(|| "never".to_owned());
                tracing::warn!(
                    server,
                    why,
                    holds,
                    first_lost_in,
                    "the server is out of reach: holds are lost when their leases end, unless it comes back before"
                );
                self.set_connected(server, false);
            }
            Event::Retired { server, out_for } => {
                if let Some(out_for) = out_for {
                    tracing::info!(server, ?out_for, "others have taken over from the server that was out of reach");
                }
                self.set_connected(server, false);
            }
            Event::TurnPassed { name } => {
                counter!(TURN_PASSED_TOTAL).increment(1);
                tracing::debug!(lock = %name, "a waiter's future was not polled when its turn had come");
            }
            Event::QueuesBehindOwnClient { name } => {
                tracing::debug!(lock = %name, "a task waits for a lock that this client holds under another owner");
            }
            Event::WaitsForOwnClient { name } => {
                tracing::warn!(
                    lock = %name,
                    "a task has waited for longer than a lease for a lock that this client has held all the while under another owner; if \
                     the holder waits for this task, neither goes on: re-enter with an owner"
                );
            }
            Event::Endless { name } => {
                counter!(ENDLESS_TOTAL).increment(1);
                tracing::warn!(
                    lock = %name,
                    "a task waits for a lock that has no time to live on the server, so that no lease ends it: look at its \
                     holder by inspect, and end it by force_release if that is gone"
                );
            }
            Event::Unset { name } => {
                counter!(UNSET_TOTAL).increment(1);
                tracing::warn!(
                    lock = %name,
                    "a task waits for permits of a semaphore that is not there: it was never set, or it was deleted; the task waits \
                     until try_set_permits sets it"
                );
            }
            Event::CleanedUp { name } => {
                counter!(CLEAN_UP_TOTAL, "outcome" => "done").increment(1);
                tracing::debug!(lock = %name, "the lifeline released a lock that its caller had left");
            }
            Event::CleanUpFailed { name, why, lasting } => {
                counter!(CLEAN_UP_TOTAL, "outcome" => "failed").increment(1);
                at_level!(lasting, lock = %name, why, "a lock could not be cleaned up yet; it is tried again");
            }
            Event::Degraded { name } => {
                counter!(FALLBACK_TOTAL, "event" => "degraded").increment(1);
                tracing::warn!(lock = %name, "the lock was granted without the server, which is out of reach");
            }
            Event::Restored { name } => {
                counter!(FALLBACK_TOTAL, "event" => "restored").increment(1);
                tracing::info!(lock = %name, "the server granted a lock that had been granted without it");
            }
            Event::PlaceLost { name } => {
                counter!(PLACE_LOST_TOTAL).increment(1);
                tracing::warn!(lock = %name, "a waiter lost its place in the queue and goes on at the tail");
            }
            Event::BeatFailed { name, why, lasting } => {
                at_level!(lasting, lock = %name, why, "the server could not be told that waiters of the lock live");
            }
            Event::SubscribeFailed { name, why, lasting } => {
                at_level!(lasting, lock = %name, why, "release notices cannot be had yet; it is tried again");
            }
            _ => {}
        }
    }
}

/// The gauge goes by clients that live.
impl Drop for Classes {
    fn drop(&mut self) {
        let connected = std::mem::take(self.connected.get_mut());
        foreign::call(Foreign::Telemetry, || {
            connected.into_iter().for_each(|server| gauge!(CONNECTED, "server" => server).decrement(1.0));
        });
    }
}

/// Makes every series that has no class, at 0.
fn register() {
    for (name, label, words) in [
        (RENEW_TOTAL, "outcome", ["renewed", "failed"]),
        (CLEAN_UP_TOTAL, "outcome", ["done", "failed"]),
        (FALLBACK_TOTAL, "event", ["degraded", "restored"]),
        (FOREIGN_PANIC_TOTAL, "code", ["waker", "telemetry"]),
    ] {
        for word in words {
            drop(counter!(name, label => word));
        }
    }
    for name in [
        RENEWED_HOLDS_TOTAL,
        TURN_PASSED_TOTAL,
        PLACE_LOST_TOTAL,
        ENDLESS_TOTAL,
        UNSET_TOTAL,
        RECONNECTS_TOTAL,
        EVICTION_TOTAL,
    ] {
        drop(counter!(name));
    }
}

/// Gives each metric its unit and its help.
fn describe() {
    for (name, help) in [
        (ACQUIRE_TOTAL, "Acquires that came to an end"),
        (RELEASE_TOTAL, "Releases that came to an end, and guards that were dropped or detached"),
        (LOST_TOTAL, "Holds that were lost"),
        (RENEW_TOTAL, "Renewals, one for each batch"),
        (RENEWED_HOLDS_TOTAL, "Holds in renewals that were answered"),
        (TURN_PASSED_TOTAL, "Waiters that were not polled in time when their turn had come"),
        (PLACE_LOST_TOTAL, "Waiters of fair locks that lost their place in the queue"),
        (ENDLESS_TOTAL, "Locks without a time to live that a caller was found to wait for"),
        (UNSET_TOTAL, "Semaphores that are not there and that a caller was found to wait for"),
        (FALLBACK_TOTAL, "Locks that were granted without the server, and those that it granted later"),
        (CLEAN_UP_TOTAL, "Locks that were released for callers that were gone"),
        (FOREIGN_PANIC_TOTAL, "Panics of the application's code that were caught"),
        (RECONNECTS_TOTAL, "Connections of lifelines that were made anew"),
        (EVICTION_TOTAL, "Clients that found an eviction policy that can evict a held lock"),
    ] {
        describe_counter!(name, Unit::Count, help);
    }
    describe_histogram!(ACQUIRE_SECONDS, Unit::Seconds, "From the first poll of an acquire to its guard");
    describe_histogram!(HOLD_SECONDS, Unit::Seconds, "From a grant to the guard's end");
    describe_histogram!(
        OLDEST_HOLD_SECONDS,
        Unit::Seconds,
        "How long the oldest hold of a renewed batch has been held"
    );
    describe_histogram!(RENEWAL_LEFT_SECONDS, Unit::Seconds, "How long before its deadline a hold was renewed");
    describe_gauge!(WAITING, Unit::Count, "Callers whose acquire is under way");
    describe_gauge!(CONNECTED, Unit::Count, "Clients whose lifeline is connected to the server");
    describe_gauge!(HELD, Unit::Count, "Guards that exist");
}

/// The server's eviction policy can evict a lock while it is held.
pub(crate) fn report_eviction_policy(policy: &str) {
    counter!(EVICTION_TOTAL).increment(1);
    tracing::warn!(
        policy,
        "the server's maxmemory-policy can evict a lock while it is held: set it to noeviction, or give locks a server of \
         their own"
    );
}
