//! Settling: making sure that no copy of a call can be applied any more.

use crate::link::{Epoch, LinkError, Plane};
use crate::name;
use crate::owner::HoldNumber;
use crate::session::hold::Hold;
use crate::session::hold::change::Change;
use crate::session::parts::Parts;
use crate::session::settlements::Scope;
use crate::session::stalled_calls::Probe;
use crate::session::{Action, CallId, FlightId};
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;

impl Parts {
    /// The hash slot of a key on a cluster; elsewhere all have one number.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        if self.settings.cluster { name::slot(key) } else { 0 }
    }

    fn send_settle(&mut self, scope: Scope) {
        let id = CallId(self.next_id());
        if let Some(key) = self.settlements.begin(scope, id) {
            self.out.act(Action::Settle { id, plane: scope.0, epoch: scope.1, key });
        }
    }

    /// Settles the call of a hold that was begun on `plane` in `epoch`.
    pub(super) fn settle(&mut self, plane: Plane, epoch: Epoch, key: Bytes, number: HoldNumber) {
        let scope = (plane, epoch, self.slot_of(&key));
        if self.settlements.add(scope, key, number) {
            self.send_settle(scope);
        }
    }

    /// No reply will come, or no request waits for it: nothing is sent for this hold until it is settled.
    pub(super) fn begin_settling(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let Some((plane, epoch)) = hold.begin_settling() else { return };
        let key = self.locks[hold.lock()].name().to_key();
        self.settle(plane, epoch, key, number);
    }

    /// Tries settlements again that have failed.
    pub(super) fn retry_settlements(&mut self, now: Instant) {
        for scope in self.settlements.due(now) {
            self.send_settle(scope);
        }
    }

    /// See [`Session::handle_probed`](crate::session::Session::handle_probed).
    ///
    /// From now on the future of an answered call has `(WaitPolicy::unpolled + late) * 2^takeovers`, with at most eight doublings. `late` is
    /// twice the time that the probe took, and at most [`Settings::LATE_AT_MOST`].
    pub(crate) fn handle_probed(&mut self, now: Instant, id: CallId, result: Result<(), LinkError>) {
        let Some(probe) = self.stalled.end_probe(id) else { return };
        if result.is_err() {
            return;
        }
        // The foreground's answers come by the executor of the callers: where that is late for this one, it is late for their futures.
        let late = (now.since(probe.begun()) * 2).min(Settings::LATE_AT_MOST);
        for (sent_at, number, flight) in self.stalled.take_all() {
            let Some(last_sent) = self.last_sent(number, flight) else { continue };
            let covered = sent_at.max(last_sent) <= probe.begun() && self.is_under(number, &probe);
            if covered {
                let unpolled = self.protocol_of(number).wait_policy().unpolled(&self.settings);
                let patience = (unpolled + late) * (1 << self.takeovers_of(number).min(8));
                self.stalled.note_answered(now + patience, number, flight, probe.begun());
            } else {
                self.stalled.watch(sent_at, number, flight);
            }
        }
    }

    pub(super) fn send_probe(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let Some((plane, epoch)) = hold.change().map(Change::route) else { return };
        let key = self.locks[hold.lock()].name().to_key();
        let slot = self.slot_of(&key);
        let id = CallId(self.next_id());
        self.stalled.begin_probe(Probe::new(id, now, plane, epoch, slot));
        self.out.act(Action::Probe { id, plane, epoch, key });
    }

    fn is_under(&self, number: HoldNumber, probe: &Probe) -> bool {
        self.holds.get(number).is_some_and(|hold| {
            let slot = self.slot_of(self.locks[hold.lock()].name().key());
            hold.change().is_some_and(|change| probe.covers(change.route(), slot))
        })
    }

    /// How often the background has taken a call of the request behind a hold's change over: each time it is left more time to be polled, so
    /// that a caller on a slow executor gets through in the end.
    fn takeovers_of(&self, number: HoldNumber) -> u32 {
        let by = self.holds.get(number).and_then(Hold::change).and_then(Change::by);
        by.and_then(|ticket| self.requests.acquire(ticket)).map_or(0, |acquire| acquire.takeovers())
    }

    /// When a call that may still be answered was sent last.
    pub(super) fn last_sent(&self, number: HoldNumber, flight: FlightId) -> Option<Instant> {
        let hold = self.holds.get(number).filter(|hold| hold.is_flying(flight))?;
        Some(hold.change()?.last_sent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::Settled;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::{AcquireRequest, Session, Step, Ticket, Via};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Sends the first acquire of a lock, and drops its future.
    fn drops_an_acquire(session: &mut Session, lock: &str) {
        let name = LockName::new("", lock).expect("a name");
        let ticket: Ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
        let step = session.poll_acquire(NOW, ticket, via, Waker::noop());
        assert!(matches!(step, Step::Send(..)), "a free lock is asked for at once: {step:?}");
        session.abandon_acquire(NOW, ticket);
    }

    /// The actions to be taken now: the settlements, and the locks that are released.
    fn actions(session: &mut Session) -> (Vec<CallId>, Vec<Bytes>) {
        let (mut settlements, mut released) = (Vec::new(), Vec::new());
        while let Some(action) = session.poll_action() {
            match action {
                Action::Settle { id, .. } => settlements.push(id),
                Action::Call { call, .. } => released.push(call.keys()[0].clone()),
                Action::Probe { .. } | Action::Subscribe { .. } | Action::Unsubscribe { .. } => {}
            }
        }
        (settlements, released)
    }

    #[test]
    fn call_during_a_settlement_waits_for_its_own() {
        let mut session = session();
        drops_an_acquire(&mut session, "a");
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0));
        drops_an_acquire(&mut session, "b");
        assert_eq!(actions(&mut session), (vec![], vec![]), "one settlement at a time");
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        let (settlements, released) = actions(&mut session);
        assert_eq!(released, [Bytes::from_static(b"a")], "the second one was sent after the settlement");
        assert_eq!(settlements.len(), 1);
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session), (vec![], vec![Bytes::from_static(b"b")]));
    }

    #[test]
    fn late_hold_of_a_failed_settlement_joins_the_next() {
        let mut session = session();
        drops_an_acquire(&mut session, "a");
        let settlements = actions(&mut session).0;
        drops_an_acquire(&mut session, "b");
        session.handle_settled(NOW, settlements[0], Err(LinkError::NotSent("no connection".to_owned())));
        let later = NOW + Duration::from_secs(1);
        session.handle_timeout(later);
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0), "one for both");
        session.handle_settled(later, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session).1, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    }
}
