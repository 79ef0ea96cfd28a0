//! Subscriptions and their messages.
//!
//! In RESP3 the connections for calls carry classic subscriptions. Sharded subscriptions have their own connections.
//! When a slot moves, the node pushes an unsolicited `sunsubscribe`. It looks like the confirmation of the client's
//! `SUNSUBSCRIBE`. The node then refuses that command, and the wire would match the error to the next call.
//!
//! A connection subscribes to sharded channels one at a time, and the node that owns the slot confirms each
//! subscription.

use super::connection::Connection;
use super::pool::{ConnectionManager, Pool};
use super::route::{self, Node, Redirect};
use super::shared::Role;
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::wire::Subscription;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Notices {
    calls: Arc<Pool>,
    /// Separate connections: in RESP2, and for sharded channels.
    pub(super) own: Arc<Pool>,
    /// The node of a cluster that holds all classic subscriptions: messages reach every node.
    anchor: Mutex<Option<Node>>,
}

impl Notices {
    pub(super) fn new(calls: Arc<Pool>, own: Arc<Pool>) -> Self {
        Self { calls, own, anchor: Mutex::default() }
    }

    fn is_sharded(&self) -> bool {
        self.calls.shared.identity.server().sharded_notices
    }

    /// The manager whose connection to a node carries subscriptions.
    fn carrier(&self, node: Node) -> Option<Arc<ConnectionManager>> {
        if self.is_sharded() {
            return self.own.to(node);
        }
        let calls = self.calls.to(node)?;
        if calls.is_resp3() { Some(calls) } else { self.own.to(node) }
    }

    /// Returns this manager, if it exists.
    fn known_carrier(&self, node: Node) -> Option<Arc<ConnectionManager>> {
        let calls = self.calls.known(node).filter(|calls| !self.is_sharded() && calls.is_resp3());
        calls.or_else(|| self.own.known(node))
    }

    pub(super) async fn subscribe(&self, channel: &Bytes) -> Result<(), LinkError> {
        if self.is_sharded() {
            return self.subscribe_sharded(channel).await;
        }
        let manager = self.anchored().await?;
        let connection = ready(&manager).await?;
        self.confirmed(&connection, Subscription::Subscribe, channel).await
    }

    pub(super) async fn unsubscribe(&self, channel: &Bytes) -> Result<(), LinkError> {
        if !self.is_sharded() {
            let manager = self.anchored().await?;
            let connection = checked(&manager, manager.current()?)?;
            return self.confirmed(&connection, Subscription::Unsubscribe, channel).await;
        }
        let slot = leasehold_core::name::slot(channel);
        self.calls.shared.subscribed.lock().remove(&(slot, channel.clone()));
        let manager = route::manager_of(&self.own, slot)?;
        let connection = manager.current()?;
        let _turn = manager.turn.lock().await;
        self.confirmed(&connection, Subscription::UnsubscribeSharded, channel).await
    }

    /// Renews the sharded subscriptions. A server silently drops them when their slot moves away.
    /// A new `SSUBSCRIBE` for each channel then causes a redirection.
    pub(super) async fn audit(&self) {
        let channels = self.calls.shared.subscribed.lock().clone();
        for entry in channels {
            let (slot, channel) = &entry;
            let Ok(manager) = route::manager_of(&self.own, *slot) else { continue };
            // A reconnect reports the lost subscriptions.
            let Ok(connection) = manager.current() else { continue };
            // Checked within a turn: `unsubscribe` first removes the channel, then waits for its turn.
            let listed = || self.calls.shared.subscribed.lock().contains(&entry);
            let answer = self.ssubscribe(&manager, &connection, channel, listed).await;
            if let Ok(Err(refusal)) = answer {
                event!(debug, %refusal, "a sharded subscription was lost");
                drop(self.follow(&manager, &refusal));
                self.calls.shared.reset_notices();
                return;
            }
        }
    }

    /// Chooses another node for the classic subscriptions of a cluster if the current node is down.
    pub(super) async fn check_anchor(&self) {
        if !self.is_sharded() && self.calls.shared.slots.is_some() && self.anchor.lock().is_some() {
            drop(self.anchored().await);
        }
    }

    async fn subscribe_sharded(&self, channel: &Bytes) -> Result<(), LinkError> {
        let slot = leasehold_core::name::slot(channel);
        let mut manager = route::manager_of(&self.own, slot)?;
        let mut refusal = ServerError::new("TRYAGAIN too many redirections");
        for _ in 0..3 {
            let connection = ready(&manager).await?;
            match self.ssubscribe(&manager, &connection, channel, || true).await? {
                Ok(()) => {
                    self.calls.shared.subscribed.lock().insert((slot, channel.clone()));
                    // The slot may have moved while the reply was in transit. The node then dropped the subscription,
                    // and the move reset nothing, because the list had no entry yet. From now on a move finds the
                    // entry.
                    let owner = route::manager_of(&self.own, slot)?;
                    if Arc::ptr_eq(&owner, &manager) {
                        return Ok(());
                    }
                    manager = owner;
                    continue;
                }
                Err(error) => refusal = error,
            }
            match self.follow(&manager, &refusal) {
                Some(next) => manager = next?,
                None => break,
            }
        }
        Err(LinkError::Refused(refusal))
    }

    /// Subscribes in turn, unless the subscription has been cancelled.
    async fn ssubscribe(
        &self,
        manager: &ConnectionManager,
        connection: &Connection,
        channel: &Bytes,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Result<(), ServerError>, LinkError> {
        let _turn = manager.turn.lock().await;
        if !is_wanted() {
            return Ok(Ok(()));
        }
        connection.subscription(Subscription::SubscribeSharded, channel, self.timeout()).await
    }

    /// Follows a redirection of a sharded channel; `None` if the refusal is no redirection.
    fn follow(
        &self,
        manager: &ConnectionManager,
        refusal: &ServerError,
    ) -> Option<Result<Arc<ConnectionManager>, LinkError>> {
        let redirect = Redirect::of(refusal)?;
        Some(redirect.follow(&self.own, self.own.shared.slots.as_ref()?, manager).map(|(_, manager)| manager))
    }

    async fn confirmed(&self, connection: &Connection, what: Subscription, channel: &Bytes) -> Result<(), LinkError> {
        connection.subscription(what, channel, self.timeout()).await?.map_err(LinkError::Refused)
    }

    /// The manager that holds the classic subscriptions.
    async fn anchored(&self) -> Result<Arc<ConnectionManager>, LinkError> {
        let none = || LinkError::NotSent("no node of the cluster can be reached for notices".to_owned());
        let Some(slots) = &self.calls.shared.slots else { return self.carrier(0).ok_or_else(none) };
        let before = *self.anchor.lock();
        if let Some(manager) = before.and_then(|node| self.known_carrier(node))
            && manager.current().is_ok()
        {
            return Ok(manager);
        }
        for node in slots.primaries() {
            let Some(manager) = self.carrier(node) else { continue };
            let ready = tokio::time::timeout(self.timeout(), ready(&manager)).await;
            if !matches!(ready, Ok(Ok(_))) {
                continue;
            }
            let mut anchor = self.anchor.lock();
            if *anchor == before {
                *anchor = Some(node);
                if before.is_some_and(|before| before != node) {
                    self.calls.shared.reset_notices();
                }
            }
            let chosen = *anchor;
            drop(anchor);
            return chosen.and_then(|node| self.carrier(node)).ok_or_else(none);
        }
        Err(none())
    }

    fn timeout(&self) -> Duration {
        self.calls.shared.settings.command_timeout
    }
}

/// The slot's connection, if it can carry subscriptions.
async fn ready(manager: &ConnectionManager) -> Result<Arc<Connection>, LinkError> {
    checked(manager, manager.ready().await?)
}

fn checked(manager: &ConnectionManager, connection: Arc<Connection>) -> Result<Arc<Connection>, LinkError> {
    if manager.role == Role::Calls && !connection.resp3 {
        // The next attempt uses the connection for notices.
        return Err(LinkError::NotSent(format!(
            "{} now speaks RESP2; notices move to their own connection",
            manager.label()
        )));
    }
    Ok(connection)
}
