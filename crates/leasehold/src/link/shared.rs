//! The settings of a link, the state that all of its connections share, and its events.

use super::call::{Inbox, Scripts};
use super::network::{Home, Network};
use super::route::Slots;
use super::target::ServerTarget;
use crate::PublishCommand;
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::link::{LinkError, LinkEvent, ServerInfo};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Calls,
    Durable,
    /// Subscriptions and notices on a separate connection.
    Notices,
}

impl Role {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Durable => "durable",
            Self::Notices => "notices",
        }
    }
}

/// The state that all connections of a link share.
pub(super) struct LinkShared {
    pub(super) target: ServerTarget,
    pub(super) settings: LinkSettings,
    pub(super) home: Option<Home>,
    pub(super) events: Events,
    pub(super) inbox: Arc<Inbox>,
    pub(super) scripts: Scripts,
    pub(super) slots: Option<Slots>,
    /// The sharded subscriptions, each with its slot.
    pub(super) subscribed: Mutex<BTreeSet<(u16, Bytes)>>,
    /// Raised by every settling. Stops calls that the session decided on earlier. Durable calls have their own barrier: they may wait a long time for
    /// a connection, and only a settle of durable calls stops them.
    send_barriers: [RwLock<u64>; 2],
    pub(super) identity: Identity,
    /// The server has refused keys of several hash slots, although the URL names no cluster.
    pub(super) splits: AtomicBool,
    pub(super) closed: CancellationToken,
    /// The audits of a link are a whole number of intervals after this instant.
    pub(super) began: Instant,
}

impl LinkShared {
    pub(super) fn new(target: ServerTarget, settings: LinkSettings, home: Option<Home>) -> Arc<Self> {
        Arc::new(Self {
            settings,
            home,
            events: Events::default(),
            inbox: Arc::default(),
            scripts: Scripts::default(),
            slots: target.is_cluster.then(Slots::default),
            subscribed: Mutex::default(),
            send_barriers: Default::default(),
            identity: Identity::new(target.is_cluster),
            splits: AtomicBool::new(false),
            closed: CancellationToken::new(),
            began: Instant::now(),
            target,
        })
    }

    /// The send barrier of durable calls, or of all other calls.
    pub(super) const fn send_barrier(&self, durable: bool) -> &RwLock<u64> {
        let [of_calls, of_durable] = &self.send_barriers;
        if durable { of_durable } else { of_calls }
    }

    /// The time of the next audit. The background also pings idle connections then, and wakes up only once.
    pub(super) fn next_audit(&self) -> Instant {
        let interval = self.settings.audit_interval;
        let now = Instant::now();
        let past = (now - self.began).as_nanos() % interval.as_nanos().max(1);
        now + interval.saturating_sub(Duration::from_nanos(u64::try_from(past).unwrap_or_default()))
    }

    /// A slot has a new owner. The old owner silently dropped its sharded subscriptions.
    pub(super) fn slot_moved(&self, slot: u16) {
        let concerned = self.subscribed.lock().range((slot, Bytes::new())..).next().map(|(slot, _)| *slot);
        if concerned == Some(slot) {
            self.reset_notices();
        }
    }

    /// The server refused keys of several hash slots. Logs this once if the URL names no cluster.
    pub(super) fn note_several_slots(&self, server: &str) {
        if self.slots.is_none() && !self.splits.swap(true, Ordering::Relaxed) {
            event!(
                warn,
                server,
                "the server refuses keys of several hash slots in one command, like a proxy of a cluster: this client now renews the \
                 locks of each slot in a separate command, and sends no batches; if the nodes of the cluster are reachable, a URL with \
                 redis-cluster:// is faster"
            );
        }
    }

    /// A subscription was lost, so every listener must subscribe again.
    pub(super) fn reset_notices(&self) {
        self.subscribed.lock().clear();
        self.events.event(LinkEvent::NoticesReset);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    /// The background's timeout for a reply, and for silence on its connections. At least 10 ms.
    pub(crate) command_timeout: Duration,
    pub(crate) connect_deadline: Duration,
    /// Whether durable calls wait for the append-only files of the primary and the replicas.
    pub(crate) fsync: bool,
    pub(crate) publish: PublishCommand,
    /// The interval of checks: servers drop sharded subscriptions of moved slots, and proxies drop idle connections.
    pub(crate) audit_interval: Duration,
    /// Minimum number of calls in a batch. `None`: no batches.
    pub(crate) batch_from: Option<usize>,
    pub(crate) network: Network,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_secs(1),
            connect_deadline: Duration::from_secs(10),
            fsync: false,
            publish: PublishCommand::Auto,
            audit_interval: Duration::from_secs(5),
            // Fewer calls are cheaper alone.
            batch_from: Some(4),
            network: Network::System,
        }
    }
}

impl LinkSettings {
    /// The time limit of one connect attempt. A handshake takes several round trips, and more over TLS.
    pub(super) fn attempt(&self) -> Duration {
        self.command_timeout.saturating_mul(2)
    }
}

/// Events for the driver: memory is bounded, because repeated resets merge and each server keeps only its last event.
pub(super) struct Events {
    /// `None` once closed.
    waiting: Mutex<Option<VecDeque<LinkEvent>>>,
    changed: Notify,
}

impl Default for Events {
    fn default() -> Self {
        Self { waiting: Mutex::new(Some(VecDeque::new())), changed: Notify::new() }
    }
}

impl Events {
    /// Queues an event. Messages go directly to the session.
    pub(super) fn event(&self, event: LinkEvent) {
        if let Some(waiting) = &mut *self.waiting.lock() {
            let server = server_of(&event);
            waiting.retain(|earlier| server.is_none() || server_of(earlier) != server);
            if !waiting.contains(&event) {
                waiting.push_back(event);
            }
        }
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        *self.waiting.lock() = None;
        self.changed.notify_one();
    }

    /// The next event, or `None` once closed.
    ///
    /// Cancel safe: the poll that removes an event returns it. One task may wait at a time.
    pub(super) async fn next(&self) -> Option<LinkEvent> {
        loop {
            let changed = self.changed.notified();
            match &mut *self.waiting.lock() {
                Some(waiting) => {
                    if let Some(event) = waiting.pop_front() {
                        return Some(event);
                    }
                }
                None => {
                    // Wake the next waiter: the queue has ended for it, too.
                    self.changed.notify_one();
                    return None;
                }
            }
            changed.await;
        }
    }
}

fn server_of(event: &LinkEvent) -> Option<&str> {
    match event {
        LinkEvent::Connected { server, .. } | LinkEvent::OutOfReach { server, .. } | LinkEvent::Retired { server } => {
            Some(server)
        }
        _ => None,
    }
}

/// The facts about the server. Until the server is identified, calls fail as not sent, with the reason.
pub(super) struct Identity {
    server: OnceLock<ServerInfo>,
    /// The facts that follow from the URL.
    of_url: ServerInfo,
    failure: Mutex<String>,
}

impl Identity {
    fn new(cluster: bool) -> Self {
        let mut of_url = ServerInfo::default();
        of_url.cluster = cluster;
        Self { server: OnceLock::new(), of_url, failure: Mutex::new("no attempt has come to its end".to_owned()) }
    }

    pub(super) fn server(&self) -> &ServerInfo {
        self.server.get().unwrap_or(&self.of_url)
    }

    /// Records the facts about the server, once. From now on the link sends calls.
    pub(super) fn complete(&self, server: ServerInfo) {
        drop(self.server.set(server));
    }

    /// Records a failed identification. Logs a permanent failure once per reason.
    pub(super) fn record_failure(&self, reason: String, permanent: bool) {
        let mut known = self.failure.lock();
        if *known == reason {
            return;
        }
        if permanent {
            event!(warn, reason, "cannot connect yet; retrying in the background");
        } else {
            event!(debug, reason, "not connected yet");
        }
        *known = reason;
    }

    /// Returns whether calls can be sent. Otherwise they fail with this error.
    pub(super) fn check(&self) -> Result<(), LinkError> {
        if self.server.get().is_some() {
            return Ok(());
        }
        Err(LinkError::NotSent(format!("not connected yet: {}", self.failure.lock())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_word_on_each_server_counts() {
        let events = Events::default();
        let connected = |server: &str| LinkEvent::Connected { server: server.to_owned(), again: true };
        events.event(LinkEvent::Retired { server: "a".to_owned() });
        events.event(connected("b"));
        events.event(connected("a"));
        assert_eq!(events.next().await, Some(connected("b")));
        assert_eq!(events.next().await, Some(connected("a")));
        events.close();
        assert_eq!(events.next().await, None);
    }

    #[tokio::test]
    async fn resets_fold() {
        let events = Events::default();
        events.event(LinkEvent::NoticesReset);
        events.event(LinkEvent::CallsReset);
        events.event(LinkEvent::NoticesReset);
        assert_eq!(events.next().await, Some(LinkEvent::NoticesReset));
        assert_eq!(events.next().await, Some(LinkEvent::CallsReset));
        events.close();
        assert_eq!(events.next().await, None);
        assert_eq!(events.next().await, None);
    }
}
