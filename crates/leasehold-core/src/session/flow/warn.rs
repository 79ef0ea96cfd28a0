//! What a waiter's user is warned of: a wait that may never end.
//!
//! The session cannot tell at once whether a wait for its own client is contention of its tasks or a task that waits for itself, because no
//! hold names a task. A wait that ends with a release was contention. So it is an alarm only where one hold of the client has lasted for as
//! long as the wait, and the wait for longer than a lease.

use crate::command::WaitPolicy;
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::session::hold::Hold;
use crate::session::ids::LockId;
use crate::session::lock::Anomaly;
use crate::session::parts::Parts;
use crate::session::request::acquire::{Alarm, LocalPlace};
use crate::session::{Event, Patience, Ticket};
use crate::time::Instant;
use std::time::Duration;

/// There is no more than one alarm for a lock in this time, and none before where there are no leases.
const PAUSE: Duration = Duration::from_secs(60);

impl Parts {
    /// A request waits: says so where its own client holds the lock, or its other half.
    pub(super) fn note_own_client(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, alarm, started) = (acquire.lock(), acquire.alarm(), acquire.started());
        let leased = self.locks[lock].protocol().renewal().is_some();
        let long = now >= started + if leased { acquire.wish().lease } else { PAUSE };
        let waits = acquire.place() == LocalPlace::Line && acquire.wish().patience != Patience::Try;
        if !waits || alarm == Alarm::Raised || (alarm == Alarm::Noted && !long) {
            return;
        }
        if !self.locks.same_name(lock).any(|at| self.locks[at].is_held()) {
            return;
        }
        let name = self.locks[lock].name().clone();
        if alarm == Alarm::Silent && self.locks[lock].note_own_wait(now) {
            self.out.tell(Event::QueuesBehindOwnClient { name: name.clone() });
        }
        let raised = long && self.locks[lock].may_alarm(now, PAUSE) && self.is_held_since(lock, started);
        if raised {
            self.locks[lock].note_alarm(now);
            self.out.tell(Event::WaitsForOwnClient { name });
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.set_alarm(if raised { Alarm::Raised } else { Alarm::Noted });
        }
    }

    /// See [`Session::is_held_by`](crate::session::Session::is_held_by).
    pub(crate) fn is_held_by(&self, name: &LockName, owners: &[OwnerId]) -> bool {
        let locks = self.locks.of_name(name).filter(|lock| self.locks[*lock].protocol().reenters());
        let mut holds = locks.flat_map(|lock| owners.iter().filter_map(move |owner| self.owners.hold(lock, *owner)));
        holds.any(|number| self.holds.get(number).is_some_and(Hold::is_live))
    }

    /// Whether one hold of this client has the lock, or its other half, since then.
    fn is_held_since(&self, lock: LockId, since: Instant) -> bool {
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        self.holds
            .iter()
            .any(|(_, hold)| same.contains(&hold.lock()) && hold.is_live() && hold.cell().acquired_at() <= since)
    }

    /// Says once what a waiter waits for that may never come, until an attempt finds it otherwise. A try waits for nothing.
    pub(super) fn note_anomaly(&mut self, ticket: Ticket, found: Option<Anomaly>) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, waits) = (acquire.lock(), acquire.wish().patience != Patience::Try);
        let state = &mut self.locks[lock];
        match state.note_anomaly(found, waits) {
            Some(Anomaly::Endless) => self.out.tell(Event::Endless { name: state.name().clone() }),
            Some(Anomaly::Unset) => self.out.tell(Event::Unset { name: state.name().clone() }),
            None => {}
        }
    }

    /// Notes whether the server has the lock without a time to live: no lease ends it. A client that keeps to the layout leaves no such
    /// lock behind. A kind without a lease, or one that says otherwise how long it lasts, is not meant.
    pub(super) fn note_endless(&mut self, ticket: Ticket, left: Option<Duration>) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let protocol = self.locks[acquire.lock()].protocol();
        let has_lease = protocol.wait_policy() == WaitPolicy::Exclusive || protocol.shares_key();
        self.note_anomaly(ticket, (has_lease && left.is_none()).then_some(Anomaly::Endless));
    }
}

#[cfg(test)]
mod tests {
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::Step;
    use crate::session::{AcquireRequest, Event, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    #[test]
    fn contention_within_a_client_is_told_once_a_second() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let wish = || AcquireRequest::new(name.clone(), Kind::Lock, Duration::from_secs(30));
        let holder = session.acquire(now, wish());
        let Step::Send(flight, _) = session.step_acquire(now, holder, Waker::noop()) else { panic!("it asks") };
        session.handle_called(now, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
        assert!(matches!(session.step_acquire(now, holder, Waker::noop()), Step::Done(Ok(Some(_)))));
        let contender = session.acquire(now, wish());
        let Step::Send(flight, _) = session.step_acquire(now, contender, Waker::noop()) else { panic!("it asks") };
        session.handle_called(now, flight, Ok(Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec())));
        let mut told = Vec::new();
        for _ in 0..20 {
            let waits = session.acquire(now, wish());
            assert!(matches!(session.step_acquire(now, waits, Waker::noop()), Step::Wait));
            let events = std::iter::from_fn(|| session.poll_event());
            told.push(events.filter(|event| matches!(event, Event::QueuesBehindOwnClient { .. })).count());
            now = now + Duration::from_millis(100);
        }
        assert_eq!((told[0], told[10], told.iter().sum::<usize>()), (1, 1, 2), "{told:?}");
    }
    #[test]
    fn wait_for_the_own_client_is_told_once_a_minute_for_a_lock() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let mut alarms = Vec::new();
        let ask = |session: &mut Session, now: Instant, lease: Duration| {
            let ticket = session.acquire(now, AcquireRequest::new(name.clone(), Kind::Lock, lease));
            (ticket, session.step_acquire(now, ticket, Waker::noop()))
        };
        let (holder, Step::Send(flight, _)) = ask(&mut session, now, Duration::from_secs(600)) else {
            panic!("it asks")
        };
        session.handle_called(now, flight, Ok(Reply::Array([1, 600_000, 0].map(Reply::Int).to_vec())));
        assert!(matches!(session.step_acquire(now, holder, Waker::noop()), Step::Done(Ok(Some(_)))));
        let lock = session.parts.locks.of_name(&name).next().expect("a lock");
        let earlier = Instant::from_nanos(999_999_999);
        assert!(session.parts.is_held_since(lock, now));
        assert!(!session.parts.is_held_since(lock, earlier), "a wait that began before the hold is contention");
        let (contender, mut step) = ask(&mut session, now, Duration::from_secs(1));
        let waiters = [(); 3].map(|()| ask(&mut session, now, Duration::from_secs(1)).0);
        for _ in 0..4 {
            if let Step::Send(flight, _) = step {
                let busy = Reply::Array([0, 600_000, 0].map(Reply::Int).to_vec());
                session.handle_called(now, flight, Ok(busy));
            }
            step = session.step_acquire(now, contender, Waker::noop());
            for waiter in waiters {
                session.step_acquire(now, waiter, Waker::noop());
            }
            let events = std::iter::from_fn(|| session.poll_event());
            alarms.push(events.filter(|event| matches!(event, Event::WaitsForOwnClient { .. })).count());
            now = now + Duration::from_secs(25);
            session.handle_timeout(now);
        }
        assert_eq!(alarms, [0, 1, 0, 0], "no more than one a minute, of four that wait");
    }
}
