//! Subscriptions: which locks listen to which channels, and what the server has confirmed.
//!
//! A subscription is shared by all locks that listen to its channel, such as the halves of a read-write lock. One command for a channel is
//! under way at a time, so that none can overtake another.

use crate::link::{LinkError, ServerError};
use crate::session::calls::Out;
use crate::session::lock::{ChannelId, LockId, Table};
use crate::session::{Action, Timer, Timers};
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Subscriptions {
    channels: Table<ChannelId, Channel>,
    by_name: HashMap<Bytes, ChannelId>,
    /// The channels to which a lock listens, in the order in which it began to.
    by_lock: BTreeMap<LockId, Vec<ChannelId>>,
}

/// A channel that waiters listen to, or did until just now.
#[derive(Debug)]
struct Channel {
    name: Bytes,
    state: Subscription,
    listeners: Vec<LockId>,
    timer: Option<Instant>,
}

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    /// The server has not confirmed it yet.
    Asked {
        /// The connection was lost meanwhile: the answer may be about the old one.
        stale: bool,
    },
    Confirmed,
    /// It is being ended.
    Ending,
    /// It, or its end, failed, and is tried again.
    Retry,
}

/// What the answer to a subscription means for the locks that listen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "waiters may be due"]
pub(super) enum Answered {
    /// It changes nothing for them.
    Nothing,
    /// From now on these locks hear of releases. What they missed before is seen by trying now.
    Confirmed(Vec<LockId>),
    /// The server will refuse it again: these locks listen no more.
    Refused(Vec<LockId>, ServerError),
    /// It is tried again soon. Until then these locks hear nothing.
    Failed(Vec<LockId>),
}

impl Subscriptions {
    pub(super) fn new() -> Self {
        Self { channels: Table::new(), by_name: HashMap::new(), by_lock: BTreeMap::new() }
    }

    /// Has a lock listen to a channel.
    pub(super) fn listen(&mut self, lock: LockId, name: &Bytes, out: &mut Out) {
        let id = self.by_name.get(name).copied().unwrap_or_else(|| {
            let state = Subscription::Asked { stale: false };
            let id = self.channels.insert(Channel { name: name.clone(), state, listeners: Vec::new(), timer: None });
            self.by_name.insert(name.clone(), id);
            self.subscribe(id, out);
            id
        });
        let of_lock = self.by_lock.entry(lock).or_default();
        if !of_lock.contains(&id) {
            of_lock.push(id);
            self.channels[id].listeners.push(lock);
        }
    }

    /// Whether a lock listens to such a channel.
    pub(super) fn listens(&self, lock: LockId, is_it: impl Fn(&Bytes) -> bool) -> bool {
        self.by_lock.get(&lock).is_some_and(|of_lock| of_lock.iter().any(|id| is_it(&self.channels[*id].name)))
    }

    /// Has a lock listen no more to those of its channels that `is_wanted` does not name.
    pub(super) fn retain(&mut self, lock: LockId, is_wanted: impl Fn(&Bytes) -> bool, out: &mut Out) {
        let Some(of_lock) = self.by_lock.get_mut(&lock) else { return };
        let channels = &self.channels;
        let unwanted: Vec<ChannelId> = of_lock.extract_if(.., |id| !is_wanted(&channels[*id].name)).collect();
        if of_lock.is_empty() {
            self.by_lock.remove(&lock);
        }
        for id in unwanted {
            let channel = &mut self.channels[id];
            channel.listeners.retain(|listener| *listener != lock);
            if channel.listeners.is_empty() && matches!(channel.state, Subscription::Confirmed | Subscription::Retry) {
                self.unsubscribe(id, out);
            }
        }
    }

    /// Whether the server has confirmed all channels to which a lock listens.
    pub(super) fn is_confirmed(&self, lock: LockId) -> bool {
        let mut of_lock = self.by_lock.get(&lock).into_iter().flatten();
        of_lock.all(|id| self.channels[*id].state == Subscription::Confirmed)
    }

    /// Whether the server has confirmed the subscription of a lock: the client receives everything published from now
    /// on.
    pub(super) fn hears(&self, lock: LockId) -> bool {
        self.by_lock.contains_key(&lock) && self.is_confirmed(lock)
    }

    /// The locks that listen to a channel.
    pub(super) fn listeners(&self, name: &Bytes) -> Vec<LockId> {
        self.by_name.get(name).map(|id| self.channels[*id].listeners.clone()).unwrap_or_default()
    }

    /// Takes the answer to [`Action::Subscribe`]. `spread` is between 0 and 1.
    pub(super) fn subscribed(
        &mut self,
        now: Instant,
        name: &Bytes,
        result: &Result<(), LinkError>,
        spread: impl FnOnce() -> f64,
        out: &mut Out,
        timers: &mut Timers,
    ) -> Answered {
        let Some(id) = self.by_name.get(name).copied() else { return Answered::Nothing };
        let Subscription::Asked { stale } = self.channels[id].state else { return Answered::Nothing };
        let listeners = self.channels[id].listeners.clone();
        match result {
            _ if stale && listeners.is_empty() => self.unsubscribe(id, out),
            _ if stale => self.subscribe(id, out),
            Ok(()) => {
                self.channels[id].state = Subscription::Confirmed;
                if listeners.is_empty() {
                    self.unsubscribe(id, out);
                }
                return Answered::Confirmed(listeners);
            }
            Err(LinkError::Refused(error)) if !error.is_transient() => {
                self.channels[id].listeners.clear();
                self.unsubscribe(id, out);
                for lock in &listeners {
                    if let Some(of_lock) = self.by_lock.get_mut(lock) {
                        of_lock.retain(|heard| *heard != id);
                    }
                }
                self.by_lock.retain(|_, channels| !channels.is_empty());
                return Answered::Refused(listeners, error.clone());
            }
            Err(_) => {
                self.retry(now, id, spread(), timers);
                return Answered::Failed(listeners);
            }
        }
        Answered::Nothing
    }

    /// Takes the answer to [`Action::Unsubscribe`]. `spread` is between 0 and 1.
    pub(super) fn unsubscribed(
        &mut self,
        now: Instant,
        name: &Bytes,
        result: &Result<(), LinkError>,
        spread: impl FnOnce() -> f64,
        out: &mut Out,
        timers: &mut Timers,
    ) {
        let Some(id) = self.by_name.get(name).copied() else { return };
        if self.channels[id].state != Subscription::Ending {
            return;
        }
        match result {
            Err(error) if !matches!(error, LinkError::Refused(_)) => self.retry(now, id, spread(), timers),
            _ if self.channels[id].listeners.is_empty() => {
                let mut gone = self.channels.remove(id);
                timers.set(Timer::Channel(id), &mut gone.timer, None);
                self.by_name.remove(&gone.name);
            }
            _ => self.subscribe(id, out),
        }
    }

    /// The time has come to try a subscription again, or its end.
    pub(super) fn is_due(&mut self, id: ChannelId, out: &mut Out) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.timer = None;
        if channel.state == Subscription::Retry {
            self.go_on(id, out);
        }
    }

    /// The connection for notices is back, without any subscription.
    pub(super) fn reset(&mut self, out: &mut Out) {
        let all: Vec<ChannelId> = self.channels.iter().map(|(id, _)| id).collect();
        for id in all {
            let channel = &mut self.channels[id];
            match channel.state {
                Subscription::Ending => {}
                // The command under way may have gone by the old connection: it is repeated when it has been answered.
                Subscription::Asked { .. } => channel.state = Subscription::Asked { stale: true },
                Subscription::Confirmed | Subscription::Retry => self.go_on(id, out),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// How many timers are set.
    pub(super) fn timers(&self) -> usize {
        self.channels.iter().filter(|(_, channel)| channel.timer.is_some()).count()
    }

    /// The locks that listen to anything.
    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> {
        self.by_lock.keys().copied()
    }

    /// Whether both tables agree on who listens to what.
    pub(super) fn is_sound(&self) -> bool {
        let forth = self.by_lock.iter().all(|(lock, channels)| {
            channels.iter().all(|id| self.channels.get(*id).is_some_and(|channel| channel.listeners.contains(lock)))
        });
        let back = self.channels.iter().all(|(id, channel)| {
            channel.listeners.iter().all(|lock| self.by_lock.get(lock).is_some_and(|channels| channels.contains(&id)))
        });
        forth && back
    }

    /// Subscribes where a lock listens, and ends the subscription where none does.
    fn go_on(&mut self, id: ChannelId, out: &mut Out) {
        if self.channels[id].listeners.is_empty() {
            self.unsubscribe(id, out);
        } else {
            self.subscribe(id, out);
        }
    }

    fn subscribe(&mut self, id: ChannelId, out: &mut Out) {
        let channel = &mut self.channels[id];
        channel.state = Subscription::Asked { stale: false };
        out.act(Action::Subscribe { channel: channel.name.clone() });
    }

    fn unsubscribe(&mut self, id: ChannelId, out: &mut Out) {
        let channel = &mut self.channels[id];
        channel.state = Subscription::Ending;
        out.act(Action::Unsubscribe { channel: channel.name.clone() });
    }

    fn retry(&mut self, now: Instant, id: ChannelId, spread: f64, timers: &mut Timers) {
        let at = now + Duration::from_millis(100).mul_f64(spread) + Duration::from_millis(20);
        let channel = &mut self.channels[id];
        channel.state = Subscription::Retry;
        timers.set(Timer::Channel(id), &mut channel.timer, Some(at));
    }
}

#[cfg(test)]
mod tests;
