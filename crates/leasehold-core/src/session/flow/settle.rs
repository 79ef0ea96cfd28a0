//! Settling: making sure that the server can no longer apply any copy of a call.

use crate::name;
use crate::owner::HoldNumber;
use crate::session::parts::Parts;
use crate::session::settlements::Scope;
use crate::session::{Action, CallId};
use crate::time::Instant;
use bytes::Bytes;

impl Parts {
    /// The hash slot of a key on a cluster; 0 without a cluster.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        if self.settings.cluster { name::slot(key) } else { 0 }
    }

    fn send_settle(&mut self, scope: Scope) {
        let id = CallId(self.next_id());
        if let Some(key) = self.settlements.begin(scope, id) {
            self.out.act(Action::Settle { id, key, durable: scope.1 });
        }
    }

    /// Settles the call that a hold sent.
    pub(super) fn settle(&mut self, key: Bytes, durable: bool, number: HoldNumber) {
        let scope = (self.slot_of(&key), durable);
        if self.settlements.add(scope, key, number) {
            self.send_settle(scope);
        }
    }

    /// Settles a hold's call after its reply was lost. The hold sends nothing until then.
    pub(super) fn begin_settling(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let Some(durable) = hold.begin_settling() else { return };
        let key = self.locks[hold.lock()].name().to_key();
        self.settle(key, durable, number);
    }

    /// Retries failed settlements.
    pub(super) fn retry_settlements(&mut self, now: Instant) {
        for scope in self.settlements.due(now) {
            self.send_settle(scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, Session, Ticket};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Sends a lock's first acquire, drops its future, and loses the reply.
    fn loses_a_reply(session: &mut Session, lock: &str) {
        let name = LockName::new("", lock).expect("a name");
        let ticket: Ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(id, _) = step else { panic!("a free lock is asked for at once: {step:?}") };
        session.abandon_acquire(NOW, ticket);
        session.handle_called(NOW, id, Err(LinkError::Unknown("the connection was lost".to_owned())));
    }

    /// The settlements and the released locks among the next actions.
    fn actions(session: &mut Session) -> (Vec<CallId>, Vec<Bytes>) {
        let (mut settlements, mut released) = (Vec::new(), Vec::new());
        while let Some(action) = session.poll_deed() {
            match action {
                Deed::Settle { id, .. } => settlements.push(id),
                Deed::Call { call, .. } => released.push(call.keys()[0].clone()),
                Deed::Subscribe { .. } | Deed::Unsubscribe { .. } => {}
            }
        }
        (settlements, released)
    }

    #[test]
    fn call_during_a_settlement_waits_for_its_own() {
        let mut session = session();
        loses_a_reply(&mut session, "a");
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0));
        loses_a_reply(&mut session, "b");
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
        loses_a_reply(&mut session, "a");
        let settlements = actions(&mut session).0;
        loses_a_reply(&mut session, "b");
        session.handle_settled(NOW, settlements[0], Err(LinkError::NotSent("no connection".to_owned())));
        let later = NOW + Duration::from_secs(1);
        session.handle_timeout(later);
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0), "one for both");
        session.handle_settled(later, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session).1, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    }
}
