//! Which servers are out of reach, by what the link says: a waiter that sleeps sends nothing, and would not know.

use super::ids::LockId;
use super::lock::Phase;
use super::request::Trouble;
use super::{Event, Session};
use crate::link::LinkError;
use crate::name;
use crate::time::Instant;
use std::time::Duration;

/// A server that cannot be reached.
#[derive(Debug)]
pub(super) struct Outage {
    server: String,
    /// When its connection was lost.
    pub(super) since: Instant,
    why: String,
    /// The slots that it owns, in order; `None` where it has them all.
    slots: Option<Vec<u16>>,
}

impl Outage {
    fn concerns(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.binary_search(&name::slot(key)).is_ok())
    }
}

impl Session {
    /// A connection to a server stands, where there was none or `again` where there was one before.
    pub(super) fn server_connected(&mut self, now: Instant, server: String, again: bool) {
        let ended = self.end_outage(&server);
        let out_for = ended.map(|outage| now.since(outage.since));
        self.out.tell(Event::Connected { server, again, out_for });
    }

    /// Others have what the server had.
    pub(super) fn server_retired(&mut self, now: Instant, server: String) {
        let ended = self.end_outage(&server);
        let out_for = ended.map(|outage| now.since(outage.since));
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
        self.end_outage(&server);
        let outage = Outage { server: server.clone(), since: now - lost_for, why: why.clone(), slots };
        let concerned = self.holds.values().filter(|hold| hold.is_live() && !hold.degraded);
        let (mut holds, mut first) = (0, Instant::FAR_FUTURE);
        for hold in concerned.filter(|hold| outage.concerns(self.locks[hold.lock].name.key())) {
            holds += 1;
            first = first.min(hold.cell.deadline());
        }
        let first_lost_in = (first != Instant::FAR_FUTURE).then(|| first.since(now));
        self.outages.push(outage);
        self.out.tell(Event::OutOfReach { server, why, holds, first_lost_in });
        let waited_for: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        waited_for.into_iter().for_each(|lock| self.set_lock_timer(lock));
    }

    fn end_outage(&mut self, server: &str) -> Option<Outage> {
        let at = self.outages.iter().position(|outage| outage.server == server)?;
        Some(self.outages.swap_remove(at))
    }

    /// The outage that keeps the server of a lock out of reach.
    pub(super) fn outage_of(&self, lock: LockId) -> Option<&Outage> {
        let key = self.locks.get(lock)?.name.key();
        self.outages.iter().find(|outage| outage.concerns(key))
    }

    /// Since when the server has not done its part for those who wait for a lock: as their attempts have shown, and while they sleep as the
    /// link says.
    pub(super) fn trouble_since(&self, lock: LockId) -> Option<Instant> {
        let line = self.locks.get(lock)?;
        let sleeps = matches!(line.phase, Phase::Sleeping(_) | Phase::Subscribing);
        let told = self.outage_of(lock).filter(|_| sleeps).map(|outage| outage.since);
        [line.trouble.since, told].into_iter().flatten().min()
    }

    /// The same in words.
    pub(super) fn trouble_in_words(&self, lock: LockId) -> String {
        self.with_outage(lock, &self.locks[lock].trouble)
    }

    /// The trouble in words. A waiter may have met a reply that was lost first: why the server is not connected to since then is told too.
    pub(super) fn with_outage(&self, lock: LockId, trouble: &Trouble) -> String {
        let Some(outage) = self.outage_of(lock) else { return trouble.in_words() };
        let told = LinkError::NotSent(format!("not connected to {}: {}", outage.server, outage.why)).to_string();
        match trouble.since {
            None => told,
            Some(_) if trouble.in_words().contains(&outage.why) => trouble.in_words(),
            Some(_) => format!("{}; {told}", trouble.in_words()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::hold_cell::HoldCell;
    use crate::link::{Epoch, LinkEvent, Plane};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::{AcquireRequest, Step, Via};
    use crate::settings::Settings;
    use std::sync::Arc;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const VIA: Via = Via { plane: Plane::Foreground, epoch: Epoch(1) };

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Acquires a lock for so many milliseconds.
    fn holds(session: &mut Session, name: &str, left: i64) -> Arc<HoldCell> {
        let name = LockName::new("", name).expect("a name");
        let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(30)));
        let Step::Send(flight, _) = session.poll_acquire(NOW, ticket, VIA, Waker::noop()) else { panic!("it asks") };
        session.handle_reply(NOW, ticket, flight, Ok(Reply::Array([1, left, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(granted))) = session.poll_acquire(NOW, ticket, VIA, Waker::noop()) else {
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
    fn what_is_at_stake_is_what_that_server_has_and_the_first_of_it_to_be_lost() {
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
    fn an_outage_that_was_told_twice_ends_once_and_that_of_another_server_goes_on() {
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
            assert_eq!(session.outages.iter().map(|outage| outage.server.as_str()).collect::<Vec<_>>(), ["other"]);
            session.handle_event(later, LinkEvent::Connected { server: "other".to_owned(), again: true });
            events(&mut session);
        }
    }
}
