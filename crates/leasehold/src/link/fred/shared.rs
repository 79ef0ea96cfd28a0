//! The state that all connections of a link share, and the purposes that they have.

use super::events::Events;
use super::met::Met;
use super::scripts::Scripts;
use super::settings::LinkSettings;
use super::slots::Slots;
use super::target::ServerTarget;
use bytes::Bytes;
use leasehold_core::link::{LinkEvent, Plane};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use tokio_util::sync::CancellationToken;

/// The purpose of a connection slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The calls of a plane.
    Calls(Plane),
    /// Subscriptions and notices.
    Notices,
}

impl Role {
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Calls(Plane::Foreground) => 0,
            Self::Calls(Plane::Background) => 1,
            Self::Calls(Plane::Durable) => 2,
            Self::Notices => 3,
        }
    }
}

/// The state that all connection slots of a link share.
#[derive(Debug)]
pub(super) struct LinkShared {
    pub(super) target: ServerTarget,
    pub(super) settings: LinkSettings,
    pub(super) events: Events,
    pub(super) scripts: Scripts,
    /// The owners of the slots, on a cluster.
    pub(super) slots: Option<Slots>,
    /// How many subscriptions there are in each slot, where notices are sharded.
    pub(super) subscribed: Mutex<HashMap<u16, HashSet<Bytes>>>,
    /// The last epoch of each purpose, by [`Role::index`].
    pub(super) epochs: [AtomicU64; 4],
    /// The facts about the server.
    pub(super) met: Met,
    pub(super) closed: CancellationToken,
}

impl LinkShared {
    /// A slot has another owner: the old one has dropped its sharded subscriptions in silence.
    pub(super) fn slot_moved(&self, slot: u16) {
        let concerned = self.subscribed.lock().contains_key(&slot);
        if concerned {
            self.reset_notices();
        }
    }

    /// Some subscription was lost: every listener must subscribe again.
    pub(super) fn reset_notices(&self) {
        self.subscribed.lock().clear();
        self.events.event(LinkEvent::NoticesReset);
    }
}
