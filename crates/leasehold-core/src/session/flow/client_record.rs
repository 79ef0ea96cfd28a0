//! The writing and the removal of the client's record of itself, and what it says of locks.

use crate::command::record;
use crate::command::record::uses::{LockUse, MOST};
use crate::link::LinkError;
use crate::owner::OwnerId;
use crate::reply::Reply;
use crate::session::hold::Hold;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::pending::Purpose;
use crate::session::request::acquire::Acquire;
use crate::session::{AcquireRequest, Patience};
use crate::time::Instant;
use std::collections::HashSet;
use std::time::Duration;

/// How long a client has held a lock, or waited for it, before its record says so.
const LASTING: Duration = Duration::from_secs(1);

/// The most requests of a record. The rest of it is for holds.
const MOST_REQUESTS: usize = MOST / 2;

/// The owners that go on only when the request is over.
fn blocked(wish: &AcquireRequest) -> impl Iterator<Item = OwnerId> {
    wish.owner.into_iter().chain(wish.outer.iter().flat_map(|outer| outer.0.iter().copied()))
}

/// The `most` that come first by their keys, in order. There may be many more.
fn first<K: Ord, T>(most: usize, all: impl Iterator<Item = (K, T)>) -> Vec<T> {
    let mut all: Vec<_> = all.collect();
    if all.len() > most {
        all.select_nth_unstable_by(most, |(one, _), (other, _)| one.cmp(other));
        all.truncate(most);
    }
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    all.into_iter().map(|(_, value)| value).collect()
}

impl Parts {
    /// See [`Session::announce`](crate::session::Session::announce).
    pub(crate) fn announce(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.record.keep(now, record, lifetime);
    }

    /// See [`Session::retract`](crate::session::Session::retract).
    pub(crate) fn retract(&mut self, now: Instant) {
        if self.record.give_up() {
            self.send_by_background(now, record::remove(&self.client), Purpose::Nothing);
        }
    }

    /// Whether the client holds nothing and waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.requests.len() == 0
    }

    /// Writes the record if it is time to, or if it has to say something else of locks.
    pub(super) fn record_is_due(&mut self, now: Instant) {
        if !self.record.is_due(now, self.is_idle()) {
            return;
        }
        let uses = self.lock_uses(now);
        if let Some(call) = self.record.write(now, &self.client, uses) {
            self.send_by_background(now, call, Purpose::Record);
        }
    }

    /// The locks that the client has waited for, and has held, for a while. Requests come first whose owners hold something, because they
    /// may be part of a deadlock; among these, and among the others, the oldest. The holds of those owners follow, and then other holds.
    fn lock_uses(&self, now: Instant) -> Vec<LockUse> {
        let has_lasted = |since: Instant| now.since(since) >= LASTING;
        let owning: HashSet<OwnerId> =
            self.owners.iter().filter(|(.., owned)| !owned.holds().is_empty()).map(|(_, owner, _)| owner).collect();
        let requests = self.requests.acquires().filter(|(_, acquire)| {
            acquire.waits() && acquire.wish().patience != Patience::Try && has_lasted(acquire.started())
        });
        let requests = requests.map(|(ticket, acquire)| {
            let may_lock = blocked(acquire.wish()).any(|owner| owning.contains(&owner));
            ((!may_lock, acquire.started(), ticket), acquire)
        });
        let requests = first(MOST_REQUESTS, requests);
        let waiting: HashSet<OwnerId> = requests.iter().flat_map(|acquire| blocked(acquire.wish())).collect();
        let holds = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_live() && !hold.is_degraded() && has_lasted(hold.cell().acquired_at()));
        let holds = holds.map(|(number, hold)| {
            let may_lock = hold.owner().is_some_and(|owner| waiting.contains(&owner));
            ((!may_lock, hold.cell().acquired_at(), number), hold)
        });
        let holds = first(MOST - requests.len(), holds);
        let of_request = |acquire: &Acquire| {
            let owners = blocked(acquire.wish()).map(OwnerId::number).collect();
            self.lock_use(acquire.lock(), None, owners, now.since(acquire.started()), None)
        };
        let of_hold = |hold: &Hold| {
            let field = String::from_utf8_lossy(&hold.field()).into_owned();
            let owners = hold.owner().into_iter().map(OwnerId::number).collect();
            self.lock_use(hold.lock(), Some(field), owners, now.since(hold.cell().acquired_at()), hold.renewed_lease())
        };
        requests.into_iter().map(of_request).chain(holds.into_iter().map(of_hold)).collect()
    }

    fn lock_use(
        &self,
        lock: LockId,
        hold: Option<String>,
        owners: Vec<u64>,
        lasted: Duration,
        lease: Option<Duration>,
    ) -> LockUse {
        let state = &self.locks[lock];
        let key = String::from_utf8_lossy(state.name().key()).into_owned();
        LockUse { key, kind: state.kind(), hold, owners, lasted, lease }
    }

    /// Takes the answer to a writing of the record.
    pub(super) fn handle_recorded(&mut self, now: Instant, result: &Result<Reply, LinkError>) {
        self.record.written(now, result.as_ref().is_ok_and(|reply| record::put_done(reply).is_ok()));
    }
}
