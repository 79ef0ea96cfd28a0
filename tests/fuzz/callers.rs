//! Those who want locks of a session: what they ask for, and what is said to their calls.

use super::answers::{answer, promised};
use super::{Flight, World};
use crate::source::Source;
use leasehold_core::call::Replicas;
use leasehold_core::command::Kind;
use leasehold_core::name::LockName;
use leasehold_core::session::{AcquireRequest, Fallback, LingerTime, Outgoing, Patience};
use std::task::{Poll, Waker};
use std::time::Duration;

impl World {
    /// A wish for any lock, or for one that is held already.
    pub(super) fn wish(&self, source: &mut Source<'_>) -> AcquireRequest {
        let guards = self.guards.len();
        let known = (guards > 0 && source.below(2) == 0).then(|| &self.guards[source.below(guards)]);
        let lock = source.below(2);
        let (name, kind) = match (known, self.kinds[lock]) {
            (Some(guard), _) => (guard.name.clone(), guard.kind),
            (None, usual) => {
                let kind = match (usual, source.below(8)) {
                    (_, 7) => source.one_of(&Kind::ALL),
                    (Kind::Read | Kind::Write, choice) => [Kind::Read, Kind::Write][choice % 2],
                    _ => usual,
                };
                (LockName::new("", ["a", "b"][lock]).expect("the name is valid"), kind)
            }
        };
        let within = Duration::from_millis(100);
        let (replicas, fallback) = match source.below(8) {
            3 => (Some(Replicas { at_least: 1, within }), Fallback::Fail),
            4 => (Some(Replicas { at_least: 2, within }), Fallback::Fail),
            5 => (None, Fallback::PassThrough),
            6 | 7 => (None, Fallback::Local),
            _ => (None, Fallback::Fail),
        };
        let soon = self.now + Duration::from_secs(1);
        AcquireRequest {
            owner: match known {
                Some(guard) if source.below(4) > 0 => guard.owner,
                _ => source.one_of(&[None, Some(self.owners[0]), Some(self.owners[0]), Some(self.owners[1])]),
            },
            reenter: known.filter(|_| source.below(4) == 0).map(|guard| guard.hold),
            max_hold: source.one_of(&[None, None, Some(Duration::from_millis(400)), Some(Duration::from_secs(2))]),
            renewed: source.below(4) > 0,
            patience: source.one_of(&[Patience::Forever, Patience::Try, Patience::Until(soon)]),
            replicas,
            fallback,
            linger: LingerTime::new(source.one_of(&[0, 50, 1_000].map(Duration::from_millis))),
            ..AcquireRequest::new(name, kind, Duration::from_secs(3))
        }
    }

    /// Something comes for the call of a caller, if one is on the way.
    pub(super) fn reply(&mut self, source: &mut Source<'_>, index: usize) {
        let caller = &mut self.callers[index];
        let Some(Flight { id, sent, call }) = caller.flight.take() else { return };
        let result = answer(source, &call);
        let told = result.as_ref().ok().filter(|_| self.session.awaits(id));
        caller.promised = told.and_then(|reply| promised(&call, sent, &[caller.wish.kind], reply));
        self.heard = caller.promised;
        self.session.handle_called(self.now, id, result);
        self.late.push((id, call));
    }

    pub(super) fn poll(&mut self, index: usize) {
        let caller = &mut self.callers[index];
        if let Some(flight) = &caller.flight {
            if self.session.awaits(flight.id) {
                return;
            }
            // The session has given the call up.
            self.late.extend(caller.flight.take().map(|flight| (flight.id, flight.call)));
        }
        match self.session.poll_acquire(self.now, caller.ticket, Waker::noop()) {
            Poll::Pending => {
                while let Some(Outgoing { id, call, of_request, .. }) = self.session.poll_call() {
                    if of_request {
                        caller.sent = Some(self.now);
                        caller.flight = Some(Flight { id, sent: self.now, call });
                    } else {
                        self.calls.push((id, self.now, call));
                    }
                }
            }
            Poll::Ready(result) => {
                let caller = self.callers.swap_remove(index);
                if let Ok(Some(granted)) = result {
                    self.grant(&caller, &granted);
                }
            }
        }
    }
}
