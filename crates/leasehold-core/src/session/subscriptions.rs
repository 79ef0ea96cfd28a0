//! Subscriptions: the channels that locks listen to, and their state on the server.
//!
//! All locks that listen to a channel, such as the halves of a read-write lock, share its subscription. A channel has one command in flight
//! at a time, so that no command overtakes another.

use crate::error::AcquireError;
use crate::link::{LinkError, LinkEvent};
use crate::session::calls::Out;
use crate::session::line::{Line, Phase};
use crate::session::lock::LockId;
use crate::session::offline::Outage;
use crate::session::{Action, Event, Failure, Session, Timer, Timers};
use crate::time::Instant;
use bytes::Bytes;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

/// Minimum sleep of a contender whose subscription failed; the maximum is twice as long.
const MIN_POLL_PAUSE: Duration = Duration::from_millis(250);

/// What the link reports.
impl Session {
    /// Handles an event of the link.
    pub fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        if !matches!(
            event,
            LinkEvent::Notice { .. }
                | LinkEvent::Offered { .. }
                | LinkEvent::Wanted { .. }
                | LinkEvent::Connected { .. }
        ) {
            // The client may have missed a request of another client, or the server may have lost holds.
            self.stop_all_lingering(now);
        }
        match event {
            LinkEvent::Notice { channel } => {
                for lock in self.subscriptions.listeners(&channel) {
                    self.handle_notice(now, lock);
                }
            }
            LinkEvent::Offered { channel, entry } => {
                for lock in self.subscriptions.listeners(&channel) {
                    self.handle_offer(now, lock, &entry);
                }
            }
            LinkEvent::Wanted { channel } => {
                for lock in self.subscriptions.listeners(&channel) {
                    if self.locks[lock].protocol().may_be_handed_on() {
                        self.yield_to_other_client(now, lock);
                    } else {
                        self.handle_notice(now, lock);
                    }
                }
            }
            LinkEvent::NoticesReset => self.subscriptions.reset(&mut self.out),
            LinkEvent::CallsReset => {
                self.resets += 1;
                self.renew_all(now);
                self.retry_all(now);
            }
            LinkEvent::Connected { server, again } => {
                let out_for = self.outages.end(&server).map(|outage| now.since(outage.since));
                self.out.emit(Event::Connected { server, again, out_for });
            }
            LinkEvent::OutOfReach { server, why, lost_for, slots } => {
                self.begin_outage(now, Outage { server, since: now - lost_for, why, slots });
            }
            LinkEvent::Retired { server } => {
                let out_for = self.outages.end(&server).map(|outage| now.since(outage.since));
                self.out.emit(Event::Retired { server, out_for });
            }
        }
    }

    /// Handles the result of [`Action::Subscribe`].
    pub fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let subscriptions = &mut self.subscriptions;
        let Some(id) = subscriptions.by_name.get(channel).copied() else { return };
        let Subscription::Asked { stale } = subscriptions.channels[id].state else { return };
        if stale {
            return subscriptions.update(id, &mut self.out);
        }
        let listeners = subscriptions.channels[id].listeners.clone();
        match result {
            Ok(()) => {
                subscriptions.channels[id].state = Subscription::Confirmed;
                if listeners.is_empty() {
                    subscriptions.update(id, &mut self.out);
                }
                for lock in listeners {
                    let line = &mut self.locks[lock].line;
                    if self.subscriptions.is_confirmed(lock) && line.get_mut().is_some_and(Line::note_confirmed) {
                        self.begin_turn(now, lock);
                    }
                }
                return;
            }
            // The server would refuse the subscription again, so these locks stop listening.
            Err(LinkError::Refused(refusal)) if !refusal.is_transient() => {
                subscriptions.channels[id].state = Subscription::Retry;
                for lock in &listeners {
                    subscriptions.retain(*lock, |heard| heard != channel, &mut self.out);
                }
                for lock in &listeners {
                    self.fail_line(now, *lock, &AcquireError::Refused(refusal.clone()));
                }
            }
            // A retry follows. Until then the contenders poll.
            Err(error) => {
                subscriptions.retry(now, id, self.rng.f64(), &mut self.timers);
                for lock in listeners.iter().copied() {
                    if self.locks[lock].line.phase == Phase::Subscribing {
                        let until = now + MIN_POLL_PAUSE + self.jitter(MIN_POLL_PAUSE);
                        self.locks[lock].line.phase = Phase::Sleeping(until);
                        self.set_lock_timer(lock);
                    }
                    let name = self.locks[lock].name.clone();
                    let (why, lasting) = (error.to_string(), error.is_lasting());
                    self.out.emit(Event::SubscribeFailed(name, Failure { why, lasting }));
                }
            }
        }
        self.stop_lingering_where(now, |hold| hold.may_linger() && listeners.contains(&hold.lock));
    }

    /// Handles the result of [`Action::Unsubscribe`].
    pub fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let subscriptions = &mut self.subscriptions;
        let Some(id) = subscriptions.by_name.get(channel).copied() else { return };
        if subscriptions.channels[id].state != Subscription::Ending {
            return;
        }
        match result {
            Err(error) if !matches!(error, LinkError::Refused(_)) => {
                subscriptions.retry(now, id, self.rng.f64(), &mut self.timers);
            }
            _ if subscriptions.channels[id].listeners.is_empty() => {
                let mut gone = subscriptions.channels.remove(id);
                self.timers.set(Timer::Channel(id), &mut gone.timer, None);
                subscriptions.by_name.remove(&gone.name);
            }
            _ => subscriptions.update(id, &mut self.out),
        }
    }

    /// Stores the server's command for release notices, for a client that was created before it connected.
    pub fn handle_met(&mut self, publish: Bytes) {
        self.settings.publish = publish;
    }

    /// Makes every sleeping contender try again, because notices may be missing. A jitter spreads the attempts.
    fn retry_all(&mut self, now: Instant) {
        let locks: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        for lock in locks {
            let at = now + self.jitter(Duration::from_millis(50));
            if let Some(line) = self.locks[lock].line.get_mut() {
                line.note_missed_notices(at);
            }
            self.set_lock_timer(lock);
        }
    }
}

/// The index of a channel. It is reused once the subscription has ended.
pub(super) type ChannelId = usize;

#[derive(Default)]
pub(super) struct Subscriptions {
    channels: Slab<Channel>,
    by_name: HashMap<Bytes, ChannelId>,
    /// The channels of each lock, in the order in which it began to listen.
    by_lock: BTreeMap<LockId, Vec<ChannelId>>,
}

#[derive(Debug)]
struct Channel {
    name: Bytes,
    state: Subscription,
    listeners: Vec<LockId>,
    timer: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    /// The server has not confirmed it. If it is `stale`, the connection was lost since, and the answer may be about the old connection.
    Asked {
        stale: bool,
    },
    Confirmed,
    Ending,
    /// The last command failed, and a timer retries.
    Retry,
}

impl Subscriptions {
    pub(super) fn listen(&mut self, lock: LockId, name: &Bytes, out: &mut Out) {
        let known = self.by_name.get(name).copied();
        let id = known.unwrap_or_else(|| {
            let state = Subscription::Retry;
            let id = self.channels.insert(Channel { name: name.clone(), state, listeners: Vec::new(), timer: None });
            self.by_name.insert(name.clone(), id);
            id
        });
        let of_lock = self.by_lock.entry(lock).or_default();
        if !of_lock.contains(&id) {
            of_lock.push(id);
            self.channels[id].listeners.push(lock);
        }
        if known.is_none() {
            self.update(id, out);
        }
    }

    pub(super) fn listens(&self, lock: LockId, is_it: impl Fn(&Bytes) -> bool) -> bool {
        self.by_lock.get(&lock).is_some_and(|of_lock| of_lock.iter().any(|id| is_it(&self.channels[*id].name)))
    }

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
                self.update(id, out);
            }
        }
    }

    /// Whether the server has confirmed all channels of the lock, if it has any.
    pub(super) fn is_confirmed(&self, lock: LockId) -> bool {
        let mut of_lock = self.by_lock.get(&lock).into_iter().flatten();
        of_lock.all(|id| self.channels[*id].state == Subscription::Confirmed)
    }

    /// Whether the lock listens, and receives everything published from now on.
    pub(super) fn hears(&self, lock: LockId) -> bool {
        self.by_lock.contains_key(&lock) && self.is_confirmed(lock)
    }

    pub(super) fn listeners(&self, name: &Bytes) -> Vec<LockId> {
        self.by_name.get(name).map(|id| self.channels[*id].listeners.clone()).unwrap_or_default()
    }

    pub(super) fn is_due(&mut self, id: ChannelId, out: &mut Out) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.timer = None;
        if channel.state == Subscription::Retry {
            self.update(id, out);
        }
    }

    /// Subscribes again after the connection for notices was lost.
    pub(super) fn reset(&mut self, out: &mut Out) {
        let all: Vec<ChannelId> = self.channels.iter().map(|(id, _)| id).collect();
        for id in all {
            let channel = &mut self.channels[id];
            match channel.state {
                Subscription::Ending => {}
                // The command may have used the old connection: its answer repeats it.
                Subscription::Asked { .. } => channel.state = Subscription::Asked { stale: true },
                Subscription::Confirmed | Subscription::Retry => self.update(id, out),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn timers(&self) -> usize {
        self.channels.iter().filter(|(_, channel)| channel.timer.is_some()).count()
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> {
        self.by_lock.keys().copied()
    }

    pub(super) fn is_sound(&self) -> bool {
        let forth = self.by_lock.iter().flat_map(|(lock, channels)| channels.iter().map(|id| (*lock, *id)));
        let back = self.channels.iter().flat_map(|(id, channel)| channel.listeners.iter().map(move |lock| (*lock, id)));
        forth.collect::<BTreeSet<_>>() == back.collect()
    }

    /// Subscribes if a lock listens, and unsubscribes otherwise.
    fn update(&mut self, id: ChannelId, out: &mut Out) {
        let channel = &mut self.channels[id];
        let name = channel.name.clone();
        if channel.listeners.is_empty() {
            channel.state = Subscription::Ending;
            out.actions.push_back(Action::Unsubscribe { channel: name });
        } else {
            channel.state = Subscription::Asked { stale: false };
            out.actions.push_back(Action::Subscribe { channel: name });
        }
    }

    fn retry(&mut self, now: Instant, id: ChannelId, spread: f64, timers: &mut Timers) {
        let at = now + Duration::from_millis(100).mul_f64(spread) + Duration::from_millis(20);
        let channel = &mut self.channels[id];
        channel.state = Subscription::Retry;
        timers.set(Timer::Channel(id), &mut channel.timer, Some(at));
    }
}

/// A slab prints only its length.
impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.channels).entries(&self.by_lock).finish()
    }
}

#[cfg(test)]
mod tests;
