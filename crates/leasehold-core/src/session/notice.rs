//! Subscriptions to release notices, and what notices and resets do to those who wait.

use super::contend::Phase;
use super::ids::{ChannelId, LockId};
use super::timers::Timer;
use super::{Action, Event, Session};
use crate::error::AcquireError;
use crate::link::{LinkError, LinkEvent, Plane};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

/// A channel that waiters listen to, or did until just now.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) name: Bytes,
    state: Subscription,
    /// The locks whose waiters listen. The halves of a read-write lock share a channel.
    listeners: Vec<LockId>,
    timer: Option<Instant>,
}

/// The state of a subscription. One command for a channel is under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    /// The server has not confirmed it yet.
    Asked {
        /// The connection was lost meanwhile: whatever is answered may be about the old one.
        stale: bool,
    },
    Confirmed,
    /// It is being ended.
    Ending,
    /// It, or its end, failed, and is tried again.
    Retry,
}

impl Channel {
    pub(super) fn listeners(&self) -> &[LockId] {
        &self.listeners
    }

    pub(super) const fn timer(&self) -> Option<Instant> {
        self.timer
    }
}

/// How long a contender sleeps, at least, when its subscription could not be made; at most twice as long.
const POLLING: Duration = Duration::from_millis(250);

impl Session {
    /// Takes the answer to [`Action::Subscribe`].
    pub fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let Some(index) = self.by_channel.get(channel).copied() else { return };
        let Subscription::Asked { stale } = self.channels[index].state else { return };
        let wanted = !self.channels[index].listeners.is_empty();
        match result {
            _ if stale && wanted => self.subscribe(index),
            _ if stale => self.unsubscribe(index),
            Ok(()) => {
                self.channels[index].state = Subscription::Confirmed;
                if !wanted {
                    self.unsubscribe(index);
                }
                for lock in self.channels[index].listeners.clone() {
                    // Whatever was missed before the confirmation is seen by trying now.
                    if matches!(self.locks[lock].phase, Phase::Subscribing | Phase::Sleeping(_)) && self.hears(lock) {
                        self.due(now, lock);
                    }
                }
            }
            Err(LinkError::Refused(error)) if !error.is_transient() => {
                self.channels[index].state = Subscription::Confirmed;
                let listeners = std::mem::take(&mut self.channels[index].listeners);
                self.unsubscribe(index);
                for lock in listeners {
                    self.locks[lock].channels.retain(|heard| *heard != index);
                    self.fail_line(now, lock, &AcquireError::Refused(error.text().to_owned()));
                }
            }
            Err(error) => {
                let (why, lasting) = (error.to_string(), error.is_lasting());
                self.retry_subscription(now, index);
                for lock in self.channels[index].listeners.clone() {
                    if self.locks[lock].phase == Phase::Subscribing {
                        // Without notices, asking now and then must do.
                        self.locks[lock].phase = Phase::Sleeping(now + POLLING + self.jitter(POLLING));
                        self.set_lock_timer(lock);
                    }
                    let name = self.locks[lock].name.clone();
                    self.events.push_back(Event::SubscribeFailed { name, why: why.clone(), lasting });
                }
            }
        }
    }

    /// Takes the answer to [`Action::Unsubscribe`].
    pub fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let Some(index) = self.by_channel.get(channel).copied() else { return };
        if self.channels[index].state != Subscription::Ending {
            return;
        }
        match result {
            Err(error) if !matches!(error, LinkError::Refused(_)) => self.retry_subscription(now, index),
            _ if self.channels[index].listeners.is_empty() => {
                let mut gone = self.channels.remove(index);
                self.timers.set(Timer::Channel(index), &mut gone.timer, None);
                self.by_channel.remove(&gone.name);
            }
            _ => self.subscribe(index),
        }
    }

    /// The server is known now, of a client that was made before: releases are announced by this command.
    pub fn handle_met(&mut self, publish: Bytes) {
        self.settings.publish = publish;
    }

    /// Takes an event of the link.
    pub fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        match event {
            LinkEvent::Notice { channel } => {
                let heard = self.by_channel.get(&channel).map(|index| self.channels[*index].listeners.clone());
                for lock in heard.unwrap_or_default() {
                    self.handle_notice(now, lock);
                }
            }
            LinkEvent::NoticesLagged => self.all_try_again(now),
            LinkEvent::NoticesReset => self.resubscribe(),
            LinkEvent::PlaneReset(Plane::Lifeline) => {
                self.renew_all(now);
                self.all_try_again(now);
            }
            LinkEvent::PlaneReset(Plane::Foreground | Plane::Durable) => self.all_try_again(now),
            LinkEvent::Connected { server, again } => self.server_connected(now, server, again),
            LinkEvent::OutOfReach { server, why, lost_for, slots } => {
                self.server_out_of_reach(now, server, why, lost_for, slots);
            }
            LinkEvent::Retired { server } => self.server_retired(now, server),
        }
    }

    /// Makes sure that the lock's releases are heard of; `true` where the server has confirmed it already, or where there is
    /// nothing to be heard and waiting is by polling.
    pub(super) fn want_notices(&mut self, lock: LockId) -> bool {
        if let Some(channel) = self.locks[lock].keys.channel.clone() {
            self.listen(lock, &channel);
        }
        self.hears(lock)
    }

    /// Has the waiters of a lock hear what is said on a channel.
    pub(super) fn listen(&mut self, lock: LockId, channel: &Bytes) {
        let known = self.by_channel.get(channel).copied();
        let index = known.unwrap_or_else(|| {
            let state = Subscription::Asked { stale: false };
            let new = Channel { name: channel.clone(), state, listeners: Vec::new(), timer: None };
            let index = self.channels.insert(new);
            self.by_channel.insert(channel.clone(), index);
            self.subscribe(index);
            index
        });
        if !self.locks[lock].channels.contains(&index) {
            self.locks[lock].channels.push(index);
            self.channels[index].listeners.push(lock);
        }
    }

    /// The waiters of a lock need not hear what is said on a channel any more.
    pub(super) fn stop_listening(&mut self, lock: LockId, index: ChannelId) {
        self.locks[lock].channels.retain(|heard| *heard != index);
        let channel = &mut self.channels[index];
        channel.listeners.retain(|listener| *listener != lock);
        if channel.listeners.is_empty() && matches!(channel.state, Subscription::Confirmed | Subscription::Retry) {
            self.unsubscribe(index);
        }
    }

    /// No request waits for the lock any more.
    pub(super) fn drop_notices(&mut self, lock: LockId) {
        for index in self.locks[lock].channels.clone() {
            self.stop_listening(lock, index);
        }
    }

    /// Whether all that the lock listens to is confirmed.
    fn hears(&self, lock: LockId) -> bool {
        self.locks[lock].channels.iter().all(|index| self.channels[*index].state == Subscription::Confirmed)
    }

    /// A subscription, or its end, failed a moment ago.
    pub(super) fn channel_is_due(&mut self, index: ChannelId) {
        let Some(channel) = self.channels.get_mut(index) else { return };
        channel.timer = None;
        if channel.state != Subscription::Retry {
            return;
        }
        if channel.listeners.is_empty() {
            self.unsubscribe(index);
        } else {
            self.subscribe(index);
        }
    }

    fn subscribe(&mut self, index: ChannelId) {
        let state = &mut self.channels[index];
        state.state = Subscription::Asked { stale: false };
        let channel = state.name.clone();
        self.actions.push_back(Action::Subscribe { channel });
    }

    fn unsubscribe(&mut self, index: ChannelId) {
        let state = &mut self.channels[index];
        state.state = Subscription::Ending;
        let channel = state.name.clone();
        self.actions.push_back(Action::Unsubscribe { channel });
    }

    fn retry_subscription(&mut self, now: Instant, index: ChannelId) {
        let at = now + self.jitter(Duration::from_millis(100)) + Duration::from_millis(20);
        let channel = &mut self.channels[index];
        channel.state = Subscription::Retry;
        self.timers.set(Timer::Channel(index), &mut channel.timer, Some(at));
    }

    /// The lock may be free.
    fn handle_notice(&mut self, now: Instant, lock: LockId) {
        match self.locks[lock].phase {
            Phase::Sleeping(_) => self.due(now, lock),
            Phase::Trying => self.locks[lock].again = true,
            Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::BackingOff(_) | Phase::Gated => {}
        }
    }

    /// Notices may have been missed: every contender that sleeps tries again, not all at the same instant.
    fn all_try_again(&mut self, now: Instant) {
        let locks: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        for lock in locks {
            let at = now + self.jitter(Duration::from_millis(50));
            match &mut self.locks[lock].phase {
                Phase::Sleeping(until) | Phase::BackingOff(until) => *until = at.min(*until),
                Phase::Trying => self.locks[lock].again = true,
                Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::Gated => {}
            }
            self.set_lock_timer(lock);
        }
    }

    /// The connection for notices is back, without any subscription.
    fn resubscribe(&mut self) {
        let channels: Vec<_> = self.channels.iter().map(|(index, _)| index).collect();
        for index in channels {
            let channel = &mut self.channels[index];
            match channel.state {
                Subscription::Ending => {}
                // The command under way may have gone by the old connection. One is under way at a time, so that none can
                // overtake another: it is repeated when it has been answered.
                Subscription::Asked { .. } => channel.state = Subscription::Asked { stale: true },
                Subscription::Confirmed | Subscription::Retry if channel.listeners.is_empty() => {
                    self.unsubscribe(index);
                }
                Subscription::Confirmed | Subscription::Retry => self.subscribe(index),
            }
        }
    }
}
