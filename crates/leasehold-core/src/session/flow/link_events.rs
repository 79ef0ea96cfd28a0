//! Events of the link, and what notices and subscriptions do to waiters.

use crate::error::AcquireError;
use crate::link::{LinkError, LinkEvent};
use crate::session::Event;
use crate::session::ids::LockId;
use crate::session::lock::line::Phase;
use crate::session::outages::Outage;
use crate::session::parts::Parts;
use crate::session::subscriptions::Answered;
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

/// How long a contender sleeps, at least, when its subscription could not be made; at most twice as long.
const POLLING: Duration = Duration::from_millis(250);

impl Parts {
    /// See [`Session::handle_event`](crate::session::Session::handle_event).
    pub(crate) fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        if !matches!(
            event,
            LinkEvent::Notice { .. }
                | LinkEvent::Offered { .. }
                | LinkEvent::Wanted { .. }
                | LinkEvent::Connected { .. }
        ) {
            // This client may have missed that another wants a lock, or the server may have lost what it had.
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
                    if self.locks[lock].protocol().is_asked_for() {
                        self.give_way(now, lock);
                    } else {
                        self.handle_notice(now, lock);
                    }
                }
            }
            LinkEvent::NoticesReset => self.subscriptions.reset(&mut self.out),
            LinkEvent::CallsReset => {
                self.resets += 1;
                self.renew_all(now);
                self.all_try_again(now);
            }
            LinkEvent::Connected { server, again } => self.server_connected(now, server, again),
            LinkEvent::OutOfReach { server, why, lost_for, slots } => {
                self.server_out_of_reach(now, server, why, lost_for, slots);
            }
            LinkEvent::Retired { server } => self.server_retired(now, server),
        }
    }

    /// See [`Session::handle_subscribed`](crate::session::Session::handle_subscribed).
    pub(crate) fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let spread = || self.rng.f64();
        let (out, timers) = (&mut self.out, &mut self.timers);
        match self.subscriptions.subscribed(now, channel, &result, spread, out, timers) {
            Answered::Nothing => {}
            Answered::Confirmed(locks) => {
                for lock in locks {
                    if self.subscriptions.is_confirmed(lock) && self.locks[lock].note_confirmed() {
                        self.begin_turn(now, lock);
                    }
                }
            }
            Answered::Refused(locks, why) => {
                for lock in &locks {
                    self.fail_line(now, *lock, &AcquireError::Refused(why.clone()));
                }
                self.stop_unheard(now, &locks);
            }
            Answered::Failed(locks) => {
                let Err(error) = result else { return };
                let (why, lasting) = (error.to_string(), error.is_lasting());
                for lock in locks.iter().copied() {
                    if self.locks[lock].line().phase() == Phase::Subscribing {
                        // Without notices, asking now and then must do.
                        let until = now + POLLING + self.jitter(POLLING);
                        self.locks[lock].line_mut().sleep(until);
                        self.set_lock_timer(lock);
                    }
                    let name = self.locks[lock].name().clone();
                    self.out.tell(Event::SubscribeFailed { name, why: why.clone(), lasting });
                }
                self.stop_unheard(now, &locks);
            }
        }
    }

    /// These locks hear nothing: what this client has of them does not linger.
    fn stop_unheard(&mut self, now: Instant, locks: &[LockId]) {
        self.stop_lingering_of(now, |lock| locks.contains(&lock));
    }

    /// See [`Session::handle_unsubscribed`](crate::session::Session::handle_unsubscribed).
    pub(crate) fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let spread = || self.rng.f64();
        self.subscriptions.unsubscribed(now, channel, &result, spread, &mut self.out, &mut self.timers);
    }

    /// A connection to a server stands, where there was none or `again` where there was one before.
    pub(super) fn server_connected(&mut self, now: Instant, server: String, again: bool) {
        let ended = self.outages.end(&server);
        let out_for = ended.map(|outage| now.since(outage.since()));
        self.out.tell(Event::Connected { server, again, out_for });
    }

    /// Others have what the server had.
    pub(super) fn server_retired(&mut self, now: Instant, server: String) {
        let ended = self.outages.end(&server);
        let out_for = ended.map(|outage| now.since(outage.since()));
        self.out.tell(Event::Retired { server, out_for });
    }

    /// A server cannot be reached, and could not for `lost_for`.
    pub(super) fn server_out_of_reach(
        &mut self,
        now: Instant,
        server: String,
        why: String,
        lost_for: Duration,
        slots: Option<Vec<u16>>,
    ) {
        self.outages.end(&server);
        let outage = Outage::new(server.clone(), now - lost_for, why.clone(), slots);
        let concerned = self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.is_live() && !hold.is_degraded());
        let (mut holds, mut first) = (0, Instant::FAR_FUTURE);
        for hold in concerned.filter(|hold| outage.concerns(self.locks[hold.lock()].name().key())) {
            holds += 1;
            first = first.min(hold.cell().deadline());
        }
        let first_lost_in = (first != Instant::FAR_FUTURE).then(|| first.since(now));
        self.outages.begin(outage);
        self.out.tell(Event::OutOfReach { server, why, holds, first_lost_in });
        let waited_for: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        waited_for.into_iter().for_each(|lock| self.set_lock_timer(lock));
        let open = self.requests.acquires().filter(|(_, acquire)| acquire.is_open());
        let open: Vec<_> = open.map(|(ticket, _)| ticket).collect();
        open.into_iter().for_each(|ticket| self.set_request_timer(now, ticket));
    }

    /// Notices may have been missed: every contender that sleeps tries again, not all at the same instant.
    fn all_try_again(&mut self, now: Instant) {
        let locks: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        for lock in locks {
            let at = now + self.jitter(Duration::from_millis(50));
            self.locks[lock].note_missed_notices(at);
            self.set_lock_timer(lock);
        }
    }

    /// See [`Session::handle_met`](crate::session::Session::handle_met).
    pub(crate) fn handle_met(&mut self, publish: Bytes) {
        self.settings.publish = publish;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::hold_cell::HoldCell;
    use crate::link::LinkEvent;
    use crate::name;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::Step;
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::sync::Arc;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Acquires a lock for so many milliseconds.
    fn holds(session: &mut Session, name: &str, left: i64) -> Arc<HoldCell> {
        let name = LockName::new("", name).expect("a name");
        let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(30)));
        let Step::Send(flight, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
        session.handle_called(NOW, flight, Ok(Reply::Array([1, left, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(granted))) = session.step_acquire(NOW, ticket, Waker::noop()) else {
            panic!("it is granted")
        };
        granted.cell
    }

    fn out(session: &mut Session, server: &str, slots: Option<Vec<u16>>) {
        let (server, why, lost_for) = (server.to_owned(), "refused".to_owned(), Duration::from_millis(300));
        session.handle_event(NOW, LinkEvent::OutOfReach { server, why, lost_for, slots });
    }

    fn events(session: &mut Session) -> Vec<Event> {
        std::iter::from_fn(|| session.poll_event()).collect()
    }

    #[test]
    fn outage_tells_the_holds_at_stake_and_the_first_to_be_lost() {
        let mut session = session();
        holds(&mut session, "{a}1", 20_000);
        let first = holds(&mut session, "{a}2", 10_000);
        holds(&mut session, "{a}3", 30_000);
        holds(&mut session, "{b}", 5_000);
        events(&mut session);
        out(&mut session, "one", Some(vec![name::slot(b"{a}1")]));
        let told = events(&mut session);
        let [Event::OutOfReach { holds: 3, first_lost_in, .. }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(*first_lost_in, Some(first.deadline().since(NOW)));
        out(&mut session, "other", Some(Vec::new()));
        let told = events(&mut session);
        assert!(matches!(told.as_slice(), [Event::OutOfReach { holds: 0, first_lost_in: None, .. }]), "{told:?}");
    }

    #[test]
    fn outage_told_twice_ends_once_and_others_go_on() {
        let mut session = session();
        let later = NOW + Duration::from_millis(700);
        let told_of = |server: &str| [server.to_owned(), server.to_owned()];
        for retired in [false, true] {
            out(&mut session, "one", None);
            out(&mut session, "one", None);
            out(&mut session, "other", None);
            events(&mut session);
            for (server, awaited) in told_of("one").into_iter().zip([Some(Duration::from_secs(1)), None]) {
                let event =
                    if retired { LinkEvent::Retired { server } } else { LinkEvent::Connected { server, again: true } };
                session.handle_event(later, event);
                let told = events(&mut session);
                let [Event::Connected { out_for, .. } | Event::Retired { out_for, .. }] = told.as_slice() else {
                    panic!("{told:?}")
                };
                assert_eq!(*out_for, awaited, "from when its connection was lost");
            }
            let outages = &mut session.parts.outages;
            assert!(outages.end("other").is_some() && outages.of(b"stock").is_none(), "{outages:?}");
        }
    }
}
