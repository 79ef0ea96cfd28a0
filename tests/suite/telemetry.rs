//! Metrics and spans, each once. The background runs inline under a clock that is moved by hand, so that all happens on the
//! thread whose recorder and subscriber are looked at.

use crate::support::{World, ms, secs};
use futures_util::FutureExt as _;
use leasehold::embedded::{EmbeddedServer, Fault, FaultTarget, ManualClock};
use leasehold::{Client, LossReason, telemetry};
use leasehold_core::link::ServerError;
use metrics::{SharedString, Unit};
use metrics_util::CompositeKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Once;
use tracing::field::{Field, Visit};

/// A metric as the recorder has it: its key, unit, description and value.
type Described = (CompositeKey, Option<Unit>, Option<SharedString>, DebugValue);

/// A client and its engine on a clock that is moved by hand.
fn client(clock: &ManualClock) -> (EmbeddedServer, Client) {
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(clock).lease(secs(3)).embedded(&server).expect("a client");
    (server, client)
}

/// Runs a future of which every step is answered at once.
#[track_caller]
fn now<T>(future: impl IntoFuture<Output = T>) -> T {
    future.into_future().now_or_never().expect("an answer at once")
}

/// One acquire and one hold of every outcome, under the class `orders`.
fn play(clock: &ManualClock, server: &EmbeddedServer, client: &Client) {
    let lock = client.lock("telemetry").class("orders");
    let guard = now(lock.acquire()).expect("the lock");
    assert!(now(lock.try_acquire()).expect("an answer").is_none());
    clock.advance(ms(1));
    let mut waiting = Box::pin(lock.acquire().wait(ms(20)).into_future());
    assert!((&mut waiting).now_or_never().is_none());
    clock.advance(ms(25));
    assert!(waiting.now_or_never().expect("an answer").is_err());
    let cancelled = lock.acquire().into_future();
    assert!(cancelled.now_or_never().is_none(), "it is polled once, and dropped");
    // A renewal, one that fails, and its repetition.
    clock.advance(ms(1_000));
    server.inject(Fault::Refuse(ServerError::new("LOADING")), FaultTarget::next().script("lock/renew"));
    clock.advance(ms(1_500));
    assert_eq!(now(guard.run(async { 1 })).expect("work"), 1);
    now(guard.release()).expect("a release");
    drop(now(lock.acquire()).expect("the lock"));
    clock.advance(ms(1));
    now(lock.acquire()).expect("the lock").detach();
    clock.advance(secs(4));
    let guard = now(lock.acquire().lease(ms(100))).expect("the lock");
    clock.advance(ms(200));
    assert!(now(guard.release()).is_err());
    server.inject(Fault::Refuse(ServerError::new("OOM full")), FaultTarget::next().script("lock/acquire"));
    assert!(now(lock.acquire()).is_err());
    server.inject(Fault::Refuse(ServerError::new("OOM full")), FaultTarget::next().script("lock/release"));
    assert!(now(now(lock.acquire()).expect("the lock").release()).is_err());
    clock.advance(secs(1));
    server.inject(Fault::Refuse(ServerError::new("OOM full")), FaultTarget::next().script("lock/release"));
    drop(now(lock.acquire()).expect("the lock"));
    clock.advance(secs(1));
    // A waiter that is not polled when its turn has come.
    let guard = now(lock.acquire()).expect("the lock");
    let mut forgotten = Box::pin(lock.acquire().into_future());
    for _ in 0..5 {
        assert!((&mut forgotten).now_or_never().is_none());
        clock.advance(ms(1));
    }
    now(guard.release()).expect("a release");
    clock.advance(ms(60));
    drop(forgotten);
    clock.advance(secs(1));
}

/// A lock under the class `hot` that one task hands on to another.
fn hand_on(clock: &ManualClock, server: &EmbeddedServer) {
    let client = Client::builder().manual_clock(clock).hand_over(true).embedded(server).expect("a client");
    let lock = client.lock("handed on").class("hot");
    let guard = now(lock.acquire()).expect("the lock");
    let mut next = Box::pin(lock.acquire().into_future());
    assert!((&mut next).now_or_never().is_none());
    let calls = server.calls("lock/acquire") + server.calls("lock/release");
    now(guard.release()).expect("a release");
    let next = next.now_or_never().expect("an answer at once").expect("the lock");
    assert_eq!(server.calls("lock/acquire") + server.calls("lock/release"), calls, "the server is not asked");
    now(next.release()).expect("a release");
}

pub(crate) async fn every_metric_is_counted_under_its_name(_: World) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let clock = ManualClock::new();
        let (server, client) = client(&clock);
        play(&clock, &server, &client);
        hand_on(&clock, &server);
        server.set_eviction_policy("allkeys-lru");
        drop(Client::builder().manual_clock(&clock).embedded(&server).expect("a client"));
    });
    let seen = values(&snapshotter);
    let value = |key: &str| *seen.get(key).unwrap_or_else(|| panic!("{key} is not among {:#?}", seen.keys()));
    let acquire = telemetry::ACQUIRE_TOTAL;
    assert!(value(&format!("{acquire} class=orders outcome=acquired")) >= 6.0);
    assert_eq!(value(&format!("{acquire} class=orders outcome=busy")), 1.0);
    assert!(value(&format!("{acquire} class=orders outcome=wait_elapsed")) >= 1.0);
    assert!(value(&format!("{acquire} class=orders outcome=cancelled")) >= 1.0);
    assert_eq!(value(&format!("{acquire} class=orders outcome=failed")), 1.0);
    let release = telemetry::RELEASE_TOTAL;
    assert_eq!(value(&format!("{release} class=orders outcome=released")), 2.0);
    assert_eq!(value(&format!("{release} class=orders outcome=dropped")), 2.0);
    assert_eq!(value(&format!("{release} class=orders outcome=detached")), 1.0);
    assert_eq!(value(&format!("{release} class=orders outcome=lost")), 1.0);
    assert_eq!(value(&format!("{release} class=orders outcome=failed")), 1.0);
    assert_eq!(value(&format!("{} class=orders reason=lease_expired", telemetry::LOST_TOTAL)), 1.0);
    assert!(value(&format!("{} outcome=renewed", telemetry::RENEW_TOTAL)) >= 1.0);
    assert!(value(&format!("{} outcome=failed", telemetry::RENEW_TOTAL)) >= 1.0);
    assert!(value(telemetry::RENEWED_HOLDS_TOTAL) >= 1.0);
    for name in [telemetry::RENEWAL_LEFT_SECONDS, telemetry::OLDEST_HOLD_SECONDS] {
        assert!(value(name) >= 1.0, "{name}");
    }
    assert_eq!(value(&format!("{} class=hot", telemetry::HANDED_ON_TOTAL)), 1.0);
    assert_eq!(value(&format!("{} class=orders", telemetry::HANDED_ON_TOTAL)), 0.0, "these are granted by the server");
    assert_eq!(value(&format!("{acquire} class=hot outcome=acquired")), 2.0);
    assert!(value(telemetry::UNPOLLED_TURNS_TOTAL) >= 1.0);
    assert!(value(&format!("{} outcome=done", telemetry::CLEAN_UP_TOTAL)) >= 1.0);
    assert!(value(&format!("{} outcome=failed", telemetry::CLEAN_UP_TOTAL)) >= 1.0);
    assert_eq!(value(telemetry::EVICTION_TOTAL), 1.0);
    assert_eq!(value(&format!("{} class=orders", telemetry::WAITING)), 0.0, "nobody waits at the end");
    assert_eq!(value(&format!("{} class=orders", telemetry::HELD)), 0.0, "nobody holds at the end");
    assert!(value(&format!("{} class=orders", telemetry::ACQUIRE_SECONDS)) >= 6.0);
    assert!(value(&format!("{} class=orders", telemetry::HOLD_SECONDS)) >= 6.0);
    let names: Vec<&String> = seen
        .keys()
        .filter(|key| key.contains("=telemetry") && !key.starts_with(telemetry::USER_CODE_PANIC_TOTAL))
        .collect();
    assert!(names.is_empty(), "no metric is labelled with the name of a lock: {names:?}");
}

pub(crate) async fn every_series_is_there_before_its_first_event(_: World) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (_server, client) = client(&ManualClock::new());
        drop(client.lock("telemetry").class("orders"));
    });
    let described = snapshotter.snapshot().into_vec();
    for (key, unit, help, _) in &described {
        assert!(unit.is_some() && help.is_some(), "{} has a unit and a description", key.key().name());
    }
    let seen = values_of(described);
    let zero = |key: String| assert_eq!(seen.get(&key), Some(&0.0), "{key} is among {:#?}", seen.keys());
    for class in ["orders", telemetry::DEFAULT_CLASS] {
        for reason in LossReason::ALL {
            zero(format!("{} class={class} reason={}", telemetry::LOST_TOTAL, reason.as_str()));
        }
        zero(format!("{} class={class} outcome=failed", telemetry::ACQUIRE_TOTAL));
    }
    let labelled = [
        (telemetry::RENEW_TOTAL, "outcome", ["renewed", "failed"]),
        (telemetry::CLEAN_UP_TOTAL, "outcome", ["done", "failed"]),
        (telemetry::FALLBACK_TOTAL, "event", ["degraded", "restored"]),
        (telemetry::USER_CODE_PANIC_TOTAL, "code", ["waker", "telemetry"]),
    ];
    for (name, label, words) in labelled {
        words.iter().for_each(|word| zero(format!("{name} {label}={word}")));
    }
    for name in [
        telemetry::RENEWED_HOLDS_TOTAL,
        telemetry::UNPOLLED_TURNS_TOTAL,
        telemetry::QUEUE_POSITIONS_LOST_TOTAL,
        telemetry::ENDLESS_TOTAL,
        telemetry::BUG_TOTAL,
        telemetry::UNSET_TOTAL,
        telemetry::RECONNECTS_TOTAL,
        telemetry::EVICTION_TOTAL,
    ] {
        zero(name.to_owned());
    }
}

/// Every metric by name and labels: its value, or how often it was recorded.
fn values(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    values_of(snapshotter.snapshot().into_vec())
}

fn values_of(all: Vec<Described>) -> BTreeMap<String, f64> {
    all.into_iter()
        .map(|(key, _, _, value)| {
            let key = key.key();
            let mut labels: Vec<String> =
                key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
            labels.sort_unstable();
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            };
            (key.name().to_owned() + &labels.concat(), value)
        })
        .collect()
}

pub(crate) async fn every_span_and_warning_is_traced(_: World) {
    let seen = collected(|| {
        let clock = ManualClock::new();
        let (server, client) = client(&clock);
        play(&clock, &server, &client);
        let forced = now(client.lock("forced").acquire()).expect("the lock");
        assert!(now(client.lock("forced").force_release()).expect("an answer").is_some());
        drop(forced);
        server.set_eviction_policy("allkeys-lru");
        drop(Client::builder().manual_clock(&clock).embedded(&server).expect("a client"));
    });
    let has = |what: &str| assert!(seen.iter().any(|line| line.contains(what)), "{what} is not among {seen:#?}");
    for span in [telemetry::SPAN_ACQUIRE, telemetry::SPAN_HOLD, telemetry::SPAN_RELEASE] {
        has(&format!("span {span} DEBUG lock=\"telemetry\" class=\"orders\""));
    }
    has("event WARN lock=\"telemetry\" class=\"orders\" reason=\"lease_expired\" holder=");
    for outcome in ["acquired", "busy", "wait_elapsed", "cancelled", "failed", "released", "lost"] {
        has(&format!("recorded outcome={outcome:?}"));
    }
    has("recorded waited_ms=25");
    has("message=renewal failed");
    has("event DEBUG lock=\"telemetry\" message=a task waits for a lock that this client holds under another owner");
    has("message=cleanup of a lock failed");
    has("message=the lock was force-released");
    has("message=the server's maxmemory-policy can evict");
}

pub(crate) async fn names_in_events_are_escaped_in_one_form(_: World) {
    let forged = "a\n2026-11-26 ERROR everything burns \u{1b}[31m b";
    let seen = collected(|| {
        let clock = ManualClock::new();
        let (server, client) = client(&clock);
        let lock = client.lock(forged);
        let lost = now(lock.acquire().lease(ms(100))).expect("the lock");
        clock.advance(ms(200));
        drop(lost);
        let forced = now(lock.acquire()).expect("the lock");
        assert!(now(lock.force_release()).expect("an answer").is_some());
        drop(forced);
        now(client.leader(forged).run(async |_| ())).expect("an end");
        server.inject(Fault::Refuse(ServerError::new("OOM full")), FaultTarget::next().script("lock/release"));
        drop(now(lock.acquire()).expect("the lock"));
        clock.advance(secs(4));
    });
    let named: Vec<_> = seen.iter().filter(|line| line.starts_with("event ") && line.contains(" lock=")).collect();
    assert!(named.len() >= 4, "{seen:#?}");
    let escaped = format!(" lock={forged:?}");
    for line in named {
        assert!(line.contains(&escaped) && !line.contains(['\n', '\u{1b}']), "{line:?}");
    }
}

pub(crate) async fn times_in_events_are_whole_milliseconds(_: World) {
    let seen = collected(|| {
        let clock = ManualClock::new();
        let (server, client) = client(&clock);
        let renewed = now(client.lock("stock").acquire()).expect("the lock");
        let lost = now(client.lock("short").acquire().lease(ms(100))).expect("the lock");
        server.set_down(true);
        clock.advance(ms(700));
        server.set_down(false);
        clock.advance(secs(1));
        assert!(renewed.is_held() && !lost.is_held());
    });
    let value = |name: &str| {
        let field = format!(" {name}=");
        let line = seen.iter().find(|line| line.contains(&field)).unwrap_or_else(|| panic!("{name}: {seen:#?}"));
        let (_, rest) = line.split_once(&field).expect("the field");
        rest.split(' ').next().and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name}: {line}"))
    };
    assert!((1..=100).contains(&value("first_lost_in_ms")), "{seen:#?}");
    assert!(value("out_for_ms") >= 700, "{seen:#?}");
    assert!((1..=100).contains(&value("held_ms")), "{seen:#?}");
}

pub(crate) async fn refused_renewals_are_told_once_for_each_hold(_: World) {
    for refusal in ["MISCONF cannot save a snapshot", "NOPERM no right to a key", "OOM full"] {
        let seen = collected(|| {
            let clock = ManualClock::new();
            let (server, client) = client(&clock);
            let guard = now(client.lock("stock").acquire()).expect("the lock");
            for outage in 1..=2 {
                for _ in 0..4 {
                    let fault = Fault::Refuse(ServerError::new(refusal));
                    server.inject(fault, FaultTarget::next().script("lock/renew"));
                }
                for _ in 0..60 {
                    clock.advance(ms(50));
                }
                assert!(guard.is_held(), "{refusal}, outage {outage}");
            }
        });
        let failed: Vec<_> = seen.iter().filter(|line| line.contains("message=renewal failed")).collect();
        assert_eq!(failed.len(), 8, "{refusal}: two outages of four renewals each: {failed:#?}");
        let warnings = failed.iter().filter(|line| line.starts_with("event WARN")).count();
        assert_eq!(warnings, 2, "{refusal}: one for each outage");
    }
}

/// A loss is told with all that joins it to what the server shows, and spans are as the client was told.
pub(crate) async fn a_loss_and_a_span_name_the_hold_that_they_are_about(_: World) {
    let mut told = (String::new(), 0);
    let class = format!("of {}", "a configuration");
    let seen = collected(|| {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let client =
            Client::builder().manual_clock(&clock).span_level(telemetry::SpanLevel::Info).span_lock_names(false);
        let lock = client.embedded(&server).expect("a client").fenced_lock("telemetry").class(&class);
        let guard = now(lock.acquire().lease(ms(100))).expect("the lock");
        told = (guard.holder_id().into_string(), guard.fencing_token().as_u64());
        clock.advance(ms(200));
        assert!(now(guard.run(async {})).is_err());
        drop(guard);
    });
    let has = |what: &str| assert!(seen.iter().any(|line| line.contains(what)), "{what} is not among {seen:#?}");
    let (holder, token) = told;
    has(&format!("span {} INFO class={class:?}", telemetry::SPAN_ACQUIRE));
    has(&format!("span {} INFO class={class:?}", telemetry::SPAN_HOLD));
    has(&format!("recorded holder={holder:?}"));
    has(&format!("recorded token={token}"));
    has(&format!(
        "event WARN lock=\"telemetry\" class={class:?} reason=\"lease_expired\" holder={holder:?} token={token} held_ms="
    ));
}

thread_local! {
    /// The traces of this thread, if they are wanted.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs something, and returns what it traced on this thread.
fn collected(work: impl FnOnce()) -> Vec<String> {
    SEEN.set(Some(Vec::new()));
    work();
    SEEN.take().unwrap_or_default()
}

fn collect(line: String) {
    SEEN.with_borrow_mut(|seen| seen.iter_mut().for_each(|seen| seen.push(line.clone())));
}

/// Collects spans and events as lines, for all threads: a subscriber of one thread alone misses what another thread was the
/// first to come across.
pub(crate) struct Collector;

impl Collector {
    /// Has everything go to the collector, in the whole process.
    pub(crate) fn install() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| tracing::subscriber::set_global_default(Self).expect("the only subscriber"));
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl tracing::Subscriber for Collector {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        let (name, level) = (span.metadata().name(), span.metadata().level());
        collect(format!("span {name} {level}{}", fields.0));
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        collect(format!("recorded{}", fields.0));
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        // The message comes last, wherever the macro put it.
        let (message, rest): (Vec<_>, Vec<_>) = split(&fields.0);
        let line = format!("event {}{}{}", event.metadata().level(), rest.concat(), message.concat());
        collect(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// The message of an event, and its other fields.
fn split(fields: &str) -> (Vec<String>, Vec<String>) {
    match fields.find(" message=") {
        Some(0) => {
            // Fields follow the message; their names are known.
            let end =
                [" lock=", " class=", " reason=", " holds=", " why=", " policy=", " holder=", " token=", " held_ms="]
                    .iter()
                    .filter_map(|name| fields.find(name))
                    .min()
                    .unwrap_or(fields.len());
            (vec![fields[..end].to_owned()], vec![fields[end..].to_owned()])
        }
        Some(at) => (vec![fields[at..].to_owned()], vec![fields[..at].to_owned()]),
        None => (vec![], vec![fields.to_owned()]),
    }
}

pub(crate) async fn a_connection_and_what_its_locks_do_are_logged(world: World) {
    SEEN.set(Some(Vec::new()));
    let client = world.client().await;
    let name = world.name("logged");
    let lock = client.fair_lock(&name);
    let guard = lock.acquire().await.expect("the lock");
    assert!(lock.try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a release");
    drop(lock.acquire().await.expect("the lock"));
    let seen = SEEN.take().unwrap_or_default();
    let count = |what: &[&str]| seen.iter().filter(|line| what.iter().all(|part| line.contains(part))).count();
    let acquire = ["event DEBUG", &name, "kind=\"fair lock\"", "waited_ms=", "message=an acquire ended"];
    for (outcome, times) in [("acquired", 2), ("busy", 1)] {
        let outcome = format!("outcome={outcome:?}");
        assert_eq!(count(&[&acquire[..], &[&outcome]].concat()), times, "{outcome}: {seen:#?}");
    }
    for outcome in ["released", "dropped"] {
        let outcome = format!("outcome={outcome:?}");
        assert_eq!(count(&["event DEBUG", &name, &outcome, "held_ms=", "message=a guard ended"]), 1, "{seen:#?}");
    }
    let connected = usize::from(world.url().is_some());
    assert_eq!(count(&["event INFO", "topology=", "flavor=", "took_ms=", "message=connected"]), connected, "{seen:#?}");
}
