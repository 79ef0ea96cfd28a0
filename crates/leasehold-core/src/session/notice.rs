//! Subscriptions to release notices, and what notices and resets do to those who wait.

use super::contend::Phase;
use super::{Action, Event, Session};
use crate::error::AcquireError;
use crate::link::{LinkError, LinkEvent, Plane};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

/// The state of a lock's subscription. One command for a channel is under way at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Subscription {
    #[default]
    None,
    /// The server has not confirmed it yet.
    Asked {
        /// The connection was lost meanwhile: whatever is answered may be about the old one.
        stale: bool,
    },
    Confirmed,
    /// It is being ended.
    Ending,
    /// It, or its end, failed, and is tried again at that instant.
    Retry(Instant),
}

impl Subscription {
    pub(super) const fn retry_at(self) -> Option<Instant> {
        match self {
            Self::Retry(at) => Some(at),
            _ => None,
        }
    }
}

/// How long a contender sleeps, at least, when its subscription could not be made; at most twice as long.
const POLLING: Duration = Duration::from_millis(250);

impl super::contend::Lock {
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscription != Subscription::None
    }
}

impl Session {
    /// Takes the answer to [`Action::Subscribe`].
    pub fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let Some(lock) = self.lock_of_channel(channel) else { return };
        let Subscription::Asked { stale } = self.locks[lock].subscription else { return };
        match result {
            _ if stale && self.locks[lock].wants_notices => self.subscribe(lock),
            _ if stale => self.unsubscribe(lock),
            Ok(()) => {
                self.locks[lock].subscription = Subscription::Confirmed;
                if !self.locks[lock].wants_notices {
                    self.unsubscribe(lock);
                } else if matches!(self.locks[lock].phase, Phase::Subscribing | Phase::Sleeping(_)) {
                    // Whatever was missed before the confirmation is seen by trying now.
                    self.due(now, lock);
                }
            }
            Err(LinkError::Refused(error)) if !error.is_transient() => {
                self.locks[lock].subscription = Subscription::Confirmed;
                self.unsubscribe(lock);
                self.fail_line(now, lock, &AcquireError::Refused(error.text().to_owned()));
            }
            Err(error) => {
                let why = error.to_string();
                let name = self.locks[lock].name.clone();
                self.retry_subscription(now, lock);
                if self.locks[lock].phase == Phase::Subscribing {
                    // Without notices, asking now and then must do.
                    self.locks[lock].phase = Phase::Sleeping(now + POLLING + self.jitter(POLLING));
                    self.set_lock_timer(lock);
                }
                self.events.push_back(Event::SubscribeFailed { name, why });
            }
        }
    }

    /// Takes the answer to [`Action::Unsubscribe`].
    pub fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let Some(lock) = self.lock_of_channel(channel) else { return };
        if self.locks[lock].subscription != Subscription::Ending {
            return;
        }
        match result {
            Err(error) if !matches!(error, LinkError::Refused(_)) => self.retry_subscription(now, lock),
            _ => {
                self.locks[lock].subscription = Subscription::None;
                if self.locks[lock].wants_notices {
                    self.subscribe(lock);
                } else {
                    self.unref(lock);
                }
            }
        }
    }

    /// Takes an event of the link.
    pub fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        match event {
            LinkEvent::Notice { channel } => {
                if let Some(lock) = self.lock_of_channel(&channel) {
                    self.handle_notice(now, lock);
                }
            }
            LinkEvent::NoticesLagged => self.all_try_again(now),
            LinkEvent::NoticesReset => self.resubscribe(now),
            LinkEvent::PlaneReset(Plane::Lifeline) => {
                self.renew_all(now);
                self.all_try_again(now);
            }
            LinkEvent::PlaneReset(Plane::Foreground) => self.all_try_again(now),
        }
    }

    /// Makes sure that the lock's releases are heard of; `true` where the server has confirmed it already.
    pub(super) fn want_notices(&mut self, _now: Instant, lock: usize) -> bool {
        let state = &mut self.locks[lock];
        state.wants_notices = true;
        if state.subscription == Subscription::None {
            state.refs += 1;
            self.subscribe(lock);
        }
        self.locks[lock].subscription == Subscription::Confirmed
    }

    /// Nobody waits for the lock any more.
    pub(super) fn drop_notices(&mut self, _now: Instant, lock: usize) {
        let state = &mut self.locks[lock];
        state.wants_notices = false;
        match state.subscription {
            Subscription::Confirmed | Subscription::Retry(_) => self.unsubscribe(lock),
            Subscription::None | Subscription::Asked { .. } | Subscription::Ending => {}
        }
    }

    pub(super) fn subscription_is_due(&mut self, now: Instant, lock: usize) {
        if self.locks[lock].subscription.retry_at().is_none_or(|at| at > now) {
            return;
        }
        if self.locks[lock].wants_notices {
            self.subscribe(lock);
        } else {
            self.unsubscribe(lock);
        }
    }

    fn subscribe(&mut self, lock: usize) {
        let state = &mut self.locks[lock];
        state.subscription = Subscription::Asked { stale: false };
        let channel = state.name.channel().clone();
        self.actions.push_back(Action::Subscribe { channel });
    }

    fn unsubscribe(&mut self, lock: usize) {
        let state = &mut self.locks[lock];
        state.subscription = Subscription::Ending;
        let channel = state.name.channel().clone();
        self.actions.push_back(Action::Unsubscribe { channel });
    }

    fn retry_subscription(&mut self, now: Instant, lock: usize) {
        let at = now + self.jitter(Duration::from_millis(100)) + Duration::from_millis(20);
        self.locks[lock].subscription = Subscription::Retry(at);
        self.set_lock_timer(lock);
    }

    /// The lock may be free.
    fn handle_notice(&mut self, now: Instant, lock: usize) {
        match self.locks[lock].phase {
            Phase::Sleeping(_) => self.due(now, lock),
            Phase::Trying => self.locks[lock].again = true,
            Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::BackingOff(_) => {}
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
                Phase::Idle | Phase::Due(_) | Phase::Subscribing => {}
            }
            self.set_lock_timer(lock);
        }
    }

    /// The connection for notices is back, without any subscription.
    fn resubscribe(&mut self, _now: Instant) {
        let locks: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        for lock in locks {
            let state = &mut self.locks[lock];
            match state.subscription {
                Subscription::None | Subscription::Ending => {}
                // The command under way may have gone by the old connection. One is under way at a time, so that none can
                // overtake another: it is repeated when it has been answered.
                Subscription::Asked { .. } => state.subscription = Subscription::Asked { stale: true },
                Subscription::Confirmed | Subscription::Retry(_) if state.wants_notices => self.subscribe(lock),
                Subscription::Confirmed | Subscription::Retry(_) => self.unsubscribe(lock),
            }
        }
    }

    fn lock_of_channel(&self, channel: &Bytes) -> Option<usize> {
        // The channel is `redisson_lock__channel:` and the key, which stands in braces where it has none of its own.
        let start = channel.iter().position(|byte| *byte == b':')? + 1;
        let tail = channel.get(start..)?;
        let plain = tail.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
        plain
            .and_then(|key| self.by_key.get(key))
            .or_else(|| self.by_key.get(tail))
            .copied()
            .filter(|lock| self.locks[*lock].name.channel() == channel)
    }
}
