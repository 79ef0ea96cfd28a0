//! The driver: executes the session's actions, reports their outcomes, and sleeps.

use crate::background::FLUSH;
use crate::client::inner::ClientInner;
use crate::runtime::user_code::{self, UserCode};
use crate::telemetry;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use leasehold_core::link::{Link, LinkEvent};
use leasehold_core::session::{Action, Event, Session};
use leasehold_core::time::Instant;
use std::sync::Arc;
use std::time::Duration;

/// The minimum time for which a background without handles retries its cleanup. The maximum is one lease.
const LAST_EFFORT: Duration = Duration::from_secs(2);

/// The maximum number of events between two checks of the session's timers.
const EVENTS_A_TURN: usize = 256;

/// Runs until the last handle is dropped or a shutdown has begun, and all locks are released.
pub(crate) async fn run(inner: Arc<ClientInner>) {
    let mut flying: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    let _last = Last(&inner);
    let mut end = End::default();
    loop {
        let ((actions, events, end_at, is_over), due) = inner.drive(|session, now| {
            session.handle_timeout(now);
            let end_at = end.advance(&inner, session, now);
            let actions: Vec<Action> = std::iter::from_fn(|| session.poll_action()).collect();
            let events: Vec<Event> = std::iter::from_fn(|| session.poll_event()).collect();
            (actions, events, end_at, end_at.is_some_and(|end| end <= now || is_at_rest(session)))
        });
        for event in events {
            user_code::call(UserCode::Telemetry, || inner.classes.report(event));
        }
        if let Some(unreleased) = end.unreleased.take() {
            inner.background.report(unreleased);
        }
        for action in actions {
            flying.push(perform(&inner, action).boxed());
        }
        for (id, call, decided) in inner.take_deferred() {
            let inner = &inner;
            flying.push(Box::pin(async move {
                let result = inner.link.call_decided(decided, call).await;
                inner.drive(|session, now| session.handle_called(now, id, result));
            }));
        }
        if is_over {
            break;
        }
        let until = [due, end_at].into_iter().flatten().min();
        tokio::select! {
            biased;
            event = inner.link.event() => match event {
                Some(event) => take_events(&inner, event).await,
                None => break,
            },
            Some(()) = flying.next(), if !flying.is_empty() => {
                while let Some(Some(())) = flying.next().now_or_never() {}
            }
            () = inner.background.wakeup.notified() => {}
            () = inner.clock.sleep_until(until) => {}
        }
    }
    inner.link.close().await;
}

/// Returns whether an ending client need not wait for its session. Subscriptions end with their connection.
pub(crate) fn is_at_rest(session: &Session) -> bool {
    session.holds_nothing() && !session.awaits_any()
}

#[derive(Default)]
struct End {
    /// The remaining guards are lost. The shutdown returns at the contained instant.
    answer_at: Option<Instant>,
    /// The driver no longer retries its cleanup.
    over_at: Option<Instant>,
    /// The pending result of a shutdown.
    unreleased: Option<Vec<String>>,
}

impl End {
    /// Returns the deadline for the end of the background, or `None` if no end was requested.
    ///
    /// Runs in the step that checks the holds: no guard can appear after the check.
    fn advance(&mut self, inner: &ClientInner, session: &mut Session, now: Instant) -> Option<Instant> {
        if !inner.background.is_ending() {
            return None;
        }
        session.retract(now);
        session.stop_all_lingering(now);
        let patience = inner.settings.session.lease.max(LAST_EFFORT);
        let deadline = inner.background.deadline().filter(|_| self.answer_at.is_none());
        if deadline.is_some_and(|deadline| deadline <= now) {
            // Work that stops when its guard is lost still needs time for a release.
            let flush = if session.lose_all(now) { FLUSH } else { Duration::ZERO };
            self.answer_at = Some(now + flush);
            self.over_at = Some(now + patience);
        }
        // Lost guards may be dropped later, and a server may return.
        let over_at = *self.over_at.get_or_insert(now + patience);
        Some(match self.answer_at {
            None => deadline.unwrap_or(over_at),
            Some(at) if at > now => at,
            Some(_) => {
                self.unreleased = Some(names(session));
                over_at
            }
        })
    }
}

fn names(session: &Session) -> Vec<String> {
    session.unreleased().iter().map(|name| name.as_str().to_owned()).collect()
}

/// Reports the end of the background, even if its future is dropped with its runtime.
struct Last<'a>(&'a ClientInner);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        let ((unreleased, events), _) = self.0.drive(|session, now| {
            let unreleased = names(session);
            // Without renewals, guards and waiters must end, even if this thread panics.
            session.end(now);
            let events: Vec<Event> = std::iter::from_fn(|| session.poll_event()).collect();
            (unreleased, events)
        });
        user_code::call(UserCode::Telemetry, || {
            if std::thread::panicking() {
                telemetry::report_panic();
            }
            events.into_iter().for_each(|event| self.0.classes.report(event));
        });
        self.0.classes.end_connections();
        self.0.background.ended(unreleased);
    }
}

/// Reports an event, and further pending events, to the session.
async fn take_events(inner: &ClientInner, first: LinkEvent) {
    inner.drive(|session, now| session.handle_event(now, first));
    for _ in 0..EVENTS_A_TURN {
        match inner.link.event().now_or_never() {
            Some(Some(event)) => {
                inner.drive(|session, now| session.handle_event(now, event));
            }
            _ => break,
        }
    }
}

/// Executes an action, and reports its outcome to the session.
async fn perform(inner: &ClientInner, action: Action) {
    let link = &inner.link;
    match action {
        Action::Settle { id, key, durable } => {
            let result = link.settle(key, durable).await;
            inner.drive(|session, now| session.handle_settled(now, id, result));
        }
        Action::Subscribe { channel } => {
            let result = link.subscribe(channel.clone()).await;
            inner.drive(|session, now| session.handle_subscribed(now, &channel, result));
        }
        Action::Unsubscribe { channel } => {
            let result = link.unsubscribe(channel.clone()).await;
            inner.drive(|session, now| session.handle_unsubscribed(now, &channel, result));
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Client;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[tokio::test]
    async fn panic_of_the_background_loses_the_locks_and_refuses_new_ones() {
        let client = Client::embedded();
        let guard = client.lock("orders").acquire().await.expect("the lock");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _last = Last(client.handle().shared());
            panic!("as a bug would");
        }));
        assert!(panicked.is_err());
        assert!(!guard.is_held());
        guard.lost().await;
        client.lock("orders").acquire().await.expect_err("no renewals");
    }

    #[tokio::test]
    async fn a_background_that_prepares_nothing_waits_for_its_client() {
        for _ in 0..20 {
            let client = Client::embedded();
            drop(client.lock("left").acquire().await.expect("the lock"));
            // The background ends a shutdown.
            let ended = tokio::time::timeout(Duration::from_secs(20), client.shutdown(Duration::from_secs(5))).await;
            ended.expect("a background").expect("nothing is left");
        }
    }

    #[tokio::test]
    async fn clean_up_of_many_locks_needs_no_deep_stack() {
        let link = leasehold_embedded::EmbeddedServer::new().link();
        let client = Client::builder().embedded_link(link.clone()).expect("a client");
        let mut guards = Vec::new();
        for number in 0..10_000 {
            guards.push(client.lock(format!("stock-{number}")).acquire().await.expect("the lock"));
        }
        link.set_down(true);
        drop(guards);
        link.set_down(false);
        client.shutdown(Duration::from_secs(60)).await.expect("nothing is left");
    }

    #[tokio::test]
    async fn reply_that_is_due_within_a_call_of_the_session_is_delivered() {
        let clock = leasehold_embedded::ServerClock::tokio(tokio::time::Instant::now());
        let server = leasehold_embedded::EmbeddedServer::with_clock(clock);
        server.set_round_trip(Duration::from_millis(40));
        let client = Client::builder().embedded(&server).expect("a client");
        let first = client.lock("first");
        let first = tokio::spawn(async move { first.acquire().await.map(drop) });
        // The server has received the request, and its reply is in flight.
        tokio::time::sleep(Duration::from_millis(25)).await;
        // Block the runtime: the clock then does not wake the server.
        std::thread::sleep(Duration::from_millis(100));
        drop(client.lock("second").acquire().await.expect("the lock"));
        first.await.expect("no panic").expect("the lock");
    }
}
