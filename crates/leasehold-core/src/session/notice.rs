//! Events of the link, and what notices and subscriptions do to waiters.

use super::ids::LockId;
use super::lock::Phase;
use super::subscriptions::Answered;
use super::{Event, Session};
use crate::error::AcquireError;
use crate::link::{LinkError, LinkEvent, Plane};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

/// How long a contender sleeps, at least, when its subscription could not be made; at most twice as long.
const POLLING: Duration = Duration::from_millis(250);

impl Session {
    /// Takes the answer to [`Action::Subscribe`](super::Action::Subscribe).
    pub fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let spread = || self.rng.f64();
        let (out, timers) = (&mut self.out, &mut self.timers);
        match self.subscriptions.subscribed(now, channel, &result, spread, out, timers) {
            Answered::Nothing => {}
            Answered::Confirmed(locks) => {
                for lock in locks {
                    let waits = matches!(self.locks[lock].phase, Phase::Subscribing | Phase::Sleeping(_));
                    if waits && self.subscriptions.is_confirmed(lock) {
                        self.due(now, lock);
                    }
                }
            }
            Answered::Refused(locks, why) => {
                for lock in locks {
                    self.fail_line(now, lock, &AcquireError::Refused(why.clone()));
                }
            }
            Answered::Failed(locks) => {
                let Err(error) = result else { return };
                let (why, lasting) = (error.to_string(), error.is_lasting());
                for lock in locks {
                    if self.locks[lock].phase == Phase::Subscribing {
                        // Without notices, asking now and then must do.
                        self.locks[lock].phase = Phase::Sleeping(now + POLLING + self.jitter(POLLING));
                        self.set_lock_timer(lock);
                    }
                    let name = self.locks[lock].name.clone();
                    self.out.tell(Event::SubscribeFailed { name, why: why.clone(), lasting });
                }
            }
        }
    }

    /// Takes the answer to [`Action::Unsubscribe`](super::Action::Unsubscribe).
    pub fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let spread = || self.rng.f64();
        self.subscriptions.unsubscribed(now, channel, &result, spread, &mut self.out, &mut self.timers);
    }

    /// The server is known now, of a client that was made before: releases are announced by this command.
    pub fn handle_met(&mut self, publish: Bytes) {
        self.settings.publish = publish;
    }

    /// Takes an event of the link.
    pub fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        match event {
            LinkEvent::Notice { channel } => {
                for lock in self.subscriptions.listeners(&channel) {
                    self.handle_notice(now, lock);
                }
            }
            LinkEvent::NoticesLagged => self.all_try_again(now),
            LinkEvent::NoticesReset => self.subscriptions.reset(&mut self.out),
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

    /// Makes sure that the lock's releases are heard of; `true` if the server has confirmed it already, or if there is nothing to be heard and
    /// waiting is by polling.
    pub(super) fn want_notices(&mut self, lock: LockId) -> bool {
        if let Some(channel) = &self.locks[lock].keys.channel {
            self.subscriptions.listen(lock, channel, &mut self.out);
        }
        self.subscriptions.is_confirmed(lock)
    }

    /// No request waits for the lock any more.
    pub(super) fn drop_notices(&mut self, lock: LockId) {
        self.subscriptions.retain(lock, |_| false, &mut self.out);
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
}
