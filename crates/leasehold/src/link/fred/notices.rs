//! Subscriptions, and the messages that come for them.
//!
//! fred answers `SUBSCRIBE` before it has written it, and drops the server's answers to all commands of this family. So a
//! subscription is confirmed by a `PING` with a payload of its own, in one pipeline with it: one round trip for both. An error
//! reply has no command that waits for it, and fred hands it to whichever command is next: then a `PING` is answered by
//! something else than its payload, and the connection, on which no reply can be trusted any more, is made anew.
//!
//! `SSUBSCRIBE` is sent alone, one channel at a time, as a command of its own whose frame comes back to us.

use super::connection::Connection;
use super::connection_slot::ConnectionSlot;
use super::error::{self, Redirect};
use super::frame;
use super::pool::Pool;
use super::slots::Node;
use crate::telemetry::event;
use bytes::Bytes;
use fred::error::ErrorKind;
use fred::interfaces::{ClientLike, PubsubInterface};
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Value};
use leasehold_core::link::{LinkError, ServerError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The subscriptions of a link.
pub(super) struct Notices {
    pool: Arc<Pool>,
    sharded: AtomicBool,
    /// The node of a cluster that holds all classic subscriptions: messages reach every node.
    anchor: Mutex<Option<Node>>,
    payloads: AtomicU64,
}

impl Notices {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, sharded: AtomicBool::new(false), anchor: Mutex::default(), payloads: AtomicU64::new(0) }
    }

    /// Whether to use sharded notices. It is said once, before anything is subscribed to.
    pub(super) fn shard(&self, sharded: bool) {
        self.sharded.store(sharded, Ordering::Release);
    }

    fn is_sharded(&self) -> bool {
        self.sharded.load(Ordering::Acquire)
    }

    pub(super) const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// See [`Link::subscribe`](leasehold_core::link::Link::subscribe).
    pub(super) async fn subscribe(&self, channel: &Bytes) -> Result<(), LinkError> {
        let text = text(channel)?;
        if self.is_sharded() {
            return self.subscribe_sharded(channel).await;
        }
        let connection_slot = self.anchored().await?;
        let connection = connection_slot.ready().await?;
        self.confirmed(&connection, Family::Subscribe, text).await
    }

    /// See [`Link::unsubscribe`](leasehold_core::link::Link::unsubscribe).
    pub(super) async fn unsubscribe(&self, channel: &Bytes) -> Result<(), LinkError> {
        let text = text(channel)?;
        if !self.is_sharded() {
            let connection_slot = self.anchored().await?;
            let connection = connection_slot.current()?;
            return self.confirmed(&connection, Family::Unsubscribe, text).await;
        }
        let slot = fred::util::redis_keyslot(channel);
        self.forget(slot, channel);
        let connection_slot = super::route::connection_slot_of(&self.pool, slot)?;
        let connection = connection_slot.current()?;
        let _turn = connection_slot.turn.lock().await;
        self.confirmed(&connection, Family::Sunsubscribe, text).await
    }

    /// Makes sure of the sharded subscriptions. A server drops them when their slot moves away, fred drops its word of it,
    /// and the connection stands: so each is subscribed to again, which changes nothing where it exists, and is answered
    /// with a redirection where the slot is gone.
    pub(super) async fn audit(&self) {
        let channels: Vec<_> = self.pool.shared.subscribed.lock().values().flatten().cloned().collect();
        for channel in channels {
            let slot = fred::util::redis_keyslot(&channel);
            let Ok(connection_slot) = super::route::connection_slot_of(&self.pool, slot) else { continue };
            // A connection that is being made anew tells of it by itself.
            let Ok(connection) = connection_slot.current() else { continue };
            // A task that unsubscribes strikes the channel off first, and then waits for its turn: seen under that, a channel that is
            // struck off is not subscribed to again.
            let listed = || self.pool.shared.subscribed.lock().get(&slot).is_some_and(|all| all.contains(&channel));
            let answer = self.ssubscribe(&connection_slot, &connection, &channel, listed).await;
            if let Ok(Err(refusal)) = answer {
                event!(debug, %refusal, "a sharded subscription was lost");
                self.follow(&connection_slot, slot, &refusal);
                self.pool.shared.reset_notices();
                return;
            }
        }
    }

    /// Chooses another node for the classic subscriptions of a cluster, should the present one not be there.
    pub(super) async fn check_anchor(&self) {
        if !self.is_sharded() && self.pool.shared.slots.is_some() && self.anchor.lock().is_some() {
            drop(self.anchored().await);
        }
    }

    async fn subscribe_sharded(&self, channel: &Bytes) -> Result<(), LinkError> {
        let slot = fred::util::redis_keyslot(channel);
        let mut connection_slot = super::route::connection_slot_of(&self.pool, slot)?;
        let mut refusal = ServerError::new("TRYAGAIN too many redirections");
        for _ in 0..3 {
            let connection = connection_slot.ready().await?;
            match self.ssubscribe(&connection_slot, &connection, channel, || true).await? {
                Ok(()) => {
                    self.pool.shared.subscribed.lock().entry(slot).or_default().insert(channel.clone());
                    // The slot may have moved while the answer was on its way. The node has dropped the subscription then, and the move
                    // has reset nothing, because there was nothing in the list. From here on a move finds it there.
                    let owner = super::route::connection_slot_of(&self.pool, slot)?;
                    if Arc::ptr_eq(&owner, &connection_slot) {
                        return Ok(());
                    }
                    connection_slot = owner;
                    continue;
                }
                Err(error) => refusal = error,
            }
            match self.follow(&connection_slot, slot, &refusal) {
                Some(next) => connection_slot = next,
                None => break,
            }
        }
        Err(LinkError::Refused(refusal))
    }

    /// Subscribes when it is this one's turn, if that is still wanted then.
    async fn ssubscribe(
        &self,
        connection_slot: &ConnectionSlot,
        connection: &Connection,
        channel: &Bytes,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Result<(), ServerError>, LinkError> {
        let _turn = connection_slot.turn.lock().await;
        if !is_wanted() {
            return Ok(Ok(()));
        }
        let answer = connection.send("SSUBSCRIBE", vec![Value::Bytes(channel.clone())], Some(self.timeout())).await?;
        if let Some(refusal) = frame::refusal(&answer) {
            return Ok(Err(refusal));
        }
        let parts = frame::parts(&answer).unwrap_or_default();
        if let [kind, name, ..] = parts
            && frame::text(kind) == Some("ssubscribe")
            && frame::text(name).map(str::as_bytes) == Some(channel)
        {
            return Ok(Ok(()));
        }
        connection.end();
        Err(LinkError::Unknown("a reply went astray on the notice connection".to_owned()))
    }

    /// The node to which a refused sharded subscription leads.
    fn follow(
        &self,
        connection_slot: &ConnectionSlot,
        slot: u16,
        refusal: &ServerError,
    ) -> Option<Arc<ConnectionSlot>> {
        let slots = self.pool.shared.slots.as_ref()?;
        let (Redirect::Moved(_, address) | Redirect::Ask(_, address)) = error::redirect(refusal)?;
        let node = slots.node(&super::route::named(&address, connection_slot));
        if matches!(error::redirect(refusal), Some(Redirect::Moved(..))) && slots.moved(slot, node) {
            self.pool.shared.slot_moved(slot);
        }
        self.pool.to(node)
    }

    /// Sends a command of the subscription family, which fred answers too early, and waits for the `PING` behind it.
    ///
    /// The two are one pipeline, which the router writes without reading in between. Were they queued one after the other, an
    /// error reply to the first could come when no command waits for a reply, and vanish; the `PING` would confirm nothing.
    async fn confirmed(&self, connection: &Connection, what: Family, channel: &str) -> Result<(), LinkError> {
        if connection.has_ended() {
            return Err(LinkError::NotSent("the notice connection was lost".to_owned()));
        }
        let payload = format!("leasehold:confirm:{}", self.payloads.fetch_add(1, Ordering::Relaxed));
        let timeout = Some(self.timeout());
        let options = Options { max_attempts: Some(1), fail_fast: true, timeout, ..Options::default() };
        let pipeline = connection.client.pipeline().with_options(&options);
        // These wait for nothing: they only fill the pipeline.
        let filled = match what {
            Family::Subscribe => pipeline.subscribe(channel).await,
            Family::Unsubscribe => pipeline.unsubscribe(channel).await,
            Family::Sunsubscribe => pipeline.sunsubscribe(channel).await,
        };
        let ping = CustomCommand::new_static("PING", ClusterHash::FirstKey, false);
        let filled = match filled {
            Ok(()) => pipeline.custom::<Value, _>(ping, vec![payload.as_str()]).await.map(drop),
            Err(error) => Err(error),
        };
        filled.map_err(|error| LinkError::NotSent(error.to_string()))?;
        let answer = tokio::select! {
            biased;
            answer = pipeline.last::<Value>() => answer,
            () = connection.ended() => return Err(LinkError::Unknown("the notice connection was lost".to_owned())),
        };
        match answer {
            Ok(answer) if is_pong(&answer, &payload) => Ok(()),
            Ok(_) => {
                connection.end();
                Err(LinkError::Unknown("a reply went astray on the notice connection".to_owned()))
            }
            // The error reply to the first command: the one to the PING will find no waiting command, or another one.
            Err(error) if error.details().starts_with("NOPERM") => {
                connection.end();
                Err(LinkError::Refused(ServerError::new(error.details())))
            }
            Err(error) => {
                let lost = error::of_fred(&error);
                if matches!(lost, LinkError::Unknown(_)) && *error.kind() != ErrorKind::Timeout {
                    connection.end();
                }
                Err(lost)
            }
        }
    }

    /// The connection slot that holds the classic subscriptions.
    async fn anchored(&self) -> Result<Arc<ConnectionSlot>, LinkError> {
        let none = || LinkError::NotSent("no node of the cluster can be reached for notices".to_owned());
        let Some(slots) = &self.pool.shared.slots else { return self.pool.to(0).ok_or_else(none) };
        let before = *self.anchor.lock();
        if let Some(connection_slot) = before.and_then(|node| self.pool.known(node))
            && connection_slot.current().is_ok()
        {
            return Ok(connection_slot);
        }
        for node in slots.primaries() {
            let Some(connection_slot) = self.pool.to(node) else { continue };
            let ready = tokio::time::timeout(self.timeout(), connection_slot.ready()).await;
            if !matches!(ready, Ok(Ok(_))) {
                continue;
            }
            let mut anchor = self.anchor.lock();
            if *anchor == before {
                *anchor = Some(node);
                if before.is_some_and(|before| before != node) {
                    self.pool.shared.reset_notices();
                }
            }
            let chosen = *anchor;
            drop(anchor);
            return chosen.and_then(|node| self.pool.to(node)).ok_or_else(none);
        }
        Err(none())
    }

    fn forget(&self, slot: u16, channel: &Bytes) {
        let mut subscribed = self.pool.shared.subscribed.lock();
        if let Some(channels) = subscribed.get_mut(&slot) {
            channels.remove(channel);
            if channels.is_empty() {
                subscribed.remove(&slot);
            }
        }
    }

    fn timeout(&self) -> Duration {
        self.pool.shared.settings.command_timeout
    }
}

/// The commands that fred answers before it writes them.
#[derive(Clone, Copy)]
enum Family {
    Subscribe,
    Unsubscribe,
    Sunsubscribe,
}

fn is_pong(answer: &Value, payload: &str) -> bool {
    match answer {
        Value::Array(parts) => matches!(parts.as_slice(), [_, echo] if echo.as_bytes() == Some(payload.as_bytes())),
        echo => echo.as_bytes() == Some(payload.as_bytes()),
    }
}

fn text(channel: &Bytes) -> Result<&str, LinkError> {
    std::str::from_utf8(channel).map_err(|_| LinkError::NotSent("a channel's name is not UTF-8".to_owned()))
}
