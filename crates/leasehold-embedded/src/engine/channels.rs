//! The listeners of each channel.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The id of a subscriber.
pub(crate) type Listener = u64;

/// Plain and sharded channels are separate: `PUBLISH` reaches no client that subscribed with `SSUBSCRIBE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PubSubMode {
    Plain,
    Sharded,
}

/// A message in transit: subscriber, channel and text.
pub(crate) type Published = (Listener, Bytes, Bytes);

/// Subscriptions, and the messages of the current turn.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    subscribers: BTreeMap<(PubSubMode, Bytes), BTreeSet<Listener>>,
    published: Vec<Published>,
    /// Channel and text of each delivered plain message. `None` until logging starts.
    log: Option<Vec<(Bytes, Bytes)>>,
}

impl Channels {
    pub(crate) fn subscribe(&mut self, mode: PubSubMode, channel: Bytes, listener: Listener) {
        self.subscribers.entry((mode, channel)).or_default().insert(listener);
    }

    pub(crate) fn unsubscribe(&mut self, mode: PubSubMode, channel: Bytes, listener: Listener) {
        let key = (mode, channel);
        if let Some(listeners) = self.subscribers.get_mut(&key) {
            listeners.remove(&listener);
            if listeners.is_empty() {
                self.subscribers.remove(&key);
            }
        }
    }

    /// Ends all subscriptions of a client.
    pub(crate) fn disconnect(&mut self, listener: Listener) {
        self.subscribers.retain(|_, listeners| {
            listeners.remove(&listener);
            !listeners.is_empty()
        });
    }

    /// Sends to all subscribers. Returns the number of subscribers.
    pub(crate) fn publish(&mut self, mode: PubSubMode, channel: &[u8], text: &[u8]) -> usize {
        if self.subscribers.is_empty() {
            return 0;
        }
        let channel = Bytes::copy_from_slice(channel);
        let key = (mode, channel.clone());
        let Some(listeners) = self.subscribers.get(&key) else { return 0 };
        let text = Bytes::copy_from_slice(text);
        self.published.extend(listeners.iter().map(|listener| (*listener, channel.clone(), text.clone())));
        if let Some(log) = self.log.as_mut().filter(|_| mode == PubSubMode::Plain) {
            log.push((channel, text));
        }
        listeners.len()
    }

    /// Returns the plain messages delivered since the last call. The first call starts the log.
    pub(crate) fn take_log(&mut self) -> Vec<(Bytes, Bytes)> {
        self.log.replace(Vec::new()).unwrap_or_default()
    }

    /// Returns the messages in transit, in order.
    pub(crate) fn take_published(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.published)
    }

    /// Returns the number of all subscriptions.
    pub(crate) fn total(&self) -> usize {
        self.subscribers.values().map(BTreeSet::len).sum()
    }

    /// Returns the number of subscriptions to a channel, in both modes.
    pub(crate) fn count(&self, channel: &Bytes) -> usize {
        [PubSubMode::Plain, PubSubMode::Sharded].into_iter().map(|mode| self.listeners(mode, channel)).sum()
    }

    /// Returns the number of subscriptions to a channel.
    pub(crate) fn listeners(&self, mode: PubSubMode, channel: &Bytes) -> usize {
        self.subscribers.get(&(mode, channel.clone())).map_or(0, BTreeSet::len)
    }
}
