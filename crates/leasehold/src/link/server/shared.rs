//! The shared state of a link's connections, and their purposes.

use super::call::Inbox;
use super::events::Events;
use super::met::Met;
use super::network::Home;
use super::scripts::Scripts;
use super::settings::LinkSettings;
use super::slots::Slots;
use super::target::ServerTarget;
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::link::LinkEvent;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The purpose of a connection slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Calls.
    Calls,
    /// Durable calls.
    Durable,
    /// Subscriptions and notices on a separate connection.
    Notices,
}

impl Role {
    /// The name in logs.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Durable => "durable",
            Self::Notices => "notices",
        }
    }
}

/// The state that all connection slots of a link share.
#[derive(Debug)]
pub(super) struct LinkShared {
    pub(super) target: ServerTarget,
    pub(super) settings: LinkSettings,
    /// The runtime on which the client was built, if any.
    pub(super) home: Option<Home>,
    pub(super) events: Events,
    pub(super) inbox: Arc<Inbox>,
    pub(super) scripts: Scripts,
    /// The owners of the slots, on a cluster.
    pub(super) slots: Option<Slots>,
    /// Number of subscriptions for each slot, with sharded notices.
    pub(super) subscribed: Mutex<BTreeMap<u16, BTreeSet<Bytes>>>,
    /// Raised by every settling. Stops calls that the session decided on earlier.
    pub(super) calls_barrier: RwLock<u64>,
    /// The send barrier of durable calls. These may wait long for a connection, and no other settling stops them.
    pub(super) durable_barrier: RwLock<u64>,
    /// The facts about the server.
    pub(super) met: Met,
    /// The server has refused keys of several hash slots, although the URL names no cluster.
    pub(super) splits: AtomicBool,
    pub(super) closed: CancellationToken,
    /// The audits of a link are a whole number of intervals after this instant.
    pub(super) began: Instant,
}

impl LinkShared {
    /// The send barrier of durable calls, or of all other calls.
    pub(super) const fn send_barrier(&self, durable: bool) -> &RwLock<u64> {
        if durable { &self.durable_barrier } else { &self.calls_barrier }
    }

    /// The time of the next audit. Idle connections are pinged at that time too: the background wakes up once for all.
    pub(super) fn next_audit(&self) -> Instant {
        let interval = self.settings.audit_interval;
        let now = Instant::now();
        let past = (now - self.began).as_nanos() % interval.as_nanos().max(1);
        now + interval.saturating_sub(Duration::from_nanos(u64::try_from(past).unwrap_or_default()))
    }

    /// A slot has a new owner. The old owner silently dropped its sharded subscriptions.
    pub(super) fn slot_moved(&self, slot: u16) {
        let concerned = self.subscribed.lock().contains_key(&slot);
        if concerned {
            self.reset_notices();
        }
    }

    /// The server refused a call because its keys are in several hash slots. Logs this once if the URL names no
    /// cluster.
    pub(super) fn note_several_slots(&self, server: &str) {
        if self.slots.is_none() && !self.splits.swap(true, Ordering::Relaxed) {
            event!(
                warn,
                server,
                "the server refuses keys of several hash slots in one command, as a proxy before a cluster does: this client renews the \
                 locks of each slot in a command of their own from now on, and sends no batches; where the nodes of the cluster can be \
                 reached, a URL with redis-cluster:// is faster"
            );
        }
    }

    /// Whether calls may share a command. Not after a refusal of keys of several hash slots.
    pub(super) fn may_batch(&self) -> bool {
        self.settings.batch_from.is_some() && !self.splits.load(Ordering::Relaxed)
    }

    /// A subscription was lost, so every listener must subscribe again.
    pub(super) fn reset_notices(&self) {
        self.subscribed.lock().clear();
        self.events.event(LinkEvent::NoticesReset);
    }
}
